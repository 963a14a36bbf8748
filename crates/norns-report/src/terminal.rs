//! Findings in a terminal: one line each, and one of them in full.
//!
//! The lanes follow Lincheck's idea (a column per thread, the value beside the operation) with
//! time going down; what does not fit in 80 columns with three lanes becomes a list.

mod lanes;

use std::collections::HashMap;
use std::fmt::Write;

use norns_model::NotAnalysed;

use crate::escape::terminal as safe;
use crate::finding::{Finding, Findings, Place, Status};
use crate::kind::Kind;
use crate::not_analysed::sentence;
use crate::sketch::{Operation, Sketch, grouped};
use crate::stack;

/// Colours only where somebody will see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Colour,
}

#[derive(Clone, Copy)]
enum Role {
    Bad,
    Warn,
    Dim,
    Strong,
    Value,
}

impl Style {
    fn paint(self, role: Role, text: &str) -> String {
        let code = match role {
            Role::Bad => "1;31",
            Role::Warn => "33",
            Role::Dim => "2",
            Role::Strong => "1",
            Role::Value => "35",
        };
        match self {
            Style::Plain => text.to_string(),
            Style::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

pub(crate) const WIDTH: usize = 80;
const MOST_LANES: usize = 3;

/// The column of kinds is this wide unless a kind needs more, so that most lists look the same.
const USUAL_WORDS: usize = 15;
/// Places that are longer than this do not make the column wider.
const WIDEST_PLACES: usize = 60;

/// One line per finding, those of one object together, confirmed ones first; then a summary line
/// that stays greppable.
pub fn list(findings: &Findings, style: Style) -> String {
    let mut out = String::new();
    let (doubts, gaps): (Vec<_>, Vec<_>) =
        { findings.not_analysed.iter() }.partition(|reason| reason.is_about_all_findings());
    not_analysed(&mut out, &doubts);
    let all: Vec<&Finding> = findings.findings.iter().collect();
    let groups = by_object(&all, |finding| {
        (
            finding.status,
            finding.object.as_deref().unwrap_or_default(),
        )
    });
    let widths = Widths::of(&all);
    for group in groups {
        if let [first, _, ..] = group[..] {
            let object = first.object.as_deref().unwrap_or("memory without a name");
            let heading = format!("{} ({} findings)", safe(object), group.len());
            line(
                &mut out,
                format_args!("{}", style.paint(Role::Strong, &heading)),
            );
        }
        let indent = if group.len() > 1 { "  " } else { "" };
        for &finding in &group {
            let mut text = finding_line(finding, &widths, style);
            if let Some(object) = finding.object.as_deref().filter(|_| group.len() == 1) {
                write!(text, "  {}", style.paint(Role::Dim, &safe(object)))
                    .expect("writing to a string cannot fail");
            }
            line(&mut out, format_args!("{indent}{}", text.trim_end()));
        }
    }
    not_analysed(&mut out, &gaps);
    out.push_str(&summary(findings));
    out.push('\n');
    out
}

/// Puts those about one object together. The groups are in the order of their best proved members,
/// and those are first in their group.
pub(crate) fn by_object<'a, T>(
    all: &[&'a T],
    key: impl Fn(&'a T) -> (Status, &'a str),
) -> Vec<Vec<&'a T>> {
    let mut sorted = all.to_vec();
    sorted.sort_by_key(|&one| key(one).0);
    let mut groups: Vec<Vec<&T>> = Vec::new();
    let mut of: HashMap<&str, usize> = HashMap::new();
    for one in sorted {
        let object = key(one).1;
        match of.get(object).filter(|_| !object.is_empty()) {
            Some(&at) => groups[at].push(one),
            None => {
                of.insert(object, groups.len());
                groups.push(vec![one]);
            }
        }
    }
    groups
}

/// How wide the columns of a list are.
struct Widths {
    status: usize,
    words: usize,
    places: usize,
}

impl Widths {
    fn of(all: &[&Finding]) -> Widths {
        let widest = |of: fn(&Finding) -> usize| {
            let widths = all.iter().map(|finding| of(finding));
            widths.max().unwrap_or(0)
        };
        Widths {
            status: widest(|finding| finding.status.name().len()),
            words: widest(|finding| finding.kind.definition().words.len()).max(USUAL_WORDS),
            places: widest(|finding| places(finding).chars().count()).min(WIDEST_PLACES),
        }
    }
}

fn finding_line(finding: &Finding, widths: &Widths, style: Style) -> String {
    let role = alarm(finding.status);
    let status = format!("{:<width$}", finding.status.name(), width = widths.status);
    let kind = finding.kind.definition();
    let mut notes = String::new();
    if finding.known {
        notes.push_str("  (known)");
    }
    if let Some(consequence) = &finding.consequence {
        notes.push_str("  ");
        notes.push_str(&consequence.words());
    }
    match finding.variants.len() {
        0 => {}
        1 => notes.push_str("  +1 variant"),
        more => {
            write!(notes, "  +{more} variants").expect("writing to a string cannot fail");
        }
    }
    format!(
        "{} {}  {:<words$}  {:<places$}  {}{notes}",
        kind.code,
        style.paint(role, &status),
        kind.words,
        places(finding),
        style.paint(Role::Strong, &finding.id),
        words = widths.words,
        places = widths.places,
    )
}

/// `bank.c:7 ↔ bank.c:12`.
fn places(finding: &Finding) -> String {
    let places: Vec<String> = finding.places.iter().map(place).collect();
    places.join(" ↔ ")
}

fn not_analysed(out: &mut String, reasons: &[&NotAnalysed]) {
    for reason in reasons {
        let sentence = safe(&sentence(reason));
        line(out, format_args!("not analysed: {sentence}"));
    }
}

/// The command that shows more, where the findings were kept.
pub fn next(findings: &Findings) -> String {
    let first = findings
        .findings
        .iter()
        .min_by_key(|finding| finding.status);
    first.map_or(String::new(), |first| {
        format!("next: norns show {}\n", first.id)
    })
}

/// `2 findings (1 confirmed, 1 predicted), 0 undecided`. Where parts of the run were not seen, it says
/// so.
pub fn summary(findings: &Findings) -> String {
    let reasons = &findings.not_analysed;
    if findings.findings.is_empty() && reasons.iter().any(NotAnalysed::is_everything) {
        return "nothing was analysed".into();
    }
    let count = |status| {
        findings
            .findings
            .iter()
            .filter(|f| f.status == status)
            .count()
    };
    let all = findings.findings.len();
    let mut text = format!("{all} finding{}", if all == 1 { "" } else { "s" });
    if reasons.iter().any(NotAnalysed::is_gap) {
        text.push_str(" in what was seen");
    }
    if all > 0 {
        write!(
            text,
            " ({} confirmed, {} predicted",
            count(Status::Confirmed),
            count(Status::Predicted)
        )
        .expect("writing to a string cannot fail");
        match count(Status::OrderedBySpinLoop) {
            0 => text.push(')'),
            spins => write!(text, ", {spins} ordered by a spin loop)")
                .expect("writing to a string cannot fail"),
        }
    }
    match findings.findings.iter().filter(|f| f.known).count() {
        0 => {}
        known => {
            write!(text, ", {known} known").expect("writing to a string cannot fail");
        }
    }
    write!(text, ", {} undecided", findings.undecided).expect("writing to a string cannot fail");
    text
}

fn place(place: &Place) -> String {
    if place.line == 0 {
        let names = [&place.function, &place.file];
        let name = names.into_iter().find(|name| !name.is_empty());
        return name.map_or("?".into(), |name| safe(name));
    }
    format!("{}:{}", safe(&place.file), place.line)
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("writing to a string cannot fail");
    out.push('\n');
}

/// One finding in full.
pub fn show(sketch: &Sketch, style: Style) -> String {
    let mut out = String::new();
    let code = sketch.kind.definition().code;
    let name = format!("{code}[{}]:", sketch.id);
    // Of failures both are whole sentences.
    let in_lines = |text: &str, used: usize| match sketch.kind {
        Kind::Failure => wrap(&safe(text), WIDTH - used),
        _ => safe(text),
    };
    line(
        &mut out,
        format_args!(
            "{} {}",
            style.paint(alarm(sketch.status), &name),
            style.paint(Role::Strong, &in_lines(&sketch.title, name.len() + 1))
        ),
    );
    for fact in sketch.all_facts() {
        for part in in_lines(&fact, 2).lines() {
            line(&mut out, format_args!("  {}", style.paint(Role::Dim, part)));
        }
    }
    for (number, operation) in (1..).zip(&sketch.operations) {
        out.push('\n');
        show_operation(&mut out, number, operation, style);
    }
    let why = match sketch.status {
        Status::Confirmed if sketch.kind != Kind::Failure => "why".to_string(),
        Status::Confirmed | Status::Predicted | Status::OrderedBySpinLoop => {
            sketch.why_title().to_lowercase()
        }
    };
    let why = format!("{why}: {}", safe(&sketch.why));
    line(&mut out, format_args!("\n{}", wrap(&why, WIDTH)));
    out.push_str(&panels(sketch, style));
    if let Some(others) = sketch.others() {
        let dim = style.paint(Role::Dim, &others);
        line(&mut out, format_args!("  {dim}"));
    }
    for (at, variant) in sketch.variants.iter().enumerate() {
        let begin = if at == 0 { "\n" } else { "" };
        let (status, id) = (variant.status.words(), &variant.id);
        let what = safe(&variant.what);
        let text = format!("{begin}also here: {what} ({status}): norns show {id}");
        line(&mut out, format_args!("{text}"));
    }
    line(
        &mut out,
        format_args!(
            "\nreplay it: norns replay {}   background: norns explain {code}",
            sketch.id
        ),
    );
    out
}

/// The schedules of a finding.
pub fn panels(sketch: &Sketch, style: Style) -> String {
    let mut out = String::new();
    for (title, panel) in sketch.panels() {
        let title = &title.to_lowercase();
        line(
            &mut out,
            format_args!(
                "\n{} {}",
                style.paint(Role::Strong, title),
                style.paint(
                    Role::Dim,
                    &format!("({}, {} steps)", panel.caption, grouped(panel.steps))
                )
            ),
        );
        if sketch.lanes.len() <= MOST_LANES {
            lanes::show_lanes(&mut out, sketch, panel, style);
        } else {
            lanes::show_list(&mut out, sketch, panel, style);
        }
    }
    out
}

/// The colour of what is wrong: only what was shown is an alarm.
fn alarm(status: Status) -> Role {
    match status {
        Status::Confirmed => Role::Bad,
        Status::Predicted => Role::Warn,
        Status::OrderedBySpinLoop => Role::Dim,
    }
}

fn show_operation(out: &mut String, number: usize, operation: &Operation, style: Style) {
    let place = match operation.line {
        0 if operation.file.is_empty() => "an unknown place".to_string(),
        0 => safe(&operation.file),
        line => format!("{}:{line}", safe(&operation.file)),
    };
    line(
        out,
        format_args!(
            "{} {} {} at {}",
            style.paint(Role::Strong, &format!("({number})")),
            safe(&operation.thread),
            safe(&operation.what),
            style.paint(Role::Strong, &place)
        ),
    );
    for source in &operation.snippet {
        let here = source.number == operation.line;
        let text = format!(
            "  {} {:>5} | {}",
            if here { '>' } else { ' ' },
            source.number,
            safe(&source.text.replace('\t', "    "))
        );
        let text = text.trim_end();
        line(
            out,
            format_args!(
                "{}",
                if here {
                    style.paint(Role::Warn, text)
                } else {
                    text.into()
                }
            ),
        );
    }
    if !operation.origin.is_empty() {
        line(
            out,
            format_args!("      memory: {}", safe(&operation.origin)),
        );
    }
    let locks: Vec<String> = operation
        .locks_held
        .iter()
        .map(|lock| format!("{} ({})", safe(&lock.name), safe(&lock.places())))
        .collect();
    let locks = if locks.is_empty() {
        "none".into()
    } else {
        locks.join(", ")
    };
    line(out, format_args!("      locks held: {locks}"));
    for frame in stack::lines(&operation.stack) {
        line(out, format_args!("      {}", safe(&frame)));
    }
}

/// Broken at blanks into lines of at most `width` columns, where the words allow it.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// The same text for terminals without these characters.
pub fn ascii(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '↔' | '─' | '╌' => '-',
            '✗' => 'x',
            '▲' => '^',
            '│' => '|',
            '╰' | '╯' => '+',
            '▼' => 'v',
            '●' => '*',
            '■' => '#',
            '○' => 'o',
            '⋮' => ':',
            '…' => '~',
            '→' => '>',
            c if c.is_ascii() => c,
            _ => '?',
        })
        .collect()
}
