//! Whatever the core is told, it answers: no sequence of events makes it panic or run for ever.

use norns_control::{
    Access, Act, Answer, Core, Happened, How, Mode, Operation, Schedule, Slot, Thread, Tried,
    Waking,
};
use norns_random::Random;
use norns_wire::Code;
use norns_wire::schedule::{Hold, Step, What};

const THREADS: usize = 5;

fn code(random: &mut Random) -> Code {
    loop {
        if let Some(code) = Code::from_byte(1 + random.below(41) as u8) {
            return code;
        }
    }
}

fn operation(random: &mut Random) -> Operation {
    Operation {
        atomic: random.below(4) as u8,
        may_fail: random.below(2) == 0,
        fails_by_cancel: random.below(4) == 0,
        ..Operation::new(code(random), random.below(6), random.below(4))
    }
}

fn access(random: &mut Random) -> Access {
    Access {
        address: random.below(8),
        size: random.below(4),
        write: random.below(2) == 0,
        atomic: random.below(4) == 0,
        pc: random.below(4),
    }
}

fn how(random: &mut Random, now: i64) -> How {
    let deadline = (random.below(2) == 0).then_some(now + random.below(1 << 28) as i64);
    let thread = Slot(random.below(THREADS + 1) as u32);
    let round = random.below(2) as u32;
    match random.below(6) {
        0 => How::AtItsTurn,
        1 => How::TriedIfScheduled,
        2 => How::Tried { deadline },
        3 => How::Signalled { deadline },
        4 => How::RoundOver { round },
        _ => How::Ended { thread, deadline },
    }
}

fn answer(random: &mut Random) -> Answer {
    match random.below(4) {
        0 => Answer::AllAsleep(random.below(2) == 0),
        1 => Answer::SignalCouldHelp(random.below(2) == 0),
        2 => Answer::ProcessorTime(random.below(1 << 30) as i64),
        _ => Answer::TurnHolder {
            events: random.below(3) as u64,
            asleep: random.below(2) == 0,
            processor: random.below(100) as u64,
        },
    }
}

fn happened(random: &mut Random, now: i64) -> Happened {
    let object = random.below(6);
    let (pc, address, size) = (random.below(4), random.below(8), random.below(4));
    let mode = [Mode::Exclusive, Mode::Shared][random.below(2)];
    match random.below(32) {
        0..4 => Happened::Arrives(operation(random), how(random, now)),
        4..8 => {
            Happened::Woke([Waking::Woken, Waking::TimeOut, Waking::Interrupted][random.below(3)])
        }
        8 | 9 => Happened::Tried([Tried::Got(mode), Tried::Over, Tried::Busy][random.below(3)]),
        10 | 11 => Happened::Answers(answer(random)),
        12 => Happened::Again,
        13 => Happened::Completes,
        14 => Happened::CompletesAtomic {
            address,
            pc,
            succeeded: random.below(2) == 0,
        },
        15 => Happened::Changes(object),
        16 => Happened::Takes {
            lock: object,
            pc,
            mode,
        },
        17 => Happened::Releases(object),
        18 => Happened::Signals {
            condition: object,
            all: random.below(2) == 0,
        },
        19 => Happened::BeginsWait { condition: object },
        20 => Happened::EndsWait,
        21 => Happened::ExpectsCancellation,
        22 => Happened::Passes {
            pc,
            address,
            reads: (random.below(2) == 0).then_some(size),
        },
        23 => Happened::Writes { address, size },
        24 | 25 => Happened::Accesses(access(random)),
        26 => Happened::LingersBeforeLock { pc },
        27 => [Happened::Created, Happened::NotCreated, Happened::Begins][random.below(3)],
        28 => [Happened::Ends, Happened::IsCancelled, Happened::EndsProcess][random.below(3)],
        29 => Happened::Yields { ran_for: 1000 },
        30 => [Happened::WantsTurn, Happened::Leaves, Happened::Jumped][random.below(3)],
        _ => Happened::Sleeps {
            duration: random.below(1 << 20) as i64,
            until: now + random.below(1 << 20) as i64,
        },
    }
}

fn steps(random: &mut Random) -> Vec<Step> {
    let step = |random: &mut Random| Step {
        thread: random.below(THREADS) as u32,
        what: match random.below(4) {
            0 => What::Access {
                size: 1 + random.below(4) as u32,
                write: random.below(2) == 0,
            },
            1 => What::Atomic(random.below(4) as u8),
            _ => What::Point(code(random) as u8),
        },
        address: random.below(6) as u64,
        pc: random.below(4) as u64,
        event: 0,
    };
    (0..random.below(12)).map(|_| step(random)).collect()
}

fn hold(random: &mut Random) -> Hold {
    Hold {
        thread: random.below(THREADS) as u32,
        points: random.below(3) as u32,
        write: random.below(2) == 0,
        address: random.below(8) as u64,
        size: 1 + random.below(4) as u32,
        pc: random.below(4) as u64,
        event: 0,
    }
}

/// Everything that the core answers to this sequence of events.
fn run(seed: u64) -> Vec<Act> {
    const NAMES: [&str; THREADS] = ["T0", "T0.1", "T0.2", "T0.3", "T0.4"];
    let mut random = Random::new(seed);
    let steps = steps(&mut random);
    let mut memory: Vec<Thread> = (0..THREADS).map(|_| Thread::new()).collect();
    let mut core = Box::new(Core::new());
    match seed % 4 {
        0 => core.serialise(seed),
        1 => core.prioritise(seed, 20),
        _ => {}
    }
    if !seed.is_multiple_of(4) {
        core.follow(Schedule {
            names: &NAMES,
            steps: &steps,
            holds: [Some(hold(&mut random)), Some(hold(&mut random))],
            hunts: &[1, 2, 3][..random.below(4)],
            pace: random.below(3) as i64 * 1_000_000_000,
            events_only: random.below(4) == 0,
            modules: &[],
        });
    }
    for (number, thread) in memory.iter_mut().enumerate() {
        let slot = Slot(number as u32);
        if number == 0 {
            core.add_running(slot, thread, NAMES[number]);
        } else {
            core.add_child(slot, thread, NAMES[number]);
        }
    }
    let mut now = 0;
    let mut acts = Vec::new();
    for _ in 0..400 {
        now += random.below(1 << 26) as i64;
        // One more than there are.
        let slot = Slot(random.below(THREADS + 1) as u32);
        let what = happened(&mut random, now);
        acts.push(core.step(slot, what, now));
        if random.below(3) > 0 {
            while core.next_line().is_some() {}
            while core.next_effect().is_some() {}
        }
        if random.below(50) == 0 {
            core.init_barrier(random.below(6), random.below(3) as u32);
            core.arrive_at_barrier(random.below(6));
        }
    }
    acts
}

#[test]
fn no_sequence_of_events_makes_the_core_panic() {
    for seed in 0..20_000 {
        let result = std::panic::catch_unwind(|| run(seed));
        assert!(result.is_ok(), "seed {seed}");
    }
}

#[test]
fn the_same_events_give_the_same_answers() {
    for seed in 0..500 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
