//! The candidates of a scan, beside what recordings and findings say of each.
//!
//! A place of a candidate and an event are the same if file and line are, and the column where an event
//! at that line has the same one: compilers do not agree on columns, and on lines only nearly. What a
//! recording leaves out was not reached as far as this can tell: accesses before the first thread starts,
//! and, but for the recording that `Check` makes for this, those that an earlier one of the same thread covers.

use std::borrow::Cow;
use std::path::Path;

use norns_model::NotAnalysed;
use norns_report::describe::is_of_the_system;
use norns_report::kind::Group;
use norns_report::{Finding, Findings, Judged, JudgedCandidate, Place, Reason, Status, scan};
use norns_scan::{CandidateKind, Scan, SourcePlace};
use norns_trace::{Event, ThreadId, Touch, TouchKind, Trace, Warning};
use rustc_hash::{FxHashMap, FxHashSet};

/// A place of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Spot {
    file: String,
    line: u32,
    column: u32,
    does: Does,
}

/// Which events at a line belong to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Does {
    Read,
    Write,
    /// Uses, makes or ends an object, or frees memory.
    Other,
    /// Anything: a place at which threads block.
    Block,
}

impl Does {
    fn fits(self, event: &Event) -> bool {
        let touch = Touch::of(event.op);
        match self {
            Self::Read => touch.is_some_and(|touch| touch.reads && is_access(touch)),
            Self::Write => touch.is_some_and(|touch| touch.writes && is_access(touch)),
            Self::Other => touch.is_some_and(|touch| !is_access(touch)),
            Self::Block => event.op.effect().object().is_some(),
        }
    }
}

fn is_access(touch: Touch) -> bool {
    matches!(touch.kind, TouchKind::Plain | TouchKind::Atomic)
}

/// A file and a line of it.
type Line = (String, u32);

/// What one thread touched at a place, as a range of addresses or the number of an object.
type Visit = (u64, u64, ThreadId);

/// How near recordings came to a candidate; the later, the nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    NoPlace,
    OnePlace,
    OneThread,
    OtherMemory,
    /// Two threads used the same memory.
    SameMemory,
}

/// Of one place at most this many visits are kept; of a place with more, memory proves nothing.
const MOST_VISITS: usize = 20_000;

pub(crate) struct Candidates<'a> {
    scan: &'a Scan,
    spots: Vec<Spot>,
    /// For each candidate and each of its places the numbers in `spots`: several if it stands for several places
    /// in headers of the system.
    of: Vec<Vec<Vec<usize>>>,
    /// The numbers in `spots` of each line; the file without its folder.
    by_line: FxHashMap<Line, Vec<usize>>,
    /// For each candidate the lines at which its places are shown.
    shown: Vec<Vec<Line>>,
    /// The numbers of the candidates that are shown at each line; the file without its folder.
    by_shown: FxHashMap<Line, Vec<usize>>,
    /// How near the recordings came to each candidate that went through prediction and replays.
    nearest: Vec<Nearness>,
    /// The same of all recordings.
    nearest_of_all: Vec<Nearness>,
    /// What the engines and replays could not settle, or settled without a finding.
    left: FxHashMap<usize, Reason>,
}

