//! Which places a pointer can point to: inclusion-based (Andersen 1994), field-sensitive, with the call graph
//! built on the way.
//!
//! Contexts come from instances (`crate::instance`). Integers carry pointers too: what is cast, added and
//! masked still points to where it came from. Not followed: pointers that inline assembler makes, and that
//! unknown external functions store.

mod calls;
mod constant;
mod generate;
mod solver;

use norns_ir::{FunctionId, InstructionId, Operand, Program, TypeId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::instance::{InstanceId, Instances, Point, ThreadId};
use crate::object::{Location, LocationId, Merge, ObjectId, Objects, Origin};
use crate::structure::{Shape, Structures};
pub use generate::{constant_integer, path};
use solver::{NodeId, Solver};

#[derive(Clone, Copy, Debug)]
enum Constraint {
    Load(NodeId),
    Store(NodeId),
    /// The address of a part; the number of an entry in `PointsTo::parts`.
    Part(u32),
    /// The number of an entry in `PointsTo::sites`.
    Call(u32),
    /// The thread whose name this is returns its result behind the pointer.
    Join(NodeId),
}

/// The address of a part of what `base` points to.
#[derive(Clone, Debug)]
struct Part {
    to: NodeId,
    /// The type that is read there.
    source: Option<TypeId>,
    offset: i64,
    /// The offset if `base` is a table of virtual functions, where no constant step is a walk.
    in_table: i64,
    /// The sizes of the elements that are stepped over by a number which is not constant.
    strides: Vec<u64>,
}

/// A call through a pointer.
#[derive(Clone, Debug)]
struct Site {
    point: Point,
    kind: SiteKind,
    arguments: Vec<NodeId>,
    result: Option<NodeId>,
}

#[derive(Clone, Debug)]
enum SiteKind {
    Call,
    /// An external function gets a function that its library may call.
    Register {
        library: usize,
    },
    Create {
        handle: Option<NodeId>,
        argument: Option<Operand>,
    },
    AtExit,
}

/// External functions of which nothing is known, by the beginning of their names.
#[derive(Clone, Debug, Default)]
struct Library {
    /// Calls that may call back.
    calls: Vec<Point>,
    has_runner: bool,
    /// Functions that it was given, with what was passed beside each.
    callbacks: Vec<(FunctionId, NodeId)>,
}

#[derive(Clone, Debug)]
struct CopyMemory {
    to: NodeId,
    from: NodeId,
    /// How many sources, targets and places with pointers there were when this was last looked at.
    seen: (usize, usize, usize),
}

/// A pointer with more places than this has lost itself: in real programs, a mixture of everything that was
/// ever stored in memory without a type.
pub const WIDE: usize = 100;

pub struct PointsTo<'p> {
    program: &'p Program,
    pub objects: Objects,
    pub instances: Instances,
    solver: Solver,
    pub structures: Structures<'p>,
    /// By object; `None` if it can be anything.
    shapes: Vec<Option<Shape>>,
    /// The first node of each instance: its parameters, its instructions, its result.
    first: Vec<NodeId>,
    content: Vec<NodeId>,
    constants: FxHashMap<norns_ir::ConstantId, NodeId>,
    /// The addresses of thread-local variables, for functions that only one thread runs.
    locals: FxHashMap<(ThreadId, norns_ir::ConstantId), NodeId>,
    libraries: Vec<Library>,
    library_names: FxHashMap<String, usize>,
    parts: Vec<Part>,
    sites: Vec<Site>,
    memory_copies: Vec<CopyMemory>,
    specific: FxHashMap<Option<ThreadId>, NodeId>,
    pending: Vec<InstanceId>,
    /// External functions that are not known, with one place that calls each.
    pub unknown: FxHashMap<FunctionId, Point>,
    pub assembler: FxHashSet<Point>,
}

