//! A file that is cut anywhere, or has a changed byte anywhere, is a shorter trace and a warning.

use std::fs;

use norns_trace::{Error, Trace, read, write};

use crate::{put, random, scratch};

/// `found` is how `whole` begins.
fn assert_beginning(found: &Trace, whole: &Trace, what: &str) {
    assert!(whole.events.starts_with(&found.events), "{what}");
    assert!(whole.values.starts_with(&found.values), "{what}");
    assert!(whole.threads.starts_with(&found.threads), "{what}");
    assert!(whole.objects.starts_with(&found.objects), "{what}");
    assert!(whole.places.starts_with(&found.places), "{what}");
}

fn check(name: &str, changed: impl Fn(&[u8], usize) -> Vec<u8>) {
    let path = scratch(name);
    for (seed, events) in [(1, 0), (2, 40), (3, 120)] {
        let trace = random::trace(seed, events);
        write(&path, &trace).unwrap();
        let content = fs::read(&path).unwrap();
        for at in 0..content.len() {
            put(&path, &changed(&content, at));
            let what = format!("{name}, seed {seed}, byte {at} of {}", content.len());
            match read(&path) {
                Ok((found, warnings)) => {
                    assert_beginning(&found, &trace, &what);
                    // Flags in the header say nothing of the content; everything else is noticed.
                    assert!(
                        !warnings.is_empty() || (found == trace && name == "flip"),
                        "{what}"
                    );
                }
                Err(Error::NotATrace { .. } | Error::Version { .. }) => assert!(at < 16, "{what}"),
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

#[test]
fn cut_at_every_byte() {
    check("cut", |content, at| content[..at].to_vec());
}

#[test]
fn a_bit_flipped_in_every_byte() {
    for bit in [0, 6] {
        check("flip", |content, at| {
            let mut content = content.to_vec();
            content[at] ^= 1 << bit;
            content
        });
    }
}

#[test]
fn a_damaged_chunk_is_named_and_what_stands_before_it_is_kept() {
    let path = scratch("damaged");
    let trace = random::trace(7, 60_000);
    write(&path, &trace).unwrap();
    let mut content = fs::read(&path).unwrap();
    let chunks = norns_trace::container::chunks(&mut fs::File::open(&path).unwrap()).unwrap();
    content[chunks[1].offset as usize + 1000] ^= 4;
    fs::write(&path, content).unwrap();
    let (found, warnings) = read(&path).unwrap();
    assert_eq!(found.events.len() as u64, chunks[1].first_event);
    assert_beginning(&found, &trace, "damaged");
    assert_eq!(
        warnings[0].to_string(),
        format!(
            "chunk 1 (at byte {}) is damaged: its checksum differs; the trace ends before it, after {} events",
            chunks[1].offset, chunks[1].first_event
        )
    );
}
