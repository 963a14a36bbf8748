//! The file of sites that a guarded program carries: a [`Build`], as its compiler wrote it into the program.

use std::path::Path;

use object::{Object as _, ObjectSection as _};

use crate::protocol::Build;

/// The section of the program. Each of its objects adds the same text.
const SECTION: &str = "norns_guarded";

#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    #[error("cannot read {program}: {reason}")]
    Unreadable { program: String, reason: String },
    #[error("{0} was not built for norns guard: it has no sites")]
    NotGuarded(String),
    #[error("the sites in {program} are not understood: {reason}")]
    Malformed { program: String, reason: String },
}

/// The sites and candidates of a program. Its sources are not in it.
pub fn build_of(program: &Path) -> Result<Build, EmbeddedError> {
    let name = || program.display().to_string();
    let unreadable = |reason: String| EmbeddedError::Unreadable {
        program: name(),
        reason,
    };
    let bytes = std::fs::read(program).map_err(|error| unreadable(error.to_string()))?;
    let file = object::File::parse(&*bytes).map_err(|error| unreadable(error.to_string()))?;
    let section = file.section_by_name(SECTION);
    let section = section.ok_or_else(|| EmbeddedError::NotGuarded(name()))?;
    let text = section
        .data()
        .map_err(|error| unreadable(error.to_string()))?;
    let mut texts = serde_json::Deserializer::from_slice(text).into_iter::<Build>();
    let malformed = |reason: String| EmbeddedError::Malformed {
        program: name(),
        reason,
    };
    let build = match texts.next() {
        Some(build) => build.map_err(|error| malformed(error.to_string()))?,
        None => return Err(EmbeddedError::NotGuarded(name())),
    };
    build
        .check()
        .map_err(|error| malformed(error.to_string()))?;
    Ok(build)
}
