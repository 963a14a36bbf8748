//! All runs of a program up to a bound.
//!
//! A depth-first search over what can be decided: before accesses to shared memory and after
//! synchronisation, which thread goes on; which write a read returns; when a buffered store reaches memory.
//! A thread that could go on is interrupted at most so often in one run (Musuvathi and Qadeer 2007).
//! States are copied at each choice. One that was reached before with as few interruptions is left, since what
//! comes of it is known; states are compared by hashes of 64 bits, and not where time decides. A thread that
//! comes back to its own state while nothing changed waits in a loop, and lets the others run; if all do, the
//! program never ends.

use norns_ir::Program;
use rustc_hash::FxHashMap;

use crate::how::{How, Input, MemoryModel};
use crate::machine::{Choice, Loaded, Machine, Mode, Next};
use crate::outcome::{End, Outcome};
use crate::weak::Candidate;

/// What an exploration came to.
#[derive(Clone, Debug)]
pub struct Exploration {
    /// One outcome for each end, each text that left the process and each set of reads that returned older
    /// values, in the order in which they were found.
    pub outcomes: Vec<Outcome>,
    /// Runs that ended, or that came to a state in which an earlier one was.
    pub runs: usize,
    /// Why not all runs within the bound on interruptions were made.
    pub bound: Option<Bound>,
}

/// What ends an exploration early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Runs,
    Memory,
    Time,
}

/// How long a thread runs between accesses before the search looks around.
const SLICE: u64 = 100_000;

/// Bytes for a state that is known.
const KNOWN: u64 = 32;

/// Runs a program in all ways within the limits of `how`; the seed is not used.
#[must_use]
pub fn explore(program: &Program, input: &Input, how: &How) -> Exploration {
    explore_while(program, input, how, &|| true)
}

/// As [`explore`], as long as there is time.
#[must_use]
pub fn explore_while(
    program: &Program,
    input: &Input,
    how: &How,
    has_time: &dyn Fn() -> bool,
) -> Exploration {
    let loaded = Loaded::new(program);
    let mut exploration = Exploration {
        outcomes: Vec::new(),
        runs: 0,
        bound: None,
    };
    let first = match Machine::new(program, &loaded, input, how, Mode::Explore) {
        Ok(machine) => machine,
        Err(end) => {
            exploration.add(Outcome::before_start(*end));
            return exploration;
        }
    };
    let mut search = Search {
        how,
        exploration,
        open: Vec::new(),
        bytes: 0,
        known: FxHashMap::default(),
    };
    search.go_on(first, 0, Waiting::default());
    while let Some(open) = search.open.last_mut() {
        if search.exploration.runs >= how.limits.runs {
            search.exploration.bound = Some(Bound::Runs);
            break;
        }
        if !has_time() {
            search.exploration.bound = Some(Bound::Time);
            break;
        }
        let step = open
            .steps
            .pop()
            .expect("a state is open while it has steps");
        let (mut interruptions, waiting) = (open.interruptions, open.waiting.clone());
        let mut machine = match open.steps.is_empty() {
            false => open.machine.clone(),
            true => {
                search.bytes -= open.bytes;
                let open = search.open.pop();
                open.expect("it was the last one").machine
            }
        };
        let taken = match step {
            Step::Value(candidate) => {
                machine.choose_value(candidate);
                Ok(())
            }
            Step::Next {
                next,
                is_interruption,
            } => {
                interruptions += u32::from(is_interruption);
                machine.take(next)
            }
        };
        match taken {
            Ok(()) => search.go_on(machine, interruptions, waiting),
            Err(end) => search.exploration.add(machine.finish(*end)),
        }
    }
    search.exploration
}

struct Search<'p> {
    how: &'p How,
    exploration: Exploration,
    /// From each the search goes on with each of its steps; the last one first.
    open: Vec<Open<'p>>,
    /// What they take, about.
    bytes: u64,
    /// States that were reached, and with how few interruptions.
    known: FxHashMap<u64, u32>,
}

/// A state from which the search goes on.
struct Open<'p> {
    machine: Machine<'p>,
    interruptions: u32,
    waiting: Waiting,
    /// The last one is taken first; never empty.
    steps: Vec<Step>,
    bytes: u64,
    /// Of the machine's memory.
    copied: u64,
}

enum Step {
    Value(Candidate),
    Next { next: Next, is_interruption: bool },
}

