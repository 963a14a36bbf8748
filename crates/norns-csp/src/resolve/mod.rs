//! Names to definitions: which binding each name of a script means.
//!
//! Modules vanish here: their declarations join those of the script, with qualified names, and
//! every instance of a module is a copy of it with its parameters bound. A name in a pattern is
//! a channel or constructor if one of that name is in scope, and a new variable otherwise.
//! Timed sections vanish too: each expression knows the section it stands in.

mod bodies;
mod declarations;
mod modules;
mod patterns;

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::builtin::{Builtin, Import};
use crate::diagnostic::Diagnostic;
use crate::syntax::ast::*;
use crate::syntax::source::Span;

type Result<T> = std::result::Result<T, Diagnostic>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DefId(pub u32);

/// One scope's worth of declarations that may use each other: the script, or one `let`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefKind {
    Builtin(Builtin),
    Function(DeclId),
    /// Bound by the pattern of a declaration.
    Value(DeclId),
    /// A parameter, or bound by a generator or an input.
    Local,
    Channel(DeclId),
    /// The n-th constructor of a datatype.
    Constructor(DeclId, u32),
    Datatype(DeclId),
    Nametype(DeclId),
    Subtype(DeclId),
}

#[derive(Clone, Debug)]
pub struct Def {
    /// Qualified, as it is shown.
    pub name: Symbol,
    pub span: Span,
    pub kind: DefKind,
    pub group: Option<GroupId>,
    /// Bound at the top level or in a module, not in a `let` or as a parameter.
    pub global: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SectionId(pub u32);

/// A timed section, `Timed(f) { … }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// The channel `tock` as the section sees it.
    pub tock: DefId,
    /// From an event to the number of tocks that pass after it; 1 for all events if absent.
    pub duration: Option<ExprId>,
}

/// A script whose names are resolved.
#[derive(Debug)]
pub struct Resolved {
    pub ast: Ast,
    pub defs: Vec<Def>,
    exprs: Vec<Option<DefId>>,
    pats: Vec<Option<DefId>>,
    types: FxHashMap<TypeId, DefId>,
    /// What each declaration binds: for a datatype its name first, then its constructors.
    pub binds: FxHashMap<DeclId, Vec<DefId>>,
    /// The declarations of the script, those of modules and instances among them.
    pub top: Vec<DeclId>,
    /// Parameterised modules, only to be type-checked: parameters and declarations.
    pub templates: Vec<(Pats, Vec<DeclId>)>,
    /// What the declarations of one group need of each other.
    pub needs: FxHashMap<DeclId, Vec<DeclId>>,
    pub annotations: FxHashMap<DefId, DeclId>,
    sections: Vec<Section>,
    section_decls: FxHashMap<DeclId, SectionId>,
    // by expression; empty if the script has no timed section
    timed: Vec<Option<SectionId>>,
}

impl Resolved {
    /// The timed section that an expression stands in.
    pub fn section(&self, id: ExprId) -> Option<&Section> {
        let section = (*self.timed.get(id.0 as usize)?)?;
        Some(&self.sections[section.0 as usize])
    }

    /// The section that a declaration of a timed section opens.
    pub fn section_of(&self, decl: DeclId) -> Option<&Section> {
        let section = self.section_decls.get(&decl)?;
        Some(&self.sections[section.0 as usize])
    }

    pub fn expr(&self, id: ExprId) -> Option<DefId> {
        self.exprs[id.0 as usize]
    }

    pub fn pat(&self, id: PatId) -> Option<DefId> {
        self.pats[id.0 as usize]
    }

    pub fn type_def(&self, id: TypeId) -> Option<DefId> {
        self.types.get(&id).copied()
    }

    pub fn def(&self, id: DefId) -> &Def {
        &self.defs[id.0 as usize]
    }

    pub fn name(&self, id: DefId) -> &str {
        self.ast.name(self.def(id).name)
    }

    /// Whether a pattern variable is a channel or constructor rather than a binder.
    pub fn is_constructor(&self, id: DefId) -> bool {
        matches!(
            self.def(id).kind,
            DefKind::Channel(_) | DefKind::Constructor(..)
        )
    }
}

