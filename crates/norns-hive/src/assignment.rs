//! Which task a participant gets next.
//!
//! After section 3.4 of Kasikci 2015. Each participant gets one task at a time. True races are withdrawn.
//! Predicted races come first, since a schedule is known for them; then candidates of which some run has
//! seen the same address touched by different threads; then the others. Among equals the one with the
//! fewest reports comes first, and time-outs do not count there, so that a stubborn candidate is soon given
//! to more participants. After a time-out the same participant waits longer, from 1 ms over 50 ms in steps
//! of 50 ms to 200 ms, and then abandons this order of this candidate. A participant that did more than its
//! share in an hour is left alone until the next one.
//!
//! All of this is a function of counts: no clock, no randomness beyond the participant's own number.

use std::collections::BTreeMap;

use crate::id::{CandidateId, SiteNumber};
use crate::protocol::{Candidate, Order, Origin, Outcome};
use crate::verdict::{Tally, Verdict};

/// The first time a thread is made to wait.
pub const FIRST_TAU_MS: u32 = 1;
/// How much longer after each time-out.
pub const TAU_STEP_MS: u32 = 50;
/// The longest.
pub const MAX_TAU_MS: u32 = 200;

/// How long to wait after a time-out of `tau_ms`; nothing after the longest.
#[must_use]
pub fn longer(tau_ms: u32) -> Option<u32> {
    let steps = tau_ms / TAU_STEP_MS + 1;
    (tau_ms < MAX_TAU_MS).then(|| (steps * TAU_STEP_MS).min(MAX_TAU_MS))
}

/// What the hive knows of a candidate of the build that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub candidate: CandidateId,
    pub origin: Origin,
    pub rank: u32,
    /// Whether some run saw different threads touch the same address there.
    pub context_seen: bool,
    /// Whether both places are the same site: then there is only one order.
    pub with_itself: bool,
    pub tally: Tally,
    /// How many participants have it as their task now.
    pub active: u64,
}

impl Standing {
    /// Of a candidate that has sites at both places; `contexts` is how often one address was seen there.
    #[must_use]
    pub fn new(candidate: &Candidate, tally: Tally, contexts: u64) -> Self {
        let [one, other] = &candidate.sites;
        Self {
            candidate: candidate.id.clone(),
            origin: candidate.origin,
            rank: candidate.rank,
            context_seen: contexts > 0,
            with_itself: one == other && one.len() == 1,
            tally,
            active: 0,
        }
    }
}

/// The sites of a candidate's two places for its attempt with this number: where a place has several, each gets
/// its turn. Nothing if a place has none.
#[must_use]
pub fn sites_of_turn(candidate: &Candidate, turn: u64) -> Option<[SiteNumber; 2]> {
    let pick = |sites: &[SiteNumber], turn: u64| {
        let at = usize::try_from(turn % sites.len().max(1) as u64).unwrap_or(0);
        sites.get(at).copied()
    };
    let [one, other] = &candidate.sites;
    Some([
        pick(one, turn)?,
        pick(other, turn / one.len().max(1) as u64)?,
    ])
}

/// What one participant has tried so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attempts {
    /// The primary order and the alternate one.
    candidates: BTreeMap<CandidateId, [Attempt; 2]>,
}

/// What one participant has tried of one order of one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attempt {
    pub reports: u32,
    /// The longest that timed out; 0 if none did.
    pub timed_out_ms: u32,
}

impl Attempts {
    pub fn add(&mut self, candidate: CandidateId, order: Order, result: Outcome, tau_ms: u32) {
        let attempt = &mut self.candidates.entry(candidate).or_default()[order as usize];
        attempt.reports += 1;
        if result == Outcome::Timeout {
            attempt.timed_out_ms = attempt.timed_out_ms.max(tau_ms);
        }
    }

    pub fn insert(&mut self, candidate: CandidateId, order: Order, attempt: Attempt) {
        self.candidates.entry(candidate).or_default()[order as usize] = attempt;
    }

    fn of(&self, candidate: &CandidateId, order: Order) -> Attempt {
        let orders = self.candidates.get(candidate);
        orders.map_or_else(Attempt::default, |orders| orders[order as usize])
    }
}

