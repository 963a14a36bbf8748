//! POSIX threads and semaphores, and the threads of C11.

use super::{Call, Done, Flow, Model, int};
use crate::machine::{Stop, give_up, is_same_file};
use crate::memory::{Region, address_of};
use crate::outcome::{End, Place};
use crate::state::{After, Handler, Resume, Status};
use crate::synchronisation::{Mutex, MutexKind, Once, Remains, Wait};

const EPERM: i32 = 1;
const ESRCH: i32 = 3;
const ENOENT: i32 = 2;
const EAGAIN: i32 = 11;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const EDEADLK: i32 = 35;
const ETIMEDOUT: i32 = 110;

const EOWNERDEAD: i32 = 130;
const ENOTRECOVERABLE: i32 = 131;

/// What `pthread_t` adds to the number of a thread, so that 0 is none.
const HANDLE: u64 = 0x7000_0000_0000;
/// The bit of `pthread_mutexattr_t` that says robust, and the one of a mutex's kind.
const ROBUST_ATTRIBUTE: u64 = 1 << 30;
const ROBUST: u64 = 16;

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "pthread_create" => create,
        "thrd_create" => create_c11,
        "pthread_join" => |call| join(call, 8),
        "thrd_join" => |call| join(call, 4),
        "pthread_detach" | "thrd_detach" => detach,
        "pthread_exit" | "thrd_exit" => exit,
        "pthread_self" | "thrd_current" => {
            |call| Ok(Flow::Return(HANDLE + call.machine.state.current as u64))
        }
        "pthread_equal" | "thrd_equal" => {
            |call| int(i32::from(call.argument(0) == call.argument(1)))
        }
        "pthread_mutex_init" => mutex_init,
        "mtx_init" => mutex_init_c11,
        "pthread_mutex_destroy" | "mtx_destroy" => mutex_destroy,
        "pthread_mutex_lock" | "mtx_lock" => |call| match call.leaves_lock_out() {
            true => int(0),
            false => lock(call, Patience::Unlimited),
        },
        "pthread_mutex_trylock" => |call| lock(call, Patience::None),
        "mtx_trylock" => |call| match lock(call, Patience::None)? {
            // `thrd_busy`
            Flow::Return(0) => int(0),
            Flow::Yield(0) => Ok(Flow::Yield(0)),
            _ => Ok(Flow::Yield(1)),
        },
        "pthread_mutex_timedlock" => |call| lock(call, Patience::Until),
        "pthread_mutex_clocklock" => |call| {
            let deadline = call.argument(2);
            call.arguments[1] = deadline;
            lock(call, Patience::Until)
        },
        "pthread_mutex_unlock" | "mtx_unlock" => |call| match call.was_left_out() {
            true => int(0),
            false => unlock(call),
        },
        "pthread_mutexattr_init" | "pthread_mutexattr_destroy" => |call| {
            call.store(call.argument(0), 4, 0)?;
            int(0)
        },
        "pthread_mutexattr_settype" => |call| {
            let others = call.load(call.argument(0), 4)? & !3;
            call.store(call.argument(0), 4, others | (call.argument(1) & 3))?;
            int(0)
        },
        "pthread_mutexattr_setrobust" => |call| {
            let others = call.load(call.argument(0), 4)? & !ROBUST_ATTRIBUTE;
            let robust = (call.argument(1) & 1) * ROBUST_ATTRIBUTE;
            call.store(call.argument(0), 4, others | robust)?;
            int(0)
        },
        "pthread_mutex_consistent" => |call| {
            let mutex = call.mutex(call.argument(0))?;
            match mutex.remains {
                Remains::Inconsistent => {
                    mutex.remains = Remains::Nothing;
                    int(0)
                }
                _ => int(EINVAL),
            }
        },
        "pthread_mutexattr_setpshared"
        | "pthread_condattr_init"
        | "pthread_condattr_destroy"
        | "pthread_rwlockattr_init"
        | "pthread_rwlockattr_destroy"
        | "pthread_attr_init"
        | "pthread_attr_destroy"
        | "pthread_attr_setstacksize"
        | "pthread_condattr_setclock"
        | "pthread_setname_np"
        | "pthread_setconcurrency" => |_| int(0),
        "pthread_attr_setdetachstate" => |call| {
            call.store(call.argument(0), 4, call.argument(1))?;
            int(0)
        },
        "pthread_cond_init" | "cnd_init" => |call| {
            let address = call.argument(0);
            call.machine
                .state
                .synchronisation_mut()
                .conditions
                .remove(&address);
            call.write(address, &[0; 48])?;
            int(0)
        },
        "pthread_cond_destroy" | "cnd_destroy" => |call| {
            // glibc waits until nobody uses the condition any more.
            let address = call.argument(0);
            call.load(address, 4)?;
            let conditions = &call.machine.state.synchronisation.conditions;
            match conditions.get(&address) {
                Some(condition) if !condition.waiters.is_empty() => {
                    Ok(Flow::Wait(Wait::Destruction(address), None))
                }
                _ => int(0),
            }
        },
        "pthread_cond_wait" | "cnd_wait" => |call| wait(call, None, 0),
        "pthread_cond_timedwait" => |call| timed_wait(call, ETIMEDOUT),
        // `thrd_timedout`
        "cnd_timedwait" => |call| timed_wait(call, 4),
        "pthread_cond_signal" | "cnd_signal" => |call| signal(call, 1),
        "pthread_cond_broadcast" | "cnd_broadcast" => |call| signal(call, usize::MAX),
        "pthread_rwlock_init" | "pthread_rwlock_destroy" => |call| {
            let address = call.argument(0);
            call.machine
                .state
                .synchronisation_mut()
                .reader_writer
                .remove(&address);
            int(0)
        },
        "pthread_rwlock_rdlock" => |call| match call.leaves_lock_out() {
            true => int(0),
            false => read_lock(call, true),
        },
        "pthread_rwlock_tryrdlock" => |call| read_lock(call, false),
        "pthread_rwlock_wrlock" => |call| match call.leaves_lock_out() {
            true => int(0),
            false => write_lock(call, true),
        },
        "pthread_rwlock_trywrlock" => |call| write_lock(call, false),
        "pthread_rwlock_unlock" => |call| match call.was_left_out() {
            true => int(0),
            false => rwlock_unlock(call),
        },
        "pthread_spin_init" | "pthread_spin_destroy" => |call| {
            let address = call.argument(0);
            call.machine
                .state
                .synchronisation_mut()
                .mutexes
                .remove(&address);
            int(0)
        },
        "pthread_spin_lock" => |call| match call.leaves_lock_out() {
            true => int(0),
            false => lock(call, Patience::Unlimited),
        },
        "pthread_spin_trylock" => |call| lock(call, Patience::None),
        "pthread_spin_unlock" => |call| match call.was_left_out() {
            true => int(0),
            false => unlock(call),
        },
        "pthread_barrier_init" => barrier_init,
        "pthread_barrier_destroy" => |_| int(0),
        "pthread_barrier_wait" => barrier_wait,
        "sem_init" => |call| {
            let (address, count) = (call.argument(0), call.argument(2) & 0xffff_ffff);
            call.write(address, &[0; 32])?;
            call.machine
                .state
                .synchronisation_mut()
                .semaphores
                .insert(address, count);
            int(0)
        },
        "sem_destroy" | "sem_close" => |_| int(0),
        "sem_open" => open_semaphore,
        "sem_unlink" => |call| {
            let name = named_semaphore(call)?;
            match call.machine.state.named.remove(&name) {
                Some(_) => int(0),
                None => call.fail(ENOENT),
            }
        },
        "sem_wait" => |call| semaphore_wait(call, Patience::Unlimited),
        "sem_trywait" => |call| semaphore_wait(call, Patience::None),
        "sem_timedwait" => |call| semaphore_wait(call, Patience::Until),
        "sem_post" => semaphore_post,
        "sem_getvalue" => |call| {
            let count = call
                .machine
                .state
                .synchronisation
                .semaphores
                .get(&call.argument(0))
                .copied();
            call.store(call.argument(1), 4, count.unwrap_or_default())?;
            int(0)
        },
        "pthread_once" | "call_once" => once,
        "pthread_key_create" => key_create,
        "pthread_key_delete" => |call| {
            if let Some(key) = call.machine.state.keys.get_mut(call.arguments[0] as usize) {
                *key = None;
            }
            int(0)
        },
        "pthread_setspecific" => |call| {
            let (key, value) = (call.argument(0) as u32, call.argument(1));
            call.machine.thread().specific.insert(key, value);
            int(0)
        },
        "pthread_getspecific" => |call| {
            let key = call.argument(0) as u32;
            let value = call.machine.thread().specific.get(&key).copied();
            Ok(Flow::Return(value.unwrap_or_default()))
        },
        "sched_yield" | "thrd_yield" | "pthread_yield" => |_| Ok(Flow::Yield(0)),
        _ => return None,
    })
}

