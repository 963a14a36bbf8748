//! Names to definitions: which binding each name of a script means.
//!
//! Modules vanish here: their declarations join those of the script, with qualified names, and
//! every instance of a module is a copy of it with its parameters bound. A name in a pattern is
//! a channel or constructor if one of that name is in scope, and a new variable otherwise.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::builtin::{Builtin, Import};
use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;
use crate::syntax::source::Span;

type Result<T> = std::result::Result<T, Diagnostic>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DefId(pub u32);

/// One scope's worth of declarations that may use each other: the script, or one `let`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefKind {
    Builtin(Builtin),
    Function(DeclId),
    /// Bound by the pattern of a declaration.
    Value(DeclId),
    /// A parameter, or bound by a generator or an input.
    Local,
    Channel(DeclId),
    /// The n-th constructor of a datatype.
    Constructor(DeclId, u32),
    Datatype(DeclId),
    Nametype(DeclId),
    Subtype(DeclId),
}

#[derive(Clone, Debug)]
pub struct Def {
    /// Qualified, as it is shown.
    pub name: Symbol,
    pub span: Span,
    pub kind: DefKind,
    pub group: Option<GroupId>,
    /// Bound at the top level or in a module, not in a `let` or as a parameter.
    pub global: bool,
}

/// A script whose names are resolved.
#[derive(Debug)]
pub struct Resolved {
    pub ast: Ast,
    pub defs: Vec<Def>,
    exprs: Vec<Option<DefId>>,
    pats: Vec<Option<DefId>>,
    types: FxHashMap<TypeId, DefId>,
    /// What each declaration binds: for a datatype its name first, then its constructors.
    pub binds: FxHashMap<DeclId, Vec<DefId>>,
    /// The declarations of the script, those of modules and instances among them.
    pub top: Vec<DeclId>,
    /// Parameterised modules, only to be type-checked: parameters and declarations.
    pub templates: Vec<(Pats, Vec<DeclId>)>,
    /// What the declarations of one group need of each other.
    pub needs: FxHashMap<DeclId, Vec<DeclId>>,
    pub annotations: FxHashMap<DefId, DeclId>,
}

impl Resolved {
    pub fn expr(&self, id: ExprId) -> Option<DefId> {
        self.exprs[id.0 as usize]
    }

    pub fn pat(&self, id: PatId) -> Option<DefId> {
        self.pats[id.0 as usize]
    }

    pub fn type_def(&self, id: TypeId) -> Option<DefId> {
        self.types.get(&id).copied()
    }

    pub fn def(&self, id: DefId) -> &Def {
        &self.defs[id.0 as usize]
    }

    pub fn name(&self, id: DefId) -> &str {
        self.ast.name(self.def(id).name)
    }

    /// Whether a pattern variable is a channel or constructor rather than a binder.
    pub fn is_constructor(&self, id: DefId) -> bool {
        matches!(
            self.def(id).kind,
            DefKind::Channel(_) | DefKind::Constructor(..)
        )
    }
}

pub fn resolve(ast: Ast) -> Result<Resolved> {
    let mut resolver = Resolver {
        ast,
        defs: Vec::new(),
        exprs: Vec::new(),
        pats: Vec::new(),
        types: FxHashMap::default(),
        binds: FxHashMap::default(),
        top: Vec::new(),
        templates: Vec::new(),
        needs: FxHashMap::default(),
        annotations: FxHashMap::default(),
        imports: FxHashMap::default(),
        scope: FxHashMap::default(),
        modules: FxHashMap::default(),
        undo: Vec::new(),
        marks: Vec::new(),
        current: Vec::new(),
        groups: 0,
        prefix: String::new(),
        instances: 0,
    };
    resolver.declare_builtins();
    let top = resolver.ast.top.clone();
    let group = resolver.new_group();
    let bodies = resolver.declare_all(&top, group, true)?;
    resolver.bodies(bodies, group)?;
    resolver.exprs.resize(resolver.ast.expr_count(), None);
    resolver.pats.resize(resolver.ast.pat_count(), None);
    Ok(Resolved {
        ast: resolver.ast,
        defs: resolver.defs,
        exprs: resolver.exprs,
        pats: resolver.pats,
        types: resolver.types,
        binds: resolver.binds,
        top: resolver.top,
        templates: resolver.templates,
        needs: resolver.needs,
        annotations: resolver.annotations,
    })
}

#[derive(Clone, Copy)]
struct ModuleInfo {
    decl: DeclId,
}

