//! The heap and mappings. Memory that is handed out again at the same address is other memory.
//!
//! `free` is logged before, `malloc` after the real call, so the numbers of the events have the
//! true order. Both log the usable size of the block rather than the size that was asked for:
//! otherwise the last bytes of a block that is handed out again would still count as the old block.
//! For a program that is not instrumented none of this is recorded.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::control;
use crate::mode::{is_controlled, is_guarded, is_recording};
use crate::record;
use crate::wire::Code;
use crate::{guard, interpose, real, track};

mod real_functions {
    use super::*;

    real! {
        fn malloc(size: usize) -> *mut c_void;
        fn calloc(count: usize, size: usize) -> *mut c_void;
        fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
        fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
        fn free(block: *mut c_void);
        fn posix_memalign(block: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
        fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
        fn memalign(alignment: usize, size: usize) -> *mut c_void;
        fn valloc(size: usize) -> *mut c_void;
        fn pvalloc(size: usize) -> *mut c_void;
        fn malloc_usable_size(block: *mut c_void) -> usize;
        fn mmap(address: *mut c_void, size: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
        fn munmap(address: *mut c_void, size: usize) -> c_int;
        fn mremap(old: *mut c_void, old_size: usize, size: usize, flags: c_int, new: *mut c_void) -> *mut c_void;
    }
}

use real_functions as real_call;

/// Memory for the lookup of the real functions, which may itself allocate.
const ARENA: usize = 16 * 1024;

#[repr(align(16))]
struct Arena(core::cell::UnsafeCell<[u8; ARENA]>);

// SAFETY: every part is handed out once, since `ARENA_USED` only grows.
unsafe impl Sync for Arena {}

static ARENA_BYTES: Arena = Arena(core::cell::UnsafeCell::new([0; ARENA]));
static ARENA_USED: AtomicUsize = AtomicUsize::new(0);
/// Set from the first lookup until all functions are known.
static LOOKING: AtomicBool = AtomicBool::new(false);
static READY: AtomicBool = AtomicBool::new(false);

fn from_arena(size: usize) -> *mut c_void {
    let size = (size + 15) & !15;
    let at = ARENA_USED.fetch_add(size, Ordering::Relaxed);
    if size > ARENA || at > ARENA - size {
        return core::ptr::null_mut();
    }
    // SAFETY: the part ends before the end of the arena; checked above.
    unsafe { ARENA_BYTES.0.get().cast::<u8>().add(at).cast() }
}

fn in_arena(block: *mut c_void) -> bool {
    (block as usize).wrapping_sub(ARENA_BYTES.0.get() as usize) < ARENA
}

/// Whether the real functions can be called. False only inside their own lookup.
#[inline(always)]
fn ready() -> bool {
    READY.load(Ordering::Acquire) || look_up()
}

#[cold]
fn look_up() -> bool {
    if LOOKING.swap(true, Ordering::AcqRel) {
        // This thread or another one is inside the lookup: the arena serves both.
        return READY.load(Ordering::Acquire);
    }
    // SAFETY: `free` takes null, and the blocks are those that were just allocated.
    unsafe {
        let block = real_call::calloc(1, 1);
        let block = real_call::realloc(block, 2);
        real_call::free(block);
        real_call::free(real_call::malloc(1));
    }
    READY.store(true, Ordering::Release);
    true
}

#[inline(always)]
fn recorder() -> Option<&'static mut crate::thread::Thread> {
    if !is_recording() {
        return None;
    }
    record::memory_recorder()
}

/// Whether this is a recording before the first thread, in which only uses of freed memory are looked for.
#[inline(always)]
fn follows_early() -> bool {
    is_recording() && record::sees_early_memory()
}

/// A block was allocated: `block` is what the C library returned, perhaps null.
#[inline(always)]
fn allocated(block: *mut c_void, pc: usize) {
    if block.is_null() {
        return;
    }
    track::allocated(block, pc);
    // SAFETY: a block of the C library.
    guard::allocated(block as usize, || unsafe {
        real_call::malloc_usable_size(block)
    });
    if follows_early() {
        // SAFETY: a block of the C library.
        let size = unsafe { real_call::malloc_usable_size(block) };
        return record::freed::allocate(block as usize, size);
    }
    if recorder().is_none() && !is_controlled() {
        return;
    }
    // SAFETY: a block of the C library.
    let size = unsafe { real_call::malloc_usable_size(block) };
    if let Some(thread) = recorder() {
        thread.filter.forget(block as usize, size);
        thread.log_within_segment(Code::Allocate, 0, pc, block as usize, [size as u64, 0]);
    } else if is_controlled() {
        control::access::allocated(block as usize, size);
    }
}

#[inline(always)]
unsafe fn freed(block: *mut c_void, pc: usize) {
    if block.is_null() {
        return;
    }
    track::freed(block, pc);
    if follows_early() {
        // SAFETY: the program frees the block, so it is or was one.
        let size = unsafe { real_call::malloc_usable_size(block) };
        return record::freed::free(block as usize, size, pc);
    }
    if let Some(thread) = recorder() {
        if crate::mode::is_serial() {
            record::constraint::arrive(pc);
        }
        // SAFETY: the program frees the block, so it is one.
        let size = unsafe { real_call::malloc_usable_size(block) };
        // A use after this is not the one before it.
        thread.filter.forget(block as usize, size);
        thread.log_within_segment(Code::Free, 0, pc, block as usize, [size as u64, 0]);
    } else if is_controlled() {
        // SAFETY: as above.
        let size = unsafe { real_call::malloc_usable_size(block) };
        control::access::freeing(block as usize, size, pc);
    }
}

unsafe fn reallocated(
    block: *mut c_void,
    size: usize,
    pc: usize,
    real: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    if recorder().is_none()
        && !is_controlled()
        && !follows_early()
        && !track::is_on()
        && !is_guarded()
    {
        return real();
    }
    // SAFETY: the program's block, or null.
    unsafe { freed(block, pc) };
    let result = real();
    if result.is_null() && size > 0 {
        // The old block is still there.
        allocated(block, pc);
    } else {
        allocated(result, pc);
    }
    result
}

interpose! {
    fn malloc(size: usize) -> *mut c_void |pc| {
        if !ready() {
            return from_arena(size);
        }
        let block = real_call::malloc(size);
        allocated(block, pc);
        block
    }

    fn calloc(count: usize, size: usize) -> *mut c_void |pc| {
        if !ready() {
            return from_arena(count.saturating_mul(size));
        }
        let block = real_call::calloc(count, size);
        allocated(block, pc);
        block
    }

    fn realloc(block: *mut c_void, size: usize) -> *mut c_void |pc| {
        if !ready() || in_arena(block) {
            // Blocks of the arena are small and do not grow; their bytes are copied.
            let new = if READY.load(Ordering::Acquire) { real_call::malloc(size) } else { from_arena(size) };
            if in_arena(block) && !new.is_null() {
                let room = ARENA_BYTES.0.get() as usize + ARENA - block as usize;
                for index in 0..size.min(room) {
                    new.cast::<u8>().add(index).write(block.cast::<u8>().add(index).read());
                }
            }
            return new;
        }
        reallocated(block, size, pc, || real_call::realloc(block, size))
    }

    fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void |pc| {
        reallocated(block, count.wrapping_mul(size), pc, || {
            real_call::reallocarray(block, count, size)
        })
    }

    fn free(block: *mut c_void) |pc| {
        if in_arena(block) || !ready() {
            return;
        }
        freed(block, pc);
        real_call::free(block);
    }

    fn posix_memalign(block: *mut *mut c_void, alignment: usize, size: usize) -> c_int |pc| {
        let result = real_call::posix_memalign(block, alignment, size);
        if result == 0 {
            allocated(*block, pc);
        }
        result
    }

    fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void |pc| {
        let block = real_call::aligned_alloc(alignment, size);
        allocated(block, pc);
        block
    }

    fn memalign(alignment: usize, size: usize) -> *mut c_void |pc| {
        let block = real_call::memalign(alignment, size);
        allocated(block, pc);
        block
    }

    fn valloc(size: usize) -> *mut c_void |pc| {
        let block = real_call::valloc(size);
        allocated(block, pc);
        block
    }

    fn pvalloc(size: usize) -> *mut c_void |pc| {
        let block = real_call::pvalloc(size);
        allocated(block, pc);
        block
    }

    fn munmap(address: *mut c_void, size: usize) -> c_int |pc| {
        unmapping(address as usize, size, pc);
        real_call::munmap(address, size)
    }

    // A mapping that may move is freed and mapped again, even if it stays where it is.
    fn mremap(old: *mut c_void, old_size: usize, size: usize, flags: c_int, new: *mut c_void) -> *mut c_void |pc| {
        const MAY_MOVE: c_int = 1;
        let kept = if flags & MAY_MOVE != 0 { 0 } else { whole_pages(old_size.min(size)) };
        let rest = whole_pages(old_size).saturating_sub(kept);
        unmapping(old as usize + kept, rest, pc);
        let result = real_call::mremap(old, old_size, size, flags, new);
        if result as isize == -1 {
            mapped(old as usize + kept, rest);
        } else {
            mapped(result as usize + kept, whole_pages(size).saturating_sub(kept));
        }
        result
    }
}

/// A mapping, or the end of one, is about to go.
fn unmapping(address: usize, size: usize, pc: usize) {
    let size = whole_pages(size);
    if size == 0 {
        return;
    }
    if let Some(thread) = recorder() {
        thread.log_within_segment(Code::Free, 0, pc, address, [size as u64, 0]);
    } else if is_controlled() {
        control::access::freeing(address, size, pc);
    }
}

/// A new mapping, or a new end of one.
fn mapped(address: usize, size: usize) {
    let size = whole_pages(size);
    if size == 0 {
        return;
    }
    guard::allocated(address, || size);
    if let Some(thread) = recorder() {
        thread.filter.forget(address, size);
        thread.log_within_segment(Code::Allocate, 0, 0, address, [size as u64, 0]);
    } else if is_controlled() {
        control::access::allocated(address, size);
    }
}

/// Rounds a size up to whole pages, as the kernel does with mappings.
fn whole_pages(size: usize) -> usize {
    size.saturating_add(4095) & !4095
}

/// `mmap` has six arguments, so no register is left for the return address.
unsafe fn map(
    address: *mut c_void,
    size: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the program's own call of `mmap`, passed on. On x86-64 `mmap64` is the same function.
    let result = unsafe { real_call::mmap(address, size, protection, flags, file, offset) };
    if result as isize != -1 {
        mapped(result as usize, size);
    }
    result
}

#[cfg(not(test))]
mod exported {
    use super::*;

    #[unsafe(no_mangle)]
    unsafe extern "C-unwind" fn mmap(
        address: *mut c_void,
        size: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void {
        // SAFETY: the program's own call of `mmap`, passed on.
        unsafe { map(address, size, protection, flags, file, offset) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C-unwind" fn mmap64(
        address: *mut c_void,
        size: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void {
        // SAFETY: the program's own call of `mmap`, passed on.
        unsafe { map(address, size, protection, flags, file, offset) }
    }
}
