//! Order through the kernel: what one thread gave to it and another one got from it.
//!
//! `table` knows which sends a receive can have received from, `descriptor` which channel a
//! descriptor stands for. Here both are told to the recorder, or to the detector, as operations on
//! objects: every message is one, and all messages of a channel together are another one.
//!
//! A send is told before its system call and a receive after it, both while the table is locked,
//! so that an object is not forgotten before its last receiver has learnt from it.

pub mod descriptor;
pub mod file_lock;
pub mod files_watched;
pub mod life;
pub mod names;
pub mod others;
pub mod robust;
pub mod signal;
pub mod socket;
pub mod stream;
pub mod table;
pub mod transfer;
pub mod unknown;
pub mod watches;

use crate::control;
use crate::guard;
use crate::lock::Lock;
use crate::mode::{Mode, is_recording, mode};
use crate::operation::Operation;
use crate::record;
use crate::wire::{Code, channel_object, object};
use table::{ALL, END, Message, Receiving, Sending, Table};

pub use table::Key;

static TABLE: Lock<Table> = Lock::new(Table::new());

/// What a key stands for, so that keys of different things differ.
pub mod kind {
    pub const PIPE: u8 = 1;
    pub const PAIR: u8 = 2;
    pub const TCP: u8 = 3;
    pub const UDP: u8 = 4;
    pub const UNIX_TO_SERVER: u8 = 5;
    pub const UNIX_TO_CLIENT: u8 = 6;
    pub const LISTENER: u8 = 7;
    pub const OUTSIDE: u8 = 8;
    pub const EVENT_COUNTER: u8 = 9;
    pub const TIMER: u8 = 10;
    pub const FILE: u8 = 11;
    pub const TERMINAL: u8 = 12;
    pub const OTHER: u8 = 13;
    pub const WATCHED: u8 = 14;
    pub const FILE_LOCK: u8 = 15;
    pub const MESSAGE_QUEUE: u8 = 16;
    pub const POSIX_QUEUE: u8 = 17;
    pub const SEMAPHORES: u8 = 18;
    pub const SEMAPHORES_AT_ZERO: u8 = 19;
    pub const FUTEX: u8 = 20;
    pub const SIGNAL: u8 = 21;
    pub const SIGNAL_ACTION: u8 = 22;
    pub const NUMBER: u8 = 23;
    pub const NAME: u8 = 24;
    pub const OPENED: u8 = 25;
    pub const FILES_WATCHED: u8 = 26;
    pub const ASYNCHRONOUS: u8 = 27;
    pub const ROBUST: u8 = 28;
}

/// Whether somebody wants to know: the recorder once there are threads, or the detector.
#[inline(always)]
pub fn watching() -> bool {
    match mode() {
        Mode::Off | Mode::Guard | Mode::Replay => false,
        Mode::Record | Mode::RecordValues => record::started(),
        Mode::Detect | Mode::ReplayDetect => control::detector().is_some(),
    }
}

/// The running thread, as far as sends and receives concern it.
struct Teller {
    inside: Option<control::thread::Inside>,
    pc: usize,
}

impl Teller {
    fn new(pc: usize) -> Teller {
        let inside = if is_recording() {
            None
        } else {
            control::enter()
        };
        Teller { inside, pc }
    }

    fn tell(&mut self, code: Code, message: Message) {
        let address = channel_object::address(message.channel, message.number) as usize;
        if is_recording() {
            let operation = Operation::new(code, object::CHANNEL, address, self.pc);
            record::operation(code, &operation);
            return;
        }
        let Some(inside) = &mut self.inside else {
            return;
        };
        let all = channel_object::address(message.channel, ALL) as usize;
        control::with_clocks(inside.own(), |detector, thread| {
            if code == Code::Receive {
                detector.acquire(thread, address);
                return;
            }
            detector.release_join(thread, address);
            if address != all {
                detector.release_join(thread, all);
            }
        });
    }

    fn sends(&mut self, message: Message) {
        self.tell(Code::Send, message);
    }

    fn receives(&mut self, message: Message) {
        self.tell(Code::Receive, message);
    }
}

/// Nobody can receive this message any more.
fn forget(message: Message) {
    if let Some(detector) = control::detector() {
        let address = channel_object::address(message.channel, message.number);
        detector.forget_object(address as usize);
    }
}

