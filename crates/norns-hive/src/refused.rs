//! What a hive refuses of the messages of `protocol`: another version, too much, or what does not fit together.

use crate::id::{CandidateId, SiteNumber};
use crate::protocol::{
    Batch, Build, Candidate, MAX_CANDIDATES, MAX_FRAMES, MAX_NAME, MAX_REPORTS, Report,
    TaskRequest, VERSION,
};

/// Why a message is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("format {0} is not known; this hive speaks format {VERSION}")]
    Version(u32),
    #[error("too many {what}: {count}, at most {limit} are accepted")]
    TooMany {
        what: &'static str,
        count: usize,
        limit: usize,
    },
    #[error("a {0} is longer than {MAX_NAME} bytes or has control characters")]
    Name(&'static str),
    #[error("the path `{0}` is not relative")]
    AbsolutePath(String),
    #[error("site {} stands twice in the list of sites", .0.0)]
    SiteTwice(SiteNumber),
    #[error("candidate {0} stands twice in the list of candidates")]
    CandidateTwice(CandidateId),
    #[error("candidate {candidate} names site {}, which the build does not have", site.0)]
    UnknownSite {
        candidate: CandidateId,
        site: SiteNumber,
    },
    #[error("a time of {0} ms for one report is not possible")]
    Figures(u64),
}

fn version(format: u32) -> Result<(), Refused> {
    (format == VERSION)
        .then_some(())
        .ok_or(Refused::Version(format))
}

fn at_most(what: &'static str, count: usize, limit: usize) -> Result<(), Refused> {
    (count <= limit)
        .then_some(())
        .ok_or(Refused::TooMany { what, count, limit })
}

fn name(what: &'static str, text: &str) -> Result<(), Refused> {
    (text.len() <= MAX_NAME && !text.chars().any(char::is_control))
        .then_some(())
        .ok_or(Refused::Name(what))
}

fn relative(path: &str) -> Result<(), Refused> {
    name("path", path)?;
    let leaves = path.starts_with('/') || path.split('/').any(|part| part == "..");
    (!leaves)
        .then_some(())
        .ok_or_else(|| Refused::AbsolutePath(path.to_owned()))
}

impl TaskRequest {
    pub fn check(&self) -> Result<(), Refused> {
        version(self.format)
    }
}

impl Build {
    pub fn check(&self) -> Result<(), Refused> {
        version(self.format)?;
        name("label", &self.label)?;
        at_most("sites", self.sites.len(), MAX_CANDIDATES)?;
        at_most("candidates", self.candidates.len(), MAX_CANDIDATES)?;
        let mut numbers = std::collections::BTreeSet::new();
        for site in &self.sites {
            name("path", &site.file)?;
            name("function", &site.function)?;
            if !numbers.insert(site.number) {
                return Err(Refused::SiteTwice(site.number));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        for candidate in &self.candidates {
            if !seen.insert(&candidate.id) {
                return Err(Refused::CandidateTwice(candidate.id.clone()));
            }
            name("object", &candidate.object)?;
            for place in &candidate.places {
                name("path", &place.file)?;
                name("function", &place.function)?;
            }
            for &site in candidate.sites.iter().flatten() {
                if !numbers.contains(&site) {
                    let candidate = candidate.id.clone();
                    return Err(Refused::UnknownSite { candidate, site });
                }
            }
        }
        self.sources.keys().try_for_each(|path| name("path", path))
    }

    /// The candidate that the sites of a report belong to, if this build has such a pair.
    #[must_use]
    pub fn candidate(&self, id: &CandidateId, sites: [SiteNumber; 2]) -> Option<&Candidate> {
        let mut candidates = self.candidates.iter();
        candidates.find(|candidate| candidate.id == *id && candidate.has(sites))
    }
}

impl Candidate {
    /// Whether these are sites of its first and second place.
    #[must_use]
    pub fn has(&self, sites: [SiteNumber; 2]) -> bool {
        self.sites[0].contains(&sites[0]) && self.sites[1].contains(&sites[1])
    }
}

impl Batch {
    pub fn check(&self) -> Result<(), Refused> {
        version(self.format)?;
        at_most("reports", self.reports.len(), MAX_REPORTS)?;
        self.reports.iter().try_for_each(Report::check)
    }
}

impl Report {
    fn check(&self) -> Result<(), Refused> {
        /// One report speaks of one hour; a suspended machine can stretch it.
        const LONGEST_MS: u64 = 7 * 24 * 3600 * 1000;
        match self {
            Report::Task(report) => {
                at_most("stacks", report.stacks.len(), 2)?;
                let consequence = report.consequence.iter().map(|failed| &failed.stack);
                report
                    .stacks
                    .iter()
                    .chain(consequence)
                    .try_for_each(|stack| {
                        at_most("frames", stack.len(), MAX_FRAMES)?;
                        stack.iter().try_for_each(|frame| {
                            name("module", &frame.module)?;
                            name("function", &frame.function)?;
                            relative(&frame.file)?;
                            relative(&frame.module)
                        })
                    })
            }
            Report::Contexts { pairs } => at_most("pairs of sites", pairs.len(), MAX_REPORTS),
            Report::Run(figures) => {
                let longest = figures.wall_ms.max(figures.active_ms);
                (longest <= LONGEST_MS)
                    .then_some(())
                    .ok_or(Refused::Figures(longest))
            }
        }
    }
}
