//! Simulated time: an operation takes a nanosecond, and sleep takes what it says.

use super::{Call, Done, Flow, Model, int};
use crate::machine::Stop;
use crate::memory::{Region, address_of};
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
        "gmtime" | "gmtime_r" => |call| {
            let days_and_seconds = call.load(call.argument(0), 8)? as i64;
            let to = match call.name {
                "gmtime_r" => call.argument(1),
                _ => call.library_block(56),
            };
            put_calendar(call, to, days_and_seconds)?;
            Ok(Flow::Return(to))
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

impl Call<'_, '_> {
    /// The memory that a function of the library keeps for its results.
    fn library_block(&mut self, size: u64) -> u64 {
        let name = format!("block of {}", self.name).into_bytes();
        let memory = &mut self.machine.state.memory;
        let object = { self.machine.state.named.entry(name) }
            .or_insert_with(|| memory.allocate(size, Region::Library, true));
        address_of(*object)
    }
}

/// Stores a `struct tm` of universal time.
fn put_calendar(call: &mut Call<'_, '_>, to: u64, seconds: i64) -> Result<(), Stop> {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years begin with March here, so that a leap day is the last one of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(month < 2);
    let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let day_of_year = BEFORE[month as usize] + day - 1 + i64::from(is_leap && month > 1);
    let fields = [
        rest % 60,
        rest / 60 % 60,
        rest / 3600,
        day,
        month,
        year - 1900,
        (days + 4).rem_euclid(7),
        day_of_year,
        0,
    ];
    call.write(to, &[0; 56])?;
    for (at, field) in (0..).zip(fields) {
        call.store(to + 4 * at, 4, field as u64)?;
    }
    let name = call.machine.library_string(b"GMT");
    call.store(to + 48, 8, name)
}

/// The time, which a program that asks for it sees pass.
fn now(call: &mut Call<'_, '_>) -> u64 {
    call.machine.time()
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
    let deadline = call.until(time);
    Ok(Flow::Wait(Wait::Sleep, Some(deadline)))
}
