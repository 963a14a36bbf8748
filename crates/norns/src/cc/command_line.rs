//! What a compiler's command line asks for, as far as the wrapper must know it.
//!
//! Knows the options of gcc 12 and clang 14 to 19 that take their argument in the next word, since
//! that word is then no input file. An option of another compiler that does so too is taken for a
//! flag and its argument for an input: the wrapper then adds its flags where none were needed,
//! which is harmless, except that an option `-foo -E` would be read as "preprocess only".

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The last step that the driver is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// `-E`, `-M`, `-fsyntax-only`, `--version`, …: nothing that a program is made of comes out.
    Nothing,
    /// `-c`, `-S`.
    Compile,
    Link,
}

#[derive(Debug, PartialEq, Eq)]
pub struct CommandLine {
    pub goal: Goal,
    /// Some input is a source that the compiler proper sees: C or C++, and not assembly.
    pub compiles: bool,
    pub has_input: bool,
    pub shared: bool,
    /// `-r`: the output is an object for another link.
    pub relocatable: bool,
    /// `-nostdlib` or `-nodefaultlibs`.
    pub without_libraries: bool,
    pub links_libc: bool,
    /// Code for a machine, or a kind of program, that the runtime cannot be part of.
    pub foreign: Option<Foreign>,
    /// What the last `-g…` says: are there line tables?
    pub line_tables: bool,
    /// The sources and assembler files, in order.
    pub sources: Vec<Source>,
    /// What `-o` names.
    pub output: Option<OsString>,
    /// `-S`: the output is assembler.
    pub to_assembler: bool,
}

/// An input that is compiled or assembled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub file: OsString,
    /// What `-x` says, if it says something.
    pub language: Option<OsString>,
    pub is_assembler: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// `-m32`, `-m16`, `-mx32`, `--target` of another machine.
    Machine,
    /// `-ffreestanding`, `-fno-hosted`, `-mcmodel=kernel`.
    Freestanding,
}

/// Options whose argument is the next word.
const WITH_ARGUMENT: &[&str] = &[
    "-o",
    "-x",
    "-I",
    "-L",
    "-D",
    "-U",
    "-l",
    "-B",
    "-F",
    "-A",
    "-G",
    "-T",
    "-u",
    "-z",
    "-e",
    "-h",
    "-include",
    "-include-pch",
    "-imacros",
    "-isystem",
    "-isystem-after",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-isysroot",
    "-imultilib",
    "-imultiarch",
    "-iframework",
    "-ivfsoverlay",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-Xlinker",
    "-Xassembler",
    "-Xpreprocessor",
    "-Xclang",
    "-Xopenmp-target",
    "-Xarch_host",
    "-Xanalyzer",
    "-mllvm",
    "-Tbss",
    "-Tdata",
    "-Ttext",
    "-Ttext-segment",
    "-rpath",
    "--param",
    "-aux-info",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "-framework",
    "-target",
    "--target",
    "-arch",
    "-wrapper",
    "--sysroot",
    "-resource-dir",
    "-gcc-toolchain",
    "--gcc-toolchain",
    "-working-directory",
    "-main-file-name",
    "--config",
    "-serialize-diagnostics",
    "--serialize-diagnostics",
    "-fmodule-name",
    "-plugin",
    "--output",
    "--include-directory",
    "--library-directory",
    "--define-macro",
    "--undefine-macro",
    "--language",
    "-specs",
    "--entry",
    "--for-linker",
    "--for-assembler",
    "--prefix",
    "--include",
    "--imacros",
    "-undef-file",
];

const GOAL_NOTHING: &[&str] = &[
    "-E",
    "-M",
    "-MM",
    "-fsyntax-only",
    "--version",
    "--help",
    "-help",
    "-dumpversion",
    "-dumpfullversion",
    "-dumpmachine",
    "-dumpspecs",
    "--analyze",
    "-cc1",
    "-cc1as",
    "-cc1gen-reproducer",
    "--preprocess",
    "--dependencies",
    "--user-dependencies",
    "-rewrite-objc",
    "-emit-ast",
    "--precompile",
];

