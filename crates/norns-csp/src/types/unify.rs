//! Making two types equal.
//!
//! The rules for dots follow libcspm's `Unification.hs`: the expected type comes first, and in
//! some places (`symmetric` is false) a dotted type is only accepted on the found side.

use super::ty::{Constraint, Scheme, Ty, TyId, Types, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Why two types cannot be made equal.
#[derive(Clone, Debug)]
pub enum Mismatch {
    Types,
    /// This type does not satisfy the constraint.
    Constraint(Constraint, TyId),
    /// The type would contain itself.
    Infinite,
    /// The types nest too deeply.
    TooDeep,
}

pub(super) type Result<T> = std::result::Result<T, Mismatch>;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Match {
    Shortest,
    Longest,
}

pub(super) const MAX_DEPTH: u32 = 600;

impl Types {
    pub fn unify(&mut self, expected: TyId, found: TyId) -> Result<TyId> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.depth -= 1;
            return Err(Mismatch::TooDeep);
        }
        let result = self.unify_heads(expected, found);
        self.depth -= 1;
        result
    }

    fn unify_heads(&mut self, expected: TyId, found: TyId) -> Result<TyId> {
        let a = self.head(expected);
        let b = self.head(found);
        if a == b {
            return Ok(a);
        }
        let compound = self.is_compound(a) && self.is_compound(b);
        if compound && let Some(&known) = self.unified.get(&(a, b)) {
            return Ok(known);
        }
        let result = self.unify_nodes(a, b)?;
        if compound {
            self.unified.insert((a, b), result);
        }
        Ok(result)
    }

    pub(super) fn is_compound(&self, ty: TyId) -> bool {
        matches!(
            self.get(ty),
            Ty::Set(_) | Ty::Seq(_) | Ty::Map(..) | Ty::Tuple(_) | Ty::Function(..)
        )
    }

    /// Unifies two types whose outermost variables and extensions have been followed.
    fn unify_nodes(&mut self, a: TyId, b: TyId) -> Result<TyId> {
        match (self.get(a).clone(), self.get(b).clone()) {
            (Ty::Var(x), Ty::Var(y)) if x == y => Ok(a),
            (Ty::Var(x), Ty::Var(y)) => self.unify_vars(x, y, a, b),
            (Ty::Var(x), _) => self.bind(x, b),
            (_, Ty::Var(y)) => self.bind(y, a),
            (Ty::Datatype(x), Ty::Datatype(y)) if x == y => Ok(a),
            (Ty::Set(x), Ty::Set(y)) => {
                let inner = self.unify(x, y)?;
                Ok(self.set_of(inner))
            }
            (Ty::Seq(x), Ty::Seq(y)) => {
                let inner = self.unify(x, y)?;
                Ok(self.seq_of(inner))
            }
            (Ty::Map(k1, v1), Ty::Map(k2, v2)) => {
                let key = self.unify(k1, k2)?;
                let value = self.unify(v1, v2)?;
                Ok(self.add(Ty::Map(key, value)))
            }
            (Ty::Tuple(x), Ty::Tuple(y)) if x.len() == y.len() => {
                let items = self.unify_all(&x, &y)?;
                if items[..] == x[..] {
                    return Ok(a);
                }
                Ok(self.add(Ty::Tuple(items.into())))
            }
            (Ty::Function(x, r), Ty::Function(y, s)) if x.len() == y.len() => {
                let arguments = self.unify_all(&x, &y)?;
                let result = self.unify(r, s)?;
                Ok(self.add(Ty::Function(arguments.into(), result)))
            }
            (Ty::Dotable(..), Ty::Dotable(..)) => self.unify_dotables(a, b),
            (Ty::Dot(..), Ty::Dot(..)) => {
                let left = self.dot_list(a);
                let right = self.dot_list(b);
                let parts = self.combine(left, right)?;
                Ok(self.dots(&parts))
            }
            (Ty::Dot(first, rest), Ty::Datatype(_) | Ty::Event) => {
                self.need_symmetric()?;
                let wanted = self.add(Ty::Dotable(rest, b));
                self.unify(wanted, first)?;
                Ok(b)
            }
            (Ty::Datatype(_) | Ty::Event, Ty::Dot(first, rest)) => {
                let wanted = self.add(Ty::Dotable(rest, a));
                self.unify(wanted, first)?;
                Ok(a)
            }
            (Ty::Dot(first, rest), Ty::Extendable(..)) => {
                self.need_symmetric()?;
                let wanted = self.add(Ty::Dotable(rest, b));
                let first = self.unify(wanted, first)?;
                Ok(self.add(Ty::Dot(first, rest)))
            }
            (Ty::Extendable(..), Ty::Dot(..)) => {
                // The expected type can grow, so the first part alone is meant.
                let parts = self.dot_list(b);
                let parts = self.eval_list(Match::Shortest, parts)?;
                let whole = self.dots(&parts);
                let head = self.head(whole);
                match *self.get(head) {
                    Ty::Dot(first, rest) => {
                        let wanted = self.add(Ty::Dotable(rest, a));
                        let first = self.unify(wanted, first)?;
                        Ok(self.add(Ty::Dot(first, rest)))
                    }
                    _ => self.unify(a, whole),
                }
            }
            (Ty::Dot(first, rest), Ty::Dotable(..)) => {
                self.need_symmetric()?;
                let wanted = self.add(Ty::Dotable(rest, b));
                self.unify(first, wanted)?;
                Ok(b)
            }
            (Ty::Dotable(..), Ty::Dot(first, rest)) => {
                let wanted = self.add(Ty::Dotable(rest, a));
                self.unify(wanted, first)?;
                Ok(a)
            }
            (Ty::Dotable(argument, rest), Ty::Extendable(base, var))
            | (Ty::Extendable(base, var), Ty::Dotable(argument, rest)) => {
                let more = self.fresh_var(0);
                let tail = self.add(Ty::Extendable(base, more));
                self.unify(tail, rest)?;
                let end = self.add(Ty::Var(more));
                let value = self.add(Ty::Dotable(argument, end));
                self.set_var(var, value)?;
                Ok(self.add(Ty::Dotable(argument, tail)))
            }
            (Ty::Extendable(x, v), Ty::Extendable(y, w)) => {
                let base = self.unify(x, y)?;
                if v != w {
                    let (from, to) = match self.is_rigid(w) {
                        true => (v, w),
                        false => (w, v),
                    };
                    let target = self.add(Ty::Var(to));
                    self.set_var(from, target)?;
                    return Ok(self.add(Ty::Extendable(base, to)));
                }
                Ok(self.add(Ty::Extendable(base, v)))
            }
            (Ty::Extendable(base, var), _) => {
                let result = self.unify(base, b)?;
                self.set_var(var, Types::NO_MORE)?;
                Ok(result)
            }
            (_, Ty::Extendable(base, var)) => {
                let result = self.unify(a, base)?;
                self.set_var(var, Types::NO_MORE)?;
                Ok(result)
            }
            _ => Err(Mismatch::Types),
        }
    }

    fn unify_all(&mut self, left: &[TyId], right: &[TyId]) -> Result<Vec<TyId>> {
        left.iter()
            .zip(right)
            .map(|(&a, &b)| self.unify(a, b))
            .collect()
    }

    fn need_symmetric(&self) -> Result<()> {
        match self.symmetric {
            true => Ok(()),
            false => Err(Mismatch::Types),
        }
    }

    fn is_rigid(&self, var: VarId) -> bool {
        self.vars[var.0 as usize].rigid.is_some()
    }

    fn unify_vars(&mut self, x: VarId, y: VarId, a: TyId, b: TyId) -> Result<TyId> {
        let both = self.vars[x.0 as usize].constraints | self.vars[y.0 as usize].constraints;
        match (self.is_rigid(x), self.is_rigid(y)) {
            (true, true) => Err(Mismatch::Types),
            (true, false) => {
                self.constrain_all(both, a)?;
                self.set_var(y, a)?;
                Ok(a)
            }
            (false, true) => {
                self.constrain_all(both, b)?;
                self.set_var(x, b)?;
                Ok(b)
            }
            (false, false) => {
                self.vars[y.0 as usize].constraints = both;
                let level = self.vars[x.0 as usize].level;
                let other = &mut self.vars[y.0 as usize].level;
                *other = level.min(*other);
                self.vars[x.0 as usize].value = Some(b);
                Ok(b)
            }
        }
    }

    fn bind(&mut self, var: VarId, ty: TyId) -> Result<TyId> {
        if self.is_rigid(var) {
            // A rigid variable still matches `v=>*a` with nothing more.
            if let Ty::Extendable(base, more) = *self.get(ty) {
                let rigid = self.add(Ty::Var(var));
                let result = self.unify(rigid, base)?;
                self.set_var(more, Types::NO_MORE)?;
                return Ok(result);
            }
            return Err(Mismatch::Types);
        }
        let constraints = self.vars[var.0 as usize].constraints;
        self.constrain_all(constraints, ty)?;
        let mut ty = ty;
        if self.occurs(var, ty) {
            ty = self.eval_dots(ty)?;
            let head = self.head(ty);
            if *self.get(head) == Ty::Var(var) {
                return Ok(head);
            }
            if self.occurs(var, ty) {
                return Err(Mismatch::Infinite);
            }
        }
        // Constraining may have bound the variable already.
        if self.vars[var.0 as usize].value.is_some() {
            let bound = self.add(Ty::Var(var));
            return self.unify(bound, ty);
        }
        self.set_var(var, ty)?;
        Ok(ty)
    }

    pub(super) fn set_var(&mut self, var: VarId, ty: TyId) -> Result<()> {
        // Unifying other parts of the same types may have bound it in the meantime.
        if let Some(value) = self.vars[var.0 as usize].value {
            return self.unify(value, ty).map(|_| ());
        }
        let head = self.head(ty);
        if *self.get(head) == Ty::Var(var) {
            return Ok(());
        }
        if self.is_rigid(var) {
            return Err(Mismatch::Types);
        }
        if self.occurs(var, ty) {
            return Err(Mismatch::Infinite);
        }
        let level = self.vars[var.0 as usize].level;
        self.lower_levels(ty, level);
        self.vars[var.0 as usize].value = Some(ty);
        Ok(())
    }

    /// All variables of a type, those of extensions among them.
    fn free_vars(&mut self, ty: TyId, found: &mut Vec<VarId>) {
        let mut left = vec![ty];
        let mut visited: FxHashSet<TyId> = FxHashSet::default();
        let mut seen: FxHashSet<VarId> = FxHashSet::default();
        while let Some(ty) = left.pop() {
            let ty = self.head(ty);
            if self.is_compound(ty) && !visited.insert(ty) {
                continue;
            }
            match self.get(ty).clone() {
                Ty::Var(var) if seen.insert(var) => found.push(var),
                Ty::Set(inner) | Ty::Seq(inner) => left.push(inner),
                Ty::Map(a, b) | Ty::Dot(a, b) | Ty::Dotable(a, b) => left.extend([b, a]),
                Ty::Tuple(items) => left.extend(items.iter().rev()),
                Ty::Function(arguments, result) => {
                    left.push(result);
                    left.extend(arguments.iter().rev());
                }
                Ty::Extendable(base, var) => {
                    if seen.insert(var) {
                        found.push(var);
                    }
                    left.push(base);
                }
                _ => {}
            }
        }
    }

    fn occurs(&mut self, var: VarId, ty: TyId) -> bool {
        let mut found = Vec::new();
        self.free_vars(ty, &mut found);
        found.contains(&var)
    }

    fn lower_levels(&mut self, ty: TyId, level: u32) {
        let mut found = Vec::new();
        self.free_vars(ty, &mut found);
        for var in found {
            let other = &mut self.vars[var.0 as usize].level;
            *other = level.min(*other);
        }
    }

    /// The variables that belong to the declarations just checked become parameters.
    pub fn generalise(&mut self, ty: TyId) -> Scheme {
        let mut found = Vec::new();
        self.free_vars(ty, &mut found);
        let level = self.level;
        found.retain(|var| self.vars[var.0 as usize].level > level);
        Scheme {
            variables: found,
            body: ty,
        }
    }

    pub fn instantiate(&mut self, scheme: &Scheme) -> TyId {
        if scheme.variables.is_empty() {
            return scheme.body;
        }
        let mut fresh = FxHashMap::default();
        for &var in &scheme.variables {
            let constraints = self.vars[var.0 as usize].constraints;
            fresh.insert(var, self.fresh_var(constraints));
        }
        self.substitute(scheme.body, &fresh, &mut FxHashMap::default())
    }

    /// The type with fresh variables; `done` has the parts that were seen, so that they stay
    /// shared.
    fn substitute(
        &mut self,
        ty: TyId,
        fresh: &FxHashMap<VarId, VarId>,
        done: &mut FxHashMap<TyId, TyId>,
    ) -> TyId {
        let ty = self.head(ty);
        if let Some(&new) = done.get(&ty) {
            return new;
        }
        let new = self.substitute_node(ty, fresh, done);
        done.insert(ty, new);
        new
    }

    fn substitute_node(
        &mut self,
        ty: TyId,
        fresh: &FxHashMap<VarId, VarId>,
        done: &mut FxHashMap<TyId, TyId>,
    ) -> TyId {
        let node = match self.get(ty).clone() {
            Ty::Var(var) => match fresh.get(&var) {
                Some(&new) => Ty::Var(new),
                None => return ty,
            },
            Ty::Set(inner) => Ty::Set(self.substitute(inner, fresh, done)),
            Ty::Seq(inner) => Ty::Seq(self.substitute(inner, fresh, done)),
            Ty::Map(a, b) => Ty::Map(
                self.substitute(a, fresh, done),
                self.substitute(b, fresh, done),
            ),
            Ty::Dot(a, b) => Ty::Dot(
                self.substitute(a, fresh, done),
                self.substitute(b, fresh, done),
            ),
            Ty::Dotable(a, b) => Ty::Dotable(
                self.substitute(a, fresh, done),
                self.substitute(b, fresh, done),
            ),
            Ty::Tuple(items) => Ty::Tuple(
                items
                    .iter()
                    .map(|&item| self.substitute(item, fresh, done))
                    .collect(),
            ),
            Ty::Function(arguments, result) => {
                let arguments = arguments
                    .iter()
                    .map(|&argument| self.substitute(argument, fresh, done))
                    .collect();
                Ty::Function(arguments, self.substitute(result, fresh, done))
            }
            Ty::Extendable(base, var) => {
                let base = self.substitute(base, fresh, done);
                Ty::Extendable(base, fresh.get(&var).copied().unwrap_or(var))
            }
            _ => return ty,
        };
        self.add(node)
    }
}
