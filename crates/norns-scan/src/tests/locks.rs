use super::{check, stores};
use crate::code::Code;
use crate::describe;
use crate::lock_set::LockSets;
use crate::symbol::Symbols;

/// The names of the locks that are held at the first store of a line.
fn held(code: &Code, text: &str, mark: &str) -> Vec<String> {
    let mut symbols = Symbols::new(code);
    let locks = LockSets::new(code, &mut symbols);
    let held = locks.before(stores(code, text, mark)[0]).iter();
    held.map(|held| describe::symbol(code, &symbols, held.lock))
        .collect()
}

#[test]
fn wrappers_take_and_release_locks() {
    check(
        "static pthread_mutex_t m, n; int x;
         static void take(pthread_mutex_t *lock) { pthread_mutex_lock(lock); }
         static void give(pthread_mutex_t *lock) { pthread_mutex_unlock(lock); }
         int main(void) {
             take(&m);
             x = 1; // m
             take(&n);
             x = 2; // both
             give(&m);
             x = 3; // n
             give(&n);
             x = 4; // none
         }",
        |code, text| {
            assert_eq!(held(code, text, "m"), ["m"]);
            assert_eq!(held(code, text, "both"), ["m", "n"]);
            assert_eq!(held(code, text, "n"), ["n"]);
            assert!(held(code, text, "none").is_empty());
        },
    );
}

#[test]
fn a_tried_lock_is_held_where_the_attempt_worked() {
    check(
        "static pthread_mutex_t m; int x;
         int main(void) {
             if (pthread_mutex_trylock(&m) == 0) {
                 x = 1; // worked
                 pthread_mutex_unlock(&m);
             } else {
                 x = 2; // failed
             }
         }",
        |code, text| {
            assert_eq!(held(code, text, "worked"), ["m"]);
            assert!(held(code, text, "failed").is_empty());
        },
    );
}

#[test]
fn only_what_every_path_holds_is_held() {
    check(
        "static pthread_mutex_t m; int x;
         int main(int count, char **words) {
             if (count > 1) pthread_mutex_lock(&m);
             x = 1; // one path
             pthread_mutex_lock(&m);
             x = 2; // all
         }",
        |code, text| {
            assert!(held(code, text, "one path").is_empty());
            assert_eq!(held(code, text, "all"), ["m"]);
        },
    );
}
