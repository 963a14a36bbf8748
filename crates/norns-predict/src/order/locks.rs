//! Locks: critical sections of one mutex, spin lock or reader-writer lock.
//!
//! Two sections that exclude each other do not overlap: one is released before the other is
//! acquired, or one of them is not acquired at all. A try-lock that failed needs a section that
//! it stands in. For recursive locks only the outermost acquisition and the last release count
//! (Said et al. 2011, section 4.3).

use norns_model::Model;
use norns_order::{Formula, Node};
use norns_trace::{ObjectId, ObjectKind, Op, ThreadId};

use super::frame::{Frame, Part, Sight, node, prefer_observed};

#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub thread: ThreadId,
    pub acquire: Node,
    /// `None` when it is never released.
    pub release: Option<Node>,
    pub writes: bool,
}

impl Section {
    pub fn excludes(&self, other: &Section) -> bool {
        self.thread != other.thread && (self.writes || other.writes)
    }
}

/// A try-lock that did not get the lock.
#[derive(Clone, Copy, Debug)]
struct Failed {
    node: Node,
    thread: ThreadId,
    writes: bool,
}

/// What an event does to its lock; the index is that of the section, or of the failed try.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Acquire(usize),
    Release(usize),
    Failed(usize),
}

pub(super) struct Lock {
    recursive: bool,
    /// Sorted by acquisition.
    pub sections: Vec<Section>,
    failed: Vec<Failed>,
    nodes: Vec<Node>,
    /// What each of `nodes` does.
    roles: Vec<Role>,
}

