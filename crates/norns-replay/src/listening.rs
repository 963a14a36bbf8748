//! Whether a program waits for clients, as far as `/proc` can tell: which of its sockets listen.
//!
//! Processes that the program has started count as well, since the workers of a server may be the
//! ones that listen. A UDP socket counts as soon as it is bound to a port.

use std::collections::BTreeSet;
use std::fs;

/// Where a program listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listening {
    Tcp {
        port: u16,
    },
    /// A local socket that has a name.
    Local,
    Udp {
        port: u16,
    },
}

impl Listening {
    pub fn port(self) -> Option<u16> {
        match self {
            Listening::Tcp { port } | Listening::Udp { port } => Some(port),
            Listening::Local => None,
        }
    }
}

/// Where the process or one that it started listens first: TCP before local sockets before UDP, and
/// lower ports before higher ones.
pub fn of_process(id: i32) -> Option<Listening> {
    all_of_process(id).first().copied()
}

/// Where the process or one that it started listens.
pub fn all_of_process(id: i32) -> BTreeSet<Listening> {
    let mut processes = vec![id];
    let mut everywhere = BTreeSet::new();
    while let Some(id) = processes.pop() {
        processes.extend(children(id));
        let own = inodes(id);
        if own.is_empty() {
            continue;
        }
        let table = |name: &str| fs::read_to_string(format!("/proc/{id}/net/{name}"));
        let internet = |name, found: fn(&str) -> Option<(Listening, u64)>| {
            let text = table(name).unwrap_or_default();
            text.lines().filter_map(found).collect::<Vec<_>>()
        };
        let all = [
            internet("tcp", tcp),
            internet("tcp6", tcp),
            internet("unix", local),
            internet("udp", udp),
            internet("udp6", udp),
        ];
        let found = all.into_iter().flatten();
        let found = found.filter(|(_, inode)| own.contains(inode));
        everywhere.extend(found.map(|(listening, _)| listening));
    }
    everywhere
}

/// Whether the TCP socket with these ports has something that its process has not read yet.
pub fn is_unread(port: u16, of_peer: u16) -> bool {
    let table = |name: &str| fs::read_to_string(format!("/proc/self/net/{name}"));
    let tables = ["tcp", "tcp6"].map(|name| table(name).unwrap_or_default());
    let mut lines = tables.iter().flat_map(|table| table.lines());
    lines.any(|line| unread(line, port, of_peer).is_some_and(|bytes| bytes > 0))
}

/// The size of the receive queue in a line of `/proc/net/tcp` with these ports.
fn unread(line: &str, port: u16, of_peer: u16) -> Option<u64> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let port_of = |field: &str| u16::from_str_radix(field.rsplit_once(':')?.1, 16).ok();
    let ports = (port_of(fields.get(1)?)?, port_of(fields.get(2)?)?);
    let (_, queue) = fields.get(4)?.split_once(':')?;
    (ports == (port, of_peer)).then(|| u64::from_str_radix(queue, 16).ok())?
}

fn children(id: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{id}/task")) else {
        return Vec::new();
    };
    let texts = tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok())
        .collect::<String>();
    let ids = texts.split_whitespace();
    ids.filter_map(|id| id.parse().ok()).collect()
}

/// The inodes of the sockets that a process has open.
fn inodes(id: i32) -> BTreeSet<u64> {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{id}/fd")) else {
        return BTreeSet::new();
    };
    let links = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links
        .filter_map(|link| {
            let text = link.to_str()?;
            let inode = text.strip_prefix("socket:[")?.strip_suffix(']')?;
            inode.parse().ok()
        })
        .collect()
}

/// A line of `/proc/net/tcp` whose socket listens.
fn tcp(line: &str) -> Option<(Listening, u64)> {
    const LISTENS: &str = "0A";
    let (port, inode) = internet(line, LISTENS)?;
    Some((Listening::Tcp { port }, inode))
}

/// A line of `/proc/net/udp` whose socket is not connected.
fn udp(line: &str) -> Option<(Listening, u64)> {
    const UNCONNECTED: &str = "07";
    let (port, inode) = internet(line, UNCONNECTED)?;
    Some((Listening::Udp { port }, inode))
}

/// The local port and the inode: `sl local_address rem_address st queues timers retries uid timeout
/// inode …`.
fn internet(line: &str, state: &str) -> Option<(u16, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if fields.get(3) != Some(&state) {
        return None;
    }
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some((port, fields.get(9)?.parse().ok()?))
}

/// A line of `/proc/net/unix` whose socket listens: `Num RefCount Protocol Flags Type St Inode Path`.
fn local(line: &str) -> Option<(Listening, u64)> {
    const ACCEPTS: u32 = 0x10000;
    let fields: Vec<&str> = line.split_whitespace().collect();
    let flags = u32::from_str_radix(fields.get(3)?, 16).ok()?;
    // A socket without a name is one that nobody can connect to.
    fields.get(7)?;
    let inode = fields.get(6)?.parse().ok()?;
    (flags & ACCEPTS != 0).then_some((Listening::Local, inode))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let listens = "   0: 0100007F:533F 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 812 1 0 100 0 0 10 0";
        assert_eq!(tcp(listens), Some((Listening::Tcp { port: 0x533f }, 812)));
        assert_eq!(tcp(&listens.replace(" 0A ", " 01 ")), None);
        let bound = " 1234: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000   101        0 77 2 0 0";
        assert_eq!(udp(bound), Some((Listening::Udp { port: 53 }, 77)));
        let accepts = "0000: 00000002 00000000 00010000 0001 01 4711 /run/server.sock";
        assert_eq!(local(accepts), Some((Listening::Local, 4711)));
        let connected = "0000: 00000003 00000000 00000000 0001 03 4712 /run/server.sock";
        assert_eq!(local(connected), None);
        let waits =
            "1: 0100007F:0050 0100007F:9C40 01 00000000:00000A10 00:00000000 00000000 0 0 9 1";
        assert_eq!(unread(waits, 80, 40000), Some(0xa10));
        assert_eq!(unread(waits, 40000, 80), None);
        assert_eq!(
            tcp("  sl  local_address rem_address   st tx_queue rx_queue"),
            None
        );
    }

    #[test]
    fn a_listening_socket_of_a_process_is_found() {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a free port of this machine");
        let port = socket
            .local_addr()
            .expect("the socket has an address")
            .port();
        let found = of_process(std::process::id() as i32);
        assert_eq!(found, Some(Listening::Tcp { port }));
    }
}
