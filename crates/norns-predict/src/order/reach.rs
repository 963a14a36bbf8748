//! How far each thread can come at most, by counting: a proof of impossibility without search.
//!
//! Some events need something of others that is used up: a read that finds a value which its own
//! thread did not leave there needs a write of that value by another thread since its thread's
//! last access; a wait needs a signal, a wait on a semaphore a post, an exit of a barrier a full
//! round. When the threads of the bug stop where it is, what they would have given later is
//! missing; so others cannot come as far as in the trace, and what they would have given is
//! missing too. The limits only sink, so the end of this is reached. It is an upper bound: that a
//! thread can come so far is not said.
//!
//! Not used: reads in branch mode, where a value need not be the one that was seen.

use norns_model::Model;
use norns_trace::EventIndex;

use super::clocks::Clocks;
use super::run::Objects;

/// Something that some events need and others give.
struct Supply {
    /// There from the beginning.
    initial: u32,
    /// How much one event of `needs` takes.
    each: u32,
    /// Whether a thread can use what it gives itself.
    own: bool,
    /// Of each thread the positions of the events that need, sorted.
    needs: Vec<(u32, Vec<u32>)>,
    /// Of each thread the positions of the events that give one, sorted.
    gives: Vec<(u32, Vec<u32>)>,
}

pub(super) struct Reach {
    supplies: Vec<Supply>,
    /// For every thread the supplies that it gives something to.
    given_by: Vec<Vec<u32>>,
}

/// Positions by thread.
struct Positions<'m, 't> {
    model: &'m Model<'t>,
    found: Vec<(u32, Vec<u32>)>,
}

impl<'m, 't> Positions<'m, 't> {
    fn new(model: &'m Model<'t>) -> Self {
        let found = Vec::new();
        Positions { model, found }
    }

    /// Events of one thread come in their order.
    fn push(&mut self, event: EventIndex) {
        let thread = self.model.thread_of(event).0;
        let position = self.model.position[event.index()];
        match self.found.iter_mut().find(|(other, _)| *other == thread) {
            Some((_, positions)) => {
                assert!(
                    positions.last().is_none_or(|&last| last < position),
                    "the search for a limit needs positions in their order"
                );
                positions.push(position);
            }
            None => self.found.push((thread, vec![position])),
        }
    }
}

fn event(node: norns_order::Node) -> EventIndex {
    EventIndex(node.0)
}

impl Reach {
    pub fn new(
        model: &Model<'_>,
        objects: &Objects,
        barriers: &[super::counters::Barrier],
    ) -> Self {
        let mut supplies = Vec::new();
        let registers = objects.registers.iter();
        for register in registers.filter(|register| register.always_counts()) {
            register_supplies(model, register, &mut supplies);
        }
        for semaphore in &objects.semaphores {
            let mut supply = Supply {
                initial: semaphore.initial.max(0) as u32,
                each: 1,
                own: true,
                needs: Vec::new(),
                gives: Vec::new(),
            };
            let (mut needs, mut gives) = (Positions::new(model), Positions::new(model));
            for (i, &node) in semaphore.nodes().iter().enumerate() {
                match semaphore.change(i as u32) {
                    1 => gives.push(event(node)),
                    -1 => needs.push(event(node)),
                    _ => {}
                }
            }
            (supply.needs, supply.gives) = (needs.found, gives.found);
            supplies.push(supply);
        }
        for condition in &objects.conditions {
            let (mut needs, mut gives) = (Positions::new(model), Positions::new(model));
            condition.wakes().for_each(|wait| needs.push(event(wait)));
            // A broadcast wakes a thread once, as a signal does.
            for waker in condition.wakers() {
                gives.push(event(waker));
            }
            supplies.push(Supply {
                initial: 0,
                each: 1,
                own: false,
                needs: needs.found,
                gives: gives.found,
            });
        }
        for barrier in barriers {
            let (mut needs, mut gives) = (Positions::new(model), Positions::new(model));
            barrier.exits().for_each(|exit| needs.push(event(exit)));
            barrier.entries().for_each(|entry| gives.push(event(entry)));
            supplies.push(Supply {
                initial: 0,
                each: barrier.count() as u32,
                own: true,
                needs: needs.found,
                gives: gives.found,
            });
        }
        let mut given_by = vec![Vec::new(); model.threads.len()];
        for (i, supply) in supplies.iter().enumerate() {
            for (thread, _) in &supply.gives {
                given_by[*thread as usize].push(i as u32);
            }
        }
        Reach { supplies, given_by }
    }

