//! Files that the program lets the kernel watch, with inotify or fanotify: whoever does something to a
//! file comes before who reads of it. Which files are watched is not asked, so that all changes of files
//! count from the first watch on.

use core::sync::atomic::{AtomicBool, Ordering};

use super::{Key, kind, send};

static ARE_WATCHED: AtomicBool = AtomicBool::new(false);

pub fn key() -> Key {
    Key::new(kind::FILES_WATCHED, 0, 0)
}

/// The program asks for news of files from here on.
pub fn begins() {
    ARE_WATCHED.store(true, Ordering::Relaxed);
}

/// A call is about to do something to a file that a watch may tell.
#[inline]
pub fn change(pc: usize) {
    if ARE_WATCHED.load(Ordering::Relaxed) {
        send(key(), pc);
    }
}
