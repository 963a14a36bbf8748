//! A made-up program and the files that the runtime would leave of its run.

use std::fs;
use std::path::Path;

use norns_random::Random;
use norns_trace::{Info, create_raw, info};
use norns_wire::{
    self as wire, ChunkHeader, ChunkKind, Code, MAX_EVENT, Sites, ended, object, put_varint, tail,
};

use crate::put;

/// One record before it is encoded.
#[derive(Clone)]
pub struct Recorded {
    pub code: Code,
    pub detail: u8,
    pub pc: u64,
    pub address: u64,
    pub sequence: u64,
    pub operands: [u64; 2],
    pub bytes: Vec<u8>,
}

pub fn encode(records: &[Recorded], mut sequence: u64) -> Vec<u8> {
    let mut sites = Box::new(Sites::EMPTY);
    let mut payload = Vec::new();
    for record in records {
        let mut out = [0; MAX_EVENT];
        let (mut at, _) = sites.put(
            &mut out,
            record.pc,
            record.code,
            record.detail,
            record.address,
        );
        if record.code.ordered() {
            at = put_varint(&mut out, at, record.sequence - sequence);
            sequence = record.sequence;
        }
        for operand in &record.operands[..record.code.operands()] {
            at = put_varint(&mut out, at, *operand);
        }
        if record.code.has_bytes() {
            at = put_varint(&mut out, at, record.bytes.len() as u64);
        }
        payload.extend_from_slice(&out[..at]);
        payload.extend_from_slice(&record.bytes);
    }
    payload
}

/// A run of a made-up program: every thread's records, and the order of all.
pub struct Run {
    pub threads: Vec<Vec<Recorded>>,
    /// What a reader must find: the thread's number and code of every event, in order.
    pub order: Vec<(u32, Code)>,
}

/// `count` threads that lock a common mutex around accesses, with accesses in between.
pub fn run(seed: u64, count: usize, steps: usize) -> Run {
    let mut random = Random::new(seed);
    let mut run = Run {
        threads: vec![Vec::new(); count],
        order: Vec::new(),
    };
    let mut sequence = 0;
    // What the thread did since its last ordered event.
    let mut pending: Vec<Vec<Code>> = vec![Vec::new(); count];
    let mut push = |run: &mut Run,
                    thread: usize,
                    code: Code,
                    detail: u8,
                    address: u64,
                    operands: [u64; 2],
                    gap: u64| {
        let ordered = code.ordered();
        if ordered {
            sequence += 1 + gap;
        }
        run.threads[thread].push(Recorded {
            code,
            detail,
            pc: 0x40_0000 + 16 * code as u64 + detail as u64,
            address,
            sequence,
            operands,
            bytes: if code == Code::Custom {
                b"step\0now\0".to_vec()
            } else {
                Vec::new()
            },
        });
        let shown = !matches!(code, Code::Start if thread == 0) && code != Code::ProcessEnd;
        if !ordered {
            pending[thread].push(code);
        } else {
            for code in std::mem::take(&mut pending[thread]) {
                run.order.push((thread as u32, code));
            }
            if shown {
                run.order.push((thread as u32, code));
            }
        }
    };
    push(&mut run, 0, Code::Start, 0, 0, [0, 0], 0);
    for child in 1..count {
        push(&mut run, 0, Code::Fork, 0, child as u64, [0, 0], 0);
        push(&mut run, child, Code::Start, 0, 0, [0, child as u64], 0);
    }
    let mut owner = None;
    for _ in 0..steps {
        let thread = random.below(count);
        let gap = random.draw() % 3;
        match random.below(8) {
            0..5 => {
                let address = 0x1000 + random.draw() % 64 * 8;
                let code = [Code::Read, Code::Write][random.below(2)];
                push(&mut run, thread, code, 8, address, [0, 0], 0);
            }
            5 => push(&mut run, thread, Code::Custom, 0, 0, [0, 0], 0),
            6 => push(
                &mut run,
                thread,
                Code::Atomic,
                wire::atomic_detail(2, 2, 5),
                0x2000,
                [0, 0],
                gap,
            ),
            _ => match owner {
                None => {
                    owner = Some(thread);
                    push(
                        &mut run,
                        thread,
                        Code::Lock,
                        object::MUTEX,
                        0x3000,
                        [0, 0],
                        gap,
                    );
                }
                Some(holder) => {
                    owner = None;
                    push(
                        &mut run,
                        holder,
                        Code::Unlock,
                        object::MUTEX,
                        0x3000,
                        [0, 0],
                        gap,
                    );
                }
            },
        }
    }
    for thread in 1..count {
        push(&mut run, thread, Code::End, 0, 0, [0, 0], 0);
        push(&mut run, 0, Code::Join, 0, thread as u64, [0, 0], 0);
    }
    push(&mut run, 0, Code::ProcessEnd, ended::EXIT, 0, [3, 0], 0);
    run
}

