//! Race candidates: two accesses that may touch the same memory at the same time, at least one of them a
//! write, not both atomic, without a common lock.
//!
//! Accesses of which everything that matters is equal are one class, so that the contexts of a function are
//! not compared with each other one by one.
//!
//! The rank says how likely a candidate is a true race: a variable of its own name counts more than an
//! element of an array or one of many blocks; a lock on one side only, which the other side forgot, counts
//! more than none; locks that could be the same count less.

use std::collections::{BTreeMap, BTreeSet};

use norns_ir::PlaceId;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::access::{Access, Act, Target, accesses, escaped, is_data, is_made_by};
use crate::candidate::{Candidate, CandidateKind, Place, SourcePlace};
use crate::code::Code;
use crate::describe;
use crate::fresh::Fresh;
use crate::hand_over::HandOver;
use crate::instance::{InstanceId, Point, ThreadId};
use crate::lock_set::LockSets;
use crate::object::{Location, ObjectId, Origin};
use crate::own::Own;
use crate::owner::Owners;
use crate::parallel::Parallel;
use crate::structure::Field;
use crate::symbol::{Root, Symbol, Symbols};
use crate::token::Tokens;

/// Pairs of classes that are looked at, of one object and of all; what is beyond is said.
const MOST_PAIRS: usize = 2_000_000;
const MOST_PAIRS_OF_ALL: usize = 20_000_000;
/// With more candidates than this, structures that no pointer tells apart add nothing that anybody reads.
const MOST_BEFORE_ANY: usize = 50_000;

pub struct Races<'a, 'b, 'p> {
    code: &'a Code<'p>,
    symbols: &'b mut Symbols<'a, 'p>,
    parallel: &'b Parallel,
    locks: &'b LockSets,
    hand_over: &'b HandOver,
    escaped: FxHashSet<ObjectId>,
    fresh: Fresh,
    own: Own,
    owners: Owners,
    tokens: Tokens,
    classes: Vec<Class>,
    places: Vec<SourcePlace>,
    shown: ShownPlaces,
    /// The places of accesses that are left out because they could touch anything.
    pub wide: FxHashSet<Option<PlaceId>>,
    /// Objects with more pairs than were looked at.
    pub cut_off: Vec<String>,
}

/// Accesses that no check tells apart; one of them stands for all.
struct Class {
    access: Access,
    symbol: Symbol,
    /// A number of `Races::places`: where it is shown.
    place: u32,
    /// A number of `Races::places`: where it stands in a header of the system, if it is shown elsewhere.
    inside: Option<u32>,
    /// The instruction at `place`: the access itself, or the call that leads to it.
    call: Point,
    field: Option<Field>,
}

/// What makes accesses one class.
#[derive(PartialEq, Eq, Hash)]
struct Likeness<'c> {
    place: u32,
    inside: Option<u32>,
    act: Act,
    size: u64,
    symbol: Symbol,
    field: Option<Field>,
    threads: &'c [ThreadId],
    alive: Option<u32>,
    held: Option<u32>,
    known: Option<u32>,
    tokens: Option<u32>,
}

/// A class of accesses to one place of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Touch {
    start: u64,
    end: u64,
    class: usize,
}

/// The likeliest race of two places so far.
struct Found {
    rank: u32,
    at: Location,
    classes: (usize, usize),
    threads: (ThreadId, ThreadId),
    /// Where in headers of the system the two places race with each other, the place with the lower number first.
    inside: BTreeSet<(Option<u32>, Option<u32>)>,
}

/// A candidate names no more pairs of places in headers than this.
const MOST_INSIDE: usize = 16;

impl<'a, 'b, 'p> Races<'a, 'b, 'p> {
    pub fn new(
        code: &'a Code<'p>,
        symbols: &'b mut Symbols<'a, 'p>,
        parallel: &'b Parallel,
        locks: &'b LockSets,
        hand_over: &'b HandOver,
    ) -> Self {
        let escaped = escaped(code);
        let fresh = Fresh::new(code, symbols, (parallel, locks), &escaped);
        let own = Own::new(code, symbols);
        let tokens = Tokens::new(code, symbols, parallel, locks);
        Self {
            code,
            symbols,
            parallel,
            locks,
            hand_over,
            escaped,
            fresh,
            own,
            owners: Owners::new(code),
            tokens,
            classes: Vec::new(),
            places: Vec::new(),
            shown: ShownPlaces::default(),
            wide: FxHashSet::default(),
            cut_off: Vec::new(),
        }
    }

