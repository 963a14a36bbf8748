//! A PostgreSQL server, which several server processes can share.
//!
//! Each connection belongs to one thread, and drives itself only while that thread asks it something. A
//! connection that was lost is made again at the next transaction or question.

use std::collections::HashMap;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, NoTls, Statement};

use super::{Database, Row, StoreError, Value};

pub struct Postgres {
    runtime: Runtime,
    url: String,
    client: Client,
    statements: HashMap<String, Statement>,
    in_transaction: bool,
}

fn failed(act: &'static str) -> impl Fn(tokio_postgres::Error) -> StoreError {
    move |error| StoreError::Postgres {
        act,
        reason: match error.as_db_error() {
            Some(error) => error.message().to_owned(),
            None => error.to_string(),
        },
    }
}

impl Postgres {
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| StoreError::Postgres {
            act: "be used",
            reason: error.to_string(),
        })?;
        let client = connect(&runtime, url)?;
        Ok(Self {
            runtime,
            url: url.to_owned(),
            client,
            statements: HashMap::new(),
            in_transaction: false,
        })
    }

    /// Connects again where that was lost outside of a transaction.
    fn revive(&mut self) -> Result<(), StoreError> {
        if self.client.is_closed() && !self.in_transaction {
            self.client = connect(&self.runtime, &self.url)?;
            self.statements.clear();
        }
        Ok(())
    }

    fn prepared(&mut self, statement: &str) -> Result<Statement, StoreError> {
        if let Some(prepared) = self.statements.get(statement) {
            return Ok(prepared.clone());
        }
        let preparing = self.client.prepare(statement);
        let prepared = self
            .runtime
            .block_on(preparing)
            .map_err(failed("prepare a statement"))?;
        self.statements
            .insert(statement.to_owned(), prepared.clone());
        Ok(prepared)
    }
}

fn connect(runtime: &Runtime, url: &str) -> Result<Client, StoreError> {
    let mut config: tokio_postgres::Config =
        url.parse().map_err(failed("be reached by that URL"))?;
    config.connect_timeout(Duration::from_secs(10));
    config.application_name("norns hive");
    let (client, connection) = runtime
        .block_on(config.connect(NoTls))
        .map_err(failed("be reached"))?;
    // Ends with an error when the connection is lost; the next question then sees that it is closed.
    runtime.spawn(async move { connection.await.unwrap_or_default() });
    // What is acknowledged must be on disk, whatever the server's default is.
    let setting =
        client.batch_execute("SET synchronous_commit = on; SET client_min_messages = warning");
    runtime.block_on(setting).map_err(failed("be set up"))?;
    Ok(client)
}

impl Database for Postgres {
    fn run(&mut self, statement: &str, parameters: &[Value]) -> Result<Vec<Row>, StoreError> {
        self.revive()?;
        if matches!(statement, "COMMIT" | "ROLLBACK") {
            self.in_transaction = false;
            let ending = self.client.batch_execute(statement);
            return self
                .runtime
                .block_on(ending)
                .map_err(failed("commit"))
                .map(|()| Vec::new());
        }
        let prepared = self.prepared(statement)?;
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters
            .iter()
            .map(|value| match value {
                Value::Int(number) => number as &(dyn ToSql + Sync),
                Value::Text(text) => text as &(dyn ToSql + Sync),
            })
            .collect();
        let asking = self.client.query(&prepared, &parameters);
        let rows = self
            .runtime
            .block_on(asking)
            .map_err(failed("run a statement"))?;
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            let values = (0..row.len()).map(|column| {
                let Ok(Read(value)) = row.try_get::<_, Read>(column) else {
                    return Err(StoreError::Unexpected("a column"));
                };
                Ok(value)
            });
            all.push(values.collect::<Result<Row, StoreError>>()?);
        }
        Ok(all)
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        self.revive()?;
        let beginning = self.client.batch_execute("BEGIN");
        self.runtime
            .block_on(beginning)
            .map_err(failed("begin a transaction"))?;
        self.in_transaction = true;
        Ok(())
    }
}

/// A value of a column.
struct Read(Value);

impl<'a> FromSql<'a> for Read {
    fn from_sql(
        kind: &Type,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Read(match *kind {
            Type::INT8 => Value::Int(i64::from_sql(kind, raw)?),
            Type::INT4 => Value::Int(i32::from_sql(kind, raw)?.into()),
            _ => Value::Text(String::from_sql(kind, raw)?),
        }))
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::INT8 | Type::INT4 | Type::TEXT)
    }
}
