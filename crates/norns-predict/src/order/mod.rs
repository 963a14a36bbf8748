//! Prediction by the ordering solver: witnesses that respect values.
//!
//! After Said et al. (2011): a schedule is an order of the events under which every synchronisation object
//! allows each of its operations and every read sees what it saw. What is new here: events after
//! the bug are not placed at all, deadlocks are a property beside races, branches say which reads
//! count, all of POSIX threads is covered, and the solver is our own (`norns-order`); Z3 answers
//! the same questions where a second opinion is wanted (`Engine::problem`).
//!
//! Nothing leaves the engine that the checker of `norns-model`, and for values and branches
//! `check`, does not accept.

mod acts;
mod back_end;
mod branches;
mod by_thread;
mod candidates;
mod check;
mod clocks;
mod conditions;
mod counters;
mod encoding;
mod frame;
mod locks;
mod must;
mod needs;
mod reach;
mod registers;
mod rehearsal;
mod run;
mod stuck;
mod waiting;

use norns_model::checker::Checker;
use norns_model::{Bug, Meaning, Model, Witness};
use norns_order::{Answer, Formula, Literal, Node, Query, Solver, Statistics};
use norns_trace::{EventIndex, Trace};

pub use back_end::BackEnd;
#[cfg(feature = "z3")]
pub use back_end::SecondOpinion;
pub use candidates::Counts;
use candidates::Histories;
use check::ReadCheck;
use encoding::Encoding;
pub use encoding::Knowledge;
use frame::node;

/// What is known about a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Witness(Witness),
    /// No schedule shows it.
    Impossible,
    /// The budget was spent; or it is a `Bug::Stuck` and nobody was stuck after the schedule that
    /// was found.
    Undecided,
}

/// An event that takes place, and before which other one, if it matters.
type Earlier = (EventIndex, Option<EventIndex>);

/// Why there is no schedule.
enum Open {
    Impossible,
    Undecided,
}

/// Something that a replay has shown the trace not to tell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Constraint {
    /// No schedule has these events in this order.
    NotInThisOrder(Vec<EventIndex>),
    /// The second takes place only after the first.
    Before(EventIndex, EventIndex),
}

/// Longer traces are not asked about: a million events take half a gigabyte.
const MOST_EVENTS: usize = 1_000_000;
/// The same for events times threads: for each there are a few numbers.
const MOST_CLOCKS: usize = 32_000_000;

/// Whether a trace is too long for an `Engine`.
pub fn too_long(trace: &Trace) -> bool {
    let (events, threads) = (trace.events.len(), trace.threads.len());
    events > MOST_EVENTS || events.saturating_mul(threads) > MOST_CLOCKS
}

/// All questions about one trace.
pub struct Engine<'t> {
    model: Model<'t>,
    meaning: Meaning,
    encoding: Encoding,
    solver: Solver,
    checker: Checker<'t>,
    read_check: Option<ReadCheck>,
    histories: Histories,
    added: Vec<Constraint>,
    /// How many conflicts one question may cost.
    pub budget: u64,
    /// How many literals in clauses, about, are kept from one question to the next.
    pub memory: usize,
}

/// A formula for another solver, and what it is asked.
pub struct Problem {
    pub formula: Formula,
    pub nodes: usize,
    pub edges: Vec<(Node, Node)>,
    /// One question for every bug, in their order.
    pub queries: Vec<Vec<Literal>>,
}

impl<'t> Engine<'t> {
    pub fn new(trace: &'t Trace, meaning: Meaning) -> Self {
        Self::with_knowledge(trace, meaning, Knowledge::All)
    }

