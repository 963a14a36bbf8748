//! Which channels a descriptor stands for.
//!
//! The kernel is asked at every call, since descriptors are closed, duplicated and passed on in ways
//! that no function of ours sees. Pipes and sockets are known by their inode, whatever descriptor
//! they are used through; the two ends of a connection by their ports, or by the name of the socket
//! that was connected to.
//!
//! What is not known for sure is one channel too many things share: a race may then be missed, but
//! no order is. This is so for connections of local sockets with the same name, for datagrams, for
//! timers, and for terminals.

use super::{Key, files_watched, kind, others, socket};
use crate::sys;

/// One direction of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Nothing passes from thread to thread.
    Nothing,
    /// Bytes in order; `sender` as for `Table::begin_send`.
    Stream { key: Key, sender: u64 },
    /// The value of an eventfd.
    Counter(Key),
    /// What is received comes after all that was sent.
    Everything(Key),
    /// A regular file: what is read comes after all that was written.
    File(Key),
    /// A connection to wait for: one unit each.
    Connections(Key),
    /// Signals, as a signalfd gives them.
    Signals,
    /// The kernel tells something, and it is not known what.
    Unknown,
}

/// What a thread can send and receive through a descriptor.
#[derive(Clone, Copy)]
pub struct Ways {
    pub out: Way,
    pub into: Way,
    /// The other end may be in another process, which answers on the same descriptor.
    pub outside: Option<Key>,
}

impl Ways {
    pub const NONE: Ways = Ways {
        out: Way::Nothing,
        into: Way::Nothing,
        outside: None,
    };

    fn both(way: Way) -> Ways {
        Ways {
            out: way,
            into: way,
            outside: None,
        }
    }
}

/// What `fstat` says.
#[repr(C)]
#[derive(Default)]
struct Status {
    device: u64,
    inode: u64,
    links: u64,
    mode: u32,
    ids: [u32; 3],
    special_device: u64,
    rest: [u64; 13],
}

fn status(file: i32) -> Option<Status> {
    let mut status = Status::default();
    // SAFETY: the kernel fills in a `struct stat`, which `Status` is as large as.
    let result = unsafe { sys::call(sys::FSTAT, file as usize, &raw mut status as usize, 0) };
    (result == 0).then_some(status)
}

/// The inode of a socket; it belongs to one end of a connection.
pub fn inode(file: i32) -> u64 {
    status(file).map_or(0, |status| status.inode)
}

/// The device and the inode of a file.
pub fn identity(file: i32) -> Option<(u64, u64)> {
    status(file).map(|status| (status.device, status.inode))
}

pub fn ways(file: i32) -> Ways {
    const FORMAT: u32 = 0o170_000;
    const PIPE: u32 = 0o010_000;
    const CHARACTERS: u32 = 0o020_000;
    const REGULAR: u32 = 0o100_000;
    const SOCKET: u32 = 0o140_000;
    const ANONYMOUS: u32 = 0;
    let Some(status) = status(file) else {
        return Ways::NONE;
    };
    match status.mode & FORMAT {
        PIPE => Ways::both(Way::Stream {
            key: Key::new(kind::PIPE, status.device, status.inode),
            sender: 0,
        }),
        SOCKET => socket::ways(file, status.inode),
        REGULAR => Ways::both(Way::File(Key::new(kind::FILE, status.device, status.inode))),
        CHARACTERS if is_terminal(status.special_device) => {
            Ways::both(Way::Everything(Key::new(kind::TERMINAL, 0, 0)))
        }
        ANONYMOUS => anonymous(file),
        _ => Ways::NONE,
    }
}

fn is_terminal(device: u64) -> bool {
    const MASTERS: u64 = 5;
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff);
    (136..=143).contains(&major) || (major == MASTERS && minor == 2)
}

/// Of `poll`: there is something to read, or room to write.
pub const TO_READ: i16 = 1;
pub const TO_WRITE: i16 = 4;

/// Whether a call on this descriptor would not sleep.
pub fn is_ready(file: i32, events: i16) -> bool {
    const POLL: usize = 7;
    let mut asked = [file, i32::from(events)];
    // SAFETY: one `struct pollfd`, eight bytes, which live until the call returns.
    unsafe { sys::call(POLL, asked.as_mut_ptr() as usize, 1, 0) != 0 }
}

fn flags(file: i32) -> isize {
    const F_GETFL: usize = 3;
    // SAFETY: has no effect on memory.
    unsafe { sys::call(sys::FCNTL, file as usize, F_GETFL, 0) }
}

/// Whether a call on this descriptor fails where it would have to sleep.
pub fn is_nonblocking(file: i32) -> bool {
    const NONBLOCKING: isize = 0o4000;
    let flags = flags(file);
    flags < 0 || flags & NONBLOCKING != 0
}

/// How many bytes are there to be read now.
pub fn waiting(file: i32) -> u64 {
    const IOCTL: usize = 16;
    const FIONREAD: usize = 0x541b;
    let mut count = 0i32;
    // SAFETY: the kernel writes one `int`.
    let result = unsafe { sys::call(IOCTL, file as usize, FIONREAD, &raw mut count as usize) };
    if result < 0 { 0 } else { count.max(0) as u64 }
}

