//! The sites of a guarded build: their records, which of them are on, and where the program calls when it passes one.
//! `guarded.hpp` of `norns-instrument` puts them there and has the layout too.

use core::ptr::null;
use core::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU64, AtomicUsize, Ordering::Relaxed,
};

use crate::interpose;

/// One access.
#[repr(C)]
pub struct Site {
    /// What it is on for: `CONTEXT`, `TASK`.
    on: AtomicU8,
    is_atomic: u8,
    passed: AtomicU16,
    pub number: u32,
}

/// Threads that touch one address are looked for.
pub const CONTEXT: u8 = 1;
/// It is one of the two sites of the task.
pub const TASK: u8 = 2;

/// How often a site is passed before it is known who passes there.
const LEARNS: u16 = 32;
/// How often before it sleeps for a while even if it is part of the task, so that a tight loop costs little.
const MOST: u16 = 1024;

impl Site {
    pub fn is_on_for(&self, what: u8) -> bool {
        self.on.load(Relaxed) & what != 0
    }

    pub fn is_atomic(&self) -> bool {
        self.is_atomic != 0
    }

    /// Counts a passage. Switches the site off for what it has been passed for often enough; whether that was the task.
    pub fn count(&self) -> bool {
        let passed = self.passed.load(Relaxed).saturating_add(1);
        // Two threads that pass at the same time may count as one.
        self.passed.store(passed, Relaxed);
        if passed == LEARNS {
            self.on.fetch_and(!CONTEXT, Relaxed);
        }
        let sleeps = passed >= MOST && self.is_on_for(TASK);
        if sleeps {
            self.on.fetch_and(!TASK, Relaxed);
        }
        sleeps
    }
}

const MODULES: usize = 64;

/// The sites of one linked file.
struct Module {
    start: AtomicPtr<Site>,
    stop: AtomicPtr<Site>,
    /// The byte by which its code knows that orders are observed.
    observed: AtomicPtr<AtomicU8>,
    /// An address of its code.
    code: AtomicUsize,
}

static MODULE: [Module; MODULES] = [const {
    Module {
        start: AtomicPtr::new(null::<Site>().cast_mut()),
        stop: AtomicPtr::new(null::<Site>().cast_mut()),
        observed: AtomicPtr::new(null::<AtomicU8>().cast_mut()),
        code: AtomicUsize::new(0),
    }
}; MODULES];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Of the list of places that the sites of the first file are numbered by.
static LIST: AtomicU64 = AtomicU64::new(0);

fn each_site(act: impl Fn(&Site)) {
    for module in &MODULE[..COUNT.load(Relaxed).min(MODULES)] {
        let (mut site, stop) = (module.start.load(Relaxed), module.stop.load(Relaxed));
        while site < stop {
            // SAFETY: a record of a loaded file; `register` got both ends of its section.
            act(unsafe { &*site });
            // SAFETY: as above; `stop` is not reached yet.
            site = unsafe { site.add(1) };
        }
    }
}

/// Switches on the sites with one of these numbers, and those of all others off, for the task.
pub fn wake(first: u32, second: u32) {
    each_site(|site| {
        if site.number == first || site.number == second {
            site.passed
                .store(LEARNS.min(site.passed.load(Relaxed)), Relaxed);
            site.on.fetch_or(TASK, Relaxed);
        } else if site.is_on_for(TASK) {
            site.on.fetch_and(!TASK, Relaxed);
        }
    });
}

/// Switches all sites off, for good.
pub fn sleep_all() {
    each_site(|site| site.on.store(0, Relaxed));
}

/// Switches the sites of a task off.
pub fn sleep() {
    each_site(|site| {
        if site.is_on_for(TASK) {
            site.on.fetch_and(!TASK, Relaxed);
        }
    });
}

/// Lets every site look for other threads once more.
pub fn learn() {
    each_site(|site| {
        site.passed.store(0, Relaxed);
        site.on.fetch_or(CONTEXT, Relaxed);
    });
}

/// Tells the code of the program whether orders are observed.
pub fn observe(is_observed: bool) {
    for module in &MODULE[..COUNT.load(Relaxed).min(MODULES)] {
        // SAFETY: a byte of a loaded file.
        if let Some(observed) = unsafe { module.observed.load(Relaxed).as_ref() } {
            observed.store(u8::from(is_observed), Relaxed);
        }
    }
}

/// Whether a file with sites has code there.
pub fn has_code(from: usize, to: usize) -> bool {
    let modules = &MODULE[..COUNT.load(Relaxed).min(MODULES)];
    modules
        .iter()
        .any(|it| (from..to).contains(&it.code.load(Relaxed)))
}

