//! What the search does with one state: follows its rules and checks what is asked of it.

use crate::engine::network::{FORMAT_FIELD, SPEC_FIELD, TERMINATED, Which};
use crate::engine::search::{Kind, Outside, Pass, Search, Stable, Worker};
use crate::engine::store::{hash, shard_of};
use crate::event::EventId;

impl Search<'_> {
    /// Follows the rules of `worker.current` that the pass is about, and checks the state.
    pub(super) fn state(&self, worker: &mut Worker, level: usize, pass: Pass) {
        let network = self.network;
        let layout = &network.layout;
        let format = layout.get(&worker.current, FORMAT_FIELD) as usize;
        let node = layout.get(&worker.current, SPEC_FIELD) as u32;
        if self.goal.prune_divergent
            && self
                .goal
                .spec
                .is_some_and(|spec| spec.divergent[node as usize])
        {
            return;
        }
        if network.cut && network.at_cut(&worker.current) {
            worker.cut = true;
            return;
        }
        let shards = self.store.shards.len();
        let send = |out: &mut Vec<Vec<u64>>, state: &[u64]| {
            let to = if shards == 1 {
                0
            } else {
                shard_of(hash(state), shards)
            };
            out[to].extend_from_slice(state);
        };
        if pass == Pass::Within {
            let mut any = false;
            let reduced = self.ample(&worker.current, &mut worker.scratch);
            let current = std::mem::take(&mut worker.current);
            let mut next = std::mem::take(&mut worker.next);
            match reduced {
                Some(rules) => {
                    any = true;
                    for &rule in rules {
                        worker.transitions += 1;
                        let rule = &network.formats[format].rules[rule as usize];
                        network.fire(&current, rule, &mut next, &mut |s| send(&mut worker.out, s));
                    }
                }
                None => network.enabled_rules(&current, self.inner, |_, rule| {
                    any = true;
                    worker.transitions += 1;
                    if rule.next != TERMINATED {
                        network.fire(&current, rule, &mut next, &mut |s| send(&mut worker.out, s));
                    }
                    true
                }),
            }
            worker.current = current;
            worker.next = next;
            // A state whose format has nothing but taus is checked here, once.
            if !any && (self.inner == Which::All || !self.has_visible[format]) {
                self.check_stable(worker, level, node, false);
            }
            return;
        }
        if self.inner == Which::All {
            return;
        }
        if self.goal.target == Some(node) {
            worker.report(Kind::Reached, level, None);
            return;
        }
        if !self.has_visible[format] && self.has_tau.contains(&true) {
            return;
        }
        let reduced = self.ample(&worker.current, &mut worker.scratch);
        if reduced.is_some() {
            return;
        }
        let mut unstable = false;
        if self.has_tau[format]
            && (self.goal.stable != Stable::Ignore || self.goal.tau_priority.is_some())
        {
            network.enabled_rules(&worker.current, Which::Tau, |_, _| {
                unstable = true;
                false
            });
        }
        // The node whose steps the events are compared with.
        let mut base = node;
        if self.goal.stable == Stable::RefusalTest {
            match self.observe(&worker.current, node, unstable, &mut worker.offered) {
                Some(observed) => base = observed,
                None => {
                    worker.report(Kind::Refusal, level, None);
                    return;
                }
            }
        }
        let current = std::mem::take(&mut worker.current);
        let mut next = std::mem::take(&mut worker.next);
        let mut offered = std::mem::take(&mut worker.offered);
        offered.fill(0);
        let (mut tick, mut any) = (false, false);
        let mut wrong: Vec<EventId> = Vec::new();
        let mut reached = None;
        network.enabled_rules(&current, Which::NotTau, |_, rule| {
            if unstable
                && self
                    .goal
                    .tau_priority
                    .is_some_and(|set| set.contains(rule.event))
            {
                return true;
            }
            any = true;
            tick |= rule.event == EventId::TICK;
            worker.transitions += 1;
            let to = match self.goal.spec {
                None => 0,
                Some(spec) => match spec.step(base, rule.event) {
                    Some(to) => {
                        let place = spec.place(rule.event).expect("it has a step");
                        offered[place / 64] |= 1 << (place % 64);
                        to
                    }
                    None => {
                        if self.goal.outside == Outside::Violation {
                            wrong.push(rule.event);
                        }
                        return true;
                    }
                },
            };
            if rule.event == EventId::TICK || rule.next == TERMINATED {
                if self.goal.target == Some(to) {
                    reached = Some(rule.event);
                }
                return true;
            }
            network.fire(&current, rule, &mut next, &mut |state| {
                layout.set(state, SPEC_FIELD, u64::from(to));
                send(&mut worker.out, state);
            });
            true
        });
        worker.current = current;
        worker.next = next;
        worker.offered = offered;
        if let Some(event) = reached {
            worker.report(Kind::Reached, level, Some(event));
        }
        for event in wrong {
            worker.report(Kind::Event, level, Some(event));
        }
        if tick {
            // Tick cannot be refused, but everything else can.
            if matches!(self.goal.stable, Stable::Accept | Stable::Revive)
                && let Some(spec) = self.goal.spec
            {
                worker.offered.fill(0);
                if let Some(place) = spec.place(EventId::TICK) {
                    worker.offered[place / 64] |= 1 << (place % 64);
                }
                self.check_stable(worker, level, node, true);
            }
        } else if !unstable {
            self.check_stable(worker, level, node, any);
        }
    }

    /// Checks a stable state that offers `worker.offered` (or just something, if `any`).
    fn check_stable(&self, worker: &mut Worker, level: usize, node: u32, any: bool) {
        let wrong = match self.goal.stable {
            Stable::Ignore => false,
            // `observe` has looked at a state that offers something.
            Stable::RefusalTest => {
                worker.offered.fill(0);
                let spec = self.goal.spec.expect("refusal testing is a refinement");
                !any && spec.refusing_rest(node, &worker.offered).is_none()
            }
            Stable::Deadlock => !any,
            Stable::Accept | Stable::Revive => {
                if !any {
                    worker.offered.fill(0);
                }
                let spec = self
                    .goal
                    .spec
                    .expect("acceptances come from a specification");
                if self.goal.stable == Stable::Revive {
                    !spec.revives(node, &worker.offered)
                } else {
                    !spec.allows(node, &worker.offered)
                }
            }
        };
        if wrong {
            worker.report(Kind::Refusal, level, None);
        }
    }

    /// For refusal testing: the node behind what a state refuses, or the same node if it is not
    /// stable; none if the specification cannot refuse that. `offered` is scratch space.
    fn observe(
        &self,
        state: &[u64],
        node: u32,
        unstable: bool,
        offered: &mut [u64],
    ) -> Option<u32> {
        let spec = self.goal.spec.expect("refusal testing is a refinement");
        offered.fill(0);
        let mut tick = false;
        let (mut first, mut several) = (None, false);
        self.network.enabled_rules(state, Which::NotTau, |_, rule| {
            tick |= rule.event == EventId::TICK;
            several |= first.is_some_and(|event| event != rule.event);
            first = Some(rule.event);
            if let Some(place) = spec.place(rule.event) {
                offered[place / 64] |= 1 << (place % 64);
            }
            true
        });
        if !tick {
            return if unstable {
                Some(node)
            } else {
                spec.refusing_rest(node, offered)
            };
        }
        // Termination cannot be refused, but everything else can before it.
        let place = spec.place(EventId::TICK)?;
        offered.fill(0);
        offered[place / 64] |= 1 << (place % 64);
        let ending = spec.refusing_rest(node, offered)?;
        spec.step(ending, EventId::TICK)?;
        if unstable || several {
            Some(node)
        } else {
            Some(ending)
        }
    }

    /// The node behind a visible event of a state.
    pub(super) fn after(&self, state: &[u64], event: EventId) -> Option<u64> {
        let spec = self.goal.spec?;
        let mut node = self.network.layout.get(state, SPEC_FIELD) as u32;
        if self.goal.stable == Stable::RefusalTest {
            let mut offered = vec![0; spec.accept_words()];
            let unstable = self.network.has_tau(state);
            node = self.observe(state, node, unstable, &mut offered)?;
        }
        spec.step(node, event).map(u64::from)
    }
}
