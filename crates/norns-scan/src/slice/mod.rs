//! The backward slice of a statement: what could have decided that it is reached, and with which values.
//!
//! After Algorithm 1 of Kasikci (2015): interprocedural and flow-sensitive, over the control flow of the
//! whole program with edges for the creation and the end of threads (`order`). Values are followed through
//! operations, parameters, results and memory, and what decides whether a statement runs through
//! `decision`. Which of several objects a pointer leads to is left to whoever watches the program: through
//! memory a slice goes on only where a read can come from one place.
//!
//! Left out: what calls of functions without a body compute, except for the memory that their summaries
//! name. Ranks are distances in the graph of dependences, of which the shortest counts.

mod decision;
mod order;

use std::collections::VecDeque;

use norns_ir::{Kind, Operand, Program};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::access::{self, Access, Act};
use crate::candidate::SourcePlace;
use crate::code::Code;
use crate::describe;
use crate::instance::{InstanceId, Point};
use crate::object::{Location, Origin};
use crate::parallel::Parallel;
use crate::symbol::Symbols;
use decision::Decisions;
use order::Before;

/// So many instructions are looked at: what is further away explains little.
const MOST: usize = 4_000;

/// The statements that a statement depends on, itself first, then the closest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    pub statements: Vec<Sliced>,
}

/// A statement of a slice: one line of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sliced {
    pub at: SourcePlace,
    /// How many dependences lead from here to where the slice begins.
    pub distance: u32,
    /// The memory that it accesses, without the stack.
    pub memory: Vec<Memory>,
    /// Whether it decides what runs next.
    pub decides: bool,
}

/// Memory that can be watched while the program runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Memory {
    pub object: Object,
    /// In bytes from the beginning of the object.
    pub offset: u64,
    /// In bytes, at most 8.
    pub size: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Object {
    /// A variable, by the linker's name.
    Global(String),
    /// What an allocation at this line has returned.
    Allocated { file: String, line: u32 },
}

/// The slice of all instructions at a line; `None` if the program has none there.
#[must_use]
pub fn slice(program: &Program, file: &str, line: u32) -> Option<Slice> {
    let code = Code::new(program);
    let parallel = Parallel::new(&code, &mut Symbols::new(&code));
    let mut slicer = Slicer::new(&code, &parallel);
    let is_here = |&point: &Point| {
        let function = code.function(point.instance);
        let place = function.instruction(point.instruction).place;
        place.is_some_and(|id| program.place(id).line == line)
            && is_same_file(&describe::source(&code, point).file, file)
            && parallel.is_reached(point)
    };
    let start: Vec<Point> = code.points().filter(is_here).collect();
    if start.is_empty() {
        return None;
    }
    for &point in &start {
        slicer.add(point, 0);
    }
    slicer.follow();
    Some(slicer.finish())
}

/// Whether two names mean the same file: a compiler may have been given a relative one.
pub fn is_same_file(one: &str, other: &str) -> bool {
    let (one, other) = (std::path::Path::new(one), std::path::Path::new(other));
    one.ends_with(other) || other.ends_with(one)
}

struct Slicer<'a, 'p> {
    code: &'a Code<'p>,
    parallel: &'a Parallel,
    accesses: Vec<Access>,
    /// The accesses of an instruction, as a range of `accesses`.
    of_point: FxHashMap<Point, Vec<usize>>,
    /// The accesses that change a location.
    writers: FxHashMap<Location, Vec<usize>>,
    decisions: Decisions,
    before: FxHashMap<Point, Before>,
    /// In the order in which they were found, with their distances.
    found: Vec<(Point, u32)>,
    seen: FxHashSet<Point>,
    waiting: VecDeque<(Point, u32)>,
}

impl<'a, 'p> Slicer<'a, 'p> {
    fn new(code: &'a Code<'p>, parallel: &'a Parallel) -> Self {
        let accesses = access::accesses(code, parallel);
        let mut of_point: FxHashMap<Point, Vec<usize>> = FxHashMap::default();
        let mut writers: FxHashMap<Location, Vec<usize>> = FxHashMap::default();
        for (index, access) in accesses.iter().enumerate() {
            of_point.entry(access.point).or_default().push(index);
            if access.act.writes() {
                for at in access.places(code) {
                    writers.entry(at).or_default().push(index);
                }
            }
        }
        Self {
            code,
            parallel,
            accesses,
            of_point,
            writers,
            decisions: Decisions::default(),
            before: FxHashMap::default(),
            found: Vec::new(),
            seen: FxHashSet::default(),
            waiting: VecDeque::new(),
        }
    }

