//! The step rules as a table of small cases: what may happen in which order.
//!
//! The table is the specification; the step rules and the checker were each written from it.
//! A case is a script (`norns_model::script`) and orders of threads: each word is a thread that
//! takes its next step. After `can` the whole order is possible, after `cannot` all but its last
//! step are. Both the step rules and the checker must say so.

use norns_model::checker::Checker;
use norns_model::script::trace;
use norns_model::{Meaning, Model, State};
use norns_trace::{EventIndex, ThreadId};

#[track_caller]
fn check_meaning(meaning: Meaning, script: &str, orders: &[&str]) {
    let trace = trace(script);
    let model = Model::new(&trace, meaning);
    let checker = Checker::new(&trace, meaning);
    for order in orders {
        let (verdict, names) = order
            .split_once(' ')
            .expect("an order begins with its verdict");
        let mut states = vec![State::initial(&model)];
        let mut schedule: Vec<EventIndex> = Vec::new();
        let names: Vec<&str> = names.split_whitespace().collect();
        for (i, name) in names.iter().enumerate() {
            let thread = trace.threads.iter().position(|thread| thread.name == *name);
            let thread = ThreadId::from_index(thread.expect("the thread is in the script"));
            let event = model
                .next(&states[0], thread)
                .expect("the thread has a next event");
            let mut after = Vec::new();
            for state in &states {
                let mut steps = Vec::new();
                model.steps(state, thread, &mut steps);
                for step in steps {
                    let mut next = state.clone();
                    model.take(&mut next, step);
                    after.push(next);
                }
            }
            schedule.push(event);
            let expected = verdict == "can" || i + 1 < names.len();
            let at = format!("{order:?}, step {} ({name})", i + 1);
            assert_eq!(!after.is_empty(), expected, "the step rules: {at}");
            let legal = checker.check_schedule(&schedule);
            assert_eq!(legal.is_ok(), expected, "the checker: {at}: {legal:?}");
            states = after;
        }
    }
}

#[track_caller]
fn check(script: &str, orders: &[&str]) {
    check_meaning(Meaning::Optimistic, script, orders);
}

#[test]
fn fork_and_join() {
    let script = "M: fork W
                  W: start, write x, end
                  M: join W";
    check(
        script,
        &[
            "can M W W W M",
            "cannot W",
            "cannot M M",
            "cannot M W M",
            "cannot M W W M",
        ],
    );
}

#[test]
fn a_receive_comes_after_the_sends_that_came_before_it() {
    let script = "A: write x, send p
                  B: send p, send q
                  C: receive p, read x
                  A: send p
                  C: receive q";
    check(
        script,
        &[
            "can A A B C C",
            "can B A A C A C B C",
            "can B B A A C C C",
            "cannot C",
            "cannot A A C",
            "cannot B A C",
            "cannot B A A C C C",
        ],
    );
    // What nobody has sent comes from outside.
    check("A: receive p\nB: send p", &["can A B", "can B A"]);
}

#[test]
fn a_thread_without_a_fork_starts_at_once() {
    check("A: write x\nB: write x", &["can B A", "can A B"]);
}

#[test]
fn a_try_join_fails_only_before_the_end() {
    let script = "M: fork W, try-join W\nW: start, end";
    check(script, &["can M M", "can M W M", "cannot M W W M"]);
}

#[test]
fn detach_orders_nothing() {
    check(
        "M: fork W, detach W\nW: start, end",
        &["can M M W W", "can M W W M"],
    );
}

#[test]
fn a_mutex_has_one_holder() {
    let script = "A: lock m, unlock m\nB: lock m, unlock m";
    check(
        script,
        &["can A A B B", "can B B A A", "cannot A B", "cannot B A"],
    );
}

#[test]
fn a_spin_lock_is_a_mutex() {
    let script = "A: lock m:spin, unlock m\nB: lock m, unlock m";
    check(script, &["can B B A", "cannot A B"]);
}

#[test]
fn a_recursive_mutex_is_free_after_as_many_unlocks() {
    let script = "A: lock m:recursive, lock m, unlock m, unlock m\nB: lock m, unlock m";
    check(
        script,
        &[
            "can A A A A B",
            "cannot A A A B",
            "can B B A A",
            "cannot A B",
        ],
    );
}

