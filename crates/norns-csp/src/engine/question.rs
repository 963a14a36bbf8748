//! From a question to searches, and from what they find to a verdict.

use crate::CheckError;
use crate::engine::budget::{Budget, Meter, Progress, Spent};
use crate::engine::check::{Model, Options, Question, Statistics, Verdict};
use crate::engine::compile::{Compiler, Observed, Terms};
use crate::engine::context::Context;
use crate::engine::counterexample::{Counterexample, Violation};
use crate::engine::cycles;
use crate::engine::lts::Lts;
use crate::engine::network::{Network, SPEC_FIELD, bits_for};
use crate::engine::normal::{Acceptances, BelowDivergence, NormalForm, split_ticks};
use crate::engine::reduce::{Reducer, Reduction};
use crate::engine::search::{Ended, Found, Goal, Kind, Outside, Search, Stable};
use crate::engine::witness::{counterexample, offered};
use crate::event::{EventId, EventSet};
use crate::process::ProcId;

/// One check under way.
pub struct Run<'a> {
    pub options: &'a Options,
    pub meter: &'a Meter,
    pub progress: &'a mut dyn FnMut(&Progress),
    pub statistics: Statistics,
    /// Counterexamples beyond the first.
    pub more: Vec<Counterexample>,
}

/// Says what is wrong with a state that a search found.
type Explain<'e> = &'e dyn Fn(&Network, &Found) -> Violation;

