//! Values of accesses, in a recording in which one thread runs at a time (`control::serial`).
//!
//! A hook comes before its access. What a read will see is in memory already, since nobody else
//! runs; what a write leaves there is known at the thread's next hook, or when it gives its turn
//! away. So a write is kept aside, and logged with its value then.
//!
//! Every access is logged, but for a read that repeats the one before it (a loop that waits). A
//! range longer than `PIECE` is logged in pieces.
//!
//! Limits: writes of code that is not instrumented are not seen, nor is the order of a write and of
//! a signal handler that interrupted it. They show as reads that differ from the last write.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::control::serial;
use crate::control::thread::{ControlThread, KEPT};
use crate::record::{self, constraint, statistics};
use crate::thread::Thread;
use crate::wire::Code;
use crate::{attach, hooks, thread};

/// How many accesses a thread may make before it lets others run.
const STRETCH: u32 = 4096;
const PIECE: usize = 1024;

/// How a recording that looks for the cause of a failure lets other threads run.
pub struct Sketched {
    /// One in so many accesses lets others run; 0: only `STRETCH` counts.
    pub stretch: AtomicU32,
    pub seed: AtomicU64,
}

pub static SKETCHED: Sketched = Sketched {
    stretch: AtomicU32::new(0),
    seed: AtomicU64::new(0),
};

/// What a thread needs for this; all-zero is valid.
#[repr(C)]
pub struct Values {
    /// The write that is not logged yet; size 0: none.
    size: usize,
    address: usize,
    pc: usize,
    /// Its bytes, when the turn was taken away since.
    kept: usize,
    bytes: [u8; KEPT],
    /// Events that are not ordered have been logged since the last one that is.
    unordered: bool,
    stretch: u32,
    /// Something was read since the last branch.
    read: bool,
    /// The last event, when it was a read.
    last: LastRead,
    /// The place of the access that the hook is about to touch; 0: none.
    touches: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct LastRead {
    pc: usize,
    address: usize,
    size: usize,
    value: u128,
}

const NONE: LastRead = LastRead {
    pc: 0,
    address: 0,
    size: 0,
    value: 0,
};

impl Values {
    #[inline(always)]
    pub fn has_write(&self) -> bool {
        self.size != 0
    }

    /// For a block that another thread had before.
    pub fn forget(&mut self) {
        self.size = 0;
        self.kept = 0;
        self.unordered = false;
        self.stretch = 0;
        self.read = false;
        self.last = NONE;
        self.touches = 0;
    }

    /// Where the program is when code at `pc` is interrupted: the access that a hook tries for it, if it
    /// is in one.
    pub fn hook_pc(&self, pc: usize) -> usize {
        if self.touches == 0 { pc } else { self.touches }
    }

    pub fn ordered_event(&mut self) {
        self.unordered = false;
        self.last = NONE;
    }
}

/// An access is about to happen.
pub fn access(address: usize, size: usize, write: bool, pc: usize) {
    if !record::started() {
        return record::early_access(address, size, write, pc);
    }
    let Some(thread) = attach::current() else {
        return;
    };
    if thread.ignored != 0 {
        return statistics::count_ignored();
    }
    if size == 0 {
        return;
    }
    // SAFETY: null, or the block of this thread, which is never given back.
    let control = unsafe { thread.control.as_ref() };
    let Some(control) = control.filter(|control| !control.is_inside()) else {
        // The runtime itself, or a signal handler that interrupted it.
        return;
    };
    if thread.in_recorder() {
        // A signal handler: it has no turn to wait for.
        return hooks::record_access(thread, address, size, write, pc);
    }
    control.values.count_event();
    if !serial::has_turn(thread) {
        serial::regain();
    }
    thread.settle();
    thread.values.stretch += 1;
    if thread.values.stretch >= STRETCH {
        thread.values.stretch = 0;
        serial::preempt();
    } else if SKETCHED.lets_go(thread) {
        serial::preempt();
    }
    constraint::arrive(pc);
    thread.values.touches = pc;
    // An access to memory that is not mapped faults here, before a write is kept aside that a
    // handler of the fault would find half done.
    touch(address);
    touch(address + size - 1);
    thread.values.touches = 0;
    if write {
        thread.values.pc = pc;
        thread.values.address = address;
        thread.values.size = size;
        control.values.address.store(address, Ordering::Relaxed);
        control.values.size.store(size, Ordering::Relaxed);
    } else {
        thread.log_read(address, size, pc);
    }
}

fn touch(address: usize) {
    // SAFETY: the program accesses this byte next.
    unsafe { (address as *const u8).read_volatile() };
}

/// The thread has come to a new block of its code: what it read decided that. Compiled in with
/// `norns cc --branches`. Without a read since the last branch there is nothing to tell.
fn branched(pc: usize) {
    let Some(thread) = thread::current() else {
        return;
    };
    // SAFETY: null, or the block of this thread, which is never given back.
    let control = unsafe { thread.control.as_ref() };
    let inside = control.is_none_or(|control| control.is_inside());
    if !thread.values.read || inside || thread.in_recorder() || !serial::has_turn(thread) {
        return;
    }
    thread.values.read = false;
    thread.settle();
    thread.values.last = NONE;
    thread.values.unordered = true;
    thread.log_bytes(Code::Custom, pc, 0, b"branch\0");
}

unsafe extern "C" fn block_begins(pc: usize) {
    if crate::mode::is_serial() {
        branched(pc);
    }
}

/// Of `-fsanitize-coverage=trace-pc`, which gcc and clang have.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C" fn __sanitizer_cov_trace_pc() {
    core::arch::naked_asm!(
        "mov rdi, qword ptr [rsp]",
        "jmp {function}",
        function = sym block_begins,
    )
}

