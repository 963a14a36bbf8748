//! Who talks to the program while it runs, and when the program is told to stop.
//!
//! A server runs until it is stopped, and does nothing without a client. A session starts the client
//! as soon as the program listens and stops the program when the client has ended or the time is
//! over: by SIGTERM first, as an administrator would, and by SIGKILL if that does not help. In replays a
//! player takes the place of the client.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::conversation::Conversation;
use crate::listening::{self, Listening};
use crate::player::Player;
use crate::process::{Ended, Group, Output, terminate};

/// How long the program may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// How long the program gets to finish what the client began.
const SETTLES: Duration = Duration::from_millis(100);
/// How long a bound UDP port must have been the only sign of a server: it may be about to listen.
const ONLY_UDP: Duration = Duration::from_millis(300);

/// The client gets the port of the server in this variable of its environment.
pub const PORT: &str = "NORNS_PORT";

/// What a user said of the program's partner and its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// A command for the shell.
    pub client: Option<OsString>,
    /// How long the program runs before it is stopped.
    pub until: Option<Duration>,
}

/// What became of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visit {
    /// The program did not listen.
    NotStarted,
    /// The client ended with an error; completes "the client …".
    Failed(String),
    Ended,
    /// The client still ran when the program ended or was stopped.
    Stopped,
}

enum Stage {
    /// The program does not listen yet.
    Silent {
        udp_since: Option<Instant>,
    },
    Talks(Group),
    Plays(Player),
    /// The client has ended, the program may have something left to do.
    Settles {
        since: Instant,
    },
    /// The program was asked to stop.
    Asked {
        since: Instant,
    },
    /// No client; the program ends by itself or when the time is over.
    Alone,
}

/// The session of one run.
pub struct Attendance<'a> {
    session: &'a Session,
    play: Option<&'a Arc<Conversation>>,
    folder: &'a Path,
    output: &'a Output,
    start: Instant,
    stage: Stage,
    visit: Option<Visit>,
}

/// What the session wants to happen to the program.
pub enum Wish {
    GoOn,
    Kill,
}

impl<'a> Attendance<'a> {
    /// `play` takes the place of the client; `output` is where that of the program goes.
    pub fn begin(
        session: &'a Session,
        play: Option<&'a Arc<Conversation>>,
        folder: &'a Path,
        output: &'a Output,
    ) -> Self {
        let client = session.client.is_some() || play.is_some();
        Self {
            session,
            play,
            folder,
            output,
            start: Instant::now(),
            stage: match client {
                true => Stage::Silent { udp_since: None },
                false => Stage::Alone,
            },
            visit: (client && play.is_none()).then_some(Visit::NotStarted),
        }
    }

    /// Whether nothing will ever be wished.
    pub fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Alone) && self.session.until.is_none()
    }

    /// To be called again and again while the program runs.
    pub fn step(&mut self, program: i32) -> io::Result<Wish> {
        if let Stage::Asked { since } = self.stage {
            return Ok(match since.elapsed() > GRACE {
                true => Wish::Kill,
                false => Wish::GoOn,
            });
        }
        // What is played takes as long as it takes.
        let is_over = |until: Duration| self.start.elapsed() >= until && self.play.is_none();
        if self.session.until.is_some_and(is_over) {
            self.ask_to_stop(program);
            return Ok(Wish::GoOn);
        }
        match &mut self.stage {
            Stage::Silent { udp_since } => {
                let where_ = listening::of_process(program);
                if let Some(Listening::Udp { .. }) = where_
                    && udp_since.get_or_insert_with(Instant::now).elapsed() < ONLY_UDP
                {
                    return Ok(Wish::GoOn);
                }
                if let (Some(play), Some(_)) = (self.play, where_) {
                    self.stage = Stage::Plays(Player::start(play, program, self.start));
                } else if let (Some(client), Some(where_)) = (&self.session.client, where_) {
                    let mut command = self.command(client, where_)?;
                    self.stage = Stage::Talks(Group::start(&mut command)?);
                    self.visit = Some(Visit::Stopped);
                }
            }
            Stage::Talks(client) => {
                if let Some(status) = client.ended() {
                    self.visit = Some(judge(status));
                    let since = Instant::now();
                    self.stage = Stage::Settles { since };
                }
            }
            Stage::Plays(player) => {
                let is_stopped = self.session.client.is_some() || self.session.until.is_some();
                if player.is_done() {
                    self.stage = match is_stopped {
                        true => Stage::Settles {
                            since: Instant::now(),
                        },
                        false => Stage::Alone,
                    };
                }
            }
            Stage::Settles { since } => {
                if since.elapsed() >= SETTLES {
                    self.ask_to_stop(program);
                }
            }
            Stage::Asked { .. } | Stage::Alone => {}
        }
        Ok(Wish::GoOn)
    }

    fn command(&self, client: &OsString, server: Listening) -> io::Result<Command> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(client).current_dir(self.folder);
        command.stdin(Stdio::null());
        if let Some(port) = server.port() {
            command.env(PORT, port.to_string());
        }
        match self.output {
            Output::Ours => {}
            Output::Nowhere => {
                command.stdout(Stdio::null()).stderr(Stdio::null());
            }
            Output::File(program) => {
                let path = program.with_file_name("client.txt");
                let file = File::options().create(true).append(true).open(path)?;
                command.stdout(file.try_clone()?).stderr(file);
            }
        }
        Ok(command)
    }

    /// Dropping the client ends its whole process group.
    fn ask_to_stop(&mut self, program: i32) {
        self.stage = Stage::Asked {
            since: Instant::now(),
        };
        terminate(program);
    }

    /// How the program ended, knowing what it was asked for; and what became of the client.
    pub fn end(self, ended: Ended) -> (Ended, Option<Visit>) {
        const BY_TERM: i32 = 128 + libc::SIGTERM;
        let ended = match (&self.stage, ended) {
            (Stage::Asked { .. }, Ended::Signalled(libc::SIGTERM) | Ended::Exited(BY_TERM)) => {
                Ended::Stopped
            }
            (_, ended) => ended,
        };
        (ended, self.visit)
    }
}

fn judge(status: ExitStatus) -> Visit {
    match (status.success(), status.code()) {
        (true, _) => Visit::Ended,
        (false, Some(code)) => Visit::Failed(format!("exited with status {code}")),
        (false, None) => Visit::Failed("was killed by a signal".into()),
    }
}
