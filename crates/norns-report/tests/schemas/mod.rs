//! What is printed follows the published schemas. `./test --peers` runs these tests: an independent
//! validator of JSON schemas brings many dependencies.

use std::fs;
use std::path::{Path, PathBuf};

use norns_report::{
    Finding, Findings, Judged, JudgedCandidate, Judgement, Reason, Recordings, Verdict,
};

use crate::{inverted_locks, lost_update};

#[test]
fn the_published_schema_describes_what_is_printed() {
    let step = norns_report::WitnessStep {
        thread: "T0".into(),
        op: "lock a".into(),
        file: "bank.c".into(),
        line: 6,
    };
    let mut findings = Vec::new();
    for verdict in [
        None,
        Some(Verdict::NoBug),
        Some(Verdict::TimedOut),
        Some(Verdict::Infeasible("T0.1 did not lock a".into())),
        Some(Verdict::Confirmed("cycle".into())),
    ] {
        let (finding, _) = inverted_locks();
        findings.push(Finding {
            verdict,
            witness: Some(vec![step.clone()]),
            ..finding
        });
    }
    let race = lost_update().0;
    findings.push(Finding {
        variants: vec![race.clone()],
        ..race
    });
    let findings = Findings {
        format: 1,
        findings,
        undecided: 0,
        not_analysed: vec![],
        recordings: Some(Recordings { new: vec![12, 0] }),
        scan: Some(judged()),
    };
    let schema = include_str!("../../../../docs/schema/findings.json");
    let mut compiler = boon::Compiler::new();
    compiler
        .add_resource("findings.json", serde_json::from_str(schema).unwrap())
        .unwrap();
    let mut schemas = boon::Schemas::new();
    let schema = compiler.compile("findings.json", &mut schemas).unwrap();
    let mut printed = serde_json::to_value(&findings).unwrap();
    schemas.validate(&printed, schema).unwrap();
    printed["findings"][0]["kind"] = "nonsense".into();
    assert!(schemas.validate(&printed, schema).is_err());
}

#[test]
fn the_schema_of_sketches_describes_what_is_printed() {
    use norns_report::cause::{self, Cause};
    let place = cause::Place {
        file: "queue.c".into(),
        line: 12,
        function: "consumer".into(),
        thread: "T0.1".into(),
    };
    let failure = cause::Failure {
        kind: "signal".into(),
        what: "was killed by SIGSEGV".into(),
        place: Some(place.clone()),
        stack: vec!["consumer".into()],
        runs: 40,
        failed: 5,
    };
    let predictor = |kind: &str, pattern: &str| cause::Predictor {
        kind: kind.into(),
        pattern: pattern.into(),
        places: vec![place.clone()],
        value: (kind == "value").then(|| "0".into()),
        precision: 1.0,
        recall: 0.8,
        f: 0.95,
        precision_at_least: 0.6,
        failing: [4, 5],
        good: [0, 10],
        what: "the value read at queue.c:12 is null".into(),
    };
    let cause = Cause {
        format: cause::FORMAT,
        failure: Some(failure.clone()),
        predictors: vec![
            predictor("order", "WR"),
            predictor("atomicity", "RWR"),
            predictor("value", "null"),
            predictor("branch", "taken"),
        ],
        steps: vec![cause::Step {
            thread: "T0".into(),
            file: "queue.c".into(),
            line: 30,
            function: "main".into(),
            what: "write".into(),
            value: "0".into(),
            predicts: true,
        }],
        proof: Some(cause::Proof {
            forced: [5, 5],
            forbidden: [0, 5],
        }),
        other_failures: vec![cause::Failure {
            place: None,
            ..failure
        }],
        runs: vec![cause::Runs {
            how: "one-at-a-time".into(),
            runs: 30,
            failed: 5,
            failed_seeds: vec![3],
        }],
        notes: vec!["only one run failed: what predicts it may be chance".into()],
        finding: Some("da27".into()),
    };
    let schema = include_str!("../../../../docs/schema/sketch.json");
    let mut compiler = boon::Compiler::new();
    compiler
        .add_resource("sketch.json", serde_json::from_str(schema).unwrap())
        .unwrap();
    let mut schemas = boon::Schemas::new();
    let schema = compiler.compile("sketch.json", &mut schemas).unwrap();
    let mut printed = serde_json::to_value(&cause).unwrap();
    schemas.validate(&printed, schema).unwrap();
    printed["failure"] = serde_json::Value::Null;
    schemas.validate(&printed, schema).unwrap();
    printed["predictors"][0]["kind"] = "nonsense".into();
    assert!(schemas.validate(&printed, schema).is_err());
}

