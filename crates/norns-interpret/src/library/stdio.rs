//! Streams and descriptors.

use super::format::format;
use super::process::Arguments;
use super::{Call, Done, Flow, Model, int};
use crate::files::{Buffering, Open};
use crate::machine::{Machine, Stop, give_up};
use crate::memory::{Region, address_of};
use crate::outcome::Channel;
use crate::synchronisation::Wait;

const EOF: i32 = -1;
const ENOENT: i32 = 2;
const EBADF: i32 = 9;
/// What glibc's streams hold before they write.
const STREAM_CAPACITY: usize = 4096;

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "printf" | "__printf_chk" => |call| {
            let fixed = if call.name == "printf" { 0 } else { 1 };
            let text = formatted(call, fixed, None)?;
            print(call, 1, &text)
        },
        "vprintf" => |call| {
            let text = formatted(call, 0, Some(1))?;
            print(call, 1, &text)
        },
        "fprintf" | "__fprintf_chk" => |call| {
            let at = if call.name == "fprintf" { 1 } else { 2 };
            let text = formatted(call, at, None)?;
            let stream = call.stream(0)?;
            print(call, stream, &text)
        },
        "vfprintf" => |call| {
            let text = formatted(call, 1, Some(2))?;
            let stream = call.stream(0)?;
            print(call, stream, &text)
        },
        "dprintf" => |call| {
            let text = formatted(call, 1, None)?;
            let descriptor = call.argument(0) as usize;
            call.write_out(descriptor, &text)
        },
        "sprintf" => |call| {
            let text = formatted(call, 1, None)?;
            into_buffer(call, text, u64::MAX)
        },
        "vsprintf" => |call| {
            let text = formatted(call, 1, Some(2))?;
            into_buffer(call, text, u64::MAX)
        },
        "snprintf" => |call| {
            let text = formatted(call, 2, None)?;
            let size = call.argument(1);
            into_buffer(call, text, size)
        },
        "vsnprintf" => |call| {
            let text = formatted(call, 2, Some(3))?;
            let size = call.argument(1);
            into_buffer(call, text, size)
        },
        "puts" => |call| {
            let mut text = call.string(0)?;
            text.push(b'\n');
            print(call, 1, &text)
        },
        "fputs" | "fputs_unlocked" => |call| {
            let text = call.string(0)?;
            let stream = call.stream(1)?;
            print(call, stream, &text)
        },
        "putchar" => |call| put_byte(call, 1),
        "fputc" | "putc" => |call| {
            let stream = call.stream(1)?;
            put_byte(call, stream)
        },
        "fwrite" => |call| {
            let (size, count) = (call.argument(1), call.argument(2));
            let bytes = match size.saturating_mul(count) {
                0 => Vec::new(),
                all => call
                    .machine
                    .state
                    .memory
                    .bytes(call.argument(0), all)?
                    .to_vec(),
            };
            let stream = call.stream(3)?;
            print(call, stream, &bytes)?;
            Ok(Flow::Return(count))
        },
        "fflush" => |call| {
            match call.argument(0) {
                0 => call.machine.flush_all_streams(),
                _ => {
                    let stream = call.stream(0)?;
                    call.machine.flush_stream(stream);
                }
            }
            int(0)
        },
        "perror" => |call| {
            let address = call.machine.errno();
            let error = error_text(call.load(address, 4)? as i32);
            let text = match call.argument(0) {
                0 => format!("{error}\n").into_bytes(),
                _ => [&call.string(0)?[..], format!(": {error}\n").as_bytes()].concat(),
            };
            print(call, 2, &text)
        },
        "setvbuf" => |call| {
            let stream = call.stream(0)?;
            let buffering = match call.int(2) {
                2 => Buffering::None,
                1 => Buffering::Line,
                _ => Buffering::Full,
            };
            if let Some(Some(stream)) = call.machine.state.files_mut().streams.get_mut(stream) {
                stream.buffering = buffering;
            }
            int(0)
        },
        "flockfile" | "funlockfile" => return None,
        "fgets" => read_line,
        "fgetc" | "getc" => |call| {
            let stream = call.stream(0)?;
            read_byte(call, stream)
        },
        "getchar" => |call| read_byte(call, 0),
        "fread" => read_items,
        "feof" => |call| {
            let stream = call.stream(0)?;
            let stream = call.machine.state.files.streams[stream].as_ref();
            int(i32::from(stream.is_some_and(|stream| stream.is_at_end)))
        },
        "ferror" => |_| int(0),
        "fopen" => open_stream,
        "fdopen" => |call| {
            let descriptor = call.argument(0) as usize;
            let stream = call.machine.state.files_mut().add_stream(descriptor);
            Ok(Flow::Return(call.machine.stream(stream)))
        },
        "fileno" => |call| {
            let stream = call.stream(0)?;
            let stream = call.machine.state.files.streams[stream].as_ref();
            int(stream.map_or(-1, |stream| stream.descriptor as i32))
        },
        "fclose" => close_stream,
        "write" => |call| {
            let count = call.argument(2);
            let bytes = match count {
                0 => Vec::new(),
                _ => call
                    .machine
                    .state
                    .memory
                    .bytes(call.argument(1), count)?
                    .to_vec(),
            };
            let descriptor = call.int(0) as usize;
            call.write_out(descriptor, &bytes)
        },
        "read" => read,
        "open" | "open64" => open,
        "close" => |call| {
            let descriptor = call.int(0) as usize;
            match call.machine.close(descriptor) {
                true => Ok(Flow::Yield(0)),
                false => call.fail(EBADF),
            }
        },
        "lseek" | "lseek64" => seek,
        "pipe" => pipe,
        "unlink" | "remove" => |call| {
            let path = call.string(0)?;
            match call.machine.state.files_mut().contents.remove(&path) {
                Some(_) => int(0),
                None if call.machine.input.has_all_files => call.fail(ENOENT),
                None => unknown_file(&path),
            }
        },
        "stat" | "lstat" | "stat64" | "lstat64" | "access" => stat,
        "fstat" | "fstat64" => stat_open,
        // Owners, modes and times are not kept.
        "chmod" | "chown" | "fchmod" | "fchown" | "utime" | "utimes" | "futimens" => |_| int(0),
        "ungetc" => |call| {
            let stream = call.stream(1)?;
            if let Some(Some(stream)) = call.machine.state.files_mut().streams.get_mut(stream) {
                stream.pushed_back = Some(call.arguments[0] as u8);
                stream.is_at_end = false;
            }
            int(call.int(0))
        },
        _ => return None,
    })
}

