//! The program of a check as `norns-check` sees it, run by `norns-replay`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use norns_check::observed::race;
use norns_check::{Hang, OtherProcess, Outcome, Recorded, Replayed, Rerun, Watched, WholeRun};
use norns_model::{Bug, NotAnalysed, Unwatched, Witness};
use norns_replay::record::{Kept, Late};
use norns_replay::report::Deadlock;
use norns_replay::schedule::Way;
use norns_replay::{
    Behaviour, Course, Ended, Files, How, Inputs, Limits, Modules, Program, Proof, Replayer,
    Report, Sighting, record,
};
use norns_rules::Observed;
use norns_trace::symbolise::Symboliser;
use norns_trace::{Trace, Warning};

use super::{Arguments, divergence, gaps, inputs};
use crate::deadline::Deadline;
use crate::runs::Run;
use crate::session;

/// Of a recording as many events are kept as can be finished, read and prepared in about a third of
/// the budget.
const EVENTS_PER_SECOND: u64 = 100_000;
/// If the first recording took longer than this, there is no further one once the check has taken `WORTH`
/// times as long.
const LONG: Duration = Duration::from_secs(1);
const WORTH: u32 = 6;
/// A recording under another schedule may take this many times as long as the first one.
const SLOWER: u32 = 5;

pub struct Checked<'a> {
    pub arguments: &'a Arguments,
    pub run: &'a Run,
    pub program: &'a mut Program,
    /// Begins with the end of the first recording.
    deadline: Deadline,
    /// How long the first recording took.
    first_took: Duration,
    /// When the last recording began, and how long after the one before.
    last_began: Option<Instant>,
    round_took: Option<Duration>,
    /// How long the last recording took.
    recording_took: Duration,
    /// How many witnesses of the last recording were replayed.
    replays: usize,
    /// Whether the user has been told that a report was not understood.
    warned: bool,
    /// What replays of the last recording get from outside.
    inputs: Inputs,
    /// Where the program's files lay in the last recording.
    modules: Modules,
}

impl<'a> Checked<'a> {
    pub fn new(
        arguments: &'a Arguments,
        run: &'a Run,
        program: &'a mut Program,
        deadline: Deadline,
    ) -> Self {
        Self {
            arguments,
            run,
            program,
            deadline,
            first_took: Duration::ZERO,
            last_began: None,
            round_took: None,
            recording_took: Duration::ZERO,
            replays: 0,
            warned: false,
            inputs: Inputs::default(),
            modules: Modules::default(),
        }
    }

    /// All replays of a program are reported in the same way, so that one warning is enough.
    fn warn_once(&mut self, report: &Report) {
        if !self.warned
            && let Some(warning) = report.not_understood.warning()
        {
            eprintln!("warning: {warning}");
            self.warned = true;
        }
    }

    fn record_as(&mut self, run: u32, how: How) -> Result<Recorded> {
        let chosen_by_user = self.arguments.runs.is_some();
        let mut limits = self.limits();
        if run > 0 {
            limits.time = limits.time.min(self.deadline.left());
        }
        if run > 0 && !chosen_by_user {
            let usual = self.first_took * SLOWER + Duration::from_secs(1);
            limits.time = limits.time.min(usual);
        }
        let begin = Instant::now();
        let path = |name: &str| self.run.path(name);
        let (trace, output) = (path(&trace_name(run, None)), path("output.txt"));
        let printed_before = fs::metadata(&output).map_or(0, |data| data.len());
        let files = match run {
            0 => Files::Kept {
                folder: path(inputs::KEPT_FILES),
            },
            _ => inputs::private_files(self.run),
        };
        // The client says it again in its own way; where there was none, the player is one.
        let has_client = self.program.session.client.is_some();
        let play = self.inputs.play.take().filter(|_| !has_client);
        let kept = Kept {
            trace: &trace,
            output: &output,
            input: &path("input"),
            sent: None,
        };
        let recorded = record(self.program, &kept, files, play, limits, how)?;
        let conversation = recorded.conversation;
        let problems = inputs::unserved(&conversation, has_client);
        self.inputs = inputs::of_replays(&trace, conversation, has_client);
        self.modules = Modules::of(&recorded.recording.info);
        self.recording_took = recorded.time;
        if run == 0 {
            self.first_took = recorded.time;
        }
        self.deadline.start(begin + recorded.time);
        self.replays = 0;
        let folder = self.folder();
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let unseen_order = gaps::open_mp(&recorded.recording)
            .map(|name| format!("the runtime of OpenMP ({name}) orders threads unseen"));
        let mut not_analysed = gaps::not_analysed(&recorded.recording);
        if recorded.left_running > 0 {
            let processes = recorded.left_running;
            not_analysed.push(NotAnalysed::LeftRunning { processes });
        }
        if let Some(problem) = recorded.visit.as_ref().and_then(session::problem) {
            let last_lines = gaps::last_lines(&path("client.txt"), 0);
            not_analysed.push(NotAnalysed::Client {
                problem,
                last_lines,
            });
        }
        not_analysed.extend(problems);
        let mut trace = recorded.recording.trace;
        if !self.arguments.values {
            // One thread at a time was wanted for its schedule only.
            trace.values = Vec::new();
        }
        self.round_took = self.last_began.replace(begin).map(|last| begin - last);
        self.arguments.engine.accept(&trace)?;
        let (others, warnings) = other_processes(recorded.warnings)?;
        Ok(Recorded {
            trace,
            is_impatient: matches!(how, How::Impatiently { .. }),
            ended: recorded.ended,
            warnings,
            unseen_order,
            last_lines: gaps::last_lines(&output, printed_before),
            not_analysed,
            others,
        })
    }

