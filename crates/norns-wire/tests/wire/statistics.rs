use norns_random::Random;
use norns_wire::statistics::{Counter, parse};

use crate::random::damage;

fn write(counters: &[(Counter, u64)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (counter, value) in counters {
        counter.encode(*value, |byte| payload.push(byte));
    }
    payload
}

#[test]
fn counters_are_read_back() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let all: Vec<(Counter, u64)> = Counter::ALL
            .iter()
            .map(|counter| (*counter, random.number()))
            .collect();
        let payload = write(&all);
        let read: Result<Vec<(Counter, u64)>, &[u8]> = parse(&payload).collect();
        assert_eq!(read, Ok(all), "seed {seed}");
    }
    assert_eq!(write(&[(Counter::EventsLost, 0)]), b"events-lost 0\n");
    assert_eq!(
        write(&[(Counter::EventsLost, u64::MAX)]),
        b"events-lost 18446744073709551615\n"
    );
}

#[test]
fn every_line_of_a_damaged_payload_is_accounted_for() {
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let mut payload = write(&[
            (random.pick(Counter::ALL), random.number()),
            (random.pick(Counter::ALL), random.number()),
        ]);
        damage(&mut payload, &mut random);
        let lines = payload.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty()).count();
        assert_eq!(parse(&payload).count(), lines, "seed {seed}");
        for (counter, value) in parse(&payload).flatten() {
            let again = write(&[(counter, value)]);
            let read: Vec<_> = parse(&again).collect();
            assert_eq!(read, [Ok((counter, value))], "seed {seed}");
        }
    }
}
