//! Declarations, one function each; the clauses of one function are joined here.

use super::{MAX_ERRORS, Parser, Result};
use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;
use crate::syntax::source::Span;
use crate::syntax::token::Tok;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Place {
    Top,
    Let,
    Module,
    Timed,
}

impl Parser<'_> {
    pub(super) fn declarations(&mut self, place: Place) -> Result<Vec<DeclId>> {
        let mut decls = Vec::new();
        loop {
            self.skip_newlines();
            let ends = match place {
                Place::Top => *self.peek() == Tok::End,
                Place::Let => *self.peek() == Tok::Within,
                Place::Module => matches!(self.peek(), Tok::Exports | Tok::EndModule),
                Place::Timed => *self.peek() == Tok::RightBrace,
            };
            if ends || *self.peek() == Tok::End {
                break;
            }
            let start = self.span();
            let state = (self.open_seqs.len(), self.nesting, self.lets.len());
            let decl = self.declaration(place).and_then(|decl| {
                self.end_of_declaration(place)?;
                Ok(decl)
            });
            match decl {
                Ok(decl) => decls.push(decl),
                // The declarations of a `let` belong to one expression: the error ends it.
                Err(error) if place == Place::Let => return Err(error),
                Err(error) => {
                    self.errors.push(error);
                    if self.errors.len() >= MAX_ERRORS {
                        self.at = self.tokens.len() - 1;
                        break;
                    }
                    self.open_seqs.truncate(state.0);
                    self.nesting = state.1;
                    self.lets.truncate(state.2);
                    self.recover(start);
                }
            }
        }
        Ok(self.join_clauses(decls))
    }

    /// What follows a declaration must end it.
    fn end_of_declaration(&mut self, place: Place) -> Result<()> {
        match self.peek() {
            Tok::Newline | Tok::End => Ok(()),
            Tok::Within if place == Place::Let => Ok(()),
            Tok::Exports | Tok::EndModule if place == Place::Module => Ok(()),
            Tok::RightBrace if place == Place::Timed => Ok(()),
            Tok::Define => Err(self.second_definition()),
            Tok::RightParen | Tok::RightBrace | Tok::RightPipeBrace | Tok::RightSquare => {
                let closing = self.found();
                Err(Diagnostic::new(
                    Stage::Syntax,
                    self.span(),
                    format!("{closing} closes nothing"),
                ))
            }
            _ => {
                let error = self.unexpected("an operator or the end of the declaration");
                let after_greater = self.at > 0 && self.tokens[self.at - 1].tok == Tok::Greater;
                Err(match after_greater {
                        true => error.help("inside `<…>` the first `>` closes the sequence; put a comparison in parentheses"),
                        false => error,
                    })
            }
        }
    }

    /// A `=` in an expression: a comparison, or a definition that continues one whose last line
    /// ends in an operator.
    fn second_definition(&self) -> Diagnostic {
        let line = |at: usize| self.sources.line(self.tokens[at].span.low);
        let here = line(self.at);
        let first = (1..self.at).rev().take_while(|&at| line(at) == here).last();
        if let Some(first) = first
            && line(first - 1) != here
            && self.tokens[first - 1].tok != Tok::Newline
        {
            let operator = &self.tokens[first - 1];
            let words = format!("nothing follows this {}", operator.tok.describe());
            return Diagnostic::new(Stage::Syntax, operator.span, words).related(
                self.span(),
                "so the next line continues the expression, and a `=` cannot stand in it",
            );
        }
        Diagnostic::new(
            Stage::Syntax,
            self.span(),
            "unexpected `=` in an expression",
        )
        .help("`==` compares; a second definition must begin on a line of its own")
    }

    /// Neighbouring clauses of one function become one declaration.
    fn join_clauses(&mut self, decls: Vec<DeclId>) -> Vec<DeclId> {
        let mut out: Vec<DeclId> = Vec::with_capacity(decls.len());
        let mut clauses: Vec<Clause> = Vec::new();
        for decl in decls {
            let current = match self.ast.decl(decl) {
                Decl::Function { name, .. } => Some(*name),
                _ => None,
            };
            let last = out.last().copied();
            let previous = last.and_then(|last| match self.ast.decl(last) {
                Decl::Function { name, .. } => Some(*name),
                _ => None,
            });
            if current.is_some() && current == previous && self.in_one_file(last, decl) {
                if let Decl::Function { clauses: more, .. } = self.ast.decl(decl) {
                    clauses.extend(more.iter().cloned());
                }
                continue;
            }
            self.close_clauses(last, &mut clauses);
            if let Decl::Function { clauses: first, .. } = self.ast.decl(decl) {
                clauses.extend(first.iter().cloned());
            }
            out.push(decl);
        }
        let last = out.last().copied();
        self.close_clauses(last, &mut clauses);
        out
    }

    /// Whether two declarations stand in the same file.
    fn in_one_file(&self, first: Option<DeclId>, second: DeclId) -> bool {
        let file = |decl: DeclId| {
            let at = self.ast.decl_span(decl).low;
            self.file_starts.partition_point(|&start| start <= at)
        };
        first.is_some_and(|first| file(first) == file(second))
    }

    fn close_clauses(&mut self, decl: Option<DeclId>, collected: &mut Vec<Clause>) {
        if let Some(decl) = decl
            && let Decl::Function { clauses, .. } = self.ast.decl_mut(decl)
        {
            *clauses = std::mem::take(collected).into();
        }
        collected.clear();
    }

    fn declaration(&mut self, place: Place) -> Result<DeclId> {
        let start = self.span();
        let refuse = |what: &str, where_: &str| {
            Diagnostic::new(
                Stage::Syntax,
                start,
                format!("{what} is not allowed {where_}"),
            )
        };
        if place == Place::Let
            && matches!(
                self.peek(),
                Tok::Channel
                    | Tok::Datatype
                    | Tok::Subtype
                    | Tok::Nametype
                    | Tok::Assert
                    | Tok::Instance
                    | Tok::Module
                    | Tok::Print
            )
        {
            let error = refuse(&self.found(), "inside `let`").help("move it to the top level");
            return Err(match self.lets.last() {
                Some(&start) => error
                    .related(start, "the `let` that has no `within` yet")
                    .help("if the `let` should have ended before, its `within` is missing"),
                None => error,
            });
        }
        if place == Place::Module && matches!(self.peek(), Tok::Assert | Tok::Print) {
            return Err(refuse(&self.found(), "inside a module").help("move it to the top level"));
        }
        if place == Place::Timed && *self.peek() == Tok::Print {
            return Err(refuse("`print`", "inside a timed section"));
        }
        let decl = match self.peek().clone() {
            Tok::Channel => {
                self.advance();
                let names = self.names()?;
                let fields = match self.eat(Tok::Colon) {
                    true => Some(self.expression()?),
                    false => None,
                };
                Decl::Channel(names, fields)
            }
            Tok::Datatype | Tok::Subtype => {
                let subtype = self.advance().tok == Tok::Subtype;
                let (name, name_span) = self.name("a name")?;
                self.expect(Tok::Define, "after the name of the type")?;
                let mut constructors = vec![self.constructor()?];
                while self.eat(Tok::Pipe) {
                    constructors.push(self.constructor()?);
                }
                let constructors = constructors.into();
                match subtype {
                    true => Decl::Subtype {
                        name,
                        name_span,
                        constructors,
                    },
                    false => Decl::Datatype {
                        name,
                        name_span,
                        constructors,
                    },
                }
            }
            Tok::Nametype => {
                self.advance();
                let (name, span) = self.name("a name")?;
                self.expect(Tok::Define, "after the name of the type")?;
                Decl::Nametype(name, span, self.expression()?)
            }
            Tok::External => {
                self.advance();
                Decl::External(self.names()?)
            }
            Tok::Transparent => {
                self.advance();
                Decl::Transparent(self.names()?)
            }
            Tok::Assert => {
                self.advance();
                Decl::Assert(self.assertion()?)
            }
            Tok::Print => {
                self.advance();
                Decl::Print(self.expression()?)
            }
            Tok::Module => self.module()?,
            Tok::Instance => self.instance()?,
            Tok::Timed => self.timed()?,
            _ => self.definition(place)?,
        };
        let span = start.to(self.last_span());
        Ok(self.ast.add_decl(decl, span))
    }

    fn constructor(&mut self) -> Result<Constructor> {
        let (name, span) = self.name("the name of a constructor")?;
        let fields = match self.eat(Tok::Dot) {
            true => Some(self.expression()?),
            false => None,
        };
        Ok(Constructor { name, span, fields })
    }

    fn module(&mut self) -> Result<Decl> {
        self.advance();
        let (name, name_span) = self.name("the name of the module")?;
        let nodes = self.ast.sizes();
        let mut parameters = Vec::new();
        if *self.peek() == Tok::LeftParen {
            self.advance();
            let expressions = self.bracket(|parser| parser.comma_list())?;
            self.expect(Tok::RightParen, "after the parameters of the module")?;
            for expression in expressions {
                parameters.push(self.pattern(expression)?);
            }
        }
        let private = self.declarations(Place::Module)?;
        if *self.peek() != Tok::Exports {
            return Err(self.unexpected("`exports` in the module"));
        }
        self.advance();
        let exported = self.declarations(Place::Module)?;
        self.expect(Tok::EndModule, "at the end of the module")?;
        Ok(Decl::Module {
            name,
            name_span,
            parameters: parameters.into(),
            private: private.into(),
            exported: exported.into(),
            nodes: (nodes, self.ast.sizes()),
        })
    }

    fn instance(&mut self) -> Result<Decl> {
        self.advance();
        let (name, name_span) = self.name("the name of the instance")?;
        self.expect(Tok::Define, "after the name of the instance")?;
        let (of, of_span) = self.qualified_name()?;
        let mut arguments = Exprs::default();
        if self.eat(Tok::LeftParen) {
            arguments = self.bracket(|parser| parser.comma_list())?.into();
            self.expect(Tok::RightParen, "after the arguments")?;
        }
        Ok(Decl::Instance {
            name,
            name_span,
            of,
            of_span,
            arguments,
        })
    }

    fn timed(&mut self) -> Result<Decl> {
        self.advance();
        let mut function = None;
        if self.eat(Tok::LeftParen) {
            function = Some(self.bracket(|parser| parser.expression())?);
            self.expect(Tok::RightParen, "after the function of the timed section")?;
        }
        self.expect(Tok::LeftBrace, "at the start of the timed section")?;
        let decls = self.bracket(|parser| parser.declarations(Place::Timed))?;
        self.expect(Tok::RightBrace, "at the end of the timed section")?;
        Ok(Decl::Timed {
            function,
            decls: decls.into(),
        })
    }

    /// `names :: type`, `f(…) = e` or `pattern = e`.
    fn definition(&mut self, place: Place) -> Result<Decl> {
        if self.is_annotation() {
            let names = self.names()?;
            self.expect(Tok::OfType, "after the names")?;
            return Ok(Decl::Annotation(names, self.scheme()?));
        }
        let start = self.span();
        let left = self.operators(0)?;
        if *self.peek() != Tok::Define {
            // An expression among the definitions of a `let` is its body.
            if place == Place::Let && matches!(self.peek(), Tok::Newline | Tok::End) {
                let span = start.to(self.last_span());
                let error = Diagnostic::new(
                    Stage::Syntax,
                    span,
                    "`within` is missing before this expression",
                )
                .label("`within` belongs here")
                .help("write: let definitions within expression");
                return Err(match self.lets.last() {
                    Some(&start) => error.related(start, "the `let` is here"),
                    None => error,
                });
            }
            let error = self.unexpected("`=`");
            return Err(match self.peek() {
                Tok::Newline | Tok::End => error.help("a declaration has the form `name = …`"),
                _ => error,
            });
        }
        self.advance();
        let body = self.expression()?;
        let mut groups = Vec::new();
        let mut head = left;
        while let Expr::App(function, arguments) = self.ast.expr(head).clone() {
            let mut pats = Vec::with_capacity(arguments.len());
            for &argument in &arguments {
                pats.push(self.pattern(argument)?);
            }
            groups.push(Pats::from(pats));
            head = function;
        }
        if groups.is_empty() {
            return Ok(Decl::Pattern(self.pattern(left)?, body));
        }
        groups.reverse();
        let Expr::Var(name) = *self.ast.expr(head) else {
            return Err(Diagnostic::new(
                Stage::Syntax,
                start.to(self.ast.expr_span(left)),
                "this cannot be defined",
            )
            .help("the left side is a function `f(x, y)` or a pattern"));
        };
        let name_span = self.ast.expr_span(head);
        if self.ast.name(name).contains("::") {
            return Err(qualified_definition(name_span));
        }
        Ok(Decl::Function {
            name,
            name_span,
            clauses: [Clause {
                groups: groups.into(),
                body,
            }]
            .into(),
        })
    }

    fn is_annotation(&self) -> bool {
        let mut ahead = 0;
        loop {
            if !matches!(self.peek_at(ahead), Tok::Ident(_)) {
                return false;
            }
            match self.peek_at(ahead + 1) {
                Tok::OfType => return true,
                Tok::Comma => ahead += 2,
                _ => return false,
            }
        }
    }

    pub(super) fn name(&mut self, expected: &str) -> Result<(Symbol, Span)> {
        match *self.peek() {
            Tok::Ident(symbol) => Ok((symbol, self.advance().span)),
            _ => Err(self.unexpected(expected)),
        }
    }

    fn names(&mut self) -> Result<Box<[(Symbol, Span)]>> {
        let mut names = vec![self.name("a name")?];
        while self.eat(Tok::Comma) {
            names.push(self.name("a name")?);
        }
        Ok(names.into())
    }

    pub(super) fn qualified_name(&mut self) -> Result<(Symbol, Span)> {
        let (mut symbol, mut span) = self.name("a name")?;
        while *self.peek() == Tok::Scope {
            self.advance();
            let (inner, inner_span) = self.name("a name after `::`")?;
            let path = format!("{}::{}", self.ast.name(symbol), self.ast.name(inner));
            symbol = self.ast.names.intern(&path);
            span = span.to(inner_span);
        }
        Ok((symbol, span))
    }

    // Assertions
}

fn qualified_definition(span: Span) -> Diagnostic {
    Diagnostic::new(Stage::Syntax, span, "a qualified name cannot be defined")
        .help("define it inside its module")
}
