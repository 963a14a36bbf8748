//! The pseudo-random numbers of the policies: xorshift (Marsaglia 2003).

/// The state is never 0 once it was seeded; the policies take the bits of `next` that they need.
#[derive(Clone, Copy)]
pub struct Xorshift(u64);

impl Xorshift {
    pub const UNSEEDED: Xorshift = Xorshift(0);

    pub fn new(seed: u64) -> Self {
        Xorshift(seed.max(1))
    }

    /// Near seeds give far beginnings (the end of splitmix64, Steele et al. 2014).
    pub fn spread(seed: u64) -> Self {
        let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self::new(z ^ z >> 31)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
