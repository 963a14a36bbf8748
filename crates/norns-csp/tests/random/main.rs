//! The engine against the reference on random processes over all operators, the laws of CSP on
//! random processes, and random transition systems against an independent implementation.
//!
//! A failure prints its seed; `SEED=n cargo test -p norns-csp --test random` repeats it, and
//! `CASES=n` makes a longer campaign.

mod generate;
mod laws;
#[cfg(feature = "merc")]
mod merc;
mod models;
mod operators;
mod reference;
mod timed;

use std::rc::Rc;
use std::time::Duration;

use norns_csp::check::{Model, Options, Question, Verdict, check};
use norns_csp::counterexample::Violation;
use norns_csp::event::{EventId, EventSet, Priority, Renaming};
use norns_csp::process::{CallId, Compression, NoDefinitions, ProcId, Processes};
use norns_csp::{Budget, Reduction};

use generate::{CALLS, Random, body, system, tree};
use reference::{EVENTS, Graph, Tree};

/// How many cases, and which seeds: from the environment, or a default.
pub fn seeds(cases: u64) -> std::ops::Range<u64> {
    if let Ok(seed) = std::env::var("SEED") {
        let seed = seed.parse().expect("SEED is a number");
        return seed..seed + 1;
    }
    let cases = std::env::var("CASES").map_or(cases, |n| n.parse().expect("CASES is a number"));
    1..cases + 1
}

/// The engine's side of a random system.
pub struct Subject {
    pub p: Processes,
    events: Vec<EventId>,
    calls: Vec<CallId>,
}

impl Subject {
    pub fn new(bodies: &[Rc<Tree>]) -> Self {
        let mut p = Processes::new();
        let events = (0..EVENTS)
            .map(|e| p.events.intern(["a", "b", "c"][e as usize]))
            .collect();
        let calls = (0..bodies.len())
            .map(|i| p.new_call(Some(&format!("X{i}"))))
            .collect();
        let mut subject = Subject { p, events, calls };
        for (i, body) in bodies.iter().enumerate() {
            let body = subject.build(body);
            subject.p.define(subject.calls[i], body);
        }
        subject
    }

    pub fn set(&self, set: u8) -> EventSet {
        EventSet::only(
            (0..EVENTS)
                .filter(|e| set >> e & 1 == 1)
                .map(|e| self.events[e as usize]),
        )
    }

    fn number(&self, event: EventId) -> u8 {
        match event {
            EventId::TICK => reference::TICK,
            event => self
                .events
                .iter()
                .position(|&e| e == event)
                .expect("one of ours") as u8,
        }
    }

