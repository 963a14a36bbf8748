//! Slices: the events that a property speaks of, and what orders them, as a trace of its own.
//!
//! A run can have millions of synchronisation events of which hardly any concerns a rule. A slice keeps the
//! chosen custom events, the critical sections around them, and as direct orders (`Send`, `Receive`) what
//! comes before what in every schedule (`MustHappenBefore`). What it leaves out are critical sections
//! without such an event, and orders of semaphores, conditions and barriers that only some schedules keep.
//!
//! So every order of the chosen events that the run allows, its slice allows too: what holds of the slice holds
//! of the run. The other way round need not be true, and `realise` looks for the schedule of the whole run.

use norns_model::must_happen_before::MustHappenBefore;
use norns_model::{Model, Readiness, State};
use norns_trace::effect::OnLock;
use norns_trace::trace::Object;
use norns_trace::{Effect, Event, EventIndex, ObjectId, ObjectKind, Op, ThreadId, Trace};

/// A part of a run.
pub(crate) struct Slice {
    pub trace: Trace,
    /// By event of the slice: which event of the run it is. A direct order is the event that needs it.
    pub of_run: Vec<EventIndex>,
}

/// A whole run, prepared for slicing.
pub(crate) struct Slicer<'t> {
    pub model: &'t Model<'t>,
    order: MustHappenBefore,
}

impl<'t> Slicer<'t> {
    pub fn new(model: &'t Model<'t>) -> Self {
        Slicer {
            model,
            order: MustHappenBefore::of(model),
        }
    }

    /// The slice of these events, which are sorted. The first `fixed` ones keep the order of the run.
    pub fn slice(&self, chosen: &[EventIndex], fixed: usize) -> Slice {
        let trace = self.model.trace;
        let mut is_kept = vec![false; trace.events.len()];
        for event in chosen {
            is_kept[event.index()] = true;
        }
        self.keep_sections(&mut is_kept);
        let orders = self.orders(chosen, fixed);
        let mut slice = Slice {
            trace: Trace {
                threads: trace.threads.clone(),
                objects: trace.objects.clone(),
                places: trace.places.clone(),
                customs: trace.customs.clone(),
                accesses_ordered: trace.accesses_ordered,
                ..Trace::default()
            },
            of_run: Vec::new(),
        };
        // Sends stand behind the event that has to come first, receives before the one that needs it.
        let mut receives: Vec<(EventIndex, ObjectId)> = Vec::new();
        let mut sends: Vec<(EventIndex, ObjectId)> = Vec::new();
        for (earlier, later) in orders {
            let channel = ObjectId::from_index(slice.trace.objects.len());
            slice.trace.objects.push(Object {
                kind: ObjectKind::Channel,
                address: 0,
                name: String::new(),
            });
            sends.push((earlier, channel));
            receives.push((later, channel));
        }
        sends.sort_unstable();
        receives.sort_unstable();
        let at = |all: &[(EventIndex, ObjectId)], event: EventIndex| {
            let from = all.partition_point(|(other, _)| *other < event);
            let to = all.partition_point(|(other, _)| *other <= event);
            from..to
        };
        let kept = (0..trace.events.len()).filter(|&i| is_kept[i]);
        for here in kept.map(EventIndex::from_index) {
            let event = trace.events[here.index()];
            let mut add = |op: Op| {
                slice.trace.events.push(Event { op, ..event });
                slice.of_run.push(here);
            };
            for &(_, channel) in &receives[at(&receives, here)] {
                add(Op::Receive(channel));
            }
            add(event.op);
            for &(_, channel) in &sends[at(&sends, here)] {
                add(Op::Send(channel));
            }
        }
        slice
    }

    /// Marks the critical sections that have a marked event in them.
    fn keep_sections(&self, is_kept: &mut [bool]) {
        let trace = self.model.trace;
        // By thread: the locks that it holds, with the acquisition and whether something in it is kept.
        let mut held: Vec<Vec<(ObjectId, usize, bool)>> = vec![Vec::new(); trace.threads.len()];
        for (i, event) in trace.events.iter().enumerate() {
            let held = &mut held[event.thread.index()];
            if is_kept[i] {
                held.iter_mut().for_each(|(_, _, matters)| *matters = true);
            }
            let Effect::Lock(lock, act) = event.op.effect() else {
                continue;
            };
            match act {
                OnLock::Acquire(_) => held.push((lock, i, false)),
                OnLock::Release => {
                    let Some(at) = held.iter().rposition(|(other, _, _)| *other == lock) else {
                        continue;
                    };
                    let (_, begin, matters) = held.remove(at);
                    if matters {
                        is_kept[begin] = true;
                        is_kept[i] = true;
                    }
                }
                OnLock::FailedAcquire(_) => {}
            }
        }
        for (_, begin, matters) in held.into_iter().flatten() {
            is_kept[begin] = is_kept[begin] || matters;
        }
    }

