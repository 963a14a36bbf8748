//! Which threads have ended after a join, and how many threads a loop creates.

use norns_ir::{BlockId, InstructionId, Kind};

use crate::code::Code;
use crate::external::Effect;
use crate::instance::{Point, ThreadId};
use crate::object::Origin;
use crate::parallel::Alive;
use crate::threads::Threads;
use crate::turns::{self, Bounds, is_in_every_turn};

/// The threads whose name a call of join can get.
pub(crate) fn named(code: &Code, point: Point) -> Vec<ThreadId> {
    let Some((effects, arguments)) = code.external(point) else {
        return Vec::new();
    };
    let points_to = &code.points_to;
    let names = effects.iter().find_map(|effect| match effect {
        Effect::Join { handle, .. } => {
            let operand = *arguments.get(*handle)?;
            Some(points_to.locations(point.instance, operand))
        }
        Effect::JoinBehind(argument) => {
            let operand = *arguments.get(*argument)?;
            let behind = points_to.locations(point.instance, operand).into_iter();
            Some(behind.flat_map(|at| points_to.behind(at)).collect())
        }
        _ => None,
    });
    let names = names.unwrap_or_default().into_iter();
    let mut threads: Vec<ThreadId> = names
        .filter_map(|at| match points_to.objects.origin(at.object) {
            Origin::Thread(thread) => Some(thread),
            _ => None,
        })
        .collect();
    threads.dedup();
    threads
}

impl Alive<'_, '_, '_> {
    /// The thread that has ended after a join, with what it has itself joined.
    ///
    /// A variable can hold the names of several threads one after the other: only those that may be alive can
    /// be joined here.
    pub(crate) fn joined(&mut self, point: Point, alive: &Threads) -> Vec<ThreadId> {
        let mut named = named(self.code, point);
        named.retain(|&thread| alive.contains(thread));
        let &[thread] = named.as_slice() else {
            return Vec::new();
        };
        let created = &self.code.points_to.instances.thread(thread).created;
        match created.as_slice() {
            [only] if self.code.is_executed_once(*only) => vec![thread],
            // Created and joined in one turn of a loop: the name lies in a variable of its own.
            [only] if only.instance == point.instance => {
                let flow = self.code.flow(point.instance);
                let cycle =
                    |id: InstructionId| flow.position(id).and_then(|(block, _)| flow.cycle(block));
                let is_same_turn = cycle(only.instruction) == cycle(point.instruction)
                    && flow.precedes(only.instruction, point.instruction)
                    && self.has_one_name(*only);
                if is_same_turn {
                    vec![thread]
                } else {
                    Vec::new()
                }
            }
            _ => Vec::new(),
        }
    }

    /// Whether the name of the thread is put into a variable, not an element of an array.
    fn has_one_name(&mut self, created: Point) -> bool {
        let Kind::Call { arguments, .. } = self.code.kind(created) else {
            return false;
        };
        let Some(&handle) = arguments.first() else {
            return false;
        };
        let places = self.code.points_to.locations(created.instance, handle);
        let objects = &self.code.points_to.objects;
        places
            .iter()
            .all(|&at| !objects.is_element(self.code.program, at))
    }

    /// The threads that have all ended when a loop of joins is left: it runs over the names that were given
    /// out, from the same start to the same end as the loop that created them.
    pub(crate) fn joined_by_loop(&mut self, last: Point, to: BlockId) -> Vec<ThreadId> {
        let code = self.code;
        let flow = code.flow(last.instance);
        let Some((header, _)) = flow.position(last.instruction) else {
            return Vec::new();
        };
        let Some(cycle) = flow.cycle(header) else {
            return Vec::new();
        };
        if flow.cycle(to) == Some(cycle) {
            return Vec::new();
        }
        let Some(bounds) = turns::bounds(code, self.symbols, last) else {
            return Vec::new();
        };
        let mut joined = Vec::new();
        for (block, id, _) in code.function(last.instance).listed() {
            if flow.cycle(block) != Some(cycle) {
                continue;
            }
            let point = Point {
                instance: last.instance,
                instruction: id,
            };
            // The join is in every turn: no way round it from the header to the header.
            let named = named(self.code, point);
            if named.is_empty() || !is_in_every_turn(code, point, header) {
                continue;
            }
            let number = i64::try_from(named.len()).unwrap_or(i64::MAX);
            let are_single = named.iter().all(|&thread| {
                let created = &code.points_to.instances.thread(thread).created;
                created.iter().all(|&at| code.is_executed_once(at))
            });
            if are_single && bounds.turns.is_some_and(|turns| turns >= number) {
                joined.extend(named);
                continue;
            }
            for thread in named {
                if self.has_bounds(thread, bounds) {
                    joined.push(thread);
                }
            }
        }
        joined
    }

    /// Whether the thread is created in a loop with these bounds only.
    fn has_bounds(&mut self, thread: ThreadId, bounds: Bounds) -> bool {
        let code = self.code;
        let [created] = code.points_to.instances.thread(thread).created.as_slice() else {
            return false;
        };
        if !code.is_entered_once(created.instance) {
            return false;
        }
        let flow = code.flow(created.instance);
        let Some(cycle) = flow
            .position(created.instruction)
            .and_then(|(block, _)| flow.cycle(block))
        else {
            return false;
        };
        let function = code.function(created.instance);
        let exits = function
            .blocks
            .iter()
            .enumerate()
            .filter_map(|(block, list)| {
                let block = BlockId::from_index(block);
                let leaves = flow
                    .successors(block)
                    .iter()
                    .any(|to| flow.cycle(*to) != Some(cycle));
                (flow.cycle(block) == Some(cycle) && leaves).then_some(*list.instructions.last()?)
            });
        let exits: Vec<InstructionId> = exits.collect();
        exits.iter().any(|&instruction| {
            let instance = created.instance;
            let other = turns::bounds(
                self.code,
                self.symbols,
                Point {
                    instance,
                    instruction,
                },
            );
            other.is_some_and(|other| other.start == bounds.start && other.end == bounds.end)
        })
    }

    /// How many threads of this kind there are in a run.
    pub(crate) fn count(&mut self, thread: ThreadId) -> Option<u64> {
        let [created] = self
            .code
            .points_to
            .instances
            .thread(thread)
            .created
            .as_slice()
        else {
            return (thread.index() == 0).then_some(1);
        };
        if self.code.is_executed_once(*created) {
            return Some(1);
        }
        if !self.code.is_entered_once(created.instance) {
            return None;
        }
        let flow = self.code.flow(created.instance);
        let (block, _) = flow.position(created.instruction)?;
        let cycle = flow.cycle(block)?;
        let blocks = self
            .code
            .function(created.instance)
            .blocks
            .iter()
            .enumerate();
        let mut exits = blocks.filter_map(|(at, list)| {
            let at = BlockId::from_index(at);
            let leaves = flow
                .successors(at)
                .iter()
                .any(|to| flow.cycle(*to) != Some(cycle));
            (flow.cycle(at) == Some(cycle) && leaves).then_some(*list.instructions.last()?)
        });
        let (Some(instruction), None) = (exits.next(), exits.next()) else {
            return None;
        };
        let instance = created.instance;
        let turns = turns::bounds(
            self.code,
            self.symbols,
            Point {
                instance,
                instruction,
            },
        );
        turns?.turns.and_then(|turns| u64::try_from(turns).ok())
    }
}
