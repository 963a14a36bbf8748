//! The scenarios of Carril (2017): Table 4.2, Figures 4.16 to 4.22 and 5.2 to 5.10, and those of
//! Appendix B that its names and sources describe.
//!
//! Each is a script of a run without a failure, with the bugs that other schedules show. Events are
//! numbered from 0 in the order of the script.

use norns_model::Meaning::{self, Faithful, Optimistic};
use norns_model::script::trace;
use norns_model::{Bug, Witness};
use norns_predict::{Detail, Engine, Options, predict};

#[track_caller]
fn check_meaning(meaning: Meaning, script: &str, expected: &str) {
    let trace = trace(script);
    for engine in [Engine::Auto, Engine::Exact] {
        let options = Options {
            meaning,
            engine,
            detail: Detail::Pairs,
            ..Options::usual(&trace)
        };
        let found = predict(&trace, &options);
        assert_eq!(found.not_analysed, []);
        assert!(found.undecided.is_empty());
        let all = found
            .races
            .iter()
            .chain(&found.deadlocks)
            .chain(&found.stuck);
        let words: Vec<String> = all.map(in_words).collect();
        let words = if words.is_empty() {
            "nothing".to_string()
        } else {
            words.join("; ")
        };
        assert_eq!(words, expected, "{meaning:?}, {engine:?}");
    }
}

