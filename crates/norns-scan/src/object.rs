//! Abstract objects and the places in them.
//!
//! An object stands for everything that one variable or one allocation site makes. Fields are told apart by
//! their offset in bytes; the elements of an array are one. The layout of a variable is that of its type, the
//! layout of allocated memory that of the largest structure that the program finds at its start. A pointer that
//! is moved by a number which is not constant stays in its array or field, as if it never left it.

use norns_ir::{FunctionId, GlobalId, InstructionId, Program, Type, TypeId, id};
use rustc_hash::FxHashMap;

use crate::external::Hidden;
use crate::instance::{InstanceId, ThreadId};

id! {
    /// An abstract object.
    ObjectId
}
id! {
    /// A place in an abstract object.
    LocationId
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    Global(GlobalId),
    /// A thread-local variable as the functions see it that only this thread runs.
    Local(ThreadId, GlobalId),
    Function(FunctionId),
    /// A stack slot.
    Stack(InstanceId, InstructionId),
    /// The result of an allocation, or of a call that gives out memory of the C library.
    Heap(InstanceId, InstructionId),
    /// The name of a thread, as `pthread_create` gives it out.
    Thread(ThreadId),
    /// The connection behind the descriptors of one `pipe` or `socketpair`.
    Channel(InstanceId, InstructionId),
    /// All message queues with names.
    Queues,
    /// Memory of the C library.
    Hidden(Hidden),
    /// All structures of a type, for pointers that could point to almost anything.
    Any(TypeId),
}

#[derive(Clone, Debug)]
pub struct Object {
    pub origin: Origin,
    layout: Layout,
    /// A structure that the program keeps in an array of bytes of a variable: where the array begins, and what
    /// is kept there.
    storage: Option<(u64, TypeId)>,
    /// Every place that was named so far, by offset.
    places: FxHashMap<u64, LocationId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// One value of this type.
    One(TypeId),
    /// Values of this type, one after the other.
    Many(TypeId),
    /// Nothing is known yet: offsets as they come.
    Unknown,
    /// Elements of this many bytes of which nothing more is known.
    Stride(u64),
    /// One place.
    Collapsed,
    /// Every offset is a place of its own: a table of virtual functions.
    Table,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    pub object: ObjectId,
    pub offset: u64,
}

/// An object with more places than this is one place.
const MOST_PLACES: usize = 48;
const MOST_TYPED_PLACES: usize = 256;

/// Two places that turned out to be the same.
pub type Merge = (LocationId, LocationId);

#[derive(Clone, Debug, Default)]
pub struct Objects {
    objects: Vec<Object>,
    by_origin: FxHashMap<Origin, ObjectId>,
    locations: Vec<Location>,
    /// After the last place was named: what stands for each, and whether it is an element of an array.
    finished: Vec<(Location, bool)>,
}

impl Objects {
    /// The object of an origin; `r#type` is what it is declared as.
    pub fn object(&mut self, origin: Origin, r#type: Option<TypeId>) -> ObjectId {
        let next = ObjectId::from_index(self.objects.len());
        let id = *self.by_origin.entry(origin).or_insert(next);
        if id == next {
            self.objects.push(Object {
                origin,
                layout: r#type.map_or(Layout::Unknown, Layout::One),
                storage: None,
                places: FxHashMap::default(),
            });
        }
        id
    }

