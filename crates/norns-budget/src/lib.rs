//! How much work an analysis may still do.
//!
//! Work is counted in units of roughly ten to twenty nanoseconds: a step of a search, a comparison of two
//! clocks, an event that a pass visits. The count depends on the input alone, so a limit on work
//! cuts the same analysis at the same point on every machine. The clock of the caller is the last
//! bound. It is asked rarely, and [`Budget::was_stopped`] tells that it, not the count, ended some
//! of the work: only then can the same input give another answer next time.
//!
//! One value goes down to all stages. A stage that gets a share of it ([`Budget::share`], with a
//! share of the time [`Budget::stage`]) hands back what it does not need. Passes that are linear in
//! the trace only count ([`Budget::count`]); loops that could go on ask ([`Budget::spend`]) and stop.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// About how many units a core does in a second.
pub const UNITS_PER_SECOND: u64 = 50_000_000;
/// The clock is asked after this many units.
const UNITS_BETWEEN_LOOKS: u64 = 2_000_000;

/// The work that is left, and who may end it early. Clones share what is left.
#[derive(Clone)]
pub struct Budget(Rc<Account>);

struct Account {
    left: Cell<u64>,
    used: Cell<u64>,
    /// How much was used when the clock is asked next.
    next_look: Cell<u64>,
    /// How much time is left.
    clock: Option<Box<dyn Fn() -> Duration>>,
    /// The work ends when this much time is left.
    reserved: Cell<Duration>,
    /// Whether that much was left when the clock was last asked.
    is_over: Cell<bool>,
    was_stopped: Cell<bool>,
}

impl Budget {
    /// This many units, without a clock.
    pub fn of(units: u64) -> Self {
        Self::new(units, None)
    }

    pub fn unlimited() -> Self {
        Self::of(u64::MAX)
    }

    /// This many units, and none once `clock` says that no time is left.
    pub fn with_clock(units: u64, clock: impl Fn() -> Duration + 'static) -> Self {
        Self::new(units, Some(Box::new(clock)))
    }

    fn new(units: u64, clock: Option<Box<dyn Fn() -> Duration>>) -> Self {
        Budget(Rc::new(Account {
            left: Cell::new(units),
            used: Cell::new(0),
            next_look: Cell::new(0),
            clock,
            reserved: Cell::new(Duration::ZERO),
            is_over: Cell::new(false),
            was_stopped: Cell::new(false),
        }))
    }

    /// Takes this many units. Returns whether the work may go on.
    #[inline]
    pub fn spend(&self, units: u64) -> bool {
        self.count(units);
        !self.is_spent()
    }

    /// Takes this many units for work that is done whatever is left.
    #[inline]
    pub fn count(&self, units: u64) {
        let account = &*self.0;
        account.left.set(account.left.get().saturating_sub(units));
        let used = account.used.get().saturating_add(units);
        account.used.set(used);
        if used >= account.next_look.get() {
            account
                .next_look
                .set(used.saturating_add(UNITS_BETWEEN_LOOKS));
            account.look();
        }
    }

    pub fn is_spent(&self) -> bool {
        self.0.left.get() == 0 || self.0.is_over.get()
    }

    /// Whether the time is up. Asks the clock at once.
    pub fn is_out_of_time(&self) -> bool {
        self.0.look();
        self.0.is_over.get()
    }

    /// How many units are left.
    pub fn left(&self) -> u64 {
        match self.0.is_over.get() {
            true => 0,
            false => self.0.left.get(),
        }
    }

    /// How many units were taken so far.
    pub fn used(&self) -> u64 {
        self.0.used.get()
    }

    /// Whether the clock has ended some of the work.
    pub fn was_stopped(&self) -> bool {
        self.0.was_stopped.get()
    }

    /// Does something with at most `most` units of what is left. What it does not need remains.
    pub fn within<T>(&self, most: u64, act: impl FnOnce() -> T) -> T {
        let before = self.0.left.get();
        let share = before.min(most);
        let used = self.0.used.get();
        self.0.left.set(share);
        let result = act();
        let used = self.0.used.get() - used;
        self.0.left.set(before.saturating_sub(used));
        result
    }

    /// Does something with `part` of `whole` of the work that is left, and hands back the rest.
    pub fn share<T>(&self, part: u64, whole: u64, act: impl FnOnce() -> T) -> T {
        let share = u128::from(self.0.left.get()) * u128::from(part) / u128::from(whole.max(1));
        self.within(u64::try_from(share).unwrap_or(u64::MAX), act)
    }

    /// Like `share`, with the same share of the time that is left.
    pub fn stage<T>(&self, part: u32, whole: u32, act: impl FnOnce() -> T) -> T {
        let account = &*self.0;
        let reserved = account.reserved.get();
        if let Some(clock) = &account.clock {
            let left = clock();
            let usable = left.saturating_sub(reserved);
            account.reserved.set(left - usable / whole * part);
        }
        let result = self.share(part.into(), whole.into(), act);
        account.reserved.set(reserved);
        account.look();
        result
    }
}

impl Account {
    #[cold]
    fn look(&self) {
        let left = self.clock.as_ref().map(|clock| clock());
        let is_over = left.is_some_and(|left| left <= self.reserved.get());
        self.is_over.set(is_over);
        self.was_stopped.set(self.was_stopped.get() || is_over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_hands_back_what_it_does_not_need() {
        let budget = Budget::of(100);
        budget.share(1, 2, || {
            assert!(budget.spend(20));
            assert_eq!(budget.left(), 30);
        });
        assert_eq!(budget.left(), 80);
    }

    #[test]
    fn a_spent_share_leaves_the_rest() {
        let budget = Budget::of(100);
        budget.within(10, || assert!(!budget.spend(15)));
        assert!(!budget.is_spent());
        assert_eq!(budget.left(), 85);
    }

    /// A budget whose clock shows the seconds in the cell.
    fn with_seconds(seconds: u64) -> (Budget, Rc<Cell<u64>>) {
        let left = Rc::new(Cell::new(seconds));
        let clock = left.clone();
        let budget = Budget::with_clock(u64::MAX, move || Duration::from_secs(clock.get()));
        (budget, left)
    }

    #[test]
    fn the_clock_ends_all_shares() {
        let (budget, seconds) = with_seconds(10);
        budget.within(UNITS_BETWEEN_LOOKS * 4, || {
            assert!(budget.spend(1));
            seconds.set(0);
            assert!(budget.spend(1), "the clock is asked rarely");
            assert!(!budget.spend(UNITS_BETWEEN_LOOKS));
        });
        assert!(budget.is_spent());
        assert!(budget.was_stopped());
    }

    #[test]
    fn a_stage_has_a_share_of_the_time() {
        let (budget, seconds) = with_seconds(10);
        budget.stage(1, 2, || {
            seconds.set(6);
            assert!(!budget.is_out_of_time());
            seconds.set(5);
            assert!(budget.is_out_of_time());
        });
        assert!(!budget.is_spent(), "the other half is left");
        assert!(budget.was_stopped());
    }
}
