//! Descriptors: files, pipes, counters, and locks on files.

use super::process::Arguments;
use super::{Call, Done, Flow, Model, int};
use crate::files::{Direction, Open, Received};
use crate::machine::{Machine, Stop, give_up};
use crate::outcome::Channel;
use crate::signals::{self, Signal};
use crate::synchronisation::Wait;

pub(super) const ENOENT: i32 = 2;
pub(super) const EBADF: i32 = 9;
pub(super) const EAGAIN: i32 = 11;
const EEXIST: i32 = 17;
pub(super) const EINVAL: i32 = 22;
const ESPIPE: i32 = 29;
const EPIPE: i32 = 32;

const O_CREAT: i32 = 0o100;
const O_EXCL: i32 = 0o200;
const O_TRUNC: i32 = 0o1000;
const O_APPEND: i32 = 0o2000;
pub(super) const O_NONBLOCK: i32 = 0o4000;

/// What is behind a descriptor orders threads like objects at these addresses, which no object of the program has.
const PIPES: u64 = 1 << 16;
const DESCRIPTIONS: u64 = 1 << 21;
const CONTENTS: u64 = 1 << 22;
/// All names of files: who makes or removes one comes before who finds that.
const NAMES: u64 = 1 << 23;

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "write" => |call| {
            let bytes = call.given(1, call.argument(2))?;
            let descriptor = call.int(0) as usize;
            call.write_out(descriptor, &bytes)
        },
        "read" => |call| read(call, false, false),
        "pread" | "pread64" => read_at,
        "pwrite" | "pwrite64" => write_at,
        "open" | "open64" => open,
        "close" => |call| {
            let descriptor = call.int(0) as usize;
            match call.machine.close(descriptor) {
                true => Ok(Flow::Yield(0)),
                false => call.fail(EBADF),
            }
        },
        "lseek" | "lseek64" => seek,
        "pipe" => |call| pipe(call, 0),
        "pipe2" => |call| pipe(call, call.int(1)),
        "eventfd" => counter,
        "eventfd_write" => |call| {
            let bytes = call.argument(1).to_le_bytes();
            let descriptor = call.int(0) as usize;
            match call.write_out(descriptor, &bytes)? {
                Flow::Yield(8) => Ok(Flow::Yield(0)),
                other => Ok(other),
            }
        },
        "eventfd_read" => |call| {
            call.arguments.push(8);
            match read(call, false, false)? {
                Flow::Yield(8) => Ok(Flow::Yield(0)),
                other => Ok(other),
            }
        },
        "dup" => |call| match call.machine.state.files.description(call.int(0) as usize) {
            Some(description) => {
                let number = call.machine.state.files_mut().refer(description, 0);
                int(number as i32)
            }
            None => call.fail(EBADF),
        },
        "dup2" | "dup3" => duplicate,
        "fcntl" | "fcntl64" => control,
        "flock" => lock,
        "mkstemp" | "mkstemp64" => |call| {
            let path = call.string(0)?;
            let Some(length) = path.strip_suffix(b"XXXXXX").map(<[u8]>::len) else {
                return call.fail(EINVAL);
            };
            let name = call.made_up();
            let path = [&path[..length], &name].concat();
            call.write(call.argument(0) + length as u64, &name)?;
            let files = call.machine.state.files_mut();
            let file = files.make(&path);
            int(files.open_file(&path, file, false) as i32)
        },
        "unlink" | "remove" => |call| {
            let path = call.string(0)?;
            call.changes_names()?;
            match call.machine.state.files_mut().remove(&path) {
                true => int(0),
                false if call.has_all(&path) => call.fail(ENOENT),
                false => unknown_file(&path),
            }
        },
        "rename" => |call| {
            let (from, to) = (call.string(0)?, call.string(1)?);
            call.changes_names()?;
            match call.machine.state.files_mut().rename(&from, &to) {
                true => int(0),
                false if call.has_all(&from) => call.fail(ENOENT),
                false => unknown_file(&from),
            }
        },
        "ftruncate" | "ftruncate64" => {
            |call| match call.machine.state.files.open(call.int(0) as usize) {
                Some(&Open::File { file, .. }) => {
                    let size = call.argument(1) as usize;
                    call.machine
                        .state
                        .files_mut()
                        .bytes_mut(file)
                        .resize(size, 0);
                    int(0)
                }
                Some(_) => call.fail(EINVAL),
                None => call.fail(EBADF),
            }
        }
        "fsync" | "fdatasync" => |_| int(0),
        "stat" | "lstat" | "stat64" | "lstat64" | "access" => stat,
        "fstat" | "fstat64" => stat_open,
        // Owners, modes and times are not kept.
        "chmod" | "chown" | "fchmod" | "fchown" | "utime" | "utimes" | "futimens" => |_| int(0),
        _ => return None,
    })
}