/// How long a lock is waited for.
enum Patience {
    None,
    Unlimited,
    /// Until the time in the second argument.
    Until,
}

/// The time in nanoseconds that a `struct timespec` says.
fn deadline(call: &Call<'_, '_>, index: usize) -> Result<u64, Stop> {
    let address = call.argument(index);
    let (seconds, nanoseconds) = (call.load(address, 8)?, call.load(address + 8, 8)?);
    Ok(seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds))
}

impl Call<'_, '_> {
    /// What the call did before it waited.
    fn resumed(&mut self) -> Resume {
        std::mem::replace(&mut self.machine.thread().resume, Resume::None)
    }

    fn timed_out(&mut self) -> bool {
        matches!(self.resumed(), Resume::Woken { timed_out: true })
    }

    /// Whether this lock is one that the run is to do without.
    fn leaves_lock_out(&mut self) -> bool {
        let Some((file, line)) = &self.machine.how.without_lock else {
            return false;
        };
        // `std::lock_guard` takes it in a header.
        let is_of_system = |place: &Place| place.file.starts_with("/usr/");
        let stack = self.machine.stack_of(self.machine.state.current);
        let is_it = { stack.iter().find(|place| !is_of_system(place)) }
            .is_some_and(|place| place.line == *line && is_same_file(&place.file, file));
        if is_it {
            let address = self.argument(0);
            self.machine.state.locks_left_out += 1;
            self.machine.thread().left_out.push(address);
        }
        is_it
    }

