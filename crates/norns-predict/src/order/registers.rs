//! Registers: memory locations and `once` objects, whose readers need what they saw.
//!
//! Equation 2 of Said et al. (2011), and equation 4 for `once`: a read takes place only where the
//! last write before it left the value that the read needs. Values are numbers here: equal
//! numbers, equal values. When values are not known, each write has a number of its own, and a
//! read needs the write that it saw.
//!
//! In branch mode (the trace has branch events) a read needs its value only when a later branch
//! of its thread takes place, or when a later write of its thread is seen by a read that needs
//! its value (Huang et al. 2014). Without branch events everything that follows a read
//! may depend on it.

use norns_model::location::{LocationId, Touch};
use norns_model::{Meaning, Model};
use norns_order::{Formula, Node};
use norns_trace::{EventIndex, Op};
use rustc_hash::FxHashMap;

use super::by_thread::ByThread;
use super::frame::{Frame, Part, Sight, prefer_observed};
use super::needs::Needs;
use super::run::NOBODY;

#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub node: Node,
    pub needs: Option<u32>,
    pub writes: Option<u32>,
}

pub(super) struct Register {
    pub accesses: Vec<Access>,
    pub initial: u32,
    /// The accesses that write.
    writes: ByThread,
    /// For every value the accesses that write it.
    sources: FxHashMap<u32, ByThread>,
    /// Where branches say which reads count; `None`: all that take place.
    needs: Option<std::rc::Rc<Needs>>,
}

/// Values of one location in the order of the trace.
struct Builder {
    accesses: Vec<Access>,
    numbers: FxHashMap<Vec<u8>, u32>,
    next: u32,
    initial: u32,
    current: u32,
    /// The access (`None`: the initial state) that left a value nobody has seen yet.
    unseen: Option<Option<usize>>,
}

impl Builder {
    fn new() -> Self {
        Builder {
            accesses: Vec::new(),
            numbers: FxHashMap::default(),
            next: 1,
            initial: 0,
            current: 0,
            unseen: Some(None),
        }
    }

    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn number(&mut self, bytes: &[u8]) -> u32 {
        if let Some(&number) = self.numbers.get(bytes) {
            return number;
        }
        let number = self.fresh();
        self.numbers.insert(bytes.to_vec(), number);
        number
    }

    /// Returns whether the value read is the one that the trace left there.
    fn read(&mut self, node: Node, bytes: Option<&[u8]>) -> bool {
        let mut agrees = true;
        if let Some(bytes) = bytes {
            let seen = self.number(bytes);
            if self.unseen.is_some() {
                // Reads since then whose values are not known saw the same.
                let unknown = Some(self.current);
                let since = self.accesses.iter_mut().rev();
                since
                    .take_while(|access| access.needs == unknown && access.writes.is_none())
                    .for_each(|access| access.needs = Some(seen));
            }
            match self.unseen.take() {
                Some(None) => (self.initial, self.current) = (seen, seen),
                Some(Some(writer)) => {
                    self.accesses[writer].writes = Some(seen);
                    self.current = seen;
                }
                None => agrees = seen == self.current,
            }
        }
        self.accesses.push(Access {
            node,
            needs: Some(self.current),
            writes: None,
        });
        agrees
    }

    fn write(&mut self, node: Node, bytes: Option<&[u8]>) {
        let number = match bytes {
            Some(bytes) => self.number(bytes),
            None => self.fresh(),
        };
        self.current = number;
        match self.accesses.last_mut() {
            Some(access) if access.node == node => access.writes = Some(number),
            _ => self.accesses.push(Access {
                node,
                needs: None,
                writes: Some(number),
            }),
        }
        self.unseen = bytes.is_none().then_some(Some(self.accesses.len() - 1));
    }
}