impl<'a> Candidates<'a> {
    pub(crate) fn new(scan: &'a Scan) -> Self {
        let mut new = Self {
            scan,
            spots: Vec::new(),
            of: Vec::new(),
            by_line: FxHashMap::default(),
            shown: Vec::new(),
            by_shown: FxHashMap::default(),
            nearest: vec![Nearness::NoPlace; scan.candidates.len()],
            nearest_of_all: vec![Nearness::NoPlace; scan.candidates.len()],
            left: FxHashMap::default(),
        };
        let mut numbers: FxHashMap<Spot, usize> = FxHashMap::default();
        for (at, candidate) in scan.candidates.iter().enumerate() {
            let shown: Vec<Line> = candidate.places.iter().map(shown).collect();
            for (file, line) in &shown {
                let there = new.by_shown.entry((base(file).to_owned(), *line));
                let there = there.or_default();
                if there.last() != Some(&at) {
                    there.push(at);
                }
            }
            new.shown.push(shown);
            let places = candidate.places.iter().map(|place| {
                // An event in a header of the system has its place there.
                let sources = match place.inside.as_slice() {
                    [] => std::slice::from_ref(&place.at),
                    inside => inside,
                };
                let spots = sources.iter().map(|at| {
                    let spot = Spot {
                        file: normal(&at.file),
                        line: at.line,
                        column: at.column,
                        does: does(candidate.kind, place.access),
                    };
                    *numbers.entry(spot).or_insert_with_key(|spot| {
                        let number = new.spots.len();
                        let key = (base(&spot.file).to_owned(), spot.line);
                        new.by_line.entry(key).or_default().push(number);
                        new.spots.push(spot.clone());
                        number
                    })
                });
                spots.collect()
            });
            let places = places.collect();
            new.of.push(places);
        }
        new
    }

    /// Adds a recording, and whether it is analysed further.
    pub(crate) fn add(&mut self, trace: &Trace, is_analysed: bool) {
        let visits = self.visits(trace);
        for (candidate, spots) in self.of.iter().enumerate() {
            let is_race = self.scan.candidates[candidate].kind == CandidateKind::DataRace;
            let near = nearness(
                spots.iter().map(|spots| all_visits(spots, &visits)),
                is_race,
            );
            let nearest = &mut self.nearest_of_all[candidate];
            *nearest = near.max(*nearest);
            if is_analysed {
                self.nearest[candidate] = self.nearest[candidate].max(near);
            }
        }
    }

    /// Who touched what at each place; sorted.
    fn visits(&self, trace: &Trace) -> Vec<Vec<Visit>> {
        // For every place of the trace the spots at its line, and whether the column is the same.
        let matches: Vec<Vec<(usize, bool)>> = trace
            .places
            .iter()
            .map(|place| self.matches(place))
            .collect();
        let mut exact: Vec<FxHashSet<Visit>> = vec![FxHashSet::default(); self.spots.len()];
        let mut others = exact.clone();
        for event in &trace.events {
            for &(spot, is_exact) in &matches[event.place.index()] {
                if !self.spots[spot].does.fits(event) {
                    continue;
                }
                let visits = if is_exact {
                    &mut exact[spot]
                } else {
                    &mut others[spot]
                };
                if visits.len() <= MOST_VISITS {
                    visits.insert(visit(event));
                }
            }
        }
        let both = exact.into_iter().zip(others);
        both.map(|(exact, others)| {
            let chosen = if exact.is_empty() { others } else { exact };
            let mut all: Vec<Visit> = chosen.into_iter().collect();
            all.sort_unstable();
            all
        })
        .collect()
    }

    fn matches(&self, place: &norns_trace::trace::Place) -> Vec<(usize, bool)> {
        let mut all = Vec::new();
        for frame in &place.frames {
            let file = normal(&frame.file);
            let key = (base(&file).to_owned(), frame.line);
            for &spot in self.by_line.get(&key).into_iter().flatten() {
                let at = &self.spots[spot];
                if is_same_file(&at.file, &file) {
                    all.push((spot, at.column > 0 && at.column == frame.column));
                }
            }
        }
        all
    }

    /// Whether a bug at these places is a candidate.
    pub(crate) fn foresees(&self, finding: &Finding) -> bool {
        !self.shown_by(finding).is_empty()
    }

    /// Notes that a bug at these places was left undecided, or refuted without a finding.
    pub(crate) fn leave(&mut self, finding: &Finding, why: Reason) {
        for candidate in self.shown_by(finding) {
            let known = self.left.entry(candidate).or_insert(why);
            *known = (*known).min(why);
        }
    }

