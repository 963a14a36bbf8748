//! The files that the program changes.
//!
//! The recorded run is the user's own: it changes the real files. Before its first change of a file,
//! the runtime copies it into a layer (`layer`), where later runs find it as it was at the start.
//! Those runs get a layer of their own with such copies: whatever they change, they change there, and
//! what they have changed they see there. All this is by path, in the functions of the C library that
//! take one; a descriptor needs nothing.
//!
//! Only regular files, symbolic links and folders are looked after. What cannot be (a file that is too
//! large, a change of a folder that was there before, a list of the files in such a folder) is noted
//! beside the layer, by name, and a change is refused.

mod layer;
mod path;

use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::lock::Lock;
use crate::mode;
use crate::sys;
use crate::wire::environment::{self, FilesAre};
use crate::wire::files::Problem;
use layer::{Content, Failure, Kind, Place};
pub use path::Path;

/// How files are treated: 0 as without us.
static WAY: AtomicU8 = AtomicU8::new(0);
const KEPT: u8 = 1;
const PRIVATE: u8 = 2;
/// The path of the layer: bytes of the environment that the program was started with, which the runtime
/// needs for as long as the process lives.
static ROOT: AtomicUsize = AtomicUsize::new(0);
static ROOT_LENGTH: AtomicUsize = AtomicUsize::new(0);
/// Held while a file is copied into the layer.
static COPYING: Lock<()> = Lock::new(());

/// Called by the constructor of the library.
///
/// # Safety
/// `variables` is an array of C strings that ends with a null pointer and lives as long as the
/// process; no other thread runs.
pub unsafe fn begin(variables: *const *const c_char) {
    // SAFETY: the caller's promise.
    let Some(value) = (unsafe { mode::variable(variables, environment::FILES) }) else {
        return;
    };
    let Some((way, root)) = FilesAre::parse_value(value) else {
        return;
    };
    ROOT.store(root.as_ptr() as usize, Ordering::Relaxed);
    ROOT_LENGTH.store(root.len(), Ordering::Relaxed);
    let way = match way {
        FilesAre::Kept => KEPT,
        FilesAre::Private => PRIVATE,
    };
    WAY.store(way, Ordering::Relaxed);
}

/// In the child process after a fork.
pub fn forked() {
    COPYING.force(|()| {});
}

fn root() -> &'static [u8] {
    let start = ROOT.load(Ordering::Relaxed) as *const u8;
    // SAFETY: `begin` stored a slice that lives as long as the process, before `WAY` was set.
    unsafe { core::slice::from_raw_parts(start, ROOT_LENGTH.load(Ordering::Relaxed)) }
}

/// What a function is about to do with a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// A symbolic link at the end of the path stands for its target.
    pub follows: bool,
    pub changes: bool,
    /// The file need not be there.
    pub creates: bool,
    /// What is in the file will be lost.
    pub empties: bool,
}

impl Wish {
    pub const LOOK: Wish = Wish {
        follows: true,
        changes: false,
        creates: false,
        empties: false,
    };
    pub const LOOK_AT_LINK: Wish = Wish {
        follows: false,
        ..Wish::LOOK
    };
    pub const CHANGE: Wish = Wish {
        changes: true,
        ..Wish::LOOK
    };
    pub const REMOVE: Wish = Wish {
        follows: false,
        empties: true,
        ..Wish::CHANGE
    };
    /// The name itself goes elsewhere, with its content.
    pub const MOVE: Wish = Wish {
        follows: false,
        ..Wish::CHANGE
    };
    pub const CREATE: Wish = Wish {
        creates: true,
        ..Wish::REMOVE
    };

    /// What `open` with these flags does.
    pub fn of_flags(flags: c_int) -> Wish {
        const ACCESS: c_int = 3;
        const CREATE: c_int = 0o100;
        const EXCLUSIVE: c_int = 0o200;
        const TRUNCATE: c_int = 0o1000;
        const NO_FOLLOW: c_int = 0o400_000;
        const ONLY_PATH: c_int = 0o10_000_000;
        const TEMPORARY: c_int = 0o20_000_000;
        if flags & (ONLY_PATH | TEMPORARY) != 0 {
            return Wish::LOOK;
        }
        let creates = flags & CREATE != 0;
        Wish {
            follows: flags & NO_FOLLOW == 0 && !(creates && flags & EXCLUSIVE != 0),
            changes: flags & ACCESS != 0 || flags & TRUNCATE != 0 || creates,
            creates,
            empties: flags & TRUNCATE != 0,
        }
    }
}

pub const HERE: c_int = -100;

/// Whether this run is to leave nothing behind.
#[inline(always)]
pub fn are_private() -> bool {
    WAY.load(Ordering::Relaxed) == PRIVATE
}

/// Whether paths mean what they mean without us.
#[inline(always)]
pub fn is_off() -> bool {
    WAY.load(Ordering::Relaxed) == 0
}

