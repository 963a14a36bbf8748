//! From a witness to the schedule that the runtime enforces.
//!
//! Synchronisation and atomic operations become steps, in the witness's order. Plain accesses
//! are left out, as in section 5.4 of Carril (2017), except the two of a race, before
//! which their threads are held, and with `Accesses::Ordered` those that the witness orders
//! while its synchronisation does not: they can decide which way the program goes.
//!
//! What main did before it created the first thread is not a step: nothing is recorded before, and
//! the trace has only the state that the recording began with.

use std::collections::{BTreeMap, BTreeSet};

use norns_model::{Bug, Witness};
use norns_trace::operation::{Operands, Operation, Turn};
use norns_trace::{Event, EventIndex, Op, ThreadId, Touch, TouchKind, Trace};
use norns_wire::environment::FAILURE;
use norns_wire::schedule::{HEADER, Hold, Record, Step, What};

/// Which plain accesses the schedule orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accesses {
    /// None: a thread makes its accesses when it comes to them.
    Free,
    /// Conflicting accesses of different threads keep the order of the witness.
    Ordered,
}

/// How a replay tries to show a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It enforces the witness's schedule and then holds the threads of a race before their
    /// accesses to the recorded addresses.
    Schedule(Accesses),
    /// It enforces the witness's schedule; then threads linger at the places of the race, whatever
    /// the address is, since memory can lie elsewhere in another run.
    Near,
    /// It enforces no schedule; threads linger at the places of the bug.
    Hunt,
    /// It enforces the order of the custom events of a broken rule and nothing else.
    Events,
    /// As `Hunt`, with random priorities of the threads, drawn from this seed.
    Priorities(u64),
}

/// The text of the schedule for this way.
pub fn of(trace: &Trace, witness: &Witness, way: Way) -> String {
    match way {
        Way::Schedule(accesses) => of_witness(trace, witness, accesses),
        Way::Near => {
            let mut writer = Writer::new(trace);
            for &event in &witness.schedule {
                writer.event(event);
            }
            linger(trace, &witness.bug, &mut writer.text);
            writer.text
        }
        Way::Events => of_events(trace, witness),
        Way::Hunt | Way::Priorities(_) => of_hunt(trace, &witness.bug),
    }
}

/// The schedule of a witness.
fn of_witness(trace: &Trace, witness: &Witness, accesses: Accesses) -> String {
    let mut writer = Writer::new(trace);
    if accesses == Accesses::Ordered {
        writer.ordered = conflicting_accesses(trace, &witness.schedule);
    }
    for &event in &witness.schedule {
        writer.event(event);
    }
    if let Bug::Race { first, second } = witness.bug {
        writer.hold(first);
        writer.hold(second);
    }
    writer.text
}

/// The schedule that the recorded run itself followed.
pub fn of_recording(trace: &Trace) -> String {
    let mut writer = Writer::new(trace);
    for index in 0..trace.events.len() {
        writer.event(EventIndex::from_index(index));
    }
    writer.text
}

/// A schedule that asks for nothing.
pub fn empty() -> String {
    format!("{HEADER}\n")
}

/// The custom events of a witness, in its order. Those of main before the first thread take no turn.
fn of_events(trace: &Trace, witness: &Witness) -> String {
    let mut writer = Writer::new(trace);
    line(&mut writer.text, Record::EventsOnly);
    let main = writer.before_first_fork.take();
    let is_fork = |event: &Event| Some(event.thread) == main && matches!(event.op, Op::Fork(_));
    let first_fork = trace.events.iter().position(is_fork);
    for &index in &witness.schedule {
        let event = trace.events[index.index()];
        let is_early = Some(event.thread) == main && Some(index.index()) < first_fork;
        if matches!(event.op, Op::Custom(_)) && !is_early {
            writer.event(index);
        }
    }
    writer.text
}

/// A schedule without steps: threads linger at the places of the bug.
fn of_hunt(trace: &Trace, bug: &Bug) -> String {
    let mut text = empty();
    linger(trace, bug, &mut text);
    text
}

fn linger(trace: &Trace, bug: &Bug, text: &mut String) {
    let mut pcs: Vec<u64> = bug
        .events()
        .iter()
        .map(|event| trace.place(trace.events[event.index()].place).pc)
        .collect();
    pcs.sort_unstable();
    pcs.dedup();
    for pc in pcs {
        line(text, Record::Hunt(pc));
    }
}

/// At how many places threads linger in one steering run.
const MOST_STEERED: usize = 64;

/// A schedule without steps for many races at once: threads linger at the places of all of them. Of
/// more than `MOST_STEERED` places the first.
pub fn of_steering<'b>(trace: &Trace, races: impl Iterator<Item = &'b Bug>) -> String {
    let mut text = empty();
    let mut known = BTreeSet::new();
    for event in races.flat_map(|bug| bug.events()) {
        let pc = trace.place(trace.events[event.index()].place).pc;
        if known.len() < MOST_STEERED && known.insert(pc) {
            line(&mut text, Record::Hunt(pc));
        }
    }
    text
}

/// Whether an access of the race is to memory that belongs to no named variable, and that can thus
/// lie elsewhere in another run. `false` for other bugs than races.
pub fn may_lie_elsewhere(trace: &Trace, bug: &Bug) -> bool {
    let Bug::Race { first, second } = bug else {
        return false;
    };
    [first, second].into_iter().any(|event| {
        let touch = Touch::of(trace.events[event.index()].op);
        let touch = touch.filter(|touch| touch.kind != TouchKind::Atomic);
        touch.is_some_and(|touch| trace.symbol_at(touch.access.address).is_none())
    })
}

