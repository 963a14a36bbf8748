//! Opens trace files, raw or finished, and reads them as a stream or as a whole.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::container::{
    FILE_HEADER, FileState, Items, MAGIC, VERSION, WriteError, Writer, read_up_to,
};
use crate::error::{Error, Warning};
use crate::item::{Collector, Info, Item, info, items};
use crate::raw::RawItems;
use crate::trace::Trace;
use crate::value_check::ValueCheck;

/// A trace file as a stream of items. Memory does not grow with the number of events.
pub struct Reader {
    path: PathBuf,
    source: Source,
    warnings: Vec<Warning>,
}

enum Source {
    Finished(Items<BufReader<File>>),
    Raw(Box<RawItems>),
}

impl Reader {
    /// Opens a trace; of a raw recording of several processes, the first that recorded events.
    pub fn open(path: &Path) -> Result<Reader, Error> {
        Reader::open_process(path, None)
    }

    fn open_process(path: &Path, process: Option<u32>) -> Result<Reader, Error> {
        let failed = |cause| Error::Read {
            path: path.into(),
            cause,
        };
        let mut file = File::open(path).map_err(failed)?;
        let mut header = [0; FILE_HEADER];
        let length = read_up_to(&mut file, &mut header).map_err(failed)?;
        if length < 12 || header[..8] != MAGIC {
            return Err(Error::NotATrace { path: path.into() });
        }
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| header[at + index]));
        if word(8) != VERSION {
            return Err(Error::Version {
                path: path.into(),
                found: word(8),
            });
        }
        let source = match word(12) {
            0 if length == FILE_HEADER => {
                Source::Raw(Box::new(RawItems::open(path, file, process)?))
            }
            1 => Source::Finished(Items::new(BufReader::new(file), FileState::Finished)),
            // Cut inside the header: an empty trace.
            _ if length < FILE_HEADER => {
                Source::Finished(Items::new(BufReader::new(file), FileState::Finished))
            }
            _ => return Err(Error::NotATrace { path: path.into() }),
        };
        Ok(Reader {
            path: path.into(),
            source,
            warnings: Vec::new(),
        })
    }

    /// Whether the file is a raw recording, which `finish` has not yet made a finished trace.
    pub fn is_raw(&self) -> bool {
        matches!(self.source, Source::Raw(_))
    }

    /// The next item, or `None` at the end of the trace.
    #[allow(clippy::should_implement_trait)] // It can fail, and the end is not an error.
    pub fn next(&mut self) -> Result<Option<Item>, Error> {
        match &mut self.source {
            Source::Finished(items) => {
                let item = items.next();
                self.warnings.append(&mut items.take_warnings());
                item.map_err(|cause| Error::Read {
                    path: self.path.clone(),
                    cause,
                })
            }
            Source::Raw(items) => {
                let item = items.next();
                self.warnings.append(&mut items.take_warnings());
                item
            }
        }
    }

    /// The warnings so far; complete when `next` has returned `None`.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    pub fn into_warnings(self) -> Vec<Warning> {
        self.warnings
    }
}

/// A trace and what is known about its run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    pub trace: Trace,
    pub info: Vec<Info>,
}

impl Recording {
    /// The values of the last info with this key.
    pub fn info(&self, key: &str) -> Option<&[String]> {
        let info = self.info.iter().rev().find(|info| info.key == key)?;
        Some(&info.values)
    }
}

/// A whole trace in memory, as analyses take it (`Trace::understand`).
pub fn read_understood(path: &Path) -> Result<(Trace, Vec<Warning>), Error> {
    let (mut trace, warnings) = read(path)?;
    trace.understand();
    Ok((trace, warnings))
}

/// A whole trace in memory, as it is in the file.
pub fn read(path: &Path) -> Result<(Trace, Vec<Warning>), Error> {
    let (recording, warnings) = read_recording(path)?;
    Ok((recording.trace, warnings))
}

pub fn read_recording(path: &Path) -> Result<(Recording, Vec<Warning>), Error> {
    let mut reader = Reader::open(path)?;
    let mut collector = Collector::default();
    while let Some(item) = reader.next()? {
        collector.push(item);
    }
    let (trace, info) = collector.finish();
    Ok((Recording { trace, info }, reader.into_warnings()))
}

/// How many events a finished trace has: from its index, without reading it.
pub fn event_count(path: &Path) -> Result<u64, Error> {
    let failed = |cause| Error::Read {
        path: path.into(),
        cause,
    };
    let mut file = File::open(path).map_err(failed)?;
    let chunks = crate::container::chunks(&mut file).map_err(failed)?;
    Ok(chunks.iter().map(|chunk| chunk.events).sum())
}

/// Writes a whole trace.
pub fn write(path: &Path, trace: &Trace) -> Result<(), Error> {
    write_items(path, FileState::Finished, |writer| {
        items(trace).try_for_each(|item| writer.push(&item))
    })
}

