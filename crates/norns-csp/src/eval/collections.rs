//! Tuples, sets, sequences, maps, ranges and comprehensions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::machine::{Evaluator, Result, Thunk};
use super::set::Set;
use super::value::{Env, Seq, Slot, Value, frame};
use crate::event::EventSet;
use crate::syntax::ast::*;
use crate::syntax::source::Span;

impl Evaluator {
    pub(super) fn tuple(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        let Expr::Tuple(items) = self.ast().expr(id).clone() else {
            unreachable!("called for tuples");
        };
        let mut values = Vec::with_capacity(items.len());
        for &item in &items {
            values.push(self.eval(item, env)?);
        }
        Ok(Value::Tuple(values.into()))
    }

    pub(super) fn dot(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        let Expr::Dot(items) = self.ast().expr(id).clone() else {
            unreachable!("called for dots");
        };
        let span = self.span(id);
        let mut values = Vec::with_capacity(items.len());
        for &item in &items {
            values.push(self.eval(item, env)?);
        }
        let mut whole = values.pop().expect("a dot has parts");
        while let Some(left) = values.pop() {
            whole = self.combine(left, whole, span)?;
        }
        Ok(whole)
    }

    pub(super) fn items(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        let Expr::Items(bracket, items) = self.ast().expr(id).clone() else {
            unreachable!("called for items");
        };
        let mut values = Vec::with_capacity(items.len());
        for &item in &items {
            values.push(self.eval(item, env)?);
        }
        self.collect(bracket, values, self.span(id))
    }

    pub(super) fn collect(
        &mut self,
        bracket: Bracket,
        values: Vec<Value>,
        span: Span,
    ) -> Result<Value> {
        let value = match bracket {
            Bracket::Seq => Value::Seq(Seq::new(values)),
            Bracket::Set => self.make_set(values, span)?,
        };
        self.note_large(&value);
        Ok(value)
    }

    pub(super) fn make_set(&mut self, values: Vec<Value>, span: Span) -> Result<Value> {
        let mut elements = Vec::with_capacity(values.len());
        for value in values {
            elements.push(self.canonical(value, span)?);
        }
        Ok(Value::Set(Arc::new(Set::explicit(elements))))
    }

    pub(super) fn map(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        let Expr::Map(pairs) = self.ast().expr(id).clone() else {
            unreachable!("called for maps");
        };
        let mut map = BTreeMap::new();
        for &(key, value) in &pairs {
            let span = self.span(key);
            let key = self.eval(key, env)?;
            let key = self.canonical(key, span)?;
            let value = self.eval(value, env)?;
            map.insert(key, value);
        }
        Ok(Value::Map(Arc::new(map)))
    }

    pub(super) fn range(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        let Expr::Range {
            bracket,
            from,
            to,
            stmts,
        } = self.ast().expr(id).clone()
        else {
            unreachable!("called for ranges");
        };
        let envs = match &stmts {
            None => vec![env.clone()],
            Some(stmts) => self.generate(stmts, env, bracket)?,
        };
        if stmts.is_none() && to.is_none() {
            let from = self.int(from, env)?;
            return Ok(match bracket {
                Bracket::Set => Value::Set(Arc::new(Set::IntsFrom(from))),
                Bracket::Seq => {
                    let thunk = self.thunk(Thunk::IntsFrom(from));
                    self.force(thunk)?
                }
            });
        }
        let mut values = Vec::new();
        for env in envs {
            let low = self.int(from, &env)?;
            let Some(to) = to else {
                return match bracket {
                    Bracket::Set => Ok(Value::Set(Arc::new(Set::IntsFrom(low)))),
                    Bracket::Seq => {
                        let thunk = self.thunk(Thunk::IntsFrom(low));
                        self.force(thunk)
                    }
                };
            };
            let high = self.int(to, &env)?;
            if usize::try_from(high.saturating_sub(low)).is_ok_and(|n| n >= self.limits.elements) {
                return Err(self.too_large(self.span(id)));
            }
            values.extend((low..=high).map(Value::Int));
        }
        match bracket {
            Bracket::Seq => Ok(Value::Seq(Seq::new(values))),
            Bracket::Set => Ok(Value::Set(Arc::new(Set::explicit(values)))),
        }
    }

