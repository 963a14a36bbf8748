//! A generated run with every kind of synchronisation.
//!
//! Four threads live as long as the run; now and then one of them forks a short-lived thread and
//! joins it. A thread makes a plan of a few steps and follows it; a step that is not possible yet is
//! tried again later. Two fifths of the events are those of twelve locks (mutexes of all kinds and
//! three reader-writer locks; some attempts fail). About one event in a hundred each belongs to
//! semaphores, barriers, conditions and `once`, and one in thirty is atomic. Plans acquire locks in
//! ascending order and wait for nothing else while they hold them, so the run terminates.

use norns_random::Random;
use norns_trace::trace::{Custom, Value};
use norns_trace::{
    Access, AtomicKind, Event, EventIndex, MemoryOrder, Object, ObjectId, ObjectKind, Op, Place,
    PlaceId, Thread, ThreadId, Trace,
};

const LOCKS: [ObjectKind; 12] = [
    ObjectKind::Mutex,
    ObjectKind::Mutex,
    ObjectKind::Mutex,
    ObjectKind::Mutex,
    ObjectKind::RecursiveMutex,
    ObjectKind::RecursiveMutex,
    ObjectKind::ErrorCheckingMutex,
    ObjectKind::RobustMutex,
    ObjectKind::SpinLock,
    ObjectKind::ReaderWriterLock,
    ObjectKind::ReaderWriterLock,
    ObjectKind::ReaderWriterLock,
];
/// Two semaphores are used like locks, the third to signal another thread.
const SEMAPHORES: usize = 3;
const HAND_OVER: usize = 2;
const CONDITIONS: usize = 2;
const ONCES: usize = 8;
const BARRIER_COUNT: usize = 2;
const LONG_LIVED: usize = 4;
const SHORT_LIVED: usize = 12;
const VARIABLES: usize = 36;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The flag says whether for reading.
    Lock(usize, bool),
    TryLock(usize, bool),
    Unlock(usize),
    Access(usize),
    Atomic,
    SemWait(usize),
    TrySemWait(usize),
    SemPost(usize),
    Once(usize),
    OnceEnd(usize),
    /// Releases the mutex of this condition and begins to wait.
    Sleep(usize),
    Woken(usize),
    TimeOut(usize),
    Signal(usize),
    Broadcast(usize),
    Enter,
    Exit,
    Fork(usize),
    Start,
    TryJoin(usize),
    Join(usize),
    End,
    Fence,
}

struct Generator {
    random: Random,
    trace: Trace,
    branches: bool,
    /// For each thread the remaining steps of its plan, in reverse order.
    plans: Vec<Vec<Step>>,
    /// For each lock, the thread that holds it for writing, and how many times.
    writer: Vec<Option<(usize, usize)>>,
    /// For each lock, the threads that hold it for reading.
    readers: Vec<Vec<usize>>,
    semaphores: [u32; SEMAPHORES],
    /// 0 untouched, 1 running, 2 done.
    onces: [u8; ONCES],
    /// For each condition, the threads that wait.
    asleep: Vec<Vec<usize>>,
    /// Threads that wait in the barrier.
    arrived: Vec<usize>,
    /// Threads that may leave the barrier.
    released: Vec<usize>,
    forked: usize,
    ended: Vec<bool>,
    memory: Vec<u8>,
    flags: [u8; 4],
}

