//! `norns classify ID`, and `check --classify`: what does a race do to the program?

pub mod again;
mod paths;
mod program;
mod solver;
mod variables;
mod without_lock;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use norns_classify::conclude::{self, conclude};
use norns_classify::models::{self, Models};
use norns_classify::{Found, Options, Race, Shown, Unclassified};
use norns_interpret::Input;
use norns_model::NotAnalysed;
use norns_replay::{Program, Proof};
use norns_report::kind::Group;
use norns_report::{
    Class, Consequence, Finding, Findings, Memory, Place, Status, Verdict, bug_events,
};
use serde_json::json;

use crate::check::saved;
use crate::check::witness::SavedWitness;
use crate::deadline::Deadline;
use crate::progress::Stage;
use crate::runs::{Run, Scope};
use crate::scan;
use again::SavedOrders;
use program::Executions;
use variables::Word;

#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 the race has a class, 2 Norns could not do its job.")]
pub struct Arguments {
    /// The finding's id, or its beginning; with --without-lock also the sources, or a program built with
    /// NORNS_BITCODE=1
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// With --without-lock and sources: the arguments of the program
    #[arg(last = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
    /// What if the mutex that is locked there were not? Interprets the program with and without
    #[arg(long, value_name = "FILE:LINE")]
    without_lock: Option<String>,
    #[command(flatten)]
    executions: ExecutionArguments,
    /// Seconds that the executions may take
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    budget: u64,
    /// Seconds that one execution may take; longer is an endless one
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    time_limit: u64,
    #[command(flatten)]
    scope: Scope,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// How much is executed for each race.
#[derive(Clone, clap::Args)]
pub struct ExecutionArguments {
    /// With how many schedules before a race each of its orders is executed
    #[arg(long, default_value_t = 5, value_name = "NUMBER")]
    paths: u32,
    /// How many schedules after the race each of these gets
    #[arg(long, default_value_t = 2, value_name = "NUMBER")]
    schedules: u32,
    /// Also interpret the program under this memory model: what only a weaker one than sequential
    /// consistency shows is predicted. Needs the sources, or a program built with NORNS_BITCODE=1
    #[arg(long, value_enum, default_value_t = MemoryName::Sc, value_name = "MODEL")]
    memory: MemoryName,
    /// Also look for other inputs with which the race does harm: these bytes of the input are variable.
    /// Words are stdin, argv, file:PATH and env:NAME, each with `:BYTES` or without
    #[arg(long, value_delimiter = ',', value_name = "WORDS")]
    symbolic: Vec<Word>,
    /// What must hold of the program's global variables, as an expression of C: looked at in interpreted runs
    /// where no lock is held and at the end, or only there if it begins with `end:`
    #[arg(long, value_name = "EXPRESSION")]
    invariant: Option<String>,
    /// Also interpret both orders with the recorded input, where every access to memory is checked: what a
    /// program does not notice by itself is predicted. --symbolic and --invariant do that, too
    #[arg(long)]
    interpret: bool,
}

/// A memory model, as a word of the command line.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MemoryName {
    /// Sequential consistency: interleavings
    Sc,
    /// Total store order, as x86 has it
    Tso,
    /// Reads may return any write that happens-before does not rule out
    Weak,
}

impl MemoryName {
    fn memory(self) -> Memory {
        match self {
            MemoryName::Sc => Memory::Sc,
            MemoryName::Tso => Memory::Tso,
            MemoryName::Weak => Memory::Weak,
        }
    }
}

impl ExecutionArguments {
    /// Whether interpreted runs look for more than what executions show.
    fn looks_further(&self) -> bool {
        self.interpret || !self.symbolic.is_empty() || self.invariant.is_some()
    }

    /// Whether there are interpreted runs at all.
    fn interprets(&self) -> bool {
        self.looks_further() || self.memory != MemoryName::Sc
    }

