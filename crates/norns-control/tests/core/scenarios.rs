//! Single decisions of the core, step by step.

use norns_control::{
    Access, Act, Answer, Core, Effect, Happened, How, Line, Mode, Operation, Question, Schedule,
    Slot, Stop, Thread, Tried, Turn, Waking,
};
use norns_wire::Code;
use norns_wire::report::{Unheld, Why};
use norns_wire::schedule::{Hold, Step, What};

const MILLISECOND: i64 = 1_000_000;
pub(crate) const MAIN: Slot = Slot(0);
pub(crate) const ONE: Slot = Slot(1);
pub(crate) const TWO: Slot = Slot(2);
pub(crate) const NAMES: [&str; 3] = ["T0", "T0.1", "T0.2"];
pub(crate) const LOCK: usize = 0x1000;
const OTHER_LOCK: usize = 0x2000;
const VARIABLE: usize = 0x3000;

pub(crate) fn memory() -> [Thread; 3] {
    [Thread::new(), Thread::new(), Thread::new()]
}

/// A main thread and two children, all of which run; the kernel says that nobody sleeps.
pub(crate) struct Game<'m> {
    core: Box<Core<'m>>,
    now: i64,
    pub(crate) all_asleep: bool,
    pub(crate) lines: Vec<Line>,
    woken: Vec<Slot>,
}

impl<'m> Game<'m> {
    pub(crate) fn new(memory: &'m mut [Thread; 3], prepare: impl FnOnce(&mut Core<'m>)) -> Self {
        let mut core = Box::new(Core::new());
        prepare(&mut core);
        let mut game = Game {
            core,
            now: 1,
            all_asleep: false,
            lines: Vec::new(),
            woken: Vec::new(),
        };
        for ((slot, name), thread) in [MAIN, ONE, TWO].into_iter().zip(NAMES).zip(memory) {
            let added = if slot == MAIN {
                game.core.add_running(slot, thread, name)
            } else {
                game.core.add_child(slot, thread, name)
            };
            assert!(added);
        }
        for slot in [ONE, TWO] {
            game.core.step(slot, Happened::Created, 0);
            game.core.step(slot, Happened::Begins, 0);
        }
        game.take_effects();
        game.woken.clear();
        game
    }

    fn take_effects(&mut self) {
        while let Some(line) = self.core.next_line() {
            self.lines.push(line);
        }
        while let Some(effect) = self.core.next_effect() {
            if let Effect::Wake(slot) = effect {
                self.woken.push(slot);
            }
        }
    }

    /// What the core answers once it has asked all that it wants to know.
    pub(crate) fn say(&mut self, slot: Slot, what: Happened) -> Act {
        let mut act = self.core.step(slot, what, self.now);
        while let Act::Ask(question) = act {
            let answer = match question {
                Question::AllAsleep => Answer::AllAsleep(self.all_asleep),
                Question::SignalCouldHelp => Answer::SignalCouldHelp(false),
                Question::ProcessorTime(_) => Answer::ProcessorTime(self.now),
                Question::TurnHolder(_) => Answer::TurnHolder {
                    events: 0,
                    asleep: false,
                    processor: 0,
                },
            };
            act = self.core.step(slot, Happened::Answers(answer), self.now);
        }
        self.take_effects();
        act
    }

    pub(crate) fn arrive(&mut self, slot: Slot, code: Code, object: usize) -> Act {
        let operation = Operation::new(code, object, 1);
        self.say(slot, Happened::Arrives(operation, How::AtItsTurn))
    }

    /// Comes to a lock and tries it when told to.
    pub(crate) fn lock(&mut self, slot: Slot, lock: usize, tried: Tried) -> Act {
        let how = How::Tried { deadline: None };
        let operation = Operation::new(Code::Lock, lock, 1);
        match self.say(slot, Happened::Arrives(operation, how)) {
            Act::Try => self.say(slot, Happened::Tried(tried)),
            act => act,
        }
    }

    /// The thread sleeps as it was told to, for its whole time.
    pub(crate) fn wakes_after(&mut self, slot: Slot, act: Act) -> Act {
        let (Act::Sleep(Some(nap)) | Act::SleepOut(nap)) = act else {
            panic!("{act:?} is no sleep with an end");
        };
        self.now += nap;
        self.say(slot, Happened::Woke(Waking::TimeOut))
    }

    /// As `wakes_after`, until the thread does something else.
    pub(crate) fn sleeps(&mut self, slot: Slot, mut act: Act) -> Act {
        for _ in 0..10_000 {
            if !matches!(act, Act::Sleep(_) | Act::SleepOut(_)) {
                return act;
            }
            act = self.wakes_after(slot, act);
        }
        panic!("the thread sleeps for ever");
    }
}