/// `words` are all words after the compiler's name, response files expanded.
pub fn understand<S: AsRef<OsStr>>(words: &[S]) -> CommandLine {
    let mut line = CommandLine {
        goal: Goal::Link,
        compiles: false,
        has_input: false,
        shared: false,
        relocatable: false,
        without_libraries: false,
        links_libc: false,
        foreign: None,
        line_tables: false,
        sources: Vec::new(),
        output: None,
        to_assembler: false,
    };
    let mut language: Option<Vec<u8>> = None;
    let mut only_inputs = false;
    let mut only_headers = true;
    let mut words = words.iter().map(|word| word.as_ref());
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if only_inputs || bytes == b"-" || !bytes.starts_with(b"-") {
            if bytes.is_empty() {
                continue;
            }
            line.has_input = true;
            only_headers &= is_header(Path::new(word), language.as_deref());
            let is_source = is_source(Path::new(word), language.as_deref());
            let is_assembler = is_assembler(Path::new(word), language.as_deref());
            line.compiles |= is_source;
            if is_source || is_assembler {
                line.sources.push(Source {
                    file: word.to_owned(),
                    language: language
                        .as_deref()
                        .map(|name| OsStr::from_bytes(name).to_owned()),
                    is_assembler,
                });
            }
            continue;
        }
        let text = word.to_str().unwrap_or("");
        if WITH_ARGUMENT.contains(&text) {
            let argument = words.next().map(OsStr::as_bytes).unwrap_or(b"");
            match text {
                "-o" | "--output" => line.output = Some(OsStr::from_bytes(argument).to_owned()),
                "-x" | "--language" => language = language_of(argument),
                "-l" if argument == b"c" => line.links_libc = true,
                "-target" | "--target" => line.note_target(argument),
                _ => {}
            }
            continue;
        }
        match text {
            "--" => only_inputs = true,
            "-S" | "--assemble" if line.goal != Goal::Nothing => {
                line.goal = Goal::Compile;
                line.to_assembler = true;
            }
            "-c" | "--compile" if line.goal == Goal::Link => {
                line.goal = Goal::Compile;
            }
            "-shared" | "--shared" | "-dynamiclib" => line.shared = true,
            "-r" => line.relocatable = true,
            "-nostdlib" | "-nodefaultlibs" | "--no-standard-libraries" => {
                line.without_libraries = true;
            }
            "-lc" => line.links_libc = true,
            "-m32" | "-m16" | "-mx32" | "-miamcu" => line.foreign = Some(Foreign::Machine),
            "-m64" if line.foreign == Some(Foreign::Machine) => line.foreign = None,
            "-ffreestanding" | "-fno-hosted" | "-mcmodel=kernel" | "-mkernel" => {
                line.foreign = Some(Foreign::Freestanding);
            }
            _ if GOAL_NOTHING.contains(&text)
                || text.starts_with("-print-")
                || text.starts_with("--print-")
                || text.starts_with("--help=") =>
            {
                line.goal = Goal::Nothing;
            }
            _ if text.starts_with("--target=") => line.note_target(&bytes["--target=".len()..]),
            _ if text.starts_with("-x") => language = language_of(&bytes[2..]),
            _ if text.starts_with("-o") && !text.starts_with("-objc") => {
                line.output = Some(OsStr::from_bytes(&bytes[2..]).to_owned());
            }
            _ if text.starts_with("-g") => line.note_debug_option(&text[2..]),
            _ => {}
        }
    }
    // A header is precompiled, and nothing linked.
    if line.has_input && only_headers && line.goal == Goal::Link {
        line.goal = Goal::Compile;
    }
    line
}

impl CommandLine {
    fn note_target(&mut self, triple: &[u8]) {
        let machine = triple.split(|&byte| byte == b'-').next().unwrap_or(triple);
        let ours: &[&[u8]] = match std::env::consts::ARCH {
            "x86_64" => &[b"x86_64", b"amd64"],
            "aarch64" => &[b"aarch64", b"arm64"],
            other => &[other.as_bytes()],
        };
        let here = ours.contains(&machine) && triple.windows(5).any(|part| part == b"linux");
        self.foreign = (!here).then_some(Foreign::Machine);
    }

    fn note_debug_option(&mut self, level: &str) {
        self.line_tables = match level {
            "0" | "gdb0" | "stabs0" => false,
            // A format or a detail; not a level.
            _ if level.starts_with("no-") => self.line_tables,
            "cc-toolchain" => self.line_tables,
            _ if level.starts_with("cc-") => self.line_tables,
            "z" | "z=none" => self.line_tables,
            _ if level.starts_with("z=") || level == "column-info" => self.line_tables,
            _ => true,
        };
    }
}