/// Resolves the names of a script, or says what is wrong with them, in the order of the script.
pub fn resolve(ast: Ast) -> std::result::Result<Resolved, Vec<Diagnostic>> {
    let mut resolver = Resolver {
        ast,
        defs: Vec::new(),
        exprs: Vec::new(),
        pats: Vec::new(),
        types: FxHashMap::default(),
        binds: FxHashMap::default(),
        top: Vec::new(),
        templates: Vec::new(),
        needs: FxHashMap::default(),
        annotations: FxHashMap::default(),
        sections: Vec::new(),
        section_decls: FxHashMap::default(),
        timed: Vec::new(),
        section: None,
        timed_builtins: FxHashMap::default(),
        timed_decls: FxHashSet::default(),
        imports: FxHashMap::default(),
        scope: FxHashMap::default(),
        modules: FxHashMap::default(),
        undo: Vec::new(),
        marks: Vec::new(),
        current: Vec::new(),
        groups: 0,
        prefix: String::new(),
        copies: Vec::new(),
        errors: Vec::new(),
    };
    resolver.declare_builtins();
    if let Err(error) = resolver.script() {
        resolver.report(error);
    }
    if !resolver.errors.is_empty() {
        let mut errors = resolver.errors;
        errors.sort_by_key(|error| error.span.low);
        return Err(errors);
    }
    resolver.exprs.resize(resolver.ast.expr_count(), None);
    resolver.pats.resize(resolver.ast.pat_count(), None);
    Ok(Resolved {
        ast: resolver.ast,
        defs: resolver.defs,
        exprs: resolver.exprs,
        pats: resolver.pats,
        types: resolver.types,
        binds: resolver.binds,
        top: resolver.top,
        templates: resolver.templates,
        needs: resolver.needs,
        annotations: resolver.annotations,
        sections: resolver.sections,
        section_decls: resolver.section_decls,
        timed: resolver.timed,
    })
}

/// A module that can be instantiated.
#[derive(Clone)]
struct ModuleInfo {
    decl: DeclId,
    /// What is in scope where the module stands, if that is inside another module.
    home: Option<Rc<Home>>,
}

/// The names that a module or an instance sees beside those around it.
#[derive(Default)]
struct Home {
    names: Vec<(Symbol, DefId)>,
    modules: Vec<(Symbol, ModuleInfo)>,
}

/// An instance, as a copy of the declarations of its module.
struct Copy {
    module: DeclId,
    instance: DeclId,
    /// The numbers of the copied declarations.
    decls: std::ops::Range<u32>,
}

/// What is left to do once all names of a scope are known.
enum Body {
    /// A declaration, and the timed section that it stands in.
    Decl(DeclId, Option<SectionId>),
    /// A module or an instance: its own scope, and what is in it.
    Module {
        home: Rc<Home>,
        bodies: Vec<Body>,
        prefix: String,
        section: Option<SectionId>,
    },
    /// A parameterised module by itself.
    Template(DeclId),
}

enum Undo {
    Name(Symbol, Option<DefId>),
    Module(Symbol, Option<ModuleInfo>),
}

enum Step {
    Expr(ExprId),
    Bind(Vec<PatId>),
    Enter,
    Leave,
    StartDecl(GroupId, DeclId, Option<SectionId>),
    EndDecl,
}

