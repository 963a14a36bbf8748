//! The locks that a thread surely holds at each instruction.
//!
//! Relative summaries after RELAY (Voung et al. 2007): a shared function is known by the locks that it
//! adds and those that it may release, in the terms of its parameters. Functions in one context only need no
//! summary: the state goes through them. A lock that is tried is held where a branch says that the attempt
//! worked.

use norns_ir::{BlockId, Callee, Kind, Operand, Predicate};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::Code;
use crate::dataflow::{Problem, Solution};
use crate::external::{Effect, Mode};
use crate::instance::{InstanceId, Point};
use crate::object::{Location, ObjectId};
use crate::points_to::constant_integer;
use crate::symbol::{Root, Symbol, Symbols};

/// A lock that is held: which, how, and how many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Held {
    pub lock: Symbol,
    pub mode: Mode,
    pub times: u32,
    /// Where it was taken.
    pub taken: Point,
}

/// A function that may release more locks than this may release any.
const MOST_RELEASED: usize = 24;

/// Sorted by lock.
pub type LockSet = Vec<Held>;

pub struct LockSets {
    /// For each instance the locks before each instruction that can be reached.
    before: Vec<Vec<Option<u32>>>,
    sets: Vec<LockSet>,
    numbers: FxHashMap<LockSet, u32>,
    /// The places that each lock can be.
    pub places: FxHashMap<Symbol, Vec<Location>>,
    /// The same for the locks that are held on some way to the instruction.
    may_before: Vec<Vec<Option<u32>>>,
    /// Semaphores that a thread posts without having them: they are no locks.
    refused: FxHashSet<Symbol>,
}

struct Locking<'a, 'b, 'p> {
    code: &'a Code<'p>,
    symbols: &'b mut Symbols<'a, 'p>,
    places: FxHashMap<Symbol, Vec<Location>>,
    /// What each instance may release, with all it calls; `None` if that can be any lock.
    released: Vec<Option<Vec<Symbol>>>,
    /// Semaphores that begin at 1, which are used as locks.
    semaphores: FxHashSet<Location>,
    ways: Ways,
}

/// Which ways to an instruction count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ways {
    /// A lock is held if it is on all of them.
    All,
    /// A lock is held if it is on one of them.
    Any,
}

fn add(state: &mut LockSet, new: Held) {
    match state.binary_search_by_key(&new.lock, |held| held.lock) {
        Ok(at) => {
            state[at].times = state[at].times.saturating_add(1).min(8);
            state[at].mode = state[at].mode.max(new.mode);
        }
        Err(at) => state.insert(at, new),
    }
}

fn remove(state: &mut LockSet, lock: Symbol) {
    if let Ok(at) = state.binary_search_by_key(&lock, |held| held.lock) {
        state[at].times -= 1;
        if state[at].times == 0 {
            state.remove(at);
        }
    }
}

