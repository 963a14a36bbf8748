//! Small traces as text, for tests: `T1: lock m, write x, unlock m`.
//!
//! Every line is a thread and some of its events; the events of all lines, from top to bottom,
//! are the trace. A thread may have several lines. Events are
//!
//! ```text
//! start  end  fork T2  join T2  try-join T2  detach T2
//! lock m  try-lock m  read-lock m  try-read-lock m  unlock m
//! once-begin o  once-end o  once-pass o
//! wait c  timed-wait c  signal c  broadcast c
//! barrier-init b 2  enter b  exit b
//! sem-init s 0  sem-wait s  try-sem-wait s  post s
//! take m  try-take m  give m  misuse m  loop-exit c
//! send p  receive p
//! load a  store a  rmw a  failed-exchange a
//! read x  write x  alloc x  free x  use x  destroy x  initialise x  event e 1 load  fence
//! ```
//!
//! where `wait c` and `timed-wait c` are the bare events: the trace needs `unlock m` before and
//! `lock m` after them. A variable is a name (four bytes each) or `address+size`. A lock is a
//! mutex; `m:recursive`, `m:robust`, `m:errorcheck`, `m:spin` name other kinds; a lock that is
//! read-locked somewhere is a reader-writer lock. Bad text is a panic: this is for tests.

use norns_trace::trace::Custom;
use norns_trace::{
    Access, AtomicKind, Event, MemoryOrder, Object, ObjectId, ObjectKind, Op, Place, PlaceId,
    Symbol, Thread, ThreadId, Trace,
};

/// The trace of a script. Accesses are in their true order.
pub fn trace(script: &str) -> Trace {
    let mut builder = Builder::default();
    builder.trace.accesses_ordered = true;
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let (thread, events) = line.split_once(':').expect("a line is `thread: events`");
        let thread = builder.thread(thread.trim());
        for event in events
            .split(',')
            .map(str::trim)
            .filter(|event| !event.is_empty())
        {
            builder.event(thread, event);
        }
    }
    builder.trace.symbols.sort_by_key(|symbol| symbol.address);
    builder.trace
}

#[derive(Default)]
struct Builder {
    trace: Trace,
}

impl Builder {
    fn thread(&mut self, name: &str) -> ThreadId {
        let known = self
            .trace
            .threads
            .iter()
            .position(|thread| thread.name == name);
        ThreadId::from_index(known.unwrap_or_else(|| {
            self.trace.threads.push(Thread {
                name: name.to_string(),
                parent: None,
            });
            self.trace.threads.len() - 1
        }))
    }

    fn object(&mut self, name: &str, kind: ObjectKind) -> ObjectId {
        let (name, kind) = match name.split_once(':') {
            None => (name, kind),
            Some((name, "recursive")) => (name, ObjectKind::RecursiveMutex),
            Some((name, "robust")) => (name, ObjectKind::RobustMutex),
            Some((name, "errorcheck")) => (name, ObjectKind::ErrorCheckingMutex),
            Some((name, "spin")) => (name, ObjectKind::SpinLock),
            Some((_, other)) => panic!("no such kind of lock: {other}"),
        };
        let known = self
            .trace
            .objects
            .iter()
            .position(|object| object.name == name);
        let i = known.unwrap_or_else(|| {
            self.trace.objects.push(Object {
                kind,
                address: 0,
                name: name.to_string(),
            });
            self.trace.objects.len() - 1
        });
        if kind == ObjectKind::ReaderWriterLock {
            self.trace.objects[i].kind = kind;
        }
        ObjectId::from_index(i)
    }

    fn access(&mut self, name: &str) -> Access {
        if let Some((address, size)) = name.split_once('+')
            && let (Ok(address), Ok(size)) = (address.parse(), size.parse())
        {
            return Access { address, size };
        }
        let known = self.trace.symbols.iter().find(|symbol| symbol.name == name);
        let address = known.map(|symbol| symbol.address).unwrap_or_else(|| {
            let address = 0x1000 + 16 * self.trace.symbols.len() as u64;
            self.trace.symbols.push(Symbol {
                address,
                size: 4,
                name: name.to_string(),
            });
            address
        });
        Access { address, size: 4 }
    }

