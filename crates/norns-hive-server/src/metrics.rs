//! What the server counts of itself, in Prometheus' text format.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn increase(&self) {
        self.add(1);
    }

    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub fn decrease(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The upper limits of a histogram, in milliseconds.
const LIMITS_MS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 250, 1000, 5000];

#[derive(Default)]
pub struct Histogram {
    buckets: [Counter; LIMITS_MS.len()],
    count: Counter,
    sum_us: Counter,
}

impl Histogram {
    pub fn add(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        for (limit, bucket) in LIMITS_MS.iter().zip(&self.buckets) {
            if us <= limit * 1000 {
                bucket.increase();
            }
        }
        self.count.increase();
        self.sum_us.add(us);
    }

    fn write(&self, out: &mut String, name: &str) {
        let seconds = |thousandths: u64, unit: u64| {
            format!(
                "{}.{:06}",
                thousandths / unit,
                thousandths % unit * (1_000_000 / unit)
            )
        };
        for (limit, bucket) in LIMITS_MS.iter().zip(&self.buckets) {
            let limit = seconds(*limit, 1000);
            line(
                out,
                &format!("{name}_bucket{{le=\"{limit}\"}}"),
                bucket.get(),
            );
        }
        line(
            out,
            &format!("{name}_bucket{{le=\"+Inf\"}}"),
            self.count.get(),
        );
        writeln!(out, "{name}_sum {}", seconds(self.sum_us.get(), 1_000_000))
            .expect("a string takes all text");
        line(out, &format!("{name}_count"), self.count.get());
    }
}

/// Why a report or a request was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Malformed,
    Oversized,
    Token,
    UnknownBuild,
    Forged,
    Old,
    Replayed,
    Quota,
    Busy,
}

const REFUSALS: [(Refusal, &str); 9] = [
    (Refusal::Malformed, "malformed"),
    (Refusal::Oversized, "oversized"),
    (Refusal::Token, "token"),
    (Refusal::UnknownBuild, "unknown-build"),
    (Refusal::Forged, "forged"),
    (Refusal::Old, "old"),
    (Refusal::Replayed, "replayed"),
    (Refusal::Quota, "quota"),
    (Refusal::Busy, "busy"),
];

#[derive(Default)]
pub struct Metrics {
    pub tasks_given: Counter,
    pub tasks_none: Counter,
    pub reports: Counter,
    pub batches: Counter,
    pub batches_known: Counter,
    refusals: [Counter; REFUSALS.len()],
    pub failed_commits: Counter,
    pub connections: Counter,
    pub connections_refused: Counter,
    /// How long it took to answer for a task, and to store a group of batches.
    pub task_times: Histogram,
    pub commits: Histogram,
}

impl Metrics {
    pub fn refuse(&self, why: Refusal, number: u64) {
        let at = REFUSALS.iter().position(|(refusal, _)| *refusal == why);
        if let Some(counter) = at.and_then(|at| self.refusals.get(at)) {
            counter.add(number);
        }
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        let counters = [
            ("norns_hive_tasks_given_total", "counter", &self.tasks_given),
            ("norns_hive_tasks_none_total", "counter", &self.tasks_none),
            ("norns_hive_reports_total", "counter", &self.reports),
            ("norns_hive_batches_total", "counter", &self.batches),
            (
                "norns_hive_batches_known_total",
                "counter",
                &self.batches_known,
            ),
            (
                "norns_hive_failed_commits_total",
                "counter",
                &self.failed_commits,
            ),
            ("norns_hive_connections", "gauge", &self.connections),
            (
                "norns_hive_connections_refused_total",
                "counter",
                &self.connections_refused,
            ),
        ];
        for (name, kind, counter) in counters {
            writeln!(out, "# TYPE {name} {kind}").expect("a string takes all text");
            line(&mut out, name, counter.get());
        }
        let name = "norns_hive_refused_total";
        writeln!(out, "# TYPE {name} counter").expect("a string takes all text");
        for ((_, reason), counter) in REFUSALS.iter().zip(&self.refusals) {
            line(
                &mut out,
                &format!("{name}{{reason=\"{reason}\"}}"),
                counter.get(),
            );
        }
        let histograms = [
            ("norns_hive_task_seconds", &self.task_times),
            ("norns_hive_commit_seconds", &self.commits),
        ];
        for (name, histogram) in histograms {
            writeln!(out, "# TYPE {name} histogram").expect("a string takes all text");
            histogram.write(&mut out, name);
        }
        out
    }
}

fn line(out: &mut String, name: &str, number: u64) {
    writeln!(out, "{name} {number}").expect("a string takes all text");
}
