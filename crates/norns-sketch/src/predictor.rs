//! Which facts predict the failure: precision, recall and F, as in section 4.4 of Kasikci (2015).
//!
//! Of facts that predict equally well the simplest explanation comes first. An order between two
//! statements that no good run has, not even with other accesses between, needs no atomic step to explain
//! it; a pattern of three comes before an order that good runs have as well, if less closely; then steps about
//! two locations, then branches, then values, which are often what the failure looks like and not why it comes.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::{Facts, How, Order, Pattern};
use crate::slice::Slice;

/// Precision counts twice as much as recall.
const BETA_SQUARED: f64 = 0.25;
/// How many predictors of one kind are kept.
const KEPT: usize = 5;
/// The rank of orders of operations, behind those of accesses.
const BEHIND_ACCESSES: u32 = 3;
/// Greater numbers of eight bytes are taken for addresses, which differ from run to run.
const ADDRESSES: u64 = 1 << 16;

/// Something that is true of a run or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    Order {
        pattern: Pattern,
        statements: Vec<u64>,
        form: Form,
    },
    Branch {
        statement: u64,
    },
    Value {
        statement: u64,
        writes: bool,
        is: Is,
    },
}

/// How close the accesses of an order are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// One came some time after the other.
    Anywhere,
    /// The first came, for the first time, before the second had ever come: in good runs it had.
    Early,
    /// Nothing that conflicts came between.
    Adjacent,
    /// The first is to another location than the last.
    TwoLocations,
}

/// What is true of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Is {
    Null,
    Negative,
    Equal(i64),
    /// Above all of the good runs.
    Above(i64),
    /// Below all of the good runs.
    Below(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Predictor {
    pub fact: Fact,
    /// In how many failing runs it was true, of how many.
    pub failing: (usize, usize),
    /// The same for good runs.
    pub good: (usize, usize),
    /// Where it was true in the run that is shown, as events; empty if it was not.
    pub events: Vec<u32>,
}

impl Predictor {
    /// Of the runs in which it was true, the part that failed.
    pub fn precision(&self) -> f64 {
        part(self.failing.0, self.failing.0 + self.good.0)
    }

    /// Of the failing runs, the part in which it was true.
    pub fn recall(&self) -> f64 {
        part(self.failing.0, self.failing.1)
    }

    pub fn f(&self) -> f64 {
        let (precision, recall) = (self.precision(), self.recall());
        let below = BETA_SQUARED * precision + recall;
        if below == 0.0 {
            return 0.0;
        }
        (1.0 + BETA_SQUARED) * precision * recall / below
    }

    /// What the precision is at least, at a confidence of 95 %, as far as so few runs tell: the lower end
    /// of Wilson's interval.
    pub fn precision_at_least(&self) -> f64 {
        const Z: f64 = 1.645;
        let runs = (self.failing.0 + self.good.0) as f64;
        if runs == 0.0 {
            return 0.0;
        }
        let precision = self.precision();
        let spread =
            Z * (precision * (1.0 - precision) / runs + Z * Z / (4.0 * runs * runs)).sqrt();
        (precision + Z * Z / (2.0 * runs) - spread) / (1.0 + Z * Z / runs)
    }

    /// The kind in JSON.
    pub fn kind(&self) -> &'static str {
        match &self.fact {
            Fact::Order { statements, .. } if statements.len() == 2 => "order",
            Fact::Order { .. } => "atomicity",
            Fact::Branch { .. } => "branch",
            Fact::Value { .. } => "value",
        }
    }

    pub fn statements(&self) -> Vec<u64> {
        match &self.fact {
            Fact::Order { statements, .. } => statements.clone(),
            Fact::Branch { statement } | Fact::Value { statement, .. } => vec![*statement],
        }
    }

    fn is_number(&self) -> bool {
        let Fact::Value { is, .. } = &self.fact else {
            return false;
        };
        matches!(is, Is::Equal(_) | Is::Above(_) | Is::Below(_))
    }

    fn rank(&self) -> u32 {
        match &self.fact {
            Fact::Order {
                form: Form::Anywhere | Form::Early,
                ..
            } => 0,
            Fact::Order {
                form: Form::TwoLocations,
                ..
            } => 3,
            Fact::Order { statements, .. } if statements.len() == 3 => 1,
            Fact::Order { .. } => 2,
            Fact::Branch { .. } => 4,
            Fact::Value { .. } => 5,
        }
    }
}

