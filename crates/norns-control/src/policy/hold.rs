//! Threads that are stopped before an access: the two of a predicted race (`hold`), and those that
//! linger at a place where one may be met (`hunt`, the active testing of Sen's RaceFuzzer).
//!
//! Nothing is concluded from a time-out: a thread that waited in vain goes on, and the report says
//! so. That both were there at once is told at the moment at which it is so. A reader that goes
//! round in a loop while the writer is held may wait for that very write: `spin` finds out.

use norns_wire::report::{Unheld, Why};

use super::patience::{
    HELD_FOR, IDLE_LOOKS, MILLISECOND, Patience, READER_WATCHED_FOR, SEEN_TO_PASS, Wait,
    held_while_computing, idle_looks, lingers_for, standstill,
};
use super::replay::{diverged, nobody_runs, wait_for_head};
use super::{Decision, Policy};
use crate::board::Board;
use crate::deadlock::{ASLEEP_LOOK, ASLEEP_LOOKS};
use crate::event::{Access, Line, Question, Side, Turn};
use crate::spin::{LoopWatch, overlap};
use crate::thread::{Activity, HeadWait, Slot, Stage};

/// The schedule's own two, and threads that linger.
const MOST_HELD: usize = 12;
const FIRST_LINGERING: usize = 2;
/// How often threads may linger in all, and at one of several places: one that is passed again and
/// again must not use up the time of the others.
const MOST_LINGERS: u32 = 100;
const MOST_LINGERS_AT_ONE: u8 = 6;
/// Of how many places that is counted.
const COUNTED: usize = 64;

const LINGER_LOOK: i64 = 2 * MILLISECOND;
const READER_LOOK: i64 = 3 * MILLISECOND;
/// How long the end of the process waits for threads that are held, or may come to be.
const END_WAITS_FOR: i64 = 1500 * MILLISECOND;
const END_LOOK: i64 = 20 * MILLISECOND;

/// A thread that is stopped before an access.
#[derive(Clone, Copy)]
struct Held {
    thread: Option<Slot>,
    access: Access,
    /// It goes on.
    over: bool,
    /// The entry of the thread with which both accesses were seen.
    partner: Option<usize>,
    wait: Wait,
    /// How far the schedule had come at the last look.
    progress: (usize, bool),
    /// At how many looks, up to the last one, no thread ran.
    asleep: u32,
    /// At how many looks, up to the last one, the other thread of the race was asleep in the kernel.
    idle: u32,
    watch: LoopWatch,
}

const NO_ACCESS: Access = Access {
    address: 0,
    size: 0,
    write: false,
    atomic: false,
    pc: 0,
};

const NOBODY: Held = Held {
    thread: None,
    access: NO_ACCESS,
    over: false,
    partner: None,
    wait: Wait::NEVER,
    progress: (0, false),
    asleep: 0,
    idle: 0,
    watch: LoopWatch::new(),
};

impl Held {
    fn is_there(&self) -> bool {
        self.thread.is_some() && !self.over
    }
}

fn conflict(one: &Access, other: &Access) -> bool {
    (one.write || other.write)
        && !(one.atomic && other.atomic)
        && overlap(one.address, one.size, other.address, other.size)
}

pub struct Hold {
    held: [Held; MOST_HELD],
    lingered: u32,
    /// The same for each of the schedule's places.
    lingered_at: [u8; COUNTED],
    /// The two accesses were both next at one moment.
    seen_both: bool,
}

impl Policy for Hold {
    fn decide(&mut self, board: &mut Board, me: Slot) -> Result<Decision, Question> {
        loop {
            let decided = match board.thread(me).stage {
                Stage::Hunts(access, index) => self.hunt(board, me, access, index)?,
                Stage::Holds(access, index) => self.hold(board, me, access, index)?,
                Stage::WatchesReader {
                    access,
                    index,
                    hunts,
                } => self.watch_reader(board, me, access, index, hunts)?,
                Stage::LingersBeforeLock(wait) => {
                    return self.linger_before_lock(board, me, wait);
                }
                Stage::EndsProcess { until, head } => {
                    return self.end_process(board, me, until, head);
                }
                _ => return Ok(Decision::Go(Turn::Free)),
            };
            if let Some(decision) = decided {
                return Ok(decision);
            }
        }
    }
}

