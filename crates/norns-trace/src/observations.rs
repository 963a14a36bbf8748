//! The observations of a tracked run (`norns_wire::tracking`) as a trace.
//!
//! A watchpoint says that an instruction accessed memory, but not how (a site does): the instruction before the program
//! counter of the trap is decoded from the program's file. One that reads and writes is two events. The
//! value is the one that was there when the trap was handled. Accesses in code without lines, such as the C
//! library's, are left out: watched memory that was freed is the allocator's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, OpAccess, Register};
use norns_wire::environment::FAILURE;
use norns_wire::tracking::{Act, At, OBSERVATIONS_HEADER, Observed, UNKNOWN_THREAD, file_name};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use rustc_hash::FxHashMap;

use crate::event::{Access, Event, EventIndex, Op, PlaceId, ThreadId};
use crate::symbolise::Symboliser;
use crate::trace::{Custom, Place, Symbol, Thread, Trace, Value};

/// Names of threads have a part for each ancestor.
const LONGEST_NAME: usize = 256;

/// A tracked run.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// What was seen, in its order.
    pub trace: Trace,
    /// The kernel's number of the error, if there were no watchpoints.
    pub refused: Option<i32>,
    /// Watchpoints that were switched off before the end, since there were too many accesses.
    pub switched_off: Vec<u32>,
    /// Watchpoints that were set.
    pub armed: Vec<u32>,
}

/// Reads the file of a run; `Err` is its first line if that is not the one of this version.
pub fn read_observations(text: &str) -> Result<Observations, String> {
    read(text, |map| Some(map.to_string()))
}

/// The same for a run on another machine, where the program had the same name in another folder. No other file
/// is read, whatever the text names: it may come from anybody.
pub fn read_observations_of(text: &str, program: &Path) -> Result<Observations, String> {
    let name = program.file_name().and_then(|name| name.to_str());
    read(text, |map| {
        let (rest, path) = map.split_at(map.find('/')?);
        (Some(file_name(path)) == name).then(|| format!("{rest}{}", program.display()))
    })
}

/// `here` says which file on this machine a line of the maps means, if it may be read.
fn read(text: &str, here: impl Fn(&str) -> Option<String>) -> Result<Observations, String> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.split('\n');
    let header = lines.next().unwrap_or_default();
    if header != OBSERVATIONS_HEADER {
        return Err(header.into());
    }
    let observed: Vec<Observed> = lines.filter_map(Observed::parse).collect();
    let maps = observed.iter().filter_map(|line| match line {
        Observed::Map(text) => here(text),
        _ => None,
    });
    let maps: Vec<String> = maps.collect();
    let mut builder = Builder {
        symboliser: Symboliser::new(maps.iter().map(String::as_str)),
        code: Code::default(),
        found: Observations::default(),
        places: FxHashMap::default(),
        threads: FxHashMap::default(),
        symbols: BTreeMap::new(),
        armed: Vec::new(),
    };
    builder.build(&observed);
    Ok(builder.finish())
}

struct Builder {
    symboliser: Symboliser,
    code: Code,
    found: Observations,
    places: FxHashMap<u64, PlaceId>,
    threads: FxHashMap<u32, ThreadId>,
    symbols: BTreeMap<u64, Symbol>,
    /// The addresses of watchpoints.
    armed: Vec<u64>,
}

impl Builder {
    fn build(&mut self, observed: &[Observed]) {
        let trace = &mut self.found.trace;
        trace.accesses_ordered = true;
        trace.places.push(Place::default());
        self.add_thread(0, "T0".into(), None);
        let mut ordered: Vec<(u64, &Observed)> = Vec::new();
        for line in observed {
            match line {
                Observed::Begin | Observed::Map(_) => {}
                Observed::Refused { error } => self.found.refused = Some(*error),
                Observed::Armed { number, address } => {
                    self.found.armed.push(*number);
                    self.armed.push(*address);
                }
                Observed::Off { number } => self.found.switched_off.push(*number),
                Observed::Thread { at, .. }
                | Observed::Access { at, .. }
                | Observed::Passed { at, .. }
                | Observed::Branch { at }
                | Observed::Freed { at, .. }
                | Observed::Failed { at, .. } => ordered.push((at.order, line)),
            }
        }
        ordered.sort_by_key(|(order, _)| *order);
        for (_, line) in ordered {
            self.add(line);
        }
    }