    /// Whether a place of the witness is in code that the replay did not see being loaded.
    fn was_not_seen(&self, trace: &Trace, witness: &Witness, report: &Report) -> bool {
        let events = witness.bug.events().into_iter();
        let mut pcs = events.map(|event| trace.place(trace.events[event.index()].place).pc);
        !report.maps.is_empty() && pcs.any(|pc| !self.modules.is_in(report, pc))
    }

    fn limits(&self) -> Limits {
        Limits {
            time: Duration::from_secs(self.arguments.time_limit),
            memory: self.arguments.memory_limit << 20,
            events: self
                .arguments
                .budget
                .max(1)
                .saturating_mul(EVENTS_PER_SECOND),
        }
    }

    fn folder(&self) -> PathBuf {
        self.run.path("replays")
    }

    fn replayer<'b>(&'b self, trace: &'b Trace) -> Replayer<'b> {
        let limits = self.limits();
        // A replay serialises the program's synchronisation and watches every access.
        let usual = self.recording_took * 20 + Duration::from_secs(5);
        Replayer {
            program: self.program,
            trace,
            folder: self.folder(),
            limits: Limits {
                time: limits.time.min(usual).min(self.deadline.left()),
                ..limits
            },
            pace: Some(self.recording_took),
            files: inputs::private_files(self.run),
            inputs: self.inputs.clone(),
            modules: self.modules.clone(),
        }
    }
}

/// The trace of a recording, or of a further process of it, in the folder of the run.
pub fn trace_name(run: u32, process: Option<u32>) -> String {
    let name = match run {
        0 => "trace".into(),
        run => format!("trace-{run}"),
    };
    match process {
        None => format!("{name}.norns"),
        Some(number) => format!("{name}.process{number}.norns"),
    }
}

/// The further processes that ran threads, and the warnings that are not about where they are.
fn other_processes(warnings: Vec<Warning>) -> Result<(Vec<OtherProcess>, Vec<Warning>)> {
    let (mut others, mut left) = (Vec::new(), Vec::new());
    for warning in warnings {
        match warning {
            Warning::OtherProcess { number, path } => {
                let (trace, _) = norns_trace::read_understood(&path)?;
                if trace.threads.len() > 1 {
                    others.push(OtherProcess { number, trace });
                }
            }
            Warning::OtherProcesses { .. } => {}
            other => left.push(other),
        }
    }
    Ok((others, left))
}

