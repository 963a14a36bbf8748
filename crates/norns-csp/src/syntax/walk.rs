//! The parts of expressions, patterns and scopes, for those who walk over a tree.

use crate::syntax::ast::*;

/// A child of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Expr(ExprId),
    Pat(PatId),
    Decl(DeclId),
}

impl Ast {
    /// Adds the children of an expression in the order of the source.
    pub fn children(&self, id: ExprId, out: &mut Vec<Node>) {
        fn stmts(stmts: &[Stmt], out: &mut Vec<Node>) {
            for stmt in stmts {
                match stmt {
                    Stmt::Generator(pat, set) => {
                        out.push(Node::Expr(*set));
                        out.push(Node::Pat(*pat));
                    }
                    Stmt::Condition(condition) => out.push(Node::Expr(*condition)),
                }
            }
        }
        fn pairs(pairs: &[(ExprId, ExprId)], out: &mut Vec<Node>) {
            for &(left, right) in pairs {
                out.extend([Node::Expr(left), Node::Expr(right)]);
            }
        }
        match self.expr(id) {
            Expr::Int(_)
            | Expr::Bool(_)
            | Expr::Char(_)
            | Expr::Str(_)
            | Expr::Var(_)
            | Expr::Wildcard => {}
            Expr::Tuple(items) | Expr::Dot(items) | Expr::Items(_, items) => {
                out.extend(items.iter().map(|&item| Node::Expr(item)));
            }
            Expr::Comprehension(_, items, generators) => {
                stmts(generators, out);
                out.extend(items.iter().map(|&item| Node::Expr(item)));
            }
            Expr::Range {
                from,
                to,
                stmts: generators,
                ..
            } => {
                stmts(generators.as_deref().unwrap_or_default(), out);
                out.push(Node::Expr(*from));
                out.extend(to.map(Node::Expr));
            }
            Expr::Productions(items, generators) => {
                stmts(generators.as_deref().unwrap_or_default(), out);
                out.extend(items.iter().map(|&item| Node::Expr(item)));
            }
            Expr::Map(items) => pairs(items, out),
            Expr::If(condition, then, other) => {
                out.extend([*condition, *then, *other].map(Node::Expr));
            }
            Expr::Let(decls, body) => {
                out.extend(decls.iter().map(|&decl| Node::Decl(decl)));
                out.push(Node::Expr(*body));
            }
            Expr::Lambda(pats, body) => {
                out.extend(pats.iter().map(|&pat| Node::Pat(pat)));
                out.push(Node::Expr(*body));
            }
            Expr::App(function, arguments) => {
                out.push(Node::Expr(*function));
                out.extend(arguments.iter().map(|&argument| Node::Expr(argument)));
            }
            Expr::Unary(_, operand) => out.push(Node::Expr(*operand)),
            Expr::Binary(_, left, right) | Expr::Both(left, right) => {
                out.extend([*left, *right].map(Node::Expr));
            }
            Expr::Prefix {
                event,
                fields,
                body,
            } => {
                out.push(Node::Expr(*event));
                for field in fields {
                    match field {
                        Field::Input(pat, set) | Field::Nondeterministic(pat, set) => {
                            out.extend(set.map(Node::Expr));
                            out.push(Node::Pat(*pat));
                        }
                        Field::Output(value) => out.push(Node::Expr(*value)),
                    }
                }
                out.push(Node::Expr(*body));
            }
            Expr::WithSet {
                left, set, right, ..
            } => out.extend([*left, *set, *right].map(Node::Expr)),
            Expr::Alphabetised {
                left,
                left_set,
                right_set,
                right,
            } => out.extend([*left, *left_set, *right_set, *right].map(Node::Expr)),
            Expr::Link {
                left,
                ties,
                stmts: generators,
                right,
            } => {
                out.extend([*left, *right].map(Node::Expr));
                stmts(generators, out);
                pairs(ties, out);
            }
            Expr::Rename {
                process,
                pairs: renamed,
                stmts: generators,
            } => {
                out.push(Node::Expr(*process));
                stmts(generators, out);
                pairs(renamed, out);
            }
            Expr::Replicated {
                op,
                stmts: generators,
                body,
            } => {
                if let Replicated::Parallel(set) | Replicated::SyncChoice(set) = op {
                    out.push(Node::Expr(*set));
                }
                stmts(generators, out);
                match op {
                    Replicated::Alphabetised(set) => out.push(Node::Expr(*set)),
                    Replicated::Link { ties, tie_stmts } => {
                        stmts(tie_stmts, out);
                        pairs(ties, out);
                    }
                    _ => {}
                }
                out.push(Node::Expr(*body));
            }
        }
    }

    /// The declarations of a scope, those of timed sections after their section.
    pub fn with_timed(&self, decls: &[DeclId]) -> Vec<DeclId> {
        let mut all = Vec::with_capacity(decls.len());
        let mut left: Vec<DeclId> = decls.iter().rev().copied().collect();
        while let Some(decl) = left.pop() {
            all.push(decl);
            if let Decl::Timed { decls, .. } = self.decl(decl) {
                left.extend(decls.iter().rev());
            }
        }
        all
    }

    /// The patterns directly inside a pattern.
    pub fn inner_pats(&self, id: PatId, out: &mut Vec<PatId>) {
        match self.pat(id) {
            Pat::Tuple(pats) | Pat::Dot(pats) | Pat::Seq(pats) | Pat::Set(pats) => {
                out.extend(pats.iter().copied());
            }
            Pat::Concat(left, right) | Pat::Both(left, right) => out.extend([*left, *right]),
            _ => {}
        }
    }
}
