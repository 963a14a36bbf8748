//! The task of a guarded run: makes the order that it asks for, and finds out whether anything else orders its two
//! accesses. Sections 3.3.2 and 3.3.3 of Kasikci (2015).
//!
//! ```text
//!        first access comes                      all threads are behind it, or a limit
//! IDLE ─────────────────────▶ OBSERVED ────────────────────────────────────────▶ IDLE
//!   │  second access comes        │ second access, in a thread that is not behind the first
//!   ▼                             ▼
//!  HELD ──first access comes───▶ OVER: a race
//!   └──time-out, then as if the order did not count──▶ OBSERVED
//! ```
//!
//! A thread that is held stands before its access while another one comes to the other access of the same address: whatever
//! orders threads in this program has not ordered these two (`Evidence::Met`). Behind an access that was observed,
//! a race rests on all synchronisation having been seen, so it is concluded only where the runtime
//! knows all code of the program (`Evidence::Unordered`).
//!
//! Observing costs a little time in every synchronisation operation, so it pauses for many times as long as it has taken;
//! a thread can be held meanwhile.
//! A task ends with a race, after its time-out, or when `INSTANCES` accesses were found ordered.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::order::{Level, Number};
use super::own::{Hold, LOCKS, Own};
use super::site::{self, Passage};
use super::{TABLE, stack};
use crate::control::{futex, kernel};
use crate::lock::Lock;
use crate::mode;
use crate::sys;
use crate::wire::guarding::{
    Attempt, Counter, Evidence, NOTHING, Outcome, Shared, Side, Stack, Task,
};

use Ordering::{Acquire, Relaxed, Release};

/// After so many accesses behind which everything was ordered the task ends.
const INSTANCES: u32 = 8;
/// How often a thread may be let go before its time because others need what it has locked.
const ABANDONED: u32 = 4;
/// About how many ticks of the processor's counter are a microsecond.
const TICKS: u64 = 2500;
/// The longest observation, about 200 ms.
const LONGEST: u64 = 200_000 * TICKS;
/// For how many times as long nothing is observed after an observation, and at least a millisecond.
const PAUSE: u64 = 30;
const SHORTEST_PAUSE: u64 = 1000 * TICKS;
/// When sites that went to sleep in a tight loop are woken again.
const SLEEP: u64 = 20_000 * TICKS;
/// How many threads can be known to be ordered.
const THREADS: usize = 512;

mod phase {
    pub const IDLE: u8 = 0;
    pub const HELD: u8 = 1;
    pub const OBSERVED: u8 = 2;
    pub const OVER: u8 = 3;
}

static PHASE: AtomicU8 = AtomicU8::new(phase::OVER);
/// Whether orders are observed: the phase is `OBSERVED`.
static OBSERVED: AtomicBool = AtomicBool::new(false);
static NUMBER: AtomicU32 = AtomicU32::new(0);
static FIRST: AtomicU32 = AtomicU32::new(NOTHING);
static SECOND: AtomicU32 = AtomicU32::new(NOTHING);
/// The access that was observed, or before which a thread is held.
static SITE: AtomicU32 = AtomicU32::new(0);
static THREAD: AtomicU32 = AtomicU32::new(0);
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static SIZE: AtomicUsize = AtomicUsize::new(0);
/// The locks of the thread that is held.
static LOCKS_OF_HELD: [AtomicUsize; LOCKS] = [const { AtomicUsize::new(0) }; LOCKS];
/// Whether a thread may still be made to wait.
static CAN_HOLD: AtomicBool = AtomicBool::new(false);
/// The last observation in which something was missed.
static DOUBTED: AtomicU32 = AtomicU32::new(0);
/// When the next observation may begin, and when the present one ends.
static NOT_BEFORE: AtomicU64 = AtomicU64::new(0);
static ENDS: AtomicU64 = AtomicU64::new(0);
/// When a thread may be held next. What observing costs is no reason not to.
static HOLD_NOT_BEFORE: AtomicU64 = AtomicU64::new(0);
/// When sites are to be woken; 0 if none sleep.
static WAKES: AtomicU64 = AtomicU64::new(0);
/// The threads that are behind the access.
static BEHIND: [AtomicU32; THREADS] = [const { AtomicU32::new(0) }; THREADS];
static BEHIND_COUNT: AtomicUsize = AtomicUsize::new(0);

