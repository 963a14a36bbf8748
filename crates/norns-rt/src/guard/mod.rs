//! A guarded run: the program runs as it is, and a task that its agent has given to it is tried on the way. RaceMob,
//! chapter 3 of Kasikci (2015).
//!
//! | file | contents |
//! | --- | --- |
//! | `site` | the sites of the program, which sleep, and where it calls at one that is on |
//! | `contexts` | which sites touch the same memory from different threads |
//! | `task` | holds a thread for the order that the task asks for; what is a race |
//! | `order` | what is ordered behind one access |
//! | `own`, `birth` | what is kept of a thread |
//! | `stack` | return addresses, and what is mapped |
//!
//! What is shared with the agent is defined in `norns_wire::guarding`. Without a file of the agent for this build the mode
//! stays off. With one it is off as long as there is no task, and the agent turns it on from outside (`mode::page`).
//!
//! Where synchronisation is not the C library's or the program's own, as in a library with locks of its own making,
//! it is not seen: in such a program only two threads that were made to meet count as a race.

mod birth;
mod contexts;
mod order;
mod own;
mod site;
mod stack;
mod task;

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::control::futex;
use crate::lock::Lock;
use crate::mode::{self, is_guarded};
use crate::operation::Operation;
use crate::thread::Start;
use crate::wire::Code;
use crate::wire::environment;
use crate::wire::guarding::{Counter, Failure, FailureKind, SIZE, SPARES, Shared, State, WANTED};
use crate::{attach, interpose, sys};

use order::{Known, Level, Table, Then};
use own::{Hold, Own};
use site::Passage;
use task::End;

static TABLE: Table = Table::new();
/// The file that is shared with the agent; null without one.
static FILE: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
/// The folder of the agent, kept where the program cannot write.
static FOLDER: Lock<Folder> = Lock::new(Folder {
    bytes: [0; 4096],
    length: 0,
});
/// A forked child that has no thread of its own yet.
static CHILD: AtomicBool = AtomicBool::new(false);
/// Which task threads have been seen under.
static TASK: AtomicU32 = AtomicU32::new(0);
/// A thread that has run so many hooks adds them to the figures.
const HOOKS: u32 = 1024;
/// About how long a hook takes, and a passage of a site.
const HOOK_NS: u64 = 8;
const PASSAGE_NS: u64 = 100;

struct Folder {
    bytes: [u8; 4096],
    length: usize,
}

fn shared() -> Option<Shared<'static>> {
    let file = FILE.load(Ordering::Acquire);
    if file.is_null() {
        return None;
    }
    // SAFETY: `begin` stored a mapping of `SIZE` bytes that stays.
    let words = unsafe { core::slice::from_raw_parts(file, SIZE / 8) };
    Shared::running(words)
}

/// Takes a file of the agent, if there is one for this program.
///
/// # Safety
/// Only from the constructor, with its variables of the environment.
pub unsafe fn begin(variables: *const *const c_char) {
    // SAFETY: the caller promises the environment.
    let Some(folder) = (unsafe { mode::variable(variables, environment::GUARD) }) else {
        return;
    };
    FOLDER.with(|kept| {
        let length = folder.len().min(kept.bytes.len());
        let places = kept.bytes.iter_mut().zip(folder);
        places.for_each(|(to, from)| *to = *from);
        kept.length = length;
    });
    if join() {
        // SAFETY: only the constructor calls this function.
        unsafe { attach::watch_process() };
        interpose::watch_failures();
    }
}

/// Takes a file for this process; whether there was one.
fn join() -> bool {
    let mut id = [0; 64];
    let Some(build) = build_id(&mut id) else {
        return false;
    };
    let file = FOLDER.with(|folder| {
        let folder = &folder.bytes[..folder.length];
        let file = take_file(folder, build);
        if file.is_none() {
            ask_for_file(folder, build);
        }
        file
    });
    let Some(file) = file else {
        return false;
    };
    let words = sys::map_file_far(file, SIZE).cast::<AtomicU64>();
    if words.is_null() {
        sys::close(file);
        return false;
    }
    // SAFETY: just mapped, with so many bytes.
    let shared = Shared::open(
        unsafe { core::slice::from_raw_parts(words, SIZE / 8) },
        build,
    );
    let Some(shared) = shared else {
        sys::close(file);
        return false;
    };
    shared.begin(sys::getpid() as u32, futex::now(futex::MONOTONIC) as u64);
    FILE.store(words, Ordering::Release);
    stack::read_maps(shared, site::has_code);
    // From here on the agent decides whether the mode is on.
    sys::map_over(mode::page(), file, 4096);
    sys::close(file);
    poll(shared);
    true
}

