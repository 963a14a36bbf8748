//! What stands between operators: names, calls, brackets, fields of prefixes, statements.

use super::expressions::level;
use super::{Parser, Result};
use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;
use crate::syntax::token::Tok;

impl Parser<'_> {
    pub(super) fn fields(&mut self) -> Result<Box<[Field]>> {
        let mut fields = Vec::new();
        loop {
            let tok = self.peek().clone();
            match tok {
                Tok::Exclamation => {
                    self.advance();
                    let value = self.nest(|parser| parser.operators(level::FIELD + 1))?;
                    fields.push(Field::Output(value));
                }
                Tok::Question | Tok::Dollar => {
                    self.advance();
                    let expression = self.nest(|parser| parser.operators(level::FIELD + 1))?;
                    let pat = self.pattern(expression)?;
                    let set = match self.eat(Tok::Colon) {
                        true => Some(self.nest(|parser| parser.operators(level::COLON + 1))?),
                        false => None,
                    };
                    if set.is_some() && *self.peek() == Tok::Dot {
                        return Err(Diagnostic::new(
                            Stage::Syntax,
                            self.span(),
                            "`.` after a restricted input",
                        )
                        .help(
                            "put the set in parentheses, or write `!` or `?` for the next field",
                        ));
                    }
                    fields.push(match tok {
                        Tok::Question => Field::Input(pat, set),
                        _ => Field::Nondeterministic(pat, set),
                    });
                }
                _ => return Ok(fields.into()),
            }
        }
    }

    pub(super) fn postfix(&mut self, mut left: ExprId) -> Result<ExprId> {
        loop {
            match self.peek() {
                Tok::LeftParen => {
                    self.advance();
                    let arguments = match self.peek() {
                        Tok::RightParen => Vec::new(),
                        _ => self.bracket(|parser| parser.comma_list())?,
                    };
                    let end = self.expect(Tok::RightParen, "after the arguments")?;
                    let span = self.ast.expr_span(left).to(end);
                    left = self.add(Expr::App(left, arguments.into()), span);
                }
                Tok::LeftRename => {
                    self.advance();
                    let first = self.bracket(|parser| parser.operators(0))?;
                    let (pairs, stmts) = self.pairs(first, Tok::DrawnFrom)?;
                    let end = self.expect(Tok::RightRename, "after the renaming")?;
                    let span = self.ast.expr_span(left).to(end);
                    left = self.add(
                        Expr::Rename {
                            process: left,
                            pairs,
                            stmts,
                        },
                        span,
                    );
                }
                _ => return Ok(left),
            }
        }
    }

    pub(super) fn atom(&mut self) -> Result<ExprId> {
        let start = self.span();
        let expr = match self.peek().clone() {
            Tok::Int(value) => Expr::Int(value),
            Tok::Char(value) => Expr::Char(value),
            Tok::Str(value) => Expr::Str(value),
            Tok::True => Expr::Bool(true),
            Tok::False => Expr::Bool(false),
            Tok::EmptySeq => Expr::Items(Bracket::Seq, Exprs::default()),
            Tok::Wildcard => Expr::Wildcard,
            Tok::Ident(_) => {
                let (name, span) = self.qualified_name()?;
                return Ok(self.add(Expr::Var(name), span));
            }
            Tok::LeftParen => {
                self.advance();
                let items = self.bracket(|parser| parser.comma_list())?;
                let end = self.expect(Tok::RightParen, "to close the bracket")?;
                if let [one] = items[..] {
                    self.mark_parenthesised(one);
                    return Ok(one);
                }
                return Ok(self.add(Expr::Tuple(items.into()), start.to(end)));
            }
            Tok::LeftBrace => {
                self.advance();
                let expr = self.bracket(|parser| parser.items(Bracket::Set, Tok::RightBrace))?;
                return Ok(self.add(expr, start.to(self.last_span())));
            }
            Tok::Less => {
                self.advance();
                *self.open_seqs.last_mut().expect("never empty") += 1;
                let expr = self.nest(|parser| parser.items(Bracket::Seq, Tok::Greater));
                *self.open_seqs.last_mut().expect("never empty") -= 1;
                let expr = expr?;
                return Ok(self.add(expr, start.to(self.last_span())));
            }
            Tok::LeftPipeBrace => {
                self.advance();
                let expr = self.bracket(|parser| parser.productions())?;
                return Ok(self.add(expr, start.to(self.last_span())));
            }
            Tok::LeftMap => {
                self.advance();
                let expr = self.bracket(|parser| parser.map())?;
                return Ok(self.add(expr, start.to(self.last_span())));
            }
            _ => {
                let error = self.unexpected("an expression");
                return Err(match self.peek() {
                    Tok::Within => error.help("the last definition of the `let` is not complete"),
                    Tok::Pipe => error.help("a map opens with `(|` and a blank: `(| 1 => 2 |)`"),
                    Tok::DrawnFrom => error.help(
                        "a sequence that begins with a negative number needs a blank: `< -1, 2>`",
                    ),
                    _ => error,
                });
            }
        };
        self.advance();
        Ok(self.add(expr, start))
    }

    /// The inside of `{…}` or `<…>`, and its end.
    fn items(&mut self, bracket: Bracket, close: Tok) -> Result<Expr> {
        if self.eat(close.clone()) {
            return Ok(Expr::Items(bracket, Exprs::default()));
        }
        let mut items = Vec::new();
        // `{ | x <- s }` has no items.
        if *self.peek() != Tok::Pipe {
            let first = self.operators(0)?;
            if self.eat(Tok::DotDot) {
                let to = match self.peek() {
                    Tok::Pipe => None,
                    tok if *tok == close => None,
                    _ => Some(self.operators(0)?),
                };
                let stmts = match self.eat(Tok::Pipe) {
                    true => Some(self.statements()?),
                    false => None,
                };
                self.expect(close, "to close the range")?;
                return Ok(Expr::Range {
                    bracket,
                    from: first,
                    to,
                    stmts,
                });
            }
            items.push(first);
            while self.eat(Tok::Comma) {
                items.push(self.operators(0)?);
            }
        }
        if self.eat(Tok::Pipe) {
            let stmts = self.statements()?;
            self.expect(close, "to close the comprehension")?;
            return Ok(Expr::Comprehension(bracket, items.into(), stmts));
        }
        let place = match bracket {
            Bracket::Seq => "to close the sequence",
            Bracket::Set => "to close the set",
        };
        if *self.peek() != close {
            let error = self.unexpected(&format!("{} {place}", close.describe()));
            return Err(match bracket {
                Bracket::Seq => error.help("inside `<…>` the first `>` closes the sequence; put a comparison in parentheses"),
                Bracket::Set => error,
            });
        }
        self.advance();
        Ok(Expr::Items(bracket, items.into()))
    }

    fn productions(&mut self) -> Result<Expr> {
        if self.eat(Tok::RightPipeBrace) {
            return Ok(Expr::Productions(Exprs::default(), None));
        }
        // `{| | x <- s |}` has no items.
        let items = match self.peek() {
            Tok::Pipe => Vec::new(),
            _ => self.comma_list()?,
        };
        let stmts = match self.eat(Tok::Pipe) {
            true => Some(self.statements()?),
            false => None,
        };
        self.expect(Tok::RightPipeBrace, "to close the set of events")?;
        Ok(Expr::Productions(items.into(), stmts))
    }

    pub(super) fn map(&mut self) -> Result<Expr> {
        let mut pairs = Vec::new();
        if *self.peek() != Tok::RightMap {
            loop {
                let key = self.operators(0)?;
                self.expect(Tok::Yield, "between the key and the value")?;
                let value = self.operators(0)?;
                pairs.push((key, value));
                if !self.eat(Tok::Comma) {
                    break;
                }
            }
        }
        self.expect(Tok::RightMap, "to close the map")?;
        Ok(Expr::Map(pairs.into()))
    }

    pub(super) fn statements(&mut self) -> Result<Stmts> {
        let mut stmts = Vec::new();
        loop {
            let expression = self.operators(0)?;
            let stmt = match self.peek() {
                Tok::DrawnFrom | Tok::Colon => {
                    self.advance();
                    let pat = self.pattern(expression)?;
                    Stmt::Generator(pat, self.operators(0)?)
                }
                _ => Stmt::Condition(expression),
            };
            stmts.push(stmt);
            if !self.eat(Tok::Comma) {
                return Ok(stmts.into());
            }
        }
    }

    // Patterns
}
