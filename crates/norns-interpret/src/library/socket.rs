//! Sockets between threads of the process: pairs, and connections to an address at which it listens itself.

use super::descriptor::{EBADF, EINVAL, O_NONBLOCK, read};
use super::{Call, Done, Flow, Model, int};
use crate::files::{Direction, Open, Socket};
use crate::machine::{Stop, give_up};

const EDESTADDRREQ: i32 = 89;
const ENOTCONN: i32 = 107;
const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const SOCK_STREAM: i32 = 1;
/// Flags of the type of a socket.
const TYPE_FLAGS: i32 = 0o2_000_000 | O_NONBLOCK;
const MSG_PEEK: i32 = 2;
const MSG_DONTWAIT: i32 = 0x40;
const MSG_WAITALL: i32 = 0x100;
const MSG_NOSIGNAL: i32 = 0x4000;
/// The first port that `bind` of port 0 gives.
const FIRST_PORT: u16 = 40_000;

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "socket" => |call| {
            let (family, kind) = (call.argument(0) & 0xffff_ffff, call.int(1));
            if !matches!(family, AF_UNIX | AF_INET) || kind & !TYPE_FLAGS != SOCK_STREAM {
                return give_up("a socket that is no stream");
            }
            let open = Open::Socket(Socket::New(Vec::new()));
            let descriptor = call.machine.state.files_mut().add(open);
            call.set_non_blocking(descriptor, kind & O_NONBLOCK != 0);
            int(descriptor as i32)
        },
        "socketpair" => |call| {
            let kind = call.int(1);
            if kind & !TYPE_FLAGS != SOCK_STREAM {
                return give_up("a socket that is no stream");
            }
            let files = call.machine.state.files_mut();
            let (there, back) = (files.add_pipe(), files.add_pipe());
            let mut end = |from, to| {
                let (from, to) = (Some(from), Some(to));
                files.add(Open::Socket(Socket::Connected { from, to }))
            };
            let ends = [end(there, back), end(back, there)];
            call.put_pair(ends, kind & O_NONBLOCK != 0)
        },
        "bind" => bind,
        "listen" => |call| match call
            .machine
            .state
            .files_mut()
            .open_mut(call.arguments[0] as usize)
        {
            Some(Open::Socket(socket)) => match socket {
                Socket::New(address) if address.is_empty() => call.fail(EDESTADDRREQ),
                Socket::New(address) => {
                    let address = std::mem::take(address);
                    *socket = Socket::Listening(address, Default::default());
                    int(0)
                }
                Socket::Listening(..) => int(0),
                Socket::Connected { .. } => call.fail(EINVAL),
            },
            _ => call.fail(EBADF),
        },
        "getsockname" => |call| {
            let address = match call.machine.state.files.open(call.int(0) as usize) {
                Some(Open::Socket(Socket::New(address) | Socket::Listening(address, _))) => {
                    address.clone()
                }
                _ => return give_up("getsockname of a connection"),
            };
            let room = call.load(call.argument(2), 4)?;
            let count = address.len().min(room as usize);
            call.write(call.argument(1), &address[..count])?;
            call.store(call.argument(2), 4, address.len() as u64)?;
            int(0)
        },
        "connect" => connect,
        "accept" | "accept4" => accept,
        "send" => |call| send(call, 3),
        "sendto" => |call| match call.argument(4) {
            0 => send(call, 3),
            _ => give_up("a message to an address"),
        },
        "recv" => receive,
        "recvfrom" => |call| match call.argument(4) {
            0 => receive(call),
            _ => give_up("a message with its address"),
        },
        "sendmsg" => |call| {
            let parts = message_parts(call)?;
            let flags = call.int(2);
            gather(call, &parts, flags)
        },
        "writev" => |call| {
            let parts = parts(call, call.argument(1), call.argument(2) & 0xffff_ffff)?;
            gather(call, &parts, 0)
        },
        "recvmsg" => |call| {
            let parts = message_parts(call)?;
            let flags = call.int(2);
            scatter(call, &parts, flags)
        },
        "readv" => |call| {
            let parts = parts(call, call.argument(1), call.argument(2) & 0xffff_ffff)?;
            scatter(call, &parts, 0)
        },
        "shutdown" => |call| {
            let (descriptor, how) = (call.int(0) as usize, call.int(1));
            let Some(description) = call.machine.state.files.description(descriptor) else {
                return call.fail(EBADF);
            };
            call.machine.come_before(description);
            call.machine.state.effects += 1;
            let files = call.machine.state.files_mut();
            let mut is_done = true;
            if how != 1 {
                is_done &= files.shut_down(descriptor, Direction::Read);
            }
            if how != 0 {
                is_done &= files.shut_down(descriptor, Direction::Write);
            }
            match is_done {
                true => Ok(Flow::Yield(0)),
                false => call.fail(ENOTCONN),
            }
        },
        // Buffers, time-outs of the network and addresses that are used again: nothing that is seen here.
        "setsockopt" => |call| match (call.int(1), call.int(2)) {
            // SO_REUSEADDR, SO_SNDBUF, SO_RCVBUF, SO_KEEPALIVE, SO_LINGER, SO_REUSEPORT; TCP_NODELAY
            (1, 2 | 7 | 8 | 9 | 13 | 15) | (6, 1) => int(0),
            _ => give_up("setsockopt"),
        },
        _ => return None,
    })
}

