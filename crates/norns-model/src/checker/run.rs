//! One run of a schedule: what can happen next, and what it changes.

use std::collections::{BTreeSet, HashMap, HashSet};

use norns_trace::{ObjectId, ObjectKind, Op, ThreadId};

use super::gather::memory;
use super::{Checker, NOBODY, need};
use crate::witness::Meaning;

/// Threads and how many times each holds a lock.
pub(super) type Levels = Vec<(ThreadId, usize)>;

/// The state after the events of a schedule so far.
pub(super) struct Run {
    /// How many events of each thread have happened.
    pub(super) done: Vec<usize>,
    /// Lock levels by lock: for writing and for reading.
    pub(super) written: Vec<Levels>,
    pub(super) read: Vec<Levels>,
    pub(super) semaphores: HashMap<ObjectId, i64>,
    pub(super) once_runner: HashMap<ObjectId, ThreadId>,
    pub(super) once_done: HashSet<ObjectId>,
    pub(super) in_barrier: HashMap<ObjectId, BTreeSet<ThreadId>>,
    /// Every possible set of (condition, sleeper).
    pub(super) sleepers: BTreeSet<BTreeSet<(ObjectId, ThreadId)>>,
    /// Of every cell, or `NOBODY`.
    pub(super) last_write: Vec<u32>,
}

/// The level of the thread, 0 if it was never there.
fn level_of(levels: &mut Levels, thread: ThreadId) -> &mut usize {
    let i = match levels.iter().position(|level| level.0 == thread) {
        Some(i) => i,
        None => {
            levels.push((thread, 0));
            levels.len() - 1
        }
    };
    &mut levels[i].1
}

