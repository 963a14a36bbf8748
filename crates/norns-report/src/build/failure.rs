//! The picture of a failure: a failing run beside a good one, with the steps that matter.

use std::collections::BTreeSet;

use norns_trace::{EventIndex, ThreadId, Trace};

use super::names::Names;
use super::operation::operation;
use super::panels::View;
use super::{Sources, empty, thread_function};
use crate::describe::is_call;
use crate::finding::Finding;
use crate::sketch::{FORMAT, Lane, Panel, Sketch};

/// A run, and what is shown of it.
pub struct Shown<'a> {
    /// The number of the run, from 1.
    pub number: u32,
    pub trace: &'a Trace,
    pub steps: Vec<EventIndex>,
    /// The steps of the predictor, numbered (1), (2), …
    pub marked: Vec<EventIndex>,
}

/// What is said of a failure besides its picture.
pub struct Said {
    pub title: String,
    pub facts: Vec<String>,
    pub why: String,
}

/// The sketch of a failure. The finding is the predictor's, or where the program failed.
pub fn sketch_of_failure(
    finding: &Finding,
    failing: &Shown,
    good: Option<&Shown>,
    said: Said,
    sources: Sources,
) -> Sketch {
    let mut names: Vec<String> = Vec::new();
    for shown in [Some(failing), good].into_iter().flatten() {
        let mut threads: Vec<ThreadId> =
            shown.steps.iter().map(|&step| shown.thread(step)).collect();
        threads.sort_unstable();
        for thread in threads {
            let name = &shown.trace.thread(thread).name;
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    let others = failing.trace.threads.len().saturating_sub(names.len());
    let lanes = names.iter().map(|name| {
        let threads = &failing.trace.threads;
        let known = threads.iter().position(|thread| thread.name == *name);
        let function = known.map(|at| thread_function(failing.trace, ThreadId::from_index(at)));
        Lane {
            thread: name.clone(),
            function: function.unwrap_or_default(),
        }
    });
    let visible = failing.steps.iter().copied();
    let words = Names::new(failing.trace, visible, sources);
    Sketch {
        format: FORMAT,
        id: finding.id.clone(),
        kind: finding.kind,
        status: finding.status,
        title: said.title,
        facts: said.facts,
        why: said.why,
        lanes: lanes.collect(),
        other_threads: others,
        ran: good.map_or(empty(false), |good| good.panel(&names, sources)),
        can: failing.panel(&names, sources),
        operations: { failing.marked.iter() }
            .map(|&event| operation(failing.trace, event, sources, &words))
            .collect(),
        object: finding.object.clone().unwrap_or_default(),
        consequence: None,
        variants: Vec::new(),
    }
}

impl Shown<'_> {
    fn thread(&self, event: EventIndex) -> ThreadId {
        self.trace.events[event.index()].thread
    }

    /// The rows of the run, with a lane for each of these threads.
    fn panel(&self, names: &[String], sources: Sources) -> Panel {
        let threads = &self.trace.threads;
        let lanes: Vec<ThreadId> = names
            .iter()
            .map(|name| {
                // A thread that this run does not have has no events either.
                let known = threads.iter().position(|thread| thread.name == *name);
                known.map_or(ThreadId(u32::MAX), ThreadId::from_index)
            })
            .collect();
        let visible: BTreeSet<EventIndex> = self.steps.iter().copied().collect();
        let last = visible.last().map_or(0, |last| last.index() + 1);
        let order: Vec<EventIndex> = (0..last)
            .map(EventIndex::from_index)
            .filter(|&index| {
                let event = self.trace.events[index.index()];
                lanes.contains(&event.thread) && !is_call(event.op)
            })
            .collect();
        let view = View {
            trace: self.trace,
            bug: &self.marked,
            lanes: &lanes,
            visible: &visible,
            sources,
            names: &Names::new(self.trace, visible.iter().copied(), sources),
        };
        view.panel(
            &order,
            &BTreeSet::new(),
            usize::MAX,
            &format!("run {}", self.number),
        )
    }
}
