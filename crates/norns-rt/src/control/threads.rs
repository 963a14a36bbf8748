//! Threads in replay and detect mode: creation, start, end, join, detach, and the end of the
//! process.

use core::ffi::{c_int, c_void};
use core::mem::ManuallyDrop;
use core::sync::atomic::Ordering;

use norns_control::{Happened, How, Operation, Slot, Turn};

use super::monitor::{Guard, MONITOR};
use super::thread::{ControlThread, Inside, Path, numbered};
use super::{allocate, detector, enter, futex, is_replaying, new_block, serial};
use crate::detect::Name;
use crate::mode::is_serial;
use crate::mode::{Mode, mode};
use crate::real;
use crate::sys;
use crate::thread::Thread;
use crate::tls::{self, Fast};
use crate::wire::Code;

/// In detect mode without replay, lets the hooks in assembly decide by themselves whether an access
/// is new. `runtime` is the running thread's block.
pub fn let_hooks_decide(runtime: &mut Thread) {
    if let Some(mut inside) = enter() {
        let_own_hooks_decide(runtime, &mut inside);
    }
}

pub fn let_own_hooks_decide(runtime: &mut Thread, inside: &mut Inside) {
    if is_replaying() {
        return;
    }
    if let Some(detector) = detector()
        && let Some(thread) = inside.own().detect.as_mut()
    {
        runtime.quick = detector.quick();
        // SAFETY: `ending` takes it away before the block can go to another thread.
        unsafe { thread.set_quick(&mut runtime.quick) };
        tls::set_fast(Fast::detector(runtime));
    }
}

fn operation(code: Code, number: u32, pc: usize) -> Operation {
    Operation::new(code, number as usize, pc)
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

/// The block of a thread that runs: `runtime` is what the runtime keeps of it.
fn running_block(runtime: &mut Thread, path: Path) -> &'static ControlThread {
    let block = new_block(runtime.number, path);
    runs(block, runtime);
    // SAFETY: the block of the running thread, which is not inside: the block is new.
    if let Some(mut inside) = unsafe { Inside::enter(block) } {
        let name = Name(runtime.number);
        inside.own().detect = detector().and_then(|detector| detector.thread(name, None));
    }
    if is_replaying() {
        let thread = allocate(norns_control::Thread::new());
        let mut guard = MONITOR.lock();
        if !guard.add_running(block.slot(), thread, block.path.as_str()) {
            sys::fatal(b"norns: more threads than a replay can follow\n");
        }
        guard.settle();
    }
    block
}

/// The thread of this block has begun to run.
fn runs(block: &ControlThread, runtime: &mut Thread) {
    block.kernel_id.store(runtime.kernel_id, Ordering::Relaxed);
    block.runtime.store(runtime, Ordering::Relaxed);
}

/// The main thread, from the constructor of the library.
pub fn main_thread(runtime: &mut Thread) {
    let block = running_block(runtime, Path::main());
    runtime.control = block;
}

/// A thread whose creation was not seen: it belongs to no schedule.
fn stranger(runtime: &mut Thread) {
    let block = running_block(runtime, Path::unknown(runtime.number));
    block.detached.store(true, Ordering::Relaxed);
    runtime.control = block;
}

/// A thread is about to be created by the running one.
pub fn prepare(runtime: &mut Thread, detached: bool) {
    let Some(mut inside) = enter() else { return };
    if detector().is_none() && mode() == Mode::Detect {
        super::detect_again(&mut inside);
    }
    let path = &inside.block.path;
    let me = inside.own();
    me.children += 1;
    let child = new_block(runtime.number, path.child(me.children));
    child.detached.store(detached, Ordering::Relaxed);
    let name = Name(runtime.number);
    let clocks = detector().and_then(|detector| detector.thread(name, me.detect.as_mut()));
    // SAFETY: the thread of this block does not exist yet, and only this thread knows the block.
    unsafe { child.own_of_absent() }.detect = clocks;
    runtime.control = child;
    if is_replaying() {
        let thread = allocate(norns_control::Thread::new());
        let mut guard = MONITOR.lock();
        if !guard.add_child(child.slot(), thread, child.path.as_str()) {
            sys::fatal(b"norns: more threads than a replay can follow\n");
        }
        guard.settle();
    }
}

/// The creation of the thread failed. Called between `before` and `after` of its creator.
pub fn not_created(number: u32) {
    let Some(block) = super::current() else {
        return;
    };
    // SAFETY: the block of the running thread.
    let kept = unsafe { Inside::take_back(block) };
    let keeps_monitor = kept.is_some();
    let Some(mut inside) = kept.or_else(enter) else {
        return;
    };
    inside.own().children -= 1;
    if is_replaying() {
        let guard = if keeps_monitor {
            // SAFETY: `before` of this thread locked the monitor and forgot the guard.
            unsafe { MONITOR.adopt() }
        } else {
            MONITOR.lock()
        };
        let mut guard = ManuallyDrop::new(guard);
        guard.note(Slot(number), Happened::NotCreated);
        if !keeps_monitor {
            drop(ManuallyDrop::into_inner(guard));
        }
    }
    if keeps_monitor {
        inside.keep_monitor();
    }
}

