//! What the executions of both orders of a race say of it.
//!
//! A failure in an order that happened violates the program's specification, whatever else it does. If
//! none failed, what left the program is compared by *shape*: a line with its numbers left out. The
//! lines of one shape are one thing that the program says, and the race decides about it if they are
//! always the same in one order and not so in the other. A shape that varies from run to run in both
//! orders says nothing about the race, and neither does one that varies between two executions that are
//! the same (time stamps, addresses); both are left out, with a note. In which order threads print
//! their lines is no difference.
//!
//! What it gets wrong: a rare outcome that has nothing to do with the race, and that was seen in one of
//! the orders only, counts as a difference.

use std::collections::{BTreeMap, BTreeSet};

use norns_report::consequence::{Difference, Evidence};
use norns_report::{Class, Consequence, Memory};

use crate::race::Order;

/// An order that did not come in so many executions that asked for it cannot be had.
pub const IN_VAIN: usize = 4;
/// So many lines of a difference are kept.
const SHOWN: usize = 5;

/// One execution of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The order that was asked for.
    pub asked: Order,
    /// The order in which the accesses happened, where both did.
    pub happened: Option<Order>,
    /// How it failed, to complete "the program".
    pub failure: Option<String>,
    /// The exit status.
    pub status: Option<i32>,
    /// What it left: where it goes (`output`, or a file), and the lines.
    pub left: Vec<(String, Vec<String>)>,
}

/// Why a race has no class; completes "because".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclassified(pub String);

/// The lines of one shape at one place.
type Lines = BTreeMap<(String, String), Vec<String>>;

/// All executions of a race.
#[derive(Clone, Debug)]
pub struct Executions {
    pub all: Vec<Execution>,
    /// How many more were cut before that said anything.
    pub cut: usize,
    /// The order in which memory or an object is used after its end.
    pub misuse: Option<Order>,
    /// Two executions that should be the same.
    pub repeated: Option<[Execution; 2]>,
    /// Whether only the threads tell the orders apart.
    pub is_symmetric: bool,
    /// What an earlier run has shown of the race.
    pub shown: Shown,
}

/// What is known of a race before it is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// A run has shown it: its accesses are unordered, or stood side by side.
    pub is_confirmed: bool,
    /// Both threads stood before their accesses at one moment, so that either can go first.
    pub both_orders: bool,
    /// The recorded run failed.
    pub fails: bool,
}

impl Executions {
    /// How much more often this failure comes in one order than in the other, from 0 to 1.
    pub fn strength(&self, failure: &str) -> f64 {
        let rate = |order| {
            let of = self.all.iter().filter(|one| one.happened == Some(order));
            let failed = of
                .clone()
                .filter(|one| one.failure.as_deref() == Some(failure));
            failed.count() as f64 / of.count().max(1) as f64
        };
        let [first, second] = Order::BOTH.map(rate);
        (first - second).abs()
    }

    /// How executions failed, each failure once.
    pub fn failures(&self) -> BTreeSet<&str> {
        let failures = self.all.iter().filter_map(|one| one.failure.as_deref());
        failures.collect()
    }

    /// The class, if executions that failed in one of these ways say nothing: another race explains them.
    pub fn judge(&self, explained: &BTreeSet<String>) -> Result<Consequence, Unclassified> {
        let is_explained = |one: &&Execution| {
            let failure = one.failure.as_ref();
            failure.is_some_and(|failure| explained.contains(failure))
        };
        let (left_out, all): (Vec<&Execution>, Vec<&Execution>) =
            self.all.iter().partition(is_explained);
        let mut judged = judge(&all, self.misuse, self.repeated.as_ref(), self.shown);
        if self.cut > 0 {
            let cut = self.cut;
            match &mut judged {
                Ok(consequence) => consequence.evidence.notes.push(format!(
                    "{cut} executions were left out: they did not end, but others take nearly as long"
                )),
                Err(reason) => {
                    reason.0 = format!(
                        "{cut} executions did not end in their time, which says nothing: the program takes long by itself"
                    );
                }
            }
        }
        if let Ok(consequence) = &mut judged
            && !left_out.is_empty()
        {
            consequence.evidence.notes.push(format!(
                "{} executions were left out: they failed in a way that depends on another race",
                left_out.len()
            ));
        }
        judged
    }
}

