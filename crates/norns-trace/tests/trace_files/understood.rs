//! What reading adds to the events of a file: uses of objects whose life may end too early, and locks
//! that are handed over.

use norns_trace::item::{Collector, items};
use norns_trace::text::{Parser, Printer};
use norns_trace::{Item, Trace};

/// A trace of two threads, a mutex at 0x10 and a condition at 0x20.
fn trace(events: &str) -> Trace {
    let head = "norns-trace 1\nthread T0\nthread T1 T0\nobject mutex 0x10\nobject condition 0x20\n\
                place 0x1\n";
    let mut parser = Parser::default();
    let mut collector = Collector::default();
    for line in head.lines().chain(events.lines()) {
        let line = line.trim();
        let line = match line.split_whitespace().next() {
            Some("T0" | "T1") => format!("{line} @0"),
            _ => line.to_string(),
        };
        if let Some(item) = parser.parse(&line).expect("a line of a trace") {
            collector.push(item);
        }
    }
    collector.finish().0
}

fn events(trace: &Trace) -> Vec<String> {
    let mut printer = Printer::default();
    let mut lines = Vec::new();
    for item in items(trace) {
        let mut line = String::new();
        printer.print(&item, &mut line);
        if matches!(item, Item::Event(..)) {
            let event = line.split(" @").next().unwrap_or_default();
            lines.push(event.to_string());
        }
    }
    lines
}

fn check(before: &str, after: &str) {
    let mut trace = trace(before);
    for _ in 0..2 {
        trace.understand();
        let expected: Vec<&str> = after.lines().map(str::trim).collect();
        assert_eq!(events(&trace), expected);
    }
}

#[test]
fn a_lock_is_a_use_of_a_mutex_that_another_thread_destroys() {
    check(
        "T0 fork T1
         T1 lock o0
         T1 unlock o0
         T0 destroy 0x10 1",
        "T0 fork T1
         T1 use 0x10 1
         T1 lock o0
         T1 use 0x10 1
         T1 unlock o0
         T0 destroy 0x10 1",
    );
}

#[test]
fn a_wait_uses_its_mutex_and_its_condition() {
    check(
        "T1 lock o0
         T1 unlock o0
         T1 wait o1
         T1 lock o0
         T0 free 0x0 64",
        "T1 use 0x10 1
         T1 lock o0
         T1 use 0x10 1
         T1 use 0x20 1
         T1 unlock o0
         T1 wait o1
         T1 lock o0
         T1 use 0x10 1
         T0 free 0x0 64",
    );
}

#[test]
fn what_joined_threads_used_may_be_destroyed() {
    let events = "T0 fork T1
                  T1 lock o0
                  T1 unlock o0
                  T1 end
                  T0 join T1
                  T0 destroy 0x10 1";
    check(events, events);
}

#[test]
fn a_mutex_that_another_thread_unlocks_is_handed_over() {
    check(
        "T0 lock o0
         T1 failed-lock o0
         T1 unlock o0
         T0 lock o0
         T0 unlock o0
         T0 unlock o0",
        "T0 take o0
         T1 failed-take o0
         T1 give o0
         T0 take o0
         T0 give o0
         T0 unlock o0",
    );
}

#[test]
fn a_mutex_of_a_wait_is_not_handed_over() {
    let events = "T0 lock o0
                  T1 unlock o0
                  T1 wait o1
                  T1 lock o0";
    check(events, events);
}
