//! Traces as files and as text: what is written is read back, whatever happens to the file in between.

mod allocation;
mod cut_and_changed;
mod fuzz;
mod random;
mod raw;
mod round_trip;
mod streaming;

use std::path::PathBuf;

/// A path for a file of this test, in a folder that the build system empties.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}
