//! Replay and detection: what an operation of the program does in these modes.
//!
//! Who goes on, who is blocked and what is a deadlock is decided by `norns_control::Core`; here are
//! the hooks that tell it what happens, and the futexes, system calls and calls of the C library
//! with which its answers are carried out.
//!
//! | file | contents |
//! | --- | --- |
//! | `monitor` | the core under its lock, and the loop that does what it answers |
//! | `operations`, `barrier`, `once`, `threads`, `access` | one function for each interposed one |
//! | `serial` | the turn of a recording in which one thread runs at a time |
//! | `thread` | what is kept of one thread outside of the core |
//! | `schedule`, `report`, `output` | what is read, and what is told |
//! | `modules` | libraries that are loaded late |
//! | `futex`, `kernel` | waiting, and what the kernel knows of a thread |
//!
//! In detect mode without replay the real operations run as they are and only clocks are kept; the
//! core is not asked.
//!
//! A thread that is inside this module does not enter it again: a signal handler that interrupts
//! it, or the runtime's own calls of the C library, go straight to the real functions.

pub mod access;
pub mod barrier;
pub mod futex;
pub mod kernel;
pub mod modules;
pub mod monitor;
pub mod once;
pub mod operations;
pub mod output;
pub mod report;
pub mod schedule;
pub mod serial;
pub mod thread;
pub mod threads;

use core::cell::UnsafeCell;
use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::detect::memory::Arena;
use crate::detect::{self, Detector};
use crate::mode::{self, Mode};
use crate::sys;
use crate::wire::environment;
use crate::wire::report::Message;
use monitor::MONITOR;
use output::Sharing;
use thread::{ControlThread, Inside, Own, Path};

static ARENA: Arena = Arena::new();

struct TheDetector(UnsafeCell<MaybeUninit<Detector>>);
// SAFETY: written by `begin`, before any thread is created, or by `detect_again` in a forked child
// with one thread; shared read-only while `DETECTING`.
unsafe impl Sync for TheDetector {}
static DETECTOR: TheDetector = TheDetector(UnsafeCell::new(MaybeUninit::uninit()));
static DETECTING: AtomicBool = AtomicBool::new(false);
static REPLAYING: AtomicBool = AtomicBool::new(false);

/// The core decides: replay, or a recording with one thread at a time.
#[inline(always)]
pub fn is_replaying() -> bool {
    REPLAYING.load(Ordering::Relaxed)
}

#[inline(always)]
pub fn detector() -> Option<&'static Detector> {
    // SAFETY: whoever sets `DETECTING` has initialised `DETECTOR` before.
    DETECTING
        .load(Ordering::Relaxed)
        .then(|| unsafe { (*DETECTOR.0.get()).assume_init_ref() })
}

/// Called by the constructor of the library when `mode` is replay, detect or both.
///
/// # Safety
/// `variables` is an array of C strings that ends with a null pointer; no other thread runs.
pub unsafe fn begin(variables: *const *const c_char, mode: Mode) {
    let replays = mode != Mode::Detect;
    let detects = mode != Mode::Replay;
    // SAFETY: the caller's promise.
    let variable = |name: &str| unsafe { mode::variable(variables, name) };
    if let Some(path) = variable(environment::REPORT) {
        output::open(
            path,
            if replays {
                Sharing::Append
            } else {
                Sharing::OwnFile
            },
        );
    }
    if detects && let Some(detector) = Detector::new() {
        // SAFETY: no other thread runs yet.
        unsafe { (*DETECTOR.0.get()).write(detector) };
        DETECTING.store(true, Ordering::Relaxed);
    }
    if replays {
        if variable(environment::STOP).is_some() {
            report::stop_at_bug();
        }
        let mut core = MONITOR.lock();
        if let Some(path) = variable(environment::SCHEDULE) {
            let Some(schedule) = schedule::load(path) else {
                sys::fatal(b"norns: the schedule cannot be read\n");
            };
            access::watch(&schedule, |address| address);
            core.follow(schedule);
        }
        let priorities = variable(environment::PRIORITIES)
            .and_then(|text| environment::Priorities::parse(core::str::from_utf8(text).ok()?));
        if let Some(priorities) = priorities {
            core.prioritise(priorities.seed, priorities.points);
        }
        drop(core);
        REPLAYING.store(true, Ordering::Relaxed);
    }
    modules::begin();
    output::tell(Message::Begin);
    output::tell_maps();
    // SAFETY: the caller is the constructor.
    if unsafe { crate::attach::begin_process() }
        && let Some(main) = crate::thread::current()
    {
        threads::main_thread(main);
        crate::attach::watch_end(main);
        mode::set(mode);
        threads::let_hooks_decide(main);
    }
}

