//! Puts modules together: declarations are bound to definitions as a linker does.

use std::collections::{BTreeMap, HashMap};

use super::module::Module;
use super::{Error, Fault};
use crate::debug::{File, FileId};
use crate::instruction::{Callee, Kind};
use crate::program::{
    Constant, ConstantId, Function, FunctionId, Global, GlobalId, Linkage, Omission, Program,
};
use crate::types::TypeId;

/// Reads modules one by one and links them to a [`Program`].
#[derive(Default)]
pub struct Linker {
    pub(super) program: Program,
    symbols: HashMap<String, Symbol>,
    files: HashMap<File, FileId>,
    /// Declarations that turned out to be other names of something.
    aliased_functions: HashMap<FunctionId, ConstantId>,
    aliased_globals: HashMap<GlobalId, ConstantId>,
    constructors: Vec<Constructor>,
    omissions: BTreeMap<(String, String), u64>,
}

struct Constructor {
    priority: u128,
    function: FunctionId,
}

#[derive(Clone, Copy)]
enum Symbol {
    Function(FunctionId, Strength),
    Global(GlobalId, Strength),
    Alias(ConstantId),
}

/// Which of two definitions of a symbol the linker takes: the stronger, and the first of equals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    Declaration,
    /// The compiler's own copy of a definition that another module has.
    Copy,
    Weak,
    Strong,
}

/// How a record says that a symbol is seen by other modules.
pub(super) struct Visibility {
    pub(super) linkage: Linkage,
    pub(super) strength: Strength,
}

impl Visibility {
    /// From the number that LLVM writes for a linkage.
    pub(super) fn new(code: u64, is_definition: bool) -> Self {
        let (linkage, strength) = match code {
            3 | 9 | 13 | 14 | 2 => (Linkage::Internal, Strength::Strong),
            1 | 4 | 8 | 10 | 11 | 16..=19 => (Linkage::Weak, Strength::Weak),
            7 => (Linkage::Weak, Strength::Declaration),
            12 => (Linkage::Weak, Strength::Copy),
            _ => (Linkage::External, Strength::Strong),
        };
        let strength = match is_definition {
            true => strength,
            false => Strength::Declaration,
        };
        Self { linkage, strength }
    }
}

/// What a module's name stands for in the program.
pub(super) enum Bound<Id> {
    /// This module's definition is the one.
    Own(Id),
    /// Another module's definition, or none.
    Other(Id),
    /// Another name of something that is not of the same kind.
    Alias(ConstantId),
}

