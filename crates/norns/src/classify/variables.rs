//! `--symbolic stdin:16,argv,file:PATH,env:NAME`: which bytes of the input are variable, and a run of the real
//! program with others in their place.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use norns_interpret::Input;
use norns_interpret::symbolic::{Mark, Marks, Source};
use norns_replay::{Files, Program};
use serde::{Deserialize, Serialize};

use crate::check::inputs::KEPT_FILES;
use crate::runs::Run;

/// So many bytes of one source are variable at most.
const MOST: u32 = 4096;

/// One word behind `--symbolic`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    what: What,
    /// How many bytes; otherwise as many as the recorded input has.
    bytes: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Arguments,
    StandardInput,
    File(String),
    Environment(String),
}

impl FromStr for Word {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let (rest, bytes) = match word.rsplit_once(':') {
            Some((rest, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                let bytes = number
                    .parse()
                    .ok()
                    .filter(|bytes| (1..=MOST).contains(bytes));
                let bytes = bytes.ok_or_else(|| format!("{number} is not from 1 to {MOST}"))?;
                (rest, Some(bytes))
            }
            _ => (word, None),
        };
        let what = match rest.split_once(':') {
            None if rest == "stdin" => What::StandardInput,
            None if rest == "argv" => What::Arguments,
            Some(("file", path)) if !path.is_empty() => What::File(path.into()),
            Some(("env", name)) if !name.is_empty() => What::Environment(name.into()),
            _ => {
                return Err(format!(
                    "`{word}` is none of stdin, argv, file:PATH and env:NAME, each with `:BYTES` or without"
                ));
            }
        };
        Ok(Word { what, bytes })
    }
}

/// The variable bytes of a program's input; the input gets the files and variables that they are in.
pub fn marks(words: &[Word], input: &mut Input, folder: &Path) -> Result<Marks> {
    let mut all = Vec::new();
    for word in words {
        let mut add = |source, length: usize| {
            let length = u32::try_from(length).unwrap_or(MOST).min(MOST);
            let bytes = word.bytes.unwrap_or(length);
            if bytes > 0 {
                all.push(Mark { source, bytes });
            }
        };
        match &word.what {
            What::Arguments => {
                for (number, argument) in input.arguments.iter().enumerate().skip(1) {
                    add(Source::Argument(number), argument.len());
                }
            }
            What::StandardInput => add(Source::StandardInput, input.standard_input.len()),
            What::File(path) => {
                let full = folder.join(path);
                let content =
                    fs::read(&full).with_context(|| format!("cannot read {}", full.display()))?;
                add(Source::File(path.clone().into_bytes()), content.len());
                input.files.insert(path.clone().into_bytes(), content);
            }
            What::Environment(name) => {
                let value = std::env::var_os(name).unwrap_or_default();
                add(Source::Environment(name.clone().into_bytes()), value.len());
                let line = [name.as_bytes(), b"=", value.as_bytes()].concat();
                input.environment.push(line);
            }
        }
    }
    Ok(Marks(all))
}

/// An input that a search has found, as it is kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SavedInput {
    arguments: Vec<Vec<u8>>,
    /// Only if it is not the recorded one.
    standard_input: Option<Vec<u8>>,
    files: Vec<(String, Vec<u8>)>,
    /// Lines `NAME=value`.
    environment: Vec<Vec<u8>>,
}

impl SavedInput {
    pub fn of(marks: &Marks, input: &Input) -> Self {
        let mut saved = Self {
            arguments: input.arguments.clone(),
            ..Self::default()
        };
        for mark in &marks.0 {
            match &mark.source {
                Source::Argument(_) => {}
                Source::StandardInput => saved.standard_input = Some(input.standard_input.clone()),
                Source::File(path) => {
                    let content = input.files.get(path).cloned().unwrap_or_default();
                    let path = String::from_utf8_lossy(path).into_owned();
                    saved.files.push((path, content));
                }
                Source::Environment(name) => {
                    let is_it = |line: &&Vec<u8>| line.starts_with(&[name, &b"="[..]].concat());
                    saved
                        .environment
                        .extend(input.environment.iter().find(is_it).cloned());
                }
            }
        }
        saved
    }

    /// In words, as the finding shows it.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        let shown = |bytes: &[u8]| format!("\"{}\"", bytes.escape_ascii());
        if let [_, arguments @ ..] = &self.arguments[..]
            && !arguments.is_empty()
        {
            let all: Vec<String> = arguments.iter().map(|one| shown(one)).collect();
            parts.push(format!("arguments {}", all.join(" ")));
        }
        parts.extend(
            self.standard_input
                .iter()
                .map(|bytes| format!("standard input {}", shown(bytes))),
        );
        let files = self.files.iter();
        parts.extend(files.map(|(path, bytes)| format!("file {path} {}", shown(bytes))));
        let lines = self.environment.iter();
        parts.extend(lines.map(|line| format!("environment {}", shown(line))));
        parts.join(", ")
    }

    /// The program with this input, and the files that it finds. `name` tells the inputs of a run apart.
    pub fn program(&self, run: &Run, program: &Program, name: &str) -> Result<(Program, Files)> {
        let folder = run.path(&format!("{name}.input"));
        let kept = folder.join("files");
        fs::create_dir_all(&kept).with_context(|| format!("cannot create {}", kept.display()))?;
        let mut changed = program.clone();
        let words = self
            .arguments
            .iter()
            .map(|word| OsString::from_vec(word.clone()));
        changed.command = words.collect();
        changed.command[0] = program.command[0].clone();
        if !self.environment.is_empty() {
            let lines = self
                .environment
                .iter()
                .map(|line| OsString::from_vec(line.clone()));
            let words = std::iter::once("env".into()).chain(lines);
            changed.command = words.chain(changed.command).collect();
        }
        if let Some(bytes) = &self.standard_input {
            let path = folder.join("stdin");
            write(&path, bytes)?;
            changed.input = norns_replay::Input::File { path, offset: 0 };
        }
        let original = run.path(KEPT_FILES);
        if original.exists() {
            copy(&original, &kept)?;
        }
        for (path, bytes) in &self.files {
            let full: PathBuf = program.folder.join(path);
            let inside = kept.join(full.strip_prefix("/").unwrap_or(&full));
            if let Some(parent) = inside.parent() {
                fs::create_dir_all(parent)
                    .with_context(|| format!("cannot create {}", parent.display()))?;
            }
            write(&inside, bytes)?;
        }
        let files = Files::Private {
            kept,
            folder: run.path("replays/files"),
        };
        Ok((changed, files))
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Copies a layer of files; links in it say which files were not there.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            fs::create_dir_all(&target)?;
            copy(&source, &target)?;
        } else if kind.is_symlink() {
            let _ = fs::remove_file(&target);
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else {
            fs::copy(&source, &target)
                .with_context(|| format!("cannot copy {}", source.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_a_source_and_perhaps_a_length() {
        let word = |text: &str| text.parse::<Word>();
        assert_eq!(
            word("stdin:16"),
            Ok(Word {
                what: What::StandardInput,
                bytes: Some(16)
            })
        );
        assert_eq!(word("argv").unwrap().what, What::Arguments);
        assert_eq!(word("file:a:b").unwrap().what, What::File("a:b".into()));
        assert_eq!(word("env:HOME:4").unwrap().bytes, Some(4));
        for wrong in ["stdin:0", "argw", "file:", "env", "stdin:99999", ""] {
            assert!(word(wrong).is_err(), "{wrong}");
        }
    }
}