fn in_words(witness: &Witness) -> String {
    let list = |events: &[norns_trace::EventIndex]| {
        events
            .iter()
            .map(|event| event.0.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    match &witness.bug {
        Bug::Race { first, second } => format!("race {}", list(&[*first, *second])),
        Bug::LockDeadlock { blocked } => format!("deadlock {}", list(blocked)),
        Bug::Stuck { blocked } => format!("stuck {}", list(blocked)),
        Bug::Order { events } => format!("order {}", list(events)),
        Bug::Atomicity { accesses } => format!("atomicity {}", list(accesses)),
    }
}

/// Checks that both meanings give the same result.
#[track_caller]
fn check(script: &str, expected: &str) {
    check_meaning(Optimistic, script, expected);
    check_meaning(Faithful, script, expected);
}

// Table 4.2

#[test]
fn figure_4_4_two_locks_in_two_orders() {
    check(
        "M: fork W
         W: start, lock m, lock p, unlock p, unlock m
         M: lock p, lock m, unlock m, unlock p
         W: end
         M: join W",
        "deadlock 3 7",
    );
}

/// HawkNL: `nlShutdown` acquires the socket lock inside the main lock, `nlClose` the other way round.
#[test]
fn hawknl_two_locks_in_two_orders() {
    check(
        "M: fork A, fork B
         A: start, lock slock, read sockets, lock nlock, unlock nlock, unlock slock, end
         B: start, lock nlock, lock slock, write sockets, unlock slock, unlock nlock, end
         M: join A, join B",
        "deadlock 5 11",
    );
}

/// SQLite bug 1672: the deadlock needs another value of `inMutex`, which only the faithful meaning
/// takes into account.
#[test]
fn sqlite_1672_a_value_forbids_the_deadlock() {
    let script = "M: fork A, fork B
                  A: start, lock main, lock aux, write in, unlock aux, unlock main, end
                  B: start, read in, lock aux, lock main, unlock main, unlock aux, end
                  M: join A, join B";
    check_meaning(Optimistic, script, "race 5 10; deadlock 4 12");
    check_meaning(Faithful, script, "race 5 10");
}

#[test]
fn hg02_deadlock() {
    check(
        "M: fork A, fork B
         A: start, lock m1, lock m2, write x, unlock m2, unlock m1, end
         B: start, lock m2, lock m1, write x, unlock m1, unlock m2, end
         M: join A, join B",
        "deadlock 4 11",
    );
}

#[test]
fn tc13_laog1_both_orders_in_one_thread() {
    check(
        "M: lock m1, lock m2, unlock m1, unlock m2, lock m2, lock m1, unlock m1, unlock m2",
        "nothing",
    );
}

#[test]
fn tc14_dining_philosophers() {
    check(
        "A: lock f0, lock f1, unlock f1, unlock f0
         B: lock f1, lock f2, unlock f2, unlock f1
         C: lock f2, lock f3, unlock f3, unlock f2
         D: lock f3, lock f4, unlock f4, unlock f3
         E: lock f4, lock f0, unlock f0, unlock f4",
        "deadlock 1 5 9 13 17",
    );
    // With one left-handed philosopher.
    check(
        "A: lock f0, lock f1, unlock f1, unlock f0
         B: lock f1, lock f2, unlock f2, unlock f1
         C: lock f0, lock f2, unlock f2, unlock f0",
        "nothing",
    );
}

/// Figure 9 of Smaragdakis et al. (2012): what looks like a race is preceded by a deadlock.
#[test]
fn cp_9_a_deadlock_before_the_race() {
    check(
        "A: lock l, lock m, unlock m, write x, unlock l
         B: lock m, lock l, unlock l, write x, unlock m",
        "deadlock 1 6",
    );
}

#[test]
fn tsandl1_and_2_the_second_lock_in_a_later_section() {
    check(
        "A: lock a, unlock a, lock a, lock b, unlock b, unlock a
         B: lock b, lock a, unlock a, unlock b",
        "deadlock 3 7",
    );
    check(
        "A: lock a, lock b, unlock b, unlock a
         B: lock b, lock c, unlock c, unlock b
         C: lock c, lock a, unlock a, unlock c",
        "deadlock 1 5 9",
    );
}

#[test]
fn guarded_lock_only_one_thread_takes_the_gate() {
    check(
        "A: lock g, lock a, lock b, unlock b, unlock a, unlock g
         B: lock b, lock a, unlock a, unlock b",
        "deadlock 2 7",
    );
}

#[test]
fn guarded_lock2_both_threads_take_the_gate() {
    check(
        "A: lock g, lock a, lock b, unlock b, unlock a, unlock g
         B: lock g, lock b, lock a, unlock a, unlock b, unlock g",
        "nothing",
    );
}

#[test]
fn a_gate_that_is_held_for_reading_excludes_nothing() {
    check(
        "A: read-lock g, lock a, lock b, unlock b, unlock a, unlock g
         B: read-lock g, lock b, lock a, unlock a, unlock b, unlock g",
        "deadlock 2 8",
    );
}

#[test]
fn figure_4_18_two_orders_with_a_barrier_between() {
    check(
        "M: barrier-init b 2, fork W
         W: start
         M: lock p, lock m, unlock m, unlock p
         W: lock p, lock m, unlock m, unlock p, enter b
         M: enter b, exit b
         W: exit b, lock m, lock p, unlock p, unlock m
         M: lock m, lock p, unlock p, unlock m
         W: end
         M: join W",
        "nothing",
    );
}

#[test]
fn figure_4_21_two_threads_wait_for_one_post() {
    check(
        "M: sem-init s 0, fork W
         W: start
         M: post s
         W: sem-wait s, post s
         M: sem-wait s
         W: end
         M: join W",
        "stuck 4",
    );
}

/// The barrier is entered inside a critical section, so a thread that waits there keeps the other out.
#[test]
fn a_barrier_inside_a_critical_section() {
    check(
        "M: barrier-init b 2, fork W, lock m, unlock m, enter b
         W: start, lock m, enter b, exit b, unlock m
         M: exit b, join W",
        "stuck 2 8",
    );
}

// Figures 4.16 and 4.17

#[test]
fn figure_4_16_a_flag_decides_what_is_locked() {
    let script = "M: fork W, lock p, lock m, store flag, unlock m, unlock p
                  W: start, load flag, lock m, lock p, unlock p, unlock m, end
                  M: join W";
    check_meaning(Optimistic, script, "deadlock 2 9");
    // If the flag is set, main has acquired both locks and has not released them.
    check_meaning(Faithful, script, "nothing");
    check(
        "M: fork W\nW: start, load flag, end\nM: lock p, lock m, store flag, unlock m",
        "nothing",
    );
}

// Figures 5.2 to 5.10

#[test]
fn figure_5_2_one_variable_is_protected() {
    check(
        "M: fork W
         W: start
         M: write x, lock m, write y, unlock m
         W: lock m, write y, unlock m, write x, end
         M: join W",
        "race 2 9",
    );
}

#[test]
fn figure_5_5_bytes_that_overlap() {
    check(
        "A: write 0+1, write 1+3, write 4+3
         B: write 2+2, read 4+1",
        "race 1 3; race 2 4",
    );
}

#[test]
fn figure_5_9_another_order_takes_another_path() {
    let script = "M: fork W, write x, lock m, read y, write y, unlock m
                  W: start, lock m, read y, write y, read y, unlock m, write x, end
                  M: join W";
    check_meaning(Optimistic, script, "race 1 12");
    check_meaning(Faithful, script, "nothing");
}

#[test]
fn figure_5_14_what_the_hybrid_filter_leaves() {
    check(
        "M: fork W
         W: start
         M: write a, lock m, write b, unlock m
         W: lock m, write b, unlock m, write c, write a, end
         M: join W, write c",
        "race 2 10",
    );
}

#[test]
fn figure_5_16_the_same_segments() {
    check(
        "M: fork W, write a, write b, lock m, write c, unlock m
         W: start, lock m, unlock m, write a, write b, read c, end
         M: join W",
        "race 1 9; race 2 10; race 4 11",
    );
}

// Appendix B, as far as its names and sources describe the scenarios

#[test]
fn appendix_b_helgrind_suite() {
    // hg01_all_ok
    check(
        "M: fork A, fork B
         A: start, lock m, read x, write x, unlock m, end
         B: start, lock m, read x, write x, unlock m, end
         M: join A, join B, read x",
        "nothing",
    );
    // hg03_inherit: accesses of a child after those of its parent do not race, those of two children do
    check(
        "M: write a, write b, fork A, fork B
         A: start, write a, end
         B: start, write b, read a, end
         M: join A, join B",
        "race 5 9",
    );
    // hg04_race, tc01_simple_race
    let script = "M: fork A\nA: start, read x, write x, end\nM: read x, write x, join A";
    check_meaning(Optimistic, script, "race 2 6; race 3 5; race 3 6");
    check_meaning(Faithful, script, "race 3 5");
    // hg06_readshared
    check(
        "M: write x, fork A, fork B\nA: start, read x, end\nB: start, read x, end\nM: join A, join B",
        "nothing",
    );
    // lock_vs_unlocked1
    check("A: lock m, write x, unlock m\nB: write x", "race 1 3");
    // tc03_re_excl: only one thread is left after the join
    check(
        "M: fork A\nA: start, write x, end\nM: join A, write x",
        "nothing",
    );
    // tc16_byterace: neighbouring bytes
    check("A: write 100+1\nB: write 101+1", "nothing");
    // tc21_pthonce: accesses of the initialiser are ordered, later ones are not
    check(
        "A: once-begin o, write x, once-end o, write y
         B: once-pass o, read x, write y",
        "race 3 6",
    );
}

#[test]
fn appendix_b_causal_precedence() {
    // Figure 3 of Smaragdakis et al. (2012): a lock orders the accesses in this run, but not in every
    // run.
    check(
        "A: write x, lock l, unlock l\nB: lock l, unlock l, write x",
        "race 0 5",
    );
    // The critical sections conflict: the read decides their order.
    let script = "A: write y, lock l, write x, unlock l
                  B: lock l, read x, unlock l, write y";
    check_meaning(Faithful, script, "nothing");
    check_meaning(Optimistic, script, "race 0 7");
    // Figure 6: two writes in the sections commute.
    check(
        "A: write y, lock l, write x, unlock l
         B: lock l, write x, unlock l, write y",
        "race 0 7",
    );
    // Through a third thread's lock.
    check(
        "A: write y, lock l, unlock l
         C: lock l, lock m, unlock m, unlock l
         B: lock m, unlock m, write y",
        "race 0 9",
    );
}

/// The data-race-test suite, by the primitive that its numbered tests are about.
#[test]
fn appendix_b_data_race_test() {
    // A wait on a condition orders the accesses; the mutex alone does not.
    check(
        "M: fork W
         W: start, lock m, unlock m
         M: write x, lock m, signal c, unlock m
         W: wait c, lock m, unlock m, read x, end
         M: join W",
        "stuck 8",
    );
    // The signal comes first, so the thread sees the flag set and does not wait.
    let script = "M: fork W, write x, lock m, write flag, signal c, unlock m
                  W: start, lock m, read flag, unlock m, read x, end
                  M: join W";
    check_meaning(Faithful, script, "nothing");
    check_meaning(Optimistic, script, "race 1 10");
    // Semaphores as signals, and as locks.
    check(
        "M: sem-init s 0, write x, post s\nW: sem-wait s, write x",
        "nothing",
    );
    check(
        "M: sem-init s 1
         A: sem-wait s, write x, post s
         B: sem-wait s, write x, post s",
        "nothing",
    );
    // A barrier.
    check(
        "M: barrier-init b 2
         A: write x, enter b
         B: enter b, exit b, read x
         A: exit b, write x",
        "race 5 7",
    );
    // Reader-writer locks: two writers under read locks race.
    check(
        "A: read-lock r, write x, unlock r\nB: read-lock r, write x, unlock r",
        "race 1 4",
    );
    check(
        "A: read-lock r, read x, unlock r\nB: lock r, write x, unlock r",
        "nothing",
    );
    // A failed try-lock does not order accesses.
    check(
        "A: lock m\nB: try-lock m, read x\nA: write x, unlock m",
        "race 2 3",
    );
    // Atomic operations do not race with each other, but with plain accesses.
    check("A: store a, rmw a\nB: load a", "nothing");
    check("A: store a\nB: write a", "race 0 1");
    // Spin locks.
    check(
        "A: lock s:spin, write x, unlock s\nB: lock s, write x, unlock s",
        "nothing",
    );
}

#[test]
fn use_after_free_and_double_free_are_races_with_free() {
    check(
        "M: alloc x, fork A
         A: write x
         M: free x",
        "race 2 3",
    );
    check("M: alloc x, fork A\nA: free x\nM: free x", "race 2 3");
    check(
        "M: alloc x, fork A\nA: write x\nM: join A, free x",
        "nothing",
    );
    // The same bytes in another allocation.
    check(
        "A: alloc x, write x, free x\nB: alloc x, write x, free x",
        "nothing",
    );
}

#[test]
fn other_deadlocks() {
    // A join while holding a lock that the joined thread needs.
    check(
        "M: fork W, lock m
         W: start
         M: unlock m
         W: lock m, unlock m, end
         M: lock m, join W",
        "stuck 4 8",
    );
    // A thread that releases its read lock before it acquires the write lock.
    check(
        "A: read-lock r, unlock r, lock r, unlock r\nB: read-lock r, unlock r",
        "nothing",
    );
    // A cycle of a reader-writer lock and a mutex.
    check(
        "A: read-lock r, lock m, unlock m, unlock r
         B: lock m, lock r, unlock r, unlock m",
        "deadlock 1 5",
    );
    // A lost wake-up.
    check(
        "W: lock m, unlock m
         M: signal c
         W: wait c, lock m, unlock m",
        "stuck 3",
    );
    // A thread that ends while it holds a lock.
    check("B: lock m, unlock m\nA: start, lock m, end", "stuck 0");
    // A wait on a semaphore while holding a lock that the poster needs.
    check(
        "M: sem-init s 0
         A: lock m, post s, unlock m
         B: lock m, sem-wait s, unlock m",
        "stuck 1 5",
    );
}
