//! Aspect files: which points of a program emit which events.
//!
//! The instrumentation language of Carril (2017), Figure 6.3 and Table 6.1. One order a line:
//!
//! ```text
//! open(#return)   after  call open_file          -- a comment
//! access(*#0)     before call write_file
//! enter           before body increment
//! x(load)         before read-global x
//! here            before line bank.c:12
//! ```
//!
//! The target is the rest of the line, so that a C++ function can be named with its parameters; in it, `*`
//! stands for any characters.

use std::collections::BTreeMap;
use std::fmt::Write;

/// What an aspect file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aspect {
    pub orders: Vec<Order>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub event: String,
    pub fields: Vec<Field>,
    pub place: Where,
    pub what: What,
    pub target: String,
    /// The line of the aspect file, from 1.
    pub line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    Before,
    After,
}

/// The kind of point: a row of Table 6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Call,
    Body,
    ReadGlobal,
    WriteGlobal,
    Line,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// The same word in every event.
    Word(String),
    /// An argument of the function, from 0, dereferenced so often.
    Argument {
        index: u32,
        dereferences: u32,
    },
    /// What the function returns, dereferenced so often.
    Return {
        dereferences: u32,
    },
    Size,
    Address,
    Value,
}

/// What is wrong with a line of an aspect file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {problem}")]
pub struct AspectError {
    /// Both from 1.
    pub line: usize,
    pub column: usize,
    pub problem: String,
}

/// More dereferences than this are a mistake.
const MOST_DEREFERENCES: usize = 8;

impl What {
    const ALL: [(What, &'static str); 5] = [
        (What::Call, "call"),
        (What::Body, "body"),
        (What::ReadGlobal, "read-global"),
        (What::WriteGlobal, "write-global"),
        (What::Line, "line"),
    ];

    pub fn word(self) -> &'static str {
        let row = What::ALL.iter().find(|(what, _)| *what == self);
        row.expect("the table has all of them").1
    }
}

impl Where {
    pub fn word(self) -> &'static str {
        match self {
            Where::Before => "before",
            Where::After => "after",
        }
    }
}

impl Aspect {
    /// Reads an aspect file. All lines that are wrong are told, in order.
    pub fn parse(text: &str) -> Result<Aspect, Vec<AspectError>> {
        let mut orders: Vec<Order> = Vec::new();
        let mut errors = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let code = line.split_once("--").map_or(line, |(code, _)| code);
            if code.trim().is_empty() {
                continue;
            }
            match Cursor::new(code, i + 1).order() {
                Ok(order) => orders.push(order),
                Err(error) => errors.push(error),
            }
        }
        let mut arities: BTreeMap<&str, &Order> = BTreeMap::new();
        for order in &orders {
            let first = arities.entry(&order.event).or_insert(order);
            if first.fields.len() != order.fields.len() {
                errors.push(AspectError {
                    line: order.line,
                    column: 1,
                    problem: format!(
                        "`{}` has {} fields here and {} in line {}: all orders of one event need as many",
                        order.event,
                        order.fields.len(),
                        first.fields.len(),
                        first.line
                    ),
                });
            }
        }
        errors.sort_by_key(|error| (error.line, error.column));
        if errors.is_empty() {
            Ok(Aspect { orders })
        } else {
            Err(errors)
        }
    }

    /// The events and how many fields each has beside its thread, in the order of their names.
    pub fn events(&self) -> BTreeMap<&str, usize> {
        let orders = self.orders.iter();
        orders
            .map(|order| (&order.event[..], order.fields.len()))
            .collect()
    }

    /// All words that are fields.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let fields = self.orders.iter().flat_map(|order| &order.fields);
        fields.filter_map(|field| match field {
            Field::Word(word) => Some(&word[..]),
            _ => None,
        })
    }

    /// The form that the plug-in reads: one order a line, parts separated by tabs.
    pub fn for_plugin(&self) -> String {
        let mut out = String::new();
        for (i, order) in self.orders.iter().enumerate() {
            let (place, what) = (order.place.word(), order.what.word());
            let _ = write!(
                out,
                "{i}\t{place}\t{what}\t{}\t{}",
                order.target, order.event
            );
            for field in &order.fields {
                let _ = write!(out, "\t{field}");
            }
            out.push('\n');
        }
        out
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stars = |count: u32| "*".repeat(count as usize);
        match self {
            Field::Word(word) => f.write_str(word),
            Field::Argument {
                index,
                dereferences,
            } => write!(f, "{}#{index}", stars(*dereferences)),
            Field::Return { dereferences } => write!(f, "{}#return", stars(*dereferences)),
            Field::Size => f.write_str("#size"),
            Field::Address => f.write_str("#address"),
            Field::Value => f.write_str("#value"),
        }
    }
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.event)?;
        if !self.fields.is_empty() {
            let fields: Vec<String> = self.fields.iter().map(Field::to_string).collect();
            write!(f, "({})", fields.join(", "))?;
        }
        let (place, what) = (self.place.word(), self.what.word());
        write!(f, " {place} {what} {}", self.target)
    }
}

