//! What a run is given: the program's inputs, the schedule and the memory model.

use std::collections::BTreeMap;

use crate::invariant::Invariant;

/// What the program gets from outside.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// `argv`, the name of the program first.
    pub arguments: Vec<Vec<u8>>,
    /// Lines `NAME=value`.
    pub environment: Vec<Vec<u8>>,
    pub standard_input: Vec<u8>,
    /// Files by the path that the program gives.
    pub files: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether there are no others. If not, a run that looks for another one is given up on.
    pub has_all_files: bool,
}

/// How a program is run. The same value gives the same outcome.
#[derive(Clone, Debug)]
pub struct How {
    /// Decides what is random: which thread runs next and for how long, and what a read returns where the
    /// memory model allows several values.
    pub seed: u64,
    /// An order of two accesses that the run enforces as far as it can.
    pub order: Option<Order>,
    pub memory: MemoryModel,
    pub preemption: Preemption,
    pub limits: Limits,
    /// What must hold where no lock is held, and at the end; if not, the run ends as at an assertion.
    pub invariant: Option<Invariant>,
    /// Locks that are not taken: calls at this file and line do nothing.
    pub without_lock: Option<(String, u32)>,
}

/// Where a running thread can be interrupted in favour of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// Only where it synchronises.
    AtSynchronisation,
    /// Before any operation.
    Anywhere,
}

/// Which earlier writes a read may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryModel {
    /// The last one.
    SequentiallyConsistent,
    /// Total store order: the last one, where the writes of other threads become visible late, in order.
    Tso,
    /// Any write that no other write stands between in happens-before; see `weak.rs`.
    Weak,
}

/// An access of a race: where it is in the source, and whether it writes if the line does both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The path as the compiler was given it, or its last components.
    pub file: String,
    pub line: u32,
    pub is_write: Option<bool>,
}

/// `second` waits until another thread has executed `first`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub first: Access,
    pub second: Access,
}

#[derive(Clone, Debug)]
pub struct Limits {
    /// Operations in one run.
    pub steps: u64,
    /// Operations that other threads execute while one is kept waiting for an order.
    pub hold: u64,
    /// Bytes that the program may have allocated at one time.
    pub memory: u64,
    /// Runs of one exploration.
    pub runs: usize,
    /// Bytes of the states from which an exploration is still to go on.
    pub open: u64,
    /// How often an explored run may interrupt a thread that could go on.
    pub preemptions: u32,
}

impl Default for How {
    fn default() -> Self {
        Self {
            seed: 0,
            order: None,
            memory: MemoryModel::SequentiallyConsistent,
            preemption: Preemption::Anywhere,
            limits: Limits::default(),
            invariant: None,
            without_lock: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 200_000_000,
            hold: 2_000_000,
            memory: 1 << 30,
            runs: 2_000,
            open: 1 << 30,
            preemptions: 2,
        }
    }
}
