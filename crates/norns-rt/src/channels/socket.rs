//! Sockets: which ends belong together.
//!
//! The end of a connection is known by its inode. What it is connected with is asked of the kernel
//! once; pairs are told by `socketpair`. An end whose partner is not known has one channel for
//! itself: what is sent on it may be answered on it.

use super::descriptor::{Way, Ways, inode};
use super::{Key, expect, kind, unknown, watching};
use crate::lock::Lock;
use crate::sys;

const WAYS: usize = 8;
const SETS: usize = 512;

#[derive(Clone, Copy)]
struct Known {
    /// 0: not used.
    inode: u64,
    used: u64,
    ways: Ways,
}

struct Sockets {
    known: [[Known; WAYS]; SETS],
    uses: u64,
}

const UNUSED: Known = Known {
    inode: 0,
    used: 0,
    ways: Ways::NONE,
};

static SOCKETS: Lock<Sockets> = Lock::new(Sockets {
    known: [[UNUSED; WAYS]; SETS],
    uses: 0,
});

impl Sockets {
    fn find(&mut self, inode: u64) -> Option<Ways> {
        self.uses += 1;
        let uses = self.uses;
        let set = &mut self.known[inode as usize % SETS];
        let known = set.iter_mut().find(|known| known.inode == inode)?;
        known.used = uses;
        Some(known.ways)
    }

    /// Takes the place of the one that was used longest ago.
    fn insert(&mut self, inode: u64, ways: Ways) {
        self.uses += 1;
        let used = self.uses;
        let set = &mut self.known[inode as usize % SETS];
        let rank = |known: &Known| match known.inode == inode {
            true => 0,
            false => known.used + 1,
        };
        if let Some(place) = set.iter_mut().min_by_key(|known| rank(known)) {
            *place = Known { inode, used, ways };
        }
    }

    fn remove(&mut self, inode: u64) {
        let set = &mut self.known[inode as usize % SETS];
        for known in set.iter_mut().filter(|known| known.inode == inode) {
            *known = UNUSED;
        }
    }
}

/// The name of one end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Name {
    None,
    Port(u16),
    /// A hash of the path, or of the abstract name.
    Path(u64),
}

const LONGEST_NAME: usize = 128;

impl Name {
    fn of(bytes: &[u8]) -> Name {
        const LOCAL: u16 = 1;
        const INTERNET: u16 = 2;
        const INTERNET_6: u16 = 10;
        let &[low, high, ref rest @ ..] = bytes else {
            return Name::None;
        };
        match (u16::from_le_bytes([low, high]), rest) {
            (INTERNET | INTERNET_6, &[high, low, ..]) => {
                Name::Port(u16::from_be_bytes([high, low]))
            }
            (LOCAL, [first, ..]) => {
                let is_path = *first != 0;
                let mut hash = 0xcbf2_9ce4_8422_2325u64;
                for byte in rest {
                    if is_path && *byte == 0 {
                        break;
                    }
                    hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
                }
                Name::Path(hash)
            }
            _ => Name::None,
        }
    }

    /// The name that a program passed.
    ///
    /// # Safety
    /// `address` is null or has `length` readable bytes.
    pub unsafe fn given(address: *const u8, length: usize) -> Name {
        if address.is_null() || !watching() {
            return Name::None;
        }
        let length = length.min(LONGEST_NAME);
        // SAFETY: the caller's promise.
        Name::of(unsafe { core::slice::from_raw_parts(address, length) })
    }

    fn asked(call: usize, file: i32) -> Name {
        let mut room = [0u8; LONGEST_NAME];
        let mut length = LONGEST_NAME as u32;
        let (to, size) = (room.as_mut_ptr() as usize, &raw mut length as usize);
        // SAFETY: the kernel writes within `room` and to `length`.
        if unsafe { sys::call(call, file as usize, to, size) } < 0 {
            return Name::None;
        }
        Name::of(&room[..(length as usize).min(LONGEST_NAME)])
    }

    fn local(file: i32) -> Name {
        const GETSOCKNAME: usize = 51;
        Name::asked(GETSOCKNAME, file)
    }

    fn peer(file: i32) -> Name {
        const GETPEERNAME: usize = 52;
        Name::asked(GETPEERNAME, file)
    }

