//! What Linux tells of a process that runs: whether it is still there, its processor time, and whether it hangs.
//!
//! A process hangs if all its threads have waited on futexes for `HANG` and none has used the processor. One whose threads
//! wait for a connection, a signal or a child may go on at any time and is never said to hang; one that another process
//! wakes through shared memory after that time was called a hang wrongly.

use std::fs;
use std::time::{Duration, Instant};

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

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
