//! Record mode: who is recorded from when to when.
//!
//! Until the program creates its first thread nothing is logged: accesses are counted, and what
//! later events need to know (semaphores, barriers, locks held) is kept in `early`.

pub mod early;
pub mod file;
pub mod filter;
pub mod handles;
pub mod pending;
pub mod statistics;
pub mod stream;
pub mod tail;

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::mode::{self, Mode};
use crate::operation::Operation;
use crate::thread::{self, Thread};
use crate::wire::Code;
use crate::{real, sys, tls};

/// The first thread was created: from now on events are logged.
static STARTED: AtomicBool = AtomicBool::new(false);
/// Threads that nobody was seen to create.
static STRANGERS: AtomicU32 = AtomicU32::new(0);
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

real! {
    fn pthread_key_create(key: *mut u32, destructor: unsafe extern "C" fn(*mut c_void)) -> c_int;
    fn pthread_setspecific(key: u32, value: *const c_void) -> c_int;
    fn pthread_self() -> usize;
}

unsafe extern "C" {
    fn __register_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
        library: *const c_void,
    ) -> c_int;
}

/// Switches recording on, if there is somewhere to write to.
///
/// # Safety
/// Only from the constructor, with its `environment`.
pub unsafe fn begin(environment: *const *const c_char) {
    // SAFETY: the caller's word.
    let Some(path) = (unsafe { mode::variable(environment, b"NORNS_TRACE") }) else {
        return;
    };
    // SAFETY: the caller's word.
    if !unsafe { file::set_path(path) } {
        sys::write(
            2,
            b"norns: NORNS_TRACE is not an absolute path; nothing is recorded\n",
        );
        return;
    }
    let main = thread::allocate();
    if main.is_null() {
        sys::write(
            2,
            b"norns: no memory for the recorder; nothing is recorded\n",
        );
        return;
    }
    let mut key = 0;
    // SAFETY: plain calls of the C library, which is initialised before us.
    unsafe {
        (*main).kernel_id = thread::kernel_id();
        (*main).handle = pthread_self();
        if pthread_key_create(&mut key, thread_ends) == 0 {
            KEY.store(key, Ordering::Relaxed);
        }
        __register_atfork(None, None, Some(forked), core::ptr::null());
    }
    tls::set_thread(main);
    mode::set(Mode::Record);
}

#[inline(always)]
pub fn started() -> bool {
    STARTED.load(Ordering::Relaxed)
}

/// The thread that runs, if it is to be recorded now. Attaches one that was created behind our
/// back.
#[inline(always)]
pub fn recorder() -> Option<&'static mut Thread> {
    let fast = tls::fast();
    if fast.is_null() {
        return slow_recorder();
    }
    // SAFETY: as for `thread::current`.
    Some(unsafe { &mut *fast })
}

#[cold]
fn slow_recorder() -> Option<&'static mut Thread> {
    if !started() || !tls::thread().is_null() {
        return None;
    }
    attach_stranger()
}

fn attach_stranger() -> Option<&'static mut Thread> {
    // Hooks of a signal handler must find the thread attached or not, nothing between.
    let signals = sys::block_signals();
    let stranger = thread::allocate();
    if !stranger.is_null() {
        // SAFETY: `allocate` gave the block to us.
        let thread = unsafe { &mut *stranger };
        thread.number = thread::next_number();
        thread.parent = thread.number;
        thread.ordinal = STRANGERS.fetch_add(1, Ordering::Relaxed) + 1;
        begin_thread(thread);
    }
    sys::restore_signals(signals);
    thread::current()
}

/// What the running thread does first. `thread` is its own block.
pub fn begin_thread(thread: &mut Thread) {
    thread.kernel_id = thread::kernel_id();
    // SAFETY: a plain call; it reads the thread control block.
    thread.handle = unsafe { pthread_self() };
    handles::insert(thread.handle, thread.number);
    let block: *mut Thread = thread;
    let operands = [u64::from(thread.parent), u64::from(thread.ordinal)];
    thread.log(Code::Start, 0, 0, 0, operands);
    // SAFETY: the key was made in `begin`; the value is not touched by the C library. For low
    // keys this allocates nothing; for others it may call `calloc`, which finds us not attached.
    unsafe { pthread_setspecific(KEY.load(Ordering::Relaxed), block.cast()) };
    tls::set_thread(block);
    tls::set_fast(block);
}