    fn add(&mut self, point: Point, distance: u32) {
        if self.found.len() < MOST && self.seen.insert(point) {
            self.found.push((point, distance));
            self.waiting.push_back((point, distance));
        }
    }

    fn follow(&mut self) {
        while let Some((point, distance)) = self.waiting.pop_front() {
            self.values(point, distance + 1);
            self.memory(point, distance + 1);
            self.control(point, distance + 1);
        }
    }

    /// What the operands of an instruction come from.
    fn values(&mut self, point: Point, distance: u32) {
        let code = self.code;
        let kind = code.kind(point);
        let callees = code.points_to.instances.callees(point);
        for &callee in callees {
            for (_, instruction, inside) in code.function(callee).listed() {
                if matches!(inside.kind, Kind::Return(Some(_))) {
                    let instance = callee;
                    self.add(
                        Point {
                            instance,
                            instruction,
                        },
                        distance,
                    );
                }
            }
        }
        // Of a call that has a body the arguments matter where its parameters do.
        if callees.is_empty() {
            kind.for_each_operand(|operand| self.operand(point.instance, operand, distance));
        }
    }

    fn operand(&mut self, instance: InstanceId, operand: Operand, distance: u32) {
        match operand {
            Operand::Constant(_) => {}
            Operand::Result(instruction) => self.add(
                Point {
                    instance,
                    instruction,
                },
                distance,
            ),
            Operand::Parameter(number) => {
                for (call, argument) in self.passed(instance, number) {
                    self.add(call, distance);
                    if let Some(Operand::Result(instruction)) = argument {
                        let instance = call.instance;
                        let value = Point {
                            instance,
                            instruction,
                        };
                        self.add(value, distance);
                    }
                }
            }
        }
    }

    /// The calls that pass a parameter, with what they pass. A call that hands its own parameter on leads
    /// to its callers by its own operands.
    fn passed(&self, instance: InstanceId, number: u32) -> Vec<(Point, Option<Operand>)> {
        let instances = &self.code.points_to.instances;
        let mut all: Vec<(Point, Option<Operand>)> = Vec::new();
        let mut waiting = vec![(instance, number)];
        let mut seen = FxHashSet::default();
        while let Some((instance, number)) = waiting.pop() {
            if !seen.insert((instance, number)) {
                continue;
            }
            let mut passed: Vec<(Point, Option<Operand>)> = Vec::new();
            for &call in &instances.get(instance).callers {
                let (Kind::Call { arguments, .. } | Kind::Invoke { arguments, .. }) =
                    self.code.kind(call)
                else {
                    continue;
                };
                passed.push((call, arguments.get(number as usize).copied()));
            }
            if let Some(thread) = instances.entered_by(instance) {
                let thread = instances.thread(thread);
                passed.extend(thread.created.iter().map(|&call| (call, thread.argument)));
            }
            for (call, argument) in passed {
                if let Some(Operand::Parameter(outer)) = argument {
                    waiting.push((call.instance, outer));
                }
                all.push((call, argument));
            }
        }
        all
    }

    /// The writes that a read can see, if it can come from one place only.
    fn memory(&mut self, point: Point, distance: u32) {
        let code = self.code;
        let Some(own) = self.of_point.get(&point).cloned() else {
            return;
        };
        for index in own {
            let access = &self.accesses[index];
            let places = access.places(code);
            let objects: FxHashSet<_> = places.iter().map(|at| at.object).collect();
            if access.act == Act::Write || objects.len() != 1 {
                continue;
            }
            let mut writers: Vec<Point> = { places.iter() }
                .flat_map(|at| self.writers.get(at).into_iter().flatten())
                .map(|&writer| self.accesses[writer].point)
                .collect();
            writers.sort_unstable();
            writers.dedup();
            for writer in writers {
                if writer != point && self.may_precede(writer, point) {
                    self.add(writer, distance);
                }
            }
        }
    }

