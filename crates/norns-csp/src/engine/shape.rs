//! The static part of a process: which operators stand above the components, and the rules by
//! which the components act together.
//!
//! This is FDR's idea of supercombinators (Roscoe 2010, 20.3):
//! parallel composition, hiding and renaming need no state of their own, so a product is never
//! built; a rule says which components do what, and what is seen. Operators that do change
//! (a sequential composition above a parallel one, say) give the network several *formats*,
//! each with rules of its own; a rule may lead to another format.
//!
//! A process whose recursion goes through one of these operators has no finite shape. It
//! becomes one component whose states are terms: correct, but its product is built.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::CheckError;
use crate::engine::semantics::Context;
use crate::event::{EventId, EventSet};
use crate::process::{AlphabetsId, CallId, ProcId, Process, RenamingId, SetId};

/// A node of the static part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// What a component does in its last state, after its tick: waits for the others.
pub const DONE: EventId = EventId(u32::MAX);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sync {
    Nothing,
    On(SetId),
    Alphabets(AlphabetsId),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Shape {
    Leaf(u32),
    Omega,
    Prefix(EventId, NodeId),
    Internal(Box<[NodeId]>),
    External(Box<[NodeId]>),
    Sliding(NodeId, NodeId),
    Interrupt(NodeId, NodeId),
    Exception(NodeId, SetId, NodeId),
    Sequence(NodeId, NodeId),
    Hide(NodeId, SetId),
    Rename(NodeId, RenamingId),
    Parallel(Box<[NodeId]>, Sync),
    SyncChoice(Box<[NodeId]>, SetId),
    SyncInterrupt(NodeId, SetId, NodeId),
}

/// How components act together: each does its event, `event` is seen, `next` is what the
/// static part becomes.
#[derive(Clone, Debug)]
pub struct Rule {
    pub event: EventId,
    // (leaf, event of the leaf), each leaf at most once
    pub actions: Vec<(u32, EventId)>,
    pub next: NodeId,
}

/// A component to be: the term it starts as.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub process: ProcId,
    /// The innermost named process around it.
    pub name: Option<String>,
}

/// Which operators may take part in the static part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Split {
    /// All.
    Everything,
    /// Parallel composition, hiding and renaming: one format.
    ParallelOnly,
}

#[derive(Default)]
pub struct Shapes {
    nodes: Vec<Shape>,
    ids: FxHashMap<Shape, NodeId>,
    pub leaves: Vec<Leaf>,
}

enum Built {
    Leaf(ProcId),
    Node(NodeId),
}

enum Stop {
    /// This call is being built: the recursion goes through the static part.
    Recursive(CallId),
    Error(CheckError),
}

impl From<CheckError> for Stop {
    fn from(error: CheckError) -> Self {
        Stop::Error(error)
    }
}

// How far a process is unfolded behind operators that do not need it at once. It bounds the
// work for `P(n) = a -> SKIP ; P(n+1)`; a parallel composition behind it is built as a product.
const LOOK_AHEAD: usize = 8;
const FUEL: usize = 4000;
const MAX_DEPTH: usize = 1500;

struct Builder<'a, 'b> {
    context: &'a mut Context<'b>,
    shapes: &'a mut Shapes,
    split: Split,
    // Calls on the way from the root.
    open: FxHashSet<CallId>,
    names: Vec<String>,
    fuel: usize,
    depth: usize,
}

impl Shapes {
    fn intern(&mut self, shape: Shape) -> NodeId {
        let next = NodeId(self.nodes.len() as u32);
        let id = *self.ids.entry(shape.clone()).or_insert(next);
        if id == next {
            self.nodes.push(shape);
        }
        id
    }

    /// The terminated process.
    pub fn omega(&mut self) -> NodeId {
        self.intern(Shape::Omega)
    }

