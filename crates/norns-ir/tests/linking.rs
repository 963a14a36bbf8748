//! Several modules become one program as a linker would make it; names and places come from the source.

use std::fs;
use std::path::PathBuf;

use norns_ir::{Callee, Constant, DebugType, FrontEnd, Function, Kind, Omission, Operand, Program};

/// Compiles and links sources, each by its name and text, with one clang.
fn link(test: &str, clang: &str, sources: &[(&str, &str)]) -> Program {
    let name = format!("{test} {clang} {}", std::process::id());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let files: Vec<PathBuf> = sources
        .iter()
        .map(|(name, text)| {
            let file = folder.join(name);
            fs::write(&file, text).unwrap();
            file
        })
        .collect();
    FrontEnd::named(clang).read_sources(&files, &[]).unwrap()
}

const CLANGS: &[&str] = &["clang-14", "clang-19"];

fn function<'a>(program: &'a Program, name: &str) -> &'a Function {
    let mut found = program.functions.iter().filter(|one| one.name == name);
    let function = found.next().unwrap_or_else(|| panic!("there is no {name}"));
    assert!(found.next().is_none(), "{name} is there twice");
    function
}

/// The functions that a function calls directly.
fn callees<'a>(program: &'a Program, name: &str) -> Vec<&'a Function> {
    let listed = function(program, name).listed();
    let called = listed.filter_map(|(_, _, instruction)| match &instruction.kind {
        Kind::Call {
            callee: Callee::Function(id),
            ..
        } => Some(program.function(*id)),
        _ => None,
    });
    called.collect()
}

/// What a function returns, if that is a number.
fn returned(program: &Program, function: &Function) -> Option<u128> {
    function
        .listed()
        .find_map(|(_, _, instruction)| match instruction.kind {
            Kind::Return(Some(Operand::Constant(id))) => match *program.constant(id) {
                Constant::Integer(_, value) => Some(value),
                _ => None,
            },
            _ => None,
        })
}

#[test]
fn declarations_are_bound_to_definitions() {
    for clang in CLANGS {
        let program = link(
            "bound",
            clang,
            &[
                (
                    "a.c",
                    "extern int shared; int f(void); int g(void) { return f() + shared; }",
                ),
                ("b.c", "int shared = 7; int f(void) { return 2; }"),
            ],
        );
        let called = callees(&program, "g");
        assert_eq!(returned(&program, called[0]), Some(2), "{clang}");
        let shared: Vec<_> = program
            .globals
            .iter()
            .filter(|one| one.name == "shared")
            .collect();
        assert_eq!(shared.len(), 1);
        assert!(shared[0].initial.is_some() && shared[0].place.is_some());
        assert_eq!(program.omissions, []);
    }
}

#[test]
fn static_functions_of_two_modules_stay_apart() {
    for clang in CLANGS {
        let program = link(
            "static",
            clang,
            &[
                (
                    "a.c",
                    "static int f(void) { return 1; } int a(void) { return f(); }",
                ),
                (
                    "b.c",
                    "static int f(void) { return 2; } int b(void) { return f(); }",
                ),
            ],
        );
        for (caller, expected) in [("a", 1), ("b", 2)] {
            let called = callees(&program, caller);
            assert_eq!(returned(&program, called[0]), Some(expected), "{clang}");
        }
    }
}

#[test]
fn a_strong_definition_replaces_a_weak_one() {
    let weak = (
        "weak.c",
        "__attribute__((weak)) int f(void) { return 1; } int user(void) { return f(); }",
    );
    let strong = ("strong.c", "int f(void) { return 2; }");
    for clang in CLANGS {
        for sources in [[weak, strong], [strong, weak]] {
            let program = link("weak", clang, &sources);
            assert_eq!(
                returned(&program, function(&program, "f")),
                Some(2),
                "{clang}"
            );
            assert_eq!(program.omissions, []);
        }
    }
}

#[test]
fn an_alias_is_what_it_stands_for() {
    let user = (
        "user.c",
        "int other(void); int user(void) { return other(); }",
    );
    let owner = (
        "owner.c",
        "int f(void) { return 3; } int other(void) __attribute__((alias(\"f\")));",
    );
    for clang in CLANGS {
        for sources in [[user, owner], [owner, user]] {
            let program = link("alias", clang, &sources);
            assert_eq!(callees(&program, "user")[0].name, "f", "{clang}");
        }
    }
}

#[test]
fn a_second_definition_is_an_omission() {
    let program = link(
        "twice",
        "clang-19",
        &[
            ("a.c", "int main(void) { return 1; }"),
            ("b.c", "int main(void) { return 2; }"),
        ],
    );
    assert_eq!(returned(&program, function(&program, "main")), Some(1));
    let [Omission { what, count: 1, .. }] = &program.omissions[..] else {
        panic!("{:?}", program.omissions);
    };
    assert_eq!(what, "a second function main");
}

#[test]
fn constructors_run_by_priority() {
    for clang in CLANGS {
        let program = link(
            "constructors",
            clang,
            &[
                ("a.c", "__attribute__((constructor)) void late(void) {}"),
                (
                    "b.c",
                    "__attribute__((constructor(101))) void early(void) {}",
                ),
            ],
        );
        let names = program
            .constructors
            .iter()
            .map(|&id| &program.function(id).name);
        assert_eq!(names.collect::<Vec<_>>(), ["early", "late"], "{clang}");
    }
}

#[test]
fn variables_and_fields_have_the_names_of_the_source() {
    for clang in CLANGS {
        let source = "struct pair { int first; struct pair *next; };\n\
                      static __thread struct pair own;\n\
                      int f(struct pair *argument) { int local = argument->first; own.first = local; return local; }\n";
        let mut program = link("names", clang, &[("a.c", source)]);
        let own = program
            .globals
            .iter()
            .find(|one| one.name == "own")
            .unwrap();
        assert_eq!(own.source_name.as_deref(), Some("own"));
        assert!(own.is_thread_local, "{clang}");
        let Some(DebugType::Record { name, fields }) =
            own.debug_type.map(|id| program.debug_type(id))
        else {
            panic!("{:?}", own.debug_type);
        };
        assert_eq!(name.as_deref(), Some("pair"));
        let fields: Vec<_> = fields.iter().map(|one| (&*one.name, one.offset)).collect();
        assert_eq!(fields, [("first", 0), ("next", 64)], "{clang}");

        let names = |program: &Program| -> Vec<(String, bool)> {
            let variables = &function(program, "f").variables;
            let names = variables
                .iter()
                .map(|one| (one.name.clone(), one.is_address));
            names.collect()
        };
        let in_memory = [("argument".to_owned(), true), ("local".to_owned(), true)];
        assert_eq!(names(&program), in_memory, "{clang}");
        program.promote_locals();
        let as_values = [("argument".to_owned(), false), ("local".to_owned(), false)];
        assert_eq!(names(&program), as_values, "{clang}");
        let f = function(&program, "f");
        let place = program.place(f.place.unwrap());
        assert_eq!((place.line, place.function.as_deref()), (3, Some("f")));
    }
}
