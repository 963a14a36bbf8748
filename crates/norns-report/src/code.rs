//! The codes of findings: short names to search for, and to ask `norns explain` about.

use crate::finding::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    pub code: &'static str,
    pub kind: Kind,
    /// The kind in plain words.
    pub words: &'static str,
}

pub const CODES: [Code; 5] = [
    Code {
        code: "NR0001",
        kind: Kind::DataRace,
        words: "data race",
    },
    Code {
        code: "NR0002",
        kind: Kind::UseAfterFree,
        words: "use after free",
    },
    Code {
        code: "NR0003",
        kind: Kind::DoubleFree,
        words: "double free",
    },
    Code {
        code: "NR0101",
        kind: Kind::Deadlock,
        words: "deadlock",
    },
    Code {
        code: "NR0102",
        kind: Kind::Stuck,
        words: "endless wait",
    },
];

impl Kind {
    pub fn code(self) -> Code {
        *CODES
            .iter()
            .find(|code| code.kind == self)
            .expect("CODES lists every kind")
    }
}
