//! From the accesses of a few runs to what predicts the failure.

use norns_sketch::predictor::{self, Fact};
use norns_sketch::{Facts, Predictor, Slice};
use norns_trace::{
    Access, Event, EventIndex, Op, Place, PlaceId, SourcePlace, Thread, ThreadId, Trace,
};

/// A run in one line: `1r10` is thread 1 that reads the location `x` at line 10, `2w20=5` thread 2 that
/// writes 5 to it at line 20; `R` and `W` access another location, `m` reads many bytes around `x`; `+` allocates
/// the location anew and `-` frees it.
fn run(text: &str) -> Trace {
    let mut trace = Trace {
        accesses_ordered: true,
        places: vec![Place::default()],
        ..Trace::default()
    };
    for name in ["T0", "T0.1", "T0.2", "T0.3"] {
        trace.threads.push(Thread {
            name: name.into(),
            parent: None,
        });
    }
    for (index, word) in text.split_whitespace().enumerate() {
        let (act, value) = word.split_once('=').unwrap_or((word, ""));
        let thread = act[..1].parse().unwrap();
        let line: u32 = act[2..].parse().unwrap();
        let (address, size) = match &act[1..2] {
            "R" | "W" => (0x2000, 4),
            "m" => (0xff0, 64),
            _ => (0x1000, 4),
        };
        let access = Access { address, size };
        let op = match &act[1..2] {
            "r" | "R" | "m" => Op::Read(access),
            "W" => Op::Write(access),
            "w" => Op::Write(access),
            "+" => Op::Allocate(access),
            "-" => Op::Free(access),
            other => panic!("{other} is no access"),
        };
        let place = PlaceId::from_index(trace.places.len());
        trace.places.push(Place {
            pc: u64::from(line),
            frames: vec![SourcePlace {
                function: "f".into(),
                file: "a.c".into(),
                line,
                column: 1,
            }],
        });
        trace.events.push(Event {
            thread: ThreadId(thread),
            place,
            op,
        });
        if let Ok(value) = value.parse::<i32>() {
            let bytes = value.to_le_bytes().to_vec();
            let reads = matches!(op, Op::Read(_));
            trace.values.push(norns_trace::trace::Value {
                event: EventIndex::from_index(index),
                read: if reads { bytes.clone() } else { Vec::new() },
                written: if reads { Vec::new() } else { bytes },
            });
        }
    }
    trace
}

fn ranked(failing: &[&str], good: &[&str]) -> Vec<Predictor> {
    let facts = |runs: &[&str]| {
        runs.iter()
            .map(|text| Facts::of(&run(text)))
            .collect::<Vec<_>>()
    };
    let (failing, good) = (facts(failing), facts(good));
    let failing: Vec<&Facts> = failing.iter().collect();
    let good: Vec<&Facts> = good.iter().collect();
    predictor::rank(&failing, &good, failing[0], None, &Slice::default())
}

/// The best predictor: its pattern or kind, and its lines.
fn check(failing: &[&str], good: &[&str], pattern: &str, lines: &[u64]) {
    let all = ranked(failing, good);
    let best = all
        .first()
        .unwrap_or_else(|| panic!("nothing predicts {failing:?}"));
    let name = match &best.fact {
        Fact::Order { pattern, .. } => pattern.name(),
        Fact::Branch { .. } | Fact::Value { .. } => best.kind(),
    };
    assert_eq!((name, &best.statements()[..]), (pattern, lines), "{all:#?}");
}

#[test]
fn an_order_that_only_failing_runs_have() {
    check(&["0w1 0w2 1r3"], &["0w1 1r3 0w2"], "WR", &[2, 3]);
}

#[test]
fn an_access_that_comes_too_early() {
    // The failing run ends with the read.
    check(&["1r3"], &["0w2 1r3"], "RW", &[3, 2]);
}

#[test]
fn what_threads_do_alike_is_no_order() {
    // The second thread has not run yet: that does not make the first one early.
    let good = ["1r3 1w4 2r3 2w4", "2r3 2w4 1r3 1w4"];
    let all = ranked(&["1r3 1w4"], &good);
    assert!(
        all.iter().all(|predictor| predictor.precision() < 1.0),
        "{all:#?}"
    );
}

#[test]
fn a_lost_update_is_a_broken_step_and_not_an_order() {
    let good = ["1r3 1w4 2r3 2w4", "2r3 2w4 1r3 1w4"];
    check(
        &["1r3 2r3 2w4 1w4", "2r3 1r3 1w4 2w4"],
        &good,
        "RWW",
        &[3, 4, 4],
    );
}

