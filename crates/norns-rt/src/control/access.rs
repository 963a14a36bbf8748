//! Memory accesses and atomic operations in replay and detect mode.

use core::sync::atomic::{AtomicU64, Ordering};

use norns_control::{Access, Happened, How, Operation, Schedule};

use super::monitor::{MONITOR, is_any_suspected};
use super::output::tell;
use super::report::{path_of, with_stack};
use super::thread::{ControlThread, Inside};
use super::{enter, is_replaying, with_clocks};
use crate::attach;
use crate::detect::{AtomicEffect, Kind, Order, Race};
use crate::mode::is_serial;
use crate::record::{self, values};
use crate::schedule::What;
use crate::thread::Thread;
use crate::wire::report::{self, Message, Side, Waiting};
use crate::wire::{self, Code};

/// The program counters of accesses that the schedule names, as a small Bloom filter: an access at
/// another place may be looked at in vain, but none is missed.
static WATCHED: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

fn bit(pc: usize) -> (usize, u64) {
    let hash = pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
    (hash >> 6, 1 << (hash & 63))
}

/// Watches every place at which an access may have to wait or be held; `now_at` says where a recorded
/// address is now.
pub fn watch(schedule: &Schedule, now_at: impl Fn(usize) -> usize) {
    let accesses = schedule.steps.iter();
    let accesses = accesses.filter(|step| matches!(step.what, What::Access { .. }));
    let steps = accesses.map(|step| step.pc as usize);
    let holds = schedule.holds.iter().flatten().map(|hold| hold.pc as usize);
    let hunts = schedule.hunts.iter().copied();
    for pc in steps.chain(holds).chain(hunts) {
        let (word, bit) = bit(now_at(pc));
        WATCHED[word].fetch_or(bit, Ordering::Relaxed);
    }
}

#[inline]
fn is_watched(pc: usize) -> bool {
    let (word, bit) = bit(pc);
    WATCHED[word].load(Ordering::Relaxed) & bit != 0
}

/// A plain read or write is about to happen.
#[inline]
pub fn access(address: usize, size: usize, write: bool, pc: usize) {
    let Some(mut inside) = enter() else { return };
    if crate::thread::current().is_some_and(|runtime| runtime.ignored != 0) {
        return;
    }
    if is_replaying() {
        let access = Access {
            address,
            size,
            write,
            atomic: false,
            pc,
        };
        replay(&mut inside, access, Loops::MayWait);
    }
    let kind = if write { Kind::Write } else { Kind::Read };
    detect_access(&mut inside, address, size, kind, pc);
}

/// What an operation does to the life of its object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Life {
    BeginsOrEnds,
    GoesOn,
}

/// A synchronisation object is about to be used, initialised or destroyed. For a replay this is an
/// access to its first byte.
#[inline]
pub fn object(address: usize, life: Life, pc: usize) {
    if !is_replaying() {
        return;
    }
    let Some(mut inside) = enter() else { return };
    let access = Access {
        address,
        size: 1,
        write: life == Life::BeginsOrEnds,
        atomic: false,
        pc,
    };
    replay(&mut inside, access, Loops::MayWait);
}

/// Whether a loop may wait for the access of another thread, if that writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loops {
    MayWait,
    DoNotWait,
}

/// Tells the core of an access, if the thread is watched, a loop is suspected, or the schedule may
/// name the place.
#[inline]
fn replay(inside: &mut Inside, access: Access, loops: Loops) {
    let is_followed = inside.block.watched.load(Ordering::Relaxed) || is_any_suspected();
    let may_wait = is_watched(access.pc) || inside.own().pending_access;
    if is_followed || may_wait {
        replay_closely(inside, access, loops, is_followed, may_wait);
    }
}

