//! Expressions: operators by their binding strength.
//!
//! The levels are those of libcspm's grammar (`Parser.ppy`). What a table cannot say is said in
//! code: `P \ A ||| Q` is `(P \ A) ||| Q` although `\` binds loosest (`hide`). A chain of
//! prefixes, guards, `else` branches or operators of any length is read in a loop.

use super::declarations::Place;
use super::{Parser, Result};
use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;
use crate::syntax::source::Span;
use crate::syntax::token::Tok;

/// Binding strength, loosest first.
pub(super) mod level {
    pub const BOTH: u8 = 2;
    pub const HIDE: u8 = 3;
    pub const INTERLEAVE: u8 = 4;
    pub const PARALLEL: u8 = 5;
    pub const INTERNAL: u8 = 6;
    pub const EXTERNAL: u8 = 7;
    pub const INTERRUPT: u8 = 8;
    pub const SLIDING: u8 = 9;
    pub const SEQUENCE: u8 = 10;
    pub const PREFIX: u8 = 11;
    pub const FIELD: u8 = 12;
    pub const DOT: u8 = 14;
    pub const COLON: u8 = 15;
    pub const OR: u8 = 16;
    pub const AND: u8 = 17;
    pub const NOT: u8 = 18;
    pub const COMPARE: u8 = 19;
    pub const PLUS: u8 = 20;
    pub const TIMES: u8 = 21;
    pub const HASH: u8 = 22;
    pub const CONCAT: u8 = 23;
}

/// What waits for its right operand, which is still being read.
enum Pending {
    Binary(BinaryOp, ExprId),
    Prefix(ExprId, Box<[Field]>),
    Not(Span),
    Negate(Span),
    Length(Span),
    If(Span, ExprId, ExprId),
    Let(Span, Box<[DeclId]>),
    Lambda(Span, Pats),
    Replicated(Span, Replicated, Stmts),
    WithSet(SetOp, ExprId, ExprId),
    Alphabetised(ExprId, ExprId, ExprId),
    Link(ExprId, Box<[(ExprId, ExprId)]>, Stmts),
    Dot(Vec<ExprId>),
    Both(ExprId),
}

