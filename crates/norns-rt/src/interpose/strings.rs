//! Memory and string functions as accesses to ranges.
//!
//! A function that stops at a difference (`strcmp`) counts as a read of what it had to compare; one
//! that may read everything (`memcmp`) counts as a read of everything. Ranges are logged before the
//! real call, unless that decides their length.

use core::ffi::{c_char, c_int, c_void};

use super::buffer::{filled, reads, seen, writes};
use crate::{interpose, real};

type Text = *const c_char;
/// A text of wide characters, of four bytes each.
type Wide = *const i32;

mod real_functions {
    use super::*;

    real! {
        fn memcpy(to: *mut c_void, from: *const c_void, size: usize) -> *mut c_void;
        fn memmove(to: *mut c_void, from: *const c_void, size: usize) -> *mut c_void;
        fn mempcpy(to: *mut c_void, from: *const c_void, size: usize) -> *mut c_void;
        fn memset(to: *mut c_void, byte: c_int, size: usize) -> *mut c_void;
        fn bzero(to: *mut c_void, size: usize);
        fn memcmp(one: *const c_void, other: *const c_void, size: usize) -> c_int;
        fn bcmp(one: *const c_void, other: *const c_void, size: usize) -> c_int;
        fn memchr(from: *const c_void, byte: c_int, size: usize) -> *mut c_void;
        fn memrchr(from: *const c_void, byte: c_int, size: usize) -> *mut c_void;
        fn strlen(text: Text) -> usize;
        fn strnlen(text: Text, most: usize) -> usize;
        fn strcpy(to: *mut c_char, from: Text) -> *mut c_char;
        fn stpcpy(to: *mut c_char, from: Text) -> *mut c_char;
        fn strncpy(to: *mut c_char, from: Text, size: usize) -> *mut c_char;
        fn strcat(to: *mut c_char, from: Text) -> *mut c_char;
        fn strncat(to: *mut c_char, from: Text, most: usize) -> *mut c_char;
        fn strcmp(one: Text, other: Text) -> c_int;
        fn strncmp(one: Text, other: Text, most: usize) -> c_int;
        fn strcasecmp(one: Text, other: Text) -> c_int;
        fn strncasecmp(one: Text, other: Text, most: usize) -> c_int;
        fn strchr(text: Text, byte: c_int) -> *mut c_char;
        fn strrchr(text: Text, byte: c_int) -> *mut c_char;
        fn strstr(text: Text, part: Text) -> *mut c_char;
        fn strcasestr(text: Text, part: Text) -> *mut c_char;
        fn strchrnul(text: Text, byte: c_int) -> *mut c_char;
        fn strspn(text: Text, bytes: Text) -> usize;
        fn strcspn(text: Text, bytes: Text) -> usize;
        fn strpbrk(text: Text, bytes: Text) -> *mut c_char;
        fn stpncpy(to: *mut c_char, from: Text, size: usize) -> *mut c_char;
        fn memccpy(to: *mut c_void, from: *const c_void, byte: c_int, size: usize) -> *mut c_void;
        fn memmem(from: *const c_void, size: usize, part: *const c_void, part_size: usize) -> *mut c_void;
        fn wcslen(text: Wide) -> usize;
        fn wcscpy(to: *mut i32, from: Wide) -> *mut i32;
        fn wmemcpy(to: *mut i32, from: Wide, count: usize) -> *mut i32;
        fn wmemset(to: *mut i32, character: i32, count: usize) -> *mut i32;
        fn strdup(text: Text) -> *mut c_char;
        fn strndup(text: Text, most: usize) -> *mut c_char;
        fn __memcpy_chk(to: *mut c_void, from: *const c_void, size: usize, room: usize) -> *mut c_void;
        fn __memmove_chk(to: *mut c_void, from: *const c_void, size: usize, room: usize) -> *mut c_void;
        fn __mempcpy_chk(to: *mut c_void, from: *const c_void, size: usize, room: usize) -> *mut c_void;
        fn __memset_chk(to: *mut c_void, byte: c_int, size: usize, room: usize) -> *mut c_void;
        fn __strcpy_chk(to: *mut c_char, from: Text, room: usize) -> *mut c_char;
        fn __stpcpy_chk(to: *mut c_char, from: Text, room: usize) -> *mut c_char;
        fn __strncpy_chk(to: *mut c_char, from: Text, size: usize, room: usize) -> *mut c_char;
        fn __strcat_chk(to: *mut c_char, from: Text, room: usize) -> *mut c_char;
        fn __strncat_chk(to: *mut c_char, from: Text, most: usize, room: usize) -> *mut c_char;
    }
}

use real_functions as real_call;

