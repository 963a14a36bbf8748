//! What the kernel says of a thread of this process, read from `/proc`.
//!
//! Paths and numbers are put together byte by byte, since the functions that copy and compare memory
//! are interposed.

use core::mem::MaybeUninit;

use crate::sys;

const PREFIX: &[u8] = b"/proc/self/task/";
const MOST_DIGITS: usize = 10;
const ROOM: usize = 512;

/// Whether a thread is asleep, and how much processor time it has used.
pub fn state(id: i32) -> (bool, u64) {
    let (letter, time) = status(id).unwrap_or((0, 0));
    (letter == b'S', time)
}

/// Whether a thread runs, waits for a processor, or is about to.
pub fn is_runnable(id: i32) -> bool {
    status(id).is_some_and(|(letter, _)| matches!(letter, b'R' | b'D'))
}

/// The letter of a thread's state, and how much processor time it has used; `None` when it is gone.
fn status(id: i32) -> Option<(u8, u64)> {
    let mut room = [0; ROOM];
    let text = read(id, b"/stat", &mut room);
    // Behind the name, which may hold anything and ends with the last parenthesis.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let mut words = text[end + 1..].split(|byte| *byte == b' ').skip(1);
    let letter = *words.next()?.first()?;
    let number = |word: Option<&[u8]>| {
        let digits = word.unwrap_or_default().iter();
        digits.fold(0u64, |sum, digit| {
            sum.wrapping_mul(10)
                .wrapping_add(u64::from(digit.wrapping_sub(b'0')))
        })
    };
    let user = number(words.nth(10));
    Some((letter, user + number(words.next())))
}

/// Whether a thread sleeps on a futex, without a time-out.
pub fn sleeps_on_futex(id: i32) -> bool {
    let mut room = [0; ROOM];
    // The number of the system call in decimal, then its arguments; `running` for one that runs
    // or is about to.
    let text = read(id, b"/syscall", &mut room);
    let mut words = text.split(|byte| *byte == b' ');
    let is = |word: Option<&[u8]>, wanted: &[u8]| {
        word.is_some_and(|word| word.len() == wanted.len() && word.iter().eq(wanted))
    };
    is(words.next(), b"202") && is(words.nth(3), b"0x0")
}

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The thread is gone.
    Ended,
    /// It runs, or will go on by itself.
    None,
    /// It sleeps on a futex without a time-out: another thread must wake it.
    ForGood,
    /// It sleeps in another call without a time-out: something outside the process may wake it.
    Outside,
}

/// Calls that end by themselves, whatever their arguments: sleeps, and waits for child processes.
const ENDS_BY_ITSELF: [u64; 4] = [35, 230, 61, 247];
/// Calls with a time-out, and which argument that is: a null pointer means none.
const TIME_POINTER: [(u64, usize); 7] = [
    (202, 3),
    (23, 4),
    (270, 4),
    (271, 2),
    (128, 2),
    (220, 3),
    (441, 3),
];
/// Calls with a time-out in milliseconds, and which argument that is: below zero means none.
const MILLISECONDS: [(u64, usize); 3] = [(7, 2), (232, 3), (281, 3)];

/// What a thread waits for just now.
pub fn wait(id: i32) -> Wait {
    let mut room = [0; ROOM];
    let text = read(id, b"/syscall", &mut room);
    if text.is_empty() {
        return Wait::Ended;
    }
    let mut words = text.split(|byte| *byte == b' ');
    let digits = words.next().unwrap_or_default().iter();
    if !digits.clone().all(u8::is_ascii_digit) {
        // `running`, or -1 for a thread that sleeps outside of a call.
        return Wait::None;
    }
    let call = digits.fold(0, |sum: u64, digit| {
        sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))
    });
    let argument = |index| words.clone().nth(index).map_or(0, hexadecimal);
    if ENDS_BY_ITSELF.contains(&call) || !state(id).0 {
        return Wait::None;
    }
    let pointer = TIME_POINTER.iter().find(|(number, _)| *number == call);
    let milliseconds = MILLISECONDS.iter().find(|(number, _)| *number == call);
    if pointer.is_some_and(|(_, index)| argument(*index) != 0)
        || milliseconds.is_some_and(|(_, index)| argument(*index) as i32 >= 0)
    {
        return Wait::None;
    }
    if call == sys::FUTEX as u64 {
        Wait::ForGood
    } else {
        Wait::Outside
    }
}

