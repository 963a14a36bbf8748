//! Who can have received from whom: the bookkeeping of channels, without system calls.
//!
//! A channel is one way through the kernel: the bytes of a pipe, one direction of a connection, the
//! units of an eventfd. Amounts are counted, so that a receive comes after exactly the sends whose
//! bytes it got. The kernel does not say in which order calls that overlap in time took effect;
//! what such calls can have got from each other then counts.
//!
//! A send is a message with a number. It is noted before the system call, so its bytes have a first
//! position at which they can be (what was sent by calls that had returned by then) and a last one
//! (known when the call has returned: everything that had been begun by then). A receive is noted
//! after the system call, with the positions that it can have read. A message whose last position
//! lies below all that can still be read is forgotten.
//!
//! A channel of which bytes came from elsewhere, or went there, is not exact any more: a receive
//! then comes after all sends so far.

/// Messages of one channel that are kept apart; later ones share the number of the last.
const KEPT: usize = 16;
/// Receives of one channel that are under way.
const READERS: usize = 8;
const WAYS: usize = 8;
const SETS: usize = if cfg!(test) { 4 } else { 1024 };

/// The number of all messages of a channel together.
pub const ALL: u32 = 0;
/// The number of the calls that closed the sending side.
pub const END: u32 = 1;

/// What a descriptor, a signal or a queue is among the channels of the process: a hash, never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key(u64);

impl Key {
    /// `kind` tells the uses of the other two apart.
    pub const fn new(kind: u8, one: u64, two: u64) -> Key {
        let mut hash = (kind as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ one).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 33;
        hash = (hash ^ two).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^= hash >> 29;
        Key(hash | 1)
    }

    fn set(self) -> usize {
        (self.0 >> 40) as usize % SETS
    }
}

/// Which channel, of all that there have ever been, and which of its messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    pub channel: u32,
    pub number: u32,
}

#[derive(Clone, Copy)]
struct Record {
    number: u32,
    /// Calls that are under way with this number.
    unfinished: u32,
    first: u64,
    /// One behind the last position; `u64::MAX` while a call is under way.
    end: u64,
}

const NO_RECORD: Record = Record {
    number: 0,
    unfinished: 0,
    first: 0,
    end: 0,
};

#[derive(Clone, Copy)]
struct Channel {
    /// 0: not used.
    key: u64,
    identity: u32,
    /// When it was used last.
    used: u64,
    inexact: bool,
    /// Some thread of this process receives from it, or has tried.
    has_receiver: bool,
    /// Some thread of this process has sent something.
    has_sender: bool,
    /// Who sends, where that is one descriptor: another one is another connection.
    sender: u64,
    last_number: u32,
    /// How much the sends that have returned have sent, and how much the others want to.
    sent: u64,
    sending: u64,
    received: u64,
    receiving: u64,
    /// For every receive under way: what had been received when it began.
    readers: [u64; READERS],
    reader_count: usize,
    records: [Record; KEPT],
    record_count: usize,
}

const UNUSED: Channel = Channel {
    key: 0,
    identity: 0,
    used: 0,
    inexact: false,
    has_receiver: false,
    has_sender: false,
    sender: 0,
    last_number: 0,
    sent: 0,
    sending: 0,
    received: 0,
    receiving: 0,
    readers: [0; READERS],
    reader_count: 0,
    records: [NO_RECORD; KEPT],
    record_count: 0,
};

pub struct Table {
    channels: [[Channel; WAYS]; SETS],
    identities: u32,
    uses: u64,
}

/// A send under way.
#[derive(Clone, Copy)]
pub struct Sending {
    key: Key,
    pub message: Message,
    wanted: u64,
}

/// A receive under way.
#[derive(Clone, Copy)]
pub struct Receiving {
    key: Key,
    channel: u32,
    wanted: u64,
    low: u64,
}

impl Table {
    pub const fn new() -> Table {
        Table {
            channels: [[UNUSED; WAYS]; SETS],
            identities: 0,
            uses: 0,
        }
    }

    /// The channel of this key. A new one begins with what the kernel has of it already, and takes
    /// the place of the one that was used longest ago if there is no room.
    fn channel(
        &mut self,
        key: Key,
        initial: impl FnOnce() -> u64,
        forget: &mut dyn FnMut(Message),
    ) -> &mut Channel {
        self.uses += 1;
        let set = &mut self.channels[key.set()];
        let mut oldest = 0;
        let mut found = None;
        for (way, channel) in set.iter().enumerate() {
            if channel.key == key.0 {
                found = Some(way);
            }
            if channel.used < set[oldest].used {
                oldest = way;
            }
        }
        let way = found.unwrap_or(oldest);
        let channel = &mut set[way];
        if found.is_none() {
            channel.forget_all(forget);
            self.identities += 1;
            *channel = UNUSED;
            channel.key = key.0;
            channel.identity = self.identities;
            channel.last_number = END;
            channel.sent = initial();
        }
        channel.used = self.uses;
        channel
    }

