//! What a race does on other paths of the program than the recorded one: sections 5.4 to 5.6 of Kasikci (2015).
//!
//! Marked parts of the input are variable. The program is interpreted with one input after the other, each for
//! a path that none before it took, in both orders of the race and under several schedules. A path on which
//! both accesses come counts as a primary, its further schedules as alternates. Where the orders end or
//! print differently, the input that shows it is kept; where they print the same, a solver is asked for an
//! input of the same paths with which they do not (the symbolic comparison of section 5.5).
//!
//! Nothing found here is a fact about the real program before it was run with that input.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use norns_interpret::symbolic::{Condition, Inputs, Marks, Path, Solver};
use norns_interpret::{
    Access, End, Enforcement, How, Input, Interpreter, Invariant, Limits, MemoryErrorKind, Order,
    Outcome,
};
use norns_report::Class;

use crate::models::class_of;

/// Operations in one run.
const STEPS: u64 = 5_000_000;
/// Operations that other threads execute while one is kept waiting for the order.
const HOLD: u64 = 200_000;
/// An interpreted path costs so much less than an executed one: so many times as many are looked at.
const INTERPRETED: usize = 40;
/// Branches of one run at which other paths are looked for.
const TURNED: usize = 400;
/// A failure has to do with the order if its share is that much larger in one than in the other.
const DEPENDS: f64 = 0.5;
/// Interpreted runs without a new path that has the race, after which the search ends.
const FRUITLESS: usize = 400;

/// What is searched.
pub struct Search<'a> {
    pub interpreter: &'a Interpreter<'a>,
    pub input: &'a Input,
    pub marks: &'a Marks,
    /// The two accesses of the race.
    pub accesses: &'a [Access; 2],
    /// For how many paths with the race the real program would be executed, and under how many schedules.
    pub paths: u32,
    pub schedules: u32,
    /// What must hold of the program's globals.
    pub invariant: Option<&'a Invariant>,
}

/// An input with which the race does harm.
#[derive(Clone, Debug)]
pub struct Harm {
    pub class: Class,
    pub input: Input,
    /// What happens, in words.
    pub what: String,
    pub visible: Visible,
}

/// Whether the real program shows a harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visible {
    /// It fails or prints something else.
    Always,
    /// It may go on after a wrong access to memory, which only the interpreter checks.
    Perhaps,
    /// Only the invariant says that it is harm.
    Never,
}

/// What a search came to.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Worst first.
    pub harms: Vec<Harm>,
    /// Inputs that were tried, and those with which the race came.
    pub inputs: usize,
    pub with_race: usize,
    pub runs: usize,
    /// How often the solver was asked, and how often it did not know.
    pub asked: usize,
    pub unknown: usize,
    /// Where variables became constants.
    pub concretised: BTreeSet<String>,
    /// Why runs were given up, once for each reason.
    pub given_up: BTreeSet<String>,
}