    /// Whether the lock that this call gives back was never taken.
    fn was_left_out(&mut self) -> bool {
        let address = self.argument(0);
        let left_out = &mut self.machine.thread().left_out;
        let found = left_out.iter().rposition(|&one| one == address);
        if let Some(at) = found {
            left_out.remove(at);
        }
        found.is_some()
    }

    /// The number of a thread that a `pthread_t` stands for.
    pub(super) fn thread_of(&self, handle: u64) -> Option<usize> {
        let number = handle.checked_sub(HANDLE)? as usize;
        (number < self.machine.state.threads.len()).then_some(number)
    }

    /// Starts a thread; its number.
    pub(super) fn start(&mut self, function: u64, argument: u64) -> Result<usize, Stop> {
        self.machine.start_thread(function, argument)
    }

    fn mutex(&mut self, address: u64) -> Result<&mut Mutex, Stop> {
        // The kind stands behind lock, count, owner and users, as in the static initialisers.
        let kind = match self.machine.state.memory.load(address + 16, 4) {
            Ok(kind) => kind & 0xff,
            // A spin lock has 4 bytes.
            Err(_) => {
                self.load(address, 4)?;
                0
            }
        };
        let is_robust = kind & ROBUST != 0;
        let kind = match kind & !ROBUST {
            1 => MutexKind::Recursive,
            2 => MutexKind::ErrorChecking,
            0 | 3 => MutexKind::Normal,
            _ => return give_up("a mutex of a special kind"),
        };
        let mutexes = &mut self.machine.state.synchronisation_mut().mutexes;
        Ok(mutexes.entry(address).or_insert_with(|| Mutex {
            kind,
            is_robust,
            ..Mutex::default()
        }))
    }

    /// Whether the running thread got the mutex.
    pub(super) fn take_mutex(&mut self, address: u64) -> Result<bool, Stop> {
        let current = self.machine.state.current;
        let mutex = self.mutex(address)?;
        if mutex.owner.is_some() {
            return Ok(false);
        }
        mutex.owner = Some(current);
        mutex.count = 1;
        self.machine.acquire(address);
        self.machine.drain_buffer(current)?;
        Ok(true)
    }

