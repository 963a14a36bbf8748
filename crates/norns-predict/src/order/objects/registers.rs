//! Registers: a read takes place only where the last write before it left the value that the read
//! needs (equation 2 of Said et al. 2011).
//!
//! Memory locations (`memory`) and `once` objects (`once`) are registers. Values are numbers: equal
//! numbers mean equal values.
//!
//! If the trace has branch events, a read needs its value only if a later branch of its thread
//! takes place, or if a later write of its thread is seen by a read that needs its value
//! (`relevance`; Huang et al. 2014). Without branch events everything that follows a
//! read may depend on it, so every read that takes place needs its value.

use std::rc::Rc;

use norns_model::Model;
use norns_order::{Formula, Node};
use rustc_hash::FxHashMap;

use super::clause::{Atom, CurrentOrder, Frame, prefer_observed};
use super::relevance::Relevance;
use super::thread_chains::ThreadChains;

#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub node: Node,
    /// The value that the access reads.
    pub needs: Option<u32>,
    /// The value that it leaves.
    pub writes: Option<u32>,
}

pub struct Register {
    /// In the order of the trace.
    pub accesses: Vec<Access>,
    pub initial: u32,
    /// The accesses that write.
    writes: ThreadChains,
    /// For every value, the accesses that write it.
    sources: FxHashMap<u32, ThreadChains>,
    /// Which reads need their values. `None`: all that take place.
    relevance: Option<Rc<Relevance>>,
}

impl Register {
    pub fn new(model: &Model<'_>, accesses: Vec<Access>, initial: u32) -> Self {
        let mut of_value: FxHashMap<u32, Vec<Node>> = FxHashMap::default();
        for access in &accesses {
            if let Some(value) = access.writes {
                of_value.entry(value).or_default().push(access.node);
            }
        }
        let writes = ThreadChains::new(of_value.values().flatten().copied(), model);
        let sources = of_value.into_iter();
        let sources = sources
            .map(|(value, nodes)| (value, ThreadChains::new(nodes, model)))
            .collect();
        Register {
            accesses,
            initial,
            writes,
            sources,
            relevance: None,
        }
    }

    pub fn set_relevance(&mut self, relevance: Rc<Relevance>) {
        self.relevance = Some(relevance);
    }

    /// The accesses that write this value; `None` if there are none.
    pub fn sources(&self, value: u32) -> Option<&ThreadChains> {
        self.sources.get(&value)
    }

    /// Pairs of a write and a read that can see no other write. There are none in traces with
    /// branch events, where a read may see another value.
    pub fn only_writers(&self) -> impl Iterator<Item = (Node, Node)> + '_ {
        self.accesses.iter().filter_map(|access| {
            let value = access.needs?;
            let writer = self.sources(value)?.only()?;
            let only = self.reads_are_always_relevant() && value != self.initial;
            (only && writer < access.node).then_some((writer, access.node))
        })
    }

    /// The atom "this read need not see its value".
    fn irrelevant(&self, read: Node, formula: &mut Formula) -> Atom {
        match &self.relevance {
            None => Atom::Absent(read),
            Some(relevance) => Atom::Literal(relevance.irrelevant(read, formula)),
        }
    }

    /// `read` sees `seen`, which wrote another value than it needs: a write of the right value has
    /// to come between the two, or the read before the write.
    fn refuse(&self, current: &CurrentOrder<'_>, read: &Access, seen: Node, formula: &mut Formula) {
        let irrelevant = self.irrelevant(read.node, formula);
        let value = read.needs.expect("only reads are refused");
        let sources = self.sources(value).into_iter();
        let mut atoms: Vec<Atom> = sources
            .flat_map(|sources| sources.between(current, seen, read.node))
            .collect();
        atoms.push(Atom::Before(read.node, seen));
        prefer_observed(&mut atoms);
        atoms.push(irrelevant);
        current.frame.clause(formula, atoms);
    }

    /// `read` stands before all writes and needs another value than the initial one: a write of
    /// that value has to come before it.
    fn refuse_initial(&self, current: &CurrentOrder<'_>, read: &Access, formula: &mut Formula) {
        let irrelevant = self.irrelevant(read.node, formula);
        let value = read.needs.expect("only reads are refused");
        let sources = self.sources(value).into_iter();
        let mut atoms: Vec<Atom> = sources
            .flat_map(|sources| sources.first_after(current, read.node))
            .map(|source| Atom::Before(source, read.node))
            .collect();
        prefer_observed(&mut atoms);
        atoms.push(irrelevant);
        current.frame.clause(formula, atoms);
    }

    /// Adds a clause if the access does not see the value that it needs. `writer` is the last
    /// access that wrote before it, `None` if there is none.
    pub fn check(
        &self,
        access: u32,
        writer: Option<u32>,
        current: &CurrentOrder<'_>,
        formula: &mut Formula,
    ) {
        let access = &self.accesses[access as usize];
        let Some(value) = access.needs else { return };
        match writer.map(|writer| &self.accesses[writer as usize]) {
            None if value != self.initial => self.refuse_initial(current, access, formula),
            Some(seen) if seen.writes != Some(value) => {
                self.refuse(current, access, seen.node, formula);
            }
            None | Some(_) => {}
        }
    }

    /// Whether every read that takes place needs its value. False in traces with branch events.
    pub fn reads_are_always_relevant(&self) -> bool {
        self.relevance.is_none()
    }

    /// The accesses that write.
    pub fn writes(&self) -> &ThreadChains {
        &self.writes
    }

    /// Adds the complete encoding, for another solver.
    pub fn all(&self, frame: &Frame, formula: &mut Formula) {
        let writes: Vec<&Access> = self
            .accesses
            .iter()
            .filter(|access| access.writes.is_some())
            .collect();
        for read in &self.accesses {
            let Some(value) = read.needs else { continue };
            let irrelevant = match &self.relevance {
                None => Atom::Absent(read.node),
                Some(relevance) => {
                    Atom::Literal(!relevance.relevant_with_rules(frame, read.node, formula))
                }
            };
            let others = || writes.iter().filter(|write| write.node != read.node);
            let mut choice = vec![irrelevant];
            if value == self.initial {
                let initial = formula.boolean(false);
                choice.push(Atom::Literal(initial));
                for write in others().filter(|write| write.writes != Some(value)) {
                    let atoms = [Atom::Literal(!initial), Atom::Before(read.node, write.node)];
                    frame.clause(formula, atoms);
                }
            }
            for source in others().filter(|write| write.writes == Some(value)) {
                if frame.ordered(read.node, source.node) {
                    continue;
                }
                let chosen = formula.boolean(false);
                choice.push(Atom::Literal(chosen));
                let not = Atom::Literal(!chosen);
                frame.clause(formula, [not, Atom::Before(source.node, read.node)]);
                // With branch events the source is this particular write and not any write of the
                // same value, since the reads that it depends on become relevant.
                for write in others().filter(|write| {
                    write.node != source.node
                        && (write.writes != Some(value) || self.relevance.is_some())
                }) {
                    let outside = [
                        not,
                        Atom::Before(write.node, source.node),
                        Atom::Before(read.node, write.node),
                    ];
                    frame.clause(formula, outside);
                }
                if let Some(relevance) = &self.relevance {
                    relevance.pass_on_with_rules(frame, read.node, source.node, chosen, formula);
                }
            }
            frame.clause(formula, choice);
        }
    }
}
