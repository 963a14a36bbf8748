use norns_wire::Code;
use norns_wire::report::{
    Access, Diverged, Expected, HEADER, Message, NotUnderstood, Operation, Shape, Side, Stack,
    Unheld, Waiting, Why, parse,
};

use crate::random::damage;
use norns_random::Random;

const NAMES: [&str; 4] = ["T0", "T0.1", "T0.1.12", "?"];
const STACK: [u64; 4] = [0, 0x5555_5555_5a24, u64::MAX, 1];

fn random_side(random: &mut Random) -> Side<'static> {
    Side {
        thread: random.pick(&NAMES),
        access: random.pick(Access::ALL),
        address: random.number(),
        size: random.number() as u32,
        pc: random.number(),
    }
}

fn random_diverged(random: &mut Random) -> Diverged<'static> {
    Diverged {
        thread: random.pick(&NAMES),
        operation: random.one_in(2).then(|| Operation {
            code: random.pick(Code::ALL),
            atomic: random.below(4) as u8,
            address: random.number(),
            pc: random.number(),
        }),
        expected: random.one_in(2).then(|| Expected {
            step: random.number(),
            thread: random.pick(&NAMES),
            event: random.number() as u32,
        }),
        why: random.pick(Why::ALL),
    }
}

const KINDS: usize = 16;

/// A message of the kind with this number.
fn message(kind: usize, random: &mut Random) -> Message<'static> {
    let thread = random.pick(&NAMES);
    let (address, pc) = (random.number(), random.number());
    let stack = Stack::new(&STACK[..random.below(STACK.len() + 1)]);
    match kind {
        0 => Message::Begin,
        1 => Message::Map(random.pick(&[
            b"555555554000-555555555000 r-xp 00001000 08:01 42    /tmp/caf\xc3\xa9 au lait/a.out"
                as &[u8],
            b"",
        ])),
        2 => Message::Forked,
        3 => Message::Child {
            process: random.number() as u32,
        },
        4 => Message::Followed {
            steps: random.number(),
        },
        5 => Message::Skipped {
            thread,
            event: random.number() as u32,
        },
        6 => Message::Diverged(random_diverged(random)),
        7 => Message::Held(random_side(random), random_side(random)),
        8 => Message::Unheld {
            thread,
            other: random.pick(&NAMES),
            why: random.pick(Unheld::ALL),
        },
        9 => Message::Spin {
            thread,
            address,
            pc,
            reads: random.number(),
        },
        10 => Message::Deadlock {
            shape: random.pick(Shape::ALL),
            threads: random.number() as u32,
        },
        11 => Message::Waits {
            thread,
            code: random.pick(Code::ALL),
            object: address,
            pc,
            stack,
        },
        12 => Message::HeldBy {
            thread,
            object: address,
            pc,
        },
        13 => Message::DeadlockEnd,
        14 => Message::UnknownCall {
            thread,
            number: random.number() as u32,
        },
        _ => Message::Race {
            waits: random.pick(Waiting::ALL),
            earlier: random_side(random),
            later: random_side(random),
            stack,
        },
    }
}

fn encode(message: &Message) -> String {
    let mut line = String::new();
    message.encode(&mut line).expect("a string takes all text");
    line
}

fn random_report(random: &mut Random) -> Vec<Message<'static>> {
    let more = random.below(12);
    let mut all = vec![Message::Begin];
    all.extend((0..more).map(|_| message(random.below(KINDS), random)));
    all
}

fn write(messages: &[Message]) -> String {
    let lines = messages.iter().map(|message| encode(message) + "\n");
    lines.collect()
}

#[test]
fn every_message_is_read_back() {
    for kind in 0..KINDS {
        for seed in 0..500 {
            let message = message(kind, &mut Random::new(seed));
            let line = encode(&message);
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(
                Message::parse(line.as_bytes()),
                Some(message),
                "kind {kind}, seed {seed}: {line}"
            );
        }
    }
}

