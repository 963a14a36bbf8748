//! What the functions that the program does not define do: the C library, POSIX threads, the C++ runtime.
//!
//! One table by name. A function that is not in it is `not analysed`: it is taken to read and write nothing
//! and to return a pointer to nothing the program knows, and the scan lists it by name.

use norns_ir::Function;

/// A parameter of the external function, counted from 0.
pub type Argument = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    Shared,
    Exclusive,
}

/// Memory of the C library that several functions share without a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hidden {
    Environment,
    /// The result of `localtime` and its like.
    Calendar,
    /// Where `strtok` goes on.
    Token,
}

/// How many bytes an external function touches behind a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Bytes(u64),
    /// The number in this argument.
    Counted(Argument),
    /// To the end of a string or of the object.
    Whole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The result is a new object.
    Allocates,
    /// The pointer behind the argument is set to a new object.
    AllocatesInto(Argument),
    Returns(Argument),
    Reads(Argument, Extent),
    Writes(Argument, Extent),
    /// Copies what lies behind one pointer, pointers included.
    Copies {
        to: Argument,
        from: Argument,
    },
    Frees(Argument),
    Lock(Argument, Mode),
    /// The lock is held if the result is 0.
    TryLock(Argument, Mode),
    Unlock(Argument),
    /// Releases and takes the mutex again; returns only after a signal if the flag is set.
    Wait {
        condition: Argument,
        mutex: Argument,
        is_timed: bool,
    },
    /// `std::condition_variable::wait`: the mutex lies behind the lock.
    WaitBehind {
        condition: Argument,
        lock: Argument,
    },
    Signal(Argument),
    SemaphoreInit(Argument),
    /// A wait that the result can tell to have failed has `is_sure` unset.
    SemaphoreWait {
        semaphore: Argument,
        is_sure: bool,
    },
    SemaphorePost(Argument),
    /// A set of semaphores of System V is made.
    SemaphoreSet,
    /// Changes semaphores of a System V set.
    SemaphoreChange,
    /// `semctl`.
    SemaphoreControl,
    BarrierInit(Argument),
    BarrierWait(Argument),
    /// A lock, condition or barrier is made or destroyed.
    Renews(Argument),
    /// A mutex gets its kind from the attribute.
    MutexInit(Argument),
    /// Starts a thread that calls `start(argument)`; its name goes behind `handle`.
    Create {
        handle: Argument,
        start: Argument,
        argument: Argument,
    },
    /// `std::thread`: the state behind the second argument has a virtual `_M_run`.
    CreateFromState,
    Join {
        handle: Argument,
        result: Option<Argument>,
    },
    /// `std::thread::join`: the name of the thread lies behind the argument.
    JoinBehind(Argument),
    /// Ends the process if the thread whose name lies behind the argument was neither joined nor given away.
    ThreadIsOver(Argument),
    /// Calls the function in `function` with the values of `passes`, in this thread.
    Calls {
        function: Argument,
        passes: &'static [Argument],
    },
    /// Calls a function once in the whole program.
    Once {
        function: Argument,
    },
    /// A result other than 0: this thread initialises the static variable of the guard.
    GuardAcquire(Argument),
    GuardRelease(Argument),
    /// Calls a function at an unknown time in an unknown thread (signal handlers, timers).
    CallsLater(Argument),
    /// Calls a function when the process ends, with the value of `passes`.
    AtExit {
        function: Argument,
        passes: &'static [Argument],
    },
    SetSpecific(Argument),
    GetSpecific,
    /// Sends to a descriptor.
    Sends(Argument),
    /// Closes a descriptor, which whoever receives from the other end can see.
    Closes(Argument),
    /// Receives from a descriptor, unless the result is one of these; `end` is the result when all others have
    /// closed it.
    Receives {
        from: Argument,
        unless: &'static [i64],
        end: Option<i64>,
    },
    /// The result is 1 if the only descriptor in the list is ready.
    Polls,
    /// A system call by its number.
    SystemCall,
    /// Sends a signal to the own process, at once or later.
    Raises,
    /// Locks a file through a descriptor, as the second argument says.
    FileLock,
    /// The result is a descriptor that is connected to itself.
    OpensChannel,
    /// The result is a descriptor of a named queue; all named queues are one.
    OpensQueue,
    /// Reads or writes memory that belongs to the C library and that this name stands for.
    ReadsHidden(Hidden),
    WritesHidden(Hidden),
    /// Writes what the pointers behind the argument lead to.
    WritesBehind(Argument),
    /// Two connected descriptors are put behind the argument.
    Connects(Argument),
    NeverReturns,
    /// The result is 0 in the new process, which has one thread and memory of its own.
    Forks,
}

