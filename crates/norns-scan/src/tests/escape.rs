use super::{check, stores};
use crate::access::escaped;
use crate::code::Code;

/// Whether another thread can reach what the stores at a line write to.
fn escapes(code: &Code, text: &str, mark: &str) -> bool {
    let escaped = escaped(code);
    stores(code, text, mark).into_iter().any(|point| {
        let norns_ir::Kind::Store { address, .. } = *code.kind(point) else {
            return false;
        };
        let places = code.points_to.locations(point.instance, address);
        places.iter().any(|at| escaped.contains(&at.object))
    })
}

#[test]
fn what_a_thread_is_given_escapes_with_all_behind_it() {
    check(
        "struct box { int *inside; };
         static void *run(void *arg) { return arg; }
         int main(void) {
             pthread_t t;
             int *own = malloc(4), *given = malloc(4);
             struct box *box = malloc(sizeof *box);
             box->inside = given;
             *own = 1; // own
             *given = 1; // given
             pthread_create(&t, 0, run, box);
         }",
        |code, text| {
            assert!(!escapes(code, text, "own"));
            assert!(escapes(code, text, "given"));
        },
    );
}

#[test]
fn globals_escape() {
    check(
        "int *kept;
         int main(void) {
             int *p = malloc(4);
             kept = p;
             *p = 1; // p
         }",
        |code, text| assert!(escapes(code, text, "p")),
    );
}