    /// Splits a process into its static part and components.
    pub fn build(
        &mut self,
        context: &mut Context,
        process: ProcId,
        split: Split,
    ) -> Result<NodeId, CheckError> {
        let mut builder = Builder {
            context,
            shapes: self,
            split,
            open: FxHashSet::default(),
            names: Vec::new(),
            fuel: FUEL,
            depth: 0,
        };
        match builder.build(process, LOOK_AHEAD, true) {
            Ok(built) => Ok(builder.node(built)),
            Err(Stop::Recursive(_)) => unreachable!("every open call catches its own recursion"),
            Err(Stop::Error(error)) => Err(error),
        }
    }

    /// The leaves below a node, sorted.
    pub fn leaves_of(&self, node: NodeId) -> Vec<u32> {
        let mut leaves = Vec::new();
        let mut stack = vec![node];
        while let Some(node) = stack.pop() {
            match &self.nodes[node.0 as usize] {
                Shape::Leaf(leaf) => leaves.push(*leaf),
                Shape::Omega => {}
                Shape::Prefix(_, n) | Shape::Hide(n, _) | Shape::Rename(n, _) => stack.push(*n),
                Shape::Sliding(a, b)
                | Shape::Interrupt(a, b)
                | Shape::Exception(a, _, b)
                | Shape::Sequence(a, b)
                | Shape::SyncInterrupt(a, _, b) => stack.extend([*a, *b]),
                Shape::Internal(list)
                | Shape::External(list)
                | Shape::Parallel(list, _)
                | Shape::SyncChoice(list, _) => stack.extend(list.iter()),
            }
        }
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    }

    /// The leaves that all wait in their last state when this node has terminated; none for a
    /// node that terminates by becoming Omega.
    fn done(&self, node: NodeId) -> Option<Vec<u32>> {
        match &self.nodes[node.0 as usize] {
            Shape::Leaf(leaf) => Some(vec![*leaf]),
            Shape::Omega => Some(Vec::new()),
            Shape::Hide(n, _) | Shape::Rename(n, _) => self.done(*n),
            Shape::Parallel(list, _) => {
                let mut all = Vec::new();
                for &n in list {
                    all.extend(self.done(n)?);
                }
                Some(all)
            }
            _ => None,
        }
    }

    /// The rules of a node; none if there are more than `limit`. `alphabet` gives the events of
    /// each leaf, [`DONE`] among them.
    pub fn rules(
        &mut self,
        context: &Context,
        alphabet: &dyn Fn(u32) -> Vec<EventId>,
        node: NodeId,
        limit: usize,
    ) -> Option<Vec<Rule>> {
        let mut deriver = Deriver {
            shapes: self,
            context,
            alphabet,
            limit,
            exceeded: false,
        };
        let rules = deriver.rules(node, Termination::Tick);
        (!deriver.exceeded && rules.len() <= limit).then_some(rules)
    }
}

impl Builder<'_, '_> {
    fn node(&mut self, built: Built) -> NodeId {
        match built {
            Built::Node(node) => node,
            Built::Leaf(process) => {
                let leaf = self.shapes.leaves.len() as u32;
                let name = self
                    .context
                    .name(process)
                    .or_else(|| self.names.last().cloned());
                self.shapes.leaves.push(Leaf { process, name });
                self.shapes.intern(Shape::Leaf(leaf))
            }
        }
    }

    fn build(&mut self, process: ProcId, ahead: usize, guarded: bool) -> Result<Built, Stop> {
        if self.depth >= MAX_DEPTH {
            return Ok(Built::Leaf(process));
        }
        self.depth += 1;
        let built = self.build_inner(process, ahead, guarded);
        self.depth -= 1;
        built
    }

    /// A part that starts later: looked at as far as `ahead` and the fuel go.
    fn later(&mut self, process: ProcId, ahead: usize, guarded: bool) -> Result<Built, Stop> {
        if ahead == 0 || self.fuel == 0 || self.split == Split::ParallelOnly {
            return Ok(Built::Leaf(process));
        }
        self.fuel -= 1;
        self.build(process, ahead - 1, guarded)
    }

