//! From a trace, a witness and a finding to a sketch.
//!
//! Which steps matter is a heuristic: the operations of the bug, the locks held there and in a
//! deadlock's cycle, the creation of the threads, and the nearest synchronisation of each thread
//! before and after its operation. Everything else is folded and counted. One pass over the
//! trace; the rest costs as much as what is shown.

use std::collections::{BTreeMap, BTreeSet};

use norns_model::{Bug, Witness};
use norns_trace::{Event, EventIndex, ObjectId, Op, SourcePlace, ThreadId, Trace};

use crate::describe::{
    describe, is_of_the_system, is_own, is_runtime, memory_name, object_name, origin, place_name,
    shown_frame,
};
use crate::expression::{self, Role};
use crate::finding::{Finding, Kind, Verdict};
use crate::sketch::{
    Edge, FORMAT, Fold, Frame, HeldLock, Lane, Operation, Panel, Row, Sketch, SourceLine, Step,
};

/// At most this many threads get a lane.
const MOST_LANES: usize = 8;
/// Synchronisation shown before and after each operation of the bug.
const CONTEXT_BEFORE: usize = 3;
const CONTEXT_AFTER: usize = 2;
/// Lines of source shown above and below an operation.
const SNIPPET_MARGIN: u32 = 3;
/// A source line is cut here, a stack here: a report stays small whatever the program holds.
const LONGEST_LINE: usize = 200;
const DEEPEST_STACK: usize = 64;

/// Reads a source file by the name that the debug information gives it.
pub type Sources<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Panics when the witness is not of this trace.
pub fn sketch(trace: &Trace, witness: &Witness, finding: &Finding, sources: Sources) -> Sketch {
    let bug = bug_events(trace, &witness.bug);
    let lanes = choose_lanes(trace, &bug);
    let mut histories: Vec<Vec<EventIndex>> = vec![Vec::new(); lanes.len()];
    for (index, event) in trace.events.iter().enumerate() {
        if matches!(event.op, Op::Enter | Op::Leave) {
            continue;
        }
        if let Some(lane) = lanes.iter().position(|&thread| thread == event.thread) {
            histories[lane].push(EventIndex::from_index(index));
        }
    }
    let visible = choose_visible(trace, &bug, &lanes, &histories);
    let view = View {
        trace,
        bug: &bug,
        lanes: &lanes,
        visible: &visible,
        sources,
    };

    let (ran, can) = view.panels(witness, &histories);
    let operations: Vec<Operation> = bug
        .iter()
        .map(|&event| operation(trace, event, sources))
        .collect();
    Sketch {
        format: FORMAT,
        id: finding.id.clone(),
        kind: finding.kind,
        status: finding.status,
        title: title(trace, finding.kind, &bug, sources),
        facts: facts(finding, &can),
        why: why(finding.kind, &operations),
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
        bug: match finding.kind {
            Kind::Deadlock => Bug::LockDeadlock { blocked },
            _ => Bug::Stuck { blocked },
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
    let words = finding.kind.code().words;
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
        let reads = matches!(event.op, Op::Read(_));
        (reads, at, trace.thread(event.thread).name.clone())
    };
    let mut events = match bug {
        Bug::Race { first, second } => vec![*first, *second],
        Bug::LockDeadlock { blocked } | Bug::Stuck { blocked } => blocked.clone(),
    };
    match bug {
        Bug::LockDeadlock { .. } => begin_with_smallest(&mut events, key),
        _ => events.sort_by_key(key),
    }
    events
}

/// Turns a cycle, which has no beginning of its own.
pub(crate) fn begin_with_smallest<T, K: Ord>(cycle: &mut [T], key: impl Fn(&T) -> K) {
    let smallest = (0..cycle.len()).min_by_key(|&i| key(&cycle[i]));
    cycle.rotate_left(smallest.unwrap_or(0));
}

/// The threads of the bug, then the threads that created them, in the order of their ids.
fn choose_lanes(trace: &Trace, bug: &[EventIndex]) -> Vec<ThreadId> {
    let mut lanes: Vec<ThreadId> = Vec::new();
    for &event in bug {
        let thread = trace.events[event.index()].thread;
        if !lanes.contains(&thread) && lanes.len() < MOST_LANES {
            lanes.push(thread);
        }
    }
    for thread in lanes.clone() {
        if let Some(parent) = trace.thread(thread).parent
            && !lanes.contains(&parent)
            && lanes.len() < MOST_LANES
        {
            lanes.push(parent);
        }
    }
    lanes.sort_unstable();
    lanes
}

fn choose_visible(
    trace: &Trace,
    bug: &[EventIndex],
    lanes: &[ThreadId],
    histories: &[Vec<EventIndex>],
) -> BTreeSet<EventIndex> {
    let mut visible: BTreeSet<EventIndex> = bug.iter().copied().collect();
    for history in histories {
        for &index in history {
            match trace.events[index.index()].op {
                Op::Fork(child) if lanes.contains(&child) => {
                    visible.insert(index);
                }
                Op::Start => {
                    visible.insert(index);
                }
                _ => {}
            }
        }
    }
    for &event in bug {
        let thread = trace.events[event.index()].thread;
        let Some(lane) = lanes.iter().position(|&lane| lane == thread) else {
            continue;
        };
        let history = &histories[lane];
        visible.extend(
            held_at(trace, history, event)
                .into_iter()
                .map(|(_, taken)| taken),
        );
        let at = history.partition_point(|&index| index < event);
        let is_sync = |index: &&EventIndex| is_synchronisation(&trace.events[index.index()]);
        visible.extend(
            history[..at]
                .iter()
                .rev()
                .filter(is_sync)
                .take(CONTEXT_BEFORE),
        );
        visible.extend(history[at + 1..].iter().filter(is_sync).take(CONTEXT_AFTER));
    }
    visible
}

fn is_synchronisation(event: &Event) -> bool {
    !matches!(
        event.op,
        Op::Read(_) | Op::Write(_) | Op::Allocate(_) | Op::Free(_) | Op::Enter | Op::Leave
    )
}

/// The locks that the thread of `history` holds just before `event`, outermost first, each with
/// its acquisition.
fn held_at(
    trace: &Trace,
    history: &[EventIndex],
    event: EventIndex,
) -> Vec<(ObjectId, EventIndex)> {
    let mut held: Vec<(ObjectId, EventIndex)> = Vec::new();
    for &index in history.iter().take_while(|&&index| index < event) {
        match trace.events[index.index()].op {
            Op::Lock(object) | Op::ReadLock(object) => held.push((object, index)),
            Op::Unlock(object) => {
                if let Some(at) = held.iter().rposition(|&(held, _)| held == object) {
                    held.remove(at);
                }
            }
            _ => {}
        }
    }
    held
}

struct View<'a> {
    trace: &'a Trace,
    bug: &'a [EventIndex],
    lanes: &'a [ThreadId],
    visible: &'a BTreeSet<EventIndex>,
    sources: Sources<'a>,
}

