//! From a trace, a witness and a finding to a sketch.
//!
//! Which steps matter is a heuristic: the operations of the bug, the locks held there and in a
//! deadlock's cycle, the creation of the threads, and the nearest synchronisation of each thread
//! before and after its operation. Everything else is folded and counted. One pass over the
//! trace; the rest costs as much as what is shown.

mod edges;
mod failure;
mod names;
mod operation;
mod panels;
mod visible;

use norns_model::{Bug, Witness};
use norns_trace::{EventIndex, Op, SourcePlace, ThreadId, Trace};

pub use self::failure::{Said, Shown, sketch_of_failure};
use self::names::Names;
use self::operation::{operation, snippet};
use self::panels::View;
use crate::describe::{access_kind, bug_kind, is_call, is_own, is_runtime, shown_frame};
use crate::finding::{AccessKind, Finding, Status, Verdict};
use crate::kind::{Kind, Party};
use crate::sketch::{FORMAT, Lane, Operation, Panel, Row, Sketch, grouped};

/// Reads a source file by the name that the debug information gives it.
pub type Sources<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Panics when the witness is not of this trace.
pub fn sketch(trace: &Trace, witness: &Witness, finding: &Finding, sources: Sources) -> Sketch {
    let bug = bug_events(trace, &witness.bug);
    let lanes = visible::lanes(trace, &bug);
    let mut histories: Vec<Vec<EventIndex>> = vec![Vec::new(); lanes.len()];
    for (index, event) in trace.events.iter().enumerate() {
        if is_call(event.op) {
            continue;
        }
        if let Some(lane) = lanes.iter().position(|&thread| thread == event.thread) {
            histories[lane].push(EventIndex::from_index(index));
        }
    }
    let visible = visible::steps(trace, &bug, &lanes, &histories);
    let names = Names::new(trace, visible.iter().copied(), sources);
    let view = View {
        names: &names,
        trace,
        bug: &bug,
        lanes: &lanes,
        visible: &visible,
        sources,
    };

    let (ran, can) = view.panels(witness, &histories);
    let operations: Vec<Operation> = bug
        .iter()
        .map(|&event| operation(trace, event, sources, &names))
        .collect();
    let kind = finding.kind.definition();
    let title = (kind.title)(&parties(trace, &bug, &operations));
    Sketch {
        format: FORMAT,
        id: finding.id.clone(),
        kind: finding.kind,
        status: finding.status,
        title: match finding.status {
            Status::Confirmed => title,
            Status::Predicted | Status::OrderedBySpinLoop => {
                format!("{}: {title}", finding.status.words())
            }
        },
        facts: facts(finding, &can),
        why: match &finding.region {
            Some(region) => format!(
                "{region} was probably meant to be one step. {}",
                (kind.why)(&operations)
            ),
            None => (kind.why)(&operations),
        },
        lanes: lanes
            .iter()
            .map(|&thread| Lane {
                thread: trace.thread(thread).name.clone(),
                function: thread_function(trace, thread),
            })
            .collect(),
        other_threads: trace.threads.len() - lanes.len(),
        ran,
        can,
        operations,
        object: finding.object.clone().unwrap_or_default(),
        consequence: None,
        variants: Vec::new(),
    }
}

/// A hang of the recorded run itself. The last events of the trace, `blocked` of them, are the
/// operations that never returned.
pub fn sketch_of_hang(
    trace: &Trace,
    blocked: usize,
    finding: &Finding,
    sources: Sources,
) -> Sketch {
    let events: Vec<EventIndex> = (0..trace.events.len())
        .map(EventIndex::from_index)
        .collect();
    let (done, blocked) = events.split_at(events.len() - blocked);
    let blocked = blocked.to_vec();
    let witness = Witness {
        schedule: done.to_vec(),
        bug: if finding.kind == Kind::Deadlock {
            Bug::LockDeadlock { blocked }
        } else {
            Bug::Stuck { blocked }
        },
    };
    let whole = sketch(trace, &witness, finding, sources);
    Sketch {
        facts: facts(finding, &empty(true)),
        ran: Panel {
            caption: "recorded run".into(),
            reordered: false,
            ..whole.can
        },
        can: empty(true),
        ..whole
    }
}

fn empty(reordered: bool) -> Panel {
    Panel {
        caption: String::new(),
        rows: Vec::new(),
        edges: Vec::new(),
        missing: None,
        steps: 0,
        reordered,
    }
}