/// What a thread that is held waits for: this word changes to one of `hold`.
static HOLD: AtomicU32 = AtomicU32::new(hold::NONE);

mod hold {
    pub const NONE: u32 = 0;
    pub const WAITS: u32 = 1;
    /// The other access came.
    pub const MET: u32 = 2;
    /// Others need what the thread has locked, or the task has changed.
    pub const GOES_ON: u32 = 3;
}

struct State {
    task: Task,
    /// The access of `SITE`.
    side: Side,
    is_atomic: bool,
    begun: u64,
    /// Since when a thread is held, on the monotonic clock.
    held_since: i64,
    /// A second access came behind the first, or perhaps behind it.
    saw_second: bool,
    saw_unclear: bool,
    /// Of how many accesses everything was behind.
    ordered: u32,
    abandoned: u32,
    /// A thread was held in vain, for so long.
    timed_out: bool,
    waited_ns: u64,
}

impl State {
    const fn new(task: Task) -> Self {
        State {
            task,
            side: Side::NONE,
            is_atomic: false,
            begun: 0,
            held_since: 0,
            saw_second: false,
            saw_unclear: false,
            ordered: 0,
            abandoned: 0,
            timed_out: false,
            waited_ns: 0,
        }
    }
}

static STATE: Lock<State> = Lock::new(State::new(Task::NONE));

