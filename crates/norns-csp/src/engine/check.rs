//! Checking assertions: the entrance to the engine.

use std::path::PathBuf;

use crate::CheckError;
use crate::engine::budget::{Activity, Budget, Meter, Progress, Spent};
use crate::engine::compile::{Compiler, Observed, Terms};
use crate::engine::context::Context;
use crate::engine::counterexample::Counterexample;
use crate::engine::inside::look_inside;
use crate::engine::lts::Lts;
use crate::engine::question::Run;
use crate::engine::reduce::Reduction;
use crate::event::{EventId, EventSet};
use crate::process::{Definitions, ProcId, Processes};

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Model {
    Traces,
    /// Stable failures.
    Failures,
    FailuresDivergences,
    /// Stable revivals: a stable refusal together with an event that happens after it.
    Revivals,
    RevivalsDivergences,
    /// Stable refusal testing: a refusal may be observed before every event.
    RefusalTesting,
    RefusalTestingDivergences,
}

impl Model {
    /// Whether divergences count, and hide everything below them.
    pub fn sees_divergence(self) -> bool {
        matches!(
            self,
            Model::FailuresDivergences
                | Model::RevivalsDivergences
                | Model::RefusalTestingDivergences
        )
    }
}

/// What is asked of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    Refines {
        model: Model,
        spec: ProcId,
        implementation: ProcId,
    },
    /// In failures: no stable state refuses everything. In failures-divergences: also no
    /// divergence.
    DeadlockFree {
        model: Model,
        process: ProcId,
    },
    DivergenceFree {
        process: ProcId,
    },
    /// No event can be both accepted and refused after the same trace. In
    /// failures-divergences: also no divergence.
    Deterministic {
        model: Model,
        process: ProcId,
    },
    /// In traces: the trace is possible. In failures: moreover, no step of it can be refused.
    /// In failures-divergences: moreover, there is no divergence on the way.
    HasTrace {
        model: Model,
        process: ProcId,
        trace: Vec<EventId>,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Options {
    pub reduction: Reduction,
    /// Events that give way to tau, in both processes of a refinement.
    pub tau_priority: Option<EventSet>,
    /// 0: one for each core.
    pub threads: usize,
    pub budget: Budget,
    /// A folder for the states of a search that outgrows `budget.bytes`; without one the check is
    /// then undecided.
    pub disk: Option<PathBuf>,
    /// How many different counterexamples to look for; 0 is the same as 1.
    pub counterexamples: usize,
}

/// What a check cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// States of the product of implementation and specification that were visited.
    pub states: u64,
    pub transitions: u64,
    /// Memory of the visited states.
    pub bytes: u64,
    /// Bytes that went to disk.
    pub disk_bytes: u64,
    /// Bytes of one packed state.
    pub state_bytes: u64,
    pub components: usize,
    pub rules: usize,
    /// Nodes of the normalised specification.
    pub spec_nodes: usize,
    /// Whether partial-order reduction was applied.
    pub reduced: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Holds,
    Fails(Box<Counterexample>),
    /// The reason: which budget ended where.
    Undecided(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub verdict: Verdict,
    /// Further counterexamples, as far as [`Options::counterexamples`] asks for them.
    pub more: Vec<Counterexample>,
    pub statistics: Statistics,
}

/// Checks one assertion.
pub fn check(
    processes: &mut Processes,
    definitions: &mut dyn Definitions,
    question: &Question,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, CheckError> {
    Checker::default().check(processes, definitions, question, options, progress)
}

/// Checks several assertions over one arena, building each component once.
#[derive(Default)]
pub struct Checker {
    compiler: Compiler,
}

impl Checker {
    pub fn check(
        &mut self,
        processes: &mut Processes,
        definitions: &mut dyn Definitions,
        question: &Question,
        options: &Options,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Outcome, CheckError> {
        let mut context = Context {
            processes,
            definitions,
        };
        let meter = Meter::new(options.budget);
        self.compiler.begin(&context, &meter);
        let mut run = Run {
            options,
            meter: &meter,
            progress,
            statistics: Statistics::default(),
            more: Vec::new(),
        };
        let mut verdict = match meter.spent(Activity::Compiling, 0, 0) {
            Some(Spent(why)) => Verdict::Undecided(format!("{why} while evaluating the processes")),
            None => match run.answer(&mut self.compiler, &mut context, question) {
                Err(CheckError::Spent(Spent(why))) => Verdict::Undecided(why),
                verdict => verdict?,
            },
        };
        let (mut more, statistics) = (run.more, run.statistics);
        if let Verdict::Fails(first) = &mut verdict {
            look_inside(&mut context, first, &meter);
        }
        for example in &mut more {
            look_inside(&mut context, example, &meter);
        }
        Ok(Outcome {
            verdict,
            more,
            statistics,
        })
    }

    /// The whole transition system of a process, for other tools.
    pub fn explicit(
        &mut self,
        processes: &mut Processes,
        definitions: &mut dyn Definitions,
        process: ProcId,
    ) -> Result<Lts, CheckError> {
        let terms = Terms {
            meter: &Meter::unlimited(),
            observed: Observed::AfterRefusal,
        };
        let mut context = Context {
            processes,
            definitions,
        };
        self.compiler.explicit(&mut context, process, terms)
    }
}
