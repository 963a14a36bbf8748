//! Functions in their calling contexts, and the threads that run them.
//!
//! An *instance* is a function as it is called from one place (a clone) or from several (shared). Small
//! functions, and whatever they call, have an instance for every call: so wrappers of allocation and locking,
//! containers and the functions of small programs are told apart by context, without any analysis knowing
//! about it. How small is decided by a bound on the sum of all instances. Recursive functions and the targets
//! of calls through pointers are shared by the calls of one thread.
//!
//! A *thread* is what one call that creates threads starts, once or many times.

use norns_ir::{Callee, FunctionId, InstructionId, Kind, Operand, Program, id};
use rustc_hash::FxHashMap;

use crate::external::is_external;

id! {
    /// A function in a context.
    InstanceId
}
id! {
    /// What one call that creates threads starts; 0 is the thread of `main`.
    ThreadId
}

/// An instruction of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    pub instance: InstanceId,
    pub instruction: InstructionId,
}

#[derive(Clone, Debug)]
pub struct Instance {
    pub function: FunctionId,
    /// The only thread that runs it; `None` if several share it.
    pub thread: Option<ThreadId>,
    pub callers: Vec<Point>,
    /// Made for one call by name; no other call leads to it.
    is_clone: bool,
}

#[derive(Clone, Debug)]
pub struct Thread {
    /// Called one after the other.
    pub entries: Vec<InstanceId>,
    pub created: Vec<Point>,
    /// What the creator passes to the first parameter.
    pub argument: Option<Operand>,
}

/// Sums of instructions over instances.
const LEAST_BUDGET: usize = 400_000;
const MOST_THREADS: usize = 200;
/// What a `std::function` of libstdc++ calls through pointers: these have an instance for each call, too.
const HANDLER: &str = "_ZNSt17_Function_handlerI";

#[derive(Clone, Debug, Default)]
pub struct Instances {
    all: Vec<Instance>,
    pub threads: Vec<Thread>,
    /// Functions are cloned if they and all they call have no more instructions than this.
    limit: usize,
    budget: usize,
    used: usize,
    /// Instructions of each function with all it calls directly; `usize::MAX` if it is recursive.
    tree_sizes: Vec<usize>,
    shared: FxHashMap<(FunctionId, Option<ThreadId>), InstanceId>,
    callees: FxHashMap<Point, Vec<InstanceId>>,
    creations: FxHashMap<Point, Vec<ThreadId>>,
}

impl Instances {
    #[must_use]
    pub fn new(program: &Program) -> Self {
        let calls = direct_calls(program);
        let size = |function: usize| program.functions[function].instructions.len();
        let tree_sizes = tree_sizes(program, &calls);
        let whole: usize = (0..calls.len()).map(size).sum();
        let budget = LEAST_BUDGET.max(whole * 2);
        let fits = |limit: &usize| expanded(&calls, &tree_sizes, size, *limit) <= budget;
        let limits = [budget / 4, 30_000, 10_000, 3_000, 1_000, 300, 100, 30];
        Self {
            limit: limits.into_iter().find(fits).unwrap_or(0),
            budget,
            tree_sizes,
            ..Self::default()
        }
    }

    #[must_use]
    pub fn get(&self, id: InstanceId) -> &Instance {
        &self.all[id.index()]
    }

