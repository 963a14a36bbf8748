//! Signals: objects through which one thread tells another that it may go on.

mod channels;
mod counters;
mod objects;
mod tally;
mod variables;

use norns_ir::BlockId;
use rustc_hash::FxHashMap;

pub(crate) use counters::is_one_section;
pub(crate) use variables::{Link, initial_value, link};

use crate::code::Code;
use crate::instance::{Point, ThreadId};
use crate::lock_set::LockSets;
use crate::parallel::Parallel;
use crate::symbol::{Symbol, Symbols};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalKind {
    Semaphore,
    Variable,
    Channel,
    /// `takes_all`: as many threads wait for it as it is made for.
    Barrier {
        takes_all: bool,
    },
    /// What is done once is done under this lock.
    Once(Symbol),
    /// A variable that several threads count up or down: a value that it can have only after every thread of
    /// this kind has counted.
    Counter {
        of: ThreadId,
        /// Equal for the signals of one variable.
        variable: u32,
    },
    /// All units that are ever given.
    Tally,
}

impl SignalKind {
    /// Whether a thread that releases also waits for the others.
    #[must_use]
    pub fn counts_arrivals(self) -> bool {
        matches!(self, Self::Barrier { .. } | Self::Once(_))
    }
}

#[derive(Clone, Debug)]
pub struct Signal {
    pub kind: SignalKind,
    /// The threads that release it; sorted.
    pub releasers: Vec<ThreadId>,
}

/// A load of a signal: a branch on the value has seen the signal unless the value may be one of these.
#[derive(Clone, Debug)]
pub struct Reading {
    pub signal: u32,
    pub unless: Vec<i64>,
    /// A fence has to follow.
    pub is_relaxed: bool,
    /// The signal has been seen only if the value is this one.
    pub only: Option<i64>,
}

impl Reading {
    /// Whether a branch on the value is taken only by a thread that has seen the signal; `excludes` says whether
    /// it is not taken for a value.
    #[must_use]
    pub fn is_seen(&self, excludes: impl Fn(i64) -> bool) -> bool {
        // No branch on the result of a call tells other values apart from all of these.
        const OTHERS: [i64; 8] = [-2, -1, 0, 1, 2, 10, 255, 65_536];
        match self.only {
            Some(only) => OTHERS.iter().all(|&value| value == only || excludes(value)),
            None => self.unless.iter().all(|&value| excludes(value)),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Signals {
    all: Vec<Signal>,
    releases: FxHashMap<Point, Vec<u32>>,
    seen: FxHashMap<Point, Vec<u32>>,
    readings: FxHashMap<Point, Vec<Reading>>,
    /// Seen by whoever takes a branch to a block.
    ends: FxHashMap<(Point, BlockId), Vec<u32>>,
}

/// Signals beyond this number are not looked at; more candidates remain then.
const MOST_SIGNALS: usize = 32;

impl Signals {
    pub fn new(code: &Code, symbols: &mut Symbols, parallel: &Parallel, locks: &LockSets) -> Self {
        let mut signals = Self::default();
        signals.find_objects(code, symbols, parallel);
        signals.find_channels(code, symbols, parallel);
        signals.find_variables(code, symbols, parallel, locks);
        signals.find_tallies(code, symbols, parallel);
        signals
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    #[must_use]
    pub fn get(&self, signal: u32) -> &Signal {
        &self.all[signal as usize]
    }

    #[must_use]
    pub fn released_at(&self, point: Point) -> &[u32] {
        self.releases.get(&point).map_or(&[], Vec::as_slice)
    }

    /// All places at which signals are released.
    pub fn releases(&self) -> impl Iterator<Item = (Point, u32)> {
        let all = self.releases.iter();
        all.flat_map(|(&point, signals)| signals.iter().map(move |&signal| (point, signal)))
    }

    #[must_use]
    pub fn seen_at(&self, point: Point) -> &[u32] {
        self.seen.get(&point).map_or(&[], Vec::as_slice)
    }

    #[must_use]
    pub fn seen_on(&self, branch: Point, to: BlockId) -> &[u32] {
        self.ends.get(&(branch, to)).map_or(&[], Vec::as_slice)
    }

    #[must_use]
    pub fn read_at(&self, point: Point) -> &[Reading] {
        self.readings.get(&point).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, kind: SignalKind) -> u32 {
        self.all.push(Signal {
            kind,
            releasers: Vec::new(),
        });
        u32::try_from(self.all.len() - 1).expect("fewer signals than instructions")
    }

    fn release(&mut self, code: &Code, signal: u32, point: Point) {
        self.releases.entry(point).or_default().push(signal);
        let releasers = &mut self.all[signal as usize].releasers;
        releasers.extend(code.threads_of(point.instance));
        releasers.sort_unstable();
        releasers.dedup();
    }
}
