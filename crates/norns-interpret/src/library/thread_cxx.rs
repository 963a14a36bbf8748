//! The functions of libstdc++ behind `std::thread` and `std::condition_variable`.

use super::thread::{signal, wait};
use super::{Call, Done, Flow, Model, int};
use crate::machine::give_up;
use crate::memory::function_at;
use crate::state::Status;
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
        _ => return None,
    })
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
