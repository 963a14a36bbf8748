//! Types, type variables and how they are written.

use crate::resolve::DefId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TyId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Constraint {
    Eq,
    Ord,
    Complete,
    Set,
    Yieldable,
}

impl Constraint {
    pub const ALL: [Constraint; 5] = [
        Constraint::Eq,
        Constraint::Ord,
        Constraint::Complete,
        Constraint::Set,
        Constraint::Yieldable,
    ];

    pub fn bit(self) -> u8 {
        1 << self as u8
    }

    pub fn name(self) -> &'static str {
        match self {
            Constraint::Eq => "Eq",
            Constraint::Ord => "Ord",
            Constraint::Complete => "Complete",
            Constraint::Set => "Set",
            Constraint::Yieldable => "Yieldable",
        }
    }

    /// Whether a variable with the constraints `have` satisfies this one.
    pub fn implied_by(self, have: u8) -> bool {
        have & self.bit() != 0
            || match self {
                Constraint::Eq => have & Constraint::Ord.bit() != 0,
                Constraint::Set => have & (Constraint::Eq.bit() | Constraint::Ord.bit()) != 0,
                _ => false,
            }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ty {
    Var(VarId),
    Int,
    Bool,
    Char,
    Proc,
    Event,
    Datatype(DefId),
    Set(TyId),
    Seq(TyId),
    Map(TyId, TyId),
    Tuple(Box<[TyId]>),
    Function(Box<[TyId]>, TyId),
    /// `a.b`, not evaluated yet.
    Dot(TyId, TyId),
    /// `a=>b`: dotted with an `a` it is a `b`.
    Dotable(TyId, TyId),
    /// `v=>*t`: dotted with what `v` stands for, possibly nothing, it is a `t`.
    Extendable(TyId, VarId),
    /// Nothing left to dot; only as the value of the variable of an `Extendable`.
    NoMore,
}

#[derive(Clone, Debug)]
pub struct Var {
    pub value: Option<TyId>,
    pub constraints: u8,
    pub level: u32,
    /// The name of a variable that an annotation introduced; such a variable is never bound.
    pub rigid: Option<Box<str>>,
}

/// A type with the variables that may be chosen anew at each use.
#[derive(Clone, Debug)]
pub struct Scheme {
    pub variables: Vec<VarId>,
    pub body: TyId,
}

/// The arena of types, with the state of unification.
#[derive(Debug)]
pub struct Types {
    tys: Vec<Ty>,
    pub(super) vars: Vec<Var>,
    pub(super) level: u32,
    /// Whether `a.b` may be unified with an event or datatype on its right-hand side.
    pub(super) symmetric: bool,
    /// The types of the fields of each constructor of a datatype, once they are known.
    pub(super) datatypes: rustc_hash::FxHashMap<DefId, Vec<TyId>>,
    pub(super) depth: u32,
    /// Types share their parts, so a type can be far larger than the memory it takes. These
    /// tables keep every walk over a type to one visit of each part: pairs that were made equal,
    pub(super) unified: rustc_hash::FxHashMap<(TyId, TyId), TyId>,
    /// constraints that were found to hold,
    pub(super) constrained: rustc_hash::FxHashSet<(Constraint, TyId)>,
    /// and, during one evaluation of dots, what each part was evaluated to.
    pub(super) evaluated: rustc_hash::FxHashMap<TyId, TyId>,
    pub(super) evaluating: u32,
}

impl Types {
    pub const INT: TyId = TyId(0);
    pub const BOOL: TyId = TyId(1);
    pub const CHAR: TyId = TyId(2);
    pub const PROC: TyId = TyId(3);
    pub const EVENT: TyId = TyId(4);
    pub const NO_MORE: TyId = TyId(5);
    pub const EVENTS: TyId = TyId(6);

    pub fn new() -> Types {
        Types {
            tys: vec![
                Ty::Int,
                Ty::Bool,
                Ty::Char,
                Ty::Proc,
                Ty::Event,
                Ty::NoMore,
                Ty::Set(Types::EVENT),
            ],
            vars: Vec::new(),
            level: 0,
            symmetric: true,
            datatypes: Default::default(),
            depth: 0,
            unified: Default::default(),
            constrained: Default::default(),
            evaluated: Default::default(),
            evaluating: 0,
        }
    }

    pub fn add(&mut self, ty: Ty) -> TyId {
        match ty {
            Ty::Int => Types::INT,
            Ty::Bool => Types::BOOL,
            Ty::Char => Types::CHAR,
            Ty::Proc => Types::PROC,
            Ty::Event => Types::EVENT,
            Ty::NoMore => Types::NO_MORE,
            other => {
                self.tys.push(other);
                TyId(self.tys.len() as u32 - 1)
            }
        }
    }

    pub fn get(&self, ty: TyId) -> &Ty {
        &self.tys[ty.0 as usize]
    }

    pub fn set_of(&mut self, ty: TyId) -> TyId {
        if ty == Types::EVENT {
            return Types::EVENTS;
        }
        self.add(Ty::Set(ty))
    }

    pub fn seq_of(&mut self, ty: TyId) -> TyId {
        self.add(Ty::Seq(ty))
    }

    pub fn fresh_var(&mut self, constraints: u8) -> VarId {
        self.vars.push(Var {
            value: None,
            constraints,
            level: self.level,
            rigid: None,
        });
        VarId(self.vars.len() as u32 - 1)
    }

    pub fn fresh(&mut self) -> TyId {
        self.fresh_with(0)
    }

    pub fn fresh_with(&mut self, constraints: u8) -> TyId {
        let var = self.fresh_var(constraints);
        self.add(Ty::Var(var))
    }

    /// `a.b.c` from its parts; there is at least one.
    pub fn dots(&mut self, parts: &[TyId]) -> TyId {
        let mut parts = parts.iter().rev();
        let mut whole = *parts.next().expect("a dot has parts");
        for &part in parts {
            whole = self.add(Ty::Dot(part, whole));
        }
        whole
    }

    /// `a=>b=>result`.
    pub fn dotables(&mut self, arguments: &[TyId], result: TyId) -> TyId {
        let mut whole = result;
        for &argument in arguments.iter().rev() {
            whole = self.add(Ty::Dotable(argument, whole));
        }
        whole
    }

    /// The type with its outermost variable followed and its outermost extension applied.
    pub fn head(&mut self, ty: TyId) -> TyId {
        let mut ty = ty;
        loop {
            match *self.get(ty) {
                Ty::Var(var) => match self.vars[var.0 as usize].value {
                    Some(value) => ty = value,
                    None => return ty,
                },
                Ty::Extendable(base, var) => match self.vars[var.0 as usize].value {
                    None => return ty,
                    Some(value) => {
                        let value = self.head(value);
                        match *self.get(value) {
                            Ty::NoMore => ty = base,
                            Ty::Var(other) => {
                                return self.add(Ty::Extendable(base, other));
                            }
                            Ty::Dotable(argument, rest) => {
                                let rest = self.extend(base, rest);
                                return self.add(Ty::Dotable(argument, rest));
                            }
                            _ => ty = base,
                        }
                    }
                },
                _ => return ty,
            }
        }
    }

    /// The end of an extension becomes `base`.
    fn extend(&mut self, base: TyId, rest: TyId) -> TyId {
        let rest = self.head(rest);
        match *self.get(rest) {
            Ty::NoMore => base,
            Ty::Var(var) => self.add(Ty::Extendable(base, var)),
            Ty::Dotable(argument, rest) => {
                let rest = self.extend(base, rest);
                self.add(Ty::Dotable(argument, rest))
            }
            _ => base,
        }
    }

    pub fn head_ty(&mut self, ty: TyId) -> Ty {
        let ty = self.head(ty);
        self.get(ty).clone()
    }

    /// The parts of a dotted type.
    pub fn dot_list(&mut self, ty: TyId) -> Vec<TyId> {
        let mut parts = Vec::new();
        let mut left = vec![ty];
        while let Some(ty) = left.pop() {
            let ty = self.head(ty);
            match *self.get(ty) {
                Ty::Dot(a, b) => left.extend([b, a]),
                _ => parts.push(ty),
            }
        }
        parts
    }

    /// The arguments that a dotable type takes, none of them dotted, and its final result.
    pub fn reduce(&mut self, ty: TyId) -> (Vec<TyId>, TyId) {
        let mut arguments = Vec::new();
        let mut ty = self.head(ty);
        while let Ty::Dotable(argument, rest) = *self.get(ty) {
            arguments.extend(self.dot_list(argument));
            ty = self.head(rest);
        }
        (arguments, ty)
    }

    /// The type as a person reads it; variables are named in the order of `names`.
    pub fn show(
        &mut self,
        ty: TyId,
        names: &mut Vec<VarId>,
        datatype: &dyn Fn(DefId) -> String,
    ) -> String {
        let mut out = String::new();
        self.write(ty, 0, names, datatype, &mut out);
        out
    }

    fn var_name(&self, var: VarId, names: &mut Vec<VarId>) -> String {
        if let Some(name) = &self.vars[var.0 as usize].rigid {
            return name.to_string();
        }
        let index = match names.iter().position(|&other| other == var) {
            Some(index) => index,
            None => {
                names.push(var);
                names.len() - 1
            }
        };
        let letter = char::from(b'a' + (index % 26) as u8);
        match index / 26 {
            0 => letter.to_string(),
            round => format!("{letter}{round}"),
        }
    }

    fn write(
        &mut self,
        ty: TyId,
        least: u8,
        names: &mut Vec<VarId>,
        datatype: &dyn Fn(DefId) -> String,
        out: &mut String,
    ) {
        if out.len() > 400 {
            out.push('…');
            return;
        }
        let ty = self.head_ty(ty);
        let level = match ty {
            Ty::Dotable(..) | Ty::Extendable(..) | Ty::Function(..) => 0,
            Ty::Dot(..) => 1,
            _ => 2,
        };
        if level < least {
            out.push('(');
        }
        match ty {
            Ty::Var(var) => out.push_str(&self.var_name(var, names)),
            Ty::Int => out.push_str("Int"),
            Ty::Bool => out.push_str("Bool"),
            Ty::Char => out.push_str("Char"),
            Ty::Proc => out.push_str("Proc"),
            Ty::Event => out.push_str("Event"),
            Ty::Datatype(def) => out.push_str(&datatype(def)),
            Ty::Set(inner) => {
                out.push('{');
                self.write(inner, 0, names, datatype, out);
                out.push('}');
            }
            Ty::Seq(inner) => {
                out.push('<');
                self.write(inner, 0, names, datatype, out);
                out.push('>');
            }
            Ty::Map(key, value) => {
                out.push_str("(| ");
                self.write(key, 1, names, datatype, out);
                out.push_str(" => ");
                self.write(value, 0, names, datatype, out);
                out.push_str(" |)");
            }
            Ty::Tuple(items) => {
                out.push('(');
                self.write_all(&items, names, datatype, out);
                out.push(')');
            }
            Ty::Function(arguments, result) => {
                out.push('(');
                self.write_all(&arguments, names, datatype, out);
                out.push_str(") -> ");
                self.write(result, 0, names, datatype, out);
            }
            Ty::Dot(left, right) => {
                self.write(left, 2, names, datatype, out);
                out.push('.');
                self.write(right, 1, names, datatype, out);
            }
            Ty::Dotable(argument, result) => {
                self.write(argument, 1, names, datatype, out);
                out.push_str("=>");
                self.write(result, 0, names, datatype, out);
            }
            Ty::Extendable(base, var) => {
                out.push_str(&self.var_name(var, names));
                out.push_str("=>*");
                self.write(base, 0, names, datatype, out);
            }
            Ty::NoMore => out.push_str("()"),
        }
        if level < least {
            out.push(')');
        }
    }

    fn write_all(
        &mut self,
        items: &[TyId],
        names: &mut Vec<VarId>,
        datatype: &dyn Fn(DefId) -> String,
        out: &mut String,
    ) {
        for (index, &item) in items.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            self.write(item, 0, names, datatype, out);
        }
    }
}

impl Default for Types {
    fn default() -> Types {
        Types::new()
    }
}