    /// The candidates that a finding shows, by number.
    fn shown_by(&self, finding: &Finding) -> Vec<usize> {
        let places: Vec<Line> = finding.places.iter().map(line_of).collect();
        let Some(first) = places.first() else {
            return Vec::new();
        };
        let near = self.by_shown.get(&(base(&first.0).to_owned(), first.1));
        let near = near.into_iter().flatten().copied();
        near.filter(|&at| {
            let candidate = &self.scan.candidates[at];
            fits(finding, candidate.kind) && is_at(candidate.kind, &self.shown[at], &places)
        })
        .collect()
    }

    /// What is known of every candidate in the end.
    pub(crate) fn judge(&self, findings: &Findings) -> Judged {
        let mut reasons: Vec<(Reason, Option<&str>)> = { 0..self.of.len() }
            .map(|at| (self.reason(at, findings), None))
            .collect();
        let mut unforeseen = Vec::new();
        for finding in findings.with_variants() {
            let reason = match finding.status {
                Status::Confirmed => Reason::Shown,
                Status::Predicted => Reason::Predicted,
                Status::OrderedBySpinLoop => Reason::SpinLoop,
            };
            let mut is_foreseen = false;
            for at in self.shown_by(finding) {
                is_foreseen = true;
                let is_better = match reasons[at].1 {
                    Some(_) => reason < reasons[at].0,
                    None => true,
                };
                if is_better {
                    reasons[at] = (reason, Some(&finding.id));
                }
            }
            if !is_foreseen && is_asked(finding) && finding.status == Status::Confirmed {
                unforeseen.push(finding.id.clone());
            }
        }
        let candidates = (1..).zip(&self.scan.candidates).zip(reasons);
        Judged {
            candidates: candidates
                .map(|((id, candidate), (reason, finding))| JudgedCandidate {
                    judgement: reason.judgement(),
                    reason,
                    finding: finding.map(str::to_owned),
                    candidate: scan::candidate_json(id, candidate, Path::new("")),
                })
                .collect(),
            not_analysed: self
                .scan
                .not_analysed
                .iter()
                .map(scan::not_analysed)
                .collect(),
            unforeseen,
        }
    }

    /// What is said of a candidate that no finding shows.
    fn reason(&self, at: usize, findings: &Findings) -> Reason {
        let kind = self.scan.candidates[at].kind;
        let mut gaps = findings.not_analysed.iter();
        let is_unseen = gaps.any(|gap| matches!(gap, NotAnalysed::Accesses { .. }));
        let mut gaps = findings.not_analysed.iter();
        let is_cut = gaps.any(|gap| matches!(gap, NotAnalysed::Trace(Warning::Shortened { .. })));
        let is_settled = !findings.not_analysed.iter().any(ends_prediction);
        match self.nearest_of_all[at] {
            Nearness::NoPlace | Nearness::OnePlace
                if kind == CandidateKind::DataRace && is_unseen =>
            {
                Reason::NotSeen
            }
            // The program went on behind what is kept of the recording.
            Nearness::NoPlace
            | Nearness::OnePlace
            | Nearness::OneThread
            | Nearness::OtherMemory
                if is_cut =>
            {
                Reason::Budget
            }
            Nearness::NoPlace => Reason::NoPlace,
            Nearness::OnePlace => Reason::OnePlace,
            _ if !matches!(kind, CandidateKind::DataRace | CandidateKind::Deadlock) => {
                Reason::Reached
            }
            Nearness::OneThread => Reason::OneThread,
            Nearness::OtherMemory => Reason::OtherMemory,
            Nearness::SameMemory => match self.left.get(&at) {
                Some(&left) => left,
                None if self.nearest[at] == Nearness::SameMemory && is_settled => Reason::Ordered,
                None => Reason::Budget,
            },
        }
    }
}

/// The visits of several spots; sorted.
fn all_visits<'v>(spots: &[usize], visits: &'v [Vec<Visit>]) -> Cow<'v, [Visit]> {
    if let &[only] = spots {
        return Cow::Borrowed(&visits[only]);
    }
    let all = spots.iter().flat_map(|&spot| visits[spot].iter().copied());
    let mut all: Vec<Visit> = all.collect();
    all.sort_unstable();
    all.dedup();
    Cow::Owned(all)
}

