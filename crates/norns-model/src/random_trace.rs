//! Small random traces, for tests: a legal run of random threads.
//!
//! The generator simulates the objects in a simple way of its own and, again and again, lets a
//! random thread do something random that is possible. The same seed gives the same trace.

use norns_random::Random;
use norns_trace::{
    Access, AtomicKind, Event, MemoryOrder, Object, ObjectId, ObjectKind, Op, Place, PlaceId,
    Thread, ThreadId, Trace,
};

use crate::state::OnceState;

/// What a random trace is made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub threads: usize,
    pub events: usize,
    pub locks: usize,
    pub variables: usize,
    /// Only what the RAPID format has: mutexes, reads, writes, fork and join.
    pub plain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Unborn,
    /// Forked, its first event is still to come.
    Born,
    Running,
    /// In the queue of the condition; woken or not.
    Asleep(bool),
    /// Woken, wants the mutex back.
    Woken,
    /// In the barrier; released or not.
    AtBarrier(bool),
    Ended,
}

struct Generator {
    random: Random,
    shape: Shape,
    trace: Trace,
    modes: Vec<Mode>,
    /// Held locks of each thread: the lock, and whether for writing.
    held: Vec<Vec<(usize, bool)>>,
    semaphore: u32,
    once: OnceState,
    allocated: bool,
    taken: bool,
}

const BARRIER_COUNT: u32 = 2;

/// The trace of a seed.
pub fn random_trace(seed: u64, shape: Shape) -> Trace {
    let mut generator = Generator {
        random: Random::new(seed),
        shape,
        trace: Trace {
            accesses_ordered: true,
            ..Trace::default()
        },
        modes: vec![Mode::Running; shape.threads],
        held: vec![Vec::new(); shape.threads],
        semaphore: 0,
        once: OnceState::Idle,
        allocated: false,
        taken: false,
    };
    generator.set_up();
    // Threads that do several things in a row finish their critical sections, which others can
    // then enter: this is where deadlocks come from.
    let longest_burst = [1, 4, 12][generator.random.below(3)];
    let mut tries = 0;
    while generator.trace.events.len() < shape.events && tries < 50 * shape.events {
        tries += 1;
        let thread = generator.random.below(shape.threads);
        for _ in 0..1 + generator.random.below(longest_burst) {
            generator.act(thread);
        }
    }
    generator.trace
}

impl Generator {
    fn set_up(&mut self) {
        for i in 0..self.shape.threads {
            self.trace.threads.push(Thread {
                name: format!("T{i}"),
                parent: None,
            });
            if i > 0 && self.random.below(3) == 0 {
                self.modes[i] = Mode::Unborn;
            }
        }
        let mut object = |kind, name: String| {
            self.trace.objects.push(Object {
                kind,
                address: 0,
                name,
            });
        };
        for i in 0..self.shape.locks {
            let kind = if self.shape.plain {
                ObjectKind::RecursiveMutex
            } else {
                match self.random.below(7) {
                    0 => ObjectKind::RecursiveMutex,
                    1 | 2 => ObjectKind::ReaderWriterLock,
                    3 => ObjectKind::RobustMutex,
                    4 => ObjectKind::ErrorCheckingMutex,
                    5 => ObjectKind::SpinLock,
                    _ => ObjectKind::Mutex,
                }
            };
            object(kind, format!("l{i}"));
        }
        for (kind, name) in [
            (ObjectKind::Semaphore, "s"),
            (ObjectKind::Condition, "c"),
            (ObjectKind::Barrier, "b"),
            (ObjectKind::Once, "o"),
            (ObjectKind::Channel, "p"),
            (ObjectKind::Channel, "q"),
            (ObjectKind::Mutex, "t"),
        ] {
            object(kind, name.to_string());
        }
        if !self.shape.plain {
            self.semaphore = self.random.below(2) as u32;
            let (sem, barrier) = (self.extra(0), self.extra(2));
            self.push(
                0,
                Op::SemInit {
                    sem,
                    value: self.semaphore,
                },
            );
            self.push(
                0,
                Op::BarrierInit {
                    barrier,
                    count: BARRIER_COUNT,
                },
            );
        }
    }

