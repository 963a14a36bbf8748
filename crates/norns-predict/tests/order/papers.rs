//! The worked examples of Said et al. (2011) and of Carril (2017).

use norns_model::Meaning;
use norns_model::script;
use norns_predict::order::{Engine, Outcome};
use norns_trace::trace::Value;
use norns_trace::{EventIndex, Op, Trace};

/// A trace with the values of its reads and writes, in the order of the trace.
pub fn with_values(text: &str, values: &[u8]) -> Trace {
    let mut trace = script::trace(text);
    let mut values = values.iter();
    for (i, event) in trace.events.iter().enumerate() {
        let event_index = EventIndex::from_index(i);
        let mut bytes = || vec![*values.next().expect("a value for every access"); 4];
        let (read, written) = match event.op {
            Op::Read(_) => (bytes(), Vec::new()),
            Op::Write(_) => (Vec::new(), bytes()),
            _ => continue,
        };
        trace.values.push(Value {
            event: event_index,
            read,
            written,
        });
    }
    assert!(values.next().is_none(), "no value is left over");
    trace
}

/// The racy pairs of a trace.
fn races(trace: &Trace, meaning: Meaning) -> Vec<(u32, u32)> {
    let mut engine = Engine::new(trace, meaning);
    let (pairs, _) = engine.race_candidates(usize::MAX);
    let racy = pairs
        .into_iter()
        .filter(|&(one, other)| matches!(engine.race(one, other), Outcome::Witness(_)));
    racy.map(|(one, other)| (one.0, other.0)).collect()
}

/// `x = x + v.get()` with `a` and `b` crossed, as in Figure 1. The second thread read what the first
/// wrote, so only the accesses to `a.x` can race: before its write of `b.x` the second thread has to
/// read 2 from `a.x`.
#[test]
fn figure_1_values_leave_one_race() {
    let trace = with_values(
        "T1: fork T2, fork T3
         T2: lock a, read ax, read bx, write ax, unlock a
         T3: lock b, read bx, read ax, write bx, unlock b",
        &[1, 1, 2, 1, 2, 3],
    );
    assert_eq!(races(&trace, Meaning::SameValues), [(5, 9)]);
    // Without values the other pair races, too.
    assert_eq!(races(&trace, Meaning::Optimistic), [(4, 10), (5, 9)]);
}

#[test]
fn figure_1_with_get_synchronised_is_a_deadlock() {
    let trace = with_values(
        "T1: fork T2, fork T3
         T2: lock a, read ax, lock b, read bx, unlock b, write ax, unlock a
         T3: lock b, read bx, lock a, read ax, unlock a, write bx, unlock b",
        &[1, 1, 2, 1, 2, 3],
    );
    assert_eq!(races(&trace, Meaning::SameValues), []);
    assert_eq!(races(&trace, Meaning::Optimistic), []);
    // The locks exclude both races, but they can deadlock.
    let mut engine = Engine::new(&trace, Meaning::SameValues);
    let cycles = engine.deadlock_candidates(usize::MAX, usize::MAX).items;
    assert_eq!(cycles, [vec![EventIndex(4), EventIndex(11)]]);
    assert!(matches!(
        engine.lock_deadlock(cycles[0].clone()),
        Outcome::Witness(_)
    ));
}

/// Figure 3: the read of `x` needs the first write of the other thread, so the writes of `y` are
/// never next at the same time, although one of them is not under a lock.
#[test]
fn figure_3_a_read_orders_two_writes() {
    let trace = with_values(
        "T1: write y, lock l, write x, unlock l
         T2: lock l, read x, write y, unlock l
         T1: lock l, write x, unlock l",
        &[1, 1, 1, 2, 0],
    );
    assert_eq!(races(&trace, Meaning::SameValues), []);
    assert_eq!(races(&trace, Meaning::Optimistic), [(0, 6)]);
}

/// Figure 5.9 of the dissertation: the worker accesses `x` only after it has read the `y` that the
/// other thread wrote.
#[test]
fn figure_5_9_a_value_orders_the_accesses() {
    let trace = with_values(
        "T1: fork T2, read x, write x, lock m, read y, write y, unlock m
         T2: start, lock m, read y, write y, read y, unlock m, read x, write x, end
         T1: join T2",
        &[0, 1, 0, 1, 1, 2, 2, 1, 2],
    );
    assert_eq!(races(&trace, Meaning::SameValues), []);
    assert_eq!(races(&trace, Meaning::Faithful), []);
    assert_eq!(
        races(&trace, Meaning::Optimistic),
        [(1, 14), (2, 13), (2, 14)]
    );
}

/// A read can see another write of the same value.
#[test]
fn any_write_of_the_value_is_enough() {
    let trace = with_values(
        "T1: write y, write x
         T2: read x, write y
         T3: write x",
        &[1, 7, 7, 2, 7],
    );
    assert_eq!(races(&trace, Meaning::Faithful), [(1, 2), (1, 4), (2, 4)]);
    assert_eq!(
        races(&trace, Meaning::SameValues),
        [(0, 3), (1, 2), (1, 4), (2, 4)]
    );
}

/// Every schedule that shows the race leads into a deadlock, but events after the race do not count.
#[test]
fn a_race_on_the_way_into_a_deadlock() {
    let trace = with_values(
        "T1: lock a, write x, lock b, unlock b, unlock a
         T2: lock b, write x, lock a, unlock a, unlock b",
        &[1, 2],
    );
    assert_eq!(races(&trace, Meaning::SameValues), [(1, 6)]);
}

/// A constraint that a replay has found rules out schedules.
#[test]
fn a_constraint_makes_a_race_impossible() {
    use norns_predict::order::Constraint;
    let trace = script::trace(
        "T1: write x, store flag
         T2: load flag, write x",
    );
    let (one, other) = (EventIndex(0), EventIndex(3));
    let mut engine = Engine::new(&trace, Meaning::Optimistic);
    assert!(matches!(engine.race(one, other), Outcome::Witness(_)));
    engine.add(Constraint::Before(EventIndex(1), EventIndex(2)));
    assert_eq!(engine.race(one, other), Outcome::Impossible);
    let mut engine = Engine::new(&trace, Meaning::Optimistic);
    engine.add(Constraint::NotInThisOrder(vec![
        EventIndex(2),
        EventIndex(0),
    ]));
    // The load may still take place if the first write does not.
    assert!(matches!(engine.race(one, other), Outcome::Witness(_)));
    engine.add(Constraint::NotInThisOrder(vec![EventIndex(2)]));
    assert_eq!(engine.race(one, other), Outcome::Impossible);
}