    pub(super) fn give_mutex(&mut self, address: u64) -> Result<(), Stop> {
        let current = self.machine.state.current;
        self.machine.drain_buffer(current)?;
        self.machine.release(address);
        let mutex = self.mutex(address)?;
        mutex.owner = None;
        mutex.count = 0;
        if mutex.remains == Remains::Inconsistent {
            mutex.remains = Remains::Unusable;
        }
        Ok(())
    }
}

fn create(call: &mut Call<'_, '_>) -> Done {
    let is_detached = match call.argument(1) {
        0 => false,
        attributes => call.load(attributes, 4)? == 1,
    };
    let thread = call.start(call.argument(2), call.argument(3))?;
    call.machine.state.threads[thread].is_detached = is_detached;
    call.store(call.argument(0), 8, HANDLE + thread as u64)?;
    Ok(Flow::Yield(0))
}

fn create_c11(call: &mut Call<'_, '_>) -> Done {
    let thread = call.start(call.argument(1), call.argument(2))?;
    call.store(call.argument(0), 8, HANDLE + thread as u64)?;
    Ok(Flow::Yield(0))
}

fn join(call: &mut Call<'_, '_>, bytes: u8) -> Done {
    let Some(thread) = call.thread_of(call.argument(0)) else {
        return int(ESRCH);
    };
    if thread == call.machine.state.current {
        return int(EDEADLK);
    }
    if call.machine.state.threads[thread].is_detached
        || call.machine.state.threads[thread].is_joined
    {
        return int(EINVAL);
    }
    if call.machine.state.threads[thread].status != Status::Ended {
        return Ok(Flow::Wait(Wait::Thread(thread), None));
    }
    call.machine.join_clock(thread);
    call.machine.state.threads[thread].is_joined = true;
    let result = call.machine.state.threads[thread].result;
    if call.argument(1) != 0 {
        call.store(call.argument(1), bytes, result)?;
    }
    Ok(Flow::Yield(0))
}

fn detach(call: &mut Call<'_, '_>) -> Done {
    match call.thread_of(call.argument(0)) {
        Some(thread) => {
            call.machine.state.threads[thread].is_detached = true;
            int(0)
        }
        None => int(ESRCH),
    }
}

fn exit(call: &mut Call<'_, '_>) -> Done {
    let value = call.argument(0);
    call.machine.thread().result = value;
    Ok(match call.machine.exit_thread()? {
        Some(_) => Flow::Ended,
        None => Flow::Elsewhere,
    })
}

fn mutex_init(call: &mut Call<'_, '_>) -> Done {
    let kind = match call.argument(1) {
        0 => 0,
        attributes => {
            let attribute = call.load(attributes, 4)?;
            let is_robust = attribute & ROBUST_ATTRIBUTE != 0;
            (attribute & 3) | if is_robust { ROBUST } else { 0 }
        }
    };
    init_mutex(call, kind)
}

fn mutex_init_c11(call: &mut Call<'_, '_>) -> Done {
    let kind = u64::from(call.argument(1) & 1 == 1);
    init_mutex(call, kind)
}

fn init_mutex(call: &mut Call<'_, '_>, kind: u64) -> Done {
    let address = call.argument(0);
    call.machine
        .state
        .synchronisation_mut()
        .mutexes
        .remove(&address);
    call.write(address, &[0; 40])?;
    call.store(address + 16, 4, kind)?;
    int(0)
}

fn mutex_destroy(call: &mut Call<'_, '_>) -> Done {
    let is_held = call.mutex(call.argument(0))?.owner.is_some();
    int(if is_held { EBUSY } else { 0 })
}

