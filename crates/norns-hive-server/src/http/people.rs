//! What people and their tools ask: programs, races, figures; and the builds that they add.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use norns_hive::protocol::{Added, Excerpt, MAX_BUILD_BYTES, Place, RaceDetail, VERSION};
use norns_hive::races::{FORMAT, Races};
use norns_hive::{Build, CandidateId, ProgramName, Verdict};
use serde_json::{Value, json};

use std::sync::Arc;

use super::{Problem, message, program_name, token};
use crate::hive::{Hive, fresh_token, hash};
use crate::log::{self, Level};
use crate::metrics::Refusal;
use crate::now;
use crate::programs::{KnownBuild, Program};
use crate::store::{self, Known};

/// Lines of source that are shown before and after a place.
const AROUND: u32 = 5;
/// Hours of which the figures are shown.
const HOURS: i64 = 48;

pub fn authorised(hive: &Hive, headers: &HeaderMap) -> Result<(), Problem> {
    if token(headers).is_some_and(|token| hive.is_person(&hash(token))) {
        return Ok(());
    }
    hive.metrics.refuse(Refusal::Token, 1);
    Err(Problem::token("the token for people"))
}

fn known(hive: &Hive, name: String) -> Result<Arc<Program>, Problem> {
    let name = program_name(name)?;
    let program = hive.programs.get(&name);
    program.ok_or_else(|| Problem::not_found(format!("there is no program {name}")))
}

pub async fn metrics(
    State(hive): State<&'static Hive>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    authorised(hive, &headers)?;
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((kind, hive.metrics.text()).into_response())
}

pub async fn programs(
    State(hive): State<&'static Hive>,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    authorised(hive, &headers)?;
    let programs: Vec<Value> = hive.programs.all().iter().map(|it| overview(it)).collect();
    Ok(Json(json!({"format": VERSION, "programs": programs})))
}

fn overview(program: &Program) -> Value {
    let builds: Vec<Value> = program
        .builds()
        .iter()
        .map(|it| build(program, it))
        .collect();
    json!({"name": program.name, "builds": builds})
}

fn build(program: &Program, known: &KnownBuild) -> Value {
    let [true_race, likely_false, unknown] = program.verdicts(known);
    json!({
        "id": known.build.id,
        "label": known.build.label,
        "added": known.added,
        "sites": known.build.sites.len(),
        "verdicts": {"true-race": true_race, "likely-false": likely_false, "unknown": unknown},
    })
}

pub async fn program(
    State(hive): State<&'static Hive>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    authorised(hive, &headers)?;
    let program = known(hive, name)?;
    let name = program.name.clone();
    let (hours, changes) = hive
        .people_readers
        .ask(move |database| {
            let hours = store::hours(database, &name, now() / 3600 - HOURS)?;
            Ok((hours, store::verdict_changes(database, &name)?))
        })
        .await?;
    let mut answer = overview(&program);
    answer["format"] = json!(VERSION);
    answer["now"] = json!(now());
    answer["hours"] = json!(hours);
    answer["verdicts"] = json!(changes);
    Ok(Json(answer))
}

pub async fn add_build(
    State(hive): State<&'static Hive>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Added>), Problem> {
    authorised(hive, &headers)?;
    let build: Build = message(hive, body, MAX_BUILD_BYTES).await?;
    let checked = build.check().map_err(|why| Problem::malformed(&why));
    checked.inspect_err(|_| hive.metrics.refuse(Refusal::Malformed, 1))?;
    if build.program.as_str() != name {
        let why = format!("the build is one of {}, not of {name}", build.program);
        return Err(Problem::malformed(&why));
    }
    let token = fresh_token();
    let hashed = hash(&token);
    let added = now();
    let program = build.program.clone();
    let (new, known, build) = hive
        .writer
        .run(move |database| {
            let new = store::add_build(database, &build, &hashed, added)?;
            let known = store::known(database, &|_, _, _| true)?;
            Ok((new, known, build))
        })
        .await?;
    hive.programs.learn(known);
    let fields = [
        ("program", json!(program)),
        ("build", json!(build.id)),
        ("candidates", json!(build.candidates.len())),
    ];
    log::line(Level::Information, "build-added", &fields);
    let owner = self::known(hive, program.to_string())?;
    let decided = |id: &CandidateId| owner.tally(id).0.verdict() != Verdict::Unknown;
    let carried_over = build.candidates.iter().filter(|it| decided(&it.id)).count();
    let candidates = build.candidates.len();
    owner.add(KnownBuild::new(build, added));
    hive.programs.changed();
    let small = |count: usize| u32::try_from(count).expect("fewer than MAX_CANDIDATES");
    let answer = Added {
        format: VERSION,
        candidates: small(candidates),
        carried_over: small(carried_over),
        site_token: new.then_some(token),
    };
    Ok((StatusCode::CREATED, Json(answer)))
}

