//! How a run failed, and whether two runs failed in the same way.
//!
//! What a run printed tells assertions, uncaught exceptions and reports of sanitizers apart; the event
//! that the runtime leaves in the trace says which thread failed and where. The same failure has the same
//! kind, words and place, and was reached through the same functions, as in section 4.4 of Kasikci
//! (2015). A hang has no failing statement: its places are those where the threads were last seen.

use std::collections::BTreeSet;
use std::path::Path;

use norns_replay::Ended;
use norns_trace::{Access, EventIndex, Op, ThreadId, Touch, TouchKind, Trace};
use norns_wire::environment::{FAILURE, Failing};
use serde::{Deserialize, Serialize};

use crate::facts::{OpenCalls, Statement};

/// So many functions of the stack are compared.
const STACK: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    Signal,
    Abort,
    Assertion,
    /// An exception that nobody caught, or another call of `std::terminate`.
    Terminate,
    /// A sanitizer has reported something.
    Sanitizer,
    /// A status that is not 0.
    Exit,
    Hang,
    /// It printed what counts as a failure.
    Output,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    /// What completes "the program": "was killed by SIGSEGV", "failed the assertion `n > 0`".
    pub what: String,
    /// Where; `None` if that is not known.
    pub place: Option<Statement>,
    /// The name of the thread; empty if that is not known.
    pub thread: String,
    /// The functions that were running, innermost first.
    pub stack: Vec<String>,
}

impl Failure {
    /// Whether it is the same failure: another thread may run the same code. What was printed often has numbers in
    /// it, and a thread that hangs in a loop is seen at one line of it or another.
    pub fn is_same(&self, other: &Failure) -> bool {
        let place = |failure: &Failure| {
            let place = failure.place.as_ref();
            place.map(|place| (place.file.clone(), place.function.clone(), place.line))
        };
        let (own, others) = (place(self), place(other));
        if self.kind != other.kind || self.stack != other.stack {
            return false;
        }
        match self.kind {
            FailureKind::Output => true,
            FailureKind::Hang => {
                let function = |(file, function, _)| (file, function);
                own.map(function) == others.map(function)
            }
            FailureKind::Signal
            | FailureKind::Abort
            | FailureKind::Assertion
            | FailureKind::Terminate
            | FailureKind::Sanitizer
            | FailureKind::Exit => self.what == other.what && own == others,
        }
    }
}

impl Failure {
    /// Whether it can be the failure of a core file, which does not tell why a program aborts.
    pub fn is_of_core(&self, core: &Failure) -> bool {
        let aborts = |failure: &Failure| {
            let kinds = [
                FailureKind::Abort,
                FailureKind::Assertion,
                FailureKind::Terminate,
            ];
            kinds.contains(&failure.kind)
        };
        let is_same_end = (aborts(self) && aborts(core)) || self.what == core.what;
        let is_same_place = match (&self.place, &core.place) {
            (Some(own), Some(other)) => {
                let (own_file, file) = (Path::new(&own.file), Path::new(&other.file));
                own.line == other.line && (own_file.ends_with(file) || file.ends_with(own_file))
            }
            (None, None) => true,
            _ => false,
        };
        is_same_end && is_same_place
    }
}

/// What a user counts as a failure, besides what always is one.
#[derive(Clone, Debug, Default)]
pub struct Signs {
    /// A status that is not 0.
    pub exit: bool,
    /// A text in a line of the output.
    pub output: Option<String>,
}

/// How a run failed; `None` if it did not.
pub fn of_run(ended: &Ended, output: &str, trace: &Trace, signs: &Signs) -> Option<Failure> {
    let (kind, what) = words(ended, output, signs)?;
    let noted = noted(trace, kind == FailureKind::Exit);
    let what = match &noted {
        Some((_, Some(condition))) if kind == FailureKind::Abort => {
            return Some(located(
                FailureKind::Assertion,
                format!("failed the assertion `{condition}`"),
                noted.as_ref().map(|(event, _)| *event),
                trace,
            ));
        }
        _ => what,
    };
    let mut failure = located(kind, what, event_of(kind, trace), trace);
    if kind == FailureKind::Sanitizer {
        failure.place = reported(output)
            .and_then(|(_, place)| place)
            .or(failure.place);
    }
    Some(failure)
}

