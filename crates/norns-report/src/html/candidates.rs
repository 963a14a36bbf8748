//! The candidates of a scan on the page: a table by file, and what no run has reached.

use crate::escape::Markup;
use crate::judged::{Judged, Judgement};
use crate::scan::{title, word};

pub(super) fn section(html: &mut Markup, judged: &Judged) {
    html.raw("<section id=\"scan\">\n<h2>Candidates of the scan</h2>\n<table><thead><tr>");
    for judgement in Judgement::ALL {
        html.raw("<th>")
            .text(&judgement.name().replace('-', " "))
            .raw("</th>");
    }
    html.raw("<th>file</th></tr></thead><tbody>\n");
    for (file, counts) in judged.by_file() {
        html.raw("<tr>");
        for count in counts {
            html.raw("<td>").number(count).raw("</td>");
        }
        html.raw("<td>").text(file).raw("</td></tr>\n");
    }
    html.raw("</tbody></table>\n");
    let mut left = judged.not_reached().peekable();
    if left.peek().is_some() {
        html.raw("<h3>Not reached by any run, to be tested next</h3>\n<ul>\n");
        for one in left {
            let candidate = &one.candidate;
            html.raw("<li>");
            html.text(&title(word(&candidate["kind"]), word(&candidate["object"])));
            for place in candidate["places"].as_array().into_iter().flatten() {
                let line = place["line"].to_string();
                html.raw("; ")
                    .text(word(&place["file"]))
                    .raw(":")
                    .text(&line);
                html.raw(" in ").text(word(&place["function"]));
            }
            html.raw(" (").text(one.reason.words()).raw(")</li>\n");
        }
        html.raw("</ul>\n");
    }
    html.raw("</section>\n");
}
