//! Traces with branch events in a simulation: which reads are relevant (`objects::relevance`), and
//! whether they see the values that they need.
//!
//! A read becomes relevant when a later branch of its thread takes place, or when a relevant read
//! sees a later write of its thread. So a read is not checked when it takes place. When a branch
//! does, the reads before it are checked, and, from each of these, the reads before the write that
//! it saw. For a read that sees a wrong value, the clauses state that and why the read is relevant.

use std::rc::Rc;

use norns_order::{Formula, Node};

use crate::order::objects::clause::CurrentOrder;
use crate::order::objects::registers::Register;
use crate::order::objects::relevance::{Relevance, ThreadPosition};

/// An access of a register, both as indices.
#[derive(Clone, Copy)]
struct AccessId {
    register: u32,
    access: u32,
}

impl AccessId {
    fn node(self, registers: &[Register]) -> Node {
        registers[self.register as usize].accesses[self.access as usize].node
    }
}

/// Why reads of a thread are relevant.
#[derive(Clone, Copy)]
enum Cause {
    /// A branch of the thread follows them.
    Branch,
    /// This access, which is relevant, sees a write that follows them.
    SeenBy(AccessId),
}

#[derive(Clone, Copy)]
struct Read {
    position: u32,
    id: AccessId,
}

/// The reads of a thread from the previous entry's `end` up to this one's are relevant.
#[derive(Clone, Copy)]
struct Relevant {
    /// A number of reads of the thread.
    end: u32,
    cause: Cause,
}

pub struct RelevantReads {
    relevance: Rc<Relevance>,
    /// For every thread, its reads in program order.
    reads: Vec<Vec<Read>>,
    /// For every register and access, the last access that wrote before it when it last took place.
    saw: Vec<Vec<Option<u32>>>,
    /// For every thread, sorted by `end`.
    relevant: Vec<Vec<Relevant>>,
}

impl RelevantReads {
    pub fn new(relevance: Rc<Relevance>, registers: &[Register]) -> Self {
        let threads = relevance.threads();
        let mut reads: Vec<Vec<Read>> = vec![Vec::new(); threads];
        for (r, register) in registers.iter().enumerate() {
            for (i, access) in register.accesses.iter().enumerate() {
                if access.needs.is_some() && !register.reads_are_always_relevant() {
                    let ThreadPosition { thread, position } = relevance.position(access.node);
                    let id = AccessId {
                        register: r as u32,
                        access: i as u32,
                    };
                    reads[thread].push(Read { position, id });
                }
            }
        }
        for reads in &mut reads {
            reads.sort_by_key(|read| read.position);
        }
        let saw = registers.iter().map(|r| vec![None; r.accesses.len()]);
        RelevantReads {
            relevance,
            reads,
            saw: saw.collect(),
            relevant: vec![Vec::new(); threads],
        }
    }

    /// An access takes place, and `writer` was the last to write before it.
    pub fn saw(&mut self, register: u32, access: u32, writer: Option<u32>) {
        self.saw[register as usize][access as usize] = writer;
    }

    /// Undoes the last extension of the relevant reads of this thread.
    pub fn undo(&mut self, thread: u32) {
        self.relevant[thread as usize].pop();
    }

    /// A branch takes place: adds clauses for wrong values that the reads before it see. Calls
    /// `extended` for each thread of which more reads have become relevant.
    pub fn branch(
        &mut self,
        branch: Node,
        registers: &[Register],
        current: &CurrentOrder<'_>,
        formula: &mut Formula,
        mut extended: impl FnMut(u32),
    ) {
        let mut open = vec![(self.relevance.position(branch), Cause::Branch)];
        while let Some((ThreadPosition { thread, position }, cause)) = open.pop() {
            let reads = &self.reads[thread];
            let last = self.relevant[thread].last();
            let from = last.map_or(0, |relevant| relevant.end as usize);
            let to = reads.partition_point(|read| read.position < position);
            if to <= from {
                continue;
            }
            let end = to as u32;
            self.relevant[thread].push(Relevant { end, cause });
            extended(thread as u32);
            for k in from..to {
                let id = self.reads[thread][k].id;
                let writer = self.saw[id.register as usize][id.access as usize];
                let register = &registers[id.register as usize];
                let before = formula.clauses.len();
                register.check(id.access, writer, current, formula);
                if formula.clauses.len() > before {
                    self.explain(thread, k, registers, current, formula);
                } else if let Some(writer) = writer {
                    let write = register.accesses[writer as usize].node;
                    let mut until = self.relevance.position(write);
                    // The write of a read-modify-write depends on its own read.
                    until.position += 1;
                    open.push((until, Cause::SeenBy(id)));
                }
            }
        }
    }

    /// Adds clauses that state why a read is relevant: the chain of causes back to a branch.
    fn explain(
        &self,
        mut thread: usize,
        mut number: usize,
        registers: &[Register],
        current: &CurrentOrder<'_>,
        formula: &mut Formula,
    ) {
        loop {
            let node = self.reads[thread][number].id.node(registers);
            let relevant = &self.relevant[thread];
            let entry = relevant.partition_point(|relevant| relevant.end as usize <= number);
            let Cause::SeenBy(reader) = relevant[entry].cause else {
                self.relevance.require_for_branch(current, node, formula);
                return;
            };
            let register = &registers[reader.register as usize];
            let writer = self.saw[reader.register as usize][reader.access as usize];
            let writer = writer.expect("a read that is a cause sees a write");
            let read = reader.node(registers);
            let write = register.accesses[writer as usize].node;
            let writes = register.writes();
            self.relevance
                .pass_on(current, read, write, writes, node, formula);
            let reader = self.relevance.position(read);
            thread = reader.thread;
            number = self.reads[thread].partition_point(|read| read.position < reader.position);
        }
    }
}
