//! A trace as constraints over the order of its events.
//!
//! Here the objects are gathered, with the edges that hold in every schedule, and served to the
//! solver: what the current order violates first, as a `Run` finds it.

use std::cell::OnceCell;
use std::rc::Rc;

use norns_model::{Meaning, Model};
use norns_order::{Formula, Lazy, Node, View};
use norns_trace::{Event, EventIndex, Op};

use super::conditions::conditions;
use super::counters::{barriers, semaphores};
use super::frame::{Constraint, Frame, Part, Sight, node};
use super::locks::locks;
use super::must::Must;
use super::needs::Needs;
use super::reach::Reach;
use super::registers::{Register, locations, onces};
use super::rehearsal::{Sections, Stops, rehearse};
use super::run::{Objects, Run};
use super::waiting::{Move, Prospect, Waiting, Way};

/// What a search begins with.
pub(super) struct Plan {
    /// How many events of each thread can take place at most.
    pub limits: Vec<u32>,
    /// The order to start from.
    pub start: Vec<Node>,
}

/// The budget of `Waiting`: states per event. A search about a short trace costs less than to
/// explore many.
const FEW_STATES: usize = 4;
const MANY_STATES: usize = 40;
const LONG: usize = 5_000;
const MOST_STATES: usize = 2_000_000;

pub(super) struct Encoding {
    pub frame: Frame,
    /// Edges that hold in every schedule; all agree with the trace.
    pub edges: Vec<(Node, Node)>,
    /// Reads that did not see the last write that the trace has.
    pub mismatches: usize,
    /// Where branch events say which reads need their values.
    needs: Option<Rc<Needs>>,
    knowledge: Knowledge,
    objects: Objects,
    run: Run,
    /// Constraints that a run does not follow: few.
    others: Vec<Box<dyn Constraint>>,
    pub reach: Reach,
    /// Explored when a question needs it.
    waiting: OnceCell<Option<Waiting>>,
    sections: OnceCell<Sections>,
}

/// What is known before the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// Must-happen-before as Said et al. (2011) have it: for another solver, which shall not rely
    /// on more of ours, and for tests of the search alone.
    Little,
    /// Also what follows from all that reads and waits need (`must`), from counting (`reach`) and
    /// from an exploration of waits (`waiting`).
    All,
}

impl Encoding {
    pub fn new(model: &Model<'_>, meaning: Meaning, knowledge: Knowledge) -> Self {
        let count = model.trace.events.len();
        let locks = locks(model);
        let (mut registers, mismatches) = locations(model, meaning);
        let needs = Needs::of(model)
            .filter(|_| meaning != Meaning::Optimistic)
            .map(Rc::new);
        if let Some(needs) = &needs {
            for register in &mut registers {
                register.set_needs(needs.clone());
            }
        }
        let onces = onces(model);
        let conditions = conditions(model);
        let mut must = Must::new(model, &locks, fixed_edges(model, &registers, &onces));
        if knowledge == Knowledge::All {
            if let Some(needs) = &needs {
                must.set_branches(needs.branches());
            }
            let registers = registers.iter();
            registers.chain(&onces).for_each(|r| must.add_register(r));
            conditions.iter().for_each(|c| must.add_condition(c));
        }
        let (clocks, edges) = must.finish();
        let mut others: Vec<Box<dyn Constraint>> = Vec::new();
        let barriers = barriers(model);
        others.extend(failed_joins(model).map(boxed));
        registers.extend(onces);
        let objects = Objects {
            locks: locks.into_iter().flatten().collect(),
            registers,
            semaphores: semaphores(model),
            conditions,
            needs: needs.clone(),
        };
        let reach = Reach::new(model, &objects, &barriers);
        others.extend(barriers.into_iter().map(boxed));
        Encoding {
            frame: Frame {
                end: Node(count as u32),
                clocks,
            },
            edges,
            mismatches,
            needs,
            knowledge,
            run: Run::new(count, &objects),
            objects,
            others,
            reach,
            waiting: OnceCell::new(),
            sections: OnceCell::new(),
        }
    }

    /// Whether branch events say which reads need their values.
    pub fn has_branches(&self) -> bool {
        self.needs.is_some()
    }

