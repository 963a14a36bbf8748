//! Replicated operators: `[] x : S @ P(x)` and the like.

use super::machine::{Evaluator, Result};
use super::timed::with_tock;
use super::value::Env;
use crate::process::ProcId;
use crate::syntax::ast::*;

impl Evaluator {
    pub(super) fn replicated(&mut self, id: ExprId, env: &Env) -> Result<ProcId> {
        let Expr::Replicated { op, stmts, body } = self.ast().expr(id).clone() else {
            unreachable!("called for replicated operators");
        };
        let tock = self.tock(id)?;
        let bracket = match op {
            Replicated::Sequence | Replicated::Link { .. } => Bracket::Seq,
            _ => Bracket::Set,
        };
        let set = match &op {
            Replicated::Parallel(set) | Replicated::SyncChoice(set) => {
                Some(with_tock(self.event_set(*set, env)?, tock))
            }
            _ => None,
        };
        let envs = self.generate(&stmts, env, bracket)?;
        if let (Some(tock), true) = (tock, envs.is_empty()) {
            match op {
                Replicated::Sequence => return self.timed_skip(tock),
                Replicated::InternalChoice => {}
                _ => return self.timed_stop(tock),
            }
        }
        if let Replicated::Alphabetised(set) = op {
            let mut all = Vec::with_capacity(envs.len());
            for env in envs {
                let events = with_tock(self.event_set(set, &env)?, tock);
                all.push((events, self.deeper(body, &env)?));
            }
            return Ok(self.processes.alphabetised(all));
        }
        let mut all = Vec::with_capacity(envs.len());
        for env in &envs {
            all.push(self.deeper(body, env)?);
        }
        let span = self.span(id);
        Ok(match op {
            Replicated::Interleave => self.interleaving(all, tock),
            Replicated::ExternalChoice => self.choice(all, tock),
            Replicated::InternalChoice => {
                if all.is_empty() {
                    return self.error_help(
                        span,
                        "a replicated internal choice over an empty set",
                        "an internal choice needs at least one alternative",
                    );
                }
                self.processes.internal_choice(all)
            }
            Replicated::Sequence => {
                let Some(mut whole) = all.pop() else {
                    return Ok(self.processes.skip());
                };
                while let Some(first) = all.pop() {
                    whole = self.processes.sequence(first, whole);
                }
                whole
            }
            Replicated::Parallel(_) => {
                let events = set.expect("evaluated above");
                self.processes.parallel(all, events)
            }
            Replicated::SyncChoice(_) => {
                let events = set.expect("evaluated above");
                self.processes.sync_choice(all, events)
            }
            Replicated::Link { ties, tie_stmts } => {
                let Some(mut whole) = all.pop() else {
                    return self.error_help(
                        span,
                        "a replicated linked parallel over an empty sequence",
                        "there is nothing to link",
                    );
                };
                for (left, env) in all.into_iter().zip(&envs).rev() {
                    let pairs = self.event_pairs(&ties, &tie_stmts, env)?;
                    whole = self.link(left, &pairs, whole, span)?;
                }
                whole
            }
            Replicated::Alphabetised(_) => unreachable!("returned above"),
        })
    }
}
