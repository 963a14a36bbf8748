//! From one predicted bug to a verdict: which replays are tried until one of them settles it.
//!
//! 1. The witness, or another one of the same bug if what earlier replays taught rules it out, is
//!    replayed in several ways (`ways`).
//! 2. If the program leaves the schedule, or follows it and nothing shows, `refine` gives another
//!    witness, for at most `ROUNDS` of them.
//! 3. The last tries have no schedule: threads wait at the places of the bug, with and without
//!    random priorities. They are given up once they have found nothing for several bugs.
//!
//! Before that, runs that are steered to the places of many races at once may have shown some of them,
//! and so may the replays of others: what any run shows is remembered.

use std::collections::{BTreeMap, BTreeSet};

use norns_budget::Budget;
use norns_model::{Bug, Model, NotAnalysed, Witness};
use norns_predict::happens_before::Flows;
use norns_replay::schedule::{self, Accesses, Way};
use norns_replay::{Behaviour, Course, Proof, Sighting};
use norns_report::{Finding, Status, Verdict};
use norns_trace::{EventIndex, Trace};

use crate::observed::Hang;
use crate::program::{Outcome, Program, Replayed, WholeRun};
use crate::recorded_run::A_LOOP_MAY;
use crate::refine::{self, Refinement, Screened};
use crate::wait_loops::WaitLoops;

/// Fewer races than this are not worth a steered run: each has replays of its own.
const FEWEST_STEERED: usize = 3;
/// How many witnesses of one bug are tried, and how often it is looked for with random priorities.
const ROUNDS: usize = 5;
const RANDOM_TRIES: u64 = 3;
/// When the last tries have failed for this many bugs, they are left out for the others: what
/// remains has most often the same reason.
const MOST_FRUITLESS: usize = 6;
/// The same for bugs that cannot show, as far as earlier replays have taught.
const MOST_FRUITLESS_IF_IMPOSSIBLE: usize = 2;

/// What was replayed last of a predicted bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    pub witness: Witness,
    pub way: Way,
}

impl Tried {
    /// The witness of the prediction, and the way that would be tried first.
    pub fn not_replayed(witness: &Witness) -> Self {
        Tried {
            witness: witness.clone(),
            way: Way::Schedule(Accesses::Free),
        }
    }
}

/// All predicted bugs of one recording, and what their replays taught.
pub struct Confirmation<'a, P: Program> {
    program: &'a mut P,
    pub trace: &'a Trace,
    /// What may have ordered threads unseen: the report of a detector is then no proof.
    pub(crate) unseen_order: Option<String>,
    /// Where objects are that other processes may use as well: they may end a wait.
    pub shared_objects: BTreeSet<u64>,
    work: &'a Budget,
    pub(crate) refinement: Refinement<'a>,
    loops: WaitLoops<'a>,
    /// The races that runs have shown, by their program counters.
    seen: BTreeMap<[u64; 2], Proof>,
    /// Whether the program follows its own recording. If not, a replay refutes nothing.
    pub is_reliable: bool,
    pub has_replayed_recording: bool,
    /// Whether some replay made a child process.
    pub forked: bool,
    /// Whether some replay was of a bug in code that is loaded while the program runs.
    pub loaded_later: bool,
    /// Races that only a replay which stops both threads proves, by their program counters: a loop may
    /// order them.
    doubted: BTreeSet<[u64; 2]>,
    /// Races of the recorded run that are probably ordered by a loop, and are only counted: their program
    /// counters.
    pub left_to_loops: BTreeSet<[u64; 2]>,
    /// How many races of the recorded run were tried for a loop that orders them.
    pub tried_for_loops: usize,
    /// For how many bugs the last tries have failed.
    fruitless: usize,
}

impl<'a, P: Program> Confirmation<'a, P> {
    pub fn new(
        program: &'a mut P,
        trace: &'a Trace,
        unseen_order: Option<String>,
        work: &'a Budget,
    ) -> Self {
        Self {
            program,
            trace,
            unseen_order,
            shared_objects: BTreeSet::new(),
            work,
            refinement: Refinement::new(trace, work.clone()),
            loops: WaitLoops::default(),
            seen: BTreeMap::new(),
            is_reliable: true,
            has_replayed_recording: false,
            forked: false,
            loaded_later: false,
            doubted: BTreeSet::new(),
            left_to_loops: BTreeSet::new(),
            tried_for_loops: 0,
            fruitless: 0,
        }
    }

