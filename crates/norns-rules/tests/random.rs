//! The simple words on random runs: what a sentence means, written down again in Rust, against the CSPM that it
//! stands for.

use std::time::Duration;

use norns_random::Random;
use norns_rules::{Aspect, Limits, Observed, Property};
use norns_trace::Trace;
use norns_trace::trace::Thread;

const LIMITS: Limits = Limits {
    time: Duration::from_secs(20),
    memory_bytes: 1 << 30,
};
const RUNS: u64 = 120;

/// Name, thread and value of an event.
type Happened = (&'static str, usize, u64);

fn run_of(events: &[Happened], has_value: bool) -> Vec<Observed> {
    let observed = events.iter().map(|&(name, thread, value)| {
        let (name, word) = name.split_once(' ').unwrap_or((name, ""));
        let mut fields = Vec::new();
        if !word.is_empty() {
            fields.push(word.to_string());
        } else if has_value {
            fields.push(value.to_string());
        }
        Observed {
            thread: format!("T{thread}"),
            name: name.into(),
            fields,
        }
    });
    observed.collect()
}

/// Compares a sentence with its meaning on random runs of these events.
fn check(
    aspect: &str,
    sentence: &str,
    names: &[&'static str],
    has_value: bool,
    longest: usize,
    is_wrong: impl Fn(&[Happened]) -> bool,
) {
    let mut aspect = Aspect::parse(aspect).expect("the aspect is right");
    let property = Property::parse("rules", sentence, &mut aspect).expect("the sentence is right");
    let threads = (0..3).map(|number| Thread {
        name: format!("T{number}"),
        parent: None,
    });
    let trace = Trace {
        threads: threads.collect(),
        ..Trace::default()
    };
    let mut seen = [0, 0];
    for seed in 0..RUNS {
        let mut random = Random::new(seed);
        let length = 1 + random.below(longest);
        let events: Vec<Happened> = (0..length)
            .map(|_| {
                let name = names[random.below(names.len())];
                (name, random.below(3), random.below(2) as u64)
            })
            .collect();
        let run = run_of(&events, has_value);
        let found = property
            .is_broken_by(&trace, 0, &run, LIMITS)
            .expect("the script is right");
        let expected = is_wrong(&events);
        seen[usize::from(expected)] += 1;
        assert_eq!(
            found.is_some(),
            expected,
            "`{sentence}` on {events:?} (seed {seed})"
        );
    }
    assert!(
        seen.iter().all(|&count| count > RUNS / 20),
        "`{sentence}`: {seen:?}"
    );
}

const AB: &str = "a(#0) before call a\nb(#0) before call b";

/// A rule about A and B, for all values together and for each apart.
fn check_pair(sentence: &str, is_wrong: impl Fn(&[Happened]) -> bool) {
    check(AB, sentence, &["a", "b"], true, 8, &is_wrong);
    let each = format!("{sentence} for each #0");
    check(AB, &each, &["a", "b"], true, 8, |events| {
        [0, 1].iter().any(|value| {
            let own: Vec<Happened> = { events.iter() }
                .filter(|(_, _, other)| other == value)
                .copied()
                .collect();
            is_wrong(&own)
        })
    });
}

#[test]
fn never() {
    check_pair("never a then b", |events| {
        let first = events.iter().position(|event| event.0 == "a");
        first.is_some_and(|first| events[first..].iter().any(|event| event.0 == "b"))
    });
}

#[test]
fn always() {
    check_pair("always a before b", |events| {
        events.first().is_some_and(|event| event.0 == "b")
    });
}

#[test]
fn alternate() {
    check_pair("a and b alternate", |events| {
        let mut names = events.iter().map(|event| event.0).enumerate();
        names.any(|(i, name)| name != ["a", "b"][i % 2])
    });
}

#[test]
fn at_most() {
    check_pair("at most 2 between a and b", |events| {
        let mut open = 0;
        events.iter().any(|event| {
            open = match event.0 {
                "a" => open + 1,
                _ => u32::saturating_sub(open, 1),
            };
            open > 2
        })
    });
}

#[test]
fn atomic() {
    let names = ["enter_f", "exit_f", "access_x load", "access_x store"];
    check("", "atomic f on x", &names, false, 24, |events| {
        (0..3).any(|thread| is_not_atomic(events, thread))
    });
}

/// The five patterns of Figure 6.18 of Carril (2017): two accesses of the thread in its body, nothing of its own
/// between them, and an access of another thread that no order of whole bodies could put there.
fn is_not_atomic(events: &[Happened], thread: usize) -> bool {
    let is_own = |event: &Happened| event.1 == thread;
    let accesses = |event: &Happened| event.0.starts_with("access");
    (0..events.len()).any(|second| {
        let event = &events[second];
        if !is_own(event) || !accesses(event) {
            return false;
        }
        // The last event of the same thread, which must be an access in the same body.
        let Some(first) = events[..second].iter().rposition(is_own) else {
            return false;
        };
        let mut bodies = events[..second].iter().rev().filter(|event| is_own(event));
        let inside = bodies.find(|event| !accesses(event));
        if !accesses(&events[first]) || inside.is_none_or(|event| event.0 != "enter_f") {
            return false;
        }
        let between = &events[first + 1..second];
        let others = |word: &str| between.iter().any(|event| event.0 == word);
        let [one, two] = [events[first].0, event.0].map(|name| name == "access_x store");
        others("access_x store") || one && two && others("access_x load")
    })
}
