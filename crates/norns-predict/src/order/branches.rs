//! Branch mode in a run: which reads matter, and whether they see what they need.
//!
//! A read counts when a branch of its thread takes place behind it, or when a read that counts sees
//! a write of its thread behind it. So nothing is looked at when a read takes place; when a branch
//! does, the reads before it are, and from each the reads before the write that it saw. Where one
//! sees something wrong, the clauses say so and why it counts.

use std::rc::Rc;

use norns_order::{Formula, Node};

use super::frame::Sight;
use super::needs::Needs;
use super::registers::Register;
use super::run::NOBODY;

/// Why reads of a thread matter.
#[derive(Clone, Copy)]
enum Cause {
    Branch,
    /// The access of this register that sees a write behind them.
    Seen(u32, u32),
}

/// A read: its position in its thread, the register, the access.
#[derive(Clone, Copy)]
struct Read {
    position: u32,
    register: u32,
    access: u32,
}

pub(super) struct Branches {
    needs: Rc<Needs>,
    /// Of every thread, in its order.
    reads: Vec<Vec<Read>>,
    /// Of every register and access: the access that wrote last before it.
    saw: Vec<Vec<u32>>,
    /// Of every thread: how many of its reads matter and why those since the entry before do.
    /// Ascending.
    mattering: Vec<Vec<(u32, Cause)>>,
}

impl Branches {
    pub fn new(needs: Rc<Needs>, registers: &[Register]) -> Self {
        let threads = needs.threads();
        let mut reads: Vec<Vec<Read>> = vec![Vec::new(); threads];
        for (r, register) in registers.iter().enumerate() {
            for (i, access) in register.accesses.iter().enumerate() {
                if access.needs.is_some() && !register.always_counts() {
                    let (thread, position) = needs.place(access.node);
                    reads[thread].push(Read {
                        position,
                        register: r as u32,
                        access: i as u32,
                    });
                }
            }
        }
        for reads in &mut reads {
            reads.sort_by_key(|read| read.position);
        }
        Branches {
            needs,
            reads,
            saw: registers
                .iter()
                .map(|r| vec![NOBODY; r.accesses.len()])
                .collect(),
            mattering: vec![Vec::new(); threads],
        }
    }

    /// An access takes place and sees what `writer` wrote.
    pub fn saw(&mut self, register: u32, access: u32, writer: u32) {
        self.saw[register as usize][access as usize] = writer;
    }

    /// Takes back the last extension of what matters of this thread.
    pub fn undo(&mut self, thread: u32) {
        self.mattering[thread as usize].pop();
    }

    /// A branch takes place: adds clauses for what the reads before it see. `extended` is told of
    /// each thread more of whose reads matter now.
    pub fn take_place(
        &mut self,
        branch: Node,
        registers: &[Register],
        sight: &Sight<'_>,
        formula: &mut Formula,
        mut extended: impl FnMut(u32),
    ) {
        let (thread, position) = self.needs.place(branch);
        let mut open = vec![(thread, position, Cause::Branch)];
        while let Some((thread, position, cause)) = open.pop() {
            let reads = &self.reads[thread];
            let from = self.mattering[thread]
                .last()
                .map_or(0, |last| last.0 as usize);
            let to = reads.partition_point(|read| read.position < position);
            if to <= from {
                continue;
            }
            self.mattering[thread].push((to as u32, cause));
            extended(thread as u32);
            for k in from..to {
                let Read {
                    register, access, ..
                } = self.reads[thread][k];
                let writer = self.saw[register as usize][access as usize];
                let of = &registers[register as usize];
                let before = formula.clauses.len();
                of.check(access, writer, sight, formula);
                if formula.clauses.len() > before {
                    self.explain(thread, k, registers, sight, formula);
                } else if writer != NOBODY {
                    let write = of.accesses[writer as usize].node;
                    let (thread, position) = self.needs.place(write);
                    // The write of a read-modify-write depends on its own read.
                    open.push((thread, position + 1, Cause::Seen(register, access)));
                }
            }
        }
    }

    /// Adds clauses that say why a read matters.
    fn explain(
        &self,
        mut thread: usize,
        mut number: usize,
        registers: &[Register],
        sight: &Sight<'_>,
        formula: &mut Formula,
    ) {
        loop {
            let read = self.reads[thread][number];
            let node = registers[read.register as usize].accesses[read.access as usize].node;
            let mattering = &self.mattering[thread];
            let why = mattering.partition_point(|&(end, _)| end as usize <= number);
            let Cause::Seen(register, access) = mattering[why].1 else {
                self.needs.branched(sight, node, formula);
                return;
            };
            let of = &registers[register as usize];
            let seen = self.saw[register as usize][access as usize];
            let pair = (
                of.accesses[access as usize].node,
                of.accesses[seen as usize].node,
            );
            self.needs.pass_on(sight, pair, of.writes(), node, formula);
            let (reader, position) = self.needs.place(pair.0);
            thread = reader;
            number = self.reads[thread].partition_point(|read| read.position < position);
        }
    }
}
