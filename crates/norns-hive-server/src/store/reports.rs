//! Reports: stored many in one transaction, each once.

use std::collections::{BTreeMap, BTreeSet};

use norns_hive::assignment::Attempt;
use norns_hive::{
    Attempts, BatchId, BuildId, CandidateId, Order, Outcome, ParticipantId, ProgramName,
    RunFigures, Tally, TaskReport, Verdict,
};

use super::{Database, Row, StoreError, Value, insert};

/// A batch whose reports were found to be about tasks that were given to this participant.
pub struct Incoming {
    pub program: ProgramName,
    pub participant: ParticipantId,
    pub build: BuildId,
    pub id: BatchId,
    pub tasks: Vec<TaskResult>,
    /// Candidates at which different threads touched the same address.
    pub contexts: Vec<CandidateId>,
    pub runs: Vec<RunFigures>,
}

pub struct TaskResult {
    /// The number of the task: each is reported once.
    pub nonce: i64,
    pub report: TaskReport,
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// The batch had been stored before; nothing of it was counted again.
    pub known: bool,
    /// Tasks that had been reported before.
    pub replayed: u32,
}

/// What changed for a candidate.
pub struct Change {
    pub program: ProgramName,
    pub candidate: CandidateId,
    pub tally: Tally,
    pub context: u64,
}

/// The rows that several batches change together. Rows are written in the order of their keys, table by
/// table, so that processes which do this at the same time wait for each other and never in a circle.
#[derive(Default)]
struct Sums {
    tallies: BTreeMap<(ProgramName, CandidateId, BuildId), (Tally, u64)>,
    attempts: BTreeMap<(ProgramName, ParticipantId, CandidateId, bool), Attempt>,
    hours: BTreeMap<ProgramName, [u64; 8]>,
    loads: BTreeMap<(ProgramName, ParticipantId), u64>,
    evidence: Vec<(ProgramName, CandidateId, BuildId, String)>,
}

/// How many reports with a race or a failure are kept of each candidate and build.
const MAX_EVIDENCE: u64 = 5;

/// Stores batches in the transaction that is under way: for each what became of it, and all changes.
pub fn store(
    database: &mut dyn Database,
    batches: &[Incoming],
    now: i64,
) -> Result<(Vec<Stored>, Vec<Change>), StoreError> {
    let new = new_batches(database, batches, now)?;
    let unreported = unreported(database, batches, &new, now)?;
    let mut sums = Sums::default();
    let mut stored = Vec::with_capacity(batches.len());
    for (batch, &new) in batches.iter().zip(&new) {
        let mut replayed = 0;
        if new {
            let mut seen = BTreeSet::new();
            for task in &batch.tasks {
                if unreported.contains(&task.nonce) && seen.insert(task.nonce) {
                    sums.task(batch, &task.report);
                } else {
                    replayed += 1;
                }
            }
            sums.batch(batch);
        }
        stored.push(Stored {
            known: !new,
            replayed,
        });
    }
    sums.write(database, now)?;
    let changes = sums
        .tallies
        .into_iter()
        .map(|((program, candidate, _), (tally, context))| Change {
            program,
            candidate,
            tally,
            context,
        });
    Ok((stored, changes.collect()))
}

/// For each batch whether it is new.
fn new_batches(
    database: &mut dyn Database,
    batches: &[Incoming],
    now: i64,
) -> Result<Vec<bool>, StoreError> {
    let key = |batch: &Incoming| {
        let of = [
            batch.program.as_str(),
            batch.participant.as_str(),
            batch.id.as_str(),
        ];
        of.map(str::to_owned)
    };
    let keys: BTreeSet<[String; 3]> = batches.iter().map(key).collect();
    let rows: Vec<Row> = keys
        .into_iter()
        .map(|key| {
            key.into_iter()
                .map(Value::Text)
                .chain([now.into()])
                .collect()
        })
        .collect();
    let head = "batches (program, participant, id, received)";
    let tail = "ON CONFLICT DO NOTHING RETURNING program, participant, id";
    let mut new = BTreeSet::new();
    for row in insert(database, head, &rows, tail)? {
        let texts = row.iter().map(|value| Ok(value.text()?.to_owned()));
        new.insert(texts.collect::<Result<Vec<String>, StoreError>>()?);
    }
    // The same batch twice in one group counts once.
    Ok(batches
        .iter()
        .map(|batch| new.remove(key(batch).as_slice()))
        .collect())
}

/// The tasks of new batches that were not reported before.
fn unreported(
    database: &mut dyn Database,
    batches: &[Incoming],
    new: &[bool],
    now: i64,
) -> Result<BTreeSet<i64>, StoreError> {
    let of_new = batches.iter().zip(new).filter(|(_, new)| **new);
    let nonces: BTreeSet<i64> = of_new
        .flat_map(|(batch, _)| batch.tasks.iter().map(|task| task.nonce))
        .collect();
    let rows: Vec<Row> = nonces
        .into_iter()
        .map(|nonce| vec![nonce.into(), now.into()])
        .collect();
    let tail = "ON CONFLICT DO NOTHING RETURNING nonce";
    let returned = insert(database, "tasks_done (nonce, received)", &rows, tail)?;
    returned
        .iter()
        .map(|row| row.first().ok_or(StoreError::Unexpected("a row"))?.int())
        .collect()
}

