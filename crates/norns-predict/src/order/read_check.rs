//! An independent check that the reads of a schedule see what they have to.
//!
//! It shares nothing with registers, locations or the solver: memory is bytes, and the schedule is
//! run through it once.

use norns_model::{Meaning, Model};
use norns_trace::{EventIndex, Touch, trace::Value};
use rustc_hash::FxHashMap;

use super::objects::relevance::is_branch;

/// The content of a byte.
#[derive(Clone, Copy, Default)]
struct Byte {
    /// `None` if it is not recorded.
    value: Option<u8>,
    /// `None` if no event of the trace has written the byte.
    writer: Option<EventIndex>,
}

/// For every byte of every read, what the read sees there.
type Seen = Vec<Byte>;

/// What a trace says about its reads.
pub struct ReadCheck {
    meaning: Meaning,
    has_branches: bool,
    /// The bytes that some event reads, sorted: the allocation of the block, if that is known, and
    /// the address. The others are left out, because there are many: the end of a thread, for
    /// example, writes its whole stack.
    bytes: Vec<(Option<EventIndex>, u64)>,
    /// For every access, the index in `bytes` of its first byte. Those of a read are consecutive.
    first_byte: Vec<u32>,
    /// For every event, where its bytes begin in a `Seen`; with one entry more for the end.
    first_seen: Vec<u32>,
    /// The values of bytes that are not recorded with the write (`None`: initial values), but known
    /// from the first read that saw them.
    revealed: FxHashMap<(Option<EventIndex>, u32), u8>,
    /// What the reads see in the order of the trace.
    observed: Seen,
}

impl ReadCheck {
    pub fn new(model: &Model<'_>, meaning: Meaning) -> Self {
        let all: Vec<EventIndex> = (0..model.trace.events.len())
            .map(EventIndex::from_index)
            .collect();
        let block = |event| model.lifetimes.block(event);
        let mut bytes = Vec::new();
        for &event in &all {
            if let Some(touch) = Touch::of(model.op(event)).filter(|touch| touch.reads) {
                let addresses = (0..u64::from(touch.access.size)).map(|k| touch.access.address + k);
                bytes.extend(addresses.map(|address| (block(event), address)));
            }
        }
        bytes.sort_unstable();
        bytes.dedup();
        let (mut first_byte, mut first_seen) = (Vec::new(), vec![0]);
        for &event in &all {
            let touch = Touch::of(model.op(event));
            let address = touch.map_or(0, |touch| touch.access.address);
            let first = (block(event), address);
            first_byte.push(bytes.partition_point(|&byte| byte < first) as u32);
            let read = touch.filter(|touch| touch.reads);
            let size = read.map_or(0, |touch| touch.access.size);
            first_seen.push(first_seen[event.index()] + size);
        }
        let mut check = ReadCheck {
            meaning,
            has_branches: all.iter().any(|&event| is_branch(model, event)),
            bytes,
            first_byte,
            first_seen,
            revealed: FxHashMap::default(),
            observed: Vec::new(),
        };
        let first = check.run(model, &all);
        for &event in &all {
            for (k, byte) in check.seen(&first, event).iter().enumerate() {
                if byte.value.is_none()
                    && let Some(&value) = recorded(model, event).and_then(|v| v.read.get(k))
                {
                    let place = (byte.writer, check.first_byte[event.index()] + k as u32);
                    check.revealed.entry(place).or_insert(value);
                }
            }
        }
        check.observed = check.run(model, &all);
        check
    }

    /// The part of `seen` that belongs to this event.
    fn seen<'s>(&self, seen: &'s Seen, event: EventIndex) -> &'s [Byte] {
        let from = self.first_seen[event.index()] as usize;
        let to = self.first_seen[event.index() + 1] as usize;
        &seen[from..to]
    }

    /// Fails with the first event of the schedule that has to see what it saw in the trace and does
    /// not.
    pub fn check(&self, model: &Model<'_>, schedule: &[EventIndex]) -> Result<(), EventIndex> {
        let seen = self.run(model, schedule);
        let relevant = self.relevant_reads(model, schedule, &seen);
        for &event in schedule {
            if model.position_of(event) >= relevant[model.thread_of(event).index()] {
                continue;
            }
            let pairs = self.seen(&self.observed, event).iter();
            for (then, now) in pairs.zip(self.seen(&seen, event)) {
                let same_value = then.value.is_some() && then.value == now.value;
                let same_value_is_enough = self.meaning == Meaning::SameValues;
                if then.writer != now.writer && !(same_value_is_enough && same_value) {
                    return Err(event);
                }
            }
        }
        Ok(())
    }

    /// Runs a schedule through memory.
    fn run(&self, model: &Model<'_>, schedule: &[EventIndex]) -> Seen {
        let by_value = self.meaning == Meaning::SameValues;
        let revealed = |writer, byte| {
            let value = self.revealed.get(&(writer, byte));
            value.copied().filter(|_| by_value)
        };
        let mut memory: Vec<Option<Byte>> = vec![None; self.bytes.len()];
        let last = self.first_seen.last().copied().unwrap_or(0);
        let mut seen = vec![Byte::default(); last as usize];
        for &event in schedule {
            let Some(touch) = Touch::of(model.op(event)) else {
                continue;
            };
            let written = recorded(model, event).filter(|_| touch.writes && by_value);
            let first = self.first_byte[event.index()] as usize;
            let end = touch.access.address + u64::from(touch.access.size);
            let end = (model.lifetimes.block(event), end);
            let inside = self.bytes[first..].iter().take_while(|&&byte| byte < end);
            for (byte, (_, address)) in (first..).zip(inside) {
                let k = (address - touch.access.address) as usize;
                if touch.reads {
                    let initial = || Byte {
                        value: revealed(None, byte as u32),
                        writer: None,
                    };
                    seen[self.first_seen[event.index()] as usize + k] =
                        memory[byte].unwrap_or_else(initial);
                }
                if touch.writes {
                    let known = written.and_then(|value| value.written.get(k).copied());
                    memory[byte] = Some(Byte {
                        value: known.or_else(|| revealed(Some(event), byte as u32)),
                        writer: Some(event),
                    });
                }
            }
        }
        seen
    }

    /// For every thread, the position up to which its reads are relevant: without branch events all
    /// are, otherwise those before a branch and those before a write that a relevant read sees.
    fn relevant_reads(
        &self,
        model: &Model<'_>,
        schedule: &[EventIndex],
        seen: &Seen,
    ) -> Vec<usize> {
        if !self.has_branches {
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
                for writer in self.seen(seen, event).iter().filter_map(|byte| byte.writer) {
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

/// What the trace has recorded of the values of an access.
fn recorded<'t>(model: &Model<'t>, event: EventIndex) -> Option<&'t Value> {
    let values = &model.trace.values;
    let at = values
        .binary_search_by_key(&event, |value| value.event)
        .ok()?;
    Some(&values[at])
}
