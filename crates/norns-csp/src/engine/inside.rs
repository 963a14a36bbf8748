//! What happened inside a component: names for the events that it hides, and the steps of the
//! processes below a compression.
//!
//! A component only has states and events of its own. To look inside, its part of the
//! counterexample is walked again over process terms: first step by step, then, for a component
//! whose taus a compression has changed, by its visible events with any taus between them. Each step of a
//! term is then traced down to the terms that caused it. This is an explanation, not evidence: it
//! is left out where the walk would be long.

use rustc_hash::FxHashMap;

use crate::CheckError;
use crate::engine::DONE;
use crate::engine::budget::Meter;
use crate::engine::context::Context;
use crate::engine::counterexample::{Counterexample, Inside, Violation};
use crate::engine::semantics::{Semantics, Step as TermStep};
use crate::event::EventId;
use crate::process::{ProcId, Process};

// Terms that a walk may visit.
const LONGEST_WALK: usize = 20_000;
const DEEPEST: usize = 200;

/// Adds what happened inside the components of a counterexample.
pub fn look_inside(context: &mut Context, example: &mut Counterexample, meter: &Meter) {
    let mut semantics = Semantics::default();
    for component in 0..example.components.len() {
        let mut walk = Walk {
            context,
            semantics: &mut semantics,
            meter,
            inherited: FxHashMap::default(),
        };
        // A term that cannot be walked (a watchdog, say) stays closed.
        let Ok(found) = walk.inside(example, component) else {
            continue;
        };
        for (number, process, event) in found {
            let step = &mut example.steps[number];
            let said = event == EventId::TAU
                || step.parts.contains(&(component, event))
                    && process
                        .as_ref()
                        .is_none_or(|process| *process == example.components[component]);
            if !said {
                step.inside.push(Inside {
                    component,
                    process,
                    event,
                });
            }
        }
    }
}

/// Whether there may be something to tell: an internal step, or an operator above several
/// processes.
fn worth_it(
    context: &mut Context,
    origin: ProcId,
    actions: &[(usize, EventId)],
) -> Result<bool, CheckError> {
    let mut term = origin;
    for _ in 0..DEEPEST {
        match context.processes.get(term) {
            Process::Call(call) => {
                term = context.processes.unfold(call, context.definitions)?;
            }
            Process::Compress(..) | Process::Prioritise(..) | Process::Resolve(..) => {
                return Ok(true);
            }
            _ => break,
        }
    }
    Ok(actions.iter().any(|action| action.1 == EventId::TAU))
}

struct Walk<'a, 'b> {
    context: &'a mut Context<'b>,
    semantics: &'a mut Semantics,
    meter: &'a Meter,
    // The name of the process that a term without a name came from.
    inherited: FxHashMap<ProcId, String>,
}

/// A step on the way: how many of the events came before it, the term, and its step.
type Taken = (usize, ProcId, TermStep);

/// What a process inside did: at which step of the counterexample, its name, its event.
type Deed = (usize, Option<String>, EventId);

impl Walk<'_, '_> {
    fn inside(
        &mut self,
        example: &Counterexample,
        component: usize,
    ) -> Result<Vec<Deed>, CheckError> {
        let actions: Vec<(usize, EventId)> = example
            .steps
            .iter()
            .enumerate()
            .flat_map(|(at, step)| step.parts.iter().map(move |part| (at, part)))
            .filter(|(_, part)| part.0 == component && part.1 != DONE)
            .map(|(at, part)| (at, part.1))
            .collect();
        let origin = example.origins[component];
        if actions.is_empty() || !worth_it(self.context, origin, &actions)? {
            return Ok(Vec::new());
        }
        // What a component offers is known for the state that the steps lead to. An event that the
        // specification does not allow comes after it, and a divergence has no such state.
        let offers = match example.violation {
            Violation::Divergence { .. } | Violation::Event { .. } => None,
            _ => example
                .waiting
                .iter()
                .find(|waiting| waiting.0 == component),
        };
        let events: Vec<EventId> = actions.iter().map(|action| action.1).collect();
        let Some(path) = self.path(origin, &events, offers.map(|waiting| &waiting.1[..]))? else {
            return Ok(Vec::new());
        };
        let mut deeds = Vec::new();
        for (at, from, step) in path {
            let mut found = Vec::new();
            self.trace(from, step, None, DEEPEST, &mut found)?;
            let number = actions[at.min(actions.len() - 1)].0;
            deeds.extend(
                found
                    .into_iter()
                    .map(|(process, event)| (number, process, event)),
            );
        }
        Ok(deeds)
    }

