//! The independent checker of witnesses: is a schedule legal, and does it end with its bug?
//!
//! Written from the rules in the table of `tests/model/step_rules.rs` and the definitions in
//! ARCHITECTURE.md, "What counts as a bug", alone. It shares no code with the model, its step rules or any engine, so
//! that a mistake there cannot vouch for itself. Nothing is reported that it does not accept.
//!
//! It goes once over the schedule. Whom a signal wakes is not part of a schedule, so it follows
//! all possibilities at once and asks that one remains.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use norns_trace::{Access, AtomicKind, EventIndex, ObjectId, ObjectKind, Op, ThreadId, Trace};

use crate::witness::{Bug, Meaning, Witness};

/// Why a witness is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The first event of the schedule that cannot happen there; `None` when the whole schedule
    /// can, but the bug is not there afterwards.
    pub event: Option<EventIndex>,
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.event {
            Some(event) => write!(f, "event {} cannot happen there: {}", event.0, self.reason),
            None => write!(f, "the schedule does not end with the bug: {}", self.reason),
        }
    }
}

impl std::error::Error for Refusal {}

/// Checks one witness. For many witnesses of one trace, make one `Checker`.
pub fn check_witness(trace: &Trace, meaning: Meaning, witness: &Witness) -> Result<(), Refusal> {
    Checker::new(trace, meaning).check(witness)
}

/// What a trace says about its events, gathered once.
pub struct Checker<'t> {
    trace: &'t Trace,
    meaning: Meaning,
    lines: Vec<Vec<usize>>,
    forker: HashMap<ThreadId, usize>,
    barrier_size: HashMap<ObjectId, usize>,
    semaphore_start: HashMap<ObjectId, i64>,
    /// Waits that no signal or broadcast of the trace explains.
    unexplained: HashSet<usize>,
    /// For every event the allocation that its access belongs to, or `NOBODY`.
    allocation: Vec<u32>,
    /// For an allocation, the frees of what was at its bytes before.
    freed_before: HashMap<usize, Vec<usize>>,
    /// First bytes of cells that are never accessed in part.
    cells: Vec<u64>,
    /// For every event its cells, from and to; empty in the optimistic meaning, like the rest.
    cells_of: Vec<(u32, u32)>,
    /// For every event where its part of `saw` begins: what each cell that it reads was written
    /// by, or `NOBODY`.
    saw_from: Vec<u32>,
    saw: Vec<u32>,
}

/// Threads and how many times each holds a lock.
type Levels = Vec<(ThreadId, usize)>;

const NOBODY: u32 = u32::MAX;

