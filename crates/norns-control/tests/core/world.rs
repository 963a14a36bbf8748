//! A program simulated from a trace: its threads do the events of the trace, its locks and
//! semaphores are real in this world, and time is a number. Whichever thread can run next is drawn
//! at random, which stands for the scheduler of the operating system.

use norns_control::{
    Access, Act, Answer, Core, Effect, Happened, How, Line, Mode, Once, Operation, Question, Slot,
    Stop, Thread, Tried, Turn, Waking,
};
use norns_random::Random;
use norns_trace::{
    AtomicKind, EventIndex, ObjectId, ObjectKind, Op, ThreadId, Touch, TouchKind, Trace,
};
use norns_wire::Code;

/// Objects have addresses that no thread has as its number.
const FIRST_OBJECT: usize = 1 << 20;
const MILLISECOND: i64 = 1_000_000;
/// A run that does more than this does not end.
const MOST_STEPS: usize = 200_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its creator has not come so far.
    Unborn,
    Runs,
    /// Until this time, or until woken; `deaf` threads cannot be woken.
    Sleeps {
        until: Option<i64>,
        deaf: bool,
    },
    /// Has no more events, or has left the way of the trace: sleeps in the kernel.
    Gone,
    Ended,
}

struct Simulated {
    state: State,
    events: Vec<EventIndex>,
    /// The next event, and how far the thread is in it.
    at: usize,
    phase: u32,
    /// How its last sleep ended; `None` when it is not inside the core.
    woke: Option<Waking>,
    /// The barrier round that it entered.
    round: u32,
}

#[derive(Clone, Default)]
struct Lock {
    /// Thread and depth.
    writer: Option<(usize, u32)>,
    readers: Vec<usize>,
}

pub struct World<'m> {
    trace: &'m Trace,
    pub core: Box<Core<'m>>,
    memory: std::slice::IterMut<'m, Thread>,
    threads: Vec<Simulated>,
    locks: Vec<Lock>,
    semaphores: Vec<u32>,
    onces_done: Vec<bool>,
    random: Random,
    pub now: i64,
    /// Everything that the core answered.
    pub acts: Vec<(usize, Act)>,
    pub lines: Vec<Line>,
    /// The events that were done, in order.
    pub done: Vec<EventIndex>,
    pub stop: Option<Stop>,
    /// Once the schedule is done, these threads run before all others.
    pub first: Vec<usize>,
}

impl<'m> World<'m> {
    /// Threads that no event creates run from the beginning.
    pub fn new(trace: &'m Trace, core: Box<Core<'m>>, memory: &'m mut [Thread], seed: u64) -> Self {
        let objects = trace.objects.len();
        let mut world = World {
            trace,
            core,
            memory: memory.iter_mut(),
            threads: Vec::new(),
            locks: vec![Lock::default(); objects],
            semaphores: vec![0; objects],
            onces_done: vec![false; objects],
            random: Random::new(seed),
            now: 1,
            acts: Vec::new(),
            lines: Vec::new(),
            done: Vec::new(),
            stop: None,
            first: Vec::new(),
        };
        // Objects are initialised before the run: that is no scheduling point.
        for event in &trace.events {
            match event.op {
                Op::SemInit { sem, value } => world.semaphores[sem.index()] = value,
                Op::BarrierInit { barrier, count } => {
                    world.core.init_barrier(address(barrier), count);
                }
                _ => {}
            }
        }
        for (index, thread) in trace.threads.iter().enumerate() {
            let id = ThreadId::from_index(index);
            let events = (0..trace.events.len()).map(EventIndex::from_index);
            let events = events.filter(|event| trace.events[event.index()].thread == id);
            let is_created = trace.events.iter().any(|event| event.op == Op::Fork(id));
            world.threads.push(Simulated {
                state: if is_created {
                    State::Unborn
                } else {
                    State::Runs
                },
                events: events.collect(),
                at: 0,
                phase: 0,
                woke: None,
                round: 0,
            });
            if !is_created {
                let memory = world.memory.next().expect("one for each thread");
                assert!(world.core.add_running(slot(index), memory, &thread.name));
            }
        }
        world
    }

