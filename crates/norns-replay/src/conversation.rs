//! What other processes said to the recorded program, so that a player can say it again.
//!
//! Read from what the runtime wrote down (`norns_wire::inputs`). A connection that the program made to
//! itself is left out: it will make it again. Two connections follow each other if one had ended before
//! the other was accepted; otherwise they are played at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use norns_wire::inputs::{Kind, Record, read};

use crate::process::Error;

/// Where the program accepted a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Internet(SocketAddr),
    /// The path of a local socket.
    Path(PathBuf),
    /// The name of a local socket that has no path.
    Abstract(Vec<u8>),
}

/// What the program received at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// How many bytes the program had sent through the connection before.
    pub after: u64,
    /// How long the program had run.
    pub time: Duration,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub address: Address,
    pub steps: Vec<Step>,
    /// When the other end closed the connection, as in `Step::after`; `None` if it did not.
    pub end: Option<u64>,
    /// The connections that had ended before, by their places in the list.
    pub follows: Vec<usize>,
    /// How long the program had run when it accepted the connection.
    pub time: Duration,
}

/// The connections of a recorded run, in the order in which it accepted them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    pub connections: Vec<Connection>,
    /// What cannot be played, in words.
    pub unserved: Vec<String>,
    /// With whom the program connected by itself, which it will do again.
    pub outgoing: BTreeSet<SocketAddr>,
}

/// Where the inputs of a recording are kept.
pub fn inputs_path(trace: &Path) -> PathBuf {
    trace.with_extension("inputs")
}

impl Conversation {
    /// Reads the inputs of a recording. A recording without any has none.
    pub fn load(trace: &Path) -> Result<Conversation, Error> {
        let path = inputs_path(trace);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            read => read.map_err(Error::file("read", &path))?,
        };
        Ok(Self::of(&bytes))
    }

    /// Cuts off the room that a recording did not use; a file without inputs is removed.
    pub fn trim(trace: &Path) -> Result<(), Error> {
        let path = inputs_path(trace);
        let cut = || {
            let file = fs::File::options().read(true).write(true).open(&path)?;
            let mut start = [0; 16];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut start, 0)?;
            let [.., a, b, c, d, e, f, g, h] = start;
            let end = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
            if end < file.metadata()?.len() {
                file.set_len(end)?;
            }
            std::io::Result::Ok(end)
        };
        match cut() {
            Ok(end) if end <= norns_wire::inputs::FIRST as u64 => {
                fs::remove_file(&path).map_err(Error::file("remove", &path))
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::file("cut", &path)(error))
            }
            _ => Ok(()),
        }
    }

    fn of(file: &[u8]) -> Conversation {
        let mut all = Conversation::default();
        let Ok(records) = read(file) else {
            all.unserved
                .push("connections: their record cannot be read".into());
            return all;
        };
        let records: Vec<_> = records.collect();
        let used = file.get(8..16).and_then(|end| end.try_into().ok());
        if used.map_or(0, u64::from_le_bytes) > file.len() as u64 {
            let problem = "connections: more came through them than can be kept";
            all.unserved.push(problem.into());
        }
        // The two ends of every connection that the program made itself.
        let own = { records.iter() }.filter(|record| record.kind == Kind::Connected);
        let own: Vec<(&[u8], &[u8])> = own.map(ends).collect();
        let accepted = { records.iter() }.filter(|record| record.kind == Kind::Accepted);
        let accepted: Vec<&[u8]> = accepted.map(|record| ends(record).1).collect();
        for (here, there) in &own {
            let is_inside = accepted.iter().any(|end| is_same_end(here, end));
            if let (false, Some(Address::Internet(there))) = (is_inside, address(there)) {
                all.outgoing.insert(there);
            }
        }
        // The place in the list of every connection that is played.
        let mut places: BTreeMap<u32, usize> = BTreeMap::new();
        for record in &records {
            let place = places.get(&record.connection()).copied();
            let time = Duration::from_millis(record.milliseconds().into());
            match (record.kind, place) {
                (Kind::Accepted, _) => {
                    let (here, there) = ends(record);
                    if own.iter().any(|(own, _)| is_same_end(own, there)) {
                        continue;
                    }
                    let Some(address) = address(here) else {
                        let problem = format!(
                            "connection {}: it is neither TCP nor local",
                            record.connection()
                        );
                        all.unserved.push(problem);
                        continue;
                    };
                    let ended = { all.connections.iter() }.enumerate();
                    let ended = ended.filter(|(_, earlier)| earlier.end.is_some());
                    let follows = ended.map(|(place, _)| place).collect();
                    places.insert(record.connection(), all.connections.len());
                    all.connections.push(Connection {
                        address,
                        steps: Vec::new(),
                        end: None,
                        follows,
                        time,
                    });
                }
                (Kind::Received, Some(place)) => all.connections[place].steps.push(Step {
                    after: record.number,
                    time,
                    bytes: record.bytes.to_vec(),
                }),
                (Kind::Ended, Some(place)) => {
                    all.connections[place].end.get_or_insert(record.number);
                }
                (Kind::Lost, Some(_)) => all.unserved.push(format!(
                    "connection {}: it was read in a way that is not seen",
                    record.connection()
                )),
                (Kind::Lost, None) if record.connection() == 0 => {
                    all.unserved
                        .push("datagrams that the program received".into());
                }
                (Kind::Received | Kind::Ended | Kind::Lost, None)
                | (Kind::Connected | Kind::Time | Kind::Random | Kind::Process, _) => {}
            }
        }
        all
    }

    /// Whether a player can take the place of the whole client.
    pub fn is_whole(&self) -> bool {
        !self.connections.is_empty() && self.unserved.is_empty()
    }
}

