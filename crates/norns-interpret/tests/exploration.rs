//! What explorations find, and what they cost.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use norns_interpret::{Bound, End, Exploration, How, Input, Limits, explore, explore_while};
use norns_ir::{FrontEnd, Program};

fn compiled(text: &str) -> Program {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exploration");
    std::fs::create_dir_all(&folder).expect("the scratch folder can be made");
    let path: PathBuf = folder.join(format!("{}.c", NEXT.fetch_add(1, Ordering::Relaxed)));
    let text = format!("#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n{text}");
    std::fs::write(&path, text).expect("a source can be written");
    let clang = FrontEnd::find().expect("clang is installed (apt-get install clang-19)");
    let mut program = clang
        .read_sources(&[path], &[])
        .expect("the program compiles");
    program.promote_locals();
    program
}

fn everything() -> How {
    How {
        limits: Limits {
            preemptions: u32::MAX,
            runs: 20_000,
            ..Limits::default()
        },
        ..How::default()
    }
}

fn explored(text: &str) -> Exploration {
    let found = explore(&compiled(text), &Input::default(), &everything());
    assert!(
        found.is_complete(),
        "{:?} after {} runs",
        found.bound,
        found.runs
    );
    found
}

/// What the program prints in all interleavings, or how it ends otherwise.
fn check(text: &str, expected: &[&str]) {
    let found = explored(text).outcomes.into_iter();
    let found: BTreeSet<String> = found
        .map(|outcome| match &outcome.end {
            End::Exited(0) => String::from_utf8_lossy(&outcome.output()).trim().to_owned(),
            end => end.to_string(),
        })
        .collect();
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(found, expected);
}

#[test]
fn states_that_were_reached_before_are_not_explored_again() {
    // 20 steps of each thread in any order would be more than a hundred thousand million runs.
    let found = explored(
        "static volatile int first[10], second[10];
         static void *count(void *to) {
             volatile int *all = to;
             for (int i = 0; i < 10; i++)
                 all[i]++;
             return 0;
         }
         int main(void) {
             pthread_t a, b;
             pthread_create(&a, 0, count, (void *)first);
             pthread_create(&b, 0, count, (void *)second);
             pthread_join(a, 0);
             pthread_join(b, 0);
             return 0;
         }",
    );
    assert_eq!(found.outcomes.len(), 1);
    assert!(found.runs < 10_000, "{} runs", found.runs);
}

#[test]
fn local_variables_whose_address_is_passed_on_are_shared() {
    check(
        "static void *set(void *to) { *(volatile int *)to = 1; return 0; }
         int main(void) {
             volatile int own = 0;
             pthread_t a;
             pthread_create(&a, 0, set, (void *)&own);
             int seen = own;
             pthread_join(a, 0);
             printf(\"%d\\n\", seen);
             return 0;
         }",
        &["0", "1"],
    );
}

#[test]
fn sleeping_orders_nothing() {
    check(
        "static volatile int value;
         static void *set(void *to) { usleep(1000000); value = 1; return to; }
         int main(void) {
             pthread_t a;
             pthread_create(&a, 0, set, 0);
             int seen = value;
             pthread_join(a, 0);
             printf(\"%d\\n\", seen);
             return 0;
         }",
        &["0", "1"],
    );
}

#[test]
fn threads_that_poll_each_other_never_end() {
    check(
        "static volatile int one, other;
         static void *poll(void *to) { while (!one) {} other = 1; return to; }
         int main(void) {
             pthread_t a;
             pthread_create(&a, 0, poll, 0);
             while (!other) {}
             one = 1;
             return 0;
         }",
        &["endless loop"],
    );
    check(
        "static volatile int one, other;
         static void *poll(void *to) { while (!one) {} other = 1; return to; }
         int main(void) {
             pthread_t a;
             pthread_create(&a, 0, poll, 0);
             one = 1;
             while (!other) {}
             puts(\"done\");
             return 0;
         }",
        &["done"],
    );
}

#[test]
fn a_bound_that_ends_an_exploration_is_said() {
    let program = compiled(
        "static volatile int value[1000];
         static void *count(void *to) {
             for (int i = 0; i < 1000; i++)
                 value[i]++;
             return to;
         }
         int main(void) {
             pthread_t all[3];
             for (int i = 0; i < 3; i++)
                 pthread_create(&all[i], 0, count, 0);
             for (int i = 0; i < 3; i++)
                 pthread_join(all[i], 0);
             return 0;
         }",
    );
    let bound = |runs, open, time: &dyn Fn() -> bool| {
        let how = How {
            limits: Limits {
                runs,
                open,
                preemptions: u32::MAX,
                ..Limits::default()
            },
            ..How::default()
        };
        explore_while(&program, &Input::default(), &how, time).bound
    };
    assert_eq!(bound(10, u64::MAX, &|| true), Some(Bound::Runs));
    assert_eq!(bound(1_000, u64::MAX, &|| false), Some(Bound::Time));
    // A few states; the exploration goes on with what fits.
    assert!(matches!(
        bound(50, 1 << 20, &|| true),
        Some(Bound::Memory | Bound::Runs)
    ));
}
