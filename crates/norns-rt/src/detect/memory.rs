//! Memory and locks for the detector, made with raw system calls.
//!
//! The program's allocator and its C library are interposed by the same runtime, so nothing here
//! may call them: `mmap` and `sched_yield` are raw system calls. Blocks are powers of two from a
//! bump arena with one free list a size; they are never given back to the kernel.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

const SYS_MMAP: usize = 9;
const SYS_SCHED_YIELD: usize = 24;
const SYS_MADVISE: usize = 28;

/// Six-argument system call on x86-64 Linux.
///
/// # Safety
/// The caller answers for what the system call does to memory.
pub unsafe fn system_call(number: usize, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the registers follow the kernel's calling convention; rcx and r11 are declared lost.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Fresh zeroed memory that costs nothing until it is touched; null when there is none.
pub fn map_zeroed(bytes: usize) -> *mut u8 {
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x4022;
    let arguments = [
        0,
        bytes,
        READ_WRITE,
        PRIVATE_ANONYMOUS_NORESERVE,
        usize::MAX,
        0,
    ];
    // SAFETY: a new private mapping at an address that the kernel chooses overlaps no other memory.
    let address = unsafe { system_call(SYS_MMAP, arguments) };
    if (-4095..0).contains(&address) {
        ptr::null_mut()
    } else {
        address as *mut u8
    }
}

/// Makes whole pages of a mapping of `map_zeroed` zero again and gives their memory back.
///
/// # Safety
/// `[start, start + bytes)` is whole pages of one mapping of `map_zeroed`, whose contents are not
/// needed any more.
pub unsafe fn zero_pages(start: *mut u8, bytes: usize) {
    const DONT_NEED: usize = 4;
    // SAFETY: the caller promises that the contents of these pages are not needed.
    unsafe { system_call(SYS_MADVISE, [start as usize, bytes, DONT_NEED, 0, 0, 0]) };
}

pub fn yield_now() {
    // SAFETY: sched_yield touches no memory.
    unsafe { system_call(SYS_SCHED_YIELD, [0; 6]) };
}

/// A lock of one byte that never enters the C library.
pub struct SpinLock {
    taken: AtomicBool,
}

impl SpinLock {
    pub const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
        }
    }

    #[inline]
    pub fn lock(&self) {
        let mut tries = 0u32;
        while self.taken.swap(true, Ordering::Acquire) {
            while self.taken.load(Ordering::Relaxed) {
                tries += 1;
                if tries.is_multiple_of(64) {
                    yield_now();
                }
                core::hint::spin_loop();
            }
        }
    }

    #[inline]
    pub fn unlock(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

/// A value behind a `SpinLock`.
pub struct Guarded<T> {
    lock: SpinLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through `lock`, one thread at a time.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    pub const fn new(value: T) -> Self {
        Self {
            lock: SpinLock::new(),
            value: UnsafeCell::new(value),
        }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        self.lock.lock();
        Guard { of: self }
    }
}

pub struct Guard<'a, T> {
    of: &'a Guarded<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard holds `lock`, so no other reference to the value exists.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference of the guard.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.of.lock.unlock();
    }
}

const SMALLEST: u32 = 6;
const CLASSES: usize = 16;
const CHUNK: usize = 1 << 20;

struct ArenaState {
    next: usize,
    end: usize,
    // one list a size class, linked through the first word of each free block
    free: [usize; CLASSES],
}

/// Blocks of 64 bytes to 2 MiB, zeroed when handed out.
pub struct Arena {
    state: Guarded<ArenaState>,
}

impl Arena {
    pub const fn new() -> Self {
        Self {
            state: Guarded::new(ArenaState {
                next: 0,
                end: 0,
                free: [0; CLASSES],
            }),
        }
    }

    /// In the child process after a fork, where the thread that held the lock may no longer exist. A
    /// block that it was about to take is lost.
    pub fn forget_lock(&self) {
        self.state.lock.unlock();
    }

    fn class_of(bytes: usize) -> usize {
        let bits = bytes.next_power_of_two().trailing_zeros().max(SMALLEST);
        (bits - SMALLEST) as usize
    }

    /// A zeroed block of at least `bytes`; null when the kernel has no memory left.
    pub fn allocate(&self, bytes: usize) -> *mut u8 {
        let class = Self::class_of(bytes);
        assert!(class < CLASSES, "the detector asks only for small blocks");
        let size = 1usize << (class as u32 + SMALLEST);
        let mut state = self.state.lock();
        let head = state.free[class];
        if head != 0 {
            let block = head as *mut usize;
            // SAFETY: `head` is a free block of this class that only the list points to; its
            // first word is the link that `release` wrote.
            state.free[class] = unsafe { *block };
            drop(state);
            // SAFETY: the block has `size` bytes and is ours alone now.
            unsafe { ptr::write_bytes(block as *mut u8, 0, size) };
            return block as *mut u8;
        }
        if size > state.end - state.next {
            let bytes = size.max(CHUNK);
            let chunk = map_zeroed(bytes) as usize;
            if chunk == 0 {
                return ptr::null_mut();
            }
            state.next = chunk;
            state.end = chunk + bytes;
        }
        let block = state.next;
        state.next += size;
        block as *mut u8
    }

    /// Takes back a block of `allocate(bytes)`.
    ///
    /// # Safety
    /// `block` came from this arena with the same `bytes`, and is not used any more.
    pub unsafe fn release(&self, block: *mut u8, bytes: usize) {
        let class = Self::class_of(bytes);
        let mut state = self.state.lock();
        // SAFETY: the caller promises that the block came from `allocate`, so that it has at least
        // 64 bytes, and that it is not used any more.
        unsafe { *(block as *mut usize) = state.free[class] };
        state.free[class] = block as usize;
    }
}