    pub fn candidates(&mut self) -> Vec<Candidate> {
        let mut found: BTreeMap<(u32, u32), Found> = BTreeMap::new();
        let mut objects: Vec<(ObjectId, Vec<Touch>)> = self.touches().into_iter().collect();
        // If not all pairs can be looked at, those of the objects with the most accesses are left out: they
        // are mixtures of many concrete objects.
        let origins = &self.code.points_to.objects;
        let is_any = |object: ObjectId| matches!(origins.origin(object), Origin::Any(_));
        objects.sort_by_key(|(object, touches)| (is_any(*object), touches.len(), *object));
        let mut left = MOST_PAIRS_OF_ALL;
        for (object, touches) in objects {
            if is_any(object) && found.len() > MOST_BEFORE_ANY {
                let whole = Location { object, offset: 0 };
                self.cut_off.push(describe::location(self.code, whole));
                continue;
            }
            self.of_object(object, &touches, &mut left, &mut found);
        }
        let found: Vec<Found> = found.into_values().collect();
        found.iter().map(|found| self.candidate(found)).collect()
    }

    /// The accesses of all objects that can be raced for, sorted and each class once.
    fn touches(&mut self) -> BTreeMap<ObjectId, Vec<Touch>> {
        let code = self.code;
        let mut by_object: BTreeMap<ObjectId, Vec<Touch>> = BTreeMap::new();
        let mut known: FxHashMap<Likeness, usize> = FxHashMap::default();
        let all = accesses(code, self.parallel);
        // What a pointer to almost anything is used as may be any structure of that type.
        let wide = all.iter().filter(|access| access.is_wide(code));
        let mut any: FxHashSet<ObjectId> = FxHashSet::default();
        for access in wide {
            match access.of_any(code) {
                Some(at) => {
                    any.insert(at.object);
                }
                None => {
                    let function = code.function(access.point.instance);
                    self.wide
                        .insert(function.instruction(access.point.instruction).place);
                }
            }
        }
        // There, the contexts of an instruction are told apart by what they hold and by their threads only.
        let mut known_any = FxHashSet::default();
        for access in all {
            let mut class: Option<Vec<usize>> = None;
            let mut touched = access.places(code);
            let is_wide = access.is_wide(code);
            touched.retain(|at| self.escaped.contains(&at.object));
            if (is_wide || !touched.is_empty())
                && let Some(at) = access.of_any(code).filter(|at| any.contains(&at.object))
            {
                let point = access.point;
                let function = code.points_to.instances.get(point.instance).function;
                let likeness = (
                    (at, function, point.instruction),
                    code.threads_of(point.instance),
                    self.parallel.number(point),
                    self.locks
                        .before(point)
                        .iter()
                        .map(|held| held.lock.offset)
                        .collect::<Vec<_>>(),
                    (self.hand_over.number(point), self.tokens.number(point)),
                );
                if known_any.insert(likeness) {
                    touched.push(at);
                }
            }
            for at in touched {
                if !self.escaped.contains(&at.object) || !is_data(code, at.object) {
                    continue;
                }
                let point = access.point;
                if self
                    .fresh
                    .is_fresh(self.symbols, point, access.address, at.object)
                {
                    continue;
                }
                let classes = class.get_or_insert_with(|| {
                    let symbol = self.symbols.of(point.instance, access.address);
                    let field = access.field(code);
                    let mut classes = Vec::new();
                    for shown in self.shown.of(code, point, &mut self.places) {
                        let likeness = Likeness {
                            field,
                            place: shown.place,
                            inside: shown.inside,
                            act: access.act,
                            size: access.size,
                            symbol,
                            threads: code.threads_of(shown.call.instance),
                            alive: self.parallel.number(point),
                            held: self.locks.number_before(point),
                            known: self.hand_over.number(point),
                            tokens: self.tokens.number(point),
                        };
                        classes.push(*known.entry(likeness).or_insert_with(|| {
                            self.classes.push(Class {
                                access: access.clone(),
                                symbol,
                                place: shown.place,
                                inside: shown.inside,
                                call: shown.call,
                                field,
                            });
                            self.classes.len() - 1
                        }));
                    }
                    classes
                });
                let touches = by_object.entry(at.object).or_default();
                touches.extend(classes.iter().map(|&class| Touch {
                    start: at.offset,
                    end: at.offset.saturating_add(access.size),
                    class,
                }));
            }
        }
        for touches in by_object.values_mut() {
            touches.sort_unstable();
            touches.dedup();
        }
        by_object
    }

