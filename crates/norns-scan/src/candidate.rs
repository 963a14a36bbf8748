//! What a scan gives out.

/// Something that looks wrong in the code. No run has shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub kind: CandidateKind,
    /// Higher comes first.
    pub rank: u32,
    /// The variable, block or locks that it is about.
    pub object: String,
    pub places: Vec<Place>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CandidateKind {
    DataRace,
    Deadlock,
    /// A thread takes a lock that it holds already.
    SelfDeadlock,
    /// A thread waits for a condition while it holds a second lock.
    WaitWithLock,
    /// A function returns on one path with a lock that it releases on another.
    LockNotReleased,
    UnlockWithoutLock,
    WaitWithoutLoop,
}

impl CandidateKind {
    pub const ALL: [Self; 7] = [
        Self::DataRace,
        Self::Deadlock,
        Self::SelfDeadlock,
        Self::WaitWithLock,
        Self::LockNotReleased,
        Self::UnlockWithoutLock,
        Self::WaitWithoutLoop,
    ];

    /// The name in JSON and SARIF.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DataRace => "data-race",
            Self::Deadlock => "deadlock",
            Self::SelfDeadlock => "self-deadlock",
            Self::WaitWithLock => "wait-with-lock",
            Self::LockNotReleased => "lock-not-released",
            Self::UnlockWithoutLock => "unlock-without-lock",
            Self::WaitWithoutLoop => "wait-without-loop",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// In the program's own files, if a call there leads to it.
    pub at: SourcePlace,
    /// Where in the headers of the system it happens, if that is not `at` itself; sorted.
    pub inside: Vec<SourcePlace>,
    /// `read`, `write`, `lock`, …
    pub access: &'static str,
    /// The locks that are held, by name.
    pub held: Vec<String>,
    /// The calls that lead here, the thread's first function first.
    pub chain: Vec<SourcePlace>,
    /// Where the thread is created; `None` for the thread of `main`.
    pub created: Option<SourcePlace>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourcePlace {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub function: String,
}
