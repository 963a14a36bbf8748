//! SARIF 2.1.0, for code scanning: one result per finding, one code flow per schedule ("what
//! ran", "what can run"), one thread flow per thread, steps numbered by execution order.

use serde_json::{Value, json};

use crate::consequence::Class;
use crate::finding::Status;
use crate::kind::Kind;
use crate::sketch::{Operation, Panel, Row, Sketch};

/// One finding with what SARIF wants to know besides.
pub struct Entry<'a> {
    pub sketch: &'a Sketch,
    pub fingerprint: &'a str,
    pub known: bool,
}

pub fn log(entries: &[Entry], version: &str) -> Value {
    let rules: Vec<Value> = Kind::ALL
        .iter()
        .map(|kind| {
            let kind = kind.definition();
            json!({"id": kind.code, "name": pascal(kind.words),
            "shortDescription": {"text": kind.words}})
        })
        .collect();
    let results: Vec<Value> = entries.iter().map(result).collect();
    envelope(&rules, &results, version)
}

/// A log with one run of this tool.
pub(crate) fn envelope(rules: &[Value], results: &[Value], version: &str) -> Value {
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "norns", "version": version, "rules": rules}},
            "results": results,
        }],
    })
}

fn pascal(words: &str) -> String {
    words
        .split(' ')
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}

fn result(entry: &Entry) -> Value {
    let sketch = entry.sketch;
    let locations: Vec<Value> = sketch
        .operations
        .iter()
        .filter(|operation| operation.line > 0)
        .map(location)
        .collect();
    let mut result = json!({
        "ruleId": sketch.kind.definition().code,
        "level": level(sketch),
        "message": {"text": format!("{}. {}", sketch.title, sketch.why)},
        "locations": locations.first().into_iter().collect::<Vec<_>>(),
        "relatedLocations": locations.iter().skip(1).collect::<Vec<_>>(),
        "partialFingerprints": {"norns/v1": entry.fingerprint},
        "baselineState": if entry.known { "unchanged" } else { "new" },
        "properties": {"status": sketch.status, "severity": sketch.severity().word(),
            "id": sketch.id, "facts": sketch.all_facts().collect::<Vec<_>>()},
    });
    if let Some(consequence) = &sketch.consequence {
        result["properties"]["consequence"] = json!(consequence);
    }
    if !sketch.object.is_empty() {
        result["properties"]["object"] = json!(sketch.object);
    }
    if !sketch.variants.is_empty() {
        result["properties"]["variants"] = json!(sketch.variants);
    }
    let flows: Vec<Value> = sketch
        .panels()
        .filter(|(_, panel)| panel.rows.iter().any(|row| matches!(row, Row::Step(_))))
        .map(|(title, panel)| code_flow(sketch, &title.to_lowercase(), panel))
        .collect();
    if !flows.is_empty() {
        result["codeFlows"] = Value::Array(flows);
    }
    result
}

/// What was classified has the level of its class: only what was shown to do harm is an error.
fn level(sketch: &Sketch) -> &'static str {
    let class = sketch.consequence.as_ref().map(|found| found.class);
    match (sketch.status, class) {
        (Status::Confirmed, None | Some(Class::SpecViolated)) => "error",
        (Status::Predicted, None | Some(Class::SpecViolated)) => "warning",
        (Status::Confirmed | Status::Predicted, Some(Class::OutputDiffers)) => "warning",
        (Status::OrderedBySpinLoop, _) | (_, Some(Class::SingleOrdering | Class::Harmless)) => {
            "note"
        }
    }
}

fn location(operation: &Operation) -> Value {
    json!({
        "physicalLocation": {
            "artifactLocation": {"uri": uri(&operation.file)},
            "region": {"startLine": operation.line},
        },
        "message": {"text": format!("{} {}", operation.thread, operation.what)},
    })
}

/// A path as a relative or file URI: every byte that a URI does not allow is escaped.
pub(crate) fn uri(path: &str) -> String {
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

fn code_flow(sketch: &Sketch, title: &str, panel: &Panel) -> Value {
    let flows: Vec<Value> =
        sketch
            .lanes
            .iter()
            .enumerate()
            .filter_map(|(lane, thread)| {
                let steps: Vec<Value> = panel
                .rows
                .iter()
                .filter_map(|row| match row {
                    Row::Step(step) if step.lane == lane => Some(step),
                    _ => None,
                })
                .map(|step| {
                    let text = format!("{} {}", step.what, step.value);
                    let mut at = json!({
                        "location": {"message": {"text": text.trim_end()}},
                        "executionOrder": step.number,
                        "importance": if step.operation > 0 { "essential" } else { "important" },
                    });
                    let operation =
                        step.operation.checked_sub(1).map(|index| &sketch.operations[index]);
                    if let Some(operation) = operation.filter(|operation| operation.line > 0) {
                        at["location"]["physicalLocation"] =
                            location(operation)["physicalLocation"].clone();
                    } else if !step.place.is_empty() {
                        at["location"]["logicalLocations"] =
                            json!([{"fullyQualifiedName": step.place}]);
                    }
                    at
                })
                .collect();
                (!steps.is_empty()).then(|| json!({"id": thread.thread, "locations": steps}))
            })
            .collect();
    json!({"message": {"text": title}, "threadFlows": flows})
}
