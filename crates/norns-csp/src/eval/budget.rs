//! What evaluation may spend: the share of it in the budget of a check.
//!
//! Time and memory are looked at again and again, wherever values are made. Memory is counted from
//! what is kept: thunks, calls with their arguments, numbers of events, what generators list, and large
//! sets and sequences for as long as they are referred to.

use std::sync::{Arc, Weak};

use super::machine::{Error, Evaluator, Result};
use super::set::Set;
use super::value::Value;
use crate::syntax::source::Span;

// Units of work between two looks at the clock and at memory.
const LOOK_AT_BUDGET: usize = 4096;

// Sets and sequences with more elements are counted one by one.
const LARGE: usize = 1024;

// A value with its place in a set or sequence.
const BYTES_PER_ELEMENT: usize = 40;

// The variables that a generator binds, and what is made of them before they are dropped.
const BYTES_PER_ENVIRONMENT: usize = 240;

/// How large values may become, and until when they are computed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Elements of one set or items of one sequence.
    pub elements: usize,
    /// Bytes of everything that evaluation keeps, with the terms it makes.
    pub bytes: Option<u64>,
    pub until: Option<std::time::Instant>,
}

impl Default for Limits {
    /// Without a budget: what fits into about a gigabyte.
    fn default() -> Self {
        Limits {
            elements: 1 << 24,
            bytes: None,
            until: None,
        }
    }
}

/// A set or sequence with many elements, as long as somebody keeps it.
#[derive(Debug)]
pub(super) enum LargeValue {
    Set(Weak<Set>),
    Seq(Weak<[Value]>),
}

impl LargeValue {
    fn elements(&self) -> usize {
        match self {
            LargeValue::Set(set) => match set.upgrade().as_deref() {
                Some(Set::Explicit(elements)) => elements.len(),
                _ => 0,
            },
            LargeValue::Seq(items) => items.upgrade().map_or(0, |items| items.len()),
        }
    }
}

impl Evaluator {
    /// Memory of what evaluation keeps, roughly: values that were computed, and the calls of
    /// processes with their arguments.
    pub fn bytes(&self) -> u64 {
        let kept = self.thunks.len() * 96
            + self.calls.len() * 320
            + (self.large_elements + self.argument_elements) * BYTES_PER_ELEMENT
            + self.listed_environments * BYTES_PER_ENVIRONMENT
            + self.numbering.bytes()
            + self.input_prefixes.len() * 160;
        kept as u64
    }

    /// Counts small pieces of work; an error if the budget has ended.
    #[inline]
    pub(super) fn work(&mut self, units: usize, span: Span) -> Result<()> {
        self.since = self.since.saturating_add(units);
        if self.since < LOOK_AT_BUDGET {
            return Ok(());
        }
        self.since = 0;
        self.look_at_budget(span)
    }

    #[cold]
    fn look_at_budget(&mut self, span: Span) -> Result<()> {
        let limits = self.limits;
        if limits
            .until
            .is_some_and(|until| std::time::Instant::now() > until)
        {
            return Err(self.spent(
                span,
                "the time budget ended while this was evaluated",
                "a larger time budget lets it go on (--time)",
            ));
        }
        if let Some(bytes) = limits.bytes {
            self.large.retain(|_, value| value.elements() > 0);
            self.large_elements = self.large.values().map(LargeValue::elements).sum();
            if self.bytes() + self.processes.bytes() > bytes {
                return Err(self.out_of_memory(bytes, span));
            }
        }
        Ok(())
    }

    /// An error if so many elements more do not fit into memory.
    pub(super) fn room_for(&mut self, elements: usize, span: Span) -> Result<()> {
        let bytes = elements.saturating_mul(BYTES_PER_ELEMENT) as u64;
        match self.limits.bytes {
            Some(limit) if self.bytes() + self.processes.bytes() + bytes > limit => {
                Err(self.out_of_memory(limit, span))
            }
            _ => Ok(()),
        }
    }

    fn out_of_memory(&self, limit: u64, span: Span) -> Error {
        let megabytes = limit >> 20;
        self.spent(
            span,
            format!("the budget of {megabytes} MB ended while this was evaluated"),
            "a larger memory budget lets it go on (--memory)",
        )
    }

    /// Remembers that a value is kept, if it is large.
    pub(super) fn note_large(&mut self, value: &Value) {
        let (address, weak) = match value {
            Value::Set(set) if value.elements() > LARGE => (
                Arc::as_ptr(set) as usize,
                LargeValue::Set(Arc::downgrade(set)),
            ),
            Value::Seq(seq) if value.elements() > LARGE => {
                let (address, weak) = seq.shared();
                (address, LargeValue::Seq(weak))
            }
            _ => return,
        };
        if self.large.insert(address, weak).is_none() {
            self.large_elements += value.elements();
        }
    }
}
