//! A program as text, close to LLVM's own: for people, and for comparison with `llvm-dis`.

use std::fmt;

use crate::debug::PlaceId;
use crate::instruction::{
    AtomicOrder, AtomicUpdate, BinaryOperator, Callee, Cast, Instruction, Kind, LandingClause,
    Operand, Predicate,
};
use crate::program::{BlockId, Constant, ConstantId, Function, Linkage, Program};
use crate::types::{Type, TypeId};

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for global in &self.globals {
            let linkage = linkage(global.linkage, global.initial.is_none());
            let storage = match (global.is_thread_local, global.is_constant) {
                (true, _) => "thread_local",
                (false, true) => "constant",
                (false, false) => "global",
            };
            let r#type = self.show_type(global.r#type);
            write!(f, "@{} = {linkage} {storage} {type}", global.name)?;
            if let Some(initial) = global.initial {
                write!(f, " {}", self.show_constant(initial))?;
            }
            writeln!(f)?;
        }
        for function in &self.functions {
            writeln!(f, "\n{}", self.show_function(function))?;
        }
        Ok(())
    }
}

/// A name, in quotes if LLVM writes them.
fn quoted(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-$._".contains(&byte);
    let begins_plain = !name.starts_with(|first: char| first.is_ascii_digit());
    match name.bytes().all(is_plain) && begins_plain {
        true => name.to_owned(),
        false => format!("\"{name}\""),
    }
}

fn linkage(linkage: Linkage, is_declaration: bool) -> &'static str {
    match (linkage, is_declaration) {
        (_, true) => "declare",
        (Linkage::External, _) => "define",
        (Linkage::Internal, _) => "define internal",
        (Linkage::Weak, _) => "define weak",
    }
}

/// Writes a list with commas between.
fn list<T>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    mut show: impl FnMut(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        show(f, item)?;
    }
    Ok(())
}

impl Program {
    pub fn show_type(&self, id: TypeId) -> impl fmt::Display {
        fmt::from_fn(move |f| match self.types.get(id) {
            Type::Void => f.write_str("void"),
            Type::Integer(bits) => write!(f, "i{bits}"),
            Type::Float(32) => f.write_str("float"),
            Type::Float(64) => f.write_str("double"),
            Type::Float(16) => f.write_str("half"),
            Type::Float(80) => f.write_str("x86_fp80"),
            Type::Float(bits) => write!(f, "fp{bits}"),
            Type::Pointer => f.write_str("ptr"),
            Type::Array { element, count } => {
                write!(f, "[{count} x {}]", self.show_type(*element))
            }
            Type::Vector { element, count } => {
                write!(f, "<{count} x {}>", self.show_type(*element))
            }
            Type::Struct {
                name: Some(name), ..
            } => write!(f, "%{}", quoted(name)),
            Type::Struct {
                fields, is_packed, ..
            } => {
                let (open, close) = match (is_packed, fields.is_empty()) {
                    (false, false) => ("{ ", " }"),
                    (false, true) => ("{", "}"),
                    (true, false) => ("<{ ", " }>"),
                    (true, true) => ("<{", "}>"),
                };
                f.write_str(open)?;
                list(f, fields, |f, &field| {
                    write!(f, "{}", self.show_type(field))
                })?;
                f.write_str(close)
            }
            Type::Function {
                result,
                parameters,
                is_variadic,
            } => {
                write!(f, "{} (", self.show_type(*result))?;
                list(f, parameters, |f, &one| {
                    write!(f, "{}", self.show_type(one))
                })?;
                f.write_str(if *is_variadic { ", ...)" } else { ")" })
            }
            Type::Opaque(name) => write!(f, "%{}", name.as_deref().unwrap_or("opaque")),
        })
    }