    /// Finds out whether the program follows its own recording. Returns the deadlock that it runs
    /// into again, if it did so while it was recorded.
    pub fn replay_recording(
        &mut self,
        not_analysed: &mut Vec<NotAnalysed>,
    ) -> Result<Option<Hang>, P::Error> {
        self.has_replayed_recording = true;
        let mut rerun = self.program.replay_recording(self.trace)?;
        if let Some(first) = rerun.left {
            rerun = self.program.replay_recording(self.trace)?;
            if let Some(second) = rerun.left {
                not_analysed.push(NotAnalysed::UnfaithfulReplays {
                    next_time: (first != second).then_some(second),
                    why: first,
                });
                self.is_reliable = false;
            }
        }
        let is_of_this_process = |hang: &Hang| {
            let mut waits = hang.deadlock.waits.iter();
            !waits.any(|waits| self.shared_objects.contains(&waits.object))
        };
        Ok(rerun.hang.filter(is_of_this_process))
    }

    /// Whether another process may end an endless wait, by what it does with an object that it shares.
    pub fn may_be_ended_outside(&self, witness: &Witness) -> bool {
        let Bug::Stuck { blocked } = &witness.bug else {
            return false;
        };
        let mut objects = { blocked.iter() }
            .filter_map(|event| self.trace.events[event.index()].op.object())
            .map(|object| self.trace.object(object).address);
        objects.any(|address| self.shared_objects.contains(&address))
    }

    /// The races that the detector sees in a run of the program as it is.
    pub fn detect(&mut self) -> Result<WholeRun, P::Error> {
        let watched = self.program.detect(self.trace)?;
        let sightings = watched.races.iter().map(|race| Sighting {
            pcs: Sighting::places(race.pcs[0], race.pcs[1]),
            proof: Some(race.proof),
        });
        self.remember(sightings.collect());
        Ok(watched)
    }

    /// Whether the recording has variables that loops may wait for.
    pub fn may_have_wait_loops(&self) -> bool {
        self.loops.are_possible()
    }

    /// Whether a loop, seen or not, may order the accesses of a race.
    pub fn may_be_ordered_by_loop(&self, bug: &Bug) -> bool {
        self.loops.may_order(bug)
    }

    /// Notes that a race is left to a loop that may order it, if the recorded run has gone round in one.
    /// Whether it has.
    pub fn leave_to_loop(&mut self, bug: &Bug) -> bool {
        let goes_round = self.loops.go_round(bug);
        if goes_round && let Some(pcs) = self.pcs(bug) {
            self.left_to_loops.insert(pcs);
        }
        goes_round
    }

    pub fn is_left_to_loop(&self, bug: &Bug) -> bool {
        let pcs = self.pcs(bug);
        pcs.is_some_and(|pcs| self.left_to_loops.contains(&pcs))
    }

    /// Runs the program a few times, steered to all these races at once.
    pub fn steer(&mut self, races: &[&Bug]) -> Result<(), P::Error> {
        for seed in [None, Some(1)] {
            let is_open = |bug: &&&Bug| self.sighting(bug).is_none();
            let open: Vec<&Bug> = races.iter().filter(is_open).copied().collect();
            if open.len() < FEWEST_STEERED || self.work.is_out_of_time() {
                break;
            }
            let sightings = self.program.steer(self.trace, &open, seed)?;
            self.remember(sightings);
        }
        Ok(())
    }

    /// What may have ordered the accesses of a race unseen, so that only stopping both threads before
    /// them proves it.
    pub fn doubt(&self, bug: &Bug) -> Option<String> {
        let may_wait = || self.is_doubted(bug).then(|| A_LOOP_MAY.into());
        self.doubt_besides_loops(bug).or_else(may_wait)
    }

    /// The same, without loops that wait for plain variables.
    pub fn doubt_besides_loops(&self, bug: &Bug) -> Option<String> {
        self.unseen_order.clone().or_else(|| {
            let events = bug.events().into_iter();
            let mut threads =
                events.map(|event| self.trace.thread(self.trace.events[event.index()].thread));
            let thread = threads.find(|thread| thread.comes_unseen())?;
            Some(format!("it was not seen how {} was created", thread.name))
        })
    }