/// The registers of all shared locations, and how many reads did not see the last write that the
/// trace has: something that is not recorded wrote there. They need the write before them.
pub(super) fn locations(model: &Model<'_>, meaning: Meaning) -> (Vec<Register>, usize) {
    if meaning == Meaning::Optimistic {
        return (Vec::new(), 0);
    }
    let trace = model.trace;
    let mut builders: FxHashMap<u32, Builder> = FxHashMap::default();
    let mut mismatches = 0;
    let mut values = trace.values.iter().peekable();
    for (i, event) in trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        while values.next_if(|value| value.event < here).is_some() {}
        let value = values.next_if(|value| value.event == here);
        let Some(touch) = Touch::of(event.op) else {
            continue;
        };
        let value = value.filter(|_| meaning == Meaning::SameValues);
        for location in model.locations.of_event(here).map(LocationId) {
            if !model.locations.is_shared_and_written(location) {
                continue;
            }
            let (address, size) = model.locations.bytes(location);
            let offset = (address - touch.access.address) as usize;
            let part = |bytes: &'_ Vec<u8>| -> Option<std::ops::Range<usize>> {
                let range = offset..offset + size as usize;
                (range.end <= bytes.len()).then_some(range)
            };
            let builder = builders.entry(location.0).or_insert_with(Builder::new);
            let node = Node(i as u32);
            if touch.reads {
                let bytes = value.and_then(|v| part(&v.read).map(|range| &v.read[range]));
                mismatches += usize::from(!builder.read(node, bytes));
            }
            if touch.writes {
                let bytes = value.and_then(|v| part(&v.written).map(|range| &v.written[range]));
                builder.write(node, bytes);
            }
        }
    }
    let mut builders: Vec<(u32, Builder)> = builders.into_iter().collect();
    builders.sort_unstable_by_key(|&(location, _)| location);
    let registers = builders
        .into_iter()
        .map(|(_, builder)| Register::new(model, builder.accesses, builder.initial))
        .collect();
    (registers, mismatches)
}

/// A `once`: its first runner needs it untouched, who passes needs it done.
pub(super) fn onces(model: &Model<'_>) -> Vec<Register> {
    const IDLE: u32 = 0;
    const RUNNING: u32 = 1;
    const DONE: u32 = 2;
    let mut accesses: Vec<Vec<Access>> = vec![Vec::new(); model.trace.objects.len()];
    for (i, event) in model.trace.events.iter().enumerate() {
        let node = Node(i as u32);
        let (object, needs, writes) = match event.op {
            Op::OnceBegin(o) => (o, Some(IDLE), Some(RUNNING)),
            Op::OnceEnd(o) => (o, None, Some(DONE)),
            Op::OncePass(o) => (o, Some(DONE), None),
            _ => continue,
        };
        accesses[object.index()].push(Access {
            node,
            needs,
            writes,
        });
    }
    let used = accesses.into_iter().filter(|accesses| !accesses.is_empty());
    used.map(|accesses| Register::new(model, accesses, IDLE))
        .collect()
}

impl Register {
    fn new(model: &Model<'_>, accesses: Vec<Access>, initial: u32) -> Self {
        let mut of_value: FxHashMap<u32, Vec<Node>> = FxHashMap::default();
        for access in &accesses {
            if let Some(value) = access.writes {
                of_value.entry(value).or_default().push(access.node);
            }
        }
        let writes = ByThread::new(of_value.values().flatten().copied(), model);
        let sources = of_value.into_iter();
        let sources = sources
            .map(|(value, nodes)| (value, ByThread::new(nodes, model)))
            .collect();
        Register {
            accesses,
            initial,
            writes,
            sources,
            needs: None,
        }
    }

    pub fn set_needs(&mut self, needs: std::rc::Rc<Needs>) {
        self.needs = Some(needs);
    }

    /// The accesses that write this value; `None` when there are none.
    pub fn sources(&self, value: u32) -> Option<&ByThread> {
        self.sources.get(&value)
    }