/// Keeps the sites of a file. False if they are numbered by another list than those before.
fn register(
    start: *const Site,
    stop: *const Site,
    observed: *const AtomicU8,
    list: u64,
    pc: usize,
) -> bool {
    let known = LIST.compare_exchange(0, list, Relaxed, Relaxed);
    let at = COUNT.load(Relaxed);
    if known.is_err_and(|known| known != list) || at >= MODULES {
        return false;
    }
    let module = &MODULE[at];
    module.start.store(start.cast_mut(), Relaxed);
    module.stop.store(stop.cast_mut(), Relaxed);
    module.observed.store(observed.cast_mut(), Relaxed);
    module.code.store(pc, Relaxed);
    // The loader runs the constructors of one file after the other.
    COUNT.store(at + 1, Relaxed);
    true
}

interpose! {
    // The sites of an executable or library, which has just been loaded.
    fn __norns_guard_sites(start: *const Site, stop: *const Site, observed: *const AtomicU8, list: u64) |pc| {
        if super::shared().is_some() && register(start, stop, observed, list, pc) {
            super::sites_are_known();
        }
    }
}

/// A passage, as the code below finds it.
pub struct Passage<'a> {
    pub site: &'a Site,
    pub address: usize,
    pub size: usize,
    pub writes: bool,
    /// Where the call returns to, and the stack pointer then.
    pub pc: usize,
    pub stack_pointer: usize,
}

/// # Safety
/// `site` is a record of a loaded file, and `frame` points to the return address of the call.
unsafe extern "C" fn access(site: *const Site, address: usize, what: u64, frame: *const usize) {
    // SAFETY: the caller's promise.
    let (site, pc) = unsafe { (&*site, *frame) };
    super::passes(&Passage {
        site,
        address,
        size: (what >> 1) as usize,
        writes: what & 1 != 0,
        pc,
        stack_pointer: frame as usize + 8,
    });
}

unsafe extern "C" fn order(address: usize, what: u64) {
    super::operates(address, what);
}

/// Defines a function with the convention `preserve_all`, which keeps every register but r11. The runtime uses the
/// lower halves of vector registers only, so the upper ones stay as they are.
macro_rules! keeping_registers {
    (fn $name:ident calls $function:ident) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "push rax",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                "push r8",
                "push r9",
                "push r10",
                "sub rsp, 256",
                "and rsp, -16",
                "movaps [rsp], xmm0",
                "movaps [rsp + 16], xmm1",
                "movaps [rsp + 32], xmm2",
                "movaps [rsp + 48], xmm3",
                "movaps [rsp + 64], xmm4",
                "movaps [rsp + 80], xmm5",
                "movaps [rsp + 96], xmm6",
                "movaps [rsp + 112], xmm7",
                "movaps [rsp + 128], xmm8",
                "movaps [rsp + 144], xmm9",
                "movaps [rsp + 160], xmm10",
                "movaps [rsp + 176], xmm11",
                "movaps [rsp + 192], xmm12",
                "movaps [rsp + 208], xmm13",
                "movaps [rsp + 224], xmm14",
                "movaps [rsp + 240], xmm15",
                "lea rcx, [rbp + 8]",
                "call {function}",
                "movaps xmm0, [rsp]",
                "movaps xmm1, [rsp + 16]",
                "movaps xmm2, [rsp + 32]",
                "movaps xmm3, [rsp + 48]",
                "movaps xmm4, [rsp + 64]",
                "movaps xmm5, [rsp + 80]",
                "movaps xmm6, [rsp + 96]",
                "movaps xmm7, [rsp + 112]",
                "movaps xmm8, [rsp + 128]",
                "movaps xmm9, [rsp + 144]",
                "movaps xmm10, [rsp + 160]",
                "movaps xmm11, [rsp + 176]",
                "movaps xmm12, [rsp + 192]",
                "movaps xmm13, [rsp + 208]",
                "movaps xmm14, [rsp + 224]",
                "movaps xmm15, [rsp + 240]",
                "lea rsp, [rbp - 64]",
                "pop r10",
                "pop r9",
                "pop r8",
                "pop rdi",
                "pop rsi",
                "pop rdx",
                "pop rcx",
                "pop rax",
                "pop rbp",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_endproc",
                function = sym $function,
            )
        }
    };
}

keeping_registers! { fn __norns_guard_access calls access }
keeping_registers! { fn __norns_guard_order calls order }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_that_is_passed_often_goes_to_sleep() {
        let site = Site {
            on: AtomicU8::new(CONTEXT | TASK),
            is_atomic: 0,
            passed: AtomicU16::new(0),
            number: 3,
        };
        let sleeps = (0..u32::from(MOST)).filter(|_| site.count()).count();
        assert_eq!(sleeps, 1);
        assert!(!site.is_on_for(CONTEXT | TASK));
    }
}
