//! What the server keeps in memory of the programs: their builds, and for each build the standings from which
//! tasks are chosen. The database is the truth; this follows it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use norns_hive::races::Races;
use norns_hive::{
    Attempts, Build, BuildId, Candidate, CandidateId, Load, Order, ProgramName, SiteNumber,
    Standing, Tally, Verdict, assignment,
};

use tokio::sync::watch;

use crate::store::{Change, Known, Loads};

/// All programs.
#[derive(Default)]
pub struct Programs {
    programs: RwLock<BTreeMap<ProgramName, Arc<Program>>>,
    generation: watch::Sender<u64>,
}

pub struct Program {
    pub name: ProgramName,
    /// The hash of the token of its sites.
    pub site_token: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    builds: HashMap<BuildId, Arc<KnownBuild>>,
    /// Of each build, one for each of its candidates with sites, in their order.
    standings: HashMap<BuildId, Vec<Standing>>,
    tallies: HashMap<CandidateId, (Tally, u64)>,
    loads: Loads,
}

/// A build, and where to find what is in it.
pub struct KnownBuild {
    /// Without its sources; candidates that have sites at both places come first.
    pub build: Build,
    pub added: i64,
    by_id: HashMap<CandidateId, usize>,
    by_sites: HashMap<[SiteNumber; 2], Vec<usize>>,
}

/// What a participant is to try.
pub struct Chosen {
    pub candidate: CandidateId,
    pub sites: [SiteNumber; 2],
    pub order: Order,
    pub tau_ms: u32,
}

impl Programs {
    pub fn get(&self, name: &ProgramName) -> Option<Arc<Program>> {
        let programs = self.programs.read().unwrap_or_else(PoisonError::into_inner);
        programs.get(name).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Program>> {
        let programs = self.programs.read().unwrap_or_else(PoisonError::into_inner);
        programs.values().cloned().collect()
    }

    /// Whether this build, as it was added then, is known.
    pub fn has_build(&self, program: &str, build: &str, added: i64) -> bool {
        let (Ok(program), Ok(build)) = (ProgramName::new(program), BuildId::new(build)) else {
            return false;
        };
        let known = self.get(&program).and_then(|program| program.build(&build));
        known.is_some_and(|build| build.added == added)
    }

    /// A number that grows when something changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    pub fn changed(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// Takes over what the database has besides.
    pub fn learn(&self, known: Vec<Known>) {
        for program in known {
            let stale = self
                .get(&program.name)
                .is_none_or(|it| it.site_token != program.site_token);
            if stale {
                let mut programs = self
                    .programs
                    .write()
                    .unwrap_or_else(PoisonError::into_inner);
                let state = programs
                    .remove(&program.name)
                    .map(|old| std::mem::take(&mut *old.state()));
                let fresh = Program {
                    name: program.name.clone(),
                    site_token: program.site_token,
                    state: Mutex::new(state.unwrap_or_default()),
                };
                programs.insert(program.name.clone(), Arc::new(fresh));
            }
            if let Some(known) = self.get(&program.name) {
                for stored in program.builds {
                    known.add(KnownBuild::new(stored.build, stored.added));
                }
            }
        }
    }

    pub fn apply(&self, changes: &[Change]) {
        for change in changes {
            if let Some(program) = self.get(&change.program) {
                program.apply(change);
            }
        }
        if !changes.is_empty() {
            self.changed();
        }
    }
}

impl KnownBuild {
    pub fn new(mut build: Build, added: i64) -> Self {
        build.sources = BTreeMap::new();
        build
            .candidates
            .sort_by_key(|candidate| !has_sites(candidate));
        let mut by_id = HashMap::new();
        let mut by_sites: HashMap<[SiteNumber; 2], Vec<usize>> = HashMap::new();
        for (at, candidate) in build.candidates.iter().enumerate() {
            by_id.insert(candidate.id.clone(), at);
            let [one, other] = &candidate.sites;
            for &one in one {
                for &other in other {
                    by_sites
                        .entry(unordered([one, other]))
                        .or_default()
                        .push(at);
                }
            }
        }
        Self {
            build,
            added,
            by_id,
            by_sites,
        }
    }

    pub fn candidate(&self, id: &CandidateId) -> Option<&Candidate> {
        Some(&self.build.candidates[*self.by_id.get(id)?])
    }

    /// The candidates between these two sites.
    pub fn between(&self, sites: [SiteNumber; 2]) -> impl Iterator<Item = &Candidate> {
        let found = self.by_sites.get(&unordered(sites)).into_iter().flatten();
        found.map(|&at| &self.build.candidates[at])
    }
}

fn has_sites(candidate: &Candidate) -> bool {
    candidate.sites.iter().all(|sites| !sites.is_empty())
}

fn unordered([one, other]: [SiteNumber; 2]) -> [SiteNumber; 2] {
    [one.min(other), one.max(other)]
}

impl Program {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, build: KnownBuild) {
        let mut state = self.state();
        let id = build.build.id.clone();
        let with_sites = build.build.candidates.iter().take_while(|it| has_sites(it));
        let standings = with_sites.map(|candidate| {
            let (tally, context) = state
                .tallies
                .get(&candidate.id)
                .copied()
                .unwrap_or_default();
            Standing::new(candidate, tally, context)
        });
        let standings = standings.collect();
        state.standings.insert(id.clone(), standings);
        state.builds.insert(id, Arc::new(build));
    }