impl Parser<'_> {
    /// An expression without pattern-only parts.
    pub(super) fn expression(&mut self) -> Result<ExprId> {
        let first = self.ast.expr_count();
        let expr = self.operators(0)?;
        self.check_no_pattern(first)?;
        Ok(expr)
    }

    /// `_` and `@@` are refused wherever they did not become part of a pattern. Patterns are
    /// converted by replacing their nodes, so what is left of either since `first` is wrong.
    fn check_no_pattern(&self, first: usize) -> Result<()> {
        for index in first..self.ast.expr_count() {
            let id = ExprId(index as u32);
            let what = match self.ast.expr(id) {
                Expr::Wildcard => "`_`",
                Expr::Both(..) => "`@@`",
                _ => continue,
            };
            return Err(Diagnostic::new(
                Stage::Syntax,
                self.ast.expr_span(id),
                format!("{what} is a pattern; it cannot stand in an expression"),
            ));
        }
        Ok(())
    }

    pub(super) fn comma_list(&mut self) -> Result<Vec<ExprId>> {
        let mut items = vec![self.operators(0)?];
        while self.eat(Tok::Comma) {
            items.push(self.operators(0)?);
        }
        Ok(items)
    }

    /// Reads operators that bind at least as tightly as `minimum`. `pending` holds what waits
    /// for a right operand together with the level at which it was opened.
    pub(super) fn operators(&mut self, minimum: u8) -> Result<ExprId> {
        let mut pending: Vec<(Pending, u8)> = Vec::new();
        let mut minimum = minimum;
        let mut left = self.operand(&mut pending, &mut minimum)?;
        loop {
            left = self.postfix(left)?;
            let tok = self.peek().clone();
            if let Some((op, strength, right_minimum)) = binary(&tok)
                && strength >= minimum
                && !(tok == Tok::Greater && self.in_sequence())
            {
                self.advance();
                pending.push((Pending::Binary(op, left), minimum));
                minimum = right_minimum;
                left = self.operand(&mut pending, &mut minimum)?;
                continue;
            }
            let next = match tok {
                Tok::Dot if level::DOT >= minimum => {
                    self.advance();
                    if let Some((Pending::Dot(parts), _)) = pending.last_mut()
                        && minimum == level::DOT
                    {
                        parts.push(left);
                        left = self.operand(&mut pending, &mut minimum)?;
                        continue;
                    }
                    Some((Pending::Dot(vec![left]), level::DOT))
                }
                Tok::DoubleAt if level::BOTH >= minimum => {
                    self.advance();
                    Some((Pending::Both(left), level::BOTH + 1))
                }
                Tok::Arrow if level::PREFIX >= minimum => {
                    self.advance();
                    Some((Pending::Prefix(left, Box::default()), level::PREFIX))
                }
                Tok::Question | Tok::Exclamation | Tok::Dollar if level::PREFIX >= minimum => {
                    let fields = self.fields()?;
                    self.expect(Tok::Arrow, "after the fields of the event")?;
                    Some((Pending::Prefix(left, fields), level::PREFIX))
                }
                Tok::LeftPipeSquare if level::PARALLEL >= minimum => {
                    self.advance();
                    let set = self.bracket(|parser| parser.operators(0))?;
                    let op = match self.peek() {
                        Tok::RightPipeSquare => SetOp::Parallel,
                        Tok::ExceptionEnd => SetOp::Exception,
                        _ => return Err(self.unexpected("`|]` or `|>` after the set of events")),
                    };
                    self.advance();
                    Some((Pending::WithSet(op, left, set), level::PARALLEL + 1))
                }
                Tok::SyncChoiceStart if level::EXTERNAL >= minimum => {
                    self.advance();
                    let set = self.bracket(|parser| parser.operators(0))?;
                    self.expect(Tok::SyncChoiceEnd, "after the set of events")?;
                    Some((
                        Pending::WithSet(SetOp::SyncChoice, left, set),
                        level::EXTERNAL + 1,
                    ))
                }
                Tok::SyncInterruptStart if level::INTERRUPT >= minimum => {
                    self.advance();
                    let set = self.bracket(|parser| parser.operators(0))?;
                    self.expect(Tok::SyncInterruptEnd, "after the set of events")?;
                    Some((
                        Pending::WithSet(SetOp::SyncInterrupt, left, set),
                        level::INTERRUPT + 1,
                    ))
                }
                Tok::LeftSquare if level::PARALLEL >= minimum => {
                    self.advance();
                    Some((self.square(left)?, level::PARALLEL + 1))
                }
                _ => None,
            };
            if let Some((waits, right_minimum)) = next {
                pending.push((waits, minimum));
                minimum = right_minimum;
                left = self.operand(&mut pending, &mut minimum)?;
                continue;
            }
            match pending.pop() {
                Some((waits, outer)) => {
                    left = self.complete(waits, left)?;
                    minimum = outer;
                }
                None => return Ok(left),
            }
        }
    }

    /// Reads an operand; prefix operators and `if`, `let`, `\`, `|||…@` go to `pending`.
    fn operand(&mut self, pending: &mut Vec<(Pending, u8)>, minimum: &mut u8) -> Result<ExprId> {
        loop {
            self.skip_newlines();
            let start = self.span();
            let (waits, right_minimum) = match self.peek() {
                Tok::Not => {
                    self.advance();
                    (Pending::Not(start), level::NOT)
                }
                Tok::Minus => {
                    self.advance();
                    (Pending::Negate(start), level::PLUS + 1)
                }
                Tok::Hash => {
                    self.advance();
                    (Pending::Length(start), level::HASH)
                }
                Tok::If => {
                    self.advance();
                    let condition = self.nest(|parser| parser.operators(0))?;
                    self.expect(Tok::Then, "after the condition")?;
                    let then = self.nest(|parser| parser.operators(0))?;
                    self.expect(Tok::Else, "after the `then` branch")?;
                    (Pending::If(start, condition, then), 0)
                }
                Tok::Let => {
                    self.advance();
                    self.lets.push(start);
                    let decls = self.bracket(|parser| parser.declarations(Place::Let))?;
                    if decls.is_empty() {
                        return Err(self.unexpected("a definition after `let`"));
                    }
                    if *self.peek() == Tok::End {
                        return Err(Diagnostic::new(
                            Stage::Syntax,
                            start,
                            "this `let` has no `within`",
                        )
                        .help("write: let definitions within expression"));
                    }
                    self.expect(Tok::Within, "after the definitions of `let`")?;
                    self.lets.pop();
                    (Pending::Let(start, decls.into()), 0)
                }
                Tok::Backslash => {
                    self.advance();
                    let expressions = self.nest(|parser| parser.comma_list())?;
                    let mut pats = Vec::new();
                    for expression in expressions {
                        pats.push(self.pattern(expression)?);
                    }
                    self.expect(Tok::At, "after the parameters of `\\`")?;
                    (Pending::Lambda(start, pats.into()), 0)
                }
                Tok::Interleave
                | Tok::ExternalChoice
                | Tok::InternalChoice
                | Tok::Semicolon
                | Tok::Parallel
                | Tok::LeftPipeSquare
                | Tok::LeftSquare
                | Tok::SyncChoiceStart => self.replicated()?,
                _ => return self.atom(),
            };
            pending.push((waits, *minimum));
            *minimum = right_minimum;
        }
    }

    /// `[ a || b ]` or `[ ties ]` between two processes; the `[` is read.
    fn square(&mut self, left: ExprId) -> Result<Pending> {
        let first = self.bracket(|parser| parser.operators(0))?;
        match self.peek() {
            Tok::Parallel => {
                self.advance();
                let second = self.bracket(|parser| parser.operators(0))?;
                self.expect(Tok::RightSquare, "after the alphabets")?;
                Ok(Pending::Alphabetised(left, first, second))
            }
            Tok::Tie => {
                let (ties, stmts) = self.pairs(first, Tok::Tie)?;
                self.expect(Tok::RightSquare, "after the linked channels")?;
                Ok(Pending::Link(left, ties, stmts))
            }
            _ => Err(self.unexpected("`||` or `<->`")),
        }
    }

    /// `first op e, e op e, … | stmts`, where `op` is `<->` or `<-`.
    #[allow(clippy::type_complexity)]
    pub(super) fn pairs(
        &mut self,
        first: ExprId,
        op: Tok,
    ) -> Result<(Box<[(ExprId, ExprId)]>, Stmts)> {
        let mut pairs = Vec::new();
        let mut left = first;
        loop {
            self.expect(op.clone(), "between two channels")?;
            let right = self.bracket(|parser| parser.operators(0))?;
            pairs.push((left, right));
            if !self.eat(Tok::Comma) {
                break;
            }
            left = self.bracket(|parser| parser.operators(0))?;
        }
        let stmts = match self.eat(Tok::Pipe) {
            true => self.bracket(|parser| parser.statements())?,
            false => Stmts::default(),
        };
        Ok((pairs.into(), stmts))
    }

    fn replicated(&mut self) -> Result<(Pending, u8)> {
        let start = self.span();
        let tok = self.advance().tok;
        let mut op = match tok {
            Tok::Interleave => Replicated::Interleave,
            Tok::ExternalChoice => Replicated::ExternalChoice,
            Tok::InternalChoice => Replicated::InternalChoice,
            Tok::Semicolon => Replicated::Sequence,
            // The alphabet follows the statements; this one is replaced below.
            Tok::Parallel => Replicated::Interleave,
            Tok::LeftPipeSquare => {
                let set = self.bracket(|parser| parser.operators(0))?;
                self.expect(Tok::RightPipeSquare, "after the set of events")?;
                Replicated::Parallel(set)
            }
            Tok::SyncChoiceStart => {
                let set = self.bracket(|parser| parser.operators(0))?;
                self.expect(Tok::SyncChoiceEnd, "after the set of events")?;
                Replicated::SyncChoice(set)
            }
            _ => {
                let first = self.bracket(|parser| parser.operators(0))?;
                let (ties, tie_stmts) = self.pairs(first, Tok::Tie)?;
                self.expect(Tok::RightSquare, "after the linked channels")?;
                Replicated::Link { ties, tie_stmts }
            }
        };
        let stmts = self.bracket(|parser| parser.statements())?;
        self.expect(Tok::At, "after the statements of the replicated operator")?;
        let mut right_minimum = 0;
        if tok == Tok::Parallel {
            self.expect(
                Tok::LeftSquare,
                "before the alphabet of the replicated process",
            )?;
            let set = self.bracket(|parser| parser.operators(0))?;
            self.expect(
                Tok::RightSquare,
                "after the alphabet of the replicated process",
            )?;
            op = Replicated::Alphabetised(set);
            right_minimum = level::PARALLEL + 1;
        }
        Ok((Pending::Replicated(start, op, stmts), right_minimum))
    }

    fn in_sequence(&self) -> bool {
        self.open_seqs.last().is_some_and(|&open| open > 0)
    }

    fn complete(&mut self, waits: Pending, right: ExprId) -> Result<ExprId> {
        let end = self.ast.expr_span(right);
        let whole = |parser: &Parser, left: ExprId| parser.ast.expr_span(left).to(end);
        Ok(match waits {
            Pending::Binary(op @ (BinaryOp::Hide | BinaryOp::Project), left) => {
                self.hide(op, left, right)
            }
            Pending::Binary(op, left) => {
                if is_comparison(op) && !self.is_parenthesised(left) {
                    self.check_one_comparison(left)?;
                }
                let span = whole(self, left);
                self.add(Expr::Binary(op, left, right), span)
            }
            Pending::Prefix(event, fields) => {
                let span = whole(self, event);
                self.add(
                    Expr::Prefix {
                        event,
                        fields,
                        body: right,
                    },
                    span,
                )
            }
            Pending::Not(start) => self.add(Expr::Unary(UnaryOp::Not, right), start.to(end)),
            Pending::Negate(start) => {
                let span = start.to(end);
                match *self.ast.expr(right) {
                    Expr::Int(value) if !self.is_parenthesised(right) => {
                        *self.ast.expr_mut(right) = Expr::Int(-value);
                        self.ast.widen(right, span);
                        right
                    }
                    _ => self.add(Expr::Unary(UnaryOp::Negate, right), span),
                }
            }
            Pending::Length(start) => self.add(Expr::Unary(UnaryOp::Length, right), start.to(end)),
            Pending::If(start, condition, then) => {
                self.add(Expr::If(condition, then, right), start.to(end))
            }
            Pending::Let(start, decls) => self.add(Expr::Let(decls, right), start.to(end)),
            Pending::Lambda(start, pats) => self.add(Expr::Lambda(pats, right), start.to(end)),
            Pending::Replicated(start, op, stmts) => self.add(
                Expr::Replicated {
                    op,
                    stmts,
                    body: right,
                },
                start.to(end),
            ),
            Pending::WithSet(op, left, set) => {
                let span = whole(self, left);
                self.add(
                    Expr::WithSet {
                        op,
                        left,
                        set,
                        right,
                    },
                    span,
                )
            }
            Pending::Alphabetised(left, left_set, right_set) => {
                let span = whole(self, left);
                self.add(
                    Expr::Alphabetised {
                        left,
                        left_set,
                        right_set,
                        right,
                    },
                    span,
                )
            }
            Pending::Link(left, ties, stmts) => {
                let span = whole(self, left);
                self.add(
                    Expr::Link {
                        left,
                        ties,
                        stmts,
                        right,
                    },
                    span,
                )
            }
            Pending::Dot(mut parts) => {
                let span = whole(self, parts[0]);
                parts.push(right);
                self.dot(&parts, span)
            }
            Pending::Both(left) => {
                let span = whole(self, left);
                self.add(Expr::Both(left, right), span)
            }
        })
    }

    /// Parts that are dots themselves (in parentheses) dissolve.
    fn dot(&mut self, parts: &[ExprId], span: Span) -> ExprId {
        let mut flat = Vec::with_capacity(parts.len());
        for &part in parts {
            match self.ast.expr(part) {
                Expr::Dot(inner) => flat.extend(inner.iter().copied()),
                _ => flat.push(part),
            }
        }
        self.add(Expr::Dot(flat.into()), span)
    }

    fn check_one_comparison(&self, left: ExprId) -> Result<()> {
        let Expr::Binary(op, ..) = self.ast.expr(left) else {
            return Ok(());
        };
        if !is_comparison(*op) {
            return Ok(());
        }
        Err(Diagnostic::new(
            Stage::Syntax,
            self.ast.expr_span(left),
            "comparisons do not chain",
        )
        .help("write `a < b and b < c`"))
    }

    /// `P \ A ||| Q` arrives as `P \ (A ||| Q)`; the hiding belongs to the leftmost operand of
    /// what follows, unless parentheses say otherwise.
    fn hide(&mut self, op: BinaryOp, process: ExprId, right: ExprId) -> ExprId {
        let left_of = |expr: &Expr| match expr {
            Expr::Binary(
                BinaryOp::ExternalChoice
                | BinaryOp::InternalChoice
                | BinaryOp::Interleave
                | BinaryOp::Interrupt
                | BinaryOp::Sliding
                | BinaryOp::Sequence,
                left,
                _,
            ) => Some(*left),
            Expr::WithSet { left, .. }
            | Expr::Alphabetised { left, .. }
            | Expr::Link { left, .. } => Some(*left),
            _ => None,
        };
        let mut path = Vec::new();
        let mut set = right;
        while !self.is_parenthesised(set) {
            let Some(left) = left_of(self.ast.expr(set)) else {
                break;
            };
            path.push(set);
            set = left;
        }
        let start = self.ast.expr_span(process);
        let span = start.to(self.ast.expr_span(set));
        let mut hidden = self.add(Expr::Binary(op, process, set), span);
        for node in path.into_iter().rev() {
            match self.ast.expr_mut(node) {
                Expr::Binary(_, left, _)
                | Expr::WithSet { left, .. }
                | Expr::Alphabetised { left, .. }
                | Expr::Link { left, .. } => *left = hidden,
                _ => unreachable!("only these were put on the path"),
            }
            let span = start.to(self.ast.expr_span(node));
            self.ast.widen(node, span);
            hidden = node;
        }
        hidden
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(
        op,
        Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual
    )
}

