//! The environment of a run: the variables for the runtime, and their size.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use norns_wire::environment::{self, Mode, PADDING};

/// The value of `LD_PRELOAD` with the runtime first: its functions must be found before those of
/// other preloaded libraries.
pub fn before_other_libraries(runtime: &Path) -> OsString {
    let mut all = runtime.as_os_str().to_os_string();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// The variables of a run, padded with others to a fixed number and a fixed length: the stack begins
/// below the environment, so that what is on it has the same address in every run.
pub fn with_padding(
    mode: Mode,
    variables: &[(&'static str, OsString)],
) -> Vec<(&'static str, OsString)> {
    const LENGTH: usize = 4096;
    let mut all = vec![(environment::MODE, OsString::from(mode.word()))];
    all.extend_from_slice(variables);
    // At least one, which takes up the rest of the length.
    let missing = (PADDING.len() + 1).saturating_sub(all.len()).max(1);
    all.extend(
        PADDING[..missing]
            .iter()
            .map(|&name| (name, OsString::new())),
    );
    let length = |(name, value): &(&str, OsString)| name.len() + value.len();
    let used: usize = all.iter().map(length).sum();
    let rest = used.next_multiple_of(LENGTH) - used;
    if let Some((_, value)) = all.last_mut() {
        *value = "-".repeat(rest).into();
    }
    all
}
