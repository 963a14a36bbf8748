//! The functions with which a program describes synchronisation of its own: the public interface of
//! ThreadSanitizer, and the older annotations of Helgrind and DRD.
//!
//! An acquire is an acquire load of the byte at the tag, a release a read-modify-write with
//! release order: all releases before it stay visible to later acquires.

use core::ffi::{c_char, c_int, c_void};

use crate::attach;
use crate::control;
use crate::interpose;
use crate::mode::{Mode, is_controlled, is_recording, is_serial, mode};
use crate::operation::Operation;
use crate::record;
use crate::record::annotated::{self, Way};
use crate::sites;
use crate::tls;
use crate::wire::{Code, atomic_detail, misuse, object};

const LOAD: u8 = 0;
const READ_MODIFY_WRITE: u8 = 2;
const ACQUIRE: u8 = 2;
const RELEASE: u8 = 3;

fn atomic(kind: u8, order: u8, tag: usize, pc: usize) {
    if is_controlled() && !is_serial() {
        return control::access::atomic(kind, tag, 0, i32::from(order), 0, pc, || ((), true));
    }
    let operation = Operation::new(Code::Atomic, atomic_detail(0, kind, order), tag, pc);
    operation.before();
    operation.after(Code::Atomic);
}

fn both(code: Code, detail: u8, object: usize, pc: usize) {
    let operation = Operation::new(code, detail, object, pc);
    operation.before();
    operation.after(code);
}

/// Flags of `__tsan_mutex_*`.
const READ_LOCK: u32 = 1 << 3;
const TRY_LOCK_FAILED: u32 = 1 << 5;
const READ_REENTRANT: u32 = 1 << 1;

fn mutex_kind(flags: u32) -> u8 {
    if flags & (READ_LOCK | READ_REENTRANT) != 0 {
        object::READER_WRITER_LOCK
    } else {
        object::MUTEX
    }
}

fn way(write: usize) -> Way {
    if write != 0 { Way::Write } else { Way::Read }
}

/// A number of this thread that no other one has.
fn this_thread() -> usize {
    tls::thread() as usize
}

/// Notes, in a recording, that an annotation contradicts the ones before.
fn contradicts(is_right: bool, lock: usize, pc: usize) {
    if !is_right {
        let kind = object::READER_WRITER_LOCK;
        interpose::misused(
            &Operation::new(Code::Lock, kind, lock, pc),
            misuse::CONTRADICTED,
        );
    }
}

/// Accesses of this thread are ignored, or not any more.
fn ignore(change: i32) {
    if matches!(mode(), Mode::Off | Mode::Guard) {
        return;
    }
    let Some(thread) = attach::current() else {
        return;
    };
    thread.ignored = thread.ignored.saturating_add_signed(change);
    if mode() == Mode::Record && record::started() {
        // Hooks take the slow way while accesses are ignored.
        tls::set_fast(if thread.ignored == 0 {
            tls::Fast::recorder(thread)
        } else {
            tls::Fast::NONE
        });
    }
}

