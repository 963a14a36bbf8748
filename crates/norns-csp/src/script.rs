//! A script from its text to the verdicts on its assertions.
//!
//! Loading and checking run on a thread of their own with a large stack: evaluation recurses as
//! deeply as the functions of the script do (`eval::MAX_DEPTH`).

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Stage};
use crate::engine::check::{Checker, Model, Options, Question, Statistics, Verdict};
use crate::engine::counterexample::Counterexample;
use crate::eval::{Evaluator, Limits};
use crate::process::{CallId, Definitions, ProcId, Processes, UnfoldError};
use crate::resolve::Resolved;
use crate::syntax::ast::{self, AssertDecl, Ast, Decl, DeclId, ExprId, ModelOption, Property};
use crate::syntax::lexer::Includes;
use crate::syntax::source::{SourceMap, Span};
use crate::syntax::{parser, print};
use crate::types;
use crate::{Budget, CheckError, Progress, Reduction};

/// Enough for `eval::MAX_DEPTH` in an unoptimised build. Only what is used is ever resident.
const STACK: usize = 1 << 30;

/// What is wrong with a script, with the sources it speaks of.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", self.render())]
pub struct ScriptError {
    pub diagnostics: Vec<Diagnostic>,
    pub sources: Arc<SourceMap>,
}

impl ScriptError {
    /// All messages with their source lines.
    pub fn render(&self) -> String {
        let all: Vec<String> = self
            .diagnostics
            .iter()
            .map(|diagnostic| diagnostic.render(&self.sources))
            .collect();
        all.join("\n")
    }
}

/// One `assert` of a script.
#[derive(Clone, Debug)]
pub struct Assertion {
    pub line: u32,
    /// As the script writes it, on one line.
    pub text: String,
    pub negated: bool,
    decl: DeclId,
}

/// What became of an assertion, `not` applied.
#[derive(Clone, Debug)]
pub enum Answer {
    Holds,
    /// A negated assertion fails without a counterexample: what it denies holds.
    Fails(Option<Box<Counterexample>>),
    Undecided(String),
}

/// The value of one `print`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    pub line: u32,
    pub expression: String,
    pub value: String,
}

/// A script that is parsed, resolved and type-checked.
pub struct Script {
    pub sources: Arc<SourceMap>,
    /// What is odd about the script, but does not keep it from being checked.
    pub warnings: Vec<Diagnostic>,
    pub assertions: Vec<Assertion>,
    prints: Vec<(u32, ExprId)>,
    evaluator: Evaluator,
    pub processes: Processes,
    // Processes that a caller puts in the place of definitions.
    given: Vec<(String, ProcId)>,
    checker: Checker,
}

/// The definitions of a script, some of them replaced.
struct Given<'a> {
    evaluator: &'a mut Evaluator,
    given: &'a [(String, ProcId)],
}

impl Definitions for Given<'_> {
    fn unfold(&mut self, call: CallId, processes: &mut Processes) -> Result<ProcId, UnfoldError> {
        if !self.given.is_empty()
            && let Some(name) = self.evaluator.name(call)
            && let Some((_, process)) = self.given.iter().find(|(given, _)| *given == name)
        {
            return Ok(*process);
        }
        self.evaluator.unfold(call, processes)
    }

    fn name(&self, call: CallId) -> Option<String> {
        self.evaluator.name(call)
    }

    fn bytes(&self) -> u64 {
        self.evaluator.bytes()
    }
}

/// Runs `work` where it may recurse deeply.
pub fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("csp".into())
            .stack_size(STACK)
            .spawn_scoped(scope, work)
            .expect("a thread with a stack of 1 GB of address space can be started")
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Only the tree of a script. Recurses as deeply as brackets nest (`parser::MAX_NESTING`): call
/// it `on_large_stack` for scripts from outside.
pub fn parse(
    name: &str,
    text: &str,
    includes: Includes,
) -> Result<(Ast, Arc<SourceMap>), ScriptError> {
    let mut sources = SourceMap::default();
    match parser::parse(name, text, &mut sources, includes) {
        Ok(parsed) => Ok((parsed.ast, Arc::new(sources))),
        Err(diagnostics) => Err(ScriptError {
            diagnostics,
            sources: Arc::new(sources),
        }),
    }
}

