//! Functions that take the path of a file: `crate::files` says which file they mean in this run.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use crate::channels::{files_watched, names};
use crate::files::{self, HERE, Path, Wish, redirected, removed};
use crate::{inputs, interpose, real};

type Text = *const c_char;
type Place = *mut c_void;

mod real_functions {
    use super::*;

    real! {
        fn open(path: Text, flags: c_int, mode: c_int) -> c_int;
        fn open64(path: Text, flags: c_int, mode: c_int) -> c_int;
        fn openat(folder: c_int, path: Text, flags: c_int, mode: c_int) -> c_int;
        fn openat64(folder: c_int, path: Text, flags: c_int, mode: c_int) -> c_int;
        fn __open_2(path: Text, flags: c_int) -> c_int;
        fn __open64_2(path: Text, flags: c_int) -> c_int;
        fn __openat_2(folder: c_int, path: Text, flags: c_int) -> c_int;
        fn __openat64_2(folder: c_int, path: Text, flags: c_int) -> c_int;
        fn creat(path: Text, mode: c_int) -> c_int;
        fn creat64(path: Text, mode: c_int) -> c_int;
        fn fopen(path: Text, mode: Text) -> Place;
        fn fopen64(path: Text, mode: Text) -> Place;
        fn fdopen(file: c_int, mode: Text) -> Place;
        fn opendir(path: Text) -> Place;
        fn fstatat(folder: c_int, path: Text, to: Place, flags: c_int) -> c_int;
        fn fstatat64(folder: c_int, path: Text, to: Place, flags: c_int) -> c_int;
        fn statx(folder: c_int, path: Text, flags: c_int, mask: c_int, to: Place) -> c_int;
        fn access(path: Text, how: c_int) -> c_int;
        fn faccessat(folder: c_int, path: Text, how: c_int, flags: c_int) -> c_int;
        fn readlinkat(folder: c_int, path: Text, to: *mut c_char, room: usize) -> isize;
        fn truncate(path: Text, length: c_long) -> c_int;
        fn truncate64(path: Text, length: c_long) -> c_int;
        fn chmod(path: Text, mode: c_int) -> c_int;
        fn chown(path: Text, user: c_int, group: c_int) -> c_int;
        fn utimes(path: Text, times: Place) -> c_int;
        fn utime(path: Text, times: Place) -> c_int;
        fn utimensat(folder: c_int, path: Text, times: Place, flags: c_int) -> c_int;
        fn unlink(path: Text) -> c_int;
        fn unlinkat(folder: c_int, path: Text, flags: c_int) -> c_int;
        fn remove(path: Text) -> c_int;
        fn rmdir(path: Text) -> c_int;
        fn mkdir(path: Text, mode: c_int) -> c_int;
        fn mkdirat(folder: c_int, path: Text, mode: c_int) -> c_int;
        fn rename(old: Text, new: Text) -> c_int;
        fn renameat(from: c_int, old: Text, to: c_int, new: Text) -> c_int;
        fn renameat2(from: c_int, old: Text, to: c_int, new: Text, flags: c_int) -> c_int;
        fn link(old: Text, new: Text) -> c_int;
        fn linkat(from: c_int, old: Text, to: c_int, new: Text, flags: c_int) -> c_int;
        fn symlink(target: Text, path: Text) -> c_int;
        fn symlinkat(target: Text, folder: c_int, path: Text) -> c_int;
        fn inotify_init() -> c_int;
        fn inotify_init1(flags: c_int) -> c_int;
        fn inotify_add_watch(watches: c_int, path: Text, mask: c_uint) -> c_int;
        fn fanotify_init(flags: c_uint, event_flags: c_uint) -> c_int;
        fn mkstemp(template: *mut c_char) -> c_int;
        fn mkstemp64(template: *mut c_char) -> c_int;
        fn mkostemp(template: *mut c_char, flags: c_int) -> c_int;
        fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int;
        fn mkdtemp(template: *mut c_char) -> *mut c_char;
    }
}

use real_functions as real_call;

/// The path of this run, or the program's own.
pub fn or(own: &Option<Path>, path: Text) -> Text {
    own.as_ref().map_or(path, Path::as_ptr)
}

/// The folder that such a path is relative to.
fn folder_of(own: &Option<Path>, folder: c_int) -> c_int {
    if own.is_some() { HERE } else { folder }
}

