//! The operational semantics of process terms: which event leads to which term.
//!
//! The firing rules are those of Roscoe 2010, chapter 9, with
//! his treatment of termination, which FDR shares: tick is a signal that the environment
//! cannot refuse; a component of a parallel composition that terminates does so by a tau and
//! waits as Omega, and the composition ticks when all its components are Omega.
//!
//! Terms can be nested deeply, so the rules are evaluated with an explicit stack, each term
//! once. A compressed process inside a term may be built as a whole first; its states are terms, too.
//! A process that needs its own initial events to know its initial events (`P = P`,
//! `P = P [] Q`) is refused as unguarded.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::CheckError;
use crate::engine::budget::{Activity, Meter};
use crate::engine::context::Context;
use crate::engine::lts::Lts;
use crate::event::EventId;
use crate::process::{BuiltId, ProcId, Process, Processes, Resolution};

/// A transition of a term: the event and the term after it.
pub type Step = (EventId, ProcId);

enum Memo {
    Unknown,
    // On the stack of `transitions`.
    Pending,
    Known(Arc<[Step]>),
}

/// The transitions of terms, remembered.
#[derive(Default)]
pub struct Semantics {
    memo: Vec<Memo>,
    // Transitions in `memo`.
    remembered: usize,
    // The systems of compressed processes, and which compression has which; none for one that is
    // explored like any other term.
    systems: Vec<Lts>,
    built: FxHashMap<ProcId, Option<BuiltId>>,
}

/// Builds the transition system of a compressed process that a term contains; none if its states are
/// to be explored with those of the term around it.
pub type Build<'a> = dyn FnMut(&mut Context, ProcId) -> Result<Option<Lts>, CheckError> + 'a;

impl Semantics {
    /// The transitions of a term, sorted.
    pub fn transitions(
        &mut self,
        context: &mut Context,
        process: ProcId,
        meter: &Meter,
        build: &mut Build,
    ) -> Result<Arc<[Step]>, CheckError> {
        let mut stack = vec![process];
        let result = self.evaluate(context, &mut stack, meter, build);
        if result.is_err() {
            // The next question must not take what was left open for an unguarded recursion.
            for term in stack {
                if let Some(memo @ Memo::Pending) = self.memo.get_mut(term.0 as usize) {
                    *memo = Memo::Unknown;
                }
            }
        }
        result?;
        Ok(self.known(process))
    }

    /// Computes the transitions of all terms on the stack.
    fn evaluate(
        &mut self,
        context: &mut Context,
        stack: &mut Vec<ProcId>,
        meter: &Meter,
        build: &mut Build,
    ) -> Result<(), CheckError> {
        let before = context.bytes() + self.bytes();
        let mut fired = 0;
        while let Some(&term) = stack.last() {
            fired += 1;
            // One state of a large term can need many others.
            if fired % 256 == 0 {
                let grown = (context.bytes() + self.bytes()).saturating_sub(before);
                if let Some(spent) = meter.spent(Activity::Compiling, 0, grown) {
                    return Err(CheckError::Spent(spent));
                }
            }
            self.grow(context);
            if let Memo::Known(_) = self.memo[term.0 as usize] {
                stack.pop();
                continue;
            }
            if let Process::Compress(..) = context.processes.get(term)
                && let Some(built) = self.build(context, term, build)?
            {
                let initial = context.processes.intern(Process::Built(built, 0));
                let steps: Arc<[Step]> = self.fire(context, initial).into();
                self.remembered += steps.len();
                self.grow(context);
                self.memo[term.0 as usize] = Memo::Known(steps);
                stack.pop();
                continue;
            }
            let height = stack.len();
            for child in needed(context, term)? {
                match self.memo.get(child.0 as usize) {
                    Some(Memo::Known(_)) => {}
                    Some(Memo::Pending) => return Err(unguarded(context, stack)),
                    Some(Memo::Unknown) | None => {
                        if child == term {
                            return Err(unguarded(context, stack));
                        }
                        stack.push(child);
                    }
                }
            }
            self.grow(context);
            if stack.len() > height {
                self.memo[term.0 as usize] = Memo::Pending;
                continue;
            }
            let steps = match context.processes.get(term) {
                // A call does what its body does, and a compression only changes how that is
                // represented.
                Process::Call(call) => {
                    let body = context.processes.body(call);
                    self.known(body.expect("`needed` unfolded this call"))
                }
                Process::Compress(_, process) => self.known(process),
                _ => {
                    let mut steps = self.fire(context, term);
                    steps.sort_unstable();
                    steps.dedup();
                    self.remembered += steps.len();
                    steps.into()
                }
            };
            self.grow(context);
            self.memo[term.0 as usize] = Memo::Known(steps);
            stack.pop();
        }
        Ok(())
    }