/// Generates about `length` events.
pub fn generate(length: usize, branches: bool, seed: u64) -> Trace {
    let threads = LONG_LIVED + SHORT_LIVED;
    let mut generator = Generator {
        random: Random::new(seed),
        trace: Trace {
            accesses_ordered: true,
            ..Trace::default()
        },
        branches,
        plans: vec![Vec::new(); threads],
        writer: vec![None; LOCKS.len()],
        readers: vec![Vec::new(); LOCKS.len()],
        semaphores: [2, 1, 0],
        onces: [0; ONCES],
        asleep: vec![Vec::new(); CONDITIONS],
        arrived: Vec::new(),
        released: Vec::new(),
        forked: 0,
        ended: vec![false; threads],
        memory: vec![0; VARIABLES],
        flags: [0; 4],
    };
    generator.set_up(threads);
    while generator.trace.events.len() + 40 < length {
        let thread = generator.random.below(threads);
        if generator.plans[thread].is_empty() && thread < LONG_LIVED {
            generator.plans[thread] = generator.plan(thread, length);
        }
        generator.step(thread);
    }
    while generator.plans.iter().any(|plan| !plan.is_empty()) {
        let thread = generator.random.below(threads);
        if generator.plans[thread].is_empty() && thread < LONG_LIVED {
            generator.plans[thread] = generator.last_plan();
        }
        generator.step(thread);
    }
    for thread in 1..LONG_LIVED {
        generator.push(thread, Op::End);
        generator.push(0, Op::Join(ThreadId::from_index(thread)));
    }
    generator.trace
}

/// The mutex of a condition.
fn lock_of(condition: usize) -> usize {
    condition
}

fn semaphore(which: usize) -> ObjectId {
    ObjectId::from_index(LOCKS.len() + which)
}

fn condition(which: usize) -> ObjectId {
    ObjectId::from_index(LOCKS.len() + SEMAPHORES + which)
}

fn once(which: usize) -> ObjectId {
    ObjectId::from_index(LOCKS.len() + SEMAPHORES + CONDITIONS + which)
}

fn barrier() -> ObjectId {
    once(ONCES)
}

impl Generator {
    fn set_up(&mut self, threads: usize) {
        self.trace.places.push(Place::default());
        self.trace.customs.push(Custom {
            name: if self.branches { "branch" } else { "mark" }.to_string(),
            fields: Vec::new(),
        });
        for t in 0..threads {
            self.trace.threads.push(Thread {
                name: format!("T{t}"),
                parent: (t > 0).then_some(ThreadId(0)),
            });
        }
        let others = [
            (ObjectKind::Semaphore, SEMAPHORES),
            (ObjectKind::Condition, CONDITIONS),
            (ObjectKind::Once, ONCES),
            (ObjectKind::Barrier, 1),
        ];
        let others = others.into_iter().flat_map(|(kind, n)| vec![kind; n]);
        for (i, kind) in LOCKS.into_iter().chain(others).enumerate() {
            self.trace.objects.push(Object {
                kind,
                address: 0,
                name: format!("o{i}"),
            });
        }
        for (which, value) in self.semaphores.into_iter().enumerate() {
            let sem = semaphore(which);
            self.push(0, Op::SemInit { sem, value });
        }
        let count = BARRIER_COUNT as u32;
        let barrier = barrier();
        self.push(0, Op::BarrierInit { barrier, count });
        for t in 1..LONG_LIVED {
            self.push(0, Op::Fork(ThreadId::from_index(t)));
            self.plans[t].push(Step::Start);
        }
    }

    fn push(&mut self, thread: usize, op: Op) {
        self.trace.events.push(Event {
            thread: ThreadId::from_index(thread),
            place: PlaceId(0),
            op,
        });
    }

    /// Up to `most` accesses to the variables of a lock.
    fn accesses(&mut self, lock: usize, most: usize) -> Vec<Step> {
        let count = 1 + self.random.below(most);
        let mut row = || self.random.below(VARIABLES / LOCKS.len()) * LOCKS.len();
        (0..count).map(|_| Step::Access(row() + lock)).collect()
    }

