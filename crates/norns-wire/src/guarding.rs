//! The memory that a guarded program and its agent share: a file of `SIZE` bytes that the runtime maps and
//! the agent reads and writes. It stays readable when the program is killed.
//!
//! The agent keeps spare files in a folder (`environment::GUARD`), with the task already in them. A process takes
//! one by renaming it from `BUILD-N`, N below `SPARES`, to `BUILD-run-PID`; where there is none, it runs as if it
//! was not guarded, and leaves the path of its executable in the file `want-BUILD`, so that the agent can guard the
//! next process of that build. A file belongs to one process: a forked child lets go of it, a program that is started
//! by `exec` takes another one.
//!
//! Everything is a little-endian word of 8 bytes. There is no lock. What consists of several words (`Task`,
//! `Attempt`, `Failure`) begins with a checksum that is written last and cleared first: a reader that meets a
//! half-written record, or one that somebody has forged, takes it as not there. Counters only grow.
//!
//! The agent changes the task by writing it and then `ATTENTION` at `ATTENTION_AT`: the runtime looks at that byte
//! in every interposed function, and nowhere else. `Shared` is the runtime's side, `View` the agent's.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};

use crate::code::bytes;

/// `NRNguard` in the file.
const MAGIC: u64 = u64::from_le_bytes(*b"NRNguard");
const VERSION: u64 = 1;

/// How many spare files of a build the agent keeps.
pub const SPARES: u32 = 4;
/// How the names of files begin in which programs ask for spare files of their builds.
pub const WANTED: &str = "want-";
/// The most return addresses of a stack.
pub const FRAMES: usize = 32;
/// How many attempts can wait for the agent.
pub const ATTEMPTS: usize = 16;
/// How many different pairs of sites are kept.
pub const PAIRS: usize = 4096;
/// The most of `/proc/self/maps` that is kept, in bytes.
pub const MAPS: usize = 48 * 1024;
/// The longest id of a build.
const BUILD: usize = 64;

// Positions of words. The first page is what the agent writes to.
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 1;
const STATE_AT: usize = 2;
const PROCESS_AT: usize = 3;
const STARTED_AT: usize = 4;
const STATUS_AT: usize = 5;
const NEWS_AT: usize = 6;
const MAPS_AT: usize = 7;
const ATTENTION_WORD: usize = 8;
const BUILD_AT: usize = 16;
const TASK_WORD: usize = 24;
const APPLIED_AT: usize = 32;
const TAKEN_AT: usize = 33;
const WRITTEN_AT: usize = 40;
const LOST_AT: usize = 41;
const COUNTERS_AT: usize = 48;
const FAILURE_WORD: usize = 64;
const FAILURE_WORDS: usize = 5 + STACK_WORDS;
const HELD_AT: usize = FAILURE_WORD + FAILURE_WORDS;
const PAGE: usize = 512;
const _: () = assert!(HELD_AT + STACK_WORDS <= PAGE);
const ATTEMPTS_AT: usize = PAGE;
const STACK_WORDS: usize = 1 + FRAMES;
const SIDE_WORDS: usize = 3 + STACK_WORDS;
const ATTEMPT_WORDS: usize = 5 + 2 * SIDE_WORDS;
const PAIRS_AT: usize = ATTEMPTS_AT + ATTEMPTS * ATTEMPT_WORDS;
const TEXT_AT: usize = PAIRS_AT + PAIRS;
/// Two texts, so that one is whole while the other is written.
const TEXT_WORDS: usize = MAPS / 8;
const WORDS: usize = (TEXT_AT + 2 * TEXT_WORDS).div_ceil(PAGE) * PAGE;

/// The size of the file, in bytes: whole pages.
pub const SIZE: usize = 8 * WORDS;

/// The byte that says that the runtime is to look at the task. It is on the first page.
pub const ATTENTION_AT: usize = 8 * ATTENTION_WORD;
/// What the agent writes there. The runtime sets the byte back to 0 when it has nothing to do.
pub const ATTENTION: u8 = 2;
/// Where `Task::encode` goes.
pub const TASK_AT: usize = 8 * TASK_WORD;
const TASK_WORDS: usize = 5;
pub const TASK_BYTES: usize = 8 * TASK_WORDS;
/// Where the agent writes how many attempts it has read, as 8 bytes: their places are used again.
pub const TAKEN_BYTES_AT: usize = 8 * TAKEN_AT;

