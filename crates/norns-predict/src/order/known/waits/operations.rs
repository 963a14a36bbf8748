//! The abstraction of a trace to what makes threads wait for each other, and its transitions.
//!
//! Each thread is reduced to its operations on condition variables, semaphores and barriers. A
//! state says how many of them each thread has done. More is allowed than in a schedule: locks are
//! ignored, and so are failed waits on semaphores. A wait counts as done at the moment of the signal
//! that wakes it, and the exit of a barrier at the moment when its round is full.

use norns_model::{Model, State as ModelState};
use norns_trace::effect::{OnBarrier, OnCondition, OnSemaphore};
use norns_trace::{Effect, EventIndex, ObjectId};
use rustc_hash::FxHashMap;

use crate::order::known::clocks::Clocks;

/// An operation that makes a thread wait, or lets another one continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOp {
    /// Waits on a condition variable.
    Wait(ObjectId),
    Signal(ObjectId),
    Broadcast(ObjectId),
    /// Posts a semaphore.
    Post(ObjectId),
    /// Waits on a semaphore.
    Acquire(ObjectId),
    EnterBarrier(ObjectId),
    /// Follows every entry. A thread that ends inside a barrier has one as well, after its last
    /// event.
    LeaveBarrier(ObjectId),
}

impl WaitOp {
    pub fn object(self) -> ObjectId {
        match self {
            WaitOp::Wait(o) | WaitOp::Signal(o) | WaitOp::Broadcast(o) => o,
            WaitOp::Post(o) | WaitOp::Acquire(o) => o,
            WaitOp::EnterBarrier(o) | WaitOp::LeaveBarrier(o) => o,
        }
    }

    /// Whether an operation of another thread completes this one.
    pub fn is_passive(self) -> bool {
        matches!(self, WaitOp::Wait(_) | WaitOp::LeaveBarrier(_))
    }

    /// What it adds to the value of a semaphore.
    fn change(self) -> i64 {
        match self {
            WaitOp::Post(_) => 1,
            WaitOp::Acquire(_) => -1,
            WaitOp::Wait(_)
            | WaitOp::Signal(_)
            | WaitOp::Broadcast(_)
            | WaitOp::EnterBarrier(_)
            | WaitOp::LeaveBarrier(_) => 0,
        }
    }
}

/// How many operations each thread has done, packed into one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitState(u128);

impl WaitState {
    pub const INITIAL: WaitState = WaitState(0);

    /// The state in which `thread` has done one operation more.
    fn after_next(self, thread: &ThreadOps) -> WaitState {
        WaitState(self.0 + (1 << thread.shift))
    }
}

/// A thread has to have done this many operations.
struct Precedence {
    thread: usize,
    count: usize,
}

/// What a thread adds to the value of one semaphore.
struct Balance {
    object: ObjectId,
    /// Posts minus acquisitions after each number of operations.
    after: Vec<i64>,
}

/// The operations of one thread.
#[derive(Default)]
pub struct ThreadOps {
    pub ops: Vec<WaitOp>,
    /// The position of each operation in its thread, in ascending order.
    pub positions: Vec<u32>,
    /// For each operation, what must-happen-before requires of other threads, in addition to what it
    /// requires for the operations before.
    preceded_by: Vec<Vec<Precedence>>,
    /// One for each semaphore that the thread uses.
    balances: Vec<Balance>,
    /// Where the number of operations stands in a `WaitState`.
    shift: u32,
    mask: u128,
}

impl ThreadOps {
    /// How many operations the thread has done in a state.
    pub fn done(&self, state: WaitState) -> usize {
        ((state.0 >> self.shift) & self.mask) as usize
    }

    pub fn next(&self, state: WaitState) -> Option<WaitOp> {
        self.ops.get(self.done(state)).copied()
    }

    /// How many operations come before this position of the thread.
    pub fn count_before(&self, position: u32) -> usize {
        self.positions.partition_point(|&other| other < position)
    }

    fn push(&mut self, op: WaitOp, position: usize) {
        self.ops.push(op);
        self.positions.push(position as u32);
    }

    /// Chooses the bits of a state that belong to this thread, from `shift` on. Returns the first
    /// bit after them, `None` if a state does not have as many.
    fn set_bits(&mut self, shift: u32) -> Option<u32> {
        let bits = usize::BITS - self.ops.len().leading_zeros();
        self.shift = shift;
        self.mask = (1u128 << bits) - 1;
        Some(shift + bits).filter(|&end| end < u128::BITS)
    }

