//! Record mode: when recording begins and ends, for the process and for each thread.
//!
//! Until the program creates its first thread only misuse of locks and conditions, uses of freed memory
//! and custom events are logged: other accesses are counted, and what later events need to know
//! (semaphores, barriers, locks held) is kept in `early`.

pub mod annotated;
pub mod constraint;
pub mod early;
pub mod failure;
pub mod file;
pub mod filter;
pub mod freed;
pub mod handles;
pub mod impatience;
pub mod noise;
pub mod pending;
pub mod polls;
pub mod statistics;
pub mod stream;
pub mod tail;
pub mod values;
pub mod waits;

use core::ffi::c_char;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::control::serial;
use crate::mode::{self, Mode};
use crate::operation::Operation;
use crate::thread::{self, Thread};
use crate::wire::{Code, environment};
use crate::{attach, sys, tls};

/// The main thread has a stream: it has misused an object, emitted an event or created the first thread.
static BEGUN: AtomicBool = AtomicBool::new(false);
/// The first thread was created: from now on all events are logged.
static STARTED: AtomicBool = AtomicBool::new(false);
/// Some module of the program is instrumented. Without one only synchronisation is recorded.
static INSTRUMENTED: AtomicBool = AtomicBool::new(false);

/// Switches recording on, if there is somewhere to write to.
///
/// # Safety
/// Only from the constructor, with its variables of the environment.
pub unsafe fn begin(variables: *const *const c_char, mode: Mode) {
    // SAFETY: only the constructor calls this function, with the variables that it was given.
    let Some(path) = (unsafe { mode::variable(variables, environment::TRACE) }) else {
        return;
    };
    // SAFETY: only the constructor calls this function, with the variables that it was given.
    if !unsafe { file::set_path(path) } {
        sys::write(
            2,
            b"norns: NORNS_TRACE is not an absolute path; nothing is recorded\n",
        );
        return;
    }
    // SAFETY: only the constructor calls this function, with the variables that it was given.
    if !unsafe { attach::begin_process() } {
        sys::write(
            2,
            b"norns: no memory for the recorder; nothing is recorded\n",
        );
        return;
    }
    // SAFETY: only the constructor calls this function, with the variables that it was given.
    let seed = unsafe { mode::variable(variables, environment::SEED) };
    if mode == Mode::RecordValues {
        if let Some(main) = thread::current() {
            serial::begin(seed.and_then(noise::number).unwrap_or(0), main);
        }
    } else if let Some(seed) = seed.and_then(noise::number) {
        noise::set_seed(seed);
    }
    // SAFETY: only the constructor calls this function, with the variables that it was given.
    if let Some(late) = unsafe { mode::variable(variables, environment::IMPATIENT) } {
        impatience::switch_on(late);
    }
    // SAFETY: only the constructor calls this function, with the variables that it was given.
    let most = unsafe { mode::variable(variables, environment::MOST_EVENTS) };
    if let Some(most) = most.and_then(noise::number) {
        stream::set_most_events(most);
    }
    mode::set(mode);
    // SAFETY: only the constructor calls this function, with the variables that it was given.
    let looks_for_cause = unsafe {
        constraint::begin(variables);
        failure::begin(variables, seed.and_then(noise::number).unwrap_or(0))
    };
    if looks_for_cause {
        // A cause can lie before the first thread, or in a program that has only one.
        before_fork();
        crate::track::locate();
        crate::interpose::watch_failures();
        if let Some(main) = thread::current() {
            failure::begin_thread(main);
        }
    }
}

#[inline(always)]
pub fn started() -> bool {
    STARTED.load(Ordering::Relaxed)
}

/// A module with hooks in it was loaded.
pub fn note_instrumented() {
    INSTRUMENTED.store(true, Ordering::Relaxed);
}

/// Whether accesses and allocations are recorded: some module of the program is instrumented.
#[inline(always)]
pub fn sees_memory() -> bool {
    INSTRUMENTED.load(Ordering::Relaxed)
}

/// An access before the first thread: it is counted, and looked at only if it uses what was freed.
#[inline(never)]
pub fn early_access(address: usize, size: usize, write: bool, pc: usize) {
    freed::access(address, size, write, pc);
    statistics::count_before();
}

/// Whether allocations are followed for uses of freed memory before the first thread.
#[inline(always)]
pub fn sees_early_memory() -> bool {
    !started() && sees_memory()
}

