//! Threads with locks: the shape of the models that recordings give.

use norns_csp::check::{Model, Options, Question, Verdict};
use norns_csp::counterexample::Violation;
use norns_csp::event::{EventId, EventSet};
use norns_csp::process::{ProcId, Processes};
use norns_csp::{Budget, Reduction};

use crate::{ask, mutex};

/// The program of Figure 4.13 in Carril (2017) with its deadlock check, for any threads given as
/// lists of lock operations: `+m` locks, `-m` unlocks.
fn program(p: &mut Processes, threads: &[&str]) -> (ProcId, ProcId) {
    let mut sync = Vec::new();
    let mut mutexes = Vec::new();
    let highest = threads
        .iter()
        .flat_map(|t| t.split_whitespace())
        .map(|op| op[1..].parse::<usize>().expect("a number"))
        .max()
        .expect("an operation");
    for m in 0..=highest {
        let (process, events) = mutex(p, m, threads.len());
        mutexes.push(process);
        sync.extend(events);
    }
    let skip = p.skip();
    let mut lines = Vec::new();
    for (t, text) in threads.iter().enumerate() {
        let line: Vec<EventId> = text
            .split_whitespace()
            .map(|op| {
                let what = if op.starts_with('+') {
                    "lock"
                } else {
                    "unlock"
                };
                p.events.intern(&format!("{what}.{t}.{}", &op[1..]))
            })
            .collect();
        let body = p.prefixes(&line, skip);
        let call = p.new_call(Some(&format!("THREAD({t})")));
        p.define(call, body);
        lines.push(p.call(call));
    }
    let inter = p.interleave(lines);
    let end = p.events.intern("endthreads");
    let ending = p.prefix(end, skip);
    let inter = p.sequence(inter, ending);
    let sync_process = p.interleave(mutexes);
    let program = p.parallel(vec![inter, sync_process], EventSet::only(sync));
    let aux = p.events.intern("aux");
    let live = p.new_call(Some("LIVE"));
    let live_term = p.call(live);
    let body = p.prefix(aux, live_term);
    p.define(live, body);
    let caught = p.exception(program, EventSet::only([end]), skip);
    let hidden = p.hide(caught, EventSet::all());
    let whole = p.sequence(hidden, live_term);
    (live_term, whole)
}

#[test]
fn the_thesis_deadlock_is_found_and_named() {
    for reduction in [
        Reduction::None,
        Reduction::Precise,
        Reduction::Hybrid,
        Reduction::Fast,
    ] {
        let mut p = Processes::new();
        let (live, whole) = program(&mut p, &["+0 +1 -1 -0", "+1 +0 -0 -1"]);
        let question = Question::Refines {
            model: Model::Failures,
            spec: live,
            implementation: whole,
        };
        let outcome = ask(
            &mut p,
            &question,
            &Options {
                reduction,
                ..Options::default()
            },
        );
        let Verdict::Fails(example) = outcome.verdict else {
            panic!("{:?}", outcome.verdict)
        };
        assert_eq!(example.trace(), []);
        let locks: Vec<String> = example
            .steps
            .iter()
            .map(|s| p.events.name(s.parts[0].1).into_owned())
            .collect();
        assert_eq!(locks.len(), 2, "{}", example.text(&p.events));
        assert!(
            ["lock.0.0", "lock.1.1"]
                .iter()
                .all(|lock| locks.iter().any(|l| l == lock))
        );
        assert!(
            matches!(&example.violation, Violation::Refusal { offered, .. } if offered.is_empty())
        );
        assert!(
            example
                .text(&p.events)
                .contains("THREAD(0) offers {lock.0.1}")
        );
        assert!(example.dot(&p.events).starts_with("digraph"));
        assert_eq!(example.json(&p.events)["violation"]["kind"], "refusal");
    }
}

#[test]
fn one_lock_order_has_no_deadlock() {
    for reduction in [Reduction::None, Reduction::Precise] {
        let mut p = Processes::new();
        let (live, whole) = program(&mut p, &["+0 +1 -1 -0", "+0 +1 -1 -0", "+1 -1 +0 -0"]);
        for model in [Model::Traces, Model::Failures, Model::FailuresDivergences] {
            let question = Question::Refines {
                model,
                spec: live,
                implementation: whole,
            };
            let outcome = ask(
                &mut p,
                &question,
                &Options {
                    reduction,
                    threads: 1,
                    ..Options::default()
                },
            );
            assert_eq!(outcome.verdict, Verdict::Holds);
        }
    }
}

#[test]
fn verdicts_do_not_depend_on_threads() {
    let mut p = Processes::new();
    let names = [
        "+0 +1 -1 -0 +2 -2",
        "+1 +2 -2 -1 +0 -0",
        "+2 +0 -0 -2 +1 -1",
        "+3 -3 +4 -4",
    ];
    let (live, whole) = program(&mut p, &names);
    let question = Question::Refines {
        model: Model::Failures,
        spec: live,
        implementation: whole,
    };
    let one = ask(
        &mut p,
        &question,
        &Options {
            threads: 1,
            ..Options::default()
        },
    );
    for threads in [2, 3, 5] {
        let other = ask(
            &mut p,
            &question,
            &Options {
                threads,
                ..Options::default()
            },
        );
        assert_eq!(one.verdict, other.verdict);
    }
}

