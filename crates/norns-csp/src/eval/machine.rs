//! The evaluator: environments, thunks and expressions.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::closures::Closures;
use super::process::CallBody;
use super::set::Set;
use super::value::{Code, Env, Frame, Function, Seq, Slot, ThunkId, Value, frame};
use crate::builtin::Builtin;
use crate::diagnostic::{Diagnostic, Stage};
use crate::event::EventId;
use crate::process::{CallId, Processes};
use crate::resolve::{DefId, DefKind, Resolved};
use crate::syntax::ast::*;
use crate::syntax::source::Span;
use crate::types::Typed;

pub type Error = Box<Diagnostic>;
pub type Result<T> = std::result::Result<T, Error>;

/// How deeply evaluations may nest before a recursion is taken to be endless.
pub const MAX_DEPTH: u32 = 40_000;

#[derive(Debug)]
pub(super) enum Thunk {
    Expr(ExprId, Env),
    /// The integers from here on.
    IntsFrom(i64),
    /// What a sequence comprehension yields for the rest of its first generator.
    Comprehension(ExprId, Env, ThunkId),
    /// The rest of a sequence, then this expression.
    Concat(ThunkId, ThunkId),
    /// Being computed, from this expression if it is known.
    Busy(Option<ExprId>),
    Done(Value),
    Failed(Error),
}

/// What a process is known by, so that the same process is the same call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum CallKey {
    Named(DefId, u32, Vec<Value>),
    Body(ExprId, Vec<Value>),
    Buffer(i64, Arc<Set>, Vec<Value>),
    Loop(crate::process::ProcId),
}

pub struct Evaluator {
    pub(super) resolved: Resolved,
    pub(super) closures: Closures,
    /// By definition: it is a process, or a function that yields one.
    pub(super) is_process: Vec<bool>,
    pub(super) thunks: Vec<Thunk>,
    pub(super) globals: FxHashMap<DefId, ThunkId>,
    pub(super) depth: u32,
    pub(super) max_depth: u32,
    /// All channels in the order of their declaration.
    pub(super) channels: Vec<DefId>,
    pub(super) fields: FxHashMap<DefId, Arc<Vec<Arc<Set>>>>,
    /// By datatype: whether it has finitely many values.
    pub(super) finite: FxHashMap<DefId, bool>,
    pub(super) event_ids: FxHashMap<Value, EventId>,
    pub(super) processes: Processes,
    pub(super) calls: FxHashMap<CallKey, CallId>,
    pub(super) bodies: FxHashMap<CallId, CallBody>,
    pub(super) instances: FxHashMap<(ExprId, Vec<Value>), u32>,
    pub(super) simple: FxHashMap<ExprId, bool>,
    /// The last error of an unfolding; the engine only carries its text.
    pub last_error: Option<Error>,
}

impl Evaluator {
    pub fn new(resolved: Resolved, mut typed: Typed) -> Evaluator {
        let is_process = (0..resolved.defs.len())
            .map(|index| typed.is_process(DefId(index as u32)))
            .collect();
        let mut channels = Vec::new();
        for decl in &resolved.top {
            if let Decl::Channel(..) = resolved.ast.decl(*decl) {
                channels.extend(resolved.binds[decl].iter().copied());
            }
        }
        Evaluator {
            closures: Closures::new(&resolved),
            resolved,
            is_process,
            thunks: Vec::new(),
            globals: FxHashMap::default(),
            depth: 0,
            max_depth: MAX_DEPTH,
            channels,
            fields: FxHashMap::default(),
            finite: FxHashMap::default(),
            event_ids: FxHashMap::default(),
            processes: Processes::new(),
            calls: FxHashMap::default(),
            bodies: FxHashMap::default(),
            instances: FxHashMap::default(),
            simple: FxHashMap::default(),
            last_error: None,
        }
    }

    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    pub(super) fn ast(&self) -> &Ast {
        &self.resolved.ast
    }

    pub(super) fn span(&self, id: ExprId) -> Span {
        self.resolved.ast.expr_span(id)
    }