    fn set_balances(&mut self) {
        for &op in &self.ops {
            if op.change() != 0 && !self.balances.iter().any(|b| b.object == op.object()) {
                self.balances.push(Balance {
                    object: op.object(),
                    after: vec![0],
                });
            }
        }
        for &op in &self.ops {
            for balance in &mut self.balances {
                let same = op.object() == balance.object;
                let change = if same { op.change() } else { 0 };
                balance
                    .after
                    .push(balance.after[balance.after.len() - 1] + change);
            }
        }
    }
}

/// A broadcast with more sleepers than this is not explored: it can wake any combination of them.
const MOST_SLEEPERS: usize = 10;

/// The operations of all threads. `None` if a state does not fit into its number, or if the use of
/// a barrier is not understood.
pub fn thread_ops(model: &Model<'_>, clocks: &Clocks) -> Option<Vec<ThreadOps>> {
    let waited_for = waited_for(model);
    let mut threads: Vec<ThreadOps> = Vec::new();
    // For each operation, the event whose predecessors in must-happen-before have to be done first:
    // for a wait the `Unlock` that begins it.
    let mut enabled_by: Vec<Vec<EventIndex>> = Vec::new();
    for events in &model.threads {
        let mut ops = ThreadOps::default();
        let mut own_enabled_by = Vec::new();
        for (k, &event) in events.iter().enumerate() {
            let op = match model.op(event).effect() {
                Effect::Condition(o, act) if waited_for[o.index()] => match act {
                    OnCondition::Wait if model.wait_needs_signal(event) && k > 0 => WaitOp::Wait(o),
                    OnCondition::Wait | OnCondition::TimedOut => continue,
                    OnCondition::Signal => WaitOp::Signal(o),
                    OnCondition::Broadcast => WaitOp::Broadcast(o),
                },
                Effect::Semaphore(o, act) if waited_for[o.index()] => match act {
                    OnSemaphore::Wait => WaitOp::Acquire(o),
                    OnSemaphore::Post => WaitOp::Post(o),
                    OnSemaphore::Init(_) | OnSemaphore::FailedWait => continue,
                },
                Effect::Barrier(o, act) => match act {
                    OnBarrier::Enter => WaitOp::EnterBarrier(o),
                    OnBarrier::Exit if ops.ops.last() == Some(&WaitOp::EnterBarrier(o)) => {
                        WaitOp::LeaveBarrier(o)
                    }
                    OnBarrier::Exit | OnBarrier::Init(_) => continue,
                },
                Effect::Condition(..)
                | Effect::Semaphore(..)
                | Effect::Thread(_)
                | Effect::Lock(..)
                | Effect::Once(..)
                | Effect::Channel(..)
                | Effect::Memory(_)
                | Effect::Local => continue,
            };
            ops.push(op, k);
            own_enabled_by.push(match op {
                WaitOp::Wait(_) => events[k - 1],
                WaitOp::Signal(_)
                | WaitOp::Broadcast(_)
                | WaitOp::Post(_)
                | WaitOp::Acquire(_)
                | WaitOp::EnterBarrier(_)
                | WaitOp::LeaveBarrier(_) => event,
            });
        }
        let last = (ops.ops.last(), own_enabled_by.last());
        if let (Some(&WaitOp::EnterBarrier(o)), Some(&last)) = last {
            ops.push(WaitOp::LeaveBarrier(o), events.len());
            own_enabled_by.push(last);
        }
        // What an entry means that its exit does not follow is not defined.
        let is_undefined = ops.ops.windows(2).any(|pair| match pair[0] {
            WaitOp::EnterBarrier(o) => pair[1] != WaitOp::LeaveBarrier(o),
            WaitOp::Wait(_)
            | WaitOp::Signal(_)
            | WaitOp::Broadcast(_)
            | WaitOp::Post(_)
            | WaitOp::Acquire(_)
            | WaitOp::LeaveBarrier(_) => false,
        });
        if is_undefined {
            return None;
        }
        threads.push(ops);
        enabled_by.push(own_enabled_by);
    }
    let mut shift = 0;
    for ops in &mut threads {
        shift = ops.set_bits(shift)?;
        ops.set_balances();
    }
    for (t, enabled_by) in enabled_by.iter().enumerate() {
        threads[t].preceded_by = precedences(&threads, t, enabled_by, clocks);
    }
    Some(threads)
}

/// For each operation of thread `t`, what must-happen-before requires of other threads and did not
/// require of the operation before.
fn precedences(
    threads: &[ThreadOps],
    t: usize,
    enabled_by: &[EventIndex],
    clocks: &Clocks,
) -> Vec<Vec<Precedence>> {
    let mut before = vec![0; threads.len()];
    let precedences = enabled_by.iter().map(|&event| {
        let mut new = Vec::new();
        for (thread, other) in threads.iter().enumerate().filter(|(s, _)| *s != t) {
            let count = other.count_before(clocks.known(event, thread));
            if count > before[thread] {
                before[thread] = count;
                new.push(Precedence { thread, count });
            }
        }
        new
    });
    precedences.collect()
}

