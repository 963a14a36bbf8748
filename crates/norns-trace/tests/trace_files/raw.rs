//! Raw recordings as the runtime leaves them: merged, with tails, torn, cut.

use std::collections::BTreeSet;
use std::fs;

use norns_random::Random;
use norns_trace::{Error, Op, Trace, Warning, create_raw, finish, info, read, read_recording};
use norns_wire::{self as wire, ChunkHeader, ChunkKind, Code, STREAM_VERSION, object};

use crate::round_trip::print;
use crate::runtime::{Recorded, chunk_bytes, chunk_of, chunks, encode, lay_out, run, tail_head};
use crate::{put, scratch};

/// What was found, as `Run::order`.
fn order(trace: &Trace) -> Vec<(u32, Code)> {
    let code = |op: Op| match op {
        Op::Start => Code::Start,
        Op::End => Code::End,
        Op::Fork(_) => Code::Fork,
        Op::Join(_) => Code::Join,
        Op::Read(_) => Code::Read,
        Op::Write(_) => Code::Write,
        Op::Lock(_) => Code::Lock,
        Op::Unlock(_) => Code::Unlock,
        Op::Atomic { .. } => Code::Atomic,
        Op::Custom(_) => Code::Custom,
        other => panic!("{other:?} was not recorded"),
    };
    trace
        .events
        .iter()
        .map(|event| (event.thread.0, code(event.op)))
        .collect()
}

/// The runs give thread numbers in order of creation, as the reader does.
#[test]
fn threads_are_merged_in_the_order_of_the_run() {
    let path = scratch("merge");
    for seed in 0..150 {
        let run = run(seed, 1 + seed as usize % 5, 200);
        lay_out(&run, &path, seed, seed % 2 == 0);
        let (trace, warnings) = read(&path).unwrap();
        assert_eq!(order(&trace), run.order, "seed {seed}");
        assert_eq!(warnings, [], "seed {seed}");
        let names: Vec<_> = trace
            .threads
            .iter()
            .map(|thread| thread.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["T0", "T0.1", "T0.2", "T0.3", "T0.4"][..run.threads.len()],
            "seed {seed}"
        );
    }
}

#[test]
fn a_finished_recording_is_the_raw_one() {
    let path = scratch("finish");
    let run = run(3, 4, 500);
    lay_out(&run, &path, 3, true);
    let text = print(&path);
    let (raw, _) = read_recording(&path).unwrap();
    assert_eq!(finish(&path).unwrap(), []);
    assert!(!norns_trace::reader::tail_path(&path).exists());
    let (finished, warnings) = read_recording(&path).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(finished, raw);
    assert_eq!(print(&path), text);
    assert_eq!(finished.info(info::COMMAND).unwrap(), ["./app", "x y"]);
    assert_eq!(finished.info("exit").unwrap(), ["3"]);
    assert_eq!(
        finished.info(info::COUNTER).unwrap(),
        ["accesses-logged", "12"]
    );
    assert_eq!(
        finish(&path).unwrap(),
        [],
        "a finished trace stays as it is"
    );
}

/// The recorder had enough events: some threads have logged a few more, others have not.
#[test]
fn a_recording_that_was_stopped_ends_at_its_last_complete_number() {
    let path = scratch("stopped");
    for seed in 0..20 {
        let run = run(seed, 4, 300);
        lay_out(&run, &path, seed, true);
        let payload = b"stopped-at 40\n";
        let header = ChunkHeader {
            kind: ChunkKind::Statistics,
            process: 0,
            thread: 0,
            index: 1,
            length: payload.len() as u32,
            first_sequence: 0,
            checksum: wire::checksum(payload),
        };
        let mut content = fs::read(&path).unwrap();
        content.extend(header.encode());
        content.extend(payload);
        put(&path, &content);
        let (trace, warnings) = read(&path).unwrap();
        let found = order(&trace);
        let numbered = |events: &[(u32, Code)]| -> Vec<(u32, Code)> {
            let ordered = events.iter().filter(|(_, code)| code.ordered());
            ordered.copied().collect()
        };
        let all = run.threads.iter().flatten();
        let complete = all.filter(|record| record.code.ordered() && record.sequence <= 40);
        // The start of the main thread is no event.
        let complete = complete.count() - 1;
        assert!(complete < numbered(&run.order).len(), "seed {seed}");
        assert_eq!(
            numbered(&found),
            numbered(&run.order)[..complete],
            "seed {seed}"
        );
        let events = found.len() as u64;
        assert_eq!(warnings, [Warning::Shortened { events }], "seed {seed}");
    }
}

