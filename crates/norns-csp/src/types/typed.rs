//! The types of a checked script.

use rustc_hash::{FxHashMap, FxHashSet};

use super::ty::{Constraint, Scheme, Ty, TyId, Types, VarId};
use crate::resolve::{DefId, DefKind, Resolved};
use crate::syntax::ast::*;

/// The types of all definitions of a script.
#[derive(Debug)]
pub struct Typed {
    pub(super) types: Types,
    pub(super) schemes: Vec<Option<Scheme>>,
    // what each lambda expression yields
    pub(super) lambdas: FxHashMap<ExprId, TyId>,
    // by expression; none for those that are never looked at by themselves
    pub(super) expr_types: Vec<Option<TyId>>,
}

impl Typed {
    /// Whether a definition is a process once it has all the groups of arguments that it is
    /// defined with.
    pub fn is_process(&mut self, def: DefId, resolved: &Resolved) -> bool {
        let Some(scheme) = &self.schemes[def.0 as usize] else {
            return false;
        };
        let mut ty = scheme.body;
        if let DefKind::Function(decl) = resolved.def(def).kind
            && let Decl::Function { clauses, .. } = resolved.ast.decl(decl)
        {
            for _ in &clauses[0].groups {
                match self.types.head_ty(ty) {
                    Ty::Function(_, result) => ty = result,
                    _ => return false,
                }
            }
        }
        self.types.head_ty(ty) == Ty::Proc
    }

    /// The lambda expressions whose bodies are processes.
    pub fn process_lambdas(&mut self) -> FxHashSet<ExprId> {
        let mut found = FxHashSet::default();
        for (&id, &result) in &self.lambdas {
            if self.types.head_ty(result) == Ty::Proc {
                found.insert(id);
            }
        }
        found
    }

    /// The type of a definition as a person reads it.
    pub fn show(&mut self, def: DefId, resolved: &Resolved) -> Option<String> {
        let body = self.schemes[def.0 as usize].as_ref()?.body;
        Some(self.written(body, resolved))
    }

    /// The type of an expression as a person reads it.
    pub fn show_expr(&mut self, id: ExprId, resolved: &Resolved) -> Option<String> {
        let ty = (*self.expr_types.get(id.0 as usize)?)?;
        Some(self.written(ty, resolved))
    }

    fn written(&mut self, body: TyId, resolved: &Resolved) -> String {
        let body = self.types.eval_dots(body).unwrap_or(body);
        let mut names: Vec<VarId> = Vec::new();
        let datatype = |def: DefId| resolved.name(def).to_owned();
        let shown = self.types.show(body, &mut names, &datatype);
        let mut constraints = Vec::new();
        for (index, &var) in names.iter().enumerate() {
            let have = self.types.vars[var.0 as usize].constraints;
            let letter = char::from(b'a' + (index % 26) as u8);
            for constraint in Constraint::ALL {
                let implied = constraint.implied_by(have & !constraint.bit());
                if have & constraint.bit() != 0 && !implied {
                    constraints.push(format!("{} {letter}", constraint.name()));
                }
            }
        }
        match constraints.len() {
            0 => shown,
            1 => format!("{} => {shown}", constraints[0]),
            _ => format!("({}) => {shown}", constraints.join(", ")),
        }
    }
}
