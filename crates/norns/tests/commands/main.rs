//! The commands as a user runs them, on real programs; what the documents and comments claim.

mod atomicity;
mod bitcode;
mod cc;
mod citations;
mod csp;
mod detect;
mod documents;
mod inputs;
mod install;
mod licences;
mod modules;
mod names;
mod order;
mod record;
mod rules;
mod runs;
mod scan;
mod sketch;
mod sketch_tracked;
mod tools;
mod trace;
mod unseen;
mod values;
mod wait_loops;
