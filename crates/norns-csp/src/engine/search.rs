//! The search: states of the implementation, each with the node of the specification that its
//! trace leads to, breadth-first by the number of visible events, and among those by taus.
//!
//! A *layer* holds the states that n visible events lead to; its *levels* are the steps by
//! which taus close it. First all taus of a layer are followed, then its visible events. So the
//! counterexample that is found has the fewest visible events, and the same one is found
//! whatever the number of threads: candidates of a level are compared by the packed state.
//! No parents are stored; the way to a state is found again by scanning the layers before it.
//!
//! A tau cycle lies within one layer, so divergence is looked for when a layer is closed.

use std::time::{Duration, Instant};

use crate::engine::network::{Network, Rule, SPEC_FIELD, TERMINATED, Which};
use crate::engine::normal::NormalForm;
use crate::engine::reduce::{Reducer, Scratch};
use crate::engine::store::{StateId, Store, hash, shard_of};
use crate::event::{EventId, EventSet};

/// What is wrong with a stable state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stable {
    /// Nothing: traces only.
    Ignore,
    /// It offers less than the specification demands.
    Accept,
    /// It offers nothing.
    Deadlock,
}

/// What to look for.
#[derive(Clone, Copy)]
pub struct Goal<'a> {
    /// The specification; without one every event is allowed.
    pub spec: Option<&'a NormalForm>,
    /// An event that the specification does not allow: a violation, or a way not to follow.
    pub outside: Outside,
    pub stable: Stable,
    pub divergence: bool,
    /// Below a divergent node of the specification everything is allowed.
    pub prune_divergent: bool,
    /// Reaching this node is what is looked for.
    pub target: Option<u32>,
    /// Events that happen only in states without tau.
    pub tau_priority: Option<&'a EventSet>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outside {
    Violation,
    Ignore,
}

/// When to give up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    pub states: Option<u64>,
    pub bytes: Option<u64>,
    pub time: Option<Duration>,
}

/// How far a check is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub states: u64,
    /// States of the current layer and the visible events that lead to it.
    pub frontier: u64,
    pub depth: u32,
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Divergence,
    /// A stable state offers too little, or a deadlock.
    Refusal,
    /// The event is not allowed.
    Event,
    /// The target was reached; the event is the last one if it is a tick.
    Reached,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Found {
    pub kind: Kind,
    // The level of the state, then the state: smaller is nearer.
    pub level: usize,
    pub state: Vec<u64>,
    pub event: Option<EventId>,
}

pub enum Ended {
    Exhausted,
    Found(Found),
    /// Which budget ended.
    Budget(String),
    /// Some component was not explored far enough to say.
    Cut,
}

pub struct Search<'a> {
    network: &'a Network,
    goal: Goal<'a>,
    pub store: Store,
    // Where each level begins in each shard, and whether it opens a layer.
    levels: Vec<(Vec<u32>, bool)>,
    reducer: Option<Reducer>,
    // Which rules are followed within a layer.
    inner: Which,
    tau_cycles: bool,
    has_tau: Vec<bool>,
    has_visible: Vec<bool>,
    pub transitions: u64,
    cut: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Within,
    Onward,
}

#[derive(Default)]
struct Worker {
    out: Vec<Vec<u64>>,
    best: Option<Found>,
    next: Vec<u64>,
    current: Vec<u64>,
    offered: Vec<u64>,
    scratch: Scratch,
    transitions: u64,
    cut: bool,
}

impl Worker {
    fn report(&mut self, kind: Kind, level: usize, event: Option<EventId>) {
        let found = Found {
            kind,
            level,
            state: self.current.clone(),
            event,
        };
        if self.best.as_ref().is_none_or(|best| found < *best) {
            self.best = Some(found);
        }
    }
}

// Levels smaller than this are not worth a second thread.
const PARALLEL_LEVEL: usize = 1024;
const ROUND: usize = 1 << 15;
const SMALL_ROUND: usize = 1 << 9;