fn judge(
    executions: &[&Execution],
    misuse: Option<Order>,
    repeated: Option<&[Execution; 2]>,
    shown: Shown,
) -> Result<Consequence, Unclassified> {
    let mut evidence = Evidence::default();
    for execution in executions {
        let asked = &mut evidence.orders[execution.asked.index()];
        asked.tried += 1;
        let Some(order) = execution.happened else {
            continue;
        };
        let seen = &mut evidence.orders[order.index()];
        seen.happened += 1;
        let is_misuse = misuse == Some(order);
        let failure = execution.failure.clone();
        let failure = failure.or_else(|| is_misuse.then(|| USED_AFTER_END.to_owned()));
        seen.failed += usize::from(failure.is_some());
        seen.failure = seen.failure.take().or(failure);
    }
    if let Some(order) = misuse.filter(|_| shown.is_confirmed) {
        let seen = &mut evidence.orders[order.index()];
        seen.failure.get_or_insert_with(|| USED_AFTER_END.into());
        let k = seen.failed;
        return Ok(consequence(Class::SpecViolated, k, evidence));
    }
    let [first, second] = &evidence.orders;
    let both = first.happened.min(second.happened);
    let constant = constant_failure(executions, shown);
    if first.failed + second.failed > 0 && (constant.is_none() || both == 0) {
        let k = first.failed.max(second.failed);
        return Ok(consequence(Class::SpecViolated, k, evidence));
    }
    if first.happened + second.happened == 0 {
        return Err(Unclassified(
            "its accesses did not happen again in any execution".into(),
        ));
    }
    if both == 0 {
        let missing = if first.happened == 0 { first } else { second };
        if shown.both_orders {
            return Err(Unclassified(
                "one of its orders could not be executed, although a replay has shown that both are possible"
                    .into(),
            ));
        }
        if missing.tried < IN_VAIN {
            return Err(Unclassified(format!(
                "the time was up when one of its orders had been tried {} times in vain",
                missing.tried
            )));
        }
        let k = first.happened.max(second.happened);
        return Ok(consequence(Class::SingleOrdering, k, evidence));
    }
    let Some(repeated) = repeated else {
        return Err(Unclassified(
            "no time was left to tell what differs from run to run by itself".into(),
        ));
    };
    let comparison = compare(executions, repeated);
    evidence.notes = comparison.notes;
    if let Some(failure) = constant {
        let note =
            format!("whatever the order, the program {failure}, as it did when it was recorded");
        evidence.notes.push(note);
    }
    evidence.differences = comparison.differences;
    let class = match evidence.differences.is_empty() {
        true => Class::Harmless,
        false => Class::OutputDiffers,
    };
    Ok(consequence(class, both, evidence))
}

/// How the program fails in each execution, in the recorded run as well: the order has nothing to do with that.
fn constant_failure<'e>(executions: &[&'e Execution], shown: Shown) -> Option<&'e str> {
    let mut failures = executions.iter().map(|one| one.failure.as_deref());
    let first = failures.next().flatten()?;
    (shown.fails && failures.all(|failure| failure == Some(first))).then_some(first)
}

const USED_AFTER_END: &str = "used what another thread had freed or destroyed";

fn consequence(class: Class, k: usize, evidence: Evidence) -> Consequence {
    Consequence {
        class,
        k,
        memory: Memory::Sc,
        evidence,
        input: None,
    }
}

struct Comparison {
    differences: Vec<Difference>,
    notes: Vec<String>,
}

fn compare(executions: &[&Execution], [one, other]: &[Execution; 2]) -> Comparison {
    let seen: Vec<(Order, Lines)> = executions
        .iter()
        .filter_map(|execution| Some((execution.happened?, lines(execution))))
        .collect();
    let shapes: BTreeSet<&(String, String)> =
        seen.iter().flat_map(|(_, lines)| lines.keys()).collect();
    let (one, other) = (lines(one), lines(other));
    let differs = |key: &&(String, String)| one.get(*key) != other.get(*key);
    let unstable: BTreeSet<&(String, String)> =
        { one.keys().chain(other.keys()) }.filter(differs).collect();
    let mut varying = 0;
    let mut differences = Vec::new();
    for shape in shapes {
        if unstable.contains(shape) {
            continue;
        }
        let in_order = |order| -> BTreeSet<&[String]> {
            let of = seen.iter().filter(|(happened, _)| *happened == order);
            of.map(|(_, lines)| lines.get(shape).map_or(&[][..], Vec::as_slice))
                .collect()
        };
        let [first, second] = Order::BOTH.map(in_order);
        if first == second {
            continue;
        }
        if first.len() > 1 && second.len() > 1 {
            varying += 1;
            continue;
        }
        differences.push(difference(&shape.0, &first, &second));
    }
    let mut notes = Vec::new();
    let mut left_out = |count: usize, why: &str| match count {
        0 => {}
        1 => notes.push(format!("one kind of line was left out: {why}")),
        more => notes.push(format!("{more} kinds of lines were left out: {why}")),
    };
    left_out(
        unstable.len(),
        "it differs also between two equal executions",
    );
    left_out(varying, "it varies in both orders");
    Comparison { differences, notes }
}

