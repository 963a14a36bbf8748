//! Every kind of synchronisation: a trace in which it allows a race on `x`, and one in which it
//! forbids it.

use norns_model::Meaning;
use norns_model::script;
use norns_predict::order::{Engine, Outcome};

/// Checks whether some pair of accesses to `x` races in the optimistic meaning, and that the
/// enumeration of all schedules agrees.
fn check(kind: &str, text: &str, expected: bool) {
    let trace = script::trace(text);
    let all = norns_model::brute_force::enumerate(&trace, Meaning::Optimistic, 100_000)
        .expect("the trace is small");
    let mut engine = Engine::new(&trace, Meaning::Optimistic);
    let (pairs, _) = engine.race_candidates(usize::MAX);
    let mut pairs = pairs.iter();
    let racy = pairs.any(|&(one, other)| matches!(engine.race(one, other), Outcome::Witness(_)));
    assert_eq!(racy, expected, "{kind}:\n{text}");
    assert_eq!(!all.races.is_empty(), expected, "{kind}, enumerated");
}

#[test]
fn every_kind_allows_and_forbids_a_race() {
    let table = [
        (
            "mutex",
            "T1: lock m, write x, unlock m
             T2: lock n, write x, unlock n",
            "T1: lock m, write x, unlock m
             T2: lock m, write x, unlock m",
        ),
        (
            "recursive mutex",
            "T1: lock m:recursive, lock m:recursive, unlock m:recursive, unlock m:recursive, write x
             T2: lock m:recursive, write x, unlock m:recursive",
            "T1: lock m:recursive, lock m:recursive, unlock m:recursive, write x, unlock m:recursive
             T2: lock m:recursive, write x, unlock m:recursive",
        ),
        (
            "reader-writer lock",
            "T1: read-lock m, write x, unlock m
             T2: read-lock m, write x, unlock m",
            "T1: lock m, write x, unlock m
             T2: read-lock m, write x, unlock m",
        ),
        (
            "try-lock",
            "T1: lock m, write x
             T2: try-lock m, write x
             T1: unlock m",
            "T1: write x, lock m
             T2: try-lock m, write x
             T1: unlock m",
        ),
        (
            "fork",
            "T1: fork T2, write x
             T2: start, write x, end",
            "T1: write x, fork T2
             T2: start, write x, end",
        ),
        (
            "join",
            "T1: fork T2, write x
             T2: start, write x, end
             T1: join T2",
            "T1: fork T2
             T2: start, write x, end
             T1: join T2, write x",
        ),
        (
            "failed join",
            "T1: fork T2
             T2: start
             T1: try-join T2, write x
             T2: write x, end",
            "T1: fork T2, try-join T2
             T2: start, write x, end
             T1: join T2, write x",
        ),
        (
            "once",
            "T1: once-begin o, once-end o, write x
             T2: once-pass o, write x",
            "T1: once-begin o, write x, once-end o
             T2: once-pass o, write x",
        ),
        (
            "semaphore",
            "T1: sem-init s 1, fork T2, write x, post s
             T2: start, sem-wait s, write x, end",
            "T1: sem-init s 0, fork T2, write x, post s
             T2: start, sem-wait s, write x, end",
        ),
        (
            "failed wait on a semaphore",
            "T1: sem-init s 0, fork T2
             T2: start, try-sem-wait s, write x, end
             T1: write x, post s",
            "T1: sem-init s 0, fork T2
             T2: start, write x, try-sem-wait s, end
             T1: post s, join T2, write x",
        ),
        (
            "barrier",
            "T1: barrier-init b 2, fork T2, enter b
             T2: start, enter b, exit b, write x, end
             T1: exit b, write x",
            "T1: barrier-init b 2, fork T2, write x, enter b
             T2: start, enter b, exit b, write x, end
             T1: exit b",
        ),
        (
            "signal",
            "T1: lock m, unlock m
             T2: lock m, signal c, unlock m, write x
             T1: wait c, lock m, unlock m, write x",
            "T1: lock m, unlock m
             T2: write x, lock m, signal c, unlock m
             T1: wait c, lock m, unlock m, write x",
        ),
        (
            "broadcast",
            "T1: lock m, unlock m
             T2: lock m, broadcast c, unlock m, write x
             T1: wait c, lock m, unlock m, write x",
            "T1: lock m, unlock m
             T2: write x, lock m, broadcast c, unlock m
             T1: wait c, lock m, unlock m, write x",
        ),
        (
            "timed-out wait",
            "T1: lock m, unlock m, timed-wait c, lock m, unlock m, write x
             T2: write x, lock m, signal c, unlock m",
            "T1: lock m, unlock m, timed-wait c, lock m, write x, unlock m
             T2: lock m, write x, signal c, unlock m",
        ),
    ];
    for (kind, racy, safe) in table {
        check(kind, racy, true);
        check(kind, safe, false);
    }
}