    fn word(self) -> u64 {
        match self {
            Name::None => 0,
            Name::Port(port) => u64::from(port),
            Name::Path(hash) => hash,
        }
    }

    /// Where others connect to, if this is the name of a socket that listens.
    pub fn listener(self) -> Option<Key> {
        (self != Name::None).then(|| Key::new(kind::LISTENER, self.word(), 0))
    }

    /// Where datagrams to this name arrive.
    fn datagrams(self) -> Key {
        Key::new(kind::UDP, self.word(), 0)
    }
}

const TYPE: usize = 3;
const IS_LISTENER: usize = 30;
const DOMAIN: usize = 39;

fn option(file: i32, name: usize) -> i32 {
    const GETSOCKOPT: usize = 55;
    const SOCKET_LEVEL: usize = 1;
    let (mut value, mut length) = (0i32, 4u32);
    // SAFETY: the kernel writes an `int`.
    unsafe {
        sys::call6(
            GETSOCKOPT,
            file as usize,
            SOCKET_LEVEL,
            name,
            &raw mut value as usize,
            &raw mut length as usize,
            0,
        )
    };
    value
}

pub fn ways(file: i32, inode: u64) -> Ways {
    if let Some(ways) = SOCKETS.with(|sockets| sockets.find(inode)) {
        return ways;
    }
    let (ways, stays) = ask(file, inode);
    if stays {
        SOCKETS.with(|sockets| sockets.insert(inode, ways));
        if let Way::Stream { key, .. } = ways.into {
            expect(key);
        }
    }
    ways
}

/// What a socket stands for, and whether that stays so.
fn ask(file: i32, inode: u64) -> (Ways, bool) {
    const LOCAL: i32 = 1;
    const INTERNET: i32 = 2;
    const INTERNET_6: i32 = 10;
    const STREAM: i32 = 1;
    const DATAGRAM: i32 = 2;
    let (domain, sort) = (option(file, DOMAIN), option(file, TYPE));
    let (local, peer) = (Name::local(file), Name::peer(file));
    let outside = Some(Key::new(kind::OUTSIDE, inode, 0));
    if option(file, IS_LISTENER) != 0 {
        let into = local.listener().map_or(Way::Nothing, Way::Connections);
        return (Ways { into, ..Ways::NONE }, false);
    }
    match (domain, sort, local, peer) {
        (INTERNET | INTERNET_6, STREAM, Name::Port(here), Name::Port(there)) => {
            let direction = |from: u16, to: u16| Key::new(kind::TCP, from.into(), to.into());
            let out = Way::Stream {
                key: direction(here, there),
                sender: inode,
            };
            let into = Way::Stream {
                key: direction(there, here),
                sender: 0,
            };
            let ways = Ways { out, into, outside };
            (ways, true)
        }
        (INTERNET | INTERNET_6, STREAM, ..) => (Ways::NONE, false),
        (INTERNET | INTERNET_6 | LOCAL, DATAGRAM, ..) => {
            let everything = |name: Name| match name {
                Name::None => Way::Nothing,
                name => Way::Everything(name.datagrams()),
            };
            let (out, into) = (everything(peer), everything(local));
            (Ways { out, into, outside }, false)
        }
        (LOCAL, _, Name::None, Name::Path(path)) => (local_connection(path, true), true),
        (LOCAL, _, Name::Path(path), Name::None) => (local_connection(path, false), true),
        (LOCAL, _, Name::Path(here), Name::Path(there)) => {
            let direction = |from, to| Way::Everything(Key::new(kind::UNIX_TO_SERVER, from, to));
            let ways = Ways {
                out: direction(here, there),
                into: direction(there, here),
                outside: None,
            };
            (ways, true)
        }
        // A pair that was made elsewhere, or another family.
        _ => {
            if domain != LOCAL {
                unknown::called(unknown::RECEIVE, 0);
            }
            let shared = if domain == LOCAL { 0 } else { inode };
            let way = Way::Everything(Key::new(kind::OTHER, shared, 0));
            let ways = Ways {
                out: way,
                into: way,
                outside: None,
            };
            (ways, false)
        }
    }
}

