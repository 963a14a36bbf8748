//! Random traces in which threads wait for each other most of the time: several waits, signals and
//! broadcasts on a condition, posts and waits on a semaphore, and rounds of a barrier, by several
//! threads. The traces of `random_trace` have too few of these for threads to compete for a signal.

use std::collections::BTreeSet;

use norns_model::brute_force::enumerate;
use norns_model::{Bug, Meaning};
use norns_predict::order::{Engine, Outcome};
use norns_random::Random;
use norns_trace::{
    Access, Event, EventIndex, Object, ObjectId, ObjectKind, Op, Place, PlaceId, Thread, ThreadId,
    Trace,
};

use crate::agreement::{Found, check};
use crate::exploration::explore;
use crate::values::with_values;

const MUTEX: ObjectId = ObjectId(0);
/// The first of two conditions.
const CONDITION: usize = 1;
const SEMAPHORE: ObjectId = ObjectId(3);
const BARRIER: ObjectId = ObjectId(4);
const BARRIER_COUNT: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Running,
    Asleep { condition: usize, woken: bool },
    AtBarrier { released: bool },
}

/// What a trace is mostly made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Theme {
    Conditions,
    Counters,
    Both,
}

struct Generator {
    random: Random,
    trace: Trace,
    modes: Vec<Mode>,
    semaphore: u32,
    theme: Theme,
}

fn generate(seed: u64, threads: usize, events: usize) -> Trace {
    let mut generator = Generator {
        random: Random::new(seed),
        trace: Trace {
            accesses_ordered: true,
            ..Trace::default()
        },
        modes: vec![Mode::Running; threads],
        semaphore: 0,
        theme: [Theme::Conditions, Theme::Counters, Theme::Both][seed as usize % 3],
    };
    generator.set_up();
    let mut tries = 0;
    while generator.trace.events.len() < events && tries < 20 * events {
        tries += 1;
        let thread = generator.random.below(threads);
        generator.act(thread);
    }
    generator.trace
}

impl Generator {
    fn set_up(&mut self) {
        self.trace.places.push(Place::default());
        for t in 0..self.modes.len() {
            self.trace.threads.push(Thread {
                name: format!("T{t}"),
                parent: None,
            });
        }
        for (kind, name) in [
            (ObjectKind::Mutex, "m"),
            (ObjectKind::Condition, "c"),
            (ObjectKind::Condition, "d"),
            (ObjectKind::Semaphore, "s"),
            (ObjectKind::Barrier, "b"),
        ] {
            self.trace.objects.push(Object {
                kind,
                address: 0,
                name: name.to_string(),
            });
        }
        if self.theme != Theme::Conditions {
            self.semaphore = self.random.below(2) as u32;
            let (sem, value) = (SEMAPHORE, self.semaphore);
            self.push(0, Op::SemInit { sem, value });
            let (barrier, count) = (BARRIER, BARRIER_COUNT as u32);
            self.push(0, Op::BarrierInit { barrier, count });
        }
    }

    fn push(&mut self, thread: usize, op: Op) {
        self.trace.events.push(Event {
            thread: ThreadId::from_index(thread),
            place: PlaceId(0),
            op,
        });
    }

    fn act(&mut self, thread: usize) {
        match self.modes[thread] {
            Mode::Asleep { woken: false, .. } | Mode::AtBarrier { released: false } => return,
            Mode::Asleep { condition, .. } => {
                self.push(thread, Op::Wait(ObjectId::from_index(condition)));
                self.push(thread, Op::Lock(MUTEX));
                self.push(thread, Op::Unlock(MUTEX));
            }
            Mode::AtBarrier { .. } => self.push(thread, Op::BarrierExit(BARRIER)),
            Mode::Running if self.random.below(4) == 0 => return self.access(thread),
            Mode::Running => {
                let counters = match self.theme {
                    Theme::Conditions => false,
                    Theme::Counters => true,
                    Theme::Both => self.random.below(2) == 0,
                };
                return if counters {
                    self.count(thread);
                } else {
                    self.wait_or_wake(thread);
                };
            }
        }
        self.modes[thread] = Mode::Running;
    }

