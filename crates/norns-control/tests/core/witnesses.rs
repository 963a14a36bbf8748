//! For every bug that the model of a random trace has, the core follows the schedule of a witness
//! and reports that bug.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use norns_control::{Core, Line, Schedule, Slot, Stop, Thread};
use norns_model::random_trace::{Shape, random_trace};
use norns_model::{Bug, Meaning, Model, State, Witness, check_witness};
use norns_replay::schedule::{self, Accesses, Way};
use norns_trace::{Event, EventIndex, Op, ThreadId, Trace};
use norns_wire::schedule::{Record, parse};

use super::world::World;

const MOST_STATES: usize = 20_000;

/// A random trace in which every thread that is joined has an end, as in a recorded one, and
/// without a thread `T0`, of which a schedule leaves out what precedes the first creation of a
/// thread. What threads do with mutexes that they hand over is left out: the core takes these for
/// ordinary ones, and a thread that waits for one that it took itself for a deadlock.
fn trace_of(seed: u64) -> Trace {
    let shape = Shape {
        threads: 2 + seed as usize % 3,
        events: 12 + seed as usize % 13,
        locks: 2 + seed as usize % 2,
        variables: 2,
        plain: seed.is_multiple_of(4),
    };
    let mut trace = random_trace(seed, shape);
    trace
        .events
        .retain(|event| !matches!(event.op, Op::Take(_) | Op::FailedTake(_) | Op::Give(_)));
    for thread in &mut trace.threads {
        thread.name = thread.name.replace('T', "P");
    }
    for thread in (0..trace.threads.len()).map(ThreadId::from_index) {
        let has = |op| {
            let mut events = trace.events.iter();
            events.any(|event| event.op == op && (op != Op::End || event.thread == thread))
        };
        if has(Op::Join(thread)) && !has(Op::End) {
            let mut events = trace.events.iter();
            let last = events.rposition(|event| event.thread == thread);
            let end = Event {
                thread,
                place: trace.events[0].place,
                op: Op::End,
            };
            trace.events.insert(last.map_or(0, |last| last + 1), end);
        }
    }
    trace
}

/// One witness for every bug of the model: the first state that shows it.
fn witnesses(trace: &Trace) -> Vec<Witness> {
    let model = Model::new(trace, Meaning::Optimistic);
    let mut found: BTreeMap<(u8, Vec<EventIndex>), Witness> = BTreeMap::new();
    let start = State::initial(&model);
    let mut seen = BTreeSet::from([start.key()]);
    let mut queue = VecDeque::from([(start, Vec::new())]);
    let mut steps = Vec::new();
    while let Some((state, schedule)) = queue.pop_front() {
        let mut add = |kind, events: Vec<EventIndex>, bug| {
            found.entry((kind, events)).or_insert_with(|| Witness {
                schedule: Vec::clone(&schedule),
                bug,
            });
        };
        for (first, second) in model.races_at(&state) {
            add(0, vec![first, second], Bug::Race { first, second });
        }
        for blocked in model.lock_cycles_at(&state) {
            add(1, blocked.clone(), Bug::LockDeadlock { blocked });
        }
        for blocked in model.stuck_at(&state) {
            add(2, blocked.clone(), Bug::Stuck { blocked });
        }
        for thread in model.thread_ids() {
            steps.clear();
            model.steps(&state, thread, &mut steps);
            for &step in &steps {
                let mut next = state.clone();
                let event = model.take(&mut next, step);
                next.forget_trail();
                if seen.len() < MOST_STATES && seen.insert(next.key()) {
                    let mut longer = schedule.clone();
                    longer.push(event);
                    queue.push_back((next, longer));
                }
            }
        }
    }
    found.into_values().collect()
}

/// What a schedule says, as the runtime loads it.
fn load(text: &str, look: impl FnOnce(Schedule)) {
    let mut names = Vec::new();
    let mut steps = Vec::new();
    let mut holds = Vec::new();
    parse(text.as_bytes(), |record| match record {
        Record::Thread(name) => names.push(name),
        Record::Step(step) => steps.push(step),
        Record::Hold(hold) => holds.push(hold),
        Record::Hunt(_) | Record::Module { .. } | Record::Pace(_) | Record::EventsOnly => {}
    })
    .expect("a schedule of ours");
    look(Schedule {
        names: &names,
        steps: &steps,
        holds: [holds.first().copied(), holds.get(1).copied()],
        ..Schedule::empty()
    });
}

fn memory(trace: &Trace) -> Vec<Thread> {
    (0..=trace.threads.len()).map(|_| Thread::new()).collect()
}

/// Follows the witness, with a scheduler of this seed.
fn follow(trace: &Trace, witness: &Witness, seed: u64) {
    let text = schedule::of(trace, witness, Way::Schedule(Accesses::Free));
    load(&text, |schedule| {
        let mut core = Box::new(Core::new());
        core.follow(schedule);
        let mut memory = memory(trace);
        let mut world = World::new(trace, core, &mut memory, seed);
        world.start();
        let thread = |event: &EventIndex| trace.events[event.index()].thread.index();
        world.first = witness.bug.events().iter().map(thread).collect();
        world.run();
        let followed = Line::Followed {
            steps: schedule.steps.len(),
        };
        let is_followed = schedule.steps.is_empty() || world.lines.contains(&followed);
        assert!(is_followed, "stopped by {:?}", world.stop);
        check(trace, &world, &witness.bug);
    });
}

