//! Every view of two findings on hand-made traces: a lost update and an inverted lock order.

#[path = "browser/mod.rs"]
mod browser;
#[cfg(feature = "schemas")]
#[path = "schemas/mod.rs"]
mod schemas;

use std::fs;

use norns_model::{Bug, NotAnalysed, Witness};
use norns_report::{AccessKind, Finding, Findings, Kind, Place, Sketch, Status, Verdict};
use norns_trace::trace::{Object, Symbol, Thread};
use norns_trace::{
    Access, Event, EventIndex, ObjectId, ObjectKind, Op, PlaceId, SourcePlace, ThreadId, Trace,
};

const BANK: &str = "#include <pthread.h>

int balance;

void *deposit(void *arg) {
    int old = balance;
    balance = old + 10;
    return 0;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, deposit, 0);
    pthread_create(&b, 0, deposit, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
}
";

fn sources(file: &str) -> Option<String> {
    (file == "bank.c").then(|| BANK.to_string())
}

/// A trace of three threads from (thread, operation, line) triples; `balance` is the one global.
fn trace(events: &[(u32, Op, u32)]) -> Trace {
    let names = ["T0", "T0.1", "T0.2"];
    let mut trace = Trace {
        threads: names
            .iter()
            .enumerate()
            .map(|(at, name)| Thread {
                name: (*name).into(),
                parent: (at > 0).then_some(ThreadId(0)),
            })
            .collect(),
        symbols: vec![Symbol {
            address: 0x4000,
            size: 4,
            name: "balance".into(),
        }],
        ..Trace::default()
    };
    for name in ["a", "b"] {
        trace.objects.push(Object {
            kind: ObjectKind::Mutex,
            address: 0,
            name: name.into(),
        });
    }
    for &(thread, op, line) in events {
        let function = if thread == 0 { "main" } else { "deposit" };
        let frame = SourcePlace {
            function: function.into(),
            file: "bank.c".into(),
            line,
            column: 0,
        };
        let place = PlaceId::from_index(trace.places.len());
        trace.places.push(norns_trace::Place {
            pc: 0x1000,
            frames: vec![frame],
        });
        trace.events.push(Event {
            thread: ThreadId(thread),
            place,
            op,
        });
    }
    trace
}

fn place(line: u32, thread: &str, access: AccessKind) -> Place {
    Place {
        file: "bank.c".into(),
        line,
        function: "deposit".into(),
        thread: thread.into(),
        access,
    }
}

fn lost_update() -> (Finding, Sketch) {
    let balance = Access {
        address: 0x4000,
        size: 4,
    };
    let trace = trace(&[
        (0, Op::Fork(ThreadId(1)), 13),
        (0, Op::Fork(ThreadId(2)), 14),
        (1, Op::Start, 5),
        (1, Op::Read(balance), 6),
        (1, Op::Write(balance), 7),
        (1, Op::End, 9),
        (2, Op::Start, 5),
        (2, Op::Read(balance), 6),
        (2, Op::Write(balance), 7),
        (2, Op::End, 9),
        (0, Op::Join(ThreadId(1)), 15),
        (0, Op::Join(ThreadId(2)), 16),
    ]);
    let finding = Finding {
        id: "3f9a".into(),
        kind: Kind::DataRace,
        status: Status::Confirmed,
        places: vec![
            place(7, "T0.1", AccessKind::Write),
            place(6, "T0.2", AccessKind::Read),
        ],
        witness: None,
        verdict: Some(Verdict::Confirmed(
            "both threads stopped with the accesses next".into(),
        )),
        rule: None,
        region: None,
        known: false,
        object: Some("balance".into()),
        consequence: None,
        variants: Vec::new(),
    };
    let witness = Witness {
        schedule: [0, 1, 2, 3, 6].map(EventIndex).to_vec(),
        bug: Bug::Race {
            first: EventIndex(4),
            second: EventIndex(7),
        },
    };
    let sketch = norns_report::sketch(&trace, &witness, &finding, &sources);
    (finding, sketch)
}

