//! Names for people: source places, objects with their fields, locks, call chains.

use std::collections::BTreeMap;

use norns_ir::{DebugType, DebugTypeId, InstructionId, Operand, PlaceId, Type, Variable};

use crate::candidate::SourcePlace;
use crate::code::Code;
use crate::external::Hidden;
use crate::instance::{InstanceId, Point};
use crate::object::{Location, ObjectId, Origin};
use crate::symbol::{Root, Symbol, Symbols};

/// Longer chains of calls keep their beginning and their end.
const LONGEST_CHAIN: usize = 24;

/// Where an instruction stands in the source.
#[must_use]
pub fn source(code: &Code, point: Point) -> SourcePlace {
    let function = code.function(point.instance);
    let place = function.instruction(point.instruction).place;
    let place = place.or_else(|| nearest(code, point)).or(function.place);
    let Some(place) = place else {
        return SourcePlace {
            file: String::new(),
            line: 0,
            column: 0,
            function: function.name.clone(),
        };
    };
    source_of(code, place, &function.name)
}

fn source_of(code: &Code, id: PlaceId, function: &str) -> SourcePlace {
    let place = code.program.place(id);
    let file = code.program.file(place.file);
    let name = match file.name.starts_with('/') || file.folder.is_empty() {
        true => file.name.clone(),
        false => format!("{}/{}", file.folder, file.name),
    };
    SourcePlace {
        file: name,
        line: place.line,
        column: place.column,
        function: place
            .function
            .clone()
            .unwrap_or_else(|| function.to_owned()),
    }
}

/// The place of the next instruction of the block that has one.
fn nearest(code: &Code, point: Point) -> Option<PlaceId> {
    let function = code.function(point.instance);
    let (block, at) = code.flow(point.instance).position(point.instruction)?;
    let list = &function.blocks[block.index()].instructions;
    let mut rest = list[at..].iter();
    rest.find_map(|&id: &InstructionId| function.instruction(id).place)
}

/// An instruction as it is shown: in the program's own files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shown {
    pub at: SourcePlace,
    /// The instruction, or the call that leads into the headers of the system.
    pub call: Point,
    /// Where in those headers the instruction stands.
    pub inside: Option<SourcePlace>,
}

/// A function of a header that more places call is shown where it stands.
const MOST_SHOWN: usize = 8;

/// Whether a file came with the compiler or a library of the system.
#[must_use]
pub fn is_of_the_system(file: &str) -> bool {
    file.starts_with("/usr/") || file.contains("/include/c++/")
}

/// Where the program itself executes an instruction: there, or where it calls what stands in headers of the system.
#[must_use]
pub fn shown(code: &Code, point: Point) -> Vec<Shown> {
    let at = source(code, point);
    if !is_of_the_system(&at.file) {
        let (call, inside) = (point, None);
        return vec![Shown { at, call, inside }];
    }
    let calls = calls_from_program(code, point.instance);
    if calls.is_empty() {
        let (call, inside) = (point, None);
        return vec![Shown { at, call, inside }];
    }
    let shown = calls.into_iter().map(|(outside, call)| Shown {
        at: outside,
        call,
        inside: Some(at.clone()),
    });
    shown.collect()
}

/// The first of the places at which an instruction is shown.
#[must_use]
pub fn outside(code: &Code, point: Point) -> SourcePlace {
    shown(code, point).swap_remove(0).at
}

/// The calls in the program's own files that lead to an instance of a header; none if there are too many.
#[must_use]
pub fn calls_from_program(code: &Code, instance: InstanceId) -> Vec<(SourcePlace, Point)> {
    let mut found: BTreeMap<SourcePlace, Point> = BTreeMap::new();
    let mut seen = vec![instance];
    let mut at = 0;
    while at < seen.len() {
        for &call in &code.points_to.instances.get(seen[at]).callers {
            let outside = source(code, call);
            if !is_of_the_system(&outside.file) {
                found.entry(outside).or_insert(call);
            } else if !seen.contains(&call.instance) {
                seen.push(call.instance);
            }
            if found.len() > MOST_SHOWN || seen.len() > 64 * MOST_SHOWN {
                return Vec::new();
            }
        }
        at += 1;
    }
    found.into_iter().collect()
}

/// The calls that lead to an instance, outermost first; of several callers the first one.
#[must_use]
pub fn chain(code: &Code, instance: InstanceId) -> Vec<SourcePlace> {
    let mut calls = Vec::new();
    let mut seen = vec![instance];
    let mut at = instance;
    while let Some(&call) = code.points_to.instances.get(at).callers.first() {
        if seen.contains(&call.instance) {
            break;
        }
        calls.push(source(code, call));
        seen.push(call.instance);
        at = call.instance;
    }
    calls.reverse();
    if calls.len() > LONGEST_CHAIN {
        calls.drain(LONGEST_CHAIN / 2..calls.len() - LONGEST_CHAIN / 2);
    }
    calls
}

/// The name of a place in an object, as the source would write it.
#[must_use]
pub fn location(code: &Code, at: Location) -> String {
    object(code, at.object, at.offset)
}

