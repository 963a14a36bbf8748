//! What is wrong with a script, where, and what would help.

use std::fmt::Write as _;

use crate::syntax::source::{SourceMap, Span};

/// The stage that refused a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Read,
    Syntax,
    Names,
    Types,
    Evaluation,
    /// The budget ended while a value was computed.
    Budget,
    /// Correct CSPM that this checker does not do.
    Unsupported,
}

/// Whether a script is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    /// The script is checked all the same.
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    pub stage: Stage,
    pub message: String,
    pub span: Span,
    /// Stands next to the carets.
    pub label: String,
    /// Other places that matter, each with its own words.
    pub related: Vec<(Span, String)>,
    pub help: Vec<String>,
}

impl Diagnostic {
    pub fn new(stage: Stage, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            stage,
            message: message.into(),
            span,
            label: String::new(),
            related: Vec::new(),
            help: Vec::new(),
        }
    }

    /// Something that a person should know, although the script is fine.
    pub fn warning(stage: Stage, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::new(stage, span, message)
        }
    }

    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    pub fn related(mut self, span: Span, words: impl Into<String>) -> Diagnostic {
        self.related.push((span, words.into()));
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help.push(help.into());
        self
    }

    /// The diagnostic as text for a terminal, source lines included.
    pub fn render(&self, sources: &SourceMap) -> String {
        let mut out = String::new();
        let word = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let _ = writeln!(out, "{word}: {}", self.message);
        sources.render(&mut out, self.span, &self.label);
        for (span, words) in &self.related {
            let _ = writeln!(out, "note: {words}");
            sources.render(&mut out, *span, "");
        }
        for help in &self.help {
            let _ = writeln!(out, "help: {help}");
        }
        out
    }
}