impl<'p> PointsTo<'p> {
    /// Analyses a program from `main`, or from every function that other programs can call if it has none.
    #[must_use]
    pub fn new(program: &'p Program) -> Self {
        let mut points_to = Self {
            program,
            objects: Objects::default(),
            instances: Instances::new(program),
            solver: Solver::default(),
            structures: Structures::new(program),
            shapes: Vec::new(),
            first: Vec::new(),
            content: Vec::new(),
            constants: FxHashMap::default(),
            locals: FxHashMap::default(),
            libraries: Vec::new(),
            library_names: FxHashMap::default(),
            parts: Vec::new(),
            sites: Vec::new(),
            memory_copies: Vec::new(),
            specific: FxHashMap::default(),
            pending: Vec::new(),
            unknown: FxHashMap::default(),
            assembler: FxHashSet::default(),
        };
        for (index, global) in program.globals.iter().enumerate() {
            let id = norns_ir::GlobalId::from_index(index);
            let object = points_to.objects.global(program, id);
            if let Some(initial) = global.initial {
                points_to.initialise(object, 0, initial);
            }
        }
        for function in entries(program) {
            let entry = points_to.instances.enter(program, function);
            points_to.begin(entry);
        }
        points_to.solve();
        for r#type in points_to.structures.used() {
            points_to.objects.object(Origin::Any(r#type), Some(r#type));
        }
        points_to.objects.finish(program);
        points_to
    }

    fn solve(&mut self) {
        loop {
            while let Some(instance) = self.pending.pop() {
                self.generate(instance);
            }
            if let Some(visit) = self.solver.visit() {
                for constraint in visit.complex {
                    self.apply(constraint, &visit.new);
                }
            } else if self.pending.is_empty() && !self.copy_new_places() {
                break;
            }
        }
    }

    fn apply(&mut self, constraint: Constraint, new: &[LocationId]) {
        for &location in new {
            match constraint {
                Constraint::Load(to) => {
                    let from = self.content(location);
                    self.solver.copy(from, to);
                }
                Constraint::Store(from) => {
                    let to = self.content(location);
                    self.solver.copy(from, to);
                }
                Constraint::Part(part) => self.apply_part(part as usize, location),
                Constraint::Call(site) => self.apply_call(site as usize, location),
                Constraint::Join(behind) => self.apply_join(behind, location),
            }
        }
    }

    /// Says that a value is loaded through a pointer.
    fn load(&mut self, pointer: NodeId, to: NodeId) {
        let (loaded, is_new) = self.solver.loaded(pointer);
        if is_new {
            self.watch(pointer, Constraint::Load(loaded));
        }
        self.solver.copy(loaded, to);
    }

    /// Says that a value is stored through a pointer.
    fn store_behind(&mut self, pointer: NodeId, value: NodeId) {
        let (stored, is_new) = self.solver.stored(pointer);
        if is_new {
            self.watch(pointer, Constraint::Store(stored));
        }
        self.solver.copy(value, stored);
    }

    fn watch(&mut self, node: NodeId, constraint: Constraint) {
        let known = self.solver.watch(node, constraint);
        self.apply(constraint, &known);
    }

    /// The node of what lies in a place.
    fn content(&mut self, location: LocationId) -> NodeId {
        while self.content.len() <= location.index() {
            let node = self.solver.node();
            self.content.push(node);
        }
        self.content[location.index()]
    }

    fn apply_part(&mut self, part: usize, location: LocationId) {
        let Part {
            to,
            source,
            offset,
            in_table,
            ..
        } = self.parts[part];
        let Location { object, offset: at } = self.objects.location(location);
        if matches!(
            self.objects.origin(object),
            Origin::Function(_) | Origin::Thread(_)
        ) {
            return;
        }
        if source.is_some_and(|source| !self.can_be(object, at, source)) {
            return;
        }
        if let Some(source) = source {
            let merges = match at {
                0 => self.objects.read_as(self.program, object, source),
                _ => Vec::new(),
            };
            self.merge(&merges);
            let here = Location { object, offset: at };
            let merges = self.objects.stored_in_bytes(self.program, here, source);
            self.merge(&merges);
        }
        let is_table = self.objects.is_table(object);
        let step = if is_table { in_table } else { offset };
        let at = i64::try_from(at).unwrap_or(0).saturating_add(step);
        let Some(mut place) = self.objects.at(self.program, object, at) else {
            return;
        };
        let merges = self.objects.limit_places(self.program, object);
        if !merges.is_empty() {
            self.merge(&merges);
            place = self.objects.at(self.program, object, 0).unwrap_or(place);
        }
        for index in 0..self.parts[part].strides.len() {
            let stride = self.parts[part].strides[index];
            let merges = self.objects.stepped(self.program, place, stride);
            self.merge(&merges);
            let at = i64::try_from(self.objects.location(place).offset).unwrap_or(0);
            place = self.objects.at(self.program, object, at).unwrap_or(place);
        }
        self.solver.add(to, place);
    }

    /// Whether what lies at this offset of an object can be used as a structure.
    fn can_be(&self, object: ObjectId, offset: u64, used_as: TypeId) -> bool {
        let shape = match self.objects.origin(object) {
            Origin::Global(_) | Origin::Stack(..) => {
                let declared = self.objects.r#type(object);
                declared.map(|r#type| self.structures.of_variable(r#type))
            }
            _ => self.shapes.get(object.index()).copied().flatten(),
        };
        shape.is_none_or(|shape| self.structures.fits(shape, offset, used_as))
    }

    fn merge(&mut self, merges: &[Merge]) {
        for &(a, b) in merges {
            let (a, b) = (self.content(a), self.content(b));
            self.solver.copy(a, b);
            self.solver.copy(b, a);
        }
    }

    /// Copies pointers between the places of two objects, by their distance from the start of each.
    fn copy_memory(&mut self, copy: usize) -> bool {
        let CopyMemory { to, from, seen } = self.memory_copies[copy];
        let (sources, targets) = (self.solver.set(from).to_vec(), self.solver.set(to).to_vec());
        if sources.len() > WIDE || targets.len() > WIDE || targets.is_empty() {
            return false;
        }
        let mut filled = Vec::new();
        for source in sources.iter().copied() {
            let source = self.objects.location(source);
            for (at, place) in self.objects.places(source.object) {
                if at < source.offset {
                    continue;
                }
                let node = self.content(place);
                if !self.solver.set(node).is_empty() {
                    filled.push((at - source.offset, node));
                }
            }
        }
        let now = (sources.len(), targets.len(), filled.len());
        if now == seen {
            return false;
        }
        self.memory_copies[copy].seen = now;
        let before = (self.objects.location_count(), self.solver.edge_count());
        for (distance, node) in filled {
            for &target in &targets {
                let target = self.objects.location(target);
                let end = i64::try_from(target.offset + distance).unwrap_or(0);
                if let Some(place) = self.objects.at(self.program, target.object, end) {
                    let to = self.content(place);
                    self.solver.copy(node, to);
                }
            }
        }
        before != (self.objects.location_count(), self.solver.edge_count())
    }

    fn copy_new_places(&mut self) -> bool {
        let mut changed = false;
        for copy in 0..self.memory_copies.len() {
            changed |= self.copy_memory(copy);
        }
        changed
    }

    fn value(&self, instance: InstanceId, instruction: InstructionId) -> NodeId {
        let parameters = self.parameter_count(instance);
        let first = self.first[instance.index()].index();
        NodeId::from_index(first + parameters + instruction.index())
    }

    fn parameter(&self, instance: InstanceId, number: usize) -> Option<NodeId> {
        let first = self.first[instance.index()].index();
        (number < self.parameter_count(instance)).then(|| NodeId::from_index(first + number))
    }

    fn result(&self, instance: InstanceId) -> NodeId {
        let function = self.program.function(self.instances.get(instance).function);
        let first = self.first[instance.index()].index();
        let behind = self.parameter_count(instance) + function.instructions.len();
        NodeId::from_index(first + behind)
    }

    fn parameter_count(&self, instance: InstanceId) -> usize {
        let function = self.program.function(self.instances.get(instance).function);
        match self.program.types.get(function.r#type) {
            norns_ir::Type::Function { parameters, .. } => parameters.len(),
            _ => 0,
        }
    }

    fn operand(&mut self, instance: InstanceId, operand: Operand) -> Option<NodeId> {
        match operand {
            Operand::Parameter(number) => self.parameter(instance, number as usize),
            Operand::Result(instruction) => Some(self.value(instance, instruction)),
            Operand::Constant(constant) => match self.instances.get(instance).thread {
                Some(thread) => self.constant_of(thread, constant),
                None => self.constant(constant),
            },
        }
    }

    /// The places that a value can point to, sorted and with what was learned last of their objects.
    #[must_use]
    pub fn locations(&self, instance: InstanceId, operand: Operand) -> Vec<Location> {
        let node = match operand {
            Operand::Parameter(number) => self.parameter(instance, number as usize),
            Operand::Result(instruction) => Some(self.value(instance, instruction)),
            Operand::Constant(constant) => {
                let thread = self.instances.get(instance).thread;
                let local = thread.and_then(|thread| self.locals.get(&(thread, constant)));
                local.or_else(|| self.constants.get(&constant)).copied()
            }
        };
        node.map_or_else(Vec::new, |node| self.normal(self.solver.set(node)))
    }

    /// Whether a pointer can point to so many places that nothing useful is known of it.
    #[must_use]
    pub fn is_wide(&self, instance: InstanceId, operand: Operand) -> bool {
        let node = match operand {
            Operand::Parameter(number) => self.parameter(instance, number as usize),
            Operand::Result(instruction) => Some(self.value(instance, instruction)),
            Operand::Constant(_) => None,
        };
        node.is_some_and(|node| self.solver.set(node).len() > WIDE)
    }

    /// What the place holds pointers to.
    #[must_use]
    pub fn behind(&self, location: Location) -> Vec<Location> {
        let known = self.objects.known_at(location);
        match known.and_then(|id| self.content.get(id.index())) {
            Some(&node) => self.normal(self.solver.set(node)),
            None => Vec::new(),
        }
    }

    fn normal(&self, set: &[LocationId]) -> Vec<Location> {
        let mut all: Vec<Location> = set.iter().map(|&id| self.objects.finished(id)).collect();
        all.sort_unstable_by_key(|location| (location.object, location.offset));
        all.dedup();
        all
    }

    fn location_of(&mut self, object: ObjectId) -> LocationId {
        self.objects
            .at(self.program, object, 0)
            .expect("the start of an object is a place")
    }
}

/// Constructors and `main`; the functions with external linkage if there is no `main`.
fn entries(program: &Program) -> Vec<FunctionId> {
    let ids = || (0..program.functions.len()).map(FunctionId::from_index);
    let is_main = |id: &FunctionId| {
        let function = program.function(*id);
        function.name == "main" && !function.is_declaration()
    };
    let mut entries = program.constructors.clone();
    match ids().find(is_main) {
        Some(main) => entries.push(main),
        None => entries.extend(ids().filter(|&id| {
            let function = program.function(id);
            !function.is_declaration() && function.linkage == norns_ir::Linkage::External
        })),
    }
    entries
}