fn object(code: &Code, object: ObjectId, offset: u64) -> String {
    let program = code.program;
    match code.points_to.objects.origin(object) {
        Origin::Global(global) | Origin::Local(_, global) => {
            let global = program.global(global);
            let name = global.source_name.as_ref().unwrap_or(&global.name).clone();
            match global.debug_type {
                Some(r#type) => format!("{name}{}", field(code, r#type, offset * 8, 0)),
                None => name,
            }
        }
        Origin::Function(function) => program.function(function).name.clone(),
        Origin::Stack(instance, instruction) => {
            let function = code.function(instance);
            let variable = variable(&function.variables, Operand::Result(instruction));
            match variable {
                Some(variable) => {
                    let path = variable
                        .r#type
                        .map_or_else(String::new, |at| field(code, at, offset * 8, 0));
                    format!("{}{path} of {}", variable.name, function.name)
                }
                None => format!("a local variable of {}", function.name),
            }
        }
        Origin::Heap(instance, instruction) => {
            let at = outside(
                code,
                Point {
                    instance,
                    instruction,
                },
            );
            let path = record_of(code, object)
                .map_or_else(String::new, |at| field(code, at, offset * 8, 0));
            let file = at.file.rsplit('/').next().unwrap_or(&at.file);
            let base = format!("the block allocated at {file}:{}", at.line);
            if path.is_empty() {
                base
            } else {
                format!("{} in {base}", &path[1..])
            }
        }
        Origin::Any(r#type) => match program.types.get(r#type) {
            Type::Struct {
                name: Some(name), ..
            } => format!("any {}", name.replacen('.', " ", 1)),
            _ => "any structure".to_owned(),
        },
        Origin::Thread(_) => "a thread".to_owned(),
        Origin::Channel(..) => "a pipe".to_owned(),
        Origin::Queues => "a message queue".to_owned(),
        Origin::Hidden(Hidden::Environment) => "the environment".to_owned(),
        Origin::Hidden(Hidden::Calendar) => "the result of localtime and its like".to_owned(),
        Origin::Hidden(Hidden::Token) => "the position of strtok".to_owned(),
    }
}

fn variable(variables: &[Variable], value: Operand) -> Option<&Variable> {
    variables.iter().find(|variable| variable.value == value)
}

/// The source's type of allocated memory, found by the name of its structure.
fn record_of(code: &Code, object: ObjectId) -> Option<DebugTypeId> {
    let r#type = code.points_to.objects.r#type(object)?;
    let Type::Struct {
        name: Some(name), ..
    } = code.program.types.get(r#type)
    else {
        return None;
    };
    let wanted = name.split_once('.').map_or(name.as_str(), |(_, name)| name);
    let types = code.program.debug_types.iter();
    let found = types.into_iter().position(|debug| match debug {
        DebugType::Record {
            name: Some(name),
            fields,
        } => name == wanted && !fields.is_empty(),
        _ => false,
    });
    found.map(DebugTypeId::from_index)
}

/// The path to the field at an offset in bits, with a dot before every name.
fn field(code: &Code, r#type: DebugTypeId, offset: u64, depth: u32) -> String {
    if depth > 16 {
        return String::new();
    }
    match code.program.debug_type(r#type) {
        DebugType::Alias {
            target: Some(target),
            name,
        } => match name.as_deref().is_some_and(is_opaque) {
            true => String::new(),
            false => field(code, *target, offset, depth + 1),
        },
        DebugType::Array(element) => format!("[]{}", field(code, *element, offset, depth + 1)),
        DebugType::Record { name, fields } => {
            if name.as_deref().is_some_and(is_opaque) {
                return String::new();
            }
            let inside = fields
                .iter()
                .find(|field| offset >= field.offset && offset < field.offset + field.size.max(1));
            let Some(inside) = inside else {
                return String::new();
            };
            let rest = inside.r#type.map_or_else(String::new, |at| {
                field(code, at, offset - inside.offset, depth + 1)
            });
            match inside.name.as_str() {
                "" => rest,
                name => format!(".{name}{rest}"),
            }
        }
        _ => String::new(),
    }
}

/// Types of POSIX threads and the C++ library whose inside says nothing to the reader.
fn is_opaque(name: &str) -> bool {
    name.starts_with("pthread_")
        || matches!(
            name,
            "sem_t"
                | "mutex"
                | "recursive_mutex"
                | "shared_mutex"
                | "condition_variable"
                | "mtx_t"
                | "cnd_t"
        )
}

/// The name of what a symbol stands for.
#[must_use]
pub fn symbol(code: &Code, symbols: &Symbols, symbol: Symbol) -> String {
    let offset = |text: String| match symbol.offset {
        0 => text,
        bytes => format!("{text}+{bytes}"),
    };
    match symbols.root(symbol.root) {
        Root::Object(id) => object(code, id, u64::try_from(symbol.offset).unwrap_or(0)),
        Root::Parameter(instance, number) => {
            let function = code.function(instance);
            let value = Operand::Parameter(number);
            match variable(&function.variables, value) {
                Some(variable) => pointed(code, variable, symbol.offset),
                None => offset(format!("parameter {} of {}", number + 1, function.name)),
            }
        }
        Root::Loaded(address) => {
            let name = self::symbol(code, symbols, address);
            offset(format!("*{name}"))
        }
        Root::Element(base, ..) => offset(format!("{}[]", self::symbol(code, symbols, base))),
        Root::Value(instance, instruction) => {
            let function = code.function(instance);
            match variable(&function.variables, Operand::Result(instruction)) {
                Some(variable) => pointed(code, variable, symbol.offset),
                None => offset(format!("a value of {}", function.name)),
            }
        }
        Root::Number => format!("address {}", symbol.offset),
    }
}

/// `name->field`, for a variable that points to a structure.
fn pointed(code: &Code, variable: &Variable, offset: i64) -> String {
    let mut r#type = variable.r#type;
    for _ in 0..8 {
        match r#type.map(|at| code.program.debug_type(at)) {
            Some(DebugType::Alias { target, .. }) => r#type = *target,
            Some(DebugType::Pointer(Some(target))) => {
                let bits = u64::try_from(offset).unwrap_or(0) * 8;
                let path = field(code, *target, bits, 0);
                return match path.strip_prefix('.') {
                    Some(path) => format!("{}->{path}", variable.name),
                    None => variable.name.clone(),
                };
            }
            _ => break,
        }
    }
    variable.name.clone()
}