    fn known(&mut self, key: Key, identity: u32) -> Option<&mut Channel> {
        let set = &mut self.channels[key.set()];
        set.iter_mut()
            .find(|channel| channel.key == key.0 && channel.identity == identity)
    }

    /// Before a system call that may send up to `wanted`. `sender` is 0 where several may send.
    pub fn begin_send(
        &mut self,
        key: Key,
        sender: u64,
        wanted: u64,
        initial: impl FnOnce() -> u64,
        forget: &mut dyn FnMut(Message),
    ) -> Sending {
        let channel = self.channel(key, initial, forget);
        if sender != channel.sender {
            if channel.sender != 0 {
                channel.renew(forget);
            }
            channel.sender = sender;
        }
        channel.has_sender = true;
        channel.sending += wanted;
        let number = channel.add(forget);
        Sending {
            key,
            message: Message {
                channel: channel.identity,
                number,
            },
            wanted,
        }
    }

    /// After the call: how much it sent.
    pub fn end_send(&mut self, sending: Sending, sent: u64) {
        let Some(channel) = self.known(sending.key, sending.message.channel) else {
            return;
        };
        channel.sending = channel.sending.saturating_sub(sending.wanted);
        channel.sent += sent;
        let end = channel.sent + channel.sending;
        let number = sending.message.number;
        let records = &mut channel.records[..channel.record_count];
        if let Some(record) = records.iter_mut().find(|record| record.number == number) {
            record.unfinished = record.unfinished.saturating_sub(1);
            if record.unfinished == 0 {
                record.end = end;
            }
        }
    }

    /// What passes through this channel is not counted from here on.
    pub fn lose_count(&mut self, key: Key, forget: &mut dyn FnMut(Message)) {
        self.channel(key, || 0, forget).inexact = true;
    }

    /// Another process may take part in all channels that there are.
    pub fn lose_all_counts(&mut self) {
        for channel in self.channels.iter_mut().flatten() {
            channel.inexact = channel.key != 0;
        }
    }

    /// In a process that was forked: what is there belongs to all, and who sends and receives was said
    /// of another process.
    pub fn begin_anew(&mut self) {
        for channel in self.channels.iter_mut().flatten() {
            channel.inexact = channel.key != 0;
            (channel.has_receiver, channel.has_sender) = (false, false);
        }
    }

    /// Whether some thread of this process has sent something to this channel.
    pub fn has_sender(&self, key: Key) -> bool {
        let mut set = self.channels[key.set()].iter();
        set.any(|channel| channel.key == key.0 && channel.has_sender)
    }

    /// Whether some thread of this process receives what is sent to this channel.
    pub fn has_receiver(&mut self, key: Key, forget: &mut dyn FnMut(Message)) -> bool {
        self.channel(key, || 0, forget).has_receiver
    }

    /// Some thread of this process can receive from this channel.
    pub fn expect(&mut self, key: Key, forget: &mut dyn FnMut(Message)) {
        self.channel(key, || 0, forget).has_receiver = true;
    }

    /// The messages of the channel all together, if there have been any.
    pub fn everything(&mut self, key: Key) -> Option<Message> {
        let set = &mut self.channels[key.set()];
        let channel = set.iter_mut().find(|channel| channel.key == key.0)?;
        channel.has_receiver = true;
        Some(channel.message(ALL))
    }

    /// A message whose bytes are not counted: `END`, or a send on a channel that is not exact.
    pub fn uncounted(
        &mut self,
        key: Key,
        number: u32,
        initial: impl FnOnce() -> u64,
        forget: &mut dyn FnMut(Message),
    ) -> Message {
        let channel = self.channel(key, initial, forget);
        channel.has_sender |= number == ALL;
        Message {
            channel: channel.identity,
            number,
        }
    }

    /// Before a system call that may receive up to `wanted`.
    pub fn begin_receive(
        &mut self,
        key: Key,
        wanted: u64,
        initial: impl FnOnce() -> u64,
        forget: &mut dyn FnMut(Message),
    ) -> Receiving {
        let channel = self.channel(key, initial, forget);
        channel.has_receiver = true;
        channel.receiving += wanted;
        let low = channel.received;
        if channel.reader_count < READERS {
            channel.readers[channel.reader_count] = low;
            channel.reader_count += 1;
        } else {
            channel.inexact = true;
        }
        Receiving {
            key,
            channel: channel.identity,
            wanted,
            low,
        }
    }