use Effect::{
    Allocates, AllocatesInto, AtExit, BarrierInit, BarrierWait, Calls, CallsLater, Closes,
    Connects, Copies, Create, CreateFromState, FileLock, Forks, Frees, GetSpecific, GuardAcquire,
    GuardRelease, Join, JoinBehind, Lock, MutexInit, NeverReturns, Once, OpensChannel, OpensQueue,
    Polls, Raises, Reads, ReadsHidden, Receives, Renews, Returns, SemaphoreChange,
    SemaphoreControl, SemaphoreInit, SemaphorePost, SemaphoreSet, SemaphoreWait, Sends,
    SetSpecific, Signal, SystemCall, ThreadIsOver, TryLock, Unlock, Wait, WaitBehind, Writes,
    WritesBehind, WritesHidden,
};
use Extent::{Bytes, Counted, Whole};
use Mode::{Exclusive, Shared};

/// The effects of an external function in the order in which they happen; `None` if it is unknown.
#[must_use]
pub fn effects(name: &str) -> Option<&'static [Effect]> {
    let name = name.strip_prefix("\u{1}").unwrap_or(name);
    if let Some(intrinsic) = name.strip_prefix("llvm.") {
        return intrinsic_effects(intrinsic);
    }
    threads(name)
        .or_else(|| memory(name))
        .or_else(|| strings(name))
        .or_else(|| files(name))
        .or_else(|| cpp(name))
        .or_else(|| harmless(name))
}

/// Destroys the owner of a new thread's state.
const OWNER_OF_STATE: &str = "_ZNSt10unique_ptrINSt6thread6_StateESt14default_deleteIS1_EED2Ev";

/// `std::thread::~thread`, complete and of a base.
const ENDS_OF_THREAD: [&str; 2] = ["_ZNSt6threadD1Ev", "_ZNSt6threadD2Ev"];

/// Whether a function is `std::lock` of mutexes. Its body tries them in turn until it has all.
fn takes_all(name: &str) -> bool {
    const MUTEXES: [&str; 5] = [
        "mutex",
        "recursive_mutex",
        "timed_mutex",
        "recursive_timed_mutex",
        "shared_mutex",
    ];
    let Some(types) = name.strip_prefix("_ZSt4lockISt") else {
        return false;
    };
    let first = types.trim_start_matches(|letter: char| letter.is_ascii_digit());
    // A `unique_lock` that is taken later holds its mutex behind a pointer.
    !types.contains("unique_lock")
        && !types.contains("shared_lock")
        && MUTEXES.iter().any(|mutex| first.starts_with(mutex))
}

/// Whether only the effects of a function matter: it has no body, or one that the analyses would misread.
///
/// The owner of a thread's state is empty when it is destroyed, since `_M_start_thread` has taken the state;
/// its body deletes the state, which the thread uses at that time, unless the owner is empty. What is behind
/// the destructor of a `std::thread` was joined, also where an exception skips the call of `join`.
#[must_use]
pub fn is_external(function: &Function) -> bool {
    let name = function.name.as_str();
    function.is_declaration()
        || name == OWNER_OF_STATE
        || ENDS_OF_THREAD.contains(&name)
        || takes_all(name)
}