fn inverted_locks() -> (Finding, Sketch) {
    let (a, b) = (ObjectId(0), ObjectId(1));
    let trace = trace(&[
        (0, Op::Fork(ThreadId(1)), 13),
        (0, Op::Fork(ThreadId(2)), 14),
        (1, Op::Start, 5),
        (1, Op::Lock(a), 6),
        (1, Op::Lock(b), 7),
        (1, Op::Unlock(b), 8),
        (1, Op::Unlock(a), 8),
        (2, Op::Start, 5),
        (2, Op::Lock(b), 6),
        (2, Op::Lock(a), 7),
        (2, Op::Unlock(a), 8),
        (2, Op::Unlock(b), 8),
    ]);
    let finding = Finding {
        id: "81c2".into(),
        kind: Kind::Deadlock,
        status: Status::Predicted,
        places: vec![
            place(7, "T0.1", AccessKind::Lock),
            place(7, "T0.2", AccessKind::Lock),
        ],
        witness: None,
        verdict: None,
        rule: None,
        region: None,
        known: false,
        object: Some("a, b".into()),
        consequence: None,
        variants: Vec::new(),
    };
    let witness = Witness {
        schedule: [0, 1, 2, 3, 7, 8].map(EventIndex).to_vec(),
        bug: Bug::LockDeadlock {
            blocked: vec![EventIndex(4), EventIndex(9)],
        },
    };
    let sketch = norns_report::sketch(&trace, &witness, &finding, &sources);
    (finding, sketch)
}

/// Compares with the kept file; `UPDATE_SNAPSHOTS=1` writes it anew.
fn check(name: &str, actual: &str) {
    let path = format!("{}/tests/snapshots/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, actual).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == actual,
        "{name} differs; UPDATE_SNAPSHOTS=1 accepts this:\n{actual}"
    );
}

#[test]
fn a_race_in_the_terminal() {
    use norns_report::terminal::{Style, show};
    check("race.txt", &show(&lost_update().1, Style::Plain));
}

#[test]
fn a_deadlock_in_the_terminal() {
    use norns_report::terminal::{Style, show};
    check("deadlock.txt", &show(&inverted_locks().1, Style::Plain));
}

#[test]
fn the_list_has_a_line_a_finding_and_a_summary() {
    use norns_report::terminal::{Style, list, next};
    let findings = Findings {
        format: 1,
        findings: vec![
            inverted_locks().0,
            lost_update().0,
            // The same object once more, elsewhere.
            Finding {
                id: "77aa".into(),
                places: vec![
                    place(7, "T0.1", AccessKind::Write),
                    place(8, "T0.2", AccessKind::AtomicRead),
                ],
                rule: None,
                region: None,
                known: true,
                variants: vec![lost_update().0],
                ..lost_update().0
            },
        ],
        undecided: 2,
        not_analysed: vec![NotAnalysed::ReadBack(
            "3 files were not compiled by norns-cc".into(),
        )],
        recordings: None,
        scan: None,
    };
    let list = list(&findings, Style::Plain) + &next(&findings);
    check("list.txt", &list);
    check("junit.xml", &norns_report::ci::junit(&findings, "bank"));
    check("github.txt", &norns_report::ci::github(&findings));
}

/// A deadlock that is predicted, and two races of one object, of which one has a variant.
fn sketches() -> Vec<Sketch> {
    let (finding, other) = lost_update();
    let mut race = other.clone();
    race.complete(&Finding {
        id: "77aa".into(),
        variants: vec![finding.clone()],
        ..finding
    });
    vec![race, inverted_locks().1, other]
}

#[test]
fn both_findings_as_a_page() {
    check("report.html", &norns_report::html::page(&sketches(), None));
}