impl Checker<'_> {
    fn writer(&self, run: &Run, lock: ObjectId) -> Option<ThreadId> {
        let robust = self.trace.object(lock).kind == ObjectKind::RobustMutex;
        let holders = &run.written[lock.index()];
        let mut holders = holders
            .iter()
            .filter(|(_, level)| *level > 0)
            .map(|(t, _)| *t);
        holders.find(|&holder| !(robust && self.ended(run, holder)))
    }

    fn readers(&self, run: &Run, lock: ObjectId) -> Vec<ThreadId> {
        let readers = run.read[lock.index()].iter();
        readers
            .filter(|(_, level)| *level > 0)
            .map(|(t, _)| *t)
            .collect()
    }

    /// Who keeps this thread from acquiring the lock.
    pub(super) fn against(
        &self,
        run: &Run,
        thread: ThreadId,
        lock: ObjectId,
        write: bool,
    ) -> Vec<ThreadId> {
        let recursive = self.trace.object(lock).kind == ObjectKind::RecursiveMutex;
        let mut holders = if write {
            self.readers(run, lock)
        } else {
            Vec::new()
        };
        holders.extend(
            self.writer(run, lock)
                .filter(|&holder| !(write && recursive && holder == thread)),
        );
        holders
    }

    /// What must be there before an event can be next at all, apart from its own rule.
    pub(super) fn is_reached(&self, run: &Run, event: usize) -> Result<(), String> {
        if !self.is_born(run, self.thread(event)) {
            return Err("its thread is not forked yet".into());
        }
        let allocation = self.allocation[event];
        if allocation != NOBODY && !self.happened(run, allocation as usize) {
            return Err("its memory is not allocated yet".into());
        }
        Ok(())
    }

    pub(super) fn happen(&self, run: &mut Run, event: usize) -> Result<(), String> {
        if event >= self.trace.events.len() {
            return Err("there is no such event".into());
        }
        let thread = self.thread(event);
        if self.next(run, thread) != Some(event) {
            return Err("it is not the next event of its thread".into());
        }
        self.is_reached(run, event)?;
        match self.op(event) {
            Op::Lock(lock) => {
                need(
                    self.against(run, thread, lock, true).is_empty(),
                    "the lock is held",
                )?;
                let levels = &mut run.written[lock.index()];
                levels.retain(|&(holder, _)| holder == thread);
                *level_of(levels, thread) += 1;
            }
            Op::FailedLock(lock) => {
                let held = !self.against(run, thread, lock, true).is_empty();
                need(held, "the lock is free, so locking would not fail")?;
            }
            Op::ReadLock(lock) => {
                need(
                    self.against(run, thread, lock, false).is_empty(),
                    "the lock is held",
                )?;
                *level_of(&mut run.read[lock.index()], thread) += 1;
            }
            Op::FailedReadLock(lock) => {
                let held = !self.against(run, thread, lock, false).is_empty();
                need(
                    held,
                    "the lock is free for readers, so locking would not fail",
                )?;
            }
            Op::Unlock(lock) => self.unlock(run, thread, lock),
            Op::OnceBegin(once) => {
                let first = !run.once_runner.contains_key(&once);
                need(first, "the initialiser was begun before")?;
                run.once_runner.insert(once, thread);
            }
            Op::OnceEnd(once) => {
                run.once_done.insert(once);
            }
            Op::OncePass(once) => {
                need(run.once_done.contains(&once), "the initialiser has not run")?;
            }
            Op::Wait(condition) => self.wake(run, event, condition)?,
            Op::Signal(condition) => signal(run, condition),
            Op::Broadcast(condition) => broadcast(run, condition),
            Op::BarrierEnter(barrier) => {
                let waiting = run.in_barrier.entry(barrier).or_default();
                waiting.insert(thread);
                if waiting.len() >= self.barrier_size.get(&barrier).copied().unwrap_or(0) {
                    waiting.clear();
                }
            }
            Op::BarrierExit(barrier) => {
                let waits = run
                    .in_barrier
                    .get(&barrier)
                    .is_some_and(|w| w.contains(&thread));
                need(!waits, "the barrier is not full")?;
            }
            Op::SemWait(semaphore) | Op::Take(semaphore) => {
                let value = run.semaphores.entry(semaphore).or_default();
                need(*value > 0, "the semaphore is zero")?;
                *value -= 1;
            }
            Op::FailedSemWait(semaphore) | Op::FailedTake(semaphore) => {
                let value = run.semaphores.get(&semaphore).copied().unwrap_or(0);
                need(
                    value <= 0,
                    "the semaphore is not zero, so waiting would not fail",
                )?;
            }
            Op::SemPost(semaphore) | Op::Give(semaphore) => {
                *run.semaphores.entry(semaphore).or_default() += 1;
            }
            Op::Join(child) => {
                need(
                    self.all_happened(run, child),
                    "the joined thread has not ended",
                )?;
            }
            Op::FailedJoin(child) => {
                need(
                    !self.ended(run, child),
                    "the thread has ended, so joining would not fail",
                )?;
            }
            Op::Receive(channel) => {
                let senders = self.sends.get(&channel).into_iter().flatten();
                let mut last = senders.filter_map(|(_, sends)| {
                    let before = sends.partition_point(|&send| send < event);
                    sends[..before].last()
                });
                need(
                    last.all(|&send| self.happened(run, send)),
                    "what it received has not been sent",
                )?;
            }
            Op::Read(_)
            | Op::Write(_)
            | Op::Allocate(_)
            | Op::Free(_)
            | Op::Use(_)
            | Op::Destroy(_)
            | Op::Initialise(_)
            | Op::Atomic { .. } => {
                self.access(run, event)?;
            }
            // A fork and a start are checked where the forked thread takes its first step. A wait
            // that times out was never asleep, and the numbers of barriers and semaphores are
            // those of the whole trace.
            Op::Start
            | Op::End
            | Op::Fork(_)
            | Op::Detach(_)
            | Op::FailedWait(_)
            | Op::BarrierInit { .. }
            | Op::SemInit { .. }
            | Op::Misuse { .. }
            | Op::LoopExit(_)
            | Op::Send(_)
            | Op::Fence(_)
            | Op::Enter
            | Op::Leave
            | Op::Custom(_) => {}
        }
        run.done[thread.index()] += 1;
        Ok(())
    }

    /// Releases one level, for writing if it is held for writing. The `Unlock` of a wait also
    /// puts the thread to sleep.
    fn unlock(&self, run: &mut Run, thread: ThreadId, lock: ObjectId) {
        let mut levels = run.written[lock.index()]
            .iter_mut()
            .chain(&mut run.read[lock.index()]);
        if let Some(level) = levels.find(|&&mut (holder, level)| holder == thread && level > 0) {
            level.1 -= 1;
        }
        let line = &self.lines[thread.index()];
        let after = line.get(run.done[thread.index()] + 1);
        if let Some(Op::Wait(condition)) = after.map(|&after| self.op(after)) {
            run.sleepers = std::mem::take(&mut run.sleepers)
                .into_iter()
                .map(|mut asleep| {
                    asleep.insert((condition, thread));
                    asleep
                })
                .collect();
        }
    }

    fn wake(&self, run: &mut Run, wait: usize, condition: ObjectId) -> Result<(), String> {
        let place = (condition, self.thread(wait));
        let mut sleepers = std::mem::take(&mut run.sleepers);
        if self.unexplained.contains(&wait) {
            sleepers = sleepers
                .into_iter()
                .map(|mut asleep| {
                    asleep.remove(&place);
                    asleep
                })
                .collect();
        } else {
            sleepers.retain(|asleep| !asleep.contains(&place));
        }
        need(!sleepers.is_empty(), "nothing can have woken the thread")?;
        run.sleepers = sleepers;
        Ok(())
    }

    /// In the faithful meaning a read needs the writes that it saw.
    fn access(&self, run: &mut Run, event: usize) -> Result<(), String> {
        if self.meaning != Meaning::Faithful {
            return Ok(());
        }
        let Some((_, reads, writes)) = memory(self.op(event)) else {
            return Ok(());
        };
        let cells = self.cells_of[event].0 as usize..self.cells_of[event].1 as usize;
        if reads {
            let saw = self.saw_from[event] as usize;
            need(
                run.last_write[cells.clone()] == self.saw[saw..saw + cells.len()],
                "it would read another write",
            )?;
        }
        if writes {
            run.last_write[cells].fill(event as u32);
        }
        Ok(())
    }
}

fn signal(run: &mut Run, condition: ObjectId) {
    let mut sleepers = BTreeSet::new();
    for asleep in &run.sleepers {
        let mut lost = true;
        for place in asleep.iter().filter(|place| place.0 == condition) {
            lost = false;
            let mut rest = asleep.clone();
            rest.remove(place);
            sleepers.insert(rest);
        }
        if lost {
            sleepers.insert(asleep.clone());
        }
    }
    run.sleepers = sleepers;
}

fn broadcast(run: &mut Run, condition: ObjectId) {
    run.sleepers = std::mem::take(&mut run.sleepers)
        .into_iter()
        .map(|asleep| {
            asleep
                .into_iter()
                .filter(|place| place.0 != condition)
                .collect()
        })
        .collect();
}
