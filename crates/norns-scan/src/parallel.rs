//! Which threads may be running at each instruction: started by this thread or by what it started, and not
//! yet known to be joined.
//!
//! The set at a point of a thread holds its descendants that may be alive there. Two threads may run in
//! parallel if both are in one set, or one is started while the other is in the set; a thread may run in
//! parallel with itself if it is alive where it is created. A join ends the thread whose name it gets, if
//! that can be one thread only, or all threads of a loop if it stands in a loop with the same bounds.

use norns_ir::{BlockId, Callee, InstructionId, Kind};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::Code;
use crate::condition::Condition;
use crate::dataflow::{Problem, Solution};
use crate::external::Effect;
use crate::instance::{InstanceId, Point, ThreadId};
use crate::join::given_away;
use crate::object::Location;
use crate::symbol::Symbols;
use crate::threads::Threads;

pub struct Parallel {
    /// For each thread those that may run while it does, of which it is not the creator's line.
    beside: Vec<Threads>,
    /// The threads that this one started, and what they started.
    descendants: Vec<Threads>,
    /// How many threads each call creates, where that is a constant.
    counts: Vec<Option<u64>>,
    /// For each instance the number of the set before each instruction.
    alive: Vec<Vec<Option<u32>>>,
    sets: Vec<Threads>,
}

pub(crate) struct Alive<'a, 'b, 'p> {
    pub(crate) code: &'a Code<'p>,
    pub(crate) symbols: &'b mut Symbols<'a, 'p>,
    descendants: Vec<Threads>,
    /// For each thread the descendants that may be alive after it has ended.
    left: Vec<Threads>,
    /// For each instance the threads that it and what it calls start, and what these start.
    started: Vec<Threads>,
    /// The threads that may run when the process ends; `None` for all.
    at_exit: Option<Threads>,
    /// Variables of the C++ library whose thread is detached or moved to another variable.
    pub(crate) given_away: FxHashSet<Location>,
}

impl Problem for Alive<'_, '_, '_> {
    type State = Threads;

    fn start(&self, entry: InstanceId) -> Threads {
        let main = &self.code.points_to.instances.threads[0];
        let is_main = |&at: &InstanceId| self.code.function(at).name == "main";
        let main_at = main.entries.iter().position(is_main);
        let at = main.entries.iter().position(|&at| at == entry);
        match (main_at, at) {
            (Some(main_at), Some(at)) if at > main_at => {
                if let Some(known) = &self.at_exit {
                    return known.clone();
                }
                let mut all = Threads::default();
                for thread in 1..self.code.points_to.instances.threads.len() {
                    all.insert(ThreadId::from_index(thread));
                }
                all
            }
            _ => Threads::default(),
        }
    }

    fn join(&self, into: &mut Threads, other: &Threads) {
        let is_child = into.contains(self.child()) && other.contains(self.child());
        into.extend(other);
        if !is_child {
            into.remove(self.child());
        }
    }

    fn step(&mut self, point: Point, state: &mut Threads) {
        for &thread in self.code.points_to.instances.creations(point) {
            state.insert(thread);
            state.extend(&self.descendants[thread.index()].clone());
        }
        for thread in self.joined(point, state) {
            self.end(thread, state);
        }
    }

    fn branch(&mut self, point: Point, to: BlockId, state: &mut Threads) {
        if self.is_new_process(point, to) {
            *state = Threads::default();
            state.insert(self.child());
            return;
        }
        for thread in self.joined_by_loop(point, to) {
            self.end(thread, state);
        }
    }

    fn enter(&mut self, _: Point, _: InstanceId, state: &Threads) -> Threads {
        state.clone()
    }

    fn leave(
        &mut self,
        _: Point,
        callee: InstanceId,
        before: &Threads,
        inside: (&Threads, &Threads),
    ) -> Threads {
        if self.code.points_to.instances.only_caller(callee).is_some() {
            return inside.1.clone();
        }
        // Of the state at the end of a shared function much comes from its other callers.
        let mut after = before.clone();
        after.extend(&self.started[callee.index()]);
        after
    }
}

