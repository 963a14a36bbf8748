//! The order of two accesses that a run is asked for.
//!
//! A thread that comes to the second access waits until another one has executed the first. If nothing
//! else can happen, or for as long as the limit says, it goes on without.

use norns_ir::Program;
use rustc_hash::FxHashMap;

use super::{Machine, Pause, Stop};
use crate::how::{Access, Order};
use crate::op::{Code, Op};
use crate::outcome::Enforcement;

const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// The operations on the lines of the two accesses.
pub(crate) struct Marks {
    of_operation: FxHashMap<(u32, u32), u8>,
    writes: [Option<bool>; 2],
}

/// What was seen of the two accesses so far.
#[derive(Clone, Default)]
pub(super) struct Progress {
    /// By whom, from where and how many bytes.
    firsts: Vec<(usize, u64, u64)>,
    seconds: Vec<(usize, u64, u64)>,
    result: Option<Enforcement>,
    /// A thread at the second access went on without the first.
    was_released: bool,
}

impl Progress {
    pub(super) fn result(&self) -> Enforcement {
        match self.result {
            Some(result) => result,
            None if self.was_released => Enforcement::Impossible,
            None => Enforcement::NotReached,
        }
    }
}

/// Whether two paths name the same file, one of them perhaps by its last components only.
pub(crate) fn is_same_file(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_start_matches("./"), other.trim_start_matches("./"));
    let (long, short) = match one.len() >= other.len() {
        true => (one, other),
        false => (other, one),
    };
    match long.strip_suffix(short) {
        Some(rest) => rest.is_empty() || rest.ends_with('/'),
        None => false,
    }
}

impl Marks {
    pub(crate) fn new(program: &Program, code: &Code, order: &Order) -> Self {
        let mut of_operation = FxHashMap::default();
        for (index, function) in (0..).zip(&code.functions) {
            for (pc, (op, place)) in (0..).zip(function.ops.iter().zip(&function.places)) {
                let Some(place) = place.map(|id| program.place(id)) else {
                    continue;
                };
                let is_access = matches!(
                    op,
                    Op::Load { .. }
                        | Op::Store { .. }
                        | Op::AtomicLoad { .. }
                        | Op::AtomicStore { .. }
                        | Op::Update { .. }
                        | Op::CompareExchange { .. }
                        | Op::Call { .. }
                );
                let is_at = |access: &Access| {
                    access.line == place.line
                        && is_same_file(&program.file(place.file).name, &access.file)
                };
                let mut mark = 0;
                if is_access && is_at(&order.first) {
                    mark |= FIRST;
                }
                if is_access && is_at(&order.second) {
                    mark |= SECOND;
                }
                if mark != 0 {
                    of_operation.insert((index, pc), mark);
                }
            }
        }
        Self {
            of_operation,
            writes: [order.first.is_write, order.second.is_write],
        }
    }
}

fn overlap(one: (u64, u64), other: (u64, u64)) -> bool {
    // The library's accesses have no known range.
    one.1 == 0 || other.1 == 0 || (one.0 < other.0 + other.1 && other.0 < one.0 + one.1)
}

impl Machine<'_> {
    /// Whether the running thread has to wait before an access; `None` if it may read or write.
    pub(super) fn is_held(&mut self, address: u64, bytes: u64, is_write: Option<bool>) -> bool {
        let current = self.state.current;
        let Some(marks) = &self.marks else {
            return false;
        };
        let Some(frame) = self.state.threads[current].frames.last() else {
            return false;
        };
        let Some(&mark) = marks.of_operation.get(&(frame.function, frame.pc)) else {
            return false;
        };
        let fits = |which: usize| match (marks.writes[which], is_write) {
            (Some(wanted), Some(is_write)) => wanted == is_write,
            _ => true,
        };
        let is_first = mark & FIRST != 0 && fits(0);
        let is_second = mark & SECOND != 0 && fits(1);
        if self.order.result.is_some() || !(is_first || is_second) || self.state.threads.len() == 1
        {
            return false;
        }
        let range = (address, bytes);
        let by_another = |seen: &[(usize, u64, u64)]| {
            seen.iter().any(|&(thread, start, length)| {
                thread != current && overlap((start, length), range)
            })
        };
        if is_second && by_another(&self.order.firsts) {
            self.order.result = Some(Enforcement::Enforced);
            return false;
        }
        if is_second && self.order.firsts.iter().any(|first| first.0 != current) {
            // The first access was somewhere else: this is not the pair.
            return false;
        }
        if is_first {
            if by_another(&self.order.seconds) {
                self.order.result = Some(Enforcement::Impossible);
            }
            self.order.firsts.push((current, address, bytes));
            return false;
        }
        if self.is_alone() {
            self.order.seconds.push((current, address, bytes));
            return false;
        }
        let steps = self.state.steps;
        let thread = &mut self.state.threads[current];
        if std::mem::take(&mut thread.is_released) {
            self.order.seconds.push((current, address, bytes));
            return false;
        }
        thread.held_since.get_or_insert(steps);
        true
    }

    /// A call of the library counts as an access on its line.
    pub(super) fn before_library(&mut self) -> Result<Option<Pause>, Stop> {
        match self.marks.is_some() && self.is_held(0, 0, None) {
            true => Ok(Some(Pause::Blocked)),
            false => Ok(None),
        }
    }

    /// Lets threads go on that wait for an order which is established or hopeless. `is_stuck`: nothing else
    /// can happen, so one of them goes on in any case.
    pub(super) fn release_held(&mut self, is_stuck: bool) -> bool {
        let steps = self.state.steps;
        let is_decided = self.order.result.is_some();
        let firsts = &self.order.firsts;
        let mut was_released = false;
        for (number, thread) in self.state.threads.iter_mut().enumerate() {
            let Some(since) = thread.held_since else {
                continue;
            };
            if is_decided || firsts.iter().any(|first| first.0 != number) {
                thread.held_since = None;
                was_released = true;
            } else if (is_stuck && !was_released) || steps - since > self.how.limits.hold {
                thread.held_since = None;
                thread.is_released = true;
                self.order.was_released = true;
                was_released = true;
            }
        }
        was_released
    }
}
