//! From correlation to cause: the order that predicts the failure is forced, and forbidden.
//!
//! This goes beyond Kasikci (2015). Everything else about the runs stays random: their seeds differ. A
//! thread waits before it takes the lock under which it would make its access, since the other thread may
//! need that lock.

use norns_trace::effect::OnLock;
use norns_trace::{Effect, EventIndex, ObjectId, Touch, Trace};
use norns_wire::environment::{Constraint, Point};

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
    let find = |pc: u64| good.and_then(|good| Some(point(good, last_at(good, pc)?)));
    let points: Vec<Point> = statements
        .iter()
        .enumerate()
        .filter_map(|(at, &pc)| match predictor.events.get(at) {
            Some(&event) => Some(point(failing, EventIndex(event))),
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
            if let Some(last) = good.and_then(|good| next_access(good, statements[0])) {
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
    let thread = trace.events[event.index()].thread;
    let mut held: Vec<(ObjectId, u64)> = Vec::new();
    for earlier in &trace.events[..event.index()] {
        if earlier.thread != thread {
            continue;
        }
        let Effect::Lock(object, act) = earlier.op.effect() else {
            continue;
        };
        match act {
            OnLock::Acquire(_) => held.push((object, trace.place(earlier.place).pc)),
            OnLock::FailedAcquire(_) => {}
            OnLock::Release => {
                if let Some(at) = held.iter().rposition(|(lock, _)| *lock == object) {
                    held.remove(at);
                }
            }
        }
    }
    let pass = trace.place(trace.events[event.index()].place).pc;
    let wait = held.first().map_or(pass, |(_, pc)| *pc);
    let times = trace.events[..=event.index()]
        .iter()
        .filter(|earlier| earlier.thread == thread && trace.place(earlier.place).pc == wait);
    Point {
        wait,
        pass,
        from: times.count().max(1) as u32,
    }
}

/// The last event of this statement.
fn last_at(trace: &Trace, pc: u64) -> Option<EventIndex> {
    let found = trace
        .events
        .iter()
        .rposition(|event| trace.place(event.place).pc == pc);
    found.map(EventIndex::from_index)
}

/// The next access of the same thread to the memory that this statement accesses.
fn next_access(trace: &Trace, pc: u64) -> Option<Point> {
    let place = |event: &norns_trace::Event| trace.place(event.place).pc;
    let at = trace.events.iter().position(|event| place(event) == pc)?;
    let first = trace.events[at];
    let access = Touch::of(first.op)?.access;
    let rest = trace.events.iter().enumerate().skip(at + 1);
    let mut rest = rest.filter(|(_, event)| event.thread == first.thread && place(event) != pc);
    let found = rest
        .find(|(_, event)| Touch::of(event.op).is_some_and(|touch| touch.access.overlaps(access)));
    found.map(|(index, _)| point(trace, EventIndex::from_index(index)))
}