impl Call<'_, '_> {
    /// The number of a stream that is open.
    fn stream(&self, index: usize) -> Result<usize, Stop> {
        let number = self.load(self.argument(index), 8)? as usize;
        match self.machine.state.files.streams.get(number) {
            Some(Some(_)) => Ok(number),
            _ => give_up("a stream that is not open"),
        }
    }

    /// Writes to a descriptor.
    fn write_out(&mut self, descriptor: usize, bytes: &[u8]) -> Done {
        let open = match self.machine.state.files.descriptors.get(descriptor) {
            Some(Some(open)) => open.clone(),
            _ => return self.fail(EBADF),
        };
        let current = self.machine.state.current;
        self.machine.drain_buffer(current)?;
        if let Open::PipeWrite(pipe) = open {
            if self.machine.state.files.pipes[pipe].readers == 0 {
                return give_up("a write to a pipe that nobody reads");
            }
            if !self.machine.state.files.has_room(pipe) {
                return Ok(Flow::Wait(Wait::Room(pipe), None));
            }
            self.machine.release(PIPES + pipe as u64);
            self.machine.state.effects += 1;
            self.machine.state.files_mut().pipes[pipe]
                .bytes
                .extend(bytes);
            return Ok(Flow::Yield(bytes.len() as u64));
        }
        let place = self.machine.place_id();
        match self.machine.put(descriptor, bytes, place) {
            true => Ok(Flow::Yield(bytes.len() as u64)),
            false => self.fail(EBADF),
        }
    }
}

/// Streams have a lock each.
const STREAMS: u64 = 1 << 20;
/// Pipes order threads like objects at these addresses, which no object of the program has.
const PIPES: u64 = 16;

