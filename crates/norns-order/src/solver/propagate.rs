//! What follows from what is assigned: by clauses, and by the order of the graph.

use super::{Reason, Solver};
use crate::formula::{Atom, Literal, Node};

impl Solver {
    /// Until nothing follows any more, or to a conflict: a clause whose literals are all false.
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
                    if let Some(behind) = change {
                        self.changes.push(behind);
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

    /// What the new edge from `a` to `b` implies between the two and the nodes that moved.
    fn after_move(&mut self, a: Node, b: Node) {
        for k in 0..self.graph.moved.len() {
            let node = self.graph.moved[k] as usize;
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

    fn imply(&mut self, variable: usize, first: Node, second: Node) {
        self.statistics.theory_propagations += 1;
        let now = self.graph.order.is_before(first, second);
        self.enqueue(Literal::new(variable, !now), Reason::Path);
    }

    /// `falsified` has become false. The number of a clause that is now false is returned.
    fn propagate_clauses(&mut self, falsified: Literal) -> Option<u32> {
        let mut watching = std::mem::take(&mut self.watches[falsified.index()]);
        let mut conflict = None;
        let mut kept = 0;
        let mut i = 0;
        'clauses: while i < watching.len() {
            let (number, blocker) = watching[i];
            i += 1;
            if self.assigned_value(blocker) == Some(true) {
                watching[kept] = (number, blocker);
                kept += 1;
                continue;
            }
            let literals = &mut self.clauses[number as usize].literals;
            if literals[0] == falsified {
                literals.swap(0, 1);
            }
            let first = literals[0];
            let assigned = &self.assigned;
            let value = |l: Literal| assigned[l.variable()].map(|value| value != l.negated());
            if value(first) == Some(true) {
                watching[kept] = (number, first);
                kept += 1;
                continue;
            }
            for k in 2..literals.len() {
                if value(literals[k]) != Some(false) {
                    literals.swap(1, k);
                    let watched = literals[1];
                    self.watches[watched.index()].push((number, first));
                    continue 'clauses;
                }
            }
            watching[kept] = (number, first);
            kept += 1;
            if value(first) == Some(false) {
                conflict = Some(number);
                while i < watching.len() {
                    watching[kept] = watching[i];
                    kept += 1;
                    i += 1;
                }
            } else {
                self.enqueue(first, Reason::Clause(number));
            }
        }
        watching.truncate(kept);
        self.watches[falsified.index()] = watching;
        conflict
    }

    pub(super) fn backtrack(&mut self, level: usize) {
        if self.limits.len() <= level {
            return;
        }
        let keep = self.limits[level];
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
        self.limits.truncate(level);
        self.head = self.head.min(keep);
        self.theory_head = self.theory_head.min(keep);
    }
}
