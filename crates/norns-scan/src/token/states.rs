//! Variables whose value says whose turn it is: each of several threads goes on at other values than the others,
//! and changes the variable only while it is its turn.

use std::collections::{BTreeMap, BTreeSet};

use norns_ir::{BlockId, Kind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Uses;
use crate::access::{Access, accesses};
use crate::code::Code;
use crate::condition::Condition;
use crate::instance::{InstanceId, Point, ThreadId};
use crate::lock_set::LockSets;
use crate::object::{Location, ObjectId};
use crate::parallel::Parallel;
use crate::signal::{Link, initial_value, link};
use crate::symbol::Symbols;

/// What is done with a variable that threads ask for.
#[derive(Default)]
struct State {
    loads: Vec<Access>,
    /// Those that are not made before the threads are created.
    stores: Vec<Access>,
    values: BTreeSet<i64>,
    is_unclear: bool,
}

/// A branch on a load, and where it goes.
type Edges = FxHashMap<Point, Vec<(Condition, Point, BlockId)>>;

pub(super) fn find(
    code: &Code,
    symbols: &mut Symbols,
    parallel: &Parallel,
    locks: &LockSets,
    uses: &mut Uses,
) {
    let edges = edges(code, parallel);
    let mut states: BTreeMap<(ObjectId, u64), State> = BTreeMap::new();
    for access in accesses(code, parallel) {
        let is_asked = edges.contains_key(&access.point);
        if !access.act.writes() && !is_asked {
            continue;
        }
        let places = access.places(code);
        for at in &places {
            let state = states.entry((at.object, at.offset)).or_default();
            let is_one = places.len() == 1
                && code.is_unique(at.object)
                && !code.points_to.objects.is_element(code.program, *at);
            state.is_unclear |= !is_one;
            if state.is_unclear {
                continue;
            }
            if is_asked {
                state.loads.push(access.clone());
            }
            if access.act.writes() {
                match stored(code, access.point) {
                    Some(value) => state.values.extend([value]),
                    None => state.is_unclear = true,
                }
                if !parallel.is_alone(code, access.point) {
                    state.stores.push(access.clone());
                }
            }
        }
    }
    for ((object, offset), mut state) in states {
        if state.is_unclear || state.stores.is_empty() || state.loads.is_empty() {
            continue;
        }
        state
            .values
            .extend(initial_value(code, Location { object, offset }));
        let turns = turns(code, parallel, &edges, &state);
        let are_linked = state.stores.iter().all(|store| {
            let mut loads = turns.iter().map(|&(load, _)| load);
            loads.all(|load| link(code, symbols, locks, store, load) == Some(Link::Synchronises))
        });
        if turns.is_empty() || !are_linked {
            continue;
        }
        let Some(token) = uses.token() else {
            return;
        };
        for (load, value) in turns {
            let others = state.values.iter().filter(|&&other| other != value);
            uses.find(load.point, token, others.copied().collect());
        }
        for store in &state.stores {
            uses.give(store.point, token);
        }
    }
}

fn stored(code: &Code, point: Point) -> Option<i64> {
    match *code.kind(point) {
        Kind::Store { value, .. } => Condition::constant(code, point.instance, value),
        _ => None,
    }
}

/// The branches on loads, by load.
fn edges(code: &Code, parallel: &Parallel) -> Edges {
    let mut all = Edges::default();
    for instance in code.points_to.instances.ids() {
        let flow = code.flow(instance);
        for (at, block) in code.function(instance).blocks.iter().enumerate() {
            let Some(&instruction) = block.instructions.last() else {
                continue;
            };
            let branch = Point {
                instance,
                instruction,
            };
            if !parallel.is_reached(branch) {
                continue;
            }
            if let Some(condition) = Condition::of_branch(code, branch) {
                let to = flow.successors(BlockId::from_index(at)).iter();
                let edges = all.entry(condition.load).or_default();
                edges.extend(to.map(|&to| (condition.clone(), branch, to)));
            }
        }
    }
    all
}

/// The blocks of each instance in which the variable is stored to, also by what is called there.
fn changing(code: &Code, stores: &[Access]) -> FxHashSet<(InstanceId, BlockId)> {
    let mut all = FxHashSet::default();
    let mut stack: Vec<Point> = stores.iter().map(|store| store.point).collect();
    while let Some(at) = stack.pop() {
        let position = code.flow(at.instance).position(at.instruction);
        if position.is_some_and(|(block, _)| all.insert((at.instance, block))) {
            stack.extend(&code.points_to.instances.get(at.instance).callers);
        }
    }
    all
}

/// Whether the load is executed again after a branch to this block before the variable is changed: the thread
/// goes on waiting.
fn waits(
    code: &Code,
    load: Point,
    to: BlockId,
    changing: &FxHashSet<(InstanceId, BlockId)>,
) -> bool {
    let flow = code.flow(load.instance);
    let Some((wanted, _)) = flow.position(load.instruction) else {
        return true;
    };
    let mut seen = FxHashSet::default();
    let mut stack = vec![to];
    while let Some(block) = stack.pop() {
        if block == wanted {
            return true;
        }
        if seen.insert(block) && !changing.contains(&(load.instance, block)) {
            stack.extend(flow.successors(block));
        }
    }
    false
}

/// The loads after which a thread goes on at one value only, with that value. None if two threads go on at the same.
fn turns<'s>(
    code: &Code,
    parallel: &Parallel,
    edges: &Edges,
    state: &'s State,
) -> Vec<(&'s Access, i64)> {
    let changing = changing(code, &state.stores);
    let mut owners: BTreeMap<i64, ThreadId> = BTreeMap::new();
    let mut all = Vec::new();
    for load in &state.loads {
        let &[thread] = code.threads_of(load.point.instance) else {
            return Vec::new();
        };
        if parallel.is_multiple(thread) {
            return Vec::new();
        }
        for (condition, branch, to) in &edges[&load.point] {
            if waits(code, load.point, *to, &changing) {
                continue;
            }
            let mut possible = state
                .values
                .iter()
                .filter(|&&value| !condition.excludes(code, *branch, *to, value));
            if let (Some(&only), None) = (possible.next(), possible.next()) {
                if *owners.entry(only).or_insert(thread) != thread {
                    return Vec::new();
                }
                all.push((load, only));
            }
        }
    }
    all
}
