//! What participants ask and report.

use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use norns_hive::protocol::{Accepted, MAX_BATCH_BYTES, VERSION};
use norns_hive::{
    Batch, BuildId, CandidateId, ProgramName, Report, SiteNumber, Task, TaskRequest, TaskResponse,
    Verdict,
};

use super::{Problem, message, program_name, token};
use crate::hive::{Hive, hash};
use crate::metrics::Refusal;
use crate::now;
use crate::programs::{KnownBuild, Program};
use crate::store::{self, Incoming, TaskResult};
use crate::task_id::{Holder, NotGiven};

use std::sync::Arc;

/// How long a run goes on with what it does before it asks again.
const AGAIN_SECONDS: u32 = 60;
/// The same for a participant for which there is nothing to do.
const IDLE_SECONDS: u32 = 600;

pub async fn task(
    State(hive): State<&'static Hive>,
    Path(program): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<TaskResponse>, Problem> {
    let started = Instant::now();
    let program = authorised(hive, program, &headers)?;
    let request: TaskRequest = message(hive, body, MAX_BATCH_BYTES).await?;
    request.check().map_err(|why| malformed(hive, &why))?;
    let build = known_build(hive, &program, &request.build)?;
    within_quota(hive, &program, &request.participant, 1)?;
    let holder = Holder {
        program: &program.name,
        build: &request.build,
        participant: &request.participant,
    };
    let kept = request.active.as_ref().and_then(|active| {
        let task = hive.signer.read(holder, active, now()).ok()?.task;
        let wanted = program.tally(&task.candidate).0.verdict() != Verdict::TrueRace;
        (wanted && build.candidate(&task.candidate).is_some()).then_some(task)
    });
    let task = match kept {
        Some(task) => Some(task),
        None => choose(hive, &program, &build, holder).await?,
    };
    match task.is_some() {
        true => hive.metrics.tasks_given.increase(),
        false => hive.metrics.tasks_none.increase(),
    }
    hive.metrics.task_times.add(started.elapsed());
    let again_in_seconds = if task.is_some() {
        AGAIN_SECONDS
    } else {
        IDLE_SECONDS
    };
    Ok(Json(TaskResponse {
        format: VERSION,
        task,
        again_in_seconds,
    }))
}

async fn choose(
    hive: &Hive,
    program: &Program,
    build: &KnownBuild,
    holder: Holder<'_>,
) -> Result<Option<Task>, Problem> {
    let (name, participant) = (program.name.clone(), holder.participant.clone());
    let asked = hive
        .site_readers
        .ask(move |database| store::attempts(database, &name, &participant, now()));
    let (attempts, mine) = asked.await?;
    let number = crate::random();
    let Some(chosen) = program.choose(build, &attempts, mine, number) else {
        return Ok(None);
    };
    let what = (chosen.candidate, chosen.sites, chosen.order, chosen.tau_ms);
    let nonce = i64::try_from(crate::random() >> 1).expect("63 bits");
    Ok(Some(hive.signer.sign(holder, what, nonce, now())))
}

pub async fn reports(
    State(hive): State<&'static Hive>,
    Path(program): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Accepted>, Problem> {
    let program = authorised(hive, program, &headers)?;
    let batch: Batch = message(hive, body, MAX_BATCH_BYTES).await?;
    batch.check().map_err(|why| malformed(hive, &why))?;
    let build = known_build(hive, &program, &batch.build)?;
    within_quota(hive, &program, &batch.participant, batch.reports.len())?;
    let all = u32::try_from(batch.reports.len()).expect("fewer than MAX_REPORTS");
    let (incoming, refused) = examine(hive, &program.name, &build, batch);
    let stored = hive.writer.store(incoming).await?;
    hive.metrics.batches.increase();
    if stored.known {
        hive.metrics.batches_known.increase();
    }
    hive.metrics
        .refuse(Refusal::Replayed, stored.replayed.into());
    let refused = refused + stored.replayed;
    let accepted = if stored.known { 0 } else { all - refused };
    hive.metrics.reports.add(accepted.into());
    Ok(Json(Accepted {
        format: VERSION,
        accepted,
        refused,
        known: stored.known,
    }))
}

/// The reports of a batch that can be true, and how many cannot.
fn examine(
    hive: &Hive,
    program: &ProgramName,
    build: &KnownBuild,
    batch: Batch,
) -> (Incoming, u32) {
    let mut refused = 0;
    let mut refuse = |why| {
        hive.metrics.refuse(why, 1);
        refused += 1;
    };
    let mut incoming = Incoming {
        program: program.clone(),
        participant: batch.participant,
        build: batch.build,
        id: batch.id,
        tasks: Vec::new(),
        contexts: Vec::new(),
        runs: Vec::new(),
    };
    for report in batch.reports {
        match report {
            Report::Task(report) => {
                let holder = Holder {
                    program,
                    build: &incoming.build,
                    participant: &incoming.participant,
                };
                let candidate = build.candidate(&report.candidate);
                let exists = candidate.is_some_and(|candidate| candidate.has(report.sites));
                match hive.signer.reported(holder, &report, now()) {
                    Ok(signed) if exists => {
                        let nonce = signed.nonce;
                        incoming.tasks.push(TaskResult { nonce, report });
                    }
                    Ok(_) | Err(NotGiven::Forged) => refuse(Refusal::Forged),
                    Err(NotGiven::TooOld) => refuse(Refusal::Old),
                }
            }
            Report::Contexts { pairs } => {
                let between = |pair: [SiteNumber; 2]| build.between(pair).map(|it| it.id.clone());
                let found: Vec<CandidateId> = pairs.into_iter().flat_map(between).collect();
                if found.is_empty() {
                    refuse(Refusal::Forged);
                }
                incoming.contexts.extend(found);
            }
            Report::Run(figures) => incoming.runs.push(figures),
        }
    }
    // Counted once a batch, however many runs it speaks of.
    incoming.contexts.sort();
    incoming.contexts.dedup();
    (incoming, refused)
}

fn authorised(hive: &Hive, program: String, headers: &HeaderMap) -> Result<Arc<Program>, Problem> {
    let refused = || {
        hive.metrics.refuse(Refusal::Token, 1);
        Problem::token("the token for the sites of the program")
    };
    // Whether a program exists is told only to those who have its token.
    let program = hive
        .programs
        .get(&program_name(program)?)
        .ok_or_else(refused)?;
    let hashed = token(headers).map(hash).ok_or_else(refused)?;
    match hashed == program.site_token {
        true => Ok(program),
        false => Err(refused()),
    }
}

fn known_build(hive: &Hive, program: &Program, id: &BuildId) -> Result<Arc<KnownBuild>, Problem> {
    program.build(id).ok_or_else(|| {
        hive.metrics.refuse(Refusal::UnknownBuild, 1);
        Problem::not_found(format!("build {id} was not added to this hive"))
    })
}

fn within_quota(
    hive: &Hive,
    program: &Program,
    participant: &norns_hive::ParticipantId,
    amount: usize,
) -> Result<(), Problem> {
    if hive.quota.allows(&program.name, participant, amount, now()) {
        return Ok(());
    }
    hive.metrics.refuse(Refusal::Quota, 1);
    Err(Problem::quota())
}

fn malformed(hive: &Hive, why: &dyn std::fmt::Display) -> Problem {
    hive.metrics.refuse(Refusal::Malformed, 1);
    Problem::malformed(why)
}