/// A run of the schedule so far.
struct Run {
    done: Vec<usize>,
    /// Lock levels by lock: for writing and for reading.
    written: Vec<Levels>,
    read: Vec<Levels>,
    semaphores: HashMap<ObjectId, i64>,
    once_runner: HashMap<ObjectId, ThreadId>,
    once_done: HashSet<ObjectId>,
    in_barrier: HashMap<ObjectId, BTreeSet<ThreadId>>,
    /// Every possible set of (condition, sleeper).
    sleepers: BTreeSet<BTreeSet<(ObjectId, ThreadId)>>,
    /// Of every cell, or `NOBODY`.
    last_write: Vec<u32>,
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

fn memory(op: Op) -> Option<(Access, bool, bool)> {
    match op {
        Op::Read(a) => Some((a, true, false)),
        Op::Write(a) | Op::Free(a) | Op::Allocate(a) => Some((a, false, true)),
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
        _ => None,
    }
}

impl<'t> Checker<'t> {
    pub fn new(trace: &'t Trace, meaning: Meaning) -> Checker<'t> {
        let mut checker = Checker {
            trace,
            meaning,
            lines: vec![Vec::new(); trace.threads.len()],
            forker: HashMap::new(),
            barrier_size: HashMap::new(),
            semaphore_start: HashMap::new(),
            unexplained: HashSet::new(),
            allocation: vec![NOBODY; trace.events.len()],
            freed_before: HashMap::new(),
            cells: Vec::new(),
            cells_of: Vec::new(),
            saw_from: Vec::new(),
            saw: Vec::new(),
        };
        for (i, event) in trace.events.iter().enumerate() {
            checker.lines[event.thread.index()].push(i);
            if let Op::Fork(child) = event.op {
                checker.forker.entry(child).or_insert(i);
            }
        }
        checker.gather_numbers();
        checker.gather_waits();
        checker.gather_blocks();
        if meaning == Meaning::Faithful {
            checker.gather_reads();
        }
        checker
    }

    pub fn check(&self, witness: &Witness) -> Result<(), Refusal> {
        let run = self.run(&witness.schedule)?;
        self.shows(&run, &witness.bug).map_err(|reason| Refusal {
            event: None,
            reason,
        })
    }

    /// Whether the events can happen in this order, whatever they lead to.
    pub fn check_schedule(&self, schedule: &[EventIndex]) -> Result<(), Refusal> {
        self.run(schedule).map(|_| ())
    }

    fn run(&self, schedule: &[EventIndex]) -> Result<Run, Refusal> {
        let mut run = Run {
            done: vec![0; self.lines.len()],
            written: vec![Vec::new(); self.trace.objects.len()],
            read: vec![Vec::new(); self.trace.objects.len()],
            semaphores: self.semaphore_start.clone(),
            once_runner: HashMap::new(),
            once_done: HashSet::new(),
            in_barrier: HashMap::new(),
            sleepers: BTreeSet::from([BTreeSet::new()]),
            last_write: vec![NOBODY; self.cells.len()],
        };
        for &event in schedule {
            self.happen(&mut run, event.index())
                .map_err(|reason| Refusal {
                    event: Some(event),
                    reason,
                })?;
        }
        Ok(run)
    }

    fn op(&self, event: usize) -> Op {
        self.trace.events[event].op
    }

    fn thread(&self, event: usize) -> ThreadId {
        self.trace.events[event].thread
    }

    fn next(&self, run: &Run, thread: ThreadId) -> Option<usize> {
        self.lines[thread.index()]
            .get(run.done[thread.index()])
            .copied()
    }

    fn happened(&self, run: &Run, event: usize) -> bool {
        let line = &self.lines[self.thread(event).index()];
        line[..run.done[self.thread(event).index()]]
            .last()
            .is_some_and(|&last| last >= event)
    }

    fn all_happened(&self, run: &Run, thread: ThreadId) -> bool {
        run.done[thread.index()] == self.lines[thread.index()].len()
    }

    fn ended(&self, run: &Run, thread: ThreadId) -> bool {
        let last = self.lines[thread.index()].last();
        self.all_happened(run, thread) && last.is_some_and(|&last| self.op(last) == Op::End)
    }

    fn is_born(&self, run: &Run, thread: ThreadId) -> bool {
        run.done[thread.index()] > 0
            || self
                .forker
                .get(&thread)
                .is_none_or(|&fork| self.happened(run, fork))
    }

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
    fn against(&self, run: &Run, thread: ThreadId, lock: ObjectId, write: bool) -> Vec<ThreadId> {
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
    fn is_reached(&self, run: &Run, event: usize) -> Result<(), String> {
        if !self.is_born(run, self.thread(event)) {
            return Err("its thread is not forked yet".into());
        }
        let allocation = self.allocation[event];
        if allocation != NOBODY && !self.happened(run, allocation as usize) {
            return Err("its memory is not allocated yet".into());
        }
        if !matches!(self.op(event), Op::Allocate(_)) {
            return Ok(());
        }
        let earlier = self.freed_before.get(&event).into_iter().flatten();
        for &free in earlier {
            if !self.happened(run, free) && self.thread(free) != self.thread(event) {
                return Err("what was in its memory before is not freed yet".into());
            }
        }
        Ok(())
    }

    fn happen(&self, run: &mut Run, event: usize) -> Result<(), String> {
        if event >= self.trace.events.len() {
            return Err("there is no such event".into());
        }
        let thread = self.thread(event);
        if self.next(run, thread) != Some(event) {
            return Err("it is not the next event of its thread".into());
        }
        self.is_reached(run, event)?;
        let need = |holds: bool, otherwise: &str| {
            if holds {
                Ok(())
            } else {
                Err(otherwise.to_string())
            }
        };
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
            Op::Unlock(lock) => {
                let release = |levels: &mut Levels| {
                    let held = levels
                        .iter()
                        .position(|&(holder, level)| holder == thread && level > 0);
                    if let Some(i) = held {
                        levels[i].1 -= 1;
                    }
                    held.is_some()
                };
                let _held =
                    release(&mut run.written[lock.index()]) || release(&mut run.read[lock.index()]);
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
            Op::Wait(condition) => {
                let place = (condition, thread);
                let mut sleepers = std::mem::take(&mut run.sleepers);
                if self.unexplained.contains(&event) {
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
            }
            Op::Signal(condition) => {
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
            Op::Broadcast(condition) => {
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
            Op::SemWait(semaphore) => {
                let value = run.semaphores.entry(semaphore).or_default();
                need(*value > 0, "the semaphore is zero")?;
                *value -= 1;
            }
            Op::FailedSemWait(semaphore) => {
                let value = run.semaphores.get(&semaphore).copied().unwrap_or(0);
                need(
                    value <= 0,
                    "the semaphore is not zero, so waiting would not fail",
                )?;
            }
            Op::SemPost(semaphore) => *run.semaphores.entry(semaphore).or_default() += 1,
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
            _ => {}
        }
        if self.meaning == Meaning::Faithful
            && let Some((_, reads, writes)) = memory(self.op(event))
        {
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
        }
        run.done[thread.index()] += 1;
        Ok(())
    }

    fn shows(&self, run: &Run, bug: &Bug) -> Result<(), String> {
        let mut threads = HashSet::new();
        let listed = match bug {
            Bug::Race { first, second } => vec![*first, *second],
            Bug::LockDeadlock { blocked } | Bug::Stuck { blocked } => blocked.clone(),
        };
        for event in listed.iter().map(|event| event.index()) {
            if event >= self.trace.events.len() {
                return Err("there is no such event".into());
            }
            if self.next(run, self.thread(event)) != Some(event) {
                return Err(format!("event {event} is not the next of its thread"));
            }
            if !threads.insert(self.thread(event)) {
                return Err("one thread is named twice".into());
            }
            self.is_reached(run, event)?;
        }
        match bug {
            Bug::Race { first, second } => self.shows_race(first.index(), second.index()),
            Bug::LockDeadlock { blocked } => self.shows_cycle(run, blocked),
            Bug::Stuck { blocked } => self.shows_stuck(run, blocked),
        }
    }

    fn shows_race(&self, first: usize, second: usize) -> Result<(), String> {
        let need = |holds: bool, otherwise: &str| {
            if holds {
                Ok(())
            } else {
                Err(otherwise.to_string())
            }
        };
        need(first < second, "the earlier event of the trace comes first")?;
        let (one, other) = (self.op(first), self.op(second));
        let allocates = |op| matches!(op, Op::Allocate(_));
        let atomic = |op| matches!(op, Op::Atomic { .. });
        let (Some((a, _, a_writes)), Some((b, _, b_writes))) = (memory(one), memory(other)) else {
            return Err("a race is between accesses".into());
        };
        need(
            !allocates(one) && !allocates(other),
            "an allocation is no access",
        )?;
        need(
            !(atomic(one) && atomic(other)),
            "two atomic operations do not race",
        )?;
        need(a_writes || b_writes, "two reads do not race")?;
        let (a_end, b_end) = (a.address + u64::from(a.size), b.address + u64::from(b.size));
        need(
            a.address < b_end && b.address < a_end,
            "they access different bytes",
        )?;
        let block = |event: usize| self.allocation[event];
        need(
            block(first) == block(second),
            "they access different blocks",
        )
    }

    fn shows_cycle(&self, run: &Run, blocked: &[EventIndex]) -> Result<(), String> {
        if blocked.is_empty() || blocked.iter().min() != blocked.first() {
            return Err("a cycle begins with its smallest event".into());
        }
        for (i, event) in blocked.iter().enumerate() {
            let holder = self.thread(blocked[(i + 1) % blocked.len()].index());
            let event = event.index();
            let against = match self.op(event) {
                Op::Lock(lock) => self.against(run, self.thread(event), lock, true),
                Op::ReadLock(lock) => self.against(run, self.thread(event), lock, false),
                _ => return Err(format!("event {event} acquires no lock")),
            };
            if !against.contains(&holder) {
                return Err(format!(
                    "event {event} does not wait for the next of the cycle"
                ));
            }
        }
        Ok(())
    }

    fn shows_stuck(&self, run: &Run, blocked: &[EventIndex]) -> Result<(), String> {
        if blocked.is_empty() || !blocked.is_sorted() {
            return Err("the stuck events are not sorted, or there are none".into());
        }
        let stuck: HashSet<ThreadId> = blocked.iter().map(|e| self.thread(e.index())).collect();
        // A thread that is not forked, and whose forker is stuck, does nothing either.
        let dead = |mut thread: ThreadId| {
            for _ in 0..=self.lines.len() {
                if stuck.contains(&thread) {
                    return true;
                }
                match self.forker.get(&thread) {
                    Some(&fork) if !self.is_born(run, thread) => thread = self.thread(fork),
                    _ => return false,
                }
            }
            // Threads that would have to fork each other.
            true
        };
        let helpers = |me: ThreadId, helps: &dyn Fn(Op) -> bool| {
            let others = (0..self.lines.len()).map(ThreadId::from_index);
            others
                .filter(|&other| other != me && !dead(other))
                .filter(|other| {
                    let rest = &self.lines[other.index()][run.done[other.index()]..];
                    rest.iter().any(|&event| helps(self.op(event)))
                })
                .count()
        };
        for event in blocked.iter().map(|event| event.index()) {
            let me = self.thread(event);
            let closed = match self.op(event) {
                Op::Lock(lock) => {
                    let holders = self.against(run, me, lock, true);
                    holders
                        .iter()
                        .any(|&holder| dead(holder) || self.ended(run, holder))
                }
                Op::ReadLock(lock) => {
                    let holders = self.against(run, me, lock, false);
                    holders
                        .iter()
                        .any(|&holder| dead(holder) || self.ended(run, holder))
                }
                Op::Join(child) => !self.all_happened(run, child) && dead(child),
                Op::SemWait(s) => {
                    run.semaphores.get(&s).copied().unwrap_or(0) <= 0
                        && helpers(me, &|op| op == Op::SemPost(s)) == 0
                }
                Op::Wait(c) => {
                    !self.unexplained.contains(&event)
                        && helpers(me, &|op| op == Op::Signal(c) || op == Op::Broadcast(c)) == 0
                }
                Op::BarrierExit(b) => {
                    let waiting = run.in_barrier.get(&b).filter(|w| w.contains(&me));
                    let size = self.barrier_size.get(&b).copied().unwrap_or(0);
                    waiting.is_some_and(|waiting| {
                        waiting.len() + helpers(me, &|op| op == Op::BarrierEnter(b)) < size
                    })
                }
                Op::OncePass(once) => {
                    !run.once_done.contains(&once)
                        && run
                            .once_runner
                            .get(&once)
                            .is_some_and(|&runner| dead(runner))
                }
                _ => return Err(format!("event {event} blocks nobody")),
            };
            if !closed {
                return Err(format!("event {event} could still happen"));
            }
        }
        // All the waits on conditions must be asleep in one and the same possibility.
        let waits: Vec<(ObjectId, ThreadId)> = blocked
            .iter()
            .filter_map(|event| match self.op(event.index()) {
                Op::Wait(condition) => Some((condition, self.thread(event.index()))),
                _ => None,
            })
            .collect();
        let possible = run
            .sleepers
            .iter()
            .any(|asleep| waits.iter().all(|place| asleep.contains(place)));
        if possible {
            Ok(())
        } else {
            Err("a thread that waits was woken for certain".into())
        }
    }

    fn gather_numbers(&mut self) {
        let mut balance: HashMap<ObjectId, (i64, i64)> = HashMap::new();
        for event in &self.trace.events {
            let (object, change) = match event.op {
                Op::BarrierEnter(o) | Op::SemWait(o) => (o, 1),
                Op::BarrierExit(o) | Op::SemPost(o) => (o, -1),
                _ => continue,
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
            match event.op {
                Op::BarrierInit { barrier, count } => {
                    self.barrier_size.insert(barrier, count as usize);
                }
                Op::SemInit { sem, value } => {
                    self.semaphore_start.insert(sem, i64::from(value));
                }
                _ => {}
            }
        }
    }

    /// A wait is explained by a broadcast while it slept, or by a signal while it slept that
    /// explains no wait that ended earlier.
    fn gather_waits(&mut self) {
        let mut asleep: BTreeMap<usize, (ObjectId, bool)> = BTreeMap::new();
        for (i, event) in self.trace.events.iter().enumerate() {
            match event.op {
                Op::Unlock(_) => {
                    let line = &self.lines[event.thread.index()];
                    let at = line.partition_point(|&other| other <= i);
                    if let Some(&after) = line.get(at)
                        && let Op::Wait(condition) = self.op(after)
                    {
                        asleep.insert(after, (condition, false));
                    }
                }
                Op::Signal(c) => {
                    let first = asleep.values_mut().find(|wait| **wait == (c, false));
                    if let Some(wait) = first {
                        wait.1 = true;
                    }
                }
                Op::Broadcast(c) => {
                    for wait in asleep.values_mut().filter(|wait| wait.0 == c) {
                        wait.1 = true;
                    }
                }
                Op::Wait(_) if !asleep.remove(&i).is_some_and(|wait| wait.1) => {
                    self.unexplained.insert(i);
                }
                _ => {}
            }
        }
    }

    fn gather_blocks(&mut self) {
        // First byte of every block that is or was there: its end, allocation and free.
        let mut blocks: BTreeMap<u64, (u64, usize, Option<usize>)> = BTreeMap::new();
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
                    let (_, _, freed) = blocks.remove(&first).expect("it was just found");
                    self.freed_before.entry(i).or_default().extend(freed);
                }
                blocks.insert(start, (end, i, None));
            } else if let Some((_, block)) = blocks.range_mut(..=start).next_back()
                && block.0 > start
            {
                self.allocation[i] = block.1 as u32;
                if let (Op::Free(_), None) = (event.op, block.2) {
                    block.2 = Some(i);
                }
            }
        }
    }

    fn gather_reads(&mut self) {
        let accesses = self
            .trace
            .events
            .iter()
            .filter_map(|event| memory(event.op));
        let ends = accesses.flat_map(|(a, ..)| [a.address, a.address + u64::from(a.size)]);
        self.cells = ends.collect();
        self.cells.sort_unstable();
        self.cells.dedup();
        let at = |address| self.cells.partition_point(|&cell| cell < address) as u32;
        let mut last = vec![NOBODY; self.cells.len()];
        for (i, event) in self.trace.events.iter().enumerate() {
            self.saw_from.push(self.saw.len() as u32);
            let Some((access, reads, writes)) = memory(event.op) else {
                self.cells_of.push((0, 0));
                continue;
            };
            let end = access.address + u64::from(access.size);
            let (from, to) = (at(access.address), at(end));
            self.cells_of.push((from, to));
            let cells = from as usize..to as usize;
            if reads {
                self.saw.extend(&last[cells.clone()]);
            }
            if writes {
                last[cells].fill(i as u32);
            }
        }
    }
}