    pub(super) fn error<T>(&self, span: Span, message: impl Into<String>) -> Result<T> {
        Err(Box::new(Diagnostic::new(Stage::Evaluation, span, message)))
    }

    pub(super) fn error_help<T>(
        &self,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Result<T> {
        Err(Box::new(
            Diagnostic::new(Stage::Evaluation, span, message).help(help),
        ))
    }

    pub(super) fn unsupported<T>(&self, span: Span, message: impl Into<String>) -> Result<T> {
        Err(Box::new(Diagnostic::new(Stage::Unsupported, span, message)))
    }

    // Thunks

    pub(super) fn thunk(&mut self, thunk: Thunk) -> ThunkId {
        self.thunks.push(thunk);
        ThunkId(self.thunks.len() as u32 - 1)
    }

    pub(super) fn force(&mut self, id: ThunkId) -> Result<Value> {
        let index = id.0 as usize;
        match &self.thunks[index] {
            Thunk::Done(value) => return Ok(value.clone()),
            Thunk::Failed(error) => return Err(error.clone()),
            _ => {}
        }
        let busy = match &self.thunks[index] {
            Thunk::Expr(expr, _) => Some(*expr),
            Thunk::Busy(expr) => *expr,
            _ => None,
        };
        let thunk = std::mem::replace(&mut self.thunks[index], Thunk::Busy(busy));
        let result = match thunk {
            Thunk::Expr(expr, env) => {
                let result = self.eval(expr, &env);
                // A failure for want of depth may succeed later from a shallower place.
                if let Err(error) = &result
                    && self.depth > 0
                    && is_depth_error(error)
                {
                    self.thunks[index] = Thunk::Expr(expr, env);
                    return result;
                }
                result
            }
            Thunk::IntsFrom(from) => {
                const CHUNK: i64 = 64;
                let items = (from..from.saturating_add(CHUNK)).map(Value::Int).collect();
                let rest = self.thunk(Thunk::IntsFrom(from.saturating_add(CHUNK)));
                Ok(Value::Seq(Seq::with_rest(items, Some(rest))))
            }
            Thunk::Comprehension(expr, env, rest) => match self.force(rest) {
                Ok(Value::Seq(seq)) => self.comprehension_rest(expr, &env, seq),
                Ok(_) => unreachable!("the rest of a sequence is a sequence"),
                Err(error) => Err(error),
            },
            Thunk::Concat(first, second) => self.concat_rest(first, second),
            Thunk::Busy(expr) => self.error_help(
                expr.map(|expr| self.span(expr)).unwrap_or_default(),
                "this definition needs its own value",
                "a value cannot be computed from itself",
            ),
            Thunk::Done(_) | Thunk::Failed(_) => unreachable!("returned above"),
        };
        self.thunks[index] = match &result {
            Ok(value) => Thunk::Done(value.clone()),
            Err(error) => Thunk::Failed(error.clone()),
        };
        result
    }

    fn concat_rest(&mut self, first: ThunkId, second: ThunkId) -> Result<Value> {
        let Value::Seq(seq) = self.force(first)? else {
            unreachable!("the type checker allows only sequences here");
        };
        self.append(seq, second)
    }

    /// `seq` followed by the sequence that `then` stands for.
    fn append(&mut self, seq: Seq, then: ThunkId) -> Result<Value> {
        let rest = match seq.rest {
            None => then,
            Some(rest) => self.thunk(Thunk::Concat(rest, then)),
        };
        if seq.items().is_empty() {
            return self.force(rest);
        }
        Ok(Value::Seq(Seq::with_rest(seq.items().to_vec(), Some(rest))))
    }

    pub(super) fn slot_value(&mut self, def: DefId, slot: &Slot, at: &Env) -> Result<Value> {
        match slot {
            Slot::Value(value) => Ok(value.clone()),
            Slot::Thunk(thunk) => self.force(*thunk),
            Slot::Definition => self.local_definition(def, at),
            Slot::Part(thunk) => self.part(def, *thunk),
        }
    }

    /// A variable in the pattern of a definition.
    fn part(&mut self, def: DefId, thunk: ThunkId) -> Result<Value> {
        let DefKind::Value(decl) = self.resolved.def(def).kind else {
            unreachable!("only pattern definitions have parts");
        };
        let Decl::Pattern(pat, body) = *self.ast().decl(decl) else {
            unreachable!("values are defined by patterns");
        };
        let mut found = Vec::new();
        if !self.bind(pat, &Slot::Thunk(thunk), &None, &mut found)? {
            let value = self.force(thunk)?;
            let shown = self.show(&value);
            return self.error(
                self.span(body),
                format!("the value {shown} does not match the pattern"),
            );
        }
        let slot = found.into_iter().find(|(other, _)| *other == def);
        let (_, slot) = slot.expect("the pattern binds its variables");
        self.slot_value(def, &slot, &None)
    }

    // Sequences

    /// At least `count` items known, unless the sequence is shorter.
    pub(super) fn seq_prefix(&mut self, mut seq: Seq, count: usize) -> Result<Seq> {
        while seq.items().len() < count {
            let Some(rest) = seq.rest else {
                return Ok(seq);
            };
            let Value::Seq(more) = self.force(rest)? else {
                unreachable!("the rest of a sequence is a sequence");
            };
            let mut items = seq.items().to_vec();
            items.extend(more.items().iter().cloned());
            seq = Seq::with_rest(items, more.rest);
        }
        Ok(seq)
    }

    /// All items.
    pub(super) fn seq_full(&mut self, seq: Seq, span: Span) -> Result<Seq> {
        let Some(mut rest) = seq.rest else {
            return Ok(seq);
        };
        const MAX_ITEMS: usize = 4_000_000;
        let mut items = seq.items().to_vec();
        loop {
            let Value::Seq(more) = self.force(rest)? else {
                unreachable!("the rest of a sequence is a sequence");
            };
            items.extend(more.items().iter().cloned());
            if items.len() > MAX_ITEMS {
                return self.error_help(
                    span,
                    format!("this sequence has more than {MAX_ITEMS} items"),
                    "is it infinite? Only its beginning can be used, with head, tail or patterns",
                );
            }
            match more.rest {
                Some(next) => rest = next,
                None => return Ok(Seq::new(items)),
            }
        }
    }

    /// The value with all its sequences computed and its finite sets listed, as it must be to
    /// be compared, to be in a set or to be the argument of a process.
    pub(super) fn canonical(&mut self, value: Value, span: Span) -> Result<Value> {
        Ok(match value {
            Value::Seq(seq) => {
                let seq = self.seq_full(seq, span)?;
                if seq.items().iter().all(is_canonical) {
                    return Ok(Value::Seq(seq));
                }
                let mut items = Vec::with_capacity(seq.items().len());
                for item in seq.items() {
                    items.push(self.canonical(item.clone(), span)?);
                }
                Value::Seq(Seq::new(items))
            }
            Value::Set(set) => Value::Set(self.canonical_set(&set, span)?),
            Value::Tuple(items) if !items.iter().all(is_canonical) => {
                let mut all = Vec::with_capacity(items.len());
                for item in items.iter() {
                    all.push(self.canonical(item.clone(), span)?);
                }
                Value::Tuple(all.into())
            }
            Value::Dot(items) if !items.iter().all(is_canonical) => {
                let mut all = Vec::with_capacity(items.len());
                for item in items.iter() {
                    all.push(self.canonical(item.clone(), span)?);
                }
                Value::Dot(all.into())
            }
            other => other,
        })
    }

    // Names

    pub(super) fn lookup<'e>(
        &self,
        def: DefId,
        env: &'e Env,
    ) -> Option<(&'e Slot, &'e Arc<Frame>)> {
        let mut env = env;
        while let Some(frame) = env {
            if let Some((_, slot)) = frame.slots.iter().find(|(other, _)| *other == def) {
                return Some((slot, frame));
            }
            env = &frame.parent;
        }
        None
    }

