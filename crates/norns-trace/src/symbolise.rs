//! Names for program counters and addresses: functions, source lines with inlined frames, globals.
//!
//! Modules come from the text of /proc/self/maps as the recorder saved it; their ELF and DWARF are
//! read with `object` and `addr2line`, each file once. A program counter is a return address, so the
//! byte before it is looked up. Thread-local variables have no fixed address and get no name.
//! A file without debug information gives function names from its symbol table only, or from the
//! separate file under /usr/lib/debug that its build id names.

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use rustc_hash::FxHashMap;

use crate::error::Warning;
use crate::item::{Info, info};
use crate::layout::{Arrays, Layouts, Part, Step};
use crate::trace::{SourcePlace, Symbol};
use norns_wire as wire;

/// One mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

pub struct Symboliser {
    /// Sorted by start; a later one wins over an earlier one at the same address.
    mappings: Vec<Mapping>,
    modules: FxHashMap<String, Module>,
    /// Globals of all modules, sorted by address, none empty.
    globals: Vec<Symbol>,
    frames: FxHashMap<u64, Vec<SourcePlace>>,
    warnings: Vec<Warning>,
}

struct Module {
    /// What to add to an address in the file to get the address in the program.
    bias: u64,
    loader: Option<addr2line::Loader>,
    identity: String,
    /// The file with the debug information.
    debug: PathBuf,
    /// Read when the first part of a variable gets a name.
    layouts: OnceCell<Layouts>,
}

