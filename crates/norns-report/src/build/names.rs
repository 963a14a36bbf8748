//! What the source calls the objects of a finding: `pool->lock` for the mutex that the line
//! `pthread_mutex_init(&pool->lock, NULL)` made.
//!
//! The words at a call that locks it would not do: `from->lock` and `to->lock` are the same two
//! mutexes in both threads of a deadlock. Those at the one call that made it always mean it, as
//! long as no other object of the finding was made with the same words.

use std::collections::{BTreeSet, HashMap};

use norns_trace::origin::How;
use norns_trace::{EventIndex, ObjectId, Trace};

use super::Sources;
use crate::describe::{object_name, place_name};
use crate::expression::{self, Role};

/// The objects that have a name in the source.
#[derive(Default)]
pub(super) struct Names {
    /// What an object is called in descriptions, and what the source calls it. A name that begins
    /// with another one stands before it.
    pairs: Vec<(String, String)>,
    made_at: HashMap<ObjectId, String>,
}

impl Names {
    /// Of the objects of these events.
    pub(super) fn new(
        trace: &Trace,
        events: impl Iterator<Item = EventIndex>,
        sources: Sources,
    ) -> Names {
        let objects: BTreeSet<ObjectId> = events
            .filter_map(|event| trace.events[event.index()].op.object())
            .collect();
        let mut names = Names::default();
        for id in objects {
            let Some(origin) = trace.origin(id).filter(|one| one.how == How::Initialised) else {
                continue;
            };
            let made_at = place_name(trace, origin.event);
            names.made_at.insert(id, made_at);
            if let Some(words) = words(trace, origin.event, sources) {
                let words = match origin.number {
                    0 => words,
                    number => format!("{words} #{number}"),
                };
                names.pairs.push((object_name(trace, id), words));
            }
        }
        let mut uses: HashMap<String, usize> = HashMap::new();
        for (_, words) in &names.pairs {
            *uses.entry(words.clone()).or_default() += 1;
        }
        names.pairs.retain(|(_, words)| uses[words] == 1);
        names.pairs.sort_by(|(one, _), (other, _)| other.cmp(one));
        names
    }

    /// The text with the source's words for the objects in it.
    pub(super) fn apply(&self, mut text: String) -> String {
        for (name, words) in &self.pairs {
            if text.contains(name) {
                text = text.replace(name, words);
            }
        }
        text
    }

    /// `file:line` of the call that made the object; empty if that was not seen.
    pub(super) fn made_at(&self, id: ObjectId) -> String {
        self.made_at.get(&id).cloned().unwrap_or_default()
    }
}

/// The object that a call at this event is given.
fn words(trace: &Trace, event: EventIndex, sources: Sources) -> Option<String> {
    let place = trace.place(trace.events[event.index()].place);
    let frame = place.frames.first()?;
    let source = sources(&frame.file)?;
    let line = source.lines().nth(frame.line.checked_sub(1)? as usize)?;
    expression::at(line, frame.column, Role::Call)
}