    /// Lowers `limits`, the number of events of each thread that can take place, until nothing
    /// more follows. Stops early, with `false`, when one falls below what is `needed` of it.
    pub fn lower(
        &self,
        model: &Model<'_>,
        clocks: &Clocks,
        needed: &[u32],
        limits: &mut [u32],
    ) -> bool {
        // Threads whose limit has sunk, and whose gifts and orders are to be looked at.
        let mut changed: Vec<usize> = (0..limits.len())
            .filter(|&t| (limits[t] as usize) < model.threads[t].len())
            .collect();
        while let Some(thread) = changed.pop() {
            let sink = |limits: &mut [u32], changed: &mut Vec<usize>, t: usize, limit: u32| {
                if limit < limits[t] {
                    limits[t] = limit;
                    if !changed.contains(&t) {
                        changed.push(t);
                    }
                }
                limit >= needed[t]
            };
            for t in 0..limits.len() {
                if t == thread {
                    continue;
                }
                // What comes after something that this thread does not reach.
                let events = &model.threads[t][..limits[t] as usize];
                let limit =
                    events.partition_point(|&e| clocks.known(e, thread) <= limits[thread]) as u32;
                if !sink(limits, &mut changed, t, limit) {
                    return false;
                }
            }
            for &supply in &self.given_by[thread] {
                let supply = &self.supplies[supply as usize];
                for (t, needs) in &supply.needs {
                    let t = *t as usize;
                    if let Some(limit) = supply.limit(t as u32, needs, limits)
                        && !sink(limits, &mut changed, t, limit)
                    {
                        return false;
                    }
                }
            }
        }
        true
    }
}

impl Supply {
    /// The position of the first event of the thread that does not get what it needs.
    fn limit(&self, thread: u32, needs: &[u32], limits: &[u32]) -> Option<u32> {
        let there = self.initial
            + self
                .gives
                .iter()
                .filter(|(t, _)| self.own || *t != thread)
                .map(|(t, gives)| gives.partition_point(|&p| p < limits[*t as usize]) as u32)
                .sum::<u32>();
        needs.get((there / self.each) as usize).copied()
    }
}

/// For each value that a thread finds and did not leave: writes of it by others.
fn register_supplies(
    model: &Model<'_>,
    register: &super::registers::Register,
    supplies: &mut Vec<Supply>,
) {
    use rustc_hash::FxHashMap;
    // What each thread knows to be there, and the needs by value.
    let mut left: FxHashMap<u32, u32> = FxHashMap::default();
    let mut needs: FxHashMap<u32, Positions<'_, '_>> = FxHashMap::default();
    for access in &register.accesses {
        let event = event(access.node);
        let thread = model.thread_of(event).0;
        let before = left.get(&thread).copied().unwrap_or(register.initial);
        if let Some(value) = access.needs {
            if value != before {
                let positions = needs.entry(value).or_insert_with(|| Positions::new(model));
                positions.push(event);
            }
            left.insert(thread, value);
        }
        if let Some(value) = access.writes {
            left.insert(thread, value);
        }
    }
    let mut needs: Vec<(u32, Positions<'_, '_>)> = needs.into_iter().collect();
    needs.sort_unstable_by_key(|(value, _)| *value);
    for (value, positions) in needs {
        let Some(sources) = register.sources(value) else {
            continue;
        };
        // Of a single writer must-happen-before knows more.
        if sources.only().is_some() {
            continue;
        }
        let mut gives = Positions::new(model);
        for source in sources.nodes() {
            gives.push(event(source));
        }
        supplies.push(Supply {
            initial: 0,
            each: 1,
            own: false,
            needs: positions.found,
            gives: gives.found,
        });
    }
}
