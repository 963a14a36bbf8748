//! Which structures can lie in an object: what a program uses as one structure is not used as an unrelated one.
//!
//! A variable is what it is declared as. An allocated block is what the code that allocates it uses it as, if
//! its size is a multiple of that structure's. Two structures are related if one contains the other or if some
//! value is used as both, as where C programs cast between them; memory of plain bytes and unions can be
//! anything. This is the rule behind type-based alias analysis (Diwan et al. 1998), with casts seen
//! instead of forbidden. A cast that is only made on the way through memory is not seen.

use norns_ir::{
    BinaryOperator, Callee, Function, FunctionId, InstructionId, Kind, Operand, Program, Type,
    TypeId,
};
use rustc_hash::FxHashSet;

use crate::external::is_external;
use crate::instance::{Instances, Point};
use crate::points_to::{constant_integer, path};

/// What is known of the content of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub r#type: TypeId,
    /// In bytes, if it is known.
    pub size: Option<u64>,
}

/// Bytes of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    pub of: TypeId,
    pub start: u64,
    pub end: u64,
}

/// A value that is used as more structures than this is memory of any kind.
const MOST_USES: usize = 12;

pub struct Structures<'p> {
    program: &'p Program,
    /// For each function the class of each parameter, then of each instruction: values that are copies.
    classes: Vec<Vec<u32>>,
    /// For each function and class the structures it is used as, by it and by the functions it is passed to.
    uses: Vec<Vec<Vec<TypeId>>>,
    related: FxHashSet<(TypeId, TypeId)>,
}

/// The size of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Bytes(u64),
    /// A multiple of this.
    Multiple(u64),
}

fn parameter_count(program: &Program, function: &Function) -> usize {
    match program.types.get(function.r#type) {
        Type::Function { parameters, .. } => parameters.len(),
        _ => 0,
    }
}

