//! The log: one JSON object a line on standard error. Text from outside stands only in values.

use std::io::Write as _;

use serde_json::{Map, Value, json};

use crate::now;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Information,
    Warning,
    Error,
}

/// Writes a line. A log that cannot be written, as on a full disk, stops nothing.
pub fn line(level: Level, event: &str, fields: &[(&str, Value)]) {
    let level = match level {
        Level::Information => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    };
    let mut all = Map::new();
    all.insert("time".to_owned(), json!(now()));
    all.insert("level".to_owned(), json!(level));
    all.insert("event".to_owned(), json!(event));
    for (name, value) in fields {
        all.insert((*name).to_owned(), value.clone());
    }
    let _ = writeln!(std::io::stderr().lock(), "{}", Value::Object(all));
}
