//! Types of dotted values: how channels and constructors take their fields.
//!
//! A dot stays symbolic until it is known what its parts are; then `eval_dots` applies each
//! dotable type to what follows it, by FDR's longest-match rule (libcspm's `Unification.hs`).

use super::ty::{Ty, TyId, Types};
use super::unify::{MAX_DEPTH, Match, Mismatch, Result};

impl Types {
    pub(super) fn unify_dotables(&mut self, a: TyId, b: TyId) -> Result<TyId> {
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

    pub(super) fn is_dotable(&mut self, ty: TyId) -> bool {
        let ty = self.head(ty);
        matches!(self.get(ty), Ty::Dotable(..))
    }

    pub(super) fn is_var(&mut self, ty: TyId) -> bool {
        let ty = self.head(ty);
        matches!(self.get(ty), Ty::Var(_))
    }

    /// Two lists of dotted types become one.
    pub(super) fn combine(&mut self, left: Vec<TyId>, right: Vec<TyId>) -> Result<Vec<TyId>> {
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

    pub(super) fn flatten(&mut self, list: Vec<TyId>) -> Vec<TyId> {
        list.into_iter().flat_map(|ty| self.dot_list(ty)).collect()
    }

    /// The first of `x` is dotable and takes what follows it. An answer ends the combination.
    pub(super) fn step(
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

    pub(super) fn eval_dots_head(&mut self, ty: TyId) -> Result<TyId> {
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

    pub(super) fn eval_list(&mut self, how: Match, parts: Vec<TyId>) -> Result<Vec<TyId>> {
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