/// Whether something can be written through this descriptor.
pub fn is_writable(file: i32) -> bool {
    const ACCESS: isize = 3;
    let flags = flags(file);
    flags >= 0 && flags & ACCESS != 0
}

/// Bytes of a file below `/proc/self`, with the number of the descriptor behind `prefix`.
fn of_process(prefix: &[u8], file: i32, room: &mut [u8], link: bool) -> usize {
    const READLINK: usize = 89;
    const LONGEST: usize = 40;
    let mut path = [0u8; LONGEST];
    let mut length = 0;
    let mut push = |byte: u8| {
        path[length % LONGEST] = byte;
        length += 1;
    };
    prefix.iter().for_each(|byte| push(*byte));
    let mut power = 1_000_000_000;
    while power > 0 {
        let digit = file.max(0) / power;
        if digit > 0 || power == 1 {
            push(b'0' + (digit % 10) as u8);
        }
        power /= 10;
    }
    path[LONGEST - 1] = 0;
    let result = if link {
        let (from, to) = (path.as_ptr() as usize, room.as_mut_ptr() as usize);
        // SAFETY: the path ends with a zero byte; the kernel writes within `room`.
        unsafe { sys::call(READLINK, from, to, room.len()) }
    } else {
        const O_RDONLY_CLOEXEC: usize = 0o2_000_000;
        let opened = sys::open(&path, O_RDONLY_CLOEXEC);
        if opened < 0 {
            return 0;
        }
        let result = sys::read(opened, room);
        sys::close(opened);
        result
    };
    result.clamp(0, room.len() as isize) as usize
}

/// The number behind a name in a text of lines `name: number`.
fn field(text: &[u8], name: &[u8], base: u64) -> Option<u64> {
    let start = (0..text.len()).find(|&at| {
        let rest = text[at..].iter();
        name.len() <= text.len() - at && rest.zip(name).all(|(a, b)| a == b)
    })?;
    let mut number: Option<u64> = None;
    for byte in &text[start + name.len()..] {
        let digit = match byte {
            b' ' | b'\t' if number.is_none() => continue,
            b'0'..=b'9' => u64::from(byte - b'0'),
            b'a'..=b'f' if base == 16 => u64::from(byte - b'a' + 10),
            _ => break,
        };
        number = Some(number.unwrap_or(0).wrapping_mul(base).wrapping_add(digit));
    }
    number
}

/// The value that an eventfd has now.
pub fn counter(file: i32) -> u64 {
    let mut room = [0; 256];
    let length = of_process(b"/proc/self/fdinfo/", file, &mut room, false);
    field(&room[..length], b"eventfd-count:", 16).unwrap_or(0)
}

/// Descriptors of the kernel that have no inode of their own.
fn anonymous(file: i32) -> Ways {
    let mut room = [0; 64];
    let length = of_process(b"/proc/self/fd/", file, &mut room, true);
    // `anon_inode:[eventfd]`
    let name = |wanted: &[u8]| {
        const PREFIX: usize = 11;
        let found = room[..length].get(PREFIX..PREFIX + wanted.len());
        found.is_some_and(|found| found.iter().zip(wanted).all(|(a, b)| a == b))
    };
    if name(b"[eventfd]") {
        let mut room = [0; 256];
        let length = of_process(b"/proc/self/fdinfo/", file, &mut room, false);
        return match field(&room[..length], b"eventfd-id:", 10) {
            Some(id) => Ways::both(Way::Counter(Key::new(kind::EVENT_COUNTER, id, 1))),
            None => Ways::both(Way::Everything(Key::new(kind::EVENT_COUNTER, 0, 0))),
        };
    }
    if name(b"[timerfd]") {
        return Ways::both(Way::Everything(timer()));
    }
    if name(b"[signalfd]") {
        return Ways {
            into: Way::Signals,
            ..Ways::NONE
        };
    }
    if name(b"[pidfd]") {
        // Ready when its process has ended.
        return Ways {
            into: Way::Everything(others::key()),
            ..Ways::NONE
        };
    }
    if name(b"inotify") || name(b"[inotify]") || name(b"[fanotify]") {
        return Ways {
            into: Way::Everything(files_watched::key()),
            ..Ways::NONE
        };
    }
    if length == 0 || name(b"[eventpoll]") {
        return Ways::NONE;
    }
    Ways {
        into: Way::Unknown,
        ..Ways::NONE
    }
}

/// All timers of the process, which have no names.
pub fn timer() -> Key {
    Key::new(kind::TIMER, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_kernel_are_read() {
        let text = b"pos:\t0\nflags:\t02\neventfd-count:               1f\neventfd-id: 27\n";
        assert_eq!(field(text, b"eventfd-count:", 16), Some(0x1f));
        assert_eq!(field(text, b"eventfd-id:", 10), Some(27));
        assert_eq!(field(text, b"eventfd-semaphore:", 10), None);
    }
}
