//! Where a synchronisation object comes from, for objects that no symbol names.
//!
//! A person knows a mutex by its variable, or else by the line that made it. That is the call that
//! initialised it; for an object without one (`std::mutex`, a static initialiser in a structure on
//! the heap) the allocation of its block; for one on a thread's stack that thread. What was
//! allocated before the first thread is not in the trace: such an object is known by its first use.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::event::{Access, EventIndex, Op, PlaceId, ThreadId};
use crate::trace::{ObjectKind, Trace};

/// Where one object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub how: How,
    /// The initialisation, the allocation or the first use.
    pub event: EventIndex,
    /// Which of the objects that come from the same place this is, from 1; 0 for the only one.
    pub number: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    Initialised,
    /// It lies this many bytes into the block that the event allocates.
    InBlock {
        offset: u64,
    },
    /// It lies on the stack of this thread; the event is its first use.
    OnStack(ThreadId),
    FirstUsed,
}

/// The origin of every object without a name, by object; empty if all have one.
pub fn find(trace: &Trace) -> Vec<Option<Origin>> {
    if trace.objects.iter().all(|object| !object.name.is_empty()) {
        return Vec::new();
    }
    let mut origins = vec![None; trace.objects.len()];
    let mut memory = Memory::default();
    for (index, event) in trace.events.iter().enumerate() {
        let index = EventIndex::from_index(index);
        if let Op::Initialise(life) = event.op {
            memory.initialised.insert(life.address, index);
        } else if let Op::Destroy(life) = event.op {
            memory.initialised.remove(&life.address);
        } else if let Op::Allocate(block) = event.op {
            memory.allocate(block, index);
        } else if let Op::Free(block) = event.op {
            memory.free(block);
        }
        if let Some(id) = event.op.object()
            && trace.object(id).name.is_empty()
            && origins[id.index()].is_none()
        {
            let (how, event) = memory.origin(trace, trace.object(id).address, index);
            let number = 0;
            origins[id.index()] = Some(Origin { how, event, number });
        }
    }
    number(trace, &mut origins);
    origins
}

/// The objects and blocks that exist at a point of the trace.
#[derive(Default)]
struct Memory {
    initialised: BTreeMap<u64, EventIndex>,
    /// By address: the size and the allocation.
    blocks: BTreeMap<u64, (u32, EventIndex)>,
}

impl Memory {
    fn allocate(&mut self, block: Access, at: EventIndex) {
        self.blocks.insert(block.address, (block.size, at));
    }

    /// The objects of a block end with it.
    fn free(&mut self, block: Access) {
        if let Some((size, _)) = self.blocks.remove(&block.address) {
            let end = block.address.saturating_add(u64::from(size));
            let ended = self.initialised.range(block.address..end);
            let ended: Vec<u64> = ended.map(|(&address, _)| address).collect();
            for address in ended {
                self.initialised.remove(&address);
            }
        }
    }

    fn origin(&self, trace: &Trace, address: u64, first_use: EventIndex) -> (How, EventIndex) {
        if let Some(&at) = self.initialised.get(&address) {
            return (How::Initialised, at);
        }
        let block = self.blocks.range(..=address).next_back();
        let block = block.filter(|&(&start, &(size, _))| address - start < u64::from(size));
        let Some((&start, &(_, at))) = block else {
            return (How::FirstUsed, first_use);
        };
        let allocation = &trace.events[at.index()];
        // The runtime itself tells a thread's stack, without a place.
        if trace.place(allocation.place).pc == 0 {
            return (How::OnStack(allocation.thread), first_use);
        }
        let offset = address - start;
        (How::InBlock { offset }, at)
    }
}

/// Numbers the objects that come from the same place, in the order of their events.
fn number(trace: &Trace, origins: &mut [Option<Origin>]) {
    let mut same: FxHashMap<(PlaceId, How, ObjectKind), Vec<(EventIndex, usize)>> =
        FxHashMap::default();
    for (object, origin) in origins.iter().enumerate() {
        if let Some(origin) = origin {
            let place = trace.events[origin.event.index()].place;
            let kind = trace.objects[object].kind;
            let all = same.entry((place, origin.how, kind)).or_default();
            all.push((origin.event, object));
        }
    }
    for mut all in same.into_values().filter(|all| all.len() > 1) {
        all.sort_unstable();
        for (number, (_, object)) in (1..).zip(all) {
            if let Some(origin) = &mut origins[object] {
                origin.number = number;
            }
        }
    }
}
