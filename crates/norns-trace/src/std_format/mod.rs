//! The STD text format of RAPID (one event per line), read and written.
//!
//! ```text
//! line   = thread "|" op "|" location
//! op     = ("acq" / "rel" / "r" / "w" / "fork" / "join") "(" name ")"
//!        / ("req" / "wait" / "notify" / "notifyAll" / "broadcast") "(" lock ")"
//!        / "branch" / "begin" *any / "end" *any
//! ```
//!
//! Every line is one event: a line that is no operation of ours is an event that nothing waits for
//! (`begin` is `Enter`, `end` is `Leave`, `req` and `branch` are custom events). Event i is line
//! i + 1, but for `wait`. A forked thread has no `Start` and no `End` here: it may
//! run once its `Fork` has, and a `Join` waits for its last event.
//!
//! The reader is strict where RAPID is not. A line that cannot be read, a lock that two threads
//! hold at once, a thread that acts before its fork or after its join are errors with the number
//! of the line. `fork(124)` and the thread `T124` are one thread. A lock that its holder takes
//! again is a recursive mutex. Java's `wait(m)` must follow `rel(m)` and be followed by `acq(m)` of
//! its thread, apart from `req`, `branch`, `begin` and `end`; its condition has the name of the lock.
//! Published traces have it where the wait begins, with the `notify` that ends it before the `acq`,
//! so its event stands just before that `acq` (`Import::lines` has the line of every event). A lenient
//! reader takes what cannot have happened for events that do nothing, and counts them.

mod read;
mod write;

use std::io;

pub use read::{Import, Leniency, import, read};
pub use write::write;

use crate::trace::Trace;

