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

use std::collections::BTreeMap;

use norns_model::Model;
use norns_order::Node;
use rustc_hash::FxHashMap;

use super::by_thread::{ByThread, Positions, thread_of};
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
    /// The events that need.
    needs: Positions,
    /// The events that give one.
    gives: Positions,
}

pub(super) struct Reach {
    supplies: Vec<Supply>,
    /// For every thread the supplies that it gives something to.
    given_by: Vec<Vec<u32>>,
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
        let positions = |nodes: Vec<Node>| ByThread::new(nodes, model).positions(model);
        for semaphore in &objects.semaphores {
            let with = |change: i64| {
                let nodes = (0..).zip(semaphore.nodes());
                let nodes = nodes.filter(move |&(i, _)| semaphore.change(i) == change);
                positions(nodes.map(|(_, &node)| node).collect())
            };
            supplies.push(Supply {
                initial: semaphore.initial.max(0) as u32,
                each: 1,
                own: true,
                needs: with(-1),
                gives: with(1),
            });
        }
        for condition in &objects.conditions {
            supplies.push(Supply {
                initial: 0,
                each: 1,
                own: false,
                needs: positions(condition.wakes().collect()),
                // A broadcast wakes a thread once, as a signal does.
                gives: positions(condition.wakers()),
            });
        }
        for barrier in barriers {
            supplies.push(Supply {
                initial: 0,
                each: barrier.count() as u32,
                own: true,
                needs: positions(barrier.exits().collect()),
                gives: positions(barrier.entries().collect()),
            });
        }
        let mut given_by = vec![Vec::new(); model.threads.len()];
        for (i, supply) in supplies.iter().enumerate() {
            for (thread, _) in &supply.gives {
                given_by[*thread].push(i as u32);
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
                    if let Some(limit) = supply.limit(*t, needs, limits)
                        && !sink(limits, &mut changed, *t, limit)
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
    fn limit(&self, thread: usize, needs: &[u32], limits: &[u32]) -> Option<u32> {
        let there = self.initial
            + self
                .gives
                .iter()
                .filter(|(t, _)| self.own || *t != thread)
                .map(|(t, gives)| gives.partition_point(|&p| p < limits[*t]) as u32)
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
    // What each thread knows to be there, and the needs by value.
    let mut left: FxHashMap<u32, u32> = FxHashMap::default();
    let mut needs: BTreeMap<u32, Vec<Node>> = BTreeMap::new();
    for access in &register.accesses {
        let thread = thread_of(model, access.node);
        let before = left.get(&thread).copied().unwrap_or(register.initial);
        if let Some(value) = access.needs {
            if value != before {
                needs.entry(value).or_default().push(access.node);
            }
            left.insert(thread, value);
        }
        if let Some(value) = access.writes {
            left.insert(thread, value);
        }
    }
    for (value, nodes) in needs {
        // Of a single writer must-happen-before knows more.
        let sources = register.sources(value);
        let Some(sources) = sources.filter(|sources| sources.only().is_none()) else {
            continue;
        };
        supplies.push(Supply {
            initial: 0,
            each: 1,
            own: false,
            needs: ByThread::new(nodes, model).positions(model),
            gives: sources.positions(model),
        });
    }
}