/// Logs the write that is kept aside: before memory is given back, or a call changes it.
pub fn settle() {
    if crate::mode::is_serial()
        && let Some(thread) = thread::current()
        && thread.values.has_write()
    {
        thread.settle();
    }
}

/// The kernel, or a function of the C library, has written there: an access that is over.
pub fn written(address: usize, size: usize, pc: usize) {
    if size > 0 && crate::mode::is_serial() && record::memory_recorder().is_some() {
        access(address, size, true, pc);
        settle();
    }
}

/// The thread gives its turn away: what it did is before what others do from now on.
pub fn hand_over(thread: &mut Thread) {
    thread.settle();
    thread.values.stretch = 0;
    if thread.values.unordered {
        thread.log(Code::Turn, 0, 0, 0, [0; 2]);
    }
}

/// Takes the turn of a thread that is asleep, for another one: called by that, with the monitor
/// locked.
pub fn taken_away(thread: &ControlThread) {
    let values = &thread.values;
    let address = values.address.load(Ordering::Relaxed) as *const u8;
    let size = values.size.load(Ordering::Relaxed);
    let kept = if size <= KEPT { size } else { 0 };
    for (index, byte) in values.bytes[..kept].iter().enumerate() {
        // SAFETY: the thread has written there after its last hook, and sleeps.
        let value = unsafe { address.add(index).read_volatile() };
        byte.store(value, Ordering::Relaxed);
    }
    values.kept.store(kept, Ordering::Relaxed);
    let number = super::stream::next_sequence();
    values.taken_away.store(number, Ordering::Relaxed);
}

/// The thread has its turn again; the monitor is locked.
pub fn returned(thread: &mut Thread) {
    // SAFETY: null, or the block of this thread, which is never given back.
    let Some(control) = (unsafe { thread.control.as_ref() }) else {
        return;
    };
    let number = control.values.taken_away.swap(0, Ordering::Relaxed);
    if number != 0 {
        let kept = control.values.kept.load(Ordering::Relaxed).min(KEPT);
        thread.values.kept = kept;
        let bytes = thread.values.bytes[..kept].iter_mut();
        for (to, from) in bytes.zip(&control.values.bytes) {
            *to = from.load(Ordering::Relaxed);
        }
        thread.settle();
        thread.log_turn(number);
    }
}

/// # Safety
/// The bytes can be read.
unsafe fn bytes_at<'a>(address: usize, size: usize) -> &'a [u8] {
    // SAFETY: the caller promises that `size` bytes at `address` can be read.
    unsafe { core::slice::from_raw_parts(address as *const u8, size) }
}

impl Thread {
    /// Logs the write that is kept aside, if there is one.
    #[inline(always)]
    pub fn settle(&mut self) {
        if self.values.size != 0 && !self.in_recorder() {
            self.log_write();
        }
    }

