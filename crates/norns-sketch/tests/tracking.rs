//! What is watched in which run, and plans as text.

use norns_sketch::tracking::{Plan, Trackable, plans};
use norns_wire::tracking::Target;

fn global(address: u64) -> Vec<Target> {
    vec![Target::Global { address, size: 8 }]
}

fn statement(memory: &[u64]) -> Trackable {
    Trackable {
        memory: memory.iter().map(|&address| global(address)).collect(),
    }
}

#[test]
fn a_plan_is_read_as_it_is_written() {
    let plan = Plan {
        watches: vec![
            global(0x4010),
            vec![
                Target::Allocated {
                    from: 0x1180,
                    to: 0x1190,
                    nth: 1,
                    offset: 8,
                    size: 8,
                },
                Target::Allocated {
                    from: 0x1200,
                    to: 0x1210,
                    nth: 1,
                    offset: 8,
                    size: 8,
                },
            ],
        ],
        most: 500,
    };
    assert_eq!(Plan::parse(&plan.text()), Some(plan.clone()));
    let later = plan.text().replace("norns-plan 1", "norns-plan 2");
    assert_eq!(Plan::parse(&later), None);
}

#[test]
fn the_closest_statements_are_watched_and_nothing_twice() {
    let slice = [statement(&[1]), statement(&[1, 2]), statement(&[3])];
    let found = plans(&slice, 2);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].watches, [global(1), global(2)]);
}

#[test]
fn more_memory_than_watchpoints_is_shared_over_runs() {
    let slice = [statement(&[1, 2, 3]), statement(&[4, 5, 6])];
    let found = plans(&slice, 2);
    let watched: Vec<usize> = found.iter().map(|plan| plan.watches.len()).collect();
    assert_eq!(watched, [4, 2]);
}
