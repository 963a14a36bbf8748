//! Confluent taus: hidden steps of a network that no other step can prevent, so that the state
//! before one behaves like the state after it, and only the latter is explored.
//!
//! The typical case is a hidden write to a variable that a process of its own holds. Without this
//! the product has every old value of the variable beside every new one.
//!
//! A set of taus is confluent (Groote et al. 2000, "State space reduction using partial
//! τ-confluence") if for each tau `s → s'` in it and each other transition `s -a-> t` there is a
//! `t'` with `s' -a-> t'` such that `t` equals `t'` or a tau of the set leads from `t` to `t'`.
//! Then `s` and `s'` are branching bisimilar. Since the `a` may not be left out even where it is a
//! tau, one of them diverges only if the other does.
//!
//! The set is found on the components alone. A tau of a rule is judged by the local state of one
//! of its components, the *pivot*, and whatever the states of the others are. The largest set
//! that satisfies the condition is computed by removing taus until nothing changes. Networks of
//! several formats, or with components that were cut short, are not reduced.

use rustc_hash::FxHashMap;

use crate::engine::budget::{Activity, Meter};
use crate::engine::machine::Machine;
use crate::engine::network::{Format, Network, TERMINATED, field};
use crate::event::EventId;

// A pivot state with more transitions is not looked at: the condition compares them pairwise.
const MAX_BREADTH: usize = 64;
// Comparisons of transitions, past which a network is explored as it is.
const MAX_WORK: usize = 100_000_000;

/// How the transitions of a component with one label get along with those of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Relation {
    /// No state has both.
    Apart,
    /// After either the other is possible, and both orders end in the same states.
    Commute,
    /// The second is possible after the first, and ends where it ends without it.
    Absorbs,
    Conflict,
}

/// The confluent taus of a network.
pub struct Confluence {
    pivots: Vec<Pivot>,
}

/// A component with confluent taus.
struct Pivot {
    component: u32,
    // The rules of the confluent taus in a local state s: `rules[offsets[s]..offsets[s + 1]]`.
    offsets: Vec<u32>,
    rules: Vec<u32>,
}

impl Pivot {
    /// From pairs of a local state and a rule, sorted; none if there are no pairs.
    fn new(component: u32, states: usize, chosen: &[(u32, u32)]) -> Option<Pivot> {
        if chosen.is_empty() {
            return None;
        }
        let mut offsets = vec![0u32; states + 1];
        for &(state, _) in chosen {
            offsets[state as usize + 1] += 1;
        }
        for state in 0..states {
            offsets[state + 1] += offsets[state];
        }
        Some(Pivot {
            component,
            offsets,
            rules: chosen.iter().map(|&(_, rule)| rule).collect(),
        })
    }

    fn rules(&self, local: u64) -> &[u32] {
        let local = local as usize;
        &self.rules[self.offsets[local] as usize..self.offsets[local + 1] as usize]
    }
}

struct Finder<'n> {
    network: &'n Network,
    format: &'n Format,
    // By component and label: the rules that use it.
    users: Vec<Vec<Vec<u32>>>,
    // By component, once asked for.
    columns: Vec<Option<Columns>>,
    relations: FxHashMap<(u32, u32, u32), Relation>,
    work: usize,
}

/// The transitions of a component by label.
struct Columns {
    // Those with label l: `steps[offsets[l]..offsets[l + 1]]`, as (from, to), sorted.
    offsets: Vec<u32>,
    steps: Vec<(u32, u32)>,
}

impl Columns {
    fn new(machine: &Machine) -> Self {
        let mut offsets = vec![0u32; machine.alphabet.len() + 1];
        let states = 0..machine.len() as u32;
        for at in states.clone().flat_map(|state| machine.span(state)) {
            offsets[machine.label(at) as usize + 1] += 1;
        }
        for label in 0..machine.alphabet.len() {
            offsets[label + 1] += offsets[label];
        }
        let mut next = offsets.clone();
        let mut steps = vec![(0, 0); offsets[machine.alphabet.len()] as usize];
        for state in states {
            for at in machine.span(state) {
                let place = &mut next[machine.label(at) as usize];
                steps[*place as usize] = (state, machine.target(at));
                *place += 1;
            }
        }
        Columns { offsets, steps }
    }

