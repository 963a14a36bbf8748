//! A program as the analyses see it: its instances with their control flow, and what is asked of them often.

use norns_ir::{Callee, Function, Kind, Operand, Program};
use rustc_hash::FxHashMap;

use crate::external::{Effect, effects, is_external};
use crate::flow::Flow;
use crate::instance::{InstanceId, Point, ThreadId};
use crate::object::{ObjectId, Origin};
use crate::points_to::PointsTo;

/// Whether an effect leaves alone what pointers lead to.
fn is_local(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Reads(..)
            | Effect::Writes(..)
            | Effect::Frees(_)
            | Effect::Lock(..)
            | Effect::TryLock(..)
            | Effect::Unlock(_)
            | Effect::Wait { .. }
            | Effect::Signal(_)
            | Effect::SemaphoreWait { .. }
            | Effect::SemaphorePost(_)
            | Effect::BarrierWait(_)
            | Effect::MutexInit(_)
            | Effect::Renews(_)
    )
}

pub struct Code<'p> {
    pub program: &'p Program,
    pub points_to: PointsTo<'p>,
    /// By function; `None` for those that no instance has.
    flows: Vec<Option<Flow>>,
    /// By function; `None` for those with a body and those that are unknown.
    effects: Vec<Option<&'static [Effect]>>,
    /// The calls through pointers that can only lead to functions of a library which all do the same.
    through: FxHashMap<Point, &'static [Effect]>,
    /// Whether an instance is entered at most once in a run.
    is_once: Vec<bool>,
    /// The threads that can run each instance.
    threads: Vec<Vec<ThreadId>>,
}

impl<'p> Code<'p> {
    #[must_use]
    pub fn new(program: &'p Program) -> Self {
        let points_to = PointsTo::new(program);
        let mut flows: Vec<Option<Flow>> = Vec::new();
        flows.resize_with(program.functions.len(), || None);
        for id in points_to.instances.ids() {
            let function = points_to.instances.get(id).function;
            flows[function.index()].get_or_insert_with(|| Flow::new(program.function(function)));
        }
        let known = |function: &Function| {
            is_external(function)
                .then(|| effects(&function.name))
                .flatten()
        };
        let mut code = Self {
            program,
            flows,
            effects: program.functions.iter().map(known).collect(),
            through: FxHashMap::default(),
            is_once: Vec::new(),
            threads: Vec::new(),
            points_to,
        };
        code.find_through();
        code.find_once();
        code.find_threads();
        code
    }

    /// Finds what calls through pointers do that only lead to functions without a body: locks in a table of
    /// functions. Effects that change what pointers lead to are left out, since points-to has not seen them.
    fn find_through(&mut self) {
        let mut found = FxHashMap::default();
        for point in self.points() {
            let (Kind::Call {
                callee: Callee::Indirect(pointer),
                ..
            }
            | Kind::Invoke {
                callee: Callee::Indirect(pointer),
                ..
            }) = *self.kind(point)
            else {
                continue;
            };
            if !self.points_to.instances.callees(point).is_empty() {
                continue;
            }
            let targets = self.points_to.locations(point.instance, pointer);
            let mut all = targets.iter().map(|at| {
                let Origin::Function(id) = self.points_to.objects.origin(at.object) else {
                    return None;
                };
                self.effects[id.index()].filter(|effects| effects.iter().all(is_local))
            });
            if let Some(Some(first)) = all.next()
                && all.all(|other| other == Some(first))
            {
                found.insert(point, first);
            }
        }
        self.through = found;
    }

