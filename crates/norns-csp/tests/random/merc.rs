//! Random explicit transition systems, judged by the crate `merc_refinement`, which shares
//! nothing with this one but the definitions of the three relations.

use norns_csp::Reduction;
use norns_csp::check::{Model, Question, Verdict};
use norns_csp::event::{EventId, EventSet};
use norns_csp::process::{ProcId, Processes};

use merc_lts::read_aut;
use merc_refinement::{ExplorationStrategy, RefinementType, refines};
use merc_utilities::Timing;

use crate::{MODELS, Random, Subject, seeds};

/// Transitions (from, label, to); label 0 is tau.
struct Explicit {
    states: usize,
    steps: Vec<(usize, usize, usize)>,
}

fn random(r: &mut Random) -> Explicit {
    let states = 1 + r.below(7);
    let steps = (0..r.below(3 * states + 1))
        .map(|_| (r.below(states), r.below(4), r.below(states)))
        .collect();
    Explicit { states, steps }
}

impl Explicit {
    fn aut(&self) -> String {
        let mut text = format!("des (0, {}, {})\n", self.steps.len(), self.states);
        for (from, label, to) in &self.steps {
            let name = ["i", "a", "b", "c"][*label];
            text.push_str(&format!("({from}, \"{name}\", {to})\n"));
        }
        text
    }

    /// The same as processes: one call a state; tau is an event that is hidden at the top.
    fn process(&self, p: &mut Processes, prefix: &str) -> ProcId {
        let events: Vec<EventId> = ["hidden", "a", "b", "c"]
            .iter()
            .map(|name| p.events.intern(name))
            .collect();
        let calls: Vec<_> = (0..self.states)
            .map(|s| p.new_call(Some(&format!("{prefix}{s}"))))
            .collect();
        for s in 0..self.states {
            let mut choices = Vec::new();
            for &(_, label, to) in self.steps.iter().filter(|step| step.0 == s) {
                let then = p.call(calls[to]);
                choices.push(p.prefix(events[label], then));
            }
            let body = p.external_choice(choices);
            p.define(calls[s], body);
        }
        let start = p.call(calls[0]);
        p.hide(start, EventSet::only([events[0]]))
    }

    /// A part of this one, so that some refinements hold.
    fn part(&self, r: &mut Random) -> Explicit {
        let steps = self
            .steps
            .iter()
            .filter(|_| r.below(6) > 0)
            .copied()
            .collect();
        Explicit {
            states: self.states,
            steps,
        }
    }
}

#[test]
fn explicit_systems_agree_with_merc() {
    let mut held = [0; 3];
    let mut compared = 0;
    for seed in seeds(1500) {
        let mut r = Random::new(seed);
        let spec = random(&mut r);
        let implementation = if r.below(2) == 0 {
            spec.part(&mut r)
        } else {
            random(&mut r)
        };
        let mut subject = Subject::new(&[]);
        let spec_id = spec.process(&mut subject.p, "S");
        let imp_id = implementation.process(&mut subject.p, "I");
        for (at, model) in MODELS.into_iter().enumerate() {
            let relation = match model {
                Model::Traces => RefinementType::Weaktrace,
                Model::Failures => RefinementType::StableFailures,
                Model::FailuresDivergences => RefinementType::FailuresDivergences,
                _ => unreachable!("not among MODELS"),
            };
            let read = |of: &Explicit| read_aut(of.aut().as_bytes()).expect("well formed");
            let (expected, _) = refines(
                read(&implementation),
                read(&spec),
                relation,
                ExplorationStrategy::BFS,
                false,
                false,
                &mut Timing::new(),
            );
            let question = Question::Refines {
                model,
                spec: spec_id,
                implementation: imp_id,
            };
            let verdict = subject.ask(&question, Reduction::None);
            assert_eq!(
                verdict == Verdict::Holds,
                expected,
                "seed {seed} {model:?}\nspec {}\nimpl {}\n{verdict:?}",
                spec.aut(),
                implementation.aut()
            );
            held[at] += usize::from(expected);
            compared += 1;
        }
    }
    println!("{compared} refinements compared with merc; {held:?} hold");
}
