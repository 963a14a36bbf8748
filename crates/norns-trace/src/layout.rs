//! The layout of global variables: which field or element lies at an address.
//!
//! Read from DWARF: every variable with a fixed address, and the types that it consists of. A name
//! ends where the program's own words end: at a union (one cannot tell which member is meant), at
//! bit-fields, and at members with reserved names, so that a `std::mutex` is not `m._M_mutex`.
//! Types in separate type units or in another compilation unit are not followed: such a variable
//! has its own name only.

use std::fs;
use std::path::Path;

use addr2line::gimli;
use gimli::{AttributeValue, DebuggingInformationEntry, EndianSlice, LittleEndian, Operation};
use object::{Object as _, ObjectSection as _};
use rustc_hash::FxHashMap;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;
type Unit<'a> = gimli::Unit<Slice<'a>>;

/// Larger debug information is left alone: reading it would take longer than a recording.
const MOST_BYTES: usize = 256 << 20;
/// Types nest no deeper than this in what people write.
const DEEPEST: usize = 32;
/// Elements of larger arrays are not told apart where every part of memory gets a name.
const MOST_ELEMENTS: u64 = 64;

/// How far an array is taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrays {
    /// To the element, whatever it is: for the name of one object.
    Elements,
    /// Only small arrays of structures: for names of all memory that a program touches.
    Small,
}

/// A part of a variable, from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub offset: u64,
    pub size: u64,
}

/// One step from a variable to a part of it.
pub enum Step<'a> {
    Field(&'a str),
    Element(u64),
}

#[derive(Default)]
pub struct Layouts {
    /// By address in the file: the type.
    variables: FxHashMap<u64, usize>,
    types: Vec<Type>,
}

enum Type {
    /// Something without parts that have names.
    Plain { size: u64 },
    /// Members sorted by offset.
    Structure { size: u64, members: Vec<Member> },
    Array {
        size: u64,
        stride: u64,
        element: usize,
    },
}

struct Member {
    /// Empty for a base class, an anonymous structure, and what must not be named.
    name: String,
    offset: u64,
    of: usize,
    /// Whether the parts of the member have names as well.
    is_open: bool,
}

impl Layouts {
    /// The layouts of a module's variables; none without debug information that can be read.
    pub fn read(path: &Path) -> Layouts {
        let mut layouts = Layouts::default();
        let Ok(content) = fs::read(path) else {
            return layouts;
        };
        if let Ok(file) = object::File::parse(&*content) {
            // A damaged unit ends the reading: the variables before it are known.
            let _ = layouts.add(&file);
        }
        layouts
    }

    fn add<'a>(&mut self, file: &object::File<'a>) -> gimli::Result<()> {
        let section = |id: gimli::SectionId| -> gimli::Result<Slice<'a>> {
            let section = file.section_by_name(id.name());
            let data = section.and_then(|section| section.data().ok());
            Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section)?;
        let mut headers = dwarf.units();
        let mut read = 0;
        while let Some(header) = headers.next()? {
            read += header.length_including_self();
            if read > MOST_BYTES {
                break;
            }
            let unit = dwarf.unit(header)?;
            Reading {
                dwarf: &dwarf,
                unit: &unit,
                known: FxHashMap::default(),
                layouts: self,
            }
            .variables()?;
        }
        Ok(())
    }

    /// The part at `offset` of the variable that begins at this address of the file, with the steps
    /// that lead to it. `None` if nothing is known of the variable.
    pub fn part(
        &self,
        variable: u64,
        offset: u64,
        arrays: Arrays,
        mut step: impl FnMut(Step),
    ) -> Option<Part> {
        let mut at = *self.variables.get(&variable)?;
        let mut begin = 0;
        for _ in 0..DEEPEST {
            let within = offset - begin;
            let size = self.size(at);
            if within >= size {
                // Behind the type of a variable that is larger, such as one with a flexible array.
                return Some(Part {
                    offset: begin + size,
                    size: u64::MAX - begin - size,
                });
            }
            let whole = Part {
                offset: begin,
                size,
            };
            match &self.types[at] {
                Type::Plain { .. } => return Some(whole),
                Type::Array {
                    stride, element, ..
                } => {
                    let is_small = size / stride <= MOST_ELEMENTS
                        && matches!(self.types[*element], Type::Structure { .. });
                    if arrays == Arrays::Small && !is_small {
                        return Some(whole);
                    }
                    let index = within / stride;
                    step(Step::Element(index));
                    begin += index * stride;
                    at = *element;
                }
                Type::Structure { members, .. } => {
                    let after = members.partition_point(|member| member.offset <= within);
                    let next = members.get(after).map_or(size, |member| member.offset);
                    let last = members[..after].last();
                    let ends = last.map_or(0, |member| member.offset + self.size(member.of));
                    let ends = ends.min(next);
                    let Some(member) = last.filter(|_| within < ends) else {
                        // Padding, or bit-fields.
                        return Some(Part {
                            offset: begin + ends,
                            size: next - ends,
                        });
                    };
                    if !member.name.is_empty() {
                        step(Step::Field(&member.name));
                    }
                    begin += member.offset;
                    if !member.is_open {
                        return Some(Part {
                            offset: begin,
                            size: ends - member.offset,
                        });
                    }
                    at = member.of;
                }
            }
        }
        None
    }

    fn size(&self, of: usize) -> u64 {
        match self.types[of] {
            Type::Plain { size } | Type::Structure { size, .. } | Type::Array { size, .. } => size,
        }
    }

    fn push(&mut self, one: Type) -> usize {
        self.types.push(one);
        self.types.len() - 1
    }
}

