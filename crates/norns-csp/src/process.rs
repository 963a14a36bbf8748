//! Process terms: what the front end produces and the engine compiles.
//!
//! Terms live in one arena, [`Processes`], and are named by [`ProcId`]; equal terms have equal
//! ids (hash consing), so comparing, hashing and dropping never recurse, however deep a term
//! is. Recursion goes through [`Process::Call`]: a call is unfolded when the engine first
//! needs it, either to the body given to [`Processes::define`] or by [`Definitions`].
//!
//! The operators are those of FDR4's CSPM. Some are written with others: projection is hiding
//! of the complement, linked parallel is renaming to fresh events, parallel and hiding.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::{EventId, EventSet, Events, Priority, Renaming};
use crate::interner::{Interner, Owned};

/// A process term in its arena.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcId(pub u32);

/// A named process (with its arguments), or any other term that is unfolded on demand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub u32);

/// An interned [`EventSet`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SetId(pub u32);

/// An interned [`Renaming`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RenamingId(pub u32);

/// An interned list of processes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListId(pub u32);

/// An interned list of sets, one for each process of an alphabetised parallel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AlphabetsId(pub u32);

/// An interned [`Priority`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PriorityId(pub u32);

/// A transition system that the engine has built in the place of a compressed process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BuiltId(pub u32);

/// A function that picks one of several behaviours of a process, by a fixed rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Resolution {
    /// `chase`: a state with taus does only one of them.
    Chase,
    /// `deter`: as `chase`, and of several transitions with one event only one is left.
    Deter,
}

/// What a watchdog process looks at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Watchdog {
    /// `trace_watchdog`: barks after an event that the specification does not allow.
    Traces,
    /// `failure_watchdog`: barks as above, and deadlocks with a process that refuses what the
    /// specification does not allow it to refuse.
    Failures,
}

/// A function that replaces a process by an equivalent, hopefully smaller one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Compression {
    /// Build the transition system, change nothing.
    Explicate,
    /// Strong bisimulation.
    Sbisim,
    /// Divergence-respecting weak bisimulation.
    Wbisim,
    /// Divergence-respecting delay bisimulation.
    Dbisim,
    /// Normal form: determinised, with acceptances.
    Normal,
    /// Tau closure without determinising.
    Diamond,
    /// States that reach each other by tau become one.
    TauLoopFactor,
}

/// One term. Children are ids, so a term is a small value to copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Process {
    /// Does nothing.
    Stop,
    /// Terminates.
    Skip,
    /// What is left after termination. Scripts cannot write it.
    Omega,
    /// Does nothing but tau, for ever.
    Div,
    /// May do or refuse any of the events; does not terminate or diverge. The set is finite.
    Chaos(SetId),
    /// Always offers all of the events. The set is finite.
    Run(SetId),
    /// `e -> P`
    Prefix(EventId, ProcId),
    /// `P [] Q [] …`
    ExternalChoice(ListId),
    /// `P |~| Q |~| …`, at least one
    InternalChoice(ListId),
    /// `P [> Q`
    Sliding(ProcId, ProcId),
    /// `P /\ Q`
    Interrupt(ProcId, ProcId),
    /// `P [| A |> Q`
    Exception(ProcId, SetId, ProcId),
    /// `P ; Q`
    Sequence(ProcId, ProcId),
    /// `P \ A`
    Hide(ProcId, SetId),
    /// `P [[ a <- b ]]`
    Rename(ProcId, RenamingId),
    /// `P ||| Q ||| …`
    Interleave(ListId),
    /// `P [| A |] Q [| A |] …`: all synchronise on A
    Parallel(ListId, SetId),
    /// `|| i @ [A(i)] P(i)`: an event needs all whose alphabet has it; others do not do it
    Alphabetised(ListId, AlphabetsId),
    /// `P [+ A +] Q …`: events of A synchronise and do not resolve the choice
    SyncChoice(ListId, SetId),
    /// `P /+ A +\ Q`: events of A synchronise and do not interrupt
    SyncInterrupt(ProcId, SetId, ProcId),
    /// `normal(P)` and the like
    Compress(Compression, ProcId),
    /// `prioritise(P, <A0, …>)` and `prioritisepo(P, …)`
    Prioritise(ProcId, PriorityId),
    /// `chase(P)` and `deter(P)`
    Resolve(Resolution, ProcId),
    /// `trace_watchdog(P, A, bark)` and `failure_watchdog(P, A, bark)`: P is the specification, A
    /// the events that are watched.
    Watchdog(Watchdog, ProcId, SetId, EventId),
    /// A named process, unfolded on demand.
    Call(CallId),
    /// A state of a process that the engine has built as a whole, below an operator that it
    /// explores term by term. Scripts cannot write it.
    Built(BuiltId, u32),
}

