//! Stacks of the program, as return addresses. Production code has no frame pointers, and its unwind tables are too
//! much for a hook, so the stack is searched for words that follow a call in mapped code. A frame that has returned
//! can have left one behind: the first address is right, the others are likely.

use crate::lock::Lock;
use crate::sites::read_memory;
use crate::sys;
use crate::wire::guarding::{FRAMES, MAPS, Shared, Stack};

/// How much of the stack is searched.
const WORDS: usize = 1024;
const CHUNK: usize = 64;
const RANGES: usize = 256;

/// What is mapped of files.
struct Maps {
    /// Ranges of code.
    ranges: [(usize, usize); RANGES],
    count: usize,
    text: [u8; MAPS],
    length: usize,
    /// Whether there is code that this runtime does not know to order nothing by itself.
    foreign: bool,
}

static MAPPED: Lock<Maps> = Lock::new(Maps {
    ranges: [(0, 0); RANGES],
    count: 0,
    text: [0; MAPS],
    length: 0,
    foreign: false,
});

/// Libraries whose synchronisation is interposed, or that have none.
const KNOWN: [&[u8]; 12] = [
    b"libc.so",
    b"libc-",
    b"ld-linux",
    b"libm.so",
    b"libm-",
    b"libpthread",
    b"libdl",
    b"librt",
    b"libstdc++",
    b"libgcc_s",
    b"libnorns_rt",
    b"libz.so",
];

/// Reads what is mapped, and tells the agent. `is_guarded` says whether a range has code with sites.
pub fn read_maps(shared: Shared, is_guarded: impl Fn(usize, usize) -> bool) {
    MAPPED.with(|maps| {
        maps.read(is_guarded);
        shared.keep_maps(&maps.text[..maps.length]);
    });
}

/// In the child process after a fork.
pub fn forget() {
    MAPPED.force(|_| {});
}

/// Whether there is code that may order threads unseen.
pub fn has_foreign_code() -> bool {
    MAPPED.with(|maps| maps.foreign)
}

impl Maps {
    fn read(&mut self, is_guarded: impl Fn(usize, usize) -> bool) {
        (self.count, self.length, self.foreign) = (0, 0, false);
        let file = sys::open(b"/proc/self/maps\0", 0);
        if file < 0 {
            self.foreign = true;
            return;
        }
        let mut line = [0u8; 512];
        let mut length = 0;
        let mut buffer = [0u8; 512];
        loop {
            let got = sys::read(file, &mut buffer);
            if got <= 0 {
                break;
            }
            for &byte in &buffer[..got as usize] {
                if byte == b'\n' {
                    self.add(&line[..length], &is_guarded);
                    length = 0;
                } else if let Some(room) = line.get_mut(length) {
                    *room = byte;
                    length += 1;
                }
            }
        }
        sys::close(file);
    }

    /// A line: `from-to rwxp offset device inode path`.
    fn add(&mut self, line: &[u8], is_guarded: &impl Fn(usize, usize) -> bool) {
        let Some(slash) = line.iter().position(|byte| *byte == b'/') else {
            return;
        };
        let space = line.iter().position(|byte| *byte == b' ').unwrap_or(0);
        let is_code = line.get(space + 3) == Some(&b'x');
        for &byte in line.iter().chain(b"\n") {
            if let Some(room) = self.text.get_mut(self.length) {
                *room = byte;
                self.length += 1;
            }
        }
        if !is_code {
            return;
        }
        let mut bounds = line[..space].split(|byte| *byte == b'-').map(hexadecimal);
        let (from, to) = (bounds.next().unwrap_or(0), bounds.next().unwrap_or(0));
        if let Some(room) = self.ranges.get_mut(self.count) {
            *room = (from, to);
            self.count += 1;
        }
        let path = &line[slash..];
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        // Byte by byte: what compares slices is interposed.
        let begins =
            |known: &[u8]| name.len() >= known.len() && name.iter().zip(known).all(|(a, b)| a == b);
        let is_known = KNOWN.iter().any(|known| begins(known));
        self.foreign |= !is_known && !is_guarded(from, to);
    }

    fn is_code(&self, address: usize) -> bool {
        let ranges = &self.ranges[..self.count];
        ranges
            .iter()
            .any(|(from, to)| (*from..*to).contains(&address))
    }
}

fn hexadecimal(digits: &[u8]) -> usize {
    let digit = |digit: &u8| (*digit as char).to_digit(16).unwrap_or(0) as usize;
    digits.iter().fold(0, |number, it| number << 4 | digit(it))
}

