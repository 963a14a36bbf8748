//! State of the objects that a replay emulates whole: barriers, and which onces are running.

const MOST_BARRIERS: usize = 1024;
const MOST_ONCES: usize = 64;

#[derive(Clone, Copy)]
struct Barrier {
    address: usize,
    count: u32,
    arrived: u32,
    generation: u32,
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
            generation: 0,
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
                generation: 0,
            };
            self.length = self.length.max(index + 1);
        }
    }

    pub fn knows(&self, address: usize) -> bool {
        self.find(address).is_some()
    }

    /// One more thread is there: the generation it belongs to, and whether it completes it.
    pub fn arrive(&mut self, address: usize) -> (u32, bool) {
        let Some(index) = self.find(address) else {
            return (0, false);
        };
        let barrier = &mut self.table[index];
        let generation = barrier.generation;
        barrier.arrived += 1;
        let last = barrier.arrived >= barrier.count;
        if last {
            barrier.arrived = 0;
            barrier.generation = barrier.generation.wrapping_add(1);
        }
        (generation, last)
    }

    pub fn generation(&self, address: usize) -> u32 {
        self.find(address)
            .map_or(u32::MAX, |index| self.table[index].generation)
    }
}

/// The onces whose initialiser runs just now.
pub struct Onces {
    running: [usize; MOST_ONCES],
}

impl Onces {
    pub const fn new() -> Self {
        Self {
            running: [0; MOST_ONCES],
        }
    }

    pub fn is_running(&self, word: usize) -> bool {
        self.running.contains(&word)
    }

    pub fn run(&mut self, word: usize) {
        if let Some(free) = self.running.iter_mut().find(|running| **running == 0) {
            *free = word;
        }
    }

    pub fn end(&mut self, word: usize) {
        self.running
            .iter_mut()
            .filter(|running| **running == word)
            .for_each(|running| *running = 0);
    }
}