/// Writes the schedule of a run.
struct Writer<'a> {
    trace: &'a Trace,
    text: String,
    /// Plain accesses that become steps.
    ordered: BTreeSet<EventIndex>,
    /// How many scheduling points each thread has had.
    points: Vec<u32>,
    /// The main thread, until its first fork: what it did before is not part of the schedule.
    before_first_fork: Option<ThreadId>,
}

impl<'a> Writer<'a> {
    fn new(trace: &'a Trace) -> Self {
        let mut text = format!("{HEADER}\n");
        for thread in &trace.threads {
            line(&mut text, Record::Thread(&thread.name));
        }
        let main = trace.threads.iter().position(|thread| thread.name == "T0");
        Self {
            trace,
            text,
            ordered: BTreeSet::new(),
            points: vec![0; trace.threads.len()],
            before_first_fork: main.map(ThreadId::from_index),
        }
    }

    fn event(&mut self, index: EventIndex) {
        let event = self.trace.events[index.index()];
        if self.before_first_fork == Some(event.thread) {
            if !matches!(event.op, Op::Fork(_)) {
                return;
            }
            self.before_first_fork = None;
        }
        let (what, mut address) = match event.op.plain_access() {
            Some((access, write)) if self.ordered.contains(&index) => {
                let size = access.size;
                (What::Access { size, write }, access.address)
            }
            _ => match point(self.trace, event.op) {
                Some(point) => {
                    self.points[event.thread.index()] += 1;
                    point
                }
                None => return,
            },
        };
        // Memory of the heap and of stacks can lie elsewhere in another run: 0 is any address.
        let numbers_a_thread = matches!(event.op.operands(), Operands::Thread(_));
        let is_plain = matches!(what, What::Access { .. });
        if !is_plain && !numbers_a_thread && self.trace.symbol_at(address).is_none() {
            address = 0;
        }
        let step = Step {
            thread: event.thread.0,
            what,
            address,
            pc: self.trace.place(event.place).pc,
            event: index.0,
        };
        line(&mut self.text, Record::Step(step));
    }

    fn hold(&mut self, index: EventIndex) {
        let event = self.trace.events[index.index()];
        let Some(touch) = Touch::of(event.op) else {
            return;
        };
        let hold = Hold {
            thread: event.thread.0,
            points: self.points[event.thread.index()],
            write: touch.writes,
            address: touch.access.address,
            size: touch.access.size,
            pc: self.trace.place(event.place).pc,
            event: index.0,
        };
        line(&mut self.text, Record::Hold(hold));
    }
}

fn line(text: &mut String, record: Record) {
    record
        .encode(text)
        .expect("writing to a string cannot fail");
    text.push('\n');
}

/// How many scheduling points the recorded run had.
pub fn count_points(trace: &Trace) -> usize {
    let events = trace.events.iter();
    events
        .filter(|event| point(trace, event.op).is_some())
        .count()
}

/// The step of an operation, and the address that it works on; for an operation on another thread
/// its number instead.
fn point(trace: &Trace, op: Op) -> Option<(What, u64)> {
    let Operation { code, turn, .. } = op.kind();
    let address = match op.operands() {
        Operands::None | Operands::Order(_) => 0,
        Operands::Thread(thread) => u64::from(thread.0),
        Operands::Object(object) | Operands::Counted(object, _) => trace.object(object).address,
        Operands::Memory(access) => access.address,
        Operands::Atomic { address, .. } => address,
        // A branch is told by the compiler's hook and a failure by a handler: they take no turn.
        Operands::Custom(custom)
            if matches!(&*trace.customs[custom as usize].name, "branch" | FAILURE) =>
        {
            return None;
        }
        Operands::Custom(_) => 0,
    };
    let what = if let Op::Atomic { kind, .. } = op {
        What::Atomic(kind.number())
    } else {
        What::Point(code as u8)
    };
    (turn == Turn::Scheduled).then_some((what, address))
}

/// The plain accesses of a schedule that conflict with the latest ones of other threads to the same
/// bytes: the schedule has to order them itself where its synchronisation does not. At most `MOST`;
/// of a large access only the first 16 granules are looked at.
fn conflicting_accesses(trace: &Trace, schedule: &[EventIndex]) -> BTreeSet<EventIndex> {
    const GRANULE: u64 = 8;
    const MOST: usize = 4096;
    // The latest accesses to the bytes of a granule: by which thread, whether it wrote, the event.
    let mut last: BTreeMap<u64, Vec<(ThreadId, bool, EventIndex)>> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for &index in schedule {
        let event = trace.events[index.index()];
        let Some((access, write)) = event.op.plain_access() else {
            continue;
        };
        let first = access.address / GRANULE;
        let end = (access.address + u64::from(access.size)).div_ceil(GRANULE);
        for granule in first..end.min(first + 16) {
            let known = last.entry(granule).or_default();
            for &(thread, wrote, earlier) in known.iter() {
                let (other, _) = trace.events[earlier.index()]
                    .op
                    .plain_access()
                    .expect("only plain accesses are kept");
                let conflicts = thread != event.thread && (write || wrote);
                if conflicts && other.overlaps(access) && found.len() < MOST {
                    found.insert(earlier);
                    found.insert(index);
                }
            }
            if write {
                known.clear();
            }
            known.retain(|(thread, _, _)| *thread != event.thread);
            known.push((event.thread, write, index));
        }
    }
    found
}
