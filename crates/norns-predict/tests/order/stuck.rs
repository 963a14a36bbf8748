//! Waits that nothing ends, on small random traces: the engine never refutes one that the enumeration
//! of all schedules finds, and never shows one that it does not find.

use std::collections::BTreeSet;

use norns_model::brute_force::enumerate;
use norns_model::random_trace::{Shape, random_trace};
use norns_model::{Bug, Meaning};
use norns_predict::order::{Engine, Outcome};
use norns_random::Random;
use norns_trace::{EventIndex, Op};

use crate::values::with_values;

#[test]
fn waits_that_nothing_ends_agree_with_enumeration() {
    let (mut shown, mut refuted, mut open) = (0, 0, 0);
    for seed in 0..10_000 {
        let shape = Shape {
            threads: 2 + (seed % 3) as usize,
            events: 12 + (seed % 9) as usize,
            locks: 2,
            variables: 2,
            plain: false,
        };
        let mut trace = random_trace(seed + 130_000, shape);
        let enumerated = |meaning| enumerate(&trace, meaning, 20_000).map(|all| all.stuck);
        let (Some(optimistic), Some(faithful)) = (
            enumerated(Meaning::Optimistic),
            enumerated(Meaning::Faithful),
        ) else {
            continue;
        };
        let events = trace.events.iter().enumerate();
        let waits = events.filter(|(_, e)| matches!(e.op, Op::Wait(_) | Op::SemWait(_)));
        let alone = waits.map(|(i, _)| vec![EventIndex::from_index(i)]);
        let found = optimistic.union(&faithful).cloned();
        let sets: BTreeSet<Vec<EventIndex>> = found.chain(alone).collect();
        with_values(&mut trace, &mut Random::new(seed ^ 0x57ac));
        for meaning in [Meaning::Optimistic, Meaning::Faithful, Meaning::SameValues] {
            let mut engine = Engine::new(&trace, meaning);
            for set in &sets {
                let what = format!("seed {seed}, {meaning:?}, {set:?}");
                let bug = Bug::Stuck {
                    blocked: set.clone(),
                };
                // A read that keeps its write keeps its value, so this is possible with values, too.
                let possible = match meaning {
                    Meaning::Optimistic => optimistic.contains(set),
                    Meaning::Faithful | Meaning::SameValues => faithful.contains(set),
                };
                match engine.find(bug) {
                    Outcome::Impossible => {
                        assert!(!possible, "{what} is possible");
                        refuted += 1;
                    }
                    Outcome::Witness(_) => {
                        assert!(
                            possible || meaning == Meaning::SameValues,
                            "{what} is impossible"
                        );
                        shown += 1;
                    }
                    Outcome::Undecided => open += 1,
                }
            }
        }
    }
    println!("waits that nothing ends: {shown} shown, {refuted} refuted, {open} open");
    assert!(shown > 300 && refuted > 200);
}
