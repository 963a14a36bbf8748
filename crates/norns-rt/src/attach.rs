//! Which threads the runtime knows, in every mode: the main one from the start, others from the
//! trampoline in which they begin until the destructor of a thread-specific key.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::channels;
use crate::control;
use crate::inputs::served;
use crate::mode::{self, Mode, is_controlled, is_recording, is_serial, mode};
use crate::record::{self, failure, handles};
use crate::thread::{self, Thread};
use crate::tls::Fast;
use crate::{real, rest, sys, tls};

/// How many threads were attached whose creation was not seen.
static STRANGERS: AtomicU32 = AtomicU32::new(0);
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);
/// The kernel's number of the process whose memory this is.
static PROCESS: AtomicI32 = AtomicI32::new(0);

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
    fn on_exit(function: unsafe extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn __cxa_at_quick_exit(
        function: unsafe extern "C" fn(*mut c_void),
        library: *mut c_void,
    ) -> c_int;
}

/// Attaches the main thread and gets ready to see threads end, forks and the exit. False when
/// there is no memory.
///
/// # Safety
/// Only from the constructor.
pub unsafe fn begin_process() -> bool {
    let main = thread::allocate();
    if main.is_null() {
        return false;
    }
    let mut key = 0;
    // SAFETY: `main` is a fresh block that only this thread knows; the rest are plain calls of the C
    // library, which is initialised before the constructors of its dependents.
    unsafe {
        (*main).kernel_id = thread::kernel_id();
        (*main).handle = pthread_self();
        if pthread_key_create(&mut key, thread_ends) == 0 {
            KEY.store(key, Ordering::Relaxed);
        }
        __register_atfork(None, Some(has_forked), Some(forked), core::ptr::null());
        on_exit(exits, core::ptr::null_mut());
        __cxa_at_quick_exit(quick_exits, core::ptr::null_mut());
    }
    PROCESS.store(sys::getpid(), Ordering::Relaxed);
    tls::set_thread(main);
    true
}

/// Gets ready to see forks and the exit of a guarded program, whose threads are not attached.
///
/// # Safety
/// Only from the constructor.
pub unsafe fn watch_process() {
    // SAFETY: plain calls of the C library, which is initialised before the constructors of its dependents.
    unsafe {
        __register_atfork(None, None, Some(forked), core::ptr::null());
        on_exit(exits, core::ptr::null_mut());
        __cxa_at_quick_exit(quick_exits, core::ptr::null_mut());
    }
    PROCESS.store(sys::getpid(), Ordering::Relaxed);
}

/// The running thread. One whose creation was not seen is attached now; `None` for a thread that
/// has ended, or when the mode is off.
#[inline(always)]
pub fn current() -> Option<&'static mut Thread> {
    let thread = tls::thread();
    if thread as usize <= tls::GONE as usize {
        return if thread == tls::GONE {
            None
        } else {
            attach_stranger()
        };
    }
    // SAFETY: `tls::thread` points to the running thread's own block from attach to detach.
    Some(unsafe { &mut *thread })
}

#[cold]
fn attach_stranger() -> Option<&'static mut Thread> {
    if matches!(mode(), Mode::Off | Mode::Guard) || (is_recording() && !record::started()) {
        return None;
    }
    // A hook of a signal handler must find the thread either attached or not attached.
    let signals = sys::block_signals();
    let stranger = thread::allocate();
    if !stranger.is_null() {
        // SAFETY: `allocate` gave the block to this thread, and no other code knows it.
        let thread = unsafe { &mut *stranger };
        thread.number = thread::next_number();
        thread.parent = thread.number;
        thread.ordinal = STRANGERS.fetch_add(1, Ordering::Relaxed) + 1;
        thread.name = served::name_of_child(u64::MAX, thread.ordinal);
        begin_thread(thread);
        channels::signal::begins_unseen();
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
    if mode() == Mode::Record {
        record::thread_begins(thread);
    }
    watch_end(thread);
    failure::begin_thread(thread);
    tls::set_thread(block);
    if is_controlled() {
        control::threads::started(thread);
    }
    if is_serial() {
        // `started` has waited for this thread's turn: its first event comes only now.
        record::thread_begins(thread);
    }
    if mode() == Mode::Record {
        tls::set_fast(Fast::recorder(block));
    }
}