/// The path to use instead of `path`, which is relative to the folder `folder`; `None` for the path
/// itself.
///
/// # Safety
/// `path` is null or ends with a zero byte.
#[inline(always)]
pub unsafe fn redirected(folder: c_int, path: *const c_char, wish: Wish) -> Option<Path> {
    let way = WAY.load(Ordering::Relaxed);
    if way == 0 || path.is_null() || (way == KEPT && !wish.changes) {
        return None;
    }
    // SAFETY: the caller's promise.
    if unsafe { is_of_the_system(path) } {
        return None;
    }
    // SAFETY: as above.
    unsafe { redirect(way, folder, path, wish) }
}

/// Whether the path names a device or a file of the kernel, as far as its text tells.
///
/// # Safety
/// `path` ends with a zero byte.
#[inline(never)]
unsafe fn is_of_the_system(path: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    let text = unsafe { mode::text(path.cast()) };
    let folders: [&[u8]; 3] = [b"/dev/", b"/proc/", b"/sys/"];
    folders.iter().any(|folder| text.starts_with(folder))
        && !text.windows(2).any(|two| two == b"..")
}

/// As `redirected`. Not inlined: its paths need more stack than the smallest thread has, which is to be
/// able to open files as long as nothing is redirected.
///
/// # Safety
/// `path` ends with a zero byte.
#[inline(never)]
unsafe fn redirect(way: u8, folder: c_int, path: *const c_char, wish: Wish) -> Option<Path> {
    // SAFETY: the caller's promise.
    let text = unsafe { mode::text(path.cast()) };
    let name = name(folder, text, wish.follows)?;
    let left_alone: [&[u8]; 4] = [b"/dev", b"/proc", b"/sys", root()];
    if left_alone.iter().any(|folder| name.is_below(folder)) {
        return None;
    }
    let mut own = Path::new();
    own.push(root());
    own.push(name.bytes());
    if !own.fits() || !name.fits() {
        note(Problem::LongPath, &name);
        own.clear();
        own.push(root());
        return (way == PRIVATE && wish.changes).then(|| nowhere(own));
    }
    COPYING.with(|()| match way {
        KEPT => {
            keep(&name, &mut own);
            None
        }
        _ => private(&name, own, wish),
    })
}

/// Copies what is about to be changed, unless that is done.
fn keep(name: &Path, own: &mut Path) {
    let root = root().len();
    if layer::place(own, root) != Place::Outside {
        return;
    }
    match layer::kind(name) {
        Kind::Missing => layer::mark_gone(own, root),
        Kind::Regular => {
            let _ = copy(name, own, Content::All);
        }
        Kind::Link => layer::copy_link(name, own, root),
        Kind::Folder | Kind::Other => {}
    }
}

fn copy(name: &Path, own: &mut Path, content: Content) -> Result<(), Failure> {
    let copied = layer::copy(name, own, root().len(), content);
    if let Err(failure) = copied {
        let problem = match failure {
            Failure::Large => Problem::LargeFile,
            Failure::Unreadable => Problem::UnreadableFile,
        };
        note(problem, name);
    }
    copied
}

/// Where this run has the file.
fn private(name: &Path, mut own: Path, wish: Wish) -> Option<Path> {
    let root = root().len();
    match layer::place(&mut own, root) {
        Place::Inside | Place::Gone => Some(own),
        Place::Marked if wish.creates => {
            layer::remove_mark(&own);
            Some(own)
        }
        Place::Marked => Some(nowhere(own)),
        Place::Outside => match layer::kind(name) {
            Kind::Missing if wish.creates && has_folder(name) => {
                layer::make_way(&mut own, root);
                Some(own)
            }
            Kind::Regular if wish.changes => {
                let content = match wish.empties {
                    true => Content::Nothing,
                    false => Content::All,
                };
                match copy(name, &mut own, content) {
                    Ok(()) => Some(own),
                    Err(_) => Some(nowhere(own)),
                }
            }
            Kind::Link if wish.changes => {
                layer::copy_link(name, &mut own, root);
                Some(own)
            }
            // Only its mode or its times change, which nothing but a look at them can tell.
            Kind::Folder if wish == Wish::CHANGE => {
                layer::make_way(&mut own, root);
                layer::make_folder(&own);
                Some(own)
            }
            // A folder that is there cannot be created.
            Kind::Folder if wish.changes && !wish.creates => {
                note(Problem::Folder, name);
                Some(nowhere(own))
            }
            Kind::Missing | Kind::Regular | Kind::Folder | Kind::Link | Kind::Other => None,
        },
    }
}

/// A path at which nothing is.
fn nowhere(mut own: Path) -> Path {
    own.cut(root().len());
    own.push(b"/norns:gone/file");
    own
}

/// Whether the folder is there in which a file is to be created.
fn has_folder(name: &Path) -> bool {
    let mut folder = Path::new();
    let bytes = name.bytes();
    let end = bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    folder.push(&bytes[..end.max(1)]);
    layer::kind(&folder) == Kind::Folder
}