/// Whether this process has a file of the agent.
pub fn is_here() -> bool {
    !FILE.load(Ordering::Relaxed).is_null()
}

/// The build id of the executable, in hexadecimal digits.
fn build_id(digits: &mut [u8; 64]) -> Option<&str> {
    const HEADERS: usize = 3;
    const COUNT: usize = 5;
    const SELF: u32 = 6;
    const NOTE: u32 = 4;
    #[repr(C)]
    struct Header {
        kind: u32,
        flags: u32,
        offset: u64,
        address: u64,
        physical: u64,
        in_file: u64,
        size: u64,
        alignment: u64,
    }
    unsafe extern "C" {
        fn getauxval(kind: usize) -> usize;
    }
    // SAFETY: plain calls that read what the kernel has passed to the process.
    let (first, count) = unsafe { (getauxval(HEADERS), getauxval(COUNT)) };
    // SAFETY: the kernel names so many program headers of the executable, which stay mapped.
    let headers = unsafe { core::slice::from_raw_parts(first as *const Header, count) };
    let own = headers.iter().find(|header| header.kind == SELF)?;
    let bias = first.wrapping_sub(own.address as usize);
    headers
        .iter()
        .filter(|header| header.kind == NOTE)
        .find_map(|header| {
            let from = bias.wrapping_add(header.address as usize) as *const u8;
            // SAFETY: a note segment of the executable, which is loaded.
            let notes = unsafe { core::slice::from_raw_parts(from, header.size as usize) };
            gnu_build_id(notes)
        })
        .and_then(|id| {
            let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
            let text = digits.get_mut(..2 * id.len())?;
            for (pair, byte) in text.chunks_mut(2).zip(id) {
                (pair[0], pair[1]) = (digit(byte >> 4), digit(byte & 15));
            }
            core::str::from_utf8(text).ok()
        })
}

/// The note with the name `GNU` and the type of a build id, among others.
fn gnu_build_id(mut notes: &[u8]) -> Option<&[u8]> {
    const BUILD_ID: u32 = 3;
    let word = |notes: &[u8], at: usize| {
        let bytes = notes.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes))
    };
    loop {
        let (name, size, kind) = (word(notes, 0)?, word(notes, 4)?, word(notes, 8)?);
        let from = 12 + (name as usize).next_multiple_of(4);
        let to = from.checked_add(size as usize)?;
        // `GNU` and its zero byte.
        if kind == BUILD_ID && name == 4 && word(notes, 12)? == u32::from_le_bytes(*b"GNU\0") {
            return notes.get(from..to);
        }
        notes = notes.get(to.next_multiple_of(4)..)?;
    }
}

/// Renames a spare file so that it is this process's, and opens it.
fn take_file(folder: &[u8], build: &str) -> Option<i32> {
    const RENAME: usize = 82;
    const READ_WRITE_CLOEXEC: usize = 0o2 | 0o200_0000;
    let mut taken = Path::new(folder, build);
    taken.add(b"run-");
    taken.number(sys::getpid() as u32);
    for spare in 0..SPARES {
        let mut path = Path::new(folder, build);
        path.number(spare);
        let (from, to) = (path.end()?, taken.end()?);
        // SAFETY: two paths that end with a zero byte.
        let renamed = unsafe { sys::call(RENAME, from.as_ptr() as usize, to.as_ptr() as usize, 0) };
        if renamed == 0 {
            let file = sys::open(to, READ_WRITE_CLOEXEC);
            return (file >= 0).then_some(file);
        }
    }
    None
}

