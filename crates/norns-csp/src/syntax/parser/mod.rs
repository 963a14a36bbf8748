//! Tokens to tree: operator precedence for expressions, one function a declaration.
//!
//! Here are the tokens and how brackets nest, at most `MAX_NESTING` deep; the modules below have
//! the parts of the grammar. `>` closes a sequence where one is open. More lenient than FDR: a
//! line may break after `>`, and parallel operators associate to the left where FDR asks for
//! parentheses.

mod assertions;
mod atoms;
mod declarations;
mod expressions;
mod patterns;
mod types;

use declarations::Place;

use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;
use crate::syntax::lexer::{self, Includes};
use crate::syntax::source::{SourceMap, Span};
use crate::syntax::token::{Tok, Token};

pub const MAX_NESTING: u32 = 1000;

type Result<T> = std::result::Result<T, Diagnostic>;

/// More syntax errors than this are not collected.
const MAX_ERRORS: usize = 20;

/// A script as a tree.
#[derive(Debug)]
pub struct Parsed {
    pub ast: Ast,
    /// What is odd, but does not keep the script from being checked.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a script; included files come from `includes`. After an error in a declaration the
/// parser goes on with the next one, so that several errors can be reported.
pub fn parse(
    name: &str,
    text: &str,
    sources: &mut SourceMap,
    includes: Includes,
) -> std::result::Result<Parsed, Vec<Diagnostic>> {
    let mut ast = Ast::default();
    let tokens = lexer::tokens(name, text, sources, &mut ast.names, includes)
        .map_err(|error| vec![error])?;
    let mut parser = Parser {
        sources,
        errors: Vec::new(),
        warnings: Vec::new(),
        lets: Vec::new(),
        tokens,
        at: 0,
        ast,
        open_seqs: vec![0],
        nesting: 0,
        file_starts: sources.starts(),
        parenthesised: Vec::new(),
    };
    let top = parser.declarations(Place::Top);
    match top.and_then(|top| parser.expect_end().map(|()| top)) {
        Ok(top) => parser.ast.top = top,
        Err(error) => parser.errors.push(error),
    }
    match parser.errors.is_empty() {
        true => Ok(Parsed {
            ast: parser.ast,
            warnings: parser.warnings,
        }),
        false => Err(parser.errors),
    }
}

struct Parser<'a> {
    sources: &'a SourceMap,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    // the keywords of the `let` expressions that are being read, outermost first
    lets: Vec<Span>,
    tokens: Vec<Token>,
    at: usize,
    ast: Ast,
    // how many sequences are open in each bracket, innermost last
    open_seqs: Vec<u32>,
    nesting: u32,
    // where each file begins on the number line of positions
    file_starts: Vec<u32>,
    // by expression: it stands in parentheses, so `hide` does not look into it
    parenthesised: Vec<bool>,
}

impl Parser<'_> {
    fn peek(&self) -> &Tok {
        &self.tokens[self.at].tok
    }

    fn peek_at(&self, ahead: usize) -> &Tok {
        let at = (self.at + ahead).min(self.tokens.len() - 1);
        &self.tokens[at].tok
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.at].clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    fn eat(&mut self, tok: Tok) -> bool {
        let found = *self.peek() == tok;
        if found {
            self.advance();
        }
        found
    }

    fn found(&self) -> String {
        match self.peek() {
            Tok::Ident(symbol) => format!("the name `{}`", self.ast.name(*symbol)),
            other => other.describe(),
        }
    }

    fn unexpected(&self, expected: &str) -> Diagnostic {
        // What is missing at the end of a line is missing behind its last word.
        let ends = match self.peek() {
            Tok::Newline | Tok::End => true,
            other => {
                let line = |span: Span| self.sources.line(span.low);
                other.begins_declaration() && line(self.last_span()) != line(self.span())
            }
        };
        let span = match ends {
            true if self.at > 0 => {
                let end = self.last_span().high;
                Span::new(end, end)
            }
            _ => self.span(),
        };
        let error = Diagnostic::new(
            Stage::Syntax,
            span,
            format!("expected {expected}, found {}", self.found()),
        )
        .label(format!("expected {expected}"));
        match self.peek() {
            Tok::Newline => error.help(
                "a line ends a declaration, unless it ends in an operator or the next line begins with one",
            ),
            Tok::Parallel => Diagnostic {
                message: "`||` between two processes needs their alphabets".into(),
                label: "which events do they share?".into(),
                ..error
            }
            .help("`P [A || B] Q` gives both alphabets, `P [| A |] Q` the shared events")
            .help("`P ||| Q` shares none"),
            _ => error,
        }
    }

    fn expect(&mut self, tok: Tok, place: &str) -> Result<Span> {
        if *self.peek() == tok {
            return Ok(self.advance().span);
        }
        Err(self.unexpected(&format!("{} {place}", tok.describe())))
    }

    fn expect_end(&mut self) -> Result<()> {
        self.skip_newlines();
        if *self.peek() == Tok::End {
            return Ok(());
        }
        Err(self.unexpected("a declaration"))
    }

    /// Skips the rest of a declaration that could not be read: up to a line that begins no
    /// further to the right than the declaration did, with something that begins a declaration.
    fn recover(&mut self, start: Span) {
        let column = self.sources.position(start.low).column;
        loop {
            let next = self.peek_at(1);
            let begins = next.begins_declaration()
                || matches!(next, Tok::Ident(_) | Tok::Exports | Tok::EndModule);
            match self.peek() {
                Tok::End => return,
                Tok::Newline if begins => {
                    let at = self.tokens[self.at + 1].span.low;
                    if self.sources.position(at).column <= column {
                        return;
                    }
                }
                _ => {}
            }
            self.advance();
        }
    }

    fn skip_newlines(&mut self) {
        while *self.peek() == Tok::Newline {
            self.advance();
        }
    }

    fn add(&mut self, expr: Expr, span: Span) -> ExprId {
        self.ast.add_expr(expr, span)
    }

    fn is_parenthesised(&self, id: ExprId) -> bool {
        self.parenthesised
            .get(id.0 as usize)
            .copied()
            .unwrap_or(false)
    }

    fn mark_parenthesised(&mut self, id: ExprId) {
        if self.parenthesised.len() <= id.0 as usize {
            self.parenthesised.resize(id.0 as usize + 1, false);
        }
        self.parenthesised[id.0 as usize] = true;
    }

    fn nest<T>(&mut self, read: impl FnOnce(&mut Parser) -> Result<T>) -> Result<T> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(Diagnostic::new(
                Stage::Syntax,
                self.span(),
                format!("brackets nest more than {MAX_NESTING} deep"),
            )
            .help("give the inner parts names of their own"));
        }
        let result = read(self);
        self.nesting -= 1;
        result
    }

    /// Reads what stands in a bracket: sequences that are open outside do not end in it.
    fn bracket<T>(&mut self, read: impl FnOnce(&mut Parser) -> Result<T>) -> Result<T> {
        self.open_seqs.push(0);
        let result = self.nest(read);
        self.open_seqs.pop();
        result
    }

    // Declarations
}
