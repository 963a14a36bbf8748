//! Prediction by the ordering solver: witnesses that respect values.
//!
//! The method is that of Said et al. (2011). A schedule is an order of the trace's events in which
//! every synchronisation object allows each of its operations and every read sees what it saw in the
//! trace. Beyond the paper:
//!
//! - events after the bug are not placed at all (prefix semantics);
//! - deadlocks and waits that nothing ends are properties beside races;
//! - branch events, where the trace has them, say which reads have to keep their values;
//! - all of POSIX threads is covered;
//! - the solver is our own (`norns-order`). Z3 answers the same questions when a second opinion is
//!   wanted (`back_end`).
//!
//! # How a question is answered
//!
//! 1. **Filters** (`candidates`, `lock_history`): locks held in common, contradicting lock
//!    acquisition histories and must-happen-before rule out most candidates.
//! 2. **Preprocessing** (`known`): once per trace, what follows from the trace without a search.
//!    Must-happen-before as vector clocks; how far each thread can get when the threads of the bug
//!    stop (counting); which positions threads can be at together, given how they wait for each
//!    other. This often proves that there is no schedule, and otherwise bounds the search.
//! 3. **Search** (`search`): the solver keeps a total order of all events. The order is simulated
//!    event by event, and every event that its object (`objects`) does not allow becomes a clause
//!    that the solver has to satisfy. The clauses are generated lazily, only when they are violated.
//! 4. **Checking the answer**: nothing leaves the engine that the checker of `norns-model`, and for
//!    values and branches `read_check`, does not accept.
//!
//! # Where things are
//!
//! | module | contents |
//! | --- | --- |
//! | `engine` | [`Engine`], the interface: a trace, then questions about it |
//! | `query` | what a bug requires of a schedule |
//! | `stuck` | the same for waits that nothing ends, and what remains undecided about them |
//! | `candidates`, `lock_history` | candidates and the filters that need no solver |
//! | `known` | preprocessing: `must_happen_before`, `clocks`, `resources`, `waits` |
//! | `objects` | locks, conditions, semaphores, barriers, joins, registers: their rules as clauses |
//! | `search` | `encoding` (the solver's source of clauses), `simulation`, `plan` (where to start) |
//! | `read_check` | the independent check of what the reads of a witness see |
//! | `back_end` | our solver or Z3 |

mod back_end;
mod candidates;
mod engine;
mod known;
mod lock_history;
mod objects;
mod query;
mod read_check;
mod search;
mod stuck;

pub use back_end::BackEnd;
#[cfg(feature = "z3")]
pub use back_end::SecondOpinion;
pub use candidates::Counts;
pub(crate) use engine::NoSchedule;
pub use engine::{Constraint, Engine, Outcome, Problem, too_long};
pub use search::encoding::Preprocessing;
