//! Tracking a part of the slice at a time: adaptive slice tracking (Kasikci 2015, section 4.3.1).
//!
//! The first plan names the statements closest to the failure, two of them; if what they do does not tell
//! failing runs from good ones, the next plan names twice as many. Of memory a plan watches four pieces, as
//! many as there are watchpoints; more are shared over several runs, and only runs that watched the same are
//! compared. Branches are seen by sites, and so is memory where there are no watchpoints. Statements outside of
//! the slice at which a watchpoint catches an access are added to it.
//!
//! All runs are ordinary ones, so a rare failure needs many of them, and nothing is forced. `search` decides
//! from what was seen alone; where the runs are made is up to its caller: `track` makes them here and now.

mod plan;
mod report;
mod search;

use norns_trace::Trace;

use crate::failure::Failure;
use crate::search::{Options, Seen, Sketch};
use crate::slice::Slice;
pub use plan::{Plan, Site, Trackable, plans};
pub use report::{End, Report, ReportError};
pub use search::{Next, Reach, Tracking};

/// How many statements are tracked at first.
pub const SIGMA: usize = 2;
/// Of a run so many accesses are seen through one watchpoint, and so many passages of one site.
const MOST: u32 = 500;

/// How the program can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// Whether the kernel allows them.
    pub watchpoints: bool,
    /// Whether the program was built with the sites of tracked runs.
    pub sites: bool,
}

/// A program that can be run under a plan.
pub trait Tracked {
    type Error;

    /// Runs it and keeps what it saw under this number.
    fn track(&mut self, number: u32, plan: &Plan) -> Result<Seen, Self::Error>;

    /// The lines that the failure depends on, the closest first, and how each can be tracked; empty if they
    /// are not known.
    fn slice(&mut self, failure: &Failure) -> Result<(Slice, Vec<Trackable>), Self::Error>;

    /// What an earlier run saw.
    fn trace(&mut self, number: u32) -> Result<Trace, Self::Error>;

    fn has_time(&self) -> bool;
}

/// Runs the program under plans and explains its most frequent failure.
pub fn track<P: Tracked>(
    program: &mut P,
    means: Means,
    options: &Options,
) -> Result<(Sketch, Reach), P::Error> {
    let mut tracking = Tracking::new(means, options.signs.clone());
    loop {
        let number = tracking.runs();
        match tracking.next_step() {
            Next::Slice(failure) => {
                let (lines, statements) = program.slice(&failure)?;
                tracking.slice(lines, statements);
            }
            Next::Run { plan, watches } => {
                if number >= options.runs || (number > 0 && !program.has_time()) {
                    break;
                }
                let seen = program.track(number, &watches)?;
                if seen.ended == norns_replay::Ended::Interrupted {
                    break;
                }
                tracking.add(number, plan, &seen);
            }
            Next::Enough => break,
        }
    }
    tracking.explain(options.core.as_ref(), |number| program.trace(number))
}
