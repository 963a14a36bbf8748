//! Exits of wait loops that never waited: what made their condition true comes first.

use norns_model::script::trace;

/// The words of the events of a script, as they are understood.
fn understood(script: &str) -> String {
    let mut trace = trace(script);
    trace.understand();
    let once = trace.clone();
    trace.understand();
    assert_eq!(trace.events, once.events);
    let words = trace.events.iter().map(|event| {
        let thread = &trace.thread(event.thread).name;
        format!("{thread} {}", event.op.kind().word)
    });
    words.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_section_that_wrote_what_the_loop_read_comes_first() {
    assert_eq!(
        understood(
            "A: lock m, write x, signal c, unlock m
             B: lock m, read x, loop-exit c, unlock m"
        ),
        "A lock, A write, A signal, A send, A unlock, B lock, B read, B receive, B unlock"
    );
    // The first one may have been enough.
    assert_eq!(
        understood(
            "A: lock m, write x, unlock m, lock m, write x, unlock m
             B: lock m, read x, loop-exit c, unlock m"
        ),
        "A lock, A write, A send, A unlock, A lock, A write, A unlock, \
         B lock, B read, B receive, B unlock"
    );
}

#[test]
fn a_section_that_did_something_else_does_not() {
    assert_eq!(
        understood(
            "A: lock m, write y, signal c, unlock m
             B: lock m, read x, loop-exit c, unlock m"
        ),
        "A lock, A write, A signal, A unlock, B lock, B read, B loop-exit, B unlock"
    );
}

#[test]
fn without_known_reads_the_signal_counts() {
    assert_eq!(
        understood(
            "A: lock m, unlock m, signal c
             B: lock m, loop-exit c, unlock m"
        ),
        "A lock, A send, A unlock, A signal, B lock, B receive, B unlock"
    );
}

#[test]
fn a_loop_that_waited_is_left_as_it_is() {
    assert_eq!(
        understood(
            "B: lock m, read x, unlock m
             A: lock m, write x, signal c, unlock m
             B: wait c, lock m, read x, loop-exit c, unlock m"
        ),
        "B lock, B read, B unlock, A lock, A write, A signal, A unlock, \
         B wait, B lock, B read, B loop-exit, B unlock"
    );
}
