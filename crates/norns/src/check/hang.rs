//! A hang of the recorded run, told with what the runtime saw of it.
//!
//! An operation that never returned is not in the trace. Here it is put behind its end, so that a
//! hang is shown like any other finding: who holds what, and who waits for it.

use norns_replay::report::{Deadlock, Waits};
use norns_report::{Finding, Sketch, Sources, sketch_of_hang};
use norns_trace::symbolise::Symboliser;
use norns_trace::trace::Place;
use norns_trace::{Event, ObjectId, Op, PlaceId, ThreadId, Trace};
use norns_wire::Code;

/// `None` when an object or thread of the hang is not in the trace.
pub fn sketch(
    trace: &Trace,
    deadlock: &Deadlock,
    finding: &Finding,
    symbols: &mut Symboliser,
    sources: Sources,
) -> Option<Sketch> {
    let mut trace = trace.clone();
    for place in &finding.places {
        let waits = deadlock
            .waits
            .iter()
            .find(|waits| waits.thread == place.thread)?;
        let event = Event {
            thread: thread(&trace, &waits.thread)?,
            op: operation(&trace, waits)?,
            place: PlaceId::from_index(trace.places.len()),
        };
        trace.places.push(Place {
            pc: waits.pc,
            frames: symbols.frames(waits.pc).to_vec(),
        });
        trace.events.push(event);
    }
    Some(sketch_of_hang(
        &trace,
        finding.places.len(),
        finding,
        sources,
    ))
}

fn thread(trace: &Trace, name: &str) -> Option<ThreadId> {
    let index = trace.threads.iter().position(|thread| thread.name == name);
    index.map(ThreadId::from_index)
}

fn operation(trace: &Trace, waits: &Waits) -> Option<Op> {
    let object = || {
        let mut objects = trace.objects.iter();
        let index = objects.rposition(|object| object.address == waits.object);
        index.map(ObjectId::from_index)
    };
    match waits.code {
        // The object is the number of the thread.
        Code::Join => {
            let holder = waits.held_by.first().map(|(name, _)| name.as_str());
            Some(Op::Join(holder.and_then(|name| thread(trace, name))?))
        }
        code => Op::blocked_at(code, object()?),
    }
}
