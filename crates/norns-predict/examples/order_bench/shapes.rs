//! Generated runs with given numbers of threads, events, lock events, wait and notify events and
//! variables, as Table 3 of Said et al. (2011) lists them.
//!
//! The generator simulates a run: a random thread that can continue does something random that the
//! shape still lacks. Variables belong to locks and are accessed inside their sections. One access in
//! twenty leaves out the lock, until there are as many conflicting pairs without a common lock as the
//! shape has; from then on, accesses without a lock read the last variable, which no thread writes
//! without a lock. One section in seven acquires a second lock with a greater number. Values are
//! consistent: a read has what the last write left, and writes have small numbers.

use norns_random::Random;
use norns_trace::trace::{Custom, Value};
use norns_trace::{
    Access, Event, EventIndex, Object, ObjectId, ObjectKind, Op, Place, PlaceId, Thread, ThreadId,
    Trace,
};

#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub name: &'static str,
    pub threads: usize,
    pub length: usize,
    pub lock_events: usize,
    pub wait_events: usize,
    /// Whether every second read is followed by a branch event.
    pub branches: bool,
    pub variables: usize,
    pub locks: usize,
    pub conditions: usize,
    /// Roughly the number of conflicting pairs without a common lock (column "lsa" of the paper).
    pub unlocked: usize,
    /// About how many pairs the paper asked its solver (column "mhb").
    pub asked: usize,
    /// The time that the paper reports, in seconds.
    pub paper: Option<f64>,
}

/// A row of Table 3. `numbers` are threads, events, lock events, wait events, variables, locks and
/// conditions.
const fn row(
    name: &'static str,
    numbers: [usize; 7],
    unlocked: usize,
    asked: usize,
    paper: f64,
) -> Shape {
    let [
        threads,
        length,
        lock_events,
        wait_events,
        variables,
        locks,
        conditions,
    ] = numbers;
    Shape {
        name,
        threads,
        length,
        lock_events,
        wait_events,
        branches: false,
        variables,
        locks,
        conditions,
        unlocked,
        asked,
        paper: Some(paper),
    }
}

pub const TABLE_3: [Shape; 17] = [
    row("Example run1", [3, 25, 4, 0, 6, 2, 0], 8, 2, 0.01),
    row("Example run2", [3, 29, 8, 0, 6, 2, 0], 6, 0, 0.01),
    row("Remote Agent", [3, 45, 12, 5, 6, 3, 4], 12, 4, 0.01),
    row("connectionpool", [4, 85, 16, 5, 5, 1, 3], 21, 0, 0.01),
    row("liveness.BugGen", [7, 241, 44, 6, 12, 9, 6], 138, 10, 0.36),
    row("account #1", [6, 336, 82, 10, 17, 11, 5], 125, 45, 0.09),
    row("account #2", [11, 651, 162, 20, 32, 21, 10], 250, 90, 0.28),
    row(
        "account #3",
        [21, 1281, 322, 40, 62, 41, 20],
        500,
        180,
        0.79,
    ),
    row("SyncBench #1", [2, 107, 22, 0, 3, 2, 0], 8, 2, 0.01),
    row("SyncBench #2", [13, 722, 156, 0, 16, 3, 0], 805, 333, 18.3),
    row("BarrierBench #1", [7, 407, 80, 14, 10, 2, 7], 229, 12, 0.7),
    row(
        "BarrierBench #2",
        [13, 653, 136, 28, 16, 2, 7],
        361,
        38,
        2.04,
    ),
    row("philo", [6, 1050, 126, 41, 23, 6, 22], 563, 0, 0.0),
    row("hedc", [10, 1457, 234, 0, 85, 23, 0], 508, 164, 57.7),
    row("Daisy", [3, 1998, 330, 14, 34, 9, 12], 328, 16, 5.65),
    row("elevator", [4, 8000, 1298, 0, 121, 12, 0], 12, 0, 0.0),
    row("tsp", [4, 45637, 20, 5, 42, 5, 3], 83, 4, 0.05),
];

/// Four threads; two fifths of the events acquire or release one of ten locks. With waits, one event
/// in a hundred waits or signals.
pub fn large(length: usize, waits: bool, branches: bool) -> Shape {
    Shape {
        name: "large",
        threads: 4,
        length,
        lock_events: length * 2 / 5,
        wait_events: if waits { length / 100 } else { 0 },
        branches,
        variables: 40,
        locks: 10,
        conditions: 4,
        unlocked: usize::MAX,
        asked: 200,
        paper: None,
    }
}

/// How many accesses of a kind there are.
#[derive(Clone, Copy, Default)]
struct Accesses {
    reads: usize,
    writes: usize,
}

/// The accesses of one thread to one variable.
#[derive(Clone, Copy, Default)]
struct AccessCounts {
    with_lock: Accesses,
    without_lock: Accesses,
}

