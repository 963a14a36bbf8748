//! Barriers in replay, where the core emulates them, and in detect mode.

use core::ffi::{c_int, c_void};

use norns_control::{Happened, How};

use super::monitor::MONITOR;
use super::operations::{note, operation};
use super::thread::Own;
use super::{enter, is_replaying, with_clocks};
use crate::detect::BarrierRound;
use crate::wire::{Code, object};

/// Waits at a barrier in replay; 0, or -1 for the one thread of a round.
pub fn wait(barrier: *mut c_void, pc: usize) -> Option<c_int> {
    if !is_replaying() {
        return None;
    }
    let mut inside = enter()?;
    let me = inside.block.slot();
    let object = barrier as usize;
    let mut guard = MONITOR.lock();
    if !guard.knows_barrier(object) {
        return None;
    }
    let enters = operation(Code::BarrierEnter, barrier, pc);
    guard.drive(&mut inside, Happened::Arrives(enters, How::AtItsTurn));
    note(Code::BarrierEnter, object::BARRIER, barrier, pc);
    let clocks = entering(inside.own(), object);
    let (round, last) = guard.arrive_at_barrier(object);
    guard.note(me, Happened::Completes);
    guard.note(me, Happened::Changes(object));
    let exits = operation(Code::BarrierExit, barrier, pc);
    let how = How::RoundOver { round };
    guard.drive(&mut inside, Happened::Arrives(exits, how));
    drop(guard);
    note(Code::BarrierExit, object::BARRIER, barrier, pc);
    left(inside.own(), object, clocks);
    Some(if last { -1 } else { 0 })
}

fn entering(me: &mut Own, object: usize) -> Option<BarrierRound> {
    let mut round = None;
    with_clocks(me, |detector, thread| {
        round = Some(detector.barrier_enter(thread, object));
    });
    round
}

fn left(me: &mut Own, object: usize, round: Option<BarrierRound>) {
    with_clocks(me, |detector, thread| {
        if let Some(round) = round {
            detector.barrier_exit(thread, object, round);
        }
    });
}

/// A barrier in detect mode: `real` is the function of the C library.
pub fn watched(barrier: *mut c_void, real: impl FnOnce() -> c_int) -> c_int {
    let object = barrier as usize;
    let round = enter().and_then(|mut inside| entering(inside.own(), object));
    let result = real();
    if let Some(mut inside) = enter() {
        left(inside.own(), object, round);
    }
    result
}