#[derive(Debug, thiserror::Error)]
pub enum StdError {
    #[error("cannot read the trace: {0}")]
    Read(#[source] io::Error),
    #[error("cannot write the trace: {0}")]
    Write(#[source] io::Error),
    /// Lines are counted from 1.
    #[error("line {line}: {problem}")]
    Line { line: usize, problem: String },
    #[error("event {event} cannot be written in the STD format: {problem}")]
    Unwritable { event: usize, problem: String },
}

/// Reads a whole text.
pub fn parse(text: &str) -> Result<Trace, StdError> {
    read(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ObjectId, Op};
    use crate::trace::ObjectKind;

    /// The operations that the lines give, or the error.
    fn check(text: &str, expected: &str) {
        let found = match parse(text) {
            Ok(trace) => {
                assert_eq!(trace.events.len(), text.lines().count());
                let ops = trace.events.iter().map(|event| {
                    let thread = &trace.thread(event.thread).name;
                    format!("{thread} {:?}", event.op)
                });
                ops.collect::<Vec<_>>().join("\n")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_thread_has_one_identity_in_both_spellings() {
        check(
            "T0|fork(124)|1\nT124|begin|2\n124|end(x)|3\nT0|join(T124)|4",
            "T0 Fork(t1)\nT124 Enter\nT124 Leave\nT0 Join(t1)",
        );
    }

    #[test]
    fn accesses_and_locks_are_apart_even_with_one_name() {
        check(
            "a|acq(x)|1\na|r(x)|-1\na|w(y)|2147483647\na|rel(x)|1\n",
            "a Lock(o0)\na Read(Access { address: 4096, size: 8 })\n\
             a Write(Access { address: 4104, size: 8 })\na Unlock(o0)",
        );
    }

    #[test]
    fn names_may_hold_brackets_and_bars() {
        let trace = parse("m|w(A.<init>(I)|V[0]@3)|7\n").unwrap();
        assert_eq!(trace.symbols[0].name, "A.<init>(I)|V[0]@3");
        assert_eq!(trace.places[0].pc, 7);
    }

    #[test]
    fn a_lock_taken_again_is_recursive() {
        let trace = parse("a|acq(m)|1\na|acq(m)|1\na|rel(m)|1\na|rel(m)|1\n").unwrap();
        assert_eq!(trace.objects[0].kind, ObjectKind::RecursiveMutex);
    }

    #[test]
    fn the_dialect_of_spdoffline_keeps_positions() {
        check(
            "a|req(m)|1\na|acq(m)|1\na|branch|1\na|rel(m)|1\na|wait(m)|2\na|acq(m)|3\n\
             a|notify(m)|4\na|notifyAll(m)|4\na|broadcast(m)|4",
            "a Custom(0)\na Lock(o0)\na Custom(1)\na Unlock(o0)\na Wait(o1)\na Lock(o0)\n\
             a Signal(o1)\na Broadcast(o1)\na Broadcast(o1)",
        );
    }

    #[test]
    fn a_wait_stands_where_it_ends() {
        let text = "a|acq(m)|1\na|rel(m)|1\na|wait(m)|2\nb|acq(m)|3\nb|notify(m)|4\nb|rel(m)|5\n\
                    a|req(m)|6\na|acq(m)|6\na|rel(m)|7";
        check(
            text,
            "a Lock(o0)\na Unlock(o0)\nb Lock(o0)\nb Signal(o1)\nb Unlock(o0)\na Custom(0)\n\
             a Wait(o1)\na Lock(o0)\na Unlock(o0)",
        );
        let import = import(text.as_bytes(), Leniency::Strict).unwrap();
        assert_eq!(import.lines, [0, 1, 3, 4, 5, 6, 2, 7, 8]);
        // A wait that never ends.
        check(
            "a|acq(m)|1\na|rel(m)|1\na|wait(m)|2\nb|r(x)|3",
            "a Lock(o0)\na Unlock(o0)\nb Read(Access { address: 4096, size: 8 })\na Custom(0)",
        );
    }

    #[test]
    fn a_lenient_reader_says_what_it_changed() {
        let text = "a|fork(b)|1\na|fork(b)|1\nb|acq(m)|2\na|acq(m)|3\na|rel(m)|3\nb|rel(m)|2\n\
                    a|join(b)|4\nb|w(x)|5\n";
        let import = import(text.as_bytes(), Leniency::Lenient).unwrap();
        let ops: Vec<String> = { import.trace.events.iter() }
            .map(|event| format!("{:?}", event.op))
            .collect();
        assert_eq!(
            ops.join(" "),
            "Fork(t1) Custom(0) Lock(o0) Custom(0) Custom(0) Unlock(o0) Custom(0) \
             Write(Access { address: 4096, size: 8 })"
        );
        let first = "thread b is forked a second time".to_string();
        assert_eq!((import.changed, import.first_change), (4, Some((2, first))));
    }

    #[test]
    fn malformed_lines_are_refused_with_their_number() {
        let cases = [
            (
                "a|r(x)|1\n\n",
                "line 2: expected thread|operation|location, found \"\"",
            ),
            (
                "a|r(x)",
                "line 1: expected thread|operation|location, found \"a|r(x)\"",
            ),
            (
                "|r(x)|1",
                "line 1: expected the name of a thread before the first '|', found \"\"",
            ),
            (
                "a|r(x)|",
                "line 1: expected a location number after the last '|', found \"\"",
            ),
            (
                "a|r(x)|2147483648",
                "line 1: expected a location number after the last '|', found \"2147483648\"",
            ),
            (
                "a|r()|1",
                "line 1: expected an operation such as acq(m) or r(x), found \"r()\"",
            ),
            (
                "a|r(x y)|1",
                "line 1: expected an operation such as acq(m) or r(x), found \"r(x y)\"",
            ),
            (
                "a|r(x|1",
                "line 1: expected an operation such as acq(m) or r(x), found \"r(x\"",
            ),
            (
                "a|read(x)|1",
                "line 1: expected one of acq, rel, r, w, fork, join, begin, end, req, wait, \
                 notify, notifyAll, broadcast, branch, found \"read\"",
            ),
            (
                "a|acq(m)|1\nb|acq(m)|1",
                "line 2: b acquires the lock m that a holds",
            ),
            (
                "a|rel(m)|1",
                "line 1: a releases the lock m that it does not hold",
            ),
            (
                "a|acq(m)|1\nb|rel(m)|1",
                "line 2: b releases the lock m that it does not hold",
            ),
            (
                "b|r(x)|1\na|fork(b)|1",
                "line 2: thread b is forked after it has acted",
            ),
            (
                "a|fork(a)|1",
                "line 1: thread a is forked after it has acted",
            ),
            (
                "a|fork(b)|1\na|fork(b)|1",
                "line 2: thread b is forked a second time",
            ),
            (
                "a|join(b)|1\nb|r(x)|1",
                "line 2: thread b acts after it was joined",
            ),
            ("a|join(a)|1", "line 1: thread a joins itself"),
            (
                "a|wait(m)|1",
                "line 1: expected rel(m) as the event of a just before its wait",
            ),
            (
                "a|acq(m)|1\na|rel(m)|1\na|wait(m)|1\na|r(x)|1",
                "line 4: expected acq(m) by a, since its last event waits on that lock",
            ),
        ];
        for (text, error) in cases {
            check(text, error);
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = "T0|fork(T1)|-3\nT1|acq(m)|4\nT1|w(x)|5\nT1|rel(m)|6\nT0|req(m)|1\n\
                    T0|acq(m)|7\nT0|notify(m)|7\nT0|rel(m)|7\nT0|wait(m)|7\nT0|acq(m)|8\n\
                    T0|branch|8\nT0|begin|8\nT0|r(x)|8\nT0|end|8\nT0|rel(m)|9\nT0|join(T1)|9\n";
        let trace = parse(text).unwrap();
        let mut written = Vec::new();
        write(&trace, &mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), text);
    }

    #[test]
    fn what_has_no_text_is_refused_by_name() {
        let mut trace = parse("a|r(x)|1").unwrap();
        trace.events[0].op = Op::SemPost(ObjectId(0));
        let error = write(&trace, &mut Vec::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "event 0 cannot be written in the STD format: it has no `sem-post`"
        );
    }
}