    pub fn build(&mut self, tree: &Tree) -> ProcId {
        let event = |s: &Self, e: &u8| s.events[*e as usize];
        let pairs = |s: &Self, of: &[(u8, u8)]| -> Vec<(EventId, EventId)> {
            of.iter().map(|(a, b)| (event(s, a), event(s, b))).collect()
        };
        match tree {
            Tree::Stop => self.p.stop(),
            Tree::Skip => self.p.skip(),
            Tree::Omega => unreachable!("not generated"),
            Tree::Div => self.p.div(),
            Tree::Chaos(set) => {
                let set = self.set(*set);
                self.p.chaos(set)
            }
            Tree::Run(set) => {
                let set = self.set(*set);
                self.p.run(set)
            }
            Tree::Prefix(e, q) => {
                let (e, q) = (event(self, e), self.build(q));
                self.p.prefix(e, q)
            }
            Tree::External(l, r) => {
                let list = vec![self.build(l), self.build(r)];
                self.p.external_choice(list)
            }
            Tree::Internal(l, r) => {
                let list = vec![self.build(l), self.build(r)];
                self.p.internal_choice(list)
            }
            Tree::Sliding(l, r) => {
                let (l, r) = (self.build(l), self.build(r));
                self.p.sliding(l, r)
            }
            Tree::Interrupt(l, r) => {
                let (l, r) = (self.build(l), self.build(r));
                self.p.interrupt(l, r)
            }
            Tree::Exception(l, set, r) => {
                let (l, r) = (self.build(l), self.build(r));
                let set = self.set(*set);
                self.p.exception(l, set, r)
            }
            Tree::Sequence(l, r) => {
                let (l, r) = (self.build(l), self.build(r));
                self.p.sequence(l, r)
            }
            Tree::Hide(q, set) => {
                let (q, set) = (self.build(q), self.set(*set));
                self.p.hide(q, set)
            }
            Tree::Project(q, set) => {
                let (q, set) = (self.build(q), self.set(*set));
                self.p.project(q, set)
            }
            Tree::Rename(q, of) => {
                let (q, of) = (self.build(q), pairs(self, of));
                self.p.rename(q, Renaming::new(of))
            }
            Tree::Parallel(l, set, r) => {
                let list = vec![self.build(l), self.build(r)];
                let set = self.set(*set);
                self.p.parallel(list, set)
            }
            Tree::Alphabetised(l, left, right, r) => {
                let list = vec![
                    (self.set(*left), self.build(l)),
                    (self.set(*right), self.build(r)),
                ];
                self.p.alphabetised(list)
            }
            Tree::Linked(l, of, r) => {
                let (l, of, r) = (self.build(l), pairs(self, of), self.build(r));
                self.p.linked(l, &of, r)
            }
            Tree::SyncExternal(l, set, r) => {
                let list = vec![self.build(l), self.build(r)];
                let set = self.set(*set);
                self.p.sync_choice(list, set)
            }
            Tree::SyncInterrupt(l, set, r) => {
                let (l, r) = (self.build(l), self.build(r));
                let set = self.set(*set);
                self.p.sync_interrupt(l, set, r)
            }
            Tree::Compressed(how, q) => {
                let how = [
                    Compression::Explicate,
                    Compression::Sbisim,
                    Compression::Wbisim,
                    Compression::Dbisim,
                    Compression::Normal,
                    Compression::Diamond,
                    Compression::TauLoopFactor,
                ][*how as usize];
                let q = self.build(q);
                self.p.compress(how, q)
            }
            Tree::Prioritised(q, classes) => {
                let q = self.build(q);
                let classes = classes.iter().map(|&set| self.set(set)).collect();
                self.p.prioritise(q, Priority::Classes(classes))
            }
            Tree::Ordered(q, of, maximal) => {
                let (q, of, maximal) = (self.build(q), pairs(self, of), self.set(*maximal));
                let all = self.set((1 << EVENTS) - 1);
                self.p.prioritise(q, Priority::order(&all, of, &maximal))
            }
            Tree::Call(which) => self.p.call(self.calls[*which]),
        }
    }

    pub fn ask(&mut self, question: &Question, reduction: Reduction) -> Verdict {
        let options = Options {
            reduction,
            threads: 1,
            ..Options::default()
        };
        self.ask_with(question, &options)
    }

    pub fn ask_with(&mut self, question: &Question, options: &Options) -> Verdict {
        check(
            &mut self.p,
            &mut NoDefinitions,
            question,
            options,
            &mut |_| {},
        )
        .expect("random processes are guarded")
        .verdict
    }
}

pub fn letter(model: Model) -> char {
    match model {
        Model::Traces => 'T',
        Model::Failures => 'F',
        Model::FailuresDivergences => 'D',
        Model::Revivals => 'V',
        Model::RevivalsDivergences => 'W',
        Model::RefusalTesting => 'R',
        Model::RefusalTestingDivergences => 'Q',
    }
}

pub const MODELS: [Model; 3] = [Model::Traces, Model::Failures, Model::FailuresDivergences];
const REDUCTIONS: [Reduction; 5] = [
    Reduction::None,
    Reduction::Automatic,
    Reduction::Precise,
    Reduction::Hybrid,
    Reduction::Fast,
];

const LENGTH: usize = 5;
const STATES: usize = 60;

/// The length of the trace that a counterexample needs.
fn needs(verdict: &Verdict) -> Option<usize> {
    match verdict {
        Verdict::Holds => None,
        Verdict::Fails(example) => Some(example.trace().len()),
        Verdict::Undecided(why) => panic!("undecided: {why}"),
    }
}