    pub(super) fn comprehension(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        let Expr::Comprehension(bracket, items, stmts) = self.ast().expr(id).clone() else {
            unreachable!("called for comprehensions");
        };
        // Over a sequence that is not all there, the comprehension is not all there either.
        if bracket == Bracket::Seq
            && let Some(Stmt::Generator(_, set)) = stmts.first()
        {
            let seq = self.seq(*set, env)?;
            if seq.rest.is_some() {
                return self.comprehension_rest(id, env, seq);
            }
        }
        let envs = self.generate(&stmts, env, bracket)?;
        let mut values = Vec::with_capacity(envs.len() * items.len());
        for env in envs {
            for &item in &items {
                values.push(self.eval(item, &env)?);
            }
        }
        self.collect(bracket, values, self.span(id))
    }

    pub(super) fn comprehension_rest(&mut self, id: ExprId, env: &Env, seq: Seq) -> Result<Value> {
        let Expr::Comprehension(_, items, stmts) = self.ast().expr(id).clone() else {
            unreachable!("called for comprehensions");
        };
        let Some(Stmt::Generator(pat, _)) = stmts.first() else {
            unreachable!("the first statement is a generator");
        };
        let mut seq = seq;
        let mut values = Vec::new();
        loop {
            for item in seq.items() {
                let mut slots = Vec::new();
                if !self.bind(*pat, &Slot::Value(item.clone()), env, &mut slots)? {
                    continue;
                }
                let inner = frame(slots, env);
                for env in self.generate(&stmts[1..], &inner, Bracket::Seq)? {
                    for &item in &items {
                        values.push(self.eval(item, &env)?);
                    }
                }
            }
            let Some(rest) = seq.rest else {
                return Ok(Value::Seq(Seq::new(values)));
            };
            if !values.is_empty() {
                let rest = self.thunk(Thunk::Comprehension(id, env.clone(), rest));
                return Ok(Value::Seq(Seq::with_rest(values, Some(rest))));
            }
            let Value::Seq(next) = self.force(rest)? else {
                unreachable!("the rest of a sequence is a sequence");
            };
            seq = next;
        }
    }

    /// The environments that statements yield, in order.
    pub(super) fn generate(
        &mut self,
        stmts: &[Stmt],
        env: &Env,
        bracket: Bracket,
    ) -> Result<Vec<Env>> {
        let listed = self.listed_environments;
        let envs = self.list_environments(stmts, env, bracket);
        self.listed_environments = listed;
        envs
    }

    fn list_environments(
        &mut self,
        stmts: &[Stmt],
        env: &Env,
        bracket: Bracket,
    ) -> Result<Vec<Env>> {
        let mut envs = vec![env.clone()];
        for stmt in stmts {
            let mut next = Vec::new();
            for env in envs {
                match stmt {
                    Stmt::Condition(condition) => {
                        if self.boolean(*condition, &env)? {
                            next.push(env);
                        }
                    }
                    Stmt::Generator(pat, set) => {
                        let span = self.span(*set);
                        let values = match bracket {
                            Bracket::Seq => {
                                let seq = self.seq(*set, &env)?;
                                self.seq_full(seq, span)?.items().to_vec()
                            }
                            Bracket::Set => {
                                let set = self.set(*set, &env)?;
                                self.elements(&set, span)?
                            }
                        };
                        for value in values {
                            self.work(1, span)?;
                            let mut slots = Vec::new();
                            if self.bind(*pat, &Slot::Value(value), &env, &mut slots)? {
                                next.push(frame(slots, &env));
                                self.listed_environments += 1;
                            }
                        }
                    }
                }
            }
            envs = next;
        }
        Ok(envs)
    }

    pub(super) fn production_set(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        let Expr::Productions(items, stmts) = self.ast().expr(id).clone() else {
            unreachable!("called for productions");
        };
        let span = self.span(id);
        let envs = match &stmts {
            None => vec![env.clone()],
            Some(stmts) => self.generate(stmts, env, Bracket::Set)?,
        };
        let mut sets = Vec::new();
        let mut runs = Vec::new();
        for env in envs {
            for &item in &items {
                let value = self.eval(item, &env)?;
                match self.run_of(&value, span)? {
                    Some(run) => runs.push(run),
                    None => sets.push(self.productions(&value, span)?),
                }
            }
        }
        if !runs.is_empty() {
            sets.push(Arc::new(Set::Events(EventSet::of_runs(runs))));
        }
        Ok(Value::Set(match sets.len() {
            0 => Arc::new(Set::none()),
            1 => sets.remove(0),
            _ => Arc::new(Set::Union(sets)),
        }))
    }
}
