//! Sites: points of the program at which it can be asked to look, put there by the plug-in of
//! `norns-instrument`, whose `site.hpp` defines the record of a site and the text of its event.
//!
//! The plan of the run (`NORNS_PLAN`) says which ones are on; of a tracked run it is another one (`track`).
//! The others sleep: the program only tests a byte where it passes one.

use core::ffi::c_char;
use core::fmt::Write;
use core::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use crate::control;
use crate::interpose;
use crate::interpose::{condition, misused, mutex};
use crate::mode::{self, is_controlled, is_off, is_recording, text};
use crate::operation::Operation;
use crate::record;
use crate::sys;
use crate::track;
use crate::wire::tracking::{Act, SiteOf};
use crate::wire::{Code, environment, misuse, object};

#[repr(C)]
pub struct Site {
    on: AtomicU8,
    kind: u8,
    /// How often it was passed, as far as anybody counts.
    passed: AtomicU16,
    line: u32,
    file: *const c_char,
    event: *const u8,
    body: *const AtomicU8,
}

/// The kinds of sites that are not events of an aspect file; `site.hpp` has all of them.
mod kind {
    pub const LOOP_EXIT: u8 = 6;
    pub const WAIT_ONCE: u8 = 7;
    pub const TEST_UNLOCKED: u8 = 8;
    pub const BRANCH: u8 = 9;
    pub const READ: u8 = 10;
    pub const WRITE: u8 = 11;
}

impl Site {
    /// What a tracked run learns from it, if it is there for that.
    fn is_tracked(&self) -> Option<SiteOf> {
        match self.kind {
            kind::BRANCH => Some(SiteOf::Branch),
            kind::READ | kind::WRITE => Some(SiteOf::Access),
            _ => None,
        }
    }

    /// Whether the plan of this run switches it on.
    ///
    /// # Safety
    /// The site is a record of a loaded file.
    unsafe fn is_wanted(&self) -> bool {
        // SAFETY: the plug-in writes both texts with their zero bytes, in the same file as the record.
        let (file, event) = unsafe { (text(self.file.cast()), text(self.event)) };
        match self.is_tracked() {
            Some(of) => track::wants(of, file, self.line),
            None => !is_off() && is_planned(event),
        }
    }

    /// Tells that a tracked run has passed it, as long as that was not told too often. `values` of an access
    /// are its address and size.
    fn track(&self, of: SiteOf, values: &[u64], pc: usize) {
        let passed = self.passed.load(Ordering::Relaxed).saturating_add(1);
        if !track::is_on() || u32::from(passed) > track::most() {
            return;
        }
        // Two threads that pass at the same time may count as one.
        self.passed.store(passed, Ordering::Relaxed);
        if u32::from(passed) == track::most() {
            // A loop that has read the byte already may still come here.
            self.on.store(0, Ordering::Relaxed);
        }
        match (of, values) {
            (SiteOf::Branch, _) => track::branched(pc),
            (SiteOf::Access, &[address, size]) => {
                let act = if self.kind == kind::WRITE {
                    Act::Write
                } else {
                    Act::Read
                };
                track::accessed(act, address as usize, size as usize, pc);
            }
            (SiteOf::Access, _) => {}
        }
    }
}

const LONGEST_PLAN: usize = 4096;
/// The plan of this run, with zero bytes behind it. A copy: programs write to their environment.
static PLAN: [AtomicU8; LONGEST_PLAN] = [const { AtomicU8::new(0) }; LONGEST_PLAN];

/// Reads the plan from the environment that the program was started with. One that is too long switches
/// everything on.
///
/// # Safety
/// `variables` is what the C library hands to constructors.
pub unsafe fn read_plan(variables: *const *const c_char) {
    // SAFETY: the caller promises the environment.
    let plan = unsafe { mode::variable(variables, environment::PLAN) }.unwrap_or(b"");
    let plan = if plan.len() < LONGEST_PLAN {
        plan
    } else {
        b"*"
    };
    for (to, from) in PLAN.iter().zip(plan) {
        to.store(*from, Ordering::Relaxed);
    }
}

/// Whether the plan switches on sites of this name.
fn is_planned(name: &[u8]) -> bool {
    let byte = |at: usize| PLAN.get(at).map_or(0, |byte| byte.load(Ordering::Relaxed));
    let mut begin = 0;
    while byte(begin) != 0 {
        let mut end = begin;
        while !matches!(byte(end), 0 | b' ') {
            end += 1;
        }
        let is_all = end == begin + 1 && byte(begin) == b'*';
        let is_name =
            end - begin == name.len() && (begin..end).zip(name).all(|(at, b)| byte(at) == *b);
        if is_all || is_name {
            return true;
        }
        begin = end + usize::from(byte(end) == b' ');
    }
    false
}

/// A custom event happens: its name and fields, each with a zero byte behind it.
pub fn happens(words: &[u8], pc: usize) {
    if is_recording() {
        record::event(words, pc);
    } else if is_controlled() {
        control::operations::custom(words, pc);
    }
}

/// Text of an event that is being put together. What does not fit is left out.
pub struct Words {
    bytes: [u8; 512],
    length: usize,
}

