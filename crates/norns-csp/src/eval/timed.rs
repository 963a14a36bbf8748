//! Timed sections: `Timed(f) { … }` read as tock-CSP.
//!
//! The translation is FDR4's (libcspm, `Desugar.hs` and `Evaluator/Expr.hs`), after Armstrong et
//! al. 2014. Time passes with the event `tock`, on which everything in a section synchronises:
//!
//! | written | read as |
//! | --- | --- |
//! | `STOP` | `T = tock -> T` |
//! | `SKIP` | `T = tock -> T [] SKIP` |
//! | `WAIT(n)` | n tocks, then `SKIP` as above |
//! | `e -> P` | `T = tock -> T [] e -> (f(e) tocks) -> P` |
//! | `P [] Q`, `P /\ Q` | the same, with tock synchronised: it resolves no choice |
//! | `P \|\|\| Q`, `P [\|A\|] Q`, `P [A\|\|B] Q` | tock is added to the synchronised events |
//! | `false & P`, an empty choice or parallel | `STOP` as above |
//! | an empty sequence `; x:<> @ P` | `SKIP` as above |
//! | `timed_priority(P)` | `prioritise(P, <{}, {tock}>)` |
//!
//! All other operators mean what they mean elsewhere. `$` and linked parallel are refused, as
//! FDR does.

use std::sync::Arc;

use super::machine::{CallKey, Evaluator, Result};
use super::value::{Code, Env, Function, Slot, Value};
use crate::builtin::Builtin;
use crate::event::{EventId, EventSet, Priority};
use crate::process::ProcId;
use crate::syntax::ast::*;
use crate::syntax::source::Span;

/// The section around a prefix: its tock, and how long events last.
#[derive(Clone)]
pub(super) struct Clock {
    pub tock: EventId,
    pub duration: Option<ExprId>,
}

/// A set of synchronised events with the tock of the section, if there is one.
pub(super) fn with_tock(events: EventSet, tock: Option<EventId>) -> EventSet {
    match tock {
        None => events,
        Some(tock) => events.union(&EventSet::only([tock])),
    }
}

impl Evaluator {
    /// The event that counts time at an expression; none outside of timed sections.
    pub(super) fn tock(&mut self, id: ExprId) -> Result<Option<EventId>> {
        Ok(self.clock(id)?.map(|clock| clock.tock))
    }

    pub(super) fn clock(&mut self, id: ExprId) -> Result<Option<Clock>> {
        let Some(section) = self.resolved.section(id).copied() else {
            return Ok(None);
        };
        let span = self.span(id);
        let tock = self.event(&Value::Dot([Value::Head(section.tock)].into()), span)?;
        Ok(Some(Clock {
            tock,
            duration: section.duration,
        }))
    }

    /// What a built-in is in a timed section; none if it is the same as elsewhere.
    pub(super) fn timed_builtin(&mut self, builtin: Builtin, id: ExprId) -> Result<Option<Value>> {
        let Some(section) = self.resolved.section(id).copied() else {
            return Ok(None);
        };
        let tock = Value::Dot([Value::Head(section.tock)].into());
        let span = self.span(id);
        Ok(Some(match builtin {
            Builtin::STOP => {
                let tock = self.event(&tock, span)?;
                Value::Process(self.timed_stop(tock)?)
            }
            Builtin::SKIP => {
                let tock = self.event(&tock, span)?;
                Value::Process(self.timed_skip(tock)?)
            }
            // The tock of the section is an argument that the function already has.
            Builtin::WAIT | Builtin::timed_priority => Value::Function(Arc::new(Function {
                code: Code::Builtin(builtin),
                arguments: Vec::new(),
                env: None,
                instance: 0,
                key: vec![tock],
            })),
            _ => return Ok(None),
        }))
    }

    pub(super) fn timed_stop(&mut self, tock: EventId) -> Result<ProcId> {
        self.call_process(CallKey::TimedStop(tock), &None)
    }

    pub(super) fn timed_skip(&mut self, tock: EventId) -> Result<ProcId> {
        self.call_process(CallKey::TimedSkip(tock), &None)
    }

    /// `WAIT(n)` with the tock that its function carries.
    pub(super) fn wait(&mut self, function: &Function, time: &Value, span: Span) -> Result<Value> {
        let Value::Int(time) = *time else {
            unreachable!("the type checker allows only integers here");
        };
        let tock = self.event(&function.key[0], span)?;
        let end = self.timed_skip(tock)?;
        self.tocks(time, tock, end, span).map(Value::Process)
    }

    pub(super) fn timed_priority(
        &mut self,
        function: &Function,
        process: ProcId,
        span: Span,
    ) -> Result<Value> {
        let tock = self.event(&function.key[0], span)?;
        let classes = [EventSet::empty(), EventSet::only([tock])];
        let priority = Priority::Classes(classes.into());
        Ok(Value::Process(self.processes.prioritise(process, priority)))
    }

    /// So many tocks, then the process.
    fn tocks(&mut self, count: i64, tock: EventId, then: ProcId, span: Span) -> Result<ProcId> {
        if count < 0 {
            return self.error(span, format!("time cannot pass for {count} tocks"));
        }
        let mut process = then;
        for _ in 0..count {
            process = self.processes.prefix(tock, process);
        }
        Ok(process)
    }

    /// The process after an event of a timed section: the event lasts as long as the section's
    /// function says.
    pub(super) fn after(
        &mut self,
        event: &Value,
        then: ProcId,
        clock: Option<&Clock>,
        env: &Env,
        span: Span,
    ) -> Result<ProcId> {
        let Some(clock) = clock else {
            return Ok(then);
        };
        let time = match clock.duration {
            None => 1,
            Some(duration) => {
                let Value::Function(function) = self.eval(duration, env)? else {
                    unreachable!("the type checker allows only functions here");
                };
                match self.apply(&function, vec![Slot::Value(event.clone())], span)? {
                    Value::Int(time) => time,
                    _ => unreachable!("the type checker allows only integers here"),
                }
            }
        };
        self.tocks(time, clock.tock, then, span)
    }

    /// A prefix in a timed section waits for its events as long as it takes.
    pub(super) fn timed_prefix(&mut self, id: ExprId, env: &Env) -> Result<ProcId> {
        let key = self.captured(id, env);
        self.call_process(CallKey::TimedPrefix(id, key), env)
    }

    /// The body of [`timed_prefix`](Self::timed_prefix).
    pub(super) fn unfold_timed_prefix(&mut self, id: ExprId, env: &Env) -> Result<ProcId> {
        let Expr::Prefix {
            event,
            fields,
            body,
        } = self.ast().expr(id).clone()
        else {
            unreachable!("only prefixes are timed prefixes");
        };
        let clock = self
            .clock(id)?
            .expect("a timed prefix stands in a timed section");
        let again = self.timed_prefix(id, env)?;
        let mut choices = vec![self.processes.prefix(clock.tock, again)];
        if fields.iter().all(|f| matches!(f, Field::Output(_))) {
            let (event, value) = self.output_event(event, &fields, env)?;
            let span = self.span(id);
            let then = self.process(body, env)?;
            let then = self.after(&value, then, Some(&clock), env, span)?;
            choices.push(self.processes.prefix(event, then));
        } else {
            choices.push(self.input_prefix(event, &fields, body, env, Some(clock))?);
        }
        Ok(self.processes.external_choice(choices))
    }
}
