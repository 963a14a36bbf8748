//! Replay and detection: what an operation of the program does in these modes.
//!
//! `monitor` enforces the schedule and knows who is blocked, `deadlock` finds who waits for whom,
//! `hold` stops threads before the accesses of a race, `spin` sees loops that wait for a variable,
//! `operations` and `threads` have one function for each interposed one, `access` is for memory.
//! In detect mode without replay the real operations run as they are and only clocks are kept.
//!
//! A thread that is inside this module does not enter it again: a signal handler that interrupts
//! it, or the runtime's own calls of the C library, go straight to the real functions.

pub mod access;
pub mod deadlock;
pub mod emulated;
pub mod futex;
pub mod hold;
pub mod kernel;
pub mod monitor;
pub mod operations;
pub mod output;
pub mod priorities;
pub mod serial;
pub mod spin;
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
use crate::wire::report::{Message, Stack};
use monitor::{Monitor, State};
use output::Sharing;
use thread::ControlThread;

pub static MONITOR: Monitor = Monitor::new();
static ARENA: Arena = Arena::new();

struct TheDetector(UnsafeCell<MaybeUninit<Detector>>);
// SAFETY: written once by `begin`, before any thread is created, and shared read-only afterwards.
unsafe impl Sync for TheDetector {}
static DETECTOR: TheDetector = TheDetector(UnsafeCell::new(MaybeUninit::uninit()));
static DETECTING: AtomicBool = AtomicBool::new(false);
static REPLAYING: AtomicBool = AtomicBool::new(false);

#[inline(always)]
pub fn is_replaying() -> bool {
    REPLAYING.load(Ordering::Relaxed)
}

#[inline(always)]
pub fn detector() -> Option<&'static Detector> {
    // SAFETY: `begin` has initialised it before it sets the flag.
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
        let mut state = MONITOR.lock();
        state.stop_at_bug = variable(environment::STOP).is_some();
        if let Some(path) = variable(environment::SCHEDULE) {
            let loaded = read_file(path).is_some_and(|text| state.load(text));
            if !loaded {
                sys::fatal(b"norns: the schedule cannot be read\n");
            }
        }
        state.priorities = variable(environment::PRIORITIES)
            .and_then(|text| environment::Priorities::parse(core::str::from_utf8(text).ok()?))
            .map(priorities::Priorities::new);
        drop(state);
        access::watch_schedule();
        REPLAYING.store(true, Ordering::Relaxed);
    }
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
    MONITOR.forget();
    if let Some(thread) = crate::thread::current() {
        threads::main_thread(thread);
    }
}

/// The first thread of a forked child is about to be created by `me`.
#[cold]
fn detect_again(me: &mut ControlThread) {
    let Some(detector) = Detector::new() else {
        return;
    };
    me.detect = detector.thread(detect::Name(me.number), None);
    // SAFETY: no other thread runs; the detector of the parent is not used any more.
    unsafe { (*DETECTOR.0.get()).write(detector) };
    DETECTING.store(true, Ordering::Relaxed);
    output::tell(Message::Child {
        process: sys::getpid() as u32,
    });
    // SAFETY: the block of the running thread.
    if let Some(runtime) = unsafe { me.runtime.as_mut() } {
        threads::let_hooks_decide(runtime);
    }
}

/// A whole file, mapped for good.
fn read_file(path: &[u8]) -> Option<&'static [u8]> {
    let mut name = [0u8; 4096];
    if path.len() >= name.len() {
        return None;
    }
    for (to, from) in name.iter_mut().zip(path) {
        *to = *from;
    }
    let file = sys::open(&name[..=path.len()], 0);
    if file < 0 {
        return None;
    }
    let mut capacity = 1 << 16;
    let mut text = sys::map_anonymous(capacity);
    let mut length = 0;
    while !text.is_null() {
        if length == capacity {
            let larger = sys::map_anonymous(capacity * 2);
            if larger.is_null() {
                return None;
            }
            for at in 0..length {
                // SAFETY: both mappings are longer than `length`; volatile, so that it does not
                // become a call of the `memcpy` that this library interposes.
                unsafe { larger.add(at).write_volatile(*text.add(at)) };
            }
            text = larger;
            capacity *= 2;
        }
        // SAFETY: the mapping has `capacity` bytes that nobody else knows.
        let room = unsafe { core::slice::from_raw_parts_mut(text.add(length), capacity - length) };
        let got = sys::read(file, room);
        if got <= 0 {
            break;
        }
        length += got as usize;
    }
    sys::close(file);
    // SAFETY: `length` bytes were read, and the mapping stays.
    (!text.is_null()).then(|| unsafe { core::slice::from_raw_parts(text, length) })
}

/// The thread that runs, inside this module from now on; `None` when it must not enter.
#[inline]
pub fn enter() -> Option<Inside> {
    let me = current()?;
    if me.inside != 0 {
        return None;
    }
    me.inside = 1;
    Some(Inside { me })
}

/// A thread inside this module.
pub struct Inside {
    pub me: &'static mut ControlThread,
}

impl Inside {
    /// Leaves later, by hand.
    pub fn stay(self) {
        core::mem::forget(self);
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.me.inside = 0;
    }
}

#[inline]
pub fn current() -> Option<&'static mut ControlThread> {
    let thread = crate::attach::current()?;
    let control = thread.control;
    if control.is_null() {
        return None;
    }
    // SAFETY: blocks of threads are never given back, and only its thread uses this reference.
    Some(unsafe { &mut *control })
}

pub fn new_thread() -> *mut ControlThread {
    let thread = ARENA.allocate(size_of::<ControlThread>()) as *mut ControlThread;
    if thread.is_null() {
        sys::fatal(b"norns: no memory for one more thread\n");
    }
    thread
}

/// Hands the program counters of the functions that the thread is in, innermost first, to `act`.
pub fn with_stack(thread: &ControlThread, act: impl FnOnce(Stack)) {
    const MOST: usize = 64;
    let mut addresses = [0; MOST];
    let mut length = 0;
    // SAFETY: the block of the runtime's thread lives as long as the thread, which either is this
    // one or sleeps in the monitor, whose lock is held.
    if let Some(runtime) = unsafe { thread.runtime.as_ref() } {
        let depth = runtime.stack.depth.min(crate::thread::MAX_DEPTH);
        let frames = runtime.stack.frames[..depth].iter().rev();
        for (address, frame) in addresses.iter_mut().zip(frames) {
            *address = frame.pc as u64;
            length += 1;
        }
    }
    act(Stack::new(&addresses[..length]));
}

/// A bug is there to see. A debugger stops here; otherwise a deadlock ends the program.
pub fn bug_happened(state: &mut State, status: i32) {
    if state.stop_at_bug {
        norns_stop_here();
    }
    if status == monitor::EXIT_DEADLOCK {
        end_process(status);
    }
}

/// Debuggers set a breakpoint here.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn norns_stop_here() {
    // SAFETY: does nothing; keeps the function from being merged or left out.
    unsafe { core::arch::asm!("nop") };
}

/// Ends the process without running anything of the program.
pub fn end_process(status: i32) -> ! {
    const EXIT_GROUP: usize = 231;
    loop {
        // SAFETY: does not return.
        unsafe { sys::call(EXIT_GROUP, status as usize, 0, 0) };
    }
}

/// Runs `act` with the detector and this thread's clocks, when there are both.
#[inline]
pub fn with_clocks(me: &mut ControlThread, act: impl FnOnce(&Detector, &mut detect::Thread)) {
    if let Some(detector) = detector()
        && let Some(thread) = me.detect.as_mut()
    {
        act(detector, thread);
    }
}
