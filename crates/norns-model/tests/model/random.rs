//! Random traces: the step rules and the checker must agree on every schedule and every bug.

use norns_model::checker::Checker;
use norns_model::random_trace::{Shape, random_trace};
use norns_model::{Bug, Meaning, Model, State, Witness};
use norns_random::Random;
use norns_trace::operation::OPERATIONS;
use norns_trace::{EventIndex, Trace};

const MEANINGS: [Meaning; 2] = [Meaning::Optimistic, Meaning::Faithful];

fn shape(seed: u64) -> Shape {
    let mut random = Random::new(seed ^ 0xabcdef);
    Shape {
        threads: 2 + random.below(4),
        events: 6 + random.below(20),
        locks: 1 + random.below(3),
        variables: 1 + random.below(3),
        plain: seed.is_multiple_of(3),
    }
}

fn for_random_traces(count: u64, mut check: impl FnMut(u64, &Trace)) {
    for seed in 0..count {
        check(seed, &random_trace(seed, shape(seed)));
    }
}

/// What the random traces do not contain is not tested by them. Calls and custom events follow no
/// rule.
#[test]
fn random_traces_have_every_operation() {
    let mut missing: Vec<&str> = OPERATIONS.iter().map(|kind| kind.word).collect();
    for_random_traces(3000, |_, trace| {
        for event in &trace.events {
            missing.retain(|&word| word != event.op.kind().word);
        }
    });
    assert_eq!(missing, ["enter", "leave", "custom"]);
}

#[test]
fn the_observed_order_is_legal() {
    for_random_traces(3000, |seed, trace| {
        let observed: Vec<_> = (0..trace.events.len())
            .map(EventIndex::from_index)
            .collect();
        for meaning in MEANINGS {
            let result = Checker::new(trace, meaning).check_schedule(&observed);
            assert_eq!(
                result,
                Ok(()),
                "seed {seed}, {meaning:?}: {:?}",
                trace.events
            );
        }
    });
}

/// Random walks: every step of the model is legal for the checker, every bug that the model sees
/// is one for the checker, and what the model does not allow the checker refuses.
#[test]
fn the_checker_and_the_model_agree_on_random_walks() {
    for_random_traces(3000, |seed, trace| {
        for meaning in MEANINGS {
            let model = Model::new(trace, meaning);
            let checker = Checker::new(trace, meaning);
            for walk in 0..4 {
                agree_on_a_walk(&model, &checker, seed, walk);
            }
        }
    });
}

fn agree_on_a_walk(model: &Model, checker: &Checker, seed: u64, walk: u64) {
    let mut random = Random::new(seed * 31 + walk);
    let mut state = State::initial(model);
    let mut schedule = Vec::new();
    let context = |schedule: &[EventIndex]| {
        format!(
            "seed {seed}, walk {walk}, {:?}, after {schedule:?}",
            model.meaning
        )
    };
    loop {
        let mut bugs: Vec<Bug> = Vec::new();
        let races = model.races_at(&state);
        bugs.extend(
            races
                .into_iter()
                .map(|(first, second)| Bug::Race { first, second }),
        );
        let cycles = model.lock_cycles_at(&state);
        bugs.extend(
            cycles
                .into_iter()
                .map(|blocked| Bug::LockDeadlock { blocked }),
        );
        let stuck = model.stuck_at(&state);
        bugs.extend(stuck.into_iter().map(|blocked| Bug::Stuck { blocked }));
        for bug in bugs {
            let witness = Witness {
                schedule: schedule.clone(),
                bug,
            };
            let verdict = checker.check(&witness);
            assert_eq!(verdict, Ok(()), "{}: {:?}", context(&schedule), witness.bug);
        }
        let mut steps = Vec::new();
        for thread in model.thread_ids() {
            let before = steps.len();
            model.steps(&state, thread, &mut steps);
            let Some(event) = model.next(&state, thread) else {
                continue;
            };
            let mut longer = schedule.clone();
            longer.push(event);
            let legal = checker.check_schedule(&longer).is_ok();
            // A schedule does not say whom a signal woke, so the checker may know of another
            // possibility in which the thread can step.
            if steps.len() > before || !has_signals(model) {
                assert_eq!(
                    legal,
                    steps.len() > before,
                    "{}: {event:?}",
                    context(&schedule)
                );
            }
        }
        if steps.is_empty() {
            return;
        }
        let step = steps[random.below(steps.len())];
        schedule.push(model.take(&mut state, step));
    }
}

fn has_signals(model: &Model) -> bool {
    model
        .trace
        .events
        .iter()
        .any(|event| matches!(event.op, norns_trace::Op::Signal(_)))
}

/// Stepping back leads to the state that was left.
#[test]
fn stepping_back_undoes_a_step() {
    for_random_traces(300, |seed, trace| {
        let model = Model::new(trace, Meaning::Faithful);
        let mut random = Random::new(seed);
        let mut state = State::initial(&model);
        loop {
            let mut steps = Vec::new();
            for thread in model.thread_ids() {
                model.steps(&state, thread, &mut steps);
            }
            if steps.is_empty() {
                return;
            }
            for &step in &steps {
                let (mark, before) = (state.mark(), state.clone());
                model.take(&mut state, step);
                state.back_to(mark);
                assert_eq!(state, before, "seed {seed}");
            }
            model.take(&mut state, steps[random.below(steps.len())]);
        }
    });
}