/// The language that `-x` names, or `None` for `-x none`: by the file's name.
fn language_of(name: &[u8]) -> Option<Vec<u8>> {
    (name != b"none").then(|| name.to_vec())
}

fn is_assembler(path: &Path, language: Option<&[u8]>) -> bool {
    match language {
        Some(language) => language.starts_with(b"assembler"),
        None => {
            let extension = path.extension().and_then(OsStr::to_str);
            matches!(extension, Some("s" | "S" | "sx"))
        }
    }
}

fn is_source(path: &Path, language: Option<&[u8]>) -> bool {
    if let Some(language) = language {
        return !language.starts_with(b"assembler") && language != b"ir";
    }
    let Some(extension) = path.extension().and_then(OsStr::to_str) else {
        return false;
    };
    matches!(
        extension,
        "c" | "i"
            | "ii"
            | "m"
            | "mi"
            | "mm"
            | "M"
            | "mii"
            | "C"
            | "cc"
            | "cp"
            | "cpp"
            | "cxx"
            | "c++"
            | "CPP"
            | "CXX"
            | "CC"
            | "C++"
            | "ixx"
            | "cppm"
            | "ccm"
            | "cxxm"
            | "c++m"
            | "h"
            | "H"
            | "hh"
            | "hp"
            | "hpp"
            | "hxx"
            | "h++"
            | "HPP"
            | "tcc"
            | "bc"
            | "ll"
    )
}

fn is_header(path: &Path, language: Option<&[u8]>) -> bool {
    match language {
        Some(language) => language.ends_with(b"-header"),
        None => {
            let extension = path.extension().and_then(OsStr::to_str);
            extension.is_some_and(|name| {
                matches!(
                    name,
                    "h" | "H" | "hh" | "hp" | "hpp" | "hxx" | "h++" | "HPP" | "tcc"
                )
            })
        }
    }
}

/// The sanitizer that this option asks for, if its runtime cannot share a program with ours and
/// leaving it out would lose what the user relies on.
pub fn refused_sanitizer(word: &OsStr) -> Option<&str> {
    let asked = word.to_str()?.strip_prefix("-fsanitize=")?;
    asked.split(',').find(|name| {
        matches!(
            *name,
            "address"
                | "hwaddress"
                | "kernel-address"
                | "memory"
                | "kernel-memory"
                | "leak"
                | "dataflow"
        )
    })
}

/// Is this an option that the wrapper leaves out?
pub fn leave_out(word: &OsStr) -> bool {
    let Some(text) = word.to_str() else {
        return false;
    };
    // What is left of sanitizers here is ThreadSanitizer itself and checks of undefined behaviour,
    // and `-s` takes away the line tables that every report needs.
    text.starts_with("-fsanitize=")
        || text.starts_with("-fno-sanitize=")
        || text.starts_with("-fsanitize-recover")
        || text.starts_with("-fno-sanitize-recover")
        || text.starts_with("-fsanitize-trap")
        || text.starts_with("-fno-sanitize-trap")
        || matches!(
            text,
            "-fsanitize-undefined-trap-on-error"
                | "-static-libtsan"
                | "-static-libasan"
                | "-static-libubsan"
                | "-static-liblsan"
                | "-shared-libsan"
                | "-static-libsan"
                | "-s"
                | "--strip-all"
                | "-Wl,-s"
                | "-Wl,-S"
                | "-Wl,--strip-all"
                | "-Wl,--strip-debug"
        )
}

/// The words of a response file, split as gcc and clang split it: white space separates, quotes
/// of both kinds and backslashes protect.
pub fn split_response_file(text: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (_, b'\\') => word.get_or_insert_default().extend(bytes.next()),
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(byte),
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (None, _) if byte.is_ascii_whitespace() || byte == 0x0b => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words
}

