//! Access paths: what a value is, in terms that two instructions share.
//!
//! A symbol is a root and an offset. Roots are objects, parameters of shared instances, and what was loaded
//! from another symbol; parameters of clones are the arguments of their only call. Two equal symbols in one
//! thread are taken for the same value, as in RELAY (Voung et al. 2007): what is stored between two loads of
//! one path is not looked at. A place that is stored to once in the whole program stands for what is stored.

use norns_ir::{Cast, Constant, InstructionId, Kind, Operand, id};
use rustc_hash::FxHashMap;

use crate::code::Code;
use crate::external::Effect;
use crate::instance::{InstanceId, Point};
use crate::object::{Location, ObjectId, Origin};
use crate::points_to::{constant_integer, path};

id! {
    /// The root of an access path.
    RootId
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol {
    pub root: RootId,
    /// In bytes; the value itself for a number.
    pub offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    Object(ObjectId),
    Parameter(InstanceId, u32),
    /// What lies behind this address.
    Loaded(Symbol),
    /// An element: where the array begins, the index, the size of an element.
    Element(Symbol, Symbol, u64),
    /// The result of an instruction that is not looked into.
    Value(InstanceId, InstructionId),
    Number,
}

/// Who stores to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stores {
    One(Point, Operand),
    Many,
}

pub struct Symbols<'a, 'p> {
    code: &'a Code<'p>,
    roots: Vec<Root>,
    by_root: FxHashMap<Root, RootId>,
    /// `None` while a value is being looked into: a cycle of phis.
    known: FxHashMap<(InstanceId, Operand), Option<Symbol>>,
    stores: FxHashMap<(ObjectId, u64), Stores>,
}

impl<'a, 'p> Symbols<'a, 'p> {
    #[must_use]
    pub fn new(code: &'a Code<'p>) -> Self {
        Self {
            code,
            roots: Vec::new(),
            by_root: FxHashMap::default(),
            known: FxHashMap::default(),
            stores: find_stores(code),
        }
    }

    #[must_use]
    pub fn root(&self, id: RootId) -> Root {
        self.roots[id.index()]
    }

    fn make(&mut self, root: Root, offset: i64) -> Symbol {
        let next = RootId::from_index(self.roots.len());
        let id = *self.by_root.entry(root).or_insert(next);
        if id == next {
            self.roots.push(root);
        }
        Symbol { root: id, offset }
    }

    pub fn of(&mut self, instance: InstanceId, operand: Operand) -> Symbol {
        match self.known.get(&(instance, operand)) {
            Some(Some(known)) => return *known,
            Some(None) => return self.opaque(instance, operand),
            None => {}
        }
        self.known.insert((instance, operand), None);
        let symbol = match operand {
            Operand::Constant(constant) => self.constant(instance, constant),
            Operand::Parameter(number) => self.parameter(instance, number),
            Operand::Result(instruction) => self.result(instance, instruction),
        };
        self.known.insert((instance, operand), Some(symbol));
        symbol
    }

    fn opaque(&mut self, instance: InstanceId, operand: Operand) -> Symbol {
        let root = match operand {
            Operand::Result(instruction) => Root::Value(instance, instruction),
            Operand::Parameter(number) => Root::Parameter(instance, number),
            Operand::Constant(_) => Root::Number,
        };
        self.make(root, 0)
    }

    fn constant(&mut self, instance: InstanceId, id: norns_ir::ConstantId) -> Symbol {
        let program = self.code.program;
        if let Some(number) = constant_integer(program, id) {
            return self.make(Root::Number, number);
        }
        match program.constant(id) {
            Constant::Global(global) => {
                let object = self.code.points_to.objects.known(Origin::Global(*global));
                match object {
                    Some(object) => self.make(Root::Object(object), 0),
                    None => self.make(Root::Number, 0),
                }
            }
            Constant::Function(function) => {
                match self
                    .code
                    .points_to
                    .objects
                    .known(Origin::Function(*function))
                {
                    Some(object) => self.make(Root::Object(object), 0),
                    None => self.make(Root::Number, 0),
                }
            }
            Constant::Computed(instruction) => match &instruction.kind {
                Kind::ElementAddress {
                    source,
                    base,
                    indices,
                } => {
                    let base = self.of(instance, *base);
                    let (offset, _) = path(program, *source, indices);
                    self.moved(base, offset)
                }
                Kind::Cast(_, operand) => self.of(instance, *operand),
                _ => self.make(Root::Number, 0),
            },
            _ => self.make(Root::Number, 0),
        }
    }

