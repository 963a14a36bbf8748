//! `norns replay ID`: reproduces a finding.
//!
//! Exit status: 0 when it happened every time, 1 when not.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use norns_classify::Order;
use norns_model::{Bug, Witness};
use norns_replay::schedule::{self, Accesses, Way};
use norns_replay::{
    Conversation, Course, Input, Limits, Mode, Modules, Outcome, Program, Proof, Replay, Replayer,
};
use norns_report::kind::Group;
use norns_report::{Finding, Kind, Verdict};
use norns_rules::{Observed, Property};
use norns_trace::Trace;
use norns_wire::environment;

use crate::check::program::observed;
use crate::check::rules::{self, Rules};
use crate::check::witness::SavedWitness;
use crate::check::{divergence, inputs, saved};
use crate::progress::Stage;
use crate::runs::{Run, Scope};
use crate::sketch::again;
use crate::{classify, exit, runtime_library};

#[derive(clap::Args)]
pub struct Arguments {
    /// The finding's id, or its beginning
    id: String,
    /// Start gdb at the moment before it happens
    #[arg(long)]
    pub gdb: bool,
    /// The order of a race's two accesses in which to run the program, as norns classify has executed it
    #[arg(long, value_enum, value_name = "ORDER")]
    order: Option<OrderName>,
    /// How many times to replay it; the successes are counted
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub times: u32,
    /// Seconds that one run may take
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub time_limit: u64,
    #[command(flatten)]
    scope: Scope,
}

/// The first of the two numbers is that of the access which comes first.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OrderName {
    #[value(name = "1-2")]
    FirstThenSecond,
    #[value(name = "2-1")]
    SecondThenFirst,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let (run, finding) = Run::with_finding(&arguments.id, arguments.scope)?;
    let program = saved::load(&run)?;
    if let Some(order) = arguments.order {
        let order = match order {
            OrderName::FirstThenSecond => Order::FirstThenSecond,
            OrderName::SecondThenFirst => Order::SecondThenFirst,
        };
        return classify::again::again(&run, &finding, &program, order, &arguments);
    }
    if finding.kind == Kind::Failure {
        return again::run(&run, &finding, &program, &arguments);
    }
    let kept: Option<SavedWitness> = run.load(&format!("{}.witness.json", finding.id)).ok();
    let name = kept.as_ref().map_or("trace.norns", |kept| &kept.trace);
    let (mut recording, _) = norns_trace::read_recording(&run.path(name))?;
    recording.trace.understand();
    let modules = Modules::of(&recording.info);
    let trace = recording.trace;
    let witness = kept.as_ref().and_then(SavedWitness::witness);
    let way = kept
        .as_ref()
        .map_or(Way::Schedule(Accesses::Free), SavedWitness::way);
    let schedule = match &witness {
        Some(witness) => schedule::of(&trace, witness, way),
        None => schedule::of_recording(&trace),
    };
    if arguments.gdb {
        return debug(&run, &finding, &program, &schedule);
    }
    let has_no_schedule = kept.is_none() && finding.kind.group() == Group::Race;
    if finding.kind.group() == Group::Misuse || has_no_schedule {
        bail!(
            "{} needs no schedule: the recorded run did it. `norns check` records the program again; \
             `norns replay --gdb {}` runs it in the recorded order",
            finding.id,
            finding.id
        );
    }
    let replayer = Replayer {
        program: &program,
        trace: &trace,
        folder: run.path("replays"),
        limits: Limits {
            time: Duration::from_secs(arguments.time_limit),
            ..Limits::default()
        },
        pace: None,
        files: inputs::private_files(&run),
        inputs: {
            let path = run.path(name);
            let has_client = program.session.client.is_some();
            inputs::of_replays(&path, Conversation::load(&path)?, has_client)
        },
        modules,
    };
    let property = match finding.rule {
        Some(_) => Rules::load(&run)?,
        None => None,
    };
    let rule = property.as_ref().zip(finding.rule.as_deref());
    count(&arguments, &finding, &replayer, witness.as_ref(), way, rule)
}

fn count(
    arguments: &Arguments,
    finding: &Finding,
    replayer: &Replayer,
    witness: Option<&Witness>,
    way: Way,
    rule: Option<(&Property, &str)>,
) -> Result<ExitCode> {
    repeat(arguments, finding, || {
        Ok(match witness {
            Some(witness) if matches!(witness.bug, Bug::Atomicity { .. }) => {
                interleaved(replayer, witness)?
            }
            Some(witness) => {
                let replay = replayer.replay(witness, "again", way)?;
                match rule {
                    Some((property, rule)) => broken(replayer.trace, &replay, property, rule)?,
                    None => describe(replayer.trace, &replay),
                }
            }
            None => match replayer.replay_recording()?.0.deadlock {
                Some(_) => Ok(Proof::Cycle.describe().into()),
                None => Err(NOTHING_WRONG.into()),
            },
        })
    })
}

