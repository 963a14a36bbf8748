//! An order that a recording with values keeps (`NORNS_CONSTRAINT`), to see whether a failure comes and
//! goes with it.
//!
//! A thread that comes to one of the places waits by letting others run. It goes on when the constraint
//! allows it, or when nothing has happened for `PATIENCE` turns: what the program cannot do is not asked
//! of it. Which of the two it was shows in the recording.

use core::ffi::c_char;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::control::serial;
use crate::mode;
use crate::thread::{self, Thread};
use crate::wire::environment::{self, Constraint};

/// How often a waiting thread lets others run although none of them does anything, and how often in all.
/// Each time counts as a millisecond for those that sleep.
const PATIENCE: u32 = 20_000;
const MOST_TURNS: u32 = 50_000;
/// The same for a thread that lets others run after its access.
const PATIENCE_AFTER: u32 = 100;
const MOST_TURNS_AFTER: u32 = 5_000;
/// Of so many threads it is known how often they came to a place; of the others every time counts.
const THREADS: usize = 256;

const NONE: u8 = 0;
const ORDER: u8 = 1;
const LAST: u8 = 2;
const BETWEEN: u8 = 3;
const APART: u8 = 4;
const HELD: u8 = 5;

/// A place of the constraint; see `environment::Point`.
struct Place {
    wait: AtomicU64,
    pass: AtomicU64,
    from: AtomicU32,
}

static KIND: AtomicU8 = AtomicU8::new(NONE);
/// In the order of the constraint: first, other or second, last.
static PLACES: [Place; 3] = [const {
    Place {
        wait: AtomicU64::new(0),
        pass: AtomicU64::new(0),
        from: AtomicU32::new(0),
    }
}; 3];
/// The first thread that has passed the first or second place, plus one; with `APART`, the thread that is
/// between the first and the last. 0: none.
static PASSED: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
/// With `HELD`, the thread that lets others run before its next access, plus one.
static HOLDS: AtomicU32 = AtomicU32::new(0);
/// How often each thread has come to where it may have to wait.
static ARRIVALS: [[AtomicU32; 3]; THREADS] = [const { [const { AtomicU32::new(0) }; 3] }; THREADS];
/// How many accesses threads have made.
static PROGRESS: AtomicU64 = AtomicU64::new(0);

/// Reads the constraint from the environment.
///
/// # Safety
/// `variables` is what the C library hands to constructors.
pub unsafe fn begin(variables: *const *const c_char) {
    // SAFETY: the caller promises the environment.
    let value = unsafe { mode::variable(variables, environment::CONSTRAINT) };
    let text = value.and_then(|value| core::str::from_utf8(value).ok());
    let Some(constraint) = text.and_then(Constraint::parse) else {
        return;
    };
    let kind = match constraint {
        Constraint::Order { .. } => ORDER,
        Constraint::Held { .. } => HELD,
        Constraint::Last { .. } => LAST,
        Constraint::Between { .. } => BETWEEN,
        Constraint::Apart { .. } => APART,
    };
    for (place, point) in PLACES.iter().zip(constraint.points()) {
        let Some(point) = point else { continue };
        place.wait.store(point.wait, Ordering::Relaxed);
        place.pass.store(point.pass, Ordering::Relaxed);
        place.from.store(point.from, Ordering::Relaxed);
    }
    KIND.store(kind, Ordering::Relaxed);
}

/// The running thread comes to an access or operation, and may have to wait there. It has the turn.
#[inline(always)]
pub fn arrive(pc: usize) {
    if KIND.load(Ordering::Relaxed) != NONE {
        wait_at(pc as u64);
    }
}

#[cold]
fn wait_at(pc: u64) {
    PROGRESS.fetch_add(1, Ordering::Relaxed);
    let Some(thread) = thread::current() else {
        return;
    };
    let me = thread.number + 1;
    if HOLDS.load(Ordering::Relaxed) == me {
        HOLDS.store(0, Ordering::Relaxed);
        let_others_run(PATIENCE_AFTER, MOST_TURNS_AFTER, || true);
    }
    let counters = Counters::of(thread, pc);
    if waits_here(&counters).contains(&true) {
        let here = waits_here_from_now(&counters, me);
        let_others_run(PATIENCE, MOST_TURNS, || must_wait(here, me));
    }
    pass(&counters, me);
}