#[test]
fn refinement_agrees_with_the_reference() {
    let (mut compared, mut held) = (0, 0);
    for seed in seeds(2000) {
        let (bodies, spec, implementation) = system(seed);
        let (Some(s), Some(i)) = (
            Graph::new(&spec, &bodies, STATES),
            Graph::new(&implementation, &bodies, STATES),
        ) else {
            continue;
        };
        let mut subject = Subject::new(&bodies);
        let (spec_id, imp_id) = (subject.build(&spec), subject.build(&implementation));
        for model in MODELS {
            let difference = reference::difference(letter(model), &s, &i, LENGTH);
            for reduction in REDUCTIONS {
                let question = Question::Refines {
                    model,
                    spec: spec_id,
                    implementation: imp_id,
                };
                let verdict = subject.ask(&question, reduction);
                let context = || {
                    format!(
                        "seed {seed}, {model:?}, {reduction:?}\n{bodies:?}\nspec {spec:?}\nimpl {implementation:?}\n{difference:?}\n{verdict:?}"
                    )
                };
                match (&difference, needs(&verdict)) {
                    (Some(_), None) => panic!("a violation was missed: {}", context()),
                    // The engine may see further than the bound.
                    (None, Some(length)) => assert!(length > LENGTH, "{}", context()),
                    _ => {}
                }
                if let Verdict::Fails(example) = &verdict {
                    let trace: Vec<u8> =
                        example.trace().iter().map(|&e| subject.number(e)).collect();
                    if trace.len() <= LENGTH {
                        let m = reference::meaning(&i, LENGTH, false);
                        assert!(m.traces.contains(&trace), "{}", context());
                        if reduction == Reduction::None
                            && let Violation::Event { .. } = example.violation
                        {
                            // Shortest: nothing differs at smaller lengths.
                            let shorter = trace.len().saturating_sub(2);
                            let before = reference::difference(letter(model), &s, &i, shorter);
                            assert_eq!(before, None, "{}", context());
                        }
                    }
                }
                compared += 1;
                held += usize::from(verdict == Verdict::Holds);
            }
        }
    }
    println!("{compared} refinements compared, {held} hold");
}

#[test]
fn revivals_and_refusal_testing_agree_with_the_reference() {
    const LENGTH: usize = 3;
    let (mut compared, mut held) = (0, 0);
    for seed in seeds(1500) {
        let (bodies, spec, implementation) = system(seed);
        let (Some(s), Some(i)) = (
            Graph::new(&spec, &bodies, 30),
            Graph::new(&implementation, &bodies, 30),
        ) else {
            continue;
        };
        let mut subject = Subject::new(&bodies);
        let (spec_id, imp_id) = (subject.build(&spec), subject.build(&implementation));
        for model in [
            Model::Revivals,
            Model::RevivalsDivergences,
            Model::RefusalTesting,
            Model::RefusalTestingDivergences,
        ] {
            let strict = model.sees_divergence();
            let difference = match model {
                Model::Revivals | Model::RevivalsDivergences => {
                    models::revival_difference(strict, &s, &i, LENGTH)
                }
                _ => models::refusal_difference(strict, &s, &i, LENGTH),
            };
            let question = Question::Refines {
                model,
                spec: spec_id,
                implementation: imp_id,
            };
            for reduction in [Reduction::None, Reduction::Precise] {
                let verdict = subject.ask(&question, reduction);
                let context = || {
                    format!(
                        "seed {seed}, {model:?}, {reduction:?}\n{bodies:?}\nspec {spec:?}\nimpl {implementation:?}\n{difference:?}\n{verdict:?}"
                    )
                };
                match (&difference, needs(&verdict)) {
                    (Some(_), None) => panic!("a violation was missed: {}", context()),
                    (None, Some(length)) => assert!(length > LENGTH, "{}", context()),
                    _ => {}
                }
                compared += 1;
                held += usize::from(verdict == Verdict::Holds);
            }
        }
    }
    println!("{compared} refinements compared, {held} hold");
}