    #[must_use]
    pub fn function(&self, instance: InstanceId) -> &'p Function {
        self.program
            .function(self.points_to.instances.get(instance).function)
    }

    #[must_use]
    pub fn kind(&self, point: Point) -> &'p Kind {
        &self
            .function(point.instance)
            .instruction(point.instruction)
            .kind
    }

    /// Every instruction of every instance.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        self.points_to
            .instances
            .ids()
            .flat_map(|instance| self.points_of(instance))
    }

    /// The instructions of one instance.
    pub fn points_of(&self, instance: InstanceId) -> impl Iterator<Item = Point> + use<'p> {
        let listed = self.function(instance).listed();
        listed.map(move |(_, instruction, _)| Point {
            instance,
            instruction,
        })
    }

    #[must_use]
    pub fn flow(&self, instance: InstanceId) -> &Flow {
        let function = self.points_to.instances.get(instance).function;
        self.flows[function.index()]
            .as_ref()
            .expect("every instance has the flow of its function")
    }

    /// The effects and arguments of a call of an external function.
    #[must_use]
    pub fn external(&self, point: Point) -> Option<(&'static [Effect], &'p [Operand])> {
        let (Kind::Call {
            callee, arguments, ..
        }
        | Kind::Invoke {
            callee, arguments, ..
        }) = self.kind(point)
        else {
            return None;
        };
        let effects = match callee {
            Callee::Function(called) => self.effects[called.index()],
            _ => self.through.get(&point).copied(),
        };
        effects.map(|effects| (effects, arguments.as_slice()))
    }

    /// What a call passes to a parameter of an instance; `None` for calls that an external function makes.
    #[must_use]
    pub fn argument(&self, call: Point, number: usize) -> Option<Operand> {
        let (Kind::Call {
            callee, arguments, ..
        }
        | Kind::Invoke {
            callee, arguments, ..
        }) = self.kind(call)
        else {
            return None;
        };
        match callee {
            Callee::Function(function) if is_external(self.program.function(*function)) => None,
            _ => arguments.get(number).copied(),
        }
    }

    /// Whether a call that leads to instances may also go on without them: callbacks and `once`.
    #[must_use]
    pub fn may_skip_callees(&self, point: Point) -> bool {
        self.is_call_of_library(point)
    }

    /// Whether a call is of a function without a body.
    #[must_use]
    pub fn is_call_of_library(&self, point: Point) -> bool {
        let (Kind::Call { callee, .. } | Kind::Invoke { callee, .. }) = self.kind(point) else {
            return false;
        };
        matches!(callee, Callee::Function(called) if is_external(self.program.function(*called)))
    }

    /// Whether an instruction is executed at most once in a run.
    #[must_use]
    pub fn is_executed_once(&self, point: Point) -> bool {
        self.is_once[point.instance.index()]
            && !self.flow(point.instance).is_in_cycle(point.instruction)
    }

    #[must_use]
    pub fn is_entered_once(&self, instance: InstanceId) -> bool {
        self.is_once[instance.index()]
    }

    /// Whether an abstract object stands for one concrete object.
    #[must_use]
    pub fn is_unique(&self, object: ObjectId) -> bool {
        match self.points_to.objects.origin(object) {
            Origin::Global(global) => !self.program.global(global).is_thread_local,
            Origin::Function(_) | Origin::Queues | Origin::Hidden(_) => true,
            Origin::Stack(instance, instruction)
            | Origin::Heap(instance, instruction)
            | Origin::Channel(instance, instruction) => self.is_executed_once(Point {
                instance,
                instruction,
            }),
            Origin::Thread(_) | Origin::Local(..) | Origin::Any(_) => false,
        }
    }

    #[must_use]
    pub fn threads_of(&self, instance: InstanceId) -> &[ThreadId] {
        &self.threads[instance.index()]
    }

    fn find_once(&mut self) {
        let instances = &self.points_to.instances;
        // `None` while an instance is being decided: a cycle of callers.
        let mut known: Vec<Option<bool>> = vec![None; instances.len()];
        for id in instances.ids() {
            let mut chain = vec![id];
            let mut answer = loop {
                let at = *chain.last().expect("the chain begins with the instance");
                if let Some(known) = known[at.index()] {
                    break known;
                }
                let call = match instances.entered_by(at) {
                    Some(thread) if thread.index() == 0 => break true,
                    Some(thread) => match instances.thread(thread).created.as_slice() {
                        [only] if instances.get(at).callers.is_empty() => *only,
                        _ => break false,
                    },
                    None => match instances.only_caller(at) {
                        Some(call) => call,
                        None => break false,
                    },
                };
                if chain.contains(&call.instance) {
                    break false;
                }
                let is_once = |effects: &[Effect]| matches!(effects, [Effect::Once { .. }]);
                let calls_often = self.is_call_of_library(call)
                    && instances.creations(call).is_empty()
                    && !self
                        .external(call)
                        .is_some_and(|(effects, _)| is_once(effects));
                if calls_often || self.flow(call.instance).is_in_cycle(call.instruction) {
                    break false;
                }
                chain.push(call.instance);
            };
            for at in chain.into_iter().rev() {
                answer = *known[at.index()].get_or_insert(answer);
            }
        }
        self.is_once = known.into_iter().map(Option::unwrap_or_default).collect();
    }

    fn find_threads(&mut self) {
        let instances = &self.points_to.instances;
        let mut callees: Vec<Vec<InstanceId>> = vec![Vec::new(); instances.len()];
        for id in instances.ids() {
            for call in &instances.get(id).callers {
                callees[call.instance.index()].push(id);
            }
        }
        self.threads = vec![Vec::new(); instances.len()];
        for (number, thread) in instances.threads.iter().enumerate() {
            let number = ThreadId::from_index(number);
            let mut stack = thread.entries.clone();
            while let Some(at) = stack.pop() {
                let threads = &mut self.threads[at.index()];
                if threads.last() != Some(&number) {
                    threads.push(number);
                    stack.extend(&callees[at.index()]);
                }
            }
        }
    }
}
