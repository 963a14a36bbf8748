//! The file of sites that a guarded program carries: a [`Build`], as its compiler wrote it into the program, and what
//! that was made from.

use std::collections::BTreeSet;
use std::path::Path;

use object::{Object as _, ObjectSection as _};

use crate::id::{BuildId, SiteNumber};
use crate::protocol::Build;

/// The section of the program with the build.
pub const SECTION: &str = "norns_guarded";
/// The section with the records of its sites: 8 bytes each, the last four the number.
const RECORDS: &str = "norns_guard";

#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    #[error("cannot read {program}: {reason}")]
    Unreadable { program: String, reason: String },
    #[error("{0} was not built for norns guard: it has no sites")]
    NotGuarded(String),
    #[error("{0} has no build id\n help: link it with --build-id")]
    NoBuildId(String),
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

/// What the compiler has put into a program for `norns guard`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    pub id: BuildId,
    /// The numbers of all sites.
    pub sites: BTreeSet<SiteNumber>,
}

/// The sites of a linked program; `None` if it has none.
pub fn records_of(program: &Path) -> Result<Option<Records>, EmbeddedError> {
    let name = || program.display().to_string();
    let unreadable = |reason: String| EmbeddedError::Unreadable {
        program: name(),
        reason,
    };
    let bytes = std::fs::read(program).map_err(|error| unreadable(error.to_string()))?;
    let file = object::File::parse(&*bytes).map_err(|error| unreadable(error.to_string()))?;
    let Some(section) = file.section_by_name(RECORDS) else {
        return Ok(None);
    };
    let records = section
        .data()
        .map_err(|error| unreadable(error.to_string()))?;
    let (records, _) = records.as_chunks::<8>();
    let number = |record: &[u8; 8]| {
        SiteNumber(u32::from_le_bytes([
            record[4], record[5], record[6], record[7],
        ]))
    };
    let id = file
        .build_id()
        .map_err(|error| unreadable(error.to_string()))?
        .ok_or_else(|| EmbeddedError::NoBuildId(name()))?;
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(Records {
        id: BuildId::new(id).map_err(|_| EmbeddedError::NoBuildId(name()))?,
        sites: records.iter().map(number).collect(),
    }))
}
