//! An interpreter for multi-threaded programs of norns-ir.
//!
//! A program is lowered to operations on registers and run one thread at a time. A state can be copied at
//! little cost, every access to memory is checked, and what could go several ways (which thread goes on,
//! which write a read returns) is a choice: by a seed in [`run`], in all ways up to a bound in [`explore()`].
//! The functions of the C library are modelled; what is not known ends the run with its name.
//!
//! The stages that this serves are those of Portend (Kasikci 2015, chapter 5). Other processes are not
//! interpreted: nobody sends a signal, writes to a pipe or connects to a socket but the program itself.
#![forbid(unsafe_code)]

mod explore;
mod files;
mod how;
mod invariant;
mod library;
mod lower;
mod machine;
mod memory;
mod op;
mod outcome;
mod signals;
mod state;
pub mod symbolic;
mod synchronisation;
mod weak;

use norns_ir::Program;
use norns_random::Random;

pub use explore::{Bound, Exploration, explore, explore_while};
pub use how::{Access, How, Input, Limits, MemoryModel, Order, Preemption};
pub use invariant::Invariant;
pub use outcome::{
    Channel, Decision, End, Enforcement, MemoryError, MemoryErrorKind, Outcome, Place, Waiting,
    Write,
};

use machine::{Choice, Loaded, Machine, Mode};
use symbolic::{Marks, Path};

/// A program that is ready to be run, any number of times.
pub struct Interpreter<'p> {
    program: &'p Program,
    loaded: Loaded,
}

impl<'p> Interpreter<'p> {
    /// Lowers a program. Locals should have been promoted ([`Program::promote_locals`]).
    #[must_use]
    pub fn new(program: &'p Program) -> Self {
        Self {
            program,
            loaded: Loaded::new(program),
        }
    }

    /// Runs the program once. What can be decided in several ways is decided by the seed.
    #[must_use]
    pub fn run(&self, input: &Input, how: &How) -> Outcome {
        self.run_in(input, how, Mode::Run).0
    }

    /// Runs the program once and follows the bytes of the input that are variable.
    #[must_use]
    pub fn follow(&self, input: &Input, marks: &Marks, how: &How) -> (Outcome, Path) {
        self.run_in(input, how, Mode::Follow(marks))
    }

    fn run_in(&self, input: &Input, how: &How, mode: Mode<'_>) -> (Outcome, Path) {
        let mut machine = match Machine::new(self.program, &self.loaded, input, how, mode) {
            Ok(machine) => machine,
            Err(end) => return (Outcome::before_start(*end), Path::default()),
        };
        let mut random = Random::new(how.seed);
        let end = loop {
            match machine.advance(slice(&mut random, how.preemption)) {
                Ok(Choice::Next(next)) => {
                    let chosen = next[random.below(next.len())];
                    if let Err(end) = machine.take(chosen) {
                        break end;
                    }
                }
                Ok(Choice::Value(mut candidates)) => {
                    let chosen = candidates.swap_remove(random.below(candidates.len()));
                    machine.choose_value(chosen);
                }
                Err(end) => break end,
            }
        };
        machine.finish_path(*end)
    }
}

/// Runs a program once; see [`Interpreter::run`].
#[must_use]
pub fn run(program: &Program, input: &Input, how: &How) -> Outcome {
    Interpreter::new(program).run(input, how)
}

/// How many operations a thread executes before another one may be chosen.
fn slice(random: &mut Random, preemption: Preemption) -> u64 {
    match preemption {
        // Synchronisation ends it; a loop that waits without any must end, too.
        Preemption::AtSynchronisation => 100_000,
        // Every order of magnitude is as likely.
        Preemption::Anywhere => {
            let magnitude = 1 << random.below(14);
            1 + random.below(magnitude) as u64
        }
    }
}