    fn add(&mut self, line: &Observed) {
        match *line {
            // A thread begins once. This text may come from anybody.
            Observed::Thread { child, .. } if self.threads.contains_key(&child) => {}
            Observed::Thread { at, child, ordinal } => {
                let parent = self.thread(at.thread);
                let name = &self.found.trace.threads[parent.index()].name;
                let name = match name.len() < LONGEST_NAME {
                    true => format!("{name}.{ordinal}"),
                    false => format!("T?{child}"),
                };
                let child = self.add_thread(child, name, Some(parent));
                self.push(at, Op::Fork(child));
            }
            Observed::Access {
                at,
                address,
                size,
                value,
            } => self.access(at, Access { address, size }, None, value),
            Observed::Passed {
                at,
                act,
                address,
                size,
                value,
            } => {
                let does = Does {
                    reads: act == Act::Read,
                    writes: act == Act::Write,
                };
                self.access(at, Access { address, size }, Some(does), value);
            }
            Observed::Branch { at } => {
                let custom = self.custom("branch", Vec::new());
                self.push(at, custom);
            }
            Observed::Freed { at, address } => {
                // The block reaches at least to the end of what is watched in it.
                let within = self.armed.iter().filter(|&&watched| watched >= address);
                let end = within.filter_map(|watched| watched.checked_add(8)).min();
                let size = end.map_or(1, |end| end - address);
                let size = u32::try_from(size).unwrap_or(1);
                if address.checked_add(u64::from(size)).is_some() {
                    self.push(at, Op::Free(Access { address, size }));
                }
            }
            Observed::Failed {
                at,
                how,
                address,
                detail,
            } => {
                let fields = vec![how.word().into(), detail.into(), format!("{address:#x}")];
                let custom = self.custom(FAILURE, fields);
                self.push(at, custom);
            }
            Observed::Begin
            | Observed::Map(_)
            | Observed::Refused { .. }
            | Observed::Armed { .. }
            | Observed::Off { .. } => {}
        }
    }

    /// What a watchpoint's access does is read from the code.
    fn access(&mut self, at: At, access: Access, does: Option<Does>, value: Option<u64>) {
        let has_line = { self.symboliser.frames(at.pc).iter() }.any(|frame| frame.line > 0);
        if !has_line {
            return;
        }
        if let Some(global) = self.symboliser.global_at(access.address) {
            let symbol = self.symboliser.part_at(global, access.address);
            self.symbols.insert(symbol.address, symbol);
        }
        let does = does.unwrap_or_else(|| self.code.does(&self.symboliser, at.pc));
        let bytes = value.map_or(Vec::new(), |value| {
            value.to_le_bytes()[..access.size.clamp(1, 8) as usize].to_vec()
        });
        for (is_done, writes) in [(does.reads, false), (does.writes, true)] {
            if !is_done {
                continue;
            }
            let op = if writes {
                Op::Write(access)
            } else {
                Op::Read(access)
            };
            self.push(at, op);
            let event = EventIndex::from_index(self.found.trace.events.len() - 1);
            // What was read before the same instruction wrote is not known.
            let is_known = !bytes.is_empty() && (writes || !does.writes);
            if is_known {
                let (read, written) = match writes {
                    true => (Vec::new(), bytes.clone()),
                    false => (bytes.clone(), Vec::new()),
                };
                self.found.trace.values.push(Value {
                    event,
                    read,
                    written,
                });
            }
        }
    }

    fn custom(&mut self, name: &str, fields: Vec<String>) -> Op {
        let customs = &mut self.found.trace.customs;
        customs.push(Custom {
            name: name.into(),
            fields,
        });
        Op::Custom(customs.len() as u32 - 1)
    }

    fn push(&mut self, at: At, op: Op) {
        let thread = self.thread(at.thread);
        let place = self.place(at.pc);
        self.found.trace.events.push(Event { thread, place, op });
    }

