//! The entry point: who, and what happened to it; what it does next.

use norns_wire::Code;

use crate::board::{Board, Module, Schedule};
use crate::deadlock::all_blocked;
use crate::event::{Act, Answer, Happened, Operation, Stop, Turn, Waking};
use crate::operation::CONFIRMING_LOOK;
use crate::policy::hold::Hold;
use crate::policy::priorities::Priorities;
use crate::policy::replay::Replay;
use crate::policy::serial::{Point, Serial};
use crate::policy::{Decision, Policy};
use crate::thread::{Activity, Facts, HeadWait, Met, Slot, Stage, Then, Thread, Trying};

/// How often all threads must be seen blocked before that is a deadlock: a post of another process
/// is not seen before it is looked for.
const CONFIRMING_LOOKS: u32 = 3;
const EXPECTS_CANCELLATION: i64 = 300_000_000;

/// All decisions of one process. `'m` is how long its threads and its schedule live.
pub struct Core<'m> {
    pub(crate) board: Board<'m>,
    pub(crate) replay: Replay,
    pub(crate) hold: Hold,
    pub(crate) priorities: Option<Priorities>,
    pub(crate) serial: Serial,
}

impl<'m> Core<'m> {
    pub const fn new() -> Self {
        Core {
            board: Board::new(),
            replay: Replay,
            hold: Hold::new(),
            priorities: None,
            serial: Serial::OFF,
        }
    }

    /// Enforces this schedule.
    pub fn follow(&mut self, schedule: Schedule<'m>) {
        self.board.schedule = Some(schedule);
    }

    /// A module of the schedule lies at this address, which is another one than in the recorded process.
    pub fn module_moved(&mut self, module: &Module, start: usize) {
        self.board.module_moved(module, start);
    }

    /// Where an address of the schedule is now.
    pub fn now_at(&self, recorded: usize) -> usize {
        self.board.now_at(recorded)
    }

    /// Gives random priorities to threads that are added from now on; `points` is about how many
    /// scheduling points there will be.
    pub fn prioritise(&mut self, seed: u64, points: u64) {
        self.priorities = Some(Priorities::new(seed, points));
    }

    /// Lets one thread run at a time, first the main thread.
    pub fn serialise(&mut self, seed: u64) {
        self.serial = Serial::new(seed, Slot(0));
    }

    /// Serial mode: the program has made an object that other processes can use.
    pub fn shares_objects(&mut self) {
        self.serial.shared_objects = true;
    }

    /// Serial mode: how many threads besides this one could go on without it.
    pub fn able_to_go_on(&self, except: Slot) -> usize {
        let mut others = self.board.slots().filter(|slot| *slot != except);
        let able = |slot: &Slot| {
            let thread = self.board.get(*slot).filter(|thread| thread.alive);
            thread.is_some_and(|thread| thread.serial.ready || thread.serial.deadline != 0)
        };
        others.by_ref().filter(able).count()
    }

    /// The child process after a fork: its one thread is added again, as the main thread.
    pub fn forked(&mut self) {
        self.board.forget_threads();
        if self.serial.on {
            self.serial.forked(Slot(0));
        }
    }

    /// Adds a thread that runs already: the main thread, or one whose creation was not seen. False
    /// when its place is taken or there is none.
    pub fn add_running(&mut self, slot: Slot, thread: &'m mut Thread, name: &str) -> bool {
        self.add(slot, thread, name, Activity::Running, true)
    }

    /// Adds a thread that is about to be created.
    pub fn add_child(&mut self, slot: Slot, thread: &'m mut Thread, name: &str) -> bool {
        let activity = if self.serial.on {
            // It can run from the moment at which its creation is done: `Changes` on its number.
            Activity::Blocked {
                operation: Operation::new(Code::Start, slot.index(), 0),
                timed: false,
            }
        } else {
            Activity::Waits
        };
        let added = self.add(slot, thread, name, activity, false);
        self.board.started |= added;
        added
    }

    fn add(
        &mut self,
        slot: Slot,
        thread: &'m mut Thread,
        name: &str,
        activity: Activity,
        alive: bool,
    ) -> bool {
        thread.activity = activity;
        thread.alive = alive;
        let names = self
            .board
            .schedule
            .map_or(&[][..], |schedule| schedule.names);
        let number = names.iter().position(|other| *other == name);
        thread.scheduled = number.map(|number| number as u32);
        let mut steps = self.board.steps().iter();
        thread.last_step = steps.rposition(|step| Some(step.thread) == thread.scheduled);
        if let Some(priorities) = &mut self.priorities {
            thread.priority = priorities.of_new_thread();
        }
        let added = self.board.add(slot, thread);
        if added {
            // A thread may wait for one of this name.
            self.board.wake_head();
        }
        added
    }