/// What is left to do once all names of a scope are known.
enum Body {
    Decl(DeclId),
    /// A module or an instance: its own scope, and what is in it.
    Module {
        names: Vec<(Symbol, DefId)>,
        modules: Vec<(Symbol, ModuleInfo)>,
        bodies: Vec<Body>,
        prefix: String,
    },
    /// A parameterised module by itself.
    Template(DeclId),
}

enum Undo {
    Name(Symbol, Option<DefId>),
    Module(Symbol, Option<ModuleInfo>),
}

enum Step {
    Expr(ExprId),
    Bind(Vec<PatId>),
    Enter,
    Leave,
    StartDecl(GroupId, DeclId),
    EndDecl,
}

struct Resolver {
    ast: Ast,
    defs: Vec<Def>,
    exprs: Vec<Option<DefId>>,
    pats: Vec<Option<DefId>>,
    types: FxHashMap<TypeId, DefId>,
    binds: FxHashMap<DeclId, Vec<DefId>>,
    top: Vec<DeclId>,
    templates: Vec<(Pats, Vec<DeclId>)>,
    needs: FxHashMap<DeclId, Vec<DeclId>>,
    annotations: FxHashMap<DefId, DeclId>,
    imports: FxHashMap<&'static str, (DefId, Import)>,
    scope: FxHashMap<Symbol, DefId>,
    modules: FxHashMap<Symbol, ModuleInfo>,
    undo: Vec<Undo>,
    marks: Vec<usize>,
    // the declarations that are being resolved, outermost first
    current: Vec<(GroupId, DeclId)>,
    groups: u32,
    // of the module that is being declared, with `::` at its end
    prefix: String,
    instances: u32,
}

const MAX_INSTANCES: u32 = 2000;

impl Resolver {
    fn new_group(&mut self) -> GroupId {
        self.groups += 1;
        GroupId(self.groups - 1)
    }

    fn new_def(&mut self, name: Symbol, span: Span, kind: DefKind) -> DefId {
        self.defs.push(Def {
            name,
            span,
            kind,
            group: None,
            global: false,
        });
        DefId(self.defs.len() as u32 - 1)
    }

    fn declare_builtins(&mut self) {
        for &(builtin, name, import) in Builtin::ALL {
            let symbol = self.ast.names.intern(name);
            let def = self.new_def(symbol, Span::default(), DefKind::Builtin(builtin));
            self.defs[def.0 as usize].global = true;
            if import == Import::Always {
                self.scope.insert(symbol, def);
            } else {
                self.imports.insert(name, (def, import));
            }
        }
    }

    fn bind_name(&mut self, name: Symbol, def: DefId) {
        let old = self.scope.insert(name, def);
        self.undo.push(Undo::Name(name, old));
    }

    fn bind_module(&mut self, name: Symbol, info: ModuleInfo) {
        let old = self.modules.insert(name, info);
        self.undo.push(Undo::Module(name, old));
    }

    fn enter(&mut self) {
        self.marks.push(self.undo.len());
    }

    fn leave(&mut self) {
        let mark = self.marks.pop().expect("every leave has its enter");
        while self.undo.len() > mark {
            match self.undo.pop().expect("longer than the mark") {
                Undo::Name(name, Some(old)) => {
                    self.scope.insert(name, old);
                }
                Undo::Name(name, None) => {
                    self.scope.remove(&name);
                }
                Undo::Module(name, Some(old)) => {
                    self.modules.insert(name, old);
                }
                Undo::Module(name, None) => {
                    self.modules.remove(&name);
                }
            }
        }
    }

    // Declarations

    /// Declares the names of one scope and binds them in it.
    fn declare_all(&mut self, decls: &[DeclId], group: GroupId, top: bool) -> Result<Vec<Body>> {
        let mut seen: FxHashMap<Symbol, (Span, DefId)> = FxHashMap::default();
        let mut bodies = Vec::new();
        // Constructors and channels first: they decide what a name in a pattern is.
        for &decl in decls {
            self.declare_types(decl, group, top, &mut seen, &mut bodies)?;
        }
        for &decl in decls {
            let Decl::Module {
                name, name_span, ..
            } = self.ast.decl(decl).clone()
            else {
                continue;
            };
            let info = ModuleInfo { decl };
            if let Some(old) = self.modules.get(&name)
                && decls.contains(&old.decl)
            {
                return Err(self.twice(name, name_span, self.ast.decl_span(old.decl)));
            }
            self.bind_module(name, info);
        }
        for &decl in decls {
            match self.ast.decl(decl).clone() {
                Decl::Module {
                    name,
                    parameters,
                    private,
                    exported,
                    ..
                } => {
                    if !parameters.is_empty() {
                        bodies.push(Body::Template(decl));
                        continue;
                    }
                    self.declare_module(name, None, &private, &exported, group, &mut bodies)?;
                }
                Decl::Instance {
                    name,
                    of,
                    of_span,
                    arguments,
                    ..
                } => {
                    let body = self.declare_instance(decl, name, of, of_span, &arguments, group)?;
                    bodies.extend(body);
                }
                _ => {}
            }
        }
        for &decl in decls {
            self.declare_values(decl, group, top, &mut seen, &mut bodies)?;
        }
        for &decl in decls {
            if let Decl::Annotation(names, scheme) = self.ast.decl(decl).clone() {
                for (name, span) in names {
                    let Some(&(_, def)) = seen.get(&name) else {
                        return Err(Diagnostic::new(
                            Stage::Names,
                            span,
                            format!(
                                "the type annotation of `{}` belongs to no definition",
                                self.ast.name(name)
                            ),
                        )
                        .help("an annotation stands in the same scope as the definition"));
                    };
                    if self.annotations.insert(def, decl).is_some() {
                        return Err(Diagnostic::new(
                            Stage::Names,
                            span,
                            format!("`{}` has two type annotations", self.ast.name(name)),
                        ));
                    }
                }
                self.type_names(scheme.body);
            }
        }
        Ok(bodies)
    }

