//! Calls that send or receive through a descriptor, with the orders that they make.

use super::descriptor::{self, Way, Ways};
use super::{
    begin_receive, begin_send, end_receive, end_send, file_lock, files_watched, has_receiver,
    has_sender, life, look, others, receive, receive_end, send, send_end, signal, unknown,
    watching,
};
use crate::{inputs, sys};

const EINVAL: i32 = 22;

/// What a result of the C library says of an amount: errors are below zero.
fn amount(result: isize) -> u64 {
    result.max(0) as u64
}

/// An amount that no call of a program reaches: of an eventfd all of the value may be received.
const ALL_OF_A_COUNTER: u64 = 1 << 48;

/// Sends up to `wanted` bytes with `call`, which returns how many it did. `value` is what an eventfd
/// is given.
pub fn sending(
    file: i32,
    wanted: usize,
    value: impl FnOnce() -> u64,
    pc: usize,
    call: impl FnOnce() -> isize,
) -> isize {
    let result = life::using(file, pc, || send_through(file, wanted, value, pc, call));
    inputs::sent(file, result);
    result
}

fn send_through(
    file: i32,
    wanted: usize,
    value: impl FnOnce() -> u64,
    pc: usize,
    call: impl FnOnce() -> isize,
) -> isize {
    if !watching() {
        return call();
    }
    let ways = descriptor::ways(file);
    note_outside(&ways, pc);
    give_to_others(&ways, pc);
    let waits_for_room = is_full(file, &ways);
    let result = match ways.out {
        Way::Nothing | Way::Signals | Way::Connections(_) | Way::Unknown => call(),
        Way::File(key) => {
            files_watched::change(pc);
            send(key, pc);
            call()
        }
        Way::Everything(key) => {
            send(key, pc);
            call()
        }
        Way::Stream { key, sender } => {
            let initial = || descriptor_content(file, sender);
            let sending = begin_send(key, sender, wanted as u64, initial, pc);
            let result = call();
            end_send(sending, amount(result));
            result
        }
        Way::Counter(key) => {
            let value = value();
            let sending = begin_send(key, 0, value, || descriptor::counter(file), pc);
            let result = call();
            end_send(sending, if result > 0 { value } else { 0 });
            result
        }
    };
    if waits_for_room && result > 0 && is_received(&ways) {
        unknown::called(unknown::WRITE, pc);
    }
    result
}

/// Whether a call that sends now has to wait until somebody has received something.
fn is_full(file: i32, ways: &Ways) -> bool {
    matches!(ways.out, Way::Stream { .. } | Way::Counter(_))
        && !descriptor::is_ready(file, descriptor::TO_WRITE)
}

/// Whether a thread of this process receives what is sent this way.
fn is_received(ways: &Ways) -> bool {
    match ways.out {
        Way::Stream { key, .. } | Way::Counter(key) => has_receiver(key),
        _ => false,
    }
}

/// A call has waited until there was room in this descriptor. Which thread has made it is not known.
pub fn found_room(file: i32, pc: usize) {
    if is_received(&descriptor::ways(file)) {
        unknown::called(unknown::WRITE, pc);
    }
}

/// What another process may receive.
fn give_to_others(ways: &Ways, pc: usize) {
    if !others::are_there() {
        return;
    }
    if let Way::Stream { key, .. } | Way::Everything(key) | Way::Counter(key) = ways.out
        && !has_receiver(key)
    {
        others::given(pc);
    }
}

/// What another process may have sent.
fn get_from_others(ways: &Ways, pc: usize) {
    if !others::are_there() {
        return;
    }
    if let Way::Stream { key, .. } | Way::Everything(key) | Way::Counter(key) = ways.into
        && !has_sender(key)
    {
        others::got(pc);
    }
}

/// What is in a stream before the first send that is seen. Of a connection, whose other end is
/// elsewhere, that cannot be asked here.
fn descriptor_content(file: i32, sender: u64) -> u64 {
    if sender == 0 {
        descriptor::waiting(file)
    } else {
        0
    }
}

/// What goes to another process may come back as an answer on the same descriptor.
fn note_outside(ways: &Ways, pc: usize) {
    let Some(outside) = ways.outside else { return };
    let stays_inside = match ways.out {
        Way::Stream { key, .. } | Way::Everything(key) => has_receiver(key),
        Way::Nothing
        | Way::File(_)
        | Way::Counter(_)
        | Way::Connections(_)
        | Way::Signals
        | Way::Unknown => false,
    };
    if !stays_inside {
        send(outside, pc);
    }
}

/// How a call leaves what it receives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    Nothing,
    /// `MSG_PEEK`: the next call receives it again.
    Everything,
}

/// Receives up to `wanted` bytes with `call`, which returns how many it did. `value` looks at what
/// an eventfd or a signalfd gave.
///
/// # Safety
/// `to` has as many bytes as the call returns, where that is an eventfd or a signalfd.
pub unsafe fn receiving(
    file: i32,
    to: *const u8,
    wanted: usize,
    leaves: Leaves,
    pc: usize,
    call: impl FnOnce() -> isize,
) -> isize {
    // SAFETY: the caller's promise.
    let through = || unsafe { receive_through(file, to, wanted, leaves, pc, call) };
    life::using(file, pc, through)
}

