//! Critical sections: what each thread holds after each event, and who acquires what where.
//!
//! A section reaches from the event that acquired a lock to the one that released it; a recursive
//! mutex or a nested read lock has one section from the first level to the last. A robust mutex
//! whose holder ended is released by that end.

use norns_model::Model;
use norns_trace::{EventIndex, ObjectId, ObjectKind, Op, ThreadId};
use rustc_hash::FxHashMap;

/// What a thread holds: a chain of sections, or `NOTHING`.
pub type Held = u32;
pub const NOTHING: Held = u32::MAX;

/// A set of locks with their modes: an index into the interned sets; 0 is the empty set.
pub type LockSet = u32;

#[derive(Clone, Copy, Debug)]
pub struct Section {
    pub lock: ObjectId,
    pub exclusive: bool,
    pub acquired: EventIndex,
    /// `None` when the trace ends inside the section.
    pub released: Option<EventIndex>,
}

#[derive(Clone, Copy)]
struct Node {
    section: u32,
    parent: Held,
    set: LockSet,
}

/// The acquisitions of one lock by one thread, as sorted positions in the thread.
struct Acquisitions {
    thread: ThreadId,
    all: Vec<u32>,
    /// Those for writing, of a reader-writer lock; all acquisitions of another lock are.
    exclusive: Option<Vec<u32>>,
}

#[derive(Default)]
pub struct CriticalSections {
    sections: Vec<Section>,
    nodes: Vec<Node>,
    /// For every event what its thread holds after it.
    held_after: Vec<Held>,
    /// For every object that is a lock, one entry a thread that acquires it.
    acquisitions: Vec<Vec<Acquisitions>>,
    sets: Vec<Box<[(ObjectId, bool)]>>,
    /// For failed operations the acquisitions that stood in their way.
    obstacles: FxHashMap<EventIndex, Vec<EventIndex>>,
}

impl CriticalSections {
    pub fn of(model: &Model) -> CriticalSections {
        let mut builder = Builder::new(model);
        for (i, event) in model.trace.events.iter().enumerate() {
            builder.event(EventIndex::from_index(i), event.thread, event.op);
        }
        builder.found
    }

    /// What a thread holds once it has done this many of its events.
    pub fn held(&self, model: &Model, thread: ThreadId, done: u32) -> Held {
        let last = done
            .checked_sub(1)
            .and_then(|last| model.threads[thread.index()].get(last as usize));
        last.map_or(NOTHING, |event| self.held_after[event.index()])
    }

    /// The sections of a chain, the innermost first.
    pub fn chain(&self, held: Held) -> impl Iterator<Item = Section> {
        let mut next = held;
        std::iter::from_fn(move || {
            let node = self.nodes.get(next as usize)?;
            next = node.parent;
            Some(self.sections[node.section as usize])
        })
    }

    pub fn lock_set(&self, held: Held) -> LockSet {
        self.nodes.get(held as usize).map_or(0, |node| node.set)
    }

    pub fn locks(&self, set: LockSet) -> &[(ObjectId, bool)] {
        &self.sets[set as usize]
    }

    /// Whether two threads may hold these at the same time.
    pub fn compatible(&self, one: LockSet, other: LockSet) -> bool {
        let (one, other) = (self.locks(one), self.locks(other));
        !one.iter()
            .any(|&(lock, exclusive)| other.iter().any(|&(l, e)| l == lock && (e || exclusive)))
    }

    /// The last acquisition of the lock in the ideal, by another thread than that of `section`,
    /// that cannot overlap with it, if there is one later in the trace than the section begins.
    pub fn conflicting_later(
        &self,
        model: &Model,
        ideal: &[u32],
        section: &Section,
    ) -> Option<EventIndex> {
        let thread = model.thread_of(section.acquired);
        let others = &self.acquisitions[section.lock.index()];
        others
            .iter()
            .filter(|user| user.thread != thread)
            .find_map(|user| {
                let last = user.last_in(ideal, section.exclusive)?;
                let event = model.threads[user.thread.index()][last as usize];
                (event > section.acquired).then_some(event)
            })
    }

    /// Whether every acquisition of the lock in the ideal that cannot overlap with this section,
    /// by other threads, has happened.
    pub fn others_done(&self, model: &Model, ideal: &[u32], done: &[u32], own: &Section) -> bool {
        let thread = model.thread_of(own.acquired);
        self.acquisitions[own.lock.index()]
            .iter()
            .filter(|user| user.thread != thread)
            .all(|user| {
                user.last_in(ideal, own.exclusive)
                    .is_none_or(|last| last < done[user.thread.index()])
            })
    }

    /// All sections in the order in which they begin.
    pub fn all(&self) -> &[Section] {
        &self.sections
    }

    pub fn obstacles(&self, failed: EventIndex) -> &[EventIndex] {
        self.obstacles.get(&failed).map_or(&[], Vec::as_slice)
    }
}

impl Acquisitions {
    /// The position of the last acquisition in the ideal that conflicts with one in the given
    /// mode.
    fn last_in(&self, ideal: &[u32], with_exclusive: bool) -> Option<u32> {
        let list = match &self.exclusive {
            Some(exclusive) if !with_exclusive => exclusive,
            _ => &self.all,
        };
        let inside = list.partition_point(|&position| position < ideal[self.thread.index()]);
        inside.checked_sub(1).map(|last| list[last])
    }
}

/// A lock that a thread holds while the trace is read.
struct Open {
    lock: ObjectId,
    depth: u32,
    section: u32,
}