/// The stack of a call that returns to `pc`, with the stack pointer behind it.
pub fn of(pc: usize, stack_pointer: usize) -> Stack {
    let mut stack = Stack::EMPTY;
    stack.push(pc as u64);
    MAPPED.with(|maps| search(maps, stack_pointer & !7, &mut stack));
    stack
}

fn search(maps: &Maps, from: usize, stack: &mut Stack) {
    let mut bytes = [0u8; 8 * CHUNK];
    for chunk in 0..WORDS / CHUNK {
        // The end of the stack is within a page, so whole pages are read at a time.
        let at = from + 8 * CHUNK * chunk;
        let in_page = (4096 - at % 4096).min(bytes.len());
        let read = match read_memory(at, &mut bytes) {
            true => bytes.len(),
            false if read_memory(at, &mut bytes[..in_page]) => in_page,
            false => return,
        };
        for word in bytes[..read].as_chunks::<8>().0 {
            let word = usize::from_ne_bytes(*word);
            if maps.is_code(word) && follows_call(word) {
                stack.push(word as u64);
            }
            if stack.frames().len() == FRAMES {
                return;
            }
        }
        if read < bytes.len() {
            return;
        }
    }
}

/// Whether the instruction before this address is a call.
fn follows_call(address: usize) -> bool {
    let mut before = [0u8; 8];
    read_memory(address - 8, &mut before) && is_call(&before)
}

/// Whether the last of these bytes end a call: of a relative address, or through a register or memory.
fn is_call(bytes: &[u8; 8]) -> bool {
    let at = |back: usize| bytes[8 - back];
    let is_indirect = |back: usize, displacement: usize, has_index: bool| {
        let (opcode, operand) = (at(back), at(back - 1));
        let (mode, register, base) = (operand >> 6, operand >> 3 & 7, operand & 7);
        let needed = match mode {
            0 if base == 5 => 4,
            0 | 3 => 0,
            1 => 1,
            _ => 4,
        };
        let needs_index = mode != 3 && base == 4;
        opcode == 0xff && register == 2 && needed == displacement && needs_index == has_index
    };
    at(5) == 0xe8
        || is_indirect(2, 0, false)
        || is_indirect(3, 1, false)
        || is_indirect(3, 0, true)
        || is_indirect(4, 1, true)
        || is_indirect(6, 4, false)
        || is_indirect(7, 4, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_by_their_last_bytes() {
        let ends_with = |call: &[u8]| {
            let mut bytes = [0x90; 8];
            bytes[8 - call.len()..].copy_from_slice(call);
            is_call(&bytes)
        };
        assert!(ends_with(&[0xe8, 1, 2, 3, 4]));
        assert!(ends_with(&[0xff, 0xd0]), "call rax");
        assert!(ends_with(&[0x41, 0xff, 0xd2]), "call r10");
        assert!(ends_with(&[0xff, 0x15, 1, 2, 3, 4]), "call [rip + n]");
        assert!(ends_with(&[0xff, 0x50, 0x18]), "call [rax + n]");
        assert!(ends_with(&[0xff, 0x14, 0xc8]), "call [rax + 8 * rcx]");
        assert!(ends_with(&[0xff, 0x94, 0xc8, 1, 2, 3, 4]));
        assert!(!ends_with(&[0xff, 0xe0]), "jmp rax");
        assert!(!ends_with(&[0x48, 0x89, 0xe5]));
        assert!(!ends_with(&[0xff, 0x10, 0x90]));
    }

    #[test]
    fn ranges_and_foreign_libraries_are_read_from_lines() {
        let mut maps = Maps {
            ranges: [(0, 0); RANGES],
            count: 0,
            text: [0; MAPS],
            length: 0,
            foreign: false,
        };
        let own = |from: usize, _| from == 0x5555_0000;
        maps.add(b"55550000-55551000 r-xp 0 08:01 42  /a b/program", &own);
        maps.add(b"7f000000-7f001000 r-xp 0 08:01 43  /lib/libc.so.6", &own);
        maps.add(b"7fff0000-7fff1000 rw-p 0 00:00 0  [stack]", &own);
        assert!(!maps.foreign);
        assert!(maps.is_code(0x5555_0fff) && !maps.is_code(0x5555_1000));
        maps.add(b"7e000000-7e001000 r-xp 0 08:01 44  /lib/libuv.so.1", &own);
        assert!(maps.foreign);
        assert_eq!(maps.text[..maps.length].split(|it| *it == b'\n').count(), 4);
    }
}