    fn twice(&self, name: Symbol, span: Span, first: Span) -> Diagnostic {
        Diagnostic::new(
            Stage::Names,
            span,
            format!("`{}` is defined twice", self.ast.name(name)),
        )
        .label("second definition")
        .related(first, "the first definition is here")
    }

    fn declare(
        &mut self,
        name: Symbol,
        span: Span,
        kind: DefKind,
        (group, top): (GroupId, bool),
        seen: &mut FxHashMap<Symbol, (Span, DefId)>,
    ) -> Result<DefId> {
        if let Some(&(first, old)) = seen.get(&name) {
            let mut error = self.twice(name, span, first);
            if let (DefKind::Function(_), DefKind::Function(_)) =
                (kind, self.defs[old.0 as usize].kind)
            {
                error = error.help("the clauses of one function must follow each other");
            }
            return Err(error);
        }
        if self.ast.name(name).contains("::") {
            return Err(Diagnostic::new(
                Stage::Names,
                span,
                "a qualified name cannot be defined",
            ));
        }
        let shown = match self.prefix.is_empty() {
            true => name,
            false => {
                let shown = format!("{}{}", self.prefix, self.ast.name(name));
                self.ast.names.intern(&shown)
            }
        };
        let def = self.new_def(shown, span, kind);
        self.defs[def.0 as usize].group = Some(group);
        self.defs[def.0 as usize].global = top;
        seen.insert(name, (span, def));
        self.bind_name(name, def);
        Ok(def)
    }

    fn declare_types(
        &mut self,
        decl: DeclId,
        group: GroupId,
        top: bool,
        seen: &mut FxHashMap<Symbol, (Span, DefId)>,
        bodies: &mut Vec<Body>,
    ) -> Result<()> {
        let place = (group, top);
        match self.ast.decl(decl).clone() {
            Decl::Channel(names, _) => {
                let mut defs = Vec::new();
                for (name, span) in names {
                    let kind = DefKind::Channel(decl);
                    defs.push(self.declare(name, span, kind, place, seen)?);
                }
                self.binds.insert(decl, defs);
            }
            Decl::Datatype {
                name,
                name_span,
                constructors,
            } => {
                let kind = DefKind::Datatype(decl);
                let mut defs = vec![self.declare(name, name_span, kind, place, seen)?];
                for (index, one) in constructors.iter().enumerate() {
                    let kind = DefKind::Constructor(decl, index as u32);
                    defs.push(self.declare(one.name, one.span, kind, place, seen)?);
                }
                self.binds.insert(decl, defs);
            }
            Decl::Subtype {
                name, name_span, ..
            } => {
                let kind = DefKind::Subtype(decl);
                let def = self.declare(name, name_span, kind, place, seen)?;
                self.binds.insert(decl, vec![def]);
            }
            Decl::Nametype(name, span, _) => {
                let def = self.declare(name, span, DefKind::Nametype(decl), place, seen)?;
                self.binds.insert(decl, vec![def]);
            }
            Decl::Function {
                name, name_span, ..
            } => {
                let kind = DefKind::Function(decl);
                let def = self.declare(name, name_span, kind, place, seen)?;
                self.binds.insert(decl, vec![def]);
            }
            Decl::External(names) => self.import(&names, Import::External)?,
            Decl::Transparent(names) => self.import(&names, Import::Transparent)?,
            Decl::Timed { .. } => {
                return Err(Diagnostic::new(
                    Stage::Unsupported,
                    self.ast.decl_span(decl),
                    "timed sections (`Timed { … }`) are not supported",
                )
                .help("model time with an explicit `tock` event"));
            }
            Decl::Pattern(..)
            | Decl::Module { .. }
            | Decl::Instance { .. }
            | Decl::Annotation(..)
            | Decl::Assert(_)
            | Decl::Print(_) => return Ok(()),
        }
        if !matches!(
            self.ast.decl(decl),
            Decl::External(_) | Decl::Transparent(_)
        ) {
            bodies.push(Body::Decl(decl));
        }
        Ok(())
    }

