//! The schedules of a finding in a terminal: a lane for each thread, or a list if there are too
//! many of them.

use std::fmt::Write;

use super::{Role, Style, WIDTH, alarm, line};
use crate::describe::Mark;
use crate::escape::terminal as safe;
use crate::sketch::{Panel, Row, Sketch, Step};

pub(super) fn show_lanes(out: &mut String, sketch: &Sketch, panel: &Panel, style: Style) {
    let lanes = sketch.lanes.len();
    let gutter = gutter(panel);
    let width = (WIDTH - gutter) / lanes.max(1);
    let mut head = " ".repeat(gutter);
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
            let dashed = missing.filter(|missing| missing == edge);
            let dashed = dashed.map(|_| alarm(sketch.status));
            if let (Some(from), Some(to)) = (lane_of(panel, edge.from), lane_of(panel, edge.to))
                && from != to
            {
                line(
                    out,
                    format_args!(
                        "{}",
                        arrow([from, to], lanes, [gutter, width], dashed, style)
                    ),
                );
            }
        }
        let mut text = String::new();
        match row {
            Row::Step(step) => {
                let sign = if step.operation > 0 && step.pending {
                    style.paint(alarm(sketch.status), "✗")
                } else if step.moved && panel.reordered {
                    "▲".into()
                } else {
                    " ".into()
                };
                let digits = gutter - 3;
                write!(text, "{sign} {:>digits$} ", step.number)
                    .expect("writing to a string cannot fail");
                for lane in 0..lanes {
                    if lane == step.lane {
                        text.push_str(&step_cell(step, width, alarm(sketch.status), style));
                    } else {
                        text.push_str(&cell("│".into(), width));
                    }
                }
            }
            Row::Folded(folds) => {
                text.push_str(&" ".repeat(gutter));
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

/// The columns before the first lane: a sign, the number of the step, and spaces around.
fn gutter(panel: &Panel) -> usize {
    let numbers = panel.rows.iter().map(|row| match row {
        Row::Step(step) => step.number,
        Row::Folded(_) => 0,
    });
    let digits = numbers.max().unwrap_or(0).to_string().len();
    3 + digits.max(3)
}

fn lane_of(panel: &Panel, row: usize) -> Option<usize> {
    match panel.rows.get(row)? {
        Row::Step(step) => Some(step.lane),
        Row::Folded(_) => None,
    }
}

/// A line of its own from one lane to another, so that it never crosses a word.
fn arrow(
    [from, to]: [usize; 2],
    lanes: usize,
    [gutter, width]: [usize; 2],
    missing: Option<Role>,
    style: Style,
) -> String {
    let dashed = missing.is_some();
    let (left, right) = (from.min(to), from.max(to));
    let mut chars: Vec<char> = vec![' '; gutter + width * lanes];
    for lane in 0..lanes {
        chars[gutter + lane * width] = '│';
    }
    chars[gutter + left * width..gutter + right * width].fill(if dashed { '╌' } else { '─' });
    chars[gutter + from * width] = if from < to { '╰' } else { '╯' };
    chars[gutter + to * width] = '▼';
    let label = " unordered ";
    if dashed {
        let start = gutter + left * width + (right - left) * width / 2 - label.len() / 2;
        for (at, c) in label.chars().enumerate() {
            chars[start + at] = c;
        }
    }
    let text: String = chars.into_iter().collect();
    style.paint(missing.unwrap_or(Role::Dim), text.trim_end())
}

fn step_cell(step: &Step, width: usize, alarm: Role, style: Style) -> String {
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
    let room =
        |value: &str| width.saturating_sub(3 + number.len() + place.len() + value.chars().count());
    let mut value = match step.short_value() {
        short if short.is_empty() => short,
        short => format!(" {short}"),
    };
    // What is done says more than an address.
    const LEAST: usize = 10;
    if step.value.contains("0x") && room(&value) < LEAST.min(step.what.len()) {
        value.clear();
    }
    let room = room(&value);
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
        style.paint(alarm, number.trim_end()) + " "
    };
    format!(
        "{mark} {number}{what}{value}{}{pad}",
        style.paint(Role::Dim, &place)
    )
}

pub(super) fn show_list(out: &mut String, sketch: &Sketch, panel: &Panel, style: Style) {
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
