//! Forward data flow over all instances: facts go into calls and come back from them.
//!
//! An analysis is a [`Problem`]; the states of its blocks only ever move in the direction of `join`, so the
//! iteration ends. Calls of external functions are ordinary steps. What a function returns with and what it
//! leaves by an exception with are told apart.

use norns_ir::{BlockId, Callee, InstructionId, Kind};

use crate::code::Code;
use crate::external::Effect;
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
    /// For each instance the state at its returns.
    exits: Vec<Option<S>>,
    /// For each instance the state in which an exception leaves it.
    thrown: Vec<Option<S>>,
    has_exceptions: bool,
}

/// The states at the end of a block; `None` where it does not get there.
struct Ends<S> {
    normal: Option<S>,
    /// Where the call at its end throws.
    unwound: Option<S>,
}

/// An instance is not visited more often than this: what goes on then is a summary that swings.
const MOST_VISITS: u32 = 1_000;

/// The blocks that are to be gone through again, and the instances that have some.
struct Work {
    queue: Vec<InstanceId>,
    blocks: Vec<Vec<bool>>,
    is_queued: Vec<bool>,
}

impl Work {
    fn add(&mut self, instance: InstanceId, block: BlockId) {
        self.blocks[instance.index()][block.index()] = true;
        if !std::mem::replace(&mut self.is_queued[instance.index()], true) {
            self.queue.push(instance);
        }
    }
}

impl<S: Clone + PartialEq> Solution<S> {
    pub fn new<P: Problem<State = S>>(code: &Code, problem: &mut P) -> Self {
        let instances = &code.points_to.instances;
        let count = instances.len();
        let length = |id: InstanceId| code.function(id).blocks.len();
        let mut solution = Self {
            blocks: instances.ids().map(|id| vec![None; length(id)]).collect(),
            exits: vec![None; count],
            thrown: vec![None; count],
            has_exceptions: has_exceptions(code),
        };
        let mut work = Work {
            queue: Vec::new(),
            blocks: instances.ids().map(|id| vec![false; length(id)]).collect(),
            is_queued: vec![false; count],
        };
        for thread in &instances.threads {
            for &entry in &thread.entries {
                let start = problem.start(entry);
                if let Some(first) = solution.blocks[entry.index()].first_mut() {
                    *first = Some(start);
                    work.add(entry, BlockId::from_index(0));
                }
            }
        }
        let mut visits = vec![0_u32; count];
        while let Some(instance) = work.queue.pop() {
            work.is_queued[instance.index()] = false;
            visits[instance.index()] += 1;
            if visits[instance.index()] <= MOST_VISITS {
                solution.visit(code, problem, instance, &mut work);
            }
        }
        solution
    }

    /// Goes once through the blocks of an instance whose state has changed, in the order of control flow.
    fn visit<P: Problem<State = S>>(
        &mut self,
        code: &Code,
        problem: &mut P,
        instance: InstanceId,
        work: &mut Work,
    ) {
        let flow = code.flow(instance);
        let function = code.function(instance);
        for &block in flow.order() {
            if !std::mem::take(&mut work.blocks[instance.index()][block.index()]) {
                continue;
            }
            let Some(state) = self.blocks[instance.index()][block.index()].clone() else {
                continue;
            };
            let ends = self.run(code, problem, (instance, block), state, work);
            let Some(&instruction) = function.blocks[block.index()].instructions.last() else {
                continue;
            };
            let kind = &function.instruction(instruction).kind;
            match (kind, &ends.normal) {
                (Kind::Return(_), Some(end))
                    if merge(problem, &mut self.exits[instance.index()], end) =>
                {
                    queue_callers(code, instance, work);
                }
                (Kind::Resume(_), Some(end)) => self.throw(code, problem, instance, end, work),
                _ => {}
            }
            let point = Point {
                instance,
                instruction,
            };
            for &to in flow.successors(block) {
                let end = match kind {
                    Kind::Invoke { normal, unwind, .. } if *unwind == to && normal != unwind => {
                        &ends.unwound
                    }
                    _ => &ends.normal,
                };
                let Some(end) = end else {
                    continue;
                };
                let mut state = end.clone();
                problem.branch(point, to, &mut state);
                let into = &mut self.blocks[instance.index()][to.index()];
                if merge(problem, into, &state) {
                    work.add(instance, to);
                }
            }
        }
    }