    fn import(&mut self, names: &[(Symbol, Span)], how: Import) -> Result<()> {
        for &(name, span) in names {
            let text = self.ast.name(name);
            match self.imports.get(text) {
                Some(&(def, import)) if import == how || import == Import::Either => {
                    self.bind_name(name, def);
                }
                Some(_) => {
                    let (right, wrong) = match how {
                        Import::External => ("transparent", "external"),
                        _ => ("external", "transparent"),
                    };
                    return Err(Diagnostic::new(
                        Stage::Names,
                        span,
                        format!("`{text}` is not {wrong}"),
                    )
                    .help(format!("write: {right} {text}")));
                }
                None => {
                    let word = match how {
                        Import::External => "external",
                        _ => "transparent",
                    };
                    return Err(Diagnostic::new(
                        Stage::Names,
                        span,
                        format!("there is no {word} function `{text}`"),
                    ));
                }
            }
        }
        Ok(())
    }

    fn declare_values(
        &mut self,
        decl: DeclId,
        group: GroupId,
        top: bool,
        seen: &mut FxHashMap<Symbol, (Span, DefId)>,
        bodies: &mut Vec<Body>,
    ) -> Result<()> {
        match self.ast.decl(decl).clone() {
            Decl::Pattern(pat, _) => {
                let mut defs = Vec::new();
                for (leaf, name) in self.pattern_names(pat) {
                    let def = match self.constructor_named(name) {
                        Some(def) => def,
                        None => {
                            let span = self.ast.pat_span(leaf);
                            let kind = DefKind::Value(decl);
                            let def = self.declare(name, span, kind, (group, top), seen)?;
                            defs.push(def);
                            def
                        }
                    };
                    self.set_pat(leaf, def);
                }
                self.binds.insert(decl, defs);
            }
            Decl::Assert(_) | Decl::Print(_) => {
                self.binds.insert(decl, Vec::new());
            }
            _ => return Ok(()),
        }
        bodies.push(Body::Decl(decl));
        Ok(())
    }

    /// The variables of a pattern from left to right.
    fn pattern_names(&self, pat: PatId) -> Vec<(PatId, Symbol)> {
        let mut names = Vec::new();
        let mut left = vec![pat];
        let mut inner = Vec::new();
        while let Some(pat) = left.pop() {
            if let Pat::Var(name) = self.ast.pat(pat) {
                names.push((pat, *name));
            }
            self.ast.inner_pats(pat, &mut inner);
            left.extend(inner.drain(..).rev());
        }
        names
    }

    fn constructor_named(&self, name: Symbol) -> Option<DefId> {
        let def = *self.scope.get(&name)?;
        match self.defs[def.0 as usize].kind {
            DefKind::Channel(_) | DefKind::Constructor(..) => Some(def),
            _ => None,
        }
    }

    fn declare_module(
        &mut self,
        name: Symbol,
        parameters: Option<&[DeclId]>,
        private: &[DeclId],
        exported: &[DeclId],
        group: GroupId,
        bodies: &mut Vec<Body>,
    ) -> Result<()> {
        let outer = self.prefix.clone();
        self.prefix = format!("{outer}{}::", self.ast.name(name));
        self.enter();
        let start = self.undo.len();
        let parameters = parameters.unwrap_or_default();
        let mut all = Vec::with_capacity(parameters.len() + private.len() + exported.len());
        all.extend_from_slice(parameters);
        all.extend_from_slice(private);
        all.extend_from_slice(exported);
        let inner = self.declare_all(&all, group, true)?;
        let exported_names = self.exported_names(exported);
        // What was bound in the module, to bind it again when its bodies are resolved.
        let mut names = Vec::new();
        let mut modules = Vec::new();
        for undo in &self.undo[start..] {
            match undo {
                Undo::Name(name, _) => names.push((*name, self.scope[name])),
                Undo::Module(name, _) => modules.push((*name, self.modules[name])),
            }
        }
        let mut outside = Vec::new();
        let mut outside_modules = Vec::new();
        for inner in exported_names {
            let shown = format!("{}::{}", self.ast.name(name), self.ast.name(inner));
            let qualified = self.ast.names.intern(&shown);
            if let Some(&def) = self.scope.get(&inner) {
                outside.push((qualified, def));
            }
            if let Some(&info) = self.modules.get(&inner) {
                outside_modules.push((qualified, info));
            }
        }
        self.leave();
        for (name, def) in outside {
            self.bind_name(name, def);
        }
        for (name, info) in outside_modules {
            self.bind_module(name, info);
        }
        let prefix = std::mem::replace(&mut self.prefix, outer);
        bodies.push(Body::Module {
            names,
            modules,
            bodies: inner,
            prefix,
        });
        Ok(())
    }

