//! What counts as a failure, and which failures are the same.

use norns_replay::Ended;
use norns_sketch::Statement;
use norns_sketch::failure::{FailureKind, Signs, of_run};
use norns_trace::{Access, Event, Op, Place, PlaceId, SourcePlace, Thread, ThreadId, Trace};

fn check(ended: Ended, output: &str, signs: &Signs, expected: Option<(FailureKind, &str)>) {
    let failure = of_run(&ended, output, &Trace::default(), signs);
    let seen = failure
        .as_ref()
        .map(|failure| (failure.kind, failure.what.as_str()));
    assert_eq!(seen, expected, "{ended:?} {output:?}");
}

#[test]
fn what_counts_as_a_failure() {
    let none = Signs::default();
    check(Ended::Exited(0), "", &none, None);
    check(Ended::Exited(3), "", &none, None);
    check(Ended::Stopped, "", &none, None);
    let killed = (FailureKind::Signal, "was killed by SIGSEGV");
    check(Ended::Signalled(11), "", &none, Some(killed));
    check(
        Ended::Signalled(6),
        "",
        &none,
        Some((FailureKind::Abort, "was aborted")),
    );
    check(Ended::Hung, "", &none, Some((FailureKind::Hang, "hung")));
    let late = (FailureKind::Hang, "did not end in time");
    check(Ended::TimedOut, "", &none, Some(late));
    let assertion = "prog: a.c:5: main: Assertion `n > 0' failed.\n";
    let failed = (FailureKind::Assertion, "failed the assertion `n > 0`");
    check(Ended::Signalled(6), assertion, &none, Some(failed));
    let thrown = "terminate called after throwing an instance of 'std::bad_alloc'\n";
    let uncaught = (FailureKind::Terminate, "did not catch `std::bad_alloc`");
    check(Ended::Signalled(6), thrown, &none, Some(uncaught));
    let report = "SUMMARY: AddressSanitizer: heap-use-after-free a.c:7 in main\n";
    let stopped = "was stopped by AddressSanitizer: heap-use-after-free";
    check(
        Ended::Exited(1),
        report,
        &none,
        Some((FailureKind::Sanitizer, stopped)),
    );
    check(Ended::Exited(0), report, &none, None);
    let undefined =
        "a.c:5:28: runtime error: signed integer overflow: 2147483647 + 1 cannot be represented\n";
    let stopped = "was stopped by UndefinedBehaviorSanitizer: signed integer overflow";
    let stopped = (FailureKind::Sanitizer, stopped);
    check(Ended::Exited(1), undefined, &none, Some(stopped));
}

#[test]
fn a_sanitizer_says_where() {
    let place = |output| {
        let failure = of_run(
            &Ended::Exited(1),
            output,
            &Trace::default(),
            &Signs::default(),
        );
        let place = failure.unwrap().place.unwrap();
        (place.file, place.line, place.function)
    };
    let report = "SUMMARY: AddressSanitizer: heap-use-after-free /src/a b.c:7:12 in work\n";
    assert_eq!(place(report), ("/src/a b.c".into(), 7, "work".into()));
    let report = "SUMMARY: AddressSanitizer: heap-use-after-free /src/a.c:7 in work\n";
    assert_eq!(place(report), ("/src/a.c".into(), 7, "work".into()));
    let report = "a.c:5:28: runtime error: division by zero\n";
    assert_eq!(place(report), ("a.c".into(), 5, String::new()));
}

#[test]
fn what_a_user_counts_as_a_failure() {
    let exit = Signs {
        exit: true,
        output: None,
    };
    let exited = (FailureKind::Exit, "exited with status 3");
    check(Ended::Exited(3), "", &exit, Some(exited));
    check(Ended::Exited(0), "", &exit, None);
    let output = Signs {
        exit: false,
        output: Some("lost".into()),
    };
    let printed = (FailureKind::Output, "printed `2 lost`");
    check(
        Ended::Exited(0),
        "5 sent\n 2 lost\n",
        &output,
        Some(printed),
    );
    check(Ended::Exited(0), "5 sent\n", &output, None);
}

#[test]
fn the_same_failure_has_the_same_words_and_stack() {
    let run = |signal| {
        of_run(
            &Ended::Signalled(signal),
            "",
            &Trace::default(),
            &Signs::default(),
        )
    };
    let (one, other) = (run(11).unwrap(), run(8).unwrap());
    assert!(one.is_same(&one.clone()));
    assert!(!one.is_same(&other));
    let mut elsewhere = one.clone();
    elsewhere.stack.push("main".into());
    assert!(!one.is_same(&elsewhere));
}

#[test]
fn numbers_in_what_is_printed_make_no_other_failure() {
    let lost = Signs {
        exit: false,
        output: Some("lost".into()),
    };
    let run = |output| of_run(&Ended::Exited(0), output, &Trace::default(), &lost).unwrap();
    assert!(run("lost 2 of 16\n").is_same(&run("lost 3 of 16\n")));
}

/// The C library finds a block that was freed twice when the thread has ended, where nobody can note it.
#[test]
fn a_block_that_was_freed_twice_is_the_place_of_an_abort() {
    let block = |address| Access { address, size: 16 };
    let operations = [
        (1, Op::Free(block(64))),
        (2, Op::Allocate(block(48))),
        (3, Op::Free(block(48))),
        (4, Op::Free(block(48))),
        (5, Op::End),
    ];
    let mut trace = Trace::default();
    trace.threads.push(Thread {
        name: "T0".into(),
        parent: None,
    });
    for (line, op) in operations {
        let place = PlaceId::from_index(trace.places.len());
        let frame = SourcePlace {
            function: "drop".into(),
            file: "a.c".into(),
            line,
            column: 1,
        };
        trace.places.push(Place {
            pc: u64::from(line),
            frames: vec![frame],
        });
        let thread = ThreadId(0);
        trace.events.push(Event { thread, place, op });
    }
    let failure = of_run(&Ended::Signalled(6), "", &trace, &Signs::default()).unwrap();
    assert_eq!(failure.place.unwrap().line, 4);
}

#[test]
fn a_hang_is_known_by_the_function_that_does_not_end() {
    let hang = |ended, function: &str, line| {
        let mut failure = of_run(&ended, "", &Trace::default(), &Signs::default()).unwrap();
        failure.place = Some(Statement {
            pc: 0,
            file: "a.c".into(),
            line,
            function: function.into(),
        });
        failure
    };
    let one = hang(Ended::TimedOut, "spin", 4);
    assert!(one.is_same(&hang(Ended::Hung, "spin", 5)));
    assert!(!one.is_same(&hang(Ended::TimedOut, "wait", 4)));
}
