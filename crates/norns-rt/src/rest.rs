//! The rest before the process ends: its other threads run on until they have ended too, sleep for
//! good, or a limit is over.
//!
//! Without it what they do is seen only if they are faster than the thread that ends the process, and
//! every run of the program sees something else. ThreadSanitizer rests for the same reason
//! (`atexit_sleep_ms`), always for its whole limit. The program cannot tell the rest from a schedule
//! in which the ending thread was slow: it comes before the exit handlers, and nothing has been torn
//! down yet.
//!
//! A replay does not rest: its schedule says who acts before the end (`control::threads`).

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::control::futex::{self, MONOTONIC};
use crate::control::kernel::{self, Wait};
use crate::control::serial;
use crate::mode::{Mode, mode};
use crate::{attach, record, thread};

/// The longest rest, in nanoseconds: that of ThreadSanitizer.
const LIMIT: i64 = 1_000_000_000;
/// Threads that wait for something from outside the process sleep for good when nothing has come for
/// so long.
const PATIENCE: i64 = 100_000_000;
const FIRST_PAUSE: i64 = 200_000;
const LONGEST_PAUSE: i64 = 10_000_000;

/// Only the first thread that ends the process rests; a second one, or an exit handler that calls
/// `exit`, goes on.
static RESTED: AtomicBool = AtomicBool::new(false);
static STILL_RUNNING: AtomicU32 = AtomicU32::new(0);

/// What the other threads were doing at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Look {
    threads: u32,
    /// Threads that run, or will wake up by themselves.
    running: u32,
    /// Threads that wait for what may come from outside the process.
    waiting_outside: u32,
    /// Changes when a thread has run in between.
    activity: u64,
}

fn look(own_id: i32) -> Look {
    let mut look = Look {
        threads: 0,
        running: 0,
        waiting_outside: 0,
        activity: 0,
    };
    kernel::each_thread(|id| {
        if id == own_id {
            return;
        }
        match kernel::wait(id) {
            Wait::Ended => return,
            Wait::None => look.running += 1,
            Wait::Outside => look.waiting_outside += 1,
            Wait::ForGood => {}
        }
        look.threads += 1;
        look.activity = look.activity.wrapping_add(kernel::activity(id));
    });
    look
}

/// How many threads still ran, or would have, when the rest was over, and exist even now: an exit
/// handler may have stopped some.
pub fn still_running() -> u32 {
    let after_rest = STILL_RUNNING.load(Ordering::Relaxed);
    if after_rest == 0 {
        return 0;
    }
    after_rest.min(look(thread::kernel_id()).threads)
}

/// The running thread is about to end the process.
pub fn before_exit() {
    let has_threads = match mode() {
        Mode::Record | Mode::RecordValues => record::started(),
        Mode::Detect => true,
        Mode::Off | Mode::Guard | Mode::Replay | Mode::ReplayDetect => false,
    };
    if !has_threads || attach::in_foreign_memory() || RESTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let still_running = if mode() == Mode::RecordValues {
        serial::rest(LIMIT) as u32
    } else {
        rest(thread::kernel_id())
    };
    STILL_RUNNING.store(still_running, Ordering::Relaxed);
}

/// How many threads still run when the rest is over.
fn rest(own_id: i32) -> u32 {
    let word = AtomicU32::new(0);
    let start = futex::now(MONOTONIC);
    let mut pause = FIRST_PAUSE;
    let mut last = look(own_id);
    let mut unchanged_since = start;
    while last.threads > 0 {
        futex::wait(&word, 0, Some(pause));
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        let now = futex::now(MONOTONIC);
        let next = look(own_id);
        if next != last {
            unchanged_since = now;
        }
        last = next;
        let patience = if last.waiting_outside > 0 {
            PATIENCE
        } else {
            1
        };
        if last.running == 0 && now - unchanged_since >= patience || now - start >= LIMIT {
            break;
        }
    }
    last.running
}

/// The child process after a fork has its own end.
pub fn forked() {
    RESTED.store(false, Ordering::Relaxed);
}

/// Where `main` really begins.
type Main = unsafe extern "C-unwind" fn(i32, *mut *mut u8, *mut *mut u8) -> i32;

#[cfg(not(test))]
mod exported {
    use core::ffi::{c_int, c_void};
    use core::sync::atomic::AtomicUsize;

    use super::{Main, Ordering, before_exit};
    use crate::mode::is_off;
    use crate::real;

    static MAIN: AtomicUsize = AtomicUsize::new(0);

    mod real_functions {
        use super::*;

        real! {
            fn __libc_start_main(main: Main, count: c_int, arguments: *mut *mut u8, init: *mut c_void, fini: *mut c_void, loader_fini: *mut c_void, stack_end: *mut c_void) -> c_int;
        }
    }

    /// Stands for `main`, whose return ends the process.
    unsafe extern "C-unwind" fn main(
        count: c_int,
        arguments: *mut *mut u8,
        variables: *mut *mut u8,
    ) -> c_int {
        // SAFETY: `__libc_start_main` stored the program's own `main` before it began.
        let main: Main = unsafe { core::mem::transmute(MAIN.load(Ordering::Relaxed)) };
        // SAFETY: the arguments are those that the C library passes to `main`.
        let status = unsafe { main(count, arguments, variables) };
        before_exit();
        status
    }

    /// What the entry point of every program calls, after the constructors of its libraries.
    #[unsafe(no_mangle)]
    unsafe extern "C-unwind" fn __libc_start_main(
        program: Main,
        count: c_int,
        arguments: *mut *mut u8,
        init: *mut c_void,
        fini: *mut c_void,
        loader_fini: *mut c_void,
        stack_end: *mut c_void,
    ) -> c_int {
        let begin = if is_off() { program } else { main };
        MAIN.store(program as usize, Ordering::Relaxed);
        // SAFETY: the arguments of the entry point, passed on.
        unsafe {
            real_functions::__libc_start_main(
                begin,
                count,
                arguments,
                init,
                fini,
                loader_fini,
                stack_end,
            )
        }
    }
}
