//! Findings as CI systems read them: JUnit test reports and GitHub annotations.

use crate::escape::Markup;
use crate::finding::{Finding, Findings};

/// One test case per finding, failed when it is confirmed and new, else skipped; one
/// passed case when nothing was found, since an empty suite looks like a run that did not happen.
pub fn junit(findings: &Findings, program: &str) -> String {
    let failures = findings
        .findings
        .iter()
        .filter(|finding| finding.fails())
        .count();
    let all = findings.findings.len();
    let mut xml = Markup::default();
    xml.raw("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"norns\" ");
    xml.raw("tests=\"")
        .number(all.max(1))
        .raw("\" failures=\"")
        .number(failures);
    xml.raw("\" errors=\"0\" skipped=\"")
        .number(all - failures)
        .raw("\">\n");
    if findings.findings.is_empty() {
        xml.raw("<testcase classname=\"")
            .text(program)
            .raw("\" name=\"no findings\"/>\n");
    }
    for finding in &findings.findings {
        xml.raw("<testcase classname=\"")
            .text(program)
            .raw("\" name=\"");
        xml.text(&headline(finding)).raw("\">");
        if finding.fails() {
            xml.raw("<failure message=\"")
                .text(&headline(finding))
                .raw("\"/>");
        } else {
            let why = match finding.known {
                true => "in the baseline",
                false => "predicted, not confirmed",
            };
            xml.raw("<skipped message=\"").text(why).raw("\"/>");
        }
        xml.raw("</testcase>\n");
    }
    xml.raw("</testsuite>\n</testsuites>\n");
    xml.finish()
}

/// `::error file=…,line=…::…` for findings that fail the build, `::warning` for the others.
pub fn github(findings: &Findings) -> String {
    let mut out = String::new();
    for finding in &findings.findings {
        let level = if finding.fails() { "error" } else { "warning" };
        let place = finding.places.first();
        let file = place.map(|place| property(&place.file)).unwrap_or_default();
        let line = place.map_or(0, |place| place.line);
        let kind = finding.kind.definition();
        let title = format!("{} {}", kind.code, kind.words);
        out.push_str(&format!(
            "::{level} file={file},line={line},title={}::{}\n",
            property(&title),
            data(&headline(finding))
        ));
    }
    out
}

/// `deadlock 3f9a: bank.c:14, bank.c:22`.
fn headline(finding: &Finding) -> String {
    let places: Vec<String> = finding
        .places
        .iter()
        .map(|place| format!("{}:{}", place.file, place.line))
        .collect();
    format!(
        "{} {}: {}",
        finding.kind.definition().words,
        finding.id,
        places.join(", ")
    )
}

fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
