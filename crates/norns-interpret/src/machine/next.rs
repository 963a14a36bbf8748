//! What can happen next: which threads can go on, deadlocks, and loops that never end.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use super::{Choice, Machine, Next, Pause, Seen, Stop};
use crate::outcome::{Decision, End, Waiting};
use crate::state::{Resume, Status};
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
                true => self.run(slice)?,
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
                let thread = self.thread();
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
            if let Some(earliest) = deadlines.min() {
                self.state.slept += earliest.saturating_sub(now).max(1);
                continue;
            }
            if self.release_held(true) {
                continue;
            }
            return Err(Box::new(self.stuck()));
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
            Status::Waiting { wait, deadline } => {
                let is_late = deadline.is_some_and(|deadline| deadline <= now);
                let is_over = match wait {
                    Wait::Thread(other) => self.state.threads[*other].status == Status::Ended,
                    Wait::Pipe(pipe) => self.state.files.can_read(*pipe),
                    Wait::Room(pipe) => self.state.files.has_room(*pipe),
                    _ => self.state.synchronisation.is_over(wait, thread),
                };
                is_late || is_over
            }
        }
    }

    /// The end of a run in which no thread can go on.
    fn stuck(&self) -> End {
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
        match waiting.is_empty() {
            true => End::Exited(0),
            false => End::Deadlock(waiting),
        }
    }

    /// Raised by every change of memory and every effect.
    pub(crate) fn progress(&self) -> u64 {
        self.state.memory.changes + self.state.effects
    }

    /// The state of the running thread, without memory.
    pub(crate) fn hash_of_thread(&self) -> u64 {
        let mut hasher = FxHasher::default();
        let thread = &self.state.threads[self.state.current];
        thread.registers.hash(&mut hasher);
        for frame in &thread.frames {
            (frame.function, frame.pc).hash(&mut hasher);
        }
        self.state.synchronisation.hash(&mut hasher);
        hasher.finish()
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
            true => Err(Box::new(End::EndlessLoop)),
            false => Ok(()),
        }
    }
}