/// The child process after a fork: one thread, whose number is 0 from here on. A schedule is for
/// one process. In detect mode the child is watched as a program of its own, once it has
/// threads: whatever it did before that nothing can race with.
pub fn forked() {
    if is_replaying() {
        output::tell(Message::Forked);
        return mode::set(Mode::Off);
    }
    DETECTING.store(false, Ordering::Relaxed);
    ARENA.forget_lock();
    thread::forget_all();
    if let Some(thread) = crate::thread::current() {
        threads::main_thread(thread);
    }
}

/// The first thread of a forked child is about to be created by the running one.
#[cold]
fn detect_again(inside: &mut Inside) {
    let Some(detector) = Detector::new() else {
        return;
    };
    inside.own().detect = detector.thread(detect::Name(inside.block.number), None);
    // SAFETY: no other thread runs; the detector of the parent is not used any more.
    unsafe { (*DETECTOR.0.get()).write(detector) };
    DETECTING.store(true, Ordering::Relaxed);
    output::tell(Message::Child {
        process: sys::getpid() as u32,
    });
    if let Some(runtime) = crate::thread::current() {
        threads::let_own_hooks_decide(runtime, inside);
    }
}

/// The running thread has made a system call that may order threads unseen.
pub fn unknown_call(number: u32) {
    if let Some(block) = current() {
        output::tell(Message::UnknownCall {
            thread: block.path.as_str(),
            number,
        });
    }
}

/// The thread that runs, inside this module from now on; `None` when it must not enter.
#[inline]
pub fn enter() -> Option<Inside> {
    let block = current()?;
    // SAFETY: `current` gives the block of the running thread.
    unsafe { Inside::enter(block) }
}

/// The block of the running thread.
#[inline]
pub fn current() -> Option<&'static ControlThread> {
    let thread = crate::attach::current()?;
    // SAFETY: null, or a block of `new_block`, which is never given back.
    unsafe { thread.control.as_ref() }
}

/// Memory for one more thread, with nothing in it yet.
fn allocate<T>(value: T) -> &'static mut T {
    let block = ARENA.allocate(size_of::<T>()).cast::<T>();
    if block.is_null() {
        sys::fatal(b"norns: no memory for one more thread\n");
    }
    // SAFETY: fresh memory of the right size, aligned as a power of two, which no other code knows
    // and which is never given back.
    unsafe {
        block.write(value);
        &mut *block
    }
}

/// The block of a new thread, known by its number.
fn new_block(number: u32, path: Path) -> &'static ControlThread {
    let block = allocate(ControlThread::new(number, path));
    if !thread::register(block) {
        sys::fatal(b"norns: more threads than a replay can follow\n");
    }
    block
}

/// Runs `act` with the detector and the thread's clocks, when there are both.
#[inline]
pub fn with_clocks(own: &mut Own, act: impl FnOnce(&Detector, &mut detect::Thread)) {
    if let Some(detector) = detector()
        && let Some(thread) = own.detect.as_mut()
    {
        act(detector, thread);
    }
}