    /// The system in the place of a compression.
    fn build(
        &mut self,
        context: &mut Context,
        term: ProcId,
        build: &mut Build,
    ) -> Result<Option<BuiltId>, CheckError> {
        if let Some(&known) = self.built.get(&term) {
            return Ok(known);
        }
        let built = build(context, term)?.map(|lts| {
            self.systems.push(lts);
            BuiltId(self.systems.len() as u32 - 1)
        });
        self.built.insert(term, built);
        Ok(built)
    }

    fn grow(&mut self, context: &Context) {
        self.memo
            .resize_with(context.processes.len(), || Memo::Unknown);
    }

    fn known(&self, process: ProcId) -> Arc<[Step]> {
        match &self.memo[process.0 as usize] {
            Memo::Known(steps) => steps.clone(),
            _ => unreachable!("a term is fired only after the terms it needs"),
        }
    }

    /// Forgets the transitions, to give memory back.
    pub fn clear(&mut self) {
        self.memo = Vec::new();
        self.remembered = 0;
    }

    /// Memory of what is remembered: a slot and a counted slice for each term.
    pub fn bytes(&self) -> u64 {
        let systems: u64 = self.systems.iter().map(Lts::bytes).sum();
        (self.memo.len() * 48 + self.remembered * size_of::<Step>()) as u64 + systems
    }

