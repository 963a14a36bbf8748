//! Which parts of a run a property is checked on, one layer after the other, until one decides:
//!
//! 1. the whole run, if it is short or the property speaks of synchronisation itself;
//! 2. the slice of all events of the property. What holds there holds;
//! 3. the slices of the events with one value in a field each. A rule that speaks of every value of that field
//!    apart is decided by them, so there they come first; for other rules they only find;
//! 4. windows: the events before a window happen as in the run, those in it in any order, later ones not at all. They
//!    only find.
//!
//! Of the events of `never A then B` and `always A before B` only those of each thread are kept that decide
//! (`deciding`).
//!
//! A schedule of a slice counts when `realise` finds one of the whole run with the same order of events, and
//! when that order breaks the assertion. Orders for which it finds none are kept: the program itself may know how
//! to follow them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use norns_model::{Meaning, Model};
use norns_trace::{EventIndex, Op, Trace};

use crate::check::{Broken, Checked, Limits, Observed, Undecided, Verdict};
use crate::property::{Property, PropertyError};
use crate::slice::{Slicer, realise};
use crate::words::{Pair, field_of_each};

/// The most synchronisation and custom events of a run that is checked as a whole.
const SHORT: usize = 3000;
/// How many events a window has, and how far the next one is.
const WINDOW: usize = 16;
const STRIDE: usize = 8;
/// How many orders without a schedule are kept.
const MOST_ORDERS: usize = 12;
/// What one layer may take of the time that is left.
const SHARE: u32 = 3;

struct Layers<'a> {
    property: &'a Property,
    slicer: Slicer<'a>,
    /// All events that the property speaks of.
    events: Vec<EventIndex>,
    memory_bytes: u64,
    end: Instant,
}

/// What a layer found out about an assertion.
enum Found {
    Holds,
    Broken(Broken),
    Open(Open),
}

/// Why a layer found nothing out.
#[derive(Default)]
struct Open {
    reason: String,
    /// Wrong orders that slices allow, for which no schedule of the whole run was found.
    orders: Vec<Vec<EventIndex>>,
}

impl Open {
    fn because(reason: impl Into<String>) -> Found {
        Found::Open(Open {
            reason: reason.into(),
            orders: Vec::new(),
        })
    }

    /// Takes over the orders of another layer that are not known yet.
    fn take_orders(&mut self, other: Open) {
        for order in other.orders {
            if self.orders.len() < MOST_ORDERS && !self.orders.contains(&order) {
                self.orders.push(order);
            }
        }
    }
}

impl Found {
    /// Why the next layer is needed; otherwise what was found.
    fn why_open(self) -> ControlFlow<Found, Open> {
        match self {
            Found::Holds | Found::Broken(_) => ControlFlow::Break(self),
            Found::Open(open) => ControlFlow::Continue(open),
        }
    }
}