#[test]
fn a_step_that_good_runs_have_on_either_side() {
    let good = ["0w9 1r3 1r4 2w5", "0w9 2w5 1r3 1r4"];
    check(&["0w9 1r3 2w5 1r4"], &good, "RWR", &[3, 5, 4]);
}

#[test]
fn memory_that_is_handed_out_again_is_other_memory() {
    let all = ranked(&["1w3 1-4 2+5 2r6"], &["1w3"]);
    let is_order = |predictor: &&Predictor| matches!(predictor.fact, Fact::Order { .. });
    assert_eq!(all.iter().find(is_order), None);
    check(&["1w3 1-4 2r6"], &["1w3 2r6 1-4"], "WR", &[4, 6]);
}

/// Two variables that are written together and read together: `r` and `w` are accesses to one of them, `R` and `W`
/// to the other.
#[test]
fn a_step_about_two_variables() {
    let good = ["1w1 1W2 2r3 2R4", "2r3 2R4 1w1 1W2"];
    check(
        &["2r3 1w1 1W2 2R4", "2r3 1w1 1W2 2R4"],
        &good,
        "RWR",
        &[3, 2, 4],
    );
}

/// The failing run ends before the second write.
#[test]
fn a_step_about_two_variables_that_is_not_finished() {
    let good = ["1w1 1W2 2r3 2R4", "2r3 2R4 1w1 1W2", "2r3 1w1 2R4 1W2"];
    let failing = "1w1 1W2 1w1 2r3 2R4";
    check(&[failing, failing], &good, "WR", &[1, 4]);
}

/// `memcpy` reads all of a structure, one part of which is written elsewhere.
#[test]
fn an_access_to_a_part_of_a_wide_one() {
    check(&["1m3 0w2"], &["0w2 1m3"], "RW", &[3, 2]);
    check(&["0w2 1m3"], &["1m3 0w2"], "WR", &[2, 3]);
}

#[test]
fn a_value_that_only_failing_runs_have() {
    check(
        &["0w1=-1 0r2=-1"],
        &["0w1=3 0r2=3", "0w1=5 0r2=5"],
        "value",
        &[1],
    );
}

#[test]
fn precision_counts_more_than_recall() {
    // Line 2 before line 3 is in every failing run and in one good one; 4 before 3 in one failing run only.
    let failing = ["0w2 1r3", "0w2 1r3", "0w2 0w4 1r3"];
    let all = ranked(&failing, &["0w2 1r3", "1r3", "1r3 0w2"]);
    let find = |lines: &[u64]| all.iter().find(|one| one.statements() == lines).unwrap();
    let (common, rare) = (find(&[2, 3]), find(&[4, 3]));
    assert_eq!((common.precision(), common.recall()), (0.75, 1.0));
    assert!((common.f() - 0.789).abs() < 0.001, "{}", common.f());
    assert_eq!((rare.precision(), rare.recall()), (1.0, 1.0 / 3.0));
    assert!((rare.f() - 0.714).abs() < 0.001, "{}", rare.f());
}

#[test]
fn few_runs_say_little() {
    let few = &ranked(&["0w2 1r3"], &["1r3 0w2"])[0];
    let many = &ranked(&["0w2 1r3"; 20], &["1r3 0w2"; 20])[0];
    assert_eq!((few.f(), many.f()), (1.0, 1.0));
    assert!(
        few.precision_at_least() < 0.3,
        "{}",
        few.precision_at_least()
    );
    assert!(
        many.precision_at_least() > 0.85,
        "{}",
        many.precision_at_least()
    );
}

#[test]
fn the_same_runs_give_the_same_answer() {
    let failing = ["0w1=1 1r3=1 0w2=2 1w4=7", "1r3=0 0w2=3 1w4=2"];
    let good = ["0w1=1 0w2=3 1r3=3 1w4=4", "0w1=4 1r3=4 1w4=9 0w2=1"];
    let text = |all: Vec<Predictor>| format!("{all:?}");
    assert_eq!(text(ranked(&failing, &good)), text(ranked(&failing, &good)));
}

#[test]
fn facts_are_plain_data() {
    let facts = Facts::of(&run("0w1=1 1r3=1 0w2=2 1w4=7 0-5"));
    let text = serde_json::to_string(&facts).unwrap();
    assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);
    assert!(text.starts_with("{\"format\":1,"), "{text}");
}
