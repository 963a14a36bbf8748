//! The solver: clauses over the order of nodes, decided lazily.
//!
//! A CDCL core (watched literals, first unique implication point, restarts) with acyclicity as
//! its theory. There is always a total assignment: the order of `Graph` and a value for every
//! Boolean. Only a clause that this assignment violates leads to a decision, so the cost of a query
//! depends on what it changes, not on what it leaves alone. When no clause is violated, the
//! assignment is the answer. (The theory follows the idea of Zord and Deagle, He et al. 2021; the
//! lazy decisions are ours.)
//!
//! Clauses need not be there from the beginning: a `Lazy` source examines the current order and adds
//! those that it violates. The solver keeps them and updates them when nodes move, so it finds later
//! violations without asking the source again. Of the violated clauses it decides one with few open
//! literals that took part in many recent conflicts (the weighted degrees of Boussemart et al. 2004;
//! activities of literals were tried and do more harm than good).

mod learn;
mod propagate;

use norns_budget::Budget;

use crate::formula::{Atom, Formula, Literal, Node};
use crate::graph::{Graph, Order};

/// The total assignment, as a source of clauses sees it.
pub struct View<'s> {
    pub order: &'s Order,
    current: &'s [bool],
}

impl View<'_> {
    /// False for a variable that was added after the assignment was made.
    pub fn knows(&self, literal: Literal) -> bool {
        literal.variable() < self.current.len()
    }

    pub fn value(&self, literal: Literal) -> bool {
        self.current[literal.variable()] != literal.negated()
    }
}

