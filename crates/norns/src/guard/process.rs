//! What Linux tells of a process that runs: whether it is still there, its processor time, and whether it hangs.
//!
//! A process hangs if all its threads have waited on futexes for `HANG` and none has used the processor. One whose threads
//! wait for a connection, a signal or a child may go on at any time and is never said to hang; one that another process
//! wakes through shared memory after that time was called a hang wrongly.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use norns_wire::guarding::Stack;

/// How long nothing may move.
pub const HANG: Duration = Duration::from_secs(10);
/// Ticks of the clock in a second, in which Linux counts processor time for everybody.
const TICKS: u64 = 100;
/// The number of the system call `futex`.
const FUTEX: &str = "202 ";

pub struct Process {
    id: u32,
    /// When it began: another process can have the same id later.
    began: Option<u64>,
    cpu_ms: u64,
    still_since: Instant,
}

/// The fields of `/proc/PID/stat` behind the name: the state, and numbers.
fn status(path: &str) -> Option<(String, Vec<u64>)> {
    let text = fs::read_to_string(path).ok()?;
    // A name can have parentheses itself.
    let (_, fields) = text.rsplit_once(") ")?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.to_owned();
    Some((state, fields.map(|it| it.parse().unwrap_or(0)).collect()))
}

impl Process {
    pub fn new(id: u32) -> Self {
        let status = status(&format!("/proc/{id}/stat"));
        Self {
            id,
            began: status.and_then(|(_, fields)| fields.get(18).copied()),
            cpu_ms: 0,
            still_since: Instant::now(),
        }
    }

    /// Whether it still runs; looks at its processor time on the way.
    pub fn is_there(&mut self) -> bool {
        let Some((state, fields)) = status(&format!("/proc/{}/stat", self.id)) else {
            return false;
        };
        let field = |at: usize| fields.get(at).copied().unwrap_or(0);
        let cpu_ms = (field(10) + field(11)) * 1000 / TICKS;
        if cpu_ms != self.cpu_ms {
            self.cpu_ms = cpu_ms;
            self.still_since = Instant::now();
        }
        !matches!(state.as_str(), "Z" | "X") && self.began == Some(field(18))
    }

    /// Its processor time when it was last there.
    pub fn cpu_ms(&self) -> u64 {
        self.cpu_ms
    }

    pub fn hangs(&self) -> bool {
        self.still_since.elapsed() >= HANG && self.all_wait_on_futexes()
    }

    fn all_wait_on_futexes(&self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.id)) else {
            return false;
        };
        let mut any = false;
        for thread in threads.filter_map(Result::ok) {
            let read = |name: &str| fs::read_to_string(thread.path().join(name));
            let waits = read("syscall").map(|call| call.starts_with(FUTEX));
            let waits = waits.or_else(|_| read("wchan").map(|at| at.contains("futex")));
            if !waits.unwrap_or(false) {
                return false;
            }
            any = true;
        }
        any
    }
}

/// How much of a stack is looked at, in bytes.
const LOOKED_AT: usize = 16 * 1024;

impl Process {
    /// Where a thread of a process that hangs stands, and what is mapped there: of the first thread, if it can be read.
    /// Return addresses are words of the stack that lie behind a call. The kernel may refuse to show them
    /// (`kernel.yama.ptrace_scope`).
    pub fn stack(&self) -> Option<(String, Stack)> {
        let id = self.id;
        let maps = fs::read_to_string(format!("/proc/{id}/maps")).ok()?;
        let memory = File::open(format!("/proc/{id}/mem")).ok()?;
        let call = fs::read_to_string(format!("/proc/{id}/syscall")).ok()?;
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        let mut words = call.split_whitespace().rev();
        let (pc, stack_pointer) = (number(words.next()?)?, number(words.next()?)?);
        let code: Vec<Range<u64>> = maps.lines().filter_map(code_of).collect();
        let is_return = |word: u64| {
            let mut before = [0; 7];
            code.iter().any(|range| range.contains(&word))
                && memory
                    .read_exact_at(&mut before, word.wrapping_sub(7))
                    .is_ok()
                && ends_with_call(before)
        };
        let mut bytes = vec![0; LOOKED_AT];
        let length = memory.read_at(&mut bytes, stack_pointer).ok()?;
        let mut stack = Stack::EMPTY;
        stack.push(pc + 1);
        let (words, _) = bytes[..length].as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        for word in words.filter(|word| is_return(*word)) {
            if !stack.push(word) {
                break;
            }
        }
        Some((maps, stack))
    }
}

/// The addresses of a line of `/proc/PID/maps`, if code is there.
fn code_of(line: &str) -> Option<Range<u64>> {
    let mut fields = line.split_whitespace();
    let (from, to) = fields.next()?.split_once('-')?;
    let is_code = fields.next()?.contains('x');
    let number = |text| u64::from_str_radix(text, 16).ok();
    is_code.then_some(number(from)?..number(to)?)
}

/// Whether the last of these bytes are a call: of an address, or through a register or memory.
fn ends_with_call(bytes: [u8; 7]) -> bool {
    let through = |length: usize| {
        let at = bytes.len() - length;
        bytes[at] == 0xff && bytes[at + 1] >> 3 & 7 == 2
    };
    bytes[2] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(through)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn calls_are_known_by_their_bytes() {
        assert!(ends_with_call([0, 0, 0xe8, 1, 2, 3, 4]));
        assert!(ends_with_call([0, 0, 0, 0, 0, 0xff, 0xd0]), "call *%rax");
        assert!(ends_with_call([0, 0xff, 0x15, 1, 2, 3, 4]), "call *…(%rip)");
        assert!(!ends_with_call([0, 0, 0xe9, 1, 2, 3, 4]));
        let line = "55d0-55e0 r-xp 00001000 08:01 42   /a b/program";
        assert_eq!(code_of(line), Some(0x55d0..0x55e0));
        assert_eq!(code_of("55d0-55e0 rw-p 0 08:01 42"), None);
    }

    #[test]
    fn a_process_is_there_until_it_ends() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .spawn()
            .expect("cat is everywhere");
        let mut process = Process::new(child.id());
        assert!(process.is_there());
        assert!(!process.hangs());
        drop(child.stdin.take());
        child.wait().expect("it ends");
        assert!(!process.is_there());
        assert!(!Process::new(u32::MAX).is_there());
    }
}
