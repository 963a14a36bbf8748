//! A trace as constraints over the order of its events.
//!
//! Every object has its `Constraint`; here they are gathered, with the edges that hold in every
//! schedule, and served to the solver: only objects whose events moved are looked at, and only
//! in the part of the trace where something moved.

use std::rc::Rc;

use norns_model::Model;
use norns_order::{Formula, Lazy, Node, View};
use norns_trace::{Event, EventIndex, Op};

use super::clocks::Clocks;
use super::conditions::conditions;
use super::counters::{barriers, semaphores};
use super::frame::{Constraint, Frame, Part, Sight, node};
use super::locks::{Lock, locks};
use super::needed_next;
use super::needs::Needs;
use super::registers::{Reads, Register, locations, onces};

pub(super) struct Encoding {
    pub frame: Frame,
    /// Edges that hold in every schedule; all agree with the trace.
    pub edges: Vec<(Node, Node)>,
    /// Reads that did not see the last write that the trace has.
    pub mismatches: usize,
    /// Whether branch events say which reads need their values.
    pub branches: bool,
    constraints: Vec<Box<dyn Constraint>>,
    /// For every node the constraints that it is part of: a range of `memberships`.
    first_membership: Vec<u32>,
    memberships: Vec<u32>,
    /// Constraints that may be violated.
    dirty: Vec<bool>,
    /// Whether the trace itself satisfies everything, as a recorded one does.
    start_holds: bool,
}

impl Encoding {
    pub fn new(model: &Model<'_>, reads: Reads) -> Self {
        let count = model.trace.events.len();
        let locks = locks(model);
        let (mut registers, mismatches) = locations(model, reads);
        let needs = Needs::of(model)
            .filter(|_| reads != Reads::Anything)
            .map(Rc::new);
        if let Some(needs) = &needs {
            for register in &mut registers {
                register.set_needs(needs.clone());
            }
        }
        registers.extend(onces(model));
        let (clocks, edges) = always_ordered(model, &locks, &registers);
        let mut constraints: Vec<Box<dyn Constraint>> = Vec::new();
        constraints.extend(locks.into_iter().flatten().map(boxed));
        constraints.extend(registers.into_iter().map(boxed));
        constraints.extend(semaphores(model).into_iter().map(boxed));
        constraints.extend(barriers(model).into_iter().map(boxed));
        constraints.extend(conditions(model).into_iter().map(boxed));
        constraints.extend(failed_joins(model).map(boxed));
        let (first_membership, memberships) = memberships(count, &constraints);
        Encoding {
            frame: Frame {
                end: Node(count as u32),
                clocks,
            },
            edges,
            mismatches,
            branches: needs.is_some(),
            dirty: vec![false; constraints.len()],
            constraints,
            first_membership,
            memberships,
            start_holds: true,
        }
    }

    /// Events, and the end of the schedule.
    pub fn node_count(&self) -> usize {
        self.frame.end.index() + 1
    }

    /// Where to begin the search for a schedule after which `events` are next: what the trace has
    /// before the first of them takes place, and what has to in every such schedule.
    pub fn start(&self, model: &Model<'_>, events: &[EventIndex]) -> Vec<bool> {
        let mut until = vec![0u32; model.threads.len()];
        for &event in events {
            for needed in needed_next(model, event) {
                for (thread, until) in until.iter_mut().enumerate() {
                    *until = (*until).max(self.frame.clocks.known(needed, thread));
                }
            }
        }
        let first = events.iter().map(|event| event.index()).min().unwrap_or(0);
        let early = |(i, event): (usize, &Event)| {
            i < first || model.position[i] < until[event.thread.index()]
        };
        let mut start: Vec<bool> = model.trace.events.iter().enumerate().map(early).collect();
        start.push(false);
        start
    }

    /// Everything at once, for another solver.
    pub fn all(&self, formula: &mut Formula) {
        for constraint in &self.constraints {
            constraint.all(&self.frame, formula);
        }
    }

    /// From now on the trace itself is not taken for granted.
    pub fn distrust_start(&mut self) {
        self.start_holds = false;
    }
}

fn boxed<C: Constraint + 'static>(constraint: C) -> Box<dyn Constraint> {
    Box::new(constraint)
}

impl Lazy for Encoding {
    fn begin(&mut self) {
        self.dirty.fill(true);
    }

    fn violated(&mut self, view: &View<'_>, moved: &[Node], formula: &mut Formula) {
        for node in moved.iter().filter(|&&node| node < self.frame.end) {
            let range =
                self.first_membership[node.index()]..self.first_membership[node.index() + 1];
            for &constraint in &self.memberships[range.start as usize..range.end as usize] {
                self.dirty[constraint as usize] = true;
            }
        }
        if self.branches {
            // Which reads matter changes without any event moving.
            self.dirty.fill(true);
        }
        let window = match view.order.changed() {
            _ if !self.start_holds => 0..self.frame.end.0,
            Some(window) => window,
            None => return,
        };
        let sight = Sight {
            frame: &self.frame,
            view,
            window,
        };
        for (constraint, dirty) in self.constraints.iter().zip(&mut self.dirty) {
            if *dirty {
                let before = formula.clauses.len();
                constraint.violated(&sight, formula);
                *dirty = formula.clauses.len() > before;
            }
        }
    }
}

