//! Generated traces: every planted bug is found, with a schedule that the checker accepts, and nothing
//! else.

use std::collections::BTreeSet;

use norns_model::checker::Checker;
use norns_model::{Bug, Meaning, Model, Witness};
use norns_predict::generate::{Shape, generate};
use norns_predict::linear::{Linear, Options};
use norns_trace::EventIndex;

fn check(shape: Shape, events: usize, plants: usize) {
    let generated = generate(shape, events, plants, events as u64);
    let trace = &generated.trace;
    let model = Model::new(trace, Meaning::Faithful);
    let linear = Linear::new(&model);
    let options = Options::default();
    let checker = Checker::new(trace, Meaning::Faithful);
    let legal = |bug: Bug, schedule: Vec<EventIndex>| {
        let name = shape.name();
        assert_eq!(
            checker.check(&Witness {
                schedule,
                bug: bug.clone()
            }),
            Ok(()),
            "{name} {bug:?}"
        );
    };

    let report = linear.races(&options);
    for &(event, plant) in &generated.racy {
        let found = report.racy.binary_search(&event).is_ok();
        assert!(
            found,
            "{} {events}: {plant:?} at {event:?} is missed",
            shape.name()
        );
    }
    let planted: BTreeSet<EventIndex> = generated.racy.iter().map(|racy| racy.0).collect();
    for &event in &report.racy {
        let place = trace.events[event.index()].place.0;
        let may_race = planted.contains(&event) || generated.unprotected.contains(&place);
        assert!(may_race, "{} {events}: {event:?} is innocent", shape.name());
    }
    for race in &report.races {
        let bug = Bug::Race {
            first: race.first,
            second: race.second,
        };
        legal(bug, linear.schedule(&race.plan));
    }

    let report = linear.lock_deadlocks(&options);
    let mut found = BTreeSet::new();
    for deadlock in &report.deadlocks {
        let bug = Bug::LockDeadlock {
            blocked: deadlock.blocked.clone(),
        };
        legal(bug, linear.schedule(&deadlock.plan));
        let mut blocked = deadlock.blocked.clone();
        blocked.sort_unstable();
        found.insert(blocked);
    }
    let planted: BTreeSet<_> = generated.deadlocks.into_iter().collect();
    assert_eq!(found, planted, "{} {events}", shape.name());
    assert!(!report.cut);
}

#[test]
fn plants_are_found_and_look_alikes_are_not() {
    for shape in Shape::ALL {
        check(shape, 10_000, 5);
        check(shape, 100_000, 5);
    }
}