struct Builder<'m> {
    model: &'m Model<'m>,
    found: CriticalSections,
    /// For every thread what it holds, the innermost last, and the same as a chain.
    open: Vec<Vec<Open>>,
    held: Vec<Held>,
    set_ids: FxHashMap<Box<[(ObjectId, bool)]>, LockSet>,
    /// The set with one more lock.
    grown: FxHashMap<(LockSet, ObjectId, bool), LockSet>,
}

impl<'m> Builder<'m> {
    fn new(model: &'m Model<'m>) -> Self {
        let mut found = CriticalSections {
            held_after: Vec::with_capacity(model.trace.events.len()),
            ..CriticalSections::default()
        };
        found
            .acquisitions
            .resize_with(model.trace.objects.len(), Vec::new);
        found.sets.push(Box::default());
        Self {
            model,
            found,
            open: model.threads.iter().map(|_| Vec::new()).collect(),
            held: vec![NOTHING; model.threads.len()],
            set_ids: FxHashMap::from_iter([(Box::default(), 0)]),
            grown: FxHashMap::default(),
        }
    }

    fn event(&mut self, event: EventIndex, thread: ThreadId, op: Op) {
        match op {
            Op::Lock(lock) => self.acquire(event, thread, lock, true),
            Op::ReadLock(lock) => self.acquire(event, thread, lock, false),
            Op::Unlock(lock) => self.release(event, thread, lock),
            Op::FailedLock(lock) | Op::FailedReadLock(lock) => {
                let any_mode = matches!(op, Op::FailedLock(_));
                let sections = &self.found.sections;
                let holds = self.open.iter().flatten().filter(|open| open.lock == lock);
                let obstacles = holds
                    .map(|open| sections[open.section as usize])
                    .filter(|section| any_mode || section.exclusive)
                    .map(|section| section.acquired);
                let obstacles = obstacles.collect();
                self.found.obstacles.insert(event, obstacles);
            }
            Op::End => self.end(event, thread),
            _ => {}
        }
        self.found.held_after.push(self.held[thread.index()]);
    }

    fn acquire(&mut self, event: EventIndex, thread: ThreadId, lock: ObjectId, exclusive: bool) {
        let t = thread.index();
        if let Some(open) = self.open[t].iter_mut().find(|open| open.lock == lock) {
            open.depth += 1;
            return;
        }
        let section =
            u32::try_from(self.found.sections.len()).expect("an event begins one section");
        self.found.sections.push(Section {
            lock,
            exclusive,
            acquired: event,
            released: None,
        });
        self.open[t].push(Open {
            lock,
            depth: 1,
            section,
        });
        self.held[t] = self.push_node(self.held[t], section);
        let shared = self.model.kind(lock) == ObjectKind::ReaderWriterLock;
        let users = &mut self.found.acquisitions[lock.index()];
        let user = match users.iter().position(|user| user.thread == thread) {
            Some(i) => &mut users[i],
            None => {
                users.push(Acquisitions {
                    thread,
                    all: Vec::new(),
                    exclusive: shared.then(Vec::new),
                });
                users.last_mut().expect("one was pushed just now")
            }
        };
        let position = self.model.position[event.index()];
        user.all.push(position);
        if exclusive && let Some(list) = &mut user.exclusive {
            list.push(position);
        }
    }

    fn release(&mut self, event: EventIndex, thread: ThreadId, lock: ObjectId) {
        let t = thread.index();
        let Some(i) = self.open[t].iter().position(|open| open.lock == lock) else {
            return;
        };
        self.open[t][i].depth -= 1;
        if self.open[t][i].depth > 0 {
            return;
        }
        let gone = self.open[t].remove(i);
        self.found.sections[gone.section as usize].released = Some(event);
        // Pop down to the released section, and push again what was acquired after it.
        for _ in i..=self.open[t].len() {
            self.held[t] = self.found.nodes[self.held[t] as usize].parent;
        }
        for k in i..self.open[t].len() {
            let section = self.open[t][k].section;
            self.held[t] = self.push_node(self.held[t], section);
        }
    }

    fn end(&mut self, event: EventIndex, thread: ThreadId) {
        for open in &self.open[thread.index()] {
            if self.model.kind(open.lock) == ObjectKind::RobustMutex {
                self.found.sections[open.section as usize].released = Some(event);
            }
        }
        self.open[thread.index()]
            .retain(|open| self.model.kind(open.lock) != ObjectKind::RobustMutex);
        self.held[thread.index()] = NOTHING;
        for k in 0..self.open[thread.index()].len() {
            let section = self.open[thread.index()][k].section;
            self.held[thread.index()] = self.push_node(self.held[thread.index()], section);
        }
    }

    fn push_node(&mut self, parent: Held, section: u32) -> Held {
        let Section {
            lock, exclusive, ..
        } = self.found.sections[section as usize];
        let below = self.found.lock_set(parent);
        let set = match self.grown.get(&(below, lock, exclusive)) {
            Some(&set) => set,
            None => {
                let mut locks = self.found.sets[below as usize].to_vec();
                locks.push((lock, exclusive));
                locks.sort_unstable();
                let locks = locks.into_boxed_slice();
                let new = self.found.sets.len() as LockSet;
                let set = *self.set_ids.entry(locks.clone()).or_insert(new);
                if set == new {
                    self.found.sets.push(locks);
                }
                self.grown.insert((below, lock, exclusive), set);
                set
            }
        };
        self.found.nodes.push(Node {
            section,
            parent,
            set,
        });
        (self.found.nodes.len() - 1) as Held
    }
}
