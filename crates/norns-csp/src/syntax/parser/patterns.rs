//! Patterns: read as expressions first, then turned into what they match.

use rustc_hash::FxHashMap;

use super::{Parser, Result};
use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;

impl Parser<'_> {
    /// Turns an expression into a pattern. The nodes of the expression are spent: pattern-only
    /// ones are overwritten, so that `check_no_pattern` does not see them again.
    pub(super) fn pattern(&mut self, root: ExprId) -> Result<PatId> {
        enum Step {
            Visit(ExprId),
            Build(ExprId),
        }
        let mut steps = vec![Step::Visit(root)];
        let mut done: FxHashMap<ExprId, PatId> = FxHashMap::default();
        while let Some(step) = steps.pop() {
            match step {
                Step::Visit(id) => {
                    steps.push(Step::Build(id));
                    match self.ast.expr(id) {
                        Expr::Tuple(items) | Expr::Dot(items) | Expr::Items(_, items) => {
                            steps.extend(items.iter().map(|&item| Step::Visit(item)));
                        }
                        Expr::Binary(BinaryOp::Concat, left, right) | Expr::Both(left, right) => {
                            steps.push(Step::Visit(*left));
                            steps.push(Step::Visit(*right));
                        }
                        _ => {}
                    }
                }
                Step::Build(id) => {
                    let pat = self.build_pattern(id, &done)?;
                    let span = self.ast.expr_span(id);
                    if matches!(self.ast.expr(id), Expr::Wildcard | Expr::Both(..)) {
                        *self.ast.expr_mut(id) = Expr::Int(0);
                    }
                    let pat = self.ast.add_pat(pat, span);
                    done.insert(id, pat);
                }
            }
        }
        Ok(done[&root])
    }

    fn build_pattern(&self, id: ExprId, done: &FxHashMap<ExprId, PatId>) -> Result<Pat> {
        let all = |items: &[ExprId]| items.iter().map(|item| done[item]).collect::<Pats>();
        Ok(match self.ast.expr(id) {
            Expr::Int(value) => Pat::Int(*value),
            Expr::Bool(value) => Pat::Bool(*value),
            Expr::Char(value) => Pat::Char(*value),
            Expr::Str(value) => Pat::Str(value.clone()),
            Expr::Var(name) => Pat::Var(*name),
            Expr::Wildcard => Pat::Wildcard,
            Expr::Tuple(items) => Pat::Tuple(all(items)),
            Expr::Dot(items) => Pat::Dot(all(items)),
            Expr::Items(Bracket::Seq, items) => Pat::Seq(all(items)),
            Expr::Items(Bracket::Set, items) if items.len() <= 1 => Pat::Set(all(items)),
            Expr::Items(Bracket::Set, _) => {
                return Err(Diagnostic::new(
                    Stage::Syntax,
                    self.ast.expr_span(id),
                    "a set pattern has at most one element",
                )
                .help("sets have no order, so `{x, y}` does not say which is which"));
            }
            Expr::Binary(BinaryOp::Concat, left, right) => Pat::Concat(done[left], done[right]),
            Expr::Both(left, right) => Pat::Both(done[left], done[right]),
            _ => {
                return Err(Diagnostic::new(
                    Stage::Syntax,
                    self.ast.expr_span(id),
                    "this is not a pattern",
                )
                .help("patterns: names, `_`, literals, tuples, `<x>^xs`, `A.x`, `{}`, `{x}`, `p @@ q`"));
            }
        })
    }
}
