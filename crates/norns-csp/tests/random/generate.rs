//! Random processes.

use std::rc::Rc;

use crate::reference::{self, EVENTS, Tree};

pub struct Random(norns_random::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(norns_random::Random::new(seed))
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0.below(n)
    }

    pub fn event(&mut self) -> u8 {
        self.below(EVENTS as usize) as u8
    }

    pub fn set(&mut self) -> u8 {
        self.below(1 << EVENTS) as u8
    }

    pub fn pairs(&mut self) -> Vec<(u8, u8)> {
        let mut pairs: Vec<_> = (0..1 + self.below(3))
            .map(|_| (self.event(), self.event()))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }
}

pub const CALLS: usize = 3;

/// A body of a recursive definition: guarded, and with calls in tail position only, so that
/// there are finitely many states.
pub fn body(r: &mut Random, depth: usize) -> Rc<Tree> {
    Rc::new(match r.below(if depth == 0 { 4 } else { 9 }) {
        0 => Tree::Stop,
        1 => Tree::Skip,
        2 | 3 => Tree::Prefix(r.event(), Rc::new(Tree::Call(r.below(CALLS)))),
        4 => Tree::Internal(body(r, depth - 1), body(r, depth - 1)),
        5 => Tree::Sliding(body(r, depth - 1), body(r, depth - 1)),
        6 => Tree::Prefix(r.event(), body(r, depth - 1)),
        _ => Tree::External(body(r, depth - 1), body(r, depth - 1)),
    })
}

pub fn tree(r: &mut Random, depth: usize) -> Rc<Tree> {
    if depth == 0 || r.below(8) == 0 {
        return Rc::new(match r.below(10) {
            0 => Tree::Stop,
            1 | 2 => Tree::Skip,
            3 if r.below(3) == 0 => Tree::Div,
            4 => Tree::Chaos(r.set()),
            5 => Tree::Run(r.set()),
            6 | 7 => Tree::Prefix(r.event(), Rc::new(Tree::Skip)),
            _ => Tree::Call(r.below(CALLS)),
        });
    }
    let d = depth - 1;
    Rc::new(match r.below(22) {
        0 | 1 => Tree::Prefix(r.event(), tree(r, d)),
        2 | 3 => Tree::External(tree(r, d), tree(r, d)),
        4 => Tree::Internal(tree(r, d), tree(r, d)),
        5 => Tree::Sliding(tree(r, d), tree(r, d)),
        6 => Tree::Interrupt(tree(r, d), tree(r, d)),
        7 => Tree::Exception(tree(r, d), r.set(), tree(r, d)),
        8 | 9 => Tree::Sequence(tree(r, d), tree(r, d)),
        10 | 11 => Tree::Hide(tree(r, d), r.set()),
        12 => Tree::Project(tree(r, d), r.set()),
        13 => Tree::Rename(tree(r, d), r.pairs()),
        14 | 15 => Tree::Parallel(tree(r, d), r.set(), tree(r, d)),
        16 => Tree::Alphabetised(tree(r, d), r.set(), r.set(), tree(r, d)),
        17 => Tree::Linked(tree(r, d), r.pairs(), tree(r, d)),
        18 if r.below(2) == 0 => Tree::SyncExternal(tree(r, d), r.set(), tree(r, d)),
        18 => Tree::SyncInterrupt(tree(r, d), r.set(), tree(r, d)),
        19 => Tree::Compressed(r.below(7) as u8, tree(r, d)),
        20 => {
            let classes = (0..1 + r.below(3)).map(|_| r.set()).collect();
            Tree::Prioritised(reference::uncompressed(&tree(r, d)), classes)
        }
        _ => {
            // Pairs from smaller to larger numbers form no cycle; the lower one is not maximal.
            let pairs: Vec<(u8, u8)> = r.pairs().into_iter().filter(|(h, l)| h < l).collect();
            let lower = pairs.iter().fold(0, |set, pair| set | 1 << pair.1);
            let maximal = r.set() & !lower;
            Tree::Ordered(reference::uncompressed(&tree(r, d)), pairs, maximal)
        }
    })
}

/// One random system: specification and implementation, related often enough that many
/// refinements hold.
pub fn system(seed: u64) -> (Vec<Rc<Tree>>, Rc<Tree>, Rc<Tree>) {
    let mut r = Random::new(seed);
    let bodies: Vec<_> = (0..CALLS).map(|_| body(&mut r, 2)).collect();
    let depth = 1 + r.below(3);
    let spec = tree(&mut r, depth);
    let depth = 1 + r.below(3);
    let implementation = match r.below(6) {
        0 | 1 => tree(&mut r, depth),
        2 => spec.clone(),
        3 => match &*spec {
            Tree::Internal(l, _) | Tree::External(l, _) => l.clone(),
            Tree::Parallel(l, set, q) => Rc::new(Tree::Parallel(q.clone(), *set, l.clone())),
            _ => Rc::new(Tree::Interrupt(spec.clone(), Rc::new(Tree::Stop))),
        },
        4 => Rc::new(Tree::Parallel(
            spec.clone(),
            r.set(),
            Rc::new(Tree::Run(r.set())),
        )),
        _ => Rc::new(Tree::External(spec.clone(), tree(&mut r, depth))),
    };
    let spec = match r.below(4) {
        0 => Rc::new(Tree::Internal(spec, tree(&mut r, 1))),
        _ => spec,
    };
    (bodies, spec, implementation)
}