    pub fn show_constant(&self, id: ConstantId) -> impl fmt::Display {
        fmt::from_fn(move |f| match self.constant(id) {
            Constant::Integer(_, value) => write!(f, "{value}"),
            Constant::Float(_, bits) => write!(f, "{bits:#x}"),
            Constant::Null(_) => f.write_str("null"),
            Constant::Undefined(_) => f.write_str("undef"),
            Constant::Zero(_) => f.write_str("zeroinitializer"),
            Constant::Aggregate(_, parts) => {
                f.write_str("{ ")?;
                list(f, parts, |f, &part| {
                    write!(f, "{}", self.show_constant(part))
                })?;
                f.write_str(" }")
            }
            Constant::Bytes(_, bytes) => write!(f, "c\"{}\"", bytes.escape_ascii()),
            Constant::Numbers(_, numbers) => write!(f, "{numbers:?}"),
            Constant::Global(id) => write!(f, "@{}", self.global(*id).name),
            Constant::Function(id) => write!(f, "@{}", self.function(*id).name),
            Constant::Computed(instruction) => {
                write!(f, "({})", self.show_instruction(instruction))
            }
            Constant::Other(_, name) => write!(f, "<{name}>"),
        })
    }

    pub fn show_function(&self, function: &Function) -> impl fmt::Display {
        fmt::from_fn(move |f| {
            let linkage = linkage(function.linkage, function.is_declaration());
            let r#type = self.show_type(function.r#type);
            write!(f, "{linkage} @{}: {type}", function.name)?;
            if function.is_declaration() {
                return Ok(());
            }
            writeln!(f, " {{")?;
            for variable in &function.variables {
                let kind = if variable.is_address { "at" } else { "is" };
                let value = self.show_operand(variable.value);
                writeln!(f, "  ; {} {kind} {value}", variable.name)?;
            }
            for (number, block) in function.blocks.iter().enumerate() {
                writeln!(f, "{number}:")?;
                for &id in &block.instructions {
                    let instruction = function.instruction(id);
                    f.write_str("  ")?;
                    if !matches!(self.types.get(instruction.r#type), Type::Void) {
                        write!(f, "%{} = ", id.index())?;
                    }
                    write!(f, "{}", self.show_instruction(instruction))?;
                    if let Some(place) = instruction.place {
                        write!(f, "  ; {}", self.show_place(place))?;
                    }
                    writeln!(f)?;
                }
            }
            f.write_str("}")
        })
    }

    pub fn show_place(&self, id: PlaceId) -> impl fmt::Display {
        fmt::from_fn(move |f| {
            let mut next = Some(id);
            while let Some(id) = next {
                let place = self.place(id);
                let file = &self.file(place.file).name;
                write!(f, "{file}:{}:{}", place.line, place.column)?;
                next = place.inlined_at;
                if next.is_some() {
                    f.write_str(" inlined at ")?;
                }
            }
            Ok(())
        })
    }

    pub fn show_operand(&self, operand: Operand) -> impl fmt::Display {
        fmt::from_fn(move |f| match operand {
            Operand::Parameter(index) => write!(f, "%arg{index}"),
            Operand::Result(id) => write!(f, "%{}", id.index()),
            Operand::Constant(id) => write!(f, "{}", self.show_constant(id)),
        })
    }

    fn show_callee(&self, callee: &Callee) -> impl fmt::Display {
        fmt::from_fn(move |f| match callee {
            Callee::Function(id) => write!(f, "@{}", self.function(*id).name),
            Callee::Indirect(operand) => write!(f, "{}", self.show_operand(*operand)),
            Callee::Assembler(text, constraints) => write!(f, "asm {text:?}, {constraints:?}"),
        })
    }

    /// An instruction: LLVM's name, its operands, then what is special to its kind.
    pub fn show_instruction(&self, instruction: &Instruction) -> impl fmt::Display {
        fmt::from_fn(move |f| {
            let kind = &instruction.kind;
            f.write_str(kind.opcode())?;
            match kind {
                Kind::Call {
                    callee, arguments, ..
                }
                | Kind::Invoke {
                    callee, arguments, ..
                }
                | Kind::CallBranch {
                    callee, arguments, ..
                } => {
                    write!(f, " {}(", self.show_callee(callee))?;
                    list(f, arguments, |f, &one| {
                        write!(f, "{}", self.show_operand(one))
                    })?;
                    f.write_str(")")?;
                }
                Kind::Phi(incoming) => {
                    f.write_str(" ")?;
                    list(f, incoming, |f, (block, value)| {
                        write!(f, "[{}, {}]", self.show_operand(*value), label(*block))
                    })?;
                }
                Kind::LandingPad { clauses, .. } => {
                    f.write_str(" ")?;
                    list(f, clauses, |f, clause| match clause {
                        LandingClause::Catch(one) => write!(f, "catch {}", self.show_operand(*one)),
                        LandingClause::Filter(one) => {
                            write!(f, "filter {}", self.show_operand(*one))
                        }
                    })?;
                }
                _ => {
                    let mut operands = Vec::new();
                    kind.for_each_operand(|operand| operands.push(operand));
                    if !operands.is_empty() {
                        f.write_str(" ")?;
                    }
                    list(f, operands, |f, one| {
                        write!(f, "{}", self.show_operand(one))
                    })?;
                }
            }
            self.show_details(f, instruction)
        })
    }

    fn show_details(&self, f: &mut fmt::Formatter<'_>, instruction: &Instruction) -> fmt::Result {
        match &instruction.kind {
            Kind::Cast(..) | Kind::VariadicArgument(_) => {
                write!(f, " to {}", self.show_type(instruction.r#type))?;
            }
            Kind::Compare(predicate, ..) => write!(f, " {}", predicate_name(*predicate))?,
            Kind::Allocate { r#type, .. } => write!(f, " of {}", self.show_type(*r#type))?,
            Kind::ElementAddress { source, .. } => write!(f, " in {}", self.show_type(*source))?,
            Kind::ExtractValue(_, indices) | Kind::InsertValue { indices, .. } => {
                write!(f, " at {indices:?}")?;
            }
            Kind::Load {
                is_volatile, order, ..
            }
            | Kind::Store {
                is_volatile, order, ..
            } => {
                if *is_volatile {
                    f.write_str(" volatile")?;
                }
                if let Some(order) = order {
                    write!(f, " {}", order_name(*order))?;
                }
            }
            Kind::Update { update, order, .. } => {
                write!(f, " {} {}", update_name(*update), order_name(*order))?;
            }
            Kind::CompareExchange {
                success, failure, ..
            } => write!(f, " {} {}", order_name(*success), order_name(*failure))?,
            Kind::Fence(order) => write!(f, " {}", order_name(*order))?,
            Kind::Switch { cases, .. } => {
                f.write_str(" on")?;
                for (value, _) in cases {
                    write!(f, " {}", self.show_constant(*value))?;
                }
            }
            Kind::LandingPad {
                is_cleanup: true, ..
            } => f.write_str(" cleanup")?,
            _ => {}
        }
        for (index, block) in instruction.kind.successors().into_iter().enumerate() {
            let before = if index == 0 { " to" } else { "," };
            write!(f, "{before} {}", label(block))?;
        }
        Ok(())
    }
}

fn label(block: BlockId) -> impl fmt::Display {
    fmt::from_fn(move |f| write!(f, "label {}", block.index()))
}

impl Kind {
    /// LLVM's name of the instruction.
    #[must_use]
    pub fn opcode(&self) -> &str {
        match self {
            Kind::Binary(operator, ..) => operator_name(*operator),
            Kind::Negate(_) => "fneg",
            Kind::Cast(cast, _) => cast_name(*cast),
            Kind::Compare(Predicate::Float(_), ..) => "fcmp",
            Kind::Compare(..) => "icmp",
            Kind::Select { .. } => "select",
            Kind::Freeze(_) => "freeze",
            Kind::Phi(_) => "phi",
            Kind::Allocate { .. } => "alloca",
            Kind::Load { .. } => "load",
            Kind::Store { .. } => "store",
            Kind::Update { .. } => "atomicrmw",
            Kind::CompareExchange { .. } => "cmpxchg",
            Kind::Fence(_) => "fence",
            Kind::ElementAddress { .. } => "getelementptr",
            Kind::ExtractValue(..) => "extractvalue",
            Kind::InsertValue { .. } => "insertvalue",
            Kind::ExtractElement(..) => "extractelement",
            Kind::InsertElement { .. } => "insertelement",
            Kind::Shuffle(..) => "shufflevector",
            Kind::VariadicArgument(_) => "va_arg",
            Kind::Call { .. } => "call",
            Kind::LandingPad { .. } => "landingpad",
            Kind::Other(name, _) => name,
            Kind::Return(_) => "ret",
            Kind::Jump(_) | Kind::Branch { .. } => "br",
            Kind::Switch { .. } => "switch",
            Kind::IndirectJump(..) => "indirectbr",
            Kind::Invoke { .. } => "invoke",
            Kind::CallBranch { .. } => "callbr",
            Kind::Resume(_) => "resume",
            Kind::Unreachable => "unreachable",
        }
    }
}

fn operator_name(operator: BinaryOperator) -> &'static str {
    match operator {
        BinaryOperator::Add => "add",
        BinaryOperator::Subtract => "sub",
        BinaryOperator::Multiply => "mul",
        BinaryOperator::DivideUnsigned => "udiv",
        BinaryOperator::DivideSigned => "sdiv",
        BinaryOperator::RemainderUnsigned => "urem",
        BinaryOperator::RemainderSigned => "srem",
        BinaryOperator::ShiftLeft => "shl",
        BinaryOperator::ShiftRightLogical => "lshr",
        BinaryOperator::ShiftRightArithmetic => "ashr",
        BinaryOperator::And => "and",
        BinaryOperator::Or => "or",
        BinaryOperator::Xor => "xor",
        BinaryOperator::AddFloat => "fadd",
        BinaryOperator::SubtractFloat => "fsub",
        BinaryOperator::MultiplyFloat => "fmul",
        BinaryOperator::DivideFloat => "fdiv",
        BinaryOperator::RemainderFloat => "frem",
    }
}

fn cast_name(cast: Cast) -> &'static str {
    match cast {
        Cast::Truncate => "trunc",
        Cast::ZeroExtend => "zext",
        Cast::SignExtend => "sext",
        Cast::FloatToUnsigned => "fptoui",
        Cast::FloatToSigned => "fptosi",
        Cast::UnsignedToFloat => "uitofp",
        Cast::SignedToFloat => "sitofp",
        Cast::FloatTruncate => "fptrunc",
        Cast::FloatExtend => "fpext",
        Cast::PointerToInteger => "ptrtoint",
        Cast::IntegerToPointer => "inttoptr",
        Cast::Bits => "bitcast",
        Cast::AddressSpace => "addrspacecast",
    }
}

fn predicate_name(predicate: Predicate) -> String {
    let name = match predicate {
        Predicate::Equal => "eq",
        Predicate::NotEqual => "ne",
        Predicate::UnsignedGreater => "ugt",
        Predicate::UnsignedGreaterOrEqual => "uge",
        Predicate::UnsignedLess => "ult",
        Predicate::UnsignedLessOrEqual => "ule",
        Predicate::SignedGreater => "sgt",
        Predicate::SignedGreaterOrEqual => "sge",
        Predicate::SignedLess => "slt",
        Predicate::SignedLessOrEqual => "sle",
        Predicate::Float(number) => return format!("float {number}"),
    };
    name.to_owned()
}

fn order_name(order: AtomicOrder) -> &'static str {
    match order {
        AtomicOrder::Relaxed => "monotonic",
        AtomicOrder::Acquire => "acquire",
        AtomicOrder::Release => "release",
        AtomicOrder::AcquireRelease => "acq_rel",
        AtomicOrder::SequentiallyConsistent => "seq_cst",
    }
}

fn update_name(update: AtomicUpdate) -> String {
    let name = match update {
        AtomicUpdate::Exchange => "xchg",
        AtomicUpdate::Add => "add",
        AtomicUpdate::Subtract => "sub",
        AtomicUpdate::And => "and",
        AtomicUpdate::Nand => "nand",
        AtomicUpdate::Or => "or",
        AtomicUpdate::Xor => "xor",
        AtomicUpdate::MaximumSigned => "max",
        AtomicUpdate::MinimumSigned => "min",
        AtomicUpdate::MaximumUnsigned => "umax",
        AtomicUpdate::MinimumUnsigned => "umin",
        AtomicUpdate::Other(number) => return format!("update {number}"),
    };
    name.to_owned()
}
