//! Functions: closures, `let`, calls and the choice of a clause.

use std::sync::Arc;

use super::machine::{CallKey, Error, Evaluator, Result, Thunk};
use super::sequences::is_canonical;
use super::value::{Code, Env, Frame, Function, Seq, Slot, Value, frame};
use crate::builtin::Builtin;
use crate::resolve::{DefId, DefKind};
use crate::syntax::ast::*;
use crate::syntax::source::Span;

impl Evaluator {
    pub(super) fn lambda(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        let key = self.captured(id, env);
        let instance = self.instance(id, key);
        Ok(Value::Function(Arc::new(Function {
            code: Code::Lambda(id),
            arguments: Vec::new(),
            env: env.clone(),
            instance,
            key: Vec::new(),
        })))
    }

    pub(super) fn instance(&mut self, id: ExprId, key: Vec<Value>) -> u32 {
        let next = self.instances.len() as u32 + 1;
        *self.instances.entry((id, key)).or_insert(next)
    }

    /// The values of the outer variables that an expression uses.
    pub(super) fn captured(&mut self, id: ExprId, env: &Env) -> Vec<Value> {
        let Some(outer) = self.closures.outer(id) else {
            return Vec::new();
        };
        let outer = outer.to_vec();
        let span = self.span(id);
        let mut values = Vec::with_capacity(outer.len());
        for def in outer {
            let value = match self.lookup(def, env) {
                Some((slot, frame)) => {
                    let (slot, at) = (slot.clone(), Some(frame.clone()));
                    let value = self
                        .slot_value(def, &slot, &at)
                        .and_then(|value| self.canonical(value, span));
                    match (value, slot) {
                        (Ok(value), _) => value,
                        // It fails when it is used, if it is; until then it is itself.
                        (Err(_), Slot::Thunk(thunk) | Slot::Part(thunk, _)) => {
                            Value::Opaque(thunk.0)
                        }
                        (Err(_), _) => Value::Opaque(u32::MAX),
                    }
                }
                None => Value::Opaque(u32::MAX),
            };
            values.push(value);
        }
        values
    }

    /// The same if all of them are at hand: none when a value would have to be computed for it.
    pub(super) fn settled(&mut self, id: ExprId, env: &Env) -> Option<Vec<Value>> {
        let outer = self.closures.outer(id)?.to_vec();
        let mut values = Vec::with_capacity(outer.len());
        for def in outer {
            let (slot, frame) = self.lookup(def, env)?;
            let (slot, at) = (slot.clone(), Some(frame.clone()));
            match slot {
                Slot::Part(..) => return None,
                Slot::Thunk(thunk) if !self.is_done(thunk) => return None,
                _ => {}
            }
            let value = self.slot_value(def, &slot, &at).ok()?;
            if !is_canonical(&value) {
                return None;
            }
            values.push(value);
        }
        Some(values)
    }

    pub(super) fn let_env(&mut self, id: ExprId, env: &Env) -> Env {
        let Expr::Let(decls, _) = self.ast().expr(id).clone() else {
            unreachable!("called for let");
        };
        let mut slots = Vec::new();
        let mut pending = Vec::new();
        for decl in self.ast().with_timed(&decls) {
            match *self.ast().decl(decl) {
                Decl::Function { .. } => {
                    slots.push((self.resolved.binds[&decl][0], Slot::Definition));
                }
                Decl::Pattern(pat, body) => {
                    let binds = self.resolved.binds[&decl].clone();
                    let whole = matches!(self.ast().pat(pat), Pat::Var(_));
                    if whole && binds.len() == 1 && self.is_process[binds[0].0 as usize] {
                        slots.push((binds[0], Slot::Definition));
                        continue;
                    }
                    let thunk = self.thunk(Thunk::Busy(Some(body)));
                    pending.push((thunk, body));
                    for def in binds {
                        slots.push((
                            def,
                            match whole {
                                true => Slot::Thunk(thunk),
                                false => Slot::Part(thunk, pat),
                            },
                        ));
                    }
                }
                _ => {}
            }
        }
        let env = Some(Arc::new(Frame {
            slots,
            parent: env.clone(),
            instance: std::sync::OnceLock::new(),
            group: Some(id),
        }));
        for (thunk, body) in pending {
            self.thunks[thunk.0 as usize] = Thunk::Expr(body, env.clone());
        }
        env
    }

    fn frame_instance(&mut self, frame: &Arc<Frame>) -> u32 {
        if let Some(&instance) = frame.instance.get() {
            return instance;
        }
        let instance = match frame.group {
            Some(group) => {
                let key = self.captured(group, &frame.parent);
                self.instance(group, key)
            }
            None => 0,
        };
        let _ = frame.instance.set(instance);
        instance
    }

