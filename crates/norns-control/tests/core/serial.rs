//! One thread at a time: the seed alone decides the run.

use norns_control::{Core, Thread};
use norns_random::Random;
use norns_trace::{
    Event, EventIndex, Object, ObjectId, ObjectKind, Op, Place, PlaceId, ThreadId, Trace,
};

use super::world::World;

const CHILDREN: usize = 3;
const LOCKS: u32 = 2;

/// A main thread that creates children, which lock, post and wait, and joins them.
fn program(seed: u64) -> Trace {
    let mut random = Random::new(seed);
    let mut trace = Trace::default();
    let semaphore = ObjectId(LOCKS);
    for kind in [ObjectKind::Mutex, ObjectKind::Mutex, ObjectKind::Semaphore] {
        trace.objects.push(Object {
            kind,
            address: 0,
            name: String::new(),
        });
    }
    let children = (1..=CHILDREN).map(ThreadId::from_index);
    let mut threads: Vec<Vec<Op>> = vec![Vec::new(); CHILDREN + 1];
    threads[0].extend(children.clone().map(Op::Fork));
    threads[0].extend(children.map(Op::Join));
    for thread in &mut threads[1..] {
        thread.push(Op::Start);
        for _ in 0..1 + random.below(6) {
            let lock = ObjectId(random.below(LOCKS as usize) as u32);
            // Every wait follows a post of the same thread: no order makes it wait for ever.
            let ops: &[Op] = match random.below(3) {
                0 => &[Op::SemPost(semaphore), Op::SemWait(semaphore)],
                _ => &[Op::Lock(lock), Op::Unlock(lock)],
            };
            thread.extend(ops);
        }
        thread.push(Op::End);
    }
    for (index, ops) in threads.iter().enumerate() {
        trace.threads.push(norns_trace::Thread {
            name: format!("T{index}"),
            parent: None,
        });
        for &op in ops {
            let place = PlaceId::from_index(trace.places.len());
            trace.places.push(Place::default());
            trace.events.push(Event {
                thread: ThreadId::from_index(index),
                place,
                op,
            });
        }
    }
    trace
}

/// The events of a run in their order; `operating_system` draws who runs where that is not decided.
fn run(trace: &Trace, seed: u64, operating_system: u64) -> Vec<EventIndex> {
    let mut memory: Vec<Thread> = (0..=trace.threads.len()).map(|_| Thread::new()).collect();
    let mut core = Box::new(Core::new());
    core.serialise(seed);
    let mut world = World::new(trace, core, &mut memory, operating_system);
    world.run();
    assert_eq!(world.stop, None);
    world.done
}

#[test]
fn the_seed_alone_decides_the_run() {
    let mut runs = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let trace = program(seed / 8);
        let order = run(&trace, seed, 1);
        assert_eq!(order.len(), trace.events.len(), "seed {seed}");
        for operating_system in 2..5 {
            assert_eq!(order, run(&trace, seed, operating_system), "seed {seed}");
        }
        runs.insert((seed / 8, order));
    }
    assert!(runs.len() > 200, "{} different runs", runs.len());
}
