//! Accesses to memory that more than one thread can reach, and which objects those are.

use norns_ir::{
    BinaryOperator, Constant, Function, FunctionId, InstructionId, Kind, Operand, Type, Types,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::Code;
use crate::external::{Effect, Extent, Hidden};
use crate::instance::{Point, ThreadId};
use crate::object::{Location, ObjectId, Origin};
use crate::parallel::Parallel;
use crate::points_to::{WIDE, constant_integer};
use crate::structure::Field;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Act {
    Read,
    Write,
    AtomicRead,
    AtomicWrite,
    /// A lock, condition, semaphore or barrier is used.
    Use,
    /// One of these is made or destroyed.
    Renew,
    Free,
}

impl Act {
    #[must_use]
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::AtomicRead)
    }

    #[must_use]
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::AtomicRead | Self::AtomicWrite | Self::Use)
    }

    /// Whether two of these at the same time are a race.
    #[must_use]
    pub fn conflicts(self, other: Self) -> bool {
        (self.writes() || other.writes()) && !(self.is_atomic() && other.is_atomic())
    }
}

/// What an access touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// What its address points to.
    Direct,
    /// The pointer to a table of virtual functions there, if there is one: a pointer to a member function is
    /// called, which may be virtual.
    Table,
    /// What the pointers there point to.
    Behind,
    Hidden(Hidden),
}

#[derive(Clone, Debug)]
pub struct Access {
    pub point: Point,
    pub address: Operand,
    pub target: Target,
    pub act: Act,
    /// From the address; `u64::MAX` for all that follows.
    pub size: u64,
}

impl Access {
    /// The field that the access goes to, if its address is computed from a structure.
    #[must_use]
    pub fn field(&self, code: &Code) -> Option<Field> {
        match self.target {
            Target::Direct => {
                let function = code.function(self.point.instance);
                let structures = &code.points_to.structures;
                structures.field(function, self.address, self.size)
            }
            Target::Table | Target::Behind | Target::Hidden(_) => None,
        }
    }

    /// The field in all structures of its type.
    #[must_use]
    pub fn of_any(&self, code: &Code) -> Option<Location> {
        let field = self.field(code)?;
        let object = code.points_to.objects.known(Origin::Any(field.of))?;
        Some(Location {
            object,
            offset: field.start,
        })
    }

    /// Whether the access can touch so many places that they are not told apart.
    #[must_use]
    pub fn is_wide(&self, code: &Code) -> bool {
        code.points_to.is_wide(self.point.instance, self.address)
    }

    /// The places that an access can touch.
    #[must_use]
    pub fn places(&self, code: &Code) -> Vec<Location> {
        let points_to = &code.points_to;
        if self.is_wide(code) {
            return Vec::new();
        }
        let direct = || points_to.locations(self.point.instance, self.address);
        match self.target {
            Target::Direct => direct(),
            Target::Table => {
                let is_table = |at: &Location| {
                    matches!(points_to.objects.origin(at.object), Origin::Global(global)
                        if code.program.global(global).name.starts_with("_ZTV"))
                };
                let has_table = |at: &Location| points_to.behind(*at).iter().any(is_table);
                direct().into_iter().filter(has_table).collect()
            }
            Target::Behind => {
                // A header points to a list of parts, a part to its bytes.
                let mut all = Vec::new();
                let mut level = direct();
                for _ in 0..2 {
                    let mut objects: Vec<ObjectId> = level.iter().map(|at| at.object).collect();
                    objects.dedup();
                    let places = objects.into_iter().flat_map(|object| {
                        let places = points_to.objects.places(object).into_iter();
                        places.map(move |(offset, _)| Location { object, offset })
                    });
                    level = places.flat_map(|at| points_to.behind(at)).collect();
                    level.sort_unstable();
                    level.dedup();
                    if level.len() > WIDE {
                        break;
                    }
                    all.extend(&level);
                }
                all.sort_unstable();
                all.dedup();
                all
            }
            Target::Hidden(hidden) => {
                let object = points_to.objects.known(Origin::Hidden(hidden));
                object
                    .map(|object| Location { object, offset: 0 })
                    .into_iter()
                    .collect()
            }
        }
    }
}

/// All accesses that some thread can come to.
#[must_use]
pub fn accesses(code: &Code, parallel: &Parallel) -> Vec<Access> {
    let mut all = Vec::new();
    let mut dispatches: FxHashMap<FunctionId, FxHashSet<InstructionId>> = FxHashMap::default();
    for point in code.points().filter(|&point| parallel.is_reached(point)) {
        let before = all.len();
        of_instruction(code, point, &mut all);
        let id = code.points_to.instances.get(point.instance).function;
        let loads = dispatches
            .entry(id)
            .or_insert_with(|| dispatches_of(code.program.function(id), &code.program.types));
        if loads.contains(&point.instruction) {
            for access in &mut all[before..] {
                access.target = Target::Table;
            }
        }
    }
    all
}