    pub fn build(&self, id: &BuildId) -> Option<Arc<KnownBuild>> {
        self.state().builds.get(id).cloned()
    }

    /// The oldest first.
    pub fn builds(&self) -> Vec<Arc<KnownBuild>> {
        let mut builds: Vec<Arc<KnownBuild>> = self.state().builds.values().cloned().collect();
        builds.sort_by(|one, other| {
            let key = |it: &KnownBuild| (it.added, it.build.id.clone());
            key(one).cmp(&key(other))
        });
        builds
    }

    /// The newest build that has a candidate.
    pub fn newest_with(&self, candidate: &CandidateId) -> Option<Arc<KnownBuild>> {
        let builds = self.builds();
        builds
            .into_iter()
            .rev()
            .find(|build| build.by_id.contains_key(candidate))
    }

    fn apply(&self, change: &Change) {
        let mut state = self.state();
        let entry = state.tallies.entry(change.candidate.clone()).or_default();
        *entry = (entry.0.with(change.tally), entry.1 + change.context);
        let (tally, context) = *entry;
        let reports = change.tally.total();
        state.update(&change.candidate, |standing| {
            standing.tally = tally;
            standing.context_seen = context > 0;
            standing.active = standing.active.saturating_sub(reports);
        });
    }

    /// Takes over the sums of the database, to which other processes add as well.
    pub fn replace_tallies(&self, tallies: Vec<(CandidateId, Tally, u64)>) -> bool {
        let mut state = self.state();
        let mut changed = false;
        for (candidate, tally, context) in tallies {
            let now = (tally, context);
            if state.tallies.get(&candidate) == Some(&now) {
                continue;
            }
            changed = true;
            state.tallies.insert(candidate.clone(), now);
            state.update(&candidate, |standing| {
                standing.tally = tally;
                standing.context_seen = context > 0;
            });
        }
        changed
    }

    /// Halves the numbers of participants at work: those that never report are forgotten in this way.
    pub fn age(&self, loads: Loads) {
        let mut state = self.state();
        state.loads = loads;
        for standing in state.standings.values_mut().flatten() {
            standing.active /= 2;
        }
    }

    /// What a participant is to try next; nothing if there is nothing left for it.
    pub fn choose(
        &self,
        build: &KnownBuild,
        attempts: &Attempts,
        mine: u64,
        number: u64,
    ) -> Option<Chosen> {
        let mut state = self.state();
        let load = Load {
            mine,
            all: state.loads.tasks,
            participants: state.loads.participants,
        };
        let standings = state.standings.get_mut(&build.build.id)?;
        let assignment = assignment::next(standings, attempts, load, number)?;
        let standing = &mut standings[assignment.standing];
        standing.active += 1;
        let candidate = &build.build.candidates[assignment.standing];
        // Where a place has several sites, each gets its turn.
        let turn = number.wrapping_add(standing.tally.total() + standing.active);
        Some(Chosen {
            candidate: candidate.id.clone(),
            sites: assignment::sites_of_turn(candidate, turn)?,
            order: assignment.order,
            tau_ms: assignment.tau_ms,
        })
    }

    pub fn tally(&self, candidate: &CandidateId) -> (Tally, u64) {
        self.state()
            .tallies
            .get(candidate)
            .copied()
            .unwrap_or_default()
    }

    /// All candidates of any build, each with its newest places.
    pub fn races(&self) -> Races {
        let builds = self.builds();
        let newest: BTreeMap<&CandidateId, &Candidate> = builds
            .iter()
            .flat_map(|build| &build.build.candidates)
            .map(|candidate| (&candidate.id, candidate))
            .collect();
        let tallied = newest.into_values().map(|it| (it, self.tally(&it.id).0));
        Races::new(&self.name, tallied)
    }

    /// How many candidates of a build have each verdict: true race, likely false, unknown.
    pub fn verdicts(&self, build: &KnownBuild) -> [u64; 3] {
        let state = self.state();
        let mut counts = [0; 3];
        for candidate in &build.build.candidates {
            let tally = state
                .tallies
                .get(&candidate.id)
                .map(|it| it.0)
                .unwrap_or_default();
            counts[match tally.verdict() {
                Verdict::TrueRace => 0,
                Verdict::LikelyFalse => 1,
                Verdict::Unknown => 2,
            }] += 1;
        }
        counts
    }
}

impl State {
    fn update(&mut self, candidate: &CandidateId, change: impl Fn(&mut Standing)) {
        for (id, build) in &self.builds {
            let at = build.by_id.get(candidate).copied();
            let standing = self.standings.get_mut(id).and_then(|all| all.get_mut(at?));
            if let Some(standing) = standing {
                change(standing);
            }
        }
    }
}