    fn of(&self, label: u32) -> &[(u32, u32)] {
        let (from, to) = (
            self.offsets[label as usize],
            self.offsets[label as usize + 1],
        );
        &self.steps[from as usize..to as usize]
    }

    /// Whether no state has two transitions with a label.
    fn single(&self, label: u32) -> bool {
        self.of(label).windows(2).all(|pair| pair[0].0 != pair[1].0)
    }

    /// How the transitions with `label`, one in each state at most, get along with those with
    /// `other`.
    fn relation(&self, label: u32, other: u32) -> Relation {
        let (own, others) = (self.of(label), self.of(other));
        let leaving = |steps: &[(u32, u32)], state: u32| {
            let first = steps.partition_point(|step| step.0 < state);
            let count = steps[first..].iter().take_while(|step| step.0 == state);
            first..first + count.count()
        };
        let mut together = false;
        let (mut commute, mut absorbs) = (label != other, label != other);
        // The last question of each kind and its answer; neighbours often ask the same.
        let mut behind = (u32::MAX, 0..0);
        let mut after = (u32::MAX, 0..0);
        let mut at = 0;
        for &(state, to) in others {
            at += own[at..].iter().take_while(|step| step.0 < state).count();
            let Some(&(_, own_to)) = own.get(at).filter(|step| step.0 == state) else {
                continue;
            };
            together = true;
            if behind.0 != own_to {
                behind = (own_to, leaving(others, own_to));
            }
            let reaches = |target: u32| others[behind.1.clone()].iter().any(|s| s.1 == target);
            absorbs &= reaches(to);
            if after.0 != to {
                after = (to, leaving(own, to));
            }
            commute &= own[after.1.clone()].iter().any(|step| reaches(step.1));
            if !commute && !absorbs {
                break;
            }
        }
        match (together, commute, absorbs) {
            (false, ..) => Relation::Apart,
            (_, true, _) => Relation::Commute,
            (_, _, true) => Relation::Absorbs,
            _ => Relation::Conflict,
        }
    }
}

impl Confluence {
    /// The confluent taus; none if there are none, or if finding them takes too much time or
    /// memory.
    pub fn find(network: &Network, meter: &Meter) -> Option<Confluence> {
        let [format] = &network.formats[..] else {
            return None;
        };
        if network.cut || !format.rules.iter().any(|rule| rule.event == EventId::TAU) {
            return None;
        }
        if format.rules.len() * network.components.len() > MAX_WORK {
            return None;
        }
        let machines = network.components.iter().map(|c| c.machine.bytes());
        if meter
            .spent(Activity::Compiling, 0, machines.sum())
            .is_some()
        {
            return None;
        }
        let mut users: Vec<Vec<Vec<u32>>> = network
            .components
            .iter()
            .map(|c| vec![Vec::new(); c.machine.alphabet.len()])
            .collect();
        for (at, rule) in format.rules.iter().enumerate() {
            for &(component, label) in format.actions(rule) {
                users[component as usize][label as usize].push(at as u32);
            }
        }
        let mut finder = Finder {
            network,
            format,
            users,
            columns: network.components.iter().map(|_| None).collect(),
            relations: FxHashMap::default(),
            work: 0,
        };
        let pivots: Vec<Pivot> = (0..network.components.len() as u32)
            .filter_map(|pivot| {
                let chosen = finder.confluent(pivot);
                Pivot::new(pivot, finder.machine(pivot).len(), &chosen)
            })
            .collect();
        let worthwhile = finder.work <= MAX_WORK && !pivots.is_empty();
        worthwhile.then_some(Confluence { pivots })
    }

    /// The state behind the first confluent tau of a state.
    pub fn step(&self, network: &Network, state: &[u64]) -> Option<Vec<u64>> {
        let format = &network.formats[0];
        for pivot in &self.pivots {
            let local = network.layout.get(state, field(pivot.component));
            for &rule in pivot.rules(local) {
                let rule = &format.rules[rule as usize];
                if network.enabled(state, format.actions(rule)) {
                    let mut next = vec![0; state.len()];
                    network.fire(state, rule, &mut next, &mut |_| {});
                    return Some(next);
                }
            }
        }
        None
    }
}

