//! The engine on models built from values: verdicts, counterexamples, determinism.

use norns_csp::check::{Model, Options, Outcome, Question, Verdict, check};
use norns_csp::counterexample::Violation;
use norns_csp::event::{EventId, EventSet};
use norns_csp::process::{NoDefinitions, ProcId, Processes};
use norns_csp::{Budget, Reduction};

fn ask(processes: &mut Processes, question: &Question, options: &Options) -> Outcome {
    check(
        processes,
        &mut NoDefinitions,
        question,
        options,
        &mut |_| {},
    )
    .expect("the model is well formed")
}

fn events(processes: &mut Processes, names: &str) -> Vec<EventId> {
    names
        .split_whitespace()
        .map(|name| processes.events.intern(name))
        .collect()
}

/// A recursive mutex process for `threads` threads.
fn mutex(p: &mut Processes, m: usize, threads: usize) -> (ProcId, Vec<EventId>) {
    let call = p.new_call(Some(&format!("MUTEX({m})")));
    let again = p.call(call);
    let mut all = Vec::new();
    let mut choices = Vec::new();
    for t in 0..threads {
        let lock = p.events.intern(&format!("lock.{t}.{m}"));
        let unlock = p.events.intern(&format!("unlock.{t}.{m}"));
        all.extend([lock, unlock]);
        choices.push(p.prefixes(&[lock, unlock], again));
    }
    let body = p.external_choice(choices);
    p.define(call, body);
    (again, all)
}

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
fn termination_may_refuse_everything_else() {
    let mut p = Processes::new();
    let [a] = events(&mut p, "a")[..] else {
        panic!()
    };
    let (stop, skip) = (p.stop(), p.skip());
    let pa = p.prefix(a, stop);
    let choice = p.external_choice(vec![skip, pa]);
    let sliding = p.sliding(pa, skip);
    // SKIP [] a -> STOP is the same as (a -> STOP) [> SKIP.
    for (spec, implementation) in [(choice, sliding), (sliding, choice)] {
        let question = Question::Refines {
            model: Model::FailuresDivergences,
            spec,
            implementation,
        };
        assert_eq!(
            ask(&mut p, &question, &Options::default()).verdict,
            Verdict::Holds
        );
    }
    let question = Question::Deterministic {
        model: Model::Failures,
        process: choice,
    };
    let outcome = ask(&mut p, &question, &Options::default());
    assert!(matches!(outcome.verdict, Verdict::Fails(_)));
    // Two that end, end together; one that does not, does not.
    let both = p.interleave(vec![skip, skip]);
    let question = Question::DeadlockFree {
        model: Model::Failures,
        process: both,
    };
    assert_eq!(
        ask(&mut p, &question, &Options::default()).verdict,
        Verdict::Holds
    );
    let one = p.interleave(vec![skip, stop]);
    let question = Question::DeadlockFree {
        model: Model::Failures,
        process: one,
    };
    assert!(matches!(
        ask(&mut p, &question, &Options::default()).verdict,
        Verdict::Fails(_)
    ));
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

/// A caller's own events, as `norns-predict` would have them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Operation {
    Lock(u32, u32),
    Unlock(u32, u32),
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Operation::Lock(t, m) => write!(f, "lock.{t}.{m}"),
            Operation::Unlock(t, m) => write!(f, "unlock.{t}.{m}"),
        }
    }
}

#[test]
fn a_counterexample_comes_back_in_the_callers_events() {
    use Operation::{Lock, Unlock};
    let mut p = Processes::new();
    let mut words = norns_csp::vocabulary::Vocabulary::new();
    let mut thread = |p: &mut Processes, operations: &[Operation]| {
        let events: Vec<EventId> = operations.iter().map(|o| words.event(p, o)).collect();
        let skip = p.skip();
        p.prefixes(&events, skip)
    };
    let threads = vec![
        thread(
            &mut p,
            &[Lock(0, 0), Lock(0, 1), Unlock(0, 1), Unlock(0, 0)],
        ),
        thread(
            &mut p,
            &[Lock(1, 1), Lock(1, 0), Unlock(1, 0), Unlock(1, 1)],
        ),
    ];
    let (first, mut sync) = mutex(&mut p, 0, 2);
    let (second, more) = mutex(&mut p, 1, 2);
    sync.extend(more);
    let threads = p.interleave(threads);
    let mutexes = p.interleave(vec![first, second]);
    let program = p.parallel(vec![threads, mutexes], EventSet::only(sync.iter().copied()));
    let hidden = p.hide(program, EventSet::only(sync));
    let question = Question::DeadlockFree {
        model: Model::Failures,
        process: hidden,
    };
    let outcome = ask(&mut p, &question, &Options::default());
    let Verdict::Fails(example) = outcome.verdict else {
        panic!("{:?}", outcome.verdict)
    };
    let witness = words.witness(&example);
    let mut schedule = witness.schedule();
    schedule.sort_by_key(Operation::to_string);
    assert_eq!(schedule, [Lock(0, 0), Lock(1, 1)]);
    assert!(
        witness
            .happenings
            .iter()
            .all(|h| h.seen.is_none() && h.components.len() == 2)
    );
}

