//! The evaluator: environments, thunks, and what each kind of expression is.
//!
//! `collections`, `operators` and `application` have the larger kinds.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::budget::{LargeValue, Limits};
use super::channels::Numbering;
use super::closures::Closures;
use super::process::CallBody;
use super::set::Set;
use super::value::{Code, Env, Frame, Function, Seq, Slot, ThunkId, Value};
use crate::diagnostic::{Diagnostic, Stage};
use crate::event::EventId;
use crate::process::{CallId, ProcId, Processes};
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
    /// A tuple whose parts a pattern has looked at one by one.
    Tuple(Vec<ThunkId>),
    /// Being computed, from this expression if it is known.
    Busy(Option<ExprId>),
    Done(Value),
    Failed(Error),
}

/// What a process is known by, so that the same process is the same call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum CallKey {
    Named(DefId, u32, Vec<Value>),
    /// A lambda expression, its captured values by their number, and its arguments.
    Lambda(ExprId, u32, Vec<Value>),
    Body(ExprId, Vec<Value>),
    Buffer(i64, Arc<Set>, Vec<Value>),
    Loop(ProcId),
    TimedStop(EventId),
    TimedSkip(EventId),
    /// A prefix in a timed section, with the values of the variables that it uses.
    TimedPrefix(ExprId, Vec<Value>),
}

pub struct Evaluator {
    pub(super) resolved: Resolved,
    pub(super) closures: Closures,
    /// By definition: it is a process, or a function that yields one when it has all the
    /// groups of arguments that it is defined with.
    pub(super) is_process: Vec<bool>,
    pub(super) process_lambdas: FxHashSet<ExprId>,
    pub(super) thunks: Vec<Thunk>,
    pub(super) globals: FxHashMap<DefId, ThunkId>,
    pub(super) depth: u32,
    pub(super) max_depth: u32,
    /// What evaluation may spend, from the budget of the check that it belongs to.
    pub limits: Limits,
    // Units of work since the budget was last looked at.
    pub(super) since: usize,
    // Large values that were computed, by their address; some may be dropped by now.
    pub(super) large: FxHashMap<usize, LargeValue>,
    // Their elements; those of dropped ones are counted until the next look.
    pub(super) large_elements: usize,
    // Elements of the sets and sequences that processes are called with.
    pub(super) argument_elements: usize,
    // Environments that generators are listing.
    pub(super) listed_environments: usize,
    /// All channels in the order of their declaration.
    pub(super) channels: Vec<DefId>,
    pub(super) fields: FxHashMap<DefId, Arc<Vec<Arc<Set>>>>,
    /// By datatype: whether it has finitely many values.
    pub(super) finite: FxHashMap<DefId, bool>,
    pub(super) numbering: Numbering,
    pub(super) processes: Processes,
    pub(super) calls: FxHashMap<CallKey, CallId>,
    pub(super) bodies: FxHashMap<CallId, CallBody>,
    pub(super) instances: FxHashMap<(ExprId, Vec<Value>), u32>,
    pub(super) simple: FxHashMap<ExprId, bool>,
    /// Prefixes with many inputs, by the values of the variables that they use.
    pub(super) input_prefixes: FxHashMap<(ExprId, Vec<Value>), ProcId>,
    /// The last error of an unfolding; the engine only carries its text.
    pub last_error: Option<Error>,
}