    fn section(&mut self, lock: usize) -> Vec<Step> {
        let shared = LOCKS[lock] == ObjectKind::ReaderWriterLock && self.random.below(3) > 0;
        let mut steps = vec![Step::Lock(lock, shared)];
        if self.random.below(20) == 0 {
            steps.insert(0, Step::TryLock(lock, shared));
        }
        steps.extend(self.accesses(lock, 3));
        if LOCKS[lock] == ObjectKind::RecursiveMutex && self.random.below(3) == 0 {
            steps.push(Step::Lock(lock, false));
            steps.extend(self.accesses(lock, 1));
            steps.push(Step::Unlock(lock));
        }
        let inner = lock + 1 + self.random.below(LOCKS.len() - lock);
        if inner < LOCKS.len() && self.random.below(7) == 0 {
            steps.push(Step::Lock(inner, false));
            steps.extend(self.accesses(inner, 1));
            steps.push(Step::Unlock(inner));
        }
        steps.push(Step::Unlock(lock));
        steps
    }

    fn plan(&mut self, thread: usize, length: usize) -> Vec<Step> {
        if !self.arrived.is_empty() && self.random.below(3) == 0
            || self.asleep.iter().any(|queue| !queue.is_empty()) && self.random.below(4) == 0
        {
            return self.last_plan();
        }
        let due = (self.forked + 1) * length / (SHORT_LIVED + 1);
        if self.forked < SHORT_LIVED && thread == 0 && self.trace.events.len() > due {
            let child = LONG_LIVED + self.forked;
            self.forked += 1;
            return reversed(vec![
                Step::Fork(child),
                Step::Access(0),
                Step::TryJoin(child),
                Step::Join(child),
            ]);
        }
        let which = self.random.below(2);
        reversed(match self.random.below(100) {
            0 => vec![Step::Enter, Step::Exit],
            1 => {
                let end = match self.random.below(4) {
                    0 => Step::TimeOut(which),
                    _ => Step::Sleep(which),
                };
                let lock = lock_of(which);
                vec![
                    Step::Lock(lock, false),
                    end,
                    Step::Access(lock),
                    Step::Unlock(lock),
                ]
            }
            2 | 3 => {
                let first = if self.random.below(4) == 0 {
                    Step::TrySemWait(which)
                } else {
                    Step::SemWait(which)
                };
                vec![
                    first,
                    Step::Access(self.random.below(VARIABLES)),
                    Step::SemPost(which),
                ]
            }
            4 => vec![
                Step::Access(self.random.below(VARIABLES)),
                Step::SemPost(HAND_OVER),
            ],
            5 if self.semaphores[HAND_OVER] > 0 => {
                vec![
                    Step::SemWait(HAND_OVER),
                    Step::Access(self.random.below(VARIABLES)),
                ]
            }
            6 => vec![Step::Once(self.random.below(ONCES))],
            7 | 8 => vec![Step::Access(self.random.below(VARIABLES))],
            9 => vec![Step::Fence],
            10..15 => vec![Step::Atomic],
            _ => {
                let lock = self.random.below(LOCKS.len());
                self.section(lock)
            }
        })
    }

    /// A plan that lets a waiting thread continue, if there is one.
    fn last_plan(&mut self) -> Vec<Step> {
        if !self.arrived.is_empty() {
            return reversed(vec![Step::Enter, Step::Exit]);
        }
        let waits = |plan: &Vec<Step>| matches!(plan.last(), Some(Step::SemWait(HAND_OVER)));
        if self.semaphores[HAND_OVER] == 0 && self.plans.iter().any(waits) {
            return vec![Step::SemPost(HAND_OVER)];
        }
        let Some(which) = self.asleep.iter().position(|queue| !queue.is_empty()) else {
            return Vec::new();
        };
        let wake = match self.random.below(3) {
            0 => Step::Broadcast(which),
            _ => Step::Signal(which),
        };
        let lock = lock_of(which);
        reversed(vec![Step::Lock(lock, false), wake, Step::Unlock(lock)])
    }

    fn is_free(&self, thread: usize, lock: usize, shared: bool) -> bool {
        match self.writer[lock] {
            Some((owner, _)) => owner == thread && LOCKS[lock] == ObjectKind::RecursiveMutex,
            None => shared || self.readers[lock].is_empty(),
        }
    }