    #[must_use]
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.index()]
    }

    pub fn ids(&self) -> impl Iterator<Item = InstanceId> + use<> {
        (0..self.all.len()).map(InstanceId::from_index)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The instances that a call can lead to.
    #[must_use]
    pub fn callees(&self, call: Point) -> &[InstanceId] {
        self.callees.get(&call).map_or(&[], Vec::as_slice)
    }

    /// The threads that a call can create.
    #[must_use]
    pub fn creations(&self, call: Point) -> &[ThreadId] {
        self.creations.get(&call).map_or(&[], Vec::as_slice)
    }

    /// The call that leads to an instance, if there is only one.
    #[must_use]
    pub fn only_caller(&self, id: InstanceId) -> Option<Point> {
        match self.get(id).callers.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Whether only one call can ever lead to an instance.
    #[must_use]
    pub fn is_clone(&self, id: InstanceId) -> bool {
        self.get(id).is_clone
    }

    /// The thread whose first function this instance is.
    #[must_use]
    pub fn entered_by(&self, id: InstanceId) -> Option<ThreadId> {
        let thread = self.get(id).thread?;
        self.thread(thread).entries.contains(&id).then_some(thread)
    }

    fn add(
        &mut self,
        program: &Program,
        function: FunctionId,
        thread: Option<ThreadId>,
    ) -> InstanceId {
        self.used += program.function(function).instructions.len();
        self.all.push(Instance {
            function,
            thread,
            callers: Vec::new(),
            is_clone: false,
        });
        InstanceId::from_index(self.all.len() - 1)
    }

    /// The instance that a call leads to, and whether it is new.
    pub fn call(
        &mut self,
        program: &Program,
        call: Point,
        function: FunctionId,
        is_direct: bool,
    ) -> (InstanceId, bool) {
        let thread = self.get(call.instance).thread;
        let is_small = self.tree_sizes[function.index()] <= self.limit;
        let known = self.callees(call).iter().copied();
        if let Some(known) = { known }.find(|&to| self.get(to).function == function) {
            return (known, false);
        }
        let has_own = is_direct || program.function(function).name.starts_with(HANDLER);
        let (callee, is_new) = if has_own && is_small && self.used < self.budget * 2 {
            let clone = self.add(program, function, thread);
            self.all[clone.index()].is_clone = true;
            (clone, true)
        } else {
            let thread = thread.filter(|_| self.used < self.budget * 2);
            match self.shared.get(&(function, thread)) {
                Some(&known) => (known, false),
                None => {
                    let new = self.add(program, function, thread);
                    self.shared.insert((function, thread), new);
                    (new, true)
                }
            }
        };
        self.all[callee.index()].callers.push(call);
        self.callees.entry(call).or_default().push(callee);
        (callee, is_new)
    }

    /// The thread that a call creates with this function, and its entry if that is new.
    pub fn create(
        &mut self,
        program: &Program,
        call: Point,
        function: FunctionId,
        argument: Option<Operand>,
    ) -> (ThreadId, Option<InstanceId>) {
        let known = self.creations(call).iter().copied();
        if let Some(known) = { known }.find(|&thread| self.starts_with(thread, function)) {
            return (known, None);
        }
        let ancestor = self.ancestor(call, function).or_else(|| {
            let mut all = (0..self.threads.len()).map(ThreadId::from_index);
            let is_full = self.threads.len() >= MOST_THREADS;
            all.find(|&thread| is_full && self.starts_with(thread, function))
        });
        if let Some(known) = ancestor {
            self.threads[known.index()].created.push(call);
            self.creations.entry(call).or_default().push(known);
            return (known, None);
        }
        let thread = ThreadId::from_index(self.threads.len());
        let entry = self.add(program, function, Some(thread));
        self.threads.push(Thread {
            entries: vec![entry],
            created: vec![call],
            argument,
        });
        self.creations.entry(call).or_default().push(thread);
        (thread, Some(entry))
    }

    /// One more function that the thread of `main` calls.
    pub fn enter(&mut self, program: &Program, function: FunctionId) -> InstanceId {
        let main = ThreadId::from_index(0);
        if self.threads.is_empty() {
            self.threads.push(Thread {
                entries: Vec::new(),
                created: Vec::new(),
                argument: None,
            });
        }
        let entry = self.add(program, function, Some(main));
        self.threads[0].entries.push(entry);
        entry
    }

    fn starts_with(&self, thread: ThreadId, function: FunctionId) -> bool {
        let entries = &self.thread(thread).entries;
        entries
            .iter()
            .any(|&entry| self.get(entry).function == function)
    }

    /// The thread in the chain of creators that begins with this function: threads that create themselves.
    fn ancestor(&self, call: Point, function: FunctionId) -> Option<ThreadId> {
        let mut thread = self.get(call.instance).thread;
        let mut steps = 0;
        while let Some(id) = thread {
            if id.index() > 0 && self.starts_with(id, function) {
                return Some(id);
            }
            steps += 1;
            let creator = self.thread(id).created.first();
            thread = creator
                .filter(|_| steps < MOST_THREADS)
                .and_then(|point| self.get(point.instance).thread);
        }
        None
    }
}

/// The defined functions that each function calls by name, once for each call.
fn direct_calls(program: &Program) -> Vec<Vec<usize>> {
    let calls = program.functions.iter().map(|function| {
        let called = function.listed().filter_map(|(_, _, instruction)| {
            let (Kind::Call { callee, .. } | Kind::Invoke { callee, .. }) = &instruction.kind
            else {
                return None;
            };
            match callee {
                Callee::Function(to) if !is_external(program.function(*to)) => Some(to.index()),
                _ => None,
            }
        });
        called.collect()
    });
    calls.collect()
}

fn tree_sizes(program: &Program, calls: &[Vec<usize>]) -> Vec<usize> {
    let components = crate::flow::components(calls.len(), |at| calls[at].clone());
    let mut members = vec![0_usize; calls.len()];
    for &component in &components {
        members[component] += 1;
    }
    // Callees have lower components than their callers.
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_unstable_by_key(|&at| components[at]);
    let mut sizes = vec![usize::MAX; calls.len()];
    for function in order {
        let is_recursive = members[components[function]] > 1 || calls[function].contains(&function);
        if !is_recursive {
            let own = program.functions[function].instructions.len();
            let called = calls[function].iter().map(|&to| sizes[to]);
            sizes[function] = called.fold(own, usize::saturating_add);
        }
    }
    sizes
}

/// The sum of all instances if what is no larger than the limit is cloned, without calls through pointers.
fn expanded(
    calls: &[Vec<usize>],
    tree_sizes: &[usize],
    size: impl Fn(usize) -> usize,
    limit: usize,
) -> usize {
    (0..calls.len()).fold(0_usize, |sum, function| {
        if tree_sizes[function] <= limit {
            return sum;
        }
        let clones = calls[function].iter().map(|&to| tree_sizes[to]);
        let clones = clones.filter(|&size| size <= limit);
        sum.saturating_add(clones.fold(size(function), usize::saturating_add))
    })
}
