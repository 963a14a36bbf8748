//! How the program fails, as an event of a recording that looks for the cause (`NORNS_SKETCH`).
//!
//! The event is logged by whoever comes first: the interposed `__assert_fail` and `abort`, or the
//! handler of a fatal signal, which then lets the signal do what it does by default. A program that
//! has its own handler for the signal keeps it. A thread whose stack is full handles the signal on another
//! one. A thread that fails inside the recorder leaves no event.

use core::ffi::{c_char, c_int};
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::mode::{self, is_serial};
use crate::record::noise;
use crate::record::values::{self, Sketched};
use crate::sites::Words;
use crate::thread::{self, Thread};
use crate::wire::Code;
use crate::wire::environment::{self, FAILURE, Failing, Sketching};
use crate::{sys, track};

static ON: AtomicBool = AtomicBool::new(false);
/// The thread that has failed, plus one: its later failures follow from the first.
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Failures are of interest from now on.
pub fn watch() {
    ON.store(true, Ordering::Relaxed);
}

/// The program calls a function of the C library that is interposed, and may fail inside it.
#[inline(always)]
pub fn called_from(pc: usize) {
    if is_watched() {
        note_call(pc);
    }
}

#[cold]
fn note_call(pc: usize) {
    if track::is_code_of_program(pc)
        && let Some(thread) = thread::current()
    {
        thread.called_from = pc;
    }
}

/// Bytes of the stack for the handler of fatal signals.
const SIGNAL_STACK: usize = 64 * 1024;

/// Gives the running thread a stack for the handler of fatal signals. The program may replace it by its own.
pub fn begin_thread(thread: &mut Thread) {
    const SIGALTSTACK: usize = 131;
    #[repr(C)]
    struct Stack {
        start: *mut u8,
        flags: c_int,
        size: usize,
    }
    if !is_watched() {
        return;
    }
    if thread.signal_stack.is_null() {
        thread.signal_stack = sys::map_anonymous(SIGNAL_STACK);
    }
    if thread.signal_stack.is_null() {
        return;
    }
    let stack = Stack {
        start: thread.signal_stack,
        flags: 0,
        size: SIGNAL_STACK,
    };
    // SAFETY: the kernel reads `stack`. Its memory is this thread's as long as it has its block.
    unsafe { sys::call(SIGALTSTACK, &raw const stack as usize, 0, 0) };
}

/// A child process may fail without anybody looking.
pub fn forget() {
    ON.store(false, Ordering::Relaxed);
}

/// Whether the recording looks for the cause of failures.
pub fn is_watched() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Reads the environment; whether this is one of the recordings that look for a cause.
///
/// # Safety
/// `variables` is what the C library hands to constructors.
pub unsafe fn begin(variables: *const *const c_char, seed: u64) -> bool {
    // SAFETY: the caller promises the environment.
    let value = unsafe { mode::variable(variables, environment::SKETCH) };
    let text = value.and_then(|value| core::str::from_utf8(value).ok());
    let Some(Sketching { stretch }) = text.and_then(Sketching::parse) else {
        return false;
    };
    watch();
    values::SKETCHED.begin(stretch, seed);
    true
}

/// The running thread fails; `detail` is the second field of the event.
pub fn fails(how: Failing, detail: &[u8], address: usize, pc: usize) {
    if !is_watched() {
        return;
    }
    let Some(thread) = thread::current() else {
        return;
    };
    if FAILED
        .compare_exchange(
            0,
            u64::from(thread.number) + 1,
            Ordering::Relaxed,
            Ordering::Relaxed,
        )
        .is_err()
    {
        return;
    }
    note(thread, how, detail, address, pc);
}

fn note(thread: &mut Thread, how: Failing, detail: &[u8], address: usize, pc: usize) {
    if track::is_on() {
        return track::fails(how, detail, address, pc);
    }
    let mut words = Words::new();
    let _ = write!(words, "{FAILURE}\0{}\0", how.word());
    detail.iter().for_each(|byte| words.put(*byte));
    let _ = write!(words, "\0{address:#x}\0");
    if is_serial() && !thread.in_recorder() {
        thread.settle();
    }
    let pc = thread.values.hook_pc(pc);
    thread.log_bytes(Code::Custom, pc, 0, words.bytes());
}

/// The running thread calls `exit`. What comes after it explains nothing.
pub fn exits(status: c_int, pc: usize) {
    if !is_watched() || status == 0 {
        return;
    }
    let mut number = Words::new();
    let _ = write!(number, "{status}");
    if let Some(thread) = thread::current() {
        note(thread, Failing::Exit, number.bytes(), 0, pc);
    }
}

/// A fatal signal has come, for which the program has no handler.
pub fn signalled(signal: c_int, address: usize, pc: usize) {
    let mut number = Words::new();
    let _ = write!(number, "{signal}");
    fails(Failing::Signal, number.bytes(), address, pc);
}

impl Sketched {
    fn begin(&self, stretch: u32, seed: u64) {
        self.stretch.store(stretch, Ordering::Relaxed);
        self.seed.store(seed, Ordering::Relaxed);
    }

    /// Whether the thread lets others run before its next access.
    pub fn lets_go(&self, thread: &mut Thread) -> bool {
        let stretch = self.stretch.load(Ordering::Relaxed);
        if stretch == 0 {
            return false;
        }
        let seed = self.seed.load(Ordering::Relaxed);
        noise::drawn(thread, seed).is_multiple_of(u64::from(stretch))
    }
}
