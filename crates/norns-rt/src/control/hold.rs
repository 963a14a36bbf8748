//! Threads that are stopped before an access: the two of a predicted race (`hold`), and those that
//! linger at a place where one may be met (`hunt`, the active testing of Sen's RaceFuzzer).
//!
//! Nothing is concluded from a time-out: a thread that waited in vain goes on, and the report says
//! so. That both were there at once is told at the moment at which it is so. A reader that goes
//! round in a loop while the writer is held may wait for that very write: `spin` finds out.

use super::deadlock::{ASLEEP_LOOK, ASLEEP_LOOKS, nobody_runs};
use super::monitor::{EXIT_HELD, Guard, State, overlap};
use super::output::tell;
use super::thread::{Activity, ControlThread};
use super::{futex, kernel, spin};
use crate::schedule::{Step, What};
use crate::wire::report::{self, Message, Side, Unheld};

/// The schedule's own two, and threads that linger.
pub const MOST_HELD: usize = 12;
const FIRST_LINGERING: usize = 2;
const NOBODY: usize = usize::MAX;

const MILLISECOND: i64 = 1_000_000;
const HELD_FOR: Patience = Patience {
    wall: 1500 * MILLISECOND,
    processor: 300 * MILLISECOND,
    longest: 10_000 * MILLISECOND,
};
const LINGERS_FOR: Patience = Patience {
    wall: 30 * MILLISECOND,
    processor: 10 * MILLISECOND,
    longest: 400 * MILLISECOND,
};
const SEEN_TO_PASS: Patience = Patience {
    wall: 60 * MILLISECOND,
    processor: 20 * MILLISECOND,
    longest: 3000 * MILLISECOND,
};
/// How long a thread must go round in a loop to be suspected.
const SPINS_FOR: i64 = 60 * MILLISECOND;
/// A thread that hardly gets to run, at the lowest priority of a busy machine, needs seconds.
const MOST_READER_WATCHED: Patience = Patience {
    wall: 1500 * MILLISECOND,
    processor: 20 * MILLISECOND,
    longest: 6000 * MILLISECOND,
};
const ENOUGH_READS: u64 = 3;

/// How long to wait for another thread: on a busy machine it may not have run at all.
struct Patience {
    wall: i64,
    /// Of the thread that is waited for, or of the whole process.
    processor: i64,
    longest: i64,
}

struct Waited {
    since: i64,
    clock: i32,
    processor: i64,
}

const MONOTONIC: i32 = 1;
const PROCESSOR: i32 = 2;

impl Waited {
    fn begin() -> Self {
        Self::with_clock(PROCESSOR)
    }

    /// Waits for this thread: what counts is the time that it runs.
    fn for_thread(thread: &ControlThread) -> Self {
        let id = kernel::id(thread);
        // The kernel's name of the processor clock of a thread.
        Self::with_clock(if id > 0 { !id << 3 | 6 } else { PROCESSOR })
    }

    fn with_clock(clock: i32) -> Self {
        Self {
            since: futex::now(MONOTONIC),
            clock,
            processor: futex::now(clock),
        }
    }

    fn is_enough(&self, patience: &Patience) -> bool {
        let wall = futex::now(MONOTONIC) - self.since;
        wall >= patience.longest
            || wall >= patience.wall
                && futex::now(self.clock) - self.processor >= patience.processor
    }
}

/// A thread that is stopped before an access.
#[derive(Clone, Copy)]
pub struct HoldState {
    thread: *mut ControlThread,
    address: usize,
    size: usize,
    write: bool,
    atomic: bool,
    pc: usize,
    pub over: bool,
    /// Where the thread is with which both accesses were seen.
    partner: usize,
}

pub const NO_HOLD: HoldState = HoldState {
    thread: core::ptr::null_mut(),
    address: 0,
    size: 0,
    write: false,
    atomic: false,
    pc: 0,
    over: false,
    partner: NOBODY,
};

impl HoldState {
    fn is_there(&self) -> bool {
        !self.thread.is_null() && !self.over
    }

    fn conflicts_with(&self, other: &HoldState) -> bool {
        (self.write || other.write)
            && !(self.atomic && other.atomic)
            && overlap(self.address, self.size, other.address, other.size)
    }

    /// For the report; `thread` is the one that is held.
    fn side<'a>(&self, thread: &'a ControlThread) -> Side<'a> {
        Side {
            thread: thread.path.as_str(),
            access: if self.write {
                report::Access::Write
            } else {
                report::Access::Read
            },
            address: self.address as u64,
            size: self.size as u32,
            pc: self.pc as u64,
        }
    }
}

/// An access that is about to happen.
#[derive(Clone, Copy)]
pub struct Access {
    pub address: usize,
    pub size: usize,
    pub write: bool,
    pub atomic: bool,
    pub pc: usize,
}

