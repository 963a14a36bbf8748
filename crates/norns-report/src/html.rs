//! Findings as one self-contained page: no network, no fonts, works without scripts, light and
//! dark. Several findings get a table at the top.
//!
//! Row height and lane width are fixed, so every coordinate of the arrows is arithmetic here and
//! no script measures anything. An arrow goes down beside the lane that it comes from, across on
//! the rule above the row that it goes to, and down into the mark: it never crosses a word.

mod candidates;
mod table;

use std::fmt::Write;

use crate::describe::{Mark, base_name};
use crate::escape::Markup;
use crate::finding::Status;
use crate::judged::Judged;
use crate::sketch::{Edge, Operation, Panel, Row, Sketch, Step};
use crate::terminal::by_object;

const ROW: usize = 30;
const NUMBERS: usize = 54;
/// From the left edge of a lane to the middle of its marks.
const MARK: usize = 14;
/// Arrows that share a rule lie this far apart.
const CHANNEL: usize = 3;

const STYLE: &str = include_str!("../templates/report.css");
const SCRIPT: &str = include_str!("../templates/report.js");
/// SHA-256 of `SCRIPT` in base 64: the one script that the page may run. A test holds it to that.
const SCRIPT_HASH: &str = "Tlfg16EaI+Z7DDdKjKeoCgd9k3SKYQydzS++d77pOfU=";

/// Two lanes get room for long names; more of them still stand beside the other panel.
fn lane_width(sketch: &Sketch) -> usize {
    match sketch.lanes.len() {
        0..=2 => 250,
        3 => 190,
        _ => 150,
    }
}

/// The page of these findings, with the candidates of a scan if there was one.
pub fn page(sketches: &[Sketch], scan: Option<&Judged>) -> String {
    let mut html = Markup::default();
    html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.raw("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    html.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ");
    html.raw("style-src 'unsafe-inline'; script-src 'sha256-");
    html.raw(SCRIPT_HASH);
    html.raw("'\">\n<title>");
    match sketches {
        [one] => html.text(&one.title),
        _ => html.number(sketches.len()).raw(" findings"),
    };
    html.raw(" — Norns</title>\n<style>")
        .raw(STYLE)
        .raw("</style></head>\n<body>\n");
    arrow_heads(&mut html);
    let all: Vec<&Sketch> = sketches.iter().collect();
    let groups = by_object(&all, |sketch| (sketch.status, &sketch.object));
    if sketches.len() != 1 {
        table::table(&mut html, &groups);
    }
    for sketch in groups.into_iter().flatten() {
        finding(&mut html, sketch);
    }
    if let Some(scan) = scan {
        candidates::section(&mut html, scan);
    }
    html.raw("<script type=\"application/json\" id=\"report-data\">")
        .json(&sketches);
    html.raw("</script>\n<script>")
        .raw(SCRIPT)
        .raw("</script>\n</body></html>\n");
    html.finish()
}

fn arrow_heads(html: &mut Markup) {
    html.raw(
        "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>",
    );
    for (id, class) in [("ah", "ahead"), ("mh", "mhead"), ("wh", "whead")] {
        html.raw("<marker id=\"")
            .raw(id)
            .raw("\" markerUnits=\"userSpaceOnUse\" ");
        html.raw("markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" viewBox=\"0 0 8 8\" ");
        html.raw("orient=\"auto\"><path class=\"").raw(class);
        html.raw("\" d=\"M0,0 L8,4 L0,8 z\"/></marker>");
    }
    html.raw("</defs></svg>\n");
}

fn place(operation: &Operation) -> String {
    match operation.line {
        0 if operation.file.is_empty() => "?".into(),
        0 => operation.file.clone(),
        line => format!("{}:{line}", operation.file),
    }
}

