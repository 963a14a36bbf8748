//! What is wrong in one thread alone: a lock taken twice, kept on one path, or given back without being held;
//! a wait for a condition that is not in a loop.

use std::collections::BTreeMap;

use norns_ir::{Constant, ConstantId, Kind, Operand, Type};
use rustc_hash::FxHashSet;

use crate::acquisition::{Acquisition, Blocking, calls};
use crate::candidate::{Candidate, CandidateKind, Place, SourcePlace};
use crate::code::Code;
use crate::describe;
use crate::external::{Effect, Mode};
use crate::instance::{InstanceId, Point};
use crate::lock_set::{Held, LockSets};
use crate::may_held::unlocks_without_lock;
use crate::object::{Location, Origin};
use crate::parallel::Parallel;
use crate::points_to::constant_integer;
use crate::symbol::Symbols;

/// Where the C library keeps the kind of a mutex, in bytes from its start.
const MUTEX_KIND: u64 = 16;
/// Waits are a few wrappers deep.
const DEEPEST_WAIT: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MutexKind {
    Plain,
    Recursive,
    /// Taking it again fails.
    Checking,
}

pub struct Misuse<'a, 'b, 'p> {
    code: &'a Code<'p>,
    symbols: &'b Symbols<'a, 'p>,
    parallel: &'b Parallel,
    locks: &'b LockSets,
    made_with_attribute: FxHashSet<Location>,
}

impl<'a, 'b, 'p> Misuse<'a, 'b, 'p> {
    #[must_use]
    pub fn new(
        code: &'a Code<'p>,
        symbols: &'b Symbols<'a, 'p>,
        parallel: &'b Parallel,
        locks: &'b LockSets,
    ) -> Self {
        let mut made_with_attribute = FxHashSet::default();
        for point in calls(code, parallel) {
            let Some(([Effect::MutexInit(_)], [mutex, attribute, ..])) = code.external(point)
            else {
                continue;
            };
            let is_plain = matches!(attribute, Operand::Constant(id) if constant_integer(code.program, *id) == Some(0));
            if !is_plain {
                made_with_attribute.extend(code.points_to.locations(point.instance, *mutex));
            }
        }
        Self {
            code,
            symbols,
            parallel,
            locks,
            made_with_attribute,
        }
    }

    #[must_use]
    pub fn candidates(
        &self,
        acquisitions: &[Acquisition],
        blocking: &[Blocking],
    ) -> Vec<Candidate> {
        let mut found: BTreeMap<(CandidateKind, SourcePlace), Candidate> = BTreeMap::new();
        self.taken_twice(acquisitions, &mut found);
        self.not_released(&mut found);
        self.without_lock(&mut found);
        self.without_loop(blocking, &mut found);
        found.into_values().collect()
    }

    fn put(
        &self,
        found: &mut BTreeMap<(CandidateKind, SourcePlace), Candidate>,
        kind: CandidateKind,
        rank: u32,
        object: String,
        places: Vec<Place>,
    ) {
        let key = (kind, places[0].at.clone());
        found.entry(key).or_insert(Candidate {
            kind,
            rank,
            object,
            places,
        });
    }

    fn place(&self, point: Point, access: &'static str) -> Place {
        let held = self.locks.before(point).iter();
        let threads = self.code.threads_of(point.instance).iter();
        let created = threads
            .filter_map(|&thread| self.code.points_to.instances.thread(thread).created.first())
            .next();
        let shown = describe::shown(self.code, point).swap_remove(0);
        Place {
            at: shown.at,
            inside: shown.inside.into_iter().collect(),
            access,
            held: held
                .map(|held| describe::symbol(self.code, self.symbols, held.lock))
                .collect(),
            chain: describe::chain(self.code, shown.call.instance),
            created: created.map(|&at| describe::outside(self.code, at)),
        }
    }

    fn taken_twice(
        &self,
        acquisitions: &[Acquisition],
        found: &mut BTreeMap<(CandidateKind, SourcePlace), Candidate>,
    ) {
        for acquisition in acquisitions {
            let again = acquisition.held.iter().find(|held| {
                let waits = held.mode == Mode::Exclusive || acquisition.mode == Mode::Exclusive;
                waits && self.is_same(held, acquisition)
            });
            let Some(held) = again else {
                continue;
            };
            // The second turn of a loop takes the lock of another element.
            if held.taken == acquisition.point
                && self
                    .code
                    .flow(acquisition.point.instance)
                    .is_in_cycle(acquisition.point.instruction)
            {
                continue;
            }
            if acquisition
                .places
                .iter()
                .any(|&at| self.kind(at) != MutexKind::Plain)
            {
                continue;
            }
            let name = describe::symbol(self.code, self.symbols, acquisition.lock);
            let places = vec![
                self.place(acquisition.point, "lock"),
                self.place(held.taken, "lock"),
            ];
            self.put(found, CandidateKind::SelfDeadlock, 80, name, places);
        }
    }