    /// Takes note of races that a loop may order, so that only stopping both threads proves them.
    pub fn doubt_unless_held<'b>(&mut self, races: impl Iterator<Item = &'b Witness>) {
        let pcs: Vec<_> = races.filter_map(|race| self.pcs(&race.bug)).collect();
        self.doubted.extend(pcs);
    }

    /// Takes note of the variables that loops may wait for.
    pub fn know_flows(&mut self, model: Model<'a>, flows: Flows) {
        self.loops.know_flows(model, flows);
    }

    /// Whether a loop may order the race, or another one at its places.
    pub fn is_doubted(&self, bug: &Bug) -> bool {
        let pcs = self.pcs(bug);
        pcs.is_some_and(|pcs| self.doubted.contains(&pcs)) || self.loops.may_order(bug)
    }

    /// The places of a race; `None` for other bugs.
    fn pcs(&self, bug: &Bug) -> Option<[u64; 2]> {
        let Bug::Race { first, second } = *bug else {
            return None;
        };
        let pc = |event: EventIndex| {
            let event = self.trace.events[event.index()];
            self.trace.place(event.place).pc
        };
        Some(Sighting::places(pc(first), pc(second)))
    }

    fn remember(&mut self, sightings: Vec<Sighting>) {
        self.loops.see_races(sightings.iter().map(|race| race.pcs));
        for Sighting { pcs, proof } in sightings {
            let Some(proof) = proof else { continue };
            let known = self.seen.entry(pcs).or_insert(proof);
            *known = known.stronger(proof);
        }
    }

    /// How an earlier run has shown a race that no loop can have ordered there.
    pub fn shown_without_loop(&self, bug: &Bug) -> Option<Proof> {
        let proof = *self.seen.get(&self.pcs(bug)?)?;
        self.rules_out_loops(bug, proof).then_some(proof)
    }

    /// Whether a proof of a race stands whatever loops there are in the program.
    fn rules_out_loops(&self, bug: &Bug, proof: Proof) -> bool {
        match proof {
            Proof::BothHeld => true,
            Proof::DetectorWithoutLoop => self.doubt_besides_loops(bug).is_none(),
            _ => false,
        }
    }

    /// What an earlier run has shown of a race, if that is a proof.
    fn sighting(&self, bug: &Bug) -> Option<Proof> {
        let proof = *self.seen.get(&self.pcs(bug)?)?;
        let is_proof = self.rules_out_loops(bug, proof)
            || self.doubt(bug).is_none() && !self.loops.order(self.trace, bug, proof);
        is_proof.then_some(proof)
    }

    /// Replays a witness, and others of the same bug if the program does not follow it, and
    /// writes status and verdict into the finding. Without a verdict nothing was replayed, because
    /// the time was up.
    pub fn confirm(&mut self, witness: &Witness, finding: &mut Finding) -> Result<Tried, P::Error> {
        let mut tried = Tried::not_replayed(witness);
        if let Some(proof) = self.sighting(&witness.bug) {
            // The detector does not know of a loop that orders what it saw: a replay of the race
            // itself does.
            if proof != Proof::BothHeld && !self.work.is_out_of_time() {
                let replayed = self.replay(witness, tried.way)?;
                if decide(finding, &replayed, None) {
                    return Ok(tried);
                }
            }
            tried.way = Way::Hunt;
            finding.status = Status::Confirmed;
            let how = proof.describe();
            let how = format!("{how}; in a run that was to show other races as well");
            finding.verdict = Some(Verdict::Confirmed(how));
            return Ok(tried);
        }
        let mut most_fruitless = MOST_FRUITLESS;
        let screened = self.refinement.screen(witness);
        let settled = match screened {
            Screened::Fits => self.replay_rounds(&mut tried, None, finding)?,
            Screened::Other(refine::Again { witness, lesson }) => {
                tried.witness = witness;
                let learned = lesson.words(self.trace);
                self.replay_rounds(&mut tried, Some(learned), finding)?
            }
            Screened::Impossible(lesson) => {
                finding.verdict = Some(Verdict::Infeasible(lesson.words(self.trace)));
                most_fruitless = MOST_FRUITLESS_IF_IMPOSSIBLE;
                Settled::No
            }
        };
        if settled == Settled::No && self.fruitless < most_fruitless {
            self.last_tries(&mut tried, finding)?;
        }
        if finding.status == Status::Predicted
            && self.has_detected(&witness.bug)
            && let Some(why) = self.doubt(&witness.bug)
        {
            finding.verdict = Some(Verdict::NotUnderstood(why));
        }
        Ok(tried)
    }

    /// Whether some run has shown the race to the detector, which may not prove it.
    fn has_detected(&self, bug: &Bug) -> bool {
        self.pcs(bug)
            .is_some_and(|pcs| self.seen.contains_key(&pcs))
    }

    /// Replays one witness after the other until one settles the bug, there is no other, or they
    /// were enough. `learned` is what led to the first one.
    fn replay_rounds(
        &mut self,
        tried: &mut Tried,
        mut learned: Option<String>,
        finding: &mut Finding,
    ) -> Result<Settled, P::Error> {
        for round in 1..=ROUNDS {
            let mut left_at = None;
            for way in self.ways(&tried.witness) {
                if self.work.is_out_of_time() {
                    return Ok(Settled::TimeIsUp);
                }
                let replayed = self.replay(&tried.witness, way)?;
                if let Outcome::Infeasible { event, .. } = replayed.outcome {
                    left_at = event;
                }
                tried.way = way;
                if decide(finding, &replayed, learned.as_deref()) {
                    self.look_for_stronger_proof(&replayed, tried, learned, finding)?;
                    return Ok(Settled::Yes);
                }
            }
            if round == ROUNDS {
                break;
            }
            let Some(again) = self.refinement.again(&tried.witness, left_at) else {
                break;
            };
            tried.witness = again.witness;
            learned = Some(again.lesson.words(self.trace));
        }
        Ok(Settled::No)
    }

    /// Whether some replay has shown a loop that waits for the one access of this race with the other.
    pub fn knows_loop(&self, tried: &Tried) -> bool {
        self.loops.waits(self.trace, &tried.witness.bug)
    }

    /// Whether a loop that some replay has shown orders the accesses of a race.
    pub fn is_ordered_by_known_loop(&self, bug: &Bug) -> bool {
        self.loops.order(self.trace, bug, Proof::Detector)
    }

    /// Tries to make a race of the recorded run happen again: by its schedule, if it has one, and
    /// with `OnMiss::Hunt` by waiting at its places. What shows it, or the loop that orders it.
    pub fn show_again(
        &mut self,
        tried: &mut Tried,
        on_miss: OnMiss,
    ) -> Result<Option<Again>, P::Error> {
        let mut ways = Vec::new();
        if !tried.witness.schedule.is_empty() {
            ways.push(Way::Schedule(Accesses::Free));
            ways.extend(self.may_lie_elsewhere(&tried.witness).then_some(Way::Near));
        }
        match on_miss {
            OnMiss::Hunt => ways.push(Way::Hunt),
            OnMiss::LookForLoop => ways.extend([Way::Hunt, Way::Hunt]),
            OnMiss::GiveUp => ways.extend(ways.is_empty().then_some(Way::Hunt)),
        }
        let mut shown = None;
        for way in ways {
            if self.work.is_out_of_time() {
                break;
            }
            match self.replay(&tried.witness, way)?.outcome {
                Outcome::OrderedBySpinLoop => return Ok(Some(Again::OrderedBySpinLoop)),
                Outcome::Confirmed(proof) => {
                    tried.way = way;
                    shown = Some(Again::Shown(proof));
                    let is_enough = match on_miss {
                        OnMiss::GiveUp => true,
                        OnMiss::Hunt => self.rules_out_loops(&tried.witness.bug, proof),
                        OnMiss::LookForLoop => self.knows_loop(tried),
                    };
                    if is_enough {
                        break;
                    }
                }
                Outcome::NoBug | Outcome::Infeasible { .. } | Outcome::TimedOut => {}
            }
        }
        Ok(shown)
    }

    /// After the detector's report, tries to stop both threads before their accesses as well.
    fn look_for_stronger_proof(
        &mut self,
        replayed: &Replayed,
        tried: &mut Tried,
        learned: Option<String>,
        finding: &mut Finding,
    ) -> Result<(), P::Error> {
        if replayed.outcome == Outcome::Confirmed(Proof::Detector)
            && tried.way != Way::Near
            && self.may_lie_elsewhere(&tried.witness)
        {
            let replayed = self.replay(&tried.witness, Way::Near)?;
            if replayed.outcome == Outcome::Confirmed(Proof::BothHeld) {
                tried.way = Way::Near;
                decide(finding, &replayed, learned.as_deref());
            }
        }
        Ok(())
    }

    /// Looks for the bug without a schedule. What does not settle it leaves the verdict as it was.
    fn last_tries(&mut self, tried: &mut Tried, finding: &mut Finding) -> Result<(), P::Error> {
        let ways = [Way::Hunt].into_iter();
        for way in ways.chain((1..=RANDOM_TRIES).map(Way::Priorities)) {
            if self.work.is_out_of_time() {
                break;
            }
            let before = finding.verdict.clone();
            let replayed = self.replay(&tried.witness, way)?;
            let because = match way {
                Way::Priorities(seed) => format!("found with random priorities, seed {seed}"),
                _ => "found without a schedule, by waiting at its places".into(),
            };
            if decide(finding, &replayed, Some(&because)) {
                tried.way = way;
                return Ok(());
            }
            finding.verdict = before;
        }
        self.fruitless += 1;
        Ok(())
    }

    /// How to replay a witness, one way after the other until one settles it.
    fn ways(&self, witness: &Witness) -> Vec<Way> {
        let mut ways = vec![
            Way::Schedule(Accesses::Free),
            Way::Schedule(Accesses::Ordered),
        ];
        if self.may_lie_elsewhere(witness) {
            ways.push(Way::Near);
        }
        ways
    }

    fn may_lie_elsewhere(&self, witness: &Witness) -> bool {
        schedule::may_lie_elsewhere(self.trace, &witness.bug)
    }

    pub(crate) fn is_out_of_time(&self) -> bool {
        self.work.is_out_of_time()
    }

    pub(crate) fn behave(&mut self, course: Course) -> Result<Behaviour, P::Error> {
        self.program.behave(self.trace, course)
    }

    pub(crate) fn replay(&mut self, witness: &Witness, way: Way) -> Result<Replayed, P::Error> {
        let mut replayed = self.program.replay(self.trace, witness, way)?;
        self.forked |= replayed.forked;
        self.loaded_later |= replayed.loaded_later;
        self.loops.learn(self.trace, &witness.bug, &replayed);
        self.remember(std::mem::take(&mut replayed.sightings));
        if let Outcome::Confirmed(proof) = replayed.outcome
            && self.loops.order(self.trace, &witness.bug, proof)
        {
            replayed.outcome = Outcome::OrderedBySpinLoop;
        }
        if let Outcome::Confirmed(proof @ (Proof::Detector | Proof::DetectorWithoutLoop)) =
            replayed.outcome
            && !self.rules_out_loops(&witness.bug, proof)
            && self.doubt(&witness.bug).is_some()
        {
            replayed.outcome = Outcome::NoBug;
        }
        Ok(replayed)
    }
}

