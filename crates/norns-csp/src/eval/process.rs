//! Process expressions to process terms.

use super::machine::{CallKey, Error, Evaluator, Result};
use super::set::Set;
use super::timed::with_tock;
use super::value::{Env, Slot, Value};
use crate::event::{EventId, EventSet, Renaming};
use crate::process::{CallId, Definitions, ProcId, Processes, UnfoldError};
use crate::resolve::{DefId, DefKind};
use crate::syntax::ast::*;
use crate::syntax::source::Span;

// A prefix with this many inputs is evaluated once for the same values of its variables: the cells
// of a memory, say, all take the same new values. With fewer inputs, to remember it costs more.
const MANY_INPUTS: usize = 16;

/// What a call stands for.
#[derive(Clone, Debug)]
pub(super) enum CallBody {
    Named(DefId, Vec<Value>, Env),
    Lambda(ExprId, Vec<Value>, Env),
    Body(ExprId, Env),
    Buffer(i64, std::sync::Arc<Set>, Vec<Value>),
    Loop(ProcId),
    TimedStop(EventId),
    TimedSkip(EventId),
    TimedPrefix(ExprId, Env),
}

impl Evaluator {
    /// The process with this identity; a new one remembers the environment it is made in.
    pub(super) fn call(&mut self, key: CallKey, env: &Env) -> Result<Value> {
        let call = match self.calls.get(&key) {
            Some(&call) => call,
            None => {
                let call = self.processes.new_call(None);
                let body = match &key {
                    CallKey::Named(def, _, arguments) => {
                        CallBody::Named(*def, arguments.clone(), env.clone())
                    }
                    CallKey::Lambda(expr, _, arguments) => {
                        CallBody::Lambda(*expr, arguments.clone(), env.clone())
                    }
                    CallKey::Body(expr, _) => CallBody::Body(*expr, env.clone()),
                    CallKey::Buffer(bound, pairs, contents) => {
                        CallBody::Buffer(*bound, pairs.clone(), contents.clone())
                    }
                    CallKey::Loop(process) => CallBody::Loop(*process),
                    CallKey::TimedStop(tock) => CallBody::TimedStop(*tock),
                    CallKey::TimedSkip(tock) => CallBody::TimedSkip(*tock),
                    CallKey::TimedPrefix(expr, _) => CallBody::TimedPrefix(*expr, env.clone()),
                };
                if let CallKey::Named(_, _, values)
                | CallKey::Lambda(_, _, values)
                | CallKey::Body(_, values)
                | CallKey::TimedPrefix(_, values) = &key
                {
                    self.argument_elements += values.iter().map(Value::elements).sum::<usize>();
                }
                self.bodies.insert(call, body);
                self.calls.insert(key, call);
                call
            }
        };
        Ok(Value::Process(self.processes.call(call)))
    }

    /// The same as a term.
    pub(super) fn call_process(&mut self, key: CallKey, env: &Env) -> Result<ProcId> {
        match self.call(key, env)? {
            Value::Process(process) => Ok(process),
            _ => unreachable!("calls are processes"),
        }
    }

