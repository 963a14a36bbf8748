//! What `norns sketch` says of a failure: as JSON (format 1, described by `docs/schema/sketch.json`) and as
//! text.

use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::escape::terminal as safe;
use crate::finding::make_relative;
use crate::terminal::{WIDTH, wrap};

/// The version of the JSON form.
pub const FORMAT: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    pub format: u32,
    /// `None` if no run failed.
    pub failure: Option<Failure>,
    /// Best first.
    pub predictors: Vec<Predictor>,
    /// The steps of a failing run that matter, in their order.
    pub steps: Vec<Step>,
    pub proof: Option<Proof>,
    /// Failures of other kinds or at other places.
    pub other_failures: Vec<Failure>,
    /// How the program was run, and how often it failed.
    pub runs: Vec<Runs>,
    /// What limits the answer, in whole sentences.
    pub notes: Vec<String>,
    /// The finding that shows more, where one was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// `signal`, `abort`, `assertion`, `terminate`, `sanitizer`, `exit`, `hang`, `output`.
    pub kind: String,
    /// What completes "the program".
    pub what: String,
    pub place: Option<Place>,
    pub stack: Vec<String>,
    pub runs: usize,
    pub failed: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub file: String,
    pub line: u32,
    pub function: String,
    pub thread: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predictor {
    /// `order`, `atomicity`, `value`, `branch`.
    pub kind: String,
    /// `WR`, `RWR`, …; of a value or branch what is true of it.
    pub pattern: String,
    /// In the order of the failing runs.
    pub places: Vec<Place>,
    pub value: Option<String>,
    pub precision: f64,
    pub recall: f64,
    pub f: f64,
    /// What the precision is at least at a confidence of 95 %.
    pub precision_at_least: f64,
    /// In how many of the failing runs, and of the good ones, it was true.
    pub failing: [usize; 2],
    pub good: [usize; 2],
    /// What it says, in words.
    pub what: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub thread: String,
    pub file: String,
    pub line: u32,
    pub function: String,
    pub what: String,
    pub value: String,
    /// Whether it is part of the best predictor.
    pub predicts: bool,
}

/// How many runs failed, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    pub forced: [usize; 2],
    pub forbidden: [usize; 2],
}

impl Proof {
    /// Whether the failure came and went with the order.
    pub fn is_confirmed(&self) -> bool {
        let ([failed, forced], [still, forbidden]) = (self.forced, self.forbidden);
        forced > 0 && forbidden > 0 && failed == forced && still == 0
    }

    pub fn sentence(&self) -> String {
        let ([failed, forced], [still, forbidden]) = (self.forced, self.forbidden);
        let word = match self.is_confirmed() {
            true => "confirmed",
            false => "not confirmed",
        };
        format!(
            "{word}: with this order forced {failed} of {forced} runs failed, with it forbidden {still} of \
             {forbidden}"
        )
    }
}

/// The runs of one sort.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// `undisturbed`, `delays`, `one-at-a-time`.
    pub how: String,
    pub runs: usize,
    pub failed: usize,
    /// The seeds of those that failed.
    pub failed_seeds: Vec<u64>,
}

impl Runs {
    pub fn sentence(&self) -> String {
        let mut text = format!(
            "{} of {} runs failed {}",
            self.failed,
            self.runs,
            how(&self.how)
        );
        if let [first, ..] = self.failed_seeds[..] {
            let _ = write!(text, ", first with seed {first}");
        }
        text
    }
}

impl Cause {
    /// Writes the paths of files below `folder` relative to it.
    pub fn relative_to(&mut self, folder: &Path) {
        let failures = self.failure.iter_mut().chain(&mut self.other_failures);
        let predicted = { self.predictors.iter_mut() }.flat_map(|one| &mut one.places);
        for place in failures
            .filter_map(|failure| failure.place.as_mut())
            .chain(predicted)
        {
            make_relative(&mut place.file, folder);
        }
        for step in &mut self.steps {
            make_relative(&mut step.file, folder);
        }
    }

    /// The answer in words, without the picture.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let Some(failure) = &self.failure else {
            let runs: usize = self.runs.iter().map(|runs| runs.runs).sum();
            paragraph(&mut out, &format!("no failure seen in {runs} runs"));
            self.list_runs(&mut out);
            self.list_notes(&mut out);
            return out;
        };
        paragraph(&mut out, &format!("failure: {}", failure.sentence()));
        self.list_runs(&mut out);
        for other in &self.other_failures {
            paragraph(&mut out, &format!("also seen: {}", other.sentence()));
        }
        if let Some(best) = self.predictors.first() {
            out.push('\n');
            let word = match &self.proof {
                Some(proof) if proof.is_confirmed() => "cause",
                _ => "best predictor",
            };
            paragraph(&mut out, &format!("{word}: {}", best.sentence()));
            if let Some(proof) = &self.proof {
                let text = proof.sentence();
                paragraph(&mut out, &text);
            }
            for (at, other) in self.predictors[1..].iter().take(6).enumerate() {
                if at == 0 {
                    out.push_str("\nother predictors:\n");
                }
                paragraph(&mut out, &format!("  {}", other.sentence()));
            }
        }
        self.list_notes(&mut out);
        out
    }

    fn list_runs(&self, out: &mut String) {
        for runs in self.runs.iter().filter(|runs| runs.runs > 0) {
            let text = format!("  {}", runs.sentence());
            paragraph(out, &text);
        }
    }

    fn list_notes(&self, out: &mut String) {
        for note in &self.notes {
            paragraph(out, &format!("note: {note}"));
        }
    }
}

fn how(word: &str) -> String {
    match word {
        "undisturbed" => "undisturbed".into(),
        "delays" => "with random delays".into(),
        "one-at-a-time" => "with one thread at a time".into(),
        other => other.into(),
    }
}

fn paragraph(out: &mut String, text: &str) {
    let indent = text.len() - text.trim_start().len();
    let text = safe(text.trim_start());
    for line in wrap(&text, WIDTH - indent).lines() {
        let _ = writeln!(out, "{}{line}", " ".repeat(indent));
    }
}

impl Failure {
    pub fn sentence(&self) -> String {
        let mut text = format!("the program {}", self.what);
        if let Some(place) = &self.place {
            let _ = write!(text, " at {}:{}", place.file, place.line);
            if !place.function.is_empty() {
                let _ = write!(text, " in {}", place.function);
            }
            if !place.thread.is_empty() {
                let _ = write!(text, " ({})", place.thread);
            }
        }
        let _ = write!(text, "; {} of {} runs", self.failed, self.runs);
        text
    }
}

impl Predictor {
    pub fn sentence(&self) -> String {
        format!(
            "{}; in {} of {} failing runs and {} of {} good ones (F {:.2}, precision at least {:.2})",
            self.what,
            self.failing[0],
            self.failing[1],
            self.good[0],
            self.good[1],
            self.f,
            self.precision_at_least
        )
    }
}