    /// The next step of the thread's plan, if it is possible now.
    fn step(&mut self, thread: usize) {
        let Some(&step) = self.plans[thread].last() else {
            return;
        };
        let possible = match step {
            Step::Lock(lock, shared) => self.is_free(thread, lock, shared),
            Step::SemWait(which) => self.semaphores[which] > 0,
            Step::Once(which) => self.onces[which] != 1,
            Step::Woken(which) => !self.asleep[which].contains(&thread),
            Step::Exit => self.released.contains(&thread),
            Step::Join(child) => self.ended[child],
            _ => true,
        };
        if !possible {
            return;
        }
        self.plans[thread].pop();
        let last = (0..LONG_LIVED).all(|other| other == thread || self.waits(other));
        match step {
            // The last running thread has to wake the others.
            Step::Sleep(_) if last => {}
            Step::Enter if last && self.arrived.is_empty() => drop(self.plans[thread].pop()),
            _ => self.take(thread, step),
        }
    }

    /// Whether the thread waits for a step that another thread need not take.
    fn waits(&self, thread: usize) -> bool {
        match self.plans[thread].last() {
            Some(Step::Woken(which)) => self.asleep[*which].contains(&thread),
            Some(Step::Exit) => !self.released.contains(&thread),
            Some(Step::SemWait(HAND_OVER)) => self.semaphores[HAND_OVER] == 0,
            _ => false,
        }
    }

    fn take(&mut self, thread: usize, step: Step) {
        let op = match step {
            Step::Lock(lock, shared) => {
                let object = ObjectId::from_index(lock);
                if shared {
                    self.readers[lock].push(thread);
                    Op::ReadLock(object)
                } else {
                    let depth = self.writer[lock].map_or(0, |(_, depth)| depth);
                    self.writer[lock] = Some((thread, depth + 1));
                    Op::Lock(object)
                }
            }
            Step::TryLock(lock, shared) => {
                let object = ObjectId::from_index(lock);
                match (self.is_free(thread, lock, shared), shared) {
                    (true, _) => return,
                    (false, true) => Op::FailedReadLock(object),
                    (false, false) => Op::FailedLock(object),
                }
            }
            Step::Unlock(lock) => {
                self.unlock(thread, lock);
                return;
            }
            Step::Access(variable) => {
                self.access(thread, variable);
                return;
            }
            Step::Atomic => {
                self.atomic(thread);
                return;
            }
            Step::SemWait(which) => {
                self.semaphores[which] -= 1;
                Op::SemWait(semaphore(which))
            }
            Step::TrySemWait(which) if self.semaphores[which] == 0 => {
                // A failed wait has nothing to post.
                self.plans[thread].retain(|step| !matches!(step, Step::SemPost(_)));
                Op::FailedSemWait(semaphore(which))
            }
            Step::TrySemWait(which) => {
                self.semaphores[which] -= 1;
                Op::SemWait(semaphore(which))
            }
            Step::SemPost(which) => {
                self.semaphores[which] += 1;
                Op::SemPost(semaphore(which))
            }
            Step::Once(which) if self.onces[which] == 2 => Op::OncePass(once(which)),
            Step::Once(which) => {
                self.onces[which] = 1;
                let steps = [Step::OnceEnd(which), Step::Access(which)];
                self.plans[thread].extend(steps);
                Op::OnceBegin(once(which))
            }
            Step::OnceEnd(which) => {
                self.onces[which] = 2;
                Op::OnceEnd(once(which))
            }
            Step::Sleep(which) => {
                self.unlock(thread, lock_of(which));
                self.asleep[which].push(thread);
                let back = [Step::Lock(lock_of(which), false), Step::Woken(which)];
                self.plans[thread].extend(back);
                return;
            }
            Step::Woken(which) => Op::Wait(condition(which)),
            Step::TimeOut(which) => {
                self.unlock(thread, lock_of(which));
                self.plans[thread].push(Step::Lock(lock_of(which), false));
                Op::FailedWait(condition(which))
            }
            Step::Signal(which) => {
                if !self.asleep[which].is_empty() {
                    let sleeper = self.random.below(self.asleep[which].len());
                    self.asleep[which].remove(sleeper);
                }
                Op::Signal(condition(which))
            }
            Step::Broadcast(which) => {
                self.asleep[which].clear();
                Op::Broadcast(condition(which))
            }
            Step::Enter => {
                self.arrived.push(thread);
                if self.arrived.len() == BARRIER_COUNT {
                    self.released.append(&mut self.arrived);
                }
                Op::BarrierEnter(barrier())
            }
            Step::Exit => {
                self.released.retain(|&other| other != thread);
                Op::BarrierExit(barrier())
            }
            Step::Fork(child) => {
                let lock = self.random.below(LOCKS.len());
                let mut steps = vec![Step::Start, Step::Access(lock)];
                steps.extend(self.section(lock));
                steps.extend([Step::Atomic, Step::End]);
                self.plans[child] = reversed(steps);
                Op::Fork(ThreadId::from_index(child))
            }
            Step::Start => Op::Start,
            Step::TryJoin(child) if self.ended[child] => return,
            Step::TryJoin(child) => Op::FailedJoin(ThreadId::from_index(child)),
            Step::Join(child) => Op::Join(ThreadId::from_index(child)),
            Step::End => {
                self.ended[thread] = true;
                Op::End
            }
            Step::Fence => Op::Fence(MemoryOrder::SeqCst),
        };
        self.push(thread, op);
    }

