//! Lifetimes of allocated blocks: which allocation an access belongs to.
//!
//! An allocator hands the same bytes out again and again. Accesses to the old and to the new block
//! are accesses to different memory: in another schedule the allocator may hand out other bytes. So
//! the bytes of every lifetime are locations of their own (`location.rs`), two accesses conflict
//! only within one lifetime, and a block is used only after it was allocated. That its bytes were
//! free when they were allocated again orders nothing.
//!
//! An access to bytes that were freed and not yet allocated again belongs to the block that was
//! there: this is how use after free and double free are seen. A use after the bytes were allocated
//! again belongs to the new block, and is seen as a race with the uses of that. In a trace whose
//! accesses are not in their true order, an access may be given to the lifetime before its own.

use std::collections::BTreeMap;

use norns_trace::{EventIndex, Op, Trace};

use crate::location::{Touch, TouchKind};

#[derive(Clone, Debug, Default)]
pub struct Lifetimes {
    /// For every event the allocation of the block that it touches; empty when the trace
    /// allocates nothing.
    blocks: Vec<Option<EventIndex>>,
}

struct Block {
    end: u64,
    allocation: EventIndex,
}

impl Lifetimes {
    pub fn of(trace: &Trace) -> Lifetimes {
        let mut lifetimes = Lifetimes::default();
        if !trace
            .events
            .iter()
            .any(|event| matches!(event.op, Op::Allocate(_)))
        {
            return lifetimes;
        }
        lifetimes.blocks = vec![None; trace.events.len()];
        let mut blocks: BTreeMap<u64, Block> = BTreeMap::new();
        for (i, event) in trace.events.iter().enumerate() {
            let Some(touch) = Touch::of(event.op) else {
                continue;
            };
            let here = EventIndex::from_index(i);
            let (start, end) = (
                touch.access.address,
                touch.access.address + u64::from(touch.access.size),
            );
            if touch.kind == TouchKind::Allocate {
                let mut gone = Vec::new();
                for (&old, block) in blocks.range(..end).rev() {
                    if block.end <= start {
                        break;
                    }
                    gone.push(old);
                }
                for old in gone {
                    blocks.remove(&old);
                }
                blocks.insert(
                    start,
                    Block {
                        end,
                        allocation: here,
                    },
                );
                lifetimes.blocks[i] = Some(here);
            } else if let Some((_, block)) = blocks.range(..=start).next_back()
                && start < block.end
            {
                lifetimes.blocks[i] = Some(block.allocation);
            }
        }
        lifetimes
    }

    /// The allocation of the block that the event touches; `None` for static memory and the like.
    pub fn block(&self, event: EventIndex) -> Option<EventIndex> {
        self.blocks.get(event.index()).copied().flatten()
    }

    /// `(later, earlier)`: orders between threads that every schedule keeps.
    pub(crate) fn orders(&self, trace: &Trace) -> Vec<(EventIndex, EventIndex)> {
        let uses = self.blocks.iter().enumerate().filter_map(|(i, block)| {
            let event = EventIndex::from_index(i);
            block
                .filter(|&allocation| allocation != event)
                .map(|allocation| (event, allocation))
        });
        let thread = |event: EventIndex| trace.events[event.index()].thread;
        uses.filter(|&(later, earlier)| thread(later) != thread(earlier))
            .collect()
    }
}
