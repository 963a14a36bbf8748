//! Prints what a runtime wrote, before anything has made a trace of it: for people who work on
//! the runtime. `cargo run --example raw -- FILE [all]`: with `all`, every event.

use norns_wire::{CHUNK_HEADER, ChunkHeader, ChunkKind, Decoder, Sites, checksum, tail};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let all = arguments.get(2).is_some_and(|word| word == "all");
    let mut seen = Vec::new();
    let bytes = std::fs::read(&arguments[1]).expect("the file can be read");
    let mut at = 0;
    while at + CHUNK_HEADER <= bytes.len() {
        let head = bytes[at..at + CHUNK_HEADER].try_into().expect("48 bytes");
        let Ok(header) = ChunkHeader::decode(&head) else {
            at += 1;
            continue;
        };
        at += CHUNK_HEADER;
        let Some(payload) = bytes.get(at..at + header.length as usize) else {
            println!("{header:?}: cut");
            break;
        };
        at += payload.len();
        let good = checksum(payload) == header.checksum;
        println!("{header:?} {}", if good { "" } else { "CHECKSUM DIFFERS" });
        seen.push((header.process, header.thread, header.index));
        match header.kind {
            ChunkKind::Events => events(payload, header.first_sequence, all),
            _ if all => println!("{}", String::from_utf8_lossy(payload)),
            _ => {}
        }
    }
    let Ok(bytes) = std::fs::read(format!("{}.tail", arguments[1])) else {
        return;
    };
    let mut at = tail::PAGE;
    while at + tail::PAGE <= bytes.len() {
        let word = |field: usize| {
            u32::from_le_bytes(
                bytes[at + field..at + field + 4]
                    .try_into()
                    .expect("4 bytes"),
            )
        };
        if word(tail::MAGIC) != tail::SLOT_MAGIC {
            println!("no slot at {at}");
            break;
        }
        let first = bytes[at + tail::FIRST_SEQUENCE..at + tail::FIRST_SEQUENCE + 8]
            .try_into()
            .expect("8 bytes");
        let chunk = (word(tail::PROCESS), word(tail::THREAD), word(tail::INDEX));
        let used = word(tail::USED) as usize;
        println!(
            "slot at {at} state {} chunk {chunk:?} used {used}",
            word(tail::STATE)
        );
        if word(tail::STATE) == 1 && !seen.contains(&chunk) {
            let payload = &bytes[at + tail::PAGE..at + tail::PAGE + used];
            events(payload, u64::from_le_bytes(first), all);
        }
        at += tail::PAGE + word(tail::CAPACITY) as usize;
    }
}

fn events(payload: &[u8], first_sequence: u64, all: bool) {
    let mut sites = Box::new(Sites::EMPTY);
    let mut counts = std::collections::BTreeMap::<_, u64>::new();
    for record in Decoder::new(payload, first_sequence, &mut sites) {
        match record {
            Ok(record) => {
                *counts.entry(record.code).or_default() += 1;
                if all {
                    println!(
                        "  {:?} {} pc {:x} address {:x} sequence {} operands {:?}",
                        record.code,
                        record.detail,
                        record.pc,
                        record.address,
                        record.sequence,
                        record.operands
                    );
                }
            }
            Err(malformed) => println!("  MALFORMED {malformed:?}"),
        }
    }
    println!("  {counts:?}");
}
