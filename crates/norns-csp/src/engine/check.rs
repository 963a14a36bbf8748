//! Checking assertions: the entrance to the engine.

use std::time::Instant;

use crate::CheckError;
use crate::engine::counterexample::{Counterexample, Step, Violation};
use crate::engine::lts::Lts;
use crate::engine::network::{
    Compiler, FORMAT_FIELD, Limits, Network, Rule, SPEC_FIELD, Which, bits_for, field,
};
use crate::engine::normal::{BelowDivergence, NormalForm};
use crate::engine::reduce::{Reducer, Reduction};
use crate::engine::search::{Budget, Ended, Found, Goal, Kind, Outside, Progress, Search, Stable};
use crate::engine::semantics::Context;
use crate::event::{EventId, EventSet};
use crate::process::{Definitions, ProcId, Processes};

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Model {
    Traces,
    /// Stable failures.
    Failures,
    FailuresDivergences,
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
}

/// What a check cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// States of the product of implementation and specification that were visited.
    pub states: u64,
    pub transitions: u64,
    /// Memory of the visited states.
    pub bytes: u64,
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

// How many nodes a specification may have before the check is given up.
const SPEC_NODES: usize = 5_000_000;

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
        let mut run = Run {
            options,
            progress,
            statistics: Statistics::default(),
        };
        self.compiler.set_limits(limits(&options.budget));
        let verdict = match question {
            Question::Refines {
                model,
                spec,
                implementation,
            } => {
                let lts = self.compiler.explicit(&mut context, *spec)?;
                let lts = prioritised(lts, options.tau_priority.as_ref());
                let network = self.compiler.network(&mut context, *implementation)?;
                run.refines(*model, &lts, network)
            }
            Question::DeadlockFree { model, process } => {
                let network = self.compiler.network(&mut context, *process)?;
                let divergence = *model == Model::FailuresDivergences;
                run.free(network, Stable::Deadlock, divergence)
            }
            Question::DivergenceFree { process } => {
                let network = self.compiler.network(&mut context, *process)?;
                run.free(network, Stable::Ignore, true)
            }
            Question::Deterministic { model, process } => {
                let network = self.compiler.network(&mut context, *process)?;
                run.deterministic(*model, network)
            }
            Question::HasTrace {
                model,
                process,
                trace,
            } => {
                let network = self.compiler.network(&mut context, *process)?;
                run.has_trace(*model, trace, network)
            }
        };
        Ok(Outcome {
            verdict,
            statistics: run.statistics,
        })
    }

    /// The whole transition system of a process, for other tools; `Err` holds what was reached
    /// if it is larger than the limit of a component.
    pub fn explicit(
        &mut self,
        processes: &mut Processes,
        definitions: &mut dyn Definitions,
        process: ProcId,
    ) -> Result<Lts, CheckError> {
        self.compiler.explicit(
            &mut Context {
                processes,
                definitions,
            },
            process,
        )
    }
}

/// What a budget leaves to compiling.
fn limits(budget: &Budget) -> Limits {
    let limits = Limits::default();
    Limits {
        states: budget.states.map_or(limits.states, |n| {
            limits.states.min(usize::try_from(n).unwrap_or(usize::MAX))
        }),
        until: budget.time.map(|time| Instant::now() + time),
    }
}

/// The system without the events that give way to a tau.
fn prioritised(lts: Lts, priority: Option<&EventSet>) -> Lts {
    let Some(set) = priority else { return lts };
    let unexplored = lts.unexplored.clone();
    let mut result = Lts::new((0..lts.len() as u32).map(|s| {
        let steps = lts.steps(s);
        let unstable = steps.first().is_some_and(|step| step.0 == EventId::TAU);
        steps
            .iter()
            .filter(|step| !(unstable && set.contains(step.0)))
            .copied()
            .collect()
    }));
    result.unexplored = unexplored;
    result
}

struct Run<'a> {
    options: &'a Options,
    progress: &'a mut dyn FnMut(&Progress),
    statistics: Statistics,
}

