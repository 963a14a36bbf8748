//! What must hold of the program's global variables: an expression of C over integers and pointers.
//!
//! It is looked at when the program ends well and, unless it begins with `end:`, where no lock is held after
//! operations that synchronise. Variables are named as in the source; of arrays one element can be named by a number. All
//! arithmetic is that of 64-bit integers.

use norns_ir::{Global, Program, Type};

use crate::machine::Machine;
use crate::memory::{ObjectId, address_of};

/// An expression over global variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invariant {
    text: String,
    root: Node,
    only_at_end: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Number(i64),
    Variable { name: String, index: u64 },
    Not(Box<Node>),
    Negative(Box<Node>),
    Binary(&'static str, Box<Node>, Box<Node>),
}

/// From the weakest to the strongest.
const OPERATORS: [&[&str]; 6] = [
    &["||"],
    &["&&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Invariant {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (rest, only_at_end) = match text.strip_prefix("end:") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let mut parser = Parser { rest };
        let root = parser.binary(0)?;
        match parser.rest.trim() {
            "" => Ok(Self {
                text: text.to_owned(),
                root,
                only_at_end,
            }),
            rest => Err(format!("`{text}` cannot be read at `{rest}`")),
        }
    }

    /// The first name that is no global variable of the program.
    #[must_use]
    pub fn unknown_name(&self, program: &Program) -> Option<&str> {
        let mut open = vec![&self.root];
        while let Some(next) = open.pop() {
            match next {
                Node::Number(_) => {}
                Node::Variable { name, .. } => {
                    if find(program, name).is_none() {
                        return Some(name);
                    }
                }
                Node::Not(inner) | Node::Negative(inner) => open.push(inner),
                Node::Binary(_, one, other) => open.extend([&**one, &**other]),
            }
        }
        None
    }
}

fn find<'p>(program: &'p Program, name: &str) -> Option<(usize, &'p Global)> {
    let mut globals = program.globals.iter().enumerate();
    globals.find(|(_, global)| {
        !global.is_thread_local && global.source_name.as_ref().unwrap_or(&global.name) == name
    })
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn takes(&mut self, word: &str) -> bool {
        match self.rest.trim_start().strip_prefix(word) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn binary(&mut self, level: usize) -> Result<Node, String> {
        let Some(operators) = OPERATORS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| self.takes(operator)) {
            let right = self.binary(level + 1)?;
            left = Node::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Node, String> {
        if self.takes("!") {
            return Ok(Node::Not(Box::new(self.unary()?)));
        }
        if self.takes("-") {
            return Ok(Node::Negative(Box::new(self.unary()?)));
        }
        if self.takes("(") {
            let inner = self.binary(0)?;
            return match self.takes(")") {
                true => Ok(inner),
                false => Err(format!("a `)` is missing before `{}`", self.rest)),
            };
        }
        let word = self.word();
        match word.chars().next() {
            None => Err(format!(
                "a name or a number is missing before `{}`",
                self.rest
            )),
            Some('0'..='9') => number(&word).map(Node::Number),
            Some(_) => {
                let mut index = 0;
                if self.takes("[") {
                    let word = self.word();
                    index = number(&word)? as u64;
                    if !self.takes("]") {
                        return Err(format!("a `]` is missing before `{}`", self.rest));
                    }
                }
                Ok(Node::Variable { name: word, index })
            }
        }
    }

    fn word(&mut self) -> String {
        let rest = self.rest.trim_start();
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }
}

fn number(word: &str) -> Result<i64, String> {
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    parsed.map_err(|_| format!("`{word}` is no number"))
}

impl Machine<'_> {
    /// What the invariant is, if it is broken.
    pub(crate) fn broken_invariant(&self, is_end: bool) -> Option<String> {
        let invariant = self.how.invariant.as_ref()?;
        if !is_end && (invariant.only_at_end || self.is_any_locked()) {
            return None;
        }
        (self.value_of(&invariant.root)? == 0).then(|| format!("invariant {}", invariant.text))
    }

    /// The value of an expression; `None` if it cannot be known.
    fn value_of(&self, node: &Node) -> Option<i64> {
        Some(match node {
            Node::Number(number) => *number,
            Node::Variable { name, index } => {
                let (number, global) = find(self.program, name)?;
                let types = &self.program.types;
                let (size, offset) = match types.get(global.r#type) {
                    Type::Array { element, count } if index < count => {
                        (types.size(*element), index * types.size(*element))
                    }
                    _ => (types.size(global.r#type), 0),
                };
                let size = u8::try_from(size)
                    .ok()
                    .filter(|size| (1..=8).contains(size))?;
                let address = address_of(ObjectId(number as u32 + 1)) + offset;
                let value = self.state.memory.load(address, size).ok()?;
                let shift = 64 - 8 * u32::from(size);
                ((value << shift) as i64) >> shift
            }
            Node::Not(inner) => i64::from(self.value_of(inner)? == 0),
            Node::Negative(inner) => self.value_of(inner)?.wrapping_neg(),
            Node::Binary(operator, one, other) => {
                let (one, other) = (self.value_of(one)?, self.value_of(other)?);
                match *operator {
                    "||" => i64::from(one != 0 || other != 0),
                    "&&" => i64::from(one != 0 && other != 0),
                    "==" => i64::from(one == other),
                    "!=" => i64::from(one != other),
                    "<=" => i64::from(one <= other),
                    ">=" => i64::from(one >= other),
                    "<" => i64::from(one < other),
                    ">" => i64::from(one > other),
                    "+" => one.wrapping_add(other),
                    "-" => one.wrapping_sub(other),
                    "*" => one.wrapping_mul(other),
                    "/" => one.checked_div(other)?,
                    _ => one.checked_rem(other)?,
                }
            }
        })
    }

    /// Whether any thread holds a lock.
    fn is_any_locked(&self) -> bool {
        let all = &self.state.synchronisation;
        all.mutexes.values().any(|mutex| mutex.owner.is_some())
            || all.reader_writer.values().any(|lock| lock.writer.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_bind_as_in_c() {
        let parsed = Invariant::parse("a + 2 * b[1] == 10 && !(c < -1)").unwrap();
        let Node::Binary("&&", equal, not) = parsed.root else {
            panic!("{parsed:?}");
        };
        assert!(matches!(*equal, Node::Binary("==", ..)));
        assert!(matches!(*not, Node::Not(_)));
        for wrong in ["", "a +", "(a", "a b", "a[b]", "a = 1"] {
            assert!(Invariant::parse(wrong).is_err(), "{wrong}");
        }
    }
}
