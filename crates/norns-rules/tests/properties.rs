//! Properties over small traces: the use cases of chapter 6 of Carril (2017), and the simple words.

use std::time::Duration;

use norns_model::script::trace;
use norns_rules::{Aspect, Limits, Observed, Property};
use norns_trace::{Op, Trace};

const LIMITS: Limits = Limits {
    time: Duration::from_secs(20),
    memory_bytes: 1 << 30,
};

/// The events of every schedule that breaks a rule, one a line; each must break it again as a run.
fn broken(aspect: &str, property: &str, script: &str) -> String {
    let mut aspect = Aspect::parse(aspect).expect("the aspect is right");
    let property = match Property::parse("rules.csp", property, &mut aspect) {
        Ok(property) => property,
        Err(error) => return error.to_string(),
    };
    let trace = trace(script);
    let checked = property.check(&trace, LIMITS).expect("the script is right");
    assert_eq!(checked.undecided, []);
    let mut lines = Vec::new();
    for broken in checked.broken {
        let run: Vec<Observed> = { broken.events.iter() }
            .map(|event| observed(&trace, event.index()))
            .collect();
        let again = property.is_broken_by(&trace, broken.assertion, &run, LIMITS);
        assert!(again.expect("the script is right").is_some(), "{run:?}");
        let shorter = &run[..run.len() - 1];
        let again = property.is_broken_by(&trace, broken.assertion, shorter, LIMITS);
        assert_eq!(again.expect("the script is right"), None, "{run:?}");
        let names = run
            .iter()
            .map(|event| format!("{} {}", event.thread, event.name));
        lines.push(names.collect::<Vec<_>>().join(", "));
    }
    lines.join("\n")
}

fn observed(trace: &Trace, event: usize) -> Observed {
    let event = trace.events[event];
    let Op::Custom(custom) = event.op else {
        panic!("only custom events are shown");
    };
    let custom = &trace.customs[custom as usize];
    Observed {
        thread: trace.thread(event.thread).name.clone(),
        name: custom.name.clone(),
        fields: custom.fields.clone(),
    }
}