    /// Writer and reader, for reads that can see one write only. Not in branch mode, where a read
    /// may see something else.
    pub fn only_writers(&self) -> impl Iterator<Item = (Node, Node)> + '_ {
        self.accesses.iter().filter_map(|access| {
            let value = access.needs?;
            let writer = self.sources(value)?.only()?;
            let only = self.needs.is_none() && value != self.initial;
            (only && writer < access.node).then_some((writer, access.node))
        })
    }

    /// The part "this read need not see its value".
    fn released(&self, read: Node, formula: &mut Formula) -> Part {
        match &self.needs {
            None => Part::Absent(read),
            Some(needs) => Part::Literal(needs.released(read, formula)),
        }
    }

    /// Clauses that `read` sees something else than `seen`, the wrong write that it sees now.
    fn refuse(&self, sight: &Sight<'_>, read: &Access, seen: Node, formula: &mut Formula) {
        let released = self.released(read.node, formula);
        let value = read.needs.expect("only reads are refused");
        // A right write has to come between the wrong one and the read.
        let sources = self.sources(value).into_iter();
        let mut parts: Vec<Part> = sources
            .flat_map(|sources| sources.between(sight, seen, read.node))
            .collect();
        parts.push(Part::Before(read.node, seen));
        prefer_observed(&mut parts);
        parts.push(released);
        sight.frame.clause(formula, parts);
    }

    /// Clauses that `read` does not stand before all writes, where it needs one.
    fn refuse_initial(&self, sight: &Sight<'_>, read: &Access, formula: &mut Formula) {
        let released = self.released(read.node, formula);
        let value = read.needs.expect("only reads are refused");
        let sources = self.sources(value).into_iter();
        let mut parts: Vec<Part> = sources
            .flat_map(|sources| sources.first_after(sight, read.node))
            .map(|source| Part::Before(source, read.node))
            .collect();
        prefer_observed(&mut parts);
        parts.push(released);
        sight.frame.clause(formula, parts);
    }
}

impl Register {
    /// Adds a clause when an access does not see what it needs: `writer` wrote last.
    pub fn check(&self, access: u32, writer: u32, sight: &Sight<'_>, formula: &mut Formula) {
        let access = &self.accesses[access as usize];
        let Some(value) = access.needs else { return };
        if writer == NOBODY {
            if value != self.initial {
                self.refuse_initial(sight, access, formula);
            }
        } else {
            let seen = &self.accesses[writer as usize];
            if seen.writes != Some(value) {
                self.refuse(sight, access, seen.node, formula);
            }
        }
    }
}

impl Register {
    /// Whether every read that takes place needs its value: not in branch mode.
    pub fn always_counts(&self) -> bool {
        self.needs.is_none()
    }

    /// The accesses that write, by thread.
    pub fn writes(&self) -> &ByThread {
        &self.writes
    }

    /// Adds everything, for another solver.
    pub fn all(&self, frame: &Frame, formula: &mut Formula) {
        let writes: Vec<&Access> = self
            .accesses
            .iter()
            .filter(|access| access.writes.is_some())
            .collect();
        for read in &self.accesses {
            let Some(value) = read.needs else { continue };
            let released = match &self.needs {
                None => Part::Absent(read.node),
                Some(needs) => Part::Literal(needs.irrelevant(frame, read.node, formula)),
            };
            let others = || writes.iter().filter(|write| write.node != read.node);
            let mut choice = vec![released];
            if value == self.initial {
                let initial = formula.boolean(false);
                choice.push(Part::Literal(initial));
                for write in others().filter(|write| write.writes != Some(value)) {
                    let parts = [Part::Literal(!initial), Part::Before(read.node, write.node)];
                    frame.clause(formula, parts);
                }
            }
            for source in others().filter(|write| write.writes == Some(value)) {
                if frame.ordered(read.node, source.node) {
                    continue;
                }
                let chosen = formula.boolean(false);
                choice.push(Part::Literal(chosen));
                let not = Part::Literal(!chosen);
                frame.clause(formula, [not, Part::Before(source.node, read.node)]);
                // In branch mode the source is one write and not any of the same value, since
                // its own reads have to be right.
                for write in others().filter(|write| {
                    write.node != source.node
                        && (write.writes != Some(value) || self.needs.is_some())
                }) {
                    let outside = [
                        not,
                        Part::Before(write.node, source.node),
                        Part::Before(read.node, write.node),
                    ];
                    frame.clause(formula, outside);
                }
                if let Some(needs) = &self.needs {
                    needs.pass_on_always(frame, read.node, source.node, chosen, formula);
                }
            }
            frame.clause(formula, choice);
        }
    }
}
