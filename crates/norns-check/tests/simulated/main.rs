//! The loop of a check against programs that are simulated from random traces, with all their
//! schedules as the judge. A failure names the seed of its program.

mod program;
mod truth;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use norns_budget::Budget;
use norns_check::{Evidence, Observer, Options, Progress, Runs, Tried, check};
use norns_model::random_trace::{Shape, random_trace};
use norns_model::{Bug, Meaning, Model, NotAnalysed, Witness};
use norns_predict::Engine;
use norns_predict::happens_before::observed_races;
use norns_random::Random;
use norns_replay::schedule::Way;
use norns_report::{AccessKind, Finding, Findings, Kind, Predicted, Status, Steps, Verdict};
use norns_trace::{EventIndex, Touch, Trace};

use program::Simulated;
use truth::Truth;

const CASES: u64 = 1000;
const MOST_STATES: usize = 20_000;

/// A random program.
struct Case {
    trace: Trace,
    deciding: BTreeSet<EventIndex>,
    is_reliable: bool,
}

impl Case {
    /// Of its reads, `deciding` of 100 decide which way their thread goes.
    fn new(seed: u64, deciding: usize) -> Case {
        let trace = Trace {
            accesses_ordered: false,
            ..random_trace(
                seed,
                Shape {
                    threads: 3,
                    events: 12 + (seed % 5) as usize,
                    locks: 2,
                    variables: 2,
                    plain: seed.is_multiple_of(2),
                },
            )
        };
        let mut random = Random::new(seed ^ 0x5eed);
        let reads = (0..trace.events.len())
            .filter(|&index| Touch::of(trace.events[index].op).is_some_and(|touch| touch.reads));
        let deciding = reads
            .filter(|_| random.below(100) < deciding)
            .map(EventIndex::from_index)
            .collect();
        Case {
            trace,
            deciding,
            is_reliable: true,
        }
    }

    fn check(&self, ask: Ask) -> Checked {
        let replays = Rc::new(Cell::new(0));
        let mut program = Simulated {
            trace: self.trace.clone(),
            deciding: self.deciding.clone(),
            is_reliable: self.is_reliable,
            replays: replays.clone(),
            log: Vec::new(),
            is_understood: ask.is_understood,
        };
        let options = Options {
            runs: Runs::Exactly(ask.runs),
            engine: Engine::Auto,
            kinds: BTreeSet::from(Kind::ALL),
            list_refuted: ask.list_refuted,
            rules: None,
            scan: None,
            atomicity: false,
        };
        let clock = move || match replays.get() < ask.most_replays {
            true => Duration::MAX,
            false => Duration::ZERO,
        };
        let work = Budget::with_clock(u64::MAX, clock);
        let mut kept = Kept::default();
        let Ok(findings) = check(&mut program, &options, &work, &mut kept, Vec::new());
        Checked {
            findings,
            tried: kept.tried,
            replays: program.log,
        }
    }

    fn predicted(&self) -> usize {
        self.predictions().len()
    }

    /// What tells the predicted findings apart.
    fn predictions(&self) -> BTreeSet<Key> {
        let options = norns_predict::Options::usual(&self.trace);
        let found = norns_predict::predict(&self.trace, &options);
        let predicted = Predicted {
            trace: &self.trace,
            steps: Steps::None,
            lines: None,
        };
        let all = [found.races, found.deadlocks, found.stuck].concat();
        all.iter()
            .map(|witness| key(&predicted.finding(witness)))
            .collect()
    }
}

#[derive(Clone, Copy)]
struct Ask {
    runs: u32,
    list_refuted: bool,
    most_replays: usize,
    is_understood: bool,
}

const USUAL: Ask = Ask {
    runs: 1,
    list_refuted: false,
    most_replays: usize::MAX,
    is_understood: false,
};

type Key = (Kind, Vec<(String, u32, AccessKind)>);

/// Kind and places of a finding.
fn key(finding: &Finding) -> Key {
    let places = finding.places.iter();
    let mut places: Vec<_> = places
        .map(|place| (place.file.clone(), place.line, place.access))
        .collect();
    places.sort();
    (finding.kind, places)
}

/// What a check answered and did.
#[derive(Debug, PartialEq)]
struct Checked {
    findings: Findings,
    /// What was replayed last of every finding, by its id.
    tried: BTreeMap<String, Tried>,
    replays: Vec<(Witness, Way)>,
}

impl Checked {
    /// Without misuses, which have no schedule.
    fn with_status(&self, status: Status) -> impl Iterator<Item = &Finding> {
        let findings = self.findings.findings.iter();
        findings
            .filter(move |finding| finding.status == status && self.tried.contains_key(&finding.id))
    }

    /// How many findings are predictions: neither a misuse nor a race that only the recorded run has.
    fn listed(&self, case: &Case) -> usize {
        let predictions = case.predictions();
        let findings = self.findings.findings.iter();
        findings
            .filter(|finding| predictions.contains(&key(finding)))
            .count()
    }

