//! What the engine knows of process terms while it compiles them, and how it names them to a person.

use crate::event::EventId;
use crate::process::{Definitions, ProcId, Process, Processes, Resolution, Watchdog};

/// The arena, and what its calls stand for.
pub struct Context<'a> {
    pub processes: &'a mut Processes,
    pub definitions: &'a mut dyn Definitions,
}

impl Context<'_> {
    /// Memory of the terms and of what their definitions keep.
    pub fn bytes(&self) -> u64 {
        self.processes.bytes() + self.definitions.bytes()
    }

    /// A name for a term: that of its call, if it is one.
    pub fn name(&self, process: ProcId) -> Option<String> {
        match self.processes.get(process) {
            Process::Call(call) => self
                .processes
                .call_name(call)
                .map(str::to_owned)
                .or_else(|| self.definitions.name(call)),
            _ => None,
        }
    }

    /// The name that a person gave to a term, or to the process that the operators around it
    /// change.
    pub fn given_name(&self, process: ProcId) -> Option<String> {
        let mut term = process;
        loop {
            if let Some(name) = self.name(term) {
                return Some(name);
            }
            term = match self.processes.get(term) {
                Process::Hide(p, _)
                | Process::Rename(p, _)
                | Process::Compress(_, p)
                | Process::Prioritise(p, _)
                | Process::Resolve(_, p)
                | Process::Watchdog(_, p, ..) => p,
                _ => return None,
            };
        }
    }

    /// The beginning of a term that has no name.
    pub fn sketch(&self, process: ProcId) -> String {
        self.sketch_to(process, 3)
    }

    fn sketch_to(&self, process: ProcId, depth: usize) -> String {
        let term = |p: ProcId| self.given_name(p).unwrap_or_else(|| "…".into());
        if depth == 0 {
            return term(process);
        }
        let inner = |p: ProcId| self.sketch_to(p, depth - 1);
        let event = |e: EventId| self.processes.events.name(e).into_owned();
        let first = |list, operator: &str| {
            let list = self.processes.get_list(list);
            match list.first() {
                Some(&p) => format!("{} {operator} …", inner(p)),
                None => "STOP".into(),
            }
        };
        match self.processes.get(process) {
            Process::Stop => "STOP".into(),
            Process::Skip => "SKIP".into(),
            Process::Div => "DIV".into(),
            Process::Chaos(_) => "CHAOS".into(),
            Process::Run(_) => "RUN".into(),
            Process::Prefix(e, p) => format!("{} -> {}", event(e), term(p)),
            Process::ExternalChoice(list) => first(list, "[]"),
            Process::InternalChoice(list) => first(list, "|~|"),
            Process::Sequence(p, q) => format!("{} ; {}", inner(p), term(q)),
            Process::Hide(p, _) => format!("{} \\ …", inner(p)),
            Process::Interrupt(p, q) => format!("{} /\\ {}", inner(p), term(q)),
            Process::Interleave(list) => first(list, "|||"),
            Process::Parallel(list, _) => first(list, "[|…|]"),
            Process::Alphabetised(list, _) => first(list, "[…||…]"),
            Process::SyncChoice(list, _) => first(list, "[+…+]"),
            Process::Sliding(p, q) => format!("{} [> {}", inner(p), term(q)),
            Process::Exception(p, _, q) => format!("{} [|…|> {}", inner(p), term(q)),
            Process::SyncInterrupt(p, _, q) => format!("{} /+…+\\ {}", inner(p), term(q)),
            Process::Rename(p, _) => format!("{}[[…]]", inner(p)),
            Process::Compress(_, p) => inner(p),
            Process::Prioritise(p, _) => format!("prioritise({}, …)", inner(p)),
            Process::Resolve(Resolution::Chase, p) => format!("chase({})", inner(p)),
            Process::Resolve(Resolution::Deter, p) => format!("deter({})", inner(p)),
            Process::Watchdog(Watchdog::Traces, p, ..) => {
                format!("trace_watchdog({}, …)", inner(p))
            }
            Process::Watchdog(Watchdog::Failures, p, ..) => {
                format!("failure_watchdog({}, …)", inner(p))
            }
            _ => term(process),
        }
    }
}