    fn options(&self) -> Options {
        Options {
            paths: self.paths,
            schedules: self.schedules,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// The class that makes `check` fail, as a word of the command line.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClassName {
    SpecViolated,
    OutputDiffers,
    SingleOrdering,
    Harmless,
}

impl ClassName {
    pub fn class(self) -> Class {
        match self {
            ClassName::SpecViolated => Class::SpecViolated,
            ClassName::OutputDiffers => Class::OutputDiffers,
            ClassName::SingleOrdering => Class::SingleOrdering,
            ClassName::Harmless => Class::Harmless,
        }
    }
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    if let Some(place) = &arguments.without_lock {
        return without_lock::run(place, &arguments);
    }
    let [id] = &arguments.ids[..] else {
        bail!(
            "one finding at a time can be classified, not {}",
            arguments.ids.len()
        );
    };
    let (run, finding) = Run::with_finding(id, arguments.scope)?;
    if finding.kind.group() != Group::Race {
        bail!(
            "{} is no race but a {}: only races have two orders",
            finding.id,
            finding.kind.definition().words
        );
    }
    norns_replay::catch_interrupts();
    let program = saved::load(&run)?;
    let mut findings = run.findings()?;
    let id = finding.id.clone();
    let holds = |one: &&mut Finding| one.with_variants().any(|variant| variant.id == id);
    let Some(found) = findings.findings.iter_mut().find(holds) else {
        bail!("run {} has no finding {id} any more", run.number);
    };
    let classifier = Classifier {
        run: &run,
        program: &program,
        arguments: &arguments.executions,
        limit: Duration::from_secs(arguments.time_limit),
        fails: fails(&findings.not_analysed),
    };
    let deadline = Deadline::after(Duration::from_secs(arguments.budget));
    let reasons = classifier.classify(&mut [found], &deadline)?;
    let Some(consequence) = found.consequence.clone() else {
        let reason = reasons.into_iter().next();
        bail!("cannot classify {}", reason.unwrap_or(id));
    };
    run.save("findings.json", &findings)?;
    match arguments.format {
        Format::Json => {
            let answer = json!({"format": again::FORMAT, "id": id, "consequence": consequence});
            println!("{}", serde_json::to_string_pretty(&answer)?);
        }
        Format::Text => {
            println!("{id}: {}", consequence.words());
            println!("  {}", consequence.sentence());
            for note in &consequence.evidence.notes {
                println!("  {note}");
            }
            println!("either order again: norns replay {id} --order 1-2 (or 2-1)");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives every race of a check that was shown its class, in the time that is left.
pub fn classify_all(
    run: &Run,
    program: &Program,
    arguments: ExecutionArguments,
    limit: Duration,
    deadline: &Deadline,
    findings: &mut Findings,
) -> Result<()> {
    let is_race = |finding: &&mut Finding| {
        let is_shown = match finding.status {
            Status::Confirmed | Status::OrderedBySpinLoop => true,
            Status::Predicted => false,
        };
        is_shown && finding.kind.group() == Group::Race
    };
    let fails = fails(&findings.not_analysed);
    let mut races: Vec<&mut Finding> = findings.findings.iter_mut().filter(is_race).collect();
    let classifier = Classifier {
        run,
        program,
        arguments: &arguments,
        limit,
        fails,
    };
    let reasons = classifier.classify(&mut races, deadline)?.into_iter();
    (findings.not_analysed).extend(reasons.map(|problem| NotAnalysed::Class { problem }));
    findings.sort_by_class();
    Ok(())
}

/// Executes the orders of the races of one run.
struct Classifier<'a> {
    run: &'a Run,
    program: &'a Program,
    arguments: &'a ExecutionArguments,
    /// For one execution.
    limit: Duration,
    /// The recorded run failed.
    fails: bool,
}

impl Classifier<'_> {
    /// Classifies findings and their variants; a finding gets the worst class of these. Returns why those
    /// without a class have none.
    fn classify(&self, findings: &mut [&mut Finding], deadline: &Deadline) -> Result<Vec<String>> {
        let mut all: Vec<(usize, Option<usize>)> = Vec::new();
        for (at, finding) in findings.iter().enumerate() {
            all.push((at, None));
            all.extend((0..finding.variants.len()).map(|variant| (at, Some(variant))));
        }
        let stage = Stage::begin("executing both orders");
        let mut reasons = Vec::new();
        let mut executed: Vec<(usize, Option<usize>, Found)> = Vec::new();
        for (done, &(at, variant)) in all.iter().enumerate() {
            stage.now(|| {
                format!(
                    "executing both orders of race {} of {}",
                    done + 1,
                    all.len()
                )
            });
            let own = &*findings[at];
            let id = variant.map_or(&own.id, |variant| &own.variants[variant].id);
            let mut share = deadline.left() / (all.len() - done) as u32;
            if self.arguments.interprets() {
                share /= 2;
            }
            let shown = shown(own, self.fails);
            match self.execute(id, shown, Deadline::after(share))? {
                Ok(found) => executed.push((at, variant, found)),
                Err(reason) => reasons.push(format!("{id}: {reason}")),
            }
        }
        drop(stage);
        let objects: Vec<Option<String>> = { executed.iter() }
            .map(|(at, _, _)| findings[*at].object.clone())
            .collect();
        let races: Vec<conclude::Race> = { executed.iter().zip(&objects) }
            .map(|((_, _, found), object)| conclude::Race {
                object: object.as_deref(),
                executions: &found.executions,
            })
            .collect();
        let folder = format!("{}/", self.run.about()?.folder.display());
        let mut interpreted =
            Interpreted::new(self.run, self.program, self.arguments.memory.memory());
        let mut left = executed.len() as u32;
        for ((at, variant, found), judged) in executed.iter().zip(conclude(&races)) {
            let share = Deadline::after(deadline.left() / left);
            left -= 1;
            let finding = &mut *findings[*at];
            let mut consequence = match judged {
                Ok(consequence) => consequence,
                Err(Unclassified(reason)) => {
                    let id = variant.map_or(&finding.id, |one| &finding.variants[one].id);
                    reasons.push(format!("{id}: {reason}"));
                    continue;
                }
            };
            for seen in &mut consequence.evidence.orders {
                seen.failure = seen.failure.as_ref().map(|what| what.replace(&folder, ""));
            }
            let own = variant.map_or(&*finding, |variant| &finding.variants[variant]);
            interpreted.add(&own.places, deadline, &mut consequence);
            if self.arguments.looks_further() && consequence.class > Class::SpecViolated {
                let searched = paths::Searched {
                    id: variant.map_or(&finding.id, |one| &finding.variants[one].id),
                    places: &own.places,
                    shown: shown(finding, self.fails),
                };
                match interpreted.read() {
                    Ok(code) => self.other_inputs(code, &searched, &share, &mut consequence)?,
                    Err(error) => {
                        let note = format!("other inputs: not looked at: {error}");
                        consequence.evidence.notes.push(note);
                    }
                }
            }
            if found.is_over {
                let note = "the time was up before all executions were made";
                consequence.evidence.notes.push(note.into());
            }
            if let Some(variant) = variant {
                finding.variants[*variant].consequence = Some(consequence.clone());
            }
            let is_worse = |known: &Consequence| consequence.class < known.class;
            if finding.consequence.as_ref().is_none_or(is_worse) || variant.is_none() {
                finding.consequence = Some(consequence);
            }
        }
        Ok(reasons)
    }

    fn execute(&self, id: &str, shown: Shown, deadline: Deadline) -> Result<Result<Found, String>> {
        let (race, trace) = match race(self.run, id)? {
            Ok(found) => found,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut executions = Executions::new(self.run, self.program, &trace, self.limit, deadline)?;
        let found =
            norns_classify::classify(&mut executions, &race, shown, self.arguments.options())?;
        let saved = SavedOrders::of(found.examples, None);
        self.run.save(&format!("{id}.orders.json"), &saved)?;
        Ok(Ok(found))
    }
}

/// The program of a run as the interpreter takes it, read when it is first needed.
struct Interpreted<'a> {
    run: &'a Run,
    program: &'a Program,
    memory: Memory,
    read: Option<Result<(norns_ir::Program, Input), String>>,
    /// What the memory model allows.
    models: Option<Result<Models, String>>,
}

impl<'a> Interpreted<'a> {
    fn new(run: &'a Run, program: &'a Program, memory: Memory) -> Self {
        Self {
            run,
            program,
            memory,
            read: None,
            models: None,
        }
    }

    /// The code and the recorded input, or why they cannot be had.
    fn read(&mut self) -> Result<(&norns_ir::Program, &Input), String> {
        let (run, program) = (self.run, self.program);
        let read = || read(run, program).map_err(|error| format!("{error:#}"));
        match self.read.get_or_insert_with(read) {
            Ok((program, input)) => Ok((program, input)),
            Err(error) => Err(error.clone()),
        }
    }

    /// Adds what the memory model lets the race of these places do.
    fn add(&mut self, places: &[Place], deadline: &Deadline, consequence: &mut Consequence) {
        let [first, second] = places else {
            return;
        };
        if self.memory == Memory::Sc || consequence.class == Class::SpecViolated {
            return;
        }
        let memory = self.memory;
        let models = self.models.take().unwrap_or_else(|| {
            let stage = Stage::begin("interpreting under the memory model");
            let until = Deadline::after(deadline.left() / 2);
            let has_time = || until.left() > Duration::ZERO;
            let explored = match self.read() {
                Ok((program, input)) => models::explore_model(program, input, memory, &has_time),
                Err(error) => Err(format!("not looked at: {error}")),
            };
            drop(stage);
            explored
        });
        let at = |place: &Place| (place.file.clone(), place.line);
        match &models {
            Ok(models) => models.add(&[at(first), at(second)], consequence),
            Err(reason) => {
                let note = format!("memory model {}: {reason}", memory.name());
                consequence.evidence.notes.push(note);
            }
        }
        self.models = Some(models);
    }
}

/// The code of the program of a run, and its input.
fn read(run: &Run, program: &Program) -> Result<(norns_ir::Program, Input)> {
    let about = run.about()?;
    let file = [PathBuf::from(&program.command[0])];
    let files = match about.sources.as_slice() {
        [] => &file[..],
        sources => sources,
    };
    let mut code = scan::read(files, &[])?;
    code.promote_locals();
    let words = program.command.iter();
    let input = Input {
        arguments: words.map(|word| word.as_bytes().to_vec()).collect(),
        standard_input: match &program.input {
            norns_replay::Input::Kept(path) | norns_replay::Input::File { path, .. } => {
                fs::read(path).with_context(|| format!("cannot read {}", path.display()))?
            }
            _ => Vec::new(),
        },
        ..Input::default()
    };
    Ok((code, input))
}

/// Whether the recorded run failed, by what was not analysed.
fn fails(not_analysed: &[NotAnalysed]) -> bool {
    not_analysed.iter().any(|reason| {
        matches!(
            reason,
            NotAnalysed::AfterTheEnd {
                is_failure: true,
                ..
            }
        )
    })
}

/// What the check has shown of a race.
fn shown(finding: &Finding, fails: bool) -> Shown {
    let stopped = Proof::BothHeld.describe();
    let by = match &finding.verdict {
        Some(Verdict::Confirmed(by) | Verdict::Observed(by)) => by.as_str(),
        _ => "",
    };
    Shown {
        is_confirmed: finding.status == Status::Confirmed,
        both_orders: by.contains(stopped),
        fails,
    }
}

/// The race of a finding, and the file of the trace that has it; or why it cannot be executed.
fn race(run: &Run, id: &str) -> Result<Result<(Race, PathBuf), String>> {
    let Ok(kept) = run.load::<SavedWitness>(&format!("{id}.witness.json")) else {
        return Ok(Err("no schedule was kept of it".into()));
    };
    let path = run.path(&kept.trace);
    let (trace, _) = norns_trace::read_understood(&path)?;
    let Some(witness) = kept.witness() else {
        return Ok(Err("its schedule is damaged".into()));
    };
    Ok(match bug_events(&trace, &witness.bug)[..] {
        [first, second] => Ok((Race::of(&trace, [first, second]), path)),
        _ => Err("it is not about two accesses".into()),
    })
}
