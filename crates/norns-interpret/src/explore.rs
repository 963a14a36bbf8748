//! All runs of a program up to a bound.
//!
//! A depth-first search over what can be decided: before accesses to shared memory and after
//! synchronisation, which thread goes on; which write a read returns; when a buffered store reaches memory.
//! A thread that could go on is interrupted at most so often in one run (Musuvathi and Qadeer 2007).
//! States are copied at each choice and not compared with each other. A thread that comes back to its own
//! state while nothing changed waits in a loop, and lets the others run.

use norns_ir::Program;

use crate::how::{How, Input};
use crate::machine::{Choice, Loaded, Machine, Mode, Next};
use crate::outcome::Outcome;

/// What an exploration came to.
#[derive(Clone, Debug)]
pub struct Exploration {
    /// One outcome for each end, each text that left the process and each set of reads that returned older
    /// values, in the order in which they were found.
    pub outcomes: Vec<Outcome>,
    /// Runs that ended.
    pub runs: usize,
    /// Whether all runs within the bound on interruptions were made.
    pub is_complete: bool,
}

/// How long a thread runs between accesses before the search looks around.
const SLICE: u64 = 100_000;

/// Runs a program in all ways within the limits of `how`; the seed is not used.
#[must_use]
pub fn explore(program: &Program, input: &Input, how: &How) -> Exploration {
    let loaded = Loaded::new(program);
    let mut exploration = Exploration {
        outcomes: Vec::new(),
        runs: 0,
        is_complete: true,
    };
    let first = match Machine::new(program, &loaded, input, how, Mode::Explore) {
        Ok(machine) => machine,
        Err(end) => {
            exploration.add(Outcome::before_start(*end));
            return exploration;
        }
    };
    let mut open = vec![Open {
        machine: first,
        interruptions: 0,
        waiting: Waiting::default(),
    }];
    while let Some(state) = open.pop() {
        let Open {
            mut machine,
            interruptions,
            mut waiting,
        } = state;
        if exploration.runs >= how.limits.runs {
            exploration.is_complete = false;
            break;
        }
        match machine.advance(SLICE) {
            Err(end) => exploration.add(machine.finish(*end)),
            Ok(Choice::Value(candidates)) => {
                // The first alternative is taken last, so that it is explored first.
                for candidate in candidates.into_iter().rev() {
                    let mut copy = machine.clone();
                    copy.choose_value(candidate);
                    open.push(Open {
                        machine: copy,
                        interruptions,
                        waiting: waiting.clone(),
                    });
                }
            }
            Ok(Choice::Next(next)) => {
                let current = machine.state.current;
                let can_go_on = next.first() == Some(&Next::Run(current));
                let is_waiting = can_go_on && waiting.comes_back(&machine);
                for &one in next.iter().rev() {
                    let is_other = matches!(one, Next::Run(to) if to != current);
                    if is_waiting && one == Next::Run(current) {
                        continue;
                    }
                    let is_interruption = can_go_on && !is_waiting && is_other;
                    if is_interruption && interruptions >= how.limits.preemptions {
                        continue;
                    }
                    let mut copy = machine.clone();
                    match copy.take(one) {
                        Ok(()) => open.push(Open {
                            machine: copy,
                            interruptions: interruptions + u32::from(is_interruption),
                            waiting: waiting.clone(),
                        }),
                        Err(end) => exploration.add(copy.finish(*end)),
                    }
                }
            }
        }
    }
    exploration
}

/// A state from which the search goes on.
struct Open<'p> {
    machine: Machine<'p>,
    interruptions: u32,
    waiting: Waiting,
}

/// The states of the running thread since something changed.
#[derive(Clone, Default)]
struct Waiting {
    thread: usize,
    progress: u64,
    seen: Vec<u64>,
}

impl Waiting {
    /// Whether the running thread was in its state before, and nothing changed since.
    fn comes_back(&mut self, machine: &Machine<'_>) -> bool {
        let (thread, progress) = (machine.state.current, machine.progress());
        if (self.thread, self.progress) != (thread, progress) {
            *self = Self {
                thread,
                progress,
                seen: Vec::new(),
            };
        }
        let hash = machine.hash_of_thread();
        if self.seen.contains(&hash) {
            return true;
        }
        self.seen.push(hash);
        false
    }
}

impl Exploration {
    fn add(&mut self, outcome: Outcome) {
        self.runs += 1;
        let is_known = self.outcomes.iter().any(|known| {
            known.end == outcome.end
                && known.writes == outcome.writes
                && known.order == outcome.order
                && known.old_reads() == outcome.old_reads()
        });
        if !is_known {
            self.outcomes.push(outcome);
        }
    }
}