/// What the program is to try. Serial 0 is no task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The agent's number of this version of the task; it grows with every change.
    pub serial: u64,
    /// The site that is to be passed first, and the one that waits for it. `NOTHING` in both switches off.
    pub first: u32,
    pub second: u32,
    /// How long a thread may be made to wait, in milliseconds.
    pub tau_ms: u32,
}

/// No site.
pub const NOTHING: u32 = u32::MAX;

impl Task {
    pub const NONE: Task = Task::none(0);

    /// No task from now on.
    pub const fn none(serial: u64) -> Self {
        Task {
            serial,
            first: NOTHING,
            second: NOTHING,
            tau_ms: 0,
        }
    }

    pub fn is_none(&self) -> bool {
        self.first == NOTHING || self.second == NOTHING
    }

    pub fn encode(&self) -> [u8; TASK_BYTES] {
        let words = [
            self.serial,
            u64::from(self.first),
            u64::from(self.second),
            u64::from(self.tau_ms),
        ];
        let mut out = [0; TASK_BYTES];
        out[..8].copy_from_slice(&sum(words).to_le_bytes());
        for (at, word) in words.iter().enumerate() {
            out[8 * (at + 1)..8 * (at + 2)].copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    fn decode(word: impl Fn(usize) -> u64) -> Option<Self> {
        let words: [u64; TASK_WORDS - 1] = core::array::from_fn(|at| word(TASK_WORD + 1 + at));
        (word(TASK_WORD) == sum(words)).then_some(Task {
            serial: words[0],
            first: words[1] as u32,
            second: words[2] as u32,
            tau_ms: words[3] as u32,
        })
    }
}

bytes! {
    /// Where the process is.
    pub enum State {
        Spare = 0,
        Running = 1,
        /// By `exit`, `_exit` or a return of `main`; there is a status.
        Ended = 2,
        /// It became another program by `exec`.
        Replaced = 3,
        /// By a failure, which is in the file.
        Dying = 4,
    }
}

bytes! {
    /// What came of the task in this process.
    pub enum Outcome {
        Race = 1,
        NoRace = 2,
        Timeout = 3,
    }
}

bytes! {
    /// How a race showed.
    pub enum Evidence {
        None = 0,
        /// One thread stood before its access while the other made its own: whatever the program does to order
        /// them, nothing did.
        Met = 1,
        /// No synchronisation after the first access reached the second thread.
        Unordered = 2,
    }
}

/// Return addresses of the process, innermost first. The first is of a call behind the access (or, of a failure,
/// one more than the failing instruction); the others are words of the stack that look like return
/// addresses, so that a frame can be there that has already returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    length: usize,
    frames: [u64; FRAMES],
}

impl Stack {
    pub const EMPTY: Stack = Stack {
        length: 0,
        frames: [0; FRAMES],
    };

    pub fn frames(&self) -> &[u64] {
        &self.frames[..self.length]
    }

    /// Whether there was room.
    pub fn push(&mut self, pc: u64) -> bool {
        let Some(room) = self.frames.get_mut(self.length) else {
            return false;
        };
        *room = pc;
        self.length += 1;
        true
    }

    fn words(&self) -> [u64; STACK_WORDS] {
        let mut words = [0; STACK_WORDS];
        words[0] = self.length as u64;
        words[1..].copy_from_slice(&self.frames);
        words
    }

    fn of(words: &[u64]) -> Option<Self> {
        let length = usize::try_from(*words.first()?).ok()?;
        let mut frames = [0; FRAMES];
        frames.copy_from_slice(words.get(1..STACK_WORDS)?);
        (length <= FRAMES).then_some(Stack { length, frames })
    }
}

/// One of two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    pub site: u32,
    /// The kernel's number of the thread.
    pub thread: u32,
    pub writes: bool,
    pub address: u64,
    pub size: u32,
    pub stack: Stack,
}

impl Side {
    pub const NONE: Side = Side {
        site: NOTHING,
        thread: 0,
        writes: false,
        address: 0,
        size: 0,
        stack: Stack::EMPTY,
    };

