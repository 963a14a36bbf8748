//! The search: states of the implementation, each with the node of the specification that its
//! trace leads to, breadth-first by the number of visible events, and among those by taus.
//!
//! A *layer* holds the states that n visible events lead to; its *levels* are the steps by
//! which taus close it. First all taus of a layer are followed, then its visible events. So the
//! counterexample that is found has the fewest visible events, and the same one is found
//! whatever the number of threads: candidates of a level are compared by the packed state.

mod divergence;
mod expand;
mod path;
mod probe;

use std::path::Path;

use crate::engine::budget::{Activity, Meter, Progress, Spent};
use crate::engine::cycles;
use crate::engine::network::{Network, Rule, Which};
use crate::engine::normal::NormalForm;
use crate::engine::reduce::{Reducer, Scratch, Tally};
use crate::engine::store::Store;
use crate::event::{EventId, EventSet};

/// What a check demands of stable states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stable {
    /// Nothing: only traces are compared.
    Ignore,
    /// To offer one of the acceptances of the specification.
    Accept,
    /// As `Accept`, and each event that it offers may follow this refusal (revivals).
    Revive,
    /// As `Revive`, and the refusal is remembered from there on (refusal testing).
    RefusalTest,
    /// To offer something.
    Deadlock,
}

/// What to look for.
#[derive(Clone, Copy)]
pub struct Goal<'a> {
    /// The specification; without one every event is allowed.
    pub spec: Option<&'a NormalForm>,
    /// What an event means that the specification does not allow.
    pub outside: Outside,
    pub stable: Stable,
    pub divergence: bool,
    /// Below a divergent node of the specification everything is allowed.
    pub prune_divergent: bool,
    /// A node of the specification that the search is to reach.
    pub target: Option<u32>,
    /// Events that give way to tau: they happen in stable states only.
    pub tau_priority: Option<&'a EventSet>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outside {
    /// The check fails.
    Violation,
    /// It is not followed.
    Ignore,
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
    // Compared in this order, so that a smaller value is a nearer state.
    pub level: usize,
    pub state: Vec<u64>,
    pub event: Option<EventId>,
    /// The states that lead there, the initial one first, if the level does not say it.
    pub way: Vec<Vec<u64>>,
}

pub enum Ended {
    Exhausted,
    /// Violations, the nearest first; at least one.
    Found(Vec<Found>),
    /// The budget ended.
    Budget(Spent),
    /// Some component was not explored far enough to say.
    Cut,
}

pub struct Search<'a> {
    network: &'a Network,
    goal: Goal<'a>,
    pub store: Store,
    // For each level, the number of its first state in each shard, and whether it opens a layer.
    levels: Vec<(Vec<u32>, bool)>,
    reducer: Option<Reducer>,
    // What the reduction has cost and brought, and whether it was given up: following all rules is
    // right in every state.
    tally: Tally,
    gave_up_reducing: bool,
    // The rules that stay within a layer: taus, or all of them if only deadlocks are looked for.
    inner: Which,
    tau_cycles: bool,
    has_tau: Vec<bool>,
    has_visible: Vec<bool>,
    pub transitions: u64,
    cut: bool,
    // How many violations to look for.
    wanted: usize,
    found: Vec<Found>,
    // Where states go that find no room in memory.
    disk: Option<&'a Path>,
    // Looks ahead so far, and how many states there are at the next one.
    probes: u64,
    next_probe: usize,
    // How many states there were after the last layer, and how many of them it had.
    layer_end: usize,
    layer_size: usize,
}

// So many times more violations are collected than are wanted, since some of them are alike.
const ALIKE: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Within,
    Onward,
}

/// What is looked at while the search goes on.
struct Watch<'w> {
    meter: &'w Meter,
    progress: &'w mut dyn FnMut(&Progress),
    depth: u32,
}

#[derive(Default)]
struct Worker {
    out: Vec<Vec<u64>>,
    // The nearest violation, or several of them if they are wanted.
    found: Vec<Found>,
    wanted: usize,
    next: Vec<u64>,
    current: Vec<u64>,
    offered: Vec<u64>,
    scratch: Scratch,
    transitions: u64,
    cut: bool,
}

impl Worker {
    fn new(search: &Search, wanted: usize) -> Self {
        let words = search.network.layout.words;
        Worker {
            out: vec![Vec::new(); search.store.shards.len()],
            next: vec![0; words],
            current: vec![0; words],
            offered: vec![0; search.goal.spec.map_or(1, NormalForm::accept_words)],
            wanted,
            ..Worker::default()
        }
    }

