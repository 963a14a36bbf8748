//! The text form: one item a line.
//!
//! ```text
//! norns-trace 1
//! info KEY VALUE…
//! thread NAME [PARENT]
//! object KIND ADDRESS [NAME]
//! place PC [FUNCTION FILE LINE COLUMN]…
//! symbol ADDRESS SIZE NAME
//! custom NAME FIELD…
//! THREAD OPERATION OPERANDS… @PLACE [r=BYTES] [w=BYTES]
//! ```
//!
//! Definitions are numbered from 0 in the order of their lines: `o3` is the fourth object, `@5` the
//! sixth place, `c0` the first custom event. A thread is named by its name, or `#3` when an earlier
//! one has the same. Words with unusual characters stand in quotes with escapes, so that nothing from a
//! recorded program reaches a terminal unescaped. What follows a `#` that stands alone is a comment;
//! the printer writes the place's source line there.
//!
//! `Parser` reads what `Printer` writes back to the same items, and printing these gives the same
//! bytes. The parser also accepts what a person writes: blank lines, more blanks, needless quotes.

use std::fmt::Write as _;

use rustc_hash::FxHashMap;

use crate::event::{Access, Event, ObjectId, Op, PlaceId, ThreadId};
use crate::item::{AccessValue, Defined, Info, Item, OBJECT_KINDS, ORDERS};
use crate::operation::{OPERATIONS, Operands, Shape};
use crate::trace::{Custom, Object, Place, SourcePlace, Symbol, Thread};

pub const FIRST_LINE: &str = "norns-trace 1";

const DEFINITIONS: [&str; 6] = ["info", "thread", "object", "place", "symbol", "custom"];

/// Items to lines.
#[derive(Default)]
pub struct Printer {
    /// What stands for each thread in a line.
    threads: Vec<String>,
    names: FxHashMap<String, ()>,
    /// The comment of each place.
    places: Vec<String>,
    objects: Vec<String>,
}

impl Printer {
    /// Appends the item's line.
    pub fn print(&mut self, item: &Item, out: &mut String) {
        match item {
            Item::Info(Info { key, values }) => {
                out.push_str("info");
                put_word(out, key);
                values.iter().for_each(|value| put_word(out, value));
            }
            Item::Thread(Thread { name, parent }) => {
                out.push_str("thread");
                put_word(out, name);
                if let Some(parent) = parent {
                    out.push(' ');
                    self.put_thread(out, *parent);
                }
                let reference = match self.names.insert(name.clone(), ()) {
                    Some(()) => format!("#{}", self.threads.len()),
                    None => {
                        let mut word = String::new();
                        if DEFINITIONS.contains(&name.as_str()) || name.starts_with('#') {
                            put_quoted(&mut word, name);
                        } else {
                            put_bare_or_quoted(&mut word, name);
                        }
                        word
                    }
                };
                self.threads.push(reference);
            }
            Item::Object(Object {
                kind,
                address,
                name,
            }) => {
                let _ = write!(out, "object {} {address:#x}", kind.word());
                if !name.is_empty() {
                    put_word(out, name);
                }
                self.objects.push(name.clone());
            }
            Item::Place(Place { pc, frames }) => {
                let _ = write!(out, "place {pc:#x}");
                for frame in frames {
                    put_word(out, &frame.function);
                    put_word(out, &frame.file);
                    let _ = write!(out, " {} {}", frame.line, frame.column);
                }
                self.places.push(match frames.first() {
                    Some(frame) if !frame.file.is_empty() => {
                        let file = frame.file.rsplit('/').next().unwrap_or_default();
                        let file = file.replace(|c: char| c.is_whitespace() || c.is_control(), "?");
                        format!("{}:{}", file.escape_debug(), frame.line)
                    }
                    _ => String::new(),
                });
            }
            Item::Symbol(Symbol {
                address,
                size,
                name,
            }) => {
                let _ = write!(out, "symbol {address:#x} {size}");
                put_word(out, name);
            }
            Item::Custom(Custom { name, fields }) => {
                out.push_str("custom");
                put_word(out, name);
                fields.iter().for_each(|field| put_word(out, field));
            }
            Item::Event(event, value) => self.print_event(event, value.as_ref(), out),
        }
        out.push('\n');
    }