fn intrinsic_effects(name: &str) -> Option<&'static [Effect]> {
    let family = name.split('.').next().unwrap_or(name);
    Some(match family {
        "memcpy" | "memmove" => &[
            Reads(1, Counted(2)),
            Writes(0, Counted(2)),
            Copies { to: 0, from: 1 },
        ],
        "memset" => &[Writes(0, Counted(2))],
        "threadlocal" | "launder" | "strip" | "ptrmask" | "expect" => &[Returns(0)],
        "va_copy" => &[Copies { to: 0, from: 1 }],
        "trap" | "ubsantrap" => &[NeverReturns],
        _ => &[],
    })
}

fn threads(name: &str) -> Option<&'static [Effect]> {
    Some(match name {
        "pthread_create" => &[Create {
            handle: 0,
            start: 2,
            argument: 3,
        }],
        "thrd_create" => &[Create {
            handle: 0,
            start: 1,
            argument: 2,
        }],
        "pthread_join" | "thrd_join" => &[Join {
            handle: 0,
            result: Some(1),
        }],
        "pthread_tryjoin_np" | "pthread_timedjoin_np" => &[],
        "pthread_exit" | "thrd_exit" => &[NeverReturns],
        "pthread_mutex_lock" | "mtx_lock" | "pthread_spin_lock" | "pthread_rwlock_wrlock" => {
            &[Lock(0, Exclusive)]
        }
        "flockfile" => &[Lock(0, Exclusive)],
        "funlockfile" => &[Unlock(0)],
        "pthread_rwlock_rdlock" => &[Lock(0, Shared)],
        "pthread_mutex_trylock"
        | "mtx_trylock"
        | "pthread_spin_trylock"
        | "pthread_rwlock_trywrlock"
        | "pthread_mutex_timedlock"
        | "pthread_mutex_clocklock"
        | "mtx_timedlock"
        | "pthread_rwlock_timedwrlock"
        | "pthread_rwlock_clockwrlock" => &[TryLock(0, Exclusive)],
        "pthread_rwlock_tryrdlock"
        | "pthread_rwlock_timedrdlock"
        | "pthread_rwlock_clockrdlock" => &[TryLock(0, Shared)],
        "pthread_mutex_unlock" | "mtx_unlock" | "pthread_spin_unlock" | "pthread_rwlock_unlock" => {
            &[Unlock(0)]
        }
        "pthread_mutex_init" | "mtx_init" => &[MutexInit(0)],
        "pthread_cond_wait" | "cnd_wait" => &[Wait {
            condition: 0,
            mutex: 1,
            is_timed: false,
        }],
        "pthread_cond_timedwait" | "pthread_cond_clockwait" | "cnd_timedwait" => &[Wait {
            condition: 0,
            mutex: 1,
            is_timed: true,
        }],
        "pthread_cond_signal" | "cnd_signal" | "pthread_cond_broadcast" | "cnd_broadcast" => {
            &[Signal(0)]
        }
        "pthread_mutex_destroy"
        | "pthread_cond_init"
        | "pthread_cond_destroy"
        | "pthread_rwlock_init"
        | "pthread_rwlock_destroy"
        | "pthread_spin_init"
        | "pthread_spin_destroy"
        | "pthread_barrier_destroy"
        | "sem_destroy"
        | "mtx_destroy"
        | "cnd_init"
        | "cnd_destroy" => &[Renews(0)],
        "sem_init" => &[SemaphoreInit(0)],
        "sem_wait" => &[SemaphoreWait {
            semaphore: 0,
            is_sure: true,
        }],
        "sem_trywait" | "sem_timedwait" | "sem_clockwait" => &[SemaphoreWait {
            semaphore: 0,
            is_sure: false,
        }],
        "sem_post" => &[SemaphorePost(0)],
        "sem_open" => &[Allocates],
        "semget" => &[SemaphoreSet],
        "semop" => &[SemaphoreChange],
        "semctl" => &[SemaphoreControl],
        "pthread_barrier_init" => &[BarrierInit(0)],
        "pthread_barrier_wait" => &[BarrierWait(0)],
        "pthread_once" | "call_once" => &[Once { function: 1 }],
        "pthread_setspecific" | "tss_set" => &[SetSpecific(1)],
        "pthread_getspecific" | "tss_get" => &[GetSpecific],
        "pthread_key_create" | "tss_create" => &[CallsLater(1)],
        "pthread_atfork" => &[CallsLater(0), CallsLater(1), CallsLater(2)],
        "atexit" | "at_quick_exit" => &[AtExit {
            function: 0,
            passes: &[],
        }],
        "__cxa_atexit" => &[AtExit {
            function: 0,
            passes: &[1],
        }],
        "signal" | "bsd_signal" | "sysv_signal" => &[CallsLater(1)],
        "fork" | "vfork" => &[Forks],
        _ => return None,
    })
}

