//! Signals as channels: who sent one, or said what is to be done with it, comes before who gets it.

use core::ffi::c_int;

use super::{Key, has_sender, kind, others, receive_each, send, watching};
use crate::{guard, real, sys};

real! {
    fn pthread_self() -> usize;
}

/// Whom a signal is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Any thread of the process.
    Process,
    /// A thread, by its handle.
    Thread(usize),
}

fn key(signal: c_int, target: Target) -> Key {
    let target = match target {
        Target::Process => 0,
        Target::Thread(handle) => handle as u64,
    };
    Key::new(kind::SIGNAL, signal as u32 as u64, target)
}

/// Any signal: of a timer that was made elsewhere it is not known which one.
const ANY: c_int = 0;

fn action(signal: c_int) -> Key {
    Key::new(kind::SIGNAL_ACTION, signal as u32 as u64, 0)
}

/// The running thread is about to send a signal.
pub fn sends(signal: c_int, target: Target, pc: usize) {
    guard::sends_signal();
    send(key(signal, target), pc);
}

/// The running thread is about to start a timer, or to ask for a message to be told.
pub fn starts_timer(pc: usize) {
    sends(ANY, Target::Process, pc);
}

/// The running thread was created unseen: by the C library, for a timer or a queue.
pub fn begins_unseen() {
    receive_each([key(ANY, Target::Process)], 0);
}

/// The running thread is about to say what is to be done with a signal.
pub fn sets_action(signal: c_int, pc: usize) {
    send(action(signal), pc);
}

/// The running thread has got a signal: its handler begins, or a call has returned it.
pub fn received(signal: c_int, pc: usize) {
    // SAFETY: a plain call; it reads the thread control block.
    let own = unsafe { pthread_self() };
    let keys = [
        key(signal, Target::Process),
        key(signal, Target::Thread(own)),
        key(ANY, Target::Process),
        action(signal),
    ];
    receive_each(keys, pc);
    if others::are_there() && !keys[..3].iter().any(|key| has_sender(*key)) {
        others::got(pc);
    }
}

/// The running thread has asked which signals wait for it.
pub fn pending(pc: usize) {
    const RT_SIGPENDING: usize = 127;
    if !watching() {
        return;
    }
    let mut waiting = 0u64;
    // SAFETY: the kernel writes one word.
    unsafe {
        sys::call(
            RT_SIGPENDING,
            &raw mut waiting as usize,
            size_of::<u64>(),
            0,
        )
    };
    for number in (1..=64).filter(|number| waiting >> (number - 1) & 1 != 0) {
        received(number, pc);
    }
}