/// Lets others run before a send, as this recording wants it.
fn hold_back() {
    if is_recording() {
        record::noise::delay();
        record::impatience::hold_back();
    }
}

/// Before a call that may send up to `wanted` through a channel whose amounts are counted.
pub fn begin_send(
    key: Key,
    sender: u64,
    wanted: u64,
    initial: impl FnOnce() -> u64,
    pc: usize,
) -> Sending {
    hold_back();
    let mut teller = Teller::new(pc);
    TABLE.with(|table| {
        let sending = table.begin_send(key, sender, wanted, initial, &mut forget);
        teller.sends(sending.message);
        sending
    })
}

/// After that call.
pub fn end_send(sending: Sending, sent: u64) {
    TABLE.with(|table| table.end_send(sending, sent));
}

/// Before a call that sends through a channel whose amounts are not counted.
pub fn send(key: Key, pc: usize) {
    guard::gives_to_kernel();
    if !watching() {
        return;
    }
    hold_back();
    let mut teller = Teller::new(pc);
    TABLE.with(|table| {
        teller.sends(table.uncounted(key, ALL, || 0, &mut forget));
    });
}

/// Before a call that may end the stream.
pub fn send_end(key: Key, initial: impl FnOnce() -> u64, pc: usize) {
    let mut teller = Teller::new(pc);
    TABLE.with(|table| teller.sends(table.uncounted(key, END, initial, &mut forget)));
}

/// Before a call that may receive through a channel whose amounts are counted.
pub fn begin_receive(key: Key, wanted: u64, initial: impl FnOnce() -> u64) -> Receiving {
    TABLE.with(|table| table.begin_receive(key, wanted, initial, &mut forget))
}

/// After that call; with `keeps` the next call receives the same again.
pub fn end_receive(receiving: Receiving, received: u64, keeps: bool, pc: usize) {
    let mut teller = Teller::new(pc);
    TABLE.with(|table| {
        let mut from = |message| teller.receives(message);
        table.end_receive(receiving, received, keeps, &mut from, &mut forget);
    });
}

/// After a call that received what was sent so far.
pub fn receive(key: Key, pc: usize) {
    receive_each([key], pc);
}

/// The same for several channels.
pub fn receive_each(keys: impl IntoIterator<Item = Key>, pc: usize) {
    guard::takes_from_kernel();
    if !watching() {
        return;
    }
    let mut teller = Teller::new(pc);
    TABLE.with(|table| {
        for key in keys {
            if let Some(message) = table.everything(key) {
                teller.receives(message);
            }
        }
    });
}

/// After a call that found the end of the stream.
pub fn receive_end(key: Key, pc: usize) {
    let mut teller = Teller::new(pc);
    TABLE.with(|table| teller.receives(table.uncounted(key, END, || 0, &mut forget)));
}

/// After a call that found something to receive and left it there.
pub fn look(key: Key, initial: impl FnOnce() -> u64, pc: usize) {
    let mut teller = Teller::new(pc);
    TABLE.with(|table| {
        let mut from = |message| teller.receives(message);
        table.look(key, initial, &mut from, &mut forget);
    });
}

/// Some thread of this process can receive what is sent to this channel.
fn expect(key: Key) {
    TABLE.with(|table| table.expect(key, &mut forget));
}

/// Whether some thread of this process receives what is sent to this channel.
pub fn has_receiver(key: Key) -> bool {
    TABLE.with(|table| table.has_receiver(key, &mut forget))
}

/// Whether some thread of this process has sent something to this channel.
pub fn has_sender(key: Key) -> bool {
    TABLE.with(|table| table.has_sender(key))
}

/// From here on the amounts of this channel are not known.
fn lose_count(key: Key) {
    TABLE.with(|table| table.lose_count(key, &mut forget));
}

/// There is another process that has the same descriptors.
pub fn process_forked() {
    others::started();
    TABLE.with(Table::lose_all_counts);
}

/// The child process after a fork: threads that held a lock are gone.
pub fn forked() {
    TABLE.force(Table::begin_anew);
    socket::forked();
    unknown::forked();
    watches::forked();
}
