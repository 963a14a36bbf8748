//! Values.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use super::set::Set;
use crate::builtin::Builtin;
use crate::process::ProcId;
use crate::resolve::DefId;
use crate::syntax::ast::{ExprId, PatId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThunkId(pub u32);

/// A value. Equality and order are those of the tree: sets must be `canonical` for them to mean
/// anything (see `set`), and sequences must be forced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    Int(i64),
    Bool(bool),
    Char(char),
    Tuple(Arc<[Value]>),
    /// A channel or constructor by itself; only as the first part of a dot.
    Head(DefId),
    Dot(Arc<[Value]>),
    Seq(Seq),
    Set(Arc<Set>),
    Map(Arc<BTreeMap<Value, Value>>),
    Process(ProcId),
    Function(Arc<Function>),
    /// Stands for a value that could not be computed, in the key of a process only.
    Opaque(u32),
}

impl Value {
    /// How many elements a collection lists.
    pub fn elements(&self) -> usize {
        match self {
            Value::Tuple(items) | Value::Dot(items) => items.len(),
            Value::Seq(seq) => seq.items().len(),
            Value::Set(set) => match &**set {
                Set::Explicit(elements) => elements.len(),
                _ => 0,
            },
            Value::Map(map) => 2 * map.len(),
            _ => 0,
        }
    }
}

/// A part of a shared sequence, and what follows it.
#[derive(Clone, Debug)]
pub struct Seq {
    items: Arc<[Value]>,
    start: u32,
    end: u32,
    pub rest: Option<ThunkId>,
}

impl Seq {
    pub fn new(items: Vec<Value>) -> Seq {
        Seq::with_rest(items, None)
    }

    pub fn with_rest(items: Vec<Value>, rest: Option<ThunkId>) -> Seq {
        Seq {
            start: 0,
            end: items.len() as u32,
            items: items.into(),
            rest,
        }
    }

    /// The items that are known.
    pub fn items(&self) -> &[Value] {
        &self.items[self.start as usize..self.end as usize]
    }

    /// The items that it shares with other sequences, and their address.
    pub fn shared(&self) -> (usize, Weak<[Value]>) {
        let address = Arc::as_ptr(&self.items).cast::<Value>() as usize;
        (address, Arc::downgrade(&self.items))
    }

    /// Without the first `front` and the last `back` known items.
    pub fn slice(&self, front: usize, back: usize) -> Seq {
        Seq {
            items: self.items.clone(),
            start: self.start + front as u32,
            end: self.end - back as u32,
            rest: self.rest,
        }
    }
}

impl PartialEq for Seq {
    fn eq(&self, other: &Seq) -> bool {
        self.items() == other.items() && self.rest == other.rest
    }
}

impl Eq for Seq {}

impl Hash for Seq {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.items().hash(state);
        self.rest.hash(state);
    }
}

impl PartialOrd for Seq {
    fn partial_cmp(&self, other: &Seq) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Seq {
    fn cmp(&self, other: &Seq) -> Ordering {
        (self.items(), self.rest).cmp(&(other.items(), other.rest))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    Named(DefId),
    Lambda(ExprId),
    Builtin(Builtin),
}

/// A function with the groups of arguments that it already has. Two functions are the same if
/// their code, arguments and captured values are.
#[derive(Clone, Debug)]
pub struct Function {
    pub code: Code,
    pub arguments: Vec<Vec<Slot>>,
    pub env: Env,
    /// Numbers the captured values; 0 if there are none.
    pub instance: u32,
    /// The arguments as values, for comparison.
    pub key: Vec<Value>,
}

impl Function {
    fn identity(&self) -> (Code, u32, &[Value]) {
        (self.code, self.instance, &self.key)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for Function {
    fn partial_cmp(&self, other: &Function) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Function {
    fn cmp(&self, other: &Function) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

/// What a variable is bound to.
#[derive(Clone, Debug)]
pub enum Slot {
    Value(Value),
    Thunk(ThunkId),
    /// A function or process of a `let`; its environment is the frame it stands in.
    Definition,
    /// A variable in a pattern that the value of this thunk is matched with.
    Part(ThunkId, PatId),
}

/// The variables of a function call, a `let` or a generator, and those around them.
#[derive(Debug)]
pub struct Frame {
    pub slots: Vec<(DefId, Slot)>,
    pub parent: Env,
    /// Of a `let`: numbers its captured values, once it was needed.
    pub instance: std::sync::OnceLock<u32>,
    pub group: Option<ExprId>,
}

pub type Env = Option<Arc<Frame>>;

pub fn frame(slots: Vec<(DefId, Slot)>, parent: &Env) -> Env {
    if slots.is_empty() {
        return parent.clone();
    }
    Some(Arc::new(Frame {
        slots,
        parent: parent.clone(),
        instance: std::sync::OnceLock::new(),
        group: None,
    }))
}
