//! What the runtime told about one run: the lines of its report, as values.
//!
//! The format is the runtime's own (`control/output.rs` of norns-rt) and has a version in its
//! first line. A line that is not understood, as the last one of a killed program may be, is
//! left out.

/// Everything told in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The runtime was there at all.
    pub began: bool,
    /// All steps of the schedule were enforced.
    pub followed: bool,
    pub diverged: Option<Diverged>,
    /// Both accesses of the predicted race were next at one moment.
    pub held: Option<(Side, Side)>,
    /// A thread was held and let go: who, the thread that it waited for, why.
    pub unheld: Vec<(String, String, String)>,
    pub spin: Option<Spin>,
    pub deadlock: Option<Deadlock>,
    /// What the detector found, in the order of the run.
    pub races: Vec<Race>,
    /// Processes that were forked and ran threads: their ids. What they told is here too.
    pub children: Vec<u32>,
    /// Where the program's files are mapped: text of /proc/PID/maps.
    pub maps: String,
    /// The program made a child process, which nobody watched.
    pub forked: bool,
}

/// Where the program left the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diverged {
    pub thread: String,
    /// What it came to: a code of `wire::Code`, 0 when it came to nothing (it ended).
    pub code: u8,
    /// Of an atomic operation: its kind, as in the detail of `wire::Code::Atomic`.
    pub atomic: u8,
    /// The object or the memory; a number of its own for `Fork` and `Join`.
    pub address: u64,
    pub pc: u64,
    /// How many steps had been enforced.
    pub step: usize,
    /// The thread and the event of the trace that the schedule expected.
    pub expected_thread: String,
    pub expected_event: u32,
    pub why: Why,
}

/// Why a thread cannot do what the schedule expects of it next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It came to something else.
    AnotherOperation,
    /// It came to it, but a lock is taken, or the like.
    CannotSucceed,
    HasEnded,
    /// It waits for something that the schedule let it come to.
    IsBlocked,
    /// It sleeps in the kernel, in a wait that the runtime does not know, and so does or waits
    /// everybody else.
    Sleeps,
    /// Nobody created it, and nobody goes on who could.
    NotCreated,
    /// The whole program is about to end.
    ProgramEnds,
    /// Its compare-exchange succeeded where it is to fail, or failed where it is to succeed.
    OtherExchange,
}

impl Why {
    /// The runtime's own words.
    fn parse(words: &str) -> Option<Self> {
        Some(match words {
            "another operation was expected" => Why::AnotherOperation,
            "it cannot succeed now" => Why::CannotSucceed,
            "the thread has ended already" => Why::HasEnded,
            "the thread is blocked" => Why::IsBlocked,
            "the thread sleeps" => Why::Sleeps,
            "the thread is not created" => Why::NotCreated,
            "the program ends" => Why::ProgramEnds,
            "the exchange went the other way" => Why::OtherExchange,
            _ => return None,
        })
    }
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Read,
    Write,
    Free,
    AtomicRead,
    AtomicWrite,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
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
    /// The thread that was held meanwhile.
    pub waits_for: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// A cycle of lock holders; otherwise a state in which no thread runs.
    pub is_cycle: bool,
    pub waits: Vec<Waits>,
}

/// A thread that waits for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    pub thread: String,
    pub code: u8,
    pub object: u64,
    pub pc: u64,
    pub stack: Vec<u64>,
    /// Who has the lock, and where it was taken.
    pub held_by: Vec<(String, u64)>,
}