/// One compilation unit while it is read.
struct Reading<'r, 'a> {
    dwarf: &'r gimli::Dwarf<Slice<'a>>,
    unit: &'r Unit<'a>,
    /// By offset in the unit.
    known: FxHashMap<usize, usize>,
    layouts: &'r mut Layouts,
}

impl<'a> Reading<'_, 'a> {
    fn variables(&mut self) -> gimli::Result<()> {
        let mut entries = self.unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            if entry.tag() != gimli::DW_TAG_variable {
                continue;
            }
            if let Some(address) = self.address(entry)?
                && let Some(of) = self.type_of(entry, 0)?
            {
                self.layouts.variables.entry(address).or_insert(of);
            }
        }
        Ok(())
    }

    /// Where a variable with a fixed address is.
    fn address(&self, entry: &Entry<'a>) -> gimli::Result<Option<u64>> {
        let location = entry.attr(gimli::DW_AT_location);
        let Some(location) = location.and_then(|location| location.exprloc_value()) else {
            return Ok(None);
        };
        let mut operations = location.operations(self.unit.encoding());
        let address = match operations.next()? {
            Some(Operation::Address { address }) => address,
            Some(Operation::AddressIndex { index }) => self.dwarf.address(self.unit, index)?,
            _ => return Ok(None),
        };
        Ok(operations.next()?.is_none().then_some(address))
    }

    fn referred(&self, entry: &Entry<'a>, by: gimli::DwAt) -> gimli::Result<Option<Entry<'a>>> {
        match entry.attr_value(by) {
            Some(AttributeValue::UnitRef(offset)) => Ok(Some(self.unit.entry(offset)?)),
            _ => Ok(None),
        }
    }

    /// The type of a variable, a member or an array's elements.
    fn type_of(&mut self, entry: &Entry<'a>, depth: usize) -> gimli::Result<Option<usize>> {
        if let Some(of) = self.referred(entry, gimli::DW_AT_type)? {
            return self.read_type(of, depth);
        }
        // A variable of a class or a namespace may have its type where it is declared.
        for by in [gimli::DW_AT_specification, gimli::DW_AT_abstract_origin] {
            if let Some(declared) = self.referred(entry, by)?
                && let Some(of) = self.referred(&declared, gimli::DW_AT_type)?
            {
                return self.read_type(of, depth);
            }
        }
        Ok(None)
    }

    fn read_type(&mut self, mut of: Entry<'a>, depth: usize) -> gimli::Result<Option<usize>> {
        for _ in 0..DEEPEST {
            let is_other_name = matches!(
                of.tag(),
                gimli::DW_TAG_typedef
                    | gimli::DW_TAG_const_type
                    | gimli::DW_TAG_volatile_type
                    | gimli::DW_TAG_atomic_type
            );
            if !is_other_name {
                break;
            }
            match self.referred(&of, gimli::DW_AT_type)? {
                Some(next) => of = next,
                None => return Ok(None),
            }
        }
        let offset = of.offset().0;
        if let Some(&known) = self.known.get(&offset) {
            return Ok(Some(known));
        }
        if depth == DEEPEST {
            return Ok(None);
        }
        let bytes = of.attr(gimli::DW_AT_byte_size);
        let bytes = bytes.and_then(|bytes| bytes.udata_value());
        let read = match of.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => match bytes {
                Some(size) => Some(Type::Structure {
                    size,
                    members: self.members(&of, depth)?,
                }),
                None => None,
            },
            gimli::DW_TAG_array_type => self.array(&of, depth)?,
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => Some(Type::Plain {
                size: bytes.unwrap_or(u64::from(self.unit.encoding().address_size)),
            }),
            _ => bytes.map(|size| Type::Plain { size }),
        };
        let Some(read) = read else { return Ok(None) };
        let number = self.layouts.push(read);
        self.known.insert(offset, number);
        Ok(Some(number))
    }

    fn members(&mut self, of: &Entry<'a>, depth: usize) -> gimli::Result<Vec<Member>> {
        let mut members = Vec::new();
        let mut tree = self.unit.entries_tree(Some(of.offset()))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let is_base = entry.tag() == gimli::DW_TAG_inheritance;
            if !is_base && entry.tag() != gimli::DW_TAG_member {
                continue;
            }
            let number = |of| {
                let value = entry.attr(of);
                value.and_then(|value| value.udata_value())
            };
            // A static member has no place here, and a virtual base none that is fixed.
            let declared = entry.attr(gimli::DW_AT_declaration).is_some()
                || entry.attr(gimli::DW_AT_external).is_some();
            let is_bit_field = number(gimli::DW_AT_bit_size).is_some();
            let offset = match entry.attr(gimli::DW_AT_data_member_location) {
                Some(place) => place.udata_value(),
                None => Some(0),
            };
            let (Some(offset), false) = (offset, declared || is_bit_field) else {
                continue;
            };
            let name = match entry.attr_value(gimli::DW_AT_name) {
                Some(name) => self.dwarf.attr_string(self.unit, name)?.to_string_lossy(),
                None => "".into(),
            };
            let reserved = ["__", "_M_", "_vptr"];
            let is_reserved = reserved.iter().any(|begin| name.starts_with(begin));
            if let Some(of) = self.type_of(entry, depth + 1)? {
                members.push(Member {
                    name: if is_reserved {
                        String::new()
                    } else {
                        name.into_owned()
                    },
                    offset,
                    of,
                    is_open: !is_reserved,
                });
            }
        }
        members.sort_by_key(|member| member.offset);
        Ok(members)
    }

    fn array(&mut self, of: &Entry<'a>, depth: usize) -> gimli::Result<Option<Type>> {
        let Some(element) = self.type_of(of, depth + 1)? else {
            return Ok(None);
        };
        let mut counts = Vec::new();
        let mut tree = self.unit.entries_tree(Some(of.offset()))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let number = |of| {
                let value = child.entry().attr(of);
                value.and_then(|value| value.udata_value())
            };
            if child.entry().tag() == gimli::DW_TAG_subrange_type {
                let last = number(gimli::DW_AT_upper_bound);
                let count = number(gimli::DW_AT_count);
                counts.push(count.or(last.and_then(|last| last.checked_add(1))));
            }
        }
        let mut array = None;
        // The last dimension varies fastest.
        let mut element = element;
        for count in counts.into_iter().rev() {
            if let Some(inner) = array.take() {
                element = self.layouts.push(inner);
            }
            let stride = self.layouts.size(element);
            let size = count.and_then(|count| count.checked_mul(stride));
            let Some(size) = size.filter(|_| stride > 0) else {
                return Ok(None);
            };
            array = Some(Type::Array {
                size,
                stride,
                element,
            });
        }
        Ok(array)
    }
}
