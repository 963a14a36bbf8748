//! A small, slow checker to judge the engine by: processes as trees, firing rules written down
//! operator by operator (all of them binary), and the traces, failures and divergences of a
//! process enumerated up to a length. It shares no code with the engine.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// Visible events are 0..EVENTS; sets of them are bit masks.
pub const EVENTS: u8 = 3;
pub const TAU: u8 = 100;
pub const TICK: u8 = 101;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Tree {
    Stop,
    Skip,
    Omega,
    Div,
    Chaos(u8),
    Run(u8),
    Prefix(u8, Rc<Tree>),
    External(Rc<Tree>, Rc<Tree>),
    Internal(Rc<Tree>, Rc<Tree>),
    Sliding(Rc<Tree>, Rc<Tree>),
    Interrupt(Rc<Tree>, Rc<Tree>),
    Exception(Rc<Tree>, u8, Rc<Tree>),
    Sequence(Rc<Tree>, Rc<Tree>),
    Hide(Rc<Tree>, u8),
    Project(Rc<Tree>, u8),
    Rename(Rc<Tree>, Vec<(u8, u8)>),
    Parallel(Rc<Tree>, u8, Rc<Tree>),
    Alphabetised(Rc<Tree>, u8, u8, Rc<Tree>),
    Linked(Rc<Tree>, Vec<(u8, u8)>, Rc<Tree>),
    SyncExternal(Rc<Tree>, u8, Rc<Tree>),
    SyncInterrupt(Rc<Tree>, u8, Rc<Tree>),
    Compressed(u8, Rc<Tree>),
    /// `prioritise` with these classes.
    Prioritised(Rc<Tree>, Vec<u8>),
    /// `prioritisepo` with all events, pairs (higher, lower) and maximal events.
    Ordered(Rc<Tree>, Vec<(u8, u8)>, u8),
    Call(usize),
}

use Tree::*;

fn has(set: u8, event: u8) -> bool {
    event < EVENTS && set >> event & 1 == 1
}

type Steps = Vec<(u8, Rc<Tree>)>;