impl norns_check::Program for Checked<'_> {
    type Error = anyhow::Error;

    fn record_every_access(&mut self, run: u32) -> Result<Recorded> {
        let seed = self.arguments.seed.unwrap_or(1).wrapping_add(run.into());
        self.record_as(run, How::WithValues { seed })
    }

    fn record(&mut self, run: u32) -> Result<Recorded> {
        // The first recording is the natural one, unless the user wants another.
        let seed = self.arguments.seed.unwrap_or(1).wrapping_add(run.into());
        let chosen_by_user = self.arguments.runs.is_some();
        let how = match run {
            _ if self.arguments.values => How::WithValues { seed },
            0 if self.arguments.seed.is_none() => How::Naturally,
            1 if !chosen_by_user => How::Impatiently {
                late: Late::Created,
            },
            2 if !chosen_by_user => How::Impatiently {
                late: Late::Creators,
            },
            3 if !chosen_by_user => How::WithValues { seed },
            _ => How::Delayed { seed },
        };
        self.record_as(run, how)
    }

    /// A further recording with all that follows from it takes about as long as the last one did. The
    /// first further one, which shows what time-outs do, is made whenever there is time to record at all:
    /// on a busy machine everything before it can have taken long.
    fn has_time_for_another(&self) -> bool {
        let half = self.deadline.time() / 2;
        let is_first = self.round_took.is_none();
        if is_first && self.deadline.spent() + self.first_took * 2 < half {
            return true;
        }
        let last = self
            .last_began
            .map_or(Duration::ZERO, |last| last.elapsed());
        let next = last.max(self.round_took.unwrap_or_default());
        let spent = self.deadline.spent() + next;
        let is_worth_it = self.first_took < LONG || spent < self.first_took * WORTH;
        is_worth_it && spent < half && next < half / 4
    }

    fn replay_recording(&mut self, trace: &Trace) -> Result<Rerun> {
        let (report, ended) = self.replayer(trace).replay_recording()?;
        self.warn_once(&report);
        let left = report.diverged.is_some()
            || matches!(
                ended,
                Ended::TimedOut | Ended::Hung | Ended::Interrupted | Ended::Killed
            );
        Ok(Rerun {
            left: left.then(|| divergence::of_run(trace, &report, &ended)),
            hang: report.deadlock.map(|deadlock| hang(deadlock, &report.maps)),
        })
    }

    fn replay(&mut self, trace: &Trace, witness: &Witness, way: Way) -> Result<Replayed> {
        self.replays += 1;
        let name = format!("{:03}", self.replays);
        let replay = self.replayer(trace).replay(witness, &name, way)?;
        self.warn_once(&replay.report);
        let outcome = match &replay.outcome {
            norns_replay::Outcome::Confirmed(proof) => Outcome::Confirmed(*proof),
            norns_replay::Outcome::OrderedBySpinLoop => Outcome::OrderedBySpinLoop,
            norns_replay::Outcome::NoBug => Outcome::NoBug,
            norns_replay::Outcome::Infeasible(left) => Outcome::Infeasible {
                event: left.event(),
                why: divergence::of_replay(trace, &replay.report, left),
            },
            norns_replay::Outcome::TimedOut => Outcome::TimedOut,
        };
        Ok(Replayed {
            outcome,
            sightings: Sighting::of(&replay.report),
            wait_loop: replay.report.spin.as_ref().map(|spin| spin.pc),
            forked: replay.report.forked,
            loaded_later: self.was_not_seen(trace, witness, &replay.report),
            events: replay.report.events.into_iter().map(observed).collect(),
        })
    }

    fn behave(&mut self, trace: &Trace, course: Course) -> Result<Behaviour> {
        Ok(self.replayer(trace).behave(course)?)
    }

    fn detect(&mut self, trace: &Trace) -> Result<WholeRun> {
        let mut replayer = self.replayer(trace);
        if self.program.session.client.is_some() {
            // As in the recorded run: what follows no schedule needs no recorded answers.
            replayer.inputs = Inputs::default();
        }
        let (report, ended) = replayer.detect()?;
        self.warn_once(&report);
        if report.unknown_call {
            return Ok(WholeRun {
                races: Vec::new(),
                unwatched: Some(Unwatched::UnknownCall),
            });
        }
        let mut symbols = Symboliser::new([report.maps.as_str()]);
        let races = report.races.iter().map(|seen| Watched {
            finding: race(seen, |pc| symbols.frames(pc).to_vec()),
            pcs: [seen.earlier.pc, seen.later.pc],
            proof: Proof::of_detector(seen),
        });
        let unwatched = match ended {
            Ended::Exited(_) | Ended::Stopped => None,
            _ => Some(Unwatched::EarlyEnd(ended.describe())),
        };
        Ok(WholeRun {
            races: races.collect(),
            unwatched,
        })
    }

    fn steer(&mut self, trace: &Trace, races: &[&Bug], seed: Option<u64>) -> Result<Vec<Sighting>> {
        let name = match seed {
            Some(seed) => format!("steered-{seed}"),
            None => "steered".into(),
        };
        let races = races.iter().copied();
        let (report, _) = self.replayer(trace).steer(races, &name, seed)?;
        self.warn_once(&report);
        Ok(Sighting::of(&report))
    }
}

/// A custom event, from its thread and its words.
pub fn observed((thread, words): (String, Vec<String>)) -> Observed {
    let mut words = words.into_iter();
    Observed {
        thread,
        name: words.next().unwrap_or_default(),
        fields: words.collect(),
    }
}

fn hang(deadlock: Deadlock, maps: &str) -> Hang {
    let mut symbols = Symboliser::new([maps]);
    let pcs = deadlock.waits.iter().map(|waits| waits.pc);
    let frames: BTreeMap<_, _> = pcs.map(|pc| (pc, symbols.frames(pc).to_vec())).collect();
    Hang { deadlock, frames }
}
