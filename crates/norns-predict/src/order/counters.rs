//! Semaphores and barriers: rules that count.
//!
//! A wait on a semaphore takes place only when more was posted before it (and there at the
//! beginning) than other waits took; a wait that failed, only when nothing was left. A thread
//! leaves a barrier only when the round that it entered in is full.
//!
//! A violated count becomes a clause: of the events that are on the wrong side of the one that
//! counts, one has to change sides; of each thread only the nearest is named. For another solver
//! it stays a sum.

use norns_model::{Model, State};
use norns_order::{Formula, Literal, Node, Sum};
use norns_trace::{ObjectId, Op};

use super::by_thread::ByThread;
use super::frame::{Constraint, Frame, Part, Sight, prefer_observed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Post,
    Wait,
    FailedWait,
}

pub(super) struct Semaphore {
    pub initial: i64,
    nodes: Vec<Node>,
    roles: Vec<Role>,
    posts: ByThread,
    waits: ByThread,
}

pub(super) struct Barrier {
    count: usize,
    entries: Vec<Node>,
    entries_by_thread: ByThread,
    /// Entry and exit of one visit.
    visits: Vec<(Node, Node)>,
}

pub(super) fn semaphores(model: &Model<'_>) -> Vec<Semaphore> {
    let start = State::initial(model);
    let mut found: Vec<Semaphore> = (0..model.trace.objects.len())
        .map(|o| Semaphore {
            initial: start.value(ObjectId::from_index(o)),
            nodes: Vec::new(),
            roles: Vec::new(),
            posts: ByThread::default(),
            waits: ByThread::default(),
        })
        .collect();
    for (i, event) in model.trace.events.iter().enumerate() {
        let (object, role) = match event.op {
            Op::SemPost(o) => (o, Role::Post),
            Op::SemWait(o) => (o, Role::Wait),
            Op::FailedSemWait(o) => (o, Role::FailedWait),
            _ => continue,
        };
        let semaphore = &mut found[object.index()];
        semaphore.nodes.push(Node(i as u32));
        semaphore.roles.push(role);
    }
    found.retain(|semaphore| !semaphore.nodes.is_empty());
    for semaphore in &mut found {
        semaphore.posts = ByThread::new(semaphore.with(Role::Post), model);
        semaphore.waits = ByThread::new(semaphore.with(Role::Wait), model);
    }
    found
}

impl Semaphore {
    fn with(&self, role: Role) -> impl Iterator<Item = Node> + '_ {
        let pairs = self.nodes.iter().zip(&self.roles);
        pairs
            .filter(move |(_, r)| **r == role)
            .map(|(&node, _)| node)
    }

    /// Too little was posted before `wait`: a post has to come before it, or a wait after it.
    fn refuse_wait(&self, sight: &Sight<'_>, wait: Node, formula: &mut Formula) {
        let later = self.posts.first_after(sight, wait);
        let mut parts: Vec<Part> = later.map(|post| Part::Before(post, wait)).collect();
        let earlier = self.waits.last_before(sight, wait);
        parts.extend(earlier.map(|other| Part::Before(wait, other)));
        parts.push(Part::Absent(wait));
        prefer_observed(&mut parts);
        sight.frame.clause(formula, parts);
    }

    /// Too much was posted before `failed`: one of the posts has to come after it, or another
    /// wait before it.
    fn refuse_failed(&self, sight: &Sight<'_>, failed: Node, formula: &mut Formula) {
        let later = self.waits.first_after(sight, failed);
        let mut parts: Vec<Part> = later.map(|wait| Part::Before(wait, failed)).collect();
        let waits = self.waits.count_before(sight, failed);
        let mut posts: Vec<Node> = self
            .with(Role::Post)
            .filter(|&post| sight.is_before(post, failed))
            .collect();
        posts.sort_by_key(|&post| sight.view.order.label(post));
        // So many posts alone are too many. Waits that took what was not there may hide that; they
        // are dealt with first.
        let enough = (waits as i64 + 1 - self.initial).max(0) as usize;
        if posts.len() < enough {
            return;
        }
        // The earliest are the hardest to move: that says the most.
        posts.truncate(enough);
        let last = posts.last().copied();
        let earlier = last
            .into_iter()
            .flat_map(|last| self.posts.last_up_to(sight, last));
        parts.extend(earlier.map(|post| Part::Before(failed, post)));
        parts.push(Part::Absent(failed));
        prefer_observed(&mut parts);
        sight.frame.clause(formula, parts);
    }
}

/// Literals of nodes that come before (or after) `node`; what is known is counted apart.
fn terms(
    nodes: impl Iterator<Item = Node>,
    node: Node,
    before: bool,
    formula: &mut Formula,
) -> Vec<Literal> {
    nodes
        .filter(|&other| other != node)
        .map(|other| {
            if before {
                formula.before(other, node)
            } else {
                formula.before(node, other)
            }
        })
        .collect()
}