/// What a process can do next.
pub fn steps(p: &Rc<Tree>, calls: &[Rc<Tree>]) -> Steps {
    let omega = || Rc::new(Omega);
    let of = |p: &Rc<Tree>| steps(p, calls);
    let mut out: Steps = Vec::new();
    let each = |set: u8| (0..EVENTS).filter(move |&e| has(set, e));
    match &**p {
        Stop | Omega => {}
        Skip => out.push((TICK, omega())),
        Div => out.push((TAU, p.clone())),
        Chaos(set) => {
            out.push((TAU, Rc::new(Stop)));
            each(*set).for_each(|e| out.push((e, p.clone())));
        }
        Run(set) => each(*set).for_each(|e| out.push((e, p.clone()))),
        Prefix(e, q) => out.push((*e, q.clone())),
        External(l, r) => {
            for (e, n) in of(l) {
                out.push(match e {
                    TAU => (TAU, Rc::new(External(n, r.clone()))),
                    TICK => (TICK, omega()),
                    _ => (e, n),
                });
            }
            for (e, n) in of(r) {
                out.push(match e {
                    TAU => (TAU, Rc::new(External(l.clone(), n))),
                    TICK => (TICK, omega()),
                    _ => (e, n),
                });
            }
        }
        Internal(l, r) => {
            out.push((TAU, l.clone()));
            out.push((TAU, r.clone()));
        }
        Sliding(l, r) => {
            out.push((TAU, r.clone()));
            for (e, n) in of(l) {
                out.push(match e {
                    TAU => (TAU, Rc::new(Sliding(n, r.clone()))),
                    TICK => (TICK, omega()),
                    _ => (e, n),
                });
            }
        }
        Interrupt(l, r) => {
            for (e, n) in of(l) {
                out.push(match e {
                    TICK => (TICK, omega()),
                    _ => (e, Rc::new(Interrupt(n, r.clone()))),
                });
            }
            for (e, n) in of(r) {
                out.push(match e {
                    TAU => (TAU, Rc::new(Interrupt(l.clone(), n))),
                    TICK => (TICK, omega()),
                    _ => (e, n),
                });
            }
        }
        Exception(l, set, r) => {
            for (e, n) in of(l) {
                out.push(match e {
                    TICK => (TICK, omega()),
                    _ if has(*set, e) => (e, r.clone()),
                    _ => (e, Rc::new(Exception(n, *set, r.clone()))),
                });
            }
        }
        Sequence(l, r) => {
            for (e, n) in of(l) {
                out.push(match e {
                    TICK => (TAU, r.clone()),
                    _ => (e, Rc::new(Sequence(n, r.clone()))),
                });
            }
        }
        Hide(q, set) => {
            for (e, n) in of(q) {
                out.push(match e {
                    TICK => (TICK, omega()),
                    _ => (if has(*set, e) { TAU } else { e }, Rc::new(Hide(n, *set))),
                });
            }
        }
        Project(q, set) => {
            for (e, n) in of(q) {
                out.push(match e {
                    TICK => (TICK, omega()),
                    _ => (
                        if has(*set, e) { e } else { TAU },
                        Rc::new(Project(n, *set)),
                    ),
                });
            }
        }
        Rename(q, pairs) => {
            for (e, n) in of(q) {
                if e == TICK {
                    out.push((TICK, omega()));
                    continue;
                }
                let n = Rc::new(Rename(n, pairs.clone()));
                if pairs.iter().any(|p| p.0 == e) {
                    for pair in pairs.iter().filter(|p| p.0 == e) {
                        out.push((pair.1, n.clone()));
                    }
                } else {
                    out.push((e, n));
                }
            }
        }
        Parallel(l, set, r) => {
            let join = |l, r| Rc::new(Parallel(l, *set, r));
            both(
                l,
                r,
                &of(l),
                &of(r),
                &mut out,
                &join,
                |e, _| !has(*set, e),
                |a, b| (a == b && has(*set, a)).then_some(a),
            );
        }
        Alphabetised(l, left, right, r) => {
            let join = |l, r| Rc::new(Alphabetised(l, *left, *right, r));
            let alone = |e, is_left| {
                if is_left {
                    has(*left, e) && !has(*right, e)
                } else {
                    has(*right, e) && !has(*left, e)
                }
            };
            both(l, r, &of(l), &of(r), &mut out, &join, alone, |a, b| {
                (a == b && has(left & right, a)).then_some(a)
            });
        }
        Linked(l, pairs, r) => {
            let join = |l, r| Rc::new(Linked(l, pairs.clone(), r));
            let alone = |e, is_left| {
                !pairs
                    .iter()
                    .any(|p| if is_left { p.0 == e } else { p.1 == e })
            };
            both(l, r, &of(l), &of(r), &mut out, &join, alone, |a, b| {
                pairs.contains(&(a, b)).then_some(TAU)
            });
        }
        SyncExternal(l, set, r) => {
            let (ls, rs) = (of(l), of(r));
            for (e, n) in &ls {
                match *e {
                    TAU => out.push((TAU, Rc::new(SyncExternal(n.clone(), *set, r.clone())))),
                    TICK => out.push((TICK, omega())),
                    e if has(*set, e) => {
                        for (_, m) in rs.iter().filter(|s| s.0 == e) {
                            out.push((e, Rc::new(SyncExternal(n.clone(), *set, m.clone()))));
                        }
                    }
                    e => out.push((e, n.clone())),
                }
            }
            for (e, n) in &rs {
                match *e {
                    TAU => out.push((TAU, Rc::new(SyncExternal(l.clone(), *set, n.clone())))),
                    TICK => out.push((TICK, omega())),
                    e if has(*set, e) => {}
                    e => out.push((e, n.clone())),
                }
            }
        }
        SyncInterrupt(l, set, r) => {
            let (ls, rs) = (of(l), of(r));
            for (e, n) in &ls {
                match *e {
                    TICK => out.push((TICK, omega())),
                    e if has(*set, e) => {
                        for (_, m) in rs.iter().filter(|s| s.0 == e) {
                            out.push((e, Rc::new(SyncInterrupt(n.clone(), *set, m.clone()))));
                        }
                    }
                    e => out.push((e, Rc::new(SyncInterrupt(n.clone(), *set, r.clone())))),
                }
            }
            for (e, n) in &rs {
                match *e {
                    TAU => out.push((TAU, Rc::new(SyncInterrupt(l.clone(), *set, n.clone())))),
                    TICK => out.push((TICK, omega())),
                    e if has(*set, e) => {}
                    e => out.push((e, n.clone())),
                }
            }
        }
        Compressed(_, q) => out = of(q),
        Prioritised(q, classes) => {
            let all = of(q);
            // Smaller is more urgent; none is not compared.
            let level = |e: u8| match e {
                TAU | TICK => Some(0),
                e => classes.iter().position(|&set| has(set, e)),
            };
            for (e, n) in &all {
                let yields = level(*e).is_some_and(|mine| {
                    all.iter().any(|(f, _)| level(*f).is_some_and(|l| l < mine))
                });
                if !yields {
                    let rest = Rc::new(Prioritised(n.clone(), classes.clone()));
                    out.push((*e, if *e == TICK { omega() } else { rest }));
                }
            }
        }
        Ordered(q, pairs, maximal) => {
            let all = of(q);
            for (e, n) in &all {
                let yields = all.iter().any(|(f, _)| match *f {
                    TAU | TICK => *e < EVENTS && !has(*maximal, *e),
                    f => above(pairs, f, *e, EVENTS),
                });
                if !yields {
                    let rest = Rc::new(Ordered(n.clone(), pairs.clone(), *maximal));
                    out.push((*e, if *e == TICK { omega() } else { rest }));
                }
            }
        }
        Call(which) => out = of(&calls[*which]),
    }
    out
}

