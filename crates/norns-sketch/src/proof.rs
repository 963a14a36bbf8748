//! From correlation to cause: the order that predicts the failure is forced, and forbidden.
//!
//! This goes beyond Kasikci (2015). Everything else about the runs stays random: their seeds differ. A
//! thread waits before it takes the lock under which it would make its access, since the other thread may
//! need that lock.

use norns_trace::effect::OnLock;
use norns_trace::{Effect, EventIndex, ObjectId, Op, Touch, Trace};
use norns_wire::environment::{Constraint, Point};

use crate::facts::places;
use crate::predictor::{Fact, Form, Predictor};

/// How many runs failed, of how many, with the order forced and with it forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    pub forced: (usize, usize),
    pub forbidden: (usize, usize),
}

impl Proof {
    /// Whether the failure came and went with the order.
    pub fn is_confirmed(&self) -> bool {
        let (failed, runs) = self.forced;
        let (still, others) = self.forbidden;
        runs > 0 && others > 0 && failed == runs && still == 0
    }
}

/// What forces an order, and what forbids it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    pub force: Constraint,
    pub forbid: Constraint,
}

/// The experiments that could show that the order is the cause; none if it is not about an order.
/// `failing` is the run in which the predictor has its events.
pub fn experiments(
    predictor: &Predictor,
    failing: &Trace,
    good: Option<&Trace>,
) -> Vec<Experiment> {
    let Fact::Order {
        statements, form, ..
    } = &predictor.fact
    else {
        return Vec::new();
    };
    let failing = Placed::of(failing);
    let good = good.map(Placed::of);
    let good = good.as_ref();
    let find = |pc: u64| good.and_then(|good| Some(good.point(good.last_at(pc)?)));
    let points: Vec<Point> = statements
        .iter()
        .enumerate()
        .filter_map(|(at, &pc)| match predictor.events.get(at) {
            Some(&event) => Some(failing.point(EventIndex(event))),
            None => find(pc),
        })
        .collect();
    match (points[..].as_ref(), form) {
        (&[first, second], Form::Early) => vec![Experiment {
            force: Constraint::Order { first, second },
            forbid: Constraint::Order {
                first: second,
                second: first.every_time(),
            },
        }],
        (&[first, second], Form::Anywhere | Form::Adjacent) => {
            let forbid = Constraint::Last {
                first: first.every_time(),
            };
            let mut all = vec![Experiment {
                force: Constraint::Order { first, second },
                forbid,
            }];
            if second.from > 1 {
                let second = second.every_time();
                all.push(Experiment {
                    force: Constraint::Order { first, second },
                    forbid,
                });
            }
            if let Some(last) = good.and_then(|good| good.next_access(statements[0])) {
                let (first, other) = (first.every_time(), second.every_time());
                all.push(around(first, other, last.every_time()));
            }
            all
        }
        (&[first, other, last], _) => {
            let every = around(first.every_time(), other.every_time(), last.every_time());
            vec![every]
        }
        _ => Vec::new(),
    }
}

fn around(first: Point, other: Point, last: Point) -> Experiment {
    Experiment {
        force: Constraint::Between { first, other, last },
        forbid: Constraint::Apart { first, other, last },
    }
}

/// Where a thread waits that is about to do this.
pub fn point(trace: &Trace, event: EventIndex) -> Point {
    Placed::of(trace).point(event)
}

/// A run, and the program counter of the statement of each of its events.
struct Placed<'a> {
    trace: &'a Trace,
    counters: Vec<u64>,
}

impl<'a> Placed<'a> {
    fn of(trace: &'a Trace) -> Self {
        let places = places(trace).into_iter();
        Self {
            trace,
            counters: places.map(|place| trace.place(place).pc).collect(),
        }
    }

    /// Where a thread waits that is about to do this.
    fn point(&self, event: EventIndex) -> Point {
        let trace = self.trace;
        let thread = trace.events[event.index()].thread;
        let earlier = trace.events[..=event.index()].iter().zip(&self.counters);
        let own = earlier.filter(|(earlier, _)| earlier.thread == thread);
        let mut held: Vec<(ObjectId, u64)> = Vec::new();
        for (earlier, &counter) in own.clone() {
            let Effect::Lock(object, act) = earlier.op.effect() else {
                continue;
            };
            match act {
                OnLock::Acquire(_) => held.push((object, counter)),
                OnLock::FailedAcquire(_) => {}
                OnLock::Release => {
                    if let Some(at) = held.iter().rposition(|(lock, _)| *lock == object) {
                        held.remove(at);
                    }
                }
            }
        }
        let pass = self.counters[event.index()];
        let wait = held.first().map_or(pass, |(_, counter)| *counter);
        let times = own.filter(|(earlier, counter)| **counter == wait && comes_there(earlier.op));
        Point {
            wait,
            pass,
            from: times.count().max(1) as u32,
        }
    }

    /// The last event of this statement.
    fn last_at(&self, statement: u64) -> Option<EventIndex> {
        let events = self.trace.events.iter().zip(&self.counters);
        let found = { events }.rposition(|(event, &at)| at == statement && comes_there(event.op));
        found.map(EventIndex::from_index)
    }

    /// The next access of the same thread to the memory that this statement accesses.
    fn next_access(&self, statement: u64) -> Option<Point> {
        let mut events = self.trace.events.iter().zip(&self.counters).enumerate();
        let (_, (first, _)) =
            events.find(|(_, (event, at))| **at == statement && comes_there(event.op))?;
        let access = Touch::of(first.op)?.access;
        let mut rest =
            events.filter(|(_, (event, at))| event.thread == first.thread && **at != statement);
        let found = rest.find(|(_, (event, _))| {
            Touch::of(event.op).is_some_and(|touch| touch.access.overlaps(access))
        });
        found.map(|(index, _)| self.point(EventIndex::from_index(index)))
    }
}

/// Whether the runtime may let a thread wait before this.
fn comes_there(op: Op) -> bool {
    !matches!(op, Op::Enter | Op::Leave | Op::Custom(_))
}