impl Problem for Locking<'_, '_, '_> {
    type State = LockSet;

    fn start(&self, _: InstanceId) -> LockSet {
        LockSet::new()
    }

    fn join(&self, into: &mut LockSet, other: &LockSet) {
        if self.ways == Ways::Any {
            for held in other {
                match into.binary_search_by_key(&held.lock, |held| held.lock) {
                    Ok(at) => {
                        let known = &mut into[at];
                        known.times = known.times.max(held.times);
                        known.mode = known.mode.max(held.mode);
                        known.taken = known.taken.min(held.taken);
                    }
                    Err(at) => into.insert(at, *held),
                }
            }
            return;
        }
        into.retain_mut(|held| {
            let Ok(at) = other.binary_search_by_key(&held.lock, |held| held.lock) else {
                return false;
            };
            held.times = held.times.min(other[at].times);
            held.mode = held.mode.min(other[at].mode);
            held.taken = held.taken.min(other[at].taken);
            true
        });
    }

    fn step(&mut self, point: Point, state: &mut LockSet) {
        let Some((effects, arguments)) = self.code.external(point) else {
            return;
        };
        for effect in effects {
            match self.as_lock(point, *effect) {
                Effect::Lock(argument, mode) => {
                    if let Some(&operand) = arguments.get(argument) {
                        let lock = self.lock(point.instance, operand);
                        add(
                            state,
                            Held {
                                lock,
                                mode,
                                times: 1,
                                taken: point,
                            },
                        );
                    }
                }
                Effect::FileLock => self.lock_file(point, arguments, state),
                Effect::Closes(argument) => {
                    if let Some(&operand) = arguments.get(argument)
                        && let Some(lock) = self.file(point.instance, operand)
                    {
                        state.retain(|held| held.lock != lock);
                    }
                }
                Effect::Unlock(argument) | Effect::GuardRelease(argument) => {
                    if let Some(&operand) = arguments.get(argument) {
                        let lock = self.lock(point.instance, operand);
                        self.release(state, lock);
                    }
                }
                _ => {}
            }
        }
    }

    fn branch(&mut self, point: Point, to: BlockId, state: &mut LockSet) {
        let mut held = Vec::new();
        match *self.code.kind(point) {
            Kind::Branch {
                condition,
                then,
                otherwise,
            } if then != otherwise => {
                self.implied(point.instance, condition, to == otherwise, &mut held, 8);
            }
            Kind::Switch {
                value,
                default,
                ref cases,
            } if to != default => {
                let mut values = cases.iter().filter(|(_, block)| *block == to);
                let is_zero = |id| constant_integer(self.code.program, id) == Some(0);
                if values.all(|&(value, _)| is_zero(value)) {
                    self.implied(point.instance, value, true, &mut held, 8);
                }
            }
            _ => {}
        }
        for held in held {
            add(state, held);
        }
    }

    fn enter(&mut self, call: Point, callee: InstanceId, state: &LockSet) -> LockSet {
        if let Some(once) = self.once(call) {
            let mut inside = state.clone();
            add(&mut inside, once);
            return inside;
        }
        if self.code.points_to.instances.only_caller(callee).is_some() {
            return state.clone();
        }
        let mut inside = LockSet::new();
        for held in state {
            for lock in self.symbols.in_callee(held.lock, callee, call) {
                self.copy_places(held.lock, lock);
                add(&mut inside, Held { lock, ..*held });
            }
        }
        inside
    }

    fn leave(
        &mut self,
        call: Point,
        callee: InstanceId,
        before: &LockSet,
        inside: (&LockSet, &LockSet),
    ) -> LockSet {
        if self.once(call).is_some() {
            return before.clone();
        }
        if self.code.points_to.instances.only_caller(callee).is_some() {
            return inside.1.clone();
        }
        let (entry, exit) = inside;
        let mut after = before.clone();
        match self.released[callee.index()].clone() {
            Some(released) if !after.is_empty() => {
                for lock in released {
                    let lock = self.symbols.in_caller(lock, callee, call);
                    self.release(&mut after, lock);
                }
            }
            Some(_) => {}
            None => after.clear(),
        }
        for held in exit {
            if entry.iter().all(|old| old.lock != held.lock) {
                let lock = self.symbols.in_caller(held.lock, callee, call);
                self.copy_places(held.lock, lock);
                if after.iter().all(|old| old.lock != lock) {
                    add(&mut after, Held { lock, ..*held });
                }
            }
        }
        after
    }
}

