//! Critical sections: what each thread holds after each event, and where it acquires which lock.
//!
//! A section reaches from the event that acquires a lock to the one that releases it; a recursive
//! mutex or a nested read lock has one section from the outermost acquisition to the last release.
//! The end of a thread releases the robust mutexes that it holds.

use norns_model::Model;
use norns_trace::effect::{OnLock, OnThread};
use norns_trace::{Effect, EventIndex, Mode, ObjectId, ObjectKind, ThreadId};
use rustc_hash::FxHashMap;

use crate::candidate::excludes;

/// What a thread holds: the index of the innermost `HeldNode`, or `NOTHING`.
pub type Held = u32;
pub const NOTHING: Held = u32::MAX;

/// A set of locks with their modes: an index into the interned sets. 0 is the empty set.
pub type LockSet = u32;

#[derive(Clone, Copy, Debug)]
pub struct Section {
    pub lock: ObjectId,
    pub mode: Mode,
    pub acquired: EventIndex,
    /// `None` if the trace ends inside the section.
    pub released: Option<EventIndex>,
}

impl Section {
    /// Whether the two cannot overlap if they belong to different threads.
    pub fn excludes(&self, other: &Section) -> bool {
        self.lock == other.lock && excludes(self.mode, other.mode)
    }
}

/// The sections that a thread holds, as a list that shares its tail with others.
#[derive(Clone, Copy)]
struct HeldNode {
    /// The innermost section.
    section: u32,
    /// The others.
    parent: Held,
    /// The locks of all of them.
    set: LockSet,
}

/// The acquisitions of one lock by one thread, as sorted positions in the thread.
struct Acquisitions {
    thread: ThreadId,
    all: Vec<u32>,
    /// Of a reader-writer lock, those for writing. `None` for other locks, where all are.
    writing: Option<Vec<u32>>,
}

#[derive(Default)]
pub struct CriticalSections {
    sections: Vec<Section>,
    nodes: Vec<HeldNode>,
    /// For every event, what its thread holds after it.
    held_after: Vec<Held>,
    /// For every lock, one entry for each thread that acquires it.
    acquisitions: Vec<Vec<Acquisitions>>,
    /// Each sorted.
    sets: Vec<Box<[(ObjectId, Mode)]>>,
    /// For failed operations, the acquisitions that made them fail.
    obstacles: FxHashMap<EventIndex, Vec<EventIndex>>,
}

impl CriticalSections {
    pub fn of(model: &Model) -> CriticalSections {
        let mut builder = Builder::new(model);
        for (i, event) in model.trace.events.iter().enumerate() {
            builder.event(EventIndex::from_index(i), event.thread, event.op.effect());
        }
        builder.found
    }

    /// What a thread holds after this many of its events.
    pub fn held(&self, model: &Model, thread: ThreadId, done: u32) -> Held {
        let last = done
            .checked_sub(1)
            .and_then(|last| model.threads[thread.index()].get(last as usize));
        last.map_or(NOTHING, |event| self.held_after[event.index()])
    }

    /// The sections that are held, the innermost first.
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

    pub fn locks(&self, set: LockSet) -> &[(ObjectId, Mode)] {
        &self.sets[set as usize]
    }

    /// Whether two threads can hold these at the same time.
    pub fn compatible(&self, one: LockSet, other: LockSet) -> bool {
        let (one, other) = (self.locks(one), self.locks(other));
        !one.iter()
            .any(|&(lock, mode)| other.iter().any(|&(l, m)| l == lock && excludes(m, mode)))
    }

    /// An acquisition in the ideal, by another thread, that excludes `section` and comes after its
    /// beginning in the trace.
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
                let last = user.last_in(ideal, section.mode)?;
                let event = model.threads[user.thread.index()][last as usize];
                (event > section.acquired).then_some(event)
            })
    }

    /// Whether every acquisition in the ideal, by another thread, that excludes this section is
    /// done.
    pub fn others_done(&self, model: &Model, ideal: &[u32], done: &[u32], own: &Section) -> bool {
        let thread = model.thread_of(own.acquired);
        self.acquisitions[own.lock.index()]
            .iter()
            .filter(|user| user.thread != thread)
            .all(|user| {
                user.last_in(ideal, own.mode)
                    .is_none_or(|last| last < done[user.thread.index()])
            })
    }

    /// All sections in the order in which they begin.
    pub fn all(&self) -> &[Section] {
        &self.sections
    }

    /// The acquisitions that made this event fail.
    pub fn obstacles(&self, failed: EventIndex) -> &[EventIndex] {
        self.obstacles.get(&failed).map_or(&[], Vec::as_slice)
    }
}

