//! The tokens that a user has for hives, so that a command finds the one that it needs.
//!
//! `norns hive serve` puts the token for people there, `norns hive add` the one for the sites of a program.
//! The file can be read by its owner only. Elsewhere, as in a service, `NORNS_HIVE_TOKEN` has the token.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::id::ProgramName;

/// The tokens in the file of a user.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tokens {
    /// By address of the hive.
    hives: BTreeMap<String, OfHive>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct OfHive {
    people: Option<String>,
    #[serde(default)]
    programs: BTreeMap<String, String>,
}

/// Where the file is: in the folder of the user's configuration; nothing if there is none.
#[must_use]
pub fn file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config")))?;
    Some(folder.join("norns/hive-tokens.json"))
}

impl Tokens {
    /// The tokens of a file; none if it is not there.
    pub fn read(file: &Path) -> std::io::Result<Self> {
        match std::fs::read_to_string(file) {
            Ok(text) => Ok(serde_json::from_str(&text)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Replaces the file, in one step.
    pub fn write(&self, file: &Path) -> std::io::Result<()> {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let new = file.with_extension(format!("{}.new", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let mut written = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        written.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
        std::fs::rename(&new, file)
    }

    #[must_use]
    pub fn of_people(&self, url: &str) -> Option<&str> {
        self.hives.get(key(url))?.people.as_deref()
    }

    #[must_use]
    pub fn of_sites(&self, url: &str, program: &ProgramName) -> Option<&str> {
        let of_program = self.hives.get(key(url))?.programs.get(program.as_str());
        of_program.map(String::as_str)
    }

    pub fn set_people(&mut self, url: &str, token: String) {
        self.hives.entry(key(url).to_owned()).or_default().people = Some(token);
    }

    pub fn set_sites(&mut self, url: &str, program: &ProgramName, token: String) {
        let hive = self.hives.entry(key(url).to_owned()).or_default();
        hive.programs.insert(program.as_str().to_owned(), token);
    }
}

fn key(url: &str) -> &str {
    url.trim_end_matches('/')
}
