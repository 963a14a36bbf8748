use norns_model::{Bug, Witness};
use norns_replay::report::Report;
use norns_replay::verdict::judge;
use norns_replay::{Ended, Left, Outcome, Proof};
use norns_trace::EventIndex;

use crate::{events, race, trace};

/// What the runtime reports in a run that ends in this way, and what that means for the race of
/// events 5 and 7 or for the given bug.
fn outcome(bug: Option<Bug>, report: &str, ended: Ended) -> Outcome {
    let mut witness = race(5, 7, [2, 3, 4]);
    if let Some(bug) = bug {
        witness = Witness { bug, ..witness };
    }
    let text = format!("{}\n{report}", norns_wire::report::HEADER);
    let report = Report::parse(text.as_bytes()).expect("a report of this version");
    judge(&trace(), &witness, &report, &ended)
}

const EXITED: Ended = Ended::Exited(0);

#[test]
fn a_race_is_confirmed_by_two_held_threads_or_by_the_detector() {
    for (report, expected) in [
        (
            "held T0.1 w 8010 4 105 T0 r 8010 4 107\n",
            Outcome::Confirmed(Proof::BothHeld),
        ),
        (
            "held T0 r 8010 4 107 T0.1 w 8010 4 105\n",
            Outcome::Confirmed(Proof::BothHeld),
        ),
        (
            "race may-wait T0.1 w 8010 4 105 T0 r 8010 4 107\n",
            Outcome::Confirmed(Proof::Detector),
        ),
        // The stronger proof is named.
        (
            "race may-wait T0.1 w 8010 4 105 T0 r 8010 4 107\nheld T0 r 8010 4 107 T0.1 w 8010 4 105\n",
            Outcome::Confirmed(Proof::BothHeld),
        ),
        // Another race than the predicted one.
        (
            "followed 3\nheld T0.1 w 8010 4 105 T0 r 8010 4 108\n",
            Outcome::NoBug,
        ),
        (
            "followed 3\nrace may-wait T0.1 w 8010 4 105 T0 w 8010 4 105\n",
            Outcome::NoBug,
        ),
        // One thread was held, and the other one did something else, or did not come in time.
        ("followed 3\nunheld T0.1 T0 went-past\n", Outcome::NoBug),
        (
            "followed 3\nunheld T0.1 T0 did-not-come\n",
            Outcome::TimedOut,
        ),
    ] {
        assert_eq!(outcome(None, report, EXITED), expected, "{report}");
    }
}

#[test]
fn a_loop_that_waits_for_the_write_orders_the_accesses() {
    let spin = "followed 3\nspin T0 9000 107 900\n";
    let race = "race may-wait T0.1 w 8010 4 105 T0 r 8010 4 107\n";
    let after = |report: &str| outcome(None, &format!("{spin}{report}"), EXITED);
    assert_eq!(after(race), Outcome::OrderedBySpinLoop);
    assert_eq!(after(""), Outcome::NoBug);
    let sure = race.replace("may-wait", "does-not-wait");
    let proof = Proof::DetectorWithoutLoop;
    assert_eq!(after(&format!("{race}{sure}")), Outcome::Confirmed(proof));
    // A loop does not order what stood side by side, nor the variable that it reads itself.
    let held = "held T0.1 w 8010 4 105 T0 r 8010 4 107\n";
    assert_eq!(after(held), Outcome::Confirmed(Proof::BothHeld));
    let own = format!("followed 3\nspin T0 8010 107 900\n{race}");
    let seen = Outcome::Confirmed(Proof::Detector);
    assert_eq!(outcome(None, &own, EXITED), seen);
}

#[test]
fn a_deadlock_is_confirmed_where_it_was_predicted() {
    let bug = Bug::LockDeadlock {
        blocked: events([4, 7]),
    };
    for (report, expected) in [
        (
            "deadlock cycle 2\nwaits T0.1 17 8000 104\nwaits T0 17 7000 107\ndeadlock-end\n",
            Outcome::Confirmed(Proof::Cycle),
        ),
        (
            "deadlock stuck 3\nwaits T0.2 14 1 999\nwaits T0 17 7000 107\nwaits T0.1 17 8000 104\n",
            Outcome::Confirmed(Proof::NobodyRuns),
        ),
        // One of the two waits elsewhere, or is another thread.
        (
            "followed 3\ndeadlock cycle 2\nwaits T0.1 17 8000 104\nwaits T0 17 7000 108\n",
            Outcome::NoBug,
        ),
        (
            "followed 3\ndeadlock cycle 2\nwaits T0.2 17 8000 104\nwaits T0 17 7000 107\n",
            Outcome::NoBug,
        ),
        // A race says nothing about a deadlock.
        (
            "followed 3\nheld T0.1 w 1 4 104 T0 r 1 4 107\n",
            Outcome::NoBug,
        ),
    ] {
        assert_eq!(
            outcome(Some(bug.clone()), report, EXITED),
            expected,
            "{report}"
        );
    }
}

#[test]
fn a_program_that_left_its_schedule_is_infeasible() {
    let diverged = "diverged T0 17 0 8000 104 1 T0.1 3 another-operation\n";
    let Outcome::Infeasible(left) = outcome(None, diverged, Ended::Exited(81)) else {
        panic!("the program left its schedule");
    };
    assert_eq!(left.event(), Some(EventIndex(3)));

    let ended = Outcome::Infeasible(Left::Ended(EXITED));
    assert_eq!(outcome(None, "", EXITED), ended);
    let Outcome::Infeasible(left) = ended else {
        return;
    };
    assert_eq!(left.event(), None);
}

/// A bug that was seen is confirmed however the run ended.
#[test]
fn a_limit_decides_only_when_nothing_else_does() {
    for ended in [Ended::TimedOut, Ended::OutOfMemory, Ended::Hung] {
        let held = "held T0.1 w 8010 4 105 T0 r 8010 4 107\n";
        let confirmed = Outcome::Confirmed(Proof::BothHeld);
        assert_eq!(outcome(None, held, ended.clone()), confirmed);
        let timed_out = Outcome::TimedOut;
        assert_eq!(outcome(None, "followed 3\n", ended.clone()), timed_out);
        assert_eq!(outcome(None, "", ended), timed_out);
    }
}