impl Machine<'_> {
    /// Writes to a file or to what the process was given; whether that is possible.
    fn put(&mut self, descriptor: usize, bytes: &[u8], place: Option<norns_ir::PlaceId>) -> bool {
        let files = self.state.files_mut();
        let channel = match files.descriptors.get_mut(descriptor) {
            Some(Some(Open::Output)) => Channel::Output,
            Some(Some(Open::Error)) => Channel::Error,
            Some(Some(Open::Null)) => return true,
            Some(Some(Open::File {
                path,
                position,
                appends,
            })) => {
                let content = files.contents.entry(path.clone()).or_default();
                if *appends {
                    *position = content.len();
                }
                let end = *position + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*position..end].copy_from_slice(bytes);
                *position = end;
                Channel::File(path.clone())
            }
            Some(Some(Open::Input | Open::PipeRead(_) | Open::PipeWrite(_)) | None) | None => {
                return false;
            }
        };
        if !bytes.is_empty() {
            self.note_write(channel, bytes, place);
        }
        true
    }

    /// Closes a descriptor; whether it was open. Who reads the end of a pipe comes after that.
    fn close(&mut self, descriptor: usize) -> bool {
        if let Some(Some(Open::PipeWrite(pipe))) = self.state.files.descriptors.get(descriptor) {
            self.release(PIPES + *pipe as u64);
        }
        self.state.effects += 1;
        self.state.files_mut().close(descriptor)
    }

    pub(crate) fn flush_stream(&mut self, number: usize) {
        let Some(Some(stream)) = self.state.files_mut().streams.get_mut(number) else {
            return;
        };
        let (descriptor, buffer) = (stream.descriptor, std::mem::take(&mut stream.buffer));
        for (bytes, place) in buffer {
            if !self.put(descriptor, &bytes, place)
                && let Some(Some(Open::PipeWrite(pipe))) =
                    self.state.files.descriptors.get(descriptor)
            {
                let pipe = *pipe;
                self.release(PIPES + pipe as u64);
                self.state.files_mut().pipes[pipe].bytes.extend(bytes);
            }
        }
    }

    pub(crate) fn flush_all_streams(&mut self) {
        for number in 0..self.state.files.streams.len() {
            self.flush_stream(number);
        }
    }

    /// The address of the running thread's `errno`.
    pub(crate) fn errno(&mut self) -> u64 {
        if let Some(object) = self.thread().errno {
            return address_of(object);
        }
        let object = self.state.memory.allocate(4, Region::ThreadLocal, true);
        self.thread().errno = Some(object);
        address_of(object)
    }
}

/// The text of a format in argument `at`, with what follows it or the `va_list` in argument `list`.
fn formatted(call: &mut Call<'_, '_>, at: usize, list: Option<usize>) -> Result<Vec<u8>, Stop> {
    let text = call.string(at)?;
    let mut arguments = match list {
        Some(list) => Arguments::of_list(call.argument(list)),
        None => Arguments::of_call(call, at + 1),
    };
    format(call, &text, &mut arguments)
}

fn print(call: &mut Call<'_, '_>, number: usize, text: &[u8]) -> Done {
    let place = call.machine.place_id();
    let current = call.machine.state.current;
    call.machine.drain_buffer(current)?;
    call.machine.acquire(STREAMS + number as u64);
    call.machine.release(STREAMS + number as u64);
    let Some(Some(stream)) = call.machine.state.files_mut().streams.get_mut(number) else {
        return give_up("a stream that is not open");
    };
    let held: usize = stream.buffer.iter().map(|(bytes, _)| bytes.len()).sum();
    stream.buffer.push((text.to_vec(), place));
    let is_due = match stream.buffering {
        Buffering::None => true,
        Buffering::Line => text.contains(&b'\n'),
        Buffering::Full => held + text.len() > STREAM_CAPACITY,
    };
    if is_due {
        call.machine.flush_stream(number);
    }
    Ok(Flow::Yield(text.len() as u64))
}

fn put_byte(call: &mut Call<'_, '_>, stream: usize) -> Done {
    let byte = call.argument(0) as u8;
    print(call, stream, &[byte])?;
    Ok(Flow::Yield(byte.into()))
}

fn into_buffer(call: &mut Call<'_, '_>, mut text: Vec<u8>, size: u64) -> Done {
    let length = text.len() as u64;
    if size > 0 {
        text.truncate((size - 1).min(length) as usize);
        text.push(0);
        call.write(call.argument(0), &text)?;
    }
    Ok(Flow::Return(length))
}

