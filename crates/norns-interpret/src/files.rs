//! Files, pipes, sockets and streams, all in memory. Only what the input has, and what the program makes, exists.
//!
//! A descriptor is the number of an open description, which several descriptors can share. A connection consists
//! of two pipes. Nobody outside of the process writes to a pipe or connects to a socket.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use norns_ir::PlaceId;

use crate::how::Input;

/// What a pipe of Linux holds.
const PIPE_CAPACITY: usize = 65536;
const EBADF: i32 = 9;
const ENOTCONN: i32 = 107;

#[derive(Clone, Debug, Hash)]
pub(crate) struct Files {
    names: BTreeMap<Vec<u8>, usize>,
    /// Contents, which outlive their names.
    contents: Vec<File>,
    descriptors: Vec<Option<usize>>,
    descriptions: Vec<Description>,
    pub(crate) pipes: Vec<Pipe>,
    pub(crate) streams: Vec<Option<Stream>>,
    pub(crate) input: Vec<u8>,
    pub(crate) input_position: usize,
    /// Raised by every name that was made up.
    pub(crate) made_up: u32,
}

#[derive(Clone, Debug, Default, Hash)]
struct File {
    bytes: Rc<Vec<u8>>,
    /// The descriptions that hold its lock, and whether one of them holds it alone.
    holders: Vec<usize>,
    is_exclusive: bool,
}

/// An open file, which descriptors refer to.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Description {
    pub(crate) open: Open,
    pub(crate) is_non_blocking: bool,
    references: u32,
}

#[derive(Clone, Debug, Hash)]
pub(crate) enum Open {
    Input,
    Output,
    Error,
    File {
        path: Vec<u8>,
        file: usize,
        position: usize,
        appends: bool,
    },
    PipeRead(usize),
    PipeWrite(usize),
    Socket(Socket),
    /// `eventfd`
    Counter {
        value: u64,
        is_semaphore: bool,
    },
    /// `timerfd`, by the number of its timer.
    Timer(usize),
    /// `signalfd`
    Signals(u64),
    /// `epoll`
    Watch(Vec<Watched>),
    /// `/dev/null`
    Null,
    /// `/dev/zero`
    Zero,
}

#[derive(Clone, Debug, Hash)]
pub(crate) enum Socket {
    /// With the address that it was bound to.
    New(Vec<u8>),
    /// Connections that wait to be accepted, by the accepting side's pipes.
    Listening(Vec<u8>, VecDeque<(usize, usize)>),
    /// The pipes that it reads from and writes to.
    Connected {
        from: Option<usize>,
        to: Option<usize>,
    },
}

/// What a descriptor of `epoll` waits for.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Watched {
    pub(crate) descriptor: usize,
    pub(crate) description: usize,
    pub(crate) events: u32,
    pub(crate) data: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Bytes that were asked for.
