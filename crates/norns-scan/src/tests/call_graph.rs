use norns_ir::Kind;

use super::{check, check_file, points};
use crate::code::Code;

/// The functions that the calls at a line can lead to; sorted.
fn called(code: &Code, text: &str, mark: &str) -> Vec<String> {
    let calls = points(code, text, mark, |kind| {
        matches!(kind, Kind::Call { .. } | Kind::Invoke { .. })
    });
    let instances = &code.points_to.instances;
    let callees = calls.iter().flat_map(|&call| instances.callees(call));
    let mut names: Vec<String> = callees.map(|&id| code.function(id).name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_table_of_functions_leads_to_all_of_its_entries() {
    check(
        "static int one(int x) { return x; } static int two(int x) { return -x; }
         static int other(int x) { return 0; }
         static int (*table[])(int) = {one, two};
         int main(int count, char **words) {
             return table[count & 1](3) + other(1) // call
                 ;
         }",
        |code, text| assert_eq!(called(code, text, "call"), ["one", "other", "two"]),
    );
}

#[test]
fn a_call_leads_only_to_functions_of_a_fitting_type() {
    check(
        "static void *kept[4];
         static int fits(int *p) { return 0; } static int more(int *p, int q) { return 0; }
         static int number(long x) { return 0; } static int none(void) { return 0; }
         int main(int count, char **words) {
             kept[0] = (void *)fits; kept[1] = (void *)more; kept[2] = (void *)number; kept[3] = (void *)none;
             int (*chosen)(int *) = (int (*)(int *))kept[count & 3];
             return chosen(&count); // call
         }",
        |code, text| assert_eq!(called(code, text, "call"), ["fits", "none"]),
    );
}

#[test]
fn a_virtual_call_leads_to_the_classes_that_are_made() {
    check_file(
        "program.cpp",
        "struct Base { virtual int go() { return 0; } };
         struct Made : Base { int go() override { return 1; } };
         struct Never : Base { int go() override { return 2; } };
         int main() {
             Base *base = new Made;
             return base->go(); // call
         }",
        // The constructor of the base has put its own table there first, and order is not followed.
        |code, text| {
            let expected = ["_ZN4Base2goEv", "_ZN4Made2goEv"];
            assert_eq!(called(code, text, "call"), expected);
        },
    );
}