impl Locking<'_, '_, '_> {
    /// What is called once is called under a lock: that of its control variable.
    fn once(&mut self, call: Point) -> Option<Held> {
        let (effects, arguments) = self.code.external(call)?;
        let [Effect::Once { .. }] = effects else {
            return None;
        };
        Some(Held {
            lock: self.lock(call.instance, *arguments.first()?),
            mode: Mode::Exclusive,
            times: 1,
            taken: call,
        })
    }

    /// The lock on a file that a thread has opened for itself, by the variable that the name of the file is in.
    ///
    /// Descriptors that threads share do not exclude each other. That the name stays the same is not checked.
    fn file(&mut self, instance: InstanceId, descriptor: Operand) -> Option<Symbol> {
        /// No data has this offset.
        const LOCK: i64 = i64::MIN / 2;
        let descriptor = self.symbols.of(instance, descriptor);
        let (Root::Value(opener, instruction), 0) =
            (self.symbols.root(descriptor.root), descriptor.offset)
        else {
            return None;
        };
        if opener != instance {
            return None;
        }
        let point = Point {
            instance,
            instruction,
        };
        let Kind::Call {
            callee: Callee::Function(opened),
            arguments,
            ..
        } = self.code.kind(point)
        else {
            return None;
        };
        let name = self.code.program.function(*opened).name.as_str();
        if !matches!(name, "open" | "open64") {
            return None;
        }
        let path = self.symbols.of(instance, *arguments.first()?);
        let is_variable = matches!(self.symbols.root(path.root), Root::Object(object) if self.code.is_unique(object));
        is_variable.then_some(Symbol {
            root: path.root,
            offset: path.offset.saturating_add(LOCK),
        })
    }

    fn lock_file(&mut self, point: Point, arguments: &[Operand], state: &mut LockSet) {
        const SHARED: i64 = 1;
        const EXCLUSIVE: i64 = 2;
        let [descriptor, Operand::Constant(operation)] = *arguments else {
            return;
        };
        let Some(lock) = self.file(point.instance, descriptor) else {
            return;
        };
        // A lock that is held is converted; an attempt that does not wait may get none.
        state.retain(|held| held.lock != lock);
        let mode = match constant_integer(self.code.program, operation) {
            Some(SHARED) => Mode::Shared,
            Some(EXCLUSIVE) => Mode::Exclusive,
            _ => return,
        };
        add(
            state,
            Held {
                lock,
                mode,
                times: 1,
                taken: point,
            },
        );
    }

    /// The effect on a semaphore that is used as a lock, as one on a lock.
    fn as_lock(&self, point: Point, effect: Effect) -> Effect {
        let (semaphore, lock) = match effect {
            Effect::SemaphoreWait {
                semaphore,
                is_sure: true,
            } => (semaphore, Effect::Lock(semaphore, Mode::Exclusive)),
            Effect::SemaphoreWait {
                semaphore,
                is_sure: false,
            } => (semaphore, Effect::TryLock(semaphore, Mode::Exclusive)),
            Effect::SemaphorePost(semaphore) => (semaphore, Effect::Unlock(semaphore)),
            other => return other,
        };
        let operand = self
            .code
            .external(point)
            .and_then(|(_, arguments)| arguments.get(semaphore));
        let places = operand.map_or_else(Vec::new, |&operand| {
            self.code.points_to.locations(point.instance, operand)
        });
        let is_lock = !places.is_empty() && places.iter().all(|at| self.semaphores.contains(at));
        if is_lock { lock } else { effect }
    }

    fn lock(&mut self, instance: InstanceId, operand: Operand) -> Symbol {
        let lock = self.symbols.of(instance, operand);
        let places = self.code.points_to.locations(instance, operand);
        let known = self.places.entry(lock).or_default();
        for place in places {
            if !known.contains(&place) {
                known.push(place);
            }
        }
        lock
    }

    fn copy_places(&mut self, from: Symbol, to: Symbol) {
        if from == to {
            return;
        }
        let places = self.places.get(&from).cloned().unwrap_or_default();
        let known = self.places.entry(to).or_default();
        for place in places {
            if !known.contains(&place) {
                known.push(place);
            }
        }
    }

    /// Releases a lock, and whatever else could be the same one.
    fn release(&mut self, state: &mut LockSet, lock: Symbol) {
        if state.iter().any(|held| held.lock == lock) {
            remove(state, lock);
            return;
        }
        let places = self.places.get(&lock).cloned().unwrap_or_default();
        let same: Vec<Symbol> = state
            .iter()
            .map(|held| held.lock)
            .filter(|held| {
                let other = self.places.get(held).map_or(&[][..], Vec::as_slice);
                other.iter().any(|place| places.contains(place))
            })
            .collect();
        for lock in same {
            remove(state, lock);
        }
    }

    /// The locks that are held if a value is zero, or is not.
    fn implied(
        &mut self,
        instance: InstanceId,
        value: Operand,
        is_zero: bool,
        held: &mut Vec<Held>,
        depth: u32,
    ) {
        let symbol = self.symbols.of(instance, value);
        let (Root::Value(instance, instruction), 0, 1..) =
            (self.symbols.root(symbol.root), symbol.offset, depth)
        else {
            return;
        };
        let point = Point {
            instance,
            instruction,
        };
        let number = |operand: Operand| match operand {
            Operand::Constant(id) => constant_integer(self.code.program, id),
            _ => None,
        };
        match *self.code.kind(point) {
            Kind::Compare(predicate @ (Predicate::Equal | Predicate::NotEqual), a, b)
                if number(b) == Some(0) =>
            {
                let is_zero = is_zero == (predicate == Predicate::NotEqual);
                self.implied(instance, a, is_zero, held, depth - 1);
            }
            Kind::Binary(norns_ir::BinaryOperator::Xor, a, b)
                if number(b).is_some_and(|bit| bit & 1 == 1) =>
            {
                self.implied(instance, a, !is_zero, held, depth - 1);
            }
            Kind::Call { .. } | Kind::Invoke { .. } => {
                let Some((effects, arguments)) = self.code.external(point) else {
                    return;
                };
                for effect in effects {
                    let tried = match self.as_lock(point, *effect) {
                        Effect::TryLock(argument, mode) if is_zero => Some((argument, mode)),
                        Effect::GuardAcquire(argument) if !is_zero => {
                            Some((argument, Mode::Exclusive))
                        }
                        _ => None,
                    };
                    if let Some((argument, mode)) = tried
                        && let Some(&operand) = arguments.get(argument)
                    {
                        let lock = self.lock(instance, operand);
                        held.push(Held {
                            lock,
                            mode,
                            times: 1,
                            taken: point,
                        });
                    }
                }
            }
            _ => {}
        }
    }

    /// What each instance may release, in its own terms, with all that it calls.
    fn find_released(&mut self) {
        let instances = &self.code.points_to.instances;
        let mut all: Vec<Option<Vec<Symbol>>> = vec![Some(Vec::new()); instances.len()];
        let mut queue = Vec::new();
        for point in self.code.points() {
            let instance = point.instance;
            let Some((effects, arguments)) = self.code.external(point) else {
                continue;
            };
            for effect in effects {
                let effect = self.as_lock(point, *effect);
                if let (Effect::Unlock(argument), true) = (effect, !arguments.is_empty()) {
                    let lock = self.lock(instance, arguments[argument]);
                    if let Some(known) = &mut all[instance.index()]
                        && !known.contains(&lock)
                    {
                        known.push(lock);
                        queue.push((instance, Some(lock)));
                    }
                }
            }
        }
        while let Some((instance, lock)) = queue.pop() {
            for &call in &instances.get(instance).callers {
                let is_only = instances.only_caller(instance).is_some();
                let Some(known) = &all[call.instance.index()] else {
                    continue;
                };
                let outside = match lock {
                    // Paths that grow with every turn of a recursion, or too many of them.
                    _ if known.len() >= MOST_RELEASED => None,
                    Some(lock) if !is_only => Some(self.symbols.in_caller(lock, instance, call)),
                    other => other,
                };
                let (Some(known), Some(outside)) = (&mut all[call.instance.index()], outside)
                else {
                    all[call.instance.index()] = None;
                    queue.push((call.instance, None));
                    continue;
                };
                if !known.contains(&outside) {
                    known.push(outside);
                    queue.push((call.instance, Some(outside)));
                }
                if let Some(lock) = lock {
                    self.copy_places(lock, outside);
                }
            }
        }
        self.released = all;
    }
}