    /// A way through the terms with these events, to a term that offers what the component does.
    fn path(
        &mut self,
        origin: ProcId,
        events: &[EventId],
        offers: Option<&[EventId]>,
    ) -> Result<Option<Vec<Taken>>, CheckError> {
        if let Some(path) = self.search(origin, events, offers, false)? {
            return Ok(Some(path));
        }
        self.search(origin, events, offers, true)
    }

    /// With `weak`, taus are free, and those among the events need not happen.
    fn search(
        &mut self,
        origin: ProcId,
        events: &[EventId],
        offers: Option<&[EventId]>,
        weak: bool,
    ) -> Result<Option<Vec<Taken>>, CheckError> {
        let skip = |mut at: usize| {
            while weak && events.get(at) == Some(&EventId::TAU) {
                at += 1;
            }
            at
        };
        let mut from: FxHashMap<(usize, ProcId), (usize, ProcId, TermStep)> = FxHashMap::default();
        let mut queue = vec![(skip(0), origin)];
        let mut next = 0;
        while next < queue.len() && queue.len() < LONGEST_WALK {
            let (at, term) = queue[next];
            next += 1;
            let steps =
                self.semantics
                    .transitions(self.context, term, self.meter, &mut |_, _| Ok(None))?;
            if at == events.len() {
                let offered = offers.is_none_or(|offers| {
                    let mut of: Vec<EventId> = steps.iter().map(|step| step.0).collect();
                    of.dedup();
                    of == offers || offers == [DONE] && of.is_empty()
                });
                if offered {
                    let mut path = Vec::new();
                    let mut key = (at, term);
                    while let Some(&(at, before, step)) = from.get(&key) {
                        path.push((at, before, step));
                        key = (at, before);
                    }
                    path.reverse();
                    return Ok(Some(path));
                }
                if !weak {
                    continue;
                }
            }
            for &(event, to) in steps.iter() {
                let key = if at < events.len() && event == events[at] {
                    (skip(at + 1), to)
                } else if weak && event == EventId::TAU {
                    (at, to)
                } else {
                    continue;
                };
                if key != (skip(0), origin) && !from.contains_key(&key) {
                    from.insert(key, (at, term, (event, to)));
                    queue.push(key);
                }
            }
        }
        Ok(None)
    }

    /// The steps of subterms that make up a step of a term, with the names of their processes.
    fn trace(
        &mut self,
        term: ProcId,
        step: TermStep,
        name: Option<String>,
        depth: usize,
        found: &mut Vec<(Option<String>, EventId)>,
    ) -> Result<(), CheckError> {
        let inherited = self.inherited.get(&term).cloned();
        let name = self.context.name(term).or(inherited).or(name);
        let below = if depth == 0 {
            Vec::new()
        } else {
            self.causes(term, step)?
        };
        if below.is_empty() {
            if let Some(name) = &name {
                self.inherited.insert(step.1, name.clone());
            }
            found.push((name, step.0));
            return Ok(());
        }
        for (child, step) in below {
            self.trace(child, step, name.clone(), depth - 1, found)?;
        }
        Ok(())
    }