    /// Makes operations scheduling points from the beginning: a thread is created, and fails to be.
    pub fn start(&mut self) {
        let memory = self.memory.next().expect("one more than threads");
        let nobody = self.threads.len();
        assert!(self.core.add_child(slot(nobody), memory, "nobody"));
        self.core.step(slot(nobody), Happened::NotCreated, self.now);
        self.take_effects();
    }

    /// Runs until the core stops the program, or no thread can do anything more.
    pub fn run(&mut self) {
        while self.stop.is_none() {
            assert!(self.acts.len() < MOST_STEPS, "the program does not end");
            let able: Vec<usize> = (0..self.threads.len())
                .filter(|&thread| self.threads[thread].state == State::Runs)
                .collect();
            let free = self
                .lines
                .iter()
                .any(|line| matches!(line, Line::Followed { .. }));
            let first = able
                .iter()
                .find(|thread| free && self.first.contains(thread));
            if let Some(&thread) = first {
                self.advance(thread);
            } else if !able.is_empty() {
                let drawn = self.random.below(able.len());
                self.advance(able[drawn]);
            } else if !self.let_time_pass() {
                break;
            }
        }
    }

    /// Goes on to the time at which the next sleep ends; false when none does, or when nothing but
    /// sleeping has happened for too long.
    fn let_time_pass(&mut self) -> bool {
        const LONGEST: i64 = 60_000 * MILLISECOND;
        let ends = self.threads.iter().filter_map(|thread| match thread.state {
            State::Sleeps { until, .. } => until,
            _ => None,
        });
        let Some(next) = ends.min().filter(|_| self.now < LONGEST) else {
            return false;
        };
        self.now = self.now.max(next);
        for thread in &mut self.threads {
            if let State::Sleeps {
                until: Some(until), ..
            } = thread.state
                && until <= self.now
            {
                thread.state = State::Runs;
                thread.woke = Some(Waking::TimeOut);
            }
        }
        true
    }

    /// Whether the thread has done all its events, or stands before this one.
    pub fn next_event(&self, thread: usize) -> Option<EventIndex> {
        let thread = &self.threads[thread];
        thread.events.get(thread.at).copied()
    }

    fn take_effects(&mut self) {
        while let Some(line) = self.core.next_line() {
            self.lines.push(line);
        }
        while let Some(effect) = self.core.next_effect() {
            if let Effect::Wake(slot) = effect
                && let Some(thread) = self.threads.get_mut(slot.index())
                && matches!(thread.state, State::Sleeps { deaf: false, .. })
            {
                thread.state = State::Runs;
                thread.woke = Some(Waking::Woken);
            }
        }
    }

    fn step(&mut self, thread: usize, what: Happened) -> Act {
        self.now += 1000;
        let act = self.core.step(slot(thread), what, self.now);
        self.acts.push((thread, act));
        self.take_effects();
        act
    }

    /// The thread runs until it sleeps, or has done one event.
    fn advance(&mut self, thread: usize) {
        let mut act = match self.threads[thread].woke.take() {
            Some(waking) => self.step(thread, Happened::Woke(waking)),
            None => match self.begin(thread) {
                Some(act) => act,
                None => return,
            },
        };
        loop {
            let next = match act {
                Act::Go(turn) => {
                    self.end_phase(thread, turn);
                    return;
                }
                Act::Try => {
                    let tried = self.attempt(thread);
                    Happened::Tried(tried)
                }
                Act::Sleep(nap) => {
                    let until = nap.map(|nap| self.now + nap);
                    return self.threads[thread].state = State::Sleeps { until, deaf: false };
                }
                Act::SleepOut(nap) => {
                    let until = Some(self.now + nap);
                    return self.threads[thread].state = State::Sleeps { until, deaf: true };
                }
                Act::Ask(question) => Happened::Answers(self.answer(question)),
                Act::Again | Act::TestCancel => Happened::Again,
                Act::Stop(stop) => return self.stop = Some(stop),
            };
            act = self.step(thread, next);
        }
    }