/// Large enough that levels are expanded by several threads.
#[test]
fn parallel_search_finds_the_same() {
    let mut p = Processes::new();
    let free = "+0 -0 +1 -1 +2 -2 +0 -0 +1 -1 +2 -2 +0 -0";
    let (live, whole) = program(
        &mut p,
        &[
            free,
            "+3 -3 +4 -4 +3 -3 +4 -4 +5 +6 -6 -5",
            free,
            "+7 -7 +6 +5 -5 -6",
        ],
    );
    let question = Question::Refines {
        model: Model::Failures,
        spec: live,
        implementation: whole,
    };
    let one = ask(
        &mut p,
        &question,
        &Options {
            threads: 1,
            reduction: Reduction::None,
            ..Options::default()
        },
    );
    assert!(one.statistics.states > 5000, "{:?}", one.statistics);
    for threads in [2, 3] {
        let other = ask(
            &mut p,
            &question,
            &Options {
                threads,
                reduction: Reduction::None,
                ..Options::default()
            },
        );
        assert_eq!(one.verdict, other.verdict);
        assert_eq!(one.statistics.states, other.statistics.states);
    }
    let (live, whole) = {
        p = Processes::new();
        let other = "+3 -3 +4 -4 +3 -3 +4 -4";
        program(&mut p, &[free, free, other, other, "+5 -5 +6 -6", "+7 -7"])
    };
    let question = Question::Refines {
        model: Model::Failures,
        spec: live,
        implementation: whole,
    };
    let one = ask(
        &mut p,
        &question,
        &Options {
            threads: 1,
            reduction: Reduction::None,
            ..Options::default()
        },
    );
    let two = ask(
        &mut p,
        &question,
        &Options {
            threads: 2,
            reduction: Reduction::None,
            ..Options::default()
        },
    );
    assert_eq!(
        (&one.verdict, &two.verdict),
        (&Verdict::Holds, &Verdict::Holds)
    );
    assert_eq!(one.statistics.states, two.statistics.states);
    assert!(one.statistics.states > 50_000, "{:?}", one.statistics);
}

#[test]
fn a_spent_budget_is_undecided() {
    let mut p = Processes::new();
    let (live, whole) = program(
        &mut p,
        &["+0 -0 +0 -0 +0 -0", "+1 -1 +1 -1 +1 -1", "+2 -2 +2 -2"],
    );
    let question = Question::Refines {
        model: Model::Failures,
        spec: live,
        implementation: whole,
    };
    let budget = Budget {
        states: Some(20),
        ..Budget::default()
    };
    let outcome = ask(
        &mut p,
        &question,
        &Options {
            budget,
            ..Options::default()
        },
    );
    assert!(matches!(outcome.verdict, Verdict::Undecided(why) if why.contains("20 states")));
}

#[test]
fn long_threads_compile_fast() {
    let started = std::time::Instant::now();
    let mut p = Processes::new();
    let line: Vec<String> = (0..2500)
        .map(|i| format!("+{0} +9 -9 -{0}", i % 8))
        .collect();
    let line = line.join(" ");
    let (live, whole) = program(&mut p, &[&line, &line, &line, &line]);
    let budget = Budget {
        states: Some(1000),
        ..Budget::default()
    };
    let question = Question::Refines {
        model: Model::Failures,
        spec: live,
        implementation: whole,
    };
    let outcome = ask(
        &mut p,
        &question,
        &Options {
            budget,
            ..Options::default()
        },
    );
    assert!(matches!(outcome.verdict, Verdict::Undecided(_)));
    assert!(
        outcome.statistics.rules < 100,
        "rules follow events, not positions"
    );
    // Thirty milliseconds of work; the bound only catches what grows faster than the script.
    assert!(started.elapsed().as_secs() < 10);
}

#[test]
fn a_search_that_outgrows_its_memory_goes_on_disk() {
    let mut p = Processes::new();
    let free = "+0 -0 +1 -1 +2 -2 +0 -0 +1 -1 +2 -2 +0 -0";
    let other = "+3 -3 +4 -4 +3 -3 +4 -4";
    let (live, whole) = program(
        &mut p,
        &[free, other, other, "+5 +6 -6 -5 +7 -7", "+7 -7 +6 +5 -5 -6"],
    );
    let refines = |model| Question::Refines {
        model,
        spec: live,
        implementation: whole,
    };
    for threads in [1, 2] {
        for model in [Model::Failures, Model::FailuresDivergences] {
            let plain = Options {
                threads,
                reduction: Reduction::None,
                ..Options::default()
            };
            let large = ask(&mut p, &refines(model), &plain);
            let budget = Budget {
                bytes: Some(1_000_000),
                ..Budget::default()
            };
            let small = Options {
                budget,
                ..plain.clone()
            };
            let none = ask(&mut p, &refines(model), &small);
            assert!(matches!(none.verdict, Verdict::Undecided(_)));
            let disk = Options {
                disk: Some(std::env::temp_dir()),
                ..small
            };
            let spilled = ask(&mut p, &refines(model), &disk);
            assert_eq!(
                spilled.verdict, large.verdict,
                "{model:?}, {threads} threads"
            );
            assert_eq!(spilled.statistics.states, large.statistics.states);
            assert!(
                spilled.statistics.disk_bytes > 0,
                "{:?}",
                spilled.statistics
            );
        }
    }
}