    /// The names that declarations export, those of inner modules qualified.
    fn exported_names(&self, decls: &[DeclId]) -> Vec<Symbol> {
        let mut names = Vec::new();
        for &decl in decls {
            match self.ast.decl(decl) {
                Decl::Function { name, .. }
                | Decl::Subtype { name, .. }
                | Decl::Nametype(name, ..) => names.push(*name),
                Decl::Datatype {
                    name, constructors, ..
                } => {
                    names.push(*name);
                    names.extend(constructors.iter().map(|one| one.name));
                }
                Decl::Channel(all, _) => names.extend(all.iter().map(|(name, _)| *name)),
                Decl::Pattern(pat, _) => {
                    names.extend(self.pattern_names(*pat).into_iter().map(|(_, name)| name));
                }
                Decl::Module { name, .. } | Decl::Instance { name, .. } => {
                    names.push(*name);
                    let prefix = format!("{}::", self.ast.name(*name));
                    let mut inner: Vec<Symbol> = self
                        .scope
                        .keys()
                        .chain(self.modules.keys())
                        .copied()
                        .filter(|&symbol| self.ast.name(symbol).starts_with(&prefix))
                        .collect();
                    inner.sort();
                    inner.dedup();
                    names.extend(inner);
                }
                _ => {}
            }
        }
        names
    }

    fn declare_instance(
        &mut self,
        decl: DeclId,
        name: Symbol,
        of: Symbol,
        of_span: Span,
        arguments: &[ExprId],
        group: GroupId,
    ) -> Result<Vec<Body>> {
        let Some(&info) = self.modules.get(&of) else {
            return Err(self.unknown(of, of_span, "module"));
        };
        let Decl::Module {
            parameters,
            private,
            exported,
            nodes,
            name_span,
            ..
        } = self.ast.decl(info.decl).clone()
        else {
            unreachable!("modules are declared by module declarations");
        };
        if parameters.len() != arguments.len() {
            return Err(Diagnostic::new(
                Stage::Types,
                self.ast.decl_span(decl),
                format!(
                    "module `{}` takes {} arguments, but {} are given",
                    self.ast.name(of),
                    parameters.len(),
                    arguments.len()
                ),
            )
            .related(name_span, "the module is here"));
        }
        self.instances += 1;
        if self.instances > MAX_INSTANCES {
            return Err(Diagnostic::new(
                Stage::Names,
                self.ast.decl_span(decl),
                format!("more than {MAX_INSTANCES} module instances"),
            )
            .help("does a module contain an instance of itself?"));
        }
        let copied = self.ast.copy(nodes.0, nodes.1);
        let mut bindings = Vec::new();
        for (&parameter, &argument) in parameters.iter().zip(arguments) {
            let span = self.ast.expr_span(argument);
            let binding = Decl::Pattern(copied.pat(parameter), argument);
            bindings.push(self.ast.add_decl(binding, span));
        }
        let private = copied.decls(&private);
        let exported = copied.decls(&exported);
        let mut bodies = Vec::new();
        self.declare_module(
            name,
            Some(&bindings),
            &private,
            &exported,
            group,
            &mut bodies,
        )?;
        // The arguments belong to the scope outside.
        let Some(Body::Module { bodies: inner, .. }) = bodies.last_mut() else {
            unreachable!("declare_module adds the module last");
        };
        let is_binding = |body: &Body| matches!(body, Body::Decl(decl) if bindings.contains(decl));
        let mut outside: Vec<Body> = Vec::new();
        let mut index = 0;
        while index < inner.len() {
            match is_binding(&inner[index]) {
                true => outside.push(inner.remove(index)),
                false => index += 1,
            }
        }
        outside.extend(bodies);
        Ok(outside)
    }