    /// The semaphore, the condition, the barrier, the once, two channels.
    fn extra(&self, which: usize) -> ObjectId {
        ObjectId::from_index(self.shape.locks + which)
    }

    fn push(&mut self, thread: usize, op: Op) {
        let place = PlaceId::from_index(self.trace.places.len());
        let pc = self.trace.places.len() as u64 + 1;
        self.trace.places.push(Place {
            pc,
            frames: Vec::new(),
        });
        self.trace.events.push(Event {
            thread: ThreadId::from_index(thread),
            place,
            op,
        });
    }

    fn act(&mut self, thread: usize) {
        match self.modes[thread] {
            Mode::Unborn | Mode::Ended | Mode::Asleep(false) | Mode::AtBarrier(false) => {}
            Mode::Born => {
                self.push(thread, Op::Start);
                self.modes[thread] = Mode::Running;
            }
            Mode::Asleep(true) => {
                self.push(thread, Op::Wait(self.extra(1)));
                self.modes[thread] = Mode::Woken;
            }
            Mode::Woken => {
                if self.free_for(thread, 0, true) {
                    self.push(thread, Op::Lock(ObjectId(0)));
                    self.held[thread].push((0, true));
                    self.modes[thread] = Mode::Running;
                }
            }
            Mode::AtBarrier(true) => {
                self.push(thread, Op::BarrierExit(self.extra(2)));
                self.modes[thread] = Mode::Running;
            }
            Mode::Running => self.run(thread),
        }
    }

    fn run(&mut self, thread: usize) {
        let variable = self.random.below(self.shape.variables) as u64;
        // Variables overlap now and then when sizes differ.
        let size = if !self.shape.plain && self.random.below(6) == 0 {
            [1, 12, 16, 24][self.random.below(4)]
        } else {
            4
        };
        let access = Access {
            address: 0x1000 + 8 * variable,
            size,
        };
        match self.random.below(if self.shape.plain { 12 } else { 25 }) {
            0 | 1 => self.acquire(thread),
            2 | 24 => self.nest(thread, access),
            3..6 => self.release(thread),
            6 | 7 => self.push(thread, Op::Read(access)),
            8 | 9 => self.push(thread, Op::Write(access)),
            10 => {
                if let Some(child) = self.modes.iter().position(|&mode| mode == Mode::Unborn) {
                    self.push(thread, Op::Fork(ThreadId::from_index(child)));
                    self.modes[child] = if self.shape.plain {
                        Mode::Running
                    } else {
                        Mode::Born
                    };
                }
            }
            11 => self.join_or_end(thread),
            12 => {
                if self.semaphore > 0 {
                    self.semaphore -= 1;
                    self.push(thread, Op::SemWait(self.extra(0)));
                } else {
                    self.push(thread, Op::FailedSemWait(self.extra(0)));
                }
            }
            13 => {
                self.semaphore += 1;
                self.push(thread, Op::SemPost(self.extra(0)));
            }
            14 | 15 => self.wait_for_condition(thread),
            16 => self.wake(thread),
            17 => self.enter_barrier(thread),
            18 => self.call_once(thread),
            19 => self.allocate_or_free(thread),
            20 => self.try_acquire(thread),
            21 if self.random.below(2) == 0 => self.send_or_receive(thread),
            21 => self.change_nothing(thread),
            22 => self.take_or_give(thread),
            23 if self.random.below(3) == 0 => self.live_or_die(thread, access),
            _ => {
                let kinds = [
                    AtomicKind::Load,
                    AtomicKind::Store,
                    AtomicKind::ReadModifyWrite,
                    AtomicKind::FailedExchange,
                ];
                let kind = kinds[self.random.below(4)];
                let order = MemoryOrder::SeqCst;
                let size = if size == 16 { 16 } else { 4 };
                self.push(
                    thread,
                    Op::Atomic {
                        address: access.address,
                        size,
                        kind,
                        order,
                    },
                );
            }
        }
    }