/// Whether a chain of pairs (higher, lower) leads from one event down to another.
fn above(pairs: &[(u8, u8)], high: u8, low: u8, depth: u8) -> bool {
    depth > 0
        && pairs
            .iter()
            .any(|&(h, l)| h == high && (l == low || above(pairs, l, low, depth - 1)))
}

/// The rules that all parallel operators share: taus and free events alone, termination of one
/// side by a tau, common events together, and a tick when both have ended.
#[expect(
    clippy::too_many_arguments,
    reason = "three operators differ in three places"
)]
fn both(
    l: &Rc<Tree>,
    r: &Rc<Tree>,
    ls: &Steps,
    rs: &Steps,
    out: &mut Steps,
    join: &dyn Fn(Rc<Tree>, Rc<Tree>) -> Rc<Tree>,
    alone: impl Fn(u8, bool) -> bool,
    together: impl Fn(u8, u8) -> Option<u8>,
) {
    if **l == Omega && **r == Omega {
        out.push((TICK, Rc::new(Omega)));
    }
    for (e, n) in ls {
        match *e {
            TAU => out.push((TAU, join(n.clone(), r.clone()))),
            TICK => out.push((TAU, join(Rc::new(Omega), r.clone()))),
            e if alone(e, true) => out.push((e, join(n.clone(), r.clone()))),
            _ => {}
        }
    }
    for (e, n) in rs {
        match *e {
            TAU => out.push((TAU, join(l.clone(), n.clone()))),
            TICK => out.push((TAU, join(l.clone(), Rc::new(Omega)))),
            e if alone(e, false) => out.push((e, join(l.clone(), n.clone()))),
            _ => {}
        }
    }
    for (a, n) in ls.iter().filter(|s| s.0 < EVENTS) {
        for (b, m) in rs.iter().filter(|s| s.0 < EVENTS) {
            if let Some(e) = together(*a, *b) {
                out.push((e, join(n.clone(), m.clone())));
            }
        }
    }
}

/// All states of a process, if there are not too many.
pub struct Graph {
    pub steps: Vec<Vec<(u8, usize)>>,
}