fn is_struct(program: &Program, r#type: TypeId) -> bool {
    matches!(program.types.get(r#type), Type::Struct { .. })
}

fn put(into: &mut Vec<TypeId>, new: TypeId) -> bool {
    let is_new = into.len() <= MOST_USES && !into.contains(&new);
    if is_new {
        into.push(new);
    }
    is_new
}

impl<'p> Structures<'p> {
    #[must_use]
    pub fn new(program: &'p Program) -> Self {
        let mut structures = Self {
            program,
            classes: Vec::new(),
            uses: Vec::new(),
            related: FxHashSet::default(),
        };
        for function in &program.functions {
            let classes = classes(program, function);
            let mut uses = vec![Vec::new(); classes.len()];
            let parameters = parameter_count(program, function);
            for (_, _, instruction) in function.listed() {
                if let Kind::ElementAddress { source, base, .. } = &instruction.kind
                    && is_struct(program, *source)
                    && let Some(at) = slot(parameters, *base)
                {
                    put(&mut uses[classes[at] as usize], *source);
                }
            }
            structures.classes.push(classes);
            structures.uses.push(uses);
        }
        structures.pass_on();
        structures.relate();
        structures
    }

    /// A value is used as its parameter is where it is passed to.
    fn pass_on(&mut self) {
        let program = self.program;
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); program.functions.len()];
        let mut queue: Vec<usize> = (0..program.functions.len()).collect();
        for (at, function) in program.functions.iter().enumerate() {
            for (_, _, instruction) in function.listed() {
                if let Some((callee, _)) = direct_call(program, &instruction.kind) {
                    callers[callee.index()].push(at);
                }
            }
        }
        let mut is_queued = vec![true; queue.len()];
        while let Some(at) = queue.pop() {
            is_queued[at] = false;
            let function = &program.functions[at];
            let parameters = parameter_count(program, function);
            let mut changed = false;
            for (_, _, instruction) in function.listed() {
                let Some((callee, arguments)) = direct_call(program, &instruction.kind) else {
                    continue;
                };
                for (number, &argument) in arguments.iter().enumerate() {
                    let Some(slot) = slot(parameters, argument) else {
                        continue;
                    };
                    for r#type in self.parameter_uses(callee, number) {
                        let class = self.classes[at][slot] as usize;
                        let is_new = put(&mut self.uses[at][class], r#type);
                        changed |= is_new
                            && (0..parameters)
                                .any(|parameter| self.classes[at][parameter] as usize == class);
                    }
                }
            }
            if changed {
                for &caller in &callers[at] {
                    if !std::mem::replace(&mut is_queued[caller], true) {
                        queue.push(caller);
                    }
                }
            }
        }
    }

    fn parameter_uses(&self, function: FunctionId, number: usize) -> Vec<TypeId> {
        let callee = self.program.function(function);
        if number >= parameter_count(self.program, callee) {
            return Vec::new();
        }
        let class = self.classes[function.index()][number] as usize;
        self.uses[function.index()][class].clone()
    }

    fn relate(&mut self) {
        let program = self.program;
        let mut related = FxHashSet::default();
        let mut pairs = |a: &[TypeId], b: &[TypeId]| {
            for &first in a {
                for &second in b.iter().filter(|&&second| second != first) {
                    related.insert((first, second));
                    related.insert((second, first));
                }
            }
        };
        for (at, function) in program.functions.iter().enumerate() {
            for uses in &self.uses[at] {
                pairs(uses, uses);
            }
            let parameters = parameter_count(program, function);
            for (_, id, instruction) in function.listed() {
                let Some((callee, _)) = direct_call(program, &instruction.kind) else {
                    continue;
                };
                let class = self.classes[at][parameters + id.index()] as usize;
                for (class_inside, _) in self.returned(callee) {
                    pairs(
                        &self.uses[at][class],
                        &self.uses[callee.index()][class_inside],
                    );
                }
            }
        }
        self.related = related;
    }

    /// The classes of the values that a function returns.
    fn returned(&self, function: FunctionId) -> Vec<(usize, InstructionId)> {
        let callee = self.program.function(function);
        let parameters = parameter_count(self.program, callee);
        let listed = callee.listed();
        let returns = listed.filter_map(|(_, id, instruction)| match instruction.kind {
            Kind::Return(Some(value)) => {
                let slot = slot(parameters, value)?;
                Some((self.classes[function.index()][slot] as usize, id))
            }
            _ => None,
        });
        returns.collect()
    }

    /// What a block that is allocated by this call is used as by the code that allocates it.
    #[must_use]
    pub fn of_allocation(&self, instances: &Instances, point: Point) -> Option<Shape> {
        let size = self.allocated(instances, point)?;
        let mut at = point;
        let mut uses: Vec<TypeId> = Vec::new();
        loop {
            let function = instances.get(at.instance).function;
            let parameters = parameter_count(self.program, self.program.function(function));
            let class =
                self.classes[function.index()][parameters + at.instruction.index()] as usize;
            for &r#type in &self.uses[function.index()][class] {
                put(&mut uses, r#type);
            }
            if self
                .returned(function)
                .iter()
                .all(|&(other, _)| other != class)
            {
                break;
            }
            // Who else gets it is known only if nobody else calls the function.
            if !instances.is_clone(at.instance) {
                return None;
            }
            at = instances.only_caller(at.instance)?;
        }
        if uses.len() > MOST_USES {
            return None;
        }
        let types = &self.program.types;
        let r#type = uses.into_iter().max_by_key(|&at| (types.size(at), at))?;
        let (bytes, size) = match size {
            Size::Bytes(bytes) => (bytes, Some(bytes)),
            Size::Multiple(bytes) => (bytes, None),
        };
        let one = types.size(r#type);
        let fits = one > 0 && bytes > 0 && bytes.is_multiple_of(one);
        fits.then_some(Shape { r#type, size })
    }

    fn allocated(&self, instances: &Instances, point: Point) -> Option<Size> {
        let function = self
            .program
            .function(instances.get(point.instance).function);
        let kind = &function.instruction(point.instruction).kind;
        let (Kind::Call {
            callee: Callee::Function(callee),
            arguments,
            ..
        }
        | Kind::Invoke {
            callee: Callee::Function(callee),
            arguments,
            ..
        }) = kind
        else {
            return None;
        };
        let argument = |number: usize| {
            let operand = *arguments.get(number)?;
            self.size(instances, point, operand, 8)
        };
        match self.program.function(*callee).name.as_str() {
            "malloc"
            | "valloc"
            | "_Znwm"
            | "_Znam"
            | "_ZnwmRKSt9nothrow_t"
            | "_ZnamRKSt9nothrow_t"
            | "_ZnwmSt11align_val_t"
            | "_ZnamSt11align_val_t" => argument(0),
            "aligned_alloc" | "memalign" => argument(1),
            "calloc" => match (argument(0), argument(1)) {
                (Some(Size::Bytes(a)), Some(Size::Bytes(b))) => {
                    Some(Size::Bytes(a.saturating_mul(b)))
                }
                (_, Some(Size::Bytes(one))) => Some(Size::Multiple(one)),
                (Some(Size::Bytes(one)), _) => Some(Size::Multiple(one)),
                _ => None,
            },
            _ => None,
        }
    }

    fn size(
        &self,
        instances: &Instances,
        point: Point,
        operand: Operand,
        depth: u32,
    ) -> Option<Size> {
        let depth = depth.checked_sub(1)?;
        let function = self
            .program
            .function(instances.get(point.instance).function);
        match operand {
            Operand::Constant(id) => {
                let bytes = constant_integer(self.program, id)?;
                u64::try_from(bytes).ok().map(Size::Bytes)
            }
            Operand::Parameter(number) => {
                if !instances.is_clone(point.instance) {
                    return None;
                }
                let call = instances.only_caller(point.instance)?;
                let caller = self.program.function(instances.get(call.instance).function);
                let (_, arguments) =
                    direct_call(self.program, &caller.instruction(call.instruction).kind)?;
                self.size(instances, call, *arguments.get(number as usize)?, depth)
            }
            Operand::Result(id) => match &function.instruction(id).kind {
                Kind::Cast(_, inner) | Kind::Freeze(inner) => {
                    self.size(instances, point, *inner, depth)
                }
                Kind::Binary(BinaryOperator::Multiply, a, b) => {
                    let sizes = [*a, *b].map(|operand| self.size(instances, point, operand, depth));
                    match sizes {
                        [Some(Size::Bytes(a)), Some(Size::Bytes(b))] => {
                            Some(Size::Bytes(a.saturating_mul(b)))
                        }
                        [Some(Size::Bytes(one)), _] | [_, Some(Size::Bytes(one))] => {
                            Some(Size::Multiple(one))
                        }
                        _ => None,
                    }
                }
                _ => None,
            },
        }
    }

    /// Whether what lies at this offset of the object can be used as this structure.
    #[must_use]
    pub fn fits(&self, shape: Shape, offset: u64, used_as: TypeId) -> bool {
        let types = &self.program.types;
        let is_named = matches!(types.get(used_as), Type::Struct { name: Some(_), .. });
        if !is_named {
            return true;
        }
        let wanted = types.size(used_as);
        let end = offset.saturating_add(wanted);
        if shape.size.is_some_and(|size| size < end) {
            return false;
        }
        let one = types.size(shape.r#type).max(1);
        let (mut at, mut offset) = (shape.r#type, offset % one);
        loop {
            let left = types.size(at).saturating_sub(offset);
            match types.get(at) {
                Type::Struct {
                    name,
                    fields,
                    is_packed,
                } => {
                    let is_union = name.as_ref().is_none_or(|name| name.starts_with("union."));
                    if is_union && wanted <= left {
                        return true;
                    }
                    if offset == 0 && self.is_related(at, used_as) {
                        return true;
                    }
                    let starts = types.field_offsets(fields, *is_packed);
                    let field = starts.iter().zip(fields).rposition(|(&start, &field)| {
                        start <= offset && (offset < start + types.size(field) || start == offset)
                    });
                    let Some(field) = field else {
                        // Memory behind a structure with an open end.
                        return offset >= types.size(at);
                    };
                    offset -= starts[field];
                    at = fields[field];
                }
                Type::Array { element, .. } | Type::Vector { element, .. } => {
                    let size = types.size(*element);
                    match types.get(*element) {
                        // Numbers can be read as anything; an array without bounds goes on.
                        Type::Integer(_) => return left == 0 || wanted <= left,
                        _ if size == 0 => return true,
                        _ => offset %= size,
                    }
                    at = *element;
                }
                // A structure around one number or pointer.
                _ => return offset == 0 && wanted <= types.size(at),
            }
        }
    }

    /// Whether two accesses through structures can touch the same bytes: of one structure, the same field; of
    /// two, if one can be used as the other or lies in it.
    #[must_use]
    pub fn may_overlap(&self, a: Field, b: Field) -> bool {
        if a.of == b.of || self.is_named_alike(a.of, b.of) {
            return a.start < b.end && b.start < a.end;
        }
        self.is_related(a.of, b.of)
            || self.is_related(b.of, a.of)
            || self.contains(a.of, b.of)
            || self.contains(b.of, a.of)
    }

    /// Whether the second structure lies in the first, or bytes in which it could.
    fn contains(&self, whole: TypeId, part: TypeId) -> bool {
        let types = &self.program.types;
        let mut stack = vec![whole];
        while let Some(at) = stack.pop() {
            match types.get(at) {
                _ if self.is_related(at, part) => return true,
                Type::Struct { name, fields, .. } => {
                    let is_union = name.as_ref().is_none_or(|name| name.starts_with("union."));
                    if is_union && types.size(part) <= types.size(at) {
                        return true;
                    }
                    stack.extend(fields);
                }
                Type::Array { element, .. } => {
                    let is_bytes = matches!(types.get(*element), Type::Integer(8));
                    if is_bytes && (types.size(at) == 0 || types.size(part) <= types.size(at)) {
                        return true;
                    }
                    stack.push(*element);
                }
                _ => {}
            }
        }
        false
    }

    /// The field that an address leads to, if it is computed from a structure.
    #[must_use]
    pub fn field(&self, function: &Function, address: Operand, size: u64) -> Option<Field> {
        let Operand::Result(id) = address else {
            return None;
        };
        let Kind::ElementAddress {
            source, indices, ..
        } = &function.instruction(id).kind
        else {
            return None;
        };
        let is_named = matches!(
            self.program.types.get(*source),
            Type::Struct { name: Some(_), .. }
        );
        let (offset, strides) = path(self.program, *source, indices);
        let whole = self.program.types.size(*source);
        let start = u64::try_from(offset).ok()? % whole.max(1);
        // An index inside the structure leads to any element of an array there.
        let is_inside = indices
            .iter()
            .skip(1)
            .any(|index| !matches!(index, Operand::Constant(_)));
        let end = match is_inside {
            true => whole,
            false => start.saturating_add(size),
        };
        let starts_in_first = strides.len() <= 1 || !is_inside;
        (is_named && starts_in_first && end <= whole).then_some(Field {
            of: *source,
            start,
            end,
        })
    }

    fn is_related(&self, a: TypeId, b: TypeId) -> bool {
        a == b
            || self.related.contains(&(a, b))
            || self.is_named_alike(a, b)
            || self.begins_with(b, a)
    }

    /// Whether the second structure is the beginning of the first.
    fn begins_with(&self, whole: TypeId, part: TypeId) -> bool {
        let mut at = whole;
        while let Type::Struct { fields, .. } = self.program.types.get(at) {
            let Some(&first) = fields.first() else {
                return false;
            };
            at = first;
            if at == part {
                return true;
            }
        }
        false
    }

    /// Whether two structures are versions of one: of two modules, or of a class and its part in derived ones.
    fn is_named_alike(&self, a: TypeId, b: TypeId) -> bool {
        let name = |at: TypeId| match self.program.types.get(at) {
            Type::Struct {
                name: Some(name), ..
            } => {
                let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
                let name = name.strip_suffix('.').unwrap_or(name);
                Some(name.strip_suffix(".base").unwrap_or(name).to_owned())
            }
            _ => None,
        };
        name(a).is_some_and(|a| Some(a) == name(b))
    }

    /// The structures as which anything is used, sorted.
    #[must_use]
    pub fn used(&self) -> Vec<TypeId> {
        let mut all: Vec<TypeId> = self.uses.iter().flatten().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The shape of a variable.
    #[must_use]
    pub fn of_variable(&self, r#type: TypeId) -> Shape {
        let size = self.program.types.size(r#type);
        Shape {
            r#type,
            // An array without bounds, or a variable of another module.
            size: (size > 0).then_some(size),
        }
    }
}

/// A call of a function with a body by its name.
fn direct_call<'k>(program: &Program, kind: &'k Kind) -> Option<(FunctionId, &'k [Operand])> {
    let (Kind::Call {
        callee: Callee::Function(callee),
        arguments,
        ..
    }
    | Kind::Invoke {
        callee: Callee::Function(callee),
        arguments,
        ..
    }) = kind
    else {
        return None;
    };
    (!is_external(program.function(*callee))).then_some((*callee, arguments.as_slice()))
}

/// The number of a parameter or an instruction among both.
fn slot(parameters: usize, operand: Operand) -> Option<usize> {
    match operand {
        Operand::Parameter(number) => ((number as usize) < parameters).then_some(number as usize),
        Operand::Result(id) => Some(parameters + id.index()),
        Operand::Constant(_) => None,
    }
}

/// Values of a function that are copies of each other.
fn classes(program: &Program, function: &Function) -> Vec<u32> {
    let parameters = parameter_count(program, function);
    let count = parameters + function.instructions.len();
    let mut parent: Vec<u32> =
        (0..u32::try_from(count).expect("a function has fewer values")).collect();
    fn find(parent: &mut [u32], mut at: u32) -> u32 {
        while parent[at as usize] != at {
            parent[at as usize] = parent[parent[at as usize] as usize];
            at = parent[at as usize];
        }
        at
    }
    for (_, id, instruction) in function.listed() {
        let operands: Vec<Operand> = match &instruction.kind {
            Kind::Cast(_, operand) | Kind::Freeze(operand) => vec![*operand],
            Kind::Select {
                then, otherwise, ..
            } => vec![*then, *otherwise],
            Kind::Phi(incoming) => incoming.iter().map(|&(_, operand)| operand).collect(),
            _ => continue,
        };
        let to = find(
            &mut parent,
            u32::try_from(parameters + id.index()).expect("a slot"),
        );
        for from in operands
            .into_iter()
            .filter_map(|operand| slot(parameters, operand))
        {
            let from = find(&mut parent, u32::try_from(from).expect("a slot"));
            let to = find(&mut parent, to);
            parent[from as usize] = to;
        }
    }
    (0..parent.len())
        .map(|at| find(&mut parent, u32::try_from(at).expect("a slot")))
        .collect()
}
