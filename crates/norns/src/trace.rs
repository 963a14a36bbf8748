//! `norns trace`: look at a trace file, make one from text, make text from one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use norns_trace::container::{FileState, WriteError, Writer};
use norns_trace::item::OBJECT_KINDS;
use norns_trace::operation::OPERATIONS;
use norns_trace::symbolise::changed_modules;
use norns_trace::text::{FIRST_LINE, Parser, Printer};
use norns_trace::{Error, Item, Reader, Warning, info, std_export, std_format};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Write a trace as text, which `import` reads back
    Print {
        /// The trace file
        file: PathBuf,
    },
    /// Make a trace file from text: what `print` writes, or the STD format of RAPID
    Import {
        /// The trace file to write
        #[arg(short, long)]
        output: PathBuf,
        /// What the text is; otherwise its first line says it
        #[arg(long)]
        format: Option<TextFormat>,
        /// The text; `-` is the standard input
        text: PathBuf,
    },
    /// Count what a trace holds
    Stats {
        /// The trace file
        file: PathBuf,
    },
    /// Write what the STD format of RAPID can say of a trace
    Export {
        /// The trace file
        file: PathBuf,
        /// Where to write it; otherwise the standard output
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TextFormat {
    /// What `norns trace print` writes
    Norns,
    /// The STD format of RAPID
    Std,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let done = match arguments.command {
        Command::Print { file } => print(&file),
        Command::Import {
            output,
            format,
            text,
        } => import(&output, format, &text),
        Command::Stats { file } => stats(&file),
        Command::Export { file, output } => export(&file, output.as_deref()),
    };
    match done {
        // The reader of our output has closed the pipe.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        done => done.map(|()| ExitCode::SUCCESS),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn warn(warnings: &[Warning]) {
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}

fn print(path: &Path) -> anyhow::Result<()> {
    let mut reader = Reader::open(path)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut printer = Printer::default();
    let mut line = String::new();
    writeln!(out, "{FIRST_LINE}")?;
    while let Some(item) = reader.next()? {
        line.clear();
        printer.print(&item, &mut line);
        out.write_all(line.as_bytes())?;
    }
    out.flush()?;
    warn(reader.warnings());
    Ok(())
}

fn import(output: &Path, format: Option<TextFormat>, text: &Path) -> anyhow::Result<()> {
    let mut input: Box<dyn BufRead> = if text == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        let file = File::open(text).with_context(|| format!("cannot read {}", text.display()))?;
        Box::new(BufReader::new(file))
    };
    let begin = input
        .fill_buf()
        .with_context(|| format!("cannot read {}", text.display()))?;
    let format = format.unwrap_or_else(|| guess_format(begin, text));
    match format {
        TextFormat::Std => {
            let trace = std_format::read(input)
                .with_context(|| format!("cannot import {}", text.display()))?;
            norns_trace::write(output, &trace)?;
        }
        TextFormat::Norns => {
            let mut problem = None;
            norns_trace::reader::write_items(output, FileState::Finished, |writer| {
                match import_lines(input, writer) {
                    Ok(()) => Ok(()),
                    Err(ImportError::Write(error)) => Err(error),
                    Err(ImportError::Line(line, text)) => {
                        problem = Some((line, text));
                        Ok(())
                    }
                }
            })?;
            if let Some((line, problem)) = problem {
                let _ = std::fs::remove_file(output);
                return Err(Error::Text {
                    path: text.into(),
                    line,
                    problem,
                }
                .into());
            }
        }
    }
    Ok(())
}

/// Guesses the format of a text from its first line that is neither empty nor a comment, and from
/// its name.
fn guess_format(begin: &[u8], path: &Path) -> TextFormat {
    let lines = begin.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines
        .into_iter()
        .find(|line| !line.is_empty() && !line.starts_with(b"# "));
    let is_norns = first.is_some_and(|line| line.starts_with(b"norns-trace"));
    let named_std = path.extension().is_some_and(|name| name == "std");
    let looks_std =
        first.is_some_and(|line| line.iter().filter(|&&byte| byte == b'|').count() >= 2);
    if !is_norns && (named_std || looks_std) {
        TextFormat::Std
    } else {
        TextFormat::Norns
    }
}

enum ImportError {
    Write(WriteError),
    Line(u64, String),
}

fn import_lines(
    mut input: impl BufRead,
    writer: &mut Writer<impl Write>,
) -> Result<(), ImportError> {
    let mut parser = Parser::default();
    let mut bytes = Vec::new();
    let mut number = 0;
    loop {
        bytes.clear();
        let failed = |number, error: io::Error| ImportError::Line(number, error.to_string());
        if input
            .read_until(b'\n', &mut bytes)
            .map_err(|error| failed(number + 1, error))?
            == 0
        {
            break;
        }
        number += 1;
        let line = std::str::from_utf8(&bytes)
            .map_err(|_| ImportError::Line(number, "the line is not UTF-8".into()))?;
        if let Some(item) = parser
            .parse(line)
            .map_err(|problem| ImportError::Line(number, problem))?
        {
            writer.push(&item).map_err(ImportError::Write)?;
        }
    }
    if !parser.begun() {
        return Err(ImportError::Line(
            number + 1,
            format!("the first line must be {FIRST_LINE:?}"),
        ));
    }
    Ok(())
}

fn stats(path: &Path) -> anyhow::Result<()> {
    let mut reader = Reader::open(path)?;
    let raw = reader.is_raw();
    let size = std::fs::metadata(path)?.len();
    let mut ops = [0u64; OPERATIONS.len()];
    let mut kinds = [0u64; OBJECT_KINDS.len()];
    let (mut threads, mut places, mut with_lines, mut symbols, mut customs) = (0, 0, 0, 0, 0u64);
    let mut infos = Vec::new();
    let mut by_thread: BTreeMap<u32, u64> = BTreeMap::new();
    while let Some(item) = reader.next()? {
        match item {
            Item::Info(info) => infos.push(info),
            Item::Thread(_) => threads += 1,
            Item::Object(object) => {
                let kind = OBJECT_KINDS
                    .iter()
                    .position(|(_, kind)| *kind == object.kind);
                kinds[kind.expect("the table has every kind")] += 1;
            }
            Item::Place(place) => {
                places += 1;
                with_lines += u64::from(place.frames.iter().any(|frame| frame.line > 0));
            }
            Item::Symbol(_) => symbols += 1,
            Item::Custom(_) => customs += 1,
            Item::Event(event, _) => {
                ops[usize::from(event.op.number())] += 1;
                *by_thread.entry(event.thread.0).or_default() += 1;
            }
        }
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let mut line = |name: &str, value: String| writeln!(out, "{name:<28} {value}");
    let events: u64 = ops.iter().sum();
    for info in infos.iter().filter(|info| info.key == info::COMMAND) {
        let words: Vec<String> = info
            .values
            .iter()
            .map(|word| word.escape_debug().to_string())
            .collect();
        line("command", words.join(" "))?;
    }
    line(
        "file",
        format!("{size} bytes{}", if raw { " (raw recording)" } else { "" }),
    )?;
    line("threads", threads.to_string())?;
    line("events", events.to_string())?;
    if events > 0 {
        line(
            "bytes an event",
            format!("{:.2}", size as f64 / events as f64),
        )?;
        let most = by_thread.values().max().copied().unwrap_or(0);
        line("events of the busiest thread", most.to_string())?;
    }
    for (&number, kind) in ops.iter().zip(&OPERATIONS) {
        if number > 0 {
            line(&format!("  {}", kind.word), number.to_string())?;
        }
    }
    for (&number, &(name, _)) in kinds.iter().zip(&OBJECT_KINDS) {
        if number > 0 {
            line(&format!("objects: {name}"), number.to_string())?;
        }
    }
    line(
        "places",
        format!("{places} ({with_lines} with source lines)"),
    )?;
    line("named globals", symbols.to_string())?;
    if customs > 0 {
        line("custom events", customs.to_string())?;
    }
    for info in &infos {
        match (info.key.as_str(), &info.values[..]) {
            (info::COUNTER, [name, value]) => {
                line(
                    &format!("recorder: {}", name.escape_debug()),
                    value.escape_debug().to_string(),
                )?;
            }
            ("exit" | "immediate-exit" | "abort" | "signal" | "exec", [value]) => {
                line(
                    "program ended by",
                    format!("{} {}", info.key, value.escape_debug()),
                )?;
            }
            _ => {}
        }
    }
    out.flush()?;
    warn(reader.warnings());
    warn(&changed_modules(&infos));
    Ok(())
}

fn export(path: &Path, output: Option<&Path>) -> anyhow::Result<()> {
    let (trace, warnings) = norns_trace::read(path)?;
    warn(&warnings);
    // What was imported from this format goes back as it came.
    let (trace, left_out) = match std_format::write(&trace, &mut io::sink()) {
        Ok(()) => (trace, BTreeMap::new()),
        Err(_) => std_export::project(&trace),
    };
    let write = |out: &mut dyn Write| -> anyhow::Result<()> {
        let mut out = BufWriter::new(out);
        std_format::write(&trace, &mut out)?;
        Ok(out.flush()?)
    };
    match output {
        None => write(&mut io::stdout().lock())?,
        Some(path) => {
            let mut file =
                File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            write(&mut file).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    if !left_out.is_empty() {
        let list: Vec<String> = left_out
            .iter()
            .map(|(name, number)| format!("{number} {name}"))
            .collect();
        eprintln!(
            "warning: the STD format cannot express everything; left out: {}",
            list.join(", ")
        );
    }
    Ok(())
}
