//! Who waits for whom: cycles of lock holders, and the state in which no thread can go on.
//!
//! Both are facts at the moment of asking: a blocked thread is one whose last attempt failed and
//! whose object has not changed since, and a lock is in the list of its holder from the moment at
//! which it was taken until just before it is released. Threads whose wait ends by a time-out take
//! part in neither.

use norns_wire::Code;

use crate::board::Board;
use crate::thread::{Activity, Slot, Thread};

const LONGEST: usize = 256;

/// Threads each of which waits for a lock that the next one holds, the last one for the first.
pub struct Cycle {
    slots: [Slot; LONGEST],
    length: usize,
}

impl Cycle {
    pub fn slots(&self) -> &[Slot] {
        &self.slots[..self.length]
    }
}

fn blocked_on_lock(thread: &Thread) -> Option<usize> {
    match thread.activity {
        Activity::Blocked {
            operation,
            timed: false,
        } if matches!(operation.code, Code::Lock | Code::ReadLock) => Some(operation.address),
        _ => None,
    }
}

/// The cycle through `me`, if `me` waits for a lock whose holder waits, and so on back to `me`.
/// Depth-first over the holders, without recursion: `next` has where to look on at each depth.
pub(crate) fn find_cycle(board: &Board, me: Slot) -> Option<Cycle> {
    let mut cycle = Cycle {
        slots: [me; LONGEST],
        length: 0,
    };
    let mut next = [0u32; LONGEST];
    // Threads from which no way leads back were visited in vain: a thread is entered once.
    let mut visited = Visited::default();
    blocked_on_lock(board.thread(me))?;
    cycle.length = 1;
    while cycle.length > 0 {
        let depth = cycle.length - 1;
        let wanted = blocked_on_lock(board.thread(cycle.slots[depth]));
        let holder = wanted.and_then(|lock| {
            let mut rest = board.threads().skip_while(|(slot, _)| slot.0 < next[depth]);
            let found = rest.find(|(_, thread)| thread.held.contains(lock))?;
            Some(found.0)
        });
        let Some(holder) = holder else {
            cycle.length -= 1;
            continue;
        };
        next[depth] = holder.0 + 1;
        if holder == me {
            return Some(cycle);
        }
        let is_blocked = blocked_on_lock(board.thread(holder)).is_some();
        if is_blocked && cycle.length < LONGEST && visited.insert(holder) {
            cycle.slots[cycle.length] = holder;
            next[cycle.length] = 0;
            cycle.length += 1;
        }
    }
    None
}

/// A set of threads, as one bit each.
struct Visited([u64; crate::MOST_THREADS / 64]);

impl Default for Visited {
    fn default() -> Self {
        Visited([0; crate::MOST_THREADS / 64])
    }
}

impl Visited {
    /// False when it was in already.
    fn insert(&mut self, slot: Slot) -> bool {
        let word = &mut self.0[slot.index() / 64];
        let bit = 1 << (slot.index() % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

/// Whether every thread has ended or waits, without a time-out, for another.
pub(crate) fn all_blocked(board: &Board) -> bool {
    board
        .threads()
        .all(|(_, thread)| thread.activity == Activity::Ended || thread.is_blocked())
}

/// Whether no thread goes on before one that is held does, or the next step of the schedule is
/// done, provided that all threads that seem to run sleep: the caller asks the kernel about those.
pub(crate) fn nobody_runs_if_asleep(board: &Board) -> bool {
    let next = board.head().map(|step| step.thread);
    board.threads().all(|(_, thread)| match thread.activity {
        Activity::Ended | Activity::Held => true,
        Activity::Blocked { timed, .. } => !timed,
        Activity::AtPoint | Activity::Waits => {
            let is_next = next == thread.scheduled && thread.alive;
            next.is_some() && !is_next
        }
        Activity::Running => thread.alive,
    })
}

/// How often no thread must be seen to run before that is believed, and nanoseconds between two
/// looks. The kernel is asked about one thread after the other, so that threads that wait for each
/// other in turn, as for a lock of the C library, can look as if all slept.
pub(crate) const ASLEEP_LOOKS: u32 = 4;
pub(crate) const ASLEEP_LOOK: i64 = 20_000_000;
