//! Property files: which orders of events are right.
//!
//! A file with an `assert` is CSPM that follows the generated model in one script; DESIGN fixes what the
//! model defines for it. Any other file is in the simple words of `words`, which stand for CSPM.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use norns_csp::script::Script;
use norns_trace::Trace;

use crate::aspect::{Aspect, Field, Order};
use crate::words;

/// The channels and sets that the model itself defines.
const MODEL_NAMES: &[&str] = &[
    "fork",
    "join",
    "tryjoin",
    "start",
    "end",
    "leaves",
    "lock",
    "rdlock",
    "unlock",
    "trylock",
    "tryrdlock",
    "sleep",
    "wake",
    "spurious",
    "signal",
    "broadcast",
    "barrier_enter",
    "barrier_exit",
    "sem_post",
    "sem_wait",
    "sem_try",
    "oncebegin",
    "onceend",
    "oncepass",
    "unbegun",
    "mark",
    "marked",
    "endthreads",
    "thread",
    "object",
];

/// The two patterns of section 6.3.1, for `include "patterns.csp"`.
const PATTERNS: &str = "\
-- Sequence search: `error` happens once E has happened, whatever else of `events` happens before.
channel error
WD(E, events) = (E ; error -> SKIP) /\\ ([] z : events @ z -> WD(E, events))
FINDS(P, E, events) = (P [| events |] WD(E, events)) |\\ {error}
-- Correctness: P with all events hidden but these.
ONLY(P, events) = P |\\ events
";

/// What is wrong with a property, or with the events that it speaks of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// Place and problem of a line in simple words.
    #[error("{file}:{line}: {problem}")]
    Words {
        file: String,
        line: usize,
        problem: String,
    },
    /// The messages of the CSPM front end, with their source lines.
    #[error("{0}")]
    Script(String),
    /// The property declares the channel of an event in another way than the event is.
    #[error(
        "the aspect file gives `{event}` {fields} field{} after its thread, and the property declares or \
         uses its channel in another way",
        if *fields == 1 { "" } else { "s" }
    )]
    Fields { event: String, fields: usize },
    #[error("`{0}` is the name of something that the model defines: give the event another name")]
    Reserved(String),
}

/// A property and the events that it speaks of.
#[derive(Clone, Debug)]
pub struct Property {
    /// The file's name, for messages.
    file: String,
    /// CSPM.
    text: String,
    /// The sentence in simple words that each assertion stands for, in order; empty for CSPM.
    sentences: Vec<String>,
    /// All events, with a value of the right type for each field beside the thread: a word, or 0.
    events: BTreeMap<String, Vec<String>>,
    /// The fields that are words.
    words: BTreeSet<String>,
    /// By event and field: the words that it can be, if it is a word.
    words_of: BTreeMap<(String, usize), BTreeSet<String>>,
}

impl Property {
    /// Reads a property. Sentences such as `atomic increment on x` add their orders to the aspect.
    pub fn parse(file: &str, text: &str, aspect: &mut Aspect) -> Result<Property, PropertyError> {
        let (text, sentences) = if is_cspm(text) {
            (text.to_string(), Vec::new())
        } else {
            let rules =
                words::parse(text, aspect).map_err(|(line, problem)| PropertyError::Words {
                    file: file.into(),
                    line,
                    problem,
                })?;
            aspect.orders.extend(rules.orders);
            (rules.cspm, rules.sentences)
        };
        let example = |field: &Field| match field {
            Field::Word(word) => word.clone(),
            _ => "0".to_string(),
        };
        let events = aspect.orders.iter().map(|order| {
            let fields = order.fields.iter().map(example);
            (order.event.clone(), fields.collect())
        });
        let property = Property {
            file: file.into(),
            text,
            sentences,
            events: events.collect(),
            words: aspect.words().map(str::to_string).collect(),
            words_of: words_of(aspect),
        };
        let mut names = property.events.keys();
        if let Some(name) = names.find(|name| MODEL_NAMES.contains(&&name[..])) {
            return Err(PropertyError::Reserved(name.clone()));
        }
        property.try_out()?;
        Ok(property)
    }

    /// The CSPM that the property is.
    pub fn cspm(&self) -> &str {
        &self.text
    }

    /// Whether the property names synchronisation events, so that none of them may be left out.
    pub(crate) fn speaks_of_synchronisation(&self) -> bool {
        tokens(&self.text)
            .any(|token| token == "sync_set" || token != "thread" && MODEL_NAMES.contains(&token))
    }

    /// The events of the property that a trace does not have.
    pub fn events_without(&self, trace: &Trace) -> Vec<&str> {
        let names: BTreeSet<&str> = { trace.customs.iter() }
            .map(|custom| &custom.name[..])
            .collect();
        let events = self.events.keys().map(String::as_str);
        events.filter(|event| !names.contains(event)).collect()
    }

    pub(crate) fn has_event(&self, name: &str) -> bool {
        self.events.contains_key(name)
    }

    /// What an assertion says: the sentence, or the assertion itself.
    pub(crate) fn says(&self, assertion: usize, text: &str) -> String {
        let sentence = self.sentences.get(assertion);
        sentence.map_or(text, |sentence| &sentence[..]).to_string()
    }