/// Whether the run showed the bug.
fn check(trace: &Trace, world: &World, bug: &Bug) {
    let slot = |event: EventIndex| Slot(trace.events[event.index()].thread.0);
    match bug {
        Bug::Race { first, second } => {
            let held = world.lines.iter().find_map(|line| match line {
                Line::Held(one, other) => Some([one.thread, other.thread]),
                _ => None,
            });
            let mut held = held.expect("both threads stand before their accesses");
            held.sort();
            let mut threads = [slot(*first), slot(*second)];
            threads.sort();
            assert_eq!(held, threads);
        }
        Bug::LockDeadlock { blocked } => {
            let Some(Stop::Cycle(me)) = world.stop else {
                panic!("a cycle, not {:?}", world.stop);
            };
            let cycle = world.core.cycle(me).expect("the cycle that was reported");
            let mut found = cycle.slots().to_vec();
            found.sort();
            let mut threads: Vec<Slot> = blocked.iter().map(|event| slot(*event)).collect();
            threads.sort();
            assert_eq!(found, threads);
            for event in blocked {
                assert_eq!(world.next_event(slot(*event).index()), Some(*event));
            }
        }
        Bug::Stuck { blocked } => {
            for event in blocked {
                let thread = slot(*event).index();
                assert_eq!(world.next_event(thread), Some(*event));
                let mut all = world.core.blocked_threads();
                assert!(all.any(|(other, _)| other.index() == thread));
            }
        }
        Bug::Order { .. } | Bug::Atomicity { .. } => panic!("no engine here predicts orders"),
    }
}

/// Whom a signal woke is not part of a schedule, and a wait can end without a signal: of these bugs
/// the core may choose another waiter than the witness did.
fn depends_on_waiters(trace: &Trace, bug: &Bug) -> bool {
    let Bug::Stuck { blocked } = bug else {
        return false;
    };
    blocked
        .iter()
        .any(|event| matches!(trace.events[event.index()].op, Op::Wait(_)))
}

#[test]
fn every_witness_of_the_model_is_followed() {
    let mut counts = [0; 3];
    for seed in 0..4000 {
        let trace = trace_of(seed);
        for (number, witness) in witnesses(&trace).iter().enumerate() {
            check_witness(&trace, Meaning::Optimistic, witness).expect("a witness of the model");
            if depends_on_waiters(&trace, &witness.bug) {
                continue;
            }
            let run = || follow(&trace, witness, seed + number as u64);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            if result.is_err() {
                panic!("seed {seed}, witness {number}: {witness:?}");
            }
            counts[match witness.bug {
                Bug::Race { .. } => 0,
                Bug::LockDeadlock { .. } => 1,
                Bug::Stuck { .. } | Bug::Order { .. } | Bug::Atomicity { .. } => 2,
            }] += 1;
        }
    }
    println!(
        "{} races, {} cycles, {} stuck",
        counts[0], counts[1], counts[2]
    );
    assert!(counts.iter().all(|count| *count > 80), "{counts:?}");
}

#[test]
fn without_a_schedule_only_deadlocks_of_the_model_are_reported() {
    let mut cycles = 0;
    for seed in 0..3000 {
        let trace = trace_of(seed);
        let mut memory = memory(&trace);
        let mut world = World::new(&trace, Box::new(Core::new()), &mut memory, seed);
        world.start();
        world.run();
        if let Some(Stop::Cycle(me)) = world.stop {
            cycles += 1;
            let cycle = world.core.cycle(me).expect("the cycle that was reported");
            let next = |slot: &Slot| world.next_event(slot.index()).expect("a blocked thread");
            let mut blocked: Vec<EventIndex> = cycle.slots().iter().map(next).collect();
            blocked.sort();
            let known = witnesses(&trace)
                .into_iter()
                .any(|witness| match witness.bug {
                    Bug::LockDeadlock { blocked: mut other } => {
                        other.sort();
                        other == blocked
                    }
                    _ => false,
                });
            assert!(known, "seed {seed}: {blocked:?}");
        }
        assert!(
            !matches!(world.stop, Some(Stop::Diverged(_))),
            "seed {seed}"
        );
    }
    assert!(cycles > 10, "{cycles}");
}

#[test]
fn the_same_seed_gives_the_same_decisions() {
    for seed in 0..200 {
        let trace = trace_of(seed);
        let run = |priorities| {
            let mut memory = memory(&trace);
            let mut core = Box::new(Core::new());
            if priorities {
                core.prioritise(seed, 40);
            }
            let mut world = World::new(&trace, core, &mut memory, seed);
            world.start();
            world.run();
            (world.acts, world.lines, world.stop)
        };
        assert_eq!(run(false), run(false), "seed {seed}");
        assert_eq!(run(true), run(true), "seed {seed}");
    }
}
