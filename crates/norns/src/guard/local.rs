//! A hive in a file, for one machine: what `norns guard --runs` has found out about a build, so that later
//! runs go on from there.
//!
//! `.norns/guard/BUILD.json`. It belongs to one build: another one begins anew, so that a race that was mended is not
//! listed because it was once seen.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use norns_hive::assignment::{self, Attempt, sites_of_turn};
use norns_hive::protocol::{Build, Evidence, Excerpt, RaceDetail, VERSION, VerdictChange};
use norns_hive::races::{self, Races};
use norns_hive::{
    Attempts, BuildId, Candidate, CandidateId, Load, Order, ProgramName, Report, Standing, Tally,
    Task, TaskId, TaskReport, Verdict,
};
use serde::{Deserialize, Serialize};

use super::agent::{Answer, Hive};

const FORMAT: u32 = 1;
/// The most builds that are kept.
const KEPT: usize = 50;
/// The most reports with a race or a failure that are kept of a candidate.
const EVIDENCE: usize = 5;
/// When there is nothing to do for now.
const AGAIN: Duration = Duration::from_secs(60);

pub struct Local {
    folder: Option<PathBuf>,
    builds: BTreeMap<BuildId, Known>,
    answers: Vec<Answer>,
}

struct Known {
    build: Build,
    kept: Kept,
    /// The tasks of this session of which nothing was reported yet.
    given: BTreeMap<TaskId, Task>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    format: u32,
    program: ProgramName,
    build: BuildId,
    /// How many tasks were given.
    tasks: u64,
    candidates: BTreeMap<CandidateId, OfCandidate>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct OfCandidate {
    tally: Tally,
    contexts: u64,
    /// Of both orders: how many reports there were, and the longest time-out.
    attempts: [(u32, u32); 2],
    evidence: Vec<Evidence>,
    history: Vec<VerdictChange>,
}

impl Local {
    /// In this folder, or only in memory.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            builds: BTreeMap::new(),
            answers: Vec::new(),
        }
    }

    fn file(&self, build: &BuildId) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{build}.json")))
    }

    /// Lists a build, also if nothing is reported of it.
    pub fn knows(&mut self, build: &Build) {
        self.known(build);
    }

    fn known(&mut self, build: &Build) -> &mut Known {
        let file = self.file(&build.id);
        self.builds.entry(build.id.clone()).or_insert_with(|| {
            let kept = file.and_then(|file| read(&file));
            let kept = kept.filter(|kept| kept.build == build.id);
            Known {
                kept: kept.unwrap_or_else(|| Kept::new(build)),
                build: build.clone(),
                given: BTreeMap::new(),
            }
        })
    }

    /// What is known of all builds that were run.
    pub fn races(&self) -> Races {
        let lists = self.builds.values().map(Known::races);
        let races: Vec<_> = lists.flat_map(|it| it.races).collect();
        let mut all = Races {
            format: races::FORMAT,
            races,
        };
        all.races.sort_by_key(|race| match race.verdict {
            Verdict::TrueRace => 0,
            Verdict::Unknown => 1,
            Verdict::LikelyFalse => 2,
        });
        all
    }

    /// Whether every candidate has a verdict that further runs do not change.
    pub fn is_done(&self) -> bool {
        let mut builds = self.builds.values();
        !self.builds.is_empty() && builds.all(|known| known.next(0).is_none())
    }

    /// Writes what is known, and each true race for `norns check --race`. The files of the races.
    pub fn save(&self) -> Result<Vec<PathBuf>> {
        let Some(folder) = &self.folder else {
            return Ok(Vec::new());
        };
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let mut files = Vec::new();
        for known in self.builds.values() {
            write(
                &folder.join(format!("{}.json", known.kept.build)),
                &known.kept,
            )?;
            for detail in known.true_races() {
                let name = format!("{}.race.json", detail.race.id);
                let file = folder.join(name);
                write(&file, &detail)?;
                files.push(file);
            }
        }
        forget_oldest(folder);
        Ok(files)
    }
}

fn read(file: &Path) -> Option<Kept> {
    let text = fs::read(file).ok()?;
    let kept: Kept = serde_json::from_slice(&text).ok()?;
    (kept.format == FORMAT).then_some(kept)
}

fn write(file: &Path, what: &impl Serialize) -> Result<()> {
    let part = file.with_extension("part");
    let text = serde_json::to_vec_pretty(what)?;
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, file));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written.with_context(|| format!("cannot write {}", file.display()))
}

fn forget_oldest(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.metadata().ok()?.modified().ok()?, entry.path()))
        })
        .collect();
    files.sort();
    for (_, file) in &files[..files.len().saturating_sub(KEPT)] {
        let _ = fs::remove_file(file);
    }
}

fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}

impl Kept {
    fn new(build: &Build) -> Self {
        Self {
            format: FORMAT,
            program: build.program.clone(),
            build: build.id.clone(),
            tasks: 0,
            candidates: BTreeMap::new(),
        }
    }
}

