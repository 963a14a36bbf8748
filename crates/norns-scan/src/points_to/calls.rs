//! Calls: of functions with a body, through pointers, and of external functions by their effects.

use norns_ir::{Callee, Constant, ConstantId, FunctionId, Kind, Operand, Type, TypeId};

use super::solver::NodeId;
use super::{Constraint, CopyMemory, Library, Part, PointsTo, Site, SiteKind};
use crate::external::{Effect, effects, is_external};
use crate::instance::{InstanceId, Point};
use crate::object::{LocationId, Origin};
use crate::structure::Shape;

/// What `std::call_once` has `pthread_once` call: it calls the function in a variable of the thread.
const ONCE_PROXY: &str = "__once_proxy";
const ONCE_CALL: &str = "_ZSt11__once_call";

/// A library passes no more arguments than this to the functions that it calls.
const MOST_PARAMETERS: usize = 6;

/// The part of a function's name that the functions of its library share: up to the first underscore, or the
/// namespace and class.
fn library(name: &str) -> &str {
    if let Some(nested) = name.strip_prefix("_ZN") {
        let digits = nested.len()
            - nested
                .trim_start_matches(|letter: char| letter.is_ascii_digit())
                .len();
        let length = nested[..digits].parse().unwrap_or(0_usize);
        return name.get(..3 + digits + length).unwrap_or(name);
    }
    let start = name.len() - name.trim_start_matches('_').len();
    let end = name[start..].find('_').map_or(name.len(), |at| start + at);
    &name[..end]
}

/// Whether the name of a library's function says that it calls what was registered before.
fn runs_callbacks(name: &str) -> bool {
    const WORDS: [&str; 9] = [
        "loop", "dispatch", "run", "poll", "wait", "main", "perform", "process", "iterat",
    ];
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word)) && !name.contains("exit")
}

