//! One process a thread: a chain of its steps, in pieces.

use std::collections::BTreeMap;
use std::fmt::Write;

use norns_trace::{EventIndex, ObjectId, ObjectKind, Op, ThreadId};

use super::{Writer, custom_event, printable};
use crate::Meaning;
use crate::location::{LocationId, Touch, TouchKind};
use crate::lock_set::Mode;

/// Events of a thread that stand in one named piece.
pub(super) const PIECE: usize = 24;

impl Writer<'_> {
    pub(super) fn thread(&mut self, thread: ThreadId) {
        let name = thread.0.to_string();
        let mut steps: Vec<String> = Vec::new();
        let events = self.model.threads[thread.index()].clone();
        if self.is_forked(thread) {
            let event = format!("start.{name}");
            self.joins_in(format!("FORK_{name}"), &event);
            steps.push(event);
        }
        let mut belongs_to = vec![events.first().copied(); steps.len()];
        for &event in &events {
            self.steps_of(event, &mut steps);
            belongs_to.resize(steps.len(), Some(event));
        }
        if self.joined.contains(&thread) {
            let event = format!("end.{name}");
            self.joins_in(format!("JOIN_{name}"), &event);
            steps.push(event);
        }
        belongs_to.resize(steps.len(), events.last().copied());
        let named = { steps.iter().zip(belongs_to) }.filter_map(|(step, event)| {
            // The first of a step and its way out is what the trace did.
            let step = step.trim_start_matches('?').split('?').next()?;
            Some((step.to_string(), event?))
        });
        self.steps.push(named.collect());
        let _ = writeln!(
            self.out,
            "-- thread {}",
            printable(&self.model.trace.thread(thread).name)
        );
        for step in &steps {
            let events = step.split('?').filter(|event| !event.is_empty());
            self.all_steps.extend(events.map(str::to_string));
        }
        // A thread whose end is not in the trace may release its locks or keep them.
        let keeps_locks =
            !self.ends(thread) && !self.locks.set(self.locks.at_end(thread)).is_empty();
        let pieces: Vec<&[String]> = steps.chunks(PIECE).collect();
        for (i, piece) in pieces.iter().enumerate() {
            let this = if i == 0 {
                format!("THREAD_{name}")
            } else {
                format!("THREAD_{name}_{i}")
            };
            let rest = if i + 1 < pieces.len() {
                format!("THREAD_{name}_{}", i + 1)
            } else if keeps_locks {
                format!("leaves.{name} -> STOP")
            } else {
                "SKIP".to_string()
            };
            self.out.push_str(&this);
            self.out.push_str(" =\n");
            let mut open = 0;
            for step in *piece {
                // A step with a way out has the rest of the piece in brackets.
                match step.strip_prefix('?') {
                    None => {
                        let _ = writeln!(self.out, "  {step} ->");
                    }
                    Some(step) => {
                        let (step, way_out) = step.split_once('?').unwrap_or((step, ""));
                        let way_out = if way_out.is_empty() {
                            format!("leaves.{name} -> STOP")
                        } else {
                            format!("{way_out} -> leaves.{name} -> STOP")
                        };
                        let _ = writeln!(self.out, "  ({way_out} [] {step} ->");
                        open += 1;
                    }
                }
            }
            let _ = writeln!(self.out, "  {rest}{}", ")".repeat(open));
        }
        if pieces.is_empty() {
            self.line(format!("THREAD_{name} = SKIP"));
        }
        self.line("");
    }

    fn is_forked(&self, thread: ThreadId) -> bool {
        self.model
            .trace
            .events
            .iter()
            .any(|event| event.op == Op::Fork(thread))
    }

    /// Appends the steps of one event. A step `?STEP` can be left with `leaves` instead, and a step
    /// `?STEP?OTHER` with `OTHER` and then `leaves`.
    fn steps_of(&mut self, event: EventIndex, steps: &mut Vec<String>) {
        let op = self.model.op(event);
        let thread = self.model.thread_of(event);
        let t = thread.0.to_string();
        let before: Vec<usize> = self.marks_where(|mark| mark.0 == event);
        for i in before {
            self.joins_in(format!("ORDER_{i}"), &format!("marked.{i}"));
            steps.push(format!("?marked.{i}"));
        }
        let on = |o: ObjectId| format!("{t}.{}", o.0);
        let process = |prefix: &str, o: ObjectId| format!("{prefix}_{}", o.0);
        let held = self.held(event, op.object());
        match op {
            Op::Fork(child) => {
                let fork = format!("fork.{t}.{}", child.0);
                self.joins_in(format!("FORK_{}", child.0), &fork);
                steps.push(fork);
            }
            Op::Join(child) => {
                let join = format!("join.{t}.{}", child.0);
                self.joins_in(format!("JOIN_{}", child.0), &join);
                steps.push(join);
            }
            Op::FailedJoin(child) => {
                if self.ends(child) {
                    let join = format!("tryjoin.{t}.{}", child.0);
                    self.joins_in(format!("JOIN_{}", child.0), &join);
                    steps.push(format!("?{join}"));
                }
            }
            Op::Lock(o) => {
                let again = held.is_some() && self.model.kind(o) == ObjectKind::RecursiveMutex;
                if !again {
                    self.locking("lock", o, &on(o), steps);
                }
            }
            Op::ReadLock(o) => {
                if held != Some(Mode::Read) {
                    self.locking("rdlock", o, &on(o), steps);
                }
            }
            Op::FailedLock(o) => {
                if held.is_none() {
                    self.trying("trylock", o, &on(o), steps);
                }
            }
            Op::FailedReadLock(o) => {
                if held != Some(Mode::Write) {
                    self.trying("tryrdlock", o, &on(o), steps);
                }
            }
            Op::Unlock(o) => {
                let gives_up = self.gives_up(event);
                match self.model.enters_queue(event) {
                    Some(condition) => {
                        let sleep = format!("sleep.{}.{}", on(o), condition.0);
                        if gives_up {
                            self.joins_in(process("LOCK", o), &sleep);
                        }
                        self.joins_in(process("CONDITION", condition), &sleep);
                        steps.push(sleep);
                    }
                    None if gives_up => self.locking("unlock", o, &on(o), steps),
                    None => {}
                }
            }
            Op::Wait(o) => {
                // A wait that was never in the queue is no wait.
                let position = self.model.position_of(event);
                let slept = position > 0
                    && self
                        .model
                        .enters_queue(self.model.threads[thread.index()][position - 1])
                        == Some(o);
                if slept {
                    let needs = self.model.wait_needs_signal(event);
                    let channel = if needs { "wake" } else { "spurious" };
                    self.using("CONDITION", channel, o, &on(o), steps);
                }
            }
            Op::Signal(o) => self.using("CONDITION", "signal", o, &on(o), steps),
            Op::Broadcast(o) => self.using("CONDITION", "broadcast", o, &on(o), steps),
            Op::BarrierEnter(o) => self.using("BARRIER", "barrier_enter", o, &on(o), steps),
            Op::BarrierExit(o) => self.using("BARRIER", "barrier_exit", o, &on(o), steps),
            Op::SemWait(o) | Op::Take(o) => self.using("SEMAPHORE", "sem_wait", o, &on(o), steps),
            Op::SemPost(o) | Op::Give(o) => self.using("SEMAPHORE", "sem_post", o, &on(o), steps),
            Op::FailedSemWait(o) | Op::FailedTake(o) => {
                let step = format!("sem_try.{}", on(o));
                self.joins_in(process("SEMAPHORE", o), &step);
                steps.push(format!("?{step}"));
            }
            Op::OnceBegin(o) => self.using("ONCE", "oncebegin", o, &on(o), steps),
            Op::OnceEnd(o) => self.using("ONCE", "onceend", o, &on(o), steps),
            Op::OncePass(o) => {
                let (pass, unbegun) = (format!("oncepass.{}", on(o)), format!("unbegun.{}", on(o)));
                self.joins_in(process("ONCE", o), &pass);
                self.joins_in(process("ONCE", o), &unbegun);
                steps.push(format!("?{pass}?{unbegun}"));
            }
            Op::End => {
                for (lock, _) in self.locks.set(self.locks.before(event)).clone() {
                    if self.model.kind(lock) == ObjectKind::RobustMutex {
                        self.locking("unlock", lock, &on(lock), steps);
                    }
                }
            }
            Op::Read(_)
            | Op::Write(_)
            | Op::Allocate(_)
            | Op::Free(_)
            | Op::Use(_)
            | Op::Destroy(_)
            | Op::Initialise(_)
            | Op::Atomic { .. } => {
                self.access(event, &t, steps);
            }
            // The start of a thread is its first step, objects have their first values from the
            // beginning, and what is received is marked where it is sent.
            Op::Start
            | Op::Detach(_)
            | Op::FailedWait(_)
            | Op::BarrierInit { .. }
            | Op::SemInit { .. }
            | Op::Misuse { .. }
            | Op::LoopExit(_)
            | Op::Send(_)
            | Op::Receive(_)
            | Op::Fence(_)
            | Op::Enter
            | Op::Leave => {}
            Op::Custom(custom) => {
                if self.checks.events {
                    let custom = &self.model.trace.customs[custom as usize];
                    steps.push(custom_event(&custom.name, thread.index(), &custom.fields));
                }
            }
        }
        for i in self.marks_where(|mark| mark.1 == event) {
            self.joins_in(format!("ORDER_{i}"), &format!("mark.{i}"));
            steps.push(format!("mark.{i}"));
        }
    }

    fn access(&mut self, event: EventIndex, t: &str, steps: &mut Vec<String>) {
        let Some(touch) = Touch::of(self.model.op(event)) else {
            return;
        };
        let seen: BTreeMap<LocationId, Option<EventIndex>> = self.model.must_see(event).collect();
        // The access is next, on all of its cells, between the last `at` and the first `access`. What
        // it does to variables comes after that.
        let (mut begins, mut ends, mut effects) = (Vec::new(), Vec::new(), Vec::new());
        for location in self.model.locations.of_event(event).map(LocationId) {
            let Ok(i) = self.cells.binary_search(&location) else {
                continue;
            };
            if touch.kind != TouchKind::Allocate && self.checks.race {
                let kind = match (touch.kind == TouchKind::Atomic, touch.writes) {
                    (true, true) => "AW",
                    (true, false) => "AR",
                    (false, true) => "W",
                    (false, false) => "R",
                };
                for channel in ["at", "access"] {
                    self.joins_in(format!("RACE_k{i}"), &format!("{channel}.{t}.k{i}.{kind}"));
                }
                begins.push(format!("at.{t}.k{i}.{kind}"));
                ends.push(format!("access.{t}.k{i}.{kind}"));
            }
            if self.model.meaning == Meaning::Faithful {
                let number = |event: Option<EventIndex>| event.map_or(0, |event| event.0 + 1);
                let here = number(Some(event));
                let saw = number(seen.get(&location).copied().flatten());
                let step = match (touch.reads, touch.writes) {
                    (true, true) => format!("update.{t}.k{i}.{saw}.{here}"),
                    (true, false) => format!("read.{t}.k{i}.{saw}"),
                    _ => format!("write.{t}.k{i}.{here}"),
                };
                self.joins_in(format!("VARIABLE_k{i}"), &step);
                effects.push(if touch.reads {
                    format!("?{step}")
                } else {
                    step
                });
            }
        }
        steps.extend(begins.into_iter().chain(ends).chain(effects));
    }

    /// An operation that only the process of its object takes part in.
    fn using(
        &mut self,
        process: &str,
        channel: &str,
        object: ObjectId,
        on: &str,
        steps: &mut Vec<String>,
    ) {
        let step = format!("{channel}.{on}");
        self.joins_in(format!("{process}_{}", object.0), &step);
        steps.push(step);
    }

    fn locking(&mut self, name: &str, lock: ObjectId, on: &str, steps: &mut Vec<String>) {
        let step = format!("{name}.{on}");
        self.joins_in(format!("LOCK_{}", lock.0), &step);
        // The process of the lock offers the unlock to its holder, which may never do it.
        self.joins_in(format!("LOCK_{}", lock.0), &format!("unlock.{on}"));
        steps.push(step);
    }

    fn trying(&mut self, name: &str, lock: ObjectId, on: &str, steps: &mut Vec<String>) {
        let step = format!("{name}.{on}");
        self.joins_in(format!("LOCK_{}", lock.0), &step);
        steps.push(format!("?{step}"));
    }

    /// How the thread of the event holds the lock just before it.
    fn held(&self, event: EventIndex, lock: Option<ObjectId>) -> Option<Mode> {
        let set = self.locks.set(self.locks.before(event));
        set.iter()
            .find(|held| Some(held.0) == lock)
            .map(|held| held.1)
    }

    /// Whether the thread holds the lock before this unlock and not after it.
    fn gives_up(&self, unlock: EventIndex) -> bool {
        let events = &self.model.threads[self.model.thread_of(unlock).index()];
        let after = match events.get(self.model.position_of(unlock) + 1) {
            Some(&next) => self.locks.before(next),
            None => self.locks.at_end(self.model.thread_of(unlock)),
        };
        let lock = self.model.op(unlock).object();
        let holds = |set| self.locks.set(set).iter().any(|held| Some(held.0) == lock);
        holds(self.locks.before(unlock)) && !holds(after)
    }

    fn ends(&self, thread: ThreadId) -> bool {
        let last = self.model.threads[thread.index()].last();
        last.is_some_and(|&last| self.model.op(last) == Op::End)
    }

    fn marks_where(&self, wanted: impl Fn(&(EventIndex, EventIndex)) -> bool) -> Vec<usize> {
        (0..self.marks.len())
            .filter(|&i| wanted(&self.marks[i]))
            .collect()
    }
}