/// The two names of a record.
fn ends<'a>(record: &Record<'a>) -> (&'a [u8], &'a [u8]) {
    let length = (record.number as usize).min(record.bytes.len());
    record.bytes.split_at(length)
}

const LOCAL: u16 = 1;
const INTERNET: u16 = 2;
const INTERNET_6: u16 = 10;

fn family(name: &[u8]) -> Option<u16> {
    let &[low, high, ..] = name else { return None };
    Some(u16::from_le_bytes([low, high]))
}

/// Whether a socket that the program connected has this name. Local sockets rarely have one: then all
/// that the program accepts are taken for its own.
fn is_same_end(own: &[u8], other: &[u8]) -> bool {
    match (family(own), family(other)) {
        (Some(LOCAL), Some(LOCAL)) => true,
        (Some(INTERNET | INTERNET_6), Some(INTERNET | INTERNET_6)) => {
            own.get(2..4) == other.get(2..4)
        }
        _ => false,
    }
}

/// What a `struct sockaddr` says.
fn address(name: &[u8]) -> Option<Address> {
    let port = || Some(u16::from_be_bytes(name.get(2..4)?.try_into().ok()?));
    match family(name)? {
        INTERNET => {
            let ip: [u8; 4] = name.get(4..8)?.try_into().ok()?;
            let ip = IpAddr::V4(Ipv4Addr::from(ip));
            Some(Address::Internet(SocketAddr::new(ip, port()?)))
        }
        INTERNET_6 => {
            let ip: [u8; 16] = name.get(8..24)?.try_into().ok()?;
            let ip = IpAddr::V6(Ipv6Addr::from(ip)).to_canonical();
            Some(Address::Internet(SocketAddr::new(ip, port()?)))
        }
        LOCAL => match name.get(2..)? {
            [] => None,
            [0, rest @ ..] => Some(Address::Abstract(rest.to_vec())),
            path => {
                use std::os::unix::ffi::OsStrExt;
                let end = path.iter().position(|byte| *byte == 0);
                let path = &path[..end.unwrap_or(path.len())];
                let path = std::ffi::OsStr::from_bytes(path);
                Some(Address::Path(path.into()))
            }
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use norns_wire::inputs::{KIND, MAGIC, at_connection, header, room};

    use super::*;

    const SERVER: &[u8] = &[2, 0, 0x1f, 0x90, 127, 0, 0, 1];

    fn name_of_port(port: u8) -> Vec<u8> {
        vec![2, 0, 0, port, 127, 0, 0, 1]
    }

    fn file(records: &[(Kind, u32, u64, &[u8])]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend([0; 8]);
        for (kind, connection, number, bytes) in records {
            let at = file.len();
            let who = at_connection(5, *connection);
            file.extend(header(bytes.len() as u32, who, *number));
            file[at + KIND] = *kind as u8;
            file.extend(*bytes);
            file.resize(at + room(bytes.len()), 0);
        }
        let end = file.len() as u64;
        file[8..16].copy_from_slice(&end.to_le_bytes());
        file
    }

    #[test]
    fn connections_of_others_are_played_in_their_order() {
        let accepted = |port| [SERVER, &name_of_port(port)].concat();
        let (one, two, three, own) = (accepted(1), accepted(2), accepted(3), accepted(9));
        let conversation = Conversation::of(&file(&[
            (Kind::Accepted, 1, 8, &one),
            (Kind::Accepted, 2, 8, &two),
            (Kind::Received, 2, 0, b"get"),
            (Kind::Received, 1, 0, b"set"),
            (Kind::Connected, 0, 8, &[&name_of_port(9), SERVER].concat()),
            (
                Kind::Connected,
                0,
                8,
                &[name_of_port(8), name_of_port(53)].concat(),
            ),
            (Kind::Accepted, 3, 8, &own),
            (Kind::Received, 3, 0, b"wake up"),
            (Kind::Received, 2, 4, b"more"),
            (Kind::Ended, 2, 8, b""),
            (Kind::Accepted, 4, 8, &three),
        ]));
        let address = Address::Internet("127.0.0.1:8080".parse().unwrap());
        let step = |after, bytes: &[u8]| Step {
            after,
            time: Duration::from_millis(5),
            bytes: bytes.to_vec(),
        };
        let connection = |steps, end, follows| Connection {
            address: address.clone(),
            steps,
            end,
            follows,
            time: Duration::from_millis(5),
        };
        let expected = [
            connection(vec![step(0, b"set")], None, vec![]),
            connection(vec![step(0, b"get"), step(4, b"more")], Some(8), vec![]),
            connection(vec![], None, vec![1]),
        ];
        assert_eq!(conversation.connections, expected);
        assert!(conversation.is_whole());
        let outgoing = ["127.0.0.1:53".parse().unwrap()];
        assert_eq!(conversation.outgoing, outgoing.into());
    }

    #[test]
    fn what_was_not_seen_is_said() {
        let name = [SERVER, &name_of_port(1)].concat();
        let conversation = Conversation::of(&file(&[
            (Kind::Accepted, 1, 8, &name),
            (Kind::Lost, 1, 0, b""),
        ]));
        assert_eq!(conversation.unserved.len(), 1);
        assert!(!conversation.is_whole());
        assert!(!Conversation::of(b"other bytes").unserved.is_empty());
    }
}
