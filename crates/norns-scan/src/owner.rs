//! Objects that shared pointers of the C++ library own: the last owner destroys the object after all the others
//! have given up their shares.
//!
//! That the library counts right is taken for granted, and that a thread which has shares of an object uses it
//! only while it has one. A thread that never gives up a share, and uses the object through a plain pointer, is
//! not ordered before the last owner.

use rustc_hash::FxHashSet;

use crate::code::Code;
use crate::external::Effect;
use crate::instance::{InstanceId, Point, ThreadId};
use crate::object::{Location, ObjectId, Origin};

/// The functions of the library that take a share away begin and go on like this.
const COUNTED: &str = "_ZNSt16_Sp_counted_base";
const RELEASES: [&str; 2] = ["_M_release", "_M_weak_release"];

#[derive(Default)]
pub struct Owners {
    /// For each instance whether only who gives up a share comes there.
    in_release: Vec<bool>,
    /// The blocks that are counted, and what they lead to.
    owned: FxHashSet<ObjectId>,
    /// The threads that give up shares.
    threads: FxHashSet<ThreadId>,
}

impl Owners {
    #[must_use]
    pub fn new(code: &Code) -> Self {
        let instances = &code.points_to.instances;
        let releases: Vec<InstanceId> = instances
            .ids()
            .filter(|&id| is_release(&code.function(id).name))
            .collect();
        if releases.is_empty() {
            return Self::default();
        }
        let mut owners = Self {
            in_release: vec![false; instances.len()],
            ..Self::default()
        };
        let mut counted: FxHashSet<Location> = FxHashSet::default();
        for &id in &releases {
            owners.in_release[id.index()] = true;
            owners.threads.extend(code.threads_of(id));
            let this = norns_ir::Operand::Parameter(0);
            counted.extend(code.points_to.locations(id, this));
        }
        for at in &counted {
            owners.own(code, at.object);
        }
        owners.find_given(code, &counted);
        owners.spread(code);
        owners
    }

    fn own(&mut self, code: &Code, block: ObjectId) {
        let objects = &code.points_to.objects;
        for (offset, _) in objects.places(block) {
            let behind = code.points_to.behind(Location {
                object: block,
                offset,
            });
            self.owned.extend(behind.iter().map(|at| at.object));
        }
        self.owned.insert(block);
        self.owned
            .retain(|&object| matches!(objects.origin(object), Origin::Heap(..)));
    }

    /// A thread of the C++ library gives up what the state that it was made with has shares of.
    fn find_given(&mut self, code: &Code, counted: &FxHashSet<Location>) {
        let points_to = &code.points_to;
        for (number, thread) in points_to.instances.threads.iter().enumerate().skip(1) {
            let has_state = thread.created.iter().all(|&at| {
                let effects = code.external(at).map_or(&[][..], |(effects, _)| effects);
                effects.contains(&Effect::CreateFromState)
            });
            let parameter = norns_ir::Operand::Parameter(0);
            let states = thread
                .entries
                .iter()
                .flat_map(|&entry| points_to.locations(entry, parameter));
            let mut inside = states.flat_map(|state| {
                let places = points_to.objects.places(state.object).into_iter();
                places.flat_map(move |(offset, _)| {
                    points_to.behind(Location {
                        object: state.object,
                        offset,
                    })
                })
            });
            if has_state && inside.any(|at| counted.contains(&at)) {
                self.threads.insert(ThreadId::from_index(number));
            }
        }
    }

    /// What is called from there only is there as well.
    fn spread(&mut self, code: &Code) {
        let instances = &code.points_to.instances;
        let mut changed = true;
        while changed {
            changed = false;
            for id in instances.ids() {
                let callers = &instances.get(id).callers;
                let is_inside = !callers.is_empty()
                    && callers
                        .iter()
                        .all(|call| self.in_release[call.instance.index()]);
                if is_inside && !self.in_release[id.index()] {
                    self.in_release[id.index()] = true;
                    changed = true;
                }
            }
        }
    }

    /// Whether two accesses to an object by two threads are ordered since one of them is the last owner's.
    #[must_use]
    pub fn are_ordered(
        &self,
        object: ObjectId,
        a: (ThreadId, Point),
        b: (ThreadId, Point),
    ) -> bool {
        let is_last = |point: Point| self.in_release.get(point.instance.index()) == Some(&true);
        self.owned.contains(&object)
            && (is_last(a.1) || is_last(b.1))
            && self.threads.contains(&a.0)
            && self.threads.contains(&b.0)
    }
}

fn is_release(name: &str) -> bool {
    let rest = name.strip_prefix(COUNTED);
    rest.is_some_and(|rest| RELEASES.iter().any(|word| rest.contains(word)))
}