    fn moved(&mut self, base: Symbol, offset: i64) -> Symbol {
        Symbol {
            root: base.root,
            offset: base.offset.saturating_add(offset),
        }
    }

    fn parameter(&mut self, instance: InstanceId, number: u32) -> Symbol {
        let instances = &self.code.points_to.instances;
        if let Some(thread) = instances.entered_by(instance) {
            let thread = instances.thread(thread);
            if let ([created], Some(argument), 0) =
                (thread.created.as_slice(), thread.argument, number)
                && self.code.is_executed_once(*created)
            {
                return self.of(created.instance, argument);
            }
            return self.make(Root::Parameter(instance, number), 0);
        }
        if let Some(call) = instances.only_caller(instance)
            && let Some(argument) = self.code.argument(call, number as usize)
        {
            return self.of(call.instance, argument);
        }
        self.make(Root::Parameter(instance, number), 0)
    }

    fn result(&mut self, instance: InstanceId, instruction: InstructionId) -> Symbol {
        let point = Point {
            instance,
            instruction,
        };
        let value = Root::Value(instance, instruction);
        match self.code.kind(point) {
            Kind::Allocate { .. } => {
                let origin = Origin::Stack(instance, instruction);
                match self.code.points_to.objects.known(origin) {
                    Some(object) => self.make(Root::Object(object), 0),
                    None => self.make(value, 0),
                }
            }
            Kind::Load { address, .. } => {
                let address = self.of(instance, *address);
                self.loaded(address)
            }
            Kind::Cast(
                Cast::Bits
                | Cast::AddressSpace
                | Cast::IntegerToPointer
                | Cast::PointerToInteger
                | Cast::ZeroExtend
                | Cast::SignExtend
                | Cast::Truncate,
                operand,
            )
            | Kind::Freeze(operand) => self.of(instance, *operand),
            Kind::ElementAddress {
                source,
                base,
                indices,
            } => {
                let symbol = self.of(instance, *base);
                let (offset, strides) = path(self.code.program, *source, indices);
                let moved = self.moved(symbol, offset);
                let mut variable = indices.iter().filter(|index| {
                    let Operand::Constant(id) = index else {
                        return true;
                    };
                    constant_integer(self.code.program, *id).is_none()
                });
                match (strides.as_slice(), variable.next()) {
                    ([], _) => moved,
                    ([stride], Some(index)) => {
                        let index = self.of(instance, *index);
                        // The field is reached after the step, so it stays outside of the element.
                        let start = self.moved(symbol, 0);
                        self.make(Root::Element(start, index, *stride), offset)
                    }
                    _ => self.make(value, 0),
                }
            }
            Kind::Phi(incoming) => {
                let mut symbols = incoming
                    .iter()
                    .filter(|(_, operand)| *operand != Operand::Result(instruction));
                let Some(&(_, first)) = symbols.next() else {
                    return self.make(value, 0);
                };
                let rest: Vec<Operand> = symbols.map(|&(_, operand)| operand).collect();
                let symbol = self.of(instance, first);
                let is_same = rest
                    .into_iter()
                    .all(|operand| self.of(instance, operand) == symbol);
                if is_same { symbol } else { self.make(value, 0) }
            }
            Kind::Call { .. } | Kind::Invoke { .. } => self.call_result(point),
            _ => self.make(value, 0),
        }
    }

