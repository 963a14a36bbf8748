//! Threads in replay and detect mode: creation, start, end, join, detach, and the end of the
//! process.

use core::ffi::{c_int, c_void};
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering};

use super::monitor::Turn;
use super::output::Line;
use super::thread::{Activity, ControlThread, Operation, Path};
use super::{Inside, MONITOR, detector, enter, is_replaying, new_thread};
use crate::detect::Name;
use crate::real;
use crate::thread::{self, Thread};
use crate::tls;
use crate::wire::Code;

fn operation(code: Code, number: u32, may_fail: bool, pc: usize) -> Operation {
    Operation {
        code,
        atomic: 0,
        may_fail,
        // Numbers are small, so no object has such an address.
        address: number as usize,
        pc,
    }
}

static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

real! {
    fn pthread_key_create(key: *mut u32, destructor: unsafe extern "C" fn(*mut c_void)) -> c_int;
    fn pthread_setspecific(key: u32, value: *const c_void) -> c_int;
    fn pthread_self() -> usize;
    fn pthread_getattr_np(thread: usize, attributes: *mut c_void) -> c_int;
    fn pthread_attr_getstack(attributes: *const c_void, start: *mut usize, size: *mut usize) -> c_int;
    fn pthread_attr_destroy(attributes: *mut c_void) -> c_int;
}

/// Attaches the main thread; from the constructor of the library. False: there is no memory.
pub fn begin() -> bool {
    let block = thread::allocate();
    if block.is_null() {
        return false;
    }
    let mut key = 0;
    // SAFETY: plain calls of the C library, which is initialised before us; `block` is ours.
    let main = unsafe {
        if pthread_key_create(&mut key, thread_ends) == 0 {
            KEY.store(key, Ordering::Relaxed);
            pthread_setspecific(key, block.cast());
        }
        (*block).handle = pthread_self();
        &mut *block
    };
    main_thread(main);
    tls::set_thread(block);
    true
}

/// The destructor of our key: as in record mode it asks to be called again until the last round.
unsafe extern "C" fn thread_ends(block: *mut c_void) {
    const ROUNDS: u32 = 4;
    let block: *mut Thread = block.cast();
    if tls::thread() != block {
        return;
    }
    // SAFETY: the block of this thread.
    let runtime = unsafe { &mut *block };
    runtime.destructor_rounds += 1;
    if runtime.destructor_rounds < ROUNDS {
        // SAFETY: a plain call; the value is not touched by the C library.
        unsafe { pthread_setspecific(KEY.load(Ordering::Relaxed), block.cast()) };
        return;
    }
    ending(runtime);
    tls::set_thread(tls::GONE);
    // SAFETY: no hook of this thread finds the block any more.
    unsafe { thread::release(block) };
}

/// The stack of the running thread, as start and size.
fn own_stack() -> (usize, usize) {
    let mut attributes = [0u64; 8];
    let (mut start, mut size) = (0, 0);
    // SAFETY: the C library fills at most 56 bytes of attributes and the two numbers.
    unsafe {
        let attributes = attributes.as_mut_ptr().cast();
        if pthread_getattr_np(pthread_self(), attributes) == 0 {
            pthread_attr_getstack(attributes, &mut start, &mut size);
            pthread_attr_destroy(attributes);
        }
    }
    (start, size)
}

fn main_thread(runtime: &mut Thread) {
    let block = new_thread();
    // SAFETY: fresh zeroed memory of the right size, which nobody else knows.
    let main = unsafe { &mut *block };
    main.begin(0, Path::main());
    main.runtime = runtime;
    main.handle = runtime.handle;
    main.detect = detector().and_then(|detector| detector.thread(Name(0), None));
    MONITOR.lock().add(block);
    runtime.control = block;
}

/// A thread that nobody was seen to create: it belongs to no schedule.
pub fn stranger(runtime: &mut Thread) {
    let block = new_thread();
    // SAFETY: as above.
    let thread = unsafe { &mut *block };
    thread.begin(runtime.number, Path::unknown(runtime.number));
    thread.runtime = runtime;
    thread.handle = runtime.handle;
    thread.detached = true;
    let name = Name(runtime.number);
    thread.detect = detector().and_then(|detector| detector.thread(name, None));
    MONITOR.lock().add(block);
    runtime.control = block;
}

