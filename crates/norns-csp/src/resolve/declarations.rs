//! What declarations bring into scope: names, types, imports, modules and their instances.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Body, Copy, DefId, DefKind, GroupId, Home, MAX_INSTANCES, ModuleInfo, Resolver, Result,
    Section, SectionId, Undo,
};
use crate::builtin::Import;
use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;
use crate::syntax::source::Span;

impl Resolver {
    /// Declares the names of one scope and binds them in it.
    pub(super) fn declare_all(
        &mut self,
        decls: &[DeclId],
        group: GroupId,
        top: bool,
    ) -> Result<Vec<Body>> {
        let mut seen: FxHashMap<Symbol, (Span, DefId)> = FxHashMap::default();
        let mut bodies = Vec::new();
        let decls = self.in_sections(decls);
        let decls = decls.as_slice();
        // Constructors and channels first: they decide what a name in a pattern is.
        for &(decl, section) in decls {
            self.declare_types(decl, section, (group, top), &mut seen, &mut bodies)?;
        }
        // Modules and instances share their names with everything else of the scope.
        let mut modules: FxHashMap<Symbol, Span> = FxHashMap::default();
        for &(decl, _) in decls {
            let (Decl::Module {
                name, name_span, ..
            }
            | Decl::Instance {
                name, name_span, ..
            }) = *self.ast.decl(decl)
            else {
                continue;
            };
            let first = seen.get(&name).map(|(span, _)| *span);
            if let Some(first) = modules.insert(name, name_span).or(first) {
                return Err(self.twice(name, name_span, first));
            }
            if let Decl::Module { .. } = self.ast.decl(decl) {
                self.bind_module(name, ModuleInfo { decl, home: None });
            }
        }
        let mut instances: Vec<DeclId> = Vec::new();
        for &(decl, section) in decls {
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
                    let inside = [&private[..], &exported[..]].concat();
                    let home = Home::default();
                    let body = self.declare_module(name, &home, &inside, &exported, group)?;
                    bodies.push(body);
                    if let Some(Body::Module { section: of, .. }) = bodies.last_mut() {
                        *of = section;
                    }
                }
                Decl::Instance { .. } => instances.push(decl),
                _ => {}
            }
        }
        // An instance may be of a module inside another instance, whichever is written first.
        while !instances.is_empty() {
            let before = instances.len();
            let mut left = Vec::new();
            for &decl in &instances {
                let Decl::Instance { of, .. } = *self.ast.decl(decl) else {
                    unreachable!("only instances were collected");
                };
                match self.modules.get(&of).cloned() {
                    Some(module) => bodies.extend(self.declare_instance(decl, module, group)?),
                    None => left.push(decl),
                }
            }
            if left.len() == before {
                let Decl::Instance { of, of_span, .. } = *self.ast.decl(left[0]) else {
                    unreachable!("only instances were collected");
                };
                return Err(self.unknown(of, of_span, "module"));
            }
            instances = left;
        }
        for &(decl, section) in decls {
            self.declare_values(decl, section, (group, top), &mut seen, &mut bodies)?;
        }
        for (&name, &span) in &modules {
            if let Some(&(other, _)) = seen.get(&name) {
                return Err(self.twice(name, other, span));
            }
        }
        for &(decl, _) in decls {
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

    /// The declarations with those of timed sections, each with the section it stands in. A
    /// section's own declaration stands outside of it.
    fn in_sections(&mut self, decls: &[DeclId]) -> Vec<(DeclId, Option<SectionId>)> {
        let mut all = Vec::with_capacity(decls.len());
        let mut left: Vec<_> = decls.iter().rev().map(|&decl| (decl, None)).collect();
        while let Some((decl, section)) = left.pop() {
            all.push((decl, section));
            if let Decl::Timed { function, decls } = self.ast.decl(decl) {
                let inner = SectionId(self.sections.len() as u32);
                self.sections.push(Section {
                    // Replaced when the section itself is resolved.
                    tock: DefId(u32::MAX),
                    duration: *function,
                });
                self.section_decls.insert(decl, inner);
                self.timed_decls.extend(decls.iter().copied());
                left.extend(decls.iter().rev().map(|&decl| (decl, Some(inner))));
            }
        }
        all
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
        section: Option<SectionId>,
        place: (GroupId, bool),
        seen: &mut FxHashMap<Symbol, (Span, DefId)>,
        bodies: &mut Vec<Body>,
    ) -> Result<()> {
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
            Decl::Timed { .. } => {}
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
            bodies.push(Body::Decl(decl, section));
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
        section: Option<SectionId>,
        place: (GroupId, bool),
        seen: &mut FxHashMap<Symbol, (Span, DefId)>,
        bodies: &mut Vec<Body>,
    ) -> Result<()> {
        match self.ast.decl(decl).clone() {
            Decl::Pattern(pat, _) => {
                self.check_sequences(pat)?;
                let mut defs = Vec::new();
                for (leaf, name) in self.pattern_names(pat) {
                    let def = match self.constructor_named(name) {
                        Some(def) => def,
                        None => {
                            let span = self.ast.pat_span(leaf);
                            let kind = DefKind::Value(decl);
                            let def = self.declare(name, span, kind, place, seen)?;
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
        bodies.push(Body::Decl(decl, section));
        Ok(())
    }

    /// The variables of a pattern from left to right.
    pub(super) fn pattern_names(&self, pat: PatId) -> Vec<(PatId, Symbol)> {
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

    pub(super) fn constructor_named(&self, name: Symbol) -> Option<DefId> {
        let def = *self.scope.get(&name)?;
        match self.defs[def.0 as usize].kind {
            DefKind::Channel(_) | DefKind::Constructor(..) => Some(def),
            _ => None,
        }
    }

    pub(super) fn bind_home(&mut self, home: &Home) {
        for (name, def) in &home.names {
            self.bind_name(*name, *def);
        }
        for (name, info) in &home.modules {
            self.bind_module(*name, info.clone());
        }
    }

    /// Declares the names of a module or of a copy of one: `inside` are all its declarations,
    /// `home` is what it sees beside the names around it.
    fn declare_module(
        &mut self,
        name: Symbol,
        home: &Home,
        inside: &[DeclId],
        exported: &[DeclId],
        group: GroupId,
    ) -> Result<Body> {
        let outer = self.prefix.clone();
        self.prefix = format!("{outer}{}::", self.ast.name(name));
        self.enter();
        let start = self.undo.len();
        self.bind_home(home);
        let bodies = self.declare_all(inside, group, true)?;
        let exported_names = self.exported_names(exported);
        // What was bound in the module, to bind it again when its bodies are resolved.
        let mut home = Home::default();
        for undo in &self.undo[start..] {
            match undo {
                Undo::Name(name, _) => home.names.push((*name, self.scope[name])),
                Undo::Module(name, _) => home.modules.push((*name, self.modules[name].clone())),
            }
        }
        let home = Rc::new(home);
        let mut outside = Vec::new();
        let mut outside_modules = Vec::new();
        for inner in exported_names {
            let shown = format!("{}::{}", self.ast.name(name), self.ast.name(inner));
            let qualified = self.ast.names.intern(&shown);
            if let Some(&def) = self.scope.get(&inner) {
                outside.push((qualified, def));
            }
            if let Some(info) = self.modules.get(&inner) {
                let mut info = info.clone();
                info.home.get_or_insert_with(|| home.clone());
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
        Ok(Body::Module {
            home,
            bodies,
            prefix,
            section: None,
        })
    }

    /// The names that declarations export, those of inner modules qualified.
    fn exported_names(&self, decls: &[DeclId]) -> Vec<Symbol> {
        let mut names = Vec::new();
        for decl in self.ast.with_timed(decls) {
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
                Decl::External(all) | Decl::Transparent(all) => {
                    names.extend(all.iter().map(|(name, _)| *name));
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
        module: ModuleInfo,
        group: GroupId,
    ) -> Result<Vec<Body>> {
        let Decl::Instance {
            name,
            of,
            arguments,
            ..
        } = self.ast.decl(decl).clone()
        else {
            unreachable!("called for instances");
        };
        let Decl::Module {
            parameters,
            private,
            exported,
            nodes,
            name_span,
            ..
        } = self.ast.decl(module.decl).clone()
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
        if self.copies.len() >= MAX_INSTANCES {
            return Err(Diagnostic::new(
                Stage::Names,
                self.ast.decl_span(decl),
                format!("more than {MAX_INSTANCES} module instances"),
            )
            .help("does a module contain an instance of itself?"));
        }
        let copied = self.ast.copy(nodes.0, nodes.1);
        self.copies.push(Copy {
            module: module.decl,
            instance: decl,
            decls: copied.new_decls(),
        });
        let mut bindings = Vec::new();
        for (&parameter, &argument) in parameters.iter().zip(&arguments) {
            let span = self.ast.expr_span(argument);
            let binding = Decl::Pattern(copied.pat(parameter), argument);
            bindings.push(self.ast.add_decl(binding, span));
        }
        let exported = copied.decls(&exported);
        let inside = [&bindings[..], &copied.decls(&private), &exported].concat();
        let home = module.home.clone().unwrap_or_default();
        let mut body = self.declare_module(name, &home, &inside, &exported, group)?;
        // The arguments belong to the scope outside.
        let Body::Module { bodies: inner, .. } = &mut body else {
            unreachable!("a module was declared");
        };
        let (mut outside, inside): (Vec<Body>, Vec<Body>) = std::mem::take(inner)
            .into_iter()
            .partition(|body| matches!(body, Body::Decl(decl, _) if bindings.contains(decl)));
        *inner = inside;
        outside.push(body);
        Ok(outside)
    }

    /// No module depends on an instance of itself.
    pub(super) fn check_instances(&self) -> Result<()> {
        for copy in &self.copies {
            let Decl::Module { name, nodes, .. } = self.ast.decl(copy.module) else {
                unreachable!("only modules are copied");
            };
            let mut left = vec![copy.module];
            left.extend((nodes.0.decls..nodes.1.decls).map(DeclId));
            let mut seen: FxHashSet<DeclId> = left.iter().copied().collect();
            while let Some(decl) = left.pop() {
                for &need in self.needs.get(&decl).into_iter().flatten() {
                    if copy.decls.contains(&need.0) {
                        return Err(Diagnostic::new(
                            Stage::Names,
                            self.ast.decl_span(copy.instance),
                            format!(
                                "module `{}` depends on this instance of itself",
                                self.ast.name(*name)
                            ),
                        )
                        .related(self.ast.decl_span(decl), "this needs the instance"));
                    }
                    if seen.insert(need) {
                        left.push(need);
                    }
                }
            }
        }
        Ok(())
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
}