    #[inline(never)]
    fn log_write(&mut self) {
        let size = core::mem::take(&mut self.values.size);
        // SAFETY: null, or the block of this thread, which is never given back.
        if let Some(control) = unsafe { self.control.as_ref() } {
            control.values.size.store(0, Ordering::Relaxed);
        }
        let kept = core::mem::take(&mut self.values.kept);
        let (address, pc) = (self.values.address, self.values.pc);
        if kept == size && size <= KEPT {
            let bytes = self.values.bytes;
            self.log_piece(Code::Write, address, pc, &bytes[..size]);
            return;
        }
        let mut done = 0;
        while done < size {
            let length = (size - done).min(PIECE);
            // SAFETY: the program has just written there, and gives no memory back before `settle`.
            let bytes = unsafe { bytes_at(address + done, length) };
            self.log_piece(Code::Write, address + done, pc, bytes);
            done += length;
        }
    }

    fn log_read(&mut self, address: usize, size: usize, pc: usize) {
        if size <= 16 {
            let mut value = 0u128;
            // SAFETY: the program reads there next; `access` has touched both ends.
            for byte in unsafe { bytes_at(address, size) }.iter().rev() {
                value = value << 8 | u128::from(*byte);
            }
            let read = LastRead {
                pc,
                address,
                size,
                value,
            };
            let stack = &self.stack;
            let same_call = stack.depth == stack.logged && stack.common == stack.logged;
            if self.values.last == read && same_call {
                self.covered[0] += 1;
                return;
            }
            self.log_piece(Code::Read, address, pc, &value.to_le_bytes()[..size]);
            self.values.last = read;
            return;
        }
        let mut done = 0;
        while done < size {
            let length = (size - done).min(PIECE);
            // SAFETY: as above.
            let bytes = unsafe { bytes_at(address + done, length) };
            self.log_piece(Code::Read, address + done, pc, bytes);
            done += length;
        }
    }

    /// One access with its value: `code` is `Read` or `Write`.
    fn log_piece(&mut self, code: Code, address: usize, pc: usize, value: &[u8]) {
        let reads = code == Code::Read;
        let size = value.len();
        self.values.unordered = true;
        self.values.read |= reads;
        self.values.last = NONE;
        if size <= 16 {
            self.log_access(code, size as u8, pc, address);
        } else {
            let code = if reads {
                Code::ReadRange
            } else {
                Code::WriteRange
            };
            self.logged += 1;
            self.log(code, 0, pc, address, [size as u64, 0]);
        }
        self.log_value(reads, value);
    }

    /// What the event before read, or wrote.
    fn log_value(&mut self, reads: bool, value: &[u8]) {
        let code = if reads {
            Code::ValueRead
        } else {
            Code::ValueWritten
        };
        self.log_bytes(code, 0, 0, value);
    }
}

/// Does an atomic operation and logs it; `act` says whether it wrote. `detail` makes the detail of
/// its event from that.
pub fn atomic<R>(
    thread: &mut Thread,
    address: usize,
    size: usize,
    pc: usize,
    act: impl FnOnce() -> (R, bool),
    detail: impl FnOnce(bool) -> (u8, bool, bool),
) -> R {
    // SAFETY: null, or the block of this thread, which is never given back.
    if let Some(control) = unsafe { thread.control.as_ref() } {
        control.values.count_event();
    }
    constraint::arrive(pc);
    let size = size.min(16);
    let mut before = [0u8; 16];
    // SAFETY: the program operates on these bytes.
    copy(&mut before[..size], unsafe { bytes_at(address, size) });
    let (result, wrote) = act();
    let (detail, reads, writes) = detail(wrote);
    thread.log(Code::Atomic, detail, pc, address, [0; 2]);
    if reads {
        thread.values.read = true;
        thread.log_value(true, &before[..size]);
    }
    if writes {
        let mut after = [0u8; 16];
        // SAFETY: as above.
        copy(&mut after[..size], unsafe { bytes_at(address, size) });
        thread.log_value(false, &after[..size]);
    }
    result
}

fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        // SAFETY: a byte of ours; volatile keeps the loop from becoming a call of `memcpy`.
        unsafe { (&raw mut *to).write_volatile(*from) };
    }
}
