//! Reads the STD format.

use std::io::BufRead;

use rustc_hash::FxHashMap;

use super::StdError;
use crate::event::{Access, Event, ObjectId, Op, PlaceId, ThreadId};
use crate::trace::{Custom, Object, ObjectKind, Place, Symbol, Thread, Trace};

/// Variables are this far apart, from `FIRST_ADDRESS` on.
const VARIABLE_SIZE: u32 = 8;
const FIRST_ADDRESS: u64 = 0x1000;

/// What to do with a line that no program can have done after the lines before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leniency {
    /// It is an error.
    Strict,
    /// It becomes an event that does nothing, and is counted.
    Lenient,
}

/// A trace, and how it differs from its text.
#[derive(Debug)]
pub struct Import {
    pub trace: Trace,
    /// For every event its line, from 0. Only a `wait` can stand at another place than in the text.
    pub lines: Vec<u32>,
    /// How many lines were taken for events that do nothing, and the first of them, from 1, with
    /// its problem.
    pub changed: usize,
    pub first_change: Option<(usize, String)>,
}

/// Reads a trace strictly.
pub fn read(input: impl BufRead) -> Result<Trace, StdError> {
    Ok(import(input, Leniency::Strict)?.trace)
}

/// Reads a trace line by line; the text itself is not kept.
pub fn import(mut input: impl BufRead, leniency: Leniency) -> Result<Import, StdError> {
    let mut reader = Reader::default();
    reader.trace.accesses_ordered = true;
    reader.is_lenient = leniency == Leniency::Lenient;
    let mut line = Vec::with_capacity(256);
    let mut number: u32 = 0;
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).map_err(StdError::Read)? == 0 {
            break;
        }
        reader.line_number = number;
        number += 1;
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        reader.line(&line).map_err(|problem| StdError::Line {
            line: number as usize,
            problem,
        })?;
    }
    Ok(reader.finish())
}

/// Numbers names in the order of their first appearance.
#[derive(Default)]
struct Names {
    index: FxHashMap<Box<[u8]>, u32>,
}

impl Names {
    /// The number of `name`, and whether it is new.
    fn intern(&mut self, name: &[u8]) -> (usize, bool) {
        if let Some(&found) = self.index.get(name) {
            return (found as usize, false);
        }
        let new = self.index.len();
        self.index.insert(
            name.into(),
            u32::try_from(new).expect("a name takes a byte, so a trace has fewer than 2^32"),
        );
        (new, true)
    }
}

/// What the reader knows of a thread besides its events.
#[derive(Clone, Copy, Default)]
struct ThreadState {
    acted: bool,
    forked: bool,
    /// The last event, when it released a lock or waited on one: what a `wait` must follow and
    /// must be followed by.
    released: Option<ObjectId>,
    waiting: Option<Waiting>,
    /// The event that joined it.
    joined_by: Option<usize>,
}

/// A wait that has begun. Its event stands where it ends, just before the lock is acquired again:
/// what wakes the thread comes in between.
#[derive(Clone, Copy)]
struct Waiting {
    mutex: ObjectId,
    condition: ObjectId,
    place: PlaceId,
    line: u32,
}

#[derive(Clone, Copy)]
struct LockState {
    mutex: ObjectId,
    condition: Option<ObjectId>,
    holder: Option<(ThreadId, u32)>,
}

#[derive(Default)]
struct Reader {
    trace: Trace,
    threads: Names,
    variables: Names,
    locks: Names,
    places: FxHashMap<i32, PlaceId>,
    customs: FxHashMap<(u8, u32), u32>,
    thread_states: Vec<ThreadState>,
    lock_states: Vec<LockState>,
    is_lenient: bool,
    /// The number of the current line, from 0.
    line_number: u32,
    lines: Vec<u32>,
    changed: usize,
    first_change: Option<(usize, String)>,
}

impl Reader {
    fn push(&mut self, event: Event, line: u32) {
        self.trace.events.push(event);
        self.lines.push(line);
    }