/// A function has removed or moved what `redirected` returned: what the real file system has by that
/// name must not show through.
pub fn removed(own: &mut Path) {
    let root = root();
    if !own.is_below(root) {
        return;
    }
    let mut name = Path::new();
    name.push(&own.bytes()[root.len()..]);
    if layer::kind(&name) != Kind::Missing && layer::place(own, root.len()) == Place::Outside {
        layer::mark_gone(own, root.len());
    }
}

/// A function has created a file with a name that was not known before.
///
/// # Safety
/// `path` is null or ends with a zero byte.
pub unsafe fn created(path: *const c_char) {
    if WAY.load(Ordering::Relaxed) != KEPT || path.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { mode::text(path.cast()) };
    let Some(name) = name(HERE, text, false) else {
        return;
    };
    let mut own = Path::new();
    own.push(root());
    own.push(name.bytes());
    if own.fits() && layer::place(&mut own, root().len()) == Place::Outside {
        layer::mark_gone(&mut own, root().len());
    }
}

/// A function has created this folder.
pub fn folder_created(own: &Path) {
    layer::make_opaque(own);
}

/// The program is about to read the names in a folder; if that is a real one, names that this run has
/// changed do not show.
pub fn lists(name: *const c_char) {
    if WAY.load(Ordering::Relaxed) != PRIVATE || name.is_null() {
        return;
    }
    // SAFETY: the program passed a path.
    let text = unsafe { mode::text(name.cast()) };
    let Some(folder) = self::name(HERE, text, true) else {
        return;
    };
    let mut own = Path::new();
    own.push(root());
    own.push(folder.bytes());
    if own.fits() && layer::kind(&own) == Kind::Folder {
        note(Problem::List, &folder);
    }
}

/// The absolute path of what the program calls `path`, without symbolic links. What is not there is
/// named by its folder.
fn name(folder: c_int, path: &[u8], follows: bool) -> Option<Path> {
    let mut wanted = Path::new();
    wanted.push(path);
    if path.is_empty() {
        return None;
    }
    let mut name = Path::new();
    if wanted.fits() && resolve(folder, &wanted, follows, &mut name) {
        return Some(name);
    }
    let end = path.iter().rposition(|byte| *byte != b'/')? + 1;
    let start = path[..end].iter().rposition(|byte| *byte == b'/');
    let last = &path[start.map_or(0, |at| at + 1)..end];
    let is_dots = last.len() <= 2 && last.iter().all(|byte| *byte == b'.');
    wanted.clear();
    wanted.push(match start {
        None => b".",
        Some(0) => b"/",
        Some(at) => &path[..at],
    });
    if !is_dots && wanted.fits() && resolve(folder, &wanted, true, &mut name) {
        if name.bytes().len() > 1 {
            name.push(b"/");
        }
        name.push(last);
        return Some(name);
    }
    // Its folder may be one of the layer.
    name.clear();
    if path[0] != b'/' {
        wanted.clear();
        wanted.push(b".");
        if !resolve(folder, &wanted, true, &mut name) {
            return None;
        }
        name.push(b"/");
    }
    name.push(&path[..end]);
    Some(name)
}

/// The kernel's own name of what is at `path`.
fn resolve(folder: c_int, path: &Path, follows: bool, to: &mut Path) -> bool {
    const OPENAT: usize = 257;
    const ONLY_PATH_CLOEXEC: usize = 0o12_000_000;
    const NO_FOLLOW: usize = 0o400_000;
    let flags = ONLY_PATH_CLOEXEC | if follows { 0 } else { NO_FOLLOW };
    // SAFETY: the path ends with a zero byte.
    let file = unsafe { sys::call(OPENAT, folder as usize, path.as_ptr() as usize, flags) } as i32;
    if file < 0 {
        return false;
    }
    let mut link = Path::new();
    link.push(b"/proc/self/fd/");
    link.push_number(file);
    let found = to.read_link(&link);
    sys::close(file);
    found && to.bytes().first() == Some(&b'/')
}

/// Notes what cannot be looked after.
fn note(problem: Problem, name: &Path) {
    note_value(problem, name.bytes());
}

/// Notes what a later run does not get as it was.
#[cold]
pub fn note_value(problem: Problem, name: &[u8]) {
    if is_off() {
        return;
    }
    const WRITE_CREATE_APPEND_CLOEXEC: usize = 0o1 | 0o100 | 0o2000 | 0o2_000_000;
    let mut path = Path::new();
    path.push(root());
    path.push(b".notes\0");
    let file = sys::open(path.bytes(), WRITE_CREATE_APPEND_CLOEXEC);
    if file < 0 {
        return;
    }
    let mut line = Path::new();
    line.push(problem.word().as_bytes());
    line.push(b" ");
    line.push(name);
    line.push(b"\n");
    sys::write(file, line.bytes());
    sys::close(file);
}