impl Search<'_> {
    /// Searches until all paths are known, one violates the specification, enough have the race, or there is no time.
    pub fn explore(&self, solver: &mut dyn Solver, has_time: &dyn Fn() -> bool) -> Explored {
        let mut explored = Explored::default();
        let mut inputs = Inputs::default();
        let mut seen = Seen::default();
        let first = self.marks.bytes_of(self.input);
        let mut open = Open::default();
        open.add(first, true);
        let mut fruitless = 0;
        while explored.with_race < self.paths as usize * INTERPRETED
            && !explored
                .harms
                .iter()
                .any(|harm| harm.class == Class::SpecViolated)
            && fruitless < FRUITLESS
            && has_time()
            && let Some(bytes) = open.take()
        {
            if !seen.inputs.insert(bytes.clone()) {
                continue;
            }
            let input = self.marks.with(self.input, &bytes);
            let runs = self.run(&input);
            explored.inputs += 1;
            explored.runs += runs.len();
            fruitless += runs.len();
            for run in &runs {
                explored
                    .concretised
                    .extend(run.path.concretised.iter().cloned());
                if let End::GaveUp(reason) = &run.outcome.end {
                    explored.given_up.insert(reason.clone());
                }
            }
            if runs.iter().any(Run::has_race) {
                explored.with_race += 1;
                fruitless = 0;
            }
            match harm(&runs) {
                Some((class, what, visible)) => explored.harms.push(Harm {
                    class,
                    input,
                    what,
                    visible,
                }),
                None => {
                    if let Some(other) = different(&runs, &bytes, &mut inputs, solver) {
                        open.add(other, true);
                    }
                }
            }
            for run in &runs {
                self.turn(&run.path, &bytes, &mut inputs, solver, &mut seen, &mut open);
            }
        }
        explored.harms.sort_by_key(|harm| harm.class);
        (explored.asked, explored.unknown) = (inputs.asked, inputs.unknown);
        explored
    }

    /// Both orders under several schedules.
    fn run(&self, input: &Input) -> Vec<Run> {
        let [first, second] = self.accesses;
        let mut runs = Vec::new();
        for seed in 0..self.schedules.max(1) {
            for (order, [first, second]) in
                [[first, second], [second, first]].into_iter().enumerate()
            {
                let how = How {
                    seed: seed.into(),
                    order: Some(Order {
                        first: first.clone(),
                        second: second.clone(),
                    }),
                    limits: Limits {
                        steps: STEPS,
                        hold: HOLD,
                        ..Limits::default()
                    },
                    invariant: self.invariant.cloned(),
                    ..How::default()
                };
                let (outcome, path) = self.interpreter.follow(input, self.marks, &how);
                runs.push(Run {
                    order,
                    outcome,
                    path,
                });
            }
        }
        runs
    }

    /// Adds inputs for the paths that leave this one at its branches.
    fn turn(
        &self,
        path: &Path,
        bytes: &[u8],
        inputs: &mut Inputs,
        solver: &mut dyn Solver,
        seen: &mut Seen,
        open: &mut Open,
    ) {
        let mut prefix = DefaultHasher::new();
        let mut turned = 0;
        for (number, step) in path.steps.iter().enumerate() {
            let holds = step.condition.holds;
            seen.directions.insert((step.at, holds));
            if step.is_branch && turned < TURNED {
                let mut other = prefix.clone();
                (step.at, !holds).hash(&mut other);
                if seen.turned.insert(other.finish()) {
                    turned += 1;
                    let conditions = path.turned(number);
                    let found = inputs.find(&path.expressions, &conditions, bytes, solver);
                    if let Some(found) = found {
                        open.add(found, !seen.directions.contains(&(step.at, !holds)));
                    }
                }
            }
            (step.at, holds).hash(&mut prefix);
        }
    }
}

/// One interpreted run of an order.
struct Run {
    order: usize,
    outcome: Outcome,
    path: Path,
}

impl Run {
    fn has_race(&self) -> bool {
        self.outcome.order == Some(Enforcement::Enforced)
    }

    fn failure(&self) -> Option<&End> {
        let end = &self.outcome.end;
        (class_of(end) == Class::SpecViolated).then_some(end)
    }

    /// Whether it says what the program does: not if it was given up.
    fn is_whole(&self) -> bool {
        !matches!(self.outcome.end, End::GaveUp(_) | End::OutOfSteps)
    }
}

/// Inputs that are to be tried: those that go where no run has been come first.
#[derive(Default)]
struct Open {
    new: VecDeque<Vec<u8>>,
    rest: VecDeque<Vec<u8>>,
}

impl Open {
    fn add(&mut self, bytes: Vec<u8>, is_new: bool) {
        match is_new {
            true => self.new.push_back(bytes),
            false => self.rest.push_back(bytes),
        }
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        self.new.pop_front().or_else(|| self.rest.pop_front())
    }
}

#[derive(Default)]
struct Seen {
    inputs: HashSet<Vec<u8>>,
    /// Paths up to a branch, and the other way there, as hashes.
    turned: HashSet<u64>,
    directions: HashSet<((u32, u32), bool)>,
}

/// The part of the runs that failed.
fn share_of_failures<'r>(runs: impl Iterator<Item = &'r Run>) -> f64 {
    let (mut all, mut failed) = (0_u32, 0_u32);
    for run in runs {
        all += 1;
        failed += u32::from(run.failure().is_some());
    }
    f64::from(failed) / f64::from(all.max(1))
}

