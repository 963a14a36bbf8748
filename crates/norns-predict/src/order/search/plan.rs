//! Where a search starts: how far each thread can get, and an initial order.
//!
//! The initial order is that of the trace up to the first event of the bug, unless threads wait for
//! each other in a way that does not allow it; then a `guided_run` constructs one.

use std::cell::OnceCell;

use norns_budget::Budget;
use norns_model::Model;
use norns_order::Node;
use norns_trace::{Event, EventIndex};

use super::critical_sections::CriticalSections;
use super::encoding::Preprocessing;
use super::guided_run::{Guide, Stops};
use crate::order::known::clocks::Clocks;
use crate::order::known::resources::Resources;
use crate::order::known::waits::{Feasibility, Path, PathStep, Target, WaitStates};
use crate::order::objects::clause::Frame;

/// What a search starts from.
pub struct Plan {
    /// How many events of each thread can take place at most.
    pub limits: Vec<u32>,
    /// The initial order: what takes place, the end of the schedule, and all other events.
    pub start: Vec<Node>,
}

/// The number of `WaitStates` to explore for each event of the trace. On a short trace a search
/// costs less than the exploration of many states.
const FEW_STATES: usize = 4;
const MANY_STATES: usize = 40;
/// From this number of events on a trace counts as long.
const LONG: usize = 5_000;
const MOST_STATES: usize = 2_000_000;

pub struct Planner {
    preprocessing: Preprocessing,
    resources: Resources,
    /// Explored when the first question needs it. `None` where there is nothing to know.
    waits: OnceCell<Option<WaitStates>>,
    sections: OnceCell<CriticalSections>,
    budget: Budget,
}

impl Planner {
    pub fn new(preprocessing: Preprocessing, resources: Resources, budget: Budget) -> Self {
        Planner {
            preprocessing,
            resources,
            waits: OnceCell::new(),
            sections: OnceCell::new(),
            budget,
        }
    }

    /// The plan for a schedule in which `required` has taken place and after which `events` are
    /// next. `None` if there is no such schedule, by counting or by how the threads wait for each
    /// other (`Preprocessing::Basic` leaves that to the search).
    pub fn plan(
        &self,
        model: &Model<'_>,
        frame: &Frame,
        events: &[EventIndex],
        required: &[EventIndex],
    ) -> Option<Plan> {
        let clocks = &frame.clocks;
        let needed = needed(model, clocks, required);
        let mut limits: Vec<u32> = model.threads.iter().map(|e| e.len() as u32).collect();
        for &event in events {
            limits[model.thread_of(event).index()] = model.position[event.index()];
        }
        let is_full = self.preprocessing == Preprocessing::Full;
        if is_full {
            let lowered = self.resources.lower(model, clocks, &needed, &mut limits);
            lowered.ok()?;
        }
        // As far as the trace was before the first of the events, or as far as is needed.
        let first = events.iter().min().copied().unwrap_or(EventIndex(0));
        let reached = |t: usize| model.threads[t].partition_point(|&event| event < first) as u32;
        let preferred = (0..limits.len()).map(|t| reached(t).max(needed[t]).min(limits[t]));
        let target = Target {
            preferred: preferred.collect(),
            needed,
            limits,
        };
        let waits = self.waits.get_or_init(|| {
            let most = states_to_explore(model.trace.events.len());
            is_full.then(|| WaitStates::new(model, clocks, most, &self.budget))?
        });
        let mut guided = None;
        if let Some(waits) = waits {
            match waits.feasibility(model, events, &target, &self.budget) {
                Feasibility::Impossible => return None,
                Feasibility::Unknown => {}
                Feasibility::Path(path) => {
                    guided = self.follow(model, clocks, waits, &path, &target);
                }
            }
        }
        let taking_place = guided.unwrap_or_else(|| {
            let events = model.trace.events.iter().enumerate();
            let takes_place = |(i, event): &(usize, &Event)| {
                model.position[*i] < target.preferred[event.thread.index()]
            };
            let events = events.filter(takes_place);
            events.map(|(i, _)| Node(i as u32)).collect()
        });
        Some(Plan {
            limits: target.limits,
            start: complete(taking_place, frame.end),
        })
    }

    /// An order of the events that take place on a path. `None` if the order of the trace follows
    /// the path anyway, or if no better one is found.
    fn follow(
        &self,
        model: &Model<'_>,
        clocks: &Clocks,
        waits: &WaitStates,
        path: &Path,
        target: &Target,
    ) -> Option<Vec<Node>> {
        let Target {
            limits, preferred, ..
        } = target;
        let mut stops = Stops {
            wanted: preferred.clone(),
            limits: limits.clone(),
        };
        for (t, range) in path.ranges.iter().enumerate() {
            stops.limits[t] = limits[t].min(range.most);
            stops.wanted[t] = preferred[t].max(range.least).min(stops.limits[t]);
        }
        if stops.wanted == *preferred && is_as_in_trace(model, &path.steps) {
            return None;
        }
        // A thread that would stop inside a critical section leaves it if that is allowed.
        let sections = self.sections.get_or_init(|| CriticalSections::new(model));
        for (t, events) in model.threads.iter().enumerate() {
            if let Some(end) = sections.end_around(events, stops.wanted[t])
                && end <= stops.limits[t]
            {
                stops.wanted[t] = end;
            }
        }
        let last = |t: usize, count: u32| Some(model.threads[t][count.checked_sub(1)? as usize]);
        for t in 0..preferred.len() {
            let last: Vec<EventIndex> = last(t, stops.wanted[t]).into_iter().collect();
            for (s, count) in needed(model, clocks, &last).into_iter().enumerate() {
                stops.wanted[s] = stops.wanted[s].max(count);
            }
        }
        let mut pairs = stops.wanted.iter().zip(&stops.limits);
        if pairs.any(|(wanted, limit)| wanted > limit) {
            return None;
        }
        let guide = Guide {
            model,
            clocks,
            waits,
            sections,
            path: &path.steps,
            stops: &stops,
        };
        guide.run()
    }
}

fn states_to_explore(events: usize) -> usize {
    let per_event = if events < LONG {
        FEW_STATES
    } else {
        MANY_STATES
    };
    (per_event * events).min(MOST_STATES)
}

/// How many events of each thread take place in every schedule in which these do.
fn needed(model: &Model<'_>, clocks: &Clocks, events: &[EventIndex]) -> Vec<u32> {
    let known = |thread| {
        let known = events.iter().map(|&event| clocks.known(event, thread));
        known.max().unwrap_or(0)
    };
    (0..model.threads.len()).map(known).collect()
}

/// These nodes, the end of the schedule, and then all other events.
fn complete(mut nodes: Vec<Node>, end: Node) -> Vec<Node> {
    let mut is_before_end = vec![false; end.index() + 1];
    for node in &nodes {
        is_before_end[node.index()] = true;
    }
    nodes.push(end);
    let all = (0..end.0).map(Node);
    nodes.extend(all.filter(|node| !is_before_end[node.index()]));
    nodes
}

/// Whether the steps of a path come, and wake threads, as they did in the trace.
fn is_as_in_trace(model: &Model<'_>, path: &[PathStep]) -> bool {
    let began = |wait: EventIndex| {
        let thread = &model.threads[model.thread_of(wait).index()];
        thread[model.position_of(wait) - 1]
    };
    path.is_sorted_by_key(|step| step.event)
        && path.iter().all(|step| {
            let mut wakes = step.wakes.iter();
            wakes.all(|&wait| began(wait) < step.event && step.event < wait)
        })
}
