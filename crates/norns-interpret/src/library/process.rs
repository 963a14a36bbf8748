//! The process: its end, its environment, and the variadic arguments of functions.

use super::thread::abort;
use super::{Call, Done, Flow, Model, int};
use crate::machine::{Stop, give_up, type_selector};
use crate::memory::{Region, address_of};
use crate::op::Shape;
use crate::outcome::{Channel, End};
use crate::state::{After, Handler, Resume, Sort};
use crate::symbolic::Source;

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "exit" => |call| {
            call.machine.exit(call.arguments[0] as i32)?;
            Ok(Flow::Elsewhere)
        },
        "_exit" | "_Exit" => |call| Err(Box::new(End::Exited(call.int(0) & 0xff))),
        "abort" => |_| abort(),
        "llvm.trap" => |_| Err(Box::new(End::Signal(4))),
        "__assert_fail" => assert_fail,
        "atexit" => |call| {
            let handler = Handler {
                function: call.argument(0),
                argument: 0,
            };
            call.machine.state.exit_handlers.push(handler);
            int(0)
        },
        "__cxa_atexit" => |call| {
            let handler = Handler {
                function: call.argument(0),
                argument: call.argument(1),
            };
            call.machine.state.exit_handlers.push(handler);
            int(0)
        },
        "getenv" | "secure_getenv" => get_environment,
        "getpid" => |_| int(4242),
        "getppid" => |_| int(4241),
        "sysconf" => |call| match call.int(0) {
            30 => Ok(Flow::Return(4096)),
            83 | 84 => Ok(Flow::Return(2)),
            _ => give_up("sysconf"),
        },
        "getpagesize" => |_| int(4096),
        "prctl" => |call| match call.int(0) {
            // PR_SET_NAME
            15 => int(0),
            _ => give_up("prctl"),
        },
        // Nothing sends a signal: what does is not known.
        "signal" | "sigaction" | "sigemptyset" | "sigfillset" | "sigaddset" | "sigdelset"
        | "pthread_sigmask" | "sigprocmask" => |_| Ok(Flow::Return(0)),
        "setlocale" | "bindtextdomain" | "textdomain" => |_| Ok(Flow::Return(0)),
        "getuid" | "geteuid" | "getgid" | "getegid" => |_| int(1000),
        "sched_getcpu" => |_| int(0),
        "__errno_location" => |call| Ok(Flow::Return(call.machine.errno())),
        "qsort" => sort,
        "AnnotateRWLockAcquired" | "AnnotateRWLockReleased" => return None,
        _ if name.starts_with("llvm.va_start") => start_arguments,
        _ if name.starts_with("llvm.va_copy") => |call| {
            call.machine
                .state
                .memory
                .copy(call.arguments[0], call.arguments[1], 24)?;
            int(0)
        },
        _ if name.starts_with("llvm.stacksave") => {
            |call| Ok(Flow::Return(call.machine.thread().stack.len() as u64))
        }
        _ if name.starts_with("llvm.stackrestore") => restore_stack,
        _ if name.starts_with("llvm.eh.typeid.for") => {
            |call| Ok(Flow::Return(type_selector(call.argument(0))))
        }
        _ => return None,
    })
}

fn assert_fail(call: &mut Call<'_, '_>) -> Done {
    let text = String::from_utf8_lossy(&call.string(0)?).into_owned();
    let (file, function) = (call.string(1)?, call.string(3).unwrap_or_default());
    let line = call.int(2);
    let (file, function) = (
        String::from_utf8_lossy(&file),
        String::from_utf8_lossy(&function),
    );
    let message = format!("{file}:{line}: {function}: Assertion `{text}' failed.\n");
    let place = call.machine.place_id();
    call.machine
        .note_write(Channel::Error, message.as_bytes(), place);
    Err(Box::new(End::AssertFailed { text }))
}

fn get_environment(call: &mut Call<'_, '_>) -> Done {
    let mut name = call.string(0)?;
    name.push(b'=');
    let found = call
        .machine
        .input
        .environment
        .iter()
        .find_map(|line| line.strip_prefix(&name[..]));
    let Some(value) = found else {
        return Ok(Flow::Return(0));
    };
    let value = value.to_vec();
    if let Some(&object) = call.machine.state.named.get(&name) {
        return Ok(Flow::Return(address_of(object)));
    }
    let source = Source::Environment(name[..name.len() - 1].to_vec());
    let address = call.machine.input_string(&value, &source);
    call.machine
        .state
        .named
        .insert(name, crate::memory::object_of(address));
    Ok(Flow::Return(address))
}