impl Report {
    pub fn parse(text: &str) -> Self {
        let mut report = Report::default();
        for line in text.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let understood = report.line(&fields);
            debug_assert!(understood.is_some() || !text.ends_with('\n'), "{line}");
        }
        report
    }

    fn line(&mut self, fields: &[&str]) -> Option<()> {
        match fields {
            ["norns-replay", version] => self.began = *version == "1",
            ["followed", ..] => self.followed = true,
            ["child", id] => self.children.push(id.parse().ok()?),
            ["forked"] => self.forked = true,
            [
                "diverged",
                thread,
                code,
                atomic,
                address,
                pc,
                "step",
                step,
                expected,
                "event",
                event,
                why @ ..,
            ] => {
                self.diverged = Some(Diverged {
                    thread: thread.to_string(),
                    code: code.parse().ok()?,
                    atomic: atomic.parse().ok()?,
                    address: hexadecimal(address)?,
                    pc: hexadecimal(pc)?,
                    step: step.parse().ok()?,
                    expected_thread: expected.to_string(),
                    expected_event: event.parse().ok()?,
                    why: Why::parse(&why.join(" "))?,
                });
            }
            ["held", one @ .., t2, a2, address2, size2, pc2] => {
                let [t1, a1, address1, size1, pc1] = one else {
                    return None;
                };
                let first = side(t1, a1, address1, size1, pc1)?;
                let second = side(t2, a2, address2, size2, pc2)?;
                self.held = Some((first, second));
            }
            ["unheld", thread, other, why] => {
                self.unheld
                    .push((thread.to_string(), other.to_string(), why.to_string()));
            }
            ["spin", thread, address, pc, _, "waits-for", other] => {
                self.spin = Some(Spin {
                    thread: thread.to_string(),
                    address: hexadecimal(address)?,
                    pc: hexadecimal(pc)?,
                    waits_for: other.to_string(),
                });
            }
            ["deadlock", "end"] => {}
            ["deadlock", kind, _] => {
                self.deadlock = Some(Deadlock {
                    is_cycle: *kind == "cycle",
                    waits: Vec::new(),
                });
            }
            ["waits", thread, code, object, pc, "stack", stack @ ..] => {
                let waits = Waits {
                    thread: thread.to_string(),
                    code: code.parse().ok()?,
                    object: hexadecimal(object)?,
                    pc: hexadecimal(pc)?,
                    stack: stack.iter().filter_map(|pc| hexadecimal(pc)).collect(),
                    held_by: Vec::new(),
                };
                self.deadlock.as_mut()?.waits.push(waits);
            }
            ["held-by", thread, _, pc] => {
                let holder = (thread.to_string(), hexadecimal(pc)?);
                let waits = self.deadlock.as_mut()?.waits.last_mut()?;
                waits.held_by.push(holder);
            }
            [
                "race",
                address,
                t1,
                a1,
                size1,
                pc1,
                t2,
                a2,
                size2,
                pc2,
                "stack",
                stack @ ..,
            ] => self.races.push(Race {
                earlier: side(t1, a1, address, size1, pc1)?,
                later: side(t2, a2, address, size2, pc2)?,
                stack: stack.iter().filter_map(|pc| hexadecimal(pc)).collect(),
            }),
            ["skipped", ..] => {}
            ["map", line @ ..] => {
                self.maps.push_str(&line.join(" "));
                self.maps.push('\n');
            }
            _ => return None,
        }
        Some(())
    }
}

fn side(thread: &str, access: &str, address: &str, size: &str, pc: &str) -> Option<Side> {
    Some(Side {
        thread: thread.to_string(),
        access: match access {
            "r" => Access::Read,
            "w" => Access::Write,
            "f" => Access::Free,
            "ar" => Access::AtomicRead,
            "aw" => Access::AtomicWrite,
            _ => return None,
        },
        address: hexadecimal(address)?,
        size: size.parse().ok()?,
        pc: hexadecimal(pc)?,
    })
}

fn hexadecimal(field: &str) -> Option<u64> {
    u64::from_str_radix(field, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadlock_is_read_with_its_holders() {
        let report = Report::parse(
            "norns-replay 1
followed 4
deadlock cycle 2
waits T0.1 17 80a0 523d stack 8a5c
held-by T0 80a0 52eb
waits T0 17 80e0 52fa stack
held-by T0.1 80e0 522e
deadlock end
",
        );
        let deadlock = report.deadlock.expect("a deadlock");
        assert!(deadlock.is_cycle && report.followed);
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
    }

    #[test]
    fn held_accesses_and_races_are_read() {
        let report = Report::parse(
            "norns-replay 1
held T0 w 8108 4 533f T0.1 r 8108 4 5201
race 8108 T0.1 w 4 5219 T0 w 4 533f stack a24a",
        );
        let (one, two) = report.held.expect("both held");
        assert_eq!((one.pc, two.pc), (0x533f, 0x5201));
        assert_eq!(report.races.len(), 1);
    }

    #[test]
    fn a_divergence_is_read() {
        let report = Report::parse(
            "norns-replay 1
diverged T0 17 0 80a0 52eb step 3 T0 event 3 another operation was expected
",
        );
        let diverged = report.diverged.expect("a divergence");
        assert_eq!(diverged.expected_event, 3);
        assert_eq!(diverged.why, Why::AnotherOperation);
    }
}