impl View<'_> {
    fn panels(&self, witness: &Witness, histories: &[Vec<EventIndex>]) -> (Panel, Panel) {
        let last_visible = self.visible.last().copied().unwrap_or(EventIndex(0));
        let mut observed: Vec<EventIndex> = histories
            .iter()
            .flatten()
            .copied()
            .filter(|&index| index <= last_visible)
            .collect();
        observed.sort_unstable();
        let possible: Vec<EventIndex> = witness
            .schedule
            .iter()
            .copied()
            .filter(|&index| self.lane(index).is_some() && !self.is_call(index))
            .chain(
                self.bug
                    .iter()
                    .copied()
                    .filter(|&index| self.lane(index).is_some()),
            )
            .collect();
        let moved = self.moved(&possible);

        let mut ran = self.panel(&observed, &moved, usize::MAX, "recorded run");
        let done = possible.len() - self.bug.len().min(possible.len());
        let mut can = self.panel(&possible, &moved, done, "witness");
        if let Bug::Race { first, second } = &witness.bug {
            for panel in [&mut ran, &mut can] {
                panel.missing = match (panel.row_of(first.0), panel.row_of(second.0)) {
                    (Some(a), Some(b)) => Some(Edge {
                        from: a.min(b),
                        to: a.max(b),
                    }),
                    _ => None,
                };
            }
        }
        (ran, can)
    }

    fn lane(&self, index: EventIndex) -> Option<usize> {
        let thread = self.trace.events[index.index()].thread;
        self.lanes.iter().position(|&lane| lane == thread)
    }

    fn is_call(&self, index: EventIndex) -> bool {
        matches!(self.trace.events[index.index()].op, Op::Enter | Op::Leave)
    }

    /// Visible steps that overtook another thread's visible step.
    fn moved(&self, possible: &[EventIndex]) -> BTreeSet<EventIndex> {
        let position: BTreeMap<EventIndex, usize> = possible
            .iter()
            .enumerate()
            .filter(|(_, index)| self.visible.contains(index))
            .map(|(at, &index)| (index, at))
            .collect();
        let overtook = |&later: &EventIndex| {
            self.visible.range(..later).any(|earlier| {
                self.lane(*earlier) != self.lane(later)
                    && position
                        .get(earlier)
                        .is_none_or(|&at| at > position[&later])
            })
        };
        position.keys().copied().filter(overtook).collect()
    }

    /// The rows of one schedule; the events from `done` on are those that the threads are stopped
    /// before.
    fn panel(
        &self,
        order: &[EventIndex],
        moved: &BTreeSet<EventIndex>,
        done: usize,
        caption: &str,
    ) -> Panel {
        let mut rows: Vec<Row> = Vec::new();
        let mut hidden: Vec<EventIndex> = Vec::new();
        let mut edges = EdgeFinder::default();
        for (at, &index) in order.iter().enumerate() {
            if !self.visible.contains(&index) {
                hidden.push(index);
                edges.pass(self.trace, index, None);
                continue;
            }
            self.fold(&mut hidden, &mut rows);
            edges.pass(self.trace, index, Some(rows.len()));
            let lane = self
                .lane(index)
                .expect("only events of lanes are in the order");
            let described = describe(self.trace, index);
            let what = with_expression(self.trace, index, self.sources, described.what);
            rows.push(Row::Step(Step {
                event: index.0,
                number: at + 1,
                lane,
                mark: described.mark,
                what,
                value: described.value,
                place: place_name(self.trace, index),
                moved: moved.contains(&index),
                operation: self
                    .bug
                    .iter()
                    .position(|&bug| bug == index)
                    .map_or(0, |at| at + 1),
                pending: at >= done,
            }));
        }
        self.fold(&mut hidden, &mut rows);
        Panel {
            caption: caption.into(),
            rows,
            edges: edges.found,
            missing: None,
            steps: order.len(),
            reordered: done != usize::MAX,
        }
    }

    fn fold(&self, hidden: &mut Vec<EventIndex>, rows: &mut Vec<Row>) {
        if hidden.is_empty() {
            return;
        }
        let mut folds = Vec::new();
        for lane in 0..self.lanes.len() {
            let mine: Vec<&Event> = hidden
                .iter()
                .filter(|&&index| self.lane(index) == Some(lane))
                .map(|index| &self.trace.events[index.index()])
                .collect();
            if mine.is_empty() {
                continue;
            }
            let synchronisation = mine
                .iter()
                .filter(|event| is_synchronisation(event))
                .count();
            let accesses = mine.len() - synchronisation;
            let what = match (synchronisation, accesses) {
                (0, _) => counted(accesses, "access", "accesses"),
                (_, 0) => counted(synchronisation, "sync step", "sync steps"),
                _ => format!(
                    "{synchronisation} sync, {}",
                    counted(accesses, "access", "accesses")
                ),
            };
            folds.push(Fold {
                lane,
                steps: mine.len(),
                what,
            });
        }
        hidden.clear();
        rows.push(Row::Folded(folds));
    }
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Finds synchronisation between threads in one schedule: who released what the next one takes.
#[derive(Default)]
struct EdgeFinder {
    /// The row (if visible) and the thread of the last release, by what was released.
    released: BTreeMap<Released, (Option<usize>, ThreadId)>,
    found: Vec<Edge>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Released {
    Thread(ThreadId),
    Ended(ThreadId),
    Object(ObjectId),
}

impl EdgeFinder {
    fn pass(&mut self, trace: &Trace, index: EventIndex, row: Option<usize>) {
        let event = &trace.events[index.index()];
        match event.op {
            Op::Fork(child) => self.release(Released::Thread(child), row, event.thread),
            Op::Start => self.take(Released::Thread(event.thread), row, event.thread),
            Op::End => self.release(Released::Ended(event.thread), row, event.thread),
            Op::Join(child) => self.take(Released::Ended(child), row, event.thread),
            Op::Unlock(o) | Op::Signal(o) | Op::Broadcast(o) | Op::SemPost(o) | Op::OnceEnd(o) => {
                self.release(Released::Object(o), row, event.thread);
            }
            Op::BarrierEnter(o) => self.release(Released::Object(o), row, event.thread),
            Op::Lock(o)
            | Op::ReadLock(o)
            | Op::Wait(o)
            | Op::SemWait(o)
            | Op::OncePass(o)
            | Op::BarrierExit(o) => self.take(Released::Object(o), row, event.thread),
            _ => {}
        }
    }