    fn free_for(&self, thread: usize, lock: usize, write: bool) -> bool {
        let kind = self.trace.objects[lock].kind;
        self.held.iter().enumerate().all(|(other, held)| {
            let gone = kind == ObjectKind::RobustMutex && self.modes[other] == Mode::Ended;
            let own = other == thread && kind == ObjectKind::RecursiveMutex;
            gone || own || !held.iter().any(|&(l, w)| l == lock && (w || write))
        })
    }

    fn acquire(&mut self, thread: usize) {
        let lock = self.random.below(self.shape.locks);
        let reader_writer = self.trace.objects[lock].kind == ObjectKind::ReaderWriterLock;
        let write = !reader_writer || self.random.below(2) == 0;
        if self.free_for(thread, lock, write) {
            self.held[thread].push((lock, write));
            let lock = ObjectId::from_index(lock);
            self.push(
                thread,
                if write {
                    Op::Lock(lock)
                } else {
                    Op::ReadLock(lock)
                },
            );
        }
    }

    /// Two critical sections, one in the other, at once: where deadlocks come from.
    fn nest(&mut self, thread: usize, access: Access) {
        let (outer, inner) = (
            self.random.below(self.shape.locks),
            self.random.below(self.shape.locks),
        );
        if outer == inner
            || !self.free_for(thread, outer, true)
            || !self.free_for(thread, inner, true)
        {
            return self.acquire(thread);
        }
        let (outer, inner) = (ObjectId::from_index(outer), ObjectId::from_index(inner));
        self.push(thread, Op::Lock(outer));
        self.push(thread, Op::Lock(inner));
        if self.random.below(2) == 0 {
            self.push(thread, Op::Write(access));
        }
        self.push(thread, Op::Unlock(inner));
        self.push(thread, Op::Unlock(outer));
    }

    /// Where it succeeds, an attempt is an acquisition like any other.
    fn try_acquire(&mut self, thread: usize) {
        let held = (0..self.shape.locks).find(|&lock| !self.free_for(thread, lock, false));
        let lock = held.unwrap_or(self.random.below(self.shape.locks));
        let reader_writer = self.trace.objects[lock].kind == ObjectKind::ReaderWriterLock;
        let write = !reader_writer || self.random.below(3) == 0;
        let object = ObjectId::from_index(lock);
        if self.free_for(thread, lock, write) {
            self.acquire(thread);
        } else if write {
            self.push(thread, Op::FailedLock(object));
        } else {
            self.push(thread, Op::FailedReadLock(object));
        }
    }

    fn send_or_receive(&mut self, thread: usize) {
        let which = self.random.below(2);
        let channel = self.extra(4 + which);
        let op = [Op::Send(channel), Op::Receive(channel)][self.random.below(2)];
        self.push(thread, op);
    }

    /// A mutex without an owner.
    fn take_or_give(&mut self, thread: usize) {
        let mutex = self.extra(6);
        if self.taken && self.random.below(3) > 0 {
            return self.push(thread, Op::FailedTake(mutex));
        }
        let op = if self.taken {
            Op::Give(mutex)
        } else {
            Op::Take(mutex)
        };
        self.taken = !self.taken;
        self.push(thread, op);
    }

    /// What is done with the object at these bytes.
    fn live_or_die(&mut self, thread: usize, object: Access) {
        let object = Access { size: 1, ..object };
        let misuse = Op::Misuse {
            object: self.extra(6),
            how: 1,
        };
        let op = match self.random.below(9) {
            0 => Op::Destroy(object),
            1 => Op::Initialise(object),
            2 => misuse,
            3 => Op::LoopExit(self.extra(6)),
            _ => Op::Use(object),
        };
        self.push(thread, op);
    }

    /// Events that leave everything as it is.
    fn change_nothing(&mut self, thread: usize) {
        let other = ThreadId::from_index(self.random.below(self.shape.threads));
        let born = !matches!(self.modes[other.index()], Mode::Unborn | Mode::Ended);
        match self.random.below(4) {
            0 | 1 if born && other.index() != thread && other.index() > 0 => {
                self.push(thread, Op::FailedJoin(other));
            }
            2 if born && other.index() != thread => self.push(thread, Op::Detach(other)),
            _ => self.push(thread, Op::Fence(MemoryOrder::SeqCst)),
        }
    }