    fn words(&self) -> [u64; SIDE_WORDS] {
        let mut words = [0; SIDE_WORDS];
        words[0] = u64::from(self.site) << 32 | u64::from(self.thread);
        words[1] = self.address;
        words[2] = u64::from(self.size) << 1 | u64::from(self.writes);
        words[3..].copy_from_slice(&self.stack.words());
        words
    }

    fn of(words: &[u64]) -> Option<Self> {
        Some(Side {
            site: (words.first()? >> 32) as u32,
            thread: words[0] as u32,
            writes: words.get(2)? & 1 != 0,
            address: words[1],
            size: u32::try_from(words[2] >> 1).ok()?,
            stack: Stack::of(words.get(3..)?)?,
        })
    }
}

/// What came of a task. A task ends with its attempt; what ends without one was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Counted from 0.
    pub index: u64,
    pub serial: u64,
    pub outcome: Outcome,
    pub evidence: Evidence,
    pub waited_ns: u64,
    /// In the order in which they came; of anything but a race they may be `Side::NONE`.
    pub sides: [Side; 2],
}

impl Attempt {
    fn words(&self) -> [u64; ATTEMPT_WORDS] {
        let mut words = [0; ATTEMPT_WORDS];
        words[1] = self.index;
        words[2] = self.serial;
        words[3] = u64::from(self.evidence as u8) << 8 | u64::from(self.outcome as u8);
        words[4] = self.waited_ns;
        words[5..5 + SIDE_WORDS].copy_from_slice(&self.sides[0].words());
        words[5 + SIDE_WORDS..].copy_from_slice(&self.sides[1].words());
        words[0] = sum(words[1..].iter().copied());
        words
    }

    fn of(words: &[u64; ATTEMPT_WORDS]) -> Option<Self> {
        if words[0] != sum(words[1..].iter().copied()) {
            return None;
        }
        Some(Attempt {
            index: words[1],
            serial: words[2],
            outcome: Outcome::from_byte(words[3] as u8)?,
            evidence: Evidence::from_byte((words[3] >> 8) as u8)?,
            waited_ns: words[4],
            sides: [
                Side::of(&words[5..5 + SIDE_WORDS])?,
                Side::of(&words[5 + SIDE_WORDS..])?,
            ],
        })
    }
}

bytes! {
    /// How the program failed.
    pub enum FailureKind {
        Signal = 1,
        Abort = 2,
        Assertion = 3,
    }
}

/// In the word of a failure by which one thread becomes the one that writes it.
const CLAIMED: u64 = 1;

/// The first failure of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The task that was active, or 0.
    pub serial: u64,
    pub kind: FailureKind,
    /// 0 where none came.
    pub signal: u8,
    pub thread: u32,
    pub stack: Stack,
}

impl Failure {
    fn words(&self) -> [u64; FAILURE_WORDS] {
        let mut words = [0; FAILURE_WORDS];
        words[1] = self.serial;
        words[2] = u64::from(self.signal) << 8 | u64::from(self.kind as u8);
        words[3] = u64::from(self.thread);
        words[4] = CLAIMED;
        words[5..].copy_from_slice(&self.stack.words());
        words[0] = sum(words[1..].iter().copied());
        words
    }

    fn of(words: &[u64; FAILURE_WORDS]) -> Option<Self> {
        if words[0] != sum(words[1..].iter().copied()) {
            return None;
        }
        Some(Failure {
            serial: words[1],
            kind: FailureKind::from_byte(words[2] as u8)?,
            signal: (words[2] >> 8) as u8,
            thread: u32::try_from(words[3]).ok()?,
            stack: Stack::of(&words[5..])?,
        })
    }
}

macro_rules! counters {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// What the runtime counts. The numbers only grow.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter { $($(#[$about])* $name,)* }

        impl Counter {
            pub const ALL: &[Counter] = &[$(Counter::$name,)*];
        }
    };
}

counters! {
    /// How often a site that was on was passed.
    Passed,
    /// How often a thread was made to wait, and how often one has gone on again.
    Held,
    Released,
    /// For how long, over all threads.
    WaitedNs,
    /// How often synchronisation was observed, and for how long.
    Observations,
    ObservedNs,
    /// About how much processor time the runtime took.
    RuntimeNs,
    Forks,
}