fn memory(name: &str) -> Option<&'static [Effect]> {
    Some(match name {
        "malloc"
        | "calloc"
        | "valloc"
        | "aligned_alloc"
        | "memalign"
        | "mmap"
        | "mmap64"
        | "alloca"
        | "fopen"
        | "fopen64"
        | "tmpfile"
        | "opendir"
        | "fdopendir"
        | "setlocale"
        | "nl_langinfo"
        | "_Znwm"
        | "_Znam"
        | "_ZnwmSt11align_val_t"
        | "_ZnamSt11align_val_t"
        | "_ZnwmRKSt9nothrow_t"
        | "_ZnamRKSt9nothrow_t"
        | "__cxa_allocate_exception" => &[Allocates],
        "fdopen" => &[Allocates, Returns(0)],
        "realloc" | "reallocarray" => &[Allocates, Returns(0), Frees(0)],
        "posix_memalign" => &[AllocatesInto(0)],
        "free"
        | "cfree"
        | "_ZdlPv"
        | "_ZdaPv"
        | "_ZdlPvm"
        | "_ZdaPvm"
        | "_ZdlPvSt11align_val_t"
        | "_ZdlPvmSt11align_val_t"
        | "closedir" => &[Frees(0)],
        "fclose" => &[Closes(0), Frees(0)],
        "munmap" => &[Frees(0)],
        "memcpy" | "memmove" | "__memcpy_chk" | "__memmove_chk" | "mempcpy" => &[
            Reads(1, Counted(2)),
            Writes(0, Counted(2)),
            Copies { to: 0, from: 1 },
            Returns(0),
        ],
        "bcopy" => &[
            Reads(0, Counted(2)),
            Writes(1, Counted(2)),
            Copies { to: 1, from: 0 },
        ],
        "memset" | "__memset_chk" => &[Writes(0, Counted(2)), Returns(0)],
        "bzero" | "explicit_bzero" => &[Writes(0, Counted(1))],
        "memcmp" | "bcmp" => &[Reads(0, Counted(2)), Reads(1, Counted(2))],
        "memchr" | "memrchr" | "rawmemchr" => &[Reads(0, Counted(2)), Returns(0)],
        "qsort" => &[
            Reads(0, Whole),
            Writes(0, Whole),
            Calls {
                function: 3,
                passes: &[0, 0],
            },
        ],
        "qsort_r" => &[
            Reads(0, Whole),
            Writes(0, Whole),
            Calls {
                function: 3,
                passes: &[0, 0, 4],
            },
        ],
        "bsearch" => &[
            Calls {
                function: 4,
                passes: &[0, 1],
            },
            Returns(1),
        ],
        _ => return None,
    })
}