impl Symboliser {
    /// From texts of /proc/PID/maps, taken at different times of one run.
    pub fn new<'a>(maps: impl IntoIterator<Item = &'a str>) -> Symboliser {
        let mut mappings: Vec<Mapping> = maps
            .into_iter()
            .flat_map(str::lines)
            .filter_map(parse_mapping)
            .collect();
        mappings.sort();
        mappings.dedup();
        let mut symboliser = Symboliser {
            mappings,
            modules: FxHashMap::default(),
            globals: Vec::new(),
            frames: FxHashMap::default(),
            warnings: Vec::new(),
        };
        symboliser.open_modules();
        symboliser
    }

    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    fn open_modules(&mut self) {
        for mapping in &self.mappings {
            if self.modules.contains_key(&mapping.path) {
                continue;
            }
            match open_module(mapping, &mut self.globals) {
                Ok(module) => {
                    self.modules.insert(mapping.path.clone(), module);
                }
                // Data files are mapped too: only what holds code must be a module.
                Err(None) => {}
                Err(Some(problem)) => {
                    self.warnings.push(Warning::NoDebugInformation {
                        path: mapping.path.clone(),
                        problem,
                    });
                    let none = Module {
                        bias: 0,
                        loader: None,
                        identity: String::new(),
                        debug: PathBuf::new(),
                        layouts: OnceCell::new(),
                    };
                    self.modules.insert(mapping.path.clone(), none);
                }
            }
        }
        // A copy relocation puts a library's variable into the program: the first name stays.
        self.globals
            .sort_by(|a, b| (a.address, b.size, &a.name).cmp(&(b.address, a.size, &b.name)));
        let mut end = 0;
        self.globals.retain(|symbol| {
            let apart = symbol.address >= end;
            if apart {
                end = symbol.address.saturating_add(symbol.size);
            }
            apart
        });
    }

    /// What a trace keeps about the modules: one info for each mapping of a module.
    pub fn module_infos(&self) -> Vec<Info> {
        self.mappings
            .iter()
            .filter_map(|mapping| {
                let module = self.modules.get(&mapping.path)?;
                Some(Info {
                    key: info::MODULE.into(),
                    values: vec![
                        format!("{:x}", mapping.start),
                        format!("{:x}", mapping.end),
                        format!("{:x}", mapping.offset),
                        mapping.path.clone(),
                        module.identity.clone(),
                    ],
                })
            })
            .collect()
    }

    /// The frames at the call that returns to `pc`, innermost first; empty when nothing is known.
    pub fn frames(&mut self, pc: u64) -> &[SourcePlace] {
        if !self.frames.contains_key(&pc) {
            let found = self.look_up(pc);
            self.frames.insert(pc, found);
        }
        &self.frames[&pc]
    }

    fn look_up(&self, pc: u64) -> Vec<SourcePlace> {
        let mut found = Vec::new();
        let Some(probe) = pc.checked_sub(1) else {
            return found;
        };
        let Some(module) = self.module_at(probe) else {
            return found;
        };
        let Some(loader) = &module.loader else {
            return found;
        };
        let probe = probe.wrapping_sub(module.bias);
        if let Ok(mut frames) = loader.find_frames(probe) {
            while let Ok(Some(frame)) = frames.next() {
                let function = frame
                    .function
                    .as_ref()
                    .and_then(|name| name.demangle().ok());
                let location = frame.location.as_ref();
                found.push(SourcePlace {
                    function: function.map(|name| name.into_owned()).unwrap_or_default(),
                    file: location
                        .and_then(|place| place.file)
                        .unwrap_or_default()
                        .to_owned(),
                    line: location.and_then(|place| place.line).unwrap_or(0),
                    column: location.and_then(|place| place.column).unwrap_or(0),
                });
            }
        }
        found.retain(|place| !place.function.is_empty() || !place.file.is_empty());
        // The outermost frame of a function without debug information has a symbol at least.
        match found.last_mut() {
            Some(last) if !last.function.is_empty() => {}
            last => {
                if let Some(name) = loader.find_symbol(probe) {
                    let name = demangled(name);
                    match last {
                        Some(last) => last.function = name,
                        None => found.push(SourcePlace {
                            function: name,
                            ..SourcePlace::default()
                        }),
                    }
                }
            }
        }
        found
    }

    /// The file that the code at `pc` comes from; empty when none is known.
    pub fn module(&self, pc: u64) -> &str {
        self.mapping_at(pc.saturating_sub(1))
            .map_or("", |mapping| &mapping.path)
    }

    /// What was added to the addresses of that file.
    pub fn bias(&self, pc: u64) -> Option<u64> {
        Some(self.module_at(pc.saturating_sub(1))?.bias)
    }

    fn module_at(&self, address: u64) -> Option<&Module> {
        self.modules.get(&self.mapping_at(address)?.path)
    }

    fn mapping_at(&self, address: u64) -> Option<&Mapping> {
        let after = self
            .mappings
            .partition_point(|mapping| mapping.start <= address);
        // Mappings from different times may overlap; the one that begins last is the best guess.
        self.mappings[..after]
            .iter()
            .rev()
            .take(16)
            .find(|mapping| address < mapping.end)
    }

    /// The global that holds this address: its number.
    pub fn global_at(&self, address: u64) -> Option<usize> {
        let after = self
            .globals
            .partition_point(|symbol| symbol.address <= address);
        let index = after.checked_sub(1)?;
        let symbol = &self.globals[index];
        (address - symbol.address < symbol.size).then_some(index)
    }

    /// A name for an object at this address: `lock`, `table[4].lock`; empty when none is known.
    pub fn name_of(&self, address: u64) -> String {
        let Some(number) = self.global_at(address) else {
            return String::new();
        };
        let symbol = &self.globals[number];
        let offset = address - symbol.address;
        let mut name = symbol.name.clone();
        let part = self.part(symbol, offset, Arrays::Elements, |step| {
            add(&mut name, step);
        });
        let begin = part.map_or(0, |part| part.offset);
        if offset > begin {
            let _ = write!(name, "+{:#x}", offset - begin);
        }
        name
    }

    /// Where the part of a global begins that holds this address, and whether that is all of it.
    pub fn part_begin(&self, global: usize, address: u64) -> (u64, bool) {
        let symbol = &self.globals[global];
        let part = self.part(symbol, address - symbol.address, Arrays::Small, |_| {});
        match part {
            Some(part) => (symbol.address + part.offset, part.size >= symbol.size),
            None => (symbol.address, true),
        }
    }

    /// The field or small element of a global that holds this address, or all of the global.
    /// What this returns for two addresses is the same or does not overlap.
    pub fn part_at(&self, global: usize, address: u64) -> Symbol {
        let symbol = &self.globals[global];
        let mut name = symbol.name.clone();
        let offset = address - symbol.address;
        let part = self.part(symbol, offset, Arrays::Small, |step| add(&mut name, step));
        let Some(part) = part else {
            return symbol.clone();
        };
        Symbol {
            address: symbol.address + part.offset,
            size: part.size.min(symbol.size - part.offset),
            name,
        }
    }

    fn part(
        &self,
        symbol: &Symbol,
        offset: u64,
        arrays: Arrays,
        step: impl FnMut(Step),
    ) -> Option<Part> {
        let module = self.module_at(symbol.address)?;
        let layouts = module.layouts.get_or_init(|| Layouts::read(&module.debug));
        let in_file = symbol.address.wrapping_sub(module.bias);
        let part = layouts.part(in_file, offset, arrays, step);
        part.filter(|part| part.offset < symbol.size)
    }
}

fn add(name: &mut String, step: Step) {
    let _ = match step {
        Step::Field(field) => write!(name, ".{field}"),
        Step::Element(index) => write!(name, "[{index}]"),
    };
}

