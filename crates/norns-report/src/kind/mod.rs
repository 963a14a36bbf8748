//! The kinds of findings: everything that is said of a kind, once.
//!
//! A kind is a file in this folder with one `Definition`, and a line in `kinds!`. The words of JSON,
//! of `--kind`, of suppressions, of the schema and of every view come from there; the tests below
//! compare the documents with them.

mod atomicity;
mod closed_in_use;
mod contradicted;
mod data_race;
mod deadlock;
mod destroy_locked;
mod destroy_waited;
mod destroyed_in_use;
mod double_free;
mod failure;
mod left_locked;
mod order;
mod stuck;
mod test_unlocked;
mod two_mutexes;
mod unlock_not_locked;
mod unlock_of_other;
mod use_after_free;
mod use_destroyed;
mod wait_not_locked;
mod wait_once;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::finding::AccessKind;
use crate::sketch::Operation;

macro_rules! kinds {
    ($($(#[$comment:meta])* $kind:ident = $file:ident,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$comment])* $kind,)*
        }

        impl Kind {
            pub const ALL: [Kind; [$(Kind::$kind),*].len()] = [$(Kind::$kind),*];

            pub fn definition(self) -> &'static Definition {
                match self {
                    $(Kind::$kind => &$file::DEFINITION,)*
                }
            }
        }
    };
}

kinds! {
    DataRace = data_race,
    UseAfterFree = use_after_free,
    DoubleFree = double_free,
    /// A synchronisation object that one thread destroys or initialises while another uses it.
    DestroyedInUse = destroyed_in_use,
    /// A descriptor that one thread closes while another uses it.
    ClosedInUse = closed_in_use,
    Deadlock = deadlock,
    /// A wait that nothing will end: condition, semaphore, barrier or join.
    Stuck = stuck,
    UnlockNotLocked = unlock_not_locked,
    UnlockOfOther = unlock_of_other,
    WaitNotLocked = wait_not_locked,
    TwoMutexes = two_mutexes,
    LeftLocked = left_locked,
    DestroyLocked = destroy_locked,
    /// A mutex or condition that was destroyed before.
    UseDestroyed = use_destroyed,
    DestroyWaited = destroy_waited,
    /// What a program says of its own locks contradicts itself.
    Contradicted = contradicted,
    /// A wait on a condition after which nothing tests again what it waits for.
    WaitOnce = wait_once,
    /// A loop that waits on a condition and tests without the mutex.
    TestUnlocked = test_unlocked,
    /// An order of events that a rule of the user does not allow.
    Order = order,
    /// A step that was probably meant to be atomic, and that another thread can come into.
    Atomicity = atomicity,
    /// The program failed, and this predicts it.
    Failure = failure,
}

/// What is true of all findings of a kind.
pub struct Definition {
    /// Short, to search for and to ask `norns explain` about.
    pub code: &'static str,
    /// The kind in JSON and of `--kind`.
    pub name: &'static str,
    /// The kind in plain words.
    pub words: &'static str,
    pub group: Group,
    pub severity: Severity,
    pub order: PlaceOrder,
    /// What a debugger shows when it stops at the bug.
    pub moment: &'static str,
    /// What `norns explain` prints; its first line is `# CODE: words`.
    pub page: &'static str,
    /// What happens, in a line, from the operations of the bug.
    pub title: fn(&[Party]) -> String,
    /// Why it can happen, in a sentence or two.
    pub why: fn(&[Operation]) -> String,
}

/// One of the operations that a finding is about.
pub struct Party<'a> {
    pub operation: &'a Operation,
    pub access: AccessKind,
}

impl Party<'_> {
    /// `T0.1 reads 4 bytes of …`.
    fn sentence(&self) -> String {
        format!("{} {}", self.operation.thread, self.operation.what)
    }
}

/// In which order the places of a finding are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceOrder {
    /// What only reads last, then by place.
    Sorted,
    /// Each waits for the next one, and the last for the first; from the smallest place on.
    Cycle,
    /// As they happen.
    Happening,
}

impl PlaceOrder {
    pub(crate) fn arrange<T, K: Ord>(self, all: &mut [T], key: impl Fn(&T) -> K) {
        match self {
            PlaceOrder::Sorted => all.sort_by_key(key),
            PlaceOrder::Happening => {}
            PlaceOrder::Cycle => {
                let smallest = (0..all.len()).min_by_key(|&i| key(&all[i]));
                all.rotate_left(smallest.unwrap_or(0));
            }
        }
    }
}

