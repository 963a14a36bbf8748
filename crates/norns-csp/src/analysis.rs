//! Names and types by position, for editors and other tools that look at scripts.
//!
//! An [`Analysis`] answers what a language server is asked: what is here, where is it defined,
//! where is it used, what type does it have, what does the script define. Positions are offsets
//! on the number line of the [`SourceMap`], which converts them to and from lines and columns.

use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::resolve::{DefId, DefKind, Resolved};
use crate::script::{Front, IncludedFile, ScriptError, front, on_large_stack};
use crate::syntax::ast::{ExprId, PatId};
use crate::syntax::source::{SourceMap, Span};
use crate::types::Typed;

/// A script whose names are resolved and whose types are known.
pub struct Analysis {
    pub sources: Arc<SourceMap>,
    /// What is odd about the script; a script with errors has no analysis.
    pub warnings: Vec<Diagnostic>,
    resolved: Resolved,
    typed: Typed,
}

/// What a definition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    Function,
    /// A constant, or a variable of a pattern on the left of `=`.
    Value,
    Channel,
    Datatype,
    Constructor,
    Nametype,
    Subtype,
}

/// One definition at the top level of a script, or in a module or instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Qualified with the modules around it.
    pub name: String,
    pub kind: SymbolKind,
    /// The name where it is defined.
    pub span: Span,
    /// As it would be written in an annotation.
    pub ty: Option<String>,
}

/// What stands at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hover {
    /// The innermost expression, or the name in a pattern, around the position.
    pub span: Span,
    pub ty: Option<String>,
    /// Where the name at the position is defined; none for built-in names and for expressions
    /// that are not names.
    pub definition: Option<Span>,
}

impl Analysis {
    /// Reads and checks a script; included files come from `includes`.
    pub fn new(
        name: &str,
        text: &str,
        includes: &mut IncludedFile,
    ) -> Result<Analysis, ScriptError> {
        let Front {
            resolved,
            typed,
            sources,
            warnings,
        } = on_large_stack(|| front(name, text, includes))?;
        Ok(Analysis {
            sources,
            warnings,
            resolved,
            typed,
        })
    }

    /// The definitions of the script in the order in which they are declared.
    pub fn symbols(&mut self) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        for index in 0..self.resolved.defs.len() {
            let id = DefId(index as u32);
            let def = self.resolved.def(id);
            let kind = match def.kind {
                DefKind::Function(_) => SymbolKind::Function,
                DefKind::Value(_) => SymbolKind::Value,
                DefKind::Channel(_) => SymbolKind::Channel,
                DefKind::Datatype(_) => SymbolKind::Datatype,
                DefKind::Constructor(..) => SymbolKind::Constructor,
                DefKind::Nametype(_) => SymbolKind::Nametype,
                DefKind::Subtype(_) => SymbolKind::Subtype,
                DefKind::Builtin(_) | DefKind::Local => continue,
            };
            if !def.global {
                continue;
            }
            let span = def.span;
            symbols.push(Symbol {
                name: self.resolved.name(id).to_owned(),
                kind,
                span,
                ty: self.typed.show(id, &self.resolved),
            });
        }
        symbols
    }

    /// The type, and for a name the definition, of what stands at an offset.
    pub fn at(&mut self, offset: u32) -> Option<Hover> {
        if let Some((span, def)) = self.name_at(offset) {
            let definition = match self.resolved.def(def).kind {
                DefKind::Builtin(_) => None,
                _ => Some(self.resolved.def(def).span),
            };
            // The type at the use: that of a polymorphic function is known there.
            let used = self
                .expr_at(offset)
                .filter(|&id| self.expr_span(id) == span)
                .and_then(|id| self.typed.show_expr(id, &self.resolved));
            let ty = used.or_else(|| self.typed.show(def, &self.resolved));
            return Some(Hover {
                span,
                ty,
                definition,
            });
        }
        let id = self.expr_at(offset)?;
        Some(Hover {
            span: self.expr_span(id),
            ty: self.typed.show_expr(id, &self.resolved),
            definition: None,
        })
    }

    /// All places that mean the same definition as the name at an offset, its definition first,
    /// then in the order of the text.
    pub fn references(&self, offset: u32) -> Vec<Span> {
        let Some((_, wanted)) = self.name_at(offset) else {
            return Vec::new();
        };
        // A definition in a module exists once for each instance; all stand at one place.
        let place = self.resolved.def(wanted).span;
        let same = |def: DefId| {
            def == wanted || place != Span::default() && self.resolved.def(def).span == place
        };
        let mut uses: Vec<Span> = Vec::new();
        for index in 0..self.resolved.ast.expr_count() {
            let id = ExprId(index as u32);
            if self.resolved.expr(id).is_some_and(same) {
                uses.push(self.expr_span(id));
            }
        }
        for index in 0..self.resolved.ast.pat_count() {
            let id = PatId(index as u32);
            if self.resolved.pat(id).is_some_and(same) {
                uses.push(self.resolved.ast.pat_span(id));
            }
        }
        uses.retain(|&span| span != place);
        uses.sort_unstable();
        uses.dedup();
        if place != Span::default() {
            uses.insert(0, place);
        }
        uses
    }

    fn expr_span(&self, id: ExprId) -> Span {
        self.resolved.ast.expr_span(id)
    }

    /// The innermost expression around an offset. Instances of modules repeat the expressions
    /// of their module at the same place; the first one is meant.
    fn expr_at(&self, offset: u32) -> Option<ExprId> {
        (0..self.resolved.ast.expr_count())
            .map(|index| ExprId(index as u32))
            .filter(|&id| covers(self.expr_span(id), offset))
            .min_by_key(|&id| {
                let span = self.expr_span(id);
                (span.high - span.low, id)
            })
    }

    /// The name at an offset: in an expression, in a pattern, or where it is defined.
    fn name_at(&self, offset: u32) -> Option<(Span, DefId)> {
        let expressions = (0..self.resolved.ast.expr_count()).filter_map(|index| {
            let id = ExprId(index as u32);
            Some((self.expr_span(id), self.resolved.expr(id)?))
        });
        let patterns = (0..self.resolved.ast.pat_count()).filter_map(|index| {
            let id = PatId(index as u32);
            Some((self.resolved.ast.pat_span(id), self.resolved.pat(id)?))
        });
        let definitions = self
            .resolved
            .defs
            .iter()
            .enumerate()
            .filter_map(|(index, def)| {
                let builtin = matches!(def.kind, DefKind::Builtin(_));
                (!builtin).then_some((def.span, DefId(index as u32)))
            });
        expressions
            .chain(patterns)
            .chain(definitions)
            .find(|(span, _)| covers(*span, offset))
    }
}

fn covers(span: Span, offset: u32) -> bool {
    span.low <= offset && offset < span.high
}