impl Run<'_> {
    fn refines(&mut self, model: Model, spec: &Lts, network: Network) -> Verdict {
        if !spec.unexplored.is_empty() {
            return Verdict::Undecided(format!(
                "the specification was explored up to {} states",
                spec.unexplored[0]
            ));
        }
        let below = match model {
            Model::FailuresDivergences => BelowDivergence::Anything,
            _ => BelowDivergence::Itself,
        };
        let form = match NormalForm::new(spec, below, SPEC_NODES) {
            Ok(form) => form,
            Err(too_large) => {
                return Verdict::Undecided(format!(
                    "the normal form of the specification has more than {} nodes",
                    too_large.nodes
                ));
            }
        };
        self.refines_normal(model, &form, network)
    }

    fn refines_normal(&mut self, model: Model, form: &NormalForm, network: Network) -> Verdict {
        let goal = Goal {
            spec: Some(form),
            outside: Outside::Violation,
            stable: if model == Model::Traces {
                Stable::Ignore
            } else {
                Stable::Accept
            },
            divergence: model == Model::FailuresDivergences,
            prune_divergent: model == Model::FailuresDivergences,
            target: None,
            tau_priority: self.options.tau_priority.as_ref(),
        };
        let explain = |network: &Network, found: &Found| {
            let node = network.layout.get(&found.state, SPEC_FIELD) as u32;
            match found.kind {
                Kind::Event => Violation::Event {
                    event: found.event.expect("an event violation names its event"),
                    allowed: form.steps(node).map(|step| step.0).collect(),
                },
                _ => Violation::Refusal {
                    offered: offered(network, &found.state),
                    demanded: form.acceptances(node),
                },
            }
        };
        self.search(network, goal, &explain, Verdict::Holds)
    }

    /// Freedom from deadlock or divergence.
    fn free(&mut self, network: Network, stable: Stable, divergence: bool) -> Verdict {
        let goal = Goal {
            spec: None,
            outside: Outside::Ignore,
            stable,
            divergence,
            prune_divergent: false,
            target: None,
            tau_priority: self.options.tau_priority.as_ref(),
        };
        self.search(network, goal, &|_, _| Violation::Deadlock, Verdict::Holds)
    }

    fn has_trace(&mut self, model: Model, trace: &[EventId], network: Network) -> Verdict {
        // The specification is the trace; the last node is the target.
        let chain = Lts::new((0..=trace.len()).map(|at| match trace.get(at) {
            Some(&event) => vec![(event, at as u32 + 1)],
            None => Vec::new(),
        }));
        let form = NormalForm::new(&chain, BelowDivergence::Itself, trace.len() + 2)
            .expect("a chain has no more nodes than states");
        let wanted = |network: &Network, found: &Found| {
            let node = network.layout.get(&found.state, SPEC_FIELD) as usize;
            trace.get(node).copied()
        };
        let reach = Goal {
            spec: Some(&form),
            outside: Outside::Ignore,
            stable: Stable::Ignore,
            divergence: false,
            prune_divergent: false,
            target: Some(trace.len() as u32),
            tau_priority: self.options.tau_priority.as_ref(),
        };
        let missing = |network: &Network, found: &Found| Violation::NoTrace {
            wanted: wanted(network, found).expect("the trace did not end here"),
        };
        let network = match self.search_for(network, reach, &missing) {
            Ok(network) => network,
            Err(verdict) => return verdict,
        };
        if model == Model::Traces {
            return Verdict::Holds;
        }
        let refuse = Goal {
            spec: Some(&form),
            outside: Outside::Ignore,
            stable: Stable::Accept,
            divergence: model == Model::FailuresDivergences,
            prune_divergent: false,
            target: None,
            tau_priority: self.options.tau_priority.as_ref(),
        };
        let refused = |network: &Network, found: &Found| Violation::MayRefuse {
            wanted: wanted(network, found).expect("after its end the trace demands nothing"),
            offered: offered(network, &found.state),
        };
        self.search(network, refuse, &refused, Verdict::Holds)
    }

    /// Determinism by the normal form of the process itself: each node's acceptances must all
    /// be everything that the node can do.
    fn deterministic(&mut self, model: Model, network: Network) -> Verdict {
        let lts = network.explore(&limits(&self.options.budget));
        self.statistics.states = lts.len() as u64;
        self.statistics.components = network.components.len();
        if !lts.unexplored.is_empty() {
            return Verdict::Undecided(format!(
                "the process was explored up to {} states",
                lts.unexplored[0]
            ));
        }
        let lts = prioritised(lts, self.options.tau_priority.as_ref());
        let form = match NormalForm::new(&lts, BelowDivergence::Itself, SPEC_NODES) {
            Ok(form) => form,
            Err(too_large) => {
                return Verdict::Undecided(format!(
                    "its normal form has more than {} nodes",
                    too_large.nodes
                ));
            }
        };
        self.statistics.spec_nodes = form.len();
        // What a deterministic process with these traces would be: it accepts all it can do.
        // The process is deterministic exactly if it refines that.
        let ideal = form.deterministic();
        let goal = Goal {
            spec: Some(&ideal),
            outside: Outside::Violation,
            stable: Stable::Accept,
            divergence: model == Model::FailuresDivergences,
            prune_divergent: false,
            target: None,
            tau_priority: self.options.tau_priority.as_ref(),
        };
        let explain = |network: &Network, found: &Found| {
            let node = network.layout.get(&found.state, SPEC_FIELD) as u32;
            let offered = offered(network, &found.state);
            let refused = ideal
                .steps(node)
                .map(|step| step.0)
                .find(|event| {
                    // A state that can tick may refuse everything else.
                    if offered.contains(&EventId::TICK) {
                        *event != EventId::TICK
                    } else {
                        !offered.contains(event)
                    }
                })
                .expect("the state refuses something that its node can do");
            let offered = if offered.contains(&EventId::TICK) {
                vec![EventId::TICK]
            } else {
                offered
            };
            Violation::Nondeterminism {
                event: refused,
                offered,
            }
        };
        self.search(network, goal, &explain, Verdict::Holds)
    }

    /// Looks for a violation; without one the verdict is `otherwise`.
    fn search(
        &mut self,
        network: Network,
        goal: Goal,
        explain: &dyn Fn(&Network, &Found) -> Violation,
        otherwise: Verdict,
    ) -> Verdict {
        let network = with_spec(network, goal.spec);
        let mut search = self.start(&network, goal);
        let ended = search.run(&self.options.budget, self.progress);
        self.count(&search, &network);
        match ended {
            Ended::Exhausted => otherwise,
            Ended::Budget(why) => Verdict::Undecided(why),
            Ended::Cut => Verdict::Undecided(cut(&network)),
            Ended::Found(found) => {
                let example = counterexample(&network, &search, &found, explain);
                if example.shortest {
                    return Verdict::Fails(Box::new(example));
                }
                let visited = self.statistics.states;
                drop(search);
                let example = self
                    .shortest(&network, goal, explain, visited)
                    .unwrap_or(example);
                Verdict::Fails(Box::new(example))
            }
        }
    }

    /// A violation was found in a reduced search: a shortest one, if a search of everything
    /// finds it without costing much more.
    fn shortest(
        &mut self,
        network: &Network,
        goal: Goal,
        explain: &dyn Fn(&Network, &Found) -> Violation,
        visited: u64,
    ) -> Option<Counterexample> {
        let limit = 200_000 + 4 * visited;
        let mut budget = self.options.budget;
        budget.states = Some(budget.states.map_or(limit, |states| states.min(limit)));
        let mut search = Search::new(network, goal, self.threads(), None);
        match search.run(&budget, self.progress) {
            Ended::Found(found) => Some(counterexample(network, &search, &found, explain)),
            _ => None,
        }
    }

    fn threads(&self) -> usize {
        match self.options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        }
    }

    /// Looks for the target; the network again if it was found.
    fn search_for(
        &mut self,
        network: Network,
        goal: Goal,
        explain: &dyn Fn(&Network, &Found) -> Violation,
    ) -> Result<Network, Verdict> {
        let network = with_spec(network, goal.spec);
        let mut search = self.start(&network, goal);
        let ended = search.run(&self.options.budget, self.progress);
        self.count(&search, &network);
        match ended {
            Ended::Found(_) => {
                drop(search);
                Ok(network)
            }
            Ended::Budget(why) => Err(Verdict::Undecided(why)),
            Ended::Cut => Err(Verdict::Undecided(cut(&network))),
            Ended::Exhausted => {
                let furthest = search.furthest();
                let example = counterexample(&network, &search, &furthest, explain);
                Err(Verdict::Fails(Box::new(example)))
            }
        }
    }

    fn start<'n>(&self, network: &'n Network, goal: Goal<'n>) -> Search<'n> {
        let deadlock_only =
            goal.spec.is_none() && !goal.divergence && goal.stable == Stable::Deadlock;
        // Divergence where taus can form a cycle, priorities, a target and components that
        // were cut short are outside of what the reduction preserves.
        let sound = !network.cut
            && goal.tau_priority.is_none()
            && goal.target.is_none()
            && !(goal.divergence
                && crate::engine::cycles::possible(network, |r| r.event == EventId::TAU));
        let reducer = (self.options.reduction != Reduction::None && sound)
            .then(|| Reducer::new(network, self.options.reduction, deadlock_only));
        Search::new(network, goal, self.threads(), reducer)
    }

    fn count(&mut self, search: &Search, network: &Network) {
        let statistics = &mut self.statistics;
        statistics.states = search.store.len() as u64;
        statistics.bytes = search.store.bytes() as u64;
        statistics.transitions = search.transitions;
        statistics.state_bytes = network.layout.words as u64 * 8;
        statistics.components = network.components.len();
        statistics.rules = network.formats.iter().map(|f| f.rules.len()).sum();
        statistics.spec_nodes = search.spec_nodes();
        statistics.reduced = search.is_reduced();
    }
}