    fn type_names(&mut self, id: TypeId) {
        let mut left = vec![id];
        while let Some(id) = left.pop() {
            match self.ast.type_expr(id).clone() {
                TypeExpr::Name(name) => {
                    let Some(&def) = self.scope.get(&name) else {
                        continue;
                    };
                    if matches!(
                        self.defs[def.0 as usize].kind,
                        DefKind::Datatype(_) | DefKind::Builtin(_)
                    ) {
                        self.types.insert(id, def);
                    }
                }
                TypeExpr::Set(inner) | TypeExpr::Seq(inner) | TypeExpr::Extendable(_, inner) => {
                    left.push(inner);
                }
                TypeExpr::Map(a, b) | TypeExpr::Dot(a, b) | TypeExpr::Dotable(a, b) => {
                    left.extend([a, b]);
                }
                TypeExpr::Tuple(items) => left.extend(items.iter().copied()),
                TypeExpr::Function(arguments, result) => {
                    left.extend(arguments.iter().copied());
                    left.push(result);
                }
            }
        }
    }

    // Bodies

    fn bodies(&mut self, bodies: Vec<Body>, group: GroupId) -> Result<()> {
        for body in bodies {
            match body {
                Body::Decl(decl) => {
                    self.top.push(decl);
                    let mut steps = Vec::new();
                    self.decl_steps(decl, group, &mut steps);
                    steps.reverse();
                    self.run(steps)?;
                }
                Body::Module {
                    names,
                    modules,
                    bodies,
                    prefix,
                } => {
                    self.enter();
                    for (name, def) in names {
                        self.bind_name(name, def);
                    }
                    for (name, info) in modules {
                        self.bind_module(name, info);
                    }
                    let outer = std::mem::replace(&mut self.prefix, prefix);
                    let result = self.bodies(bodies, group);
                    self.prefix = outer;
                    self.leave();
                    result?;
                }
                Body::Template(decl) => self.template(decl)?,
            }
        }
        Ok(())
    }

    /// Resolves a parameterised module by itself, so that its errors show without an instance.
    fn template(&mut self, decl: DeclId) -> Result<()> {
        let Decl::Module {
            name,
            parameters,
            private,
            exported,
            ..
        } = self.ast.decl(decl).clone()
        else {
            unreachable!("templates are modules");
        };
        let outer_top = std::mem::take(&mut self.top);
        let outer_templates = std::mem::take(&mut self.templates);
        let outer_prefix = self.prefix.clone();
        self.prefix = format!("{outer_prefix}{}::", self.ast.name(name));
        self.enter();
        self.bind_pats(&parameters)?;
        let group = self.new_group();
        let mut all = private.to_vec();
        all.extend_from_slice(&exported);
        let bodies = self.declare_all(&all, group, false)?;
        self.bodies(bodies, group)?;
        self.leave();
        self.prefix = outer_prefix;
        let decls = std::mem::replace(&mut self.top, outer_top);
        let inner = std::mem::replace(&mut self.templates, outer_templates);
        self.templates.push((parameters, decls));
        self.templates.extend(inner);
        Ok(())
    }

    fn decl_steps(&mut self, decl: DeclId, group: GroupId, steps: &mut Vec<Step>) {
        steps.push(Step::StartDecl(group, decl));
        match self.ast.decl(decl) {
            Decl::Function { clauses, .. } => {
                for clause in clauses {
                    let pats = clause.groups.iter().flat_map(|group| group.iter().copied());
                    steps.push(Step::Enter);
                    steps.push(Step::Bind(pats.collect()));
                    steps.push(Step::Expr(clause.body));
                    steps.push(Step::Leave);
                }
            }
            Decl::Pattern(_, body) | Decl::Nametype(_, _, body) | Decl::Print(body) => {
                steps.push(Step::Expr(*body));
            }
            Decl::Channel(_, fields) => steps.extend(fields.map(Step::Expr)),
            Decl::Datatype { constructors, .. } | Decl::Subtype { constructors, .. } => {
                steps.extend(
                    constructors
                        .iter()
                        .filter_map(|one| one.fields.map(Step::Expr)),
                );
            }
            Decl::Assert(assert) => {
                steps.push(Step::Expr(assert.process));
                match &assert.property {
                    Property::Refines(_, implementation) => {
                        steps.push(Step::Expr(*implementation));
                    }
                    Property::HasTrace(_, events) => {
                        steps.extend(events.iter().map(|&event| Step::Expr(event)));
                    }
                    _ => {}
                }
                for (option, _) in &assert.options {
                    if let ModelOption::TauPriority(set) = option {
                        steps.push(Step::Expr(*set));
                    }
                }
            }
            Decl::External(_)
            | Decl::Transparent(_)
            | Decl::Module { .. }
            | Decl::Instance { .. }
            | Decl::Timed { .. }
            | Decl::Annotation(..) => {}
        }
        steps.push(Step::EndDecl);
        // The constructors of a subtype are those of its parent.
        if let Decl::Subtype { constructors, .. } = self.ast.decl(decl).clone() {
            for one in constructors {
                if let Some(def) = self.constructor_named(one.name) {
                    self.current.push((group, decl));
                    self.note_use(def);
                    self.current.pop();
                    self.binds.entry(decl).or_default().push(def);
                } else {
                    // Reported by the type checker, which finds fewer bindings than names.
                    continue;
                }
            }
        }
    }