#[test]
fn every_process_of_a_recording_gets_a_trace() {
    let path = scratch("processes.norns");
    let runs = [run(41, 2, 100), run(42, 3, 100)];
    lay_out(&runs[0], &path, 41, false);
    let mut content = fs::read(&path).unwrap();
    for (thread, index, first_sequence, payload) in chunks(&runs[1], &mut Random::new(1)) {
        let header = ChunkHeader {
            kind: ChunkKind::Events,
            process: 2,
            thread,
            index,
            length: payload.len() as u32,
            first_sequence,
            checksum: wire::checksum(&payload),
        };
        content.extend(header.encode());
        content.extend(payload);
    }
    put(&path, &content);
    let (trace, warnings) = read(&path).unwrap();
    assert_eq!(order(&trace), runs[0].order);
    assert_eq!(
        warnings,
        [Warning::OtherProcesses {
            shown: 0,
            others: vec![2]
        }]
    );
    let other = path.with_extension("process2.norns");
    let warnings = finish(&path).unwrap();
    assert!(warnings.contains(&Warning::OtherProcess {
        number: 2,
        path: other.clone()
    }));
    assert_eq!(order(&read(&path).unwrap().0), runs[0].order);
    assert_eq!(order(&read(&other).unwrap().0), runs[1].order);
}

/// Locks are held by one thread, joined threads have ended: what every analysis relies on.
fn assert_consistent(trace: &Trace, what: &str) {
    let mut owner = None;
    let mut ended = Vec::new();
    for event in &trace.events {
        match event.op {
            Op::Lock(_) => {
                assert_eq!(owner, None, "{what}");
                owner = Some(event.thread);
            }
            Op::Unlock(_) => {
                assert_eq!(owner, Some(event.thread), "{what}");
                owner = None;
            }
            Op::End => ended.push(event.thread),
            Op::Join(other) => assert!(ended.contains(&other), "{what}"),
            _ => {}
        }
    }
}

#[test]
fn a_recording_cut_at_every_byte_is_a_consistent_beginning() {
    let path = scratch("cut-raw");
    // Seed 1: a chunk is cut between two events, and the file has the next one of its thread.
    for (seed, with_tail) in [(1, true), (1, false), (4, true), (4, false)] {
        let run = run(seed, 3, 150);
        lay_out(&run, &path, seed, with_tail);
        let content = fs::read(&path).unwrap();
        for at in (0..content.len()).rev() {
            put(&path, &content[..at]);
            if !with_tail {
                let _ = fs::remove_file(norns_trace::reader::tail_path(&path));
            }
            let what = format!(
                "seed {seed}, tail {with_tail}, byte {at} of {}",
                content.len()
            );
            match read(&path) {
                Ok((trace, _)) => assert_consistent(&trace, &what),
                Err(_) => assert!(at < 12, "{what}"),
            }
        }
    }
}

