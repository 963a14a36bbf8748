//! Modules and their instances.
//!
//! An instance is a copy of the declarations of its module with the parameters bound to the
//! arguments. A module inside another one remembers what it sees there (`Home`), so that it can
//! be instantiated from outside.

use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::{Body, Copy, GroupId, Home, MAX_INSTANCES, ModuleInfo, Resolver, Result, Undo};
use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;

impl Resolver {
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
    pub(super) fn declare_module(
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
                // A name that a module hides is not bound again.
                Undo::Name(name, _) => home
                    .names
                    .extend(self.scope.get(name).map(|&def| (*name, def))),
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
    pub(super) fn exported_names(&self, decls: &[DeclId]) -> Vec<Symbol> {
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

    pub(super) fn declare_instance(
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
}
