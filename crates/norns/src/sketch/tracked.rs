//! `norns sketch --track`: the program is run as it is, and only a part of the slice is watched.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use norns_replay::{Ended, Files, KeptTracked, Limits, Program, track};
use norns_sketch::tracking::{self, Plan, Reach, Trackable};
use norns_sketch::{Failure, Seen, Slice};
use norns_trace::{Observations, Trace, read_observations};

use super::Arguments;
use super::code::Sliced;
use super::means::Means;
use super::program::Printed;
use crate::check::inputs;
use crate::deadline::Deadline;
use crate::progress::Stage;
use crate::runs::Run;

pub struct Watched<'a> {
    arguments: &'a Arguments,
    run: &'a Run,
    program: &'a mut Program,
    /// Begins with the end of the first run.
    deadline: Deadline,
    longest: Duration,
    runs: u32,
    failed: usize,
    stage: Option<Stage>,
    means: Means,
    switched_off: usize,
    why_not_sliced: Option<String>,
}

impl<'a> Watched<'a> {
    pub fn new(
        arguments: &'a Arguments,
        run: &'a Run,
        program: &'a mut Program,
        means: Means,
        deadline: Deadline,
    ) -> Self {
        Self {
            arguments,
            run,
            program,
            means,
            deadline,
            longest: Duration::ZERO,
            runs: 0,
            failed: 0,
            stage: None,
            switched_off: 0,
            why_not_sliced: None,
        }
    }

    fn path(&self, number: u32, what: &str) -> PathBuf {
        self.run.path(&format!("tracked-{number}.{what}"))
    }

    fn observations(&self, number: u32) -> Result<Observations> {
        let path = self.path(number, "observations");
        // A program that dies before the runtime is loaded has seen nothing.
        let Ok(text) = fs::read_to_string(&path) else {
            return Ok(Observations::default());
        };
        match read_observations(&text) {
            Ok(observations) => Ok(observations),
            Err(header) => bail!(
                "{} begins with `{header}`, which this version does not know",
                path.display()
            ),
        }
    }

    /// Removes what runs that are not shown have seen.
    pub fn finish(&mut self, shown: &[u32]) -> Result<()> {
        self.stage = None;
        for number in (0..self.runs).filter(|number| !shown.contains(number)) {
            for what in ["plan", "observations"] {
                let path = self.path(number, what);
                if path.exists() {
                    fs::remove_file(&path)
                        .with_context(|| format!("cannot remove {}", path.display()))?;
                }
            }
        }
        Ok(())
    }

    /// What was not seen, in sentences.
    pub fn gaps(&self, reach: Reach) -> Vec<String> {
        let mut gaps = vec![
            "the runs were ordinary ones: the order of two accesses within microseconds can be wrong, and \
             nothing was forced"
                .to_string(),
        ];
        if let Some(why) = &self.why_not_sliced {
            gaps.push(format!(
                "the code could not be sliced ({why}), so it is not known what to watch; \
                 without --track the accesses are recorded"
            ));
        } else if reach.statements > 0 {
            gaps.push(format!(
                "{} of the {} statements that the failing one depends on were tracked",
                reach.sigma, reach.statements
            ));
        }
        if reach.added > 0 {
            let lines = if reach.added == 1 { "line" } else { "lines" };
            gaps.push(format!(
                "watched memory was also accessed at {} {lines} outside of these statements, which count as well",
                reach.added
            ));
        }
        if reach.statements > 0 {
            gaps.extend(self.means.gaps());
        }
        if self.switched_off > 0 {
            gaps.push(format!(
                "in {} runs a watchpoint was switched off after 500 accesses, to keep the program fast",
                self.switched_off
            ));
        }
        gaps
    }
}

impl tracking::Tracked for Watched<'_> {
    type Error = anyhow::Error;

    fn track(&mut self, number: u32, plan: &Plan) -> Result<Seen> {
        let failed = self.failed;
        let stage = self.stage.get_or_insert_with(|| Stage::begin("running"));
        stage.now(|| format!("run {}, {failed} failed so far", number + 1));
        let is_first = self.runs == 0;
        let mut limits = Limits {
            time: Duration::from_secs(self.arguments.time_limit),
            memory: self.arguments.memory_limit << 20,
            ..Limits::default()
        };
        if !is_first {
            let left = self.deadline.left().max(Duration::from_secs(1));
            limits.time = limits.time.min(left);
        }
        let (plan_file, observations) =
            (self.path(number, "plan"), self.path(number, "observations"));
        fs::write(&plan_file, plan.text())
            .with_context(|| format!("cannot write {}", plan_file.display()))?;
        let output = self.run.path("output.txt");
        let printed = Printed::begin(&output);
        let files = match is_first {
            true => Files::Kept {
                folder: self.run.path(inputs::KEPT_FILES),
            },
            false => {
                let replays = self.run.path("replays");
                fs::create_dir_all(&replays)
                    .with_context(|| format!("cannot create {}", replays.display()))?;
                inputs::private_files(self.run)
            }
        };
        let kept = KeptTracked {
            plan: &plan_file,
            observations: &observations,
            output: &output,
            input: &self.run.path("input"),
        };
        let begin = Instant::now();
        let ended = track(self.program, &kept, files, limits)?;
        self.longest = self.longest.max(begin.elapsed());
        self.deadline.start(Instant::now());
        self.runs += 1;
        self.failed += usize::from(ended != Ended::Exited(0));
        let seen = self.observations(number)?;
        self.means.refused = self.means.refused.or(seen.refused);
        self.switched_off += usize::from(!seen.switched_off.is_empty());
        Ok(Seen {
            ended,
            output: printed.read()?,
            trace: seen.trace,
        })
    }

    fn slice(&mut self, failure: &Failure) -> Result<(Slice, Vec<Trackable>)> {
        if let Some(stage) = &mut self.stage {
            stage.now(|| "reading the code".to_string());
        }
        let program = PathBuf::from(&self.program.command[0]);
        let sliced = Sliced::of(self.arguments, &program, failure);
        let trackable = sliced.trackable(&program);
        let lines = sliced.lines();
        self.why_not_sliced = sliced.why_not;
        if trackable.is_empty() && self.why_not_sliced.is_none() {
            self.why_not_sliced = Some("the program has no debug information".into());
        }
        Ok((lines, trackable))
    }

    fn trace(&mut self, number: u32) -> Result<Trace> {
        Ok(self.observations(number)?.trace)
    }

    fn has_time(&self) -> bool {
        self.deadline.left() > self.longest
    }
}