    fn run(&mut self, mut stack: Vec<Step>) -> Result<()> {
        while let Some(step) = stack.pop() {
            match step {
                Step::Expr(id) => {
                    let start = stack.len();
                    self.expr_steps(id, &mut stack)?;
                    stack[start..].reverse();
                }
                Step::Bind(pats) => self.bind_pats(&pats)?,
                Step::Enter => self.enter(),
                Step::Leave => self.leave(),
                Step::StartDecl(group, decl) => self.current.push((group, decl)),
                Step::EndDecl => {
                    self.current.pop();
                }
            }
        }
        Ok(())
    }

    fn set_expr(&mut self, id: ExprId, def: DefId) {
        if self.exprs.len() <= id.0 as usize {
            self.exprs
                .resize(self.ast.expr_count().max(id.0 as usize + 1), None);
        }
        self.exprs[id.0 as usize] = Some(def);
    }

    fn set_pat(&mut self, id: PatId, def: DefId) {
        if self.pats.len() <= id.0 as usize {
            self.pats
                .resize(self.ast.pat_count().max(id.0 as usize + 1), None);
        }
        self.pats[id.0 as usize] = Some(def);
    }

    fn bind_pats(&mut self, pats: &[PatId]) -> Result<()> {
        let mut seen: FxHashSet<Symbol> = FxHashSet::default();
        for &pat in pats {
            for (leaf, name) in self.pattern_names(pat) {
                if let Some(def) = self.constructor_named(name) {
                    self.set_pat(leaf, def);
                    self.note_use(def);
                    continue;
                }
                let span = self.ast.pat_span(leaf);
                if self.ast.name(name).contains("::") {
                    return Err(self.unknown(name, span, "constructor"));
                }
                if !seen.insert(name) {
                    return Err(Diagnostic::new(
                        Stage::Names,
                        span,
                        format!("`{}` is bound twice in one pattern", self.ast.name(name)),
                    )
                    .help("use different names and compare them with `==`"));
                }
                let def = self.new_def(name, span, DefKind::Local);
                self.set_pat(leaf, def);
                self.bind_name(name, def);
            }
        }
        Ok(())
    }

    /// Remembers that the declaration at hand needs another one of its group.
    fn note_use(&mut self, def: DefId) {
        let definition = &self.defs[def.0 as usize];
        let (Some(group), Some(decl)) = (definition.group, declaration(definition.kind)) else {
            return;
        };
        let user = self.current.iter().rev().find(|(of, _)| *of == group);
        if let Some(&(_, user)) = user {
            let needs = self.needs.entry(user).or_default();
            if needs.last() != Some(&decl) && !(needs.len() < 64 && needs.contains(&decl)) {
                needs.push(decl);
            }
        }
    }

    fn unknown(&self, name: Symbol, span: Span, what: &str) -> Diagnostic {
        let text = self.ast.name(name);
        let error = Diagnostic::new(Stage::Names, span, format!("unknown {what} `{text}`"))
            .label("not found");
        let import = self.imports.get(text).map(|(_, import)| *import);
        if let Some(import) = import {
            let word = match import {
                Import::External => "external",
                _ => "transparent",
            };
            return error.help(format!("import it first: {word} {text}"));
        }
        let candidates: Vec<&str> = match what {
            "module" => self.modules.keys().map(|s| self.ast.name(*s)).collect(),
            _ => self.scope.keys().map(|s| self.ast.name(*s)).collect(),
        };
        let nearest = candidates
            .into_iter()
            .map(|other| (distance(text, other), other))
            .filter(|(distance, other)| {
                *distance <= 2 && *distance < text.len() && *distance < other.len()
            })
            .min();
        match nearest {
            Some((_, other)) => error.help(format!("did you mean `{other}`?")),
            None => error,
        }
    }

