//! Seeded random values, text and damage for the tests.

/// splitmix64 (Steele et al. 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn chance(&mut self, one_in: u64) -> bool {
        self.next().is_multiple_of(one_in)
    }

    /// A number of any length in bits, so that small ones and the largest both occur.
    pub fn number(&mut self) -> u64 {
        let shift = self.next() % 65;
        self.next().checked_shr(shift as u32).unwrap_or(0)
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Changes the text in a few random places: bytes, fields and lines are replaced, doubled, removed.
pub fn damage(text: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        if text.is_empty() {
            return;
        }
        let at = random.below(text.len());
        match random.below(6) {
            0 => text[at] = random.next() as u8,
            1 => text[at] = random.pick(b" \n0-+xf"),
            2 => text.truncate(at),
            3 => text.insert(at, random.pick(b" \n09:f\0\xff")),
            4 => {
                let end = at + random.below(text.len() - at);
                text.drain(at..end);
            }
            _ => {
                let end = at + random.below((text.len() - at).min(40));
                let copy = text[at..end].to_vec();
                let to = random.below(text.len());
                text.splice(to..to, copy);
            }
        }
    }
}
