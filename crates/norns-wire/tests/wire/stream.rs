use norns_wire::{Code, Decoder, MAX_EVENT, Malformed, Record, Sites, put_varint};

use norns_random::Random;

/// The largest program counter that fits into a site: 48 bits.
const PC_MAX: u64 = (1 << 48) - 1;

fn encode(events: &[Record]) -> Vec<u8> {
    let mut sites = Box::new(Sites::EMPTY);
    let mut payload = Vec::new();
    let mut sequence = 7;
    for event in events {
        let mut out = [0; MAX_EVENT];
        let (mut at, _) = sites.put(&mut out, event.pc, event.code, event.detail, event.address);
        if event.code.ordered() {
            at = put_varint(&mut out, at, event.sequence - sequence);
            sequence = event.sequence;
        }
        for operand in &event.operands[..event.code.operands()] {
            at = put_varint(&mut out, at, *operand);
        }
        if event.code.has_bytes() {
            at = put_varint(&mut out, at, event.bytes.len() as u64);
        }
        payload.extend_from_slice(&out[..at]);
        payload.extend_from_slice(event.bytes);
    }
    payload
}

fn random_events(seed: u64) -> Vec<Record<'static>> {
    let mut random = Random::new(seed);
    let mut sequence = 7;
    let few_pcs = !random.one_in(3);
    (0..random.draw() % 200)
        .map(|_| {
            let code = random.pick(Code::ALL);
            let shift = random.draw() % 64;
            sequence += 1 + (random.draw() >> (random.draw() % 16 + 40));
            let number = |present: bool, value: u64| if present { value } else { 0 };
            Record {
                code,
                detail: random.draw() as u8 % 4,
                pc: (random.draw() & PC_MAX) % if few_pcs { 5 } else { PC_MAX },
                address: random.draw() >> shift,
                sequence: number(code.ordered(), sequence),
                operands: [
                    number(code.operands() > 0, random.draw() >> shift),
                    number(code.operands() > 1, random.draw()),
                ],
                bytes: if code.has_bytes() { b"a value" } else { b"" },
            }
        })
        .collect()
}

#[test]
fn what_is_encoded_is_decoded() {
    let mut sites = Box::new(Sites::EMPTY);
    for seed in 0..2000 {
        let events = random_events(seed);
        let payload = encode(&events);
        let decoded: Result<Vec<Record>, Malformed> =
            Decoder::new(&payload, 7, &mut sites).collect();
        assert_eq!(decoded.as_ref(), Ok(&events), "seed {seed}");
    }
}

#[test]
fn a_cut_or_changed_payload_gives_a_prefix_or_an_error() {
    let mut sites = Box::new(Sites::EMPTY);
    for seed in 0..2000 {
        let mut random = Random::new(seed ^ 0xABCD);
        let events = random_events(seed);
        let mut payload = encode(&events);
        if payload.is_empty() {
            continue;
        }
        let cut = random.draw() as usize % payload.len();
        let decoded: Vec<Record> = Decoder::new(&payload[..cut], 7, &mut sites)
            .map_while(Result::ok)
            .collect();
        assert_eq!(decoded, events[..decoded.len()], "seed {seed}");

        for _ in 0..4 {
            let at = random.draw() as usize % payload.len();
            payload[at] = random.draw() as u8;
        }
        let items = Decoder::new(&payload, 7, &mut sites).count();
        assert!(items <= payload.len(), "seed {seed}");
    }
}

#[test]
fn random_bytes_are_decoded_to_an_end_or_an_error() {
    let mut sites = Box::new(Sites::EMPTY);
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let length = random.below(400);
        let payload: Vec<u8> = (0..length).map(|_| random.draw() as u8).collect();
        let items: Vec<_> = Decoder::new(&payload, random.number(), &mut sites).collect();
        assert!(items.len() <= payload.len(), "seed {seed}");
        let errors = items.iter().filter(|item| item.is_err()).count();
        let last_is_error = items.last().is_some_and(Result::is_err);
        assert_eq!(errors, usize::from(last_is_error), "seed {seed}");
    }
}

#[test]
fn a_loop_over_an_array_costs_three_bytes_an_access() {
    let event = |index: u64| Record {
        code: Code::Read,
        detail: 8,
        pc: 0x5555_5555_5000,
        address: 0x7fff_0000_0000 + 8 * index,
        sequence: 0,
        operands: [0; 2],
        bytes: b"",
    };
    let events: Vec<Record> = (0..1001).map(event).collect();
    assert_eq!(encode(&events).len(), 18 + 3 * 1000);
}

#[test]
fn codes_are_their_bytes() {
    for byte in 0..=255 {
        if let Some(code) = Code::from_byte(byte) {
            assert_eq!(code as u8, byte);
        }
    }
    assert_eq!(Code::from_byte(41), Some(Code::Turn));
}
