//! System calls made directly, and the few C library symbols that the runtime links to.
//!
//! Nothing here sets `errno`, takes a lock or can be interposed. x86-64 Linux only.

use core::arch::asm;
use core::ffi::{c_char, c_int, c_void};

pub const READ: usize = 0;
pub const WRITE: usize = 1;
pub const OPEN: usize = 2;
pub const CLOSE: usize = 3;
pub const FSTAT: usize = 5;
pub const MMAP: usize = 9;
pub const RT_SIGPROCMASK: usize = 14;
pub const SCHED_YIELD: usize = 24;
pub const GETPID: usize = 39;
pub const FCNTL: usize = 72;
pub const LSEEK: usize = 8;
pub const RT_SIGTIMEDWAIT: usize = 128;
pub const GETTID: usize = 186;
pub const FUTEX: usize = 202;
pub const FALLOCATE: usize = 285;

/// # Safety
/// As the system call itself.
#[inline(always)]
pub unsafe fn call(number: usize, a: usize, b: usize, c: usize) -> isize {
    unsafe { call6(number, a, b, c, 0, 0, 0) }
}

/// # Safety
/// As the system call itself.
#[inline(always)]
pub unsafe fn call6(
    number: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    let result: isize;
    // SAFETY: the registers follow the kernel's calling convention; the caller answers for what the
    // system call does to memory.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

pub fn yield_now() {
    // SAFETY: has no effect on memory.
    unsafe { call(SCHED_YIELD, 0, 0, 0) };
}

pub fn getpid() -> i32 {
    // SAFETY: has no effect on memory.
    unsafe { call(GETPID, 0, 0, 0) as i32 }
}

/// Fresh zeroed memory of this process, or null.
pub fn map_anonymous(length: usize) -> *mut u8 {
    const PROT_READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x4022;
    // SAFETY: the kernel chooses an address where nothing is mapped.
    let result = unsafe {
        call6(
            MMAP,
            0,
            length,
            PROT_READ_WRITE,
            PRIVATE_ANONYMOUS_NORESERVE,
            usize::MAX,
            0,
        )
    };
    if result < 0 {
        core::ptr::null_mut()
    } else {
        result as *mut u8
    }
}

/// A writable shared view of a file, or null.
pub fn map_file(file: i32, offset: usize, length: usize) -> *mut u8 {
    const PROT_READ_WRITE: usize = 3;
    const SHARED: usize = 1;
    // SAFETY: the kernel chooses an address where nothing is mapped.
    let result = unsafe {
        call6(
            MMAP,
            0,
            length,
            PROT_READ_WRITE,
            SHARED,
            file as usize,
            offset,
        )
    };
    if result < 0 {
        core::ptr::null_mut()
    } else {
        result as *mut u8
    }
}

/// Puts a writable shared view of the beginning of a file in the place of pages of ours.
pub fn map_over(address: usize, file: i32, length: usize) {
    const PROT_READ_WRITE: usize = 3;
    const SHARED_FIXED: usize = 0x11;
    // SAFETY: callers give the address and length of whole pages of statics that consist of atomics.
    unsafe {
        call6(
            MMAP,
            address,
            length,
            PROT_READ_WRITE,
            SHARED_FIXED,
            file as usize,
            0,
        )
    };
}

/// Puts zeroed memory of this process in the place of pages of ours.
pub fn map_nothing_over(address: usize, length: usize) {
    const PROT_READ_WRITE: usize = 3;
    const PRIVATE_FIXED_ANONYMOUS: usize = 0x32;
    // SAFETY: as in `map_over`.
    unsafe {
        call6(
            MMAP,
            address,
            length,
            PROT_READ_WRITE,
            PRIVATE_FIXED_ANONYMOUS,
            usize::MAX,
            0,
        )
    };
}

/// A writable shared view of the beginning of a file, or null. It is far from where the kernel puts
/// other mappings, so that these have the same addresses as without it.
pub fn map_file_far(file: i32, length: usize) -> *mut u8 {
    const PROT_READ_WRITE: usize = 3;
    const SHARED_NORESERVE: usize = 0x4001;
    const FAR: usize = 0x6a00_0000_0000;
    // SAFETY: the address is a wish only: the kernel chooses one where nothing is mapped.
    let result = unsafe {
        call6(
            MMAP,
            FAR,
            length,
            PROT_READ_WRITE,
            SHARED_NORESERVE,
            file as usize,
            0,
        )
    };
    if result < 0 {
        core::ptr::null_mut()
    } else {
        result as *mut u8
    }
}

/// Opens a file whose name ends with a zero byte; the descriptor, or a negative error.
pub fn open(path: &[u8], flags: usize) -> i32 {
    assert_zero_terminated(path);
    // SAFETY: the kernel reads `path` up to its zero byte.
    unsafe { call(OPEN, path.as_ptr() as usize, flags, 0o600) as i32 }
}

fn assert_zero_terminated(path: &[u8]) {
    if path.last() != Some(&0) {
        fatal(b"norns: a path of the runtime does not end with a zero byte\n");
    }
}

pub fn close(file: i32) {
    // SAFETY: callers close only what they opened.
    unsafe { call(CLOSE, file as usize, 0, 0) };
}

/// The same open file under a high number, so that the program's own get the numbers they would get without
/// us; the given one if that fails.
pub fn high_descriptor(file: i32) -> i32 {
    const DUPLICATE_CLOEXEC: usize = 1030;
    // SAFETY: no effect on memory.
    let high = unsafe { call(FCNTL, file as usize, DUPLICATE_CLOEXEC, 1000) as i32 };
    if high < 0 {
        return file;
    }
    close(file);
    high
}

pub fn read(file: i32, into: &mut [u8]) -> isize {
    // SAFETY: the kernel writes within `into`.
    unsafe { call(READ, file as usize, into.as_mut_ptr() as usize, into.len()) }
}

pub fn write(file: i32, bytes: &[u8]) -> isize {
    // SAFETY: the kernel only reads `bytes`.
    unsafe { call(WRITE, file as usize, bytes.as_ptr() as usize, bytes.len()) }
}

/// The mask of a thread that blocks every signal: KILL and STOP are never in it.
pub const ALL_SIGNALS: u64 = !(1 << 8 | 1 << 18);
/// Signals 32 and 33, which the C library reserves for itself and removes from masks.
pub const C_LIBRARY_SIGNALS: u64 = 1 << 31 | 1 << 32;

/// Blocks every signal of this thread; returns the mask from before.
pub fn block_signals() -> u64 {
    let all = u64::MAX;
    let mut old = 0u64;
    // SAFETY: reads `all` and writes `old`, 8 bytes each.
    unsafe {
        call6(
            RT_SIGPROCMASK,
            0,
            &raw const all as usize,
            &raw mut old as usize,
            8,
            0,
            0,
        )
    };
    old
}

pub fn restore_signals(old: u64) {
    const SIG_SETMASK: usize = 2;
    // SAFETY: reads `old`, 8 bytes.
    unsafe {
        call6(
            RT_SIGPROCMASK,
            SIG_SETMASK,
            &raw const old as usize,
            0,
            8,
            0,
            0,
        )
    };
}

/// Writes a message to standard error and ends the process. Only where going on would be worse.
pub fn fatal(message: &[u8]) -> ! {
    write(2, message);
    loop {
        const EXIT_GROUP: usize = 231;
        // SAFETY: does not return.
        unsafe { call(EXIT_GROUP, 70, 0, 0) };
    }
}

pub const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;

#[link(name = "c")]
unsafe extern "C" {
    pub fn dlerror() -> *mut c_char;
    pub fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    pub fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    pub fn __errno_location() -> *mut c_int;
    pub fn dladdr(address: *const c_void, information: *mut c_void) -> c_int;
}
