//! What the runtime knows about one thread of the program, in every mode.
//!
//! A `Thread` lives in memory of its own, outside the program's heap, and is used again for
//! another thread after its owner has ended, so that memory grows with the threads that live at
//! the same time. A block takes nearly a megabyte of address space, of which only the pages that
//! are touched cost memory.

use core::ffi::c_void;
use core::ptr::{null_mut, without_provenance_mut};
use core::sync::atomic::{AtomicU32, Ordering};

use crate::detect::Quick;
use crate::inputs::served::Cursor;
use crate::interpose::{C11Routine, Call};
use crate::lock::Lock;
use crate::record::filter::Filter;
use crate::record::pending::Pending;
use crate::record::polls::Polls;
use crate::record::values::Values;
use crate::wire::Sites;
use crate::{sys, tls};

/// What a thread runs: C11 threads return a number.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum Start {
    /// The value of zeroed memory.
    #[allow(dead_code)]
    Nothing,
    Posix(Routine),
    C11(C11Routine),
}

pub type Routine = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// One function that the thread is in.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Frame {
    /// The return address of the function.
    pub pc: usize,
    /// Its stack pointer at its entry hook: tells `longjmp` which frames it leaves.
    pub stack_pointer: usize,
}

pub const MAX_DEPTH: usize = 16 * 1024;

/// The functions that the thread is in, and how much of that is in the trace already.
/// Deeper frames than `MAX_DEPTH` are counted but not kept.
#[repr(C)]
pub struct Stack {
    pub depth: usize,
    /// The depth after the last call or return in the trace.
    pub logged: usize,
    /// The smallest depth since then.
    pub common: usize,
    pub frames: [Frame; MAX_DEPTH],
}

impl Stack {
    #[inline(always)]
    pub fn enter(&mut self, pc: usize, stack_pointer: usize) {
        let depth = self.depth;
        if depth < MAX_DEPTH {
            self.frames[depth] = Frame { pc, stack_pointer };
        }
        self.depth = depth + 1;
    }

    #[inline(always)]
    pub fn leave(&mut self) {
        let depth = self.depth.saturating_sub(1);
        self.depth = depth;
        self.common = self.common.min(depth);
    }

    /// Leaves every function whose frame lies below `stack_pointer`: `longjmp` goes there.
    pub fn unwind(&mut self, stack_pointer: usize) {
        while self.depth > 0 {
            let frame = self.frames[(self.depth - 1).min(MAX_DEPTH - 1)];
            if self.depth <= MAX_DEPTH && frame.stack_pointer >= stack_pointer {
                break;
            }
            self.leave();
        }
    }
}

#[repr(C)]
pub struct Thread {
    // First what the hooks touch; `fast.s` knows the places up to `stack`.
    pub filter: Filter,
    /// Accesses that were not logged because the segment has them already; by size, then write.
    pub covered: [u64; 10],
    pub quick: Quick,
    pub stack: Stack,
    /// Non-zero while this thread is inside the recorder: a signal handler that runs then must
    /// leave its events in `pending`.
    pub busy: u8,
    /// The next byte of the payload, and the last position at which an event surely fits.
    pub position: *mut u8,
    pub limit: *mut u8,
    /// The header of this thread's part of the tail file (`wire::tail`); payload one page behind.
    pub slot: *mut u8,
    /// The last sequence number that this thread wrote.
    pub sequence: u64,
    pub logged: u64,
    pub lost: u64,
    pub pending: Pending,
    pub polls: Polls,
    pub values: Values,
    pub sites: Sites,
    /// The slots of `sites` that are defined, as long as there are at most 256.
    pub defined: [u16; 256],
    pub defined_count: usize,