impl<'a> Search<'a> {
    pub fn new(
        network: &'a Network,
        goal: Goal<'a>,
        threads: usize,
        reducer: Option<Reducer>,
    ) -> Self {
        let threads = threads.clamp(1, 256);
        let tau = |r: &Rule| r.event == EventId::TAU;
        let has_tau = network
            .formats
            .iter()
            .map(|f| f.rules.iter().any(tau))
            .collect();
        let has_visible = network
            .formats
            .iter()
            .map(|f| f.rules.iter().any(|r| !tau(r)))
            .collect();
        let flat = reducer.as_ref().is_some_and(|r| r.all_invisible);
        let tau_cycles = goal.divergence && crate::engine::cycles::possible(network, |r| tau(r));
        Search {
            network,
            goal,
            store: Store::new(network.layout.words, threads),
            levels: Vec::new(),
            reducer,
            inner: if flat { Which::All } else { Which::Tau },
            tau_cycles,
            has_tau,
            has_visible,
            transitions: 0,
            cut: false,
        }
    }

    pub fn spec_nodes(&self) -> usize {
        self.goal.spec.map_or(0, NormalForm::len)
    }

    /// Whether states were left out by partial-order reduction.
    pub fn is_reduced(&self) -> bool {
        self.reducer.is_some()
    }

    /// Searches until something is found, everything was seen, or the budget ends.
    pub fn run(&mut self, budget: &Budget, progress: &mut dyn FnMut(&Progress)) -> Ended {
        let started = Instant::now();
        let mut workers: Vec<Worker> = Vec::new();
        for _ in 0..self.store.shards.len() {
            workers.push(Worker {
                out: vec![Vec::new(); self.store.shards.len()],
                next: vec![0; self.network.layout.words],
                current: vec![0; self.network.layout.words],
                offered: vec![0; self.goal.spec.map_or(1, NormalForm::accept_words)],
                ..Worker::default()
            });
        }
        self.store.insert(&self.network.initial());
        self.levels.push((vec![0; self.store.shards.len()], true));
        let mut depth = 0;
        loop {
            let layer = self.levels.len() - 1;
            let mut best: Option<Found> = None;
            let mut level = layer;
            loop {
                let mark = self.store.mark();
                if let Err(why) = self.expand(
                    level,
                    &mark,
                    Pass::Within,
                    &mut workers,
                    budget,
                    &started,
                    depth,
                    progress,
                ) {
                    return Ended::Budget(why);
                }
                take_best(&mut workers, &mut best);
                if !self.tau_cycles
                    && let Some(found) = best
                {
                    return Ended::Found(found);
                }
                if self.store.mark() == mark {
                    break;
                }
                self.levels.push((mark, false));
                level += 1;
            }
            if self.tau_cycles
                && let Some(found) = self.divergence(layer)
            {
                return Ended::Found(found);
            }
            let end = self.store.mark();
            for level in layer..self.levels.len() {
                let limit = self.levels.get(level + 1).map_or(&end, |l| &l.0).clone();
                if let Err(why) = self.expand(
                    level,
                    &limit,
                    Pass::Onward,
                    &mut workers,
                    budget,
                    &started,
                    depth,
                    progress,
                ) {
                    return Ended::Budget(why);
                }
                take_best(&mut workers, &mut best);
            }
            if let Some(found) = best {
                return Ended::Found(found);
            }
            if self.store.mark() == end {
                self.levels.push((end, true));
                for worker in &workers {
                    self.transitions += worker.transitions;
                    self.cut |= worker.cut;
                }
                return if self.cut {
                    Ended::Cut
                } else {
                    Ended::Exhausted
                };
            }
            self.levels.push((end, true));
            depth += 1;
        }
    }

