//! Plain variables through which one thread may wait for another.
//!
//! A loop that polls a plain variable orders what its thread does behind it after what the writer of the
//! variable did before, though nothing in C says so. Happens-before cannot tell whether the program relies
//! on that. These are the variables of which it may: written by one thread and read plainly by another,
//! unordered, in the recorded run or in a replay.

use std::collections::BTreeSet;

use norns_model::Model;
use norns_model::location::LocationId;
use norns_model::must_happen_before::MustHappenBefore;
use norns_trace::{EventIndex, Op, PlaceId, ThreadId, Touch, TouchKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// How many places at which a thread reads or writes a variable are kept.
const MOST_PLACES: usize = 4;
/// How many loops one after the other are looked for, and among how many; of more, one alone.
const LONGEST: usize = 4;
const MOST_JOINED: usize = 1000;
/// The same in the recorded run. Where many variables race, chains of them lead from everywhere to everywhere:
/// threads that seldom synchronise may have read and written them at any time.
const MOST_JOINED_IN_RUN: usize = 16;

/// The longest round of a loop that polls, in events of its thread, and how many rounds show a loop.
const LONGEST_ROUND: usize = 64;
const ROUNDS: usize = 3;

/// A location that the first thread writes and the second reads plainly, unordered.
pub(super) type Flow = (LocationId, ThreadId, ThreadId);

/// The variables, and where threads read and write them.
#[derive(Default)]
pub struct Flows {
    flows: BTreeSet<Flow>,
    /// The program counters of the races that were added.
    races: FxHashSet<[u64; 2]>,
    reads: FxHashMap<(LocationId, ThreadId), Accesses>,
    writes: FxHashMap<(LocationId, ThreadId), Accesses>,
    /// What is ordered whatever the schedule; `None` if there are no variables.
    must: Option<MustHappenBefore>,
    /// For every thread its events whose order in the recording is the true one, ascending.
    timed: Vec<Vec<EventIndex>>,
}

/// The accesses of one thread to one variable.
struct Accesses {
    /// The first one at each place, in their order.
    first: Vec<(PlaceId, EventIndex)>,
    last: EventIndex,
    /// All of them, ascending.
    all: Vec<EventIndex>,
}

/// A write, and a read by another thread that may wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    pub write: EventIndex,
    pub read: EventIndex,
}

/// Whether a thread makes this read several times in a row, with the same operations in between.
fn goes_round(model: &Model, read: EventIndex) -> bool {
    let trace = model.trace;
    let read = trace.events[read.index()];
    // The places since the last read, those of the round before, and how many rounds were like it.
    let (mut round, mut before) = (Vec::new(), Vec::new());
    let mut same = 0;
    for event in trace.events.iter().filter(|it| it.thread == read.thread) {
        if (event.place, event.op) != (read.place, read.op) {
            if round.len() <= LONGEST_ROUND {
                round.push(event.place);
            }
            continue;
        }
        let is_same = round.len() <= LONGEST_ROUND && round == before;
        same = if is_same { same + 1 } else { 0 };
        if same + 1 == ROUNDS {
            return true;
        }
        std::mem::swap(&mut before, &mut round);
        round.clear();
    }
    false
}

impl Flows {
    pub(super) fn of(model: &Model, flows: &FxHashSet<Flow>) -> Flows {
        let mut all = Flows::default();
        all.add(model, flows.iter().copied());
        all
    }