fn memberships(count: usize, constraints: &[Box<dyn Constraint>]) -> (Vec<u32>, Vec<u32>) {
    let mut first = vec![0u32; count + 1];
    let all = || {
        let numbered = constraints.iter().enumerate();
        numbered.flat_map(|(i, constraint)| constraint.nodes().iter().map(move |n| (n.index(), i)))
    };
    for (node, _) in all() {
        first[node + 1] += 1;
    }
    for i in 0..count {
        first[i + 1] += first[i];
    }
    let mut next = first.clone();
    let mut members = vec![0u32; first[count] as usize];
    for (node, constraint) in all() {
        members[next[node] as usize] = constraint as u32;
        next[node] += 1;
    }
    (first, members)
}

/// Must-happen-before, and its direct edges.
fn always_ordered(
    model: &Model<'_>,
    locks: &[Option<Lock>],
    registers: &[Register],
) -> (Clocks, Vec<(Node, Node)>) {
    let threads = model.threads.len();
    let mut edges: Vec<(Node, Node)> = Vec::new();
    for events in &model.threads {
        edges.extend(events.windows(2).map(|pair| (node(pair[0]), node(pair[1]))));
    }
    // In a trace that is not quite in order an edge may point back; such an edge says nothing.
    let between = model.orders_between_threads().iter();
    edges.extend(between.map(|&(later, earlier)| (node(earlier), node(later))));
    for register in registers {
        edges.extend(register.only_writers());
    }
    edges.retain(|(a, b)| a < b);
    edges.sort_unstable_by_key(|&(a, b)| (b, a));
    let mut clocks = Clocks::new(threads);
    let mut next_edge = 0;
    let mut more = Vec::new();
    // For every lock and thread the sections so far: position of the acquisition, and the section.
    let mut sections: Vec<Vec<Vec<(u32, usize)>>> = locks
        .iter()
        .map(|lock| {
            if lock.is_some() {
                vec![Vec::new(); threads]
            } else {
                Vec::new()
            }
        })
        .collect();
    let mut next_section = vec![0usize; locks.len()];
    for (i, event) in model.trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        let first = next_edge;
        while edges.get(next_edge).is_some_and(|edge| edge.1.index() == i) {
            next_edge += 1;
        }
        let before = edges[first..next_edge]
            .iter()
            .map(|&(a, _)| EventIndex(a.0));
        clocks.push(event.thread.index(), before);
        let (Op::Lock(o) | Op::ReadLock(o)) = event.op else {
            continue;
        };
        let Some(lock) = &locks[o.index()] else {
            continue;
        };
        let own = next_section[o.index()];
        if lock
            .sections
            .get(own)
            .is_none_or(|section| section.acquire != node(here))
        {
            continue;
        }
        next_section[o.index()] += 1;
        let section = lock.sections[own];
        loop {
            let mut grew = false;
            for (thread, of_thread) in sections[o.index()].iter().enumerate() {
                let known = clocks.known(here, thread);
                let surely = of_thread.partition_point(|&(position, _)| position < known);
                // The last section that excludes this one is enough: those before it are before it.
                let last = of_thread[..surely]
                    .iter()
                    .rev()
                    .map(|&(_, k)| &lock.sections[k])
                    .find(|other| other.excludes(&section));
                if let Some(release) = last.and_then(|other| other.release)
                    && release < node(here)
                    && !clocks.ordered(release, node(here))
                {
                    more.push((release, node(here)));
                    clocks.follow(EventIndex(release.0));
                    grew = true;
                }
            }
            if !grew {
                break;
            }
        }
        sections[o.index()][event.thread.index()].push((model.position[i], own));
    }
    edges.extend(more);
    (clocks, edges)
}

/// A join that gave up stands before the end of the thread.
struct FailedJoin([Node; 2], bool);

fn failed_joins(model: &Model<'_>) -> impl Iterator<Item = FailedJoin> {
    let events = model.trace.events.iter().enumerate();
    events.filter_map(|(i, event)| {
        let Op::FailedJoin(child) = event.op else {
            return None;
        };
        let last = *model.threads[child.index()].last()?;
        let (join, end) = (Node(i as u32), node(last));
        let ended = model.op(last) == Op::End;
        ended.then_some(FailedJoin([join.min(end), join.max(end)], join < end))
    })
}

impl FailedJoin {
    fn parts(&self) -> [Part; 2] {
        let [first, second] = self.0;
        let (join, end) = if self.1 {
            (first, second)
        } else {
            (second, first)
        };
        [Part::Before(join, end), Part::Absent(join)]
    }
}

impl Constraint for FailedJoin {
    fn nodes(&self) -> &[Node] {
        &self.0
    }

    fn violated(&self, sight: &Sight<'_>, formula: &mut Formula) {
        let [Part::Before(join, end), _] = self.parts() else {
            unreachable!("see `parts`")
        };
        if sight.takes_place(join) && sight.is_before(end, join) {
            self.all(sight.frame, formula);
        }
    }

    fn all(&self, frame: &Frame, formula: &mut Formula) {
        frame.clause(formula, self.parts());
    }
}