#[test]
fn a_torn_chunk_is_taken_from_the_tail() {
    let path = scratch("torn");
    let run = run(21, 2, 120);
    lay_out(&run, &path, 21, true);
    let content = fs::read(&path).unwrap();
    // A thread was killed inside its write, another one appended behind it.
    let mut random = Random::new(21 ^ 0x55);
    let all = chunks(&run, &mut random);
    let (thread, index, first, payload) = all.iter().rfind(|chunk| chunk.0 == 1).unwrap();
    let torn = chunk_bytes(*thread, *index, *first, payload);
    let start = content
        .windows(4)
        .position(|bytes| bytes == b"NRNc")
        .unwrap();
    for cut in [10, 47, 49, torn.len() - 1] {
        let cut = cut.min(torn.len() - 1);
        let mixed = [&content[..start], &torn[..cut], &content[start..]].concat();
        fs::write(&path, mixed).unwrap();
        let (trace, _) = read(&path).unwrap();
        assert_eq!(order(&trace), run.order, "cut {cut}");
    }
}

#[test]
fn a_damaged_chunk_ends_the_trace_and_is_named() {
    let path = scratch("damaged-raw");
    let run = run(31, 3, 300);
    lay_out(&run, &path, 31, false);
    let mut content = fs::read(&path).unwrap();
    let magic = wire::CHUNK_MAGIC.to_le_bytes();
    let starts: Vec<usize> = (0..content.len() - 4)
        .filter(|&at| content[at..at + 4] == magic)
        .collect();
    let damaged = starts[starts.len() / 2];
    content[damaged + wire::CHUNK_HEADER + 3] ^= 1;
    fs::write(&path, &content).unwrap();
    let (trace, warnings) = read(&path).unwrap();
    // All that is ordered is a beginning of the run; accesses may follow.
    let ordered = |order: &[(u32, Code)]| -> Vec<(u32, Code)> {
        order
            .iter()
            .copied()
            .filter(|(_, code)| code.ordered())
            .collect()
    };
    let found = order(&trace);
    assert!(
        ordered(&run.order).starts_with(&ordered(&found)),
        "a beginning of the run"
    );
    for thread in 0..3 {
        let of = |order: &[(u32, Code)]| -> Vec<Code> {
            order
                .iter()
                .filter(|(other, _)| *other == thread)
                .map(|(_, code)| *code)
                .collect()
        };
        assert!(
            of(&run.order).starts_with(&of(&found)),
            "a beginning of thread {thread}"
        );
    }
    assert!(trace.events.len() > 20 && trace.events.len() < run.order.len());
    let header = ChunkHeader::decode(content[damaged..].first_chunk().unwrap()).unwrap();
    let named = |warning: &Warning| {
        matches!(warning, Warning::DamagedRecording { thread, chunk, .. }
            if *thread == header.thread && *chunk == header.index)
    };
    assert!(warnings.iter().any(named), "{warnings:?}");
}

#[test]
fn the_end_of_its_owner_unlocks_a_robust_mutex() {
    let path = scratch("robust");
    let mut sequence = 0;
    let mut record = |code: Code, detail: u8, address: u64, operand: u64| {
        sequence += 1;
        let operands = [operand, operand.min(1)];
        Recorded {
            code,
            detail,
            pc: 1,
            address,
            sequence,
            operands,
            bytes: Vec::new(),
        }
    };
    let robust = object::ROBUST_MUTEX;
    let main = [record(Code::Start, 0, 0, 0), record(Code::Fork, 0, 1, 0)];
    let child = [
        record(Code::Start, 0, 0, 0),
        record(Code::Lock, robust, 0x100, 0),
        record(Code::End, 0, 0, 0),
    ];
    let rest = [
        record(Code::Lock, robust, 0x100, 0),
        record(Code::Join, 0, 1, 0),
    ];
    create_raw(&path, &[]).unwrap();
    let mut content = fs::read(&path).unwrap();
    content.extend(chunk_bytes(
        0,
        0,
        0,
        &encode(&[&main[..], &rest[..]].concat(), 0),
    ));
    content.extend(chunk_bytes(1, 0, 0, &encode(&child, 0)));
    fs::write(&path, content).unwrap();
    let (trace, warnings) = read(&path).unwrap();
    assert_eq!(warnings, []);
    let ops: Vec<String> = trace
        .events
        .iter()
        .map(|event| format!("{:?}", event.op))
        .collect();
    assert_eq!(
        ops.join(", "),
        "Fork(t1), Start, Lock(o0), Unlock(o0), End, Lock(o0), Join(t1)"
    );
}

