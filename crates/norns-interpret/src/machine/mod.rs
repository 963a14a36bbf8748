//! A run: one thread at a time executes operations until something could be decided in two ways.

mod access;
mod call;
mod execute;
mod next;
mod order;
mod signal;
mod symbolic;
mod unwind;

use std::collections::BTreeMap;
use std::rc::Rc;

use norns_ir::{PlaceId, Program};
use rustc_hash::FxHashMap;

use crate::files::Files;
use crate::how::{How, Input, MemoryModel, Preemption};
use crate::lower;
use crate::memory::{Memory, ObjectId, Region, address_of, object_of};
use crate::op::Code;
use crate::outcome::{Channel, Decision, End, MemoryError, MemoryErrorKind, Outcome, Place, Write};
use crate::state::{After, State, Status, Thread};
use crate::symbolic::{Marks as InputMarks, Part, Path, Source, Symbolic};
use crate::synchronisation::Synchronisation;
use crate::weak::{Candidate, Clock, Histories};

pub(crate) use order::{Marks, is_same_file};
pub(crate) use unwind::type_selector;

/// Variables of libstdc++ that say what `std::call_once` calls.
const ONCE_VARIABLES: [&str; 2] = ["_ZSt15__once_callable", ONCE_CALL];
const ONCE_CALL: &str = "_ZSt11__once_call";

/// The end of a run, as an error of what cannot go on.
pub(crate) type Stop = Box<End>;

impl From<Box<MemoryError>> for Box<End> {
    fn from(error: Box<MemoryError>) -> Self {
        Box::new(End::MemoryError(*error))
    }
}

pub(crate) fn give_up<T>(reason: impl Into<String>) -> Result<T, Stop> {
    Err(Box::new(End::GaveUp(reason.into())))
}

/// Something that can be decided in several ways.
pub(crate) enum Choice {
    /// What happens next. The running thread comes first if it can go on.
    Next(Vec<Next>),
    /// Which write a read returns, the newest first.
    Value(Vec<Candidate>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Run(usize),
    /// The oldest store in a thread's buffer reaches memory.
    Flush(usize),
}

/// Why a thread stopped running.
pub(crate) enum Pause {
    /// It may go on; others may, too.
    Yield,
    /// It cannot go on.
    Blocked,
    Value(Vec<Candidate>),
}

#[derive(Clone)]
pub(crate) struct Machine<'p> {
    pub(crate) program: &'p Program,
    pub(crate) code: &'p Code,
    pub(crate) input: &'p Input,
    pub(crate) how: &'p How,
    pub(crate) state: State,
    /// Every access to shared memory is a choice.
    explores: bool,
    /// Whether accesses leave the fast path.
    watches: bool,
    /// The running thread was chosen to execute the access that it stands before.
    may_access: bool,
    chosen: Option<Candidate>,
    marks: Option<Rc<Marks>>,
    order: order::Progress,
    decisions: Vec<Decision>,
    endless: next::Endless,
    /// How often a timer raised a signal since a thread ran last.
    idle_expirations: u32,
    /// The variables of the input, if parts of it are variable.
    pub(crate) symbolic: Option<Box<Symbolic>>,
}

/// What is done with what can be decided in several ways.
#[derive(Clone, Copy)]
pub(crate) enum Mode<'a> {
    /// One run.
    Run,
    /// All of them: every access to shared memory is a choice.
    Explore,
    /// One run that follows these variables.
    Follow(&'a InputMarks),
}

/// What a run starts from: the code and the initial memory, which all runs of a program share.
pub(crate) struct Loaded {
    pub(crate) code: Code,
    memory: Memory,
    /// Why initial values are missing.
    fault: Option<String>,
}

impl Loaded {
    pub(crate) fn new(program: &Program) -> Self {
        let code = lower::lower(program);
        let mut memory = Memory::new();
        let mut fault = None;
        for (index, global) in program.globals.iter().enumerate() {
            let number = index as u32;
            let (region, bytes) = match global.initial {
                None => (Region::Unknown(number), None),
                Some(initial) => match lower::initial_bytes(program, initial) {
                    Ok(bytes) if global.is_constant => (Region::Constant(number), Some(bytes)),
                    Ok(bytes) => (Region::Global(number), Some(bytes)),
                    Err(_) => (Region::Unknown(number), None),
                },
            };
            let size = program.types.size(global.r#type);
            let id = memory.allocate(size.max(1), region, true);
            if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
                memory.initialise(id, bytes);
            }
        }
        if code.main.is_none() {
            fault = Some("the program has no function main".to_owned());
        }
        Self {
            code,
            memory,
            fault,
        }
    }
}