impl Property {
    /// Looks for schedules of the trace that break the property.
    pub fn check(&self, trace: &Trace, limits: Limits) -> Result<Checked, PropertyError> {
        let trace = &self.without_others(trace);
        let begin = Instant::now();
        let rules = self.rules()?;
        let is_step = |op: Op| op.kind().turn == norns_trace::operation::Turn::Scheduled;
        let steps = trace
            .events
            .iter()
            .filter(|event| is_step(event.op))
            .count();
        let mut checked = Checked::default();
        let mut open: BTreeMap<usize, Undecided> = BTreeMap::new();
        let undecided = |assertion: usize, reason: String| Undecided {
            assertion,
            rule: rules[assertion].clone(),
            reason,
            orders: Vec::new(),
        };
        if steps <= SHORT || self.speaks_of_synchronisation() {
            let wanted: Vec<usize> = (0..rules.len()).collect();
            let verdicts = self.check_part(trace, &wanted, limits.part(1, SHARE))?;
            for (assertion, verdict) in verdicts.into_iter().enumerate() {
                match verdict {
                    Verdict::Holds => {}
                    Verdict::Broken {
                        reason,
                        schedule,
                        deadlock,
                        allows_nothing,
                    } => {
                        let rule = rules[assertion].clone();
                        let specification = rule.trim_start_matches("assert").trim_start();
                        if allows_nothing && !specification.starts_with("STOP ") {
                            checked.allow_nothing.push(rule.clone());
                        }
                        checked.broken.push(Broken {
                            deadlock,
                            ..broken(trace, assertion, rule, reason, schedule)
                        });
                    }
                    Verdict::Undecided(reason) => {
                        open.insert(assertion, undecided(assertion, reason));
                    }
                }
            }
        } else {
            let reason = |assertion| {
                let reason = format!("the run has {steps} steps");
                (assertion, undecided(assertion, reason))
            };
            open.extend((0..rules.len()).map(reason));
        }
        if !open.is_empty() && !self.speaks_of_synchronisation() {
            let model = Model::new(trace, Meaning::Optimistic);
            let is_custom = |&i: &usize| matches!(trace.events[i].op, Op::Custom(_));
            let events = (0..trace.events.len()).filter(is_custom);
            let layers = Layers {
                property: self,
                slicer: Slicer::new(&model),
                events: events.map(EventIndex::from_index).collect(),
                memory_bytes: limits.memory_bytes,
                end: begin + limits.time,
            };
            for (assertion, mut undecided) in std::mem::take(&mut open) {
                match layers.check(assertion, &rules[assertion])?.why_open() {
                    ControlFlow::Continue(Open { reason, orders }) => {
                        undecided.reason = format!("{}; {reason}", undecided.reason);
                        undecided.orders = orders;
                        open.insert(assertion, undecided);
                    }
                    ControlFlow::Break(Found::Broken(broken)) => checked.broken.push(broken),
                    ControlFlow::Break(Found::Holds | Found::Open(_)) => {}
                }
            }
        }
        checked.broken.sort_by_key(|broken| broken.assertion);
        checked.undecided = open.into_values().collect();
        Ok(checked)
    }
}

impl Limits {
    /// A share of the time.
    fn part(self, share: u32, of: u32) -> Limits {
        Limits {
            time: self.time * share / of,
            ..self
        }
    }
}

