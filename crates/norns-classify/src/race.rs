//! The two accesses of a race, and in which order a run made them.

use std::collections::BTreeMap;

use norns_sketch::proof;
use norns_trace::{Access, EventIndex, ThreadId, Touch, TouchKind, Trace};
use norns_wire::environment::{Constraint, Point};

/// Which of the two accesses comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    FirstThenSecond,
    SecondThenFirst,
}

impl Order {
    pub const BOTH: [Order; 2] = [Order::FirstThenSecond, Order::SecondThenFirst];

    pub fn index(self) -> usize {
        match self {
            Order::FirstThenSecond => 0,
            Order::SecondThenFirst => 1,
        }
    }

    fn from_first(side: usize) -> Order {
        Order::BOTH[side]
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Side {
    point: Point,
    thread: String,
    /// Whether it ends the life of what the other one uses.
    ends_life: bool,
}

/// A race of a recorded run, so that other runs can be asked for its orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    sides: [Side; 2],
}

impl Race {
    /// The race of these two events.
    pub fn of(trace: &Trace, events: [EventIndex; 2]) -> Race {
        let side = |event: EventIndex| {
            let happened = trace.events[event.index()];
            let touch = Touch::of(happened.op);
            Side {
                point: proof::point(trace, event),
                thread: trace.thread(happened.thread).name.clone(),
                ends_life: touch.is_some_and(|touch| ends_life(touch.kind)),
            }
        };
        Race {
            sides: events.map(side),
        }
    }

    /// Whether both threads make the same access, so that only the threads tell the orders apart. Such
    /// an order cannot be asked for; it is taken as it comes.
    pub fn is_symmetric(&self) -> bool {
        let [first, second] = &self.sides;
        first.point.pass == second.point.pass
    }

    /// The order in which one thread uses what the other has destroyed or freed.
    pub fn misuse(&self) -> Option<Order> {
        let at = self.sides.iter().position(|side| side.ends_life)?;
        Some(Order::from_first(at))
    }

    /// What makes a run keep this order, if the program can. `every_time` holds a thread up whenever it
    /// comes to its access, otherwise from the time on at which the recorded run had the race. With `holds` the
    /// thread of the first access then waits while others can do something.
    pub fn constraint(&self, order: Order, every_time: bool, holds: bool) -> Option<Constraint> {
        let [first, second] = match order {
            Order::FirstThenSecond => [0, 1],
            Order::SecondThenFirst => [1, 0],
        }
        .map(|side: usize| self.point(side, every_time));
        let constraint = match holds {
            true => Constraint::Held { first, second },
            false => Constraint::Order { first, second },
        };
        (!self.is_symmetric()).then_some(constraint)
    }

    fn point(&self, side: usize, every_time: bool) -> Point {
        let point = self.sides[side].point;
        if every_time {
            point.every_time()
        } else {
            point
        }
    }

    /// In which order a run made the two accesses: that of the first pair by different threads to the
    /// same memory. If the run `failed` before the pair was complete, the access that it made came first.
    pub fn order_in(&self, trace: &Trace, every_time: bool, failed: bool) -> Option<Order> {
        let points = [0, 1].map(|side| self.point(side, every_time));
        let mut arrivals: Vec<[u32; 2]> = vec![[0u32; 2]; trace.threads.len()];
        let mut made = [Made::default(), Made::default()];
        for event in &trace.events {
            let pc = trace.place(event.place).pc;
            let arrived = &mut arrivals[event.thread.index()];
            for (arrived, point) in arrived.iter_mut().zip(&points) {
                *arrived += u32::from(pc == point.wait);
            }
            let Some(touch) = Touch::of(event.op) else {
                continue;
            };
            if touch.kind == TouchKind::Allocate {
                // From here on these bytes are another object.
                made.iter_mut().for_each(|made| made.forget(touch.access));
            }
            for side in 0..2 {
                if pc != points[side].pass || arrived[side] < points[side].from {
                    continue;
                }
                if let Some(earlier) = made[1 - side].pair(event.thread, touch.access) {
                    return Some(self.order_of(trace, 1 - side, earlier));
                }
                made[side].add(event.thread, touch.access);
            }
        }
        match made.map(|made| made.is_empty()) {
            [false, true] if failed => Some(Order::FirstThenSecond),
            [true, false] if failed => Some(Order::SecondThenFirst),
            _ => None,
        }
    }

    /// The order in which this thread made the access of a side first.
    fn order_of(&self, trace: &Trace, side: usize, earlier: ThreadId) -> Order {
        if self.is_symmetric() {
            let is_first = trace.thread(earlier).name == self.sides[0].thread;
            return Order::from_first(usize::from(!is_first));
        }
        Order::from_first(side)
    }
}

/// An access of at most so many bytes is found by its address.
const SMALL: u64 = 64;
/// So many larger ones are kept.
const LARGE: usize = 64;

/// The accesses that were made at one place.
#[derive(Default)]
struct Made {
    /// By address: the first thread with an access there, and the first other one.
    small: BTreeMap<u64, (Access, [Option<ThreadId>; 2])>,
    large: Vec<(Access, ThreadId)>,
}

impl Made {
    fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }

    fn add(&mut self, thread: ThreadId, access: Access) {
        if u64::from(access.size) > SMALL {
            if self.large.len() < LARGE {
                self.large.push((access, thread));
            }
            return;
        }
        let (_, threads) = (self.small.entry(access.address)).or_insert((access, [None; 2]));
        if !threads.contains(&Some(thread))
            && let Some(free) = threads.iter_mut().find(|thread| thread.is_none())
        {
            *free = Some(thread);
        }
    }

    /// Another thread that has accessed some of these bytes.
    fn pair(&self, thread: ThreadId, access: Access) -> Option<ThreadId> {
        let from = access.address.saturating_sub(SMALL);
        let to = access.address.saturating_add(u64::from(access.size));
        let small = self.small.range(from..to).map(|(_, entry)| entry);
        let small = small.filter(|(other, _)| other.overlaps(access));
        let threads = small.flat_map(|(_, threads)| threads.iter().copied().flatten());
        let large = self
            .large
            .iter()
            .filter(|(other, _)| other.overlaps(access));
        let mut threads = threads.chain(large.map(|(_, thread)| *thread));
        threads.find(|other| *other != thread)
    }

    fn forget(&mut self, access: Access) {
        let to = access.address.saturating_add(u64::from(access.size));
        let gone: Vec<u64> = { self.small.range(access.address..to) }
            .map(|(address, _)| *address)
            .collect();
        for address in gone {
            self.small.remove(&address);
        }
        self.large.retain(|(other, _)| !other.overlaps(access));
    }
}

fn ends_life(kind: TouchKind) -> bool {
    match kind {
        TouchKind::Free | TouchKind::Destroy => true,
        TouchKind::Plain
        | TouchKind::Atomic
        | TouchKind::Allocate
        | TouchKind::Use
        | TouchKind::Initialise => false,
    }
}
