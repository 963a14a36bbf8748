//! What the runtime reported of one run, put together from the messages of `norns_wire::report`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use norns_trace::EventIndex;
use norns_wire::Code;
use norns_wire::report::{self, Message, NotUnderstood, Unheld};
pub use norns_wire::report::{Access, Operation, Shape, Waiting, Why};

use crate::process::Error;

/// Everything reported in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All steps of the schedule were enforced.
    pub followed: bool,
    pub diverged: Option<Diverged>,
    /// Both accesses of the predicted race were next at one moment.
    pub held: Vec<(Side, Side)>,
    /// A thread was held before its access, and the time for that was over before the other one came.
    pub held_in_vain: bool,
    pub spin: Option<Spin>,
    pub deadlock: Option<Deadlock>,
    /// What the detector found, in the order of the run.
    pub races: Vec<Race>,
    /// The custom events in the order of the run: the thread, then the name and the fields.
    pub events: Vec<(String, Vec<String>)>,
    /// The ids of forked processes that created threads. Their messages are part of this report.
    pub children: Vec<u32>,
    /// Where the program's files are mapped: text of /proc/PID/maps.
    pub maps: String,
    /// The program made a child process, which ran unobserved.
    pub forked: bool,
    /// A thread made a system call that may order threads in a way that the detector does not know.
    pub unknown_call: bool,
    pub not_understood: NotRead,
}

/// The lines of a report that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotRead {
    /// Lines that are no message, and messages at a place where they mean nothing.
    pub lines: Vec<String>,
    /// How many last lines were cut off: the program was killed while it wrote.
    pub cut: usize,
}

impl NotRead {
    /// A warning for the user about lines that are not understood; `None` if there are none. A cut
    /// last line is no reason for a warning: a program may be killed at any time.
    pub fn warning(&self) -> Option<String> {
        let first = self.lines.first()?.escape_debug();
        let lines = match self.lines.len() {
            1 => "one line".to_string(),
            several => format!("{several} lines"),
        };
        Some(format!(
            "{lines} of the runtime's report not understood; the first is `{first}`"
        ))
    }
}

/// Where the program left the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diverged {
    pub thread: String,
    /// The operation that the thread came to; `None` when it came to none (it ended).
    pub operation: Option<Operation>,
    /// The event of the trace that the schedule expected; `None` when it expected nothing more.
    pub expected_event: Option<EventIndex>,
    pub why: Why,
}

/// One access of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    pub thread: String,
    pub access: Access,
    pub address: u64,
    pub size: u32,
    pub pc: u64,
}

impl From<report::Side<'_>> for Side {
    fn from(side: report::Side) -> Self {
        Side {
            thread: side.thread.to_string(),
            access: side.access,
            address: side.address,
            size: side.size,
            pc: side.pc,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    pub waits: Waiting,
    pub earlier: Side,
    pub later: Side,
    /// The functions of the later side, as return addresses, innermost first.
    pub stack: Vec<u64>,
}

/// A loop that waits for a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spin {
    pub thread: String,
    pub address: u64,
    pub pc: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    pub shape: Shape,
    pub waits: Vec<Waits>,
}

/// A thread that waits for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    pub thread: String,
    pub code: Code,
    pub object: u64,
    pub pc: u64,
    pub stack: Vec<u64>,
    /// The threads that hold the lock, each with the place at which it took it.
    pub held_by: Vec<(String, u64)>,
}

impl Report {
    /// Reads the file of a report. Without a file the report is empty: the runtime did not begin.
    pub fn read(path: &Path) -> Result<Self, Error> {
        match fs::read(path) {
            Ok(text) => Report::parse(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Report::default()),
            Err(error) => Err(Error::file("read", path)(error)),
        }
    }