fn strings(name: &str) -> Option<&'static [Effect]> {
    Some(match name {
        "strlen" | "strnlen" | "atoi" | "atol" | "atoll" | "atof" | "puts" | "perror"
        | "unlink" | "access" | "chdir" | "rmdir" | "remove" | "system_name" => &[Reads(0, Whole)],
        "strcmp" | "strcasecmp" | "strcoll" | "strspn" | "strcspn" | "rename" => {
            &[Reads(0, Whole), Reads(1, Whole)]
        }
        "strncmp" | "strncasecmp" => &[Reads(0, Whole), Reads(1, Whole)],
        "strchr" | "strrchr" | "strchrnul" | "index" | "rindex" => &[Reads(0, Whole), Returns(0)],
        "strstr" | "strcasestr" | "strpbrk" => &[Reads(0, Whole), Reads(1, Whole), Returns(0)],
        "strcpy" | "strcat" | "stpcpy" | "strncpy" | "strncat" | "stpncpy" | "__strcpy_chk"
        | "__strcat_chk" | "__strncpy_chk" => &[Reads(1, Whole), Writes(0, Whole), Returns(0)],
        "strdup" | "strndup" | "__strdup" | "realpath" => &[Reads(0, Whole), Allocates],
        "strtol" | "strtoul" | "strtoll" | "strtoull" | "strtod" | "strtof" => {
            &[Reads(0, Whole), Writes(1, Bytes(8))]
        }
        "strtok" => &[
            WritesHidden(Hidden::Token),
            Reads(0, Whole),
            Writes(0, Whole),
            Returns(0),
        ],
        "strtok_r" | "__strtok_r" => &[
            Reads(0, Whole),
            Writes(0, Whole),
            Writes(2, Bytes(8)),
            Returns(0),
        ],
        "strerror" | "strsignal" | "gai_strerror" | "dlerror" => &[Allocates],
        "sprintf" | "vsprintf" | "snprintf" | "vsnprintf" | "__sprintf_chk" | "__snprintf_chk"
        | "strftime" => &[Writes(0, Whole)],
        "asprintf" | "vasprintf" => &[AllocatesInto(0)],
        "sscanf" | "__isoc99_sscanf" => &[Reads(0, Whole), Writes(2, Whole), Writes(3, Whole)],
        "getenv" | "secure_getenv" => &[ReadsHidden(Hidden::Environment), Allocates],
        "putenv" | "unsetenv" => &[Reads(0, Whole), WritesHidden(Hidden::Environment)],
        "setenv" => &[
            Reads(0, Whole),
            Reads(1, Whole),
            WritesHidden(Hidden::Environment),
        ],
        "clearenv" => &[WritesHidden(Hidden::Environment)],
        "localtime" | "gmtime" | "ctime" | "asctime" => {
            &[WritesHidden(Hidden::Calendar), Allocates]
        }
        _ => return None,
    })
}

/// A call that returns -1 if it got nothing, and 0 at the end.
const RECEIVES: Effect = Receives {
    from: 0,
    unless: &[-1],
    end: Some(0),
};
/// A call that reads at a place of a file, where there may be nothing yet.
const READS_AT: Effect = Receives {
    from: 0,
    unless: &[-1, 0],
    end: None,
};

