//! What an analysis left out, and why.
//!
//! Every stage that leaves something out says so with a reason of this list; `norns-report` puts it
//! into words. The list is here because this is the lowest crate that all those stages know.

use norns_trace::Warning;

use crate::checker::Refusal;

/// Why the race detector watched no whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwatched {
    /// The time was up before.
    NoTime,
    /// The run came to an early end; the words complete "the program …".
    EarlyEnd(String),
    /// A system call may have ordered threads in a way that the detector does not know.
    UnknownCall,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAnalysed {
    /// Something is wrong with the trace itself.
    Trace(Warning),
    /// The recorded run ended in another way than by exiting; `how` completes "the program …".
    AfterTheEnd {
        how: String,
        /// It died, hung or took too long; otherwise it was stopped as the user wanted.
        is_failure: bool,
        last_lines: Vec<String>,
    },
    /// A further recording, under another schedule than the first, was ended by a signal or hung; `how`
    /// completes "the program …".
    FailedLater {
        /// From 1, as the recordings are counted for the user.
        recording: u32,
        how: String,
        /// Waits gave up before their time-outs, which a program may take for an error.
        impatient: bool,
        last_lines: Vec<String>,
    },
    /// The recorded run exited with a status that means an error.
    ErrorStatus {
        status: i32,
        last_lines: Vec<String>,
    },
    /// What the client was to make the program do; `problem` completes "the client …".
    Client {
        problem: String,
        last_lines: Vec<String>,
    },
    /// The program was not built with norns-cc.
    Accesses { synchronisation_is_seen: bool },
    /// Libraries of the program, though not of the system, that were not built with norns-cc.
    Libraries { paths: Vec<String> },
    /// Processes that the program left running, and that were stopped.
    LeftRunning { processes: usize },
    /// What threads of an OpenMP runtime do: its own synchronisation is not understood.
    OpenMp { runtime: String },
    /// What came after the events that the recording keeps: the race detector watched no whole run.
    RestOfRun(Unwatched),
    /// Rules of the user; `problem` is a sentence.
    Rules { problem: String },
    /// Steps that were probably meant to be atomic, and of which it was not decided whether they are.
    Regions { regions: usize },
    /// What a race does to the program; `problem` is the finding and a reason.
    Class { problem: String },
    /// Such steps at all: the trace is too long.
    LongRegions { events: usize },
    /// Reads are to see the write that they saw, in a trace that does not order accesses.
    GuessedReads,
    /// The recorded order is none of the model's.
    RecordedOrder(Refusal),
    /// The recorded order of the operations on one object is none of the model's: it is taken to order
    /// nothing.
    Object { name: String, refusal: Refusal },

    /// The recorded values refute nothing: the trace is too long for the ordering solver.
    Values { events: usize, threads: usize },
    /// The recorded values: the chosen engine does not compare them, and keeps the write of every
    /// read instead.
    ValuesOfReads,
    /// Reads whose value no recorded write left there.
    UnexplainedReads { reads: usize },
    /// Every time that the same cycle of threads, locks and places was reached, but the first.
    RepeatedDeadlocks,
    /// Some of the cycles of locks.
    LockCycles,
    /// Some of the waits that nothing ends: the budget was spent.
    EndlessWaits,
    /// Pairs of conflicting accesses, of which there are more than this.
    Pairs { more_than: usize },
    /// Accesses that may race with an earlier one: the budget was spent.
    RacyEvents { undecided: usize },
    /// Racy pairs of accesses of which the solver could not say whether values allow them.
    PairsWithValues { undecided: usize },
    /// Locations whose accesses were not all compared with each other.
    Locations { locations: usize, accesses: usize },
    /// Findings whose witnesses are not listed: there are too many.
    Unlisted { findings: usize },
    /// What no engine came to: the work of the prediction was spent, or the time was up.
    OutOfBudget { by_the_clock: bool },

    /// Everything: the trace is too long for the refinement checker.
    LongForRefinement { events: usize, most: usize },
    /// Everything: the refinement checker does not accept the model.
    Refinement { problem: String },
    /// Deadlocks that exact search finds and the refinement checker does not look for.
    DeadlocksOutsideTheTrace { deadlocks: usize },
    /// Assertions that cost the refinement checker more than this many states.
    Assertions { undecided: usize, states: u64 },
    /// Races on which exact search and the refinement checker disagree.
    Disagreement { races: usize },

    /// Witnesses that the checker refused.
    RefusedWitnesses { witnesses: usize },
    /// Predictions that the recorded values refute.
    RefutedByValues { predictions: usize, listed: bool },
    /// Predictions that replays refuted.
    RefutedByReplays { predictions: usize },
    /// Predictions whose schedules let a read see another write than in the run, and that no replay
    /// confirmed.
    OtherReads { predictions: usize },
    /// Pairs of places that race at most in schedules in which a read sees another write than in the
    /// run, and for which not even that could be decided.
    UndecidedOtherReads { pairs: usize },
    /// Replays prove less: the program does not even follow its own recording. Why not, and why
    /// not the second time where that was another reason.
    UnfaithfulReplays {
        why: String,
        next_time: Option<String>,
    },
    /// Processes that the program started in a replay.
    ChildProcesses,
    /// Predictions in code that the program loads while it runs, which replays did not see being loaded.
    LoadedLater,
    /// Further processes of the recorded run, of which nothing is replayed.
    OtherProcesses { processes: usize },
    /// What later runs do not get as the recorded run did: a sentence for each.
    Inputs { problems: Vec<String> },
    /// Findings that the user's file suppresses.
    Suppressed { findings: usize },

    /// A reason of an earlier run, as its findings have it.
    ReadBack(String),
}

impl NotAnalysed {
    /// Whether nothing at all was seen of the run.
    pub fn is_everything(&self) -> bool {
        matches!(self, NotAnalysed::Trace(Warning::NothingRecorded))
    }

    /// Whether it makes all findings doubtful, and is to be said before them.
    pub fn is_about_all_findings(&self) -> bool {
        matches!(self, NotAnalysed::OpenMp { .. })
    }

    /// Whether the run was not the one that was meant, or parts of it were not seen: no findings then
    /// say less than they seem to.
    pub fn is_gap(&self) -> bool {
        match self {
            NotAnalysed::Trace(warning) => !matches!(
                warning,
                Warning::UnknownCounter { .. }
                    | Warning::Unfinished { .. }
                    | Warning::NoDebugInformation { .. }
                    | Warning::ValuesDiffer { .. }
                    | Warning::Rebuilt { .. }
            ),
            NotAnalysed::AfterTheEnd { .. }
            | NotAnalysed::FailedLater { .. }
            | NotAnalysed::ErrorStatus { .. }
            | NotAnalysed::Client { .. }
            | NotAnalysed::Accesses { .. }
            | NotAnalysed::Libraries { .. }
            | NotAnalysed::LeftRunning { .. }
            | NotAnalysed::RestOfRun(_)
            | NotAnalysed::OpenMp { .. } => true,
            _ => false,
        }
    }
}