/// Leaves the path of the executable for the agent, unless that was asked already.
fn ask_for_file(folder: &[u8], build: &str) {
    const READLINK: usize = 89;
    const WRITE_NEW_CLOEXEC: usize = 0o1 | 0o100 | 0o200 | 0o200_0000;
    let mut program = [0; 4096];
    // SAFETY: a path that ends with a zero byte, and so many bytes to write to.
    let length = unsafe {
        sys::call(
            READLINK,
            c"/proc/self/exe".as_ptr() as usize,
            program.as_mut_ptr() as usize,
            program.len(),
        )
    };
    let program = usize::try_from(length)
        .ok()
        .and_then(|it| program.get(..it));
    let mut path = Path::within(folder);
    path.add(WANTED.as_bytes());
    path.add(build.as_bytes());
    let (Some(program), Some(path)) = (program, path.end()) else {
        return;
    };
    let file = sys::open(path, WRITE_NEW_CLOEXEC);
    if file >= 0 {
        sys::write(file, program);
        sys::close(file);
    }
}

/// `FOLDER/BUILD-…`, as it is put together.
struct Path {
    bytes: [u8; 4096],
    length: usize,
}

impl Path {
    fn within(folder: &[u8]) -> Self {
        let mut path = Path {
            bytes: [0; 4096],
            length: 0,
        };
        path.add(folder);
        path.add(b"/");
        path
    }

    fn new(folder: &[u8], build: &str) -> Self {
        let mut path = Path::within(folder);
        path.add(build.as_bytes());
        path.add(b"-");
        path
    }

    fn add(&mut self, text: &[u8]) {
        for byte in text {
            if let Some(room) = self.bytes.get_mut(self.length) {
                *room = *byte;
            }
            self.length += 1;
        }
    }

    fn number(&mut self, number: u32) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.add(&[b'0' + (number % 10) as u8]);
    }

    /// With its zero byte, if there was room.
    fn end(&self) -> Option<&[u8]> {
        self.bytes.get(..=self.length)
    }
}

/// Looks at the task that the agent has written.
#[cold]
fn poll(shared: Shared) {
    if !mode::takes_attention() {
        return;
    }
    if let Some(task) = shared.task() {
        TASK.fetch_add(1, Ordering::Relaxed);
        task::apply(shared, task);
        if task.is_none() {
            mode::rests();
        } else {
            site::learn();
        }
    }
}

/// A file with sites was loaded.
fn sites_are_known() {
    if let Some(shared) = shared() {
        site::learn();
        task::sites_are_known();
        stack::read_maps(shared, site::has_code);
    }
}

/// In the child process after a fork: it is not guarded, unless it creates a thread.
pub fn forked() {
    let Some(shared) = shared() else { return };
    shared.count(Counter::Forks, 1);
    FILE.store(core::ptr::null_mut(), Ordering::Relaxed);
    sys::map_nothing_over(mode::page(), 4096);
    task::forget();
    site::sleep_all();
    birth::forget_all();
    FOLDER.force(|_| {});
    stack::forget();
    CHILD.store(true, Ordering::Relaxed);
    // SAFETY: the child has one thread, which is not inside a hook.
    unsafe { own::own() }.forget();
}

/// The running thread is about to create another one. A child that does so, as a program that has put itself into the
/// background, is a process like any other: what it did before with one thread cannot race.
pub fn before_thread() {
    if CHILD.load(Ordering::Relaxed) && CHILD.swap(false, Ordering::Relaxed) && join() {
        sites_are_known();
    }
}

/// The process ends by `exit`, a return of `main` or `_exit`.
pub fn process_ends(status: c_int) {
    if let Some(shared) = shared()
        && !attach::in_foreign_memory()
    {
        task::process_ends(shared);
        shared.end(State::Ended, status as u32);
    }
}

/// The program fails: the code at `pc`, with this stack pointer.
pub fn fails(kind: FailureKind, signal: u8, pc: usize, stack_pointer: usize) {
    let Some(shared) = shared() else { return };
    stack::read_maps(shared, site::has_code);
    shared.fail(&Failure {
        serial: task::serial(),
        kind,
        signal,
        thread: crate::thread::kernel_id() as u32,
        stack: stack::of(pc, stack_pointer),
    });
}

