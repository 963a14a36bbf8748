//! Forward data flow over all instances: facts go into calls and come back from them.
//!
//! An analysis is a [`Problem`]; the states of its blocks only ever move in the direction of `join`, so the
//! iteration ends. Calls of external functions are ordinary steps.

use norns_ir::{BlockId, Callee, InstructionId, Kind};

use crate::code::Code;
use crate::external::{Effect, effects};
use crate::instance::{InstanceId, Point};

pub trait Problem {
    type State: Clone + PartialEq;

    /// The state in which a thread enters its first function.
    fn start(&self, entry: InstanceId) -> Self::State;
    /// Adds what holds on another path.
    fn join(&self, into: &mut Self::State, other: &Self::State);
    /// One instruction that is not a call of a function with a body.
    fn step(&mut self, point: Point, state: &mut Self::State);
    /// What a branch says when it is taken to this block.
    fn branch(&mut self, point: Point, to: BlockId, state: &mut Self::State);
    fn enter(&mut self, call: Point, callee: InstanceId, state: &Self::State) -> Self::State;
    /// The state after a call, from the states before it, at the entry and at the exit of the callee.
    fn leave(
        &mut self,
        call: Point,
        callee: InstanceId,
        before: &Self::State,
        inside: (&Self::State, &Self::State),
    ) -> Self::State;
}

pub struct Solution<S> {
    /// For each instance and block the state at its start; `None` where no thread comes.
    blocks: Vec<Vec<Option<S>>>,
    exits: Vec<Option<S>>,
}

/// An instance is not visited more often than this: what goes on then is a summary that swings.
const MOST_VISITS: u32 = 200;

impl<S: Clone + PartialEq> Solution<S> {
    pub fn new<P: Problem<State = S>>(code: &Code, problem: &mut P) -> Self {
        let instances = &code.points_to.instances;
        let count = instances.len();
        let blocks = |id: InstanceId| vec![None; code.function(id).blocks.len()];
        let mut solution = Self {
            blocks: instances.ids().map(blocks).collect(),
            exits: vec![None; count],
        };
        let mut queue: Vec<InstanceId> = Vec::new();
        for thread in &instances.threads {
            for &entry in &thread.entries {
                let start = problem.start(entry);
                if let Some(first) = solution.blocks[entry.index()].first_mut() {
                    *first = Some(start);
                    queue.push(entry);
                }
            }
        }
        let mut is_queued = vec![false; count];
        let mut visits = vec![0_u32; count];
        while let Some(instance) = queue.pop() {
            is_queued[instance.index()] = false;
            visits[instance.index()] += 1;
            if visits[instance.index()] > MOST_VISITS {
                continue;
            }
            for changed in solution.visit(code, problem, instance) {
                if !std::mem::replace(&mut is_queued[changed.index()], true) {
                    queue.push(changed);
                }
            }
        }
        solution
    }

    /// Goes through the blocks of an instance until nothing changes; returns the instances to visit again.
    fn visit<P: Problem<State = S>>(
        &mut self,
        code: &Code,
        problem: &mut P,
        instance: InstanceId,
    ) -> Vec<InstanceId> {
        let flow = code.flow(instance);
        let mut changed_instances = Vec::new();
        let mut exit: Option<S> = None;
        let mut changed = true;
        let mut rounds = 0;
        while changed && rounds < MOST_VISITS {
            changed = false;
            rounds += 1;
            exit = None;
            for &block in flow.order() {
                let Some(state) = self.blocks[instance.index()][block.index()].clone() else {
                    continue;
                };
                let Some(end) = self.run(
                    code,
                    problem,
                    instance,
                    block,
                    state,
                    &mut changed_instances,
                ) else {
                    continue;
                };
                let Some(&last) = code.function(instance).blocks[block.index()]
                    .instructions
                    .last()
                else {
                    continue;
                };
                if flow.successors(block).is_empty() {
                    let kind = &code.function(instance).instruction(last).kind;
                    if matches!(kind, Kind::Return(_) | Kind::Resume(_)) {
                        merge(problem, &mut exit, &end);
                    }
                }
                for &to in flow.successors(block) {
                    let mut state = end.clone();
                    let point = Point {
                        instance,
                        instruction: last,
                    };
                    problem.branch(point, to, &mut state);
                    changed |= merge(
                        problem,
                        &mut self.blocks[instance.index()][to.index()],
                        &state,
                    );
                }
            }
        }
        if exit.is_some() && self.exits[instance.index()] != exit {
            self.exits[instance.index()] = exit;
            let callers = &code.points_to.instances.get(instance).callers;
            changed_instances.extend(callers.iter().map(|call| call.instance));
        }
        changed_instances
    }