/// What a finding of this kind does to a program that runs into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It ends the program, or damages memory that is not its own.
    High,
    /// Wrong values, or behaviour that no standard defines.
    Medium,
    /// Nothing, as far as is known.
    Low,
}

impl Severity {
    pub const ALL: [Severity; 3] = [Severity::High, Severity::Medium, Severity::Low];

    pub fn word(self) -> &'static str {
        match self {
            Severity::High => "high",
            Severity::Medium => "medium",
            Severity::Low => "low",
        }
    }
}

/// Kinds that one engine looks for and that a user thinks of together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    Race,
    Deadlock,
    /// Calls that POSIX leaves undefined, as a recorded run shows them.
    Misuse,
    /// What breaks a rule of the user.
    Order,
    /// Steps that were probably meant to be atomic.
    Atomicity,
    /// What predicts that the program fails.
    Failure,
}

impl Kind {
    pub fn group(self) -> Group {
        self.definition().group
    }

    /// The kind of a race between two accesses.
    pub fn of_race(accesses: [AccessKind; 2]) -> Kind {
        let ends = |access| matches!(access, AccessKind::Destroy | AccessKind::Initialise);
        if accesses.into_iter().any(ends) {
            return Kind::DestroyedInUse;
        }
        match accesses.map(|access| access == AccessKind::Free) {
            [true, true] => Kind::DoubleFree,
            [false, false] => Kind::DataRace,
            [true, false] | [false, true] => Kind::UseAfterFree,
        }
    }
}

impl Group {
    pub const ALL: [Group; 6] = [
        Group::Race,
        Group::Deadlock,
        Group::Misuse,
        Group::Order,
        Group::Atomicity,
        Group::Failure,
    ];

    /// The word that selects all kinds of the group.
    pub fn word(self) -> &'static str {
        match self {
            Group::Race => "race",
            Group::Deadlock => "deadlock",
            Group::Misuse => "misuse",
            Group::Order => "order",
            Group::Atomicity => "atomicity",
            Group::Failure => "failure",
        }
    }

    pub fn kinds(self) -> impl Iterator<Item = Kind> {
        Kind::ALL
            .into_iter()
            .filter(move |kind| kind.group() == self)
    }
}

/// What a word selects, on the command line and in suppressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    pub word: &'static str,
    pub kinds: Vec<Kind>,
}

impl Selection {
    /// All words: every group, followed by its kinds. A kind that has the name of its group is
    /// selected with the group only.
    pub fn all() -> Vec<Selection> {
        let of_group = |group: Group| {
            let whole = Selection {
                word: group.word(),
                kinds: group.kinds().collect(),
            };
            let single = group.kinds().map(|kind| Selection {
                word: kind.definition().name,
                kinds: vec![kind],
            });
            std::iter::once(whole).chain(single.filter(move |one| one.word != group.word()))
        };
        Group::ALL.into_iter().flat_map(of_group).collect()
    }

    pub fn of_word(word: &str) -> Option<Selection> {
        let mut all = Selection::all().into_iter();
        all.find(|selection| selection.word == word)
    }

    /// The kinds in plain words.
    pub fn words(&self) -> String {
        let words: Vec<&str> = self
            .kinds
            .iter()
            .map(|kind| kind.definition().words)
            .collect();
        words.join(", ")
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.definition().name)
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Kind, D::Error> {
        let name = String::deserialize(deserializer)?;
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| kind.definition().name == name);
        kind.ok_or_else(|| D::Error::custom(format!("{name:?} is no kind of finding")))
    }
}

/// Why two accesses can race: what their threads hold does not keep them apart.
fn nothing_keeps_apart(operations: &[Operation]) -> String {
    let held: Vec<String> = operations.iter().map(holds).collect();
    format!(
        "{}. No common lock, join, signal or other synchronisation keeps (1) and (2) apart.",
        held.join("; ")
    )
}

/// What threads do wrong.
fn misuse(words: &str, parties: &[Party]) -> String {
    let sentences: Vec<String> = parties.iter().map(Party::sentence).collect();
    format!("{words}: {}", sentences.join(" while "))
}

/// The waits of blocked threads, of which a title names at most four.
fn waits(word: &str, parties: &[Party]) -> String {
    let waits: Vec<String> = parties.iter().take(4).map(Party::sentence).collect();
    format!("{word}: {}", waits.join(", "))
}

