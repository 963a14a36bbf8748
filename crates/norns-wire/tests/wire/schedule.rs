use norns_wire::schedule::{BadLine, HEADER, Hold, Record, Step, What, parse};

use crate::random::damage;
use norns_random::Random;

const NAMES: [&str; 3] = ["T0", "T0.1", "T0.1.12"];

fn random_record(random: &mut Random) -> Record<'static> {
    let write = random.one_in(2);
    let size = random.number() as u32;
    match random.below(6) {
        0 => Record::Thread(random.pick(&NAMES)),
        1 => Record::Step(Step {
            thread: random.number() as u32,
            what: match random.below(3) {
                0 => What::Point(random.draw() as u8),
                1 => What::Atomic(random.draw() as u8),
                _ => What::Access { size, write },
            },
            address: random.number(),
            pc: random.number(),
            event: random.number() as u32,
        }),
        2 => Record::Hold(Hold {
            thread: random.number() as u32,
            points: random.number() as u32,
            write,
            address: random.number(),
            size,
            pc: random.number(),
            event: random.number() as u32,
        }),
        3 => Record::EventsOnly,
        4 => Record::Module {
            start: random.number(),
            end: random.number(),
            path: random.pick(&["/bin/program", "/a library.so"]),
        },
        _ => Record::Hunt(random.number()),
    }
}

fn write(records: &[Record]) -> String {
    let mut text = format!("{HEADER}\n");
    for record in records {
        record.encode(&mut text).expect("a string takes all text");
        text.push('\n');
    }
    text
}

fn read(text: &[u8]) -> Result<Vec<Record<'_>>, BadLine> {
    let mut records = Vec::new();
    parse(text, |record| records.push(record)).map(|()| records)
}

#[test]
fn what_is_written_is_read_back() {
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let count = random.below(20);
        let records: Vec<Record> = (0..count).map(|_| random_record(&mut random)).collect();
        let text = write(&records);
        assert_eq!(read(text.as_bytes()), Ok(records), "seed {seed}: {text}");
    }
}

#[test]
fn a_damaged_schedule_is_refused_or_means_what_it_says() {
    for seed in 0..5000 {
        let mut random = Random::new(seed);
        let count = random.below(6);
        let records: Vec<Record> = (0..count).map(|_| random_record(&mut random)).collect();
        let mut text = write(&records).into_bytes();
        damage(&mut text, &mut random);
        let lines = text.split(|byte| *byte == b'\n').count();
        match read(&text) {
            Ok(records) => assert_eq!(
                read(write(&records).as_bytes()),
                Ok(records.clone()),
                "seed {seed}"
            ),
            Err(BadLine(line)) => assert!((1..=lines).contains(&line), "seed {seed}"),
        }
    }
}

#[test]
fn what_is_not_understood_is_refused() {
    for (text, line) in [
        ("", 1),
        ("norns-schedule 2\n", 1),
        ("norns-schedule 1\npoint 0 13 1 5 0 7\n", 2),
        ("norns-schedule 1\npoint 0 13 1 5 -1\n", 2),
        ("norns-schedule 1\npoint 0 13 1 +5 0\n", 2),
        ("norns-schedule 1\nthread \n", 2),
        ("norns-schedule 1\nthread T0\nhold 0 x\n", 3),
        ("norns-schedule 1\nthread T0\n\n", 3),
    ] {
        assert_eq!(read(text.as_bytes()), Err(BadLine(line)), "{text}");
    }
}

/// `norns export-test` writes schedules into tests that users keep: another form needs another version.
#[test]
fn the_form_of_a_schedule() {
    let text = "norns-schedule 1
thread T0
thread T0.1
point 0 13 1 555555555200 0
point 1 11 0 0 1
atomic 1 2 555555558010 555555555234 2
access 0 w 555555558014 4 555555555240 3
hold 1 2 r 555555558014 4 555555555250 5
hunt 555555555250
";
    let records = read(text.as_bytes()).expect("a good schedule");
    assert_eq!(write(&records), text);
}