/// The running thread, if accesses and allocations are to be logged.
#[inline(always)]
pub fn memory_recorder() -> Option<&'static mut Thread> {
    if !started() || !sees_memory() {
        return None;
    }
    let thread = attach::current()?;
    (thread.ignored == 0).then_some(thread)
}

pub fn thread_begins(thread: &mut Thread) {
    noise::delay();
    impatience::start_late();
    let operands = [u64::from(thread.parent), u64::from(thread.ordinal)];
    thread.log(Code::Start, 0, 0, 0, operands);
    let (low, size) = thread.own_stack();
    if size > 0 {
        thread.log(Code::Allocate, 0, 0, low, [size as u64, 0]);
    }
}

pub fn thread_ends(thread: &mut Thread) {
    thread.recover();
    let (low, size) = thread.own_stack();
    if size > 0 {
        // The memory of the block may go to another thread.
        thread.log(Code::Free, 0, 0, low, [size as u64, 0]);
    }
    thread.log(Code::End, 0, 0, 0, [0; 2]);
    statistics::add(thread);
    statistics::thread_ended();
    thread.end_stream();
}

/// Called before a thread is created. From the first time on, events are logged.
pub fn before_fork() -> Option<&'static mut Thread> {
    if started() {
        return attach::current();
    }
    let main = begin_stream()?;
    STARTED.store(true, Ordering::Release);
    handles::insert(main.handle, 0);
    early::write(main);
    attach::watch_end(main);
    if mode::mode() == Mode::Record {
        tls::set_fast(tls::Fast::recorder(main));
    }
    Some(main)
}

/// The main thread, whose stream begins now unless it has begun. `None` in a thread that is not
/// attached, and when there is no room for the stream.
fn begin_stream() -> Option<&'static mut Thread> {
    let main = thread::current()?;
    if BEGUN.load(Ordering::Relaxed) {
        return Some(main);
    }
    if !tail::begin_process() {
        sys::write(
            2,
            b"norns: cannot write beside the trace file; nothing is recorded\n",
        );
        mode::set(Mode::Off);
        return None;
    }
    main.number = 0;
    BEGUN.store(true, Ordering::Relaxed);
    main.log(Code::Start, 0, 0, 0, [0; 2]);
    statistics::write_maps();
    Some(main)
}

/// One operation that is in effect now.
#[inline(never)]
pub fn operation(code: Code, operation: &Operation) {
    let thread = if started() {
        attach::current()
    } else if code == Code::Misuse {
        begin_stream()
    } else {
        freed::operation(operation.object, operation.pc);
        early::note(code, operation);
        None
    };
    if let Some(thread) = thread {
        thread.log(
            code,
            operation.detail,
            operation.pc,
            operation.object,
            [operation.value, 0],
        );
    }
}

/// An atomic operation that has only read. It is left out where a loop repeats it in vain.
#[inline(never)]
pub fn atomic_read(read: polls::Read) {
    let thread = if started() { attach::current() } else { None };
    if let Some(thread) = thread
        && !thread.in_recorder()
        && thread.polls.repeats(read, thread.sequence)
    {
        return;
    }
    operation(
        Code::Atomic,
        &Operation::new(Code::Atomic, read.detail, read.address, read.pc),
    );
    if let Some(thread) = thread::current() {
        thread.polls.logged(thread.sequence);
    }
}

/// A custom event, also before the first thread: rules speak of all events of a run.
#[inline(never)]
pub fn event(words: &[u8], pc: usize) {
    let thread = if started() {
        attach::current()
    } else {
        begin_stream()
    };
    if let Some(thread) = thread {
        thread.log_bytes(Code::Custom, pc, 0, words);
    }
}

pub fn process_ends(how: u8, status: i32, pc: usize) {
    // A child of `vfork` ends in the memory of its parent.
    if !BEGUN.load(Ordering::Relaxed) || sys::getpid() != tail::process_id() {
        return;
    }
    if let Some(thread) = thread::current() {
        thread.recover();
        thread.log(Code::ProcessEnd, how, pc, 0, [status as u32 as u64, 0]);
        statistics::add(thread);
    }
    statistics::write_maps();
    statistics::write();
}

/// The child process after a fork is a new recording, which begins with its first thread.
pub fn forked() {
    BEGUN.store(false, Ordering::Relaxed);
    STARTED.store(false, Ordering::Relaxed);
    tail::forget();
    stream::forget();
    early::forget();
    statistics::forget();
    waits::forget();
    annotated::forked();
    freed::forget();
    if let Some(thread) = thread::current() {
        thread.forget_stream();
    }
}