pub(crate) const GOT: Tried = Tried::Got(Mode::Exclusive);

pub(crate) fn point(thread: u32, code: Code, address: usize) -> Step {
    Step {
        thread,
        what: What::Point(code as u8),
        address: address as u64,
        pc: 0,
        event: 0,
    }
}

fn following<'m>(steps: &'m [Step]) -> impl FnOnce(&mut Core<'m>) {
    move |core| {
        core.follow(Schedule {
            names: &NAMES,
            steps,
            ..Schedule::empty()
        });
    }
}

fn access(write: bool, pc: usize) -> Access {
    Access {
        address: VARIABLE,
        size: 4,
        write,
        atomic: false,
        pc,
    }
}

/// Two threads that race: the first writes at 10, the second reads at 20.
fn holding(core: &mut Core) {
    let hold = |thread, write, pc| Hold {
        thread,
        points: 0,
        write,
        address: VARIABLE as u64,
        size: 4,
        pc,
        event: 0,
    };
    core.follow(Schedule {
        names: &NAMES,
        holds: [Some(hold(1, true, 10)), Some(hold(2, false, 20))],
        ..Schedule::empty()
    });
}

#[test]
fn a_step_waits_for_the_steps_before_it() {
    let steps = [point(1, Code::Lock, LOCK), point(2, Code::Lock, OTHER_LOCK)];
    let mut memory = memory();
    let mut game = Game::new(&mut memory, following(&steps));
    let waits = game.lock(TWO, OTHER_LOCK, GOT);
    assert!(matches!(waits, Act::Sleep(Some(_))));
    assert_eq!(game.lock(ONE, LOCK, GOT), Act::Go(Turn::Succeeds));
    assert_eq!(game.woken, [TWO]);
    assert_eq!(game.say(TWO, Happened::Woke(Waking::Woken)), Act::Try);
    assert_eq!(game.say(TWO, Happened::Tried(GOT)), Act::Go(Turn::Succeeds));
    assert_eq!(game.lines, [Line::Followed { steps: 2 }]);
}

/// What a program does that cannot follow its schedule, and how that ends. The last step is TWO's.
fn diverges(step: Step, why: Why, run: impl FnOnce(&mut Game) -> Act) {
    let steps = [step, point(2, Code::Unlock, LOCK)];
    let mut memory = memory();
    let mut game = Game::new(&mut memory, following(&steps));
    let Act::Stop(Stop::Diverged(diverged)) = run(&mut game) else {
        panic!("{why:?} was expected");
    };
    assert_eq!(diverged.why, why);
}

#[test]
fn a_program_that_cannot_follow_is_stopped() {
    let lock_of_one = point(1, Code::Lock, LOCK);
    diverges(lock_of_one, Why::AnotherOperation, |game| {
        game.arrive(ONE, Code::Unlock, LOCK)
    });
    diverges(lock_of_one, Why::AnotherOperation, |game| {
        game.lock(ONE, OTHER_LOCK, GOT)
    });
    diverges(lock_of_one, Why::CannotSucceed, |game| {
        game.lock(ONE, LOCK, Tried::Busy)
    });
    diverges(lock_of_one, Why::HasEnded, |game| {
        game.core.step(ONE, Happened::NotCreated, 0);
        game.arrive(TWO, Code::Unlock, LOCK)
    });
    diverges(lock_of_one, Why::Sleeps, |game| {
        game.all_asleep = true;
        let act = game.arrive(TWO, Code::Unlock, LOCK);
        game.sleeps(TWO, act)
    });
    diverges(point(7, Code::Lock, LOCK), Why::NotCreated, |game| {
        game.all_asleep = true;
        let act = game.arrive(TWO, Code::Unlock, LOCK);
        game.sleeps(TWO, act)
    });
    diverges(point(0, Code::Unlock, LOCK), Why::ProgramEnds, |game| {
        game.say(MAIN, Happened::EndsProcess)
    });
}