    /// The state at the end of a block, unless a call in it does not return.
    fn run<P: Problem<State = S>>(
        &mut self,
        code: &Code,
        problem: &mut P,
        instance: InstanceId,
        block: BlockId,
        mut state: S,
        changed: &mut Vec<InstanceId>,
    ) -> Option<S> {
        let list = &code.function(instance).blocks[block.index()].instructions;
        for &instruction in list {
            let point = Point {
                instance,
                instruction,
            };
            let callees = code.points_to.instances.callees(point);
            if callees.is_empty() {
                if never_returns(code, point) {
                    return None;
                }
                problem.step(point, &mut state);
                continue;
            }
            problem.step(point, &mut state);
            let mut after: Option<S> = None;
            for &callee in callees {
                let inside = problem.enter(point, callee, &state);
                if let Some(first) = self.blocks[callee.index()].first_mut()
                    && merge(problem, first, &inside)
                {
                    changed.push(callee);
                }
                let ends = (&self.blocks[callee.index()][0], &self.exits[callee.index()]);
                if let (Some(entry), Some(exit)) = ends {
                    let left = problem.leave(point, callee, &state, (entry, exit));
                    merge(problem, &mut after, &left);
                }
            }
            if code.may_skip_callees(point) {
                merge(problem, &mut after, &state);
            }
            state = after?;
        }
        Some(state)
    }

    /// Calls `look` with the state before every instruction of an instance that can be executed.
    pub fn for_each<P: Problem<State = S>>(
        &mut self,
        code: &Code,
        problem: &mut P,
        instance: InstanceId,
        mut look: impl FnMut(InstructionId, &S),
    ) {
        let function = code.function(instance);
        for (block, list) in function.blocks.iter().enumerate() {
            let Some(mut state) = self.blocks[instance.index()][block].clone() else {
                continue;
            };
            for &instruction in &list.instructions {
                look(instruction, &state);
                let point = Point {
                    instance,
                    instruction,
                };
                match self.after(code, problem, point, &state) {
                    Some(next) => state = next,
                    None => break,
                }
            }
        }
    }

    fn after<P: Problem<State = S>>(
        &mut self,
        code: &Code,
        problem: &mut P,
        point: Point,
        before: &S,
    ) -> Option<S> {
        let callees = code.points_to.instances.callees(point);
        let mut state = before.clone();
        if callees.is_empty() && never_returns(code, point) {
            return None;
        }
        problem.step(point, &mut state);
        if callees.is_empty() {
            return Some(state);
        }
        let mut after = None;
        for &callee in callees {
            let ends = (
                self.blocks[callee.index()].first(),
                &self.exits[callee.index()],
            );
            if let (Some(Some(entry)), Some(exit)) = ends {
                let left = problem.leave(point, callee, &state, (entry, exit));
                merge(problem, &mut after, &left);
            }
        }
        if code.may_skip_callees(point) {
            merge(problem, &mut after, &state);
        }
        after
    }

    #[must_use]
    pub fn exit(&self, instance: InstanceId) -> Option<&S> {
        self.exits[instance.index()].as_ref()
    }
}

fn merge<P: Problem>(problem: &P, into: &mut Option<P::State>, other: &P::State) -> bool {
    match into {
        None => {
            *into = Some(other.clone());
            true
        }
        Some(old) => {
            let before = old.clone();
            problem.join(old, other);
            *old != before
        }
    }
}

fn never_returns(code: &Code, point: Point) -> bool {
    let function = code.function(point.instance);
    match &function.instruction(point.instruction).kind {
        Kind::Call {
            callee: Callee::Function(called),
            ..
        } => {
            let called = code.program.function(*called);
            let effects = effects(&called.name).unwrap_or(&[]);
            called.is_declaration() && effects.contains(&Effect::NeverReturns)
        }
        _ => false,
    }
}