    /// The solver has forgotten all literals.
    pub fn forget_literals(&self) {
        if let Some(needs) = &self.needs {
            needs.forget_literals();
        }
    }

    /// Events, and the end of the schedule.
    pub fn node_count(&self) -> usize {
        self.frame.end.index() + 1
    }

    /// What a search for a schedule after which `events` are next can begin with. `None` when
    /// there is no such schedule, by counting or by how the threads wait for each other (which
    /// `Knowledge::Little` leaves to the search).
    pub fn plan(
        &self,
        model: &Model<'_>,
        events: &[EventIndex],
        needed: &[EventIndex],
    ) -> Option<Plan> {
        let clocks = &self.frame.clocks;
        let needed = self.needed(model, needed);
        let mut limits: Vec<u32> = model.threads.iter().map(|e| e.len() as u32).collect();
        for &event in events {
            limits[model.thread_of(event).index()] = model.position[event.index()];
        }
        let knows = self.knowledge == Knowledge::All;
        if knows && !self.reach.lower(model, clocks, &needed, &mut limits) {
            return None;
        }
        // As far as the trace has come before the first of the events; or as is needed.
        let first = events.iter().min().copied().unwrap_or(EventIndex(0));
        let come = |t: usize| model.threads[t].partition_point(|&event| event < first) as u32;
        let wish = (0..limits.len()).map(|t| come(t).max(needed[t]).min(limits[t]));
        let wish: Vec<u32> = wish.collect();
        let waiting = self.waiting.get_or_init(|| {
            let events = model.trace.events.len();
            let states = if events < LONG {
                FEW_STATES
            } else {
                MANY_STATES
            };
            let budget = (states * events).min(MOST_STATES);
            knows.then(|| Waiting::new(model, clocks, budget))?
        });
        let mut rehearsed = None;
        if let Some(waiting) = waiting {
            match waiting.prospect(model, events, [&needed, &limits, &wish]) {
                Prospect::Impossible => return None,
                Prospect::Unknown => {}
                Prospect::Way(way) => {
                    rehearsed = self.rehearse(model, waiting, &way, &wish, &limits);
                }
            }
        }
        let early = rehearsed.unwrap_or_else(|| {
            let events = model.trace.events.iter().enumerate();
            let early =
                |(i, event): &(usize, &Event)| model.position[*i] < wish[event.thread.index()];
            events.filter(early).map(|(i, _)| Node(i as u32)).collect()
        });
        Some(Plan {
            limits,
            start: self.with_the_rest(early),
        })
    }

    /// An order of what takes place on a way; `None` when the order of the trace is
    /// such a way, or when nothing better is found.
    fn rehearse(
        &self,
        model: &Model<'_>,
        waiting: &Waiting,
        way: &Way,
        wish: &[u32],
        limits: &[u32],
    ) -> Option<Vec<Node>> {
        let mut stops = Stops {
            wanted: wish.to_vec(),
            limits: limits.to_vec(),
        };
        for (t, &(least, most)) in way.ranges.iter().enumerate() {
            stops.limits[t] = limits[t].min(most);
            stops.wanted[t] = wish[t].max(least).min(stops.limits[t]);
        }
        if stops.wanted == wish && follows_the_trace(model, &way.moves) {
            return None;
        }
        let clocks = &self.frame.clocks;
        // Who need not stop there leaves its critical section.
        let sections = self.sections.get_or_init(|| Sections::new(model));
        for (t, events) in model.threads.iter().enumerate() {
            if let Some(end) = sections.end_around(events, stops.wanted[t])
                && end <= stops.limits[t]
            {
                stops.wanted[t] = end;
            }
        }
        let last = |t: usize, count: u32| Some(model.threads[t][count.checked_sub(1)? as usize]);
        for t in 0..wish.len() {
            let needed: Vec<EventIndex> = last(t, stops.wanted[t]).into_iter().collect();
            for (s, count) in self.needed(model, &needed).into_iter().enumerate() {
                stops.wanted[s] = stops.wanted[s].max(count);
            }
        }
        let possible = stops.wanted.iter().zip(&stops.limits).all(|(w, l)| w <= l);
        possible.then(|| rehearse(model, clocks, waiting, sections, &way.moves, &stops))?
    }

