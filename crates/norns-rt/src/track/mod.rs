//! A tracked run: the program runs as it is, and only what a plan names is looked at.
//!
//! After section 4.3 of Kasikci (2015): data flow is seen by hardware watchpoints (`watchpoint`), or by sites
//! where there are none, control flow by sites (`planned_sites`). The mode stays off, so that all other hooks
//! do nothing. A watchpoint on a block is set when the block is allocated, by the place that the allocation
//! was called from.
//!
//! Accesses of two threads that come within the few microseconds between an access and its trap can be
//! seen in the wrong order. What the kernel or the C library does to watched memory is not seen as the
//! program's. Not followed: child processes, and what a program does after it has asked for SIGTRAP itself.

mod planned_sites;
mod watchpoint;

use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::control::output::{self, Sharing};
use crate::record::failure;
use crate::sites::{self, Words};
use crate::thread::{self, Thread};
use crate::wire::environment::{self, Failing};
use crate::wire::tracking::{
    Act, At, LONGEST_PLAN, Observed, Planned, Target, UNKNOWN_THREAD, WATCHPOINTS,
};
use crate::{attach, interpose, mode, sys};

pub use planned_sites::wants;

static ON: AtomicBool = AtomicBool::new(false);
/// The next number in the order of what is seen.
static ORDER: AtomicU64 = AtomicU64::new(0);
/// Of how many accesses through one watchpoint, and passages of one site, the run tells.
static MOST: AtomicU32 = AtomicU32::new(u32::MAX);
/// What is added to an address of the program's file.
static BIAS: AtomicUsize = AtomicUsize::new(0);

/// Where the code of the program begins and ends.
static CODE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// How many places of allocations a plan can name.
const PLACES: usize = 64;
/// So many words of the stack are searched for the call of an allocation that a library made.
const STACK: usize = 48;
/// So many for the call of a function of a library that fails.
const FAILING_STACK: usize = 512;

/// A block that is to be watched when it is allocated.
struct Awaited {
    /// The watchpoint, plus one; 0 if there is none.
    watch: AtomicU32,
    from: AtomicUsize,
    to: AtomicUsize,
    nth: AtomicU32,
    seen: AtomicU32,
    offset: AtomicUsize,
    size: AtomicU32,
}

static AWAITED: [Awaited; PLACES] = [const {
    Awaited {
        watch: AtomicU32::new(0),
        from: AtomicUsize::new(0),
        to: AtomicUsize::new(0),
        nth: AtomicU32::new(0),
        seen: AtomicU32::new(0),
        offset: AtomicUsize::new(0),
        size: AtomicU32::new(0),
    }
}; PLACES];
/// Whether any allocation is awaited.
static AWAITS: AtomicBool = AtomicBool::new(false);
/// The block of each watchpoint; 0 for none.
static BLOCKS: [AtomicUsize; WATCHPOINTS] = [const { AtomicUsize::new(0) }; WATCHPOINTS];

#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

pub fn most() -> u32 {
    MOST.load(Ordering::Relaxed)
}

/// Reads the plan and sets its watchpoints.
///
/// # Safety
/// Only from the constructor, with its variables of the environment.
pub unsafe fn begin(variables: *const *const c_char) {
    // SAFETY: the caller promises the environment.
    let variable = |name: &str| unsafe { mode::variable(variables, name) };
    let (Some(plan), Some(report)) = (variable(environment::TRACK), variable(environment::REPORT))
    else {
        return;
    };
    output::open(report, Sharing::OwnFile);
    tell(Observed::Begin);
    output::tell_maps();
    // SAFETY: only the constructor calls this function.
    if !unsafe { attach::begin_process() } {
        return;
    }
    locate();
    ON.store(true, Ordering::Relaxed);
    failure::watch();
    interpose::watch_failures();
    if let Some(main) = thread::current() {
        failure::begin_thread(main);
    }
    let mut bytes = [0u8; LONGEST_PLAN];
    let Some(text) = read(plan, &mut bytes) else {
        sys::fatal(b"norns: the plan cannot be read\n");
    };
    let mut lines = text.split('\n');
    if lines.next().and_then(Planned::parse) != Some(Planned::Begin) {
        sys::fatal(b"norns: the plan is of another version\n");
    }
    if !text.ends_with("\nend\n") {
        sys::fatal(b"norns: the plan was cut\n");
    }
    for planned in lines.filter_map(Planned::parse) {
        match planned {
            Planned::Begin | Planned::End => {}
            Planned::Most(most) => MOST.store(most, Ordering::Relaxed),
            Planned::Watch { number, target } => watch(number as usize, target),
            Planned::Site { of, line, file } => planned_sites::add(of, file.as_bytes(), line),
        }
    }
}