/// Never 0, so that zeroed memory holds no record.
fn sum(words: impl IntoIterator<Item = u64>) -> u64 {
    let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    words.into_iter().fold(0xcbf2_9ce4_8422_2325, step) | 1
}

/// Makes a zeroed image of `SIZE` bytes a spare file for a build. `None` for another size, or an id that is
/// too long.
pub fn prepare(image: &mut [u8], build: &str, task: &Task) -> Option<()> {
    if image.len() != SIZE || build.len() > BUILD {
        return None;
    }
    image[8 * MAGIC_AT..][..8].copy_from_slice(&MAGIC.to_le_bytes());
    image[8 * VERSION_AT..][..8].copy_from_slice(&VERSION.to_le_bytes());
    image[8 * BUILD_AT..][..build.len()].copy_from_slice(build.as_bytes());
    image[TASK_AT..][..TASK_BYTES].copy_from_slice(&task.encode());
    image[ATTENTION_AT] = ATTENTION;
    Some(())
}

/// The mapped file, as the runtime uses it. The agent cannot make it panic.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    words: &'a [AtomicU64; WORDS],
}

impl<'a> Shared<'a> {
    /// `None` if this is no spare file for the build, in this version.
    pub fn open(words: &'a [AtomicU64], build: &str) -> Option<Self> {
        let shared = Shared {
            words: words.try_into().ok()?,
        };
        let mut id = [0; BUILD];
        id.get_mut(..build.len())?.copy_from_slice(build.as_bytes());
        let is_build = id.as_chunks::<8>().0.iter().enumerate();
        let fits = shared.get(MAGIC_AT) == MAGIC
            && shared.get(VERSION_AT) == VERSION
            && shared.get(STATE_AT) == State::Spare as u64
            && { is_build }
                .all(|(at, part)| shared.get(BUILD_AT + at) == u64::from_le_bytes(*part));
        fits.then_some(shared)
    }

    /// A file that `open` has accepted.
    pub fn running(words: &'a [AtomicU64]) -> Option<Self> {
        let words = words.try_into().ok()?;
        Some(Shared { words })
    }

    fn get(&self, at: usize) -> u64 {
        self.words[at].load(Relaxed)
    }

    fn set(&self, at: usize, value: u64) {
        self.words[at].store(value, Release);
    }

    /// There is something new for the agent.
    fn tell(&self) {
        self.words[NEWS_AT].fetch_add(1, Release);
    }

    pub fn begin(&self, process: u32, now_ns: u64) {
        self.set(PROCESS_AT, u64::from(process));
        self.set(STARTED_AT, now_ns);
        self.set(STATE_AT, State::Running as u64);
        self.tell();
    }

    pub fn end(&self, state: State, status: u32) {
        self.set(STATUS_AT, u64::from(status));
        self.set(STATE_AT, state as u64);
        self.tell();
    }

    /// The task, unless the agent is just writing one.
    pub fn task(&self) -> Option<Task> {
        Task::decode(|at| self.get(at))
    }

    /// The task with this serial is in effect from now on.
    pub fn apply(&self, serial: u64) {
        self.set(APPLIED_AT, serial);
        self.tell();
    }

    /// Writes down what came of a task, unless so many wait already; its index is set here. Only one thread at a
    /// time may do this.
    pub fn attempt(&self, attempt: Attempt) {
        let index = self.get(WRITTEN_AT);
        if index.wrapping_sub(self.get(TAKEN_AT)) >= ATTEMPTS as u64 {
            self.words[LOST_AT].fetch_add(1, Relaxed);
            return;
        }
        let at = ATTEMPTS_AT + index as usize % ATTEMPTS * ATTEMPT_WORDS;
        self.record(at, &Attempt { index, ..attempt }.words());
        self.set(WRITTEN_AT, index + 1);
        self.tell();
    }

    /// The program fails. Later failures follow from the first, which is the one that is kept.
    pub fn fail(&self, failure: &Failure) {
        let claim = &self.words[FAILURE_WORD + 4];
        let first = claim.compare_exchange(0, CLAIMED, Relaxed, Relaxed);
        if first.is_ok() {
            self.record(FAILURE_WORD, &failure.words());
            self.set(STATE_AT, State::Dying as u64);
            self.tell();
        }
    }

