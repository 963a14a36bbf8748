use super::compiled;
use crate::{Memory, Object, Slice, slice};

/// The slice of the line that ends with `// fails`, as the marks of its lines; lines without a mark are
/// left out.
fn sliced(text: &str) -> (Vec<String>, Slice) {
    let (program, text) = compiled("program.c", text);
    let line = { text.lines() }.position(|line| line.ends_with("// fails"));
    let line = line.expect("one line fails") as u32 + 1;
    let found = slice(&program, "program.c", line).expect("there is code at the line");
    let mark = |line: u32| {
        let line = text.lines().nth(line as usize - 1)?;
        Some(line.rsplit_once("// ")?.1.to_string())
    };
    let marks = { found.statements.iter() }.filter_map(|one| mark(one.at.line));
    (marks.collect(), found)
}

fn check(text: &str, wanted: &[&str]) {
    let (mut marks, _) = sliced(text);
    marks.sort();
    assert_eq!(marks, wanted);
}

#[test]
fn values_are_followed_through_operations_parameters_and_results() {
    check(
        "static int twice(int n) {
             return n * 2; // returns
         }
         static int other(int n) {
             return n * 3; // other
         }
         int main(int count, char **words) {
             int a = twice(count), // calls
                 b = other(count);
             int array[4];
             array[a] = 1; // fails
             return b;
         }",
        &["calls", "fails", "returns"],
    );
}

#[test]
fn writes_that_come_too_late_are_left_out() {
    check(
        "int x, *p;
         int main(int count, char **words) {
             p = &x; // before
             *p = count; // fails
             p = 0; // after
             return 0;
         }",
        &["before", "fails"],
    );
}

#[test]
fn branches_that_decide_are_found_and_others_are_not() {
    check(
        "int x, y;
         int main(int count, char **words) {
             if (count > 1) // decides
                 x = 1; // fails
             if (count > 2)
                 y = 1;
             return 0;
         }",
        &["decides", "fails"],
    );
}

#[test]
fn another_thread_writes_at_any_time_between_creation_and_join() {
    check(
        "int *p, q;
         static void *clear(void *unused) {
             p = 0; // clears
             return unused;
         }
         int main(void) {
             pthread_t t;
             p = &q; // sets
             pthread_create(&t, 0, clear, 0);
             *p = 1; // fails
             pthread_join(t, 0);
             return 0;
         }",
        &["clears", "fails", "sets"],
    );
}

#[test]
fn what_a_thread_did_comes_before_its_join() {
    check(
        "int *p, q;
         static void *set(void *unused) {
             p = &q; // sets
             return unused;
         }
         static void *late(void *unused) {
             p = 0; // late
             return unused;
         }
         int main(void) {
             pthread_t t, u;
             pthread_create(&t, 0, set, 0);
             pthread_join(t, 0);
             *p = 1; // fails
             pthread_create(&u, 0, late, 0);
             pthread_join(u, 0);
             return 0;
         }",
        &["fails", "sets"],
    );
}

#[test]
fn the_creation_of_the_thread_decides_that_it_runs() {
    check(
        "static void *run(void *value) {
             *(int *)value = 1; // fails
             return 0;
         }
         int main(int count, char **words) {
             pthread_t t;
             int *made = count > 1 ? malloc(4) : 0; // makes
             pthread_create(&t, 0, run, made); // creates
             pthread_join(t, 0);
             return 0;
         }",
        &["creates", "fails", "makes"],
    );
}

#[test]
fn the_closest_statements_come_first_and_name_their_memory() {
    let (marks, found) = sliced(
        "struct queue { long head; int *lock; } *queue; int seed;
         static void *run(void *unused) {
             *queue->lock = 1; // fails
             return unused;
         }
         int main(void) {
             pthread_t t;
             queue = malloc(16); // makes
             queue->lock = 0; // clears
             pthread_create(&t, 0, run, 0);
             return 0;
         }",
    );
    assert_eq!(marks[0], "fails");
    let made = found
        .statements
        .iter()
        .find(|one| one.at.function == "main");
    let made = made.expect("main is in the slice");
    let of_failing = &found.statements[0].memory;
    let Some(Memory {
        object: Object::Allocated { line, .. },
        offset: 8,
        size: 8,
    }) = of_failing
        .iter()
        .find(|memory| matches!(memory.object, Object::Allocated { .. }))
    else {
        panic!("{of_failing:?}");
    };
    assert!(*line > 2 && made.distance > 0);
    let global = Object::Global("queue".into());
    assert!(of_failing.iter().any(|memory| memory.object == global));
}