    /// The transitions of a term whose needed terms are known.
    fn fire(&self, context: &mut Context, term: ProcId) -> Vec<Step> {
        let processes = &mut *context.processes;
        let mut out = Vec::new();
        match processes.get(term) {
            Process::Stop | Process::Omega => {}
            Process::Skip => {
                let omega = processes.omega();
                out.push((EventId::TICK, omega));
            }
            Process::Div => out.push((EventId::TAU, term)),
            Process::Chaos(set) => {
                let stop = processes.stop();
                out.push((EventId::TAU, stop));
                out.extend(members(processes, set).map(|e| (e, term)));
            }
            Process::Run(set) => out.extend(members(processes, set).map(|e| (e, term))),
            Process::Prefix(event, then) => out.push((event, then)),
            Process::InternalChoice(list) => {
                out.extend(processes.get_list(list).iter().map(|&p| (EventId::TAU, p)));
            }
            Process::ExternalChoice(list) => {
                let children = processes.get_list(list).clone();
                for (i, &child) in children.iter().enumerate() {
                    for &(event, next) in self.known(child).iter() {
                        let next = match event {
                            EventId::TAU => {
                                let list = processes.list(replaced(&children, i, next));
                                processes.intern(Process::ExternalChoice(list))
                            }
                            EventId::TICK => processes.omega(),
                            _ => next,
                        };
                        out.push((event, next));
                    }
                }
            }
            Process::Sliding(first, then) => {
                out.push((EventId::TAU, then));
                for &(event, next) in self.known(first).iter() {
                    let next = match event {
                        EventId::TAU => processes.sliding(next, then),
                        EventId::TICK => processes.omega(),
                        _ => next,
                    };
                    out.push((event, next));
                }
            }
            Process::Interrupt(process, by) => {
                for &(event, next) in self.known(process).iter() {
                    let next = match event {
                        EventId::TICK => processes.omega(),
                        _ => processes.interrupt(next, by),
                    };
                    out.push((event, next));
                }
                for &(event, next) in self.known(by).iter() {
                    let next = match event {
                        EventId::TAU => processes.interrupt(process, next),
                        EventId::TICK => processes.omega(),
                        _ => next,
                    };
                    out.push((event, next));
                }
            }
            Process::Exception(process, set, handler) => {
                let events = processes.get_set(set).clone();
                for &(event, next) in self.known(process).iter() {
                    let next = match event {
                        EventId::TICK => processes.omega(),
                        _ if events.contains(event) => handler,
                        _ => processes.intern(Process::Exception(next, set, handler)),
                    };
                    out.push((event, next));
                }
            }
            Process::Sequence(first, then) => {
                for &(event, next) in self.known(first).iter() {
                    out.push(match event {
                        EventId::TICK => (EventId::TAU, then),
                        _ => (event, processes.sequence(next, then)),
                    });
                }
            }
            Process::Hide(process, set) => {
                let events = processes.get_set(set).clone();
                for &(event, next) in self.known(process).iter() {
                    out.push(if event == EventId::TICK {
                        (event, processes.omega())
                    } else {
                        let event = if events.contains(event) {
                            EventId::TAU
                        } else {
                            event
                        };
                        (event, processes.intern(Process::Hide(next, set)))
                    });
                }
            }
            Process::Rename(process, renaming) => {
                let pairs = processes.get_renaming(renaming).clone();
                for &(event, next) in self.known(process).iter() {
                    if event == EventId::TICK {
                        out.push((event, processes.omega()));
                        continue;
                    }
                    let next = processes.intern(Process::Rename(next, renaming));
                    let images = pairs.images(event);
                    match images.len() {
                        0 => out.push((event, next)),
                        _ => out.extend(images.map(|to| (to, next))),
                    }
                }
            }
            Process::Interleave(list) => {
                let children = processes.get_list(list).clone();
                self.alone(
                    processes,
                    &children,
                    &mut out,
                    |_, _| true,
                    |processes, list| Process::Interleave(processes.list(list)),
                );
            }
            Process::Parallel(list, set) => {
                let children = processes.get_list(list).clone();
                let events = processes.get_set(set).clone();
                let rebuild =
                    |processes: &mut Processes, list| Process::Parallel(processes.list(list), set);
                self.alone(
                    processes,
                    &children,
                    &mut out,
                    |_, e| !events.contains(e),
                    rebuild,
                );
                let all: Vec<usize> = (0..children.len()).collect();
                for event in self.events_of(children[0]) {
                    if events.contains(event) {
                        self.together(processes, &children, &all, event, &mut out, rebuild);
                    }
                }
            }
            Process::Alphabetised(list, alphabets) => {
                let children = processes.get_list(list).clone();
                let sets: Vec<_> = processes
                    .get_alphabets(alphabets)
                    .clone()
                    .iter()
                    .map(|&set| processes.get_set(set).clone())
                    .collect();
                let rebuild = |processes: &mut Processes, list| {
                    Process::Alphabetised(processes.list(list), alphabets)
                };
                self.alone(processes, &children, &mut out, |_, _| false, rebuild);
                for (i, &child) in children.iter().enumerate() {
                    for event in self.events_of(child) {
                        let sharing: Vec<usize> = (0..children.len())
                            .filter(|&j| sets[j].contains(event))
                            .collect();
                        if sharing.first() == Some(&i) {
                            self.together(processes, &children, &sharing, event, &mut out, rebuild);
                        }
                    }
                }
            }
            Process::SyncChoice(list, set) => {
                let children = processes.get_list(list).clone();
                let events = processes.get_set(set).clone();
                let rebuild = |processes: &mut Processes, list| {
                    Process::SyncChoice(processes.list(list), set)
                };
                for (i, &child) in children.iter().enumerate() {
                    for &(event, next) in self.known(child).iter() {
                        let next = match event {
                            EventId::TAU => {
                                let term = rebuild(processes, replaced(&children, i, next));
                                processes.intern(term)
                            }
                            EventId::TICK => processes.omega(),
                            _ if events.contains(event) => continue,
                            _ => next,
                        };
                        out.push((event, next));
                    }
                }
                let all: Vec<usize> = (0..children.len()).collect();
                for event in self.events_of(children[0]) {
                    if events.contains(event) {
                        self.together(processes, &children, &all, event, &mut out, rebuild);
                    }
                }
            }
            Process::SyncInterrupt(process, set, by) => {
                let events = processes.get_set(set).clone();
                for &(event, next) in self.known(process).iter() {
                    let next = match event {
                        EventId::TICK => processes.omega(),
                        _ if events.contains(event) => {
                            for &(other, next_by) in self.known(by).iter() {
                                if other == event {
                                    let term = Process::SyncInterrupt(next, set, next_by);
                                    out.push((event, processes.intern(term)));
                                }
                            }
                            continue;
                        }
                        _ => processes.intern(Process::SyncInterrupt(next, set, by)),
                    };
                    out.push((event, next));
                }
                for &(event, next) in self.known(by).iter() {
                    let next = match event {
                        EventId::TAU => {
                            processes.intern(Process::SyncInterrupt(process, set, next))
                        }
                        EventId::TICK => processes.omega(),
                        _ if events.contains(event) => continue,
                        _ => next,
                    };
                    out.push((event, next));
                }
            }
            Process::Prioritise(process, priority) => {
                let steps = self.known(process);
                let order = processes.get_priority(priority).clone();
                let mut offered: Vec<EventId> = steps.iter().map(|step| step.0).collect();
                offered.dedup();
                for &(event, next) in steps.iter().filter(|s| order.allows(s.0, &offered)) {
                    let next = match event {
                        EventId::TICK => next,
                        _ => processes.intern(Process::Prioritise(next, priority)),
                    };
                    out.push((event, next));
                }
            }
            Process::Resolve(how, process) => {
                for (event, next) in resolved(how, &self.known(process)) {
                    let next = match event {
                        EventId::TICK => next,
                        _ => processes.resolve(how, next),
                    };
                    out.push((event, next));
                }
            }
            Process::Watchdog(..) => unreachable!("`needed` refuses watchdogs"),
            Process::Built(system, state) => {
                let omega = processes.omega();
                for &(event, to) in self.systems[system.0 as usize].steps(state) {
                    let next = match event {
                        EventId::TICK => omega,
                        _ => processes.intern(Process::Built(system, to)),
                    };
                    out.push((event, next));
                }
            }
            Process::Call(_) | Process::Compress(..) => unreachable!("`evaluate` shares these"),
        }
        out
    }

