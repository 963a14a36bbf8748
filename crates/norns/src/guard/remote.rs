//! A hive on the network. A thread talks to it, so that the agent never waits.
//!
//! Batches go to the spool first and are sent from there, the oldest first; then the hive is asked. When it is away, the
//! next attempt waits from one second up to a minute, a little differently at every site.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use norns_hive::client::{ClientError, Hive as Client};
use norns_hive::protocol::{Build, MAX_BATCH_BYTES, MAX_REPORTS, VERSION};
use norns_hive::{
    Batch, BatchId, BuildId, ParticipantId, ProgramName, Report, TaskId, TaskRequest,
};

use super::agent::{Answer, Hive};
use super::log::Log;
use super::random_digits;
use super::spool::Spool;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// When a hive that refuses a build is asked again.
const REFUSED: Duration = Duration::from_secs(600);

pub struct Remote {
    words: Sender<Word>,
    answers: Receiver<Answer>,
    participant: ParticipantId,
}

enum Word {
    Ask(ProgramName, TaskRequest),
    Report(ProgramName, Box<Batch>),
    /// Answers when nothing is left to send.
    Finish(Sender<()>),
}

/// How to reach a hive.
pub struct Address {
    pub url: String,
    /// For every program, or the one of each.
    pub token: Tokens,
    pub authorities: Option<std::path::PathBuf>,
}

pub enum Tokens {
    One(String),
    Kept(norns_hive::tokens::Tokens),
}

impl Address {
    pub fn client(&self, program: &ProgramName) -> Result<Client, ClientError> {
        let token = match &self.token {
            Tokens::One(token) => Some(token.clone()),
            Tokens::Kept(tokens) => tokens.of_sites(&self.url, program).map(str::to_owned),
        };
        Client::new(&self.url, token, self.authorities.as_deref())
    }
}

impl Remote {
    pub fn start(address: Address, participant: ParticipantId, spool: &Path, log: Log) -> Self {
        let (words, heard) = channel();
        let (answer, answers) = channel();
        let talk = Talk {
            spool: Spool::new(spool.to_owned()),
            address,
            log,
            heard,
            answer,
            clients: BTreeMap::new(),
            asked: BTreeMap::new(),
            finishing: Vec::new(),
            pause: Duration::ZERO,
            next: Instant::now(),
            lost: 0,
        };
        thread::spawn(move || talk.run());
        Self {
            words,
            answers,
            participant,
        }
    }

    /// Waits until everything is sent, but not longer than this: the rest stays in the spool.
    pub fn finish(&self, limit: Duration) {
        let (done, is_done) = channel();
        if self.words.send(Word::Finish(done)).is_ok() {
            let _ = is_done.recv_timeout(limit);
        }
    }
}

/// Batches that the hive accepts by their size.
pub fn batches(build: &Build, participant: &ParticipantId, reports: Vec<Report>) -> Vec<Batch> {
    /// Room for the other fields.
    const FIELDS: usize = 1024;
    let mut batches: Vec<Vec<Report>> = Vec::new();
    let mut bytes = 0;
    for report in reports {
        let size = serde_json::to_vec(&report).map_or(0, |text| text.len() + 1);
        let has_room = |last: &Vec<Report>| {
            last.len() < MAX_REPORTS && bytes + size < MAX_BATCH_BYTES - FIELDS
        };
        match batches.last_mut().filter(|last| has_room(last)) {
            Some(last) => last.push(report),
            None => {
                batches.push(vec![report]);
                bytes = 0;
            }
        }
        bytes += size;
    }
    let batches = batches.into_iter().map(|reports| Batch {
        format: VERSION,
        id: BatchId::new(random_digits()).expect("32 hexadecimal digits"),
        participant: participant.clone(),
        build: build.id.clone(),
        reports,
    });
    batches.collect()
}

impl Hive for Remote {
    fn ask(&mut self, build: &Build, active: Option<&TaskId>) {
        let request = TaskRequest {
            format: VERSION,
            participant: self.participant.clone(),
            build: build.id.clone(),
            active: active.cloned(),
        };
        let _ = self.words.send(Word::Ask(build.program.clone(), request));
    }

    fn report(&mut self, build: &Build, reports: Vec<Report>) {
        for batch in batches(build, &self.participant, reports) {
            let word = Word::Report(build.program.clone(), Box::new(batch));
            let _ = self.words.send(word);
        }
    }