impl PointsTo<'_> {
    pub(super) fn call(
        &mut self,
        point: Point,
        function: FunctionId,
        arguments: &[Operand],
        to: NodeId,
    ) {
        let callee = self.program.function(function);
        if !is_external(callee) {
            let nodes = self.argument_nodes(point.instance, arguments);
            self.connect(point, function, &nodes, Some(to), true);
            return;
        }
        match effects(&callee.name) {
            Some(effects) => {
                // Later analyses ask where the arguments point to, constants included.
                self.argument_nodes(point.instance, arguments);
                for &effect in effects {
                    self.external(point, effect, arguments, to);
                }
            }
            None => {
                self.unknown.entry(function).or_insert(point);
                self.call_library(point, &callee.name, arguments);
            }
        }
    }

    /// A call of a function that nothing is known of: whatever function its library was given may be called
    /// here, with anything that was given beside it.
    fn call_library(&mut self, point: Point, name: &str, arguments: &[Operand]) {
        let next = self.libraries.len();
        let number = *self
            .library_names
            .entry(library(name).to_owned())
            .or_insert(next);
        if number == next {
            let functions = self.program.functions.iter();
            let mut functions = functions.filter(|function| function.is_declaration());
            let runs = |other: &str| library(other) == library(name) && runs_callbacks(other);
            self.libraries.push(Library {
                has_runner: functions.any(|function| runs(&function.name)),
                ..Library::default()
            });
        }
        self.add_call(number, point, name);
        let given = self.solver.node();
        for argument in self.argument_nodes(point.instance, arguments) {
            self.solver.copy(argument, given);
        }
        let site = Site {
            point,
            kind: SiteKind::Register { library: number },
            arguments: vec![given],
            result: None,
        };
        self.site(Some(given), site);
    }

    /// One more call of a library. If the program calls functions of it that are known by their names to run
    /// callbacks, the others are taken not to.
    fn add_call(&mut self, number: usize, point: Point, name: &str) {
        let known = &mut self.libraries[number];
        if known.has_runner && !runs_callbacks(name) {
            return;
        }
        known.calls.push(point);
        for (function, given) in known.callbacks.clone() {
            self.connect(point, function, &[given; MOST_PARAMETERS], None, false);
        }
    }

    /// One more function that a library may call.
    fn register(&mut self, library: usize, function: FunctionId, given: NodeId) {
        if self.libraries[library]
            .callbacks
            .contains(&(function, given))
        {
            return;
        }
        self.libraries[library].callbacks.push((function, given));
        for point in self.libraries[library].calls.clone() {
            self.connect(point, function, &[given; MOST_PARAMETERS], None, false);
        }
    }

    pub(super) fn call_through(
        &mut self,
        point: Point,
        pointer: Operand,
        arguments: &[Operand],
        to: NodeId,
    ) {
        let arguments = self.argument_nodes(point.instance, arguments);
        let pointer = self.operand(point.instance, pointer);
        self.site(
            pointer,
            Site {
                point,
                kind: SiteKind::Call,
                arguments,
                result: Some(to),
            },
        );
    }

    fn site(&mut self, pointer: Option<NodeId>, site: Site) {
        let Some(pointer) = pointer else {
            return;
        };
        let number = u32::try_from(self.sites.len()).expect("fewer calls than instructions");
        self.sites.push(site);
        self.watch(pointer, Constraint::Call(number));
    }

    /// A node for every argument; one that points nowhere for those without pointers.
    fn argument_nodes(&mut self, instance: InstanceId, arguments: &[Operand]) -> Vec<NodeId> {
        let mut nodes = Vec::with_capacity(arguments.len());
        for &argument in arguments {
            let node = match self.operand(instance, argument) {
                Some(node) => node,
                None => self.solver.node(),
            };
            nodes.push(node);
        }
        nodes
    }

    fn connect(
        &mut self,
        point: Point,
        function: FunctionId,
        arguments: &[NodeId],
        result: Option<NodeId>,
        is_direct: bool,
    ) {
        let (callee, is_new) = self
            .instances
            .call(self.program, point, function, is_direct);
        if is_new {
            self.begin(callee);
        }
        if is_new && self.instances.is_clone(callee) {
            // Nobody else calls it: its parameters are the arguments, and its result is the call's.
            for (number, &argument) in arguments.iter().enumerate() {
                if let Some(parameter) = self.parameter(callee, number) {
                    self.solver.unify(parameter, argument);
                }
            }
            if let Some(to) = result {
                let from = self.result(callee);
                self.solver.unify(to, from);
            }
            return;
        }
        self.pass(callee, arguments);
        if let Some(to) = result {
            let from = self.result(callee);
            self.solver.copy(from, to);
        }
    }

    fn pass(&mut self, callee: InstanceId, arguments: &[NodeId]) {
        for (number, &argument) in arguments.iter().enumerate() {
            if let Some(parameter) = self.parameter(callee, number) {
                self.solver.copy(argument, parameter);
            }
        }
    }

    /// A call site learns one more function that it can lead to.
    pub(super) fn apply_call(&mut self, site: usize, location: LocationId) {
        let object = self.objects.location(location).object;
        let Origin::Function(function) = self.objects.origin(object) else {
            return;
        };
        let Site {
            point,
            kind,
            arguments,
            result,
        } = self.sites[site].clone();
        if is_external(self.program.function(function)) {
            let name = &self.program.function(function).name;
            if name == ONCE_PROXY {
                self.call_once_proxy(point);
                return;
            }
            // Effects on operands need a call by name; allocation through a pointer is the common case.
            match (effects(name), result) {
                (Some(effects), Some(to)) if effects.contains(&Effect::Allocates) => {
                    self.allocate(point, to);
                }
                (Some(_), _) => {}
                (None, _) => {
                    self.unknown.entry(function).or_insert(point);
                }
            }
            return;
        }
        match kind {
            SiteKind::Register { library } => self.register(library, function, arguments[0]),
            SiteKind::Call if !self.fits(point, function) => {}
            SiteKind::Call => self.connect(point, function, &arguments, result, false),
            SiteKind::Create { handle, argument } => {
                let created = self
                    .instances
                    .create(self.program, point, function, argument);
                if let (_, Some(entry)) = created {
                    self.begin(entry);
                }
                let entries = self.instances.thread(created.0).entries.clone();
                for entry in entries {
                    self.pass(entry, &arguments);
                }
                let thread = self.objects.object(Origin::Thread(created.0), None);
                let place = self.location_of(thread);
                if let Some(handle) = handle {
                    let name = self.solver.node();
                    self.solver.add(name, place);
                    self.store_behind(handle, name);
                }
            }
            SiteKind::AtExit => {
                let known = self
                    .instances
                    .thread(crate::instance::ThreadId::from_index(0));
                let mut entries = known.entries.iter();
                let is_known = entries.any(|&at| self.instances.get(at).function == function);
                if !is_known {
                    let entry = self.instances.enter(self.program, function);
                    self.begin(entry);
                    self.pass(entry, &arguments);
                }
            }
        }
    }

    /// Whether a call through a pointer can lead to a function: it passes as many arguments of the same kinds
    /// as the function takes. A function without parameters may get any: C allows the cast, and programs use it.
    fn fits(&self, point: Point, function: FunctionId) -> bool {
        let caller = self
            .program
            .function(self.instances.get(point.instance).function);
        let (Kind::Call {
            callee, signature, ..
        }
        | Kind::Invoke {
            callee, signature, ..
        }) = &caller.instruction(point.instruction).kind
        else {
            return true;
        };
        let types = &self.program.types;
        let taken = types.get(self.program.function(function).r#type);
        let (
            Callee::Indirect(_),
            Type::Function {
                parameters: passed,
                is_variadic,
                ..
            },
        ) = (callee, types.get(*signature))
        else {
            return true;
        };
        let Type::Function {
            parameters: taken,
            is_variadic: takes_more,
            ..
        } = taken
        else {
            return true;
        };
        let is_open = *is_variadic || *takes_more;
        let sort = |r#type: &TypeId| match types.get(*r#type) {
            Type::Pointer => 0,
            Type::Integer(_) => 1,
            Type::Float(_) => 2,
            _ => 3,
        };
        let same = passed.iter().map(sort).zip(taken.iter().map(sort));
        taken.is_empty()
            || (is_open || passed.len() == taken.len()) && { same }.all(|(a, b)| a == b)
    }

    fn allocate(&mut self, point: Point, to: NodeId) {
        let origin = Origin::Heap(point.instance, point.instruction);
        let object = self.objects.object(origin, None);
        let shape = self.structures.of_allocation(&self.instances, point);
        if self.shapes.len() <= object.index() {
            self.shapes.resize(object.index() + 1, None);
        }
        self.shapes[object.index()] = shape;
        if let Some(Shape { r#type, size }) = shape {
            let merges = if size == Some(self.program.types.size(r#type)) {
                self.objects.is_one(self.program, object, r#type)
            } else {
                self.objects.read_as(self.program, object, r#type)
            };
            self.merge(&merges);
        }
        let place = self.location_of(object);
        self.solver.add(to, place);
    }

    fn external(&mut self, point: Point, effect: Effect, arguments: &[Operand], to: NodeId) {
        let instance = point.instance;
        let argument = |number: usize| arguments.get(number).copied();
        match effect {
            Effect::Allocates => self.allocate(point, to),
            Effect::AllocatesInto(number) => {
                let new = self.solver.node();
                self.allocate(point, new);
                let into = argument(number).and_then(|operand| self.operand(instance, operand));
                if let Some(into) = into {
                    self.store_behind(into, new);
                }
            }
            Effect::Returns(number) => {
                if let Some(operand) = argument(number) {
                    self.copy_operand(instance, operand, to);
                }
            }
            Effect::Copies { to, from } => {
                let nodes = (argument(to), argument(from));
                if let (Some(to), Some(from)) = nodes {
                    let nodes = (self.operand(instance, to), self.operand(instance, from));
                    if let (Some(to), Some(from)) = nodes {
                        let seen = (0, 0, 0);
                        self.memory_copies.push(CopyMemory { to, from, seen });
                    }
                }
            }
            Effect::Create {
                handle,
                start,
                argument: passed,
            } => {
                let handle = argument(handle).and_then(|operand| self.operand(instance, operand));
                let passes: Vec<Operand> = argument(passed).into_iter().collect();
                let arguments = self.argument_nodes(instance, &passes);
                let start = argument(start).and_then(|operand| self.operand(instance, operand));
                let kind = SiteKind::Create {
                    handle,
                    argument: argument(passed),
                };
                self.site(
                    start,
                    Site {
                        point,
                        kind,
                        arguments,
                        result: None,
                    },
                );
            }
            Effect::CreateFromState => self.create_from_state(point, arguments),
            Effect::Join { handle, result } => {
                let handle = argument(handle).and_then(|operand| self.operand(instance, operand));
                let behind = result.and_then(argument);
                let behind = behind.and_then(|operand| self.operand(instance, operand));
                if let (Some(handle), Some(behind)) = (handle, behind) {
                    self.watch(handle, Constraint::Join(behind));
                }
            }
            Effect::Calls { function, passes } => {
                let passes: Vec<Operand> = passes.iter().filter_map(|&at| argument(at)).collect();
                self.callback(point, argument(function), &passes, SiteKind::Call);
            }
            Effect::Once { function } | Effect::CallsLater(function) => {
                self.callback(point, argument(function), &[], SiteKind::Call);
            }
            Effect::AtExit { function, passes } => {
                let passes: Vec<Operand> = passes.iter().filter_map(|&at| argument(at)).collect();
                self.callback(point, argument(function), &passes, SiteKind::AtExit);
            }
            Effect::SetSpecific(number) => {
                let specific = self.specific_of(instance);
                if let Some(operand) = argument(number) {
                    self.copy_operand(instance, operand, specific);
                }
            }
            Effect::GetSpecific => {
                let specific = self.specific_of(instance);
                self.solver.copy(specific, to);
            }
            Effect::Connects(number) => {
                let origin = Origin::Channel(instance, point.instruction);
                let object = self.objects.object(origin, None);
                let place = self.location_of(object);
                self.solver.make_descriptor(place);
                let name = self.solver.node();
                self.solver.add(name, place);
                if let Some(into) =
                    argument(number).and_then(|operand| self.operand(instance, operand))
                {
                    self.store_behind(into, name);
                }
            }
            Effect::OpensChannel => {
                let origin = Origin::Channel(instance, point.instruction);
                let object = self.objects.object(origin, None);
                let place = self.location_of(object);
                self.solver.make_descriptor(place);
                self.solver.add(to, place);
            }
            Effect::OpensQueue => {
                let object = self.objects.object(Origin::Queues, None);
                let place = self.location_of(object);
                self.solver.make_descriptor(place);
                self.solver.add(to, place);
            }
            Effect::Polls => {
                // Later analyses ask which descriptors are polled.
                let behind = self.solver.node();
                if let Some(list) = argument(0).and_then(|operand| self.operand(instance, operand))
                {
                    self.load(list, behind);
                }
            }
            Effect::WritesBehind(number) => {
                // Later analyses ask what lies there.
                let behind = self.solver.node();
                if let Some(into) =
                    argument(number).and_then(|operand| self.operand(instance, operand))
                {
                    self.load(into, behind);
                }
            }
            Effect::ReadsHidden(hidden) | Effect::WritesHidden(hidden) => {
                self.objects.object(Origin::Hidden(hidden), None);
            }
            Effect::Reads(..)
            | Effect::Writes(..)
            | Effect::Frees(_)
            | Effect::Lock(..)
            | Effect::TryLock(..)
            | Effect::Unlock(_)
            | Effect::Wait { .. }
            | Effect::Signal(_)
            | Effect::SemaphoreInit(_)
            | Effect::SemaphoreWait { .. }
            | Effect::SemaphorePost(_)
            | Effect::SemaphoreSet
            | Effect::SemaphoreChange
            | Effect::SemaphoreControl
            | Effect::BarrierInit(_)
            | Effect::BarrierWait(_)
            | Effect::MutexInit(_)
            | Effect::Renews(_)
            | Effect::GuardAcquire(_)
            | Effect::GuardRelease(_)
            | Effect::JoinBehind(_)
            | Effect::ThreadIsOver(_)
            | Effect::WaitBehind { .. }
            | Effect::Sends(_)
            | Effect::Closes(_)
            | Effect::Receives { .. }
            | Effect::SystemCall
            | Effect::Raises
            | Effect::FileLock
            | Effect::NeverReturns
            | Effect::Forks => {}
        }
    }

    fn callback(
        &mut self,
        point: Point,
        function: Option<Operand>,
        passes: &[Operand],
        kind: SiteKind,
    ) {
        let arguments = self.argument_nodes(point.instance, passes);
        let function = function.and_then(|operand| self.operand(point.instance, operand));
        self.site(
            function,
            Site {
                point,
                kind,
                arguments,
                result: None,
            },
        );
    }

    /// `std::thread::_M_start_thread(this, unique_ptr<_State>)`: the thread calls `_M_run`, the third virtual
    /// function of the state.
    fn create_from_state(&mut self, point: Point, arguments: &[Operand]) {
        const RUN_SLOT: i64 = 16;
        let [this, owner, ..] = arguments else {
            return;
        };
        let this = self.operand(point.instance, *this);
        let Some(owner) = self.operand(point.instance, *owner) else {
            return;
        };
        let nodes = [(); 4].map(|()| self.solver.node());
        let [state, table, slot, run] = nodes;
        self.load(owner, state);
        self.load(state, table);
        self.part(
            table,
            Part {
                to: slot,
                source: None,
                offset: RUN_SLOT,
                in_table: RUN_SLOT,
                strides: Vec::new(),
            },
        );
        self.load(slot, run);
        let kind = SiteKind::Create {
            handle: this,
            argument: None,
        };
        self.site(
            Some(run),
            Site {
                point,
                kind,
                arguments: vec![state],
                result: None,
            },
        );
    }

    fn call_once_proxy(&mut self, point: Point) {
        let program = self.program;
        let is_variable = |constant: &Constant| matches!(constant, Constant::Global(id) if program.global(*id).name == ONCE_CALL);
        let Some(variable) = program.constants.iter().position(is_variable) else {
            return;
        };
        let variable = Operand::Constant(ConstantId::from_index(variable));
        let Some(variable) = self.operand(point.instance, variable) else {
            return;
        };
        let function = self.solver.node();
        self.load(variable, function);
        let site = Site {
            point,
            kind: SiteKind::Call,
            arguments: Vec::new(),
            result: None,
        };
        self.site(Some(function), site);
    }

    /// The memory of `pthread_setspecific`: one place for each thread, whatever the key.
    fn specific_of(&mut self, instance: InstanceId) -> NodeId {
        let thread = self.instances.get(instance).thread;
        match self.specific.get(&thread) {
            Some(&node) => node,
            None => {
                let node = self.solver.node();
                self.specific.insert(thread, node);
                node
            }
        }
    }

    pub(super) fn apply_join(&mut self, behind: NodeId, location: LocationId) {
        let object = self.objects.location(location).object;
        let Origin::Thread(thread) = self.objects.origin(object) else {
            return;
        };
        for entry in self.instances.thread(thread).entries.clone() {
            let result = self.result(entry);
            self.store_behind(behind, result);
        }
    }
}
