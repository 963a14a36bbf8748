//! An independent check that the reads of a schedule see what they have to.
//!
//! Knows nothing of registers, locations or the solver: memory is bytes, and the schedule is run
//! through it once.

use norns_model::location::Touch;
use norns_model::{Meaning, Model};
use norns_trace::{EventIndex, trace::Value};
use rustc_hash::FxHashMap;

use super::needs::is_branch;

/// What a byte holds: its value when known, and who wrote it (`None`: nobody in the trace).
type Byte = (Option<u8>, Option<EventIndex>);

/// What a trace says about its reads, gathered once.
pub(super) struct ReadCheck {
    meaning: Meaning,
    branches: bool,
    /// The addresses of the bytes that some event reads, sorted. No others matter, and whole stacks
    /// are written when they are given back.
    bytes: Vec<u64>,
    /// For every access the number of its first byte; of a read all others follow.
    first_byte: Vec<u32>,
    /// For every event where its part of a `Seen` begins.
    first_seen: Vec<u32>,
    /// What a write left, or was there from the beginning, and is not recorded: the first read
    /// that saw it tells.
    told: FxHashMap<(Option<EventIndex>, u32), u8>,
    /// What the reads of the trace find.
    observed: Seen,
}

/// For every byte of every read: what it finds there.
type Seen = Vec<Byte>;

impl ReadCheck {
    pub fn new(model: &Model<'_>, meaning: Meaning) -> Self {
        let all: Vec<EventIndex> = (0..model.trace.events.len())
            .map(EventIndex::from_index)
            .collect();
        let mut bytes: Vec<u64> = Vec::new();
        let touches = all.iter().filter_map(|&event| Touch::of(model.op(event)));
        for touch in touches.filter(|touch| touch.reads) {
            bytes.extend((0..u64::from(touch.access.size)).map(|k| touch.access.address + k));
        }
        bytes.sort_unstable();
        bytes.dedup();
        let (mut first_byte, mut first_seen) = (Vec::new(), vec![0]);
        for &event in &all {
            let touch = Touch::of(model.op(event));
            let address = touch.map_or(0, |touch| touch.access.address);
            first_byte.push(bytes.partition_point(|&byte| byte < address) as u32);
            let read = touch.filter(|touch| touch.reads);
            let size = read.map_or(0, |touch| touch.access.size);
            first_seen.push(first_seen[event.index()] + size);
        }
        let mut check = ReadCheck {
            meaning,
            branches: all.iter().any(|&event| is_branch(model, event)),
            bytes,
            first_byte,
            first_seen,
            told: FxHashMap::default(),
            observed: Vec::new(),
        };
        let first = check.run(model, &all);
        for &event in &all {
            for (k, &(content, writer)) in check.seen(&first, event).iter().enumerate() {
                if content.is_none()
                    && let Some(&byte) = value(model, event).and_then(|v| v.read.get(k))
                {
                    let place = (writer, check.first_byte[event.index()] + k as u32);
                    check.told.entry(place).or_insert(byte);
                }
            }
        }
        check.observed = check.run(model, &all);
        check
    }

    fn seen<'s>(&self, seen: &'s Seen, event: EventIndex) -> &'s [Byte] {
        let (from, to) = (
            self.first_seen[event.index()],
            self.first_seen[event.index() + 1],
        );
        &seen[from as usize..to as usize]
    }

    /// The first event of the schedule that sees something else than in the trace, although it
    /// matters.
    pub fn check(&self, model: &Model<'_>, schedule: &[EventIndex]) -> Result<(), EventIndex> {
        let seen = self.run(model, schedule);
        let until = self.reads_that_matter(model, schedule, &seen);
        for &event in schedule {
            if model.position_of(event) >= until[model.thread_of(event).index()] {
                continue;
            }
            let pairs = self.seen(&self.observed, event).iter();
            for (then, now) in pairs.zip(self.seen(&seen, event)) {
                let same_value = then.0.is_some() && then.0 == now.0;
                if then.1 != now.1 && !(self.meaning == Meaning::SameValues && same_value) {
                    return Err(event);
                }
            }
        }
        Ok(())
    }

    fn run(&self, model: &Model<'_>, schedule: &[EventIndex]) -> Seen {
        let by_value = self.meaning == Meaning::SameValues;
        let told = |writer, byte| self.told.get(&(writer, byte)).copied().filter(|_| by_value);
        let mut memory: Vec<Option<Byte>> = vec![None; self.bytes.len()];
        let last = self.first_seen.last().copied().unwrap_or(0);
        let mut found = vec![(None, None); last as usize];
        for &event in schedule {
            let Some(touch) = Touch::of(model.op(event)) else {
                continue;
            };
            let written = value(model, event).filter(|_| touch.writes && by_value);
            let first = self.first_byte[event.index()] as usize;
            let end = touch.access.address + u64::from(touch.access.size);
            let inside = self.bytes[first..].iter().take_while(|&&byte| byte < end);
            for (byte, address) in (first..).zip(inside) {
                let k = (address - touch.access.address) as usize;
                if touch.reads {
                    let nothing = || (told(None, byte as u32), None);
                    found[self.first_seen[event.index()] as usize + k] =
                        memory[byte].unwrap_or_else(nothing);
                }
                if touch.writes {
                    let known = written.and_then(|value| value.written.get(k).copied());
                    let content = known.or_else(|| told(Some(event), byte as u32));
                    memory[byte] = Some((content, Some(event)));
                }
            }
        }
        found
    }

    /// Of every thread, up to which position reads matter: without branches all; otherwise those
    /// before a branch, and those before a write that a read that matters sees.
    fn reads_that_matter(
        &self,
        model: &Model<'_>,
        schedule: &[EventIndex],
        seen: &Seen,
    ) -> Vec<usize> {
        if !self.branches {
            return vec![usize::MAX; model.threads.len()];
        }
        let mut until = vec![0; model.threads.len()];
        for &event in schedule.iter().filter(|&&event| is_branch(model, event)) {
            until[model.thread_of(event).index()] = model.position_of(event);
        }
        loop {
            let before = until.clone();
            for &event in schedule {
                if model.position_of(event) >= until[model.thread_of(event).index()] {
                    continue;
                }
                for writer in self.seen(seen, event).iter().filter_map(|byte| byte.1) {
                    let limit = &mut until[model.thread_of(writer).index()];
                    // The write of a read-modify-write depends on its own read.
                    *limit = (*limit).max(model.position_of(writer) + 1);
                }
            }
            if until == before {
                return until;
            }
        }
    }
}

fn value<'t>(model: &Model<'t>, event: EventIndex) -> Option<&'t Value> {
    let values = &model.trace.values;
    let at = values
        .binary_search_by_key(&event, |value| value.event)
        .ok()?;
    Some(&values[at])
}
