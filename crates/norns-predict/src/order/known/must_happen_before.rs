//! Must-happen-before: what takes place before an event in every schedule that has the event.
//!
//! The base is program order, fork and join, and the lifetimes of memory. Further orders follow from
//! what an event *requires*: a read that sees a value which its own thread did not leave there comes
//! after one of the writes of that value by other threads, and a wait comes after one of the signals.
//! These are the *providers* of the requirement. Whatever precedes all providers of an event precedes
//! the event. A provider is out of the question if the event is known to precede it, or if the value
//! that it wrote is known to be overwritten before the event. When the acquisition of one critical
//! section must come before that of another section of the same lock, the whole section must (Said
//! et al. 2011, section 5).
//!
//! The relation is a greatest fixpoint: it starts with everything that precedes an event in the
//! trace and removes what has no justification. Justifications may be circular. That is sound by
//! induction over a schedule: what an event requires has come earlier in the schedule, where the
//! relation is already right. A least fixpoint would find no place to start in a trace that writes
//! every value many times, and could not bound how far a thread may fall behind.
//!
//! In traces with branch events only relevant reads need their values (`objects::relevance`), and
//! there is a second relation: what precedes an event *if all reads of its thread so far are
//! relevant*. A branch turns it into the first relation, and so does a write that a relevant read
//! sees.
//!
//! Not as strong as it could be: how many waits share how many signals is not counted (`resources`
//! does that, for one question), and semaphores and barriers are no requirements.

use norns_budget::Budget;
use norns_model::Model;
use norns_order::Node;
use norns_trace::effect::OnLock;
use norns_trace::{Effect, EventIndex, Mode};
use rustc_hash::FxHashMap;

use super::clocks::Clocks;
use crate::candidate::excludes;
use crate::order::objects::clause::node;
use crate::order::objects::conditions::Condition;
use crate::order::objects::locks::Lock;
use crate::order::objects::registers::Register;
use crate::order::objects::thread_chains::{ThreadChains, ThreadPositions};

/// After this many sweeps, requirements of events that still lose something are dropped.
const SWEEPS: usize = 50;

/// An event comes after at least one of its providers.
struct Requirement {
    event: EventIndex,
    /// The provider comes after this event of the same thread.
    after: Option<EventIndex>,
    /// An index into `MustHappenBefore::providers`.
    providers: u32,
    value: Option<RequiredValue>,
    /// Whether it holds only if the reads of the thread are relevant.
    if_relevant: bool,
}

/// The value that a register has to have.
struct RequiredValue {
    register: u32,
    value: u32,
}

/// The value of a register right after an access of a thread.
struct ValueAfter {
    /// The position of the access in its thread.
    position: u32,
    value: u32,
}

/// The accesses of one thread to a register.
struct ThreadValues {
    thread: usize,
    values: Vec<ValueAfter>,
}

/// A critical section of a thread, given by the position of its acquisition and its index in
/// `Lock::sections`.
#[derive(Clone, Copy)]
struct BegunSection {
    acquire: u32,
    section: usize,
}

/// The sections of one lock and thread that a sweep has come to, in program order.
#[derive(Clone, Default)]
struct BegunSections {
    all: Vec<BegunSection>,
    /// Those that hold the lock exclusively.
    writing: Vec<BegunSection>,
}

/// A critical section that an event is in.
#[derive(Clone, Copy)]
struct HeldSection {
    lock: u32,
    mode: Mode,
    /// The position of the acquisition.
    acquire: u32,
    release: Option<EventIndex>,
}

pub struct MustHappenBefore<'m, 't> {
    model: &'m Model<'t>,
    locks: &'m [Option<Lock>],
    threads: usize,
    /// For every event and thread: how many events of the thread come before the event or are it.
    known: Vec<u32>,
    /// The same, if all reads of the event's thread so far are relevant. Empty without branch
    /// events, when they always are.
    known_if_relevant: Vec<u32>,
    /// For every event whether it is a branch event. Empty when there are none.
    is_branch: Vec<bool>,
    /// Edges between threads that hold whatever the values, sorted by their end.
    edges: Vec<(Node, Node)>,
    /// Sorted by event.
    requirements: Vec<Requirement>,
    /// Sets of events that satisfy the same requirement.
    providers: Vec<Vec<ThreadPositions>>,
    /// For every register, by thread, the values that its accesses leave.
    values: Vec<Vec<ThreadValues>>,
    /// For every event an index into `held_sets`: the sections that it is in.
    held: Vec<u32>,
    held_sets: Vec<Vec<HeldSection>>,
}