impl Sums {
    fn task(&mut self, batch: &Incoming, report: &TaskReport) {
        let candidate = &report.candidate;
        let key = (
            batch.program.clone(),
            candidate.clone(),
            batch.build.clone(),
        );
        self.tallies.entry(key).or_default().0.add(report);
        let alternate = report.order == Order::Alternate;
        let key = (
            batch.program.clone(),
            batch.participant.clone(),
            candidate.clone(),
            alternate,
        );
        let attempt = self.attempts.entry(key).or_default();
        attempt.reports += 1;
        if report.result == Outcome::Timeout {
            attempt.timed_out_ms = attempt.timed_out_ms.max(report.tau_ms);
        }
        let hour = self.hours.entry(batch.program.clone()).or_default();
        hour[6] += 1;
        hour[7] += u64::from(report.result == Outcome::Race);
        *self
            .loads
            .entry((batch.program.clone(), batch.participant.clone()))
            .or_default() += 1;
        if report.result == Outcome::Race || report.consequence.is_some() {
            let body = serde_json::to_string(report).expect("a report has text keys");
            let of = (
                batch.program.clone(),
                candidate.clone(),
                batch.build.clone(),
                body,
            );
            self.evidence.push(of);
        }
    }

    fn batch(&mut self, batch: &Incoming) {
        for candidate in &batch.contexts {
            let key = (
                batch.program.clone(),
                candidate.clone(),
                batch.build.clone(),
            );
            self.tallies.entry(key).or_default().1 += 1;
        }
        for run in &batch.runs {
            let hour = self.hours.entry(batch.program.clone()).or_default();
            let figures = [
                u64::from(run.ended),
                run.wall_ms,
                run.cpu_ms,
                run.runtime_cpu_us,
                run.active_ms,
                run.waited_ms,
            ];
            for (sum, figure) in hour.iter_mut().zip(figures) {
                // A participant may claim anything: what it claims must not make the sum overflow.
                *sum = sum.saturating_add(figure.min(1 << 40));
            }
        }
    }

    fn write(&self, database: &mut dyn Database, now: i64) -> Result<(), StoreError> {
        self.write_tallies(database, now)?;
        let rows =
            self.attempts
                .iter()
                .map(|((program, participant, candidate, alternate), it)| {
                    let mut row: Row = vec![
                        program.as_str().into(),
                        participant.as_str().into(),
                        candidate.as_str().into(),
                    ];
                    row.extend(
                        [
                            u64::from(*alternate),
                            it.reports.into(),
                            it.timed_out_ms.into(),
                        ]
                        .map(Value::from),
                    );
                    row
                });
        let tail = "ON CONFLICT (program, participant, candidate, alternate) DO UPDATE SET
            reports = attempts.reports + excluded.reports,
            timed_out = CASE WHEN excluded.timed_out > attempts.timed_out THEN excluded.timed_out
                        ELSE attempts.timed_out END";
        let head = "attempts (program, participant, candidate, alternate, reports, timed_out)";
        insert(database, head, &rows.collect::<Vec<Row>>(), tail)?;
        let hour = Value::from(now / 3600);
        let names = [
            "runs",
            "wall_ms",
            "cpu_ms",
            "runtime_us",
            "active_ms",
            "waited_ms",
            "reports",
            "races",
        ];
        let rows = self.hours.iter().map(|(program, figures)| {
            let key = [program.as_str().into(), hour.clone()];
            key.into_iter()
                .chain(figures.iter().map(|&it| it.into()))
                .collect()
        });
        let head = format!("hours (program, hour, {})", names.join(", "));
        let tail = format!(
            "ON CONFLICT (program, hour) DO UPDATE SET {}",
            added("hours", &names)
        );
        insert(database, &head, &rows.collect::<Vec<Row>>(), &tail)?;
        let rows = self.loads.iter().map(|((program, participant), &tasks)| {
            vec![
                program.as_str().into(),
                hour.clone(),
                participant.as_str().into(),
                tasks.into(),
            ]
        });
        let tail = format!(
            "ON CONFLICT (program, hour, participant) DO UPDATE SET {}",
            added("loads", &["tasks"])
        );
        insert(
            database,
            "loads (program, hour, participant, tasks)",
            &rows.collect::<Vec<Row>>(),
            &tail,
        )?;
        self.write_evidence(database, now)
    }

