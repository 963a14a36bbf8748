//! What a weaker memory model allows a race to do, beyond all interleavings.
//!
//! The program is explored by the interpreter under sequential consistency and under the model (Kasikci
//! 2015, section 5.7). What ends or prints in a way that no interleaving does, in a run in which a read of
//! the race returned an older value, or another read the value that the race wrote, is a consequence of the
//! race under that model. No run on this machine has shown it, so it is only predicted.
//!
//! Nothing is concluded where the exploration of the interleavings is not complete: what seems to be new
//! may be one of those that were not made.

use std::collections::BTreeSet;

use norns_interpret::{
    Bound, Decision, End, Exploration, How, Input, Limits, MemoryModel, Outcome, Place,
    explore_while,
};
use norns_ir::Program;
use norns_report::{Class, Consequence, Memory};

/// Runs of one exploration.
const RUNS: usize = 200_000;
/// Operations in one run.
const STEPS: u64 = 5_000_000;

/// A place of a race: the file, or its last components, and the line.
pub type At = (String, u32);

/// What a program does in all interleavings, and under a memory model.
pub struct Models {
    memory: Memory,
    known: BTreeSet<Seen>,
    weak: Exploration,
}

/// Explores a program under sequential consistency and under a memory model; an error says why that says nothing.
pub fn explore_model(
    program: &Program,
    input: &Input,
    memory: Memory,
    has_time: &dyn Fn() -> bool,
) -> Result<Models, String> {
    let explored = |memory| {
        let how = How {
            memory,
            limits: Limits {
                runs: RUNS,
                steps: STEPS,
                // What no interleaving shows is said of all of them, however often a thread is interrupted.
                preemptions: match memory {
                    MemoryModel::SequentiallyConsistent => u32::MAX,
                    MemoryModel::Tso | MemoryModel::Weak => Limits::default().preemptions,
                },
                ..Limits::default()
            },
            ..How::default()
        };
        explore_while(program, input, &how, has_time)
    };
    let usual = explored(MemoryModel::SequentiallyConsistent);
    if let Some(reason) = gave_up(&usual.outcomes) {
        return Err(format!("the interpreter gave up: {reason}"));
    }
    if let Some(bound) = usual.bound {
        return Err(format!("not decided, since {}", not_all(usual.runs, bound)));
    }
    let weak = explored(match memory {
        Memory::Sc => MemoryModel::SequentiallyConsistent,
        Memory::Tso => MemoryModel::Tso,
        Memory::Weak => MemoryModel::Weak,
    });
    if let Some(reason) = gave_up(&weak.outcomes) {
        return Err(format!("the interpreter gave up: {reason}"));
    }
    Ok(Models {
        memory,
        known: usual.outcomes.iter().map(seen).collect(),
        weak,
    })
}

impl Models {
    /// Adds to what is known of a race what the memory model allows besides, or says in a note how much was
    /// explored.
    pub fn add(&self, race: &[At; 2], consequence: &mut Consequence) {
        let mut new: Vec<(Class, &Outcome)> = { self.weak.outcomes.iter() }
            .filter(|outcome| !self.known.contains(&seen(outcome)) && is_of(outcome, race))
            .map(|outcome| (class_of(&outcome.end), outcome))
            .collect();
        new.sort_by_key(|(class, _)| *class);
        let runs = self.weak.runs;
        let extent = match self.weak.bound {
            None => format!("all {runs} interpreted runs with at most two interruptions"),
            Some(bound) => not_all(runs, bound),
        };
        match new.first() {
            Some((class, outcome)) if *class < consequence.class => {
                consequence.class = *class;
                consequence.memory = self.memory;
                consequence.evidence.predicted = Some(described(outcome));
            }
            Some(_) => {}
            None => consequence.evidence.notes.push(format!(
                "the memory model {} allows nothing more ({extent})",
                self.memory.name()
            )),
        }
    }
}

/// Why these runs are not all that there are.
fn not_all(runs: usize, bound: Bound) -> String {
    let bound = match bound {
        Bound::Runs => "",
        Bound::Memory => ", and more need too much memory",
        Bound::Time => " in the time that there was",
    };
    format!("{runs} interpreted runs are not all interleavings{bound}")
}

/// What a program does without one of its locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithoutLock {
    /// The worst of what it then does and otherwise does not.
    pub class: Class,
    /// How it ends, and where threads were interrupted.
    pub what: Vec<String>,
    /// Interpreted runs with the lock, and without it.
    pub runs: [usize; 2],
    /// Whether all runs without it were made.
    pub is_complete: bool,
}