    /// The steps of direct subterms that make up a step; none for a term that acts itself.
    fn causes(
        &mut self,
        term: ProcId,
        (event, next): TermStep,
    ) -> Result<Vec<(ProcId, TermStep)>, CheckError> {
        self.semantics
            .transitions(self.context, term, self.meter, &mut |_, _| Ok(None))?;
        let get = |this: &Self, term: ProcId| this.context.processes.get(term);
        let child_of = |this: &Self, next: ProcId| match this.context.processes.get(next) {
            Process::Hide(p, _) | Process::Rename(p, _) | Process::Prioritise(p, _) => Some(p),
            Process::Resolve(_, p) | Process::Sequence(p, _) => Some(p),
            Process::Exception(p, ..) | Process::Interrupt(p, _) => Some(p),
            Process::Omega => Some(next),
            _ => None,
        };
        Ok(match get(self, term) {
            Process::Call(call) => {
                let body = self
                    .context
                    .processes
                    .unfold(call, self.context.definitions)?;
                vec![(body, (event, next))]
            }
            Process::Compress(_, p) => vec![(p, (event, next))],
            Process::Prioritise(p, _) | Process::Resolve(_, p) => child_of(self, next)
                .map(|to| (p, (event, to)))
                .into_iter()
                .collect(),
            Process::Hide(p, set) => {
                let hidden = self.context.processes.get_set(set).clone();
                let to = child_of(self, next);
                self.first(p, |step| {
                    let seen = match step.0 {
                        e if hidden.contains(e) => EventId::TAU,
                        e => e,
                    };
                    seen == event && Some(step.1) == to
                })?
            }
            Process::Rename(p, renaming) => {
                let pairs = self.context.processes.get_renaming(renaming).clone();
                let to = child_of(self, next);
                self.first(p, |step| {
                    let mut images = pairs.images(step.0);
                    let fits = match images.len() {
                        0 => step.0 == event,
                        _ => images.any(|to| to == event),
                    };
                    fits && Some(step.1) == to
                })?
            }
            Process::Sequence(p, q) => {
                if next == q {
                    let ends = self.first(p, |step| step.0 == EventId::TICK)?;
                    if !ends.is_empty() && event == EventId::TAU {
                        return Ok(ends);
                    }
                }
                let to = child_of(self, next);
                self.first(p, |step| step.0 == event && Some(step.1) == to)?
            }
            Process::ExternalChoice(list) => {
                let list = self.context.processes.get_list(list).clone();
                for &child in list.iter() {
                    let causes = self.first(child, |step| *step == (event, next))?;
                    if !causes.is_empty() {
                        return Ok(causes);
                    }
                }
                Vec::new()
            }
            Process::Interleave(list)
            | Process::Parallel(list, _)
            | Process::Alphabetised(list, _) => {
                let now = self.context.processes.get_list(list).clone();
                let then = match get(self, next) {
                    Process::Interleave(list)
                    | Process::Parallel(list, _)
                    | Process::Alphabetised(list, _) => {
                        self.context.processes.get_list(list).clone()
                    }
                    _ => return Ok(Vec::new()),
                };
                let mut causes = Vec::new();
                for (&child, &to) in now.iter().zip(then.iter()) {
                    if child == to {
                        continue;
                    }
                    causes.extend(self.first(child, |step| {
                        step.1 == to
                            && (step.0 == event || event == EventId::TAU && step.0 == EventId::TICK)
                    })?);
                }
                causes
            }
            _ => Vec::new(),
        })
    }

    /// The first step of a term that fits, with the term.
    fn first(
        &mut self,
        term: ProcId,
        fits: impl Fn(&TermStep) -> bool,
    ) -> Result<Vec<(ProcId, TermStep)>, CheckError> {
        let steps = self
            .semantics
            .transitions(self.context, term, self.meter, &mut |_, _| Ok(None))?;
        Ok(steps
            .iter()
            .find(|step| fits(step))
            .map(|&step| (term, step))
            .into_iter()
            .collect())
    }
}