    fn release(&mut self, what: Released, row: Option<usize>, thread: ThreadId) {
        self.released.insert(what, (row, thread));
    }

    fn take(&mut self, what: Released, row: Option<usize>, thread: ThreadId) {
        if let (Some(to), Some(&(Some(from), releaser))) = (row, self.released.get(&what))
            && releaser != thread
        {
            self.found.push(Edge { from, to });
        }
    }
}

fn operation(trace: &Trace, index: EventIndex, sources: Sources) -> Operation {
    let event = &trace.events[index.index()];
    let history: Vec<EventIndex> = (0..index.index())
        .map(EventIndex::from_index)
        .filter(|other| trace.events[other.index()].thread == event.thread)
        .collect();
    let frame = shown_frame(trace, index).cloned().unwrap_or_default();
    let memory = match event.op {
        Op::Read(access) | Op::Write(access) | Op::Free(access) => Some(access),
        _ => None,
    };
    Operation {
        thread: trace.thread(event.thread).name.clone(),
        what: with_expression(trace, index, sources, doing(trace, index)),
        snippet: snippet(sources(&frame.file).as_deref(), frame.line),
        stack: stack(trace, &history, event),
        locks_held: held_at(trace, &history, index)
            .into_iter()
            .map(|(object, taken)| HeldLock {
                name: object_name(trace, object),
                taken_at: place_name(trace, taken),
            })
            .collect(),
        origin: memory
            .map(|access| origin(trace, access, index))
            .unwrap_or_default(),
        file: if frame.line == 0 && frame.file.is_empty() {
            place_name(trace, index)
        } else {
            frame.file
        },
        line: frame.line,
        function: frame.function,
    }
}

/// The text about an event with the source's own words for memory that has no name of its own.
fn with_expression(trace: &Trace, index: EventIndex, sources: Sources, text: String) -> String {
    let event = &trace.events[index.index()];
    let (access, role) = match event.op {
        Op::Read(access) => (access, Role::Read),
        Op::Write(access) => (access, Role::Write),
        Op::Free(access) => (access, Role::Call),
        _ => return text,
    };
    let whole = trace.symbol_at(access.address);
    if whole.is_some_and(|symbol| symbol.address == access.address) {
        return text;
    }
    let frame = trace.place(event.place).frames.first();
    let frame = frame.filter(|frame| !is_of_the_system(frame));
    let expression = frame.and_then(|frame| {
        let source = sources(&frame.file)?;
        let line = source.lines().nth(frame.line.checked_sub(1)? as usize)?;
        expression::at(line, frame.column, role)
    });
    match expression {
        Some(expression) => text.replace(&memory_name(trace, access), &expression),
        None => text,
    }
}

/// What the thread is about to do, as a verb in the third person.
fn doing(trace: &Trace, index: EventIndex) -> String {
    let event = &trace.events[index.index()];
    match event.op {
        Op::Read(access) => {
            format!(
                "reads {} bytes of `{}`",
                access.size,
                memory_name(trace, access)
            )
        }
        Op::Write(access) => {
            format!(
                "writes {} bytes of `{}`",
                access.size,
                memory_name(trace, access)
            )
        }
        Op::Free(access) => format!("frees `{}`", memory_name(trace, access)),
        Op::Lock(object) | Op::ReadLock(object) => {
            format!("waits for `{}`", object_name(trace, object))
        }
        Op::Join(child) => format!("waits for {} to end", trace.thread(child).name),
        _ => match event.op.object() {
            Some(object) => format!("waits at `{}`", object_name(trace, object)),
            None => format!("is before `{}`", describe(trace, index).what),
        },
    }
}

/// The frames of the event's own place, then its callers from the recorded calls.
fn stack(trace: &Trace, history: &[EventIndex], event: &Event) -> Vec<Frame> {
    let mut calls: Vec<&Event> = Vec::new();
    for &index in history {
        let call = &trace.events[index.index()];
        match call.op {
            Op::Enter => calls.push(call),
            Op::Leave => {
                calls.pop();
            }
            _ => {}
        }
    }
    let own = trace.place(event.place).frames.iter();
    let callers = calls
        .iter()
        .rev()
        .flat_map(|call| trace.place(call.place).frames.iter());
    own.chain(callers)
        .filter(|frame| !is_runtime(frame))
        .map(|frame| Frame {
            function: frame.function.clone(),
            file: frame.file.clone(),
            line: frame.line,
        })
        .take(DEEPEST_STACK)
        .collect()
}

fn snippet(source: Option<&str>, line: u32) -> Vec<SourceLine> {
    let Some(source) = source.filter(|_| line > 0) else {
        return Vec::new();
    };
    let first = line.saturating_sub(SNIPPET_MARGIN).max(1);
    source
        .lines()
        .zip(1..)
        .skip_while(|&(_, number)| number < first)
        .take_while(|&(_, number)| number <= line + SNIPPET_MARGIN)
        .map(|(text, number)| SourceLine {
            number,
            text: text.chars().take(LONGEST_LINE).collect(),
        })
        .collect()
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

fn title(trace: &Trace, kind: Kind, bug: &[EventIndex], sources: Sources) -> String {
    let doing = |index| with_expression(trace, index, sources, doing(trace, index));
    let event = |at: usize| &trace.events[bug[at].index()];
    let thread = |at: usize| trace.thread(event(at).thread).name.as_str();
    match (kind, bug) {
        (Kind::DataRace, [first, second]) => {
            format!(
                "data race: {} {} while {} {}",
                thread(0),
                doing(*first),
                thread(1),
                doing(*second)
            )
        }
        (Kind::UseAfterFree, [first, second]) => {
            let (user, freer, used) = match event(0).op {
                Op::Free(_) => (1, 0, *second),
                _ => (0, 1, *first),
            };
            format!(
                "use after free: {} {} after {} frees it",
                thread(user),
                doing(used),
                thread(freer)
            )
        }
        (Kind::DoubleFree, [first, _]) => {
            format!(
                "double free: {} and {} both {}",
                thread(0),
                thread(1),
                doing(*first).replacen("frees", "free", 1)
            )
        }
        _ => {
            let waits: Vec<String> = (0..bug.len().min(4))
                .map(|at| format!("{} {}", thread(at), doing(bug[at])))
                .collect();
            let word = if kind == Kind::Deadlock {
                "deadlock"
            } else {
                "waits for ever"
            };
            format!("{word}: {}", waits.join(", "))
        }
    }
}

fn facts(finding: &Finding, can: &Panel) -> Vec<String> {
    let mut facts = vec![match (&finding.verdict, finding.status) {
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
    let come = if moved == 1 { "comes" } else { "come" };
    facts.push(format!(
        "{} steps, {moved} of those shown {come} earlier than recorded",
        can.steps
    ));
    facts
}

fn why(kind: Kind, operations: &[Operation]) -> String {
    match kind {
        Kind::DataRace | Kind::UseAfterFree | Kind::DoubleFree => {
            let held: Vec<String> = operations.iter().map(holds).collect();
            format!(
                "{}. No common lock, join, signal or other synchronisation keeps (1) and (2) apart.",
                held.join("; ")
            )
        }
        Kind::Deadlock => {
            let held: Vec<String> = operations
                .iter()
                .map(|operation| format!("{} and {}", holds(operation), operation.what))
                .collect();
            format!(
                "{}. Each waits for what another one holds.",
                held.join("; ")
            )
        }
        Kind::Stuck => {
            let waits: Vec<String> = operations
                .iter()
                .map(|operation| format!("{} {}", operation.thread, operation.what))
                .collect();
            format!(
                "{}. No other thread is left that could end this.",
                waits.join("; ")
            )
        }
    }
}

fn holds(operation: &Operation) -> String {
    let names: Vec<String> = operation
        .locks_held
        .iter()
        .map(|lock| format!("`{}`", lock.name))
        .collect();
    match names.as_slice() {
        [] => format!("{} holds no lock", operation.thread),
        _ => format!("{} holds {}", operation.thread, names.join(", ")),
    }
}
