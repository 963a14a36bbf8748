//! Laws of the operators that look at a process as a whole, on random processes: `chase`, `deter`,
//! `prioritise`, the watchdogs. Which of several behaviours `chase` and `deter` pick is not fixed by
//! a definition, so they have laws only.

use std::rc::Rc;

use norns_csp::Reduction;
use norns_csp::check::{Model, Question, Verdict};
use norns_csp::compress::compress;
use norns_csp::event::{EventId, EventSet, Priority};
use norns_csp::lts::Lts;
use norns_csp::process::{Compression, ProcId, Resolution, Watchdog};

use crate::reference::{Graph, Tree};
use crate::{Random, Subject, seeds, tree};

impl Subject {
    fn holds(&mut self, question: &Question) -> bool {
        self.ask(question, Reduction::None) == Verdict::Holds
    }

    fn refines(&mut self, model: Model, spec: ProcId, implementation: ProcId) -> bool {
        self.holds(&Question::Refines {
            model,
            spec,
            implementation,
        })
    }
}

/// Random processes that are small enough, with the seed of each.
fn small(cases: u64) -> impl Iterator<Item = (u64, Random, Subject, ProcId, ProcId)> {
    seeds(cases).filter_map(|seed| {
        let mut r = Random::new(seed);
        let bodies: Vec<_> = (0..crate::CALLS).map(|_| crate::body(&mut r, 2)).collect();
        let (p, q): (Rc<Tree>, Rc<Tree>) = (tree(&mut r, 3), tree(&mut r, 2));
        Graph::new(&p, &bodies, 40)?;
        Graph::new(&q, &bodies, 40)?;
        let mut subject = Subject::new(&bodies);
        let (p, q) = (subject.build(&p), subject.build(&q));
        Some((seed, r, subject, p, q))
    })
}