    // `guarded`: whether to look behind prefixes.
    fn build_inner(&mut self, term: ProcId, ahead: usize, guarded: bool) -> Result<Built, Stop> {
        let control = self.split == Split::Everything;
        match self.context.processes.get(term) {
            Process::Call(call) => {
                if !self.open.insert(call) {
                    return Err(Stop::Recursive(call));
                }
                let body = self
                    .context
                    .processes
                    .unfold(call, self.context.definitions)
                    .map_err(CheckError::from)?;
                let name = self.context.name(term);
                let named = name.is_some();
                self.names.extend(name);
                let built = self.build(body, ahead, guarded);
                if named {
                    self.names.pop();
                }
                self.open.remove(&call);
                match built {
                    Ok(Built::Leaf(_)) => Ok(Built::Leaf(term)),
                    Err(Stop::Recursive(c)) if c == call => Ok(Built::Leaf(term)),
                    other => other,
                }
            }
            Process::Interleave(list) => self.parallel(list, Sync::Nothing, ahead),
            Process::Parallel(list, set) => self.parallel(list, Sync::On(set), ahead),
            Process::Alphabetised(list, alphabets) => {
                self.parallel(list, Sync::Alphabets(alphabets), ahead)
            }
            Process::Hide(p, set) => Ok(match self.build(p, ahead, guarded)? {
                Built::Leaf(_) => Built::Leaf(term),
                Built::Node(n) => Built::Node(self.shapes.intern(Shape::Hide(n, set))),
            }),
            Process::Rename(p, renaming) => Ok(match self.build(p, ahead, guarded)? {
                Built::Leaf(_) => Built::Leaf(term),
                Built::Node(n) => Built::Node(self.shapes.intern(Shape::Rename(n, renaming))),
            }),
            Process::Prefix(event, then) if control && guarded => {
                Ok(match self.later(then, ahead, true)? {
                    Built::Leaf(_) => Built::Leaf(term),
                    Built::Node(n) => Built::Node(self.shapes.intern(Shape::Prefix(event, n))),
                })
            }
            Process::InternalChoice(list) if control => {
                let list = self.context.processes.get_list(list).clone();
                let mut built = Vec::new();
                for &p in list.iter() {
                    built.push(self.later(p, ahead, false)?);
                }
                Ok(self.mixed(term, built, Shape::Internal))
            }
            Process::ExternalChoice(list) if control => {
                let list = self.context.processes.get_list(list).clone();
                let built = self.all(&list, ahead)?;
                Ok(self.mixed(term, built, Shape::External))
            }
            Process::SyncChoice(list, set) if control => {
                let list = self.context.processes.get_list(list).clone();
                let built = self.all(&list, ahead)?;
                Ok(self.mixed(term, built, |list| Shape::SyncChoice(list, set)))
            }
            Process::Sliding(p, q) if control => {
                let built = vec![self.build(p, ahead, false)?, self.later(q, ahead, guarded)?];
                Ok(self.mixed(term, built, |list| Shape::Sliding(list[0], list[1])))
            }
            Process::Interrupt(p, q) if control => {
                let built = vec![self.build(p, ahead, guarded)?, self.build(q, ahead, false)?];
                Ok(self.mixed(term, built, |list| Shape::Interrupt(list[0], list[1])))
            }
            Process::SyncInterrupt(p, set, q) if control => {
                let built = vec![self.build(p, ahead, guarded)?, self.build(q, ahead, false)?];
                Ok(self.mixed(term, built, |list| {
                    Shape::SyncInterrupt(list[0], set, list[1])
                }))
            }
            Process::Exception(p, set, q) if control => {
                let built = vec![
                    self.build(p, ahead, guarded)?,
                    self.later(q, ahead, guarded)?,
                ];
                Ok(self.mixed(term, built, |list| Shape::Exception(list[0], set, list[1])))
            }
            Process::Sequence(p, q) if control => {
                let built = vec![
                    self.build(p, ahead, guarded)?,
                    self.later(q, ahead, guarded)?,
                ];
                Ok(self.mixed(term, built, |list| Shape::Sequence(list[0], list[1])))
            }
            // A component of its own, so that the operators around it are split from it.
            Process::Compress(..)
            | Process::Prioritise(..)
            | Process::Resolve(..)
            | Process::Watchdog(..) => {
                let node = self.node(Built::Leaf(term));
                Ok(Built::Node(node))
            }
            _ => Ok(Built::Leaf(term)),
        }
    }

