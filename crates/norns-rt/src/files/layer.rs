//! A folder that holds other versions of files: a file that the program calls `/a/b` stands at `a/b`
//! in it. A symbolic link to `GONE` says that there is no such file, and a folder with the sticky bit
//! that nothing of the real folder shows through.
//!
//! Nothing here sets `errno`.

use core::sync::atomic::{AtomicU64, Ordering};

use super::path::Path;
use crate::sys;

/// What a link in a layer points to, if the file is not there.
const GONE: &[u8] = b"/norns:gone";
/// Larger files are not copied, nor more than four times as much altogether.
const MOST_BYTES: u64 = 256 << 20;

static COPIED: AtomicU64 = AtomicU64::new(0);

const FORMAT: u32 = 0o170_000;
const STICKY: u32 = 0o1000;

/// What is known of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Missing,
    Regular,
    Folder,
    Link,
    /// A device, pipe or socket.
    Other,
}

/// The beginning and the times of what `lstat` fills in.
#[repr(C)]
#[derive(Default)]
struct Status {
    device: u64,
    inode: u64,
    links: u64,
    mode: u32,
    ids: [u32; 3],
    special_device: u64,
    size: u64,
    blocks: [u64; 2],
    times: [u64; 6],
    rest: [u64; 3],
}

fn status(path: &Path) -> Option<Status> {
    const LSTAT: usize = 6;
    let mut status = Status::default();
    let (name, to) = (path.as_ptr() as usize, &raw mut status as usize);
    // SAFETY: the path ends with a zero byte; the kernel fills in a `struct stat`, which `Status` is as
    // large as.
    let result = unsafe { sys::call(LSTAT, name, to, 0) };
    (result == 0).then_some(status)
}

pub fn kind(path: &Path) -> Kind {
    match status(path).map(|status| status.mode & FORMAT) {
        None => Kind::Missing,
        Some(0o100_000) => Kind::Regular,
        Some(0o040_000) => Kind::Folder,
        Some(0o120_000) => Kind::Link,
        Some(_) => Kind::Other,
    }
}

/// Where a layer has a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The layer says nothing of it.
    Outside,
    Inside,
    /// The layer says that it is not there.
    Gone,
    /// As `Gone`, and a link at this very name says so.
    Marked,
}

/// `path` is a name in the layer whose own path has `root` bytes.
pub fn place(path: &mut Path, root: usize) -> Place {
    let mut opaque = false;
    let found = path.each_part(root, |part, is_whole| {
        let Some(status) = status(part) else {
            return Some(if opaque { Place::Gone } else { Place::Outside });
        };
        opaque |= status.mode & (FORMAT | STICKY) == 0o040_000 | STICKY;
        let is_mark = status.mode & FORMAT == 0o120_000 && is_gone(part);
        match (is_mark, is_whole) {
            (true, true) => Some(Place::Marked),
            (true, false) => Some(Place::Gone),
            (false, true) => Some(Place::Inside),
            (false, false) => None,
        }
    });
    // A folder that only stands on the way to something else says nothing.
    match found {
        Some(Place::Inside) if !opaque && kind(path) == Kind::Folder => Place::Outside,
        found => found.unwrap_or(Place::Outside),
    }
}

fn is_gone(link: &Path) -> bool {
    let mut target = Path::new();
    target.read_link(link) && target.bytes().iter().eq(GONE)
}

/// Makes the folders on the way to a name of the layer.
pub fn make_way(path: &mut Path, root: usize) {
    path.each_part(root, |part, is_whole| {
        if !is_whole {
            make_folder(part);
        }
        None::<()>
    });
}

pub fn make_folder(path: &Path) {
    const MKDIR: usize = 83;
    // SAFETY: the path ends with a zero byte.
    unsafe { sys::call(MKDIR, path.as_ptr() as usize, 0o700, 0) };
}

/// Says that there is no such file.
pub fn mark_gone(path: &mut Path, root: usize) {
    make_way(path, root);
    let mut target = Path::new();
    target.push(GONE);
    make_link(&target, path);
}

fn make_link(target: &Path, path: &Path) {
    const SYMLINK: usize = 88;
    let (target, path) = (target.as_ptr() as usize, path.as_ptr() as usize);
    // SAFETY: both end with a zero byte.
    unsafe { sys::call(SYMLINK, target, path, 0) };
}

pub fn remove_mark(path: &Path) {
    const UNLINK: usize = 87;
    // SAFETY: the path ends with a zero byte.
    unsafe { sys::call(UNLINK, path.as_ptr() as usize, 0, 0) };
}

/// The program has made this folder: nothing shows through.
pub fn make_opaque(path: &Path) {
    const CHMOD: usize = 90;
    let mode = status(path).map_or(0, |status| status.mode & 0o7777);
    // SAFETY: the path ends with a zero byte.
    unsafe { sys::call(CHMOD, path.as_ptr() as usize, (mode | STICKY) as usize, 0) };
}

/// Copies a symbolic link.
pub fn copy_link(from: &Path, to: &mut Path, root: usize) {
    let mut target = Path::new();
    if target.read_link(from) {
        make_way(to, root);
        make_link(&target, to);
    }
}

/// Why a file has no copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    Large,
    Unreadable,
}

/// How much of a file is copied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Content {
    All,
    Nothing,
}

/// Copies a regular file with its mode and times.
pub fn copy(from: &Path, to: &mut Path, root: usize, content: Content) -> Result<(), Failure> {
    const O_CLOEXEC: usize = 0o2_000_000;
    const CREATE_NEW: usize = 0o1 | 0o100 | 0o200;
    const SENDFILE: usize = 40;
    const FCHMOD: usize = 91;
    const UTIMENSAT: usize = 280;
    let status = status(from).ok_or(Failure::Unreadable)?;
    let size = match content {
        Content::All => status.size,
        Content::Nothing => 0,
    };
    let copied = COPIED.fetch_add(size, Ordering::Relaxed);
    if size > MOST_BYTES || copied > 4 * MOST_BYTES {
        return Err(Failure::Large);
    }
    make_way(to, root);
    // SAFETY: the paths end with a zero byte; no call accesses other memory, but for the times.
    unsafe {
        let source = sys::call(sys::OPEN, from.as_ptr() as usize, O_CLOEXEC, 0);
        if source < 0 && content == Content::All {
            return Err(Failure::Unreadable);
        }
        let name = to.as_ptr() as usize;
        let target = sys::call(sys::OPEN, name, CREATE_NEW | O_CLOEXEC, 0o600);
        if target >= 0 {
            let mut left = size;
            while left > 0 {
                let (into, from) = (target as usize, source as usize);
                let sent = sys::call6(SENDFILE, into, from, 0, left as usize, 0, 0);
                if sent <= 0 {
                    break;
                }
                left = left.saturating_sub(sent as u64);
            }
            let mode = (status.mode & 0o7777) as usize;
            sys::call(FCHMOD, target as usize, mode, 0);
            let [accessed, accessed_rest, modified, modified_rest, ..] = status.times;
            let times = [accessed, accessed_rest, modified, modified_rest];
            let times = times.as_ptr() as usize;
            sys::call6(UTIMENSAT, target as usize, 0, times, 0, 0, 0);
            sys::close(target as i32);
        }
        if source >= 0 {
            sys::close(source as i32);
        }
    }
    Ok(())
}
