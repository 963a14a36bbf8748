//! The tree of a script.
//!
//! Nodes live in arenas and refer to each other by id, so a chain of any length is built,
//! walked and dropped without recursion. Parentheses leave no node; a dot has all its parts in
//! one node (`a.(b.c)` and `(a.b).c` are `a.b.c`, as in FDR).

use rustc_hash::FxHashMap;

use crate::syntax::source::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(pub u32);

#[derive(Debug, Default)]
pub struct Interner {
    ids: FxHashMap<Box<str>, Symbol>,
    names: Vec<Box<str>>,
}

impl Interner {
    pub fn intern(&mut self, name: &str) -> Symbol {
        if let Some(&symbol) = self.ids.get(name) {
            return symbol;
        }
        let symbol = Symbol(self.names.len() as u32);
        self.names.push(name.into());
        self.ids.insert(name.into(), symbol);
        symbol
    }

    pub fn get(&self, name: &str) -> Option<Symbol> {
        self.ids.get(name).copied()
    }

    pub fn name(&self, symbol: Symbol) -> &str {
        &self.names[symbol.0 as usize]
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

macro_rules! ids {
    ($($name:ident)*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
    )*};
}

ids!(ExprId PatId DeclId TypeId);

pub type Exprs = Box<[ExprId]>;
pub type Pats = Box<[PatId]>;
pub type Stmts = Box<[Stmt]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    And,
    Or,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Plus,
    Minus,
    Times,
    Divide,
    Modulo,
    Concat,
    // processes
    ExternalChoice,
    InternalChoice,
    Interleave,
    Interrupt,
    Sliding,
    Sequence,
    Guard,
    Hide,
    Project,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    Not,
    Negate,
    Length,
}

/// How many expressions, patterns, declarations and types there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub exprs: u32,
    pub pats: u32,
    pub decls: u32,
    pub types: u32,
}

