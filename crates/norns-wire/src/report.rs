//! What the runtime reports of one run in the modes replay and detect: a file of lines.
//!
//! Every line is one message and is written by one system call, so that lines of several threads
//! never mix. Fields are separated by one space; numbers are decimal, addresses and program counters
//! hexadecimal without prefix; a thread is its name (`T0.1`) or `?`.
//!
//! ```text
//! norns-report 4                            first in the file, and again after `exec`
//! map TEXT                                  a line of /proc/self/maps
//! forked                                    the program made a child process; nobody watches it
//! unknown-call THREAD NUMBER                a system call that may order threads unseen
//! child PROCESS                             a child process has threads; its own lines follow
//! followed STEPS                            all steps of the schedule were enforced
//! skipped THREAD EVENT                      the thread did not make an access of the schedule
//! diverged THREAD CODE ATOMIC ADDRESS PC STEP EXPECTED EVENT WHY
//!                                           CODE is 0 without an operation; STEP and EVENT are 0
//!                                           and EXPECTED is - when no step is left
//! held THREAD ACCESS ADDRESS SIZE PC THREAD ACCESS ADDRESS SIZE PC
//! unheld THREAD OTHER WHY
//! spin THREAD ADDRESS PC READS
//! event THREAD NAME FIELD…                  a custom event happened
//! deadlock cycle|stuck THREADS              so many `waits` follow, then `deadlock-end`
//! waits THREAD CODE OBJECT PC STACK…
//! held-by THREAD OBJECT PC                  who holds what the thread of the last `waits` wants
//! deadlock-end
//! race WAITS THREAD ACCESS ADDRESS SIZE PC THREAD ACCESS ADDRESS SIZE PC STACK…
//! ```
//!
//! The reader hands out what it does not understand as an error, line by line. A file of another
//! version is not read at all. A last line without line end is what a killed program leaves; it is
//! never parsed, since the beginning of a number is a number too.

use core::fmt;

use crate::Code;
use crate::fields::{Fields, hexadecimal, words};

/// The first line of a report, with the version of the format.
pub const HEADER: &str = "norns-report 4";

/// One line of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The runtime is there: `HEADER`.
    Begin,
    /// A line of `/proc/self/maps`: tells where a program counter or a variable belongs. Bytes that
    /// are not UTF-8 (in the path of a file) are replaced when the message is written.
    Map(&'a [u8]),
    /// A replayed program made a child process, which runs unobserved.
    Forked,
    /// A thread has made a system call of which it is not known how it orders threads, so that the
    /// detector may not know all that orders two accesses.
    UnknownCall {
        thread: &'a str,
        number: u32,
    },
    /// A forked child process under the detector has created a thread.
    Child {
        process: u32,
    },
    /// All steps of the schedule were enforced.
    Followed {
        steps: u64,
    },
    /// The schedule expected an access that its thread did not make before its next operation.
    Skipped {
        thread: &'a str,
        event: u32,
    },
    Diverged(Diverged<'a>),
    /// Both threads of a predicted race stood before their accesses at one moment.
    Held(Side<'a>, Side<'a>),
    /// A thread was held before its access and let go, since `other` did not come to its own.
    Unheld {
        thread: &'a str,
        other: &'a str,
        why: Unheld,
    },
    /// A thread left a loop in which it had waited for the variable at `address`: it had read the
    /// variable `reads` times and to no effect before another thread wrote it.
    Spin {
        thread: &'a str,
        address: u64,
        pc: u64,
        reads: u64,
    },
    /// A custom event happened. The lines of all threads are in the order of the events.
    Event {
        thread: &'a str,
        words: Words<'a>,
    },
    /// As many `Waits` as there are threads follow, then `DeadlockEnd`.
    Deadlock {
        shape: Shape,
        threads: u32,
    },
    /// One thread of a deadlock, blocked in an operation. `HeldBy` messages may follow.
    Waits {
        thread: &'a str,
        code: Code,
        object: u64,
        pc: u64,
        stack: Stack<'a>,
    },
    /// A thread that holds what the thread of the last `Waits` waits for, and where it took it (0
    /// for the thread that a join waits for).
    HeldBy {
        thread: &'a str,
        object: u64,
        pc: u64,
    },
    DeadlockEnd,
    /// A race that the detector saw. The stack is that of the later access.
    Race {
        waits: Waiting,
        earlier: Side<'a>,
        later: Side<'a>,
        stack: Stack<'a>,
    },
}

/// The program left the schedule; the runtime ends it here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diverged<'a> {
    pub thread: &'a str,
    /// What the thread came to; `None` when it did not come to any operation.
    pub operation: Option<Operation>,
    /// The step of the schedule that could not be done; `None` when no step was left.
    pub expected: Option<Expected<'a>>,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub code: Code,
    /// The kind of an atomic operation as in `atomic_detail`, otherwise 0.
    pub atomic: u8,
    /// The object or the memory; for `Fork` and `Join` the runtime's number of the other thread.
    pub address: u64,
    pub pc: u64,
}