/// The chunks and tails of a run: `(thread, index, first sequence, payload)`.
pub fn chunks(run: &Run, random: &mut Random) -> Vec<(u32, u32, u64, Vec<u8>)> {
    let mut chunks = Vec::new();
    for (thread, records) in run.threads.iter().enumerate() {
        let mut from = 0;
        let mut index = 0;
        let mut sequence = 0;
        while from < records.len() {
            let to = (from + 1 + random.below(20)).min(records.len());
            let part = &records[from..to];
            chunks.push((thread as u32, index, sequence, encode(part, sequence)));
            let last = part.iter().rev().find(|record| record.code.ordered());
            sequence = last.map_or(sequence, |record| record.sequence);
            from = to;
            index += 1;
        }
    }
    chunks
}

pub fn chunk_bytes(thread: u32, index: u32, first_sequence: u64, payload: &[u8]) -> Vec<u8> {
    chunk_of(ChunkKind::Events, thread, index, first_sequence, payload)
}

pub fn chunk_of(
    kind: ChunkKind,
    thread: u32,
    index: u32,
    first_sequence: u64,
    payload: &[u8],
) -> Vec<u8> {
    let header = ChunkHeader {
        kind,
        process: 0,
        thread,
        index,
        length: payload.len() as u32,
        first_sequence,
        checksum: wire::checksum(payload),
    };
    [&header.encode()[..], payload].concat()
}

pub fn slot_bytes(thread: u32, index: u32, first_sequence: u64, payload: &[u8]) -> Vec<u8> {
    let mut page = vec![0; tail::PAGE];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(tail::MAGIC, &tail::SLOT_MAGIC.to_le_bytes());
    put(tail::STATE, &1u32.to_le_bytes());
    put(tail::THREAD, &thread.to_le_bytes());
    put(tail::INDEX, &index.to_le_bytes());
    put(tail::USED, &(payload.len() as u32).to_le_bytes());
    put(tail::FIRST_SEQUENCE, &first_sequence.to_le_bytes());
    put(tail::CAPACITY, &4096u32.to_le_bytes());
    page.extend_from_slice(payload);
    page.resize(tail::PAGE + 4096, 0);
    page
}

pub fn tail_head() -> Vec<u8> {
    let mut page = vec![0; tail::PAGE];
    page[..8].copy_from_slice(&tail::FILE_MAGIC);
    page
}

/// Writes the recording; the last chunk of each thread may be left in the tail.
pub fn lay_out(run: &Run, path: &Path, seed: u64, with_tails: bool) {
    let mut random = Random::new(seed ^ 0x55);
    create_raw(
        path,
        &[Info {
            key: info::COMMAND.into(),
            values: vec!["./app".into(), "x y".into()],
        }],
    )
    .unwrap();
    let mut content = fs::read(path).unwrap();
    let mut tails = tail_head();
    let mut chunks = chunks(run, &mut random);
    // Chunks of a thread are in order; those of different threads in any.
    let mut stable: Vec<(u64, usize)> = (0..chunks.len())
        .map(|at| (random.draw() % 50 + u64::from(chunks[at].1) * 25, at))
        .collect();
    stable.sort();
    let last = |thread: u32| {
        chunks
            .iter()
            .filter(|chunk| chunk.0 == thread)
            .map(|chunk| chunk.1)
            .max()
    };
    let lasts: Vec<_> = chunks
        .iter()
        .map(|chunk| last(chunk.0) == Some(chunk.1))
        .collect();
    for (_, at) in stable {
        let (thread, index, first, payload) = &mut chunks[at];
        if lasts[at] && with_tails {
            tails.extend(slot_bytes(*thread, *index, *first, payload));
            // Written already, but the slot not yet emptied.
            if random.one_in(3) {
                content.extend(chunk_bytes(*thread, *index, *first, payload));
            }
        } else {
            content.extend(chunk_bytes(*thread, *index, *first, payload));
        }
    }
    content.extend(chunk_of(
        ChunkKind::Statistics,
        0,
        0,
        0,
        b"accesses-logged 12\n",
    ));
    put(path, &content);
    put(&norns_trace::reader::tail_path(path), &tails);
}
