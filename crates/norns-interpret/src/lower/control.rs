//! Calls, jumps, and what phis get on them.

use norns_ir::{AtomicOrder, BlockId, Callee, Kind, Operand, Type, TypeId};
use rustc_hash::FxHashSet;

use super::function::{Fix, Lowered, Lowering, Range};
use super::intrinsic::{Meaning, meaning};
use crate::op::{CallSite, Op, Register, Target};

impl Lowering<'_> {
    pub(super) fn call(
        &mut self,
        result: Range,
        callee: &Callee,
        arguments: &[Operand],
        signature: TypeId,
        unwind: Option<(BlockId, BlockId)>,
    ) -> Lowered<()> {
        let target = match callee {
            Callee::Function(id) => {
                let function = self.program.function(*id);
                if function.is_declaration() {
                    match meaning(&function.name) {
                        Some(Meaning::Nothing) => return Ok(()),
                        Some(Meaning::First) => {
                            let first = self.operand(arguments[0])?;
                            self.moves(result.first, first.first, first.count);
                            return Ok(());
                        }
                        Some(Meaning::Number(number)) => {
                            let number = self.constant(number);
                            self.moves(result.first, number, 1);
                            return Ok(());
                        }
                        None => {}
                    }
                }
                Target::Function(*id)
            }
            Callee::Indirect(pointer) => Target::Register(self.one(*pointer)?),
            Callee::Assembler(text, _) => {
                let text = text.trim();
                match text {
                    "" | "pause" | "rep; nop" | "rep;nop" | "nop" | "pause;"
                        if result.count == 0 => {}
                    "mfence" => self.emit(Op::Fence(AtomicOrder::SequentiallyConsistent)),
                    _ => return Err(format!("the assembler text `{text}`")),
                }
                return Ok(());
            }
        };
        let _ = signature;
        let mut registers = Vec::new();
        let mut shapes = Vec::new();
        for &argument in arguments {
            let parts = match self.type_of(argument) {
                Ok(r#type) if matches!(self.program.types.get(r#type), Type::Opaque(_)) => continue,
                _ => self.scalars_of(argument)?,
            };
            let range = self.operand(argument)?;
            registers.extend(range.first..range.first + range.count);
            shapes.extend(parts.iter().map(|scalar| scalar.shape()));
        }
        let call = self.code.calls.len() as u32;
        self.code.calls.push(CallSite {
            callee: target,
            arguments: registers.into(),
            shapes: shapes.into(),
            d: result.first,
            results: result.count,
            unwind: None,
        });
        if let Some((block, unwind)) = unwind {
            let at = self.code.ops.len() as u32;
            self.fixes.push((at, Fix::Unwind(call), block, unwind));
        }
        self.emit(Op::Call { call });
        Ok(())
    }

    pub(super) fn jump(&mut self, from: BlockId, to: BlockId) {
        let moves = self.phi_moves(from, to);
        let moves = match moves {
            Ok(moves) => moves,
            Err(reason) => return self.give_up(reason),
        };
        self.emit_moves(&moves);
        self.fixes
            .push((self.code.ops.len() as u32, Fix::Jump, from, to));
        self.emit(Op::Jump(0));
    }

    /// What the phis of a block get when it is entered from another one.
    pub(super) fn phi_moves(
        &mut self,
        from: BlockId,
        to: BlockId,
    ) -> Lowered<Vec<(Register, Register)>> {
        let mut moves = Vec::new();
        for &id in &self.function.blocks[to.index()].instructions {
            let Kind::Phi(incoming) = &self.function.instruction(id).kind else {
                break;
            };
            let Some(&(_, value)) = incoming.iter().find(|(block, _)| *block == from) else {
                continue;
            };
            let d = self.results[&id];
            let value = self.operand(value)?;
            moves.extend((0..d.count).map(|at| (d.first + at, value.first + at)));
        }
        moves.retain(|(d, a)| d != a);
        Ok(moves)
    }

    /// Moves that happen at the same time.
    pub(super) fn emit_moves(&mut self, moves: &[(Register, Register)]) {
        let targets: FxHashSet<Register> = moves.iter().map(|&(d, _)| d).collect();
        if moves.len() > 1 && moves.iter().any(|(_, a)| targets.contains(a)) {
            let copies = self.new_registers(moves.len() as u32);
            for (at, &(_, a)) in (0..).zip(moves) {
                self.emit(Op::Move {
                    d: copies.first + at,
                    a,
                });
            }
            for (at, &(d, _)) in (0..).zip(moves) {
                self.emit(Op::Move {
                    d,
                    a: copies.first + at,
                });
            }
            return;
        }
        for &(d, a) in moves {
            self.emit(Op::Move { d, a });
        }
    }

    /// Fills in the targets of jumps. An edge of a branch with phis gets operations of its own.
    pub(super) fn resolve(&mut self) -> Lowered<()> {
        for (at, fix, from, to) in std::mem::take(&mut self.fixes) {
            self.place = self.code.places[at as usize];
            let mut target = self.starts[to.index()];
            if !matches!(fix, Fix::Jump) {
                // Operands of phis may need operations, too.
                let start = self.code.ops.len() as u32;
                let moves = self.phi_moves(from, to)?;
                if !moves.is_empty() {
                    self.emit_moves(&moves);
                    self.emit(Op::Jump(target));
                    target = start;
                }
            }
            match (fix, &mut self.code.ops[at as usize]) {
                (Fix::Jump, Op::Jump(to)) => *to = target,
                (Fix::Then, Op::Branch { then, .. }) => *then = target,
                (Fix::Otherwise, Op::Branch { otherwise, .. }) => *otherwise = target,
                (Fix::Case(table, index), _) => {
                    self.code.switches[table as usize].cases[index].1 = target;
                }
                (Fix::Default(table), _) => self.code.switches[table as usize].default = target,
                (Fix::Unwind(call), _) => self.code.calls[call as usize].unwind = Some(target),
                _ => return Err("a jump is not where it was put".to_owned()),
            }
        }
        Ok(())
    }
}
