//! The types of declarations.
//!
//! Declarations are checked in the order in which they need each other, those that need each
//! other mutually together. One error in a group of them does not hide those of others that do
//! not need it.

use rustc_hash::{FxHashMap, FxHashSet};

use super::ty::{Constraint, Scheme, Ty, TyId, Types};
use super::typed::Typed;
use crate::diagnostic::{Diagnostic, Stage};
use crate::graph::strongly_connected;
use crate::resolve::{DefId, DefKind, Resolved};
use crate::syntax::ast::*;
use crate::syntax::source::Span;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Infers and checks all types of a script. All errors that are found are returned.
pub fn check(resolved: &Resolved) -> std::result::Result<Typed, Vec<Diagnostic>> {
    let mut checker = Checker {
        resolved,
        ast: &resolved.ast,
        types: Types::new(),
        schemes: vec![None; resolved.defs.len()],
        wildcards: FxHashMap::default(),
        type_variables: FxHashMap::default(),
        lambdas: FxHashMap::default(),
        expr_types: vec![None; resolved.ast.expr_count()],
        errors: Vec::new(),
        failed: FxHashSet::default(),
    };
    checker.top(&resolved.top, true);
    for (parameters, decls) in &resolved.templates {
        checker.types.level += 1;
        let mut sound = true;
        for &parameter in parameters {
            sound &= match checker.pat(parameter) {
                Ok(_) => true,
                Err(error) => {
                    checker.errors.push(error);
                    false
                }
            };
        }
        if sound {
            checker.top(decls, false);
        }
        checker.types.level -= 1;
    }
    match checker.errors.is_empty() {
        true => Ok(Typed {
            types: checker.types,
            schemes: checker.schemes,
            lambdas: checker.lambdas,
            expr_types: checker.expr_types,
        }),
        false => Err(checker.errors),
    }
}

pub(super) struct Checker<'a> {
    pub(super) resolved: &'a Resolved,
    pub(super) ast: &'a Ast,
    pub(super) types: Types,
    pub(super) schemes: Vec<Option<Scheme>>,
    /// A wildcard keeps its type when its pattern is looked at again.
    pub(super) wildcards: FxHashMap<PatId, TyId>,
    pub(super) type_variables: FxHashMap<Symbol, TyId>,
    pub(super) lambdas: FxHashMap<ExprId, TyId>,
    pub(super) expr_types: Vec<Option<TyId>>,
    errors: Vec<Diagnostic>,
    failed: FxHashSet<DeclId>,
}

#[derive(Clone, Copy, PartialEq)]
enum Generalise {
    All,
    Annotated,
}