    /// What `who` does next, now that this happened at this time of the monotonic clock.
    pub fn step(&mut self, who: Slot, what: Happened, now: i64) -> Act {
        self.board.now = now;
        if self.board.get(who).is_none() {
            return Act::Go(Turn::Free);
        }
        match what {
            Happened::Answers(answer) => {
                let facts = &mut self.board.thread_mut(who).facts;
                match answer {
                    Answer::AllAsleep(yes) => facts.all_asleep = Some(yes),
                    Answer::SignalCouldHelp(yes) => facts.signal_could_help = Some(yes),
                    Answer::ProcessorTime(time) => facts.processor_time = Some(time),
                    Answer::TurnHolder {
                        events,
                        asleep,
                        processor,
                    } => facts.turn_holder = Some((events, asleep, processor)),
                }
                return self.resume(who);
            }
            Happened::Again => return self.resume(who),
            _ => {}
        }
        self.board.thread_mut(who).facts = Facts::default();
        match what {
            Happened::Woke(waking) => self.woke(who, waking),
            Happened::Tried(tried) => match self.board.thread(who).stage {
                Stage::Tries(trying) => self.tried(who, trying, tried),
                _ => self.resume(who),
            },
            // What another thread does to this one, whatever stage it is in.
            Happened::Created | Happened::NotCreated | Happened::IsCancelled => {
                self.begin(who, what)
            }
            what => {
                self.abandon(who);
                self.begin(who, what)
            }
        }
    }

    /// Something that a thread does on its own, not as an answer.
    fn begin(&mut self, me: Slot, what: Happened) -> Act {
        let board = &mut self.board;
        match what {
            Happened::Arrives(operation, how) => return self.arrive(me, operation, how),
            Happened::Completes => board.complete_by(me),
            Happened::CompletesAtomic {
                address,
                pc,
                succeeded,
            } => return self.complete_atomic(me, address, pc, succeeded),
            Happened::Changes(object) => self.change(object),
            Happened::Takes { lock, pc, mode } => {
                board.thread_mut(me).held.take(lock, pc, mode);
            }
            Happened::Releases(lock) => board.release(me, lock),
            Happened::Signals { condition, all } => board.signal(condition, all),
            Happened::BeginsWait { condition } => board.begin_wait(me, condition),
            Happened::EndsWait => {
                let thread = board.thread_mut(me);
                thread.condition = 0;
                thread.signalled = false;
            }
            Happened::ExpectsCancellation if !self.serial.on => {
                let until = board.now + EXPECTS_CANCELLATION;
                let met = Met::FailedWait;
                board.thread_mut(me).stage = Stage::Cancellation { until, met };
                return self.resume(me);
            }
            Happened::Passes { pc, address, reads } => {
                board.comes_to(me, pc, address, reads);
                board.finish_write(me);
            }
            Happened::Writes { address, size } => {
                board.finish_write(me);
                board.begin_write(me, address, size);
            }
            Happened::Accesses(access) => return self.access(me, access),
            Happened::LingersBeforeLock { pc } => {
                self.hold.lingers_before_lock(board, me, pc);
                return self.resume(me);
            }
            Happened::Created => {
                let thread = board.thread_mut(me);
                if thread.activity == Activity::Waits {
                    thread.activity = Activity::Running;
                }
            }
            Happened::NotCreated => board.thread_mut(me).activity = Activity::Ended,
            Happened::Begins => {
                board.thread_mut(me).alive = true;
                if self.serial.on {
                    let thread = board.thread_mut(me);
                    thread.activity = Activity::Running;
                    return self.want_turn(me);
                }
            }
            Happened::Ends => self.end(me),
            Happened::IsCancelled => self.cancel(me),
            Happened::EndsProcess if !self.serial.on => {
                board.finish_access(me);
                self.hold.begin_end(board, me);
                return self.resume(me);
            }
            Happened::WantsTurn
                if self.serial.on && board.started && !self.serial.is_turn_of(me) =>
            {
                return self.want_turn(me);
            }
            Happened::Yields { ran_for } if self.serial.on => {
                self.serial.run_for(ran_for);
                if self.serial.must_wait_at(board, me, Point::LetsOthersGo) {
                    self.serial.wait_for_turn(board, me, Then::Goes);
                    return self.resume(me);
                }
            }
            Happened::Leaves if self.serial.on && board.started && self.serial.is_turn_of(me) => {
                self.serial.leave(board, me);
                self.serial.pass_on(board);
                return Act::Go(Turn::Succeeds);
            }
            Happened::Sleeps { duration, until } if self.serial.on => {
                return self.sleep(me, duration, until);
            }
            // `abandon` has done it; or it belongs to the other mode.
            _ => {}
        }
        Act::Go(Turn::Free)
    }

