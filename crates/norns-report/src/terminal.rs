//! Findings in a terminal: one line each, and one of them in full.
//!
//! The lanes follow Lincheck's idea (a column per thread, the value beside the operation) with
//! time going down; what does not fit in 80 columns with three lanes becomes a list.

use std::collections::HashMap;
use std::fmt::Write;

use norns_model::NotAnalysed;

use crate::describe::Mark;
use crate::escape::terminal as safe;
use crate::finding::{Finding, Findings, Place, Status};
use crate::kind::Kind;
use crate::not_analysed::sentence;
use crate::sketch::{Operation, Panel, Row, Sketch, Step};
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

const WIDTH: usize = 80;
const MOST_LANES: usize = 3;

/// One line per finding, confirmed ones first, then a summary line that stays greppable.
pub fn list(findings: &Findings, style: Style) -> String {
    let mut out = String::new();
    let (doubts, gaps): (Vec<_>, Vec<_>) =
        { findings.not_analysed.iter() }.partition(|reason| reason.is_about_all_findings());
    not_analysed(&mut out, &doubts);
    let mut sorted: Vec<&Finding> = findings.findings.iter().collect();
    sorted.sort_by_key(|finding| finding.status);
    let mut twins: HashMap<(Kind, Vec<String>), usize> = HashMap::new();
    for finding in &sorted {
        *twins.entry(shown_places(finding)).or_default() += 1;
    }
    for finding in &sorted {
        let role = match finding.status {
            Status::Confirmed => Role::Bad,
            Status::Predicted => Role::Warn,
            Status::OrderedBySpinLoop => Role::Dim,
        };
        let status = style.paint(role, finding.status.name());
        let ambiguous = twins[&shown_places(finding)] > 1;
        let places: Vec<String> = finding
            .places
            .iter()
            .map(|at| match ambiguous {
                true => format!("{} ({})", place(at), at.access.words()),
                false => place(at),
            })
            .collect();
        let kind = finding.kind.definition();
        let known = if finding.known { "  (known)" } else { "" };
        line(
            &mut out,
            format_args!(
                "{} {status}  {:<15}  {}  {}{known}",
                kind.code,
                kind.words,
                places.join(" ↔ "),
                style.paint(Role::Strong, &finding.id)
            ),
        );
    }
    not_analysed(&mut out, &gaps);
    out.push_str(&summary(findings));
    out.push('\n');
    out
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

/// What the line of a finding shows in a list that does not say what its places do.
fn shown_places(finding: &Finding) -> (Kind, Vec<String>) {
    let mut places: Vec<String> = finding.places.iter().map(place).collect();
    places.sort();
    (finding.kind, places)
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
    line(
        &mut out,
        format_args!(
            "{} {}",
            style.paint(Role::Bad, &format!("{code}[{}]:", sketch.id)),
            style.paint(Role::Strong, &safe(&sketch.title))
        ),
    );
    for fact in &sketch.facts {
        line(
            &mut out,
            format_args!("  {}", style.paint(Role::Dim, &safe(fact))),
        );
    }
    for (number, operation) in (1..).zip(&sketch.operations) {
        out.push('\n');
        show_operation(&mut out, number, operation, style);
    }
    line(
        &mut out,
        format_args!("\n{}", wrap(&format!("why: {}", safe(&sketch.why)), WIDTH)),
    );
    for (title, panel) in [("what ran", &sketch.ran), ("what can run", &sketch.can)] {
        if panel.rows.is_empty() {
            continue;
        }
        line(
            &mut out,
            format_args!(
                "\n{} {}",
                style.paint(Role::Strong, title),
                style.paint(
                    Role::Dim,
                    &format!("({}, {} steps)", panel.caption, panel.steps)
                )
            ),
        );
        if sketch.lanes.len() <= MOST_LANES {
            show_lanes(&mut out, sketch, panel, style);
        } else {
            show_list(&mut out, sketch, panel, style);
        }
    }
    if let Some(others) = sketch.others() {
        let dim = style.paint(Role::Dim, &others);
        line(&mut out, format_args!("  {dim}"));
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
        .map(|lock| format!("{} (taken at {})", safe(&lock.name), safe(&lock.taken_at)))
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

fn show_lanes(out: &mut String, sketch: &Sketch, panel: &Panel, style: Style) {
    let lanes = sketch.lanes.len();
    let width = (WIDTH - 6) / lanes.max(1);
    let mut head = " ".repeat(6);
    for lane in &sketch.lanes {
        let name = format!("{} {}", lane.thread, lane.function);
        head.push_str(&cell(safe(name.trim()), width));
    }
    line(
        out,
        format_args!("{}", style.paint(Role::Dim, head.trim_end())),
    );
    for (at, row) in panel.rows.iter().enumerate() {
        let missing = panel.missing.filter(|edge| edge.to == at);
        for edge in panel
            .edges
            .iter()
            .filter(|edge| edge.to == at)
            .chain(&missing)
        {
            let dashed = missing.is_some_and(|missing| missing == *edge);
            if let (Some(from), Some(to)) = (lane_of(panel, edge.from), lane_of(panel, edge.to))
                && from != to
            {
                line(
                    out,
                    format_args!("{}", arrow(from, to, lanes, width, dashed, style)),
                );
            }
        }
        let mut text = String::new();
        match row {
            Row::Step(step) => {
                let sign = if step.operation > 0 && step.pending {
                    style.paint(Role::Bad, "✗")
                } else if step.moved && panel.reordered {
                    "▲".into()
                } else {
                    " ".into()
                };
                write!(text, "{sign} {:>3} ", step.number)
                    .expect("writing to a string cannot fail");
                for lane in 0..lanes {
                    if lane == step.lane {
                        text.push_str(&step_cell(step, width, style));
                    } else {
                        text.push_str(&cell("│".into(), width));
                    }
                }
            }
            Row::Folded(folds) => {
                text.push_str(&" ".repeat(6));
                for lane in 0..lanes {
                    let words = match folds.iter().find(|fold| fold.lane == lane) {
                        Some(fold) => format!("⋮ {}", fold.what),
                        None => "│".into(),
                    };
                    text.push_str(&style.paint(Role::Dim, &cell(words, width)));
                }
            }
        }
        line(out, format_args!("{}", text.trim_end()));
    }
}

fn lane_of(panel: &Panel, row: usize) -> Option<usize> {
    match panel.rows.get(row)? {
        Row::Step(step) => Some(step.lane),
        Row::Folded(_) => None,
    }
}

/// A line of its own from one lane to another, so that it never crosses a word.
fn arrow(from: usize, to: usize, lanes: usize, width: usize, dashed: bool, style: Style) -> String {
    let (left, right) = (from.min(to), from.max(to));
    let mut chars: Vec<char> = vec![' '; 6 + width * lanes];
    for lane in 0..lanes {
        chars[6 + lane * width] = '│';
    }
    chars[6 + left * width..6 + right * width].fill(if dashed { '╌' } else { '─' });
    chars[6 + from * width] = if from < to { '╰' } else { '╯' };
    chars[6 + to * width] = '▼';
    let label = " unordered ";
    if dashed {
        let start = 6 + left * width + (right - left) * width / 2 - label.len() / 2;
        for (at, c) in label.chars().enumerate() {
            chars[start + at] = c;
        }
    }
    let text: String = chars.into_iter().collect();
    style.paint(if dashed { Role::Bad } else { Role::Dim }, text.trim_end())
}

fn step_cell(step: &Step, width: usize, style: Style) -> String {
    let mark = match step.mark {
        Mark::Read | Mark::Write | Mark::Free => '●',
        Mark::Lock => '■',
        Mark::Sync => '○',
    };
    let number = match step.operation {
        0 => String::new(),
        number => format!("({number}) "),
    };
    let place = step
        .place
        .rsplit(':')
        .next()
        .filter(|_| step.place.contains(':'));
    let place = place.map(|line| format!(" :{line}")).unwrap_or_default();
    let value = if step.value.is_empty() {
        String::new()
    } else {
        format!(" {}", step.value)
    };
    let room = width.saturating_sub(3 + number.len() + place.len() + value.chars().count());
    let what = shorten(&safe(&step.what), room);
    let plain = format!("{mark} {number}{what}{}{place}", safe(&value));
    let pad = " ".repeat(width.saturating_sub(plain.chars().count()));
    let value = if value.is_empty() {
        value
    } else {
        style.paint(Role::Value, &safe(&value))
    };
    let number = if number.is_empty() {
        number
    } else {
        style.paint(Role::Bad, number.trim_end()) + " "
    };
    format!(
        "{mark} {number}{what}{value}{}{pad}",
        style.paint(Role::Dim, &place)
    )
}

fn show_list(out: &mut String, sketch: &Sketch, panel: &Panel, style: Style) {
    for row in &panel.rows {
        match row {
            Row::Step(step) => {
                let number = match step.operation {
                    0 => String::new(),
                    number => format!("({number}) "),
                };
                line(
                    out,
                    format_args!(
                        "{} {:>3} {}{} {number}{} {} {}",
                        if step.moved && panel.reordered {
                            '▲'
                        } else {
                            ' '
                        },
                        step.number,
                        "  ".repeat(step.lane),
                        safe(&sketch.lanes[step.lane].thread),
                        safe(&step.what),
                        safe(&step.value),
                        style.paint(Role::Dim, &safe(&step.place))
                    ),
                );
            }
            Row::Folded(folds) => {
                let steps: usize = folds.iter().map(|fold| fold.steps).sum();
                line(
                    out,
                    format_args!(
                        "      {}",
                        style.paint(Role::Dim, &format!("⋮ {steps} steps"))
                    ),
                );
            }
        }
    }
}

/// `text` in exactly `width` columns, at least one of them blank.
fn cell(text: String, width: usize) -> String {
    let text = shorten(&text, width.saturating_sub(1));
    let pad = width.saturating_sub(text.chars().count());
    text + &" ".repeat(pad)
}

fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Broken at blanks into lines of at most `width` columns, where the words allow it.
fn wrap(text: &str, width: usize) -> String {
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
