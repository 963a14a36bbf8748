//! Semaphores: a wait needs a positive value, a failed wait a value of zero.
//!
//! A violated rule becomes a clause: of the events that are on the wrong side of the wait, one has
//! to change sides; of each thread only the nearest is named (see `thread_chains`). For another
//! solver the rule stays a sum.

use norns_model::{Model, State};
use norns_order::{Formula, Literal, Node, Sum};
use norns_trace::effect::OnSemaphore;
use norns_trace::{Effect, ObjectId};

use super::clause::{Atom, CurrentOrder, Frame, prefer_observed};
use super::thread_chains::ThreadChains;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Post,
    Wait,
    FailedWait,
}

pub struct Semaphore {
    pub initial: i64,
    /// All events of the semaphore, in the order of the trace.
    nodes: Vec<Node>,
    /// What each of `nodes` does.
    roles: Vec<Role>,
    posts: ThreadChains,
    waits: ThreadChains,
}

pub fn semaphores(model: &Model<'_>) -> Vec<Semaphore> {
    let start = State::initial(model);
    let mut found: Vec<Semaphore> = (0..model.trace.objects.len())
        .map(|o| Semaphore {
            initial: start.value(ObjectId::from_index(o)),
            nodes: Vec::new(),
            roles: Vec::new(),
            posts: ThreadChains::default(),
            waits: ThreadChains::default(),
        })
        .collect();
    for (i, event) in model.trace.events.iter().enumerate() {
        let Effect::Semaphore(object, act) = event.op.effect() else {
            continue;
        };
        let role = match act {
            OnSemaphore::Post => Role::Post,
            OnSemaphore::Wait => Role::Wait,
            OnSemaphore::FailedWait => Role::FailedWait,
            OnSemaphore::Init(_) => continue,
        };
        let semaphore = &mut found[object.index()];
        semaphore.nodes.push(Node(i as u32));
        semaphore.roles.push(role);
    }
    found.retain(|semaphore| !semaphore.nodes.is_empty());
    for semaphore in &mut found {
        semaphore.posts = ThreadChains::new(semaphore.with(Role::Post), model);
        semaphore.waits = ThreadChains::new(semaphore.with(Role::Wait), model);
    }
    found
}

/// On which side of another node something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Before,
    After,
}

/// For each of `others` except `node` itself, the literal that it stands on this side of `node`.
pub fn literals(
    others: impl Iterator<Item = Node>,
    side: Side,
    node: Node,
    formula: &mut Formula,
) -> Vec<Literal> {
    others
        .filter(|&other| other != node)
        .map(|other| match side {
            Side::Before => formula.before(other, node),
            Side::After => formula.before(node, other),
        })
        .collect()
}

impl Semaphore {
    fn with(&self, role: Role) -> impl Iterator<Item = Node> + '_ {
        let pairs = self.nodes.iter().zip(&self.roles);
        pairs
            .filter(move |(_, r)| **r == role)
            .map(|(&node, _)| node)
    }

    /// The value is zero at `wait`: a post has to come before it, or an earlier wait after it.
    fn refuse_wait(&self, current: &CurrentOrder<'_>, wait: Node, formula: &mut Formula) {
        let later = self.posts.first_after(current, wait);
        let mut atoms: Vec<Atom> = later.map(|post| Atom::Before(post, wait)).collect();
        let earlier = self.waits.last_before(current, wait);
        atoms.extend(earlier.map(|other| Atom::Before(wait, other)));
        atoms.push(Atom::Absent(wait));
        prefer_observed(&mut atoms);
        current.frame.clause(formula, atoms);
    }

    /// The value is positive at `failed`: an earlier post has to come after it, or a later wait
    /// before it.
    fn refuse_failed(&self, current: &CurrentOrder<'_>, failed: Node, formula: &mut Formula) {
        let later = self.waits.first_after(current, failed);
        let mut atoms: Vec<Atom> = later.map(|wait| Atom::Before(wait, failed)).collect();
        let waits = self.waits.count_before(current, failed);
        let mut posts: Vec<Node> = self
            .with(Role::Post)
            .filter(|&post| current.is_before(post, failed))
            .collect();
        posts.sort_by_key(|&post| current.view.order.label(post));
        // This many posts alone make the value positive. Earlier waits that were themselves not
        // allowed can hide that; their clauses come first.
        let enough = (waits as i64 + 1 - self.initial).max(0) as usize;
        if posts.len() < enough {
            return;
        }
        // The earliest posts are the hardest to move, so they give the strongest clause.
        posts.truncate(enough);
        let last = posts.last().copied();
        let earlier = last
            .into_iter()
            .flat_map(|last| self.posts.last_up_to(current, last));
        atoms.extend(earlier.map(|post| Atom::Before(failed, post)));
        atoms.push(Atom::Absent(failed));
        prefer_observed(&mut atoms);
        current.frame.clause(formula, atoms);
    }

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

    /// Adds a clause if the event with this number is not allowed when the semaphore has this value.
    pub fn check(
        &self,
        number: u32,
        value: i64,
        current: &CurrentOrder<'_>,
        formula: &mut Formula,
    ) {
        let node = self.nodes[number as usize];
        match self.roles[number as usize] {
            Role::Wait if value <= 0 => self.refuse_wait(current, node, formula),
            Role::FailedWait if value > 0 => self.refuse_failed(current, node, formula),
            Role::Post | Role::Wait | Role::FailedWait => {}
        }
    }

    /// Adds the complete encoding, for another solver.
    pub fn all(&self, frame: &Frame, formula: &mut Formula) {
        let waits = self.with(Role::Wait).count() as i64;
        let posts = self.with(Role::Post).count() as i64;
        for (&node, &role) in self.nodes.iter().zip(&self.roles) {
            let (posts_on, waits_on, at_least) = match role {
                Role::Post => continue,
                // initial + posts before >= 1 + (waits - 1 - waits after)
                Role::Wait => (Side::Before, Side::After, waits - self.initial),
                // initial + posts - posts after <= waits before
                Role::FailedWait => (Side::After, Side::Before, self.initial + posts),
            };
            let mut terms = literals(self.with(Role::Post), posts_on, node, formula);
            terms.extend(literals(self.with(Role::Wait), waits_on, node, formula));
            let absent = formula.before(frame.end, node);
            let at_least = at_least.max(0) as usize;
            formula.count(vec![absent], vec![Sum { terms, at_least }]);
        }
    }
}
