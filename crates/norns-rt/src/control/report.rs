//! What the core reports, as messages of `wire::report`.

use core::sync::atomic::{AtomicBool, Ordering};

use norns_control::{Access, Core, Diverged, Line, Operation, Slot, Stop};

use super::output::tell;
use super::thread::numbered;
use crate::sys;
use crate::thread::MAX_DEPTH;
use crate::wire::Code;
use crate::wire::report::{self, Expected, Message, Shape, Side, Stack};

/// Exit statuses of a process that the runtime ends itself.
const EXIT_DIVERGED: i32 = 81;
const EXIT_DEADLOCK: i32 = 82;

/// A debugger waits at `norns_stop_here`.
static STOPS_AT_BUG: AtomicBool = AtomicBool::new(false);

pub fn stop_at_bug() {
    STOPS_AT_BUG.store(true, Ordering::Relaxed);
}

/// The name of a thread; `?` if there is none with this number.
pub fn path_of(slot: Slot) -> &'static str {
    numbered(slot.0).map_or("?", |block| block.path.as_str())
}

/// Hands the program counters of the functions that the thread is in, innermost first, to `act`.
///
/// # Safety
/// The thread is the running one, or sleeps in the monitor, which is locked.
pub unsafe fn with_stack(slot: Slot, act: impl FnOnce(Stack)) {
    const MOST: usize = 64;
    let mut addresses = [0; MOST];
    let mut length = 0;
    let runtime = numbered(slot.0).map(|block| block.runtime.load(Ordering::Relaxed));
    if let Some(runtime) = runtime.filter(|runtime| !runtime.is_null()) {
        // SAFETY: `ControlThread::runtime` points to the block of a thread that has not ended, whose
        // stack only the thread itself changes; it does not run, or is the running one.
        let depth = unsafe { (&raw const (*runtime).stack.depth).read_volatile() };
        let depth = depth.min(MAX_DEPTH);
        for (at, address) in addresses.iter_mut().take(depth).enumerate() {
            // SAFETY: as above; the index is below `depth`.
            let frame = unsafe { &raw const (*runtime).stack.frames[depth - 1 - at] };
            // SAFETY: as above.
            *address = unsafe { (&raw const (*frame).pc).read_volatile() } as u64;
            length += 1;
        }
    }
    act(Stack::new(&addresses[..length]));
}

fn side(side: norns_control::Side) -> Side<'static> {
    let Access {
        address,
        size,
        write,
        pc,
        ..
    } = side.access;
    Side {
        thread: path_of(side.thread),
        access: if write {
            report::Access::Write
        } else {
            report::Access::Read
        },
        address: address as u64,
        size: size as u32,
        pc: pc as u64,
    }
}

/// Reports what the run went through.
pub fn tell_line(core: &Core<'static>, line: Line) {
    match line {
        Line::Followed { steps } => tell(Message::Followed {
            steps: steps as u64,
        }),
        Line::Skipped { thread, event } => tell(Message::Skipped {
            thread: path_of(thread),
            event,
        }),
        Line::Held(one, other) => {
            tell(Message::Held(side(one), side(other)));
            if STOPS_AT_BUG.load(Ordering::Relaxed) {
                norns_stop_here();
            }
        }
        Line::Unheld { thread, other, why } => tell(Message::Unheld {
            thread: path_of(thread),
            other: other.map_or_else(|number| core.schedule().name(number), path_of),
            why,
        }),
        Line::Spin {
            thread,
            address,
            pc,
            reads,
        } => tell(Message::Spin {
            thread: path_of(thread),
            address: address as u64,
            pc: pc as u64,
            reads,
        }),
    }
}

/// Reports why the process ends, and ends it.
pub fn stop(core: &Core<'static>, stop: Stop) -> ! {
    match stop {
        Stop::Diverged(diverged) => {
            tell_diverged(core, diverged);
            end_process(EXIT_DIVERGED)
        }
        Stop::Cycle(me) => {
            let cycle = core.cycle(me);
            let slots = cycle.as_ref().map_or(&[][..], |cycle| cycle.slots());
            tell(Message::Deadlock {
                shape: Shape::Cycle,
                threads: slots.len() as u32,
            });
            for (slot, operation) in slots
                .iter()
                .flat_map(|slot| core.blocked_threads().find(|(other, _)| other == slot))
            {
                tell_blocked(core, slot, operation);
            }
        }
        Stop::Stuck => {
            tell(Message::Deadlock {
                shape: Shape::Stuck,
                threads: core.blocked_threads().count() as u32,
            });
            for (slot, operation) in core.blocked_threads() {
                tell_blocked(core, slot, operation);
            }
        }
    }
    tell(Message::DeadlockEnd);
    if STOPS_AT_BUG.load(Ordering::Relaxed) {
        norns_stop_here();
    }
    end_process(EXIT_DEADLOCK)
}

fn tell_diverged(core: &Core<'static>, diverged: Diverged) {
    let schedule = core.schedule();
    let head = schedule.steps.get(core.cursor());
    tell(Message::Diverged(report::Diverged {
        thread: diverged
            .thread
            .map_or_else(|number| schedule.name(number), path_of),
        operation: diverged.operation.map(|operation| report::Operation {
            code: operation.code,
            atomic: operation.atomic,
            address: operation.address as u64,
            pc: operation.pc as u64,
        }),
        expected: head.map(|step| Expected {
            step: core.cursor() as u64,
            thread: schedule.name(step.thread),
            event: step.event,
        }),
        why: diverged.why,
    }));
}

/// One thread of a deadlock, and who holds what it waits for.
fn tell_blocked(core: &Core<'static>, slot: Slot, operation: Operation) {
    let object = operation.address as u64;
    // SAFETY: a thread that the core calls blocked sleeps in the monitor, and `core` is locked.
    unsafe {
        with_stack(slot, |stack| {
            tell(Message::Waits {
                thread: path_of(slot),
                code: operation.code,
                object,
                pc: operation.pc as u64,
                stack,
            });
        });
    }
    if operation.code == Code::Join
        && let Some(child) = numbered(operation.address as u32)
    {
        tell(Message::HeldBy {
            thread: child.path.as_str(),
            object,
            pc: 0,
        });
    }
    for (holder, held) in core.holders(operation.address) {
        tell(Message::HeldBy {
            thread: path_of(holder),
            object,
            pc: held.pc as u64,
        });
    }
}

/// Debuggers set a breakpoint here.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn norns_stop_here() {
    // SAFETY: does nothing; keeps the function from being merged or left out.
    unsafe { core::arch::asm!("nop") };
}

/// Ends the process without running anything of the program.
fn end_process(status: i32) -> ! {
    const EXIT_GROUP: usize = 231;
    loop {
        // SAFETY: does not return.
        unsafe { sys::call(EXIT_GROUP, status as usize, 0, 0) };
    }
}