/// Creates a thread: `create` is the real function and returns the handle or an error number.
/// The child calls `started`.
pub fn create(
    runtime: &mut Thread,
    detached: bool,
    pc: usize,
    create: impl FnOnce() -> Result<usize, c_int>,
) -> c_int {
    let Some(inside) = enter() else {
        return create().err().unwrap_or(0);
    };
    let number = runtime.number;
    let me = &mut *inside.me;
    let block = new_thread();
    // SAFETY: as in `main_thread`.
    let child = unsafe { &mut *block };
    me.children += 1;
    child.begin(number, me.path.child(me.children));
    child.detached = detached;
    runtime.control = block;
    child.detect =
        detector().and_then(|detector| detector.thread(Name(number), me.detect.as_mut()));
    let mut guard = MONITOR.lock();
    guard.started = true;
    if is_replaying() {
        guard.take_turn(me, operation(Code::Fork, number, false, pc));
    }
    guard.add(block);
    let result = create();
    match result {
        Ok(handle) => child.handle = handle,
        Err(_) => {
            child.activity = Activity::Ended;
            child.joined = true;
            me.children -= 1;
        }
    }
    if is_replaying() {
        guard.complete();
    }
    result.err().unwrap_or(0)
}

/// The new thread runs.
pub fn started(runtime: &mut Thread) {
    // SAFETY: plain calls; the value is not touched by the C library.
    unsafe {
        runtime.handle = pthread_self();
        pthread_setspecific(KEY.load(Ordering::Relaxed), (&raw const *runtime).cast());
    }
    if runtime.control.is_null() {
        stranger(runtime);
    }
    // SAFETY: `create` made the block for this thread; blocks are never given back.
    let me = unsafe { &mut *runtime.control };
    me.runtime = runtime;
    me.handle = runtime.handle;
    me.inside = 1;
    let inside = Inside { me };
    tls::set_thread(runtime);
    if let Some(detector) = detector() {
        // Another thread may have had this stack before.
        let (start, size) = own_stack();
        detector.forget_memory(start, size);
    }
    if is_replaying() {
        let mut guard = MONITOR.lock();
        guard.take_turn(inside.me, operation(Code::Start, 0, false, 0));
        guard.complete();
    }
}

/// The thread runs nothing of the program any more.
pub fn ending(runtime: &mut Thread) {
    let Some(inside) = enter() else { return };
    let me = &mut *inside.me;
    let mut guard = MONITOR.lock();
    if is_replaying() {
        guard.take_turn(me, operation(Code::End, 0, false, 0));
    }
    me.activity = Activity::Ended;
    me.runtime = core::ptr::null_mut();
    if me.detached
        && let Some(detector) = detector()
        && let Some(thread) = me.detect.as_mut()
    {
        detector.retire(thread);
        me.detect = None;
    }
    if is_replaying() {
        guard.complete();
    }
    let number = me.number as usize;
    guard.changed(number);
    drop(guard);
    drop(inside);
    runtime.control = core::ptr::null_mut();
}

fn by_handle(handle: usize) -> Option<&'static mut ControlThread> {
    MONITOR
        .lock()
        .threads()
        .find(|thread| thread.handle == handle && !thread.joined && thread.number != 0)
}

/// Waits until a thread may be joined. False: the schedule says that a try or timed join fails.
/// The caller joins for real afterwards and calls `joined`.
pub fn may_join(handle: usize, may_fail: bool, pc: usize) -> bool {
    if !is_replaying() {
        return true;
    }
    let Some(inside) = enter() else { return true };
    let Some(child) = by_handle(handle) else {
        return true;
    };
    let operation = operation(Code::Join, child.number, may_fail, pc);
    let child = &raw const *child;
    let mut guard = MONITOR.lock();
    if may_fail {
        let turn = guard.take_turn(inside.me, operation);
        guard.complete();
        return turn != Turn::Fails;
    }
    // SAFETY: blocks are never given back; read under the monitor's lock.
    guard.attempt(inside.me, operation, None, |_| {
        matches!(unsafe { (*child).activity }, Activity::Ended)
    })
}

/// The real join succeeded.
pub fn joined(handle: usize) {
    let Some(inside) = enter() else { return };
    let Some(child) = by_handle(handle) else {
        return;
    };
    child.joined = true;
    if let Some(detector) = detector()
        && let Some(mine) = inside.me.detect.as_mut()
        && let Some(theirs) = child.detect.as_mut()
    {
        detector.join(mine, theirs);
        child.detect = None;
    }
}

pub fn detached(handle: usize) {
    let Some(_inside) = enter() else { return };
    if let Some(child) = by_handle(handle) {
        child.detached = true;
    }
}

/// The process is about to end: the schedule may still need the other threads.
pub fn process_ends() {
    if !is_replaying() {
        return;
    }
    let Some(inside) = enter() else { return };
    MONITOR.lock().wait_for_the_end(inside.me);
}

pub fn write_path(line: &mut Line, number: u32) {
    // The monitor's lock may be held by this very thread: entries are only ever added.
    let path = MONITOR.path_of(number);
    let _ = line.write_str(path);
}
