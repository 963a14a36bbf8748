//! What declarations bring into scope: names, types, imports, modules and their instances.

use rustc_hash::FxHashMap;

use super::{
    Body, DefId, DefKind, GroupId, Home, ModuleInfo, Resolver, Result, Section, SectionId,
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
                for &(name, span) in &names {
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
                    if let DefKind::Channel(channels) = self.defs[def.0 as usize].kind
                        && let Decl::Channel(declared, _) = self.ast.decl(channels)
                        && let Some(other) = declared
                            .iter()
                            .find(|channel| names.iter().all(|name| name.0 != channel.0))
                    {
                        let other = self.ast.name(other.0);
                        return Err(Diagnostic::new(
                            Stage::Names,
                            span,
                            format!(
                                "`{}` is declared together with `{other}`, which this annotation \
                                 does not name",
                                self.ast.name(name)
                            ),
                        )
                        .help(
                            "annotate all channels of a declaration at once, or declare them apart",
                        ));
                    }
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
