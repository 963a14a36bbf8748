//! What a hive keeps on disk. `Database` is all that a database has to be able to do; the tables and every
//! statement are the same for SQLite and PostgreSQL.

mod builds;
mod evidence;
mod figures;
mod postgres;
mod reports;
mod schema;
mod sqlite;

pub use builds::{Known, add_build, add_person, known, people, set_site_token, source, tallies};
pub use evidence::{history, of_candidate, verdict_changes};
pub use figures::{Loads, hours, loads};
pub use postgres::Postgres;
pub use reports::{Change, Incoming, Stored, TaskResult, attempts, prune, store};
pub use schema::{migrate, secret};
pub use sqlite::Sqlite;

/// One value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Int(i64),
    Text(String),
}

pub type Row = Vec<Value>;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("SQLite cannot {act}: {reason}")]
    Sqlite {
        act: &'static str,
        reason: rusqlite::Error,
    },
    #[error("PostgreSQL cannot {act}: {reason}")]
    Postgres { act: &'static str, reason: String },
    #[error("the database was written by a later version: its tables have version {0}")]
    LaterSchema(i64),
    #[error("the database has a value of an unexpected kind in {0}")]
    Unexpected(&'static str),
    #[error("the folder {0} is used by another hive")]
    InUse(String),
    #[error("cannot use the folder {folder}: {reason}")]
    Folder {
        folder: String,
        reason: std::io::Error,
    },
}

/// A connection to a database. Statements have parameters `$1`, `$2`, …, first used in that order.
pub trait Database: Send {
    /// Runs a statement and returns its rows.
    fn run(&mut self, statement: &str, parameters: &[Value]) -> Result<Vec<Row>, StoreError>;

    /// Begins a transaction that may write.
    fn begin(&mut self) -> Result<(), StoreError>;
}

/// Does all of the work or nothing of it. When this returns without an error, it is on disk.
pub fn transaction<T>(
    database: &mut dyn Database,
    work: impl FnOnce(&mut dyn Database) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    database.begin()?;
    let done = work(database).and_then(|done| {
        database.run("COMMIT", &[])?;
        Ok(done)
    });
    if done.is_err() {
        // After some errors, as a full disk, the transaction has ended already.
        let _ = database.run("ROLLBACK", &[]);
    }
    done
}

/// Inserts rows, many in one statement. `tail` says what to do with rows that are there already.
fn insert(
    database: &mut dyn Database,
    head: &str,
    rows: &[Row],
    tail: &str,
) -> Result<Vec<Row>, StoreError> {
    /// Rows of one statement.
    const MANY: usize = 50;
    let mut returned = Vec::new();
    for rows in rows.chunks(MANY) {
        let mut number = 0;
        let tuples: Vec<String> = rows
            .iter()
            .map(|row| {
                let names: Vec<String> = row
                    .iter()
                    .map(|_| {
                        number += 1;
                        format!("${number}")
                    })
                    .collect();
                format!("({})", names.join(","))
            })
            .collect();
        let statement = format!("INSERT INTO {head} VALUES {} {tail}", tuples.join(","));
        let parameters: Vec<Value> = rows.iter().flatten().cloned().collect();
        returned.extend(database.run(&statement, &parameters)?);
    }
    Ok(returned)
}

impl Value {
    pub fn int(&self) -> Result<i64, StoreError> {
        match self {
            Value::Int(number) => Ok(*number),
            Value::Text(_) => Err(StoreError::Unexpected("a number")),
        }
    }

    /// A number that is not negative.
    pub fn count(&self) -> Result<u64, StoreError> {
        u64::try_from(self.int()?).map_err(|_| StoreError::Unexpected("a count"))
    }

    pub fn text(&self) -> Result<&str, StoreError> {
        match self {
            Value::Text(text) => Ok(text),
            Value::Int(_) => Err(StoreError::Unexpected("a text")),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl From<u64> for Value {
    /// Counts stay far below the limit.
    fn from(number: u64) -> Value {
        Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}