impl Access {
    fn held_by(self, thread: *mut ControlThread) -> HoldState {
        HoldState {
            thread,
            address: self.address,
            size: self.size,
            write: self.write,
            atomic: self.atomic,
            pc: self.pc,
            ..NO_HOLD
        }
    }
}

impl Guard {
    /// A plain access is about to happen: does it have to wait, or to be held?
    pub fn before_access(&mut self, me: &mut ControlThread, access: Access) {
        let Access {
            address,
            size,
            write,
            pc,
            ..
        } = access;
        self.finish_access(me);
        let is_mine = |step: &Step| {
            matches!(step.what, What::Access { size: s, write: w } if w == write
                && overlap(step.address as usize, s as usize, address, size))
                && step.pc as usize == pc
        };
        // Only the thread's own next step counts: the access follows its last point.
        if let Some(next) = self.next_step_of(me)
            && is_mine(next)
        {
            me.activity = Activity::Waits;
            while let Some(step) = self.head() {
                if Some(step.thread) == me.scheduled {
                    me.pending_access = self.cursor() + 1;
                    break;
                }
                self.wait_for_head(me);
            }
            me.activity = Activity::Running;
        }
        if self.started && self.hunts.contains(&pc) && self.next_step_of(me).is_none() {
            self.hunt(me, access);
        }
        for index in 0..FIRST_LINGERING {
            let Some(hold) = self.holds[index] else {
                continue;
            };
            let here = !self.held[index].over
                && Some(hold.thread) == me.scheduled
                && hold.points == me.points
                && hold.pc as usize == pc
                && hold.write == write
                && overlap(hold.address as usize, hold.size as usize, address, size);
            if here {
                self.hold(me, index, access);
            }
        }
    }

    fn hold(&mut self, me: &mut ControlThread, index: usize, access: Access) {
        self.held[index] = access.held_by(me);
        me.activity = Activity::Held;
        let other = 1 - index;
        let wait_begins = |state: &State| {
            let other = state.holds[other].and_then(|hold| state.thread_of(hold.thread));
            other.map_or_else(Waited::begin, |thread| Waited::for_thread(thread))
        };
        let mut waited = wait_begins(self);
        let mut cursor = self.cursor();
        let mut loop_watch = LoopWatch::default();
        let mut asleep = 0;
        let why = loop {
            if self.is_over(me, index) {
                return;
            }
            asleep = if nobody_runs(self) { asleep + 1 } else { 0 };
            if self.cursor() != cursor {
                cursor = self.cursor();
                waited = wait_begins(self);
            }
            let there = self.held[other];
            if there.is_there() {
                self.both_held(me, index, other);
                me.activity = Activity::Running;
                return;
            }
            if there.over {
                break Unheld::WentOn;
            }
            if let Some(hold) = self.holds[other]
                && let Some(thread) = self.thread_of(hold.thread)
            {
                match thread.activity {
                    Activity::Ended => break Unheld::HasEnded,
                    Activity::Blocked { timed: false, .. } => break Unheld::IsBlocked,
                    Activity::Running if asleep >= ASLEEP_LOOKS => break Unheld::IsAsleep,
                    _ => {}
                }
                if self.is_free() && loop_watch.goes_round(thread) {
                    spin::suspect(thread);
                    break Unheld::GoesRound;
                }
                // It went another way, or round in a loop that synchronises.
                if thread.points > hold.points
                    && waited.is_enough(&SEEN_TO_PASS)
                    && loop_watch.goes_on(thread)
                {
                    break Unheld::WentPast;
                }
            }
            if waited.is_enough(&HELD_FOR) {
                break Unheld::DidNotCome;
            }
            self.sleep(me, Some(ASLEEP_LOOK));
        };
        let name = self.holds[other].map_or("?", |hold| self.name(hold.thread));
        tell(Message::Unheld {
            thread: me.path.as_str(),
            other: name,
            why,
        });
        self.held[index].over = true;
        self.held[other].over = true;
        me.activity = Activity::Running;
    }

    /// Whether this held thread goes on because another one saw both; as a writer it then watches
    /// the reader first.
    fn is_over(&mut self, me: &mut ControlThread, index: usize) -> bool {
        let mine = self.held[index];
        if !mine.over && mine.partner == NOBODY {
            return false;
        }
        if !mine.over {
            self.watch_reader(me, index);
        }
        me.activity = Activity::Running;
        true
    }