    fn answer(&self, question: Question) -> Answer {
        match question {
            Question::AllAsleep => {
                let gone = |slot: Slot| self.threads[slot.index()].state == State::Gone;
                Answer::AllAsleep(self.core.running().all(gone))
            }
            Question::SignalCouldHelp => Answer::SignalCouldHelp(false),
            Question::ProcessorTime(_) => Answer::ProcessorTime(self.now),
            Question::TurnHolder(_) => Answer::TurnHolder {
                events: self.acts.len() as u64,
                asleep: false,
                processor: 0,
            },
        }
    }

    /// What the thread tells the core first, in this phase of its next event. `None` when the event
    /// is nothing to the core, and done, or when there is none.
    fn begin(&mut self, thread: usize) -> Option<Act> {
        let Some(event) = self.next_event(thread) else {
            self.threads[thread].state = State::Gone;
            return None;
        };
        let happened = self.arrival(thread, event);
        if happened.is_none() {
            self.done(thread);
        }
        Some(self.step(thread, happened?))
    }

    fn op(&self, event: EventIndex) -> Op {
        self.trace.events[event.index()].op
    }

    fn arrival(&mut self, thread: usize, event: EventIndex) -> Option<Happened> {
        let pc = self.trace.place(self.trace.events[event.index()].place).pc as usize;
        let phase = self.threads[thread].phase;
        let on = |code, object| Operation::new(code, address(object), pc);
        let may_fail = |operation: Operation| Operation {
            may_fail: true,
            ..operation
        };
        let tried = How::Tried { deadline: None };
        let (operation, how) = match self.op(event) {
            Op::Start if phase == 0 => return Some(Happened::Begins),
            Op::Start => (Operation::new(Code::Start, 0, pc), How::AtItsTurn),
            Op::End => (Operation::new(Code::End, 0, pc), How::AtItsTurn),
            Op::Fork(child) => {
                let name = &self.trace.thread(child).name;
                let memory = self.memory.next().expect("one for each thread");
                assert!(self.core.add_child(slot(child.index()), memory, name));
                self.take_effects();
                let operation = Operation::new(Code::Fork, child.index(), pc);
                (operation, How::AtItsTurn)
            }
            Op::Join(child) => {
                let (thread, deadline) = (slot(child.index()), None);
                let operation = Operation::new(Code::Join, child.index(), pc);
                (operation, How::Ended { thread, deadline })
            }
            Op::FailedJoin(child) => {
                let operation = Operation::new(Code::Join, child.index(), pc);
                (may_fail(operation), How::AtItsTurn)
            }
            Op::Lock(lock) => (on(Code::Lock, lock), tried),
            Op::ReadLock(lock) => (on(Code::ReadLock, lock), tried),
            Op::SemWait(sem) => (on(Code::SemWait, sem), tried),
            Op::FailedLock(lock) => (may_fail(on(Code::Lock, lock)), How::TriedIfScheduled),
            Op::FailedReadLock(lock) => (may_fail(on(Code::ReadLock, lock)), How::TriedIfScheduled),
            Op::FailedSemWait(sem) => (may_fail(on(Code::SemWait, sem)), How::TriedIfScheduled),
            Op::Unlock(lock) => (on(Code::Unlock, lock), How::AtItsTurn),
            Op::OnceBegin(once) | Op::OncePass(once) => (on(Code::OnceBegin, once), tried),
            Op::OnceEnd(once) => (on(Code::OnceEnd, once), How::AtItsTurn),
            Op::Wait(condition) => {
                let deadline = None;
                (on(Code::Wait, condition), How::Signalled { deadline })
            }
            Op::FailedWait(condition) => {
                let deadline = Some(self.now + MILLISECOND);
                (
                    may_fail(on(Code::Wait, condition)),
                    How::Signalled { deadline },
                )
            }
            Op::Signal(condition) => (on(Code::Signal, condition), How::AtItsTurn),
            Op::Broadcast(condition) => (on(Code::Broadcast, condition), How::AtItsTurn),
            Op::BarrierEnter(barrier) => (on(Code::BarrierEnter, barrier), How::AtItsTurn),
            Op::BarrierExit(barrier) => {
                let round = self.threads[thread].round;
                (on(Code::BarrierExit, barrier), How::RoundOver { round })
            }
            Op::SemPost(sem) => (on(Code::SemPost, sem), How::AtItsTurn),
            Op::Atomic {
                address,
                size,
                kind,
                ..
            } => {
                let address = address as usize;
                if phase == 0 {
                    let write = !matches!(kind, AtomicKind::Load | AtomicKind::FailedExchange);
                    return Some(Happened::Accesses(Access {
                        address,
                        size: usize::from(size),
                        write,
                        atomic: true,
                        pc,
                    }));
                }
                let operation = Operation {
                    atomic: kind.number().min(2),
                    may_fail: kind.number() > 1,
                    ..Operation::new(Code::Atomic, address, pc)
                };
                (operation, How::AtItsTurn)
            }
            Op::Custom(_) => (Operation::new(Code::Custom, 0, pc), How::AtItsTurn),
            op => {
                // Also what an operation on an object does to its memory: the runtime tells it as
                // an access of its own.
                let touch = Touch::of(op).filter(|touch| touch.kind != TouchKind::Allocate)?;
                return Some(Happened::Accesses(Access {
                    address: touch.access.address as usize,
                    size: touch.access.size as usize,
                    write: touch.writes,
                    atomic: false,
                    pc,
                }));
            }
        };
        Some(Happened::Arrives(operation, how))
    }

