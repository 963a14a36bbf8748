//! Must-happen-before: what takes place before an event in every schedule that has the event.
//!
//! Program order, fork and join, and the lifetimes of memory; and then what an event needs. A read
//! that finds a value which its own thread did not leave there comes after one of the writes of
//! that value by others, a wait after one of the signals: so it comes after everything that all
//! of these come after. Which of them can be meant follows from the same knowledge: not one that
//! the reader is known to precede, and not one that is known to be overwritten. When the
//! acquisition of one section must come before that of another of the same lock, the whole section
//! must (Said et al. 2011, section 5).
//!
//! The knowledge is a greatest fixpoint: it begins with all that the trace had before an event, and
//! loses what has no reason. Reasons may go round in a circle: in a schedule, what an event needs
//! has come earlier, so by induction over the schedule the knowledge about that is right already.
//! This is what bounds how far a thread can fall behind where every value has been written many
//! times: a smallest fixpoint finds no place to begin.
//!
//! Where branches say which reads count there is a second kind of knowledge: what takes place before
//! an event if all reads of its thread so far matter. Reads need their writes there; a branch makes
//! it knowledge of the first kind, and a write that such a read sees counts with it.
//!
//! Weaker than it could be: how many waits share how many signals is not counted (`reach` does,
//! for one question), and semaphores and barriers give no reasons.

use norns_model::Model;
use norns_order::Node;
use norns_trace::{EventIndex, Op};
use rustc_hash::FxHashMap;

use super::by_thread::{ByThread, Positions};
use super::clocks::Clocks;
use super::conditions::Condition;
use super::frame::node;
use super::locks::Lock;
use super::registers::Register;

/// After so many sweeps over the trace, an event that still loses something has no more needs.
const SWEEPS: usize = 50;

/// An event needs one of some others.
struct Need {
    event: EventIndex,
    /// What gives it comes after this event of the same thread.
    since: Option<EventIndex>,
    /// Which gifts: a number in `Must::gifts`.
    gift: u32,
    /// The register, and the value that has to be there.
    value: Option<(u32, u32)>,
    /// Only where the reads of the thread matter.
    of_branches: bool,
}

/// The sections of one lock and thread that a sweep has come to: position of the acquisition, and
/// number.
#[derive(Clone, Default)]
struct SoFar {
    all: Vec<(u32, usize)>,
    writing: Vec<(u32, usize)>,
}

/// A section that an event is in.
#[derive(Clone, Copy)]
struct Inside {
    lock: u32,
    writes: bool,
    acquire: u32,
    release: Option<EventIndex>,
}

/// A thread, and of each of its accesses the position and the value that is there after it.
type ThreadAccesses = (usize, Vec<(u32, u32)>);

pub(super) struct Must<'m, 't> {
    model: &'m Model<'t>,
    locks: &'m [Option<Lock>],
    threads: usize,
    /// For every event and thread: how many events of the thread come before it or are it.
    known: Vec<u32>,
    /// The same, if all reads of the event's thread so far matter; empty when they always do.
    firm: Vec<u32>,
    branches: Vec<bool>,
    /// Edges between threads that hold whatever the values, sorted by their end.
    edges: Vec<(Node, Node)>,
    /// Sorted by event.
    needs: Vec<Need>,
    /// The positions of the events that give something.
    gifts: Vec<Positions>,
    /// For every register its accesses, thread by thread.
    left: Vec<Vec<ThreadAccesses>>,
    /// For every event the sections that it is in: a number in `inside`.
    place: Vec<u32>,
    inside: Vec<Vec<Inside>>,
}

impl<'m, 't> Must<'m, 't> {
    /// With program order, `edges`, and the sections of locks only.
    pub fn new(
        model: &'m Model<'t>,
        locks: &'m [Option<Lock>],
        mut edges: Vec<(Node, Node)>,
    ) -> Self {
        // In a trace that is not quite in order an edge may point back; such an edge says nothing.
        edges.retain(|(a, b)| a < b);
        edges.sort_unstable_by_key(|&(a, b)| (b, a));
        let count = model.trace.events.len();
        let threads = model.threads.len();
        let mut now = vec![0u32; threads];
        let mut known = Vec::with_capacity(count * threads);
        for event in &model.trace.events {
            now[event.thread.index()] += 1;
            known.extend_from_slice(&now);
        }
        let mut must = Must {
            model,
            locks,
            threads,
            known,
            firm: Vec::new(),
            branches: Vec::new(),
            edges,
            needs: Vec::new(),
            gifts: Vec::new(),
            left: Vec::new(),
            place: vec![0; count],
            inside: vec![Vec::new()],
        };
        must.find_sections();
        must
    }