enum Mode {
    Running,
    Asleep,
    Woken,
}

struct Generator {
    shape: Shape,
    random: Random,
    trace: Trace,
    modes: Vec<Mode>,
    held: Vec<Vec<usize>>,
    /// For each thread how many accesses it does before it leaves its section; of a thread that waits,
    /// the condition.
    inside: Vec<usize>,
    memory: Vec<u8>,
    owner: Vec<Option<usize>>,
    /// How many lock events are still to come.
    lock_events: usize,
    /// How many wait and notify events are still to come.
    wait_events: usize,
    /// For each condition, the threads that wait.
    queues: Vec<Vec<usize>>,
    /// For each variable and thread.
    accesses: Vec<Vec<AccessCounts>>,
    /// How many conflicting pairs without a common lock there are so far.
    unlocked: usize,
}

pub fn generate(shape: Shape, seed: u64) -> Trace {
    let mut generator = Generator {
        shape,
        random: Random::new(seed),
        trace: Trace {
            accesses_ordered: true,
            ..Trace::default()
        },
        modes: (0..shape.threads).map(|_| Mode::Running).collect(),
        held: vec![Vec::new(); shape.threads],
        inside: vec![0; shape.threads],
        memory: vec![0; shape.variables],
        owner: vec![None; shape.locks],
        lock_events: shape.lock_events,
        wait_events: if shape.conditions == 0 {
            0
        } else {
            shape.wait_events
        },
        queues: vec![Vec::new(); shape.conditions],
        accesses: vec![vec![AccessCounts::default(); shape.threads]; shape.variables],
        unlocked: 0,
    };
    generator.run();
    generator.trace
}

impl Generator {
    fn run(&mut self) {
        let shape = self.shape;
        self.trace.places.push(Place::default());
        if shape.branches {
            self.trace.customs.push(Custom {
                name: "branch".to_string(),
                fields: Vec::new(),
            });
        }
        for t in 0..shape.threads {
            let parent = (t > 0).then_some(ThreadId(0));
            self.trace.threads.push(Thread {
                name: format!("T{t}"),
                parent,
            });
        }
        let mut object = |kind, name| {
            self.trace.objects.push(Object {
                kind,
                address: 0,
                name,
            });
        };
        for l in 0..shape.locks {
            object(ObjectKind::Mutex, format!("l{l}"));
        }
        for c in 0..shape.conditions {
            object(ObjectKind::Condition, format!("c{c}"));
        }
        for t in 1..shape.threads {
            self.push(0, Op::Fork(ThreadId::from_index(t)));
        }
        // The length includes forks and joins.
        let joins = shape.threads - 1;
        while self.trace.events.len() + joins < shape.length {
            let thread = self.random.below(shape.threads);
            self.step(thread);
        }
        while (0..shape.threads)
            .any(|t| !matches!(self.modes[t], Mode::Running) || !self.held[t].is_empty())
        {
            self.wait_events = 0;
            self.lock_events = 0;
            let thread = self.random.below(shape.threads);
            self.step(thread);
        }
        for t in 1..shape.threads {
            self.push(0, Op::Join(ThreadId::from_index(t)));
        }
    }

    fn push(&mut self, thread: usize, op: Op) {
        let event = Event {
            thread: ThreadId::from_index(thread),
            place: PlaceId(0),
            op,
        };
        self.trace.events.push(event);
    }

    fn lock(&mut self, thread: usize, lock: usize) {
        self.owner[lock] = Some(thread);
        self.held[thread].push(lock);
        self.push(thread, Op::Lock(ObjectId::from_index(lock)));
        self.lock_events = self.lock_events.saturating_sub(1);
    }

    fn unlock(&mut self, thread: usize) {
        let lock = self.held[thread].pop().expect("only a holder unlocks");
        self.owner[lock] = None;
        self.push(thread, Op::Unlock(ObjectId::from_index(lock)));
        self.lock_events = self.lock_events.saturating_sub(1);
    }

    /// The lock that belongs to the condition.
    fn lock_of(&self, condition: usize) -> usize {
        condition % self.shape.locks
    }

