//! From a witness to what is kept of it; from a report of the runtime to a finding.

use norns_model::{Bug, Witness};
use norns_replay::report::{Access, Deadlock, Race, Shape, Side, Waits};
use norns_replay::schedule::{Accesses, Way};
use norns_report::describe::is_of_the_system;
use norns_report::{AccessKind, Finding, Findings, Kind, Place, Predicted, Status, Steps};
use norns_trace::symbolise::Symboliser;
use norns_trace::{EventIndex, Trace};
use norns_wire::Code;
use serde::{Deserialize, Serialize};

use super::confirm::Tried;

/// A witness as it is kept: positions in the trace.
#[derive(Serialize, Deserialize)]
pub struct SavedWitness {
    pub format: u32,
    /// The file of the trace, in the same folder.
    pub trace: String,
    pub schedule: Vec<u32>,
    /// Whether a replay must also order conflicting plain accesses.
    pub ordered_accesses: bool,
    /// Whether threads linger at its places after the schedule, instead of being held.
    #[serde(default)]
    pub near: bool,
    /// Whether it was found by lingering at its places, without this schedule.
    #[serde(default)]
    pub hunted: bool,
    /// The seed of random priorities, if it was found with them.
    #[serde(default)]
    pub seed: Option<u64>,
    /// `race`, `lock-deadlock` or `stuck`.
    pub bug: String,
    pub events: Vec<u32>,
}

impl SavedWitness {
    pub fn of(tried: &Tried, trace: &str) -> Self {
        let witness = &tried.witness;
        let (bug, events) = match &witness.bug {
            Bug::Race { first, second } => ("race", vec![*first, *second]),
            Bug::LockDeadlock { blocked } => ("lock-deadlock", blocked.clone()),
            Bug::Stuck { blocked } => ("stuck", blocked.clone()),
        };
        let numbers = |events: &[EventIndex]| events.iter().map(|event| event.0).collect();
        Self {
            format: 1,
            trace: trace.into(),
            ordered_accesses: tried.way == Way::Schedule(Accesses::Ordered),
            near: tried.way == Way::Near,
            hunted: tried.way == Way::Hunt,
            seed: match tried.way {
                Way::Priorities(seed) => Some(seed),
                _ => None,
            },
            schedule: numbers(&witness.schedule),
            bug: bug.into(),
            events: numbers(&events),
        }
    }

    /// The way in which it was shown.
    pub fn way(&self) -> Way {
        match self.seed {
            Some(seed) => Way::Priorities(seed),
            None if self.hunted => Way::Hunt,
            None if self.near => Way::Near,
            None if self.ordered_accesses => Way::Schedule(Accesses::Ordered),
            None => Way::Schedule(Accesses::Free),
        }
    }

    pub fn witness(&self) -> Option<Witness> {
        let events: Vec<EventIndex> = self.events.iter().map(|&event| EventIndex(event)).collect();
        let bug = match (self.bug.as_str(), &events[..]) {
            ("race", &[first, second]) => Bug::Race { first, second },
            ("lock-deadlock", _) => Bug::LockDeadlock { blocked: events },
            ("stuck", _) => Bug::Stuck { blocked: events },
            _ => return None,
        };
        Some(Witness {
            schedule: self
                .schedule
                .iter()
                .map(|&event| EventIndex(event))
                .collect(),
            bug,
        })
    }
}

/// Makes findings of the witnesses of a recording.
pub fn predicted(trace: &Trace) -> Predicted<'_> {
    Predicted {
        trace,
        steps: Steps::WithoutAccesses,
        is_text: false,
    }
}

