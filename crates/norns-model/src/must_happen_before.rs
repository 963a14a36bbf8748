//! Must-happen-before: which events stand in this order in every schedule of the model.
//!
//! The weak happens-before of section 5.5.2 of Carril (2017), which has no edges from
//! locks, extended to what the model guarantees beyond it:
//!
//! - fork, join, allocation of memory before its use, receiving (`Model::needed_before`);
//! - the end of an initialiser before every event that passes it;
//! - at a barrier that never has more users than its count: all entries of a round before all
//!   exits of it;
//! - posts and signals where they all come from one thread: the n-th wait of a thread on a
//!   semaphore that starts with k needs the (n-k)-th post at least, and its n-th wait on a
//!   condition the n-th signal or broadcast.
//!
//! In the faithful meaning reads also come after the writes that they saw; those edges are in
//! `Model::must_see` and not repeated here, since there can be as many as events.

use norns_trace::effect::{Channel, Handoff, OnCondition};
use norns_trace::{Effect, EventIndex, ObjectId, ObjectKind, ThreadId};
use rustc_hash::FxHashMap;

use crate::model::Model;

pub struct MustHappenBefore {
    /// Direct edges between threads, `(later, earlier)`, sorted.
    edges: Vec<(EventIndex, EventIndex)>,
    /// By thread: the positions, ascending, at which it gets to know more of the others, each with
    /// the number of events of every thread that are certainly executed from there on.
    clocks: Vec<Vec<(u32, Box<[u32]>)>>,
}

impl MustHappenBefore {
    pub fn of(model: &Model) -> MustHappenBefore {
        let mut edges = model.orders_between_threads().to_vec();
        for uses in uses(model).values() {
            uses.edges(model, &mut edges);
        }
        // The observed order is legal, so what must come earlier comes earlier in the trace.
        edges.retain(|&(later, earlier)| earlier < later);
        edges.sort_unstable();
        edges.dedup();
        let clocks = clocks(model, &edges);
        MustHappenBefore { edges, clocks }
    }

    /// Whether `first` comes before `second` in every schedule that has `second`.
    pub fn ordered(&self, model: &Model, first: EventIndex, second: EventIndex) -> bool {
        let (from, to) = (model.thread_of(first), model.thread_of(second));
        let (first, second) = (
            model.position_of(first) as u32,
            model.position_of(second) as u32,
        );
        if from == to {
            return first < second;
        }
        let known = &self.clocks[to.index()];
        let at = known.partition_point(|&(position, _)| position <= second);
        known[..at]
            .last()
            .is_some_and(|(_, clock)| clock[from.index()] > first)
    }

    /// The events of other threads that directly precede this one in every schedule.
    pub fn needed_before(&self, event: EventIndex) -> impl Iterator<Item = EventIndex> {
        let from = self.edges.partition_point(|&(later, _)| later < event);
        self.edges[from..]
            .iter()
            .take_while(move |edge| edge.0 == event)
            .map(|edge| edge.1)
    }
}

/// The operations on one object that make edges, by thread and in order.
struct Uses {
    kind: ObjectKind,
    object: ObjectId,
    /// Barrier exits, semaphore waits, waits that need a signal, passes of a once.
    waits: FxHashMap<ThreadId, Vec<EventIndex>>,
    /// Barrier entries, posts, signals and broadcasts, ends of the initialiser.
    helps: FxHashMap<ThreadId, Vec<EventIndex>>,
}

/// All objects that make edges, in one pass over the trace.
fn uses(model: &Model) -> FxHashMap<ObjectId, Uses> {
    let mut all: FxHashMap<ObjectId, Uses> = FxHashMap::default();
    for (i, event) in model.trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        let effect = event.op.effect();
        let (object, helps) = match effect.handoff(event.thread) {
            Handoff::Sends(Channel::Object(object)) => (object, true),
            Handoff::Receives(Channel::Object(object)) => (object, false),
            // The orders of threads are direct ones of the model.
            Handoff::Sends(Channel::Start(_) | Channel::End(_))
            | Handoff::Receives(Channel::Start(_) | Channel::End(_))
            | Handoff::None => continue,
        };
        // The critical sections of a lock have no order that every schedule keeps, a spurious
        // wake-up needs no signal, and the orders of a channel are direct ones of the model.
        let is_spurious = matches!(effect, Effect::Condition(_, OnCondition::Wait))
            && !model.wait_needs_signal(here);
        if matches!(effect, Effect::Lock(..) | Effect::Channel(..)) || is_spurious {
            continue;
        }
        let uses = all.entry(object).or_insert_with(|| Uses {
            kind: model.kind(object),
            object,
            waits: FxHashMap::default(),
            helps: FxHashMap::default(),
        });
        let side = if helps {
            &mut uses.helps
        } else {
            &mut uses.waits
        };
        side.entry(event.thread).or_default().push(here);
    }
    all
}