    fn report(&mut self, kind: Kind, level: usize, event: Option<EventId>) {
        let found = Found {
            kind,
            level,
            state: self.current.clone(),
            event,
            way: Vec::new(),
        };
        if self.wanted > 1 {
            if self.found.len() < ALIKE * self.wanted {
                self.found.push(found);
            }
        } else if self.found.first().is_none_or(|best| found < *best) {
            self.found = vec![found];
        }
    }
}

// Levels smaller than this are not worth a second thread.
const PARALLEL_LEVEL: usize = 1024;
const ROUND: usize = 1 << 15;
const SMALL_ROUND: usize = 1 << 9;

/// Does the tasks at the same time, the first one on this thread: starting threads is what a small level costs.
fn in_parallel<T: Send>(mut tasks: impl Iterator<Item = T>, does: impl Fn(T) + Sync) {
    let first = tasks.next();
    let does = &does;
    std::thread::scope(|scope| {
        for task in tasks {
            scope.spawn(move || does(task));
        }
        first.into_iter().for_each(does);
    });
}

impl<'a> Search<'a> {
    pub fn new(
        network: &'a Network,
        goal: Goal<'a>,
        threads: usize,
        reducer: Option<Reducer>,
        wanted: usize,
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
        let tau_cycles = goal.divergence && cycles::possible(network, |r| tau(r));
        Search {
            network,
            goal,
            store: Store::new(network.layout.words, threads),
            levels: Vec::new(),
            reducer,
            tally: Tally::default(),
            gave_up_reducing: false,
            inner: if flat { Which::All } else { Which::Tau },
            tau_cycles,
            has_tau,
            has_visible,
            transitions: 0,
            cut: false,
            wanted,
            found: Vec::new(),
            disk: None,
            probes: 0,
            next_probe: probe::FIRST,
            layer_end: 0,
            layer_size: 0,
        }
    }

    /// Keeps the search strictly breadth first.
    pub fn without_looking_ahead(&mut self) {
        self.next_probe = usize::MAX;
    }

    /// Lets the search go on in files in a folder when its memory ends.
    pub fn spill_to(&mut self, folder: &'a Path) {
        self.disk = Some(folder);
    }