fn finding(html: &mut Markup, sketch: &Sketch) {
    html.raw("<article data-finding class=\"")
        .raw(sketch.status.name())
        .raw("\" id=\"f-")
        .text(&sketch.id)
        .raw("\">\n<h1>");
    with_code(html, &sketch.title);
    html.raw("</h1>\n");
    let consequence = sketch.consequence.as_ref();
    if let Some(consequence) = consequence {
        html.raw("<p class=\"does\"><b>").text(&consequence.words());
        html.raw(":</b> ").text(&consequence.sentence());
        html.raw("</p>\n");
    }
    html.raw("<div class=\"dim\">");
    let notes = consequence.map_or(&[][..], |consequence| &consequence.evidence.notes);
    for fact in notes.iter().chain(&sketch.facts) {
        html.text(fact).raw(" · ");
    }
    html.raw("finding <code>")
        .text(&sketch.id)
        .raw("</code></div>\n");
    html.raw("<div class=\"why\"><b>")
        .raw(sketch.why_title())
        .raw(".</b> ");
    with_code(html, &sketch.why);
    html.raw("</div>\n<div class=\"src\">");
    for (number, operation) in (1..).zip(&sketch.operations) {
        source(html, sketch, number, operation);
    }
    html.raw("</div>\n<div class=\"panels\">");
    for (title, schedule) in sketch.panels() {
        panel(html, sketch, title, schedule);
    }
    html.raw("</div>\n");
    if let Some(others) = sketch.others() {
        html.raw("<p class=\"note\">").text(&others).raw(".</p>\n");
    }
    if !sketch.variants.is_empty() {
        html.raw("<p class=\"dim\">The same places also have:</p><ul class=\"dim\">");
        for variant in &sketch.variants {
            html.raw("<li>").text(&variant.what).raw(", ");
            html.raw(variant.status.words())
                .raw(": <code>norns show ")
                .text(&variant.id)
                .raw("</code></li>");
        }
        html.raw("</ul>\n");
    }
    html.raw("<p class=\"dim\">Replay it: <code>norns replay ")
        .text(&sketch.id);
    html.raw("</code> · Stop just before it: <code>norns replay --gdb ")
        .text(&sketch.id);
    html.raw("</code> · Background: <code>norns explain ")
        .raw(sketch.kind.definition().code);
    html.raw("</code></p>\n</article>\n");
}

/// Text in which `…` stands for code, as the sketch's sentences have it.
fn with_code(html: &mut Markup, text: &str) {
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 1 {
            html.raw("<code>").text(part).raw("</code>");
        } else {
            html.text(part);
        }
    }
}

fn panel(html: &mut Markup, sketch: &Sketch, title: &'static str, panel: &Panel) {
    let width = NUMBERS + lane_width(sketch) * sketch.lanes.len();
    let height = ROW * (panel.rows.len() + 1);
    html.raw("<section style=\"width:")
        .number(width)
        .raw("px\"><h2>")
        .raw(title);
    html.raw(" <small>")
        .text(&panel.caption)
        .raw("</small></h2><div class=\"grid\" style=\"width:")
        .number(width)
        .raw("px;height:");
    html.number(height).raw("px\">");
    overlay(html, sketch, panel, width, height);
    html.raw("<div class=\"row head\"><span class=\"n\">step</span>");
    for lane in &sketch.lanes {
        html.raw("<span class=\"c\"><b>")
            .text(&lane.thread)
            .raw("</b> ")
            .text(&lane.function);
        html.raw("</span>");
    }
    html.raw("</div>");
    for row in &panel.rows {
        match row {
            Row::Step(step) => step_row(html, sketch, panel, step),
            Row::Folded(folds) => {
                html.raw("<div class=\"row\"><span class=\"n\">⋮</span>");
                for lane in 0..sketch.lanes.len() {
                    html.raw("<span class=\"c fold\">");
                    if let Some(fold) = folds.iter().find(|fold| fold.lane == lane) {
                        html.text(&fold.what);
                    }
                    html.raw("</span>");
                }
                html.raw("</div>");
            }
        }
    }
    html.raw("</div>");
    if panel.missing.is_some() {
        html.raw("<p class=\"note\"><span class=\"dash\"></span> nothing keeps this order</p>");
    }
    html.raw("</section>");
}

