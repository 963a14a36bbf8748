//! Tokens to tree: operator precedence for expressions, one function a declaration.
//!
//! The levels are those of libcspm's grammar (`Parser.ppy`). What a table cannot say is said in
//! code: `P \ A ||| Q` is `(P \ A) ||| Q` although `\` binds loosest (`hide`), `>` closes a
//! sequence where one is open, and patterns are read as expressions first (`pattern`). A chain
//! of prefixes, guards, `else` branches or operators of any length is read in a loop; only
//! brackets nest, at most `MAX_NESTING` deep. More lenient than FDR: a line may break after
//! `>`, and parallel operators associate to the left where FDR asks for parentheses.

use rustc_hash::FxHashMap;

use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;
use crate::syntax::lexer::{self, Includes};
use crate::syntax::source::{SourceMap, Span};
use crate::syntax::token::{Tok, Token};

pub const MAX_NESTING: u32 = 1000;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Reads a script; included files come from `includes`.
pub fn parse(name: &str, text: &str, sources: &mut SourceMap, includes: Includes) -> Result<Ast> {
    let mut ast = Ast::default();
    let tokens = lexer::tokens(name, text, sources, &mut ast.names, includes)?;
    let mut parser = Parser {
        tokens,
        at: 0,
        ast,
        open_seqs: vec![0],
        nesting: 0,
        parenthesised: Vec::new(),
    };
    let top = parser.declarations(Place::Top)?;
    parser.expect_end()?;
    parser.ast.top = top;
    Ok(parser.ast)
}

