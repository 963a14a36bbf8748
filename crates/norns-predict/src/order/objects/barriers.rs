//! Barriers: a thread leaves only when the round that it entered in is full.
//!
//! A violated rule becomes a clause: of the entries that are on the wrong side, one has to change
//! sides; of each thread only the nearest is named (see `thread_chains`). For another solver the
//! rule stays a sum.

use norns_model::{Model, State};
use norns_order::{Formula, Node, Sum};
use norns_trace::effect::OnBarrier;
use norns_trace::{Effect, ObjectId};

use super::clause::{Atom, Constraint, CurrentOrder, Frame, prefer_observed};
use super::semaphores::{Side, literals};
use super::thread_chains::ThreadChains;

/// One passage of a thread through a barrier.
struct Visit {
    entry: Node,
    exit: Node,
}

pub struct Barrier {
    /// How many threads make a round full.
    count: usize,
    entries: Vec<Node>,
    entries_by_thread: ThreadChains,
    /// The visits that the trace has completely.
    visits: Vec<Visit>,
}

pub fn barriers(model: &Model<'_>) -> Vec<Barrier> {
    let start = State::initial(model);
    let mut found: Vec<Barrier> = (0..model.trace.objects.len())
        .map(|o| Barrier {
            count: start.value(ObjectId::from_index(o)).max(1) as usize,
            entries: Vec::new(),
            entries_by_thread: ThreadChains::default(),
            visits: Vec::new(),
        })
        .collect();
    let mut entered: Vec<Vec<Option<Node>>> =
        vec![vec![None; model.trace.threads.len()]; found.len()];
    for (i, event) in model.trace.events.iter().enumerate() {
        let Effect::Barrier(o, act) = event.op.effect() else {
            continue;
        };
        let node = Node(i as u32);
        match act {
            OnBarrier::Enter => {
                found[o.index()].entries.push(node);
                entered[o.index()][event.thread.index()] = Some(node);
            }
            OnBarrier::Exit => {
                let entry = entered[o.index()][event.thread.index()].take();
                let visit = entry.map(|entry| Visit { entry, exit: node });
                found[o.index()].visits.extend(visit);
            }
            OnBarrier::Init(_) => {}
        }
    }
    found.retain(|barrier| !barrier.entries.is_empty());
    for barrier in &mut found {
        barrier.entries_by_thread = ThreadChains::new(barrier.entries(), model);
    }
    found
}

impl Barrier {
    pub fn count(&self) -> usize {
        self.count
    }

    pub fn entries(&self) -> impl Iterator<Item = Node> + '_ {
        self.entries.iter().copied()
    }

    pub fn exits(&self) -> impl Iterator<Item = Node> + '_ {
        self.visits.iter().map(|visit| visit.exit)
    }
}

impl Constraint for Barrier {
    fn violated(&self, current: &CurrentOrder<'_>, formula: &mut Formula) {
        let mut entries: Vec<Node> = self
            .entries()
            .filter(|&entry| current.takes_place(entry))
            .collect();
        entries.sort_by_key(|&entry| current.view.order.label(entry));
        let before = |node: Node| entries.partition_point(|&entry| current.is_before(entry, node));
        for &Visit { entry, exit } in &self.visits {
            if !current.takes_place(exit) {
                continue;
            }
            let full_rounds = before(entry) / self.count;
            if before(exit) >= (full_rounds + 1) * self.count {
                continue;
            }
            // Another entry has to come before the exit, or one entry less before this one.
            let missing = self.entries_by_thread.first_after(current, exit);
            let mut atoms: Vec<Atom> = missing.map(|other| Atom::Before(other, exit)).collect();
            let last_of_full_rounds = entries[..full_rounds * self.count].last();
            let surplus = last_of_full_rounds
                .into_iter()
                .flat_map(|&last| self.entries_by_thread.last_up_to(current, last));
            atoms.extend(surplus.map(|other| Atom::Before(entry, other)));
            atoms.push(Atom::Absent(exit));
            prefer_observed(&mut atoms);
            current.frame.clause(formula, atoms);
        }
    }

    fn all(&self, frame: &Frame, formula: &mut Formula) {
        for &Visit { entry, exit } in &self.visits {
            let absent = formula.before(frame.end, exit);
            let after = literals(self.entries(), Side::After, entry, formula);
            let before = literals(self.entries(), Side::Before, exit, formula);
            let others = after.len();
            for round in 0..=others / self.count {
                // The visit belongs to an earlier round, or this round is full at its exit.
                let earlier = Sum {
                    terms: after.clone(),
                    at_least: (others + 1).saturating_sub(round * self.count),
                };
                let full = Sum {
                    terms: before.clone(),
                    at_least: (round + 1) * self.count,
                };
                formula.count(vec![absent], vec![earlier, full]);
            }
        }
    }
}