/// Why a call could not be unfolded.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnfoldError(pub String);

/// What calls stand for. The engine asks once for each call.
pub trait Definitions {
    /// The term that a call stands for.
    fn unfold(&mut self, call: CallId, processes: &mut Processes) -> Result<ProcId, UnfoldError>;

    /// How to name a call to a person, `MUTEX(3)`; none for one that has no name.
    fn name(&self, _call: CallId) -> Option<String> {
        None
    }

    /// Memory that the definitions themselves keep, roughly.
    fn bytes(&self) -> u64 {
        0
    }
}

/// For processes whose calls were all given to [`Processes::define`].
pub struct NoDefinitions;

impl Definitions for NoDefinitions {
    fn unfold(&mut self, call: CallId, _: &mut Processes) -> Result<ProcId, UnfoldError> {
        Err(UnfoldError(format!(
            "the process of call {} was never defined",
            call.0
        )))
    }
}

#[derive(Debug)]
struct CallEntry {
    name: Option<Box<str>>,
    body: Option<ProcId>,
}

/// The arena of process terms, with the events they use.
#[derive(Default, Debug)]
pub struct Processes {
    pub events: Events,
    terms: Vec<Process>,
    ids: FxHashMap<Process, ProcId>,
    sets: Interner<EventSet>,
    renamings: Interner<Renaming>,
    lists: Interner<[ProcId]>,
    alphabets: Interner<[SetId]>,
    priorities: Interner<Priority>,
    calls: Vec<CallEntry>,
}

impl Processes {
    pub fn new() -> Self {
        Self::default()
    }

    /// The id of a term.
    pub fn intern(&mut self, term: Process) -> ProcId {
        let next = ProcId(u32::try_from(self.terms.len()).expect("fewer than 2^32 terms"));
        let id = *self.ids.entry(term).or_insert(next);
        if id == next {
            self.terms.push(term);
        }
        id
    }

    pub fn get(&self, process: ProcId) -> Process {
        self.terms[process.0 as usize]
    }

