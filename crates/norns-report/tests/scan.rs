//! The views of a scan, and of a scan beside the runs of a check.

use std::path::Path;

use norns_report::{Judged, JudgedCandidate, Judgement, Reason, html, scan};
use norns_scan::{Candidate, CandidateKind, NotAnalysed, Place, Scan, SourcePlace};
use serde_json::Value;

fn source(line: u32, function: &str) -> SourcePlace {
    SourcePlace {
        file: "/home/bank/bank.c".into(),
        line,
        column: 5,
        function: function.into(),
    }
}

fn place(line: u32, access: &'static str, held: &[&str]) -> Place {
    Place {
        at: source(line, "deposit"),
        access,
        held: held.iter().map(|&lock| lock.to_owned()).collect(),
        inside: Vec::new(),
        chain: vec![source(line + 100, "worker")],
        created: Some(source(200, "main")),
    }
}

fn race(object: &str, lines: (u32, u32)) -> Candidate {
    Candidate {
        kind: CandidateKind::DataRace,
        rank: 70,
        object: object.into(),
        places: vec![place(lines.0, "read", &["m"]), place(lines.1, "write", &[])],
    }
}

fn bank() -> Scan {
    Scan {
        candidates: vec![
            race("balance", (6, 7)),
            race("balance", (7, 7)),
            race("total", (9, 9)),
        ],
        not_analysed: vec![NotAnalysed::Function("mystery".into())],
    }
}

fn json(scanned: &Scan) -> Value {
    scan::json(scanned, Path::new("/home/bank"))
}

#[test]
fn the_text_groups_candidates_by_object() {
    let expected = "\
possible data race on balance
   1  read at bank.c:6 in deposit, holding m
        in the thread created at bank.c:200, worker calls at bank.c:106
      write at bank.c:7 in deposit
        in the thread created at bank.c:200, worker calls at bank.c:107
   2  read at bank.c:7 in deposit, holding m
        in the thread created at bank.c:200, worker calls at bank.c:107
      write at bank.c:7 in deposit
        in the thread created at bank.c:200, worker calls at bank.c:107

possible data race on total
   3  read at bank.c:9 in deposit, holding m
        in the thread created at bank.c:200, worker calls at bank.c:109
      write at bank.c:9 in deposit
        in the thread created at bank.c:200, worker calls at bank.c:109

3 candidates (3 data-race); no run has shown them
not analysed: mystery: it has no body here and no summary
";
    assert_eq!(scan::text(&json(&bank())), expected);
    let none = scan::text(&json(&Scan::default()));
    assert_eq!(none, "no candidates\n");
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    let text = scan::text(&json(&Scan {
        candidates: vec![race("a\u{1b}[31m", (1, 2))],
        ..Scan::default()
    }));
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn a_saved_scan_is_read_back() {
    let printed = json(&bank());
    assert_eq!(scan::read(&printed.to_string()), Ok(printed));
    let newer = r#"{"format": 9, "candidates": []}"#;
    assert_eq!(scan::read(newer), Err("its format is 9; 1 is known".into()));
    assert!(scan::read("{}").is_err());
    assert!(scan::read("not json").is_err());
}

#[test]
fn moved_lines_are_nothing_new() {
    let old = json(&bank());
    let moved = Scan {
        candidates: vec![
            race("balance", (16, 17)),
            race("balance", (17, 17)),
            race("total", (19, 19)),
        ],
        ..bank()
    };
    assert_eq!(scan::count(&scan::added(&old, &json(&moved))), 0);
    let mut more = bank();
    more.candidates.push(race("limit", (30, 31)));
    let added = scan::added(&old, &json(&more));
    assert_eq!(scan::count(&added), 1);
    assert_eq!(added["candidates"][0]["object"], "limit");
    assert_eq!(scan::count(&scan::added(&json(&more), &old)), 0);
}

#[test]
fn sarif_has_a_rule_for_every_result() {
    let log = scan::sarif(&json(&bank()), "1.0");
    let run = &log["runs"][0];
    let rules: Vec<&Value> = { run["tool"]["driver"]["rules"].as_array().unwrap().iter() }
        .map(|rule| &rule["id"])
        .collect();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    for result in results {
        assert!(rules.contains(&&result["ruleId"]), "{result}");
        assert_eq!(result["relatedLocations"].as_array().unwrap().len(), 1);
    }
}

fn judged() -> Judged {
    let reasons = [Reason::Shown, Reason::Ordered, Reason::OnePlace];
    let scanned = bank();
    let candidates = (1..).zip(&scanned.candidates).zip(reasons);
    Judged {
        candidates: candidates
            .map(|((id, candidate), reason)| JudgedCandidate {
                judgement: reason.judgement(),
                reason,
                finding: (reason == Reason::Shown).then(|| "abc".into()),
                candidate: scan::candidate_json(id, candidate, Path::new("/home/bank")),
            })
            .collect(),
        not_analysed: vec!["mystery".into()],
        unforeseen: vec!["def".into()],
    }
}

#[test]
fn a_check_says_of_every_candidate_what_runs_show() {
    let expected = "\
scan: 3 candidates: 1 confirmed, 0 undecided, 1 not reached, 1 refuted for these runs
  confirmed  undecided  not reached  refuted  file
          1          0            1        1  bank.c
not reached by any run, to be tested next:
  possible data race on total: bank.c:9 in deposit ↔ bank.c:9 in deposit (runs came to one of its places only)
def is no candidate: the scan has missed it
not scanned: mystery
";
    assert_eq!(judged().text(), expected);
}

#[test]
fn the_page_lists_what_to_test_next() {
    let page = html::page(&[], Some(&judged()));
    assert!(page.contains("to be tested next"), "{page}");
    assert!(page.contains("possible data race on total"), "{page}");
    let mut hostile = judged();
    hostile.candidates[2].candidate["object"] = "<script>".into();
    let page = html::page(&[], Some(&hostile));
    assert!(page.contains("race on &lt;script&gt;"), "{page}");
}

#[test]
fn judgements_survive_json() {
    let printed = serde_json::to_value(judged()).unwrap();
    assert_eq!(printed["candidates"][0]["judgement"], "confirmed");
    assert_eq!(printed["candidates"][0]["object"], "balance");
    let read: Judged = serde_json::from_value(printed).unwrap();
    assert_eq!(read, judged());
}

#[test]
fn every_reason_has_a_judgement_and_words() {
    for reason in Reason::ALL {
        assert!(!reason.words().is_empty());
        assert!(Judgement::ALL.contains(&reason.judgement()));
    }
}

#[test]
fn findings_get_their_names_late() {
    let mut all = judged();
    all.rename("abc", "lost-update");
    all.rename("def", "other");
    assert_eq!(all.candidates[0].finding.as_deref(), Some("lost-update"));
    assert_eq!(all.unforeseen, ["other"]);
}
