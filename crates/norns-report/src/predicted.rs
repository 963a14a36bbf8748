//! From a witness to the finding that it predicts.
//!
//! What a place and a step are called here is what `norns check` and `norns predict` write in
//! their JSON. A place whose source is not known is given by its program counter; in a trace
//! that is a text, by its location and line.

use norns_model::{Bug, Witness};
use norns_trace::{EventIndex, Touch, TouchKind, Trace};

use crate::build::bug_events;
use crate::describe::{access_kind, bug_kind, describe, is_call, shown_frame};
use crate::finding::{Finding, Place, Status, WitnessStep};
use crate::object;

/// Of the steps that a person wants to see a finding lists the last ones: a program of a million
/// synchronisation operations would otherwise have findings of a hundred megabytes each.
const MOST_SHOWN: usize = 1_000;

/// Which steps of a witness a finding lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// Those that a person wants to see: no plain accesses, no calls.
    WithoutAccesses,
    /// All of the last ones; a witness of this length may have lost its beginning.
    All { longest: usize },
    /// None, for views that do not show them.
    None,
}

/// Makes findings of witnesses.
#[derive(Clone, Copy)]
pub struct Predicted<'t> {
    pub trace: &'t Trace,
    pub steps: Steps,
    /// If the trace is a text, the line of every event, from 0: an event is named by its line.
    pub lines: Option<&'t [u32]>,
}

impl Predicted<'_> {
    /// A finding without an id.
    pub fn finding(&self, witness: &Witness) -> Finding {
        Finding {
            id: String::new(),
            kind: bug_kind(self.trace, &witness.bug),
            status: Status::Predicted,
            places: self.places(&witness.bug),
            witness: (self.steps != Steps::None).then(|| self.steps(witness)),
            verdict: None,
            rule: None,
            region: None,
            known: false,
            object: object::of_bug(self.trace, &witness.bug),
            consequence: None,
            variants: Vec::new(),
        }
    }

    pub fn places(&self, bug: &Bug) -> Vec<Place> {
        let events = bug_events(self.trace, bug);
        events.iter().map(|&event| self.place(event)).collect()
    }

    pub fn place(&self, event: EventIndex) -> Place {
        let (file, line, function) = self.source(event);
        let what = &self.trace.events[event.index()];
        Place {
            file,
            line,
            function,
            thread: self.trace.thread(what.thread).name.clone(),
            access: access_kind(what.op),
        }
    }

    fn source(&self, event: EventIndex) -> (String, u32, String) {
        let pc = self.trace.place(self.trace.events[event.index()].place).pc;
        match (shown_frame(self.trace, event), self.lines) {
            (Some(frame), _) => (frame.file.clone(), frame.line, frame.function.clone()),
            (None, Some(lines)) => (
                format!("location {}", pc as i64),
                lines[event.index()] + 1,
                String::new(),
            ),
            (None, None) => (format!("{pc:#x}"), 0, String::new()),
        }
    }

    pub fn steps(&self, witness: &Witness) -> Vec<WitnessStep> {
        let longest = match self.steps {
            Steps::All { longest } => longest,
            Steps::WithoutAccesses => MOST_SHOWN,
            Steps::None => 0,
        };
        let shown = witness.schedule.iter().rev();
        let mut shown = shown.filter(|&&event| self.is_shown(event));
        let mut steps: Vec<WitnessStep> = { shown.by_ref() }
            .take(longest)
            .map(|&event| self.step(event))
            .collect();
        // A schedule of this length may have lost its beginning before.
        let is_cut = match self.steps {
            Steps::All { longest } => witness.schedule.len() >= longest,
            Steps::WithoutAccesses | Steps::None => shown.next().is_some(),
        };
        steps.extend(is_cut.then(|| WitnessStep {
            thread: String::new(),
            op: "the steps before these are left out".to_string(),
            file: String::new(),
            line: 0,
        }));
        steps.reverse();
        steps
    }

    fn is_shown(&self, event: EventIndex) -> bool {
        let op = self.trace.events[event.index()].op;
        let is_plain = Touch::of(op).is_some_and(|touch| touch.kind == TouchKind::Plain);
        self.steps != Steps::WithoutAccesses || !(is_plain || is_call(op))
    }

    fn step(&self, event: EventIndex) -> WitnessStep {
        let (file, line, _) = self.source(event);
        let thread = self.trace.events[event.index()].thread;
        WitnessStep {
            thread: self.trace.thread(thread).name.clone(),
            op: describe(self.trace, event).what,
            file,
            line,
        }
    }
}