fn step_row(html: &mut Markup, sketch: &Sketch, panel: &Panel, step: &Step) {
    html.raw(if step.pending {
        "<div class=\"row pending\">"
    } else {
        "<div class=\"row\">"
    });
    html.raw("<span class=\"n\">");
    if step.pending {
        html.raw("✗ ");
    } else if step.moved && panel.reordered {
        html.raw("▲ ");
    }
    html.number(step.number).raw("</span>");
    for lane in 0..sketch.lanes.len() {
        if lane != step.lane {
            html.raw("<span class=\"c\"></span>");
            continue;
        }
        html.raw("<span class=\"c step ").raw(match step.mark {
            Mark::Read => "read",
            Mark::Write => "write",
            Mark::Free => "free",
            Mark::Lock => "lock",
            Mark::Sync => "sync",
        });
        html.raw(if step.operation > 0 { " bug" } else { "" });
        html.raw(if step.moved { " moved" } else { "" });
        html.raw("\" title=\"").text(&step.what);
        if step.short_value() != step.value {
            html.raw(" ").text(&step.value);
        }
        html.raw("\" data-event=\"")
            .number(step.event as usize)
            .raw("\"><i></i>");
        if step.operation > 0 {
            html.raw("<a href=\"#f-")
                .text(&sketch.id)
                .raw("-")
                .number(step.operation)
                .raw("\">(");
            html.number(step.operation)
                .raw(") ")
                .text(&step.what)
                .raw("</a>");
        } else {
            html.raw("<a>").text(&step.what).raw("</a>");
        }
        if !step.value.is_empty() {
            html.raw("<em>").text(&step.short_value()).raw("</em>");
        }
        html.raw("<small>")
            .text(short_place(sketch, step))
            .raw("</small></span>");
    }
    html.raw("</div>");
}

/// Only `:line` where the file is the one of every operation of the bug.
fn short_place<'a>(sketch: &Sketch, step: &'a Step) -> &'a str {
    let Some(colon) = step.place.rfind(':') else {
        return &step.place;
    };
    let file = &step.place[..colon];
    let common = sketch
        .operations
        .iter()
        .all(|operation| base_name(&operation.file) == file);
    if common {
        &step.place[colon..]
    } else {
        &step.place
    }
}

fn overlay(html: &mut Markup, sketch: &Sketch, panel: &Panel, width: usize, height: usize) {
    html.raw("<svg class=\"over\" aria-hidden=\"true\" width=\"")
        .number(width);
    html.raw("\" height=\"").number(height).raw("\">");
    for lane in 0..sketch.lanes.len() {
        let x = mark_x(sketch, lane);
        html.raw("<line class=\"lane\" x1=\"")
            .number(x)
            .raw("\" x2=\"")
            .number(x);
        html.raw("\" y1=\"")
            .number(ROW)
            .raw("\" y2=\"")
            .number(height)
            .raw("\"/>");
    }
    let mut on_rule: Vec<usize> = vec![0; panel.rows.len()];
    let missing = panel.missing.map(|edge| (edge, true));
    for (edge, dashed) in panel.edges.iter().map(|&edge| (edge, false)).chain(missing) {
        let Some(path) = path(sketch, panel, edge, &mut on_rule) else {
            continue;
        };
        html.raw("<path class=\"")
            .raw(if dashed { "miss" } else { "edge" })
            .raw("\" d=\"");
        html.text(&path)
            .raw("\" marker-end=\"url(#")
            .raw(match (dashed, sketch.status) {
                (false, _) => "ah",
                (true, Status::Confirmed) => "mh",
                (true, Status::Predicted | Status::OrderedBySpinLoop) => "wh",
            });
        html.raw(")\"/>");
    }
    html.raw("</svg>");
}