/// A file was opened: its descriptor, or an error below zero.
///
/// # Safety
/// `path` is null or a string.
unsafe fn opened(path: Text, file: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { inputs::served::opened(path, file) };
    file
}

/// What `fopen` with this mode does.
///
/// # Safety
/// `mode` is null or a string.
pub unsafe fn wish_of_stream(mode: Text) -> Wish {
    const CHANGES_CREATES: c_int = 0o101;
    const TRUNCATES: c_int = 0o1000;
    if files::is_off() || mode.is_null() {
        return Wish::LOOK;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { crate::mode::text(mode.cast()) };
    Wish::of_flags(match text.first() {
        Some(b'w') => CHANGES_CREATES | TRUNCATES,
        Some(b'a') => CHANGES_CREATES,
        _ if text.contains(&b'+') => 2,
        _ => 0,
    })
}

/// Opens a stream with `call`.
///
/// # Safety
/// `path` and `mode` are null or strings.
unsafe fn opening_stream(
    own: &Option<Path>,
    path: Text,
    mode: Text,
    pc: usize,
    call: impl FnOnce() -> Place,
) -> Place {
    const CREATES: c_int = 0o101;
    const EXCLUSIVE: c_int = 0o200;
    if mode.is_null() {
        return call();
    }
    // SAFETY: the caller's promise.
    let text = unsafe { crate::mode::text(mode.cast()) };
    let exclusive = if text.contains(&b'x') { EXCLUSIVE } else { 0 };
    let flags = match text.first() {
        Some(b'w' | b'a') => CREATES | exclusive,
        _ => 0,
    };
    let mut stream = core::ptr::null_mut();
    // SAFETY: the caller's promise.
    unsafe {
        names::opening(HERE, or(own, path), path, flags, pc, || {
            stream = call();
            if stream.is_null() { -1 } else { 0 }
        });
    }
    stream
}

/// Whether the functions with `flags` look at a link itself.
fn wish_of_look(flags: c_int) -> Wish {
    const SYMLINK_NOFOLLOW: c_int = 0x100;
    if flags & SYMLINK_NOFOLLOW != 0 {
        Wish::LOOK_AT_LINK
    } else {
        Wish::LOOK
    }
}

/// Creates, removes or renames files with `call`.
///
/// # Safety
/// The paths are null or strings.
unsafe fn naming_anew<const COUNT: usize>(
    paths: [Text; COUNT],
    pc: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    paths
        .iter()
        .for_each(|path| unsafe { names::changes(*path, pc) });
    let result = call();
    if result == 0 {
        // SAFETY: as above.
        paths
            .iter()
            .for_each(|path| unsafe { names::found(*path, pc) });
    }
    result
}

/// Removes a file or folder with `call`.
///
/// # Safety
/// `path` is null or a string.
unsafe fn removing(
    folder: c_int,
    path: Text,
    pc: usize,
    call: impl FnOnce(c_int, Text) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let mut own = unsafe { redirected(folder, path, Wish::REMOVE) };
    let call = || call(folder_of(&own, folder), or(&own, path));
    // SAFETY: as above.
    let result = unsafe { naming_anew([path], pc, call) };
    if let (0, Some(own)) = (result, &mut own) {
        removed(own);
    }
    result
}

/// Creates a folder with `call`.
///
/// # Safety
/// `path` is null or a string.
unsafe fn making(
    folder: c_int,
    path: Text,
    pc: usize,
    call: impl FnOnce(c_int, Text) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let own = unsafe { redirected(folder, path, Wish::CREATE) };
    let call = || call(folder_of(&own, folder), or(&own, path));
    // SAFETY: as above.
    let result = unsafe { naming_anew([path], pc, call) };
    if let (0, Some(own)) = (result, &own) {
        files::folder_created(own);
    }
    result
}

/// Renames or links a file with `call`.
///
/// # Safety
/// The paths are null or strings.
#[allow(clippy::too_many_arguments)]
unsafe fn moving(
    from: c_int,
    old: Text,
    to: c_int,
    new: Text,
    leaves: bool,
    pc: usize,
    call: impl FnOnce(c_int, Text, c_int, Text) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let (mut source, target) = unsafe {
        (
            redirected(from, old, Wish::MOVE),
            redirected(to, new, Wish::CREATE),
        )
    };
    let (from, to) = (folder_of(&source, from), folder_of(&target, to));
    let call = || call(from, or(&source, old), to, or(&target, new));
    // SAFETY: the caller's promise.
    let result = unsafe { naming_anew([old, new], pc, call) };
    if let (0, false, Some(source)) = (result, leaves, &mut source) {
        removed(source);
    }
    result
}

/// Creates a file or folder with a new name, which `call` puts into the template.
///
/// # Safety
/// `template` is null or a string that the program lets the function change.
unsafe fn naming<R>(template: *mut c_char, call: impl FnOnce(*mut c_char) -> R) -> R {
    // SAFETY: the caller's promise.
    let own = unsafe { redirected(HERE, template, Wish::CREATE) };
    let Some(mut own) = own else {
        let result = call(template);
        // SAFETY: the caller's promise.
        unsafe { files::created(template) };
        return result;
    };
    let result = call(own.as_mut_ptr());
    let own = own.bytes();
    // SAFETY: the caller's promise.
    let length = unsafe { crate::mode::text(template.cast()) }.len();
    // The last six bytes of the template are new; both paths end with the same name.
    for back in 1..=6.min(length) {
        // SAFETY: within the template.
        unsafe { *template.add(length - back) = own[own.len() - back] as c_char };
    }
    result
}

interpose! {
    // The last argument of `open` is in a register whether the program passed it or not.
    fn open(path: Text, flags: c_int, mode: c_int) -> c_int |pc| {
        let own = redirected(HERE, path, Wish::of_flags(flags));
        names::opening(HERE, or(&own, path), path, flags, pc, || {
            opened(path, real_call::open(or(&own, path), flags, mode))
        })
    }
    fn open64(path: Text, flags: c_int, mode: c_int) -> c_int |pc| {
        let own = redirected(HERE, path, Wish::of_flags(flags));
        names::opening(HERE, or(&own, path), path, flags, pc, || {
            opened(path, real_call::open64(or(&own, path), flags, mode))
        })
    }
    fn openat(folder: c_int, path: Text, flags: c_int, mode: c_int) -> c_int |pc| {
        let own = redirected(folder, path, Wish::of_flags(flags));
        let folder = folder_of(&own, folder);
        names::opening(folder, or(&own, path), path, flags, pc, || {
            opened(path, real_call::openat(folder, or(&own, path), flags, mode))
        })
    }
    fn openat64(folder: c_int, path: Text, flags: c_int, mode: c_int) -> c_int |pc| {
        let own = redirected(folder, path, Wish::of_flags(flags));
        let folder = folder_of(&own, folder);
        names::opening(folder, or(&own, path), path, flags, pc, || {
            opened(path, real_call::openat64(folder, or(&own, path), flags, mode))
        })
    }
    fn __open_2(path: Text, flags: c_int) -> c_int |pc| {
        let own = redirected(HERE, path, Wish::of_flags(flags));
        names::opening(HERE, or(&own, path), path, flags, pc, || {
            opened(path, real_call::__open_2(or(&own, path), flags))
        })
    }
    fn __open64_2(path: Text, flags: c_int) -> c_int |pc| {
        let own = redirected(HERE, path, Wish::of_flags(flags));
        names::opening(HERE, or(&own, path), path, flags, pc, || {
            opened(path, real_call::__open64_2(or(&own, path), flags))
        })
    }
    fn __openat_2(folder: c_int, path: Text, flags: c_int) -> c_int |pc| {
        let own = redirected(folder, path, Wish::of_flags(flags));
        let folder = folder_of(&own, folder);
        names::opening(folder, or(&own, path), path, flags, pc, || {
            opened(path, real_call::__openat_2(folder, or(&own, path), flags))
        })
    }
    fn __openat64_2(folder: c_int, path: Text, flags: c_int) -> c_int |pc| {
        let own = redirected(folder, path, Wish::of_flags(flags));
        let folder = folder_of(&own, folder);
        names::opening(folder, or(&own, path), path, flags, pc, || {
            opened(path, real_call::__openat64_2(folder, or(&own, path), flags))
        })
    }
    fn creat(path: Text, mode: c_int) -> c_int |pc| {
        const FLAGS: c_int = 0o1101;
        let own = redirected(HERE, path, Wish::of_flags(FLAGS));
        names::opening(HERE, or(&own, path), path, FLAGS, pc, || real_call::creat(or(&own, path), mode))
    }
    fn creat64(path: Text, mode: c_int) -> c_int |pc| {
        const FLAGS: c_int = 0o1101;
        let own = redirected(HERE, path, Wish::of_flags(FLAGS));
        names::opening(HERE, or(&own, path), path, FLAGS, pc, || real_call::creat64(or(&own, path), mode))
    }
    fn fopen(path: Text, mode: Text) -> Place |pc| {
        let own = redirected(HERE, path, wish_of_stream(mode));
        opening_stream(&own, path, mode, pc, || real_call::fopen(or(&own, path), mode))
    }
    fn fopen64(path: Text, mode: Text) -> Place |pc| {
        let own = redirected(HERE, path, wish_of_stream(mode));
        opening_stream(&own, path, mode, pc, || real_call::fopen64(or(&own, path), mode))
    }
    fn fdopen(file: c_int, mode: Text) -> Place |pc| {
        // The C library reads by itself.
        inputs::lost(file);
        real_call::fdopen(file, mode)
    }
    fn opendir(path: Text) -> Place |pc| {
        let own = redirected(HERE, path, Wish::LOOK);
        if own.is_none() {
            files::lists(path);
        }
        real_call::opendir(or(&own, path))
    }

    fn fstatat(folder: c_int, path: Text, to: Place, flags: c_int) -> c_int |pc| {
        let own = redirected(folder, path, wish_of_look(flags));
        let result = real_call::fstatat(folder_of(&own, folder), or(&own, path), to, flags);
        names::found(path, pc);
        result
    }
    fn fstatat64(folder: c_int, path: Text, to: Place, flags: c_int) -> c_int |pc| {
        let own = redirected(folder, path, wish_of_look(flags));
        let result = real_call::fstatat64(folder_of(&own, folder), or(&own, path), to, flags);
        names::found(path, pc);
        result
    }
    fn statx(folder: c_int, path: Text, flags: c_int, mask: c_int, to: Place) -> c_int |pc| {
        let own = redirected(folder, path, wish_of_look(flags));
        let result = real_call::statx(folder_of(&own, folder), or(&own, path), flags, mask, to);
        names::found(path, pc);
        result
    }
    fn access(path: Text, how: c_int) -> c_int |pc| {
        let own = redirected(HERE, path, Wish::LOOK);
        let result = real_call::access(or(&own, path), how);
        names::found(path, pc);
        result
    }
    fn faccessat(folder: c_int, path: Text, how: c_int, flags: c_int) -> c_int |pc| {
        let own = redirected(folder, path, wish_of_look(flags));
        let result = real_call::faccessat(folder_of(&own, folder), or(&own, path), how, flags);
        names::found(path, pc);
        result
    }
    fn readlinkat(folder: c_int, path: Text, to: *mut c_char, room: usize) -> isize |pc| {
        let own = redirected(folder, path, Wish::LOOK_AT_LINK);
        real_call::readlinkat(folder_of(&own, folder), or(&own, path), to, room)
    }

    fn truncate(path: Text, length: c_long) -> c_int |pc| {
        let own = redirected(HERE, path, Wish::CHANGE);
        files_watched::change(pc);
        real_call::truncate(or(&own, path), length)
    }
    fn truncate64(path: Text, length: c_long) -> c_int |pc| {
        let own = redirected(HERE, path, Wish::CHANGE);
        files_watched::change(pc);
        real_call::truncate64(or(&own, path), length)
    }
    fn chmod(path: Text, mode: c_int) -> c_int |pc| {
        let own = redirected(HERE, path, Wish::CHANGE);
        files_watched::change(pc);
        real_call::chmod(or(&own, path), mode)
    }
    fn chown(path: Text, user: c_int, group: c_int) -> c_int |pc| {
        let own = redirected(HERE, path, Wish::CHANGE);
        files_watched::change(pc);
        real_call::chown(or(&own, path), user, group)
    }
    fn utimes(path: Text, times: Place) -> c_int |pc| {
        let own = redirected(HERE, path, Wish::CHANGE);
        files_watched::change(pc);
        real_call::utimes(or(&own, path), times)
    }
    fn utime(path: Text, times: Place) -> c_int |pc| {
        let own = redirected(HERE, path, Wish::CHANGE);
        files_watched::change(pc);
        real_call::utime(or(&own, path), times)
    }
    fn utimensat(folder: c_int, path: Text, times: Place, flags: c_int) -> c_int |pc| {
        let own = redirected(folder, path, Wish::CHANGE);
        files_watched::change(pc);
        real_call::utimensat(folder_of(&own, folder), or(&own, path), times, flags)
    }

    fn unlink(path: Text) -> c_int |pc| {
        removing(HERE, path, pc, |_, path| real_call::unlink(path))
    }
    fn unlinkat(folder: c_int, path: Text, flags: c_int) -> c_int |pc| {
        removing(folder, path, pc, |folder, path| real_call::unlinkat(folder, path, flags))
    }
    fn remove(path: Text) -> c_int |pc| {
        removing(HERE, path, pc, |_, path| real_call::remove(path))
    }
    fn rmdir(path: Text) -> c_int |pc| {
        removing(HERE, path, pc, |_, path| real_call::rmdir(path))
    }
    fn mkdir(path: Text, mode: c_int) -> c_int |pc| {
        making(HERE, path, pc, |_, path| real_call::mkdir(path, mode))
    }
    fn mkdirat(folder: c_int, path: Text, mode: c_int) -> c_int |pc| {
        making(folder, path, pc, |folder, path| real_call::mkdirat(folder, path, mode))
    }
    fn rename(old: Text, new: Text) -> c_int |pc| {
        moving(HERE, old, HERE, new, false, pc, |_, old, _, new| real_call::rename(old, new))
    }
    fn renameat(from: c_int, old: Text, to: c_int, new: Text) -> c_int |pc| {
        moving(from, old, to, new, false, pc, |from, old, to, new| {
            real_call::renameat(from, old, to, new)
        })
    }
    fn renameat2(from: c_int, old: Text, to: c_int, new: Text, flags: c_int) -> c_int |pc| {
        moving(from, old, to, new, false, pc, |from, old, to, new| {
            real_call::renameat2(from, old, to, new, flags)
        })
    }
    fn link(old: Text, new: Text) -> c_int |pc| {
        moving(HERE, old, HERE, new, true, pc, |_, old, _, new| real_call::link(old, new))
    }
    fn linkat(from: c_int, old: Text, to: c_int, new: Text, flags: c_int) -> c_int |pc| {
        moving(from, old, to, new, true, pc, |from, old, to, new| {
            real_call::linkat(from, old, to, new, flags)
        })
    }
    fn inotify_init() -> c_int |pc| {
        files_watched::begins();
        real_call::inotify_init()
    }
    fn inotify_init1(flags: c_int) -> c_int |pc| {
        files_watched::begins();
        real_call::inotify_init1(flags)
    }
    fn fanotify_init(flags: c_uint, event_flags: c_uint) -> c_int |pc| {
        files_watched::begins();
        real_call::fanotify_init(flags, event_flags)
    }
    // What is watched is the copy that this run may change.
    fn inotify_add_watch(watches: c_int, path: Text, mask: c_uint) -> c_int |pc| {
        let own = redirected(HERE, path, Wish::CHANGE);
        real_call::inotify_add_watch(watches, or(&own, path), mask)
    }

    fn symlink(target: Text, path: Text) -> c_int |pc| {
        let own = redirected(HERE, path, Wish::CREATE);
        naming_anew([path], pc, || real_call::symlink(target, or(&own, path)))
    }
    fn symlinkat(target: Text, folder: c_int, path: Text) -> c_int |pc| {
        let own = redirected(folder, path, Wish::CREATE);
        naming_anew([path], pc, || {
            real_call::symlinkat(target, folder_of(&own, folder), or(&own, path))
        })
    }

    fn mkstemp(template: *mut c_char) -> c_int |pc| {
        naming(template, |template| real_call::mkstemp(template))
    }
    fn mkstemp64(template: *mut c_char) -> c_int |pc| {
        naming(template, |template| real_call::mkstemp64(template))
    }
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int |pc| {
        naming(template, |template| real_call::mkostemp(template, flags))
    }
    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int |pc| {
        naming(template, |template| real_call::mkostemp64(template, flags))
    }
    fn mkdtemp(template: *mut c_char) -> *mut c_char |pc| {
        let own = naming(template, |own| real_call::mkdtemp(own));
        if own.is_null() {
            return own;
        }
        if let Some(path) = redirected(HERE, template, Wish::LOOK_AT_LINK) {
            files::folder_created(&path);
        }
        template
    }
}
