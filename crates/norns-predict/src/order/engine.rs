//! The engine: a trace, and then any number of questions about it.

use norns_budget::Budget;
use norns_model::checker::Checker;
use norns_model::{Bug, Meaning, Model, Witness};
use norns_order::{Answer, Formula, Literal, Node, Query, Solver, Statistics};
use norns_trace::{EventIndex, Op, Trace};
use rustc_hash::FxHashSet;

use super::lock_history::LockHistory;
use super::objects::clause::node;
use super::query::{Required, constraint_clause, edges, required};
use super::read_check::ReadCheck;
use super::search::encoding::{Encoding, Preprocessing};

/// The answer about a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Witness(Witness),
    /// No schedule shows it.
    Impossible,
    /// The budget is spent. Or the bug is a `Bug::Stuck`, and its threads were not stuck after the
    /// schedule that was found.
    Undecided,
}

/// Why there is no schedule.
pub enum NoSchedule {
    /// This is proved.
    Impossible,
    /// The budget is spent.
    Undecided,
}

/// An order that a replay has shown to be infeasible, although the trace does not tell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Constraint {
    /// No schedule has these events in this order.
    NotInThisOrder(Vec<EventIndex>),
    /// The second event takes place only after the first.
    Before(EventIndex, EventIndex),
}

/// The engine takes about half a gigabyte of memory for this many events.
const MOST_EVENTS: usize = 1_000_000;
/// The greatest number of events times threads: vector clocks have a few numbers for each.
const MOST_CLOCK_ENTRIES: usize = 32_000_000;
/// Units of work for each event of the trace: before the first question, and for every question,
/// which begins with an order of all events and checks its answer.
const UNITS_TO_PREPARE: usize = 100;
const UNITS_TO_ASK: usize = 10;

/// Whether a trace is too long for an `Engine`.
pub fn too_long(trace: &Trace) -> bool {
    let (events, threads) = (trace.events.len(), trace.threads.len());
    events > MOST_EVENTS || events.saturating_mul(threads) > MOST_CLOCK_ENTRIES
}

pub struct Engine<'t> {
    pub(super) model: Model<'t>,
    meaning: Meaning,
    pub(super) encoding: Encoding,
    solver: Solver,
    pub(super) checker: Checker<'t>,
    /// Made when the first witness needs it.
    read_check: Option<ReadCheck>,
    pub(super) locks: LockHistory,
    /// The constraints added so far.
    added: Vec<Constraint>,
    /// How many conflicts the solver may have in one question.
    pub budget: u64,
    /// Roughly how many literals in clauses are kept from one question to the next.
    pub memory: usize,
    /// How much work all questions together may take.
    work: Budget,
}

/// The complete formula for another solver.
pub struct Problem {
    pub formula: Formula,
    pub nodes: usize,
    pub edges: Vec<(Node, Node)>,
    /// For each bug, the assumptions under which the formula is satisfiable if the bug is possible.
    pub queries: Vec<Vec<Literal>>,
}

impl<'t> Engine<'t> {
    pub fn new(trace: &'t Trace, meaning: Meaning) -> Self {
        Self::with_preprocessing(trace, meaning, Preprocessing::Full)
    }

    /// An engine whose preprocessing and questions share this much work. The answer is `Undecided`
    /// when it is spent.
    pub fn within(trace: &'t Trace, meaning: Meaning, work: Budget) -> Self {
        Self::build(trace, meaning, Preprocessing::Full, work)
    }

    /// The answers are the same with less preprocessing, but the search has to find more itself.
    pub fn with_preprocessing(
        trace: &'t Trace,
        meaning: Meaning,
        preprocessing: Preprocessing,
    ) -> Self {
        Self::build(trace, meaning, preprocessing, Budget::unlimited())
    }

