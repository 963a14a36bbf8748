//! Findings that the runtime itself saw: a race of its detector, a hang.
//!
//! An operation that never returned is not in the trace. `Hang::in_trace` appends the blocked
//! operations, so that a hang is shown like any other finding: who holds what, and who waits for
//! it.

use std::collections::BTreeMap;

use norns_model::misuse::{How, Misuse};
use norns_predict::happens_before::UseAfterFree;
use norns_replay::report::{Access, Deadlock, Race, Shape, Side, Waits};
use norns_report::describe::{access_kind, is_of_the_system, object_name, shown_frame};
use norns_report::{AccessKind, Finding, Kind, Place, Status, Verdict};
use norns_trace::trace::Place as TracePlace;
use norns_trace::{Event, EventIndex, ObjectId, Op, PlaceId, SourcePlace, ThreadId, Touch, Trace};
use norns_wire::Code;

/// A deadlock that the program ran into.
#[derive(Clone, Debug)]
pub struct Hang {
    pub deadlock: Deadlock,
    /// The frames, innermost first, of the program counters at which threads wait.
    pub frames: BTreeMap<u64, Vec<SourcePlace>>,
}

impl Hang {
    pub fn finding(&self) -> Finding {
        let places = self.causes().into_iter().map(|waits| {
            // Which object or thread it is does not matter for what is done to it.
            let operation = match waits.code {
                Code::Join => Some(Op::Join(ThreadId(0))),
                code => Op::blocked_at(code, ObjectId(0)),
            };
            let access = operation.map_or(AccessKind::Lock, access_kind);
            place_at(self.frames_at(waits.pc), &waits.thread, access)
        });
        let kind = match self.deadlock.shape {
            Shape::Cycle => Kind::Deadlock,
            Shape::Stuck => Kind::Stuck,
        };
        observed(kind, places.collect())
    }

    /// The trace with the blocked operations of `finding` as its last events, one for every place.
    /// `None` when an object or thread of the hang is not in the trace.
    pub fn in_trace(&self, trace: &Trace, finding: &Finding) -> Option<Trace> {
        let mut trace = trace.clone();
        for place in &finding.places {
            let mut waits = self.deadlock.waits.iter();
            let waits = waits.find(|waits| waits.thread == place.thread)?;
            let event = Event {
                thread: thread(&trace, &waits.thread)?,
                op: operation(&trace, waits)?,
                place: PlaceId::from_index(trace.places.len()),
            };
            trace.places.push(TracePlace {
                pc: waits.pc,
                frames: self.frames_at(waits.pc).to_vec(),
            });
            trace.events.push(event);
        }
        Some(trace)
    }

    fn frames_at(&self, pc: u64) -> &[SourcePlace] {
        self.frames.get(&pc).map_or(&[], Vec::as_slice)
    }

    /// The waits without the joins that only follow from them: those of a thread that is blocked
    /// for another reason than the joining thread.
    fn causes(&self) -> Vec<&Waits> {
        let all = &self.deadlock.waits;
        let causes: Vec<&Waits> = all
            .iter()
            .filter(|waits| waits.code != Code::Join || self.waits_for_itself(waits))
            .collect();
        if causes.is_empty() {
            all.iter().collect()
        } else {
            causes
        }
    }

    fn waits_for_itself(&self, start: &Waits) -> bool {
        let waits_of = |thread: &str| {
            let mut all = self.deadlock.waits.iter();
            all.find(|waits| waits.thread == thread)
        };
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
    }
}

/// A race that the detector saw; `frames` gives the frames of a program counter.
pub fn race(race: &Race, mut frames: impl FnMut(u64) -> Vec<SourcePlace>) -> Finding {
    let mut place = |side: &Side| {
        let access = match side.access {
            Access::Read => AccessKind::Read,
            Access::Write => AccessKind::Write,
            Access::Free => AccessKind::Free,
            Access::AtomicRead => AccessKind::AtomicRead,
            Access::AtomicWrite => AccessKind::AtomicWrite,
        };
        place_at(&frames(side.pc), &side.thread, access)
    };
    let places = vec![place(&race.earlier), place(&race.later)];
    let accesses = [places[0].access, places[1].access];
    observed(Kind::of_race(accesses), places)
}