    fn print_event(&self, event: &Event, value: Option<&AccessValue>, out: &mut String) {
        self.put_thread(out, event.thread);
        out.push(' ');
        out.push_str(event.op.kind().word);
        let mut about = "";
        match event.op.operands() {
            Operands::None => {}
            Operands::Thread(thread) => {
                out.push(' ');
                self.put_thread(out, thread);
            }
            Operands::Object(object) => {
                let _ = write!(out, " o{}", object.0);
                about = self.objects.get(object.index()).map_or("", String::as_str);
            }
            Operands::Counted(object, count) => {
                let _ = write!(out, " o{} {count}", object.0);
                about = self.objects.get(object.index()).map_or("", String::as_str);
            }
            Operands::Memory(Access { address, size }) => {
                let _ = write!(out, " {address:#x} {size}");
            }
            Operands::Atomic {
                address,
                size,
                order,
            } => {
                let _ = write!(out, " {address:#x} {size} {}", order_name(order));
            }
            Operands::Order(order) => {
                out.push(' ');
                out.push_str(order_name(order));
            }
            Operands::Custom(custom) => {
                let _ = write!(out, " c{custom}");
            }
        }
        let _ = write!(out, " @{}", event.place.0);
        if let Some(AccessValue { read, written }) = value {
            for (name, bytes) in [("r", read), ("w", written)] {
                let _ = write!(out, " {name}=");
                bytes.iter().for_each(|byte| {
                    let _ = write!(out, "{byte:02x}");
                });
            }
        }
        let place = self
            .places
            .get(event.place.index())
            .map_or("", String::as_str);
        if !about.is_empty() || !place.is_empty() {
            out.push_str(" #");
            if !about.is_empty() {
                put_word(out, about);
            }
            if !place.is_empty() {
                out.push(' ');
                out.push_str(place);
            }
        }
    }

    fn put_thread(&self, out: &mut String, thread: ThreadId) {
        match self.threads.get(thread.index()) {
            Some(word) => out.push_str(word),
            None => {
                let _ = write!(out, "#{}", thread.0);
            }
        }
    }
}

fn order_name(order: crate::event::MemoryOrder) -> &'static str {
    let found = ORDERS.iter().find(|(_, other)| *other == order);
    found.expect("the table has every order").0
}

fn put_word(out: &mut String, word: &str) {
    out.push(' ');
    put_bare_or_quoted(out, word);
}

fn put_bare_or_quoted(out: &mut String, word: &str) {
    let usual = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
    if !word.is_empty() && word != "#" && word.chars().all(usual) {
        out.push_str(word);
    } else {
        put_quoted(out, word);
    }
}

fn put_quoted(out: &mut String, word: &str) {
    out.push('"');
    for c in word.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            ' ' => out.push(c),
            _ if c.is_ascii_graphic() || (!c.is_ascii() && c.is_alphanumeric()) => out.push(c),
            _ => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    out.push('"');
}

/// Lines to items.
#[derive(Default)]
pub struct Parser {
    threads: FxHashMap<String, ThreadId>,
    defined: Defined,
    begun: bool,
}

struct Word {
    text: String,
    quoted: bool,
}