    /// A function or process that a `let` defines.
    pub(super) fn local_definition(&mut self, def: DefId, at: &Env) -> Result<Value> {
        let frame = at
            .as_ref()
            .expect("definitions stand in the frame of a let");
        let instance = self.frame_instance(frame);
        match self.resolved.def(def).kind {
            DefKind::Function(_) => Ok(Value::Function(Arc::new(Function {
                code: Code::Named(def),
                arguments: Vec::new(),
                env: at.clone(),
                instance,
                key: Vec::new(),
            }))),
            _ => self.call(CallKey::Named(def, instance, Vec::new()), at),
        }
    }

    pub(super) fn application(&mut self, id: ExprId, function: ExprId, env: &Env) -> Result<Value> {
        let Expr::App(_, arguments) = self.ast().expr(id).clone() else {
            unreachable!("called for applications");
        };
        let value = self.eval(function, env)?;
        let Value::Function(function) = value else {
            unreachable!("the type checker allows only functions here");
        };
        let strict = match function.code {
            Code::Builtin(_) => true,
            Code::Named(def) => self.is_process[def.0 as usize],
            Code::Lambda(id) => self.process_lambdas.contains(&id),
        };
        let mut slots = Vec::with_capacity(arguments.len());
        for &argument in &arguments {
            slots.push(match strict {
                true => Slot::Value(self.eval(argument, env)?),
                false => match self.at_hand(argument, env) {
                    Some(slot) => slot,
                    None => Slot::Thunk(self.thunk(Thunk::Expr(argument, env.clone()))),
                },
            });
        }
        self.apply(&function, slots, self.span(id))
    }

    /// What can be passed without computing much: literals, variables, and arithmetic on
    /// numbers that are known. Keeps counters from growing into chains of thunks.
    pub(super) fn at_hand(&mut self, id: ExprId, env: &Env) -> Option<Slot> {
        match self.ast().expr(id) {
            Expr::Int(value) => Some(Slot::Value(Value::Int(*value))),
            Expr::Bool(value) => Some(Slot::Value(Value::Bool(*value))),
            Expr::Char(value) => Some(Slot::Value(Value::Char(*value))),
            Expr::Var(_) => {
                let def = self.resolved.expr(id)?;
                if self.resolved.def(def).global {
                    return match self.resolved.is_constructor(def) {
                        true => Some(Slot::Value(Value::Dot([Value::Head(def)].into()))),
                        false => None,
                    };
                }
                match self.lookup(def, env)?.0 {
                    Slot::Value(value) => Some(Slot::Value(value.clone())),
                    Slot::Thunk(thunk) => match &self.thunks[thunk.0 as usize] {
                        Thunk::Done(value) => Some(Slot::Value(value.clone())),
                        _ => Some(Slot::Thunk(*thunk)),
                    },
                    Slot::Definition | Slot::Part(..) => None,
                }
            }
            Expr::Items(Bracket::Seq, items) if items.is_empty() => {
                Some(Slot::Value(Value::Seq(Seq::new(Vec::new()))))
            }
            Expr::Binary(op @ (BinaryOp::Plus | BinaryOp::Minus | BinaryOp::Times), a, b) => {
                let (op, a, b) = (*op, *a, *b);
                let known = |slot: Option<Slot>| match slot {
                    Some(Slot::Value(Value::Int(value))) => Some(value),
                    _ => None,
                };
                // Only short expressions: a long chain is evaluated by `binary`.
                if matches!(self.ast().expr(a), Expr::Binary(..)) {
                    return None;
                }
                let a = known(self.at_hand(a, env))?;
                let b = known(self.at_hand(b, env))?;
                let value = self.arithmetic(op, a, b, id, id).ok()?;
                Some(Slot::Value(value))
            }
            _ => None,
        }
    }

    pub(super) fn apply(
        &mut self,
        function: &Arc<Function>,
        arguments: Vec<Slot>,
        span: Span,
    ) -> Result<Value> {
        match function.code {
            Code::Builtin(builtin) => {
                let mut values = Vec::with_capacity(arguments.len());
                for slot in &arguments {
                    values.push(self.plain(slot)?);
                }
                self.apply_builtin(builtin, function, values, span)
            }
            Code::Lambda(id) if self.process_lambdas.contains(&id) => {
                let mut key = Vec::with_capacity(arguments.len());
                for slot in &arguments {
                    let value = self.plain(slot)?;
                    key.push(self.canonical(value, span)?);
                }
                let env = function.env.clone();
                self.call(CallKey::Lambda(id, function.instance, key), &env)
            }
            Code::Lambda(id) => {
                let (body, env) = self.enter_lambda(id, &arguments, &function.env, span)?;
                self.eval(body, &env)
            }
            Code::Named(def) => self.apply_named(def, function, arguments, span),
        }
    }