    fn is_same(&self, held: &Held, acquisition: &Acquisition) -> bool {
        let concrete = |lock| self.locks.concrete(self.code, self.symbols, lock);
        match (concrete(held.lock), concrete(acquisition.lock)) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        }
    }

    /// What happens when the owner of a mutex takes it again.
    fn kind(&self, at: Location) -> MutexKind {
        if let Origin::Global(global) = self.code.points_to.objects.origin(at.object) {
            let initial = self.code.program.global(global).initial;
            match initial.and_then(|initial| self.number_at(initial, at.offset + MUTEX_KIND)) {
                Some(1) => return MutexKind::Recursive,
                Some(2) => return MutexKind::Checking,
                _ => {}
            }
        }
        // The kind in an attribute is not followed.
        match self.made_with_attribute.contains(&at) {
            true => MutexKind::Recursive,
            false => MutexKind::Plain,
        }
    }

    fn number_at(&self, constant: ConstantId, offset: u64) -> Option<i64> {
        let types = &self.code.program.types;
        match self.code.program.constant(constant) {
            Constant::Zero(_) | Constant::Null(_) => Some(0),
            Constant::Aggregate(r#type, parts) => {
                let Type::Struct {
                    fields, is_packed, ..
                } = types.get(*r#type)
                else {
                    return None;
                };
                let starts = types.field_offsets(fields, *is_packed);
                let field = starts.iter().rposition(|&start| start <= offset)?;
                self.number_at(*parts.get(field)?, offset - starts[field])
            }
            _ if offset == 0 => constant_integer(self.code.program, constant),
            _ => None,
        }
    }

    /// A function that returns with a lock which it has taken, and gives back before another return.
    fn not_released(&self, found: &mut BTreeMap<(CandidateKind, SourcePlace), Candidate>) {
        for instance in self.code.points_to.instances.ids() {
            // What main holds when it returns is held by nobody.
            if self.code.function(instance).name == "main" {
                continue;
            }
            let ends = self.returns(instance);
            for (at, held) in &ends {
                for lock in held {
                    if lock.taken.instance != instance {
                        continue;
                    }
                    let releases = self.releases(instance, lock);
                    let flow = self.code.flow(instance);
                    let other = ends.iter().any(|(end, held)| {
                        let is_released = held.iter().all(|other| other.lock != lock.lock);
                        is_released
                            && releases
                                .iter()
                                .any(|&release| end == &release || flow.reaches(release, *end))
                    });
                    if other {
                        let name = describe::symbol(self.code, self.symbols, lock.lock);
                        let point = Point {
                            instance,
                            instruction: *at,
                        };
                        let places =
                            vec![self.place(point, "return"), self.place(lock.taken, "lock")];
                        self.put(found, CandidateKind::LockNotReleased, 75, name, places);
                    }
                }
            }
        }
    }

    /// The places at which an instance returns, with what is held there. A return that several paths share
    /// counts as the ends of those paths.
    fn returns(&self, instance: InstanceId) -> Vec<(norns_ir::InstructionId, Vec<Held>)> {
        let function = self.code.function(instance);
        let flow = self.code.flow(instance);
        let mut ends = Vec::new();
        for (block, id, instruction) in function.listed() {
            if !matches!(instruction.kind, Kind::Return(_)) {
                continue;
            }
            let point = |instruction| Point {
                instance,
                instruction,
            };
            let before = flow.predecessors(block);
            if before.len() < 2 {
                if self.parallel.is_reached(point(id)) {
                    ends.push((id, self.locks.before(point(id)).to_vec()));
                }
                continue;
            }
            for from in before {
                let Some(&last) = function.blocks[from.index()].instructions.last() else {
                    continue;
                };
                let is_jump = matches!(function.instruction(last).kind, Kind::Jump(_));
                if is_jump && self.parallel.is_reached(point(last)) {
                    ends.push((last, self.locks.before(point(last)).to_vec()));
                }
            }
        }
        ends
    }

    fn releases(&self, instance: InstanceId, lock: &Held) -> Vec<norns_ir::InstructionId> {
        let places = self
            .locks
            .places
            .get(&lock.lock)
            .map_or(&[][..], Vec::as_slice);
        let listed = self.code.function(instance).listed();
        let releases = listed.filter(|(_, instruction, _)| {
            let point = Point {
                instance,
                instruction: *instruction,
            };
            let Some(([Effect::Unlock(argument)], arguments)) = self.code.external(point) else {
                return false;
            };
            let released = arguments
                .get(*argument)
                .map(|&operand| self.code.points_to.locations(instance, operand));
            released.is_some_and(|released| released.iter().any(|at| places.contains(at)))
        });
        releases.map(|(_, instruction, _)| instruction).collect()
    }

    fn without_lock(&self, found: &mut BTreeMap<(CandidateKind, SourcePlace), Candidate>) {
        for (point, places) in unlocks_without_lock(self.code) {
            // How often a recursive mutex is held is not counted.
            if places
                .iter()
                .any(|&at| self.kind(at) == MutexKind::Recursive)
            {
                continue;
            }
            let name = describe::location(self.code, places[0]);
            let places = vec![self.place(point, "unlock")];
            self.put(found, CandidateKind::UnlockWithoutLock, 60, name, places);
        }
    }

    fn without_loop(
        &self,
        blocking: &[Blocking],
        found: &mut BTreeMap<(CandidateKind, SourcePlace), Candidate>,
    ) {
        let releases = Releases::new(self.code);
        for wait in blocking {
            let is_condition = wait.mutex.is_some() && !wait.is_timed;
            if !is_condition
                || self.is_asked_again(wait.point, &wait.mutex_places, &releases, DEEPEST_WAIT)
            {
                continue;
            }
            let places = vec![self.place(wait.point, "wait")];
            self.put(
                found,
                CandidateKind::WaitWithoutLoop,
                65,
                "a condition".to_owned(),
                places,
            );
        }
    }

    /// Whether what is waited for is looked at again behind a wait: a way from there back to it, in the function
    /// or in one that calls it, on which the mutex is kept.
    fn is_asked_again(
        &self,
        point: Point,
        places: &[Location],
        releases: &Releases,
        depth: u32,
    ) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return true;
        };
        let function = self.code.function(point.instance);
        let flow = self.code.flow(point.instance);
        let Some((block, position)) = flow.position(point.instruction) else {
            return true;
        };
        let mut returns = false;
        let mut seen = FxHashSet::default();
        let mut stack = vec![(block, position + 1)];
        while let Some((block, from)) = stack.pop() {
            let list = &function.blocks[block.index()].instructions;
            let mut is_open = true;
            for &instruction in &list[from.min(list.len())..] {
                let at = Point {
                    instance: point.instance,
                    instruction,
                };
                if at == point {
                    return true;
                }
                if releases.may_release(self.code, at, places) {
                    is_open = false;
                    break;
                }
                returns |= matches!(self.code.kind(at), Kind::Return(_));
            }
            if is_open {
                let next = flow.successors(block).iter();
                stack.extend(next.filter(|to| seen.insert(**to)).map(|&to| (to, 0)));
            }
        }
        let callers = &self.code.points_to.instances.get(point.instance).callers;
        let mut callers = callers.iter();
        returns && callers.any(|&call| self.is_asked_again(call, places, releases, depth))
    }
}