pub async fn new_token(
    State(hive): State<&'static Hive>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    authorised(hive, &headers)?;
    let program = known(hive, name)?;
    let token = fresh_token();
    let (name, hashed) = (program.name.clone(), hash(&token));
    let stored = hashed.clone();
    let setting = hive
        .writer
        .run(move |database| store::set_site_token(database, &name, &stored));
    setting.await?;
    let name = program.name.clone();
    log::line(
        Level::Information,
        "token-replaced",
        &[("program", json!(name))],
    );
    hive.programs.learn(vec![Known {
        name,
        site_token: hashed,
        builds: Vec::new(),
    }]);
    Ok(Json(json!({"format": VERSION, "site_token": token})))
}

pub async fn all_races(
    State(hive): State<&'static Hive>,
    headers: HeaderMap,
) -> Result<Json<Races>, Problem> {
    authorised(hive, &headers)?;
    let races = hive
        .programs
        .all()
        .iter()
        .flat_map(|it| it.races().races)
        .collect();
    Ok(Json(Races {
        format: FORMAT,
        races,
    }))
}

pub async fn races(
    State(hive): State<&'static Hive>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Races>, Problem> {
    authorised(hive, &headers)?;
    Ok(Json(known(hive, name)?.races()))
}

pub async fn race(
    State(hive): State<&'static Hive>,
    Path((name, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<RaceDetail>, Problem> {
    authorised(hive, &headers)?;
    let program = known(hive, name)?;
    let id = CandidateId::new(id).map_err(|error| Problem::malformed(&error))?;
    let missing = || Problem::not_found(format!("{} has no candidate {id}", program.name));
    let build = program.newest_with(&id).ok_or_else(missing)?;
    let candidate = build.candidate(&id).cloned().ok_or_else(missing)?;
    let (tally, context) = program.tally(&id);
    let mut races = Races::new(&program.name, [(&candidate, tally)]).races;
    let race = races.pop().ok_or_else(missing)?;
    let (name, build_id, asked) = (
        program.name.clone(),
        build.build.id.clone(),
        candidate.clone(),
    );
    let (excerpts, evidence, history) = hive
        .people_readers
        .ask(move |database| {
            let mut excerpts = Vec::new();
            for place in &asked.places {
                excerpts.extend(excerpt(database, &name, &build_id, place)?);
            }
            let evidence = store::of_candidate(database, &name, &asked.id)?;
            Ok((
                excerpts,
                evidence,
                store::history(database, &name, &asked.id)?,
            ))
        })
        .await?;
    Ok(Json(RaceDetail {
        format: VERSION,
        race,
        candidate,
        build: build.build.id.clone(),
        context_seen: context > 0,
        excerpts,
        evidence,
        history,
    }))
}

fn excerpt(
    database: &mut dyn store::Database,
    program: &ProgramName,
    build: &norns_hive::BuildId,
    place: &Place,
) -> Result<Option<Excerpt>, store::StoreError> {
    let source = store::source(database, program, build, &place.file)?;
    let first = place.line.saturating_sub(AROUND).max(1);
    let count = (place.line + AROUND + 1).saturating_sub(first) as usize;
    Ok(source.map(|text| Excerpt {
        file: place.file.clone(),
        first,
        lines: text
            .lines()
            .skip(first as usize - 1)
            .take(count)
            .map(str::to_owned)
            .collect(),
    }))
}