/// Compares all interleavings with those in which calls that lock a mutex at this line do nothing. An error
/// says why that cannot be done.
pub fn without_lock(
    program: &Program,
    input: &Input,
    at: At,
    has_time: &dyn Fn() -> bool,
) -> Result<WithoutLock, String> {
    let explored = |without_lock| -> Result<Exploration, String> {
        let how = How {
            limits: Limits {
                runs: RUNS,
                steps: STEPS,
                preemptions: u32::MAX,
                ..Limits::default()
            },
            without_lock,
            ..How::default()
        };
        let found = explore_while(program, input, &how, has_time);
        match gave_up(&found.outcomes) {
            Some(reason) => Err(format!("the interpreter gave up: {reason}")),
            None => Ok(found),
        }
    };
    let with = explored(None)?;
    if let Some(bound) = with.bound {
        return Err(not_all(with.runs, bound));
    }
    let known: BTreeSet<Seen> = with.outcomes.iter().map(seen).collect();
    let without = explored(Some(at))?;
    if { without.outcomes.iter() }.all(|outcome| outcome.locks_left_out == 0) {
        return Err("no interpreted run locks anything at that line".to_owned());
    }
    let mut new: Vec<(Class, &Outcome)> = { without.outcomes.iter() }
        .filter(|outcome| !known.contains(&seen(outcome)))
        .map(|outcome| (class_of(&outcome.end), outcome))
        .collect();
    new.sort_by_key(|(class, _)| *class);
    let (class, what) = match new.first() {
        Some((class, outcome)) => (*class, shown(outcome)),
        None => (Class::Harmless, Vec::new()),
    };
    Ok(WithoutLock {
        class,
        what,
        runs: [with.runs, without.runs],
        is_complete: without.is_complete(),
    })
}

/// How a run ends, what it prints, and where threads were interrupted.
fn shown(outcome: &Outcome) -> Vec<String> {
    let mut lines = vec![end_and_output(outcome)];
    for decision in &outcome.decisions {
        if let Decision::Switched {
            from,
            to,
            place: Some(place),
        } = decision
        {
            lines.push(format!(
                "thread {from} was interrupted at {}:{}, and thread {to} went on",
                place.file, place.line
            ));
        }
    }
    lines
}

fn end_and_output(outcome: &Outcome) -> String {
    let output = outcome.output();
    match String::from_utf8_lossy(&output).trim_end() {
        "" => outcome.end.to_string(),
        text => format!("{}, with the output `{}`", outcome.end, text.escape_debug()),
    }
}

/// What tells two outcomes apart: the end and what was written.
type Seen = (String, Vec<u8>);

fn seen(outcome: &Outcome) -> Seen {
    (outcome.end.to_string(), outcome.output())
}

fn gave_up(outcomes: &[Outcome]) -> Option<&str> {
    outcomes.iter().find_map(|outcome| match &outcome.end {
        End::GaveUp(reason) => Some(reason.as_str()),
        _ => None,
    })
}

pub(crate) fn class_of(end: &End) -> Class {
    match end {
        End::Exited(_) | End::OutOfSteps | End::GaveUp(_) => Class::OutputDiffers,
        End::Signal(_)
        | End::AssertFailed { .. }
        | End::MemoryError(_)
        | End::Deadlock(_)
        | End::EndlessLoop => Class::SpecViolated,
    }
}

/// Whether a read of the race returned something in this run that it returns in no interleaving.
fn is_of(outcome: &Outcome, race: &[At; 2]) -> bool {
    outcome.decisions.iter().any(|decision| match decision {
        Decision::ReadOld {
            place, written_at, ..
        } => {
            let mut places = place.iter().chain(written_at);
            places.any(|place| is_at(place, race))
        }
        Decision::Switched { .. } | Decision::Flushed { .. } => false,
    })
}

fn is_at(place: &Place, race: &[At; 2]) -> bool {
    let same = |file: &str| {
        let (long, short) = match place.file.len() >= file.len() {
            true => (place.file.as_str(), file),
            false => (file, place.file.as_str()),
        };
        let rest = long.strip_suffix(short);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    race.iter()
        .any(|(file, line)| place.line == *line && same(file))
}

/// How the run ended, what it printed, and which reads returned older values.
fn described(outcome: &Outcome) -> String {
    let mut text = end_and_output(outcome);
    for decision in &outcome.decisions {
        if let Decision::ReadOld {
            place: Some(place),
            value,
            ..
        } = decision
        {
            text += &format!(
                "; {}:{} read the older value {value}",
                place.file, place.line
            );
        }
    }
    text
}