    /// A process expression as a term. Prefixes, guards and branches are followed in a loop.
    pub(super) fn process(&mut self, id: ExprId, env: &Env) -> Result<ProcId> {
        let mut events: Vec<EventId> = Vec::new();
        let mut id = id;
        let mut env = env.clone();
        let end = loop {
            match self.ast().expr(id) {
                Expr::Prefix {
                    event,
                    fields,
                    body,
                } => {
                    let (event, body) = (*event, *body);
                    if self.resolved.section(id).is_some() {
                        break self.timed_prefix(id, &env)?;
                    }
                    if fields.is_empty() {
                        events.push(self.output_event(event, &[], &env)?.0);
                        id = body;
                        continue;
                    }
                    let fields = fields.clone();
                    if fields.iter().all(|f| matches!(f, Field::Output(_))) {
                        events.push(self.output_event(event, &fields, &env)?.0);
                        id = body;
                        continue;
                    }
                    let settled = self.settled(id, &env).map(|values| (id, values));
                    if let Some(key) = &settled
                        && let Some(&known) = self.input_prefixes.get(key)
                    {
                        break known;
                    }
                    let process = self.input_prefix(event, &fields, body, &env, None)?;
                    if let Some(key) = settled
                        && self.processes.alternatives(process) >= MANY_INPUTS
                    {
                        self.input_prefixes.insert(key, process);
                    }
                    break process;
                }
                Expr::Binary(BinaryOp::Guard, condition, process) => {
                    let (condition, process) = (*condition, *process);
                    if !self.boolean(condition, &env)? {
                        break match self.tock(id)? {
                            Some(tock) => self.timed_stop(tock)?,
                            None => self.processes.stop(),
                        };
                    }
                    id = process;
                }
                Expr::If(condition, then, other) => {
                    let (condition, then, other) = (*condition, *then, *other);
                    id = match self.boolean(condition, &env)? {
                        true => then,
                        false => other,
                    };
                }
                Expr::Let(_, body) => {
                    let body = *body;
                    env = self.let_env(id, &env);
                    id = body;
                }
                Expr::Binary(..)
                | Expr::WithSet { .. }
                | Expr::Alphabetised { .. }
                | Expr::Link { .. }
                | Expr::Rename { .. } => break self.operators(id, &env)?,
                Expr::Replicated { .. } => break self.replicated(id, &env)?,
                _ => match self.eval(id, &env)? {
                    Value::Process(process) => break process,
                    _ => unreachable!("the type checker allows only processes here"),
                },
            }
        };
        Ok(self.processes.prefixes(&events, end))
    }

    pub(super) fn deeper(&mut self, id: ExprId, env: &Env) -> Result<ProcId> {
        match self.eval(id, env)? {
            Value::Process(process) => Ok(process),
            _ => unreachable!("the type checker allows only processes here"),
        }
    }

    /// Operators that are chained on their left side are folded in a loop.
    fn operators(&mut self, id: ExprId, env: &Env) -> Result<ProcId> {
        let mut path = Vec::new();
        let mut first = id;
        loop {
            let left = match self.ast().expr(first) {
                Expr::Binary(BinaryOp::Guard, ..) => break,
                Expr::Binary(_, left, _)
                | Expr::WithSet { left, .. }
                | Expr::Alphabetised { left, .. }
                | Expr::Link { left, .. }
                | Expr::Rename { process: left, .. } => *left,
                _ => break,
            };
            path.push(first);
            first = left;
        }
        let tock = self.tock(id)?;
        let mut left = self.deeper(first, env)?;
        // Equal neighbours of an associative operator become one term.
        let mut open: Option<(BinaryOp, Vec<ProcId>)> = None;
        while let Some(node) = path.pop() {
            let node = self.ast().expr(node).clone();
            if let Expr::Binary(
                op @ (BinaryOp::ExternalChoice | BinaryOp::InternalChoice | BinaryOp::Interleave),
                _,
                right,
            ) = node
            {
                let right = self.deeper(right, env)?;
                match &mut open {
                    Some((other, list)) if *other == op => list.push(right),
                    _ => {
                        left = self.close(&mut open, left, tock);
                        open = Some((op, vec![left, right]));
                    }
                }
                continue;
            }
            left = self.close(&mut open, left, tock);
            left = self.operator(&node, left, tock, env)?;
        }
        Ok(self.close(&mut open, left, tock))
    }

    fn close(
        &mut self,
        open: &mut Option<(BinaryOp, Vec<ProcId>)>,
        left: ProcId,
        tock: Option<EventId>,
    ) -> ProcId {
        match open.take() {
            Some((BinaryOp::ExternalChoice, list)) => self.choice(list, tock),
            Some((BinaryOp::InternalChoice, list)) => self.processes.internal_choice(list),
            Some((_, list)) => self.interleaving(list, tock),
            None => left,
        }
    }