fn cut(network: &Network) -> String {
    let which = network
        .components
        .iter()
        .find(|c| !c.machine.unexplored.is_empty());
    match which {
        Some(c) => format!(
            "the component {} was explored up to {} states",
            c.name, c.machine.unexplored[0]
        ),
        None => "a component has too many states".into(),
    }
}

/// Gives states room for a node of the specification.
fn with_spec(mut network: Network, spec: Option<&NormalForm>) -> Network {
    network.set_spec_bits(spec.map_or(0, |spec| bits_for(spec.len())));
    network
}

/// The events that a state offers, tau left out.
fn offered(network: &Network, state: &[u64]) -> Vec<EventId> {
    let mut events = Vec::new();
    network.enabled_rules(state, Which::NotTau, |_, rule| {
        events.push(rule.event);
        true
    });
    events.sort_unstable();
    events.dedup();
    events
}

fn counterexample(
    network: &Network,
    search: &Search,
    found: &Found,
    explain: &dyn Fn(&Network, &Found) -> Violation,
) -> Counterexample {
    let mut states = search.path(found.level, &found.state);
    let mut repeats = Vec::new();
    if found.kind == Kind::Divergence {
        let (way, again) = search.divergent_path(found);
        states.pop();
        states.extend(way);
        repeats = steps_along(network, search, &again);
    }
    let mut steps = steps_along(network, search, &states);
    let last = states.last().expect("a path has a state").clone();
    if let Some(event) = found.event {
        let mut parts = None;
        network.enabled_rules(&last, Which::NotTau, |_, rule| {
            if rule.event == event && parts.is_none() {
                parts = Some(step(network, &last, rule));
            }
            parts.is_none()
        });
        steps.push(parts.expect("the event that was found is enabled"));
    }
    let violation = if found.kind == Kind::Divergence {
        Violation::Divergence { repeats }
    } else {
        explain(network, found)
    };
    let format = network.layout.get(&last, FORMAT_FIELD) as usize;
    let waiting = network.formats[format]
        .active
        .iter()
        .map(|&c| {
            let machine = &network.components[c as usize].machine;
            let local = network.layout.get(&last, field(c)) as u32;
            let mut events: Vec<EventId> = machine
                .span(local)
                .map(|at| machine.alphabet[machine.label(at) as usize])
                .collect();
            events.dedup();
            (c as usize, events)
        })
        .collect();
    Counterexample {
        components: network.components.iter().map(|c| c.name.clone()).collect(),
        steps,
        violation,
        waiting,
        shortest: !search.is_reduced(),
    }
}

fn steps_along(network: &Network, search: &Search, states: &[Vec<u64>]) -> Vec<Step> {
    states
        .windows(2)
        .map(|pair| step(network, &pair[0], search.rule_between(&pair[0], &pair[1])))
        .collect()
}

fn step(network: &Network, state: &[u64], rule: &Rule) -> Step {
    let mut parts: Vec<(usize, EventId)> = network
        .format(state)
        .actions(rule)
        .iter()
        .map(|&(component, label)| {
            let machine = &network.components[component as usize].machine;
            (component as usize, machine.alphabet[label as usize])
        })
        .collect();
    parts.sort_unstable();
    Step {
        event: rule.event,
        parts,
    }
}
