//! A budget ends a check wherever it is: while it evaluates, compiles, compresses or searches.

use std::time::{Duration, Instant};

use norns_csp::Budget;
use norns_csp::check::Options;
use norns_csp::script::{Answer, Script, no_includes};

fn answer(text: &str, budget: Budget) -> Answer {
    let mut script = Script::load("test", text, &mut no_includes).expect("the script is right");
    let options = Options {
        budget,
        ..Options::default()
    };
    let (answer, _) = script.check(0, &options, &mut |_| {}).expect("no error");
    answer
}

/// Checks that the only assertion of each script is undecided soon after its time.
fn ends_in_time(scripts: &[(&str, &str)]) {
    for (what, text) in scripts {
        let started = Instant::now();
        let budget = Budget {
            time: Some(Duration::from_millis(200)),
            ..Budget::default()
        };
        let answer = answer(text, budget);
        assert!(matches!(answer, Answer::Undecided(_)), "{what}: {answer:?}");
        let took = started.elapsed();
        // The machine that runs the tests may be busy.
        assert!(took < Duration::from_secs(5), "{what}: {took:?}");
    }
}

#[test]
fn time_ends_evaluation() {
    ends_in_time(&[
        (
            "a renaming that is no shift",
            "channel c, d : {0..3000}.{0..3000}
             P = c.0.0 -> P
             assert STOP [T= P[[c.x.y <- d.y.x | x <- {0..3000}, y <- {0..3000}]]",
        ),
        (
            "a set that is listed",
            "channel c : {0..3000}.{0..3000}
             P(S) = [] e : S @ e -> P(S)
             assert STOP [T= P({c.x.y | x <- {0..3000}, y <- {0..3000}, x > 2000})",
        ),
        (
            "unions of sets",
            "channel c : {0..1}
             grow(S, n) = if n == 0 then S else grow(union(S, {(n, x) | x <- {0..1000}}), n - 1)
             assert STOP [T= c!(card(grow({}, 1000)) % 2) -> STOP",
        ),
        (
            "all subsets",
            "channel c : {0..1}
             assert STOP [T= c!(card(Set({1..24})) % 2) -> STOP",
        ),
        (
            "a long computation",
            "channel c : {0..1}
             down(n) = if n == 0 then 0 else down(n - 1)
             long(n) = if n == 0 then 0 else down(1000) + long(n - 1)
             assert STOP [T= c!(long(30000) % 2) -> STOP",
        ),
    ]);
}

#[test]
fn time_ends_compiling() {
    ends_in_time(&[
        (
            "one state of a large process",
            "channel c : {0..400}.{0..400}
             P(n) = if n == 0 then c?x?y -> P(0) else (P(n - 1) [| {} |] c?x?y -> P(n)) \\ {c.n.n}
             assert STOP [F= P(60)",
        ),
        (
            "a compression",
            "transparent wbisim
             channel a, b : {0..1}
             P(n, m) = a.(n % 2) -> P((n * 7 + m) % 1009, m) [] b.(m % 2) -> P(m, (n + 1) % 997)
             assert CHAOS({|a, b|}) [F= wbisim(P(0, 0) \\ {a.0, b.1})",
        ),
    ]);
}

#[test]
fn memory_ends_evaluation() {
    for text in [
        "channel c : {0..1}
         P(s) = c.0 -> P(s^<1>)
         assert P(<>) :[deadlock free]",
        "channel c : {0..1}
         table = <<(n, x) | x <- <0..9000>> | n <- <1..3000>>
         total(<>) = 0
         total(<s>^rest) = #s + total(rest)
         assert STOP [T= c!(total(table) % 2) -> STOP",
        "channel c : {0..1}
         assert STOP [T= c!(card(Set({1..19})) % 2) -> STOP",
        "channel c : {0..1}
         assert STOP [T= c!(length(concat(<<0..x> | x <- <0..3000>>)) % 2) -> STOP",
        "channel c, d : {0..999}
         P = c?x -> P
         assert P[[c.x <- d.y | x <- {0..999}, y <- {0..999}]] :[deadlock free [F]]",
    ] {
        let budget = Budget {
            bytes: Some(32 << 20),
            time: Some(Duration::from_secs(60)),
            ..Budget::default()
        };
        let Answer::Undecided(why) = answer(text, budget) else {
            panic!("{text} was decided in 32 MB");
        };
        assert!(
            !why.contains("time") && !why.contains(" s "),
            "{text}: {why}"
        );
    }
}

/// A component without end uses up what compiling may spend; what is known of it is searched then.
#[test]
fn a_violation_near_the_start_of_an_endless_component_is_found() {
    let time = Budget {
        time: Some(Duration::from_secs(2)),
        ..Budget::default()
    };
    let bytes = Budget {
        bytes: Some(30 << 20),
        ..Budget::default()
    };
    let states = Budget {
        states: Some(10_000),
        ..Budget::default()
    };
    let text = "channel a, b
        P(n) = a -> P(n + 1)
        assert STOP [T= P(0) ||| b -> STOP";
    for budget in [time, bytes, states] {
        let answer = answer(text, budget);
        assert!(matches!(answer, Answer::Fails(Some(_))), "{answer:?}");
    }
}

#[test]
fn memory_ends_the_joining_of_components() {
    let text = "channel c, d : {0..499}
        P = c?x -> P
        assert (P ||| P ||| P)[[c.x <- d.y | x <- {0..499}, y <- {0..499}]] :[deadlock free [F]]";
    let budget = |megabytes: u64| Budget {
        bytes: Some(megabytes << 20),
        ..Budget::default()
    };
    let Answer::Undecided(why) = answer(text, budget(90)) else {
        panic!("750,000 rules were joined in 90 MB");
    };
    assert!(why.contains("joining"), "{why}");
    let answer = answer(text, budget(2000));
    assert!(matches!(answer, Answer::Holds), "{answer:?}");
}