/// ONE has the only step and waits for something that the core does not see, such as a variable that
/// TWO sets; TWO waits for ONE.
fn one_waits_for_two(run: impl FnOnce(&mut Game)) {
    let steps = [point(1, Code::Lock, LOCK)];
    let mut memory = memory();
    let mut game = Game::new(&mut memory, following(&steps));
    game.all_asleep = true;
    let act = game.lock(TWO, OTHER_LOCK, GOT);
    assert_eq!(game.sleeps(TWO, act), Act::Try);
    assert_eq!(game.say(TWO, Happened::Tried(GOT)), Act::Go(Turn::Free));
    run(&mut game);
}

#[test]
fn a_thread_without_steps_goes_on_when_the_next_step_does_not_come() {
    one_waits_for_two(|game| {
        assert_eq!(game.arrive(TWO, Code::Unlock, LOCK), Act::Go(Turn::Free));
        game.say(TWO, Happened::Completes);
        assert_eq!(game.lines, [], "that was no step of the schedule");
        assert_eq!(game.lock(ONE, LOCK, GOT), Act::Go(Turn::Succeeds));
        assert_eq!(game.lines, [Line::Followed { steps: 1 }]);
    });
}

#[test]
fn a_step_waits_for_a_lock_that_a_thread_without_steps_has() {
    one_waits_for_two(|game| {
        let act = game.lock(ONE, LOCK, Tried::Busy);
        assert_eq!(game.wakes_after(ONE, act), Act::Try);
        assert_eq!(game.say(ONE, Happened::Tried(GOT)), Act::Go(Turn::Succeeds));
    });
    one_waits_for_two(|game| {
        let mut act = game.lock(ONE, LOCK, Tried::Busy);
        while let Act::Sleep(_) = act {
            assert_eq!(game.wakes_after(ONE, act), Act::Try);
            act = game.say(ONE, Happened::Tried(Tried::Busy));
        }
        assert!(matches!(act, Act::Stop(Stop::Diverged(_))), "{act:?}");
    });
}

#[test]
fn a_schedule_that_stands_still_is_given_up_by_who_is_blocked_outside_it() {
    one_waits_for_two(|game| {
        let mut act = game.lock(TWO, LOCK, Tried::Busy);
        while let Act::Sleep(_) = act {
            act = game.wakes_after(TWO, act);
            if act == Act::Try {
                act = game.say(TWO, Happened::Tried(Tried::Busy));
            }
        }
        let Act::Stop(Stop::Diverged(diverged)) = act else {
            panic!("{act:?}");
        };
        assert_eq!(diverged.why, Why::Sleeps);
    });
}

#[test]
fn a_wait_that_the_schedule_does_not_have_may_be_a_cancellation() {
    let steps = [point(1, Code::Unlock, LOCK)];
    let mut memory = memory();
    let mut game = Game::new(&mut memory, following(&steps));
    let how = How::Signalled { deadline: None };
    let wait = Operation::new(Code::Wait, OTHER_LOCK, 1);
    let act = game.say(ONE, Happened::Arrives(wait, how));
    assert!(matches!(act, Act::Sleep(_)));
    assert_eq!(game.say(ONE, Happened::IsCancelled), Act::Go(Turn::Free));
    let act = game.say(ONE, Happened::Woke(Waking::Woken));
    assert_eq!(act, Act::Go(Turn::Cancelled));
}