#[test]
fn a_normal_mutex_blocks_its_holder() {
    check("A: lock m, lock m", &["cannot A A"]);
    check("A: lock m:errorcheck, try-lock m, unlock m", &["can A A A"]);
}

#[test]
fn a_robust_mutex_is_free_when_its_holder_has_ended() {
    let script = "A: start, lock m:robust, end\nB: lock m, unlock m\nC: lock m";
    check(
        script,
        &[
            "can A A A B B",
            "cannot A A B",
            "can B B A A",
            "can A A A B B C",
        ],
    );
    check(
        "A: start, lock m, end\nB: lock m",
        &["cannot A A A B", "can B"],
    );
}

#[test]
fn a_try_lock_fails_only_while_another_holds_the_mutex() {
    let script = "A: lock m, unlock m\nB: try-lock m";
    check(script, &["can A B A", "cannot B", "cannot A A B"]);
}

#[test]
fn a_lock_left_held_stays_held() {
    check(
        "B: lock m, unlock m\nA: lock m",
        &["can B B A", "cannot A B"],
    );
}

#[test]
fn unlocking_what_is_not_held_does_nothing() {
    check(
        "A: lock m, unlock m\nB: unlock m",
        &["can A B A", "can B A A"],
    );
}

#[test]
fn readers_share_and_writers_do_not() {
    let script = "A: read-lock m, unlock m\nB: read-lock m, unlock m\nC: lock m, unlock m";
    check(
        script,
        &[
            "can A B A B C",
            "cannot A C",
            "cannot A B A C",
            "cannot C A",
            "can C C A B",
        ],
    );
}

#[test]
fn a_reader_may_read_lock_again_and_cannot_upgrade() {
    let script = "A: read-lock m, read-lock m, unlock m, unlock m\nB: lock m";
    check(script, &["can A A A A B", "cannot A A A B"]);
    check("A: read-lock m, lock m", &["cannot A A"]);
    check("A: lock m, read-lock m", &["cannot A A"]);
}

#[test]
fn a_failed_read_lock_needs_a_writer() {
    let script = "A: lock m, unlock m\nB: try-read-lock m\nC: read-lock m, unlock m";
    check(script, &["can A B A", "cannot B", "cannot C B"]);
    let script = "A: read-lock m, unlock m\nB: try-lock m";
    check(script, &["can A B A", "cannot B"]);
}

#[test]
fn once_is_run_by_its_runner_and_passed_when_done() {
    let script = "A: once-begin o, once-end o\nB: once-pass o";
    check(script, &["can A A B", "cannot B", "cannot A B"]);
}

#[test]
fn a_semaphore_counts() {
    let script = "M: sem-init s 1, post s\nA: sem-wait s\nB: sem-wait s";
    check(
        script,
        &["can A M M B", "can B M M A", "cannot A B", "can M M A B"],
    );
    check("A: post s, sem-wait s, sem-wait s", &["can A A A"]);
}

#[test]
fn a_try_wait_on_a_semaphore_fails_only_at_zero() {
    let script = "M: sem-init s 0\nB: try-sem-wait s\nA: post s";
    check(script, &["can B A", "cannot A B"]);
}

#[test]
fn a_mutex_that_is_handed_over_has_no_owner() {
    let script = "A: take m\nB: try-take m, give m\nA: take m, give m";
    check(
        script,
        &["can A B B A A", "cannot A A", "cannot B", "can A B B A"],
    );
}

#[test]
fn a_misuse_is_only_noted() {
    check(
        "A: lock m, misuse m, unlock m\nB: lock m, unlock m",
        &["can A A A B B", "can B B A A", "cannot A A B"],
    );
}

#[test]
fn an_object_may_be_destroyed_before_it_is_used() {
    let script = "A: initialise x, use x\nB: use x, destroy x";
    check(script, &["can A A B B", "can B B A A", "can B A B A"]);
    let faithful = ["can A B A B", "cannot B", "cannot A B B A"];
    check_meaning(Meaning::Faithful, script, &faithful);
}

#[test]
fn a_signal_wakes_a_sleeper_and_is_lost_without_one() {
    let script = "A: lock m, unlock m, wait c\nB: signal c\nA: lock m";
    // In the trace the signal comes after the wait, which is therefore spurious.
    check(script, &["can A A A"]);
    let script = "A: lock m, unlock m\nB: signal c\nA: wait c, lock m, unlock m";
    check(
        script,
        &[
            "can A A B A A A",
            "cannot A A A",
            "cannot B A A A",
            "cannot A B A A",
        ],
    );
}