    fn write_tallies(&self, database: &mut dyn Database, now: i64) -> Result<(), StoreError> {
        let names = [
            "race",
            "no_race",
            "timeout",
            "not_seen",
            "exhausted",
            "alternate",
            "failed",
            "context",
        ];
        let mut verdicts = BTreeSet::new();
        let rows = self
            .tallies
            .iter()
            .map(|((program, candidate, build), (tally, context))| {
                let verdict = tally.verdict();
                if verdict != Verdict::Unknown {
                    verdicts.insert((program.as_str(), candidate.as_str(), verdict.name()));
                }
                let of = [program.as_str(), candidate.as_str(), build.as_str()].map(Value::from);
                let Tally {
                    race,
                    no_race,
                    timeout,
                    not_seen,
                    exhausted,
                    alternate,
                    failed,
                } = *tally;
                let counts = [
                    race, no_race, timeout, not_seen, exhausted, alternate, failed, *context,
                ];
                of.into_iter().chain(counts.map(Value::from)).collect()
            });
        let rows: Vec<Row> = rows.collect();
        let head = format!("tallies (program, candidate, build, {})", names.join(", "));
        let tail = format!(
            "ON CONFLICT (program, candidate, build) DO UPDATE SET {}",
            added("tallies", &names)
        );
        insert(database, &head, &rows, &tail)?;
        let rows = verdicts.into_iter().map(|(program, candidate, verdict)| {
            vec![program.into(), candidate.into(), verdict.into(), now.into()]
        });
        let head = "verdicts (program, candidate, verdict, since)";
        insert(
            database,
            head,
            &rows.collect::<Vec<Row>>(),
            "ON CONFLICT DO NOTHING",
        )?;
        Ok(())
    }

    fn write_evidence(&self, database: &mut dyn Database, now: i64) -> Result<(), StoreError> {
        let mut counts = BTreeMap::new();
        for (program, candidate, build, body) in &self.evidence {
            let key = [program.as_str(), candidate.as_str(), build.as_str()].map(Value::from);
            let count = match counts.get_mut(&(program, candidate, build)) {
                Some(count) => count,
                None => {
                    let select = "SELECT count(*) FROM evidence WHERE program = $1 AND candidate = $2 AND build = $3";
                    let rows = database.run(select, &key)?;
                    let count = rows.first().and_then(|row| row.first());
                    let count = count.ok_or(StoreError::Unexpected("a count"))?.count()?;
                    counts.entry((program, candidate, build)).or_insert(count)
                }
            };
            if *count < MAX_EVIDENCE {
                *count += 1;
                let row = key
                    .into_iter()
                    .chain([now.into(), body.as_str().into()])
                    .collect();
                insert(
                    database,
                    "evidence (program, candidate, build, received, body)",
                    &[row],
                    "",
                )?;
            }
        }
        Ok(())
    }
}

fn added(table: &str, names: &[&str]) -> String {
    let sums = names
        .iter()
        .map(|name| format!("{name} = {table}.{name} + excluded.{name}"));
    sums.collect::<Vec<String>>().join(", ")
}

/// What a participant has tried, and how many tasks it has reported in this hour.
pub fn attempts(
    database: &mut dyn Database,
    program: &ProgramName,
    participant: &ParticipantId,
    now: i64,
) -> Result<(Attempts, u64), StoreError> {
    let of = [program.as_str().into(), participant.as_str().into()];
    let select = "SELECT candidate, alternate, reports, timed_out FROM attempts
        WHERE program = $1 AND participant = $2";
    let mut attempts = Attempts::default();
    for row in database.run(select, &of)? {
        let [candidate, alternate, reports, timed_out] = row.as_slice() else {
            return Err(StoreError::Unexpected("a row"));
        };
        let candidate = CandidateId::new(candidate.text()?);
        let candidate = candidate.map_err(|_| StoreError::Unexpected("a candidate"))?;
        let order = match alternate.int()? {
            0 => Order::Primary,
            _ => Order::Alternate,
        };
        let small = |value: &Value| Ok(u32::try_from(value.count()?).unwrap_or(u32::MAX));
        let attempt = Attempt {
            reports: small(reports)?,
            timed_out_ms: small(timed_out)?,
        };
        attempts.insert(candidate, order, attempt);
    }
    let select = "SELECT tasks FROM loads WHERE program = $1 AND hour = $2 AND participant = $3";
    let [program, participant] = of;
    let rows = database.run(select, &[program, (now / 3600).into(), participant])?;
    let mine = rows
        .first()
        .and_then(|row| row.first())
        .map(Value::count)
        .transpose()?;
    Ok((attempts, mine.unwrap_or(0)))
}

/// Forgets what is too old to come again.
pub fn prune(database: &mut dyn Database, oldest: i64) -> Result<(), StoreError> {
    database.run("DELETE FROM batches WHERE received < $1", &[oldest.into()])?;
    database.run(
        "DELETE FROM tasks_done WHERE received < $1",
        &[oldest.into()],
    )?;
    database.run(
        "DELETE FROM loads WHERE hour < $1",
        &[(oldest / 3600).into()],
    )?;
    Ok(())
}
