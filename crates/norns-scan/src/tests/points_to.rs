use super::{check, written};

#[test]
fn fields_are_told_apart() {
    check(
        "int x, y; struct two { int *a, *b; } s;
         int main(void) {
             s.a = &x; s.b = &y;
             *s.a = 1; // a
             *s.b = 1; // b
         }",
        |code, text| {
            assert_eq!(written(code, text, "a"), ["x"]);
            assert_eq!(written(code, text, "b"), ["y"]);
        },
    );
}

#[test]
fn a_wrapper_of_malloc_makes_an_object_for_every_call() {
    check(
        "static int *make(void) { int *p = malloc(4); if (!p) abort(); return p; }
         int main(void) {
             int *p = make(), *q = make();
             *p = 1; // p
             *q = 1; // q
         }",
        |code, text| {
            let both = (written(code, text, "p"), written(code, text, "q"));
            assert_eq!((both.0.len(), both.1.len()), (1, 1));
            let objects = ["p", "q"].map(|mark| {
                let point = super::stores(code, text, mark)[0];
                let norns_ir::Kind::Store { address, .. } = *code.kind(point) else {
                    unreachable!("only stores were asked for")
                };
                code.points_to.locations(point.instance, address)
            });
            assert_ne!(objects[0], objects[1]);
        },
    );
}

#[test]
fn pointers_flow_round_a_cycle() {
    check(
        "int x, y;
         int main(int count, char **words) {
             int *p = &x, *q = &y;
             while (count--) { int *t = p; p = q; q = t; }
             *p = 1; // p
         }",
        |code, text| assert_eq!(written(code, text, "p"), ["x", "y"]),
    );
}

#[test]
fn a_pointer_survives_memory_and_numbers() {
    check(
        "int x; void *box[4];
         int main(int count, char **words) {
             box[count & 3] = &x;
             unsigned long number = (unsigned long)box[1] | 1;
             *(int *)(number & ~1ul) = 1; // a
         }",
        |code, text| assert_eq!(written(code, text, "a"), ["x"]),
    );
}

#[test]
fn a_pointer_to_very_many_places_stops_growing() {
    let variables: Vec<String> = (0..400).map(|n| format!("int v{n};")).collect();
    let stores: Vec<String> = (0..400).map(|n| format!("all[{n}] = &v{n};")).collect();
    let text = format!(
        "{} int *all[400];
         int main(int count, char **words) {{
             {}
             *all[count] = 1; // a
         }}",
        variables.join(" "),
        stores.join(" ")
    );
    check(&text, |code, text| {
        let count = written(code, text, "a").len();
        assert!((101..400).contains(&count), "{count}");
    });
}
