//! Verdicts and counterexamples as one self-contained page: no network, no fonts, no scripts, light
//! and dark. Components are lanes, steps are rows, and the offending event is marked.

use crate::engine::counterexample::fold::{Fold, folds};
use crate::engine::counterexample::render::own_name;
use crate::engine::counterexample::{Counterexample, Step, Violation, set};
use crate::event::{EventId, Events};

const STYLE: &str = include_str!("page.css");

/// What became of one assertion.
pub struct Section<'a> {
    pub line: u32,
    /// The assertion.
    pub text: &'a str,
    /// `holds`, `fails` or `undecided`.
    pub verdict: &'a str,
    /// Why it is undecided, or fails without a counterexample.
    pub note: &'a str,
    pub counterexamples: Vec<&'a Counterexample>,
}

/// A page under construction. What comes from a script goes through `text`.
#[derive(Default)]
struct Markup(String);

impl Markup {
    fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Also safe inside a quoted attribute.
    fn text(&mut self, text: &str) -> &mut Self {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c if c.is_control() => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        self
    }

    fn number(&mut self, number: usize) -> &mut Self {
        self.0.push_str(&number.to_string());
        self
    }
}

/// The page for the assertions of a script.
pub fn page(title: &str, sections: &[Section], events: &Events) -> String {
    let mut html = Markup::default();
    html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")
        .raw("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")
        .raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ")
        .raw("style-src 'unsafe-inline'\">\n<title>")
        .text(title)
        .raw(" — Norns</title>\n<style>")
        .raw(STYLE)
        .raw("</style></head>\n<body>\n<h1>")
        .text(title)
        .raw("</h1>\n<table class=\"index\"><tr><th>line</th><th>verdict</th><th>assertion</th></tr>\n");
    for section in sections {
        html.raw("<tr><td><a href=\"#l")
            .number(section.line as usize)
            .raw("\">")
            .number(section.line as usize)
            .raw("</a></td><td class=\"")
            .text(section.verdict)
            .raw("\">")
            .text(section.verdict)
            .raw("</td><td><code>")
            .text(section.text)
            .raw("</code></td></tr>\n");
    }
    html.raw("</table>\n");
    for section in sections {
        if section.note.is_empty() && section.counterexamples.is_empty() {
            continue;
        }
        html.raw("<section id=\"l")
            .number(section.line as usize)
            .raw("\"><h2>line ")
            .number(section.line as usize)
            .raw(": <code>")
            .text(section.text)
            .raw("</code> <span class=\"")
            .text(section.verdict)
            .raw("\">")
            .text(section.verdict)
            .raw("</span></h2>\n");
        if !section.note.is_empty() {
            html.raw("<p class=\"dim\">")
                .text(section.note)
                .raw("</p>\n");
        }
        for counterexample in &section.counterexamples {
            steps(&mut html, counterexample, events);
        }
        html.raw("</section>\n");
    }
    html.raw("</body></html>\n");
    html.0
}

fn steps(html: &mut Markup, example: &Counterexample, events: &Events) {
    html.raw("<div class=\"why\">")
        .text(&example.reason(events))
        .raw("</div>\n<div class=\"scroll\"><table class=\"steps\"><tr><th></th><th>seen</th>");
    let mut lanes: Vec<usize> = example
        .steps
        .iter()
        .flat_map(|step| &step.parts)
        .map(|part| part.0)
        .chain(example.waiting.iter().map(|waiting| waiting.0))
        .collect();
    lanes.sort_unstable();
    lanes.dedup();
    for &lane in &lanes {
        html.raw("<th class=\"lane\"><b>")
            .text(&example.components[lane])
            .raw("</b></th>");
    }
    html.raw("<th>the specification allows</th></tr>\n");
    let offending = match example.violation {
        Violation::Event { .. } => example.steps.len().checked_sub(1),
        _ => None,
    };
    let width = lanes.len() + 3;
    for fold in folds(&example.steps) {
        match fold {
            Fold::Steps(range) => {
                for number in range {
                    row(
                        html,
                        example,
                        events,
                        &lanes,
                        number,
                        offending == Some(number),
                    );
                }
            }
            Fold::Repeated { range, times } => {
                let count = range.len();
                for number in range {
                    row(html, example, events, &lanes, number, false);
                }
                note(html, width, |html| {
                    html.raw("the last ")
                        .number(count)
                        .raw(if count == 1 { " step " } else { " steps " })
                        .number(times)
                        .raw(" times");
                });
            }
            Fold::Left(range) => note(html, width, |html| {
                html.number(range.len()).raw(" steps left out");
            }),
        }
    }
    if let Violation::Divergence { repeats } = &example.violation {
        note(html, width, |html| {
            html.raw("from here on, for ever:");
        });
        for step in repeats {
            cells(html, example, events, &lanes, step, "↻", true, "");
        }
    }
    if offending.is_none() {
        html.raw("<tr class=\"bug\"><td class=\"n\">✗</td><td></td>");
        for lane in &lanes {
            html.raw("<td class=\"lane\">");
            if let Some((_, offers)) = example.waiting.iter().find(|waiting| waiting.0 == *lane) {
                match &offers[..] {
                    [] => html.raw("does nothing more"),
                    [crate::engine::DONE] => html.raw("has ended"),
                    offers => html.raw("offers ").text(&set(events, offers)),
                };
            }
            html.raw("</td>");
        }
        html.raw("<td class=\"spec\">");
        if let Some(allowed) = example.allowed.last() {
            html.text(&set(events, allowed));
        }
        html.raw("</td></tr>\n");
    }
    html.raw("</table></div>\n");
}

fn note(html: &mut Markup, width: usize, words: impl FnOnce(&mut Markup)) {
    html.raw("<tr class=\"fold\"><td class=\"n\">⋮</td><td colspan=\"")
        .number(width - 1)
        .raw("\">");
    words(html);
    html.raw("</td></tr>\n");
}

fn row(
    html: &mut Markup,
    example: &Counterexample,
    events: &Events,
    lanes: &[usize],
    number: usize,
    offending: bool,
) {
    let step = &example.steps[number];
    let allowed = match example.allowed.get(number) {
        Some(allowed) if step.event != EventId::TAU => set(events, allowed),
        _ => String::new(),
    };
    let shown = (number + 1).to_string();
    cells(
        html, example, events, lanes, step, &shown, offending, &allowed,
    );
}

#[expect(clippy::too_many_arguments, reason = "one row of the table")]
fn cells(
    html: &mut Markup,
    example: &Counterexample,
    events: &Events,
    lanes: &[usize],
    step: &Step,
    number: &str,
    offending: bool,
    allowed: &str,
) {
    html.raw(if offending {
        "<tr class=\"bug\">"
    } else {
        "<tr>"
    });
    html.raw("<td class=\"n\">").text(number).raw("</td><td>");
    html.text(&events.name(step.event)).raw("</td>");
    for &lane in lanes {
        match step.parts.iter().find(|part| part.0 == lane) {
            None => html.raw("<td class=\"lane\"></td>"),
            Some(&(_, event)) => {
                html.raw("<td class=\"lane did\">")
                    .text(&own_name(events, event));
                let inside = example.inside(events, step, lane);
                if !inside.is_empty() {
                    html.raw("<small>").text(&inside).raw("</small>");
                }
                html.raw("</td>")
            }
        };
    }
    html.raw("<td class=\"spec\">")
        .text(allowed)
        .raw("</td></tr>\n");
}
