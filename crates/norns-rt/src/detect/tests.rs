//! Small runs, one line an operation, and what the detector must say of them.

use super::*;
use std::collections::BTreeMap;

/// Runs operations such as `T1 write x`, `T2 lock m`, `T1 store a release` in this order and
/// returns the races as `line-line`, lines counted from 1.
fn races(run: &str) -> Vec<String> {
    let mut found = Vec::new();
    for race in detect(run) {
        let pair = format!("{}-{}", race.earlier.pc, race.later.pc);
        if !found.contains(&pair) {
            found.push(pair);
        }
    }
    found
}

/// The races of such a run; a program counter is the number of a line.
pub fn detect(run: &str) -> Vec<Race> {
    let detector = Detector::new().expect("address space for a detector");
    let mut threads: BTreeMap<String, Thread> = BTreeMap::new();
    let main = detector.thread(Name(0), None).expect("a first slot");
    threads.insert("T0".into(), main);
    let mut rounds = BTreeMap::new();
    let mut found = Vec::new();
    for (index, line) in run.lines().map(str::trim).enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [who, operation, rest @ ..] = words.as_slice() else {
            continue;
        };
        let mut thread = threads.remove(*who).expect("a thread that was forked");
        let object = rest.first().map_or(0, |name| address_of(name));
        let order = match rest.get(1).copied() {
            Some("relaxed") => Order::Relaxed,
            Some("acquire") => Order::Acquire,
            Some("release") => Order::Release,
            Some("acq_rel") => Order::AcqRel,
            _ => Order::SeqCst,
        };
        let pc = index + 1;
        let size = rest.get(1).and_then(|size| size.parse().ok()).unwrap_or(8);
        let mut report = |race: Race| found.push(race);
        let mut atomic = |thread: &mut Thread, effect: AtomicEffect| {
            let var = detector.atomic_begin(object);
            detector.atomic_end(thread, var, effect, order, (object, 8), pc, &mut report);
        };
        match *operation {
            "fork" => {
                let name = Name(rest[0][1..].parse().expect("a number after T"));
                let child = detector.thread(name, Some(&mut thread)).expect("a slot");
                threads.insert(rest[0].into(), child);
            }
            "join" => {
                let mut ended = threads.remove(rest[0]).expect("a thread to join");
                detector.join(&mut thread, &mut ended);
            }
            "read" => detector.access(&mut thread, object, size, Kind::Read, pc, report),
            "write" => detector.access(&mut thread, object, size, Kind::Write, pc, report),
            "free" => detector.free(&mut thread, object, size, pc, report),
            "malloc" => detector.forget_memory(object, size),
            "lock" => detector.acquire(&mut thread, object),
            "wrlock" => detector.acquire_for_writing(&mut thread, object),
            "unlock" => detector.release(&mut thread, object),
            "rdunlock" => detector.release_read(&mut thread, object),
            "post" => detector.release_join(&mut thread, object),
            "barrier" => detector.barrier_init(object, 2),
            "enter" => {
                let round = detector.barrier_enter(&mut thread, object);
                rounds.insert((*who).to_string(), round);
            }
            "exit" => detector.barrier_exit(&mut thread, object, rounds[*who]),
            "load" => atomic(&mut thread, AtomicEffect::Load),
            "store" => atomic(&mut thread, AtomicEffect::Store),
            "rmw" => atomic(&mut thread, AtomicEffect::ReadModifyWrite),
            "fence" => {
                let order = match rest[0] {
                    "acquire" => Order::Acquire,
                    "release" => Order::Release,
                    _ => Order::SeqCst,
                };
                detector.fence(&mut thread, order);
            }
            other => panic!("no operation {other}"),
        }
        threads.insert((*who).into(), thread);
    }
    found
}

/// Names are letters, 4096 bytes apart, with an offset after a plus sign.
pub fn address_of(name: &str) -> usize {
    let (letter, offset) = name.split_once('+').unwrap_or((name, "0"));
    let letter = letter.bytes().next().map_or(0, usize::from);
    0x10_0000 + letter * 0x1_0000 + offset.parse::<usize>().unwrap_or(0)
}

fn check(run: &str, expected: &[&str]) {
    assert_eq!(races(run), expected, "in\n{run}");
}

#[test]
fn two_writes_race() {
    check(
        "T0 fork T1
         T0 write x
         T1 write x",
        &["2-3"],
    );
}

#[test]
fn reads_do_not_race() {
    check(
        "T0 fork T1
         T0 read x
         T1 read x",
        &[],
    );
}