/// `va_start`: all variadic arguments go to the overflow area of the x86-64 convention.
fn start_arguments(call: &mut Call<'_, '_>) -> Done {
    let current = call.machine.state.current;
    let frame = call.machine.thread().frames.last();
    let Some(arguments) = frame.and_then(|frame| frame.variadic.clone()) else {
        return give_up("va_start in a function of fixed arguments");
    };
    let bytes: Vec<u8> = arguments
        .iter()
        .flat_map(|(value, _)| value.to_le_bytes())
        .collect();
    let memory = &mut call.machine.state.memory;
    let area = memory.allocate(bytes.len() as u64, Region::Stack(current as u32), true);
    memory.initialise(area, bytes);
    call.machine.thread().stack.push(area);
    let list = call.argument(0);
    call.store(list, 4, 48)?;
    call.store(list + 4, 4, 176)?;
    call.store(list + 8, 8, address_of(area))?;
    call.store(list + 16, 8, 0)?;
    int(0)
}

/// The arguments of a `va_list`, in order, as a function of the library takes them.
pub(super) struct Arguments {
    given: Vec<(u64, Shape)>,
    /// The `va_list` and the address of its next argument.
    list: Option<u64>,
    next: usize,
}

impl Arguments {
    /// Those of the call itself, after the fixed ones.
    pub(super) fn of_call(call: &Call<'_, '_>, fixed: usize) -> Self {
        let all = call
            .arguments
            .iter()
            .copied()
            .zip(call.shapes.iter().copied());
        Self {
            given: all.skip(fixed).collect(),
            list: None,
            next: 0,
        }
    }

    pub(super) fn of_list(list: u64) -> Self {
        Self {
            given: Vec::new(),
            list: Some(list),
            next: 0,
        }
    }

    pub(super) fn take(&mut self, call: &mut Call<'_, '_>) -> Result<u64, Stop> {
        let Some(list) = self.list else {
            let value = self.given.get(self.next).copied();
            self.next += 1;
            return match value {
                Some((value, _)) => Ok(value),
                None => give_up("a format with more directives than arguments"),
            };
        };
        let area = call.load(list + 8, 8)?;
        let value = call.load(area, 8)?;
        call.store(list + 8, 8, area + 8)?;
        Ok(value)
    }
}

fn restore_stack(call: &mut Call<'_, '_>) -> Done {
    let length = call.argument(0) as usize;
    while call.machine.thread().stack.len() > length {
        let object = call
            .machine
            .thread()
            .stack
            .pop()
            .expect("the stack is longer");
        call.machine.state.memory.release(object);
    }
    int(0)
}

/// Insertion sort: simple to interrupt at each comparison, which the program's own function makes.
fn sort(call: &mut Call<'_, '_>) -> Done {
    let (base, count, size, compare) = (
        call.argument(0),
        call.argument(1),
        call.argument(2),
        call.argument(3),
    );
    let mut sort = match std::mem::replace(&mut call.machine.thread().resume, Resume::None) {
        Resume::Sort(sort) => {
            let mut sort = *sort;
            let (left, right) = (base + (sort.inner - 1) * size, base + sort.inner * size);
            if call.machine.thread().returned as i32 > 0 {
                let bytes = call.machine.state.memory.bytes(left, size)?.to_vec();
                call.machine.state.memory.copy(left, right, size)?;
                call.write(right, &bytes)?;
                sort.inner -= 1;
            } else {
                sort.inner = 0;
            }
            sort
        }
        _ => Sort { outer: 1, inner: 1 },
    };
    if sort.inner == 0 {
        sort.outer += 1;
        sort.inner = sort.outer;
    }
    if sort.outer >= count {
        return int(0);
    }
    let (left, right) = (base + (sort.inner - 1) * size, base + sort.inner * size);
    call.machine.thread().resume = Resume::Sort(Box::new(sort));
    call.machine
        .call_back(compare, &[left, right], After::Again)?;
    Ok(Flow::Elsewhere)
}
