//! Steps that were probably meant to be atomic, and that another thread can come into.
//!
//! That they were meant so is a guess, so a schedule that interleaves them proves nothing. It is
//! confirmed when the program, twice, then failed, hung or printed something that it did not when its
//! threads ran as in the recording, or one by one. There, what a thread does until it waits for others is
//! most often one step; where it was not, the failure counts as usual and the finding stays predicted.

use norns_model::{NotAnalysed, Witness};
use norns_predict::predict_atomicity;
use norns_replay::{Behaviour, Course};
use norns_report::describe::region;
use norns_report::{Finding, Kind, Status, Verdict};

use crate::check::{Check, Evidence, Progress, predicted};
use crate::confirm::{Confirmation, Tried};
use crate::findings;
use crate::program::Program;

/// The part of what is left that prediction may take.
const SHARE: (u32, u32) = (1, 3);
/// How many runs one by one show how the program usually behaves.
const USUAL_RUNS: u64 = 3;

impl<E> Check<'_, E> {
    pub(crate) fn check_atomicity<P: Program<Error = E>>(
        &mut self,
        run: u32,
        confirmation: &mut Confirmation<P>,
    ) -> Result<(), E> {
        if !self.options.atomicity || !self.options.kinds.contains(&Kind::Atomicity) {
            return Ok(());
        }
        let (trace, work) = (confirmation.trace, self.work);
        let found = work.stage(SHARE.0, SHARE.1, || predict_atomicity(trace, work));
        if found.is_too_long {
            let events = trace.events.len();
            self.all
                .not_analysed
                .push(NotAnalysed::LongRegions { events });
        }
        if found.undecided > 0 {
            self.all.undecided += found.undecided;
            let regions = found.undecided;
            self.all.not_analysed.push(NotAnalysed::Regions { regions });
        }
        let (mut usual, mut refuted) = (None, 0);
        let of = found.witnesses.len();
        for (number, witness) in (1..).zip(&found.witnesses) {
            let mut finding = predicted(trace).finding(witness);
            finding.region = region(trace, &witness.bug);
            if findings::is_settled(&self.all, &finding) {
                continue;
            }
            self.observer.progress(Progress::Replaying { number, of });
            confirmation.interleave(witness, &mut usual, &mut finding)?;
            if matches!(finding.verdict, Some(Verdict::Infeasible(_))) && !self.options.list_refuted
            {
                refuted += 1;
                continue;
            }
            let tried = Tried::not_replayed(witness);
            self.add(run, trace, finding, Evidence::Tried(&tried))?;
        }
        if refuted > 0 {
            self.all.not_analysed.push(NotAnalysed::RefutedByReplays {
                predictions: refuted,
            });
        }
        Ok(())
    }
}

impl<P: Program> Confirmation<'_, P> {
    /// Runs the program in the order of the witness, and compares how it behaved with what it usually
    /// does.
    fn interleave(
        &mut self,
        witness: &Witness,
        usual: &mut Option<Vec<Behaviour>>,
        finding: &mut Finding,
    ) -> Result<(), P::Error> {
        if self.is_out_of_time() {
            return Ok(());
        }
        let first = self.behave(Course::Witness(witness))?;
        if !first.followed {
            finding.verdict = Some(Verdict::Infeasible(
                "the program did not go on as in the recording".into(),
            ));
            return Ok(());
        }
        finding.verdict = Some(Verdict::NoBug);
        let usual = match usual {
            Some(usual) => usual,
            None => usual.insert(self.usual_behaviour()?),
        };
        let Some(difference) = first.difference(usual) else {
            return Ok(());
        };
        if self.is_out_of_time() {
            return Ok(());
        }
        let second = self.behave(Course::Witness(witness))?;
        // What a failing program prints can differ; what a working one prints must be the same.
        let is_same = second.ended == first.ended
            && (second.lines == first.lines || usual[0].ended != first.ended);
        if second.followed && is_same {
            finding.status = Status::Confirmed;
            finding.verdict = Some(Verdict::Confirmed(format!(
                "in this order the program {difference}"
            )));
        }
        Ok(())
    }

    fn usual_behaviour(&mut self) -> Result<Vec<Behaviour>, P::Error> {
        let mut usual = vec![self.behave(Course::Recording)?];
        for seed in 1..=USUAL_RUNS {
            if !self.is_out_of_time() {
                usual.push(self.behave(Course::OneByOne(seed))?);
            }
        }
        Ok(usual)
    }
}
