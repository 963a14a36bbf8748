//! Splitting a process: which operators become nodes of the static part, and where components
//! begin.

use rustc_hash::FxHashSet;

use crate::CheckError;
use crate::engine::context::Context;
use crate::engine::shape::{Leaf, NodeId, Shape, Shapes, Split, Sync};
use crate::process::{CallId, ListId, ProcId, Process};

enum Built {
    Leaf(ProcId),
    Node(NodeId),
}

enum Stop {
    /// This call is being built: the recursion goes through the static part.
    Recursive(CallId),
    Error(CheckError),
}

impl From<CheckError> for Stop {
    fn from(error: CheckError) -> Self {
        Stop::Error(error)
    }
}

// How far a process is unfolded behind operators that do not need it at once. It bounds the
// work for `P(n) = a -> SKIP ; P(n+1)`; a parallel composition behind it is built as a product.
const LOOK_AHEAD: usize = 8;
const FUEL: usize = 4000;
const MAX_DEPTH: usize = 1500;

struct Builder<'a, 'b> {
    context: &'a mut Context<'b>,
    shapes: &'a mut Shapes,
    split: Split,
    // Calls on the way from the root.
    open: FxHashSet<CallId>,
    names: Vec<String>,
    fuel: usize,
    depth: usize,
}

impl Shapes {
    /// Splits a process into its static part and components.
    pub fn build(
        &mut self,
        context: &mut Context,
        process: ProcId,
        split: Split,
    ) -> Result<NodeId, CheckError> {
        let mut builder = Builder {
            context,
            shapes: self,
            split,
            open: FxHashSet::default(),
            names: Vec::new(),
            fuel: FUEL,
            depth: 0,
        };
        match builder.build(process, LOOK_AHEAD, true) {
            Ok(built) => Ok(builder.node(built)),
            Err(Stop::Recursive(_)) => unreachable!("every open call catches its own recursion"),
            Err(Stop::Error(error)) => Err(error),
        }
    }
}

impl Builder<'_, '_> {
    fn node(&mut self, built: Built) -> NodeId {
        match built {
            Built::Node(node) => node,
            Built::Leaf(process) => {
                let leaf = self.shapes.leaves.len() as u32;
                let name = self
                    .context
                    .given_name(process)
                    .or_else(|| self.names.last().cloned());
                self.shapes.leaves.push(Leaf { process, name });
                self.shapes.intern(Shape::Leaf(leaf))
            }
        }
    }

    fn build(&mut self, process: ProcId, ahead: usize, guarded: bool) -> Result<Built, Stop> {
        if self.depth >= MAX_DEPTH {
            return Ok(Built::Leaf(process));
        }
        self.depth += 1;
        let built = self.build_inner(process, ahead, guarded);
        self.depth -= 1;
        built
    }

    /// A part that starts later: looked at as far as `ahead` and the fuel go.
    fn later(&mut self, process: ProcId, ahead: usize, guarded: bool) -> Result<Built, Stop> {
        if ahead == 0 || self.fuel == 0 || self.split == Split::ParallelOnly {
            return Ok(Built::Leaf(process));
        }
        self.fuel -= 1;
        self.build(process, ahead - 1, guarded)
    }