    fn step(&mut self, thread: usize) {
        let shape = self.shape;
        match self.modes[thread] {
            Mode::Asleep => return,
            Mode::Woken => {
                let condition = self.inside[thread];
                let lock = self.lock_of(condition);
                if self.owner[lock].is_none() {
                    let object = ObjectId::from_index(shape.locks + condition);
                    self.push(thread, Op::Wait(object));
                    self.lock(thread, lock);
                    self.modes[thread] = Mode::Running;
                    self.inside[thread] = 1;
                }
                return;
            }
            Mode::Running => {}
        }
        let left = shape.length.saturating_sub(self.trace.events.len()).max(1);
        if let Some(&lock) = self.held[thread].last() {
            // Another thread may wait for a signal under this lock.
            let waiting = (0..shape.conditions)
                .find(|&c| self.lock_of(c) == lock && !self.queues[c].is_empty());
            if let Some(condition) = waiting {
                let sleeper = self.queues[condition].remove(0);
                self.modes[sleeper] = Mode::Woken;
                self.wait_events = self.wait_events.saturating_sub(1);
                self.push(
                    thread,
                    Op::Signal(ObjectId::from_index(shape.locks + condition)),
                );
                return;
            }
            let awake = self
                .modes
                .iter()
                .filter(|mode| matches!(mode, Mode::Running))
                .count();
            let condition = (0..shape.conditions).find(|&c| self.lock_of(c) == lock);
            if let Some(condition) = condition
                && self.held[thread].len() == 1
                && awake > 1
                && self.random.below(left) < self.wait_events
            {
                self.unlock(thread);
                self.modes[thread] = Mode::Asleep;
                self.inside[thread] = condition;
                self.queues[condition].push(thread);
                self.wait_events = self.wait_events.saturating_sub(1);
                return;
            }
            if self.inside[thread] == 0 {
                self.unlock(thread);
                return;
            }
            let next = lock + 1 + self.random.below(shape.locks - lock);
            if next < shape.locks && self.owner[next].is_none() && self.random.below(7) == 0 {
                self.lock(thread, next);
                return;
            }
            self.inside[thread] -= 1;
            self.access(thread, Some(lock));
            return;
        }
        let waited_for = self.queues.iter().position(|queue| !queue.is_empty());
        if let Some(condition) = waited_for
            && self.owner[self.lock_of(condition)].is_none()
            && self.random.below(4) == 0
        {
            self.lock(thread, self.lock_of(condition));
            self.inside[thread] = 0;
            return;
        }
        if self.random.below(left) < self.lock_events {
            let lock = self.random.below(shape.locks);
            if self.owner[lock].is_none() {
                self.lock(thread, lock);
                self.inside[thread] = 1 + self.random.below(3);
            }
        } else if self.random.below(20) == 0 || self.lock_events * 4 < left {
            self.access(thread, None);
        }
    }

    /// Adds an access; inside a section, to a variable of its lock.
    fn access(&mut self, thread: usize, lock: Option<usize>) {
        let shape = self.shape;
        let any = self.random.below(shape.variables);
        let variable = match lock {
            Some(lock) if shape.variables >= shape.locks => {
                let row = any / shape.locks * shape.locks + lock;
                if row < shape.variables { row } else { lock }
            }
            _ => any,
        };
        // Outside of sections, threads mostly read.
        let mut writes = self.random.below(if lock.is_some() { 2 } else { 8 }) == 0;
        let mut pairs = self.unlocked_pairs(thread, variable, lock.is_some(), writes);
        let mut variable = variable;
        if self.unlocked + pairs > shape.unlocked {
            (variable, writes) = match lock {
                // A variable that was accessed without its lock is only read.
                Some(_) => (variable, false),
                None => (shape.variables - 1, false),
            };
            pairs = self.unlocked_pairs(thread, variable, lock.is_some(), writes);
        }
        self.unlocked += pairs;
        let counts = &mut self.accesses[variable][thread];
        let counts = match lock {
            Some(_) => &mut counts.with_lock,
            None => &mut counts.without_lock,
        };
        counts.reads += usize::from(!writes);
        counts.writes += usize::from(writes);
        let access = Access {
            address: 0x1000 + 8 * variable as u64,
            size: 4,
        };
        let event = EventIndex::from_index(self.trace.events.len());
        let mut value = Value {
            event,
            read: Vec::new(),
            written: Vec::new(),
        };
        if writes {
            self.memory[variable] = self.random.below(5) as u8;
            value.written = vec![self.memory[variable], 0, 0, 0];
            self.push(thread, Op::Write(access));
        } else {
            value.read = vec![self.memory[variable], 0, 0, 0];
            self.push(thread, Op::Read(access));
            if shape.branches && self.random.below(2) == 0 {
                self.push(thread, Op::Custom(0));
            }
        }
        self.trace.values.push(value);
    }

    /// How many conflicting pairs without a common lock an access would add.
    fn unlocked_pairs(&self, thread: usize, variable: usize, locked: bool, writes: bool) -> usize {
        let others = self.accesses[variable].iter().enumerate();
        let others = others.filter(|&(other, _)| other != thread);
        let conflicting = |of: Accesses| of.writes + if writes { of.reads } else { 0 };
        others
            .map(|(_, counts)| {
                let with_lock = conflicting(counts.with_lock);
                conflicting(counts.without_lock) + if locked { 0 } else { with_lock }
            })
            .sum()
    }
}