/// What the race does with one input, if the orders differ.
fn harm(runs: &[Run]) -> Option<(Class, String, Visible)> {
    let of = |order| {
        runs.iter()
            .filter(move |run| run.order == order && run.is_whole())
    };
    for order in 0..2 {
        let failed = of(order).find_map(|run| run.failure().map(|end| (end, run)));
        // Otherwise the failure has to do with the input, or with another race.
        let depends = share_of_failures(of(order)) >= share_of_failures(of(1 - order)) + DEPENDS;
        if let Some((end, run)) = failed
            && depends
            && of(1 - order).any(|run| run.has_race() || run.failure().is_some())
        {
            let place = run.outcome.stack.first();
            let place = place.map_or(String::new(), |place| {
                format!(" at {}:{}", place.file, place.line)
            });
            return Some((Class::SpecViolated, format!("{end}{place}"), visible(end)));
        }
    }
    let seen = |order| -> BTreeSet<(String, Vec<u8>)> {
        let runs = of(order).filter(|run| run.has_race());
        runs.map(|run| (run.outcome.end.to_string(), run.outcome.output()))
            .collect()
    };
    let (first, second) = (seen(0), seen(1));
    let differs = !first.is_empty() && !second.is_empty() && first.is_disjoint(&second);
    differs.then(|| {
        let text = |of: &BTreeSet<(String, Vec<u8>)>| match of.first() {
            Some((end, output)) => {
                let output = String::from_utf8_lossy(output);
                format!("`{}`, {end}", output.trim_end())
            }
            None => String::new(),
        };
        (
            Class::OutputDiffers,
            format!("{} or {}", text(&first), text(&second)),
            Visible::Always,
        )
    })
}

fn visible(end: &End) -> Visible {
    match end {
        End::AssertFailed { text } if text.starts_with("invariant ") => Visible::Never,
        End::MemoryError(error) => match error.kind {
            // A value that was never written is often one that does no harm.
            MemoryErrorKind::Null | MemoryErrorKind::ReadOnly | MemoryErrorKind::Uninitialised => {
                Visible::Always
            }
            MemoryErrorKind::OutOfBounds
            | MemoryErrorKind::Freed
            | MemoryErrorKind::Wild
            | MemoryErrorKind::InvalidFree
            | MemoryErrorKind::DoubleFree => Visible::Perhaps,
        },
        _ => Visible::Always,
    }
}

/// An input of the paths of both orders with which they print different things, although they print the same
/// with this one.
fn different(
    runs: &[Run],
    bytes: &[u8],
    inputs: &mut Inputs,
    solver: &mut dyn Solver,
) -> Option<Vec<u8>> {
    let of = |order| runs.iter().find(|run| run.order == order && run.has_race());
    let (first, second) = (&of(0)?.path, &of(1)?.path);
    if first.sent.len() != second.sent.len() {
        return None;
    }
    let mut expressions = first.expressions.clone();
    let mut conditions: Vec<Condition> = first.steps.iter().map(|step| step.condition).collect();
    let roots = second.steps.iter().map(|step| step.condition.expression);
    let moved = expressions.import(&second.expressions, &roots.collect::<Vec<_>>());
    conditions.extend(
        moved
            .into_iter()
            .zip(&second.steps)
            .map(|(expression, step)| Condition {
                expression,
                holds: step.condition.holds,
            }),
    );
    let mut pairs = Vec::new();
    for (one, other) in first.sent.iter().zip(&second.sent) {
        if one.to != other.to || one.values.len() != other.values.len() {
            return None;
        }
        let other = expressions.import(&second.expressions, &other.values);
        pairs.extend(one.values.iter().copied().zip(other));
    }
    if let (Some(one), Some(other)) = (first.status, second.status) {
        let other = expressions.import(&second.expressions, &[other]);
        pairs.extend(other.first().map(|other| (one, *other)));
    }
    pairs.retain(|(one, other)| one != other);
    if pairs.is_empty() {
        return None;
    }
    conditions.push(Condition {
        expression: expressions.all_equal(&pairs),
        holds: false,
    });
    inputs.find(&expressions, &conditions, bytes, solver)
}