impl Graph {
    pub fn new(p: &Rc<Tree>, calls: &[Rc<Tree>], limit: usize) -> Option<Graph> {
        let mut ids: HashMap<Rc<Tree>, usize> = HashMap::new();
        ids.insert(p.clone(), 0);
        let mut order = vec![p.clone()];
        let mut all = Vec::new();
        while all.len() < order.len() {
            if order.len() > limit {
                return None;
            }
            let state = order[all.len()].clone();
            let next = steps(&state, calls)
                .into_iter()
                .map(|(e, q)| {
                    let id = *ids.entry(q.clone()).or_insert_with(|| {
                        order.push(q);
                        order.len() - 1
                    });
                    (e, id)
                })
                .collect();
            all.push(next);
        }
        Some(Graph { steps: all })
    }

    /// What taus reach.
    pub fn closure(&self, from: BTreeSet<usize>) -> BTreeSet<usize> {
        let mut todo: Vec<usize> = from.iter().copied().collect();
        let mut all = from;
        while let Some(s) = todo.pop() {
            for &(e, to) in &self.steps[s] {
                if e == TAU && all.insert(to) {
                    todo.push(to);
                }
            }
        }
        all
    }

    /// Whether a state can do taus for ever: more taus in a row than there are states.
    pub fn diverges(&self, s: usize) -> bool {
        let mut now = BTreeSet::from([s]);
        for _ in 0..=self.steps.len() {
            now = now
                .iter()
                .flat_map(|&s| &self.steps[s])
                .filter(|step| step.0 == TAU)
                .map(|step| step.1)
                .collect();
        }
        !now.is_empty()
    }
}

/// What a process is, denotationally, for traces up to some length.
pub struct Meaning {
    pub traces: BTreeSet<Vec<u8>>,
    /// Traces with the sets of events (tick as one of them) that are refused, at their largest:
    /// everything smaller is refused too. Bit 7 stands for tick.
    pub failures: BTreeSet<(Vec<u8>, u8)>,
    /// Traces that lead to divergence (and were not extended).
    pub divergences: BTreeSet<Vec<u8>>,
}

const TICK_BIT: u8 = 1 << 7;
const ALL: u8 = (1 << EVENTS) - 1;

/// Enumerates. With `strict`, nothing behind a divergence is looked at.
pub fn meaning(graph: &Graph, length: usize, strict: bool) -> Meaning {
    let mut m = Meaning {
        traces: BTreeSet::new(),
        failures: BTreeSet::new(),
        divergences: BTreeSet::new(),
    };
    let mut todo = vec![(Vec::new(), graph.closure(BTreeSet::from([0])))];
    while let Some((trace, states)) = todo.pop() {
        m.traces.insert(trace.clone());
        if states.iter().any(|&s| graph.diverges(s)) {
            m.divergences.insert(trace.clone());
            if strict {
                continue;
            }
        }
        let mut after: HashMap<u8, BTreeSet<usize>> = HashMap::new();
        for &s in &states {
            let mut offers = 0;
            let mut stable = true;
            for &(e, to) in &graph.steps[s] {
                match e {
                    TAU => stable = false,
                    TICK => {
                        // Tick is not refused, everything else is.
                        m.failures.insert((trace.clone(), ALL));
                        stable = false;
                        after.entry(e).or_default().insert(to);
                    }
                    e => {
                        offers |= 1 << e;
                        after.entry(e).or_default().insert(to);
                    }
                }
            }
            if stable {
                m.failures
                    .insert((trace.clone(), (ALL | TICK_BIT) & !offers));
            }
        }
        if trace.len() < length {
            for (e, states) in after {
                let mut longer = trace.clone();
                longer.push(e);
                todo.push((longer, graph.closure(states)));
            }
        }
    }
    m
}

