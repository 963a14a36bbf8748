//! The rules of a node, derived from those of the nodes below it. This is the operational
//! semantics once more, for components with unknown states instead of terms.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::engine::budget::{Activity, Meter};
use crate::engine::context::Context;
use crate::engine::shape::{DONE, NodeId, Rule, Shape, Shapes, Sync};
use crate::event::{EventId, EventSet};

impl Shapes {
    /// The rules of a node; none if there are more than `limit`, or if the time ends. `alphabet`
    /// gives the events of each leaf, [`DONE`] among them.
    pub fn rules(
        &mut self,
        context: &Context,
        alphabet: &dyn Fn(u32) -> Vec<EventId>,
        node: NodeId,
        limit: usize,
        meter: &Meter,
    ) -> Option<Vec<Rule>> {
        let mut deriver = Deriver {
            shapes: self,
            context,
            alphabet,
            limit,
            meter,
            exceeded: false,
        };
        let rules = deriver.rules(node, Termination::Tick);
        (!deriver.exceeded && rules.len() <= limit).then_some(rules)
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
    meter: &'c Meter,
    // Whether some node had more rules than the limit, or the time has ended; what was derived is
    // then incomplete.
    exceeded: bool,
}

// Rules between two looks at the clock.
const LOOK_AT_TIME: usize = 1 << 16;

impl Deriver<'_, '_, '_> {
    /// Whether a node that has so many rules by now must not get more.
    fn is_full(&mut self, rules: usize) -> bool {
        self.exceeded |= rules > self.limit
            || rules.is_multiple_of(LOOK_AT_TIME)
                && self.meter.spent(Activity::Searching, 0, 0).is_some();
        self.exceeded
    }

    fn rules(&mut self, node: NodeId, termination: Termination) -> Vec<Rule> {
        if self.exceeded {
            return Vec::new();
        }
        let rules = self.derive(node, termination);
        self.exceeded |= rules.len() > self.limit;
        rules
    }

    fn derive(&mut self, node: NodeId, termination: Termination) -> Vec<Rule> {
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
                    let images = pairs.images(rule.event);
                    if images.len() == 0 {
                        rules.push(rule);
                        continue;
                    }
                    for event in images {
                        if self.is_full(rules.len()) {
                            return rules;
                        }
                        rules.push(Rule {
                            event,
                            ..rule.clone()
                        });
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
            if self.is_full(rules.len()) {
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

// Larger sets are asked for each event instead of being listed.
const MAX_LISTED: usize = 1024;

/// Which of several sets have an event, without asking each of many.
struct Holders {
    // Sets given by their members, by event; the others, and very large ones, are asked.
    listed: FxHashMap<EventId, Vec<usize>>,
    others: Vec<(usize, Arc<EventSet>)>,
}

impl Holders {
    fn new(sets: &[Arc<EventSet>]) -> Self {
        let mut listed: FxHashMap<EventId, Vec<usize>> = FxHashMap::default();
        let mut others = Vec::new();
        for (i, set) in sets.iter().enumerate() {
            match set.members() {
                Some(members) if members.len() <= MAX_LISTED => {
                    for event in members.iter() {
                        listed.entry(event).or_default().push(i);
                    }
                }
                _ => others.push((i, set.clone())),
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