    pub(super) fn variable(&mut self, def: DefId, env: &Env, span: Span) -> Result<Value> {
        if !self.resolved.def(def).global
            && let Some((slot, frame)) = self.lookup(def, env)
        {
            let (slot, at) = (slot.clone(), Some(frame.clone()));
            return self.slot_value(def, &slot, &at);
        }
        self.global(def, span)
    }

    fn global(&mut self, def: DefId, span: Span) -> Result<Value> {
        let definition = self.resolved.def(def);
        let name = definition.name;
        match definition.kind {
            DefKind::Builtin(builtin) => self.builtin_value(builtin, span),
            DefKind::Function(_) => Ok(Value::Function(Arc::new(Function {
                code: Code::Named(def),
                arguments: Vec::new(),
                env: None,
                instance: 0,
                key: Vec::new(),
            }))),
            DefKind::Channel(_) | DefKind::Constructor(..) => {
                Ok(Value::Dot([Value::Head(def)].into()))
            }
            DefKind::Value(decl) => {
                let Decl::Pattern(pat, body) = *self.ast().decl(decl) else {
                    unreachable!("values are defined by patterns");
                };
                let whole = matches!(self.ast().pat(pat), Pat::Var(_));
                if whole && self.is_process[def.0 as usize] {
                    return self.call(CallKey::Named(def, 0, Vec::new()), &None);
                }
                let thunk = match self.globals.get(&def) {
                    Some(&thunk) => thunk,
                    None => {
                        let thunk = self.thunk(Thunk::Expr(body, None));
                        let binds = self.resolved.binds[&decl].clone();
                        for bound in binds {
                            self.globals.insert(bound, thunk);
                        }
                        self.globals.insert(def, thunk);
                        thunk
                    }
                };
                match whole {
                    true => self.force(thunk),
                    false => self.part(def, thunk),
                }
            }
            DefKind::Datatype(_) => Ok(Value::Set(Arc::new(Set::Datatype(def)))),
            DefKind::Nametype(decl) => {
                if let Some(&thunk) = self.globals.get(&def) {
                    return self.force(thunk);
                }
                let Decl::Nametype(_, _, body) = *self.ast().decl(decl) else {
                    unreachable!("nametypes are declared as such");
                };
                let sets = self.field_sets(body)?;
                let set = match sets.len() {
                    1 => sets[0].clone(),
                    _ => Arc::new(Set::Dots(sets)),
                };
                let value = Value::Set(set);
                let thunk = self.thunk(Thunk::Done(value.clone()));
                self.globals.insert(def, thunk);
                Ok(value)
            }
            DefKind::Subtype(decl) => self.subtype(decl, span),
            DefKind::Local => {
                let name = self.ast().name(name).to_owned();
                self.error(span, format!("`{name}` has no value here"))
            }
        }
    }