/// A source of clauses.
pub trait Lazy {
    /// Adds clauses that `view` violates to `formula`, and none only if it violates none. `changes`
    /// are those since the last call: each is the node after which the order has changed (`None`:
    /// from its beginning). A clause has to follow from the constraints alone, whatever the query. Its
    /// literals are tried from left to right.
    fn violated(&mut self, view: &View<'_>, changes: &[Option<Node>], formula: &mut Formula);

    /// A query begins with its initial order, in which the first `same` nodes are in the order of
    /// their numbers.
    fn begin(&mut self, _same: u32) {}
}

/// Adds no clauses.
pub struct NoLazyClauses;

impl Lazy for NoLazyClauses {
    fn violated(&mut self, _: &View<'_>, _: &[Option<Node>], _: &mut Formula) {}
}

pub struct Query {
    pub assumptions: Vec<Literal>,
    /// The initial order of all nodes; `None`: that of their numbers. Every fixed edge has to agree
    /// with it.
    pub start: Option<Vec<Node>>,
    /// After this many conflicts the answer is `Undecided`.
    pub conflicts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `Solver::order` and `Solver::value` are a model, which has been checked.
    Satisfiable,
    Unsatisfiable,
    Undecided,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub queries: u64,
    pub decisions: u64,
    pub conflicts: u64,
    pub theory_conflicts: u64,
    pub theory_propagations: u64,
    pub lazy_rounds: u64,
    pub moves: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Decision,
    Clause(u32),
    /// A path of edges that were there before the literal. It is searched again when it is needed.
    Path,
}

struct Clause {
    /// The first two are watched.
    literals: Vec<Literal>,
    /// How many decision levels a learned clause spans. 0 for a clause of the problem, which is
    /// never dropped.
    glue: u32,
    /// The index among the tracked clauses; `LEARNED` for a learned clause.
    source: u32,
}

/// A clause that watches a literal.
#[derive(Clone, Copy)]
struct Watch {
    clause: u32,
    /// Another literal of the clause. If it is true, the clause need not be examined.
    blocker: Literal,
}

/// How many violated clauses are compared before a decision.
const MOST_COMPARED: usize = 1000;
/// Clauses of at most this many literals are examined more closely before a decision.
const SHORT_CLAUSE: usize = 4;
/// By which factor each conflict counts more than the one before.
const WEIGHT_GROWTH: f32 = 1.05;
/// How many learned clauses are kept in addition to as many as the problem has.
const LEARNED_KEPT: usize = 4000;
/// The `Clause::source` of a learned clause.
const LEARNED: u32 = u32::MAX;

pub struct Solver {
    formula: Formula,
    graph: Graph,
    /// `Some` for variables on the trail.
    assigned: Vec<Option<bool>>,
    /// The total assignment. Agrees with `graph` and, after `propagate`, with `assigned`.
    current: Vec<bool>,
    // For every variable on the trail:
    level: Vec<u32>,
    reason: Vec<Reason>,
    trail_index: Vec<u32>,
    /// The assigned literals, in the order of their assignment.
    trail: Vec<Literal>,
    /// For every decision level, where it begins on the trail.
    level_starts: Vec<usize>,
    /// Literals before this index of the trail have been propagated through the clauses.
    head: usize,
    /// Edges of order literals before this index of the trail are in `graph`.
    theory_head: usize,
    /// For every literal, the clauses that watch it.
    watches: Vec<Vec<Watch>>,
    clauses: Vec<Clause>,
    /// How many of `clauses` are learned.
    learned: usize,
    /// The clauses of the problem, with the preferred literal first.
    tracked: Vec<Vec<Literal>>,
    /// For every literal, the tracked clauses that contain it.
    occurrences: Vec<Vec<u32>>,
    /// Tracked clauses that may be violated.
    suspects: Vec<u32>,
    /// For every tracked clause, whether it is among `suspects`.
    suspected: Vec<bool>,
    /// For every tracked clause, how often it took part in a conflict; later conflicts count more.
    weight: Vec<f32>,
    /// What the next conflict adds to a weight.
    increment: f32,
    /// For every variable that was decided, the tracked clause that it was decided for.
    origin: Vec<u32>,
    /// For every node, the variables of its order.
    variables_at: Vec<Vec<u32>>,
    /// Changes of the order since the lazy source was last asked.
    changes: Vec<Option<Node>>,
    /// For every variable, whether conflict analysis has reached it.
    seen: Vec<bool>,
    /// Whether the clauses are unsatisfiable whatever the query.
    contradiction: bool,
    /// The number of literals of all tracked clauses.
    size: usize,
    statistics: Statistics,
    /// When it is spent, the answer is `Undecided`.
    budget: Budget,
}

impl Solver {
    /// The initial order is that of the nodes' numbers, and every edge has to agree with it. Memory
    /// grows with the number of nodes times the number of chains; for many nodes use `with_chains`.
    pub fn new(nodes: usize, edges: &[(Node, Node)]) -> Self {
        Self::with_chains((0..nodes as u32).collect(), edges)
    }

    /// Like `new`, for nodes that are divided into chains, in which each node has an edge to the next.
    /// `chain` has the chain of every node.
    pub fn with_chains(chain: Vec<u32>, edges: &[(Node, Node)]) -> Self {
        assert!(
            edges.iter().all(|(a, b)| a < b),
            "fixed edges agree with the initial order"
        );
        Self::over(Graph::new(chain, edges))
    }

    fn over(graph: Graph) -> Self {
        Solver {
            formula: Formula::new(),
            variables_at: vec![Vec::new(); graph.node_count()],
            graph,
            assigned: Vec::new(),
            current: Vec::new(),
            level: Vec::new(),
            reason: Vec::new(),
            trail_index: Vec::new(),
            trail: Vec::new(),
            level_starts: Vec::new(),
            head: 0,
            theory_head: 0,
            watches: Vec::new(),
            clauses: Vec::new(),
            learned: 0,
            tracked: Vec::new(),
            occurrences: Vec::new(),
            suspects: Vec::new(),
            suspected: Vec::new(),
            weight: Vec::new(),
            increment: 1.0,
            origin: Vec::new(),
            changes: Vec::new(),
            seen: Vec::new(),
            contradiction: false,
            size: 0,
            statistics: Statistics::default(),
            budget: Budget::unlimited(),
        }
    }