impl Words {
    pub const fn new() -> Self {
        Words {
            bytes: [0; 512],
            length: 0,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Makes room for one more byte.
    pub fn cut(&mut self) {
        self.length = self.length.min(self.bytes.len() - 1);
    }

    pub fn put(&mut self, byte: u8) {
        if let Some(room) = self.bytes.get_mut(self.length) {
            *room = byte;
            self.length += 1;
        }
    }
}

impl Write for Words {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        text.bytes().for_each(|byte| self.put(byte));
        Ok(())
    }
}

/// Follows a pointer so often and reads so many bytes behind the last one. A pointer that leads nowhere
/// gives 0: the program itself may never follow it.
fn behind(mut value: u64, dereferences: usize, size: usize) -> u64 {
    for left in (0..dereferences).rev() {
        let length = if left == 0 { size.clamp(1, 8) } else { 8 };
        let mut bytes = [0u8; 8];
        if !read_memory(value as usize, &mut bytes[..length]) {
            return 0;
        }
        // Narrow numbers keep their sign.
        let shift = 64 - 8 * length as u32;
        value = ((u64::from_le_bytes(bytes) << shift) as i64 >> shift) as u64;
    }
    value
}

/// Reads memory that may not be there; whether it was.
pub fn read_memory(address: usize, bytes: &mut [u8]) -> bool {
    const PROCESS_VM_READV: usize = 310;
    let to = [bytes.as_mut_ptr() as usize, bytes.len()];
    let from = [address, bytes.len()];
    // SAFETY: the kernel writes to `bytes` only, and only what it can read.
    let read = unsafe {
        sys::call6(
            PROCESS_VM_READV,
            sys::getpid() as usize,
            &raw const to as usize,
            1,
            &raw const from as usize,
            1,
            0,
        )
    };
    read == bytes.len() as isize
}

/// The next value that the program has passed, as the field asks for it.
///
/// # Safety
/// `value` is one of the values of the site.
unsafe fn field(how: &[u8], value: *const u64) -> u64 {
    let stars = how.iter().filter(|&&byte| byte == b'*').count();
    let size = how
        .last()
        .map_or(8, |digit| usize::from(digit.wrapping_sub(b'0')));
    // SAFETY: the caller promises a value.
    behind(unsafe { *value }, stars, size)
}

/// A thread comes to a wait on a condition, or to the exit of its loop. The variables of the program may
/// not hold a condition and a mutex there yet, so both are looked at with care.
fn waits(kind: u8, condition: usize, mutex: usize, pc: usize) {
    let mut bytes = [0; 48];
    if !is_recording() || !record::started() || !read_memory(condition, &mut bytes) {
        return;
    }
    if !read_memory(mutex, &mut bytes[..40]) {
        return;
    }
    // SAFETY: both can be read, and are what the program gives to its wait.
    let (kind_of_condition, kind_of_mutex, is_held) = unsafe {
        (
            condition::kind(condition as condition::Condition),
            mutex::kind(mutex as mutex::Mutex),
            mutex::held_by_another(mutex as mutex::Mutex).is_none(),
        )
    };
    let on_mutex = Operation::new(Code::Misuse, kind_of_mutex, mutex, pc);
    match kind {
        kind::WAIT_ONCE => misused(&on_mutex, misuse::WAIT_ONCE),
        kind::TEST_UNLOCKED => misused(&on_mutex, misuse::TEST_UNLOCKED),
        _ if !is_held => misused(&on_mutex, misuse::TEST_UNLOCKED),
        _ => record::operation(
            Code::LoopExit,
            &Operation::new(
                Code::LoopExit,
                kind_of_condition | object::CONDITION,
                condition,
                pc,
            ),
        ),
    }
}

interpose! {
    // The sites of an executable or library, which has just been loaded.
    fn __norns_sites(start: *const Site, stop: *const Site) |pc| {
        if !is_off() || track::is_on() {
            let mut site = start;
            while site < stop {
                if (*site).is_wanted() {
                    (*site).on.store(1, Ordering::Relaxed);
                    if let Some(body) = (*site).body.as_ref() {
                        body.store(1, Ordering::Relaxed);
                    }
                }
                site = site.add(1);
            }
        }
    }

    // The program passes a site that is on.
    fn __norns_site(site: *const Site, count: usize, values: *const u64) |pc| {
        let site = &*site;
        if let Some(of) = site.is_tracked() {
            site.track(of, core::slice::from_raw_parts(values, count), pc);
            return;
        }
        if matches!(site.kind, kind::LOOP_EXIT | kind::WAIT_ONCE | kind::TEST_UNLOCKED) {
            let how = text(site.event.add(text(site.event).len() + 1));
            let next = text(how.as_ptr().add(how.len() + 1));
            if count == 2 {
                let (condition, mutex) = (field(how, values), field(next, values.add(1)));
                waits(site.kind, condition as usize, mutex as usize, pc);
            }
            return;
        }
        let mut words = Words::new();
        let mut next = 0;
        let mut at = site.event;
        loop {
            let word = text(at);
            if word.is_empty() {
                break;
            }
            match word.strip_prefix(b"#") {
                Some(how) if next < count => {
                    let _ = write!(words, "{}", field(how, values.add(next)) as i64);
                    next += 1;
                }
                _ => word.iter().for_each(|&byte| words.put(byte)),
            }
            words.put(0);
            at = at.add(word.len() + 1);
        }
        happens(&words.bytes[..words.length], pc);
    }
}