    // Expressions

    pub(super) fn eval(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        self.depth += 1;
        if self.depth > self.max_depth {
            self.depth -= 1;
            return self.too_deep(id);
        }
        let result = self.eval_node(id, env);
        self.depth -= 1;
        result
    }

    #[cold]
    fn too_deep(&self, id: ExprId) -> Result<Value> {
        self.error_help(
            self.span(id),
            DEPTH_MESSAGE,
            "does every recursion come to an end?",
        )
    }

    fn eval_node(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        // The node is cloned where evaluation continues in it; small nodes are cheap to clone.
        match self.ast().expr(id) {
            Expr::Int(value) => Ok(Value::Int(*value)),
            Expr::Bool(value) => Ok(Value::Bool(*value)),
            Expr::Char(value) => Ok(Value::Char(*value)),
            Expr::Str(value) => {
                let items = value.chars().map(Value::Char).collect();
                Ok(Value::Seq(Seq::new(items)))
            }
            Expr::Var(_) => {
                let def = self.resolved.expr(id).expect("every name is resolved");
                self.variable(def, env, self.span(id))
            }
            Expr::Tuple(_) => self.tuple(id, env),
            Expr::Dot(_) => self.dot(id, env),
            Expr::Items(..) => self.items(id, env),
            Expr::Comprehension(..) => self.comprehension(id, env),
            Expr::Range { .. } => self.range(id, env),
            Expr::Productions(..) => self.production_set(id, env),
            Expr::Map(_) => self.map(id, env),
            Expr::If(condition, then, other) => {
                let (condition, then, other) = (*condition, *then, *other);
                match self.boolean(condition, env)? {
                    true => self.eval(then, env),
                    false => self.eval_else(other, env),
                }
            }
            Expr::Let(_, body) => {
                let body = *body;
                let env = self.let_env(id, env);
                self.eval(body, &env)
            }
            Expr::Lambda(..) => self.lambda(id, env),
            Expr::App(function, _) => {
                let function = *function;
                self.application(id, function, env)
            }
            Expr::Unary(op, operand) => {
                let (op, operand) = (*op, *operand);
                match op {
                    UnaryOp::Not => Ok(Value::Bool(!self.boolean(operand, env)?)),
                    UnaryOp::Negate => {
                        let value = self.int(operand, env)?;
                        self.number(value.checked_neg(), id)
                    }
                    UnaryOp::Length => {
                        let seq = self.seq(operand, env)?;
                        let seq = self.seq_full(seq, self.span(operand))?;
                        Ok(Value::Int(seq.items().len() as i64))
                    }
                }
            }
            Expr::Binary(op, ..) => match op {
                BinaryOp::And
                | BinaryOp::Or
                | BinaryOp::Plus
                | BinaryOp::Minus
                | BinaryOp::Times
                | BinaryOp::Divide
                | BinaryOp::Modulo
                | BinaryOp::Concat
                | BinaryOp::Equal
                | BinaryOp::NotEqual
                | BinaryOp::Less
                | BinaryOp::LessEqual
                | BinaryOp::Greater
                | BinaryOp::GreaterEqual => self.binary(id, env),
                _ => self.process(id, env).map(Value::Process),
            },
            Expr::Wildcard | Expr::Both(..) => {
                unreachable!("the parser leaves no patterns in expressions")
            }
            _ => self.process(id, env).map(Value::Process),
        }
    }