impl Layers<'_> {
    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    fn limits(&self, parts: u32) -> Limits {
        Limits {
            time: self.left() / parts.max(1),
            memory_bytes: self.memory_bytes,
        }
    }

    fn check(&self, assertion: usize, rule: &str) -> Result<Found, PropertyError> {
        type Layer<'a> = fn(&Layers<'a>, usize, &str) -> Result<Found, PropertyError>;
        let mut layers: [Layer; 3] = [Layers::all, Layers::each_value, Layers::windows];
        if field_of_each(rule).is_some() {
            layers.swap(0, 1);
        }
        let mut open = Open::default();
        for layer in layers {
            match layer(self, assertion, rule)?.why_open() {
                ControlFlow::Continue(other) => {
                    let and = if open.reason.is_empty() { "" } else { "; " };
                    open.reason = format!("{}{and}{}", open.reason, other.reason);
                    open.take_orders(other);
                }
                ControlFlow::Break(found) => return Ok(found),
            }
        }
        Ok(Found::Open(open))
    }

    /// The slice of all events.
    fn all(&self, assertion: usize, rule: &str) -> Result<Found, PropertyError> {
        let events = self.deciding(rule, &self.events);
        let mut found = self.slice(assertion, rule, &events, 0, self.limits(SHARE))?;
        if let Found::Open(open) = &mut found {
            open.reason = format!("the slice of its {} events: {}", events.len(), open.reason);
        }
        Ok(found)
    }

    /// Of the events of a rule that two events break if anything does: of each thread the first one that may come
    /// too early, and the one that may come too late. All events of other rules.
    fn deciding(&self, rule: &str, events: &[EventIndex]) -> Vec<EventIndex> {
        let (early, late) = match Pair::of(rule) {
            Some(Pair::Never(a, b)) => ([a, a], Some(b)),
            Some(Pair::Always(a, b)) => ([a, b], None),
            None => return events.to_vec(),
        };
        let trace = self.slicer.model.trace;
        let name = |event: EventIndex| {
            let Op::Custom(custom) = trace.events[event.index()].op else {
                return "";
            };
            &trace.customs[custom as usize].name[..]
        };
        let key = |event: EventIndex| (trace.events[event.index()].thread, name(event));
        let mut first = BTreeMap::new();
        let mut last = BTreeMap::new();
        for &event in events {
            if early.contains(&name(event)) {
                first.entry(key(event)).or_insert(event);
            }
            if late == Some(name(event)) {
                last.insert(key(event), event);
            }
        }
        let kept: BTreeSet<EventIndex> = first.into_values().chain(last.into_values()).collect();
        kept.into_iter().collect()
    }

    /// The slice of these events.
    fn slice(
        &self,
        assertion: usize,
        rule: &str,
        events: &[EventIndex],
        fixed: usize,
        limits: Limits,
    ) -> Result<Found, PropertyError> {
        let trace = self.slicer.model.trace;
        let slice = self.slicer.slice(events, fixed);
        let verdicts = self
            .property
            .check_part(&slice.trace, &[assertion], limits)?;
        let schedule = match verdicts.into_iter().next() {
            Some(Verdict::Holds) => return Ok(Found::Holds),
            Some(Verdict::Broken { schedule, .. }) => schedule,
            Some(Verdict::Undecided(reason)) => return Ok(Open::because(reason)),
            None => return Ok(Open::because("there is no such assertion")),
        };
        let is_custom = |event: &EventIndex| {
            let op = slice.trace.events[event.index()].op;
            matches!(op, Op::Custom(_))
        };
        let order: Vec<EventIndex> = { schedule.iter().filter(|event| is_custom(event)) }
            .map(|event| slice.of_run[event.index()])
            .collect();
        let mut is_chosen = vec![false; trace.events.len()];
        for event in events {
            is_chosen[event.index()] = true;
        }
        let Some(mut schedule) = realise(self.slicer.model, &order, &is_chosen) else {
            return Ok(Found::Open(Open {
                reason: "no schedule of the whole run was found for one of the slice".into(),
                orders: vec![order],
            }));
        };
        if let Some(end) = self.first_break(rule, &schedule) {
            schedule.truncate(end + 1);
        }
        // Events that are not in the slice may have made the order right.
        let broken = broken(trace, assertion, rule.into(), String::new(), schedule);
        let run: Vec<Observed> = { broken.events.iter() }
            .map(|&event| observed(trace, event))
            .collect();
        let reason = self
            .property
            .is_broken_by(trace, assertion, &run, self.limits(SHARE))?;
        Ok(match reason {
            Some(reason) => Found::Broken(Broken { reason, ..broken }),
            None => Open::because("an order of a slice does not break it in the whole run"),
        })
    }

    /// Where a schedule first breaks a rule `never A then B`: an event that is not in the slice may do so before the
    /// last one that is.
    fn first_break(&self, rule: &str, schedule: &[EventIndex]) -> Option<usize> {
        let Some(Pair::Never(a, b)) = Pair::of(rule) else {
            return None;
        };
        let trace = self.slicer.model.trace;
        let mut after = BTreeSet::new();
        schedule.iter().position(|event| {
            let Op::Custom(custom) = trace.events[event.index()].op else {
                return false;
            };
            let custom = &trace.customs[custom as usize];
            let object = field_of_each(rule).and_then(|field| custom.fields.get(field));
            let breaks = custom.name == b && after.contains(&object);
            if custom.name == a {
                after.insert(object);
            }
            breaks
        })
    }

    /// The events with each value of a field apart.
    fn each_value(&self, assertion: usize, rule: &str) -> Result<Found, PropertyError> {
        let each = field_of_each(rule);
        let trace = self.slicer.model.trace;
        let mut by_value: BTreeMap<&str, Vec<EventIndex>> = BTreeMap::new();
        for &event in &self.events {
            if let Op::Custom(custom) = trace.events[event.index()].op {
                let fields = &trace.customs[custom as usize].fields;
                let value = fields.get(each.unwrap_or(0)).map_or("", String::as_str);
                by_value.entry(value).or_default().push(event);
            }
        }
        let values = by_value.len();
        if values < 2 {
            return Ok(Open::because("all have the same object"));
        }
        let mut open = Open::default();
        let mut held = 0;
        for (done, events) in by_value.values().enumerate() {
            let parts = SHARE.saturating_mul((values - done) as u32) / 2;
            let events = self.deciding(rule, events);
            match self.slice(assertion, rule, &events, 0, self.limits(parts.max(2)))? {
                Found::Holds => held += 1,
                Found::Broken(broken) => return Ok(Found::Broken(broken)),
                Found::Open(of_value) => open.take_orders(of_value),
            }
            if self.left().is_zero() {
                break;
            }
        }
        Ok(match each {
            Some(_) if held == values => Found::Holds,
            _ => {
                open.reason = format!("{held} of {values} objects keep it by themselves");
                Found::Open(open)
            }
        })
    }

    /// Orders that differ from the run's within a few events.
    fn windows(&self, assertion: usize, rule: &str) -> Result<Found, PropertyError> {
        let count = self.events.len();
        let mut open = Open::default();
        let mut looked_at = 0;
        for begin in (0..count).step_by(STRIDE) {
            if self.left().is_zero() {
                break;
            }
            let end = (begin + WINDOW).min(count);
            let limits = self.limits(((count - begin) / STRIDE + 1) as u32);
            // The shortest wrong order leaves out most, also what the program needs: with more of the run kept,
            // the next one may be possible.
            for fixed in begin..end {
                let events = &self.events[..end];
                match self.slice(assertion, rule, events, fixed, limits)? {
                    Found::Broken(broken) => return Ok(Found::Broken(broken)),
                    Found::Open(of_window)
                        if !of_window.orders.is_empty() && !self.left().is_zero() =>
                    {
                        open.take_orders(of_window);
                    }
                    Found::Holds | Found::Open(_) => break,
                }
            }
            looked_at = end;
            if end == count {
                break;
            }
        }
        open.reason = format!(
            "other orders within {WINDOW} events in a row gave no schedule up to event {looked_at} of {count}"
        );
        Ok(Found::Open(open))
    }
}

