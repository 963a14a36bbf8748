//! The plain accesses and calls of the compilers' ThreadSanitizer interface.
//!
//! Each hook is a stub that reads its return address and goes on to a small function; for an
//! access that the segment has already, that is a dozen instructions and no store but a counter.
//! gcc 12 and clang 14 to 19 were looked at for which hooks there are. The hooks of an executable
//! that norns-cc linked are in `fast.s`; what those cannot decide comes here by the names `norns_…`.

use crate::control;
use crate::mode::{Mode, is_controlled, is_recording, mode};
use crate::record::filter::Miss;
use crate::record::{self, statistics, stream};
use crate::thread::Thread;
use crate::wire::Code;
use crate::{attach, tls};

/// The access of a hook whose name tells its size: `SIZE` is a power of two up to 16.
#[inline(always)]
unsafe fn access<const SIZE: usize, const WRITE: bool>(address: usize, pc: usize) {
    let fast = tls::fast();
    if fast.is_detector() {
        return control::access::detect(fast.block(), address, SIZE, WRITE, pc);
    }
    let fast = fast.as_recorder();
    if fast.is_null() || SIZE == 16 || address & (SIZE - 1) != 0 {
        return slow_access(address, SIZE, WRITE, pc);
    }
    // SAFETY: the block of this thread; see `thread::current`.
    let thread = unsafe { &mut *fast };
    match thread.filter.check(address, SIZE, WRITE) {
        Ok(()) => {
            thread.covered[SIZE.trailing_zeros() as usize + 5 * WRITE as usize] += 1;
        }
        // SAFETY: as above.
        Err(miss) => unsafe { log::<SIZE, WRITE>(thread, address, pc, miss) },
    }
}

/// The rest of `access` in a function of its own, so that the common path above needs no stack
/// frame.
#[inline(never)]
unsafe fn log<const SIZE: usize, const WRITE: bool>(
    thread: &mut Thread,
    address: usize,
    pc: usize,
    miss: Miss,
) {
    if stream::stopped() {
        return;
    }
    if thread.in_recorder() {
        return slow_access(address, SIZE, WRITE, pc);
    }
    record::noise::delay();
    thread.filter.fill(miss);
    let code = if WRITE { Code::Write } else { Code::Read };
    thread.log_access(code, SIZE as u8, pc, address);
}

/// Accesses that are unaligned, wider than eight bytes, or that a mode other than record handles.
#[inline(never)]
pub fn slow_access(address: usize, size: usize, write: bool, pc: usize) {
    match mode() {
        Mode::Off | Mode::Guard => {}
        Mode::Record if !record::started() => record::early_access(address, size, write, pc),
        Mode::Record => match attach::current() {
            Some(thread) if thread.ignored == 0 => {
                record_access(thread, address, size, write, pc);
            }
            Some(_) => statistics::count_ignored(),
            None => {}
        },
        Mode::RecordValues => record::values::access(address, size, write, pc),
        Mode::Replay | Mode::Detect | Mode::ReplayDetect => {
            control::access::access(address, size, write, pc);
        }
    }
}

/// Logs an access of any size, unless the segment has all its bytes.
pub fn record_access(thread: &mut Thread, address: usize, size: usize, write: bool, pc: usize) {
    if size == 0 || stream::stopped() {
        return;
    }
    let code = match (write, size <= 16) {
        (false, true) => Code::Read,
        (true, true) => Code::Write,
        (false, false) => Code::ReadRange,
        (true, false) => Code::WriteRange,
    };
    if thread.in_recorder() {
        thread.log(code, size as u8, pc, address, [size as u64, 0]);
        return;
    }
    // For longer ranges asking the filter costs more than one more event in the trace.
    const MOST_CHECKED: usize = 4096;
    let mut covered = size <= MOST_CHECKED;
    if covered {
        let mut at = address;
        let end = address.saturating_add(size);
        while at < end {
            let next = ((at & !7) + 8).min(end);
            if let Err(miss) = thread.filter.check(at, next - at, write) {
                thread.filter.fill(miss);
                covered = false;
            }
            at = next;
        }
    }
    if covered {
        thread.covered[4 + 5 * usize::from(write)] += 1;
        return;
    }
    record::noise::delay();
    if size <= 16 {
        thread.log_access(code, size as u8, pc, address);
    } else {
        thread.logged += 1;
        thread.log(code, 0, pc, address, [size as u64, 0]);
    }
}

unsafe extern "C" fn enter(call: usize, stack_pointer: usize) {
    let fast = tls::fast().block();
    let thread = if fast.is_null() { tls::thread() } else { fast };
    if (thread as usize) <= tls::GONE as usize {
        return;
    }
    // SAFETY: the block of this thread; see `thread::current`.
    let thread = unsafe { &mut *thread };
    if fast.is_null() {
        thread.settle();
    }
    thread.stack.enter(call, stack_pointer);
}

