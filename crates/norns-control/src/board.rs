//! What all policies see: the threads, the position in the schedule, the objects that the core
//! emulates, and what is to be told and done outside.

use norns_wire::Code;
use norns_wire::schedule::{Hold, Step, What};

use crate::emulated::{Barriers, Onces};
use crate::event::{Effect, Line};
use crate::spin::LoopWatch;
use crate::thread::{Activity, MOST_THREADS, Slot, Stage, Thread};

const MOST_LINES: usize = 4;
const MOST_MOVED: usize = 16;

/// A schedule, parsed.
#[derive(Clone, Copy, Default)]
pub struct Schedule<'m> {
    /// The names of its threads, by their numbers in the schedule.
    pub names: &'m [&'m str],
    pub steps: &'m [Step],
    /// The two accesses of a race, before which threads are held.
    pub holds: [Option<Hold>; 2],
    /// Program counters at which threads linger.
    pub hunts: &'m [usize],
    /// How long the recorded run took, in nanoseconds; 0 when that is not known.
    pub pace: i64,
    /// Only custom events wait for their turn.
    pub events_only: bool,
    /// Where the program's files lay in the recorded process.
    pub modules: &'m [Module<'m>],
}

/// A file of the program, as the recorded process had mapped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module<'m> {
    pub start: usize,
    pub end: usize,
    pub path: &'m str,
}

/// A module that lies elsewhere than in the recorded process.
#[derive(Clone, Copy)]
struct Moved {
    start: usize,
    end: usize,
    /// Added to a recorded address, modulo 2⁶⁴, to get the one of now.
    by: usize,
}

impl<'m> Schedule<'m> {
    pub const fn empty() -> Self {
        Schedule {
            names: &[],
            steps: &[],
            holds: [None; 2],
            hunts: &[],
            pace: 0,
            events_only: false,
            modules: &[],
        }
    }

    pub fn name(&self, thread: u32) -> &'m str {
        self.names.get(thread as usize).copied().unwrap_or("?")
    }
}

pub(crate) struct Board<'m> {
    threads: [Option<&'m mut Thread>; MOST_THREADS],
    /// One more than the highest slot in use.
    end: usize,
    pub schedule: Option<Schedule<'m>>,
    moved: [Option<Moved>; MOST_MOVED],
    pub cursor: usize,
    /// Threads for which the schedule has no step left do not wait for those of the others.
    outsiders_run: bool,
    /// A thread was created: from here on operations are points.
    pub started: bool,
    /// Nanoseconds of the monotonic clock.
    pub now: i64,
    condition_order: u64,
    /// Raised by every operation that may let a blocked thread go on.
    pub progress: u64,
    pub barriers: Barriers,
    pub onces: Onces,
    /// The thread whose loop may wait for a write.
    pub suspect: Option<Slot>,
    /// Watches the thread of the next step while the others wait for it.
    head_watch: LoopWatch,
    lines: [Option<Line>; MOST_LINES],
    /// The first of the threads that have effects; `Pending::next` links them.
    affected: Option<Slot>,
}

impl<'m> Board<'m> {
    pub const fn new() -> Self {
        Board {
            threads: [const { None }; MOST_THREADS],
            end: 0,
            schedule: None,
            moved: [None; MOST_MOVED],
            cursor: 0,
            outsiders_run: false,
            started: false,
            now: 0,
            condition_order: 0,
            progress: 0,
            barriers: Barriers::new(),
            onces: Onces::new(),
            suspect: None,
            head_watch: LoopWatch::new(),
            lines: [None; MOST_LINES],
            affected: None,
        }
    }

    /// Forgets all threads: the child process after a fork.
    pub fn forget_threads(&mut self) {
        for thread in &mut self.threads[..self.end] {
            *thread = None;
        }
        self.end = 0;
        self.started = false;
        self.suspect = None;
        self.head_watch = LoopWatch::new();
        self.affected = None;
    }

    /// Puts a thread in its place, if that is free.
    pub fn add(&mut self, slot: Slot, thread: &'m mut Thread) -> bool {
        match self.threads.get_mut(slot.index()) {
            Some(place) if place.is_none() => {
                *place = Some(thread);
                self.end = self.end.max(slot.index() + 1);
                true
            }
            _ => false,
        }
    }

    pub fn get(&self, slot: Slot) -> Option<&Thread> {
        self.threads.get(slot.index())?.as_deref()
    }

    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Thread> {
        self.threads.get_mut(slot.index())?.as_deref_mut()
    }

    /// A thread that is known to be in the table: `Core::step` checks the slot that it is given, and
    /// entries stay until `forget_threads`.
    pub fn thread(&self, slot: Slot) -> &Thread {
        self.get(slot).expect("the thread was added")
    }

    pub fn thread_mut(&mut self, slot: Slot) -> &mut Thread {
        self.get_mut(slot).expect("the thread was added")
    }

    pub fn threads(&self) -> impl Iterator<Item = (Slot, &Thread)> {
        let table = self.threads[..self.end].iter().enumerate();
        table.filter_map(|(slot, thread)| Some((Slot(slot as u32), thread.as_deref()?)))
    }