    fn all(&mut self, list: &[ProcId], ahead: usize) -> Result<Vec<Built>, Stop> {
        list.iter().map(|&p| self.build(p, ahead, false)).collect()
    }

    /// A node if one of the parts is one; otherwise the whole term is a leaf.
    fn mixed(
        &mut self,
        term: ProcId,
        parts: Vec<Built>,
        shape: impl FnOnce(Box<[NodeId]>) -> Shape,
    ) -> Built {
        if parts.iter().all(|part| matches!(part, Built::Leaf(_))) {
            return Built::Leaf(term);
        }
        let nodes = parts.into_iter().map(|part| self.node(part)).collect();
        Built::Node(self.shapes.intern(shape(nodes)))
    }

    fn parallel(
        &mut self,
        list: crate::process::ListId,
        sync: Sync,
        ahead: usize,
    ) -> Result<Built, Stop> {
        let list = self.context.processes.get_list(list).clone();
        let mut nodes = Vec::new();
        for &p in list.iter() {
            let built = self.build(p, ahead, true)?;
            let node = self.node(built);
            // Interleaving is associative, and a flat list needs fewer copies of rules.
            match &self.shapes.nodes[node.0 as usize] {
                Shape::Parallel(inner, Sync::Nothing) if sync == Sync::Nothing => {
                    nodes.extend(inner.iter().copied());
                }
                _ => nodes.push(node),
            }
        }
        Ok(Built::Node(
            self.shapes.intern(Shape::Parallel(nodes.into(), sync)),
        ))
    }
}

/// What the tick of a node is to the node above.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Termination {
    /// A tick.
    Tick,
    /// A tau of each leaf, which then waits; the parallel composition above looks at the leaves.
    Wait,
}

struct Deriver<'a, 'b, 'c> {
    shapes: &'a mut Shapes,
    context: &'a Context<'b>,
    alphabet: &'c dyn Fn(u32) -> Vec<EventId>,
    limit: usize,
    // Whether some node had more rules than the limit; what was derived is then incomplete.
    exceeded: bool,
}