fn holds(operation: &Operation) -> String {
    let names: Vec<String> = operation
        .locks_held
        .iter()
        .map(|lock| format!("`{}`", lock.name))
        .collect();
    match names.as_slice() {
        [] => format!("{} holds no lock", operation.thread),
        _ => format!("{} holds {}", operation.thread, names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::finding::{Status, Verdict};
    use crate::suppression;

    fn schema() -> Value {
        let text = include_str!("../../../../docs/schema/findings.json");
        serde_json::from_str(text).expect("the schema is JSON")
    }

    fn check_words(of: &Value, expected: &[&str]) {
        assert_eq!(*of, json!(expected));
    }

    #[test]
    fn the_schema_has_the_words_of_the_tables() {
        let schema = schema();
        let finding = &schema["$defs"]["finding"]["properties"];
        let place = &schema["$defs"]["place"]["properties"];
        check_words(
            &finding["kind"]["enum"],
            &Kind::ALL.map(|kind| kind.definition().name),
        );
        check_words(&finding["status"]["enum"], &Status::ALL.map(Status::name));
        check_words(
            &place["access"]["enum"],
            &AccessKind::ALL.map(AccessKind::name),
        );
    }

    #[test]
    fn the_schema_has_every_verdict() {
        let schema = schema();
        let verdict = &schema["$defs"]["finding"]["properties"]["verdict"];
        let verdict = verdict["oneOf"]
            .as_array()
            .expect("the verdict is a choice");
        for one in [
            Verdict::Observed(String::new()),
            Verdict::NotUnderstood(String::new()),
            Verdict::Confirmed(String::new()),
            Verdict::NoBug,
            Verdict::Infeasible(String::new()),
            Verdict::TimedOut,
        ] {
            let value = serde_json::to_value(&one).expect("a verdict has a JSON form");
            let described = verdict.iter().any(|choice| match &value {
                Value::Object(fields) => fields
                    .keys()
                    .all(|field| choice["required"] == json!([field])),
                word => choice["enum"]
                    .as_array()
                    .is_some_and(|words| words.contains(word)),
            });
            assert!(described, "{value}");
        }
    }

    #[test]
    fn every_kind_has_its_page_and_every_page_its_kind() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/explain");
        let pages: BTreeSet<String> = std::fs::read_dir(folder)
            .expect("the pages are in docs/explain")
            .map(|entry| entry.expect("the folder can be listed").file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        let codes = Kind::ALL.map(|kind| format!("{}.md", kind.definition().code));
        assert_eq!(pages, BTreeSet::from(codes));
        for kind in Kind::ALL.map(Kind::definition) {
            let title = format!("# {}: {}", kind.code, kind.words);
            assert_eq!(kind.page.lines().next(), Some(title.as_str()));
        }
    }

    #[test]
    fn a_word_selects_a_group_or_a_kind() {
        let words: Vec<String> = Selection::all()
            .iter()
            .map(|selection| format!("{}: {}", selection.word, selection.words()))
            .collect();
        assert_eq!(
            words,
            [
                "race: data race, use after free, double free, destroyed in use, closed in use",
                "data-race: data race",
                "use-after-free: use after free",
                "double-free: double free",
                "destroyed-in-use: destroyed in use",
                "closed-in-use: closed in use",
                "deadlock: deadlock, endless wait",
                "stuck: endless wait",
                "misuse: unlock of what is not locked, unlock of another thread's lock, wait \
                 without its mutex, wait with two mutexes, lock left locked, destruction of a \
                 locked lock, use of a destroyed object, destruction of a condition with waiters, \
                 annotation that contradicts another, wait outside a loop, wait that is decided \
                 without its mutex",
                "unlock-not-locked: unlock of what is not locked",
                "unlock-of-other: unlock of another thread's lock",
                "wait-not-locked: wait without its mutex",
                "two-mutexes: wait with two mutexes",
                "left-locked: lock left locked",
                "destroy-locked: destruction of a locked lock",
                "use-destroyed: use of a destroyed object",
                "destroy-waited: destruction of a condition with waiters",
                "contradicted: annotation that contradicts another",
                "wait-once: wait outside a loop",
                "test-unlocked: wait that is decided without its mutex",
                "order: wrong order of events",
                "atomicity: step that is not atomic",
                "failure: failure",
            ]
        );
    }

    #[test]
    fn suppressions_know_every_word() {
        for Selection { word, .. } in Selection::all() {
            assert!(
                suppression::parse(&format!("{word}:main")).is_ok(),
                "{word}"
            );
        }
    }
}
