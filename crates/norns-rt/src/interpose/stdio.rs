//! Streams of the C library: the memory that their functions read and write for the caller.
//!
//! A stream's own lock, which these functions take inside the C library, is no event: it keeps the stream
//! whole, and what it orders besides is an accident of the run. `flockfile` is a lock of the program.
//! Formats themselves are taken for constants.

use core::ffi::{c_char, c_int, c_void};

use super::buffer::{filled, reads, seen};
use super::descriptors;
use super::format::{Arguments, Printed, Scanned, printed, scanned};
use crate::channels::stream;
use crate::mode::is_off;
use crate::operation::Operation;
use crate::real::interpose_variadic;
use crate::wire::{Code, object};
use crate::{interpose, real};

type Text = *const c_char;
type Stream = *mut c_void;
type List = *mut Arguments;

mod real_functions {
    use super::*;

    real! {
        fn strlen(text: Text) -> usize;
        fn strnlen(text: Text, most: usize) -> usize;
        fn puts(text: Text) -> c_int;
        fn fgetc(stream: Stream) -> c_int;
        fn getc(stream: Stream) -> c_int;
        fn fflush(stream: Stream) -> c_int;
        fn fclose(stream: Stream) -> c_int;
        fn fputs(text: Text, stream: Stream) -> c_int;
        fn fputs_unlocked(text: Text, stream: Stream) -> c_int;
        fn perror(text: Text);
        fn fwrite(from: *const c_void, size: usize, count: usize, stream: Stream) -> usize;
        fn fwrite_unlocked(from: *const c_void, size: usize, count: usize, stream: Stream) -> usize;
        fn fread(to: *mut c_void, size: usize, count: usize, stream: Stream) -> usize;
        fn fread_unlocked(to: *mut c_void, size: usize, count: usize, stream: Stream) -> usize;
        fn __fread_chk(to: *mut c_void, room: usize, size: usize, count: usize, stream: Stream) -> usize;
        fn fgets(to: *mut c_char, size: c_int, stream: Stream) -> *mut c_char;
        fn fgets_unlocked(to: *mut c_char, size: c_int, stream: Stream) -> *mut c_char;
        fn __fgets_chk(to: *mut c_char, room: usize, size: c_int, stream: Stream) -> *mut c_char;
        fn getline(line: *mut *mut c_char, room: *mut usize, stream: Stream) -> isize;
        fn getdelim(line: *mut *mut c_char, room: *mut usize, end: c_int, stream: Stream) -> isize;
        fn __getdelim(line: *mut *mut c_char, room: *mut usize, end: c_int, stream: Stream) -> isize;
        fn flockfile(stream: Stream);
        fn ftrylockfile(stream: Stream) -> c_int;
        fn funlockfile(stream: Stream);
        fn vprintf(format: Text, list: List) -> c_int;
        fn vfprintf(stream: Stream, format: Text, list: List) -> c_int;
        fn vdprintf(file: c_int, format: Text, list: List) -> c_int;
        fn vsprintf(to: *mut c_char, format: Text, list: List) -> c_int;
        fn vsnprintf(to: *mut c_char, room: usize, format: Text, list: List) -> c_int;
        fn vasprintf(to: *mut *mut c_char, format: Text, list: List) -> c_int;
        fn __vprintf_chk(flag: c_int, format: Text, list: List) -> c_int;
        fn __vfprintf_chk(stream: Stream, flag: c_int, format: Text, list: List) -> c_int;
        fn __vdprintf_chk(file: c_int, flag: c_int, format: Text, list: List) -> c_int;
        fn __vsprintf_chk(to: *mut c_char, flag: c_int, room: usize, format: Text, list: List) -> c_int;
        fn __vsnprintf_chk(to: *mut c_char, most: usize, flag: c_int, room: usize, format: Text, list: List) -> c_int;
        fn __vasprintf_chk(to: *mut *mut c_char, flag: c_int, format: Text, list: List) -> c_int;
        fn vscanf(format: Text, list: List) -> c_int;
        fn vfscanf(stream: Stream, format: Text, list: List) -> c_int;
        fn vsscanf(text: Text, format: Text, list: List) -> c_int;
        fn __isoc99_vscanf(format: Text, list: List) -> c_int;
        fn __isoc99_vfscanf(stream: Stream, format: Text, list: List) -> c_int;
        fn __isoc99_vsscanf(text: Text, format: Text, list: List) -> c_int;
        fn __isoc23_vscanf(format: Text, list: List) -> c_int;
        fn __isoc23_vfscanf(stream: Stream, format: Text, list: List) -> c_int;
        fn __isoc23_vsscanf(text: Text, format: Text, list: List) -> c_int;
    }
}

