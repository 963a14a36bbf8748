//! Type annotations: from what is written to types.

use super::decls::Checker;
use super::infer::Result;
use super::ty::{Constraint, Ty, TyId, Types};
use crate::diagnostic::{Diagnostic, Stage};
use crate::resolve::{DefId, DefKind};
use crate::syntax::ast::*;
use crate::syntax::source::Span;

impl Checker<'_> {
    pub(super) fn annotation(&mut self, def: DefId) -> Result<Option<TyId>> {
        let Some(&decl) = self.resolved.annotations.get(&def) else {
            return Ok(None);
        };
        let Decl::Annotation(_, scheme) = self.ast.decl(decl) else {
            unreachable!("annotations are annotation declarations");
        };
        self.check_constraints(scheme)?;
        self.annotated_type(scheme.body, &scheme.constraints)
            .map(Some)
    }

    /// A constraint speaks of a variable that the annotation itself introduces.
    pub(super) fn check_constraints(&mut self, scheme: &Scheme) -> Result<()> {
        for &(class, variable, span) in &scheme.constraints {
            let (class, name) = (self.ast.name(class), self.ast.name(variable));
            let refuse = |message: String, help: &str| {
                Err(Diagnostic::new(Stage::Types, span, message).help(help))
            };
            if self.type_variables.contains_key(&variable) {
                return refuse(
                    format!("`{class} {name}` constrains a type variable of the definition around"),
                    "put the constraint into the annotation that introduces the variable",
                );
            }
            if !self.mentions(scheme.body, variable) {
                return refuse(
                    format!("`{class} {name}`: the type has no variable `{name}`"),
                    "a constraint speaks of a type variable of the annotated type",
                );
            }
        }
        Ok(())
    }

    /// Whether a type variable of that name is in an annotated type.
    pub(super) fn mentions(&self, id: TypeId, variable: Symbol) -> bool {
        let mut left = vec![id];
        while let Some(id) = left.pop() {
            match self.ast.type_expr(id) {
                TypeExpr::Name(name) => {
                    if *name == variable && !self.names_type(id, *name) {
                        return true;
                    }
                }
                TypeExpr::Extendable(name, result) => {
                    if *name == variable {
                        return true;
                    }
                    left.push(*result);
                }
                TypeExpr::Set(inner) | TypeExpr::Seq(inner) => left.push(*inner),
                TypeExpr::Map(a, b) | TypeExpr::Dot(a, b) | TypeExpr::Dotable(a, b) => {
                    left.extend([*a, *b]);
                }
                TypeExpr::Tuple(items) => left.extend(items.iter()),
                TypeExpr::Function(arguments, result) => {
                    left.extend(arguments.iter());
                    left.push(*result);
                }
            }
        }
        false
    }

    /// Whether a name in an annotation is that of a type, not of a variable.
    pub(super) fn names_type(&self, id: TypeId, name: Symbol) -> bool {
        let is_datatype = self
            .resolved
            .type_def(id)
            .is_some_and(|def| matches!(self.resolved.def(def).kind, DefKind::Datatype(_)));
        is_datatype || starts_like_a_type(self.ast.name(name))
    }

    pub(super) fn annotated_type(
        &mut self,
        id: TypeId,
        constraints: &[(Symbol, Symbol, Span)],
    ) -> Result<TyId> {
        let ast = self.ast;
        let node = match ast.type_expr(id) {
            TypeExpr::Name(name) => {
                let text = ast.name(*name);
                if let Some(def) = self.resolved.type_def(id)
                    && let DefKind::Datatype(_) = self.resolved.def(def).kind
                {
                    return Ok(self.types.add(Ty::Datatype(def)));
                }
                match text {
                    "Int" => return Ok(Types::INT),
                    "Bool" => return Ok(Types::BOOL),
                    "Char" => return Ok(Types::CHAR),
                    "Proc" => return Ok(Types::PROC),
                    "Event" => return Ok(Types::EVENT),
                    _ => {}
                }
                if starts_like_a_type(text) {
                    return Err(Diagnostic::new(
                        Stage::Types,
                        ast.type_span(id),
                        format!("unknown type `{text}`"),
                    )
                    .help("types: Int, Bool, Char, Proc, Event, a datatype; type variables are lower case"));
                }
                return Ok(self.type_variable(*name, constraints));
            }
            TypeExpr::Set(inner) => Ty::Set(self.annotated_type(*inner, constraints)?),
            TypeExpr::Seq(inner) => Ty::Seq(self.annotated_type(*inner, constraints)?),
            TypeExpr::Map(key, value) => Ty::Map(
                self.annotated_type(*key, constraints)?,
                self.annotated_type(*value, constraints)?,
            ),
            TypeExpr::Tuple(items) => {
                let mut types = Vec::new();
                for &item in items {
                    types.push(self.annotated_type(item, constraints)?);
                }
                Ty::Tuple(types.into())
            }
            TypeExpr::Dot(left, right) => Ty::Dot(
                self.annotated_type(*left, constraints)?,
                self.annotated_type(*right, constraints)?,
            ),
            TypeExpr::Dotable(left, right) => Ty::Dotable(
                self.annotated_type(*left, constraints)?,
                self.annotated_type(*right, constraints)?,
            ),
            TypeExpr::Extendable(variable, result) => {
                if starts_like_a_type(ast.name(*variable)) {
                    return Err(Diagnostic::new(
                        Stage::Types,
                        ast.type_span(id),
                        "a type variable must stand before `=>*`",
                    )
                    .help("`a =>* Event` is the type of an event or of a channel whose fields are `a`"));
                }
                let variable = self.type_variable(*variable, constraints);
                let result = self.annotated_type(*result, constraints)?;
                let Ty::Var(var) = *self.types.get(variable) else {
                    unreachable!("type variables are variables");
                };
                Ty::Extendable(result, var)
            }
            TypeExpr::Function(arguments, result) => {
                let mut types = Vec::new();
                for &argument in arguments {
                    types.push(self.annotated_type(argument, constraints)?);
                }
                Ty::Function(types.into(), self.annotated_type(*result, constraints)?)
            }
        };
        Ok(self.types.add(node))
    }

    pub(super) fn type_variable(
        &mut self,
        name: Symbol,
        constraints: &[(Symbol, Symbol, Span)],
    ) -> TyId {
        if let Some(&ty) = self.type_variables.get(&name) {
            return ty;
        }
        let mut bits = 0;
        for (class, variable, _) in constraints {
            if *variable == name {
                let class = self.ast.name(*class);
                bits |= Constraint::ALL
                    .iter()
                    .find(|constraint| constraint.name() == class)
                    .map_or(0, |constraint| constraint.bit());
            }
        }
        let var = self.types.fresh_var(bits);
        self.types.vars[var.0 as usize].rigid = Some(self.ast.name(name).into());
        let ty = self.types.add(Ty::Var(var));
        self.type_variables.insert(name, ty);
        ty
    }
}

/// Type variables are lower case; every other name is that of a type.
fn starts_like_a_type(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase()) || name.contains("::")
}
