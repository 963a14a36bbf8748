//! The states that a search has seen: packed, in the order in which they came, found again by
//! an open hash table of their numbers. Nothing else is kept for a state: 4 bytes a slot and a
//! load between three eighths and three quarters, so 5 to 11 bytes beyond the state itself.
//!
//! The store is divided by hash into shards, so that each worker of a parallel search inserts
//! into its own.

/// Where a state is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StateId {
    pub shard: u32,
    pub index: u32,
}

const CHUNK_STATES: usize = 1 << 14;
const EMPTY: u32 = u32::MAX;

#[derive(Debug)]
pub struct Shard {
    words: usize,
    chunks: Vec<Vec<u64>>,
    len: usize,
    table: Vec<u32>,
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

impl Shard {
    fn new(words: usize) -> Self {
        Shard {
            words,
            chunks: Vec::new(),
            len: 0,
            table: vec![EMPTY; 1024],
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn state(&self, index: u32) -> &[u64] {
        let at = (index as usize % CHUNK_STATES) * self.words;
        &self.chunks[index as usize / CHUNK_STATES][at..at + self.words]
    }

    /// Adds a state; whether it is new.
    #[inline]
    pub fn insert(&mut self, state: &[u64], hash: u64) -> bool {
        let mask = self.table.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let index = self.table[slot];
            if index == EMPTY {
                break;
            }
            if self.state(index) == state {
                return false;
            }
            slot = (slot + 1) & mask;
        }
        assert!(
            self.len < EMPTY as usize,
            "more than 2^32 states in one shard"
        );
        self.table[slot] = self.len as u32;
        if self.len.is_multiple_of(CHUNK_STATES) {
            self.chunks
                .push(Vec::with_capacity(CHUNK_STATES * self.words));
        }
        self.chunks
            .last_mut()
            .expect("a chunk with room")
            .extend_from_slice(state);
        self.len += 1;
        if self.len * 4 > self.table.len() * 3 {
            self.grow();
        }
        true
    }

    fn grow(&mut self) {
        let size = self.table.len() * 2;
        self.table = Vec::new();
        let mut table = vec![EMPTY; size];
        for index in 0..self.len as u32 {
            let mut slot = hash(self.state(index)) as usize & (size - 1);
            while table[slot] != EMPTY {
                slot = (slot + 1) & (size - 1);
            }
            table[slot] = index;
        }
        self.table = table;
    }

    fn find(&self, state: &[u64], hash: u64) -> Option<u32> {
        let mask = self.table.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let index = self.table[slot];
            if index == EMPTY {
                return None;
            }
            if self.state(index) == state {
                return Some(index);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK_STATES * self.words * 8 + self.table.len() * 4
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

    pub fn state(&self, id: StateId) -> &[u64] {
        self.shards[id.shard as usize].state(id.index)
    }

    pub fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// Memory of states and tables.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(Shard::bytes).sum()
    }

    /// How many states each shard has: the place up to which a level goes.
    pub fn mark(&self) -> Vec<u32> {
        self.shards.iter().map(|shard| shard.len as u32).collect()
    }
}

#[inline]
pub fn shard_of(hash: u64, shards: usize) -> usize {
    (((hash >> 48) * shards as u64) >> 16) as usize
}
