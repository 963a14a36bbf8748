//! The functions of libstdc++ behind `std::thread` and `std::condition_variable`.

use super::thread::{signal, wait};
use super::{Call, Done, Flow, Model, int};
use crate::machine::give_up;
use crate::memory::function_at;
use crate::state::{Resume, Status};
use crate::synchronisation::Wait;

/// What libstdc++ adds to the number of a thread is our `pthread_t`.
const HANDLE: u64 = 0x7000_0000_0000;

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE" => {
            start
        }
        "_ZNSt6thread4joinEv" => join,
        "_ZNSt6thread6detachEv" => |call| {
            call.store(call.argument(0), 8, 0)?;
            int(0)
        },
        "_ZNSt6thread6_StateD2Ev"
        | "_ZNSt18condition_variableC1Ev"
        | "_ZNSt18condition_variableD1Ev" => |_| int(0),
        "_ZNSt6thread20hardware_concurrencyEv" => |_| int(2),
        "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE" => |call| {
            // A `unique_lock` begins with the pointer to its mutex.
            call.arguments[1] = call.load(call.argument(1), 8)?;
            wait(call, None, 0)
        },
        "_ZNSt18condition_variable10notify_oneEv" => |call| signal(call, 1),
        "_ZNSt18condition_variable10notify_allEv" => |call| signal(call, usize::MAX),
        // The results of promises and futures: a pointer to an exception, which is null until it is set.
        "_ZNSt13__future_base12_Result_baseC2Ev" => |call| {
            call.store(call.argument(0) + 8, 8, 0)?;
            int(0)
        },
        "_ZNSt13__future_base12_Result_baseD2Ev" | "_ZNSt13__future_base13_State_baseV2D2Ev" => {
            |_| int(0)
        }
        "_ZNSt28__atomic_futex_unsigned_base19_M_futex_notify_allEPj" => |call| {
            let word = call.argument(0);
            call.wake_futex(word, usize::MAX);
            Ok(Flow::Yield(0))
        },
        "_ZNSt28__atomic_futex_unsigned_base19_M_futex_wait_untilEPjjbNSt6chrono8durationIlSt5ratioILl1ELl1EEEENS2_IlS3_ILl1ELl1000000000EEEE" => {
            wait_for_word
        }
        _ => return None,
    })
}

/// Waits while a word has a value, perhaps until a time: `(this, word, value, has a deadline, seconds, parts)`.
fn wait_for_word(call: &mut Call<'_, '_>) -> Done {
    let (word, value) = (call.argument(1), call.argument(2) & 0xffff_ffff);
    let current = call.machine.state.current;
    if let Resume::Woken { timed_out } =
        std::mem::replace(&mut call.machine.thread().resume, Resume::None)
    {
        let futexes = &mut call.machine.state.synchronisation_mut().futexes;
        futexes
            .entry(word)
            .or_default()
            .retain(|&one| one != current);
        return Ok(Flow::Yield(u64::from(!timed_out)));
    }
    if call.load(word, 4)? != value {
        return Ok(Flow::Yield(1));
    }
    let has_deadline = call.argument(3) & 1 == 1;
    let time = call
        .argument(4)
        .saturating_mul(1_000_000_000)
        .saturating_add(call.argument(5));
    let futexes = &mut call.machine.state.synchronisation_mut().futexes;
    futexes.entry(word).or_default().push(current);
    Ok(Flow::Wait(Wait::Futex(word), has_deadline.then_some(time)))
}

/// `thread::_M_start_thread(unique_ptr<_State>, void (*)())`: the state's virtual function `_M_run` is the
/// third of its table, after the two destructors.
fn start(call: &mut Call<'_, '_>) -> Done {
    let state = call.load(call.argument(1), 8)?;
    let table = call.load(state, 8)?;
    let run = call.load(table + 16, 8)?;
    if function_at(run).is_none() {
        return give_up("a thread of C++ without a function");
    }
    // The new thread owns the state.
    call.store(call.argument(1), 8, 0)?;
    let thread = call.start(run, state)?;
    let delete = call.load(table + 8, 8)?;
    let handler = crate::state::Handler {
        function: delete,
        argument: state,
    };
    call.machine.state.threads[thread].at_end.insert(0, handler);
    call.store(call.argument(0), 8, HANDLE + thread as u64)?;
    Ok(Flow::Yield(0))
}

fn join(call: &mut Call<'_, '_>) -> Done {
    let handle = call.load(call.argument(0), 8)?;
    let Some(thread) = handle.checked_sub(HANDLE).map(|number| number as usize) else {
        return give_up("join of a std::thread that cannot be joined");
    };
    if call.machine.state.threads[thread].status != Status::Ended {
        return Ok(Flow::Wait(Wait::Thread(thread), None));
    }
    call.machine.join_clock(thread);
    call.machine.state.threads[thread].is_joined = true;
    call.store(call.argument(0), 8, 0)?;
    Ok(Flow::Yield(0))
}
