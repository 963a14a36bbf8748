//! What an agent has to say: on standard error, or in a file beside its spool, since a guarded program has the terminal
//! for itself.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A log that has grown beyond this begins anew.
const MOST: u64 = 1 << 20;

#[derive(Clone)]
pub struct Log(Arc<Mutex<To>>);

enum To {
    StandardError,
    File(File),
    Nowhere,
}

impl Log {
    pub fn on_standard_error() -> Self {
        Self(Arc::new(Mutex::new(To::StandardError)))
    }

    /// In a file, if it can be written.
    pub fn in_file(path: &Path) -> Self {
        if fs::metadata(path).is_ok_and(|status| status.len() > MOST) {
            let _ = fs::rename(path, path.with_extension("log.old"));
        }
        let file = File::options().append(true).create(true).open(path);
        let to = file.map_or(To::Nowhere, To::File);
        Self(Arc::new(Mutex::new(to)))
    }

    /// One line. What it says may come from a network or a program: control characters are left out.
    pub fn say(&self, what: impl Display) {
        let line: String = format!("{what}")
            .chars()
            .filter(|letter| !letter.is_control())
            .collect();
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that cannot be written is no reason to stop.
        let _ = match &mut *to {
            To::StandardError => writeln!(std::io::stderr(), "norns: {line}"),
            To::File(file) => {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                let seconds = now.map_or(0, |now| now.as_secs());
                writeln!(file, "{seconds} {}: {line}", std::process::id())
            }
            To::Nowhere => Ok(()),
        };
    }
}