    /// These events, the end of the schedule, and all others.
    fn with_the_rest(&self, mut early: Vec<Node>) -> Vec<Node> {
        let mut is_early = vec![false; self.node_count()];
        for node in &early {
            is_early[node.index()] = true;
        }
        early.push(self.frame.end);
        let all = (0..self.frame.end.0).map(Node);
        early.extend(all.filter(|node| !is_early[node.index()]));
        early
    }

    /// How many events of each thread take place when these do.
    fn needed(&self, model: &Model<'_>, events: &[EventIndex]) -> Vec<u32> {
        let known = |thread| {
            let known = events.iter().map(|&e| self.frame.clocks.known(e, thread));
            known.max().unwrap_or(0)
        };
        (0..model.threads.len()).map(known).collect()
    }

    /// Everything at once, for another solver.
    pub fn all(&self, formula: &mut Formula) {
        let frame = &self.frame;
        let objects = &self.objects;
        objects.locks.iter().for_each(|o| o.all(frame, formula));
        objects.registers.iter().for_each(|o| o.all(frame, formula));
        objects
            .semaphores
            .iter()
            .for_each(|o| o.all(frame, formula));
        objects
            .conditions
            .iter()
            .for_each(|o| o.all(frame, formula));
        self.others.iter().for_each(|o| o.all(frame, formula));
    }
}

/// Whether a way has its events as the trace has them.
fn follows_the_trace(model: &Model<'_>, way: &[Move]) -> bool {
    let entry = |wait: EventIndex| {
        let thread = &model.threads[model.thread_of(wait).index()];
        thread[model.position_of(wait) - 1]
    };
    way.is_sorted_by_key(|step| step.event)
        && way.iter().all(|step| {
            let mut wakes = step.wakes.iter();
            wakes.all(|&wait| entry(wait) < step.event && step.event < wait)
        })
}

fn boxed<C: Constraint + 'static>(constraint: C) -> Box<dyn Constraint> {
    Box::new(constraint)
}

impl Lazy for Encoding {
    fn begin(&mut self, same: u32) {
        self.run.begin(same);
    }

    fn violated(&mut self, view: &View<'_>, changes: &[Option<Node>], formula: &mut Formula) {
        for &behind in changes {
            self.run.changed_behind(behind);
        }
        let sight = Sight {
            frame: &self.frame,
            view,
        };
        self.run.go_on(&self.objects, &sight, formula);
        if formula.clauses.is_empty() {
            for constraint in &self.others {
                constraint.violated(&sight, formula);
            }
        }
    }
}

/// What is ordered between threads whatever the values, and where a read can have one writer only.
fn fixed_edges(model: &Model<'_>, registers: &[Register], onces: &[Register]) -> Vec<(Node, Node)> {
    let between = model.orders_between_threads().iter();
    let mut edges: Vec<(Node, Node)> = between
        .map(|&(later, earlier)| (node(earlier), node(later)))
        .collect();
    for register in registers.iter().chain(onces) {
        edges.extend(register.only_writers());
    }
    edges
}

/// A join that gave up stands before the end of the thread.
struct FailedJoin([Node; 2], bool);

fn failed_joins(model: &Model<'_>) -> impl Iterator<Item = FailedJoin> {
    let events = model.trace.events.iter().enumerate();
    events.filter_map(|(i, event)| {
        let Op::FailedJoin(child) = event.op else {
            return None;
        };
        let last = *model.threads[child.index()].last()?;
        let (join, end) = (Node(i as u32), node(last));
        let ended = model.op(last) == Op::End;
        ended.then_some(FailedJoin([join.min(end), join.max(end)], join < end))
    })
}

impl FailedJoin {
    fn parts(&self) -> [Part; 2] {
        let [first, second] = self.0;
        let (join, end) = if self.1 {
            (first, second)
        } else {
            (second, first)
        };
        [Part::Before(join, end), Part::Absent(join)]
    }
}

impl Constraint for FailedJoin {
    fn violated(&self, sight: &Sight<'_>, formula: &mut Formula) {
        let [Part::Before(join, end), _] = self.parts() else {
            unreachable!("see `parts`")
        };
        if sight.takes_place(join) && sight.is_before(end, join) {
            self.all(sight.frame, formula);
        }
    }

    fn all(&self, frame: &Frame, formula: &mut Formula) {
        frame.clause(formula, self.parts());
    }
}