    /// Adds the variables of further races, given by their program counters.
    pub fn add_races(&mut self, model: &Model, races: impl Iterator<Item = [u64; 2]>) {
        let new: Vec<[u64; 2]> = races.filter(|race| self.races.insert(*race)).collect();
        if new.is_empty() {
            return;
        }
        let pcs: FxHashSet<u64> = new.iter().copied().flatten().collect();
        let mut writers: FxHashMap<u64, FxHashSet<(LocationId, ThreadId)>> = FxHashMap::default();
        let mut readers = writers.clone();
        for (i, event) in model.trace.events.iter().enumerate() {
            let pc = model.trace.place(event.place).pc;
            if !pcs.contains(&pc) {
                continue;
            }
            let Some(touch) = Touch::of(event.op) else {
                continue;
            };
            let here = EventIndex::from_index(i);
            let locations = model.locations.of_event(here).map(LocationId);
            let accesses = locations.map(|location| (location, event.thread));
            if sets(touch) {
                writers.entry(pc).or_default().extend(accesses);
            } else if polls(touch) {
                readers.entry(pc).or_default().extend(accesses);
            }
        }
        let mut flows = Vec::new();
        for [one, other] in new {
            for (write, read) in [(one, other), (other, one)] {
                let writers = writers.get(&write).into_iter().flatten();
                let readers = readers.get(&read).into_iter().flatten();
                for &(location, writer) in writers {
                    let readers = readers.clone();
                    let others = readers.filter(|by| by.0 == location && by.1 != writer);
                    flows.extend(others.map(|by| (location, writer, by.1)));
                }
            }
        }
        self.add(model, flows.into_iter());
    }

    fn add(&mut self, model: &Model, flows: impl Iterator<Item = Flow>) {
        let count = self.flows.len();
        self.flows.extend(flows);
        if self.flows.len() == count {
            return;
        }
        let locations: FxHashSet<LocationId> = self.flows.iter().map(|flow| flow.0).collect();
        let (mut reads, mut writes) = (FxHashMap::default(), FxHashMap::default());
        for (i, event) in model.trace.events.iter().enumerate() {
            let here = EventIndex::from_index(i);
            let Some(touch) = Touch::of(event.op) else {
                continue;
            };
            for location in model.locations.of_event(here).map(LocationId) {
                if !locations.contains(&location) {
                    continue;
                }
                let key = (location, event.thread);
                if polls(touch) {
                    add(&mut reads, key, event.place, here);
                }
                if sets(touch) {
                    add(&mut writes, key, event.place, here);
                }
            }
        }
        (self.reads, self.writes) = (reads, writes);
        self.must.get_or_insert_with(|| MustHappenBefore::of(model));
        if self.timed.is_empty() {
            self.timed = vec![Vec::new(); model.trace.threads.len()];
            for (i, event) in model.trace.events.iter().enumerate() {
                if is_timed(event.op) {
                    self.timed[event.thread.index()].push(EventIndex::from_index(i));
                }
            }
        }
    }

    /// Whether there is no variable that a loop may wait for.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Whether loops that wait for some of the variables may stand between two accesses, which need not
    /// race in the recorded run: what must come after the one writes the variable, and what must come
    /// before the other one reads it; or the read of one loop comes before the write that another one
    /// waits for.
    ///
    /// A race on the variable itself stays one, whatever waits for it. But a block that is freed may
    /// have the variable in it: the loop then orders the free behind the write that ends the wait.
    pub fn may_wait(&self, model: &Model, first: EventIndex, second: EventIndex) -> bool {
        let links = self.others(model, first, second).filter_map(|flow| {
            Some(Link {
                write: self.writes.get(&(flow.0, flow.1))?.last,
                read: self.reads.get(&(flow.0, flow.2))?.first.first()?.1,
            })
        });
        self.join_up(model, links.collect(), first, second)
    }

    /// The same for two accesses of the recorded run as they happened there: a read can only have waited for
    /// a write that came before it. When a plain access happened is known from its thread's operations
    /// before and after it, whose order is the true one.
    pub fn may_have_waited(&self, model: &Model, first: EventIndex, second: EventIndex) -> bool {
        let flows: Vec<Flow> = self.others(model, first, second).copied().collect();
        self.may_lead(model, flows.clone(), first, second)
            || self.may_lead(model, flows, second, first)
    }