    /// An exception leaves an instance in this state.
    fn throw<P: Problem<State = S>>(
        &mut self,
        code: &Code,
        problem: &P,
        instance: InstanceId,
        state: &S,
        work: &mut Work,
    ) {
        if self.has_exceptions && merge(problem, &mut self.thrown[instance.index()], state) {
            queue_callers(code, instance, work);
        }
    }

    fn run<P: Problem<State = S>>(
        &mut self,
        code: &Code,
        problem: &mut P,
        (instance, block): (InstanceId, BlockId),
        mut state: S,
        work: &mut Work,
    ) -> Ends<S> {
        let list = &code.function(instance).blocks[block.index()].instructions;
        let mut unwound = None;
        for &instruction in list {
            let point = Point {
                instance,
                instruction,
            };
            let callees = code.points_to.instances.callees(point);
            let mut thrown: Option<S> = None;
            if self.has_exceptions && may_throw_itself(code, point) {
                // What throws has done nothing: no thread was created, none joined.
                thrown = Some(state.clone());
            }
            problem.step(point, &mut state);
            let mut after: Option<S> = None;
            for &callee in callees {
                let inside = problem.enter(point, callee, &state);
                if let Some(first) = self.blocks[callee.index()].first_mut()
                    && merge(problem, first, &inside)
                {
                    work.add(callee, BlockId::from_index(0));
                }
                let Some(entry) = &self.blocks[callee.index()][0] else {
                    continue;
                };
                if let Some(exit) = &self.exits[callee.index()] {
                    let left = problem.leave(point, callee, &state, (entry, exit));
                    merge(problem, &mut after, &left);
                }
                if let Some(exit) = &self.thrown[callee.index()] {
                    let left = problem.leave(point, callee, &state, (entry, exit));
                    merge(problem, &mut thrown, &left);
                }
            }
            if callees.is_empty() {
                after = (!never_returns(code, point)).then_some(state);
            } else if code.may_skip_callees(point) {
                merge(problem, &mut after, &state);
            }
            if matches!(code.kind(point), Kind::Invoke { .. }) {
                unwound = thrown;
            } else if let Some(thrown) = thrown {
                self.throw(code, problem, instance, &thrown, work);
            }
            match after {
                Some(next) => state = next,
                None => {
                    return Ends {
                        normal: None,
                        unwound,
                    };
                }
            }
        }
        Ends {
            normal: Some(state),
            unwound,
        }
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
        Some(old) if old == other => false,
        Some(old) => {
            let before = old.clone();
            problem.join(old, other);
            *old != before
        }
    }
}

fn never_returns(code: &Code, point: Point) -> bool {
    code.external(point)
        .is_some_and(|(effects, _)| effects.contains(&Effect::NeverReturns))
}

fn queue_callers(code: &Code, instance: InstanceId, work: &mut Work) {
    for call in &code.points_to.instances.get(instance).callers {
        let position = code.flow(call.instance).position(call.instruction);
        if let Some((block, _)) = position {
            work.add(call.instance, block);
        }
    }
}

fn has_exceptions(code: &Code) -> bool {
    let mut functions = code.program.functions.iter();
    functions.any(|function| {
        let mut listed = function.listed();
        listed.any(|(_, _, instruction)| matches!(instruction.kind, Kind::Invoke { .. }))
    })
}

/// Whether a call can throw something that no function with a body throws: functions of C++ without a body, and
/// what is not known. Functions of C and destructors do not throw.
fn may_throw_itself(code: &Code, point: Point) -> bool {
    let (Kind::Call { callee, .. } | Kind::Invoke { callee, .. }) = code.kind(point) else {
        return false;
    };
    let Callee::Function(called) = callee else {
        return code.points_to.instances.callees(point).is_empty();
    };
    let never_throws = || {
        let name = code.program.function(*called).name.as_str();
        let is_destructor = ["D0Ev", "D1Ev", "D2Ev"]
            .iter()
            .any(|end| name.ends_with(end));
        let throws =
            name.starts_with("_Z") || name.starts_with("__cxa") || name == "_Unwind_Resume";
        is_destructor || !throws && code.external(point).is_some()
    };
    code.is_call_of_library(point) && !never_throws()
}