/// A step of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected<'a> {
    /// How many steps were enforced before it.
    pub step: u64,
    pub thread: &'a str,
    /// Its event in the trace.
    pub event: u32,
}

/// One access of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side<'a> {
    pub thread: &'a str,
    pub access: Access,
    pub address: u64,
    pub size: u32,
    pub pc: u64,
}

words! {
    /// How memory was accessed.
    pub enum Access {
        Read = "r",
        Write = "w",
        Free = "f",
        AtomicRead = "ar",
        AtomicWrite = "aw",
    }
}

words! {
    /// Why a thread cannot do what the schedule expects of it next.
    pub enum Why {
        /// It came to another operation.
        AnotherOperation = "another-operation",
        /// It came to the operation, which would have to block: a lock is taken, for example.
        CannotSucceed = "cannot-succeed",
        HasEnded = "has-ended",
        /// It is blocked in an operation that the schedule let it begin.
        IsBlocked = "is-blocked",
        /// It sleeps in the kernel, in a wait that the runtime does not know, and no other thread
        /// can go on.
        Sleeps = "sleeps",
        /// It polls with pauses, or waits for something outside of the program.
        DoesNotCome = "does-not-come",
        /// It was never created, and no other thread can go on to create it.
        NotCreated = "not-created",
        /// The whole program is about to end.
        ProgramEnds = "program-ends",
        /// Its compare-exchange succeeded where it should have failed, or the other way round.
        OtherExchange = "other-exchange",
    }
}

words! {
    /// Why a thread is no longer held before its access: what the other thread does instead of
    /// coming to the other access of the race.
    pub enum Unheld {
        /// It was let go itself.
        WentOn = "went-on",
        HasEnded = "has-ended",
        IsBlocked = "is-blocked",
        /// It sleeps in the kernel, in a wait that the runtime does not know.
        IsAsleep = "is-asleep",
        /// It runs in a loop that may wait for the thread that is held.
        GoesRound = "goes-round",
        /// It took another way and has passed the place.
        WentPast = "went-past",
        /// It did not come in the time that a thread is held for.
        DidNotCome = "did-not-come",
        /// It came to its access, but to other memory.
        Elsewhere = "elsewhere",
    }
}

words! {
    /// Whether a loop that waits for a plain variable may have ordered the accesses of a race.
    pub enum Waiting {
        MayWait = "may-wait",
        /// What the earlier thread had done by then was not to be seen by others, except through the
        /// bytes of the race itself.
        DoesNotWait = "does-not-wait",
    }
}

words! {
    /// What kind of deadlock the runtime saw.
    pub enum Shape {
        /// A cycle of threads, each of which waits for a lock that the next one holds.
        Cycle = "cycle",
        /// No thread can run, without such a cycle.
        Stuck = "stuck",
    }
}

/// The name of a custom event and its fields.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    text: &'a str,
    separator: char,
}

impl<'a> Words<'a> {
    /// From words that each have a zero byte after them.
    pub fn ended_by_zeros(text: &'a str) -> Self {
        Words {
            text: text.strip_suffix('\0').unwrap_or(text),
            separator: '\0',
        }
    }

    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        self.text.split(self.separator)
    }
}

impl PartialEq for Words<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Words<'_> {}

