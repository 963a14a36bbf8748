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

impl Ast {
    pub fn sizes(&self) -> Sizes {
        Sizes {
            exprs: self.exprs.len() as u32,
            pats: self.pats.len() as u32,
            decls: self.decls.len() as u32,
            types: self.types.len() as u32,
        }
    }
}