impl Call<'_, '_> {
    /// The call makes, removes or renames a file, or tries to.
    fn changes_names(&mut self) -> Result<(), Stop> {
        let current = self.machine.state.current;
        self.machine.drain_buffer(current)?;
        self.machine.acquire(NAMES);
        self.machine.release(NAMES);
        Ok(())
    }

    /// Bytes of the program's memory.
    pub(super) fn given(&self, index: usize, count: u64) -> Result<Vec<u8>, Stop> {
        match count {
            0 => Ok(Vec::new()),
            _ => {
                let memory = &self.machine.state.memory;
                Ok(memory.bytes(self.argument(index), count)?.to_vec())
            }
        }
    }

    /// Six letters that no other name has.
    pub(super) fn made_up(&mut self) -> [u8; 6] {
        let files = self.machine.state.files_mut();
        files.made_up += 1;
        let mut number = files.made_up;
        std::array::from_fn(|_| {
            let letter = b'a' + (number % 26) as u8;
            number /= 26;
            letter
        })
    }

    /// Whether a path that no file has is known to name none. Those of the system are not known.
    pub(super) fn has_all(&self, path: &[u8]) -> bool {
        const OF_SYSTEM: [&[u8]; 4] = [b"/dev/", b"/proc/", b"/sys/", b"/etc/"];
        self.machine.input.has_all_files && !OF_SYSTEM.iter().any(|one| path.starts_with(one))
    }

    /// Waits until something can be read from or written to a description.
    pub(super) fn wait_for(
        &mut self,
        description: usize,
        direction: Direction,
        waits: bool,
    ) -> Done {
        if !waits
            || self
                .machine
                .state
                .files
                .described(description)
                .is_non_blocking
        {
            self.set_errno(EAGAIN)?;
            return Ok(Flow::Yield(u64::MAX));
        }
        let wait = Wait::Ready(vec![(description, direction)]);
        Ok(Flow::Wait(wait, None))
    }

    /// Writes to a descriptor.
    pub(super) fn write_out(&mut self, descriptor: usize, bytes: &[u8]) -> Done {
        self.send(descriptor, bytes, true, true)
    }