fn read(call: &mut Call<'_, '_>) -> Done {
    let (descriptor, count) = (call.int(0) as usize, call.argument(2) as usize);
    let pipe = match call.machine.state.files.descriptors.get(descriptor) {
        Some(Some(Open::PipeRead(pipe))) => Some(*pipe),
        _ => None,
    };
    match call.machine.state.files_mut().read(descriptor, count) {
        Err(error) => call.fail(error),
        Ok(None) => Ok(Flow::Wait(Wait::Pipe(pipe.unwrap_or_default()), None)),
        Ok(Some(bytes)) => {
            if let Some(pipe) = pipe {
                call.machine.state.effects += 1;
                call.machine.acquire(PIPES + pipe as u64);
            }
            call.write(call.argument(1), &bytes)?;
            Ok(Flow::Yield(bytes.len() as u64))
        }
    }
}

/// The next byte of a stream; `None` at its end.
fn next_byte(call: &mut Call<'_, '_>, number: usize) -> Result<Option<u8>, Stop> {
    let files = call.machine.state.files_mut();
    let Some(Some(stream)) = files.streams.get_mut(number) else {
        return give_up("a stream that is not open");
    };
    if let Some(byte) = stream.pushed_back.take() {
        return Ok(Some(byte));
    }
    let descriptor = stream.descriptor;
    let pipe = match files.descriptors.get(descriptor) {
        Some(Some(Open::PipeRead(pipe))) => Some(*pipe),
        _ => None,
    };
    let byte = match files.read(descriptor, 1) {
        Ok(Some(bytes)) => bytes.first().copied(),
        Ok(None) => return give_up("a stream that waits for a pipe"),
        Err(_) => None,
    };
    if byte.is_none()
        && let Some(Some(stream)) = files.streams.get_mut(number)
    {
        stream.is_at_end = true;
    }
    if let Some(pipe) = pipe {
        call.machine.acquire(PIPES + pipe as u64);
    }
    Ok(byte)
}

fn read_byte(call: &mut Call<'_, '_>, stream: usize) -> Done {
    int(next_byte(call, stream)?.map_or(EOF, i32::from))
}

fn read_line(call: &mut Call<'_, '_>) -> Done {
    let stream = call.stream(2)?;
    let size = call.argument(1) as u32 as usize;
    let mut line = Vec::new();
    while line.len() + 1 < size
        && let Some(byte) = next_byte(call, stream)?
    {
        line.push(byte);
        if byte == b'\n' {
            break;
        }
    }
    if line.is_empty() {
        return Ok(Flow::Return(0));
    }
    line.push(0);
    call.write(call.argument(0), &line)?;
    Ok(Flow::Return(call.argument(0)))
}

fn read_items(call: &mut Call<'_, '_>) -> Done {
    let (size, count) = (call.argument(1), call.argument(2));
    let stream = call.stream(3)?;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < size.saturating_mul(count)
        && let Some(byte) = next_byte(call, stream)?
    {
        bytes.push(byte);
    }
    call.write(call.argument(0), &bytes)?;
    Ok(Flow::Return(
        (bytes.len() as u64).checked_div(size).unwrap_or_default(),
    ))
}

/// Opens a file that the input has or the program makes.
fn open_path(
    call: &mut Call<'_, '_>,
    path: &[u8],
    makes: bool,
    empties: bool,
    appends: bool,
) -> Result<Option<usize>, Stop> {
    if path == b"/dev/null" {
        return Ok(Some(call.machine.state.files_mut().add(Open::Null)));
    }
    let exists = call.machine.state.files.contents.contains_key(path);
    if !exists && !makes && call.machine.input.has_all_files {
        return Ok(None);
    }
    if !exists && !makes {
        return unknown_file(path);
    }
    let files = call.machine.state.files_mut();
    if empties || !exists {
        files.contents.insert(path.to_vec(), Vec::new());
    }
    Ok(Some(files.add(Open::File {
        path: path.to_vec(),
        position: 0,
        appends,
    })))
}

fn unknown_file<T>(path: &[u8]) -> Result<T, Stop> {
    let path = String::from_utf8_lossy(path);
    give_up(format!("the file {path}, which is no input"))
}

/// `stat` and `access` of a path.
fn stat(call: &mut Call<'_, '_>) -> Done {
    let path = call.string(0)?;
    let size = call.machine.state.files.contents.get(&path).map(Vec::len);
    match size {
        Some(_) if call.name == "access" => int(0),
        Some(size) => put_stat(call, size),
        None if call.machine.input.has_all_files => call.fail(ENOENT),
        None => unknown_file(&path),
    }
}

