//! Locks: critical sections of one mutex, spin lock or reader-writer lock.
//!
//! Two sections that exclude each other do not overlap: one is released before the other is
//! acquired, or one of them is not acquired at all. A failed try-lock has to stand inside a section
//! that makes it fail. Of a recursive lock only the outermost acquisition and the last release count
//! (Said et al. 2011, section 4.3).

use norns_model::Model;
use norns_order::{Formula, Node};
use norns_trace::effect::{OnLock, OnThread};
use norns_trace::{Effect, Mode, ObjectId, ObjectKind, ThreadId};

use super::clause::{Atom, CurrentOrder, Frame, node, prefer_observed};
use crate::candidate::excludes;

/// A critical section: from the outermost acquisition to the matching release.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    pub thread: ThreadId,
    pub acquire: Node,
    /// `None` if the trace ends inside the section.
    pub release: Option<Node>,
    pub mode: Mode,
}

impl Section {
    pub fn excludes(&self, other: &Section) -> bool {
        self.thread != other.thread && excludes(self.mode, other.mode)
    }
}

/// A try-lock that did not get the lock.
#[derive(Clone, Copy, Debug)]
struct FailedTry {
    node: Node,
    thread: ThreadId,
    mode: Mode,
}

/// What an event does to its lock. The index is that of the section or of the failed try-lock.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    Acquire(usize),
    Release(usize),
    Failed(usize),
}

pub struct Lock {
    recursive: bool,
    /// Sorted by acquisition.
    pub sections: Vec<Section>,
    failed: Vec<FailedTry>,
    /// All events of the lock that count, in the order of the trace.
    nodes: Vec<Node>,
    /// What each of `nodes` does.
    roles: Vec<Role>,
}

/// The sections of every lock that more than one thread uses; `None` for the others.
pub fn locks(model: &Model<'_>) -> Vec<Option<Lock>> {
    let trace = model.trace;
    let mut builders: Vec<Builder> = (0..trace.objects.len())
        .map(|_| Builder::default())
        .collect();
    for (i, event) in trace.events.iter().enumerate() {
        let Effect::Lock(o, act) = event.op.effect() else {
            continue;
        };
        let at = Node(i as u32);
        let builder = &mut builders[o.index()];
        match act {
            OnLock::Acquire(mode) => builder.acquire(at, event.thread, mode),
            OnLock::Release => builder.release(at, event.thread),
            OnLock::FailedAcquire(mode) => builder.failed.push(FailedTry {
                node: at,
                thread: event.thread,
                mode,
            }),
        }
    }
    let objects = builders.into_iter().enumerate();
    objects
        .map(|(o, builder)| builder.finish(model, ObjectId::from_index(o)))
        .collect()
}

#[derive(Default)]
struct Builder {
    sections: Vec<Section>,
    failed: Vec<FailedTry>,
    open: Vec<OpenSection>,
}

/// A section that is not yet released.
struct OpenSection {
    /// Its index in `Builder::sections`.
    section: usize,
    /// How many acquisitions of a recursive lock are not yet released.
    depth: u32,
}

impl Builder {
    fn acquire(&mut self, at: Node, thread: ThreadId, mode: Mode) {
        let sections = &self.sections;
        let again = self.open.iter_mut().find(|open| {
            let section = &sections[open.section];
            section.thread == thread && section.mode == mode
        });
        if let Some(open) = again {
            open.depth += 1;
            return;
        }
        self.open.push(OpenSection {
            section: self.sections.len(),
            depth: 1,
        });
        self.sections.push(Section {
            thread,
            acquire: at,
            release: None,
            mode,
        });
    }

    fn release(&mut self, at: Node, thread: ThreadId) {
        let section_of = |k: usize| &self.sections[self.open[k].section];
        let held = (0..self.open.len()).filter(|&k| section_of(k).thread == thread);
        // A thread that holds the lock in both modes releases `Mode::Write` first.
        let Some(k) = held.max_by_key(|&k| section_of(k).mode) else {
            return;
        };
        self.open[k].depth -= 1;
        if self.open[k].depth == 0 {
            let closed = self.open.remove(k);
            self.sections[closed.section].release = Some(at);
        }
    }

    fn finish(mut self, model: &Model<'_>, object: ObjectId) -> Option<Lock> {
        let kind = model.kind(object);
        if kind == ObjectKind::RobustMutex {
            // The end of a thread releases the robust mutexes that it still holds.
            for open in self.open.drain(..) {
                let section = &mut self.sections[open.section];
                let last = model.threads[section.thread.index()].last().copied();
                let end = Effect::Thread(OnThread::End);
                let end = last.filter(|&last| model.op(last).effect() == end);
                section.release = end.map(node);
            }
        }
        let first = self.sections.first()?.thread;
        let shared = self.sections.iter().any(|section| section.thread != first);
        if !shared && self.failed.is_empty() {
            return None;
        }
        let mut roles: Vec<(Node, Role)> = Vec::new();
        for (i, section) in self.sections.iter().enumerate() {
            roles.push((section.acquire, Role::Acquire(i)));
            roles.extend(section.release.map(|release| (release, Role::Release(i))));
        }
        for (i, failed) in self.failed.iter().enumerate() {
            roles.push((failed.node, Role::Failed(i)));
        }
        roles.sort_by_key(|&(node, _)| node);
        let (nodes, roles) = roles.into_iter().unzip();
        Some(Lock {
            recursive: kind == ObjectKind::RecursiveMutex,
            sections: self.sections,
            failed: self.failed,
            nodes,
            roles,
        })
    }
}