impl<'p> Search<'p> {
    /// Runs a state up to where something can be decided, and opens it there.
    fn go_on(&mut self, mut machine: Machine<'p>, interruptions: u32, mut waiting: Waiting) {
        let choice = match machine.advance(SLICE) {
            Ok(choice) => choice,
            Err(end) => return self.exploration.add(machine.finish(*end)),
        };
        let mut steps: Vec<Step> = match choice {
            Choice::Value(candidates) => {
                if self.is_known(&machine, interruptions) {
                    return;
                }
                candidates.into_iter().map(Step::Value).collect()
            }
            Choice::Next(next) => {
                let current = machine.state.current;
                let can_go_on = next.first() == Some(&Next::Run(current));
                let is_waiting = can_go_on && waiting.comes_back(&machine);
                if is_waiting && waiting.is_for_ever(&machine, &next) {
                    return self.exploration.add(machine.finish(End::EndlessLoop));
                }
                if !is_waiting && self.is_known(&machine, interruptions) {
                    return;
                }
                let most = self.how.limits.preemptions;
                let step = |next: Next| {
                    let is_other = matches!(next, Next::Run(to) if to != current);
                    let is_interruption = can_go_on && !is_waiting && is_other;
                    let is_left_out = is_waiting && next == Next::Run(current)
                        || is_interruption && interruptions >= most;
                    (!is_left_out).then_some(Step::Next {
                        next,
                        is_interruption,
                    })
                };
                next.into_iter().filter_map(step).collect()
            }
        };
        if steps.is_empty() {
            return;
        }
        steps.reverse();
        let before = self.open.last().map_or(0, |open| open.copied);
        let bytes = machine.own_bytes(before.min(machine.state.memory.copied));
        if self.bytes + self.known.len() as u64 * KNOWN + bytes > self.how.limits.open
            && steps.len() > 1
        {
            self.exploration.bound = Some(Bound::Memory);
            steps.drain(..steps.len() - 1);
        }
        self.bytes += bytes;
        self.open.push(Open {
            copied: machine.state.memory.copied,
            machine,
            interruptions,
            waiting,
            steps,
            bytes,
        });
    }

    /// Whether an earlier run went on from this state; counts as a run if so.
    fn is_known(&mut self, machine: &Machine<'_>, interruptions: u32) -> bool {
        let Some(hash) = machine.hash_of_state() else {
            return false;
        };
        let interruptions = match self.how.limits.preemptions {
            u32::MAX => 0,
            _ => interruptions,
        };
        match self.known.get_mut(&hash) {
            Some(least) if *least <= interruptions => {
                self.exploration.runs += 1;
                return true;
            }
            Some(least) => *least = interruptions,
            None => {
                self.known.insert(hash, interruptions);
            }
        }
        false
    }
}

/// The states of threads since something changed.
#[derive(Clone, Default)]
struct Waiting {
    progress: u64,
    seen: Vec<u64>,
    /// Those that came back to one of them.
    returned: Vec<usize>,
}

impl Waiting {
    /// Whether the running thread was in its state before, and nothing changed since.
    fn comes_back(&mut self, machine: &Machine<'_>) -> bool {
        let progress = machine.progress();
        if self.progress != progress {
            *self = Self {
                progress,
                ..Self::default()
            };
        }
        let hash = machine.hash_of_thread(machine.state.current);
        if !self.seen.contains(&hash) {
            self.seen.push(hash);
            return false;
        }
        if !self.returned.contains(&machine.state.current) {
            self.returned.push(machine.state.current);
        }
        true
    }

    /// Whether every thread that can go on has come back to its state, so that nothing will ever change.
    fn is_for_ever(&self, machine: &Machine<'_>, next: &[Next]) -> bool {
        let returned = |next: &Next| match next {
            Next::Run(thread) => {
                self.returned.contains(thread)
                    && self.seen.contains(&machine.hash_of_thread(*thread))
            }
            Next::Flush(_) => false,
        };
        // Under the weak model a thread that reads an old value again and again sees the newest in the end.
        machine.how.memory != MemoryModel::Weak
            && !machine.waits_for_timer()
            && next.iter().all(returned)
    }
}

impl Exploration {
    /// Whether all runs within the bound on interruptions were made.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.bound.is_none()
    }

    fn add(&mut self, outcome: Outcome) {
        self.runs += 1;
        let known = self.outcomes.iter_mut().find(|known| {
            known.end == outcome.end
                && known.writes == outcome.writes
                && known.order == outcome.order
                && known.old_reads() == outcome.old_reads()
        });
        match known {
            Some(known) => {
                known.locks_left_out = known.locks_left_out.max(outcome.locks_left_out);
            }
            None => self.outcomes.push(outcome),
        }
    }
}
