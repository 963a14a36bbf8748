//! Counterexamples: how a check fails, step by step, and what each component did.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::event::{EventId, Events};

/// One step of the implementation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What is seen of it; tau if nothing.
    pub event: EventId,
    /// What the components did together: (component, its own event), by component.
    pub parts: Vec<(usize, EventId)>,
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
    /// After the steps: for each component that still takes part, the events it offers.
    pub waiting: Vec<(usize, Vec<EventId>)>,
    /// Whether no shorter trace fails. Partial-order reduction may miss shorter ones.
    pub shortest: bool,
}

fn list<'a>(events: &'a Events, of: &'a [EventId]) -> impl Iterator<Item = &'a str> {
    of.iter().map(|&event| events.name(event))
}

// A person reads the first few of a long list.
const SHOWN: usize = 12;

fn set(events: &Events, of: &[EventId]) -> String {
    let mut names: Vec<&str> = list(events, of).take(SHOWN).collect();
    let more = format!("… {} more", of.len().saturating_sub(SHOWN));
    if of.len() > SHOWN {
        names.push(&more);
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

    fn parts(&self, events: &Events, step: &Step) -> String {
        let parts: Vec<String> = step
            .parts
            .iter()
            .map(|&(component, event)| {
                let event = match event {
                    EventId::TAU => "an internal step",
                    EventId::TICK => "ends",
                    crate::engine::DONE => "has ended",
                    event => events.name(event),
                };
                format!("{}: {event}", self.components[component])
            })
            .collect();
        parts.join(", ")
    }

    /// For a terminal.
    pub fn text(&self, events: &Events) -> String {
        let mut out = String::new();
        let trace: Vec<_> = self.trace();
        let names: Vec<&str> = list(events, &trace).collect();
        let _ = writeln!(out, "trace: <{}>", names.join(", "));
        let _ = writeln!(out, "{}", self.reason(events));
        if self.components.len() > 1 {
            let width = self
                .steps
                .iter()
                .map(|step| events.name(step.event).chars().count())
                .max()
                .unwrap_or(0);
            let _ = writeln!(out, "steps (what is seen, and which component did what):");
            for (number, step) in self.steps.iter().enumerate() {
                let name = events.name(step.event);
                let pad = " ".repeat(width - name.chars().count());
                let _ = writeln!(
                    out,
                    "  {:>3} {name}{pad}  {}",
                    number + 1,
                    self.parts(events, step)
                );
            }
            if let Violation::Divergence { repeats } = &self.violation {
                let _ = writeln!(out, "repeated for ever:");
                for step in repeats {
                    let _ = writeln!(
                        out,
                        "      {}  {}",
                        events.name(step.event),
                        self.parts(events, step)
                    );
                }
            }
            if !self.waiting.is_empty() {
                let _ = writeln!(out, "then:");
                for (component, offers) in &self.waiting {
                    let what = match &offers[..] {
                        [] => "does nothing more".into(),
                        [crate::engine::DONE] => "has ended".into(),
                        offers => format!("offers {}", set(events, offers)),
                    };
                    let _ = writeln!(out, "      {} {what}", self.components[*component]);
                }
            }
        }
        out
    }

    /// For programs.
    pub fn json(&self, events: &Events) -> Value {
        let names = |of: &[EventId]| -> Vec<String> {
            of.iter()
                .map(|&event| {
                    if event == crate::engine::DONE {
                        "done".into()
                    } else {
                        events.name(event).to_owned()
                    }
                })
                .collect()
        };
        let steps = |steps: &[Step]| -> Vec<Value> {
            steps
                .iter()
                .map(|step| {
                    let parts: Vec<Value> = step
                        .parts
                        .iter()
                        .map(|&(component, event)| {
                            json!({
                                "component": self.components[component],
                                "event": names(&[event])[0],
                            })
                        })
                        .collect();
                    json!({ "event": events.name(step.event), "parts": parts })
                })
                .collect()
        };
        let mut violation = match &self.violation {
            Violation::Event { event, allowed } => {
                json!({ "kind": "event", "event": events.name(*event), "allowed": names(allowed) })
            }
            Violation::Refusal { offered, demanded } => {
                let demanded: Vec<_> = demanded.iter().map(|of| names(of)).collect();
                json!({ "kind": "refusal", "offered": names(offered), "demanded": demanded })
            }
            Violation::Deadlock => json!({ "kind": "deadlock" }),
            Violation::Divergence { repeats } => {
                json!({ "kind": "divergence", "repeats": steps(repeats) })
            }
            Violation::Nondeterminism { event, offered } => json!({
                "kind": "nondeterminism", "event": events.name(*event), "offered": names(offered),
            }),
            Violation::NoTrace { wanted } => {
                json!({ "kind": "no-trace", "wanted": events.name(*wanted) })
            }
            Violation::MayRefuse { wanted, offered } => json!({
                "kind": "may-refuse", "wanted": events.name(*wanted), "offered": names(offered),
            }),
        };
        violation["reason"] = self.reason(events).into();
        let waiting: Vec<Value> = self
            .waiting
            .iter()
            .map(|(component, offers)| {
                json!({ "component": self.components[*component], "offers": names(offers) })
            })
            .collect();
        json!({
            "trace": names(&self.trace()),
            "shortest": self.shortest,
            "violation": violation,
            "steps": steps(&self.steps),
            "waiting": waiting,
        })
    }

    /// For `dot`: one row of states a component, an edge for what it did at each step; what
    /// several did together is joined by a dashed line.
    pub fn dot(&self, events: &Events) -> String {
        let quote = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let mut out =
            String::from("digraph counterexample {\n  rankdir=LR;\n  node [shape=point];\n");
        let _ = writeln!(out, "  label=\"{}\";", quote(&self.reason(events)));
        let mut taking: Vec<usize> = self
            .steps
            .iter()
            .flat_map(|s| &s.parts)
            .map(|p| p.0)
            .collect();
        taking.extend(self.waiting.iter().map(|w| w.0));
        taking.sort_unstable();
        taking.dedup();
        let mut at = vec![0usize; self.components.len()];
        for &component in &taking {
            let name = quote(&self.components[component]);
            let _ = writeln!(out, "  n{component}_0 [shape=box, label=\"{name}\"];");
        }
        for (number, step) in self.steps.iter().enumerate() {
            let mut joined = Vec::new();
            for &(component, event) in &step.parts {
                let from = at[component];
                at[component] += 1;
                let label = if event == crate::engine::DONE {
                    "ended"
                } else {
                    events.name(event)
                };
                let _ = writeln!(
                    out,
                    "  n{component}_{from} -> n{component}_{} [label=\"{} {}\"];",
                    from + 1,
                    number + 1,
                    quote(label)
                );
                joined.push(format!("n{component}_{}", from + 1));
            }
            for pair in joined.windows(2) {
                let _ = writeln!(
                    out,
                    "  {} -> {} [style=dashed, dir=none, constraint=false];",
                    pair[0], pair[1]
                );
            }
        }
        for (component, offers) in &self.waiting {
            let text = match &offers[..] {
                [] => "nothing more".into(),
                [crate::engine::DONE] => "ended".into(),
                offers => format!("offers {}", set(events, offers)),
            };
            let _ = writeln!(
                out,
                "  w{component} [shape=plaintext, label=\"{}\"];\n  n{component}_{} -> w{component} [style=dotted];",
                quote(&text),
                at[*component]
            );
        }
        out.push_str("}\n");
        out
    }
}