/// What one stage of an access answers: `None` when the thread is in its next stage.
type Decided = Result<Option<Decision>, Question>;

impl Hold {
    pub const fn new() -> Self {
        Hold {
            held: [NOBODY; MOST_HELD],
            lingered: 0,
            lingered_at: [0; COUNTED],
            seen_both: false,
        }
    }

    /// An access is about to happen at a place that the schedule names: does it have to linger, or
    /// to be held?
    pub fn begin(&mut self, board: &mut Board, me: Slot, access: Access) {
        let hunts = board.schedule.map_or(&[][..], |schedule| schedule.hunts);
        let is_here = |&pc: &usize| pc != 0 && board.now_at(pc) == access.pc;
        let place = hunts.iter().position(is_here);
        if let Some(place) = place
            && board.started
            && board.next_step_of(me).is_none()
            && self.may_linger(place, hunts.len())
        {
            let free = (FIRST_LINGERING..MOST_HELD).find(|&index| !self.held[index].is_there());
            if let Some(index) = free {
                if let Some(count) = self.lingered_at.get_mut(place) {
                    *count = count.saturating_add(1);
                }
                // Two different places of the prediction, unless it has only one. Of several
                // predictions any two will do: they conflict.
                let any_two = hunts.len() != 2;
                return self.begin_hunt(board, me, access, index, any_two);
            }
        }
        self.next_hold(board, me, access, 0);
    }

    /// Whether a thread may linger at one of so many places. A prediction that was shown is not
    /// looked for again; where there are several, the others are.
    fn may_linger(&self, place: usize, places: usize) -> bool {
        let here = self.lingered_at.get(place).copied().unwrap_or(0);
        let of_several = places > 2;
        let enough = if of_several {
            here >= MOST_LINGERS_AT_ONE
        } else {
            self.seen_both
        };
        !enough && self.lingered < MOST_LINGERS
    }

    fn begin_hunt(
        &mut self,
        board: &mut Board,
        me: Slot,
        access: Access,
        index: usize,
        any_two: bool,
    ) {
        self.held[index] = Held {
            thread: Some(me),
            access,
            wait: Wait::begin(board, me, None),
            ..NOBODY
        };
        board.thread_mut(me).activity = Activity::Held;
        let partner = (FIRST_LINGERING..MOST_HELD).find(|&other| {
            let there = &self.held[other];
            let other_place = there.access.pc != access.pc || any_two;
            other != index && there.is_there() && other_place && conflict(&access, &there.access)
        });
        if let Some(partner) = partner {
            self.both_held(board, me, index, partner, true);
        } else {
            self.lingered += 1;
            board.thread_mut(me).stage = Stage::Hunts(access, index);
        }
    }

    /// The stage after those of a hunt, or of the holds before `from`.
    fn next_hold(&mut self, board: &mut Board, me: Slot, access: Access, from: usize) {
        let thread = board.thread_mut(me);
        thread.activity = Activity::Running;
        thread.stage = Stage::Outside;
        let (scheduled, points) = (thread.scheduled, thread.points);
        let holds = board.schedule.map_or([None; 2], |schedule| schedule.holds);
        let next = (from..FIRST_LINGERING).find(|&index| {
            holds[index].is_some_and(|hold| {
                !self.held[index].over
                    && Some(hold.thread) == scheduled
                    && hold.points == points
                    && board.now_at(hold.pc as usize) == access.pc
                    && hold.write == access.write
                    && overlap(
                        board.now_at(hold.address as usize),
                        hold.size as usize,
                        access.address,
                        access.size,
                    )
            })
        });
        if let Some(index) = next {
            let of = Self::awaited(board, index);
            self.held[index] = Held {
                thread: Some(me),
                access,
                wait: Wait::begin(board, me, of),
                progress: board.progress_of_schedule(),
                ..NOBODY
            };
            let thread = board.thread_mut(me);
            thread.activity = Activity::Held;
            thread.stage = Stage::Holds(access, index);
        }
    }