fn words(ended: &Ended, output: &str, signs: &Signs) -> Option<(FailureKind, String)> {
    let printed = signs.output.as_ref().and_then(|text| {
        let line = output.lines().find(|line| line.contains(text))?;
        Some((FailureKind::Output, format!("printed `{}`", line.trim())))
    });
    let reported = reported(output).map(|(what, _)| (FailureKind::Sanitizer, what));
    match ended {
        Ended::Signalled(6) => Some(reported.or_else(|| terminated(output)).unwrap_or_else(|| {
            let what = match asserted(output) {
                Some(condition) => {
                    return (
                        FailureKind::Assertion,
                        format!("failed the assertion `{condition}`"),
                    );
                }
                None => "was aborted".into(),
            };
            (FailureKind::Abort, what)
        })),
        Ended::Signalled(signal) => {
            let what = format!("was killed by {}", signal_name(*signal));
            Some(reported.unwrap_or((FailureKind::Signal, what)))
        }
        Ended::Hung => Some((FailureKind::Hang, "hung".into())),
        Ended::TimedOut => Some((FailureKind::Hang, "did not end in time".into())),
        Ended::Exited(status) => reported.filter(|_| *status != 0).or(printed).or_else(|| {
            let failed = signs.exit && *status != 0;
            failed.then(|| (FailureKind::Exit, format!("exited with status {status}")))
        }),
        Ended::OutOfMemory | Ended::Interrupted | Ended::Stopped | Ended::Killed => printed,
    }
}

/// What a sanitizer has reported, and where: in the line that sums it up, or, as gcc's runtime for undefined behaviour
/// has none, in its only line.
fn reported(output: &str) -> Option<(String, Option<Statement>)> {
    let summary = |line: &str| {
        let (sanitizer, rest) = line.strip_prefix("SUMMARY: ")?.split_once(": ")?;
        if !sanitizer.ends_with("Sanitizer") {
            return None;
        }
        let (what, at) = rest.split_once(' ').unwrap_or((rest, ""));
        let (at, function) = at.split_once(" in ").unwrap_or((at, ""));
        let function = function.trim();
        Some((
            format!("was stopped by {sanitizer}: {what}"),
            position(at, function),
        ))
    };
    let of_undefined = |line: &str| {
        let (at, what) = line.split_once(": runtime error: ")?;
        let what = what.split(':').next().unwrap_or_default();
        let what = format!("was stopped by UndefinedBehaviorSanitizer: {what}");
        Some((what, position(at, "")))
    };
    let summed_up = output.lines().find_map(summary);
    summed_up.or_else(|| output.lines().find_map(of_undefined))
}

/// `FILE:LINE` or `FILE:LINE:COLUMN`.
fn position(text: &str, function: &str) -> Option<Statement> {
    let parts: Vec<&str> = text.split(':').collect();
    let (line, file) = match parts[..] {
        [ref file @ .., line, column]
            if column.parse::<u32>().is_ok() && line.parse::<u32>().is_ok() =>
        {
            (line, file.join(":"))
        }
        [ref file @ .., line] => (line, file.join(":")),
        [] => return None,
    };
    Some(Statement {
        pc: 0,
        file,
        line: line.parse().ok().filter(|&line| line > 0)?,
        function: function.into(),
    })
}

/// The condition in the C library's message about a failed assertion.
fn asserted(output: &str) -> Option<&str> {
    output.lines().find_map(|line| {
        let (_, after) = line.split_once("Assertion `")?;
        after.strip_suffix("' failed.")
    })
}

/// The C++ library's message about an exception that nobody caught.
fn terminated(output: &str) -> Option<(FailureKind, String)> {
    let line = output
        .lines()
        .find(|line| line.starts_with("terminate called"))?;
    let thrown = line.split('\'').nth(1);
    let what = match thrown {
        Some(thrown) => format!("did not catch `{thrown}`"),
        None => "called std::terminate".into(),
    };
    Some((FailureKind::Terminate, what))
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    name.into()
}

