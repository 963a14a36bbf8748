//! Threads in replay and detect mode: creation, start, end, join, detach, and the end of the
//! process.

use core::ffi::{c_int, c_void};

use super::monitor::{State, Turn};
use super::thread::{Activity, ControlThread, Operation, Path};
use super::{Inside, MONITOR, detector, enter, is_replaying, new_thread};
use crate::detect::Name;
use crate::mode::is_serial;
use crate::mode::{Mode, mode};
use crate::real;
use crate::thread::Thread;
use crate::tls::{self, Fast};
use crate::wire::Code;

/// In detect mode alone the hooks of this thread may decide by themselves. `runtime` is the
/// running thread's block.
pub fn let_hooks_decide(runtime: &mut Thread) {
    if is_replaying() || runtime.control.is_null() {
        return;
    }
    // SAFETY: blocks are never given back, and this one is the running thread's.
    let me = unsafe { &mut *runtime.control };
    if let Some(detector) = detector()
        && let Some(thread) = me.detect.as_mut()
    {
        runtime.quick = detector.quick();
        // SAFETY: `ending` takes it away before the block can go to another thread.
        unsafe { thread.set_quick(&mut runtime.quick) };
        tls::set_fast(Fast::detector(runtime));
    }
}

fn operation(code: Code, number: u32, may_fail: bool, pc: usize) -> Operation {
    Operation {
        code,
        atomic: 0,
        may_fail,
        fails_by_cancel: false,
        // Numbers are small, so no object has such an address.
        address: number as usize,
        pc,
    }
}

real! {
    fn pthread_self() -> usize;
    fn pthread_getattr_np(thread: usize, attributes: *mut c_void) -> c_int;
    fn pthread_attr_getstack(attributes: *const c_void, start: *mut usize, size: *mut usize) -> c_int;
    fn pthread_attr_destroy(attributes: *mut c_void) -> c_int;
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

/// The main thread, from the constructor of the library.
pub fn main_thread(runtime: &mut Thread) {
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

/// A thread is about to be created by the running one.
pub fn prepare(runtime: &mut Thread, detached: bool) {
    let Some(inside) = enter() else { return };
    let me = &mut *inside.me;
    if detector().is_none() && mode() == Mode::Detect {
        super::detect_again(me);
    }
    let block = new_thread();
    // SAFETY: as in `main_thread`.
    let child = unsafe { &mut *block };
    me.children += 1;
    child.begin(runtime.number, me.path.child(me.children));
    child.detached = detached;
    if is_serial() {
        // It can run from the moment at which its creation is done: `changed` on its number.
        child.activity = Activity::Blocked {
            operation: operation(Code::Start, runtime.number, false, 0),
            timed: false,
        };
    } else if is_replaying() {
        child.activity = Activity::Waits;
    }
    let name = Name(runtime.number);
    child.detect = detector().and_then(|detector| detector.thread(name, me.detect.as_mut()));
    runtime.control = block;
    let mut guard = MONITOR.lock();
    guard.started = true;
    guard.add(block);
}

/// It was not created after all. Between `before` and `after`: the monitor may be locked.
pub fn not_created(number: u32) {
    if let Some(me) = super::current() {
        me.children -= 1;
    }
    if let Some(child) = MONITOR.thread_numbered(number) {
        child.activity = Activity::Ended;
        child.joined = true;
    }
}

/// The new thread runs.
pub fn started(runtime: &mut Thread) {
    if runtime.control.is_null() {
        stranger(runtime);
    }
    // SAFETY: `prepare` made the block for this thread; blocks are never given back.
    let me = unsafe { &mut *runtime.control };
    me.runtime = runtime;
    me.handle = runtime.handle;
    me.inside = 1;
    let inside = Inside { me };
    if let Some(detector) = detector() {
        // Another thread may have had this stack before.
        let (start, size) = own_stack();
        detector.forget_memory(start, size);
    }
    if is_replaying() {
        let mut guard = MONITOR.lock();
        if is_serial() {
            guard.begin_thread(inside.me);
            return;
        }
        guard.take_turn(inside.me, operation(Code::Start, 0, false, 0));
        guard.complete();
    }
    drop(inside);
    let_hooks_decide(runtime);
}

/// The thread runs nothing of the program any more.
pub fn ending(runtime: &mut Thread) {
    let Some(inside) = enter() else { return };
    let me = &mut *inside.me;
    let mut guard = MONITOR.lock();
    if is_replaying() && !is_serial() {
        guard.take_turn(me, operation(Code::End, 0, false, 0));
    }
    me.activity = Activity::Ended;
    me.runtime = core::ptr::null_mut();
    tls::set_fast(Fast::NONE);
    if let Some(thread) = me.detect.as_mut() {
        // SAFETY: null is always allowed.
        unsafe { thread.set_quick(core::ptr::null_mut()) };
    }
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
    if is_serial() {
        guard.thread_ended(me, runtime.kernel_id);
    }
    drop(guard);
    drop(inside);
    runtime.control = core::ptr::null_mut();
}

/// Joins a thread; `real` joins it for real. In replay only once it has ended.
pub fn join(
    me: &mut ControlThread,
    wanted: &crate::operation::Operation,
    gives_up_with: c_int,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let child = MONITOR.thread_numbered(wanted.object as u32);
    if let Some(child) = &child
        && is_replaying()
    {
        let operation = operation(Code::Join, child.number, wanted.may_fail, wanted.pc);
        let child = &raw const **child;
        let mut guard = MONITOR.lock();
        if wanted.may_fail && !(is_serial() && wanted.deadline.is_some()) {
            let turn = guard.take_turn(me, operation);
            if turn != Turn::Free {
                guard.complete();
            }
            if turn == Turn::Fails {
                return gives_up_with;
            }
        } else {
            // SAFETY: blocks are never given back; read under the monitor's lock.
            let ended = guard.attempt(me, operation, wanted.deadline, |_| {
                matches!(unsafe { (*child).activity }, Activity::Ended)
            });
            if me.ends_here {
                // The real function ends this thread, and handlers run that are to be seen.
                me.ends_here = false;
                me.inside = 0;
            } else if !ended {
                return gives_up_with;
            }
        }
    }
    let result = real();
    if result == 0
        && let Some(child) = child
    {
        child.joined = true;
        if let Some(detector) = detector()
            && let Some(mine) = me.detect.as_mut()
            && let Some(theirs) = child.detect.as_mut()
        {
            detector.join(mine, theirs);
            child.detect = None;
        }
    }
    result
}

/// A thread was cancelled: it may wait where that ends it.
pub fn cancelled(number: u32) {
    let Some(_inside) = enter() else { return };
    if let Some(thread) = MONITOR.thread_numbered(number) {
        let _guard = MONITOR.lock();
        thread.cancelled = true;
        if matches!(thread.activity, Activity::Blocked { .. }) {
            thread.activity = Activity::Running;
        }
        State::wake(thread);
    }
}

pub fn detached(number: u32) {
    let Some(_inside) = enter() else { return };
    if let Some(child) = MONITOR.thread_numbered(number) {
        child.detached = true;
    }
}

/// The process is about to end: the schedule may still need the other threads.
pub fn process_ends() {
    if !is_replaying() || is_serial() {
        return;
    }
    let Some(inside) = enter() else { return };
    MONITOR.lock().wait_for_the_end(inside.me);
}

/// The name of a thread; `?` if there is none with this number.
pub fn path_of(number: u32) -> &'static str {
    // The monitor's lock may be held by this very thread: entries are only ever added.
    MONITOR
        .thread_numbered(number)
        .map_or("?", |thread| thread.path.as_str())
}
