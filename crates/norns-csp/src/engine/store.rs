//! The states that a search has seen: packed, in the order in which they came, found again by
//! an open hash table of their numbers. Nothing else is kept for a state: 4 bytes a slot and, in a
//! large table, a load between two thirds and four fifths, so 5 to 6 bytes beyond the state itself.
//!
//! The store is divided by hash into shards, so that each worker of a parallel search inserts
//! into its own. A store that was told to spill has all its states on disk (`disk`).

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::engine::disk::Disk;

/// Where a state is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StateId {
    pub shard: u32,
    pub index: u32,
}

const CHUNK_STATES: usize = 1 << 14;
const EMPTY: u32 = u32::MAX;
// A table with fewer slots doubles when it is full; a larger one grows by a fifth.
const SMALL_TABLE: usize = 1 << 18;
// States that are read from disk at once.
const READ_AHEAD: usize = 1 << 10;

#[derive(Debug)]
pub struct Shard {
    words: usize,
    chunks: Vec<Vec<u64>>,
    // States in memory; none once they are on disk.
    held: usize,
    // The low bits of an entry are the number of a state, less than the size of the table and so
    // never all ones; the high bits are some of its hash.
    table: Vec<u32>,
    index_mask: u32,
    disk: Option<Disk>,
    // The first error of the disk since the last commit.
    failed: Option<io::Error>,
}

/// A hash whose low bits choose the slot and whose high bits choose the shard.
#[inline]
pub fn hash(state: &[u64]) -> u64 {
    let mut h = 0x9E37_79B9_7F4A_7C15u64;
    for &word in state {
        let product = u128::from(h ^ word) * u128::from(0xD6E8_FEB8_6659_FD93u64);
        h = (product as u64) ^ ((product >> 64) as u64);
        h = h.rotate_left(23).wrapping_add(0x2545_F491_4F6C_DD1D);
    }
    let product = u128::from(h) * u128::from(0xA5A3_5C17_3A4B_9D1Fu64);
    h = (product as u64) ^ ((product >> 64) as u64);
    h ^ (h >> 32)
}

/// The slot where the search for a state begins, in a table of any size.
#[inline]
fn home(hash: u64, size: usize) -> usize {
    (((hash & u64::from(u32::MAX)) * size as u64) >> 32) as usize
}

#[inline]
fn after(slot: usize, size: usize) -> usize {
    match slot + 1 {
        end if end == size => 0,
        next => next,
    }
}

impl Shard {
    fn new(words: usize) -> Self {
        Shard {
            words,
            chunks: Vec::new(),
            held: 0,
            table: vec![EMPTY; 1024],
            index_mask: 1023,
            disk: None,
            failed: None,
        }
    }

    pub fn len(&self) -> usize {
        self.disk.as_ref().map_or(self.held, Disk::len)
    }

