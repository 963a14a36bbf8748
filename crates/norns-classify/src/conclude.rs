//! The classes of several races of one program, each in the light of the others.
//!
//! Executions of a race are also executions of the program's other races, in whatever order these come.
//! A failure belongs to the race on whose order it depends most; executions of other races that failed
//! in the same way are left out. Where both threads make the same access, orders differ only in who is
//! first, so that an effect comes in both: such a race has the class of the other races on its object.

use std::collections::BTreeSet;

use norns_report::{Class, Consequence};

use crate::judge::{Executions, Unclassified};

/// A failure depends on an order if it comes that much more often in it than in the other.
const DEPENDS: f64 = 0.5;

/// A race that was executed.
pub struct Race<'a> {
    /// What it is about, where that is known.
    pub object: Option<&'a str>,
    pub executions: &'a Executions,
}

/// The classes of these races, in their order.
pub fn conclude(races: &[Race]) -> Vec<Result<Consequence, Unclassified>> {
    let judged: Vec<_> = { races.iter() }
        .map(|race| race.executions.judge(&explained(race, races)))
        .collect();
    let mut concluded = judged.clone();
    for (race, own) in races.iter().zip(&mut concluded) {
        if let Ok(own) = own
            && race.executions.is_symmetric
            && let Some(worse) = of_its_object(race, races, &judged)
            && worse.class < own.class
        {
            own.class = worse.class;
            own.evidence = worse.evidence.clone();
            own.evidence.notes.push(
                "both threads make the same access, so this is the class of another race on the same object"
                    .into(),
            );
        }
    }
    concluded
}

/// The failures of a race's executions that depend on a race on another object.
fn explained(race: &Race, races: &[Race]) -> BTreeSet<String> {
    let failures = race.executions.failures().into_iter();
    let explained = failures.filter(|failure| {
        let own = race.executions.strength(failure);
        races
            .iter()
            .filter(|other| other.object.is_none() || other.object != race.object)
            .map(|other| other.executions.strength(failure))
            .any(|strength| strength >= DEPENDS && strength >= 2.0 * own)
    });
    explained.map(String::from).collect()
}

/// The worst class of the other races on a race's object.
fn of_its_object<'a>(
    race: &Race,
    races: &[Race],
    judged: &'a [Result<Consequence, Unclassified>],
) -> Option<&'a Consequence> {
    let object = race.object?;
    let others = races.iter().zip(judged);
    others
        .filter(|(other, _)| other.object == Some(object) && !other.executions.is_symmetric)
        .filter_map(|(_, judged)| judged.as_ref().ok())
        .min_by_key(|consequence| consequence.class)
        .filter(|consequence| consequence.class <= Class::OutputDiffers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Execution, Shown};
    use crate::race::Order;

    fn executions(runs: &[(Order, &str, Option<&str>)], is_symmetric: bool) -> Executions {
        let execution = |&(order, line, failure): &(Order, &str, Option<&str>)| Execution {
            asked: order,
            happened: Some(order),
            failure: failure.map(String::from),
            status: failure.is_none().then_some(0),
            left: vec![("output".into(), vec![line.into()])],
        };
        let all: Vec<Execution> = runs.iter().map(execution).collect();
        Executions {
            cut: 0,
            misuse: None,
            repeated: Some([all[0].clone(), all[0].clone()]),
            all,
            is_symmetric,
            shown: Shown::default(),
        }
    }

    fn check(races: &[(&str, &Executions)], expected: &[Class]) {
        let races: Vec<Race> = { races.iter() }
            .map(|(object, executions)| Race {
                object: Some(object),
                executions,
            })
            .collect();
        let classes: Vec<Class> = { conclude(&races).into_iter() }
            .map(|judged| judged.unwrap().class)
            .collect();
        assert_eq!(classes, expected);
    }

    #[test]
    fn a_failure_is_blamed_on_the_order_on_which_it_depends() {
        let [one, two] = Order::BOTH;
        let cause = executions(&[(one, "x", None), (two, "", Some("was aborted"))], false);
        let bystander = executions(
            &[
                (one, "x", None),
                (one, "", Some("was aborted")),
                (two, "x", None),
            ],
            false,
        );
        let alone = [("p", &cause), ("q", &bystander)];
        check(&alone, &[Class::SpecViolated, Class::Harmless]);
        check(&alone[1..], &[Class::SpecViolated]);
        // Two races on one object can both be needed.
        check(
            &[("p", &cause), ("p", &bystander)],
            &[Class::SpecViolated; 2],
        );
    }

    #[test]
    fn the_same_access_has_the_class_of_its_object() {
        let [one, two] = Order::BOTH;
        let read = executions(&[(one, "sum 1", None), (two, "sum 2", None)], false);
        let runs = [
            (one, "sum 1", None),
            (one, "sum 2", None),
            (two, "sum 1", None),
            (two, "sum 2", None),
        ];
        let writes = executions(&runs, true);
        check(&[("n", &read), ("n", &writes)], &[Class::OutputDiffers; 2]);
        check(
            &[("n", &read), ("m", &writes)],
            &[Class::OutputDiffers, Class::Harmless],
        );
    }
}