    /// After the call. Calls `from` with what it can have received from, then `forget` with what
    /// nobody can receive from any more.
    pub fn end_receive(
        &mut self,
        receiving: Receiving,
        received: u64,
        keeps: bool,
        from: &mut dyn FnMut(Message),
        forget: &mut dyn FnMut(Message),
    ) {
        let identity = receiving.channel;
        let Some(channel) = self.known(receiving.key, identity) else {
            return;
        };
        channel.receiving = channel.receiving.saturating_sub(receiving.wanted);
        let mut readers = channel.readers[..channel.reader_count].iter();
        if let Some(at) = readers.position(|low| *low == receiving.low) {
            channel.reader_count -= 1;
            channel.readers[at] = channel.readers[channel.reader_count];
        }
        let end = channel.received + received + channel.receiving;
        if !keeps {
            channel.received += received;
        }
        if received > 0 {
            // More than was sent: from somebody else.
            channel.inexact |= channel.received > channel.sent + channel.sending;
            if channel.inexact {
                from(Message {
                    channel: identity,
                    number: ALL,
                });
            } else {
                channel.within(receiving.low, end, from);
            }
        }
        channel.forget_received(forget);
    }

    /// What can be there to be received now: a call has found the channel ready.
    pub fn look(
        &mut self,
        key: Key,
        initial: impl FnOnce() -> u64,
        from: &mut dyn FnMut(Message),
        forget: &mut dyn FnMut(Message),
    ) {
        let channel = self.channel(key, initial, forget);
        channel.has_receiver = true;
        if channel.inexact {
            from(Message {
                channel: channel.identity,
                number: ALL,
            });
        } else {
            let low = channel.lowest_reader();
            channel.within(low, u64::MAX, from);
        }
    }
}

impl Channel {
    fn message(&self, number: u32) -> Message {
        Message {
            channel: self.identity,
            number,
        }
    }

    /// A record for one more send; its number.
    fn add(&mut self, forget: &mut dyn FnMut(Message)) -> u32 {
        self.forget_received(forget);
        if self.record_count == KEPT {
            let last = &mut self.records[KEPT - 1];
            last.unfinished += 1;
            last.end = u64::MAX;
            return last.number;
        }
        self.last_number += 1;
        self.records[self.record_count] = Record {
            number: self.last_number,
            unfinished: 1,
            first: self.sent,
            end: u64::MAX,
        };
        self.record_count += 1;
        self.last_number
    }

    fn within(&self, low: u64, end: u64, from: &mut dyn FnMut(Message)) {
        for record in &self.records[..self.record_count] {
            if record.first < end && low < record.end {
                from(self.message(record.number));
            }
        }
    }

    /// What all receives that are under way, or still to come, lie above.
    fn lowest_reader(&self) -> u64 {
        let readers = self.readers[..self.reader_count].iter();
        readers.fold(self.received, |low, reader| low.min(*reader))
    }

    fn forget_received(&mut self, forget: &mut dyn FnMut(Message)) {
        let low = self.lowest_reader();
        let mut kept = 0;
        for at in 0..self.record_count {
            let record = self.records[at];
            if record.end <= low {
                forget(self.message(record.number));
            } else {
                self.records[kept] = record;
                kept += 1;
            }
        }
        self.record_count = kept;
    }

    fn forget_all(&mut self, forget: &mut dyn FnMut(Message)) {
        for at in 0..self.record_count {
            forget(self.message(self.records[at].number));
        }
        self.record_count = 0;
        if self.key != 0 {
            forget(self.message(ALL));
            forget(self.message(END));
        }
    }

