//! What a check may spend: states, memory and time, over everything that it does.
//!
//! Compiling may spend three quarters of the states and the memory, and nine tenths of the time. A
//! component that is still not explored then is cut short, and the rest of the budget goes to a
//! search through what is known of it: a violation in the known part is a violation, but nothing
//! else is concluded.
//!
//! Memory is counted from the sizes of what is kept, not asked of the system, so that the same
//! check ends at the same place every time. The clock is the one exception.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// When to give up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// States of components, specification and product together.
    pub states: Option<u64>,
    /// Bytes of everything that is kept in memory.
    pub bytes: Option<u64>,
    pub time: Option<Duration>,
}

/// How far a check is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub states: u64,
    /// States of the current layer and the visible events that lead to it.
    pub frontier: u64,
    pub depth: u32,
    pub bytes: u64,
}

/// The budget has ended: which part of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spent(pub String);

/// Which activity is spending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// Everything before the search: a part of the budget only.
    Compiling,
    Searching,
}

// States of a component that may also spend what is left for the search. Where another component has
// no end and has used up the share of compiling, its neighbours can still take their first steps.
const FIRST_STATES: usize = 256;

impl Activity {
    /// Exploring a component of which so many states are explored.
    pub fn exploring(states: usize) -> Activity {
        match states {
            0..FIRST_STATES => Activity::Searching,
            _ => Activity::Compiling,
        }
    }
}

/// Counts what a check spends.
#[derive(Debug)]
pub struct Meter {
    budget: Budget,
    started: Instant,
    // What finished parts of the check have used and still keep.
    states: Cell<u64>,
    bytes: Cell<u64>,
}

impl Meter {
    pub fn new(budget: Budget) -> Self {
        Meter {
            budget,
            started: Instant::now(),
            states: Cell::new(0),
            bytes: Cell::new(0),
        }
    }

    /// A meter that never ends.
    pub fn unlimited() -> Self {
        Meter::new(Budget::default())
    }

    /// A meter for a part of the check that may come to fewer states than are left.
    pub fn part(&self, states: u64) -> Meter {
        let left = self
            .budget
            .states
            .map(|all| all.saturating_sub(self.states.get()));
        Meter {
            budget: Budget {
                states: Some(left.unwrap_or(u64::MAX).min(states)),
                ..self.budget
            },
            started: self.started,
            states: Cell::new(0),
            bytes: self.bytes.clone(),
        }
    }

    /// Takes over what was spent on a part.
    pub fn keep_part(&self, part: &Meter) {
        self.states.set(self.states.get() + part.states.get());
        self.bytes.set(part.bytes.get());
    }

    /// Remembers what a finished part of the check has used and keeps.
    pub fn keep(&self, states: u64, bytes: u64) {
        self.states.set(self.states.get() + states);
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Gives back the memory of something that was dropped.
    pub fn release(&self, bytes: u64) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    /// Bytes that finished parts of the check keep.
    pub fn kept_bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// The bytes that may be used in all.
    pub fn byte_limit(&self) -> Option<u64> {
        self.budget.bytes
    }

    /// How many bytes are left, those for the search included.
    pub fn bytes_left(&self) -> Option<u64> {
        Some(self.budget.bytes?.saturating_sub(self.bytes.get()))
    }

    /// How much of the time for compiling is left.
    pub fn time_left(&self) -> Option<Duration> {
        let limit = self.budget.time? / 10 * 9;
        Some(limit.saturating_sub(self.started.elapsed()))
    }

    /// An error if the time for compiling has ended, for work that keeps nothing of its own.
    pub fn in_time(&self) -> Result<(), Spent> {
        match self.budget.time {
            Some(_) => self.spent(Activity::Compiling, 0, 0).map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    /// Whether a part of the check that has come to so many states and bytes has to end here.
    pub fn spent(&self, activity: Activity, states: u64, bytes: u64) -> Option<Spent> {
        let share = |limit: u64| match activity {
            Activity::Compiling => limit / 4 * 3 + limit % 4 * 3 / 4,
            Activity::Searching => limit,
        };
        if let Some(limit) = self.budget.states
            && self.states.get() + states > share(limit)
        {
            return Some(Spent(format!("the budget of {limit} states ended")));
        }
        if let Some(limit) = self.budget.bytes
            && self.bytes.get() + bytes > share(limit)
        {
            return Some(Spent(format!("the budget of {} MB ended", limit >> 20)));
        }
        if let Some(limit) = self.budget.time {
            let mut elapsed = self.started.elapsed();
            if activity == Activity::Compiling {
                elapsed = elapsed * 10 / 9;
            }
            if elapsed > limit {
                return Some(Spent(format!(
                    "the budget of {:.1} s ended",
                    limit.as_secs_f64()
                )));
            }
        }
        None
    }
}
