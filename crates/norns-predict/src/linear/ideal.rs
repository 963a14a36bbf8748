//! Ideals that the locks allow: the sync-preserving closure and a weaker one.
//!
//! An ideal is closed under what events need (`clocks`). Locks add a rule: of two sections of one lock
//! that begin in the ideal, one must end in it. There are two closures under this rule.
//!
//! `keep_order` keeps the order of all sections of a lock: the earlier one must end. The events of
//! the result, in the order of the trace, are then a legal schedule, and it is the smallest such ideal
//! (SyncP, Mathur et al. 2021; for deadlocks SPDOffline, Tunç et al. 2023). Only sections that are
//! open at the edge of the ideal can violate the rule, so a round costs one search for each open
//! section and thread, and the state is the ideal alone.
//!
//! `allow_reversal` leaves open the sections that contain the targets (all other sections of their
//! locks must end), in the spirit of OSR (Shi et al. 2024). Its result may have no schedule;
//! `reversal` looks for one.

use norns_trace::{EventIndex, ThreadId};

use super::Linear;
use super::critical::Section;

/// Units of work for each thread in a round of a closure.
const UNITS_PER_THREAD: u64 = 5;

/// An event that must not be in the ideal, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub thread: usize,
    pub position: u32,
}

/// The closure of the ideal contains one of the targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed;

impl Linear<'_> {
    pub fn target(&self, event: EventIndex) -> Target {
        Target {
            thread: self.model.thread_of(event).index(),
            position: self.model.position[event.index()],
        }
    }

    /// Closes the ideal, keeping the order of sections. Stops as soon as it contains a target, since
    /// every larger ideal does, too.
    pub fn keep_order(&self, ideal: &mut [u32], targets: &[Target]) -> Result<(), Passed> {
        loop {
            self.work.count(UNITS_PER_THREAD * ideal.len() as u64);
            self.inside(ideal, targets)?;
            let mut changed = false;
            for thread in 0..ideal.len() {
                changed |= self.close_sections(ideal, thread);
            }
            if !changed {
                return Ok(());
            }
        }
    }

    /// Closes the ideal, where sections of the targets' threads may be reversed. `others` says what
    /// happens to open sections of other threads that are followed by a later section of the lock.
    pub fn allow_reversal(
        &self,
        ideal: &mut [u32],
        targets: &[Target],
        others: Others,
    ) -> Result<(), Passed> {
        loop {
            self.work.count(UNITS_PER_THREAD * ideal.len() as u64);
            self.inside(ideal, targets)?;
            let mut changed = false;
            for thread in 0..ideal.len() {
                if targets.iter().any(|target| target.thread == thread) {
                    changed |= self.close_rivals(ideal, thread);
                } else if others == Others::KeepOrder {
                    changed |= self.close_sections(ideal, thread);
                } else {
                    changed |= self.close_doubly_open(ideal, thread);
                }
            }
            if !changed {
                return Ok(());
            }
        }
    }

    /// Closes the ideal under what every schedule that ends at these targets needs: no other thread
    /// holds a lock that a target's thread holds. Sections of other locks are ignored.
    pub fn close_needed(&self, ideal: &mut [u32], targets: &[Target]) -> Result<(), Passed> {
        loop {
            self.work.count(UNITS_PER_THREAD * ideal.len() as u64);
            self.inside(ideal, targets)?;
            let mut changed = false;
            for target in targets {
                changed |= self.close_rivals(ideal, target.thread);
            }
            if !changed {
                return Ok(());
            }
        }
    }

    /// Fails if the ideal contains a target, or exceeds the limits of the trace.
    fn inside(&self, ideal: &[u32], targets: &[Target]) -> Result<(), Passed> {
        let passed = targets
            .iter()
            .any(|target| ideal[target.thread] > target.position)
            || ideal
                .iter()
                .zip(&self.limits)
                .any(|(have, limit)| have > limit);
        if passed { Err(Passed) } else { Ok(()) }
    }

    /// Ends the open sections of the thread that are followed by a later section of the same lock.
    fn close_sections(&self, ideal: &mut [u32], thread: usize) -> bool {
        let mut changed = false;
        while let Some(section) = self.open_sections(ideal, thread).find(|section| {
            self.sections
                .conflicting_later(self.model, ideal, section)
                .is_some()
        }) {
            self.end_section(ideal, &section);
            changed = true;
        }
        changed
    }

    /// Ends the open sections of other threads whose locks this thread holds.
    fn close_rivals(&self, ideal: &mut [u32], thread: usize) -> bool {
        let mut changed = false;
        for own in self.open_sections(ideal, thread) {
            for other in (0..ideal.len()).filter(|&other| other != thread) {
                while let Some(rival) = self
                    .open_sections(ideal, other)
                    .find(|rival| own.excludes(rival))
                {
                    self.end_section(ideal, &rival);
                    changed = true;
                }
            }
            if changed {
                break;
            }
        }
        changed
    }

    /// Ends the open sections of this thread that are followed by another thread's open section.
    fn close_doubly_open(&self, ideal: &mut [u32], thread: usize) -> bool {
        let mut changed = false;
        while let Some(section) = self.open_sections(ideal, thread).find(|own| {
            let mut rivals = (0..ideal.len())
                .filter(|&other| other != thread)
                .flat_map(|other| self.open_sections(ideal, other));
            rivals.any(|rival| own.excludes(&rival) && rival.acquired > own.acquired)
        }) {
            self.end_section(ideal, &section);
            changed = true;
        }
        changed
    }

    /// Adds the release of the section. If the trace has none, the ideal exceeds every limit.
    fn end_section(&self, ideal: &mut [u32], section: &Section) {
        match section.released {
            Some(release) => self.clocks.include(self.model, ideal, release),
            None => {
                let thread = self.model.thread_of(section.acquired).index();
                ideal[thread] = u32::MAX;
            }
        }
    }
}

impl<'m> Linear<'m> {
    /// What a thread holds at the edge of the ideal, the innermost first.
    pub fn open_sections<'a>(
        &'a self,
        ideal: &[u32],
        thread: usize,
    ) -> impl Iterator<Item = Section> + use<'a, 'm> {
        let id = ThreadId::from_index(thread);
        let held = self.sections.held(self.model, id, ideal[thread]);
        self.sections.chain(held)
    }
}

/// What `allow_reversal` does with sections of threads that have no target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// They keep their order.
    KeepOrder,
    /// They may stay open although a later section of the lock follows, provided that that one ends.
    MayWait,
}