/// Return addresses, the innermost function first. The writer has numbers; the reader keeps the
/// text, which it has checked.
#[derive(Clone, Copy)]
pub struct Stack<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    Numbers(&'a [u64]),
    Text(&'a str),
}

impl<'a> Stack<'a> {
    pub fn new(addresses: &'a [u64]) -> Self {
        Stack(Source::Numbers(addresses))
    }

    pub fn iter(self) -> impl Iterator<Item = u64> + 'a {
        let (numbers, text) = match self.0 {
            Source::Numbers(numbers) => (numbers, ""),
            Source::Text(text) => (&[][..], text),
        };
        let parsed = text.split(' ').filter_map(hexadecimal);
        numbers.iter().copied().chain(parsed)
    }

    /// Takes the fields that are left of a line.
    fn parse(fields: &mut Fields<'a>) -> Option<Self> {
        let Some(text) = fields.rest() else {
            return Some(Stack::new(&[]));
        };
        let good = text.split(' ').all(|field| hexadecimal(field).is_some());
        good.then_some(Stack(Source::Text(text)))
    }
}

impl PartialEq for Stack<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Stack<'_> {}

impl fmt::Debug for Stack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> Message<'a> {
    /// Writes the message as one line, without its line end.
    pub fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        match *self {
            Message::Begin => out.write_str(HEADER),
            Message::Map(line) => {
                out.write_str("map ")?;
                for part in line.utf8_chunks() {
                    out.write_str(part.valid())?;
                    if !part.invalid().is_empty() {
                        out.write_char(char::REPLACEMENT_CHARACTER)?;
                    }
                }
                Ok(())
            }
            Message::Forked => out.write_str("forked"),
            Message::UnknownCall { thread, number } => {
                write!(out, "unknown-call {thread} {number}")
            }
            Message::Child { process } => write!(out, "child {process}"),
            Message::Followed { steps } => write!(out, "followed {steps}"),
            Message::Skipped { thread, event } => write!(out, "skipped {thread} {event}"),
            Message::Diverged(diverged) => diverged.encode(out),
            Message::Held(one, other) => {
                out.write_str("held")?;
                one.encode(out)?;
                other.encode(out)
            }
            Message::Unheld { thread, other, why } => {
                write!(out, "unheld {thread} {other} {}", why.word())
            }
            Message::Spin {
                thread,
                address,
                pc,
                reads,
            } => write!(out, "spin {thread} {address:x} {pc:x} {reads}"),
            Message::Event { thread, words } => {
                write!(out, "event {thread}")?;
                words.iter().try_for_each(|word| {
                    out.write_char(' ')?;
                    word.chars().try_for_each(|c| {
                        let is_plain = !c.is_control() && c != ' ';
                        out.write_char(if is_plain { c } else { '?' })
                    })
                })
            }
            Message::Deadlock { shape, threads } => {
                write!(out, "deadlock {} {threads}", shape.word())
            }
            Message::Waits {
                thread,
                code,
                object,
                pc,
                stack,
            } => {
                write!(out, "waits {thread} {} {object:x} {pc:x}", code as u8)?;
                stack.encode(out)
            }
            Message::HeldBy { thread, object, pc } => {
                write!(out, "held-by {thread} {object:x} {pc:x}")
            }
            Message::DeadlockEnd => out.write_str("deadlock-end"),
            Message::Race {
                waits,
                earlier,
                later,
                stack,
            } => {
                write!(out, "race {}", waits.word())?;
                earlier.encode(out)?;
                later.encode(out)?;
                stack.encode(out)
            }
        }
    }

    /// Reads one line, given without its line end.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        if let Some(map) = line.strip_prefix(b"map ") {
            return Some(Message::Map(map));
        }
        let line = core::str::from_utf8(line).ok()?;
        if line == HEADER {
            return Some(Message::Begin);
        }
        let mut fields = Fields::of(line);
        let message = match fields.word()? {
            "forked" => Message::Forked,
            "unknown-call" => Message::UnknownCall {
                thread: fields.word()?,
                number: fields.number()?,
            },
            "child" => Message::Child {
                process: fields.number()?,
            },
            "followed" => Message::Followed {
                steps: fields.number()?,
            },
            "skipped" => Message::Skipped {
                thread: fields.word()?,
                event: fields.number()?,
            },
            "diverged" => Message::Diverged(Diverged::parse(&mut fields)?),
            "held" => Message::Held(Side::parse(&mut fields)?, Side::parse(&mut fields)?),
            "unheld" => Message::Unheld {
                thread: fields.word()?,
                other: fields.word()?,
                why: Unheld::parse(fields.word()?)?,
            },
            "spin" => Message::Spin {
                thread: fields.word()?,
                address: fields.hexadecimal()?,
                pc: fields.hexadecimal()?,
                reads: fields.number()?,
            },
            "event" => Message::Event {
                thread: fields.word()?,
                words: Words {
                    text: fields.rest().filter(|text| !text.is_empty())?,
                    separator: ' ',
                },
            },
            "deadlock" => Message::Deadlock {
                shape: Shape::parse(fields.word()?)?,
                threads: fields.number()?,
            },
            "waits" => Message::Waits {
                thread: fields.word()?,
                code: Code::from_byte(fields.number()?)?,
                object: fields.hexadecimal()?,
                pc: fields.hexadecimal()?,
                stack: Stack::parse(&mut fields)?,
            },
            "held-by" => Message::HeldBy {
                thread: fields.word()?,
                object: fields.hexadecimal()?,
                pc: fields.hexadecimal()?,
            },
            "deadlock-end" => Message::DeadlockEnd,
            "race" => Message::Race {
                waits: Waiting::parse(fields.word()?)?,
                earlier: Side::parse(&mut fields)?,
                later: Side::parse(&mut fields)?,
                stack: Stack::parse(&mut fields)?,
            },
            _ => return None,
        };
        fields.end(message)
    }
}

