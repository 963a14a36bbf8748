//! Adding clauses, learning them from conflicts, and dropping learned ones.

use super::{Clause, LEARNED, LEARNED_KEPT, Reason, Solver, WEIGHT_GROWTH, Watch};
use crate::formula::Literal;

impl Solver {
    /// Adds a clause, whatever the state of the trail. If it is unit or false at some level, goes back
    /// to that level and assigns its literal or returns the conflict.
    pub(super) fn attach(&mut self, mut literals: Vec<Literal>, glue: u32) -> Option<Vec<Literal>> {
        let rank = |solver: &Solver, literal: Literal| match solver.assigned_value(literal) {
            Some(true) | None => u32::MAX,
            Some(false) => solver.level[literal.variable()],
        };
        literals.sort_by_key(|&literal| std::cmp::Reverse(rank(self, literal)));
        match literals.len() {
            0 => {
                self.contradiction = true;
                return None;
            }
            1 => {
                self.backtrack(0);
                match self.assigned_value(literals[0]) {
                    Some(true) => {}
                    Some(false) => self.contradiction = true,
                    None => self.enqueue(literals[0], Reason::Decision),
                }
                return None;
            }
            _ => {}
        }
        let (first, second) = (rank(self, literals[0]), rank(self, literals[1]));
        let number = self.clauses.len() as u32;
        self.watch(number, &literals);
        self.learned += usize::from(glue > 0);
        let source = match glue {
            0 => self.tracked.len() as u32 - 1,
            _ => LEARNED,
        };
        self.clauses.push(Clause {
            literals: literals.clone(),
            glue,
            source,
        });
        if second == u32::MAX || self.assigned_value(literals[0]) == Some(true) {
            return None;
        }
        if first == u32::MAX || first > second {
            self.backtrack(second as usize);
            self.enqueue(literals[0], Reason::Clause(number));
            return None;
        }
        self.backtrack(first as usize);
        Some(literals)
    }

    /// Learns a clause from a conflict and goes back to the level at which it is unit.
    pub(super) fn resolve(&mut self, conflict: Vec<Literal>) {
        self.statistics.conflicts += 1;
        self.increment *= WEIGHT_GROWTH;
        if self.increment > 1e20 {
            self.weight.iter_mut().for_each(|weight| *weight *= 1e-20);
            self.increment *= 1e-20;
        }
        let top = conflict
            .iter()
            .map(|literal| self.level[literal.variable()])
            .max()
            .unwrap_or(0);
        if top == 0 {
            self.contradiction = true;
            return;
        }
        self.backtrack(top as usize);
        let mut learned = Vec::new();
        let mut open = 0;
        let mut index = self.trail.len();
        let mut literals = conflict;
        let asserting = loop {
            for &literal in &literals {
                let variable = literal.variable();
                if self.seen[variable] || self.level[variable] == 0 {
                    continue;
                }
                self.seen[variable] = true;
                self.blame(variable);
                if self.level[variable] == top {
                    open += 1;
                } else {
                    learned.push(literal);
                }
            }
            loop {
                index -= 1;
                if self.seen[self.trail[index].variable()] {
                    break;
                }
            }
            let literal = self.trail[index];
            self.seen[literal.variable()] = false;
            open -= 1;
            if open == 0 {
                break !literal;
            }
            literals = self.reason_of(literal);
        };
        let all = learned.clone();
        learned.retain(|&literal| !self.is_implied_by_seen(literal));
        for literal in all {
            self.seen[literal.variable()] = false;
        }
        let mut levels: Vec<u32> = learned
            .iter()
            .map(|literal| self.level[literal.variable()])
            .collect();
        levels.sort_unstable();
        levels.dedup();
        let back = levels.last().copied().unwrap_or(0);
        learned.insert(0, asserting);
        self.backtrack(back as usize);
        let conflict = self.attach(learned, levels.len() as u32 + 1);
        assert!(
            conflict.is_none(),
            "a learned clause is unit after going back"
        );
    }

    /// Raises the weight of the clause to which the assignment of a variable goes back: it took part
    /// in a conflict.
    fn blame(&mut self, variable: usize) {
        let clause = match self.reason[variable] {
            Reason::Decision => self.origin[variable],
            Reason::Clause(number) => self.clauses[number as usize].source,
            Reason::Path => return,
        };
        if let Some(weight) = self.weight.get_mut(clause as usize) {
            *weight += self.increment;
        }
    }

    /// Whether a literal of the learned clause is redundant: its reason has only literals that are in
    /// the learned clause as well.
    fn is_implied_by_seen(&self, literal: Literal) -> bool {
        let Reason::Clause(number) = self.reason[literal.variable()] else {
            return false;
        };
        self.clauses[number as usize].literals.iter().all(|other| {
            other.variable() == literal.variable()
                || self.seen[other.variable()]
                || self.level[other.variable()] == 0
        })
    }

    /// The other literals, all false, of the clause that made `literal` true.
    fn reason_of(&mut self, literal: Literal) -> Vec<Literal> {
        match self.reason[literal.variable()] {
            Reason::Decision => unreachable!("a decision is the last literal of its level"),
            Reason::Clause(number) => {
                let literals = self.clauses[number as usize].literals.iter();
                literals
                    .copied()
                    .filter(|&other| other != literal)
                    .collect()
            }
            Reason::Path => {
                let (a, b) = self.formula.edge(literal).expect("only edges have paths");
                let limit = self.trail_index[literal.variable()];
                let index = &self.trail_index;
                let path = self.graph.path(a, b, |edge| index[edge.variable()] < limit);
                let path = path.expect("the edges that implied the literal are still there");
                path.iter().map(|&edge| !edge).collect()
            }
        }
    }

    /// If there are many learned clauses, drops those that span the most levels. At level 0 only.
    pub(super) fn forget(&mut self) {
        if self.learned < LEARNED_KEPT + (self.clauses.len() - self.learned) {
            return;
        }
        let mut glues: Vec<u32> = self
            .clauses
            .iter()
            .map(|clause| clause.glue)
            .filter(|&glue| glue > 0)
            .collect();
        glues.sort_unstable();
        let limit = glues[glues.len() / 2].max(2);
        self.clauses.retain(|clause| clause.glue <= limit);
        self.learned = self.clauses.iter().filter(|clause| clause.glue > 0).count();
        for watching in &mut self.watches {
            watching.clear();
        }
        // Assignments of level 0 are never explained, so their reasons need not be renumbered. They
        // are propagated again, since a watched literal must not have been false before the clause
        // watches it.
        for literal in &self.trail {
            self.reason[literal.variable()] = Reason::Decision;
        }
        self.head = 0;
        let clauses = std::mem::take(&mut self.clauses);
        for (number, clause) in clauses.iter().enumerate() {
            self.watch(number as u32, &clause.literals);
        }
        self.clauses = clauses;
    }

    /// Watches the first two literals of a clause.
    fn watch(&mut self, clause: u32, literals: &[Literal]) {
        for (watched, blocker) in [(literals[0], literals[1]), (literals[1], literals[0])] {
            self.watches[watched.index()].push(Watch { clause, blocker });
        }
    }
}