impl Attempt {
    /// How long the next attempt waits; nothing if the participant has abandoned this order.
    fn next_tau_ms(self) -> Option<u32> {
        match self.timed_out_ms {
            0 => Some(FIRST_TAU_MS),
            tau_ms => longer(tau_ms),
        }
    }
}

/// How much participants do, in tasks of the last hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    pub mine: u64,
    /// Of all participants together.
    pub all: u64,
    pub participants: u64,
}

impl Load {
    /// Whether a participant has done more than its share: twice the mean, and not just a few tasks.
    #[must_use]
    pub fn is_more_than_share(self) -> bool {
        /// So many tasks are never too many: with few participants the mean says little.
        const FEW: u64 = 60;
        let twice_the_mean = 2 * self.all / self.participants.max(1);
        self.mine > FEW.max(twice_the_mean)
    }
}

/// The answer: a candidate, by its position in the standings, and how to try it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment {
    pub standing: usize,
    pub order: Order,
    pub tau_ms: u32,
}

/// The next task of a participant, of which `number` tells it apart from others. Nothing if there is nothing
/// left for it to try.
#[must_use]
pub fn next(
    standings: &[Standing],
    attempts: &Attempts,
    load: Load,
    number: u64,
) -> Option<Assignment> {
    if load.is_more_than_share() {
        return None;
    }
    let choices = standings.iter().enumerate().filter_map(|(at, standing)| {
        let (order, tau_ms) = order(standing, attempts, number)?;
        let assignment = Assignment {
            standing: at,
            order,
            tau_ms,
        };
        Some((urgency(at, standing, attempts, number), assignment))
    });
    let best = choices.min_by_key(|(urgency, _)| *urgency);
    best.map(|(_, assignment)| assignment)
}

/// What comes first has the smallest: its class and what this participant has done of it already, the work of
/// all, the rank, and a number that differs between participants.
type Urgency = (u64, u64, std::cmp::Reverse<u32>, u64);