#[test]
#[ignore = "starts Chromium: run by ./test --peers"]
fn the_page_is_right_in_a_browser() {
    let page = norns_report::html::page(&sketches(), None);
    assert_eq!(browser::problems("right", &page), Vec::<String>::new());
    // The probe can see what it looks for.
    let faint = page.replace("--dim:#5d6673", "--dim:#a0a0a0");
    let crossing = faint.replace("V90 H258", "V105 H335");
    let wide = crossing.replace("<article ", "<article style=\"width:2000px\" ");
    let foreign = wide.replace("</body>", "<script>alert(1)</script></body>");
    assert_ne!(wide, crossing);
    let problems = browser::problems("wrong", &foreign).join("\n");
    for sign in [
        "contrast 2.6",
        "an arrow crosses",
        "pixels wide",
        "Content Security Policy",
    ] {
        assert!(problems.contains(sign), "{sign} is not in\n{problems}");
    }
}

#[test]
fn machine_formats() {
    use norns_report::sarif::{Entry, log};
    let (mut race, deadlock) = (lost_update().1, inverted_locks().1);
    race.complete(&Finding {
        variants: vec![lost_update().0],
        ..lost_update().0
    });
    let entries = [
        Entry {
            sketch: &race,
            fingerprint: "00ff",
            known: false,
        },
        Entry {
            sketch: &deadlock,
            fingerprint: "11ee",
            known: true,
        },
    ];
    let pretty = |value| serde_json::to_string_pretty(&value).unwrap() + "\n";
    check("report.sarif", &pretty(log(&entries, "0.0.0")));
    check(
        "perfetto.json",
        &pretty(norns_report::perfetto::trace(&race)),
    );
    check("sketch.json", &pretty(serde_json::to_value(&race).unwrap()));
}

#[test]
fn a_sketch_reads_back() {
    let (_, sketch) = lost_update();
    let text = serde_json::to_string(&sketch).unwrap();
    assert_eq!(serde_json::from_str::<Sketch>(&text).unwrap(), sketch);
}

#[test]
fn fifty_threads_and_ten_thousand_steps_stay_small() {
    let mut trace = trace(&[]);
    let balance = Access {
        address: 0x4000,
        size: 4,
    };
    trace.places.push(norns_trace::Place::default());
    for thread in 3..50 {
        let name = format!("T0.{thread}");
        trace.threads.push(Thread {
            name,
            parent: Some(ThreadId(0)),
        });
    }
    for step in 0..10_000_u32 {
        let op = if step % 3 == 0 {
            Op::Lock(ObjectId(0))
        } else {
            Op::Write(balance)
        };
        let op = if step % 3 == 2 {
            Op::Unlock(ObjectId(0))
        } else {
            op
        };
        trace.events.push(Event {
            thread: ThreadId(step / 3 % 50),
            place: PlaceId(0),
            op,
        });
    }
    let finding = lost_update().0;
    let witness = Witness {
        schedule: (0..9_900).map(EventIndex).collect(),
        bug: Bug::Race {
            first: EventIndex(9_901),
            second: EventIndex(9_904),
        },
    };
    let sketch = norns_report::sketch(&trace, &witness, &finding, &sources);
    let page = norns_report::html::page(std::slice::from_ref(&sketch), None);
    assert!(page.len() < 500_000, "{} bytes", page.len());
    assert!(sketch.ran.rows.len() <= 30 && sketch.can.rows.len() <= 30);
}

#[test]
fn hostile_names_stay_text() {
    use norns_report::terminal::{Style, show};
    let (_, mut sketch) = lost_update();
    sketch.title = "</title><script>alert(1)</script>\x1b[2J".into();
    sketch.lanes[0].function = "\u{202e}<img src=x onerror=alert(1)>".into();
    sketch.operations[0].file = "\"><script>alert(1)</script>".into();
    let page = norns_report::html::page(&[sketch.clone()], None);
    assert!(!page.contains("<script>alert") && !page.contains("<img"));
    assert!(!page.contains('\x1b') && !page.contains('\u{202e}'));
    let text = show(&sketch, Style::Plain);
    assert!(!text.contains('\x1b') && !text.contains('\u{202e}'));
}