    /// A chain of `else if` is no recursion.
    fn eval_else(&mut self, mut id: ExprId, env: &Env) -> Result<Value> {
        while let Expr::If(condition, then, other) = *self.ast().expr(id) {
            if self.boolean(condition, env)? {
                return self.eval(then, env);
            }
            id = other;
        }
        self.eval(id, env)
    }

    pub(super) fn boolean(&mut self, id: ExprId, env: &Env) -> Result<bool> {
        match self.eval(id, env)? {
            Value::Bool(value) => Ok(value),
            _ => unreachable!("the type checker allows only Booleans here"),
        }
    }

    pub(super) fn int(&mut self, id: ExprId, env: &Env) -> Result<i64> {
        match self.eval(id, env)? {
            Value::Int(value) => Ok(value),
            _ => unreachable!("the type checker allows only integers here"),
        }
    }

    pub(super) fn seq(&mut self, id: ExprId, env: &Env) -> Result<Seq> {
        match self.eval(id, env)? {
            Value::Seq(seq) => Ok(seq),
            _ => unreachable!("the type checker allows only sequences here"),
        }
    }

    pub(super) fn set(&mut self, id: ExprId, env: &Env) -> Result<Arc<Set>> {
        match self.eval(id, env)? {
            Value::Set(set) => Ok(set),
            _ => unreachable!("the type checker allows only sets here"),
        }
    }

    fn number(&self, value: Option<i64>, id: ExprId) -> Result<Value> {
        match value {
            Some(value) => Ok(Value::Int(value)),
            None => self.error_help(self.span(id), "integer overflow", "numbers have 64 bits"),
        }
    }

    fn tuple(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        let Expr::Tuple(items) = self.ast().expr(id).clone() else {
            unreachable!("called for tuples");
        };
        let mut values = Vec::with_capacity(items.len());
        for &item in &items {
            values.push(self.eval(item, env)?);
        }
        Ok(Value::Tuple(values.into()))
    }