    /// Tries the operation that the thread stands before.
    fn attempt(&mut self, thread: usize) -> Tried {
        let Some(event) = self.next_event(thread) else {
            return Tried::Over;
        };
        match self.op(event) {
            Op::Lock(lock) | Op::FailedLock(lock) if self.can_lock(thread, lock) => {
                let writer = &mut self.locks[lock.index()].writer;
                let depth = writer
                    .filter(|(owner, _)| *owner == thread)
                    .map_or(0, |(_, n)| n);
                *writer = Some((thread, depth + 1));
                Tried::Got(Mode::Exclusive)
            }
            Op::ReadLock(lock) | Op::FailedReadLock(lock) if self.can_read_lock(lock) => {
                self.locks[lock.index()].readers.push(thread);
                Tried::Got(Mode::Shared)
            }
            Op::SemWait(sem) | Op::FailedSemWait(sem) if self.semaphores[sem.index()] > 0 => {
                self.semaphores[sem.index()] -= 1;
                Tried::Over
            }
            Op::OnceBegin(once) | Op::OncePass(once) => {
                let done = self.onces_done[once.index()];
                match self.core.try_once(address(once), done, false) {
                    Once::Wait => Tried::Busy,
                    Once::Pass => Tried::Over,
                    Once::Run => {
                        assert!(self.core.run_once(address(once)));
                        Tried::Over
                    }
                }
            }
            _ => Tried::Busy,
        }
    }

    fn can_lock(&self, thread: usize, lock: ObjectId) -> bool {
        let kind = self.trace.object(lock).kind;
        let Lock { writer, readers } = &self.locks[lock.index()];
        let is_dead = |owner: usize| {
            kind == ObjectKind::RobustMutex && self.threads[owner].state == State::Ended
        };
        let is_mine = |owner| kind == ObjectKind::RecursiveMutex && owner == thread;
        readers.is_empty() && writer.is_none_or(|(owner, _)| is_dead(owner) || is_mine(owner))
    }

    fn can_read_lock(&self, lock: ObjectId) -> bool {
        self.locks[lock.index()].writer.is_none()
    }