    /// The specification that is searched with.
    pub fn spec(&self) -> Option<&'a NormalForm> {
        self.goal.spec
    }

    pub fn spec_nodes(&self) -> usize {
        self.goal.spec.map_or(0, NormalForm::len)
    }

    /// Whether states were left out by partial-order reduction.
    pub fn is_reduced(&self) -> bool {
        self.reducer.is_some()
    }

    /// Searches until enough is found, everything was seen, or the budget ends.
    pub fn run(&mut self, meter: &Meter, progress: &mut dyn FnMut(&Progress)) -> Ended {
        let mut workers: Vec<Worker> = (0..self.store.shards.len())
            .map(|_| Worker::new(self, self.wanted))
            .collect();
        let ended = self.layers(&mut workers, meter, progress);
        for worker in &workers {
            self.transitions += worker.transitions;
            self.cut |= worker.cut;
        }
        let found = std::mem::take(&mut self.found);
        match ended {
            _ if !found.is_empty() => Ended::Found(found),
            Err(spent) => Ended::Budget(spent),
            Ok(()) if self.cut => Ended::Cut,
            Ok(()) => Ended::Exhausted,
        }
    }

    /// Goes through the layers until enough is found or everything was seen.
    fn layers(
        &mut self,
        workers: &mut [Worker],
        meter: &Meter,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<(), Spent> {
        self.store.insert(&self.network.initial());
        self.levels.push((vec![0; self.store.shards.len()], true));
        let mut depth = 0;
        loop {
            let layer = self.levels.len() - 1;
            let mut level = layer;
            let mut watch = Watch {
                meter,
                progress,
                depth,
            };
            loop {
                let mark = self.store.mark();
                self.expand(level, &mark, Pass::Within, workers, &mut watch)?;
                if !self.tau_cycles && self.collect(workers) {
                    return Ok(());
                }
                if self.store.mark() == mark {
                    break;
                }
                self.levels.push((mark, false));
                level += 1;
                if self.inner == Which::All && self.look_ahead(&mut watch)? {
                    return Ok(());
                }
            }
            if self.tau_cycles
                && let Some(found) = self.divergence(layer)
            {
                // A divergence is reported before the refusals of its layer.
                self.found.push(found);
                if self.wanted == 1 {
                    return Ok(());
                }
            }
            let end = self.store.mark();
            for level in layer..self.levels.len() {
                let limit = self.levels.get(level + 1).map_or(&end, |l| &l.0).clone();
                self.expand(level, &limit, Pass::Onward, workers, &mut watch)?;
            }
            self.levels.push((end.clone(), true));
            if self.collect(workers) || self.store.mark() == end {
                return Ok(());
            }
            if self.look_ahead(&mut watch)? {
                return Ok(());
            }
            depth += 1;
        }
    }

    /// Takes over what the workers have found; whether it is enough.
    fn collect(&mut self, workers: &mut [Worker]) -> bool {
        let mut new: Vec<Found> = Vec::new();
        for worker in workers {
            new.append(&mut worker.found);
        }
        new.sort_unstable();
        if self.wanted == 1 {
            new.truncate(1);
        }
        self.found.append(&mut new);
        self.found.len() >= self.wanted * if self.wanted == 1 { 1 } else { ALIKE }
    }

    /// Expands one level (states from its beginning up to `limit` in each shard).
    fn expand(
        &mut self,
        level: usize,
        limit: &[u32],
        pass: Pass,
        workers: &mut [Worker],
        watch: &mut Watch,
    ) -> Result<(), Spent> {
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
                let shards = workers.iter_mut().enumerate();
                in_parallel(shards, |(shard, worker)| {
                    this.work(worker, shard, from[shard]..to[shard], level, pass);
                });
                let workers = &*workers;
                let shards = self.store.shards.iter_mut().enumerate();
                in_parallel(shards, |(target, shard)| {
                    for worker in workers {
                        shard.insert_all(&worker.out[target]);
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
                self.tally.add(std::mem::take(&mut worker.scratch.tally));
            }
            since += to
                .iter()
                .zip(&from)
                .map(|(t, f)| (t - f) as usize)
                .sum::<usize>();
            if since >= 1 << 15 || parallel {
                since = 0;
                self.within(total, watch)?;
            }
            from = to;
        }
        // Only between levels, so that what is searched does not depend on the number of threads.
        self.gave_up_reducing |= self.tally.is_wasteful();
        self.store.commit().map_err(disk_failed)?;
        self.within(total, watch)
    }

    /// The rules that suffice in the state of a worker; none if all are needed.
    fn ample<'s>(&self, state: &[u64], scratch: &'s mut Scratch) -> Option<&'s [u32]> {
        let reducer = self.reducer.as_ref().filter(|_| !self.gave_up_reducing)?;
        reducer.ample(self.network, state, scratch)
    }

    /// Reports progress, and whether the budget goes on.
    fn within(&mut self, frontier: usize, watch: &mut Watch) -> Result<(), Spent> {
        let states = self.store.len() as u64;
        let mut bytes = self.store.bytes() as u64;
        (watch.progress)(&Progress {
            states,
            frontier: frontier as u64,
            depth: watch.depth,
            bytes,
        });
        if let (Some(folder), Some(limit)) = (self.disk, watch.meter.byte_limit())
            && !self.store.is_spilled()
            && watch.meter.kept_bytes() + bytes > limit / 4 * 3
        {
            // What a level reaches is collected and sorted in memory.
            let room = usize::try_from(limit / 16).unwrap_or(usize::MAX);
            self.store.spill(folder, room).map_err(disk_failed)?;
            bytes = self.store.bytes() as u64;
        }
        match watch.meter.spent(Activity::Searching, states, bytes) {
            Some(Spent(what)) => Err(Spent(format!(
                "{what} after {states} states of the product"
            ))),
            None => Ok(()),
        }
    }

    fn work(
        &self,
        worker: &mut Worker,
        shard: usize,
        range: std::ops::Range<u32>,
        level: usize,
        pass: Pass,
    ) {
        self.store.shards[shard].each(range, |state| {
            worker.current.copy_from_slice(state);
            self.state(worker, level, pass);
        });
    }
}

fn disk_failed(error: std::io::Error) -> Spent {
    Spent(format!(
        "the states outgrew the memory and cannot be put on disk ({error})"
    ))
}