/// The places of the locks that each instance may release, with all that it calls.
struct Releases {
    by_instance: Vec<FxHashSet<Location>>,
}

impl Releases {
    fn new(code: &Code) -> Self {
        let instances = &code.points_to.instances;
        let mut by_instance: Vec<FxHashSet<Location>> = vec![FxHashSet::default(); instances.len()];
        let mut stack = Vec::new();
        for point in code.points() {
            let places = released(code, point);
            let known = &mut by_instance[point.instance.index()];
            let new: Vec<Location> = places.into_iter().filter(|&at| known.insert(at)).collect();
            if !new.is_empty() {
                stack.push((point.instance, new));
            }
        }
        while let Some((instance, places)) = stack.pop() {
            for call in &instances.get(instance).callers {
                let known = &mut by_instance[call.instance.index()];
                let new = places.iter().copied().filter(|&at| known.insert(at));
                let new: Vec<Location> = new.collect();
                if !new.is_empty() {
                    stack.push((call.instance, new));
                }
            }
        }
        Self { by_instance }
    }

    fn may_release(&self, code: &Code, point: Point, places: &[Location]) -> bool {
        let callees = code.points_to.instances.callees(point);
        let releases = |&id: &InstanceId| {
            let known = &self.by_instance[id.index()];
            places.iter().any(|at| known.contains(at))
        };
        callees.iter().any(releases) || released(code, point).iter().any(|at| places.contains(at))
    }
}

/// The places of the locks that an instruction itself may release.
fn released(code: &Code, point: Point) -> Vec<Location> {
    let Some((effects, arguments)) = code.external(point) else {
        return Vec::new();
    };
    let operands = effects.iter().filter_map(|effect| match effect {
        Effect::Unlock(argument) => arguments.get(*argument),
        _ => None,
    });
    operands
        .flat_map(|&operand| code.points_to.locations(point.instance, operand))
        .collect()
}