impl<'m, 't> MustHappenBefore<'m, 't> {
    /// Knows program order, `edges` and the critical sections only.
    pub fn new(
        model: &'m Model<'t>,
        locks: &'m [Option<Lock>],
        mut edges: Vec<(Node, Node)>,
    ) -> Self {
        // An edge points back only if the recorded order is not quite the true one. Such an edge
        // says nothing.
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
        let mut must = MustHappenBefore {
            model,
            locks,
            threads,
            known,
            known_if_relevant: Vec::new(),
            is_branch: Vec::new(),
            edges,
            requirements: Vec::new(),
            providers: Vec::new(),
            values: Vec::new(),
            held: vec![0; count],
            held_sets: vec![Vec::new()],
        };
        must.find_sections();
        must
    }

    fn find_sections(&mut self) {
        enum Change {
            Begin,
            End,
        }
        let mut changes: Vec<(Node, HeldSection, Change)> = Vec::new();
        for (number, lock) in self.locks.iter().enumerate() {
            for section in lock.iter().flat_map(|lock| &lock.sections) {
                let held = HeldSection {
                    lock: number as u32,
                    mode: section.mode,
                    acquire: self.model.position[section.acquire.index()],
                    release: section.release.map(|node| EventIndex(node.0)),
                };
                changes.push((section.acquire, held, Change::Begin));
                if let Some(release) = section.release {
                    changes.push((release, held, Change::End));
                }
            }
        }
        changes.sort_by_key(|change| change.0);
        let mut changes = changes.into_iter().peekable();
        let mut open: Vec<u32> = vec![0; self.threads];
        for (i, event) in self.model.trace.events.iter().enumerate() {
            let own = &mut open[event.thread.index()];
            while let Some((_, section, change)) = changes.next_if(|c| c.0.index() == i) {
                let mut sections = self.held_sets[*own as usize].clone();
                match change {
                    Change::Begin => sections.push(section),
                    Change::End => sections.retain(|other| {
                        other.lock != section.lock || other.acquire != section.acquire
                    }),
                }
                *own = match sections.is_empty() {
                    true => 0,
                    false => {
                        self.held_sets.push(sections);
                        self.held_sets.len() as u32 - 1
                    }
                };
            }
            self.held[i] = *own;
        }
    }

    /// Makes reads relevant only if one of these branches depends on them.
    pub fn set_branches(&mut self, branches: impl Iterator<Item = Node>) {
        self.is_branch = vec![false; self.model.trace.events.len()];
        branches.for_each(|branch| self.is_branch[branch.index()] = true);
        self.known_if_relevant = self.known.clone();
    }

    /// Reads require one of the writes of their value.
    pub fn add_register(&mut self, register: &Register) {
        let model = self.model;
        let number = self.values.len() as u32;
        let mut values: Vec<ThreadValues> = Vec::new();
        let mut providers_of: FxHashMap<u32, u32> = FxHashMap::default();
        // For each thread its last access and the value that was there afterwards.
        let mut last: FxHashMap<usize, (EventIndex, u32)> = FxHashMap::default();
        let if_relevant = !register.reads_are_always_relevant();
        for access in &register.accesses {
            let event = EventIndex(access.node.0);
            let thread = model.thread_of(event).index();
            let before = last.get(&thread).copied();
            if let Some(value) = access.needs
                && before.map_or(register.initial, |(_, value)| value) != value
            {
                let providers = *providers_of.entry(value).or_insert_with(|| {
                    let sources = register.sources(value);
                    self.providers
                        .push(sources.map_or_else(Vec::new, |s| s.positions(model)));
                    self.providers.len() as u32 - 1
                });
                self.requirements.push(Requirement {
                    event,
                    after: before.map(|(event, _)| event),
                    providers,
                    value: Some(RequiredValue {
                        register: number,
                        value,
                    }),
                    if_relevant,
                });
            }
            if let Some(value) = access.writes.or(access.needs) {
                last.insert(thread, (event, value));
                // A read that may be irrelevant says nothing about the memory.
                if access.writes.is_some() || !if_relevant {
                    let position = model.position[event.index()];
                    let item = ValueAfter { position, value };
                    match values.iter_mut().find(|of| of.thread == thread) {
                        Some(of) => of.values.push(item),
                        None => values.push(ThreadValues {
                            thread,
                            values: vec![item],
                        }),
                    }
                }
            }
        }
        self.values.push(values);
    }

    /// Waits require a signal or a broadcast.
    pub fn add_condition(&mut self, condition: &Condition) {
        let wakers = ThreadChains::new(condition.wakers(), self.model);
        self.providers.push(wakers.positions(self.model));
        let providers = self.providers.len() as u32 - 1;
        for wait in &condition.waits {
            self.requirements.push(Requirement {
                event: EventIndex(wait.wake.0),
                after: Some(EventIndex(wait.sleep.0)),
                providers,
                value: None,
                if_relevant: false,
            });
        }
    }