/// The address that a call names; a port alone for an address of this machine.
fn address(call: &Call<'_, '_>) -> Result<Vec<u8>, Stop> {
    let (at, length) = (call.argument(1), call.argument(2) & 0xffff_ffff);
    let bytes = call.given(1, length)?;
    match call.load(at, 2)? {
        AF_UNIX => Ok(bytes),
        AF_INET => match bytes.get(4) {
            Some(0 | 127) => Ok([&bytes[..4], &[127, 0, 0, 1], &[0; 8]].concat()),
            _ => give_up("an address of another machine"),
        },
        _ => give_up("an address of a rare kind"),
    }
}

fn bind(call: &mut Call<'_, '_>) -> Done {
    let mut address = address(call)?;
    if address.len() <= 2 {
        return give_up("a socket that the system names");
    }
    if address.starts_with(&[AF_INET as u8, 0, 0, 0]) {
        let files = call.machine.state.files_mut();
        files.made_up += 1;
        let port = FIRST_PORT + files.made_up as u16;
        address[2..4].copy_from_slice(&port.to_be_bytes());
    }
    match call
        .machine
        .state
        .files_mut()
        .open_mut(call.arguments[0] as usize)
    {
        Some(Open::Socket(Socket::New(own))) => {
            *own = address;
            int(0)
        }
        Some(_) => call.fail(EINVAL),
        None => call.fail(EBADF),
    }
}

fn connect(call: &mut Call<'_, '_>) -> Done {
    let address = address(call)?;
    let Some(listener) = call.machine.state.files.listener(&address) else {
        return give_up("a connection to another process");
    };
    let own = call.int(0) as usize;
    if !matches!(
        call.machine.state.files.open(own),
        Some(Open::Socket(Socket::New(_)))
    ) {
        return call.fail(EINVAL);
    }
    let current = call.machine.state.current;
    call.machine.drain_buffer(current)?;
    call.machine.come_before(listener);
    call.machine.state.effects += 1;
    let files = call.machine.state.files_mut();
    let (there, back) = (files.add_pipe(), files.add_pipe());
    if let Open::Socket(Socket::Listening(_, waiting)) = &mut files.described_mut(listener).open {
        waiting.push_back((there, back));
    }
    if let Some(open) = files.open_mut(own) {
        *open = Open::Socket(Socket::Connected {
            from: Some(back),
            to: Some(there),
        });
    }
    Ok(Flow::Yield(0))
}

