//! The whole way of a check: record, predict, replay every witness, count what was refuted.

use std::collections::{BTreeMap, BTreeSet};

use norns_budget::Budget;
use norns_model::misuse::misuses;
use norns_model::{Bug, NotAnalysed, Witness};
use norns_predict::Engine;
use norns_predict::happens_before::uses_after_free;
use norns_replay::Ended;
use norns_report::kind::Group;
use norns_report::object::{self, Query};
use norns_report::{
    Finding, Findings, Kind, Place, Predicted, Reason, Recordings, Status, Steps, Verdict,
};
use norns_rules::{Limits, Property};
use norns_scan::Scan;
use norns_trace::{Trace, Warning};

use crate::candidates::Candidates;
use crate::confirm::{Confirmation, OnMiss, Tried};
use crate::coverage::Coverage;
use crate::findings::Bugs;
use crate::left_waiting::LeftWaiting;
use crate::program::{End, Program, Recorded};
use crate::recorded_run::Open;
use crate::tiers::Tier;
use crate::{findings, observed};

/// What is asked of a check.
#[derive(Clone, Debug)]
pub struct Options {
    pub runs: Runs,
    /// Which engines predict.
    pub engine: Engine,
    /// The kinds that are looked for.
    pub kinds: BTreeSet<Kind>,
    /// List what was predicted and refuted; otherwise it is only counted.
    pub list_refuted: bool,
    /// The rules that the user's events must keep, and what one check of them may use.
    pub rules: Option<(Property, Limits)>,
    /// Candidates of the same program, which are tried first, and judged in the end.
    pub scan: Option<Scan>,
    /// Look for steps that were probably meant to be atomic.
    pub atomicity: bool,
}

/// How many times the program is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// This many times, at least once.
    Exactly(u32),
    /// Again and again, under other schedules, while that is cheap and shows something new; at most
    /// this many times.
    WhileNew { most: u32 },
}

/// After this many recordings in a row that show nothing new there is no further one.
const ENOUGH_WITHOUT_NEWS: u32 = 2;

/// What a check is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The recordings count from 1.
    Recording {
        number: u32,
        of: u32,
    },
    Recorded {
        number: u32,
        ended: &'a Ended,
    },
    Predicting {
        events: usize,
    },
    /// Running the program with the race detector, since the recording has only its beginning.
    Watching,
    ReplayingRecording,
    /// Running the program, steered to the places of so many races at once.
    Steering {
        races: usize,
    },
    /// The witnesses count from 1.
    Replaying {
        number: usize,
        of: usize,
    },
}

/// What shows a finding, besides its verdict.
#[derive(Clone, Copy, Debug)]
pub enum Evidence<'a> {
    /// The witness that was replayed last, or could not be replayed.
    Tried(&'a Tried),
    /// The recorded run hung: the trace with the blocked operations as its last events, where all
    /// of them are known.
    Hang(Option<&'a Trace>),
    /// Its places say it all: the recorded run misused an object, or a race is not in the recording.
    Places,
}

/// Whoever wants to know what a check does while it does it.
pub trait Observer {
    type Error;

    fn progress(&mut self, progress: Progress);

    /// A finding was added to the list, or has replaced one. Its id is one that no other
    /// finding of this check has; the caller names findings when the check is done. `run` is the
    /// number of the recording, from 0, `process` that of the process if it is not the one whose
    /// schedules are replayed, and `trace` what was recorded of it.
    fn found(
        &mut self,
        run: u32,
        process: Option<u32>,
        trace: &Trace,
        finding: &Finding,
        evidence: Evidence,
    ) -> Result<(), Self::Error>;
}

/// Checks a program. When the work is spent, nothing more is predicted, and once the time is up
/// nothing new is replayed; what was not replayed by then stays predicted. What the caller knows to
/// be left out already is in `not_analysed`.
pub fn check<P: Program>(
    program: &mut P,
    options: &Options,
    work: &Budget,
    observer: &mut dyn Observer<Error = P::Error>,
    not_analysed: Vec<NotAnalysed>,
) -> Result<Findings, P::Error> {
    let mut check = Check {
        options,
        work,
        observer,
        serial: 0,
        all: Findings {
            format: norns_report::finding::FORMAT,
            findings: Vec::new(),
            undecided: 0,
            not_analysed,
            recordings: None,
            scan: None,
        },
        tried: Bugs::default(),
        nameless: Vec::new(),
        candidates: options.scan.as_ref().map(Candidates::new),
        process: None,
    };
    // What is left at the end is for the report.
    work.stage(19, 20, || check.runs(program))?;
    let judged = { check.candidates.as_ref() }.map(|candidates| candidates.judge(&check.all));
    Ok(Findings {
        scan: judged,
        ..check.all
    })
}

pub(crate) struct Check<'a, E> {
    pub(crate) options: &'a Options,
    pub(crate) work: &'a Budget,
    pub(crate) observer: &'a mut dyn Observer<Error = E>,
    /// How many ids were given.
    serial: u32,
    pub(crate) all: Findings,
    /// What was replayed, also what was refuted.
    tried: Bugs,
    /// Findings of this recording about memory without a name: their ids, and what to look up.
    nameless: Vec<(String, Query)>,
    pub(crate) candidates: Option<Candidates<'a>>,
    /// The process whose recording is looked at, if it is a further one.
    pub(crate) process: Option<u32>,
}

