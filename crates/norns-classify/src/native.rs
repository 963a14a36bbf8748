//! Executions of both orders of a race: Algorithm 2 of Kasikci (2015), with other schedules before and
//! after the race as in section 5.6.
//!
//! Both accesses' places are known from the recorded run. Each execution asks for one order; before and
//! after the two accesses a seed decides which thread runs. An order that was asked for a few times and
//! never came is given up. Where the orders differ in what they print, as many executions again must
//! bear it out: a rare outcome of one order is then often seen in the other as well.

use std::collections::BTreeSet;
use std::time::Duration;

use norns_replay::{Disturbance, Ended, ForFailure};
use norns_report::Class;
use norns_sketch::failure::{self, Signs};
use norns_trace::Trace;

use crate::judge::{Execution, Executions, IN_VAIN, Shown};
use crate::race::{Order, Race};

/// After so many executions of one order that did not end the order is not executed again.
const ENDLESS: usize = 2;
/// About how often threads lose their turn in an execution.
const SWITCHES: [u32; 4] = [4, 16, 2, 64];
/// A time-out says that the program does not end only if it was so many times as long as what an execution
/// takes that ends by itself (section 5.10).
const LONGER: u32 = 5;
/// How many accesses an execution is taken to have before one has been seen.
const ACCESSES: u32 = 256;

/// A program that can be executed many times.
pub trait Program {
    type Error;

    /// One run; the same `how` leads to the same run, as far as the program allows it.
    fn execute(&mut self, how: ForFailure) -> Result<Executed, Self::Error>;

    /// Whether there is time for another run.
    fn has_time(&self) -> bool;
}

/// A run as it was seen.
pub struct Executed {
    pub ended: Ended,
    pub output: String,
    /// The files that it changed, as text.
    pub files: Vec<(String, String)>,
    pub trace: Trace,
    /// How long it took, and how long it was allowed to take.
    pub took: Duration,
    pub allowed: Duration,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many executions there are of each order before the race, and for each of these after it.
    pub paths: u32,
    pub schedules: u32,
}

/// What was found out about a race.
pub struct Found {
    pub executions: Executions,
    /// For each order, a run that shows what the class says of it.
    pub examples: [Option<ForFailure>; 2],
    /// Whether the time was up before all executions were made.
    pub is_over: bool,
}

/// Executes both orders of a race and says what it does to the program.
pub fn classify<P: Program>(
    program: &mut P,
    race: &Race,
    shown: Shown,
    options: Options,
) -> Result<Found, P::Error> {
    let mut experiment = Experiment {
        program,
        race,
        shown,
        stretch: ACCESSES,
        all: Vec::new(),
        cut: Vec::new(),
        longest: None,
        is_over: false,
    };
    let rounds = match race.misuse() {
        // The misuse itself is the class; a few executions show what comes of it.
        Some(_) if shown.is_confirmed => options.schedules,
        _ => options.paths * options.schedules,
    };
    let rounds = rounds.max(1);
    experiment.rounds(0, 1)?;
    let repeated = match experiment.has_good() {
        true => experiment.repeat()?,
        false => None,
    };
    experiment.rounds(1, rounds)?;
    let repeated = match repeated {
        Some(repeated) => Some(repeated),
        None => experiment.repeat()?,
    };
    let judged = experiment
        .executions(repeated.clone())
        .judge(&BTreeSet::new());
    if judged.is_ok_and(|found| found.class == Class::OutputDiffers) {
        experiment.rounds(rounds, 2 * rounds)?;
    }
    Ok(Found {
        examples: experiment.examples(),
        is_over: experiment.is_over,
        executions: experiment.executions(repeated),
    })
}

struct Experiment<'a, P> {
    program: &'a mut P,
    race: &'a Race,
    shown: Shown,
    /// About one in so many accesses lets other threads run.
    stretch: u32,
    all: Vec<(ForFailure, Execution)>,
    /// Of each that was cut by its time-out, how long that was.
    cut: Vec<Option<Duration>>,
    /// What the longest took that ended by itself.
    longest: Option<Duration>,
    /// Whether the time was up before all executions were made.
    is_over: bool,
}