    /// What a thread that is in some stage does next.
    pub(crate) fn resume(&mut self, me: Slot) -> Act {
        let board = &mut self.board;
        let stage = board.thread(me).stage;
        let decided = match stage {
            Stage::Outside => return Act::Go(Turn::Free),
            Stage::Tries(_) => return Act::Try,
            Stage::Blocked => return self.blocked(me),
            Stage::Confirms { .. } => return Act::Sleep(Some(CONFIRMING_LOOK)),
            Stage::TestsCancel { then } => return self.unblocked(me, then),
            Stage::SleepsOut { until, then } => return self.sleep_out(me, until, then),
            Stage::Yields { .. } => match &mut self.priorities {
                Some(priorities) => priorities.decide(board, me),
                None => Ok(Decision::Go(Turn::Free)),
            },
            Stage::Turn(_) | Stage::AccessTurn(..) | Stage::Cancellation { .. } => {
                self.replay.decide(board, me)
            }
            Stage::Hunts(..)
            | Stage::Holds(..)
            | Stage::WatchesReader { .. }
            | Stage::LingersBeforeLock(_)
            | Stage::EndsProcess { .. } => self.hold.decide(board, me),
            Stage::SerialTurn { .. } => self.serial.decide(board, me),
        };
        match decided {
            Err(question) => Act::Ask(question),
            Ok(Decision::Sleep(nap)) => Act::Sleep(nap),
            Ok(Decision::Again) => Act::Again,
            Ok(Decision::Stop(stop)) => Act::Stop(stop),
            Ok(Decision::Go(turn)) => self.go(me, stage, turn),
        }
    }

    /// The policy of a stage lets the thread go: what follows.
    fn go(&mut self, me: Slot, stage: Stage, turn: Turn) -> Act {
        match stage {
            Stage::Yields { .. } => {
                self.board.thread_mut(me).stage = Stage::Turn(HeadWait::default());
                self.resume(me)
            }
            Stage::AccessTurn(access, _) => self.accessing(me, access),
            // The stage may have become a wait for a cancellation in between.
            Stage::Turn(_)
            | Stage::Cancellation {
                met: Met::AnotherOperation,
                ..
            } => self.turn_came(me, turn),
            Stage::SerialTurn { then, .. } => match then {
                Then::Goes => self.leave(me, Turn::Free),
                Then::Operates => self.turn_came(me, Turn::Free),
                Then::Unblocks | Then::Sleeps => self.has_turn_again(me, then),
            },
            _ => self.leave(me, turn),
        }
    }

    /// The thread goes back to the program.
    pub(crate) fn leave(&mut self, me: Slot, turn: Turn) -> Act {
        self.board.thread_mut(me).stage = Stage::Outside;
        Act::Go(turn)
    }

    fn woke(&mut self, me: Slot, waking: Waking) -> Act {
        let board = &mut self.board;
        let thread = board.thread_mut(me);
        match thread.stage {
            Stage::Blocked => {
                thread.activity = Activity::Running;
                return self.attempt(me, Trying::Free);
            }
            Stage::Confirms { looks, progress } => {
                if board.progress != progress || !all_blocked(board) {
                    board.thread_mut(me).activity = Activity::Running;
                    return self.attempt(me, Trying::Free);
                }
                let looks = looks + 1;
                if looks == CONFIRMING_LOOKS {
                    return Act::Stop(Stop::Stuck);
                }
                board.thread_mut(me).stage = Stage::Confirms { looks, progress };
            }
            Stage::SerialTurn { then, watches, .. } => {
                let serial = &mut thread.serial;
                if waking == Waking::Interrupted && serial.interruptible && !serial.ready {
                    serial.interrupted = true;
                    serial.ready = true;
                }
                thread.stage = Stage::SerialTurn {
                    then,
                    watches,
                    slept: Some(waking),
                };
            }
            _ => {}
        }
        self.resume(me)
    }

    fn end(&mut self, me: Slot) {
        let thread = self.board.thread_mut(me);
        thread.activity = Activity::Ended;
        thread.alive = false;
        self.board.complete_by(me);
        self.change(me.index());
        if self.serial.on {
            self.serial.thread_ended(&mut self.board, me);
        }
    }

    fn cancel(&mut self, slot: Slot) {
        if self.serial.on {
            return self.serial.is_cancelled(&mut self.board, slot);
        }
        let thread = self.board.thread_mut(slot);
        thread.cancelled = true;
        if matches!(thread.activity, Activity::Blocked { .. }) {
            thread.activity = Activity::Running;
        }
        self.board.wake(slot);
    }

    /// The thread has left its stage in a way that the core was not told: a signal handler jumped
    /// out of it, or the thread was cancelled there.
    fn abandon(&mut self, me: Slot) {
        let thread = self.board.thread_mut(me);
        if thread.stage == Stage::Outside {
            return;
        }
        thread.stage = Stage::Outside;
        thread.activity = Activity::Running;
        thread.serial.interruptible = false;
        self.hold.abandon(&mut self.board, me);
    }
}

impl Default for Core<'_> {
    fn default() -> Self {
        Self::new()
    }
}
