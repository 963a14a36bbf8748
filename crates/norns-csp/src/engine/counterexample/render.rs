//! Counterexamples for a terminal, for programs and for `dot`.

use std::borrow::Cow;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::engine::DONE;
use crate::engine::counterexample::fold::{Fold, folds};
use crate::engine::counterexample::{Counterexample, Step, Violation, list, set};
use crate::event::{EventId, Events};

/// How an event of a component is called.
pub(super) fn own_name(events: &Events, event: EventId) -> Cow<'_, str> {
    match event {
        EventId::TAU => "an internal step".into(),
        EventId::TICK => "ends".into(),
        DONE => "has ended".into(),
        event => events.name(event),
    }
}

impl Counterexample {
    /// What the components did, and what happened inside them.
    pub(super) fn parts(&self, events: &Events, step: &Step) -> String {
        let parts: Vec<String> = step
            .parts
            .iter()
            .map(|&(component, event)| {
                let mut text = format!(
                    "{}: {}",
                    self.components[component],
                    own_name(events, event)
                );
                let inside = self.inside(events, step, component);
                if !inside.is_empty() {
                    let _ = write!(text, " ({inside})");
                }
                text
            })
            .collect();
        parts.join(", ")
    }

    /// What happened inside one component at a step.
    pub(super) fn inside(&self, events: &Events, step: &Step, component: usize) -> String {
        let inside: Vec<String> = step
            .inside
            .iter()
            .filter(|inside| inside.component == component)
            .map(|inside| {
                let event = own_name(events, inside.event);
                match &inside.process {
                    Some(process) => format!("{process}: {event}"),
                    None => event.into_owned(),
                }
            })
            .collect();
        inside.join(", ")
    }

    /// For a terminal.
    pub fn text(&self, events: &Events) -> String {
        let mut out = String::new();
        let trace: Vec<_> = self.trace();
        let names: Vec<Cow<str>> = list(events, &trace).collect();
        let _ = writeln!(out, "trace: <{}>", folded_trace(&names));
        let _ = writeln!(out, "{}", self.reason(events));
        if !self.shortest {
            let _ = writeln!(out, "a shorter counterexample may exist");
        }
        if self.components.len() > 1 || self.steps.iter().any(|step| !step.inside.is_empty()) {
            let width = self
                .steps
                .iter()
                .map(|step| events.name(step.event).chars().count())
                .max()
                .unwrap_or(0);
            let _ = writeln!(out, "steps (what is seen, and which component did what):");
            let line = |out: &mut String, number: usize| {
                let step = &self.steps[number];
                let name = events.name(step.event);
                let pad = " ".repeat(width - name.chars().count());
                let _ = writeln!(
                    out,
                    "  {:>3} {name}{pad}  {}",
                    number + 1,
                    self.parts(events, step)
                );
            };
            for fold in folds(&self.steps) {
                match fold {
                    Fold::Steps(range) => range.for_each(|number| line(&mut out, number)),
                    Fold::Repeated { range, times } => {
                        let last = range.end + (times - 1) * range.len();
                        range.clone().for_each(|number| line(&mut out, number));
                        let _ = writeln!(
                            out,
                            "      … the last {} {times} times, up to step {last}",
                            match range.len() {
                                1 => "step".to_owned(),
                                steps => format!("{steps} steps"),
                            }
                        );
                    }
                    Fold::Left(range) => {
                        let _ = writeln!(out, "      … {} steps left out", range.len());
                    }
                }
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
                        [DONE] => "has ended".into(),
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
                    if event == DONE {
                        "done".into()
                    } else {
                        events.name(event).into_owned()
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
                    let mut value = json!({ "event": events.name(step.event), "parts": parts });
                    if !step.inside.is_empty() {
                        let inside = step.inside.iter().map(|inside| {
                            json!({
                                "component": self.components[inside.component],
                                "process": inside.process,
                                "event": names(&[inside.event])[0],
                            })
                        });
                        value["inside"] = inside.collect();
                    }
                    value
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
        let allowed: Vec<_> = self.allowed.iter().map(|of| names(of)).collect();
        json!({
            "trace": names(&self.trace()),
            "specification": allowed,
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
                let label = if event == DONE {
                    "ended".into()
                } else {
                    events.name(event)
                };
                let _ = writeln!(
                    out,
                    "  n{component}_{from} -> n{component}_{} [label=\"{} {}\"];",
                    from + 1,
                    number + 1,
                    quote(&label)
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
                [DONE] => "ended".into(),
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

/// A trace on one line; a block of events that is repeated stands once, with a number.
fn folded_trace(names: &[Cow<str>]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for fold in folds(names) {
        match fold {
            Fold::Steps(range) => parts.extend(names[range].iter().map(|name| name.to_string())),
            Fold::Repeated { range, times } => {
                parts.push(format!("({}) × {times}", names[range].join(", ")));
            }
            Fold::Left(range) => parts.push(format!("… {} more …", range.len())),
        }
    }
    parts.join(", ")
}