    /// Expands one level (states from its beginning up to `limit` in each shard).
    #[expect(clippy::too_many_arguments, reason = "one place calls it, twice")]
    fn expand(
        &mut self,
        level: usize,
        limit: &[u32],
        pass: Pass,
        workers: &mut [Worker],
        budget: &Budget,
        started: &Instant,
        depth: u32,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<(), String> {
        let mut from = self.levels[level].0.clone();
        let total: usize = from.iter().zip(limit).map(|(f, l)| (l - f) as usize).sum();
        if pass == Pass::Within && !self.has_tau.contains(&true) && self.inner == Which::Tau {
            return Ok(());
        }
        let parallel = self.store.shards.len() > 1 && total >= PARALLEL_LEVEL;
        let round = if parallel { ROUND } else { SMALL_ROUND };
        let mut since = 0;
        while from.iter().zip(limit).any(|(f, l)| f < l) {
            let to: Vec<u32> = from
                .iter()
                .zip(limit)
                .map(|(&f, &l)| l.min(f + round as u32))
                .collect();
            if parallel {
                let this = &*self;
                std::thread::scope(|scope| {
                    for (shard, worker) in workers.iter_mut().enumerate() {
                        let range = from[shard]..to[shard];
                        scope.spawn(move || this.work(worker, shard, range, level, pass));
                    }
                });
                let workers = &*workers;
                std::thread::scope(|scope| {
                    for (target, shard) in self.store.shards.iter_mut().enumerate() {
                        scope.spawn(move || {
                            for worker in workers {
                                shard.insert_all(&worker.out[target]);
                            }
                        });
                    }
                });
            } else {
                for shard in 0..self.store.shards.len() {
                    self.work(&mut workers[0], shard, from[shard]..to[shard], level, pass);
                }
                for (target, shard) in self.store.shards.iter_mut().enumerate() {
                    shard.insert_all(&workers[0].out[target]);
                }
            }
            for worker in workers.iter_mut() {
                worker.out.iter_mut().for_each(Vec::clear);
            }
            since += to
                .iter()
                .zip(&from)
                .map(|(t, f)| (t - f) as usize)
                .sum::<usize>();
            if since >= 1 << 15 || parallel {
                since = 0;
                self.within(budget, started, total, depth, progress)?;
            }
            from = to;
        }
        self.within(budget, started, total, depth, progress)
    }

    fn within(
        &self,
        budget: &Budget,
        started: &Instant,
        frontier: usize,
        depth: u32,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<(), String> {
        let states = self.store.len() as u64;
        let bytes = self.store.bytes() as u64;
        progress(&Progress {
            states,
            frontier: frontier as u64,
            depth,
            bytes,
        });
        if budget.states.is_some_and(|limit| states > limit) {
            return Err(format!(
                "the budget of {} states ended",
                budget.states.unwrap_or(0)
            ));
        }
        if budget.bytes.is_some_and(|limit| bytes > limit) {
            return Err(format!(
                "the budget of {} MB ended after {states} states",
                budget.bytes.unwrap_or(0) >> 20
            ));
        }
        if budget.time.is_some_and(|limit| started.elapsed() > limit) {
            return Err(format!(
                "the budget of {:.1} s ended after {states} states",
                budget.time.unwrap_or_default().as_secs_f64()
            ));
        }
        Ok(())
    }

    fn work(
        &self,
        worker: &mut Worker,
        shard: usize,
        range: std::ops::Range<u32>,
        level: usize,
        pass: Pass,
    ) {
        for index in range {
            worker
                .current
                .copy_from_slice(self.store.shards[shard].state(index));
            self.state(worker, level, pass);
        }
    }

    /// Follows the rules of `worker.current` that the pass is about, and checks the state.
    fn state(&self, worker: &mut Worker, level: usize, pass: Pass) {
        let network = self.network;
        let layout = &network.layout;
        let format = layout.get(&worker.current, crate::engine::network::FORMAT_FIELD) as usize;
        let node = layout.get(&worker.current, SPEC_FIELD) as u32;
        if self.goal.prune_divergent
            && self
                .goal
                .spec
                .is_some_and(|spec| spec.divergent[node as usize])
        {
            return;
        }
        if network.cut && network.at_cut(&worker.current) {
            worker.cut = true;
            return;
        }
        let shards = self.store.shards.len();
        let send = |out: &mut Vec<Vec<u64>>, state: &[u64]| {
            let to = if shards == 1 {
                0
            } else {
                shard_of(hash(state), shards)
            };
            out[to].extend_from_slice(state);
        };
        if pass == Pass::Within {
            let mut any = false;
            let reduced = self
                .reducer
                .as_ref()
                .and_then(|reducer| reducer.ample(network, &worker.current, &mut worker.scratch));
            let current = std::mem::take(&mut worker.current);
            let mut next = std::mem::take(&mut worker.next);
            match reduced {
                Some(rules) => {
                    any = true;
                    for &rule in rules {
                        worker.transitions += 1;
                        let rule = &network.formats[format].rules[rule as usize];
                        network.fire(&current, rule, &mut next, &mut |s| send(&mut worker.out, s));
                    }
                }
                None => network.enabled_rules(&current, self.inner, |_, rule| {
                    any = true;
                    worker.transitions += 1;
                    if rule.next != TERMINATED {
                        network.fire(&current, rule, &mut next, &mut |s| send(&mut worker.out, s));
                    }
                    true
                }),
            }
            worker.current = current;
            worker.next = next;
            // A state whose format has nothing but taus is checked here, once.
            if !any && (self.inner == Which::All || !self.has_visible[format]) {
                self.check_stable(worker, level, node, false);
            }
            return;
        }
        if self.inner == Which::All {
            return;
        }
        if self.goal.target == Some(node) {
            worker.report(Kind::Reached, level, None);
            return;
        }
        if !self.has_visible[format] && self.has_tau.contains(&true) {
            return;
        }
        if self.reducer.as_ref().is_some_and(|reducer| {
            reducer
                .ample(network, &worker.current, &mut worker.scratch)
                .is_some()
        }) {
            return;
        }
        let mut unstable = false;
        if self.has_tau[format]
            && (self.goal.stable != Stable::Ignore || self.goal.tau_priority.is_some())
        {
            network.enabled_rules(&worker.current, Which::Tau, |_, _| {
                unstable = true;
                false
            });
        }
        let current = std::mem::take(&mut worker.current);
        let mut next = std::mem::take(&mut worker.next);
        let mut offered = std::mem::take(&mut worker.offered);
        offered.fill(0);
        let (mut tick, mut any) = (false, false);
        let mut wrong: Option<EventId> = None;
        let mut reached = None;
        network.enabled_rules(&current, Which::NotTau, |_, rule| {
            if unstable
                && self
                    .goal
                    .tau_priority
                    .is_some_and(|set| set.contains(rule.event))
            {
                return true;
            }
            any = true;
            tick |= rule.event == EventId::TICK;
            worker.transitions += 1;
            let to = match self.goal.spec {
                None => 0,
                Some(spec) => match spec.step(node, rule.event) {
                    Some(to) => {
                        let place = spec.place(rule.event).expect("it has a step");
                        offered[place / 64] |= 1 << (place % 64);
                        to
                    }
                    None => {
                        if self.goal.outside == Outside::Violation {
                            wrong = Some(wrong.map_or(rule.event, |w| w.min(rule.event)));
                        }
                        return true;
                    }
                },
            };
            if rule.event == EventId::TICK || rule.next == TERMINATED {
                if self.goal.target == Some(to) {
                    reached = Some(rule.event);
                }
                return true;
            }
            network.fire(&current, rule, &mut next, &mut |state| {
                layout.set(state, SPEC_FIELD, u64::from(to));
                send(&mut worker.out, state);
            });
            true
        });
        worker.current = current;
        worker.next = next;
        worker.offered = offered;
        if let Some(event) = reached {
            worker.report(Kind::Reached, level, Some(event));
        }
        if let Some(event) = wrong {
            worker.report(Kind::Event, level, Some(event));
        }
        if tick {
            // Tick cannot be refused, but everything else can.
            if self.goal.stable == Stable::Accept
                && let Some(spec) = self.goal.spec
            {
                worker.offered.fill(0);
                if let Some(place) = spec.place(EventId::TICK) {
                    worker.offered[place / 64] |= 1 << (place % 64);
                }
                self.check_stable(worker, level, node, true);
            }
        } else if !unstable {
            self.check_stable(worker, level, node, any);
        }
    }

    /// Checks a stable state that offers `worker.offered` (or just something, if `any`).
    fn check_stable(&self, worker: &mut Worker, level: usize, node: u32, any: bool) {
        let wrong = match self.goal.stable {
            Stable::Ignore => false,
            Stable::Deadlock => !any,
            Stable::Accept => {
                if !any {
                    worker.offered.fill(0);
                }
                let spec = self
                    .goal
                    .spec
                    .expect("acceptances come from a specification");
                !spec.allows(node, &worker.offered)
            }
        };
        if wrong {
            worker.report(Kind::Refusal, level, None);
        }
    }

    fn taus(&self, state: &[u64]) -> Vec<Vec<u64>> {
        let mut next = vec![0; state.len()];
        let mut all = Vec::new();
        self.network.enabled_rules(state, Which::Tau, |_, rule| {
            self.network
                .fire(state, rule, &mut next, &mut |s| all.push(s.to_vec()));
            true
        });
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The smallest state at the entrance of a closed layer from which taus never end.
    fn divergence(&self, layer: usize) -> Option<Found> {
        let start = &self.levels[layer].0;
        let mut seen = Colours {
            start: start.clone(),
            done: (0..start.len())
                .map(|s| vec![0; self.store.shards[s].len() - start[s] as usize])
                .collect(),
        };
        let end = self
            .levels
            .get(layer + 1)
            .map_or_else(|| self.store.mark(), |l| l.0.clone());
        let entrance = || {
            (0..start.len()).flat_map(|s| {
                (start[s]..end[s]).map(move |index| StateId {
                    shard: s as u32,
                    index,
                })
            })
        };
        if !entrance().any(|root| self.lasso(root, &mut seen).is_some()) {
            return None;
        }
        let mut roots: Vec<StateId> = entrance().collect();
        roots.sort_unstable_by(|&a, &b| self.store.state(a).cmp(self.store.state(b)));
        for colours in &mut seen.done {
            colours.fill(0);
        }
        for root in roots {
            if self.lasso(root, &mut seen).is_some() {
                let state = self.store.state(root).to_vec();
                return Some(Found {
                    kind: Kind::Divergence,
                    level: layer,
                    state,
                    event: None,
                });
            }
        }
        unreachable!("the cycle that was found hangs on some entrance")
    }

    /// A path of taus from `root` that ends where it was before, if there is one: the states,
    /// and how many of them are before the loop. Depth-first, smaller states first.
    fn lasso(&self, root: StateId, seen: &mut Colours) -> Option<(Vec<StateId>, usize)> {
        const OPEN: u8 = 1;
        const CLOSED: u8 = 2;
        if seen.get(root) != 0 {
            return None;
        }
        if self.goal.prune_divergent
            && let Some(spec) = self.goal.spec
            && spec.divergent[self.network.layout.get(self.store.state(root), SPEC_FIELD) as usize]
        {
            return None;
        }
        let successors = |id: StateId| -> Vec<StateId> {
            let all = self.taus(self.store.state(id));
            let known = all
                .iter()
                .rev()
                .map(|s| self.store.find(s).expect("a layer is closed"));
            known.collect()
        };
        seen.set(root, OPEN);
        let mut stack = vec![(root, successors(root))];
        while let Some((state, todo)) = stack.last_mut() {
            let Some(next) = todo.pop() else {
                seen.set(*state, CLOSED);
                stack.pop();
                continue;
            };
            // A state of an earlier layer is not divergent, or the search had ended there.
            match if seen.covers(next) {
                seen.get(next)
            } else {
                CLOSED
            } {
                CLOSED => {}
                OPEN => {
                    let path: Vec<StateId> = stack.iter().map(|entry| entry.0).collect();
                    let enters = path
                        .iter()
                        .position(|&s| s == next)
                        .expect("open: on the path");
                    return Some((path, enters));
                }
                _ => {
                    seen.set(next, OPEN);
                    let todo = successors(next);
                    stack.push((next, todo));
                }
            }
        }
        None
    }

    /// The states of a divergence: the way from `state` into the loop, and the loop.
    pub fn divergent_path(&self, found: &Found) -> (Vec<Vec<u64>>, Vec<Vec<u64>>) {
        let start = self.levels[found.level].0.clone();
        let done = (0..start.len())
            .map(|s| vec![0; self.store.shards[s].len() - start[s] as usize])
            .collect();
        let root = self
            .store
            .find(&found.state)
            .expect("a found state is stored");
        let (path, enters) = self
            .lasso(root, &mut Colours { start, done })
            .expect("it was found divergent");
        let mut states: Vec<Vec<u64>> = path
            .iter()
            .map(|&id| self.store.state(id).to_vec())
            .collect();
        let mut repeats = states.split_off(enters);
        states.push(repeats[0].clone());
        repeats.push(repeats[0].clone());
        (states, repeats)
    }

    /// The states on a shortest way to `state` of level `level`, the initial one first.
    pub fn path(&self, level: usize, state: &[u64]) -> Vec<Vec<u64>> {
        let mut path = vec![state.to_vec()];
        let mut level = level;
        let mut next = vec![0; self.network.layout.words];
        while level > 0 {
            let state = path.last().expect("it begins with one").clone();
            let opens = self.levels[level].1;
            // The previous layer begins at the last opening before this one.
            let first = if opens {
                (0..level)
                    .rev()
                    .find(|&l| self.levels[l].1)
                    .expect("level 0 opens a layer")
            } else {
                level - 1
            };
            let which = if self.inner == Which::All {
                Which::All
            } else if opens {
                Which::NotTau
            } else {
                Which::Tau
            };
            let mut before: Option<(usize, Vec<u64>)> = None;
            for candidate in first..level {
                for (shard, store) in self.store.shards.iter().enumerate() {
                    let range =
                        self.levels[candidate].0[shard]..self.levels[candidate + 1].0[shard];
                    for index in range {
                        let from = store.state(index);
                        if before.as_ref().is_some_and(|(_, best)| &best[..] <= from) {
                            continue;
                        }
                        let mut leads = false;
                        self.network.enabled_rules(from, which, |_, rule| {
                            if rule.next != TERMINATED {
                                self.network.fire(from, rule, &mut next, &mut |to| {
                                    if opens && let Some(to_node) = self.after(from, rule.event) {
                                        self.network.layout.set(to, SPEC_FIELD, to_node);
                                    }
                                    leads |= *to == state[..];
                                });
                            }
                            !leads
                        });
                        if leads {
                            before = Some((candidate, from.to_vec()));
                        }
                    }
                }
                if before.is_some() {
                    break;
                }
            }
            let (at, from) = before.expect("a stored state was reached from the level before");
            level = at;
            path.push(from);
        }
        path.reverse();
        path
    }

    fn after(&self, state: &[u64], event: EventId) -> Option<u64> {
        let node = self.network.layout.get(state, SPEC_FIELD) as u32;
        self.goal
            .spec
            .and_then(|spec| spec.step(node, event))
            .map(u64::from)
    }

    /// The rule that leads from one state of a path to the next; the first in order.
    pub fn rule_between(&self, from: &[u64], to: &[u64]) -> &Rule {
        let format = self.network.format(from);
        let mut next = vec![0; from.len()];
        let mut chosen = None;
        self.network.enabled_rules(from, Which::All, |at, rule| {
            if rule.next != TERMINATED {
                self.network.fire(from, rule, &mut next, &mut |state| {
                    let node = self.network.layout.get(to, SPEC_FIELD);
                    self.network.layout.set(state, SPEC_FIELD, node);
                    let allowed = rule.event == EventId::TAU
                        || self.goal.spec.is_none()
                        || self.after(from, rule.event) == Some(node);
                    if *state == *to && allowed && chosen.is_none() {
                        chosen = Some(at);
                    }
                });
            }
            chosen.is_none()
        });
        &format.rules[chosen.expect("consecutive states of a path are joined by a rule")]
    }

    /// Of all states, the nearest one whose node of the specification is largest.
    pub fn furthest(&self) -> Found {
        let layout = &self.network.layout;
        let mut best: Option<(u64, usize, Vec<u64>)> = None;
        for level in 0..self.levels.len() - 1 {
            for (shard, store) in self.store.shards.iter().enumerate() {
                for index in self.levels[level].0[shard]..self.levels[level + 1].0[shard] {
                    let state = store.state(index);
                    let node = layout.get(state, SPEC_FIELD);
                    let better = best.as_ref().is_none_or(|(n, l, s)| {
                        node > *n || node == *n && level == *l && state < &s[..]
                    });
                    if better {
                        best = Some((node, level, state.to_vec()));
                    }
                }
            }
        }
        let (_, level, state) = best.expect("the initial state is there");
        Found {
            kind: Kind::Reached,
            level,
            state,
            event: None,
        }
    }
}

fn take_best(workers: &mut [Worker], best: &mut Option<Found>) {
    for worker in workers {
        if let Some(found) = worker.best.take()
            && best.as_ref().is_none_or(|b| found < *b)
        {
            *best = Some(found);
        }
    }
}

/// Marks for the states of one layer.
struct Colours {
    start: Vec<u32>,
    done: Vec<Vec<u8>>,
}

impl Colours {
    fn covers(&self, id: StateId) -> bool {
        id.index >= self.start[id.shard as usize]
    }

    fn get(&self, id: StateId) -> u8 {
        let shard = id.shard as usize;
        self.done[shard][(id.index - self.start[shard]) as usize]
    }

    fn set(&mut self, id: StateId, colour: u8) {
        let shard = id.shard as usize;
        self.done[shard][(id.index - self.start[shard]) as usize] = colour;
    }
}