    /// The other thread of the race, for the one that is held in this entry.
    fn awaited(board: &Board, index: usize) -> Option<Slot> {
        let hold = board.schedule?.holds[1 - index]?;
        board.thread_of(hold.thread)
    }

    /// Lingers at a place of a predicted race until another thread comes there, or the time is over.
    fn hunt(&mut self, board: &mut Board, me: Slot, access: Access, index: usize) -> Decided {
        if self.goes_on(board, me, access, index, true) {
            return Ok(None);
        }
        let nobody = nobody_runs(board, me)?;
        let entry = &mut self.held[index];
        let processor = entry.wait.processor(board, me)?;
        // The thread that should come may wait, in a loop, for what this one writes next.
        let is_one_race = board
            .schedule
            .is_some_and(|schedule| schedule.hunts.len() <= 2);
        let watches = is_one_race && board.is_free();
        let looping = if watches {
            entry.watch.any_goes_round(board, me)
        } else {
            None
        };
        let is_enough = |patience: &Patience| entry.wait.is_enough(patience, board.now, processor);
        let tired = board.is_free()
            && is_enough(&lingers_for(board, self.lingered))
            && !(watches && entry.watch.repeats(board));
        if !(nobody || tired || looping.is_some() || is_enough(&HELD_FOR)) {
            return Ok(Some(Decision::Sleep(Some(LINGER_LOOK))));
        }
        if let Some(looping) = looping {
            board.suspect_loop(looping);
        }
        entry.watch.end(board);
        self.held[index] = NOBODY;
        self.next_hold(board, me, access, 0);
        Ok(None)
    }

    fn hold(&mut self, board: &mut Board, me: Slot, access: Access, index: usize) -> Decided {
        if self.goes_on(board, me, access, index, false) {
            return Ok(None);
        }
        let other = 1 - index;
        let awaited = Self::awaited(board, index);
        // Threads that the schedule keeps waiting are let go before anything is given up.
        let nobody = nobody_runs(board, me)? && !board.outsiders_wait();
        if self.held[index].progress != board.progress_of_schedule() {
            self.held[index].progress = board.progress_of_schedule();
            self.held[index].wait = Wait::begin(board, me, awaited);
        }
        let there = self.held[other];
        let entry = &mut self.held[index];
        let processor = entry.wait.processor(board, me)?;
        let idle = match awaited {
            Some(awaited) => {
                let since = (entry.wait.since, standstill(board));
                idle_looks(board, me, awaited, since, entry.idle)?
            }
            None => 0,
        };
        // Nothing below asks: what counts looks is done once a look.
        entry.asleep = if nobody { entry.asleep + 1 } else { 0 };
        entry.idle = idle;
        if there.is_there() {
            entry.watch.end(board);
            self.both_held(board, me, index, other, false);
            return Ok(None);
        }
        let why = if there.over {
            Some(Unheld::WentOn)
        } else {
            awaited.and_then(|awaited| entry.why_in_vain(board, index, awaited, processor))
        };
        let why = why.or_else(|| {
            let patience = if entry.watch.computes(board) {
                held_while_computing(board)
            } else {
                HELD_FOR
            };
            let is_enough = entry.wait.is_enough(&patience, board.now, processor);
            let is_asleep = (idle >= IDLE_LOOKS).then_some(Unheld::IsAsleep);
            is_asleep.or(is_enough.then_some(Unheld::DidNotCome))
        });
        let Some(why) = why else {
            return Ok(Some(Decision::Sleep(Some(ASLEEP_LOOK))));
        };
        entry.watch.end(board);
        let other_name = board.schedule.and_then(|schedule| schedule.holds[other]);
        board.tell(Line::Unheld {
            thread: me,
            other: Err(other_name.map_or(u32::MAX, |hold| hold.thread)),
            why,
        });
        self.held[index].over = true;
        self.held[other].over = true;
        self.next_hold(board, me, access, index + 1);
        Ok(None)
    }