    /// The orders between threads that every schedule keeps, without those that follow from others of the
    /// same two threads.
    fn orders(&self, chosen: &[EventIndex], fixed: usize) -> Vec<(EventIndex, EventIndex)> {
        let model = self.model;
        let mut by_thread: Vec<Vec<EventIndex>> = vec![Vec::new(); model.threads.len()];
        for &event in chosen {
            by_thread[model.thread_of(event).index()].push(event);
        }
        let active: Vec<usize> = (0..by_thread.len())
            .filter(|&thread| !by_thread[thread].is_empty())
            .collect();
        let mut orders = Vec::new();
        for &to in &active {
            for &from in active.iter().filter(|&&from| from != to) {
                let mut known = 0;
                for &later in &by_thread[to] {
                    let earlier = &by_thread[from];
                    let before = |event: &EventIndex| self.order.ordered(model, *event, later);
                    let count = earlier.partition_point(before);
                    if count > known {
                        orders.push((earlier[count - 1], later));
                        known = count;
                    }
                }
            }
        }
        let fixed = chosen[..fixed.min(chosen.len())].windows(2);
        let fixed = fixed.filter(|pair| model.thread_of(pair[0]) != model.thread_of(pair[1]));
        orders.extend(fixed.map(|pair| (pair[0], pair[1])));
        orders.sort_unstable();
        orders.dedup();
        orders
    }
}

/// A schedule of the run in which these events happen in this order, and none of the others that `is_chosen`
/// names. Each thread goes on only as far as the next of the events, or what it needs, asks for. `None` if it is not
/// found that way.
pub(crate) fn realise(
    model: &Model,
    order: &[EventIndex],
    is_chosen: &[bool],
) -> Option<Vec<EventIndex>> {
    let mut run = Realisation {
        model,
        state: State::initial(model),
        schedule: Vec::new(),
        is_chosen,
        // Every event is executed once at most, and every step helps one that waits.
        steps: 8 * model.trace.events.len() + 1000,
    };
    for &event in order {
        let thread = model.thread_of(event);
        while !model.executed(&run.state, event) {
            run.advance(thread, Some(event), 0)?;
        }
    }
    Some(run.schedule)
}

struct Realisation<'a> {
    model: &'a Model<'a>,
    state: State,
    schedule: Vec<EventIndex>,
    is_chosen: &'a [bool],
    steps: usize,
}

/// How many threads may wait for each other in a row.
const DEEPEST: usize = 64;

impl Realisation<'_> {
    /// Takes the thread's next step, after whatever it needs of others. `wanted` is the one chosen event that
    /// may happen now.
    fn advance(
        &mut self,
        thread: ThreadId,
        wanted: Option<EventIndex>,
        depth: usize,
    ) -> Option<()> {
        let event = self.model.next(&self.state, thread)?;
        if self.is_chosen[event.index()] && wanted != Some(event) {
            return None;
        }
        loop {
            self.steps = self.steps.checked_sub(1)?;
            let mut steps = Vec::new();
            self.model.steps(&self.state, thread, &mut steps);
            if let Some(&step) = steps.first() {
                let event = self.model.take(&mut self.state, step);
                self.state.forget_trail();
                self.schedule.push(event);
                return Some(());
            }
            if depth == DEEPEST || self.model.readiness(&self.state, thread) == Readiness::Finished
            {
                return None;
            }
            let helper = self.helper(thread, event)?;
            self.advance(helper, None, depth + 1)?;
        }
    }

    /// A thread whose next step may let this event happen: one that holds its lock, or has what it needs, or
    /// else the one that was first in the run.
    fn helper(&self, thread: ThreadId, event: EventIndex) -> Option<ThreadId> {
        let model = self.model;
        let holders = model.holders_against(&self.state, event);
        if let Some(&holder) = holders.iter().find(|&&holder| holder != thread) {
            return Some(holder);
        }
        let mut needed = model.needed_before(event);
        if let Some(needed) = needed.find(|&needed| !model.executed(&self.state, needed)) {
            return Some(model.thread_of(needed)).filter(|&other| other != thread);
        }
        let others = model.thread_ids().filter(|&other| other != thread);
        let next = others.filter_map(|other| Some((model.next(&self.state, other)?, other)));
        let allowed = next.filter(|(next, _)| *next < event && !self.is_chosen[next.index()]);
        allowed.min().map(|(_, other)| other)
    }
}
