//! Each analysis alone, on small programs.
//!
//! A line of a program is found by the comment at its end: `// a` is asked for as `"a"`.

mod call_graph;
mod escape;
mod locks;
mod orders;
mod parallel;
mod points_to;
mod slice;
mod structure;
mod tokens;

use std::sync::atomic::{AtomicU32, Ordering};

use norns_ir::{FrontEnd, Kind, Operand, Program};

use crate::code::Code;
use crate::describe;
use crate::instance::Point;

const HEAD: &str = "#include <pthread.h>\n#include <stdlib.h>\n";

/// A program in C, or in C++ if the name of the file ends so.
fn compiled(name: &str, text: &str) -> (Program, String) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("norns-scan-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
    let (path, text) = (folder.join(name), format!("{HEAD}{text}"));
    std::fs::write(&path, &text).expect("the temporary folder can be written");
    let clang = FrontEnd::find().expect("clang is installed (apt-get install clang-19)");
    let read = clang.read_sources(&[path], &[]);
    let _ = std::fs::remove_dir_all(&folder);
    let mut program = read.expect("the program compiles");
    program.promote_locals();
    (program, text)
}

/// Analyses a program and hands it to a test.
fn check(text: &str, test: impl FnOnce(&Code, &str)) {
    check_file("program.c", text, test);
}

fn check_file(name: &str, text: &str, test: impl FnOnce(&Code, &str)) {
    let (program, text) = compiled(name, text);
    test(&Code::new(&program), &text);
}

/// The instructions at the line with this mark that `choose` takes, in all contexts.
fn points(code: &Code, text: &str, mark: &str, choose: impl Fn(&Kind) -> bool) -> Vec<Point> {
    let mark = format!("// {mark}");
    let line = { text.lines() }.position(|line| line.ends_with(&mark));
    let line = line.unwrap_or_else(|| panic!("no line ends with {mark}")) + 1;
    let found: Vec<Point> = code
        .points()
        .filter(|&point| {
            let place = code
                .function(point.instance)
                .instruction(point.instruction)
                .place;
            let is_here = place.is_some_and(|id| code.program.place(id).line as usize == line);
            is_here && choose(code.kind(point))
        })
        .collect();
    assert!(!found.is_empty(), "nothing at {mark}");
    found
}

/// The stores at a line.
fn stores(code: &Code, text: &str, mark: &str) -> Vec<Point> {
    points(code, text, mark, |kind| matches!(kind, Kind::Store { .. }))
}

/// The names of what the stores at a line can write to; sorted.
fn written(code: &Code, text: &str, mark: &str) -> Vec<String> {
    let mut names = Vec::new();
    for point in stores(code, text, mark) {
        let Kind::Store { address, .. } = *code.kind(point) else {
            continue;
        };
        names.extend(pointed_to(code, point, address));
    }
    names.sort();
    names.dedup();
    names
}

fn pointed_to(code: &Code, point: Point, operand: Operand) -> Vec<String> {
    let places = code.points_to.locations(point.instance, operand);
    places
        .into_iter()
        .map(|at| describe::location(code, at))
        .collect()
}
