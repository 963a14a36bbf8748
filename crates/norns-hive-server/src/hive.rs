//! The hive of one process: what its parts share.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::log::{self, Level};
use crate::metrics::Metrics;
use crate::now;
use crate::programs::Programs;
use crate::quota::Quota;
use crate::store::{self, Database, Postgres, Sqlite, StoreError};
use crate::task_id::Signer;
use crate::threads::{Failed, Readers, Writer};

/// Threads that look up what participants have tried.
const SITE_READERS: usize = 2;

pub struct Hive {
    pub programs: &'static Programs,
    pub metrics: &'static Metrics,
    pub writer: Writer,
    /// Apart, so that what people ask does not delay tasks.
    pub site_readers: Readers,
    pub people_readers: Readers,
    pub signer: Signer,
    pub quota: Quota,
    pub ending: watch::Sender<bool>,
    people: RwLock<BTreeSet<String>>,
    shared: bool,
}

/// Where a hive keeps what it knows.
pub enum Place {
    Folder(PathBuf),
    Server(String),
}

/// What was opened besides the hive.
pub struct Opened {
    pub hive: &'static Hive,
    /// The token for people, if it was made just now.
    pub people_token: Option<String>,
}

/// The form in which tokens are stored. They are random, so that a plain hash is enough.
pub fn hash(token: &str) -> String {
    hexadecimal(&Sha256::digest(token.as_bytes()))
}

/// A token of 256 random bits.
pub fn fresh_token() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the kernel has random bytes");
    hexadecimal(&bytes)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Place {
    fn connect(&self) -> Result<Box<dyn Database>, StoreError> {
        Ok(match self {
            Place::Folder(folder) => Box::new(Sqlite::open(folder)?),
            Place::Server(url) => Box::new(Postgres::open(url)?),
        })
    }
}

/// Opens the database, brings its tables to this version and starts the threads. Of a folder the lock must be
/// held. Must not be called on a thread of the asynchronous runtime.
pub fn open(place: &Place, new_token: bool) -> Result<Opened, StoreError> {
    let mut database = place.connect()?;
    store::migrate(&mut *database)?;
    let secret = store::secret(&mut *database, &fresh_token())?;
    let people = store::people(&mut *database)?;
    let mut people: BTreeSet<String> = people.into_iter().collect();
    let people_token = (people.is_empty() || new_token).then(fresh_token);
    if let Some(token) = &people_token {
        store::add_person(&mut *database, &hash(token), now())?;
        people.insert(hash(token));
    }
    let programs: &'static Programs = Box::leak(Box::default());
    let metrics: &'static Metrics = Box::leak(Box::default());
    learn(&mut *database, programs)?;
    let readers = (0..SITE_READERS)
        .map(|_| place.connect())
        .collect::<Result<Vec<_>, _>>()?;
    let people_readers = Readers::start(vec![place.connect()?]);
    let writer = Writer::start(database, programs, metrics);
    let hive = Hive {
        programs,
        metrics,
        writer,
        site_readers: Readers::start(readers),
        people_readers,
        signer: Signer::new(&secret),
        quota: Quota::default(),
        ending: watch::Sender::new(false),
        people: RwLock::new(people),
        shared: matches!(place, Place::Server(_)),
    };
    let hive = Box::leak(Box::new(hive));
    Ok(Opened { hive, people_token })
}

/// Takes over what the database knows. Returns whether anything was new.
fn learn(database: &mut dyn Database, programs: &Programs) -> Result<bool, StoreError> {
    let have = |program: &str, build: &str, added: i64| programs.has_build(program, build, added);
    let known = store::known(database, &have)?;
    let mut new = known.iter().any(|program| !program.builds.is_empty());
    programs.learn(known);
    for program in programs.all() {
        new |= program.replace_tallies(store::tallies(database, &program.name)?);
    }
    Ok(new)
}

impl Hive {
    pub fn is_person(&self, hashed: &str) -> bool {
        let people = self.people.read().unwrap_or_else(PoisonError::into_inner);
        people.contains(hashed)
    }

    /// Follows what other processes do to the same database, and how the work is spread.
    pub async fn follow(&'static self) {
        let mut ticks: u64 = 0;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            ticks += 1;
            if self.shared
                && let Err(error) = self.follow_others().await
            {
                log::line(
                    Level::Warning,
                    "not-followed",
                    &[("error", format!("{error:?}").into())],
                );
            }
            if ticks.is_multiple_of(30) {
                self.measure_loads().await;
            }
        }
    }

    async fn follow_others(&'static self) -> Result<(), Failed> {
        let programs = self.programs;
        let asked = self.people_readers.ask(move |database| {
            let new = learn(database, programs)?;
            Ok((new, store::people(database)?))
        });
        let (new, people) = asked.await?;
        *self.people.write().unwrap_or_else(PoisonError::into_inner) = people.into_iter().collect();
        if new {
            programs.changed();
        }
        Ok(())
    }

    async fn measure_loads(&self) {
        for program in self.programs.all() {
            let name = program.name.clone();
            let asked = self
                .people_readers
                .ask(move |database| store::loads(database, &name, now() / 3600));
            if let Ok(loads) = asked.await {
                program.age(loads);
            }
        }
    }
}
