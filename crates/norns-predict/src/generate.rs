//! Generated traces of any length with planted bugs and innocent look-alikes, for tests and
//! benchmarks.
//!
//! A main thread forks eight workers and joins them. A worker enters critical sections and accesses
//! the variables of the lock there; in the mixed shapes workers also access variables that nothing
//! protects. A *plant* is a script for two or three workers, with variables, locks and places of its
//! own, whose steps happen in a given order while the other workers continue. Plants come one at a
//! time. The workers of a plant do nothing else until it is complete, so that its bug does not depend
//! on the rest of the trace.

use norns_random::Random;
use norns_trace::{
    Access, Event, EventIndex, Object, ObjectId, ObjectKind, Op, Place, PlaceId, Symbol, Thread,
    ThreadId, Trace,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// 4 locks with 2 variables each.
    Lean,
    /// The same, with 8 unprotected variables.
    LeanMix,
    /// 16 locks with 8 variables each, and nested sections.
    Sparse,
    /// The same, with 128 unprotected variables.
    Mix,
}

impl Shape {
    pub const ALL: [Shape; 4] = [Shape::Lean, Shape::LeanMix, Shape::Sparse, Shape::Mix];

    pub fn name(self) -> &'static str {
        match self {
            Shape::Lean => "lean",
            Shape::LeanMix => "leanmix",
            Shape::Sparse => "sparse",
            Shape::Mix => "mix",
        }
    }

    fn locks(self) -> usize {
        match self {
            Shape::Lean | Shape::LeanMix => 4,
            Shape::Sparse | Shape::Mix => 16,
        }
    }

    fn variables_per_lock(self) -> usize {
        match self {
            Shape::Lean | Shape::LeanMix => 2,
            Shape::Sparse | Shape::Mix => 8,
        }
    }

    fn unprotected(self) -> usize {
        match self {
            Shape::Lean | Shape::Sparse => 0,
            Shape::LeanMix => 8,
            Shape::Mix => 128,
        }
    }
}

/// The bugs and look-alikes that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    PlainRace,
    /// A lock orders the accesses in the trace, but its sections do not depend on each other.
    RaceBehindLock,
    /// Two critical sections have to be reversed.
    RaceAfterReversal,
    /// Sections of two locks have to be reversed.
    RaceAfterTwoReversals,
    Deadlock,
    DeadlockOfThree,
    /// A read orders the accesses.
    ReadFromChain,
    /// Accesses under a common lock, each inside another lock.
    CommonLock,
    GateLock,
    /// Both orders of two locks, in one thread.
    OneThreadCycle,
    /// Opposite orders of two locks, the second after reading what the first thread wrote.
    OrderedCycle,
}

const PLANTS: [Plant; 11] = [
    Plant::PlainRace,
    Plant::RaceBehindLock,
    Plant::RaceAfterReversal,
    Plant::RaceAfterTwoReversals,
    Plant::Deadlock,
    Plant::DeadlockOfThree,
    Plant::ReadFromChain,
    Plant::CommonLock,
    Plant::GateLock,
    Plant::OneThreadCycle,
    Plant::OrderedCycle,
];

/// A trace and the bugs in it.
pub struct Generated {
    pub trace: Trace,
    /// Planted accesses that race with an earlier one, with the kind of their plant.
    pub racy: Vec<(EventIndex, Plant)>,
    /// Sets of acquisitions that can wait for each other, sorted. There are no other deadlocks.
    pub deadlocks: Vec<Vec<EventIndex>>,
    /// The places of unprotected variables. Accesses at other places that are not in `racy` race with
    /// nothing.
    pub unprotected: std::ops::Range<u32>,
}

#[derive(Clone, Copy)]
enum Step {
    Acquire(usize),
    Release(usize),
    Read(usize),
    Write(usize),
    /// A write that races with an earlier access.
    RacyWrite(usize),
    /// An acquisition that can be blocked in a deadlock.
    Blocked(usize),
}

const WORKERS: usize = 8;

