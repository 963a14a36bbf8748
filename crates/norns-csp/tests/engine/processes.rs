//! Small processes, a caller's own events, and text that speaks of processes built from values.

use norns_csp::check::{Model, Options, Question, Verdict};
use norns_csp::event::{EventId, EventSet};
use norns_csp::process::Processes;
use norns_csp::{Budget, Reduction};

use crate::{ask, events, mutex};

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

/// Components that are all in every event: each set of rules grows to all of them, so the search
/// gives the reduction up, and must find the same.
#[test]
fn a_reduction_that_never_pays_changes_nothing() {
    let mut p = Processes::new();
    let shared: Vec<EventId> = (0..40)
        .map(|k| p.events.intern(&format!("all.{k}")))
        .collect();
    let components: Vec<_> = (0..3)
        .map(|i| {
            let states: Vec<_> = (0..16)
                .map(|n| p.new_call(Some(&format!("C({i}, {n})"))))
                .collect();
            for n in 0..16 {
                let (here, next) = (p.call(states[n]), p.call(states[(n + 1) % 16]));
                // One event for each step, so that no two states are alike.
                let own = p.events.intern(&format!("own.{i}.{n}"));
                let mut choices = vec![p.prefix(own, next)];
                choices.extend(shared.iter().map(|&event| p.prefix(event, here)));
                let body = p.external_choice(choices);
                p.define(states[n], body);
            }
            p.call(states[0])
        })
        .collect();
    let process = p.parallel(components, EventSet::only(shared));
    let question = Question::DeadlockFree {
        model: Model::Failures,
        process,
    };
    for reduction in [Reduction::None, Reduction::Automatic, Reduction::Precise] {
        let options = Options {
            reduction,
            ..Options::default()
        };
        let outcome = ask(&mut p, &question, &options);
        assert_eq!(outcome.verdict, Verdict::Holds);
        assert_eq!(outcome.statistics.states, 16 * 16 * 16, "{reduction:?}");
    }
}
