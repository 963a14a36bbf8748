//! Runs the program again under the schedule of a witness.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use norns_model::{Bug, Witness};
use norns_trace::Trace;
use norns_wire::environment::{self, Mode, Priorities};
use norns_wire::schedule::Record;

use crate::behaviour::Behaviour;
use crate::files::Files;
use crate::inputs::Inputs;
use crate::modules::Modules;
use crate::process::{Ended, Error, Limits, Output, Program, Run};
use crate::report::Report;
use crate::schedule::{self, Accesses, Way};
use crate::verdict::{self, Outcome};

/// One replay: what was seen, and what it means for the witness.
#[derive(Clone, Debug)]
pub struct Replay {
    pub outcome: Outcome,
    pub report: Report,
    pub ended: Ended,
}

/// In which order the threads of a run go on.
#[derive(Clone, Copy, Debug)]
pub enum Course<'a> {
    /// As in the witness.
    Witness(&'a Witness),
    /// As in the recording.
    Recording,
    /// One thread at a time, each as far as it comes; the seed decides which.
    OneByOne(u64),
}

/// Runs one program any number of times; keeps schedules and reports in `folder`.
pub struct Replayer<'a> {
    pub program: &'a Program,
    pub trace: &'a Trace,
    pub folder: PathBuf,
    pub limits: Limits,
    /// How long the recorded run took, where that is known: replays give a standstill up after a time
    /// of this order.
    pub pace: Option<Duration>,
    pub files: Files,
    pub inputs: Inputs,
    /// Where the program's files lay when it was recorded.
    pub modules: Modules,
}

impl Replayer<'_> {
    /// Runs the program under a schedule.
    pub fn run(&self, schedule: &str, name: &str, mode: Mode) -> Result<(Report, Ended), Error> {
        self.run_with(schedule, name, mode, None, Output::Nowhere)
    }

    fn run_with(
        &self,
        schedule: &str,
        name: &str,
        mode: Mode,
        more: Option<(&'static str, OsString)>,
        output: Output,
    ) -> Result<(Report, Ended), Error> {
        let schedule_path = self.folder.join(format!("{name}.schedule"));
        let mut schedule = schedule.to_string();
        self.modules.write(&mut schedule);
        if let Some(pace) = self.pace {
            let record = Record::Pace(pace.as_nanos() as u64);
            let _ = record.encode(&mut schedule);
            schedule.push('\n');
        }
        fs::write(&schedule_path, schedule).map_err(Error::file("write", &schedule_path))?;
        let report_path = self.folder.join(format!("{name}.report"));
        remove(&report_path)?;
        let mut variables = vec![
            (environment::SCHEDULE, schedule_path.into_os_string()),
            (environment::REPORT, OsString::from(&report_path)),
        ];
        variables.extend(more);
        let run = Run {
            program: self.program,
            mode,
            limits: Some(self.limits),
            variables,
            output,
            keep_input: None,
            files: self.files.clone(),
            inputs: self.inputs.clone(),
        };
        let ended = run.run()?;
        let mut report = Report::read(&report_path)?;
        self.modules.translate(&mut report);
        Ok((report, ended))
    }

    /// Runs the program under the schedule that it followed when it was recorded.
    pub fn replay_recording(&self) -> Result<(Report, Ended), Error> {
        let schedule = schedule::of_recording(self.trace);
        self.run(&schedule, "recording", Mode::ReplayDetect)
    }

    /// Runs the program in a way that should show the bug of the witness, and judges the run.
    pub fn replay(&self, witness: &Witness, name: &str, way: Way) -> Result<Replay, Error> {
        let schedule = schedule::of(self.trace, witness, way);
        let more = self.variable(way);
        let (mut report, ended) =
            self.run_with(&schedule, name, Mode::ReplayDetect, more, Output::Nowhere)?;
        if matches!(way, Way::Hunt | Way::Priorities(_)) {
            // Without steps in the schedule there is nothing that the program could leave.
            report.followed = true;
        }
        let outcome = verdict::judge(self.trace, witness, &report, &ended);
        Ok(Replay {
            outcome,
            report,
            ended,
        })
    }

    /// Runs the program once more and says how it behaved.
    pub fn behave(&self, course: Course) -> Result<Behaviour, Error> {
        let (schedule, more) = match course {
            Course::Witness(witness) => {
                let way = Way::Schedule(Accesses::Free);
                (schedule::of(self.trace, witness, way), None)
            }
            Course::Recording => (schedule::of_recording(self.trace), None),
            Course::OneByOne(seed) => (schedule::empty(), Some(priorities(seed, 1))),
        };
        let path = self.folder.join("behaviour.txt");
        remove(&path)?;
        let output = Output::File(path.clone());
        let (report, ended) =
            self.run_with(&schedule, "behaviour", Mode::ReplayDetect, more, output)?;
        Ok(Behaviour {
            followed: report.followed && report.diverged.is_none(),
            hung: report.deadlock.is_some(),
            ended,
            lines: Behaviour::lines(&path, 0)?,
        })
    }

    /// Runs the program as it is, watched by the race detector.
    pub fn detect(&self) -> Result<(Report, Ended), Error> {
        self.run(&schedule::empty(), "whole", Mode::Detect)
    }

    /// Runs the program nearly free, with threads that linger at the places of all these races, and
    /// returns what that showed.
    pub fn steer<'b>(
        &self,
        races: impl Iterator<Item = &'b Bug>,
        name: &str,
        seed: Option<u64>,
    ) -> Result<(Report, Ended), Error> {
        let schedule = schedule::of_steering(self.trace, races);
        let more = seed.and_then(|seed| self.variable(Way::Priorities(seed)));
        self.run_with(&schedule, name, Mode::ReplayDetect, more, Output::Nowhere)
    }

    /// The variable that the runtime needs besides the schedule.
    pub fn variable(&self, way: Way) -> Option<(&'static str, OsString)> {
        let Way::Priorities(seed) = way else {
            return None;
        };
        let points = schedule::count_points(self.trace);
        Some(priorities(seed, points as u64))
    }
}

/// The variable that asks for random priorities, which change at a few of the first `points`.
fn priorities(seed: u64, points: u64) -> (&'static str, OsString) {
    let mut value = String::new();
    let _ = Priorities { seed, points }.encode(&mut value);
    (environment::PRIORITIES, value.into())
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file("remove", path)(error))
        }
        _ => Ok(()),
    }
}
