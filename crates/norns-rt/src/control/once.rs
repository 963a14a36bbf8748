//! `pthread_once`, `call_once` and the guards of C++ static variables in replay: the core knows
//! which initialisers run.

use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, Ordering};

use norns_control::{Happened, How, Once, Tried};

use super::monitor::{Guard, MONITOR};
use super::operations::{note, operation};
use super::thread::Inside;
use super::{enter, is_replaying, serial, with_clocks};
use crate::interpose::repeats_once;
use crate::mode::is_serial;
use crate::wire::{Code, object};

/// What a thread that calls `once` has to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Run the initialiser, then call `end`.
    Run,
    /// It has run.
    Pass,
}

/// Asks to run the initialiser of `word`. `done` knows the values of the C library. In a recording
/// with values the C library runs the initialiser of a `pthread_once`, since that may throw.
/// In replay; `None` when the caller uses the real function.
///
/// # Safety
/// `word` is the word of a once or of a guard.
pub unsafe fn begin(
    word: *mut c_void,
    done: fn(i32) -> bool,
    is_guard: bool,
    pc: usize,
) -> Option<Call> {
    if !is_replaying() {
        return None;
    }
    let mut inside = enter()?;
    let address = word as usize;
    // SAFETY: the caller's promise; the word is at least four bytes, aligned.
    let state = unsafe { AtomicI32::from_ptr(word.cast()) };
    let real_runs = is_serial() && !is_guard;
    let mut answer = Call::Pass;
    let mut has_room = true;
    let mut guard = MONITOR.lock();
    let begin = operation(Code::OnceBegin, word, pc);
    let how = How::Tried { deadline: None };
    guard.attempt(&mut inside, Happened::Arrives(begin, how), |guard| {
        let is_done = done(state.load(Ordering::Acquire));
        let runs_elsewhere = real_runs && serial::once_runs(address);
        match guard.try_once(address, is_done, runs_elsewhere) {
            Once::Wait => {
                if real_runs {
                    serial::awaits_once();
                }
                return Tried::Busy;
            }
            Once::Pass => answer = Call::Pass,
            Once::Run => {
                answer = Call::Run;
                has_room = real_runs || guard.run_once(address);
            }
        }
        Tried::Over
    });
    drop(guard);
    match answer {
        // So many at once: the C library keeps them apart.
        Call::Run if !has_room => return None,
        Call::Pass => note(Code::OncePass, object::ONCE, word, pc),
        Call::Run if real_runs => return None,
        Call::Run => {
            if repeats_once(address) {
                repeat(&mut inside, word, pc);
            }
            note(Code::OnceBegin, object::ONCE, word, pc);
        }
    }
    if answer == Call::Pass {
        with_clocks(inside.own(), |detector, thread| {
            detector.acquire(thread, address);
        });
    }
    Some(answer)
}

/// The attempt that begins now follows one that failed. It has had its turn to pass that one, and
/// waits for another one to begin.
fn repeat(inside: &mut Inside, word: *mut c_void, pc: usize) {
    note(Code::OncePass, object::ONCE, word, pc);
    note(Code::Init, object::ONCE, word, pc);
    with_clocks(inside.own(), |detector, thread| {
        detector.acquire(thread, word as usize);
    });
    if !is_serial() {
        let begin = operation(Code::OnceBegin, word, pc);
        let mut guard = MONITOR.lock();
        guard.drive(inside, Happened::Arrives(begin, How::AtItsTurn));
        guard.note(inside.block.slot(), Happened::Completes);
    }
}

/// The initialiser was left by an exception or a cancellation: another thread may begin it.
pub fn failed(word: *mut c_void, pc: usize) {
    let _ = finish_with(word, pc, |guard| guard.forget_once(word as usize), || ());
}

/// The word of a guard says now that its initialiser has ended, which `guard_end` told before.
pub fn guard_stored(word: *mut c_void) {
    let Some(_inside) = enter() else { return };
    MONITOR.lock().forget_once(word as usize);
}

/// The initialiser has run: `finish` makes the word say so.
pub fn end(word: *mut c_void, pc: usize, finish: impl FnOnce()) {
    let ended = finish_with(word, pc, |guard| guard.forget_once(word as usize), finish);
    if let Err(finish) = ended {
        finish();
    }
}

/// The initialiser of a guard has run. That its word says so is an atomic store, with a turn of
/// its own; who comes before it must neither wait nor run the initialiser again.
pub fn guard_end(word: *mut c_void, pc: usize) {
    let told = |guard: &mut Guard| guard.once_ended_before_store(word as usize);
    let _ = finish_with(word, pc, told, || ());
}

/// Gives `finish` back when this thread is inside the runtime.
fn finish_with<F: FnOnce()>(
    word: *mut c_void,
    pc: usize,
    told: impl FnOnce(&mut Guard),
    finish: F,
) -> Result<(), F> {
    let Some(mut inside) = enter() else {
        return Err(finish);
    };
    let me = inside.block.slot();
    let mut guard = MONITOR.lock();
    let ends = operation(Code::OnceEnd, word, pc);
    guard.drive(&mut inside, Happened::Arrives(ends, How::AtItsTurn));
    with_clocks(inside.own(), |detector, thread| {
        detector.release_join(thread, word as usize);
    });
    note(Code::OnceEnd, object::ONCE, word, pc);
    finish();
    told(&mut guard);
    guard.note(me, Happened::Completes);
    guard.note(me, Happened::Changes(word as usize));
    Ok(())
}
