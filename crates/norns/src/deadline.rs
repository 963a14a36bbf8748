//! The end of the time that a command has, and the work that fits into it.
//!
//! Engines count work ([`Budget`]); only here is a clock. A budget has less work than the machine
//! usually does in its time, so that usually the count ends an analysis and the same input gives
//! the same answer twice. On a slow or busy machine the clock does, and the result says so.

use std::time::{Duration, Instant};

use norns_budget::{Budget, UNITS_PER_SECOND};

#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    end: Instant,
}

impl Deadline {
    pub fn after(time: Duration) -> Self {
        let now = Instant::now();
        // A time that no clock can show is no limit.
        let end = now.checked_add(time);
        let far = Duration::from_secs(100 * 365 * 24 * 3600);
        Deadline {
            end: end.unwrap_or(now + far),
        }
    }

    pub fn left(self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// The work that fits into the time that is left, and no more than that time.
    pub fn budget(self) -> Budget {
        let units = self.left().as_secs_f64() * UNITS_PER_SECOND as f64;
        Budget::with_clock(units as u64, move || self.left())
    }
}
