//! A trace as constraints over the order of its events.
//!
//! Here the objects are gathered, with the edges that hold in every schedule, and served to the
//! solver: what the current order violates first, as a `Run` finds it.

use std::cell::OnceCell;
use std::rc::Rc;

use norns_model::Model;
use norns_order::{Formula, Lazy, Node, View};
use norns_trace::{Event, EventIndex, Op};

use super::conditions::conditions;
use super::counters::{barriers, semaphores};
use super::frame::{Constraint, Frame, Part, Sight, node};
use super::locks::locks;
use super::must::Must;
use super::needs::Needs;
use super::reach::Reach;
use super::registers::{Reads, Register, locations, onces};
use super::run::{Objects, Run};
use super::waiting::Waiting;

/// The budget of `Waiting`.
const FEW_STATES: usize = 10_000;
const STATES_PER_EVENT: usize = 4;

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
    /// Constraints that a run does not follow: few, or, where branches say which reads count,
    /// those of memory.
    others: Vec<Box<dyn Constraint>>,
    pub reach: Reach,
    /// Explored when a question needs it.
    waiting: OnceCell<Option<Waiting>>,
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
    pub fn new(model: &Model<'_>, reads: Reads, knowledge: Knowledge) -> Self {
        let count = model.trace.events.len();
        let locks = locks(model);
        let (mut registers, mismatches) = locations(model, reads);
        let needs = Needs::of(model)
            .filter(|_| reads != Reads::Anything)
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
            let registers = registers.iter().filter(|_| needs.is_none());
            registers.chain(&onces).for_each(|r| must.add_register(r));
            conditions.iter().for_each(|c| must.add_condition(c));
        }
        let (clocks, edges) = must.finish();
        let mut others: Vec<Box<dyn Constraint>> = Vec::new();
        let barriers = barriers(model);
        others.extend(failed_joins(model).map(boxed));
        if needs.is_some() {
            others.extend(registers.drain(..).map(boxed));
        }
        registers.extend(onces);
        let objects = Objects {
            locks: locks.into_iter().flatten().collect(),
            registers,
            semaphores: semaphores(model),
            conditions,
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

    /// How many events of each thread can take place at most in a schedule after which `events`
    /// are next. `None` when there is none: less than what is `needed` of a thread, or they wait
    /// for each other so that the events cannot all be next.
    pub fn limits(
        &self,
        model: &Model<'_>,
        events: &[EventIndex],
        needed: &[EventIndex],
    ) -> Option<Vec<u32>> {
        let clocks = &self.frame.clocks;
        let needed = self.needed(model, needed);
        let mut limits: Vec<u32> = model.threads.iter().map(|e| e.len() as u32).collect();
        for &event in events {
            limits[model.thread_of(event).index()] = model.position[event.index()];
        }
        if self.knowledge == Knowledge::Little {
            return Some(limits);
        }
        if !self.reach.lower(model, clocks, &needed, &mut limits) {
            return None;
        }
        let budget = FEW_STATES + STATES_PER_EVENT * model.trace.events.len();
        let waiting = self
            .waiting
            .get_or_init(|| Waiting::new(model, clocks, budget));
        let allowed = waiting.as_ref().is_none_or(|w| w.allows(model, events));
        allowed.then_some(limits)
    }

    /// How many events of each thread take place when these do.
    fn needed(&self, model: &Model<'_>, events: &[EventIndex]) -> Vec<u32> {
        let known = |thread| {
            let known = events.iter().map(|&e| self.frame.clocks.known(e, thread));
            known.max().unwrap_or(0)
        };
        (0..model.threads.len()).map(known).collect()
    }

    /// Where to begin the search for a schedule in which `needed` take place: with what the trace
    /// has before its event number `first`, and what has to take place with them.
    pub fn start(&self, model: &Model<'_>, first: usize, needed: &[EventIndex]) -> Vec<bool> {
        let needed = self.needed(model, needed);
        let early = |(i, event): (usize, &Event)| {
            i < first || model.position[i] < needed[event.thread.index()]
        };
        let mut start: Vec<bool> = model.trace.events.iter().enumerate().map(early).collect();
        start.push(false);
        start
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