use real_functions as real_call;

unsafe fn reads_text(text: Text, pc: usize) {
    if seen() && !text.is_null() {
        // SAFETY: the program passed a string.
        reads(text, unsafe { real_call::strlen(text) } + 1, pc);
    }
}

/// A line was read into `to`, or nothing.
unsafe fn filled_line(to: *mut c_char, result: *mut c_char, pc: usize) {
    if seen() && !result.is_null() {
        // SAFETY: the C library has just put a string there.
        filled(to, unsafe { real_call::strlen(to) } + 1, pc);
    }
}

/// Reads a line with `call` into a block that it may make larger.
unsafe fn with_line(
    line: *mut *mut c_char,
    room: *mut usize,
    pc: usize,
    call: impl FnOnce() -> isize,
) -> isize {
    if !seen() {
        return call();
    }
    reads(line, size_of::<usize>(), pc);
    reads(room, size_of::<usize>(), pc);
    let known = |place: *mut *mut c_char| {
        if place.is_null() {
            return core::ptr::null_mut();
        }
        // SAFETY: the program passed a pointer to a pointer, which is not null.
        unsafe { place.read() }
    };
    let before = known(line);
    let result = call();
    if known(line) != before {
        filled(line, size_of::<usize>(), pc);
        filled(room, size_of::<usize>(), pc);
    }
    if result >= 0 {
        filled(known(line), result as usize + 1, pc);
    }
    result
}

/// Prints with `call`: its strings are read before it, counts are stored by it.
unsafe fn printing(format: Text, list: List, pc: usize, call: impl FnOnce() -> c_int) -> c_int {
    if !seen() || list.is_null() {
        return call();
    }
    // SAFETY: the program's own list; `call` gets the list itself, this is a copy.
    let copy = unsafe { list.read() };
    let read = |argument| {
        if let Printed::Text(text, most) = argument {
            // SAFETY: a string, or as many bytes as are printed of it.
            let length = unsafe { real_call::strnlen(text, most) };
            reads(text, length.saturating_add(1).min(most), pc);
        }
    };
    // SAFETY: the program passed both to a `printf`.
    unsafe { printed(format, copy, read) };
    let result = call();
    let stored = |argument| {
        if let Printed::Count(place, size) = argument {
            filled(place, size, pc);
        }
    };
    // SAFETY: as above.
    unsafe { printed(format, copy, stored) };
    result
}

/// As `printing`, into memory that has `room` bytes.
unsafe fn printing_into(
    to: *mut c_char,
    room: usize,
    format: Text,
    list: List,
    pc: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: as there.
    let result = unsafe { printing(format, list, pc, call) };
    if result >= 0 {
        filled(to, (result as usize + 1).min(room), pc);
    }
    result
}

/// As `printing`, into a new block whose address is stored at `to`.
unsafe fn printing_new(
    to: *mut *mut c_char,
    format: Text,
    list: List,
    pc: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: as there.
    let result = unsafe { printing(format, list, pc, call) };
    if result >= 0 {
        filled(to, size_of::<usize>(), pc);
    }
    result
}

unsafe fn scanning(format: Text, list: List, pc: usize, call: impl FnOnce() -> c_int) -> c_int {
    if !seen() || list.is_null() {
        return call();
    }
    // SAFETY: as in `printing`.
    let copy = unsafe { list.read() };
    let result = call();
    let stored = |stored| match stored {
        Scanned::Bytes(place, size) => filled(place, size, pc),
        // SAFETY: the C library has just put a string there.
        Scanned::Text(text) => filled(text, unsafe { real_call::strlen(text) } + 1, pc),
    };
    // SAFETY: the program passed both to a `scanf`.
    unsafe { scanned(format, copy, result, stored) };
    result
}

unsafe fn scanning_text(
    text: Text,
    format: Text,
    list: List,
    pc: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the program passed a string and its list.
    unsafe {
        reads_text(text, pc);
        scanning(format, list, pc, call)
    }
}