/// # Safety
/// As `receiving`.
unsafe fn receive_through(
    file: i32,
    to: *const u8,
    wanted: usize,
    leaves: Leaves,
    pc: usize,
    call: impl FnOnce() -> isize,
) -> isize {
    if !watching() {
        return call();
    }
    let ways = descriptor::ways(file);
    let result = match ways.into {
        Way::Nothing | Way::Connections(_) => call(),
        Way::Unknown => {
            let result = call();
            if result > 0 {
                unknown::called(unknown::READ, pc);
            }
            result
        }
        // A connection that ends has been closed at the other end.
        Way::Everything(key) => {
            let result = call();
            if result >= 0 {
                receive(key, pc);
            }
            if result == 0 {
                receive_end(key, pc);
            }
            result
        }
        Way::File(key) => {
            files_watched::change(pc);
            let result = call();
            if result > 0 {
                receive(key, pc);
            }
            result
        }
        Way::Stream { key, .. } => {
            let receiving = begin_receive(key, wanted as u64, || descriptor::waiting(file));
            let result = call();
            let keeps = leaves == Leaves::Everything;
            end_receive(receiving, amount(result), keeps, pc);
            if result == 0 && wanted > 0 {
                receive_end(key, pc);
            }
            result
        }
        Way::Counter(key) => {
            let initial = || descriptor::counter(file);
            let receiving = begin_receive(key, ALL_OF_A_COUNTER, initial);
            let result = call();
            let value = if result == 8 && !to.is_null() {
                // SAFETY: the caller's promise.
                unsafe { to.cast::<u64>().read_unaligned() }
            } else {
                0
            };
            end_receive(receiving, value, false, pc);
            result
        }
        Way::Signals => {
            let result = call();
            const INFORMATION: usize = 128;
            for at in 0..amount(result) as usize / INFORMATION {
                // SAFETY: the caller's promise; every signal begins with its number.
                let number = unsafe { to.add(at * INFORMATION).cast::<i32>().read_unaligned() };
                signal::received(number, pc);
            }
            result
        }
    };
    if result >= 0 {
        receive_outside(&ways, pc);
        get_from_others(&ways, pc);
    }
    result
}

fn receive_outside(ways: &Ways, pc: usize) {
    if let Some(outside) = ways.outside {
        receive(outside, pc);
    }
}

/// A call has found this descriptor ready to be read; with `ended` it has found the end.
pub fn found_ready(file: i32, ended: bool, pc: usize) {
    let ways = descriptor::ways(file);
    match ways.into {
        // A file is always ready.
        Way::Nothing | Way::File(_) => {}
        Way::Signals => signal::pending(pc),
        Way::Unknown => unknown::called(unknown::READ, pc),
        Way::Everything(key) => receive(key, pc),
        Way::Stream { key, .. } => {
            look(key, || descriptor::waiting(file), pc);
            if ended {
                receive_end(key, pc);
            }
        }
        Way::Counter(key) => look(key, || descriptor::counter(file), pc),
        Way::Connections(key) => look(key, || 0, pc),
    }
    receive_outside(&ways, pc);
    get_from_others(&ways, pc);
}

/// The descriptor is about to be closed, or the writing end of a connection: its reader may find the
/// end.
pub fn closing(file: i32, pc: usize) {
    if !watching() {
        return;
    }
    let ways = descriptor::ways(file);
    give_to_others(&ways, pc);
    match ways.out {
        Way::Stream { key, sender } if sender != 0 || descriptor::is_writable(file) => {
            send_end(key, || descriptor_content(file, sender), pc);
        }
        Way::Everything(key) => send(key, pc),
        Way::File(_) => {
            files_watched::change(pc);
            file_lock::closing(file, pc);
        }
        Way::Stream { .. }
        | Way::Nothing
        | Way::Counter(_)
        | Way::Connections(_)
        | Way::Signals
        | Way::Unknown => {}
    }
}

/// The socket is about to be shut down: its reader, on either side, may find the end, and whoever waits
/// for a connection gets an error.
pub fn shutting_down(file: i32, how: i32, pc: usize) {
    const WRITING: i32 = 1;
    closing(file, pc);
    if !watching() || how == WRITING {
        return;
    }
    if let Way::Stream { key, .. } | Way::Everything(key) | Way::Connections(key) =
        descriptor::ways(file).into
    {
        send_end(key, || 0, pc);
    }
}

/// Takes a connection with `call`, which returns its descriptor.
pub fn accepting(file: i32, pc: usize, call: impl FnOnce() -> i32) -> i32 {
    let call = || {
        let result = call();
        inputs::accepted(result);
        result
    };
    life::used(file, pc);
    if !watching() {
        return call();
    }
    let Way::Connections(key) = descriptor::ways(file).into else {
        return call();
    };
    let receiving = begin_receive(key, 1, || 0);
    let result = call();
    end_receive(receiving, u64::from(result >= 0), false, pc);
    // SAFETY: the error number of this thread.
    if result < 0 && unsafe { sys::__errno_location().read() } == EINVAL {
        receive_end(key, pc);
    }
    if result >= 0 {
        life::accepted(result, pc);
        // From here on it is known that the other end sends to this process.
        descriptor::ways(result);
    }
    result
}
