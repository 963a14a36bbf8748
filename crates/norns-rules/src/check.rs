//! Looking for an order of events that a property does not allow.
//!
//! The model of a trace and the property are one CSPM script; a counterexample of an assertion is a
//! path through the model, so every step of it is the next step of one thread, and the steps give the
//! schedule. The optimistic meaning is used: a replay finds out whether the program can follow. `layers` says
//! which traces are looked at: the run, or slices of it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use norns_csp::check::Options;
use norns_csp::counterexample::{Counterexample, Violation};
use norns_csp::event::Events;
use norns_csp::script::{Answer, Script};
use norns_model::cspm::{Checks, Cspm, cspm, cspm_of_run, custom_event};
use norns_model::{Bug, Meaning, Model, Readiness, State};
use norns_trace::effect::OnLock;
use norns_trace::trace::Custom;
use norns_trace::{Effect, EventIndex, Op, ThreadId, Trace};

use crate::property::{Property, PropertyError};
use crate::words::{Pair, field_of_each};

/// What the check of one property may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub time: Duration,
    pub memory_bytes: u64,
}

/// What became of all assertions of a property.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    pub broken: Vec<Broken>,
    pub undecided: Vec<Undecided>,
    /// Rules whose specification allows no event at all, although it is not written as `STOP`.
    pub allow_nothing: Vec<String>,
}

/// An assertion that was not decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecided {
    /// Its number in the property, from 0.
    pub assertion: usize,
    /// The rule as the user wrote it.
    pub rule: String,
    /// With what was looked at.
    pub reason: String,
    /// Orders of custom events that break the rule, for which no schedule was found.
    pub orders: Vec<Vec<EventIndex>>,
}

/// An assertion that some schedule breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its number in the property, from 0.
    pub assertion: usize,
    /// The rule as the user wrote it.
    pub rule: String,
    /// What is wrong at the end, in a sentence.
    pub reason: String,
    /// Every event up to the one that breaks the rule.
    pub schedule: Vec<EventIndex>,
    /// The custom events of the schedule, in its order; the last one breaks the rule, unless `deadlock` does.
    pub events: Vec<EventIndex>,
    /// The rule is broken because nothing can happen after the schedule: the threads are blocked.
    pub deadlock: Option<Bug>,
}

/// A rule that is broken after many events is shown with the last ones.
const SHOWN: usize = 4;

impl Broken {
    /// The events that a person needs to see: the last ones, of the object that the rule speaks of; of `never A then
    /// B` the last A and the B.
    pub fn shown(&self, trace: &Trace) -> Vec<EventIndex> {
        let custom = |event: EventIndex| {
            let op = trace.events[event.index()].op;
            let Op::Custom(custom) = op else {
                panic!("{op:?} is no custom event");
            };
            &trace.customs[custom as usize]
        };
        let Some(&last) = self.events.last() else {
            return Vec::new();
        };
        let object = |event| custom(event).fields.get(field_of_each(&self.rule)?);
        let of_object = |event: &&EventIndex| object(**event) == object(last);
        let mut shown: Vec<EventIndex> = self.events.iter().filter(of_object).copied().collect();
        if let Some(Pair::Never(first, _)) = Pair::of(&self.rule)
            && let [earlier @ .., _] = &shown[..]
            && let Some(&first) = { earlier.iter() }.rfind(|event| custom(**event).name == first)
        {
            shown = vec![first, last];
        }
        shown.drain(..shown.len().saturating_sub(SHOWN));
        shown
    }
}

/// What became of one assertion on a part of a run.
pub(crate) enum Verdict {
    Holds,
    Broken {
        reason: String,
        /// Events of the part.
        schedule: Vec<EventIndex>,
        deadlock: Option<Bug>,
        /// The specification allows nothing at its beginning.
        allows_nothing: bool,
    },
    Undecided(String),
}

/// A custom event of a run as it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The name of the thread, such as `T0.1`.
    pub thread: String,
    pub name: String,
    pub fields: Vec<String>,
}

