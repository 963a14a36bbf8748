//! The process: its end, its environment, its memory, and the variadic arguments of functions.

use std::rc::Rc;

use super::signal::PROCESS;
use super::{Call, Done, Flow, Model, int};
use crate::machine::{Stop, give_up, type_selector};
use crate::memory::{Region, address_of, object_of};
use crate::op::Shape;
use crate::outcome::{Channel, End};
use crate::state::{After, Handler, Resume, Sort};
use crate::symbolic::Source;
use crate::synchronisation::Wait;

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "exit" => |call| {
            call.machine.exit(call.arguments[0] as i32)?;
            Ok(Flow::Elsewhere)
        },
        "_exit" | "_Exit" => |call| Err(Box::new(End::Exited(call.int(0) & 0xff))),
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
        "at_quick_exit" => |call| {
            let handler = Handler {
                function: call.argument(0),
                argument: 0,
            };
            call.machine.state.quick_exit_handlers.push(handler);
            int(0)
        },
        "quick_exit" => |call| {
            // Streams are not flushed, and no other handler runs.
            let handlers = std::mem::take(&mut call.machine.state.quick_exit_handlers);
            call.machine.state.exit_handlers = handlers;
            call.machine.thread().at_end.clear();
            call.machine.state.files_mut().forget_buffers();
            call.machine.exit(call.int(0))?;
            Ok(Flow::Elsewhere)
        },
        "getenv" | "secure_getenv" => get_environment,
        "setenv" => |call| {
            let (name, value) = (call.string(0)?, call.string(1)?);
            if name.is_empty() || name.contains(&b'=') {
                return call.fail(22);
            }
            let is_new = call.int(2) != 0;
            call.set_variable(name, Some(value), is_new);
            int(0)
        },
        "unsetenv" => |call| {
            let name = call.string(0)?;
            call.set_variable(name, None, true);
            int(0)
        },
        "mmap" | "mmap64" => map_memory,
        "munmap" => |call| match call
            .machine
            .state
            .memory
            .object(object_of(call.argument(0)))
        {
            Some(object) if object.region == Region::Mapped => {
                if object.size() != call.argument(1).next_multiple_of(PAGE) {
                    return give_up("munmap of a part of a mapping");
                }
                let object = object_of(call.argument(0));
                call.machine.state.memory.release(object);
                int(0)
            }
            _ => give_up("munmap of what was not mapped"),
        },
        "mremap" => |call| {
            let (old, size) = (call.argument(0), call.argument(2));
            let object = object_of(old);
            match call.machine.state.memory.object(object) {
                Some(mapped) if mapped.region == Region::Mapped && call.argument(3) & 1 == 1 => {
                    let count = mapped.size().min(size);
                    let new = call.map(size)?;
                    call.machine.state.memory.copy(new, old, count)?;
                    call.machine.state.memory.release(object);
                    Ok(Flow::Return(new))
                }
                _ => give_up("mremap of what was not mapped"),
            }
        },
        "mprotect" | "madvise" | "mlock" | "munlock" => |call| match call.name {
            // PROT_READ | PROT_WRITE, which memory is anyway.
            "mprotect" if call.int(2) & 3 != 3 => give_up("mprotect that takes access away"),
            // MADV_DONTNEED, MADV_FREE, MADV_REMOVE
            "madvise" if matches!(call.int(2), 4 | 8 | 9) => give_up("madvise that drops memory"),
            _ => int(0),
        },
        "getpid" => |_| int(PROCESS),
        "getppid" => |_| int(4241),
        "gettid" => |call| int(PROCESS + call.machine.state.current as i32),
        "syscall" => |call| match call.argument(0) {
            39 => int(PROCESS),
            // As `gettid`.
            186 => int(PROCESS + call.machine.state.current as i32),
            202 => futex(call),
            number => give_up(format!("the system call {number}")),
        },
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

