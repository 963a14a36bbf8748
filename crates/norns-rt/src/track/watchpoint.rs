//! Hardware watchpoints of this process: perf events that raise SIGTRAP in the thread that made the access,
//! just after it. No privilege is needed where `kernel.perf_event_paranoid` is 2 or less.
//!
//! The events are opened before the first thread is created, which inherits them, and moved to other
//! addresses later: the kernel moves the copies of all threads with them.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};

use super::{here, tell};
use crate::interpose::signals;
use crate::sites;
use crate::sys;
use crate::wire::tracking::{Observed, WATCHPOINTS};

pub const SIGTRAP: c_int = 5;

const PERF_EVENT_OPEN: usize = 298;
const IOCTL: usize = 16;
const ENABLE: usize = 0x2400;
const DISABLE: usize = 0x2401;
const MODIFY_ATTRIBUTES: usize = 0x4008_240b;

/// `struct perf_event_attr`, version 7.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_kind: u32,
    address: u64,
    length: u64,
    unused: [u64; 6],
    signal_data: u64,
}

impl Attributes {
    fn of(number: usize, address: usize, length: usize, is_disabled: bool) -> Attributes {
        const BREAKPOINT: u32 = 5;
        const READ_WRITE: u32 = 3;
        const DISABLED: u64 = 1;
        const INHERIT: u64 = 1 << 1;
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
        const INHERIT_THREAD: u64 = 1 << 35;
        const REMOVE_ON_EXEC: u64 = 1 << 36;
        const SIGNAL: u64 = 1 << 37;
        let flags = INHERIT
            | EXCLUDE_KERNEL
            | EXCLUDE_HYPERVISOR
            | INHERIT_THREAD
            | REMOVE_ON_EXEC
            | SIGNAL;
        Attributes {
            kind: BREAKPOINT,
            size: size_of::<Attributes>() as u32,
            config: 0,
            sample_period: 1,
            sample_type: 0,
            read_format: 0,
            flags: if is_disabled { flags | DISABLED } else { flags },
            wakeup: 0,
            breakpoint_kind: READ_WRITE,
            address: address as u64,
            length: length as u64,
            unused: [0; 6],
            signal_data: number as u64,
        }
    }
}

struct Watchpoint {
    /// -1 if it is not open.
    descriptor: AtomicI32,
    address: AtomicUsize,
    length: AtomicUsize,
    traps: AtomicU32,
}

static WATCHPOINTS_OF_RUN: [Watchpoint; WATCHPOINTS] = [const {
    Watchpoint {
        descriptor: AtomicI32::new(-1),
        address: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        traps: AtomicU32::new(0),
    }
}; WATCHPOINTS];
static HANDLED: AtomicBool = AtomicBool::new(false);
static REFUSED: AtomicBool = AtomicBool::new(false);
/// What a reserved watchpoint watches: nothing accesses it.
static NOTHING: AtomicUsize = AtomicUsize::new(0);

/// Opens a watchpoint that watches nothing yet.
pub fn reserve(number: usize) {
    open(number, &raw const NOTHING as usize, 8, true);
}

/// Watches an address from now on, in all threads.
pub fn arm(number: usize, address: usize, size: u32) {
    let watchpoint = &WATCHPOINTS_OF_RUN[number];
    // The processor watches 1, 2, 4 or 8 aligned bytes.
    let mut length = 8;
    while length > size.max(1) as usize || !address.is_multiple_of(length) {
        length /= 2;
    }
    watchpoint.address.store(address, Ordering::Relaxed);
    watchpoint.length.store(length, Ordering::Relaxed);
    let descriptor = watchpoint.descriptor.load(Ordering::Relaxed);
    let is_set = if descriptor < 0 {
        open(number, address, length, false)
    } else {
        let attributes = Attributes::of(number, address, length, false);
        // SAFETY: the kernel reads the attributes.
        let moved = unsafe {
            sys::call(
                IOCTL,
                descriptor as usize,
                MODIFY_ATTRIBUTES,
                &raw const attributes as usize,
            )
        };
        control(number, ENABLE);
        moved >= 0
    };
    if is_set {
        tell(Observed::Armed {
            number: number as u32,
            address: address as u64,
        });
    }
}

pub fn disarm_all() {
    for number in 0..WATCHPOINTS {
        control(number, DISABLE);
        tell(Observed::Off {
            number: number as u32,
        });
    }
}

fn control(number: usize, request: usize) {
    let descriptor = WATCHPOINTS_OF_RUN[number]
        .descriptor
        .load(Ordering::Relaxed);
    if descriptor >= 0 {
        // SAFETY: no effect on memory.
        unsafe { sys::call(IOCTL, descriptor as usize, request, 0) };
    }
}

fn open(number: usize, address: usize, length: usize, is_disabled: bool) -> bool {
    if REFUSED.load(Ordering::Relaxed) {
        return false;
    }
    if !HANDLED.swap(true, Ordering::Relaxed) {
        signals::handle(SIGTRAP, trapped);
    }
    let attributes = Attributes::of(number, address, length, is_disabled);
    const CLOSE_ON_EXEC: usize = 8;
    // SAFETY: the kernel reads the attributes.
    let opened = unsafe {
        sys::call6(
            PERF_EVENT_OPEN,
            &raw const attributes as usize,
            0,
            usize::MAX,
            usize::MAX,
            CLOSE_ON_EXEC,
            0,
        )
    } as i32;
    if opened < 0 {
        REFUSED.store(true, Ordering::Relaxed);
        tell(Observed::Refused { error: -opened });
        return false;
    }
    let descriptor = sys::high_descriptor(opened);
    WATCHPOINTS_OF_RUN[number]
        .descriptor
        .store(descriptor, Ordering::Relaxed);
    true
}

/// The handler of SIGTRAP. It must not touch watched memory, where it would trap itself: the kernel reads
/// the value.
unsafe extern "C" fn trapped(_: c_int, information: *mut c_void, context: *mut c_void) {
    /// Where `siginfo_t` has `si_code` and the data of the event, and `ucontext_t` the program counter.
    const CODE: usize = 8;
    const DATA: usize = 24;
    const COUNTER: usize = 168;
    const OF_PERF: c_int = 6;
    // SAFETY: the kernel has filled both in.
    let (code, number, pc) = unsafe {
        (
            information.byte_add(CODE).cast::<c_int>().read(),
            information.byte_add(DATA).cast::<u64>().read() as usize,
            context.byte_add(COUNTER).cast::<usize>().read(),
        )
    };
    let Some(watchpoint) = WATCHPOINTS_OF_RUN.get(number).filter(|_| code == OF_PERF) else {
        // A breakpoint of the program itself: it does what it does without us.
        signals::back_to_default(SIGTRAP);
        return;
    };
    let at = here(pc);
    let address = watchpoint.address.load(Ordering::Relaxed);
    let length = watchpoint.length.load(Ordering::Relaxed);
    let mut bytes = [0; 8];
    let is_read = sites::read_memory(address, &mut bytes[..length]);
    tell(Observed::Access {
        at,
        address: address as u64,
        size: length as u32,
        value: is_read.then(|| u64::from_le_bytes(bytes)),
    });
    let traps = watchpoint.traps.fetch_add(1, Ordering::Relaxed) + 1;
    if traps == super::most() {
        control(number, DISABLE);
        tell(Observed::Off {
            number: number as u32,
        });
    }
}
