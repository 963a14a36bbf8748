//! The names in bodies: expressions and patterns, walked with a stack of steps.

use super::{Body, DefId, DefKind, GroupId, Resolver, Result, SectionId, Step, declaration};
use crate::builtin::Import;
use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;
use crate::syntax::source::Span;
use crate::syntax::walk::Node;

impl Resolver {
    pub(super) fn bodies(&mut self, bodies: Vec<Body>, group: GroupId) -> Result<()> {
        for body in bodies {
            match body {
                Body::Decl(decl, section) => {
                    self.top.push(decl);
                    let mut steps = Vec::new();
                    self.decl_steps(decl, section, group, &mut steps)?;
                    steps.reverse();
                    self.run(steps)?;
                }
                Body::Module {
                    home,
                    bodies,
                    prefix,
                    section,
                } => {
                    self.enter();
                    self.bind_home(&home);
                    let outer = std::mem::replace(&mut self.prefix, prefix);
                    let outer_section = self.section;
                    self.section = section.or(outer_section);
                    let result = self.bodies(bodies, group);
                    self.section = outer_section;
                    self.prefix = outer;
                    self.leave();
                    result?;
                }
                Body::Template(decl) => {
                    // What the module needs of the scope around it, it needs as a whole.
                    self.current.push((group, decl, self.section));
                    let result = self.template(decl);
                    self.current.pop();
                    result?;
                }
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

    fn decl_steps(
        &mut self,
        decl: DeclId,
        section: Option<SectionId>,
        group: GroupId,
        steps: &mut Vec<Step>,
    ) -> Result<()> {
        steps.push(Step::StartDecl(group, decl, section));
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
            | Decl::Annotation(..) => {}
            Decl::Timed { function, .. } => {
                steps.extend(function.map(Step::Expr));
                let tock = self.tock(decl)?;
                self.current.push((group, decl, None));
                self.note_use(tock);
                self.current.pop();
                let section = self.section_decls[&decl];
                self.sections[section.0 as usize].tock = tock;
            }
        }
        steps.push(Step::EndDecl);
        // The constructors of a subtype are those of its parent.
        if let Decl::Subtype { constructors, .. } = self.ast.decl(decl).clone() {
            for one in constructors {
                if let Some(def) = self.constructor_named(one.name) {
                    self.current.push((group, decl, None));
                    self.note_use(def);
                    self.current.pop();
                    self.binds.entry(decl).or_default().push(def);
                } else {
                    // Reported by the type checker, which finds fewer bindings than names.
                    continue;
                }
            }
        }
        Ok(())
    }

    /// The channel that counts time in a timed section.
    fn tock(&self, section: DeclId) -> Result<DefId> {
        let name = self.ast.names.get("tock");
        let def = name.and_then(|name| self.scope.get(&name)).copied();
        match def {
            Some(def) if matches!(self.defs[def.0 as usize].kind, DefKind::Channel(_)) => Ok(def),
            _ => {
                let span = self.ast.decl_span(section);
                let keyword = Span::new(span.low, span.low + "Timed".len() as u32);
                Err(Diagnostic::new(
                    Stage::Names,
                    keyword,
                    "a timed section needs the channel `tock`",
                )
                .help("declare it at the top level: channel tock"))
            }
        }
    }

    fn run(&mut self, mut stack: Vec<Step>) -> Result<()> {
        while let Some(step) = stack.pop() {
            match step {
                Step::Expr(id) => {
                    if self.section.is_some() {
                        self.mark_timed(id);
                    }
                    let start = stack.len();
                    match self.expr_steps(id, &mut stack) {
                        Ok(()) => stack[start..].reverse(),
                        Err(error) => {
                            stack.truncate(start);
                            self.report(error);
                        }
                    }
                }
                Step::Bind(pats) => self.bind_pats(&pats)?,
                Step::Enter => self.enter(),
                Step::Leave => self.leave(),
                Step::StartDecl(group, decl, section) => {
                    self.current.push((group, decl, self.section));
                    self.section = section.or(self.section);
                }
                Step::EndDecl => {
                    let (_, _, outer) = self.current.pop().expect("every end has its start");
                    self.section = outer;
                }
            }
        }
        Ok(())
    }

    fn mark_timed(&mut self, id: ExprId) {
        if self.timed.len() <= id.0 as usize {
            let size = self.ast.expr_count().max(id.0 as usize + 1);
            self.timed.resize(size, None);
        }
        self.timed[id.0 as usize] = self.section;
    }

    fn set_expr(&mut self, id: ExprId, def: DefId) {
        if self.exprs.len() <= id.0 as usize {
            self.exprs
                .resize(self.ast.expr_count().max(id.0 as usize + 1), None);
        }
        self.exprs[id.0 as usize] = Some(def);
    }

    pub(super) fn set_pat(&mut self, id: PatId, def: DefId) {
        if self.pats.len() <= id.0 as usize {
            self.pats
                .resize(self.ast.pat_count().max(id.0 as usize + 1), None);
        }
        self.pats[id.0 as usize] = Some(def);
    }

    /// Remembers that the declaration at hand needs another one of its group.
    pub(super) fn note_use(&mut self, def: DefId) {
        let definition = &self.defs[def.0 as usize];
        let (Some(group), Some(decl)) = (definition.group, declaration(definition.kind)) else {
            return;
        };
        let user = self.current.iter().rev().find(|(of, ..)| *of == group);
        if let Some(&(_, user, _)) = user {
            let needs = self.needs.entry(user).or_default();
            if needs.last() != Some(&decl) && !(needs.len() < 64 && needs.contains(&decl)) {
                needs.push(decl);
            }
        }
    }

    fn untimed(&self, span: Span, what: &str) -> Diagnostic {
        let message = format!("{what} cannot stand in a timed section");
        Diagnostic::new(Stage::Names, span, message)
            .help("define the process outside of `Timed { … }`, with explicit tocks")
    }

    /// What a name means here. Inside a timed section the names of its built-ins mean those,
    /// unless the section or something local defines them.
    fn definition(&self, name: Symbol) -> Option<DefId> {
        let found = self.scope.get(&name).copied();
        if self.section.is_none() {
            return found;
        }
        let Some(&builtin) = self.timed_builtins.get(&name) else {
            return found;
        };
        let Some(found) = found else {
            return Some(builtin);
        };
        let definition = &self.defs[found.0 as usize];
        let timed =
            declaration(definition.kind).is_some_and(|decl| self.timed_decls.contains(&decl));
        Some(match definition.global && !timed {
            true => builtin,
            false => found,
        })
    }

    pub(super) fn unknown(&self, name: Symbol, span: Span, what: &str) -> Diagnostic {
        let text = self.ast.name(name);
        let error = Diagnostic::new(Stage::Names, span, format!("unknown {what} `{text}`"))
            .label("not found");
        if self
            .errors
            .iter()
            .any(|other| other.message == error.message)
        {
            return error;
        }
        if what != "module" && self.modules.contains_key(&name) {
            return error.help(format!("`{text}` is a module here"));
        }
        if self.timed_builtins.contains_key(&name) {
            return error.help(format!(
                "`{text}` exists only inside a timed section, `Timed {{ … }}`"
            ));
        }
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

    fn let_steps(&mut self, decls: &[DeclId], group: GroupId, out: &mut Vec<Step>) -> Result<()> {
        for body in self.declare_all(decls, group, false)? {
            if let Body::Decl(decl, section) = body {
                self.decl_steps(decl, section, group, out)?;
            }
        }
        Ok(())
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
                let Some(def) = self.definition(name) else {
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
                self.check_statements(stmts)?;
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
                if let Err(error) = self.let_steps(&decls, group, out) {
                    self.leave();
                    return Err(error);
                }
                out.push(Step::Expr(body));
                out.push(Step::Leave);
            }
            Expr::Prefix {
                event,
                fields,
                body,
            } => {
                if self.section.is_some()
                    && let Some(pat) = fields.iter().find_map(|field| match field {
                        Field::Nondeterministic(pat, _) => Some(*pat),
                        _ => None,
                    })
                {
                    return Err(self.untimed(self.ast.pat_span(pat), "`$`"));
                }
                self.check_fields(fields)?;
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
            Expr::Link { .. }
            | Expr::Replicated {
                op: Replicated::Link { .. },
                ..
            } if self.section.is_some() => {
                return Err(self.untimed(self.ast.expr_span(id), "linked parallel"));
            }
            Expr::Link {
                left,
                ties,
                stmts,
                right,
            } => {
                self.check_statements(stmts)?;
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
                self.check_statements(stmts)?;
                out.extend([Step::Expr(*process), Step::Enter]);
                stmt_steps(stmts, out);
                for &(from, to) in pairs {
                    out.extend([Step::Expr(from), Step::Expr(to)]);
                }
                out.push(Step::Leave);
            }
            Expr::Replicated { op, stmts, body } => {
                self.check_statements(stmts)?;
                if let Replicated::Parallel(set) | Replicated::SyncChoice(set) = op {
                    out.push(Step::Expr(*set));
                }
                out.push(Step::Enter);
                stmt_steps(stmts, out);
                match op {
                    Replicated::Alphabetised(set) => out.push(Step::Expr(*set)),
                    Replicated::Link { ties, tie_stmts } => {
                        self.check_statements(tie_stmts)?;
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
