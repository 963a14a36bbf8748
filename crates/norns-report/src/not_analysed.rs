//! What was not analysed, in words: a sentence for every reason, also the JSON form of it.

use norns_model::{NotAnalysed, Unwatched};
use serde::{Deserialize, Deserializer, Serializer};

/// The sentence of a reason.
pub fn sentence(reason: &NotAnalysed) -> String {
    match reason {
        NotAnalysed::Trace(warning) => warning.to_string(),
        NotAnalysed::AfterTheEnd {
            how, last_lines, ..
        } => {
            let lines = quoted(last_lines);
            format!("what would have followed in the recorded run: the program {how}{lines}")
        }
        NotAnalysed::FailedLater {
            recording,
            how,
            impatient,
            last_lines,
        } => {
            let lines = quoted(last_lines);
            let schedule = if *impatient {
                "with time-outs cut short"
            } else {
                "under another schedule"
            };
            format!("why recording {recording}, {schedule}, came to a bad end: the program {how}{lines}")
        }
        NotAnalysed::ErrorStatus { status, last_lines } => {
            let lines = quoted(last_lines);
            format!("perhaps what was meant to run: the program exited with status {status}{lines}")
        }
        NotAnalysed::Client {
            problem,
            last_lines,
        } => {
            let lines = quoted(last_lines);
            format!("perhaps what the client was to make the program do: the client {problem}{lines}")
        }
        NotAnalysed::Libraries { paths } => format!(
            "memory accesses of libraries that were not built with norns-cc (CC=norns-cc \
             CXX=norns-c++): {}",
            paths.join(", ")
        ),
        NotAnalysed::LeftRunning { processes: 1 } => {
            "a process that the program left running in the background, which was stopped: let the \
             program run in the foreground"
                .into()
        }
        NotAnalysed::LeftRunning { processes } => format!(
            "{processes} processes that the program left running in the background, which were \
             stopped: let the program run in the foreground"
        ),
        NotAnalysed::OpenMp { runtime } => format!(
            "how {runtime} orders the threads of a parallel region: a race there is confirmed only \
             if a replay could stop both threads before their accesses, and predictions may be \
             false"
        ),
        NotAnalysed::Accesses {
            synchronisation_is_seen,
        } => {
            let but = match synchronisation_is_seen {
                true => ", so only its synchronisation is seen",
                false => "",
            };
            format!(
                "memory accesses: the program was not built with norns-cc (CC=norns-cc \
                 CXX=norns-c++){but}"
            )
        }
        NotAnalysed::RestOfRun(unwatched) => {
            let why = match unwatched {
                Unwatched::NoTime => "the time was up before the race detector had watched it",
                Unwatched::EarlyEnd(how) => &format!("in the run that the race detector watched, the program {how}"),
                Unwatched::UnknownCall => {
                    "in the run that the race detector watched, a system call may have ordered threads unseen"
                }
            };
            format!("what came after the events that are kept: {why}")
        }
        NotAnalysed::Rules { problem } => format!("a rule: {problem}"),
        NotAnalysed::Class { problem } => format!("what a race does to the program: {problem}"),
        NotAnalysed::Regions { regions } => format!(
            "steps that were probably meant to be atomic, and of which it is not decided whether another \
             thread can come into them: {regions}"
        ),
        NotAnalysed::LongRegions { events } => format!(
            "steps that were probably meant to be atomic: {events} events are too many for the ordering engine"
        ),
        NotAnalysed::GuessedReads => {
            "the trace does not order its accesses, so what its reads saw is a guess".into()
        }
        NotAnalysed::RecordedOrder(refusal) => format!(
            "the recorded order is not one that the model allows ({refusal}): what comes after \
             that event is analysed with doubt"
        ),
        NotAnalysed::Object { name, refusal } => format!(
            "{name}: its operations came in an order that is not understood ({refusal}), so it is \
             taken to order nothing"
        ),
        NotAnalysed::Values { events, threads } => format!(
            "values: the trace has {events} events of {threads} threads, too many for the solver, \
             so nothing is refuted by them"
        ),
        NotAnalysed::ValuesOfReads => {
            "values: this engine does not compare them, so every read has to see the very write that \
             it saw, although another one of the same value would do; --engine auto and order do"
                .into()
        }
        NotAnalysed::UnexplainedReads { reads } => format!(
            "values: {reads} reads of shared memory saw what no recorded write left there; they \
             are taken to need the write before them"
        ),
        NotAnalysed::RepeatedDeadlocks => {
            "one deadlock is listed for every cycle of threads, locks and places, not one for \
             every time that these were reached"
                .into()
        }
        NotAnalysed::LockCycles => {
            "there are too many ways in which locks could wait for each other to list them all: \
             not all cycles of locks were looked at"
                .into()
        }
        NotAnalysed::EndlessWaits => {
            "the search for waits that nothing ends ran out of its budget: there may be more of \
             them"
                .into()
        }
        NotAnalysed::Pairs { more_than } => format!(
            "there are more than {more_than} pairs of conflicting accesses: racy events are those \
             that near-linear prediction finds, and pairs are left out"
        ),
        NotAnalysed::RacyEvents { undecided } => format!(
            "{undecided} accesses may race with an earlier one, but no engine could say so within \
             its budget: they are not among the racy events"
        ),
        NotAnalysed::PairsWithValues { undecided } => format!(
            "values: {undecided} racy pairs are listed although the solver could not decide \
             whether values allow them"
        ),
        NotAnalysed::Locations {
            locations,
            accesses,
        } => format!(
            "{accesses} accesses to {locations} locations were not all compared with each other: \
             the work set aside for them was spent"
        ),
        NotAnalysed::Unlisted { findings } => format!(
            "{findings} more pairs or sets of places have a schedule that shows a bug; there are \
             too many to list"
        ),
        NotAnalysed::OutOfBudget { by_the_clock } => match by_the_clock {
            true => "the time for the prediction was up before all candidates were decided; with \
                     more time (--budget of check, --time-limit of predict) there may be more"
                .into(),
            false => "the work set aside for the prediction was spent before all candidates were \
                      decided; with more time (--budget of check, --time-limit of predict) there \
                      may be more"
                .into(),
        },
        NotAnalysed::LongForRefinement { events, most } => format!(
            "everything: the trace has {events} events, and --engine csp takes at most {most}"
        ),
        NotAnalysed::Refinement { problem } => format!("everything: {problem}"),
        NotAnalysed::DeadlocksOutsideTheTrace { deadlocks } => format!(
            "{deadlocks} deadlocks are found by exact search, but not by the refinement checker, \
             which looks for none once a thread leaves the trace"
        ),
        NotAnalysed::Assertions { undecided, states } => {
            format!("{undecided} assertions cost more than {states} states")
        }
        NotAnalysed::Disagreement { races } => format!(
            "exact search and refinement checker disagree on {races} races (a mistake of Norns, \
             or an access of several locations)"
        ),
        NotAnalysed::RefusedWitnesses { witnesses } => format!(
            "{witnesses} witnesses were found but refused by the checker (a mistake of Norns)"
        ),
        NotAnalysed::RefutedByValues {
            predictions,
            listed,
        } => {
            let but = if *listed {
                ""
            } else {
                ", and not listed without --all"
            };
            format!(
                "predicted but refuted by the recorded values, without a replay{but}: {predictions}"
            )
        }
        NotAnalysed::RefutedByReplays { predictions } => {
            format!("predicted but refuted by replays, and not listed without --all: {predictions}")
        }
        NotAnalysed::OtherReads { predictions } => format!(
            "possible only if the program does the same although a read sees another value, not \
             confirmed by replays, and not listed without --all: {predictions}"
        ),
        NotAnalysed::UndecidedOtherReads { pairs } => format!(
            "not decided, and possible at most if the program does the same although a read sees \
             another value: {pairs} pairs of places"
        ),
        NotAnalysed::UnfaithfulReplays { why, next_time } => {
            let next = match next_time {
                Some(why) => format!(" (the next time: {why})"),
                None => String::new(),
            };
            format!(
                "the program does not follow its own recording, so replays are best effort: \
                 {why}{next}"
            )
        }
        NotAnalysed::ChildProcesses => {
            "child processes in replays: only the process that was recorded is scheduled and \
             watched"
                .into()
        }
        NotAnalysed::LoadedLater => {
            "replays of code that the program loads while it runs: it was not seen where it lay, so \
             nothing there is called refuted"
                .into()
        }
        NotAnalysed::OtherProcesses { processes } => {
            let what = match processes {
                1 => "a process that the program forked was recorded".into(),
                processes => format!("{processes} processes that the program forked were recorded"),
            };
            format!("{what} as well; nothing of it is replayed, so what is only predicted stays so")
        }
        NotAnalysed::Inputs { problems } => format!(
            "what replays do not get as the recorded run did: {}",
            problems.join("; ")
        ),
        NotAnalysed::Suppressed { findings } => format!("{findings} findings are suppressed"),
        NotAnalysed::ReadBack(sentence) => sentence.clone(),
    }
}

/// The last lines of a program's output, for the end of a sentence.
fn quoted(lines: &[String]) -> String {
    match lines {
        [] => String::new(),
        lines => format!("; its last output was `{}`", lines.join("` `")),
    }
}

/// The JSON form: an array of sentences.
pub(crate) fn serialize<S: Serializer>(
    reasons: &[NotAnalysed],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(reasons.iter().map(sentence))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<NotAnalysed>, D::Error> {
    let sentences = Vec::<String>::deserialize(deserializer)?;
    Ok(sentences.into_iter().map(NotAnalysed::ReadBack).collect())
}