unsafe fn scanning_stream(
    stream: Stream,
    format: Text,
    list: List,
    pc: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let read = || {
        let result = call();
        // SAFETY: the program passed an open stream, and the call has just read from it.
        unsafe { stream::has_read(stream, pc) };
        result
    };
    // SAFETY: as in `printing`.
    unsafe { scanning(format, list, pc, read) }
}

fn stream_lock(code: Code, stream: Stream, pc: usize) -> Operation {
    Operation::new(code, object::RECURSIVE_MUTEX, stream as usize, pc)
}

interpose! {
    fn puts(text: Text) -> c_int |pc| {
        reads_text(text, pc);
        real_call::puts(text)
    }
    fn fputs(text: Text, stream: Stream) -> c_int |pc| {
        reads_text(text, pc);
        stream::writes(stream, pc);
        real_call::fputs(text, stream)
    }
    fn fputs_unlocked(text: Text, stream: Stream) -> c_int |pc| {
        reads_text(text, pc);
        stream::writes(stream, pc);
        real_call::fputs_unlocked(text, stream)
    }
    fn perror(text: Text) |pc| {
        reads_text(text, pc);
        real_call::perror(text);
    }
    fn fwrite(from: *const c_void, size: usize, count: usize, stream: Stream) -> usize |pc| {
        reads(from, size.saturating_mul(count), pc);
        stream::writes(stream, pc);
        real_call::fwrite(from, size, count, stream)
    }
    fn fwrite_unlocked(from: *const c_void, size: usize, count: usize, stream: Stream) -> usize |pc| {
        reads(from, size.saturating_mul(count), pc);
        stream::writes(stream, pc);
        real_call::fwrite_unlocked(from, size, count, stream)
    }
    fn fread(to: *mut c_void, size: usize, count: usize, stream: Stream) -> usize |pc| {
        let result = real_call::fread(to, size, count, stream);
        stream::has_read(stream, pc);
        filled(to, result.saturating_mul(size), pc);
        result
    }
    fn fread_unlocked(to: *mut c_void, size: usize, count: usize, stream: Stream) -> usize |pc| {
        let result = real_call::fread_unlocked(to, size, count, stream);
        stream::has_read(stream, pc);
        filled(to, result.saturating_mul(size), pc);
        result
    }
    fn __fread_chk(to: *mut c_void, room: usize, size: usize, count: usize, stream: Stream) -> usize |pc| {
        let result = real_call::__fread_chk(to, room, size, count, stream);
        stream::has_read(stream, pc);
        filled(to, result.saturating_mul(size), pc);
        result
    }
    fn fgets(to: *mut c_char, size: c_int, stream: Stream) -> *mut c_char |pc| {
        let result = real_call::fgets(to, size, stream);
        stream::has_read(stream, pc);
        filled_line(to, result, pc);
        result
    }
    fn fgets_unlocked(to: *mut c_char, size: c_int, stream: Stream) -> *mut c_char |pc| {
        let result = real_call::fgets_unlocked(to, size, stream);
        stream::has_read(stream, pc);
        filled_line(to, result, pc);
        result
    }
    fn __fgets_chk(to: *mut c_char, room: usize, size: c_int, stream: Stream) -> *mut c_char |pc| {
        let result = real_call::__fgets_chk(to, room, size, stream);
        stream::has_read(stream, pc);
        filled_line(to, result, pc);
        result
    }
    fn getline(line: *mut *mut c_char, room: *mut usize, stream: Stream) -> isize |pc| {
        with_line(line, room, pc, || {
            let result = real_call::getline(line, room, stream);
            stream::has_read(stream, pc);
            result
        })
    }
    fn getdelim(line: *mut *mut c_char, room: *mut usize, end: c_int, stream: Stream) -> isize |pc| {
        with_line(line, room, pc, || {
            let result = real_call::getdelim(line, room, end, stream);
            stream::has_read(stream, pc);
            result
        })
    }
    fn __getdelim(line: *mut *mut c_char, room: *mut usize, end: c_int, stream: Stream) -> isize |pc| {
        with_line(line, room, pc, || {
            let result = real_call::__getdelim(line, room, end, stream);
            stream::has_read(stream, pc);
            result
        })
    }

    fn fgetc(stream: Stream) -> c_int |pc| {
        let reads_more = stream::is_used_up(stream);
        let result = real_call::fgetc(stream);
        if reads_more {
            stream::has_read(stream, pc);
        }
        result
    }
    fn getc(stream: Stream) -> c_int |pc| {
        let reads_more = stream::is_used_up(stream);
        let result = real_call::getc(stream);
        if reads_more {
            stream::has_read(stream, pc);
        }
        result
    }
    fn fflush(stream: Stream) -> c_int |pc| {
        stream::writes(stream, pc);
        real_call::fflush(stream)
    }
    fn fclose(stream: Stream) -> c_int |pc| {
        stream::writes(stream, pc);
        stream::closes(stream, pc);
        descriptors::stream_ends(stream);
        real_call::fclose(stream)
    }

    fn flockfile(stream: Stream) |pc| {
        real_call::flockfile(stream);
        if !is_off() {
            stream_lock(Code::Lock, stream, pc).after(Code::Lock);
        }
    }
    fn ftrylockfile(stream: Stream) -> c_int |pc| {
        let result = real_call::ftrylockfile(stream);
        if result == 0 && !is_off() {
            stream_lock(Code::Lock, stream, pc).after(Code::Lock);
        }
        result
    }
    fn funlockfile(stream: Stream) |pc| {
        if is_off() {
            return real_call::funlockfile(stream);
        }
        let unlock = stream_lock(Code::Unlock, stream, pc);
        unlock.before();
        real_call::funlockfile(stream);
        unlock.after(Code::Unlock);
    }

    fn vprintf(format: Text, list: List) -> c_int |pc| {
        printing(format, list, pc, || real_call::vprintf(format, list))
    }
    fn vfprintf(stream: Stream, format: Text, list: List) -> c_int |pc| {
        printing(format, list, pc, || {
            stream::writes(stream, pc);
            real_call::vfprintf(stream, format, list)
        })
    }
    fn vdprintf(file: c_int, format: Text, list: List) -> c_int |pc| {
        printing(format, list, pc, || {
            stream::writes_to(file, pc);
            real_call::vdprintf(file, format, list)
        })
    }
    fn vsprintf(to: *mut c_char, format: Text, list: List) -> c_int |pc| {
        printing_into(to, usize::MAX, format, list, pc, || real_call::vsprintf(to, format, list))
    }
    fn vsnprintf(to: *mut c_char, room: usize, format: Text, list: List) -> c_int |pc| {
        printing_into(to, room, format, list, pc, || real_call::vsnprintf(to, room, format, list))
    }
    fn vasprintf(to: *mut *mut c_char, format: Text, list: List) -> c_int |pc| {
        printing_new(to, format, list, pc, || real_call::vasprintf(to, format, list))
    }
    fn __vprintf_chk(flag: c_int, format: Text, list: List) -> c_int |pc| {
        printing(format, list, pc, || real_call::__vprintf_chk(flag, format, list))
    }
    fn __vfprintf_chk(stream: Stream, flag: c_int, format: Text, list: List) -> c_int |pc| {
        printing(format, list, pc, || {
            stream::writes(stream, pc);
            real_call::__vfprintf_chk(stream, flag, format, list)
        })
    }
    fn __vdprintf_chk(file: c_int, flag: c_int, format: Text, list: List) -> c_int |pc| {
        printing(format, list, pc, || {
            stream::writes_to(file, pc);
            real_call::__vdprintf_chk(file, flag, format, list)
        })
    }
    fn __vsprintf_chk(to: *mut c_char, flag: c_int, room: usize, format: Text, list: List) -> c_int |pc| {
        printing_into(to, room, format, list, pc, || {
            real_call::__vsprintf_chk(to, flag, room, format, list)
        })
    }
    fn __vsnprintf_chk(to: *mut c_char, most: usize, flag: c_int, room: usize, format: Text, list: List) -> c_int |pc| {
        printing_into(to, most, format, list, pc, || {
            real_call::__vsnprintf_chk(to, most, flag, room, format, list)
        })
    }
    fn __vasprintf_chk(to: *mut *mut c_char, flag: c_int, format: Text, list: List) -> c_int |pc| {
        printing_new(to, format, list, pc, || real_call::__vasprintf_chk(to, flag, format, list))
    }
}