    fn access(&mut self, thread: usize) {
        let access = Access {
            address: 0x1000 + 8 * self.random.below(2) as u64,
            size: 4,
        };
        let write = self.random.below(2) == 0;
        self.push(
            thread,
            if write {
                Op::Write(access)
            } else {
                Op::Read(access)
            },
        );
    }

    fn wait_or_wake(&mut self, thread: usize) {
        // Mostly the same condition, so that threads compete for its signals.
        let condition = CONDITION + usize::from(self.random.below(5) == 0);
        let object = ObjectId::from_index(condition);
        let mode = |woken| Mode::Asleep { condition, woken };
        let asleep: Vec<usize> = (0..self.modes.len())
            .filter(|&t| self.modes[t] == mode(false))
            .collect();
        let another_runs = self
            .modes
            .iter()
            .enumerate()
            .any(|(t, mode)| t != thread && *mode == Mode::Running);
        match self.random.below(8) {
            0..3 if another_runs => {
                self.push(thread, Op::Lock(MUTEX));
                self.push(thread, Op::Unlock(MUTEX));
                self.modes[thread] = mode(false);
            }
            3 => {
                self.push(thread, Op::Broadcast(object));
                for sleeper in asleep {
                    self.modes[sleeper] = mode(true);
                }
            }
            // Signals that are lost are rarer.
            _ if !asleep.is_empty() || self.random.below(4) == 0 => {
                let under_lock = self.random.below(3) == 0;
                if under_lock {
                    self.push(thread, Op::Lock(MUTEX));
                }
                self.push(thread, Op::Signal(object));
                if under_lock {
                    self.push(thread, Op::Unlock(MUTEX));
                }
                if !asleep.is_empty() {
                    let sleeper = asleep[self.random.below(asleep.len())];
                    self.modes[sleeper] = mode(true);
                }
            }
            _ => {}
        }
    }

    fn count(&mut self, thread: usize) {
        match self.random.below(8) {
            0..3 => {
                self.semaphore += 1;
                self.push(thread, Op::SemPost(SEMAPHORE));
            }
            3..6 if self.semaphore > 0 => {
                self.semaphore -= 1;
                self.push(thread, Op::SemWait(SEMAPHORE));
            }
            3 => self.push(thread, Op::FailedSemWait(SEMAPHORE)),
            6 | 7 => {
                self.push(thread, Op::BarrierEnter(BARRIER));
                let waits = Mode::AtBarrier { released: false };
                self.modes[thread] = waits;
                let waiting: Vec<usize> = (0..self.modes.len())
                    .filter(|&t| self.modes[t] == waits)
                    .collect();
                if waiting.len() == BARRIER_COUNT {
                    for other in waiting {
                        self.modes[other] = Mode::AtBarrier { released: true };
                    }
                }
            }
            _ => {}
        }
    }
}

/// How the engine answered.
struct Answers {
    shown: usize,
    refuted: usize,
}

/// Checks that the engine refutes no set of `possible` ones, and that what it shows is part of one.
/// Returns how many of the `asked` sets it showed and refuted.
fn check_stuck(
    trace: &Trace,
    meaning: Meaning,
    possible: &BTreeSet<Vec<EventIndex>>,
    asked: &BTreeSet<Vec<EventIndex>>,
    what: &str,
) -> Answers {
    let mut engine = Engine::new(trace, meaning);
    let (mut shown, mut refuted) = (0, 0);
    for blocked in asked {
        let outcome = engine.find(Bug::Stuck {
            blocked: blocked.clone(),
        });
        let is_possible = possible.contains(blocked);
        match outcome {
            Outcome::Witness(_) => {
                shown += 1;
                let is_part = |set: &Vec<EventIndex>| blocked.iter().all(|e| set.contains(e));
                assert!(
                    possible.iter().any(is_part),
                    "{what}: {blocked:?} is not stuck anywhere"
                );
            }
            Outcome::Impossible => {
                refuted += 1;
                assert!(!is_possible, "{what}: {blocked:?} can be stuck");
            }
            Outcome::Undecided => {}
        }
    }
    Answers { shown, refuted }
}