    /// Whether the first can run before the second: on the same path, or in a thread beside it.
    fn may_precede(&mut self, first: Point, second: Point) -> bool {
        let code = self.code;
        let threads = |point: Point| code.threads_of(point.instance).iter();
        let is_beside = threads(first).any(|&one| {
            threads(second).any(|&other| {
                let is_other = one != other || self.parallel.is_multiple(one);
                is_other && { self.parallel }.may_overlap((one, first), (other, second))
            })
        });
        let before = || Before::new(code, second);
        is_beside || { self.before.entry(second).or_insert_with(before) }.contains(code, first)
    }

    /// The branches, calls and creations of threads that decide whether the instruction is reached.
    fn control(&mut self, point: Point, distance: u32) {
        let code = self.code;
        let function = code.points_to.instances.get(point.instance).function;
        let Some((block, _)) = code.flow(point.instance).position(point.instruction) else {
            return;
        };
        let deciding = self
            .decisions
            .of(function, code.function(point.instance), block);
        let instance = point.instance;
        for instruction in deciding {
            self.add(
                Point {
                    instance,
                    instruction,
                },
                distance,
            );
        }
        let instances = &code.points_to.instances;
        for &call in &instances.get(instance).callers {
            self.add(call, distance);
        }
        if let Some(thread) = instances.entered_by(instance) {
            for &call in &instances.thread(thread).created {
                self.add(call, distance);
            }
        }
    }

    /// The lines of what was found, each once.
    fn finish(self) -> Slice {
        let code = self.code;
        let mut statements: Vec<Sliced> = Vec::new();
        let mut known: FxHashMap<(String, u32, String), usize> = FxHashMap::default();
        for &(point, distance) in &self.found {
            let instruction = code.function(point.instance).instruction(point.instruction);
            if instruction.place.is_none() {
                continue;
            }
            let at = describe::source(code, point);
            if at.line == 0 || at.file.starts_with("/usr/") {
                continue;
            }
            let key = (at.file.clone(), at.line, at.function.clone());
            let index = *known.entry(key).or_insert_with(|| {
                statements.push(Sliced {
                    at,
                    distance,
                    memory: Vec::new(),
                    decides: false,
                });
                statements.len() - 1
            });
            let statement = &mut statements[index];
            let (Kind::Branch { .. } | Kind::Switch { .. }) = instruction.kind else {
                statement.memory.extend(self.watchable(point));
                continue;
            };
            statement.decides = true;
        }
        for statement in &mut statements {
            statement.memory.sort();
            statement.memory.dedup();
        }
        Slice { statements }
    }

    /// The memory that an instruction accesses, as far as it can be watched.
    fn watchable(&self, point: Point) -> Vec<Memory> {
        let code = self.code;
        let own = self.of_point.get(&point).into_iter().flatten();
        let accesses = own.map(|&index| &self.accesses[index]);
        let places = accesses.flat_map(|access| {
            let size = access.size.clamp(1, 8);
            let places = access.places(code).into_iter();
            places.map(move |at| (at, size))
        });
        let memory = places.filter_map(|(at, size)| {
            let object = match code.points_to.objects.origin(at.object) {
                Origin::Global(global) => {
                    let global = code.program.global(global);
                    let is_watched = !global.is_constant && !global.is_thread_local;
                    is_watched.then(|| Object::Global(global.name.clone()))?
                }
                Origin::Heap(instance, instruction) => {
                    let at = describe::source(
                        code,
                        Point {
                            instance,
                            instruction,
                        },
                    );
                    let (file, line) = (at.file, at.line);
                    Object::Allocated { file, line }
                }
                Origin::Stack(..)
                | Origin::Local(..)
                | Origin::Any(_)
                | Origin::Function(_)
                | Origin::Thread(_)
                | Origin::Channel(..)
                | Origin::Queues
                | Origin::Hidden(_) => return None,
            };
            Some(Memory {
                object,
                offset: at.offset,
                size,
            })
        });
        memory.collect()
    }
}
