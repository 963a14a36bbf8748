//! Deadlock candidates: cycles in which each thread holds a lock and takes the next one, and waits for
//! something else under a lock that the thread which should end the wait needs.
//!
//! A cycle is no candidate if two of its threads cannot be there at the same time, or both hold a third lock
//! (a gate), or a reader meets a reader. Locks of many objects (one in every node of a list) are one node of
//! the graph: taking two of them is a cycle by itself unless it is the same one.

use std::collections::{BTreeMap, BTreeSet};

use norns_ir::{BinaryOperator, Kind, Operand};
use rustc_hash::FxHashSet;

use crate::acquisition::{Acquisition, Blocking};
use crate::candidate::{Candidate, CandidateKind, Place, SourcePlace};
use crate::code::Code;
use crate::describe::{self, Shown};
use crate::external::Mode;
use crate::hand_over::HandOver;
use crate::instance::{Point, ThreadId};
use crate::lock_set::{Held, LockSets};
use crate::object::Location;
use crate::parallel::Parallel;
use crate::points_to::constant_integer;
use crate::symbol::{Root, Symbol, Symbols};

/// Longer cycles are not looked for.
const LONGEST_CYCLE: usize = 4;
/// The search for cycles ends after this many steps.
const MOST_STEPS: usize = 2_000_000;

pub struct Deadlocks<'a, 'b, 'p> {
    pub code: &'a Code<'p>,
    pub symbols: &'b Symbols<'a, 'p>,
    pub parallel: &'b Parallel,
    pub locks: &'b LockSets,
    pub hand_over: &'b HandOver,
    pub is_cut_off: bool,
}

/// What makes deadlocks one candidate: their places and their locks. A program that takes all its locks in a
/// function of its own has many deadlocks at one place.
type Key = (Vec<SourcePlace>, String);

/// One thread holds a lock and takes another.
#[derive(Clone, Debug)]
struct Edge {
    thread: ThreadId,
    from: (Location, Mode, Symbol),
    to: (Location, Mode, Symbol),
    point: Point,
    shown: Shown,
    held: Vec<Held>,
    /// Whether the lock is held on every way to the acquisition.
    is_sure: bool,
    /// If a loop takes the lock of one element after the other: whether upwards.
    walk: Option<Walk>,
}

/// In which order a loop takes the locks of the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Walk {
    Up,
    Down,
    Unknown,
}

/// How a lock that is taken in a loop, while those of earlier turns are held, goes through its elements.
fn walk(code: &Code, symbols: &Symbols, held: &Held, acquisition: &Acquisition) -> Option<Walk> {
    let point = acquisition.point;
    let is_same = held.lock == acquisition.lock && held.taken == point;
    if !is_same || !code.flow(point.instance).is_in_cycle(point.instruction) {
        return None;
    }
    let Root::Element(_, index, _) = symbols.root(acquisition.lock.root) else {
        return None;
    };
    let Root::Value(instance, instruction) = symbols.root(index.root) else {
        return None;
    };
    let kind = |instance, instruction| {
        code.kind(Point {
            instance,
            instruction,
        })
    };
    let Kind::Phi(incoming) = kind(instance, instruction) else {
        return None;
    };
    let steps = incoming.iter().filter_map(|&(_, next)| {
        let Operand::Result(next) = next else {
            return None;
        };
        let Kind::Binary(operator, a, Operand::Constant(step)) = *kind(instance, next) else {
            return None;
        };
        let step = constant_integer(code.program, step)?;
        match operator {
            BinaryOperator::Add if a == Operand::Result(instruction) => Some(step),
            BinaryOperator::Subtract if a == Operand::Result(instruction) => Some(-step),
            _ => None,
        }
    });
    Some(match steps.collect::<Vec<_>>().as_slice() {
        [1..=i64::MAX] => Walk::Up,
        [i64::MIN..=-1] => Walk::Down,
        _ => Walk::Unknown,
    })
}

