//! What a trace says before any schedule.

use std::collections::{BTreeMap, HashMap};

use norns_trace::{Access, AtomicKind, ObjectId, Op};

use super::{Checker, NOBODY};

/// The bytes that an operation accesses, whether it reads them and whether it writes them.
pub(super) fn memory(op: Op) -> Option<(Access, bool, bool)> {
    match op {
        Op::Read(a) | Op::Use(a) => Some((a, true, false)),
        Op::Write(a) | Op::Free(a) | Op::Allocate(a) | Op::Destroy(a) | Op::Initialise(a) => {
            Some((a, false, true))
        }
        Op::Atomic {
            address,
            size,
            kind,
            ..
        } => {
            let access = Access {
                address,
                size: size.into(),
            };
            let reads = kind != AtomicKind::Store;
            let writes = matches!(kind, AtomicKind::Store | AtomicKind::ReadModifyWrite);
            Some((access, reads, writes))
        }
        Op::Start
        | Op::End
        | Op::Fork(_)
        | Op::Join(_)
        | Op::FailedJoin(_)
        | Op::Detach(_)
        | Op::Lock(_)
        | Op::FailedLock(_)
        | Op::ReadLock(_)
        | Op::FailedReadLock(_)
        | Op::Unlock(_)
        | Op::OnceBegin(_)
        | Op::OnceEnd(_)
        | Op::OncePass(_)
        | Op::Wait(_)
        | Op::FailedWait(_)
        | Op::Signal(_)
        | Op::Broadcast(_)
        | Op::BarrierInit { .. }
        | Op::BarrierEnter(_)
        | Op::BarrierExit(_)
        | Op::SemInit { .. }
        | Op::SemWait(_)
        | Op::FailedSemWait(_)
        | Op::SemPost(_)
        | Op::Take(_)
        | Op::FailedTake(_)
        | Op::Give(_)
        | Op::Misuse { .. }
        | Op::LoopExit(_)
        | Op::Send(_)
        | Op::Receive(_)
        | Op::Fence(_)
        | Op::Enter
        | Op::Leave
        | Op::Custom(_) => None,
    }
}

impl Checker<'_> {
    /// The count of every barrier and the first value of every semaphore: the smallest that the
    /// trace needs, unless it has the initialisation.
    pub(super) fn gather_numbers(&mut self) {
        let mut balance: HashMap<ObjectId, (i64, i64)> = HashMap::new();
        for event in &self.trace.events {
            let (object, change) =
                if let Op::BarrierEnter(o) | Op::SemWait(o) | Op::Take(o) = event.op {
                    (o, 1)
                } else if let Op::BarrierExit(o) | Op::SemPost(o) | Op::Give(o) = event.op {
                    (o, -1)
                } else {
                    continue;
                };
            let (level, most) = balance.entry(object).or_default();
            *level += change;
            *most = (*most).max(*level);
        }
        for (object, (_, most)) in balance {
            self.barrier_size.insert(object, most as usize);
            self.semaphore_start.insert(object, most);
        }
        for event in &self.trace.events {
            if let Op::BarrierInit { barrier, count } = event.op {
                self.barrier_size.insert(barrier, count as usize);
            } else if let Op::SemInit { sem, value } = event.op {
                self.semaphore_start.insert(sem, i64::from(value));
            }
        }
    }

    /// A wait is explained by a broadcast while it slept, or by a signal while it slept that
    /// explains no wait that ended earlier.
    pub(super) fn gather_waits(&mut self) {
        let mut asleep: BTreeMap<usize, (ObjectId, bool)> = BTreeMap::new();
        for (i, event) in self.trace.events.iter().enumerate() {
            if let Op::Unlock(_) = event.op {
                let line = &self.lines[event.thread.index()];
                let at = line.partition_point(|&other| other <= i);
                if let Some(&after) = line.get(at)
                    && let Op::Wait(condition) = self.op(after)
                {
                    asleep.insert(after, (condition, false));
                }
            } else if let Op::Signal(c) = event.op {
                let first = asleep.values_mut().find(|wait| **wait == (c, false));
                if let Some(wait) = first {
                    wait.1 = true;
                }
            } else if let Op::Broadcast(c) = event.op {
                for wait in asleep.values_mut().filter(|wait| wait.0 == c) {
                    wait.1 = true;
                }
            } else if let Op::Wait(_) = event.op
                && !asleep.remove(&i).is_some_and(|wait| wait.1)
            {
                self.unexplained.insert(i);
            }
        }
    }

    /// Which allocation each access belongs to.
    pub(super) fn gather_blocks(&mut self) {
        // First byte of every block that is or was there: its end and allocation.
        let mut blocks: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        for (i, event) in self.trace.events.iter().enumerate() {
            let Some((access, ..)) = memory(event.op) else {
                continue;
            };
            let (start, end) = (access.address, access.address + u64::from(access.size));
            if let Op::Allocate(_) = event.op {
                let overlapping: Vec<u64> = blocks
                    .range(..end)
                    .rev()
                    .take_while(|(_, block)| block.0 > start)
                    .map(|(&first, _)| first)
                    .collect();
                for first in overlapping {
                    blocks.remove(&first);
                }
                blocks.insert(start, (end, i));
            } else if let Some((_, block)) = blocks.range(..=start).next_back()
                && block.0 > start
            {
                self.allocation[i] = block.1 as u32;
            }
        }
    }

    /// On which channels each thread sent, and when.
    pub(super) fn gather_sends(&mut self) {
        for (i, event) in self.trace.events.iter().enumerate() {
            if let Op::Send(channel) = event.op {
                let by_thread = self.sends.entry(channel).or_default();
                by_thread.entry(event.thread).or_default().push(i);
            }
        }
    }

    /// Which write every read saw, cell by cell.
    pub(super) fn gather_reads(&mut self) {
        let block = |i: usize, op: Op| {
            if let Op::Allocate(_) = op {
                i as u32
            } else {
                self.allocation[i]
            }
        };
        let mut cells = Vec::new();
        for (i, event) in self.trace.events.iter().enumerate() {
            if let Some((a, ..)) = memory(event.op) {
                let block = block(i, event.op);
                cells.push((block, a.address));
                cells.push((block, a.address + u64::from(a.size)));
            }
        }
        cells.sort_unstable();
        cells.dedup();
        let at = |first| cells.partition_point(|&cell| cell < first) as u32;
        let mut last = vec![NOBODY; cells.len()];
        for (i, event) in self.trace.events.iter().enumerate() {
            self.saw_from.push(self.saw.len() as u32);
            let Some((access, reads, writes)) = memory(event.op) else {
                self.cells_of.push((0, 0));
                continue;
            };
            let (block, end) = (block(i, event.op), access.address + u64::from(access.size));
            let (from, to) = (at((block, access.address)), at((block, end)));
            self.cells_of.push((from, to));
            let range = from as usize..to as usize;
            if reads {
                self.saw.extend(&last[range.clone()]);
            }
            if writes {
                last[range].fill(i as u32);
            }
        }
        self.cells = cells.len();
    }
}
