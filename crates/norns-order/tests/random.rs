//! Small random formulas: the solver has to give the answer that trying all orders gives.

use norns_order::{Answer, Literal, NoLazyClauses, Node, Query, Solver};
use norns_random::Random;

const NODES: u32 = 5;

/// A literal of the test: an order of two nodes, or one of two Booleans.
#[derive(Clone, Copy)]
enum Part {
    Before(u32, u32),
    Boolean(usize, bool),
}

fn random_part(random: &mut Random) -> Part {
    if random.below(4) == 0 {
        return Part::Boolean(random.below(2), random.below(2) == 0);
    }
    let a = random.below(NODES as usize) as u32;
    Part::Before(a, (a + 1 + random.below(NODES as usize - 1) as u32) % NODES)
}

fn permutations(prefix: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) {
    if prefix.len() == NODES as usize {
        found.push(prefix.clone());
    }
    for node in 0..NODES {
        if !prefix.contains(&node) {
            prefix.push(node);
            permutations(prefix, found);
            prefix.pop();
        }
    }
}

fn satisfiable(orders: &[Vec<u32>], edges: &[(u32, u32)], clauses: &[Vec<Part>]) -> bool {
    orders.iter().any(|order| {
        let place = |node: u32| order.iter().position(|&other| other == node);
        edges.iter().all(|&(a, b)| place(a) < place(b))
            && (0..4).any(|values: usize| {
                let holds = |part: &Part| match *part {
                    Part::Before(a, b) => place(a) < place(b),
                    Part::Boolean(k, wanted) => (values >> k & 1 == 1) == wanted,
                };
                clauses.iter().all(|clause| clause.iter().any(holds))
            })
    })
}

#[test]
fn the_solver_agrees_with_trying_all_orders() {
    let mut orders = Vec::new();
    permutations(&mut Vec::new(), &mut orders);
    let (mut yes, mut no) = (0, 0);
    for seed in 1..400u64 {
        let mut random = Random::new(seed);
        let mut edges = Vec::new();
        for a in 0..NODES {
            for b in a + 1..NODES {
                if random.below(6) == 0 {
                    edges.push((a, b));
                }
            }
        }
        let fixed: Vec<(Node, Node)> = edges.iter().map(|&(a, b)| (Node(a), Node(b))).collect();
        let mut solver = Solver::new(NODES as usize, &fixed);
        let booleans = [solver.boolean(false), solver.boolean(true)];
        let literal = |solver: &mut Solver, part: Part| -> Literal {
            match part {
                Part::Before(a, b) => solver.before(Node(a), Node(b)),
                Part::Boolean(k, wanted) if wanted => booleans[k],
                Part::Boolean(k, _) => !booleans[k],
            }
        };
        let mut clauses = Vec::new();
        // Asks under assumptions, and adds a clause before each question.
        for _ in 0..12 {
            let clause: Vec<Part> = (0..1 + random.below(3))
                .map(|_| random_part(&mut random))
                .collect();
            let literals = clause
                .iter()
                .map(|&part| literal(&mut solver, part))
                .collect();
            solver.add_clause(literals);
            clauses.push(clause);
            let asked: Vec<Part> = (0..random.below(3))
                .map(|_| random_part(&mut random))
                .collect();
            let assumptions = asked
                .iter()
                .map(|&part| literal(&mut solver, part))
                .collect();
            let query = Query {
                assumptions,
                start: None,
                conflicts: u64::MAX,
            };
            let answer = solver.solve(&query, &mut NoLazyClauses);
            let mut all = clauses.clone();
            all.extend(asked.iter().map(|&part| vec![part]));
            let expected = satisfiable(&orders, &edges, &all);
            assert_eq!(answer == Answer::Satisfiable, expected, "seed {seed}");
            yes += usize::from(expected);
            no += usize::from(!expected);
        }
    }
    assert!(
        yes > 500 && no > 500,
        "both answers have to occur: {yes} satisfiable, {no} not"
    );
}