fn part(some: usize, all: usize) -> f64 {
    if all == 0 {
        0.0
    } else {
        some as f64 / all as f64
    }
}

impl Fact {
    pub fn holds(&self, facts: &Facts) -> bool {
        match self {
            Fact::Order {
                pattern,
                statements,
                form,
            } => match form {
                Form::Anywhere | Form::Adjacent | Form::TwoLocations => facts
                    .orders
                    .contains_key(&order(*pattern, statements, *form)),
                Form::Early => {
                    let [second, first] = statements[..] else {
                        return false;
                    };
                    let usual = (pattern.reversed(), first, second);
                    facts.first.contains_key(&second) && !facts.before_first.contains(&usual)
                }
            },
            Fact::Branch { statement } => facts.branches.contains_key(statement),
            Fact::Value {
                statement,
                writes,
                is,
            } => {
                let values = facts.values.get(&(*statement, *writes));
                values.is_some_and(|values| match is {
                    Is::Null => values.bytes == 8 && values.seen.contains_key(&0),
                    Is::Negative => values.least < 0,
                    Is::Equal(value) => values.seen.contains_key(value),
                    Is::Above(bound) => values.greatest > *bound,
                    Is::Below(bound) => values.least < *bound,
                })
            }
        }
    }

    /// Where it was true in this run.
    fn events(&self, facts: &Facts) -> Vec<u32> {
        match self {
            Fact::Order {
                statements,
                form: Form::Early,
                ..
            } => facts
                .first
                .get(&statements[0])
                .copied()
                .into_iter()
                .collect(),
            Fact::Order {
                pattern,
                statements,
                form,
            } => {
                let order = order(*pattern, statements, *form);
                facts.orders.get(&order).cloned().unwrap_or_default()
            }
            Fact::Branch { statement } => {
                facts.branches.get(statement).copied().into_iter().collect()
            }
            Fact::Value {
                statement,
                writes,
                is,
            } => {
                let seen = facts
                    .values
                    .get(&(*statement, *writes))
                    .map(|values| &values.seen);
                let mut seen = seen.into_iter().flatten();
                let found = seen.find(|(value, _)| match is {
                    Is::Null => **value == 0,
                    Is::Negative => **value < 0,
                    Is::Equal(wanted) => *value == wanted,
                    Is::Above(bound) => *value > bound,
                    Is::Below(bound) => *value < bound,
                });
                found.map(|(_, event)| *event).into_iter().collect()
            }
        }
    }
}

fn order(pattern: Pattern, statements: &[u64], form: Form) -> Order {
    Order {
        pattern,
        statements: statements.to_vec(),
        how: match form {
            Form::Anywhere | Form::Early => How::Anywhere,
            Form::Adjacent => How::Adjacent,
            Form::TwoLocations => How::TwoLocations,
        },
    }
}