#[test]
fn the_schema_of_scans_describes_what_is_printed() {
    let scan = norns_scan::Scan {
        candidates: vec![candidate()],
        not_analysed: vec![norns_scan::NotAnalysed::NoMain],
    };
    let schema = include_str!("../../../../docs/schema/scan.json");
    let mut compiler = boon::Compiler::new();
    compiler
        .add_resource("scan.json", serde_json::from_str(schema).unwrap())
        .unwrap();
    let mut schemas = boon::Schemas::new();
    let schema = compiler.compile("scan.json", &mut schemas).unwrap();
    let mut printed = norns_report::scan::json(&scan, Path::new(""));
    schemas.validate(&printed, schema).unwrap();
    printed["candidates"][0]["kind"] = "nonsense".into();
    assert!(schemas.validate(&printed, schema).is_err());
}

fn candidate() -> norns_scan::Candidate {
    let place = norns_scan::SourcePlace {
        file: "bank.c".into(),
        line: 6,
        column: 5,
        function: "deposit".into(),
    };
    let place = norns_scan::Place {
        at: place.clone(),
        access: "write",
        held: vec!["m".into()],
        inside: Vec::new(),
        chain: vec![place],
        created: None,
    };
    norns_scan::Candidate {
        kind: norns_scan::CandidateKind::DataRace,
        rank: 70,
        object: "balance".into(),
        places: vec![place.clone(), place],
    }
}

/// A candidate that a run has shown.
fn judged() -> Judged {
    Judged {
        candidates: vec![JudgedCandidate {
            judgement: Judgement::Confirmed,
            reason: Reason::Shown,
            finding: Some("abc".into()),
            candidate: norns_report::scan::candidate_json(1, &candidate(), Path::new("")),
        }],
        not_analysed: vec!["mystery".into()],
        unforeseen: Vec::new(),
    }
}

#[test]
fn sarif_follows_its_schema() {
    use norns_report::sarif::{Entry, log};
    let (race, deadlock) = (lost_update().1, inverted_locks().1);
    let entry = |sketch, known| Entry {
        sketch,
        fingerprint: "00ff",
        known,
    };
    let mut log = log(&[entry(&race, false), entry(&deadlock, true)], "0.0.0");
    let schema = fs::read_to_string(sarif_schema()).unwrap();
    let mut compiler = boon::Compiler::new();
    compiler
        .add_resource("sarif.json", serde_json::from_str(&schema).unwrap())
        .unwrap();
    let mut schemas = boon::Schemas::new();
    let schema = compiler.compile("sarif.json", &mut schemas).unwrap();
    schemas.validate(&log, schema).unwrap();
    log["runs"][0]["results"][0]["codeFlow"] = "nonsense".into();
    assert!(schemas.validate(&log, schema).is_err());
}

/// The published schema of SARIF 2.1.0, as the crate serde-sarif brings it.
fn sarif_schema() -> PathBuf {
    let output = std::process::Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--features=schemas",
        ])
        .arg("--filter-platform=x86_64-unknown-linux-gnu")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let sarif = packages
        .iter()
        .find(|package| package["name"] == "serde-sarif")
        .expect("serde-sarif is a dependency of this test");
    let manifest = Path::new(sarif["manifest_path"].as_str().unwrap());
    manifest.with_file_name("src/schema.json")
}