/// Begins a raw recording: the header and what is known before the run. The runtime appends to it.
pub fn create_raw(path: &Path, info: &[Info]) -> Result<(), Error> {
    // A tail that an earlier recording of this name left must not be taken for one of this.
    match std::fs::remove_file(tail_path(path)) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            return Err(Error::Write {
                path: tail_path(path),
                cause,
            });
        }
        _ => {}
    }
    write_items(path, FileState::Raw, |writer| {
        info.iter()
            .try_for_each(|info| writer.push(&Item::Info(info.clone())))
    })
}

/// Makes a raw recording and its tail a finished trace, in place. Further processes of the recording
/// get a file of their own beside it, which a warning names. A finished trace stays as it is. When the
/// disk is full it stays a raw recording, which is a warning.
pub fn finish(path: &Path) -> Result<Vec<Warning>, Error> {
    finish_beginning(path, u64::MAX)
}

/// Like `finish`; of each process only the first `most` events are kept, which a warning says.
pub fn finish_beginning(path: &Path, most: u64) -> Result<Vec<Warning>, Error> {
    let mut reader = Reader::open(path)?;
    if !reader.is_raw() {
        return Ok(Vec::new());
    }
    let draft = with_suffix(path, ".part");
    if let Err(problem) = write_all(&mut reader, &draft, most)? {
        return Ok(unfinished(reader, problem));
    }
    let mut warnings = reader.into_warnings();
    let others = warnings.iter().find_map(|warning| match warning {
        Warning::OtherProcesses { others, .. } => Some(others.clone()),
        _ => None,
    });
    for number in others.unwrap_or_default() {
        let beside = path.with_extension(format!("process{number}.norns"));
        let mut reader = Reader::open_process(path, Some(number))?;
        match write_all(&mut reader, &beside, most)? {
            Ok(()) => {
                warnings.push(Warning::OtherProcess {
                    number,
                    path: beside,
                });
                warnings.append(&mut reader.into_warnings());
            }
            Err(problem) => {
                let _ = std::fs::remove_file(&draft);
                warnings.append(&mut unfinished(reader, problem));
                return Ok(warnings);
            }
        }
    }
    std::fs::rename(&draft, path).map_err(|cause| Error::Write {
        path: path.into(),
        cause,
    })?;
    let _ = std::fs::remove_file(tail_path(path));
    Ok(warnings)
}

fn unfinished(reader: Reader, problem: Error) -> Vec<Warning> {
    let mut warnings = reader.into_warnings();
    warnings.push(Warning::Unfinished {
        problem: problem.to_string(),
    });
    warnings
}

/// Writes all items up to the event number `most` to a file. The outer error is the reader's, the
/// inner one the writer's. In both cases no file is left.
fn write_all(reader: &mut Reader, path: &Path, most: u64) -> Result<Result<(), Error>, Error> {
    let mut failed = None;
    let mut events = 0;
    let mut check = ValueCheck::default();
    let written = write_items(path, FileState::Finished, |writer| {
        loop {
            match reader.next() {
                Ok(Some(Item::Event(..))) if events == most => {
                    reader.warnings.push(Warning::Shortened { events });
                    return Ok(());
                }
                Ok(Some(item)) => {
                    events += u64::from(matches!(item, Item::Event(..)));
                    check.push(&item);
                    writer.push(&item)?;
                }
                Ok(None) => {
                    if check.reads > 0 {
                        for (name, count) in check.counters() {
                            let values = vec![name.into(), count.to_string()];
                            let key = info::COUNTER.into();
                            writer.push(&Item::Info(Info { key, values }))?;
                        }
                    }
                    return Ok(());
                }
                Err(error) => {
                    failed = Some(error);
                    return Ok(());
                }
            }
        }
    });
    if failed.is_some() || written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    if check.differ > 0 {
        reader.warnings.push(Warning::ValuesDiffer {
            differ: check.differ,
            reads: check.reads,
            first: check.first().unwrap_or("an unknown place").into(),
        });
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(written),
    }
}

/// Where the runtime keeps what it has not appended yet.
pub fn tail_path(path: &Path) -> PathBuf {
    with_suffix(path, ".tail")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Writes a file with `Writer`; `fill` pushes its items.
pub fn write_items(
    path: &Path,
    state: FileState,
    fill: impl FnOnce(&mut Writer<BufWriter<File>>) -> Result<(), WriteError>,
) -> Result<(), Error> {
    let failed = |cause: io::Error| Error::Write {
        path: path.into(),
        cause,
    };
    let file = File::create(path).map_err(failed)?;
    let mut writer = Writer::new(BufWriter::new(file), state).map_err(failed)?;
    fill(&mut writer).map_err(|error| match error {
        WriteError::Item(error) => error,
        WriteError::Output(cause) => failed(cause),
    })?;
    let mut out = match state {
        FileState::Raw => writer.finish_raw(),
        FileState::Finished => writer.finish(),
    }
    .map_err(failed)?;
    out.flush().map_err(failed)
}
