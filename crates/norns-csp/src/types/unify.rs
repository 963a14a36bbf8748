//! Making two types equal.
//!
//! The rules for dots follow libcspm's `Unification.hs`: the expected type comes first, and in
//! some places (`symmetric` is false) a dotted type is only accepted on the found side.

use super::ty::{Constraint, Scheme, Ty, TyId, Types, VarId};
use crate::resolve::DefId;
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

type Result<T> = std::result::Result<T, Mismatch>;

#[derive(Clone, Copy, PartialEq)]
enum Match {
    Shortest,
    Longest,
}

const MAX_DEPTH: u32 = 600;

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

    fn is_compound(&self, ty: TyId) -> bool {
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

    fn set_var(&mut self, var: VarId, ty: TyId) -> Result<()> {
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

    // Constraints

    fn constrain_all(&mut self, constraints: u8, ty: TyId) -> Result<()> {
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

    fn constrain_head(&mut self, constraint: Constraint, ty: TyId) -> Result<()> {
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
    fn has_equality(&mut self, datatype: DefId) -> bool {
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

    // Dots

    fn unify_dotables(&mut self, a: TyId, b: TyId) -> Result<TyId> {
        let (left, left_result) = self.reduce(a);
        let (right, right_result) = self.reduce(b);
        let is_extendable = |types: &Types, ty: TyId| matches!(types.get(ty), Ty::Extendable(..));
        match (
            is_extendable(self, left_result),
            is_extendable(self, right_result),
        ) {
            (true, true) => {
                self.unify(left_result, right_result)?;
                let left = self.eval_list(Match::Longest, left)?;
                let right = self.eval_list(Match::Longest, right)?;
                let mut parts = Vec::new();
                for (&x, &y) in left.iter().zip(&right) {
                    let (_, x) = self.reduce(x);
                    let (_, y) = self.reduce(y);
                    parts.push(self.unify(x, y)?);
                }
                let longer = if left.len() == parts.len() {
                    right
                } else {
                    left
                };
                parts.extend(longer.into_iter().skip(parts.len()));
                let argument = self.dots(&parts);
                Ok(self.add(Ty::Dotable(argument, left_result)))
            }
            (true, false) => {
                let left = self.eval_list(Match::Longest, left)?;
                let right = self.eval_list(Match::Longest, right)?;
                let mut parts = Vec::new();
                for (&x, &y) in left.iter().zip(&right) {
                    let (_, x) = self.reduce(x);
                    parts.push(self.unify(x, y)?);
                }
                let rest: Vec<TyId> = right.iter().copied().skip(left.len()).collect();
                let result = self.dotables(&rest, right_result);
                self.unify(left_result, result)?;
                let longer = if left.len() == parts.len() {
                    right
                } else {
                    left
                };
                parts.extend(longer.into_iter().skip(parts.len()));
                let argument = self.dots(&parts);
                Ok(self.add(Ty::Dotable(argument, right_result)))
            }
            (false, true) => {
                let left = self.eval_list(Match::Longest, left)?;
                let right = self.eval_list(Match::Longest, right)?;
                let mut parts = Vec::new();
                for (&x, &y) in left.iter().zip(&right) {
                    let (_, y) = self.reduce(y);
                    parts.push(self.unify(x, y)?);
                }
                let rest: Vec<TyId> = left.iter().copied().skip(right.len()).collect();
                let result = self.dotables(&rest, left_result);
                self.unify(result, right_result)?;
                let longer = if right.len() == parts.len() {
                    left
                } else {
                    right
                };
                parts.extend(longer.into_iter().skip(parts.len()));
                let argument = self.dots(&parts);
                Ok(self.add(Ty::Dotable(argument, left_result)))
            }
            (false, false) => {
                let result = self.unify(left_result, right_result)?;
                let parts = self.combine(left, right)?;
                let argument = self.dots(&parts);
                Ok(self.add(Ty::Dotable(argument, result)))
            }
        }
    }

    fn is_dotable(&mut self, ty: TyId) -> bool {
        let ty = self.head(ty);
        matches!(self.get(ty), Ty::Dotable(..))
    }

    fn is_var(&mut self, ty: TyId) -> bool {
        let ty = self.head(ty);
        matches!(self.get(ty), Ty::Var(_))
    }

    /// Two lists of dotted types become one.
    fn combine(&mut self, left: Vec<TyId>, right: Vec<TyId>) -> Result<Vec<TyId>> {
        let mut a: Vec<TyId> = left;
        let mut b: Vec<TyId> = right;
        let mut done = Vec::new();
        loop {
            a = self.flatten(a);
            b = self.flatten(b);
            match (a.len(), b.len()) {
                (0, 0) => return Ok(done),
                (0, _) | (_, 0) => return Err(Mismatch::Types),
                (1, _) | (_, 1) => {
                    let left = self.dots(&a);
                    let right = self.dots(&b);
                    done.push(self.unify(left, right)?);
                    return Ok(done);
                }
                _ => {}
            }
            if !self.is_dotable(a[0]) && !self.is_dotable(b[0]) {
                done.push(self.unify(a[0], b[0])?);
                a.remove(0);
                b.remove(0);
                continue;
            }
            if self.is_dotable(a[0]) {
                if let Some(result) = self.step(&mut a, &mut b, false)? {
                    done.extend(result);
                    return Ok(done);
                }
            } else if let Some(result) = self.step(&mut b, &mut a, true)? {
                done.extend(result);
                return Ok(done);
            }
        }
    }

    fn flatten(&mut self, list: Vec<TyId>) -> Vec<TyId> {
        list.into_iter().flat_map(|ty| self.dot_list(ty)).collect()
    }

    /// The first of `x` is dotable and takes what follows it. An answer ends the combination.
    fn step(
        &mut self,
        x: &mut Vec<TyId>,
        y: &mut Vec<TyId>,
        swapped: bool,
    ) -> Result<Option<Vec<TyId>>> {
        let first = self.head(x[0]);
        let Ty::Dotable(argument, rest) = *self.get(first) else {
            return Err(Mismatch::Types);
        };
        let mut arguments = self.dot_list(argument);
        let argument = arguments.remove(0);
        let rest = self.dotables(&arguments, rest);
        let next = self.head(x[1]);
        let unify = |types: &mut Types, p: TyId, q: TyId| match swapped {
            true => types.unify(q, p),
            false => types.unify(p, q),
        };
        let next_is_var = self.is_var(next);
        if self.is_dotable(argument)
            || !self.is_dotable(next) && !next_is_var
            || next_is_var && x.len() > 2
        {
            unify(self, argument, next)?;
            x.drain(..2);
            x.insert(0, rest);
            return Ok(None);
        }
        if next_is_var {
            // The last variable takes all arguments that are left, and what the other side has
            // beyond them.
            let (all, result) = self.reduce(first);
            let others = self.eval_list(Match::Longest, std::mem::take(y))?;
            let first = unify(self, result, others[0])?;
            let mut parts = all;
            parts.extend(others.iter().skip(1));
            let value = self.dots(&parts);
            unify(self, value, next)?;
            let mut out = vec![first];
            out.extend(others.into_iter().skip(1));
            return Ok(Some(out));
        }
        let (inner, result) = self.reduce(next);
        unify(self, argument, result)?;
        let whole = self.dotables(&inner, rest);
        x.drain(..2);
        x.insert(0, whole);
        Ok(None)
    }

    /// Applies dotable types to what follows them, everywhere in a type.
    pub fn eval_dots(&mut self, ty: TyId) -> Result<TyId> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.depth -= 1;
            return Err(Mismatch::TooDeep);
        }
        let ty = self.head(ty);
        let compound = self.is_compound(ty);
        if self.evaluating == 0 {
            self.evaluated.clear();
        }
        self.evaluating += 1;
        let known = match compound {
            true => self.evaluated.get(&ty).copied(),
            false => None,
        };
        let result = match known {
            Some(known) => Ok(known),
            None => self.eval_dots_head(ty),
        };
        if compound && let Ok(new) = result {
            self.evaluated.insert(ty, new);
        }
        self.evaluating -= 1;
        self.depth -= 1;
        result
    }

    fn eval_dots_head(&mut self, ty: TyId) -> Result<TyId> {
        let ty = self.head(ty);
        let node = match self.get(ty).clone() {
            Ty::Set(inner) => {
                let new = self.eval_dots(inner)?;
                if new == inner {
                    return Ok(ty);
                }
                Ty::Set(new)
            }
            Ty::Seq(inner) => {
                let new = self.eval_dots(inner)?;
                if new == inner {
                    return Ok(ty);
                }
                Ty::Seq(new)
            }
            Ty::Map(key, value) => Ty::Map(self.eval_dots(key)?, self.eval_dots(value)?),
            Ty::Tuple(items) => {
                let new: Box<[TyId]> = items
                    .iter()
                    .map(|&item| self.eval_dots(item))
                    .collect::<Result<_>>()?;
                if new == items {
                    return Ok(ty);
                }
                Ty::Tuple(new)
            }
            Ty::Function(arguments, result) => {
                let new: Box<[TyId]> = arguments
                    .iter()
                    .map(|&argument| self.eval_dots(argument))
                    .collect::<Result<_>>()?;
                let new_result = self.eval_dots(result)?;
                if new == arguments && new_result == result {
                    return Ok(ty);
                }
                Ty::Function(new, new_result)
            }
            Ty::Dot(..) => {
                let parts = self.dot_list(ty);
                let parts = self.eval_list(Match::Longest, parts)?;
                return Ok(self.dots(&parts));
            }
            _ => return Ok(ty),
        };
        Ok(self.add(node))
    }

    fn eval_list(&mut self, how: Match, parts: Vec<TyId>) -> Result<Vec<TyId>> {
        let mut done = Vec::new();
        let mut parts: std::collections::VecDeque<TyId> = self.flatten(parts).into();
        loop {
            let Some(first) = parts.pop_front() else {
                return Ok(done);
            };
            let first = self.head(first);
            let Some(&next) = parts.front() else {
                done.push(first);
                return Ok(done);
            };
            match *self.get(first) {
                Ty::Dot(a, b) => {
                    parts.push_front(b);
                    parts.push_front(a);
                }
                Ty::Dotable(argument, rest) => {
                    parts.pop_front();
                    let mut arguments = self.dot_list(argument);
                    let argument = arguments.remove(0);
                    let rest = self.dotables(&arguments, rest);
                    let next = self.head(next);
                    match self.get(next).clone() {
                        Ty::Dot(a, b) => {
                            parts.push_front(b);
                            parts.push_front(a);
                            parts.push_front(first);
                        }
                        Ty::Var(_) if parts.is_empty() => {
                            let (all, result) = self.reduce(first);
                            match how {
                                Match::Longest => {
                                    let value = self.dots(&all);
                                    self.unify(next, value)?;
                                    parts.push_front(result);
                                }
                                Match::Shortest => {
                                    self.unify(all[0], next)?;
                                    let rest = self.dotables(&all[1..], result);
                                    parts.push_front(rest);
                                }
                            }
                        }
                        Ty::Extendable(base, var) => {
                            self.unify(argument, base)?;
                            let whole = self.add(Ty::Extendable(rest, var));
                            parts.push_front(whole);
                        }
                        Ty::Dotable(..) if !self.is_dotable(argument) => {
                            let (inner, result) = self.reduce(next);
                            self.unify(argument, result)?;
                            let whole = self.dotables(&inner, rest);
                            parts.push_front(whole);
                        }
                        _ => {
                            self.unify(argument, next)?;
                            parts.push_front(rest);
                        }
                    }
                }
                Ty::Extendable(base, var) => match how {
                    Match::Longest => {
                        let rest = self.eval_list(how, parts.into())?;
                        let value = self.dotables(&rest, Types::NO_MORE);
                        self.set_var(var, value)?;
                        done.push(base);
                        return Ok(done);
                    }
                    Match::Shortest => {
                        parts.pop_front();
                        let value = self.add(Ty::Dotable(next, Types::NO_MORE));
                        self.set_var(var, value)?;
                        parts.push_front(base);
                    }
                },
                _ => done.push(first),
            }
        }
    }
}