const FILE_ASPECT: &str = "open(#return) after call open_file
close(#0) before call close_file
access(#0) before call write_file";

/// Appendix A.2.5.
const FILE_PROPERTY: &str = "files = Union({open_arg1,access_arg1,close_arg1})
channel open: thread.files
channel access: thread.files
channel close: thread.files
FILE(p) = open?t.p -> OPENED(p)
OPENED(p) = access?t.p -> OPENED(p)
          [] close?t.p -> FILE(p)
FILES = ||| x : files @ FILE(x)
assert FILES [T= PROGRAM |\\ {|open,access,close|}
             :[partial order reduce [precise]]
";

const FILE_TRACE: &str = "T0: fork T1, event open 7
T1: start, event access 7, end
T0: join T1, event close 7";

#[test]
fn a_file_is_written_before_it_is_open() {
    let found = broken(FILE_ASPECT, FILE_PROPERTY, FILE_TRACE);
    assert_eq!(found, "T1 access");
    let right = "T0: event open 7, fork T1
T1: start, event access 7, end
T0: join T1, event close 7";
    assert_eq!(broken(FILE_ASPECT, FILE_PROPERTY, right), "");
}

#[test]
fn a_lock_can_make_an_order_right() {
    let aspect = "enter before body f\nexit after body f";
    let alternate = "enter and exit alternate";
    let locked = "T0: fork T1, lock m, event enter, event exit, unlock m
T1: start, lock m, event enter, event exit, unlock m, end";
    assert_eq!(broken(aspect, alternate, locked), "");
    let free = "T0: fork T1, event enter, event exit
T1: start, event enter, event exit, end";
    let found = broken(aspect, alternate, free);
    assert!(
        found == "T0 enter, T1 enter" || found == "T1 enter, T0 enter",
        "{found}"
    );
}

#[test]
fn simple_words_say_what_they_mean() {
    let aspect = "a(#0) before call a\nb(#0) before call b";
    let apart = "T0: fork T1, event a 1\nT1: start, event b 1, end";
    assert_eq!(broken(aspect, "never a then b", apart), "T0 a, T1 b");
    assert_eq!(broken(aspect, "never b then a", apart), "T1 b, T0 a");
    assert_eq!(broken(aspect, "always a before b", apart), "T1 b");
    assert_eq!(broken(aspect, "always b before a", apart), "T0 a");
    let ordered = "T0: event a 1, fork T1\nT1: start, event b 1, end";
    assert_eq!(broken(aspect, "always a before b", ordered), "");
    assert_eq!(broken(aspect, "never b then a", ordered), "");
    let objects = "T0: event a 1, fork T1, event a 2\nT1: start, event b 1, end";
    assert_eq!(
        broken(aspect, "never b then a", objects),
        "T0 a, T1 b, T0 a"
    );
    assert_eq!(broken(aspect, "never b then a for each #0", objects), "");
    let two = "T0: fork T1, event a 1, event b 1\nT1: start, event a -2, event b -2, end";
    assert_eq!(broken(aspect, "at most 2 between a and b", two), "");
    assert_eq!(
        broken(aspect, "at most 1 between a and b for each #0", two),
        ""
    );
    assert!(broken(aspect, "at most 1 between a and b", two).ends_with(" a"));
}

#[test]
fn an_update_that_is_not_atomic_is_found() {
    let accesses =
        "event enter_increment, event access_x load, event access_x store, event exit_increment";
    let free = format!("T0: fork T1, {accesses}\nT1: start, {accesses}, end");
    let found = broken("", "atomic increment on x", &free);
    assert!(found.ends_with("access_x"), "{found}");
    let locked = format!(
        "T0: fork T1, lock m, {accesses}, unlock m\nT1: start, lock m, {accesses}, unlock m, end"
    );
    assert_eq!(broken("", "atomic increment on x", &locked), "");
}

#[test]
fn mistakes_are_told_with_their_place() {
    let error = broken("a before call a", "never a then b", "T0: event a");
    assert_eq!(
        error,
        "rules.csp:1: no order of the aspect file emits `b`; there are: a"
    );
    let error = broken("a before call a", "-- x\nnever ever", "T0: event a");
    assert!(
        error.starts_with("rules.csp:2: `never ever` is no rule"),
        "{error}"
    );
    let error = broken(
        "a before call a",
        "assert STOP [T= PROGRAM |\\ {|b|}",
        "T0: event a",
    );
    assert!(error.contains("rules.csp:1"), "{error}");
    let error = broken(
        "lock before call a",
        "never lock then lock",
        "T0: event lock",
    );
    assert!(error.contains("`lock` is the name"), "{error}");
}

#[test]
fn fields_that_do_not_fit_are_told() {
    let error = broken(
        "a(#0) before call a",
        "channel a : thread\nassert STOP [T= PROGRAM |\\ {|a|}",
        "T0: event a 1",
    );
    assert_eq!(
        error,
        "the aspect file gives `a` 1 field after its thread, and the property declares or uses its channel \
         in another way"
    );
    let error = broken(
        "a before call a",
        "channel a : thread.{0..9}\nassert STOP [T= PROGRAM |\\ {|a|}",
        "T0: event a",
    );
    assert!(
        error.starts_with("the aspect file gives `a` 0 fields"),
        "{error}"
    );
}

#[test]
fn a_specification_that_allows_nothing_is_told() {
    let mut aspect = Aspect::parse("a before call a").expect("the aspect is right");
    let check = |property: &str, aspect: &mut Aspect| {
        let property = Property::parse("rules.csp", property, aspect).expect("it is a property");
        let trace = trace("T0: event a");
        property.check(&trace, LIMITS).expect("the script is right")
    };
    let checked = check("S = STOP\nassert S [T= PROGRAM |\\ {|a|}", &mut aspect);
    assert_eq!((checked.broken.len(), checked.allow_nothing.len()), (1, 1));
    // This is how one says that something never happens.
    let checked = check("assert STOP [T= PROGRAM |\\ {|a|}", &mut aspect);
    assert_eq!((checked.broken.len(), checked.allow_nothing.len()), (1, 0));
}

#[test]
fn a_deadlock_is_a_broken_rule() {
    let live = "channel live
LIVE = live -> LIVE
assert LIVE [F= ((PROGRAM [| {endthreads} |> SKIP) \\ diff(Events, {live})) ; LIVE";
    let mut aspect = Aspect::default();
    let property = Property::parse("live.csp", live, &mut aspect).expect("it is a property");
    let check = |script: &str| {
        let checked = property.check(&trace(script), LIMITS);
        let broken = checked.expect("the script is right").broken;
        broken
            .into_iter()
            .map(|broken| broken.deadlock)
            .collect::<Vec<_>>()
    };
    let wrong = "T0: lock m, lock n, unlock n, unlock m
T1: lock n, lock m, unlock m, unlock n";
    let found = check(wrong);
    assert!(
        matches!(&found[..], [Some(norns_model::Bug::LockDeadlock { blocked })] if blocked.len() == 2),
        "{found:?}"
    );
    let right = "T0: lock m, lock n, unlock n, unlock m
T1: lock m, lock n, unlock n, unlock m";
    assert_eq!(check(right), []);
}

/// A thousand events among a million others, in a run that no model checker takes whole.
#[test]
fn a_thousand_events_among_a_million_others() {
    let mut text = String::new();
    // Both threads work under one lock, and use an object under another.
    for round in 0..500 {
        for (thread, event) in [("T0", "put"), ("T1", "take")] {
            let object = round / 10;
            text +=
                &format!("{thread}: lock m, unlock m, lock n, event {event} {object}, unlock n\n");
        }
    }
    let mut whole = trace(&text);
    // What is between them costs nothing in the script: it is put in here.
    let mut events = Vec::new();
    for pair in whole.events.chunks(5) {
        let [lock, unlock, rest @ ..] = pair else {
            panic!("the script has five events for each thread and round");
        };
        for _ in 0..500 {
            events.extend([*lock, *unlock]);
        }
        events.extend(rest);
    }
    assert!(events.len() > 1_000_000);
    whole.events = events;
    let limits = Limits {
        time: Duration::from_secs(6),
        ..LIMITS
    };
    let check = |rule: &str| {
        let mut aspect = Aspect::parse("put(#0) before call put\ntake(#0) before call take")
            .expect("the aspect is right");
        let property = Property::parse("rules", rule, &mut aspect).expect("it is a rule");
        property.check(&whole, limits).expect("the script is right")
    };
    let checked = check("never take then put for each #0");
    assert_eq!(checked.undecided, []);
    let names = checked.broken[0].events.iter().rev().take(2);
    let names: Vec<String> = names
        .map(|event| observed(&whole, event.index()).name)
        .collect();
    assert_eq!(names, ["put", "take"]);
    let checked = check("at most 10 between put and take for each #0");
    assert_eq!((checked.broken, checked.undecided), (vec![], vec![]));
}