/// The event of the failure, and the condition of an assertion. A call of `exit` is one if the status is.
fn noted(trace: &Trace, by_exit: bool) -> Option<(EventIndex, Option<String>)> {
    let mut events = trace.events.iter().enumerate().rev();
    events.find_map(|(index, event)| {
        let Op::Custom(custom) = event.op else {
            return None;
        };
        let custom = &trace.customs[custom as usize];
        let how = custom.fields.first().map(String::as_str);
        let is_exit = how == Some(Failing::Exit.word());
        if custom.name != FAILURE || is_exit != by_exit {
            return None;
        }
        let is_assertion = how == Some(Failing::Assertion.word());
        let condition = custom.fields.get(1).filter(|_| is_assertion).cloned();
        Some((EventIndex::from_index(index), condition))
    })
}

/// The event at which a run has failed in this way.
pub fn event_of(kind: FailureKind, trace: &Trace) -> Option<EventIndex> {
    let noted = noted(trace, kind == FailureKind::Exit).map(|(event, _)| event);
    match kind {
        FailureKind::Output => None,
        FailureKind::Hang => last_of_the_waiting(trace),
        FailureKind::Exit => noted.or_else(|| end_of_main(trace)),
        FailureKind::Abort => noted.or_else(|| freed_twice(trace)),
        FailureKind::Signal
        | FailureKind::Assertion
        | FailureKind::Terminate
        | FailureKind::Sanitizer => noted,
    }
}

/// The last event that frees a block which is free. The C library finds that late: when the thread ends, for example.
fn freed_twice(trace: &Trace) -> Option<EventIndex> {
    let mut freed = BTreeSet::new();
    let mut last = None;
    for (index, event) in trace.events.iter().enumerate() {
        let Some(touch) = Touch::of(event.op) else {
            continue;
        };
        let Access { address, size } = touch.access;
        if touch.kind == TouchKind::Allocate {
            let reused = freed.range(address..address.saturating_add(u64::from(size)));
            for block in reused.copied().collect::<Vec<u64>>() {
                freed.remove(&block);
            }
        } else if touch.kind == TouchKind::Free && !freed.insert(address) {
            last = Some(EventIndex::from_index(index));
        }
    }
    last
}

/// The last event of `main` in code with lines. If nobody has called `exit`, the status is what it has returned.
fn end_of_main(trace: &Trace) -> Option<EventIndex> {
    let main = ThreadId::from_index(0);
    let last = trace.events.iter().rposition(|event| {
        event.thread == main && event.op != Op::Leave && Statement::of(trace, event.place).line > 0
    });
    last.map(EventIndex::from_index)
}

/// The last event of a thread that has not ended, of the smallest such thread but main.
fn last_of_the_waiting(trace: &Trace) -> Option<EventIndex> {
    let mut last: Vec<Option<EventIndex>> = vec![None; trace.threads.len()];
    for (index, event) in trace.events.iter().enumerate() {
        last[event.thread.index()] = match event.op == Op::End {
            true => None,
            false => Some(EventIndex::from_index(index)),
        };
    }
    let main = last.first().copied().flatten();
    let others = last.into_iter().skip(1).flatten();
    others
        .min_by_key(|event| trace.events[event.index()].thread)
        .or(main)
}

fn located(kind: FailureKind, what: String, event: Option<EventIndex>, trace: &Trace) -> Failure {
    let thread = event.map(|event| trace.events[event.index()].thread);
    let place = event.and_then(|event| own_place(trace, event));
    Failure {
        kind,
        what,
        place,
        thread: thread.map_or(String::new(), |thread| trace.thread(thread).name.clone()),
        stack: match (event, thread) {
            (Some(event), Some(thread)) => stack(trace, thread, event),
            _ => Vec::new(),
        },
    }
}

/// The place of an event, or of the last event of its thread before that is in the program's own code:
/// a library that aborts was called from there.
pub fn own_place(trace: &Trace, event: EventIndex) -> Option<Statement> {
    let thread = trace.events[event.index()].thread;
    let events = trace.events[..=event.index()].iter().rev();
    let places = events.filter(|event| event.thread == thread);
    places
        .map(|event| Statement::of(trace, event.place))
        .find(|statement| statement.line > 0)
}

/// The functions whose calls are open, innermost first.
fn stack(trace: &Trace, thread: ThreadId, until: EventIndex) -> Vec<String> {
    let mut open = OpenCalls::new(trace);
    for event in &trace.events[..until.index()] {
        open.add(event);
    }
    let calls = open.of(thread).iter().rev().take(STACK);
    calls
        .map(|&place| Statement::of(trace, place).function)
        .filter(|function| !function.is_empty())
        .collect()
}