#[test]
fn a_signal_wakes_one_of_the_sleepers_whichever() {
    let script = "A: lock m, unlock m
                  B: lock m, unlock m
                  C: signal c, signal c
                  A: wait c
                  B: wait c";
    check(
        script,
        &[
            "can A A B B C B",
            "can A A B B C A",
            "cannot A A B B C A B",
            "can A A B B C C B A",
        ],
    );
}

#[test]
fn a_broadcast_wakes_all_who_sleep() {
    let script = "A: lock m, unlock m
                  B: lock m, unlock m
                  C: broadcast c
                  A: wait c
                  B: wait c";
    check(
        script,
        &[
            "can A A B B C B A",
            "cannot A A C B B B",
            "cannot A A B B A",
        ],
    );
}

#[test]
fn a_woken_thread_needs_its_mutex_back() {
    let script = "A: lock m, unlock m
                  B: lock m, signal c, unlock m
                  A: wait c, lock m";
    check(script, &["can A A B B A B A", "cannot A A B B A A"]);
}

#[test]
fn a_wait_that_timed_out_sleeps_for_nobody() {
    let script = "A: lock m, unlock m, timed-wait c, lock m
                  B: lock m, unlock m
                  C: signal c
                  B: wait c";
    check(
        script,
        &[
            "can A A A A",
            "can A A B B C B",
            "cannot A A B B A B",
            "can A A C A",
        ],
    );
}

#[test]
fn a_barrier_opens_when_it_is_full_and_again() {
    let script = "M: barrier-init b 2
                  A: enter b
                  B: enter b, exit b
                  A: exit b, enter b
                  B: enter b
                  A: exit b
                  B: exit b";
    check(
        script,
        &[
            "can A B A B A B A B",
            "can A B B B",
            "cannot A A",
            "cannot A B B B B",
            "can A B B B A A A B",
        ],
    );
}

#[test]
fn three_threads_at_a_barrier_for_two() {
    let script = "M: barrier-init b 2
                  A: enter b
                  B: enter b
                  C: enter b
                  A: exit b
                  B: exit b";
    check(script, &["can A C A", "cannot A C B B", "can A B C A B"]);
}

#[test]
fn a_barrier_whose_size_is_not_known_is_as_large_as_it_was() {
    let script = "A: enter b\nB: enter b, exit b\nA: exit b";
    check(script, &["cannot A A", "can A B A B"]);
}

#[test]
fn memory_is_used_after_it_was_allocated() {
    let script = "A: alloc x\nB: write x, free x\nC: alloc x, write x";
    check(
        script,
        &["can A B B C C", "cannot B", "can A C C B B", "can C C A B"],
    );
}

#[test]
fn accesses_and_atomics_may_happen_in_any_order() {
    let script = "A: write x, store a\nB: load a, read x, rmw a, failed-exchange a";
    check(
        script,
        &["can A A B B B B", "can B B B B A A", "can A B B A B B"],
    );
}

#[test]
fn a_faithful_read_sees_the_write_that_it_saw() {
    let check = |script, orders: &[&str]| check_meaning(Meaning::Faithful, script, orders);
    check("A: write x\nB: read x", &["can A B", "cannot B"]);
    check("B: read x\nA: write x", &["can B A", "cannot A B"]);
    check(
        "A: write x\nC: write x\nB: read x",
        &["can A C B", "cannot C A B", "can A"],
    );
    check("A: store a\nB: load a", &["cannot B"]);
    check("A: rmw a\nB: rmw a", &["can A B", "cannot B"]);
    // Two bytes of four come from each.
    let script = "A: write 0+4\nB: write 2+2\nC: read 0+4";
    check(script, &["can A B C", "cannot B A C", "cannot B C"]);
    check("A: alloc x\nB: read x", &["can A B", "cannot B"]);
}

#[test]
fn a_faithful_read_sees_no_write_to_another_block_at_its_bytes() {
    let script = "A: alloc x, write x\nB: read x\nA: free x\nC: alloc x, write x, read x";
    let orders = ["can A A C C C B", "can C C A A B C", "cannot A B"];
    check_meaning(Meaning::Faithful, script, &orders);
}
