//! Message queues, System V semaphores and locks on files.
//!
//! A lock on a file excludes other open files, not other threads: of descriptors with the same
//! number nothing is ordered. What such locks order is the order of the recorded run in every
//! schedule. The locks of a process (`lockf`, `F_SETLK`) order no threads at all.

use core::ffi::{c_int, c_long, c_uint, c_void};

use super::blocking::{away, away_unless};
use super::buffer;
use crate::channels::{self, Key, descriptor, file_lock, kind, watching};
use crate::{interpose, real};

type Bytes = *mut c_void;

mod real_functions {
    use super::*;

    real! {
        fn flock(file: c_int, act: c_int) -> c_int;
        fn lockf(file: c_int, act: c_int, size: i64) -> c_int;
        fn fcntl(file: c_int, act: c_int, argument: usize) -> c_int;
        fn fcntl64(file: c_int, act: c_int, argument: usize) -> c_int;
        fn semop(semaphores: c_int, acts: *mut Act, count: usize) -> c_int;
        fn semtimedop(semaphores: c_int, acts: *mut Act, count: usize, time: Bytes) -> c_int;
        fn semctl(semaphores: c_int, number: c_int, command: c_int, argument: usize) -> c_int;
        fn msgsnd(queue: c_int, message: Bytes, size: usize, flags: c_int) -> c_int;
        fn msgrcv(queue: c_int, message: Bytes, size: usize, kind: c_long, flags: c_int) -> isize;
        fn mq_send(queue: c_int, from: Bytes, size: usize, priority: c_uint) -> c_int;
        fn mq_timedsend(queue: c_int, from: Bytes, size: usize, priority: c_uint, time: Bytes) -> c_int;
        fn mq_receive(queue: c_int, to: Bytes, size: usize, priority: *mut c_uint) -> isize;
        fn mq_timedreceive(queue: c_int, to: Bytes, size: usize, priority: *mut c_uint, time: Bytes) -> isize;
    }
}

use real_functions as real_call;

/// `struct sembuf`.
#[repr(C)]
pub struct Act {
    number: u16,
    change: i16,
    flags: i16,
}

fn flock_act(act: c_int) -> file_lock::Act {
    const NONBLOCKING: c_int = 4;
    match act & !NONBLOCKING {
        1 => file_lock::Act::Share,
        2 => file_lock::Act::Lock,
        8 => file_lock::Act::Unlock,
        _ => file_lock::Act::Neither,
    }
}

/// # Safety
/// `argument` is what the program passed with `act`.
unsafe fn control_act(act: c_int, argument: usize) -> file_lock::Act {
    const OPEN_FILE_LOCK: [c_int; 2] = [37, 38];
    const UNLOCK: i16 = 2;
    if !OPEN_FILE_LOCK.contains(&act) || argument == 0 {
        return file_lock::Act::Neither;
    }
    // SAFETY: the caller's promise: a `struct flock`, which begins with what is wanted.
    match unsafe { (argument as *const i16).read_unaligned() } {
        UNLOCK => file_lock::Act::Unlock,
        _ => file_lock::Act::Lock,
    }
}

/// Whether `act` of `fcntl` waits for a lock.
fn waits_for_lock(act: c_int) -> bool {
    const SETLKW: c_int = 7;
    const OFD_SETLKW: c_int = 38;
    act == SETLKW || act == OFD_SETLKW
}

/// What raised a semaphore of a set, what lowered it, and that the set was removed.
fn raised(set: c_int, number: u64) -> Key {
    Key::new(kind::SEMAPHORES, set as u32 as u64, number)
}

fn lowered(set: c_int, number: u64) -> Key {
    Key::new(kind::SEMAPHORES_AT_ZERO, set as u32 as u64, number)
}

fn removal(set: c_int) -> Key {
    Key::new(kind::SEMAPHORES, set as u32 as u64, u64::MAX)
}

/// Whether a call has failed since its semaphores are gone.
fn was_removed() -> bool {
    const REMOVED: c_int = 43;
    const INVALID: c_int = 22;
    // SAFETY: the error number of this thread.
    let error = unsafe { crate::sys::__errno_location().read() };
    error == REMOVED || error == INVALID
}

/// Sets, asks for or removes System V semaphores with `call`.
fn controlling(
    set: c_int,
    number: c_int,
    command: c_int,
    pc: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    const REMOVE: c_int = 0;
    const GET_VALUE: c_int = 12;
    const SET_VALUE: c_int = 16;
    const SET_ALL: c_int = 17;
    /// Semaphores of a set that `SETALL` is taken to set.
    const MOST: u64 = 16;
    if !watching() {
        return call();
    }
    let mut sets = |number: u64| {
        channels::send(raised(set, number), pc);
        channels::send(lowered(set, number), pc);
    };
    match command {
        REMOVE => channels::send(removal(set), pc),
        SET_VALUE => sets(number as u32 as u64),
        SET_ALL => (0..MOST).for_each(&mut sets),
        _ => {}
    }
    let result = call();
    if command == GET_VALUE && result >= 0 {
        let number = number as u32 as u64;
        channels::receive_each([raised(set, number), lowered(set, number)], pc);
    }
    result
}