impl<P: Program> Experiment<'_, P> {
    fn rounds(&mut self, from: u32, to: u32) -> Result<(), P::Error> {
        for round in from..to {
            for order in Order::BOTH {
                if self.is_given_up(order) {
                    continue;
                }
                if !self.program.has_time() {
                    self.is_over = true;
                    return Ok(());
                }
                self.execute(order, round)?;
            }
        }
        Ok(())
    }

    /// Whether this order cannot be had, or leads to an execution without an end each time.
    fn is_given_up(&self, order: Order) -> bool {
        let executions = || self.all.iter().map(|(_, execution)| execution);
        let asked = executions().filter(|execution| execution.asked == order);
        let came = executions().any(|execution| execution.happened == Some(order));
        let endless = executions()
            .filter(|one| one.happened == Some(order) && one.status.is_none())
            .filter(|one| one.failure.as_deref().is_some_and(is_endless));
        (!came && !self.race.is_symmetric() && asked.count() >= IN_VAIN)
            || endless.count() >= ENDLESS
    }

    fn execute(&mut self, order: Order, round: u32) -> Result<(), P::Error> {
        // What the recorded run did before the race may come less often here.
        let every_time = round % 2 == 1;
        let switches = SWITCHES[round as usize % SWITCHES.len()];
        // What the first thread has read may be out of date when it uses it.
        let holds = round % 4 >= 2;
        let how = ForFailure {
            disturbance: Disturbance::Turns {
                seed: u64::from(2 * round)
                    + order.index() as u64 * u64::from(self.race.is_symmetric()),
                stretch: (self.stretch / switches).max(2),
            },
            constraint: self.race.constraint(order, every_time, holds),
        };
        let executed = self.program.execute(how)?;
        if executed.ended == Ended::Interrupted {
            self.is_over = true;
            return Ok(());
        }
        let accesses = executed.trace.events.iter();
        let accesses = accesses.filter(|event| event.op.plain_access().is_some());
        self.stretch = u32::try_from(accesses.count()).map_or(ACCESSES, |count| count.max(8));
        let execution = self.execution(order, every_time, &executed);
        self.cut
            .push((executed.ended == Ended::TimedOut).then_some(executed.allowed));
        if matches!(executed.ended, Ended::Exited(_)) {
            self.longest = self.longest.max(Some(executed.took));
        }
        self.all.push((how, execution));
        Ok(())
    }

    fn execution(&self, asked: Order, every_time: bool, executed: &Executed) -> Execution {
        let Executed { ended, output, .. } = executed;
        let failure = failure::of_run(ended, output, &executed.trace, &Signs::default());
        let failure = failure.map(|failure| match &failure.place {
            Some(place) if place.line > 0 => {
                format!("{} at {}:{}", failure.what, place.file, place.line)
            }
            _ => failure.what,
        });
        let order = { self.race }.order_in(&executed.trace, every_time, failure.is_some());
        let mut left = vec![("output".to_owned(), lines(output))];
        left.extend({ executed.files.iter() }.map(|(name, text)| (name.clone(), lines(text))));
        Execution {
            asked,
            happened: order,
            failure,
            status: match ended {
                Ended::Exited(status) => Some(*status),
                _ => None,
            },
            left,
        }
    }

    /// The first good execution, or the first of all if none is, and once more in the same way.
    fn repeat(&mut self) -> Result<Option<[Execution; 2]>, P::Error> {
        let is_good =
            |(_, one): &&(ForFailure, Execution)| one.happened.is_some() && one.failure.is_none();
        let happened = |(_, one): &&(ForFailure, Execution)| one.happened.is_some();
        let good = self.all.iter().find(is_good);
        let Some((how, first)) = good.or_else(|| self.all.iter().find(happened)).cloned() else {
            return Ok(None);
        };
        if !self.program.has_time() {
            self.is_over = true;
            return Ok(None);
        }
        let again = self.program.execute(how)?;
        let again = self.execution(first.asked, false, &again);
        Ok(Some([first, again]))
    }

    fn has_good(&self) -> bool {
        let mut all = self.all.iter();
        all.any(|(_, one)| one.happened.is_some() && one.failure.is_none())
    }

    fn executions(&self, repeated: Option<[Execution; 2]>) -> Executions {
        let all: Vec<Execution> = { self.conclusive() }
            .map(|(_, execution)| execution.clone())
            .collect();
        Executions {
            cut: self.all.len() - all.len(),
            all,
            misuse: self.race.misuse(),
            repeated,
            is_symmetric: self.race.is_symmetric(),
            shown: self.shown,
        }
    }

    /// The executions but for those that were cut too early to say that they would not have ended.
    fn conclusive(&self) -> impl Iterator<Item = &(ForFailure, Execution)> {
        let is_long =
            |allowed: Duration| { self.longest }.is_some_and(|longest| allowed >= longest * LONGER);
        let all = self.all.iter().zip(&self.cut);
        all.filter(move |(_, cut)| cut.is_none_or(is_long))
            .map(|(one, _)| one)
    }

    /// Of each order an execution that failed, or else any.
    fn examples(&self) -> [Option<ForFailure>; 2] {
        Order::BOTH.map(|order| {
            let of = || {
                let all = self.conclusive();
                all.filter(|(_, execution)| execution.happened == Some(order))
            };
            let failed = of().find(|(_, execution)| execution.failure.is_some());
            failed.or_else(|| of().next()).map(|(how, _)| *how)
        })
    }
}

/// Whether a failure is that the program did not end.
fn is_endless(failure: &str) -> bool {
    failure.starts_with("hung") || failure.starts_with("did not end")
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(String::from).collect()
}