    /// The body of a lambda expression, and the environment with its arguments.
    pub(super) fn enter_lambda(
        &mut self,
        id: ExprId,
        arguments: &[Slot],
        env: &Env,
        span: Span,
    ) -> Result<(ExprId, Env)> {
        let Expr::Lambda(pats, body) = self.ast().expr(id).clone() else {
            unreachable!("lambdas are lambda expressions");
        };
        let mut slots = Vec::new();
        for (&pat, slot) in pats.iter().zip(arguments) {
            if !self.bind(pat, slot, env, &mut slots)? {
                return self.no_match("this function", arguments, span);
            }
        }
        Ok((body, frame(slots, env)))
    }

    fn plain(&mut self, slot: &Slot) -> Result<Value> {
        match slot {
            Slot::Value(value) => Ok(value.clone()),
            Slot::Thunk(thunk) => self.force(*thunk),
            Slot::Definition | Slot::Part(..) => unreachable!("arguments are values or thunks"),
        }
    }

    fn apply_named(
        &mut self,
        def: DefId,
        function: &Arc<Function>,
        arguments: Vec<Slot>,
        span: Span,
    ) -> Result<Value> {
        let DefKind::Function(decl) = self.resolved.def(def).kind else {
            unreachable!("named functions are function declarations");
        };
        let Decl::Function { clauses, .. } = self.ast().decl(decl) else {
            unreachable!("named functions are function declarations");
        };
        let groups = clauses[0].groups.len();
        let process = self.is_process[def.0 as usize];
        if function.arguments.len() + 1 < groups {
            let mut key = function.key.clone();
            for slot in &arguments {
                let value = match self.plain(slot).and_then(|v| self.canonical(v, span)) {
                    Ok(value) => value,
                    Err(error) if process => return Err(error),
                    Err(_) => Value::Opaque(self.thunks.len() as u32),
                };
                key.push(value);
            }
            let mut all = function.arguments.clone();
            all.push(arguments);
            return Ok(Value::Function(Arc::new(Function {
                code: function.code,
                arguments: all,
                env: function.env.clone(),
                instance: function.instance,
                key,
            })));
        }
        if process {
            let mut key = function.key.clone();
            for slot in &arguments {
                let value = self.plain(slot)?;
                key.push(self.canonical(value, span)?);
            }
            let env = function.env.clone();
            return self.call(CallKey::Named(def, function.instance, key), &env);
        }
        let mut all: Vec<Slot> = function.arguments.iter().flatten().cloned().collect();
        all.extend(arguments);
        let (body, env) = self.choose_clause(def, decl, &all, &function.env, span)?;
        self.eval(body, &env)
            .map_err(|error| self.in_call(error, def, span))
    }

    /// Names the function in which an error happened, for the innermost few.
    fn in_call(&self, mut error: Error, def: DefId, span: Span) -> Error {
        if error.related.len() < 3 {
            let words = format!("in a call of `{}`", self.resolved.name(def));
            error.related.push((span, words));
        }
        error
    }

    pub(super) fn choose_clause(
        &mut self,
        def: DefId,
        decl: DeclId,
        arguments: &[Slot],
        env: &Env,
        span: Span,
    ) -> Result<(ExprId, Env)> {
        let count = match self.ast().decl(decl) {
            Decl::Function { clauses, .. } => clauses.len(),
            _ => unreachable!("only functions have clauses"),
        };
        for index in 0..count {
            let Decl::Function { clauses, .. } = self.ast().decl(decl) else {
                unreachable!("only functions have clauses");
            };
            let clause = &clauses[index];
            let body = clause.body;
            let pats: Vec<PatId> = clause.groups.iter().flatten().copied().collect();
            let mut slots = Vec::new();
            let mut fits = true;
            for (&pat, slot) in pats.iter().zip(arguments) {
                if !self.bind(pat, slot, env, &mut slots)? {
                    fits = false;
                    break;
                }
            }
            if fits {
                return Ok((body, frame(slots, env)));
            }
        }
        let name = self.resolved.name(def).to_owned();
        let at = self.resolved.def(def).span;
        self.no_match(&format!("`{name}`"), arguments, span)
            .map_err(|mut error: Error| {
                error
                    .related
                    .push((at, format!("`{name}` is defined here")));
                error
            })
    }

    fn no_match<T>(&mut self, name: &str, arguments: &[Slot], span: Span) -> Result<T> {
        let mut shown = Vec::new();
        for slot in arguments {
            let value = self.plain(slot)?;
            shown.push(self.show(&value));
        }
        self.error_help(
            span,
            format!(
                "no clause of {name} matches the arguments ({})",
                shown.join(", ")
            ),
            "add a clause for these arguments",
        )
    }

    pub(super) fn builtin_function(&self, builtin: Builtin) -> Value {
        Value::Function(Arc::new(Function {
            code: Code::Builtin(builtin),
            arguments: Vec::new(),
            env: None,
            instance: 0,
            key: Vec::new(),
        }))
    }
}