fn lock(call: &mut Call<'_, '_>, patience: Patience) -> Done {
    let address = call.argument(0);
    let current = call.machine.state.current;
    let timed_out = call.timed_out();
    let mutex = call.mutex(address)?;
    if mutex.owner == Some(current) {
        match mutex.kind {
            MutexKind::Recursive => {
                mutex.count += 1;
                return Ok(Flow::Yield(0));
            }
            MutexKind::ErrorChecking => {
                let error = match patience {
                    Patience::None => EBUSY,
                    Patience::Unlimited | Patience::Until => EDEADLK,
                };
                return int(error);
            }
            MutexKind::Normal => {}
        }
    }
    if mutex.owner.is_none() && mutex.remains == Remains::Unusable {
        return int(ENOTRECOVERABLE);
    }
    if call.take_mutex(address)? {
        let mutex = call.mutex(address)?;
        if mutex.remains == Remains::OfDead {
            mutex.remains = Remains::Inconsistent;
            return Ok(Flow::Yield(EOWNERDEAD as u64));
        }
        return Ok(Flow::Yield(0));
    }
    match patience {
        Patience::None => Ok(Flow::Yield(EBUSY as u64)),
        Patience::Unlimited => Ok(Flow::Wait(Wait::Mutex(address), None)),
        Patience::Until if timed_out => Ok(Flow::Yield(ETIMEDOUT as u64)),
        Patience::Until => {
            let deadline = deadline(call, 1)?;
            Ok(Flow::Wait(Wait::Mutex(address), Some(deadline)))
        }
    }
}

fn unlock(call: &mut Call<'_, '_>) -> Done {
    let address = call.argument(0);
    let current = call.machine.state.current;
    let mutex = call.mutex(address)?;
    match mutex.kind {
        MutexKind::Recursive | MutexKind::ErrorChecking if mutex.owner != Some(current) => {
            return int(EPERM);
        }
        MutexKind::Recursive if mutex.count > 1 => {
            mutex.count -= 1;
            return int(0);
        }
        MutexKind::Normal if mutex.is_robust && mutex.owner != Some(current) => {
            return int(EPERM);
        }
        MutexKind::Normal | MutexKind::Recursive | MutexKind::ErrorChecking => {}
    }
    call.give_mutex(address)?;
    Ok(Flow::Yield(0))
}

fn timed_wait(call: &mut Call<'_, '_>, late: i32) -> Done {
    if call.load(call.argument(2) + 8, 8)? >= 1_000_000_000 {
        return int(EINVAL);
    }
    let deadline = deadline(call, 2)?;
    wait(call, Some(deadline), late)
}

/// Waits for a condition; `late` is what it returns after the deadline.
pub(super) fn wait(call: &mut Call<'_, '_>, deadline: Option<u64>, late: i32) -> Done {
    let (condition, mutex) = (call.argument(0), call.argument(1));
    let current = call.machine.state.current;
    let timed_out = match call.resumed() {
        Resume::None => {
            call.load(condition, 4)?;
            call.give_mutex(mutex)?;
            let conditions = &mut call.machine.state.synchronisation_mut().conditions;
            conditions
                .entry(condition)
                .or_default()
                .waiters
                .push(current);
            return Ok(Flow::Wait(Wait::Condition(condition), deadline));
        }
        Resume::Woken { .. } => {
            let conditions = &mut call.machine.state.synchronisation_mut().conditions;
            let waiters = &mut conditions.entry(condition).or_default().waiters;
            // A thread that was signalled is no waiter any more.
            let was_waiting = waiters.contains(&current);
            waiters.retain(|&waiter| waiter != current);
            if !was_waiting {
                call.machine.acquire(condition);
            }
            was_waiting
        }
        Resume::Mutex { timed_out } => timed_out,
        Resume::Called(_) | Resume::Sort(_) => false,
    };
    if !call.take_mutex(mutex)? {
        call.machine.thread().resume = Resume::Mutex { timed_out };
        return Ok(Flow::Wait(Wait::Mutex(mutex), None));
    }
    if call.machine.thread().is_cancelled() {
        return Ok(match call.machine.cancel()? {
            Some(_) => Flow::Ended,
            None => Flow::Elsewhere,
        });
    }
    Ok(Flow::Yield(if timed_out { late as u64 } else { 0 }))
}

pub(super) fn signal(call: &mut Call<'_, '_>, most: usize) -> Done {
    let condition = call.argument(0);
    call.load(condition, 4)?;
    let current = call.machine.state.current;
    call.machine.drain_buffer(current)?;
    call.machine.release(condition);
    let conditions = &mut call.machine.state.synchronisation_mut().conditions;
    let waiters = &mut conditions.entry(condition).or_default().waiters;
    let count = most.min(waiters.len());
    let woken: Vec<usize> = waiters.drain(..count).collect();
    for thread in woken {
        call.machine.wake(thread);
    }
    Ok(Flow::Yield(0))
}

