//! What an installation keeps: its number as a participant, and batches that were not sent yet. In
//! `$XDG_STATE_HOME/norns/guard` or `~/.local/state/norns/guard`.

use std::fs;
use std::path::{Path, PathBuf};

use norns_hive::ParticipantId;

use super::log::Log;
use super::random_digits;

pub struct State {
    folder: PathBuf,
}

impl State {
    pub fn open() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let state = set("XDG_STATE_HOME").map(PathBuf::from);
        let state = state.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")));
        let state = state.unwrap_or_else(std::env::temp_dir);
        Self::at(&state.join("norns/guard"))
    }

    pub fn at(folder: &Path) -> Self {
        // Where it cannot be made, everything is as new in every session.
        let _ = fs::create_dir_all(folder);
        Self {
            folder: folder.to_owned(),
        }
    }

    /// The number of this participant, made when it is first asked for.
    pub fn participant(&self) -> ParticipantId {
        let file = self.folder.join("participant");
        let read = || {
            let text = fs::read_to_string(&file).ok()?;
            ParticipantId::new(text.trim()).ok()
        };
        if let Some(participant) = read() {
            return participant;
        }
        let new = random_digits();
        let part = self.folder.join(format!("participant.{new}"));
        // Of two agents that make one at the same time, the number of the first stays.
        let written = fs::write(&part, &new).and_then(|()| fs::hard_link(&part, &file));
        let _ = fs::remove_file(&part);
        let kept = match written {
            Ok(()) => None,
            Err(_) => read(),
        };
        kept.unwrap_or_else(|| ParticipantId::new(new).expect("32 hexadecimal digits"))
    }

    /// Where batches for a hive wait.
    pub fn spool(&self, url: &str) -> PathBuf {
        let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "-.".contains(*letter);
        let name: String = url.trim_end_matches('/').chars().filter(is_plain).collect();
        self.folder.join("spool").join(name)
    }

    pub fn log(&self) -> Log {
        Log::in_file(&self.folder.join("agent.log"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_participant_keeps_its_number() {
        let folder = std::env::temp_dir().join(format!("norns-state-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let number = State::at(&folder).participant();
        assert_eq!(State::at(&folder).participant(), number);
        fs::write(folder.join("participant"), "garbage").expect("the folder is there");
        // A broken file is not believed, and stays.
        assert_ne!(State::at(&folder).participant(), number);
        let _ = fs::remove_dir_all(&folder);
        let spool = State::at(&folder).spool("http://127.0.0.1:7007/");
        assert!(spool.ends_with("spool/http127.0.0.17007"));
        let _ = fs::remove_dir_all(&folder);
    }
}
