//! The types of patterns.

use super::decls::Checker;
use super::infer::Result;
use super::ty::{Constraint, Ty, TyId, Types};
use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;

impl Checker<'_> {
    pub(super) fn pat(&mut self, id: PatId) -> Result<TyId> {
        let ast = self.ast;
        Ok(match ast.pat(id) {
            Pat::Int(_) => Types::INT,
            Pat::Bool(_) => Types::BOOL,
            Pat::Char(_) => Types::CHAR,
            Pat::Str(_) => self.types.seq_of(Types::CHAR),
            Pat::Wildcard => match self.wildcards.get(&id) {
                Some(&ty) => ty,
                None => {
                    let ty = self.types.fresh();
                    self.wildcards.insert(id, ty);
                    ty
                }
            },
            Pat::Var(_) => {
                let def = self.resolved.pat(id).expect("every pattern is resolved");
                match self.resolved.is_constructor(def) {
                    true => self.type_of_def(def),
                    false => self.mono_type(def),
                }
            }
            Pat::Tuple(pats) => {
                let mut types = Vec::with_capacity(pats.len());
                for &pat in pats {
                    types.push(self.pat(pat)?);
                }
                self.types.add(Ty::Tuple(types.into()))
            }
            Pat::Dot(pats) => {
                let mut parts = Vec::with_capacity(pats.len());
                for &pat in pats {
                    parts.push(self.pat(pat)?);
                }
                self.types.dots(&parts)
            }
            Pat::Seq(pats) => {
                let element = self.types.fresh();
                for &pat in pats {
                    self.expect_pat(pat, element)?;
                }
                self.types.seq_of(element)
            }
            Pat::Set(pats) => {
                let element = self.types.fresh_with(Constraint::Eq.bit());
                for &pat in pats {
                    self.expect_pat(pat, element)?;
                }
                self.types.set_of(element)
            }
            Pat::Concat(..) => {
                let element = self.types.fresh();
                let seq = self.types.seq_of(element);
                let mut left = vec![id];
                while let Some(pat) = left.pop() {
                    match ast.pat(pat) {
                        Pat::Concat(a, b) => left.extend([*b, *a]),
                        _ => {
                            self.expect_pat(pat, seq)?;
                        }
                    }
                }
                seq
            }
            Pat::Both(a, b) => {
                let ty = self.pat(*a)?;
                self.expect_pat(*b, ty)?
            }
        })
    }

    pub(super) fn expect_pat(&mut self, id: PatId, expected: TyId) -> Result<TyId> {
        let found = self.pat(id)?;
        self.unify_at(self.ast.pat_span(id), expected, found)
    }

    /// A dotted pattern that does not begin with a channel or constructor takes apart dots only:
    /// where a complete event or datatype value would be split depends on what it is.
    pub(super) fn check_split(&mut self, pat: PatId, ty: TyId) -> Result<()> {
        let Pat::Dot(parts) = self.ast.pat(pat) else {
            return Ok(());
        };
        let known = self
            .resolved
            .pat(parts[0])
            .is_some_and(|def| self.resolved.is_constructor(def));
        let whole = matches!(self.types.head_ty(ty), Ty::Event | Ty::Datatype(_));
        if known || !whole || !matches!(self.ast.pat(parts[0]), Pat::Var(_)) {
            return Ok(());
        }
        let shown = self.show(ty);
        Err(Diagnostic::new(
            Stage::Types,
            self.ast.pat_span(pat),
            format!("this pattern does not say where to split a value of type `{shown}`"),
        )
        .help("begin the pattern with a channel or constructor"))
    }
}