    /// The core lets the thread go: what it was told to do is in effect.
    fn end_phase(&mut self, thread: usize, turn: Turn) {
        let Some(event) = self.next_event(thread) else {
            return;
        };
        let op = self.op(event);
        let phases = if matches!(op, Op::Start | Op::Atomic { .. }) {
            2
        } else {
            1
        };
        self.threads[thread].phase += 1;
        if self.threads[thread].phase < phases {
            return;
        }
        let failed = matches!(
            op,
            Op::FailedLock(_)
                | Op::FailedReadLock(_)
                | Op::FailedSemWait(_)
                | Op::FailedJoin(_)
                | Op::FailedWait(_)
        );
        if failed != (turn == Turn::Fails) {
            // Without a schedule the thread does what it did in the trace, or no more.
            assert!(turn == Turn::Free, "{op:?} came out as {turn:?}");
            if failed {
                return self.threads[thread].state = State::Gone;
            }
        }
        self.take_effect(thread, op, turn);
        self.done(thread);
    }

    fn done(&mut self, thread: usize) {
        let event = self.next_event(thread).expect("the event that is done");
        self.done.push(event);
        let thread = &mut self.threads[thread];
        thread.at += 1;
        thread.phase = 0;
    }

    fn complete(&mut self, thread: usize, object: ObjectId) {
        self.step(thread, Happened::Completes);
        self.step(thread, Happened::Changes(address(object)));
    }

    fn take_effect(&mut self, thread: usize, op: Op, turn: Turn) {
        match op {
            Op::Start | Op::Custom(_) => {
                self.step(thread, Happened::Completes);
            }
            Op::End => {
                self.step(thread, Happened::Ends);
                self.threads[thread].state = State::Ended;
            }
            Op::Fork(child) => {
                self.core
                    .step(slot(child.index()), Happened::Created, self.now);
                self.threads[child.index()].state = State::Runs;
                self.step(thread, Happened::Completes);
                self.step(thread, Happened::Changes(child.index()));
            }
            Op::FailedJoin(_) if turn != Turn::Free => {
                self.step(thread, Happened::Completes);
            }
            Op::Unlock(lock) => {
                let next = self.threads[thread].events.get(self.threads[thread].at + 1);
                if let Some(Op::Wait(condition) | Op::FailedWait(condition)) =
                    next.map(|event| self.op(*event))
                {
                    let condition = address(condition);
                    self.step(thread, Happened::BeginsWait { condition });
                }
                self.step(thread, Happened::Releases(address(lock)));
                self.unlock(thread, lock);
                self.complete(thread, lock);
            }
            Op::Wait(_) | Op::FailedWait(_) => {
                self.step(thread, Happened::EndsWait);
            }
            Op::Signal(condition) | Op::Broadcast(condition) => {
                let all = matches!(op, Op::Broadcast(_));
                let signals = Happened::Signals {
                    condition: address(condition),
                    all,
                };
                self.step(thread, signals);
                self.complete(thread, condition);
            }
            Op::OnceEnd(once) => {
                self.onces_done[once.index()] = true;
                self.core.forget_once(address(once));
                self.complete(thread, once);
            }
            Op::BarrierEnter(barrier) => {
                let (round, _) = self.core.arrive_at_barrier(address(barrier));
                self.threads[thread].round = round;
                self.complete(thread, barrier);
            }
            Op::SemPost(sem) => {
                self.semaphores[sem.index()] += 1;
                self.complete(thread, sem);
            }
            Op::Atomic { address, kind, .. } => {
                let completes = Happened::CompletesAtomic {
                    address: address as usize,
                    pc: 0,
                    succeeded: kind != AtomicKind::FailedExchange,
                };
                if let Act::Stop(stop) = self.step(thread, completes) {
                    self.stop = Some(stop);
                }
            }
            _ => {}
        }
    }

    fn unlock(&mut self, thread: usize, lock: ObjectId) {
        let lock = &mut self.locks[lock.index()];
        match &mut lock.writer {
            Some((owner, depth)) if *owner == thread => {
                *depth -= 1;
                if *depth == 0 {
                    lock.writer = None;
                }
            }
            _ => {
                let at = lock.readers.iter().position(|reader| *reader == thread);
                lock.readers
                    .remove(at.expect("only who holds a lock releases it"));
            }
        }
    }
}

pub fn slot(thread: usize) -> Slot {
    Slot(thread as u32)
}

fn address(object: ObjectId) -> usize {
    FIRST_OBJECT + object.index()
}