/// A misuse of a lock or condition in the recorded run.
pub fn misuse(trace: &Trace, misuse: &Misuse) -> Finding {
    let kind = match misuse.how {
        How::UnlockNotLocked => Kind::UnlockNotLocked,
        How::UnlockOfOther => Kind::UnlockOfOther,
        How::WaitNotLocked => Kind::WaitNotLocked,
        How::TwoMutexes => Kind::TwoMutexes,
        How::LeftLocked => Kind::LeftLocked,
        How::DestroyLocked => Kind::DestroyLocked,
        How::UseDestroyed => Kind::UseDestroyed,
        How::DestroyWaited => Kind::DestroyWaited,
        How::Contradicted => Kind::Contradicted,
        How::WaitOnce => Kind::WaitOnce,
        How::TestUnlocked => Kind::TestUnlocked,
    };
    let places = misuse.events.iter().map(|&index| {
        let event = &trace.events[index.index()];
        let frame = shown_frame(trace, index).cloned().unwrap_or_default();
        let access = match misuse.how {
            How::LeftLocked => AccessKind::Lock,
            How::WaitNotLocked | How::TwoMutexes | How::WaitOnce | How::TestUnlocked => {
                AccessKind::Wait
            }
            How::DestroyLocked | How::DestroyWaited => AccessKind::Destroy,
            How::UseDestroyed | How::Contradicted => AccessKind::Use,
            How::UnlockNotLocked | How::UnlockOfOther => AccessKind::Unlock,
        };
        Place {
            file: frame.file,
            line: frame.line,
            function: frame.function,
            thread: trace.thread(event.thread).name.clone(),
            access,
        }
    });
    let mut finding = observed(kind, places.collect());
    let object = object_name(trace, misuse.object);
    match misuse.how {
        // The program came there; that it goes wrong there takes a wake-up at a bad moment.
        How::WaitOnce | How::TestUnlocked => finding.status = Status::Predicted,
        How::UnlockNotLocked
        | How::UnlockOfOther
        | How::WaitNotLocked
        | How::DestroyLocked
        | How::LeftLocked
        | How::TwoMutexes
        | How::UseDestroyed
        | How::DestroyWaited
        | How::Contradicted => {
            finding.verdict = Some(Verdict::Confirmed(format!(
                "it happened in the recorded run, to {object}"
            )));
        }
    }
    finding.object = Some(object);
    finding
}

/// A use of memory that the recorded run had freed before.
pub fn use_after_free(trace: &Trace, found: &UseAfterFree) -> Finding {
    let place = |index: EventIndex| {
        let event = &trace.events[index.index()];
        let frame = shown_frame(trace, index).cloned().unwrap_or_default();
        let is_memory = Touch::of(event.op).is_some();
        Place {
            file: frame.file,
            line: frame.line,
            function: frame.function,
            thread: trace.thread(event.thread).name.clone(),
            access: if is_memory {
                access_kind(event.op)
            } else {
                AccessKind::Use
            },
        }
    };
    let places = vec![place(found.free), place(found.usage)];
    let kind = Kind::of_race([places[0].access, places[1].access]);
    let mut finding = observed(kind, places);
    finding.verdict = Some(Verdict::Observed(
        "the use came after the free, which is ordered before it".into(),
    ));
    finding
}

fn observed(kind: Kind, places: Vec<Place>) -> Finding {
    let mut finding = Finding {
        id: String::new(),
        kind,
        status: Status::Confirmed,
        places,
        witness: None,
        verdict: None,
        rule: None,
        region: None,
        known: false,
        object: None,
        consequence: None,
        variants: Vec::new(),
    };
    finding.arrange();
    finding
}