fn files(name: &str) -> Option<&'static [Effect]> {
    Some(match name {
        "close" | "shutdown" => &[Closes(0)],
        "dup" => &[Returns(0)],
        "eventfd" | "timerfd_create" | "signalfd" | "msgget" => &[OpensChannel],
        "mkstemp" | "mkostemp" => &[Reads(0, Whole), Writes(0, Whole), OpensChannel],
        "timerfd_settime" => &[Sends(0)],
        "eventfd_read" => &[RECEIVES, Writes(1, Bytes(8))],
        "eventfd_write" => &[Sends(0)],
        "mq_open" => &[OpensQueue],
        "mq_send" | "mq_timedsend" => &[Reads(1, Counted(2)), Sends(0)],
        "mq_receive" | "mq_timedreceive" | "msgrcv" => &[RECEIVES, Writes(1, Whole)],
        "msgsnd" => &[Reads(1, Whole), Sends(0)],
        "mq_close" | "mq_unlink" | "sigwait" => &[],
        "kill" | "pthread_kill" | "raise" | "sigqueue" | "pthread_sigqueue" | "setitimer"
        | "timer_settime" | "alarm" => &[Raises],
        "poll" => &[Polls],
        "syscall" => &[SystemCall],
        "flock" => &[FileLock],
        "readv" | "recvmsg" => &[RECEIVES, WritesBehind(1)],
        "preadv" | "preadv2" => &[READS_AT, WritesBehind(1)],
        "writev" | "sendmsg" | "pwritev" => &[Reads(1, Whole), Sends(0)],
        "read" => &[RECEIVES, Writes(1, Counted(2))],
        "recv" | "recvfrom" => &[RECEIVES, Writes(1, Counted(2))],
        "pread" | "pread64" => &[READS_AT, Writes(1, Counted(2))],
        "write" | "send" | "sendto" => &[Reads(1, Counted(2)), Sends(0)],
        "pwrite" | "pwrite64" => &[Reads(1, Counted(2)), Sends(0)],
        "fread" | "fread_unlocked" => &[
            Receives {
                from: 3,
                unless: &[0],
                end: None,
            },
            Writes(0, Whole),
        ],
        "fwrite" | "fwrite_unlocked" => &[Reads(0, Whole), Sends(3)],
        "fgets" | "fgets_unlocked" => &[
            Receives {
                from: 2,
                unless: &[0],
                end: Some(0),
            },
            Writes(0, Counted(1)),
            Returns(0),
        ],
        "fputs" | "fputs_unlocked" => &[Reads(0, Whole), Sends(1)],
        "fgetc" | "getc" => &[Receives {
            from: 0,
            unless: &[-1],
            end: Some(-1),
        }],
        "fputc" | "putc" => &[Sends(1)],
        "fflush" => &[Sends(0)],
        "getline" | "getdelim" => &[Writes(0, Bytes(8)), Writes(1, Bytes(8)), AllocatesInto(0)],
        "readdir" | "readdir64" => &[Allocates],
        "pipe" | "pipe2" => &[Writes(0, Bytes(8)), Connects(0)],
        "socketpair" => &[Writes(3, Bytes(8)), Connects(3)],
        "open" | "open64" | "creat" | "stat" | "lstat" | "stat64" | "mkdir" | "symlink" => {
            &[Reads(0, Whole)]
        }
        "fstat" | "fstat64" | "gettimeofday_" => &[Writes(1, Whole)],
        "gettimeofday" | "time" => &[Writes(0, Bytes(8))],
        "rand_r" => &[Writes(0, Bytes(4))],
        "uname" => &[Writes(0, Whole)],
        "getsockname" | "getpeername" => &[Writes(1, Whole), Writes(2, Bytes(4))],
        "inet_ntop" => &[Reads(1, Whole), Writes(2, Whole)],
        "clock_gettime" | "nanosleep_" | "localtime_r" | "gmtime_r" => &[Writes(1, Whole)],
        "fprintf" | "vfprintf" | "__fprintf_chk" | "dprintf" => &[
            Sends(0),
            Reads(1, Whole),
            Reads(2, Whole),
            Reads(3, Whole),
            Reads(4, Whole),
        ],
        "printf" | "vprintf" | "__printf_chk" => &[
            Reads(0, Whole),
            Reads(1, Whole),
            Reads(2, Whole),
            Reads(3, Whole),
        ],
        _ => return None,
    })
}

