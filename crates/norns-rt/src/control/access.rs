//! Memory accesses and atomic operations in replay and detect mode.

use core::sync::atomic::{AtomicU64, Ordering};

use super::hold::Access;
use super::output::tell;
use super::serial::Point;
use super::spin;
use super::thread::{ControlThread, Operation};
use super::{MONITOR, enter, is_replaying, with_clocks};
use crate::attach;
use crate::detect::{AtomicEffect, Kind, Order, Race};
use crate::mode::is_serial;
use crate::record::{self, values};
use crate::thread::Thread;
use crate::wire::report::{self, Message, Side};
use crate::wire::{self, Code};

/// Program counters at which a replay must look closer, as a small hash set without misses: a
/// place that is not watched may still be looked at.
static WATCHED: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

fn bit(pc: usize) -> (usize, u64) {
    let hash = pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
    (hash >> 6, 1 << (hash & 63))
}

pub fn watch_schedule() {
    MONITOR.lock().for_each_access_pc(|pc| {
        let (word, bit) = bit(pc);
        WATCHED[word].fetch_or(bit, Ordering::Relaxed);
    });
}

#[inline]
fn is_watched(pc: usize) -> bool {
    let (word, bit) = bit(pc);
    WATCHED[word].load(Ordering::Relaxed) & bit != 0
}

/// A plain read or write is about to happen.
#[inline]
pub fn access(address: usize, size: usize, write: bool, pc: usize) {
    let Some(inside) = enter() else { return };
    let me = &mut *inside.me;
    // SAFETY: the block of the running thread.
    if unsafe { me.runtime.as_ref() }.is_some_and(|runtime| runtime.ignored != 0) {
        return;
    }
    if is_replaying() {
        me.comes_to(pc, address, (!write).then_some(size));
        if spin::is_somebody_suspected(me) {
            spin::comes_to_write(me, None);
        }
        if is_watched(pc) || me.pending_access != 0 {
            let access = Access {
                address,
                size,
                write,
                atomic: false,
                pc,
            };
            MONITOR.lock().before_access(me, access);
        }
        if write && spin::is_somebody_suspected(me) {
            spin::comes_to_write(me, Some((address, size)));
        }
    }
    let kind = if write { Kind::Write } else { Kind::Read };
    watch(me, address, size, kind, pc);
}

/// The same in detect mode alone; `block` is the running thread's.
#[inline]
pub fn detect(block: *mut Thread, address: usize, size: usize, write: bool, pc: usize) {
    // SAFETY: the word that `block` came from is set only while the thread is attached, and its
    // `control` with it.
    let (me, ignored) = unsafe { (&mut *(*block).control, (*block).ignored) };
    if me.inside != 0 || ignored != 0 {
        return;
    }
    me.inside = 1;
    let kind = if write { Kind::Write } else { Kind::Read };
    watch(me, address, size, kind, pc);
    me.inside = 0;
}

#[inline]
fn watch(me: &mut ControlThread, address: usize, size: usize, kind: Kind, pc: usize) {
    let path = &raw const *me;
    with_clocks(me, |detector, thread| {
        detector.access(thread, address, size, kind, pc, |race| {
            // SAFETY: `tell_race` reads only what the detector does not change: path and stack.
            tell_race(&race, unsafe { &*path }, false);
        });
    });
}

/// A block is about to be freed.
pub fn freeing(address: usize, size: usize, pc: usize) {
    if address == 0 {
        return;
    }
    let Some(inside) = enter() else { return };
    let me = &mut *inside.me;
    if is_replaying() && (is_watched(pc) || me.pending_access != 0) {
        let access = Access {
            address,
            size: size.max(1),
            write: true,
            atomic: false,
            pc,
        };
        MONITOR.lock().before_access(me, access);
    }
    let path = &raw const *me;
    with_clocks(me, |detector, thread| {
        detector.free(thread, address, size, pc, |race| {
            // SAFETY: as in `watch`.
            tell_race(&race, unsafe { &*path }, true);
        });
    });
}

/// A block, mapping or stack came into use.
pub fn allocated(address: usize, size: usize) {
    if let Some(detector) = super::detector() {
        detector.forget_memory(address, size);
    }
}

/// Pairs of places that were told already, by hash; a full set tells again.
static TOLD: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

fn is_new(race: &Race) -> bool {
    let key = (race.earlier.pc as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(race.later.pc as u64)
        .wrapping_mul(0xd6e8_feb8_6659_fd93)
        | 1;
    let mut index = (key >> 52) as usize;
    for _ in 0..64 {
        let slot = &TOLD[index & 4095];
        match slot.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(seen) if seen == key => return false,
            Err(_) => index += 1,
        }
    }
    true
}

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
            .map_or("?", |name| super::threads::path_of(name.0)),
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
    super::with_stack(me, |stack| {
        tell(Message::Race {
            earlier,
            later,
            stack,
        });
    });
}

const LOAD: u8 = 0;
const STORE: u8 = 1;
const FAILED_EXCHANGE: u8 = 3;

/// In a recording with values.
fn atomic_with_value<R>(
    kind: u8,
    address: usize,
    size: usize,
    order: i32,
    failure: i32,
    pc: usize,
    operate: impl FnOnce() -> (R, bool),
) -> R {
    if let Some(inside) = enter() {
        MONITOR.lock().serial_point(inside.me, Point::Operation);
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

/// Does an atomic operation; `operate` does the real one and says whether it wrote (false only
/// for a compare-exchange that failed). `kind` is as in `wire::atomic_detail`, `failure` the order
/// of a failed one. Of size 0, it orders as an operation on this address would, but accesses
/// nothing.
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
    let Some(inside) = enter() else {
        return operate().0;
    };
    let me = &mut *inside.me;
    let writes = kind != LOAD;
    let mut guard = is_replaying().then(|| {
        let mut guard = MONITOR.lock();
        if is_watched(pc) {
            let access = Access {
                address,
                size,
                write: writes,
                atomic: true,
                pc,
            };
            guard.before_access(me, access);
        }
        let operation = Operation {
            code: Code::Atomic,
            atomic: kind,
            may_fail: kind > STORE,
            fails_by_cancel: false,
            address,
            pc,
        };
        me.comes_to(pc, address, (kind != STORE).then_some(size));
        guard.take_turn(me, operation);
        if writes && spin::is_somebody_suspected(me) {
            spin::comes_to_write(me, Some((address, size)));
        }
        guard
    });
    let result;
    let succeeded;
    if let Some(detector) = super::detector()
        && me.detect.is_some()
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
        if let Some(thread) = me.detect.as_mut() {
            let order = Order::from_abi(order);
            detector.atomic_end(thread, var, effect, order, (address, size), pc, |race| {
                race_found = Some(race);
            });
        }
        if let Some(race) = race_found {
            tell_race(&race, me, false);
        }
    } else {
        (result, succeeded) = operate();
    }
    if let Some(guard) = &mut guard {
        guard.finish_atomic(me, address, pc, succeeded);
    }
    result
}
