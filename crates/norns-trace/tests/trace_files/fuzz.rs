//! Thousands of changed files and texts: no reader may panic, go on without end, or allocate more than
//! the size of what it reads allows.
//!
//! Deterministic: a failure prints target and seed, and `NORNS_FUZZ_SEED=seed` repeats just that one;
//! `NORNS_FUZZ_ROUNDS` makes a longer campaign. The corpus is `tests/corpus` and what is made here. Half
//! of the changes repair the checksums afterwards, so that they reach what lies behind them.

use std::fs;
use std::path::{Path, PathBuf};

use norns_trace::container::{self, FileState, file_header};
use norns_trace::item::items;
use norns_trace::text::Parser;
use norns_trace::{Item, Reader, encoding, std_format};
use norns_wire::{self as wire, CHUNK_HEADER, ChunkHeader, ChunkKind};

use crate::allocation::peak;
use crate::random;
use crate::round_trip::print;
use crate::{put, runtime, scratch};
use norns_random::Random;

fn rounds(usual: u64) -> std::ops::Range<u64> {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|value| value.parse().ok())
    };
    match number("NORNS_FUZZ_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("NORNS_FUZZ_ROUNDS").unwrap_or(usual),
    }
}

fn corpus(extension: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Changes a few places in one of many ways.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>, words: &[&[u8]]) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() + 1);
        let span = random.below(16).min(bytes.len() - at);
        match random.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.draw() as u8,
            2 => bytes.truncate(at),
            3 => {
                bytes.splice(at..at, (0..1 + random.below(8)).map(|_| 0xff));
            }
            4 => {
                bytes.drain(at..at + span);
            }
            5 => {
                let copy = bytes[at..at + span].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            6 => {
                let number = random.number().to_le_bytes();
                let length = 1 + random.below(8);
                bytes.splice(at..at + span.min(length), number[..length].iter().copied());
            }
            7 if !words.is_empty() => {
                let word = words[random.below(words.len())];
                bytes.splice(at..at + span, word.iter().copied());
            }
            _ => {
                let half = bytes[at..].to_vec();
                bytes.truncate(random.below(bytes.len() + 1));
                bytes.extend(half);
            }
        }
    }
}

/// Reads everything; gives the number of items, or nothing when the file is refused.
fn read_all(path: &Path) -> Option<u64> {
    let mut reader = Reader::open(path).ok()?;
    let mut count = 0;
    while let Some(item) = reader.next().expect("only the disk can fail here") {
        count += 1;
        // What is read can be printed, too.
        if let Item::Event(event, _) = &item {
            std::hint::black_box(event.op.object());
        }
    }
    for warning in reader.warnings() {
        assert!(!warning.to_string().is_empty());
    }
    Some(count)
}

fn check_file(path: &Path, size: usize, what: &str) {
    let (count, most) = peak(|| read_all(path));
    let (chunks, for_index) = peak(|| container::chunks(&mut fs::File::open(path).unwrap()));
    let count_of_chunks = chunks.expect("only the disk can fail here").len();
    assert!(
        count_of_chunks <= size / 48,
        "{what}: {count_of_chunks} chunks"
    );
    let most = most.max(for_index);
    // LZ4 can multiply by 255, and an item takes two bytes at least.
    assert!(
        count.unwrap_or(0) <= 256 * size as u64,
        "{what}: {count:?} items from {size} bytes"
    );
    assert!(
        most <= 1000 * size + (2 << 20),
        "{what}: {most} bytes allocated for {size}"
    );
}

