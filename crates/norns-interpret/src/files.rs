//! Files, pipes and streams, all in memory. Only what the input has, and what the program makes, exists.

use std::collections::{BTreeMap, VecDeque};

use norns_ir::PlaceId;

use crate::how::Input;

/// What a pipe of Linux holds.
const PIPE_CAPACITY: usize = 65536;

#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) contents: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) descriptors: Vec<Option<Open>>,
    pub(crate) pipes: Vec<Pipe>,
    pub(crate) streams: Vec<Option<Stream>>,
    pub(crate) input: Vec<u8>,
    pub(crate) input_position: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Open {
    Input,
    Output,
    Error,
    File {
        path: Vec<u8>,
        position: usize,
        appends: bool,
    },
    PipeRead(usize),
    PipeWrite(usize),
    /// `/dev/null`
    Null,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Pipe {
    pub(crate) bytes: VecDeque<u8>,
    pub(crate) readers: u32,
    pub(crate) writers: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) descriptor: usize,
    /// What was printed and not written yet, with where.
    pub(crate) buffer: Vec<(Vec<u8>, Option<PlaceId>)>,
    pub(crate) buffering: Buffering,
    pub(crate) is_at_end: bool,
    pub(crate) pushed_back: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffering {
    None,
    Line,
    /// Up to so many bytes.
    Full,
}

impl Files {
    pub(crate) fn new(input: &Input) -> Self {
        let stream = |descriptor, buffering| {
            Some(Stream {
                descriptor,
                buffer: Vec::new(),
                buffering,
                is_at_end: false,
                pushed_back: None,
            })
        };
        Self {
            contents: input.files.clone(),
            descriptors: vec![Some(Open::Input), Some(Open::Output), Some(Open::Error)],
            pipes: Vec::new(),
            // As if standard output were a pipe or a file.
            streams: vec![
                stream(0, Buffering::Full),
                stream(1, Buffering::Full),
                stream(2, Buffering::None),
            ],
            input: input.standard_input.clone(),
            input_position: 0,
        }
    }

    /// Gives an open file the lowest free number.
    pub(crate) fn add(&mut self, open: Open) -> usize {
        match self.descriptors.iter().position(Option::is_none) {
            Some(free) => {
                self.descriptors[free] = Some(open);
                free
            }
            None => {
                self.descriptors.push(Some(open));
                self.descriptors.len() - 1
            }
        }
    }

    pub(crate) fn add_stream(&mut self, descriptor: usize) -> usize {
        self.streams.push(Some(Stream {
            descriptor,
            buffer: Vec::new(),
            buffering: Buffering::Full,
            is_at_end: false,
            pushed_back: None,
        }));
        self.streams.len() - 1
    }

    /// Whether a descriptor was open.
    pub(crate) fn close(&mut self, descriptor: usize) -> bool {
        let Some(open) = self.descriptors.get_mut(descriptor).and_then(Option::take) else {
            return false;
        };
        match open {
            Open::PipeRead(pipe) => self.pipes[pipe].readers -= 1,
            Open::PipeWrite(pipe) => self.pipes[pipe].writers -= 1,
            Open::Input | Open::Output | Open::Error | Open::File { .. } | Open::Null => {}
        }
        true
    }

    pub(crate) fn can_read(&self, pipe: usize) -> bool {
        !self.pipes[pipe].bytes.is_empty() || self.pipes[pipe].writers == 0
    }

    pub(crate) fn has_room(&self, pipe: usize) -> bool {
        self.pipes[pipe].bytes.len() < PIPE_CAPACITY || self.pipes[pipe].readers == 0
    }

    /// Up to `count` bytes from a descriptor; `None` if it would have to wait for a pipe.
    pub(crate) fn read(&mut self, descriptor: usize, count: usize) -> Result<Option<Vec<u8>>, i32> {
        const NOT_OPEN: i32 = 9;
        let Some(Some(open)) = self.descriptors.get_mut(descriptor) else {
            return Err(NOT_OPEN);
        };
        let take = |from: &[u8], position: &mut usize| {
            let start = (*position).min(from.len());
            let end = (start + count).min(from.len());
            *position = end.max(*position);
            from[start..end].to_vec()
        };
        match open {
            Open::Input => Ok(Some(take(&self.input, &mut self.input_position))),
            Open::File { path, position, .. } => {
                let content = self
                    .contents
                    .get(path)
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                Ok(Some(take(content, position)))
            }
            Open::PipeRead(pipe) => {
                let pipe = &mut self.pipes[*pipe];
                if pipe.bytes.is_empty() {
                    return Ok((pipe.writers == 0).then(Vec::new));
                }
                let count = count.min(pipe.bytes.len());
                Ok(Some(pipe.bytes.drain(..count).collect()))
            }
            Open::Null => Ok(Some(Vec::new())),
            Open::Output | Open::Error | Open::PipeWrite(_) => Err(NOT_OPEN),
        }
    }
}