impl Acquisitions {
    /// The position of the last acquisition in the ideal that excludes one in the given mode.
    fn last_in(&self, ideal: &[u32], mode: Mode) -> Option<u32> {
        let list = match (&self.writing, mode) {
            (Some(writing), Mode::Read) => writing,
            (Some(_), Mode::Write) | (None, _) => &self.all,
        };
        let inside = list.partition_point(|&position| position < ideal[self.thread.index()]);
        inside.checked_sub(1).map(|last| list[last])
    }
}

/// A lock that a thread holds at the current event.
struct Open {
    lock: ObjectId,
    depth: u32,
    section: u32,
}

struct Builder<'m> {
    model: &'m Model<'m>,
    found: CriticalSections,
    /// For every thread, what it holds, the innermost last.
    open: Vec<Vec<Open>>,
    /// The same as a list of nodes.
    held: Vec<Held>,
    set_ids: FxHashMap<Box<[(ObjectId, Mode)]>, LockSet>,
    /// For a set and a lock, the set with that lock added.
    grown: FxHashMap<(LockSet, ObjectId, Mode), LockSet>,
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

    fn event(&mut self, event: EventIndex, thread: ThreadId, effect: Effect) {
        match effect {
            Effect::Lock(lock, act) => match act {
                OnLock::Acquire(mode) => self.acquire(event, thread, lock, mode),
                OnLock::Release => self.release(event, thread, lock),
                OnLock::FailedAcquire(mode) => {
                    let sections = &self.found.sections;
                    let holds = self.open.iter().flatten().filter(|open| open.lock == lock);
                    let obstacles = holds
                        .map(|open| sections[open.section as usize])
                        .filter(|section| excludes(section.mode, mode))
                        .map(|section| section.acquired);
                    let obstacles = obstacles.collect();
                    self.found.obstacles.insert(event, obstacles);
                }
            },
            Effect::Thread(act) => match act {
                OnThread::End => self.end(event, thread),
                OnThread::Start
                | OnThread::Fork(_)
                | OnThread::Join(_)
                | OnThread::FailedJoin(_)
                | OnThread::Detach(_) => {}
            },
            Effect::Once(..)
            | Effect::Condition(..)
            | Effect::Barrier(..)
            | Effect::Semaphore(..)
            | Effect::Channel(..)
            | Effect::Memory(_)
            | Effect::Local => {}
        }
        self.found.held_after.push(self.held[thread.index()]);
    }

    fn acquire(&mut self, event: EventIndex, thread: ThreadId, lock: ObjectId, mode: Mode) {
        let t = thread.index();
        if let Some(open) = self.open[t].iter_mut().find(|open| open.lock == lock) {
            open.depth += 1;
            return;
        }
        let section =
            u32::try_from(self.found.sections.len()).expect("there are fewer sections than events");
        self.found.sections.push(Section {
            lock,
            mode,
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
                    writing: shared.then(Vec::new),
                });
                users.last_mut().expect("one was pushed just now")
            }
        };
        let position = self.model.position[event.index()];
        user.all.push(position);
        if mode == Mode::Write
            && let Some(writing) = &mut user.writing
        {
            writing.push(position);
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
        // Pops the nodes down to the released section, and pushes those acquired after it again.
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
        let Section { lock, mode, .. } = self.found.sections[section as usize];
        let below = self.found.lock_set(parent);
        let set = match self.grown.get(&(below, lock, mode)) {
            Some(&set) => set,
            None => {
                let mut locks = self.found.sets[below as usize].to_vec();
                locks.push((lock, mode));
                locks.sort_unstable();
                let locks = locks.into_boxed_slice();
                let new = self.found.sets.len() as LockSet;
                let set = *self.set_ids.entry(locks.clone()).or_insert(new);
                if set == new {
                    self.found.sets.push(locks);
                }
                self.grown.insert((below, lock, mode), set);
                set
            }
        };
        self.found.nodes.push(HeldNode {
            section,
            parent,
            set,
        });
        (self.found.nodes.len() - 1) as Held
    }
}
