//! The trace file, as the runtime sees it: something to append to.
//!
//! The program owns its descriptors and may close ours, and a file of its own may then get the
//! number. So each append first checks that the descriptor is still our file.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::errno::{EFBIG, EINTR, ENOSYS, EOPNOTSUPP, failed_with};
use crate::sys;

const PATH_ROOM: usize = 4096 + 8;
const O_WRONLY: usize = 1;
const O_RDWR: usize = 2;
const O_CREAT: usize = 0o100;
const O_APPEND: usize = 0o2000;
const O_CLOEXEC: usize = 0o2000000;

/// The path with a zero byte, and how long it is with that.
struct Path(UnsafeCell<([u8; PATH_ROOM], usize)>);

// SAFETY: only the constructor writes the path, before there are other threads.
unsafe impl Sync for Path {}

impl Path {
    const fn empty() -> Path {
        Path(UnsafeCell::new(([0; PATH_ROOM], 0)))
    }

    /// # Safety
    /// Only from the constructor; the parts fit.
    unsafe fn set(&self, parts: [&[u8]; 2]) {
        // SAFETY: no other thread exists yet.
        let (stored, length) = unsafe { &mut *self.0.get() };
        for byte in parts[0].iter().chain(parts[1]) {
            stored[*length] = *byte;
            *length += 1;
        }
    }

    fn get(&self) -> &[u8] {
        // SAFETY: not written any more after the constructor.
        let (stored, length) = unsafe { &*self.0.get() };
        &stored[..*length]
    }
}

static PATH: Path = Path::empty();
static TAIL: Path = Path::empty();
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);

/// Remembers where to write. False when the path is too long or not absolute.
///
/// # Safety
/// Only from the constructor.
pub unsafe fn set_path(path: &[u8]) -> bool {
    if path.len() > 4096 || path.first() != Some(&b'/') {
        return false;
    }
    // SAFETY: only the constructor calls this function; `PATH_ROOM` leaves eight bytes for the
    // endings.
    unsafe {
        PATH.set([path, b"\0"]);
        TAIL.set([path, b".tail\0"]);
    }
    true
}

pub fn open_tail() -> i32 {
    sys::open(TAIL.get(), O_RDWR | O_CREAT | O_CLOEXEC)
}

/// Device and inode of an open file.
fn identity(file: i32) -> Option<(u64, u64)> {
    let mut status = [0u64; 18];
    // SAFETY: `struct stat` has 144 bytes on x86-64.
    let result = unsafe { sys::call(sys::FSTAT, file as usize, status.as_mut_ptr() as usize, 0) };
    (result == 0).then_some((status[0], status[1]))
}

fn descriptor() -> i32 {
    let known = DESCRIPTOR.load(Ordering::Relaxed);
    let ours = (
        DEVICE.load(Ordering::Relaxed),
        INODE.load(Ordering::Relaxed),
    );
    if known >= 0 && identity(known) == Some(ours) {
        return known;
    }
    let low = sys::open(PATH.get(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC);
    let Some((device, inode)) = identity(low).filter(|_| low >= 0) else {
        return -1;
    };
    const F_DUPFD_CLOEXEC: usize = 1030;
    let mut high = -1;
    for lowest in [1000, 200] {
        // SAFETY: has no effect on memory.
        high = unsafe { sys::call(sys::FCNTL, low as usize, F_DUPFD_CLOEXEC, lowest) as i32 };
        if high >= 0 {
            break;
        }
    }
    let file = if high >= 0 {
        sys::close(low);
        high
    } else {
        low
    };
    DEVICE.store(device, Ordering::Relaxed);
    INODE.store(inode, Ordering::Relaxed);
    DESCRIPTOR.store(file, Ordering::Relaxed);
    file
}

/// Appends all bytes as one `write`. False when not all of them could be written. Signals are
/// blocked by the caller: a limit on the file size must not kill the program for our sake.
pub fn append(bytes: &[u8]) -> bool {
    let file = descriptor();
    if file < 0 {
        return false;
    }
    let mut written = 0;
    while written < bytes.len() {
        let result = sys::write(file, &bytes[written..]);
        if failed_with(result, EINTR) {
            continue;
        }
        if result <= 0 {
            take_size_signal(result);
            return false;
        }
        written += result as usize;
    }
    true
}

/// Reserves disk space for this part of the file.
pub fn reserve(file: i32, offset: usize, length: usize) -> bool {
    let signals = sys::block_signals();
    // SAFETY: has no effect on memory.
    let mut result = unsafe { sys::call6(sys::FALLOCATE, file as usize, 0, offset, length, 0, 0) };
    if failed_with(result, EOPNOTSUPP) || failed_with(result, ENOSYS) {
        result = fill(file, offset, length);
    }
    take_size_signal(result);
    sys::restore_signals(signals);
    result == 0
}

/// For file systems that cannot reserve space: writes a zero byte to every block that the file does
/// not have yet.
fn fill(file: i32, offset: usize, length: usize) -> isize {
    const PWRITE64: usize = 18;
    const PREAD64: usize = 17;
    for at in (offset..offset + length).step_by(4096) {
        let mut byte = [0u8; 1];
        let place = byte.as_mut_ptr() as usize;
        // SAFETY: one byte, ours. The file header may already be in use by another process.
        unsafe {
            if sys::call6(PREAD64, file as usize, place, 1, at, 0, 0) == 1 {
                continue;
            }
            let result = sys::call6(PWRITE64, file as usize, place, 1, at + 4095, 0, 0);
            if result != 1 {
                return if result < 0 { result } else { -5 };
            }
        }
    }
    0
}

/// A write beyond the size limit raises SIGXFSZ; the program must not see it.
fn take_size_signal(result: isize) {
    if !failed_with(result, EFBIG) {
        return;
    }
    const SIGXFSZ: u64 = 25;
    let set = 1u64 << (SIGXFSZ - 1);
    let now = [0u64; 2];
    // SAFETY: reads the set and the time, writes nothing.
    unsafe {
        sys::call6(
            sys::RT_SIGTIMEDWAIT,
            &raw const set as usize,
            0,
            now.as_ptr() as usize,
            8,
            0,
            0,
        )
    };
}