/// Lets the destructor run when this thread ends.
pub fn watch_end(thread: &mut Thread) {
    let block: *mut Thread = thread;
    // SAFETY: the key was made in `begin_process`; the C library does not look at the value. For
    // a high key this may call `calloc`, which finds the thread not attached.
    unsafe { pthread_setspecific(KEY.load(Ordering::Relaxed), block.cast()) };
}

/// The destructor of the runtime's thread-specific key. Destructors of the program may run after it,
/// so it asks to be called again until the C library's last round.
unsafe extern "C" fn thread_ends(block: *mut c_void) {
    const ROUNDS: u32 = 4;
    let thread: *mut Thread = block.cast();
    if tls::thread() != thread {
        return;
    }
    // SAFETY: `tls::thread` says that it is the running thread's own block.
    let current = unsafe { &mut *thread };
    current.destructor_rounds += 1;
    if current.destructor_rounds < ROUNDS {
        watch_end(current);
        return;
    }
    let signals = sys::block_signals();
    if is_serial() {
        // The thread may have been cancelled while it was inside the core.
        control::serial::jumped(current);
        if !control::serial::has_turn(current) {
            control::serial::regain();
        }
    }
    channels::robust::owner_may_end();
    if is_recording() {
        record::thread_ends(current);
    }
    if is_controlled() {
        control::threads::ending(current);
    }
    handles::ended(current.handle, current.number);
    tls::set_fast(Fast::NONE);
    tls::set_thread(tls::GONE);
    // SAFETY: `tls::thread` is `GONE` by now, so no hook of this thread finds the block any more.
    unsafe { thread::release(current) };
    sys::restore_signals(signals);
}

/// `exit`, or the return of `main`; registered first, so it runs after the program's handlers.
unsafe extern "C" fn exits(status: c_int, _: *mut c_void) {
    process_ends(crate::wire::ended::EXIT, status, 0);
}

/// `quick_exit`: registered first, as above.
unsafe extern "C" fn quick_exits(_: *mut c_void) {
    process_ends(
        crate::wire::ended::IMMEDIATE_EXIT,
        QUICK_STATUS.load(Ordering::Relaxed),
        0,
    );
}

/// The status of `quick_exit`, which its handlers are not told.
pub static QUICK_STATUS: AtomicI32 = AtomicI32::new(0);

/// Whether the running process is a child of `vfork`, which uses the memory of its parent.
pub fn in_foreign_memory() -> bool {
    sys::getpid() != PROCESS.load(Ordering::Relaxed)
}

/// The process is about to end by `exit`, a return of `main` or `_exit`.
pub fn process_ends(how: u8, status: c_int, pc: usize) {
    if is_recording() {
        record::process_ends(how, status, pc);
    }
    if is_controlled() {
        control::threads::process_ends();
    }
    if how != crate::wire::ended::ABORT {
        crate::guard::process_ends(status);
    }
}

/// The parent after a fork.
unsafe extern "C" fn has_forked() {
    if !matches!(mode(), Mode::Off | Mode::Guard) {
        channels::process_forked();
    }
}

/// The child process after a fork begins anew: with one thread, which is its main one. Runs
/// before the handlers of the program, since it was registered before them.
pub unsafe extern "C" fn forked() {
    crate::files::forked();
    served::forked();
    crate::track::forked();
    crate::guard::forked();
    if mode() == Mode::Off {
        return;
    }
    STRANGERS.store(0, Ordering::Relaxed);
    PROCESS.store(sys::getpid(), Ordering::Relaxed);
    rest::forked();
    crate::interpose::forget_onces();
    tls::set_fast(Fast::NONE);
    thread::forget_free();
    thread::forget_numbers();
    handles::forget();
    crate::atomics::forget();
    channels::forked();
    if let Some(thread) = thread::current() {
        thread.number = 0;
        thread.children = 0;
        thread.kernel_id_before_fork = thread.kernel_id;
        thread.kernel_id = thread::kernel_id();
    } else {
        // A thread that was not attached called fork.
        let block = thread::allocate();
        tls::set_thread(block);
        if block.is_null() {
            mode::set(Mode::Off);
        }
    }
    if is_recording() {
        record::forked();
    }
    if is_serial() {
        if let Some(thread) = thread::current() {
            control::serial::forked(thread);
        }
    } else if is_controlled() {
        control::forked();
    }
}
