//! For callers that build processes from values of their own: which event stands for which
//! value, and counterexamples in those values.
//!
//! The name of an event is what the value displays as. If that is the event's name in CSPM
//! (`lock.0.1`), a property from a script speaks of the same events: build the processes in the
//! arena that the script was evaluated into.

use std::fmt::Display;
use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::engine::counterexample::{Counterexample, Step, Violation};
use crate::event::{EventId, EventSet};
use crate::process::Processes;

/// Values of the caller and their events.
#[derive(Clone, Debug)]
pub struct Vocabulary<E> {
    events: FxHashMap<E, EventId>,
    values: FxHashMap<EventId, E>,
}

impl<E> Default for Vocabulary<E> {
    fn default() -> Self {
        Vocabulary {
            events: FxHashMap::default(),
            values: FxHashMap::default(),
        }
    }
}

/// One step of a counterexample, in the caller's values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Happening<E> {
    /// What is seen; none for a hidden or internal step, or an event that is not the caller's.
    pub seen: Option<E>,
    /// What happened inside: the first of the components' own events that is the caller's.
    /// This is the event that a hidden step was before it was hidden.
    pub event: Option<E>,
    /// The components that took part, by name.
    pub components: Vec<String>,
}

/// A counterexample in the caller's values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Witness<E> {
    pub happenings: Vec<Happening<E>>,
    /// For a divergence, what is repeated for ever.
    pub repeats: Vec<Happening<E>>,
    /// What each component offers at the end: of the caller's events only.
    pub waiting: Vec<(String, Vec<E>)>,
    pub shortest: bool,
}

impl<E: Clone + Eq + Hash + Display> Vocabulary<E> {
    pub fn new() -> Self {
        Self::default()
    }

    /// The event of a value. Two values must not display alike.
    pub fn event(&mut self, processes: &mut Processes, value: &E) -> EventId {
        if let Some(&event) = self.events.get(value) {
            return event;
        }
        let event = processes.events.intern(&value.to_string());
        let before = self.values.insert(event, value.clone());
        assert!(before.is_none(), "two values are called {value}");
        self.events.insert(value.clone(), event);
        event
    }

    /// The set of the events of these values.
    pub fn set<'a>(
        &mut self,
        processes: &mut Processes,
        values: impl IntoIterator<Item = &'a E>,
    ) -> EventSet
    where
        E: 'a,
    {
        EventSet::only(
            values
                .into_iter()
                .map(|value| self.event(processes, value))
                .collect::<Vec<_>>(),
        )
    }

    /// The value of an event, if it is one of the caller's.
    pub fn value(&self, event: EventId) -> Option<&E> {
        self.values.get(&event)
    }

    /// A counterexample in the caller's values.
    pub fn witness(&self, example: &Counterexample) -> Witness<E> {
        let happening = |step: &Step| Happening {
            seen: self.value(step.event).cloned(),
            event: self
                .value(step.event)
                .or_else(|| step.parts.iter().find_map(|&(_, event)| self.value(event)))
                .cloned(),
            components: step
                .parts
                .iter()
                .map(|&(component, _)| example.components[component].clone())
                .collect(),
        };
        Witness {
            happenings: example.steps.iter().map(happening).collect(),
            repeats: match &example.violation {
                Violation::Divergence { repeats } => repeats.iter().map(happening).collect(),
                _ => Vec::new(),
            },
            waiting: example
                .waiting
                .iter()
                .map(|(component, offers)| {
                    let values = offers
                        .iter()
                        .filter_map(|&event| self.value(event))
                        .cloned();
                    (example.components[*component].clone(), values.collect())
                })
                .collect(),
            shortest: example.shortest,
        }
    }
}

impl<E: Clone> Witness<E> {
    /// The caller's events in the order in which they happened, hidden or not.
    pub fn schedule(&self) -> Vec<E> {
        self.happenings
            .iter()
            .filter_map(|happening| happening.event.clone())
            .collect()
    }
}