/// The signal could be lost, but the waiting thread has read something else before it went to sleep.
#[test]
fn values_forbid_a_lost_wake_up() {
    let trace = norns_model::script::trace(
        "T1: lock m, read x, unlock m
         T2: lock m, write x, signal c, unlock m
         T1: wait c, lock m, unlock m",
    );
    let blocked = vec![EventIndex(7)];
    let ask = |meaning| {
        Engine::new(&trace, meaning).find(Bug::Stuck {
            blocked: blocked.clone(),
        })
    };
    assert!(matches!(ask(Meaning::Optimistic), Outcome::Witness(_)));
    assert_eq!(ask(Meaning::Faithful), Outcome::Impossible);
}

#[test]
fn stuck_threads_agree_with_enumeration() {
    let (mut asked, mut shown, mut refuted) = (0, 0, 0);
    for seed in 0..1000 {
        let trace = generate(
            seed + 300_000,
            3 + (seed / 3 % 2) as usize,
            12 + (seed % 9) as usize,
        );
        let what = format!("seed {seed}, stuck");
        let (Some(optimistic), Some(faithful)) = (
            enumerate(&trace, Meaning::Optimistic, 10_000),
            enumerate(&trace, Meaning::Faithful, 10_000),
        ) else {
            continue;
        };
        // In addition, each event that can block alone.
        let mut all = optimistic.stuck.clone();
        for (i, event) in trace.events.iter().enumerate() {
            if matches!(event.op, Op::Wait(_) | Op::SemWait(_) | Op::BarrierExit(_)) {
                all.insert(vec![EventIndex::from_index(i)]);
            }
        }
        for (meaning, possible) in [
            (Meaning::Optimistic, &optimistic.stuck),
            (Meaning::Faithful, &faithful.stuck),
        ] {
            let answers = check_stuck(&trace, meaning, possible, &all, &what);
            asked += all.len();
            shown += answers.shown;
            refuted += answers.refuted;
        }
    }
    assert!(
        asked > 1000 && shown > asked / 6 && refuted > 50,
        "of {asked}: {shown} shown, {refuted} refuted"
    );
}

/// How many operations of a trace satisfy `does`.
fn count(trace: &Trace, does: impl Fn(Op) -> bool) -> usize {
    trace.events.iter().filter(|event| does(event.op)).count()
}

#[test]
fn threads_that_wait_for_each_other_agree_with_enumeration() {
    let (mut found, mut judged) = (0, 0);
    let (mut several_waits, mut several_rounds, mut several_takes) = (0, 0, 0);
    let seeds = 2000;
    for seed in 0..seeds {
        let mut trace = generate(
            seed + 200_000,
            3 + (seed / 3 % 3) as usize,
            14 + (seed % 13) as usize,
        );
        let what = format!("seed {seed}, waiting");
        let Some(all) = enumerate(&trace, Meaning::Optimistic, 20_000) else {
            continue;
        };
        judged += 1;
        let object = ObjectId::from_index(CONDITION);
        several_waits += usize::from(
            count(&trace, |op| op == Op::Wait(object)) >= 2
                && count(&trace, |op| op == Op::Signal(object)) >= 2,
        );
        several_rounds += usize::from(count(&trace, |op| op == Op::BarrierExit(BARRIER)) >= 3);
        several_takes += usize::from(count(&trace, |op| op == Op::SemWait(SEMAPHORE)) >= 2);
        let expected = Found {
            races: all.races,
            deadlocks: all.lock_deadlocks,
        };
        found += check(&trace, Meaning::Optimistic, &expected, &what);
        with_values(&mut trace, &mut Random::new(seed ^ 0x5eed));
        if let Some(all) = explore(&trace, Meaning::SameValues, 10_000) {
            found += check(&trace, Meaning::SameValues, &all.found, &what);
        }
    }
    let all = seeds as usize;
    assert!(
        found > all && judged > all / 2,
        "the random traces have too few bugs: {found} in {judged}"
    );
    assert!(
        several_waits > all / 20 && several_rounds > all / 20 && several_takes > all / 20,
        "too few traces in which threads compete: {several_waits} {several_rounds} {several_takes}"
    );
}
