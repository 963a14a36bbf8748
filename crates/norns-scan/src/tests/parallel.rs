use super::{check, stores};
use crate::code::Code;
use crate::instance::{Point, ThreadId};
use crate::parallel::Parallel;
use crate::symbol::Symbols;

/// Whether stores at two lines may be executed at the same time.
fn overlap(code: &Code, text: &str, marks: (&str, &str)) -> bool {
    let parallel = Parallel::new(code, &mut Symbols::new(code));
    let run = |mark| -> Vec<(ThreadId, Point)> {
        let points = stores(code, text, mark).into_iter();
        let all = points.flat_map(|point| {
            let threads = code.threads_of(point.instance).iter();
            threads.map(move |&thread| (thread, point))
        });
        all.collect()
    };
    let (first, second) = (run(marks.0), run(marks.1));
    first.iter().any(|&a| {
        second.iter().any(|&b| {
            let is_itself = a.0 == b.0 && !parallel.is_multiple(a.0);
            !is_itself && parallel.may_overlap(a, b)
        })
    })
}

#[test]
fn a_thread_runs_from_its_creation_to_its_join() {
    check(
        "int x;
         static void *run(void *arg) {
             x = 1; // thread
             return arg;
         }
         int main(void) {
             pthread_t t;
             x = 2; // before
             pthread_create(&t, 0, run, 0);
             x = 3; // while
             pthread_join(t, 0);
             x = 4; // after
         }",
        |code, text| {
            assert!(!overlap(code, text, ("thread", "before")));
            assert!(overlap(code, text, ("thread", "while")));
            assert!(!overlap(code, text, ("thread", "after")));
            assert!(!overlap(code, text, ("thread", "thread")));
        },
    );
}

#[test]
fn a_loop_makes_many_threads_and_a_loop_ends_them() {
    check(
        "int x;
         static void *run(void *arg) {
             x = 1; // thread
             return arg;
         }
         int main(void) {
             pthread_t t[4];
             for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, run, 0);
             for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
             x = 4; // after
         }",
        |code, text| {
            assert!(overlap(code, text, ("thread", "thread")));
            assert!(!overlap(code, text, ("thread", "after")));
        },
    );
}

#[test]
fn one_thread_after_another() {
    check(
        "int x;
         static void *one(void *arg) {
             x = 1; // one
             return arg;
         }
         static void *two(void *arg) {
             x = 1; // two
             return arg;
         }
         int main(void) {
             pthread_t t;
             pthread_create(&t, 0, one, 0);
             pthread_join(t, 0);
             pthread_create(&t, 0, two, 0);
         }",
        |code, text| assert!(!overlap(code, text, ("one", "two"))),
    );
}