fn urgency(at: usize, standing: &Standing, attempts: &Attempts, number: u64) -> Urgency {
    let class = match (standing.origin, standing.context_seen) {
        (Origin::Predicted, _) => 0,
        (Origin::Scan, true) => 1,
        (Origin::Scan, false) => 3,
    };
    let later = match standing.tally.verdict() {
        Verdict::LikelyFalse => 4,
        Verdict::Unknown | Verdict::TrueRace => 0,
    };
    let mine: u32 = [Order::Primary, Order::Alternate]
        .into_iter()
        .map(|order| attempts.of(&standing.candidate, order))
        // A time-out is answered by waiting longer at once, not by another candidate.
        .map(|attempt| {
            attempt
                .reports
                .saturating_sub(attempt.timed_out_ms.div_ceil(TAU_STEP_MS))
        })
        .sum();
    let work = standing.tally.total() - standing.tally.timeout + standing.active;
    let mixed = (number ^ at as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(23);
    let rank = std::cmp::Reverse(standing.rank);
    (class + later + u64::from(mine), work, rank, mixed)
}

/// The order to ask for and how long to wait; nothing for a true race, or where this participant has
/// abandoned both orders.
fn order(standing: &Standing, attempts: &Attempts, number: u64) -> Option<(Order, u32)> {
    if standing.tally.verdict() == Verdict::TrueRace {
        return None;
    }
    let orders: &[Order] = match standing.with_itself {
        true => &[Order::Primary],
        false => &[Order::Primary, Order::Alternate],
    };
    let choices = orders.iter().filter_map(|&order| {
        let attempt = attempts.of(&standing.candidate, order);
        let tau_ms = attempt.next_tau_ms()?;
        let of_all = match order {
            Order::Primary => standing.tally.total() - standing.tally.alternate,
            Order::Alternate => standing.tally.alternate,
        };
        // Who has begun to wait goes on; otherwise the order that was tried less, here and by all.
        let waiting = std::cmp::Reverse(attempt.timed_out_ms);
        let coin = (number & 1 == 1) != (order == Order::Primary);
        Some(((waiting, attempt.reports, of_all, coin), (order, tau_ms)))
    });
    choices
        .min_by_key(|(key, _)| *key)
        .map(|(_, choice)| choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(number: u64, change: impl FnOnce(&mut Standing)) -> Standing {
        let mut standing = Standing {
            candidate: CandidateId::new(format!("{number:016x}")).expect("16 digits"),
            origin: Origin::Scan,
            rank: 1,
            context_seen: false,
            with_itself: false,
            tally: Tally::default(),
            active: 0,
        };
        change(&mut standing);
        standing
    }

    fn first(standings: &[Standing]) -> usize {
        let next = next(standings, &Attempts::default(), Load::default(), 7);
        next.expect("something is left").standing
    }

    #[test]
    fn waiting_gets_longer_until_it_is_abandoned() {
        let standings = [standing(1, |it| it.with_itself = true)];
        let mut attempts = Attempts::default();
        let mut waits = Vec::new();
        while let Some(task) = next(&standings, &attempts, Load::default(), 0) {
            waits.push(task.tau_ms);
            let candidate = standings[0].candidate.clone();
            attempts.add(candidate, task.order, Outcome::Timeout, task.tau_ms);
        }
        assert_eq!(waits, [1, 50, 100, 150, 200]);
        // Another participant still gets it.
        assert!(next(&standings, &Attempts::default(), Load::default(), 1).is_some());
    }

    #[test]
    fn predicted_races_come_first_and_true_ones_not_at_all() {
        let races = standing(1, |it| {
            it.origin = Origin::Predicted;
            it.tally.race = 1;
        });
        let plain = standing(2, |it| it.rank = 99);
        let context = standing(3, |it| it.context_seen = true);
        let predicted = standing(4, |it| it.origin = Origin::Predicted);
        assert_eq!(
            first(&[races.clone(), plain.clone(), context.clone(), predicted]),
            3
        );
        assert_eq!(first(&[races.clone(), plain.clone(), context]), 2);
        assert_eq!(first(&[races.clone(), plain]), 1);
        assert_eq!(
            next(&[races], &Attempts::default(), Load::default(), 0),
            None
        );
    }

    #[test]
    fn a_stubborn_candidate_goes_to_more_participants() {
        let stubborn = standing(1, |it| it.tally.timeout = 9);
        let tried = standing(2, |it| it.tally.not_seen = 1);
        assert_eq!(first(&[tried, stubborn]), 1);
    }

    #[test]
    fn candidates_and_orders_are_shared_out_evenly() {
        let mut standings: Vec<Standing> = (0..10).map(|n| standing(n, |_| {})).collect();
        let mut orders = [0, 0];
        for participant in 0..100 {
            let task = next(
                &standings,
                &Attempts::default(),
                Load::default(),
                participant,
            );
            let task = task.expect("none is decided");
            orders[usize::from(task.order == Order::Alternate)] += 1;
            let standing = &mut standings[task.standing];
            standing.tally.not_seen += 1;
            standing.tally.alternate += u64::from(task.order == Order::Alternate);
        }
        assert!(standings.iter().all(|it| it.tally.not_seen == 10));
        assert_eq!(orders, [50, 50]);
    }

    #[test]
    fn one_participant_alone_tries_everything_in_turn() {
        let standings: Vec<Standing> = (0..3)
            .map(|n| standing(n, |it| it.rank = n as u32))
            .collect();
        let mut attempts = Attempts::default();
        let mut tried = Vec::new();
        for _ in 0..6 {
            let task = next(&standings, &attempts, Load::default(), 0).expect("none is decided");
            let candidate = standings[task.standing].candidate.clone();
            attempts.add(candidate, task.order, Outcome::NotSeen, task.tau_ms);
            tried.push((task.standing, task.order));
        }
        tried.sort_unstable();
        tried.dedup();
        assert_eq!(tried.len(), 6);
    }

    #[test]
    fn who_did_more_than_its_share_is_left_alone() {
        let standings = [standing(1, |_| {})];
        let load = Load {
            mine: 100,
            all: 1000,
            participants: 100,
        };
        assert_eq!(next(&standings, &Attempts::default(), load, 0), None);
        let load = Load {
            mine: 100,
            all: 10_000,
            participants: 100,
        };
        assert!(next(&standings, &Attempts::default(), load, 0).is_some());
    }
}
