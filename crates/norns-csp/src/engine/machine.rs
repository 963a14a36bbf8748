//! A component of a network: an explicit transition system whose events are numbered densely,
//! so that rules can be found by index.

use rustc_hash::FxHashMap;

use crate::engine::DONE;
use crate::engine::budget::Spent;
use crate::engine::lts::Lts;
use crate::event::EventId;

/// A transition system with local labels. The state after a tick offers [`DONE`] to itself.
#[derive(Debug)]
pub struct Machine {
    // Transitions of s: `offsets[s]..offsets[s + 1]`, sorted by label.
    offsets: Vec<u32>,
    labels: Vec<u32>,
    targets: Vec<u32>,
    /// The event of each local label, sorted.
    pub alphabet: Vec<EventId>,
    // For small machines, by state and label: the first transition and how many there are.
    dense: Vec<(u32, u32)>,
    /// States whose transitions are not known; sorted.
    pub unexplored: Vec<u32>,
    /// Why there are such states.
    pub spent: Option<Spent>,
}

const DENSE_LIMIT: usize = 1 << 18;

impl Machine {
    pub fn new(lts: &Lts) -> Self {
        let mut done = vec![false; lts.len()];
        for state in 0..lts.len() as u32 {
            for &(event, to) in lts.steps(state) {
                if event == EventId::TICK {
                    done[to as usize] = true;
                }
            }
        }
        let mut alphabet: Vec<EventId> = (0..lts.len() as u32)
            .flat_map(|s| lts.steps(s))
            .map(|step| step.0)
            .collect();
        if done.contains(&true) {
            alphabet.push(DONE);
        }
        alphabet.sort_unstable();
        alphabet.dedup();
        let index: FxHashMap<EventId, u32> = alphabet
            .iter()
            .enumerate()
            .map(|(i, &event)| (event, i as u32))
            .collect();
        let mut machine = Machine {
            offsets: vec![0],
            labels: Vec::new(),
            targets: Vec::new(),
            alphabet,
            dense: Vec::new(),
            unexplored: lts.unexplored.clone(),
            spent: lts.spent.clone(),
        };
        for state in 0..lts.len() as u32 {
            for &(event, to) in lts.steps(state) {
                machine.labels.push(index[&event]);
                machine.targets.push(to);
            }
            if done[state as usize] {
                assert!(
                    lts.steps(state).is_empty(),
                    "a terminated component does nothing more"
                );
                machine.labels.push(index[&DONE]);
                machine.targets.push(state);
            }
            machine.offsets.push(machine.labels.len() as u32);
        }
        let width = machine.alphabet.len();
        if width * lts.len() <= DENSE_LIMIT {
            machine.dense = vec![(0, 0); width * lts.len()];
            for state in 0..lts.len() as u32 {
                for at in machine.span(state) {
                    let cell =
                        &mut machine.dense[state as usize * width + machine.labels[at] as usize];
                    if cell.1 == 0 {
                        cell.0 = at as u32;
                    }
                    cell.1 += 1;
                }
            }
        }
        machine
    }

    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The range of a state's transitions, for [`Machine::label`] and [`Machine::target`].
    #[inline]
    pub fn span(&self, state: u32) -> std::ops::Range<usize> {
        self.offsets[state as usize] as usize..self.offsets[state as usize + 1] as usize
    }

    #[inline]
    pub fn label(&self, at: usize) -> u32 {
        self.labels[at]
    }

    #[inline]
    pub fn target(&self, at: usize) -> u32 {
        self.targets[at]
    }

    /// The range of a state's transitions that have one label.
    #[inline]
    pub fn find(&self, state: u32, label: u32) -> std::ops::Range<usize> {
        if !self.dense.is_empty() {
            let (first, count) = self.dense[state as usize * self.alphabet.len() + label as usize];
            return first as usize..(first + count) as usize;
        }
        let span = self.span(state);
        let labels = &self.labels[span.clone()];
        if labels.len() <= 8 {
            let Some(first) = labels.iter().position(|&l| l == label) else {
                return 0..0;
            };
            let count = labels[first..].iter().take_while(|&&l| l == label).count();
            return span.start + first..span.start + first + count;
        }
        let first = labels.partition_point(|&l| l < label);
        let end = labels.partition_point(|&l| l <= label);
        span.start + first..span.start + end
    }

    /// Memory of the machine.
    pub fn bytes(&self) -> u64 {
        let words = self.offsets.len() + 2 * self.labels.len() + 2 * self.dense.len();
        words as u64 * 4
    }

    /// The average number of transitions of a state.
    pub fn breadth(&self) -> f64 {
        self.labels.len() as f64 / self.len().max(1) as f64
    }
}