    fn call_result(&mut self, point: Point) -> Symbol {
        let value = Root::Value(point.instance, point.instruction);
        if let Some((effects, arguments)) = self.code.external(point) {
            let is_new = effects.contains(&Effect::Allocates);
            let passed = effects.iter().find_map(|effect| match effect {
                Effect::Returns(number) if !is_new => arguments.get(*number).copied(),
                _ => None,
            });
            if let Some(passed) = passed {
                return self.of(point.instance, passed);
            }
            let origin = Origin::Heap(point.instance, point.instruction);
            return match self.code.points_to.objects.known(origin) {
                Some(object) if is_new && effects.len() == 1 => self.make(Root::Object(object), 0),
                _ => self.make(value, 0),
            };
        }
        let &[callee] = self.code.points_to.instances.callees(point) else {
            return self.make(value, 0);
        };
        if self.code.points_to.instances.only_caller(callee).is_none() {
            return self.make(value, 0);
        }
        let mut returned = Vec::new();
        for (_, _, instruction) in self.code.function(callee).listed() {
            if let Kind::Return(Some(operand)) = instruction.kind {
                returned.push(operand);
            }
        }
        let Some((&first, rest)) = returned.split_first() else {
            return self.make(value, 0);
        };
        let symbol = self.of(callee, first);
        let is_same = rest
            .iter()
            .all(|&operand| self.of(callee, operand) == symbol);
        if is_same { symbol } else { self.make(value, 0) }
    }

    /// What lies behind an address: what the only store has put there, or the path.
    pub fn loaded(&mut self, address: Symbol) -> Symbol {
        if let Root::Object(object) = self.root(address.root) {
            let is_fixed = match self.code.points_to.objects.origin(object) {
                Origin::Stack(..) => true,
                _ => self.code.is_unique(object),
            };
            let place = self.place(object, address.offset);
            if let (true, Some(place)) = (is_fixed, place)
                && let Some(Stores::One(point, value)) = self.stores.get(&place).copied()
            {
                return self.of(point.instance, value);
            }
        }
        self.make(Root::Loaded(address), 0)
    }

    /// A place by its offset, unless it is an element of an array.
    fn place(&self, object: ObjectId, offset: i64) -> Option<(ObjectId, u64)> {
        let objects = &self.code.points_to.objects;
        let normal = objects.normal(self.code.program, object, offset)?;
        let location = Location {
            object,
            offset: normal,
        };
        let is_exact = i64::try_from(normal) == Ok(offset);
        (is_exact && !objects.is_element(self.code.program, location)).then_some((object, normal))
    }

    /// The bytes from one address to another that is computed from the same pointer. Elements of arrays count
    /// as the start of their array.
    #[must_use]
    pub fn distance(&self, from: Symbol, to: Symbol) -> Option<i64> {
        let mut from = from;
        loop {
            if from.root == to.root {
                return Some(to.offset - from.offset);
            }
            let Root::Element(start, ..) = self.root(from.root) else {
                return None;
            };
            from = Symbol {
                root: start.root,
                offset: start.offset.saturating_add(from.offset),
            };
        }
    }

    /// How to get from one address to another that is computed from the same pointer: the bytes to the first
    /// pointer that is followed, from what it points to the bytes to the next one, and so on.
    #[must_use]
    pub fn way(&self, from: Symbol, to: Symbol) -> Option<Vec<i64>> {
        /// Paths are a few pointers long.
        const LONGEST: usize = 4;
        let mut steps = Vec::new();
        let mut to = to;
        loop {
            if let Some(distance) = self.distance(from, to) {
                steps.push(distance);
                steps.reverse();
                return Some(steps);
            }
            let Root::Loaded(address) = self.root(to.root) else {
                return None;
            };
            if steps.len() == LONGEST {
                return None;
            }
            steps.push(to.offset);
            to = address;
        }
    }