unsafe extern "C" fn leave() {
    let fast = tls::fast().block();
    let thread = if fast.is_null() { tls::thread() } else { fast };
    if (thread as usize) <= tls::GONE as usize {
        return;
    }
    // SAFETY: the block of this thread; see `thread::current`.
    let thread = unsafe { &mut *thread };
    if fast.is_null() {
        thread.settle();
    }
    thread.stack.leave();
}

unsafe extern "C" fn range<const WRITE: bool>(address: usize, size: usize, pc: usize) {
    let fast = tls::fast();
    if fast.is_detector() {
        return control::access::detect(fast.block(), address, size, WRITE, pc);
    }
    slow_access(address, size, WRITE, pc);
}

unsafe extern "C" fn sized<const SIZE: usize, const WRITE: bool>(address: usize, pc: usize) {
    // SAFETY: the hook uses the address as a number only and does not dereference it.
    unsafe { access::<SIZE, WRITE>(address, pc) };
}

/// A read and a write of the same place in one operation.
unsafe extern "C" fn both<const SIZE: usize>(address: usize, pc: usize) {
    // SAFETY: as above.
    unsafe {
        access::<SIZE, false>(address, pc);
        access::<SIZE, true>(address, pc);
    }
}

/// `__tsan_vptr_update(place, value)`: a write only if the value changes.
unsafe extern "C" fn vptr_update(place: *const usize, value: usize, pc: usize) {
    // SAFETY: the hook comes just before the program writes `place`.
    if unsafe { *place } != value {
        // SAFETY: as above.
        unsafe { access::<8, true>(place as usize, pc) };
    }
}

/// Exports stubs that put the return address behind the arguments.
macro_rules! hooks {
    ($($register:literal $function:path: $($name:ident)*;)*) => {$($(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                concat!("mov ", $register, ", qword ptr [rsp]"),
                "jmp {function}",
                function = sym $function,
            )
        }
    )*)*};
}

hooks! {
    "rsi" sized::<1, false>: __tsan_read1 norns_read1 __tsan_volatile_read1;
    "rsi" sized::<2, false>: __tsan_read2 norns_read2 __tsan_volatile_read2 __tsan_unaligned_read2 __tsan_unaligned_volatile_read2;
    "rsi" sized::<4, false>: __tsan_read4 norns_read4 __tsan_volatile_read4 __tsan_unaligned_read4 __tsan_unaligned_volatile_read4;
    "rsi" sized::<8, false>: __tsan_read8 norns_read8 __tsan_volatile_read8 __tsan_unaligned_read8 __tsan_unaligned_volatile_read8 __tsan_vptr_read;
    "rsi" sized::<16, false>: __tsan_read16 __tsan_volatile_read16 __tsan_unaligned_read16 __tsan_unaligned_volatile_read16;
    "rsi" sized::<1, true>: __tsan_write1 norns_write1 __tsan_volatile_write1;
    "rsi" sized::<2, true>: __tsan_write2 norns_write2 __tsan_volatile_write2 __tsan_unaligned_write2 __tsan_unaligned_volatile_write2;
    "rsi" sized::<4, true>: __tsan_write4 norns_write4 __tsan_volatile_write4 __tsan_unaligned_write4 __tsan_unaligned_volatile_write4;
    "rsi" sized::<8, true>: __tsan_write8 norns_write8 __tsan_volatile_write8 __tsan_unaligned_write8 __tsan_unaligned_volatile_write8;
    "rsi" sized::<16, true>: __tsan_write16 __tsan_volatile_write16 __tsan_unaligned_write16 __tsan_unaligned_volatile_write16;
    "rsi" both::<1>: __tsan_read_write1;
    "rsi" both::<2>: __tsan_read_write2 __tsan_unaligned_read_write2;
    "rsi" both::<4>: __tsan_read_write4 __tsan_unaligned_read_write4;
    "rsi" both::<8>: __tsan_read_write8 __tsan_unaligned_read_write8;
    "rsi" both::<16>: __tsan_read_write16 __tsan_unaligned_read_write16;
    "rdx" range::<false>: __tsan_read_range;
    "rdx" range::<true>: __tsan_write_range;
    "rdx" vptr_update: __tsan_vptr_update;
    "rsi" module_loaded: __tsan_init;
}

/// The constructor of an instrumented module calls this: if the program runs threads already,
/// the module was loaded late and the trace must know where.
unsafe extern "C" fn module_loaded() {
    record::note_instrumented();
    if is_controlled() && !is_recording() {
        control::modules::look();
    }
    if is_recording() && record::started() {
        statistics::write_maps();
    }
}

/// The caller passes the return address of its own frame; its stack pointer is just above the
/// return address of this call.
macro_rules! entries {
    ($($name:ident)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "lea rsi, [rsp + 8]",
                "jmp {enter}",
                enter = sym enter,
            )
        }
    )*};
}

entries! { __tsan_func_entry norns_func_entry }

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __tsan_func_exit() {
    // SAFETY: takes nothing.
    unsafe { leave() };
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn norns_func_exit() {
    // SAFETY: takes nothing.
    unsafe { leave() };
}