    fn event(&mut self, thread: ThreadId, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let name = words.get(1).copied().unwrap_or("");
        let number = || words[2].parse().expect("the third word is a number");
        use ObjectKind::{Barrier, Channel, Condition, Mutex, Once, ReaderWriterLock, Semaphore};
        let op = match words[0] {
            "start" => Op::Start,
            "end" => Op::End,
            "fork" => Op::Fork(self.thread(name)),
            "join" => Op::Join(self.thread(name)),
            "try-join" => Op::FailedJoin(self.thread(name)),
            "detach" => Op::Detach(self.thread(name)),
            "lock" => Op::Lock(self.object(name, Mutex)),
            "try-lock" => Op::FailedLock(self.object(name, Mutex)),
            "read-lock" => Op::ReadLock(self.object(name, ReaderWriterLock)),
            "try-read-lock" => Op::FailedReadLock(self.object(name, ReaderWriterLock)),
            "unlock" => Op::Unlock(self.object(name, Mutex)),
            "once-begin" => Op::OnceBegin(self.object(name, Once)),
            "once-end" => Op::OnceEnd(self.object(name, Once)),
            "once-pass" => Op::OncePass(self.object(name, Once)),
            "wait" => Op::Wait(self.object(name, Condition)),
            "timed-wait" => Op::FailedWait(self.object(name, Condition)),
            "signal" => Op::Signal(self.object(name, Condition)),
            "broadcast" => Op::Broadcast(self.object(name, Condition)),
            "barrier-init" => Op::BarrierInit {
                barrier: self.object(name, Barrier),
                count: number(),
            },
            "enter" => Op::BarrierEnter(self.object(name, Barrier)),
            "exit" => Op::BarrierExit(self.object(name, Barrier)),
            "sem-init" => Op::SemInit {
                sem: self.object(name, Semaphore),
                value: number(),
            },
            "sem-wait" => Op::SemWait(self.object(name, Semaphore)),
            "try-sem-wait" => Op::FailedSemWait(self.object(name, Semaphore)),
            "post" => Op::SemPost(self.object(name, Semaphore)),
            "take" => Op::Take(self.object(name, Mutex)),
            "try-take" => Op::FailedTake(self.object(name, Mutex)),
            "give" => Op::Give(self.object(name, Mutex)),
            "misuse" => Op::Misuse {
                object: self.object(name, Mutex),
                how: 1,
            },
            "loop-exit" => Op::LoopExit(self.object(name, Condition)),
            "use" => Op::Use(self.access(name)),
            "destroy" => Op::Destroy(self.access(name)),
            "initialise" => Op::Initialise(self.access(name)),
            "send" => Op::Send(self.object(name, Channel)),
            "receive" => Op::Receive(self.object(name, Channel)),
            "load" => self.atomic(name, AtomicKind::Load),
            "store" => self.atomic(name, AtomicKind::Store),
            "rmw" => self.atomic(name, AtomicKind::ReadModifyWrite),
            "failed-exchange" => self.atomic(name, AtomicKind::FailedExchange),
            "read" => Op::Read(self.access(name)),
            "write" => Op::Write(self.access(name)),
            "alloc" => Op::Allocate(self.access(name)),
            "free" => Op::Free(self.access(name)),
            "fence" => Op::Fence(MemoryOrder::SeqCst),
            "event" => {
                self.trace.customs.push(Custom {
                    name: name.to_string(),
                    fields: words.iter().skip(2).map(ToString::to_string).collect(),
                });
                Op::Custom(self.trace.customs.len() as u32 - 1)
            }
            other => panic!("no such event: {other}"),
        };
        self.push(thread, op);
    }

    fn atomic(&mut self, name: &str, kind: AtomicKind) -> Op {
        let access = self.access(name);
        let size = u8::try_from(access.size).expect("an atomic has at most 16 bytes");
        Op::Atomic {
            address: access.address,
            size,
            kind,
            order: MemoryOrder::SeqCst,
        }
    }

    /// Every event has a place of its own, numbered from 1.
    fn push(&mut self, thread: ThreadId, op: Op) {
        let place = PlaceId::from_index(self.trace.places.len());
        let pc = self.trace.places.len() as u64 + 1;
        self.trace.places.push(Place {
            pc,
            frames: Vec::new(),
        });
        self.trace.events.push(Event { thread, place, op });
    }
}
