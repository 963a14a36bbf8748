use norns_model::{Bug, Witness};
use norns_replay::schedule::{Accesses, Way, count_points, may_lie_elsewhere, of, of_recording};
use norns_trace::EventIndex;

use crate::{events, race, trace};

fn check(witness: &Witness, way: Way, expected: &[&str]) {
    let text = of(&trace(), witness, way);
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.remove(0), norns_wire::schedule::HEADER);
    let expected: Vec<&str> = if matches!(way, Way::Hunt | Way::Priorities(_)) {
        expected.to_vec()
    } else {
        [&["thread T0", "thread T0.1"], expected].concat()
    };
    assert_eq!(lines, expected);
}

/// What main did before its first fork is not scheduled, and neither are plain accesses.
#[test]
fn synchronisation_becomes_steps_and_the_race_is_held() {
    check(
        &race(5, 7, [0, 1, 2, 3, 4]),
        Way::Schedule(Accesses::Free),
        &[
            "point 0 13 1 102 2",
            "point 1 11 0 103 3",
            "point 1 17 8000 104 4",
            "hold 1 2 w 8010 4 105 5",
            "hold 0 1 r 8010 4 107 7",
        ],
    );
}

#[test]
fn conflicting_accesses_are_steps_if_they_are_to_be_ordered() {
    check(
        &race(8, 9, 0..=7),
        Way::Schedule(Accesses::Ordered),
        &[
            "point 0 13 1 102 2",
            "point 1 11 0 103 3",
            "point 1 17 8000 104 4",
            "access 1 w 8010 4 105 5",
            "point 1 21 8000 106 6",
            "access 0 r 8010 4 107 7",
            "hold 0 1 w 9000 8 108 8",
            "hold 1 3 w 9000 8 109 9",
        ],
    );
}

#[test]
fn near_the_race_threads_linger_at_its_places() {
    check(
        &race(5, 7, [2, 3]),
        Way::Near,
        &[
            "point 0 13 1 102 2",
            "point 1 11 0 103 3",
            "hunt 105",
            "hunt 107",
        ],
    );
}

#[test]
fn a_hunt_has_no_steps() {
    let deadlock = Witness {
        schedule: events([2, 3]),
        bug: Bug::LockDeadlock {
            blocked: events([10, 4]),
        },
    };
    for way in [Way::Hunt, Way::Priorities(3)] {
        check(&deadlock, way, &["hunt 104", "hunt 10a"]);
    }
}

#[test]
fn of_events_nothing_else_is_a_step() {
    check(&race(5, 7, [2, 3, 4]), Way::Events, &["events"]);
}

/// The second mutex is on the heap: in another run it can have another address.
#[test]
fn an_object_without_a_name_is_any_object() {
    let text = of_recording(&trace());
    let lock_of_heap = format!("point 1 17 0 {:x} 10", 0x100 + 10);
    assert!(text.lines().any(|line| line == lock_of_heap), "{text}");
}

#[test]
fn a_recording_has_all_scheduling_points_but_those_before_the_first_fork() {
    let trace = trace();
    let steps = of_recording(&trace)
        .lines()
        .filter(|line| line.starts_with("point"))
        .count();
    let before_the_fork = 2;
    assert_eq!(count_points(&trace), 10);
    assert_eq!(steps, count_points(&trace) - before_the_fork);
}

#[test]
fn only_named_memory_lies_where_it_was() {
    let race = |first, second| Bug::Race {
        first: EventIndex(first),
        second: EventIndex(second),
    };
    assert!(!may_lie_elsewhere(&trace(), &race(5, 7)));
    assert!(may_lie_elsewhere(&trace(), &race(8, 9)));
    let deadlock = Bug::LockDeadlock {
        blocked: events([10]),
    };
    assert!(!may_lie_elsewhere(&trace(), &deadlock));
}
