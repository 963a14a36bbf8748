//! Names of files: who creates, removes or renames one comes before who finds that.
//!
//! Programs lock by `mkdir` and `O_EXCL`, and wait until a file is there. A name is known by its last
//! component, so that relative and absolute paths of one file are the same: files of the same name in
//! different folders then order more than they should, and a race may be missed.
//!
//! To create what may be there already (`O_CREAT` without `O_EXCL`) tells nothing of others, nor does an
//! attempt to create or remove that failed.

use core::ffi::{c_char, c_int};

use super::{Key, files_watched, kind, receive, send, watching};
use crate::mode::text;
use crate::sys;

type Text = *const c_char;

/// The last component of a path, without slashes behind it.
fn last_component(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/');
    let path = &path[..end.map_or(0, |end| end + 1)];
    let start = path.iter().rposition(|byte| *byte == b'/');
    &path[start.map_or(0, |start| start + 1)..]
}

fn hash(name: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    name.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// # Safety
/// `path` is not null and ends with a zero byte.
unsafe fn key(path: Text) -> Key {
    // SAFETY: the caller's promise.
    let name = last_component(unsafe { text(path.cast()) });
    Key::new(kind::NAME, hash(name), 0)
}

/// A call is about to create, remove or rename a file.
///
/// # Safety
/// `path` is null or ends with a zero byte.
pub unsafe fn changes(path: Text, pc: usize) {
    if !watching() || path.is_null() {
        return;
    }
    files_watched::change(pc);
    // SAFETY: the caller's promise.
    send(unsafe { key(path) }, pc);
}

/// A call has created or removed a file, or has looked whether it is there.
///
/// # Safety
/// As `changes`.
pub unsafe fn found(path: Text, pc: usize) {
    if watching() && !path.is_null() {
        // SAFETY: the caller's promise.
        receive(unsafe { key(path) }, pc);
    }
}

/// What a name stands for, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum There {
    Nothing,
    /// A named pipe, by its device and inode.
    Pipe(u64, u64),
    Other,
}

/// # Safety
/// `path` ends with a zero byte.
unsafe fn what_is(folder: c_int, path: Text) -> There {
    const STAT_AT: usize = 262;
    const MODE: usize = 3;
    const FORMAT: u64 = 0o170_000;
    const PIPE: u64 = 0o010_000;
    let mut status = [0u64; 18];
    let (folder, into) = (folder as usize, &raw mut status as usize);
    // SAFETY: the kernel reads the path and fills in a `struct stat`, 144 bytes.
    let result = unsafe { sys::call6(STAT_AT, folder, path as usize, into, 0, 0, 0) };
    let [device, inode, ..] = status;
    match result {
        0 if status[MODE] & FORMAT == PIPE => There::Pipe(device, inode),
        0 => There::Other,
        _ => There::Nothing,
    }
}

/// Opens a file with `call`, which gives its descriptor. `path` is what the program calls it, and `own`
/// in `folder` where it is in this run.
///
/// # Safety
/// Both paths are null or end with a zero byte.
pub unsafe fn opening(
    folder: c_int,
    own: Text,
    path: Text,
    flags: c_int,
    pc: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    const CREATE: c_int = 0o100;
    const EXCLUSIVE: c_int = 0o200;
    if !watching() || own.is_null() || path.is_null() {
        return call();
    }
    files_watched::change(pc);
    let creates = flags & CREATE != 0;
    let is_exclusive = creates && flags & EXCLUSIVE != 0;
    // SAFETY: the caller's promise.
    let there = unsafe { what_is(folder, own) };
    if creates && there == There::Nothing || is_exclusive {
        // SAFETY: as above.
        unsafe { changes(path, pc) };
    }
    let result = match there {
        There::Pipe(device, inode) if !is_exclusive => {
            opening_pipe((device, inode), flags, pc, call)
        }
        _ => call(),
    };
    if !creates || is_exclusive && result >= 0 {
        // SAFETY: as above.
        unsafe { found(path, pc) };
    }
    result
}

/// The two ends of a named pipe wait for each other.
fn opening_pipe(
    (device, inode): (u64, u64),
    flags: c_int,
    pc: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    const ACCESS: c_int = 3;
    const NONBLOCKING: c_int = 0o4000;
    let end = flags & ACCESS;
    let key = |end: c_int| Key::new(kind::OPENED, device << 1 | end as u64 & 1, inode);
    if end > 1 {
        send(key(0), pc);
        send(key(1), pc);
        return call();
    }
    send(key(end), pc);
    let result = call();
    if result >= 0 && (flags & NONBLOCKING == 0 || end == 1) {
        receive(key(1 - end), pc);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::last_component;

    #[test]
    fn a_path_ends_with_its_name() {
        assert_eq!(last_component(b"/tmp/a"), b"a");
        assert_eq!(last_component(b"a"), b"a");
        assert_eq!(last_component(b"b/c//"), b"c");
        assert_eq!(last_component(b"/"), b"");
        assert_eq!(last_component(b""), b"");
    }
}
