//! What is kept of a candidate besides its counts: reports with a race or a failure, and its verdicts over time.

use norns_hive::protocol::{Evidence, VerdictChange};
use norns_hive::{BuildId, CandidateId, ProgramName, Verdict};

use super::{Database, Row, StoreError, Value};

/// The reports with a race or a failure, the newest build's last.
pub fn of_candidate(
    database: &mut dyn Database,
    program: &ProgramName,
    candidate: &CandidateId,
) -> Result<Vec<Evidence>, StoreError> {
    let select = "SELECT build, received, body FROM evidence WHERE program = $1 AND candidate = $2
        ORDER BY received LIMIT 50";
    let rows = database.run(
        select,
        &[program.as_str().into(), candidate.as_str().into()],
    )?;
    let evidence = rows.iter().map(|row| {
        let [build, received, body] = row.as_slice() else {
            return Err(StoreError::Unexpected("a row"));
        };
        Ok(Evidence {
            build: BuildId::new(build.text()?).map_err(|_| StoreError::Unexpected("a build"))?,
            received: received.int()?,
            report: serde_json::from_str(body.text()?)
                .map_err(|_| StoreError::Unexpected("a report"))?,
        })
    });
    evidence.collect()
}

/// The verdicts that a candidate had, the first first. Nothing follows a true race.
pub fn history(
    database: &mut dyn Database,
    program: &ProgramName,
    candidate: &CandidateId,
) -> Result<Vec<VerdictChange>, StoreError> {
    let select =
        "SELECT verdict, since FROM verdicts WHERE program = $1 AND candidate = $2 ORDER BY since";
    let rows = database.run(
        select,
        &[program.as_str().into(), candidate.as_str().into()],
    )?;
    let mut changes: Vec<VerdictChange> = rows.iter().map(change).collect::<Result<_, _>>()?;
    if let Some(last) = changes
        .iter()
        .position(|it| it.verdict == Verdict::TrueRace)
    {
        changes.truncate(last + 1);
    }
    Ok(changes)
}

/// When candidates of a program first had a verdict.
pub fn verdict_changes(
    database: &mut dyn Database,
    program: &ProgramName,
) -> Result<Vec<VerdictChange>, StoreError> {
    let select = "SELECT verdict, since FROM verdicts WHERE program = $1 ORDER BY since";
    let rows = database.run(select, &[program.as_str().into()])?;
    rows.iter().map(change).collect()
}

fn change(row: &Row) -> Result<VerdictChange, StoreError> {
    let [verdict, since] = row.as_slice() else {
        return Err(StoreError::Unexpected("a row"));
    };
    let verdict = match verdict.text()? {
        "true-race" => Verdict::TrueRace,
        "likely-false" => Verdict::LikelyFalse,
        _ => return Err(StoreError::Unexpected("a verdict")),
    };
    let at = Value::int(since)?;
    Ok(VerdictChange { verdict, at })
}
