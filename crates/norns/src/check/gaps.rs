//! What the recording of a program could not see, beyond what is wrong with its trace.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use norns_model::NotAnalysed;
use norns_trace::{Recording, info};
use norns_wire::statistics::Counter;

use super::build;

/// A file that the program had mapped.
struct Module<'a> {
    path: &'a str,
}

impl Module<'_> {
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }

    fn is_library_of_the_program(&self) -> bool {
        let of_system = [
            "/lib/",
            "/lib64/",
            "/usr/lib/",
            "/usr/lib64/",
            "/usr/lib32/",
        ];
        self.name().contains(".so") && !of_system.iter().any(|folder| self.path.starts_with(folder))
    }

    fn is_open_mp(&self) -> bool {
        let runtimes = ["libgomp", "libomp", "libiomp"];
        runtimes.iter().any(|name| self.name().starts_with(name))
    }
}

fn modules(recording: &Recording) -> impl Iterator<Item = Module<'_>> {
    let all = recording
        .info
        .iter()
        .filter(|info| info.key == info::MODULE);
    all.filter_map(|info| info.values.get(3))
        .map(|path| Module { path })
}

/// What was not seen of the recorded process.
pub fn not_analysed(recording: &Recording) -> Vec<NotAnalysed> {
    let mut all = Vec::new();
    if !is_instrumented(recording) {
        all.push(NotAnalysed::Accesses {
            synchronisation_is_seen: true,
        });
    } else {
        let libraries = modules(recording).filter(Module::is_library_of_the_program);
        let paths: BTreeSet<&str> = libraries.map(|library| library.path).collect();
        let paths = paths.into_iter();
        let paths: Vec<String> = paths
            .filter(|path| Path::new(path).exists() && !path.contains("libnorns_rt"))
            .filter(|path| !build::is_instrumented(Path::new(path)))
            .map(str::to_owned)
            .collect();
        if !paths.is_empty() {
            all.push(NotAnalysed::Libraries { paths });
        }
    }
    if let Some(runtime) = open_mp(recording) {
        all.push(NotAnalysed::OpenMp { runtime });
    }
    all
}

/// Whether accesses of the program were seen. A program that a signal has ended leaves no counters; its
/// files tell then.
fn is_instrumented(recording: &Recording) -> bool {
    let word = Counter::Instrumented.word();
    let mut counters = recording
        .info
        .iter()
        .filter(|info| info.key == info::COUNTER);
    let counter = counters.find(|info| info.values.first().is_some_and(|name| name == word));
    match counter.and_then(|info| info.values.get(1)) {
        Some(count) => count != "0",
        None => {
            let paths: BTreeSet<&str> = modules(recording).map(|module| module.path).collect();
            let mut own = paths.iter().filter(|path| !path.contains("libnorns_rt"));
            paths.is_empty() || own.any(|path| build::is_instrumented(Path::new(path)))
        }
    }
}

/// The file name of the OpenMP runtime that the program uses.
pub fn open_mp(recording: &Recording) -> Option<String> {
    let runtime = modules(recording).find(Module::is_open_mp)?;
    Some(runtime.name().to_owned())
}

/// The last lines that were written to a file behind `from`.
pub fn last_lines(file: &Path, from: u64) -> Vec<String> {
    const MOST: u64 = 2000;
    const LINES: usize = 3;
    let read = || {
        let mut file = File::open(file)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(from.max(length.saturating_sub(MOST))))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        std::io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    last.iter().map(|line| line.trim_end().to_owned()).collect()
}