/// The destructor of our key. Those of the program may follow, so it asks to be called again
/// until the last round.
unsafe extern "C" fn thread_ends(block: *mut c_void) {
    const ROUNDS: u32 = 4;
    let thread: *mut Thread = block.cast();
    if tls::thread() != thread {
        return;
    }
    // SAFETY: the block of this thread.
    let current = unsafe { &mut *thread };
    current.destructor_rounds += 1;
    if current.destructor_rounds < ROUNDS {
        // SAFETY: as in `begin_thread`.
        unsafe { pthread_setspecific(KEY.load(Ordering::Relaxed), block) };
        return;
    }
    end_thread(current);
}

fn end_thread(thread: &mut Thread) {
    let signals = sys::block_signals();
    thread.recover();
    thread.log(Code::End, 0, 0, 0, [0; 2]);
    thread.end_stream();
    statistics::add(thread);
    handles::ended(thread.handle, thread.number);
    tls::set_fast(core::ptr::null_mut());
    tls::set_thread(tls::GONE);
    // SAFETY: no hook of this thread finds the block any more.
    unsafe { thread::release(thread) };
    sys::restore_signals(signals);
}

/// Called before a thread is created. From the first time on, events are logged.
pub fn before_fork() -> Option<&'static mut Thread> {
    if started() {
        return recorder();
    }
    let main = thread::current()?;
    if !tail::begin_process() {
        sys::write(
            2,
            b"norns: cannot write beside the trace file; nothing is recorded\n",
        );
        mode::set(Mode::Off);
        return None;
    }
    main.number = 0;
    STARTED.store(true, Ordering::Release);
    handles::insert(main.handle, 0);
    let block: *mut Thread = main;
    main.log(Code::Start, 0, 0, 0, [0; 2]);
    early::write(main);
    statistics::write_maps();
    // SAFETY: as in `begin_thread`: the main thread may end before the process does.
    unsafe { pthread_setspecific(KEY.load(Ordering::Relaxed), block.cast()) };
    tls::set_fast(block);
    Some(main)
}

/// One operation that is in effect now.
#[inline(never)]
pub fn operation(code: Code, operation: &Operation) {
    match recorder() {
        Some(thread) => thread.log(
            code,
            operation.detail,
            operation.pc,
            operation.object,
            [operation.value, 0],
        ),
        None if !started() => early::note(code, operation),
        None => {}
    }
}

/// The process is about to end in whichever orderly way.
pub fn process_ends(how: u8, status: i32, pc: usize) {
    if mode::mode() != Mode::Record || !started() {
        return;
    }
    if let Some(thread) = recorder() {
        thread.recover();
        thread.log(Code::ProcessEnd, how, pc, 0, [status as u32 as u64, 0]);
        statistics::add(thread);
    }
    statistics::write_maps();
    statistics::write();
}

/// The child process after a fork: it is a new recording, which begins with its first thread.
/// Runs before the handlers of the program, since it was registered before them.
unsafe extern "C" fn forked() {
    if mode::mode() != Mode::Record {
        return;
    }
    STARTED.store(false, Ordering::Relaxed);
    STRANGERS.store(0, Ordering::Relaxed);
    tls::set_fast(core::ptr::null_mut());
    thread::forget_free();
    thread::forget_numbers();
    tail::forget();
    stream::forget();
    early::forget();
    handles::forget();
    statistics::forget();
    if let Some(thread) = thread::current() {
        thread.forget_stream();
        thread.children = 0;
        thread.kernel_id = thread::kernel_id();
    } else {
        // A thread that was not attached called fork: it is the main one from now on.
        let block = thread::allocate();
        tls::set_thread(block);
        if block.is_null() {
            mode::set(Mode::Off);
        }
    }
}
