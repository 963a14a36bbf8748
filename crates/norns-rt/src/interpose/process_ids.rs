//! Functions that tell the id of a process, or take one: in replays the program knows itself by the id of
//! the recorded run (`inputs::process_id`). Those that send signals are in `signals`.

use core::ffi::{c_int, c_void};

use crate::inputs::process_id::{asked, real as real_id, shown};
use crate::{interpose, real};

type Place = *mut c_void;

mod real_functions {
    use super::*;

    real! {
        fn getpid() -> c_int;
        fn getppid() -> c_int;
        fn gettid() -> c_int;
        fn getpgrp() -> c_int;
        fn getpgid(process: c_int) -> c_int;
        fn getsid(process: c_int) -> c_int;
        fn setpgid(process: c_int, group: c_int) -> c_int;
        fn getpriority(which: c_int, who: c_int) -> c_int;
        fn setpriority(which: c_int, who: c_int, priority: c_int) -> c_int;
        fn prlimit(process: c_int, resource: c_int, new: Place, old: Place) -> c_int;
        fn prlimit64(process: c_int, resource: c_int, new: Place, old: Place) -> c_int;
        fn sched_getaffinity(process: c_int, size: usize, mask: Place) -> c_int;
        fn sched_setaffinity(process: c_int, size: usize, mask: Place) -> c_int;
        fn sched_getscheduler(process: c_int) -> c_int;
        fn sched_setscheduler(process: c_int, policy: c_int, parameter: Place) -> c_int;
        fn sched_getparam(process: c_int, parameter: Place) -> c_int;
        fn sched_setparam(process: c_int, parameter: Place) -> c_int;
        fn sched_rr_get_interval(process: c_int, interval: Place) -> c_int;
    }
}

use real_functions as real_call;

interpose! {
    fn getpid() -> c_int |pc| {
        asked(real_call::getpid())
    }
    fn getppid() -> c_int |pc| {
        shown(real_call::getppid())
    }
    // The first thread has the id of the process.
    fn gettid() -> c_int |pc| {
        asked(real_call::gettid())
    }
    fn getpgrp() -> c_int |pc| {
        asked(real_call::getpgrp())
    }
    fn getpgid(process: c_int) -> c_int |pc| {
        asked(real_call::getpgid(real_id(process)))
    }
    fn getsid(process: c_int) -> c_int |pc| {
        asked(real_call::getsid(real_id(process)))
    }
    fn setpgid(process: c_int, group: c_int) -> c_int |pc| {
        real_call::setpgid(real_id(process), real_id(group))
    }
    fn getpriority(which: c_int, who: c_int) -> c_int |pc| {
        real_call::getpriority(which, real_id(who))
    }
    fn setpriority(which: c_int, who: c_int, priority: c_int) -> c_int |pc| {
        real_call::setpriority(which, real_id(who), priority)
    }
    fn prlimit(process: c_int, resource: c_int, new: Place, old: Place) -> c_int |pc| {
        real_call::prlimit(real_id(process), resource, new, old)
    }
    fn prlimit64(process: c_int, resource: c_int, new: Place, old: Place) -> c_int |pc| {
        real_call::prlimit64(real_id(process), resource, new, old)
    }
    fn sched_getaffinity(process: c_int, size: usize, mask: Place) -> c_int |pc| {
        real_call::sched_getaffinity(real_id(process), size, mask)
    }
    fn sched_setaffinity(process: c_int, size: usize, mask: Place) -> c_int |pc| {
        real_call::sched_setaffinity(real_id(process), size, mask)
    }
    fn sched_getscheduler(process: c_int) -> c_int |pc| {
        real_call::sched_getscheduler(real_id(process))
    }
    fn sched_setscheduler(process: c_int, policy: c_int, parameter: Place) -> c_int |pc| {
        real_call::sched_setscheduler(real_id(process), policy, parameter)
    }
    fn sched_getparam(process: c_int, parameter: Place) -> c_int |pc| {
        real_call::sched_getparam(real_id(process), parameter)
    }
    fn sched_setparam(process: c_int, parameter: Place) -> c_int |pc| {
        real_call::sched_setparam(real_id(process), parameter)
    }
    fn sched_rr_get_interval(process: c_int, interval: Place) -> c_int |pc| {
        real_call::sched_rr_get_interval(real_id(process), interval)
    }
}
