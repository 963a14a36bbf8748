//! Exceptions and the small functions of the C++ runtime.

use std::rc::Rc;

use super::thread::{abort, at_thread_end};
use super::{Call, Done, Flow, Model, int};
use crate::machine::give_up;
use crate::memory::{Region, address_of, object_of};
use crate::state::{After, Exception, Resume};
use crate::synchronisation::{Once, Wait};

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "__cxa_allocate_exception" => |call| {
            let size = call.argument(0);
            let object = call
                .machine
                .state
                .memory
                .allocate(size, Region::Heap, false);
            Ok(Flow::Return(address_of(object)))
        },
        "__cxa_free_exception" => |call| {
            let block = call.machine.state.memory.heap_block(call.argument(0))?;
            call.machine.state.memory.release(block);
            int(0)
        },
        "__cxa_throw" => throw,
        "__cxa_begin_catch" => begin_catch,
        "__cxa_end_catch" => end_catch,
        "__cxa_rethrow" => rethrow,
        "__cxa_get_exception_ptr" => |call| Ok(Flow::Return(call.argument(0))),
        "_ZSt9terminatev" => |call| {
            call.machine.terminate()?;
            int(0)
        },
        "__cxa_pure_virtual" => |_| abort(),
        "__cxa_guard_acquire" => guard_acquire,
        "__cxa_guard_release" => guard_release,
        "__cxa_guard_abort" => guard_abort,
        "__cxa_thread_atexit" => at_thread_end,
        "_ZNSt13runtime_errorC1EPKc"
        | "_ZNSt13runtime_errorC2EPKc"
        | "_ZNSt11logic_errorC1EPKc"
        | "_ZNSt11logic_errorC2EPKc"
        | "_ZNSt12out_of_rangeC1EPKc"
        | "_ZNSt12length_errorC1EPKc"
        | "_ZNSt16invalid_argumentC1EPKc" => construct_error,
        "_ZNSt13runtime_errorD1Ev"
        | "_ZNSt13runtime_errorD2Ev"
        | "_ZNSt11logic_errorD1Ev"
        | "_ZNSt11logic_errorD2Ev"
        | "_ZNSt12out_of_rangeD1Ev"
        | "_ZNSt12length_errorD1Ev"
        | "_ZNSt16invalid_argumentD1Ev"
        | "_ZNSt9exceptionD2Ev" => |_| int(0),
        "_ZNSaIcEC1Ev" | "_ZNSaIcED1Ev" | "_ZNSaIcED2Ev" | "_ZNSaIcEC2Ev" => |_| int(0),
        _ => return None,
    })
}

/// An exception of the standard library: the table of its virtual functions, and its text.
fn construct_error(call: &mut Call<'_, '_>) -> Done {
    let text = call.string(1)?;
    let text = call.machine.library_string(&text);
    let table = call
        .machine
        .state
        .memory
        .allocate(64, Region::Foreign, true);
    call.store(call.argument(0), 8, address_of(table))?;
    call.store(call.argument(0) + 8, 8, text)?;
    int(0)
}

fn throw(call: &mut Call<'_, '_>) -> Done {
    let (object, r#type, destructor) = (call.argument(0), call.argument(1), call.argument(2));
    Rc::make_mut(&mut call.machine.state.exceptions).insert(
        object,
        Exception {
            r#type,
            destructor,
            handlers: 0,
            references: 1,
        },
    );
    call.machine.unwind(object)?;
    Ok(Flow::Elsewhere)
}

fn begin_catch(call: &mut Call<'_, '_>) -> Done {
    let object = call.argument(0);
    if let Some(exception) = Rc::make_mut(&mut call.machine.state.exceptions).get_mut(&object) {
        exception.handlers += 1;
    }
    call.machine.thread().caught.push(object);
    Ok(Flow::Return(object))
}

fn end_catch(call: &mut Call<'_, '_>) -> Done {
    if let Resume::Called(object) =
        std::mem::replace(&mut call.machine.thread().resume, Resume::None)
    {
        call.machine.state.memory.release(object_of(object));
        return int(0);
    }
    let Some(object) = call.machine.thread().caught.pop() else {
        return int(0);
    };
    let exceptions = Rc::make_mut(&mut call.machine.state.exceptions);
    let Some(exception) = exceptions.get_mut(&object) else {
        return int(0);
    };
    exception.handlers = exception.handlers.saturating_sub(1);
    if exception.handlers > 0 || exception.references > 1 {
        return int(0);
    }
    let destructor = exception.destructor;
    exceptions.remove(&object);
    if destructor == 0 {
        call.machine.state.memory.release(object_of(object));
        return int(0);
    }
    if call.machine.is_library(destructor) {
        // The destructor of a class of the standard library, whose content the interpreter does not own.
        call.machine.state.memory.release(object_of(object));
        return int(0);
    }
    call.machine.thread().resume = Resume::Called(object);
    call.machine
        .call_back(destructor, &[object], After::Again)?;
    Ok(Flow::Elsewhere)
}

fn rethrow(call: &mut Call<'_, '_>) -> Done {
    let Some(&object) = call.machine.thread().caught.last() else {
        call.machine.terminate()?;
        return int(0);
    };
    // The handler that is left does not destroy it: `__cxa_end_catch` runs on the way.
    if let Some(exception) = Rc::make_mut(&mut call.machine.state.exceptions).get_mut(&object) {
        exception.handlers += 1;
    }
    call.machine.unwind(object)?;
    Ok(Flow::Elsewhere)
}

fn guard_acquire(call: &mut Call<'_, '_>) -> Done {
    let address = call.argument(0);
    let current = call.machine.state.current;
    if call.load(address, 1)? != 0 {
        call.machine.acquire(address);
        return int(0);
    }
    let onces = &mut call.machine.state.synchronisation_mut().onces;
    match onces.get(&address) {
        Some(Once::Running(runner)) if *runner != current => {
            Ok(Flow::Wait(Wait::Once(address), None))
        }
        Some(Once::Running(_)) => give_up("a static variable that is initialised by itself"),
        Some(Once::Done) | None => {
            onces.insert(address, Once::Running(current));
            call.machine.acquire(address);
            Ok(Flow::Yield(1))
        }
    }
}

fn guard_release(call: &mut Call<'_, '_>) -> Done {
    let address = call.argument(0);
    let current = call.machine.state.current;
    call.machine.store_released(address, 1, 1)?;
    call.machine.drain_buffer(current)?;
    call.machine.release(address);
    call.machine
        .state
        .synchronisation_mut()
        .onces
        .insert(address, Once::Done);
    Ok(Flow::Yield(0))
}

fn guard_abort(call: &mut Call<'_, '_>) -> Done {
    let address = call.argument(0);
    call.machine
        .state
        .synchronisation_mut()
        .onces
        .remove(&address);
    Ok(Flow::Yield(0))
}