    /// Writes to a descriptor. `signals`: whether writing what nobody reads raises SIGPIPE.
    pub(super) fn send(
        &mut self,
        descriptor: usize,
        bytes: &[u8],
        waits: bool,
        signals: bool,
    ) -> Done {
        let Some(description) = self.machine.state.files.description(descriptor) else {
            return self.fail(EBADF);
        };
        let current = self.machine.state.current;
        self.machine.drain_buffer(current)?;
        let files = &self.machine.state.files;
        let is_connection = matches!(files.described(description).open, Open::Socket(_));
        if let Some(pipe) = files.pipe_to(description) {
            if !files.has_readers(pipe) {
                if signals {
                    self.machine
                        .raise(Some(current), Signal::new(signals::SIGPIPE))?;
                }
                self.set_errno(EPIPE)?;
                return Ok(Flow::Yield(u64::MAX));
            }
            let room = files.room(pipe);
            let is_non_blocking = files.described(description).is_non_blocking;
            if room == 0 && !bytes.is_empty() {
                return self.wait_for(description, Direction::Write, waits);
            }
            let count = match is_non_blocking {
                true => bytes.len().min(room),
                false => bytes.len(),
            };
            self.machine.state.effects += 1;
            self.machine.release(PIPES + pipe as u64);
            let pipe = &mut self.machine.state.files_mut().pipes[pipe];
            pipe.bytes.extend(&bytes[..count]);
            return Ok(Flow::Yield(count as u64));
        }
        if is_connection {
            if signals {
                self.machine
                    .raise(Some(current), Signal::new(signals::SIGPIPE))?;
            }
            self.set_errno(EPIPE)?;
            return Ok(Flow::Yield(u64::MAX));
        }
        if let Open::Counter { value, .. } = &mut self
            .machine
            .state
            .files_mut()
            .described_mut(description)
            .open
        {
            let Ok(added) = <[u8; 8]>::try_from(bytes) else {
                return self.fail(EINVAL);
            };
            match value.checked_add(u64::from_le_bytes(added)) {
                Some(sum) if sum < u64::MAX => *value = sum,
                _ => return give_up("an eventfd that is full"),
            }
            self.machine.state.effects += 1;
            self.machine.release(DESCRIPTIONS + description as u64);
            return Ok(Flow::Yield(8));
        }
        let place = self.machine.place_id();
        match self.machine.put(descriptor, bytes, place) {
            true => Ok(Flow::Yield(bytes.len() as u64)),
            false => self.fail(EBADF),
        }
    }

    /// Bytes from a descriptor; an error is how the call goes on without them.
    pub(super) fn receive(
        &mut self,
        descriptor: usize,
        count: usize,
        is_peek: bool,
        waits: bool,
    ) -> Result<Result<Vec<u8>, Flow>, Stop> {
        let Some(description) = self.machine.state.files.description(descriptor) else {
            return self.fail(EBADF).map(Err);
        };
        self.machine.come_after(description);
        let received = match self.machine.state.files.described(description).open {
            Open::Timer(timer) => match self.machine.take_expirations(timer) {
                0 => Received::NotYet,
                expirations => Received::Bytes(expirations.to_le_bytes().to_vec()),
            },
            Open::Signals(mask) => match self.machine.take_pending(mask) {
                None => Received::NotYet,
                Some(signal) => {
                    let mut bytes = vec![0; 128];
                    bytes[0] = signal.number;
                    bytes[8..12].copy_from_slice(&signal.code.to_le_bytes());
                    Received::Bytes(bytes)
                }
            },
            _ => {
                let files = self.machine.state.files_mut();
                files.read(descriptor, count, is_peek)
            }
        };
        match received {
            Received::Bytes(bytes) => {
                self.machine.state.effects += 1;
                Ok(Ok(bytes))
            }
            Received::NotYet => self.wait_for(description, Direction::Read, waits).map(Err),
            Received::Error(error) => self.fail(error).map(Err),
        }
    }
}

