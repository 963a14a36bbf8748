//! Tokens: rights that one thread at a time has, without a lock of a library.
//!
//! A token goes with the units of semaphores that threads hand to and fro, with a flag that the first thread sets,
//! or with a variable whose value says whose turn it is. Each source says where a token is taken and where it is
//! given up; that there is only one is then checked: whoever gives it up has surely had it. If not, the token
//! is dropped.

mod flags;
mod semaphores;
mod states;

use norns_ir::BlockId;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::Code;
use crate::condition::Condition;
use crate::dataflow::{Problem, Solution};
use crate::instance::{InstanceId, Point};
use crate::lock_set::LockSets;
use crate::parallel::Parallel;
use crate::symbol::Symbols;

/// The tokens that a thread surely has; sorted.
type Held = Vec<u32>;

/// More tokens than this are not looked at; more candidates remain then.
const MOST_TOKENS: u32 = 64;

/// Where tokens are taken and given up.
#[derive(Default)]
struct Uses {
    count: u32,
    taken: FxHashMap<Point, Vec<u32>>,
    given: FxHashMap<Point, Vec<u32>>,
    /// Taken by who branches on a load that gave none of these values.
    found: FxHashMap<Point, Vec<(u32, Vec<i64>)>>,
}

impl Uses {
    fn token(&mut self) -> Option<u32> {
        let token = self.count;
        (token < MOST_TOKENS).then(|| {
            self.count += 1;
            token
        })
    }

    fn take(&mut self, point: Point, token: u32) {
        self.taken.entry(point).or_default().push(token);
    }

    fn give(&mut self, point: Point, token: u32) {
        self.given.entry(point).or_default().push(token);
    }

    fn find(&mut self, load: Point, token: u32, unless: Vec<i64>) {
        self.found.entry(load).or_default().push((token, unless));
    }
}

struct Holding<'a, 'b, 'p> {
    code: &'a Code<'p>,
    uses: &'b Uses,
    /// For each instance the tokens that it or what it calls gives up.
    giving: Vec<FxHashSet<u32>>,
    conditions: FxHashMap<Point, Option<Condition>>,
}

impl Problem for Holding<'_, '_, '_> {
    type State = Held;

    fn start(&self, _: InstanceId) -> Held {
        Held::new()
    }

    fn join(&self, into: &mut Held, other: &Held) {
        into.retain(|token| other.contains(token));
    }

    fn step(&mut self, point: Point, state: &mut Held) {
        for token in self.uses.given.get(&point).into_iter().flatten() {
            state.retain(|held| held != token);
        }
        for &token in self.uses.taken.get(&point).into_iter().flatten() {
            put(state, token);
        }
    }

    fn branch(&mut self, point: Point, to: BlockId, state: &mut Held) {
        let code = self.code;
        let known = self.conditions.entry(point);
        let condition = known.or_insert_with(|| Condition::of_branch(code, point));
        let Some(condition) = condition else {
            return;
        };
        for (token, unless) in self.uses.found.get(&condition.load).into_iter().flatten() {
            let mut unless = unless.iter();
            if unless.all(|&value| condition.excludes(code, point, to, value)) {
                put(state, *token);
            }
        }
    }

    fn enter(&mut self, _: Point, _: InstanceId, state: &Held) -> Held {
        state.clone()
    }

    fn leave(
        &mut self,
        _: Point,
        callee: InstanceId,
        before: &Held,
        inside: (&Held, &Held),
    ) -> Held {
        if self.code.points_to.instances.only_caller(callee).is_some() {
            return inside.1.clone();
        }
        let mut after = inside.1.clone();
        for &token in before {
            if !self.giving[callee.index()].contains(&token) {
                put(&mut after, token);
            }
        }
        after
    }
}

fn put(state: &mut Held, token: u32) {
    if let Err(at) = state.binary_search(&token) {
        state.insert(at, token);
    }
}

#[derive(Default)]
pub struct Tokens {
    /// For each instance the number of the set before each instruction.
    before: Vec<Vec<Option<u32>>>,
    sets: Vec<Held>,
}

impl Tokens {
    pub fn new<'a, 'p>(
        code: &'a Code<'p>,
        symbols: &mut Symbols<'a, 'p>,
        parallel: &Parallel,
        locks: &LockSets,
    ) -> Self {
        let mut uses = Uses::default();
        semaphores::find(code, symbols, parallel, &mut uses);
        flags::find(code, symbols, parallel, locks, &mut uses);
        states::find(code, symbols, parallel, locks, &mut uses);
        let mut tokens = Self::default();
        if uses.count == 0 {
            return tokens;
        }
        let mut problem = Holding {
            code,
            uses: &uses,
            giving: giving(code, &uses),
            conditions: FxHashMap::default(),
        };
        let mut solution = Solution::new(code, &mut problem);
        let mut refused: FxHashSet<u32> = FxHashSet::default();
        let mut numbers: FxHashMap<Held, u32> = FxHashMap::default();
        for instance in code.points_to.instances.ids() {
            let mut before = vec![None; code.function(instance).instructions.len()];
            solution.for_each(code, &mut problem, instance, |instruction, held| {
                let point = Point {
                    instance,
                    instruction,
                };
                for token in uses.given.get(&point).into_iter().flatten() {
                    if !held.contains(token) {
                        refused.insert(*token);
                    }
                }
                if !held.is_empty() {
                    let number = *numbers.entry(held.clone()).or_insert_with(|| {
                        tokens.sets.push(held.clone());
                        u32::try_from(tokens.sets.len() - 1).expect("fewer sets than instructions")
                    });
                    before[instruction.index()] = Some(number);
                }
            });
            tokens.before.push(before);
        }
        for set in &mut tokens.sets {
            set.retain(|token| !refused.contains(token));
        }
        tokens
    }

    /// Equal for points at which a thread has the same tokens.
    #[must_use]
    pub fn number(&self, point: Point) -> Option<u32> {
        *self
            .before
            .get(point.instance.index())?
            .get(point.instruction.index())?
    }

    /// Whether no two threads can be at these two points at the same time.
    #[must_use]
    pub fn exclude(&self, a: Point, b: Point) -> bool {
        let held = |point: Point| {
            let number = self.number(point);
            number.map_or(&[][..], |number| self.sets[number as usize].as_slice())
        };
        held(a).iter().any(|token| held(b).contains(token))
    }
}

fn giving(code: &Code, uses: &Uses) -> Vec<FxHashSet<u32>> {
    let instances = &code.points_to.instances;
    let mut all = vec![FxHashSet::default(); instances.len()];
    for (point, tokens) in &uses.given {
        for &token in tokens {
            let mut stack = vec![point.instance];
            while let Some(at) = stack.pop() {
                if all[at.index()].insert(token) {
                    stack.extend(instances.get(at).callers.iter().map(|call| call.instance));
                }
            }
        }
    }
    all
}