fn cpp(name: &str) -> Option<&'static [Effect]> {
    Some(match name {
        "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE" => {
            &[CreateFromState]
        }
        OWNER_OF_STATE => &[],
        _ if ENDS_OF_THREAD.contains(&name) => &[ThreadIsOver(0)],
        "_ZNSt6thread4joinEv" => &[JoinBehind(0)],
        "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE" => &[WaitBehind {
            condition: 0,
            lock: 1,
        }],
        _ if takes_all(name) => &[
            Lock(0, Exclusive),
            Lock(1, Exclusive),
            Lock(2, Exclusive),
            Lock(3, Exclusive),
            Lock(4, Exclusive),
            Lock(5, Exclusive),
        ],
        "_ZNSt18condition_variable10notify_oneEv" | "_ZNSt18condition_variable10notify_allEv" => {
            &[Signal(0)]
        }
        "__cxa_guard_acquire" => &[GuardAcquire(0)],
        "__cxa_guard_release" => &[GuardRelease(0)],
        "__cxa_begin_catch" | "__dynamic_cast" => &[Returns(0)],
        "__cxa_throw"
        | "__cxa_rethrow"
        | "_Unwind_Resume"
        | "_ZSt9terminatev"
        | "__clang_call_terminate"
        | "__cxa_bad_cast"
        | "__cxa_pure_virtual" => &[NeverReturns],
        _ if name.starts_with("_ZSt2") && name.contains("__throw_") => &[NeverReturns],
        _ if name.starts_with("_ZSt1") && name.contains("__throw_") => &[NeverReturns],
        // Streams lock nothing and touch no memory of the program but what they are given to print.
        _ if name.starts_with("_ZNSo") || name.starts_with("_ZStls") => &[Returns(0)],
        _ if name.starts_with("_ZNSi") || name.starts_with("_ZStrs") => &[Returns(0)],
        _ => return None,
    })
}