/// Refuses all includes.
pub fn no_includes(_: &str, _: &str) -> Result<(String, String), String> {
    Err("this script is not in a file".into())
}

/// Gives the text of an included file: the path as written, and the name of the file it is
/// written in. Returns the name to show and the text.
pub type IncludedFile = dyn FnMut(&str, &str) -> Result<(String, String), String> + Send;

/// The types of all top-level definitions, in the order of the script: name and type.
pub fn type_list(
    name: &str,
    text: &str,
    includes: &mut IncludedFile,
) -> Result<Vec<(String, String)>, ScriptError> {
    on_large_stack(|| {
        let Front {
            resolved,
            mut typed,
            ..
        } = front(name, text, includes)?;
        let mut list = Vec::new();
        for decl in &resolved.top {
            for &def in resolved.binds.get(decl).into_iter().flatten() {
                if let Some(shown) = typed.show(def, &resolved) {
                    list.push((resolved.name(def).to_owned(), shown));
                }
            }
        }
        Ok(list)
    })
}

/// A script after parsing, name resolution and type checking.
pub(crate) struct Front {
    pub resolved: Resolved,
    pub typed: types::Typed,
    pub sources: Arc<SourceMap>,
    pub warnings: Vec<Diagnostic>,
}

pub(crate) fn front(name: &str, text: &str, includes: Includes) -> Result<Front, ScriptError> {
    let mut sources = SourceMap::default();
    let parsed = parser::parse(name, text, &mut sources, includes);
    let sources = Arc::new(sources);
    let failed = |diagnostics| ScriptError {
        diagnostics,
        sources: sources.clone(),
    };
    let parsed = parsed.map_err(&failed)?;
    let resolved = crate::resolve::resolve(parsed.ast).map_err(&failed)?;
    let typed = types::check(&resolved).map_err(&failed)?;
    Ok(Front {
        resolved,
        typed,
        sources,
        warnings: parsed.warnings,
    })
}

impl Script {
    /// Reads and checks a script; included files come from `includes`.
    pub fn load(
        name: &str,
        text: &str,
        includes: &mut IncludedFile,
    ) -> Result<Script, ScriptError> {
        on_large_stack(|| Script::load_here(name, text, includes))
    }

    fn load_here(name: &str, text: &str, includes: Includes) -> Result<Script, ScriptError> {
        let Front {
            resolved,
            typed,
            sources,
            warnings,
        } = front(name, text, includes)?;
        let mut assertions = Vec::new();
        let mut prints = Vec::new();
        let ast = &resolved.ast;
        let mut left: Vec<DeclId> = ast.top.iter().rev().copied().collect();
        while let Some(decl) = left.pop() {
            let span = ast.decl_span(decl);
            match ast.decl(decl) {
                Decl::Timed { decls, .. } => left.extend(decls.iter().rev()),
                Decl::Assert(assert) => assertions.push(Assertion {
                    line: sources.line(span.low),
                    text: one_line(sources.text(span)),
                    negated: assert.negated,
                    decl,
                }),
                Decl::Print(value) => prints.push((sources.line(span.low), *value)),
                _ => {}
            }
        }
        Ok(Script {
            sources,
            warnings,
            assertions,
            prints,
            evaluator: Evaluator::new(resolved, typed),
            processes: Processes::new(),
            given: Vec::new(),
            checker: Checker::default(),
        })
    }

    /// The values of all `print` statements in order, each with its own error.
    pub fn prints(&mut self) -> Vec<Result<Printed, ScriptError>> {
        on_large_stack(|| {
            let mut all = Vec::new();
            for (line, id) in self.prints.clone() {
                let expression = print::expression(&self.evaluator.resolved().ast, id, 200);
                let value = self.evaluator.text_of(id, &mut self.processes);
                all.push(match value {
                    Ok(value) => Ok(Printed {
                        line,
                        expression,
                        value,
                    }),
                    Err(error) => Err(self.failed(*error)),
                });
            }
            all
        })
    }