/// The tree without compressions: what a priority sees depends on how taus are placed, which they
/// do not keep.
pub fn uncompressed(p: &Rc<Tree>) -> Rc<Tree> {
    let of = uncompressed;
    Rc::new(match &**p {
        Compressed(_, q) => return of(q),
        Prefix(e, q) => Prefix(*e, of(q)),
        External(l, r) => External(of(l), of(r)),
        Internal(l, r) => Internal(of(l), of(r)),
        Sliding(l, r) => Sliding(of(l), of(r)),
        Interrupt(l, r) => Interrupt(of(l), of(r)),
        Exception(l, set, r) => Exception(of(l), *set, of(r)),
        Sequence(l, r) => Sequence(of(l), of(r)),
        Hide(q, set) => Hide(of(q), *set),
        Project(q, set) => Project(of(q), *set),
        Rename(q, pairs) => Rename(of(q), pairs.clone()),
        Parallel(l, set, r) => Parallel(of(l), *set, of(r)),
        Alphabetised(l, a, b, r) => Alphabetised(of(l), *a, *b, of(r)),
        Linked(l, pairs, r) => Linked(of(l), pairs.clone(), of(r)),
        SyncExternal(l, set, r) => SyncExternal(of(l), *set, of(r)),
        SyncInterrupt(l, set, r) => SyncInterrupt(of(l), *set, of(r)),
        Prioritised(q, classes) => Prioritised(of(q), classes.clone()),
        Ordered(q, pairs, maximal) => Ordered(of(q), pairs.clone(), *maximal),
        Stop | Skip | Omega | Div | Chaos(_) | Run(_) | Call(_) => return p.clone(),
    })
}

/// The first behaviour, up to the length, of `implementation` that `spec` does not have.
pub fn difference(
    model: char,
    spec: &Graph,
    implementation: &Graph,
    length: usize,
) -> Option<String> {
    let strict = model == 'D';
    let s = meaning(spec, length, strict);
    let i = meaning(implementation, length, strict);
    // Behind a divergence of the specification everything is allowed.
    let chaotic = |t: &[u8]| strict && (0..=t.len()).any(|n| s.divergences.contains(&t[..n]));
    let mut traces: Vec<_> = i.traces.iter().collect();
    traces.sort_by_key(|t| t.len());
    for t in traces {
        if !chaotic(t) && !s.traces.contains(t) {
            return Some(format!("trace {t:?}"));
        }
    }
    if model == 'T' {
        return None;
    }
    if strict && let Some(t) = i.divergences.iter().find(|t| !chaotic(t)) {
        return Some(format!("divergence {t:?}"));
    }
    for (t, refused) in &i.failures {
        let allowed = s
            .failures
            .iter()
            .any(|(u, more)| u == t && refused & !more == 0);
        // Where the implementation diverges, strictly, its failures are covered by that.
        if !chaotic(t) && !allowed {
            return Some(format!("failure {t:?} {refused:b}"));
        }
    }
    None
}

/// An event that can be accepted and refused after the same trace.
pub fn nondeterminism(model: char, graph: &Graph, length: usize) -> Option<String> {
    let m = meaning(graph, length, model == 'D');
    if model == 'D'
        && let Some(t) = m.divergences.first()
    {
        return Some(format!("divergence {t:?}"));
    }
    for (t, refused) in &m.failures {
        for e in 0..EVENTS {
            let mut longer = t.clone();
            longer.push(e);
            if has(*refused, e) && m.traces.contains(&longer) {
                return Some(format!("{t:?}, then {e} or not"));
            }
        }
        // A tick can be refused only where another stable state does not offer it.
        let mut longer = t.clone();
        longer.push(TICK);
        if refused & TICK_BIT != 0 && m.traces.contains(&longer) {
            return Some(format!("{t:?}, then tick or not"));
        }
    }
    None
}

/// Whether some stable state, not after termination, offers nothing.
pub fn deadlock(graph: &Graph) -> bool {
    let ended: BTreeSet<usize> = graph
        .steps
        .iter()
        .flatten()
        .filter(|step| step.0 == TICK)
        .map(|step| step.1)
        .collect();
    (0..graph.steps.len()).any(|s| graph.steps[s].is_empty() && !ended.contains(&s))
}

/// Whether some state diverges.
pub fn divergence(graph: &Graph) -> bool {
    (0..graph.steps.len()).any(|s| graph.diverges(s))
}
