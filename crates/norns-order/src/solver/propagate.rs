//! Propagation: what follows from the assigned literals by clauses and by the order of the graph.

use super::{Reason, Solver, Watch};
use crate::formula::{Atom, Literal, Node};

impl Solver {
    /// Propagates until nothing more follows. Returns a conflict, if there is one: a clause whose
    /// literals are all false.
    pub(super) fn propagate(&mut self) -> Option<Vec<Literal>> {
        loop {
            if self.head < self.trail.len() {
                let literal = self.trail[self.head];
                self.head += 1;
                if let Some(clause) = self.propagate_clauses(!literal) {
                    return Some(self.clauses[clause as usize].literals.clone());
                }
            } else if self.theory_head < self.trail.len() {
                let literal = self.trail[self.theory_head];
                if let Some((a, b)) = self.formula.edge(literal) {
                    let Ok(change) = self.graph.insert(a, b, literal) else {
                        self.statistics.theory_conflicts += 1;
                        let path = self.graph.path(b, a, |_| true);
                        let path = path.expect("the search that found the cycle took this path");
                        let mut conflict = vec![!literal];
                        conflict.extend(path.iter().map(|&edge| !edge));
                        return Some(conflict);
                    };
                    self.theory_head += 1;
                    if let Some(change) = change {
                        self.changes.push(change.after);
                        self.after_move(a, b);
                    }
                } else {
                    self.theory_head += 1;
                }
            } else {
                return None;
            }
        }
    }

    /// Updates the variables of nodes that moved when the edge from `a` to `b` was added, and assigns
    /// those between the moved nodes and `a` or `b`, whose order the edge implies.
    fn after_move(&mut self, a: Node, b: Node) {
        for k in 0..self.graph.moved.len() {
            let node = self.graph.moved[k] as usize;
            self.budget.count(1 + self.variables_at[node].len() as u64);
            for i in 0..self.variables_at[node].len() {
                let variable = self.variables_at[node][i] as usize;
                let Atom::Before(first, second) = self.formula.atoms()[variable] else {
                    continue;
                };
                if self.current[variable] != self.graph.order.is_before(first, second) {
                    self.flip(variable);
                }
            }
        }
        for end in [a, b] {
            let at_end = self.variables_at[end.index()].len();
            // Goes through the variables of the end or through the moved nodes, whichever is less work.
            if at_end <= 4 * self.graph.moved.len() {
                for i in 0..at_end {
                    let variable = self.variables_at[end.index()][i] as usize;
                    let Atom::Before(first, second) = self.formula.atoms()[variable] else {
                        continue;
                    };
                    let other = if first == end { second } else { first };
                    if self.assigned[variable].is_none() && self.graph.has_moved(other) {
                        self.imply(variable, first, second);
                    }
                }
            } else {
                for i in 0..self.graph.moved.len() {
                    let other = Node(self.graph.moved[i]);
                    let Some(variable) = self.formula.variable(end, other) else {
                        continue;
                    };
                    if self.assigned[variable].is_none() {
                        self.imply(variable, end.min(other), end.max(other));
                    }
                }
            }
        }
    }

    /// Assigns a variable the value that it has in the current order.
    fn imply(&mut self, variable: usize, first: Node, second: Node) {
        self.statistics.theory_propagations += 1;
        let now = self.graph.order.is_before(first, second);
        self.enqueue(Literal::new(variable, !now), Reason::Path);
    }

    /// Propagates that `falsified` has become false. Returns a clause that is now false, if any.
    fn propagate_clauses(&mut self, falsified: Literal) -> Option<u32> {
        let mut watching = std::mem::take(&mut self.watches[falsified.index()]);
        self.budget.count(watching.len() as u64);
        let mut conflict = None;
        let mut kept = 0;
        let mut i = 0;
        'clauses: while i < watching.len() {
            let Watch { clause, blocker } = watching[i];
            i += 1;
            if self.assigned_value(blocker) == Some(true) {
                watching[kept] = Watch { clause, blocker };
                kept += 1;
                continue;
            }
            let literals = &mut self.clauses[clause as usize].literals;
            if literals[0] == falsified {
                literals.swap(0, 1);
            }
            let blocker = literals[0];
            let assigned = &self.assigned;
            let value = |l: Literal| assigned[l.variable()].map(|value| value != l.negated());
            if value(blocker) == Some(true) {
                watching[kept] = Watch { clause, blocker };
                kept += 1;
                continue;
            }
            for k in 2..literals.len() {
                if value(literals[k]) != Some(false) {
                    literals.swap(1, k);
                    let watched = literals[1];
                    self.watches[watched.index()].push(Watch { clause, blocker });
                    continue 'clauses;
                }
            }
            watching[kept] = Watch { clause, blocker };
            kept += 1;
            if value(blocker) == Some(false) {
                conflict = Some(clause);
                while i < watching.len() {
                    watching[kept] = watching[i];
                    kept += 1;
                    i += 1;
                }
            } else {
                self.enqueue(blocker, Reason::Clause(clause));
            }
        }
        watching.truncate(kept);
        self.watches[falsified.index()] = watching;
        conflict
    }

    /// Undoes all assignments above this level.
    pub(super) fn backtrack(&mut self, level: usize) {
        if self.level_starts.len() <= level {
            return;
        }
        let keep = self.level_starts[level];
        for index in (keep..self.trail.len()).rev() {
            let literal = self.trail[index];
            self.assigned[literal.variable()] = None;
            if index < self.theory_head
                && let Some((a, b)) = self.formula.edge(literal)
            {
                self.graph.remove(a, b);
            }
        }
        self.trail.truncate(keep);
        self.level_starts.truncate(level);
        self.head = self.head.min(keep);
        self.theory_head = self.theory_head.min(keep);
    }
}
