//! What the runtime tells the process that started it: lines of a file, each written at once.
//!
//! The messages and their form are those of `wire::report`. The file is named by `NORNS_REPORT`;
//! without it the messages go nowhere.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicI32, Ordering};

use crate::sys;
use crate::wire::report::Message;

static FILE: AtomicI32 = AtomicI32::new(-1);

/// Whether programs that this one starts, or becomes by `exec`, may write to the same file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    Append,
    /// Another program gets a file of its own, since its program counters are those of other code. A
    /// dot and the process id are added to the name.
    OwnFile,
}

/// Opens the file; `path` has no terminating zero.
pub fn open(path: &[u8], sharing: Sharing) {
    const ROOM_FOR_ID: usize = 16;
    let mut name = [0u8; 4096];
    if path.len() + ROOM_FOR_ID >= name.len() {
        return;
    }
    for (to, from) in name.iter_mut().zip(path) {
        *to = *from;
    }
    const WRITE_CREATE_APPEND_CLOEXEC: usize = 0o1 | 0o100 | 0o2000 | 0o2000000;
    let mut file = sys::open(&name[..=path.len()], WRITE_CREATE_APPEND_CLOEXEC);
    const END: usize = 2;
    // SAFETY: no effect on memory.
    let is_used = || unsafe { sys::call(sys::LSEEK, file as usize, 0, END) } > 0;
    if sharing == Sharing::OwnFile && is_used() {
        sys::close(file);
        let mut line = Line::new();
        let _ = write!(line, ".{}", sys::getpid());
        for (to, from) in name[path.len()..]
            .iter_mut()
            .zip(&line.bytes[..line.length])
        {
            *to = *from;
        }
        let length = path.len() + line.length;
        file = sys::open(&name[..=length], WRITE_CREATE_APPEND_CLOEXEC);
    }
    FILE.store(sys::high_descriptor(file), Ordering::Relaxed);
}

/// Reports the lines of `/proc/self/maps`, which a reader needs to symbolise program counters.
pub fn tell_maps() {
    let file = sys::open(b"/proc/self/maps\0", 0);
    if file < 0 {
        return;
    }
    let mut map = [0u8; 4096];
    let mut length = 0;
    let mut buffer = [0u8; 1024];
    loop {
        let got = sys::read(file, &mut buffer);
        if got <= 0 {
            break;
        }
        for byte in &buffer[..got as usize] {
            if *byte == b'\n' {
                tell(Message::Map(&map[..length]));
                length = 0;
            } else if length < map.len() {
                map[length] = *byte;
                length += 1;
            }
        }
    }
    sys::close(file);
}

/// A line that is being built; what does not fit is cut off.
pub struct Line {
    bytes: [u8; 4096],
    length: usize,
}

impl Line {
    pub fn new() -> Self {
        Self {
            bytes: [0; 4096],
            length: 0,
        }
    }

    pub fn send(mut self) {
        let end = self.length.min(self.bytes.len() - 1);
        self.bytes[end] = b'\n';
        send(&self.bytes[..=end]);
    }
}

/// Writes whole lines.
pub fn send(lines: &[u8]) {
    let file = FILE.load(Ordering::Relaxed);
    if file >= 0 {
        sys::write(file, lines);
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.length < self.bytes.len() - 1 {
                self.bytes[self.length] = byte;
                self.length += 1;
            }
        }
        Ok(())
    }
}

/// Writes one message of the report. Not inlined: the line needs a page of stack.
#[cold]
#[inline(never)]
pub fn tell(message: Message) {
    let mut line = Line::new();
    let _ = message.encode(&mut line);
    line.send();
}
