//! Inputs under which a path's conditions hold: the last one the other way round, all before it as they were.
//!
//! Only conditions that share bytes of the input with the one that is turned round matter (as in KLEE, Cadar
//! et al. 2008). If these depend on at most two bytes, all values are tried; otherwise a solver is asked. Answers
//! are kept.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::expression::{Expression, Expressions};
use super::smt::script;

/// An expression that is zero or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    pub expression: Expression,
    /// Whether it is not zero.
    pub holds: bool,
}

impl Condition {
    #[must_use]
    pub fn negated(self) -> Self {
        Self {
            holds: !self.holds,
            ..self
        }
    }
}

/// A decision procedure for conditions on bytes.
pub trait Solver {
    /// Values of these bytes under which all conditions hold.
    fn solve(
        &mut self,
        expressions: &Expressions,
        conditions: &[Condition],
        bytes: &[u32],
    ) -> Answer;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Values(Vec<(u32, u8)>),
    Impossible,
    /// The solver is not there, or its time was up.
    Unknown,
}

/// Finds inputs, by itself where that is cheap and by a solver otherwise.
#[derive(Default)]
pub struct Inputs {
    /// By the text of the question.
    answers: FxHashMap<String, Answer>,
    /// How often a solver was asked, and how often it did not know.
    pub asked: usize,
    pub unknown: usize,
}

impl Inputs {
    /// An input that differs from `input` where it must, and meets the last condition and all before it.
    pub fn find(
        &mut self,
        expressions: &Expressions,
        conditions: &[Condition],
        input: &[u8],
        solver: &mut dyn Solver,
    ) -> Option<Vec<u8>> {
        let (bytes, relevant) = relevant(expressions, conditions)?;
        let answer = match bytes.len() {
            0 => return None,
            1 | 2 => try_all(expressions, &relevant, &bytes, input),
            _ => {
                let key = script(expressions, &relevant);
                match self.answers.get(&key) {
                    Some(known) => known.clone(),
                    None => {
                        self.asked += 1;
                        let answer = solver.solve(expressions, &relevant, &bytes);
                        self.unknown += usize::from(answer == Answer::Unknown);
                        self.answers.insert(key, answer.clone());
                        answer
                    }
                }
            }
        };
        let Answer::Values(values) = answer else {
            return None;
        };
        let mut found = input.to_vec();
        for (byte, value) in values {
            *found.get_mut(byte as usize)? = value;
        }
        Some(found)
    }
}

/// The conditions that share bytes with the last one, directly or through others, and these bytes.
fn relevant(
    expressions: &Expressions,
    conditions: &[Condition],
) -> Option<(Vec<u32>, Vec<Condition>)> {
    let (last, before) = conditions.split_last()?;
    let inputs = |one: &Condition| expressions.inputs(one.expression);
    let mut bytes: BTreeSet<u32> = inputs(last).iter().copied().collect();
    let mut rest: Vec<Condition> = before.to_vec();
    let mut chosen = vec![*last];
    loop {
        let shares = |one: &Condition| inputs(one).iter().any(|input| bytes.contains(input));
        let (near, far): (Vec<_>, Vec<_>) = rest.into_iter().partition(shares);
        if near.is_empty() {
            break;
        }
        for condition in near {
            if !chosen.contains(&condition) {
                chosen.push(condition);
            }
            bytes.extend(inputs(&condition));
        }
        rest = far;
    }
    Some((bytes.into_iter().collect(), chosen))
}

/// Tries all values of at most two bytes.
fn try_all(
    expressions: &Expressions,
    conditions: &[Condition],
    bytes: &[u32],
    input: &[u8],
) -> Answer {
    let roots: Vec<Expression> = conditions.iter().map(|one| one.expression).collect();
    let parts = expressions.parts(&roots);
    let mut values = vec![0; expressions.len()];
    let mut input = input.to_vec();
    let count = 1_u32 << (8 * bytes.len());
    for number in 0..count {
        for (at, &byte) in bytes.iter().enumerate() {
            // Printable characters come first: they are easier to read and to type.
            let value = ((number >> (8 * at)) as u8).wrapping_add(b' ');
            match input.get_mut(byte as usize) {
                Some(place) => *place = value,
                None => return Answer::Unknown,
            }
        }
        expressions.evaluate(&parts, &input, &mut values);
        let is_met = |one: &Condition| (values[one.expression.0 as usize] != 0) == one.holds;
        if conditions.iter().all(is_met) {
            let values = bytes.iter().map(|&byte| (byte, input[byte as usize]));
            return Answer::Values(values.collect());
        }
    }
    Answer::Impossible
}