    pub(super) fn choice(&mut self, list: Vec<ProcId>, tock: Option<EventId>) -> ProcId {
        match tock {
            Some(tock) => self.processes.sync_choice(list, EventSet::only([tock])),
            None => self.processes.external_choice(list),
        }
    }

    pub(super) fn interleaving(&mut self, list: Vec<ProcId>, tock: Option<EventId>) -> ProcId {
        match tock {
            Some(tock) => self.processes.parallel(list, EventSet::only([tock])),
            None => self.processes.interleave(list),
        }
    }

    /// `tock` is the event that counts time if the operator stands in a timed section.
    fn operator(
        &mut self,
        node: &Expr,
        left: ProcId,
        tock: Option<EventId>,
        env: &Env,
    ) -> Result<ProcId> {
        Ok(match node {
            Expr::Binary(BinaryOp::Hide, _, set) => {
                let events = self.event_set(*set, env)?;
                self.processes.hide(left, events)
            }
            Expr::Binary(BinaryOp::Project, _, set) => {
                let events = self.event_set(*set, env)?;
                self.processes.project(left, events)
            }
            Expr::Binary(op, _, right) => {
                let right = self.deeper(*right, env)?;
                match op {
                    BinaryOp::Interrupt => match tock {
                        Some(tock) => {
                            let events = EventSet::only([tock]);
                            self.processes.sync_interrupt(left, events, right)
                        }
                        None => self.processes.interrupt(left, right),
                    },
                    BinaryOp::Sliding => self.processes.sliding(left, right),
                    _ => self.processes.sequence(left, right),
                }
            }
            Expr::WithSet { op, set, right, .. } => {
                let events = self.event_set(*set, env)?;
                let right = self.deeper(*right, env)?;
                let events = match op {
                    SetOp::Exception => events,
                    _ => with_tock(events, tock),
                };
                match op {
                    SetOp::Parallel => self.processes.parallel(vec![left, right], events),
                    SetOp::Exception => self.processes.exception(left, events, right),
                    SetOp::SyncChoice => self.processes.sync_choice(vec![left, right], events),
                    SetOp::SyncInterrupt => self.processes.sync_interrupt(left, events, right),
                }
            }
            Expr::Alphabetised {
                left_set,
                right_set,
                right,
                ..
            } => {
                let left_events = with_tock(self.event_set(*left_set, env)?, tock);
                let right_events = with_tock(self.event_set(*right_set, env)?, tock);
                let right = self.deeper(*right, env)?;
                self.processes
                    .alphabetised(vec![(left_events, left), (right_events, right)])
            }
            Expr::Link {
                ties, stmts, right, ..
            } => {
                let pairs = self.event_pairs(ties, stmts, env)?;
                let right = self.deeper(*right, env)?;
                self.link(left, &pairs, right, self.span(ties[0].0))?
            }
            Expr::Rename { pairs, stmts, .. } => {
                let runs = self.renamed_runs(pairs, stmts, env)?;
                self.processes.rename(left, Renaming::of_runs(runs))
            }
            _ => unreachable!("only these are on the path of operators"),
        })
    }

    pub(super) fn link(
        &mut self,
        left: ProcId,
        pairs: &[(EventId, EventId)],
        right: ProcId,
        span: Span,
    ) -> Result<ProcId> {
        let mut lefts: Vec<EventId> = pairs.iter().map(|pair| pair.0).collect();
        let mut rights: Vec<EventId> = pairs.iter().map(|pair| pair.1).collect();
        lefts.sort_unstable();
        rights.sort_unstable();
        for side in [&lefts, &rights] {
            if let Some(twice) = side.windows(2).find(|pair| pair[0] == pair[1]) {
                let name = self.processes.events.name(twice[0]).into_owned();
                return self.error_help(
                    span,
                    format!("the event {name} is linked twice"),
                    "in a linked parallel each event has one partner",
                );
            }
        }
        Ok(self.processes.linked(left, pairs, right))
    }

