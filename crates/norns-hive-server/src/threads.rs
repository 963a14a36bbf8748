//! The threads that use the database. One writes: it takes everything that is waiting, stores it in one
//! transaction and answers after the commit, so that the cost of reaching the disk is shared. Others read.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::log::{self, Level};
use crate::metrics::Metrics;
use crate::programs::Programs;
use crate::store::{self, Database, Incoming, StoreError, Stored, transaction};
use crate::{now, task_id};

/// How many batches are stored together at most.
const MAX_GROUP: usize = 512;
/// How many may wait; beyond that the server says that it is busy.
const MAX_WAITING: usize = 4096;

/// Work on a database, and where its result goes.
type Job = Box<dyn FnOnce(&mut dyn Database) + Send>;

enum Work {
    Reports(Box<Incoming>, oneshot::Sender<Result<Stored, Failed>>),
    Other(Job),
}

/// Why something was not stored or not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    Busy,
    Store(String),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Failed::Store(error.to_string())
    }
}

/// The thread that writes.
#[derive(Clone)]
pub struct Writer {
    work: mpsc::Sender<Work>,
}

impl Writer {
    pub fn start(
        database: Box<dyn Database>,
        programs: &'static Programs,
        metrics: &'static Metrics,
    ) -> Self {
        let (work, waiting) = mpsc::channel(MAX_WAITING);
        std::thread::spawn(move || write(database, waiting, programs, metrics));
        Self { work }
    }

    /// Stores a batch. It is on disk when this returns.
    pub async fn store(&self, incoming: Incoming) -> Result<Stored, Failed> {
        let (answer, answered) = oneshot::channel();
        let work = Work::Reports(Box::new(incoming), answer);
        self.work.try_send(work).map_err(|_| Failed::Busy)?;
        answered.await.unwrap_or(Err(Failed::Busy))
    }

    /// Does something in a transaction of its own.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failed> {
        let (job, answered) = job(|database| transaction(database, work));
        self.work
            .try_send(Work::Other(job))
            .map_err(|_| Failed::Busy)?;
        answered.await.unwrap_or(Err(Failed::Busy))
    }
}

fn job<T: Send + 'static>(
    work: impl FnOnce(&mut dyn Database) -> Result<T, StoreError> + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T, Failed>>) {
    let (answer, answered) = oneshot::channel();
    let job: Job = Box::new(move |database| {
        // Who asked may have gone away.
        let _ = answer.send(work(database).map_err(Failed::from));
    });
    (job, answered)
}

fn write(
    mut database: Box<dyn Database>,
    mut waiting: mpsc::Receiver<Work>,
    programs: &Programs,
    metrics: &Metrics,
) {
    let mut pruned: Option<Instant> = None;
    while let Some(first) = waiting.blocking_recv() {
        let mut group = Vec::new();
        let mut next = Some(first);
        while let Some(work) = next {
            match work {
                Work::Reports(incoming, answer) => group.push((*incoming, answer)),
                Work::Other(job) => job(&mut *database),
            }
            next = match group.len() < MAX_GROUP {
                true => waiting.try_recv().ok(),
                false => None,
            };
        }
        store_group(&mut *database, group, programs, metrics);
        if pruned.is_none_or(|last| last.elapsed() > Duration::from_secs(3600)) {
            pruned = Some(Instant::now());
            let oldest = now() - task_id::VALID_SECONDS - 3600;
            let done = transaction(&mut *database, |database| store::prune(database, oldest));
            if let Err(error) = done {
                log::line(
                    Level::Warning,
                    "not-pruned",
                    &[("error", error.to_string().into())],
                );
            }
        }
    }
}

type Waiting = (Incoming, oneshot::Sender<Result<Stored, Failed>>);

fn store_group(
    database: &mut dyn Database,
    group: Vec<Waiting>,
    programs: &Programs,
    metrics: &Metrics,
) {
    if group.is_empty() {
        return;
    }
    let (batches, answers): (Vec<Incoming>, Vec<_>) = group.into_iter().unzip();
    let started = Instant::now();
    let stored = transaction(database, |database| store::store(database, &batches, now()));
    match stored {
        Ok((stored, changes)) => {
            metrics.commits.add(started.elapsed());
            programs.apply(&changes);
            for (answer, stored) in answers.into_iter().zip(stored) {
                let _ = answer.send(Ok(stored));
            }
        }
        // One batch that cannot be stored must not keep the others out.
        Err(error) if batches.len() > 1 => {
            metrics.failed_commits.increase();
            log::line(
                Level::Warning,
                "group-not-stored",
                &[("error", error.to_string().into())],
            );
            for alone in batches.into_iter().zip(answers) {
                store_group(database, vec![alone], programs, metrics);
            }
        }
        Err(error) => {
            metrics.failed_commits.increase();
            let failed = Failed::from(error);
            log::line(
                Level::Error,
                "not-stored",
                &[("error", format!("{failed:?}").into())],
            );
            for answer in answers {
                let _ = answer.send(Err(failed.clone()));
            }
        }
    }
}

/// Threads that read.
#[derive(Clone)]
pub struct Readers {
    work: jobs::Sender,
}

impl Readers {
    pub fn start(databases: Vec<Box<dyn Database>>) -> Self {
        let (work, waiting) = jobs::channel();
        for mut database in databases {
            let waiting = waiting.clone();
            std::thread::spawn(move || {
                while let Some(job) = jobs::next(&waiting) {
                    job(&mut *database);
                }
            });
        }
        Self { work }
    }

    pub async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failed> {
        let (job, answered) = job(work);
        self.work.try_send(job).map_err(|_| Failed::Busy)?;
        answered.await.unwrap_or(Err(Failed::Busy))
    }
}

/// A channel from which several threads take jobs.
mod jobs {
    use std::sync::{Arc, Mutex, PoisonError, mpsc};

    use super::{Job, MAX_WAITING};

    pub type Sender = mpsc::SyncSender<Job>;
    pub type Receiver = Arc<Mutex<mpsc::Receiver<Job>>>;

    pub fn channel() -> (Sender, Receiver) {
        let (sender, receiver) = mpsc::sync_channel(MAX_WAITING);
        (sender, Arc::new(Mutex::new(receiver)))
    }

    /// The next job; nothing once there are no senders.
    pub fn next(receiver: &Receiver) -> Option<Job> {
        receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv()
            .ok()
    }
}