/// The words that `word` stands for: itself, or what the response file `@name` holds. A name that
/// cannot be read is, as for the compilers, an ordinary word.
pub fn expand(word: &OsStr, depth: u32, into: &mut Vec<OsString>) {
    let bytes = word.as_bytes();
    if let Some(name) = bytes.strip_prefix(b"@")
        && depth < 20
        && let Ok(text) = std::fs::read(PathBuf::from(OsStr::from_bytes(name)))
    {
        for word in split_response_file(&text) {
            expand(OsStr::from_bytes(&word), depth + 1, into);
        }
        return;
    }
    into.push(word.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> CommandLine {
        understand(&words.split_whitespace().collect::<Vec<_>>())
    }

    fn check(words: &str, goal: Goal, compiles: bool, has_input: bool) {
        let line = of(words);
        assert_eq!(
            (line.goal, line.compiles, line.has_input),
            (goal, compiles, has_input),
            "{words}"
        );
    }

    #[test]
    fn goals_and_inputs() {
        check("a.c -o a", Goal::Link, true, true);
        check("-c a.cpp -o a.o", Goal::Compile, true, true);
        check("-S a.c", Goal::Compile, true, true);
        check("a.o b.a libc.so.6 -o a", Goal::Link, false, true);
        check("-E a.c", Goal::Nothing, true, true);
        check("-M a.c", Goal::Nothing, true, true);
        check("-c -MM a.c", Goal::Nothing, true, true);
        check("-E -c a.c", Goal::Nothing, true, true);
        check("-MMD -MF a.d -MT a.o -c a.c", Goal::Compile, true, true);
        check("-c a.s", Goal::Compile, false, true);
        check("-c a.S -o a.o", Goal::Compile, false, true);
        check("-x assembler-with-cpp a.c -c", Goal::Compile, false, true);
        check("-xc a.txt", Goal::Link, true, true);
        check("-x c -", Goal::Link, true, true);
        check("-x c a.txt -x none b.o", Goal::Link, true, true);
        check("-o a.c b.o", Goal::Link, false, true);
        check("-include a.c b.o", Goal::Link, false, true);
        check("--version", Goal::Nothing, false, false);
        check("-print-search-dirs", Goal::Nothing, false, false);
        check("-v", Goal::Link, false, false);
        check("-Wl,--version", Goal::Link, false, false);
        check("-c -- -odd.c", Goal::Compile, true, true);
        check("-x c-header a.h -o a.h.gch", Goal::Compile, true, true);
        check("a.hpp", Goal::Compile, true, true);
        check("a.h b.c", Goal::Link, true, true);
    }

    #[test]
    fn sources_and_outputs() {
        let line = of("-c -o a.o -I b.c -x c a.in -x none s.S -lx");
        let files: Vec<_> = line.sources.iter().map(|source| &source.file).collect();
        assert_eq!(files, ["a.in", "s.S"]);
        assert_eq!(line.sources[0].language.as_deref(), Some(OsStr::new("c")));
        assert!(line.sources[1].is_assembler && line.sources[1].language.is_none());
        assert_eq!(line.output.as_deref(), Some(OsStr::new("a.o")));
        assert_eq!(of("-oprog a.c").output.as_deref(), Some(OsStr::new("prog")));
        assert!(of("-S -c a.c").to_assembler && !of("-c a.c").to_assembler);
    }

    #[test]
    fn machines_and_debug_levels() {
        assert_eq!(of("-m32 a.c").foreign, Some(Foreign::Machine));
        assert_eq!(of("-m32 -m64 a.c").foreign, None);
        assert_eq!(
            of("-ffreestanding a.c").foreign,
            Some(Foreign::Freestanding)
        );
        assert_eq!(of("--target=avr-none a.c").foreign, Some(Foreign::Machine));
        assert!(!of("a.c").line_tables);
        assert!(of("-g a.c").line_tables && of("-ggdb3 a.c").line_tables);
        assert!(!of("-g -g0 a.c").line_tables);
        assert!(!of("-gz=zlib a.c").line_tables);
        assert!(of("-g -gno-column-info -gsplit-dwarf").line_tables);
    }

    #[test]
    fn response_files_are_split_as_the_compilers_do() {
        let words = split_response_file(b"-c 'a b.c' \"c\\\"d\"\n\t-DX=\\ y ''");
        let words: Vec<_> = words
            .iter()
            .map(|word| String::from_utf8_lossy(word))
            .collect();
        assert_eq!(words, ["-c", "a b.c", "c\"d", "-DX= y", ""]);
    }
}
