//! Races in the part of a run that was not recorded.
//!
//! Of a run that is long for the budget only the beginning is kept. So that a check is never weaker than a
//! race detector, the program then runs once more, as it is, and the runtime's own detector watches all of
//! it; up to three times, if a loop may have ordered what that showed. What it shows and the recording does
//! not is confirmed by this run.
//!
//! If both places of such a race are in the recording, accesses of the same bytes from there stand for the
//! two, so that the race can be shown and looked for again like any other; otherwise its places say it all.
//! The detector does not know which loops wait for a plain variable, but of most races that no such loop can
//! have ordered them (`Proof::DetectorWithoutLoop`). Others are tried like the races of the recorded run that a
//! loop may order. If their places are not in the recording, they are in doubt as soon as there is a variable
//! that threads could wait for.

use std::collections::BTreeSet;
use std::iter;

use rustc_hash::FxHashMap;

use norns_model::{Bug, NotAnalysed, Unwatched, Witness};
use norns_predict::happens_before::Observed;
use norns_replay::schedule::Way;
use norns_replay::{Proof, Sighting};
use norns_report::kind::Group;
use norns_report::{Status, Verdict};
use norns_trace::{Event, EventIndex, PlaceId, Touch, TouchKind, Trace, Warning};

use crate::check::{Check, Evidence, Progress, predicted};
use crate::confirm::{Confirmation, Tried};
use crate::findings;
use crate::program::{Program, Recorded, Watched, WholeRun};
use crate::recorded_run::A_LOOP_MAY;

/// How often a program is watched at most.
const MOST_WATCHED: usize = 3;
/// The part of the time that the first of these runs may take: what a race detector would find comes before
/// everything else.
const SHARE_OF_FIRST: (u32, u32) = (1, 2);
const SHARE_OF_OTHERS: (u32, u32) = (1, 5);

const SEEN_IN_WHOLE_RUN: &str =
    "the race detector saw it in a further run, since only the beginning of the first was recorded";

impl<E> Check<'_, E> {
    /// Returns the races that the detector sees in runs of its own, if the recording has not all of its run.
    /// The analysis of so many recorded events may take all the time that is left, so this comes before.
    pub(crate) fn watch_whole_run<P: Program<Error = E>>(
        &mut self,
        run: u32,
        recorded: &Recorded,
        confirmation: &mut Confirmation<P>,
    ) -> Result<Vec<Watched>, E> {
        let mut kinds = self.options.kinds.iter();
        let is_cut = |warning: &Warning| matches!(warning, Warning::Shortened { .. });
        if run > 0
            || !recorded.warnings.iter().any(is_cut)
            || !kinds.any(|kind| kind.group() == Group::Race)
        {
            return Ok(Vec::new());
        }
        self.observer.progress(Progress::Watching);
        let WholeRun { races, unwatched } = self.watch(confirmation)?;
        if let Some(unwatched) = unwatched {
            self.all
                .not_analysed
                .push(NotAnalysed::RestOfRun(unwatched));
        }
        Ok(races)
    }

    /// Adds the races that watching has shown, and returns those that a loop may order.
    pub(crate) fn add_watched<P: Program<Error = E>>(
        &mut self,
        run: u32,
        mut watched: Vec<Watched>,
        confirmation: &mut Confirmation<P>,
    ) -> Result<Vec<Observed>, E> {
        let mut may_wait = Vec::new();
        let trace = confirmation.trace;
        // What needs no replay comes first, so that the others of the same places are settled.
        watched.sort_by_key(|race| race.proof != Proof::DetectorWithoutLoop);
        for race in watched {
            let Watched {
                finding,
                pcs,
                proof,
            } = race;
            let bug = in_recording(trace, pcs);
            let tried = bug.map(|bug| Tried {
                witness: Witness {
                    schedule: Vec::new(),
                    bug,
                },
                way: Way::Hunt,
            });
            let mut finding = match &tried {
                Some(tried) => predicted(trace).finding(&tried.witness),
                None => finding,
            };
            if !self.is_wanted(&finding) || findings::is_settled(&self.all, &finding) {
                continue;
            }
            let doubt = match &tried {
                Some(tried) if proof == Proof::DetectorWithoutLoop => {
                    confirmation.doubt_besides_loops(&tried.witness.bug)
                }
                None if proof == Proof::DetectorWithoutLoop => confirmation.unseen_order.clone(),
                Some(tried) if confirmation.may_be_ordered_by_loop(&tried.witness.bug) => {
                    may_wait.push(Observed {
                        witness: tried.witness.clone(),
                        may_wait: true,
                    });
                    continue;
                }
                Some(tried) => confirmation.doubt(&tried.witness.bug),
                None => { confirmation.unseen_order.clone() }.or_else(|| {
                    confirmation
                        .may_have_wait_loops()
                        .then(|| A_LOOP_MAY.into())
                }),
            };
            (finding.status, finding.verdict) = match doubt {
                Some(why) => (Status::Predicted, Some(Verdict::NotUnderstood(why))),
                None => (
                    Status::Confirmed,
                    Some(Verdict::Confirmed(SEEN_IN_WHOLE_RUN.into())),
                ),
            };
            let evidence = tried.as_ref().map_or(Evidence::Places, Evidence::Tried);
            self.add(run, trace, finding, evidence)?;
        }
        Ok(may_wait)
    }
}