impl Machine<'_> {
    /// The object that a description orders threads through.
    fn order_object(&self, description: usize, is_read: bool) -> Option<u64> {
        let files = &self.state.files;
        let pipe = match is_read {
            true => files.pipe_from(description),
            false => files.pipe_to(description),
        };
        match &files.described(description).open {
            _ if pipe.is_some() => pipe.map(|pipe| PIPES + pipe as u64),
            Open::File { file, .. } => Some(CONTENTS + *file as u64),
            Open::Counter { .. } | Open::Socket(_) | Open::Timer(_) | Open::Watch(_) => {
                Some(DESCRIPTIONS + description as u64)
            }
            _ => None,
        }
    }

    /// What was written to a description happens before what its reader does now.
    pub(crate) fn come_after(&mut self, description: usize) {
        if let Some(object) = self.order_object(description, true) {
            self.acquire(object);
        }
    }

    /// What the running thread did happens before what a reader of the description does.
    pub(crate) fn come_before(&mut self, description: usize) {
        if let Some(object) = self.order_object(description, false) {
            self.release(object);
        }
    }

    /// Writes to a file or to what the process was given; whether that is possible.
    pub(super) fn put(
        &mut self,
        descriptor: usize,
        bytes: &[u8],
        place: Option<norns_ir::PlaceId>,
    ) -> bool {
        let files = self.state.files_mut();
        let channel = match files.open_mut(descriptor) {
            Some(Open::Output) => Channel::Output,
            Some(Open::Error) => Channel::Error,
            Some(Open::Null | Open::Zero) => return true,
            Some(Open::File {
                path,
                file,
                position,
                appends,
            }) => {
                let (path, file, appends) = (path.clone(), *file, *appends);
                let mut at = *position;
                let content = files.bytes_mut(file);
                if appends {
                    at = content.len();
                }
                let end = at + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[at..end].copy_from_slice(bytes);
                if let Some(Open::File { position, .. }) = files.open_mut(descriptor) {
                    *position = end;
                }
                self.release(CONTENTS + file as u64);
                Channel::File(path)
            }
            _ => return false,
        };
        if !bytes.is_empty() {
            self.note_write(channel, bytes, place);
        }
        true
    }

    /// Closes a descriptor; whether it was open. Who reads the end of a pipe comes after that.
    pub(super) fn close(&mut self, descriptor: usize) -> bool {
        if let Some(description) = self.state.files.description(descriptor) {
            self.come_before(description);
        }
        self.state.effects += 1;
        self.state.files_mut().close(descriptor)
    }
}

pub(super) fn read(call: &mut Call<'_, '_>, is_peek: bool, is_impatient: bool) -> Done {
    let (descriptor, count) = (call.int(0) as usize, call.argument(2) as usize);
    match call.receive(descriptor, count, is_peek, !is_impatient)? {
        Ok(bytes) => {
            call.write(call.argument(1), &bytes)?;
            Ok(Flow::Yield(bytes.len() as u64))
        }
        Err(flow) => Ok(flow),
    }
}

fn read_at(call: &mut Call<'_, '_>) -> Done {
    let (count, at) = (call.argument(2) as usize, call.argument(3) as usize);
    let file = match call.machine.state.files.open(call.int(0) as usize) {
        Some(Open::File { file, .. }) => *file,
        Some(_) => return call.fail(ESPIPE),
        None => return call.fail(EBADF),
    };
    let content = call.machine.state.files.bytes(file);
    let at = at.min(content.len());
    let bytes = content[at..content.len().min(at + count)].to_vec();
    call.machine.acquire(CONTENTS + file as u64);
    call.write(call.argument(1), &bytes)?;
    Ok(Flow::Yield(bytes.len() as u64))
}

fn write_at(call: &mut Call<'_, '_>) -> Done {
    let bytes = call.given(1, call.argument(2))?;
    let at = call.argument(3) as usize;
    let (path, file) = match call.machine.state.files.open(call.int(0) as usize) {
        Some(Open::File { path, file, .. }) => (path.clone(), *file),
        Some(_) => return call.fail(ESPIPE),
        None => return call.fail(EBADF),
    };
    let content = call.machine.state.files_mut().bytes_mut(file);
    let end = at + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(&bytes);
    let current = call.machine.state.current;
    call.machine.drain_buffer(current)?;
    call.machine.release(CONTENTS + file as u64);
    let place = call.machine.place_id();
    call.machine.note_write(Channel::File(path), &bytes, place);
    Ok(Flow::Yield(bytes.len() as u64))
}

/// How a path is opened.
#[derive(Clone, Copy, Default)]
pub(super) struct Opening {
    pub(super) makes: bool,
    pub(super) empties: bool,
    pub(super) appends: bool,
    pub(super) is_exclusive: bool,
}