impl Alive<'_, '_, '_> {
    /// Removes a thread that was joined, and those of its descendants that it has joined itself.
    fn end(&self, thread: ThreadId, state: &mut Threads) {
        state.remove(thread);
        for descendant in self.descendants[thread.index()].iter() {
            if !self.left[thread.index()].contains(descendant) {
                state.remove(descendant);
            }
        }
    }

    /// A number behind those of the threads: this is a process that `fork` has made.
    fn child(&self) -> ThreadId {
        ThreadId::from_index(self.code.points_to.instances.threads.len())
    }

    /// Whether a branch goes where `fork` has returned 0.
    fn is_new_process(&self, branch: Point, to: BlockId) -> bool {
        let Kind::Branch { condition, .. } = *self.code.kind(branch) else {
            return false;
        };
        let Some(condition) = Condition::of_result(self.code, branch, condition) else {
            return false;
        };
        let forks = self
            .code
            .external(condition.load)
            .is_some_and(|(effects, _)| effects.contains(&Effect::Forks));
        // Neither an error nor the number of a process leads here.
        forks
            && condition.excludes(self.code, branch, to, -1)
            && condition.excludes(self.code, branch, to, 1)
    }
}

impl Parallel {
    pub fn new<'a, 'p>(code: &'a Code<'p>, symbols: &mut Symbols<'a, 'p>) -> Self {
        let descendants = descendants(code);
        let count = code.points_to.instances.threads.len();
        let mut problem = Alive {
            code,
            symbols,
            left: descendants.clone(),
            started: started(code, &descendants),
            at_exit: None,
            given_away: given_away(code),
            descendants,
        };
        let mut solution = Solution::new(code, &mut problem);
        for (thread, left) in code
            .points_to
            .instances
            .threads
            .iter()
            .zip(&mut problem.left)
        {
            let mut exits = thread.entries.iter().map(|&entry| solution.exit(entry));
            if let (Some(Some(exit)), None) = (exits.next(), exits.next()) {
                *left = exit.clone();
            }
        }
        problem.at_exit = at_exit(code, &mut problem, &mut solution);
        solution = Solution::new(code, &mut problem);
        let descendants = problem.descendants.clone();
        let mut beside = vec![Threads::default(); count];
        let mut alive = Vec::with_capacity(code.points_to.instances.len());
        let mut sets: Vec<Threads> = Vec::new();
        let mut numbers: FxHashMap<Threads, u32> = FxHashMap::default();
        for instance in code.points_to.instances.ids() {
            let mut states = vec![None; code.function(instance).instructions.len()];
            solution.for_each(code, &mut problem, instance, |instruction, state| {
                let number = *numbers.entry(state.clone()).or_insert_with(|| {
                    sets.push(state.clone());
                    u32::try_from(sets.len() - 1).expect("fewer sets than instructions")
                });
                states[instruction.index()] = Some(number);
                let point = Point {
                    instance,
                    instruction,
                };
                for &new in code.points_to.instances.creations(point) {
                    let mut line = descendants[new.index()].clone();
                    line.insert(new);
                    pair(&mut beside, &line, state);
                }
            });
            alive.push(states);
        }
        let counts = (0..count)
            .map(|thread| problem.count(ThreadId::from_index(thread)))
            .collect();
        let mut parallel = Self {
            beside,
            counts,
            descendants: problem.descendants,
            alive,
            sets,
        };
        parallel.spread();
        parallel
    }