fn ticks() -> u64 {
    // SAFETY: the instruction only reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[inline(always)]
pub fn is_observed() -> bool {
    OBSERVED.load(Acquire)
}

pub fn number() -> Number {
    NUMBER.load(Acquire)
}

/// Whether a thread that wants this lock would wait for the thread that is held.
pub fn keeps_waiting(wanted: Hold) -> bool {
    let has = |word: &AtomicUsize| Hold::unpacked(word.load(Relaxed)).excludes(wanted);
    PHASE.load(Relaxed) == phase::HELD && LOCKS_OF_HELD.iter().any(has)
}

/// Lets the thread that is held go on.
pub fn let_go() {
    if HOLD
        .compare_exchange(hold::WAITS, hold::GOES_ON, Relaxed, Relaxed)
        .is_ok()
    {
        futex::wake(&HOLD, 1);
    }
}

/// Whether the memory of the observed access lies there: it begins a new life, in which that access does not count.
pub fn is_observed_in(address: usize, size: usize) -> bool {
    is_observed() && ADDRESS.load(Relaxed).wrapping_sub(address) < size
}

/// Takes another task, or none. What came of the one before is told first.
pub fn apply(shared: Shared, task: Task) {
    let_go();
    STATE.with(|state| {
        if state.task.serial == task.serial {
            return;
        }
        conclude(shared, state);
        *state = State::new(task);
        FIRST.store(task.first, Relaxed);
        SECOND.store(task.second, Relaxed);
        CAN_HOLD.store(task.tau_ms > 0, Relaxed);
        NOT_BEFORE.store(0, Relaxed);
        HOLD_NOT_BEFORE.store(0, Relaxed);
        WAKES.store(0, Relaxed);
        if task.is_none() {
            site::sleep();
        } else {
            PHASE.store(phase::IDLE, Release);
            site::wake(task.first, task.second);
        }
        shared.apply(task.serial);
    });
}

/// Sites were added: those of the task are among them, perhaps.
pub fn sites_are_known() {
    STATE.with(|state| {
        if !state.task.is_none() && PHASE.load(Relaxed) != phase::OVER {
            site::wake(state.task.first, state.task.second);
        }
    });
}

/// The serial of the task that is active, or was last.
pub fn serial() -> u64 {
    STATE.with(|state| state.task.serial)
}

/// The process ends: what is known of the task is told.
pub fn process_ends(shared: Shared) {
    STATE.with(|state| conclude(shared, state));
}

/// Ends the task, if it goes on, with what is known so far.
fn conclude(shared: Shared, state: &mut State) {
    if PHASE.load(Relaxed) == phase::OVER {
        return;
    }
    stop_observing(shared, state, End::Unknown);
    if state.timed_out {
        over(shared, state, Outcome::Timeout);
    } else if state.ordered > 0 {
        over(shared, state, Outcome::NoRace);
    }
    PHASE.store(phase::OVER, Release);
}

/// The task has come to its end.
fn over(shared: Shared, state: &State, outcome: Outcome) {
    finish(shared, state, outcome, Evidence::None, [Side::NONE; 2]);
}

fn finish(shared: Shared, state: &State, outcome: Outcome, evidence: Evidence, sides: [Side; 2]) {
    PHASE.store(phase::OVER, Release);
    site::sleep();
    if evidence == Evidence::Met {
        stack::read_maps(shared, site::has_code);
    }
    shared.attempt(Attempt {
        index: 0,
        serial: state.task.serial,
        outcome,
        evidence,
        waited_ns: state.waited_ns,
        sides,
    });
    mode::rests();
}

/// In the child process after a fork.
pub fn forget() {
    PHASE.store(phase::OVER, Relaxed);
    OBSERVED.store(false, Relaxed);
    HOLD.store(hold::NONE, Relaxed);
    site::observe(false);
    site::sleep();
    STATE.force(|state| *state = State::new(Task::NONE));
}

/// The running thread is about to make an access of the task.
pub fn arrives(shared: Shared, own: &mut Own, passage: &Passage) {
    match PHASE.load(Acquire) {
        phase::IDLE => begins(shared, own, passage),
        phase::HELD => meets(shared, own, passage),
        phase::OBSERVED => follows(shared, own, passage),
        _ => {}
    }
}

/// Whether this access and that of `SITE` are the two of the task, by different threads, on the same memory.
fn is_other(own: &mut Own, passage: &Passage) -> bool {
    let (mine, its) = (passage.site.number, SITE.load(Relaxed));
    let (first, second) = (FIRST.load(Relaxed), SECOND.load(Relaxed));
    let (address, size) = (ADDRESS.load(Relaxed), SIZE.load(Relaxed));
    let overlaps = passage.address < address.wrapping_add(size)
        && address < passage.address.wrapping_add(passage.size);
    overlaps
        && ([mine, its] == [first, second] || [mine, its] == [second, first])
        && own.id() != THREAD.load(Relaxed)
}

/// Whether two accesses of different threads to the same memory conflict.
fn conflict(state: &State, passage: &Passage) -> bool {
    (state.side.writes || passage.writes) && !(state.is_atomic && passage.site.is_atomic())
}

fn side(own: &mut Own, passage: &Passage) -> Side {
    Side {
        site: passage.site.number,
        thread: own.id(),
        writes: passage.writes,
        address: passage.address as u64,
        size: passage.size.min(u32::MAX as usize) as u32,
        stack: Stack::EMPTY,
    }
}

fn side_with_stack(own: &mut Own, passage: &Passage) -> Side {
    Side {
        stack: stack::of(passage.pc, passage.stack_pointer),
        ..side(own, passage)
    }
}

/// Remembers an access as the one that counts.
fn remember(state: &mut State, side: Side, passage: &Passage) {
    SITE.store(side.site, Relaxed);
    THREAD.store(side.thread, Relaxed);
    ADDRESS.store(passage.address, Relaxed);
    SIZE.store(passage.size, Relaxed);
    state.side = side;
    state.is_atomic = passage.site.is_atomic();
}

fn begins(shared: Shared, own: &mut Own, passage: &Passage) {
    let now = ticks();
    let is_second = passage.site.number == SECOND.load(Relaxed);
    let wants_hold = is_second && CAN_HOLD.load(Relaxed);
    let not_before = match wants_hold {
        true => &HOLD_NOT_BEFORE,
        false => &NOT_BEFORE,
    };
    if now < not_before.load(Relaxed) {
        return;
    }
    let locks = own.locks;
    let locks = own.held().map(|held| &locks[..held.len()]);
    let keeps_others = || locks.is_none_or(|locks| locks.iter().any(|it| is_waited_for(it.lock)));
    if !has_threads() || wants_hold && keeps_others() {
        // That is mostly so for a while: a program often begins with one thread.
        not_before.store(now + SHORTEST_PAUSE / 10, Relaxed);
        return;
    }
    let side = side_with_stack(own, passage);
    let held_for = STATE.with(|state| {
        if PHASE.load(Relaxed) != phase::IDLE {
            return None;
        }
        remember(state, side, passage);
        if !wants_hold {
            observe(shared, own, state);
            return None;
        }
        for (at, kept) in LOCKS_OF_HELD.iter().enumerate() {
            let lock = locks.and_then(|locks| locks.get(at)).copied();
            kept.store(lock.unwrap_or(Hold::NONE).packed(), Relaxed);
        }
        state.held_since = futex::now(futex::MONOTONIC);
        HOLD.store(hold::WAITS, Relaxed);
        PHASE.store(phase::HELD, Release);
        Some(i64::from(state.task.tau_ms) * 1_000_000)
    });
    if let Some(nanoseconds) = held_for {
        hold(shared, own, side, passage, nanoseconds);
    }
}

/// Holds the running thread before the second access until the first comes, or the time is over.
fn hold(shared: Shared, own: &mut Own, side: Side, passage: &Passage, nanoseconds: i64) {
    /// How long the second access stays behind the first, which is about to be made.
    const BEHIND: i64 = 50_000;
    shared.hold(&side.stack);
    shared.count(Counter::Held, 1);
    let begin = futex::now(futex::MONOTONIC);
    let mut waited = 0;
    while waited < nanoseconds && HOLD.load(Acquire) == hold::WAITS {
        futex::wait(&HOLD, hold::WAITS, Some(nanoseconds - waited));
        waited = futex::now(futex::MONOTONIC) - begin;
    }
    let came = STATE.with(|state| {
        let came = HOLD.swap(hold::NONE, Relaxed);
        state.waited_ns += waited as u64;
        match came {
            hold::WAITS => {
                state.timed_out = true;
                CAN_HOLD.store(false, Relaxed);
                remember(state, side, passage);
                observe(shared, own, state);
            }
            hold::GOES_ON if PHASE.load(Relaxed) == phase::HELD => {
                state.abandoned += 1;
                if state.abandoned == ABANDONED {
                    CAN_HOLD.store(false, Relaxed);
                }
                PHASE.store(phase::IDLE, Release);
            }
            _ => {}
        }
        came
    });
    if came == hold::MET {
        futex::wait(&HOLD, hold::NONE, Some(BEHIND));
    }
    shared.count(Counter::Released, 1);
    shared.count(Counter::WaitedNs, waited as u64);
}

/// A thread is held. If the running one is about to make the other access, nothing orders the two.
fn meets(shared: Shared, own: &mut Own, passage: &Passage) {
    if !is_other(own, passage) {
        return;
    }
    let side = side_with_stack(own, passage);
    let met = STATE.with(|state| {
        let waits = PHASE.load(Relaxed) == phase::HELD && HOLD.load(Relaxed) == hold::WAITS;
        if !waits || !is_other(own, passage) || !conflict(state, passage) {
            return false;
        }
        let sides = [side, state.side];
        state.waited_ns += (futex::now(futex::MONOTONIC) - state.held_since) as u64;
        finish(shared, state, Outcome::Race, Evidence::Met, sides);
        HOLD.store(hold::MET, Release);
        true
    });
    if met {
        futex::wake(&HOLD, 1);
    }
}

/// An access was observed. If the running thread is about to make the other one and is not behind the first, it races.
fn follows(shared: Shared, own: &mut Own, passage: &Passage) {
    if !is_other(own, passage) {
        return;
    }
    let level = own.known.level;
    let (side, is_foreign) = match level {
        Level::Free => {
            // Libraries may have been loaded since.
            stack::read_maps(shared, site::has_code);
            (side_with_stack(own, passage), stack::has_foreign_code())
        }
        Level::Perhaps | Level::Behind => (side(own, passage), false),
    };
    STATE.with(|state| {
        let is_now = PHASE.load(Relaxed) == phase::OBSERVED && number() == own.known.number;
        if !is_now || !is_other(own, passage) || !conflict(state, passage) {
            return;
        }
        let is_doubted = DOUBTED.load(Relaxed) == own.known.number;
        let is_unclear = level == Level::Perhaps || is_foreign || is_doubted;
        if is_unclear || level == Level::Behind {
            state.saw_second |= !is_unclear;
            state.saw_unclear |= is_unclear;
            return;
        }
        let sides = [state.side, side];
        stop_observing(shared, state, End::Unknown);
        finish(shared, state, Outcome::Race, Evidence::Unordered, sides);
    });
}

/// Observes what is ordered behind the access that the running thread is about to make.
fn observe(shared: Shared, own: &mut Own, state: &mut State) {
    let next = NUMBER.load(Relaxed).wrapping_add(1);
    TABLE.prepare(next);
    NUMBER.store(next, Release);
    BEHIND_COUNT.store(0, Relaxed);
    (state.saw_second, state.saw_unclear) = (false, false);
    state.begun = ticks();
    ENDS.store(state.begun + LONGEST, Relaxed);
    OBSERVED.store(true, Release);
    site::observe(true);
    PHASE.store(phase::OBSERVED, Release);
    own.begins_behind(next);
    note_behind(own.id());
    shared.count(Counter::Observations, 1);
}

fn note_behind(thread: u32) {
    let at = BEHIND_COUNT.fetch_add(1, Relaxed);
    if let Some(room) = BEHIND.get(at) {
        room.store(thread, Relaxed);
    }
}

fn stop_observing(shared: Shared, state: &mut State, how: End) {
    if !OBSERVED.swap(false, Relaxed) {
        return;
    }
    let is_ordered = how == End::AllBehind || state.saw_second;
    state.ordered += u32::from(is_ordered && !state.saw_unclear);
    site::observe(false);
    let now = ticks();
    let lasted = now.saturating_sub(state.begun);
    NOT_BEFORE.store(now + (PAUSE * lasted).max(SHORTEST_PAUSE), Relaxed);
    shared.count(Counter::ObservedNs, lasted * 1000 / TICKS);
}

/// A hook was passed over, by a signal handler that has interrupted another one.
pub fn doubt() {
    if is_observed() {
        DOUBTED.store(number(), Relaxed);
    }
}

/// How an observation ends without a race.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    AllBehind,
    /// The limit has come, or what was observed is not understood, or its memory is used for something else.
    Unknown,
}