    /// The distinct visible events that a term can do next.
    fn events_of(&self, process: ProcId) -> Vec<EventId> {
        let mut events: Vec<_> = self
            .known(process)
            .iter()
            .map(|s| s.0)
            .filter(|e| e.is_visible())
            .collect();
        events.dedup();
        events
    }

    /// What the components of a parallel composition do alone: tau, events for which `free`
    /// holds, and termination.
    fn alone(
        &self,
        processes: &mut Processes,
        children: &[ProcId],
        out: &mut Vec<Step>,
        free: impl Fn(usize, EventId) -> bool,
        rebuild: impl Fn(&mut Processes, Vec<ProcId>) -> Process,
    ) {
        let omega = processes.omega();
        if children.iter().all(|&child| child == omega) {
            out.push((EventId::TICK, omega));
            return;
        }
        for (i, &child) in children.iter().enumerate() {
            for &(event, next) in self.known(child).iter() {
                let (event, next) = match event {
                    EventId::TICK => (EventId::TAU, omega),
                    EventId::TAU => (event, next),
                    _ if free(i, event) => (event, next),
                    _ => continue,
                };
                let term = rebuild(processes, replaced(children, i, next));
                out.push((event, processes.intern(term)));
            }
        }
    }

    /// What the components `sharing` do together on one event, in every combination.
    fn together(
        &self,
        processes: &mut Processes,
        children: &[ProcId],
        sharing: &[usize],
        event: EventId,
        out: &mut Vec<Step>,
        rebuild: impl Fn(&mut Processes, Vec<ProcId>) -> Process,
    ) {
        let targets: Vec<Vec<ProcId>> = sharing
            .iter()
            .map(|&i| {
                let steps = self.known(children[i]);
                let first = steps.partition_point(|step| step.0 < event);
                let same = steps[first..].iter().take_while(|step| step.0 == event);
                same.map(|step| step.1).collect()
            })
            .collect();
        if targets.iter().any(Vec::is_empty) {
            return;
        }
        let mut choice = vec![0; sharing.len()];
        loop {
            let mut next = children.to_vec();
            for ((&i, of), &which) in sharing.iter().zip(&targets).zip(&choice) {
                next[i] = of[which];
            }
            let term = rebuild(processes, next);
            out.push((event, processes.intern(term)));
            let Some(digit) = (0..choice.len()).find(|&d| choice[d] + 1 < targets[d].len()) else {
                return;
            };
            choice[digit] += 1;
            choice[..digit].fill(0);
        }
    }
}