/// Lets other threads run while that is wanted, until they did nothing `patience` times.
fn let_others_run(patience: u32, most_turns: u32, is_wanted: impl Fn() -> bool) {
    let (mut idle, mut turns) = (0, 0);
    let mut progress = PROGRESS.load(Ordering::Relaxed);
    while is_wanted() && idle < patience && turns < most_turns {
        serial::preempt();
        let now = PROGRESS.load(Ordering::Relaxed);
        idle = if now == progress { idle + 1 } else { 0 };
        turns += 1;
        progress = now;
    }
}

/// How many calls of functions of a library can lie between a statement of the program and an access.
const CALLS: usize = 8;

/// Where a thread is: the program counter of its access, and those of its innermost calls. Of what an inline function
/// of a library does, the place is the program's call of it.
struct Counters([u64; CALLS + 1]);

impl Counters {
    fn of(thread: &Thread, pc: u64) -> Self {
        let mut counters = [0; CALLS + 1];
        counters[0] = pc;
        let depth = thread.stack.depth.min(thread.stack.frames.len());
        let calls = thread.stack.frames[..depth].iter().rev();
        for (counter, call) in counters[1..].iter_mut().zip(calls) {
            *counter = call.pc as u64;
        }
        Counters(counters)
    }

    fn contains(&self, place: &AtomicU64) -> bool {
        let place = place.load(Ordering::Relaxed);
        place != 0 && self.0.contains(&place)
    }
}

/// For each place, whether threads may have to wait there.
fn waits_here(counters: &Counters) -> [bool; 3] {
    [0, 1, 2].map(|place: usize| counters.contains(&PLACES[place].wait))
}

/// The same, counting this arrival: the first ones may not matter.
fn waits_here_from_now(counters: &Counters, me: u32) -> [bool; 3] {
    let mut here = waits_here(counters);
    for (place, here) in here.iter_mut().enumerate().filter(|(_, here)| **here) {
        if let Some(arrivals) = ARRIVALS.get(me as usize) {
            let times = arrivals[place].fetch_add(1, Ordering::Relaxed) + 1;
            *here = times >= PLACES[place].from.load(Ordering::Relaxed);
        }
    }
    here
}

fn passed(place: usize) -> u32 {
    PASSED[place].load(Ordering::Relaxed)
}

fn must_wait(here: [bool; 3], me: u32) -> bool {
    let other_at = |place| passed(place) != 0 && passed(place) != me;
    match KIND.load(Ordering::Relaxed) {
        ORDER | HELD => here[1] && !other_at(0),
        LAST => here[0],
        // Two threads can run the same code: who has passed the first place is the one in between.
        BETWEEN if passed(0) == me => here[2] && !other_at(1),
        BETWEEN => here[1] && !other_at(0),
        APART => (here[0] || here[1]) && other_at(0),
        _ => false,
    }
}

fn pass(counters: &Counters, me: u32) {
    let waits = |place: usize| counters.contains(&PLACES[place].wait);
    let passes = |place: usize| counters.contains(&PLACES[place].pass);
    let set = |place: usize| {
        let passed = &PASSED[place];
        let was_first = passed.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed);
        was_first.is_ok()
    };
    match KIND.load(Ordering::Relaxed) {
        APART => {
            if passes(2) && passed(0) == me {
                PASSED[0].store(0, Ordering::Relaxed);
            }
            if waits(0) || (waits(1) && passed(0) != me) {
                // Who did not come to the last place in all that time is not waited for again.
                PASSED[0].store(if waits(0) { me } else { 0 }, Ordering::Relaxed);
            }
        }
        ORDER | HELD | BETWEEN => {
            let is_in_between = passed(0) == me;
            if passes(0) && set(0) && KIND.load(Ordering::Relaxed) == HELD {
                HOLDS.store(me, Ordering::Relaxed);
            }
            if passes(1) && !is_in_between {
                set(1);
            }
        }
        _ => {}
    }
}