/// How many bytes of two texts must be compared, up to and including the first difference or the
/// terminating zero.
unsafe fn compared(one: Text, other: Text, most: usize, fold: bool) -> usize {
    let lower = |byte: c_char| {
        let byte = byte as u8;
        if fold {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    let mut length = 0;
    while length < most {
        // SAFETY: neither text has ended before this position.
        let (a, b) = unsafe { (*one.add(length), *other.add(length)) };
        length += 1;
        if lower(a) != lower(b) || a == 0 {
            break;
        }
    }
    length
}

unsafe fn read_compared(one: Text, other: Text, most: usize, fold: bool, pc: usize) {
    if seen() {
        // SAFETY: the program passed both texts to a function that compares them up to `most` bytes.
        let length = unsafe { compared(one, other, most, fold) };
        reads(one, length, pc);
        reads(other, length, pc);
    }
}

/// `from`, with its terminating zero, is appended to `to`.
unsafe fn appended(to: Text, from: Text, most: usize, pc: usize) {
    if seen() {
        // SAFETY: both are texts.
        let (old, new) = unsafe { (real_call::strlen(to), real_call::strnlen(from, most)) };
        reads(to, old + 1, pc);
        reads(from, (new + 1).min(most), pc);
        writes(to.wrapping_add(old), new + 1, pc);
    }
}

/// `part` was searched in `text`, and found there or not.
unsafe fn found_part(text: Text, part: Text, found: *mut c_char, pc: usize) {
    if seen() {
        // SAFETY: both are texts.
        let (whole, size) = unsafe { (real_call::strlen(text), real_call::strlen(part)) };
        let length = if found.is_null() {
            whole + 1
        } else {
            found as usize - text as usize + size
        };
        reads(text, length, pc);
        reads(part, size + 1, pc);
    }
}

/// The first `length` bytes of `text` and the one behind them were compared with those of `bytes`.
unsafe fn read_up_to(text: Text, length: usize, bytes: Text, pc: usize) {
    if seen() {
        reads(text, length + 1, pc);
        // SAFETY: `bytes` is a text.
        reads(bytes, unsafe { real_call::strlen(bytes) } + 1, pc);
    }
}

interpose! {
    // `norns-rt-exports` jumps to these from the functions of the C library.
    fn __tsan_memcpy(to: *mut c_void, from: *const c_void, size: usize) -> *mut c_void |pc| {
        reads(from, size, pc);
        writes(to, size, pc);
        real_call::memcpy(to, from, size)
    }
    fn __memcpy_chk(to: *mut c_void, from: *const c_void, size: usize, room: usize) -> *mut c_void |pc| {
        reads(from, size, pc);
        writes(to, size, pc);
        real_call::__memcpy_chk(to, from, size, room)
    }
    fn __tsan_memmove(to: *mut c_void, from: *const c_void, size: usize) -> *mut c_void |pc| {
        reads(from, size, pc);
        writes(to, size, pc);
        real_call::memmove(to, from, size)
    }
    fn __memmove_chk(to: *mut c_void, from: *const c_void, size: usize, room: usize) -> *mut c_void |pc| {
        reads(from, size, pc);
        writes(to, size, pc);
        real_call::__memmove_chk(to, from, size, room)
    }
    fn mempcpy(to: *mut c_void, from: *const c_void, size: usize) -> *mut c_void |pc| {
        reads(from, size, pc);
        writes(to, size, pc);
        real_call::mempcpy(to, from, size)
    }
    fn __mempcpy_chk(to: *mut c_void, from: *const c_void, size: usize, room: usize) -> *mut c_void |pc| {
        reads(from, size, pc);
        writes(to, size, pc);
        real_call::__mempcpy_chk(to, from, size, room)
    }
    fn __tsan_memset(to: *mut c_void, byte: c_int, size: usize) -> *mut c_void |pc| {
        writes(to, size, pc);
        real_call::memset(to, byte, size)
    }
    fn __memset_chk(to: *mut c_void, byte: c_int, size: usize, room: usize) -> *mut c_void |pc| {
        writes(to, size, pc);
        real_call::__memset_chk(to, byte, size, room)
    }
    fn bzero(to: *mut c_void, size: usize) |pc| {
        writes(to, size, pc);
        real_call::bzero(to, size);
    }
    fn __norns_memcmp(one: *const c_void, other: *const c_void, size: usize) -> c_int |pc| {
        reads(one, size, pc);
        reads(other, size, pc);
        real_call::memcmp(one, other, size)
    }
    fn __norns_bcmp(one: *const c_void, other: *const c_void, size: usize) -> c_int |pc| {
        reads(one, size, pc);
        reads(other, size, pc);
        real_call::bcmp(one, other, size)
    }
    fn memchr(from: *const c_void, byte: c_int, size: usize) -> *mut c_void |pc| {
        let found = real_call::memchr(from, byte, size);
        let length = if found.is_null() { size } else { found as usize - from as usize + 1 };
        reads(from, length, pc);
        found
    }
    fn memrchr(from: *const c_void, byte: c_int, size: usize) -> *mut c_void |pc| {
        reads(from, size, pc);
        real_call::memrchr(from, byte, size)
    }
    fn strlen(text: Text) -> usize |pc| {
        let length = real_call::strlen(text);
        reads(text, length + 1, pc);
        length
    }
    fn strnlen(text: Text, most: usize) -> usize |pc| {
        let length = real_call::strnlen(text, most);
        reads(text, (length + 1).min(most), pc);
        length
    }
    fn strcpy(to: *mut c_char, from: Text) -> *mut c_char |pc| {
        if seen() {
            let size = real_call::strlen(from) + 1;
            reads(from, size, pc);
            writes(to, size, pc);
        }
        real_call::strcpy(to, from)
    }
    fn __strcpy_chk(to: *mut c_char, from: Text, room: usize) -> *mut c_char |pc| {
        if seen() {
            let size = real_call::strlen(from) + 1;
            reads(from, size, pc);
            writes(to, size, pc);
        }
        real_call::__strcpy_chk(to, from, room)
    }
    fn stpcpy(to: *mut c_char, from: Text) -> *mut c_char |pc| {
        if seen() {
            let size = real_call::strlen(from) + 1;
            reads(from, size, pc);
            writes(to, size, pc);
        }
        real_call::stpcpy(to, from)
    }
    fn __stpcpy_chk(to: *mut c_char, from: Text, room: usize) -> *mut c_char |pc| {
        if seen() {
            let size = real_call::strlen(from) + 1;
            reads(from, size, pc);
            writes(to, size, pc);
        }
        real_call::__stpcpy_chk(to, from, room)
    }
    fn strncpy(to: *mut c_char, from: Text, size: usize) -> *mut c_char |pc| {
        if seen() {
            reads(from, (real_call::strnlen(from, size) + 1).min(size), pc);
            writes(to, size, pc);
        }
        real_call::strncpy(to, from, size)
    }
    fn __strncpy_chk(to: *mut c_char, from: Text, size: usize, room: usize) -> *mut c_char |pc| {
        if seen() {
            reads(from, (real_call::strnlen(from, size) + 1).min(size), pc);
            writes(to, size, pc);
        }
        real_call::__strncpy_chk(to, from, size, room)
    }
    fn strcat(to: *mut c_char, from: Text) -> *mut c_char |pc| {
        appended(to, from, usize::MAX, pc);
        real_call::strcat(to, from)
    }
    fn __strcat_chk(to: *mut c_char, from: Text, room: usize) -> *mut c_char |pc| {
        appended(to, from, usize::MAX, pc);
        real_call::__strcat_chk(to, from, room)
    }
    fn strncat(to: *mut c_char, from: Text, most: usize) -> *mut c_char |pc| {
        appended(to, from, most, pc);
        real_call::strncat(to, from, most)
    }
    fn __strncat_chk(to: *mut c_char, from: Text, most: usize, room: usize) -> *mut c_char |pc| {
        appended(to, from, most, pc);
        real_call::__strncat_chk(to, from, most, room)
    }
    fn strcmp(one: Text, other: Text) -> c_int |pc| {
        read_compared(one, other, usize::MAX, false, pc);
        real_call::strcmp(one, other)
    }
    fn strncmp(one: Text, other: Text, most: usize) -> c_int |pc| {
        read_compared(one, other, most, false, pc);
        real_call::strncmp(one, other, most)
    }
    fn strcasecmp(one: Text, other: Text) -> c_int |pc| {
        read_compared(one, other, usize::MAX, true, pc);
        real_call::strcasecmp(one, other)
    }
    fn strncasecmp(one: Text, other: Text, most: usize) -> c_int |pc| {
        read_compared(one, other, most, true, pc);
        real_call::strncasecmp(one, other, most)
    }
    fn strchr(text: Text, byte: c_int) -> *mut c_char |pc| {
        let found = real_call::strchr(text, byte);
        if seen() {
            let length = if found.is_null() { real_call::strlen(text) } else { found as usize - text as usize };
            reads(text, length + 1, pc);
        }
        found
    }
    fn strrchr(text: Text, byte: c_int) -> *mut c_char |pc| {
        if seen() {
            reads(text, real_call::strlen(text) + 1, pc);
        }
        real_call::strrchr(text, byte)
    }
    fn strstr(text: Text, part: Text) -> *mut c_char |pc| {
        let found = real_call::strstr(text, part);
        found_part(text, part, found, pc);
        found
    }
    fn strcasestr(text: Text, part: Text) -> *mut c_char |pc| {
        let found = real_call::strcasestr(text, part);
        found_part(text, part, found, pc);
        found
    }
    fn strchrnul(text: Text, byte: c_int) -> *mut c_char |pc| {
        let found = real_call::strchrnul(text, byte);
        reads(text, found as usize - text as usize + 1, pc);
        found
    }
    fn strspn(text: Text, bytes: Text) -> usize |pc| {
        let length = real_call::strspn(text, bytes);
        read_up_to(text, length, bytes, pc);
        length
    }
    fn strcspn(text: Text, bytes: Text) -> usize |pc| {
        let length = real_call::strcspn(text, bytes);
        read_up_to(text, length, bytes, pc);
        length
    }
    fn strpbrk(text: Text, bytes: Text) -> *mut c_char |pc| {
        let found = real_call::strpbrk(text, bytes);
        if seen() {
            read_up_to(text, real_call::strcspn(text, bytes), bytes, pc);
        }
        found
    }
    fn stpncpy(to: *mut c_char, from: Text, size: usize) -> *mut c_char |pc| {
        if seen() {
            reads(from, (real_call::strnlen(from, size) + 1).min(size), pc);
            writes(to, size, pc);
        }
        real_call::stpncpy(to, from, size)
    }
    fn memccpy(to: *mut c_void, from: *const c_void, byte: c_int, size: usize) -> *mut c_void |pc| {
        let end = real_call::memccpy(to, from, byte, size);
        let copied = if end.is_null() { size } else { end as usize - to as usize };
        reads(from, copied, pc);
        filled(to, copied, pc);
        end
    }
    fn memmem(from: *const c_void, size: usize, part: *const c_void, part_size: usize) -> *mut c_void |pc| {
        let found = real_call::memmem(from, size, part, part_size);
        let looked_at = if found.is_null() { size } else { found as usize - from as usize + part_size };
        reads(from, looked_at, pc);
        reads(part, part_size, pc);
        found
    }
    fn wcslen(text: Wide) -> usize |pc| {
        let length = real_call::wcslen(text);
        reads(text, 4 * (length + 1), pc);
        length
    }
    fn wcscpy(to: *mut i32, from: Wide) -> *mut i32 |pc| {
        if seen() {
            let size = 4 * (real_call::wcslen(from) + 1);
            reads(from, size, pc);
            writes(to, size, pc);
        }
        real_call::wcscpy(to, from)
    }
    fn wmemcpy(to: *mut i32, from: Wide, count: usize) -> *mut i32 |pc| {
        reads(from, count.saturating_mul(4), pc);
        writes(to, count.saturating_mul(4), pc);
        real_call::wmemcpy(to, from, count)
    }
    fn wmemset(to: *mut i32, character: i32, count: usize) -> *mut i32 |pc| {
        writes(to, count.saturating_mul(4), pc);
        real_call::wmemset(to, character, count)
    }
    fn strdup(text: Text) -> *mut c_char |pc| {
        let copy = real_call::strdup(text);
        if !copy.is_null() && seen() {
            let size = real_call::strlen(copy) + 1;
            reads(text, size, pc);
            writes(copy, size, pc);
        }
        copy
    }
    fn strndup(text: Text, most: usize) -> *mut c_char |pc| {
        let copy = real_call::strndup(text, most);
        if !copy.is_null() && seen() {
            let size = real_call::strlen(copy) + 1;
            reads(text, size.min(most), pc);
            writes(copy, size, pc);
        }
        copy
    }
    // What programs call themselves to tell of an access, or to make one.
    fn __tsan_read_range_pc(from: *const c_void, size: usize, at: usize) |pc| {
        reads(from, size, at);
    }
    fn __tsan_write_range_pc(to: *const c_void, size: usize, at: usize) |pc| {
        writes(to, size, at);
    }
    fn __sanitizer_unaligned_load16(from: *const u16) -> u16 |pc| {
        reads(from, 2, pc);
        from.read_unaligned()
    }
    fn __sanitizer_unaligned_store16(to: *mut u16, value: u16) |pc| {
        writes(to, 2, pc);
        to.write_unaligned(value);
    }
    fn __sanitizer_unaligned_load32(from: *const u32) -> u32 |pc| {
        reads(from, 4, pc);
        from.read_unaligned()
    }
    fn __sanitizer_unaligned_store32(to: *mut u32, value: u32) |pc| {
        writes(to, 4, pc);
        to.write_unaligned(value);
    }
    fn __sanitizer_unaligned_load64(from: *const u64) -> u64 |pc| {
        reads(from, 8, pc);
        from.read_unaligned()
    }
    fn __sanitizer_unaligned_store64(to: *mut u64, value: u64) |pc| {
        writes(to, 8, pc);
        to.write_unaligned(value);
    }
}