/// Functions that touch no memory of the program which another thread could see.
fn harmless(name: &str) -> Option<&'static [Effect]> {
    const NEVER_RETURN: &[&str] = &[
        "exit",
        "_exit",
        "_Exit",
        "quick_exit",
        "abort",
        "__assert_fail",
        "longjmp",
        "siglongjmp",
        "err",
        "errx",
        "verr",
        "verrx",
        "__stack_chk_fail",
        "execv",
        "execvp",
        "execve",
    ];
    const HARMLESS: &[&str] = &[
        "__ctype_b_loc",
        "__ctype_tolower_loc",
        "__ctype_toupper_loc",
        "__cxa_end_catch",
        "__cxa_free_exception",
        "__cxa_get_exception_ptr",
        "__cxa_guard_abort",
        "__errno_location",
        "__gxx_personality_v0",
        "__isoc99_scanf",
        "__libc_current_sigrtmin",
        "__sysconf",
        "_ZNSt6thread20hardware_concurrencyEv",
        "_ZNSt8ios_base4InitC1Ev",
        "_ZNSt8ios_base4InitD1Ev",
        "_setjmp",
        "clone",
        "posix_spawn",
        "posix_spawnp",
        "system",
        "popen",
        "abs",
        "accept",
        "accept4",
        "bind",
        "ceil",
        "chmod",
        "clearerr",
        "clock",
        "connect",
        "cos",
        "daemon",
        "difftime",
        "dlclose",
        "dlopen",
        "dlsym",
        "dup2",
        "dup3",
        "epoll_create",
        "epoll_create1",
        "epoll_ctl",
        "epoll_wait",
        "exp",
        "fchmod",
        "fcntl",
        "fcntl64",
        "fdatasync",
        "feof",
        "ferror",
        "fileno",
        "floor",
        "fmod",
        "freeaddrinfo",
        "fseek",
        "fseeko",
        "fsync",
        "ftell",
        "ftello",
        "ftruncate",
        "ftruncate64",
        "futex",
        "getaddrinfo",
        "getchar",
        "getegid",
        "geteuid",
        "getgid",
        "getopt",
        "getopt_long",
        "getpagesize",
        "getpid",
        "getppid",
        "getpriority",
        "getpwnam",
        "getrlimit",
        "getrusage",
        "getsockopt",
        "gettid",
        "getuid",
        "htonl",
        "htons",
        "inet_addr",
        "inet_ntoa",
        "inet_pton",
        "ioctl",
        "isatty",
        "listen",
        "log",
        "log10",
        "log2",
        "lseek",
        "lseek64",
        "madvise",
        "mlock",
        "mlockall",
        "mprotect",
        "msync",
        "nanosleep",
        "ntohl",
        "ntohs",
        "openlog",
        "pause",
        "pow",
        "ppoll",
        "prctl",
        "pselect",
        "pthread_attr_destroy",
        "pthread_attr_getstacksize",
        "pthread_attr_init",
        "pthread_attr_setdetachstate",
        "pthread_attr_setguardsize",
        "pthread_attr_setscope",
        "pthread_attr_setstacksize",
        "pthread_cancel",
        "pthread_condattr_destroy",
        "pthread_condattr_init",
        "pthread_condattr_setclock",
        "pthread_condattr_setpshared",
        "pthread_detach",
        "pthread_equal",
        "pthread_getname_np",
        "pthread_key_delete",
        "pthread_mutex_consistent",
        "pthread_mutexattr_destroy",
        "pthread_mutexattr_init",
        "pthread_mutexattr_setprotocol",
        "pthread_mutexattr_setpshared",
        "pthread_mutexattr_setrobust",
        "pthread_mutexattr_settype",
        "pthread_rwlockattr_destroy",
        "pthread_rwlockattr_init",
        "pthread_rwlockattr_setkind_np",
        "pthread_self",
        "pthread_setaffinity_np",
        "pthread_setcancelstate",
        "pthread_setcanceltype",
        "pthread_setname_np",
        "pthread_sigmask",
        "pthread_testcancel",
        "pthread_yield",
        "putchar",
        "rand",
        "random",
        "rewind",
        "round",
        "sched_yield",
        "select",
        "sem_close",
        "sem_getvalue",
        "sem_unlink",
        "setbuf",
        "setpriority",
        "setrlimit",
        "setsid",
        "setsockopt",
        "setvbuf",
        "sigaction",
        "sigaddset",
        "sigdelset",
        "sigemptyset",
        "sigfillset",
        "sigprocmask",
        "sin",
        "sleep",
        "socket",
        "sqrt",
        "srand",
        "srandom",
        "sync",
        "sysconf",
        "syslog",
        "tan",
        "tcgetattr",
        "tcsetattr",
        "thrd_current",
        "thrd_detach",
        "thrd_equal",
        "thrd_sleep",
        "thrd_yield",
        "tolower",
        "toupper",
        "truncate",
        "tss_delete",
        "umask",
        "usleep",
        "utime",
        "utimes",
        "wait",
        "waitpid",
        "__sigsetjmp",
        "sigsetjmp",
        "_ZNSt6thread6detachEv",
        "_ZNSt18condition_variableC1Ev",
        "_ZNSt18condition_variableD1Ev",
        "fesetround",
        "fegetround",
        "malloc_usable_size",
        "mallopt",
        "malloc_trim",
        "vsyslog",
        "closelog",
        "fputwc",
        "ungetc",
        "pclose",
        "timer_create",
        "timer_delete",
        "lrand48",
        "drand48",
        "srand48",
        "memfd_create",
        "shmget",
        "shmat",
        "shmdt",
        "shmctl",
        "isalpha",
        "isdigit",
        "isspace",
        "isalnum",
        "isupper",
        "islower",
        "isprint",
        "ispunct",
        "isxdigit",
        "_ZSt16__ostream_insert",
    ];
    if NEVER_RETURN.contains(&name) {
        return Some(&[NeverReturns]);
    }
    HARMLESS.contains(&name).then_some(&[])
}