interpose! {
    fn __tsan_acquire(tag: usize) |pc| { atomic(LOAD, ACQUIRE, tag, pc); }
    fn __tsan_release(tag: usize) |pc| { atomic(READ_MODIFY_WRITE, RELEASE, tag, pc); }

    fn __tsan_mutex_create(mutex: usize, flags: u32) |pc| {
        Operation::new(Code::Init, mutex_kind(flags), mutex, pc).after(Code::Init);
    }
    fn __tsan_mutex_destroy(mutex: usize, flags: u32) |pc| {
        both(Code::Destroy, mutex_kind(flags), mutex, pc);
    }
    fn __tsan_mutex_pre_lock(mutex: usize, flags: u32) |pc| {}
    fn __tsan_mutex_post_lock(mutex: usize, flags: u32, recursion: c_int) |pc| {
        let read = flags & READ_LOCK != 0;
        let code = match (read, flags & TRY_LOCK_FAILED != 0) {
            (false, false) => Code::Lock,
            (false, true) => Code::FailedLock,
            (true, false) => Code::ReadLock,
            (true, true) => Code::FailedReadLock,
        };
        Operation::new(code, mutex_kind(flags), mutex, pc).after(code);
    }
    fn __tsan_mutex_pre_unlock(mutex: usize, flags: u32) -> c_int |pc| {
        both(Code::Unlock, mutex_kind(flags), mutex, pc);
        1
    }
    fn __tsan_mutex_post_unlock(mutex: usize, flags: u32) |pc| {}
    fn __tsan_mutex_pre_signal(condition: usize, flags: u32) |pc| {}
    fn __tsan_mutex_post_signal(condition: usize, flags: u32) |pc| {}
    fn __tsan_mutex_pre_divert(mutex: usize, flags: u32) |pc| {}
    fn __tsan_mutex_post_divert(mutex: usize, flags: u32) |pc| {}

    fn AnnotateHappensBefore(file: *const c_char, line: c_int, tag: usize) |pc| {
        atomic(READ_MODIFY_WRITE, RELEASE, tag, pc);
    }
    fn AnnotateHappensAfter(file: *const c_char, line: c_int, tag: usize) |pc| {
        atomic(LOAD, ACQUIRE, tag, pc);
    }
    fn AnnotateRWLockCreate(file: *const c_char, line: c_int, lock: usize) |pc| {
        annotated::forget(lock);
        Operation::new(Code::Init, object::READER_WRITER_LOCK, lock, pc).after(Code::Init);
    }
    fn AnnotateRWLockCreateStatic(file: *const c_char, line: c_int, lock: usize) |pc| {
        Operation::new(Code::Init, object::READER_WRITER_LOCK, lock, pc).after(Code::Init);
    }
    fn AnnotateRWLockDestroy(file: *const c_char, line: c_int, lock: usize) |pc| {
        annotated::forget(lock);
        both(Code::Destroy, object::READER_WRITER_LOCK, lock, pc);
    }
    fn AnnotateRWLockAcquired(file: *const c_char, line: c_int, lock: usize, write: usize) |pc| {
        if is_recording() {
            contradicts(annotated::acquire(lock, way(write), this_thread()), lock, pc);
        }
        let code = if write != 0 { Code::Lock } else { Code::ReadLock };
        Operation::new(code, object::READER_WRITER_LOCK, lock, pc).after(code);
    }
    fn AnnotateRWLockReleased(file: *const c_char, line: c_int, lock: usize, write: usize) |pc| {
        if is_recording() {
            contradicts(annotated::release(lock, way(write), this_thread()), lock, pc);
        }
        both(Code::Unlock, object::READER_WRITER_LOCK, lock, pc);
    }
    fn AnnotateIgnoreReadsBegin(file: *const c_char, line: c_int) |pc| { ignore(1); }
    fn AnnotateIgnoreReadsEnd(file: *const c_char, line: c_int) |pc| { ignore(-1); }
    fn AnnotateIgnoreWritesBegin(file: *const c_char, line: c_int) |pc| { ignore(1); }
    fn AnnotateIgnoreWritesEnd(file: *const c_char, line: c_int) |pc| { ignore(-1); }
    fn __tsan_ignore_thread_begin() |pc| { ignore(1); }
    fn __tsan_ignore_thread_end() |pc| { ignore(-1); }
    fn AnnotateIgnoreSyncBegin(file: *const c_char, line: c_int) |pc| {}
    fn AnnotateIgnoreSyncEnd(file: *const c_char, line: c_int) |pc| {}
    fn AnnotateNewMemory(file: *const c_char, line: c_int, address: usize, size: usize) |pc| {
        if let Some(thread) = allocation_recorder() {
            thread.log(Code::Allocate, 0, pc, address, [size as u64, 0]);
        }
    }
    fn AnnotateBenignRace(file: *const c_char, line: c_int, address: usize, text: *const c_char) |pc| {}
    fn AnnotateBenignRaceSized(file: *const c_char, line: c_int, address: usize, size: usize, text: *const c_char) |pc| {}
    fn AnnotateFlushState(file: *const c_char, line: c_int) |pc| {}
    fn AnnotateThreadName(file: *const c_char, line: c_int, name: *const c_char) |pc| {}
    fn AnnotateEnableRaceDetection(file: *const c_char, line: c_int, enable: c_int) |pc| {}
    fn RunningOnValgrind() -> c_int |pc| { 0 }

    // A user-specified event: name and fields, each with a zero byte after it.
    fn __norns_custom(text: *const u8, length: usize) |pc| {
        sites::happens(core::slice::from_raw_parts(text, length), pc);
    }

    // Fibers are not followed: what runs on one is taken for its thread.
    fn __tsan_get_current_fiber() -> *mut c_void |pc| { core::ptr::null_mut() }
    fn __tsan_create_fiber(flags: u32) -> *mut c_void |pc| { core::ptr::null_mut() }
    fn __tsan_destroy_fiber(fiber: *mut c_void) |pc| {}
    fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: u32) |pc| {}
    fn __tsan_set_fiber_name(fiber: *mut c_void, name: *const c_char) |pc| {}
}

fn allocation_recorder() -> Option<&'static mut crate::thread::Thread> {
    if !is_recording() {
        return None;
    }
    record::memory_recorder()
}
