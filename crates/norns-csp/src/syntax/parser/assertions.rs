//! Assertions: refinements and properties, with their model and options.

use super::{Parser, Result};
use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::*;
use crate::syntax::source::Span;
use crate::syntax::token::Tok;

/// Options of FDR that change how a check is done and not its verdict.
const SPEED_OPTIONS: &[&str] = &["symmetry reduce"];

impl Parser<'_> {
    pub(super) fn assertion(&mut self) -> Result<AssertDecl> {
        let negated = self.eat(Tok::Not);
        let process = self.expression()?;
        let property = match self.peek().clone() {
            Tok::Refines(model) => {
                self.advance();
                let model = Model::parse(&model).expect("the lexer makes only known models");
                Property::Refines(model, self.expression()?)
            }
            Tok::Property(words) => {
                let span = self.advance().span;
                self.property(&words, span)?
            }
            _ => {
                let error = self.unexpected("`[T=`, `[F=`, `[FD=` or a property");
                return Err(
                    error.help("assertions: `assert P [T= Q`, `assert P :[deadlock free [FD]]`")
                );
            }
        };
        let mut options: Vec<(ModelOption, Span)> = Vec::new();
        while let Tok::Property(words) = self.peek().clone() {
            let span = self.advance().span;
            if SPEED_OPTIONS.contains(&&*words) {
                self.speed_option(&words, span)?;
                continue;
            }
            let option = self.model_option(&words, span)?;
            let twice = options
                .iter()
                .any(|(other, _)| std::mem::discriminant(other) == std::mem::discriminant(&option));
            if twice {
                return Err(Diagnostic::new(
                    Stage::Syntax,
                    span,
                    "this option is given twice",
                ));
            }
            options.push((option, span));
        }
        Ok(AssertDecl {
            negated,
            process,
            property,
            options: options.into(),
        })
    }

    /// An option that could only make a check faster is read and left aside.
    fn speed_option(&mut self, words: &str, span: Span) -> Result<()> {
        if !matches!(self.peek(), Tok::Newline | Tok::End | Tok::Property(_)) {
            self.expression()?;
        }
        let message = format!("the option `{words}` has no effect here");
        self.warnings.push(
            Diagnostic::warning(Stage::Unsupported, span, message)
                .help("the verdict is the same; the check may take longer than in FDR"),
        );
        Ok(())
    }

    fn property(&mut self, words: &str, span: Span) -> Result<Property> {
        let (name, model) = split_model(words, span)?;
        Ok(match name {
            "deadlock free" | "deadlock-free" => Property::DeadlockFree(model),
            "livelock free" | "livelock-free" | "divergence free" | "divergence-free" => {
                Property::DivergenceFree(model)
            }
            "deterministic" => Property::Deterministic(model),
            "has trace" => {
                self.skip_newlines();
                if self.eat(Tok::EmptySeq) {
                    return Ok(Property::HasTrace(model, Exprs::default()));
                }
                if *self.peek() != Tok::Less {
                    return Err(self.unexpected("a sequence of events in `<` and `>`"));
                }
                self.advance();
                let events = self.sequence_items()?;
                Property::HasTrace(model, events)
            }
            other => {
                return Err(Diagnostic::new(
                    Stage::Syntax,
                    span,
                    format!("unknown property `{other}`"),
                )
                .help("properties: deadlock free, divergence free, deterministic, has trace"));
            }
        })
    }

    fn sequence_items(&mut self) -> Result<Exprs> {
        *self.open_seqs.last_mut().expect("never empty") += 1;
        let items = self.nest(|parser| parser.comma_list());
        *self.open_seqs.last_mut().expect("never empty") -= 1;
        let items = items?;
        self.expect(Tok::Greater, "at the end of the sequence")?;
        Ok(items.into())
    }

    fn model_option(&mut self, words: &str, span: Span) -> Result<ModelOption> {
        if matches!(words, "tau priority" | "tau priority over") {
            return Ok(ModelOption::TauPriority(self.expression()?));
        }
        let how = words
            .strip_prefix("partial order reduce")
            .map(|rest| rest.trim().trim_start_matches('[').trim_end_matches(']'));
        match how {
            Some("") => Ok(ModelOption::PartialOrderReduce(None)),
            Some(how) => Ok(ModelOption::PartialOrderReduce(Some(how.trim().into()))),
            None => Err(Diagnostic::new(
                Stage::Syntax,
                span,
                format!("unknown option `{words}`"),
            )
            .help("options: `:[partial order reduce [precise|hybrid|fast]]`, `:[tau priority over]: set`")),
        }
    }

    // Types
}

fn split_model(words: &str, span: Span) -> Result<(&str, Option<Model>)> {
    let Some((name, rest)) = words.split_once('[') else {
        return Ok((words, None));
    };
    let letters = rest.trim().trim_end_matches(']').trim();
    match Model::parse(letters) {
        Some(model) => Ok((name.trim(), Some(model))),
        None => Err(
            Diagnostic::new(Stage::Syntax, span, format!("unknown model `{letters}`"))
                .help("models: T, F, FD"),
        ),
    }
}