/// The facts that predict the failure, best first. `shown` is the failing run that is to be shown; what is
/// equal is settled by the slice of the failing statement, and then by that statement itself.
pub fn rank(
    failing: &[&Facts],
    good: &[&Facts],
    shown: &Facts,
    failed_at: Option<u64>,
    slice: &Slice,
) -> Vec<Predictor> {
    let operations: BTreeSet<u64> = { failing.iter().chain(good) }
        .flat_map(|facts| facts.operations.iter().copied())
        .collect();
    let mut candidates = BTreeSet::new();
    for facts in failing {
        for order in facts.orders.keys() {
            candidates.insert(Fact::Order {
                pattern: order.pattern,
                statements: order.statements.clone(),
                form: match order.how {
                    How::Anywhere => Form::Anywhere,
                    How::Adjacent => Form::Adjacent,
                    How::TwoLocations => Form::TwoLocations,
                },
            });
        }
        for &statement in facts.branches.keys() {
            candidates.insert(Fact::Branch { statement });
        }
    }
    for &(usual, first, second) in good.iter().flat_map(|facts| &facts.before_first) {
        if failing
            .iter()
            .any(|facts| facts.first.contains_key(&second))
        {
            candidates.insert(Fact::Order {
                pattern: usual.reversed(),
                statements: vec![second, first],
                form: Form::Early,
            });
        }
    }
    candidates.extend(values(failing, good));
    let count = |fact: &Fact, runs: &[&Facts]| {
        let holding = runs.iter().filter(|facts| fact.holds(facts)).count();
        (holding, runs.len())
    };
    let mut all: Vec<Predictor> = candidates
        .into_iter()
        .map(|fact| Predictor {
            failing: count(&fact, failing),
            good: count(&fact, good),
            events: fact.events(shown),
            fact,
        })
        // What is true of every run predicts nothing, and a number that most failing runs do not have
        // is chance.
        .filter(|predictor| good.is_empty() || predictor.good.0 < predictor.good.1)
        .filter(|predictor| !predictor.is_number() || predictor.recall() > 0.5)
        .collect();
    let is_at_failure =
        |predictor: &Predictor| failed_at.is_some_and(|pc| predictor.statements().contains(&pc));
    let is_outside = |predictor: &Predictor| {
        let statements = predictor.statements().into_iter();
        let known = statements.filter_map(|pc| shown.statements.get(&pc));
        !slice.lines.is_empty() && { known }.any(|statement| !slice.contains(statement))
    };
    // A place without a line tells a reader nothing.
    let is_unknown = |predictor: &Predictor| {
        let statements = predictor.statements().into_iter();
        let known = statements.filter_map(|pc| shown.statements.get(&pc));
        { known }.any(|statement| statement.line == 0)
    };
    // The order in which two threads took a lock says less than what they did under it, unless a thread fails or hangs in
    // such an operation.
    let is_about_operations = failed_at.is_some_and(|pc| operations.contains(&pc));
    let rank_of_operations = |predictor: &Predictor| {
        let mut statements = predictor.statements().into_iter();
        match !is_about_operations && statements.any(|pc| operations.contains(&pc)) {
            true => BEHIND_ACCESSES,
            false => 0,
        }
    };
    all.sort_by(|one, other| {
        let key = |predictor: &Predictor| {
            let first = predictor.events.first().copied();
            let last = predictor.events.last().copied();
            // Orders matter most just before the failure, values where they come from.
            let when = match &predictor.fact {
                Fact::Order { .. } => u32::MAX - last.unwrap_or(0),
                Fact::Branch { .. } | Fact::Value { .. } => first.unwrap_or(u32::MAX),
            };
            (
                is_unknown(predictor),
                predictor.rank().max(rank_of_operations(predictor)),
                is_outside(predictor),
                !is_at_failure(predictor),
                when,
            )
        };
        other
            .f()
            .total_cmp(&one.f())
            .then_with(|| key(one).cmp(&key(other)))
            .then_with(|| one.fact.cmp(&other.fact))
    });
    best_of_each_kind(all, shown)
}

/// The best few of each kind, each line of source once.
fn best_of_each_kind(all: Vec<Predictor>, shown: &Facts) -> Vec<Predictor> {
    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    let mut best = Vec::new();
    for predictor in all {
        let statements = predictor.statements().into_iter();
        let at: Vec<_> = statements
            .map(|pc| shown.statements.get(&pc).map(|s| (s.file.clone(), s.line)))
            .collect();
        let pattern = match &predictor.fact {
            Fact::Order { pattern, .. } => pattern.name(),
            Fact::Branch { .. } | Fact::Value { .. } => "",
        };
        let count = kept.entry(predictor.kind()).or_default();
        if predictor.f() > 0.0 && *count < KEPT && lines.insert((predictor.kind(), pattern, at)) {
            *count += 1;
            best.push(predictor);
        }
    }
    best
}

/// What values of failing runs could mean.
fn values(failing: &[&Facts], good: &[&Facts]) -> Vec<Fact> {
    let mut found = Vec::new();
    for facts in failing {
        for (&(statement, writes), values) in &facts.values {
            let mut add = |is| {
                found.push(Fact::Value {
                    statement,
                    writes,
                    is,
                });
            };
            for &value in values.seen.keys() {
                let is_address = values.bytes == 8 && value.unsigned_abs() > ADDRESSES;
                if value == 0 && values.bytes == 8 {
                    add(Is::Null);
                } else if !is_address {
                    add(Is::Equal(value));
                }
            }
            if values.least < 0 && values.least.unsigned_abs() <= ADDRESSES {
                add(Is::Negative);
            }
            let of_good = good
                .iter()
                .filter_map(|facts| facts.values.get(&(statement, writes)));
            let range = of_good.fold(None, |range: Option<(i64, i64)>, values| {
                let (least, greatest) = range.unwrap_or((values.least, values.greatest));
                Some((least.min(values.least), greatest.max(values.greatest)))
            });
            let Some((least, greatest)) = range.filter(|_| values.bytes < 8) else {
                continue;
            };
            if values.greatest > greatest {
                add(Is::Above(greatest));
            }
            if values.least < least {
                add(Is::Below(least));
            }
        }
    }
    found
}
