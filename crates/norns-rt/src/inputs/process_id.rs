//! The id of the process: in replays the one that it had when it was recorded.
//!
//! Programs draw random seeds from it, and put it into names of files and into messages. In a replay the
//! program is told the recorded id, and whatever it says of that id is passed to the kernel as the real
//! one; `interpose::process_ids` has the calls. The processes that it forks have their own ids, and know
//! their parent by the one that the parent knows itself by.
//!
//! Not translated: paths below `/proc`, the ids that `fcntl`, `getsockopt` and System V objects tell, and those
//! of other threads than the first.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use super::{LOG, served, write};
use crate::sys;
use crate::wire::inputs::Kind;

/// The recorded id, and the real one of the process that goes by it; 0 where nothing is served.
static RECORDED: AtomicI32 = AtomicI32::new(0);
static REAL: AtomicI32 = AtomicI32::new(0);

/// Takes the id from the recording that serves this run, if it was asked for there.
pub fn begin() {
    const GETPGRP: usize = 111;
    // SAFETY: has no effect on memory.
    let group = unsafe { sys::call(GETPGRP, 0, 0, 0) } as i32;
    let own = sys::getpid();
    // A program that the checked one has started is not the one that was recorded.
    if group == own
        && let Some(recorded) = served::process_id()
    {
        REAL.store(own, Ordering::Relaxed);
        RECORDED.store(recorded, Ordering::Relaxed);
    }
}

/// The program is told its own id: a recording takes note of it.
pub fn asked(id: i32) -> i32 {
    static WRITTEN: AtomicBool = AtomicBool::new(false);
    if !LOG.load(Ordering::Acquire).is_null()
        && !served::in_child()
        && id == sys::getpid()
        && !WRITTEN.swap(true, Ordering::Relaxed)
    {
        // SAFETY: there are no parts.
        unsafe { write(Kind::Process, 0, id as u64, 0, core::iter::empty()) };
    }
    shown(id)
}

/// What the program is told in place of an id of the kernel's.
#[inline]
pub fn shown(id: i32) -> i32 {
    exchanged(id, &REAL, &RECORDED)
}

/// What the kernel is told in place of an id that the program has. A negative one is that of a group.
#[inline]
pub fn real(id: i32) -> i32 {
    match id < -1 {
        true => -exchanged(id.wrapping_neg(), &RECORDED, &REAL),
        false => exchanged(id, &RECORDED, &REAL),
    }
}

fn exchanged(id: i32, from: &AtomicI32, to: &AtomicI32) -> i32 {
    let known = from.load(Ordering::Relaxed);
    if id == known && known != 0 {
        to.load(Ordering::Relaxed)
    } else {
        id
    }
}

/// Lets a `siginfo_t` of a signal that a process has sent name the sender as the program knows it.
///
/// # Safety
/// `information` is null or a `siginfo_t`.
pub unsafe fn show_sender(information: *mut u8) {
    /// Where it has `si_code` and `si_pid`.
    const CODE: usize = 8;
    const SENDER: usize = 16;
    /// `SI_USER`, `SI_QUEUE`, `SI_MESGQ` and `SI_TKILL`.
    const SENT: [i32; 4] = [0, -1, -3, -6];
    if RECORDED.load(Ordering::Relaxed) == 0 || information.is_null() {
        return;
    }
    // SAFETY: the caller's promise; both are words of the structure.
    unsafe {
        if SENT.contains(&information.add(CODE).cast::<i32>().read()) {
            let sender = information.add(SENDER).cast::<i32>();
            sender.write(shown(sender.read()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_exchanged_in_both_directions() {
        let (recorded, own) = (AtomicI32::new(41), AtomicI32::new(77));
        assert_eq!(exchanged(77, &own, &recorded), 41);
        assert_eq!(exchanged(41, &recorded, &own), 77);
        assert_eq!(exchanged(5, &own, &recorded), 5);
        let nothing = AtomicI32::new(0);
        assert_eq!(exchanged(0, &nothing, &own), 0, "the calling process");
    }
}