    /// Finds mistakes before the program runs, on an empty model.
    fn try_out(&self) -> Result<(), PropertyError> {
        let trace = Trace::default();
        let model = norns_model::cspm::cspm_of_run(&trace, &[]);
        let script = self.script(&model, &BTreeMap::new())?;
        if script.assertions.is_empty() {
            let problem = format!("{}: there is no assertion", self.file);
            return Err(PropertyError::Script(problem));
        }
        for (event, fields) in &self.events {
            let run = [norns_model::cspm::custom_event(event, 0, fields)];
            let model = norns_model::cspm::cspm_of_run(&trace, &run);
            let values = (1..).zip(fields).map(|(n, example)| {
                let value = BTreeSet::from([&example[..]]);
                ((&event[..], n), value)
            });
            if self.script(&model, &values.collect()).is_err() {
                return Err(PropertyError::Fields {
                    event: event.clone(),
                    fields: fields.len(),
                });
            }
        }
        Ok(())
    }

    /// The model, the declarations of the events and the property as one script. `values` are the values
    /// that occurred of each event, by the position of the field from 1.
    pub(crate) fn script(
        &self,
        model: &str,
        values: &BTreeMap<(&str, usize), BTreeSet<&str>>,
    ) -> Result<Script, PropertyError> {
        let mut text = String::from(model);
        let declared = declared(&self.text);
        let words = self
            .words
            .iter()
            .filter(|word| !declared.contains(&word[..]));
        let words: Vec<&str> = words.map(String::as_str).collect();
        if !words.is_empty() {
            let _ = writeln!(text, "datatype Word = {}", words.join(" | "));
        }
        for (event, fields) in &self.events {
            for (i, example) in fields.iter().enumerate() {
                let field = i + 1;
                let values = values.get(&(&event[..], field)).into_iter().flatten();
                let values: Vec<&str> = values.copied().collect();
                let set = match values.is_empty() {
                    // An empty set that has a type.
                    true => format!("diff({{{example}}}, {{{example}}})"),
                    // `{-` would begin a comment.
                    false => format!("{{ {} }}", values.join(", ")),
                };
                let _ = writeln!(text, "{event}_arg{field} = {set}");
            }
            if !declared.contains(&event[..]) {
                // A rule may name a word that did not occur.
                let field = |n: usize| match self.words_of.get(&(event.clone(), n)) {
                    Some(words) => {
                        let words: Vec<&str> = words.iter().map(String::as_str).collect();
                        format!(".{{ {} }}", words.join(", "))
                    }
                    None => format!(".{event}_arg{n}"),
                };
                let fields: String = (1..=fields.len()).map(field).collect();
                let _ = writeln!(text, "channel {event} : thread{fields}");
            }
        }
        let _ = writeln!(text, "include \"{}\"", self.file.replace(['"', '\\'], "_"));
        let property = self.text.clone();
        let name = self.file.clone();
        let mut is_first = true;
        let mut includes = move |path: &str, _: &str| match path {
            _ if is_first => {
                is_first = false;
                Ok((name.clone(), property.clone()))
            }
            "patterns.csp" => Ok(("patterns.csp".to_string(), PATTERNS.to_string())),
            _ => Err("a property can include \"patterns.csp\" only".into()),
        };
        Script::load("the model", &text, &mut includes)
            .map_err(|error| PropertyError::Script(error.render()))
    }
}

/// Whether the text has an `assert` outside of comments.
fn is_cspm(text: &str) -> bool {
    tokens(text).any(|token| token == "assert")
}

/// The names and numbers of a CSPM text, without its comments.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| line.split_once("--").map_or(line, |(code, _)| code))
        .flat_map(|code| code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '\'')))
        .filter(|token| !token.is_empty())
}

/// The names of the channels and of the constructors that a text declares, or may declare: the names on
/// a line with `channel` or `datatype`, and on those that go on with it.
fn declared(text: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut declares = false;
    for line in text.lines() {
        let code = line.split_once("--").map_or(line, |(code, _)| code);
        let first = tokens(code).next();
        match first {
            Some("channel") => {
                // What follows the colon is types.
                let code = code.split_once(':').map_or(code, |(names, _)| names);
                names.extend(tokens(code).skip(1));
                declares = code.trim_end().ends_with(',');
            }
            Some("datatype" | "subtype") => {
                names.extend(tokens(code).skip(1));
                declares = true;
            }
            Some(_) if declares && code.trim_start().starts_with(['|', '=']) => {
                names.extend(tokens(code));
            }
            _ => declares = false,
        }
    }
    names
}

/// By event and field, from 1: the words that it can be.
fn words_of(aspect: &Aspect) -> BTreeMap<(String, usize), BTreeSet<String>> {
    let mut all: BTreeMap<(String, usize), BTreeSet<String>> = BTreeMap::new();
    for order in &aspect.orders {
        for (n, field) in (1..).zip(&order.fields) {
            if let Field::Word(word) = field {
                let words = all.entry((order.event.clone(), n)).or_default();
                words.insert(word.clone());
            }
        }
    }
    all
}

/// The first order that emits the event of this name.
pub(crate) fn event_of<'a>(orders: &'a [Order], name: &str) -> Option<&'a Order> {
    orders.iter().find(|order| order.event == name)
}
