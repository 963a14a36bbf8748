//! Whether the state after a schedule has the bug that a witness claims.

use std::collections::HashSet;

use norns_trace::{EventIndex, ObjectId, Op, ThreadId};

use super::gather::memory;
use super::run::Run;
use super::{Checker, need};
use crate::witness::{Bug, Witness};

impl Checker<'_> {
    pub(super) fn shows(&self, run: &Run, witness: &Witness) -> Result<(), String> {
        let mut threads = HashSet::new();
        let bug = &witness.bug;
        let listed = match bug {
            Bug::Race { first, second } => vec![*first, *second],
            Bug::LockDeadlock { blocked } | Bug::Stuck { blocked } => blocked.clone(),
            Bug::Order { events } => return self.shows_order(run, events),
            Bug::Atomicity { accesses } => accesses.last().copied().into_iter().collect(),
        };
        for event in listed.iter().map(|event| event.index()) {
            if event >= self.trace.events.len() {
                return Err("there is no such event".into());
            }
            if self.next(run, self.thread(event)) != Some(event) {
                return Err(format!("event {event} is not the next of its thread"));
            }
            if !threads.insert(self.thread(event)) {
                return Err("one thread is named twice".into());
            }
            self.is_reached(run, event)?;
        }
        match bug {
            Bug::Race { first, second } => self.shows_race(first.index(), second.index()),
            Bug::LockDeadlock { blocked } => self.shows_cycle(run, blocked),
            Bug::Stuck { blocked } => self.shows_stuck(run, blocked),
            Bug::Order { .. } => Ok(()),
            Bug::Atomicity { accesses } => self.shows_interleaving(&witness.schedule, accesses),
        }
    }

    /// The last access is known to be the next event of its thread.
    fn shows_interleaving(
        &self,
        schedule: &[EventIndex],
        accesses: &[EventIndex],
    ) -> Result<(), String> {
        need(
            matches!(accesses.len(), 3 | 4),
            "three or four accesses are interleaved",
        )?;
        let [first, between @ .., last] = accesses else {
            return Err("no access is interleaved".into());
        };
        let thread = |event: &EventIndex| self.thread(event.index());
        need(
            thread(first) == thread(last),
            "the first and the last access are of two threads",
        )?;
        let other = thread(&between[0]);
        need(
            other != thread(first) && between.iter().all(|event| thread(event) == other),
            "what comes between is not of one other thread",
        )?;
        let mut executed = schedule.iter();
        need(
            accesses[..accesses.len() - 1]
                .iter()
                .all(|access| executed.any(|event| event == access)),
            "the accesses have not happened in this order",
        )?;
        let meets = |one: &EventIndex, other: &EventIndex| {
            let memory = |event: &EventIndex| memory(self.op(event.index()));
            let (Some((a, _, _)), Some((b, _, _))) = (memory(one), memory(other)) else {
                return false;
            };
            let overlap = a.address < b.address + u64::from(b.size)
                && b.address < a.address + u64::from(a.size);
            overlap && self.allocation[one.index()] == self.allocation[other.index()]
        };
        let reads = |event: &EventIndex| memory(self.op(event.index())).is_some_and(|m| m.1);
        let writes = |event: &EventIndex| memory(self.op(event.index())).is_some_and(|m| m.2);
        let conflict = |one, other| meets(one, other) && (writes(one) || writes(other));
        let is_wrong = match between {
            // If nothing is read, only the last write counts.
            [middle] => {
                conflict(first, middle) && conflict(middle, last) && accesses.iter().any(reads)
            }
            [one, other] => {
                !meets(first, last)
                    && (conflict(first, one) && conflict(other, last)
                        || conflict(first, other) && conflict(one, last))
            }
            _ => false,
        };
        need(is_wrong, "one after the other they would do the same")
    }

    /// Which orders are wrong is for the rule to say; here its events must be custom ones that happened.
    fn shows_order(&self, run: &Run, events: &[EventIndex]) -> Result<(), String> {
        need(!events.is_empty(), "no event breaks the rule")?;
        for event in events.iter().map(|event| event.index()) {
            let is_custom = { self.trace.events.get(event) }
                .is_some_and(|event| matches!(event.op, Op::Custom(_)));
            need(is_custom, "a rule speaks of custom events")?;
            let next = self.next(run, self.thread(event));
            need(
                next.is_none_or(|next| next > event),
                "an event of the rule has not happened",
            )?;
        }
        Ok(())
    }

    fn shows_race(&self, first: usize, second: usize) -> Result<(), String> {
        need(first < second, "the earlier event of the trace comes first")?;
        let (one, other) = (self.op(first), self.op(second));
        let allocates = |op| matches!(op, Op::Allocate(_));
        let atomic = |op| matches!(op, Op::Atomic { .. });
        let (Some((a, _, a_writes)), Some((b, _, b_writes))) = (memory(one), memory(other)) else {
            return Err("a race is between accesses".into());
        };
        need(
            !allocates(one) && !allocates(other),
            "an allocation is no access",
        )?;
        need(
            !(atomic(one) && atomic(other)),
            "two atomic operations do not race",
        )?;
        need(a_writes || b_writes, "two reads do not race")?;
        let (a_end, b_end) = (a.address + u64::from(a.size), b.address + u64::from(b.size));
        need(
            a.address < b_end && b.address < a_end,
            "they access different bytes",
        )?;
        let block = |event: usize| self.allocation[event];
        need(
            block(first) == block(second),
            "they access different blocks",
        )
    }

    fn shows_cycle(&self, run: &Run, blocked: &[EventIndex]) -> Result<(), String> {
        if blocked.is_empty() || blocked.iter().min() != blocked.first() {
            return Err("a cycle begins with its smallest event".into());
        }
        for (i, event) in blocked.iter().enumerate() {
            let holder = self.thread(blocked[(i + 1) % blocked.len()].index());
            let event = event.index();
            let against = if let Op::Lock(lock) = self.op(event) {
                self.against(run, self.thread(event), lock, true)
            } else if let Op::ReadLock(lock) = self.op(event) {
                self.against(run, self.thread(event), lock, false)
            } else {
                return Err(format!("event {event} acquires no lock"));
            };
            if !against.contains(&holder) {
                return Err(format!(
                    "event {event} does not wait for the next of the cycle"
                ));
            }
        }
        Ok(())
    }

    fn shows_stuck(&self, run: &Run, blocked: &[EventIndex]) -> Result<(), String> {
        if blocked.is_empty() || !blocked.is_sorted() {
            return Err("the stuck events are not sorted, or there are none".into());
        }
        let stuck: HashSet<ThreadId> = blocked.iter().map(|e| self.thread(e.index())).collect();
        // A thread that is not forked, and whose forker is stuck, does nothing either.
        let dead = |mut thread: ThreadId| {
            for _ in 0..=self.lines.len() {
                if stuck.contains(&thread) {
                    return true;
                }
                match self.forker.get(&thread) {
                    Some(&fork) if !self.is_born(run, thread) => thread = self.thread(fork),
                    _ => return false,
                }
            }
            // Threads that would have to fork each other.
            true
        };
        let helpers = |me: ThreadId, helps: &dyn Fn(Op) -> bool| {
            let others = (0..self.lines.len()).map(ThreadId::from_index);
            others
                .filter(|&other| other != me && !dead(other))
                .filter(|other| {
                    let rest = &self.lines[other.index()][run.done[other.index()]..];
                    rest.iter().any(|&event| helps(self.op(event)))
                })
                .count()
        };
        for event in blocked.iter().map(|event| event.index()) {
            let me = self.thread(event);
            let closed = match self.op(event) {
                Op::Lock(lock) => {
                    let holders = self.against(run, me, lock, true);
                    holders
                        .iter()
                        .any(|&holder| dead(holder) || self.ended(run, holder))
                }
                Op::ReadLock(lock) => {
                    let holders = self.against(run, me, lock, false);
                    holders
                        .iter()
                        .any(|&holder| dead(holder) || self.ended(run, holder))
                }
                Op::Join(child) => !self.all_happened(run, child) && dead(child),
                Op::SemWait(s) => {
                    run.semaphores.get(&s).copied().unwrap_or(0) <= 0
                        && helpers(me, &|op| op == Op::SemPost(s)) == 0
                }
                Op::Take(s) => {
                    run.semaphores.get(&s).copied().unwrap_or(0) <= 0
                        && helpers(me, &|op| op == Op::Give(s)) == 0
                }
                Op::Wait(c) => {
                    !self.unexplained.contains(&event)
                        && helpers(me, &|op| op == Op::Signal(c) || op == Op::Broadcast(c)) == 0
                }
                Op::BarrierExit(b) => {
                    let waiting = run.in_barrier.get(&b).filter(|w| w.contains(&me));
                    let size = self.barrier_size.get(&b).copied().unwrap_or(0);
                    waiting.is_some_and(|waiting| {
                        waiting.len() + helpers(me, &|op| op == Op::BarrierEnter(b)) < size
                    })
                }
                Op::OncePass(once) => {
                    !run.once_done.contains(&once)
                        && run
                            .once_runner
                            .get(&once)
                            .is_some_and(|&runner| dead(runner))
                }
                Op::Start
                | Op::End
                | Op::Fork(_)
                | Op::FailedJoin(_)
                | Op::Detach(_)
                | Op::FailedLock(_)
                | Op::FailedReadLock(_)
                | Op::Unlock(_)
                | Op::OnceBegin(_)
                | Op::OnceEnd(_)
                | Op::FailedWait(_)
                | Op::Signal(_)
                | Op::Broadcast(_)
                | Op::BarrierInit { .. }
                | Op::BarrierEnter(_)
                | Op::SemInit { .. }
                | Op::FailedSemWait(_)
                | Op::SemPost(_)
                | Op::FailedTake(_)
                | Op::Give(_)
                | Op::Misuse { .. }
                | Op::LoopExit(_)
                | Op::Use(_)
                | Op::Destroy(_)
                | Op::Initialise(_)
                | Op::Send(_)
                | Op::Receive(_)
                | Op::Atomic { .. }
                | Op::Fence(_)
                | Op::Read(_)
                | Op::Write(_)
                | Op::Allocate(_)
                | Op::Free(_)
                | Op::Enter
                | Op::Leave
                | Op::Custom(_) => return Err(format!("event {event} never blocks its thread")),
            };
            if !closed {
                return Err(format!("event {event} could still happen"));
            }
        }
        // All the waits on conditions must be asleep in one and the same possibility.
        let waits: Vec<(ObjectId, ThreadId)> = blocked
            .iter()
            .filter_map(|event| {
                let Op::Wait(condition) = self.op(event.index()) else {
                    return None;
                };
                Some((condition, self.thread(event.index())))
            })
            .collect();
        let possible = run
            .sleepers
            .iter()
            .any(|asleep| waits.iter().all(|place| asleep.contains(place)));
        if possible {
            Ok(())
        } else {
            Err("a thread that waits was woken for certain".into())
        }
    }
}