    /// Whether this held thread goes on because another one saw both; as a writer it then watches
    /// the reader first.
    fn goes_on(
        &mut self,
        board: &mut Board,
        me: Slot,
        access: Access,
        index: usize,
        hunts: bool,
    ) -> bool {
        let mine = &mut self.held[index];
        if !mine.over && mine.partner.is_none() {
            return false;
        }
        mine.watch.end(board);
        if mine.over {
            let from = if hunts { 0 } else { index + 1 };
            self.next_hold(board, me, access, from);
        } else {
            self.begin_watching(board, me, access, index, hunts);
        }
        true
    }

    /// Both accesses are next: the race is there to see.
    fn both_held(
        &mut self,
        board: &mut Board,
        me: Slot,
        index: usize,
        partner: usize,
        hunts: bool,
    ) {
        let (mine, theirs) = (self.held[index], self.held[partner]);
        let conflict = conflict(&mine.access, &theirs.access);
        let other = theirs.thread.unwrap_or(me);
        if conflict {
            let side = |thread, held: &Held| Side {
                thread,
                access: held.access,
            };
            board.tell(Line::Held(side(me, &mine), side(other, &theirs)));
            self.seen_both = true;
        } else {
            board.tell(Line::Unheld {
                thread: me,
                other: Ok(other),
                why: Unheld::Elsewhere,
            });
        }
        // A reader may be a loop that waits for the writer: it goes on first, the writer watches.
        let both_write = mine.access.write && theirs.access.write;
        for (entry, with) in [(index, partner), (partner, index)] {
            let held = &mut self.held[entry];
            held.partner = Some(with);
            held.over = !conflict || both_write || !held.access.write;
        }
        board.wake(other);
        if self.held[index].over {
            let from = if hunts { 0 } else { index + 1 };
            self.next_hold(board, me, mine.access, from);
        } else {
            self.begin_watching(board, me, mine.access, index, hunts);
        }
    }

    fn begin_watching(
        &mut self,
        board: &mut Board,
        me: Slot,
        access: Access,
        index: usize,
        hunts: bool,
    ) {
        let reader = self.reader(index);
        self.held[index].wait = Wait::begin(board, me, reader);
        self.held[index].watch = LoopWatch::new();
        board.thread_mut(me).stage = Stage::WatchesReader {
            access,
            index,
            hunts,
        };
    }

    fn reader(&self, index: usize) -> Option<Slot> {
        self.held[self.held[index].partner?].thread
    }

    /// The reader runs on while the writer `me` is held. If it comes back to read the same again,
    /// and to nothing new, it may be a loop that waits for this write.
    fn watch_reader(
        &mut self,
        board: &mut Board,
        me: Slot,
        access: Access,
        index: usize,
        hunts: bool,
    ) -> Decided {
        let entry = &mut self.held[index];
        let processor = entry.wait.processor(board, me)?;
        if let Some(reader) = entry.wait.of {
            let runs = matches!(
                board.thread(reader).activity,
                Activity::Running | Activity::Held | Activity::Waits
            );
            let is_enough =
                |patience: &Patience| entry.wait.is_enough(patience, board.now, processor);
            let passed = is_enough(&SEEN_TO_PASS) && entry.watch.goes_on(board, reader);
            let is_first_look = entry.watch == LoopWatch::new();
            let in_vain = !runs || passed || is_enough(&READER_WATCHED_FOR);
            if is_first_look || !in_vain {
                if !entry.watch.goes_round(board, reader) {
                    return Ok(Some(Decision::Sleep(Some(READER_LOOK))));
                }
                board.suspect_loop(reader);
            }
        }
        entry.watch.end(board);
        entry.over = true;
        let from = if hunts { 0 } else { index + 1 };
        self.next_hold(board, me, access, from);
        Ok(None)
    }

