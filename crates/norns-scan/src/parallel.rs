//! Which threads may be running at each instruction: started by this thread or by what it started, and not
//! yet known to be joined.
//!
//! The set at a point of a thread holds its descendants that may be alive there. Two threads may run in
//! parallel if both are in one set, or one is started while the other is in the set; a thread may run in
//! parallel with itself if it is alive where it is created. A join ends the thread whose name it gets, if
//! that can be one thread only, or all threads of a loop if it stands in a loop with the same bounds.

use norns_ir::{BlockId, InstructionId, Kind, Operand, Predicate};

use rustc_hash::FxHashMap;

use crate::code::Code;
use crate::condition::Condition;
use crate::dataflow::{Problem, Solution};
use crate::external::Effect;
use crate::instance::{InstanceId, Point, ThreadId};
use crate::object::Origin;
use crate::symbol::{Root, Symbol, Symbols};

/// A set of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Threads(Vec<u64>);

impl Threads {
    pub fn insert(&mut self, thread: ThreadId) {
        let word = thread.index() / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (thread.index() % 64);
    }

    pub fn remove(&mut self, thread: ThreadId) {
        if let Some(word) = self.0.get_mut(thread.index() / 64) {
            *word &= !(1 << (thread.index() % 64));
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    #[must_use]
    pub fn contains(&self, thread: ThreadId) -> bool {
        let word = self.0.get(thread.index() / 64).copied().unwrap_or(0);
        word & (1 << (thread.index() % 64)) != 0
    }

    pub fn extend(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = ThreadId> {
        let words = self.0.iter().enumerate();
        words.flat_map(|(at, &word)| {
            let bits = (0..64).filter(move |bit| word & (1 << bit) != 0);
            bits.map(move |bit| ThreadId::from_index(at * 64 + bit))
        })
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
}

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

struct Alive<'a, 'b, 'p> {
    code: &'a Code<'p>,
    symbols: &'b mut Symbols<'a, 'p>,
    descendants: Vec<Threads>,
    /// For each thread the descendants that may be alive after it has ended.
    left: Vec<Threads>,
}

impl Problem for Alive<'_, '_, '_> {
    type State = Threads;

    fn start(&self, entry: InstanceId) -> Threads {
        let main = &self.code.points_to.instances.threads[0];
        let is_main = |&at: &InstanceId| self.code.function(at).name == "main";
        let main_at = main.entries.iter().position(is_main);
        let at = main.entries.iter().position(|&at| at == entry);
        match (main_at, at) {
            // What is called at exit runs while every thread that was left may run.
            (Some(main_at), Some(at)) if at > main_at => {
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
        for thread in self.joined(point) {
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
        let mut after = before.clone();
        after.extend(inside.1);
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

    /// The threads whose name a call of join can get.
    fn named(&mut self, point: Point) -> Vec<ThreadId> {
        let Some((effects, arguments)) = self.code.external(point) else {
            return Vec::new();
        };
        let points_to = &self.code.points_to;
        let names = effects.iter().find_map(|effect| match effect {
            Effect::Join { handle, .. } => {
                let operand = *arguments.get(*handle)?;
                Some(points_to.locations(point.instance, operand))
            }
            Effect::JoinBehind(argument) => {
                let operand = *arguments.get(*argument)?;
                let behind = points_to.locations(point.instance, operand).into_iter();
                Some(behind.flat_map(|at| points_to.behind(at)).collect())
            }
            _ => None,
        });
        let names = names.unwrap_or_default().into_iter();
        let mut threads: Vec<ThreadId> = names
            .filter_map(|at| match points_to.objects.origin(at.object) {
                Origin::Thread(thread) => Some(thread),
                _ => None,
            })
            .collect();
        threads.dedup();
        threads
    }

    /// The thread that has ended after a join, with what it has itself joined.
    fn joined(&mut self, point: Point) -> Vec<ThreadId> {
        let &[thread] = self.named(point).as_slice() else {
            return Vec::new();
        };
        let created = &self.code.points_to.instances.thread(thread).created;
        match created.as_slice() {
            [only] if self.code.is_executed_once(*only) => vec![thread],
            // Created and joined in one turn of a loop: the name lies in a variable of its own.
            [only] if only.instance == point.instance => {
                let flow = self.code.flow(point.instance);
                let cycle =
                    |id: InstructionId| flow.position(id).and_then(|(block, _)| flow.cycle(block));
                let is_same_turn = cycle(only.instruction) == cycle(point.instruction)
                    && flow.precedes(only.instruction, point.instruction)
                    && self.has_one_name(*only);
                if is_same_turn {
                    vec![thread]
                } else {
                    Vec::new()
                }
            }
            _ => Vec::new(),
        }
    }

    /// Whether the name of the thread is put into a variable, not an element of an array.
    fn has_one_name(&mut self, created: Point) -> bool {
        let Kind::Call { arguments, .. } = self.code.kind(created) else {
            return false;
        };
        let Some(&handle) = arguments.first() else {
            return false;
        };
        let places = self.code.points_to.locations(created.instance, handle);
        let objects = &self.code.points_to.objects;
        places
            .iter()
            .all(|&at| !objects.is_element(self.code.program, at))
    }

    /// The threads that have all ended when a loop of joins is left: it runs over the names that were given
    /// out, from the same start to the same end as the loop that created them.
    fn joined_by_loop(&mut self, last: Point, to: BlockId) -> Vec<ThreadId> {
        let code = self.code;
        let flow = code.flow(last.instance);
        let Some((header, _)) = flow.position(last.instruction) else {
            return Vec::new();
        };
        let Some(cycle) = flow.cycle(header) else {
            return Vec::new();
        };
        if flow.cycle(to) == Some(cycle) {
            return Vec::new();
        }
        let Some(bounds) = self.bounds(last) else {
            return Vec::new();
        };
        let mut joined = Vec::new();
        for (block, id, _) in code.function(last.instance).listed() {
            if flow.cycle(block) != Some(cycle) {
                continue;
            }
            let point = Point {
                instance: last.instance,
                instruction: id,
            };
            // The join is in every turn: no way round it from the header to the header.
            let named = self.named(point);
            if named.is_empty() || !self.is_in_every_turn(point, header) {
                continue;
            }
            let number = i64::try_from(named.len()).unwrap_or(i64::MAX);
            let are_single = named.iter().all(|&thread| {
                let created = &code.points_to.instances.thread(thread).created;
                created.iter().all(|&at| code.is_executed_once(at))
            });
            if are_single && bounds.turns.is_some_and(|turns| turns >= number) {
                joined.extend(named);
                continue;
            }
            for thread in named {
                if self.has_bounds(thread, bounds) {
                    joined.push(thread);
                }
            }
        }
        joined
    }

    fn is_in_every_turn(&self, point: Point, header: BlockId) -> bool {
        let flow = self.code.flow(point.instance);
        let Some((block, _)) = flow.position(point.instruction) else {
            return false;
        };
        let cycle = flow.cycle(header);
        let back = flow.predecessors(header).iter();
        let mut back = back.filter(|from| flow.cycle(**from) == cycle);
        back.all(|&from| flow.dominates(block, from))
    }

    /// Whether the thread is created in a loop with these bounds only.
    fn has_bounds(&mut self, thread: ThreadId, bounds: Bounds) -> bool {
        let code = self.code;
        let [created] = code.points_to.instances.thread(thread).created.as_slice() else {
            return false;
        };
        if !code.is_entered_once(created.instance) {
            return false;
        }
        let flow = code.flow(created.instance);
        let Some(cycle) = flow
            .position(created.instruction)
            .and_then(|(block, _)| flow.cycle(block))
        else {
            return false;
        };
        let function = code.function(created.instance);
        let exits = function
            .blocks
            .iter()
            .enumerate()
            .filter_map(|(block, list)| {
                let block = BlockId::from_index(block);
                let leaves = flow
                    .successors(block)
                    .iter()
                    .any(|to| flow.cycle(*to) != Some(cycle));
                (flow.cycle(block) == Some(cycle) && leaves).then_some(*list.instructions.last()?)
            });
        let exits: Vec<InstructionId> = exits.collect();
        exits.iter().any(|&instruction| {
            let instance = created.instance;
            let other = self.bounds(Point {
                instance,
                instruction,
            });
            other.is_some_and(|other| other.start == bounds.start && other.end == bounds.end)
        })
    }

    /// How many threads of this kind there are in a run.
    fn count(&mut self, thread: ThreadId) -> Option<u64> {
        let [created] = self
            .code
            .points_to
            .instances
            .thread(thread)
            .created
            .as_slice()
        else {
            return (thread.index() == 0).then_some(1);
        };
        if self.code.is_executed_once(*created) {
            return Some(1);
        }
        if !self.code.is_entered_once(created.instance) {
            return None;
        }
        let flow = self.code.flow(created.instance);
        let (block, _) = flow.position(created.instruction)?;
        let cycle = flow.cycle(block)?;
        let blocks = self
            .code
            .function(created.instance)
            .blocks
            .iter()
            .enumerate();
        let mut exits = blocks.filter_map(|(at, list)| {
            let at = BlockId::from_index(at);
            let leaves = flow
                .successors(at)
                .iter()
                .any(|to| flow.cycle(*to) != Some(cycle));
            (flow.cycle(at) == Some(cycle) && leaves).then_some(*list.instructions.last()?)
        });
        let (Some(instruction), None) = (exits.next(), exits.next()) else {
            return None;
        };
        let instance = created.instance;
        let turns = self.bounds(Point {
            instance,
            instruction,
        });
        turns?.turns.and_then(|turns| u64::try_from(turns).ok())
    }

    /// From where to where a loop counts, if this branch ends it.
    fn bounds(&mut self, last: Point) -> Option<Bounds> {
        let Kind::Branch { condition, .. } = *self.code.kind(last) else {
            return None;
        };
        let Operand::Result(condition) = condition else {
            return None;
        };
        let at = |instruction| Point {
            instance: last.instance,
            instruction,
        };
        let Kind::Compare(predicate, counter, end) = *self.code.kind(at(condition)) else {
            return None;
        };
        let end = self.symbols.of(last.instance, end);
        let start = self.first_value(last.instance, counter)?;
        let number = |symbol: Symbol| match self.symbols.root(symbol.root) {
            Root::Number => Some(symbol.offset),
            _ => None,
        };
        let turns = match (predicate, number(start), number(end)) {
            (
                Predicate::SignedLess | Predicate::UnsignedLess | Predicate::NotEqual,
                Some(start),
                Some(end),
            ) => Some(end - start),
            (
                Predicate::SignedLessOrEqual | Predicate::UnsignedLessOrEqual,
                Some(start),
                Some(end),
            ) => Some(end - start + 1),
            _ => None,
        };
        Some(Bounds { start, end, turns })
    }

    /// What a counter begins with: the value from outside of a phi that also gets itself plus something.
    fn first_value(&mut self, instance: InstanceId, counter: Operand) -> Option<Symbol> {
        let mut counter = counter;
        for _ in 0..4 {
            let Operand::Result(instruction) = counter else {
                return None;
            };
            match self.code.kind(Point {
                instance,
                instruction,
            }) {
                Kind::Cast(_, inner) => counter = *inner,
                Kind::Phi(incoming) => {
                    let flow = self.code.flow(instance);
                    let (block, _) = flow.position(instruction)?;
                    let cycle = flow.cycle(block);
                    let outside = incoming
                        .iter()
                        .find(|(from, _)| flow.cycle(*from) != cycle)?;
                    return Some(self.symbols.of(instance, outside.1));
                }
                _ => return None,
            }
        }
        None
    }
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    start: Symbol,
    end: Symbol,
    turns: Option<i64>,
}

impl Parallel {
    pub fn new<'a, 'p>(code: &'a Code<'p>, symbols: &mut Symbols<'a, 'p>) -> Self {
        let descendants = descendants(code);
        let count = code.points_to.instances.threads.len();
        let mut problem = Alive {
            code,
            symbols,
            left: descendants.clone(),
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

/// The thread and its descendants may run beside all that is alive when it is created.
fn pair(beside: &mut [Threads], new: &Threads, alive: &Threads) {
    for thread in new.iter() {
        beside[thread.index()].extend(alive);
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