    /// The object of a global variable.
    pub fn global(&mut self, program: &Program, id: GlobalId) -> ObjectId {
        let global = program.global(id);
        let object = self.object(Origin::Global(id), Some(global.r#type));
        let is_table = ["_ZTV", "_ZTC", "_ZTT"]
            .iter()
            .any(|prefix| global.name.starts_with(prefix));
        if is_table {
            self.objects[object.index()].layout = Layout::Table;
        }
        object
    }

    /// Whether every offset of an object is a place of its own.
    #[must_use]
    pub fn is_table(&self, object: ObjectId) -> bool {
        self.objects[object.index()].layout == Layout::Table
    }

    #[must_use]
    pub fn known(&self, origin: Origin) -> Option<ObjectId> {
        self.by_origin.get(&origin).copied()
    }

    #[must_use]
    pub fn origin(&self, id: ObjectId) -> Origin {
        self.objects[id.index()].origin
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    #[must_use]
    pub fn location(&self, id: LocationId) -> Location {
        self.locations[id.index()]
    }

    #[must_use]
    pub fn location_count(&self) -> usize {
        self.locations.len()
    }

    /// The place that was named at an offset.
    #[must_use]
    pub fn known_at(&self, location: Location) -> Option<LocationId> {
        let places = &self.objects[location.object.index()].places;
        places.get(&location.offset).copied()
    }

    /// The known places of an object, by offset.
    #[must_use]
    pub fn places(&self, object: ObjectId) -> Vec<(u64, LocationId)> {
        let places = &self.objects[object.index()].places;
        let mut places: Vec<_> = places.iter().map(|(&at, &id)| (at, id)).collect();
        places.sort_unstable();
        places
    }

    /// Says that no more places are named, so that what is known of them can be kept.
    pub fn finish(&mut self, program: &Program) {
        let finished = self.locations.iter().map(|&at| {
            let start = i64::try_from(at.offset).unwrap_or(0);
            let normal = self.normal(program, at.object, start);
            let normal = Location {
                object: at.object,
                offset: normal.unwrap_or(at.offset),
            };
            (normal, self.find_element(program, normal))
        });
        self.finished = finished.collect();
    }

    /// The place that stands for this one after `finish`.
    #[must_use]
    pub fn finished(&self, id: LocationId) -> Location {
        self.finished
            .get(id.index())
            .map_or_else(|| self.location(id), |&(normal, _)| normal)
    }

    /// The place at an offset, which may lie in any element of an array.
    pub fn at(&mut self, program: &Program, object: ObjectId, offset: i64) -> Option<LocationId> {
        let known = u64::try_from(offset).ok();
        let known = known.and_then(|offset| self.objects[object.index()].places.get(&offset));
        match known {
            Some(&known) => Some(known),
            None => self.normal_at(program, object, offset),
        }
    }

    fn normal_at(
        &mut self,
        program: &Program,
        object: ObjectId,
        offset: i64,
    ) -> Option<LocationId> {
        let offset = self.normal(program, object, offset)?;
        let next = LocationId::from_index(self.locations.len());
        let id = *self.objects[object.index()]
            .places
            .entry(offset)
            .or_insert(next);
        if id == next {
            self.locations.push(Location { object, offset });
        }
        Some(id)
    }

    /// Gives up on the fields of an object of which ever more places are named: a pointer that runs through it.
    pub fn limit_places(&mut self, program: &Program, object: ObjectId) -> Vec<Merge> {
        let Object { layout, places, .. } = &self.objects[object.index()];
        let is_typed = matches!(layout, Layout::One(_) | Layout::Many(_));
        let most = if is_typed {
            MOST_TYPED_PLACES
        } else {
            MOST_PLACES
        };
        if places.len() <= most || matches!(layout, Layout::Collapsed | Layout::Table) {
            return Vec::new();
        }
        self.set_layout(program, object, Layout::Collapsed)
    }

    /// The offset that stands for a place after all that was learned of the object's layout.
    #[must_use]
    pub fn normal(&self, program: &Program, object: ObjectId, offset: i64) -> Option<u64> {
        let Object {
            layout, storage, ..
        } = self.objects[object.index()];
        let size = match layout {
            Layout::Many(r#type) => program.types.size(r#type),
            Layout::Stride(bytes) => bytes,
            Layout::Collapsed => return Some(0),
            Layout::One(_) | Layout::Unknown | Layout::Table => 0,
        };
        let offset = match (size, u64::try_from(offset)) {
            (0, Ok(offset)) => offset,
            (0, Err(_)) => return None,
            (size, _) => {
                let size = i64::try_from(size).ok()?;
                u64::try_from(offset.rem_euclid(size)).ok()?
            }
        };
        Some(match layout {
            Layout::One(r#type) | Layout::Many(r#type) => {
                let size = program.types.size(r#type);
                if size > 0 && offset >= size {
                    return None;
                }
                within(program, r#type, storage, offset).0
            }
            Layout::Unknown | Layout::Stride(_) | Layout::Collapsed | Layout::Table => offset,
        })
    }

    /// Whether the place is one of several elements of an array, so that two accesses of it may be apart.
    #[must_use]
    pub fn is_element(&self, program: &Program, location: Location) -> bool {
        let places = &self.objects[location.object.index()].places;
        let known = places.get(&location.offset);
        match known.and_then(|id| self.finished.get(id.index())) {
            Some(&(normal, is_element)) if normal == location => is_element,
            _ => self.find_element(program, location),
        }
    }

    fn find_element(&self, program: &Program, location: Location) -> bool {
        match self.objects[location.object.index()].layout {
            Layout::One(r#type) => {
                let storage = self.objects[location.object.index()].storage;
                let (_, arrays) = within(program, r#type, storage, location.offset);
                !arrays.is_empty()
            }
            Layout::Many(_) | Layout::Stride(_) | Layout::Collapsed => true,
            Layout::Unknown | Layout::Table => false,
        }
    }

    /// The type in which the fields of an object are named, if it is known.
    #[must_use]
    pub fn r#type(&self, object: ObjectId) -> Option<TypeId> {
        match self.objects[object.index()].layout {
            Layout::One(r#type) | Layout::Many(r#type) => Some(r#type),
            _ => None,
        }
    }

    /// Learns that a structure is read at the start of allocated memory.
    pub fn read_as(&mut self, program: &Program, object: ObjectId, r#type: TypeId) -> Vec<Merge> {
        let size = program.types.size(r#type);
        let is_struct = matches!(program.types.get(r#type), Type::Struct { .. });
        let is_better = match self.objects[object.index()].layout {
            Layout::Unknown | Layout::Stride(_) => true,
            Layout::Many(old) => program.types.size(old) < size,
            Layout::One(_) | Layout::Collapsed | Layout::Table => false,
        };
        if !is_struct || !is_better || size == 0 {
            return Vec::new();
        }
        self.set_layout(program, object, Layout::Many(r#type))
    }

    /// Learns that an allocated block is exactly one value of this type.
    pub fn is_one(&mut self, program: &Program, object: ObjectId, r#type: TypeId) -> Vec<Merge> {
        match self.objects[object.index()].layout {
            Layout::Unknown => self.set_layout(program, object, Layout::One(r#type)),
            _ => Vec::new(),
        }
    }

    /// Learns that the program keeps a structure in an array of bytes of a variable.
    pub fn stored_in_bytes(
        &mut self,
        program: &Program,
        at: Location,
        r#type: TypeId,
    ) -> Vec<Merge> {
        let Object {
            layout, storage, ..
        } = self.objects[at.object.index()];
        let Layout::One(declared) = layout else {
            return Vec::new();
        };
        let size = program.types.size(r#type);
        let is_larger =
            storage.is_none_or(|(start, old)| start == at.offset && program.types.size(old) < size);
        let is_struct = matches!(program.types.get(r#type), Type::Struct { .. });
        let has_room = bytes_at(program, declared, at.offset).is_some_and(|bytes| size <= bytes);
        if !is_struct || !is_larger || !has_room {
            return Vec::new();
        }
        self.objects[at.object.index()].storage = Some((at.offset, r#type));
        self.set_layout(program, at.object, layout)
    }

    /// Learns that the address of a place is moved by a multiple of `stride` that is not known.
    pub fn stepped(&mut self, program: &Program, at: LocationId, stride: u64) -> Vec<Merge> {
        let Location { object, .. } = self.location(at);
        let new = match self.objects[object.index()].layout {
            // A step that fits no array stays in its field.
            Layout::Collapsed | Layout::One(_) | Layout::Many(_) | Layout::Table => {
                return Vec::new();
            }
            _ if stride == 0 => return Vec::new(),
            Layout::Unknown => Layout::Stride(stride),
            Layout::Stride(old) if stride.is_multiple_of(old) => return Vec::new(),
            Layout::Stride(old) => Layout::Stride(divisor(old, stride)),
        };
        self.set_layout(program, object, new)
    }

    fn set_layout(&mut self, program: &Program, object: ObjectId, layout: Layout) -> Vec<Merge> {
        self.objects[object.index()].layout = layout;
        let mut merges = Vec::new();
        for (offset, id) in self.places(object) {
            let offset = i64::try_from(offset).unwrap_or(0);
            if let Some(new) = self.normal_at(program, object, offset)
                && new != id
            {
                merges.push((id, new));
            }
        }
        merges
    }
}

fn divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The offset with all array indices set to 0, and the sizes of the elements of the arrays around it.
///
/// An array of bytes in which the program keeps a structure is that structure.
fn within(
    program: &Program,
    mut r#type: TypeId,
    mut storage: Option<(u64, TypeId)>,
    mut offset: u64,
) -> (u64, Vec<u64>) {
    let types = &program.types;
    let mut base = 0;
    let mut arrays = Vec::new();
    loop {
        match types.get(r#type) {
            Type::Array { element, .. } | Type::Vector { element, .. } => {
                let size = types.size(*element);
                if size == 0 {
                    return (base, arrays);
                }
                if let Some((start, kept)) = storage
                    && (start, size) == (base, 1)
                    && arrays.is_empty()
                    && offset < types.size(kept)
                {
                    r#type = kept;
                    storage = None;
                    continue;
                }
                arrays.push(size);
                offset %= size;
                r#type = *element;
            }
            Type::Struct {
                fields, is_packed, ..
            } => {
                let offsets = types.field_offsets(fields, *is_packed);
                let Some(field) = offsets.iter().rposition(|&start| start <= offset) else {
                    return (base + offset, arrays);
                };
                // A byte past the last field belongs to memory behind the structure: a flexible array.
                if offset >= offsets[field] + types.size(fields[field]).max(1) {
                    return (base + offset, arrays);
                }
                base += offsets[field];
                offset -= offsets[field];
                r#type = fields[field];
            }
            _ => return (base + offset, arrays),
        }
    }
}

/// The length of the array of bytes that begins at an offset of a type.
fn bytes_at(program: &Program, mut r#type: TypeId, mut offset: u64) -> Option<u64> {
    let types = &program.types;
    loop {
        match types.get(r#type) {
            Type::Array { element, .. } if offset == 0 && types.size(*element) == 1 => {
                return Some(types.size(r#type));
            }
            Type::Struct {
                fields, is_packed, ..
            } => {
                let offsets = types.field_offsets(fields, *is_packed);
                let field = offsets.iter().rposition(|&start| start <= offset)?;
                offset -= offsets[field];
                r#type = fields[field];
            }
            _ => return None,
        }
    }
}