/// `start-end perms offset dev inode path`, for mappings of files.
fn parse_mapping(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        rest = rest.trim_start_matches(' ');
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after;
        word
    };
    let range = word();
    let _permissions = word();
    let offset = u64::from_str_radix(word(), 16).ok()?;
    let _device = word();
    let _inode = word();
    let (start, end) = range.split_once('-')?;
    let path = rest.trim_start_matches(' ');
    // A file that was replaced while it was mapped is not the one with this name.
    if !path.starts_with('/') || path.ends_with(" (deleted)") {
        return None;
    }
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset,
        path: path.to_owned(),
    })
}

/// Opens the file of a mapping and adds its globals. `Err(None)` if it is no module, which is no
/// problem.
fn open_module(mapping: &Mapping, globals: &mut Vec<Symbol>) -> Result<Module, Option<String>> {
    let path = Path::new(&mapping.path);
    if !fs::metadata(path).is_ok_and(|data| data.is_file()) {
        return Err(path
            .extension()
            .is_some_and(|name| name == "so")
            .then(|| "the file is gone".into()));
    }
    let mut magic = [0; 4];
    let is_elf = fs::File::open(path)
        .and_then(|mut file| crate::container::read_up_to(&mut file, &mut magic))
        .is_ok_and(|length| length == 4 && magic == *b"\x7fELF");
    if !is_elf {
        return Err(None);
    }
    let content = fs::read(path).map_err(|error| Some(error.to_string()))?;
    let file = object::File::parse(&*content).map_err(|error| Some(error.to_string()))?;
    // The segment that the mapping belongs to tells at which address the file is loaded.
    let bias = file
        .segments()
        .find(|segment| {
            let (offset, size) = segment.file_range();
            let page = offset & !0xfff;
            page <= mapping.offset && mapping.offset < offset + size.max(1)
        })
        .map(|segment| {
            let in_file = segment
                .address()
                .wrapping_sub(segment.file_range().0)
                .wrapping_add(mapping.offset);
            mapping.start.wrapping_sub(in_file)
        })
        .ok_or_else(|| Some("no segment holds its mapping".to_owned()))?;

    let debug = separate_debug_file(&file);
    let symbols_of = |file: &object::File, globals: &mut Vec<Symbol>| {
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if symbol.kind() == object::SymbolKind::Data
                && symbol.is_definition()
                && symbol.size() > 0
                && let Ok(name) = symbol.name()
            {
                globals.push(Symbol {
                    address: symbol.address().wrapping_add(bias),
                    size: symbol.size(),
                    name: demangled(name),
                });
            }
        }
    };
    symbols_of(&file, globals);
    let debug = match debug {
        Some(debug) if !file.has_debug_symbols() => debug,
        _ => path.to_path_buf(),
    };
    let loader = addr2line::Loader::new(&debug).map_err(|error| Some(error.to_string()))?;
    Ok(Module {
        bias,
        loader: Some(loader),
        identity: identity(&file, &content),
        debug,
        layouts: OnceCell::new(),
    })
}

/// Demangles the names of C++ and Rust functions and variables only: a C name such as `x` could be read
/// as a mangled type.
fn demangled(name: &str) -> String {
    if name.starts_with("_Z") || name.starts_with("_R") {
        addr2line::demangle_auto(name.into(), None).into_owned()
    } else {
        name.to_owned()
    }
}

fn separate_debug_file(file: &object::File) -> Option<PathBuf> {
    let id = hex(file.build_id().ok()??);
    let (front, rest) = id.split_at_checked(2)?;
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{front}/{rest}.debug"));
    path.exists().then_some(path)
}

/// What tells this file from a rebuilt one: its build id, or else a checksum of its bytes.
fn identity(file: &object::File, content: &[u8]) -> String {
    match file.build_id() {
        Ok(Some(id)) => hex(id),
        _ => format!("sum-{:016x}", wire::checksum(content)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The modules of a recording that are not the same files any more.
pub fn changed_modules(infos: &[Info]) -> Vec<Warning> {
    let mut seen: Vec<&str> = Vec::new();
    let mut warnings = Vec::new();
    for info in infos.iter().filter(|info| info.key == info::MODULE) {
        let [_, _, _, path, identity_then] = &info.values[..] else {
            continue;
        };
        if identity_then.is_empty() || seen.contains(&path.as_str()) {
            continue;
        }
        seen.push(path);
        let now = fs::read(path).ok().and_then(|content| {
            let file = object::File::parse(&*content).ok()?;
            Some(identity(&file, &content))
        });
        if now.as_ref() != Some(identity_then) {
            warnings.push(Warning::Rebuilt { path: path.clone() });
        }
    }
    warnings
}
