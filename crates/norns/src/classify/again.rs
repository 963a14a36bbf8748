//! The executions that show the two orders of a race: kept, and run again by `norns replay --order`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use norns_classify::{Order, Program as _};
use norns_replay::{Constraint, Disturbance, Ended, ForFailure, How, Program};
use norns_report::Finding;
use serde::{Deserialize, Serialize};

use super::program::Executions;
use super::race;
use super::variables::SavedInput;
use crate::check::inputs::private_files;
use crate::deadline::Deadline;
use crate::runs::Run;
use crate::{replay, sketch};

/// `norns replay --order`: runs the program once more with the order, and shows what it prints.
pub fn again(
    run: &Run,
    finding: &Finding,
    program: &Program,
    order: Order,
    arguments: &replay::Arguments,
) -> Result<ExitCode> {
    let id = &finding.id;
    let Ok(saved) = run.load::<SavedOrders>(&format!("{id}.orders.json")) else {
        bail!("the orders of {id} were not executed yet\n help: norns classify {id}");
    };
    let Some(how) = saved.how(order) else {
        bail!("norns classify could not make this order of {id} happen");
    };
    let (race, trace) = match race(run, id)? {
        Ok(found) => found,
        Err(reason) => bail!("{id} cannot be executed: {reason}"),
    };
    let limit = Duration::from_secs(arguments.time_limit);
    let (program, files) = match &saved.input {
        Some(input) => input.program(run, program, id)?,
        None => (program.clone(), private_files(run)),
    };
    let deadline = Deadline::after(limit);
    let mut executions = Executions::new(run, &program, &trace, limit, deadline)?;
    executions.files = files;
    if arguments.gdb {
        return sketch::again::debug(run, &program, How::ForFailure(how));
    }
    replay::repeat(arguments, finding, || {
        let executed = executions.execute(how)?;
        if arguments.times == 1 {
            print!("{}", executed.output);
        }
        let ended = executed.ended.describe();
        let failed = !matches!(executed.ended, Ended::Exited(_));
        let happened = [false, true].map(|every| race.order_in(&executed.trace, every, failed));
        Ok(match happened.contains(&Some(order)) {
            true => Ok(format!(
                "the accesses came in this order, and the program {ended}"
            )),
            false => Err(format!(
                "the accesses did not come in this order; the program {ended}"
            )),
        })
    })
}

/// The version of the form.
pub const FORMAT: u32 = 1;

/// For each order of a race, a run in which it happened.
#[derive(Serialize, Deserialize)]
pub struct SavedOrders {
    format: u32,
    orders: [Option<SavedExecution>; 2],
    /// The input with which they were made, if it is not the recorded one.
    #[serde(default)]
    input: Option<SavedInput>,
}

#[derive(Serialize, Deserialize)]
struct SavedExecution {
    seed: u64,
    stretch: u32,
    /// The text of a `Constraint`.
    constraint: Option<String>,
}

impl SavedOrders {
    pub fn of(examples: [Option<ForFailure>; 2], input: Option<SavedInput>) -> Self {
        let saved = |how: ForFailure| {
            let (seed, stretch) = match how.disturbance {
                Disturbance::Turns { seed, stretch } => (seed, stretch),
                Disturbance::Nothing | Disturbance::Delays { .. } => return None,
            };
            let constraint = how.constraint.map(|constraint| {
                let mut text = String::new();
                let _ = constraint.encode(&mut text);
                text
            });
            Some(SavedExecution {
                seed,
                stretch,
                constraint,
            })
        };
        Self {
            format: FORMAT,
            orders: examples.map(|example| example.and_then(saved)),
            input,
        }
    }

    /// The run with (1) before (2), or with (2) before (1).
    fn how(&self, order: Order) -> Option<ForFailure> {
        let saved = self.orders[order.index()].as_ref()?;
        Some(ForFailure {
            disturbance: Disturbance::Turns {
                seed: saved.seed,
                stretch: saved.stretch,
            },
            constraint: saved.constraint.as_deref().and_then(Constraint::parse),
        })
    }
}