    fn unlock(&mut self, thread: usize, lock: usize) {
        match &mut self.writer[lock] {
            Some((owner, depth)) if *owner == thread => {
                *depth -= 1;
                if *depth == 0 {
                    self.writer[lock] = None;
                }
            }
            _ => {
                let mine = self.readers[lock].iter().position(|&r| r == thread);
                self.readers[lock].remove(mine.expect("only a holder unlocks"));
            }
        }
        self.push(thread, Op::Unlock(ObjectId::from_index(lock)));
    }

    /// One variable in nine has 16 bytes, one in nine is a range.
    fn access(&mut self, thread: usize, variable: usize) {
        let size = [4, 4, 4, 4, 16, 4, 4, 4, 48][variable % 9];
        let access = Access {
            address: 0x1000 + 64 * variable as u64,
            size,
        };
        let event = EventIndex::from_index(self.trace.events.len());
        let mut value = Value {
            event,
            read: Vec::new(),
            written: Vec::new(),
        };
        if self.random.below(2) == 0 {
            self.memory[variable] = self.random.below(5) as u8;
            value.written = vec![self.memory[variable]; size as usize];
            self.push(thread, Op::Write(access));
        } else {
            value.read = vec![self.memory[variable]; size as usize];
            self.push(thread, Op::Read(access));
            if self.branches && self.random.below(2) == 0 {
                self.push(thread, Op::Custom(0));
            }
        }
        self.trace.values.push(value);
    }

    /// Adds an atomic access to one of four flags.
    fn atomic(&mut self, thread: usize) {
        let flag = self.random.below(4);
        let event = EventIndex::from_index(self.trace.events.len());
        let kind = [
            AtomicKind::Load,
            AtomicKind::Store,
            AtomicKind::ReadModifyWrite,
        ][self.random.below(3)];
        let before = self.flags[flag];
        let mut value = Value {
            event,
            read: vec![before, 0, 0, 0],
            written: Vec::new(),
        };
        if kind != AtomicKind::Load {
            self.flags[flag] = self.random.below(5) as u8;
            value.written = vec![self.flags[flag], 0, 0, 0];
        }
        if kind == AtomicKind::Store {
            value.read.clear();
        }
        self.trace.values.push(value);
        let (address, order) = (0x8000 + 64 * flag as u64, MemoryOrder::SeqCst);
        self.push(
            thread,
            Op::Atomic {
                address,
                size: 4,
                kind,
                order,
            },
        );
    }
}

fn reversed(mut steps: Vec<Step>) -> Vec<Step> {
    steps.reverse();
    steps
}