/// What is in one order and not in the other: of each order a value that the other has not.
fn difference(to: &str, first: &BTreeSet<&[String]>, second: &BTreeSet<&[String]>) -> Difference {
    let own = |of: &BTreeSet<&[String]>, other: &BTreeSet<&[String]>| -> Vec<String> {
        let mut values = of.iter().filter(|value| !other.contains(*value));
        let value = values.next().or(of.first());
        value.map_or(Vec::new(), |lines| lines.to_vec())
    };
    let [mut one, mut two] = [own(first, second), own(second, first)];
    let (all_one, all_two) = (one.clone(), two.clone());
    one.retain(|line| !all_two.contains(line));
    two.retain(|line| !all_one.contains(line));
    if one.is_empty() && two.is_empty() {
        // The same lines, some of them more often.
        (one, two) = (all_one, all_two);
    }
    one.truncate(SHOWN);
    two.truncate(SHOWN);
    Difference {
        to: to.to_owned(),
        lines: [one, two],
    }
}

fn lines(execution: &Execution) -> Lines {
    let mut all = Lines::new();
    for (to, lines) in &execution.left {
        for line in lines {
            let key = (to.clone(), shape(line));
            all.entry(key).or_default().push(line.clone());
        }
    }
    if let Some(status) = execution.status {
        let key = ("exit status".to_owned(), String::new());
        all.insert(key, vec![status.to_string()]);
    }
    for lines in all.values_mut() {
        lines.sort_unstable();
    }
    all
}

