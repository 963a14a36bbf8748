//! What the recorded run got from outside: connections from other processes and what came through them,
//! the time, and random bytes.
//!
//! The runtime appends to a file that it has mapped, so that nothing is lost when the program is killed.
//! The file begins with `MAGIC` and the position behind the last record, eight bytes each; the rest of it
//! is records: a header of `HEADER` bytes and as many further bytes as that says, at multiples of eight.
//! The kind is written last, so that a record that a thread did not finish has the kind 0.

/// With the version of the format.
pub const MAGIC: [u8; 8] = *b"norns-i1";
/// Where the first record begins.
pub const FIRST: usize = 16;
/// The length of what follows, the kind, who it is about and a number, little-endian: 4, 4, 8 and 8 bytes.
pub const HEADER: usize = 24;
/// Where a header has its kind.
pub const KIND: usize = 4;

/// What happened. Who it is about is a connection and the time (`at_connection`), or a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A connection was accepted; its local name and that of the other end follow, as `struct sockaddr`
    /// of `number` bytes and the rest.
    Accepted = 1,
    /// Bytes were received, which follow; `number` bytes had been sent through the connection before.
    Received = 2,
    /// The other end sends no more; `number` as above.
    Ended = 3,
    /// The process connected a socket itself. Its local name of `number` bytes follows, and the name that
    /// it was connected with.
    Connected = 4,
    /// Something was received in a way in which the runtime does not see the bytes. The connection 0 stands
    /// for datagrams.
    Lost = 5,
    /// A thread asked for the time: `who` is the name of the thread as a number, `number` the clock. A
    /// `struct timespec` follows.
    Time = 6,
    /// A thread asked for random bytes, which follow.
    Random = 7,
    /// The program asked for the id of its process, which is `number`.
    Process = 8,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        let all = [
            Kind::Accepted,
            Kind::Received,
            Kind::Ended,
            Kind::Connected,
            Kind::Lost,
            Kind::Time,
            Kind::Random,
            Kind::Process,
        ];
        all.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// The room that a record with so many further bytes takes.
pub const fn room(length: usize) -> usize {
    HEADER + length.next_multiple_of(8)
}

/// Connections are counted from 1, and milliseconds from the start of the process.
pub const fn at_connection(milliseconds: u32, connection: u32) -> u64 {
    (milliseconds as u64) << 32 | connection as u64
}

/// The header of a record, without its kind.
pub fn header(length: u32, who: u64, number: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let fields = length.to_le_bytes().into_iter().chain([0; 4]);
    let fields = fields.chain(who.to_le_bytes());
    let fields = fields.chain(number.to_le_bytes());
    for (to, from) in bytes.iter_mut().zip(fields) {
        *to = from;
    }
    bytes
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub kind: Kind,
    pub who: u64,
    pub number: u64,
    pub bytes: &'a [u8],
}

impl Record<'_> {
    pub fn connection(&self) -> u32 {
        self.who as u32
    }

    pub fn milliseconds(&self) -> u32 {
        (self.who >> 32) as u32
    }
}

/// The file is not one of these, or of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotInputs;

/// All finished records, in the order in which they were begun.
pub fn read(file: &[u8]) -> Result<impl Iterator<Item = Record<'_>>, NotInputs> {
    let end = file.get(8..FIRST).ok_or(NotInputs)?;
    if file[..8] != MAGIC {
        return Err(NotInputs);
    }
    let end = u64::from_le_bytes(end.try_into().map_err(|_| NotInputs)?);
    let end = usize::try_from(end).unwrap_or(usize::MAX).min(file.len());
    let mut at = FIRST;
    let next = move || {
        loop {
            let header = file.get(at..end)?.get(..HEADER)?;
            let short =
                |from: usize| Some(u32::from_le_bytes(header[from..from + 4].try_into().ok()?));
            let long =
                |from: usize| Some(u64::from_le_bytes(header[from..from + 8].try_into().ok()?));
            let length = short(0)? as usize;
            let bytes = file.get(at + HEADER..end)?.get(..length)?;
            let kind = Kind::of(short(KIND)?);
            at += room(length);
            if let Some(kind) = kind {
                return Some(Record {
                    kind,
                    who: long(8)?,
                    number: long(16)?,
                    bytes,
                });
            }
        }
    };
    Ok(core::iter::from_fn(next))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    fn file(records: &[Record]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend([0; 8]);
        for record in records {
            let at = file.len();
            file.extend(header(record.bytes.len() as u32, record.who, record.number));
            file[at + KIND] = record.kind as u8;
            file.extend(record.bytes);
            file.resize(at + room(record.bytes.len()), 0);
        }
        let end = file.len() as u64;
        file[8..FIRST].copy_from_slice(&end.to_le_bytes());
        file
    }

    #[test]
    fn what_is_written_is_read() {
        let records = [
            Record {
                kind: Kind::Received,
                who: at_connection(7, 3),
                number: 1 << 40,
                bytes: b"hello",
            },
            Record {
                kind: Kind::Ended,
                who: 3,
                number: 7,
                bytes: b"",
            },
        ];
        let mut file = file(&records);
        assert!(read(&file).unwrap().eq(records));
        assert_eq!((records[0].milliseconds(), records[0].connection()), (7, 3));
        // A record that was begun and not finished.
        file[FIRST + KIND] = 0;
        assert!(read(&file).unwrap().eq(records[1..].iter().copied()));
        for length in 0..file.len() {
            if let Ok(records) = read(&file[..length]) {
                records.for_each(drop);
            }
        }
        file[7] = b'9';
        assert!(read(&file).is_err());
    }
}
