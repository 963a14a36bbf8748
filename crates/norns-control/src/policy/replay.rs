//! Follows a schedule: every step waits until all steps before it are done.
//!
//! Before the first thread is created, and after the last step, the program runs free. A program
//! that cannot follow is stopped where that is certain: the thread of the next step has come to
//! something else, has ended, is blocked, or sleeps where only another thread could wake it while
//! no other thread can go on. It is also stopped when that thread has slept, or polled variables, for about
//! as long as the recorded run took.
//!
//! A schedule has the steps that its bug needs as far as synchronisation tells. A thread can need
//! more: it polls a plain variable that a thread without any step sets. So when the next step does
//! not come, the threads that have none left run on, outside the schedule, and only if it does not
//! come then either is it given up.
//!
//! A schedule of custom events only binds nothing else: the thread of the next step may be blocked until
//! another one, which runs free, lets it go on.

use norns_wire::Code;
use norns_wire::report::Why;
use norns_wire::schedule::{Step, What};

use super::patience::{IDLE_LOOKS, OUTSIDERS_LOOKS, OUTSIDERS_WAIT, idle_looks, standstill};
use super::{Decision, Policy};
use crate::board::Board;
use crate::deadlock::{ASLEEP_LOOK, ASLEEP_LOOKS, nobody_runs_if_asleep};
use crate::event::{Access, Diverged, Line, Operation, Question, Stop, Turn};
use crate::spin::overlap;
use crate::thread::{Activity, HeadWait, Met, Slot, Stage};

/// How often a sleeping thread looks again at what it waits for, in nanoseconds: another process or
/// a signal handler may have changed it unseen.
pub const LOOK_AGAIN: i64 = 100_000_000;
/// How long to wait for a cancellation, which is not a scheduling point and so may come late.
const CANCELLED_IN: i64 = 300_000_000;
const LOOK_FOR_CANCELLATION: i64 = 5_000_000;

pub struct Replay;

impl Policy for Replay {
    fn decide(&mut self, board: &mut Board, me: Slot) -> Result<Decision, Question> {
        match board.thread(me).stage {
            Stage::Turn(wait) => turn(board, me, wait),
            Stage::AccessTurn(access, wait) => access_turn(board, me, access, wait),
            Stage::Cancellation { until, met } => Ok(cancellation(board, me, until, met)),
            _ => Ok(Decision::Go(Turn::Free)),
        }
    }
}

/// Waits until the schedule lets the thread do the operation that it has come to.
fn turn(board: &mut Board, me: Slot, wait: HeadWait) -> Result<Decision, Question> {
    if board.is_outside(me) {
        return Ok(Decision::Go(Turn::Free));
    }
    let operation = board.thread(me).operation;
    while !board.is_free() && board.is_turn_of(me) {
        let Some(step) = board.head() else { break };
        if matches!(step.what, What::Access { .. }) {
            // The thread went past this access by another way.
            if !board.has_room_to_tell() {
                return Ok(Decision::Again);
            }
            board.tell(Line::Skipped {
                thread: me,
                event: step.event,
            });
            board.complete();
            continue;
        }
        if matches(board, step, &operation) {
            let turn = if fails(step) {
                Turn::Fails
            } else {
                Turn::Succeeds
            };
            return Ok(Decision::Go(turn));
        }
        if operation.is_cancellation_point() {
            let until = board.now + CANCELLED_IN;
            let met = Met::AnotherOperation;
            board.thread_mut(me).stage = Stage::Cancellation { until, met };
            return Ok(cancellation(board, me, until, met));
        }
        return Ok(diverged(me, Some(operation), Why::AnotherOperation));
    }
    if board.is_free() {
        return Ok(Decision::Go(Turn::Free));
    }
    wait_for_head(board, me, wait, Stage::Turn)
}