    /// A thread has come to a place of a predicted race: if another lingers with a conflicting
    /// access both are there, otherwise this one lingers.
    fn hunt(&mut self, me: &mut ControlThread, access: Access) {
        if self.seen_both || self.patience == 0 {
            return;
        }
        let mine = access.held_by(me);
        let free = (FIRST_LINGERING..MOST_HELD).find(|&index| !self.held[index].is_there());
        let Some(index) = free else { return };
        self.held[index] = mine;
        me.activity = Activity::Held;
        // Two different places of the prediction, unless it has only one.
        let only_one = self.hunts[1] == 0;
        let partner = (FIRST_LINGERING..MOST_HELD).find(|&other| {
            let there = self.held[other];
            let other_place = there.pc != mine.pc || only_one;
            other != index && there.is_there() && other_place && mine.conflicts_with(&there)
        });
        if let Some(partner) = partner {
            self.both_held(me, index, partner);
            me.activity = Activity::Running;
            return;
        }
        self.patience -= 1;
        let waited = Waited::begin();
        loop {
            if self.is_over(me, index) {
                return;
            }
            let tired = self.is_free() && waited.is_enough(&LINGERS_FOR);
            if nobody_runs(self) || tired || waited.is_enough(&HELD_FOR) {
                break;
            }
            self.sleep(me, Some(2 * MILLISECOND));
        }
        self.held[index] = NO_HOLD;
        me.activity = Activity::Running;
    }

    /// A thread is about to take an inner lock of a predicted deadlock: others may take theirs
    /// first.
    pub fn linger_before_lock(&mut self, me: &mut ControlThread, pc: usize) {
        if !self.hunts.contains(&pc) || self.patience == 0 || me.held().is_empty() {
            return;
        }
        self.patience -= 1;
        let waited = Waited::begin();
        while !waited.is_enough(&LINGERS_FOR) {
            self.sleep(me, Some(2 * MILLISECOND));
        }
    }

    /// Both accesses are next: the race is there to see.
    fn both_held(&mut self, me: &mut ControlThread, index: usize, partner: usize) {
        let (mine, theirs) = (self.held[index], self.held[partner]);
        let conflict = mine.conflicts_with(&theirs);
        // SAFETY: blocks of threads are never given back.
        let other = unsafe { &mut *theirs.thread };
        if conflict {
            tell(Message::Held(mine.side(me), theirs.side(other)));
            self.seen_both = true;
            super::bug_happened(self, EXIT_HELD);
        } else {
            tell(Message::Unheld {
                thread: me.path.as_str(),
                other: other.path.as_str(),
                why: Unheld::Elsewhere,
            });
        }
        // A reader may be a loop that waits for the writer: it goes on first, the writer watches.
        let both_write = mine.write && theirs.write;
        for (slot, with) in [(index, partner), (partner, index)] {
            let state = &mut self.held[slot];
            state.partner = with;
            state.over = !conflict || both_write || !state.write;
        }
        State::wake(other);
        if !self.held[index].over {
            self.watch_reader(me, index);
        }
    }

    /// The reader runs on while the writer `me` is held. If it comes back to read the same again,
    /// and to nothing new, it may be a loop that waits for this write.
    fn watch_reader(&mut self, me: &mut ControlThread, index: usize) {
        let reader = self.held[self.held[index].partner].thread;
        // SAFETY: blocks of threads are never given back.
        let reader = unsafe { &mut *reader };
        let mut loop_watch = LoopWatch::default();
        let waited = Waited::for_thread(reader);
        loop {
            if loop_watch.goes_round(reader) {
                spin::suspect(reader);
                break;
            }
            self.sleep(me, Some(3 * MILLISECOND));
            let runs = matches!(
                reader.activity,
                Activity::Running | Activity::Held | Activity::Waits
            );
            let goes_on = waited.is_enough(&SEEN_TO_PASS) && loop_watch.goes_on(reader);
            if !runs || goes_on || waited.is_enough(&MOST_READER_WATCHED) {
                break;
            }
        }
        self.held[index].over = true;
    }
}

/// Looks at a thread again and again: does it go round in a loop?
#[derive(Default)]
struct LoopWatch {
    begun: bool,
    changes: u64,
    /// At how many looks there was something new.
    moves: u32,
    quiet_since: i64,
}

impl LoopWatch {
    fn goes_round(&mut self, thread: &ControlThread) -> bool {
        use core::sync::atomic::Ordering::Relaxed;
        let changes = thread.spin.changes.load(Relaxed);
        let now = futex::now(MONOTONIC);
        if !self.begun {
            thread.spin.watch();
        }
        if !self.begun || changes != self.changes {
            self.begun = true;
            self.changes = changes;
            self.moves += 1;
            self.quiet_since = now;
            return false;
        }
        now - self.quiet_since >= SPINS_FOR
            && thread.spin.repeated.load(Relaxed) >= ENOUGH_READS
            && matches!(thread.activity, Activity::Running)
    }

    /// It has met something new again and again, or never came back to anything. A thread that has
    /// only begun to run since it is watched is not that: all is new to it, once.
    fn goes_on(&self, thread: &ControlThread) -> bool {
        use core::sync::atomic::Ordering::Relaxed;
        self.moves > 3 || thread.spin.repeated.load(Relaxed) == 0
    }
}