fn read_lock(call: &mut Call<'_, '_>, waits: bool) -> Done {
    let address = call.argument(0);
    let current = call.machine.state.current;
    call.load(address, 4)?;
    let locks = &mut call.machine.state.synchronisation_mut().reader_writer;
    let lock = locks.entry(address).or_default();
    match lock.writer {
        Some(writer) if writer == current => int(if waits { EDEADLK } else { EBUSY }),
        Some(_) if waits => Ok(Flow::Wait(Wait::Read(address), None)),
        Some(_) => Ok(Flow::Yield(EBUSY as u64)),
        None => {
            lock.readers.push(current);
            call.machine.acquire(address);
            call.machine.drain_buffer(current)?;
            Ok(Flow::Yield(0))
        }
    }
}

fn write_lock(call: &mut Call<'_, '_>, waits: bool) -> Done {
    let address = call.argument(0);
    let current = call.machine.state.current;
    call.load(address, 4)?;
    let locks = &mut call.machine.state.synchronisation_mut().reader_writer;
    let lock = locks.entry(address).or_default();
    if lock.writer == Some(current) {
        return int(if waits { EDEADLK } else { EBUSY });
    }
    if lock.writer.is_some() || !lock.readers.is_empty() {
        return Ok(match waits {
            true => Flow::Wait(Wait::Write(address), None),
            false => Flow::Yield(EBUSY as u64),
        });
    }
    lock.writer = Some(current);
    call.machine.acquire(address);
    call.machine.drain_buffer(current)?;
    Ok(Flow::Yield(0))
}

fn rwlock_unlock(call: &mut Call<'_, '_>) -> Done {
    let address = call.argument(0);
    let current = call.machine.state.current;
    call.machine.drain_buffer(current)?;
    call.machine.release(address);
    let locks = &mut call.machine.state.synchronisation_mut().reader_writer;
    let lock = locks.entry(address).or_default();
    if lock.writer.is_some() {
        lock.writer = None;
    } else if let Some(at) = lock.readers.iter().position(|&reader| reader == current) {
        lock.readers.remove(at);
    } else {
        // glibc counts readers only.
        lock.readers.pop();
    }
    Ok(Flow::Yield(0))
}

fn barrier_init(call: &mut Call<'_, '_>) -> Done {
    let (address, needed) = (call.argument(0), call.argument(2) & 0xffff_ffff);
    if needed == 0 {
        return int(EINVAL);
    }
    call.write(address, &[0; 32])?;
    let barriers = &mut call.machine.state.synchronisation_mut().barriers;
    let barrier = barriers.entry(address).or_default();
    barrier.needed = needed;
    int(0)
}

fn barrier_wait(call: &mut Call<'_, '_>) -> Done {
    let address = call.argument(0);
    let current = call.machine.state.current;
    if let Resume::Woken { .. } = call.resumed() {
        call.machine.acquire(address);
        return Ok(Flow::Yield(0));
    }
    call.load(address, 4)?;
    call.machine.drain_buffer(current)?;
    call.machine.release(address);
    let barriers = &mut call.machine.state.synchronisation_mut().barriers;
    let barrier = barriers.entry(address).or_default();
    if barrier.needed == 0 {
        return give_up("a barrier that was not initialised");
    }
    if barrier.waiters.len() as u64 + 1 < barrier.needed {
        barrier.waiters.push(current);
        return Ok(Flow::Wait(Wait::Barrier(address), None));
    }
    let woken = std::mem::take(&mut barrier.waiters);
    for thread in woken {
        call.machine.wake(thread);
    }
    call.machine.acquire(address);
    // PTHREAD_BARRIER_SERIAL_THREAD
    Ok(Flow::Yield(u64::from(u32::MAX)))
}

