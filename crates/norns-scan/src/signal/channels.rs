//! Signals through the kernel: pipes, sockets that are connected to each other, queues, files, timers, signals
//! that are read from a descriptor, futexes.
//!
//! What comes from outside of the process is not known: bytes that another process has written to a pipe or a
//! file, and signals that another process has sent, are taken for those of this one.

use norns_ir::{Callee, Kind, Operand};
use rustc_hash::FxHashMap;

use super::{Reading, SignalKind, Signals};
use crate::code::Code;
use crate::external::Effect;
use crate::instance::Point;
use crate::object::{Location, ObjectId, Origin};
use crate::parallel::Parallel;
use crate::points_to::constant_integer;
use crate::symbol::{Root, Symbol, Symbols};

/// One direction of a channel: the object, and for connected sockets the end that sends.
pub(super) type Way = (ObjectId, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Send,
    Close,
    Receive {
        unless: &'static [i64],
        end: Option<i64>,
    },
    /// The result is this one if something was received.
    Woken {
        only: i64,
    },
}

pub(super) struct Use {
    pub(super) point: Point,
    pub(super) act: Act,
    pub(super) ways: Vec<Way>,
}

/// Requests and results of system calls.
const POLLIN: i64 = 1;
const FUTEX: [i64; 2] = [202, 98];
const FUTEX_OPERATION: i64 = 0x7f;
const FUTEX_WAIT: [i64; 2] = [0, 9];
const FUTEX_WAKE: [i64; 2] = [1, 10];
const SIZE_OF_DESCRIPTOR: i64 = 4;

impl Signals {
    pub(super) fn find_channels(
        &mut self,
        code: &Code,
        symbols: &mut Symbols,
        parallel: &Parallel,
    ) {
        let uses = uses(code, symbols, parallel);
        let mut by_way: FxHashMap<Way, Vec<&Use>> = FxHashMap::default();
        for found in &uses {
            for &way in &found.ways {
                by_way.entry(way).or_default().push(found);
            }
        }
        let mut all: Vec<_> = by_way.into_iter().collect();
        all.sort_by_key(|(way, _)| *way);
        for (way, uses) in all {
            if code.is_unique(way.0) {
                self.add_channel(code, way, &uses);
            }
        }
    }

    fn add_channel(&mut self, code: &Code, way: Way, uses: &[&Use]) {
        let signal = self.add(SignalKind::Channel);
        let is_file = opener(code, way.0).is_some_and(|name| name.starts_with("mk"));
        let ends = uses
            .iter()
            .any(|found| !is_file && matches!(found.act, Act::Receive { end: Some(_), .. }));
        let end_signal = ends.then(|| self.add(SignalKind::Channel));
        for found in uses {
            match found.act {
                Act::Send => self.release(code, signal, found.point),
                Act::Close => {
                    self.release(code, signal, found.point);
                    if let Some(end) = end_signal {
                        self.release(code, end, found.point);
                    }
                }
                Act::Receive { .. } | Act::Woken { .. } if found.ways.len() > 1 => {}
                Act::Receive { unless, end } => {
                    let mut unless = unless.to_vec();
                    // Nobody has to have written to a file for its end to be found.
                    unless.extend(is_file.then_some(0));
                    self.put(found.point, signal, unless, None);
                    if let (Some(end_signal), Some(end)) = (end_signal, end) {
                        self.put(found.point, end_signal, Vec::new(), Some(end));
                    }
                }
                Act::Woken { only } => self.put(found.point, signal, Vec::new(), Some(only)),
            }
        }
        if opener(code, way.0) == Some("signalfd") {
            for point in code.points() {
                let raises = code
                    .external(point)
                    .is_some_and(|(effects, _)| effects.contains(&Effect::Raises));
                if raises {
                    self.release(code, signal, point);
                }
            }
        }
    }

    fn put(&mut self, point: Point, signal: u32, unless: Vec<i64>, only: Option<i64>) {
        self.readings.entry(point).or_default().push(Reading {
            signal,
            unless,
            is_relaxed: false,
            only,
        });
    }
}

/// The function that has opened a channel.
fn opener<'p>(code: &Code<'p>, channel: ObjectId) -> Option<&'p str> {
    opening(code, channel).map(|(name, _)| name)
}

/// The function that has opened a channel, with the arguments of the call.
pub(super) fn opening<'p>(code: &Code<'p>, channel: ObjectId) -> Option<(&'p str, &'p [Operand])> {
    let Origin::Channel(instance, instruction) = code.points_to.objects.origin(channel) else {
        return None;
    };
    match code.kind(Point {
        instance,
        instruction,
    }) {
        Kind::Call {
            callee: Callee::Function(id),
            arguments,
            ..
        } => Some((code.program.function(*id).name.as_str(), arguments)),
        _ => None,
    }
}