    pub(super) fn event_set(&mut self, id: ExprId, env: &Env) -> Result<EventSet> {
        let span = self.span(id);
        let set = self.set(id, env)?;
        self.events_in(&set, span)
    }

    pub(super) fn events_in(&mut self, set: &Set, span: Span) -> Result<EventSet> {
        match set {
            Set::Events(events) => return Ok(events.clone()),
            Set::Union(parts) => {
                let mut events = EventSet::empty();
                for part in parts {
                    events = events.union(&self.events_in(part, span)?);
                }
                return Ok(events);
            }
            _ => {}
        }
        let mut events = Vec::new();
        for value in self.elements(set, span)? {
            events.push(self.event(&value, span)?);
        }
        Ok(EventSet::only(events))
    }

    /// The events of a set one by one, for operators that need them listed.
    pub(super) fn listed_events(&mut self, set: &Set, span: Span) -> Result<EventSet> {
        if let Set::Events(events @ EventSet::Only(_)) = set {
            return Ok(events.clone());
        }
        let mut events = Vec::new();
        for value in self.elements(set, span)? {
            events.push(self.event(&value, span)?);
        }
        Ok(EventSet::only(events))
    }

    fn unfold_body(&mut self, body: CallBody) -> Result<ProcId> {
        match body {
            CallBody::Body(expr, env) => self.process(expr, &env),
            CallBody::Named(def, arguments, env) => match self.resolved.def(def).kind {
                DefKind::Function(decl) => {
                    let span = self.resolved.def(def).span;
                    let slots: Vec<Slot> = arguments.into_iter().map(Slot::Value).collect();
                    let (body, env) = self.choose_clause(def, decl, &slots, &env, span)?;
                    self.process(body, &env)
                }
                DefKind::Value(decl) => {
                    let Decl::Pattern(_, body) = *self.ast().decl(decl) else {
                        unreachable!("values are defined by patterns");
                    };
                    self.process(body, &env)
                }
                _ => unreachable!("only functions and values are called"),
            },
            CallBody::Lambda(id, arguments, env) => {
                let slots: Vec<Slot> = arguments.into_iter().map(Slot::Value).collect();
                let (body, env) = self.enter_lambda(id, &slots, &env, self.span(id))?;
                self.process(body, &env)
            }
            CallBody::Buffer(bound, pairs, contents) => self.unfold_buffer(bound, pairs, contents),
            CallBody::TimedStop(tock) => {
                let again = self.timed_stop(tock)?;
                Ok(self.processes.prefix(tock, again))
            }
            CallBody::TimedSkip(tock) => {
                let again = self.timed_skip(tock)?;
                let wait = self.processes.prefix(tock, again);
                let skip = self.processes.skip();
                Ok(self.processes.external_choice(vec![wait, skip]))
            }
            CallBody::TimedPrefix(expr, env) => self.unfold_timed_prefix(expr, &env),
            CallBody::Loop(process) => {
                let Value::Process(again) = self.call(CallKey::Loop(process), &None)? else {
                    unreachable!("calls are processes");
                };
                Ok(self.processes.sequence(process, again))
            }
        }
    }

    fn unfold_buffer(
        &mut self,
        bound: i64,
        pairs: std::sync::Arc<Set>,
        contents: Vec<Value>,
    ) -> Result<ProcId> {
        let span = Span::default();
        let mut choices = Vec::new();
        if (contents.len() as i64) < bound {
            for pair in self.elements(&pairs, span)? {
                let Value::Tuple(pair) = pair else {
                    unreachable!("the type checker allows only pairs here");
                };
                let input = self.event(&pair[0], span)?;
                let mut longer = contents.clone();
                longer.push(pair[1].clone());
                let key = CallKey::Buffer(bound, pairs.clone(), longer);
                let Value::Process(then) = self.call(key, &None)? else {
                    unreachable!("calls are processes");
                };
                choices.push(self.processes.prefix(input, then));
            }
        }
        if let Some((first, rest)) = contents.split_first() {
            let output = self.event(first, span)?;
            let key = CallKey::Buffer(bound, pairs, rest.to_vec());
            let Value::Process(then) = self.call(key, &None)? else {
                unreachable!("calls are processes");
            };
            choices.push(self.processes.prefix(output, then));
        }
        Ok(self.processes.external_choice(choices))
    }