impl Property {
    /// The assertions of the property on a trace, which is a run or a slice of one. `wanted` are their numbers; each
    /// may use `limits`.
    pub(crate) fn check_part(
        &self,
        trace: &Trace,
        wanted: &[usize],
        limits: Limits,
    ) -> Result<Vec<Verdict>, PropertyError> {
        let model = Model::new(trace, Meaning::Optimistic);
        let checks = Checks {
            deadlock: false,
            race: false,
            events: true,
        };
        let model_text = cspm(&model, checks);
        let mut values: BTreeMap<(&str, usize), BTreeSet<&str>> = BTreeMap::new();
        for event in &trace.events {
            if let Op::Custom(custom) = event.op {
                note_values(&mut values, &trace.customs[custom as usize]);
            }
        }
        let mut script = self.script(&model_text.text, &values)?;
        let mut verdicts = Vec::new();
        for &assertion in wanted {
            verdicts.push(match verdict(&mut script, assertion, limits)? {
                Answer::Holds => Verdict::Holds,
                Answer::Undecided(reason) => Verdict::Undecided(reason),
                Answer::Fails(counterexample) => {
                    let events = &script.processes.events;
                    let broken = counterexample.and_then(|counterexample| {
                        let schedule = schedule(&model, &model_text, &counterexample, events)?;
                        let is_end = match &counterexample.violation {
                            Violation::Deadlock => true,
                            Violation::Refusal { offered, .. } => offered.is_empty(),
                            Violation::Event { .. }
                            | Violation::Divergence { .. }
                            | Violation::Nondeterminism { .. }
                            | Violation::NoTrace { .. }
                            | Violation::MayRefuse { .. } => false,
                        };
                        let first = counterexample.allowed.first();
                        let allows_nothing = first.is_some_and(Vec::is_empty);
                        Some(Verdict::Broken {
                            allows_nothing,
                            reason: counterexample.reason(events),
                            deadlock: is_end.then(|| deadlock(&model, &schedule)).flatten(),
                            schedule,
                        })
                    });
                    let reason = "it fails without a schedule that shows it";
                    broken.unwrap_or(Verdict::Undecided(reason.into()))
                }
            });
        }
        Ok(verdicts)
    }

    /// What all assertions say, as the user wrote them.
    pub(crate) fn rules(&self) -> Result<Vec<String>, PropertyError> {
        let script = self.script(&cspm_of_run(&Trace::default(), &[]), &BTreeMap::new())?;
        let rules = script.assertions.iter().enumerate();
        Ok(rules
            .map(|(i, assertion)| self.says(i, &assertion.text))
            .collect())
    }

    /// Whether the events of one run, in the order in which they happened, break an assertion: the reason
    /// if they do. Only what the traces model sees can be broken by one run.
    pub fn is_broken_by(
        &self,
        trace: &Trace,
        assertion: usize,
        run: &[Observed],
        limits: Limits,
    ) -> Result<Option<String>, PropertyError> {
        let number = |name: &str| {
            let threads = trace.threads.iter();
            let mut named = threads
                .enumerate()
                .filter(|(_, thread)| thread.name == name);
            named.next().map(|(number, _)| number)
        };
        let mut names = Vec::new();
        let mut values: BTreeMap<(&str, usize), BTreeSet<&str>> = BTreeMap::new();
        let known = run.iter().filter(|event| self.has_event(&event.name));
        for event in known {
            // A thread that the recording did not have ends what can be compared.
            let Some(thread) = number(&event.thread) else {
                break;
            };
            names.push(custom_event(&event.name, thread, &event.fields));
            for (i, field) in event.fields.iter().enumerate() {
                values
                    .entry((&event.name, i + 1))
                    .or_default()
                    .insert(field);
            }
        }
        // Of the trace only the threads matter here.
        let threads = Trace {
            threads: trace.threads.clone(),
            ..Trace::default()
        };
        let mut script = self.script(&cspm_of_run(&threads, &names), &values)?;
        if !script.assertions[assertion].text.contains("[T=") {
            return Ok(None);
        }
        Ok(match verdict(&mut script, assertion, limits)? {
            Answer::Fails(Some(counterexample)) => {
                Some(counterexample.reason(&script.processes.events))
            }
            Answer::Fails(None) | Answer::Holds | Answer::Undecided(_) => None,
        })
    }

    /// The number of the assertion that a rule is.
    pub fn assertion(&self, rule: &str) -> Result<Option<usize>, PropertyError> {
        Ok(self.rules()?.iter().position(|other| other == rule))
    }

    /// The trace without what no rule can speak of: accesses and custom events of others.
    pub(crate) fn without_others(&self, whole: &Trace) -> Trace {
        let mut trace = whole.clone();
        for event in &mut trace.events {
            if let Op::Custom(custom) = event.op
                && !self.has_event(&trace.customs[custom as usize].name)
            {
                event.op = Op::Enter;
            }
        }
        trace
    }
}

fn verdict(script: &mut Script, assertion: usize, limits: Limits) -> Result<Answer, PropertyError> {
    let options = Options {
        threads: 1,
        budget: norns_csp::Budget {
            time: Some(limits.time),
            bytes: Some(limits.memory_bytes),
            ..norns_csp::Budget::default()
        },
        ..Options::default()
    };
    let answer = script.check(assertion, &options, &mut |_| {});
    let (answer, _) = answer.map_err(|error| PropertyError::Script(error.render()))?;
    Ok(answer)
}

