//! The type table of a module.

use super::Fault;
use super::record::{Fields, string};
use super::stream::{Item, Record, Stream};
use crate::types::{Type, TypeId, Types};

/// The module's types by their number.
#[derive(Default)]
pub(super) struct TypeTable {
    ids: Vec<TypeId>,
}

/// The names of types that have no values in memory.
pub(super) const LABEL: &str = "llvm label";
pub(super) const METADATA: &str = "llvm metadata";

/// A record of the table, before the types that it refers to are known.
enum Raw {
    Ready(Type),
    Array(u64, u64),
    Vector(u64, u64),
    Struct {
        name: Option<String>,
        fields: Vec<u64>,
        is_packed: bool,
    },
    Function {
        result: u64,
        parameters: Vec<u64>,
        is_variadic: bool,
    },
}

impl TypeTable {
    pub(super) fn get(&self, number: u64) -> Result<TypeId, Fault> {
        usize::try_from(number)
            .ok()
            .and_then(|number| self.ids.get(number).copied())
            .ok_or(Fault::Malformed("a type is not in the table"))
    }

    /// Reads the block that `stream` has just entered.
    pub(super) fn read<'a>(
        stream: &mut Stream<'a>,
        record: &mut Record<'a>,
        types: &mut Types,
        mut unknown: impl FnMut(u64),
    ) -> Result<Self, Fault> {
        let mut raw = Vec::new();
        let mut name = None;
        loop {
            match stream.next(record)? {
                Item::End => break,
                Item::Block(_) => stream.skip()?,
                Item::Record => raw.extend(read_type(record, &mut name, &mut unknown)?),
            }
        }
        resolve(&raw, types)
    }
}

fn read_type(
    record: &Record<'_>,
    name: &mut Option<String>,
    unknown: &mut impl FnMut(u64),
) -> Result<Option<Raw>, Fault> {
    let mut fields = Fields::new(&record.fields);
    let simple = |r#type| Ok(Some(Raw::Ready(r#type)));
    let opaque = |name: &str| simple(Type::Opaque(Some(name.to_owned())));
    match record.code {
        1 => Ok(None), // NUMENTRY, a hint
        2 => simple(Type::Void),
        3 => simple(Type::Float(32)),
        4 => simple(Type::Float(64)),
        5 => opaque(LABEL),
        6 => simple(Type::Opaque(name.take())),
        7 => match fields.take_u32()? {
            bits @ 1..=0x80_0000 => simple(Type::Integer(bits)),
            _ => Err(Fault::Malformed("an integer has an impossible width")),
        },
        // A typed pointer, up to clang 14, and one of any type.
        8 | 25 => simple(Type::Pointer),
        10 | 23 => simple(Type::Float(16)),
        11 => Ok(Some(Raw::Array(fields.take()?, fields.take()?))),
        12 => Ok(Some(Raw::Vector(fields.take()?, fields.take()?))),
        13 => simple(Type::Float(80)),
        14 | 15 => simple(Type::Float(128)),
        16 => opaque(METADATA),
        17 => simple(Type::Integer(64)), // x86_mmx
        18 | 20 => Ok(Some(Raw::Struct {
            is_packed: fields.take()? != 0,
            fields: fields.rest().to_vec(),
            name: name.take().filter(|_| record.code == 20),
        })),
        19 => {
            *name = Some(string(&record.fields));
            Ok(None)
        }
        21 => Ok(Some(Raw::Function {
            is_variadic: fields.take()? != 0,
            result: fields.take()?,
            parameters: fields.rest().to_vec(),
        })),
        22 => opaque("llvm token"),
        24 => opaque("llvm x86_amx"),
        26 => simple(Type::Opaque(name.take())),
        code => {
            unknown(code);
            opaque("unknown")
        }
    }
}

/// Adds the types to the program. A structure of clang 14 may contain one that comes after it.
fn resolve(raw: &[Raw], types: &mut Types) -> Result<TypeTable, Fault> {
    /// Keeps a later recursion over a type from running out of stack.
    const MAX_NESTING: u32 = 200;
    let index = |number: u64| {
        usize::try_from(number)
            .ok()
            .filter(|&number| number < raw.len())
            .ok_or(Fault::Malformed("a type is not in the table"))
    };
    let mut ids: Vec<Option<(TypeId, u32)>> = vec![None; raw.len()];
    // What is left to resolve; a type whose parts were put here before it is marked as entered.
    let mut open: Vec<usize> = Vec::new();
    let mut entered = vec![false; raw.len()];
    for first in 0..raw.len() {
        open.push(first);
        while let Some(&current) = open.last() {
            if ids[current].is_some() {
                open.pop();
                continue;
            }
            let mut missing = Vec::new();
            let mut nesting = 0;
            let mut part = |number: u64| -> Result<TypeId, Fault> {
                let number = index(number)?;
                Ok(match ids[number] {
                    Some((id, depth)) => {
                        nesting = nesting.max(depth + 1);
                        id
                    }
                    None => {
                        missing.push(number);
                        TypeId::from_index(0)
                    }
                })
            };
            let mut parts = |numbers: &[u64]| -> Result<Vec<TypeId>, Fault> {
                numbers.iter().map(|&number| part(number)).collect()
            };
            let resolved = match &raw[current] {
                Raw::Ready(r#type) => r#type.clone(),
                Raw::Array(count, element) => Type::Array {
                    element: part(*element)?,
                    count: *count,
                },
                Raw::Vector(count, element) => Type::Vector {
                    element: part(*element)?,
                    count: *count,
                },
                Raw::Struct {
                    name,
                    fields,
                    is_packed,
                } => Type::Struct {
                    name: name.clone(),
                    fields: parts(fields)?,
                    is_packed: *is_packed,
                },
                Raw::Function {
                    result,
                    parameters,
                    is_variadic,
                } => Type::Function {
                    parameters: parts(parameters)?,
                    result: part(*result)?,
                    is_variadic: *is_variadic,
                },
            };
            if nesting > MAX_NESTING {
                return Err(Fault::Malformed("types are nested too deeply"));
            }
            if missing.is_empty() {
                ids[current] = Some((types.add(resolved), nesting));
            } else if std::mem::replace(&mut entered[current], true) {
                return Err(Fault::Malformed("a type contains itself"));
            } else {
                open.append(&mut missing);
            }
        }
    }
    let ids = ids.into_iter().flatten().map(|(id, _)| id).collect();
    Ok(TypeTable { ids })
}