/// Changes System V semaphores with `call`.
///
/// # Safety
/// `acts` are `count` changes.
unsafe fn changing(
    semaphores: c_int,
    acts: *const Act,
    count: usize,
    pc: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    if !watching() || acts.is_null() {
        return call();
    }
    // SAFETY: the caller's promise.
    let change =
        |index: usize| unsafe { ((*acts.add(index)).number.into(), (*acts.add(index)).change) };
    let raised = |number| raised(semaphores, number);
    let lowered = |number| lowered(semaphores, number);
    for (number, change) in (0..count).map(change) {
        if change > 0 {
            channels::send(raised(number), pc);
        } else if change < 0 {
            channels::send(lowered(number), pc);
        }
    }
    let result = call();
    if result < 0 && was_removed() {
        channels::receive(removal(semaphores), pc);
    }
    if result == 0 {
        for (number, change) in (0..count).map(change) {
            if change < 0 {
                channels::receive(raised(number), pc);
            } else if change == 0 {
                channels::receive(lowered(number), pc);
            }
        }
    }
    result
}

/// The messages of one priority.
fn posix_queue(queue: c_int, priority: c_uint) -> Key {
    let (device, inode) = descriptor::identity(queue).unwrap_or((0, queue as u64));
    Key::new(kind::POSIX_QUEUE, device << 32 ^ inode, priority.into())
}

unsafe fn sent_to_queue(
    queue: c_int,
    (from, size): (Bytes, usize),
    priority: c_uint,
    pc: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    buffer::kernel_reads(from, size, pc);
    if watching() {
        channels::send(posix_queue(queue, priority), pc);
    }
    call()
}

/// Takes a message with `call`, which stores its priority where it is told to.
unsafe fn taken_from_queue(
    queue: c_int,
    (to, size): (Bytes, usize),
    priority: *mut c_uint,
    pc: usize,
    call: impl FnOnce(*mut c_uint) -> isize,
) -> isize {
    let mut own = 0;
    let place = if priority.is_null() {
        &raw mut own
    } else {
        priority
    };
    let result = call(place);
    if result >= 0 && watching() {
        // SAFETY: the call has filled it in.
        channels::receive(posix_queue(queue, unsafe { *place }), pc);
        buffer::filled(priority, size_of::<c_uint>(), pc);
    }
    buffer::received(to, result, size, pc);
    result
}

interpose! {
    fn flock(file: c_int, act: c_int) -> c_int |pc| {
        file_lock::changing(file, flock_act(act), pc, || away(|| real_call::flock(file, act)))
    }
    fn lockf(file: c_int, act: c_int, size: i64) -> c_int |pc| {
        away(|| real_call::lockf(file, act, size))
    }
    // The last argument is in a register whether the program passed it or not.
    fn fcntl(file: c_int, act: c_int, argument: usize) -> c_int |pc| {
        file_lock::changing(file, control_act(act, argument), pc, || {
            away_unless(!waits_for_lock(act), || real_call::fcntl(file, act, argument))
        })
    }
    fn fcntl64(file: c_int, act: c_int, argument: usize) -> c_int |pc| {
        file_lock::changing(file, control_act(act, argument), pc, || {
            away_unless(!waits_for_lock(act), || real_call::fcntl64(file, act, argument))
        })
    }

    // The last argument is in a register whether the program passed it or not.
    fn semctl(semaphores: c_int, number: c_int, command: c_int, argument: usize) -> c_int |pc| {
        controlling(semaphores, number, command, pc, || {
            real_call::semctl(semaphores, number, command, argument)
        })
    }
    fn semop(semaphores: c_int, acts: *mut Act, count: usize) -> c_int |pc| {
        changing(semaphores, acts, count, pc, || {
            away(|| real_call::semop(semaphores, acts, count))
        })
    }
    fn semtimedop(semaphores: c_int, acts: *mut Act, count: usize, time: Bytes) -> c_int |pc| {
        changing(semaphores, acts, count, pc, || {
            away(|| real_call::semtimedop(semaphores, acts, count, time))
        })
    }

    // The type of a message, a long, precedes its text.
    fn msgsnd(queue: c_int, message: Bytes, size: usize, flags: c_int) -> c_int |pc| {
        buffer::kernel_reads(message, size.saturating_add(8), pc);
        if watching() && !message.is_null() {
            let sort = message.cast::<u64>().read_unaligned();
            channels::send(Key::new(kind::MESSAGE_QUEUE, queue as u32 as u64, sort), pc);
        }
        away(|| real_call::msgsnd(queue, message, size, flags))
    }
    fn msgrcv(queue: c_int, message: Bytes, size: usize, sort: c_long, flags: c_int) -> isize |pc| {
        let result = away(|| real_call::msgrcv(queue, message, size, sort, flags));
        if result >= 0 {
            if watching() {
                let sort = message.cast::<u64>().read_unaligned();
                channels::receive(Key::new(kind::MESSAGE_QUEUE, queue as u32 as u64, sort), pc);
            }
            buffer::filled(message, result as usize + 8, pc);
        }
        result
    }
    fn mq_send(queue: c_int, from: Bytes, size: usize, priority: c_uint) -> c_int |pc| {
        sent_to_queue(queue, (from, size), priority, pc, || {
            away(|| real_call::mq_send(queue, from, size, priority))
        })
    }
    fn mq_timedsend(queue: c_int, from: Bytes, size: usize, priority: c_uint, time: Bytes) -> c_int |pc| {
        sent_to_queue(queue, (from, size), priority, pc, || {
            away(|| real_call::mq_timedsend(queue, from, size, priority, time))
        })
    }
    fn mq_receive(queue: c_int, to: Bytes, size: usize, priority: *mut c_uint) -> isize |pc| {
        taken_from_queue(queue, (to, size), priority, pc, |place| {
            away(|| real_call::mq_receive(queue, to, size, place))
        })
    }
    fn mq_timedreceive(queue: c_int, to: Bytes, size: usize, priority: *mut c_uint, time: Bytes) -> isize |pc| {
        taken_from_queue(queue, (to, size), priority, pc, |place| {
            away(|| real_call::mq_timedreceive(queue, to, size, place, time))
        })
    }
}