/// The text of a file, whose path has no terminating zero.
fn read<'a>(path: &[u8], bytes: &'a mut [u8]) -> Option<&'a str> {
    let mut name = [0u8; 4096];
    if path.len() >= name.len() {
        return None;
    }
    name.iter_mut().zip(path).for_each(|(to, from)| *to = *from);
    let file = sys::open(&name[..=path.len()], 0);
    if file < 0 {
        return None;
    }
    let mut length = 0;
    loop {
        let got = sys::read(file, &mut bytes[length..]);
        if got <= 0 {
            break;
        }
        length += got as usize;
    }
    sys::close(file);
    if length == bytes.len() {
        return None;
    }
    core::str::from_utf8(&bytes[..length]).ok()
}

/// Whether a return address is one of the program, which `locate` has found.
pub fn is_code_of_program(pc: usize) -> bool {
    (CODE[0].load(Ordering::Relaxed)..CODE[1].load(Ordering::Relaxed)).contains(&pc)
}

/// Finds where the program was loaded, above the addresses of its file, and where its code is.
pub fn locate() {
    const HEADERS: usize = 3;
    const COUNT: usize = 5;
    const LOADED: u32 = 1;
    const EXECUTABLE: u32 = 1;
    const SELF: u32 = 6;
    #[repr(C)]
    struct Header {
        kind: u32,
        flags: u32,
        offset: u64,
        address: u64,
        physical: u64,
        in_file: u64,
        size: u64,
        alignment: u64,
    }
    unsafe extern "C" {
        fn getauxval(kind: usize) -> usize;
    }
    // SAFETY: plain calls that read what the kernel has passed to the process.
    let (headers, count) = unsafe { (getauxval(HEADERS), getauxval(COUNT)) };
    for index in 0..count {
        // SAFETY: the kernel names so many program headers of the executable, which stay mapped.
        let header = unsafe { &*(headers as *const Header).add(index) };
        if header.kind == SELF {
            BIAS.store(
                headers.wrapping_sub(header.address as usize),
                Ordering::Relaxed,
            );
        }
        if header.kind == LOADED && header.flags & EXECUTABLE != 0 {
            // The headers themselves come first, so the bias is known.
            let from = BIAS
                .load(Ordering::Relaxed)
                .wrapping_add(header.address as usize);
            CODE[0].store(from, Ordering::Relaxed);
            CODE[1].store(from + header.size as usize, Ordering::Relaxed);
        }
    }
}

/// The place of the program at which it fails, as a return address: where the code is that fails, or from
/// where the library was called that does.
pub fn failing_place(pc: usize, stack_pointer: usize) -> usize {
    if is_code_of_program(pc) {
        return pc + 1;
    }
    let mut words = (0..FAILING_STACK).map(|word| {
        let mut bytes = [0; 8];
        let is_read = sites::read_memory(stack_pointer + 8 * word, &mut bytes);
        is_read.then(|| usize::from_ne_bytes(bytes))
    });
    if !is_on() {
        // Hooks leave return addresses behind on the stack: only one of a call that is known counts.
        let known = thread::current().map_or(0, |thread| thread.called_from);
        let is_open = known != 0 && words.any(|word| word == Some(known));
        return if is_open { known } else { pc + 1 };
    }
    let caller = words.find_map(|word| {
        let word = word.filter(|&word| is_code_of_program(word))?;
        // A return address stands behind a call: of an address, or through a register or memory.
        let mut before = [0; 7];
        let is_read = sites::read_memory(word - 7, &mut before);
        let is_call = before[2] == 0xe8 || before[1..6].contains(&0xff);
        (is_read && is_call).then_some(word)
    });
    caller.unwrap_or(pc + 1)
}

fn watch(number: usize, target: Target) {
    if number >= WATCHPOINTS {
        return;
    }
    match target {
        Target::Global { address, size } => {
            let address = BIAS.load(Ordering::Relaxed) + address as usize;
            watchpoint::arm(number, address, size);
        }
        Target::Allocated {
            from,
            to,
            nth,
            offset,
            size,
        } => {
            let is_free = |place: &&Awaited| place.watch.load(Ordering::Relaxed) == 0;
            let Some(place) = AWAITED.iter().find(is_free) else {
                return;
            };
            let bias = BIAS.load(Ordering::Relaxed);
            place.from.store(bias + from as usize, Ordering::Relaxed);
            place.to.store(bias + to as usize, Ordering::Relaxed);
            place.nth.store(nth, Ordering::Relaxed);
            place.offset.store(offset as usize, Ordering::Relaxed);
            place.size.store(size, Ordering::Relaxed);
            place.watch.store(number as u32 + 1, Ordering::Relaxed);
            AWAITS.store(true, Ordering::Relaxed);
            // Events must be there before the threads are that inherit them.
            watchpoint::reserve(number);
        }
    }
}

