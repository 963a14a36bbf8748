//! How far each thread can get, by counting: a proof of impossibility without search.
//!
//! Some events consume a resource that other events produce. A read that sees a value which its own
//! thread did not leave there consumes a write of that value by another thread; a wait consumes a
//! signal, a wait on a semaphore a post, the exit of a barrier a full round. When the threads of a
//! bug stop, what they would have produced later is missing, so other threads cannot get as far as
//! in the trace, and what these would have produced is missing too. The limits only decrease, so
//! this comes to an end. The limits are upper bounds: a thread may not get as far as its limit.
//!
//! Reads in traces with branch events are not counted, since they need not see the same value.

use std::collections::BTreeMap;

use norns_model::Model;
use norns_order::Node;
use rustc_hash::FxHashMap;

use super::clocks::Clocks;
use crate::order::objects::barriers::Barrier;
use crate::order::objects::registers::Register;
use crate::order::objects::thread_chains::{ThreadChains, ThreadPositions, thread_of};
use crate::order::search::simulation::Objects;

/// Something that some events produce and others consume.
struct Resource {
    /// How much there is at the beginning.
    initial: u32,
    /// How much each consumer takes. A producer adds one.
    per_consumer: u32,
    /// Whether a thread can consume what it has produced itself.
    own_counts: bool,
    consumers: Vec<ThreadPositions>,
    producers: Vec<ThreadPositions>,
}

pub struct Resources {
    resources: Vec<Resource>,
    /// For every thread, the resources that it produces.
    produced_by: Vec<Vec<u32>>,
}

/// A thread cannot get as far as it has to.
#[derive(Debug)]
pub struct OutOfReach;

impl Resources {
    pub fn new(model: &Model<'_>, objects: &Objects, barriers: &[Barrier]) -> Self {
        let mut resources = Vec::new();
        let registers = objects.registers.iter();
        for register in registers.filter(|register| register.reads_are_always_relevant()) {
            register_resources(model, register, &mut resources);
        }
        let positions = |nodes: Vec<Node>| ThreadChains::new(nodes, model).positions(model);
        for semaphore in &objects.semaphores {
            let with = |change: i64| {
                let nodes = (0..).zip(semaphore.nodes());
                let nodes = nodes.filter(move |&(i, _)| semaphore.change(i) == change);
                positions(nodes.map(|(_, &node)| node).collect())
            };
            resources.push(Resource {
                initial: semaphore.initial.max(0) as u32,
                per_consumer: 1,
                own_counts: true,
                consumers: with(-1),
                producers: with(1),
            });
        }
        for condition in &objects.conditions {
            let wakes = condition.waits.iter().map(|wait| wait.wake);
            resources.push(Resource {
                initial: 0,
                per_consumer: 1,
                own_counts: false,
                consumers: positions(wakes.collect()),
                // Consumers are counted thread by thread, and a broadcast wakes a thread only once,
                // as a signal does.
                producers: positions(condition.wakers()),
            });
        }
        for barrier in barriers {
            resources.push(Resource {
                initial: 0,
                per_consumer: barrier.count() as u32,
                own_counts: true,
                consumers: positions(barrier.exits().collect()),
                producers: positions(barrier.entries().collect()),
            });
        }
        let mut produced_by = vec![Vec::new(); model.threads.len()];
        for (i, resource) in resources.iter().enumerate() {
            for producers in &resource.producers {
                produced_by[producers.thread].push(i as u32);
            }
        }
        Resources {
            resources,
            produced_by,
        }
    }

    /// Lowers `limits`, the number of events of each thread that can take place, until nothing
    /// more follows. Stops early when the limit of a thread falls below its entry in `needed`.
    pub fn lower(
        &self,
        model: &Model<'_>,
        clocks: &Clocks,
        needed: &[u32],
        limits: &mut [u32],
    ) -> Result<(), OutOfReach> {
        // Threads whose limit has become lower, which may lower that of others.
        let mut changed: Vec<usize> = (0..limits.len())
            .filter(|&t| (limits[t] as usize) < model.threads[t].len())
            .collect();
        while let Some(thread) = changed.pop() {
            let set = |limits: &mut [u32], changed: &mut Vec<usize>, t: usize, limit: u32| {
                if limit < limits[t] {
                    limits[t] = limit;
                    if !changed.contains(&t) {
                        changed.push(t);
                    }
                }
                if limit < needed[t] {
                    return Err(OutOfReach);
                }
                Ok(())
            };
            for t in (0..limits.len()).filter(|&t| t != thread) {
                // Up to the first event that must come after one that `thread` does not reach.
                let events = &model.threads[t][..limits[t] as usize];
                let limit =
                    events.partition_point(|&e| clocks.known(e, thread) <= limits[thread]) as u32;
                set(limits, &mut changed, t, limit)?;
            }
            for &resource in &self.produced_by[thread] {
                let resource = &self.resources[resource as usize];
                for consumers in &resource.consumers {
                    if let Some(limit) = resource.limit(consumers, limits) {
                        set(limits, &mut changed, consumers.thread, limit)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Resource {
    /// The position of the first of these consumers for which not enough is left, given how far each
    /// thread gets.
    fn limit(&self, consumers: &ThreadPositions, limits: &[u32]) -> Option<u32> {
        let produced = self
            .producers
            .iter()
            .filter(|of| self.own_counts || of.thread != consumers.thread)
            .map(|of| of.positions.partition_point(|&p| p < limits[of.thread]) as u32)
            .sum::<u32>();
        let enough_for = (self.initial + produced) / self.per_consumer;
        consumers.positions.get(enough_for as usize).copied()
    }
}

/// One resource for each value that a thread reads and did not leave there itself: the writes of
/// the value by other threads.
fn register_resources(model: &Model<'_>, register: &Register, resources: &mut Vec<Resource>) {
    // The value that each thread's last access left or saw.
    let mut last: FxHashMap<u32, u32> = FxHashMap::default();
    // By value.
    let mut consumers: BTreeMap<u32, Vec<Node>> = BTreeMap::new();
    for access in &register.accesses {
        let thread = thread_of(model, access.node);
        let before = last.get(&thread).copied().unwrap_or(register.initial);
        if let Some(value) = access.needs {
            if value != before {
                consumers.entry(value).or_default().push(access.node);
            }
            last.insert(thread, value);
        }
        if let Some(value) = access.writes {
            last.insert(thread, value);
        }
    }
    for (value, nodes) in consumers {
        // A single write of the value is already in must-happen-before.
        let sources = register.sources(value);
        let Some(sources) = sources.filter(|sources| sources.only().is_none()) else {
            continue;
        };
        resources.push(Resource {
            initial: 0,
            per_consumer: 1,
            own_counts: false,
            consumers: ThreadChains::new(nodes, model).positions(model),
            producers: sources.positions(model),
        });
    }
}
