//! Traces as files and as text: what is written is read back, whatever happens to the file in between.

mod allocation;
mod cut_and_changed;
mod fuzz;
mod random;
mod raw;
mod round_trip;
mod runtime;
mod streaming;
mod understood;
mod wildcards;

use std::path::PathBuf;

/// A path for a file of this test, in a folder that the build system empties.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}

/// Writes a file without truncating it first: some file systems flush a file that was truncated and
/// written again, which makes thousands of them slow.
fn put(path: &std::path::Path, content: &[u8]) {
    use std::io::Write;
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    let mut file = file.unwrap();
    file.write_all(content).unwrap();
    file.set_len(content.len() as u64).unwrap();
}