impl LockSets {
    pub fn new<'a, 'p>(code: &'a Code<'p>, symbols: &mut Symbols<'a, 'p>) -> Self {
        let mut problem = Locking {
            code,
            symbols,
            places: FxHashMap::default(),
            released: Vec::new(),
            semaphores: binary_semaphores(code),
            ways: Ways::All,
        };
        problem.find_released();
        let mut solution = Solution::new(code, &mut problem);
        let mut sets = Self {
            before: Vec::new(),
            may_before: Vec::new(),
            sets: Vec::new(),
            numbers: FxHashMap::default(),
            places: FxHashMap::default(),
            refused: FxHashSet::default(),
        };
        for instance in code.points_to.instances.ids() {
            let mut before = vec![None; code.function(instance).instructions.len()];
            solution.for_each(code, &mut problem, instance, |instruction, state| {
                before[instruction.index()] = Some(sets.number(state));
            });
            sets.before.push(before);
        }
        problem.ways = Ways::Any;
        let mut solution = Solution::new(code, &mut problem);
        for instance in code.points_to.instances.ids() {
            let mut before = vec![None; code.function(instance).instructions.len()];
            solution.for_each(code, &mut problem, instance, |instruction, state| {
                before[instruction.index()] = Some(sets.number(state));
            });
            sets.may_before.push(before);
        }
        problem.ways = Ways::All;
        sets.refuse_posts(code, &mut problem);
        sets.places = problem.places;
        sets
    }

    /// A semaphore is a lock only if it is posted by who has it.
    fn refuse_posts(&mut self, code: &Code, problem: &mut Locking) {
        for point in code.points() {
            let instance = point.instance;
            let is_reached = self.number_before(point).is_some();
            let Some(([effect @ Effect::SemaphorePost(argument)], arguments)) =
                code.external(point)
            else {
                continue;
            };
            if is_reached && problem.as_lock(point, *effect) != *effect {
                let lock = problem.lock(instance, arguments[*argument]);
                if self.before(point).iter().all(|held| held.lock != lock) {
                    let places = problem.places.get(&lock).cloned().unwrap_or_default();
                    let others = problem.places.iter();
                    let same =
                        others.filter(|(_, other)| other.iter().any(|at| places.contains(at)));
                    self.refused.extend(same.map(|(&lock, _)| lock));
                }
            }
        }
    }

