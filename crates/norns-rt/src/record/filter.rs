//! The segment filter: which bytes this thread has logged since its last synchronisation.
//!
//! A direct-mapped table with one word for eight bytes of memory. A word holds which of its bytes
//! were read or written and which were written (a write covers later reads), the rest of the
//! address, and the segment. A new segment is a new number, not a clearing. What falls out of the
//! table is logged again: more bytes, nothing lost.

const INDEX_BITS: u32 = 15;
const ENTRIES: usize = 1 << INDEX_BITS;
/// Where the number of the segment starts: above the masks and the rest of the address.
const SEGMENT_SHIFT: u32 = 45;
/// Addresses are 47 bits and 8 bytes a word: 44 bits, of which the index has the lower 15.
const ADDRESS_MASK: u64 = ((1 << SEGMENT_SHIFT) - 1) & !0xffff;

#[repr(C)]
pub struct Filter {
    /// The number of the current segment, shifted.
    segment: u64,
    words: [u64; ENTRIES],
}

/// A word that does not cover an access: where it is and what must be stored there.
pub struct Miss {
    index: usize,
    value: u64,
}

impl Filter {
    /// Whether the segment covers this access; `size` at most 8, within eight aligned bytes.
    #[inline(always)]
    pub fn check(&self, address: usize, size: usize, write: bool) -> Result<(), Miss> {
        let word = (address >> 3) as u64;
        let index = word as usize & (ENTRIES - 1);
        let bytes = if size == 8 {
            0xff
        } else {
            ((1u64 << size) - 1) << (address & 7)
        };
        let asked = if write { bytes << 8 } else { bytes };
        // Bits 16 to 44: the address above the index (its lowest bit dropped out with the shift).
        let key = ((word << 1) & ADDRESS_MASK) | self.segment;
        let found = self.words[index] ^ key;
        if found & (!0xffff | asked) == asked {
            return Ok(());
        }
        let covers = if write { bytes << 8 | bytes } else { bytes };
        let known = if found <= 0xffff { found } else { 0 };
        Err(Miss {
            index,
            value: key | known | covers,
        })
    }

    #[inline(always)]
    pub fn fill(&mut self, miss: Miss) {
        self.words[miss.index & (ENTRIES - 1)] = miss.value;
    }

    #[inline(always)]
    pub fn next_segment(&mut self) {
        self.segment = self.segment.wrapping_add(1 << SEGMENT_SHIFT);
        if self.segment == 0 {
            self.forget_all();
        }
    }

    /// All segment numbers have been used: clears the table, so that old words do not count for a
    /// new segment of the same number.
    #[cold]
    fn forget_all(&mut self) {
        for word in &mut self.words {
            // SAFETY: a plain store; volatile keeps it from becoming a call of `memset`, which
            // this library interposes.
            unsafe { (&raw mut *word).write_volatile(0) };
        }
        self.segment = 1 << SEGMENT_SHIFT;
    }

    /// Forgets accesses to memory that was just allocated.
    pub fn forget(&mut self, address: usize, size: usize) {
        const FEW: usize = 1024;
        if size > FEW {
            self.next_segment();
            return;
        }
        let first = address >> 3;
        let last = (address + size.max(1) - 1) >> 3;
        for word in first..=last {
            self.words[word & (ENTRIES - 1)] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs accesses `r8 1000` (read 8 bytes at hexadecimal 1000), `w4 1004`, `sync`; gives the
    /// ones that are logged.
    fn check(accesses: &str, logged: &str) {
        let mut filter = Filter {
            segment: 1 << SEGMENT_SHIFT,
            words: [0; ENTRIES],
        };
        let mut found = Vec::new();
        for access in accesses.split(", ") {
            if access == "sync" {
                filter.next_segment();
                continue;
            }
            let (kind, address) = access.split_once(' ').unwrap();
            let address = usize::from_str_radix(address, 16).unwrap();
            let size = kind[1..].parse().unwrap();
            if let Err(miss) = filter.check(address, size, kind.starts_with('w')) {
                filter.fill(miss);
                found.push(access);
            }
        }
        assert_eq!(found.join(", "), logged);
    }

    #[test]
    fn once_in_a_segment() {
        check("r8 1000, r8 1000, sync, r8 1000", "r8 1000, r8 1000");
    }

    #[test]
    fn a_write_covers_reads_but_a_read_no_write() {
        check("w8 1000, r4 1004, r1 1007, w2 1002", "w8 1000");
        check(
            "r8 1000, w4 1004, r8 1000, w1 1000",
            "r8 1000, w4 1004, w1 1000",
        );
    }

    #[test]
    fn parts_add_up() {
        check("r4 1000, r4 1004, r8 1000", "r4 1000, r4 1004");
        check("w4 1000, r4 1004, w8 1000", "w4 1000, r4 1004, w8 1000");
    }

    #[test]
    fn equal_indices_are_not_confused() {
        check(
            "r8 1000, r8 41000, r8 7ffff7041000, r8 1000",
            "r8 1000, r8 41000, r8 7ffff7041000, r8 1000",
        );
    }
}