impl Lock {
    /// Whether the section makes the try-lock fail.
    fn fails(&self, failed: &FailedTry, section: &Section) -> bool {
        excludes(failed.mode, section.mode) && !(self.recursive && section.thread == failed.thread)
    }

    /// The clause that two sections do not overlap. The order that the solver tries first is the
    /// one in which `earlier` precedes `later`.
    fn exclusion(earlier: &Section, later: &Section) -> impl Iterator<Item = Atom> {
        let first = earlier
            .release
            .map(|release| Atom::Before(release, later.acquire));
        let second = later
            .release
            .map(|release| Atom::Before(release, earlier.acquire));
        let absent = [Atom::Absent(earlier.acquire), Atom::Absent(later.acquire)];
        first.into_iter().chain(second).chain(absent)
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// What the event with this number does.
    pub fn role(&self, number: u32) -> Role {
        self.roles[number as usize]
    }

    /// Adds clauses if the event with this number is not allowed while the sections `held` are open.
    pub fn check(
        &self,
        number: u32,
        held: &[u32],
        current: &CurrentOrder<'_>,
        formula: &mut Formula,
    ) {
        match self.role(number) {
            Role::Release(_) => {}
            Role::Acquire(i) => {
                let section = &self.sections[i];
                for &other in held {
                    let holder = &self.sections[other as usize];
                    if holder.excludes(section) {
                        let atoms = Lock::exclusion(holder, section);
                        current.frame.clause(formula, atoms);
                    }
                }
            }
            Role::Failed(i) => {
                let failed = self.failed[i];
                let fails = |&h: &u32| self.fails(&failed, &self.sections[h as usize]);
                if held.iter().any(fails) {
                    return;
                }
                self.refuse_failed(&failed, current, formula);
            }
        }
    }

    /// No section makes the try-lock fail: one has to begin earlier or end later than it does now.
    /// Of each thread only the nearest on either side is named (see `thread_chains`).
    fn refuse_failed(&self, failed: &FailedTry, current: &CurrentOrder<'_>, formula: &mut Formula) {
        struct Nearest {
            thread: ThreadId,
            last_release: Option<Node>,
            first_acquire: Option<Node>,
        }
        let mut threads: Vec<Nearest> = Vec::new();
        for section in self.sections.iter().filter(|s| self.fails(failed, s)) {
            let known = threads.iter().position(|t| t.thread == section.thread);
            let k = known.unwrap_or_else(|| {
                threads.push(Nearest {
                    thread: section.thread,
                    last_release: None,
                    first_acquire: None,
                });
                threads.len() - 1
            });
            let nearest = &mut threads[k];
            if current.is_before(section.acquire, failed.node) {
                nearest.last_release = section.release.max(nearest.last_release);
            } else if nearest.first_acquire.is_none() {
                nearest.first_acquire = Some(section.acquire);
            }
        }
        let mut atoms = vec![Atom::Absent(failed.node)];
        for nearest in threads {
            let (release, acquire) = (nearest.last_release, nearest.first_acquire);
            atoms.extend(release.map(|release| Atom::Before(failed.node, release)));
            atoms.extend(acquire.map(|acquire| Atom::Before(acquire, failed.node)));
        }
        prefer_observed(&mut atoms);
        current.frame.clause(formula, atoms);
    }

    /// Adds the complete encoding, for another solver.
    pub fn all(&self, frame: &Frame, formula: &mut Formula) {
        for (i, one) in self.sections.iter().enumerate() {
            for other in self.sections[i + 1..]
                .iter()
                .filter(|other| one.excludes(other))
            {
                frame.clause(formula, Lock::exclusion(one, other));
            }
        }
        for failed in &self.failed {
            let mut choice = vec![Atom::Absent(failed.node)];
            for section in self
                .sections
                .iter()
                .filter(|section| self.fails(failed, section))
            {
                let inside = formula.boolean(false);
                choice.push(Atom::Literal(inside));
                let not = Atom::Literal(!inside);
                frame.clause(formula, [not, Atom::Before(section.acquire, failed.node)]);
                if let Some(release) = section.release {
                    frame.clause(formula, [not, Atom::Before(failed.node, release)]);
                }
            }
            frame.clause(formula, choice);
        }
    }
}
