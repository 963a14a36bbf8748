//! What a check keeps of the recorded run's inputs, so that later runs get the same.

use std::path::Path;
use std::sync::Arc;

use norns_model::NotAnalysed;
use norns_replay::conversation::inputs_path;
use norns_replay::{Conversation, Files, Inputs, Problem};

use crate::runs::Run;

/// The files that the recorded run changed, as they were before.
pub const KEPT_FILES: &str = "files";
/// Those of one later run.
const PRIVATE_FILES: &str = "replays/files";
/// So many problems are named.
const NAMED: usize = 5;

/// Every run after the first recording changes copies of files.
pub fn private_files(run: &Run) -> Files {
    Files::Private {
        kept: run.path(KEPT_FILES),
        folder: run.path(PRIVATE_FILES),
    }
}

/// What replays of this recording get from outside. A client that cannot be played as a whole talks to the
/// program again; where there is none, what can be played is.
pub fn of_replays(trace: &Path, conversation: Conversation, has_client: bool) -> Inputs {
    let play = match has_client {
        true => conversation.is_whole(),
        false => !conversation.connections.is_empty(),
    };
    Inputs {
        record: None,
        play: play.then(|| Arc::new(conversation)),
        serve: Some(inputs_path(trace)),
    }
}

/// What replays of a recording do not get from it.
pub fn unserved(conversation: &Conversation, has_client: bool) -> Option<NotAnalysed> {
    let mut problems = conversation.unserved.clone();
    problems.truncate(NAMED);
    if has_client && !problems.is_empty() {
        problems.push("so the client talks to every replay".into());
    }
    let outgoing = conversation.outgoing.iter().take(NAMED);
    problems.extend(outgoing.map(|with| format!("the program connects with {with} again")));
    (!problems.is_empty()).then_some(NotAnalysed::Inputs { problems })
}

/// What the runs of this check did not get as the first one did.
pub fn problems(run: &Run) -> Option<NotAnalysed> {
    let mut all = Files::problems(&run.path(KEPT_FILES));
    all.extend(Files::problems(&run.path(PRIVATE_FILES)));
    let sentence = |(problem, path): &(Problem, String)| match problem {
        Problem::LargeFile => {
            format!("{path} is too large to be copied, so only the first run changed it")
        }
        Problem::UnreadableFile => {
            format!("{path} cannot be read, so only the first run changed it")
        }
        Problem::Folder => {
            format!("only the first run could rename, remove or change the folder {path}")
        }
        Problem::List => format!("the list of files in {path} is that after the first run"),
        Problem::Value => format!("replays asked for {path} more often or in another order"),
        Problem::LongPath => format!("the path {path} is too long for a private copy"),
    };
    let mut problems: Vec<String> = all.iter().take(NAMED).map(sentence).collect();
    if all.len() > NAMED {
        problems.push(format!("and {} more", all.len() - NAMED));
    }
    (!problems.is_empty()).then_some(NotAnalysed::Inputs { problems })
}
