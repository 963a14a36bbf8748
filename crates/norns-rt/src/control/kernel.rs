//! What the kernel says of a thread of this process, read from `/proc`.
//!
//! Paths and numbers are put together byte by byte, since the functions that copy and compare memory
//! are interposed.

use crate::sys;

const PREFIX: &[u8] = b"/proc/self/task/";
const MOST_DIGITS: usize = 10;
const ROOM: usize = 512;

/// Whether a thread is asleep, and how much processor time it has used.
pub fn state(id: i32) -> (bool, u64) {
    let mut room = [0; ROOM];
    let text = read(id, b"/stat", &mut room);
    // Behind the name, which may hold anything and ends with the last parenthesis.
    let Some(end) = text.iter().rposition(|byte| *byte == b')') else {
        return (false, 0);
    };
    let mut words = text[end + 1..].split(|byte| *byte == b' ').skip(1);
    let asleep = words.next().is_some_and(|word| word.first() == Some(&b'S'));
    let number = |word: Option<&[u8]>| {
        let digits = word.unwrap_or_default().iter();
        digits.fold(0u64, |sum, digit| {
            sum.wrapping_mul(10)
                .wrapping_add(u64::from(digit.wrapping_sub(b'0')))
        })
    };
    let user = number(words.nth(10));
    (asleep, user + number(words.next()))
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