impl Deriver<'_, '_, '_> {
    fn rules(&mut self, node: NodeId, termination: Termination) -> Vec<Rule> {
        match self.shapes.nodes[node.0 as usize].clone() {
            Shape::Omega => Vec::new(),
            Shape::Leaf(leaf) => {
                let mut rules = Vec::new();
                for event in (self.alphabet)(leaf) {
                    let (seen, next) = match (event, termination) {
                        (DONE, _) => continue,
                        (EventId::TICK, Termination::Wait) => (EventId::TAU, node),
                        (EventId::TICK, Termination::Tick) => (event, self.shapes.omega()),
                        _ => (event, node),
                    };
                    rules.push(Rule {
                        event: seen,
                        actions: vec![(leaf, event)],
                        next,
                    });
                }
                rules
            }
            Shape::Prefix(event, then) => vec![Rule {
                event,
                actions: Vec::new(),
                next: then,
            }],
            Shape::Internal(list) => list
                .iter()
                .map(|&next| Rule {
                    event: EventId::TAU,
                    actions: Vec::new(),
                    next,
                })
                .collect(),
            Shape::External(list) => {
                let mut rules = Vec::new();
                for (i, &child) in list.iter().enumerate() {
                    for mut rule in self.rules(child, Termination::Tick) {
                        if rule.event == EventId::TAU {
                            rule.next = self.replace(node, &list, i, rule.next, Shape::External);
                        }
                        rules.push(rule);
                    }
                }
                rules
            }
            Shape::Sliding(first, then) => {
                let mut rules = self.rules(first, Termination::Tick);
                for rule in &mut rules {
                    if rule.event == EventId::TAU {
                        rule.next = self.shapes.intern(Shape::Sliding(rule.next, then));
                    }
                }
                rules.push(Rule {
                    event: EventId::TAU,
                    actions: Vec::new(),
                    next: then,
                });
                rules
            }
            Shape::Interrupt(process, by) => {
                let mut rules = self.rules(process, Termination::Tick);
                for rule in &mut rules {
                    if rule.event != EventId::TICK {
                        rule.next = self.shapes.intern(Shape::Interrupt(rule.next, by));
                    }
                }
                for mut rule in self.rules(by, Termination::Tick) {
                    if rule.event == EventId::TAU {
                        rule.next = self.shapes.intern(Shape::Interrupt(process, rule.next));
                    }
                    rules.push(rule);
                }
                rules
            }
            Shape::SyncInterrupt(process, set, by) => {
                let events = self.context.processes.get_set(set).clone();
                let left = self.rules(process, Termination::Tick);
                let right = self.rules(by, Termination::Tick);
                let mut rules = Vec::new();
                for rule in &left {
                    if events.contains(rule.event) {
                        for other in right.iter().filter(|other| other.event == rule.event) {
                            let next = Shape::SyncInterrupt(rule.next, set, other.next);
                            let mut rule = rule.clone();
                            rule.actions.extend(&other.actions);
                            rule.next = self.shapes.intern(next);
                            rules.push(rule);
                        }
                        continue;
                    }
                    let mut rule = rule.clone();
                    if rule.event != EventId::TICK {
                        let next = Shape::SyncInterrupt(rule.next, set, by);
                        rule.next = self.shapes.intern(next);
                    }
                    rules.push(rule);
                }
                for mut rule in right {
                    if events.contains(rule.event) {
                        continue;
                    }
                    if rule.event == EventId::TAU {
                        let next = Shape::SyncInterrupt(process, set, rule.next);
                        rule.next = self.shapes.intern(next);
                    }
                    rules.push(rule);
                }
                rules
            }
            Shape::Exception(process, set, handler) => {
                let events = self.context.processes.get_set(set).clone();
                let mut rules = self.rules(process, Termination::Tick);
                for rule in &mut rules {
                    if events.contains(rule.event) {
                        rule.next = handler;
                    } else if rule.event != EventId::TICK {
                        rule.next = self.rewrap(node, process, rule.next, |next| {
                            Shape::Exception(next, set, handler)
                        });
                    }
                }
                rules
            }
            Shape::Sequence(first, then) => {
                let mut rules = self.rules(first, Termination::Tick);
                for rule in &mut rules {
                    if rule.event == EventId::TICK {
                        rule.event = EventId::TAU;
                        rule.next = then;
                    } else {
                        rule.next =
                            self.rewrap(node, first, rule.next, |next| Shape::Sequence(next, then));
                    }
                }
                rules
            }
            Shape::Hide(process, set) => {
                let events = self.context.processes.get_set(set).clone();
                let mut rules = self.rules(process, termination);
                for rule in &mut rules {
                    if rule.event == EventId::TICK {
                        continue;
                    }
                    if events.contains(rule.event) {
                        rule.event = EventId::TAU;
                    }
                    rule.next =
                        self.rewrap(node, process, rule.next, |next| Shape::Hide(next, set));
                }
                rules
            }
            Shape::Rename(process, renaming) => {
                let pairs = self.context.processes.get_renaming(renaming).clone();
                let mut rules = Vec::new();
                for mut rule in self.rules(process, termination) {
                    if rule.event == EventId::TICK {
                        rules.push(rule);
                        continue;
                    }
                    rule.next = self.rewrap(node, process, rule.next, |next| {
                        Shape::Rename(next, renaming)
                    });
                    match pairs.images(rule.event) {
                        [] => rules.push(rule),
                        images => rules.extend(images.iter().map(|&(_, event)| Rule {
                            event,
                            ..rule.clone()
                        })),
                    }
                }
                rules
            }
            Shape::Parallel(list, sync) => self.parallel(node, &list, sync, termination),
            Shape::SyncChoice(list, set) => {
                let events = self.context.processes.get_set(set).clone();
                let each: Vec<_> = list
                    .iter()
                    .map(|&child| self.rules(child, Termination::Tick))
                    .collect();
                let mut rules = Vec::new();
                for (i, of) in each.iter().enumerate() {
                    for rule in of.iter().filter(|rule| !events.contains(rule.event)) {
                        let mut rule = rule.clone();
                        if rule.event == EventId::TAU {
                            rule.next = self.replace(node, &list, i, rule.next, |list| {
                                Shape::SyncChoice(list, set)
                            });
                        }
                        rules.push(rule);
                    }
                }
                let all: Vec<usize> = (0..list.len()).collect();
                let by_event = each.iter().map(|of| by_event(of)).collect::<Vec<_>>();
                let mut shared: Vec<_> = by_event[0]
                    .keys()
                    .copied()
                    .filter(|&e| events.contains(e))
                    .collect();
                shared.sort_unstable();
                for event in shared {
                    self.together(
                        node,
                        &list,
                        &each,
                        &by_event,
                        &all,
                        event,
                        &mut rules,
                        |list| Shape::SyncChoice(list, set),
                    );
                }
                rules
            }
        }
    }

    /// The node around a changed child; the same node if the child did not change.
    fn rewrap(
        &mut self,
        node: NodeId,
        child: NodeId,
        next: NodeId,
        shape: impl FnOnce(NodeId) -> Shape,
    ) -> NodeId {
        if next == child {
            node
        } else {
            self.shapes.intern(shape(next))
        }
    }

    fn replace(
        &mut self,
        node: NodeId,
        list: &[NodeId],
        i: usize,
        next: NodeId,
        shape: impl FnOnce(Box<[NodeId]>) -> Shape,
    ) -> NodeId {
        if next == list[i] {
            return node;
        }
        let mut list: Box<[NodeId]> = list.into();
        list[i] = next;
        self.shapes.intern(shape(list))
    }

    fn parallel(
        &mut self,
        node: NodeId,
        list: &[NodeId],
        sync: Sync,
        termination: Termination,
    ) -> Vec<Rule> {
        let mut rules = Vec::new();
        let mut each = Vec::with_capacity(list.len());
        let shape = |list| Shape::Parallel(list, sync);
        let sets: Vec<_> = match sync {
            Sync::Alphabets(alphabets) => self
                .context
                .processes
                .get_alphabets(alphabets)
                .iter()
                .map(|&set| self.context.processes.get_set(set).clone())
                .collect(),
            _ => Vec::new(),
        };
        let common = match sync {
            Sync::On(set) => Some(self.context.processes.get_set(set).clone()),
            _ => None,
        };
        for (i, &child) in list.iter().enumerate() {
            let waits = self.shapes.done(child).is_some();
            let mut of = self.rules(
                child,
                if waits {
                    Termination::Wait
                } else {
                    Termination::Tick
                },
            );
            for rule in &mut of {
                if rule.event == EventId::TICK {
                    rule.event = EventId::TAU;
                    rule.next = self.shapes.omega();
                }
            }
            // What needs no partner goes straight to the result; the rest is kept.
            let mut kept = Vec::new();
            for mut rule in of {
                let alone = rule.event == EventId::TAU
                    || match (&common, sync) {
                        (Some(set), _) => !set.contains(rule.event),
                        (None, Sync::Nothing) => true,
                        _ => false,
                    };
                if alone {
                    rule.next = self.replace(node, list, i, rule.next, shape);
                    rules.push(rule);
                } else if sets.is_empty() || sets[i].contains(rule.event) {
                    kept.push(rule);
                }
            }
            each.push(kept);
        }
        let index: Vec<_> = each.iter().map(|of| by_event(of)).collect();
        let holders = Holders::new(&sets);
        for i in 0..list.len() {
            let mut events: Vec<_> = index[i].keys().copied().collect();
            events.sort_unstable();
            for event in events {
                let sharing: Vec<usize> = match &common {
                    Some(_) => (0..list.len()).collect(),
                    None => holders.of(event),
                };
                if sharing[0] == i {
                    self.together(
                        node, list, &each, &index, &sharing, event, &mut rules, shape,
                    );
                }
            }
            if common.is_some() {
                break;
            }
        }
        if termination == Termination::Tick
            && let Some(leaves) = self.shapes.done(node)
            && leaves
                .iter()
                .all(|&leaf| (self.alphabet)(leaf).contains(&DONE))
        {
            let actions = leaves.into_iter().map(|leaf| (leaf, DONE)).collect();
            let next = self.shapes.omega();
            rules.push(Rule {
                event: EventId::TICK,
                actions,
                next,
            });
        }
        rules
    }

    /// The rules in which the children `sharing` do one event together.
    #[expect(clippy::too_many_arguments, reason = "one call site an operator")]
    fn together(
        &mut self,
        node: NodeId,
        list: &[NodeId],
        each: &[Vec<Rule>],
        by_event: &[FxHashMap<EventId, Vec<u32>>],
        sharing: &[usize],
        event: EventId,
        rules: &mut Vec<Rule>,
        shape: impl Fn(Box<[NodeId]>) -> Shape,
    ) {
        let mut choices = Vec::with_capacity(sharing.len());
        for &i in sharing {
            match by_event[i].get(&event) {
                Some(of) => choices.push(of),
                None => return,
            }
        }
        let mut which = vec![0; sharing.len()];
        loop {
            let mut actions = Vec::new();
            let mut changed = false;
            for ((&i, of), &w) in sharing.iter().zip(&choices).zip(&which) {
                let rule = &each[i][of[w] as usize];
                actions.extend(&rule.actions);
                changed |= rule.next != list[i];
            }
            let mut next = node;
            if changed {
                let mut list: Box<[NodeId]> = list.into();
                for ((&i, of), &w) in sharing.iter().zip(&choices).zip(&which) {
                    list[i] = each[i][of[w] as usize].next;
                }
                next = self.shapes.intern(shape(list));
            }
            rules.push(Rule {
                event,
                actions,
                next,
            });
            if rules.len() > self.limit {
                self.exceeded = true;
                return;
            }
            let Some(digit) = (0..which.len()).find(|&d| which[d] + 1 < choices[d].len()) else {
                return;
            };
            which[digit] += 1;
            which[..digit].fill(0);
        }
    }
}