impl<'p> Machine<'p> {
    pub(crate) fn new(
        program: &'p Program,
        loaded: &'p Loaded,
        input: &'p Input,
        how: &'p How,
        mode: Mode<'_>,
    ) -> Result<Self, Stop> {
        if let Some(fault) = &loaded.fault {
            return give_up(fault.clone());
        }
        let mut clock = Clock::default();
        clock.advance(0);
        let marks = how
            .order
            .as_ref()
            .map(|order| Rc::new(Marks::new(program, &loaded.code, order)));
        let explores = matches!(mode, Mode::Explore);
        let symbolic = match mode {
            Mode::Follow(marks) => Some(Box::new(Symbolic {
                marks: marks.clone(),
                path: Path::default(),
            })),
            Mode::Run | Mode::Explore => None,
        };
        let mut machine = Self {
            program,
            code: &loaded.code,
            input,
            how,
            state: State {
                memory: loaded.memory.clone(),
                threads: vec![Thread::new(clock)],
                current: 0,
                synchronisation: Rc::new(Synchronisation::default()),
                files: Rc::new(Files::new(input)),
                signals: Rc::default(),
                writes: Vec::new(),
                steps: 0,
                slept: 0,
                asked_for_time: 0,
                effects: 0,
                random: 1,
                exit_handlers: Vec::new(),
                quick_exit_handlers: Vec::new(),
                environment: Rc::new(input.environment.clone()),
                keys: Vec::new(),
                exceptions: Rc::new(BTreeMap::new()),
                histories: Rc::new(Histories::default()),
                named: BTreeMap::new(),
                locks_left_out: 0,
                escaped: Rc::default(),
            },
            explores,
            watches: explores
                || marks.is_some()
                || symbolic.is_some()
                || how.memory != MemoryModel::SequentiallyConsistent,
            may_access: false,
            chosen: None,
            marks,
            order: order::Progress::default(),
            decisions: Vec::new(),
            endless: next::Endless::default(),
            idle_expirations: 0,
            symbolic,
        };
        machine.state.memory.counts_changes = explores;
        machine.define_library_variables();
        machine.start_main()?;
        Ok(machine)
    }

    fn start_main(&mut self) -> Result<(), Stop> {
        let arguments: Vec<u64> = {
            let arguments = self.input.arguments.clone();
            let arguments = arguments.iter().enumerate();
            arguments
                .map(|(number, one)| self.input_string(one, &Source::Argument(number)))
                .collect()
        };
        let count = arguments.len() as u64;
        let vector = self.library_pointers(&arguments);
        let environment: Vec<u64> = {
            let environment = self.input.environment.clone();
            environment
                .iter()
                .map(|one| self.library_string(one))
                .collect()
        };
        let environment = self.library_pointers(&environment);
        let Some(main) = self.code.main else {
            return give_up("the program has no function main");
        };
        let wanted = self.code.functions[main.index()].parameters as usize;
        let all = [count, vector, environment];
        self.push_frame(0, main.index(), &all[..wanted.min(3)], After::Main)?;
        for &constructor in self.code.constructors.iter().rev() {
            self.push_frame(0, constructor.index(), &[], After::Discard)?;
        }
        Ok(())
    }

