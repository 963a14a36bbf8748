//! The names that patterns bind, and what a pattern must not be.

use rustc_hash::FxHashSet;

use super::{DefKind, Resolver, Result};
use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;
use crate::syntax::source::Span;

impl Resolver {
    /// A sequence pattern has one part of unknown length at most.
    pub(super) fn check_sequences(&self, pat: PatId) -> Result<()> {
        let mut left = vec![pat];
        while let Some(pat) = left.pop() {
            self.ast.inner_pats(pat, &mut left);
            let Pat::Concat(..) = self.ast.pat(pat) else {
                continue;
            };
            let mut parts = vec![pat];
            let mut unknown = 0;
            while let Some(part) = parts.pop() {
                match self.ast.pat(part) {
                    Pat::Concat(a, b) => parts.extend([*b, *a]),
                    Pat::Seq(_) | Pat::Str(_) => {}
                    _ => unknown += 1,
                }
                if unknown == 2 {
                    return Err(Diagnostic::new(
                        Stage::Names,
                        self.ast.pat_span(part),
                        "a sequence pattern can have one part of unknown length only",
                    )
                    .help("`xs^ys` does not say where `xs` ends; `<x>^xs^<y>` does"));
                }
            }
        }
        Ok(())
    }

    /// The patterns of one comprehension or prefix bind different names.
    pub(super) fn check_distinct(&self, pats: &[PatId], place: &str) -> Result<()> {
        let mut seen: FxHashSet<Symbol> = FxHashSet::default();
        for &pat in pats {
            for (leaf, name) in self.pattern_names(pat) {
                if self.constructor_named(name).is_none() && !seen.insert(name) {
                    let span = self.ast.pat_span(leaf);
                    return Err(self.bound_twice(name, span, place));
                }
            }
        }
        Ok(())
    }

    pub(super) fn bound_twice(&self, name: Symbol, span: Span, place: &str) -> Diagnostic {
        Diagnostic::new(
            Stage::Names,
            span,
            format!("`{}` is bound twice in one {place}", self.ast.name(name)),
        )
        .help("use different names and compare them with `==`")
    }

    pub(super) fn check_statements(&self, stmts: &[Stmt]) -> Result<()> {
        let pats: Vec<PatId> = stmts
            .iter()
            .filter_map(|stmt| match stmt {
                Stmt::Generator(pat, _) => Some(*pat),
                Stmt::Condition(_) => None,
            })
            .collect();
        self.check_distinct(&pats, "list of generators")
    }

    pub(super) fn check_fields(&self, fields: &[Field]) -> Result<()> {
        let mut pats = Vec::new();
        let mut input = false;
        for field in fields {
            match field {
                Field::Nondeterministic(pat, _) if input => {
                    return Err(Diagnostic::new(
                        Stage::Names,
                        self.ast.pat_span(*pat),
                        "`$` stands after `?` in one prefix",
                    )
                    .help(
                        "the choice of `$` comes first: write it before `?`, or as `|~| x : S @ …`",
                    ));
                }
                Field::Input(pat, _) | Field::Nondeterministic(pat, _) => {
                    input |= matches!(field, Field::Input(..));
                    pats.push(*pat);
                }
                Field::Output(_) => {}
            }
        }
        self.check_distinct(&pats, "prefix")
    }

    pub(super) fn bind_pats(&mut self, pats: &[PatId]) -> Result<()> {
        let mut seen: FxHashSet<Symbol> = FxHashSet::default();
        for &pat in pats {
            self.check_sequences(pat)?;
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
                    return Err(self.bound_twice(name, span, "pattern"));
                }
                let def = self.new_def(name, span, DefKind::Local);
                self.set_pat(leaf, def);
                self.bind_name(name, def);
            }
        }
        Ok(())
    }
}
