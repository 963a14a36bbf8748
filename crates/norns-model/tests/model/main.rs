//! The model against its rules, its checker and itself.

mod random;
mod step_rules;
mod wait_loops;