    fn find_sections(&mut self) {
        let mut changes: Vec<(Node, Inside, bool)> = Vec::new();
        for (number, lock) in self.locks.iter().enumerate() {
            for section in lock.iter().flat_map(|lock| &lock.sections) {
                let inside = Inside {
                    lock: number as u32,
                    writes: section.writes,
                    acquire: self.model.position[section.acquire.index()],
                    release: section.release.map(|node| EventIndex(node.0)),
                };
                changes.push((section.acquire, inside, true));
                if let Some(release) = section.release {
                    changes.push((release, inside, false));
                }
            }
        }
        changes.sort_by_key(|change| change.0);
        let mut changes = changes.into_iter().peekable();
        let mut open: Vec<u32> = vec![0; self.threads];
        for (i, event) in self.model.trace.events.iter().enumerate() {
            let own = &mut open[event.thread.index()];
            while let Some((_, section, begins)) = changes.next_if(|c| c.0.index() == i) {
                let mut sections = self.inside[*own as usize].clone();
                if begins {
                    sections.push(section);
                } else {
                    sections.retain(|other| {
                        other.lock != section.lock || other.acquire != section.acquire
                    });
                }
                *own = match sections.is_empty() {
                    true => 0,
                    false => {
                        self.inside.push(sections);
                        self.inside.len() as u32 - 1
                    }
                };
            }
            self.place[i] = *own;
        }
    }

    /// Branches say which reads count.
    pub fn set_branches(&mut self, branches: impl Iterator<Item = Node>) {
        self.branches = vec![false; self.model.trace.events.len()];
        branches.for_each(|branch| self.branches[branch.index()] = true);
        self.firm = self.known.clone();
    }

    /// Reads need one of the writes of their value.
    pub fn add_register(&mut self, register: &Register) {
        let model = self.model;
        let number = self.left.len() as u32;
        let mut left: Vec<ThreadAccesses> = Vec::new();
        let mut gift_of: FxHashMap<u32, u32> = FxHashMap::default();
        let mut last: FxHashMap<usize, (EventIndex, u32)> = FxHashMap::default();
        let of_branches = !register.always_counts();
        for access in &register.accesses {
            let event = EventIndex(access.node.0);
            let thread = model.thread_of(event).index();
            let before = last.get(&thread).copied();
            if let Some(value) = access.needs
                && before.map_or(register.initial, |(_, value)| value) != value
            {
                let gift = *gift_of.entry(value).or_insert_with(|| {
                    let sources = register.sources(value);
                    self.gifts
                        .push(sources.map_or_else(Vec::new, |s| s.positions(model)));
                    self.gifts.len() as u32 - 1
                });
                self.needs.push(Need {
                    event,
                    since: before.map(|(event, _)| event),
                    gift,
                    value: Some((number, value)),
                    of_branches,
                });
            }
            if let Some(value) = access.writes.or(access.needs) {
                last.insert(thread, (event, value));
                // A read that does not matter says nothing about the memory.
                if access.writes.is_some() || !of_branches {
                    let item = (model.position[event.index()], value);
                    match left.iter_mut().find(|(other, _)| *other == thread) {
                        Some((_, items)) => items.push(item),
                        None => left.push((thread, vec![item])),
                    }
                }
            }
        }
        self.left.push(left);
    }

    /// Waits need a signal or a broadcast.
    pub fn add_condition(&mut self, condition: &Condition) {
        let wakers = ByThread::new(condition.wakers(), self.model);
        self.gifts.push(wakers.positions(self.model));
        let number = self.gifts.len() as u32 - 1;
        for (sleep, wake) in condition.sleeps() {
            self.needs.push(Need {
                event: EventIndex(wake.0),
                since: Some(EventIndex(sleep.0)),
                gift: number,
                value: None,
                of_branches: false,
            });
        }
    }

    fn known(&self, event: EventIndex) -> &[u32] {
        &self.known[event.index() * self.threads..(event.index() + 1) * self.threads]
    }

    fn firm(&self, event: EventIndex) -> &[u32] {
        if self.firm.is_empty() {
            return self.known(event);
        }
        &self.firm[event.index() * self.threads..(event.index() + 1) * self.threads]
    }

