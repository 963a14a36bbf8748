//! Loops that wait for a variable: does a thread do the same again and again until another writes
//! what it reads?
//!
//! A thread is watched while another one waits for it: every place it comes to, with the address
//! there, is put in a small set. A thread that comes only to what is in the set, and reads there,
//! goes round in a loop; its body may also write, lock, sleep or yield. That alone would also be
//! true of a long computation, so the loop counts as a wait only if the thread leaves it just after
//! another thread has written to something that the loop reads. A loop that reads only what it writes
//! itself computes: no other thread ends it.
//!
//! A loop whose body touches more than `PLACES` different things is not seen as one.

use crate::board::Board;
use crate::event::Line;
use crate::thread::{Activity, Slot};

const PLACES: usize = 128;
const PROBES: usize = 8;
const READS: usize = 16;
/// At most so many reads after the write, for a loop that was left because of it.
const LATE_READS: u64 = 64;
/// How long a thread must go round in a loop to be suspected, and how many reads it must make.
const SPINS_FOR: i64 = 60_000_000;
const ENOUGH_READS: u64 = 3;
/// How long a thread that comes back to nothing is watched while others could be.
const IDLE_FOR: i64 = 6_000_000;
/// How long a thread that computes is not watched, which makes it slow, before it is looked at again.
const COMPUTES_FOR: i64 = 300_000_000;
/// How long it may take then, on a busy machine, until it is seen to compute again.
const SEEN_AGAIN_IN: i64 = 1_000_000_000;