    /// How many terms exist; every [`ProcId`] is less.
    pub fn len(&self) -> usize {
        self.terms.len()
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Memory of the arena, roughly.
    pub fn bytes(&self) -> u64 {
        // A term stands in a list and, with its number, in a hash table that is half full.
        const TERM: usize = 3 * size_of::<Process>() + 8;
        let interned = self.sets.bytes
            + self.renamings.bytes
            + self.lists.bytes
            + self.alphabets.bytes
            + self.priorities.bytes;
        (self.terms.len() * TERM + self.calls.len() * 32 + self.events.bytes() + interned) as u64
    }

    pub fn set(&mut self, set: EventSet) -> SetId {
        let size = set.bytes();
        SetId(self.sets.intern(Owned(set), size))
    }

    pub fn get_set(&self, set: SetId) -> &Arc<EventSet> {
        &self.sets.values[set.0 as usize]
    }

    pub fn renaming(&mut self, renaming: Renaming) -> RenamingId {
        let size = renaming.bytes();
        RenamingId(self.renamings.intern(Owned(renaming), size))
    }

    pub fn get_renaming(&self, renaming: RenamingId) -> &Arc<Renaming> {
        &self.renamings.values[renaming.0 as usize]
    }

    pub fn list(&mut self, processes: Vec<ProcId>) -> ListId {
        let size = processes.len() * 4;
        ListId(self.lists.intern(processes, size))
    }

    pub fn get_list(&self, list: ListId) -> &Arc<[ProcId]> {
        &self.lists.values[list.0 as usize]
    }

    pub fn alphabets(&mut self, sets: Vec<SetId>) -> AlphabetsId {
        let size = sets.len() * 4;
        AlphabetsId(self.alphabets.intern(sets, size))
    }

    pub fn get_alphabets(&self, alphabets: AlphabetsId) -> &Arc<[SetId]> {
        &self.alphabets.values[alphabets.0 as usize]
    }

    pub fn priority(&mut self, priority: Priority) -> PriorityId {
        PriorityId(self.priorities.intern(Owned(priority), 0))
    }

    pub fn get_priority(&self, priority: PriorityId) -> &Arc<Priority> {
        &self.priorities.values[priority.0 as usize]
    }

    /// A new call. The same named process with the same arguments must be the same call, or a
    /// recursion has no end; whoever asks for new calls remembers which it has.
    pub fn new_call(&mut self, name: Option<&str>) -> CallId {
        let id = CallId(u32::try_from(self.calls.len()).expect("fewer than 2^32 calls"));
        self.calls.push(CallEntry {
            name: name.map(Into::into),
            body: None,
        });
        id
    }

    /// Says what a call stands for. A second definition is refused: terms that were compiled
    /// with the first would keep it.
    pub fn define(&mut self, call: CallId, body: ProcId) {
        let entry = &mut self.calls[call.0 as usize];
        assert!(entry.body.is_none(), "call {} is defined twice", call.0);
        entry.body = Some(body);
    }

    /// The body of a call, asking `definitions` the first time.
    pub fn unfold(
        &mut self,
        call: CallId,
        definitions: &mut dyn Definitions,
    ) -> Result<ProcId, UnfoldError> {
        if let Some(body) = self.calls[call.0 as usize].body {
            return Ok(body);
        }
        let body = definitions.unfold(call, self)?;
        let entry = &mut self.calls[call.0 as usize];
        assert!(
            entry.body.is_none_or(|b| b == body),
            "call {} was defined while it was unfolded",
            call.0
        );
        entry.body = Some(body);
        Ok(body)
    }

    /// The body of a call that was defined or unfolded.
    pub fn body(&self, call: CallId) -> Option<ProcId> {
        self.calls[call.0 as usize].body
    }

    /// The name that [`Processes::new_call`] was given.
    pub fn call_name(&self, call: CallId) -> Option<&str> {
        self.calls[call.0 as usize].name.as_deref()
    }

    pub fn stop(&mut self) -> ProcId {
        self.intern(Process::Stop)
    }

    pub fn skip(&mut self) -> ProcId {
        self.intern(Process::Skip)
    }

    pub fn div(&mut self) -> ProcId {
        self.intern(Process::Div)
    }

    pub fn omega(&mut self) -> ProcId {
        self.intern(Process::Omega)
    }

    /// `CHAOS(A)`; A must be given by its members.
    pub fn chaos(&mut self, events: EventSet) -> ProcId {
        assert!(
            events.members().is_some(),
            "CHAOS needs a set given by its members"
        );
        let set = self.set(events);
        self.intern(Process::Chaos(set))
    }

    /// `RUN(A)`; A must be given by its members.
    pub fn run(&mut self, events: EventSet) -> ProcId {
        assert!(
            events.members().is_some(),
            "RUN needs a set given by its members"
        );
        let set = self.set(events);
        self.intern(Process::Run(set))
    }

    /// `e -> P`
    pub fn prefix(&mut self, event: EventId, then: ProcId) -> ProcId {
        assert!(event.is_visible(), "a prefix is a visible event");
        self.intern(Process::Prefix(event, then))
    }

    /// `e1 -> e2 -> … -> P`
    pub fn prefixes(&mut self, events: &[EventId], then: ProcId) -> ProcId {
        events
            .iter()
            .rev()
            .fold(then, |then, &event| self.prefix(event, then))
    }

    /// `P [] Q [] …`; STOP for none
    pub fn external_choice(&mut self, choices: Vec<ProcId>) -> ProcId {
        match choices[..] {
            [] => self.stop(),
            [only] => only,
            _ => {
                let list = self.list(choices);
                self.intern(Process::ExternalChoice(list))
            }
        }
    }

    /// How many processes a term is an external choice of.
    pub(crate) fn alternatives(&self, process: ProcId) -> usize {
        match self.get(process) {
            Process::ExternalChoice(list) => self.get_list(list).len(),
            _ => 1,
        }
    }

    /// `P |~| Q |~| …`; there must be one at least
    pub fn internal_choice(&mut self, choices: Vec<ProcId>) -> ProcId {
        match choices[..] {
            [] => panic!("an internal choice needs an alternative"),
            [only] => only,
            _ => {
                let list = self.list(choices);
                self.intern(Process::InternalChoice(list))
            }
        }
    }

    /// `P [> Q`
    pub fn sliding(&mut self, first: ProcId, then: ProcId) -> ProcId {
        self.intern(Process::Sliding(first, then))
    }

    /// `P /\ Q`
    pub fn interrupt(&mut self, process: ProcId, by: ProcId) -> ProcId {
        self.intern(Process::Interrupt(process, by))
    }

    /// `P [| A |> Q`
    pub fn exception(&mut self, process: ProcId, events: EventSet, handler: ProcId) -> ProcId {
        let set = self.set(events);
        self.intern(Process::Exception(process, set, handler))
    }

    /// `P ; Q`
    pub fn sequence(&mut self, first: ProcId, then: ProcId) -> ProcId {
        self.intern(Process::Sequence(first, then))
    }

    /// `P \ A`
    pub fn hide(&mut self, process: ProcId, events: EventSet) -> ProcId {
        let set = self.set(events);
        self.intern(Process::Hide(process, set))
    }

    /// `P |\ A`: hides everything but A
    pub fn project(&mut self, process: ProcId, events: EventSet) -> ProcId {
        self.hide(process, events.complement())
    }

    /// `P [[ a <- b, … ]]`, pairs (a, b)
    pub fn rename(&mut self, process: ProcId, pairs: Renaming) -> ProcId {
        if pairs.is_empty() {
            return process;
        }
        let renaming = self.renaming(pairs);
        self.intern(Process::Rename(process, renaming))
    }

    /// `P ||| Q ||| …`; SKIP for none
    pub fn interleave(&mut self, processes: Vec<ProcId>) -> ProcId {
        match processes[..] {
            [] => self.skip(),
            [only] => only,
            _ => {
                let list = self.list(processes);
                self.intern(Process::Interleave(list))
            }
        }
    }

    /// `P [| A |] Q [| A |] …`; SKIP for none
    pub fn parallel(&mut self, processes: Vec<ProcId>, events: EventSet) -> ProcId {
        match processes[..] {
            [] => self.skip(),
            [only] => only,
            _ if events == EventSet::empty() => self.interleave(processes),
            _ => {
                let list = self.list(processes);
                let set = self.set(events);
                self.intern(Process::Parallel(list, set))
            }
        }
    }

    /// `P [A || B] Q`, and its replicated form; SKIP for none. One process alone is still
    /// limited to its alphabet.
    pub fn alphabetised(&mut self, processes: Vec<(EventSet, ProcId)>) -> ProcId {
        if processes.is_empty() {
            return self.skip();
        }
        let (sets, processes): (Vec<_>, Vec<_>) = processes.into_iter().unzip();
        let sets: Vec<_> = sets.into_iter().map(|set| self.set(set)).collect();
        let list = self.list(processes);
        let alphabets = self.alphabets(sets);
        self.intern(Process::Alphabetised(list, alphabets))
    }

    /// `P [a <-> b, …] Q`, pairs (a, b): an `a` of P happens together with a `b` of Q and is
    /// hidden. Each pair communicates on an event of its own.
    pub fn linked(&mut self, left: ProcId, pairs: &[(EventId, EventId)], right: ProcId) -> ProcId {
        let links: Vec<_> = pairs
            .iter()
            .map(|&(a, b)| {
                let name = format!("{}<->{}", self.events.name(a), self.events.name(b));
                // A private name keeps equal terms equal when they are evaluated twice; the
                // blank cannot stand in the name of a script's event.
                self.events.intern(&format!("{name} "))
            })
            .collect();
        let with = |side: fn(&(EventId, EventId)) -> EventId| {
            Renaming::new(pairs.iter().map(side).zip(links.iter().copied()))
        };
        let (renamed_left, renamed_right) = (with(|p| p.0), with(|p| p.1));
        let left = self.rename(left, renamed_left);
        let right = self.rename(right, renamed_right);
        let both = self.parallel(vec![left, right], EventSet::only(links.iter().copied()));
        self.hide(both, EventSet::only(links))
    }

    /// `P [+ A +] Q …`; STOP for none
    pub fn sync_choice(&mut self, choices: Vec<ProcId>, events: EventSet) -> ProcId {
        match choices[..] {
            [] => self.stop(),
            [only] => only,
            _ => {
                let list = self.list(choices);
                let set = self.set(events);
                self.intern(Process::SyncChoice(list, set))
            }
        }
    }

    /// `P /+ A +\ Q`
    pub fn sync_interrupt(&mut self, process: ProcId, events: EventSet, by: ProcId) -> ProcId {
        let set = self.set(events);
        self.intern(Process::SyncInterrupt(process, set, by))
    }

    /// `normal(P)` and the like
    pub fn compress(&mut self, compression: Compression, process: ProcId) -> ProcId {
        self.intern(Process::Compress(compression, process))
    }

    /// `prioritise(P, <A0, …>)` (with [`Priority::Classes`]) and `prioritisepo(P, …)` (with
    /// [`Priority::order`])
    pub fn prioritise(&mut self, process: ProcId, priority: Priority) -> ProcId {
        let priority = self.priority(priority);
        self.intern(Process::Prioritise(process, priority))
    }

    /// `chase(P)` and `deter(P)`
    pub fn resolve(&mut self, how: Resolution, process: ProcId) -> ProcId {
        self.intern(Process::Resolve(how, process))
    }

    /// `trace_watchdog(P, A, bark)` and `failure_watchdog(P, A, bark)`; A must be given by its
    /// members.
    pub fn watchdog(
        &mut self,
        what: Watchdog,
        spec: ProcId,
        events: EventSet,
        bark: EventId,
    ) -> ProcId {
        assert!(
            events.members().is_some(),
            "a watchdog needs a set given by its members"
        );
        let set = self.set(events);
        self.intern(Process::Watchdog(what, spec, set, bark))
    }

    /// The named process as a term.
    pub fn call(&mut self, call: CallId) -> ProcId {
        self.intern(Process::Call(call))
    }
}