    fn place(&mut self, pc: u64) -> PlaceId {
        let places = &mut self.found.trace.places;
        *self.places.entry(pc).or_insert_with(|| {
            places.push(Place {
                pc,
                frames: self.symboliser.frames(pc).to_vec(),
            });
            PlaceId::from_index(places.len() - 1)
        })
    }

    fn thread(&mut self, number: u32) -> ThreadId {
        match self.threads.get(&number) {
            Some(&known) => known,
            None => {
                let unseen = number == UNKNOWN_THREAD;
                let name = if unseen {
                    "T?1".into()
                } else {
                    format!("T?{number}")
                };
                self.add_thread(number, name, None)
            }
        }
    }

    fn add_thread(&mut self, number: u32, name: String, parent: Option<ThreadId>) -> ThreadId {
        let threads = &mut self.found.trace.threads;
        threads.push(Thread { name, parent });
        let id = ThreadId::from_index(threads.len() - 1);
        self.threads.insert(number, id);
        id
    }

    fn finish(mut self) -> Observations {
        self.found.trace.symbols = self.symbols.into_values().collect();
        self.found
    }
}

/// What an instruction does to memory.
#[derive(Clone, Copy, Default)]
struct Does {
    reads: bool,
    writes: bool,
}

/// The code of the files that were asked about.
#[derive(Default)]
struct Code {
    files: FxHashMap<String, Option<FileCode>>,
    known: FxHashMap<u64, Does>,
}

struct FileCode {
    /// The address of each section with code, and its bytes.
    sections: Vec<(u64, Vec<u8>)>,
    /// Where functions begin; sorted.
    functions: Vec<u64>,
}

impl Code {
    /// What the instruction before `pc` does; taken for a read if it cannot be decoded.
    fn does(&mut self, symboliser: &Symboliser, pc: u64) -> Does {
        if let Some(known) = self.known.get(&pc) {
            return *known;
        }
        let path = symboliser.module(pc).to_string();
        let file = self
            .files
            .entry(path.clone())
            .or_insert_with(|| FileCode::read(&path));
        let bias = symboliser.bias(pc).unwrap_or(0);
        let does = file
            .as_ref()
            .and_then(|file| file.does(pc.wrapping_sub(bias)));
        let does = does.unwrap_or(Does {
            reads: true,
            writes: false,
        });
        self.known.insert(pc, does);
        does
    }
}

impl FileCode {
    fn read(path: &str) -> Option<FileCode> {
        let bytes = fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let code = file
            .sections()
            .filter(|section| section.kind() == object::SectionKind::Text);
        let sections: Vec<(u64, Vec<u8>)> = code
            .filter_map(|section| Some((section.address(), section.data().ok()?.to_vec())))
            .collect();
        let symbols = file.symbols().chain(file.dynamic_symbols());
        let functions = symbols.filter(|symbol| symbol.kind() == object::SymbolKind::Text);
        let mut functions: Vec<u64> = functions.map(|symbol| symbol.address()).collect();
        functions.sort_unstable();
        functions.dedup();
        Some(FileCode {
            sections,
            functions,
        })
    }

    fn does(&self, after: u64) -> Option<Does> {
        let from = self.functions.partition_point(|&begin| begin < after);
        let begin = self.functions[..from].last().copied()?;
        let (address, bytes) = self
            .sections
            .iter()
            .find(|(address, bytes)| (*address..address + bytes.len() as u64).contains(&begin))?;
        let bytes = &bytes[(begin - address) as usize..];
        let mut decoder = Decoder::with_ip(64, bytes, begin, DecoderOptions::NONE);
        let mut factory = InstructionInfoFactory::new();
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.next_ip() > after {
                return None;
            }
            if instruction.next_ip() < after {
                continue;
            }
            let mut does = Does::default();
            // The stack is never watched.
            let memory = factory.info(&instruction).used_memory().iter();
            for used in memory.filter(|used| used.base() != Register::RSP) {
                let (reads, writes) = match used.access() {
                    OpAccess::Read | OpAccess::CondRead => (true, false),
                    OpAccess::Write | OpAccess::CondWrite => (false, true),
                    OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                    OpAccess::None | OpAccess::NoMemAccess => (false, false),
                };
                does.reads |= reads;
                does.writes |= writes;
            }
            return Some(does).filter(|does| does.reads || does.writes);
        }
        None
    }
}
