//! The sites that the plan of a tracked run names, by file and line.
//!
//! A file is known by its name without folders, as a number: two files of one name, or of one number, share
//! their sites, which then tell more than was asked.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::wire::tracking::{SITES, SiteOf};

struct Line {
    /// `key` of its file; 0 if there is no such line.
    file: AtomicU64,
    number: AtomicU32,
}

static LINES: [Line; SITES] = [const {
    Line {
        file: AtomicU64::new(0),
        number: AtomicU32::new(0),
    }
}; SITES];

/// What stands for a file and what its sites look at; never 0. The hash is FNV-1a.
fn key(of: SiteOf, file: &[u8]) -> u64 {
    let begin = file.iter().rposition(|&byte| byte == b'/');
    let name = &file[begin.map_or(0, |slash| slash + 1)..];
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    hash << 2 | (of as u64) << 1 | 1
}

/// The sites of this line are to be on. What a plan names beyond `SITES` sleeps.
pub fn add(of: SiteOf, file: &[u8], number: u32) {
    let is_free = |line: &&Line| line.file.load(Ordering::Relaxed) == 0;
    if let Some(line) = LINES.iter().find(is_free) {
        line.number.store(number, Ordering::Relaxed);
        line.file.store(key(of, file), Ordering::Relaxed);
    }
}

/// Whether the plan names the sites of this line.
pub fn wants(of: SiteOf, file: &[u8], number: u32) -> bool {
    let mut known = LINES
        .iter()
        .map(|line| {
            (
                line.file.load(Ordering::Relaxed),
                line.number.load(Ordering::Relaxed),
            )
        })
        .take_while(|(file, _)| *file != 0);
    // Most sites are of other lines.
    let mut wanted = None;
    known.any(|(known, at)| at == number && known == *wanted.get_or_insert_with(|| key(of, file)))
}