impl Known {
    fn of(&self, candidate: &Candidate) -> OfCandidate {
        let known = self.kept.candidates.get(&candidate.id);
        known.cloned().unwrap_or_default()
    }

    /// The next task, for a participant with this number.
    fn next(&self, number: u64) -> Option<(&Candidate, assignment::Assignment)> {
        let has_sites = |it: &&Candidate| it.sites.iter().all(|sites| !sites.is_empty());
        let candidates: Vec<&Candidate> = self.build.candidates.iter().filter(has_sites).collect();
        let mut attempts = Attempts::default();
        let standings: Vec<Standing> = candidates
            .iter()
            .map(|candidate| {
                let known = self.of(candidate);
                for (order, (reports, timed_out_ms)) in [Order::Primary, Order::Alternate]
                    .into_iter()
                    .zip(known.attempts)
                {
                    let attempt = Attempt {
                        reports,
                        timed_out_ms,
                    };
                    attempts.insert(candidate.id.clone(), order, attempt);
                }
                Standing::new(candidate, known.tally, known.contexts)
            })
            .collect();
        let chosen = assignment::next(&standings, &attempts, Load::default(), number)?;
        Some((candidates[chosen.standing], chosen))
    }

    fn task(&mut self) -> Option<Task> {
        let number = self.kept.tasks;
        let (candidate, chosen) = self.next(number)?;
        let turn = self.of(candidate).tally.total();
        let task = Task {
            id: TaskId::new(format!("local-{number}")).expect("printable letters"),
            candidate: candidate.id.clone(),
            sites: sites_of_turn(candidate, turn)?,
            order: chosen.order,
            tau_ms: chosen.tau_ms,
        };
        self.kept.tasks += 1;
        self.given.insert(task.id.clone(), task.clone());
        Some(task)
    }

    fn takes(&mut self, report: Report) {
        match report {
            Report::Task(report) => {
                self.given.remove(&report.task);
                self.adds(report);
            }
            Report::Contexts { pairs } => {
                for [one, other] in pairs {
                    for candidate in &self.build.candidates {
                        if candidate.has([one, other]) || candidate.has([other, one]) {
                            let known = self.kept.candidates.entry(candidate.id.clone());
                            known.or_default().contexts += 1;
                        }
                    }
                }
            }
            Report::Run(_) => {}
        }
    }

    fn adds(&mut self, report: TaskReport) {
        let known = self.kept.candidates.entry(report.candidate.clone());
        let known = known.or_default();
        let before = known.tally.verdict();
        known.tally.add(&report);
        let (reports, timed_out) = &mut known.attempts[report.order as usize];
        *reports += 1;
        if report.result == norns_hive::Outcome::Timeout {
            *timed_out = (*timed_out).max(report.tau_ms);
        }
        let verdict = known.tally.verdict();
        if verdict != before {
            known.history.push(VerdictChange { verdict, at: now() });
        }
        let is_evidence = !report.stacks.is_empty() || report.consequence.is_some();
        if is_evidence && known.evidence.len() < EVIDENCE {
            known.evidence.push(Evidence {
                build: self.kept.build.clone(),
                received: now(),
                report,
            });
        }
    }

    fn races(&self) -> Races {
        let candidates = self.build.candidates.iter();
        let tallied = candidates.map(|candidate| (candidate, self.of(candidate).tally));
        Races::new(&self.build.program, tallied)
    }

    fn true_races(&self) -> Vec<RaceDetail> {
        let races = self.races().races.into_iter();
        let true_races = races.filter(|race| race.verdict == Verdict::TrueRace);
        true_races
            .filter_map(|race| {
                let candidate = self.build.candidates.iter().find(|it| it.id == race.id)?;
                let known = self.of(candidate);
                Some(RaceDetail {
                    format: VERSION,
                    race,
                    candidate: candidate.clone(),
                    build: self.kept.build.clone(),
                    context_seen: known.contexts > 0,
                    excerpts: Vec::<Excerpt>::new(),
                    evidence: known.evidence,
                    history: known.history,
                })
            })
            .collect()
    }
}

impl Hive for Local {
    fn ask(&mut self, build: &Build, active: Option<&TaskId>) {
        let known = self.known(build);
        // What is active goes on.
        let active = active.and_then(|active| known.given.get(active).cloned());
        let answer = Answer {
            task: active.or_else(|| known.task()),
            build: build.id.clone(),
            again: AGAIN,
        };
        self.answers.push(answer);
    }

    fn report(&mut self, build: &Build, reports: Vec<Report>) {
        let known = self.known(build);
        reports.into_iter().for_each(|report| known.takes(report));
    }

    fn answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }
}

/// What keeps two sessions from writing one file.
pub fn lock(folder: &Path) -> Result<fs::File> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let path = folder.join("lock");
    let file =
        fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    if file.try_lock().is_err() {
        bail!("another norns guard --runs works in {}", folder.display());
    }
    Ok(file)
}