    /// Puts a process, built from values in `self.processes`, in the place of the definition of
    /// that name (`PROGRAM`, or `THREAD(1)` for one call of a function), so that a property in
    /// text can speak of it. To be called before the first check.
    pub fn give(&mut self, name: &str, process: ProcId) {
        self.given.push((name.to_owned(), process));
    }

    /// Limits the values of `print` statements; assertions have the budget of their options.
    pub fn limit(&mut self, budget: &Budget) {
        self.evaluator.limits = limits(budget);
    }

    /// Checks one assertion, with all the counterexamples that the options ask for beyond the
    /// first. `not` is applied to the verdict.
    pub fn check_several(
        &mut self,
        assertion: usize,
        options: &Options,
        progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<(Answer, Vec<Counterexample>, Statistics), ScriptError> {
        on_large_stack(|| self.check_here(assertion, options, progress))
    }

    /// Checks one assertion. `not` is applied to the verdict.
    pub fn check(
        &mut self,
        assertion: usize,
        options: &Options,
        progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<(Answer, Statistics), ScriptError> {
        let (answer, _, statistics) = self.check_several(assertion, options, progress)?;
        Ok((answer, statistics))
    }

    fn check_here(
        &mut self,
        index: usize,
        options: &Options,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<(Answer, Vec<Counterexample>, Statistics), ScriptError> {
        self.evaluator.limits = limits(&options.budget);
        match self.check_within(index, options, progress) {
            Err(error) if error.diagnostics.iter().all(|d| d.stage == Stage::Budget) => {
                let why: Vec<&str> = error.diagnostics.iter().map(|d| &d.message[..]).collect();
                let answer = Answer::Undecided(why.join("; "));
                Ok((answer, Vec::new(), Statistics::default()))
            }
            other => other,
        }
    }

    fn check_within(
        &mut self,
        index: usize,
        options: &Options,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<(Answer, Vec<Counterexample>, Statistics), ScriptError> {
        let (question, options) = self.question(index, options)?;
        self.evaluator.last_error = None;
        let outcome = self.checker.check(
            &mut self.processes,
            &mut Given {
                evaluator: &mut self.evaluator,
                given: &self.given,
            },
            &question,
            &options,
            progress,
        );
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => return Err(self.check_error(index, error)),
        };
        let answer = match (outcome.verdict, self.assertions[index].negated) {
            (Verdict::Holds, false) | (Verdict::Fails(_), true) => Answer::Holds,
            (Verdict::Holds, true) => Answer::Fails(None),
            (Verdict::Fails(counterexample), false) => Answer::Fails(Some(counterexample)),
            (Verdict::Undecided(reason), _) => Answer::Undecided(reason),
        };
        Ok((answer, outcome.more, outcome.statistics))
    }

    /// The process terms and options of an assertion.
    pub fn question(
        &mut self,
        index: usize,
        options: &Options,
    ) -> Result<(Question, Options), ScriptError> {
        let decl = self.assertions[index].decl;
        let Decl::Assert(assert) = self.evaluator.resolved().ast.decl(decl).clone() else {
            unreachable!("assertions are assert declarations");
        };
        let span = self.evaluator.resolved().ast.decl_span(decl);
        let mut options = options.clone();
        for (option, at) in &assert.options {
            match option {
                ModelOption::PartialOrderReduce(how) => {
                    options.reduction = match how.as_deref() {
                        None | Some("precise") => Reduction::Precise,
                        Some("hybrid") => Reduction::Hybrid,
                        Some("fast") => Reduction::Fast,
                        Some(other) => {
                            let message = format!("unknown partial order reduction `{other}`");
                            return Err(self.failed(
                                Diagnostic::new(Stage::Unsupported, *at, message)
                                    .help("reductions: precise, hybrid, fast"),
                            ));
                        }
                    };
                }
                ModelOption::TauPriority(set) => {
                    let events = self.evaluator.events_of(*set, &mut self.processes);
                    options.tau_priority = Some(events.map_err(|error| self.failed(*error))?);
                }
            }
        }
        let question = self.question_of(&assert, span)?;
        Ok((question, options))
    }

    fn question_of(&mut self, assert: &AssertDecl, span: Span) -> Result<Question, ScriptError> {
        // The models are looked at first: they are refused without any evaluation.
        let model = match &assert.property {
            Property::Refines(model, _) => engine_model(*model),
            Property::DeadlockFree(model) | Property::Deterministic(model) => {
                let model = model.map_or(Model::FailuresDivergences, engine_model);
                if model == Model::Traces {
                    return Err(self.failed(
                        Diagnostic::new(
                            Stage::Unsupported,
                            span,
                            "the traces model cannot see this property",
                        )
                        .help("use [F] or [FD]"),
                    ));
                }
                model
            }
            Property::DivergenceFree(_) => Model::FailuresDivergences,
            Property::HasTrace(model, _) => model.map_or(Model::Traces, engine_model),
        };
        let process = self.process_of(assert.process)?;
        Ok(match &assert.property {
            Property::Refines(_, implementation) => Question::Refines {
                model,
                spec: process,
                implementation: self.process_of(*implementation)?,
            },
            Property::DeadlockFree(_) => Question::DeadlockFree { model, process },
            Property::DivergenceFree(_) => Question::DivergenceFree { process },
            Property::Deterministic(_) => Question::Deterministic { model, process },
            Property::HasTrace(_, events) => {
                let mut trace = Vec::with_capacity(events.len());
                for &event in events {
                    let event = self.evaluator.event_of(event, &mut self.processes);
                    trace.push(event.map_err(|error| self.failed(*error))?);
                }
                Question::HasTrace {
                    model,
                    process,
                    trace,
                }
            }
        })
    }

    fn process_of(&mut self, id: ExprId) -> Result<ProcId, ScriptError> {
        self.evaluator
            .process_of(id, &mut self.processes)
            .map_err(|error| self.failed(*error))
    }

    fn failed(&self, diagnostic: Diagnostic) -> ScriptError {
        ScriptError {
            diagnostics: vec![diagnostic],
            sources: self.sources.clone(),
        }
    }

    fn check_error(&mut self, index: usize, error: CheckError) -> ScriptError {
        if let CheckError::Unfold(_) = error
            && let Some(inner) = self.evaluator.last_error.take()
        {
            return self.failed(*inner);
        }
        let decl = self.assertions[index].decl;
        let span = self.evaluator.resolved().ast.decl_span(decl);
        let stage = match error {
            CheckError::Unsupported(_) => Stage::Unsupported,
            _ => Stage::Evaluation,
        };
        let mut diagnostic = Diagnostic::new(stage, span, error.to_string());
        if let CheckError::Unguarded(_) = error {
            diagnostic = diagnostic.help(
                "put an event before the recursion: `P = a -> P`, not `P = P` or `P = P [] Q`",
            );
        }
        self.failed(diagnostic)
    }
}

fn one_line(text: &str) -> String {
    let without_comments: Vec<&str> = text
        .lines()
        .map(|line| line.split("--").next().unwrap_or(""))
        .collect();
    let joined = without_comments.join(" ");
    joined.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn engine_model(model: ast::Model) -> Model {
    match model {
        ast::Model::Traces => Model::Traces,
        ast::Model::Failures => Model::Failures,
        ast::Model::FailuresDivergences => Model::FailuresDivergences,
        ast::Model::Revivals => Model::Revivals,
        ast::Model::RevivalsDivergences => Model::RevivalsDivergences,
        ast::Model::Refusals => Model::RefusalTesting,
        ast::Model::RefusalsDivergences => Model::RefusalTestingDivergences,
    }
}

/// What the budget of a check leaves to evaluating its values.
fn limits(budget: &Budget) -> Limits {
    // A value and its place in a set or sequence.
    const BYTES_PER_ELEMENT: u64 = 64;
    Limits {
        elements: budget.bytes.map_or(Limits::default().elements, |bytes| {
            usize::try_from(bytes / BYTES_PER_ELEMENT).unwrap_or(usize::MAX)
        }),
        bytes: budget.bytes,
        until: budget
            .time
            .and_then(|time| std::time::Instant::now().checked_add(time)),
    }
}
