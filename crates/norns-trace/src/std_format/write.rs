//! Writes the STD format.

use std::io::Write;

use super::StdError;
use crate::event::{Access, ObjectId, Op, ThreadId};
use crate::trace::Trace;

/// Writes what the format can express: `read` gives the same events back. Threads named only by
/// a number or by `T` and a number are the same to a reader.
pub fn write(trace: &Trace, output: &mut impl Write) -> Result<(), StdError> {
    for (index, event) in trace.events.iter().enumerate() {
        let unwritable = |problem: String| StdError::Unwritable {
            event: index,
            problem,
        };
        let checked = |name: &str| -> Result<String, StdError> {
            let usable = !name.is_empty() && !name.contains(|c: char| c.is_whitespace());
            usable
                .then(|| name.to_owned())
                .ok_or_else(|| unwritable(format!("{name:?} is not a name without white space")))
        };
        let object = |o: ObjectId| {
            let name = &trace.object(o).name;
            if name.is_empty() {
                Ok(format!("o{}", o.0))
            } else {
                checked(name)
            }
        };
        let variable = |access: Access| match trace.symbol_at(access.address) {
            Some(symbol) => checked(&symbol.name),
            None => Ok(format!("{:#x}", access.address)),
        };
        let thread = |t: ThreadId| checked(&trace.thread(t).name);
        let op = match event.op {
            Op::Read(access) => format!("r({})", variable(access)?),
            Op::Write(access) => format!("w({})", variable(access)?),
            Op::Lock(lock) => format!("acq({})", object(lock)?),
            Op::Unlock(lock) => format!("rel({})", object(lock)?),
            Op::Fork(child) => format!("fork({})", thread(child)?),
            Op::Join(child) => format!("join({})", thread(child)?),
            Op::Wait(condition) => format!("wait({})", object(condition)?),
            Op::Signal(condition) => format!("notify({})", object(condition)?),
            Op::Broadcast(condition) => format!("notifyAll({})", object(condition)?),
            Op::Enter => "begin".into(),
            Op::Leave => "end".into(),
            Op::Custom(custom) => {
                let custom = &trace.customs[custom as usize];
                match (custom.name.as_str(), custom.fields.as_slice()) {
                    ("branch", []) => "branch".into(),
                    ("req", [lock]) => format!("req({})", checked(lock)?),
                    (name, _) => return Err(unwritable(format!("custom event {name:?}"))),
                }
            }
            Op::Start
            | Op::End
            | Op::FailedJoin(_)
            | Op::Detach(_)
            | Op::FailedLock(_)
            | Op::ReadLock(_)
            | Op::FailedReadLock(_)
            | Op::OnceBegin(_)
            | Op::OnceEnd(_)
            | Op::OncePass(_)
            | Op::FailedWait(_)
            | Op::BarrierInit { .. }
            | Op::BarrierEnter(_)
            | Op::BarrierExit(_)
            | Op::SemInit { .. }
            | Op::SemWait(_)
            | Op::FailedSemWait(_)
            | Op::SemPost(_)
            | Op::Use(_)
            | Op::Destroy(_)
            | Op::Initialise(_)
            | Op::Take(_)
            | Op::FailedTake(_)
            | Op::Give(_)
            | Op::Misuse { .. }
            | Op::LoopExit(_)
            | Op::Send(_)
            | Op::Receive(_)
            | Op::Atomic { .. }
            | Op::Fence(_)
            | Op::Allocate(_)
            | Op::Free(_) => {
                let word = event.op.kind().word;
                return Err(unwritable(format!("it has no `{word}`")));
            }
        };
        let name = thread(event.thread)?;
        if name.contains('|') {
            return Err(unwritable(format!("{name:?} is no name of a thread")));
        }
        let location = trace.place(event.place).pc as i64;
        writeln!(output, "{name}|{op}|{location}").map_err(StdError::Write)?;
    }
    Ok(())
}
