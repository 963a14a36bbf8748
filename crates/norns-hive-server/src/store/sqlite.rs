//! A database in a folder. The write-ahead log is synchronised at every commit, so that what was
//! acknowledged survives a crash of the process and of the machine.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};

use super::{Database, Row, StoreError, Value};

pub struct Sqlite {
    connection: Connection,
}

impl Sqlite {
    /// Takes the folder, which no other process may use meanwhile. The lock lasts as long as the file.
    pub fn lock(folder: &Path) -> Result<File, StoreError> {
        let failed = |reason| StoreError::Folder {
            folder: folder.display().to_string(),
            reason,
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::create(folder.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(std::fs::TryLockError::WouldBlock) => {
                Err(StoreError::InUse(folder.display().to_string()))
            }
            Err(std::fs::TryLockError::Error(reason)) => Err(failed(reason)),
        }
    }

    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let failed = |reason| StoreError::Sqlite {
            act: "open the database",
            reason,
        };
        let connection = Connection::open(folder.join("hive.sqlite")).map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(512);
        let settings =
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
                        PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 4000;";
        connection
            .busy_timeout(Duration::from_secs(10))
            .and_then(|()| connection.execute_batch(settings))
            .map_err(failed)?;
        Ok(Self { connection })
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Value::Int(number) => ToSqlOutput::from(*number),
            Value::Text(text) => ToSqlOutput::from(text.as_str()),
        })
    }
}

impl Database for Sqlite {
    fn run(&mut self, statement: &str, parameters: &[Value]) -> Result<Vec<Row>, StoreError> {
        let failed = |reason| StoreError::Sqlite {
            act: "run a statement",
            reason,
        };
        let mut prepared = self.connection.prepare_cached(statement).map_err(failed)?;
        let columns = prepared.column_count();
        let mut rows = prepared
            .query(params_from_iter(parameters))
            .map_err(failed)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let values = (0..columns).map(|column| match row.get_ref(column).map_err(failed)? {
                ValueRef::Integer(number) => Ok(Value::Int(number)),
                ValueRef::Text(text) => Ok(Value::Text(String::from_utf8_lossy(text).into_owned())),
                _ => Err(StoreError::Unexpected("a column")),
            });
            all.push(values.collect::<Result<Row, StoreError>>()?);
        }
        Ok(all)
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        self.run("BEGIN IMMEDIATE", &[]).map(|_| ())
    }
}