/// One chunk of a finished trace, with correct checksums.
fn chunk(payload: &[u8], compression: u8, raw: usize, items: u32) -> Vec<u8> {
    let mut out = vec![0; 48];
    out[..4].copy_from_slice(b"NRNI");
    out[5] = compression;
    out[12..16].copy_from_slice(&items.to_le_bytes());
    out[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    out[20..24].copy_from_slice(&(raw as u32).to_le_bytes());
    out[32..40].copy_from_slice(&wire::checksum(payload).to_le_bytes());
    let sum = wire::checksum(&out[..40]);
    out[40..].copy_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(payload);
    out
}

#[test]
fn finished_traces() {
    let path = scratch("fuzz-finished");
    let mut files = corpus("finished");
    for seed in 0..6 {
        norns_trace::write(&path, &random::trace(seed, 60)).unwrap();
        files.push(fs::read(&path).unwrap());
    }
    for seed in rounds(3000) {
        let mut random = Random::new(seed);
        let mut content;
        if random.one_in(2) {
            content = files[random.below(files.len())].clone();
            mutate(&mut random, &mut content, &[b"NRNI", b"NRNEND\r\n"]);
        } else {
            // The payload is changed, its checksums are right.
            let mut payload = Vec::new();
            let mut count = 0;
            let mut state = encoding::State::default();
            for item in items(&random::trace(seed % 16, 40)) {
                encoding::encode(&mut state, &item, &mut payload);
                count += 1;
            }
            content = file_header(FileState::Finished).to_vec();
            if random.one_in(4) {
                let mut packed = lz4_flex::block::compress(&payload);
                mutate(&mut random, &mut packed, &[]);
                let raw = if random.one_in(2) {
                    payload.len()
                } else {
                    random.number() as usize
                };
                content.extend(chunk(&packed, 1, raw, count));
            } else {
                mutate(&mut random, &mut payload, &[]);
                content.extend(chunk(
                    &payload,
                    0,
                    payload.len(),
                    count + random.below(3) as u32,
                ));
            }
        }
        put(&path, &content);
        check_file(
            &path,
            content.len(),
            &format!("finished trace, seed {seed}"),
        );
    }
}

#[test]
fn raw_recordings() {
    let path = scratch("fuzz-raw");
    let tail_path = norns_trace::reader::tail_path(&path);
    for seed in rounds(3000) {
        let mut random = Random::new(seed);
        let run = runtime::run(seed % 32, 1 + seed as usize % 4, 60);
        runtime::lay_out(&run, &path, seed, true);
        let mut content = fs::read(&path).unwrap();
        let mut tail = fs::read(&tail_path).unwrap();
        match random.below(4) {
            0 => mutate(&mut random, &mut content, &[b"NRNc", &[0; 48]]),
            1 => {
                mutate(&mut random, &mut tail, &[b"NRNs", &[0xff; 4]]);
            }
            2 => content = repaired(&content, &mut random),
            _ => {
                content = repaired(&content, &mut random);
                mutate(&mut random, &mut content, &[b"NRNc"]);
            }
        }
        put(&path, &content);
        put(&tail_path, &tail);
        check_file(
            &path,
            content.len() + tail.len(),
            &format!("raw recording, seed {seed}"),
        );
    }
}

/// Changes payloads and headers of the runtime's chunks, and gives them correct checksums.
fn repaired(content: &[u8], random: &mut Random) -> Vec<u8> {
    let magic = wire::CHUNK_MAGIC.to_le_bytes();
    let start = content.windows(4).position(|bytes| bytes == magic).unwrap();
    let mut out = content[..start].to_vec();
    let mut at = start;
    while let Some(bytes) = content
        .get(at..)
        .and_then(|rest| rest.first_chunk::<CHUNK_HEADER>())
    {
        let mut header = ChunkHeader::decode(bytes).unwrap();
        let body = at + CHUNK_HEADER;
        let mut payload = content[body..body + header.length as usize].to_vec();
        at = body + payload.len();
        if random.one_in(3) {
            mutate(random, &mut payload, &[]);
        }
        match random.below(20) {
            0 => header.thread = random.number() as u32,
            1 => header.index = random.number() as u32,
            2 => header.first_sequence = random.number(),
            3 => header.process = random.below(3) as u32,
            4 => header.kind = ChunkKind::Maps,
            _ => {}
        }
        header.checksum = wire::checksum(&payload);
        header.length = payload.len() as u32;
        out.extend(header.encode());
        out.extend(payload);
    }
    out
}

#[test]
fn many_threads_and_headers_that_lie() {
    let path = scratch("fuzz-headers");
    let tail_path = norns_trace::reader::tail_path(&path);
    // Every header says that the rest of the file is its payload.
    let mut content = file_header(FileState::Raw).to_vec();
    for number in 0..5000 {
        let header = ChunkHeader {
            kind: ChunkKind::Events,
            process: 0,
            thread: number,
            index: 0,
            length: 48 * (5000 - number),
            first_sequence: 0,
            checksum: 1,
        };
        content.extend(header.encode());
    }
    put(&path, &content);
    let _ = fs::remove_file(&tail_path);
    check_file(&path, content.len(), "headers that lie");

    let mut content = file_header(FileState::Raw).to_vec();
    for _ in 0..50_000 {
        content.extend(wire::CHUNK_MAGIC.to_le_bytes());
    }
    put(&path, &content);
    check_file(&path, content.len(), "magic numbers only");

    let mut content = file_header(FileState::Raw).to_vec();
    let start = |thread: u64| runtime::Recorded {
        code: wire::Code::Start,
        detail: 0,
        pc: 0,
        address: 0,
        sequence: 1 + thread,
        operands: [thread / 2, 1],
        bytes: Vec::new(),
    };
    for thread in 0..3000 {
        content.extend(runtime::chunk_bytes(
            thread,
            0,
            0,
            &runtime::encode(&[start(u64::from(thread))], 0),
        ));
    }
    put(&path, &content);
    check_file(&path, content.len(), "many threads");
}

#[test]
fn texts() {
    let path = scratch("fuzz-text");
    let mut texts = corpus("text");
    for seed in 0..6 {
        norns_trace::write(&path, &random::trace(seed, 30)).unwrap();
        texts.push(print(&path).into_bytes());
    }
    let words: [&[u8]; 8] = [
        b"\n",
        b" ",
        b"\"",
        b"\\u{",
        b"0x",
        b"@4294967295",
        b"#",
        b"thread ",
    ];
    for seed in rounds(3000) {
        let mut random = Random::new(seed);
        let mut text = texts[random.below(texts.len())].clone();
        mutate(&mut random, &mut text, &words);
        let text = String::from_utf8_lossy(&text);
        let (_, most) = peak(|| {
            let mut parser = Parser::default();
            for line in text.lines() {
                let _ = std::hint::black_box(parser.parse(line));
            }
        });
        assert!(
            most <= 100 * text.len() + (64 << 10),
            "text, seed {seed}: {most} bytes for {}",
            text.len()
        );
    }
}

#[test]
fn std_texts() {
    let mut texts = corpus("std");
    for seed in 0..6 {
        let (trace, _) = norns_trace::std_export::project(&random::trace(seed, 60));
        let mut text = Vec::new();
        // Not all are valid runs: that is what the parser has to say.
        let _ = std_format::write(&trace, &mut text);
        texts.push(text);
    }
    let words: [&[u8]; 8] = [
        b"\n",
        b"|",
        b"fork(",
        b"T1|acq(m)|1\n",
        b"T1|rel(m)|1\n",
        b")",
        b"-",
        b"99999999999",
    ];
    for seed in rounds(3000) {
        let mut random = Random::new(seed);
        let mut text = texts[random.below(texts.len())].clone();
        mutate(&mut random, &mut text, &words);
        let (_, most) = peak(|| std_format::read(&text[..]).is_ok());
        assert!(
            most <= 300 * text.len() + (64 << 10),
            "STD, seed {seed}: {most} bytes for {}",
            text.len()
        );
    }
}