#[test]
fn chase_and_deter_pick_a_behaviour() {
    let mut tried = 0;
    for (seed, _, mut s, p, _) in small(600) {
        let stop = s.p.stop();
        // Termination is a choice that neither of them makes.
        let endless = s.p.sequence(p, stop);
        for how in [Resolution::Chase, Resolution::Deter] {
            let chosen = s.p.resolve(how, p);
            assert!(s.refines(Model::Traces, p, chosen), "seed {seed} {how:?}");
            if !s.holds(&Question::DivergenceFree { process: p }) {
                continue;
            }
            tried += 1;
            for model in [Model::FailuresDivergences, Model::RefusalTestingDivergences] {
                assert!(s.refines(model, p, chosen), "seed {seed} {how:?} {model:?}");
            }
            let chosen = s.p.resolve(how, endless);
            let model = Model::FailuresDivergences;
            let deterministic = |process| Question::Deterministic { model, process };
            if how == Resolution::Deter || s.holds(&deterministic(endless)) {
                assert!(s.holds(&deterministic(chosen)), "seed {seed} {how:?}");
            }
            if s.holds(&deterministic(endless)) {
                assert!(s.refines(model, chosen, endless), "seed {seed} {how:?}");
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn a_watchdog_tells_what_a_refinement_does() {
    let mut seen = [0; 4];
    for (seed, _, mut s, p, q) in small(600) {
        let stop = s.p.stop();
        let (spec, process) = (s.p.sequence(p, stop), s.p.sequence(q, stop));
        let all = s.set(7);
        let bark = s.p.events.intern("bark");
        let dog = s.p.watchdog(Watchdog::Traces, spec, all.clone(), bark);
        let watched = s.p.parallel(vec![process, dog], all.clone());
        let silent = s.p.hide(watched, all.clone());
        let refines = s.refines(Model::Traces, spec, process);
        let quiet = s.refines(Model::Traces, stop, silent);
        assert_eq!(refines, quiet, "seed {seed}: trace_watchdog");
        seen[usize::from(refines)] += 1;
        let dog = s.p.watchdog(Watchdog::Failures, spec, all.clone(), bark);
        let watched = s.p.parallel(vec![process, dog], all.clone());
        let silent = s.p.hide(watched, all);
        let refines = s.refines(Model::Failures, spec, process);
        let free = s.refines(Model::Traces, stop, silent)
            && s.holds(&Question::DeadlockFree {
                model: Model::Failures,
                process: watched,
            });
        assert_eq!(refines, free, "seed {seed}: failure_watchdog");
        seen[2 + usize::from(refines)] += 1;
    }
    assert!(seen.iter().all(|&count| count > 10), "{seen:?}");
}

#[test]
fn priorities_only_take_away() {
    for (seed, mut r, mut s, p, _) in small(400) {
        let all = Priority::Classes([s.set(7)].into());
        let same = s.p.prioritise(p, all);
        for model in crate::MODELS {
            assert!(s.refines(model, p, same), "seed {seed} {model:?}");
            assert!(s.refines(model, same, p), "seed {seed} {model:?}");
        }
        let classes = Priority::Classes([s.set(r.set()), s.set(r.set())].into());
        let once = s.p.prioritise(p, classes.clone());
        assert!(s.refines(Model::Traces, p, once), "seed {seed}");
        let twice = s.p.prioritise(once, classes);
        for model in crate::MODELS {
            assert!(s.refines(model, once, twice), "seed {seed} {model:?}");
            assert!(s.refines(model, twice, once), "seed {seed} {model:?}");
        }
    }
}

/// States after a compression of a system given by its transitions.
fn states(how: Compression, rows: &[&[(u32, u32)]]) -> usize {
    let lts = Lts::new(rows.iter().map(|row| {
        row.iter()
            .map(|&(event, to)| (EventId(event), to))
            .collect()
    }));
    compress(&lts, how).len()
}

#[test]
fn the_bisimulations_differ_where_they_should() {
    const TAU: u32 = 0;
    let [a, b, c] = [2, 3, 4];
    // a.(b + tau.c) + a.c: the second branch is matched by the first and a tau behind the event,
    // so weak bisimulation drops it and delay bisimulation does not. States of the smaller one:
    // the root, b + tau.c, c, the end.
    let milner: &[&[(u32, u32)]] = &[&[(a, 1), (a, 2)], &[(b, 3), (TAU, 2)], &[(c, 3)], &[]];
    // The transition a -> 2 stays in a quotient; what counts is whether roots with and without
    // it are one class.
    let both: &[&[(u32, u32)]] = &[
        &[(b, 4), (c, 5)],
        &[(b, 3), (TAU, 2)],
        &[(c, 3)],
        &[],
        &[(a, 1), (a, 2)],
        &[(a, 1)],
    ];
    assert_eq!(states(Compression::Wbisim, milner), 4);
    assert_eq!(states(Compression::Sbisim, both), 6);
    assert_eq!(states(Compression::Dbisim, both), 6);
    assert_eq!(states(Compression::Wbisim, both), 5);
    // A tau before an event is dropped by both, divergence by neither.
    let before: &[&[(u32, u32)]] = &[&[(TAU, 1)], &[(a, 2)], &[]];
    assert_eq!(states(Compression::Sbisim, before), 3);
    assert_eq!(states(Compression::Dbisim, before), 2);
    assert_eq!(states(Compression::Wbisim, before), 2);
    let loops: &[&[(u32, u32)]] = &[&[(a, 1), (b, 2)], &[(TAU, 1), (a, 3)], &[(a, 3)], &[]];
    assert_eq!(states(Compression::Wbisim, loops), 4);
}

#[test]
fn an_order_closes_over_its_pairs() {
    let [a, b, c, d] = [2, 3, 4, 5].map(EventId);
    let order = Priority::order(&EventSet::all(), [(a, b), (b, c)], &EventSet::only([a]));
    assert!(!order.allows(c, &[a, c]));
    assert!(order.allows(c, &[c, d]));
    assert!(!order.allows(d, &[EventId::TAU, d]));
    assert!(order.allows(a, &[EventId::TICK, a]));
}