    fn bug(&self, finding: &Finding) -> &Bug {
        &self.tried[&finding.id].witness.bug
    }

    /// How many predictions need a read that sees another write, and were not listed.
    fn with_other_reads(&self) -> usize {
        let not_analysed = self.findings.not_analysed.iter();
        let counts = not_analysed.map(|reason| match reason {
            NotAnalysed::OtherReads { predictions } => *predictions,
            _ => 0,
        });
        counts.sum()
    }

    /// How many predictions were refuted and not listed.
    fn refuted(&self) -> usize {
        let counts = self
            .findings
            .not_analysed
            .iter()
            .map(|reason| match reason {
                NotAnalysed::RefutedByReplays { predictions } => *predictions,
                _ => 0,
            });
        counts.sum()
    }
}

#[derive(Default)]
struct Kept {
    tried: BTreeMap<String, Tried>,
}

impl Observer for Kept {
    type Error = Infallible;

    fn progress(&mut self, _progress: Progress) {}

    fn found(
        &mut self,
        _run: u32,
        _process: Option<u32>,
        _trace: &Trace,
        finding: &Finding,
        evidence: Evidence,
    ) -> Result<(), Infallible> {
        if let Evidence::Tried(tried) = evidence {
            self.tried.insert(finding.id.clone(), tried.clone());
        }
        Ok(())
    }
}

#[test]
fn a_program_that_follows_every_schedule_confirms_every_prediction() {
    let mut confirmed = 0;
    for seed in 0..CASES {
        let case = Case::new(seed, 0);
        let checked = case.check(USUAL);
        assert_eq!(checked.refuted(), 0, "seed {seed}");
        let predictions = case.predictions();
        let confirmed_now = checked.with_status(Status::Confirmed).map(key);
        let confirmed_now: BTreeSet<Key> = confirmed_now.collect();
        assert!(predictions.is_subset(&confirmed_now), "seed {seed}");
        confirmed += case.predicted();
    }
    assert!(confirmed > 500, "only {confirmed} bugs were confirmed");
}

#[test]
fn what_is_confirmed_can_happen_and_what_can_happen_is_mostly_confirmed() {
    let (mut confirmed, mut missed, mut refuted) = (0, 0, 0);
    let (mut by_another_witness, mut by_last_tries) = (0, 0);
    for seed in 0..CASES {
        let case = Case::new(seed, 60);
        let Some(truth) = Truth::of(&case.trace, &case.deciding, MOST_STATES) else {
            continue;
        };
        let checked = case.check(Ask {
            list_refuted: true,
            ..USUAL
        });
        for finding in checked.with_status(Status::Confirmed) {
            let bug = checked.bug(finding);
            assert!(truth.allows(bug), "seed {seed}: {bug:?} cannot happen");
            confirmed += 1;
            let tried = &checked.tried[&finding.id];
            by_last_tries += usize::from(matches!(tried.way, Way::Hunt | Way::Priorities(_)));
            let first = checked.replays.iter().find(|(first, _)| first.bug == *bug);
            let is_first = first.is_some_and(|(first, _)| *first == tried.witness);
            by_another_witness += usize::from(!is_first);
        }
        for finding in checked.with_status(Status::Predicted) {
            match truth.allows(checked.bug(finding)) {
                true => missed += 1,
                false => refuted += 1,
            }
        }
    }
    println!(
        "{confirmed} confirmed ({by_another_witness} by another witness than the first, \
         {by_last_tries} by the last tries), {missed} missed, {refuted} refuted rightly"
    );
    for (count, at_least) in [
        (confirmed, 1000),
        (refuted, 100),
        (by_another_witness, 10),
        (by_last_tries, 1),
    ] {
        assert!(count >= at_least, "the programs are too easy");
    }
    assert!(
        missed * 50 < confirmed,
        "{missed} of {confirmed} were missed"
    );
}

#[test]
fn every_prediction_is_confirmed_listed_or_counted_as_refuted() {
    for seed in 0..CASES {
        let case = Case::new(seed, 60);
        let counted = case.check(USUAL);
        let listed = counted.listed(&case) + counted.with_other_reads();
        assert_eq!(listed + counted.refuted(), case.predicted(), "seed {seed}");

        let all = case.check(Ask {
            list_refuted: true,
            ..USUAL
        });
        assert_eq!(all.listed(&case), case.predicted(), "seed {seed}");
        assert_eq!(all.refuted(), 0, "seed {seed}");
        let refuted = all.with_status(Status::Predicted).filter(|finding| {
            matches!(
                finding.verdict,
                Some(Verdict::NoBug | Verdict::Infeasible(_))
            )
        });
        assert_eq!(refuted.count(), counted.refuted(), "seed {seed}");
    }
}