#[cold]
#[inline(never)]
fn replay_closely(
    inside: &mut Inside,
    access: Access,
    loops: Loops,
    is_followed: bool,
    may_wait: bool,
) {
    let Access {
        address,
        size,
        write,
        pc,
        ..
    } = access;
    let me = inside.block.slot();
    let mut guard = MONITOR.lock();
    if is_followed {
        let reads = (!write).then_some(size);
        guard.note(me, Happened::Passes { pc, address, reads });
    }
    if may_wait {
        guard.drive(inside, Happened::Accesses(access));
    }
    if write && loops == Loops::MayWait && guard.is_any_suspected() {
        guard.note(me, Happened::Writes { address, size });
    }
}

/// As `access`, in detect mode without replay. `block` is the running thread's.
#[inline]
pub fn detect(block: *mut Thread, address: usize, size: usize, write: bool, pc: usize) {
    // SAFETY: the word that `block` came from is set only while the thread is attached, and its
    // `control` with it.
    let (control, ignored) = unsafe { (&*(*block).control, (*block).ignored) };
    if ignored != 0 {
        return;
    }
    // SAFETY: as above: the block of the running thread.
    if let Some(mut inside) = unsafe { Inside::enter(control) } {
        let kind = if write { Kind::Write } else { Kind::Read };
        detect_access(&mut inside, address, size, kind, pc);
    }
}

#[inline]
fn detect_access(inside: &mut Inside, address: usize, size: usize, kind: Kind, pc: usize) {
    let block = inside.block;
    with_clocks(inside.own(), |detector, thread| {
        detector.access(thread, address, size, kind, pc, |race| {
            tell_race(&race, block, false);
        });
    });
}

/// A block is about to be freed.
pub fn freeing(address: usize, size: usize, pc: usize) {
    if address == 0 {
        return;
    }
    let Some(mut inside) = enter() else { return };
    if is_replaying() {
        let access = Access {
            address,
            size: size.max(1),
            write: true,
            atomic: false,
            pc,
        };
        replay(&mut inside, access, Loops::DoNotWait);
    }
    let block = inside.block;
    with_clocks(inside.own(), |detector, thread| {
        detector.free(thread, address, size, pc, |race| {
            tell_race(&race, block, true);
        });
    });
}

/// A block, mapping or stack came into use.
pub fn allocated(address: usize, size: usize) {
    if let Some(detector) = super::detector() {
        detector.forget_memory(address, size);
    }
}

/// Hashes of the pairs of places that were reported, with and without a loop that may order them. When the set is full, pairs are reported again.
static TOLD: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

fn is_new(race: &Race) -> bool {
    let key = (race.earlier.pc as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(race.later.pc as u64)
        .wrapping_mul(0xd6e8_feb8_6659_fd93)
        .wrapping_add(u64::from(race.may_wait) << 52)
        | 1;
    let mut index = (key >> 52) as usize;
    for _ in 0..64 {
        let place = &TOLD[index & 4095];
        match place.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(seen) if seen == key => return false,
            Err(_) => index += 1,
        }
    }
    true
}

/// Reports a race of the running thread, whose block this is.
#[cold]
#[inline(never)]
fn tell_race(race: &Race, me: &ControlThread, frees: bool) {
    if !is_new(race) {
        return;
    }
    let access = |kind| match kind {
        Kind::Read => report::Access::Read,
        Kind::Write => report::Access::Write,
        Kind::AtomicRead => report::Access::AtomicRead,
        Kind::AtomicWrite => report::Access::AtomicWrite,
    };
    let earlier = Side {
        thread: race
            .earlier
            .thread
            .map_or("?", |name| path_of(norns_control::Slot(name.0))),
        access: access(race.earlier.kind),
        address: race.address as u64,
        size: race.earlier.size as u32,
        pc: race.earlier.pc as u64,
    };
    let later = Side {
        thread: me.path.as_str(),
        access: if frees {
            report::Access::Free
        } else {
            access(race.later.kind)
        },
        address: race.address as u64,
        size: race.later.size as u32,
        pc: race.later.pc as u64,
    };
    // SAFETY: the running thread.
    unsafe {
        with_stack(me.slot(), |stack| {
            tell(Message::Race {
                waits: if race.may_wait {
                    Waiting::MayWait
                } else {
                    Waiting::DoesNotWait
                },
                earlier,
                later,
                stack,
            });
        });
    }
}