    fn answers(&mut self) -> Vec<Answer> {
        self.answers.try_iter().collect()
    }
}

struct Talk {
    address: Address,
    spool: Spool,
    log: Log,
    heard: Receiver<Word>,
    answer: Sender<Answer>,
    clients: BTreeMap<ProgramName, Client>,
    asked: BTreeMap<BuildId, (ProgramName, TaskRequest)>,
    finishing: Vec<Sender<()>>,
    /// How long it was waited the last time; zero when the hive answered.
    pause: Duration,
    next: Instant,
    lost: u64,
}

impl Talk {
    fn run(mut self) {
        loop {
            let wait = self.next.saturating_duration_since(Instant::now());
            let has_work = !self.asked.is_empty() || !self.spool.is_empty();
            let word = match has_work {
                true => self.heard.recv_timeout(wait),
                // What another agent has left is looked for once in a while.
                false => self.heard.recv_timeout(LONGEST_PAUSE),
            };
            match word {
                Ok(word) => {
                    self.hears(word);
                    while let Ok(word) = self.heard.try_recv() {
                        self.hears(word);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() >= self.next {
                self.works();
            }
            if self.spool.is_empty() {
                self.finishing.drain(..).for_each(|done| {
                    let _ = done.send(());
                });
            }
        }
    }

    fn hears(&mut self, word: Word) {
        match word {
            Word::Ask(program, request) => {
                self.asked.insert(request.build.clone(), (program, request));
            }
            Word::Report(program, batch) => {
                if let Err(error) = self.spool.add(program, *batch) {
                    self.log.say(format_args!(
                        "a batch stays in memory, since it cannot be kept on disk: {error}"
                    ));
                }
                if self.spool.lost > self.lost {
                    let lost = self.spool.lost - self.lost;
                    self.lost = self.spool.lost;
                    self.log.say(format_args!(
                        "{lost} batches were given up: there are too many"
                    ));
                }
            }
            Word::Finish(done) => self.finishing.push(done),
        }
    }

    /// Sends what there is, until the hive does not answer.
    fn works(&mut self) {
        while let Some((place, kept)) = self.spool.oldest() {
            match self
                .client(&kept.program)
                .and_then(|it| it.report(&kept.program, &kept.batch))
            {
                Ok(_) => self.spool.remove(&place),
                Err(error) if is_temporary(&error) => return self.waits(&error),
                Err(error) => {
                    self.log.say(format_args!("a batch was refused: {error}"));
                    self.spool.remove(&place);
                }
            }
            self.pause = Duration::ZERO;
        }
        while let Some((build, (program, request))) = self.asked.pop_first() {
            match self
                .client(&program)
                .and_then(|it| it.task(&program, &request))
            {
                Ok(answer) => {
                    let seconds = answer.again_in_seconds.clamp(1, 24 * 3600);
                    let _ = self.answer.send(Answer {
                        build,
                        task: answer.task,
                        again: Duration::from_secs(seconds.into()),
                    });
                }
                Err(error) if is_temporary(&error) => {
                    self.asked.insert(build, (program, request));
                    return self.waits(&error);
                }
                Err(error) => {
                    self.log.say(format_args!("no task: {error}"));
                    let _ = self.answer.send(Answer {
                        build,
                        task: None,
                        again: REFUSED,
                    });
                }
            }
            self.pause = Duration::ZERO;
        }
    }

    fn client(&mut self, program: &ProgramName) -> Result<Client, ClientError> {
        if let Some(client) = self.clients.get(program) {
            return Ok(client.clone());
        }
        let client = self.address.client(program)?;
        self.clients.insert(program.clone(), client.clone());
        Ok(client)
    }

    fn waits(&mut self, error: &ClientError) {
        if self.pause.is_zero() {
            self.log.say(format_args!("{error}; it is tried again"));
        }
        self.pause = (2 * self.pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        // Up to a quarter more, so that a hive that comes back is not met by all sites at once.
        let part = u32::from_str_radix(&random_digits()[..4], 16).unwrap_or(0);
        self.next = Instant::now() + self.pause + self.pause * part / (4 * 0xffff);
    }
}

/// Also an answer that is not understood: that of a proxy, perhaps.
fn is_temporary(error: &ClientError) -> bool {
    error.is_temporary() || matches!(error, ClientError::Answer { .. })
}
