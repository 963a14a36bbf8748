//! Says to a program what the clients of the recorded run said to it.
//!
//! It connects as they did and sends what they sent, in the same pieces, each when the program has answered
//! as much as it had when it received that piece, and not earlier after its start: a timer of the program
//! that came first comes first again. The program needs no change for this: its
//! calls, also `epoll` and `accept`, do what they do with a real client. Answers are read and dropped.
//! A program that answers less than it did is sent the next piece after a while nevertheless.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::conversation::{Address, Connection, Conversation};
use crate::listening::{self, Listening};

/// For how long the program may be silent before the next piece is sent anyway.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same after it has answered, and nearly as much as in the recorded run: answers have numbers in them.
const PATIENCE_AFTER_ANSWER: Duration = Duration::from_millis(60);
/// How long a thread sleeps before it looks again.
const NAP: Duration = Duration::from_millis(2);
/// How long the program gets to receive a piece before the one behind it.
const UNTIL_RECEIVED: Duration = Duration::from_millis(200);

struct Shared {
    conversation: Arc<Conversation>,
    /// When the program was started.
    start: Instant,
    /// Nothing is to be said any more.
    over: AtomicBool,
    /// Which connections have said everything.
    said: Vec<AtomicBool>,
    /// How many connections have said everything and heard the answer.
    done: AtomicUsize,
}

/// The player of one run. It stops when it is dropped.
pub struct Player(Arc<Shared>);

impl Player {
    /// Begins to talk to a program that was started at `start` and listens already.
    pub fn start(conversation: &Arc<Conversation>, program: i32, start: Instant) -> Self {
        let connections = conversation.connections.len();
        let shared = Arc::new(Shared {
            conversation: conversation.clone(),
            start,
            over: AtomicBool::new(false),
            said: (0..connections).map(|_| AtomicBool::new(false)).collect(),
            done: AtomicUsize::new(0),
        });
        let own = shared.clone();
        std::thread::spawn(move || own.connect_all(program));
        Self(shared)
    }

    pub fn is_done(&self) -> bool {
        self.0.done.load(Ordering::Acquire) == self.0.said.len()
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Until the program has run for so long.
    fn sleep_until(&self, time: Duration) {
        while self.start.elapsed() < time && !self.is_over() {
            let left = time.saturating_sub(self.start.elapsed());
            std::thread::sleep(left.min(10 * NAP));
        }
    }

    /// One connection after the other, in the order in which they were accepted; what is said through
    /// them is said by a thread for each.
    fn connect_all(self: Arc<Self>, program: i32) {
        for (place, connection) in self.conversation.connections.iter().enumerate() {
            let has_said = |place: &usize| self.said[*place].load(Ordering::Acquire);
            while !connection.follows.iter().all(has_said) {
                if self.is_over() {
                    return;
                }
                std::thread::sleep(NAP);
            }
            self.sleep_until(connection.time);
            let stream = self.connect(&connection.address, program);
            let own = self.clone();
            let talk = move || {
                if let Ok(mut stream) = stream {
                    // An error is the end of the connection: the program has closed it.
                    let _ = own.talk(&own.conversation.connections[place], &mut stream, place);
                }
                own.said[place].store(true, Ordering::Release);
                own.done.fetch_add(1, Ordering::Release);
            };
            std::thread::spawn(talk);
        }
    }

    /// Tries again for a while, since the program may not listen everywhere yet.
    fn connect(&self, address: &Address, program: i32) -> io::Result<Stream> {
        let start = Instant::now();
        loop {
            let tried = match address {
                Address::Internet(address) => {
                    TcpStream::connect(listening_now(*address, program)).map(Stream::Internet)
                }
                Address::Path(path) => UnixStream::connect(path).map(Stream::Local),
                Address::Abstract(name) => {
                    let name = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
                    UnixStream::connect_addr(&name).map(Stream::Local)
                }
            };
            match tried {
                Err(_) if !self.is_over() && start.elapsed() < PATIENCE => std::thread::sleep(NAP),
                tried => return tried,
            }
        }
    }

    fn talk(&self, connection: &Connection, stream: &mut Stream, place: usize) -> io::Result<()> {
        stream.prepare()?;
        let mut heard = 0;
        let mut before = None;
        for step in &connection.steps {
            if before == Some(step.after) {
                stream.wait_until_received();
            }
            before = Some(step.after);
            self.hear(stream, &mut heard, step.after)?;
            self.sleep_until(step.time);
            if self.is_over() {
                return Ok(());
            }
            stream.write_all(&step.bytes)?;
        }
        if let Some(after) = connection.end {
            self.hear(stream, &mut heard, after)?;
            stream.wait_until_received();
            stream.shutdown()?;
        }
        self.said[place].store(true, Ordering::Release);
        // Until the program closes the connection, or has nothing more to say.
        self.hear(stream, &mut heard, u64::MAX)
    }

    /// Reads until the program has said `wanted` bytes through the connection, or nothing for a while. What
    /// is missing then is not waited for again.
    fn hear(&self, stream: &mut Stream, heard: &mut u64, wanted: u64) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        let mut last = Instant::now();
        let missing = wanted.saturating_sub(*heard);
        while *heard < wanted && !self.is_over() {
            let has_answered = wanted - *heard < missing / 2;
            let patience = if has_answered {
                PATIENCE_AFTER_ANSWER
            } else {
                PATIENCE
            };
            if last.elapsed() >= patience {
                break;
            }
            match stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    *heard += length as u64;
                    last = Instant::now();
                }
                Err(error) if is_time_out(&error) => {}
                Err(error) => return Err(error),
            }
        }
        *heard = (*heard).max(wanted);
        Ok(())
    }
}