fn stat_open(call: &mut Call<'_, '_>) -> Done {
    let files = &call.machine.state.files;
    let size = match files.descriptors.get(call.int(0) as usize) {
        Some(Some(Open::File { path, .. })) => files.contents.get(path).map(Vec::len),
        Some(Some(_)) => return give_up("fstat of what is no file"),
        Some(None) | None => return call.fail(EBADF),
    };
    put_stat(call, size.unwrap_or_default())
}

/// A `struct stat` of x86-64 for a regular file.
fn put_stat(call: &mut Call<'_, '_>, size: usize) -> Done {
    let address = call.argument(1);
    call.write(address, &[0; 144])?;
    call.store(address + 8, 8, 1)?;
    call.store(address + 16, 8, 1)?;
    call.store(address + 24, 4, 0o100_644)?;
    call.store(address + 28, 4, 1000)?;
    call.store(address + 32, 4, 1000)?;
    call.store(address + 48, 8, size as u64)?;
    call.store(address + 56, 8, 4096)?;
    call.store(address + 64, 8, size.div_ceil(512) as u64)?;
    int(0)
}

fn open(call: &mut Call<'_, '_>) -> Done {
    let (path, flags) = (call.string(0)?, call.int(1));
    let (makes, empties, appends) = (flags & 0o100 != 0, flags & 0o1000 != 0, flags & 0o2000 != 0);
    match open_path(call, &path, makes, empties, appends)? {
        Some(descriptor) => int(descriptor as i32),
        None => call.fail(ENOENT),
    }
}

fn open_stream(call: &mut Call<'_, '_>) -> Done {
    let (path, mode) = (call.string(0)?, call.string(1)?);
    let (makes, empties) = (!mode.starts_with(b"r"), mode.starts_with(b"w"));
    let appends = mode.starts_with(b"a");
    match open_path(call, &path, makes, empties, appends)? {
        Some(descriptor) => {
            let stream = call.machine.state.files_mut().add_stream(descriptor);
            Ok(Flow::Return(call.machine.stream(stream)))
        }
        None => Ok(Flow::Return(0)),
    }
}

fn close_stream(call: &mut Call<'_, '_>) -> Done {
    let stream = call.stream(0)?;
    call.machine.flush_stream(stream);
    let closed = call.machine.state.files_mut().streams[stream].take();
    if let Some(closed) = closed {
        call.machine.close(closed.descriptor);
    }
    Ok(Flow::Yield(0))
}

fn seek(call: &mut Call<'_, '_>) -> Done {
    let (descriptor, offset, whence) = (call.int(0) as usize, call.argument(1) as i64, call.int(2));
    let files = call.machine.state.files_mut();
    let Some(Some(Open::File { path, position, .. })) = files.descriptors.get_mut(descriptor)
    else {
        return give_up("lseek of what is no file");
    };
    let base = match whence {
        0 => 0,
        1 => *position as i64,
        _ => files
            .contents
            .get(path)
            .map_or(0, |content| content.len() as i64),
    };
    *position = usize::try_from(base + offset).unwrap_or_default();
    Ok(Flow::Return(*position as u64))
}

fn pipe(call: &mut Call<'_, '_>) -> Done {
    let files = call.machine.state.files_mut();
    let pipe = files.pipes.len();
    files.pipes.push(crate::files::Pipe {
        readers: 1,
        writers: 1,
        ..Default::default()
    });
    let read = files.add(Open::PipeRead(pipe));
    let write = files.add(Open::PipeWrite(pipe));
    call.store(call.argument(0), 4, read as u64)?;
    call.store(call.argument(0) + 4, 4, write as u64)?;
    int(0)
}

/// As glibc says it.
pub(super) fn error_text(error: i32) -> String {
    match error {
        0 => "Success".to_owned(),
        1 => "Operation not permitted".to_owned(),
        2 => "No such file or directory".to_owned(),
        4 => "Interrupted system call".to_owned(),
        9 => "Bad file descriptor".to_owned(),
        11 => "Resource temporarily unavailable".to_owned(),
        12 => "Cannot allocate memory".to_owned(),
        16 => "Device or resource busy".to_owned(),
        22 => "Invalid argument".to_owned(),
        32 => "Broken pipe".to_owned(),
        35 => "Resource deadlock avoided".to_owned(),
        110 => "Connection timed out".to_owned(),
        other => format!("Unknown error {other}"),
    }
}
