//! Barriers.

use core::ffi::{c_int, c_void};

use super::begins_or_ends;
use crate::control;
use crate::mode::{is_controlled, is_off};
use crate::operation::Operation;
use crate::wire::{Code, object};
use crate::{interpose, real};

type Barrier = *mut c_void;

mod real_functions {
    use super::*;

    real! {
        fn pthread_barrier_init(barrier: Barrier, attributes: *const c_int, count: u32) -> c_int;
        fn pthread_barrier_destroy(barrier: Barrier) -> c_int;
        fn pthread_barrier_wait(barrier: Barrier) -> c_int;
    }
}

use real_functions as real_call;

interpose! {
    fn pthread_barrier_init(barrier: Barrier, attributes: *const c_int, count: u32) -> c_int |pc| {
        begins_or_ends(barrier, pc);
        let result = real_call::pthread_barrier_init(barrier, attributes, count);
        if result == 0 && !is_off() {
            // The attributes are one number: whether other processes can use it.
            let shared = !attributes.is_null() && *attributes != 0;
            let detail = object::BARRIER | if shared { object::SHARED } else { 0 };
            Operation::new(Code::Init, detail, barrier as usize, pc)
                .with_value(u64::from(count))
                .after(Code::Init);
        }
        result
    }

    fn pthread_barrier_destroy(barrier: Barrier) -> c_int |pc| {
        begins_or_ends(barrier, pc);
        let operation = Operation::new(Code::Destroy, object::BARRIER, barrier as usize, pc);
        let result = real_call::pthread_barrier_destroy(barrier);
        if result == 0 {
            operation.before();
            operation.after(Code::Destroy);
        }
        result
    }

    fn pthread_barrier_wait(barrier: Barrier) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_barrier_wait(barrier);
        }
        if is_controlled() {
            Operation::new(Code::BarrierEnter, object::BARRIER, barrier as usize, pc).announce();
            return control::barrier::wait(barrier, pc).unwrap_or_else(|| {
                control::barrier::watched(barrier, || {
                    real_call::pthread_barrier_wait(barrier)
                })
            });
        }
        let enter = Operation::new(Code::BarrierEnter, object::BARRIER, barrier as usize, pc);
        enter.before();
        enter.after(Code::BarrierEnter);
        let exit = Operation::new(Code::BarrierExit, object::BARRIER, barrier as usize, pc);
        exit.before();
        let result = real_call::pthread_barrier_wait(barrier);
        exit.after(Code::BarrierExit);
        result
    }
}