/// Opens a file that the input has or the program makes; an error is the number of the library's.
pub(super) fn open_path(
    call: &mut Call<'_, '_>,
    path: &[u8],
    how: Opening,
) -> Result<Result<usize, i32>, Stop> {
    let device = match path {
        b"/dev/null" => Some(Open::Null),
        b"/dev/zero" => Some(Open::Zero),
        _ => None,
    };
    if let Some(device) = device {
        return Ok(Ok(call.machine.state.files_mut().add(device)));
    }
    let file = call.machine.state.files.named(path);
    let is_known = file.is_some() || call.has_all(path);
    if how.makes {
        call.changes_names()?;
    } else {
        call.machine.acquire(NAMES);
    }
    match file {
        Some(_) if how.is_exclusive => return Ok(Err(EEXIST)),
        None if !how.makes && is_known => return Ok(Err(ENOENT)),
        None if !how.makes => return unknown_file(path),
        _ => {}
    }
    let files = call.machine.state.files_mut();
    let file = match file {
        Some(file) if !how.empties => file,
        _ => files.make(path),
    };
    Ok(Ok(files.open_file(path, file, how.appends)))
}

fn unknown_file<T>(path: &[u8]) -> Result<T, Stop> {
    let path = String::from_utf8_lossy(path);
    give_up(format!("the file {path}, which is no input"))
}

/// `stat` and `access` of a path.
fn stat(call: &mut Call<'_, '_>) -> Done {
    let path = call.string(0)?;
    call.machine.acquire(NAMES);
    match call.machine.state.files.named(&path) {
        Some(_) if call.name == "access" => int(0),
        Some(file) => put_stat(call, call.machine.state.files.bytes(file).len()),
        None if call.has_all(&path) => call.fail(ENOENT),
        None => unknown_file(&path),
    }
}

fn stat_open(call: &mut Call<'_, '_>) -> Done {
    let files = &call.machine.state.files;
    let size = match files.open(call.int(0) as usize) {
        Some(Open::File { file, .. }) => files.bytes(*file).len(),
        Some(_) => return give_up("fstat of what is no file"),
        None => return call.fail(EBADF),
    };
    put_stat(call, size)
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
    let how = Opening {
        makes: flags & O_CREAT != 0,
        empties: flags & O_TRUNC != 0,
        appends: flags & O_APPEND != 0,
        is_exclusive: flags & O_CREAT != 0 && flags & O_EXCL != 0,
    };
    match open_path(call, &path, how)? {
        Ok(descriptor) => int(descriptor as i32),
        Err(error) => call.fail(error),
    }
}

fn seek(call: &mut Call<'_, '_>) -> Done {
    let (descriptor, offset, whence) = (call.int(0) as usize, call.argument(1) as i64, call.int(2));
    let files = call.machine.state.files_mut();
    let (file, from) = match files.open(descriptor) {
        Some(Open::File { file, position, .. }) => (*file, *position),
        Some(Open::Input | Open::Output | Open::Error) => {
            return give_up("lseek of what is no file");
        }
        Some(_) => return call.fail(ESPIPE),
        None => return call.fail(EBADF),
    };
    let base = match whence {
        0 => 0,
        1 => from as i64,
        2 => files.bytes(file).len() as i64,
        _ => return call.fail(EINVAL),
    };
    let Ok(to) = usize::try_from(base + offset) else {
        return call.fail(EINVAL);
    };
    if let Some(Open::File { position, .. }) = files.open_mut(descriptor) {
        *position = to;
    }
    Ok(Flow::Return(to as u64))
}

fn pipe(call: &mut Call<'_, '_>, flags: i32) -> Done {
    let files = call.machine.state.files_mut();
    let pipe = files.add_pipe();
    let ends = [
        files.add(Open::PipeRead(pipe)),
        files.add(Open::PipeWrite(pipe)),
    ];
    call.put_pair(ends, flags & O_NONBLOCK != 0)
}

impl Call<'_, '_> {
    /// Stores two descriptors where the first argument of `pipe`, or the last of `socketpair`, says.
    pub(super) fn put_pair(&mut self, ends: [usize; 2], is_non_blocking: bool) -> Done {
        let to = match self.name {
            "socketpair" => self.argument(3),
            _ => self.argument(0),
        };
        for (at, end) in (0..).zip(ends) {
            self.set_non_blocking(end, is_non_blocking);
            self.store(to + 4 * at, 4, end as u64)?;
        }
        int(0)
    }