impl<E> Check<'_, E> {
    fn runs<P: Program<Error = E>>(&mut self, program: &mut P) -> Result<(), E> {
        let (runs, while_new) = match self.options.runs {
            Runs::Exactly(runs) => (runs.max(1), false),
            Runs::WhileNew { most } => (most.max(1), most > 1),
        };
        let mut coverage = Coverage::default();
        let mut new_in = Vec::new();
        let mut without_news = 0;
        for run in 0..runs {
            let is_enough = without_news == ENOUGH_WITHOUT_NEWS || !program.has_time_for_another();
            if run > 0 && (while_new && is_enough || self.work.is_out_of_time()) {
                break;
            }
            self.observer.progress(Progress::Recording {
                number: run + 1,
                of: runs,
            });
            let recorded = program.record(run)?;
            self.observer.progress(Progress::Recorded {
                number: run + 1,
                ended: &recorded.ended,
            });
            let end = recorded.end();
            let new = coverage.add(&recorded.trace);
            new_in.push(new);
            without_news = if new == 0 { without_news + 1 } else { 0 };
            let is_analysed = !while_new || run == 0 || new > 0 && recorded.is_usable();
            self.note_places(&recorded.trace, is_analysed);
            if !while_new {
                self.recording(program, run, recorded)?;
            } else if run == 0 {
                // The other recordings get their share, however much there is to replay.
                let work = self.work;
                work.stage(3, 5, || self.recording(program, run, recorded))?;
            } else if new > 0 && recorded.is_usable() {
                self.recording(program, run, recorded)?;
            }
            if run > 0 && while_new {
                self.note_failure(run, end);
            }
        }
        if self.candidates.is_some() && !self.work.is_out_of_time() {
            let run = u32::try_from(new_in.len()).unwrap_or(u32::MAX);
            self.observer.progress(Progress::Recording {
                number: run + 1,
                of: run + 1,
            });
            let recorded = program.record_every_access(run)?;
            new_in.push(coverage.add(&recorded.trace));
            self.note_places(&recorded.trace, recorded.is_usable());
            if recorded.is_usable() {
                self.recording(program, run, recorded)?;
            }
        }
        // The race may have been found in a later recording than the misuse.
        let found = self.all.findings.clone();
        { &mut self.all.findings }
            .retain(|finding| !is_about_an_end(finding.kind) || !is_part_of_race(&found, finding));
        self.all.recordings = Some(Recordings { new: new_in });
        Ok(())
    }

    /// Notes which places of candidates a recording has reached.
    fn note_places(&mut self, trace: &Trace, is_analysed: bool) {
        if let Some(candidates) = &mut self.candidates {
            candidates.add(trace, is_analysed);
        }
    }

    /// Notes that a bug was left without a finding.
    pub(crate) fn leave(&mut self, finding: &Finding, why: Reason) {
        if let Some(candidates) = &mut self.candidates {
            candidates.leave(finding, why);
        }
    }

    /// Notes the first further recording of each sort that came to a bad end, unless that is a hang and a
    /// finding says where.
    fn note_failure(&mut self, run: u32, end: End) {
        let mut findings = self.all.findings.iter();
        let failed = match end.ended {
            Ended::Signalled(_) => true,
            Ended::Hung => !findings.any(|finding| {
                finding.kind.group() == Group::Deadlock && finding.status == Status::Confirmed
            }),
            _ => false,
        };
        let not_analysed = &mut self.all.not_analysed;
        let is_known = not_analysed.iter().any(|reason| match reason {
            NotAnalysed::AfterTheEnd { is_failure, .. } => *is_failure,
            NotAnalysed::FailedLater { impatient, .. } => *impatient == end.is_impatient,
            _ => false,
        });
        if failed && !is_known {
            not_analysed.push(NotAnalysed::FailedLater {
                recording: run + 1,
                how: end.ended.describe(),
                impatient: end.is_impatient,
                last_lines: end.last_lines,
            });
        }
    }

    /// Everything that follows from one recorded run.
    fn recording<P: Program<Error = E>>(
        &mut self,
        program: &mut P,
        run: u32,
        recorded: Recorded,
    ) -> Result<(), E> {
        // Nobody has asked for the further recordings: that one of them ends early is no loss.
        if run == 0 || matches!(self.options.runs, Runs::Exactly(_)) {
            self.note_how_it_ended(&recorded);
        }
        let trace = &recorded.trace;
        let found = misuses(trace);
        let found = { found.iter() }.map(|misuse| observed::misuse(trace, misuse));
        let (ends, mut others): (Vec<Finding>, Vec<Finding>) =
            found.partition(|finding| is_about_an_end(finding.kind));
        let freed = uses_after_free(trace);
        others.extend({ freed.iter() }.map(|found| observed::use_after_free(trace, found)));
        for finding in others {
            if self.is_wanted(&finding) {
                self.add(run, trace, finding, Evidence::Places)?;
            }
        }
        let unseen_order = recorded.unseen_order();
        let mut confirmation = Confirmation::new(program, trace, unseen_order, self.work);
        confirmation.shared_objects = recorded.shared_objects();
        self.check_rules(run, &mut confirmation)?;
        let watched = self.watch_whole_run(run, &recorded, &mut confirmation)?;
        let open = self.add_races_of_the_run(run, &mut confirmation)?;
        let Open {
            again,
            awaited,
            mut may_wait,
        } = open;
        may_wait.extend(self.add_watched(run, watched, &mut confirmation)?);
        if !awaited.is_empty() {
            self.replay_recording(run, &mut confirmation)?;
            self.look_for_loops(run, &mut confirmation, awaited)?;
        }
        let mut witnesses = self.predict(run, trace)?;
        if let Some(candidates) = &self.candidates {
            // Stable: the tiers stay apart, and candidates come first in each.
            witnesses.sort_by_cached_key(|(witness, tier)| {
                let bug = bare(trace).finding(witness);
                (*tier == Tier::OtherReads, !candidates.foresees(&bug))
            });
        }
        if matches!(recorded.ended, Ended::Exited(_)) {
            let left = LeftWaiting::of(trace);
            witnesses.retain(|(witness, _)| !left.explains(trace, witness));
        }
        witnesses.retain(|(witness, _)| !confirmation.may_be_ended_outside(witness));
        let is_any = !witnesses.is_empty() || !again.is_empty() || !may_wait.is_empty();
        if is_any || recorded.hung() {
            self.replay_recording(run, &mut confirmation)?;
        }
        self.add_races_behind_loops(run, &mut confirmation, &may_wait)?;
        self.steer(&mut confirmation, &witnesses)?;
        self.replay_predictions(run, &mut confirmation, &witnesses)?;
        self.show_again(run, &mut confirmation, again, OnMiss::GiveUp)?;
        self.check_atomicity(run, &mut confirmation)?;
        for finding in ends {
            if self.is_wanted(&finding) && !is_part_of_race(&self.all.findings, &finding) {
                self.add(run, trace, finding, Evidence::Places)?;
            }
        }
        if confirmation.forked {
            self.all.not_analysed.push(NotAnalysed::ChildProcesses);
        }
        if confirmation.loaded_later {
            let note = NotAnalysed::LoadedLater;
            self.all.not_analysed.push(note);
        }
        self.name_blocks(trace);
        self.other_processes(run, &recorded)
    }

    /// Says which blocks the findings of a recording are about, all at once.
    pub(crate) fn name_blocks(&mut self, trace: &Trace) {
        let (ids, queries): (Vec<String>, Vec<Query>) = self.nameless.drain(..).unzip();
        let names = ids.into_iter().zip(object::blocks(trace, &queries));
        let names: BTreeMap<String, Option<String>> = names.collect();
        for finding in &mut self.all.findings {
            if let Some(name) = names.get(&finding.id) {
                finding.object.clone_from(name);
            }
        }
    }

    /// Gives a finding its id, and notes what it is about if that has no name.
    fn register(&mut self, trace: &Trace, finding: &mut Finding, evidence: &Evidence) {
        finding.id = format!("unnamed-{}", self.serial);
        if let Evidence::Tried(tried) = evidence
            && finding.object.is_none()
            && let Some(query) = Query::of(trace, &tried.witness.bug)
        {
            self.nameless.push((finding.id.clone(), query));
        }
    }

    /// Runs the program steered to all races that are only predicted.
    fn steer<P: Program<Error = E>>(
        &mut self,
        confirmation: &mut Confirmation<P>,
        witnesses: &[(Witness, Tier)],
    ) -> Result<(), E> {
        let bare = bare(confirmation.trace);
        let open = witnesses
            .iter()
            .map(|(witness, _)| witness)
            .filter(|witness| {
                let finding = bare.finding(witness);
                matches!(witness.bug, Bug::Race { .. })
                    && self.is_wanted(&finding)
                    && !findings::is_settled(&self.all, &finding)
            });
        let races: Vec<&Bug> = open.map(|witness| &witness.bug).collect();
        if !races.is_empty() {
            let steering = Progress::Steering { races: races.len() };
            self.observer.progress(steering);
            confirmation.steer(&races)?;
        }
        Ok(())
    }

    /// Replays every prediction that is not settled, and lists or counts it.
    fn replay_predictions<P: Program<Error = E>>(
        &mut self,
        run: u32,
        confirmation: &mut Confirmation<P>,
        witnesses: &[(Witness, Tier)],
    ) -> Result<(), E> {
        let trace = confirmation.trace;
        // Those that are listed already were replayed before, to look for a loop that orders them.
        let (listed, others): (Vec<_>, Vec<_>) = witnesses.iter().partition(|(witness, _)| {
            findings::is_listed(&self.all, &bare(trace).finding(witness))
        });
        let (mut refuted, mut other_reads) = (0, confirmation.left_to_loops.len());
        for (number, (witness, tier)) in (1..).zip(others.into_iter().chain(listed)) {
            let of = witnesses.len();
            self.observer.progress(Progress::Replaying { number, of });
            let mut finding = predicted(trace).finding(witness);
            if !self.is_wanted(&finding) || findings::is_settled(&self.all, &finding) {
                continue;
            }
            if confirmation.is_left_to_loop(&witness.bug) {
                continue;
            }
            // The loops that replays have shown forbid it.
            if confirmation.is_doubted(&witness.bug)
                && confirmation.is_ordered_by_known_loop(&witness.bug)
                && !self.options.list_refuted
            {
                refuted += 1;
                self.leave(&finding, Reason::Replays);
                continue;
            }
            let first_tried = self.tried.first_run(&finding, run);
            if first_tried < run && matches!(self.options.runs, Runs::WhileNew { .. }) {
                continue;
            }
            let tried = confirmation.confirm(witness, &mut finding)?;
            finding.witness = Some(predicted(trace).steps(&tried.witness));
            let is_open = finding.status == Status::Predicted
                && !self.options.list_refuted
                && !findings::is_listed(&self.all, &finding);
            // A loop goes round again when it reads another value.
            let needs_other_reads =
                *tier == Tier::OtherReads || confirmation.may_be_ordered_by_loop(&witness.bug);
            let watched =
                confirmation.is_reliable && !confirmation.forked && !confirmation.loaded_later;
            if is_open && watched && is_refuted(&finding) {
                refuted += 1;
                self.leave(&finding, Reason::Replays);
            } else if is_open && needs_other_reads {
                other_reads += 1;
                self.leave(&finding, Reason::OtherReads);
            } else {
                self.add(run, trace, finding, Evidence::Tried(&tried))?;
            }
        }
        let not_analysed = &mut self.all.not_analysed;
        if refuted > 0 {
            not_analysed.push(NotAnalysed::RefutedByReplays {
                predictions: refuted,
            });
        }
        if other_reads > 0 {
            not_analysed.push(NotAnalysed::OtherReads {
                predictions: other_reads,
            });
        }
        Ok(())
    }

    /// Finds out whether the program follows its own recording, unless that is known already.
    pub(crate) fn replay_recording<P: Program<Error = E>>(
        &mut self,
        run: u32,
        confirmation: &mut Confirmation<P>,
    ) -> Result<(), E> {
        if confirmation.has_replayed_recording {
            return Ok(());
        }
        self.observer.progress(Progress::ReplayingRecording);
        if let Some(hang) = confirmation.replay_recording(&mut self.all.not_analysed)? {
            let mut finding = hang.finding();
            finding.verdict = Some(Verdict::Confirmed(
                "the program ran into it while it was recorded, and again in the replay of that \
                 run"
                .into(),
            ));
            let trace = confirmation.trace;
            let with_hang = hang.in_trace(trace, &finding);
            if self.is_wanted(&finding) {
                self.add(run, trace, finding, Evidence::Hang(with_hang.as_ref()))?;
            }
        }
        Ok(())
    }

    fn note_how_it_ended(&mut self, recorded: &Recorded) {
        let not_analysed = &mut self.all.not_analysed;
        let last_lines = recorded.last_lines.clone();
        match recorded.ended {
            Ended::Exited(0) | Ended::Stopped => {}
            Ended::Exited(status) => {
                not_analysed.push(NotAnalysed::ErrorStatus { status, last_lines });
            }
            _ => not_analysed.push(NotAnalysed::AfterTheEnd {
                how: recorded.ended.describe(),
                is_failure: !matches!(recorded.ended, Ended::Killed),
                last_lines,
            }),
        }
        not_analysed.extend(recorded.not_analysed.iter().cloned());
        for warning in &recorded.warnings {
            let is_same = |known: &NotAnalysed| match (known, warning) {
                (
                    NotAnalysed::Trace(Warning::ProcessShared { .. }),
                    Warning::ProcessShared { .. },
                ) => true,
                (known, warning) => *known == NotAnalysed::Trace(warning.clone()),
            };
            if !not_analysed.iter().any(is_same) {
                not_analysed.push(NotAnalysed::Trace(warning.clone()));
            }
        }
    }

    pub(crate) fn is_wanted(&self, finding: &Finding) -> bool {
        self.options.kinds.contains(&finding.kind)
    }

    pub(crate) fn add(
        &mut self,
        run: u32,
        trace: &Trace,
        mut finding: Finding,
        evidence: Evidence,
    ) -> Result<(), E> {
        self.register(trace, &mut finding, &evidence);
        if findings::add(&mut self.all, finding.clone()) {
            self.serial += 1;
            let process = self.process;
            self.observer
                .found(run, process, trace, &finding, evidence)?;
        }
        Ok(())
    }

    /// Adds a finding, in place of the one of the same bug if there is one.
    pub(crate) fn put(
        &mut self,
        run: u32,
        trace: &Trace,
        mut finding: Finding,
        evidence: Evidence,
    ) -> Result<(), E> {
        self.register(trace, &mut finding, &evidence);
        findings::put(&mut self.all, finding.clone());
        self.serial += 1;
        let process = self.process;
        self.observer.found(run, process, trace, &finding, evidence)
    }
}