    /// What runs beside a thread runs beside the threads that it starts, as long as it may still be there.
    fn spread(&mut self) {
        let count = self.beside.len();
        for _ in 0..count {
            let mut changed = false;
            for thread in 0..count {
                let beside = self.beside[thread].clone();
                for child in self.descendants[thread].clone().iter() {
                    let before = self.beside[child.index()].clone();
                    self.beside[child.index()].extend(&beside);
                    changed |= before != self.beside[child.index()];
                }
                for other in self.beside[thread].clone().iter() {
                    if !self.beside[other.index()].contains(ThreadId::from_index(thread)) {
                        self.beside[other.index()].insert(ThreadId::from_index(thread));
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
    }

    /// Whether an instruction, run by one thread, may be executed while another thread runs a second one.
    #[must_use]
    pub fn may_overlap(&self, a: (ThreadId, Point), b: (ThreadId, Point)) -> bool {
        if [a.1, b.1]
            .iter()
            .any(|&point| self.is_in_new_process(point))
        {
            return false;
        }
        self.beside[a.0.index()].contains(b.0)
            || self.alive(a.1).is_some_and(|alive| alive.contains(b.0))
            || self.alive(b.1).is_some_and(|alive| alive.contains(a.0))
    }

    /// Whether only a process that `fork` has made comes here.
    fn is_in_new_process(&self, point: Point) -> bool {
        let child = ThreadId::from_index(self.beside.len());
        self.alive(point).is_some_and(|alive| alive.contains(child))
    }

    fn alive(&self, point: Point) -> Option<&Threads> {
        self.number(point).map(|number| &self.sets[number as usize])
    }

    /// Equal for points at which the same threads may run.
    #[must_use]
    pub fn number(&self, point: Point) -> Option<u32> {
        self.alive[point.instance.index()][point.instruction.index()]
    }

    /// Whether any thread can come to the instruction.
    #[must_use]
    pub fn is_reached(&self, point: Point) -> bool {
        self.alive(point).is_some()
    }

    #[must_use]
    pub fn count(&self, thread: ThreadId) -> Option<u64> {
        self.counts[thread.index()]
    }

    /// Whether no other thread can run at an instruction of the thread of `main`.
    #[must_use]
    pub fn is_alone(&self, code: &Code, point: Point) -> bool {
        let main = ThreadId::from_index(0);
        code.threads_of(point.instance) == [main]
            && self.alive(point).is_some_and(Threads::is_empty)
    }

    /// Whether several threads that one call creates may run at the same time.
    #[must_use]
    pub fn is_multiple(&self, thread: ThreadId) -> bool {
        self.beside[thread.index()].contains(thread)
    }
}

/// For each instance the threads that it starts itself or through what it calls, with their descendants.
fn started(code: &Code, descendants: &[Threads]) -> Vec<Threads> {
    let instances = &code.points_to.instances;
    let mut all = vec![Threads::default(); instances.len()];
    for (number, thread) in instances.threads.iter().enumerate() {
        let mut line = descendants[number].clone();
        line.insert(ThreadId::from_index(number));
        let mut seen = FxHashSet::default();
        let mut stack: Vec<InstanceId> = thread.created.iter().map(|at| at.instance).collect();
        while let Some(at) = stack.pop() {
            if seen.insert(at) {
                all[at.index()].extend(&line);
                stack.extend(instances.get(at).callers.iter().map(|call| call.instance));
            }
        }
    }
    all
}

/// The threads that may run when `main` returns or calls `exit`; `None` if another thread may end the process.
fn at_exit(code: &Code, problem: &mut Alive, solution: &mut Solution<Threads>) -> Option<Threads> {
    let main = ThreadId::from_index(0);
    let mut all = Threads::default();
    for instance in code.points_to.instances.ids() {
        let exits: Vec<InstructionId> = code
            .points_of(instance)
            .filter(|&point| ends_process(code, point))
            .map(|point| point.instruction)
            .collect();
        if exits.is_empty() {
            continue;
        }
        if code.threads_of(instance) != [main] {
            return None;
        }
        solution.for_each(code, problem, instance, |instruction, state| {
            if exits.contains(&instruction) {
                all.extend(state);
            }
        });
    }
    Some(all)
}

/// Whether an instruction runs the functions that were registered for the end of the process.
fn ends_process(code: &Code, point: Point) -> bool {
    const NAMES: [&str; 6] = ["exit", "quick_exit", "err", "errx", "verr", "verrx"];
    let callee = match code.kind(point) {
        Kind::Call { callee, .. } | Kind::Invoke { callee, .. } => callee,
        Kind::Return(_) => {
            let is_first = code
                .points_to
                .instances
                .entered_by(point.instance)
                .is_some();
            return is_first && code.function(point.instance).name == "main";
        }
        _ => return false,
    };
    matches!(callee, Callee::Function(id) if NAMES.contains(&code.program.function(*id).name.as_str()))
}

/// The thread and its descendants may run beside all that is alive when it is created.
fn pair(beside: &mut [Threads], new: &Threads, alive: &Threads) {
    // The number behind those of the threads stands for a forked process, which is none.
    let mut alive = alive.clone();
    alive.remove(ThreadId::from_index(beside.len()));
    for thread in new.iter() {
        beside[thread.index()].extend(&alive);
    }
    for thread in alive.iter() {
        beside[thread.index()].extend(new);
    }
}

/// For each thread all that it starts, directly or not.
fn descendants(code: &Code) -> Vec<Threads> {
    let instances = &code.points_to.instances;
    let count = instances.threads.len();
    let mut all = vec![Threads::default(); count];
    for (number, thread) in instances.threads.iter().enumerate() {
        for created in &thread.created {
            for &creator in code.threads_of(created.instance) {
                all[creator.index()].insert(ThreadId::from_index(number));
            }
        }
    }
    for _ in 0..count {
        let before = all.clone();
        for thread in 0..count {
            for child in before[thread].iter() {
                let grand = before[child.index()].clone();
                all[thread].extend(&grand);
            }
        }
        if all == before {
            break;
        }
    }
    all
}