/// Operators with one event set between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetOp {
    Parallel,
    Exception,
    SyncChoice,
    SyncInterrupt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replicated {
    Interleave,
    ExternalChoice,
    InternalChoice,
    Sequence,
    Parallel(ExprId),
    Alphabetised(ExprId),
    SyncChoice(ExprId),
    Link {
        ties: Box<[(ExprId, ExprId)]>,
        tie_stmts: Stmts,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bracket {
    Seq,
    Set,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    Int(i64),
    Bool(bool),
    Char(char),
    Str(Box<str>),
    /// A name, qualified with `::` or not.
    Var(Symbol),
    Tuple(Exprs),
    Dot(Exprs),
    /// `<…>` or `{…}`.
    Items(Bracket, Exprs),
    Comprehension(Bracket, Exprs, Stmts),
    /// `<a..>`, `{a..b}`, `{a..b | stmts}`.
    Range {
        bracket: Bracket,
        from: ExprId,
        to: Option<ExprId>,
        stmts: Option<Stmts>,
    },
    /// `{| … |}`.
    Productions(Exprs, Option<Stmts>),
    Map(Box<[(ExprId, ExprId)]>),
    If(ExprId, ExprId, ExprId),
    Let(Box<[DeclId]>, ExprId),
    Lambda(Pats, ExprId),
    App(ExprId, Exprs),
    Unary(UnaryOp, ExprId),
    Binary(BinaryOp, ExprId, ExprId),
    Prefix {
        event: ExprId,
        fields: Box<[Field]>,
        body: ExprId,
    },
    WithSet {
        op: SetOp,
        left: ExprId,
        set: ExprId,
        right: ExprId,
    },
    Alphabetised {
        left: ExprId,
        left_set: ExprId,
        right_set: ExprId,
        right: ExprId,
    },
    Link {
        left: ExprId,
        ties: Box<[(ExprId, ExprId)]>,
        stmts: Stmts,
        right: ExprId,
    },
    Rename {
        process: ExprId,
        pairs: Box<[(ExprId, ExprId)]>,
        stmts: Stmts,
    },
    Replicated {
        op: Replicated,
        stmts: Stmts,
        body: ExprId,
    },
    /// `_`: legal only where the expression becomes a pattern.
    Wildcard,
    /// `p @@ q`: likewise.
    Both(ExprId, ExprId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// `?p` or `?p:set`.
    Input(PatId, Option<ExprId>),
    /// `$p` or `$p:set`.
    Nondeterministic(PatId, Option<ExprId>),
    /// `!e`.
    Output(ExprId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stmt {
    Generator(PatId, ExprId),
    Condition(ExprId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pat {
    Int(i64),
    Bool(bool),
    Char(char),
    Str(Box<str>),
    /// A binder, or the name of a channel or of a constructor.
    Var(Symbol),
    Wildcard,
    Tuple(Pats),
    Dot(Pats),
    Seq(Pats),
    Set(Pats),
    Concat(PatId, PatId),
    Both(PatId, PatId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Model {
    Traces,
    Failures,
    FailuresDivergences,
    Revivals,
    RevivalsDivergences,
    Refusals,
    RefusalsDivergences,
}

impl Model {
    pub fn parse(text: &str) -> Option<Model> {
        Some(match text {
            "T" => Model::Traces,
            "F" => Model::Failures,
            "FD" => Model::FailuresDivergences,
            "V" => Model::Revivals,
            "VD" => Model::RevivalsDivergences,
            "R" => Model::Refusals,
            "RD" => Model::RefusalsDivergences,
            _ => return None,
        })
    }

    pub fn letters(self) -> &'static str {
        match self {
            Model::Traces => "T",
            Model::Failures => "F",
            Model::FailuresDivergences => "FD",
            Model::Revivals => "V",
            Model::RevivalsDivergences => "VD",
            Model::Refusals => "R",
            Model::RefusalsDivergences => "RD",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Property {
    Refines(Model, ExprId),
    DeadlockFree(Option<Model>),
    DivergenceFree(Option<Model>),
    Deterministic(Option<Model>),
    HasTrace(Option<Model>, Exprs),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelOption {
    /// `:[tau priority over]: set`.
    TauPriority(ExprId),
    /// `:[partial order reduce [how]]`.
    PartialOrderReduce(Option<Box<str>>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssertDecl {
    pub negated: bool,
    pub process: ExprId,
    pub property: Property,
    pub options: Box<[(ModelOption, Span)]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// The groups of parameters: `f(x, y)(z)` has two.
    pub groups: Box<[Pats]>,
    pub body: ExprId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constructor {
    pub name: Symbol,
    pub span: Span,
    pub fields: Option<ExprId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decl {
    Function {
        name: Symbol,
        name_span: Span,
        clauses: Box<[Clause]>,
    },
    Pattern(PatId, ExprId),
    Channel(Box<[(Symbol, Span)]>, Option<ExprId>),
    Datatype {
        name: Symbol,
        name_span: Span,
        constructors: Box<[Constructor]>,
    },
    Subtype {
        name: Symbol,
        name_span: Span,
        constructors: Box<[Constructor]>,
    },
    Nametype(Symbol, Span, ExprId),
    External(Box<[(Symbol, Span)]>),
    Transparent(Box<[(Symbol, Span)]>),
    Assert(AssertDecl),
    Print(ExprId),
    Module {
        name: Symbol,
        name_span: Span,
        parameters: Pats,
        private: Box<[DeclId]>,
        exported: Box<[DeclId]>,
        /// The nodes of the module lie between these sizes of the arenas.
        nodes: (Sizes, Sizes),
    },
    Instance {
        name: Symbol,
        name_span: Span,
        of: Symbol,
        of_span: Span,
        arguments: Exprs,
    },
    Timed {
        function: Option<ExprId>,
        decls: Box<[DeclId]>,
    },
    /// `f, g :: type`.
    Annotation(Box<[(Symbol, Span)]>, Scheme),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// `Eq a, Ord b`.
    pub constraints: Box<[(Symbol, Symbol, Span)]>,
    pub body: TypeId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeExpr {
    Name(Symbol),
    Set(TypeId),
    Seq(TypeId),
    Map(TypeId, TypeId),
    Tuple(Box<[TypeId]>),
    Dot(TypeId, TypeId),
    /// `a => b`.
    Dotable(TypeId, TypeId),
    /// `a =>* b`.
    Extendable(Symbol, TypeId),
    Function(Box<[TypeId]>, TypeId),
}

#[derive(Debug, Default)]
pub struct Ast {
    pub names: Interner,
    exprs: Vec<Expr>,
    expr_spans: Vec<Span>,
    pats: Vec<Pat>,
    pat_spans: Vec<Span>,
    decls: Vec<Decl>,
    decl_spans: Vec<Span>,
    types: Vec<TypeExpr>,
    type_spans: Vec<Span>,
    /// The declarations of the script in order.
    pub top: Vec<DeclId>,
}

macro_rules! arena {
    ($add:ident $get:ident $span:ident $field:ident $spans:ident $id:ident $node:ident) => {
        pub fn $add(&mut self, node: $node, span: Span) -> $id {
            self.$field.push(node);
            self.$spans.push(span);
            $id(self.$field.len() as u32 - 1)
        }

        pub fn $get(&self, id: $id) -> &$node {
            &self.$field[id.0 as usize]
        }

        pub fn $span(&self, id: $id) -> Span {
            self.$spans[id.0 as usize]
        }
    };
}

impl Ast {
    arena!(add_expr expr expr_span exprs expr_spans ExprId Expr);
    arena!(add_pat pat pat_span pats pat_spans PatId Pat);
    arena!(add_decl decl decl_span decls decl_spans DeclId Decl);
    arena!(add_type type_expr type_span types type_spans TypeId TypeExpr);

    pub(crate) fn expr_mut(&mut self, id: ExprId) -> &mut Expr {
        &mut self.exprs[id.0 as usize]
    }

    pub(crate) fn widen(&mut self, id: ExprId, span: Span) {
        self.expr_spans[id.0 as usize] = span;
    }

    pub(crate) fn decl_mut(&mut self, id: DeclId) -> &mut Decl {
        &mut self.decls[id.0 as usize]
    }

    pub fn expr_count(&self) -> usize {
        self.exprs.len()
    }

    pub fn pat_count(&self) -> usize {
        self.pats.len()
    }

    pub fn decl_count(&self) -> usize {
        self.decls.len()
    }

    pub fn name(&self, symbol: Symbol) -> &str {
        self.names.name(symbol)
    }
}

/// A child of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Expr(ExprId),
    Pat(PatId),
    Decl(DeclId),
}

impl Ast {
    pub fn sizes(&self) -> Sizes {
        Sizes {
            exprs: self.exprs.len() as u32,
            pats: self.pats.len() as u32,
            decls: self.decls.len() as u32,
            types: self.types.len() as u32,
        }
    }

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

    /// A second copy of all nodes between two sizes. The answer maps an old declaration or
    /// pattern of the range to its copy.
    pub fn copy(&mut self, from: Sizes, to: Sizes) -> Copied {
        let now = self.sizes();
        let copied = Copied { from, to, now };
        for index in from.exprs..to.exprs {
            let node = copied.map_expr(&self.exprs[index as usize]);
            self.add_expr(node, self.expr_spans[index as usize]);
        }
        for index in from.pats..to.pats {
            let node = copied.map_pat(&self.pats[index as usize]);
            self.add_pat(node, self.pat_spans[index as usize]);
        }
        for index in from.decls..to.decls {
            let node = copied.map_decl(&self.decls[index as usize]);
            self.add_decl(node, self.decl_spans[index as usize]);
        }
        for index in from.types..to.types {
            let node = copied.map_type(&self.types[index as usize]);
            self.add_type(node, self.type_spans[index as usize]);
        }
        copied
    }
}

/// Where the nodes of a range were copied to.
#[derive(Clone, Copy)]
pub struct Copied {
    from: Sizes,
    to: Sizes,
    now: Sizes,
}

impl Copied {
    /// The numbers of the copied declarations.
    pub fn new_decls(&self) -> std::ops::Range<u32> {
        self.now.decls..self.now.decls + (self.to.decls - self.from.decls)
    }

    pub fn expr(&self, id: ExprId) -> ExprId {
        match (self.from.exprs..self.to.exprs).contains(&id.0) {
            true => ExprId(id.0 - self.from.exprs + self.now.exprs),
            false => id,
        }
    }

    pub fn pat(&self, id: PatId) -> PatId {
        match (self.from.pats..self.to.pats).contains(&id.0) {
            true => PatId(id.0 - self.from.pats + self.now.pats),
            false => id,
        }
    }

    pub fn decl(&self, id: DeclId) -> DeclId {
        match (self.from.decls..self.to.decls).contains(&id.0) {
            true => DeclId(id.0 - self.from.decls + self.now.decls),
            false => id,
        }
    }

    fn type_id(&self, id: TypeId) -> TypeId {
        match (self.from.types..self.to.types).contains(&id.0) {
            true => TypeId(id.0 - self.from.types + self.now.types),
            false => id,
        }
    }

    fn exprs(&self, ids: &[ExprId]) -> Exprs {
        ids.iter().map(|&id| self.expr(id)).collect()
    }

    fn pats(&self, ids: &[PatId]) -> Pats {
        ids.iter().map(|&id| self.pat(id)).collect()
    }

    pub fn decls(&self, ids: &[DeclId]) -> Box<[DeclId]> {
        ids.iter().map(|&id| self.decl(id)).collect()
    }

    fn pairs(&self, pairs: &[(ExprId, ExprId)]) -> Box<[(ExprId, ExprId)]> {
        let map = |&(left, right): &(ExprId, ExprId)| (self.expr(left), self.expr(right));
        pairs.iter().map(map).collect()
    }

    fn stmts(&self, stmts: &[Stmt]) -> Stmts {
        let map = |stmt: &Stmt| match stmt {
            Stmt::Generator(pat, set) => Stmt::Generator(self.pat(*pat), self.expr(*set)),
            Stmt::Condition(condition) => Stmt::Condition(self.expr(*condition)),
        };
        stmts.iter().map(map).collect()
    }

    fn map_expr(&self, expr: &Expr) -> Expr {
        let e = |id: &ExprId| self.expr(*id);
        match expr {
            Expr::Int(_)
            | Expr::Bool(_)
            | Expr::Char(_)
            | Expr::Str(_)
            | Expr::Var(_)
            | Expr::Wildcard => expr.clone(),
            Expr::Tuple(items) => Expr::Tuple(self.exprs(items)),
            Expr::Dot(items) => Expr::Dot(self.exprs(items)),
            Expr::Items(bracket, items) => Expr::Items(*bracket, self.exprs(items)),
            Expr::Comprehension(bracket, items, stmts) => {
                Expr::Comprehension(*bracket, self.exprs(items), self.stmts(stmts))
            }
            Expr::Range {
                bracket,
                from,
                to,
                stmts,
            } => Expr::Range {
                bracket: *bracket,
                from: e(from),
                to: to.as_ref().map(e),
                stmts: stmts.as_deref().map(|stmts| self.stmts(stmts)),
            },
            Expr::Productions(items, stmts) => Expr::Productions(
                self.exprs(items),
                stmts.as_deref().map(|stmts| self.stmts(stmts)),
            ),
            Expr::Map(pairs) => Expr::Map(self.pairs(pairs)),
            Expr::If(condition, then, other) => Expr::If(e(condition), e(then), e(other)),
            Expr::Let(decls, body) => Expr::Let(self.decls(decls), e(body)),
            Expr::Lambda(pats, body) => Expr::Lambda(self.pats(pats), e(body)),
            Expr::App(function, arguments) => Expr::App(e(function), self.exprs(arguments)),
            Expr::Unary(op, operand) => Expr::Unary(*op, e(operand)),
            Expr::Binary(op, left, right) => Expr::Binary(*op, e(left), e(right)),
            Expr::Both(left, right) => Expr::Both(e(left), e(right)),
            Expr::Prefix {
                event,
                fields,
                body,
            } => Expr::Prefix {
                event: e(event),
                fields: fields
                    .iter()
                    .map(|field| match field {
                        Field::Input(pat, set) => Field::Input(self.pat(*pat), set.as_ref().map(e)),
                        Field::Nondeterministic(pat, set) => {
                            Field::Nondeterministic(self.pat(*pat), set.as_ref().map(e))
                        }
                        Field::Output(value) => Field::Output(e(value)),
                    })
                    .collect(),
                body: e(body),
            },
            Expr::WithSet {
                op,
                left,
                set,
                right,
            } => Expr::WithSet {
                op: *op,
                left: e(left),
                set: e(set),
                right: e(right),
            },
            Expr::Alphabetised {
                left,
                left_set,
                right_set,
                right,
            } => Expr::Alphabetised {
                left: e(left),
                left_set: e(left_set),
                right_set: e(right_set),
                right: e(right),
            },
            Expr::Link {
                left,
                ties,
                stmts,
                right,
            } => Expr::Link {
                left: e(left),
                ties: self.pairs(ties),
                stmts: self.stmts(stmts),
                right: e(right),
            },
            Expr::Rename {
                process,
                pairs,
                stmts,
            } => Expr::Rename {
                process: e(process),
                pairs: self.pairs(pairs),
                stmts: self.stmts(stmts),
            },
            Expr::Replicated { op, stmts, body } => Expr::Replicated {
                op: match op {
                    Replicated::Parallel(set) => Replicated::Parallel(e(set)),
                    Replicated::Alphabetised(set) => Replicated::Alphabetised(e(set)),
                    Replicated::SyncChoice(set) => Replicated::SyncChoice(e(set)),
                    Replicated::Link { ties, tie_stmts } => Replicated::Link {
                        ties: self.pairs(ties),
                        tie_stmts: self.stmts(tie_stmts),
                    },
                    plain => plain.clone(),
                },
                stmts: self.stmts(stmts),
                body: e(body),
            },
        }
    }

    fn map_pat(&self, pat: &Pat) -> Pat {
        match pat {
            Pat::Tuple(pats) => Pat::Tuple(self.pats(pats)),
            Pat::Dot(pats) => Pat::Dot(self.pats(pats)),
            Pat::Seq(pats) => Pat::Seq(self.pats(pats)),
            Pat::Set(pats) => Pat::Set(self.pats(pats)),
            Pat::Concat(left, right) => Pat::Concat(self.pat(*left), self.pat(*right)),
            Pat::Both(left, right) => Pat::Both(self.pat(*left), self.pat(*right)),
            leaf => leaf.clone(),
        }
    }

    fn map_decl(&self, decl: &Decl) -> Decl {
        let e = |id: &ExprId| self.expr(*id);
        let constructors = |all: &[Constructor]| {
            all.iter()
                .map(|one| Constructor {
                    name: one.name,
                    span: one.span,
                    fields: one.fields.as_ref().map(e),
                })
                .collect()
        };
        match decl {
            Decl::Function {
                name,
                name_span,
                clauses,
            } => Decl::Function {
                name: *name,
                name_span: *name_span,
                clauses: clauses
                    .iter()
                    .map(|clause| Clause {
                        groups: clause.groups.iter().map(|group| self.pats(group)).collect(),
                        body: e(&clause.body),
                    })
                    .collect(),
            },
            Decl::Pattern(pat, body) => Decl::Pattern(self.pat(*pat), e(body)),
            Decl::Channel(names, fields) => Decl::Channel(names.clone(), fields.as_ref().map(e)),
            Decl::Datatype {
                name,
                name_span,
                constructors: all,
            } => Decl::Datatype {
                name: *name,
                name_span: *name_span,
                constructors: constructors(all),
            },
            Decl::Subtype {
                name,
                name_span,
                constructors: all,
            } => Decl::Subtype {
                name: *name,
                name_span: *name_span,
                constructors: constructors(all),
            },
            Decl::Nametype(name, span, value) => Decl::Nametype(*name, *span, e(value)),
            Decl::External(_) | Decl::Transparent(_) => decl.clone(),
            Decl::Assert(_) | Decl::Print(_) => {
                unreachable!("the parser allows neither in a module")
            }
            Decl::Module {
                name,
                name_span,
                parameters,
                private,
                exported,
                nodes,
            } => Decl::Module {
                name: *name,
                name_span: *name_span,
                parameters: self.pats(parameters),
                private: self.decls(private),
                exported: self.decls(exported),
                nodes: (self.size(nodes.0), self.size(nodes.1)),
            },
            Decl::Instance {
                name,
                name_span,
                of,
                of_span,
                arguments,
            } => Decl::Instance {
                name: *name,
                name_span: *name_span,
                of: *of,
                of_span: *of_span,
                arguments: self.exprs(arguments),
            },
            Decl::Timed { function, decls } => Decl::Timed {
                function: function.as_ref().map(e),
                decls: self.decls(decls),
            },
            Decl::Annotation(names, scheme) => Decl::Annotation(
                names.clone(),
                Scheme {
                    constraints: scheme.constraints.clone(),
                    body: self.type_id(scheme.body),
                },
            ),
        }
    }

    fn size(&self, sizes: Sizes) -> Sizes {
        Sizes {
            exprs: sizes.exprs - self.from.exprs + self.now.exprs,
            pats: sizes.pats - self.from.pats + self.now.pats,
            decls: sizes.decls - self.from.decls + self.now.decls,
            types: sizes.types - self.from.types + self.now.types,
        }
    }

    fn map_type(&self, node: &TypeExpr) -> TypeExpr {
        let t = |id: &TypeId| self.type_id(*id);
        match node {
            TypeExpr::Name(name) => TypeExpr::Name(*name),
            TypeExpr::Set(inner) => TypeExpr::Set(t(inner)),
            TypeExpr::Seq(inner) => TypeExpr::Seq(t(inner)),
            TypeExpr::Map(key, value) => TypeExpr::Map(t(key), t(value)),
            TypeExpr::Tuple(items) => TypeExpr::Tuple(items.iter().map(t).collect()),
            TypeExpr::Dot(left, right) => TypeExpr::Dot(t(left), t(right)),
            TypeExpr::Dotable(left, right) => TypeExpr::Dotable(t(left), t(right)),
            TypeExpr::Extendable(variable, result) => TypeExpr::Extendable(*variable, t(result)),
            TypeExpr::Function(arguments, result) => {
                TypeExpr::Function(arguments.iter().map(t).collect(), t(result))
            }
        }
    }
}
