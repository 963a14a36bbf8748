//! Sites: points of the program at which it emits an event, put there by the plug-in of
//! `norns-instrument`, whose header defines the record of a site and the text of its event.
//!
//! They sleep while nothing is observed: the program then only tests a byte where it passes one.

use core::ffi::c_char;
use core::fmt::Write;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::control;
use crate::interpose;
use crate::mode::{is_controlled, is_off, is_recording, text};
use crate::record;
use crate::sys;

#[repr(C)]
pub struct Site {
    on: AtomicU8,
    kind: u8,
    unused: u16,
    line: u32,
    file: *const c_char,
    event: *const u8,
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
struct Words {
    bytes: [u8; 512],
    length: usize,
}

impl Words {
    fn put(&mut self, byte: u8) {
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
    const PROCESS_VM_READV: usize = 310;
    for left in (0..dereferences).rev() {
        let length = if left == 0 { size.clamp(1, 8) } else { 8 };
        let mut bytes = [0u8; 8];
        let to = [&raw mut bytes as usize, length];
        let from = [value as usize, length];
        // SAFETY: the kernel writes at most eight bytes to `bytes`, and only if it can read them.
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
        if read != length as isize {
            return 0;
        }
        // Narrow numbers keep their sign.
        let shift = 64 - 8 * length as u32;
        value = ((u64::from_le_bytes(bytes) << shift) as i64 >> shift) as u64;
    }
    value
}

interpose! {
    // The sites of an executable or library, which has just been loaded.
    fn __norns_sites(start: *const Site, stop: *const Site) |pc| {
        if !is_off() {
            let mut site = start;
            while site < stop {
                (*site).on.store(1, Ordering::Relaxed);
                site = site.add(1);
            }
        }
    }

    // The program passes a site that is on.
    fn __norns_site(site: *const Site, count: usize, values: *const u64) |pc| {
        let mut words = Words { bytes: [0; 512], length: 0 };
        let mut next = 0;
        let mut at = (*site).event;
        loop {
            let word = text(at);
            if word.is_empty() {
                break;
            }
            match word.strip_prefix(b"#") {
                Some(how) if next < count => {
                    let stars = how.iter().filter(|&&byte| byte == b'*').count();
                    let size = how.last().map_or(8, |digit| usize::from(digit.wrapping_sub(b'0')));
                    let _ = write!(words, "{}", behind(*values.add(next), stars, size) as i64);
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