fn local_connection(path: u64, is_client: bool) -> Ways {
    let to_server = Way::Everything(Key::new(kind::UNIX_TO_SERVER, path, 0));
    let to_client = Way::Everything(Key::new(kind::UNIX_TO_CLIENT, path, 0));
    let (out, into) = if is_client {
        (to_server, to_client)
    } else {
        (to_client, to_server)
    };
    Ways {
        out,
        into,
        outside: None,
    }
}

/// The two ends that `socketpair` has made.
pub fn paired(ends: [i32; 2]) {
    const STREAM: i32 = 1;
    let [one, other] = ends.map(inode);
    // What does not fit the buffer of a receiver of messages is lost, and cannot be counted.
    let is_stream = option(ends[0], TYPE) == STREAM;
    let into = |inode: u64| {
        let key = Key::new(kind::PAIR, inode, 0);
        if is_stream {
            Way::Stream { key, sender: 0 }
        } else {
            Way::Everything(key)
        }
    };
    for (own, peer) in [(one, other), (other, one)] {
        let ways = Ways {
            out: into(peer),
            into: into(own),
            outside: None,
        };
        SOCKETS.with(|sockets| sockets.insert(own, ways));
    }
}

/// The socket is about to be connected, or disconnected: what was known of it is not true any more.
pub fn reconnected(file: i32) {
    let inode = inode(file);
    SOCKETS.with(|sockets| sockets.remove(inode));
}

/// Lets a socket have a name that an earlier run of the program has left: a port that the kernel keeps for
/// late packets, or the file of a local socket at which nobody listens any more.
///
/// # Safety
/// `address` is null or has `length` readable bytes.
pub unsafe fn reuse_name(file: i32, address: *const u8, length: usize) {
    const SETSOCKOPT: usize = 54;
    const SOCKET_LEVEL: usize = 1;
    const REUSE_ADDRESS: usize = 2;
    const LOCAL: u8 = 1;
    const STREAM: i32 = 1;
    if address.is_null() || length < 3 || option(file, TYPE) != STREAM {
        return;
    }
    let yes = 1i32;
    // SAFETY: the kernel reads an `int`.
    unsafe {
        sys::call6(
            SETSOCKOPT,
            file as usize,
            SOCKET_LEVEL,
            REUSE_ADDRESS,
            &raw const yes as usize,
            size_of::<i32>(),
            0,
        )
    };
    // SAFETY: the caller's promise.
    let (family, first) = unsafe { (*address, *address.add(2)) };
    if family == LOCAL && first != 0 {
        // SAFETY: the caller's promise.
        unsafe { remove_if_left(address, length) };
    }
}

/// # Safety
/// `address` has `length` bytes, the name of a local socket with a path.
unsafe fn remove_if_left(address: *const u8, length: usize) {
    const SOCKET: usize = 41;
    const CONNECT: usize = 42;
    const UNLINK: usize = 87;
    const LOCAL_STREAM_CLOEXEC: [usize; 2] = [1, 0o2_000_001];
    const ECONNREFUSED: i32 = 111;
    let [domain, sort] = LOCAL_STREAM_CLOEXEC;
    // SAFETY: has no effect on memory.
    let probe = unsafe { sys::call(SOCKET, domain, sort, 0) };
    if probe < 0 {
        return;
    }
    // SAFETY: the kernel reads the name.
    let answer = unsafe { sys::call(CONNECT, probe as usize, address as usize, length) };
    sys::close(probe as i32);
    let mut path = [0u8; LONGEST_NAME];
    let bytes = length.min(LONGEST_NAME) - 2;
    for (at, byte) in path[..bytes].iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *byte = unsafe { *address.add(2 + at) };
    }
    if crate::errno::failed_with(answer, ECONNREFUSED) {
        // SAFETY: the path ends with a zero byte: the array is longer than it.
        unsafe { sys::call(UNLINK, path.as_ptr() as usize, 0, 0) };
    }
}

/// Whether the socket receives datagrams.
pub fn is_datagram(file: i32) -> bool {
    const DATAGRAM: i32 = 2;
    option(file, TYPE) == DATAGRAM
}

/// Where a datagram to this name arrives, when the socket sends datagrams.
pub fn destination(file: i32, name: Name) -> Option<Key> {
    const DATAGRAM: i32 = 2;
    (name != Name::None && option(file, TYPE) == DATAGRAM).then(|| name.datagrams())
}

/// In the child process after a fork.
pub fn forked() {
    SOCKETS.force(|_| {});
}
