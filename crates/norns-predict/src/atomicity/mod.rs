//! Steps that were meant to be atomic and are not, without anybody's specification.
//!
//! 1. `regions` proposes pairs of accesses that one thread makes close to each other in one call of a
//!    function, and accesses of another thread that do not fit between them. All of them are atomic or
//!    under a common lock: what is not is a race, and reported as such.
//! 2. The ordering engine looks for a schedule that puts them there, in which every read whose write is
//!    known keeps it. Reads of the variables themselves may see anything: what they see is the point, and a
//!    replay shows whether the program then still comes to all of these places.
//!
//! Which interleavings of one variable are wrong is from Lu et al. (2006), table 1; those of two
//! variables from Vaziri et al. (2006), figure 4. That a pair which the recorded run itself interleaved
//! was not meant to be atomic is from the former as well.

mod regions;

use norns_budget::Budget;
use norns_model::checker::Checker;
use norns_model::{Bug, Meaning, Model, Witness};
use norns_trace::{EventIndex, Touch, Trace};
use rustc_hash::FxHashSet;

use self::regions::Region;
use crate::known_reads::KnownReads;
use crate::order::{Engine, NoSchedule, too_long};

/// How many interleavings are asked about.
const MOST_QUESTIONS: usize = 400;

/// What was found of the proposed regions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interleavings {
    /// One for each region that can be interleaved, with `Bug::Atomicity`, in the order of the trace.
    pub witnesses: Vec<Witness>,
    /// How many regions were not decided.
    pub undecided: usize,
    /// Whether the trace is too long to look for any.
    pub is_too_long: bool,
}

/// Predicts interleavings of regions that were probably meant to be atomic.
pub fn predict_atomicity(trace: &Trace, work: &Budget) -> Interleavings {
    let mut found = Interleavings::default();
    if too_long(trace) {
        found.is_too_long = true;
        return found;
    }
    let model = Model::new(trace, Meaning::Optimistic);
    let regions = regions::propose(&model);
    let mut answers = vec![Answer::default(); regions.len()];
    if !regions.is_empty() {
        ask(&model, &regions, &mut answers, work);
    }
    for answer in answers {
        found.undecided += usize::from(answer.is_open && answer.witness.is_none());
        found.witnesses.extend(answer.witness);
    }
    found
}

/// The reads of the variables that the regions are about: what these see is the point.
fn free_reads(model: &Model<'_>, regions: &[Region]) -> FxHashSet<EventIndex> {
    let interleavings = regions.iter().flat_map(|region| &region.interleavings);
    let accesses = interleavings.flatten().copied();
    let locations: FxHashSet<u32> = accesses
        .flat_map(|event| model.locations.of_event(event))
        .collect();
    let all = (0..model.trace.events.len()).map(EventIndex::from_index);
    let reads = all.filter(|&event| Touch::of(model.op(event)).is_some_and(|touch| touch.reads));
    reads
        .filter(|&event| {
            model
                .locations
                .of_event(event)
                .any(|one| locations.contains(&one))
        })
        .collect()
}

/// What is known of a region.
#[derive(Clone, Default)]
struct Answer {
    witness: Option<Witness>,
    /// Whether an interleaving was not decided.
    is_open: bool,
}

/// Asks until every region has a witness, or no question is left.
fn ask(model: &Model<'_>, regions: &[Region], answers: &mut [Answer], work: &Budget) {
    let trace = model.trace;
    let free = free_reads(model, regions);
    let Some(known) = KnownReads::with_free(trace, &free, work) else {
        for answer in answers {
            answer.is_open = true;
        }
        return;
    };
    let mut engine = Engine::within(&known.trace, Meaning::Faithful, work.clone());
    let checker = Checker::new(trace, Meaning::Optimistic);
    let mut asked = 0;
    for (region, answer) in regions.iter().zip(answers) {
        for accesses in &region.interleavings {
            let at = |event: &EventIndex| known.events.binary_search(event).ok();
            let kept: Option<Vec<usize>> = accesses.iter().map(at).collect();
            let Some(kept) = kept.filter(|_| asked < MOST_QUESTIONS) else {
                answer.is_open = true;
                continue;
            };
            asked += 1;
            let accesses = kept.into_iter().map(EventIndex::from_index).collect();
            let bug = Bug::Atomicity { accesses };
            match engine.schedule_for(&bug) {
                Ok(schedule) => {
                    let witness = known.restored(trace, Witness { schedule, bug });
                    if checker.check(&witness).is_ok() {
                        answer.witness = Some(witness);
                        break;
                    }
                }
                Err(NoSchedule::Impossible) => {}
                Err(NoSchedule::Undecided) => answer.is_open = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use norns_model::script;

    /// The interleavings that are predicted, each as the numbers of its events.
    fn check(script: &str, expected: &[&[u32]]) {
        let trace = script::trace(script);
        let found = predict_atomicity(&trace, &Budget::unlimited());
        assert_eq!(found.undecided, 0, "{script}");
        let bugs = found.witnesses.iter().map(|witness| witness.bug.events());
        let numbers = bugs.map(|events| events.iter().map(|event| event.0).collect::<Vec<_>>());
        assert_eq!(numbers.collect::<Vec<_>>(), expected, "{script}");
    }

    #[test]
    fn an_update_in_two_critical_sections_is_not_atomic() {
        check(
            "T1: lock m, read x, unlock m, lock m, write x, unlock m
             T2: lock m, write x, unlock m",
            &[&[1, 7, 4]],
        );
    }

    #[test]
    fn two_threads_that_do_the_same_can_lose_an_update() {
        check(
            "T1: lock m, read x, unlock m, lock m, write x, unlock m
             T2: lock m, read x, unlock m, lock m, write x, unlock m",
            &[&[1, 10, 4], &[7, 4, 10]],
        );
    }

    #[test]
    fn two_variables_that_are_written_together_are_read_together() {
        check(
            "T1: lock m, write x, write y, unlock m
             T2: lock m, read x, unlock m, lock m, read y, unlock m",
            &[&[5, 1, 2, 8]],
        );
        check(
            "T1: lock m, write x, write y, unlock m
             T3: lock m, write y, unlock m
             T2: lock m, read x, unlock m, lock m, read y, unlock m",
            &[],
        );
    }

    #[test]
    fn one_critical_section_is_atomic() {
        check(
            "T1: lock m, read x, write x, unlock m
             T2: lock m, read x, write x, unlock m",
            &[],
        );
    }
}