#[test]
fn an_object_that_was_made_again_is_another_object() {
    let path = scratch("objects");
    let mut sequence = 0;
    let mut record = |code: Code, detail: u8, address: u64, operand: u64| {
        sequence += 1;
        Recorded {
            code,
            detail,
            pc: 1,
            address,
            sequence,
            operands: [operand, 0],
            bytes: Vec::new(),
        }
    };
    let mutex = object::MUTEX;
    let records = [
        record(Code::Start, 0, 0, 0),
        record(Code::Lock, mutex, 0x100, 0),
        record(Code::Unlock, mutex, 0x100, 0),
        record(Code::Destroy, mutex, 0x100, 0),
        record(Code::Init, mutex | object::SHARED, 0x100, 0),
        record(Code::Lock, mutex, 0x100, 0),
        record(Code::Unlock, mutex, 0x100, 0),
        record(Code::Free, 0, 0xf0, 0x20),
        record(Code::Lock, mutex, 0x100, 0),
        record(Code::Unlock, mutex, 0x100, 0),
        record(Code::Init, object::SEMAPHORE, 0x200, 7),
        record(Code::SemPost, object::SEMAPHORE, 0x200, 0),
    ];
    create_raw(&path, &[]).unwrap();
    let mut content = fs::read(&path).unwrap();
    content.extend(chunk_bytes(0, 0, 0, &encode(&records, 0)));
    fs::write(&path, content).unwrap();
    fs::write(norns_trace::reader::tail_path(&path), tail_head()).unwrap();
    let (trace, warnings) = read(&path).unwrap();
    let addresses = BTreeSet::from([0x100]);
    assert_eq!(warnings, [Warning::ProcessShared { addresses }]);
    let ops: Vec<String> = trace
        .events
        .iter()
        .map(|event| format!("{:?}", event.op))
        .collect();
    assert_eq!(
        ops.join(", "),
        "Lock(o0), Unlock(o0), Destroy(Access { address: 256, size: 1 }), Initialise(Access { address: \
         256, size: 1 }), Lock(o1), Unlock(o1), Free(Access { address: 240, size: 32 }), Lock(o2), \
         Unlock(o2), Initialise(Access { address: 512, size: 1 }), SemInit { sem: o3, value: 7 }, \
         SemPost(o3)"
    );
}

#[test]
fn a_recording_of_another_version_is_refused() {
    let path = scratch("version");
    create_raw(&path, &[]).unwrap();
    let mut content = fs::read(&path).unwrap();
    let mut chunk = chunk_bytes(0, 0, 0, b"");
    chunk[5] = STREAM_VERSION + 1;
    let sum = wire::checksum(&chunk[..40]);
    chunk[40..].copy_from_slice(&sum.to_le_bytes());
    content.extend(chunk);
    put(&path, &content);
    let found = match read(&path) {
        Err(Error::StreamVersion { found, .. }) => Some(found),
        _ => None,
    };
    assert_eq!(found, Some(STREAM_VERSION + 1));
}

#[test]
fn an_unknown_counter_is_a_warning() {
    let path = scratch("counter");
    create_raw(&path, &[]).unwrap();
    let mut content = fs::read(&path).unwrap();
    let counters = b"accesses-logged 7\naccesses-dreamt-of 8\n";
    content.extend(chunk_of(ChunkKind::Statistics, 0, 0, 0, counters));
    put(&path, &content);
    let (recording, warnings) = read_recording(&path).unwrap();
    assert_eq!(
        recording.info(info::COUNTER),
        Some(&["accesses-logged".to_string(), "7".to_string()][..])
    );
    let line = "accesses-dreamt-of 8".to_string();
    assert!(warnings.contains(&Warning::UnknownCounter { line }));
}