impl Finder<'_> {
    fn machine(&self, component: u32) -> &Machine {
        &self.network.components[component as usize].machine
    }

    /// The confluent transitions with a component as pivot: (state, rule), sorted.
    fn confluent(&mut self, pivot: u32) -> Vec<(u32, u32)> {
        let states = self.machine(pivot).len() as u32;
        let foreign = self.foreign(pivot);
        let mut candidates: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut order = Vec::new();
        let mut suitable: FxHashMap<u32, bool> = FxHashMap::default();
        for state in 0..states {
            let span = self.machine(pivot).span(state);
            if span.len() > MAX_BREADTH {
                continue;
            }
            for at in span {
                let label = self.machine(pivot).label(at);
                let [rule] = self.users[pivot as usize][label as usize][..] else {
                    continue;
                };
                let known = suitable.get(&rule).copied();
                let suits = known.unwrap_or_else(|| self.suits(pivot, rule, &foreign));
                suitable.insert(rule, suits);
                let machine = self.machine(pivot);
                if suits && machine.find(state, label).len() == 1 {
                    candidates.insert((state, label), machine.target(at));
                    order.push((state, label, rule));
                }
            }
        }
        loop {
            let before = order.len();
            order.retain(|&(state, label, rule)| {
                let stays = self.holds(pivot, state, label, rule, &candidates);
                if !stays {
                    candidates.remove(&(state, label));
                }
                stays
            });
            if self.work > MAX_WORK {
                return Vec::new();
            }
            if order.len() == before {
                break;
            }
        }
        let mut chosen: Vec<_> = order
            .iter()
            .map(|&(state, _, rule)| (state, rule))
            .collect();
        chosen.sort_unstable();
        chosen
    }

    /// Whether a rule is a tau to which the components beside the pivot, and the rules without
    /// the pivot, can do no harm. `foreign` has by component the labels that such rules use.
    fn suits(&mut self, pivot: u32, rule: u32, foreign: &[Vec<u32>]) -> bool {
        let format = self.format;
        let rule = &format.rules[rule as usize];
        if rule.event != EventId::TAU || rule.next == TERMINATED {
            return false;
        }
        let others = format.actions(rule).iter().filter(|of| of.0 != pivot);
        others.into_iter().all(|&(component, label)| {
            let columns = self.columns(component);
            let single = columns.single(label);
            let looked_at = columns.of(label).len();
            self.work += looked_at;
            single
                && self.work <= MAX_WORK
                && foreign[component as usize].iter().all(|&other| {
                    let relation = self.relation(component, label, other);
                    relation == Relation::Apart || relation == Relation::Commute
                })
        })
    }

    /// By component, the labels that rules without the pivot use.
    fn foreign(&self, pivot: u32) -> Vec<Vec<u32>> {
        let mut labels = vec![Vec::new(); self.network.components.len()];
        for rule in &self.format.rules {
            let actions = self.format.actions(rule);
            if actions.iter().all(|of| of.0 != pivot) {
                for &(component, label) in actions {
                    labels[component as usize].push(label);
                }
            }
        }
        for of in &mut labels {
            of.sort_unstable();
            of.dedup();
        }
        labels
    }

    /// Whether the tau of a rule meets the condition in a state of the pivot, if the
    /// `candidates` do: pairs of state and label, with the state behind them.
    fn holds(
        &mut self,
        pivot: u32,
        state: u32,
        label: u32,
        rule: u32,
        candidates: &FxHashMap<(u32, u32), u32>,
    ) -> bool {
        let format = self.format;
        let behind = candidates[&(state, label)];
        let tau = format.actions(&format.rules[rule as usize]);
        for at in self.machine(pivot).span(state) {
            let (other, to) = (
                self.machine(pivot).label(at),
                self.machine(pivot).target(at),
            );
            if other == label {
                continue;
            }
            let there = self.machine(pivot).find(behind, other);
            self.work += 1 + there.len();
            let reaches = |target: u32| {
                there
                    .clone()
                    .any(|at| self.machine(pivot).target(at) == target)
            };
            let absorbs = reaches(to);
            let commutes = candidates
                .get(&(to, label))
                .is_some_and(|&target| reaches(target));
            for at in 0..self.users[pivot as usize][other as usize].len() {
                let user = self.users[pivot as usize][other as usize][at];
                let user = &format.rules[user as usize];
                let actions = format.actions(user);
                let mut all_commute = true;
                let mut all_absorb = true;
                let mut apart = false;
                for &(component, own) in tau.iter().filter(|of| of.0 != pivot) {
                    let Some(&(_, foreign)) = actions.iter().find(|of| of.0 == component) else {
                        all_absorb = false;
                        continue;
                    };
                    match self.relation(component, own, foreign) {
                        Relation::Apart => apart = true,
                        Relation::Commute => all_absorb = false,
                        Relation::Absorbs => all_commute = false,
                        Relation::Conflict => (all_commute, all_absorb) = (false, false),
                    }
                }
                let harmless = apart || (commutes && all_commute) || (absorbs && all_absorb);
                if !harmless {
                    return false;
                }
            }
        }
        true
    }

    fn columns(&mut self, component: u32) -> &Columns {
        let machine = &self.network.components[component as usize].machine;
        self.columns[component as usize].get_or_insert_with(|| Columns::new(machine))
    }

    fn relation(&mut self, component: u32, label: u32, other: u32) -> Relation {
        let key = (component, label, other);
        if let Some(&known) = self.relations.get(&key) {
            return known;
        }
        if self.work > MAX_WORK {
            return Relation::Conflict;
        }
        let columns = self.columns(component);
        let relation = columns.relation(label, other);
        let looked_at = columns.of(label).len() + columns.of(other).len();
        self.work += looked_at;
        self.relations.insert(key, relation);
        relation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::compile::{Compiler, Observed, Terms};
    use crate::engine::compress::compress;
    use crate::engine::context::Context;
    use crate::engine::explore::Keep;
    use crate::event::EventSet;
    use crate::process::{Compression, NoDefinitions, ProcId, Processes};
    use norns_random::Random;

    /// A process with five states and random transitions among them.
    fn graph(p: &mut Processes, random: &mut Random, events: &[EventId]) -> ProcId {
        let calls: Vec<_> = (0..5).map(|i| p.new_call(Some(&format!("S{i}")))).collect();
        for &call in &calls {
            let choices = (0..1 + random.below(3))
                .map(|_| {
                    let event = events[random.below(events.len())];
                    let to = calls[random.below(calls.len())];
                    let to = p.call(to);
                    p.prefix(event, to)
                })
                .collect();
            let body = p.external_choice(choices);
            p.define(call, body);
        }
        p.call(calls[0])
    }

    /// `(P [|A|] Q) \\ B` for random processes over six events.
    fn network(seed: u64) -> Network {
        let mut random = Random::new(seed);
        let mut p = Processes::new();
        let events: Vec<EventId> = ["a", "b", "c", "d", "e", "f"]
            .map(|name| p.events.intern(name))
            .into();
        let some = |random: &mut Random| {
            let chosen = events.iter().copied().filter(|_| random.below(2) == 0);
            EventSet::only(chosen)
        };
        let (shared, hidden) = (some(&mut random), some(&mut random));
        let parts = (0..2)
            .map(|_| graph(&mut p, &mut random, &events))
            .collect();
        let together = p.parallel(parts, shared);
        let process = p.hide(together, hidden);
        let mut context = Context {
            processes: &mut p,
            definitions: &mut NoDefinitions,
        };
        let terms = Terms {
            meter: &Meter::unlimited(),
            observed: Observed::Failures,
        };
        let network = Compiler::default().network(&mut context, process, terms);
        network.expect("guarded processes")
    }

    #[test]
    fn the_reduced_system_is_bisimilar() {
        let meter = Meter::unlimited();
        let (mut smaller, mut found) = (0, 0);
        for seed in 1..3000 {
            let network = network(seed);
            let Some(confluence) = Confluence::find(&network, &meter) else {
                continue;
            };
            found += 1;
            let full = network.explore(Keep::All, &meter);
            let reduced = network.explore(Keep::UpTo(&confluence), &meter);
            assert!(reduced.len() <= full.len(), "seed {seed}");
            smaller += usize::from(reduced.len() < full.len());
            // Transitions are only counted in the normal form: a quotient keeps taus inside a class
            // that diverges, whether or not it diverges without them.
            let sizes = [&full, &reduced].map(|lts| {
                let normal = compress(lts, Compression::Normal);
                let [weak, delay] =
                    [Compression::Wbisim, Compression::Dbisim].map(|how| compress(lts, how).len());
                (weak, delay, normal.len(), normal.bytes())
            });
            assert_eq!(sizes[0], sizes[1], "seed {seed}");
        }
        assert!(smaller > 100, "{smaller} of {found} were reduced");
    }
}