/// Waits for the turn of an access. An access has no point of its own: it is done at the thread's
/// next hook.
fn access_turn(
    board: &mut Board,
    me: Slot,
    access: Access,
    wait: HeadWait,
) -> Result<Decision, Question> {
    if board.head().is_none() {
        return Ok(Decision::Go(Turn::Free));
    }
    if board.is_turn_of(me) {
        board.thread_mut(me).pending_access = true;
        return Ok(Decision::Go(Turn::Succeeds));
    }
    wait_for_head(board, me, wait, |wait| Stage::AccessTurn(access, wait))
}

/// Whether the next step of the thread is this access.
pub fn is_next_access(board: &Board, me: Slot, access: &Access) -> bool {
    board.next_step_of(me).is_some_and(|step| {
        matches!(step.what, What::Access { size, write } if write == access.write
            && overlap(board.now_at(step.address as usize), size as usize, access.address, access.size))
            && board.now_at(step.pc as usize) == access.pc
    })
}

/// Waits for another thread to cancel this one.
fn cancellation(board: &Board, me: Slot, until: i64, met: Met) -> Decision {
    let thread = board.thread(me);
    if thread.cancelled {
        return Decision::Go(Turn::Cancelled);
    }
    if board.now < until {
        return Decision::Sleep(Some(LOOK_FOR_CANCELLATION));
    }
    match met {
        Met::FailedWait => Decision::Go(Turn::Free),
        Met::AnotherOperation => diverged(me, Some(thread.operation), Why::AnotherOperation),
    }
}

/// Waits for a step that is another thread's. If that cannot come, the schedule is given up.
/// `stage` makes the stage that the thread is in from what is remembered between two looks.
pub fn wait_for_head(
    board: &mut Board,
    me: Slot,
    wait: HeadWait,
    stage: impl Fn(HeadWait) -> Stage,
) -> Result<Decision, Question> {
    let (wait, decision) = look_at_head(board, me, wait)?;
    board.thread_mut(me).stage = stage(wait);
    Ok(decision)
}

/// Looks whether the next step can come: what to remember until the next look, and how long to sleep
/// until then or why to give the schedule up.
pub fn look_at_head(
    board: &mut Board,
    me: Slot,
    mut wait: HeadWait,
) -> Result<(HeadWait, Decision), Question> {
    let mut nap = ASLEEP_LOOK;
    let is_the_same = wait.cursor == Some(board.cursor);
    if is_the_same && nobody_runs(board, me)? {
        wait.looks += 1;
        if wait.looks == ASLEEP_LOOKS {
            if !board.outsiders_wait() {
                return Ok((wait, give_head_up(board)));
            }
            board.let_outsiders_run();
            wait = HeadWait::default();
        }
    } else {
        if let Some(stop) = check_head(board) {
            return Ok((wait, stop));
        }
        let head = board.head().and_then(|step| board.thread_of(step.thread));
        wait = HeadWait {
            cursor: Some(board.cursor),
            looks: 0,
            since: if is_the_same { wait.since } else { board.now },
            idle: if is_the_same { wait.idle } else { 0 },
        };
        if let Some(head) = head {
            let outsiders_wait = board.outsiders_wait();
            let (patience, most) = if outsiders_wait {
                (OUTSIDERS_WAIT, OUTSIDERS_LOOKS)
            } else {
                (standstill(board), IDLE_LOOKS)
            };
            wait.idle = idle_looks(board, me, head, (wait.since, patience), wait.idle)?;
            // A loop may be watched as late as that: watching slows the thread down.
            let is_late = board.now - wait.since >= OUTSIDERS_WAIT;
            let polls = is_late && board.head_only_reads_for(head) >= patience;
            let is_in_vain = wait.idle >= most || polls;
            if is_in_vain && outsiders_wait {
                board.let_outsiders_run();
                wait = HeadWait::default();
            } else if is_in_vain {
                return Ok((wait, diverged(head, None, Why::DoesNotCome)));
            }
        }
        // All that wait look together often enough.
        nap = LOOK_AGAIN * (1 + board.count() as i64 / 16);
    }
    Ok((wait, Decision::Sleep(Some(nap))))
}

