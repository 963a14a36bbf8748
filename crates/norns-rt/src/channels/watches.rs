//! What an epoll instance was asked to watch: which descriptor an event of it is about.
//!
//! An event has only the word that the program gave with the descriptor, so the words are kept.

use crate::lock::Lock;

const WAYS: usize = 8;
const SETS: usize = 512;

#[derive(Clone, Copy)]
struct Watch {
    /// 0: not used.
    used: u64,
    epoll: i32,
    file: i32,
    word: u64,
}

const UNUSED: Watch = Watch {
    used: 0,
    epoll: 0,
    file: 0,
    word: 0,
};

struct Watches {
    watches: [[Watch; WAYS]; SETS],
    uses: u64,
}

static WATCHES: Lock<Watches> = Lock::new(Watches {
    watches: [[UNUSED; WAYS]; SETS],
    uses: 0,
});

fn set(epoll: i32, word: u64) -> usize {
    let hash = (word ^ u64::from(epoll as u32) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> 48) as usize % SETS
}

/// The instance gives this word when the descriptor is ready.
pub fn note(epoll: i32, file: i32, word: u64) {
    WATCHES.with(|table| {
        table.uses += 1;
        let used = table.uses;
        let set = &mut table.watches[set(epoll, word)];
        let same = |watch: &Watch| (watch.epoll, watch.file, watch.word) == (epoll, file, word);
        let rank = |watch: &Watch| match watch.used > 0 && same(watch) {
            true => 0,
            false => watch.used + 1,
        };
        if let Some(place) = set.iter_mut().min_by_key(|watch| rank(watch)) {
            *place = Watch {
                used,
                epoll,
                file,
                word,
            };
        }
    });
}

/// The descriptors that this word can stand for; the rest is -1.
pub fn files(epoll: i32, word: u64) -> [i32; WAYS] {
    WATCHES.with(|table| {
        let set = &table.watches[set(epoll, word)];
        let mut found = [-1; WAYS];
        for (place, watch) in found.iter_mut().zip(set) {
            if watch.used > 0 && (watch.epoll, watch.word) == (epoll, word) {
                *place = watch.file;
            }
        }
        found
    })
}

/// In the child process after a fork.
pub fn forked() {
    WATCHES.force(|_| {});
}