/// What a suspected loop is waiting for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suspicion {
    None,
    /// A write to something that it reads.
    Waits,
    /// Such a write is about to happen, to what the loop reads here.
    Writing(Read),
    /// It has happened, after so many reads.
    Written(Read, u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Read {
    address: usize,
    size: usize,
    pc: usize,
    /// `Spin::changes` when it was repeated last: it belongs to the present loop if that is the same.
    round: u64,
    /// Whether the thread has written there since it is watched.
    written: bool,
}

/// What is known of the places that one thread comes to while it is watched.
pub(crate) struct Spin {
    /// How many threads watch.
    watchers: u32,
    /// A hash table of places; 0 is free.
    places: [usize; PLACES],
    reads: [Read; READS],
    read_count: usize,
    /// Reads at known places since something new was met.
    repeated: u64,
    /// Whether anything else was done at them.
    does_more: bool,
    /// How often something new was met.
    changes: u64,
    suspicion: Suspicion,
}

impl Spin {
    pub const fn new() -> Self {
        const NO_READ: Read = Read {
            address: 0,
            size: 0,
            pc: 0,
            round: 0,
            written: false,
        };
        Spin {
            watchers: 0,
            places: [0; PLACES],
            reads: [NO_READ; READS],
            read_count: 0,
            repeated: 0,
            does_more: false,
            changes: 0,
            suspicion: Suspicion::None,
        }
    }

    fn is_watched(&self) -> bool {
        self.watchers > 0 || self.suspicion != Suspicion::None
    }

    /// Whether the thread was here before, since it is watched.
    fn knows(&mut self, pc: usize, address: usize) -> bool {
        let key = (pc ^ address.rotate_left(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let start = key >> 57;
        for at in start..start + PROBES {
            let place = &mut self.places[at % PLACES];
            if *place == key {
                return true;
            }
            if *place == 0 {
                *place = key;
                return false;
            }
        }
        self.places[start % PLACES] = key;
        false
    }

    /// The thread does at a place where it was before what it did there.
    fn repeat(&mut self, pc: usize, address: usize, is_read: bool) {
        self.repeated += u64::from(is_read);
        self.does_more |= !is_read;
        let round = self.changes;
        for read in &mut self.reads[..self.read_count] {
            if is_read && (read.pc, read.address) == (pc, address) {
                read.round = round;
            } else if !is_read && overlap(read.address, read.size, address, 1) {
                read.written = true;
            }
        }
    }

    /// Whether the thread goes round in a loop that reads only what it writes itself.
    fn computes(&self) -> bool {
        let reads = &self.reads[..self.read_count];
        let mut of_loop = reads.iter().filter(|read| read.round == self.changes);
        // If there are as many reads as are kept, there may be more of them.
        self.repeated >= ENOUGH_READS && self.read_count < READS && of_loop.all(|read| read.written)
    }
}

impl Board<'_> {
    fn hooks_changed(&mut self, slot: Slot) {
        let thread = self.thread(slot);
        let watch = thread.spin.is_watched() || thread.wrote_for.is_some();
        self.watch(slot, watch);
    }

    fn begin_watching(&mut self, slot: Slot) {
        let spin = &mut self.thread_mut(slot).spin;
        spin.watchers += 1;
        spin.places = [0; PLACES];
        spin.read_count = 0;
        spin.repeated = 0;
        spin.does_more = false;
        self.hooks_changed(slot);
    }

    fn end_watching(&mut self, slot: Slot) {
        let spin = &mut self.thread_mut(slot).spin;
        spin.watchers = spin.watchers.saturating_sub(1);
        self.hooks_changed(slot);
    }

    /// The thread is at this place, about to read so many bytes, or to do something else.
    pub fn comes_to(&mut self, me: Slot, pc: usize, address: usize, reads: Option<usize>) {
        let spin = &mut self.thread_mut(me).spin;
        if !spin.is_watched() {
            return;
        }
        if spin.knows(pc, address) {
            spin.repeat(pc, address, reads.is_some());
            return;
        }
        if let Some(size) = reads
            && spin.read_count < READS
        {
            spin.reads[spin.read_count] = Read {
                address,
                size,
                pc,
                round: 0,
                written: false,
            };
            spin.read_count += 1;
        }
        self.leave_loop(me);
        let spin = &mut self.thread_mut(me).spin;
        spin.repeated = 0;
        spin.does_more = false;
        spin.changes += 1;
    }

    /// Something new: if the thread was in a suspected loop, did it leave that because of a write?
    fn leave_loop(&mut self, me: Slot) {
        let spin = &mut self.thread_mut(me).spin;
        let reads = spin.repeated;
        let because_of = match spin.suspicion {
            Suspicion::None => return,
            Suspicion::Waits => None,
            Suspicion::Writing(read) => Some(read),
            Suspicion::Written(read, at) => {
                (reads.saturating_sub(at) <= LATE_READS).then_some(read)
            }
        };
        spin.suspicion = Suspicion::None;
        if self.suspect == Some(me) {
            self.suspect = None;
        }
        if let Some(Read { address, pc, .. }) = because_of {
            let thread = me;
            self.tell(Line::Spin {
                thread,
                address,
                pc,
                reads,
            });
        }
        self.hooks_changed(me);
    }

    /// The thread goes round in a loop that may wait for a write.
    pub fn suspect_loop(&mut self, slot: Slot) {
        self.thread_mut(slot).spin.suspicion = Suspicion::Waits;
        self.suspect = Some(slot);
        self.hooks_changed(slot);
    }

    /// The thread has come to its next hook: what it was about to write is written.
    pub fn finish_write(&mut self, me: Slot) {
        let Some(reader) = self.thread_mut(me).wrote_for.take() else {
            return;
        };
        if let Some(thread) = self.get_mut(reader)
            && let Suspicion::Writing(read) = thread.spin.suspicion
        {
            thread.spin.suspicion = Suspicion::Written(read, thread.spin.repeated);
        }
        self.hooks_changed(me);
    }

    /// The thread is about to write: is that what a loop waits for?
    pub fn begin_write(&mut self, me: Slot, address: usize, size: usize) {
        let Some(suspect) = self.suspect.filter(|suspect| *suspect != me) else {
            return;
        };
        let Some(thread) = self.get_mut(suspect) else {
            return;
        };
        let spin = &mut thread.spin;
        let mut reads = spin.reads[..spin.read_count].iter();
        let read = reads.find(|read| overlap(read.address, read.size, address, size));
        if let Some(read) = read.copied() {
            spin.suspicion = Suspicion::Writing(read);
            self.thread_mut(me).wrote_for = Some(suspect);
            self.hooks_changed(me);
        }
    }
}

pub(crate) fn overlap(a: usize, a_size: usize, b: usize, b_size: usize) -> bool {
    a < b.saturating_add(b_size) && b < a.saturating_add(a_size)
}

/// Looks at a thread again and again: does it go round in a loop?
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LoopWatch {
    /// The thread that is watched, from the first look on.
    watched: Option<Slot>,
    changes: u64,
    /// At how many looks there was something new.
    moves: u32,
    quiet_since: i64,
    /// The thread was seen to compute, and is not looked at before this.
    computes_until: i64,
}

impl LoopWatch {
    pub const fn new() -> Self {
        LoopWatch {
            watched: None,
            changes: 0,
            moves: 0,
            quiet_since: 0,
            computes_until: 0,
        }
    }

    pub fn goes_round(&mut self, board: &mut Board, slot: Slot) -> bool {
        let now = board.now;
        if now < self.computes_until {
            return false;
        }
        let changes = board.thread(slot).spin.changes;
        if self.watched.is_none() {
            board.begin_watching(slot);
        }
        if self.watched.is_none() || changes != self.changes {
            self.watched = Some(slot);
            self.changes = changes;
            self.moves += 1;
            self.quiet_since = now;
            return false;
        }
        let thread = board.thread(slot);
        let is_loop = now - self.quiet_since >= SPINS_FOR
            && thread.spin.repeated >= ENOUGH_READS
            && thread.activity == Activity::Running;
        let computes = is_loop && thread.spin.computes();
        if computes {
            self.end(board);
            self.computes_until = now + COMPUTES_FOR;
        }
        is_loop && !computes
    }

    /// Whether the thread was seen to compute when it was last looked at for long enough.
    pub fn computes(&self, board: &Board) -> bool {
        self.computes_until != 0 && board.now < self.computes_until + SEEN_AGAIN_IN
    }

    /// Looks at the running threads besides `me`, one after the other, until one goes round in a loop,
    /// which is returned: none of them is known to be the one that matters.
    pub fn any_goes_round(&mut self, board: &mut Board, me: Slot) -> Option<Slot> {
        let is_running = |slot: Slot| {
            let thread = board.get(slot).filter(|_| slot != me);
            thread.is_some_and(|thread| thread.activity == Activity::Running)
        };
        let is_idle = |slot: Slot| {
            let came_nowhere = board
                .get(slot)
                .is_some_and(|thread| thread.spin.repeated == 0);
            came_nowhere && board.now - self.quiet_since >= IDLE_FOR
        };
        let stays = |slot: &Slot| is_running(*slot) && self.moves <= 3 && !is_idle(*slot);
        let slot = self.watched.filter(stays).or_else(|| {
            let after = self.watched.map_or(0, |slot| slot.0 + 1);
            let mut others = board.slots().filter(|slot| slot.0 >= after);
            others.find(|slot| is_running(*slot))
        });
        if slot != self.watched {
            self.end(board);
            *self = LoopWatch::new();
        }
        slot.filter(|slot| self.goes_round(board, *slot))
    }

    /// For how long the thread has gone round in a loop that only reads; 0 if it does not. A loop that
    /// also writes may be a long computation.
    pub fn only_reads_for(&mut self, board: &mut Board, slot: Slot) -> i64 {
        if self.watched.is_some_and(|watched| watched != slot) {
            self.end(board);
            *self = LoopWatch::new();
        }
        if self.goes_round(board, slot) && !board.thread(slot).spin.does_more {
            board.now - self.quiet_since
        } else {
            0
        }
    }

    /// Whether the thread has come to nothing new since the last look.
    pub fn repeats(&self, board: &Board) -> bool {
        self.watched.is_some_and(|slot| {
            let spin = &board.thread(slot).spin;
            spin.changes == self.changes && spin.repeated >= ENOUGH_READS && !spin.computes()
        })
    }

    /// Whether the thread has met something new again and again, or never came back to anything. One
    /// that has only begun to run since it is watched has not: all is new to it, once.
    pub fn goes_on(&self, board: &Board, slot: Slot) -> bool {
        self.moves > 3 || board.thread(slot).spin.repeated == 0
    }

    /// Stops watching.
    pub fn end(&mut self, board: &mut Board) {
        if let Some(slot) = self.watched.take() {
            board.end_watching(slot);
        }
    }
}