/// The system call of that name, with its private forms and none but waiting and waking.
fn futex(call: &mut Call<'_, '_>) -> Done {
    const PRIVATE: i32 = 128;
    let (address, operation, value) = (call.argument(1), call.int(2) & !PRIVATE, call.int(3));
    let current = call.machine.state.current;
    match operation {
        0 => {
            let resume = std::mem::replace(&mut call.machine.thread().resume, Resume::None);
            if let Resume::Woken { timed_out } = resume {
                let futexes = &mut call.machine.state.synchronisation_mut().futexes;
                futexes
                    .entry(address)
                    .or_default()
                    .retain(|&one| one != current);
                if timed_out {
                    call.set_errno(110)?;
                    return Ok(Flow::Yield(u64::MAX));
                }
                call.machine.acquire(address);
                return Ok(Flow::Yield(0));
            }
            if call.load(address, 4)? as i32 != value {
                call.set_errno(11)?;
                return Ok(Flow::Yield(u64::MAX));
            }
            let deadline = match call.argument(4) {
                0 => None,
                time => {
                    let (seconds, parts) = (call.load(time, 8)?, call.load(time + 8, 8)?);
                    Some(call.until(seconds.saturating_mul(1_000_000_000).saturating_add(parts)))
                }
            };
            let futexes = &mut call.machine.state.synchronisation_mut().futexes;
            futexes.entry(address).or_default().push(current);
            Ok(Flow::Wait(Wait::Futex(address), deadline))
        }
        1 => {
            call.load(address, 4)?;
            Ok(Flow::Yield(call.wake_futex(address, value.max(0) as usize)))
        }
        other => give_up(format!("the operation {other} on a futex")),
    }
}

impl Call<'_, '_> {
    /// Wakes some of the threads that wait for a word; how many.
    pub(super) fn wake_futex(&mut self, address: u64, most: usize) -> u64 {
        self.machine.release(address);
        let futexes = &mut self.machine.state.synchronisation_mut().futexes;
        let waiters = futexes.entry(address).or_default();
        let count = most.min(waiters.len());
        let woken: Vec<usize> = waiters.drain(..count).collect();
        for &thread in &woken {
            self.machine.wake(thread);
        }
        woken.len() as u64
    }
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
        .state
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
    call.machine.state.named.insert(name, object_of(address));
    Ok(Flow::Return(address))
}

/// The size of a page.
const PAGE: u64 = 4096;

/// Private or shared memory without a file, which in one process is the same.
fn map_memory(call: &mut Call<'_, '_>) -> Done {
    const ANONYMOUS: i32 = 0x20;
    const FIXED: i32 = 0x10;
    let (size, protection, flags) = (call.argument(1), call.int(2), call.int(3));
    if flags & ANONYMOUS == 0 {
        return match call.machine.state.files.open(call.int(4) as usize) {
            Some(_) => give_up("mmap of a file"),
            None => call.fail(9),
        };
    }
    if flags & FIXED != 0 || call.argument(0) != 0 {
        return give_up("mmap at an address");
    }
    if protection & 3 != 3 {
        return give_up("mmap of memory that cannot be written");
    }
    if size == 0 {
        return call.fail(22);
    }
    Ok(Flow::Return(call.map(size)?))
}

impl Call<'_, '_> {
    fn map(&mut self, size: u64) -> Result<u64, Stop> {
        let limit = self.machine.how.limits.memory;
        let memory = &mut self.machine.state.memory;
        if size.saturating_add(memory.allocated) > limit || size > u64::from(u32::MAX / 2) {
            return give_up(format!("a mapping of {size} bytes, beyond the limit"));
        }
        let size = size.next_multiple_of(PAGE);
        Ok(address_of(memory.allocate(size, Region::Mapped, true)))
    }

    /// Changes a variable of the environment, or takes it away.
    fn set_variable(&mut self, mut name: Vec<u8>, value: Option<Vec<u8>>, replaces: bool) {
        name.push(b'=');
        let environment = Rc::make_mut(&mut self.machine.state.environment);
        let is_set = environment.iter().any(|line| line.starts_with(&name));
        if is_set && !replaces {
            return;
        }
        environment.retain(|line| !line.starts_with(&name));
        if let Some(value) = value {
            environment.push([&name[..], &value].concat());
        }
        // `getenv` makes a new text.
        self.machine.state.named.remove(&name);
        self.machine.state.effects += 1;
    }
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