    /// A state by its number.
    #[inline]
    pub fn state(&self, index: u32) -> Cow<'_, [u64]> {
        match &self.disk {
            Some(disk) => Cow::Owned(
                disk.state(index as usize)
                    .expect("what was written to an open file can be read"),
            ),
            None => Cow::Borrowed(self.in_memory(index)),
        }
    }

    /// Calls `visit` with each state of a range of numbers.
    pub fn each(&self, range: Range<u32>, mut visit: impl FnMut(&[u64])) {
        let Some(disk) = &self.disk else {
            for index in range {
                visit(self.in_memory(index));
            }
            return;
        };
        let (mut from, end) = (range.start as usize, range.end as usize);
        while from < end {
            let to = end.min(from + READ_AHEAD);
            let states = disk.states(from..to);
            let states = states.expect("what was written to an open file can be read");
            states.chunks_exact(self.words).for_each(&mut visit);
            from = to;
        }
    }

    #[inline]
    fn in_memory(&self, index: u32) -> &[u64] {
        let at = (index as usize % CHUNK_STATES) * self.words;
        &self.chunks[index as usize / CHUNK_STATES][at..at + self.words]
    }

    /// Adds the states in a flat list. A lookup waits for memory twice, for the slot and for
    /// the state; touching those of several states first lets the waits overlap.
    pub fn insert_all(&mut self, states: &[u64]) {
        const BATCH: usize = 16;
        let words = self.words;
        let mut hashes = [0u64; BATCH];
        let mut slots = [EMPTY; BATCH];
        for batch in states.chunks(BATCH * words) {
            for (i, state) in batch.chunks_exact(words).enumerate() {
                hashes[i] = hash(state);
                slots[i] = self.table[home(hashes[i], self.table.len())];
            }
            let count = batch.len() / words;
            let mut touched = 0;
            for &slot in &slots[..count] {
                if slot != EMPTY {
                    touched ^= self.in_memory(slot & self.index_mask)[0];
                }
            }
            std::hint::black_box(touched);
            for (i, state) in batch.chunks_exact(words).enumerate() {
                self.insert(state, hashes[i]);
            }
        }
    }

    /// The bits of a hash that a slot has room for.
    #[inline]
    fn tag(&self, hash: u64) -> u32 {
        (hash >> 20) as u32 & !self.index_mask
    }

    /// The slot of a state: where it is, or the empty one where it would be.
    #[inline]
    fn probe(&self, state: &[u64], hash: u64) -> (usize, Option<u32>) {
        let tag = self.tag(hash);
        let mut slot = home(hash, self.table.len());
        loop {
            let entry = self.table[slot];
            if entry == EMPTY {
                return (slot, None);
            }
            if entry & !self.index_mask == tag {
                let index = entry & self.index_mask;
                let there = self.in_memory(index);
                let same = match (there, state) {
                    ([a], [b]) => a == b,
                    ([a, c], [b, d]) => a == b && c == d,
                    _ => there == state,
                };
                if same {
                    return (slot, Some(index));
                }
            }
            slot = after(slot, self.table.len());
        }
    }

    /// Adds a state; whether it may be new (on disk, only a commit can tell).
    #[inline]
    pub fn insert(&mut self, state: &[u64], hash: u64) -> bool {
        if let Some(disk) = &mut self.disk {
            if let Err(error) = disk.reach(state) {
                self.failed.get_or_insert(error);
            }
            return true;
        }
        let (slot, None) = self.probe(state, hash) else {
            return false;
        };
        self.add(slot, state, hash);
        true
    }

    /// The number of a state in memory, which is added if it is new.
    #[inline]
    pub fn number(&mut self, state: &[u64]) -> u32 {
        assert!(self.disk.is_none(), "states on disk have no number at once");
        let hash = hash(state);
        match self.probe(state, hash) {
            (_, Some(index)) => index,
            (slot, None) => self.add(slot, state, hash),
        }
    }

    /// Adds a state that is not there, into the empty slot where it belongs.
    #[inline]
    fn add(&mut self, slot: usize, state: &[u64], hash: u64) -> u32 {
        // All ones must stay free to mean an empty slot.
        assert!(
            self.held < EMPTY as usize / 2,
            "more than 2^31 states in one shard"
        );
        let index = self.held as u32;
        self.table[slot] = index | self.tag(hash);
        if self.held.is_multiple_of(CHUNK_STATES) {
            self.chunks
                .push(Vec::with_capacity(CHUNK_STATES * self.words));
        }
        self.chunks
            .last_mut()
            .expect("a chunk with room")
            .extend_from_slice(state);
        self.held += 1;
        if self.held * 5 > self.table.len() * 4 {
            self.grow();
        }
        index
    }

    fn grow(&mut self) {
        let size = match self.table.len() {
            small if small < SMALL_TABLE => small * 2,
            large => large / 5 * 6,
        };
        self.table = Vec::new();
        self.index_mask = size.next_power_of_two() as u32 - 1;
        let mut table = vec![EMPTY; size];
        for index in 0..self.held as u32 {
            let hash = hash(self.in_memory(index));
            let mut slot = home(hash, size);
            while table[slot] != EMPTY {
                slot = after(slot, size);
            }
            table[slot] = index | self.tag(hash);
        }
        self.table = table;
    }

    fn find(&self, state: &[u64], hash: u64) -> Option<u32> {
        let Some(disk) = &self.disk else {
            return self.probe(state, hash).1;
        };
        let found = disk.find(state);
        found
            .expect("what was written to an open file can be read")
            .map(|number| number as u32)
    }

    /// Moves all states to files in a folder, and those to come.
    fn spill(&mut self, folder: &Path, bytes: usize) -> io::Result<()> {
        let mut disk = Disk::new(self.words, folder, bytes)?;
        disk.adopt(self.held, |index| self.in_memory(index).to_vec())?;
        *self = Shard::new(self.words);
        self.disk = Some(disk);
        Ok(())
    }

    /// Ends a level of the search: states that are new to the disk get numbers.
    fn commit(&mut self) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.disk.as_mut().map_or(Ok(()), Disk::commit)
    }

    fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK_STATES * self.words * 8
            + self.table.len() * 4
            + self.disk.as_ref().map_or(0, Disk::bytes)
    }
}

#[derive(Debug)]
pub struct Store {
    pub shards: Vec<Shard>,
}

impl Store {
    pub fn new(words: usize, shards: usize) -> Self {
        Store {
            shards: (0..shards).map(|_| Shard::new(words)).collect(),
        }
    }

    #[inline]
    pub fn shard_of(&self, hash: u64) -> usize {
        shard_of(hash, self.shards.len())
    }

    pub fn insert(&mut self, state: &[u64]) -> bool {
        let hash = hash(state);
        let shard = self.shard_of(hash);
        self.shards[shard].insert(state, hash)
    }

    pub fn find(&self, state: &[u64]) -> Option<StateId> {
        let hash = hash(state);
        let shard = self.shard_of(hash);
        let index = self.shards[shard].find(state, hash)?;
        Some(StateId {
            shard: shard as u32,
            index,
        })
    }

    pub fn state(&self, id: StateId) -> Cow<'_, [u64]> {
        self.shards[id.shard as usize].state(id.index)
    }

    pub fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// Moves all states to files in a folder, and those to come. `bytes` is the memory that these
    /// may take before they are written.
    pub fn spill(&mut self, folder: &Path, bytes: usize) -> io::Result<()> {
        let each = bytes / self.shards.len();
        let mut shards = self.shards.iter_mut();
        shards.try_for_each(|shard| shard.spill(folder, each))
    }

    /// Whether states go to disk.
    pub fn is_spilled(&self) -> bool {
        self.shards.iter().any(|shard| shard.disk.is_some())
    }

    /// Ends a level of the search.
    pub fn commit(&mut self) -> io::Result<()> {
        self.shards.iter_mut().try_for_each(Shard::commit)
    }

    /// Bytes on disk.
    pub fn on_disk(&self) -> u64 {
        let disks = self.shards.iter().filter_map(|shard| shard.disk.as_ref());
        disks.map(Disk::on_disk).sum()
    }

    /// Memory of states and tables.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(Shard::bytes).sum()
    }

    /// How many states each shard has: the place up to which a level goes.
    pub fn mark(&self) -> Vec<u32> {
        self.shards.iter().map(|shard| shard.len() as u32).collect()
    }
}

#[inline]
pub fn shard_of(hash: u64, shards: usize) -> usize {
    (((hash >> 48) * shards as u64) >> 16) as usize
}