#[test]
fn a_report_is_read_back() {
    for seed in 0..1000 {
        let messages = random_report(&mut Random::new(seed));
        let text = write(&messages);
        let read: Result<Vec<Message>, NotUnderstood> = parse(text.as_bytes()).collect();
        assert_eq!(read.as_ref(), Ok(&messages), "seed {seed}: {text}");
    }
}

/// Nothing is dropped: every line of a damaged report is read or handed out as not understood, and
/// what is read means what it says.
#[test]
fn every_line_of_a_damaged_report_is_accounted_for() {
    for seed in 0..10_000 {
        let mut random = Random::new(seed);
        let mut text = write(&random_report(&mut random)).into_bytes();
        damage(&mut text, &mut random);
        let mut number = 0;
        let mut stopped = false;
        for read in parse(&text) {
            assert!(
                !stopped,
                "seed {seed}: something follows what must come last"
            );
            number += 1;
            match read {
                Ok(message) => {
                    let again = encode(&message);
                    let read = Message::parse(again.as_bytes());
                    assert_eq!(read.map(|read| encode(&read)), Some(again), "seed {seed}");
                }
                Err(NotUnderstood::Header(_)) => {
                    assert_eq!(number, 1, "seed {seed}");
                    stopped = true;
                }
                Err(NotUnderstood::Line { number: line, .. }) => assert_eq!(line, number),
                Err(NotUnderstood::Cut {
                    number: line,
                    line: cut,
                }) => {
                    assert_eq!(line, number);
                    assert!(text.ends_with(cut), "seed {seed}");
                    stopped = true;
                }
            }
        }
        let lines = text.split_inclusive(|byte| *byte == b'\n').count();
        let is_refused = !text.starts_with(format!("{HEADER}\n").as_bytes());
        assert_eq!(
            number,
            if is_refused { lines.min(1) } else { lines },
            "seed {seed}"
        );
    }
}

#[test]
fn random_bytes_are_no_report() {
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let length = random.below(200);
        let text: Vec<u8> = (0..length).map(|_| random.draw() as u8).collect();
        let mut read = parse(&text);
        assert!(!matches!(read.next(), Some(Ok(_))), "seed {seed}");
        assert!(read.next().is_none(), "seed {seed}");
    }
}

#[test]
fn a_cut_last_line_is_never_parsed() {
    let text = format!("{HEADER}\nfollowed 12");
    let read: Vec<_> = parse(text.as_bytes()).collect();
    let cut = NotUnderstood::Cut {
        number: 2,
        line: b"followed 12",
    };
    assert_eq!(read, [Ok(Message::Begin), Err(cut)]);
}

#[test]
fn another_version_is_refused() {
    for header in ["norns-replay 1", "norns-report 3", "norns-report 4 "] {
        let text = format!("{header}\nfollowed 12\n");
        let read: Vec<_> = parse(text.as_bytes()).collect();
        assert_eq!(read, [Err(NotUnderstood::Header(header.as_bytes()))]);
    }
}

#[test]
fn lines_that_are_no_message() {
    for line in [
        "",
        "followed",
        "followed -1",
        "followed 1 2",
        "followed 99999999999999999999",
        "held T0 w 1 2 3",
        "held T0 x 1 2 3 T0 w 1 2 3",
        "unheld T0 T0.1 nevermore",
        "waits T0 0 1 2",
        "waits T0 17 1 2 ",
        "waits T0 17 1 2 3  4",
        "diverged T0 99 0 1 2 3 T0 4 sleeps",
        "race may-wait T0 w 1 2 3",
        "FORKED",
        "forked ",
    ] {
        assert_eq!(Message::parse(line.as_bytes()), None, "{line}");
    }
}

/// A path that is not UTF-8 loses these bytes only.
#[test]
fn a_map_that_is_not_utf_8() {
    let line = encode(&Message::Map(b"1000-2000 r-xp /tmp/\xff\xfe/a"));
    assert_eq!(line, "map 1000-2000 r-xp /tmp/\u{fffd}\u{fffd}/a");
}