#[test]
fn a_cycle_is_reported_by_the_thread_that_closes_it() {
    let mut memory = memory();
    let mut game = Game::new(&mut memory, |_| ());
    assert_eq!(game.lock(ONE, LOCK, GOT), Act::Go(Turn::Free));
    assert_eq!(game.lock(TWO, OTHER_LOCK, GOT), Act::Go(Turn::Free));
    let waits = game.lock(ONE, OTHER_LOCK, Tried::Busy);
    assert!(matches!(waits, Act::Sleep(Some(_))));
    let act = game.lock(TWO, LOCK, Tried::Busy);
    assert_eq!(act, Act::Stop(Stop::Cycle(TWO)));
    let cycle = game.core.cycle(TWO).expect("a cycle");
    assert_eq!(cycle.slots(), [TWO, ONE]);
}

#[test]
fn a_release_wakes_who_waits_and_nobody_else() {
    let mut memory = memory();
    let mut game = Game::new(&mut memory, |_| ());
    game.lock(ONE, LOCK, GOT);
    game.lock(TWO, LOCK, Tried::Busy);
    game.arrive(ONE, Code::Unlock, LOCK);
    game.say(ONE, Happened::Releases(LOCK));
    game.say(ONE, Happened::Changes(OTHER_LOCK));
    assert_eq!(game.woken, []);
    game.say(ONE, Happened::Changes(LOCK));
    assert_eq!(game.woken, [TWO]);
    assert_eq!(game.say(TWO, Happened::Woke(Waking::Woken)), Act::Try);
}

#[test]
fn threads_that_are_all_blocked_are_stuck_after_some_looks() {
    let mut memory = memory();
    let mut game = Game::new(&mut memory, |_| ());
    for slot in [MAIN, ONE] {
        game.say(slot, Happened::Ends);
    }
    let act = game.lock(TWO, LOCK, Tried::Busy);
    assert_eq!(game.sleeps(TWO, act), Act::Stop(Stop::Stuck));
}

#[test]
fn a_time_out_ends_a_wait_that_is_no_deadlock() {
    let mut memory = memory();
    let mut game = Game::new(&mut memory, |_| ());
    for slot in [MAIN, ONE] {
        game.say(slot, Happened::Ends);
    }
    let how = How::Tried {
        deadline: Some(game.now + 5 * MILLISECOND),
    };
    let wait = Operation {
        may_fail: true,
        ..Operation::new(Code::SemWait, LOCK, 1)
    };
    assert_eq!(game.say(TWO, Happened::Arrives(wait, how)), Act::Try);
    let act = game.say(TWO, Happened::Tried(Tried::Busy));
    assert_eq!(act, Act::Sleep(Some(5 * MILLISECOND)));
    assert_eq!(game.wakes_after(TWO, act), Act::Try);
    let act = game.say(TWO, Happened::Tried(Tried::Busy));
    assert_eq!(act, Act::Go(Turn::Fails));
}

#[test]
fn both_accesses_of_a_race_are_seen_at_once() {
    let mut memory = memory();
    let mut game = Game::new(&mut memory, holding);
    let writer = game.say(ONE, Happened::Accesses(access(true, 10)));
    assert!(matches!(writer, Act::Sleep(_)));
    // Another place is no reason to stop.
    let act = game.say(TWO, Happened::Accesses(access(false, 21)));
    assert_eq!(act, Act::Go(Turn::Free));
    // The reader goes on first: the writer looks whether it only waits for the write.
    let reader = game.say(TWO, Happened::Accesses(access(false, 20)));
    let reader = game.sleeps(TWO, reader);
    assert_eq!(reader, Act::Go(Turn::Free));
    assert!(matches!(game.lines[..], [Line::Held(..)]));
    assert_eq!(game.sleeps(ONE, writer), Act::Go(Turn::Free));
    assert_eq!(game.lines.len(), 1);
}