/// Ends the observation with this number.
pub fn end(shared: Shared, number: Number, how: End) {
    STATE.with(|state| {
        if PHASE.load(Relaxed) != phase::OBSERVED || NUMBER.load(Relaxed) != number {
            return;
        }
        stop_observing(shared, state, how);
        PHASE.store(phase::IDLE, Release);
        if state.timed_out {
            over(shared, state, Outcome::Timeout);
        } else if state.ordered >= INSTANCES {
            over(shared, state, Outcome::NoRace);
        }
    });
}

/// A thread is behind the access now. If all are, the observation has its result.
#[cold]
pub fn is_behind(shared: Shared, thread: u32, number: Number) {
    note_behind(thread);
    let count = BEHIND_COUNT.load(Relaxed).min(THREADS);
    if (count as u64) < thread_count() {
        return;
    }
    let mut are_all = true;
    kernel::each_thread(|id| {
        are_all &= BEHIND[..count]
            .iter()
            .any(|it| it.load(Relaxed) == id as u32);
    });
    if are_all {
        end(shared, number, End::AllBehind);
    }
}

/// What has to be done once in a while.
pub fn tick(shared: Shared) {
    let now = ticks();
    if is_observed() && now > ENDS.load(Relaxed) {
        end(shared, number(), End::Unknown);
    }
    let wakes = WAKES.load(Relaxed);
    if wakes != 0 && now > wakes && WAKES.compare_exchange(wakes, 0, Relaxed, Relaxed).is_ok() {
        sites_are_known();
    }
}

/// A site of the task went to sleep, since it was passed too often.
pub fn sleeps() {
    let _ = WAKES.compare_exchange(0, ticks() + SLEEP, Relaxed, Relaxed);
}

/// Whether some thread waits for this lock, as far as a mutex tells.
fn is_waited_for(lock: usize) -> bool {
    const CONTENDED: u32 = 2;
    let mut word = [0; 4];
    crate::sites::read_memory(lock, &mut word) && u32::from_ne_bytes(word) == CONTENDED
}

fn has_threads() -> bool {
    thread_count() > 1
}

/// How many threads the process has: `/proc/self/task` has a link for each of them, and two more.
fn thread_count() -> u64 {
    const STAT: usize = 4;
    const LINKS: usize = 2;
    let mut status = [0u64; 18];
    // SAFETY: the kernel reads the path and writes a `struct stat`: 144 bytes.
    unsafe {
        sys::call(
            STAT,
            c"/proc/self/task".as_ptr() as usize,
            status.as_mut_ptr() as usize,
            0,
        )
    };
    status[LINKS].saturating_sub(2)
}