/// A line without its numbers.
fn shape(line: &str) -> String {
    let mut shape = String::with_capacity(line.len());
    let mut words = line.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    for word in &mut words {
        let (name, rest) = word.split_at(
            word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric())
                .len(),
        );
        let is_number = name.contains(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_hexdigit() || c == 'x');
        if is_number {
            shape.push('#');
        } else {
            shape.extend(name.chars().filter(|c| !c.is_ascii_digit()));
        }
        shape.push_str(rest);
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution(order: Order, line: &str) -> Execution {
        Execution {
            asked: order,
            happened: Some(order),
            failure: None,
            status: Some(0),
            left: vec![("output".into(), vec![line.into()])],
        }
    }

    #[track_caller]
    fn check(first: &[&str], second: &[&str], expected: Class) -> Consequence {
        let [one, two] = Order::BOTH;
        let first = first.iter().map(|line| execution(one, line));
        let second = second.iter().map(|line| execution(two, line));
        let all: Vec<Execution> = first.chain(second).collect();
        let repeated = [all[0].clone(), all[0].clone()];
        let all: Vec<&Execution> = all.iter().collect();
        let found = judge(&all, None, Some(&repeated), Shown::default()).unwrap();
        assert_eq!(found.class, expected, "{found:?}");
        found
    }

    #[test]
    fn what_one_order_always_prints_is_compared() {
        check(&["sum 2", "sum 2"], &["sum 2"], Class::Harmless);
        let found = check(&["sum 2", "sum 2"], &["sum 1"], Class::OutputDiffers);
        let difference = &found.evidence.differences[0];
        assert_eq!(difference.lines, [["sum 2".to_owned()], ["sum 1".into()]]);
        check(&["sum 2"], &["sum 1", "sum 2"], Class::OutputDiffers);
        check(&["sum 2"], &["total 2"], Class::OutputDiffers);
    }

    #[test]
    fn what_varies_in_both_orders_says_nothing() {
        let found = check(&["at 1", "at 2"], &["at 2", "at 3"], Class::Harmless);
        assert_eq!(found.evidence.notes.len(), 1);
    }

    #[test]
    fn equal_executions_tell_what_varies_by_itself() {
        let [one, two] = Order::BOTH;
        let (long, short) = (execution(one, "took 12 ms"), execution(two, "took 9 ms"));
        let all = [&long, &short];
        let repeated = [execution(one, "took 3 ms"), execution(one, "took 4 ms")];
        let class = |repeated| {
            let judged = judge(&all, None, repeated, Shown::default());
            judged.map(|found| found.class)
        };
        assert!(class(None).is_err());
        assert_eq!(class(Some(&repeated)), Ok(Class::Harmless));
        let equal = [execution(one, "took 3 ms"), execution(one, "took 3 ms")];
        assert_eq!(class(Some(&equal)), Ok(Class::OutputDiffers));
    }

    #[test]
    fn a_failure_comes_before_everything_else() {
        let [one, two] = Order::BOTH;
        let crash = Execution {
            failure: Some("was killed by SIGSEGV".into()),
            status: None,
            ..execution(two, "")
        };
        let good = execution(one, "x");
        let found = judge(&[&good, &crash], None, None, Shown::default()).unwrap();
        assert_eq!(found.class, Class::SpecViolated);
        let elsewhere = Execution {
            happened: None,
            ..crash
        };
        let judge = |times: usize, shown| {
            let mut all = vec![&good];
            all.extend(vec![&elsewhere; times]);
            judge(&all, None, None, shown).map(|found| found.class)
        };
        let both_orders = Shown {
            is_confirmed: true,
            both_orders: true,
            fails: false,
        };
        assert_eq!(judge(IN_VAIN, Shown::default()), Ok(Class::SingleOrdering));
        assert!(judge(IN_VAIN - 1, Shown::default()).is_err());
        assert!(judge(IN_VAIN, both_orders).is_err());
    }

    #[test]
    fn a_failure_that_always_comes_depends_on_no_order() {
        let failing = |order, line| Execution {
            failure: Some("was aborted".into()),
            status: None,
            ..execution(order, line)
        };
        let [one, two] = Order::BOTH;
        let check = |last: Execution, fails, expected| {
            let all = [failing(one, "x"), last];
            let repeated = [all[0].clone(), all[0].clone()];
            let shown = Shown {
                fails,
                ..Shown::default()
            };
            let all: Vec<&Execution> = all.iter().collect();
            let found = judge(&all, None, Some(&repeated), shown).unwrap();
            assert_eq!(found.class, expected, "{found:?}");
        };
        check(failing(two, "x"), true, Class::Harmless);
        check(failing(two, "y 1"), true, Class::OutputDiffers);
        check(failing(two, "x"), false, Class::SpecViolated);
        check(execution(two, "x"), true, Class::SpecViolated);
    }

    #[test]
    fn a_failure_belongs_to_the_race_on_which_it_depends() {
        let [one, two] = Order::BOTH;
        let failing = |order| Execution {
            failure: Some("was aborted".into()),
            ..execution(order, "x")
        };
        let of = |all: Vec<Execution>| Executions {
            all,
            cut: 0,
            misuse: None,
            repeated: Some([execution(one, "x"), execution(one, "x")]),
            is_symmetric: false,
            shown: Shown::default(),
        };
        let cause = of(vec![execution(one, "x"), failing(two)]);
        let other = of(vec![
            execution(one, "x"),
            failing(one),
            execution(two, "x"),
            failing(two),
        ]);
        assert_eq!(cause.strength("was aborted"), 1.0);
        assert_eq!(other.strength("was aborted"), 0.0);
        let class = |explained: &[&str]| {
            let explained = explained
                .iter()
                .map(|failure| failure.to_string())
                .collect();
            other.judge(&explained).unwrap().class
        };
        assert_eq!(class(&[]), Class::SpecViolated);
        assert_eq!(class(&["was aborted"]), Class::Harmless);
    }

    #[test]
    fn use_after_the_end_is_a_failure_by_itself() {
        let [one, two] = Order::BOTH;
        let (first, second) = (execution(one, "x"), execution(two, "x"));
        let both = [&first, &second];
        let class = |executions: &[&Execution], is_confirmed| {
            let shown = Shown {
                is_confirmed,
                both_orders: false,
                fails: false,
            };
            judge(executions, Some(two), None, shown).map(|found| found.class)
        };
        assert_eq!(class(&both, false), Ok(Class::SpecViolated));
        assert_eq!(class(&both[..1], true), Ok(Class::SpecViolated));
        assert!(class(&both[..1], false).is_err());
    }

    #[test]
    fn shapes_have_no_numbers() {
        let check = |line: &str, expected: &str| assert_eq!(shape(line), expected);
        check("sum 12 at 0x7ffe.", "sum # at #.");
        check("worker3: 5/7", "worker: #/#");
        check("T0.1 bad", "T.# bad");
        check("", "");
    }
}