pub(super) fn uses(code: &Code, symbols: &mut Symbols, parallel: &Parallel) -> Vec<Use> {
    let mut all = Vec::new();
    for point in code.points() {
        let Some((effects, arguments)) = code.external(point) else {
            continue;
        };
        if !parallel.is_reached(point) {
            continue;
        }
        for &effect in effects {
            let (act, descriptor) = match effect {
                Effect::Sends(descriptor) => (Act::Send, descriptor),
                Effect::Closes(descriptor) => (Act::Close, descriptor),
                Effect::Receives { from, unless, end } => (Act::Receive { unless, end }, from),
                Effect::Polls => {
                    all.extend(polled(code, symbols, point, arguments));
                    continue;
                }
                Effect::SystemCall => {
                    all.extend(futex(code, point, arguments));
                    continue;
                }
                _ => continue,
            };
            let Some(&descriptor) = arguments.get(descriptor) else {
                continue;
            };
            let sends = matches!(act, Act::Send | Act::Close);
            let places = code.points_to.locations(point.instance, descriptor);
            let name = symbols.of(point.instance, descriptor);
            let ways = ways(code, symbols, &places, name, sends);
            all.push(Use { point, act, ways });
        }
    }
    all.retain(|found| !found.ways.is_empty());
    all
}

/// The directions in which a descriptor sends, or from which it receives.
fn ways(
    code: &Code,
    symbols: &mut Symbols,
    places: &[Location],
    name: Symbol,
    sends: bool,
) -> Vec<Way> {
    let mut all = Vec::new();
    for at in places {
        match code.points_to.objects.origin(at.object) {
            Origin::Channel(..) if opener(code, at.object) == Some("socketpair") => {
                match end_of(code, symbols, at.object, name) {
                    Some(end) if sends => all.push((at.object, end)),
                    Some(end) => all.push((at.object, 1 - end)),
                    None => all.extend([(at.object, 0), (at.object, 1)]),
                }
            }
            Origin::Channel(..) | Origin::Queues => all.push((at.object, 0)),
            _ => {}
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Which of the two ends of connected sockets a descriptor is: it is read from the array of both.
fn end_of(code: &Code, symbols: &mut Symbols, channel: ObjectId, name: Symbol) -> Option<u64> {
    let Origin::Channel(instance, instruction) = code.points_to.objects.origin(channel) else {
        return None;
    };
    let Kind::Call { arguments, .. } = code.kind(Point {
        instance,
        instruction,
    }) else {
        return None;
    };
    let both = symbols.of(instance, *arguments.get(3)?);
    let (Root::Loaded(at), 0) = (symbols.root(name.root), name.offset) else {
        return None;
    };
    match (at.root == both.root, at.offset - both.offset) {
        (true, 0) => Some(0),
        (true, SIZE_OF_DESCRIPTOR) => Some(1),
        _ => None,
    }
}

pub(super) fn constant(code: &Code, operand: Option<&Operand>) -> Option<i64> {
    match operand {
        Some(Operand::Constant(id)) => constant_integer(code.program, *id),
        _ => None,
    }
}

/// A `poll` of one descriptor for what can be received.
fn polled(code: &Code, symbols: &mut Symbols, point: Point, arguments: &[Operand]) -> Option<Use> {
    if constant(code, arguments.get(1)) != Some(1) {
        return None;
    }
    let list = *arguments.first()?;
    let [at] = code.points_to.locations(point.instance, list)[..] else {
        return None;
    };
    let start = symbols.of(point.instance, list);
    let events = symbols.loaded(Symbol {
        offset: start.offset + SIZE_OF_DESCRIPTOR,
        ..start
    });
    if symbols.root(events.root) != Root::Number || events.offset != POLLIN {
        return None;
    }
    let name = symbols.loaded(start);
    let places = code.points_to.behind(at);
    Some(Use {
        point,
        act: Act::Receive {
            unless: &[-1, 0],
            end: None,
        },
        ways: ways(code, symbols, &places, name, false),
    })
}

/// A `futex` call that waits or wakes.
fn futex(code: &Code, point: Point, arguments: &[Operand]) -> Option<Use> {
    let number = constant(code, arguments.first())?;
    let operation = constant(code, arguments.get(2))? & FUTEX_OPERATION;
    if !FUTEX.contains(&number) {
        return None;
    }
    let act = if FUTEX_WAIT.contains(&operation) {
        Act::Woken { only: 0 }
    } else if FUTEX_WAKE.contains(&operation) {
        Act::Send
    } else {
        return None;
    };
    let objects = &code.points_to.objects;
    let places = code.points_to.locations(point.instance, *arguments.get(1)?);
    let ways = places
        .iter()
        .filter(|&&at| !objects.is_element(code.program, at))
        .map(|at| (at.object, at.offset));
    Some(Use {
        point,
        act,
        ways: ways.collect(),
    })
}