    /// The thread is about to take an inner lock of a predicted deadlock: others may take theirs
    /// first. False when it need not wait.
    pub fn lingers_before_lock(&mut self, board: &mut Board, me: Slot, pc: usize) -> bool {
        let hunts = board.schedule.map_or(&[][..], |schedule| schedule.hunts);
        let lingers = pc != 0
            && hunts.iter().any(|&hunt| board.now_at(hunt) == pc)
            && self.lingered < MOST_LINGERS
            && !board.thread(me).held.is_empty();
        if lingers {
            self.lingered += 1;
            let wait = Wait::begin(board, me, None);
            board.thread_mut(me).stage = Stage::LingersBeforeLock(wait);
        }
        lingers
    }

    fn linger_before_lock(
        &mut self,
        board: &mut Board,
        me: Slot,
        mut wait: Wait,
    ) -> Result<Decision, Question> {
        let processor = wait.processor(board, me)?;
        if wait.is_enough(&lingers_for(board, self.lingered), board.now, processor) {
            return Ok(Decision::Go(Turn::Free));
        }
        board.thread_mut(me).stage = Stage::LingersBeforeLock(wait);
        Ok(Decision::Sleep(Some(LINGER_LOOK)))
    }

    /// The process ends when this thread goes on: not before the schedule is done and no thread is
    /// held, unless that cannot be.
    pub fn begin_end(&mut self, board: &mut Board, me: Slot) {
        let until = board.now + END_WAITS_FOR;
        let head = HeadWait::default();
        board.thread_mut(me).stage = Stage::EndsProcess { until, head };
    }

    fn end_process(
        &mut self,
        board: &mut Board,
        me: Slot,
        until: i64,
        head: HeadWait,
    ) -> Result<Decision, Question> {
        if !board.is_free() {
            if board.is_turn_of(me) {
                return Ok(diverged(me, None, Why::ProgramEnds));
            }
            board.thread_mut(me).activity = Activity::Waits;
            return wait_for_head(board, me, head, |head| Stage::EndsProcess { until, head });
        }
        board.thread_mut(me).activity = Activity::Running;
        let may_still_come = (0..FIRST_LINGERING).any(|index| self.may_come(board, me, index));
        if !board.started || !may_still_come || board.now >= until {
            return Ok(Decision::Go(Turn::Free));
        }
        Ok(Decision::Sleep(Some(END_LOOK)))
    }

    /// Whether another thread is held in this entry, or may still come to where it is to be held.
    fn may_come(&self, board: &Board, me: Slot, index: usize) -> bool {
        let hold = board.schedule.and_then(|schedule| schedule.holds[index]);
        hold.is_some_and(|hold| {
            board.thread_of(hold.thread).is_some_and(|slot| {
                let thread = board.thread(slot);
                let runs = matches!(
                    thread.activity,
                    Activity::Running | Activity::Held | Activity::Waits
                );
                runs && thread.points <= hold.points && slot != me && !self.held[index].over
            })
        })
    }

    /// The thread has left a stage of this policy without being asked.
    pub fn abandon(&mut self, board: &mut Board, me: Slot) {
        for entry in self.held.iter_mut().filter(|held| held.thread == Some(me)) {
            entry.watch.end(board);
            entry.over = true;
        }
    }
}

impl Held {
    /// Why it is in vain to wait on for the other thread of the race.
    fn why_in_vain(
        &mut self,
        board: &mut Board,
        index: usize,
        awaited: Slot,
        processor: i64,
    ) -> Option<Unheld> {
        let thread = board.thread(awaited);
        match thread.activity {
            Activity::Ended => return Some(Unheld::HasEnded),
            Activity::Blocked { timed: false, .. } => return Some(Unheld::IsBlocked),
            Activity::Running if self.asleep >= ASLEEP_LOOKS => return Some(Unheld::IsAsleep),
            _ => {}
        }
        let its_points = thread.points;
        if board.is_free() && self.watch.goes_round(board, awaited) {
            board.suspect_loop(awaited);
            return Some(Unheld::GoesRound);
        }
        // It went another way, or round in a loop that synchronises.
        let hold = board.schedule?.holds[1 - index]?;
        let passed = its_points > hold.points
            && self.wait.is_enough(&SEEN_TO_PASS, board.now, processor)
            && self.watch.goes_on(board, awaited);
        passed.then_some(Unheld::WentPast)
    }
}