const LOAD: u8 = 0;
const STORE: u8 = 1;
const FAILED_EXCHANGE: u8 = 3;

/// An atomic operation in a recording with values.
fn atomic_with_value<R>(
    kind: u8,
    address: usize,
    size: usize,
    order: i32,
    failure: i32,
    pc: usize,
    operate: impl FnOnce() -> (R, bool),
) -> R {
    if let Some(mut inside) = enter() {
        let operation = Operation::new(Code::Atomic, address, pc);
        let arrives = Happened::Arrives(operation, How::AtItsTurn);
        MONITOR.lock().drive(&mut inside, arrives);
    }
    let thread = if record::started() {
        attach::current()
    } else {
        None
    };
    let Some(thread) = thread else {
        return operate().0;
    };
    let log2 = size.trailing_zeros() as u8;
    values::atomic(thread, address, size, pc, operate, |succeeded| {
        if succeeded {
            let detail = wire::atomic_detail(log2, kind, order as u8);
            (detail, kind != STORE, kind != LOAD)
        } else {
            let detail = wire::atomic_detail(log2, FAILED_EXCHANGE, failure as u8);
            (detail, true, false)
        }
    })
}

/// Waits for the turn of an atomic operation, with the monitor locked from here on.
fn atomic_turn(inside: &mut Inside, kind: u8, access: Access) -> super::monitor::Guard {
    let Access {
        address, size, pc, ..
    } = access;
    let me = inside.block.slot();
    let mut guard = MONITOR.lock();
    if is_watched(pc) {
        guard.drive(inside, Happened::Accesses(access));
    }
    let reads = (kind != STORE).then_some(size);
    guard.note(me, Happened::Passes { pc, address, reads });
    let operation = Operation {
        atomic: kind,
        may_fail: kind > STORE,
        ..Operation::new(Code::Atomic, address, pc)
    };
    guard.drive(inside, Happened::Arrives(operation, How::AtItsTurn));
    if access.write && guard.is_any_suspected() {
        guard.note(me, Happened::Writes { address, size });
    }
    guard
}

/// Does an atomic operation; `operate` does the real one and says whether it wrote (false only
/// for a compare-exchange that failed). `kind` is as in `wire::atomic_detail`, `failure` the order
/// of a failed one. An operation of size 0 orders as one on this address would, but accesses no
/// memory.
pub fn atomic<R>(
    kind: u8,
    address: usize,
    size: usize,
    order: i32,
    failure: i32,
    pc: usize,
    operate: impl FnOnce() -> (R, bool),
) -> R {
    if is_serial() {
        return atomic_with_value(kind, address, size, order, failure, pc, operate);
    }
    let Some(mut inside) = enter() else {
        return operate().0;
    };
    let guard = is_replaying().then(|| {
        let access = Access {
            address,
            size,
            write: kind != LOAD,
            atomic: true,
            pc,
        };
        atomic_turn(&mut inside, kind, access)
    });
    let block = inside.block;
    let result;
    let succeeded;
    if let Some(detector) = super::detector()
        && let Some(thread) = inside.own().detect.as_mut()
    {
        let var = detector.atomic_begin(address);
        (result, succeeded) = operate();
        let (effect, order) = match kind {
            LOAD => (AtomicEffect::Load, order),
            STORE => (AtomicEffect::Store, order),
            _ if succeeded => (AtomicEffect::ReadModifyWrite, order),
            _ => (AtomicEffect::Load, failure),
        };
        let mut race_found = None;
        let order = Order::from_abi(order);
        detector.atomic_end(thread, var, effect, order, (address, size), pc, |race| {
            race_found = Some(race);
        });
        if let Some(race) = race_found {
            tell_race(&race, block, false);
        }
    } else {
        (result, succeeded) = operate();
    }
    if let Some(mut guard) = guard {
        let completes = Happened::CompletesAtomic {
            address,
            pc,
            succeeded,
        };
        guard.drive(&mut inside, completes);
    }
    result
}
