//! The page in headless Chromium.

use std::process::Command;

use norns_hive::{Outcome, Report, RunFigures};

use crate::harness::{Participant, Place, build, program, report};

/// Widths of a phone and of a desk.
const WIDTHS: [u32; 2] = [390, 1280];

pub fn looks_right(place: &Place) {
    let server = place.start();
    let mut build = build("abcdef0123456789", 6);
    build.candidates[1].object = "<img src=x onerror=alert(1)>".into();
    let sites = server.add(&build);
    let participant = Participant::new(&sites, &build);
    let mut race = None;
    for result in [Outcome::Race, Outcome::NoRace, Outcome::NotSeen] {
        let task = participant.task().expect("there are candidates");
        let figures = RunFigures {
            wall_ms: 60_000,
            runtime_cpu_us: 300_000,
            ended: true,
            ..RunFigures::default()
        };
        let batch = participant.batch(vec![
            Report::Task(report(&task, result)),
            Report::Run(figures),
        ]);
        sites.report(&program(), &batch).expect("it is stored");
        race.get_or_insert(task.candidate);
    }
    let race = race.expect("the first was a race");
    for width in WIDTHS {
        let page = look(
            place,
            &server.url,
            &format!("token={}", server.people_token),
            width,
        );
        for expected in [
            "true races",
            "likely false",
            "unknown",
            "runs in 24 hours",
            "0.50 %",
            "src/bank.c:4",
            "&lt;img src=x",
        ] {
            assert!(page.contains(expected), "no {expected} in {page}");
        }
        assert!(!page.contains("<img"));
        let detail = format!("token={}&show=bank/{race}", server.people_token);
        let page = look(place, &server.url, &detail, width);
        for expected in [
            "data race",
            "balance += sum;",
            "What a run did",
            "norns hive pull",
        ] {
            assert!(page.contains(expected), "no {expected} in {page}");
        }
    }
    let page = look(place, &server.url, "", 390);
    assert!(page.contains("Token for people"));
}

/// The page as the browser has it after a while. What its policy refuses, and what goes wrong in its script,
/// fails the test.
fn look(place: &Place, url: &str, fragment: &str, width: u32) -> String {
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
        ])
        .args([
            "--virtual-time-budget=4000",
            "--timeout=20000",
            "--dump-dom",
        ])
        .arg(format!("--window-size={width},900"))
        .arg(format!(
            "--user-data-dir={}",
            place.folder.join("profile").display()
        ))
        .arg(format!("{url}/#{fragment}"))
        .output()
        .expect("chromium is installed: sudo apt-get install chromium");
    let log = String::from_utf8_lossy(&output.stderr);
    let problems: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect();
    assert!(problems.is_empty(), "{problems:#?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
