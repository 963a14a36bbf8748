//! The types of expressions and patterns.
//!
//! Process expressions are checked from a work list, so chains of prefixes and operators of any
//! length need no recursion; the rest recurses no deeper than brackets nest.

use super::decls::Checker;
use super::ty::{Constraint, Ty, TyId, Types};
use crate::diagnostic::{Diagnostic, Stage};
use crate::resolve::{DefId, DefKind};
use crate::syntax::ast::*;
use crate::syntax::print;

pub(super) type Result<T> = std::result::Result<T, Diagnostic>;

impl Checker<'_> {
    fn asymmetric<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let outer = std::mem::replace(&mut self.types.symmetric, false);
        let result = work(self);
        self.types.symmetric = outer;
        result
    }

    pub(super) fn type_of_def(&mut self, def: DefId) -> TyId {
        if self.schemes[def.0 as usize].is_none() {
            if let DefKind::Builtin(builtin) = self.resolved.def(def).kind {
                let scheme = super::builtins::scheme(&mut self.types, builtin);
                self.schemes[def.0 as usize] = Some(scheme);
            } else {
                let body = self.types.fresh();
                self.set_mono(def, body);
            }
        }
        let scheme = self.schemes[def.0 as usize]
            .clone()
            .expect("set just before");
        self.types.instantiate(&scheme)
    }

    // Expressions

    pub(super) fn expect(&mut self, id: ExprId, expected: TyId) -> Result<TyId> {
        if expected == Types::PROC && is_process(self.ast.expr(id)) {
            self.process(id)?;
            return Ok(Types::PROC);
        }
        let found = self.infer(id)?;
        self.unify_at(self.ast.expr_span(id), expected, found)
    }

    fn expect_all(&mut self, items: &[ExprId], expected: TyId) -> Result<()> {
        for &item in items {
            self.expect(item, expected)?;
        }
        Ok(())
    }

    /// The type of an expression, remembered for those who ask for it later.
    pub(super) fn infer(&mut self, id: ExprId) -> Result<TyId> {
        let ty = self.infer_node(id)?;
        self.expr_types[id.0 as usize] = Some(ty);
        Ok(ty)
    }

    fn infer_node(&mut self, id: ExprId) -> Result<TyId> {
        let ast = self.ast;
        let span = ast.expr_span(id);
        Ok(match ast.expr(id) {
            Expr::Int(_) => Types::INT,
            Expr::Bool(_) => Types::BOOL,
            Expr::Char(_) => Types::CHAR,
            Expr::Str(_) => self.types.seq_of(Types::CHAR),
            Expr::Var(_) => {
                let def = self.resolved.expr(id).expect("every name is resolved");
                self.type_of_def(def)
            }
            Expr::Tuple(items) => {
                let mut types = Vec::with_capacity(items.len());
                for &item in items {
                    types.push(self.infer(item)?);
                }
                self.types.add(Ty::Tuple(types.into()))
            }
            Expr::Dot(items) => {
                let mut parts = Vec::with_capacity(items.len());
                for &item in items {
                    parts.push(self.infer(item)?);
                }
                self.types.dots(&parts)
            }
            Expr::Items(Bracket::Seq, items) => {
                let element = self.types.fresh();
                let element = self.all_alike(items, element)?;
                self.types.seq_of(element)
            }
            Expr::Items(Bracket::Set, items) => {
                let element = self.types.fresh_with(Constraint::Set.bit());
                self.expect_all(items, element)?;
                self.types.set_of(element)
            }
            Expr::Comprehension(bracket, items, stmts) => {
                self.stmts(stmts, *bracket)?;
                match bracket {
                    Bracket::Seq => {
                        let element = self.types.fresh();
                        let element = self.all_alike(items, element)?;
                        self.types.seq_of(element)
                    }
                    Bracket::Set => {
                        let element = self.types.fresh_with(Constraint::Set.bit());
                        self.expect_all(items, element)?;
                        self.types.set_of(element)
                    }
                }
            }
            Expr::Range {
                bracket,
                from,
                to,
                stmts,
            } => {
                self.stmts(stmts.as_deref().unwrap_or_default(), *bracket)?;
                self.expect(*from, Types::INT)?;
                if let Some(to) = to {
                    self.expect(*to, Types::INT)?;
                }
                match bracket {
                    Bracket::Seq => self.types.seq_of(Types::INT),
                    Bracket::Set => self.types.set_of(Types::INT),
                }
            }
            Expr::Productions(items, stmts) => {
                self.stmts(stmts.as_deref().unwrap_or_default(), Bracket::Set)?;
                let result = self.types.fresh_with(Constraint::Yieldable.bit());
                for &item in items {
                    self.expect_extendable(item, result)?;
                }
                self.types.set_of(result)
            }
            Expr::Map(pairs) => {
                let key = self.types.fresh_with(Constraint::Set.bit());
                let value = self.types.fresh();
                for &(k, v) in pairs {
                    self.expect(k, key)?;
                    self.expect(v, value)?;
                }
                self.types.add(Ty::Map(key, value))
            }
            Expr::If(..) => {
                let mut id = id;
                let mut result = None;
                while let Expr::If(condition, then, other) = ast.expr(id) {
                    self.expect(*condition, Types::BOOL)?;
                    result = Some(match result {
                        None => self.infer(*then)?,
                        Some(result) => self.expect(*then, result)?,
                    });
                    id = *other;
                }
                let result = result.expect("at least one branch");
                self.expect(id, result)?
            }
            Expr::Let(decls, body) => {
                self.decls(decls)?;
                self.infer(*body)?
            }
            Expr::Lambda(pats, body) => {
                for &pat in pats {
                    self.pat(pat)?;
                }
                let result = self.infer(*body)?;
                self.lambdas.insert(id, result);
                let mut arguments = Vec::with_capacity(pats.len());
                for &pat in pats {
                    arguments.push(self.pat(pat)?);
                }
                self.types.add(Ty::Function(arguments.into(), result))
            }
            Expr::App(function, arguments) => self.application(*function, arguments)?,
            Expr::Unary(op, operand) => match op {
                UnaryOp::Not => self.expect(*operand, Types::BOOL)?,
                UnaryOp::Negate => self.expect(*operand, Types::INT)?,
                UnaryOp::Length => {
                    let element = self.types.fresh();
                    let seq = self.types.seq_of(element);
                    self.expect(*operand, seq)?;
                    Types::INT
                }
            },
            Expr::Binary(op, left, right) => match op {
                BinaryOp::And | BinaryOp::Or => self.chain(id, Types::BOOL, |op| {
                    matches!(op, BinaryOp::And | BinaryOp::Or)
                })?,
                BinaryOp::Plus
                | BinaryOp::Minus
                | BinaryOp::Times
                | BinaryOp::Divide
                | BinaryOp::Modulo => self.chain(id, Types::INT, |op| {
                    matches!(
                        op,
                        BinaryOp::Plus
                            | BinaryOp::Minus
                            | BinaryOp::Times
                            | BinaryOp::Divide
                            | BinaryOp::Modulo
                    )
                })?,
                BinaryOp::Concat => {
                    let element = self.types.fresh();
                    let seq = self.types.seq_of(element);
                    self.chain(id, seq, |op| op == BinaryOp::Concat)?
                }
                BinaryOp::Equal | BinaryOp::NotEqual => {
                    let ty = self.infer(*left)?;
                    let ty = self.expect(*right, ty)?;
                    self.constrain_at(span, Constraint::Eq, ty)?;
                    Types::BOOL
                }
                BinaryOp::Less
                | BinaryOp::LessEqual
                | BinaryOp::Greater
                | BinaryOp::GreaterEqual => {
                    let ty = self.infer(*left)?;
                    let ty = self.expect(*right, ty)?;
                    self.constrain_at(span, Constraint::Ord, ty)?;
                    Types::BOOL
                }
                _ => {
                    self.process(id)?;
                    Types::PROC
                }
            },
            Expr::Wildcard | Expr::Both(..) => {
                unreachable!("the parser leaves no patterns in expressions")
            }
            _ => {
                self.process(id)?;
                Types::PROC
            }
        })
    }

    /// The first item decides, the others must agree.
    fn all_alike(&mut self, items: &[ExprId], element: TyId) -> Result<TyId> {
        let Some((first, rest)) = items.split_first() else {
            return Ok(element);
        };
        let element = self.infer(*first)?;
        self.expect_all(rest, element)?;
        Ok(element)
    }

    /// All operands of a tree of like operators have one type.
    fn chain(&mut self, id: ExprId, ty: TyId, same: impl Fn(BinaryOp) -> bool) -> Result<TyId> {
        let mut left = vec![id];
        while let Some(id) = left.pop() {
            match self.ast.expr(id) {
                Expr::Binary(op, a, b) if same(*op) => left.extend([*b, *a]),
                _ => {
                    self.expect(id, ty)?;
                }
            }
        }
        Ok(ty)
    }

    fn application(&mut self, function: ExprId, arguments: &[ExprId]) -> Result<TyId> {
        let span = self.ast.expr_span(function);
        let found = self.infer(function)?;
        let head = self.types.head(found);
        let (expected, result) = match self.types.get(head).clone() {
            Ty::Function(expected, result) => {
                if expected.len() != arguments.len() {
                    let name = print::expression(self.ast, function, 40);
                    // The arguments that are too many, or else the call.
                    let at = match arguments.get(expected.len()..) {
                        Some([first, .., last]) => {
                            self.ast.expr_span(*first).to(self.ast.expr_span(*last))
                        }
                        Some([only]) => self.ast.expr_span(*only),
                        _ => match arguments.last() {
                            Some(&last) => span.to(self.ast.expr_span(last)),
                            None => span,
                        },
                    };
                    let error = Diagnostic::new(
                        Stage::Types,
                        at,
                        format!(
                            "`{name}` takes {}, but {} given",
                            count(expected.len(), "argument"),
                            match arguments.len() {
                                1 => "1 is".to_owned(),
                                many => format!("{many} are"),
                            }
                        ),
                    );
                    let shown = self.show(found);
                    let error = match arguments.len() > expected.len() {
                        true => error.label(match arguments.len() - expected.len() {
                            1 => "one too many".to_owned(),
                            more => format!("{more} too many"),
                        }),
                        false => error,
                    };
                    let error = error.related(span, format!("`{name}` has the type `{shown}`"));
                    return Err(match self.types.head_ty(result) {
                        Ty::Function(..) => error.help(format!(
                            "`{name}` takes its arguments in groups: write `{name}(…)(…)`"
                        )),
                        _ => error,
                    });
                }
                (expected.to_vec(), result)
            }
            _ => {
                let expected: Vec<TyId> = arguments.iter().map(|_| self.types.fresh()).collect();
                let result = self.types.fresh();
                let wanted = self
                    .types
                    .add(Ty::Function(expected.clone().into(), result));
                self.unify_at(span, wanted, found)?;
                (expected, result)
            }
        };
        for (index, (&argument, &expected)) in arguments.iter().zip(&expected).enumerate() {
            let span = self.ast.expr_span(argument);
            let found = self.infer(argument)?;
            let found = self.eval_dots_at(span, found)?;
            let expected = self.eval_dots_at(span, expected)?;
            let outcome = self.asymmetric(|checker| {
                checker
                    .types
                    .unify(expected, found)
                    .map_err(|why| checker.mismatch(span, expected, found, why))
            });
            outcome.map_err(|error| {
                let name = print::expression(self.ast, function, 40);
                let at = self.ast.expr_span(function);
                error.related(at, format!("argument {} of `{name}`", index + 1))
            })?;
        }
        Ok(result)
    }

    fn expect_extendable(&mut self, id: ExprId, result: TyId) -> Result<TyId> {
        let more = self.types.fresh_var(0);
        let wanted = self.types.add(Ty::Extendable(result, more));
        self.expect(id, wanted)
    }

    fn expect_events(&mut self, id: ExprId) -> Result<()> {
        self.expect(id, Types::EVENTS).map(|_| ())
    }

    fn pairs(&mut self, pairs: &[(ExprId, ExprId)]) -> Result<()> {
        for &(from, to) in pairs {
            let ty = self.expect_extendable(from, Types::EVENT)?;
            self.expect(to, ty)?;
        }
        Ok(())
    }

    pub(super) fn process(&mut self, id: ExprId) -> Result<()> {
        let ast = self.ast;
        let mut left = vec![id];
        while let Some(id) = left.pop() {
            self.expr_types[id.0 as usize] = Some(Types::PROC);
            match ast.expr(id) {
                Expr::Prefix {
                    event,
                    fields,
                    body,
                } => {
                    self.prefix(*event, fields)?;
                    left.push(*body);
                }
                Expr::Binary(BinaryOp::Guard, condition, process) => {
                    self.expect(*condition, Types::BOOL)?;
                    left.push(*process);
                }
                Expr::Binary(BinaryOp::Hide | BinaryOp::Project, process, set) => {
                    self.expect_events(*set)?;
                    left.push(*process);
                }
                Expr::Binary(
                    BinaryOp::ExternalChoice
                    | BinaryOp::InternalChoice
                    | BinaryOp::Interleave
                    | BinaryOp::Interrupt
                    | BinaryOp::Sliding
                    | BinaryOp::Sequence,
                    a,
                    b,
                ) => left.extend([*b, *a]),
                Expr::WithSet {
                    left: a,
                    set,
                    right: b,
                    ..
                } => {
                    self.expect_events(*set)?;
                    left.extend([*b, *a]);
                }
                Expr::Alphabetised {
                    left: a,
                    left_set,
                    right_set,
                    right: b,
                } => {
                    self.expect_events(*left_set)?;
                    self.expect_events(*right_set)?;
                    left.extend([*b, *a]);
                }
                Expr::Link {
                    left: a,
                    ties,
                    stmts,
                    right: b,
                } => {
                    self.stmts(stmts, Bracket::Set)?;
                    self.pairs(ties)?;
                    left.extend([*b, *a]);
                }
                Expr::Rename {
                    process,
                    pairs,
                    stmts,
                } => {
                    self.stmts(stmts, Bracket::Set)?;
                    self.pairs(pairs)?;
                    left.push(*process);
                }
                Expr::Replicated { op, stmts, body } => {
                    match op {
                        Replicated::Parallel(set) | Replicated::SyncChoice(set) => {
                            self.expect_events(*set)?;
                        }
                        _ => {}
                    }
                    let bracket = match op {
                        Replicated::Sequence | Replicated::Link { .. } => Bracket::Seq,
                        _ => Bracket::Set,
                    };
                    self.stmts(stmts, bracket)?;
                    match op {
                        Replicated::Alphabetised(set) => self.expect_events(*set)?,
                        Replicated::Link { ties, tie_stmts } => {
                            self.stmts(tie_stmts, Bracket::Set)?;
                            self.pairs(ties)?;
                        }
                        _ => {}
                    }
                    left.push(*body);
                }
                Expr::If(condition, then, other) => {
                    self.expect(*condition, Types::BOOL)?;
                    left.extend([*other, *then]);
                }
                Expr::Let(decls, body) => {
                    self.decls(decls)?;
                    left.push(*body);
                }
                _ => {
                    let found = self.infer(id)?;
                    self.unify_at(ast.expr_span(id), Types::PROC, found)?;
                }
            }
        }
        Ok(())
    }

    fn prefix(&mut self, event: ExprId, fields: &[Field]) -> Result<()> {
        let ast = self.ast;
        if fields.is_empty() {
            self.expect(event, Types::EVENT)?;
            return Ok(());
        }
        let mut parts = vec![self.infer(event)?];
        let mut span = ast.expr_span(event);
        for field in fields {
            match field {
                Field::Output(value) => {
                    parts.push(self.infer(*value)?);
                    span = span.to(ast.expr_span(*value));
                }
                Field::Input(pat, set) | Field::Nondeterministic(pat, set) => {
                    let at = ast.pat_span(*pat);
                    span = span.to(at);
                    let set = match set {
                        Some(set) => Some((self.infer(*set)?, ast.expr_span(*set))),
                        None => None,
                    };
                    let ty = self.pat(*pat)?;
                    if let Some((found, at)) = set {
                        let wanted = self.types.set_of(ty);
                        self.unify_at(at, wanted, found)?;
                        span = span.to(at);
                    }
                    self.constrain_at(at, Constraint::Complete, ty)?;
                    parts.push(ty);
                }
            }
        }
        let whole = self.types.dots(&parts);
        self.types.unify(Types::EVENT, whole).map_err(|why| {
            let first = self.types.head(parts[0]);
            let (fields, result) = self.types.reduce(first);
            let error = self.mismatch(span, Types::EVENT, whole, why);
            if result == Types::EVENT && !fields.is_empty() {
                let shown: Vec<String> = fields.iter().map(|&f| self.show(f)).collect();
                return error.related(
                    ast.expr_span(event),
                    format!("the fields of this channel are: {}", shown.join(" . ")),
                );
            }
            error
        })?;
        Ok(())
    }

    pub(super) fn stmts(&mut self, stmts: &[Stmt], bracket: Bracket) -> Result<()> {
        let ast = self.ast;
        for stmt in stmts {
            match stmt {
                Stmt::Condition(condition) => {
                    self.expect(*condition, Types::BOOL)?;
                }
                Stmt::Generator(pat, set) => {
                    let span = ast.expr_span(*set);
                    let found = self.infer(*set)?;
                    let found = self.eval_dots_at(span, found)?;
                    let element = self.pat(*pat)?;
                    let element = self.eval_dots_at(ast.pat_span(*pat), element)?;
                    let wanted = match bracket {
                        Bracket::Seq => self.types.seq_of(element),
                        Bracket::Set => self.types.set_of(element),
                    };
                    self.asymmetric(|checker| {
                        checker
                            .types
                            .unify(wanted, found)
                            .map_err(|why| checker.mismatch(span, wanted, found, why))
                    })?;
                }
            }
        }
        Ok(())
    }

    // Patterns
}

fn is_process(expr: &Expr) -> bool {
    match expr {
        Expr::Binary(op, ..) => matches!(
            op,
            BinaryOp::ExternalChoice
                | BinaryOp::InternalChoice
                | BinaryOp::Interleave
                | BinaryOp::Interrupt
                | BinaryOp::Sliding
                | BinaryOp::Sequence
                | BinaryOp::Guard
                | BinaryOp::Hide
                | BinaryOp::Project
        ),
        Expr::Prefix { .. }
        | Expr::WithSet { .. }
        | Expr::Alphabetised { .. }
        | Expr::Link { .. }
        | Expr::Rename { .. }
        | Expr::Replicated { .. }
        | Expr::If(..)
        | Expr::Let(..) => true,
        _ => false,
    }
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}