fn broken(
    trace: &Trace,
    assertion: usize,
    rule: String,
    reason: String,
    schedule: Vec<EventIndex>,
) -> Broken {
    let is_custom = |event: &&EventIndex| matches!(trace.events[event.index()].op, Op::Custom(_));
    Broken {
        assertion,
        rule,
        reason,
        events: schedule.iter().filter(is_custom).copied().collect(),
        schedule,
        deadlock: None,
    }
}

/// A custom event of the trace, as one of a run.
pub(crate) fn observed(trace: &Trace, event: EventIndex) -> Observed {
    let event = trace.events[event.index()];
    let Op::Custom(custom) = event.op else {
        panic!("{:?} is no custom event", event.op);
    };
    let custom = &trace.customs[custom as usize];
    Observed {
        thread: trace.thread(event.thread).name.clone(),
        name: custom.name.clone(),
        fields: custom.fields.clone(),
    }
}

#[cfg(test)]
mod tests {
    use norns_model::random_trace::{Shape, random_trace};
    use norns_random::Random;

    use super::*;
    use crate::Aspect;

    const LIMITS: Limits = Limits {
        time: Duration::from_secs(20),
        memory_bytes: 1 << 30,
    };

    const SHAPE: Shape = Shape {
        threads: 3,
        events: 22,
        locks: 2,
        variables: 3,
        plain: false,
    };