    fn build(
        trace: &'t Trace,
        meaning: Meaning,
        preprocessing: Preprocessing,
        work: Budget,
    ) -> Self {
        work.count((UNITS_TO_PREPARE * trace.events.len()) as u64);
        let model = Model::new(trace, Meaning::Optimistic);
        let encoding = Encoding::new(&model, meaning, preprocessing, &work);
        let threads = model.threads.len() as u32;
        // The events of a thread are a chain, and the end of the schedule is one of its own.
        let chain = trace.events.iter().map(|event| event.thread.0);
        let mut solver = Solver::with_chains(chain.chain([threads]).collect(), &encoding.edges);
        solver.pin(encoding.frame.end);
        solver.set_budget(work.clone());
        // The checker knows neither values nor relevant reads; `read_check` does.
        let checked = match meaning {
            Meaning::Faithful if !encoding.has_branches() => Meaning::Faithful,
            Meaning::Faithful | Meaning::SameValues | Meaning::Optimistic => Meaning::Optimistic,
        };
        Engine {
            checker: Checker::new(trace, checked),
            locks: LockHistory::of(&model),
            read_check: None,
            model,
            meaning,
            encoding,
            solver,
            added: Vec::new(),
            budget: 100_000,
            memory: 1_000_000,
            work,
        }
    }

    /// How many reads did not see the last write that the trace has, because something that was not
    /// recorded wrote there. Each is taken to need the last recorded write before it.
    pub fn mismatches(&self) -> usize {
        self.encoding.mismatches
    }

    pub fn statistics(&self) -> Statistics {
        self.solver.statistics()
    }

    /// Asks for a schedule after which both accesses are next.
    pub fn race(&mut self, one: EventIndex, other: EventIndex) -> Outcome {
        let (first, second) = (one.min(other), one.max(other));
        self.find(Bug::Race { first, second })
    }

    /// Asks for a schedule after which all these acquisitions are next. They form a cycle: each
    /// waits for a lock that the thread of the next one holds.
    pub fn lock_deadlock(&mut self, cycle: Vec<EventIndex>) -> Outcome {
        self.find(Bug::LockDeadlock { blocked: cycle })
    }

    /// Restricts all later answers to schedules that satisfy this constraint.
    pub fn add(&mut self, constraint: Constraint) {
        let literals = constraint_clause(&constraint, self.encoding.frame.end, &mut |a, b| {
            self.solver.before(a, b)
        });
        self.solver.add_clause(literals);
        self.added.push(constraint);
    }

    /// Forgets the clauses learnt from earlier questions. They are worth their memory only up to a
    /// limit.
    fn forget(&mut self) {
        self.solver.forget_all();
        self.encoding.forget_variables();
        for constraint in std::mem::take(&mut self.added) {
            self.add(constraint);
        }
    }

    /// Asks for a schedule that shows this bug.
    pub fn find(&mut self, bug: Bug) -> Outcome {
        let is_candidate = match &bug {
            Bug::Race { first, second } => self.model.conflict(*first, *second),
            Bug::LockDeadlock { blocked } => self.is_cycle(blocked),
            Bug::Stuck { blocked } => return self.find_stuck(blocked.clone()),
            Bug::Order { events } => return self.find_order(events.clone()),
            // The checker says whether it is one.
            Bug::Atomicity { .. } => true,
        };
        if !is_candidate || self.is_surely_impossible(&bug) {
            return Outcome::Impossible;
        }
        match self.schedule_for(&bug) {
            Ok(schedule) => {
                let witness = Witness { schedule, bug };
                self.assert_valid(&witness);
                Outcome::Witness(witness)
            }
            Err(NoSchedule::Impossible) => Outcome::Impossible,
            Err(NoSchedule::Undecided) => Outcome::Undecided,
        }
    }

    /// Asks for a schedule in which these custom events happen in this order, and no others. That this order
    /// is wrong is for a rule to say: `norns-rules`.
    fn find_order(&mut self, events: Vec<EventIndex>) -> Outcome {
        let Some(&last) = events.last() else {
            return Outcome::Impossible;
        };
        let pairs = events.windows(2).map(|pair| Required {
            event: pair[0],
            before: Some(pair[1]),
        });
        let required: Vec<Required> = pairs.chain([Required::anywhere(last)]).collect();
        let happens: FxHashSet<EventIndex> = events.iter().copied().collect();
        let others = self.model.threads.iter().filter_map(|thread| {
            let is_other = |event: &&EventIndex| {
                matches!(self.model.op(**event), Op::Custom(_)) && !happens.contains(event)
            };
            thread.iter().find(is_other).copied()
        });
        let others: Vec<EventIndex> = others.collect();
        match self.schedule_without(&[], &required, &others) {
            Ok(mut schedule) => {
                let end = schedule.iter().position(|&event| event == last);
                schedule.truncate(end.map_or(schedule.len(), |end| end + 1));
                let bug = Bug::Order { events };
                let witness = Witness { schedule, bug };
                self.assert_valid(&witness);
                Outcome::Witness(witness)
            }
            Err(NoSchedule::Impossible) => Outcome::Impossible,
            Err(NoSchedule::Undecided) => Outcome::Undecided,
        }
    }