    pub(super) fn set_non_blocking(&mut self, descriptor: usize, is_non_blocking: bool) {
        let files = self.machine.state.files_mut();
        if let Some(description) = files.description(descriptor) {
            files.described_mut(description).is_non_blocking = is_non_blocking;
        }
    }
}

fn counter(call: &mut Call<'_, '_>) -> Done {
    let flags = call.int(1);
    let open = Open::Counter {
        value: call.argument(0) & 0xffff_ffff,
        is_semaphore: flags & 1 != 0,
    };
    let descriptor = call.machine.state.files_mut().add(open);
    call.set_non_blocking(descriptor, flags & O_NONBLOCK != 0);
    int(descriptor as i32)
}

/// `dup2` and `dup3`
fn duplicate(call: &mut Call<'_, '_>) -> Done {
    let (from, to) = (call.int(0) as usize, call.int(1));
    let Some(description) = call.machine.state.files.description(from) else {
        return call.fail(EBADF);
    };
    let Ok(target) = usize::try_from(to) else {
        return call.fail(EBADF);
    };
    if from == target {
        return match call.name {
            "dup3" => call.fail(EINVAL),
            _ => int(to),
        };
    }
    if target > 1 << 16 {
        return call.fail(EBADF);
    }
    call.machine.close(target);
    call.machine.state.files_mut().put(target, description);
    Ok(Flow::Yield(to as u64))
}

fn control(call: &mut Call<'_, '_>) -> Done {
    let (descriptor, command) = (call.int(0) as usize, call.int(1));
    let Some(description) = call.machine.state.files.description(descriptor) else {
        return call.fail(EBADF);
    };
    let argument = Arguments::of_call(call, 2).take(call).unwrap_or_default();
    match command {
        // F_DUPFD, F_DUPFD_CLOEXEC
        0 | 1030 => {
            let files = call.machine.state.files_mut();
            let number = files.refer(description, argument as u32 as usize);
            int(number as i32)
        }
        // F_GETFD, F_SETFD: no program is executed.
        1 | 2 => int(0),
        // F_GETFL
        3 => {
            let is_non_blocking = call
                .machine
                .state
                .files
                .described(description)
                .is_non_blocking;
            int(2 | if is_non_blocking { O_NONBLOCK } else { 0 })
        }
        // F_SETFL
        4 => {
            call.set_non_blocking(descriptor, argument as i32 & O_NONBLOCK != 0);
            int(0)
        }
        // F_SETLK, F_SETLKW: the locks of a process do not exclude its own threads.
        6 | 7 => int(0),
        _ => give_up(format!("fcntl with command {command}")),
    }
}

fn lock(call: &mut Call<'_, '_>) -> Done {
    let (descriptor, operation) = (call.int(0) as usize, call.int(1));
    let Some(description) = call.machine.state.files.description(descriptor) else {
        return call.fail(EBADF);
    };
    let object = DESCRIPTIONS - 1;
    let is_exclusive = match operation & !4 {
        8 => {
            call.machine.release(object);
            call.machine.state.files_mut().set_lock(description, None);
            return Ok(Flow::Yield(0));
        }
        1 => false,
        2 => true,
        _ => return call.fail(EINVAL),
    };
    if !call.machine.state.files.can_lock(description, is_exclusive) {
        // A lock that is changed is given back first.
        call.machine.state.files_mut().set_lock(description, None);
        if operation & 4 != 0 {
            return call.fail(EAGAIN);
        }
        return Ok(Flow::Wait(Wait::FileLock(description, is_exclusive), None));
    }
    call.machine.acquire(object);
    let files = call.machine.state.files_mut();
    files.set_lock(description, Some(is_exclusive));
    Ok(Flow::Yield(0))
}
