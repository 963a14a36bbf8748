//! The library's side of the hooks that are linked into the executable (`fast.s`).
//!
//! The executable has a thread-local word of its own, which `tls::set_fast` keeps equal to the
//! library's. Only one module registers its word; another one that was linked with these hooks (a
//! shared library, by mistake) keeps its word at zero and so always asks the library.

use core::mem::offset_of;
use core::sync::atomic::{AtomicIsize, AtomicPtr, Ordering};

use crate::detect::Quick;
use crate::mode::is_off;
use crate::thread::{MAX_DEPTH, Stack, Thread};
use crate::tls;

/// Where the executable's word is, from the thread pointer; 0 when it has none.
static WORD: AtomicIsize = AtomicIsize::new(0);
/// The executable's byte that says whether the library wants to hear of anything.
static ON: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

// What `fast.s` knows.
const _: () = {
    assert!(offset_of!(Thread, filter) == 0);
    assert!(offset_of!(Thread, covered) == 262152);
    assert!(offset_of!(Thread, quick) + offset_of!(Quick, key) == 262232);
    assert!(offset_of!(Thread, quick) + offset_of!(Quick, directory) == 262240);
    assert!(offset_of!(Thread, quick) + offset_of!(Quick, first_block) == 262248);
    assert!(offset_of!(Thread, stack) + offset_of!(Stack, depth) == 262256);
    assert!(offset_of!(Thread, stack) + offset_of!(Stack, common) == 262272);
    assert!(offset_of!(Thread, stack) + offset_of!(Stack, frames) == 262280);
    assert!(MAX_DEPTH == 16384);
};

/// The hooks of the executable begin, before its constructors: `on` is their byte, `word` the
/// place of their thread-local word.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn norns_register(on: *mut u8, word: isize) {
    if WORD
        .compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
    {
        ON.store(on, Ordering::Relaxed);
        tls::set_fast(tls::fast());
    }
    // SAFETY: the byte is the caller's, for this.
    unsafe { on.write(u8::from(!is_off())) };
}

/// The mode has changed.
pub fn mode_changed() {
    let on = ON.load(Ordering::Relaxed);
    if !on.is_null() {
        // SAFETY: the byte of the executable, which is never unloaded.
        unsafe { on.write_volatile(u8::from(!is_off())) };
    }
}

/// The executable's word of the running thread, if it has one.
#[inline(always)]
pub fn set_word(value: usize) {
    let word = WORD.load(Ordering::Relaxed);
    if word != 0 {
        // SAFETY: `word` is the place of eight bytes that `fast.s` reserves in every thread.
        unsafe {
            core::arch::asm!(
                "mov qword ptr fs:[{word}], {value}",
                word = in(reg) word,
                value = in(reg) value,
                options(nostack, preserves_flags),
            );
        }
    }
}
