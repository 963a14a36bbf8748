//! Simulated participants of a hive, for bench/hive: `hive_load URL TOKEN PROGRAM BUILD SITES SECONDS RATE`.
//!
//! Each participant has a connection of its own. In turn it does what the agent of a guarded program does in
//! three runs: it asks for a task before each, and then hands in one batch with what came of the three, which
//! pairs were seen and what the runs cost: nine reports. The rate is what all of them together are to report
//! in a second. Printed: reports acknowledged a second and how long tasks took, as JSON.
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use norns_hive::protocol::{Accepted, VERSION};
use norns_hive::{
    Batch, BatchId, BuildId, Outcome, ParticipantId, Report, RunFigures, Task, TaskReport,
    TaskRequest, TaskResponse,
};

const THREADS: usize = 8;
const RUNS: usize = 3;

struct Participant {
    id: ParticipantId,
    connection: BufReader<TcpStream>,
}

struct Hive {
    address: String,
    token: String,
    program: String,
    build: BuildId,
}

impl Hive {
    fn post<A: serde::de::DeserializeOwned>(
        &self,
        connection: &mut BufReader<TcpStream>,
        path: &str,
        message: &impl serde::Serialize,
    ) -> A {
        let body = serde_json::to_string(message).expect("messages have text keys");
        let request = format!(
            "POST /v1/programs/{}/{path} HTTP/1.1\r\nHost: hive\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            self.program,
            self.token,
            body.len()
        );
        connection
            .get_mut()
            .write_all(request.as_bytes())
            .expect("the hive reads");
        let (mut line, mut head, mut length) = (String::new(), String::new(), 0);
        loop {
            line.clear();
            assert!(
                connection.read_line(&mut line).expect("the hive answers") > 0,
                "closed after {head}"
            );
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            head.push_str(&line);
        }
        let mut answer = vec![0; length];
        connection
            .read_exact(&mut answer)
            .expect("the hive answers");
        serde_json::from_slice(&answer)
            .unwrap_or_else(|_| panic!("{head}{}", String::from_utf8_lossy(&answer)))
    }
}

fn report(task: Task) -> TaskReport {
    TaskReport {
        task: task.id,
        candidate: task.candidate,
        sites: task.sites,
        order: task.order,
        tau_ms: task.tau_ms,
        result: Outcome::NotSeen,
        stacks: Vec::new(),
        consequence: None,
    }
}

struct Done {
    reports: u64,
    task_us: Vec<u64>,
}

fn work(hive: &Hive, first: usize, count: usize, seconds: u64, every: Duration) -> Done {
    let mut participants: Vec<Participant> = (first..first + count)
        .map(|number| {
            let stream = TcpStream::connect(&hive.address).expect("the hive accepts");
            stream.set_nodelay(true).expect("a socket");
            Participant {
                id: ParticipantId::new(format!("{number:032x}")).expect("32 digits"),
                connection: BufReader::new(stream),
            }
        })
        .collect();
    let mut done = Done {
        reports: 0,
        task_us: Vec::new(),
    };
    let begin = Instant::now();
    let (mut turn, mut batches) = (0_u32, 0_u64);
    while begin.elapsed() < Duration::from_secs(seconds) {
        let due = begin + every * turn;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let at = turn as usize % participants.len();
        let participant = &mut participants[at];
        turn += 1;
        let mut reports = Vec::new();
        for _ in 0..RUNS {
            let request = TaskRequest {
                format: VERSION,
                participant: participant.id.clone(),
                build: hive.build.clone(),
                active: None,
            };
            let asked = Instant::now();
            let answer: TaskResponse = hive.post(&mut participant.connection, "task", &request);
            done.task_us
                .push(u64::try_from(asked.elapsed().as_micros()).expect("short"));
            if let Some(task) = answer.task {
                reports.push(Report::Contexts {
                    pairs: vec![task.sites],
                });
                reports.push(Report::Task(report(task)));
            }
            let figures = RunFigures {
                wall_ms: 1000,
                cpu_ms: 900,
                ended: true,
                ..RunFigures::default()
            };
            reports.push(Report::Run(figures));
        }
        batches += 1;
        let batch = Batch {
            format: VERSION,
            id: BatchId::new(format!("{:016x}{batches:016x}", first)).expect("32 digits"),
            participant: participant.id.clone(),
            build: hive.build.clone(),
            reports,
        };
        let accepted: Accepted = hive.post(&mut participant.connection, "reports", &batch);
        assert_eq!(accepted.refused, 0, "everything is honest");
        done.reports += u64::from(accepted.accepted);
    }
    done
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, token, program, build, sites, seconds, rate] = words.as_slice() else {
        panic!("hive_load URL TOKEN PROGRAM BUILD SITES SECONDS RATE");
    };
    let hive = Hive {
        address: url.trim_start_matches("http://").to_owned(),
        token: token.clone(),
        program: program.clone(),
        build: BuildId::new(build.as_str()).expect("a build"),
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let (sites, seconds, rate) = (number(sites), number(seconds), number(rate));
    let of_each = usize::try_from(sites).expect("small") / THREADS;
    let every = Duration::from_secs_f64((3 * RUNS * THREADS) as f64 / rate as f64);
    let begin = Instant::now();
    let mut all = Done {
        reports: 0,
        task_us: Vec::new(),
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let hive = &hive;
                    move || work(hive, thread * of_each, of_each, seconds, every)
                })
            })
            .collect();
        for thread in threads {
            let done = thread.join().expect("no participant fails");
            all.reports += done.reports;
            all.task_us.extend(done.task_us);
        }
    });
    let elapsed = begin.elapsed().as_secs_f64();
    all.task_us.sort_unstable();
    let at = |share: f64| {
        let index = (all.task_us.len() as f64 * share) as usize;
        all.task_us
            .get(index.min(all.task_us.len() - 1))
            .map_or(0.0, |us| *us as f64 / 1000.0)
    };
    println!(
        "{{\"reports\": {}, \"seconds\": {elapsed:.1}, \"reports_per_second\": {:.0}, \"tasks\": {}, \
         \"task_ms\": {{\"p50\": {:.2}, \"p99\": {:.2}, \"max\": {:.2}}}}}",
        all.reports,
        all.reports as f64 / elapsed,
        all.task_us.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}