    /// The key stands for another connection from here on.
    fn renew(&mut self, forget: &mut dyn FnMut(Message)) {
        for at in 0..self.record_count {
            forget(self.message(self.records[at].number));
        }
        self.record_count = 0;
        self.inexact = false;
        (self.sent, self.sending) = (0, 0);
        (self.received, self.receiving) = (0, 0);
        self.reader_count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPE: Key = Key::new(1, 2, 3);

    struct Pipe(Box<Table>);

    impl Pipe {
        fn new() -> Pipe {
            Pipe(Box::new(Table::new()))
        }

        fn begin_send(&mut self, wanted: u64) -> Sending {
            self.0.begin_send(PIPE, 0, wanted, || 0, &mut |_| {})
        }

        fn send(&mut self, amount: u64) -> u32 {
            let sending = self.begin_send(amount);
            self.0.end_send(sending, amount);
            sending.message.number
        }

        fn begin_receive(&mut self, wanted: u64) -> Receiving {
            self.0.begin_receive(PIPE, wanted, || 0, &mut |_| {})
        }

        fn end_receive(&mut self, receiving: Receiving, amount: u64) -> Vec<u32> {
            let mut found = Vec::new();
            let mut from = |message: Message| found.push(message.number);
            self.0
                .end_receive(receiving, amount, false, &mut from, &mut |_| {});
            found
        }

        fn receive(&mut self, amount: u64) -> Vec<u32> {
            let receiving = self.begin_receive(amount);
            self.end_receive(receiving, amount)
        }
    }

    #[test]
    fn a_receive_gets_the_messages_whose_bytes_it_got() {
        let mut pipe = Pipe::new();
        let (a, b, c) = (pipe.send(1), pipe.send(4), pipe.send(1));
        assert_eq!(pipe.receive(1), [a]);
        assert_eq!(pipe.receive(2), [b]);
        assert_eq!(pipe.receive(3), [b, c]);
    }

    #[test]
    fn a_send_that_failed_gives_nothing() {
        let mut pipe = Pipe::new();
        let failed = pipe.begin_send(8);
        pipe.0.end_send(failed, 0);
        let real = pipe.send(1);
        assert_eq!(pipe.receive(1), [real]);
    }

    #[test]
    fn an_empty_receive_gets_nothing() {
        let mut pipe = Pipe::new();
        pipe.send(1);
        let receiving = pipe.begin_receive(1);
        assert!(pipe.end_receive(receiving, 0).is_empty());
    }

    #[test]
    fn sends_that_overlap_in_time_are_both_possible() {
        let mut pipe = Pipe::new();
        let (a, b) = (pipe.begin_send(1), pipe.begin_send(1));
        pipe.0.end_send(b, 1);
        pipe.0.end_send(a, 1);
        assert_eq!(pipe.receive(1), [a.message.number, b.message.number]);
    }

    #[test]
    fn a_receive_that_returns_first_can_have_got_from_a_send_under_way() {
        let mut pipe = Pipe::new();
        let receiving = pipe.begin_receive(1);
        let sending = pipe.begin_send(1);
        assert_eq!(pipe.end_receive(receiving, 1), [sending.message.number]);
        pipe.0.end_send(sending, 1);
        let next = pipe.send(1);
        assert_eq!(pipe.receive(1), [next]);
    }

    #[test]
    fn receives_that_overlap_in_time_can_have_got_either() {
        let mut pipe = Pipe::new();
        let (one, two) = (pipe.begin_receive(1), pipe.begin_receive(1));
        let (a, b) = (pipe.send(1), pipe.send(1));
        assert_eq!(pipe.end_receive(two, 1), [a, b]);
        assert_eq!(pipe.end_receive(one, 1), [a, b]);
        let c = pipe.send(1);
        assert_eq!(pipe.receive(1), [c]);
    }

    #[test]
    fn more_than_was_sent_comes_after_everything() {
        let mut pipe = Pipe::new();
        pipe.send(1);
        assert_eq!(pipe.receive(3), [ALL]);
        pipe.send(1);
        assert_eq!(pipe.receive(1), [ALL]);
    }

    #[test]
    fn a_long_queue_shares_a_number() {
        let mut pipe = Pipe::new();
        let numbers: Vec<u32> = (0..40).map(|_| pipe.send(1)).collect();
        assert_eq!(numbers[KEPT - 1], numbers[39]);
        for number in numbers {
            assert_eq!(pipe.receive(1), [number]);
        }
        let next = pipe.send(1);
        assert_eq!(pipe.receive(1), [next]);
    }

    #[test]
    fn another_sender_is_another_connection() {
        let mut table = Box::new(Table::new());
        let mut forgotten = Vec::new();
        let mut forget = |message: Message| forgotten.push(message.number);
        let old = table.begin_send(PIPE, 5, 1, || 0, &mut forget);
        table.end_send(old, 1);
        let new = table.begin_send(PIPE, 6, 1, || 0, &mut forget);
        table.end_send(new, 1);
        let receiving = table.begin_receive(PIPE, 1, || 0, &mut forget);
        let mut from = Vec::new();
        table.end_receive(
            receiving,
            1,
            false,
            &mut |message| from.push(message.number),
            &mut forget,
        );
        assert_eq!(from, [new.message.number]);
        assert_eq!(forgotten, [old.message.number, new.message.number]);
    }
}
