//! Accesses to memory that are more than a read or write of the last value: atomic ones, those under a
//! memory model, those before which another thread may be chosen.

use std::rc::Rc;

use norns_ir::AtomicOrder;

use super::execute::updated;
use super::{Machine, Pause, Stop, give_up};
use crate::how::MemoryModel;
use crate::memory::{Region, object_of};
use crate::op::Op;
use crate::outcome::Decision;
use crate::state::Buffered;

/// The object that sequentially consistent fences synchronise through: no address of the program.
const FENCES: u64 = 1;

fn acquires(order: AtomicOrder) -> bool {
    matches!(
        order,
        AtomicOrder::Acquire | AtomicOrder::AcquireRelease | AtomicOrder::SequentiallyConsistent
    )
}

fn releases(order: AtomicOrder) -> bool {
    matches!(
        order,
        AtomicOrder::Release | AtomicOrder::AcquireRelease | AtomicOrder::SequentiallyConsistent
    )
}

impl Machine<'_> {
    /// Executes a load, store or atomic operation. `None` if the thread goes on.
    pub(super) fn access(&mut self, op: Op) -> Result<Option<Pause>, Stop> {
        let (address, bytes, is_write) = match op {
            Op::Load { address, bytes, .. } | Op::AtomicLoad { address, bytes, .. } => {
                (self.get(address), bytes, false)
            }
            Op::Store { address, bytes, .. }
            | Op::AtomicStore { address, bytes, .. }
            | Op::Update { address, bytes, .. }
            | Op::CompareExchange { address, bytes, .. } => (self.get(address), bytes, true),
            Op::Fence(order) => {
                self.fence(order)?;
                self.advance_pc();
                return Ok(None);
            }
            _ => return give_up("an operation that is no access"),
        };
        // A wrong address is an error wherever the thread is stopped.
        if let Err(mut error) = self.state.memory.bytes(address, u64::from(bytes)) {
            error.is_write = is_write;
            return Err(error.into());
        }
        let is_shared = self.is_shared(address);
        if self.marks.is_some() && self.is_held(address, u64::from(bytes), Some(is_write)) {
            return Ok(Some(Pause::Blocked));
        }
        if self.explores && is_shared && !self.may_access && !self.is_alone() {
            return Ok(Some(Pause::Yield));
        }
        let is_ordinary = match self.how.memory {
            MemoryModel::SequentiallyConsistent => true,
            MemoryModel::Tso => !is_shared || self.is_alone(),
            // What an ended thread wrote is visible to who joins it.
            MemoryModel::Weak => !is_shared || self.state.threads.len() == 1,
        };
        let candidates = match op {
            Op::Load { .. } | Op::AtomicLoad { .. }
                if !is_ordinary && self.how.memory == MemoryModel::Weak =>
            {
                self.readable(op, address, bytes)
            }
            _ => Vec::new(),
        };
        if candidates.len() > 1 && self.chosen.is_none() {
            return Ok(Some(Pause::Value(candidates)));
        }
        self.may_access = false;
        let followed = self.follow_address(op, address, bytes);
        match op {
            Op::Load { is_strict, d, .. } => {
                let value = match is_ordinary {
                    true if is_strict => self.state.memory.load_strict(address, bytes)?,
                    true => self.state.memory.load(address, bytes)?,
                    false => self.read(address, bytes, AtomicOrder::Relaxed, false, &candidates)?,
                };
                self.set(d, value);
            }
            Op::AtomicLoad { order, d, .. } => {
                let value = match is_ordinary {
                    true => self.state.memory.load(address, bytes)?,
                    false => self.read(address, bytes, order, true, &candidates)?,
                };
                self.set(d, value);
            }
            Op::Store { value, .. } => {
                let value = self.get(value);
                self.let_escape(value);
                self.write(address, bytes, value, None)?;
            }
            Op::AtomicStore { order, value, .. } => {
                let value = self.get(value);
                self.let_escape(value);
                self.write(address, bytes, value, Some(order))?;
            }
            Op::Update {
                update,
                order,
                d,
                value,
                ..
            } => {
                let value = self.get(value);
                self.let_escape(value);
                let old = self.begin_update(address, bytes, order)?;
                let Some(new) = updated(update, old, value, bytes) else {
                    return give_up("a rare atomic update");
                };
                self.end_update(address, bytes, (old, new), order)?;
                self.set(d, old);
            }
            Op::CompareExchange {
                order,
                d,
                expected,
                new,
                ..
            } => {
                let (expected, new) = (self.get(expected), self.get(new));
                self.let_escape(new);
                let old = self.begin_update(address, bytes, order)?;
                if old == expected {
                    self.end_update(address, bytes, (old, new), order)?;
                }
                self.set(d, old);
                self.set(d + 1, u64::from(old == expected));
            }
            _ => {}
        }
        if followed {
            self.follow_access(op, address, bytes);
        }
        self.advance_pc();
        // Without preemption elsewhere, an atomic operation is where threads take turns.
        let is_plain = matches!(op, Op::Load { .. } | Op::Store { .. });
        match is_plain || self.switches_anywhere() || self.explores {
            true => Ok(None),
            false => Ok(Some(Pause::Yield)),
        }
    }

    /// Whether other threads can know an address.
    fn is_shared(&self, address: u64) -> bool {
        let current = self.state.current as u32;
        match self
            .state
            .memory
            .object(object_of(address))
            .map(|object| &object.region)
        {
            Some(Region::Stack(owner)) => {
                *owner != current || self.state.escaped.contains(&object_of(address))
            }
            Some(Region::Constant(_) | Region::ThreadLocal | Region::Foreign) | None => false,
            Some(
                Region::Global(_)
                | Region::Heap
                | Region::Mapped
                | Region::Unknown(_)
                | Region::Library,
            ) => true,
        }
    }

    /// Other threads may find what is stored or passed to them: if it is the address of a local variable, they
    /// may access that.
    pub(super) fn let_escape(&mut self, value: u64) {
        let id = object_of(value);
        let object = self.state.memory.object(id);
        if self.explores
            && object.is_some_and(|object| matches!(object.region, Region::Stack(_)))
            && !self.state.escaped.contains(&id)
        {
            Rc::make_mut(&mut self.state.escaped).insert(id);
        }
    }

    /// The writes that a load may return under the weak model.
    fn readable(&self, op: Op, address: u64, bytes: u8) -> Vec<crate::weak::Candidate> {
        let thread = &self.state.threads[self.state.current];
        let mut found =
            self.state
                .histories
                .candidates(address, bytes, &thread.clock, &thread.view);
        if let Op::AtomicLoad {
            order: AtomicOrder::SequentiallyConsistent,
            ..
        } = op
        {
            found.retain(|candidate| candidate.is_newest);
        }
        // Two writes of the same value are one answer, unless they release different things.
        let mut seen = Vec::new();
        found.retain(|candidate| {
            let is_new =
                candidate.written.releases.is_some() || !seen.contains(&candidate.written.value);
            seen.push(candidate.written.value);
            is_new
        });
        found
    }

    fn read(
        &mut self,
        address: u64,
        bytes: u8,
        order: AtomicOrder,
        is_atomic: bool,
        candidates: &[crate::weak::Candidate],
    ) -> Result<u64, Stop> {
        let current = self.state.current;
        if self.how.memory == MemoryModel::Tso {
            return self.read_buffered(address, bytes);
        }
        let chosen = self.chosen.take().or_else(|| candidates.first().cloned());
        let Some(candidate) = chosen else {
            return Ok(self.state.memory.load(address, bytes)?);
        };
        if !candidate.is_newest {
            let place = self.current_place();
            let written_at = candidate.written.place.map(|id| self.place(id));
            self.decisions.push(Decision::ReadOld {
                thread: current,
                place,
                value: candidate.written.value,
                written_at,
            });
        }
        let thread = &mut self.state.threads[current];
        thread.view.note(address, &candidate);
        if let Some(released) = &candidate.written.releases
            && is_atomic
        {
            match acquires(order) {
                true => thread.clock.join(released),
                false => thread.view.pending.join(released),
            }
        }
        Ok(candidate.written.value)
    }

    /// A read under total store order: the thread's own buffer comes before memory.
    fn read_buffered(&mut self, address: u64, bytes: u8) -> Result<u64, Stop> {
        let current = self.state.current;
        let end = address + u64::from(bytes);
        let overlaps = |store: &&Buffered| {
            store.address < end && address < store.address + u64::from(store.bytes)
        };
        let newest = self.state.threads[current]
            .buffer
            .iter()
            .rev()
            .find(overlaps)
            .copied();
        match newest {
            Some(store) if store.address == address && store.bytes == bytes => Ok(store.value),
            Some(_) => {
                self.drain_buffer(current)?;
                Ok(self.state.memory.load(address, bytes)?)
            }
            None => {
                let value = self.state.memory.load(address, bytes)?;
                let others = { self.state.threads.iter().enumerate() }
                    .filter(|(thread, _)| *thread != current)
                    .flat_map(|(_, thread)| &thread.buffer);
                if others.into_iter().any(|store| overlaps(&store)) {
                    let place = self.current_place();
                    self.decisions.push(Decision::ReadOld {
                        thread: current,
                        place,
                        value,
                        written_at: None,
                    });
                }
                Ok(value)
            }
        }
    }

    fn write(
        &mut self,
        address: u64,
        bytes: u8,
        value: u64,
        order: Option<AtomicOrder>,
    ) -> Result<(), Stop> {
        let current = self.state.current;
        let is_ordinary = !self.is_shared(address) || self.is_alone();
        match self.how.memory {
            MemoryModel::Tso if !is_ordinary => {
                let place = self.place_id();
                self.check_writable(address, bytes)?;
                let thread = &mut self.state.threads[current];
                thread.buffer.push_back(Buffered {
                    address,
                    bytes,
                    value,
                    place,
                });
                if order == Some(AtomicOrder::SequentiallyConsistent) {
                    self.drain_buffer(current)?;
                }
                Ok(())
            }
            MemoryModel::Weak if self.is_shared(address) => {
                let old = self.state.memory.load(address, bytes)?;
                self.state.memory.store(address, bytes, value)?;
                self.note_history(address, bytes, (old, value), order, None);
                Ok(())
            }
            MemoryModel::SequentiallyConsistent | MemoryModel::Tso | MemoryModel::Weak => {
                Ok(self.state.memory.store(address, bytes, value)?)
            }
        }
    }

    /// A store that whoever reads its value with acquire order comes after.
    pub(crate) fn store_released(
        &mut self,
        address: u64,
        bytes: u8,
        value: u64,
    ) -> Result<(), Stop> {
        self.write(address, bytes, value, Some(AtomicOrder::Release))
    }

    /// A store that waits in a buffer must not fail later.
    fn check_writable(&mut self, address: u64, bytes: u8) -> Result<(), Stop> {
        let value = self.state.memory.load(address, bytes)?;
        Ok(self.state.memory.store(address, bytes, value)?)
    }

    fn note_history(
        &mut self,
        address: u64,
        bytes: u8,
        values: (u64, u64),
        order: Option<AtomicOrder>,
        continues: Option<crate::weak::Clock>,
    ) {
        let current = self.state.current;
        let place = self.place_id();
        let thread = &mut self.state.threads[current];
        let mut released = match order {
            Some(order) if releases(order) => Some(thread.clock.clone()),
            Some(_) => thread.view.fence.clone(),
            None => None,
        };
        // An update continues the release sequence that it reads from.
        if let Some(earlier) = continues {
            released.get_or_insert_with(Default::default).join(&earlier);
        }
        Rc::make_mut(&mut self.state.histories).write(
            address,
            bytes,
            values,
            (current, &thread.clock),
            released,
            place,
        );
        if order.is_some_and(releases) {
            thread.clock.advance(current);
        }
    }

    /// The old value of a read-modify-write operation, which is always the newest.
    fn begin_update(&mut self, address: u64, bytes: u8, order: AtomicOrder) -> Result<u64, Stop> {
        let current = self.state.current;
        self.drain_buffer(current)?;
        if self.how.memory == MemoryModel::Weak
            && let Some(newest) = self.state.histories.newest(address, bytes)
            && let Some(released) = newest.releases.clone()
        {
            let thread = &mut self.state.threads[current];
            match acquires(order) {
                true => thread.clock.join(&released),
                false => thread.view.pending.join(&released),
            }
        }
        Ok(self.state.memory.load(address, bytes)?)
    }

    fn end_update(
        &mut self,
        address: u64,
        bytes: u8,
        values: (u64, u64),
        order: AtomicOrder,
    ) -> Result<(), Stop> {
        self.state.memory.store(address, bytes, values.1)?;
        if self.how.memory == MemoryModel::Weak && self.is_shared(address) {
            let continues = self
                .state
                .histories
                .newest(address, bytes)
                .and_then(|newest| newest.releases.clone());
            self.note_history(address, bytes, values, Some(order), continues);
        }
        Ok(())
    }

    fn fence(&mut self, order: AtomicOrder) -> Result<(), Stop> {
        let current = self.state.current;
        match self.how.memory {
            MemoryModel::SequentiallyConsistent => {}
            MemoryModel::Tso => {
                if order == AtomicOrder::SequentiallyConsistent {
                    self.drain_buffer(current)?;
                }
            }
            MemoryModel::Weak => {
                let thread = &mut self.state.threads[current];
                if acquires(order) {
                    let pending = std::mem::take(&mut thread.view.pending);
                    thread.clock.join(&pending);
                }
                if order == AtomicOrder::SequentiallyConsistent {
                    self.acquire(FENCES);
                    self.release(FENCES);
                }
                let thread = &mut self.state.threads[current];
                if releases(order) {
                    thread.view.fence = Some(thread.clock.clone());
                    thread.clock.advance(current);
                }
            }
        }
        Ok(())
    }

    /// What happened before now becomes visible to whoever acquires the object.
    pub(crate) fn release(&mut self, object: u64) {
        if self.how.memory != MemoryModel::Weak {
            return;
        }
        let current = self.state.current;
        let thread = &mut self.state.threads[current];
        let objects = &mut Rc::make_mut(&mut self.state.histories).objects;
        objects.entry(object).or_default().join(&thread.clock);
        thread.clock.advance(current);
    }

    /// What happened before an object was released last.
    pub(super) fn clock_of(&self, object: u64) -> crate::weak::Clock {
        let objects = &self.state.histories.objects;
        objects.get(&object).cloned().unwrap_or_default()
    }

    pub(crate) fn acquire(&mut self, object: u64) {
        if self.how.memory != MemoryModel::Weak {
            return;
        }
        if let Some(clock) = self.state.histories.objects.get(&object) {
            let clock = clock.clone();
            self.thread().clock.join(&clock);
        }
    }

    /// All stores of a thread reach memory.
    pub(crate) fn drain_buffer(&mut self, thread: usize) -> Result<(), Stop> {
        while !self.state.threads[thread].buffer.is_empty() {
            self.flush(thread)?;
        }
        Ok(())
    }

    /// The oldest store of a thread reaches memory. It may have been freed meanwhile, which the
    /// interpreter does not call an error of the store.
    pub(super) fn flush(&mut self, thread: usize) -> Result<(), Stop> {
        if let Some(store) = self.state.threads[thread].buffer.pop_front() {
            let _ = self
                .state
                .memory
                .store(store.address, store.bytes, store.value);
        }
        Ok(())
    }

    /// The library wrote a range of memory.
    pub(crate) fn forget_history(&mut self, address: u64, bytes: u64) {
        if self.how.memory == MemoryModel::Weak {
            Rc::make_mut(&mut self.state.histories).forget(address, bytes);
        }
    }
}
