//! Why a program did not follow its schedule, in a sentence.
//!
//! Operations and places are named as every view names them. An object or a place that is not in
//! the recording is named from the symbols of the run that came to it.

use norns_replay::report::{Diverged, Operation, Report, Why};
use norns_replay::{Ended, Left};
use norns_report::describe::{
    base_name, describe, is_of_the_system, memory_name, operation_words, place_name,
};
use norns_trace::operation::Operands;
use norns_trace::symbolise::Symboliser;
use norns_trace::{Access, AtomicKind, EventIndex, MemoryOrder, ObjectId, Op, Trace};
use norns_wire::Code;

/// Why a run did not follow its schedule.
pub fn of_run(trace: &Trace, report: &Report, ended: &Ended) -> String {
    match &report.diverged {
        Some(diverged) => Divergence::new(trace, report, diverged).sentence(),
        None => format!("the program {}", ended.describe()),
    }
}

/// Why a replay did not follow its witness.
pub fn of_replay(trace: &Trace, report: &Report, left: &Left) -> String {
    match left {
        Left::Diverged(diverged) => Divergence::new(trace, report, diverged).sentence(),
        Left::Ended(ended) => format!(
            "the program {} before the schedule was done",
            ended.describe()
        ),
    }
}

struct Divergence<'a> {
    trace: &'a Trace,
    report: &'a Report,
    diverged: &'a Diverged,
}

impl<'a> Divergence<'a> {
    fn new(trace: &'a Trace, report: &'a Report, diverged: &'a Diverged) -> Self {
        Self {
            trace,
            report,
            diverged,
        }
    }

    fn sentence(&self) -> String {
        let thread = &self.diverged.thread;
        let came_to = self.came_to();
        let expected = self.expected();
        match self.diverged.why {
            Why::AnotherOperation => {
                format!("{thread} came to {came_to} where the schedule expects {expected}")
            }
            Why::CannotSucceed => {
                format!("{thread} came to {came_to} as the schedule expects, but has to wait there")
            }
            Why::IsBlocked => {
                format!("{thread} waits in {came_to} where the schedule expects {expected}")
            }
            Why::Sleeps => format!(
                "{thread} sleeps in a wait that Norns cannot see into and that no running thread is \
                 left to end, where the schedule expects {expected}"
            ),
            Why::DoesNotCome => format!(
                "{thread} polls or sleeps, and does not come to where the schedule expects \
                 {expected}"
            ),
            Why::NotCreated => {
                format!("{thread} was not created where the schedule expects its {expected}")
            }
            Why::OtherExchange => {
                format!("{thread} came to {expected}, and the exchange went the other way")
            }
            Why::HasEnded => {
                format!("{thread} ended where the schedule expects {expected}")
            }
            Why::ProgramEnds => {
                format!("the program ended where the schedule expects {thread} to do {expected}")
            }
        }
    }

    fn expected(&self) -> String {
        let Some(event) = self.diverged.expected_event else {
            return "nothing more".into();
        };
        if event.index() >= self.trace.events.len() {
            return "nothing more".into();
        }
        let what = describe(self.trace, event).what;
        format!("`{what}`{}", at(&place_name(self.trace, event)))
    }

    fn came_to(&self) -> String {
        format!("{}{}", self.operation(), at(&self.place()))
    }

    fn operation(&self) -> String {
        let Some(operation) = self.diverged.operation else {
            return "no operation".into();
        };
        let address = operation.address;
        let op = match operation.code {
            // The runtime's own number of the other thread would tell the user nothing.
            Code::Fork => return "the creation of a thread".into(),
            Code::Join => return "a join".into(),
            Code::Custom => return "an event of its own".into(),
            Code::Atomic => Some(Op::Atomic {
                address,
                size: 1,
                kind: AtomicKind::from_number(operation.atomic),
                order: MemoryOrder::SeqCst,
            }),
            _ => self.recorded(operation),
        };
        match op {
            Some(op) => format!("`{}`", operation_words(self.trace, op)),
            None if address == 0 => "another operation".into(),
            None => format!("an operation on `{}`", self.name(address)),
        }
    }

    /// The same operation in the recording: at this place, or else on this object. The place comes
    /// first because an object on a stack or the heap can have another address in every run.
    fn recorded(&self, operation: Operation) -> Option<Op> {
        let Operation {
            code, address, pc, ..
        } = operation;
        let is_it = |op: &Op| op.object().is_some() && op.kind().code == code;
        let events = self.trace.events.iter();
        let mut here = events
            .filter(|event| self.trace.place(event.place).pc == pc)
            .map(|event| event.op);
        here.find(is_it).or_else(|| {
            let mut objects = self.trace.objects.iter();
            let object = objects.rposition(|object| object.address == address)?;
            Op::with_code(code, Operands::Object(ObjectId::from_index(object)))
        })
    }

    fn name(&self, address: u64) -> String {
        let name = Symboliser::new([self.report.maps.as_str()]).name_of(address);
        if name.is_empty() {
            memory_name(self.trace, Access { address, size: 1 })
        } else {
            name
        }
    }

    /// Where the thread is, in the words of the trace if the place occurs there.
    fn place(&self) -> String {
        let Some(Operation { pc, .. }) = self.diverged.operation else {
            return String::new();
        };
        let mut events = self.trace.events.iter();
        if let Some(index) = events.position(|event| self.trace.place(event.place).pc == pc) {
            return place_name(self.trace, EventIndex::from_index(index));
        }
        let mut symbols = Symboliser::new([self.report.maps.as_str()]);
        let frames = symbols.frames(pc);
        let own = frames.iter().find(|frame| !is_of_the_system(frame));
        match own.or(frames.first()) {
            Some(frame) if frame.line > 0 => format!("{}:{}", base_name(&frame.file), frame.line),
            _ => format!("{pc:#x}"),
        }
    }
}

fn at(place: &str) -> String {
    if place.is_empty() {
        String::new()
    } else {
        format!(" at {place}")
    }
}
