//! Copies of parts of a tree, for the instances of modules.

use crate::syntax::ast::*;

impl Ast {
    /// A second copy of all nodes between two sizes. The answer maps an old declaration or
    /// pattern of the range to its copy.
    pub fn copy(&mut self, from: Sizes, to: Sizes) -> Copied {
        let now = self.sizes();
        let copied = Copied { from, to, now };
        for index in from.exprs..to.exprs {
            let node = copied.map_expr(self.expr(ExprId(index)));
            self.add_expr(node, self.expr_span(ExprId(index)));
        }
        for index in from.pats..to.pats {
            let node = copied.map_pat(self.pat(PatId(index)));
            self.add_pat(node, self.pat_span(PatId(index)));
        }
        for index in from.decls..to.decls {
            let node = copied.map_decl(self.decl(DeclId(index)));
            self.add_decl(node, self.decl_span(DeclId(index)));
        }
        for index in from.types..to.types {
            let node = copied.map_type(self.type_expr(TypeId(index)));
            self.add_type(node, self.type_span(TypeId(index)));
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