fn accept(call: &mut Call<'_, '_>) -> Done {
    if call.argument(1) != 0 {
        return give_up("accept that asks for the address");
    }
    let Some(listener) = call.machine.state.files.description(call.int(0) as usize) else {
        return call.fail(EBADF);
    };
    let files = call.machine.state.files_mut();
    let Open::Socket(Socket::Listening(_, waiting)) = &mut files.described_mut(listener).open
    else {
        return call.fail(EINVAL);
    };
    let Some((from, to)) = waiting.pop_front() else {
        return call.wait_for(listener, Direction::Read, true);
    };
    let (from, to) = (Some(from), Some(to));
    let descriptor = files.add(Open::Socket(Socket::Connected { from, to }));
    call.machine.come_after(listener);
    call.machine.state.effects += 1;
    let flags = if call.name == "accept4" {
        call.int(3)
    } else {
        0
    };
    call.set_non_blocking(descriptor, flags & O_NONBLOCK != 0);
    Ok(Flow::Yield(descriptor as u64))
}

fn send(call: &mut Call<'_, '_>, flags: usize) -> Done {
    let bytes = call.given(1, call.argument(2))?;
    let (descriptor, flags) = (call.int(0) as usize, call.int(flags));
    let waits = flags & MSG_DONTWAIT == 0;
    call.send(descriptor, &bytes, waits, flags & MSG_NOSIGNAL == 0)
}

fn receive(call: &mut Call<'_, '_>) -> Done {
    let flags = call.int(3);
    if flags & MSG_WAITALL != 0 {
        return give_up("recv of all bytes (MSG_WAITALL)");
    }
    read(call, flags & MSG_PEEK != 0, flags & MSG_DONTWAIT != 0)
}

/// The addresses and lengths of an array of `struct iovec`.
fn parts(call: &Call<'_, '_>, array: u64, count: u64) -> Result<Vec<(u64, u64)>, Stop> {
    (0..count)
        .map(|at| {
            Ok((
                call.load(array + 16 * at, 8)?,
                call.load(array + 16 * at + 8, 8)?,
            ))
        })
        .collect()
}

/// Those of a `struct msghdr`, which may have nothing else.
fn message_parts(call: &Call<'_, '_>) -> Result<Vec<(u64, u64)>, Stop> {
    let header = call.argument(1);
    if call.load(header, 8)? != 0 || call.load(header + 32, 8)? != 0 {
        return give_up("a message with an address or with descriptors");
    }
    parts(call, call.load(header + 16, 8)?, call.load(header + 24, 8)?)
}

fn gather(call: &mut Call<'_, '_>, parts: &[(u64, u64)], flags: i32) -> Done {
    let mut bytes = Vec::new();
    for &(address, length) in parts.iter().filter(|part| part.1 > 0) {
        bytes.extend_from_slice(call.machine.state.memory.bytes(address, length)?);
    }
    let waits = flags & MSG_DONTWAIT == 0;
    call.send(
        call.argument(0) as u32 as usize,
        &bytes,
        waits,
        flags & MSG_NOSIGNAL == 0,
    )
}

fn scatter(call: &mut Call<'_, '_>, parts: &[(u64, u64)], flags: i32) -> Done {
    let room: u64 = parts.iter().map(|part| part.1).sum();
    let (is_peek, waits) = (flags & MSG_PEEK != 0, flags & MSG_DONTWAIT == 0);
    let bytes = match call.receive(call.int(0) as usize, room as usize, is_peek, waits)? {
        Ok(bytes) => bytes,
        Err(flow) => return Ok(flow),
    };
    let mut rest = &bytes[..];
    for &(address, length) in parts {
        let (part, after) = rest.split_at(rest.len().min(length as usize));
        call.write(address, part)?;
        rest = after;
    }
    Ok(Flow::Yield(bytes.len() as u64))
}
