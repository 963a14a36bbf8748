//! What the kernel says of a thread of this process, read from `/proc`.
//!
//! Written by hand down to the digits: what one calls to copy and compare is interposed.

use super::thread::ControlThread;
use crate::sys;

const PREFIX: &[u8] = b"/proc/self/task/";
const MOST_DIGITS: usize = 10;
const ROOM: usize = 512;

/// The kernel's number of a thread; 0 once it has ended.
pub fn id(thread: &ControlThread) -> i32 {
    // SAFETY: null once the thread has ended; its block is not unmapped.
    unsafe { thread.runtime.as_ref() }.map_or(0, |runtime| runtime.kernel_id)
}

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

/// The beginning of a file about a thread; nothing when there is none.
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