/// Makes findings of the witnesses of a recording.
pub(crate) fn predicted(trace: &Trace) -> Predicted<'_> {
    Predicted {
        trace,
        steps: Steps::WithoutAccesses,
        lines: None,
    }
}

/// Findings without the steps of their witnesses.
pub(crate) fn bare(trace: &Trace) -> Predicted<'_> {
    Predicted {
        steps: Steps::None,
        ..predicted(trace)
    }
}

/// Whether replays have refuted a prediction: the last one left the schedule, or followed it and
/// nothing showed.
fn is_refuted(finding: &Finding) -> bool {
    finding.status == Status::Predicted
        && matches!(
            finding.verdict,
            Some(Verdict::NoBug | Verdict::Infeasible(_))
        )
}

/// Misuse that may be one side of a race with the end of an object.
fn is_about_an_end(kind: Kind) -> bool {
    use Kind::{DestroyLocked, DestroyWaited, UseDestroyed};
    matches!(kind, DestroyLocked | DestroyWaited | UseDestroyed)
}

/// Whether a destruction that comes too early, or a use that comes too late, is one side of a confirmed
/// race: which of the two came first depends on the schedule, and the race does not.
fn is_part_of_race(findings: &[Finding], misuse: &Finding) -> bool {
    let mut races = findings
        .iter()
        .filter(|other| other.kind == Kind::DestroyedInUse && other.status == Status::Confirmed);
    races.any(|race| {
        let mut places = race.places.iter();
        places.any(|place| {
            let same = |other: &Place| (&other.file, other.line) == (&place.file, place.line);
            misuse.places.iter().any(same)
        })
    })
}
