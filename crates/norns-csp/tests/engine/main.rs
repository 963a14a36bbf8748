//! The engine on models built from values: verdicts, counterexamples, determinism.

mod processes;
mod programs;

use norns_csp::check::{Options, Outcome, Question, check};
use norns_csp::event::EventId;
use norns_csp::process::{NoDefinitions, ProcId, Processes};

fn ask(processes: &mut Processes, question: &Question, options: &Options) -> Outcome {
    check(
        processes,
        &mut NoDefinitions,
        question,
        options,
        &mut |_| {},
    )
    .expect("the model is well formed")
}

fn events(processes: &mut Processes, names: &str) -> Vec<EventId> {
    names
        .split_whitespace()
        .map(|name| processes.events.intern(name))
        .collect()
}

/// A recursive mutex process for `threads` threads.
fn mutex(p: &mut Processes, m: usize, threads: usize) -> (ProcId, Vec<EventId>) {
    let call = p.new_call(Some(&format!("MUTEX({m})")));
    let again = p.call(call);
    let mut all = Vec::new();
    let mut choices = Vec::new();
    for t in 0..threads {
        let lock = p.events.intern(&format!("lock.{t}.{m}"));
        let unlock = p.events.intern(&format!("unlock.{t}.{m}"));
        all.extend([lock, unlock]);
        choices.push(p.prefixes(&[lock, unlock], again));
    }
    let body = p.external_choice(choices);
    p.define(call, body);
    (again, all)
}