#[test]
fn the_same_program_gives_the_same_replays_and_findings() {
    for seed in 0..CASES / 4 {
        let case = Case::new(seed, 60);
        assert_eq!(case.check(USUAL), case.check(USUAL), "seed {seed}");
    }
}

#[test]
fn what_one_recording_has_confirmed_the_next_does_not_replay() {
    for seed in 0..CASES / 4 {
        let case = Case::new(seed, 60);
        let (once, twice) = (case.check(USUAL), case.check(Ask { runs: 2, ..USUAL }));
        assert_eq!(twice.replays[..once.replays.len()], once.replays[..]);
        for finding in once.with_status(Status::Confirmed) {
            assert!(twice.findings.findings.contains(finding), "seed {seed}");
            let bug = once.bug(finding);
            let mut again = twice.replays[once.replays.len()..].iter();
            assert!(again.all(|(witness, _)| witness.bug != *bug), "seed {seed}");
        }
    }
}

#[test]
fn no_replay_begins_when_the_time_is_up() {
    for seed in 0..CASES / 4 {
        let case = Case::new(seed, 60);
        for most_replays in [1, 5, 20] {
            let checked = case.check(Ask {
                most_replays,
                ..USUAL
            });
            // The stronger proof of a race that was just confirmed may be one more.
            let replays = checked.replays.len();
            assert!(replays <= most_replays + 1, "seed {seed}: {replays}");
            // What was not replayed is still there.
            let listed = checked.listed(&case) + checked.with_other_reads();
            assert_eq!(listed + checked.refuted(), case.predicted(), "seed {seed}");
        }
    }
}

/// Five witnesses in three ways, and four last tries.
const MOST_REPLAYS_OF_A_BUG: usize = 5 * 3 + 4;

#[test]
fn a_bug_costs_a_limited_number_of_replays() {
    for seed in 0..CASES {
        let case = Case::new(seed, 100);
        let mut replays: BTreeMap<String, usize> = BTreeMap::new();
        for (witness, _) in case.check(USUAL).replays {
            *replays.entry(format!("{:?}", witness.bug)).or_default() += 1;
        }
        for (bug, count) in replays {
            assert!(
                count <= MOST_REPLAYS_OF_A_BUG,
                "seed {seed}: {bug}: {count}"
            );
        }
    }
}

#[test]
fn an_unreliable_program_refutes_nothing() {
    for seed in 0..CASES / 4 {
        let case = Case {
            is_reliable: false,
            ..Case::new(seed, 60)
        };
        let checked = case.check(USUAL);
        assert_eq!(checked.refuted(), 0, "seed {seed}");
        assert_eq!(
            checked.listed(&case) + checked.with_other_reads(),
            case.predicted(),
            "seed {seed}"
        );
        let warned = checked.findings.not_analysed.iter().any(|reason| {
            matches!(
                reason,
                NotAnalysed::UnfaithfulReplays {
                    next_time: None,
                    ..
                }
            )
        });
        assert_eq!(warned, case.predicted() > 0, "seed {seed}");
    }
}

#[test]
fn what_the_recorded_run_shows_needs_no_replay_unless_a_loop_may_order_it() {
    let (mut seen, mut in_doubt) = (0, 0);
    for seed in 0..CASES {
        let case = Case::new(seed, 60);
        let checked = case.check(Ask {
            most_replays: 0,
            is_understood: true,
            ..USUAL
        });
        assert!(checked.replays.is_empty(), "seed {seed}");
        let model = Model::new(&case.trace, Meaning::Optimistic);
        for race in observed_races(&model).0 {
            let bug = &race.witness.bug;
            let status = match race.may_wait {
                false => Status::Confirmed,
                true => Status::Predicted,
            };
            let mut findings = checked.with_status(status);
            let finding = findings.find(|finding| checked.bug(finding) == bug);
            let finding = finding.unwrap_or_else(|| panic!("seed {seed}: {bug:?} is missing"));
            match finding.verdict {
                Some(Verdict::Observed(_)) => seen += 1,
                Some(Verdict::NotUnderstood(_)) => in_doubt += 1,
                _ => panic!("seed {seed}: {bug:?} has another verdict"),
            }
        }
    }
    assert!(seen > 300, "only {seen} races were seen");
    assert!(in_doubt > 100, "only {in_doubt} races are in doubt");
}

#[test]
fn what_the_recorded_run_shows_is_no_proof_if_something_may_have_ordered_it() {
    let mut doubtful = 0;
    for seed in 0..CASES {
        let case = Case::new(seed, 60);
        let checked = case.check(Ask {
            most_replays: 0,
            ..USUAL
        });
        assert_eq!(checked.with_status(Status::Confirmed).count(), 0);
        let findings = checked.findings.findings.iter();
        doubtful += findings
            .filter(|finding| matches!(finding.verdict, Some(Verdict::NotUnderstood(_))))
            .count();
    }
    assert!(doubtful > 300, "only {doubtful} races are in doubt");
}