impl Semaphore {
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// What the event with this number adds to the value.
    pub fn change(&self, number: u32) -> i64 {
        match self.roles[number as usize] {
            Role::Post => 1,
            Role::Wait => -1,
            Role::FailedWait => 0,
        }
    }

    /// Adds a clause when the event is not allowed with this value before it.
    pub fn check(&self, number: u32, value: i64, sight: &Sight<'_>, formula: &mut Formula) {
        let node = self.nodes[number as usize];
        match self.roles[number as usize] {
            Role::Wait if value <= 0 => self.refuse_wait(sight, node, formula),
            Role::FailedWait if value > 0 => self.refuse_failed(sight, node, formula),
            _ => {}
        }
    }

    /// Adds everything, for another solver.
    pub fn all(&self, frame: &Frame, formula: &mut Formula) {
        let waits = self.with(Role::Wait).count() as i64;
        let posts = self.with(Role::Post).count() as i64;
        for (&node, &role) in self.nodes.iter().zip(&self.roles) {
            // posts before + waits after, or the other way round
            let (mut sum, at_least) = match role {
                Role::Post => continue,
                Role::Wait => {
                    let posts = terms(self.with(Role::Post), node, true, formula);
                    // initial + posts before >= 1 + (waits - 1 - waits after)
                    (posts, waits - self.initial)
                }
                Role::FailedWait => {
                    let posts_after = terms(self.with(Role::Post), node, false, formula);
                    // initial + posts - posts after <= waits - waits after
                    (posts_after, self.initial + posts)
                }
            };
            match role {
                Role::Wait => sum.extend(terms(self.with(Role::Wait), node, false, formula)),
                _ => sum.extend(terms(self.with(Role::Wait), node, true, formula)),
            }
            let absent = formula.before(frame.end, node);
            let at_least = at_least.max(0) as usize;
            formula.count(
                vec![absent],
                vec![Sum {
                    terms: sum,
                    at_least,
                }],
            );
        }
    }
}

pub(super) fn barriers(model: &Model<'_>) -> Vec<Barrier> {
    let start = State::initial(model);
    let mut found: Vec<Barrier> = (0..model.trace.objects.len())
        .map(|o| Barrier {
            count: start.value(ObjectId::from_index(o)).max(1) as usize,
            entries: Vec::new(),
            entries_by_thread: ByThread::default(),
            visits: Vec::new(),
        })
        .collect();
    let mut entered: Vec<Vec<Option<Node>>> =
        vec![vec![None; model.trace.threads.len()]; found.len()];
    for (i, event) in model.trace.events.iter().enumerate() {
        let node = Node(i as u32);
        match event.op {
            Op::BarrierEnter(o) => {
                found[o.index()].entries.push(node);
                entered[o.index()][event.thread.index()] = Some(node);
            }
            Op::BarrierExit(o) => {
                let entry = entered[o.index()][event.thread.index()].take();
                found[o.index()]
                    .visits
                    .extend(entry.map(|entry| (entry, node)));
            }
            _ => {}
        }
    }
    found.retain(|barrier| !barrier.entries.is_empty());
    for barrier in &mut found {
        barrier.entries_by_thread = ByThread::new(barrier.entries(), model);
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
        self.visits.iter().map(|&(_, exit)| exit)
    }
}

impl Constraint for Barrier {
    fn violated(&self, sight: &Sight<'_>, formula: &mut Formula) {
        let mut entries: Vec<Node> = self
            .entries
            .iter()
            .copied()
            .filter(|&entry| sight.takes_place(entry))
            .collect();
        entries.sort_by_key(|&entry| sight.view.order.label(entry));
        let before = |node: Node| entries.partition_point(|&entry| sight.is_before(entry, node));
        for &(entry, exit) in &self.visits {
            if !sight.takes_place(exit) {
                continue;
            }
            let full_rounds = before(entry) / self.count;
            if before(exit) >= (full_rounds + 1) * self.count {
                continue;
            }
            // Another entry before the exit, or one less before its own entry.
            let others = self.entries_by_thread.first_after(sight, exit);
            let mut parts: Vec<Part> = others.map(|other| Part::Before(other, exit)).collect();
            let pushing = entries[..full_rounds * self.count].last();
            let pushing = pushing
                .into_iter()
                .flat_map(|&last| self.entries_by_thread.last_up_to(sight, last));
            parts.extend(pushing.map(|other| Part::Before(entry, other)));
            parts.push(Part::Absent(exit));
            prefer_observed(&mut parts);
            sight.frame.clause(formula, parts);
        }
    }

    fn all(&self, frame: &Frame, formula: &mut Formula) {
        for &(entry, exit) in &self.visits {
            let absent = formula.before(frame.end, exit);
            let after = terms(self.entries.iter().copied(), entry, false, formula);
            let before = terms(self.entries.iter().copied(), exit, true, formula);
            let others = after.len();
            for round in 0..=others / self.count {
                // In an earlier round, or that round is full.
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