struct Resolver {
    ast: Ast,
    defs: Vec<Def>,
    exprs: Vec<Option<DefId>>,
    pats: Vec<Option<DefId>>,
    types: FxHashMap<TypeId, DefId>,
    binds: FxHashMap<DeclId, Vec<DefId>>,
    top: Vec<DeclId>,
    templates: Vec<(Pats, Vec<DeclId>)>,
    needs: FxHashMap<DeclId, Vec<DeclId>>,
    annotations: FxHashMap<DefId, DeclId>,
    sections: Vec<Section>,
    section_decls: FxHashMap<DeclId, SectionId>,
    timed: Vec<Option<SectionId>>,
    // the timed section of the expressions that are being resolved
    section: Option<SectionId>,
    timed_builtins: FxHashMap<Symbol, DefId>,
    // the declarations that stand in timed sections
    timed_decls: FxHashSet<DeclId>,
    imports: FxHashMap<&'static str, (DefId, Import)>,
    scope: FxHashMap<Symbol, DefId>,
    modules: FxHashMap<Symbol, ModuleInfo>,
    undo: Vec<Undo>,
    marks: Vec<usize>,
    // the declarations that are being resolved, outermost first, each with the section around it
    current: Vec<(GroupId, DeclId, Option<SectionId>)>,
    groups: u32,
    // of the module that is being declared, with `::` at its end
    prefix: String,
    copies: Vec<Copy>,
    // in bodies, where the rest can be resolved all the same
    errors: Vec<Diagnostic>,
}

// More errors would not help.
const MAX_ERRORS: usize = 20;

const MAX_INSTANCES: usize = 2000;

impl Resolver {
    fn script(&mut self) -> Result<()> {
        let top = self.ast.top.clone();
        let group = self.new_group();
        let bodies = self.declare_all(&top, group, true)?;
        self.bodies(bodies, group)?;
        self.check_instances()
    }

    /// Remembers an error. What is wrong in several places is said of the first.
    fn report(&mut self, error: Diagnostic) {
        let known = self.errors.iter_mut().find(|e| e.message == error.message);
        if let Some(known) = known {
            if error.span.low < known.span.low {
                known.span = error.span;
            }
        } else if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    fn new_group(&mut self) -> GroupId {
        self.groups += 1;
        GroupId(self.groups - 1)
    }

    fn new_def(&mut self, name: Symbol, span: Span, kind: DefKind) -> DefId {
        self.defs.push(Def {
            name,
            span,
            kind,
            group: None,
            global: false,
        });
        DefId(self.defs.len() as u32 - 1)
    }

    fn declare_builtins(&mut self) {
        for &(builtin, name, import) in Builtin::ALL {
            let symbol = self.ast.names.intern(name);
            let def = self.new_def(symbol, Span::default(), DefKind::Builtin(builtin));
            self.defs[def.0 as usize].global = true;
            match import {
                Import::Always => {
                    self.scope.insert(symbol, def);
                }
                Import::Timed => {
                    self.timed_builtins.insert(symbol, def);
                }
                _ => {
                    self.imports.insert(name, (def, import));
                }
            }
        }
    }

    fn bind_name(&mut self, name: Symbol, def: DefId) {
        let old = self.scope.insert(name, def);
        self.undo.push(Undo::Name(name, old));
    }

    /// A module hides a definition of the same name in a scope around it.
    fn bind_module(&mut self, name: Symbol, info: ModuleInfo) {
        if let Some(hidden) = self.scope.remove(&name) {
            self.undo.push(Undo::Name(name, Some(hidden)));
        }
        let old = self.modules.insert(name, info);
        self.undo.push(Undo::Module(name, old));
    }

    fn enter(&mut self) {
        self.marks.push(self.undo.len());
    }

    fn leave(&mut self) {
        let mark = self.marks.pop().expect("every leave has its enter");
        while self.undo.len() > mark {
            match self.undo.pop().expect("longer than the mark") {
                Undo::Name(name, Some(old)) => {
                    self.scope.insert(name, old);
                }
                Undo::Name(name, None) => {
                    self.scope.remove(&name);
                }
                Undo::Module(name, Some(old)) => {
                    self.modules.insert(name, old);
                }
                Undo::Module(name, None) => {
                    self.modules.remove(&name);
                }
            }
        }
    }

    // Declarations
}

/// The declaration that a definition comes from.
pub fn declaration(kind: DefKind) -> Option<DeclId> {
    match kind {
        DefKind::Builtin(_) | DefKind::Local => None,
        DefKind::Function(decl)
        | DefKind::Value(decl)
        | DefKind::Channel(decl)
        | DefKind::Constructor(decl, _)
        | DefKind::Datatype(decl)
        | DefKind::Nametype(decl)
        | DefKind::Subtype(decl) => Some(decl),
    }
}