impl Run<'_> {
    /// The verdict on a question.
    pub fn answer(
        &mut self,
        compiler: &mut Compiler,
        context: &mut Context,
        question: &Question,
    ) -> Result<Verdict, CheckError> {
        let observed = match question {
            Question::Refines {
                model:
                    Model::Revivals
                    | Model::RevivalsDivergences
                    | Model::RefusalTesting
                    | Model::RefusalTestingDivergences,
                ..
            } => Observed::AfterRefusal,
            _ => Observed::Failures,
        };
        let terms = Terms {
            meter: self.meter,
            observed,
        };
        let mut network = |process: ProcId| -> Result<Network, CheckError> {
            let network = compiler.network(context, process, terms)?;
            terms.meter.keep(0, network.rule_bytes());
            Ok(network)
        };
        match question {
            Question::Refines {
                model,
                spec,
                implementation,
            } => {
                let spec = network(*spec)?.explicit(self.meter);
                // The specification first: an implementation without end leaves it no budget.
                match self.normalise(*model, spec) {
                    Ok(form) => Ok(self.refines(*model, &form, network(*implementation)?)),
                    Err(undecided) => Ok(undecided),
                }
            }
            Question::DeadlockFree { model, process } => {
                let network = network(*process)?;
                Ok(self.free(network, Stable::Deadlock, model.sees_divergence()))
            }
            Question::DivergenceFree { process } => {
                let network = network(*process)?;
                Ok(self.free(network, Stable::Ignore, true))
            }
            Question::Deterministic { model, process } => {
                let network = network(*process)?;
                Ok(self.deterministic(*model, network))
            }
            Question::HasTrace {
                model,
                process,
                trace,
            } => {
                let network = network(*process)?;
                Ok(self.has_trace(*model, trace, network))
            }
        }
    }

    /// The normal form that a model compares with, or why there is none.
    fn normalise(&mut self, model: Model, spec: Lts) -> Result<NormalForm, Verdict> {
        let spec = prioritised(spec, self.options.tau_priority.as_ref());
        let explored = spec.len() - spec.unexplored.len();
        if let Some(Spent(why)) = &spec.spent {
            return Err(Verdict::Undecided(format!(
                "{why} while exploring the specification ({explored} states)"
            )));
        }
        let below = if model.sees_divergence() {
            BelowDivergence::Anything
        } else {
            BelowDivergence::Itself
        };
        let form = match model {
            Model::RefusalTesting | Model::RefusalTestingDivergences => {
                NormalForm::with_refusals(&split_ticks(&spec), below, self.meter)
            }
            Model::Revivals | Model::RevivalsDivergences => {
                NormalForm::new(&spec, below, Acceptances::All, self.meter)
            }
            _ => NormalForm::new(&spec, below, Acceptances::Minimal, self.meter),
        };
        form.map_err(|Spent(why)| {
            Verdict::Undecided(format!(
                "{why} while normalising the specification ({explored} states)"
            ))
        })
    }

    fn refines(&mut self, model: Model, form: &NormalForm, network: Network) -> Verdict {
        let stable = match model {
            Model::Traces => Stable::Ignore,
            Model::Failures | Model::FailuresDivergences => Stable::Accept,
            Model::Revivals | Model::RevivalsDivergences => Stable::Revive,
            Model::RefusalTesting | Model::RefusalTestingDivergences => Stable::RefusalTest,
        };
        let goal = Goal {
            spec: Some(form),
            outside: Outside::Violation,
            stable,
            divergence: model.sees_divergence(),
            prune_divergent: model.sees_divergence(),
            target: None,
            tau_priority: self.options.tau_priority.as_ref(),
        };
        let explain = |network: &Network, found: &Found| {
            let mut node = network.layout.get(&found.state, SPEC_FIELD) as u32;
            let offered = offered(network, &found.state);
            match found.kind {
                Kind::Event => {
                    if stable == Stable::RefusalTest && !network.has_tau(&found.state) {
                        node = form.after_refusal(node, &offered).unwrap_or(node);
                    }
                    Violation::Event {
                        event: found.event.expect("an event violation names its event"),
                        allowed: form.steps(node).map(|step| step.0).collect(),
                    }
                }
                _ => Violation::Refusal {
                    offered,
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
        let form = NormalForm::new(
            &chain,
            BelowDivergence::Itself,
            Acceptances::Minimal,
            &Meter::unlimited(),
        )
        .expect("there is no limit");
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
            divergence: model.sees_divergence(),
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
        let lts = network.explicit(self.meter);
        self.statistics.states = lts.len() as u64;
        self.statistics.components = network.components.len();
        let explored = lts.len() - lts.unexplored.len();
        if let Some(Spent(why)) = &lts.spent {
            return Verdict::Undecided(format!(
                "{why} while exploring the process ({explored} states)"
            ));
        }
        let lts = prioritised(lts, self.options.tau_priority.as_ref());
        let form = NormalForm::new(
            &lts,
            BelowDivergence::Itself,
            Acceptances::Minimal,
            self.meter,
        );
        let form = match form {
            Ok(form) => form,
            Err(Spent(why)) => {
                return Verdict::Undecided(format!(
                    "{why} while normalising the process ({explored} states)"
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
            divergence: model.sees_divergence(),
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
        mut goal: Goal,
        explain: Explain,
        otherwise: Verdict,
    ) -> Verdict {
        let network = with_spec(network, goal.spec);
        // Where taus form no cycle, nothing diverges.
        goal.divergence &= cycles::possible(&network, |rule| rule.event == EventId::TAU);
        let wanted = self.options.counterexamples.max(1);
        let mut search = self.start(&network, goal, wanted);
        let ended = search.run(self.meter, self.progress);
        self.count(&search, &network);
        match ended {
            Ended::Exhausted => otherwise,
            Ended::Budget(Spent(why)) => Verdict::Undecided(why),
            Ended::Cut => Verdict::Undecided(cut(&network)),
            Ended::Found(all) => {
                let mut examples: Vec<Counterexample> = Vec::new();
                for found in &all {
                    let example = counterexample(&network, &search, found, explain);
                    if !examples.iter().any(|other| other.is_like(&example)) {
                        examples.push(example);
                    }
                    if examples.len() == wanted {
                        break;
                    }
                }
                let mut first = examples.remove(0);
                // A search that had to look ahead has seen that no violation is near.
                if !first.shortest && all[0].way.is_empty() {
                    let visited = self.statistics.states;
                    drop(search);
                    first = self
                        .shortest(&network, goal, explain, visited)
                        .unwrap_or(first);
                    examples.retain(|other| !other.is_like(&first));
                }
                self.more = examples;
                Verdict::Fails(Box::new(first))
            }
        }
    }

    /// A violation was found in a reduced search: a shortest one, if a search of everything
    /// finds it without costing much more.
    fn shortest(
        &mut self,
        network: &Network,
        goal: Goal,
        explain: Explain,
        visited: u64,
    ) -> Option<Counterexample> {
        let limit = 200_000 + 4 * visited;
        let budget = Budget {
            states: Some(limit.min(self.options.budget.states.unwrap_or(u64::MAX))),
            ..self.options.budget
        };
        let meter = Meter::new(budget);
        let mut search = Search::new(network, goal, self.threads(), None, 1);
        search.without_looking_ahead();
        match search.run(&meter, self.progress) {
            Ended::Found(all) => Some(counterexample(network, &search, &all[0], explain)),
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
        explain: Explain,
    ) -> Result<Network, Verdict> {
        let network = with_spec(network, goal.spec);
        let mut search = self.start(&network, goal, 1);
        let ended = search.run(self.meter, self.progress);
        self.count(&search, &network);
        match ended {
            Ended::Found(_) => {
                drop(search);
                Ok(network)
            }
            Ended::Budget(Spent(why)) => Err(Verdict::Undecided(why)),
            Ended::Cut => Err(Verdict::Undecided(cut(&network))),
            Ended::Exhausted => {
                let furthest = search.furthest();
                let example = counterexample(&network, &search, &furthest, explain);
                Err(Verdict::Fails(Box::new(example)))
            }
        }
    }

    fn start<'n>(&self, network: &'n Network, goal: Goal<'n>, wanted: usize) -> Search<'n>
    where
        Self: 'n,
    {
        let deadlock_only =
            goal.spec.is_none() && !goal.divergence && goal.stable == Stable::Deadlock;
        // Divergence where taus can form a cycle, what happens after a refusal, priorities, a
        // target and components that were cut short are outside of what the reduction preserves.
        // It also leaves out counterexamples.
        let sound = !network.cut
            && network.components.len() > 1
            && goal.tau_priority.is_none()
            && goal.target.is_none()
            && goal.stable != Stable::RefusalTest
            && !goal.divergence
            && wanted == 1;
        let how = match self.options.reduction {
            Reduction::Automatic if deadlock_only || mostly_internal(network) => Reduction::Precise,
            Reduction::Automatic => Reduction::None,
            how => how,
        };
        let reducer =
            (how != Reduction::None && sound).then(|| Reducer::new(network, how, deadlock_only));
        let mut search = Search::new(network, goal, self.threads(), reducer, wanted);
        if let Some(folder) = &self.options.disk {
            search.spill_to(folder);
        }
        search
    }

    fn count(&mut self, search: &Search, network: &Network) {
        let statistics = &mut self.statistics;
        statistics.states = search.store.len() as u64;
        statistics.bytes = search.store.bytes() as u64;
        statistics.disk_bytes = search.store.on_disk();
        statistics.transitions = search.transitions;
        statistics.state_bytes = network.layout.words as u64 * 8;
        statistics.components = network.components.len();
        statistics.rules = network.formats.iter().map(|f| f.rules.len()).sum();
        statistics.spec_nodes = search.spec_nodes();
        statistics.reduced = search.is_reduced();
    }
}

/// Whether partial-order reduction is likely to pay for a refinement: it can leave out only taus.
fn mostly_internal(network: &Network) -> bool {
    let rules = network.formats.iter().flat_map(|format| &format.rules);
    let (mut taus, mut all) = (0usize, 0usize);
    for rule in rules {
        taus += usize::from(rule.event == EventId::TAU);
        all += 1;
    }
    network.components.len() > 1 && taus * 4 >= all * 3
}

/// Why a search that was otherwise complete decides nothing.
fn cut(network: &Network) -> String {
    let (component, Spent(why)) = network
        .cut_component()
        .expect("the search met a component that was cut short");
    format!(
        "{why} while exploring the component {} ({} states)",
        component.name,
        component.machine.len() - component.machine.unexplored.len()
    )
}

/// Gives states room for a node of the specification.
fn with_spec(mut network: Network, spec: Option<&NormalForm>) -> Network {
    network.set_spec_bits(spec.map_or(0, |spec| bits_for(spec.len())));
    network
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