pub(crate) enum Received {
    Bytes(Vec<u8>),
    /// There are none yet.
    NotYet,
    Error(i32),
}

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Pipe {
    pub(crate) bytes: VecDeque<u8>,
    readers: u32,
    writers: u32,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Stream {
    pub(crate) descriptor: usize,
    /// What was printed and not written yet, with where.
    pub(crate) buffer: Vec<(Vec<u8>, Option<PlaceId>)>,
    pub(crate) buffering: Buffering,
    pub(crate) is_at_end: bool,
    /// What was read and given back, the next byte first.
    pub(crate) given_back: VecDeque<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Buffering {
    None,
    Line,
    /// Up to so many bytes.
    Full,
}

impl Stream {
    fn new(descriptor: usize, buffering: Buffering) -> Self {
        Self {
            descriptor,
            buffer: Vec::new(),
            buffering,
            is_at_end: false,
            given_back: VecDeque::new(),
        }
    }
}

impl Files {
    pub(crate) fn new(input: &Input) -> Self {
        let mut files = Self {
            names: BTreeMap::new(),
            contents: Vec::new(),
            descriptors: Vec::new(),
            descriptions: Vec::new(),
            pipes: Vec::new(),
            // As if standard output were a pipe or a file.
            streams: vec![
                Some(Stream::new(0, Buffering::Full)),
                Some(Stream::new(1, Buffering::Full)),
                Some(Stream::new(2, Buffering::None)),
            ],
            input: input.standard_input.clone(),
            input_position: 0,
            made_up: 0,
        };
        for (path, bytes) in &input.files {
            let file = files.make(path);
            files.contents[file].bytes = Rc::new(bytes.clone());
        }
        for open in [Open::Input, Open::Output, Open::Error] {
            files.add(open);
        }
        files
    }

    /// The number of a file.
    pub(crate) fn named(&self, path: &[u8]) -> Option<usize> {
        self.names.get(path).copied()
    }

    /// Makes an empty file, or empties the one that there is.
    pub(crate) fn make(&mut self, path: &[u8]) -> usize {
        if let Some(file) = self.named(path) {
            self.contents[file].bytes = Rc::default();
            return file;
        }
        self.contents.push(File::default());
        let file = self.contents.len() - 1;
        self.names.insert(path.to_vec(), file);
        file
    }

    /// Takes a name away; whether there was one.
    pub(crate) fn remove(&mut self, path: &[u8]) -> bool {
        self.names.remove(path).is_some()
    }

    pub(crate) fn rename(&mut self, from: &[u8], to: &[u8]) -> bool {
        match self.names.remove(from) {
            Some(file) => {
                self.names.insert(to.to_vec(), file);
                true
            }
            None => false,
        }
    }

    pub(crate) fn bytes(&self, file: usize) -> &[u8] {
        &self.contents[file].bytes
    }

    pub(crate) fn bytes_mut(&mut self, file: usize) -> &mut Vec<u8> {
        Rc::make_mut(&mut self.contents[file].bytes)
    }

    /// Opens a file; its descriptor.
    pub(crate) fn open_file(&mut self, path: &[u8], file: usize, appends: bool) -> usize {
        self.add(Open::File {
            path: path.to_vec(),
            file,
            position: 0,
            appends,
        })
    }

    /// Gives something new the lowest free descriptor.
    pub(crate) fn add(&mut self, open: Open) -> usize {
        self.descriptions.push(Description {
            open,
            is_non_blocking: false,
            references: 0,
        });
        self.refer(self.descriptions.len() - 1, 0)
    }

    /// Gives a description the lowest free descriptor that is not below `least`.
    pub(crate) fn refer(&mut self, description: usize, least: usize) -> usize {
        let number = (least..)
            .find(|&number| self.description(number).is_none())
            .expect("numbers do not end");
        self.put(number, description);
        number
    }

    /// Makes a descriptor that is not open refer to a description.
    pub(crate) fn put(&mut self, number: usize, description: usize) {
        if self.descriptors.len() <= number {
            self.descriptors.resize(number + 1, None);
        }
        self.descriptors[number] = Some(description);
        self.descriptions[description].references += 1;
    }

    pub(crate) fn description(&self, descriptor: usize) -> Option<usize> {
        self.descriptors.get(descriptor).copied().flatten()
    }

    pub(crate) fn described(&self, description: usize) -> &Description {
        &self.descriptions[description]
    }

    pub(crate) fn described_mut(&mut self, description: usize) -> &mut Description {
        &mut self.descriptions[description]
    }

    pub(crate) fn open(&self, descriptor: usize) -> Option<&Open> {
        let description = self.description(descriptor)?;
        Some(&self.descriptions[description].open)
    }

    pub(crate) fn open_mut(&mut self, descriptor: usize) -> Option<&mut Open> {
        let description = self.description(descriptor)?;
        Some(&mut self.descriptions[description].open)
    }

    pub(crate) fn add_stream(&mut self, descriptor: usize) -> usize {
        let stream = Stream::new(descriptor, Buffering::Full);
        self.streams.push(Some(stream));
        self.streams.len() - 1
    }

    /// What was printed and not written yet is lost.
    pub(crate) fn forget_buffers(&mut self) {
        for stream in self.streams.iter_mut().flatten() {
            stream.buffer.clear();
        }
    }

    pub(crate) fn add_pipe(&mut self) -> usize {
        self.pipes.push(Pipe {
            readers: 1,
            writers: 1,
            ..Pipe::default()
        });
        self.pipes.len() - 1
    }

    /// Whether a descriptor was open.
    pub(crate) fn close(&mut self, descriptor: usize) -> bool {
        let Some(number) = self.description(descriptor) else {
            return false;
        };
        self.descriptors[descriptor] = None;
        let description = &mut self.descriptions[number];
        description.references -= 1;
        if description.references > 0 {
            return true;
        }
        match &description.open {
            Open::PipeRead(pipe) => self.pipes[*pipe].readers -= 1,
            Open::PipeWrite(pipe) => self.pipes[*pipe].writers -= 1,
            Open::Socket(Socket::Connected { from, to }) => {
                if let Some(from) = from {
                    self.pipes[*from].readers -= 1;
                }
                if let Some(to) = to {
                    self.pipes[*to].writers -= 1;
                }
            }
            Open::File { file, .. } => {
                let file = *file;
                self.contents[file].holders.retain(|&one| one != number);
            }
            _ => {}
        }
        // Nobody connects to it any more.
        self.descriptions[number].open = Open::Null;
        for description in &mut self.descriptions {
            if let Open::Watch(all) = &mut description.open {
                all.retain(|one| one.description != number);
            }
        }
        true
    }

    /// The pipe that a description writes to.
    pub(crate) fn pipe_to(&self, description: usize) -> Option<usize> {
        match &self.descriptions[description].open {
            Open::PipeWrite(pipe) => Some(*pipe),
            Open::Socket(Socket::Connected { to, .. }) => *to,
            _ => None,
        }
    }

    /// The pipe that a description reads from.
    pub(crate) fn pipe_from(&self, description: usize) -> Option<usize> {
        match &self.descriptions[description].open {
            Open::PipeRead(pipe) => Some(*pipe),
            Open::Socket(Socket::Connected { from, .. }) => *from,
            _ => None,
        }
    }

    pub(crate) fn has_readers(&self, pipe: usize) -> bool {
        self.pipes[pipe].readers > 0
    }

    pub(crate) fn has_writers(&self, pipe: usize) -> bool {
        self.pipes[pipe].writers > 0
    }

    pub(crate) fn room(&self, pipe: usize) -> usize {
        PIPE_CAPACITY.saturating_sub(self.pipes[pipe].bytes.len())
    }

    /// Ends reading or writing of a connection.
    pub(crate) fn shut_down(&mut self, descriptor: usize, direction: Direction) -> bool {
        let Some(Open::Socket(Socket::Connected { from, to })) = self.open_mut(descriptor) else {
            return false;
        };
        let pipe = match direction {
            Direction::Read => from.take(),
            Direction::Write => to.take(),
        };
        match (pipe, direction) {
            (Some(pipe), Direction::Read) => self.pipes[pipe].readers -= 1,
            (Some(pipe), Direction::Write) => self.pipes[pipe].writers -= 1,
            (None, _) => {}
        }
        true
    }

    /// The description that listens at an address.
    pub(crate) fn listener(&self, address: &[u8]) -> Option<usize> {
        self.descriptions.iter().position(|description| {
            matches!(&description.open, Open::Socket(Socket::Listening(own, _)) if own == address)
        })
    }

    /// Whether reading or writing would not have to wait, as far as that depends on files alone.
    pub(crate) fn is_ready(&self, description: usize, direction: Direction) -> bool {
        match (&self.descriptions[description].open, direction) {
            (Open::PipeWrite(_) | Open::Socket(Socket::Connected { .. }), Direction::Write) => {
                match self.pipe_to(description) {
                    Some(pipe) => self.room(pipe) > 0 || !self.has_readers(pipe),
                    None => true,
                }
            }
            (Open::PipeRead(_) | Open::Socket(Socket::Connected { .. }), Direction::Read) => {
                match self.pipe_from(description) {
                    Some(pipe) => !self.pipes[pipe].bytes.is_empty() || !self.has_writers(pipe),
                    None => true,
                }
            }
            (Open::Socket(Socket::Listening(_, waiting)), Direction::Read) => !waiting.is_empty(),
            (Open::Counter { value, .. }, Direction::Read) => *value > 0,
            (
                Open::Socket(Socket::New(_) | Socket::Listening(..))
                | Open::PipeRead(_)
                | Open::Timer(_)
                | Open::Signals(_)
                | Open::Watch(_),
                _,
            ) => false,
            (Open::PipeWrite(_), Direction::Read) => false,
            (
                Open::Input
                | Open::Output
                | Open::Error
                | Open::File { .. }
                | Open::Null
                | Open::Zero
                | Open::Counter { .. },
                _,
            ) => true,
        }
    }

    /// Whether something may come here from another process.
    pub(crate) fn waits_for_others(&self, description: usize) -> bool {
        match &self.descriptions[description].open {
            Open::Socket(Socket::Listening(..)) | Open::Signals(_) => true,
            Open::Watch(all) => all.iter().any(|one| self.waits_for_others(one.description)),
            _ => false,
        }
    }

    /// Whether a description could get the lock of its file now.
    pub(crate) fn can_lock(&self, description: usize, is_exclusive: bool) -> bool {
        let Open::File { file, .. } = self.descriptions[description].open else {
            return true;
        };
        let file = &self.contents[file];
        let has_others = file.holders.iter().any(|&holder| holder != description);
        !has_others || !(is_exclusive || file.is_exclusive)
    }

    /// Gives a description the lock of its file, or takes it away.
    pub(crate) fn set_lock(&mut self, description: usize, is_exclusive: Option<bool>) {
        let Open::File { file, .. } = self.descriptions[description].open else {
            return;
        };
        let file = &mut self.contents[file];
        file.holders.retain(|&holder| holder != description);
        if let Some(is_exclusive) = is_exclusive {
            file.holders.push(description);
            file.is_exclusive = is_exclusive;
        }
    }

    /// Up to `count` bytes from a descriptor; those of a pipe stay there if they are only looked at.
    pub(crate) fn read(&mut self, descriptor: usize, count: usize, is_peek: bool) -> Received {
        let Some(description) = self.description(descriptor) else {
            return Received::Error(EBADF);
        };
        if let Some(pipe) = self.pipe_from(description) {
            let has_writers = self.has_writers(pipe);
            let bytes = &mut self.pipes[pipe].bytes;
            let count = count.min(bytes.len());
            return match (bytes.is_empty(), is_peek) {
                (true, _) if has_writers => Received::NotYet,
                (_, true) => Received::Bytes(bytes.iter().take(count).copied().collect()),
                (_, false) => Received::Bytes(bytes.drain(..count).collect()),
            };
        }
        let take = |from: &[u8], position: &mut usize| {
            let start = (*position).min(from.len());
            let end = (start + count).min(from.len());
            *position = end.max(*position);
            Received::Bytes(from[start..end].to_vec())
        };
        match &mut self.descriptions[description].open {
            Open::Input => take(&self.input, &mut self.input_position),
            Open::File { file, position, .. } => take(&self.contents[*file].bytes, position),
            Open::Null => Received::Bytes(Vec::new()),
            Open::Zero => Received::Bytes(vec![0; count]),
            Open::Counter {
                value,
                is_semaphore,
            } => {
                let taken = if *is_semaphore { 1 } else { *value };
                match *value {
                    0 => Received::NotYet,
                    _ if count < 8 => Received::Error(22),
                    _ => {
                        *value -= taken;
                        Received::Bytes(taken.to_le_bytes().to_vec())
                    }
                }
            }
            Open::Socket(Socket::Connected { .. }) => Received::Bytes(Vec::new()),
            Open::Socket(_) => Received::Error(ENOTCONN),
            Open::Output
            | Open::Error
            | Open::PipeRead(_)
            | Open::PipeWrite(_)
            | Open::Timer(_)
            | Open::Signals(_)
            | Open::Watch(_) => Received::Error(EBADF),
        }
    }
}
