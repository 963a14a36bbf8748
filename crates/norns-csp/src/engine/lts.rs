//! Explicit labelled transition systems: components, specifications, results of compression.

use rustc_hash::FxHashMap;

use crate::CheckError;
use crate::engine::budget::{Activity, Meter, Spent};
use crate::engine::context::Context;
use crate::engine::semantics::{Build, Semantics};
use crate::event::EventId;
use crate::process::ProcId;

/// States are numbers from 0; the initial one is 0.
#[derive(Clone, Debug, Default)]
pub struct Lts {
    // `steps[offsets[s]..offsets[s + 1]]` are the transitions of s, sorted, no duplicates.
    offsets: Vec<u32>,
    steps: Vec<(EventId, u32)>,
    /// States whose transitions are not known, because a limit was reached; sorted. A verdict
    /// that passes through one is no verdict.
    pub unexplored: Vec<u32>,
    /// Why there are such states.
    pub(crate) spent: Option<Spent>,
}

impl Lts {
    /// A system from the transitions of each state in turn.
    pub fn new(states: impl IntoIterator<Item = Vec<(EventId, u32)>>) -> Self {
        let mut lts = Lts::start();
        for steps in states {
            lts.push(steps);
        }
        lts
    }

    pub(crate) fn start() -> Self {
        Lts {
            offsets: vec![0],
            steps: Vec::new(),
            unexplored: Vec::new(),
            spent: None,
        }
    }

    /// Adds the next state.
    pub(crate) fn push(&mut self, mut steps: Vec<(EventId, u32)>) {
        steps.sort_unstable();
        steps.dedup();
        self.steps.append(&mut steps);
        self.offsets
            .push(u32::try_from(self.steps.len()).expect("fewer than 2^32 transitions"));
    }

    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The transitions of a state, sorted.
    pub fn steps(&self, state: u32) -> &[(EventId, u32)] {
        let (from, to) = (
            self.offsets[state as usize],
            self.offsets[state as usize + 1],
        );
        &self.steps[from as usize..to as usize]
    }

    /// Memory of the system.
    pub(crate) fn bytes(&self) -> u64 {
        (self.offsets.len() * 4 + self.steps.len() * 8) as u64
    }

    /// Adds a state whose transitions are not known.
    pub(crate) fn push_unexplored(&mut self) {
        self.unexplored.push(self.len() as u32);
        self.push(Vec::new());
    }

    /// Adds the states up to `states` as unexplored.
    fn cut(&mut self, states: usize, spent: Spent) {
        while self.len() < states {
            self.push_unexplored();
        }
        self.spent = Some(spent);
    }

    /// All states that the budget lets be explored from a term, breadth-first.
    pub(crate) fn of_process(
        context: &mut Context,
        semantics: &mut Semantics,
        process: ProcId,
        meter: &Meter,
        build: &mut Build,
    ) -> Result<Lts, CheckError> {
        // A number and its place in the hash table.
        const BYTES_PER_STATE: u64 = 20;
        let before = context.bytes() + semantics.bytes();
        let mut ids: FxHashMap<ProcId, u32> = FxHashMap::default();
        ids.insert(process, 0);
        let mut order = vec![process];
        let mut lts = Lts::start();
        let mut next = 0;
        while next < order.len() {
            let bytes = (context.bytes() + semantics.bytes()).saturating_sub(before)
                + lts.bytes()
                + order.len() as u64 * BYTES_PER_STATE;
            if let Some(spent) = meter.spent(Activity::exploring(next), next as u64, bytes) {
                lts.cut(order.len(), spent);
                break;
            }
            let steps = match semantics.transitions(context, order[next], meter, build) {
                Err(CheckError::Spent(spent)) => {
                    lts.cut(order.len(), spent);
                    break;
                }
                steps => steps?,
            };
            let numbered = steps
                .iter()
                .map(|&(event, to)| {
                    let id = *ids.entry(to).or_insert_with(|| {
                        order.push(to);
                        order.len() as u32 - 1
                    });
                    (event, id)
                })
                .collect();
            lts.push(numbered);
            next += 1;
        }
        let grown = (context.bytes() + semantics.bytes()).saturating_sub(before);
        meter.keep(next as u64, grown);
        Ok(lts)
    }
}