struct Generator {
    random: Random,
    shape: Shape,
    generated: Generated,
    /// For each worker the steps that it has begun, in reverse order.
    scripts: Vec<Vec<Step>>,
    /// For each worker, whether it is part of the current plant.
    in_plant: Vec<bool>,
    /// For each lock, the worker that holds it.
    holder: Vec<Option<usize>>,
    /// The blocked acquisitions of the current plant so far.
    blocked: Vec<EventIndex>,
    plant: Option<CurrentPlant>,
    /// Whether workers begin no new sections.
    closing: bool,
}

struct CurrentPlant {
    kind: Plant,
    /// The remaining steps, each with its worker, in reverse order.
    steps: Vec<(usize, Step)>,
}

/// Generates about `events` events, with up to `plants` plants of each kind. The same arguments give
/// the same trace.
pub fn generate(shape: Shape, events: usize, plants: usize, seed: u64) -> Generated {
    let mut generator = Generator::new(shape, seed);
    let main = 0;
    for worker in 1..=WORKERS {
        generator.push(main, Op::Fork(ThreadId::from_index(worker)), 1);
    }
    let every = events / (plants * PLANTS.len() + 1).max(1);
    let mut planted = 0;
    while generator.generated.trace.events.len() + WORKERS < events {
        let due = (planted + 1) * every <= generator.generated.trace.events.len();
        if due && generator.plant.is_none() && planted < plants * PLANTS.len() {
            planted += usize::from(generator.begin_plant(PLANTS[planted % PLANTS.len()]));
        }
        generator.step();
    }
    generator.closing = true;
    while generator.busy() {
        generator.step();
    }
    for worker in 1..=WORKERS {
        generator.push(main, Op::Join(ThreadId::from_index(worker)), 2);
    }
    generator.generated
}

impl Generator {
    fn new(shape: Shape, seed: u64) -> Self {
        let names = (0..=WORKERS).map(|i| Thread {
            name: format!("T{i}"),
            parent: (i > 0).then_some(ThreadId(0)),
        });
        let trace = Trace {
            threads: names.collect(),
            accesses_ordered: true,
            ..Trace::default()
        };
        let mut generator = Self {
            random: Random::new(seed),
            shape,
            generated: Generated {
                trace,
                racy: Vec::new(),
                deadlocks: Vec::new(),
                unprotected: 0..0,
            },
            scripts: vec![Vec::new(); WORKERS + 1],
            in_plant: vec![false; WORKERS + 1],
            holder: Vec::new(),
            blocked: Vec::new(),
            plant: None,
            closing: false,
        };
        for lock in 0..shape.locks() {
            generator.new_lock(format!("m{lock}"));
        }
        for variable in 0..shape.locks() * shape.variables_per_lock() {
            generator.new_variable(format!("x{variable}"));
        }
        let first = generator.generated.trace.symbols.len();
        for variable in 0..shape.unprotected() {
            generator.new_variable(format!("u{variable}"));
        }
        let last = generator.generated.trace.symbols.len();
        generator.generated.unprotected =
            access_place(first, Step::Read(0))..access_place(last, Step::Read(0));
        generator
    }

    fn new_lock(&mut self, name: String) -> usize {
        let trace = &mut self.generated.trace;
        trace.objects.push(Object {
            kind: ObjectKind::Mutex,
            address: 0,
            name,
        });
        self.holder.push(None);
        trace.objects.len() - 1
    }

    fn new_variable(&mut self, name: String) -> usize {
        let symbols = &mut self.generated.trace.symbols;
        symbols.push(Symbol {
            address: variable_address(symbols.len()),
            size: 8,
            name,
        });
        symbols.len() - 1
    }

    fn push(&mut self, worker: usize, op: Op, place: u32) -> EventIndex {
        let trace = &mut self.generated.trace;
        while trace.places.len() <= place as usize {
            let pc = trace.places.len() as u64;
            trace.places.push(Place {
                pc,
                frames: Vec::new(),
            });
        }
        let thread = ThreadId::from_index(worker);
        trace.events.push(Event {
            thread,
            place: PlaceId(place),
            op,
        });
        EventIndex::from_index(trace.events.len() - 1)
    }

    fn busy(&self) -> bool {
        self.plant.is_some() || self.scripts.iter().any(|script| !script.is_empty())
    }

