//! What runs have cost, by the hour, and how the work is spread.

use norns_hive::ProgramName;
use serde::Serialize;

use super::{Database, StoreError, Value};

/// The sums of one hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hour {
    /// Hours since 1970.
    pub hour: i64,
    pub runs: u64,
    pub wall_ms: u64,
    pub cpu_ms: u64,
    pub runtime_cpu_us: u64,
    pub active_ms: u64,
    pub waited_ms: u64,
    pub reports: u64,
    pub races: u64,
}

/// The last hours of a program in which anything was reported, the oldest first.
pub fn hours(
    database: &mut dyn Database,
    program: &ProgramName,
    since: i64,
) -> Result<Vec<Hour>, StoreError> {
    let select =
        "SELECT hour, runs, wall_ms, cpu_ms, runtime_us, active_ms, waited_ms, reports, races
        FROM hours WHERE program = $1 AND hour >= $2 ORDER BY hour";
    let rows = database.run(select, &[program.as_str().into(), since.into()])?;
    let hours = rows.iter().map(|row| {
        let counts: Vec<u64> = row.iter().map(Value::count).collect::<Result<_, _>>()?;
        let [
            hour,
            runs,
            wall_ms,
            cpu_ms,
            runtime_cpu_us,
            active_ms,
            waited_ms,
            reports,
            races,
        ] = counts[..]
        else {
            return Err(StoreError::Unexpected("a row"));
        };
        let hour = i64::try_from(hour).map_err(|_| StoreError::Unexpected("an hour"))?;
        Ok(Hour {
            hour,
            runs,
            wall_ms,
            cpu_ms,
            runtime_cpu_us,
            active_ms,
            waited_ms,
            reports,
            races,
        })
    });
    hours.collect()
}

/// What all participants of a program have done in an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Loads {
    pub tasks: u64,
    pub participants: u64,
}

pub fn loads(
    database: &mut dyn Database,
    program: &ProgramName,
    hour: i64,
) -> Result<Loads, StoreError> {
    let select = "SELECT CAST(coalesce(sum(tasks), 0) AS BIGINT), count(*) FROM loads
        WHERE program = $1 AND hour = $2";
    let rows = database.run(select, &[program.as_str().into(), hour.into()])?;
    let Some([tasks, participants]) = rows.first().map(Vec::as_slice) else {
        return Err(StoreError::Unexpected("a row"));
    };
    Ok(Loads {
        tasks: tasks.count()?,
        participants: participants.count()?,
    })
}
