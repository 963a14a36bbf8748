//! What is wrong with a type, in words.

use super::decls::Checker;
use super::infer::Result;
use super::ty::{Constraint, Ty, TyId, Types};
use super::unify::Mismatch;
use crate::diagnostic::{Diagnostic, Stage};
use crate::resolve::DefId;
use crate::syntax::source::Span;

impl Checker<'_> {
    pub(super) fn show(&mut self, ty: TyId) -> String {
        let mut names = Vec::new();
        let resolved = self.resolved;
        self.types
            .show(ty, &mut names, &|def: DefId| resolved.name(def).to_owned())
    }

    /// Two types with their variables named alike.
    pub(super) fn show_two(&mut self, a: TyId, b: TyId) -> (String, String) {
        let mut names = Vec::new();
        let resolved = self.resolved;
        let datatype = |def: DefId| resolved.name(def).to_owned();
        let evaluate = |types: &mut Types, ty: TyId| types.eval_dots(ty).unwrap_or(ty);
        let a = evaluate(&mut self.types, a);
        let b = evaluate(&mut self.types, b);
        (
            self.types.show(a, &mut names, &datatype),
            self.types.show(b, &mut names, &datatype),
        )
    }

    pub(super) fn mismatch(
        &mut self,
        span: Span,
        expected: TyId,
        found: TyId,
        why: Mismatch,
    ) -> Diagnostic {
        let (wanted, seen) = self.show_two(expected, found);
        match why {
            Mismatch::Constraint(constraint, ty) => {
                let ty = self.show(ty);
                let (message, help) = constraint_words(constraint, &ty);
                Diagnostic::new(Stage::Types, span, message)
                    .label(format!("this has the type `{seen}`"))
                    .help(help)
            }
            Mismatch::Infinite => {
                Diagnostic::new(Stage::Types, span, "this type would contain itself")
                    .label(format!("`{wanted}` cannot be `{seen}`"))
            }
            Mismatch::TooDeep => {
                Diagnostic::new(Stage::Types, span, "this type is nested too deeply")
            }
            Mismatch::Types => {
                let error = Diagnostic::new(
                    Stage::Types,
                    span,
                    format!("expected `{wanted}`, found `{seen}`"),
                )
                .label(format!("this has the type `{seen}`"));
                match self.hint(expected, found) {
                    Some(help) => error.help(help),
                    None => error,
                }
            }
        }
    }

    pub(super) fn hint(&mut self, expected: TyId, found: TyId) -> Option<String> {
        let found = self.types.eval_dots(found).unwrap_or(found);
        let expected = self.types.eval_dots(expected).unwrap_or(expected);
        let (wanted, seen) = (self.types.head_ty(expected), self.types.head_ty(found));
        Some(match (wanted, seen) {
            (Ty::Proc, Ty::Event) => {
                "an event is not a process; write `event -> STOP` or `event -> P`".into()
            }
            (Ty::Proc, Ty::Dotable(..)) => {
                "a channel is not a process; write `channel!value -> P`".into()
            }
            (Ty::Proc, Ty::Function(arguments, _)) => format!(
                "this is a function of {} arguments; apply it",
                arguments.len()
            ),
            (Ty::Event | Ty::Datatype(_), Ty::Dotable(..)) => {
                let (missing, _) = self.types.reduce(found);
                let missing = self.types.dots(&missing);
                let missing = self.show(missing);
                format!("fields are missing: dot it with a `{missing}`")
            }
            (Ty::Event, Ty::Proc) => "a process stands where an event is needed".into(),
            (Ty::Event, Ty::Dot(..)) => "these values do not fit the fields of the channel".into(),
            (Ty::Set(_), Ty::Event) => "put the event in a set: `{event}`".into(),
            (Ty::Set(_), Ty::Dotable(..)) => {
                "the events of a channel are written `{|channel|}`".into()
            }
            (Ty::Set(inner), Ty::Set(other)) => {
                let (inner, other) = (self.types.head_ty(inner), self.types.head_ty(other));
                match (inner, other) {
                    (Ty::Event, Ty::Dotable(..)) => {
                        "the events of a channel are written `{|channel|}`, not `{channel}`".into()
                    }
                    _ => return None,
                }
            }
            (Ty::Seq(_), Ty::Set(_)) => "`seq(s)` turns a set into a sequence".into(),
            (Ty::Set(_), Ty::Seq(_)) => "`set(s)` turns a sequence into a set".into(),
            (Ty::Function(a, _), Ty::Function(b, _)) if a.len() != b.len() => format!(
                "the function takes {} arguments, but {} are given",
                b.len(),
                a.len()
            ),
            (Ty::Function(..), Ty::Function(..)) => return None,
            (Ty::Function(..), _) => "only functions can be applied".into(),
            _ => return None,
        })
    }

    pub(super) fn unify_at(&mut self, span: Span, expected: TyId, found: TyId) -> Result<TyId> {
        self.types
            .unify(expected, found)
            .map_err(|why| self.mismatch(span, expected, found, why))
    }

    pub(super) fn eval_dots_at(&mut self, span: Span, ty: TyId) -> Result<TyId> {
        self.types
            .eval_dots(ty)
            .map_err(|why| self.dot_error(span, ty, why))
    }

    pub(super) fn dot_error(&mut self, span: Span, ty: TyId, why: Mismatch) -> Diagnostic {
        let parts = self.types.dot_list(ty);
        let shown: Vec<String> = parts.iter().map(|&part| self.show(part)).collect();
        let error = Diagnostic::new(Stage::Types, span, "these cannot be dotted together")
            .label(format!("parts: {}", shown.join(" . ")));
        match why {
            Mismatch::Constraint(constraint, _) => {
                error.help(format!("`{}` is needed here", constraint.name()))
            }
            _ => error.help("a field has another type than its channel or constructor declares"),
        }
    }

    pub(super) fn constrain_at(
        &mut self,
        span: Span,
        constraint: Constraint,
        ty: TyId,
    ) -> Result<()> {
        self.types
            .constrain(constraint, ty)
            .map_err(|why| self.mismatch(span, ty, ty, why))
    }
}

fn constraint_words(constraint: Constraint, ty: &str) -> (String, String) {
    match constraint {
        Constraint::Eq => (
            format!("values of type `{ty}` cannot be compared for equality"),
            "processes and functions, and what contains them, have no equality".into(),
        ),
        Constraint::Ord => (
            format!("values of type `{ty}` have no order"),
            "numbers, characters, sequences (by prefix), sets (by inclusion) and tuples have one"
                .into(),
        ),
        Constraint::Complete => (
            format!("a value of type `{ty}` is not complete"),
            "all fields of the channel or constructor must be given here".into(),
        ),
        Constraint::Set => (
            format!("values of type `{ty}` cannot be in a set"),
            "functions cannot be in a set".into(),
        ),
        Constraint::Yieldable => (
            format!("`{ty}` is not a channel or constructor"),
            "`{| … |}` takes channels and constructors, perhaps with some of their fields".into(),
        ),
    }
}