/// The innermost frame that is not in the system's headers or libraries.
fn place_at(frames: &[SourcePlace], thread: &str, access: AccessKind) -> Place {
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

fn thread(trace: &Trace, name: &str) -> Option<ThreadId> {
    let index = trace.threads.iter().position(|thread| thread.name == name);
    index.map(ThreadId::from_index)
}

fn operation(trace: &Trace, waits: &Waits) -> Option<Op> {
    let object = || {
        let mut objects = trace.objects.iter();
        let index = objects.rposition(|object| object.address == waits.object);
        index.map(ObjectId::from_index)
    };
    match waits.code {
        // The runtime numbers threads in its own way, but names the thread that is waited for.
        Code::Join => {
            let (joined, _) = waits.held_by.first()?;
            Some(Op::Join(thread(trace, joined)?))
        }
        code => Op::blocked_at(code, object()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait at a place of its own, on the object at `object`, for what `holders` have.
    fn waits(thread: &str, code: Code, pc: u64, object: u64, holders: &[&str]) -> Waits {
        Waits {
            thread: thread.into(),
            code,
            object,
            pc,
            stack: Vec::new(),
            held_by: holders.iter().map(|name| (name.to_string(), 0)).collect(),
        }
    }

    fn hang(shape: Shape, waits: Vec<Waits>) -> Hang {
        let frame = |pc: u64| SourcePlace {
            file: "bank.c".into(),
            line: pc as u32,
            ..SourcePlace::default()
        };
        let frames = waits.iter().map(|waits| (waits.pc, vec![frame(waits.pc)]));
        Hang {
            frames: frames.collect(),
            deadlock: Deadlock { shape, waits },
        }
    }

    fn lines(finding: &Finding) -> Vec<u32> {
        finding.places.iter().map(|place| place.line).collect()
    }

    /// Main joins a thread that is in a cycle with another one.
    fn two_accounts() -> Hang {
        hang(
            Shape::Cycle,
            vec![
                waits("T0", Code::Join, 1, 0, &["T0.1"]),
                waits("T0.1", Code::Lock, 2, 0xa, &["T0.2"]),
                waits("T0.2", Code::Lock, 3, 0xb, &["T0.1"]),
            ],
        )
    }

    #[test]
    fn a_join_that_follows_from_a_deadlock_is_not_part_of_it() {
        let finding = two_accounts().finding();
        assert_eq!(finding.kind, Kind::Deadlock);
        assert_eq!(lines(&finding), [2, 3]);
    }

    #[test]
    fn a_join_that_is_waited_for_is_part_of_the_hang() {
        let finding = hang(
            Shape::Stuck,
            vec![
                waits("T0", Code::Join, 1, 0, &["T0.1"]),
                waits("T0.1", Code::Lock, 2, 0xa, &["T0"]),
            ],
        )
        .finding();
        assert_eq!(finding.kind, Kind::Stuck);
        assert_eq!(lines(&finding), [1, 2]);
    }

    #[test]
    fn blocked_operations_are_appended_to_the_trace() {
        let mut trace = norns_model::script::trace(
            "T0: fork T0.1, fork T0.2
             T0.1: lock b
             T0.2: lock a",
        );
        for object in &mut trace.objects {
            object.address = if object.name == "a" { 0xa } else { 0xb };
        }
        let hang = two_accounts();
        let finding = hang.finding();
        let whole = hang.in_trace(&trace, &finding).expect("all of it is known");
        let name = |event: &Event| {
            let object = event.op.object().expect("both wait for locks");
            let thread = &whole.thread(event.thread).name;
            (thread.as_str(), whole.object(object).name.as_str())
        };
        let appended: Vec<_> = whole.events[trace.events.len()..]
            .iter()
            .map(name)
            .collect();
        assert_eq!(appended, [("T0.1", "a"), ("T0.2", "b")]);

        trace.objects.clear();
        assert!(hang.in_trace(&trace, &finding).is_none());
    }
}