    /// From now on all queries together may do this much work.
    pub fn set_budget(&mut self, budget: Budget) {
        self.budget = budget;
    }

    /// Pins a node to the place that the initial order of a query gives it: all others move around it.
    pub fn pin(&mut self, node: Node) {
        self.graph.pinned = Some(node);
    }

    pub fn before(&mut self, a: Node, b: Node) -> Literal {
        let literal = self.formula.before(a, b);
        self.adopt_atoms();
        literal
    }

    pub fn boolean(&mut self, start: bool) -> Literal {
        let literal = self.formula.boolean(start);
        self.adopt_atoms();
        literal
    }

    pub fn add_clause(&mut self, literals: Vec<Literal>) {
        self.backtrack(0);
        let Some(literals) = distinct(literals) else {
            return;
        };
        self.track(&literals);
        if let Some(conflict) = self.attach(literals, 0) {
            self.resolve(conflict);
        }
    }

    /// Roughly the number of literals of all clauses, on which the memory used depends.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Forgets all clauses and variables. Existing literals become meaningless.
    pub fn forget_all(&mut self) {
        self.backtrack(0);
        self.remove_edges();
        let graph = std::mem::replace(&mut self.graph, Graph::new(Vec::new(), &[]));
        *self = Solver {
            statistics: self.statistics,
            budget: self.budget.clone(),
            ..Self::over(graph)
        };
    }

    /// Removes the edges of all literals of the trail from the graph. At level 0 only.
    fn remove_edges(&mut self) {
        for index in (0..self.theory_head).rev() {
            if let Some((a, b)) = self.formula.edge(self.trail[index]) {
                self.graph.remove(a, b);
            }
        }
        self.theory_head = 0;
    }

    pub fn order(&self) -> &Order {
        &self.graph.order
    }

    /// The value in the total assignment.
    pub fn value(&self, literal: Literal) -> bool {
        self.current[literal.variable()] != literal.negated()
    }

    pub fn statistics(&self) -> Statistics {
        Statistics {
            moves: self.graph.visits,
            ..self.statistics
        }
    }

    pub fn solve(&mut self, query: &Query, lazy: &mut impl Lazy) -> Answer {
        self.statistics.queries += 1;
        self.begin(query, lazy);
        let first_conflict = self.statistics.conflicts;
        let mut until_restart = 64;
        let mut visits = self.graph.visits;
        loop {
            if self.contradiction {
                return Answer::Unsatisfiable;
            }
            let visited = self.graph.visits - visits;
            visits = self.graph.visits;
            if !self.budget.spend(1 + visited) {
                return Answer::Undecided;
            }
            if let Some(conflict) = self.propagate() {
                self.resolve(conflict);
                if self.statistics.conflicts - first_conflict >= query.conflicts {
                    return Answer::Undecided;
                }
                if self.statistics.conflicts - first_conflict >= until_restart {
                    until_restart = until_restart * 3 / 2 + 64;
                    self.backtrack(0);
                    self.forget();
                }
                continue;
            }
            if let Some(&assumption) = query.assumptions.get(self.level_starts.len()) {
                match self.assigned_value(assumption) {
                    Some(false) => return Answer::Unsatisfiable,
                    Some(true) => self.level_starts.push(self.trail.len()),
                    None => {
                        self.level_starts.push(self.trail.len());
                        self.enqueue(assumption, Reason::Decision);
                    }
                }
                continue;
            }
            if let Some((clause, open)) = self.next_violated() {
                let Some(literal) = self.choose(clause, &open) else {
                    continue;
                };
                self.origin[literal.variable()] = clause;
                self.statistics.decisions += 1;
                self.level_starts.push(self.trail.len());
                self.enqueue(literal, Reason::Decision);
                continue;
            }
            if !self.ask(lazy) {
                self.check_model(query);
                return Answer::Satisfiable;
            }
        }
    }