/// For every object whether some thread waits on it for another one.
fn waited_for(model: &Model<'_>) -> Vec<bool> {
    let mut waited_for = vec![false; model.trace.objects.len()];
    let start = ModelState::initial(model);
    for thread in &model.threads {
        let mut taken: FxHashMap<ObjectId, i64> = FxHashMap::default();
        for &event in thread {
            match model.op(event).effect() {
                Effect::Condition(o, OnCondition::Wait) => {
                    waited_for[o.index()] |= model.wait_needs_signal(event);
                }
                // A thread that itself posts what it has acquired uses the semaphore like a lock.
                Effect::Semaphore(o, act) => match act {
                    OnSemaphore::Wait => {
                        let taken = taken.entry(o).or_default();
                        *taken += 1;
                        waited_for[o.index()] |= *taken > start.value(o);
                    }
                    OnSemaphore::Post => *taken.entry(o).or_default() -= 1,
                    OnSemaphore::Init(_) | OnSemaphore::FailedWait => {}
                },
                // A barrier counts in any case.
                Effect::Barrier(..)
                | Effect::Condition(..)
                | Effect::Thread(_)
                | Effect::Lock(..)
                | Effect::Once(..)
                | Effect::Channel(..)
                | Effect::Memory(_)
                | Effect::Local => {}
            }
        }
    }
    waited_for
}

/// Whether `Transitions::after` has found all successors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successors {
    Complete,
    TooMany,
}

/// Which states follow a state.
pub struct Transitions<'l> {
    pub threads: &'l [ThreadOps],
    /// For every object: the initial value of a semaphore, the count of a barrier.
    pub initial: &'l [i64],
}

impl Transitions<'_> {
    /// The value of a semaphore.
    fn value(&self, state: WaitState, object: ObjectId) -> i64 {
        let balances = self.threads.iter().flat_map(|ops| {
            let of_object = ops.balances.iter().filter(move |b| b.object == object);
            of_object.map(move |balance| balance.after[ops.done(state)])
        });
        self.initial[object.index()] + balances.sum::<i64>()
    }

    /// Whether must-happen-before lets the thread do its next operation.
    fn is_enabled(&self, state: WaitState, ops: &ThreadOps) -> bool {
        let mut preceded_by = ops.preceded_by[ops.done(state)].iter();
        preceded_by.all(|p| self.threads[p.thread].done(state) >= p.count)
    }

    /// Adds the states that the next operation of a thread leads to.
    pub fn after(&self, state: WaitState, thread: usize, next: &mut Vec<WaitState>) -> Successors {
        let ops = &self.threads[thread];
        let Some(op) = ops.next(state) else {
            return Successors::Complete;
        };
        if op.is_passive() || !self.is_enabled(state, ops) {
            return Successors::Complete;
        }
        let done = state.after_next(ops);
        let sleepers = self.threads.iter().enumerate().filter(|&(s, other)| {
            s != thread
                && other.next(state) == Some(WaitOp::Wait(op.object()))
                && self.is_enabled(state, other)
        });
        match op {
            WaitOp::Wait(_) | WaitOp::LeaveBarrier(_) => {}
            WaitOp::Post(_) => next.push(done),
            WaitOp::Acquire(o) => {
                if self.value(state, o) > 0 {
                    next.push(done);
                }
            }
            WaitOp::EnterBarrier(o) => {
                let leave = Some(WaitOp::LeaveBarrier(o));
                let inside = self.threads.iter().filter(|ops| ops.next(done) == leave);
                let is_full = inside.clone().count() as i64 >= self.initial[o.index()];
                next.push(match is_full {
                    true => inside.fold(done, WaitState::after_next),
                    false => done,
                });
            }
            // A signal may be lost: a thread whose next operation is a wait need not have begun it.
            WaitOp::Signal(_) => {
                next.push(done);
                next.extend(sleepers.map(|(_, sleeper)| done.after_next(sleeper)));
            }
            WaitOp::Broadcast(_) => {
                let first = next.len();
                next.push(done);
                for (k, (_, sleeper)) in sleepers.enumerate() {
                    if k == MOST_SLEEPERS {
                        return Successors::TooMany;
                    }
                    for i in first..next.len() {
                        next.push(next[i].after_next(sleeper));
                    }
                }
            }
        }
        Successors::Complete
    }
}
