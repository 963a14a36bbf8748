//! Z3 at the other end of a pipe. It is started when it is first needed; who has none gets no answers to
//! questions on more than two bytes, and a note says so.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use norns_interpret::symbolic::{Answer, Condition, Expressions, Solver, answer, question, script};

/// Milliseconds for one question.
const TIME: u32 = 3_000;

#[derive(Default)]
pub struct Z3 {
    running: Option<Running>,
    /// It could not be started, or stopped answering.
    pub is_missing: bool,
    /// How long it was waited for.
    pub spent: Duration,
}

struct Running {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Running {
    fn start() -> Option<Running> {
        let mut process = Command::new("z3")
            .args(["-in", "-smt2", &format!("-t:{TIME}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let to = process.stdin.take()?;
        let from = BufReader::new(process.stdout.take()?);
        Some(Running { process, to, from })
    }

    fn ask(&mut self, script: &str, bytes: &[u32]) -> Option<Answer> {
        self.to.write_all(script.as_bytes()).ok()?;
        let mut line = String::new();
        self.from.read_line(&mut line).ok()?;
        match line.trim() {
            "sat" => {}
            "unsat" => return Some(Answer::Impossible),
            "unknown" | "timeout" => return Some(Answer::Unknown),
            _ => return None,
        }
        self.to.write_all(question(bytes).as_bytes()).ok()?;
        let mut text = String::new();
        loop {
            if self.from.read_line(&mut text).ok()? == 0 {
                return None;
            }
            let count = |wanted| text.matches(wanted).count();
            if count('(') > 0 && count('(') == count(')') {
                return Some(Answer::Values(answer(&text)));
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Solver for Z3 {
    fn solve(
        &mut self,
        expressions: &Expressions,
        conditions: &[Condition],
        bytes: &[u32],
    ) -> Answer {
        if self.is_missing {
            return Answer::Unknown;
        }
        let started = Instant::now();
        if self.running.is_none() {
            self.running = Running::start();
        }
        let script = script(expressions, conditions);
        let running = self.running.as_mut();
        let answer = running.and_then(|running| running.ask(&script, bytes));
        self.spent += started.elapsed();
        answer.unwrap_or_else(|| {
            self.running = None;
            self.is_missing = true;
            Answer::Unknown
        })
    }
}
