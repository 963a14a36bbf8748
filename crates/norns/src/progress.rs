//! What Norns is doing and how long it has been at it: one line on standard error.
//!
//! Only on a terminal, only once a stage has taken a second, and gone when the stage ends, so a
//! quick command shows nothing and a pipe or a log never sees it.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a stage stays silent, and how often its line is written again.
const PATIENCE: Duration = Duration::from_secs(1);
const REFRESH: Duration = Duration::from_millis(200);

/// A stage of work; it ends when this is dropped.
pub struct Stage {
    line: Option<(Sender<String>, JoinHandle<()>)>,
}

impl Stage {
    pub fn begin(name: &str) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if dumb || !std::io::stderr().is_terminal() {
            return Self { line: None };
        }
        let (sender, names) = mpsc::channel();
        let name = name.to_string();
        let thread = std::thread::spawn(move || {
            let begin = Instant::now();
            let mut name = name;
            let mut shown = false;
            loop {
                let wait = match shown {
                    true => REFRESH,
                    false => PATIENCE.saturating_sub(begin.elapsed()),
                };
                match names.recv_timeout(wait) {
                    Ok(now) => name = now,
                    Err(RecvTimeoutError::Timeout) => {
                        shown = true;
                        write(&line(&name, begin.elapsed()));
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            if shown {
                write("\r\x1b[K");
            }
        });
        Self {
            line: Some((sender, thread)),
        }
    }

    /// What the stage is doing now, such as `replaying 3 of 8`.
    pub fn now(&self, what: impl FnOnce() -> String) {
        if let Some((sender, _)) = &self.line {
            // The thread lives as long as the sender.
            let _ = sender.send(what());
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.line.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}

fn line(name: &str, spent: Duration) -> String {
    format!("\r\x1b[K{name} … {} s", spent.as_secs())
}

fn write(text: &str) {
    let mut error = std::io::stderr().lock();
    let _ = error.write_all(text.as_bytes());
    let _ = error.flush();
}