fn note_values<'a>(values: &mut BTreeMap<(&'a str, usize), BTreeSet<&'a str>>, custom: &'a Custom) {
    for (i, field) in custom.fields.iter().enumerate() {
        values
            .entry((&custom.name, i + 1))
            .or_default()
            .insert(field);
    }
}

/// The events of the trace that a counterexample does. `None` if a step belongs to no thread's next step.
fn schedule(
    model: &Model,
    cspm: &Cspm,
    counterexample: &Counterexample,
    events: &Events,
) -> Option<Vec<EventIndex>> {
    let mut next_step = vec![0; cspm.steps.len()];
    let mut next_event = vec![0; cspm.steps.len()];
    let mut schedule = Vec::new();
    let mut names: Vec<Vec<Cow<str>>> = Vec::new();
    for step in &counterexample.steps {
        let parts = step.parts.iter().map(|&(_, event)| event);
        let inside = step.inside.iter().map(|inside| inside.event);
        let mut of_step: Vec<Cow<str>> = Vec::new();
        for event in parts.chain(inside).chain([step.event]) {
            let name = events.name(event);
            if !of_step.contains(&name) {
                of_step.push(name);
            }
        }
        names.push(of_step);
    }
    // The event that breaks the rule is the last step in most engines' form; where it is not among the
    // steps, it is in the violation.
    if let Violation::Event { event, .. } = &counterexample.violation
        && counterexample
            .steps
            .last()
            .is_none_or(|step| step.event != *event)
    {
        names.push(vec![events.name(*event)]);
    }
    for name in names.into_iter().flatten() {
        let thread = name
            .split('.')
            .nth(1)
            .and_then(|field| field.parse::<usize>().ok());
        let Some(thread) = thread.filter(|&thread| thread < cspm.steps.len()) else {
            continue;
        };
        let steps = &cspm.steps[thread];
        // Marks keep direct orders. Their names have no thread, and they are no events of their own.
        while { steps.get(next_step[thread]) }.is_some_and(|(step, _)| is_mark(step)) {
            next_step[thread] += 1;
        }
        if steps
            .get(next_step[thread])
            .is_none_or(|(step, _)| !is_same(step, &name))
        {
            continue;
        }
        let event = steps[next_step[thread]].1;
        next_step[thread] += 1;
        let all = &model.threads[ThreadId(thread as u32).index()];
        let end = model.position_of(event) + 1;
        while next_event[thread] < end {
            schedule.push(all[next_event[thread]]);
            next_event[thread] += 1;
        }
    }
    Some(schedule).filter(|schedule| !schedule.is_empty())
}

/// What the threads wait for after a schedule: a cycle of locks, or whatever blocks them. `None` if one of them
/// can go on.
fn deadlock(model: &Model, schedule: &[EventIndex]) -> Option<Bug> {
    let mut state = State::initial(model);
    for &event in schedule {
        let mut steps = Vec::new();
        model.steps(&state, model.thread_of(event), &mut steps);
        model.take(&mut state, *steps.first()?);
    }
    let waits = |thread: ThreadId| match model.readiness(&state, thread) {
        Readiness::Blocked => model.next(&state, thread),
        Readiness::Ready | Readiness::Unborn | Readiness::Diverged | Readiness::Finished => None,
    };
    let blocked: Vec<EventIndex> = model.thread_ids().filter_map(waits).collect();
    // From one to the thread that holds what it waits for, until that is one of them again.
    let mut chain: Vec<EventIndex> = Vec::new();
    let mut next = blocked.iter().copied().find(|&event| {
        let acquires = matches!(
            model.op(event).effect(),
            Effect::Lock(_, OnLock::Acquire(_))
        );
        acquires && !model.holders_against(&state, event).is_empty()
    });
    while let Some(event) = next {
        if let Some(first) = chain.iter().position(|&other| other == event) {
            let blocked = chain.split_off(first);
            return Some(Bug::LockDeadlock { blocked });
        }
        chain.push(event);
        let holders = model.holders_against(&state, event);
        next = holders.into_iter().find_map(waits);
    }
    (!blocked.is_empty()).then_some(Bug::Stuck { blocked })
}

fn is_mark(step: &str) -> bool {
    let step = step.trim_start_matches('?');
    step.starts_with("mark.") || step.starts_with("marked.")
}

/// The engine prints a negative number without its brackets.
fn is_same(step: &str, name: &str) -> bool {
    step == name || step.replace(['(', ')'], "") == name.replace(['(', ')'], "")
}