/// Whether no thread goes on before one that is held does, or the schedule's next step is done.
pub fn nobody_runs(board: &Board, me: Slot) -> Result<bool, Question> {
    if !nobody_runs_if_asleep(board) {
        return Ok(false);
    }
    let facts = board.thread(me).facts;
    facts.all_asleep.ok_or(Question::AllAsleep)
}

/// The next step can never be done when its thread has ended, or is blocked outside the schedule.
fn check_head(board: &Board) -> Option<Decision> {
    let slot = board.thread_of(board.head()?.thread)?;
    match board.thread(slot).activity {
        Activity::Ended => Some(diverged(slot, None, Why::HasEnded)),
        Activity::Blocked { operation, .. } if !board.binds_only_events() => {
            Some(diverged(slot, Some(operation), Why::IsBlocked))
        }
        _ => None,
    }
}

/// The next step can never be done: its thread was not created, or sleeps where the core does not
/// see it, and no other thread goes on.
fn give_head_up(board: &Board) -> Decision {
    let scheduled = board.head().map_or(u32::MAX, |step| step.thread);
    let slot = board.thread_of(scheduled);
    match slot.map(|slot| (slot, board.thread(slot).activity)) {
        Some((slot, Activity::Running)) => diverged(slot, None, Why::Sleeps),
        Some((slot, Activity::Blocked { operation, .. })) => {
            diverged(slot, Some(operation), Why::IsBlocked)
        }
        _ => Decision::Stop(Stop::Diverged(Diverged {
            thread: Err(scheduled),
            operation: None,
            why: Why::NotCreated,
        })),
    }
}

pub fn diverged(thread: Slot, operation: Option<Operation>, why: Why) -> Decision {
    Decision::Stop(Stop::Diverged(Diverged {
        thread: Ok(thread),
        operation,
        why,
    }))
}

/// Whether the compare-exchange at the head of the schedule went the other way.
pub fn exchange_differs(board: &Board, succeeded: bool) -> Option<u8> {
    match board.head()?.what {
        What::Atomic(kind) if (kind == FAILED_EXCHANGE) == succeeded => Some(kind),
        _ => None,
    }
}

const FAILED_EXCHANGE: u8 = 3;

fn matches(board: &Board, step: &Step, operation: &Operation) -> bool {
    // A library that is not instrumented may lie elsewhere unseen, but not at another offset within a page.
    const PAGE: usize = 4095;
    let same_place = step.pc == 0 || (step.pc as usize ^ operation.pc) & PAGE == 0;
    let numbers_a_thread = matches!(operation.code, Code::Fork | Code::Join);
    let same_object = step.address == 0
        || numbers_a_thread
        || board.now_at(step.address as usize) == operation.address;
    same_place && same_object && is_of_kind(step, operation)
}

fn is_of_kind(step: &Step, operation: &Operation) -> bool {
    match step.what {
        What::Point(code) => {
            let failed = match operation.code {
                Code::Lock => Code::FailedLock,
                Code::ReadLock => Code::FailedReadLock,
                Code::SemWait => Code::FailedSemWait,
                Code::Wait => Code::FailedWait,
                Code::Join => Code::FailedJoin,
                same => same,
            };
            // Whether a once runs or passes is seen when its turn has come.
            let passes = operation.code == Code::OnceBegin && code == Code::OncePass as u8;
            let may_fail = operation.may_fail || operation.fails_by_cancel;
            passes || code == operation.code as u8 || may_fail && code == failed as u8
        }
        What::Atomic(kind) => {
            operation.code == Code::Atomic
                && (kind == operation.atomic || kind == FAILED_EXCHANGE && operation.may_fail)
        }
        What::Access { .. } => false,
    }
}

/// Whether the schedule says that the operation fails.
fn fails(step: &Step) -> bool {
    let failed = [
        Code::FailedLock,
        Code::FailedReadLock,
        Code::FailedSemWait,
        Code::FailedWait,
        Code::FailedJoin,
    ];
    matches!(step.what, What::Point(code) if failed.iter().any(|f| *f as u8 == code))
}