impl Evaluator {
    pub fn new(resolved: Resolved, mut typed: Typed) -> Evaluator {
        let is_process = (0..resolved.defs.len())
            .map(|index| typed.is_process(DefId(index as u32), &resolved))
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
            process_lambdas: typed.process_lambdas(),
            thunks: Vec::new(),
            globals: FxHashMap::default(),
            depth: 0,
            max_depth: MAX_DEPTH,
            limits: Limits::default(),
            since: 0,
            large: FxHashMap::default(),
            large_elements: 0,
            argument_elements: 0,
            listed_environments: 0,
            channels,
            fields: FxHashMap::default(),
            finite: FxHashMap::default(),
            numbering: Numbering::default(),
            processes: Processes::new(),
            calls: FxHashMap::default(),
            bodies: FxHashMap::default(),
            instances: FxHashMap::default(),
            simple: FxHashMap::default(),
            input_prefixes: FxHashMap::default(),
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
                // A failure for want of depth may succeed later from a shallower place, one for
                // want of budget in another check.
                if let Err(error) = &result
                    && (self.depth > 0 && is_depth_error(error) || error.stage == Stage::Budget)
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
            Thunk::Tuple(items) => items
                .into_iter()
                .map(|item| self.force(item))
                .collect::<Result<Vec<Value>>>()
                .map(|items| Value::Tuple(items.into())),
            Thunk::Busy(expr) => self.error_help(
                expr.map(|expr| self.span(expr)).unwrap_or_default(),
                "this definition needs its own value",
                "a value cannot be computed from itself",
            ),
            Thunk::Done(_) | Thunk::Failed(_) => unreachable!("returned above"),
        };
        if let Ok(value) = &result {
            self.note_large(value);
        }
        self.thunks[index] = match &result {
            Ok(value) => Thunk::Done(value.clone()),
            Err(error) => Thunk::Failed(error.clone()),
        };
        result
    }

    /// The parts of a tuple that is not computed yet, each with a thunk of its own, so that a
    /// pattern computes only what it looks at. None if the thunk is anything else.
    pub(super) fn open_tuple(&mut self, id: ThunkId) -> Option<Vec<ThunkId>> {
        let (items, env) = match &self.thunks[id.0 as usize] {
            Thunk::Tuple(items) => return Some(items.clone()),
            Thunk::Expr(expr, env) => match self.ast().expr(*expr) {
                Expr::Tuple(items) => (items.clone(), env.clone()),
                _ => return None,
            },
            _ => return None,
        };
        let mut parts = Vec::with_capacity(items.len());
        for &item in &items {
            parts.push(match self.at_hand(item, &env) {
                Some(Slot::Thunk(thunk)) => thunk,
                Some(Slot::Value(value)) => self.thunk(Thunk::Done(value)),
                _ => self.thunk(Thunk::Expr(item, env.clone())),
            });
        }
        let items = parts;
        self.thunks[id.0 as usize] = Thunk::Tuple(items.clone());
        Some(items)
    }

    /// Whether a thunk has its value already.
    pub(super) fn is_done(&self, id: ThunkId) -> bool {
        matches!(self.thunks[id.0 as usize], Thunk::Done(_))
    }

    fn concat_rest(&mut self, first: ThunkId, second: ThunkId) -> Result<Value> {
        let Value::Seq(seq) = self.force(first)? else {
            unreachable!("the type checker allows only sequences here");
        };
        self.append(seq, second)
    }

    /// `seq` followed by the sequence that `then` stands for.
    pub(super) fn append(&mut self, seq: Seq, then: ThunkId) -> Result<Value> {
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
            Slot::Part(thunk, pat) => self.part(def, *thunk, *pat),
        }
    }

    /// A variable in the pattern of a definition.
    fn part(&mut self, def: DefId, thunk: ThunkId, pat: PatId) -> Result<Value> {
        let mut found = Vec::new();
        if self.open_tuple(thunk).is_none() {
            self.force(thunk)?;
        }
        if !self.bind(pat, &Slot::Thunk(thunk), &None, &mut found)? {
            let value = self.force(thunk)?;
            let shown = self.show(&value);
            return self.error(
                self.ast().pat_span(pat),
                format!("the value {shown} does not match the pattern"),
            );
        }
        let slot = found.into_iter().find(|(other, _)| *other == def);
        let (_, slot) = slot.expect("the pattern binds its variables");
        self.slot_value(def, &slot, &None)
    }

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
            DefKind::Builtin(builtin) => Ok(self.builtin_value(builtin)),
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
                    false => self.part(def, thunk, pat),
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
        let result = match self.work(1, self.span(id)) {
            Ok(()) => self.eval_node(id, env),
            Err(spent) => Err(spent),
        };
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
                if let DefKind::Builtin(builtin) = self.resolved.def(def).kind
                    && let Some(value) = self.timed_builtin(builtin, id)?
                {
                    return Ok(value);
                }
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
            Expr::Binary(
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
                | BinaryOp::GreaterEqual,
                ..,
            ) => self.binary(id, env),
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

    pub(super) fn number(&self, value: Option<i64>, id: ExprId) -> Result<Value> {
        match value {
            Some(value) => Ok(Value::Int(value)),
            None => self.error_help(self.span(id), "integer overflow", "numbers have 64 bits"),
        }
    }
}

const DEPTH_MESSAGE: &str = "this recursion is too deep";

fn is_depth_error(error: &Error) -> bool {
    error.message == DEPTH_MESSAGE
}