/// The loads of tables of virtual functions for calls through pointers to member functions: such a pointer is a
/// function's address or the distance from the start of a table, plus 1.
fn dispatches_of(function: &Function, types: &Types) -> FxHashSet<InstructionId> {
    let is_distance = |index: &Operand| match index {
        Operand::Result(id) => matches!(
            function.instruction(*id).kind,
            Kind::Binary(BinaryOperator::Subtract, ..)
        ),
        _ => false,
    };
    // The entry of the table is loaded as a pointer, so the walk over it is one in bytes.
    let is_entry = |entry: InstructionId| {
        function.listed().any(|(_, _, other)| {
            let is_pointer = matches!(types.get(other.r#type), Type::Pointer);
            is_pointer
                && matches!(other.kind, Kind::Load { address, .. } if address == Operand::Result(entry))
        })
    };
    let loads = function.listed().filter_map(|(_, id, instruction)| {
        let Kind::ElementAddress {
            source,
            base,
            indices,
        } = &instruction.kind
        else {
            return None;
        };
        if types.size(*source) != 1 {
            return None;
        }
        match (base, indices.as_slice()) {
            (Operand::Result(load), [index])
                if is_distance(index) && is_of_member_pointer(function, *index) && is_entry(id) =>
            {
                Some(*load)
            }
            _ => None,
        }
    });
    loads.collect()
}

/// Whether a distance is computed from a number whose lowest bit the function asks for.
fn is_of_member_pointer(function: &Function, distance: Operand) -> bool {
    let Operand::Result(distance) = distance else {
        return false;
    };
    let Kind::Binary(_, pointer, _) = function.instruction(distance).kind else {
        return false;
    };
    function.listed().any(|(_, _, instruction)| {
        matches!(instruction.kind, Kind::Binary(BinaryOperator::And, number, Operand::Constant(_)) if number == pointer)
    })
}

fn of_instruction(code: &Code, point: Point, all: &mut Vec<Access>) {
    let types = &code.program.types;
    let function = code.function(point.instance);
    let instruction = function.instruction(point.instruction);
    let mut put = |address: Operand, act: Act, size: u64| {
        all.push(Access {
            point,
            address,
            target: Target::Direct,
            act,
            size,
        });
    };
    match &instruction.kind {
        Kind::Load { address, order, .. } => {
            let act = if order.is_some() {
                Act::AtomicRead
            } else {
                Act::Read
            };
            put(*address, act, types.size(instruction.r#type).max(1));
        }
        Kind::Store {
            address,
            value,
            order,
            ..
        } => {
            let act = if order.is_some() {
                Act::AtomicWrite
            } else {
                Act::Write
            };
            put(*address, act, operand_size(code, point, *value));
        }
        Kind::Update { address, value, .. } => {
            put(
                *address,
                Act::AtomicWrite,
                operand_size(code, point, *value),
            );
        }
        Kind::CompareExchange { address, new, .. } => {
            put(*address, Act::AtomicWrite, operand_size(code, point, *new));
        }
        Kind::Call { .. } | Kind::Invoke { .. } => {
            let Some((effects, arguments)) = code.external(point) else {
                return;
            };
            for &effect in effects {
                let hidden = match effect {
                    Effect::ReadsHidden(hidden) => Some((Target::Hidden(hidden), Act::Read, 0)),
                    Effect::WritesHidden(hidden) => Some((Target::Hidden(hidden), Act::Write, 0)),
                    Effect::WritesBehind(argument) => Some((Target::Behind, Act::Write, argument)),
                    _ => None,
                };
                if let (Some((target, act, argument)), false) = (hidden, arguments.is_empty()) {
                    all.push(Access {
                        point,
                        address: arguments[argument],
                        target,
                        act,
                        size: u64::MAX,
                    });
                    continue;
                }
                let mut put = |address: Operand, act: Act, size: u64| {
                    all.push(Access {
                        point,
                        address,
                        target: Target::Direct,
                        act,
                        size,
                    });
                };
                for (argument, act, extent) in touched(effect) {
                    let Some(&address) = arguments.get(argument) else {
                        continue;
                    };
                    let size = match extent {
                        Extent::Bytes(bytes) => bytes,
                        Extent::Whole => u64::MAX,
                        Extent::Counted(number) => match arguments.get(number) {
                            Some(Operand::Constant(id)) => constant_integer(code.program, *id)
                                .and_then(|count| u64::try_from(count).ok())
                                .unwrap_or(u64::MAX),
                            _ => u64::MAX,
                        },
                    };
                    if size > 0 {
                        put(address, act, size);
                    }
                }
            }
        }
        _ => {}
    }
}

/// The memory that an effect touches.
fn touched(effect: Effect) -> Vec<(usize, Act, Extent)> {
    let one = Extent::Bytes(1);
    match effect {
        Effect::Reads(argument, extent) => vec![(argument, Act::Read, extent)],
        Effect::Writes(argument, extent) => vec![(argument, Act::Write, extent)],
        Effect::AllocatesInto(argument) => vec![(argument, Act::Write, Extent::Bytes(8))],
        Effect::Frees(argument) => vec![(argument, Act::Free, Extent::Whole)],
        Effect::Lock(argument, _)
        | Effect::TryLock(argument, _)
        | Effect::Unlock(argument)
        | Effect::Signal(argument)
        | Effect::SemaphoreWait {
            semaphore: argument,
            ..
        }
        | Effect::SemaphorePost(argument)
        | Effect::BarrierWait(argument) => vec![(argument, Act::Use, one)],
        Effect::WaitBehind { condition, .. } => vec![(condition, Act::Use, one)],
        Effect::Wait {
            condition, mutex, ..
        } => vec![(condition, Act::Use, one), (mutex, Act::Use, one)],
        Effect::SemaphoreInit(argument)
        | Effect::BarrierInit(argument)
        | Effect::MutexInit(argument)
        | Effect::Renews(argument) => vec![(argument, Act::Renew, one)],
        Effect::Create { handle, .. } => vec![(handle, Act::Write, Extent::Bytes(8))],
        Effect::Join {
            result: Some(result),
            ..
        } => vec![(result, Act::Write, Extent::Bytes(8))],
        _ => Vec::new(),
    }
}

fn operand_size(code: &Code, point: Point, operand: Operand) -> u64 {
    let program = code.program;
    let function = code.function(point.instance);
    let r#type = match operand {
        Operand::Result(id) => function.instruction(id).r#type,
        Operand::Parameter(number) => match program.types.get(function.r#type) {
            Type::Function { parameters, .. } => match parameters.get(number as usize) {
                Some(&r#type) => r#type,
                None => return 1,
            },
            _ => return 1,
        },
        Operand::Constant(id) => match program.constant(id) {
            Constant::Integer(r#type, _)
            | Constant::Float(r#type, _)
            | Constant::Null(r#type)
            | Constant::Undefined(r#type)
            | Constant::Zero(r#type)
            | Constant::Aggregate(r#type, _)
            | Constant::Bytes(r#type, _)
            | Constant::Numbers(r#type, _)
            | Constant::Other(r#type, _) => *r#type,
            Constant::Computed(instruction) => instruction.r#type,
            Constant::Global(_) | Constant::Function(_) => return 8,
        },
    };
    program.types.size(r#type).max(1)
}

/// The objects that a thread other than the one that made them can reach: globals, what is passed to a new
/// thread, and all that pointers in these lead to.
#[must_use]
pub fn escaped(code: &Code) -> FxHashSet<ObjectId> {
    let points_to = &code.points_to;
    let objects = &points_to.objects;
    let mut found: FxHashSet<ObjectId> = FxHashSet::default();
    let mut queue: Vec<ObjectId> = Vec::new();
    for object in (0..objects.len()).map(ObjectId::from_index) {
        let is_common = match objects.origin(object) {
            Origin::Global(global) => !code.program.global(global).is_thread_local,
            Origin::Hidden(_) | Origin::Any(_) => true,
            _ => false,
        };
        if is_common {
            queue.push(object);
        }
    }
    for thread in points_to.instances.threads.iter().skip(1) {
        for &entry in &thread.entries {
            let passed = points_to.locations(entry, Operand::Parameter(0));
            queue.extend(passed.iter().map(|at| at.object));
        }
    }
    while let Some(object) = queue.pop() {
        if !found.insert(object) {
            continue;
        }
        for (offset, _) in objects.places(object) {
            let behind = points_to.behind(Location { object, offset });
            queue.extend(behind.iter().map(|at| at.object));
        }
    }
    found
}

/// Whether an object can be raced for at all.
#[must_use]
pub fn is_data(code: &Code, object: ObjectId) -> bool {
    match code.points_to.objects.origin(object) {
        Origin::Global(global) => {
            let global = code.program.global(global);
            // Tables of virtual functions and of types, also those of a library.
            let is_table = ["_ZTV", "_ZTI", "_ZTS", "_ZTT", "_ZTC"]
                .iter()
                .any(|prefix| global.name.starts_with(prefix));
            !global.is_constant && !global.is_thread_local && !is_table
        }
        Origin::Stack(..) | Origin::Heap(..) | Origin::Hidden(_) | Origin::Any(_) => true,
        Origin::Local(..)
        | Origin::Function(_)
        | Origin::Thread(_)
        | Origin::Channel(..)
        | Origin::Queues => false,
    }
}

/// Whether each thread that one call creates makes an object of its own.
#[must_use]
pub fn is_made_by(code: &Code, object: ObjectId, thread: ThreadId) -> bool {
    match code.points_to.objects.origin(object) {
        Origin::Stack(instance, _) | Origin::Heap(instance, _) => {
            code.threads_of(instance).contains(&thread)
        }
        _ => false,
    }
}
