//! Reads the STD format.

use std::io::BufRead;

use rustc_hash::FxHashMap;

use super::StdError;
use crate::event::{Access, Event, ObjectId, Op, PlaceId, ThreadId};
use crate::trace::{Custom, Object, ObjectKind, Place, Symbol, Thread, Trace};

/// Variables are this far apart, from `FIRST_ADDRESS` on.
const VARIABLE_SIZE: u32 = 8;
const FIRST_ADDRESS: u64 = 0x1000;

/// Reads a trace line by line; the text itself is not kept.
pub fn read(mut input: impl BufRead) -> Result<Trace, StdError> {
    let mut reader = Reader::default();
    reader.trace.accesses_ordered = true;
    let mut line = Vec::with_capacity(256);
    let mut number = 0;
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).map_err(StdError::Read)? == 0 {
            break;
        }
        number += 1;
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        reader.line(&line).map_err(|problem| StdError::Line {
            line: number,
            problem,
        })?;
    }
    reader.finish()
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
    joined: bool,
    /// The last event, when it released a lock or waited on one: what a `wait` must follow and
    /// must be followed by.
    released: Option<ObjectId>,
    waiting: Option<ObjectId>,
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
}

impl Reader {
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
        let state = self.thread_states[thread.index()];
        let op = self.op(op, thread)?;
        if let Some(lock) = state.waiting
            && op != Op::Lock(lock)
        {
            return Err(format!(
                "expected acq({}) by {}, since its last event waits on that lock",
                self.trace.object(lock).name,
                self.trace.thread(thread).name
            ));
        }
        self.trace.events.push(Event { thread, place, op });
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
        let state = &mut self.thread_states[thread.index()];
        if state.joined {
            return Err(format!(
                "thread {} acts after it was joined",
                self.trace.thread(thread).name
            ));
        }
        state.acted = true;
        Ok(thread)
    }

    fn op(&mut self, text: &[u8], thread: ThreadId) -> Result<Op, String> {
        let state = &mut self.thread_states[thread.index()];
        let released = state.released.take();
        state.waiting = None;
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
                return Err(format!(
                    "{} acquires the lock {} that {} holds",
                    self.trace.thread(thread).name,
                    lossy(name),
                    self.trace.thread(*holder).name
                ));
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
                return Err(format!(
                    "{} releases the lock {} that it does not hold",
                    self.trace.thread(thread).name,
                    lossy(name)
                ));
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
            return Err(format!(
                "expected rel({}) as the event of {} just before its wait",
                lossy(name),
                self.trace.thread(thread).name
            ));
        }
        self.thread_states[thread.index()].waiting = Some(mutex);
        Ok(Op::Wait(self.condition(name)?))
    }

    fn fork(&mut self, name: &[u8], thread: ThreadId) -> Result<Op, String> {
        let child = self.thread(name)?;
        let state = &mut self.thread_states[child.index()];
        let child_name = &self.trace.threads[child.index()].name;
        if state.forked {
            return Err(format!("thread {child_name} is forked a second time"));
        }
        if state.acted {
            return Err(format!("thread {child_name} is forked after it has acted"));
        }
        state.forked = true;
        self.trace.threads[child.index()].parent = Some(thread);
        Ok(Op::Fork(child))
    }

    fn join(&mut self, name: &[u8], thread: ThreadId) -> Result<Op, String> {
        let child = self.thread(name)?;
        if child == thread {
            return Err(format!("thread {} joins itself", lossy(name)));
        }
        self.thread_states[child.index()].joined = true;
        Ok(Op::Join(child))
    }

    fn finish(mut self) -> Result<Trace, StdError> {
        self.trace.events.shrink_to_fit();
        Ok(self.trace)
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