/// A place in a line.
struct Cursor<'a> {
    text: &'a str,
    /// In bytes.
    at: usize,
    line: usize,
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '\'')
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str, line: usize) -> Self {
        Cursor { text, at: 0, line }
    }

    fn error<T>(&self, at: usize, problem: String) -> Result<T, AspectError> {
        Err(AspectError {
            line: self.line,
            column: self.text[..at].chars().count() + 1,
            problem,
        })
    }

    fn skip_spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// The characters up to a space or one of these, and where they begin.
    fn word(&mut self, ends: &[char]) -> (usize, &'a str) {
        self.skip_spaces();
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| c.is_whitespace() || ends.contains(&c));
        let word = &rest[..end.unwrap_or(rest.len())];
        let start = self.at;
        self.at += word.len();
        (start, word)
    }

    fn take(&mut self, c: char) -> bool {
        self.skip_spaces();
        let is_there = self.text[self.at..].starts_with(c);
        self.at += if is_there { c.len_utf8() } else { 0 };
        is_there
    }

    fn order(&mut self) -> Result<Order, AspectError> {
        let (at, event) = self.word(&['(']);
        if !is_name(event) {
            return self.error(at, format!("`{event}` is no name of an event"));
        }
        let mut fields = Vec::new();
        if self.take('(') && !self.take(')') {
            loop {
                fields.push(self.field()?);
                if self.take(')') {
                    break;
                }
                if !self.take(',') {
                    let (at, word) = self.word(&[]);
                    return self.error(at, format!("`,` or `)` is missing before `{word}`"));
                }
            }
        }
        let (at, word) = self.word(&[]);
        let place = match word {
            "before" => Where::Before,
            "after" => Where::After,
            _ => {
                return self.error(
                    at,
                    format!("`before` or `after` is missing before `{word}`"),
                );
            }
        };
        let (at, word) = self.word(&[]);
        let Some(&(what, _)) = What::ALL.iter().find(|(_, name)| *name == word) else {
            let all: Vec<&str> = What::ALL.iter().map(|(_, name)| *name).collect();
            let problem = format!("`{word}` is none of {}", all.join(", "));
            return self.error(at, problem);
        };
        self.skip_spaces();
        let (at, target) = (self.at, self.text[self.at..].trim_end());
        if target.is_empty() {
            return self.error(at, format!("the target of `{}` is missing", what.word()));
        }
        if target.contains('\t') {
            return self.error(at, "the target contains a tab".into());
        }
        if what == What::Line {
            let number = target.rsplit_once(':').map(|(_, number)| number);
            if !number.is_some_and(|number| number.parse::<u32>().is_ok_and(|line| line > 0)) {
                return self.error(at, format!("`{target}` is not FILE:LINE"));
            }
        }
        let order = Order {
            event: event.into(),
            fields: fields.iter().map(|(_, field)| field.clone()).collect(),
            place,
            what,
            target: target.into(),
            line: self.line,
        };
        for (at, field) in fields {
            self.is_allowed(at, &order, &field)?;
        }
        Ok(order)
    }

    fn field(&mut self) -> Result<(usize, Field), AspectError> {
        let (at, word) = self.word(&[',', ')']);
        let name = word.trim_start_matches('*');
        let dereferences = word.len() - name.len();
        if dereferences > MOST_DEREFERENCES {
            return self.error(
                at,
                format!("`{word}` dereferences more than {MOST_DEREFERENCES} times"),
            );
        }
        let dereferences = dereferences as u32;
        let field = match name.strip_prefix('#') {
            None if dereferences == 0 && is_name(word) => Field::Word(word.into()),
            Some("return") => Field::Return { dereferences },
            Some("size") if dereferences == 0 => Field::Size,
            Some("address") if dereferences == 0 => Field::Address,
            Some("value") if dereferences == 0 => Field::Value,
            Some(index) if index.parse::<u32>().is_ok() => Field::Argument {
                index: index.parse().expect("it was just parsed"),
                dereferences,
            },
            _ => {
                let problem = format!(
                    "`{word}` is no field: a word, #0, #1, …, #return, #size, #address or #value"
                );
                return self.error(at, problem);
            }
        };
        Ok((at, field))
    }

    /// Table 6.1.
    fn is_allowed(&self, at: usize, order: &Order, field: &Field) -> Result<(), AspectError> {
        let what = order.what;
        let is_function = matches!(what, What::Call | What::Body);
        let is_access = matches!(what, What::ReadGlobal | What::WriteGlobal);
        let allowed = match field {
            Field::Word(_) => true,
            Field::Argument { .. } => is_function,
            Field::Return { .. } if is_function && order.place == Where::Before => {
                let problem = "`#return` is known only after the call or the body".into();
                return self.error(at, problem);
            }
            Field::Return { .. } => is_function,
            Field::Size | Field::Address | Field::Value => is_access,
        };
        if allowed {
            return Ok(());
        }
        self.error(at, format!("a {} has no `{field}`", what.word()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let got = match Aspect::parse(text) {
            Ok(aspect) => {
                let orders: Vec<String> = aspect.orders.iter().map(Order::to_string).collect();
                orders.join("\n")
            }
            Err(errors) => {
                let errors: Vec<String> = errors.iter().map(AspectError::to_string).collect();
                errors.join("\n")
            }
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn orders_of_the_dissertation_are_read_as_they_are() {
        let all = "open(#return) after call open_file
close(#0) before call close_file
prepare(#0, *#3) after call sqlite3_prepare
enter before body increment
x(load) before read-global x
x(store) before write-global x
here before line bank.c:12
seen(#value, #size, #address) after write-global ns::flag
cancel(#0) after call Uplink::cancel(int, char const*)";
        check(all, all);
        check(
            "  ack   before\tcall  acknowledge -- R2",
            "ack before call acknowledge",
        );
        check(
            "ack() before call acknowledge\n\n-- nothing\n",
            "ack before call acknowledge",
        );
    }

    #[test]
    fn errors_name_the_place_and_the_word() {
        check(
            "open(#return) before call f",
            "1:6: `#return` is known only after the call or the body",
        );
        check(
            "a before call f\nb during call f",
            "2:3: `before` or `after` is missing before `during`",
        );
        check(
            "a before function f",
            "1:10: `function` is none of call, body, read-global, write-global, line",
        );
        check(
            "x(#0) before read-global x",
            "1:3: a read-global has no `#0`",
        );
        check("x(#address) before call x", "1:3: a call has no `#address`");
        check(
            "x(##) before call x",
            "1:3: `##` is no field: a word, #0, #1, …, #return, #size, #address or #value",
        );
        check(
            "x(a b) before call x",
            "1:5: `,` or `)` is missing before `b)`",
        );
        check("1x before call x", "1:1: `1x` is no name of an event");
        check("x before call", "1:14: the target of `call` is missing");
        check("x before line bank.c", "1:15: `bank.c` is not FILE:LINE");
        check(
            "a(#0) before call f\na before call g",
            "2:1: `a` has 0 fields here and 1 in line 1: all orders of one event need as many",
        );
        check(
            "x(",
            "1:3: `` is no field: a word, #0, #1, …, #return, #size, #address or #value",
        );
    }
}
