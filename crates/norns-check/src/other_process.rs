//! Processes that the program forks and that go on as the same program, with threads of their own.
//!
//! Each has a recording of its own. What that shows is judged as for the first process, but a schedule is
//! for one process, so nothing is replayed: a race is confirmed by the recorded run or stays predicted, and
//! nothing is refuted.

use norns_model::misuse::misuses;
use norns_model::{Meaning, Model, NotAnalysed, Witness};
use norns_predict::happens_before::observed_races;
use norns_replay::schedule::Way;
use norns_report::kind::Group;
use norns_report::{Status, Verdict};
use norns_trace::Trace;

use crate::check::{Check, Evidence, predicted};
use crate::confirm::Tried;
use crate::program::Recorded;
use crate::recorded_run::A_LOOP_MAY;
use crate::tiers::Tier;
use crate::{findings, observed};

/// The recording of a further process.
#[derive(Clone, Debug)]
pub struct OtherProcess {
    /// Processes are numbered from 1, in the order in which they began to record.
    pub number: u32,
    pub trace: Trace,
}

impl<E> Check<'_, E> {
    pub(crate) fn other_processes(&mut self, run: u32, recorded: &Recorded) -> Result<(), E> {
        let unseen_order = recorded.unseen_order();
        for other in &recorded.others {
            self.process = Some(other.number);
            self.other_process(run, &other.trace, unseen_order.as_deref())?;
            self.process = None;
        }
        let processes = recorded.others.len();
        let note = NotAnalysed::OtherProcesses { processes };
        if processes > 0 && !self.all.not_analysed.contains(&note) {
            self.all.not_analysed.push(note);
        }
        Ok(())
    }

    fn other_process(
        &mut self,
        run: u32,
        trace: &Trace,
        unseen_order: Option<&str>,
    ) -> Result<(), E> {
        for misuse in misuses(trace) {
            let finding = observed::misuse(trace, &misuse);
            if self.is_wanted(&finding) {
                self.add(run, trace, finding, Evidence::Places)?;
            }
        }
        let mut kinds = self.options.kinds.iter();
        if kinds.any(|kind| kind.group() == Group::Race) {
            let (races, _) = observed_races(&Model::new(trace, Meaning::Optimistic));
            for race in &races {
                let doubt = unseen_order.or(race.may_wait.then_some(A_LOOP_MAY));
                let (status, verdict) = match doubt {
                    Some(why) => (Status::Predicted, Verdict::NotUnderstood(why.into())),
                    None => (
                        Status::Confirmed,
                        Verdict::Observed(
                            "nothing orders the two accesses, in a process that was forked".into(),
                        ),
                    ),
                };
                self.add_of_process(run, trace, &race.witness, status, Some(verdict))?;
            }
        }
        for (witness, tier) in self.predict(run, trace)? {
            if tier == Tier::SameReads {
                self.add_of_process(run, trace, &witness, Status::Predicted, None)?;
            }
        }
        self.name_blocks(trace);
        Ok(())
    }

    fn add_of_process(
        &mut self,
        run: u32,
        trace: &Trace,
        witness: &Witness,
        status: Status,
        verdict: Option<Verdict>,
    ) -> Result<(), E> {
        let mut finding = predicted(trace).finding(witness);
        if !self.is_wanted(&finding) || findings::is_settled(&self.all, &finding) {
            return Ok(());
        }
        (finding.status, finding.verdict) = (status, verdict);
        let tried = Tried {
            way: Way::Hunt,
            ..Tried::not_replayed(witness)
        };
        self.add(run, trace, finding, Evidence::Tried(&tried))
    }
}