impl<'a> Diverged<'a> {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "diverged {} ", self.thread)?;
        match self.operation {
            Some(Operation {
                code,
                atomic,
                address,
                pc,
            }) => write!(out, "{} {atomic} {address:x} {pc:x} ", code as u8)?,
            None => out.write_str("0 0 0 0 ")?,
        }
        match self.expected {
            Some(Expected {
                step,
                thread,
                event,
            }) => write!(out, "{step} {thread} {event} ")?,
            None => out.write_str("0 - 0 ")?,
        }
        out.write_str(self.why.word())
    }

    fn parse(fields: &mut Fields<'a>) -> Option<Self> {
        let thread = fields.word()?;
        let code: u8 = fields.number()?;
        let atomic = fields.number()?;
        let address = fields.hexadecimal()?;
        let pc = fields.hexadecimal()?;
        let operation = match code {
            0 => None,
            _ => Some(Operation {
                code: Code::from_byte(code)?,
                atomic,
                address,
                pc,
            }),
        };
        let step = fields.number()?;
        let expected_thread = fields.word()?;
        let event = fields.number()?;
        Some(Diverged {
            thread,
            operation,
            expected: (expected_thread != "-").then_some(Expected {
                step,
                thread: expected_thread,
                event,
            }),
            why: Why::parse(fields.word()?)?,
        })
    }
}

impl<'a> Side<'a> {
    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let Side {
            thread,
            access,
            address,
            size,
            pc,
        } = *self;
        let access = access.word();
        write!(out, " {thread} {access} {address:x} {size} {pc:x}")
    }

    fn parse(fields: &mut Fields<'a>) -> Option<Self> {
        Some(Side {
            thread: fields.word()?,
            access: Access::parse(fields.word()?)?,
            address: fields.hexadecimal()?,
            size: fields.number()?,
            pc: fields.hexadecimal()?,
        })
    }
}

impl Stack<'_> {
    fn encode(self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.iter().try_for_each(|pc| write!(out, " {pc:x}"))
    }
}

/// What a reader found in a report and did not understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotUnderstood<'a> {
    /// The first line is not `HEADER`: a report of another version, or no report. Nothing more is
    /// read.
    Header(&'a [u8]),
    /// No message has this form. Lines are numbered from 1.
    Line { number: usize, line: &'a [u8] },
    /// The last line has no line end: the program was killed while it wrote.
    Cut { number: usize, line: &'a [u8] },
}

/// Reads a report line by line. An empty report has no lines: the runtime did not begin.
pub fn parse(text: &[u8]) -> Reader<'_> {
    Reader {
        rest: text,
        number: 0,
    }
}

/// The messages of a report, in file order.
pub struct Reader<'a> {
    rest: &'a [u8],
    /// How many lines were read.
    number: usize,
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Message<'a>, NotUnderstood<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        self.number += 1;
        let number = self.number;
        let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') else {
            let line = core::mem::take(&mut self.rest);
            return Some(Err(NotUnderstood::Cut { number, line }));
        };
        let (line, rest) = (&self.rest[..end], &self.rest[end + 1..]);
        self.rest = rest;
        if number == 1 && line != HEADER.as_bytes() {
            self.rest = &[];
            return Some(Err(NotUnderstood::Header(line)));
        }
        let message = Message::parse(line);
        Some(message.ok_or(NotUnderstood::Line { number, line }))
    }
}
