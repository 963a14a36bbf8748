//! The ordering engine against the enumeration of all schedules, Z3 and the examples of the papers.

mod agreement;
mod coverage;
mod exploration;
mod kinds;
mod papers;
mod stuck;
mod table_2;
mod values;
mod waiting;