/// Runs `act` with what is kept of the running thread, unless that is inside the runtime already.
#[inline(always)]
fn inside<R>(act: impl FnOnce(Shared<'static>, &mut Own) -> R) -> Option<R> {
    let shared = shared()?;
    // SAFETY: `inside` keeps hooks of signal handlers from getting a second reference.
    let own = unsafe { own::own() };
    if own.inside {
        task::doubt();
        return None;
    }
    own.inside = true;
    own.looks_around(shared);
    let result = act(shared, own);
    own.inside = false;
    Some(result)
}

impl Own {
    /// What a thread does first in every hook.
    #[inline(always)]
    fn looks_around(&mut self, shared: Shared) {
        if is_guarded() {
            poll(shared);
        }
        self.hooks += 1;
        if self.hooks.is_multiple_of(64) {
            task::tick(shared);
            if self.hooks >= HOOKS {
                shared.count(Counter::RuntimeNs, u64::from(self.hooks) * HOOK_NS);
                self.hooks = 0;
            }
        }
        let task = TASK.load(Ordering::Relaxed);
        let is_new = self.seen != task;
        if is_new {
            self.seen = task;
            self.forgets_locks();
        }
        if task::is_observed() {
            let number = task::number();
            if self.known.number != number {
                // What a thread did while no hook looked may have ordered it.
                let level = if is_new { Level::Perhaps } else { Level::Free };
                self.known = Known::new(number, level);
            }
        }
    }

    /// The thread makes the access behind which others are to be ordered.
    fn begins_behind(&mut self, number: order::Number) {
        self.known = Known::new(number, Level::Behind);
        self.known.release(&TABLE, own::handle());
    }

    /// Does something that may order this thread behind the observed access.
    #[inline(always)]
    fn learns(&mut self, shared: Shared, act: impl FnOnce(&mut Known) -> Then) {
        if !task::is_observed() || self.known.number != task::number() {
            return;
        }
        let before = self.known.level;
        let then = act(&mut self.known);
        if then != Then::Nothing {
            return task::end(shared, self.known.number, End::Unknown);
        }
        if self.known.level > before {
            self.is_raised(shared);
        }
    }

    #[cold]
    fn is_raised(&mut self, shared: Shared) {
        // Whoever joins this thread knows what it knows in the end.
        if self.known.release(&TABLE, own::handle()) == Then::NoRoom {
            return task::end(shared, self.known.number, End::Unknown);
        }
        if self.known.level == Level::Behind {
            let (id, number) = (self.id(), self.known.number);
            task::is_behind(shared, id, number);
        }
    }
}

/// The running thread passes a site that is on.
fn passes(passage: &Passage) {
    inside(|shared, own| {
        let site = passage.site;
        let for_task = site.is_on_for(site::TASK);
        if site.is_on_for(site::CONTEXT) {
            contexts::passed(shared, site.number, passage.address, own.id());
        }
        if site.count() {
            task::sleeps();
        }
        if for_task {
            shared.count(Counter::Passed, 1);
            shared.count(Counter::RuntimeNs, PASSAGE_NS);
            task::arrives(shared, own, passage);
        }
    });
}

/// The running thread makes an atomic operation, or something like it, while orders are observed.
fn operates(address: usize, what: u64) {
    inside(|shared, own| own.learns(shared, |known| known.operate(&TABLE, address, what)));
}

/// The running thread is about to do an operation of the C library.
pub fn before(operation: &Operation) {
    inside(|shared, own| match operation.code {
        Code::Unlock => {
            // What a reader releases reaches writers only.
            let hold = own.releases(operation.object);
            let object = hold.map_or(operation.object, Hold::packed);
            own.learns(shared, |known| known.release(&TABLE, object));
        }
        Code::Signal | Code::Broadcast | Code::SemPost | Code::BarrierEnter | Code::OnceEnd => {
            own.learns(shared, |known| known.release(&TABLE, operation.object));
        }
        Code::Lock | Code::ReadLock => {
            let waits = !operation.may_fail || operation.deadline.is_some();
            if waits && task::keeps_waiting(hold_of(operation, operation.code)) {
                task::let_go();
            }
        }
        _ => {}
    });
}

/// The running thread has done it.
pub fn after(operation: &Operation, happened: Code) {
    inside(|shared, own| match happened {
        Code::Lock | Code::ReadLock => {
            let hold = hold_of(operation, happened);
            own.takes(hold);
            acquires(shared, own, hold.lock);
            if !hold.is_shared {
                acquires(shared, own, hold.lock | 1);
            }
        }
        Code::SemWait | Code::Wait | Code::FailedWait | Code::BarrierExit | Code::OncePass => {
            acquires(shared, own, operation.object);
        }
        _ => {}
    });
}

fn hold_of(operation: &Operation, code: Code) -> Hold {
    Hold {
        lock: operation.object,
        is_shared: code == Code::ReadLock,
    }
}

fn acquires(shared: Shared, own: &mut Own, object: usize) {
    own.learns(shared, |known| {
        known.acquire(&TABLE, object);
        Then::Nothing
    });
}

/// A call that may order threads through the kernel.
#[inline(always)]
pub fn through_kernel<R>(call: impl FnOnce() -> R) -> R {
    gives_to_kernel();
    let result = call();
    takes_from_kernel();
    result
}

/// Before a call that lets the kernel pass something on.
#[inline(always)]
pub fn gives_to_kernel() {
    if is_guarded() && task::is_observed() {
        inside(|shared, own| {
            own.learns(shared, |known| {
                known.gives(&TABLE);
                Then::Nothing
            });
        });
    }
}

/// After a call to which the kernel may have passed something.
#[inline(always)]
pub fn takes_from_kernel() {
    if is_guarded() {
        let observed = task::is_observed();
        inside(|shared, own| match observed {
            true => own.learns(shared, |known| {
                known.takes(&TABLE);
                Then::Nothing
            }),
            false => task::tick(shared),
        });
    }
}

/// After a call that let time pass: sites that went to sleep may be due, and a program that otherwise only computes sees
/// a new task here.
#[inline(always)]
pub fn time_has_passed() {
    if is_guarded() {
        inside(|shared, _| task::tick(shared));
    }
}

/// The running thread sends a signal or starts a timer: where it arrives is not seen.
pub fn sends_signal() {
    if is_guarded() && task::is_observed() {
        inside(|shared, own| {
            own.learns(shared, |known| match known.level {
                Level::Free => Then::Nothing,
                Level::Perhaps | Level::Behind => Then::AllPerhaps,
            });
        });
    }
}

/// Memory begins a new life there.
#[inline(always)]
pub fn allocated(address: usize, size: impl FnOnce() -> usize) {
    if is_guarded() && task::is_observed() && task::is_observed_in(address, size()) {
        inside(|shared, _| task::end(shared, task::number(), End::Unknown));
    }
}

/// The running thread is about to create one, which is to run `start`. Returns what the new thread gets instead of its
/// argument, if that can be.
pub fn creates(start: Start, argument: *mut c_void) -> Option<*mut c_void> {
    inside(|_, own| {
        let (seen, known) = (own.seen, own.known);
        birth::tell(birth::Told {
            start,
            argument,
            seen,
            known: Known::new(known.number, known.level),
        })
    })
    .flatten()
}

/// The thread was not created.
pub fn does_not_create(block: *mut c_void) {
    birth::forget(block);
}

/// The running thread begins; what it is to run, if `creates` has made its argument.
pub fn begins(block: *mut c_void) -> Option<(Start, *mut c_void)> {
    /// How far the stack of a thread that has just begun may reach.
    const STACK: usize = 16 << 20;
    let told = birth::told(block)?;
    // SAFETY: the thread has not been in a hook, and no signal handler of its has another reference: it is
    // not inside.
    let own = unsafe { own::own() };
    (own.seen, own.known) = (told.seen, told.known);
    inside(|shared, own| {
        let end = own::handle();
        if task::is_observed_in(end.saturating_sub(STACK), STACK) {
            task::end(shared, task::number(), End::Unknown);
        }
        if own.known.level > Level::Free
            && task::is_observed()
            && own.known.number == task::number()
        {
            own.is_raised(shared);
        }
    });
    Some((told.start, told.argument))
}

/// Keeps a call of `pthread_once` for the function that runs its initialiser; returns the one before.
pub fn replace_once(call: usize) -> usize {
    // SAFETY: for this exchange only; a signal handler in between puts back what it finds.
    let own = unsafe { own::own() };
    core::mem::replace(&mut own.once, call)
}

/// The call of `pthread_once` that is about to run its initialiser.
pub fn once() -> usize {
    // SAFETY: as above.
    unsafe { own::own() }.once
}

/// The running thread has joined the one with this handle.
pub fn joined(handle: usize) {
    inside(|shared, own| acquires(shared, own, handle));
}