/// Operators nested a thousand deep, in a thread with the usual small stack.
#[test]
fn deep_nesting_needs_no_deep_stack() {
    let mut p = Processes::new();
    let (a, b) = (p.events.intern("a"), p.events.intern("b"));
    let skip = p.skip();
    let one = p.prefix(a, skip);
    let mut nest = one;
    for _ in 0..700 {
        nest = p.parallel(vec![nest, one], EventSet::only([a]));
        nest = p.hide(nest, EventSet::only([b]));
    }
    let model = Model::FailuresDivergences;
    let question = Question::Refines {
        model,
        spec: one,
        implementation: nest,
    };
    let budget = Budget {
        states: Some(20_000),
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
    assert!(!matches!(outcome.verdict, Verdict::Fails(_)));
    let mut sequence = skip;
    for _ in 0..20_000 {
        sequence = p.sequence(sequence, skip);
    }
    let question = Question::Refines {
        model,
        spec: skip,
        implementation: sequence,
    };
    assert_eq!(
        ask(&mut p, &question, &Options::default()).verdict,
        Verdict::Holds
    );
}

#[test]
fn a_component_without_end_is_undecided_but_a_violation_before_is_found() {
    let mut p = Processes::new();
    let (a, b) = (p.events.intern("a"), p.events.intern("b"));
    // P = a -> (P ||| b -> STOP) has infinitely many states.
    let call = p.new_call(Some("P"));
    let again = p.call(call);
    let stop = p.stop();
    let pb = p.prefix(b, stop);
    let inner = p.interleave(vec![again, pb]);
    let body = p.prefix(a, inner);
    p.define(call, body);
    let budget = Budget {
        states: Some(2000),
        ..Budget::default()
    };
    let options = Options {
        budget,
        ..Options::default()
    };
    let both = p.run(EventSet::only([a, b]));
    let question = Question::Refines {
        model: Model::Traces,
        spec: both,
        implementation: again,
    };
    assert!(matches!(
        ask(&mut p, &question, &options).verdict,
        Verdict::Undecided(_)
    ));
    let only = p.run(EventSet::only([a]));
    let question = Question::Refines {
        model: Model::Traces,
        spec: only,
        implementation: again,
    };
    let verdict = ask(&mut p, &question, &options).verdict;
    let Verdict::Fails(example) = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(example.trace(), [a, b]);
}

#[test]
fn tau_priority_drops_events_of_unstable_states() {
    let mut p = Processes::new();
    let [a, b, h] = events(&mut p, "a b h")[..] else {
        panic!()
    };
    let stop = p.stop();
    let (pa, pb) = (p.prefix(a, stop), p.prefix(b, stop));
    let hb = p.prefix(h, pb);
    let choice = p.external_choice(vec![pa, hb]);
    let process = p.hide(choice, EventSet::only([h]));
    let question = Question::Refines {
        model: Model::Traces,
        spec: pb,
        implementation: process,
    };
    assert!(matches!(
        ask(&mut p, &question, &Options::default()).verdict,
        Verdict::Fails(_)
    ));
    let tau_priority = Some(EventSet::only([a]));
    let options = Options {
        tau_priority,
        reduction: Reduction::Precise,
        ..Options::default()
    };
    assert_eq!(ask(&mut p, &question, &options).verdict, Verdict::Holds);
}

#[test]
fn a_property_in_text_speaks_of_processes_built_from_values() {
    use norns_csp::script::{Answer, Script, no_includes};
    let text = "channel open, access, close : {0..1}
FILE = open?t -> OPENED
OPENED = access?t -> OPENED [] close?t -> FILE
PROGRAM = STOP
assert FILE [T= PROGRAM |\\ {|open, access, close|}
";
    let mut script = Script::load("property", text, &mut no_includes).expect("well formed");
    let p = &mut script.processes;
    let [open, access, close, other] = events(p, "open.0 access.1 close.0 other")[..] else {
        panic!()
    };
    let skip = p.skip();
    let first = p.prefixes(&[open, close], skip);
    let second = p.prefixes(&[other, access], skip);
    let program = p.interleave(vec![first, second]);
    script.give("PROGRAM", program);
    let (answer, _) = script
        .check(0, &Options::default(), &mut |_| {})
        .expect("it can be checked");
    let Answer::Fails(Some(example)) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(example.trace(), [access]);
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