interpose_variadic! {
    fn printf(format: Text; list) |pc| {
        printing(format, list, pc, || real_call::vprintf(format, list))
    }
    fn fprintf(stream: Stream, format: Text; list) |pc| {
        printing(format, list, pc, || {
            stream::writes(stream, pc);
            real_call::vfprintf(stream, format, list)
        })
    }
    fn dprintf(file: c_int, format: Text; list) |pc| {
        printing(format, list, pc, || {
            stream::writes_to(file, pc);
            real_call::vdprintf(file, format, list)
        })
    }
    fn sprintf(to: *mut c_char, format: Text; list) |pc| {
        printing_into(to, usize::MAX, format, list, pc, || real_call::vsprintf(to, format, list))
    }
    fn snprintf(to: *mut c_char, room: usize, format: Text; list) |pc| {
        printing_into(to, room, format, list, pc, || real_call::vsnprintf(to, room, format, list))
    }
    fn asprintf(to: *mut *mut c_char, format: Text; list) |pc| {
        printing_new(to, format, list, pc, || real_call::vasprintf(to, format, list))
    }
    fn __printf_chk(flag: c_int, format: Text; list) |pc| {
        printing(format, list, pc, || real_call::__vprintf_chk(flag, format, list))
    }
    fn __fprintf_chk(stream: Stream, flag: c_int, format: Text; list) |pc| {
        printing(format, list, pc, || {
            stream::writes(stream, pc);
            real_call::__vfprintf_chk(stream, flag, format, list)
        })
    }
    fn __dprintf_chk(file: c_int, flag: c_int, format: Text; list) |pc| {
        printing(format, list, pc, || {
            stream::writes_to(file, pc);
            real_call::__vdprintf_chk(file, flag, format, list)
        })
    }
    fn __sprintf_chk(to: *mut c_char, flag: c_int, room: usize, format: Text; list) |pc| {
        printing_into(to, room, format, list, pc, || {
            real_call::__vsprintf_chk(to, flag, room, format, list)
        })
    }
    fn __snprintf_chk(to: *mut c_char, most: usize, flag: c_int, room: usize, format: Text; list) |pc| {
        printing_into(to, most, format, list, pc, || {
            real_call::__vsnprintf_chk(to, most, flag, room, format, list)
        })
    }
    fn __asprintf_chk(to: *mut *mut c_char, flag: c_int, format: Text; list) |pc| {
        printing_new(to, format, list, pc, || real_call::__vasprintf_chk(to, flag, format, list))
    }
}