    /// A symbol of a shared instance in the terms of one of its callers.
    pub fn in_caller(&mut self, symbol: Symbol, callee: InstanceId, call: Point) -> Symbol {
        let root = match self.root(symbol.root) {
            Root::Parameter(instance, number) if instance == callee => {
                return match self.code.argument(call, number as usize) {
                    Some(argument) => {
                        let base = self.of(call.instance, argument);
                        self.moved(base, symbol.offset)
                    }
                    None => symbol,
                };
            }
            Root::Loaded(address) => {
                let address = self.in_caller(address, callee, call);
                let loaded = self.loaded(address);
                return self.moved(loaded, symbol.offset);
            }
            Root::Element(base, index, stride) => Root::Element(
                self.in_caller(base, callee, call),
                self.in_caller(index, callee, call),
                stride,
            ),
            other => other,
        };
        self.make(root, symbol.offset)
    }

    /// A symbol of a caller in the terms of the parameters of a shared instance, once for each that fits.
    pub fn in_callee(&mut self, symbol: Symbol, callee: InstanceId, call: Point) -> Vec<Symbol> {
        let mut all = vec![symbol];
        let mut number = 0;
        while let Some(argument) = self.code.argument(call, number) {
            let passed = self.of(call.instance, argument);
            let is_number = matches!(self.root(passed.root), Root::Number);
            if passed.root == symbol.root && !is_number {
                let number = u32::try_from(number).expect("a call has few arguments");
                let offset = symbol.offset - passed.offset;
                all.push(self.make(Root::Parameter(callee, number), offset));
            }
            number += 1;
        }
        all
    }
}

/// Who stores to each place, by all instances; memory that external functions write counts as many stores.
fn find_stores(code: &Code) -> FxHashMap<(ObjectId, u64), Stores> {
    let mut stores: FxHashMap<(ObjectId, u64), Stores> = FxHashMap::default();
    let points_to = &code.points_to;
    let mut put = |location: Location, new: Stores| {
        let key = (location.object, location.offset);
        stores
            .entry(key)
            .and_modify(|old| *old = Stores::Many)
            .or_insert(new);
    };
    for (index, global) in code.program.globals.iter().enumerate() {
        let origin = Origin::Global(norns_ir::GlobalId::from_index(index));
        let is_zero = global.initial.is_some_and(|initial| {
            matches!(
                code.program.constant(initial),
                Constant::Zero(_) | Constant::Null(_)
            ) || constant_integer(code.program, initial) == Some(0)
        });
        if let (false, Some(object)) = (is_zero, points_to.objects.known(origin)) {
            for (offset, _) in points_to.objects.places(object) {
                put(Location { object, offset }, Stores::Many);
            }
        }
    }
    for point in code.points() {
        let instance = point.instance;
        match code.kind(point) {
            Kind::Store { address, value, .. } => {
                for location in points_to.locations(instance, *address) {
                    put(location, Stores::One(point, *value));
                }
            }
            Kind::Update { address, .. } | Kind::CompareExchange { address, .. } => {
                for location in points_to.locations(instance, *address) {
                    put(location, Stores::Many);
                }
            }
            Kind::Call { .. } | Kind::Invoke { .. } => {
                let Some((effects, arguments)) = code.external(point) else {
                    continue;
                };
                for argument in effects.iter().filter_map(|effect| written(*effect)) {
                    let Some(&operand) = arguments.get(argument) else {
                        continue;
                    };
                    for start in points_to.locations(instance, operand) {
                        for (offset, _) in points_to.objects.places(start.object) {
                            if offset >= start.offset {
                                let object = start.object;
                                put(Location { object, offset }, Stores::Many);
                            }
                        }
                    }
                }
            }
            _ => {}
        }
    }
    stores
}

fn written(effect: Effect) -> Option<usize> {
    match effect {
        Effect::Writes(number, _)
        | Effect::AllocatesInto(number)
        | Effect::Connects(number)
        | Effect::Create { handle: number, .. }
        | Effect::Join {
            result: Some(number),
            ..
        }
        | Effect::Copies { to: number, .. } => Some(number),
        Effect::CreateFromState => Some(0),
        _ => None,
    }
}