/// The sections of every lock that more than one thread uses; `None` for the others.
pub(super) fn locks(model: &Model<'_>) -> Vec<Option<Lock>> {
    let trace = model.trace;
    let mut builders: Vec<Builder> = (0..trace.objects.len())
        .map(|_| Builder::default())
        .collect();
    for (i, event) in trace.events.iter().enumerate() {
        let at = Node(i as u32);
        let thread = event.thread;
        match event.op {
            Op::Lock(o) => builders[o.index()].acquire(at, thread, true),
            Op::ReadLock(o) => builders[o.index()].acquire(at, thread, false),
            Op::Unlock(o) => builders[o.index()].release(at, thread),
            Op::FailedLock(o) => {
                builders[o.index()].failed.push(Failed {
                    node: at,
                    thread,
                    writes: true,
                });
            }
            Op::FailedReadLock(o) => {
                builders[o.index()].failed.push(Failed {
                    node: at,
                    thread,
                    writes: false,
                });
            }
            _ => {}
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
    failed: Vec<Failed>,
    /// Sections that are open, and how deep: thread, index, depth.
    open: Vec<(ThreadId, usize, u32)>,
}

impl Builder {
    fn acquire(&mut self, at: Node, thread: ThreadId, writes: bool) {
        let sections = &self.sections;
        let again = self
            .open
            .iter_mut()
            .find(|(holder, section, _)| *holder == thread && sections[*section].writes == writes);
        if let Some((_, _, depth)) = again {
            *depth += 1;
            return;
        }
        self.open.push((thread, self.sections.len(), 1));
        self.sections.push(Section {
            thread,
            acquire: at,
            release: None,
            writes,
        });
    }

    fn release(&mut self, at: Node, thread: ThreadId) {
        let sections = &self.sections;
        let mine = |&(holder, section, _): &(ThreadId, usize, u32)| {
            (holder == thread).then_some(sections[section].writes)
        };
        let held = (0..self.open.len()).filter(|&k| mine(&self.open[k]).is_some());
        // Held for writing comes first.
        let Some(k) = held.max_by_key(|&k| mine(&self.open[k])) else {
            return;
        };
        self.open[k].2 -= 1;
        if self.open[k].2 == 0 {
            let (_, section, _) = self.open.remove(k);
            self.sections[section].release = Some(at);
        }
    }

    fn finish(mut self, model: &Model<'_>, object: ObjectId) -> Option<Lock> {
        let kind = model.kind(object);
        if kind == ObjectKind::RobustMutex {
            // A holder that ends gives it up.
            for (thread, section, _) in self.open.drain(..) {
                let last = model.threads[thread.index()].last().copied();
                let end = last.filter(|&last| model.op(last) == Op::End);
                self.sections[section].release = end.map(node);
            }
        }
        let first = self.sections.first()?.thread;
        let shared = self.sections.iter().any(|section| section.thread != first);
        if !shared && self.failed.is_empty() {
            return None;
        }
        let mut parts: Vec<(Node, Role)> = Vec::new();
        for (i, section) in self.sections.iter().enumerate() {
            parts.push((section.acquire, Role::Acquire(i)));
            parts.extend(section.release.map(|release| (release, Role::Release(i))));
        }
        for (i, failed) in self.failed.iter().enumerate() {
            parts.push((failed.node, Role::Failed(i)));
        }
        parts.sort_by_key(|&(node, _)| node);
        let (nodes, roles) = parts.into_iter().unzip();
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
    fn fails(&self, failed: &Failed, section: &Section) -> bool {
        (failed.writes || section.writes) && !(self.recursive && section.thread == failed.thread)
    }

    /// Parts of the clause that two sections do not overlap, the preferred ones first.
    fn exclusion(earlier: &Section, later: &Section) -> impl Iterator<Item = Part> {
        let first = earlier
            .release
            .map(|release| Part::Before(release, later.acquire));
        let second = later
            .release
            .map(|release| Part::Before(release, earlier.acquire));
        let absent = [Part::Absent(earlier.acquire), Part::Absent(later.acquire)];
        first.into_iter().chain(second).chain(absent)
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// What the event with this number does.
    pub fn role(&self, number: u32) -> Role {
        self.roles[number as usize]
    }

    /// Adds clauses when the event is not allowed while these sections are open.
    pub fn check(&self, number: u32, held: &[u32], sight: &Sight<'_>, formula: &mut Formula) {
        match self.role(number) {
            Role::Release(_) => {}
            Role::Acquire(i) => {
                let section = &self.sections[i];
                for &other in held {
                    let holder = &self.sections[other as usize];
                    if holder.excludes(section) {
                        let parts = Lock::exclusion(holder, section);
                        sight.frame.clause(formula, parts);
                    }
                }
            }
            Role::Failed(i) => {
                let failed = self.failed[i];
                let fails = |&h: &u32| self.fails(&failed, &self.sections[h as usize]);
                if held.iter().any(fails) {
                    return;
                }
                // Some section has to begin earlier or end later than it does now; of each thread
                // the nearest on either side (see `by_thread`).
                let mut threads: Vec<(ThreadId, Option<Node>, Option<Node>)> = Vec::new();
                for section in self.sections.iter().filter(|s| self.fails(&failed, s)) {
                    let known = threads.iter().position(|other| other.0 == section.thread);
                    let k = known.unwrap_or_else(|| {
                        threads.push((section.thread, None, None));
                        threads.len() - 1
                    });
                    let (_, last_release, first_acquire) = &mut threads[k];
                    if sight.is_before(section.acquire, failed.node) {
                        *last_release = section.release.max(*last_release);
                    } else if first_acquire.is_none() {
                        *first_acquire = Some(section.acquire);
                    }
                }
                let mut parts = vec![Part::Absent(failed.node)];
                for (_, release, acquire) in threads {
                    parts.extend(release.map(|release| Part::Before(failed.node, release)));
                    parts.extend(acquire.map(|acquire| Part::Before(acquire, failed.node)));
                }
                prefer_observed(&mut parts);
                sight.frame.clause(formula, parts);
            }
        }
    }

    /// Adds everything, for another solver.
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
            let mut choice = vec![Part::Absent(failed.node)];
            for section in self
                .sections
                .iter()
                .filter(|section| self.fails(failed, section))
            {
                let inside = formula.boolean(false);
                choice.push(Part::Literal(inside));
                let not = Part::Literal(!inside);
                frame.clause(formula, [not, Part::Before(section.acquire, failed.node)]);
                if let Some(release) = section.release {
                    frame.clause(formula, [not, Part::Before(failed.node, release)]);
                }
            }
            frame.clause(formula, choice);
        }
    }
}