    /// Asks the source for violated clauses. Returns whether there are any.
    fn ask(&mut self, lazy: &mut impl Lazy) -> bool {
        self.statistics.lazy_rounds += 1;
        let view = View {
            order: &self.graph.order,
            current: &self.current,
        };
        lazy.violated(&view, &self.changes, &mut self.formula);
        self.changes.clear();
        self.adopt_atoms();
        let more = std::mem::take(&mut self.formula.clauses);
        if more.is_empty() {
            return false;
        }
        for literals in more {
            self.budget.count(4 * literals.len() as u64);
            let Some(literals) = distinct(literals) else {
                continue;
            };
            self.track(&literals);
            if let Some(conflict) = self.attach(literals, 0) {
                self.resolve(conflict);
            }
        }
        true
    }

    /// Adds a clause of the problem to those that are watched for violations by the order.
    fn track(&mut self, literals: &[Literal]) {
        let number = self.tracked.len() as u32;
        self.size += literals.len();
        self.suspected.push(false);
        self.weight.push(0.0);
        for &literal in literals {
            self.occurrences[literal.index()].push(number);
        }
        self.tracked.push(literals.to_vec());
        if !literals.iter().any(|&literal| self.value(literal)) {
            self.suspect(number);
        }
    }

    /// Sets the initial order of a query. Propagation adds the edges of level 0 again.
    fn begin(&mut self, query: &Query, lazy: &mut impl Lazy) {
        self.backtrack(0);
        self.forget();
        self.remove_edges();
        let same = self.graph.begin(query.start.as_deref());
        let looked_at = self.graph.node_count() + self.formula.atoms().len() + self.size;
        self.budget.count(looked_at as u64);
        self.changes.clear();
        lazy.begin(same);
        for (variable, atom) in self.formula.atoms().iter().enumerate() {
            self.current[variable] = match (*atom, self.assigned[variable]) {
                (Atom::Before(a, b), _) => self.graph.order.is_before(a, b),
                (Atom::Boolean(_), Some(value)) => value,
                (Atom::Boolean(start), None) => start,
            };
        }
        self.suspects.clear();
        self.suspected.fill(false);
        for clause in 0..self.tracked.len() {
            if !self.tracked[clause].iter().any(|&l| self.value(l)) {
                self.suspect(clause as u32);
            }
        }
    }

    /// Makes room for the variables that were added to the formula.
    fn adopt_atoms(&mut self) {
        for variable in self.assigned.len()..self.formula.atoms().len() {
            self.assigned.push(None);
            self.level.push(0);
            self.reason.push(Reason::Decision);
            self.trail_index.push(0);
            self.origin.push(LEARNED);
            self.seen.push(false);
            for _ in 0..2 {
                self.watches.push(Vec::new());
                self.occurrences.push(Vec::new());
            }
            let current = match self.formula.atoms()[variable] {
                Atom::Before(a, b) => {
                    self.variables_at[a.index()].push(variable as u32);
                    self.variables_at[b.index()].push(variable as u32);
                    self.graph.order.is_before(a, b)
                }
                Atom::Boolean(start) => start,
            };
            self.current.push(current);
        }
    }

    fn assigned_value(&self, literal: Literal) -> Option<bool> {
        self.assigned[literal.variable()].map(|value| value != literal.negated())
    }

    fn suspect(&mut self, clause: u32) {
        if !self.suspected[clause as usize] {
            self.suspected[clause as usize] = true;
            self.suspects.push(clause);
        }
    }

    /// Changes the value of a variable. Tracked clauses that relied on the old value become suspects.
    fn flip(&mut self, variable: usize) {
        self.current[variable] = !self.current[variable];
        let now_false = Literal::new(variable, self.current[variable]);
        for i in 0..self.occurrences[now_false.index()].len() {
            let clause = self.occurrences[now_false.index()][i];
            self.suspect(clause);
        }
    }

