//! Which parts of the input are variable, and inputs with other bytes in their place.

use crate::how::Input;

/// A part of the input whose bytes are variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub source: Source,
    /// How many bytes from its start.
    pub bytes: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `argv[n]`
    Argument(usize),
    StandardInput,
    /// By the path that the program gives.
    File(Vec<u8>),
    /// A variable of the environment.
    Environment(Vec<u8>),
}

/// The variable bytes of an input. They are numbered through all marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(pub Vec<Mark>);

impl Marks {
    /// The number of the first byte of a source, and how many it has.
    pub(crate) fn find(&self, source: &Source) -> Option<(u32, u32)> {
        let mut first = 0;
        for mark in &self.0 {
            if mark.source == *source {
                return Some((first, mark.bytes));
            }
            first += mark.bytes;
        }
        None
    }

    /// The variable bytes of an input; zeros where it is shorter.
    #[must_use]
    pub fn bytes_of(&self, input: &Input) -> Vec<u8> {
        let mut all = Vec::new();
        for mark in &self.0 {
            let given = match &mark.source {
                Source::Argument(number) => input.arguments.get(*number).cloned(),
                Source::StandardInput => Some(input.standard_input.clone()),
                Source::File(path) => input.files.get(path).cloned(),
                Source::Environment(name) => {
                    let lines = &mut input.environment.iter();
                    lines
                        .find_map(|line| value_of(line, name))
                        .map(<[u8]>::to_vec)
                }
            };
            let mut given = given.unwrap_or_default();
            given.resize(mark.bytes as usize, 0);
            all.extend(given);
        }
        all
    }

    /// The input with these bytes. Arguments and variables end at their first zero.
    #[must_use]
    pub fn with(&self, input: &Input, bytes: &[u8]) -> Input {
        let mut input = input.clone();
        let mut rest = bytes;
        for mark in &self.0 {
            let (own, behind) = rest.split_at((mark.bytes as usize).min(rest.len()));
            rest = behind;
            let text = own.split(|&byte| byte == 0).next().unwrap_or_default();
            match &mark.source {
                Source::Argument(number) => {
                    if let Some(argument) = input.arguments.get_mut(*number) {
                        *argument = text.to_vec();
                    }
                }
                Source::StandardInput => put(&mut input.standard_input, own),
                Source::File(path) => put(input.files.entry(path.clone()).or_default(), own),
                Source::Environment(name) => {
                    input
                        .environment
                        .retain(|line| value_of(line, name).is_none());
                    input.environment.push([name, &b"="[..], text].concat());
                }
            }
        }
        input
    }
}

fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    line.strip_prefix(name)?.strip_prefix(b"=")
}

fn put(content: &mut Vec<u8>, bytes: &[u8]) {
    if content.len() < bytes.len() {
        content.resize(bytes.len(), 0);
    }
    content[..bytes.len()].copy_from_slice(bytes);
}
