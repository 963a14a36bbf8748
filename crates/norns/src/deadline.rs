//! The end of the time that a command has, and the work that fits into it.
//!
//! Engines count work ([`Budget`]); only here is a clock. A budget has less work than the machine
//! usually does in its time, so that usually the count ends an analysis and the same input gives
//! the same answer twice. On a slow or busy machine the clock does, and the result says so. No time
//! is left when the user has interrupted the command.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use norns_budget::{Budget, UNITS_PER_SECOND};

/// A time, and when it begins. Clones begin together.
#[derive(Clone, Debug)]
pub struct Deadline {
    time: Duration,
    start: Rc<Cell<Option<Instant>>>,
}

impl Deadline {
    /// The time begins now.
    pub fn after(time: Duration) -> Self {
        let deadline = Self::not_yet(time);
        deadline.start(Instant::now());
        deadline
    }

    /// The time begins with `start`.
    pub fn not_yet(time: Duration) -> Self {
        Deadline {
            time,
            start: Rc::default(),
        }
    }

    /// Begins the time, unless it has begun.
    pub fn start(&self, at: Instant) {
        self.start.set(self.start.get().or(Some(at)));
    }

    pub fn left(&self) -> Duration {
        if norns_replay::interrupted() {
            return Duration::ZERO;
        }
        let spent = self.start.get().map(|start| start.elapsed());
        self.time.saturating_sub(spent.unwrap_or_default())
    }

    /// The whole time.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// How much of it is over.
    pub fn spent(&self) -> Duration {
        self.time - self.left()
    }

    /// The work that fits into the time that is left, and no more than that time.
    pub fn budget(&self) -> Budget {
        let units = self.left().as_secs_f64() * UNITS_PER_SECOND as f64;
        let deadline = self.clone();
        Budget::with_clock(units as u64, move || deadline.left())
    }
}