/// Which of several sets have an event, without asking each of many.
struct Holders {
    // Sets given by their members, by event; the others are asked.
    listed: FxHashMap<EventId, Vec<usize>>,
    others: Vec<(usize, Arc<EventSet>)>,
}

impl Holders {
    fn new(sets: &[Arc<EventSet>]) -> Self {
        let mut listed: FxHashMap<EventId, Vec<usize>> = FxHashMap::default();
        let mut others = Vec::new();
        for (i, set) in sets.iter().enumerate() {
            match set.members() {
                Some(members) => {
                    for &event in members {
                        listed.entry(event).or_default().push(i);
                    }
                }
                None => others.push((i, set.clone())),
            }
        }
        Holders { listed, others }
    }

    /// Their places, sorted.
    fn of(&self, event: EventId) -> Vec<usize> {
        let mut all = self.listed.get(&event).cloned().unwrap_or_default();
        all.extend(
            self.others
                .iter()
                .filter(|(_, set)| set.contains(event))
                .map(|(i, _)| *i),
        );
        all.sort_unstable();
        all
    }
}

fn by_event(rules: &[Rule]) -> FxHashMap<EventId, Vec<u32>> {
    let mut index: FxHashMap<EventId, Vec<u32>> = FxHashMap::default();
    for (i, rule) in rules.iter().enumerate() {
        index.entry(rule.event).or_default().push(i as u32);
    }
    index
}