/// A block was allocated by a call that returns to `pc`.
#[inline(always)]
pub fn allocated(block: *mut c_void, pc: usize) {
    if AWAITS.load(Ordering::Relaxed) && !block.is_null() {
        await_block(block as usize, pc);
    }
}

#[cold]
#[inline(never)]
fn await_block(block: usize, pc: usize) {
    for place in &AWAITED {
        let watch = place.watch.load(Ordering::Relaxed);
        if watch == 0 {
            return;
        }
        let range = place.from.load(Ordering::Relaxed)..place.to.load(Ordering::Relaxed);
        let is_here = |pc: usize| range.contains(&pc.wrapping_sub(1));
        if !is_here(pc) && !is_called_from(is_here) {
            continue;
        }
        let seen = place.seen.fetch_add(1, Ordering::Relaxed) + 1;
        if seen == place.nth.load(Ordering::Relaxed) {
            let number = watch as usize - 1;
            let address = block + place.offset.load(Ordering::Relaxed);
            BLOCKS[number].store(block, Ordering::Relaxed);
            watchpoint::arm(number, address, place.size.load(Ordering::Relaxed));
        }
    }
}

/// Whether one of the return addresses near the top of the stack is the one that is looked for: `new`
/// calls `malloc` in a library.
fn is_called_from(is_here: impl Fn(usize) -> bool) -> bool {
    let top = &raw const is_here as usize & !7;
    (0..STACK).any(|word| {
        let mut bytes = [0; 8];
        sites::read_memory(top + 8 * word, &mut bytes) && is_here(usize::from_ne_bytes(bytes))
    })
}

/// A block is about to be freed.
#[inline(always)]
pub fn freed(block: *mut c_void, pc: usize) {
    if AWAITS.load(Ordering::Relaxed) && !block.is_null() {
        for watched in &BLOCKS {
            if watched.load(Ordering::Relaxed) == block as usize {
                let (at, address) = (here(pc), block as u64);
                tell(Observed::Freed { at, address });
                return;
            }
        }
    }
}

/// The next event of the running thread.
fn here(pc: usize) -> At {
    At {
        order: ORDER.fetch_add(1, Ordering::Relaxed),
        thread: thread::current().map_or(UNKNOWN_THREAD, |thread| thread.number),
        pc: pc as u64,
    }
}

/// A branch with a site led there.
pub fn branched(pc: usize) {
    tell(Observed::Branch { at: here(pc) });
}

/// The running thread has made an access that has a site.
pub fn accessed(act: Act, address: usize, size: usize, pc: usize) {
    let mut bytes = [0; 8];
    let size = size.clamp(1, bytes.len());
    let is_read = sites::read_memory(address, &mut bytes[..size]);
    tell(Observed::Passed {
        at: here(pc),
        act,
        address: address as u64,
        size: size as u32,
        value: is_read.then(|| u64::from_le_bytes(bytes)),
    });
}

/// The running thread creates another one. Returns who creates it, if this is a tracked run.
pub fn creator() -> Option<&'static mut Thread> {
    thread::current().filter(|_| is_on())
}

/// A thread is about to be created.
pub fn creates(child: &Thread, pc: usize) {
    if is_on() {
        tell(Observed::Thread {
            at: here(pc),
            child: child.number,
            ordinal: child.ordinal,
        });
    }
}

pub fn fails(how: Failing, detail: &[u8], address: usize, pc: usize) {
    tell(Observed::Failed {
        at: here(pc),
        how,
        address: address as u64,
        detail: core::str::from_utf8(detail).unwrap_or("?"),
    });
}

/// The program wants SIGTRAP for itself: it gets it, and nothing is watched any more.
pub fn gives_up_signal(signal: c_int) {
    if is_on() && signal == watchpoint::SIGTRAP {
        watchpoint::disarm_all();
    }
}

/// A child process is not tracked.
pub fn forked() {
    ON.store(false, Ordering::Relaxed);
    AWAITS.store(false, Ordering::Relaxed);
    failure::forget();
}

/// Writes one line. The buffer is small: the program may run on a small stack.
fn tell(observed: Observed) {
    let mut words = Words::new();
    let _ = observed.encode(&mut words);
    if !words.bytes().ends_with(b"\n") {
        words.cut();
        let _ = words.write_str("\n");
    }
    output::send(words.bytes());
}
