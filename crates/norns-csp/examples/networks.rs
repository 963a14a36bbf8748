//! Models for `bench/csp`: the same system as processes for the engine and as Promela for SPIN.
//!
//! usage: networks threads N EVENTS MUTEXES | networks dining N, then one of
//!   promela          print the model for SPIN
//!   check [options]  check deadlock freedom; options: reduce, hidden, threads=N
//!
//! `threads`: N threads of EVENTS lock operations in critical sections, some nested in one
//! global order, on MUTEXES mutexes, generated from a fixed seed. `dining`: N philosophers,
//! one of them left-handed, each going round for ever. All models are free of deadlock, so the
//! search is complete.

use std::time::Instant;

use norns_csp::Reduction;
use norns_csp::check::{Model, Options, Question, Verdict, check};
use norns_csp::event::{EventId, EventSet};
use norns_csp::process::{NoDefinitions, ProcId, Processes};

/// What every thread does: (mutex, acquire or release), and whether it starts again.
struct System {
    threads: Vec<Vec<(usize, bool)>>,
    mutexes: usize,
    cyclic: bool,
}

fn random(seed: &mut u64, n: usize) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 20) as usize % n
}

fn threads(n: usize, events: usize, mutexes: usize) -> System {
    let mut seed = 0x5DEE_CE66_D1CE_4E5B;
    let threads = (0..n)
        .map(|_| {
            let mut line = Vec::new();
            while line.len() < events {
                let a = random(&mut seed, mutexes);
                let b = random(&mut seed, mutexes);
                if a < b && random(&mut seed, 2) == 0 {
                    line.extend([(a, true), (b, true), (b, false), (a, false)]);
                } else {
                    line.extend([(a, true), (a, false)]);
                }
            }
            line
        })
        .collect();
    System {
        threads,
        mutexes,
        cyclic: false,
    }
}

fn dining(n: usize) -> System {
    let threads = (0..n)
        .map(|i| {
            let (first, second) = if i == 0 {
                ((i + 1) % n, i)
            } else {
                (i, (i + 1) % n)
            };
            vec![
                (first, true),
                (second, true),
                (second, false),
                (first, false),
            ]
        })
        .collect();
    System {
        threads,
        mutexes: n,
        cyclic: true,
    }
}

fn promela(system: &System) -> String {
    let mut out = format!("bool taken[{}];\n", system.mutexes);
    for (t, line) in system.threads.iter().enumerate() {
        out.push_str(&format!("active proctype T{t}() {{\n"));
        if system.cyclic {
            out.push_str("again:\n");
        }
        for &(m, acquire) in line {
            if acquire {
                out.push_str(&format!(
                    "  atomic {{ !taken[{m}] -> taken[{m}] = true }};\n"
                ));
            } else {
                out.push_str(&format!("  taken[{m}] = false;\n"));
            }
        }
        if system.cyclic {
            out.push_str("  goto again\n");
        } else {
            out.pop();
            out.pop();
            out.push('\n');
        }
        out.push_str("}\n");
    }
    out
}

fn processes(system: &System, p: &mut Processes) -> (ProcId, Vec<EventId>) {
    let n = system.threads.len();
    let skip = p.skip();
    let mut sync = Vec::new();
    let event = |p: &mut Processes, t: usize, m: usize, acquire: bool| {
        p.events.intern(&format!(
            "{}.{t}.{m}",
            if acquire { "lock" } else { "unlock" }
        ))
    };
    let mut lines = Vec::new();
    for (t, line) in system.threads.iter().enumerate() {
        let events: Vec<EventId> = line.iter().map(|&(m, a)| event(p, t, m, a)).collect();
        let call = p.new_call(Some(&format!("THREAD({t})")));
        let name = p.call(call);
        let body = p.prefixes(&events, if system.cyclic { name } else { skip });
        p.define(call, body);
        lines.push(name);
    }
    let mut mutexes = Vec::new();
    for m in 0..system.mutexes {
        let call = p.new_call(Some(&format!("MUTEX({m})")));
        let name = p.call(call);
        let mut choices = Vec::new();
        for t in 0..n {
            if !system.threads[t].iter().any(|op| op.0 == m) {
                continue;
            }
            let pair = [event(p, t, m, true), event(p, t, m, false)];
            sync.extend(pair);
            choices.push(p.prefixes(&pair, name));
        }
        let body = p.external_choice(choices);
        p.define(call, body);
        mutexes.push(name);
    }
    let mut inter = p.interleave(lines);
    if !system.cyclic {
        // When all threads have ended, that is no deadlock.
        let idle = p.events.intern("idle");
        let ended = p.run(EventSet::only([idle]));
        inter = p.sequence(inter, ended);
    }
    let all = p.interleave(mutexes);
    let whole = p.parallel(vec![inter, all], EventSet::only(sync.iter().copied()));
    (whole, sync)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| -> usize {
        arguments[at]
            .parse()
            .unwrap_or_else(|_| panic!("{} is not a number", arguments[at]))
    };
    let (system, rest) = match arguments.first().map(String::as_str) {
        Some("threads") => (threads(number(1), number(2), number(3)), &arguments[4..]),
        Some("dining") => (dining(number(1)), &arguments[2..]),
        _ => panic!("usage: networks threads N EVENTS MUTEXES|dining N promela|check …"),
    };
    if rest.first().is_some_and(|word| word == "promela") {
        print!("{}", promela(&system));
        return;
    }
    let flag = |name: &str| rest.iter().any(|word| word == name);
    let threads = rest
        .iter()
        .find_map(|word| word.strip_prefix("threads="))
        .map_or(1, |n| n.parse().expect("threads=N"));
    let started = Instant::now();
    let mut p = Processes::new();
    let (mut whole, sync) = processes(&system, &mut p);
    if flag("hidden") {
        whole = p.hide(whole, EventSet::only(sync));
    }
    let options = Options {
        reduction: if flag("reduce") {
            Reduction::Precise
        } else {
            Reduction::None
        },
        threads,
        ..Options::default()
    };
    let question = Question::DeadlockFree {
        model: Model::Failures,
        process: whole,
    };
    let outcome = check(&mut p, &mut NoDefinitions, &question, &options, &mut |_| {})
        .expect("the model is well formed");
    let seconds = started.elapsed().as_secs_f64();
    let s = outcome.statistics;
    let verdict = match outcome.verdict {
        Verdict::Holds => "holds",
        Verdict::Fails(_) => "fails",
        Verdict::Undecided(_) => "undecided",
    };
    println!(
        "{verdict} states {} seconds {seconds:.3} rate {:.0} bytes/state {:.1} vector {} rules {}",
        s.states,
        s.states as f64 / seconds,
        s.bytes as f64 / s.states as f64,
        s.state_bytes,
        s.rules,
    );
}