fn is_time_out(error: &io::Error) -> bool {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// A program that let the system choose its port has another one now.
fn listening_now(address: SocketAddr, program: i32) -> SocketAddr {
    let ports = listening::all_of_process(program);
    let port = |listening: &Listening| match listening {
        Listening::Tcp { port } => Some(*port),
        Listening::Local | Listening::Udp { .. } => None,
    };
    let mut ports = ports.iter().filter_map(port).peekable();
    let first = ports.peek().copied().unwrap_or(address.port());
    match ports.any(|port| port == address.port()) {
        true => address,
        false => SocketAddr::new(address.ip(), first),
    }
}

enum Stream {
    Internet(TcpStream),
    Local(UnixStream),
}

impl Stream {
    fn prepare(&self) -> io::Result<()> {
        const SLICE: Option<Duration> = Some(Duration::from_millis(20));
        match self {
            Stream::Internet(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.set_read_timeout(SLICE)
            }
            Stream::Local(stream) => {
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.set_read_timeout(SLICE)
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Internet(stream) => stream.read(buffer),
            Stream::Local(stream) => stream.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Internet(stream) => stream.write_all(bytes),
            Stream::Local(stream) => stream.write_all(bytes),
        }
    }

    fn shutdown(&self) -> io::Result<()> {
        match self {
            Stream::Internet(stream) => stream.shutdown(Shutdown::Write),
            Stream::Local(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Gives the program time to receive what was sent, so that it does not get the next piece with it.
    /// Of a local socket that cannot be asked.
    fn wait_until_received(&self) {
        let start = Instant::now();
        let is_waiting = || match self {
            Stream::Internet(stream) => {
                let port = |address: io::Result<SocketAddr>| address.map_or(0, |a| a.port());
                listening::is_unread(port(stream.peer_addr()), port(stream.local_addr()))
            }
            Stream::Local(_) => start.elapsed() < NAP,
        };
        while is_waiting() && start.elapsed() < UNTIL_RECEIVED {
            std::thread::sleep(NAP);
        }
    }
}
