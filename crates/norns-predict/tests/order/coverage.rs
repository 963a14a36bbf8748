//! Which kinds of events random traces contain, so that a test can fail if one is missing.

use std::collections::BTreeMap;

use norns_model::location::Touch;
use norns_trace::{AtomicKind, EventIndex, ObjectKind, Op, Trace};

/// How many events of each kind there were.
#[derive(Default)]
pub struct Coverage {
    counts: BTreeMap<&'static str, usize>,
    pub traces: usize,
}

/// The kinds that traces with all primitives have to contain.
pub const SYNCHRONISATION: [&str; 44] = [
    "start",
    "end",
    "fork",
    "join",
    "failed join",
    "detach",
    "mutex lock",
    "recursive mutex lock",
    "recursive mutex lock again",
    "error-checking mutex lock",
    "robust mutex lock",
    "spin lock lock",
    "reader-writer lock lock",
    "failed lock",
    "read lock",
    "failed read lock",
    "unlock",
    "once begin",
    "once end",
    "once pass",
    "wait",
    "failed wait",
    "signal",
    "broadcast",
    "barrier init",
    "barrier enter",
    "barrier exit",
    "semaphore init",
    "semaphore wait",
    "failed semaphore wait",
    "semaphore post",
    "take",
    "failed take",
    "give",
    "misuse",
    "loop exit",
    "send",
    "receive",
    "atomic load",
    "atomic store",
    "atomic exchange",
    "failed atomic exchange",
    "fence",
    "access",
];

pub const MEMORY: [&str; 11] = [
    "read",
    "write",
    "allocate",
    "free",
    "use",
    "destroy",
    "initialise",
    "1 byte",
    "16 bytes",
    "range",
    "16 bytes at once",
];

/// The kinds that traces with values have to contain in addition.
pub const VALUES: [&str; 5] = [
    "initial value that is not 0",
    "16 bytes with a value",
    "range with a value",
    "value with different bytes",
    "access without a value",
];

fn kind(trace: &Trace, op: Op) -> &'static str {
    match op {
        Op::Start => "start",
        Op::End => "end",
        Op::Fork(_) => "fork",
        Op::Join(_) => "join",
        Op::FailedJoin(_) => "failed join",
        Op::Detach(_) => "detach",
        Op::Lock(lock) => match trace.objects[lock.index()].kind {
            ObjectKind::Mutex => "mutex lock",
            ObjectKind::RecursiveMutex => "recursive mutex lock",
            ObjectKind::ErrorCheckingMutex => "error-checking mutex lock",
            ObjectKind::RobustMutex => "robust mutex lock",
            ObjectKind::SpinLock => "spin lock lock",
            ObjectKind::ReaderWriterLock => "reader-writer lock lock",
            other => panic!("{other:?} is no lock"),
        },
        Op::FailedLock(_) => "failed lock",
        Op::ReadLock(_) => "read lock",
        Op::FailedReadLock(_) => "failed read lock",
        Op::Unlock(_) => "unlock",
        Op::OnceBegin(_) => "once begin",
        Op::OnceEnd(_) => "once end",
        Op::OncePass(_) => "once pass",
        Op::Wait(_) => "wait",
        Op::FailedWait(_) => "failed wait",
        Op::Signal(_) => "signal",
        Op::Broadcast(_) => "broadcast",
        Op::BarrierInit { .. } => "barrier init",
        Op::BarrierEnter(_) => "barrier enter",
        Op::BarrierExit(_) => "barrier exit",
        Op::SemInit { .. } => "semaphore init",
        Op::SemWait(_) => "semaphore wait",
        Op::FailedSemWait(_) => "failed semaphore wait",
        Op::SemPost(_) => "semaphore post",
        Op::Take(_) => "take",
        Op::FailedTake(_) => "failed take",
        Op::Give(_) => "give",
        Op::Misuse { .. } => "misuse",
        Op::LoopExit(_) => "loop exit",
        Op::Send(_) => "send",
        Op::Receive(_) => "receive",
        Op::Atomic { kind, .. } => match kind {
            AtomicKind::Load => "atomic load",
            AtomicKind::Store => "atomic store",
            AtomicKind::ReadModifyWrite => "atomic exchange",
            AtomicKind::FailedExchange => "failed atomic exchange",
        },
        Op::Fence(_) => "fence",
        Op::Read(_) => "read",
        Op::Write(_) => "write",
        Op::Allocate(_) => "allocate",
        Op::Free(_) => "free",
        Op::Use(_) => "use",
        Op::Destroy(_) => "destroy",
        Op::Initialise(_) => "initialise",
        // Calls order nothing, and the engines ignore them.
        Op::Enter | Op::Leave => "call",
        Op::Custom(custom) if trace.customs[custom as usize].name == "branch" => "branch",
        Op::Custom(_) => "custom",
    }
}

impl Coverage {
    fn count(&mut self, kind: &'static str) {
        *self.counts.entry(kind).or_default() += 1;
    }

    pub fn add(&mut self, trace: &Trace) {
        self.traces += 1;
        let mut levels = BTreeMap::new();
        let mut written = std::collections::BTreeSet::new();
        for (i, event) in trace.events.iter().enumerate() {
            self.count(kind(trace, event.op));
            match event.op {
                Op::Lock(lock) => {
                    let level: &mut i32 = levels.entry((event.thread, lock)).or_default();
                    *level += 1;
                    if *level > 1 {
                        self.count("recursive mutex lock again");
                    }
                }
                Op::Unlock(lock) => *levels.entry((event.thread, lock)).or_default() -= 1,
                Op::Atomic { size: 16, .. } => self.count("16 bytes at once"),
                _ => {}
            }
            let Some(touch) = Touch::of(event.op) else {
                continue;
            };
            self.count("access");
            let (address, size) = (touch.access.address, touch.access.size);
            let index = EventIndex::from_index(i);
            let value = trace.values.iter().find(|value| value.event == index);
            match size {
                1 => self.count("1 byte"),
                16 => self.count("16 bytes"),
                17.. => self.count("range"),
                _ => {}
            }
            if let Some(value) = value {
                let bytes = [&value.read, &value.written].map(|bytes| bytes.as_slice());
                match size {
                    16 => self.count("16 bytes with a value"),
                    17.. => self.count("range with a value"),
                    _ => {}
                }
                if bytes
                    .iter()
                    .any(|bytes| bytes.windows(2).any(|w| w[0] != w[1]))
                {
                    self.count("value with different bytes");
                }
                let initial = |k: &usize| !written.contains(&(address + *k as u64));
                if (0..value.read.len())
                    .filter(initial)
                    .any(|k| value.read[k] != 0)
                {
                    self.count("initial value that is not 0");
                }
            } else if !trace.values.is_empty() {
                self.count("access without a value");
            }
            if touch.writes {
                written.extend(address..address + u64::from(size));
            }
        }
    }

    /// Asserts that each of the kinds occurred at least `least` times.
    pub fn demand<'k>(&self, kinds: impl IntoIterator<Item = &'k &'static str>, least: usize) {
        for kind in kinds {
            let found = self.counts.get(kind).copied().unwrap_or(0);
            assert!(
                found >= least,
                "{kind}: {found} in {} random traces, {least} wanted",
                self.traces
            );
        }
    }
}