impl Deadlocks<'_, '_, '_> {
    pub fn candidates(
        &mut self,
        acquisitions: &[Acquisition],
        blocking: &[Blocking],
    ) -> Vec<Candidate> {
        let mut found: BTreeMap<Key, Candidate> = BTreeMap::new();
        let edges = self.edges(acquisitions);
        let mut by_lock: BTreeMap<Location, Vec<usize>> = BTreeMap::new();
        for (number, edge) in edges.iter().enumerate() {
            by_lock.entry(edge.from.0).or_default().push(number);
        }
        let mut steps = 0;
        for start in 0..edges.len() {
            let mut path = vec![start];
            self.search(&edges, &by_lock, &mut path, &mut steps, &mut found);
        }
        self.is_cut_off = steps >= MOST_STEPS;
        for wait in blocking {
            self.under_lock(wait, acquisitions, &mut found);
        }
        found.into_values().collect()
    }

    fn edges(&self, acquisitions: &[Acquisition]) -> Vec<Edge> {
        let mut edges = Vec::new();
        let mut seen = FxHashSet::default();
        for acquisition in acquisitions {
            for held in &acquisition.may_hold {
                let walk = walk(self.code, self.symbols, held, acquisition);
                if held.lock == acquisition.lock && walk.is_none() {
                    continue;
                }
                let is_sure = acquisition.held.iter().any(|sure| sure.lock == held.lock);
                let places = self.locks.places.get(&held.lock);
                let taken = describe::shown(self.code, held.taken).swap_remove(0).at;
                for shown in describe::shown(self.code, acquisition.point) {
                    for (&from, &to) in places
                        .into_iter()
                        .flatten()
                        .flat_map(|from| acquisition.places.iter().map(move |to| (from, to)))
                    {
                        for &thread in self.code.threads_of(shown.call.instance) {
                            if !seen.insert((
                                from,
                                to,
                                thread,
                                shown.at.clone(),
                                taken.clone(),
                                held.mode,
                                acquisition.mode,
                                acquisition.held.len(),
                            )) {
                                continue;
                            }
                            edges.push(Edge {
                                thread,
                                from: (from, held.mode, held.lock),
                                to: (to, acquisition.mode, acquisition.lock),
                                point: acquisition.point,
                                shown: shown.clone(),
                                held: acquisition.held.clone(),
                                is_sure,
                                walk,
                            });
                        }
                    }
                }
            }
        }
        edges
    }

    fn search(
        &self,
        edges: &[Edge],
        by_lock: &BTreeMap<Location, Vec<usize>>,
        path: &mut Vec<usize>,
        steps: &mut usize,
        found: &mut BTreeMap<Key, Candidate>,
    ) {
        *steps += 1;
        if *steps >= MOST_STEPS {
            return;
        }
        let first = &edges[path[0]];
        let last = &edges[*path.last().expect("a path has a first edge")];
        if last.to.0 == first.from.0 && blocks(last, first) {
            let is_single = path.len() == 1;
            // Two threads of one kind, each with the lock of another object.
            let is_pair =
                is_single && self.meet(first, first) && !self.code.is_unique(first.from.0.object)
                    || is_single && self.meet(first, first) && self.is_element(first.from.0);
            // All go through the elements in one direction.
            let is_ordered = matches!(first.walk, Some(Walk::Up | Walk::Down))
                && path.iter().all(|&at| edges[at].walk == first.walk);
            if (!is_single || is_pair) && !is_ordered {
                self.report(edges, path, found);
            }
        }
        if path.len() == LONGEST_CYCLE {
            return;
        }
        for &next in by_lock.get(&last.to.0).map_or(&[][..], Vec::as_slice) {
            // The cycle begins with its lowest edge.
            if next <= path[0] || path.contains(&next) || !blocks(last, &edges[next]) {
                continue;
            }
            if path
                .iter()
                .all(|&other| self.meet(&edges[other], &edges[next]))
            {
                path.push(next);
                self.search(edges, by_lock, path, steps, found);
                path.pop();
            }
        }
    }

    fn is_element(&self, at: Location) -> bool {
        self.code
            .points_to
            .objects
            .is_element(self.code.program, at)
    }

    /// Whether two threads can stand at these edges at the same time.
    fn meet(&self, a: &Edge, b: &Edge) -> bool {
        if a.thread == b.thread && !self.parallel.is_multiple(a.thread) {
            return false;
        }
        let (first, second) = ((a.thread, a.point), (b.thread, b.point));
        if !self.parallel.may_overlap(first, second) {
            return false;
        }
        let is_ordered =
            self.hand_over
                .is_before(self.code, self.parallel, self.locks, first, second)
                || self
                    .hand_over
                    .is_before(self.code, self.parallel, self.locks, second, first);
        !is_ordered && !self.have_gate(a, b)
    }

    /// Whether both hold one lock that excludes the other.
    fn have_gate(&self, a: &Edge, b: &Edge) -> bool {
        a.held.iter().any(|first| {
            let Some(gate) = self.locks.concrete(self.code, self.symbols, first.lock) else {
                return false;
            };
            b.held.iter().any(|second| {
                let excludes = first.mode == Mode::Exclusive || second.mode == Mode::Exclusive;
                excludes && self.locks.concrete(self.code, self.symbols, second.lock) == Some(gate)
            })
        })
    }

    fn report(&self, edges: &[Edge], path: &[usize], found: &mut BTreeMap<Key, Candidate>) {
        let mut places: Vec<Place> = path
            .iter()
            .map(|&at| self.place(&edges[at], "lock"))
            .collect();
        places.sort();
        let mut key: Vec<SourcePlace> = places.iter().map(|place| place.at.clone()).collect();
        key.dedup();
        let names: BTreeSet<String> = path
            .iter()
            .map(|&at| describe::location(self.code, edges[at].from.0))
            .collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let is_exact = path.iter().all(|&at| {
            self.code.is_unique(edges[at].from.0.object) && !self.is_element(edges[at].from.0)
        });
        found.entry((key, names.clone())).or_insert(Candidate {
            kind: CandidateKind::Deadlock,
            rank: match (is_exact, path.iter().all(|&at| edges[at].is_sure)) {
                (true, true) => 90,
                (true, false) => 60,
                (false, true) => 50,
                (false, false) => 35,
            },
            object: names,
            places,
        });
    }

    fn place(&self, edge: &Edge, access: &'static str) -> Place {
        self.place_at(edge.shown.clone(), edge.thread, &edge.held, access)
    }

    fn place_at(
        &self,
        shown: Shown,
        thread: ThreadId,
        held: &[Held],
        access: &'static str,
    ) -> Place {
        let created = self.code.points_to.instances.thread(thread).created.first();
        Place {
            at: shown.at,
            inside: shown.inside.into_iter().collect(),
            access,
            held: held
                .iter()
                .map(|held| describe::symbol(self.code, self.symbols, held.lock))
                .collect(),
            chain: describe::chain(self.code, shown.call.instance),
            created: created.map(|&at| describe::outside(self.code, at)),
        }
    }

    /// A wait under a lock that a thread takes which should end the wait.
    fn under_lock(
        &self,
        wait: &Blocking,
        acquisitions: &[Acquisition],
        found: &mut BTreeMap<Key, Candidate>,
    ) {
        for held in &wait.held {
            if wait.mutex == Some(held.lock) || wait.is_timed {
                continue;
            }
            let Some(lock) = self.locks.concrete(self.code, self.symbols, held.lock) else {
                continue;
            };
            if let [only] = wait.mutex_places.as_slice()
                && (only.object, i64::try_from(only.offset).unwrap_or(-1)) == lock
            {
                continue;
            }
            for acquisition in acquisitions {
                let is_reader = held.mode == Mode::Shared && acquisition.mode == Mode::Shared;
                if is_reader
                    || self
                        .locks
                        .concrete(self.code, self.symbols, acquisition.lock)
                        != Some(lock)
                {
                    continue;
                }
                let threads = self.code.threads_of(acquisition.point.instance);
                for &waiter in self.code.threads_of(wait.point.instance) {
                    let blocked = threads.iter().find(|&&thread| {
                        let is_other = thread != waiter || self.parallel.is_multiple(thread);
                        let (a, b) = ((waiter, wait.point), (thread, acquisition.point));
                        let is_ordered =
                            self.hand_over
                                .is_before(self.code, self.parallel, self.locks, b, a);
                        is_other
                            && wait.wakers.contains(&thread)
                            && self.parallel.may_overlap(a, b)
                            && !is_ordered
                    });
                    let Some(&thread) = blocked else {
                        continue;
                    };
                    let first = |point| describe::shown(self.code, point).swap_remove(0);
                    let (waits, takes) = (first(wait.point), first(acquisition.point));
                    let places = vec![
                        self.place_at(waits, waiter, &wait.held, wait.word),
                        self.place_at(takes, thread, &acquisition.held, "lock"),
                    ];
                    let key = places.iter().map(|place| place.at.clone()).collect();
                    let is_condition = wait.mutex.is_some();
                    let name = describe::symbol(self.code, self.symbols, held.lock);
                    found.entry((key, name.clone())).or_insert(Candidate {
                        kind: match is_condition {
                            true => CandidateKind::WaitWithLock,
                            false => CandidateKind::Deadlock,
                        },
                        rank: 70,
                        object: name,
                        places,
                    });
                }
            }
        }
    }
}

/// Whether the lock that one thread wants is refused by the way in which the next one holds it.
fn blocks(wants: &Edge, holds: &Edge) -> bool {
    wants.to.1 == Mode::Exclusive || holds.from.1 == Mode::Exclusive
}
