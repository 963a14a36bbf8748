//! Objects whose state the core keeps itself: barriers, and which onces are running.

const MOST_BARRIERS: usize = 1024;
const MOST_ONCES: usize = 64;

#[derive(Clone, Copy)]
struct Barrier {
    address: usize,
    count: u32,
    arrived: u32,
    round: u32,
}

pub struct Barriers {
    table: [Barrier; MOST_BARRIERS],
    length: usize,
}

impl Barriers {
    pub const fn new() -> Self {
        let none = Barrier {
            address: 0,
            count: 0,
            arrived: 0,
            round: 0,
        };
        Self {
            table: [none; MOST_BARRIERS],
            length: 0,
        }
    }

    fn find(&self, address: usize) -> Option<usize> {
        self.table[..self.length]
            .iter()
            .position(|barrier| barrier.address == address)
    }

    /// A barrier beyond the table is not known: the real one is used for it.
    pub fn init(&mut self, address: usize, count: u32) {
        let index = self.find(address).unwrap_or(self.length);
        if let Some(barrier) = self.table.get_mut(index) {
            *barrier = Barrier {
                address,
                count,
                arrived: 0,
                round: 0,
            };
            self.length = self.length.max(index + 1);
        }
    }

    /// One more thread is there: the round it belongs to, and whether it completes it.
    pub fn arrive(&mut self, address: usize) -> (u32, bool) {
        let Some(index) = self.find(address) else {
            return (0, false);
        };
        let barrier = &mut self.table[index];
        let round = barrier.round;
        barrier.arrived += 1;
        let last = barrier.arrived >= barrier.count;
        if last {
            barrier.arrived = 0;
            barrier.round = barrier.round.wrapping_add(1);
        }
        (round, last)
    }

    /// The round that threads enter now; `None` for a barrier that is not known.
    pub fn round(&self, address: usize) -> Option<u32> {
        self.find(address).map(|index| self.table[index].round)
    }
}

/// The onces whose initialiser runs just now.
pub struct Onces {
    /// The word, 0 in a free place, and whether the initialiser has ended although the word does not
    /// say so yet.
    words: [(usize, bool); MOST_ONCES],
}

impl Onces {
    pub const fn new() -> Self {
        Self {
            words: [(0, false); MOST_ONCES],
        }
    }

    pub fn is_running(&self, word: usize) -> bool {
        self.words.contains(&(word, false))
    }

    pub fn has_ended(&self, word: usize) -> bool {
        self.words.contains(&(word, true))
    }

    /// False when there is no room to remember it.
    pub fn run(&mut self, word: usize) -> bool {
        let free = self.words.iter_mut().find(|(word, _)| *word == 0);
        free.map(|free| *free = (word, false)).is_some()
    }

    pub fn end_before_store(&mut self, word: usize) {
        let of_word = self.words.iter_mut().filter(|(other, _)| *other == word);
        of_word.for_each(|(_, ended)| *ended = true);
    }

    pub fn forget(&mut self, word: usize) {
        let of_word = self.words.iter_mut().filter(|(other, _)| *other == word);
        of_word.for_each(|place| *place = (0, false));
    }
}