/// The transitions that a resolution leaves of sorted `steps`.
pub fn resolved<T: Copy>(how: Resolution, steps: &[(EventId, T)]) -> Vec<(EventId, T)> {
    match steps.first() {
        Some(&step) if step.0 == EventId::TAU => vec![step],
        _ => {
            let mut left = steps.to_vec();
            if how == Resolution::Deter {
                left.dedup_by_key(|step| step.0);
            }
            left
        }
    }
}

fn replaced(children: &[ProcId], i: usize, by: ProcId) -> Vec<ProcId> {
    let mut list = children.to_vec();
    list[i] = by;
    list
}

fn members(processes: &Processes, set: crate::process::SetId) -> impl Iterator<Item = EventId> {
    let set = processes.get_set(set).clone();
    let members = set.members().expect("CHAOS and RUN are built with members");
    members.iter().collect::<Vec<_>>().into_iter()
}

/// The terms whose transitions the rules of `term` look at.
fn needed(context: &mut Context, term: ProcId) -> Result<Vec<ProcId>, CheckError> {
    let processes = &mut *context.processes;
    Ok(match processes.get(term) {
        Process::Stop
        | Process::Skip
        | Process::Omega
        | Process::Div
        | Process::Chaos(_)
        | Process::Run(_)
        | Process::Prefix(..)
        | Process::Built(..)
        | Process::InternalChoice(_) => Vec::new(),
        Process::ExternalChoice(list)
        | Process::Interleave(list)
        | Process::Parallel(list, _)
        | Process::Alphabetised(list, _)
        | Process::SyncChoice(list, _) => processes.get_list(list).to_vec(),
        Process::Sliding(p, _)
        | Process::Exception(p, ..)
        | Process::Sequence(p, _)
        | Process::Hide(p, _)
        | Process::Rename(p, _)
        | Process::Compress(_, p)
        | Process::Prioritise(p, _)
        | Process::Resolve(_, p) => vec![p],
        Process::Watchdog(..) => {
            return Err(CheckError::Unsupported(
                "a watchdog inside a recursion, or below an operator that cannot be split,".into(),
            ));
        }
        Process::Interrupt(p, q) | Process::SyncInterrupt(p, _, q) => vec![p, q],
        Process::Call(call) => vec![processes.unfold(call, context.definitions)?],
    })
}

fn unguarded(context: &Context, stack: &[ProcId]) -> CheckError {
    let name = stack.iter().rev().find_map(|&term| context.name(term));
    CheckError::Unguarded(name.unwrap_or_else(|| "a process".into()))
}