    fn known(&self, event: EventIndex) -> &[u32] {
        &self.known[event.index() * self.threads..(event.index() + 1) * self.threads]
    }

    fn known_if_relevant(&self, event: EventIndex) -> &[u32] {
        if self.known_if_relevant.is_empty() {
            return self.known(event);
        }
        let range = event.index() * self.threads..(event.index() + 1) * self.threads;
        &self.known_if_relevant[range]
    }

    fn event_at(&self, thread: usize, position: u32) -> EventIndex {
        self.model.threads[thread][position as usize]
    }

    /// Sweeps over the trace until nothing changes. Returns the clocks, and a set of edges whose
    /// transitive closure they are. When a third of the budget is spent, all requirements are
    /// dropped: without them a single sweep removes whatever has no justification, and stopping
    /// earlier would leave orders that do not hold.
    pub fn finish(mut self, budget: &Budget) -> (Clocks, Vec<(Node, Node)>) {
        self.requirements
            .sort_by_key(|requirement| requirement.event);
        let work = (self.known.len() + 4 * self.model.trace.events.len()) as u64;
        budget.share(1, 3, || {
            for sweep in 0.. {
                let changed = self.sweep();
                if changed.is_empty() {
                    break;
                }
                if !budget.spend(work) {
                    self.requirements.clear();
                } else if sweep >= SWEEPS {
                    self.requirements
                        .retain(|requirement| changed.binary_search(&requirement.event).is_err());
                }
            }
        });
        self.clocks()
    }

    /// Removes from the clock of every event what has no justification. Returns the events whose
    /// clocks changed.
    fn sweep(&mut self) -> Vec<EventIndex> {
        let model = self.model;
        let threads = self.threads;
        let (mut next_edge, mut next_requirement) = (0, 0);
        let mut begun: Vec<Vec<BegunSections>> = self
            .locks
            .iter()
            .map(|lock| vec![BegunSections::default(); if lock.is_some() { threads } else { 0 }])
            .collect();
        let mut next_section = vec![0usize; self.locks.len()];
        let mut changed = Vec::new();
        let mut justified = vec![0u32; threads];
        let mut justified_if_relevant = vec![0u32; threads];
        let has_branches = !self.known_if_relevant.is_empty();
        for (i, event) in model.trace.events.iter().enumerate() {
            let here = EventIndex::from_index(i);
            let own = event.thread.index();
            let position = model.position[i];
            let previous = position.checked_sub(1).map(|p| self.event_at(own, p));
            match previous {
                Some(previous) => justified.copy_from_slice(self.known(previous)),
                None => justified.fill(0),
            }
            while let Some(&(a, _)) = self.edges.get(next_edge).filter(|e| e.1.index() == i) {
                join(&mut justified, self.known(EventIndex(a.0)));
                next_edge += 1;
            }
            let first = next_requirement;
            let later = &self.requirements[first..];
            next_requirement += later.iter().take_while(|r| r.event == here).count();
            let requirements = &self.requirements[first..next_requirement];
            for requirement in requirements.iter().filter(|r| !r.if_relevant) {
                self.join_providers(requirement, &mut justified);
            }
            if has_branches {
                justified_if_relevant.copy_from_slice(&justified);
                if let Some(previous) = previous {
                    join(&mut justified_if_relevant, self.known_if_relevant(previous));
                }
                for requirement in requirements.iter().filter(|r| r.if_relevant) {
                    self.join_providers(requirement, &mut justified_if_relevant);
                }
            }
            if let Effect::Lock(o, OnLock::Acquire(_)) = event.op.effect()
                && let Some(lock) = &self.locks[o.index()]
                && let number = next_section[o.index()]
                && let Some(section) = lock.sections.get(number)
                && section.acquire == node(here)
            {
                next_section[o.index()] += 1;
                let begun = &mut begun[o.index()];
                self.join_sections(lock, number, begun, &mut justified);
                if has_branches {
                    self.join_sections(lock, number, begun, &mut justified_if_relevant);
                }
                let section_begun = BegunSection {
                    acquire: position,
                    section: number,
                };
                begun[own].all.push(section_begun);
                if section.mode == Mode::Write {
                    begun[own].writing.push(section_begun);
                }
            }
            justified[own] = position + 1;
            let range = i * threads..(i + 1) * threads;
            let mut has_changed = false;
            if has_branches {
                justified_if_relevant[own] = position + 1;
                let known = &mut self.known_if_relevant[range.clone()];
                has_changed = lower(known, &justified_if_relevant);
                if self.is_branch[i] {
                    justified.copy_from_slice(&justified_if_relevant);
                }
            }
            has_changed |= lower(&mut self.known[range], &justified);
            if has_changed {
                changed.push(here);
            }
        }
        changed
    }