    /// Variables that the C library defines.
    fn define_library_variables(&mut self) {
        for (index, global) in self.program.globals.iter().enumerate() {
            if global.initial.is_some() {
                continue;
            }
            let stream = match global.name.as_str() {
                "stdin" => 0_u64,
                "stdout" => 1,
                "stderr" => 2,
                "__libc_single_threaded" | "__dso_handle" => {
                    let size = self.program.types.size(global.r#type).max(1);
                    self.replace_global(index, vec![0; size as usize]);
                    continue;
                }
                _ => continue,
            };
            let address = self.stream(stream as usize);
            self.replace_global(index, address.to_le_bytes().to_vec());
        }
    }

    fn replace_global(&mut self, index: usize, bytes: Vec<u8>) {
        let object = ObjectId(index as u32 + 1);
        self.state
            .memory
            .define(object, Region::Global(index as u32), bytes);
    }

    /// The address that stands for an open stream.
    pub(crate) fn stream(&mut self, number: usize) -> u64 {
        let name = format!("stream {number}").into_bytes();
        let memory = &mut self.state.memory;
        let object = self.state.named.entry(name).or_insert_with(|| {
            let object = memory.allocate(8, Region::Library, true);
            memory.initialise(object, (number as u64).to_le_bytes().to_vec());
            object
        });
        address_of(*object)
    }

    /// A string in memory of its own.
    pub(crate) fn library_string(&mut self, text: &[u8]) -> u64 {
        let mut bytes = text.to_vec();
        bytes.push(0);
        let object = self
            .state
            .memory
            .allocate(bytes.len() as u64, Region::Library, true);
        self.state.memory.initialise(object, bytes);
        address_of(object)
    }

    /// A string of the input, whose bytes may be variable.
    pub(crate) fn input_string(&mut self, text: &[u8], source: &Source) -> u64 {
        let length = self
            .symbolic
            .as_ref()
            .and_then(|symbolic| symbolic.marks.find(source));
        let mut bytes = text.to_vec();
        bytes.resize(
            bytes
                .len()
                .max(length.map_or(0, |(_, length)| length as usize)),
            0,
        );
        let address = self.library_string(&bytes);
        self.put_input(address, source, 0, bytes.len() as u64);
        address
    }

    /// Notes that memory got bytes of the input, which may be variable.
    pub(crate) fn put_input(&mut self, address: u64, source: &Source, offset: u64, bytes: u64) {
        let Some(symbolic) = &mut self.symbolic else {
            return;
        };
        let Some((first, length)) = symbolic.marks.find(source) else {
            return;
        };
        let end = (offset + bytes).min(length.into());
        let parts: Vec<(u64, Part)> = (offset..end)
            .map(|at| {
                let whole = symbolic.path.expressions.input(first + at as u32);
                (
                    at - offset,
                    Part {
                        whole,
                        at: 0,
                        of: 1,
                    },
                )
            })
            .collect();
        self.state.memory.put_shadow(address, bytes, &parts);
    }

    fn library_pointers(&mut self, all: &[u64]) -> u64 {
        let bytes = all
            .iter()
            .chain([&0])
            .flat_map(|pointer| pointer.to_le_bytes());
        let bytes: Vec<u8> = bytes.collect();
        let object = self
            .state
            .memory
            .allocate(bytes.len() as u64, Region::Library, true);
        self.state.memory.initialise(object, bytes);
        address_of(object)
    }

    pub(crate) fn thread(&mut self) -> &mut Thread {
        &mut self.state.threads[self.state.current]
    }

    /// Where the running thread is.
    pub(crate) fn place_id(&self) -> Option<PlaceId> {
        let frame = self.state.threads[self.state.current].frames.last()?;
        self.code.functions[frame.function as usize]
            .places
            .get(frame.pc as usize)
            .copied()?
    }

    pub(crate) fn place(&self, id: PlaceId) -> Place {
        let place = self.program.place(id);
        let file = self.program.file(place.file);
        Place {
            file: file.name.clone(),
            line: place.line,
            function: place.function.clone().unwrap_or_default(),
        }
    }

    pub(crate) fn current_place(&self) -> Option<Place> {
        self.place_id().map(|id| self.place(id))
    }

    /// The places of a thread's frames, innermost first.
    pub(crate) fn stack_of(&self, thread: usize) -> Vec<Place> {
        let frames = self.state.threads[thread].frames.iter().rev();
        let places = frames.filter_map(|frame| {
            let function = &self.code.functions[frame.function as usize];
            function.places.get(frame.pc as usize).copied().flatten()
        });
        places.map(|id| self.place(id)).take(64).collect()
    }

    /// Notes that something left the process.
    pub(crate) fn note_write(&mut self, to: Channel, bytes: &[u8], place: Option<PlaceId>) {
        self.state.effects += 1;
        let place = place.map(|id| self.place(id));
        self.state.writes.push(Rc::new(Write {
            to,
            bytes: bytes.to_vec(),
            place,
        }));
    }

    /// What the run comes to.
    pub(crate) fn finish(self, end: End) -> Outcome {
        self.finish_path(end).0
    }

    /// What the run comes to, and what it did with the variables.
    pub(crate) fn finish_path(mut self, mut end: End) -> (Outcome, Path) {
        if let End::MemoryError(error) = &mut end {
            match self
                .state
                .memory
                .object(object_of(error.address))
                .map(|object| &object.region)
            {
                Some(Region::Unknown(number)) => {
                    let name = &self.program.globals[*number as usize].name;
                    end = End::GaveUp(format!("the variable {name}"));
                }
                Some(Region::Global(number) | Region::Constant(number)) => {
                    let global = &self.program.globals[*number as usize];
                    let name = global.source_name.as_ref().unwrap_or(&global.name);
                    error.object = Some(name.clone());
                }
                Some(Region::Heap) => error.object = Some("a block of the heap".to_owned()),
                Some(Region::Mapped) => error.object = Some("mapped memory".to_owned()),
                Some(Region::Stack(_)) => error.object = Some("a local variable".to_owned()),
                Some(Region::Foreign) => {
                    end = End::GaveUp("a virtual function of the standard library".to_owned());
                }
                Some(Region::ThreadLocal | Region::Library) | None => {}
            }
        }
        if let End::Exited(_) = end
            && let Some(text) = self.broken_invariant(true)
        {
            end = End::AssertFailed { text };
        }
        let order = self.how.order.as_ref().map(|_| self.order.result());
        let path = self.symbolic.take().map(|symbolic| symbolic.path);
        let outcome = Outcome {
            thread: self.state.current,
            stack: self.stack_of(self.state.current),
            writes: self
                .state
                .writes
                .iter()
                .map(|write| (**write).clone())
                .collect(),
            order,
            decisions: self.decisions,
            steps: self.state.steps,
            locks_left_out: self.state.locks_left_out,
            end,
        };
        (outcome, path.unwrap_or_default())
    }

    fn switches_anywhere(&self) -> bool {
        self.how.preemption == Preemption::Anywhere
    }

    /// The error of a call through a pointer that is no function.
    fn bad_call(&self, address: u64) -> Stop {
        Box::new(End::MemoryError(MemoryError {
            kind: match address >> 32 {
                0 => MemoryErrorKind::Null,
                _ => MemoryErrorKind::Wild,
            },
            is_write: false,
            address,
            bytes: 1,
            object: None,
        }))
    }

    /// The thread-local objects of the running thread, by the number of the global.
    fn thread_local(&mut self, number: u32) -> Result<u64, Stop> {
        if let Some(&object) = self.thread().locals.get(&number) {
            return Ok(address_of(object));
        }
        let global = &self.program.globals[number as usize];
        let bytes = match global.initial {
            Some(initial) => match lower::initial_bytes(self.program, initial) {
                Ok(bytes) => bytes,
                Err(reason) => return give_up(reason),
            },
            // What `std::call_once` passes to `__once_proxy`.
            None if ONCE_VARIABLES.contains(&global.name.as_str()) => vec![0; 8],
            None => return give_up(format!("the variable {}", global.name)),
        };
        let size = bytes.len().max(1) as u64;
        let object = self.state.memory.allocate(size, Region::ThreadLocal, true);
        if !bytes.is_empty() {
            self.state.memory.initialise(object, bytes);
        }
        self.thread().locals.insert(number, object);
        Ok(address_of(object))
    }

    /// The function that `__once_proxy` calls for the running thread.
    pub(crate) fn once_call(&mut self) -> Result<u64, Stop> {
        let mut globals = self.program.globals.iter();
        match globals.position(|global| global.name == ONCE_CALL) {
            Some(number) => {
                let variable = self.thread_local(number as u32)?;
                Ok(self.state.memory.load(variable, 8)?)
            }
            None => give_up("std::call_once without its variable"),
        }
    }

    fn is_alone(&self) -> bool {
        let alive = self
            .state
            .threads
            .iter()
            .filter(|thread| thread.status != Status::Ended);
        alive.count() < 2
    }
}

/// Hashes of states that were seen, for the search of endless loops.
type Seen = FxHashMap<u64, u32>;