impl Parser {
    /// The item in this line; `None` for the first line, which has the version, and for a line without
    /// item.
    pub fn parse(&mut self, line: &str) -> Result<Option<Item>, String> {
        let words = split(line)?;
        let Some(first) = words.first() else {
            return Ok(None);
        };
        if !self.begun {
            let version = words.get(1).map(|word| word.text.as_str());
            return match (first.text.as_str(), version) {
                ("norns-trace", Some("1")) if words.len() == 2 => {
                    self.begun = true;
                    Ok(None)
                }
                ("norns-trace", Some(version)) => Err(format!(
                    "version {version} of the text form; this norns reads version 1"
                )),
                _ => Err(format!(
                    "the first line of a trace as text is {FIRST_LINE:?}"
                )),
            };
        }
        let mut words = Words {
            words: &words,
            at: 1,
        };
        let item = if first.quoted {
            self.event(first, &mut words)?
        } else {
            match first.text.as_str() {
                "info" => Item::Info(Info {
                    key: words.text("a key")?,
                    values: words.rest(),
                }),
                "thread" => self.thread(&mut words)?,
                "object" => {
                    let kind = words.text("a kind of object")?;
                    let found = OBJECT_KINDS.iter().find(|(name, _)| *name == kind);
                    Item::Object(Object {
                        kind: found
                            .ok_or_else(|| format!("{kind:?} is no kind of object"))?
                            .1,
                        address: words.number("an address")?,
                        name: words.optional().unwrap_or_default(),
                    })
                }
                "place" => {
                    let pc = words.number("a program counter")?;
                    let mut frames = Vec::new();
                    while !words.is_empty() {
                        frames.push(SourcePlace {
                            function: words.text("a function")?,
                            file: words.text("a file")?,
                            line: words.short("a line")?,
                            column: words.short("a column")?,
                        });
                    }
                    Item::Place(Place { pc, frames })
                }
                "symbol" => Item::Symbol(Symbol {
                    address: words.number("an address")?,
                    size: words.number("a size")?,
                    name: words.text("a name")?,
                }),
                "custom" => Item::Custom(Custom {
                    name: words.text("a name")?,
                    fields: words.rest(),
                }),
                _ => self.event(first, &mut words)?,
            }
        };
        if !words.is_empty() {
            return Err(format!("{:?} is one word too many", words.text("")?));
        }
        self.defined
            .accept(&item)
            .map_err(|invalid| invalid.to_string())?;
        Ok(Some(item))
    }

    /// Whether the first line, which has the version, has been parsed.
    pub fn begun(&self) -> bool {
        self.begun
    }

    fn thread(&mut self, words: &mut Words) -> Result<Item, String> {
        let name = words.text("a name")?;
        let parent = match words.next() {
            Some(word) => Some(self.find_thread(word)?),
            None => None,
        };
        self.threads
            .entry(name.clone())
            .or_insert(ThreadId(self.defined.threads));
        Ok(Item::Thread(Thread { name, parent }))
    }

    fn find_thread(&self, word: &Word) -> Result<ThreadId, String> {
        if !word.quoted
            && let Some(number) = word.text.strip_prefix('#')
        {
            return number
                .parse()
                .map(ThreadId)
                .map_err(|_| format!("{:?} is no thread", word.text));
        }
        self.threads
            .get(&word.text)
            .copied()
            .ok_or_else(|| format!("thread {:?} is not defined", word.text))
    }

    fn event(&self, first: &Word, words: &mut Words) -> Result<Item, String> {
        let thread = self.find_thread(first)?;
        let name = words.text("an operation")?;
        let number = OPERATIONS.iter().position(|kind| kind.word == name);
        let number = number.ok_or_else(|| format!("{name:?} is no operation"))?;
        let operands = match OPERATIONS[number].shape {
            Shape::None => Operands::None,
            Shape::Thread => {
                let word = words.next().ok_or("a thread is missing")?;
                Operands::Thread(self.find_thread(word)?)
            }
            Shape::Object => Operands::Object(ObjectId(words.marked('o', "an object")?)),
            Shape::Counted => Operands::Counted(
                ObjectId(words.marked('o', "an object")?),
                words.short("a number")?,
            ),
            Shape::Memory => Operands::Memory(Access {
                address: words.number("an address")?,
                size: words.short("a size")?,
            }),
            Shape::Atomic => {
                let address = words.number("an address")?;
                let size = words.short("a size")?;
                Operands::Atomic {
                    address,
                    size: u8::try_from(size)
                        .map_err(|_| format!("{size} is no size of an atomic operation"))?,
                    order: words.order()?,
                }
            }
            Shape::Order => Operands::Order(words.order()?),
            Shape::Custom => Operands::Custom(words.marked('c', "a custom event")?),
        };
        let place = PlaceId(words.marked('@', "a place")?);
        let value = if words.is_empty() {
            None
        } else {
            Some(AccessValue {
                read: words.bytes("r=")?,
                written: words.bytes("w=")?,
            })
        };
        let op = Op::with_operands(number as u8, operands)
            .expect("the operands were read by the operation's shape");
        Ok(Item::Event(Event { thread, place, op }, value))
    }
}

