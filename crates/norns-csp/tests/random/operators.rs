//! The operators that look at a process as a whole, on random processes: `chase`, `deter`,
//! `prioritise`, the watchdogs, against the reference and by their laws. Which of several behaviours
//! `chase` and `deter` pick is not fixed by a definition, so what is compared is whether their result
//! is one that the transitions of the reference allow.

use std::rc::Rc;

use norns_csp::Reduction;
use norns_csp::check::{Checker, Model, Question, Verdict};
use norns_csp::compress::compress;
use norns_csp::event::{EventId, EventSet, Priority};
use norns_csp::lts::Lts;
use norns_csp::process::{Compression, NoDefinitions, ProcId, Resolution, Watchdog};
use norns_csp::script::{Script, no_includes};

use crate::reference::{self, Graph, Tree};
use crate::{LENGTH, Random, Subject, seeds, tree};

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

/// Two random processes.
struct Case {
    seed: u64,
    r: Random,
    bodies: Vec<Rc<Tree>>,
    trees: [Rc<Tree>; 2],
    subject: Subject,
    processes: [ProcId; 2],
}

const STATES: usize = 40;

/// Random processes that are small enough.
fn small(cases: u64) -> impl Iterator<Item = Case> {
    seeds(cases).filter_map(|seed| {
        let mut r = Random::new(seed);
        let bodies: Vec<_> = (0..crate::CALLS).map(|_| crate::body(&mut r, 2)).collect();
        let trees = [tree(&mut r, 3), tree(&mut r, 2)];
        for tree in &trees {
            Graph::new(tree, &bodies, STATES)?;
        }
        let mut subject = Subject::new(&bodies);
        let processes = [0, 1].map(|which: usize| subject.build(&trees[which]));
        Some(Case {
            seed,
            r,
            bodies,
            trees,
            subject,
            processes,
        })
    })
}

/// Whether `chosen` is what `how` may leave of the process: in each state one of its taus, if there
/// are any, and with `deter` one transition for each event. The largest relation that links each
/// state of `chosen` to one of the process that it stands for, by removing pairs.
fn is_resolution(how: Resolution, subject: &Subject, chosen: &Lts, process: &Graph) -> bool {
    // Where the taus of `chosen` end, if they do; each of its states has at most one tau, alone.
    let settled = |mut c: u32| -> Option<u32> {
        for _ in 0..=chosen.len() {
            match chosen.steps(c) {
                [(EventId::TAU, to)] => c = *to,
                steps => {
                    assert!(steps.iter().all(|step| step.0 != EventId::TAU));
                    return Some(c);
                }
            }
        }
        None
    };
    let (rows, columns) = (chosen.len(), process.steps.len());
    let mut related = vec![vec![true; columns]; rows];
    loop {
        let fits = |c: u32, g: usize| {
            let Some(c) = settled(c) else {
                return process.diverges(g);
            };
            let steps: Vec<(u8, u32)> = chosen
                .steps(c)
                .iter()
                .filter(|step| step.0 != norns_csp::DONE)
                .map(|&(event, to)| (subject.number(event), to))
                .collect();
            process.closure([g].into()).into_iter().any(|g| {
                let all = &process.steps[g];
                let pair = |(e, c): (u8, u32), (f, g): (u8, usize)| {
                    e == f && (e == reference::TICK || related[c as usize][g])
                };
                all.iter().all(|step| step.0 != reference::TAU)
                    && steps.iter().all(|&mine| all.iter().any(|&s| pair(mine, s)))
                    && all.iter().all(|&step| match how {
                        Resolution::Chase => steps.iter().any(|&mine| pair(mine, step)),
                        Resolution::Deter => {
                            steps.iter().filter(|mine| mine.0 == step.0).count() == 1
                        }
                    })
            })
        };
        let next: Vec<Vec<bool>> = (0..rows)
            .map(|c| (0..columns).map(|g| fits(c as u32, g)).collect())
            .collect();
        if next == related {
            return related[0][0];
        }
        related = next;
    }
}