impl Uses {
    fn edges(&self, model: &Model, edges: &mut Vec<(EventIndex, EventIndex)>) {
        let number = model.number[self.object.index()];
        match self.kind {
            ObjectKind::Barrier if self.helps.len() as i64 <= number => {
                for (thread, exits) in &self.waits {
                    for (round, &exit) in exits.iter().enumerate() {
                        let others = self.helps.iter().filter(|(other, _)| *other != thread);
                        edges.extend(
                            others.filter_map(|(_, enters)| Some((exit, *enters.get(round)?))),
                        );
                    }
                }
            }
            ObjectKind::Semaphore | ObjectKind::Condition | ObjectKind::Once
                if self.helps.len() == 1 =>
            {
                let free = if self.kind == ObjectKind::Semaphore {
                    number
                } else {
                    0
                };
                let (helper, helps) = self.helps.iter().next().expect("there is one");
                for (_, waits) in self.waits.iter().filter(|(thread, _)| *thread != helper) {
                    for (n, &wait) in waits.iter().enumerate() {
                        let needed = if self.kind == ObjectKind::Once {
                            0
                        } else {
                            n as i64 - free
                        };
                        let help = usize::try_from(needed).ok().and_then(|n| helps.get(n));
                        edges.extend(help.map(|&help| (wait, help)));
                    }
                }
            }
            _ => {}
        }
    }
}

fn clocks(model: &Model, edges: &[(EventIndex, EventIndex)]) -> Vec<Vec<(u32, Box<[u32]>)>> {
    let threads = model.threads.len();
    let mut clocks: Vec<Vec<(u32, Box<[u32]>)>> = vec![Vec::new(); threads];
    let mut rest = edges;
    while let Some(&(later, _)) = rest.first() {
        let count = rest.iter().take_while(|edge| edge.0 == later).count();
        let thread = model.thread_of(later).index();
        let last = clocks[thread].last();
        let mut clock = last.map_or_else(|| vec![0; threads].into_boxed_slice(), |l| l.1.clone());
        for &(_, earlier) in &rest[..count] {
            let from = model.thread_of(earlier).index();
            let position = model.position_of(earlier) as u32;
            let at = clocks[from].partition_point(|&(p, _)| p <= position);
            if let Some((_, known)) = clocks[from][..at].last() {
                for (mine, theirs) in clock.iter_mut().zip(known.iter()) {
                    *mine = (*mine).max(*theirs);
                }
            }
            clock[from] = clock[from].max(position + 1);
        }
        clocks[thread].push((model.position_of(later) as u32, clock));
        rest = &rest[count..];
    }
    clocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Meaning;
    use crate::script::trace;

    /// `expected` lists pairs of event numbers, `a<b`, that are ordered, of those of different
    /// threads.
    fn check(script: &str, expected: &str) {
        let trace = trace(script);
        let model = Model::new(&trace, Meaning::Optimistic);
        let order = MustHappenBefore::of(&model);
        let mut found = Vec::new();
        for second in 0..trace.events.len() {
            for first in 0..second {
                let (a, b) = (
                    EventIndex::from_index(first),
                    EventIndex::from_index(second),
                );
                if model.thread_of(a) != model.thread_of(b) && order.ordered(&model, a, b) {
                    found.push(format!("{first}<{second}"));
                }
            }
        }
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn fork_and_join() {
        check("M: write x, fork W\nW: write x\nM: join W", "0<2 1<2 2<3");
    }

    #[test]
    fn locks_order_nothing() {
        check("A: lock m, unlock m\nB: lock m, unlock m", "");
    }

    #[test]
    fn a_barrier_for_all_its_users() {
        check(
            "M: barrier-init b 2, enter b\nW: enter b, exit b\nM: exit b",
            "0<3 1<3 2<4",
        );
        check(
            "M: barrier-init b 2, enter b\nW: enter b, exit b\nV: enter b",
            "",
        );
    }

    #[test]
    fn posts_of_one_thread() {
        check(
            "M: sem-init s 0, post s, post s\nW: sem-wait s, sem-wait s",
            "0<3 1<3 0<4 1<4 2<4",
        );
        check(
            "M: sem-init s 1, post s\nW: sem-wait s, sem-wait s",
            "0<3 1<3",
        );
        check("M: sem-init s 0, post s\nV: post s\nW: sem-wait s", "");
    }

    #[test]
    fn a_signal_of_one_thread() {
        check("W: lock m, unlock m\nM: signal c\nW: wait c", "2<3");
        check(
            "W: lock m, unlock m\nM: signal c\nV: signal c\nW: wait c",
            "",
        );
    }

    #[test]
    fn once() {
        check("A: once-begin o, once-end o\nB: once-pass o", "0<2 1<2");
    }
}