/// A number of the form `0x7f`.
fn hexadecimal(word: &[u8]) -> u64 {
    let digits = word
        .iter()
        .skip(2)
        .take_while(|byte| byte.is_ascii_hexdigit());
    digits.fold(0, |sum, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            _ => (digit | 0x20) - b'a' + 10,
        };
        sum << 4 | u64::from(value)
    })
}

/// A number that changes when the thread runs.
pub fn activity(id: i32) -> u64 {
    let mut room = [0; ROOM];
    let text = read(id, b"/schedstat", &mut room);
    let seed = id as u64;
    text.iter().fold(seed, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Calls `act` with the kernel's number of every thread of this process.
pub fn each_thread(mut act: impl FnMut(i32)) {
    const GETDENTS64: usize = 217;
    const O_RDONLY_DIRECTORY_CLOEXEC: usize = 0o2200000;
    /// Where an entry has its length and its name.
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    let folder = sys::open(b"/proc/self/task\0", O_RDONLY_DIRECTORY_CLOEXEC);
    if folder < 0 {
        return;
    }
    // Not zeroed, which would be a call of `memset`.
    let mut room = MaybeUninit::<[u64; 256]>::uninit();
    loop {
        let start = room.as_mut_ptr().cast::<u8>();
        let size = size_of_val(&room);
        // SAFETY: the kernel writes within `room`.
        let got = unsafe { sys::call(GETDENTS64, folder as usize, start as usize, size) };
        if got <= 0 {
            break;
        }
        // SAFETY: the kernel has filled in so many bytes of `room`.
        let entries = unsafe { core::slice::from_raw_parts(start, got as usize) };
        let mut at = 0;
        while at + NAME < entries.len() {
            let entry = &entries[at..];
            let digits = entry[NAME..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit());
            let id = digits.fold(0, |sum: i32, digit| {
                sum.wrapping_mul(10).wrapping_add(i32::from(digit - b'0'))
            });
            if id > 0 {
                act(id);
            }
            at += usize::from(u16::from_le_bytes([entry[LENGTH], entry[LENGTH + 1]])).max(1);
        }
    }
    sys::close(folder);
}

/// The first bytes of a file of `/proc/self/task`; empty when there is no such thread.
fn read<'a>(id: i32, file: &[u8], room: &'a mut [u8; ROOM]) -> &'a [u8] {
    let mut digits = [0; MOST_DIGITS];
    let mut first = MOST_DIGITS;
    let mut rest = id.max(0) as u32;
    while first == MOST_DIGITS || rest > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut path = [0; 48];
    let parts = PREFIX.iter().chain(&digits[first..]).chain(file);
    let length = parts.clone().count();
    for (to, from) in path.iter_mut().zip(parts) {
        *to = *from;
    }
    let file = sys::open(&path[..=length], 0o2000000);
    if file < 0 {
        return &[];
    }
    let got = sys::read(file, room).max(0) as usize;
    sys::close(file);
    &room[..got.min(ROOM)]
}

/// Whether a handler of the program could still run and end a wait: signals that a thread only
/// sends to itself (a fault, an abort) do not count.
pub fn a_signal_could_help() -> bool {
    const RT_SIGACTION: usize = 13;
    const OWN_FAULTS: [usize; 7] = [4, 5, 6, 7, 8, 11, 31];
    (1..65)
        // The C library keeps 32 and 33 for itself.
        .filter(|signal| !OWN_FAULTS.contains(signal) && !(32..34).contains(signal))
        .any(|signal| {
            let mut action = [0_usize; 4];
            // SAFETY: with no new action the call only fills the old one: handler, flags,
            // restorer and a mask of 8 bytes.
            let result = unsafe {
                sys::call6(
                    RT_SIGACTION,
                    signal,
                    0,
                    action.as_mut_ptr() as usize,
                    8,
                    0,
                    0,
                )
            };
            // 0 is the default, 1 is ignored.
            result == 0 && action[0] > 1
        })
}