    /// The answers are the same; with little knowledge the search has to find more itself.
    pub fn with_knowledge(trace: &'t Trace, meaning: Meaning, knowledge: Knowledge) -> Self {
        let model = Model::new(trace, Meaning::Optimistic);
        let encoding = Encoding::new(&model, meaning, knowledge);
        let threads = model.threads.len() as u32;
        let chain = trace.events.iter().map(|event| event.thread.0);
        let mut solver = Solver::with_chains(chain.chain([threads]).collect(), &encoding.edges);
        solver.set_steady(encoding.frame.end);
        let by_write = meaning == Meaning::Faithful && !encoding.has_branches();
        let checked = if by_write {
            Meaning::Faithful
        } else {
            Meaning::Optimistic
        };
        Engine {
            checker: Checker::new(trace, checked),
            histories: Histories::of(&model),
            read_check: None,
            model,
            meaning,
            encoding,
            solver,
            added: Vec::new(),
            budget: 100_000,
            memory: 1_000_000,
        }
    }

    /// Reads that did not see the last write that the trace has: something that was not recorded
    /// wrote there. Each is taken to need the write before it.
    pub fn mismatches(&self) -> usize {
        self.encoding.mismatches
    }

    pub fn statistics(&self) -> Statistics {
        self.solver.statistics()
    }

    /// A schedule after which both accesses are next.
    pub fn race(&mut self, one: EventIndex, other: EventIndex) -> Outcome {
        let (first, second) = (one.min(other), one.max(other));
        self.find(Bug::Race { first, second })
    }

    /// A schedule after which all these acquisitions are next. They are a cycle: each wants a
    /// lock that the thread of the next one holds.
    pub fn lock_deadlock(&mut self, cycle: Vec<EventIndex>) -> Outcome {
        self.find(Bug::LockDeadlock { blocked: cycle })
    }

    /// From now on only schedules under this constraint count.
    pub fn add(&mut self, constraint: Constraint) {
        let literals = constraint_literals(&constraint, self.encoding.frame.end, &mut |a, b| {
            self.solver.before(a, b)
        });
        self.solver.add_clause(literals);
        self.added.push(constraint);
    }

    /// What earlier questions have taught is worth its memory only up to a limit.
    fn forget(&mut self) {
        self.solver.forget_all();
        self.encoding.forget_literals();
        for constraint in std::mem::take(&mut self.added) {
            self.add(constraint);
        }
    }

    /// A schedule that shows this bug.
    pub fn find(&mut self, bug: Bug) -> Outcome {
        let events = events_of(&bug);
        let is_candidate = match &bug {
            Bug::Race { first, second } => self.model.conflict(*first, *second),
            Bug::LockDeadlock { blocked } => self.is_cycle(blocked),
            Bug::Stuck { blocked } => return self.find_stuck(blocked.clone()),
        };
        if !is_candidate || self.is_surely_impossible(&bug) {
            return Outcome::Impossible;
        }
        match self.schedule(&events, &earlier(&self.model, &bug)) {
            Ok(schedule) => {
                let witness = Witness { schedule, bug };
                self.check(&witness);
                Outcome::Witness(witness)
            }
            Err(Open::Impossible) => Outcome::Impossible,
            Err(Open::Undecided) => Outcome::Undecided,
        }
    }

    /// A schedule in which `earlier` has taken place and these events, the next ones of their
    /// threads, have not.
    fn schedule(
        &mut self,
        events: &[EventIndex],
        earlier: &[Earlier],
    ) -> Result<Vec<EventIndex>, Open> {
        if self.solver.size() > self.memory {
            self.forget();
        }
        let model = &self.model;
        let needed: Vec<EventIndex> = earlier.iter().map(|pair| pair.0).collect();
        let plan = self.encoding.plan(model, events, &needed);
        let plan = plan.ok_or(Open::Impossible)?;
        let end = self.encoding.frame.end;
        // The first event that each thread does not reach.
        let beyond = plan.limits.iter().zip(&model.threads);
        let absent: Vec<Literal> = beyond
            .filter_map(|(&limit, thread)| thread.get(limit as usize))
            .map(|&event| self.solver.before(end, node(event)))
            .collect();
        let mut assumptions = absent;
        for (a, b) in edges(earlier, end) {
            assumptions.push(self.solver.before(a, b));
        }
        let query = Query {
            assumptions,
            start: Some(plan.start),
            conflicts: self.budget,
        };
        match self.solver.solve(&query, &mut self.encoding) {
            Answer::Unsatisfiable => return Err(Open::Impossible),
            Answer::Undecided => return Err(Open::Undecided),
            Answer::Satisfiable => {}
        }
        let nodes = self.solver.order().nodes().take_while(|&node| node != end);
        Ok(nodes.map(|node| EventIndex(node.0)).collect())
    }