fn semaphore_wait(call: &mut Call<'_, '_>, patience: Patience) -> Done {
    let address = call.argument(0);
    let current = call.machine.state.current;
    let timed_out = call.timed_out();
    call.load(address, 4)?;
    let semaphores = &mut call.machine.state.synchronisation_mut().semaphores;
    let count = semaphores.entry(address).or_default();
    if *count > 0 {
        *count -= 1;
        call.machine.acquire(address);
        call.machine.drain_buffer(current)?;
        return Ok(Flow::Yield(0));
    }
    match patience {
        Patience::None => {
            call.set_errno(EAGAIN)?;
            Ok(Flow::Yield(u64::from(u32::MAX)))
        }
        Patience::Unlimited => Ok(Flow::Wait(Wait::Semaphore(address), None)),
        Patience::Until if timed_out => {
            call.set_errno(ETIMEDOUT)?;
            Ok(Flow::Yield(u64::from(u32::MAX)))
        }
        Patience::Until => {
            let deadline = deadline(call, 1)?;
            Ok(Flow::Wait(Wait::Semaphore(address), Some(deadline)))
        }
    }
}

fn semaphore_post(call: &mut Call<'_, '_>) -> Done {
    let address = call.argument(0);
    let current = call.machine.state.current;
    call.load(address, 4)?;
    call.machine.drain_buffer(current)?;
    call.machine.release(address);
    *call
        .machine
        .state
        .synchronisation_mut()
        .semaphores
        .entry(address)
        .or_default() += 1;
    Ok(Flow::Yield(0))
}

fn once(call: &mut Call<'_, '_>) -> Done {
    let address = call.argument(0);
    let current = call.machine.state.current;
    call.load(address, 4)?;
    let onces = &mut call.machine.state.synchronisation_mut().onces;
    match onces.get(&address) {
        Some(Once::Done) => {
            call.machine.acquire(address);
            Ok(Flow::Yield(0))
        }
        Some(Once::Running(runner)) if *runner == current => {
            if !matches!(call.resumed(), Resume::Called(_)) {
                // The initialiser calls itself.
                return Ok(Flow::Wait(Wait::Itself, None));
            }
            let onces = &mut call.machine.state.synchronisation_mut().onces;
            onces.insert(address, Once::Done);
            call.machine.drain_buffer(current)?;
            call.machine.release(address);
            Ok(Flow::Yield(0))
        }
        Some(Once::Running(_)) => Ok(Flow::Wait(Wait::Once(address), None)),
        None => {
            onces.insert(address, Once::Running(current));
            let mut function = call.argument(1);
            if call.machine.is_named(function, "__once_proxy") {
                function = call.machine.once_call()?;
            }
            call.machine.thread().resume = Resume::Called(address);
            call.machine.call_back(function, &[], After::Again)?;
            Ok(Flow::Elsewhere)
        }
    }
}

fn key_create(call: &mut Call<'_, '_>) -> Done {
    let destructor = call.argument(1);
    let key = call.machine.state.keys.len();
    call.machine.state.keys.push(Some(destructor));
    call.store(call.argument(0), 4, key as u64)?;
    int(0)
}

/// `__cxa_thread_atexit`
pub(super) fn at_thread_end(call: &mut Call<'_, '_>) -> Done {
    let handler = Handler {
        function: call.argument(0),
        argument: call.argument(1),
    };
    call.machine.thread().at_end.push(handler);
    int(0)
}

fn named_semaphore(call: &Call<'_, '_>) -> Result<Vec<u8>, Stop> {
    Ok([b"semaphore ", &call.string(0)?[..]].concat())
}

fn open_semaphore(call: &mut Call<'_, '_>) -> Done {
    let name = named_semaphore(call)?;
    let (makes, is_exclusive) = (call.int(1) & 0o100 != 0, call.int(1) & 0o200 != 0);
    let known = call.machine.state.named.get(&name).copied();
    let error = match known {
        Some(_) if makes && is_exclusive => EEXIST,
        None if !makes => ENOENT,
        Some(object) => return Ok(Flow::Return(address_of(object))),
        None => {
            let memory = &mut call.machine.state.memory;
            let object = memory.allocate(32, Region::Library, true);
            call.machine.state.named.insert(name, object);
            let count = call.argument(3) & 0xffff_ffff;
            let semaphores = &mut call.machine.state.synchronisation_mut().semaphores;
            semaphores.insert(address_of(object), count);
            return Ok(Flow::Return(address_of(object)));
        }
    };
    call.set_errno(error)?;
    Ok(Flow::Return(0))
}

/// A result that ends the process.
pub(super) fn abort<T>() -> Result<T, Stop> {
    Err(Box::new(End::Signal(6)))
}