#[test]
fn chase_and_deter_leave_what_the_reference_allows() {
    let mut tried = 0;
    for case in small(600) {
        let (seed, bodies, mut subject) = (case.seed, case.bodies, case.subject);
        // Compressions change which taus there are.
        let tree = reference::uncompressed(&case.trees[0]);
        let Some(graph) = Graph::new(&tree, &bodies, 4 * STATES) else {
            continue;
        };
        let process = subject.build(&tree);
        for how in [Resolution::Chase, Resolution::Deter] {
            let chosen = subject.p.resolve(how, process);
            let chosen = Checker::default()
                .explicit(&mut subject.p, &mut NoDefinitions, chosen)
                .expect("random processes are guarded");
            assert!(
                is_resolution(how, &subject, &chosen, &graph),
                "seed {seed} {how:?}\n{bodies:?}\n{tree:?}\n{chosen:?}"
            );
            tried += usize::from(
                graph
                    .steps
                    .iter()
                    .flatten()
                    .any(|step| step.0 == reference::TAU),
            );
        }
    }
    assert!(std::env::var_os("SEED").is_some() || tried > 100, "{tried}");
}

#[test]
fn chase_and_deter_pick_a_behaviour() {
    let mut tried = 0;
    for case in small(600) {
        let (seed, mut s, [p, _]) = (case.seed, case.subject, case.processes);
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
    for case in small(600) {
        let (seed, mut s, [p, q]) = (case.seed, case.subject, case.processes);
        let stop = Rc::new(Tree::Stop);
        let [spec, process] = case
            .trees
            .map(|tree| Rc::new(Tree::Sequence(tree, stop.clone())))
            .map(|tree| {
                Graph::new(&tree, &case.bodies, 2 * STATES).expect("as small as its parts")
            });
        let differs = |model| reference::difference(model, &spec, &process, LENGTH).is_some();
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
        assert!(!(quiet && differs('T')), "seed {seed}: trace_watchdog");
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
        assert!(!(free && differs('F')), "seed {seed}: failure_watchdog");
        seen[2 + usize::from(refines)] += 1;
    }
    assert!(seen.iter().all(|&count| count > 10), "{seen:?}");
}

#[test]
fn priorities_only_take_away() {
    for case in small(400) {
        let (seed, mut r, mut s, [p, _]) = (case.seed, case.r, case.subject, case.processes);
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

/// `mtransclose(R, S)` has, for each class of the smallest equivalence that contains `R`, the pairs
/// of its least element within `S` and each other one there.
#[test]
fn mtransclose_agrees_with_a_closure_by_steps() {
    const VALUES: usize = 6;
    for seed in seeds(100) {
        let mut r = Random::new(seed);
        let pairs: Vec<_> = (0..r.below(6))
            .map(|_| (r.below(VALUES), r.below(VALUES)))
            .collect();
        let set: Vec<usize> = (0..VALUES).filter(|_| r.below(3) > 0).collect();
        if set.is_empty() {
            continue;
        }
        let mut same = [[false; VALUES]; VALUES];
        for (x, row) in same.iter_mut().enumerate() {
            row[x] = true;
        }
        for &(x, y) in &pairs {
            (same[x][y], same[y][x]) = (true, true);
        }
        for via in 0..VALUES {
            for x in 0..VALUES {
                for y in 0..VALUES {
                    same[x][y] |= same[x][via] && same[via][y];
                }
            }
        }
        let mut expected = Vec::new();
        for &x in &set {
            let least = *set.iter().find(|&&y| same[x][y]).expect("x itself");
            if least != x {
                expected.push((least, x));
            }
        }
        expected.sort_unstable();
        let list = |of: &[(usize, usize)]| {
            let of: Vec<String> = of.iter().map(|pair| format!("{pair:?}")).collect();
            format!("{{{}}}", of.join(", "))
        };
        let set: Vec<String> = set.iter().map(usize::to_string).collect();
        let text = format!(
            "external mtransclose\nprint mtransclose({}, {{{}}})\n",
            list(&pairs),
            set.join(", ")
        );
        let mut script = Script::load("random", &text, &mut no_includes).expect("well formed");
        let printed = script.prints().remove(0).expect("it has a value");
        assert_eq!(printed.value, list(&expected), "seed {seed}\n{text}");
    }
}
