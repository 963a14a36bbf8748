//! Figure 2 and Table 2 of Said et al. (2011): our formula is equivalent to theirs.
//!
//! The paper gives every event a formula over the owner of the lock and the flag of the waiting
//! thread. Ours is about critical sections, signals and the end of the schedule. On every
//! linearisation of the partial order, with the end after all events, both have to have the same
//! value.

use norns_model::Meaning;
use norns_order::{Atom, Formula, Literal};
use norns_predict::order::Engine;

use crate::papers::with_values;

/// The place of an event of Figure 2 in an order; `E4P` is the second half of the wait.
type Places = [usize; 12];
const E4P: usize = 11;

/// The last column of Table 2, and the write-read consistency of Figure 2.
fn paper(o: &Places) -> bool {
    let b = |one: usize, other: usize| o[one] < o[other];
    let e2 = b(2, 5) || b(8, 2);
    let e4 = (b(5, 2) || b(4, 5)) && (b(8, 2) || b(4, 8));
    let e4p = ((b(4, E4P) && (b(5, 4) || b(E4P, 5)) && (b(8, 4) || b(E4P, 8)))
        || (b(8, E4P) && b(4, 8)))
        && b(7, E4P)
        && b(4, 7);
    let e5 = b(5, 2) || b(10, 5) || (b(4, 5) && b(5, E4P) && b(5, 10));
    let inside = |e: usize| {
        (b(2, 5) || b(e, 2))
            && (b(4, 5) || b(e, 4))
            && (b(E4P, 5) || b(e, E4P))
            && (b(10, 5) || b(e, 10))
    };
    let e10 = (b(5, E4P) || b(10, 5)) && (b(8, E4P) || b(10, 8));
    let reads = (b(6, 1) || b(3, 6)) && (b(9, 1) || b(3, 9));
    e2 && e4 && e4p && e5 && inside(7) && inside(8) && e10 && reads
}

/// Whether the order satisfies the formula with some values of its Booleans.
fn holds(formula: &Formula, place: &dyn Fn(u32) -> usize) -> bool {
    let booleans: Vec<usize> = (0..formula.atoms().len())
        .filter(|&variable| matches!(formula.atoms()[variable], Atom::Boolean(_)))
        .collect();
    assert!(
        formula.counts.is_empty() && booleans.len() < 16,
        "the formula is small enough to try all values"
    );
    (0u32..1 << booleans.len()).any(|values| {
        let value = |literal: &Literal| match formula.edge(*literal) {
            Some((a, b)) => place(a.0) < place(b.0),
            None => {
                let k = booleans
                    .iter()
                    .position(|&v| v == literal.variable())
                    .expect("a Boolean");
                (values >> k & 1 == 1) != literal.negated()
            }
        };
        formula
            .clauses
            .iter()
            .all(|clause| clause.iter().any(value))
    })
}

#[test]
fn our_formula_is_equivalent_to_table_2() {
    // The initial value of x is 0. The trace shows that by a read before all writes, which the paper
    // does not have.
    let trace = with_values(
        "T1: read x, fork T2, write x, lock o, write x, unlock o
         T2: lock o, read x, broadcast c, unlock o, read x
         T1: wait c, lock o, unlock o",
        &[0, 1, 0, 0, 0],
    );
    // The events of the figure in this trace. The second half of the wait is two events.
    let figure = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 12];
    let problem = Engine::new(&trace, Meaning::SameValues).problem(&[]);
    let one: Vec<usize> = vec![1, 2, 3, 4, E4P, 10];
    let two: Vec<usize> = vec![5, 6, 7, 8, 9];
    let (mut orders, mut schedules) = (0, 0);
    // Each bit says whether that place of the eleven belongs to the second thread.
    for choice in 0u32..1 << 11 {
        if choice.count_ones() as usize != two.len() {
            continue;
        }
        let (mut ones, mut twos) = (one.iter(), two.iter());
        let mut places: Places = [0; 12];
        for position in 0..11 {
            let thread = if choice >> position & 1 == 1 {
                &mut twos
            } else {
                &mut ones
            };
            places[*thread.next().expect("as many as the thread has")] = position + 1;
        }
        // The same order of our events: the additional read first, the `Wait` just before its lock.
        let place = |event: u32| match event {
            0 => 0,
            11 => 2 * places[E4P] + 1,
            14 => usize::MAX,
            _ => {
                let e = figure
                    .iter()
                    .position(|&own| own == event)
                    .expect("in the figure");
                2 * places[e] + 2
            }
        };
        let edges = problem.edges.iter().all(|&(a, b)| place(a.0) < place(b.0));
        let ours = edges && holds(&problem.formula, &place);
        assert_eq!(ours, paper(&places), "places {places:?}");
        orders += 1;
        schedules += usize::from(ours);
    }
    assert_eq!(orders, 462);
    assert!(schedules > 0, "the trace itself is a schedule");
}
