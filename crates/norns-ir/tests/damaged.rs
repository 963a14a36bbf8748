//! Damaged bitcode: a clear error or a program, in little time and memory, and never a panic.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use norns_ir::{ControlFlow, Fault, Linker};
use norns_random::Random;

const C: &str = r#"
#include <stdatomic.h>
struct list { int key; struct list *next; char name[8]; };
static struct list first = { 1, 0, "first" };
struct list *all[3] = { &first, 0, &first };
static _Atomic int counter;
int weight(int kind) { switch (kind) { case 1: return 3; case 7: return 9; default: return kind; } }
int (*functions[2])(int) = { weight, 0 };
int total(struct list *list, int (*extra)(int)) {
    int sum = 0;
    for (; list; list = list->next) {
        sum += list->key > 3 ? extra(list->key) : weight(list->key);
        atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
        __asm__ volatile("" ::: "memory");
    }
    int expected = 4;
    atomic_compare_exchange_strong(&counter, &expected, sum);
    return sum * 2.5;
}
"#;

const CXX: &str = r#"
struct Base { virtual ~Base() {} virtual int get() { return 1; } };
struct Derived : Base { int value = 2; int get() override { return value; } };
int all(Base *base) {
    try { if (base->get() > 1) throw 3; return static_cast<Derived *>(base)->value; }
    catch (int number) { return number; }
}
static Derived global;
int use() { return all(&global); }
"#;

fn compile(compiler: &str, language: &str, flags: &[&str], source: &str) -> Vec<u8> {
    let mut child = Command::new(compiler)
        .args(flags)
        .args(["-g", "-emit-llvm", "-c", "-o", "-", "-x", language, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the compiler is installed");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(source.as_bytes()).expect("it is read");
    drop(input);
    let output = child.wait_with_output().expect("the compiler ends");
    assert!(output.status.success(), "{compiler} {flags:?} {source}");
    output.stdout
}

fn modules() -> Vec<Vec<u8>> {
    vec![
        compile("clang-19", "c", &["-O0"], C),
        compile("clang-14", "c", &["-O2"], C),
        compile("clang-19", "c++", &["-O1"], CXX),
        compile("clang-14", "c++", &["-O0"], CXX),
    ]
}

/// Takes a limited amount of text: a damaged constant can be shared by others any number of times.
struct Limited(usize);

impl std::fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(std::fmt::Error)?;
        Ok(())
    }
}

/// Reads a module and uses everything that an analysis uses.
fn read(bytes: &[u8]) -> Result<(), norns_ir::Error> {
    let mut linker = Linker::new();
    linker.add("damaged", bytes)?;
    let mut program = linker.finish();
    for _ in 0..2 {
        let _ = write!(Limited(1 << 20), "{program}");
        for function in &program.functions {
            let _ = ControlFlow::new(function).loops();
        }
        program.promote_locals();
    }
    Ok(())
}

fn check(bytes: &[u8], what: &str) -> bool {
    let start = Instant::now();
    let is_read = read(bytes).is_ok();
    let took = start.elapsed();
    // A hundred times what the undamaged modules take, on a busy machine.
    assert!(took < Duration::from_secs(10), "{what} took {took:?}");
    is_read
}

#[test]
fn undamaged_modules_are_read_without_omissions() {
    for module in modules() {
        let mut linker = Linker::new();
        linker.add("module", &module).unwrap();
        assert_eq!(linker.finish().omissions, []);
        read(&module).unwrap();
    }
}

#[test]
fn other_files_are_refused() {
    for bytes in [
        &b""[..],
        b"BC",
        b"\x7fELF\x02\x01\x01",
        b"; ModuleID = 'a.c'",
    ] {
        assert_eq!(read(bytes).unwrap_err().fault, Fault::NotBitcode);
    }
    let error = read(b"BC\xc0\xde").unwrap_err();
    let message = "cannot read the bitcode of damaged, at byte 0: it has no string table";
    assert_eq!(error.to_string(), message);
}

#[test]
fn truncated_modules_are_refused() {
    for (number, module) in modules().iter().enumerate() {
        for length in (0..module.len()).step_by(module.len() / 200) {
            let what = format!("module {number} of length {length}");
            assert!(!check(&module[..length], &what), "{what} was read");
        }
    }
}

#[test]
fn mutated_modules_are_refused_or_read() {
    let modules = modules();
    let (mut read, mut refused) = (0, 0);
    for seed in 0..6000 {
        let mut random = Random::new(seed);
        let mut bytes = random
            .pick(&[0, 1, 2, 3].map(|index: usize| &modules[index]))
            .clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = random.draw() as u8,
                2 => bytes[at] = random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                _ => {
                    let from = random.below(bytes.len());
                    let length = random.below(16).min(bytes.len() - from.max(at));
                    bytes.copy_within(from..from + length, at);
                }
            }
        }
        match check(&bytes, &format!("seed {seed}")) {
            true => read += 1,
            false => refused += 1,
        }
    }
    // Both happen often, or the mutations test nothing.
    assert!(
        read > 500 && refused > 500,
        "{read} read, {refused} refused"
    );
}