    /// Evaluates an expression that is a process, with the terms in `processes`.
    pub fn process_of(
        &mut self,
        id: ExprId,
        processes: &mut Processes,
    ) -> std::result::Result<ProcId, Error> {
        std::mem::swap(&mut self.processes, processes);
        let result = self.process(id, &None);
        std::mem::swap(&mut self.processes, processes);
        result
    }

    /// Evaluates an expression that is an event.
    pub fn event_of(
        &mut self,
        id: ExprId,
        processes: &mut Processes,
    ) -> std::result::Result<EventId, Error> {
        std::mem::swap(&mut self.processes, processes);
        let span = self.span(id);
        let result = self
            .eval(id, &None)
            .and_then(|value| self.event(&value, span));
        std::mem::swap(&mut self.processes, processes);
        result
    }

    /// Evaluates an expression that is a set of events.
    pub fn events_of(
        &mut self,
        id: ExprId,
        processes: &mut Processes,
    ) -> std::result::Result<EventSet, Error> {
        std::mem::swap(&mut self.processes, processes);
        let result = self.event_set(id, &None);
        std::mem::swap(&mut self.processes, processes);
        result
    }

    /// Evaluates any expression and writes its value.
    pub fn text_of(
        &mut self,
        id: ExprId,
        processes: &mut Processes,
    ) -> std::result::Result<String, Error> {
        std::mem::swap(&mut self.processes, processes);
        let span = self.span(id);
        let result = self
            .eval(id, &None)
            .and_then(|value| match value {
                Value::Seq(_) | Value::Tuple(_) | Value::Dot(_) => self.canonical(value, span),
                other => Ok(other),
            })
            .map(|value| self.show(&value));
        std::mem::swap(&mut self.processes, processes);
        result
    }
}

impl Definitions for Evaluator {
    fn unfold(
        &mut self,
        call: CallId,
        processes: &mut Processes,
    ) -> std::result::Result<ProcId, UnfoldError> {
        let Some(body) = self.bodies.get(&call).cloned() else {
            return Err(UnfoldError(format!(
                "call {} is not of this script",
                call.0
            )));
        };
        std::mem::swap(&mut self.processes, processes);
        let depth = std::mem::replace(&mut self.depth, 0);
        let result = self.unfold_body(body);
        self.depth = depth;
        std::mem::swap(&mut self.processes, processes);
        result.map_err(|error| {
            let message = error.message.clone();
            self.last_error = Some(error);
            UnfoldError(message)
        })
    }

    fn name(&self, call: CallId) -> Option<String> {
        match self.bodies.get(&call)? {
            CallBody::Named(def, arguments, _) => {
                let name = self.resolved.name(*def);
                if arguments.is_empty() {
                    return Some(name.to_owned());
                }
                let shown: Vec<String> = arguments
                    .iter()
                    .map(|value| shortened(self.show(value)))
                    .collect();
                Some(format!("{name}({})", shown.join(", ")))
            }
            CallBody::Buffer(_, _, contents) => {
                let shown: Vec<String> = contents.iter().map(|value| self.show(value)).collect();
                Some(format!("BUFFER<{}>", shown.join(", ")))
            }
            CallBody::TimedStop(_) => Some("STOP".into()),
            CallBody::TimedSkip(_) => Some("SKIP".into()),
            CallBody::Lambda(..)
            | CallBody::Body(..)
            | CallBody::Loop(_)
            | CallBody::TimedPrefix(..) => None,
        }
    }
}

/// An argument in the name of a process; a large set would drown everything around it.
fn shortened(shown: String) -> String {
    const LONGEST: usize = 80;
    match shown.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}