struct Words<'a> {
    words: &'a [Word],
    at: usize,
}

impl<'a> Words<'a> {
    fn is_empty(&self) -> bool {
        self.at >= self.words.len()
    }

    fn next(&mut self) -> Option<&'a Word> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    fn optional(&mut self) -> Option<String> {
        self.next().map(|word| word.text.clone())
    }

    fn text(&mut self, what: &str) -> Result<String, String> {
        self.optional().ok_or_else(|| format!("{what} is missing"))
    }

    fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.optional()).collect()
    }

    fn number(&mut self, what: &str) -> Result<u64, String> {
        let word = self.text(what)?;
        let parsed = match word.strip_prefix("0x") {
            Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16),
            _ => word.parse(),
        };
        parsed.map_err(|_| format!("{word:?} is not {what}"))
    }

    fn short(&mut self, what: &str) -> Result<u32, String> {
        let number = self.number(what)?;
        u32::try_from(number).map_err(|_| format!("{number} is too large for {what}"))
    }

    fn marked(&mut self, mark: char, what: &str) -> Result<u32, String> {
        let word = self.text(what)?;
        let number = word
            .strip_prefix(mark)
            .and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| format!("{word:?} is not {what} ({mark} and a number)"))
    }

    fn order(&mut self) -> Result<crate::event::MemoryOrder, String> {
        let word = self.text("a memory order")?;
        let found = ORDERS.iter().find(|(name, _)| *name == word);
        Ok(found
            .ok_or_else(|| format!("{word:?} is no memory order"))?
            .1)
    }

    fn bytes(&mut self, mark: &str) -> Result<Vec<u8>, String> {
        let word = self.text("a value")?;
        let bytes = word.strip_prefix(mark).and_then(|digits| {
            if digits.len() % 2 != 0 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok())
                .collect()
        });
        bytes.ok_or_else(|| format!("{word:?} is not {mark} and pairs of hexadecimal digits"))
    }
}

/// The words of a line, without its comment.
fn split(line: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, after) = unquote(quoted)?;
            if !after.is_empty() && !after.starts_with(char::is_whitespace) {
                return Err("a blank is missing after a quote".into());
            }
            words.push(Word { text, quoted: true });
            rest = after.trim_start();
        } else {
            let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            if word == "#" {
                break;
            }
            words.push(Word {
                text: word.into(),
                quoted: false,
            });
            rest = after.trim_start();
        }
    }
    Ok(words)
}

/// The text up to the closing quote, and what follows it.
fn unquote(quoted: &str) -> Result<(String, &str), String> {
    let mut text = String::new();
    let mut rest = quoted;
    loop {
        let Some(at) = rest.find(['"', '\\']) else {
            return Err("a quote is not closed".into());
        };
        text.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if rest.as_bytes()[at] == b'"' {
            return Ok((text, after));
        }
        rest = if let Some(after) = after.strip_prefix("u{") {
            let (digits, after) = after.split_once('}').ok_or("a \\u{ is not closed")?;
            let c = u32::from_str_radix(digits, 16)
                .ok()
                .and_then(char::from_u32);
            text.push(c.ok_or_else(|| format!("{digits:?} is no character"))?);
            after
        } else if after.starts_with(['"', '\\']) {
            text.push_str(&after[..1]);
            &after[1..]
        } else {
            return Err("an unknown escape".into());
        };
    }
}
