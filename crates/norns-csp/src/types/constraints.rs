//! Constraints on types: what can be compared, ordered, put into sets, or must be complete.

use rustc_hash::FxHashSet;

use super::ty::{Constraint, Ty, TyId, Types};
use super::unify::{MAX_DEPTH, Mismatch, Result};
use crate::resolve::DefId;

impl Types {
    pub(super) fn constrain_all(&mut self, constraints: u8, ty: TyId) -> Result<()> {
        for constraint in Constraint::ALL {
            if constraints & constraint.bit() != 0 {
                self.constrain(constraint, ty)?;
            }
        }
        Ok(())
    }

    /// Makes a type satisfy a constraint, binding variables where that helps.
    pub fn constrain(&mut self, constraint: Constraint, ty: TyId) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.depth -= 1;
            return Err(Mismatch::TooDeep);
        }
        let ty = self.head(ty);
        let compound = self.is_compound(ty);
        let known = compound && self.constrained.contains(&(constraint, ty));
        let result = match known {
            true => Ok(()),
            false => self.constrain_head(constraint, ty),
        };
        if compound && result.is_ok() {
            self.constrained.insert((constraint, ty));
        }
        self.depth -= 1;
        result
    }

    pub(super) fn constrain_head(&mut self, constraint: Constraint, ty: TyId) -> Result<()> {
        use Constraint::*;
        let ty = self.head(ty);
        let refuse = Err(Mismatch::Constraint(constraint, ty));
        match self.get(ty).clone() {
            Ty::Var(var) => {
                let entry = &mut self.vars[var.0 as usize];
                if constraint.implied_by(entry.constraints) {
                    return Ok(());
                }
                if entry.rigid.is_some() {
                    return refuse;
                }
                entry.constraints |= constraint.bit();
                Ok(())
            }
            Ty::Extendable(base, var) => match constraint {
                Yieldable => self.set_var(var, Types::NO_MORE),
                Complete => {
                    self.constrain(constraint, base)?;
                    self.set_var(var, Types::NO_MORE)
                }
                Eq | Set => Ok(()),
                Ord => refuse,
            },
            Ty::Int | Ty::Char => match constraint {
                Yieldable => refuse,
                _ => Ok(()),
            },
            Ty::Bool => match constraint {
                Ord | Yieldable => refuse,
                _ => Ok(()),
            },
            Ty::Proc => match constraint {
                Set | Complete => Ok(()),
                _ => refuse,
            },
            Ty::Event => match constraint {
                Ord => refuse,
                _ => Ok(()),
            },
            Ty::Datatype(def) => match constraint {
                Ord => refuse,
                Eq if !self.has_equality(def) => refuse,
                _ => Ok(()),
            },
            Ty::Seq(inner) => match constraint {
                Complete => Ok(()),
                Set | Eq => self.constrain(constraint, inner),
                Ord => self.constrain(Eq, inner),
                Yieldable => refuse,
            },
            Ty::Set(inner) => match constraint {
                Complete => Ok(()),
                Set | Eq => self.constrain(constraint, inner),
                Ord => self.constrain(Eq, inner),
                Yieldable => refuse,
            },
            Ty::Map(key, value) => match constraint {
                Complete => Ok(()),
                Yieldable => refuse,
                _ => {
                    self.constrain(constraint, key)?;
                    self.constrain(constraint, value)
                }
            },
            Ty::Tuple(items) => match constraint {
                Complete => Ok(()),
                Yieldable => refuse,
                _ => items
                    .iter()
                    .try_for_each(|&item| self.constrain(constraint, item)),
            },
            Ty::Dotable(a, b) => match constraint {
                Eq | Set => {
                    self.constrain(constraint, a)?;
                    self.constrain(constraint, b)
                }
                _ => refuse,
            },
            Ty::Dot(a, b) => match constraint {
                Ord => refuse,
                Eq | Set => {
                    self.constrain(constraint, a)?;
                    self.constrain(constraint, b)
                }
                Yieldable | Complete => {
                    let whole = self.eval_dots(ty)?;
                    let head = self.head(whole);
                    match *self.get(head) {
                        Ty::Dot(a, b) if constraint == Complete => {
                            self.constrain(Complete, a)?;
                            self.constrain(Complete, b)
                        }
                        Ty::Dot(..) => refuse,
                        _ => self.constrain(constraint, whole),
                    }
                }
            },
            Ty::Function(..) | Ty::NoMore => refuse,
        }
    }

    /// Whether the values of a datatype can be compared: no process or function is in them.
    /// What is not known yet is taken to be comparable.
    pub(super) fn has_equality(&mut self, datatype: DefId) -> bool {
        let mut seen: FxHashSet<DefId> = FxHashSet::default();
        let mut datatypes = vec![datatype];
        while let Some(def) = datatypes.pop() {
            if !seen.insert(def) {
                continue;
            }
            let mut left = self.datatypes.get(&def).cloned().unwrap_or_default();
            while let Some(ty) = left.pop() {
                match self.head_ty(ty) {
                    Ty::Proc | Ty::Function(..) => return false,
                    Ty::Datatype(other) => datatypes.push(other),
                    Ty::Set(inner) | Ty::Seq(inner) | Ty::Extendable(inner, _) => left.push(inner),
                    Ty::Map(a, b) | Ty::Dot(a, b) | Ty::Dotable(a, b) => left.extend([a, b]),
                    Ty::Tuple(items) => left.extend(items.iter()),
                    _ => {}
                }
            }
        }
        true
    }
}
