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
/// How many loops one after the other are looked for, and among how many; of more, one alone.
const LONGEST: usize = 4;
const MOST_JOINED: usize = 1000;

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
