//! The table of all findings: one row each, those of one object together, with controls that
//! choose by words, state and severity. The controls need scripts and are not shown without.

use super::{place, with_code};
use crate::escape::Markup;
use crate::finding::Status;
use crate::kind::Severity;
use crate::sketch::{Operation, Sketch};

pub(super) fn table(html: &mut Markup, groups: &[Vec<&Sketch>]) {
    let all = || groups.iter().flatten();
    html.raw("<h1>")
        .number(all().count())
        .raw(" findings</h1>\n");
    controls(html, &all().copied().collect::<Vec<_>>());
    html.raw("<table><thead><tr><th>id</th><th>state</th><th>severity</th><th>what</th>");
    html.raw("<th>where</th></tr></thead>\n");
    for group in groups {
        html.raw("<tbody>");
        if let [first, _, ..] = group[..] {
            html.raw("<tr class=\"object\"><th colspan=\"5\">");
            words(html, &first.object);
            html.raw(" <small>")
                .number(group.len())
                .raw(" findings</small></th></tr>\n");
        }
        for sketch in group {
            row(html, sketch);
        }
        html.raw("</tbody>\n");
    }
    html.raw("</table>\n<p class=\"note\" id=\"none\" hidden>No finding is like that.</p>\n");
}

/// A field for words, and a box for each state and severity that occurs.
fn controls(html: &mut Markup, all: &[&Sketch]) {
    html.raw("<form id=\"choose\" hidden><label>filter <input type=\"search\" name=\"words\" ");
    html.raw(
        "placeholder=\"file, function, object, kind\"></label>\n<fieldset><legend>state</legend>",
    );
    for status in Status::ALL {
        if all.iter().any(|sketch| sketch.status == status) {
            choice(html, status.name(), status.words());
        }
    }
    html.raw("</fieldset>\n<fieldset><legend>severity</legend>");
    for severity in Severity::ALL {
        if all.iter().any(|sketch| sketch.severity() == severity) {
            choice(html, severity.word(), severity.word());
        }
    }
    html.raw("</fieldset></form>\n");
}

fn choice(html: &mut Markup, value: &'static str, words: &'static str) {
    html.raw("<label><input type=\"checkbox\" checked value=\"")
        .raw(value)
        .raw("\"> ")
        .raw(words)
        .raw("</label>\n");
}

fn row(html: &mut Markup, sketch: &Sketch) {
    let (status, severity) = (sketch.status, sketch.severity().word());
    html.raw("<tr data-row=\"f-").text(&sketch.id);
    html.raw("\" data-is=\"").raw(status.name());
    html.raw(" ").raw(severity).raw("\"><td><a href=\"#f-");
    html.text(&sketch.id).raw("\"><code>");
    html.text(&sketch.id)
        .raw("</code></a></td><td class=\"state ");
    html.raw(status.name()).raw("\">").raw(status.words());
    html.raw("</td><td class=\"").raw(severity).raw("\">");
    html.raw(severity);
    if let Some(consequence) = &sketch.consequence {
        html.raw("<br><small>")
            .text(&consequence.words())
            .raw("</small>");
    }
    html.raw("</td><td>");
    // The state has its own column.
    let state = format!("{}: ", status.words());
    let title = sketch.title.strip_prefix(&state);
    with_code(html, title.unwrap_or(&sketch.title));
    match sketch.variants.len() {
        0 => {}
        1 => {
            html.raw(" <small>and 1 variant</small>");
        }
        more => {
            html.raw(" <small>and ")
                .number(more)
                .raw(" variants</small>");
        }
    }
    html.raw("</td><td>");
    for (at, operation) in sketch.operations.iter().enumerate() {
        if at > 0 {
            html.raw("<br>");
        }
        breakable(html, &place(operation));
        html.raw(" <small>")
            .text(function(operation))
            .raw("</small>");
    }
    html.raw("</td></tr>\n");
}

fn function(operation: &Operation) -> &str {
    let name = operation.function.split('(').next();
    name.unwrap_or(&operation.function)
}

/// A path that may be broken after its slashes, and only there.
fn breakable(html: &mut Markup, path: &str) {
    for (at, part) in path.split('/').enumerate() {
        if at > 0 {
            html.raw("/<wbr>");
        }
        html.text(part);
    }
}

/// An object: a name of the program, or a description.
fn words(html: &mut Markup, object: &str) {
    if object.contains(' ') {
        with_code(html, object);
    } else {
        html.raw("<code>").text(object).raw("</code>");
    }
}