impl Checker<'_> {
    pub(super) fn set_mono(&mut self, def: DefId, body: TyId) {
        self.schemes[def.0 as usize] = Some(Scheme {
            variables: Vec::new(),
            body,
        });
    }

    /// The type of a variable that is being bound.
    pub(super) fn mono_type(&mut self, def: DefId) -> TyId {
        match &self.schemes[def.0 as usize] {
            Some(scheme) => scheme.body,
            None => {
                let body = self.types.fresh();
                self.set_mono(def, body);
                body
            }
        }
    }

    fn top(&mut self, decls: &[DeclId], generalise: bool) {
        let how = match generalise {
            true => Generalise::All,
            false => Generalise::Annotated,
        };
        for group in self.order(decls) {
            let needs_failed = group.iter().any(|decl| {
                let needs = self.resolved.needs.get(decl);
                needs.is_some_and(|needs| needs.iter().any(|need| self.failed.contains(need)))
            });
            if needs_failed {
                self.failed.extend(group);
                continue;
            }
            if let Err(error) = self.group(&group, how) {
                self.types.depth = 0;
                self.types.symmetric = true;
                self.errors.push(error);
                self.failed.extend(group);
            }
        }
    }

    /// The declarations of a `let`.
    pub(super) fn decls(&mut self, decls: &[DeclId]) -> Result<()> {
        for group in self.order(&self.ast.with_timed(decls)) {
            self.group(&group, Generalise::Annotated)?;
        }
        Ok(())
    }

    /// Groups of declarations that need each other, each group after those that it needs.
    fn order(&self, decls: &[DeclId]) -> Vec<Vec<DeclId>> {
        let position: FxHashMap<DeclId, u32> = (0..).zip(decls).map(|(i, &d)| (d, i)).collect();
        let component = strongly_connected(decls.len(), |decl| {
            let needs = self.resolved.needs.get(&decls[decl as usize]);
            let needs = needs.into_iter().flatten();
            needs.filter_map(|need| position.get(need).copied())
        });
        let count = component.iter().max().map_or(0, |most| *most as usize + 1);
        let mut groups = vec![Vec::new(); count];
        for (&decl, component) in decls.iter().zip(component) {
            groups[component as usize].push(decl);
        }
        groups
    }

    fn group(&mut self, decls: &[DeclId], how: Generalise) -> Result<()> {
        let mut decls = decls.to_vec();
        decls.sort_by_key(|&decl| !matches!(self.ast.decl(decl), Decl::Datatype { .. }));
        self.types.level += 1;
        let result = self.group_types(&decls);
        self.types.level -= 1;
        result?;
        for &decl in &decls {
            let defs = self.bound_here(decl);
            for def in defs {
                let body = self.mono_type(def);
                let annotated = self.resolved.annotations.contains_key(&def);
                if how == Generalise::All || annotated {
                    let scheme = self.types.generalise(body);
                    self.check_monomorphic(def, &scheme)?;
                    self.schemes[def.0 as usize] = Some(scheme);
                } else {
                    self.lower(body);
                }
            }
        }
        Ok(())
    }

    /// A type that is not generalised belongs to the scope outside.
    fn lower(&mut self, body: TyId) {
        let keep = self.types.fresh_var(0);
        let scheme = self.types.generalise(body);
        let level = self.types.vars[keep.0 as usize].level;
        for var in scheme.variables {
            self.types.vars[var.0 as usize].level = level;
        }
    }

    fn bound_here(&self, decl: DeclId) -> Vec<DefId> {
        let all = self.resolved.binds.get(&decl).cloned().unwrap_or_default();
        match self.ast.decl(decl) {
            Decl::Subtype { .. } => all.into_iter().take(1).collect(),
            _ => all,
        }
    }

    /// Channels and constructors have one type.
    fn check_monomorphic(&mut self, def: DefId, scheme: &Scheme) -> Result<()> {
        if scheme.variables.is_empty() || !self.resolved.is_constructor(def) {
            return Ok(());
        }
        let shown = self.show(scheme.body);
        Err(Diagnostic::new(
            Stage::Types,
            self.resolved.def(def).span,
            format!("the type of `{}` is ambiguous", self.resolved.name(def)),
        )
        .label(format!("its type is `{shown}`"))
        .help("annotate it, or use sets whose elements have a known type"))
    }

    fn group_types(&mut self, decls: &[DeclId]) -> Result<()> {
        for &decl in decls {
            for def in self.bound_here(decl) {
                let body = self.types.fresh();
                self.set_mono(def, body);
            }
        }
        for &decl in decls {
            if let Decl::Datatype { .. } = self.ast.decl(decl) {
                let def = self.bound_here(decl)[0];
                let datatype = self.types.add(Ty::Datatype(def));
                let set = self.types.set_of(datatype);
                let body = self.mono_type(def);
                self.unify_at(self.resolved.def(def).span, set, body)?;
            }
        }
        for &decl in decls {
            // The type variables of an annotation are known in the whole definition.
            let outer = self.type_variables.clone();
            let result = self.decl(decl);
            self.type_variables = outer;
            result?;
        }
        Ok(())
    }

    fn decl(&mut self, id: DeclId) -> Result<()> {
        let ast = self.ast;
        match ast.decl(id) {
            Decl::Function { clauses, .. } => self.function(id, clauses),
            Decl::Pattern(pat, body) => self.pattern(id, *pat, *body),
            Decl::Channel(names, fields) => self.channel(id, names, *fields),
            Decl::Datatype { constructors, .. } => self.datatype(id, constructors),
            Decl::Subtype { constructors, .. } => self.subtype(id, constructors),
            Decl::Nametype(_, _, value) => {
                let element = self.type_expression(*value)?;
                let span = ast.expr_span(*value);
                self.complete(span, element)?;
                let def = self.bound_here(id)[0];
                let set = self.types.set_of(element);
                if let Some(annotation) = self.annotation(def)? {
                    self.unify_at(span, annotation, set)?;
                }
                let body = self.mono_type(def);
                self.unify_at(span, body, set)?;
                Ok(())
            }
            Decl::Assert(assert) => self.assertion(assert),
            Decl::Print(value) => self.infer(*value).map(|_| ()),
            Decl::External(_)
            | Decl::Transparent(_)
            | Decl::Module { .. }
            | Decl::Instance { .. }
            | Decl::Annotation(..) => Ok(()),
            Decl::Timed { function, .. } => self.timed(id, *function),
        }
    }

    fn timed(&mut self, id: DeclId, function: Option<ExprId>) -> Result<()> {
        let section = self.resolved.section_of(id).expect("set by the resolver");
        let tock = self.type_of_def(section.tock);
        let span = self.resolved.def(section.tock).span;
        self.unify_at(span, Types::EVENT, tock)
            .map_err(|error| error.help("a timed section counts time with `channel tock`"))?;
        if let Some(function) = function {
            let wanted = self
                .types
                .add(Ty::Function([Types::EVENT].into(), Types::INT));
            self.expect(function, wanted).map_err(|error| {
                error.help("`Timed(f)` takes a function from an event to the tocks it lasts")
            })?;
        }
        Ok(())
    }

    fn complete(&mut self, span: Span, ty: TyId) -> Result<()> {
        self.types
            .constrain(Constraint::Complete, ty)
            .map_err(|why| self.mismatch(span, ty, ty, why))
    }

    fn function(&mut self, id: DeclId, clauses: &[Clause]) -> Result<()> {
        let ast = self.ast;
        let def = self.bound_here(id)[0];
        let annotation = self.annotation(def)?;
        let whole = self.mono_type(def);
        let shape: Vec<usize> = clauses[0].groups.iter().map(|group| group.len()).collect();
        let mut clause_types = Vec::new();
        for clause in clauses {
            let body_span = ast.expr_span(clause.body);
            let other: Vec<usize> = clause.groups.iter().map(|group| group.len()).collect();
            if other != shape {
                let name = self.resolved.name(def);
                let words = |shape: &[usize]| {
                    let counts: Vec<String> = shape.iter().map(|n| n.to_string()).collect();
                    counts.join(" and ")
                };
                return Err(Diagnostic::new(
                    Stage::Types,
                    body_span,
                    format!(
                        "the clauses of `{name}` take different numbers of arguments: {} and {}",
                        words(&shape),
                        words(&other)
                    ),
                )
                .related(self.resolved.def(def).span, "the first clause is here"));
            }
            let mut wanted: Option<(Vec<Vec<TyId>>, TyId)> = None;
            if let Some(annotation) = annotation {
                let groups: Vec<Vec<TyId>> = shape
                    .iter()
                    .map(|&n| (0..n).map(|_| self.types.fresh()).collect())
                    .collect();
                let result = self.types.fresh();
                let ty = self.function_type(&groups, result);
                self.unify_at(self.resolved.def(def).span, annotation, ty)?;
                wanted = Some((groups, result));
            }
            for (group_index, group) in clause.groups.iter().enumerate() {
                for (index, &pat) in group.iter().enumerate() {
                    let span = ast.pat_span(pat);
                    let ty = self.pat(pat)?;
                    let ty = self.eval_dots_at(span, ty)?;
                    if let Some((groups, _)) = &wanted {
                        let argument = self.eval_dots_at(span, groups[group_index][index])?;
                        let outer = std::mem::replace(&mut self.types.symmetric, false);
                        let result = self.unify_at(span, ty, argument);
                        self.types.symmetric = outer;
                        result?;
                    }
                }
            }
            let result = match &wanted {
                Some((_, result)) => self.expect_annotated(clause.body, *result)?,
                None => self.infer(clause.body)?,
            };
            let result = self.eval_dots_at(body_span, result)?;
            let mut groups = Vec::new();
            for group in &clause.groups {
                let mut types = Vec::new();
                for &pat in group {
                    let ty = self.pat(pat)?;
                    types.push(self.eval_dots_at(ast.pat_span(pat), ty)?);
                }
                groups.push(types);
            }
            clause_types.push((self.function_type(&groups, result), body_span));
        }
        // The last clause first, as the types of later clauses are the more general ones.
        let (mut ty, mut span) = clause_types.pop().expect("a function has a clause");
        while let Some((earlier, at)) = clause_types.pop() {
            ty = self.unify_clauses(def, at, earlier, ty)?;
            span = at;
        }
        self.unify_at(span, whole, ty)?;
        Ok(())
    }

    /// Expects the type of an annotation. Its variables cannot be bound, so dots are evaluated
    /// first.
    fn expect_annotated(&mut self, body: ExprId, expected: TyId) -> Result<TyId> {
        if self.types.head_ty(expected) == Ty::Proc {
            return self.expect(body, Types::PROC);
        }
        let span = self.ast.expr_span(body);
        let found = self.infer(body)?;
        let found = self.eval_dots_at(span, found)?;
        self.unify_at(span, expected, found)
    }

    fn unify_clauses(&mut self, def: DefId, span: Span, a: TyId, b: TyId) -> Result<TyId> {
        self.types.unify(a, b).map_err(|why| {
            let error = self.mismatch(span, b, a, why);
            let name = self.resolved.name(def);
            error.help(format!("all clauses of `{name}` must have one type"))
        })
    }

    fn function_type(&mut self, groups: &[Vec<TyId>], result: TyId) -> TyId {
        groups.iter().rev().fold(result, |result, group| {
            self.types.add(Ty::Function(group.clone().into(), result))
        })
    }

    fn pattern(&mut self, id: DeclId, pat: PatId, body: ExprId) -> Result<()> {
        let ast = self.ast;
        let span = ast.expr_span(body);
        let annotation = match ast.pat(pat) {
            Pat::Var(_) => match self.bound_here(id).first() {
                Some(&def) => self.annotation(def)?,
                None => None,
            },
            _ => None,
        };
        let (left, right) = match annotation {
            None => (self.pat(pat)?, self.infer(body)?),
            Some(ty) => (self.expect_pat(pat, ty)?, self.expect_annotated(body, ty)?),
        };
        let left = self.eval_dots_at(ast.pat_span(pat), left)?;
        let right = self.eval_dots_at(span, right)?;
        let outer = std::mem::replace(&mut self.types.symmetric, false);
        let result = self.types.unify(right, left);
        self.types.symmetric = outer;
        result.map_err(|why| self.mismatch(span, left, right, why))?;
        self.check_split(pat, right)
    }

    /// The element type of a type expression: a set, or a tuple or dot of such.
    fn type_expression(&mut self, id: ExprId) -> Result<TyId> {
        let span = self.ast.expr_span(id);
        let ty = self.infer(id)?;
        let ty = self.eval_dots_at(span, ty)?;
        self.element_type(span, ty)
    }

    fn element_type(&mut self, span: Span, ty: TyId) -> Result<TyId> {
        match self.types.head_ty(ty) {
            Ty::Tuple(items) => {
                let mut elements = Vec::new();
                for item in items {
                    elements.push(self.element_type(span, item)?);
                }
                Ok(self.types.add(Ty::Tuple(elements.into())))
            }
            Ty::Dot(..) => {
                let mut elements = Vec::new();
                for part in self.types.dot_list(ty) {
                    elements.push(self.element_type(span, part)?);
                }
                Ok(self.types.dots(&elements))
            }
            _ => {
                let element = self.types.fresh();
                let set = self.types.set_of(element);
                self.types.unify(set, ty).map_err(|why| {
                    self.mismatch(span, set, ty, why)
                        .help("the fields of channels and constructors are given by sets, as in `channel c : Int.{0..3}`")
                })?;
                Ok(element)
            }
        }
    }

    fn channel(
        &mut self,
        id: DeclId,
        names: &[(Symbol, Span)],
        fields: Option<ExprId>,
    ) -> Result<()> {
        let defs = self.bound_here(id);
        let mut parts = Vec::new();
        if let Some(fields) = fields {
            let span = self.ast.expr_span(fields);
            let element = self.type_expression(fields)?;
            for constraint in [Constraint::Eq, Constraint::Complete] {
                self.types
                    .constrain(constraint, element)
                    .map_err(|why| self.mismatch(span, element, element, why))?;
            }
            parts = self.types.dot_list(element);
        }
        let ty = self.types.dotables(&parts, Types::EVENT);
        for (&def, &(_, span)) in defs.iter().zip(names) {
            if let Some(annotation) = self.annotation(def)? {
                self.unify_at(span, annotation, ty)?;
            }
            let body = self.mono_type(def);
            self.unify_at(span, ty, body)?;
        }
        Ok(())
    }

    fn fields(&mut self, constructor: &Constructor) -> Result<Vec<TyId>> {
        let Some(fields) = constructor.fields else {
            return Ok(Vec::new());
        };
        let element = self.type_expression(fields)?;
        self.complete(self.ast.expr_span(fields), element)?;
        Ok(self.types.dot_list(element))
    }

    fn datatype(&mut self, id: DeclId, constructors: &[Constructor]) -> Result<()> {
        let defs = self.bound_here(id);
        let datatype = self.types.add(Ty::Datatype(defs[0]));
        let mut all = Vec::new();
        for (constructor, &def) in constructors.iter().zip(&defs[1..]) {
            let fields = self.fields(constructor)?;
            let ty = self.types.dotables(&fields, datatype);
            if let Some(annotation) = self.annotation(def)? {
                self.unify_at(constructor.span, annotation, ty)?;
            }
            let body = self.mono_type(def);
            self.unify_at(constructor.span, ty, body)?;
            all.extend(fields);
        }
        self.types.datatypes.insert(defs[0], all);
        Ok(())
    }

    fn subtype(&mut self, id: DeclId, constructors: &[Constructor]) -> Result<()> {
        let binds = self.resolved.binds.get(&id).cloned().unwrap_or_default();
        let parent = self.types.fresh();
        let mut parents = binds[1..].iter();
        for constructor in constructors {
            let def = parents.clone().find(|&&def| {
                self.resolved
                    .name(def)
                    .rsplit("::")
                    .next()
                    .is_some_and(|name| name == self.ast.name(constructor.name))
            });
            let Some(&def) = def else {
                return Err(Diagnostic::new(
                    Stage::Names,
                    constructor.span,
                    format!("unknown constructor `{}`", self.ast.name(constructor.name)),
                )
                .help("a subtype lists constructors of one existing datatype"));
            };
            if let DefKind::Channel(_) = self.resolved.def(def).kind {
                return Err(Diagnostic::new(
                    Stage::Types,
                    constructor.span,
                    format!(
                        "`{}` is a channel, not a constructor",
                        self.ast.name(constructor.name)
                    ),
                ));
            }
            let fields = self.fields(constructor)?;
            let ty = self.type_of_def(def);
            let (actual, result) = self.types.reduce(ty);
            if fields.len() > actual.len() {
                return Err(Diagnostic::new(
                    Stage::Types,
                    constructor.span,
                    format!(
                        "`{}` has {} fields, but {} are given",
                        self.ast.name(constructor.name),
                        actual.len(),
                        fields.len()
                    ),
                ));
            }
            self.unify_at(constructor.span, parent, result)?;
            for (&actual, &given) in actual.iter().zip(&fields) {
                self.unify_at(constructor.span, actual, given)?;
            }
        }
        parents.next();
        let set = self.types.set_of(parent);
        let body = self.mono_type(binds[0]);
        self.unify_at(self.resolved.def(binds[0]).span, body, set)?;
        Ok(())
    }

    fn assertion(&mut self, assert: &AssertDecl) -> Result<()> {
        self.expect(assert.process, Types::PROC)?;
        match &assert.property {
            Property::Refines(_, implementation) => {
                self.expect(*implementation, Types::PROC)?;
            }
            Property::HasTrace(_, events) => {
                for &event in events {
                    self.expect(event, Types::EVENT)?;
                }
            }
            _ => {}
        }
        for (option, _) in &assert.options {
            if let ModelOption::TauPriority(set) = option {
                self.expect(*set, Types::EVENTS)?;
            }
        }
        Ok(())
    }

    // Annotations
}
