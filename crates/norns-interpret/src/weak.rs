//! Memory models: vector clocks, the writes that a read may still return, store buffers.
//!
//! The weak model is that of Portend (Kasikci 2015, section 5.7): a read may return a
//! write unless a later write to the same location happens before the read. It differs in two ways. Reads
//! are coherent: a thread never goes back from a newer write to an older one. A thread that reads the same
//! old value again and again sees the newest in the end, so that a loop that waits for a flag ends.
//! C11 atomics and fences order by their memory orders; a sequentially consistent read returns the last
//! write. Accesses of different sizes to one place forget its history, so some behaviour is missed.

use std::collections::BTreeMap;
use std::rc::Rc;

use norns_ir::PlaceId;

/// How many writes of a location are kept.
const DEPTH: usize = 8;
/// How often a thread reads an old value again before it sees the newest.
const PATIENCE: u32 = 3;

/// For each thread, how many of its steps happened before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Clock(Rc<Vec<u32>>);

impl Clock {
    pub(crate) fn get(&self, thread: usize) -> u32 {
        self.0.get(thread).copied().unwrap_or_default()
    }

    pub(crate) fn advance(&mut self, thread: usize) {
        let all = Rc::make_mut(&mut self.0);
        if all.len() <= thread {
            all.resize(thread + 1, 0);
        }
        all[thread] += 1;
    }

    pub(crate) fn join(&mut self, other: &Clock) {
        if other
            .0
            .iter()
            .enumerate()
            .all(|(thread, &count)| count <= self.get(thread))
        {
            return;
        }
        let all = Rc::make_mut(&mut self.0);
        if all.len() < other.0.len() {
            all.resize(other.0.len(), 0);
        }
        for (mine, theirs) in all.iter_mut().zip(other.0.iter()) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// The last writes of all shared locations, and what synchronisation objects carry.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Histories {
    locations: BTreeMap<u64, Location>,
    pub(crate) objects: BTreeMap<u64, Clock>,
}

#[derive(Clone, Debug, Hash)]
struct Location {
    bytes: u8,
    /// The number of the first write in `writes`.
    first: u64,
    /// Oldest first.
    writes: Vec<Written>,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Written {
    pub(crate) value: u64,
    /// `None` for the initial value.
    by: Option<(usize, u32)>,
    /// What a read of it acquires.
    pub(crate) releases: Option<Clock>,
    pub(crate) place: Option<PlaceId>,
}

/// What one thread has read, and its fences.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct View {
    /// For each location: the number of the write that was read last, of the newest one at that time, and
    /// how often it was read again since.
    read: Rc<BTreeMap<u64, (u64, u64, u32)>>,
    /// The clock at the last release fence.
    pub(crate) fence: Option<Clock>,
    /// What relaxed reads would have acquired, for the next acquire fence.
    pub(crate) pending: Clock,
}

/// A write that a read may return.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) number: u64,
    pub(crate) is_newest: bool,
    /// The number of the newest write.
    newest: u64,
    pub(crate) written: Written,
}

impl Histories {
    /// Writes that a read of a thread may return, the newest first; empty if the location has no history.
    pub(crate) fn candidates(
        &self,
        address: u64,
        bytes: u8,
        clock: &Clock,
        view: &View,
    ) -> Vec<Candidate> {
        let Some(location) = self
            .locations
            .get(&address)
            .filter(|location| location.bytes == bytes)
        else {
            return Vec::new();
        };
        let newest = location.first + location.writes.len() as u64 - 1;
        let mut floor = location.first;
        for (number, written) in (location.first..).zip(&location.writes) {
            let is_before = match written.by {
                Some((thread, step)) => clock.get(thread) >= step,
                None => true,
            };
            if is_before {
                floor = number;
            }
        }
        let mut bound = None;
        if let Some(&(read, newest_then, again)) = view.read.get(&address) {
            floor = floor.max(read);
            if newest_then == newest && read >= floor {
                bound = Some(if again < PATIENCE { read } else { newest });
            }
        }
        let numbers = match bound {
            Some(only) => only..=only,
            None => floor..=newest,
        };
        let found = numbers.rev().map(|number| Candidate {
            number,
            is_newest: number == newest,
            newest,
            written: location.writes[(number - location.first) as usize].clone(),
        });
        found.collect()
    }

    /// Adds a write; `old` is what the location held before.
    pub(crate) fn write(
        &mut self,
        address: u64,
        bytes: u8,
        (old, value): (u64, u64),
        (thread, clock): (usize, &Clock),
        releases: Option<Clock>,
        place: Option<PlaceId>,
    ) {
        let overlapping: Vec<u64> = self
            .locations
            .range(address.saturating_sub(7)..address + u64::from(bytes))
            .filter(|(start, location)| {
                **start + u64::from(location.bytes) > address
                    && (**start != address || location.bytes != bytes)
            })
            .map(|(start, _)| *start)
            .collect();
        for start in overlapping {
            self.locations.remove(&start);
        }
        let location = self.locations.entry(address).or_insert_with(|| Location {
            bytes,
            first: 0,
            writes: vec![Written {
                value: old,
                by: None,
                releases: None,
                place: None,
            }],
        });
        location.writes.push(Written {
            value,
            by: Some((thread, clock.get(thread))),
            releases,
            place,
        });
        if location.writes.len() > DEPTH {
            location.writes.remove(0);
            location.first += 1;
        }
    }

    /// Forgets what was written to a range of memory.
    pub(crate) fn forget(&mut self, address: u64, bytes: u64) {
        let starts = self
            .locations
            .range(address.saturating_sub(7)..address.saturating_add(bytes));
        let starts: Vec<u64> = starts.map(|(start, _)| *start).collect();
        for start in starts {
            self.locations.remove(&start);
        }
    }

    pub(crate) fn newest(&self, address: u64, bytes: u8) -> Option<&Written> {
        let location = self
            .locations
            .get(&address)
            .filter(|location| location.bytes == bytes)?;
        location.writes.last()
    }
}

impl View {
    /// Notes that a thread read a write.
    pub(crate) fn note(&mut self, address: u64, candidate: &Candidate) {
        let newest = candidate.newest;
        let read = Rc::make_mut(&mut self.read);
        let again = match read.get(&address) {
            Some(&(number, newest_then, again))
                if number == candidate.number && newest_then == newest =>
            {
                again + 1
            }
            _ => 0,
        };
        read.insert(address, (candidate.number, newest, again));
    }
}