    /// Where a wrong answer is worse than a stop.
    fn check(&mut self, witness: &Witness) {
        if let Err(refusal) = self.checker.check(witness) {
            panic!("the ordering solver gave a schedule that is none: {refusal}");
        }
        let by_value = self.meaning == Meaning::SameValues || self.encoding.has_branches();
        if self.meaning != Meaning::Optimistic && by_value {
            let (model, meaning) = (&self.model, self.meaning);
            let read_check = self
                .read_check
                .get_or_insert_with(|| ReadCheck::new(model, meaning));
            if let Err(event) = read_check.check(model, &witness.schedule) {
                panic!(
                    "the ordering solver let event {} see another value",
                    event.0
                );
            }
        }
    }

    /// The whole formula, and a question for each bug, for another solver.
    pub fn problem(&self, bugs: &[Bug]) -> Problem {
        let mut formula = Formula::new();
        // The variables of branch mode belong to one formula: a fresh encoding.
        let encoding = Encoding::new(&self.model, self.meaning, Knowledge::Little);
        encoding.all(&mut formula);
        let end = encoding.frame.end;
        for constraint in &self.added {
            let literals = constraint_literals(constraint, end, &mut |a, b| formula.before(a, b));
            formula.clause(literals);
        }
        let queries = bugs
            .iter()
            .map(|bug| {
                let absent = events_of(bug).into_iter().map(|event| (end, node(event)));
                let earlier = earlier(&self.model, bug);
                let edges = absent.chain(edges(&earlier, end));
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

fn events_of(bug: &Bug) -> Vec<EventIndex> {
    match bug {
        Bug::Race { first, second } => vec![*first, *second],
        Bug::LockDeadlock { blocked } | Bug::Stuck { blocked } => blocked.clone(),
    }
}

/// The event of the same thread before this one.
fn previous(model: &Model<'_>, event: EventIndex) -> Option<EventIndex> {
    let position = model.position_of(event).checked_sub(1)?;
    Some(model.threads[model.thread_of(event).index()][position])
}

/// What directly has to take place for `event` to be the next one of its thread.
fn needed_next(model: &Model<'_>, event: EventIndex) -> impl Iterator<Item = EventIndex> {
    previous(model, event)
        .into_iter()
        .chain(model.needed_before(event))
}

/// What has taken place where the bug is.
fn earlier(model: &Model<'_>, bug: &Bug) -> Vec<Earlier> {
    if let Bug::Stuck { blocked } = bug {
        return stuck::earlier(model, blocked);
    }
    let events = events_of(bug).into_iter();
    let needed = events.flat_map(|event| needed_next(model, event));
    needed.map(|event| (event, None)).collect()
}

/// As edges: what comes before the end of the schedule takes place.
fn edges(earlier: &[Earlier], end: Node) -> impl Iterator<Item = (Node, Node)> + '_ {
    let present = earlier.iter().map(move |&(event, _)| (node(event), end));
    let ordered = earlier.iter().filter_map(|&(event, latest)| {
        let latest = latest.filter(|&latest| latest != event)?;
        Some((node(event), node(latest)))
    });
    present.chain(ordered)
}

fn constraint_literals(
    constraint: &Constraint,
    end: Node,
    before: &mut impl FnMut(Node, Node) -> Literal,
) -> Vec<Literal> {
    match constraint {
        Constraint::Before(a, b) => {
            vec![before(node(*a), node(*b)), before(end, node(*b))]
        }
        Constraint::NotInThisOrder(events) => {
            let pairs = events.windows(2);
            let mut literals: Vec<Literal> = pairs
                .map(|pair| before(node(pair[1]), node(pair[0])))
                .collect();
            literals.extend(events.last().map(|&last| before(end, node(last))));
            literals
        }
    }
}
