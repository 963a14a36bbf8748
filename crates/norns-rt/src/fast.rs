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

/// The offset of the executable's thread-local word from the thread pointer; 0 when it has none.
static WORD: AtomicIsize = AtomicIsize::new(0);
/// The executable's byte that is non-zero while its hooks have to do anything at all.
static ON: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

// The offsets and shifts that `fast.s` has as numbers.
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

/// The layout that `fast.s` was written for. A program may be older or newer than the library
/// that it finds; its hooks then ask the library about every access.
const LAYOUT: u32 = 1;

/// The hooks of the executable begin, before its constructors: `on` is their byte, `word` the
/// place of their thread-local word.
#[unsafe(no_mangle)]
unsafe extern "C" fn norns_register(on: *mut u8, word: isize, layout: u32) {
    let first = layout == LAYOUT
        && WORD
            .compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
    if first {
        ON.store(on, Ordering::Relaxed);
        tls::set_fast(tls::fast());
    }
    // Hooks that are not told of a change of mode always ask.
    // SAFETY: the executable passes the address of a byte that it reserves for this library.
    unsafe { on.write(u8::from(!first || !is_off())) };
}

/// No access of this process is of interest any more. The hooks of the executable return at once; those
/// of shared libraries ask the recorder.
pub fn switch_off() {
    let on = ON.load(Ordering::Relaxed);
    if !on.is_null() {
        // SAFETY: the byte of the executable, which is never unloaded.
        unsafe { on.write_volatile(0) };
    }
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

// `fast.s` defines functions of ThreadSanitizer, so it cannot be linked beside it.
#[cfg(all(test, not(norns_tsan)))]
mod tests {
    //! The assembly itself, linked into the test: it must go on to the library exactly when the
    //! Rust code of filter and shadow says that an access is new.

    use super::*;
    use crate::detect::{Detector, Kind, Name};
    use crate::record::filter::Filter;
    use norns_random::Random;
    use std::cell::Cell;

    core::arch::global_asm!(include_str!("fast.s"), options(att_syntax));

    std::thread_local! {
        static WENT_ON: Cell<bool> = const { Cell::new(false) };
    }

    macro_rules! library {
        ($($name:ident)*) => {$(
            #[unsafe(no_mangle)]
            extern "C" fn $name() {
                WENT_ON.set(true);
            }
        )*};
    }
    library! {
        norns_read1 norns_read2 norns_read4 norns_read8 norns_func_entry
        norns_write1 norns_write2 norns_write4 norns_write8 norns_func_exit
    }

    unsafe extern "C" {
        fn __tsan_read1(address: usize);
        fn __tsan_read2(address: usize);
        fn __tsan_read4(address: usize);
        fn __tsan_read8(address: usize);
        fn __tsan_write1(address: usize);
        fn __tsan_write2(address: usize);
        fn __tsan_write4(address: usize);
        fn __tsan_write8(address: usize);
        fn __tsan_func_entry(pc: usize);
        fn __tsan_func_exit();
    }

    /// Whether the hook of this access goes on to the library.
    fn goes_on(address: usize, size: usize, write: bool) -> bool {
        WENT_ON.set(false);
        // SAFETY: the hooks take any address and do not follow it.
        unsafe {
            match (size, write) {
                (1, false) => __tsan_read1(address),
                (2, false) => __tsan_read2(address),
                (4, false) => __tsan_read4(address),
                (8, false) => __tsan_read8(address),
                (1, true) => __tsan_write1(address),
                (2, true) => __tsan_write2(address),
                (4, true) => __tsan_write4(address),
                _ => __tsan_write8(address),
            }
        }
        WENT_ON.get()
    }

    fn block() -> &'static mut Thread {
        let block = crate::thread::allocate();
        assert!(!block.is_null());
        // SAFETY: a fresh block that only this test has.
        unsafe { &mut *block }
    }

    fn access(random: &mut Random) -> (usize, usize, bool) {
        let size = 1 << random.below(4);
        // Few places, some far apart, some that share an index of the filter.
        let base = random.pick(&[0x5555_5555_0000, 0x7fff_f000_1000, 0x41_2000, 0x45_2000]);
        (base + random.below(32), size, random.below(2) == 1)
    }

    #[test]
    fn the_filter_decides_in_record_mode() {
        let thread = block();
        let filter: *mut Filter = &mut thread.filter;
        tls::set_fast(tls::Fast::recorder(thread));
        let mut random = Random::new(1);
        let (mut covered, mut logged) = (0, 0);
        for _ in 0..200_000 {
            let (address, size, write) = access(&mut random);
            // SAFETY: the hook reads the filter only during its call.
            let filter = unsafe { &mut *filter };
            let aligned = address & (size - 1) == 0;
            let miss = if aligned {
                filter.check(address, size, write).err()
            } else {
                None
            };
            let is_new = !aligned || miss.is_some();
            assert_eq!(
                goes_on(address, size, write),
                is_new,
                "{size} at {address:x}, {write}"
            );
            match miss {
                Some(miss) => {
                    filter.fill(miss);
                    logged += 1;
                }
                None => covered += usize::from(aligned),
            }
            if random.below(50) == 0 {
                filter.next_segment();
            }
        }
        tls::set_fast(tls::Fast::NONE);
        assert_eq!(thread.covered.iter().sum::<u64>(), covered as u64);
        assert!(covered > 1000 && logged > 1000, "{covered} {logged}");
    }

    #[test]
    fn the_shadow_decides_in_detect_mode() {
        let detector = Detector::new().expect("address space for a detector");
        let mut main = detector.thread(Name(0), None).expect("a slot");
        let mut others: Vec<_> = (1..6)
            .map(|name| {
                detector
                    .thread(Name(name), Some(&mut main))
                    .expect("a slot")
            })
            .collect();
        let block = block();
        block.quick = detector.quick();
        let quick: *mut Quick = &mut block.quick;
        // SAFETY: the block is never given back.
        unsafe { main.set_quick(quick) };
        let mut random = Random::new(7);
        let (mut covered, mut new, mut asks) = (0, 0, 0);
        for _ in 0..200_000 {
            let (address, size, write) = access(&mut random);
            let kind = if write { Kind::Write } else { Kind::Read };
            let who = random.below(12);
            if let Some(other) = others.get_mut(who) {
                // Mostly reads, so that granules overflow.
                let kind = if random.below(30) == 0 {
                    kind
                } else {
                    Kind::Read
                };
                detector.access(other, address, size, kind, 3, |_| {});
                continue;
            }
            tls::set_fast(tls::Fast::detector(block));
            let goes_on = goes_on(address, size, write);
            tls::set_fast(tls::Fast::NONE);
            let knows = detector.knows(&main, address, size, kind);
            assert!(goes_on || knows, "{size} at {address:x}, {write}: lost");
            // What the hook does not decide: unaligned accesses, and cells beyond the first block.
            asks += usize::from(goes_on && knows && address & (size - 1) == 0);
            covered += usize::from(!goes_on);
            new += usize::from(!knows);
            detector.access(&mut main, address, size, kind, who, |_| {});
            match random.below(60) {
                0 => detector.release(&mut main, 0x10),
                1 => detector.forget_memory(address, 64),
                _ => {}
            }
        }
        assert!(
            covered > 10_000 && new > 10_000 && asks * 8 < covered,
            "{covered} covered, {new} new, {asks} asked for nothing"
        );
    }

    #[test]
    fn the_stack_is_kept() {
        let thread = block();
        let stack: *mut Stack = &mut thread.stack;
        for fast in [tls::Fast::recorder(thread), tls::Fast::detector(thread)] {
            tls::set_fast(fast);
            WENT_ON.set(false);
            // SAFETY: the hooks are called in pairs, and read the stack only during the calls.
            unsafe {
                (*stack).common = 2;
                __tsan_func_entry(0x11);
                __tsan_func_entry(0x22);
                __tsan_func_exit();
                __tsan_func_entry(0x33);
                assert_eq!(((*stack).depth, (*stack).common), (2, 1));
                assert_eq!(((*stack).frames[0].pc, (*stack).frames[1].pc), (0x11, 0x33));
                assert_ne!((*stack).frames[1].stack_pointer, 0);
                __tsan_func_exit();
                __tsan_func_exit();
                assert_eq!(((*stack).depth, (*stack).common), (0, 0));
                assert!(!WENT_ON.get());
                __tsan_func_exit();
                assert!(WENT_ON.get(), "the library looks at what has no entry");
            }
            tls::set_fast(tls::Fast::NONE);
        }
    }
}
