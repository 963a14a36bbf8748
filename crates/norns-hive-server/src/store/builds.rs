//! Programs, their builds, and the sums of reports that the server keeps in memory.

use norns_hive::{Build, BuildId, CandidateId, ProgramName, Tally};

use super::{Database, Row, StoreError, Value, insert};

/// A program as it is stored.
pub struct Known {
    pub name: ProgramName,
    /// The hash of the token of its sites.
    pub site_token: String,
    pub builds: Vec<StoredBuild>,
}

pub struct StoredBuild {
    /// Without its sources.
    pub build: Build,
    pub added: i64,
}

/// All programs, each with the builds of which `have` says that they are new: program, build and when it was
/// added.
pub fn known(
    database: &mut dyn Database,
    have: &dyn Fn(&str, &str, i64) -> bool,
) -> Result<Vec<Known>, StoreError> {
    let mut programs = Vec::new();
    for row in database.run("SELECT name, site_token FROM programs ORDER BY name", &[])? {
        let [name, site_token] = two(&row)?;
        let name =
            ProgramName::new(name.text()?).map_err(|_| StoreError::Unexpected("a program"))?;
        programs.push(Known {
            name,
            site_token: site_token.text()?.to_owned(),
            builds: Vec::new(),
        });
    }
    for row in database.run(
        "SELECT program, id, added FROM builds ORDER BY added, id",
        &[],
    )? {
        let [program, id, added] = row.as_slice() else {
            return Err(StoreError::Unexpected("a row"));
        };
        let added = added.int()?;
        if have(program.text()?, id.text()?, added) {
            continue;
        }
        let select = "SELECT body FROM builds WHERE program = $1 AND id = $2";
        for row in database.run(select, &[program.clone(), id.clone()])? {
            let body = row.first().ok_or(StoreError::Unexpected("a row"))?;
            let build = serde_json::from_str(body.text()?);
            let build = build.map_err(|_| StoreError::Unexpected("a build"))?;
            let name = program.text()?;
            if let Some(owner) = programs.iter_mut().find(|it| it.name.as_str() == name) {
                owner.builds.push(StoredBuild { build, added });
            }
        }
    }
    Ok(programs)
}

fn two(row: &Row) -> Result<&[Value; 2], StoreError> {
    row.as_slice()
        .try_into()
        .map_err(|_| StoreError::Unexpected("a row"))
}

/// Stores a build, in place of what the hive has of it. Returns whether the program is new; only then is the
/// token taken.
pub fn add_build(
    database: &mut dyn Database,
    build: &Build,
    site_token: &str,
    now: i64,
) -> Result<bool, StoreError> {
    let program = Value::from(build.program.as_str());
    let id = Value::from(build.id.as_str());
    let row = vec![program.clone(), site_token.into(), now.into()];
    let tail = "ON CONFLICT (name) DO NOTHING RETURNING name";
    let new = insert(database, "programs (name, site_token, added)", &[row], tail)?;
    let without_sources = Build {
        sources: Default::default(),
        ..build.clone()
    };
    let body = serde_json::to_string(&without_sources).expect("a build has text keys");
    let row = vec![program.clone(), id.clone(), now.into(), Value::Text(body)];
    let tail =
        "ON CONFLICT (program, id) DO UPDATE SET body = excluded.body, added = excluded.added";
    insert(database, "builds (program, id, added, body)", &[row], tail)?;
    let delete = "DELETE FROM sources WHERE program = $1 AND build = $2";
    database.run(delete, &[program.clone(), id.clone()])?;
    let rows = build.sources.iter().map(|(path, text)| {
        // PostgreSQL has no zero characters.
        let text = Value::Text(text.replace('\0', "\u{fffd}"));
        vec![program.clone(), id.clone(), path.as_str().into(), text]
    });
    let rows: Vec<Row> = rows.collect();
    insert(
        database,
        "sources (program, build, path, content)",
        &rows,
        "",
    )?;
    Ok(!new.is_empty())
}

/// Replaces the token of the sites of a program.
pub fn set_site_token(
    database: &mut dyn Database,
    program: &ProgramName,
    token: &str,
) -> Result<(), StoreError> {
    // In the order in which the parameters are numbered.
    let update = "UPDATE programs SET site_token = $1 WHERE name = $2";
    database.run(update, &[token.into(), program.as_str().into()])?;
    Ok(())
}

/// The hashes of the tokens of people.
pub fn people(database: &mut dyn Database) -> Result<Vec<String>, StoreError> {
    let rows = database.run("SELECT token FROM people", &[])?;
    let tokens = rows
        .iter()
        .flatten()
        .map(|token| Ok(token.text()?.to_owned()));
    tokens.collect()
}

pub fn add_person(database: &mut dyn Database, token: &str, now: i64) -> Result<(), StoreError> {
    insert(
        database,
        "people (token, added)",
        &[vec![token.into(), now.into()]],
        "",
    )?;
    Ok(())
}

/// The text of a source of a build.
pub fn source(
    database: &mut dyn Database,
    program: &ProgramName,
    build: &BuildId,
    path: &str,
) -> Result<Option<String>, StoreError> {
    let select = "SELECT content FROM sources WHERE program = $1 AND build = $2 AND path = $3";
    let key = [program.as_str().into(), build.as_str().into(), path.into()];
    let rows = database.run(select, &key)?;
    let text = rows.first().and_then(|row| row.first());
    text.map(|text| Ok(text.text()?.to_owned())).transpose()
}

/// The tallies of all candidates of a program over all of its builds, and in how many runs different threads
/// were seen to touch the same address.
pub fn tallies(
    database: &mut dyn Database,
    program: &ProgramName,
) -> Result<Vec<(CandidateId, Tally, u64)>, StoreError> {
    let sums = [
        "race",
        "no_race",
        "timeout",
        "not_seen",
        "exhausted",
        "alternate",
        "failed",
        "context",
    ];
    let sums = sums
        .map(|name| format!("CAST(sum({name}) AS BIGINT)"))
        .join(", ");
    let select =
        format!("SELECT candidate, {sums} FROM tallies WHERE program = $1 GROUP BY candidate");
    let rows = database.run(&select, &[program.as_str().into()])?;
    let tallies = rows.iter().map(|row| {
        let [candidate, counts @ ..] = row.as_slice() else {
            return Err(StoreError::Unexpected("a row"));
        };
        let candidate = CandidateId::new(candidate.text()?);
        let candidate = candidate.map_err(|_| StoreError::Unexpected("a candidate"))?;
        let counts: Vec<u64> = counts.iter().map(Value::count).collect::<Result<_, _>>()?;
        let [
            race,
            no_race,
            timeout,
            not_seen,
            exhausted,
            alternate,
            failed,
            context,
        ] = counts[..]
        else {
            return Err(StoreError::Unexpected("a row"));
        };
        let tally = Tally {
            race,
            no_race,
            timeout,
            not_seen,
            exhausted,
            alternate,
            failed,
        };
        Ok((candidate, tally, context))
    });
    tallies.collect()
}
