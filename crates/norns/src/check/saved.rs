//! The program of a kept run, so that it can be run again in the same way.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use norns_replay::{Input, Program, Session};
use serde::{Deserialize, Serialize};

use crate::runs::Run;

#[derive(Serialize, Deserialize)]
struct Saved {
    format: u32,
    /// The words of the command as bytes: they need not be text.
    command: Vec<Vec<u8>>,
    folder: PathBuf,
    input: SavedInput,
    preload: Option<PathBuf>,
    #[serde(default)]
    plan: String,
    /// A command for the shell.
    #[serde(default)]
    client: Option<Vec<u8>>,
    #[serde(default)]
    until: Option<Duration>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SavedInput {
    Nothing,
    Inherited,
    /// What the recorded run got through a pipe.
    File(PathBuf),
    Regular {
        path: PathBuf,
        offset: u64,
    },
}

pub fn save(run: &Run, program: &Program) -> Result<()> {
    let words = program.command.iter();
    let saved = Saved {
        format: 1,
        command: words.map(|word| word.as_bytes().to_vec()).collect(),
        folder: program.folder.clone(),
        input: match &program.input {
            Input::Nothing => SavedInput::Nothing,
            // Every recording replaces `Copied` by what it has kept.
            Input::Inherited | Input::Copied => SavedInput::Inherited,
            Input::Kept(path) => SavedInput::File(path.clone()),
            Input::File { path, offset } => SavedInput::Regular {
                path: path.clone(),
                offset: *offset,
            },
        },
        preload: program.preload.clone(),
        plan: program.plan.clone(),
        client: { program.session.client.as_ref() }.map(|client| client.as_bytes().to_vec()),
        until: program.session.until,
    };
    run.save("program.json", &saved)
}

pub fn load(run: &Run) -> Result<Program> {
    let saved: Saved = run.load("program.json")?;
    Ok(Program {
        command: saved.command.into_iter().map(OsString::from_vec).collect(),
        folder: saved.folder,
        input: match saved.input {
            SavedInput::Nothing => Input::Nothing,
            SavedInput::Inherited => Input::Inherited,
            SavedInput::File(path) => Input::Kept(path),
            SavedInput::Regular { path, offset } => Input::File { path, offset },
        },
        preload: saved.preload,
        plan: saved.plan,
        session: Session {
            client: saved.client.map(OsString::from_vec),
            until: saved.until,
        },
    })
}
