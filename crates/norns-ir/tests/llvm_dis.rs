//! The reader against LLVM's own text form: every function has the same instructions, callees, local
//! operands and jumps in the same order, every global the same type.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use norns_ir::{Callee, Function, Kind, Linker, Operand, Program, Type};

/// The compilers and what they are asked for. A program's name says which one it is tried with.
const CONFIGURATIONS: &[(&str, &[&str])] = &[
    ("clang-19", &["-O0", "-g"]),
    (
        "clang-19",
        &["-O2", "-g", "-Xclang", "-disable-llvm-passes"],
    ),
    ("clang-19", &["-O3", "-g"]),
    ("clang-14", &["-O0", "-g"]),
    ("clang-14", &["-O2", "-g"]),
];

/// What the comparison is about: the instructions of functions and the types of globals.
#[derive(Default, PartialEq, Eq)]
struct Outline {
    functions: BTreeMap<String, Vec<String>>,
    globals: BTreeMap<String, String>,
}

#[test]
fn every_fifth_program_reads_as_llvm_prints_it() {
    check_programs(|number| number % 5 == 0);
}

#[test]
#[ignore = "takes minutes"]
fn every_program_reads_as_llvm_prints_it() {
    check_programs(|_| true);
}

fn check_programs(is_chosen: impl Fn(usize) -> bool) {
    let mut programs = Vec::new();
    find_programs(Path::new("../../tests/programs"), &mut programs);
    programs.sort();
    assert!(programs.len() > 200, "found {} programs", programs.len());
    let mut failures = String::new();
    for (number, program) in programs.iter().enumerate() {
        let name = program.to_string_lossy();
        let hash = name.bytes().fold(0_usize, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(byte.into())
        });
        let (compiler, flags) = CONFIGURATIONS[hash % CONFIGURATIONS.len()];
        if is_chosen(number)
            && let Some(difference) = check(compiler, flags, program)
        {
            writeln!(failures, "{compiler} {flags:?} {name}: {difference}").unwrap();
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

fn find_programs(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("tests/programs is there") {
        let path = entry.expect("the folder can be read").path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            find_programs(&path, found);
        } else if matches!(extension, Some("c" | "cpp" | "cc")) {
            found.push(path);
        }
    }
}

/// The first difference between our reading of a source's bitcode and LLVM's.
fn check(compiler: &str, flags: &[&str], source: &Path) -> Option<String> {
    let compile = |form: &str| {
        let mut command = Command::new(compiler);
        command
            .args(flags)
            .args(["-w", "-emit-llvm", "-o", "-", form]);
        command.arg(source);
        command.output().expect("the compiler is installed")
    };
    let bitcode = compile("-c");
    if !bitcode.status.success() {
        // Not a program that this compiler takes: a gcc extension.
        return None;
    }
    let text = compile("-S").stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("\ndefine "), "LLVM printed no function");
    difference(&bitcode.stdout, &text, compiler == "clang-14")
}

/// `bench/bitcode` names files of bitcode, and the `llvm-dis` of the clang that wrote them.
#[test]
#[ignore = "needs files: bench/bitcode"]
fn files_read_as_llvm_prints_them() {
    let Some(files) = std::env::var_os("NORNS_BITCODE_FILES") else {
        return;
    };
    let printer = std::env::var("NORNS_LLVM_DIS").expect("bench/bitcode names it");
    let mut failures = String::new();
    let mut functions = 0;
    let mut instructions = 0;
    for file in std::env::split_paths(&files) {
        let bitcode = std::fs::read(&file).expect("the file can be read");
        let text = Command::new(&printer).args(["-o", "-"]).arg(&file).output();
        let text = text.expect("llvm-dis is installed").stdout;
        let text = String::from_utf8_lossy(&text);
        let is_typed = printer.ends_with("14");
        if let Some(difference) = difference(&bitcode, &text, is_typed) {
            writeln!(failures, "{}: {difference}", file.display()).unwrap();
        }
        let outline = parse(&text, is_typed);
        functions += outline.functions.len();
        instructions += outline.functions.values().map(Vec::len).sum::<usize>();
    }
    println!("{functions} functions, {instructions} instructions");
    assert!(failures.is_empty(), "{failures}");
}