#[test]
fn fork_and_join_order() {
    check(
        "T0 write x
         T0 fork T1
         T1 write x
         T0 join T1
         T0 write x",
        &[],
    );
}

#[test]
fn a_common_lock_orders_two_writes() {
    check(
        "T0 fork T1
         T0 lock m
         T0 write x
         T0 unlock m
         T1 lock m
         T1 write x
         T1 unlock m",
        &[],
    );
}

#[test]
fn what_follows_an_unlock_is_not_released() {
    check(
        "T0 fork T1
         T0 lock m
         T0 unlock m
         T0 write x
         T1 lock m
         T1 write x",
        &["4-6"],
    );
}

#[test]
fn an_access_before_an_empty_section_is_released() {
    check(
        "T0 fork T1
         T0 write x
         T0 lock m
         T0 unlock m
         T1 lock m
         T1 write x",
        &[],
    );
}

#[test]
fn neighbouring_bytes_do_not_race() {
    check(
        "T0 fork T1
         T0 write x 1
         T1 write x+1 1
         T1 write x+4 4",
        &[],
    );
}

#[test]
fn overlapping_unaligned_accesses_race() {
    check(
        "T0 fork T1
         T0 write x+6 4
         T1 read x+8 1",
        &["2-3"],
    );
}

#[test]
fn more_readers_than_cells_are_all_remembered() {
    check(
        "T0 fork T1
         T0 fork T2
         T0 fork T3
         T0 fork T4
         T0 fork T5
         T0 fork T6
         T1 read x
         T2 read x
         T3 read x
         T4 read x
         T5 read x
         T6 read x
         T0 join T1
         T0 join T2
         T0 join T3
         T0 join T4
         T0 join T5
         T0 write x",
        &["12-18"],
    );
}

#[test]
fn a_release_store_and_an_acquire_load_order() {
    check(
        "T0 fork T1
         T0 write x
         T0 store a release
         T1 load a acquire
         T1 read x",
        &[],
    );
}

#[test]
fn relaxed_operations_do_not_order() {
    check(
        "T0 fork T1
         T0 write x
         T0 store a relaxed
         T1 load a acquire
         T1 read x",
        &["2-5"],
    );
}

#[test]
fn fences_order_around_relaxed_operations() {
    check(
        "T0 fork T1
         T0 write x
         T0 fence release
         T0 store a relaxed
         T1 load a relaxed
         T1 fence acquire
         T1 read x",
        &[],
    );
}

#[test]
fn what_follows_a_release_fence_is_not_published() {
    check(
        "T0 fork T1
         T0 fence release
         T0 write x
         T0 store a relaxed
         T1 load a relaxed
         T1 fence acquire
         T1 read x",
        &["3-7"],
    );
}

#[test]
fn a_read_modify_write_continues_a_release_sequence() {
    check(
        "T0 fork T1
         T0 fork T2
         T0 write x
         T0 store a release
         T1 rmw a relaxed
         T2 load a acquire
         T2 read x",
        &[],
    );
}

#[test]
fn a_relaxed_store_breaks_a_release_sequence() {
    check(
        "T0 fork T1
         T0 fork T2
         T0 write x
         T0 store a release
         T1 store a relaxed
         T2 load a acquire
         T2 read x",
        &["3-7"],
    );
}

#[test]
fn atomic_and_plain_accesses_race() {
    check(
        "T0 fork T1
         T0 store a relaxed
         T1 read a",
        &["2-3"],
    );
}

#[test]
fn an_atomic_access_does_not_hide_a_plain_one() {
    check(
        "T0 fork T1
         T0 fork T2
         T0 write a
         T0 store a relaxed
         T1 load a relaxed",
        &["3-5"],
    );
}

#[test]
fn what_an_atomic_access_acquires_orders_itself() {
    check(
        "T0 fork T1
         T0 write a
         T0 store a release
         T1 load a acquire",
        &[],
    );
}

#[test]
fn readers_of_a_lock_do_not_order_each_other() {
    check(
        "T0 fork T1
         T0 lock l
         T0 write x
         T0 rdunlock l
         T1 lock l
         T1 write x",
        &["3-6"],
    );
}

#[test]
fn a_writer_follows_readers() {
    check(
        "T0 fork T1
         T0 lock l
         T0 read x
         T0 rdunlock l
         T1 wrlock l
         T1 write x",
        &[],
    );
}

#[test]
fn a_barrier_orders_its_rounds() {
    check(
        "T0 barrier b
         T0 fork T1
         T0 write x
         T0 enter b
         T1 enter b
         T0 exit b
         T1 exit b
         T1 write x
         T1 enter b
         T0 enter b
         T0 exit b
         T1 exit b
         T0 write x",
        &[],
    );
}