fn mark_x(sketch: &Sketch, lane: usize) -> usize {
    NUMBERS + lane_width(sketch) * lane + MARK
}

fn path(sketch: &Sketch, panel: &Panel, edge: Edge, on_rule: &mut [usize]) -> Option<String> {
    let lane = |row: usize| match panel.rows.get(row) {
        Some(Row::Step(step)) => Some(step.lane),
        _ => None,
    };
    let middle = |row: usize| ROW * (row + 1) + ROW / 2;
    let (from, to) = (
        mark_x(sketch, lane(edge.from)?),
        mark_x(sketch, lane(edge.to)?),
    );
    let channel = on_rule[edge.to].min(3) * CHANNEL;
    on_rule[edge.to] += 1;
    let rule = ROW * (edge.to + 1) - channel;
    let mut path = String::new();
    // Beside the lane, not on it, where the arrow passes other marks of its own lane.
    let down = if edge.to == edge.from + 1 {
        from
    } else {
        from - 8
    };
    let (start, end) = (middle(edge.from) + 5, middle(edge.to) - 6);
    write!(path, "M{from},{start} ").expect("writing to a string cannot fail");
    if down != from {
        write!(path, "L{down},{} ", start + 4).expect("writing to a string cannot fail");
    }
    write!(path, "V{rule} H{to} V{end}").expect("writing to a string cannot fail");
    Some(path)
}

fn source(html: &mut Markup, sketch: &Sketch, number: usize, operation: &Operation) {
    html.raw("<figure id=\"f-")
        .text(&sketch.id)
        .raw("-")
        .number(number)
        .raw("\"><figcaption>(");
    html.number(number)
        .raw(") ")
        .text(&place(operation))
        .raw(" — ")
        .text(&operation.thread);
    html.raw(" ");
    with_code(html, &operation.what);
    html.raw("</figcaption>");
    if operation.snippet.is_empty() {
        html.raw("<p class=\"note\">The source is not here to show.</p>");
    } else {
        html.raw("<pre>");
        for line in &operation.snippet {
            let hot = line.number == operation.line;
            html.raw(if hot {
                "<div class=\"hot\"><b>"
            } else {
                "<div><b>"
            });
            html.number(line.number as usize)
                .raw("</b>")
                .text(&line.text)
                .raw("</div>");
        }
        html.raw("</pre>");
    }
    html.raw("<div class=\"note\">locks held: ");
    if operation.locks_held.is_empty() {
        html.raw("none");
    }
    for (at, lock) in operation.locks_held.iter().enumerate() {
        html.raw(if at > 0 { ", " } else { "" })
            .raw("<code>")
            .text(&lock.name);
        html.raw("</code> (").text(&lock.places()).raw(")");
    }
    if !operation.origin.is_empty() {
        html.raw("<br>memory: ");
        with_code(html, &operation.origin);
    }
    html.raw("</div><details><summary>stack</summary><pre>");
    for frame in &operation.stack {
        html.raw("<div>")
            .text(&frame.function)
            .raw(" ")
            .text(&frame.file)
            .raw(":");
        html.number(frame.line as usize).raw("</div>");
    }
    html.raw("</pre></details></figure>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_may_run_its_own_script() {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let mut sum = Command::new("sha256sum")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sha256sum is part of every Debian");
        sum.stdin
            .take()
            .unwrap()
            .write_all(SCRIPT.as_bytes())
            .unwrap();
        let printed = sum.wait_with_output().unwrap().stdout;
        let hex = std::str::from_utf8(&printed[..64]).unwrap();
        assert_eq!(from_base64(SCRIPT_HASH), hex);
    }

    fn from_base64(text: &str) -> String {
        const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut bits = String::new();
        for c in text.trim_end_matches('=').chars() {
            write!(bits, "{:06b}", DIGITS.find(c).unwrap()).unwrap();
        }
        let bytes = bits.as_bytes().chunks_exact(8);
        bytes
            .map(|byte| u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 2).unwrap())
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}