    fn may_lead(
        &self,
        model: &Model,
        mut open: Vec<Flow>,
        before: EventIndex,
        after: EventIndex,
    ) -> bool {
        let most = if open.len() <= MOST_JOINED_IN_RUN {
            LONGEST
        } else {
            1
        };
        let mut reached = vec![before];
        for _ in 0..most {
            let mut next = Vec::new();
            let mut others = Vec::new();
            for flow in open {
                let writes = self.writes.get(&(flow.0, flow.1));
                let reads = self.reads.get(&(flow.0, flow.2));
                let (Some(writes), Some(reads)) = (writes, reads) else {
                    continue;
                };
                let follows = |write: &EventIndex| {
                    let mut reached = reached.iter();
                    reached.any(|from| from == write || self.must_come_before(model, *from, *write))
                };
                let at = writes.all.partition_point(|write| !follows(write));
                let Some(&write) = writes.all.get(at) else {
                    others.push(flow);
                    continue;
                };
                let may_see = |read: &EventIndex| self.may_come_before(model, write, *read);
                let in_time = |read: &EventIndex| self.must_come_before(model, *read, after);
                let last = reads.all[..reads.all.partition_point(in_time)].last();
                if last.is_some_and(may_see) {
                    return true;
                }
                let at = reads.all.partition_point(|read| !may_see(read));
                next.extend(reads.all.get(at));
            }
            next.sort_unstable_by_key(|&event| (model.thread_of(event), event));
            next.dedup_by_key(|event| model.thread_of(*event));
            (reached, open) = (next, others);
        }
        false
    }

    /// Whether one plain access may have happened before another one in the recorded run.
    fn may_come_before(&self, model: &Model, one: EventIndex, other: EventIndex) -> bool {
        let timed = |event: EventIndex| &self.timed[model.thread_of(event).index()];
        let before = timed(one);
        let since = before[..before.partition_point(|&timed| timed <= one)].last();
        let after = timed(other);
        let until = after.get(after.partition_point(|&timed| timed < other));
        since.is_none_or(|since| until.is_none_or(|until| since < until))
    }

    /// The same for loops of which something is known: the writes, each the first one of its thread at its
    /// place, and the reads that wait for them.
    pub fn wait(
        &self,
        model: &Model,
        first: EventIndex,
        second: EventIndex,
        is_loop: impl Fn(Link) -> bool,
    ) -> bool {
        let links = self.links(model, first, second);
        self.join_up(
            model,
            links.filter(|link| is_loop(*link)).collect(),
            first,
            second,
        )
    }