/// Whether predictions of a recording are not complete, so that a bug without a finding proves nothing.
fn ends_prediction(reason: &NotAnalysed) -> bool {
    matches!(
        reason,
        NotAnalysed::OutOfBudget { .. }
            | NotAnalysed::Object { .. }
            | NotAnalysed::RecordedOrder(_)
            | NotAnalysed::Pairs { .. }
            | NotAnalysed::Locations { .. }
            | NotAnalysed::Unlisted { .. }
            | NotAnalysed::LockCycles
            | NotAnalysed::EndlessWaits
            | NotAnalysed::RefusedWitnesses { .. }
    )
}

fn does(kind: CandidateKind, access: &str) -> Does {
    match (kind, access) {
        (CandidateKind::DataRace, "read" | "atomic read") => Does::Read,
        (CandidateKind::DataRace, "write" | "atomic write") => Does::Write,
        (CandidateKind::DataRace, _) => Does::Other,
        _ => Does::Block,
    }
}

fn visit(event: &Event) -> Visit {
    match (Touch::of(event.op), event.op.effect().object()) {
        (Some(touch), _) => {
            let start = touch.access.address;
            let end = start.saturating_add(u64::from(touch.access.size).max(1));
            (start, end, event.thread)
        }
        (None, Some(object)) => (u64::from(object.0), u64::from(object.0) + 1, event.thread),
        (None, None) => (0, 0, event.thread),
    }
}

fn nearness<'v>(visits: impl Iterator<Item = Cow<'v, [Visit]>>, is_race: bool) -> Nearness {
    let visits: Vec<Cow<'v, [Visit]>> = visits.collect();
    let reached = visits.iter().filter(|visits| !visits.is_empty()).count();
    if reached == 0 {
        return Nearness::NoPlace;
    }
    if reached < visits.len() {
        return Nearness::OnePlace;
    }
    let first = visits[0][0].2;
    let mut all = visits.iter().flat_map(|visits| visits.iter());
    if all.all(|visit| visit.2 == first) {
        return Nearness::OneThread;
    }
    let is_cut = visits.iter().any(|visits| visits.len() > MOST_VISITS);
    match visits.as_slice() {
        [a, b] if is_race && !is_cut && !meet(a, b) => Nearness::OtherMemory,
        _ => Nearness::SameMemory,
    }
}

/// Whether two threads touched the same memory, one at each place. Both lists are sorted.
fn meet(a: &[Visit], b: &[Visit]) -> bool {
    let longest = |visits: &[Visit]| { visits.iter() }.map(|&(start, end, _)| end - start).max();
    let reach = longest(a).unwrap_or(0);
    let mut from = 0;
    for &(start, end, thread) in b {
        // What begins so far before this cannot reach it, nor what comes later in `b`.
        while a
            .get(from)
            .is_some_and(|first| first.0.saturating_add(reach) <= start)
        {
            from += 1;
        }
        let near = a[from..].iter().take_while(|other| other.0 < end);
        let mut near = near.filter(|other| other.1 > start);
        if near.any(|other| other.2 != thread) {
            return true;
        }
    }
    false
}

/// Whether a scan should have found this: a race or deadlock of several threads.
fn is_asked(finding: &Finding) -> bool {
    let mut places = finding.places.iter();
    let first = places.next().map(|place| &place.thread);
    matches!(finding.kind.group(), Group::Race | Group::Deadlock)
        && places.any(|place| Some(&place.thread) != first)
}

/// Whether a finding is of the kind of a candidate.
fn fits(finding: &Finding, kind: CandidateKind) -> bool {
    match kind {
        CandidateKind::DataRace => finding.kind.group() == Group::Race,
        CandidateKind::Deadlock => finding.kind.group() == Group::Deadlock,
        CandidateKind::SelfDeadlock
        | CandidateKind::WaitWithLock
        | CandidateKind::LockNotReleased
        | CandidateKind::UnlockWithoutLock
        | CandidateKind::WaitWithoutLoop => {
            matches!(finding.kind.group(), Group::Deadlock | Group::Misuse)
        }
    }
}

