//! Steps that are about two locations. Beyond Kasikci (2015), whose patterns are about one location; the idea is that
//! of MUVI (Lu et al. 2007): variables that are used together are meant to be used together. Looked for are
//!
//! - a thread that accesses one, and then the second one, which another thread has accessed meanwhile;
//! - a thread that accesses the first location behind a write of another thread, and then the second, before the
//!   other has gone on to that: what the other one writes there may never be seen, since the program fails before.
//!
//! Bounded: of each thread the last `RECENT` statements are looked at whose memory others access as well, and of
//! each location the last `SINCE` accesses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use norns_trace::{Access, ThreadId};

use crate::facts::{Facts, How, Pattern};
use crate::memory::{Life, One, Seen};

const RECENT: usize = 6;
const SINCE: usize = 8;

pub struct TwoLocations {
    /// Statements with accesses that conflict with another thread's.
    shared: BTreeSet<u64>,
}

impl TwoLocations {
    /// For a run of which the orders of two are known.
    pub fn of(facts: &Facts) -> Self {
        let orders = facts
            .orders
            .keys()
            .filter(|order| order.statements.len() == 2);
        Self {
            shared: orders
                .flat_map(|order| order.statements.iter().copied())
                .collect(),
        }
    }

    pub fn add(&self, accesses: &[(Seen, One)], facts: &mut Facts) {
        let users: BTreeSet<(ThreadId, u64)> = { accesses.iter() }
            .map(|(seen, one)| (one.thread, seen.access.address))
            .collect();
        let mut recent: BTreeMap<ThreadId, VecDeque<(Access, One)>> = BTreeMap::new();
        let mut last: BTreeMap<u64, VecDeque<One>> = BTreeMap::new();
        let is_shared =
            |(seen, one): &&(Seen, One)| seen.life == Life::GoesOn && self.shared.contains(&one.pc);
        for &(Seen { access, .. }, one) in accesses.iter().filter(is_shared) {
            // Of each other thread the last statement, if it goes on to this location at some time.
            let behind = recent.iter().filter_map(|(other, theirs)| {
                let (at, last) = theirs.front()?;
                let goes_on = users.contains(&(*other, access.address));
                let is_met = recent
                    .get(&one.thread)
                    .into_iter()
                    .flatten()
                    .any(|(own, since)| since.event > last.event && own.overlaps(*at));
                (*other != one.thread && last.writes && goes_on && is_met && !at.overlaps(access))
                    .then_some(*last)
            });
            for last in behind {
                let pattern = Pattern::of_two(true, one.writes);
                facts.order(pattern, &[last, one], How::TwoLocations);
            }
            let own = recent.entry(one.thread).or_default();
            let here = last.entry(access.address).or_default();
            let others = here.iter().take_while(|other| other.thread != one.thread);
            for other in others.filter(|other| other.writes || one.writes) {
                let before = own
                    .iter()
                    .filter(|(at, first)| first.event < other.event && !at.overlaps(access));
                for (_, first) in before {
                    let pattern = Pattern::of_three(first.writes, other.writes, one.writes);
                    facts.order(pattern, &[*first, *other, one], How::TwoLocations);
                }
            }
            here.truncate(SINCE - 1);
            here.push_front(one);
            // `memcpy` makes several accesses of one statement, one behind the other.
            let whole = match own.front() {
                Some((before, known)) if known.pc == one.pc => joined(*before, access),
                _ => access,
            };
            own.retain(|(_, known)| known.pc != one.pc);
            own.truncate(RECENT - 1);
            own.push_front((whole, one));
        }
    }
}

/// Both, if the second begins where the first one ends.
fn joined(first: Access, second: Access) -> Access {
    match first.address + u64::from(first.size) == second.address {
        true => Access {
            address: first.address,
            size: first.size.saturating_add(second.size),
        },
        false => second,
    }
}