    /// A thread is made to wait: its stack, should the program hang.
    pub fn hold(&self, stack: &Stack) {
        for (at, word) in stack.words().into_iter().enumerate() {
            self.set(HELD_AT + at, word);
        }
    }

    fn record(&self, at: usize, words: &[u64]) {
        self.set(at, 0);
        for (offset, word) in words.iter().enumerate().skip(1) {
            self.set(at + offset, *word);
        }
        self.set(at, words[0]);
    }

    /// Different threads touched one address at these two sites. The order does not count; a pair is kept once.
    pub fn pair(&self, one: u32, other: u32) {
        let (low, high) = (one.min(other), one.max(other));
        let pair = 1 << 63 | u64::from(low & 0x7fff_ffff) << 32 | u64::from(high);
        let start = sum([pair]) as usize;
        for step in 0..16 {
            let place = &self.words[PAIRS_AT + start.wrapping_add(step) % PAIRS];
            let Err(there) = place.compare_exchange(0, pair, Relaxed, Relaxed) else {
                return self.tell();
            };
            if there == pair {
                return;
            }
        }
    }

    pub fn count(&self, counter: Counter, add: u64) {
        self.words[COUNTERS_AT + counter as usize].fetch_add(add, Relaxed);
    }

    /// Keeps the text of `/proc/self/maps`; what is too long loses its end. Only one thread at a time may do this.
    pub fn keep_maps(&self, text: &[u8]) {
        let which = (self.get(MAPS_AT) >> 32 & 1) ^ 1;
        let text = &text[..text.len().min(MAPS)];
        for (at, part) in text.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            let at = TEXT_AT + which as usize * TEXT_WORDS + at;
            self.set(at, u64::from_le_bytes(word));
        }
        self.set(MAPS_AT, which << 32 | text.len() as u64);
    }

    /// The word that changes with all news.
    pub fn news(&self) -> &'a AtomicU64 {
        &self.words[NEWS_AT]
    }
}

/// What the agent has read of a file, which may hold anything.
#[derive(Clone, Copy)]
pub struct View<'a> {
    bytes: &'a [u8],
}

/// A process that has taken its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub id: u32,
    /// Nanoseconds of the monotonic clock.
    pub started_ns: u64,
    pub state: State,
    /// Of a process that has ended: what it passed to `exit`.
    pub status: u32,
}