    /// A schedule that shows this bug, as far as its events are ordered as the bug says; whoever asks
    /// has it checked.
    pub(crate) fn schedule_for(&mut self, bug: &Bug) -> Result<Vec<EventIndex>, NoSchedule> {
        self.schedule(&bug.pending(), &required(&self.model, bug))
    }

    /// A schedule in which `required` has taken place and after which `events` are next.
    pub(super) fn schedule(
        &mut self,
        events: &[EventIndex],
        required: &[Required],
    ) -> Result<Vec<EventIndex>, NoSchedule> {
        self.schedule_without(events, required, &[])
    }

    /// As `schedule`, and `absent` does not take place.
    fn schedule_without(
        &mut self,
        events: &[EventIndex],
        required: &[Required],
        absent: &[EventIndex],
    ) -> Result<Vec<EventIndex>, NoSchedule> {
        if self.work.is_spent() {
            return Err(NoSchedule::Undecided);
        }
        self.work
            .count((UNITS_TO_ASK * self.model.trace.events.len()) as u64);
        if self.solver.size() > self.memory {
            self.forget();
        }
        let model = &self.model;
        let take_place: Vec<EventIndex> = required.iter().map(|r| r.event).collect();
        let plan = self.encoding.plan(model, events, &take_place);
        let plan = plan.ok_or(NoSchedule::Impossible)?;
        let end = self.encoding.frame.end;
        // The first event that each thread cannot reach.
        let beyond = plan.limits.iter().zip(&model.threads);
        let mut assumptions: Vec<Literal> = beyond
            .filter_map(|(&limit, thread)| thread.get(limit as usize))
            .map(|&event| self.solver.before(end, node(event)))
            .collect();
        for (a, b) in edges(required, end) {
            assumptions.push(self.solver.before(a, b));
        }
        for &event in absent {
            assumptions.push(self.solver.before(end, node(event)));
        }
        let query = Query {
            assumptions,
            start: Some(plan.start),
            conflicts: self.budget,
        };
        match self.solver.solve(&query, &mut self.encoding) {
            Answer::Unsatisfiable => return Err(NoSchedule::Impossible),
            Answer::Undecided => return Err(NoSchedule::Undecided),
            Answer::Satisfiable => {}
        }
        let nodes = self.solver.order().nodes().take_while(|&node| node != end);
        Ok(nodes.map(|node| EventIndex(node.0)).collect())
    }

    /// Panics if the witness is wrong: a wrong answer is worse than a stop.
    pub(super) fn assert_valid(&mut self, witness: &Witness) {
        if let Err(refusal) = self.checker.check(witness) {
            panic!("the ordering solver returned an invalid schedule: {refusal}");
        }
        let by_value = self.meaning == Meaning::SameValues || self.encoding.has_branches();
        if self.meaning != Meaning::Optimistic && by_value {
            let (model, meaning) = (&self.model, self.meaning);
            let read_check = self
                .read_check
                .get_or_insert_with(|| ReadCheck::new(model, meaning));
            if let Err(event) = read_check.check(model, &witness.schedule) {
                panic!(
                    "the ordering solver returned a schedule in which event {} reads another value",
                    event.0
                );
            }
        }
    }

    /// The complete formula, with one query for each bug, for another solver.
    pub fn problem(&self, bugs: &[Bug]) -> Problem {
        let mut formula = Formula::new();
        // A new encoding, since the variables of relevant reads belong to one formula only.
        let encoding = Encoding::new(
            &self.model,
            self.meaning,
            Preprocessing::Basic,
            &Budget::unlimited(),
        );
        encoding.all(&mut formula);
        let end = encoding.frame.end;
        for constraint in &self.added {
            let literals = constraint_clause(constraint, end, &mut |a, b| formula.before(a, b));
            formula.clause(literals);
        }
        let queries = bugs
            .iter()
            .map(|bug| {
                let absent = bug.pending().into_iter().map(|event| (end, node(event)));
                let required = required(&self.model, bug);
                let edges = absent.chain(edges(&required, end));
                edges.map(|(a, b)| formula.before(a, b)).collect()
            })
            .collect();
        Problem {
            formula,
            nodes: encoding.node_count(),
            edges: encoding.edges,
            queries,
        }
    }
}
