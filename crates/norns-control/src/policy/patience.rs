//! For how long a thread that is held, or waits for its turn, waits for another one.
//!
//! By the clock and by processor time: on a busy machine the other thread may not have run at all. Where
//! the schedule says how long the recorded run took, times are of that order.

use crate::board::{Board, Schedule};
use crate::event::Question;
use crate::thread::{Activity, Slot};

pub const MILLISECOND: i64 = 1_000_000;
pub const HELD_FOR: Patience = Patience {
    wall: 1500 * MILLISECOND,
    processor: 300 * MILLISECOND,
    longest: 10_000 * MILLISECOND,
};
/// After so many lingers threads linger half as long, after twice as many a third, and so on.
const OFTEN: u32 = 10;
const LINGERS_FOR: Patience = Patience {
    wall: 30 * MILLISECOND,
    processor: 10 * MILLISECOND,
    longest: 400 * MILLISECOND,
};
pub const SEEN_TO_PASS: Patience = Patience {
    wall: 60 * MILLISECOND,
    processor: 20 * MILLISECOND,
    longest: 3000 * MILLISECOND,
};
/// A thread that hardly gets to run, at the lowest priority of a busy machine, needs seconds.
pub const READER_WATCHED_FOR: Patience = Patience {
    wall: 1500 * MILLISECOND,
    processor: 20 * MILLISECOND,
    longest: 6000 * MILLISECOND,
};

/// How long to wait for another thread: on a busy machine it may not have run at all.
pub struct Patience {
    wall: i64,
    /// Of the thread that is waited for, or of the whole process.
    processor: i64,
    longest: i64,
}

/// Since when a thread waits, by the clock and by the processor time of another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    pub since: i64,
    /// Whose processor time; `None` is the whole process.
    pub of: Option<Slot>,
    /// What that was at the first look.
    processor: Option<i64>,
}

impl Wait {
    /// Of a thread that does not wait.
    pub const NEVER: Wait = Wait {
        since: 0,
        of: None,
        processor: None,
    };

    pub fn begin(board: &mut Board, me: Slot, of: Option<Slot>) -> Self {
        // What was asked before is the time of another thread.
        board.thread_mut(me).facts.processor_time = None;
        Wait {
            since: board.now,
            of,
            processor: None,
        }
    }

    /// The processor time, asked of the kernel once a look.
    pub fn processor(&mut self, board: &Board, me: Slot) -> Result<i64, Question> {
        let facts = board.thread(me).facts;
        let processor = facts
            .processor_time
            .ok_or(Question::ProcessorTime(self.of))?;
        self.processor.get_or_insert(processor);
        Ok(processor)
    }

    pub fn is_enough(&self, patience: &Patience, now: i64, processor: i64) -> bool {
        let wall = now - self.since;
        let used = processor - self.processor.unwrap_or(processor);
        wall >= patience.longest || wall >= patience.wall && used >= patience.processor
    }
}

/// How long a thread lingers: for a fraction of the time that the recorded run took, where that is
/// known, so that all who linger prolong the run a few times at most. At one of many places less, and
/// less the more often threads have lingered in vain.
pub fn lingers_for(board: &Board, lingered: u32) -> Patience {
    let schedule = board.schedule.unwrap_or(Schedule::empty());
    let fraction = |part: i64| match schedule.pace {
        0 => i64::MAX,
        pace => pace / part,
    };
    if schedule.hunts.len() > 2 {
        let longest = fraction(50).clamp(2 * MILLISECOND, LINGERS_FOR.wall);
        return Patience {
            wall: longest,
            longest,
            ..LINGERS_FOR
        };
    }
    let longest = fraction(10).clamp(2 * LINGERS_FOR.wall, LINGERS_FOR.longest);
    let part = 1 + i64::from(lingered / OFTEN);
    Patience {
        wall: LINGERS_FOR.wall / part,
        processor: LINGERS_FOR.processor / part,
        longest: longest / part,
    }
}

/// How long a thread is held for another one that is seen to compute: that will come when it is done, but
/// computes several times as long as in the recorded run.
pub fn held_while_computing(board: &Board) -> Patience {
    const SLOWER: i64 = 15;
    let pace = board.schedule.map_or(0, |schedule| schedule.pace);
    let longest = pace
        .saturating_mul(SLOWER)
        .clamp(HELD_FOR.longest, 6 * HELD_FOR.longest);
    Patience {
        wall: longest,
        longest,
        ..HELD_FOR
    }
}

/// At how many looks in a row a thread that others have waited for must be asleep to be given up.
pub const IDLE_LOOKS: u32 = 5;
/// For how long others wait for a thread before they look whether it is asleep, in nanoseconds.
const WAITS_AT_LEAST: i64 = 600_000_000;
const WAITS_AT_MOST: i64 = 10_000_000_000;

/// The same for the threads that run outside the schedule from then on.
pub const OUTSIDERS_LOOKS: u32 = 2;
pub const OUTSIDERS_WAIT: i64 = 200 * MILLISECOND;

/// For how long others wait for a thread that sleeps before they give the schedule up, in nanoseconds.
pub fn standstill(board: &Board) -> i64 {
    let pace = board.schedule.map_or(0, |schedule| schedule.pace);
    pace.clamp(WAITS_AT_LEAST, WAITS_AT_MOST)
}

/// Counts the looks at which a thread that others wait for, since so long, is asleep in the kernel: it
/// polls with pauses, or waits for what nobody controls. One that does not get the processor is not
/// asleep. Nothing is counted before the wait has taken its patience.
pub fn idle_looks(
    board: &Board,
    me: Slot,
    awaited: Slot,
    (since, patience): (i64, i64),
    looks: u32,
) -> Result<u32, Question> {
    let is_running = board.thread(awaited).activity == Activity::Running;
    if !is_running || board.now - since < patience {
        return Ok(0);
    }
    let facts = board.thread(me).facts;
    let (_, asleep, _) = facts.turn_holder.ok_or(Question::TurnHolder(awaited))?;
    Ok(if asleep { looks + 1 } else { 0 })
}
