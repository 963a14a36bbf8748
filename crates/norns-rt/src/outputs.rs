//! What the program sends through sockets, appended to a file (`NORNS_SENT`), so that what leaves the process in
//! two runs can be compared. Every message ends a line there. One that `sendmmsg`, `sendfile` or `splice` sends is not seen.
//!
//! The file is opened for each message: a descriptor that stayed open would be one that the program does not expect.

use core::ffi::c_char;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::inputs::Part;
use crate::mode;
use crate::sys;
use crate::wire::environment;

/// The path with its zero byte, as it stands in the environment; null if nothing is written down.
static PATH: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static PATH_LENGTH: AtomicU64 = AtomicU64::new(0);
static WRITTEN: AtomicU64 = AtomicU64::new(0);
/// So many bytes are written down at most.
const MOST: u64 = 1 << 20;

/// Called by the constructor of the library.
///
/// # Safety
/// `variables` is an array of C strings that ends with a null pointer; no other thread runs.
pub unsafe fn begin(variables: *const *const c_char) {
    // SAFETY: the caller's promise.
    if let Some(path) = unsafe { mode::variable(variables, environment::SENT) } {
        PATH_LENGTH.store(path.len() as u64 + 1, Ordering::Relaxed);
        PATH.store(path.as_ptr().cast_mut(), Ordering::Release);
    }
}

/// A call has sent `result` bytes of these parts.
///
/// # Safety
/// The parts hold as many bytes as `result` says.
#[inline(always)]
pub unsafe fn sent(file: i32, result: isize, parts: impl Iterator<Item = Part>) {
    if !PATH.load(Ordering::Acquire).is_null() && result > 0 {
        // SAFETY: the caller's promise.
        unsafe { note(file, result as usize, parts) };
    }
}

#[cold]
unsafe fn note(socket: i32, mut left: usize, parts: impl Iterator<Item = Part>) {
    const WRITE_APPEND_CREATE_CLOEXEC: usize = 0o1 | 0o2000 | 0o100 | 0o2_000_000;
    if !is_socket(socket) || WRITTEN.fetch_add(left as u64, Ordering::Relaxed) > MOST {
        return;
    }
    // SAFETY: the error number of this thread.
    let error = unsafe { sys::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { error.read() };
    let length = PATH_LENGTH.load(Ordering::Relaxed) as usize;
    // SAFETY: the runtime was given this string by the environment that the process began with, which stays.
    let path = unsafe { core::slice::from_raw_parts(PATH.load(Ordering::Acquire), length) };
    let to = sys::open(path, WRITE_APPEND_CREATE_CLOEXEC);
    if to < 0 {
        return;
    }
    let mut last = b'\n';
    for (start, size) in parts {
        let size = size.min(left);
        if size == 0 {
            continue;
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { core::slice::from_raw_parts(start, size) };
        sys::write(to, bytes);
        last = bytes[size - 1];
        left -= size;
    }
    if last != b'\n' {
        sys::write(to, b"\n");
    }
    sys::close(to);
    // SAFETY: as above.
    unsafe { error.write(before) };
}

fn is_socket(file: i32) -> bool {
    const FSTAT: usize = 5;
    /// The offset of `st_mode` in `struct stat`, in words of 8 bytes, of which it is the low half.
    const MODE: usize = 3;
    let mut status = [0_u64; 32];
    // SAFETY: the kernel writes a `struct stat`, of 144 bytes.
    let result = unsafe { sys::call(FSTAT, file as usize, status.as_mut_ptr() as usize, 0) };
    result == 0 && status[MODE] as u32 & 0o170_000 == 0o140_000
}