fn difference(bitcode: &[u8], text: &str, is_typed: bool) -> Option<String> {
    let mut linker = Linker::new();
    if let Err(error) = linker.add("module", bitcode) {
        return Some(error.to_string());
    }
    let program = linker.finish();
    let mut omissions = program.omissions.iter();
    // LLVM prints it, too, and does not look inside.
    let omission = omissions.find(|one| one.what != "assembler outside of functions");
    if let Some(omission) = omission {
        return Some(format!("not understood: {}", omission.what));
    }
    compare(&outline(&program, is_typed), &parse(text, is_typed))
}

fn compare(ours: &Outline, theirs: &Outline) -> Option<String> {
    for (name, expected) in &theirs.functions {
        let Some(found) = ours.functions.get(name) else {
            return Some(format!("function {name} is missing"));
        };
        let pairs = expected.iter().zip(found).enumerate();
        for (number, (expected, found)) in pairs {
            if expected != found {
                return Some(format!("{name}, {number}: {found}, not {expected}"));
            }
        }
        if expected.len() != found.len() {
            let lengths = (found.len(), expected.len());
            return Some(format!(
                "{name}: {} instructions, not {}",
                lengths.0, lengths.1
            ));
        }
    }
    for (name, expected) in &theirs.globals {
        match ours.globals.get(name) {
            Some(found) if expected.starts_with(found.as_str()) => {}
            found => return Some(format!("global {name}: {found:?}, not {expected}")),
        }
    }
    None
}

fn outline(program: &Program, is_typed: bool) -> Outline {
    let mut outline = Outline::default();
    for function in program.functions.iter().filter(|one| !one.is_declaration()) {
        let numbers = Numbers::of(program, function);
        let lines = function.listed().map(|(_, _, instruction)| {
            let kind = &instruction.kind;
            let opcode = kind.opcode();
            let start = match kind {
                Kind::Call { callee, .. }
                | Kind::Invoke { callee, .. }
                | Kind::CallBranch { callee, .. } => match callee {
                    Callee::Function(id) => format!("{opcode} @{}", program.function(*id).name),
                    Callee::Indirect(_) => format!("{opcode} %"),
                    Callee::Assembler(..) => format!("{opcode} asm"),
                },
                _ => opcode.to_owned(),
            };
            format!("{start} {:?}", numbers.used_by(kind))
        });
        let lines = lines.collect();
        outline.functions.insert(function.name.clone(), lines);
    }
    for global in &program.globals {
        let shown = match is_typed {
            true => String::new(),
            false => program.show_type(global.r#type).to_string(),
        };
        outline.globals.insert(global.name.clone(), shown);
    }
    outline
}

/// The numbers that LLVM prints for parameters, blocks and results, which have no names.
struct Numbers {
    blocks: Vec<usize>,
    results: Vec<usize>,
}

impl Numbers {
    fn of(program: &Program, function: &Function) -> Self {
        let Type::Function { parameters, .. } = program.types.get(function.r#type) else {
            panic!("{} has no function type", function.name);
        };
        let mut next = parameters.len();
        let mut blocks = Vec::new();
        let mut results = vec![usize::MAX; function.instructions.len()];
        for block in &function.blocks {
            blocks.push(next);
            next += 1;
            for &id in &block.instructions {
                if *program.types.get(function.instruction(id).r#type) != Type::Void {
                    results[id.index()] = next;
                    next += 1;
                }
            }
        }
        Self { blocks, results }
    }

    /// The numbers that an instruction refers to, sorted: LLVM prints operands in another order.
    fn used_by(&self, kind: &Kind) -> Vec<usize> {
        let mut used = Vec::new();
        kind.for_each_operand(|operand| match operand {
            Operand::Parameter(index) => used.push(index as usize),
            Operand::Result(id) => used.push(self.results[id.index()]),
            Operand::Constant(_) => {}
        });
        let mut blocks = kind.successors();
        if let Kind::Phi(incoming) = kind {
            blocks.extend(incoming.iter().map(|&(block, _)| block));
        }
        used.extend(blocks.iter().map(|block| self.blocks[block.index()]));
        used.sort_unstable();
        used
    }
}

/// Reads LLVM's text form, as far as the outline needs it.
fn parse(text: &str, is_typed: bool) -> Outline {
    let mut outline = Outline::default();
    let mut current: Option<Vec<String>> = None;
    let mut name = String::new();
    // The reader calls what an alias stands for; LLVM prints aliases before functions.
    let mut aliases = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("define ") {
            name = symbol(&rest[rest.find('@').expect("a function has a name")..]);
            current = Some(Vec::new());
        } else if line == "}" {
            if let Some(lines) = current.take() {
                let lines = lines.iter().filter_map(|line| instruction(line, &aliases));
                outline
                    .functions
                    .insert(std::mem::take(&mut name), lines.collect());
            }
        } else if line.trim_start().starts_with("#dbg_") {
            continue;
        } else if let Some(lines) = &mut current {
            // Cases, clauses and targets of one instruction are on lines of their own.
            let is_continued = line.starts_with("    ") || line.starts_with("  ]");
            match lines.last_mut() {
                Some(last) if is_continued => last.push_str(line),
                _ => lines.push(line.to_owned()),
            }
        } else if line.starts_with('@')
            && let Some((_, rest)) = line.split_once(" = ")
        {
            let start = ["global ", "constant "].into_iter().filter_map(|word| {
                let at = rest.find(word)?;
                Some(at + word.len())
            });
            if let Some((_, target)) = rest.split_once(" alias ") {
                let target = &target[target.rfind('@').expect("an alias has a target")..];
                aliases.insert(format!("@{}", symbol(line)), format!("@{}", symbol(target)));
            } else if let Some(start) = start.min() {
                let shown = if is_typed { "" } else { &rest[start..] };
                outline.globals.insert(symbol(line), shown.to_owned());
            }
        }
    }
    outline
}