    fn dot(&mut self, id: ExprId, env: &Env) -> Result<Value> {
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

    fn items(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        let Expr::Items(bracket, items) = self.ast().expr(id).clone() else {
            unreachable!("called for items");
        };
        let mut values = Vec::with_capacity(items.len());
        for &item in &items {
            values.push(self.eval(item, env)?);
        }
        self.collect(bracket, values, self.span(id))
    }

    fn collect(&mut self, bracket: Bracket, values: Vec<Value>, span: Span) -> Result<Value> {
        match bracket {
            Bracket::Seq => Ok(Value::Seq(Seq::new(values))),
            Bracket::Set => self.make_set(values, span),
        }
    }

    pub(super) fn make_set(&mut self, values: Vec<Value>, span: Span) -> Result<Value> {
        let mut elements = Vec::with_capacity(values.len());
        for value in values {
            elements.push(self.canonical(value, span)?);
        }
        Ok(Value::Set(Arc::new(Set::explicit(elements))))
    }

    fn map(&mut self, id: ExprId, env: &Env) -> Result<Value> {
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

    fn range(&mut self, id: ExprId, env: &Env) -> Result<Value> {
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
            if high.saturating_sub(low) > 4_000_000 {
                return self.error(self.span(id), "this range has more than 4000000 elements");
            }
            values.extend((low..=high).map(Value::Int));
        }
        match bracket {
            Bracket::Seq => Ok(Value::Seq(Seq::new(values))),
            Bracket::Set => Ok(Value::Set(Arc::new(Set::explicit(values)))),
        }
    }

    fn comprehension(&mut self, id: ExprId, env: &Env) -> Result<Value> {
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

    fn comprehension_rest(&mut self, id: ExprId, env: &Env, seq: Seq) -> Result<Value> {
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
                            let mut slots = Vec::new();
                            if self.bind(*pat, &Slot::Value(value), &env, &mut slots)? {
                                next.push(frame(slots, &env));
                            }
                        }
                    }
                }
            }
            envs = next;
        }
        Ok(envs)
    }

    fn production_set(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        let Expr::Productions(items, stmts) = self.ast().expr(id).clone() else {
            unreachable!("called for productions");
        };
        let span = self.span(id);
        let envs = match &stmts {
            None => vec![env.clone()],
            Some(stmts) => self.generate(stmts, env, Bracket::Set)?,
        };
        let mut sets = Vec::new();
        for env in envs {
            for &item in &items {
                let value = self.eval(item, &env)?;
                sets.push(self.productions(&value, span)?);
            }
        }
        Ok(Value::Set(match sets.len() {
            0 => Arc::new(Set::none()),
            1 => sets.remove(0),
            _ => Arc::new(Set::Union(sets)),
        }))
    }

    fn binary(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        let Expr::Binary(op, left, right) = *self.ast().expr(id) else {
            unreachable!("called for binary operators");
        };
        match op {
            BinaryOp::And | BinaryOp::Or => {
                // The left side is a chain; its right operands are looked at in order.
                let mut path = Vec::new();
                let mut first = id;
                while let Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) =
                    *self.ast().expr(first)
                {
                    path.push((op, right));
                    first = left;
                }
                let mut value = self.boolean(first, env)?;
                while let Some((op, right)) = path.pop() {
                    value = match (op, value) {
                        (BinaryOp::And, false) => false,
                        (BinaryOp::Or, true) => true,
                        _ => self.boolean(right, env)?,
                    };
                }
                Ok(Value::Bool(value))
            }
            BinaryOp::Plus
            | BinaryOp::Minus
            | BinaryOp::Times
            | BinaryOp::Divide
            | BinaryOp::Modulo => {
                let mut path = Vec::new();
                let mut first = id;
                while let Expr::Binary(
                    op @ (BinaryOp::Plus
                    | BinaryOp::Minus
                    | BinaryOp::Times
                    | BinaryOp::Divide
                    | BinaryOp::Modulo),
                    left,
                    right,
                ) = *self.ast().expr(first)
                {
                    path.push((op, right, first));
                    first = left;
                }
                let mut value = self.int(first, env)?;
                while let Some((op, right, whole)) = path.pop() {
                    let other = self.int(right, env)?;
                    value = match self.arithmetic(op, value, other, whole, right)? {
                        Value::Int(value) => value,
                        _ => unreachable!("arithmetic yields integers"),
                    };
                }
                Ok(Value::Int(value))
            }
            BinaryOp::Concat => {
                let mut parts = Vec::new();
                let mut first = id;
                while let Expr::Binary(BinaryOp::Concat, left, right) = *self.ast().expr(first) {
                    parts.push(right);
                    first = left;
                }
                let mut value = self.seq(first, env)?;
                while let Some(right) = parts.pop() {
                    value = self.concat(value, right, env)?;
                }
                Ok(Value::Seq(value))
            }
            BinaryOp::Equal | BinaryOp::NotEqual => {
                let a = self.eval(left, env)?;
                let b = self.eval(right, env)?;
                let equal = self.equal(a, b, self.span(id))?;
                Ok(Value::Bool(equal == (op == BinaryOp::Equal)))
            }
            _ => {
                let a = self.eval(left, env)?;
                let b = self.eval(right, env)?;
                let order = self.compare(a, b, self.span(id))?;
                use std::cmp::Ordering::*;
                Ok(Value::Bool(match op {
                    BinaryOp::Less => order == Some(Less),
                    BinaryOp::LessEqual => matches!(order, Some(Less | Equal)),
                    BinaryOp::Greater => order == Some(Greater),
                    _ => matches!(order, Some(Greater | Equal)),
                }))
            }
        }
    }

    fn concat(&mut self, left: Seq, right: ExprId, env: &Env) -> Result<Seq> {
        // A right side that is at hand is taken at once, any other when it is needed.
        let value = match self.at_hand(right, env) {
            Some(Slot::Value(Value::Seq(seq))) if left.rest.is_none() => {
                let mut items = left.items().to_vec();
                items.extend(seq.items().iter().cloned());
                return Ok(Seq::with_rest(items, seq.rest));
            }
            Some(Slot::Thunk(thunk)) => self.append(left, thunk)?,
            _ => {
                let simple = matches!(self.ast().expr(right), Expr::Items(..) | Expr::Str(_));
                if simple && left.rest.is_none() {
                    let seq = self.seq(right, env)?;
                    let mut items = left.items().to_vec();
                    items.extend(seq.items().iter().cloned());
                    return Ok(Seq::with_rest(items, seq.rest));
                }
                let thunk = self.thunk(Thunk::Expr(right, env.clone()));
                self.append(left, thunk)?
            }
        };
        match value {
            Value::Seq(seq) => Ok(seq),
            _ => unreachable!("sequences concatenate to sequences"),
        }
    }

    fn arithmetic(&self, op: BinaryOp, a: i64, b: i64, id: ExprId, right: ExprId) -> Result<Value> {
        if b == 0 && matches!(op, BinaryOp::Divide | BinaryOp::Modulo) {
            return self.error(self.span(right), "division by zero");
        }
        let value = match op {
            BinaryOp::Plus => a.checked_add(b),
            BinaryOp::Minus => a.checked_sub(b),
            BinaryOp::Times => a.checked_mul(b),
            // Rounded towards minus infinity, as FDR does.
            BinaryOp::Divide => {
                a.checked_div(b)
                    .map(|quotient| match a % b != 0 && (a < 0) != (b < 0) {
                        true => quotient - 1,
                        false => quotient,
                    })
            }
            _ => a
                .checked_rem(b)
                .map(|rest| match rest != 0 && (rest < 0) != (b < 0) {
                    true => rest + b,
                    false => rest,
                }),
        };
        self.number(value, id)
    }

    pub(super) fn equal(&mut self, a: Value, b: Value, span: Span) -> Result<bool> {
        let a = self.listed(a, span)?;
        let b = self.listed(b, span)?;
        Ok(a == b)
    }

    /// Canonical, and `Events` without some events listed too.
    fn listed(&mut self, value: Value, span: Span) -> Result<Value> {
        let value = self.canonical(value, span)?;
        Ok(match value {
            Value::Set(set) if matches!(*set, Set::AllEventsBut(_)) => {
                Value::Set(Arc::new(Set::Explicit(self.elements(&set, span)?)))
            }
            other => other,
        })
    }

    /// Numbers by size, sequences by prefix, sets by inclusion, tuples by their first
    /// difference; none if neither is less.
    fn compare(&mut self, a: Value, b: Value, span: Span) -> Result<Option<std::cmp::Ordering>> {
        use std::cmp::Ordering::*;
        let a = self.listed(a, span)?;
        let b = self.listed(b, span)?;
        Ok(match (&a, &b) {
            (Value::Seq(x), Value::Seq(y)) => {
                let (x, y) = (x.items(), y.items());
                match x.len().cmp(&y.len()) {
                    Equal if x == y => Some(Equal),
                    Less if y.starts_with(x) => Some(Less),
                    Greater if x.starts_with(y) => Some(Greater),
                    _ => None,
                }
            }
            (Value::Set(x), Value::Set(y)) => {
                let x = self.elements(x, span)?;
                let y = self.elements(y, span)?;
                let inside =
                    |p: &[Value], q: &[Value]| p.iter().all(|v| q.binary_search(v).is_ok());
                match (inside(&x, &y), inside(&y, &x)) {
                    (true, true) => Some(Equal),
                    (true, false) => Some(Less),
                    (false, true) => Some(Greater),
                    (false, false) => None,
                }
            }
            (Value::Tuple(x), Value::Tuple(y)) => {
                for (p, q) in x.iter().zip(y.iter()) {
                    match self.compare(p.clone(), q.clone(), span)? {
                        Some(Equal) => {}
                        other => return Ok(other),
                    }
                }
                Some(Equal)
            }
            _ => Some(a.cmp(&b)),
        })
    }

    // Functions

    fn lambda(&mut self, id: ExprId, env: &Env) -> Result<Value> {
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
                        (Err(_), Slot::Thunk(thunk) | Slot::Part(thunk)) => Value::Opaque(thunk.0),
                        (Err(_), _) => Value::Opaque(u32::MAX),
                    }
                }
                None => Value::Opaque(u32::MAX),
            };
            values.push(value);
        }
        values
    }

    pub(super) fn let_env(&mut self, id: ExprId, env: &Env) -> Env {
        let Expr::Let(decls, _) = self.ast().expr(id).clone() else {
            unreachable!("called for let");
        };
        let mut slots = Vec::new();
        let mut pending = Vec::new();
        for decl in decls {
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
                                false => Slot::Part(thunk),
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
    fn local_definition(&mut self, def: DefId, at: &Env) -> Result<Value> {
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

    fn application(&mut self, id: ExprId, function: ExprId, env: &Env) -> Result<Value> {
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
            Code::Lambda(_) => false,
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
    fn at_hand(&mut self, id: ExprId, env: &Env) -> Option<Slot> {
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
                    Slot::Definition | Slot::Part(_) => None,
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
            Code::Lambda(id) => {
                let Expr::Lambda(pats, body) = self.ast().expr(id).clone() else {
                    unreachable!("lambdas are lambda expressions");
                };
                let mut slots = Vec::new();
                for (&pat, slot) in pats.iter().zip(&arguments) {
                    if !self.bind(pat, slot, &function.env, &mut slots)? {
                        return self.no_match("this function", &arguments, span);
                    }
                }
                let env = frame(slots, &function.env);
                self.eval(body, &env)
            }
            Code::Named(def) => self.apply_named(def, function, arguments, span),
        }
    }

    fn plain(&mut self, slot: &Slot) -> Result<Value> {
        match slot {
            Slot::Value(value) => Ok(value.clone()),
            Slot::Thunk(thunk) => self.force(*thunk),
            Slot::Definition | Slot::Part(_) => unreachable!("arguments are values or thunks"),
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

const DEPTH_MESSAGE: &str = "this recursion is too deep";

fn is_depth_error(error: &Error) -> bool {
    error.message == DEPTH_MESSAGE
}

/// Whether a value has no lazy sequence or symbolic set in it.
fn is_canonical(value: &Value) -> bool {
    match value {
        Value::Seq(seq) => seq.rest.is_none() && seq.items().iter().all(is_canonical),
        Value::Set(set) => matches!(**set, Set::Explicit(_) | Set::AllEventsBut(_)),
        Value::Tuple(items) | Value::Dot(items) => items.iter().all(is_canonical),
        _ => true,
    }
}
