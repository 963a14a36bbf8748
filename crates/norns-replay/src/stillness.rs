//! Whether a running program hangs, as far as `/proc` can tell.

use std::fs;
use std::time::{Duration, Instant};

/// Watches for a program in which every thread waits for another.
#[derive(Default)]
pub struct Stillness {
    /// Since when all threads have been seen to wait, and how often they had run by then.
    since: Option<(Instant, u64)>,
}

/// How long nothing must have run.
const STILL_FOR: Duration = Duration::from_millis(700);

/// Signals whose handlers cannot end a wait: what a thread only sends to itself (ILL, TRAP, ABRT,
/// BUS, FPE, SEGV, SYS), and 32 and 33, which the C library keeps for itself. Bit 0 is signal 1.
const CANNOT_HELP: u64 = 0x1_c000_04f8;

impl Stillness {
    /// Whether every thread of the process has waited for another for a while. To be asked again and
    /// again.
    pub fn all_threads_wait(&mut self, id: i32) -> bool {
        let Some(switches) = waiting_threads(id) else {
            self.since = None;
            return false;
        };
        match self.since {
            Some((since, before)) if before == switches => since.elapsed() > STILL_FOR,
            _ => {
                self.since = Some((Instant::now(), switches));
                false
            }
        }
    }
}

/// If every thread of the process sleeps in an untimed futex wait and no signal handler could end
/// that: how often the threads have been switched to so far.
fn waiting_threads(id: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    if a_handler_could_help(&status)? {
        return None;
    }
    let mut switches = 0;
    for task in fs::read_dir(format!("/proc/{id}/task")).ok()? {
        let path = task.ok()?.path();
        let call = fs::read_to_string(path.join("syscall")).ok()?;
        if !is_untimed_futex(&call) {
            return None;
        }
        switches += context_switches(&fs::read_to_string(path.join("status")).ok()?);
    }
    Some(switches)
}

/// Whether the process catches a signal that another thread or process may send. `status` is the
/// text of `/proc/PID/status`.
fn a_handler_could_help(status: &str) -> Option<bool> {
    let mut lines = status.lines();
    let caught = lines.find_map(|line| line.strip_prefix("SigCgt:"))?;
    let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
    Some(caught & !CANNOT_HELP != 0)
}

/// Whether a thread is in a futex call whose fourth argument, the time-out, is null. `call` is the
/// text of `/proc/PID/task/TID/syscall`: the number of the call and its arguments.
fn is_untimed_futex(call: &str) -> bool {
    let mut fields = call.split_whitespace();
    let number = fields.next().and_then(|number| number.parse().ok());
    number == Some(libc::SYS_futex) && fields.nth(3) == Some("0x0")
}

/// How often the thread was switched to, voluntarily or not.
fn context_switches(status: &str) -> u64 {
    status
        .lines()
        .filter_map(|line| line.split_once("ctxt_switches:"))
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_futex_call_without_time_out_waits_for_ever() {
        for (call, expected) in [
            (
                "202 0x7ffff7d8a910 0x109 0x7d1a 0x0 0x0 0xffffffff 0x7ffe 0x7fff",
                true,
            ),
            (
                "202 0x7ffff7d8a910 0x189 0x0 0x7ffe7a10 0x0 0xffffffff 0x7ffe 0x7fff",
                false,
            ),
            ("230 0x0 0x0 0x7ffe7a10 0x0 0x0 0x0 0x7ffe 0x7fff", false),
            ("running", false),
            ("", false),
        ] {
            assert_eq!(is_untimed_futex(call), expected, "{call}");
        }
    }

    #[test]
    fn handlers_of_faults_end_no_wait() {
        let status = |mask: u64| format!("Name:\tapp\nSigCgt:\t{mask:016x}\n");
        let bit = |signal: u32| 1 << (signal - 1);
        for signal in [4, 5, 6, 7, 8, 11, 31, 32, 33] {
            assert_eq!(
                a_handler_could_help(&status(bit(signal))),
                Some(false),
                "{signal}"
            );
        }
        for signal in [1, 2, 10, 14, 15, 34] {
            assert_eq!(
                a_handler_could_help(&status(bit(signal))),
                Some(true),
                "{signal}"
            );
        }
        assert_eq!(a_handler_could_help("Name:\tapp\n"), None);
    }

    #[test]
    fn switches_of_both_kinds_are_added() {
        let status = "voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(context_switches(status), 15);
    }
}