/// A thread that is held for another one goes on, and this is why.
fn held_in_vain(why: Unheld, run: impl FnOnce(&mut Game)) {
    let mut memory = memory();
    let mut game = Game::new(&mut memory, holding);
    let act = game.say(ONE, Happened::Accesses(access(true, 10)));
    run(&mut game);
    assert_eq!(game.sleeps(ONE, act), Act::Go(Turn::Free));
    let (thread, other) = (ONE, Err(2));
    assert_eq!(game.lines, [Line::Unheld { thread, other, why }]);
    // Nobody waits for it any more.
    let act = game.say(TWO, Happened::Accesses(access(false, 20)));
    assert_eq!(act, Act::Go(Turn::Free));
}

#[test]
fn a_held_thread_goes_on_when_the_other_cannot_come() {
    held_in_vain(Unheld::HasEnded, |game| {
        game.say(TWO, Happened::Ends);
    });
    held_in_vain(Unheld::IsBlocked, |game| {
        game.lock(TWO, LOCK, Tried::Busy);
    });
    held_in_vain(Unheld::IsAsleep, |game| game.all_asleep = true);
    held_in_vain(Unheld::WentPast, |game| {
        game.arrive(TWO, Code::Unlock, LOCK);
    });
    held_in_vain(Unheld::DidNotCome, |_| ());
}

#[test]
fn a_loop_that_waits_for_the_held_write_is_seen() {
    let mut memory = memory();
    let mut game = Game::new(&mut memory, holding);
    let passes = Happened::Passes {
        pc: 21,
        address: VARIABLE,
        reads: Some(4),
    };
    let mut act = game.say(ONE, Happened::Accesses(access(true, 10)));
    while matches!(act, Act::Sleep(_)) {
        for _ in 0..10 {
            game.say(TWO, passes);
        }
        act = game.wakes_after(ONE, act);
    }
    assert_eq!(act, Act::Go(Turn::Free));
    let why = Unheld::GoesRound;
    assert!(matches!(game.lines[..], [Line::Unheld { why: w, .. }] if w == why));
    assert!(game.core.is_any_suspected());
    let (address, size) = (VARIABLE, 4);
    game.say(ONE, Happened::Writes { address, size });
    game.arrive(ONE, Code::Unlock, LOCK);
    game.arrive(TWO, Code::Unlock, LOCK);
    let told = game.lines.last().expect("the loop is told");
    assert!(matches!(
        told,
        Line::Spin {
            thread: TWO,
            address: VARIABLE,
            pc: 21,
            ..
        }
    ));
    assert!(!game.core.is_any_suspected());
}

#[test]
fn a_held_thread_waits_for_one_that_computes() {
    let mut memory = memory();
    let mut game = Game::new(&mut memory, holding);
    let counter = VARIABLE + 64;
    let (reads, writes) = (Some(4), None);
    let mut act = game.say(ONE, Happened::Accesses(access(true, 10)));
    let begin = game.now;
    // Longer than a loop that waits is watched.
    while game.now - begin < 2_000_000_000 {
        for (pc, reads) in [(21, reads), (22, writes)].repeat(10) {
            let address = counter;
            game.say(TWO, Happened::Passes { pc, address, reads });
        }
        assert!(matches!(act, Act::Sleep(_)), "it is waited for");
        act = game.wakes_after(ONE, act);
    }
    game.say(TWO, Happened::Accesses(access(false, 20)));
    game.wakes_after(ONE, act);
    assert!(matches!(game.lines[..], [Line::Held(..)]));
}

#[test]
fn a_thread_that_lingers_sees_the_loop_that_waits_for_it() {
    let mut memory = memory();
    let mut game = Game::new(&mut memory, |core| {
        core.follow(Schedule {
            names: &NAMES,
            hunts: &[10, 20],
            ..Schedule::empty()
        });
    });
    let passes = Happened::Passes {
        pc: 21,
        address: VARIABLE,
        reads: Some(4),
    };
    let mut act = game.say(ONE, Happened::Accesses(access(true, 10)));
    while matches!(act, Act::Sleep(_)) {
        game.say(TWO, passes);
        act = game.wakes_after(ONE, act);
    }
    assert_eq!(act, Act::Go(Turn::Free));
    assert!(game.core.is_any_suspected());
}