    fn threads_of(&self, touch: &Touch) -> &'a [ThreadId] {
        self.code
            .threads_of(self.classes[touch.class].call.instance)
    }

    fn of_object(
        &mut self,
        object: ObjectId,
        touches: &[Touch],
        left: &mut usize,
        found: &mut BTreeMap<(u32, u32), Found>,
    ) {
        let threads: FxHashSet<ThreadId> = touches
            .iter()
            .flat_map(|touch| self.threads_of(touch))
            .copied()
            .collect();
        let is_shared =
            threads.len() > 1 || threads.iter().any(|&only| self.parallel.is_multiple(only));
        let mut acts = touches
            .iter()
            .map(|touch| self.classes[touch.class].access.act);
        if !is_shared || !acts.any(Act::writes) {
            return;
        }
        let most = MOST_PAIRS.min(*left);
        let mut pairs = 0;
        for (at, first) in touches.iter().enumerate() {
            for second in &touches[at..] {
                if second.start >= first.end {
                    break;
                }
                pairs += 1;
                if pairs > most {
                    *left -= most;
                    let whole = Location { object, offset: 0 };
                    self.cut_off.push(describe::location(self.code, whole));
                    return;
                }
                self.pair(object, (first, second), found);
            }
        }
        *left -= pairs;
    }

    fn pair(
        &mut self,
        object: ObjectId,
        (first, second): (&Touch, &Touch),
        found: &mut BTreeMap<(u32, u32), Found>,
    ) {
        let (a, b) = (&self.classes[first.class], &self.classes[second.class]);
        if !a.access.act.conflicts(b.access.act) {
            return;
        }
        let at = Location {
            object,
            offset: first.start.max(second.start),
        };
        let rank = self.rank(a, b, at);
        let key = (a.place.min(b.place), a.place.max(b.place));
        let is_turned = b.place < a.place;
        let inside = match is_turned {
            true => (b.inside, a.inside),
            false => (a.inside, b.inside),
        };
        let is_known = found.get(&key).is_some_and(|old| {
            let is_full = old.inside.len() >= MOST_INSIDE;
            old.rank >= rank && (is_full || old.inside.contains(&inside))
        });
        if is_known || self.are_apart(a, b) {
            return;
        }
        let Some(threads) = self.overlapping(a, b, object) else {
            return;
        };
        let excluded = self.locks.exclude(
            self.code,
            self.symbols,
            (a.access.point, a.access.address),
            (b.access.point, b.access.address),
        );
        if excluded || self.tokens.exclude(a.access.point, b.access.point) {
            return;
        }
        let old = found.entry(key).or_insert_with(|| Found {
            rank: 0,
            at,
            classes: (first.class, second.class),
            threads,
            inside: BTreeSet::new(),
        });
        if old.inside.len() < MOST_INSIDE {
            old.inside.insert(inside);
        }
        if rank > old.rank {
            (old.rank, old.at) = (rank, at);
            (old.classes, old.threads) = ((first.class, second.class), threads);
        }
    }

    fn candidate(&self, found: &Found) -> Candidate {
        let (a, b) = (
            &self.classes[found.classes.0],
            &self.classes[found.classes.1],
        );
        let mut places = vec![
            self.place(a, found.threads.0),
            self.place(b, found.threads.1),
        ];
        let (lower, higher) = match a.place <= b.place {
            true => (0, 1),
            false => (1, 0),
        };
        let place = |number: &Option<u32>| number.map(|at| self.places[at as usize].clone());
        let lower_inside: BTreeSet<SourcePlace> = found
            .inside
            .iter()
            .filter_map(|(at, _)| place(at))
            .collect();
        let higher_inside: BTreeSet<SourcePlace> = found
            .inside
            .iter()
            .filter_map(|(_, at)| place(at))
            .collect();
        places[lower].inside = lower_inside.into_iter().collect();
        places[higher].inside = higher_inside.into_iter().collect();
        places.sort();
        Candidate {
            kind: CandidateKind::DataRace,
            rank: found.rank,
            object: describe::location(self.code, found.at),
            places,
        }
    }

    /// Two threads that may execute the two accesses at the same time.
    fn overlapping(&self, a: &Class, b: &Class, object: ObjectId) -> Option<(ThreadId, ThreadId)> {
        let points = (a.access.point, b.access.point);
        for &first in self.code.threads_of(a.call.instance) {
            for &second in self.code.threads_of(b.call.instance) {
                if first == second && self.is_alone(first, a, b, object) {
                    continue;
                }
                let (a, b) = ((first, points.0), (second, points.1));
                if !self.parallel.may_overlap(a, b) || self.owners.are_ordered(object, a, b) {
                    continue;
                }
                let is_ordered =
                    self.hand_over
                        .is_before(self.code, self.parallel, self.locks, a, b)
                        || self
                            .hand_over
                            .is_before(self.code, self.parallel, self.locks, b, a);
                if !is_ordered {
                    return Some((first, second));
                }
            }
        }
        None
    }

    /// Whether two accesses by threads of one kind cannot meet.
    fn is_alone(&self, thread: ThreadId, a: &Class, b: &Class, object: ObjectId) -> bool {
        if !self.parallel.is_multiple(thread) {
            return true;
        }
        let is_private = is_made_by(self.code, object, thread) && !self.escaped.contains(&object);
        let is_own = |class: &Class| {
            self.own
                .is_own(self.symbols, thread, class.symbol, class.access.size)
        };
        is_private || (is_own(a) && is_own(b))
    }

    /// Whether two accesses touch different fields, or different constant offsets of one object.
    fn are_apart(&self, a: &Class, b: &Class) -> bool {
        if a.access.target != Target::Direct || b.access.target != Target::Direct {
            return false;
        }
        if let (Some(a), Some(b)) = (a.field, b.field)
            && !self.code.points_to.structures.may_overlap(a, b)
        {
            return true;
        }
        let (first, second) = (a.symbol, b.symbol);
        let is_object = matches!(self.symbols.root(first.root), Root::Object(object) if self.code.is_unique(object));
        if first.root != second.root || !is_object {
            return false;
        }
        let end = |start: i64, size: u64| start.saturating_add_unsigned(size);
        first.offset >= end(second.offset, b.access.size)
            || second.offset >= end(first.offset, a.access.size)
    }

    fn rank(&self, a: &Class, b: &Class, at: Location) -> u32 {
        let mut rank = 50;
        let objects = &self.code.points_to.objects;
        if matches!(objects.origin(at.object), Origin::Any(_)) {
            rank -= 25;
        } else if objects.is_element(self.code.program, at) {
            rank -= 20;
        } else if matches!(objects.origin(at.object), Origin::Global(_)) {
            rank += 20;
        } else if !self.code.is_unique(at.object) {
            rank -= 10;
        }
        let (held_a, held_b) = (
            self.locks.before(a.access.point),
            self.locks.before(b.access.point),
        );
        let places = |lock: Symbol| self.locks.places.get(&lock).map_or(&[][..], Vec::as_slice);
        let may_be_same = held_a.iter().any(|first| {
            let first = places(first.lock);
            held_b
                .iter()
                .any(|second| places(second.lock).iter().any(|at| first.contains(at)))
        });
        match (held_a.is_empty(), held_b.is_empty()) {
            (true, false) | (false, true) => rank += 15,
            (false, false) if may_be_same => rank -= 25,
            _ => {}
        }
        if a.access.act.writes() && b.access.act.writes() {
            rank += 5;
        }
        rank
    }

    fn place(&self, class: &Class, thread: ThreadId) -> Place {
        let access = &class.access;
        let held = self.locks.before(access.point).iter();
        let created = self.code.points_to.instances.thread(thread).created.first();
        Place {
            at: self.places[class.place as usize].clone(),
            inside: Vec::new(),
            access: word(access.act),
            held: held
                .map(|held| describe::symbol(self.code, self.symbols, held.lock))
                .collect(),
            chain: describe::chain(self.code, class.call.instance),
            created: created.map(|&at| describe::outside(self.code, at)),
        }
    }
}