    /// Adds what precedes section `number` because the acquisitions of whole sections of the same
    /// lock are known to precede it. `begun` has the sections so far, by thread.
    fn join_sections(
        &self,
        lock: &Lock,
        number: usize,
        begun: &[BegunSections],
        justified: &mut [u32],
    ) {
        let section = &lock.sections[number];
        loop {
            let mut grew = false;
            for (thread, of_thread) in begun.iter().enumerate() {
                if thread == section.thread.index() {
                    continue;
                }
                let others = match section.mode {
                    Mode::Write => &of_thread.all,
                    Mode::Read => &of_thread.writing,
                };
                let known = others.partition_point(|other| other.acquire < justified[thread]);
                // The last such section is enough: the thread's earlier ones precede it.
                let last = others[..known].last();
                let last = last.map(|begun| &lock.sections[begun.section]);
                if let Some(release) = last.and_then(|other| other.release)
                    && release < section.acquire
                    && self.model.position[release.index()] >= justified[thread]
                {
                    join(justified, self.known(EventIndex(release.0)));
                    grew = true;
                }
            }
            if !grew {
                return;
            }
        }
    }

    /// Adds what precedes all possible providers of a requirement.
    fn join_providers(&self, requirement: &Requirement, justified: &mut [u32]) {
        let own = self.model.thread_of(requirement.event).index();
        let mut common: Option<Vec<u32>> = None;
        // For each thread, how many of its events come too early to be the provider.
        let mut too_early = vec![0u32; self.threads];
        if let Some(after) = requirement.after {
            // If this read is relevant, so are all earlier reads of the thread.
            let known = match requirement.if_relevant {
                true => self.known_if_relevant(after),
                false => self.known(after),
            };
            join(&mut too_early, known);
        }
        if let Some(RequiredValue { register, value }) = requirement.value {
            // What precedes an access that left another value is overwritten.
            for ThreadValues { thread, values } in &self.values[register as usize] {
                let before = values.partition_point(|v| v.position < justified[*thread]);
                let other = values[..before].iter().rev().find(|v| v.value != value);
                if let Some(other) = other {
                    let access = self.event_at(*thread, other.position);
                    join(&mut too_early, self.known(access));
                }
            }
        }
        for of_thread in &self.providers[requirement.providers as usize] {
            let ThreadPositions { thread, positions } = of_thread;
            if *thread == own {
                continue;
            }
            let first = positions.partition_point(|&position| position < too_early[*thread]);
            let Some(&position) = positions.get(first) else {
                continue;
            };
            let provider = self.event_at(*thread, position);
            let Some(last) = self.last_before(provider, requirement.event) else {
                continue;
            };
            let mut known = self.known(last);
            let mut with_relevant;
            if requirement.if_relevant {
                // The reads before a write that a relevant read sees are relevant as well.
                with_relevant = self.known_if_relevant(provider).to_vec();
                join(&mut with_relevant, known);
                if with_relevant[own] > self.model.position[requirement.event.index()] {
                    continue;
                }
                known = &with_relevant;
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
            join(justified, &common);
        }
    }

    /// If `provider` comes before `event`, the last event of its thread that then does, too: where
    /// both are in sections of the same lock, the release of the provider's section. `None` if the
    /// provider cannot come before the event.
    fn last_before(&self, provider: EventIndex, event: EventIndex) -> Option<EventIndex> {
        let own = self.model.thread_of(event).index();
        let mut last = provider;
        let mut first = self.model.position[event.index()];
        for mine in &self.held_sets[self.held[event.index()] as usize] {
            for theirs in &self.held_sets[self.held[provider.index()] as usize] {
                if mine.lock == theirs.lock && excludes(mine.mode, theirs.mode) {
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
            clocks.push(own, previous);
            edges.extend(previous.map(|previous| (node(previous), node(here))));
            let known = self.known(here);
            let mut last: Vec<EventIndex> = (0..self.threads)
                .filter(|&thread| thread != own && known[thread] > clocks.known(here, thread))
                .map(|thread| self.event_at(thread, known[thread] - 1))
                .collect();
            // The latest first: what precedes it needs no edge of its own.
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

/// Lowers `known` to what is justified. Returns whether that changed it.
fn lower(known: &mut [u32], justified: &[u32]) -> bool {
    let mut changed = false;
    for (known, justified) in known.iter_mut().zip(justified) {
        changed |= *justified < *known;
        *known = (*known).min(*justified);
    }
    changed
}

fn join(mine: &mut [u32], theirs: &[u32]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = (*mine).max(*theirs);
    }
}