    /// Whether a semaphore is used as a lock.
    #[must_use]
    pub fn is_lock(&self, lock: Symbol) -> bool {
        self.places.contains_key(&lock) && !self.refused.contains(&lock)
    }

    fn number(&mut self, set: &LockSet) -> u32 {
        if let Some(&known) = self.numbers.get(set) {
            return known;
        }
        let number = u32::try_from(self.sets.len()).expect("fewer lock sets than instructions");
        self.sets.push(set.clone());
        self.numbers.insert(set.clone(), number);
        number
    }

    /// The locks that are held before an instruction; none if no thread comes there.
    #[must_use]
    pub fn before(&self, point: Point) -> &[Held] {
        match self.before[point.instance.index()][point.instruction.index()] {
            Some(number) => &self.sets[number as usize],
            None => &[],
        }
    }

    /// The locks that are held before an instruction on some way that leads there.
    #[must_use]
    pub fn may_hold_before(&self, point: Point) -> &[Held] {
        match self.may_before[point.instance.index()][point.instruction.index()] {
            Some(number) => &self.sets[number as usize],
            None => &[],
        }
    }

    /// Equal for points at which the same locks are held.
    #[must_use]
    pub fn number_before(&self, point: Point) -> Option<u32> {
        self.before[point.instance.index()][point.instruction.index()]
    }

    /// Whether two accesses exclude each other: if their addresses are equal, they hold the same lock.
    pub fn exclude(
        &self,
        code: &Code,
        symbols: &mut Symbols,
        a: (Point, Operand),
        b: (Point, Operand),
    ) -> bool {
        let (held_a, held_b) = (self.before(a.0), self.before(b.0));
        if held_a.is_empty() || held_b.is_empty() {
            return false;
        }
        let address_a = symbols.of(a.0.instance, a.1);
        let address_b = symbols.of(b.0.instance, b.1);
        held_a.iter().any(|first| {
            held_b.iter().any(|second| {
                let excludes = first.mode == Mode::Exclusive || second.mode == Mode::Exclusive;
                excludes
                    && self.is_same(
                        code,
                        symbols,
                        (first.lock, address_a),
                        (second.lock, address_b),
                    )
            })
        })
    }

    fn is_same(
        &self,
        code: &Code,
        symbols: &Symbols,
        a: (Symbol, Symbol),
        b: (Symbol, Symbol),
    ) -> bool {
        if let (Some(a), Some(b)) = (
            self.concrete(code, symbols, a.0),
            self.concrete(code, symbols, b.0),
        ) && a == b
        {
            return true;
        }
        if self.refused.contains(&a.0) || self.refused.contains(&b.0) {
            return false;
        }
        // A lock beside the data, in the same structure, or behind a pointer there.
        match (symbols.way(a.1, a.0), symbols.way(b.1, b.0)) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        }
    }

    /// The one place that a lock is, if its object stands for one concrete object.
    #[must_use]
    pub fn concrete(
        &self,
        code: &Code,
        symbols: &Symbols,
        lock: Symbol,
    ) -> Option<(ObjectId, i64)> {
        if self.refused.contains(&lock) {
            return None;
        }
        if let Root::Object(object) = symbols.root(lock.root) {
            return code.is_unique(object).then_some((object, lock.offset));
        }
        let [only] = self.places.get(&lock)?.as_slice() else {
            return None;
        };
        let is_element = code.points_to.objects.is_element(code.program, *only);
        let is_one = code.is_unique(only.object) && !is_element;
        is_one.then_some((only.object, i64::try_from(only.offset).ok()?))
    }
}

/// The semaphores that are made with the value 1 wherever they are made.
fn binary_semaphores(code: &Code) -> FxHashSet<Location> {
    let mut binary = FxHashSet::default();
    let mut others = FxHashSet::default();
    for point in code.points() {
        let instance = point.instance;
        let Some(([Effect::SemaphoreInit(_)], arguments)) = code.external(point) else {
            continue;
        };
        let [semaphore, _, value] = arguments else {
            continue;
        };
        let is_one = matches!(value, Operand::Constant(id) if constant_integer(code.program, *id) == Some(1));
        let places = code.points_to.locations(instance, *semaphore);
        if is_one {
            binary.extend(places);
        } else {
            others.extend(places);
        }
    }
    binary.retain(|at| !others.contains(at));
    binary
}
