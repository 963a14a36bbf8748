//! What can happen next: which threads can go on, deadlocks, and loops that never end.

use std::hash::{DefaultHasher, Hash, Hasher};

use rustc_hash::FxHasher;

use super::{Choice, Machine, Next, Pause, Seen, Stop};
use crate::files::{Direction, Open};
use crate::how::MemoryModel;
use crate::memory::{Region, object_of};
use crate::outcome::{Decision, End, MemoryErrorKind, Waiting};
use crate::signals::{self, Expiration, Fate, Signal};
use crate::state::{Resume, State, Status};
use crate::synchronisation::Wait;

/// After so many operations without an effect, states are compared.
const PATIENCE: u64 = 3_000_000;
/// A state that came back this often, while every thread ran, will come back for ever.
const REPEATS: u32 = 200;

/// How long a thread runs before others are looked at, while none of them can go on.
const ALONE: u64 = 10_000;

/// The search for states that repeat.
#[derive(Clone, Default)]
pub(super) struct Endless {
    seen: Seen,
    /// Effects and changes of memory when the search began.
    effects: u64,
    changes: u64,
    since: u64,
}

impl Machine<'_> {
    /// Runs until something can be decided in several ways.
    pub(crate) fn advance(&mut self, mut slice: u64) -> Result<Choice, Stop> {
        loop {
            let pause = match self.thread().is_ready() && self.thread().held_since.is_none() {
                true => {
                    self.deliver()?;
                    let before = self.state.steps;
                    let pause = self.run_or_fault(slice)?;
                    if self.state.steps > before + 1 {
                        self.idle_expirations = 0;
                    }
                    pause
                }
                false => Pause::Blocked,
            };
            if let Pause::Value(candidates) = pause {
                return Ok(Choice::Value(candidates));
            }
            self.look_for_endless_loop()?;
            let next = self.possible()?;
            if next.len() > 1 {
                return Ok(Choice::Next(next));
            }
            self.take(next[0])?;
            // Nobody else wants to run.
            slice = slice.max(ALONE);
        }
    }

    /// Does what was chosen.
    pub(crate) fn take(&mut self, next: Next) -> Result<(), Stop> {
        match next {
            Next::Flush(thread) => {
                if self.explores {
                    let place = self.state.threads[thread]
                        .buffer
                        .front()
                        .and_then(|store| store.place);
                    let place = place.map(|id| self.place(id));
                    self.decisions.push(Decision::Flushed { thread, place });
                }
                self.flush(thread)
            }
            Next::Run(thread) => {
                let from = self.state.current;
                if from != thread && self.state.threads[from].is_ready() && self.explores {
                    let place = self.current_place();
                    self.decisions.push(Decision::Switched {
                        from,
                        to: thread,
                        place,
                    });
                }
                let now = self.state.now();
                self.state.current = thread;
                self.may_access = true;
                let is_cancelled = self.is_cancelled_waiting(thread);
                let is_over = self.is_over(thread, now);
                if !is_over && !is_cancelled && self.has_signal(thread) {
                    return self.deliver();
                }
                if is_cancelled
                    && !matches!(
                        self.thread().status,
                        Status::Waiting {
                            wait: Wait::Condition(_),
                            ..
                        }
                    )
                {
                    self.cancel()?;
                    return Ok(());
                }
                let thread = self.thread();
                if thread.is_cancelled() && thread.cancellation.is_asynchronous && thread.is_ready()
                {
                    self.cancel()?;
                    return Ok(());
                }
                if let Status::Waiting { wait, deadline } = &thread.status {
                    let is_late = deadline.is_some_and(|deadline| deadline <= now);
                    thread.resume = match (wait, &thread.resume) {
                        (Wait::Mutex(_), Resume::Mutex { timed_out }) => Resume::Mutex {
                            timed_out: *timed_out,
                        },
                        _ => Resume::Woken { timed_out: is_late },
                    };
                    thread.status = Status::Ready;
                }
                Ok(())
            }
        }
    }

    /// Which write the read that the running thread stands before returns.
    pub(crate) fn choose_value(&mut self, candidate: crate::weak::Candidate) {
        self.chosen = Some(candidate);
        self.may_access = true;
    }

    /// Everything that can happen next, at least one; the running thread first.
    fn possible(&mut self) -> Result<Vec<Next>, Stop> {
        loop {
            self.release_held(false);
            self.expire()?;
            let now = self.state.now();
            let current = self.state.current;
            let count = self.state.threads.len();
            let order = std::iter::once(current).chain((0..count).filter(|&one| one != current));
            let mut next: Vec<Next> = order
                .filter(|&thread| self.can_go_on(thread, now))
                .map(Next::Run)
                .collect();
            let buffers = self.state.threads.iter().enumerate();
            let waiting = buffers.filter(|(_, thread)| !thread.buffer.is_empty());
            next.extend(waiting.map(|(thread, _)| Next::Flush(thread)));
            if !next.is_empty() {
                return Ok(next);
            }
            let deadlines = self
                .state
                .threads
                .iter()
                .filter_map(|thread| match thread.status {
                    Status::Waiting { deadline, .. } => deadline,
                    Status::Ready | Status::Ended => None,
                });
            if let Some(earliest) = deadlines.chain(self.next_expiration()).min() {
                self.state.slept += earliest.saturating_sub(now).max(1);
                continue;
            }
            if self.release_held(true) {
                continue;
            }
            return Err(self.stuck());
        }
    }

    fn can_go_on(&self, thread: usize, now: u64) -> bool {
        let state = &self.state.threads[thread];
        if state.held_since.is_some() {
            return false;
        }
        match &state.status {
            Status::Ready => true,
            Status::Ended => false,
            Status::Waiting { .. } => {
                self.is_over(thread, now)
                    || self.has_signal(thread)
                    || self.is_cancelled_waiting(thread)
            }
        }
    }

    /// Whether a thread does not have to wait any more.
    fn is_over(&self, thread: usize, now: u64) -> bool {
        let Status::Waiting { wait, deadline } = &self.state.threads[thread].status else {
            return true;
        };
        let is_late = deadline.is_some_and(|deadline| deadline <= now);
        is_late
            || match wait {
                Wait::Thread(other) => self.state.threads[*other].has_ended(),
                Wait::Ready(all) => { all.iter() }
                    .any(|&(description, direction)| self.is_ready(thread, description, direction)),
                Wait::FileLock(description, is_exclusive) => {
                    self.state.files.can_lock(*description, *is_exclusive)
                }
                Wait::Signals(set) => self.is_pending(thread, *set),
                _ => self.state.synchronisation.is_over(wait, thread),
            }
    }

    /// Whether a thread could read from or write to a description without waiting.
    pub(crate) fn is_ready(&self, thread: usize, description: usize, direction: Direction) -> bool {
        match &self.state.files.described(description).open {
            Open::Timer(timer) => {
                let expiration = &self.state.signals.timers[*timer].expiration;
                matches!(expiration, Expiration::Count(1..))
            }
            Open::Signals(set) => self.is_pending(thread, *set),
            Open::Watch(all) => all.iter().any(|one| {
                let is_ready = |bit: u32, direction| {
                    one.events & bit != 0 && self.is_ready(thread, one.description, direction)
                };
                is_ready(1, Direction::Read) || is_ready(4, Direction::Write)
            }),
            _ => self.state.files.is_ready(description, direction),
        }
    }

    /// Whether a thread waits for what only another process could do.
    fn waits_for_others(&self) -> Option<&'static str> {
        let files = &self.state.files;
        self.state
            .threads
            .iter()
            .find_map(|thread| match &thread.status {
                Status::Waiting {
                    wait: Wait::Signal | Wait::Signals(_),
                    ..
                } => Some("a wait for a signal from outside"),
                Status::Waiting {
                    wait: Wait::Ready(all),
                    ..
                } => all
                    .iter()
                    .any(|&(description, _)| files.waits_for_others(description))
                    .then_some("a wait for a connection or signal from outside"),
                // Of what the library allocates, a wait can only be for a semaphore with a name.
                Status::Waiting {
                    wait: Wait::Semaphore(address),
                    ..
                } if self.is_of_library(*address) => Some("a wait for a named semaphore"),
                _ => None,
            })
    }

    fn is_of_library(&self, address: u64) -> bool {
        let object = self.state.memory.object(object_of(address));
        object.is_some_and(|object| object.region == Region::Library)
    }

    /// A run, where an access through a null pointer enters the handler that the program has for it.
    fn run_or_fault(&mut self, slice: u64) -> Result<Pause, Stop> {
        let stop = match self.run(slice) {
            Ok(pause) => return Ok(pause),
            Err(stop) => stop,
        };
        let is_null = matches!(
            &*stop,
            End::MemoryError(error) if error.kind == MemoryErrorKind::Null
        );
        let fate = self.state.signals.fate(signals::SIGSEGV);
        let is_blocked = self.thread().mask & signals::bit(signals::SIGSEGV) != 0;
        if !is_null || is_blocked || !matches!(fate, Fate::Handler(_)) {
            return Err(stop);
        }
        self.handle(Signal::new(signals::SIGSEGV))?;
        Ok(Pause::Yield)
    }

    /// The end of a run in which no thread can go on.
    fn stuck(&mut self) -> Stop {
        if let Some(what) = self.waits_for_others() {
            return Box::new(End::GaveUp(what.to_owned()));
        }
        let threads = self.state.threads.iter().enumerate();
        let waiting = threads.filter_map(|(thread, state)| match &state.status {
            Status::Waiting { wait, .. } => Some(Waiting {
                thread,
                what: wait.describe(),
                place: self.stack_of(thread).into_iter().next(),
            }),
            Status::Ready | Status::Ended => None,
        });
        let waiting: Vec<Waiting> = waiting.collect();
        if waiting.is_empty() {
            // The last thread ends the process.
            self.flush_all_streams();
            return Box::new(End::Exited(0));
        }
        Box::new(End::Deadlock(waiting))
    }

    /// Lets the time pass until the first deadline, if any thread or timer waits for one.
    fn sleep_until_due(&mut self) -> bool {
        let now = self.state.now();
        let threads = self.state.threads.iter();
        let deadlines = threads.filter_map(|thread| match thread.status {
            Status::Waiting { deadline, .. } => deadline,
            Status::Ready | Status::Ended => None,
        });
        let due = deadlines.chain(self.next_expiration());
        let Some(earliest) = due.filter(|due| *due > now).min() else {
            return false;
        };
        self.state.slept += earliest - now;
        self.endless = Endless::default();
        true
    }

    /// Raised by every change of memory and every effect.
    pub(crate) fn progress(&self) -> u64 {
        self.state.memory.changes + self.state.effects
    }

    /// The state of a thread, without memory.
    pub(crate) fn hash_of_thread(&self, number: usize) -> u64 {
        let mut hasher = FxHasher::default();
        let thread = &self.state.threads[number];
        number.hash(&mut hasher);
        thread.registers.hash(&mut hasher);
        for frame in &thread.frames {
            (frame.function, frame.pc).hash(&mut hasher);
        }
        self.state.synchronisation.hash(&mut hasher);
        hasher.finish()
    }

    /// Whether a timer will raise a signal or call something.
    pub(crate) fn waits_for_timer(&self) -> bool {
        self.next_expiration().is_some()
    }

    /// The deadline of a wait. An exploration has waits end at any time, since all that a deadline
    /// says is when, and threads can be slow.
    pub(crate) fn deadline(&self, at: u64) -> u64 {
        if self.explores { 0 } else { at }
    }

    /// The time, which a program that asks for it sees pass. In an exploration nothing else makes it pass.
    pub(crate) fn time(&mut self) -> u64 {
        self.state.effects += 1;
        self.state.asked_for_time += 1;
        match self.explores {
            true => State::START + self.state.asked_for_time * 1_000_000,
            false => self.state.now(),
        }
    }

    /// Everything that decides what can still happen and what is said of it, memory by the sum of its hashes.
    /// `None` where parts of it are not kept in a form that can be compared.
    pub(crate) fn hash_of_state(&self) -> Option<u64> {
        let Self {
            program: _,
            code: _,
            input: _,
            how,
            state,
            explores: _,
            watches: _,
            may_access,
            chosen,
            marks,
            order: _,
            decisions,
            endless: _,
            idle_expirations: _,
            symbolic,
        } = self;
        if self.waits_for_timer() || chosen.is_some() || marks.is_some() || symbolic.is_some() {
            return None;
        }
        let State {
            memory,
            threads,
            current,
            synchronisation,
            files,
            signals,
            writes,
            steps: _,
            slept: _,
            asked_for_time,
            effects: _,
            random,
            exit_handlers,
            quick_exit_handlers,
            environment,
            keys,
            exceptions,
            histories,
            named,
            locks_left_out,
            escaped,
        } = state;
        let mut hasher = DefaultHasher::new();
        (memory.hash, may_access, threads, current, synchronisation).hash(&mut hasher);
        (
            files,
            signals,
            writes,
            random,
            asked_for_time,
            exit_handlers,
        )
            .hash(&mut hasher);
        (
            quick_exit_handlers,
            environment,
            keys,
            exceptions,
            named,
            escaped,
            locks_left_out > &0,
        )
            .hash(&mut hasher);
        if how.memory != MemoryModel::SequentiallyConsistent {
            histories.hash(&mut hasher);
            for decision in decisions {
                // Of two runs to one state, which of the reads returned an older value is said.
                if let Decision::ReadOld { place, .. } = decision {
                    place.hash(&mut hasher);
                }
            }
        }
        Some(hasher.finish())
    }

    /// About how many bytes this state has for itself, given what had been copied when its predecessor was kept.
    pub(crate) fn own_bytes(&self, copied: u64) -> u64 {
        let threads = self.state.threads.iter();
        let threads =
            threads.map(|thread| 8 * thread.registers.len() + 64 * thread.frames.len() + 1024);
        let fixed =
            threads.sum::<usize>() + 8 * self.state.writes.len() + 64 * self.decisions.len();
        (self.state.memory.copied - copied) + self.state.memory.table_bytes() + fixed as u64
    }

    /// Ends a run whose states repeat: nothing left the process and memory did not change while every
    /// thread that can run did.
    fn look_for_endless_loop(&mut self) -> Result<(), Stop> {
        let steps = self.state.steps;
        if self.state.effects != self.endless.effects {
            self.endless = Endless {
                effects: self.state.effects,
                since: steps,
                ..Endless::default()
            };
            self.state.memory.counts_changes = self.explores;
            return Ok(());
        }
        if steps - self.endless.since < PATIENCE {
            return Ok(());
        }
        if !self.state.memory.counts_changes || self.state.memory.changes != self.endless.changes {
            self.state.memory.counts_changes = true;
            self.endless.changes = self.state.memory.changes;
            self.endless.seen.clear();
            return Ok(());
        }
        if self.endless.seen.len() > 100_000 {
            // The threads count something in their registers.
            self.endless.seen.clear();
        }
        let mut hasher = FxHasher::default();
        for thread in &self.state.threads {
            thread.registers.hash(&mut hasher);
            for frame in &thread.frames {
                (frame.function, frame.pc).hash(&mut hasher);
            }
            std::mem::discriminant(&thread.status).hash(&mut hasher);
            thread.buffer.len().hash(&mut hasher);
        }
        self.state.synchronisation.hash(&mut hasher);
        self.state.current.hash(&mut hasher);
        let count = self.endless.seen.entry(hasher.finish()).or_default();
        *count += 1;
        match *count > REPEATS {
            true if self.sleep_until_due() => Ok(()),
            true => Err(Box::new(End::EndlessLoop)),
            false => Ok(()),
        }
    }
}