/// The operator, its level, and the level its right operand must have at least.
fn binary(tok: &Tok) -> Option<(BinaryOp, u8, u8)> {
    let (op, level) = match tok {
        Tok::Backslash => (BinaryOp::Hide, level::HIDE),
        Tok::Project => (BinaryOp::Project, level::HIDE),
        Tok::Interleave => (BinaryOp::Interleave, level::INTERLEAVE),
        Tok::InternalChoice => (BinaryOp::InternalChoice, level::INTERNAL),
        Tok::ExternalChoice => (BinaryOp::ExternalChoice, level::EXTERNAL),
        Tok::Interrupt => (BinaryOp::Interrupt, level::INTERRUPT),
        Tok::Sliding => (BinaryOp::Sliding, level::SLIDING),
        Tok::Semicolon => (BinaryOp::Sequence, level::SEQUENCE),
        Tok::Guard => return Some((BinaryOp::Guard, level::PREFIX, level::PREFIX)),
        Tok::Or => (BinaryOp::Or, level::OR),
        Tok::And => (BinaryOp::And, level::AND),
        Tok::Equal => (BinaryOp::Equal, level::COMPARE),
        Tok::NotEqual => (BinaryOp::NotEqual, level::COMPARE),
        Tok::Less => (BinaryOp::Less, level::COMPARE),
        Tok::LessEqual => (BinaryOp::LessEqual, level::COMPARE),
        Tok::Greater => (BinaryOp::Greater, level::COMPARE),
        Tok::GreaterEqual => (BinaryOp::GreaterEqual, level::COMPARE),
        Tok::Plus => (BinaryOp::Plus, level::PLUS),
        Tok::Minus => (BinaryOp::Minus, level::PLUS),
        Tok::Times => (BinaryOp::Times, level::TIMES),
        Tok::Divide => (BinaryOp::Divide, level::TIMES),
        Tok::Modulo => (BinaryOp::Modulo, level::TIMES),
        Tok::Concat => (BinaryOp::Concat, level::CONCAT),
        _ => return None,
    };
    Some((op, level, level + 1))
}
