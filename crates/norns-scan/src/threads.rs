//! Sets of threads, as bits.

use crate::instance::ThreadId;

/// A set of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Threads(Vec<u64>);

impl Threads {
    pub fn insert(&mut self, thread: ThreadId) {
        let word = thread.index() / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (thread.index() % 64);
    }

    pub fn remove(&mut self, thread: ThreadId) {
        if let Some(word) = self.0.get_mut(thread.index() / 64) {
            *word &= !(1 << (thread.index() % 64));
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    #[must_use]
    pub fn contains(&self, thread: ThreadId) -> bool {
        let word = self.0.get(thread.index() / 64).copied().unwrap_or(0);
        word & (1 << (thread.index() % 64)) != 0
    }

    pub fn extend(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = ThreadId> {
        let words = self.0.iter().enumerate();
        words.flat_map(|(at, &word)| {
            let bits = (0..64).filter(move |bit| word & (1 << bit) != 0);
            bits.map(move |bit| ThreadId::from_index(at * 64 + bit))
        })
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
}