    // `guarded`: whether to look behind prefixes.
    fn build_inner(&mut self, term: ProcId, ahead: usize, guarded: bool) -> Result<Built, Stop> {
        let control = self.split == Split::Everything;
        match self.context.processes.get(term) {
            Process::Call(call) => {
                if !self.open.insert(call) {
                    return Err(Stop::Recursive(call));
                }
                let body = self
                    .context
                    .processes
                    .unfold(call, self.context.definitions)
                    .map_err(CheckError::from)?;
                let name = self.context.name(term);
                let named = name.is_some();
                self.names.extend(name);
                let built = self.build(body, ahead, guarded);
                if named {
                    self.names.pop();
                }
                self.open.remove(&call);
                match built {
                    Ok(Built::Leaf(_)) => Ok(Built::Leaf(term)),
                    Err(Stop::Recursive(c)) if c == call => Ok(Built::Leaf(term)),
                    other => other,
                }
            }
            Process::Interleave(list) => self.parallel(list, Sync::Nothing, ahead),
            Process::Parallel(list, set) => self.parallel(list, Sync::On(set), ahead),
            Process::Alphabetised(list, alphabets) => {
                self.parallel(list, Sync::Alphabets(alphabets), ahead)
            }
            Process::Hide(p, set) => Ok(match self.build(p, ahead, guarded)? {
                Built::Leaf(_) => Built::Leaf(term),
                Built::Node(n) => Built::Node(self.shapes.intern(Shape::Hide(n, set))),
            }),
            Process::Rename(p, renaming) => Ok(match self.build(p, ahead, guarded)? {
                Built::Leaf(_) => Built::Leaf(term),
                Built::Node(n) => Built::Node(self.shapes.intern(Shape::Rename(n, renaming))),
            }),
            Process::Prefix(event, then) if control && guarded => {
                Ok(match self.later(then, ahead, true)? {
                    Built::Leaf(_) => Built::Leaf(term),
                    Built::Node(n) => Built::Node(self.shapes.intern(Shape::Prefix(event, n))),
                })
            }
            Process::InternalChoice(list) if control => {
                let list = self.context.processes.get_list(list).clone();
                let mut built = Vec::new();
                for &p in list.iter() {
                    built.push(self.later(p, ahead, false)?);
                }
                Ok(self.mixed(term, built, Shape::Internal))
            }
            Process::ExternalChoice(list) if control => {
                let list = self.context.processes.get_list(list).clone();
                let built = self.all(&list, ahead)?;
                Ok(self.mixed(term, built, Shape::External))
            }
            Process::SyncChoice(list, set) if control => {
                let list = self.context.processes.get_list(list).clone();
                let built = self.all(&list, ahead)?;
                Ok(self.mixed(term, built, |list| Shape::SyncChoice(list, set)))
            }
            Process::Sliding(p, q) if control => {
                let built = vec![self.build(p, ahead, false)?, self.later(q, ahead, guarded)?];
                Ok(self.mixed(term, built, |list| Shape::Sliding(list[0], list[1])))
            }
            Process::Interrupt(p, q) if control => {
                let built = vec![self.build(p, ahead, guarded)?, self.build(q, ahead, false)?];
                Ok(self.mixed(term, built, |list| Shape::Interrupt(list[0], list[1])))
            }
            Process::SyncInterrupt(p, set, q) if control => {
                let built = vec![self.build(p, ahead, guarded)?, self.build(q, ahead, false)?];
                Ok(self.mixed(term, built, |list| {
                    Shape::SyncInterrupt(list[0], set, list[1])
                }))
            }
            Process::Exception(p, set, q) if control => {
                let built = vec![
                    self.build(p, ahead, guarded)?,
                    self.later(q, ahead, guarded)?,
                ];
                Ok(self.mixed(term, built, |list| Shape::Exception(list[0], set, list[1])))
            }
            Process::Sequence(p, q) if control => {
                let built = vec![
                    self.build(p, ahead, guarded)?,
                    self.later(q, ahead, guarded)?,
                ];
                Ok(self.mixed(term, built, |list| Shape::Sequence(list[0], list[1])))
            }
            // A component of its own, so that the operators around it are split from it.
            Process::Compress(..)
            | Process::Prioritise(..)
            | Process::Resolve(..)
            | Process::Watchdog(..) => {
                let node = self.node(Built::Leaf(term));
                Ok(Built::Node(node))
            }
            _ => Ok(Built::Leaf(term)),
        }
    }

    fn all(&mut self, list: &[ProcId], ahead: usize) -> Result<Vec<Built>, Stop> {
        list.iter().map(|&p| self.build(p, ahead, false)).collect()
    }

    /// A node if one of the parts is one; otherwise the whole term is a leaf.
    fn mixed(
        &mut self,
        term: ProcId,
        parts: Vec<Built>,
        shape: impl FnOnce(Box<[NodeId]>) -> Shape,
    ) -> Built {
        if parts.iter().all(|part| matches!(part, Built::Leaf(_))) {
            return Built::Leaf(term);
        }
        let nodes = parts.into_iter().map(|part| self.node(part)).collect();
        Built::Node(self.shapes.intern(shape(nodes)))
    }

    fn parallel(&mut self, list: ListId, sync: Sync, ahead: usize) -> Result<Built, Stop> {
        let list = self.context.processes.get_list(list).clone();
        let mut nodes = Vec::new();
        for &p in list.iter() {
            let built = self.build(p, ahead, true)?;
            let node = self.node(built);
            // Interleaving is associative, and a flat list needs fewer copies of rules.
            match &self.shapes.nodes[node.0 as usize] {
                Shape::Parallel(inner, Sync::Nothing) if sync == Sync::Nothing => {
                    nodes.extend(inner.iter().copied());
                }
                _ => nodes.push(node),
            }
        }
        Ok(Built::Node(
            self.shapes.intern(Shape::Parallel(nodes.into(), sync)),
        ))
    }
}
