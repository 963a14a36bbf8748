//! `NORNS_BITCODE=1`: the program of an executable is exactly what its linker took.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use norns_ir::{ExecutableError, Omission, Program};

use crate::tools::{compilers, need};

const NORNS: &str = env!("CARGO_BIN_EXE_norns");

const SOURCES: &[(&str, &str)] = &[
    (
        "main.c",
        "int used(int), fast(void), shared_one(void), odd(void);\n\
         int main(void) { return used(3) + fast() + shared_one() + odd(); }\n",
    ),
    (
        "used.c",
        "static int own(int x) { return x; }\nint used(int x) { return own(x) + 1; }\n",
    ),
    ("unused.c", "int unused(void) { return 1; }\n"),
    ("shared.c", "int shared_one(void) { return 1; }\n"),
    (
        "odd.c",
        "int odd(void) { __label__ here; goto here; here: return __builtin_LINE() - 1 + ODD; }\n",
    ),
    (
        "fast.s",
        ".globl fast\n.type fast, @function\nfast:\n\txor %eax, %eax\n\tret\n\
         .section .note.GNU-stack,\"\",@progbits\n",
    ),
];

struct Shop {
    folder: PathBuf,
    compiler: &'static str,
}

impl Shop {
    fn open(test: &str, compiler: &'static str) -> Self {
        let name = format!("bitcode {test}, {compiler} {}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in SOURCES {
            fs::write(folder.join(name), text).unwrap();
        }
        Self { folder, compiler }
    }

    /// Runs a command, split at blanks, and returns what it says on its standard error.
    fn run(&self, words: &str) -> String {
        let words: Vec<&str> = words.split_whitespace().collect();
        let (program, words) = match words[0] {
            "cc" => (NORNS, &words[..]),
            other => (other, &words[1..]),
        };
        let output = Command::new(program)
            .args(words)
            .current_dir(&self.folder)
            .env("NORNS_CC", self.compiler)
            .env("NORNS_BITCODE", "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        said
    }

    fn program(&self, file: &str) -> Program {
        Program::from_executable(&self.folder.join(file)).unwrap()
    }
}

/// The functions that have a body, sorted.
fn functions(program: &Program) -> Vec<&str> {
    let defined = program.functions.iter().filter(|one| !one.is_declaration());
    let mut names: Vec<&str> = defined.map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    names
}

fn omission(module: &str, what: &str) -> Omission {
    Omission {
        module: module.to_owned(),
        what: what.to_owned(),
        count: 1,
    }
}

#[test]
fn a_program_carries_the_bitcode_of_the_objects_in_it() {
    need("objcopy", "binutils");
    for (compiler, _) in compilers() {
        let shop = Shop::open("objects", compiler);
        let quiet = [
            "cc -O2 -MMD -c main.c",
            "cc -O2 -c used.c -o used.o",
            "cc -c unused.c -o unused.o",
            "cc -DODD=1-1 -c odd.c -o odd.o",
            "cc -shared -fPIC shared.c -o libshared.so",
        ];
        for words in quiet {
            assert_eq!(shop.run(words), "", "{words}");
        }
        let said = shop.run("cc -c fast.s -o fast.o");
        assert_eq!(said, "norns: fast.s has no bitcode: it is assembler\n");
        shop.run("ar rcs libused.a used.o unused.o");
        shop.run("ld -r odd.o fast.o -o part.o");
        shop.run("cc main.o part.o libused.a -L. -lshared -Wl,-rpath,$ORIGIN -o program");
        shop.run("strip -g program");
        let program = shop.program("program");
        let expected = ["main", "odd", "own", "shared_one", "used"];
        assert_eq!(functions(&program), expected, "{compiler}");
        let expected = [
            omission("fast", "the function has no bitcode"),
            omission("fast.s", "it is assembler"),
        ];
        assert_eq!(program.omissions, expected, "{compiler}");
    }
}

#[test]
fn a_command_that_compiles_and_links_carries_all_its_sources() {
    for (compiler, _) in compilers() {
        let shop = Shop::open("at once", compiler);
        let words = "cc -DODD=0 main.c used.c shared.c odd.c fast.s -o program";
        let said = shop.run(words);
        assert_eq!(said, "norns: fast.s has no bitcode: it is assembler\n");
        let expected = ["main", "odd", "own", "shared_one", "used"];
        assert_eq!(functions(&shop.program("program")), expected);
    }
}

#[test]
fn what_clang_does_not_take_is_said_and_listed() {
    need("clang-19", "clang-19");
    let shop = Shop::open("gcc only", "gcc");
    let nested = "int nested(int x) { int inside(void) { return x; } return inside(); }\n";
    fs::write(shop.folder.join("nested.c"), nested).unwrap();
    // clang does not know the option, and does without it.
    assert_eq!(shop.run("cc -fipa-pta -fno-ipa-sra -c used.c"), "");
    let said = shop.run("cc -c nested.c");
    let reason = "clang says: nested.c:1:38: error: function definition is not allowed here";
    assert_eq!(said, format!("norns: nested.c has no bitcode: {reason}\n"));
    fs::write(
        shop.folder.join("use.c"),
        "int nested(int), used(int); int main(void) { return nested(used(-1)); }\n",
    )
    .unwrap();
    shop.run("cc use.c used.o nested.o -o program");
    let program = shop.program("program");
    assert_eq!(functions(&program), ["main", "own", "used"]);
    assert!(program.omissions.contains(&omission("nested.c", reason)));
}

#[test]
fn programs_without_bitcode_are_refused() {
    let error = Program::from_executable(NORNS.as_ref()).unwrap_err();
    assert!(
        matches!(error, ExecutableError::NoBitcode { .. }),
        "{error}"
    );
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let error = Program::from_executable(source.as_ref()).unwrap_err();
    assert!(matches!(error, ExecutableError::NotElf { .. }), "{error}");
}