    /// Adds one event of the plant or of a worker, if that can step.
    fn step(&mut self) {
        if self.plant.is_some() && self.random.below(6) == 0 {
            self.continue_plant();
            return;
        }
        let worker = 1 + self.random.below(WORKERS);
        if self.in_plant[worker] {
            return;
        }
        if self.scripts[worker].is_empty() {
            if self.closing {
                return;
            }
            self.scripts[worker] = self.section();
        }
        let step = self.scripts[worker][self.scripts[worker].len() - 1];
        if let Step::Acquire(lock) = step
            && self.holder[lock].is_some()
        {
            return;
        }
        self.scripts[worker].pop();
        self.take(worker, step);
    }

    /// What a worker does next: a critical section or an unprotected access, in reverse order.
    fn section(&mut self) -> Vec<Step> {
        let random = &mut self.random;
        let unprotected = self.shape.unprotected();
        let protected = self.shape.locks() * self.shape.variables_per_lock();
        if unprotected > 0 && random.below(3) == 0 {
            return vec![access(
                random,
                protected + random.clone().below(unprotected),
            )];
        }
        let outer = random.below(self.shape.locks());
        let mut steps = vec![Step::Release(outer)];
        for _ in 0..1 + random.below(3) {
            let variable = random.below(self.shape.variables_per_lock());
            steps.push(access(
                random,
                outer * self.shape.variables_per_lock() + variable,
            ));
        }
        let nests = self.shape.locks() > 4 && outer + 1 < self.shape.locks();
        if nests && random.below(4) == 0 {
            let inner = outer + 1 + random.below(self.shape.locks() - outer - 1);
            let variable = random.below(self.shape.variables_per_lock());
            steps.push(Step::Release(inner));
            steps.push(access(
                random,
                inner * self.shape.variables_per_lock() + variable,
            ));
            steps.push(Step::Acquire(inner));
        }
        steps.push(Step::Acquire(outer));
        steps
    }

    fn take(&mut self, worker: usize, step: Step) {
        let (op, place) = match step {
            Step::Acquire(lock) | Step::Blocked(lock) => {
                self.holder[lock] = Some(worker);
                (Op::Lock(ObjectId::from_index(lock)), lock_place(lock, step))
            }
            Step::Release(lock) => {
                self.holder[lock] = None;
                (
                    Op::Unlock(ObjectId::from_index(lock)),
                    lock_place(lock, step),
                )
            }
            Step::Read(variable) => (
                Op::Read(variable_access(variable)),
                access_place(variable, step),
            ),
            Step::Write(variable) | Step::RacyWrite(variable) => (
                Op::Write(variable_access(variable)),
                access_place(variable, step),
            ),
        };
        let event = self.push(worker, op, place);
        match step {
            Step::RacyWrite(_) => {
                let kind = self
                    .plant
                    .as_ref()
                    .expect("only plants have racy writes")
                    .kind;
                self.generated.racy.push((event, kind));
            }
            Step::Blocked(_) => self.blocked.push(event),
            Step::Acquire(_) | Step::Release(_) | Step::Read(_) | Step::Write(_) => {}
        }
    }