    /// In place of an operation that cannot have happened: an event that does nothing, or the
    /// problem as an error.
    fn impossible(&mut self, problem: String) -> Result<Op, String> {
        if !self.is_lenient {
            return Err(problem);
        }
        let line = self.line_number as usize + 1;
        self.changed += 1;
        self.first_change.get_or_insert((line, problem));
        self.custom(b'i', 0, "ignored", Vec::new)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        if self.trace.events.len() >= u32::MAX as usize {
            return Err("a trace has fewer than 2^32 events".into());
        }
        let (first, last) = match (
            line.iter().position(|&byte| byte == b'|'),
            line.iter().rposition(|&byte| byte == b'|'),
        ) {
            (Some(first), Some(last)) if first < last => (first, last),
            _ => return Err(expected("thread|operation|location", line)),
        };
        let (name, op, location) = (&line[..first], &line[first + 1..last], &line[last + 1..]);
        let place = self.place(location)?;
        let thread = self.acting_thread(name)?;
        let waiting = self.thread_states[thread.index()].waiting;
        let op = self.op(op, thread)?;
        if let Op::Wait(condition) = op {
            let mutex = self.thread_states[thread.index()].released.take();
            self.thread_states[thread.index()].waiting = mutex.map(|mutex| Waiting {
                mutex,
                condition,
                place,
                line: self.line_number,
            });
            return Ok(());
        }
        let line = self.line_number;
        if let Some(waiting) = waiting
            && !matches!(op, Op::Custom(_) | Op::Enter | Op::Leave)
        {
            self.thread_states[thread.index()].waiting = None;
            let op = if op == Op::Lock(waiting.mutex) {
                Op::Wait(waiting.condition)
            } else {
                self.impossible(format!(
                    "expected acq({}) by {}, since its last event waits on that lock",
                    self.trace.object(waiting.mutex).name,
                    self.trace.thread(thread).name
                ))?
            };
            let place = waiting.place;
            self.push(Event { thread, place, op }, waiting.line);
        }
        if let Op::Join(child) = op {
            self.thread_states[child.index()].joined_by = Some(self.trace.events.len());
        }
        self.push(Event { thread, place, op }, line);
        Ok(())
    }

    fn place(&mut self, text: &[u8]) -> Result<PlaceId, String> {
        let number = parse_location(text)
            .ok_or_else(|| expected("a location number after the last '|'", text))?;
        if let Some(&place) = self.places.get(&number) {
            return Ok(place);
        }
        let place = PlaceId::from_index(self.trace.places.len());
        self.places.insert(number, place);
        self.trace.places.push(Place {
            pc: i64::from(number) as u64,
            frames: Vec::new(),
        });
        Ok(place)
    }

    /// The thread of this name, in whichever of its spellings.
    fn thread(&mut self, name: &[u8]) -> Result<ThreadId, String> {
        let number = name.strip_prefix(b"T").filter(|rest| is_number(rest));
        let (index, new) = self.threads.intern(number.unwrap_or(name));
        if new {
            let name = utf8(name)?;
            self.trace.threads.push(Thread {
                name: if is_number(name.as_bytes()) {
                    format!("T{name}")
                } else {
                    name
                },
                parent: None,
            });
            self.thread_states.push(ThreadState::default());
        }
        Ok(ThreadId::from_index(index))
    }

    fn acting_thread(&mut self, name: &[u8]) -> Result<ThreadId, String> {
        if name.is_empty() || name.iter().any(u8::is_ascii_whitespace) {
            return Err(expected("the name of a thread before the first '|'", name));
        }
        let thread = self.thread(name)?;
        if let Some(join) = self.thread_states[thread.index()].joined_by.take() {
            let name = &self.trace.thread(thread).name;
            let problem = format!("thread {name} acts after it was joined");
            // It is the join that cannot have been there.
            self.trace.events[join].op = self.impossible(problem)?;
        }
        self.thread_states[thread.index()].acted = true;
        Ok(thread)
    }