/// Whether the lines of a candidate are those of a finding: of a race both, whichever comes first; of
/// anything else, each is one of them.
fn is_at(kind: CandidateKind, candidate: &[Line], finding: &[Line]) -> bool {
    let is_same = |a: &Line, b: &Line| a.1 == b.1 && is_same_file(&a.0, &b.0);
    match (kind, candidate, finding) {
        (CandidateKind::DataRace, [a, b], [c, d]) => {
            is_same(a, c) && is_same(b, d) || is_same(a, d) && is_same(b, c)
        }
        (CandidateKind::DataRace, ..) => false,
        _ => { candidate.iter() }.all(|at| finding.iter().any(|place| is_same(at, place))),
    }
}

fn line_of(place: &Place) -> Line {
    (normal(&place.file), place.line)
}

/// Where a finding at this place is shown: not in a header of the system, but where the program uses that.
fn shown(place: &norns_scan::Place) -> Line {
    let is_of_the_system = |source: &&SourcePlace| {
        is_of_the_system(&norns_trace::SourcePlace {
            file: source.file.clone(),
            ..norns_trace::SourcePlace::default()
        })
    };
    let mut way = std::iter::once(&place.at).chain(place.chain.iter().rev());
    let shown = way.find(|source| !is_of_the_system(source));
    let shown = shown.unwrap_or(&place.at);
    (normal(&shown.file), shown.line)
}

/// A path without `.` and `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            "" if !parts.is_empty() => {}
            ".." if parts.last().is_some_and(|last| !matches!(*last, "" | "..")) => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether two paths name one file; a relative one is the end of an absolute one.
fn is_same_file(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let is_end = || {
        long.strip_suffix(short)
            .is_some_and(|rest| rest.ends_with('/'))
    };
    a == b || (!short.starts_with('/') && is_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(number: u32) -> ThreadId {
        ThreadId(number)
    }

    #[test]
    fn threads_meet_where_ranges_overlap() {
        let check = |a: &[Visit], b: &[Visit], expected: bool| {
            assert_eq!(meet(a, b), expected, "{a:?} and {b:?}");
            assert_eq!(meet(b, a), expected, "{b:?} and {a:?}");
        };
        let (one, two) = (thread(1), thread(2));
        check(&[(10, 14, one)], &[(12, 16, two)], true);
        check(&[(10, 14, one)], &[(12, 16, one)], false);
        check(&[(10, 14, one)], &[(14, 18, two)], false);
        check(&[(0, 100, one), (5, 6, two)], &[(90, 91, two)], true);
        check(
            &[(0, 1, one), (50, 51, one)],
            &[(2, 3, two), (50, 51, two)],
            true,
        );
    }

    #[test]
    fn nearness_tells_why_nothing_happened() {
        let check = |a: &[Visit], b: &[Visit], expected: Nearness| {
            let visits = [a.to_vec(), b.to_vec()];
            let found = nearness(visits.iter().map(|one| Cow::Borrowed(one.as_slice())), true);
            assert_eq!(found, expected, "{visits:?}");
        };
        let (one, two) = (thread(1), thread(2));
        check(&[], &[], Nearness::NoPlace);
        check(&[(0, 4, one)], &[], Nearness::OnePlace);
        check(&[(0, 4, one)], &[(0, 4, one)], Nearness::OneThread);
        check(&[(0, 4, one)], &[(8, 12, two)], Nearness::OtherMemory);
        check(&[(0, 4, one)], &[(0, 4, two)], Nearness::SameMemory);
    }

    #[test]
    fn paths_are_compared_without_detours() {
        assert_eq!(normal("/a/./b/../c.c"), "/a/c.c");
        assert!(is_same_file("/a/c.c", "c.c"));
        assert!(!is_same_file("/a/c.c", "/b/c.c"));
        assert!(!is_same_file("/a/bc.c", "c.c"));
    }
}