/// Where an access is shown, by number.
#[derive(Clone, Copy)]
struct ShownPlace {
    place: u32,
    inside: Option<u32>,
    call: Point,
}

/// The numbers of places, and for each instance of a header the calls in the program's own files.
#[derive(Default)]
struct ShownPlaces {
    numbers: FxHashMap<SourcePlace, u32>,
    calls: FxHashMap<InstanceId, Vec<(u32, Point)>>,
}

impl ShownPlaces {
    fn of(&mut self, code: &Code, point: Point, places: &mut Vec<SourcePlace>) -> Vec<ShownPlace> {
        let source = describe::source(code, point);
        let is_own = !describe::is_of_the_system(&source.file);
        let own = self.number(source, places);
        let plain = ShownPlace {
            place: own,
            inside: None,
            call: point,
        };
        if is_own {
            return vec![plain];
        }
        if !self.calls.contains_key(&point.instance) {
            let calls = describe::calls_from_program(code, point.instance).into_iter();
            let calls = calls.map(|(at, call)| (self.number(at, places), call));
            let calls = calls.collect();
            self.calls.insert(point.instance, calls);
        }
        match self.calls[&point.instance].as_slice() {
            [] => vec![plain],
            calls => { calls.iter() }
                .map(|&(place, call)| ShownPlace {
                    place,
                    inside: Some(own),
                    call,
                })
                .collect(),
        }
    }

    fn number(&mut self, source: SourcePlace, places: &mut Vec<SourcePlace>) -> u32 {
        *self.numbers.entry(source).or_insert_with_key(|source| {
            places.push(source.clone());
            u32::try_from(places.len() - 1).expect("fewer places than instructions")
        })
    }
}

fn word(act: Act) -> &'static str {
    match act {
        Act::Read => "read",
        Act::Write => "write",
        Act::AtomicRead => "atomic read",
        Act::AtomicWrite => "atomic write",
        Act::Use => "use",
        Act::Renew => "initialise or destroy",
        Act::Free => "free",
    }
}
