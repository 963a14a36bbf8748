//! Whether reads saw what the writes before them left there, in a recording with values.
//!
//! A read that differs saw a write that is not in the trace: by code that is not instrumented, by
//! the kernel, or by a thread that ran outside its turn. The bytes that were written or read are kept
//! in pages, so memory grows with what the program shares and not with the trace.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::effect::{Touch, TouchKind};
use crate::event::{Access, Event, Op, PlaceId, ThreadId};
use crate::item::{AccessValue, Item};

const PAGE: u64 = 1024;
const UNKNOWN: u16 = u16::MAX;

#[derive(Default)]
pub struct ValueCheck {
    /// The bytes that are known; `UNKNOWN` for the others.
    pages: FxHashMap<u64, Box<[u16; PAGE as usize]>>,
    /// Stacks of threads, by address: what is on them is mostly not instrumented.
    stacks: BTreeMap<u64, u64>,
    /// The thread of the last event, if it was a `Start`: a block that it allocates next is its stack.
    begins: Option<ThreadId>,
    /// Source lines of places.
    places: Vec<String>,
    pub reads: u64,
    /// Reads that differ, on stacks and elsewhere.
    pub differ_on_stacks: u64,
    pub differ: u64,
    /// Where the first one outside of stacks is.
    first: Option<PlaceId>,
}

impl ValueCheck {
    pub fn push(&mut self, item: &Item) {
        if let Item::Place(place) = item {
            let frame = place.frames.first();
            let unknown = || format!("{:#x}", place.pc);
            self.places
                .push(frame.map_or_else(unknown, |frame| format!("{}:{}", frame.file, frame.line)));
        }
        let Item::Event(event, value) = item else {
            return;
        };
        let begins = self.begins.take();
        if event.op == Op::Start {
            self.begins = Some(event.thread);
        }
        let Some(Touch {
            access,
            writes,
            kind,
            ..
        }) = Touch::of(event.op)
        else {
            return;
        };
        match kind {
            TouchKind::Use | TouchKind::Destroy | TouchKind::Initialise => {}
            TouchKind::Allocate | TouchKind::Free => {
                if kind == TouchKind::Allocate && begins == Some(event.thread) {
                    let end = access.address + u64::from(access.size);
                    self.stacks.insert(access.address, end);
                }
                self.forget(access);
            }
            TouchKind::Plain | TouchKind::Atomic => match value {
                Some(value) => self.access(event, access.address, value),
                // The memory was written with an unknown value.
                None if writes && kind == TouchKind::Plain => self.forget(access),
                None => {}
            },
        }
    }

    /// The source line of the first read outside of stacks that differs.
    pub fn first(&self) -> Option<&str> {
        self.places.get(self.first?.index()).map(String::as_str)
    }

    pub fn counters(&self) -> [(&'static str, u64); 3] {
        [
            ("reads-with-values", self.reads),
            ("reads-that-differ", self.differ),
            ("reads-that-differ-on-stacks", self.differ_on_stacks),
        ]
    }

    fn access(&mut self, event: &Event, address: u64, value: &AccessValue) {
        if !value.read.is_empty() {
            self.reads += 1;
            let mut differs = false;
            for (at, &byte) in (address..).zip(&value.read) {
                let known = self.byte(at);
                differs |= *known != UNKNOWN && *known != u16::from(byte);
                *known = u16::from(byte);
            }
            if differs && self.is_on_stack(address) {
                self.differ_on_stacks += 1;
            } else if differs {
                self.differ += 1;
                self.first.get_or_insert(event.place);
            }
        }
        for (at, &byte) in (address..).zip(&value.written) {
            *self.byte(at) = u16::from(byte);
        }
    }

    /// Whether the address is on the stack of a thread: one that the trace has, or that of the
    /// main thread, which is the highest memory of the process.
    fn is_on_stack(&self, address: u64) -> bool {
        const MAIN: u64 = 0x7fff_0000_0000;
        let below = self.stacks.range(..=address).next_back();
        address >= MAIN || below.is_some_and(|(_, &end)| address < end)
    }

    fn byte(&mut self, address: u64) -> &mut u16 {
        let page = self.pages.entry(address / PAGE);
        let page = page.or_insert_with(|| Box::new([UNKNOWN; PAGE as usize]));
        &mut page[(address % PAGE) as usize]
    }

    fn forget(&mut self, block: Access) {
        let end = block.address + u64::from(block.size);
        let (first, last) = (block.address / PAGE, (end - 1) / PAGE);
        let whole = first + 1..last;
        if last - first > self.pages.len() as u64 {
            self.pages.retain(|page, _| !whole.contains(page));
        } else {
            whole.for_each(|page| {
                self.pages.remove(&page);
            });
        }
        for page in [first, last] {
            if let Some(bytes) = self.pages.get_mut(&page) {
                let start = page * PAGE;
                let from = block.address.max(start) - start;
                let to = end.min(start + PAGE) - start;
                bytes[from as usize..to as usize].fill(UNKNOWN);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Parser;

    /// Reads a trace in text form; gives reads, those that differ elsewhere and on stacks.
    fn check(lines: &str, found: [u64; 3]) {
        let text = format!("norns-trace 1\ninfo accesses ordered\nthread T0\nplace 0x1\n{lines}");
        let mut parser = Parser::default();
        let mut check = ValueCheck::default();
        for line in text.lines() {
            if let Some(item) = parser.parse(line.trim()).expect("a line of a trace") {
                check.push(&item);
            }
        }
        assert_eq!([check.reads, check.differ, check.differ_on_stacks], found);
    }

    #[test]
    fn a_read_agrees_with_the_last_write() {
        check(
            "T0 write 0x1000 4 @0 r= w=01020304
             T0 read 0x1002 2 @0 r=0304 w=",
            [1, 0, 0],
        );
    }

    #[test]
    fn a_read_that_differs_is_counted_once() {
        check(
            "T0 write 0x1000 4 @0 r= w=01020304
             T0 read 0x1000 4 @0 r=01020305 w=
             T0 read 0x1003 1 @0 r=05 w=",
            [2, 1, 0],
        );
    }

    #[test]
    fn memory_that_is_given_out_again_is_other_memory() {
        check(
            "T0 write 0x1000 4 @0 r= w=01020304
             T0 allocate 0x1002 8192 @0
             T0 read 0x1000 4 @0 r=01029999 w=
             T0 free 0x1000 2 @0
             T0 read 0x1000 2 @0 r=7777 w=",
            [2, 0, 0],
        );
    }

    #[test]
    fn stacks_are_counted_apart() {
        check(
            "T0 start @0
             T0 allocate 0x100000 1048576 @0
             T0 write 0x100010 1 @0 r= w=01
             T0 read 0x100010 1 @0 r=02 w=",
            [1, 0, 1],
        );
    }
}