    /// The links that alone may order two accesses.
    pub fn links_between<'a>(
        &'a self,
        model: &'a Model,
        first: EventIndex,
        second: EventIndex,
    ) -> impl Iterator<Item = Link> + 'a {
        let links = self.links(model, first, second);
        links.filter(move |&link| {
            let mut both_ways = [(first, second), (second, first)].into_iter();
            both_ways.any(|(before, after)| {
                self.begins(model, before, link) && self.must_come_before(model, link.read, after)
            })
        })
    }

    /// Whether one of the two threads went round in a loop that reads a variable which the other may have
    /// set: in the recorded run it read it again and again, with the same operations in between.
    pub fn is_polled(&self, model: &Model, first: EventIndex, second: EventIndex) -> bool {
        let thread = |event: EventIndex| model.trace.events[event.index()].thread;
        let threads = [thread(first), thread(second)];
        let reads: BTreeSet<EventIndex> = self
            .links(model, first, second)
            .map(|link| link.read)
            .filter(|&read| threads.contains(&thread(read)))
            .collect();
        reads.into_iter().any(|read| goes_round(model, read))
    }

    fn links<'a>(
        &'a self,
        model: &'a Model,
        first: EventIndex,
        second: EventIndex,
    ) -> impl Iterator<Item = Link> + 'a {
        let places = |accesses: Option<&'a Accesses>| {
            let places = accesses.map_or(&[][..], |accesses| &accesses.first);
            places.iter().map(|place| place.1)
        };
        self.others(model, first, second).flat_map(move |flow| {
            let writes = places(self.writes.get(&(flow.0, flow.1)));
            let reads = places(self.reads.get(&(flow.0, flow.2)));
            writes.flat_map(move |write| reads.clone().map(move |read| Link { write, read }))
        })
    }

    /// The variables that are not those of the two accesses themselves.
    fn others<'a>(
        &'a self,
        model: &'a Model,
        first: EventIndex,
        second: EventIndex,
    ) -> impl Iterator<Item = &'a Flow> + 'a {
        let frees = |event: EventIndex| {
            let touch = Touch::of(model.trace.events[event.index()].op);
            touch.is_some_and(|touch| touch.kind == TouchKind::Free)
        };
        let frees = frees(first) || frees(second);
        let own = move |location: LocationId| {
            let of = |event| model.locations.of_event(event).contains(&location.0);
            !frees && (of(first) || of(second))
        };
        self.flows.iter().filter(move |flow| !own(flow.0))
    }

    /// Whether the links lead from one of the two events to the other.
    fn join_up(
        &self,
        model: &Model,
        links: Vec<Link>,
        first: EventIndex,
        second: EventIndex,
    ) -> bool {
        self.lead(model, links.clone(), first, second) || self.lead(model, links, second, first)
    }

    fn lead(&self, model: &Model, links: Vec<Link>, before: EventIndex, after: EventIndex) -> bool {
        let most = if links.len() <= MOST_JOINED {
            LONGEST
        } else {
            1
        };
        let mut open = links;
        // The first event of each thread that comes after.
        let mut reached = vec![before];
        for _ in 0..most {
            let begins = |link: &Link| reached.iter().any(|from| self.begins(model, *from, *link));
            let (next, others): (Vec<Link>, Vec<Link>) = open.into_iter().partition(begins);
            if next
                .iter()
                .any(|link| self.must_come_before(model, link.read, after))
            {
                return true;
            }
            reached = next.iter().map(|link| link.read).collect();
            reached.sort_unstable_by_key(|&event| (model.thread_of(event), event));
            reached.dedup_by_key(|event| model.thread_of(*event));
            open = others;
        }
        false
    }

    fn begins(&self, model: &Model, from: EventIndex, link: Link) -> bool {
        from == link.write || self.must_come_before(model, from, link.write)
    }

    fn must_come_before(&self, model: &Model, event: EventIndex, other: EventIndex) -> bool {
        let must = self.must.as_ref();
        must.is_some_and(|must| must.ordered(model, event, other))
    }
}

/// Whether an event stands in the recording where it happened.
fn is_timed(op: Op) -> bool {
    op.object().is_some() || matches!(op, Op::Fork(_) | Op::Join(_) | Op::Atomic { .. })
}

/// Whether a loop may wait for what this access writes.
fn sets(touch: Touch) -> bool {
    touch.writes && matches!(touch.kind, TouchKind::Plain | TouchKind::Atomic)
}

/// Whether this access may be that of a loop of which happens-before does not know what it orders. Of
/// atomic reads it does.
fn polls(touch: Touch) -> bool {
    touch.reads && touch.kind == TouchKind::Plain
}

fn add(
    accesses: &mut FxHashMap<(LocationId, ThreadId), Accesses>,
    key: (LocationId, ThreadId),
    place: PlaceId,
    event: EventIndex,
) {
    let accesses = accesses.entry(key).or_insert_with(|| Accesses {
        first: Vec::new(),
        last: event,
        all: Vec::new(),
    });
    accesses.last = event;
    accesses.all.push(event);
    let is_known = accesses.first.iter().any(|first| first.0 == place);
    if !is_known && accesses.first.len() < MOST_PLACES {
        accesses.first.push((place, event));
    }
}
