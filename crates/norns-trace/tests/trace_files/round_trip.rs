//! File to trace, trace to file, file to text, text to file: nothing changes on the way.

use std::fs;

use norns_trace::container::{self, FileState};
use norns_trace::item::{Collector, items};
use norns_trace::text::{FIRST_LINE, Parser, Printer};
use norns_trace::{Error, Item, Reader, Trace, read, reader, write};

use crate::{random, scratch};

pub fn print(path: &std::path::Path) -> String {
    let mut reader = Reader::open(path).unwrap();
    let mut printer = Printer::default();
    let mut text = format!("{FIRST_LINE}\n");
    while let Some(item) = reader.next().unwrap() {
        printer.print(&item, &mut text);
    }
    text
}

pub fn parse(text: &str) -> Result<Vec<Item>, String> {
    let mut parser = Parser::default();
    let lines = text
        .lines()
        .filter_map(|line| parser.parse(line).transpose());
    lines.collect()
}

#[test]
fn a_trace_survives_the_file_and_the_text() {
    let path = scratch("round-trip");
    let imported = scratch("round-trip-imported");
    for seed in 0..300 {
        let trace = random::trace(seed, seed as usize);
        write(&path, &trace).unwrap();
        let (found, warnings) = read(&path).unwrap();
        assert_eq!(found, trace, "seed {seed}");
        assert_eq!(warnings, [], "seed {seed}");

        let text = print(&path);
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "seed {seed}: {text}"
        );
        let parsed =
            parse(&text).unwrap_or_else(|problem| panic!("seed {seed}: {problem}\n{text}"));
        reader::write_items(&imported, FileState::Finished, |writer| {
            parsed.iter().try_for_each(|item| writer.push(item))
        })
        .unwrap();
        assert_eq!(
            fs::read(&imported).unwrap(),
            fs::read(&path).unwrap(),
            "seed {seed}"
        );
        assert_eq!(print(&imported), text, "seed {seed}");
    }
}

#[test]
fn the_index_is_the_same_when_it_is_rebuilt() {
    let path = scratch("index");
    let trace = random::trace(5, 150_000);
    write(&path, &trace).unwrap();
    let index = container::chunks(&mut fs::File::open(&path).unwrap()).unwrap();
    assert!(index.len() > 2, "{} chunks", index.len());
    assert_eq!(index.iter().map(|chunk| chunk.events).sum::<u64>(), 150_000);
    let content = fs::read(&path).unwrap();
    fs::write(&path, &content[..content.len() - 1]).unwrap();
    let rebuilt = container::chunks(&mut fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(rebuilt, index);
}

#[test]
fn another_version_is_refused_by_name() {
    let path = scratch("version");
    write(&path, &Trace::default()).unwrap();
    let mut content = fs::read(&path).unwrap();
    content[8] = 9;
    fs::write(&path, content).unwrap();
    assert!(matches!(read(&path), Err(Error::Version { found: 9, .. })));
    fs::write(&path, "int main(void) {}\n").unwrap();
    assert!(matches!(read(&path), Err(Error::NotATrace { .. })));
}

#[test]
fn what_a_person_writes_is_understood() {
    let text = "
        norns-trace 1
        # two threads and a lock
        thread T0
        thread \"T0.1\" T0
        object mutex 0x10 m
        place 0
        T0 fork T0.1 @0
        T0.1   lock o0 @0   # here
        T0.1 write 0x1000 4 @0 r= w=00ff
    ";
    let mut collector = Collector::default();
    parse(text)
        .unwrap()
        .into_iter()
        .for_each(|item| collector.push(item));
    let (trace, _) = collector.finish();
    assert_eq!(trace.events.len(), 3);
    assert_eq!(trace.values[0].written, [0, 0xff]);
    assert_eq!(items(&trace).count(), 3 + 5 - 1);
}

#[test]
fn mistakes_in_a_text_are_named() {
    let check = |lines: &str, expected: &str| {
        let text = format!("{FIRST_LINE}\nthread T0\nobject mutex 0\nplace 0\n{lines}");
        assert_eq!(parse(&text), Err(expected.to_owned()), "{lines}");
    };
    check("T1 start @0", "thread \"T1\" is not defined");
    check("T0 lock o1 @0", "object 1 is not defined (1 are)");
    check("T0 lock m @0", "\"m\" is not an object (o and a number)");
    check(
        "T0 read 0 0 @0",
        "an access of 0 bytes at 0x0 is empty or leaves the address space",
    );
    check(
        "T0 start @0 x",
        "\"x\" is not r= and pairs of hexadecimal digits",
    );
    check("T0 sleep @0", "\"sleep\" is no operation");
    check("T0 start", "a place is missing");
    check("info \"x", "a quote is not closed");
    assert_eq!(
        parse("hello"),
        Err(format!(
            "the first line of a trace as text is {FIRST_LINE:?}"
        ))
    );
}