/// Makes a finding happen again as often as asked for. `once` says what showed it, or what happened instead.
pub fn repeat(
    arguments: &Arguments,
    finding: &Finding,
    mut once: impl FnMut() -> Result<Result<String, String>>,
) -> Result<ExitCode> {
    let mut shown = 0;
    let mut other = None;
    let stage = Stage::begin("replaying");
    for number in 0..arguments.times {
        stage.now(|| format!("replaying {} of {}", number + 1, arguments.times));
        match once()? {
            Ok(proof) => {
                shown += 1;
                if arguments.times == 1 {
                    println!("{}: {proof}", finding.id);
                }
            }
            Err(instead) => other = Some(instead),
        }
    }
    drop(stage);
    if let Some(other) = other {
        println!("{}: {other}", finding.id);
    }
    if shown < arguments.times && matches!(finding.verdict, Some(Verdict::Observed(_))) {
        println!(
            "{}: the recorded run had it; a replay follows what came before it there as far as the \
             program does",
            finding.id
        );
    }
    println!(
        "{}: happened {shown} of {} times",
        finding.id, arguments.times
    );
    Ok(if shown == arguments.times {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::FOUND)
    })
}

const NOTHING_WRONG: &str = "the schedule was followed and nothing wrong showed";

/// How the events of a run broke a rule, or what happened instead.
fn broken(
    trace: &Trace,
    replay: &Replay,
    property: &Property,
    rule: &str,
) -> Result<Result<String, String>> {
    let events: Vec<Observed> = { replay.report.events.iter().cloned() }
        .map(observed)
        .collect();
    let limits = rules::limits(60);
    let Some(assertion) = property.assertion(rule)? else {
        bail!("the kept property has no rule `{rule}`");
    };
    Ok(
        match property.is_broken_by(trace, assertion, &events, limits)? {
            Some(reason) => Ok(format!("the events broke the rule `{rule}`: {reason}")),
            None => describe(trace, replay),
        },
    )
}

/// What the program did with the interleaving and does not do without, or what happened instead.
fn interleaved(replayer: &Replayer, witness: &Witness) -> Result<Result<String, String>> {
    let usual = replayer.behave(Course::Recording)?;
    let seen = replayer.behave(Course::Witness(witness))?;
    Ok(match seen.difference(&[usual]) {
        _ if !seen.followed => Err("the program left the schedule".into()),
        Some(difference) => Ok(format!("in this order the program {difference}")),
        None => Err("it was interleaved, and the program behaved as otherwise".into()),
    })
}

/// The proof that it happened, or what happened instead.
fn describe(trace: &Trace, replay: &Replay) -> Result<String, String> {
    Err(match &replay.outcome {
        Outcome::Confirmed(proof) => return Ok(proof.describe().into()),
        Outcome::OrderedBySpinLoop => "a spin loop orders the two accesses".into(),
        Outcome::NoBug => NOTHING_WRONG.into(),
        Outcome::Infeasible(left) => {
            let why = divergence::of_replay(trace, &replay.report, left);
            format!("the program left the schedule: {why}")
        }
        Outcome::TimedOut => "the program did not end in time".into(),
    })
}

/// For gdb: stacks without the runtime's frames (`backtrace -no-filters` shows them).
const OWN_FRAMES_ONLY: &str = "\
import gdb

class WithoutNorns:
    name = 'without-norns'
    priority = 100
    enabled = True

    def __init__(self):
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        for frame in frames:
            library = gdb.solib_name(frame.inferior_frame().pc()) or ''
            if 'libnorns_rt' not in library:
                yield frame

WithoutNorns()
";

/// Becomes gdb, which runs the program up to the bug and prints where the threads are.
fn debug(run: &Run, finding: &Finding, program: &Program, schedule: &str) -> Result<ExitCode> {
    let path = run.path("replays").join("gdb.schedule");
    fs::write(&path, schedule).with_context(|| format!("cannot write {}", path.display()))?;
    let variables = vec![
        (environment::MODE, Mode::Replay.word().into()),
        (environment::SCHEDULE, path.into_os_string()),
        (environment::STOP, "1".into()),
        (environment::PLAN, program.plan.clone().into()),
    ];
    let moment = finding.kind.definition().moment;
    become_gdb(run, program, variables, Some(moment))
}

/// Becomes gdb, which runs the program with these variables until it stops itself at a moment, or fails, and
/// prints where the threads are.
pub fn become_gdb(
    run: &Run,
    program: &Program,
    mut variables: Vec<(&'static str, OsString)>,
    moment: Option<&str>,
) -> Result<ExitCode> {
    let gdb = OsString::from("gdb");
    runtime_library::find_program(&gdb)
        .context("gdb is not installed\n help: sudo apt-get install gdb")?;
    let mut command = Command::new(gdb);
    let mut say = |text: String| {
        command.arg("-ex").arg(text);
    };
    say("set breakpoint pending on".into());
    say("set startup-with-shell off".into());
    variables.extend(inputs::private_files(run).prepare()?);
    if let Some(runtime) = &program.preload {
        variables.push(("LD_PRELOAD", runtime.into()));
    }
    for (name, value) in variables {
        say(format!("set environment {name} {}", value.display()));
    }
    if moment.is_some() {
        say("break norns_stop_here".into());
    }
    match &program.input {
        Input::Kept(input) | Input::File { path: input, .. } => {
            say("set startup-with-shell on".into());
            say(format!("run < {}", input.display()));
        }
        _ => say("run".into()),
    }
    let filter = run.path("replays").join("gdb.py");
    fs::write(&filter, OWN_FRAMES_ONLY)
        .with_context(|| format!("cannot write {}", filter.display()))?;
    say(format!("source {}", filter.display()));
    say("thread apply all backtrace".into());
    if let Some(moment) = moment {
        say(format!("echo norns: {moment}\\n"));
    }
    let error = command
        .current_dir(&program.folder)
        .arg("--args")
        .args(&program.command)
        .exec();
    Err(error).context("cannot run gdb")
}