    fn release(&mut self, thread: usize) {
        if self.held[thread].is_empty() {
            return;
        }
        let last = self.held[thread].len() - 1;
        let which = if self.random.below(6) == 0 {
            self.random.below(last + 1)
        } else {
            last
        };
        let (lock, _) = self.held[thread].remove(which);
        self.push(thread, Op::Unlock(ObjectId::from_index(lock)));
    }

    fn join_or_end(&mut self, thread: usize) {
        let ended: Vec<usize> = (0..self.shape.threads)
            .filter(|&t| self.modes[t] == Mode::Ended)
            .collect();
        if !ended.is_empty() && self.random.below(2) == 0 {
            let child = ended[self.random.below(ended.len())];
            self.push(thread, Op::Join(ThreadId::from_index(child)));
        } else if self.random.below(2) == 0 && thread > 0 {
            if !self.shape.plain {
                if self.once == OnceState::RunBy(ThreadId::from_index(thread)) {
                    return;
                }
                self.push(thread, Op::End);
            }
            self.modes[thread] = Mode::Ended;
        }
    }

    fn wait_for_condition(&mut self, thread: usize) {
        let mutex = self.trace.objects[0].kind;
        let held = self.held[thread].iter().filter(|hold| hold.0 == 0).count();
        if held == 1
            && mutex != ObjectKind::ReaderWriterLock
            && let Some(at) = self.held[thread].iter().position(|hold| hold.0 == 0)
        {
            self.held[thread].remove(at);
            self.push(thread, Op::Unlock(ObjectId(0)));
            if self.random.below(4) == 0 {
                self.push(thread, Op::FailedWait(self.extra(1)));
                self.modes[thread] = Mode::Woken;
            } else {
                // Now and then it wakes spuriously.
                self.modes[thread] = Mode::Asleep(self.random.below(6) == 0);
            }
        } else if self.free_for(thread, 0, true) && mutex != ObjectKind::ReaderWriterLock {
            self.held[thread].push((0, true));
            self.push(thread, Op::Lock(ObjectId(0)));
        }
    }

    fn wake(&mut self, thread: usize) {
        let asleep: Vec<usize> = (0..self.shape.threads)
            .filter(|&t| self.modes[t] == Mode::Asleep(false))
            .collect();
        if self.random.below(4) == 0 {
            self.push(thread, Op::Broadcast(self.extra(1)));
            for sleeper in asleep {
                self.modes[sleeper] = Mode::Asleep(true);
            }
        } else {
            self.push(thread, Op::Signal(self.extra(1)));
            if !asleep.is_empty() {
                let sleeper = asleep[self.random.below(asleep.len())];
                self.modes[sleeper] = Mode::Asleep(true);
            }
        }
    }

    fn enter_barrier(&mut self, thread: usize) {
        self.push(thread, Op::BarrierEnter(self.extra(2)));
        self.modes[thread] = Mode::AtBarrier(false);
        let waiting: Vec<usize> = (0..self.shape.threads)
            .filter(|&t| self.modes[t] == Mode::AtBarrier(false))
            .collect();
        if waiting.len() == BARRIER_COUNT as usize {
            for other in waiting {
                self.modes[other] = Mode::AtBarrier(true);
            }
        }
    }

    fn call_once(&mut self, thread: usize) {
        match self.once {
            OnceState::Idle => {
                self.push(thread, Op::OnceBegin(self.extra(3)));
                self.once = OnceState::RunBy(ThreadId::from_index(thread));
            }
            OnceState::RunBy(runner) => {
                if runner.index() == thread {
                    self.push(thread, Op::OnceEnd(self.extra(3)));
                    self.once = OnceState::Done;
                }
            }
            OnceState::Done => self.push(thread, Op::OncePass(self.extra(3))),
        }
    }

    fn allocate_or_free(&mut self, thread: usize) {
        let block = Access {
            address: 0x1000,
            size: 8,
        };
        let op = if self.allocated {
            Op::Free(block)
        } else {
            Op::Allocate(block)
        };
        self.allocated = !self.allocated;
        self.push(thread, op);
    }
}
