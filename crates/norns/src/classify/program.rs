//! The program of a race, run by `norns-replay` as often as `norns-classify` asks for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use norns_classify::Executed;
use norns_replay::record::Kept;
use norns_replay::{Conversation, Files, ForFailure, How, Limits, Program, record};

use crate::check::inputs;
use crate::deadline::Deadline;
use crate::runs::Run;
use crate::sketch::program::printed;

/// So many events of an execution are kept.
const EVENTS: u64 = 1_000_000;
/// Of each file that an execution changes this much is compared.
const MOST_BYTES: u64 = 1 << 20;
/// An execution with a given order may take so many times as long as the longest that ended.
const SLOWER: u32 = 20;
/// A time-out that is shorter than so many times the longest says nothing.
const LONG: u32 = 6;

pub struct Executions<'a> {
    run: &'a Run,
    program: Program,
    /// What was said to the recorded run, if it had no client of its own.
    play: Option<Arc<Conversation>>,
    limit: Duration,
    deadline: Deadline,
    /// The files that executions find and change.
    pub files: Files,
    /// How long the longest execution took that ended by itself.
    longest: Option<Duration>,
}

impl<'a> Executions<'a> {
    pub fn new(
        run: &'a Run,
        program: &Program,
        trace: &Path,
        limit: Duration,
        deadline: Deadline,
    ) -> Result<Self> {
        let folder = run.path("replays");
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let conversation = Conversation::load(trace)?;
        let has_client = program.session.client.is_some();
        let play =
            (!has_client && !conversation.connections.is_empty()).then(|| Arc::new(conversation));
        Ok(Self {
            run,
            program: program.clone(),
            play,
            limit,
            deadline,
            files: inputs::private_files(run),
            longest: None,
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.run.path("replays").join(name)
    }
}

impl norns_classify::Program for Executions<'_> {
    type Error = anyhow::Error;

    fn execute(&mut self, how: ForFailure) -> Result<Executed> {
        let (trace, output) = (self.path("order.norns"), self.path("order.txt"));
        let sent = self.path("order.sent");
        let _ = fs::remove_file(&sent);
        fs::write(&output, "").with_context(|| format!("cannot write {}", output.display()))?;
        let usual = self
            .longest
            .map(|longest| longest * SLOWER + Duration::from_secs(1));
        let limits = Limits {
            time: (self.limit)
                .min(usual.unwrap_or(self.limit))
                .max(self.longest.unwrap_or_default() * LONG)
                .min(self.deadline.left().max(Duration::from_secs(1))),
            events: EVENTS,
            ..Limits::default()
        };
        let files = self.files.clone();
        let kept = Kept {
            trace: &trace,
            output: &output,
            input: &self.path("order.input"),
            sent: Some(&sent),
        };
        let begin = Instant::now();
        let recorded = record(
            &mut self.program,
            &kept,
            files.clone(),
            self.play.clone(),
            limits,
            How::ForFailure(how),
        )?;
        if matches!(recorded.ended, norns_replay::Ended::Exited(_)) {
            self.longest = self.longest.max(Some(begin.elapsed()));
        }
        Ok(Executed {
            ended: recorded.ended,
            output: printed(&output, 0)?,
            files: left(&files, &sent)?,
            trace: recorded.recording.trace,
            took: begin.elapsed(),
            allowed: limits.time,
        })
    }

    fn has_time(&self) -> bool {
        self.deadline.left() > self.longest.unwrap_or_default()
    }
}

/// What a run left besides its output: files, and what it sent.
fn left(files: &Files, sent: &Path) -> Result<Vec<(String, String)>> {
    let mut all = changed(files)?;
    match fs::read(sent) {
        Ok(bytes) => all.push((
            "what it sends".into(),
            String::from_utf8_lossy(&bytes).into(),
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", sent.display()));
        }
    }
    Ok(all)
}

/// The files of a private layer, by path, with what is in them.
fn changed(files: &Files) -> Result<Vec<(String, String)>> {
    let Files::Private { folder, .. } = files else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    collect(folder, folder, &mut all)
        .with_context(|| format!("cannot read {}", folder.display()))?;
    all.sort();
    Ok(all)
}

fn collect(root: &Path, folder: &Path, all: &mut Vec<(String, String)>) -> std::io::Result<()> {
    use std::io::Read;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(root, &path, all)?;
        } else if kind.is_file() {
            let name = path.strip_prefix(root).unwrap_or(&path);
            let mut bytes = Vec::new();
            let size = entry.metadata()?.len();
            fs::File::open(&path)?
                .take(MOST_BYTES)
                .read_to_end(&mut bytes)?;
            let text = match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => format!("{size} bytes, {:016x}", hash(error.as_bytes())),
            };
            all.push((format!("/{}", name.display()), text));
        }
    }
    Ok(())
}

/// FNV-1a: tells the contents of two files apart.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