    fn expr_steps(&mut self, id: ExprId, out: &mut Vec<Step>) -> Result<()> {
        fn stmt_steps(stmts: &[Stmt], out: &mut Vec<Step>) {
            for stmt in stmts {
                match stmt {
                    Stmt::Generator(pat, set) => {
                        out.push(Step::Expr(*set));
                        out.push(Step::Bind(vec![*pat]));
                    }
                    Stmt::Condition(condition) => out.push(Step::Expr(*condition)),
                }
            }
        }
        match self.ast.expr(id) {
            Expr::Var(name) => {
                let name = *name;
                let Some(&def) = self.scope.get(&name) else {
                    return Err(self.unknown(name, self.ast.expr_span(id), "name"));
                };
                self.set_expr(id, def);
                self.note_use(def);
            }
            Expr::Comprehension(_, _, stmts)
            | Expr::Productions(_, Some(stmts))
            | Expr::Range {
                stmts: Some(stmts), ..
            } => {
                out.push(Step::Enter);
                stmt_steps(stmts, out);
                match self.ast.expr(id) {
                    Expr::Range { from, to, .. } => {
                        out.push(Step::Expr(*from));
                        out.extend(to.map(Step::Expr));
                    }
                    Expr::Comprehension(_, items, _) | Expr::Productions(items, _) => {
                        out.extend(items.iter().map(|&item| Step::Expr(item)));
                    }
                    _ => unreachable!("one of the three above"),
                }
                out.push(Step::Leave);
            }
            Expr::Lambda(pats, body) => {
                out.push(Step::Enter);
                out.push(Step::Bind(pats.to_vec()));
                out.push(Step::Expr(*body));
                out.push(Step::Leave);
            }
            Expr::Let(decls, body) => {
                let (decls, body) = (decls.clone(), *body);
                self.enter();
                let group = self.new_group();
                let bodies = self.declare_all(&decls, group, false)?;
                for one in bodies {
                    if let Body::Decl(decl) = one {
                        self.decl_steps(decl, group, out);
                    }
                }
                out.push(Step::Expr(body));
                out.push(Step::Leave);
            }
            Expr::Prefix {
                event,
                fields,
                body,
            } => {
                out.push(Step::Expr(*event));
                let binds = fields.iter().any(|f| !matches!(f, Field::Output(_)));
                if binds {
                    out.push(Step::Enter);
                }
                for field in fields {
                    match field {
                        Field::Input(pat, set) | Field::Nondeterministic(pat, set) => {
                            out.extend(set.map(Step::Expr));
                            out.push(Step::Bind(vec![*pat]));
                        }
                        Field::Output(value) => out.push(Step::Expr(*value)),
                    }
                }
                out.push(Step::Expr(*body));
                if binds {
                    out.push(Step::Leave);
                }
            }
            Expr::Link {
                left,
                ties,
                stmts,
                right,
            } => {
                out.extend([Step::Expr(*left), Step::Expr(*right), Step::Enter]);
                stmt_steps(stmts, out);
                for &(from, to) in ties {
                    out.extend([Step::Expr(from), Step::Expr(to)]);
                }
                out.push(Step::Leave);
            }
            Expr::Rename {
                process,
                pairs,
                stmts,
            } => {
                out.extend([Step::Expr(*process), Step::Enter]);
                stmt_steps(stmts, out);
                for &(from, to) in pairs {
                    out.extend([Step::Expr(from), Step::Expr(to)]);
                }
                out.push(Step::Leave);
            }
            Expr::Replicated { op, stmts, body } => {
                if let Replicated::Parallel(set) | Replicated::SyncChoice(set) = op {
                    out.push(Step::Expr(*set));
                }
                out.push(Step::Enter);
                stmt_steps(stmts, out);
                match op {
                    Replicated::Alphabetised(set) => out.push(Step::Expr(*set)),
                    Replicated::Link { ties, tie_stmts } => {
                        out.push(Step::Enter);
                        stmt_steps(tie_stmts, out);
                        for &(from, to) in ties {
                            out.extend([Step::Expr(from), Step::Expr(to)]);
                        }
                        out.push(Step::Leave);
                    }
                    _ => {}
                }
                out.push(Step::Expr(*body));
                out.push(Step::Leave);
            }
            _ => {
                let mut children = Vec::new();
                self.ast.children(id, &mut children);
                out.extend(children.into_iter().map(|child| match child {
                    Node::Expr(child) => Step::Expr(child),
                    _ => unreachable!("expressions with patterns are treated above"),
                }));
            }
        }
        Ok(())
    }
}

/// The declaration that a definition comes from.
pub fn declaration(kind: DefKind) -> Option<DeclId> {
    match kind {
        DefKind::Builtin(_) | DefKind::Local => None,
        DefKind::Function(decl)
        | DefKind::Value(decl)
        | DefKind::Channel(decl)
        | DefKind::Constructor(decl, _)
        | DefKind::Datatype(decl)
        | DefKind::Nametype(decl)
        | DefKind::Subtype(decl) => Some(decl),
    }
}

/// How many letters differ (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > 2 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let next = (corner + usize::from(x != *y))
                .min(row[j] + 1)
                .min(row[j + 1] + 1);
            corner = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}
