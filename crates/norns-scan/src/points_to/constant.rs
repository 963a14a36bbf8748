//! Constants: addresses of globals and functions, and the initial values of globals.

use norns_ir::{Constant, ConstantId, Instruction, Kind, Operand, Type};

use super::PointsTo;
use super::solver::NodeId;
use crate::instance::ThreadId;
use crate::object::{ObjectId, Origin};

/// Address computations in constants are nested a few levels at most.
const DEEPEST: usize = 64;

impl PointsTo<'_> {
    pub(super) fn constant(&mut self, id: ConstantId) -> Option<NodeId> {
        if let Some(&node) = self.constants.get(&id) {
            return Some(node);
        }
        let addresses = self.addresses(id, DEEPEST);
        if addresses.is_empty() {
            return None;
        }
        let node = self.solver.node();
        self.constants.insert(id, node);
        for (object, offset) in addresses {
            if let Some(place) = self.objects.at(self.program, object, offset) {
                self.solver.add(node, place);
            }
        }
        Some(node)
    }

    /// A constant as one thread sees it: its own thread-local variables, and those of functions that several
    /// threads share.
    pub(super) fn constant_of(&mut self, thread: ThreadId, id: ConstantId) -> Option<NodeId> {
        let Constant::Global(global) = *self.program.constant(id) else {
            return self.constant(id);
        };
        let variable = self.program.global(global);
        if !variable.is_thread_local {
            return self.constant(id);
        }
        if let Some(&node) = self.locals.get(&(thread, id)) {
            return Some(node);
        }
        let shared = self.constant(id)?;
        let origin = Origin::Local(thread, global);
        let object = self.objects.object(origin, Some(variable.r#type));
        if let Some(initial) = variable.initial {
            self.initialise(object, 0, initial);
        }
        let node = self.solver.node();
        self.locals.insert((thread, id), node);
        let common = self.objects.known(Origin::Global(global));
        for object in common.into_iter().chain([object]) {
            let place = self.location_of(object);
            self.solver.add(node, place);
            self.solver.add(shared, place);
        }
        Some(node)
    }

    fn addresses(&mut self, id: ConstantId, depth: usize) -> Vec<(ObjectId, i64)> {
        if depth == 0 {
            return Vec::new();
        }
        match self.program.constant(id) {
            Constant::Global(global) => {
                vec![(self.objects.global(self.program, *global), 0)]
            }
            Constant::Function(function) => {
                let object = self.objects.object(Origin::Function(*function), None);
                let place = self.location_of(object);
                self.solver.make_essential(place);
                vec![(object, 0)]
            }
            Constant::Computed(instruction) => self.computed(instruction, depth - 1),
            Constant::Aggregate(_, parts) => {
                let parts = parts.iter();
                parts
                    .flat_map(|&part| self.addresses(part, depth - 1))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn computed(&mut self, instruction: &Instruction, depth: usize) -> Vec<(ObjectId, i64)> {
        let mut of = |operand: &Operand| match operand {
            Operand::Constant(id) => self.addresses(*id, depth),
            _ => Vec::new(),
        };
        match &instruction.kind {
            Kind::ElementAddress {
                source,
                base,
                indices,
            } => {
                let addresses = of(base);
                let (offset, _) = super::generate::path(self.program, *source, indices);
                let moved = addresses.into_iter();
                moved
                    .map(|(object, at)| (object, at.saturating_add(offset)))
                    .collect()
            }
            Kind::Cast(_, operand) | Kind::Freeze(operand) => of(operand),
            Kind::Binary(_, a, b)
            | Kind::Select {
                then: a,
                otherwise: b,
                ..
            } => {
                let mut all = of(a);
                all.extend(of(b));
                all
            }
            _ => Vec::new(),
        }
    }

    /// Puts the pointers of an initial value into a global.
    pub(super) fn initialise(&mut self, object: ObjectId, offset: u64, value: ConstantId) {
        match self.program.constant(value) {
            Constant::Aggregate(of, parts) => {
                let types = &self.program.types;
                let starts: Vec<u64> = match types.get(*of) {
                    Type::Struct {
                        fields, is_packed, ..
                    } => types.field_offsets(fields, *is_packed),
                    Type::Array { element, .. } | Type::Vector { element, .. } => {
                        let size = types.size(*element);
                        (0..parts.len() as u64).map(|at| at * size).collect()
                    }
                    _ => return,
                };
                for (&part, start) in parts.iter().zip(starts) {
                    self.initialise(object, offset + start, part);
                }
            }
            Constant::Global(_) | Constant::Function(_) | Constant::Computed(_) => {
                let at = i64::try_from(offset).unwrap_or(0);
                let place = self.objects.at(self.program, object, at);
                if let (Some(from), Some(place)) = (self.constant(value), place) {
                    let to = self.content(place);
                    self.solver.copy(from, to);
                }
            }
            _ => {}
        }
    }
}