    /// A random trace some of whose events that change nothing are events of the rule.
    fn random(seed: u64) -> Trace {
        let mut random = Random::new(seed);
        let mut trace = random_trace(seed, SHAPE);
        trace.customs = ["a", "b"]
            .iter()
            .flat_map(|name| {
                ["1", "2"].map(|value| norns_trace::trace::Custom {
                    name: name.to_string(),
                    fields: vec![value.into()],
                })
            })
            .collect();
        for event in &mut trace.events {
            if matches!(event.op.effect(), norns_trace::Effect::Memory(_)) {
                event.op = match random.below(3) {
                    0 => Op::Enter,
                    _ => Op::Custom(random.below(4) as u32),
                };
            }
        }
        trace
    }

    /// What a slice says is what the whole run says, or nothing.
    #[test]
    fn slices_agree_with_the_run() {
        let sentences = [
            "never a then b for each #0",
            "a and b alternate",
            "always a before b",
        ];
        let (mut holds, mut breaks) = (0, 0);
        for seed in 0..150 {
            let trace = random(seed);
            let sentence = sentences[seed as usize % sentences.len()];
            let mut aspect = Aspect::parse("a(#0) before call a\nb(#0) before call b")
                .expect("the aspect is right");
            let property = Property::parse("rules", sentence, &mut aspect).expect("it is a rule");
            let whole = property
                .check_part(&trace, &[0], LIMITS)
                .expect("it is a script");
            let model = Model::new(&trace, Meaning::Optimistic);
            let is_custom = |&i: &usize| matches!(trace.events[i].op, Op::Custom(_));
            let events = (0..trace.events.len()).filter(is_custom);
            let layers = Layers {
                property: &property,
                slicer: Slicer::new(&model),
                events: events.map(EventIndex::from_index).collect(),
                memory_bytes: LIMITS.memory_bytes,
                end: Instant::now() + LIMITS.time,
            };
            let found = layers.check(0, sentence).expect("it is a script");
            match (found, &whole[0]) {
                (Found::Holds, Verdict::Holds) => holds += 1,
                (Found::Broken(broken), Verdict::Broken { .. }) => {
                    let witness = norns_model::Witness {
                        schedule: broken.schedule,
                        bug: norns_model::Bug::Order {
                            events: broken.events,
                        },
                    };
                    norns_model::check_witness(&trace, Meaning::Optimistic, &witness)
                        .expect("the schedule is one of the run");
                    breaks += 1;
                }
                (Found::Open(_), _) => {}
                (Found::Holds, _) => panic!("seed {seed}: the slice holds, the run does not"),
                (Found::Broken(_), _) => panic!("seed {seed}: only the slice is broken"),
            }
        }
        assert!(holds > 10 && breaks > 30, "{holds} hold, {breaks} break");
    }

    /// A thread that nobody joins uses what main deletes, in a run in which it was faster.
    #[test]
    fn a_slice_finds_the_use_after_the_deletion() {
        let trace = norns_model::script::trace(
            "T0: fork T1, fork T2, event use
             T1: start, event use
             T2: start, event use, end
             T1: event use, end
             T0: join T2, event delete 93824992382832",
        );
        let mut aspect = Aspect::parse("delete(#0) before call d\nuse before call u")
            .expect("the aspect is right");
        let rule = "never delete then use";
        let property = Property::parse("rules", rule, &mut aspect).expect("it is a rule");
        let model = Model::new(&trace, Meaning::Optimistic);
        let is_custom = |&i: &usize| matches!(trace.events[i].op, Op::Custom(_));
        let events = (0..trace.events.len()).filter(is_custom);
        let layers = Layers {
            property: &property,
            slicer: Slicer::new(&model),
            events: events.map(EventIndex::from_index).collect(),
            memory_bytes: LIMITS.memory_bytes,
            end: Instant::now() + LIMITS.time,
        };
        match layers.check(0, rule).expect("it is a script") {
            Found::Broken(broken) => {
                let last = broken.events.iter().rev().take(2);
                let names: Vec<String> = last.map(|&event| observed(&trace, event).name).collect();
                assert_eq!(names, ["use", "delete"]);
            }
            Found::Open(open) => panic!("{}", open.reason),
            Found::Holds => panic!("it does not hold"),
        }
    }
}