/// The functions that read by a format, once for each name under which compilers know them: from the
/// standard input, from a stream and from a text, each with variable arguments and with a list.
macro_rules! scan {
    ($($scanf:ident $vscanf:ident, $fscanf:ident $vfscanf:ident, $sscanf:ident $vsscanf:ident;)*) => {
        interpose! {$(
            fn $vscanf(format: Text, list: List) -> c_int |pc| {
                scanning(format, list, pc, || real_call::$vscanf(format, list))
            }
            fn $vfscanf(stream: Stream, format: Text, list: List) -> c_int |pc| {
                scanning_stream(stream, format, list, pc, || real_call::$vfscanf(stream, format, list))
            }
            fn $vsscanf(text: Text, format: Text, list: List) -> c_int |pc| {
                scanning_text(text, format, list, pc, || real_call::$vsscanf(text, format, list))
            }
        )*}
        interpose_variadic! {$(
            fn $scanf(format: Text; list) |pc| {
                scanning(format, list, pc, || real_call::$vscanf(format, list))
            }
            fn $fscanf(stream: Stream, format: Text; list) |pc| {
                scanning_stream(stream, format, list, pc, || real_call::$vfscanf(stream, format, list))
            }
            fn $sscanf(text: Text, format: Text; list) |pc| {
                scanning_text(text, format, list, pc, || real_call::$vsscanf(text, format, list))
            }
        )*}
    };
}

scan! {
    scanf vscanf, fscanf vfscanf, sscanf vsscanf;
    __isoc99_scanf __isoc99_vscanf, __isoc99_fscanf __isoc99_vfscanf, __isoc99_sscanf __isoc99_vsscanf;
    __isoc23_scanf __isoc23_vscanf, __isoc23_fscanf __isoc23_vfscanf, __isoc23_sscanf __isoc23_vsscanf;
}
