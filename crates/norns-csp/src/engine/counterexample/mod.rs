//! Counterexamples: how a check fails, step by step, and what each component did.

mod fold;
mod page;
mod render;

use crate::event::{EventId, Events};
use crate::process::ProcId;
use std::borrow::Cow;

pub use page::{Section, page};

/// One step of the implementation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What is seen of it; tau if nothing.
    pub event: EventId,
    /// What the components did together: (component, its own event), by component.
    pub parts: Vec<(usize, EventId)>,
    /// What happened inside components that are compressed, or hide events themselves.
    pub inside: Vec<Inside>,
}

/// What a process inside a component did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inside {
    pub component: usize,
    /// The innermost named process, if there is one.
    pub process: Option<String>,
    pub event: EventId,
}

/// What is wrong at the end of the trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Violation {
    /// The last event is one that the specification does not allow there.
    Event {
        event: EventId,
        allowed: Vec<EventId>,
    },
    /// A stable state offers only these events; the specification demands one of the sets.
    Refusal {
        offered: Vec<EventId>,
        demanded: Vec<Vec<EventId>>,
    },
    /// Nothing can happen any more.
    Deadlock,
    /// These steps, all of them internal, can be repeated for ever.
    Divergence { repeats: Vec<Step> },
    /// After the trace the event may be accepted and may be refused.
    Nondeterminism {
        event: EventId,
        offered: Vec<EventId>,
    },
    /// The wanted trace cannot be continued with this event.
    NoTrace { wanted: EventId },
    /// The wanted trace may be refused here: this is all that is offered.
    MayRefuse {
        wanted: EventId,
        offered: Vec<EventId>,
    },
}

/// A behaviour of the implementation that fails the check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counterexample {
    /// The components of the implementation, by name.
    pub components: Vec<String>,
    pub steps: Vec<Step>,
    pub violation: Violation,
    /// What the specification allows before each step and after the last one; empty for a check
    /// without specification.
    pub allowed: Vec<Vec<EventId>>,
    /// After the steps: for each component that still takes part, the events it offers.
    pub waiting: Vec<(usize, Vec<EventId>)>,
    /// Whether no shorter trace fails. Partial-order reduction and looking ahead may miss shorter
    /// ones.
    pub shortest: bool,
    // The terms that the components started as.
    pub(crate) origins: Vec<ProcId>,
}

fn list<'a>(events: &'a Events, of: &'a [EventId]) -> impl Iterator<Item = Cow<'a, str>> {
    of.iter().map(|&event| events.name(event))
}

// A person reads the first few of a long list.
const SHOWN: usize = 12;

fn set(events: &Events, of: &[EventId]) -> String {
    let mut names: Vec<Cow<str>> = list(events, of).take(SHOWN).collect();
    if of.len() > SHOWN {
        names.push(format!("… {} more", of.len() - SHOWN).into());
    }
    format!("{{{}}}", names.join(", "))
}

impl Counterexample {
    /// Whether another counterexample shows a person the same: the trace and what is wrong.
    pub fn is_like(&self, other: &Counterexample) -> bool {
        let same_kind = match (&self.violation, &other.violation) {
            (Violation::Divergence { .. }, Violation::Divergence { .. }) => true,
            (mine, theirs) => mine == theirs,
        };
        same_kind && self.trace() == other.trace()
    }

    /// The visible events of the steps.
    pub fn trace(&self) -> Vec<EventId> {
        self.steps
            .iter()
            .map(|step| step.event)
            .filter(|&e| e != EventId::TAU)
            .collect()
    }

    /// What is wrong, in a sentence.
    pub fn reason(&self, events: &Events) -> String {
        let name = |event: &EventId| events.name(*event);
        match &self.violation {
            Violation::Event { event, allowed } if allowed.is_empty() => {
                format!(
                    "the specification allows nothing here, but {} happens",
                    name(event)
                )
            }
            Violation::Event { event, allowed } => format!(
                "the specification does not allow {} here, only {}",
                name(event),
                set(events, allowed)
            ),
            Violation::Refusal { offered, demanded } => {
                let wanted: Vec<_> = demanded
                    .iter()
                    .take(3)
                    .map(|of| format!("all of {}", set(events, of)))
                    .collect();
                let wanted = match (demanded.len(), wanted.is_empty()) {
                    (_, true) => "the specification is never stable here".to_owned(),
                    (n, _) if n > 3 => {
                        format!(
                            "the specification offers {}, or one of {} more",
                            wanted.join(", or "),
                            n - 3
                        )
                    }
                    _ => format!("the specification offers {}", wanted.join(", or ")),
                };
                if offered.is_empty() {
                    format!("everything is refused here (a deadlock); {wanted}")
                } else {
                    format!("only {} is offered here; {wanted}", set(events, offered))
                }
            }
            Violation::Deadlock => "nothing can happen any more".into(),
            Violation::Divergence { repeats } => format!(
                "it diverges here: {} can be repeated for ever",
                if repeats.len() == 1 {
                    "an internal step".into()
                } else {
                    format!("{} internal steps", repeats.len())
                }
            ),
            Violation::Nondeterminism { event, offered } => format!(
                "{} may happen here, but may also be refused, when only {} is offered",
                name(event),
                set(events, offered)
            ),
            Violation::NoTrace { wanted } => {
                format!(
                    "{} cannot happen here; this is as far as the trace goes",
                    name(wanted)
                )
            }
            Violation::MayRefuse { wanted, offered } => format!(
                "{} may be refused here, when only {} is offered",
                name(wanted),
                set(events, offered)
            ),
        }
    }
}
