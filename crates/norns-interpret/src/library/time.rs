//! Simulated time: an operation takes a nanosecond, and sleep takes what it says.

use super::{Call, Done, Flow, Model, int};
use crate::machine::Stop;
use crate::state::Resume;
use crate::synchronisation::Wait;

const SECOND: u64 = 1_000_000_000;

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "usleep" => |call| {
            let time = (call.argument(0) & 0xffff_ffff) * 1000;
            sleep(call, time)
        },
        "sleep" => |call| {
            let time = (call.argument(0) & 0xffff_ffff) * SECOND;
            sleep(call, time)
        },
        "nanosleep" | "thrd_sleep" => |call| {
            let time = duration(call, 0)?;
            sleep(call, time)
        },
        "clock_nanosleep" => |call| {
            let time = duration(call, 2)?;
            let now = call.machine.state.now();
            let is_absolute = call.argument(1) & 1 == 1;
            sleep(
                call,
                if is_absolute {
                    time.saturating_sub(now)
                } else {
                    time
                },
            )
        },
        "time" => |call| {
            let seconds = now(call) / SECOND;
            if call.argument(0) != 0 {
                call.store(call.argument(0), 8, seconds)?;
            }
            Ok(Flow::Return(seconds))
        },
        "clock_gettime" | "timespec_get" => |call| {
            let at = if call.name == "timespec_get" { 0 } else { 1 };
            let now = now(call);
            let address = call.argument(at);
            call.store(address, 8, now / SECOND)?;
            call.store(address + 8, 8, now % SECOND)?;
            int(if at == 0 { 1 } else { 0 })
        },
        "gettimeofday" => |call| {
            let now = now(call);
            call.store(call.argument(0), 8, now / SECOND)?;
            call.store(call.argument(0) + 8, 8, now % SECOND / 1000)?;
            int(0)
        },
        "difftime" => |call| {
            let seconds = call.argument(0) as i64 - call.argument(1) as i64;
            Ok(Flow::Return((seconds as f64).to_bits()))
        },
        "clock" => |call| Ok(Flow::Return(call.machine.state.steps / 1000)),
        "_ZNSt6chrono3_V212steady_clock3nowEv" | "_ZNSt6chrono3_V212system_clock3nowEv" => {
            |call| Ok(Flow::Return(now(call)))
        }
        _ => return None,
    })
}

/// The time, which a program that asks for it sees pass.
fn now(call: &mut Call<'_, '_>) -> u64 {
    call.machine.state.effects += 1;
    call.machine.state.now()
}

fn duration(call: &Call<'_, '_>, index: usize) -> Result<u64, Stop> {
    let address = call.argument(index);
    let (seconds, nanoseconds) = (call.load(address, 8)?, call.load(address + 8, 8)?);
    Ok(seconds.saturating_mul(SECOND).saturating_add(nanoseconds))
}

fn sleep(call: &mut Call<'_, '_>, time: u64) -> Done {
    let thread = call.machine.thread();
    if let Resume::Woken { .. } = std::mem::replace(&mut thread.resume, Resume::None) {
        return Ok(Flow::Yield(0));
    }
    let deadline = call.machine.state.now().saturating_add(time);
    Ok(Flow::Wait(Wait::Sleep, Some(deadline)))
}