    fn event_at(&self, thread: usize, position: u32) -> EventIndex {
        self.model.threads[thread][position as usize]
    }

    /// Sweeps until nothing is lost any more; then the clocks, and edges that give them.
    pub fn finish(mut self) -> (Clocks, Vec<(Node, Node)>) {
        self.needs.sort_by_key(|need| need.event);
        for sweep in 0.. {
            let losers = self.sweep();
            if losers.is_empty() {
                break;
            }
            if sweep >= SWEEPS {
                self.needs
                    .retain(|need| losers.binary_search(&need.event).is_err());
            }
        }
        self.clocks()
    }

    /// Takes from every event what has no reason. Returns the events that lost something.
    fn sweep(&mut self) -> Vec<EventIndex> {
        let model = self.model;
        let threads = self.threads;
        let (mut next_edge, mut next_need) = (0, 0);
        let mut sections: Vec<Vec<SoFar>> = self
            .locks
            .iter()
            .map(|lock| vec![SoFar::default(); if lock.is_some() { threads } else { 0 }])
            .collect();
        let mut next_section = vec![0usize; self.locks.len()];
        let mut losers = Vec::new();
        let mut reasons = vec![0u32; threads];
        let mut firm = vec![0u32; threads];
        let has_branches = !self.firm.is_empty();
        for (i, event) in model.trace.events.iter().enumerate() {
            let here = EventIndex::from_index(i);
            let own = event.thread.index();
            let position = model.position[i];
            match position.checked_sub(1) {
                Some(before) => reasons.copy_from_slice(self.known(self.event_at(own, before))),
                None => reasons.fill(0),
            }
            while let Some(&(a, _)) = self.edges.get(next_edge).filter(|e| e.1.index() == i) {
                join(&mut reasons, self.known(EventIndex(a.0)));
                next_edge += 1;
            }
            let first_need = next_need;
            while self.needs.get(next_need).is_some_and(|n| n.event == here) {
                if !self.needs[next_need].of_branches {
                    self.give(&self.needs[next_need], &mut reasons);
                }
                next_need += 1;
            }
            if has_branches {
                firm.copy_from_slice(&reasons);
                if let Some(before) = position.checked_sub(1) {
                    join(&mut firm, self.firm(self.event_at(own, before)));
                }
                let needs = &self.needs[first_need..next_need];
                for need in needs.iter().filter(|need| need.of_branches) {
                    self.give(need, &mut firm);
                }
            }
            if let Op::Lock(o) | Op::ReadLock(o) = event.op
                && let Some(lock) = &self.locks[o.index()]
                && let number = next_section[o.index()]
                && let Some(section) = lock.sections.get(number)
                && section.acquire == node(here)
            {
                next_section[o.index()] += 1;
                let so_far = &mut sections[o.index()];
                self.follow_sections(lock, number, so_far, &mut reasons);
                if has_branches {
                    self.follow_sections(lock, number, so_far, &mut firm);
                }
                so_far[own].all.push((position, number));
                if section.writes {
                    so_far[own].writing.push((position, number));
                }
            }
            reasons[own] = position + 1;
            let range = i * threads..(i + 1) * threads;
            let mut lost = false;
            if has_branches {
                firm[own] = position + 1;
                lost = lower(&mut self.firm[range.clone()], &firm);
                if self.branches[i] {
                    reasons.copy_from_slice(&firm);
                }
            }
            lost |= lower(&mut self.known[range], &reasons);
            if lost {
                losers.push(here);
            }
        }
        losers
    }

    /// Whole sections of the lock that are known to begin earlier come before.
    fn follow_sections(&self, lock: &Lock, number: usize, so_far: &[SoFar], reasons: &mut [u32]) {
        let section = &lock.sections[number];
        loop {
            let mut grew = false;
            for (thread, of_thread) in so_far.iter().enumerate() {
                if thread == section.thread.index() {
                    continue;
                }
                let others = match section.writes {
                    true => &of_thread.all,
                    false => &of_thread.writing,
                };
                let surely = others.partition_point(|&(position, _)| position < reasons[thread]);
                // The last section is enough: those before it are before it.
                let last = others[..surely].last().map(|&(_, k)| &lock.sections[k]);
                if let Some(release) = last.and_then(|other| other.release)
                    && release < section.acquire
                    && self.model.position[release.index()] >= reasons[thread]
                {
                    join(reasons, self.known(EventIndex(release.0)));
                    grew = true;
                }
            }
            if !grew {
                return;
            }
        }
    }

