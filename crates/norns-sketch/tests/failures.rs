//! What counts as a failure, and which failures are the same.

use norns_replay::Ended;
use norns_sketch::failure::{FailureKind, Signs, of_run};
use norns_trace::Trace;

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