/// What to do when the schedule of a race from the recorded run does not show it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMiss {
    GiveUp,
    Hunt,
    /// The same, until a loop is seen that waits for one of the two accesses.
    LookForLoop,
}

/// What a race of the recorded run did in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    Shown(Proof),
    OrderedBySpinLoop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    Yes,
    No,
    TimeIsUp,
}

/// Writes what a replay showed into the finding, with what had to be learned before; whether that
/// settles it.
fn decide(finding: &mut Finding, replayed: &Replayed, learned: Option<&str>) -> bool {
    let (status, verdict) = match &replayed.outcome {
        Outcome::Confirmed(proof) => {
            let learned = learned.map_or(String::new(), |learned| format!("; {learned}"));
            let how = format!("{}{learned}", proof.describe());
            (Status::Confirmed, Verdict::Confirmed(how))
        }
        Outcome::OrderedBySpinLoop => (Status::OrderedBySpinLoop, Verdict::NoBug),
        Outcome::NoBug => (Status::Predicted, Verdict::NoBug),
        Outcome::Infeasible { why, .. } => (Status::Predicted, Verdict::Infeasible(why.clone())),
        Outcome::TimedOut => (Status::Predicted, Verdict::TimedOut),
    };
    let settled = status != Status::Predicted;
    if settled {
        finding.status = status;
    }
    // That another schedule cannot be followed does not refute what a replay had no time for.
    let had_no_time = finding.verdict == Some(Verdict::TimedOut);
    if settled || !(had_no_time && matches!(verdict, Verdict::Infeasible(_))) {
        finding.verdict = Some(verdict);
    }
    settled
}