/// The name after a `@`.
fn symbol(text: &str) -> String {
    let text = text.strip_prefix('@').expect("a symbol begins with @");
    match text.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default().to_owned(),
        None => {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "-$._".contains(c);
            text.chars().take_while(|&c| is_part(c)).collect()
        }
    }
}

/// The opcode of a line, and for a call what is called.
fn instruction(line: &str, aliases: &BTreeMap<String, String>) -> Option<String> {
    let body = line.strip_prefix("  ")?;
    if body.starts_with([' ', ']', '#', ';']) {
        return None;
    }
    let body = match body.split_once(" = ") {
        Some((result, rest)) if result.starts_with('%') => rest,
        _ => body,
    };
    let mut words = body.split([' ', ',']);
    let mut opcode = words.next()?;
    if matches!(opcode, "tail" | "musttail" | "notail") {
        opcode = words.next()?;
    }
    let start = match opcode {
        "call" | "invoke" | "callbr" => {
            let mut callee = called(body);
            while let Some(target) = aliases.get(&callee) {
                callee.clone_from(target);
            }
            if callee.starts_with("@llvm.dbg.") {
                return None;
            }
            format!("{opcode} {callee}")
        }
        _ => opcode.to_owned(),
    };
    Some(format!("{start} {:?}", used(body)))
}

/// The numbers of parameters, blocks and results in a line, sorted.
fn used(body: &str) -> Vec<usize> {
    // Strings and metadata at the end can hold anything.
    let body = body.split(", !").next().unwrap_or_default();
    let mut used = Vec::new();
    let parts = body
        .split('"')
        .step_by(2)
        .flat_map(|part| part.split('%').skip(1));
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let ends = !part[digits..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '.');
        if digits > 0 && ends {
            used.push(part[..digits].parse().expect("these are digits"));
        }
    }
    used.sort_unstable();
    used
}

/// What stands directly before the arguments.
fn called(body: &str) -> String {
    if body.contains(" asm ") {
        return "asm".to_owned();
    }
    let mut rest = body;
    loop {
        let at = rest.find(['@', '%']).expect("a call has a callee");
        let length = match rest[at + 1..].strip_prefix('"') {
            Some(quoted) => quoted.find('"').expect("quotes come in pairs") + 3,
            None => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || "-$._".contains(c);
                1 + rest[at + 1..].chars().take_while(|&c| is_part(c)).count()
            }
        };
        let after = &rest[at + length..];
        // clang 14 calls a function of another type through a cast.
        if rest[..at].contains(" bitcast (") && rest[at..].starts_with('@') {
            return format!("@{}", symbol(&rest[at..]));
        }
        if after.starts_with('(') {
            return match rest[at..].starts_with('@') {
                true => format!("@{}", symbol(&rest[at..])),
                false => "%".to_owned(),
            };
        }
        rest = after;
    }
}
