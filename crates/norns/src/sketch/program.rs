//! The program of a sketch, run by `norns-replay` as often as `norns-sketch` asks for.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use norns_replay::record::Kept;
use norns_replay::{Files, ForFailure, How, Limits, Program, record};
use norns_sketch::{Failure, Seen, Sketch, Slice};
use norns_trace::{Trace, Warning};

use super::Arguments;
use super::code::Sliced;
use crate::check::inputs;
use crate::check::program::trace_name;
use crate::deadline::Deadline;
use crate::progress::Stage;
use crate::runs::Run;

/// Of what a run prints this much is looked at.
const OUTPUT: u64 = 1 << 20;
/// So many events of a run are kept.
const EVENTS: u64 = 1_000_000;

pub struct Repeated<'a> {
    arguments: &'a Arguments,
    run: &'a Run,
    program: &'a mut Program,
    /// Begins with the end of the first run.
    deadline: Deadline,
    /// How long the longest run took.
    longest: Duration,
    /// The numbers of all runs.
    numbers: Vec<u32>,
    stage: Option<Stage>,
    failed: usize,
    /// How many runs had more events than are kept.
    cut: usize,
    why_not_sliced: Option<String>,
}

impl<'a> Repeated<'a> {
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
            longest: Duration::ZERO,
            numbers: Vec::new(),
            stage: None,
            failed: 0,
            cut: 0,
            why_not_sliced: None,
        }
    }

    fn trace_path(&self, number: u32) -> PathBuf {
        self.run.path(&trace_name(number, None))
    }

    /// What was not seen of the runs, in sentences.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        if self.program.preload.is_some() {
            gaps.push(
                "the program was not built with norns-cc: of its threads only the synchronisation is seen"
                    .into(),
            );
        }
        if self.cut > 0 {
            gaps.push(format!(
                "in {} runs only the first {EVENTS} events are known, and the failure may lie behind them",
                self.cut
            ));
        }
        if let Some(why) = &self.why_not_sliced {
            gaps.push(format!(
                "the code was not sliced ({why}): what matters is read from the accesses alone"
            ));
        }
        gaps
    }

    /// Removes the traces of the runs that are not shown.
    pub fn finish(&mut self, sketch: &Sketch) -> Result<()> {
        self.stage = None;
        let shown = [&sketch.failing, &sketch.good];
        let shown: Vec<u32> = shown
            .into_iter()
            .flatten()
            .map(|shown| shown.number)
            .collect();
        for &number in self.numbers.iter().filter(|number| !shown.contains(number)) {
            let name = trace_name(number, None);
            let stem = name.trim_end_matches(".norns");
            for entry in fs::read_dir(&self.run.folder)?.flatten() {
                let file = entry.file_name();
                let file = file.to_string_lossy();
                if file
                    .strip_prefix(stem)
                    .is_some_and(|rest| rest.starts_with('.'))
                {
                    fs::remove_file(entry.path())
                        .with_context(|| format!("cannot remove {}", entry.path().display()))?;
                }
            }
        }
        Ok(())
    }
}

impl norns_sketch::Program for Repeated<'_> {
    type Error = anyhow::Error;

    fn run(&mut self, number: u32, how: ForFailure) -> Result<Seen> {
        let is_first = self.numbers.is_empty();
        let failed = self.failed;
        let stage = self.stage.get_or_insert_with(|| Stage::begin("running"));
        stage.now(|| format!("run {}, {failed} failed so far", number + 1));
        let mut limits = Limits {
            time: Duration::from_secs(self.arguments.time_limit),
            memory: self.arguments.memory_limit << 20,
            events: EVENTS,
        };
        if !is_first {
            limits.time = limits
                .time
                .min(self.deadline.left().max(Duration::from_secs(1)));
        }
        let path = |name: &str| self.run.path(name);
        let (trace, output) = (self.trace_path(number), path("output.txt"));
        let printed = Printed::begin(&output);
        let files = match is_first {
            true => Files::Kept {
                folder: path(inputs::KEPT_FILES),
            },
            false => {
                let replays = path("replays");
                fs::create_dir_all(&replays)
                    .with_context(|| format!("cannot create {}", replays.display()))?;
                inputs::private_files(self.run)
            }
        };
        let kept = Kept {
            trace: &trace,
            output: &output,
            input: &path("input"),
            sent: None,
        };
        let begin = Instant::now();
        let recorded = record(
            self.program,
            &kept,
            files,
            None,
            limits,
            How::ForFailure(how),
        )?;
        let is_cut = |warning: &Warning| matches!(warning, Warning::Shortened { .. });
        self.cut += usize::from(recorded.warnings.iter().any(is_cut));
        self.longest = self.longest.max(begin.elapsed());
        self.deadline.start(Instant::now());
        self.numbers.push(number);
        if !matches!(recorded.ended, norns_replay::Ended::Exited(0)) {
            self.failed += 1;
        }
        Ok(Seen {
            ended: recorded.ended,
            output: printed.read()?,
            trace: recorded.recording.trace,
        })
    }

    fn trace(&mut self, number: u32) -> Result<Trace> {
        Ok(norns_trace::read_understood(&self.trace_path(number))?.0)
    }

    fn slice(&mut self, failure: &Failure) -> Result<Slice> {
        if let Some(stage) = &mut self.stage {
            stage.now(|| "reading the code".to_string());
        }
        let program = PathBuf::from(&self.program.command[0]);
        let sliced = Sliced::of(self.arguments, &program, failure);
        self.why_not_sliced = sliced.why_not.clone();
        Ok(sliced.lines())
    }

    fn has_time(&self, part: u32) -> bool {
        let rest = self.deadline.time() * (100 - part) / 100;
        self.deadline.left() > self.longest + rest
    }
}

/// What a run prints: to its own file, and its client to another one beside it. Both may have been written
/// before.
pub struct Printed {
    files: [(PathBuf, u64); 2],
}

impl Printed {
    /// Before the run begins.
    pub fn begin(output: &Path) -> Printed {
        let files = [output.to_path_buf(), output.with_file_name("client.txt")];
        Printed {
            files: files.map(|file| {
                let before = fs::metadata(&file).map_or(0, |data| data.len());
                (file, before)
            }),
        }
    }

    /// After it has ended.
    pub fn read(&self) -> Result<String> {
        let there = self.files.iter().filter(|(path, _)| path.exists());
        there.map(|(path, before)| printed(path, *before)).collect()
    }
}

/// What is in the file behind its first bytes, of which there are so many.
pub fn printed(path: &PathBuf, before: u64) -> Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut bytes = Vec::new();
    let mut file =
        fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.seek(SeekFrom::Start(before))
        .and_then(|_| file.take(OUTPUT).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