impl Linker {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one module. After an error, what was read of it before stays in the program.
    ///
    /// # Errors
    ///
    /// If the bytes are not bitcode, or are damaged.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.program.modules.push(name.to_owned());
        Module::read(self, name, bytes)
    }

    /// The program of all modules that were added.
    #[must_use]
    pub fn finish(mut self) -> Program {
        self.bind_aliases();
        self.constructors.sort_by_key(|one| one.priority);
        self.program.constructors = self.constructors.iter().map(|one| one.function).collect();
        let omissions = std::mem::take(&mut self.omissions);
        let omissions = omissions
            .into_iter()
            .map(|((module, what), count)| Omission {
                module,
                what,
                count,
            });
        self.program.omissions.extend(omissions);
        self.program
    }

    pub(super) fn omit(&mut self, module: &str, what: impl Into<String>) {
        let key = (module.to_owned(), what.into());
        *self.omissions.entry(key).or_default() += 1;
    }

    pub(super) fn file(&mut self, file: File) -> FileId {
        if let Some(&id) = self.files.get(&file) {
            return id;
        }
        let id = FileId::from_index(self.program.files.len());
        self.program.files.push(file.clone());
        self.files.insert(file, id);
        id
    }

    pub(super) fn constant(&mut self, constant: Constant) -> ConstantId {
        self.program.constants.push(constant);
        ConstantId::from_index(self.program.constants.len() - 1)
    }

    pub(super) fn function(
        &mut self,
        name: String,
        r#type: TypeId,
        visibility: &Visibility,
    ) -> Bound<FunctionId> {
        let strength = visibility.strength;
        let known = self.known(&name, visibility);
        match known {
            Some(Symbol::Alias(target)) => return Bound::Alias(target),
            Some(Symbol::Function(id, old)) => {
                if strength <= old {
                    return Bound::Other(id);
                }
                let function = &mut self.program.functions[id.index()];
                function.r#type = r#type;
                function.linkage = visibility.linkage;
                function.blocks.clear();
                function.instructions.clear();
                function.variables.clear();
                self.symbols.insert(name, Symbol::Function(id, strength));
                return Bound::Own(id);
            }
            Some(Symbol::Global(..)) | None => {}
        }
        let id = FunctionId::from_index(self.program.functions.len());
        self.program.functions.push(Function {
            name: name.clone(),
            linkage: visibility.linkage,
            r#type,
            instructions: Vec::new(),
            blocks: Vec::new(),
            by_value: Vec::new(),
            variables: Vec::new(),
            place: None,
        });
        if visibility.linkage != Linkage::Internal && known.is_none() {
            self.symbols.insert(name, Symbol::Function(id, strength));
        }
        match strength {
            Strength::Declaration => Bound::Other(id),
            _ => Bound::Own(id),
        }
    }

    pub(super) fn global(&mut self, new: Global, visibility: &Visibility) -> Bound<GlobalId> {
        let strength = visibility.strength;
        let known = self.known(&new.name, visibility);
        match known {
            Some(Symbol::Alias(target)) => return Bound::Alias(target),
            Some(Symbol::Global(id, old)) => {
                if strength <= old {
                    return Bound::Other(id);
                }
                let symbol = Symbol::Global(id, strength);
                self.symbols.insert(new.name.clone(), symbol);
                self.program.globals[id.index()] = new;
                return Bound::Own(id);
            }
            Some(Symbol::Function(..)) | None => {}
        }
        let id = GlobalId::from_index(self.program.globals.len());
        if visibility.linkage != Linkage::Internal && known.is_none() {
            let symbol = Symbol::Global(id, strength);
            self.symbols.insert(new.name.clone(), symbol);
        }
        self.program.globals.push(new);
        match strength {
            Strength::Declaration => Bound::Other(id),
            _ => Bound::Own(id),
        }
    }

    /// Defines another name of the constant `target`.
    pub(super) fn alias(&mut self, name: String, target: ConstantId, visibility: &Visibility) {
        if name.is_empty() || visibility.linkage == Linkage::Internal {
            return;
        }
        match self.symbols.get(&name) {
            Some(&Symbol::Function(id, strength)) if strength < visibility.strength => {
                self.aliased_functions.insert(id, target);
            }
            Some(&Symbol::Global(id, strength)) if strength < visibility.strength => {
                self.aliased_globals.insert(id, target);
            }
            Some(_) => return,
            None => {}
        }
        self.symbols.insert(name, Symbol::Alias(target));
    }

    pub(super) fn constructor(&mut self, priority: u128, function: FunctionId) {
        self.constructors.push(Constructor { priority, function });
    }

    fn known(&self, name: &str, visibility: &Visibility) -> Option<Symbol> {
        match visibility.linkage {
            Linkage::Internal => None,
            _ if name.is_empty() => None,
            _ => self.symbols.get(name).copied(),
        }
    }

    /// Replaces declarations by what an alias of a later module says that they are.
    fn bind_aliases(&mut self) {
        if self.aliased_functions.is_empty() && self.aliased_globals.is_empty() {
            return;
        }
        let program = &mut self.program;
        let target = |constant: &Constant| match constant {
            Constant::Function(id) => self.aliased_functions.get(id).copied(),
            Constant::Global(id) => self.aliased_globals.get(id).copied(),
            _ => None,
        };
        for index in 0..program.constants.len() {
            if let Some(target) = target(&program.constants[index]) {
                program.constants[index] = program.constant(target).clone();
            }
        }
        let constants = &program.constants;
        for function in &mut program.functions {
            for instruction in &mut function.instructions {
                let (Kind::Call { callee, .. }
                | Kind::Invoke { callee, .. }
                | Kind::CallBranch { callee, .. }) = &mut instruction.kind
                else {
                    continue;
                };
                let Callee::Function(id) = callee else {
                    continue;
                };
                if let Some(target) = self.aliased_functions.get(id)
                    && let Constant::Function(found) = constants[target.index()]
                {
                    *callee = Callee::Function(found);
                }
            }
        }
    }
}

impl Fault {
    pub(super) fn of(self, module: &str, at: u64) -> Error {
        Error {
            module: module.to_owned(),
            at,
            fault: self,
        }
    }
}