/// No limit turns a verdict into another one.
#[test]
fn a_limit_gives_the_same_verdict_or_none() {
    let (mut undecided, mut decided) = (0, 0);
    for seed in seeds(1500) {
        let (bodies, spec, implementation) = system(seed);
        if Graph::new(&spec, &bodies, STATES).is_none()
            || Graph::new(&implementation, &bodies, STATES).is_none()
        {
            continue;
        }
        let mut r = Random::new(seed);
        let mut subject = Subject::new(&bodies);
        let (spec, process) = (subject.build(&spec), subject.build(&implementation));
        let model = MODELS[r.below(3)];
        let question = match r.below(5) {
            0 => Question::DeadlockFree {
                model: Model::Failures,
                process,
            },
            1 => Question::DivergenceFree { process },
            2 => Question::Deterministic {
                model: Model::Failures,
                process,
            },
            _ => Question::Refines {
                model,
                spec,
                implementation: process,
            },
        };
        let unlimited = subject.ask(&question, Reduction::None);
        let fails = |verdict: &Verdict| matches!(verdict, Verdict::Fails(_));
        for _ in 0..6 {
            let mut budget = Budget::default();
            match r.below(3) {
                0 => budget.states = Some(r.below(60) as u64),
                1 => budget.bytes = Some(r.below(40_000) as u64),
                _ => budget.time = Some(Duration::from_nanos(r.below(200_000) as u64)),
            }
            let options = Options {
                threads: 1,
                budget,
                ..Options::default()
            };
            let limited = subject.ask_with(&question, &options);
            if let Verdict::Undecided(_) = limited {
                undecided += 1;
                continue;
            }
            decided += 1;
            assert_eq!(
                fails(&limited),
                fails(&unlimited),
                "seed {seed} {budget:?} {question:?}\n{limited:?}\n{unlimited:?}"
            );
        }
    }
    assert!(undecided > 0 && decided > 0, "{undecided} {decided}");
}

#[test]
fn properties_agree_with_the_reference() {
    for seed in seeds(2000) {
        let (bodies, _, process) = system(seed);
        let Some(graph) = Graph::new(&process, &bodies, STATES) else {
            continue;
        };
        let mut subject = Subject::new(&bodies);
        let id = subject.build(&process);
        let fails = |verdict: &Verdict| needs(verdict).is_some();
        for reduction in REDUCTIONS {
            let context = || format!("seed {seed}, {reduction:?}\n{bodies:?}\n{process:?}");
            let (deadlocks, diverges) =
                (reference::deadlock(&graph), reference::divergence(&graph));
            let question = Question::DeadlockFree {
                model: Model::Failures,
                process: id,
            };
            assert_eq!(
                fails(&subject.ask(&question, reduction)),
                deadlocks,
                "{}",
                context()
            );
            let question = Question::DeadlockFree {
                model: Model::FailuresDivergences,
                process: id,
            };
            let verdict = subject.ask(&question, reduction);
            assert_eq!(fails(&verdict), deadlocks || diverges, "{}", context());
            let question = Question::DivergenceFree { process: id };
            assert_eq!(
                fails(&subject.ask(&question, reduction)),
                diverges,
                "{}",
                context()
            );
        }
        for model in [Model::Failures, Model::FailuresDivergences] {
            let expected = reference::nondeterminism(letter(model), &graph, LENGTH);
            let question = Question::Deterministic { model, process: id };
            let verdict = subject.ask(&question, Reduction::None);
            let context = || {
                format!("seed {seed} {model:?}\n{bodies:?}\n{process:?}\n{expected:?}\n{verdict:?}")
            };
            match (&expected, needs(&verdict)) {
                (Some(_), None) => panic!("missed: {}", context()),
                (None, Some(length)) => assert!(length + 1 > LENGTH, "{}", context()),
                _ => {}
            }
        }
        // Every trace of the process is one it has, and some other is not.
        let meaning = reference::meaning(&graph, 3, false);
        let mut r = Random::new(seed);
        for _ in 0..4 {
            let trace: Vec<u8> = (0..r.below(4)).map(|_| r.event()).collect();
            let question = Question::HasTrace {
                model: Model::Traces,
                process: id,
                trace: trace.iter().map(|&e| subject.events[e as usize]).collect(),
            };
            let verdict = subject.ask(&question, Reduction::None);
            assert_eq!(
                verdict == Verdict::Holds,
                meaning.traces.contains(&trace),
                "seed {seed} {trace:?} {verdict:?}"
            );
            // In failures: at no prefix can the next event be refused.
            let question = Question::HasTrace {
                model: Model::Failures,
                process: id,
                trace: trace.iter().map(|&e| subject.events[e as usize]).collect(),
            };
            let verdict = subject.ask(&question, Reduction::None);
            let refusable = (0..trace.len()).any(|n| {
                meaning
                    .failures
                    .iter()
                    .any(|(t, refused)| t[..] == trace[..n] && refused >> trace[n] & 1 == 1)
            });
            assert_eq!(
                verdict == Verdict::Holds,
                meaning.traces.contains(&trace) && !refusable,
                "seed {seed} {trace:?} {verdict:?}"
            );
        }
    }
}
