//! The mode of this run, and when it is decided.
//!
//! The environment decides (`NORNS_MODE`), read once by the constructor of the library. Before
//! that the mode is off: the program's libraries may already run, `environ` may not exist yet.
//! A program run without Norns pays one load and one branch a hook.

use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicU8, Ordering};

use crate::wire::environment;
use crate::wire::guarding::{ATTENTION, ATTENTION_AT};

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    Off = 0,
    Record = 1,
    /// A guarded run while it has a task: `guard`.
    Guard = 3,
    Replay = 4,
    Detect = 5,
    ReplayDetect = 6,
    /// A recording in which one thread runs at a time, with the values of accesses.
    RecordValues = 7,
}

/// The page with the mode. In a guarded run the first page of what the program and its agent share is mapped over
/// it, so that the agent can change the mode from `Off` or `Guard` to `ATTENTION`.
#[repr(align(4096))]
struct Page([AtomicU8; 4096]);

static PAGE: Page = Page([const { AtomicU8::new(0) }; 4096]);
static MODE: &AtomicU8 = &PAGE.0[ATTENTION_AT];

/// The address of the page with the mode.
pub fn page() -> usize {
    PAGE.0.as_ptr() as usize
}

#[inline(always)]
pub fn mode() -> Mode {
    match MODE.load(Ordering::Relaxed) {
        1 => Mode::Record,
        ATTENTION | 3 => Mode::Guard,
        4 => Mode::Replay,
        5 => Mode::Detect,
        6 => Mode::ReplayDetect,
        7 => Mode::RecordValues,
        _ => Mode::Off,
    }
}

/// Whether this is a guarded run with a task, or one that the agent wants to give one.
#[inline(always)]
pub fn is_guarded() -> bool {
    MODE.load(Ordering::Relaxed) & !1 == ATTENTION
}

/// Whether the agent has changed the task since this was last asked.
#[inline(always)]
pub fn takes_attention() -> bool {
    MODE.load(Ordering::Relaxed) == ATTENTION
        && MODE
            .compare_exchange(
                ATTENTION,
                Mode::Guard as u8,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .is_ok()
}

/// A guarded run has no task any more, unless the agent wants to give it one.
pub fn rests() {
    let _ = MODE.compare_exchange(
        Mode::Guard as u8,
        Mode::Off as u8,
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
}

#[inline(always)]
pub fn is_off() -> bool {
    MODE.load(Ordering::Relaxed) == Mode::Off as u8
}

/// Recording, with values or without.
#[inline(always)]
pub fn is_recording() -> bool {
    matches!(mode(), Mode::Record | Mode::RecordValues)
}

/// One thread runs at a time: `control::serial`.
#[inline(always)]
pub fn is_serial() -> bool {
    MODE.load(Ordering::Relaxed) == Mode::RecordValues as u8
}

/// Operations go through `control`: replay, detect, or both, or a recording with values.
#[inline(always)]
pub fn is_controlled() -> bool {
    MODE.load(Ordering::Relaxed) >= Mode::Replay as u8
}

pub fn set(mode: Mode) {
    MODE.store(mode as u8, Ordering::Relaxed);
    crate::fast::mode_changed();
}

/// The bytes of a C string. (`CStr` would call `strlen`, which this library interposes.)
///
/// # Safety
/// `from` ends with a zero byte and lives as long as the result is used.
pub unsafe fn text<'a>(from: *const u8) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: the caller promises a zero byte, and the loop does not read beyond it.
    while unsafe { *from.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: as above.
    unsafe { core::slice::from_raw_parts(from, length) }
}

/// The value of a variable of the environment that the program was started with.
///
/// # Safety
/// `environment` is null or an array of C strings that ends with a null pointer.
pub unsafe fn variable<'a>(environment: *const *const c_char, name: &str) -> Option<&'a [u8]> {
    if environment.is_null() {
        return None;
    }
    let mut at = environment;
    loop {
        // SAFETY: the array ends with a null pointer, where this loop ends too.
        let entry = unsafe { *at };
        if entry.is_null() {
            return None;
        }
        // SAFETY: entries before the null pointer are C strings.
        let text = unsafe { text(entry.cast()) };
        if let Some(rest) = text.strip_prefix(name.as_bytes())
            && let Some(value) = rest.strip_prefix(b"=")
        {
            return Some(value);
        }
        // SAFETY: as above; the null pointer is not reached yet.
        at = unsafe { at.add(1) };
    }
}

/// The constructor of the library: the C library calls it with the arguments of `main`.
unsafe extern "C" fn construct(
    _count: c_int,
    _arguments: *const *const c_char,
    variables: *const *const c_char,
) {
    #[cfg(not(test))]
    crate::real::find_all();
    // SAFETY: what the C library hands to constructors is the array that `begin` and `variable` want.
    unsafe {
        crate::files::begin(variables);
        crate::inputs::begin(variables);
        crate::outputs::begin(variables);
        crate::sites::read_plan(variables);
    }
    // SAFETY: as above.
    let Some(word) = (unsafe { variable(variables, environment::MODE) }) else {
        // SAFETY: as above.
        return unsafe { crate::guard::begin(variables) };
    };
    let wanted = core::str::from_utf8(word).ok();
    let mode = match wanted.and_then(environment::Mode::parse) {
        Some(environment::Mode::Track) => {
            // SAFETY: as above.
            unsafe { crate::track::begin(variables) };
            return;
        }
        Some(environment::Mode::Record) => Mode::Record,
        Some(environment::Mode::RecordValues) => Mode::RecordValues,
        Some(environment::Mode::Replay) => Mode::Replay,
        Some(environment::Mode::Detect) => Mode::Detect,
        Some(environment::Mode::ReplayDetect) => Mode::ReplayDetect,
        None => {
            crate::sys::write(
                2,
                b"norns: this runtime does not know the value of NORNS_MODE; nothing is observed\n",
            );
            return;
        }
    };
    match mode {
        Mode::Off | Mode::Guard => {}
        // SAFETY: as above.
        Mode::Record | Mode::RecordValues => unsafe { crate::record::begin(variables, mode) },
        // SAFETY: as above.
        Mode::Replay | Mode::Detect | Mode::ReplayDetect => unsafe {
            crate::control::begin(variables, mode);
        },
    }
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) =
    construct;