    /// Adds what comes before all events that can be the one that is needed.
    fn give(&self, need: &Need, reasons: &mut [u32]) {
        let own = self.model.thread_of(need.event).index();
        let mut common: Option<Vec<u32>> = None;
        let mut from = vec![0u32; self.threads];
        if let Some(since) = need.since {
            // All reads of the thread before it matter as well.
            let known = match need.of_branches {
                true => self.firm(since),
                false => self.known(since),
            };
            join(&mut from, known);
        }
        if let Some((register, value)) = need.value {
            // What came before an access that left another value is overwritten.
            for (thread, left) in &self.left[register as usize] {
                let before = left.partition_point(|&(position, _)| position < reasons[*thread]);
                let other = left[..before].iter().rev().find(|(_, v)| *v != value);
                if let Some(&(position, _)) = other {
                    join(&mut from, self.known(self.event_at(*thread, position)));
                }
            }
        }
        for (thread, positions) in &self.gifts[need.gift as usize] {
            if *thread == own {
                continue;
            }
            let first = positions.partition_point(|&position| position < from[*thread]);
            let Some(&position) = positions.get(first) else {
                continue;
            };
            let giver = self.event_at(*thread, position);
            let Some(last) = self.last_before(giver, need.event) else {
                continue;
            };
            let mut known = self.known(last);
            let mut firm;
            if need.of_branches {
                // So do those before a write that is seen.
                firm = self.firm(giver).to_vec();
                join(&mut firm, known);
                if firm[own] > self.model.position[need.event.index()] {
                    continue;
                }
                known = &firm;
            }
            match &mut common {
                None => common = Some(known.to_vec()),
                Some(common) => {
                    for (common, known) in common.iter_mut().zip(known) {
                        *common = (*common).min(*known);
                    }
                }
            }
        }
        if let Some(common) = common {
            join(reasons, &common);
        }
    }

    /// When `giver` comes before `event`: the last event of its thread that then does, since they
    /// are in sections of the same lock. `None` when it cannot come before.
    fn last_before(&self, giver: EventIndex, event: EventIndex) -> Option<EventIndex> {
        let own = self.model.thread_of(event).index();
        let mut last = giver;
        let mut first = self.model.position[event.index()];
        for mine in &self.inside[self.place[event.index()] as usize] {
            for theirs in &self.inside[self.place[giver.index()] as usize] {
                if mine.lock == theirs.lock && (mine.writes || theirs.writes) {
                    last = last.max(theirs.release?);
                    first = first.min(mine.acquire);
                }
            }
        }
        (self.known(last)[own] <= first).then_some(last)
    }

    fn clocks(self) -> (Clocks, Vec<(Node, Node)>) {
        let mut clocks = Clocks::new(self.threads);
        let mut edges = Vec::new();
        for (i, event) in self.model.trace.events.iter().enumerate() {
            let here = EventIndex::from_index(i);
            let own = event.thread.index();
            let position = self.model.position[i];
            let previous = position.checked_sub(1).map(|p| self.event_at(own, p));
            clocks.push(own, previous.into_iter());
            edges.extend(previous.map(|previous| (node(previous), node(here))));
            let known = self.known(here);
            let mut last: Vec<EventIndex> = (0..self.threads)
                .filter(|&thread| thread != own && known[thread] > clocks.known(here, thread))
                .map(|thread| self.event_at(thread, known[thread] - 1))
                .collect();
            // The latest first: what it knows needs no edge of its own.
            last.sort_unstable_by(|a, b| b.cmp(a));
            for other in last {
                if !clocks.ordered(node(other), node(here)) {
                    clocks.follow(other);
                    edges.push((node(other), node(here)));
                }
            }
        }
        (clocks, edges)
    }
}

/// Lowers `known` to what has a reason. Returns whether it lost something.
fn lower(known: &mut [u32], reasons: &[u32]) -> bool {
    let mut lost = false;
    for (known, reason) in known.iter_mut().zip(reasons) {
        lost |= *reason < *known;
        *known = (*known).min(*reason);
    }
    lost
}

fn join(mine: &mut [u32], theirs: &[u32]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = (*mine).max(*theirs);
    }
}