/// The waits of a deadlock without the joins that only follow from them: of a thread that waits,
/// but not for the joining one.
fn causes(deadlock: &Deadlock) -> Vec<&Waits> {
    let waits_of = |thread: &str| deadlock.waits.iter().find(|waits| waits.thread == thread);
    let waits_for_itself = |start: &Waits| {
        let mut ahead = vec![start];
        let mut seen = Vec::new();
        while let Some(waits) = ahead.pop() {
            for (holder, _) in &waits.held_by {
                if *holder == start.thread {
                    return true;
                }
                if !seen.contains(holder) {
                    seen.push(holder.clone());
                    ahead.extend(waits_of(holder));
                }
            }
        }
        false
    };
    let is_join = |waits: &Waits| waits.code == Code::Join;
    let all = deadlock.waits.iter();
    let causes: Vec<&Waits> = { all }
        .filter(|waits| !is_join(waits) || waits_for_itself(waits))
        .collect();
    if causes.is_empty() {
        deadlock.waits.iter().collect()
    } else {
        causes
    }
}

/// A deadlock that the runtime saw, with the places that it told.
pub fn deadlock(deadlock: &Deadlock, symbols: &mut Symboliser) -> Finding {
    let places = causes(deadlock).into_iter().map(|waits| {
        let access = match waits.code {
            Code::ReadLock => AccessKind::ReadLock,
            Code::Wait => AccessKind::Wait,
            Code::SemWait => AccessKind::SemWait,
            Code::BarrierExit | Code::BarrierEnter => AccessKind::Barrier,
            Code::Join => AccessKind::Join,
            Code::OnceBegin | Code::OncePass => AccessKind::Once,
            _ => AccessKind::Lock,
        };
        place_at(symbols, waits.pc, &waits.thread, access)
    });
    let kind = match deadlock.shape {
        Shape::Cycle => Kind::Deadlock,
        Shape::Stuck => Kind::Stuck,
    };
    seen(kind, places.collect())
}

/// A race that the detector saw.
pub fn race(race: &Race, symbols: &mut Symboliser) -> Finding {
    let mut place = |side: &Side| {
        let access = match side.access {
            Access::Read => AccessKind::Read,
            Access::Write => AccessKind::Write,
            Access::Free => AccessKind::Free,
            Access::AtomicRead => AccessKind::AtomicRead,
            Access::AtomicWrite => AccessKind::AtomicWrite,
        };
        place_at(symbols, side.pc, &side.thread, access)
    };
    let places = vec![place(&race.earlier), place(&race.later)];
    let frees = [&race.earlier, &race.later].map(|side| side.access == Access::Free);
    seen(Kind::of_race(frees), places)
}

/// A finding that the runtime has just told.
fn seen(kind: Kind, places: Vec<Place>) -> Finding {
    let mut finding = Finding {
        id: String::new(),
        kind,
        status: Status::Confirmed,
        places,
        witness: None,
        verdict: None,
        known: false,
    };
    finding.arrange();
    finding
}

fn place_at(symbols: &mut Symboliser, pc: u64, thread: &str, access: AccessKind) -> Place {
    let frames = symbols.frames(pc);
    let own = frames.iter().find(|frame| !is_of_the_system(frame));
    let frame = own.or(frames.first()).cloned().unwrap_or_default();
    Place {
        file: frame.file,
        line: frame.line,
        function: frame.function,
        thread: thread.into(),
        access,
    }
}

/// What makes two findings the same to a person: kind and places, whichever thread and order.
fn key(finding: &Finding) -> (Kind, Vec<(String, u32, AccessKind)>) {
    let mut places: Vec<_> = finding
        .places
        .iter()
        .map(|place| (place.file.clone(), place.line, place.access))
        .collect();
    places.sort();
    (finding.kind, places)
}

pub fn is_known(all: &Findings, finding: &Finding) -> bool {
    all.findings
        .iter()
        .any(|known| key(known) == key(finding) && known.status == Status::Confirmed)
}

/// Adds a finding, or makes a known one what is now known of it. False when it tells nothing new.
pub fn add(all: &mut Findings, finding: Finding) -> bool {
    let known = all
        .findings
        .iter_mut()
        .find(|known| key(known) == key(&finding));
    match known {
        Some(known) if finding.status < known.status => *known = finding,
        Some(_) => return false,
        None => all.findings.push(finding),
    }
    true
}