    fn op(&mut self, text: &[u8], thread: ThreadId) -> Result<Op, String> {
        let state = &mut self.thread_states[thread.index()];
        let released = state.released;
        // What is no operation may stand between a release and the wait on its lock.
        let is_passive = [&b"req"[..], b"branch", b"begin", b"end"]
            .iter()
            .any(|word| text.starts_with(word));
        if !is_passive {
            state.released = None;
        }
        if text.starts_with(b"begin") {
            return Ok(Op::Enter);
        }
        if text.starts_with(b"end") {
            return Ok(Op::Leave);
        }
        if text == b"branch" || text.starts_with(b"branch(") {
            return self.custom(b'b', 0, "branch", Vec::new);
        }
        let Some((name, operand)) = split_call(text) else {
            return Err(expected("an operation such as acq(m) or r(x)", text));
        };
        match name {
            b"r" => Ok(Op::Read(self.variable(operand)?)),
            b"w" => Ok(Op::Write(self.variable(operand)?)),
            b"acq" => self.acquire(operand, thread),
            b"rel" => self.release(operand, thread),
            b"fork" => self.fork(operand, thread),
            b"join" => self.join(operand, thread),
            b"req" => {
                let lock = self.lock(operand)?;
                let name = utf8(operand)?;
                self.custom(b'q', lock as u32, "req", || vec![name])
            }
            b"wait" => self.wait(operand, thread, released),
            b"notify" => Ok(Op::Signal(self.condition(operand)?)),
            b"notifyAll" | b"broadcast" => Ok(Op::Broadcast(self.condition(operand)?)),
            _ => Err(expected(
                "one of acq, rel, r, w, fork, join, begin, end, req, wait, notify, notifyAll, \
                 broadcast, branch",
                name,
            )),
        }
    }

    fn custom(
        &mut self,
        kind: u8,
        operand: u32,
        name: &str,
        fields: impl FnOnce() -> Vec<String>,
    ) -> Result<Op, String> {
        let next = self.trace.customs.len() as u32;
        let number = *self.customs.entry((kind, operand)).or_insert(next);
        if number == next {
            self.trace.customs.push(Custom {
                name: name.into(),
                fields: fields(),
            });
        }
        Ok(Op::Custom(number))
    }

    fn variable(&mut self, name: &[u8]) -> Result<Access, String> {
        let (index, new) = self.variables.intern(name);
        let access = Access {
            address: FIRST_ADDRESS + index as u64 * u64::from(VARIABLE_SIZE),
            size: VARIABLE_SIZE,
        };
        if new {
            self.trace.symbols.push(Symbol {
                address: access.address,
                size: u64::from(VARIABLE_SIZE),
                name: utf8(name)?,
            });
        }
        Ok(access)
    }

    fn lock(&mut self, name: &[u8]) -> Result<usize, String> {
        let (index, new) = self.locks.intern(name);
        if new {
            let mutex = self.object(ObjectKind::Mutex, utf8(name)?);
            self.lock_states.push(LockState {
                mutex,
                condition: None,
                holder: None,
            });
        }
        Ok(index)
    }

    fn object(&mut self, kind: ObjectKind, name: String) -> ObjectId {
        self.trace.objects.push(Object {
            kind,
            address: 0,
            name,
        });
        ObjectId::from_index(self.trace.objects.len() - 1)
    }

    fn condition(&mut self, name: &[u8]) -> Result<ObjectId, String> {
        let lock = self.lock(name)?;
        if let Some(condition) = self.lock_states[lock].condition {
            return Ok(condition);
        }
        let condition = self.object(ObjectKind::Condition, utf8(name)?);
        self.lock_states[lock].condition = Some(condition);
        Ok(condition)
    }

    fn acquire(&mut self, name: &[u8], thread: ThreadId) -> Result<Op, String> {
        let index = self.lock(name)?;
        let lock = &mut self.lock_states[index];
        match &mut lock.holder {
            None => lock.holder = Some((thread, 1)),
            Some((holder, depth)) if *holder == thread => {
                *depth += 1;
                self.trace.objects[lock.mutex.index()].kind = ObjectKind::RecursiveMutex;
            }
            Some((holder, _)) => {
                let problem = format!(
                    "{} acquires the lock {} that {} holds",
                    self.trace.thread(thread).name,
                    lossy(name),
                    self.trace.thread(*holder).name
                );
                return self.impossible(problem);
            }
        }
        Ok(Op::Lock(lock.mutex))
    }