#[test]
fn a_post_orders_the_wait() {
    check(
        "T0 fork T1
         T0 write x
         T0 post s
         T1 lock s
         T1 write x",
        &[],
    );
}

#[test]
fn a_free_is_a_write() {
    check(
        "T0 fork T1
         T0 read x
         T1 free x 16
         T0 read x",
        &["2-3", "3-4"],
    );
}

#[test]
fn a_reused_block_is_new() {
    check(
        "T0 fork T1
         T0 write x
         T1 malloc x 16
         T1 write x",
        &[],
    );
}

#[test]
fn a_reused_slot_hides_nothing() {
    // T2 could take the slot of T1 only if T1 were joined by its creator.
    check(
        "T0 fork T1
         T0 fork T3
         T1 write x
         T3 join T1
         T0 fork T2
         T2 write x",
        &["3-6"],
    );
}

#[test]
fn thousands_of_short_threads_fit() {
    let run: String = (0..3000)
        .map(|_| "T0 fork T1\nT1 write x\nT0 join T1\n")
        .collect();
    check(&run, &[]);
}

#[test]
fn clocks_that_overflow_take_a_new_slot() {
    let detector = Detector::new().expect("address space for a detector");
    let mut main = detector.thread(Name(0), None).expect("a slot");
    let mut other = detector.thread(Name(1), Some(&mut main)).expect("a slot");
    let mut reports = 0;
    for _ in 0..5_000_000u32 {
        detector.acquire(&mut main, 0x100);
        detector.access(&mut main, 0x1000, 8, Kind::Write, 1, |_| reports += 1);
        detector.release(&mut main, 0x100);
    }
    detector.acquire(&mut other, 0x100);
    detector.access(&mut other, 0x1000, 8, Kind::Write, 2, |_| reports += 1);
    assert_eq!(reports, 0);
    detector.access(&mut main, 0x1000, 8, Kind::Write, 3, |_| reports += 1);
    assert_eq!(reports, 1);
}

/// The races of a run as `line-line`, with `?` behind those that a loop may have ordered.
fn check_loops(run: &str, expected: &[&str]) {
    let races = detect(run).into_iter().map(|race| {
        let doubt = if race.may_wait { "?" } else { "" };
        format!("{}-{}{doubt}", race.earlier.pc, race.later.pc)
    });
    assert_eq!(races.collect::<Vec<_>>(), expected, "in\n{run}");
}

#[test]
fn a_flag_may_order_what_stands_before_it() {
    check_loops(
        "T0 fork T1
         T0 write x
         T0 write f
         T1 read f
         T1 read x",
        &["3-4", "2-5?"],
    );
}

#[test]
fn a_flag_may_be_read_before_it_is_set() {
    check_loops(
        "T0 fork T1
         T1 read f
         T0 write x
         T0 write f
         T1 read f
         T1 write x",
        &["2-4", "4-5", "3-6?"],
    );
}

#[test]
fn a_flag_orders_nothing_that_comes_after_it() {
    check_loops(
        "T0 fork T1
         T0 write f
         T1 read f
         T0 lock m
         T0 unlock m
         T0 write x
         T1 write x",
        &["2-3", "6-7"],
    );
}

#[test]
fn a_flag_in_the_same_eight_bytes_may_order() {
    check_loops(
        "T0 fork T1
         T0 write x 4
         T0 write x+4 4
         T1 read x+4 4
         T1 write x 4",
        &["3-4", "2-5?"],
    );
}

#[test]
fn a_third_thread_may_pass_on_what_it_knows() {
    check_loops(
        "T0 fork T1
         T0 fork T2
         T1 write x
         T1 lock m
         T1 unlock m
         T2 lock m
         T2 write f
         T0 read f
         T0 write x",
        &["7-8", "3-9?"],
    );
    check_loops(
        "T0 fork T1
         T0 fork T2
         T1 write x
         T1 lock m
         T1 unlock m
         T2 write f
         T0 read f
         T0 write x",
        &["6-7", "3-8"],
    );
}

#[test]
fn a_variable_in_a_block_may_order_the_free_of_the_block() {
    check_loops(
        "T0 fork T1
         T1 write x
         T0 read x
         T0 free x 8",
        &["2-3", "2-4?"],
    );
    check_loops(
        "T0 fork T1
         T1 write x
         T0 free x 8",
        &["2-3"],
    );
}
