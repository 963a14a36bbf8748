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