    pub fn slots(&self) -> impl Iterator<Item = Slot> + use<'m> {
        (0..self.end as u32).map(Slot)
    }

    pub fn count(&self) -> usize {
        self.end
    }

    // The schedule.

    pub fn steps(&self) -> &'m [Step] {
        self.schedule.map_or(&[], |schedule| schedule.steps)
    }

    /// A module lies at this address, which is another one than in the recorded process. Of more than
    /// `MOST_MOVED` the others keep their recorded addresses.
    pub fn module_moved(&mut self, module: &Module, start: usize) {
        let is_free =
            |place: &&mut Option<Moved>| place.is_none_or(|moved| moved.start == module.start);
        if let Some(place) = self.moved.iter_mut().find(is_free) {
            *place = Some(Moved {
                start: module.start,
                end: module.end,
                by: start.wrapping_sub(module.start),
            });
        }
    }

    /// Where an address of the schedule is now.
    pub fn now_at(&self, recorded: usize) -> usize {
        let mut moved = self.moved.iter().map_while(Option::as_ref);
        let here = moved.find(|moved| (moved.start..moved.end).contains(&recorded));
        here.map_or(recorded, |moved| recorded.wrapping_add(moved.by))
    }

    /// Whether the program runs free: nothing is scheduled yet, or everything is done.
    pub fn is_free(&self) -> bool {
        !self.started || self.cursor >= self.steps().len()
    }

    /// The step that is to be done next.
    pub fn head(&self) -> Option<&'m Step> {
        self.steps().get(self.cursor)
    }

    /// The next step of this thread.
    pub fn next_step_of(&self, slot: Slot) -> Option<&'m Step> {
        let scheduled = self.thread(slot).scheduled?;
        let rest = self.steps().get(self.cursor..).unwrap_or(&[]);
        rest.iter().find(|step| step.thread == scheduled)
    }

    pub fn thread_of(&self, scheduled: u32) -> Option<Slot> {
        let mut threads = self.threads();
        let found = threads.find(|(_, thread)| thread.scheduled == Some(scheduled))?;
        Some(found.0)
    }

    pub fn is_turn_of(&self, slot: Slot) -> bool {
        self.head()
            .is_some_and(|step| Some(step.thread) == self.thread(slot).scheduled)
    }

    /// Whether the thread runs outside the schedule: the schedule does not bind what it does now, or has no
    /// step left for it and has been waiting in vain.
    pub fn is_outside(&mut self, me: Slot) -> bool {
        let thread = self.thread(me);
        let is_unbound = self.binds_only_events() && thread.operation.code != Code::Custom;
        let is_outside = is_unbound || self.outsiders_run && !self.has_step_left(thread);
        self.thread_mut(me).is_outside = is_outside;
        is_outside
    }

    /// Whether only custom events wait for their turn.
    pub fn binds_only_events(&self) -> bool {
        self.schedule.is_some_and(|schedule| schedule.events_only)
    }

    fn has_step_left(&self, thread: &Thread) -> bool {
        thread.last_step.is_some_and(|last| last >= self.cursor)
    }

    /// Whether a thread for which the schedule has no step left waits for those of the others.
    pub fn outsiders_wait(&self) -> bool {
        let waits = |thread: &Thread| matches!(thread.stage, Stage::Turn(_));
        let mut threads = self.threads();
        !self.outsiders_run
            && threads.any(|(_, thread)| waits(thread) && !self.has_step_left(thread))
    }

    /// Lets the threads go on for which the schedule has no step left.
    pub fn let_outsiders_run(&mut self) {
        self.outsiders_run = true;
        self.wake_all();
    }

    /// Changes whenever the schedule gets on, also when it lets other threads run.
    pub fn progress_of_schedule(&self) -> (usize, bool) {
        (self.cursor, self.outsiders_run)
    }

    pub fn do_outsiders_run(&self) -> bool {
        self.outsiders_run
    }

    /// A thread has done its operation, which is the head of the schedule unless the thread runs
    /// outside it.
    pub fn complete_by(&mut self, me: Slot) {
        if !self.thread(me).is_outside {
            self.complete();
        }
    }

    /// The head of the schedule is done.
    pub fn complete(&mut self) {
        if self.is_free() {
            return;
        }
        self.cursor += 1;
        self.end_head_watch();
        let steps = self.steps().len();
        if self.cursor == steps {
            self.tell(Line::Followed { steps });
        }
        self.wake_head();
    }

    /// For how long the thread of the next step has gone round in a loop that only reads.
    pub fn head_only_reads_for(&mut self, head: Slot) -> i64 {
        let mut watch = self.head_watch;
        let time = watch.only_reads_for(self, head);
        self.head_watch = watch;
        time
    }

    fn end_head_watch(&mut self) {
        let mut watch = self.head_watch;
        watch.end(self);
        self.head_watch = LoopWatch::new();
    }

    /// The access that had its turn is done: the thread has come to its next hook.
    pub fn finish_access(&mut self, me: Slot) {
        if core::mem::take(&mut self.thread_mut(me).pending_access) {
            self.complete();
        }
    }

    // Conditions.

    /// The thread is a waiter from the moment at which it releases the mutex.
    pub fn begin_wait(&mut self, me: Slot, condition: usize) {
        self.condition_order += 1;
        let order = self.condition_order;
        let thread = self.thread_mut(me);
        thread.condition = condition;
        thread.condition_order = order;
        thread.signalled = false;
    }

    /// The waiter that a signal on this condition wakes: the one whose wait comes next in the
    /// schedule, or else the one that has waited longest.
    fn waiter_to_signal(&self, condition: usize) -> Option<Slot> {
        let rest = self.steps().get(self.cursor..).unwrap_or(&[]);
        let mut scheduled = rest
            .iter()
            .filter(|step| step.what == What::Point(Code::Wait as u8))
            .filter_map(|step| self.thread_of(step.thread));
        let next = scheduled.find(|slot| self.thread(*slot).waits_on(condition));
        next.or_else(|| {
            self.threads()
                .filter(|(_, thread)| thread.waits_on(condition))
                .min_by_key(|(_, thread)| thread.condition_order)
                .map(|(slot, _)| slot)
        })
    }

    pub fn signal(&mut self, condition: usize, all: bool) {
        while let Some(waiter) = self.waiter_to_signal(condition) {
            self.thread_mut(waiter).signalled = true;
            if !all {
                break;
            }
        }
    }

    // Locks.

    pub fn holds(&self, slot: Slot, lock: usize) -> bool {
        self.thread(slot).held.contains(lock)
    }

    /// The lock is about to be released by `me`, which need not hold it: unlocking a mutex of
    /// another thread is undefined but common.
    pub fn release(&mut self, me: Slot, lock: usize) {
        let holder = if self.holds(me, lock) {
            Some(me)
        } else {
            let mut threads = self.threads();
            let found = threads.find(|(_, thread)| thread.held.contains(lock));
            found.map(|(slot, _)| slot)
        };
        if let Some(holder) = holder {
            self.thread_mut(holder).held.release(lock);
        }
    }

    // Effects and reports.

    fn affect(&mut self, slot: Slot) -> &mut Thread {
        let first = self.affected;
        if !self.thread(slot).pending.listed {
            self.affected = Some(slot);
            let pending = &mut self.thread_mut(slot).pending;
            pending.listed = true;
            pending.next = first;
        }
        self.thread_mut(slot)
    }

    pub fn wake(&mut self, slot: Slot) {
        self.affect(slot).pending.wake = true;
    }

    pub fn wake_all(&mut self) {
        for slot in self.slots() {
            let sleeps = self
                .get(slot)
                .is_some_and(|thread| thread.activity != Activity::Ended);
            if sleeps {
                self.wake(slot);
            }
        }
    }

    /// Wakes the thread of the next step; all when no step is left.
    pub fn wake_head(&mut self) {
        match self.head() {
            Some(step) => {
                if let Some(slot) = self.thread_of(step.thread) {
                    self.wake(slot);
                }
            }
            None => self.wake_all(),
        }
    }

    pub fn watch(&mut self, slot: Slot, watch: bool) {
        self.affect(slot).pending.watch = Some(watch);
    }

    pub fn gives_turn(&mut self, slot: Slot) {
        self.affect(slot).pending.gives_turn = true;
    }

    pub fn gets_turn(&mut self, slot: Slot) {
        self.affect(slot).pending.gets_turn = true;
    }

    pub fn lost_turn(&mut self, slot: Slot) {
        self.affect(slot).pending.lost_turn = true;
    }

    /// The next effect. Of one thread, giving the turn comes before waking: what the giver logs then
    /// stands before what the next one does.
    pub fn next_effect(&mut self) -> Option<Effect> {
        let slot = self.affected?;
        let pending = &mut self.thread_mut(slot).pending;
        if core::mem::take(&mut pending.gives_turn) {
            return Some(Effect::GivesTurn(slot));
        }
        if core::mem::take(&mut pending.lost_turn) {
            return Some(Effect::LostTurn(slot));
        }
        if let Some(watch) = pending.watch.take() {
            return Some(Effect::Watch(slot, watch));
        }
        if core::mem::take(&mut pending.gets_turn) {
            return Some(Effect::GetsTurn(slot));
        }
        let wake = core::mem::take(&mut pending.wake);
        pending.listed = false;
        let next = pending.next.take();
        self.affected = next;
        if wake {
            Some(Effect::Wake(slot))
        } else {
            self.next_effect()
        }
    }

    /// Whether two more lines fit: the caller of `complete` may add `Line::Followed` to its own.
    pub fn has_room_to_tell(&self) -> bool {
        self.lines[MOST_LINES - 2].is_none()
    }

    pub fn tell(&mut self, line: Line) {
        if let Some(place) = self.lines.iter_mut().find(|place| place.is_none()) {
            *place = Some(line);
        }
    }

    pub fn next_line(&mut self) -> Option<Line> {
        let first = self.lines[0].take();
        for at in 1..MOST_LINES {
            self.lines[at - 1] = self.lines[at].take();
        }
        first
    }
}
