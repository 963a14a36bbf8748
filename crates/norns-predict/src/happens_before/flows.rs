//! Plain variables through which one thread may wait for another.
//!
//! A loop that polls a plain variable orders what its thread does behind it after what the writer of the
//! variable did before, though nothing in C says so. Happens-before cannot tell whether the program relies
//! on that. These are the variables of which it may: written by one thread and read by another, unordered.

use norns_model::Model;
use norns_model::location::LocationId;
use norns_model::must_happen_before::MustHappenBefore;
use norns_trace::{EventIndex, PlaceId, ThreadId, Touch, TouchKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// How many places at which a thread reads or writes a variable are kept.
const MOST_PLACES: usize = 4;

/// A location of plain accesses, written by the first thread and read by the second, unordered.
pub(super) type Flow = (LocationId, ThreadId, ThreadId);

/// The variables, and where threads read and write them.
#[derive(Default)]
pub struct Flows {
    flows: Vec<Flow>,
    reads: FxHashMap<(LocationId, ThreadId), Accesses>,
    writes: FxHashMap<(LocationId, ThreadId), Accesses>,
    /// What is ordered whatever the schedule; `None` if there are no variables.
    must: Option<MustHappenBefore>,
}

/// The accesses of one thread to one variable.
struct Accesses {
    /// The first one at each place, in their order.
    first: Vec<(PlaceId, EventIndex)>,
    last: EventIndex,
}

/// A write, and a read by another thread that may wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    pub write: EventIndex,
    pub read: EventIndex,
}

impl Flows {
    pub(super) fn of(model: &Model, flows: &FxHashSet<Flow>) -> Flows {
        if flows.is_empty() {
            return Flows::default();
        }
        let locations: FxHashSet<LocationId> = flows.iter().map(|flow| flow.0).collect();
        let mut flows: Vec<Flow> = flows.iter().copied().collect();
        flows.sort_unstable();
        let (mut reads, mut writes) = (FxHashMap::default(), FxHashMap::default());
        for (i, event) in model.trace.events.iter().enumerate() {
            let here = EventIndex::from_index(i);
            let touch = Touch::of(event.op).filter(|touch| touch.kind == TouchKind::Plain);
            let Some(touch) = touch else { continue };
            for location in model.locations.of_event(here).map(LocationId) {
                if !locations.contains(&location) {
                    continue;
                }
                let key = (location, event.thread);
                if touch.reads {
                    add(&mut reads, key, event.place, here);
                }
                if touch.writes {
                    add(&mut writes, key, event.place, here);
                }
            }
        }
        Flows {
            flows,
            reads,
            writes,
            must: Some(MustHappenBefore::of(model)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Whether a loop that waits for one of the variables may stand between two accesses, which need not
    /// race in the recorded run: what the one thread does from the one access on, or a thread that must
    /// come after it, writes the variable; and what comes before the other access reads it.
    ///
    /// A race on the variable itself stays one, whatever waits for it. But a block that is freed may
    /// have the variable in it: the loop then orders the free behind the write that ends the wait.
    pub fn may_wait(&self, model: &Model, first: EventIndex, second: EventIndex) -> bool {
        let mut between = self.between(model, first, second);
        between.any(|(writes, reads, before, after)| {
            let first_read = reads.first.first();
            (before == writes.last || self.must_come_before(model, before, writes.last))
                && first_read.is_some_and(|&(_, read)| self.must_come_before(model, read, after))
        })
    }

    /// The writes between two accesses that such a loop may wait for, each the first one of its thread at
    /// its place, and the reads of the loop.
    pub fn links<'a>(
        &'a self,
        model: &'a Model,
        first: EventIndex,
        second: EventIndex,
    ) -> impl Iterator<Item = Link> + 'a {
        let between = self.between(model, first, second);
        between.flat_map(move |(writes, reads, before, after)| {
            let is_late = move |&&(_, write): &&(PlaceId, EventIndex)| {
                before == write || self.must_come_before(model, before, write)
            };
            let is_early = move |&&(_, read): &&(PlaceId, EventIndex)| {
                self.must_come_before(model, read, after)
            };
            let writes = writes.first.iter().filter(is_late);
            writes.flat_map(move |&(_, write)| {
                let reads = reads.first.iter().filter(is_early);
                reads.map(move |&(_, read)| Link { write, read })
            })
        })
    }

    /// The accesses to every variable that may be waited for between two events, and the two in the order
    /// that this would give them.
    fn between<'a>(
        &'a self,
        model: &'a Model,
        first: EventIndex,
        second: EventIndex,
    ) -> impl Iterator<Item = (&'a Accesses, &'a Accesses, EventIndex, EventIndex)> + 'a {
        let frees = |event: EventIndex| {
            let touch = Touch::of(model.trace.events[event.index()].op);
            touch.is_some_and(|touch| touch.kind == TouchKind::Free)
        };
        let frees = frees(first) || frees(second);
        let own = move |location: LocationId| {
            let of = |event| model.locations.of_event(event).contains(&location.0);
            !frees && (of(first) || of(second))
        };
        let flows = self.flows.iter().filter(move |flow| !own(flow.0));
        flows.flat_map(move |&(location, writer, reader)| {
            let writes = self.writes.get(&(location, writer));
            let reads = self.reads.get(&(location, reader));
            let both_ways = [(first, second), (second, first)].into_iter();
            let orders = both_ways.filter(move |&(before, after)| {
                model.thread_of(before) != reader && model.thread_of(after) != writer
            });
            orders.filter_map(move |(before, after)| Some((writes?, reads?, before, after)))
        })
    }

    fn must_come_before(&self, model: &Model, event: EventIndex, other: EventIndex) -> bool {
        let must = self.must.as_ref();
        must.is_some_and(|must| must.ordered(model, event, other))
    }
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
    });
    accesses.last = event;
    let is_known = accesses.first.iter().any(|first| first.0 == place);
    if !is_known && accesses.first.len() < MOST_PLACES {
        accesses.first.push((place, event));
    }
}