impl<'a> View<'a> {
    /// `None` for another size, format or version.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let view = View { bytes };
        let fits =
            bytes.len() == SIZE && view.word(MAGIC_AT) == MAGIC && view.word(VERSION_AT) == VERSION;
        fits.then_some(view)
    }

    fn word(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(8 * at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn words<const N: usize>(&self, from: usize) -> [u64; N] {
        core::array::from_fn(|at| self.word(from + at))
    }

    /// Changes when there is something new.
    pub fn news(&self) -> u64 {
        self.word(NEWS_AT)
    }

    pub fn process(&self) -> Option<Process> {
        Some(Process {
            id: u32::try_from(self.word(PROCESS_AT)).ok()?,
            started_ns: self.word(STARTED_AT),
            state: State::from_byte(u8::try_from(self.word(STATE_AT)).ok()?)?,
            status: self.word(STATUS_AT) as u32,
        })
    }

    /// The serial of the task that is in effect, or of which the end is known.
    pub fn applied(&self) -> u64 {
        self.word(APPLIED_AT)
    }

    /// How many attempts were written, which is what the agent writes to `TAKEN_BYTES_AT` when it has read them.
    pub fn written(&self) -> u64 {
        self.word(WRITTEN_AT)
    }

    /// The attempts from a number on, in their order.
    pub fn attempts(self, from: u64) -> impl Iterator<Item = Attempt> + 'a {
        let written = self.written();
        let from = from.max(written.saturating_sub(ATTEMPTS as u64));
        (from..written).filter_map(move |index| {
            let at = ATTEMPTS_AT + index as usize % ATTEMPTS * ATTEMPT_WORDS;
            Attempt::of(&self.words(at)).filter(|attempt| attempt.index == index)
        })
    }

    pub fn failure(&self) -> Option<Failure> {
        Failure::of(&self.words(FAILURE_WORD))
    }

    /// How many threads are made to wait now, and where the last one was.
    pub fn held(&self) -> (u64, Stack) {
        let now = self.counter(Counter::Held);
        let stack = Stack::of(&self.words::<STACK_WORDS>(HELD_AT)).unwrap_or(Stack::EMPTY);
        (now.saturating_sub(self.counter(Counter::Released)), stack)
    }

    /// Pairs of sites at which different threads touched one address: each once, the smaller number first.
    pub fn pairs(self) -> impl Iterator<Item = [u32; 2]> + 'a {
        let words = (0..PAIRS).map(move |at| self.word(PAIRS_AT + at));
        words
            .filter(|word| word >> 63 == 1)
            .map(|word| [(word >> 32) as u32 & 0x7fff_ffff, word as u32])
    }

    pub fn counter(&self, counter: Counter) -> u64 {
        self.word(COUNTERS_AT + counter as usize)
    }

    /// Lines of `/proc/self/maps`; the last one may have lost its end.
    pub fn maps(&self) -> &'a str {
        let (which, length) = (self.word(MAPS_AT) >> 32 & 1, self.word(MAPS_AT) as u32);
        let from = 8 * (TEXT_AT + which as usize * TEXT_WORDS);
        let length = (length as usize).min(MAPS);
        let text = self.bytes.get(from..from + length).unwrap_or(b"");
        match core::str::from_utf8(text) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or(""),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    const BUILD_ID: &str = "00112233445566778899aabbccddeeff00112233";
    const TASK: Task = Task {
        serial: 3,
        first: 7,
        second: 9,
        tau_ms: 50,
    };

    fn image() -> Vec<u8> {
        let mut image = std::vec![0; SIZE];
        prepare(&mut image, BUILD_ID, &TASK).expect("a zeroed image of the right size");
        image
    }

    fn mapped(image: &[u8]) -> Vec<AtomicU64> {
        let (words, _) = image.as_chunks::<8>();
        let words = words
            .iter()
            .map(|word| AtomicU64::new(u64::from_le_bytes(*word)));
        words.collect()
    }

    fn bytes(mapped: &[AtomicU64]) -> Vec<u8> {
        let words = mapped.iter().map(|word| word.load(Relaxed));
        words.flat_map(u64::to_le_bytes).collect()
    }

    fn stack(from: u64, depth: usize) -> Stack {
        let mut stack = Stack::EMPTY;
        (0..depth as u64).for_each(|at| assert!(stack.push(from + at)));
        stack
    }

    fn race() -> Attempt {
        let side = |site, depth| Side {
            site,
            thread: 100 + site,
            writes: site == 7,
            address: 0x7fff_1234_5678,
            size: 4,
            stack: stack(0x5555_0000, depth),
        };
        Attempt {
            index: 0,
            serial: 3,
            outcome: Outcome::Race,
            evidence: Evidence::Met,
            waited_ns: 1_000_000,
            sides: [side(7, FRAMES), side(9, 2)],
        }
    }

    #[test]
    fn a_spare_file_is_for_one_build_and_is_taken_once() {
        let words = mapped(&image());
        assert!(Shared::open(&words, "0011").is_none());
        assert!(Shared::open(&words[1..], BUILD_ID).is_none());
        assert!(Shared::open(&words, &"0".repeat(65)).is_none());
        let shared = Shared::open(&words, BUILD_ID).expect("a spare file");
        assert_eq!(shared.task(), Some(TASK));
        shared.begin(42, 1000);
        assert!(Shared::open(&words, BUILD_ID).is_none());
        let after = bytes(&words);
        let process = View::of(&after).and_then(|view| view.process());
        let process = process.expect("a process has taken it");
        assert_eq!((process.id, process.state), (42, State::Running));
        assert_eq!(prepare(&mut [0; 8], BUILD_ID, &TASK), None);
    }

    #[test]
    fn a_task_that_is_half_written_is_none() {
        let mut image = image();
        let next = Task::none(4).encode();
        for written in 0..TASK_BYTES {
            image[TASK_AT..][..written].copy_from_slice(&next[..written]);
            let words = mapped(&image);
            let task = Shared::open(&words, BUILD_ID).expect("a spare file").task();
            let is_whole = |task: Task| task == TASK || task == Task::none(4);
            assert!(task.is_none_or(is_whole), "{written}: {task:?}");
        }
    }

    #[test]
    fn what_the_runtime_writes_is_read() {
        let words = mapped(&image());
        let shared = Shared::open(&words, BUILD_ID).expect("a spare file");
        shared.begin(42, 1000);
        shared.apply(3);
        shared.attempt(race());
        shared.count(Counter::Held, 2);
        shared.count(Counter::Released, 1);
        shared.hold(&stack(16, 5));
        shared.pair(9, 7);
        shared.pair(7, 9);
        shared.pair(0, 0);
        shared.keep_maps(b"first");
        shared.keep_maps(b"7f00-7f10 r-xp 0 08:01 42  /a b/program\n");
        let failure = Failure {
            serial: 3,
            kind: FailureKind::Signal,
            signal: 11,
            thread: 43,
            stack: stack(64, 3),
        };
        shared.fail(&failure);
        shared.fail(&Failure {
            signal: 6,
            ..failure
        });
        let after = bytes(&words);
        let view = View::of(&after).expect("a file of ours");
        assert_eq!(view.applied(), 3);
        assert_eq!(view.attempts(0).collect::<Vec<_>>(), [race()]);
        assert_eq!(view.attempts(1).count(), 0);
        assert_eq!(view.held(), (1, stack(16, 5)));
        let mut pairs: Vec<_> = view.pairs().collect();
        pairs.sort_unstable();
        assert_eq!(pairs, [[0, 0], [7, 9]]);
        assert_eq!(view.maps(), "7f00-7f10 r-xp 0 08:01 42  /a b/program\n");
        assert_eq!(view.failure(), Some(failure));
        assert_eq!(view.process().map(|it| it.state), Some(State::Dying));
        assert_ne!(view.news(), 0);
    }

    #[test]
    fn attempts_wait_until_the_agent_has_taken_them() {
        let words = mapped(&image());
        let shared = Shared::open(&words, BUILD_ID).expect("a spare file");
        (0..ATTEMPTS + 1).for_each(|_| shared.attempt(race()));
        let full = bytes(&words);
        let view = View::of(&full).expect("a file of ours");
        assert_eq!(view.written(), ATTEMPTS as u64);
        words[TAKEN_BYTES_AT / 8].store(2, Relaxed);
        shared.attempt(race());
        let after = bytes(&words);
        let view = View::of(&after).expect("a file of ours");
        let indices: Vec<_> = view.attempts(2).map(|it| it.index).collect();
        assert_eq!(indices, (2..=ATTEMPTS as u64).collect::<Vec<_>>());
    }

    #[test]
    fn whatever_is_in_a_file_it_is_read_without_a_panic() {
        let words = mapped(&image());
        let shared = Shared::open(&words, BUILD_ID).expect("a spare file");
        shared.attempt(race());
        let good = bytes(&words);
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for round in 0..200 {
            let mut bytes = good.clone();
            for _ in 0..1 + round {
                // The first page and the attempts are where positions and lengths are.
                let at = next() as usize % (8 * PAIRS_AT);
                bytes[at] = if next() % 4 == 0 { 0xff } else { next() as u8 };
            }
            bytes[..16].copy_from_slice(&good[..16]);
            let view = View::of(&bytes).expect("the header is whole");
            for attempt in view.attempts(0) {
                assert_eq!(attempt, race(), "a changed attempt does not count");
            }
            let _ = (view.process(), view.failure(), view.held(), view.maps());
            assert!(view.pairs().count() <= PAIRS);
            let words = mapped(&bytes);
            if let Some(shared) = Shared::open(&words, BUILD_ID) {
                let _ = shared.task();
                shared.attempt(race());
                shared.pair(1, 2);
                shared.keep_maps(&[0xff; MAPS + 1]);
            }
        }
        assert!(View::of(&good[1..]).is_none());
        assert!(View::of(&std::vec![0; SIZE]).is_none());
    }
}