/// Binding strength, loosest first.
mod level {
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

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Top,
    Let,
    Module,
    Timed,
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    ast: Ast,
    // how many sequences are open in each bracket, innermost last
    open_seqs: Vec<u32>,
    nesting: u32,
    // by expression: it stands in parentheses, so `hide` does not look into it
    parenthesised: Vec<bool>,
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

impl Parser {
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
        let error = Diagnostic::new(
            Stage::Syntax,
            self.span(),
            format!("expected {expected}, found {}", self.found()),
        )
        .label(format!("expected {expected}"));
        match self.peek() {
            Tok::Newline => error.help(
                "a line ends a declaration, unless it ends in an operator or the next line begins with one",
            ),
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

    fn declarations(&mut self, place: Place) -> Result<Vec<DeclId>> {
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
            let decl = self.declaration(place)?;
            decls.push(decl);
            match self.peek() {
                Tok::Newline | Tok::End => {}
                Tok::Within if place == Place::Let => {}
                Tok::Exports | Tok::EndModule if place == Place::Module => {}
                Tok::RightBrace if place == Place::Timed => {}
                Tok::Define => {
                    return Err(Diagnostic::new(
                        Stage::Syntax,
                        self.span(),
                        "unexpected `=` in an expression",
                    )
                    .help("`==` compares; a second definition must begin on a line of its own"));
                }
                Tok::RightParen | Tok::RightBrace | Tok::RightPipeBrace | Tok::RightSquare => {
                    let closing = self.found();
                    return Err(Diagnostic::new(
                        Stage::Syntax,
                        self.span(),
                        format!("{closing} closes nothing"),
                    ));
                }
                _ => {
                    let error = self.unexpected("an operator or the end of the declaration");
                    let after_greater = self.at > 0 && self.tokens[self.at - 1].tok == Tok::Greater;
                    return Err(match after_greater {
                        true => error.help("inside `<…>` the first `>` closes the sequence; put a comparison in parentheses"),
                        false => error,
                    });
                }
            }
        }
        Ok(self.join_clauses(decls))
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
            if current.is_some() && current == previous {
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
            return Err(refuse(&self.found(), "inside `let`").help("move it to the top level"));
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
            _ => self.definition()?,
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
    fn definition(&mut self) -> Result<Decl> {
        if self.is_annotation() {
            let names = self.names()?;
            self.expect(Tok::OfType, "after the names")?;
            return Ok(Decl::Annotation(names, self.scheme()?));
        }
        let start = self.span();
        let left = self.operators(0)?;
        if *self.peek() != Tok::Define {
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

    fn name(&mut self, expected: &str) -> Result<(Symbol, Span)> {
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

    fn qualified_name(&mut self) -> Result<(Symbol, Span)> {
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

    fn assertion(&mut self) -> Result<AssertDecl> {
        let negated = self.eat(Tok::Not);
        let process = self.expression()?;
        let property = match self.peek().clone() {
            Tok::Refines(model) => {
                self.advance();
                let model = Model::parse(&model).expect("the lexer makes only known models");
                Property::Refines(model, self.expression()?)
            }
            Tok::Property(words) => {
                let span = self.advance().span;
                self.property(&words, span)?
            }
            _ => {
                let error = self.unexpected("`[T=`, `[F=`, `[FD=` or a property");
                return Err(
                    error.help("assertions: `assert P [T= Q`, `assert P :[deadlock free [FD]]`")
                );
            }
        };
        let mut options: Vec<(ModelOption, Span)> = Vec::new();
        while let Tok::Property(words) = self.peek().clone() {
            let span = self.advance().span;
            let option = self.model_option(&words, span)?;
            let twice = options
                .iter()
                .any(|(other, _)| std::mem::discriminant(other) == std::mem::discriminant(&option));
            if twice {
                return Err(Diagnostic::new(
                    Stage::Syntax,
                    span,
                    "this option is given twice",
                ));
            }
            options.push((option, span));
        }
        Ok(AssertDecl {
            negated,
            process,
            property,
            options: options.into(),
        })
    }

    fn property(&mut self, words: &str, span: Span) -> Result<Property> {
        let (name, model) = split_model(words, span)?;
        Ok(match name {
            "deadlock free" | "deadlock-free" => Property::DeadlockFree(model),
            "livelock free" | "livelock-free" | "divergence free" | "divergence-free" => {
                Property::DivergenceFree(model)
            }
            "deterministic" => Property::Deterministic(model),
            "has trace" => {
                self.skip_newlines();
                if self.eat(Tok::EmptySeq) {
                    return Ok(Property::HasTrace(model, Exprs::default()));
                }
                if *self.peek() != Tok::Less {
                    return Err(self.unexpected("a sequence of events in `<` and `>`"));
                }
                self.advance();
                let events = self.sequence_items()?;
                Property::HasTrace(model, events)
            }
            other => {
                return Err(Diagnostic::new(
                    Stage::Syntax,
                    span,
                    format!("unknown property `{other}`"),
                )
                .help("properties: deadlock free, divergence free, deterministic, has trace"));
            }
        })
    }

    fn sequence_items(&mut self) -> Result<Exprs> {
        *self.open_seqs.last_mut().expect("never empty") += 1;
        let items = self.nest(|parser| parser.comma_list());
        *self.open_seqs.last_mut().expect("never empty") -= 1;
        let items = items?;
        self.expect(Tok::Greater, "at the end of the sequence")?;
        Ok(items.into())
    }

    fn model_option(&mut self, words: &str, span: Span) -> Result<ModelOption> {
        if matches!(words, "tau priority" | "tau priority over") {
            return Ok(ModelOption::TauPriority(self.expression()?));
        }
        let how = words
            .strip_prefix("partial order reduce")
            .map(|rest| rest.trim().trim_start_matches('[').trim_end_matches(']'));
        match how {
            Some("") => Ok(ModelOption::PartialOrderReduce(None)),
            Some(how) => Ok(ModelOption::PartialOrderReduce(Some(how.trim().into()))),
            None => Err(Diagnostic::new(
                Stage::Syntax,
                span,
                format!("unknown option `{words}`"),
            )
            .help("options: `:[partial order reduce [precise|hybrid|fast]]`, `:[tau priority over]: set`")),
        }
    }

    // Types

    fn scheme(&mut self) -> Result<Scheme> {
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

    /// An expression without pattern-only parts.
    fn expression(&mut self) -> Result<ExprId> {
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

    fn comma_list(&mut self) -> Result<Vec<ExprId>> {
        let mut items = vec![self.operators(0)?];
        while self.eat(Tok::Comma) {
            items.push(self.operators(0)?);
        }
        Ok(items)
    }

    /// Reads operators that bind at least as tightly as `minimum`. `pending` holds what waits
    /// for a right operand together with the level at which it was opened.
    fn operators(&mut self, minimum: u8) -> Result<ExprId> {
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
                    let decls = self.bracket(|parser| parser.declarations(Place::Let))?;
                    if decls.is_empty() {
                        return Err(self.unexpected("a definition after `let`"));
                    }
                    self.expect(Tok::Within, "after the definitions of `let`")?;
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
    fn pairs(&mut self, first: ExprId, op: Tok) -> Result<(Box<[(ExprId, ExprId)]>, Stmts)> {
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

    fn fields(&mut self) -> Result<Box<[Field]>> {
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

    fn postfix(&mut self, mut left: ExprId) -> Result<ExprId> {
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

    fn atom(&mut self) -> Result<ExprId> {
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
        let items = self.comma_list()?;
        let stmts = match self.eat(Tok::Pipe) {
            true => Some(self.statements()?),
            false => None,
        };
        self.expect(Tok::RightPipeBrace, "to close the set of events")?;
        Ok(Expr::Productions(items.into(), stmts))
    }

    fn map(&mut self) -> Result<Expr> {
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

    fn statements(&mut self) -> Result<Stmts> {
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

    /// Turns an expression into a pattern. The nodes of the expression are spent: pattern-only
    /// ones are overwritten, so that `check_no_pattern` does not see them again.
    fn pattern(&mut self, root: ExprId) -> Result<PatId> {
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

fn qualified_definition(span: Span) -> Diagnostic {
    Diagnostic::new(Stage::Syntax, span, "a qualified name cannot be defined")
        .help("define it inside its module")
}

fn split_model(words: &str, span: Span) -> Result<(&str, Option<Model>)> {
    let Some((name, rest)) = words.split_once('[') else {
        return Ok((words, None));
    };
    let letters = rest.trim().trim_end_matches(']').trim();
    match Model::parse(letters) {
        Some(model) => Ok((name.trim(), Some(model))),
        None => Err(
            Diagnostic::new(Stage::Syntax, span, format!("unknown model `{letters}`"))
                .help("models: T, F, FD"),
        ),
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
