//! Who waits for whom: cycles of lock holders, and the state in which nobody runs.
//!
//! Both are facts at the moment of asking: the monitor's lock is held, a blocked thread is one
//! whose last attempt failed and whose object has not changed since, and a lock is in the list of
//! its holder from after it was got to before it is given back. Threads whose wait ends by a
//! time-out take part in neither.

use super::kernel;
use super::monitor::State;
use super::output::tell;
use super::thread::{Activity, ControlThread};
use crate::sys;
use crate::wire::Code;
use crate::wire::report::{Message, Shape};

const LONGEST: usize = 256;

fn blocked_on_lock(thread: &ControlThread) -> Option<usize> {
    match thread.activity {
        Activity::Blocked {
            operation,
            timed: false,
        } if matches!(operation.code, Code::Lock | Code::ReadLock) => Some(operation.address),
        _ => None,
    }
}

/// Whether `me` waits for a lock whose holder waits, and so on, back to `me`.
pub fn find_cycle(state: &State, me: &ControlThread) -> bool {
    let mut path = [0u32; LONGEST];
    search(state, me.number, me, &mut path, 0).is_some()
}

/// Depth-first over holders; on success `path` has the numbers of the threads of the cycle.
fn search(
    state: &State,
    goal: u32,
    thread: &ControlThread,
    path: &mut [u32; LONGEST],
    depth: usize,
) -> Option<usize> {
    let object = blocked_on_lock(thread)?;
    if depth == LONGEST || path[..depth].contains(&thread.number) {
        return None;
    }
    path[depth] = thread.number;
    for holder in state.threads() {
        if !holder.held().iter().any(|held| held.address == object) {
            continue;
        }
        if holder.number == goal {
            return Some(depth + 1);
        }
        if let Some(length) = search(state, goal, holder, path, depth + 1) {
            return Some(length);
        }
    }
    None
}

/// Whether every thread of the program is ended or waits, without a time-out, for another.
pub fn all_blocked(state: &State) -> bool {
    state.threads().all(|thread| {
        matches!(
            thread.activity,
            Activity::Ended | Activity::Blocked { timed: false, .. }
        )
    })
}

/// Whether the thread sleeps in the kernel, in a wait that the monitor does not know and that only
/// another thread can end: of a library of its own, such as that of C++ for futures.
fn is_asleep(thread: &ControlThread) -> bool {
    matches!(thread.activity, Activity::Running)
        && !thread.runtime.is_null()
        && kernel::sleeps_on_futex(kernel::id(thread))
        // In this order: a thread that sleeps before the monitor, which is locked, stays inside.
        // SAFETY: the field of a block that is never given back.
        && unsafe { (&raw const thread.inside).read_volatile() } == 0
}

/// Whether no thread goes on before one that is held does, or the schedule's next step is done.
/// The kernel is asked about threads that seem to run, one after the other: threads that wait for
/// each other in turn, as for a lock of the C library, can look as if all slept. Who concludes
/// from it asks again (`ASLEEP_LOOKS`).
pub fn nobody_runs(state: &State) -> bool {
    let next = state.head().map(|step| step.thread);
    let stopped = |thread: &ControlThread| match thread.activity {
        Activity::Ended | Activity::Held | Activity::Blocked { timed: false, .. } => true,
        Activity::Blocked { timed: true, .. } => false,
        Activity::AtPoint | Activity::Waits => {
            let is_next = next == thread.scheduled && !thread.runtime.is_null();
            next.is_some() && !is_next
        }
        Activity::Running => is_asleep(thread),
    };
    state.threads().all(|thread| stopped(thread)) && !a_signal_could_help()
}

/// How often nobody must be seen to run, and nanoseconds between two looks.
pub const ASLEEP_LOOKS: u32 = 4;
pub const ASLEEP_LOOK: i64 = 20_000_000;

/// Whether a handler of the program could still run and end a wait: signals that a thread only
/// sends to itself (a fault, an abort) do not count.
pub fn a_signal_could_help() -> bool {
    const RT_SIGACTION: usize = 13;
    const OWN_FAULTS: [usize; 7] = [4, 5, 6, 7, 8, 11, 31];
    (1..65)
        // The C library keeps 32 and 33 for itself.
        .filter(|signal| !OWN_FAULTS.contains(signal) && !(32..34).contains(signal))
        .any(|signal| {
            let mut action = [0_usize; 4];
            // SAFETY: with no new action the call only fills the old one: handler, flags,
            // restorer and a mask of 8 bytes.
            let result = unsafe {
                sys::call6(
                    RT_SIGACTION,
                    signal,
                    0,
                    action.as_mut_ptr() as usize,
                    8,
                    0,
                    0,
                )
            };
            // 0 is the default, 1 is ignored.
            result == 0 && action[0] > 1
        })
}

pub fn tell_cycle(state: &State, me: &ControlThread) {
    let mut path = [0u32; LONGEST];
    let length = search(state, me.number, me, &mut path, 0).unwrap_or(0);
    tell(Message::Deadlock {
        shape: Shape::Cycle,
        threads: length as u32,
    });
    for number in &path[..length] {
        if let Some(thread) = state.threads().find(|thread| thread.number == *number) {
            tell_thread(state, thread);
        }
    }
    tell(Message::DeadlockEnd);
}

pub fn tell_stuck(state: &State) {
    let blocked = || {
        state
            .threads()
            .filter(|thread| matches!(thread.activity, Activity::Blocked { .. }))
    };
    tell(Message::Deadlock {
        shape: Shape::Stuck,
        threads: blocked().count() as u32,
    });
    blocked().for_each(|thread| tell_thread(state, thread));
    tell(Message::DeadlockEnd);
}

fn tell_thread(state: &State, thread: &ControlThread) {
    let Activity::Blocked { operation, .. } = thread.activity else {
        return;
    };
    super::with_stack(thread, |stack| {
        tell(Message::Waits {
            thread: thread.path.as_str(),
            code: operation.code,
            object: operation.address as u64,
            pc: operation.pc as u64,
            stack,
        });
    });
    if operation.code == Code::Join
        && let Some(child) = state
            .threads()
            .find(|thread| thread.number as usize == operation.address)
    {
        tell(Message::HeldBy {
            thread: child.path.as_str(),
            object: operation.address as u64,
            pc: 0,
        });
    }
    for holder in state.threads() {
        for held in holder.held() {
            if held.address == operation.address {
                tell(Message::HeldBy {
                    thread: holder.path.as_str(),
                    object: held.address as u64,
                    pc: held.pc as u64,
                });
            }
        }
    }
}
