//! Error numbers of Linux, as functions of the C library return them. A system call returns them
//! negated.

use core::ffi::c_int;

pub const EINTR: c_int = 4;
pub const EBADF: c_int = 9;
pub const EAGAIN: c_int = 11;
pub const EBUSY: c_int = 16;
pub const EFBIG: c_int = 27;
pub const EDEADLK: c_int = 35;
pub const ENOSYS: c_int = 38;
pub const EOPNOTSUPP: c_int = 95;
pub const ETIMEDOUT: c_int = 110;
pub const EOWNERDEAD: c_int = 130;

/// Whether a system call failed with this error.
pub const fn failed_with(result: isize, error: c_int) -> bool {
    result == -(error as isize)
}