#[test]
fn a_schedule_whose_next_thread_polls_is_given_up() {
    let mut memory = memory();
    let steps = [point(2, Code::Lock, LOCK), point(1, Code::Lock, LOCK)];
    let mut game = Game::new(&mut memory, |core| {
        core.follow(Schedule {
            names: &NAMES,
            steps: &steps,
            ..Schedule::empty()
        });
    });
    let passes = Happened::Passes {
        pc: 21,
        address: VARIABLE,
        reads: Some(4),
    };
    let start = game.now;
    let mut act = game.lock(ONE, LOCK, GOT);
    while matches!(act, Act::Sleep(_)) {
        for _ in 0..10 {
            game.say(TWO, passes);
        }
        act = game.wakes_after(ONE, act);
    }
    let why = Why::DoesNotCome;
    assert!(matches!(act, Act::Stop(Stop::Diverged(diverged)) if diverged.why == why));
    assert!(game.now - start < 1500 * MILLISECOND);
}

#[test]
fn threads_that_linger_meet() {
    let mut memory = memory();
    let mut game = Game::new(&mut memory, |core| {
        core.follow(Schedule {
            names: &NAMES,
            hunts: &[10, 20],
            ..Schedule::empty()
        });
    });
    let waits = game.say(ONE, Happened::Accesses(access(true, 10)));
    assert!(matches!(waits, Act::Sleep(_)));
    let meets = game.say(TWO, Happened::Accesses(access(true, 20)));
    assert_eq!(meets, Act::Go(Turn::Free));
    assert!(matches!(game.lines[..], [Line::Held(..)]));
    assert_eq!(game.woken, [ONE]);
    assert_eq!(game.wakes_after(ONE, waits), Act::Go(Turn::Free));
    // Once is enough.
    let act = game.say(ONE, Happened::Accesses(access(true, 10)));
    assert_eq!(act, Act::Go(Turn::Free));
}

#[test]
fn with_several_candidates_threads_linger_on_after_a_meeting() {
    let mut memory = memory();
    let mut game = Game::new(&mut memory, |core| {
        core.follow(Schedule {
            names: &NAMES,
            hunts: &[10, 20, 30],
            ..Schedule::empty()
        });
    });
    for pcs in [[10, 20], [10, 30]] {
        let waits = game.say(ONE, Happened::Accesses(access(true, pcs[0])));
        assert!(matches!(waits, Act::Sleep(_)));
        let meets = game.say(TWO, Happened::Accesses(access(true, pcs[1])));
        assert_eq!(meets, Act::Go(Turn::Free));
        assert_eq!(game.wakes_after(ONE, waits), Act::Go(Turn::Free));
    }
    assert!(matches!(game.lines[..], [Line::Held(..), Line::Held(..)]));
}

#[test]
fn a_thread_of_lower_priority_waits_for_a_while() {
    let mut memory = memory();
    let mut game = Game::new(&mut memory, |core| core.prioritise(1, 1000));
    let acts = [MAIN, ONE, TWO].map(|slot| game.arrive(slot, Code::Unlock, LOCK));
    let waiting = acts.iter().filter(|act| matches!(act, Act::Sleep(_)));
    assert_eq!(waiting.count(), 2);
    for (slot, act) in [MAIN, ONE, TWO].into_iter().zip(acts) {
        assert_eq!(game.sleeps(slot, act), Act::Go(Turn::Free));
    }
}

#[test]
fn a_time_out_of_serial_mode_ends_when_nobody_else_can_run() {
    let mut memory = memory();
    let mut game = Game::new(&mut memory, |core| core.serialise(0));
    for slot in [ONE, TWO] {
        game.core.step(slot, Happened::NotCreated, 0);
    }
    let until = game.now + 50 * MILLISECOND;
    let duration = 50 * MILLISECOND;
    let act = game.say(MAIN, Happened::Sleeps { duration, until });
    assert_eq!(game.sleeps(MAIN, act), Act::Go(Turn::Fails));
    assert!(game.now >= until);
}
