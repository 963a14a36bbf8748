//! Streams.

use super::descriptor::{EBADF, Opening, open_path};
use super::format::format;
use super::process::Arguments;
use super::scan::scan;
use super::{Call, Done, Flow, Model, int};
use crate::files::{Buffering, Direction, Open, Received};
use crate::machine::{Machine, Stop, give_up};
use crate::memory::{Region, address_of};
use crate::synchronisation::Wait;

const EOF: i32 = -1;
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
            let bytes = call.given(0, size.saturating_mul(count))?;
            let stream = call.stream(3)?;
            match print(call, stream, &bytes)? {
                Flow::Yield(_) => Ok(Flow::Yield(count)),
                other => Ok(other),
            }
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
        "flockfile" => |call| {
            let stream = call.stream(0)?;
            call.lock_stream(stream)
        },
        "funlockfile" => |call| {
            let stream = call.stream(0)?;
            call.unlock_stream(stream)
        },
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
        "tmpfile" => |call| {
            let name = call.made_up();
            let path = [b"/tmp/", &name[..]].concat();
            let files = call.machine.state.files_mut();
            let file = files.make(&path);
            let descriptor = files.open_file(&path, file, false);
            files.remove(&path);
            let stream = files.add_stream(descriptor);
            Ok(Flow::Return(call.machine.stream(stream)))
        },
        "rewind" => |call| {
            let stream = call.stream(0)?;
            call.move_stream(stream, 0, 0)?;
            Ok(Flow::Yield(0))
        },
        "fseek" | "fseeko" => |call| {
            let stream = call.stream(0)?;
            let (offset, whence) = (call.argument(1) as i64, call.int(2));
            call.move_stream(stream, offset, whence)
        },
        "getline" => read_whole_line,
        "scanf" | "__isoc99_scanf" | "__isoc23_scanf" => |call| scan_stream(call, 0, 0),
        "fscanf" | "__isoc99_fscanf" | "__isoc23_fscanf" => |call| {
            let stream = call.stream(0)?;
            scan_stream(call, stream, 1)
        },
        "sscanf" | "__isoc99_sscanf" | "__isoc23_sscanf" => |call| {
            let text = call.string(0)?;
            let mut bytes = text.iter().copied();
            scan(call, 1, &mut |_| Ok(bytes.next())).map(|(flow, _)| flow)
        },
        "fclose" => close_stream,
        "ungetc" => |call| {
            let stream = call.stream(1)?;
            if let Some(Some(stream)) = call.machine.state.files_mut().streams.get_mut(stream) {
                stream.given_back.push_front(call.arguments[0] as u8);
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

    /// The lock of a stream, which no object of the program has as its address.
    fn lock_stream(&mut self, stream: usize) -> Done {
        let current = self.machine.state.current;
        let mutexes = &mut self.machine.state.synchronisation_mut().mutexes;
        let lock = mutexes.entry(STREAMS + stream as u64).or_default();
        if lock.owner.is_some_and(|owner| owner != current) {
            return Ok(Flow::Wait(Wait::Mutex(STREAMS + stream as u64), None));
        }
        lock.owner = Some(current);
        lock.count += 1;
        self.machine.acquire(STREAMS + stream as u64);
        Ok(Flow::Yield(0))
    }

    fn unlock_stream(&mut self, stream: usize) -> Done {
        self.machine.release(STREAMS + stream as u64);
        let mutexes = &mut self.machine.state.synchronisation_mut().mutexes;
        let lock = mutexes.entry(STREAMS + stream as u64).or_default();
        lock.count = lock.count.saturating_sub(1);
        if lock.count == 0 {
            lock.owner = None;
        }
        Ok(Flow::Yield(0))
    }

    /// `None` if another thread has locked the stream.
    fn is_locked_by_another(&self, stream: usize) -> Option<Wait> {
        let current = self.machine.state.current;
        let mutexes = &self.machine.state.synchronisation.mutexes;
        let owner = mutexes.get(&(STREAMS + stream as u64))?.owner?;
        (owner != current).then_some(Wait::Mutex(STREAMS + stream as u64))
    }

    fn move_stream(&mut self, stream: usize, offset: i64, whence: i32) -> Done {
        self.machine.flush_stream(stream);
        let files = self.machine.state.files_mut();
        let Some(Some(stream)) = files.streams.get_mut(stream) else {
            return give_up("a stream that is not open");
        };
        let given_back = stream.given_back.len() as i64;
        stream.given_back.clear();
        stream.is_at_end = false;
        let descriptor = stream.descriptor;
        let (file, from) = match files.open(descriptor) {
            Some(Open::File { file, position, .. }) => (*file, *position),
            _ => return give_up("fseek of what is no file"),
        };
        let base = match whence {
            0 => 0,
            1 => from as i64 - given_back,
            _ => files.bytes(file).len() as i64,
        };
        if let Some(Open::File { position, .. }) = files.open_mut(descriptor) {
            *position = usize::try_from(base + offset).unwrap_or_default();
        }
        Ok(Flow::Yield(0))
    }
}

/// Streams have a lock each.
const STREAMS: u64 = 1 << 20;

impl Machine<'_> {
    pub(crate) fn flush_stream(&mut self, number: usize) {
        let Some(Some(stream)) = self.state.files_mut().streams.get_mut(number) else {
            return;
        };
        let (descriptor, buffer) = (stream.descriptor, std::mem::take(&mut stream.buffer));
        for (bytes, place) in buffer {
            if !self.put(descriptor, &bytes, place)
                && let Some(description) = self.state.files.description(descriptor)
                && let Some(pipe) = self.state.files.pipe_to(description)
            {
                self.come_before(description);
                self.state.effects += 1;
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
    if let Some(wait) = call.is_locked_by_another(number) {
        return Ok(Flow::Wait(wait, None));
    }
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
    match print(call, stream, &[byte])? {
        Flow::Yield(_) => Ok(Flow::Yield(byte.into())),
        other => Ok(other),
    }
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

/// Why there is no next byte of a stream.
enum NoByte {
    End,
    NotYet(Wait),
}

/// The next byte of a stream.
fn next_byte(call: &mut Call<'_, '_>, number: usize) -> Result<Result<u8, NoByte>, Stop> {
    if let Some(wait) = call.is_locked_by_another(number) {
        return Ok(Err(NoByte::NotYet(wait)));
    }
    let files = call.machine.state.files_mut();
    let Some(Some(stream)) = files.streams.get_mut(number) else {
        return give_up("a stream that is not open");
    };
    if let Some(byte) = stream.given_back.pop_front() {
        return Ok(Ok(byte));
    }
    let descriptor = stream.descriptor;
    let Some(description) = files.description(descriptor) else {
        return Ok(Err(NoByte::End));
    };
    let byte = match files.read(descriptor, 1, false) {
        Received::Bytes(bytes) => bytes.first().copied(),
        Received::NotYet => {
            let wait = Wait::Ready(vec![(description, Direction::Read)]);
            return Ok(Err(NoByte::NotYet(wait)));
        }
        Received::Error(_) => None,
    };
    if byte.is_none()
        && let Some(Some(stream)) = files.streams.get_mut(number)
    {
        stream.is_at_end = true;
    }
    call.machine.come_after(description);
    Ok(byte.ok_or(NoByte::End))
}

/// Bytes of a stream up to a number or the end of a line. If the thread has to wait for some of them, what was read
/// so far is given back.
fn next_bytes(
    call: &mut Call<'_, '_>,
    stream: usize,
    most: usize,
    is_line: bool,
) -> Result<Result<Vec<u8>, Flow>, Stop> {
    let mut bytes = Vec::new();
    while bytes.len() < most {
        match next_byte(call, stream)? {
            Ok(byte) => bytes.push(byte),
            Err(NoByte::End) => break,
            Err(NoByte::NotYet(wait)) => {
                call.give_back(stream, &bytes);
                return Ok(Err(Flow::Wait(wait, None)));
            }
        }
        if is_line && bytes.last() == Some(&b'\n') {
            break;
        }
    }
    Ok(Ok(bytes))
}

impl Call<'_, '_> {
    fn give_back(&mut self, stream: usize, bytes: &[u8]) {
        let files = self.machine.state.files_mut();
        if let Some(Some(stream)) = files.streams.get_mut(stream) {
            for &byte in bytes.iter().rev() {
                stream.given_back.push_front(byte);
            }
        }
    }
}

fn read_byte(call: &mut Call<'_, '_>, stream: usize) -> Done {
    match next_bytes(call, stream, 1, false)? {
        Ok(bytes) => int(bytes.first().map_or(EOF, |&byte| i32::from(byte))),
        Err(flow) => Ok(flow),
    }
}

fn read_line(call: &mut Call<'_, '_>) -> Done {
    let stream = call.stream(2)?;
    let size = call.argument(1) as u32 as usize;
    let mut line = match next_bytes(call, stream, size.saturating_sub(1), true)? {
        Ok(line) => line,
        Err(flow) => return Ok(flow),
    };
    if line.is_empty() {
        return Ok(Flow::Return(0));
    }
    line.push(0);
    call.write(call.argument(0), &line)?;
    Ok(Flow::Return(call.argument(0)))
}

/// `getline`
fn read_whole_line(call: &mut Call<'_, '_>) -> Done {
    let stream = call.stream(2)?;
    let mut line = match next_bytes(call, stream, usize::MAX, true)? {
        Ok(line) => line,
        Err(flow) => return Ok(flow),
    };
    if line.is_empty() {
        return Ok(Flow::Return(u64::MAX));
    }
    let length = line.len() as u64;
    line.push(0);
    let (block, room) = (call.argument(0), call.argument(1));
    let old = call.load(block, 8)?;
    if old == 0 || call.load(room, 8)? < line.len() as u64 {
        let size = (line.len() as u64).max(120);
        if old != 0 {
            let old = call.machine.state.memory.heap_block(old)?;
            call.machine.state.memory.release(old);
        }
        let memory = &mut call.machine.state.memory;
        let new = address_of(memory.allocate(size, Region::Heap, false));
        call.store(block, 8, new)?;
        call.store(room, 8, size)?;
    }
    let to = call.load(block, 8)?;
    call.write(to, &line)?;
    Ok(Flow::Return(length))
}

fn read_items(call: &mut Call<'_, '_>) -> Done {
    let (size, count) = (call.argument(1), call.argument(2));
    let stream = call.stream(3)?;
    let wanted = size.saturating_mul(count) as usize;
    let bytes = match next_bytes(call, stream, wanted, false)? {
        Ok(bytes) => bytes,
        Err(flow) => return Ok(flow),
    };
    call.write(call.argument(0), &bytes)?;
    Ok(Flow::Return(
        (bytes.len() as u64).checked_div(size).unwrap_or_default(),
    ))
}

/// `scanf` of a stream, with the format in argument `at`.
fn scan_stream(call: &mut Call<'_, '_>, stream: usize, at: usize) -> Done {
    let mut read = Vec::new();
    let mut wait = None;
    let (flow, unused) = scan(call, at, &mut |call| {
        Ok(match next_byte(call, stream)? {
            Ok(byte) => {
                read.push(byte);
                Some(byte)
            }
            Err(NoByte::End) => None,
            Err(NoByte::NotYet(until)) => {
                wait = Some(until);
                None
            }
        })
    })?;
    if let Some(wait) = wait {
        call.give_back(stream, &read);
        return Ok(Flow::Wait(wait, None));
    }
    if let Some(unused) = unused {
        call.give_back(stream, &[unused]);
    }
    Ok(flow)
}

fn open_stream(call: &mut Call<'_, '_>) -> Done {
    let (path, mode) = (call.string(0)?, call.string(1)?);
    let how = Opening {
        makes: !mode.starts_with(b"r"),
        empties: mode.starts_with(b"w"),
        appends: mode.starts_with(b"a"),
        is_exclusive: mode.contains(&b'x'),
    };
    match open_path(call, &path, how)? {
        Ok(descriptor) => {
            let stream = call.machine.state.files_mut().add_stream(descriptor);
            Ok(Flow::Return(call.machine.stream(stream)))
        }
        Err(error) => {
            call.set_errno(error)?;
            Ok(Flow::Return(0))
        }
    }
}

fn close_stream(call: &mut Call<'_, '_>) -> Done {
    let stream = call.stream(0)?;
    call.machine.flush_stream(stream);
    let closed = call.machine.state.files_mut().streams[stream].take();
    if let Some(closed) = closed
        && !call.machine.close(closed.descriptor)
    {
        return call.fail(EBADF);
    }
    Ok(Flow::Yield(0))
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