/// The first thing that a new thread does.
pub fn started(runtime: &mut Thread) {
    if runtime.control.is_null() {
        stranger(runtime);
    }
    // SAFETY: `prepare` or `stranger` made the block for this thread; blocks are never given back.
    let block = unsafe { &*runtime.control };
    runs(block, runtime);
    // SAFETY: the block of the running thread.
    let Some(mut inside) = (unsafe { Inside::enter(block) }) else {
        return;
    };
    if let Some(detector) = detector() {
        // Another thread may have had this stack before.
        let (start, size) = own_stack();
        detector.forget_memory(start, size);
    }
    if is_replaying() {
        let mut guard = MONITOR.lock();
        guard.drive(&mut inside, Happened::Begins);
        if is_serial() {
            return;
        }
        let start = Happened::Arrives(operation(Code::Start, 0, 0), How::AtItsTurn);
        guard.drive(&mut inside, start);
        guard.note(block.slot(), Happened::Completes);
    }
    let_own_hooks_decide(runtime, &mut inside);
}

/// The last thing that a thread does: it runs no more code of the program.
pub fn ending(runtime: &mut Thread) {
    let Some(mut inside) = enter() else { return };
    let block = inside.block;
    let mut guard = is_replaying().then(|| MONITOR.lock());
    if let Some(guard) = &mut guard
        && !is_serial()
    {
        let end = Happened::Arrives(operation(Code::End, 0, 0), How::AtItsTurn);
        guard.drive(&mut inside, end);
    }
    block
        .runtime
        .store(core::ptr::null_mut(), Ordering::Relaxed);
    block.kernel_id.store(0, Ordering::Relaxed);
    tls::set_fast(Fast::NONE);
    retire_clocks(&mut inside);
    if let Some(guard) = &mut guard {
        if is_serial() {
            serial::turn_ends_with(runtime);
        }
        guard.note(block.slot(), Happened::Ends);
    }
    drop(guard);
    drop(inside);
    runtime.control = core::ptr::null();
}

/// The clocks of an ending thread are kept for its joiner, if it can have one.
fn retire_clocks(inside: &mut Inside) {
    let detached = inside.block.detached.load(Ordering::Relaxed);
    let own = inside.own();
    if let Some(thread) = own.detect.as_mut() {
        // SAFETY: null is always allowed.
        unsafe { thread.set_quick(core::ptr::null_mut()) };
    }
    if detached
        && let Some(detector) = detector()
        && let Some(thread) = own.detect.as_mut()
    {
        detector.retire(thread);
        own.detect = None;
    }
}

/// Joins a thread; `real` joins it for real. In replay only once it has ended.
pub fn join(
    mut inside: Inside,
    wanted: &crate::operation::Operation,
    gives_up_with: c_int,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let child = numbered(wanted.object as u32);
    if let Some(child) = child
        && is_replaying()
    {
        let operation = Operation {
            may_fail: wanted.may_fail,
            ..operation(Code::Join, child.number, wanted.pc)
        };
        let ends_by_itself = wanted.may_fail && !(is_serial() && wanted.deadline.is_some());
        let how = if ends_by_itself {
            How::AtItsTurn
        } else {
            let deadline = wanted.deadline;
            How::Ended {
                thread: child.slot(),
                deadline: deadline.map(|(clock, end)| futex::monotonic(clock, end)),
            }
        };
        let mut guard = MONITOR.lock();
        let turn = guard.drive(&mut inside, Happened::Arrives(operation, how));
        if ends_by_itself && turn != Turn::Free {
            guard.note(inside.block.slot(), Happened::Completes);
        }
        drop(guard);
        match turn {
            Turn::Fails => return gives_up_with,
            // The real function ends this thread, and handlers run that are to be seen.
            Turn::Cancelled => {
                drop(inside);
                let result = real();
                let Some(again) = enter() else { return result };
                return joined(again, child, result);
            }
            _ => {}
        }
    }
    let result = real();
    match child {
        Some(child) => joined(inside, child, result),
        None => result,
    }
}

fn joined(mut inside: Inside, child: &'static ControlThread, result: c_int) -> c_int {
    if result == 0
        && let Some(detector) = detector()
        && let Some(mine) = inside.own().detect.as_mut()
    {
        // SAFETY: `pthread_join` and its like have returned 0, to one caller: the thread has ended.
        let theirs = unsafe { child.own_of_absent() };
        if let Some(clocks) = theirs.detect.as_mut() {
            detector.join(mine, clocks);
            theirs.detect = None;
        }
    }
    result
}

/// A thread was cancelled, perhaps while it is blocked in a cancellation point.
pub fn cancelled(number: u32) {
    if !is_replaying() {
        return;
    }
    let Some(_inside) = enter() else { return };
    MONITOR.lock().note(Slot(number), Happened::IsCancelled);
}

pub fn detached(number: u32) {
    if let Some(child) = numbered(number) {
        child.detached.store(true, Ordering::Relaxed);
    }
}

/// The process is about to end: the schedule may still need the other threads.
pub fn process_ends() {
    if !is_replaying() || is_serial() {
        return;
    }
    let Some(mut inside) = enter() else { return };
    let mut guard: Guard = MONITOR.lock();
    guard.drive(&mut inside, Happened::EndsProcess);
}