    fn release(&mut self, name: &[u8], thread: ThreadId) -> Result<Op, String> {
        let index = self.lock(name)?;
        let lock = &mut self.lock_states[index];
        match &mut lock.holder {
            Some((holder, depth)) if *holder == thread => {
                *depth -= 1;
                if *depth == 0 {
                    lock.holder = None;
                    self.thread_states[thread.index()].released = Some(lock.mutex);
                }
            }
            _ => {
                let problem = format!(
                    "{} releases the lock {} that it does not hold",
                    self.trace.thread(thread).name,
                    lossy(name)
                );
                return self.impossible(problem);
            }
        }
        Ok(Op::Unlock(lock.mutex))
    }

    fn wait(
        &mut self,
        name: &[u8],
        thread: ThreadId,
        released: Option<ObjectId>,
    ) -> Result<Op, String> {
        let lock = self.lock(name)?;
        let mutex = self.lock_states[lock].mutex;
        if released != Some(mutex) {
            let problem = format!(
                "expected rel({}) as the event of {} just before its wait",
                lossy(name),
                self.trace.thread(thread).name
            );
            return self.impossible(problem);
        }
        self.thread_states[thread.index()].released = released;
        Ok(Op::Wait(self.condition(name)?))
    }

    fn fork(&mut self, name: &[u8], thread: ThreadId) -> Result<Op, String> {
        let child = self.thread(name)?;
        let state = &mut self.thread_states[child.index()];
        let child_name = &self.trace.threads[child.index()].name;
        if state.forked || state.acted {
            let when = match state.forked {
                true => "a second time",
                false => "after it has acted",
            };
            let problem = format!("thread {child_name} is forked {when}");
            return self.impossible(problem);
        }
        state.forked = true;
        self.trace.threads[child.index()].parent = Some(thread);
        Ok(Op::Fork(child))
    }

    fn join(&mut self, name: &[u8], thread: ThreadId) -> Result<Op, String> {
        let child = self.thread(name)?;
        if child == thread {
            return self.impossible(format!("thread {} joins itself", lossy(name)));
        }
        Ok(Op::Join(child))
    }

    fn finish(mut self) -> Import {
        // A wait that did not end is no event; its line keeps one that does nothing.
        for thread in 0..self.thread_states.len() {
            if let Some(Waiting { place, line, .. }) = self.thread_states[thread].waiting {
                let op = self.endless_wait();
                let thread = ThreadId::from_index(thread);
                self.push(Event { thread, place, op }, line);
            }
        }
        self.trace.events.shrink_to_fit();
        Import {
            trace: self.trace,
            lines: self.lines,
            changed: self.changed,
            first_change: self.first_change,
        }
    }

    fn endless_wait(&mut self) -> Op {
        self.custom(b'w', 0, "wait without end", Vec::new)
            .expect("a custom event without fields has no problem")
    }
}

/// `name(operand)` with an operand that is not empty and has no white space.
fn split_call(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let operand = text[open + 1..].strip_suffix(b")")?;
    let usable = !operand.is_empty() && !operand.iter().any(u8::is_ascii_whitespace);
    usable.then_some((&text[..open], operand))
}

/// A Java int.
fn parse_location(text: &[u8]) -> Option<i32> {
    if !is_number(text.strip_prefix(b"-").unwrap_or(text)) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

fn utf8(text: &[u8]) -> Result<String, String> {
    match std::str::from_utf8(text) {
        Ok(text) => Ok(text.into()),
        Err(_) => Err(format!("{:?} is not UTF-8", lossy(text))),
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

fn expected(what: &str, found: &[u8]) -> String {
    let shown: String = lossy(found).chars().take(80).collect();
    format!("expected {what}, found {shown:?}")
}