/// What can be shown of a finding of which only the places are known.
pub fn sketch_of_places(finding: &Finding, sources: Sources) -> Sketch {
    let words = finding.kind.definition().words;
    let operations = finding.places.iter().map(|place| Operation {
        thread: place.thread.clone(),
        what: format!("is at this {words}"),
        file: place.file.clone(),
        line: place.line,
        function: place.function.clone(),
        stack: Vec::new(),
        locks_held: Vec::new(),
        origin: String::new(),
        snippet: snippet(sources(&place.file).as_deref(), place.line),
    });
    Sketch {
        format: FORMAT,
        id: finding.id.clone(),
        kind: finding.kind,
        status: finding.status,
        title: format!("{words} in the recorded run itself"),
        facts: facts(finding, &empty(true)),
        why: "It happened while recording: no other schedule was needed.".into(),
        lanes: Vec::new(),
        other_threads: 0,
        ran: empty(false),
        can: empty(true),
        operations: operations.collect(),
        object: finding.object.clone().unwrap_or_default(),
        consequence: None,
        variants: Vec::new(),
    }
}

/// The events of a bug in the order in which they are shown: what only reads last, then by
/// place, so that a finding reads the same whichever of its threads came first when it was
/// recorded.
pub fn bug_events(trace: &Trace, bug: &Bug) -> Vec<EventIndex> {
    let key = |index: &EventIndex| {
        let event = &trace.events[index.index()];
        let frame = shown_frame(trace, *index);
        let at = frame.map(|frame| (frame.file.clone(), frame.line, frame.function.clone()));
        let reads = access_kind(event.op) == AccessKind::Read;
        (reads, at, trace.thread(event.thread).name.clone())
    };
    let mut events = bug.events();
    let order = bug_kind(trace, bug).definition().order;
    order.arrange(&mut events, key);
    events
}

/// The operations with what each does.
fn parties<'a>(trace: &Trace, bug: &[EventIndex], operations: &'a [Operation]) -> Vec<Party<'a>> {
    let pairs = bug.iter().zip(operations);
    let parties = pairs.map(|(event, operation)| Party {
        operation,
        access: access_kind(trace.events[event.index()].op),
    });
    parties.collect()
}

/// The outermost function of the program itself in the thread's first place that has one; where
/// all is inside the system's headers, the outermost of those.
fn thread_function(trace: &Trace, thread: ThreadId) -> String {
    if trace.thread(thread).parent.is_none() {
        return String::new();
    }
    let outermost = |is_it: fn(&SourcePlace) -> bool| {
        let events = trace.events.iter();
        let own = events.filter(|event| event.thread == thread && event.op != Op::Start);
        let mut frames = own.filter_map(|event| {
            let frames = trace.place(event.place).frames.iter();
            frames.rev().find(|frame| is_it(frame))
        });
        frames.next().map(|frame| frame.function.clone())
    };
    outermost(is_own)
        .or_else(|| outermost(|frame| !is_runtime(frame)))
        .unwrap_or_default()
}

fn facts(finding: &Finding, can: &Panel) -> Vec<String> {
    let mut facts = vec![match (&finding.verdict, finding.status) {
        (Some(Verdict::Observed(how)), _) => format!("confirmed by the recorded run: {how}"),
        (Some(Verdict::NotUnderstood(why)), _) => {
            format!("predicted; nothing known orders it in the recorded run, but {why}")
        }
        (Some(Verdict::Confirmed(how)), _) => format!("confirmed by replay: {how}"),
        (Some(Verdict::Infeasible(why)), _) => {
            format!("predicted; a replay left the schedule: {why}")
        }
        (Some(Verdict::NoBug), _) => "predicted; a replay ran the schedule and saw no bug".into(),
        (Some(Verdict::TimedOut), _) => "predicted; a replay ran out of time".into(),
        (None, _) => "predicted; not replayed".into(),
    }];
    if can.rows.is_empty() {
        return facts;
    }
    let moved = can
        .rows
        .iter()
        .filter(|row| matches!(row, Row::Step(step) if step.moved))
        .count();
    let shown = can.rows.iter();
    let shown = shown.filter(|row| matches!(row, Row::Step(_))).count();
    let come = if moved == 1 { "comes" } else { "come" };
    facts.push(format!(
        "{shown} of {} steps shown, {moved} of them {come} earlier than recorded",
        grouped(can.steps)
    ));
    facts
}