    /// Fails if the report is of another version. A line that is not understood is kept as text; the
    /// cut last line of a killed program is counted.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let mut report = Report::default();
        for message in report::parse(text) {
            match message {
                Ok(message) => {
                    if report.add(message).is_none() {
                        let mut line = String::new();
                        let _ = message.encode(&mut line);
                        report.not_understood.lines.push(line);
                    }
                }
                Err(NotUnderstood::Header(line)) => {
                    let header = String::from_utf8_lossy(line).into_owned();
                    return Err(Error::Report { header });
                }
                Err(NotUnderstood::Line { line, .. }) => {
                    let line = String::from_utf8_lossy(line).into_owned();
                    report.not_understood.lines.push(line);
                }
                Err(NotUnderstood::Cut { .. }) => report.not_understood.cut += 1,
            }
        }
        Ok(report)
    }

    /// All addresses of code and memory, to be changed.
    pub(crate) fn for_each_address(&mut self, mut act: impl FnMut(&mut u64)) {
        let races = { self.races.iter_mut() }.map(|race| (&mut race.earlier, &mut race.later));
        let held = self.held.iter_mut().map(|(one, other)| (one, other));
        for (one, other) in races.chain(held) {
            for side in [one, other] {
                act(&mut side.pc);
                act(&mut side.address);
            }
        }
        self.races
            .iter_mut()
            .flat_map(|race| &mut race.stack)
            .for_each(&mut act);
        if let Some(spin) = &mut self.spin {
            act(&mut spin.address);
            act(&mut spin.pc);
        }
        for waits in { self.deadlock.iter_mut() }.flat_map(|deadlock| &mut deadlock.waits) {
            act(&mut waits.object);
            act(&mut waits.pc);
            waits.stack.iter_mut().for_each(&mut act);
            waits.held_by.iter_mut().for_each(|(_, pc)| act(pc));
        }
        let diverged = self.diverged.as_mut();
        if let Some(operation) = diverged.and_then(|diverged| diverged.operation.as_mut()) {
            act(&mut operation.address);
            act(&mut operation.pc);
        }
    }

    /// `None` if the message means nothing here: a wait outside of a deadlock.
    fn add(&mut self, message: Message) -> Option<()> {
        match message {
            Message::Map(line) => {
                self.maps.push_str(&String::from_utf8_lossy(line));
                self.maps.push('\n');
            }
            Message::Forked => self.forked = true,
            Message::UnknownCall { .. } => self.unknown_call = true,
            Message::Child { process } => self.children.push(process),
            Message::Followed { .. } => self.followed = true,
            Message::Diverged(diverged) => {
                self.diverged = Some(Diverged {
                    thread: diverged.thread.to_string(),
                    operation: diverged.operation,
                    expected_event: diverged.expected.map(|step| EventIndex(step.event)),
                    why: diverged.why,
                });
            }
            Message::Held(one, other) => self.held.push((one.into(), other.into())),
            Message::Spin {
                thread,
                address,
                pc,
                reads: _,
            } => {
                self.spin = Some(Spin {
                    thread: thread.to_string(),
                    address,
                    pc,
                });
            }
            Message::Event { thread, words } => {
                let words = words.iter().map(str::to_string).collect();
                self.events.push((thread.to_string(), words));
            }
            Message::Deadlock { shape, threads: _ } => {
                self.deadlock = Some(Deadlock {
                    shape,
                    waits: Vec::new(),
                });
            }
            Message::Waits {
                thread,
                code,
                object,
                pc,
                stack,
            } => self.deadlock.as_mut()?.waits.push(Waits {
                thread: thread.to_string(),
                code,
                object,
                pc,
                stack: stack.iter().collect(),
                held_by: Vec::new(),
            }),
            Message::HeldBy {
                thread,
                object: _,
                pc,
            } => {
                let waits = self.deadlock.as_mut()?.waits.last_mut()?;
                waits.held_by.push((thread.to_string(), pc));
            }
            Message::Race {
                waits,
                earlier,
                later,
                stack,
            } => self.races.push(Race {
                waits,
                earlier: earlier.into(),
                later: later.into(),
                stack: stack.iter().collect(),
            }),
            Message::Unheld { why, .. } => self.held_in_vain |= why == Unheld::DidNotCome,
            // For people who read the file.
            Message::Begin | Message::Skipped { .. } | Message::DeadlockEnd => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &str) -> Report {
        let text = format!("{}\n{lines}", report::HEADER);
        Report::parse(text.as_bytes()).expect("a report of this version")
    }

    #[test]
    fn a_deadlock_is_read_with_its_holders() {
        let report = parse(
            "followed 4
deadlock cycle 2
waits T0.1 17 80a0 523d 8a5c
held-by T0 80a0 52eb
waits T0 17 80e0 52fa
held-by T0.1 80e0 522e
deadlock-end
",
        );
        assert!(report.followed);
        let deadlock = report.deadlock.expect("a deadlock");
        assert_eq!(deadlock.shape, Shape::Cycle);
        let threads: Vec<_> = deadlock
            .waits
            .iter()
            .map(|waits| (waits.thread.as_str(), waits.held_by.clone()))
            .collect();
        assert_eq!(
            threads,
            [
                ("T0.1", vec![("T0".to_string(), 0x52eb)]),
                ("T0", vec![("T0.1".to_string(), 0x522e)])
            ]
        );
        assert_eq!(report.not_understood, NotRead::default());
    }

    #[test]
    fn held_accesses_and_races_are_read() {
        let report = parse(
            "held T0 w 8108 4 533f T0.1 r 8108 4 5201
race may-wait T0.1 w 8108 4 5219 T0 w 8108 4 533f a24a
",
        );
        let (one, two) = &report.held[0];
        assert_eq!((one.pc, two.pc), (0x533f, 0x5201));
        assert_eq!(report.races.len(), 1);
    }

    #[test]
    fn a_divergence_is_read() {
        let report = parse("diverged T0 17 0 80a0 52eb 3 T0 3 another-operation\n");
        let diverged = report.diverged.expect("a divergence");
        assert_eq!(diverged.expected_event, Some(EventIndex(3)));
        assert_eq!(diverged.why, Why::AnotherOperation);
    }

    #[test]
    fn what_is_not_understood_is_kept() {
        let report = parse("followed 4\nfollowed four\nheld-by T0 80a0 52eb\nfollow");
        assert!(report.followed);
        assert_eq!(
            report.not_understood,
            NotRead {
                lines: vec!["followed four".into(), "held-by T0 80a0 52eb".into()],
                cut: 1
            }
        );
        assert_eq!(
            report.not_understood.warning().as_deref(),
            Some("2 lines of the runtime's report not understood; the first is `followed four`")
        );
    }

    #[test]
    fn a_report_of_another_version_is_refused() {
        assert!(Report::parse(b"norns-replay 1\nfollowed 4\n").is_err());
        assert_eq!(Report::parse(b"").expect("no report"), Report::default());
    }
}