    /// Begins a plant if enough workers are idle. Returns whether it does.
    fn begin_plant(&mut self, kind: Plant) -> bool {
        let mut idle: Vec<usize> = (1..=WORKERS)
            .filter(|&worker| self.scripts[worker].is_empty())
            .collect();
        if idle.len() < 3 {
            return false;
        }
        let mut worker = || idle.swap_remove(self.random.below(idle.len()));
        let (a, b, c) = (worker(), worker(), worker());
        let number = self.generated.trace.symbols.len();
        let x = self.new_variable(format!("x{number}"));
        let y = self.new_variable(format!("y{number}"));
        let m = self.new_lock(format!("m{number}"));
        let n = self.new_lock(format!("n{number}"));
        let o = self.new_lock(format!("o{number}"));
        use Step::*;
        let mut steps: Vec<(usize, Step)> = Vec::new();
        let mut add = |worker: usize, script: &[Step]| {
            steps.extend(script.iter().map(|&step| (worker, step)));
        };
        match kind {
            Plant::PlainRace => {
                add(a, &[Write(x)]);
                add(b, &[RacyWrite(x)]);
            }
            Plant::RaceBehindLock => {
                add(a, &[Write(x), Acquire(m), Write(y), Release(m)]);
                add(b, &[Acquire(m), Write(y), Release(m), RacyWrite(x)]);
            }
            Plant::RaceAfterReversal => {
                add(a, &[Acquire(m), Write(x), Release(m)]);
                add(b, &[Acquire(m), Write(y), Release(m), RacyWrite(x)]);
            }
            Plant::RaceAfterTwoReversals => {
                add(
                    a,
                    &[Acquire(m), Acquire(n), Write(x), Release(n), Release(m)],
                );
                add(
                    b,
                    &[Acquire(m), Release(m), Acquire(n), Release(n), RacyWrite(x)],
                );
            }
            Plant::Deadlock => {
                add(a, &[Acquire(m), Blocked(n), Release(n), Release(m)]);
                add(b, &[Acquire(n), Blocked(m), Release(m), Release(n)]);
            }
            Plant::DeadlockOfThree => {
                add(
                    a,
                    &[Acquire(m), Blocked(n), Write(y), Release(n), Release(m)],
                );
                add(b, &[Acquire(n), Blocked(o), Release(o), Release(n)]);
                add(c, &[Acquire(o), Blocked(m), Release(m), Release(o)]);
            }
            Plant::ReadFromChain => {
                add(a, &[Write(x), Acquire(m), Write(y), Release(m)]);
                add(b, &[Acquire(m), Read(y), Release(m), Write(x)]);
            }
            Plant::CommonLock => {
                add(
                    a,
                    &[Acquire(m), Acquire(n), Write(x), Release(n), Release(m)],
                );
                add(
                    b,
                    &[Acquire(o), Acquire(n), Write(x), Release(n), Release(o)],
                );
            }
            Plant::GateLock => {
                let section = |one, other| {
                    [
                        Acquire(o),
                        Acquire(one),
                        Acquire(other),
                        Release(other),
                        Release(one),
                    ]
                };
                add(a, &section(m, n));
                add(a, &[Release(o)]);
                add(b, &section(n, m));
                add(b, &[Release(o)]);
            }
            Plant::OneThreadCycle => {
                add(a, &[Acquire(m), Acquire(n), Release(n), Release(m)]);
                add(a, &[Acquire(n), Acquire(m), Release(m), Release(n)]);
            }
            Plant::OrderedCycle => {
                add(a, &[Acquire(m), Acquire(n), Release(n), Release(m)]);
                add(a, &[Acquire(o), Write(y), Release(o)]);
                add(b, &[Acquire(o), Read(y), Release(o)]);
                add(b, &[Acquire(n), Acquire(m), Release(m), Release(n)]);
            }
        }
        for &(worker, _) in &steps {
            self.in_plant[worker] = true;
        }
        steps.reverse();
        self.plant = Some(CurrentPlant { kind, steps });
        true
    }

    /// Takes the next step of the plant, or ends it.
    fn continue_plant(&mut self) {
        let Some(plant) = &mut self.plant else { return };
        if let Some((worker, step)) = plant.steps.pop() {
            self.take(worker, step);
            return;
        }
        self.plant = None;
        self.in_plant.fill(false);
        if !self.blocked.is_empty() {
            self.generated
                .deadlocks
                .push(std::mem::take(&mut self.blocked));
        }
    }
}

fn access(random: &mut Random, variable: usize) -> Step {
    if random.below(2) == 0 {
        Step::Read(variable)
    } else {
        Step::Write(variable)
    }
}

fn variable_address(variable: usize) -> u64 {
    0x1000 + 8 * variable as u64
}

fn variable_access(variable: usize) -> Access {
    Access {
        address: variable_address(variable),
        size: 8,
    }
}

/// Every variable has a place for its reads and one for its writes.
fn access_place(variable: usize, step: Step) -> u32 {
    10 + 4 * variable as u32 + u32::from(!matches!(step, Step::Read(_)))
}

fn lock_place(lock: usize, step: Step) -> u32 {
    12 + 4 * lock as u32 + u32::from(matches!(step, Step::Release(_)))
}
