//! A trace as constraints over the order of its events.
//!
//! The objects of the trace are gathered here, with the edges that hold in every schedule, and served
//! to the solver: it gets the clauses that the current order violates, as the simulation finds them.

use std::rc::Rc;

use norns_budget::Budget;
use norns_model::{Meaning, Model};
use norns_order::{Formula, Lazy, Node, View};
use norns_trace::EventIndex;

use super::plan::{Plan, Planner};
use super::simulation::{Objects, Simulation};
use crate::order::known::must_happen_before::MustHappenBefore;
use crate::order::known::resources::Resources;
use crate::order::objects::barriers::barriers;
use crate::order::objects::clause::{Constraint, CurrentOrder, Frame, node};
use crate::order::objects::conditions::conditions;
use crate::order::objects::joins::failed_joins;
use crate::order::objects::locks::locks;
use crate::order::objects::memory::{Locations, locations};
use crate::order::objects::once::onces;
use crate::order::objects::registers::Register;
use crate::order::objects::relevance::Relevance;
use crate::order::objects::semaphores::semaphores;

/// How much is derived from the trace before the search. The answers do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preprocessing {
    /// Must-happen-before as in Said et al. (2011). For another solver, which is not to rely on more
    /// of our work, and for tests of the search alone.
    Basic,
    /// Also what follows from everything that reads and waits require, from counting, and from an
    /// exploration of how threads wait for each other (`known`).
    Full,
}

pub struct Encoding {
    pub frame: Frame,
    /// Edges that hold in every schedule. All of them agree with the order of the trace.
    pub edges: Vec<(Node, Node)>,
    /// How many reads did not see the last write that the trace has.
    pub mismatches: usize,
    planner: Planner,
    objects: Objects,
    simulation: Simulation,
    /// Constraints that the simulation does not follow. There are few.
    others: Vec<Box<dyn Constraint>>,
}

impl Encoding {
    pub fn new(
        model: &Model<'_>,
        meaning: Meaning,
        preprocessing: Preprocessing,
        budget: &Budget,
    ) -> Self {
        let count = model.trace.events.len();
        let locks = locks(model);
        let Locations {
            mut registers,
            mismatches,
        } = locations(model, meaning);
        let relevance = Relevance::of(model)
            .filter(|_| meaning != Meaning::Optimistic)
            .map(Rc::new);
        if let Some(relevance) = &relevance {
            for register in &mut registers {
                register.set_relevance(relevance.clone());
            }
        }
        let onces = onces(model);
        let conditions = conditions(model);
        let edges = fixed_edges(model, &registers, &onces);
        let mut must = MustHappenBefore::new(model, &locks, edges);
        if preprocessing == Preprocessing::Full {
            if let Some(relevance) = &relevance {
                must.set_branches(relevance.branches());
            }
            let registers = registers.iter();
            registers.chain(&onces).for_each(|r| must.add_register(r));
            conditions.iter().for_each(|c| must.add_condition(c));
        }
        let (clocks, edges) = must.finish(budget);
        let barriers = barriers(model);
        registers.extend(onces);
        let objects = Objects {
            locks: locks.into_iter().flatten().collect(),
            registers,
            semaphores: semaphores(model),
            conditions,
            relevance,
        };
        let resources = Resources::new(model, &objects, &barriers);
        let mut others: Vec<Box<dyn Constraint>> = Vec::new();
        others.extend(failed_joins(model).map(boxed));
        others.extend(barriers.into_iter().map(boxed));
        Encoding {
            frame: Frame {
                end: Node(count as u32),
                clocks,
            },
            edges,
            mismatches,
            planner: Planner::new(preprocessing, resources, budget.clone()),
            simulation: Simulation::new(count, &objects, budget.clone()),
            objects,
            others,
        }
    }

    /// Whether branch events decide which reads need their values.
    pub fn has_branches(&self) -> bool {
        self.objects.relevance.is_some()
    }

    /// Has to be called when the solver forgets its variables.
    pub fn forget_variables(&self) {
        if let Some(relevance) = &self.objects.relevance {
            relevance.forget_variables();
        }
    }

    /// The number of nodes: the events and the end of the schedule.
    pub fn node_count(&self) -> usize {
        self.frame.end.index() + 1
    }

    /// Where to start the search for a schedule in which `required` has taken place and after which
    /// `events` are next. `None` if there is no such schedule.
    pub fn plan(
        &self,
        model: &Model<'_>,
        events: &[EventIndex],
        required: &[EventIndex],
    ) -> Option<Plan> {
        self.planner.plan(model, &self.frame, events, required)
    }

    /// Adds the complete encoding, for another solver.
    pub fn all(&self, formula: &mut Formula) {
        let frame = &self.frame;
        let objects = &self.objects;
        objects.locks.iter().for_each(|o| o.all(frame, formula));
        objects.registers.iter().for_each(|o| o.all(frame, formula));
        let semaphores = objects.semaphores.iter();
        semaphores.for_each(|o| o.all(frame, formula));
        let conditions = objects.conditions.iter();
        conditions.for_each(|o| o.all(frame, formula));
        self.others.iter().for_each(|o| o.all(frame, formula));
    }
}

fn boxed<C: Constraint + 'static>(constraint: C) -> Box<dyn Constraint> {
    Box::new(constraint)
}

impl Lazy for Encoding {
    fn begin(&mut self, same: u32) {
        self.simulation.begin(same);
    }

    fn violated(&mut self, view: &View<'_>, changes: &[Option<Node>], formula: &mut Formula) {
        for &after in changes {
            self.simulation.changed_after(after);
        }
        let current = CurrentOrder {
            frame: &self.frame,
            view,
        };
        self.simulation.advance(&self.objects, &current, formula);
        if formula.clauses.is_empty() {
            for constraint in &self.others {
                constraint.violated(&current, formula);
            }
        }
    }
}

/// Orders between threads that hold whatever the values, and those between a read and the only write
/// that it can see.
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
