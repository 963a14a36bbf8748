//! The tables, and how those of an older version become those of this one.

use super::{Database, StoreError, Value, transaction};

/// The statements that lead from each version to the next. A version that was released never changes.
const MIGRATIONS: &[&[&str]] = &[&[
    "CREATE TABLE programs (name TEXT PRIMARY KEY, site_token TEXT NOT NULL, added BIGINT NOT NULL)",
    // `body` is a `norns_hive::Build` without its sources.
    "CREATE TABLE builds (program TEXT NOT NULL, id TEXT NOT NULL, added BIGINT NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (program, id))",
    "CREATE TABLE sources (program TEXT NOT NULL, build TEXT NOT NULL, path TEXT NOT NULL, content TEXT NOT NULL,
        PRIMARY KEY (program, build, path))",
    // The sums of all reports; `context` counts runs that saw different threads touch the same address.
    "CREATE TABLE tallies (program TEXT NOT NULL, candidate TEXT NOT NULL, build TEXT NOT NULL,
        race BIGINT NOT NULL, no_race BIGINT NOT NULL, timeout BIGINT NOT NULL, not_seen BIGINT NOT NULL,
        exhausted BIGINT NOT NULL, alternate BIGINT NOT NULL, failed BIGINT NOT NULL, context BIGINT NOT NULL,
        PRIMARY KEY (program, candidate, build))",
    // What each participant has tried; `alternate` is 0 or 1.
    "CREATE TABLE attempts (program TEXT NOT NULL, participant TEXT NOT NULL, candidate TEXT NOT NULL,
        alternate BIGINT NOT NULL, reports BIGINT NOT NULL, timed_out BIGINT NOT NULL,
        PRIMARY KEY (program, participant, candidate, alternate))",
    // What was received, so that it counts once. Both are forgotten when they are too old to come again.
    "CREATE TABLE batches (program TEXT NOT NULL, participant TEXT NOT NULL, id TEXT NOT NULL,
        received BIGINT NOT NULL, PRIMARY KEY (program, participant, id))",
    "CREATE INDEX batches_by_age ON batches (received)",
    "CREATE TABLE tasks_done (nonce BIGINT PRIMARY KEY, received BIGINT NOT NULL)",
    "CREATE INDEX tasks_done_by_age ON tasks_done (received)",
    "CREATE TABLE hours (program TEXT NOT NULL, hour BIGINT NOT NULL, runs BIGINT NOT NULL,
        wall_ms BIGINT NOT NULL, cpu_ms BIGINT NOT NULL, runtime_us BIGINT NOT NULL, active_ms BIGINT NOT NULL,
        waited_ms BIGINT NOT NULL, reports BIGINT NOT NULL, races BIGINT NOT NULL, PRIMARY KEY (program, hour))",
    "CREATE TABLE loads (program TEXT NOT NULL, hour BIGINT NOT NULL, participant TEXT NOT NULL,
        tasks BIGINT NOT NULL, PRIMARY KEY (program, hour, participant))",
    // `body` is a `norns_hive::TaskReport`.
    "CREATE TABLE evidence (program TEXT NOT NULL, candidate TEXT NOT NULL, build TEXT NOT NULL,
        received BIGINT NOT NULL, body TEXT NOT NULL)",
    "CREATE INDEX evidence_of ON evidence (program, candidate, build)",
    // When a candidate first had each verdict.
    "CREATE TABLE verdicts (program TEXT NOT NULL, candidate TEXT NOT NULL, verdict TEXT NOT NULL,
        since BIGINT NOT NULL, PRIMARY KEY (program, candidate, verdict))",
    "CREATE TABLE people (token TEXT PRIMARY KEY, added BIGINT NOT NULL)",
]];

/// Brings the tables to this version.
pub fn migrate(database: &mut dyn Database) -> Result<(), StoreError> {
    // Two processes that create this table at once: PostgreSQL then refuses one of them.
    let create = "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, content TEXT NOT NULL)";
    if database.run(create, &[]).is_err() {
        database.run(create, &[])?;
    }
    let first = "INSERT INTO meta (name, content) VALUES ('schema', '0') ON CONFLICT DO NOTHING";
    database.run(first, &[])?;
    transaction(database, |database| {
        // Locks the row, so that another process waits here until this one is done.
        database.run(
            "UPDATE meta SET content = content WHERE name = 'schema'",
            &[],
        )?;
        let rows = database.run("SELECT content FROM meta WHERE name = 'schema'", &[])?;
        let text = rows.first().and_then(|row| row.first());
        let text = text.ok_or(StoreError::Unexpected("the version"))?.text()?;
        let version: i64 = text
            .parse()
            .map_err(|_| StoreError::Unexpected("the version"))?;
        let done = usize::try_from(version).map_err(|_| StoreError::Unexpected("the version"))?;
        let missing = MIGRATIONS
            .get(done..)
            .ok_or(StoreError::LaterSchema(version))?;
        for statement in missing.iter().copied().flatten() {
            database.run(statement, &[])?;
        }
        let version = Value::Text(MIGRATIONS.len().to_string());
        database.run(
            "UPDATE meta SET content = $1 WHERE name = 'schema'",
            &[version],
        )?;
        Ok(())
    })
}

/// The secret that tasks are signed with, the same for all processes that share the database; `fresh` if
/// there is none yet.
pub fn secret(database: &mut dyn Database, fresh: &str) -> Result<String, StoreError> {
    let keep = "INSERT INTO meta (name, content) VALUES ('secret', $1) ON CONFLICT DO NOTHING";
    database.run(keep, &[fresh.into()])?;
    let rows = database.run("SELECT content FROM meta WHERE name = 'secret'", &[])?;
    let row = rows.first().and_then(|row| row.first());
    Ok(row
        .ok_or(StoreError::Unexpected("the secret"))?
        .text()?
        .to_owned())
}