    /// The signals that its creator blocked, and it shall block when it is attached.
    pub signal_mask: u64,
    /// How many random numbers it has drawn.
    pub draws: u32,
    /// How often it was held back before it let others go on, and how often a timed operation of it
    /// gave up early (`record::impatience`).
    pub held_back: u8,
    pub gave_up_early: u8,
    /// From 0, in order of creation.
    pub number: u32,
    pub parent: u32,
    /// Which child of its parent this is, from 1.
    pub ordinal: u32,
    pub children: u32,
    /// The kernel's number, as mutexes store it as their owner.
    pub kernel_id: i32,
    /// The number that it had in the process which forked this one, where mutexes that it held then
    /// still have it as their owner; 0 if the process was not forked.
    pub kernel_id_before_fork: i32,
    /// `pthread_t`.
    pub handle: usize,
    /// The size of its stack, which ends at `handle`; 0 when not known.
    pub stack_size: usize,
    /// How deep it is in annotations that ask to ignore accesses.
    pub ignored: u32,
    /// What the program wants it to run.
    pub start: Start,
    pub argument: *mut c_void,
    /// The call of `pthread_once` that is about to run its initialiser.
    pub once: *mut Call,
    /// How often the destructor of the thread-specific key has run.
    pub destructor_rounds: u32,
    /// What replay and detection know of this thread; null in record mode.
    pub control: *const crate::control::thread::ControlThread,
    /// Its place in the tree of threads as a number, which is the same in every run.
    pub name: u64,
    /// What it was served of the recording.
    pub served: Cursor,
    /// Where the program has last called an interposed function, if it looks for the cause of a failure.
    pub called_from: usize,
    /// Where it handles fatal signals if its own stack is full (`record::failure`); null if it was not needed yet.
    /// The next thread that gets this block has it as well.
    pub signal_stack: *mut u8,
    next_free: *mut Thread,
}

/// A position behind every limit, so that the first event of a thread finds no room and gets some.
pub const NOWHERE: *mut u8 = without_provenance_mut(1);

static FREE: Lock<*mut Thread> = Lock::new(null_mut());
static NUMBERS: AtomicU32 = AtomicU32::new(1);

/// A number for a thread that is about to be created.
pub fn next_number() -> u32 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// The child process after a fork begins to count anew.
pub fn forget_numbers() {
    NUMBERS.store(1, Ordering::Relaxed);
}

/// Memory for one more thread, with nothing recorded in it; null when there is none.
pub fn allocate() -> *mut Thread {
    let reused = FREE.with(|free| {
        let thread = *free;
        if !thread.is_null() {
            // SAFETY: blocks in the list are initialised and owned by the list.
            *free = unsafe { (*thread).next_free };
        }
        thread
    });
    if reused.is_null() {
        // All-zero bytes are a valid `Thread`: numbers, null pointers, an empty table.
        let fresh = sys::map_anonymous(size_of::<Thread>()).cast::<Thread>();
        if !fresh.is_null() {
            // SAFETY: just mapped for us.
            unsafe { (*fresh).position = NOWHERE };
        }
        return fresh;
    }
    // SAFETY: the block left the list above, so nobody else has it.
    let thread = unsafe { &mut *reused };
    thread.busy = 0;
    thread.position = NOWHERE;
    thread.limit = null_mut();
    thread.slot = null_mut();
    thread.sequence = 0;
    thread.covered = [0; 10];
    thread.logged = 0;
    thread.lost = 0;
    thread.pending.clear();
    thread.values.forget();
    thread.children = 0;
    thread.kernel_id_before_fork = 0;
    thread.served = Cursor::START;
    thread.once = null_mut();
    thread.control = core::ptr::null();
    thread.stack_size = 0;
    thread.ignored = 0;
    thread.called_from = 0;
    thread.destructor_rounds = 0;
    thread.stack.depth = 0;
    thread.stack.logged = 0;
    thread.stack.common = 0;
    reused
}

/// # Safety
/// The block is not used any more.
pub unsafe fn release(thread: *mut Thread) {
    FREE.with(|free| {
        // SAFETY: the caller gives the block away.
        unsafe { (*thread).next_free = *free };
        *free = thread;
    });
}

/// In the child process after a fork: the blocks of the other threads are leaked.
pub fn forget_free() {
    FREE.force(|free| *free = null_mut());
}

impl Thread {
    /// Whether a lock whose owner has this number is held by this thread. A child process may release
    /// what the thread that forked it had locked, as handlers of `pthread_atfork` do.
    pub fn is_owner(&self, kernel_id: i32) -> bool {
        kernel_id != 0 && (kernel_id == self.kernel_id || kernel_id == self.kernel_id_before_fork)
    }

    /// Lowest address and size of the thread's own stack, as far as that is known.
    pub fn own_stack(&self) -> (usize, usize) {
        (self.handle.wrapping_sub(self.stack_size), self.stack_size)
    }
}

/// The thread that runs, if it is attached and not gone.
pub fn current() -> Option<&'static mut Thread> {
    let thread = tls::thread();
    if thread.is_null() || thread == tls::GONE {
        return None;
    }
    // SAFETY: the word points to the block of this thread from attach to detach, and only this
    // thread uses it (a signal handler on it, too: `busy` keeps the two apart).
    Some(unsafe { &mut *thread })
}

pub fn kernel_id() -> i32 {
    // SAFETY: has no effect on memory.
    unsafe { sys::call(sys::GETTID, 0, 0, 0) as i32 }
}
