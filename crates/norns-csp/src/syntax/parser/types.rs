//! Type annotations.

use super::{Parser, Result};
use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;
use crate::syntax::source::Span;
use crate::syntax::token::Tok;

impl Parser<'_> {
    pub(super) fn scheme(&mut self) -> Result<Scheme> {
        // Constraints come first, if at all: `Eq a => …` or `(Eq a, Ord b) => …`.
        let mut constraints = Vec::new();
        let is_constraint = |parser: &Parser, ahead: usize| {
            matches!(parser.peek_at(ahead), Tok::Ident(_))
                && matches!(parser.peek_at(ahead + 1), Tok::Ident(_))
        };
        if is_constraint(self, 0) {
            constraints.push(self.constraint()?);
            self.expect(Tok::Yield, "after the constraint")?;
        } else if *self.peek() == Tok::LeftParen && is_constraint(self, 1) {
            self.advance();
            constraints.push(self.constraint()?);
            while self.eat(Tok::Comma) {
                constraints.push(self.constraint()?);
            }
            self.expect(Tok::RightParen, "after the constraints")?;
            self.expect(Tok::Yield, "after the constraints")?;
        }
        Ok(Scheme {
            constraints: constraints.into(),
            body: self.type_expression()?,
        })
    }

    fn constraint(&mut self) -> Result<(Symbol, Symbol, Span)> {
        let (class, span) = self.name("a constraint")?;
        if !matches!(
            self.ast.name(class),
            "Eq" | "Ord" | "Complete" | "Set" | "Yieldable"
        ) {
            return Err(Diagnostic::new(
                Stage::Syntax,
                span,
                format!("unknown constraint `{}`", self.ast.name(class)),
            )
            .help("constraints: Eq, Ord, Complete, Set, Yieldable"));
        }
        let (variable, end) = self.name("a type variable")?;
        Ok((class, variable, span.to(end)))
    }

    /// Loosest first: `->` and `=>` (to the right), then `.`.
    fn type_expression(&mut self) -> Result<TypeId> {
        self.nest(|parser| parser.type_arrow())
    }

    fn type_arrow(&mut self) -> Result<TypeId> {
        let start = self.span();
        // `()` and `(t, u)` before an arrow are argument lists.
        let mut arguments: Option<Vec<TypeId>> = None;
        let left = if *self.peek() == Tok::LeftParen {
            self.advance();
            let mut items = Vec::new();
            if *self.peek() != Tok::RightParen {
                items.push(self.type_expression()?);
                while self.eat(Tok::Comma) {
                    items.push(self.type_expression()?);
                }
            }
            self.expect(Tok::RightParen, "in the type")?;
            let span = start.to(self.last_span());
            let left = match items.as_slice() {
                [one] => *one,
                _ => self
                    .ast
                    .add_type(TypeExpr::Tuple(items.clone().into()), span),
            };
            arguments = Some(items);
            if *self.peek() == Tok::Dot {
                arguments = None;
            }
            self.type_dots(left)?
        } else {
            let left = self.type_atom()?;
            self.type_dots(left)?
        };
        let node = match self.peek() {
            Tok::Arrow => {
                self.advance();
                let Some(arguments) = arguments else {
                    return Err(Diagnostic::new(
                        Stage::Syntax,
                        start,
                        "the arguments of a function type stand in parentheses",
                    )
                    .help("write `(Int) -> Int`"));
                };
                let result = self.type_expression()?;
                TypeExpr::Function(arguments.into(), result)
            }
            Tok::Yield => {
                self.advance();
                let result = self.type_expression()?;
                TypeExpr::Dotable(left, result)
            }
            Tok::YieldStar => {
                let TypeExpr::Name(variable) = *self.ast.type_expr(left) else {
                    return Err(self.unexpected("a type variable before `=>*`"));
                };
                self.advance();
                let result = self.type_expression()?;
                TypeExpr::Extendable(variable, result)
            }
            _ => return Ok(left),
        };
        let span = start.to(self.last_span());
        Ok(self.ast.add_type(node, span))
    }

    fn type_dots(&mut self, left: TypeId) -> Result<TypeId> {
        let mut parts = vec![left];
        while self.eat(Tok::Dot) {
            parts.push(self.type_atom()?);
        }
        let mut right = parts.pop().expect("at least the left part");
        while let Some(left) = parts.pop() {
            let span = self.ast.type_span(left).to(self.ast.type_span(right));
            right = self.ast.add_type(TypeExpr::Dot(left, right), span);
        }
        Ok(right)
    }

    fn type_atom(&mut self) -> Result<TypeId> {
        let start = self.span();
        let node = match self.peek() {
            Tok::Ident(_) => {
                let (name, _) = self.qualified_name()?;
                TypeExpr::Name(name)
            }
            Tok::LeftBrace => {
                self.advance();
                let inner = self.type_expression()?;
                self.expect(Tok::RightBrace, "in the type")?;
                TypeExpr::Set(inner)
            }
            Tok::Less => {
                self.advance();
                let inner = self.type_expression()?;
                self.expect(Tok::Greater, "in the type")?;
                TypeExpr::Seq(inner)
            }
            Tok::LeftMap => {
                self.advance();
                // The arrow of a map type is not part of its key.
                let key = self.type_atom()?;
                let key = self.type_dots(key)?;
                self.expect(Tok::Yield, "in the map type")?;
                let value = self.type_expression()?;
                self.expect(Tok::RightMap, "in the type")?;
                TypeExpr::Map(key, value)
            }
            Tok::LeftParen => {
                self.advance();
                let mut items = vec![self.type_expression()?];
                while self.eat(Tok::Comma) {
                    items.push(self.type_expression()?);
                }
                self.expect(Tok::RightParen, "in the type")?;
                if let [one] = items[..] {
                    return Ok(one);
                }
                TypeExpr::Tuple(items.into())
            }
            _ => return Err(self.unexpected("a type")),
        };
        let span = start.to(self.last_span());
        Ok(self.ast.add_type(node, span))
    }

    // Expressions
}
