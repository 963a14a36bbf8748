//! Tallies: who has taken as many units as are ever given comes after everybody who gave one.
//!
//! Units are those of a semaphore or of an eventfd that counts, or single bytes of a pipe. How many there can be
//! is known if every place that gives one is executed at most once in each of a known number of threads; how many
//! were taken is known where a loop that takes one in every turn ends after a known number of turns.

use std::collections::BTreeMap;

use norns_ir::{BlockId, InstructionId, Operand};

use super::channels::{self, Act, constant, opening};
use super::counters::is_once_in_thread;
use super::{MOST_SIGNALS, SignalKind, Signals, objects};
use crate::code::Code;
use crate::condition::Condition;
use crate::external::Effect;
use crate::instance::Point;
use crate::parallel::Parallel;
use crate::symbol::{Root, Symbols};
use crate::turns::{bounds, is_in_every_turn};

/// A flag of `eventfd`: every read takes one.
const EFD_SEMAPHORE: i64 = 1;

/// What gives units to one place, and what takes them.
#[derive(Default)]
struct Tally {
    gives: Vec<Point>,
    takes: Vec<Take>,
    /// Units that are there before, or come and go in other numbers than one.
    is_unclear: bool,
}

#[derive(Clone, Copy)]
struct Take {
    point: Point,
    /// Whether the call always takes one; otherwise its result says so.
    is_sure: bool,
}

impl Signals {
    pub(super) fn find_tallies(&mut self, code: &Code, symbols: &mut Symbols, parallel: &Parallel) {
        for tally in tallies(code, symbols, parallel) {
            let Some(units) = units(code, parallel, &tally.gives) else {
                continue;
            };
            if tally.is_unclear || self.all.len() >= MOST_SIGNALS {
                continue;
            }
            let ends: Vec<(Point, BlockId)> = tally
                .takes
                .iter()
                .flat_map(|&take| ends_of_loop(code, symbols, take, units))
                .collect();
            if ends.is_empty() {
                continue;
            }
            let signal = self.add(SignalKind::Tally);
            for &give in &tally.gives {
                self.release(code, signal, give);
            }
            for end in ends {
                self.ends.entry(end).or_default().push(signal);
            }
        }
    }
}

fn tallies(code: &Code, symbols: &mut Symbols, parallel: &Parallel) -> Vec<Tally> {
    let mut semaphores: BTreeMap<_, Tally> = BTreeMap::new();
    for found in objects::uses(code, parallel) {
        let (effect, point) = (found.effect, found.point);
        for &at in &found.places {
            let is_element = code.points_to.objects.is_element(code.program, at);
            let tally = semaphores.entry((at.object, at.offset)).or_default();
            tally.is_unclear |= is_element || !code.is_unique(at.object);
            match effect {
                Effect::SemaphoreInit(_) => {
                    tally.is_unclear |= constant(code, found.arguments.get(2)) != Some(0);
                }
                Effect::SemaphorePost(_) => tally.gives.push(point),
                Effect::SemaphoreWait { is_sure, .. } if found.places.len() == 1 && is_sure => {
                    tally.takes.push(Take { point, is_sure });
                }
                _ => {}
            }
        }
    }
    let mut channels: BTreeMap<_, Tally> = BTreeMap::new();
    for found in channels::uses(code, symbols, parallel) {
        let point = found.point;
        for &way in &found.ways {
            let tally = channels.entry(way).or_default();
            let is_unit = is_unit(code, symbols, way.0, point);
            match found.act {
                Act::Send => {
                    tally.is_unclear |= !is_unit || !code.is_unique(way.0);
                    tally.gives.push(point);
                }
                Act::Receive { .. } if is_unit && found.ways.len() == 1 => tally.takes.push(Take {
                    point,
                    is_sure: false,
                }),
                _ => {}
            }
        }
    }
    semaphores
        .into_values()
        .chain(channels.into_values())
        .collect()
}

/// Whether a call on a channel sends or receives one unit if it does not fail.
fn is_unit(
    code: &Code,
    symbols: &mut Symbols,
    channel: crate::object::ObjectId,
    point: Point,
) -> bool {
    const WORD: i64 = 8;
    let Some((_, arguments)) = code.external(point) else {
        return false;
    };
    let size = constant(code, arguments.get(2));
    match opening(code, channel) {
        Some(("pipe" | "pipe2", _)) => size == Some(1),
        Some(("eventfd", opened)) => {
            let counts = constant(code, opened.first()) == Some(0)
                && constant(code, opened.get(1)).is_some_and(|flags| flags & EFD_SEMAPHORE != 0);
            let sends = code
                .external(point)
                .is_some_and(|(effects, _)| effects.contains(&Effect::Sends(0)));
            let is_one = |symbols: &mut Symbols, from: Operand| {
                let at = symbols.of(point.instance, from);
                let value = symbols.loaded(at);
                symbols.root(value.root) == Root::Number && value.offset == 1
            };
            let from = arguments.get(1).copied();
            counts
                && size == Some(WORD)
                && (!sends || from.is_some_and(|from| is_one(symbols, from)))
        }
        _ => false,
    }
}

/// How many units can be given in a run.
fn units(code: &Code, parallel: &Parallel, gives: &[Point]) -> Option<i64> {
    let mut units = 0_u64;
    for &give in gives {
        if !is_once_in_thread(code, give) {
            return None;
        }
        for &thread in code.threads_of(give.instance) {
            units = units.checked_add(parallel.count(thread)?)?;
        }
    }
    i64::try_from(units).ok().filter(|&units| units > 0)
}

/// Where a loop ends that has taken so many units.
fn ends_of_loop(
    code: &Code,
    symbols: &mut Symbols,
    take: Take,
    units: i64,
) -> Vec<(Point, BlockId)> {
    let point = take.point;
    let flow = code.flow(point.instance);
    let cycle = flow
        .position(point.instruction)
        .and_then(|(block, _)| flow.cycle(block));
    let Some(cycle) = cycle else {
        return Vec::new();
    };
    let at = |instruction: InstructionId| Point {
        instance: point.instance,
        instruction,
    };
    let blocks = &code.function(point.instance).blocks;
    let in_loop: Vec<(BlockId, Point)> = (0..blocks.len())
        .map(BlockId::from_index)
        .filter(|&block| flow.cycle(block) == Some(cycle))
        .filter_map(|block| Some((block, at(*blocks[block.index()].instructions.last()?))))
        .collect();
    let stays = |to: BlockId| flow.cycle(to) == Some(cycle);
    let mut ends = Vec::new();
    for &(header, last) in &in_loop {
        let enough = bounds(code, symbols, last)
            .and_then(|bounds| bounds.turns)
            .is_some_and(|turns| turns >= units);
        if !enough || !is_in_every_turn(code, point, header) {
            continue;
        }
        // Another turn is begun only if the last one took something.
        let has_taken = take.is_sure
            || in_loop.iter().any(|&(block, branch)| {
                let condition = Condition::of_branch(code, branch);
                let Some(condition) = condition.filter(|condition| condition.load == point) else {
                    return false;
                };
                let mut next = flow.successors(block).iter().filter(|&&to| stays(to));
                is_in_every_turn(code, branch, header)
                    && next.all(|&to| {
                        [-1, 0]
                            .iter()
                            .all(|&value| condition.excludes(code, branch, to, value))
                    })
            });
        if has_taken {
            let out = flow.successors(header).iter().filter(|&&to| !stays(to));
            ends.extend(out.map(|&to| (last, to)));
        }
    }
    ends
}