    /// The violated clause with the fewest open literals in relation to its weight, with these
    /// literals.
    ///
    /// A clause remains a suspect until it is found to hold, since a conflict can undo a decision
    /// before the order has changed.
    fn next_violated(&mut self) -> Option<(u32, Vec<Literal>)> {
        let mut best: Option<(f32, u32)> = None;
        let unit = self.increment;
        let mut suspects = std::mem::take(&mut self.suspects);
        let mut compared = 0;
        suspects.retain(|&clause| {
            if compared >= MOST_COMPARED {
                return true;
            }
            let literals = &self.tracked[clause as usize];
            self.budget.count(literals.len() as u64);
            let violated = !literals.iter().any(|&literal| self.value(literal));
            self.suspected[clause as usize] = violated;
            if violated {
                compared += 1;
                let is_open = |&&literal: &&Literal| self.assigned_value(literal).is_none();
                let open = literals.iter().filter(is_open).count() as f32;
                let open = open / (1.0 + self.weight[clause as usize] / unit);
                if best.is_none_or(|(fewest, _)| open < fewest) {
                    best = Some((open, clause));
                }
            }
            violated
        });
        self.suspects = suspects;
        let (_, clause) = best?;
        let literals = self.tracked[clause as usize].iter().copied();
        let open = literals.filter(|&literal| self.assigned_value(literal).is_none());
        Some((clause, open.collect()))
    }

    /// The first of the open literals of a clause. For a short clause, literals that the order cannot
    /// make true are assigned first, and the result is `None` if there are any. (For a long clause it
    /// is cheaper to learn that from conflicts.)
    fn choose(&mut self, clause: u32, open: &[Literal]) -> Option<Literal> {
        let mut all_possible = true;
        let is_short = self.tracked[clause as usize].len() <= SHORT_CLAUSE;
        let examined = if is_short { open } else { &[] };
        for &literal in examined {
            if let Some((a, b)) = self.formula.edge(literal)
                && self.graph.path(b, a, |_| true).is_some()
            {
                self.statistics.theory_propagations += 1;
                self.enqueue(!literal, Reason::Path);
                all_possible = false;
            }
        }
        let first = open
            .first()
            .expect("propagation has found the clauses without open literals");
        all_possible.then_some(*first)
    }

    fn enqueue(&mut self, literal: Literal, reason: Reason) {
        let variable = literal.variable();
        let value = !literal.negated();
        self.assigned[variable] = Some(value);
        self.level[variable] = self.level_starts.len() as u32;
        self.reason[variable] = reason;
        self.trail_index[variable] = self.trail.len() as u32;
        self.trail.push(literal);
        let is_boolean = matches!(self.formula.atoms()[variable], Atom::Boolean(_));
        if is_boolean && self.current[variable] != value {
            self.flip(variable);
        }
    }

    /// Checks an answer against all constraints, however it was found.
    fn check_model(&self, query: &Query) {
        let order = &self.graph.order;
        assert!(
            self.graph.fixed_edges().all(|(a, b)| order.is_before(a, b)),
            "the order respects the fixed edges"
        );
        let holds = |literal: &Literal| self.value(*literal);
        assert!(
            self.tracked.iter().all(|clause| clause.iter().any(holds)),
            "the order satisfies every clause"
        );
        assert!(
            query.assumptions.iter().all(holds),
            "the order satisfies the assumptions"
        );
    }
}

/// The clause without repeated literals; `None` if it always holds.
fn distinct(mut literals: Vec<Literal>) -> Option<Vec<Literal>> {
    let mut sorted = literals.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.windows(2).any(|pair| pair[0] == !pair[1]) {
        return None;
    }
    if sorted.len() < literals.len() {
        let mut left = sorted;
        literals.retain(|literal| match left.binary_search(literal) {
            Ok(at) => {
                left.remove(at);
                true
            }
            Err(_) => false,
        });
    }
    Some(literals)
}
