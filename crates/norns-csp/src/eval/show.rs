//! Values as text, in the syntax of CSPM.

use std::fmt::Write as _;

use super::machine::Evaluator;
use super::set::Set;
use super::value::{Code, Value};
use crate::event::{EventId, EventSet, Runs};
use crate::process::Process;
use crate::syntax::print::quote;

/// Longer values end in `…`.
const MAX_TEXT: usize = 4000;

impl Evaluator {
    pub(super) fn show(&self, value: &Value) -> String {
        let mut out = String::new();
        self.write(value, &mut out);
        out
    }

    pub(super) fn show_set(&self, set: &Set) -> String {
        let mut out = String::new();
        self.write_set(set, &mut out);
        out
    }

    fn write(&self, value: &Value, out: &mut String) {
        if out.len() > MAX_TEXT {
            if !out.ends_with('…') {
                out.push('…');
            }
            return;
        }
        match value {
            Value::Int(value) => {
                let _ = write!(out, "{value}");
            }
            Value::Bool(value) => {
                let _ = write!(out, "{value}");
            }
            Value::Char(value) => {
                let _ = write!(out, "'{value}'");
            }
            Value::Tuple(items) => {
                out.push('(');
                self.write_list(items, ", ", out);
                out.push(')');
            }
            Value::Head(def) => out.push_str(self.resolved.name(*def)),
            Value::Dot(items) => self.write_list(items, ".", out),
            Value::Seq(seq) => {
                let items = seq.items();
                let is_text = !items.is_empty()
                    && seq.rest.is_none()
                    && items.iter().all(|item| matches!(item, Value::Char(_)));
                if is_text {
                    let text: String = items
                        .iter()
                        .filter_map(|item| match item {
                            Value::Char(character) => Some(*character),
                            _ => None,
                        })
                        .collect();
                    out.push_str(&quote(&text));
                    return;
                }
                out.push('<');
                self.write_list(items, ", ", out);
                if seq.rest.is_some() {
                    out.push_str(", …");
                }
                out.push('>');
            }
            Value::Set(set) => self.write_set(set, out),
            Value::Map(map) => {
                out.push_str("(| ");
                for (index, (key, value)) in map.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    self.write(key, out);
                    out.push_str(" => ");
                    self.write(value, out);
                }
                out.push_str(" |)");
            }
            Value::Process(process) => self.write_process(*process, out),
            Value::Function(function) => match function.code {
                Code::Named(def) => out.push_str(self.resolved.name(def)),
                Code::Lambda(_) => out.push_str("<function>"),
                Code::Builtin(builtin) => out.push_str(builtin.name()),
            },
            Value::Opaque(_) => out.push('?'),
        }
    }

    fn write_list(&self, items: &[Value], between: &str, out: &mut String) {
        for (index, item) in items.iter().enumerate() {
            if out.len() > MAX_TEXT {
                out.push('…');
                return;
            }
            if index > 0 {
                out.push_str(between);
            }
            self.write(item, out);
        }
    }

    /// Named processes by their name; others are not written out.
    fn write_process(&self, process: crate::process::ProcId, out: &mut String) {
        if (process.0 as usize) < self.processes.len()
            && let Process::Call(call) = self.processes.get(process)
            && let Some(name) = crate::process::Definitions::name(self, call)
        {
            out.push_str(&name);
            return;
        }
        out.push_str(match (process.0 as usize) < self.processes.len() {
            true => match self.processes.get(process) {
                Process::Stop => "STOP",
                Process::Skip => "SKIP",
                Process::Div => "DIV",
                _ => "<process>",
            },
            false => "<process>",
        });
    }

    /// Whole channels, or what they have with some of their fields, by their names; other events one by one.
    fn write_events(&self, events: &Runs, out: &mut String) {
        let mut channels = Vec::new();
        let mut others = Vec::new();
        let runs = events.runs();
        for (first, count) in runs.flat_map(|run| self.numbering.split(run.0, run.1)) {
            match self.numbering.beginning(first, count) {
                Some(channel) => channels.push(channel),
                _ if others.len() < MAX_TEXT => {
                    let events = (first.0..first.0 + count).take(MAX_TEXT);
                    others.extend(events.map(|event| self.numbering.value(EventId(event))));
                }
                _ => {}
            }
        }
        channels.sort();
        others.sort();
        let both = !channels.is_empty() && !others.is_empty();
        if both {
            out.push_str("union(");
        }
        if !channels.is_empty() {
            out.push_str("{|");
            self.write_list(&channels, ", ", out);
            out.push_str("|}");
        }
        if both {
            out.push_str(", ");
        }
        if channels.is_empty() || both {
            out.push('{');
            self.write_list(&others, ", ", out);
            out.push('}');
        }
        if both {
            out.push(')');
        }
    }

    fn write_set(&self, set: &Set, out: &mut String) {
        match set {
            Set::Explicit(elements) => {
                let range = match (elements.first(), elements.last()) {
                    (Some(Value::Int(low)), Some(Value::Int(high)))
                        if elements.len() > 8 && high - low + 1 == elements.len() as i64 =>
                    {
                        Some((low, high))
                    }
                    _ => None,
                };
                if let Some((low, high)) = range {
                    let _ = write!(out, "{{{low}..{high}}}");
                    return;
                }
                out.push('{');
                self.write_list(elements, ", ", out);
                out.push('}');
            }
            Set::Ints => out.push_str("Int"),
            Set::IntsFrom(low) => {
                let _ = write!(out, "{{{low}..}}");
            }
            Set::Chars => out.push_str("Char"),
            Set::Datatype(def) => out.push_str(self.resolved.name(*def)),
            Set::Processes => out.push_str("Proc"),
            Set::Events(EventSet::Only(members)) => self.write_events(members, out),
            Set::Events(EventSet::AllBut(missing)) if missing.is_empty() => out.push_str("Events"),
            Set::Events(EventSet::AllBut(missing)) => {
                out.push_str("diff(Events, ");
                self.write_events(missing, out);
                out.push(')');
            }
            Set::Dots(parts) => {
                // A channel with the first of its fields: the rest is what it declares.
                let fixed: Vec<&Value> = parts
                    .iter()
                    .map_while(|part| match &**part {
                        Set::Explicit(elements) if elements.len() == 1 => elements.first(),
                        _ => None,
                    })
                    .collect();
                if let Some(Value::Head(_)) = fixed.first() {
                    out.push_str("{|");
                    for (index, value) in fixed.iter().enumerate() {
                        if index > 0 {
                            out.push('.');
                        }
                        self.write(value, out);
                    }
                    out.push_str("|}");
                    return;
                }
                for (index, part) in parts.iter().enumerate() {
                    if index > 0 {
                        out.push('.');
                    }
                    self.write_set(part, out);
                }
            }
            Set::Tuples(parts) => {
                out.push('(');
                for (index, part) in parts.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    self.write_set(part, out);
                }
                out.push(')');
            }
            Set::Union(parts) => {
                let listed: Option<Vec<&[Value]>> = parts
                    .iter()
                    .map(|part| match &**part {
                        Set::Explicit(elements) => Some(elements.as_slice()),
                        _ => None,
                    })
                    .collect();
                if let Some(listed) = listed {
                    out.push('{');
                    self.write_list(&listed.concat(), ", ", out);
                    out.push('}');
                    return;
                }
                out.push_str("Union({");
                for (index, part) in parts.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    self.write_set(part, out);
                }
                out.push_str("})");
            }
            Set::Subsets(of) => {
                out.push_str("Set(");
                self.write_set(of, out);
                out.push(')');
            }
            Set::Seqs(of) => {
                out.push_str("Seq(");
                self.write_set(of, out);
                out.push(')');
            }
            Set::Maps(keys, values) => {
                out.push_str("Map(");
                self.write_set(keys, out);
                out.push_str(", ");
                self.write_set(values, out);
                out.push(')');
            }
        }
    }
}