impl<E> Check<'_, E> {
    /// What the detector sees in a run, or in several if a loop may have ordered some races of the first.
    fn watch<P: Program<Error = E>>(
        &mut self,
        confirmation: &mut Confirmation<P>,
    ) -> Result<WholeRun, E> {
        let work = self.work;
        let mut races = Vec::new();
        let mut unwatched = Some(Unwatched::NoTime);
        let shares = iter::once(SHARE_OF_FIRST).chain(iter::repeat(SHARE_OF_OTHERS));
        for (part, whole) in shares.take(MOST_WATCHED) {
            if work.is_out_of_time() {
                break;
            }
            let run = work.stage(part, whole, || confirmation.detect())?;
            races.extend(run.races);
            // One whole run is enough.
            unwatched = unwatched.and(run.unwatched);
            let is_sure = |race: &&Watched| race.proof == Proof::DetectorWithoutLoop;
            let sure: BTreeSet<_> = races.iter().filter(is_sure).map(places).collect();
            if races.iter().all(|race| sure.contains(&places(race))) {
                break;
            }
        }
        Ok(WholeRun { races, unwatched })
    }
}

fn places(race: &Watched) -> [u64; 2] {
    Sighting::places(race.pcs[0], race.pcs[1])
}

/// Accesses of the same bytes by two threads at these places, if the recording has some.
fn in_recording(trace: &Trace, pcs: [u64; 2]) -> Option<Bug> {
    let at = |pc: u64| -> Vec<bool> { trace.places.iter().map(|place| place.pc == pc).collect() };
    let [one, other] = pcs.map(at);
    let is_at = |places: &[bool], place: PlaceId| places.get(place.index()).is_some_and(|is| *is);
    let touch = |event: &Event| {
        let touch = Touch::of(event.op)?;
        matches!(
            touch.kind,
            TouchKind::Plain | TouchKind::Atomic | TouchKind::Free
        )
        .then_some(touch)
    };
    let mut events: FxHashMap<u64, Vec<EventIndex>> = FxHashMap::default();
    for (index, event) in trace.events.iter().enumerate() {
        if is_at(&one, event.place)
            && let Some(touch) = touch(event)
        {
            let known = events.entry(touch.access.address >> 3).or_default();
            let is_new = |known: &EventIndex| trace.events[known.index()].thread != event.thread;
            if known.iter().all(is_new) {
                known.push(EventIndex::from_index(index));
            }
        }
    }
    let mut later = trace.events.iter().enumerate();
    later.find_map(|(index, event)| {
        if !is_at(&other, event.place) {
            return None;
        }
        let here = touch(event)?;
        let mut candidates = events.get(&(here.access.address >> 3))?.iter();
        let first = candidates.find(|first| {
            let first = &trace.events[first.index()];
            first.thread != event.thread
                && touch(first).is_some_and(|there| {
                    there.access.overlaps(here.access) && (there.writes || here.writes)
                })
        })?;
        let second = EventIndex::from_index(index);
        Some(Bug::Race {
            first: second.min(*first),
            second: second.max(*first),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(script: &str, at: [u32; 2], found: Option<[u32; 2]>) {
        let trace = norns_model::script::trace(script);
        let pcs = at.map(|event| trace.place(trace.events[event as usize].place).pc);
        let found = found.map(|[first, second]| Bug::Race {
            first: EventIndex(first),
            second: EventIndex(second),
        });
        assert_eq!(in_recording(&trace, pcs), found, "{script}");
    }

    #[test]
    fn accesses_of_the_same_bytes_stand_for_a_race() {
        let script = "T1: write x, write y
                      T2: lock m, read x, unlock m";
        check(script, [0, 3], Some([0, 3]));
        check(script, [3, 0], Some([0, 3]));
        check(script, [1, 3], None);
        check(script, [0, 1], None);
    }

    #[test]
    fn one_of_them_writes() {
        check("T1: read x\nT2: read x", [0, 1], None);
    }
}
