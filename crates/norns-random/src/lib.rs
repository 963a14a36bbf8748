//! The pseudo-random generator of this project: xorshift64* (Marsaglia 2003).
//!
//! The runtime draws schedules and delays from it, the trace generators draw traces, and random
//! tests draw their cases. A seed stands for the same numbers on every machine and in every
//! version: failing tests print their seed, and `norns check --seed` names a schedule. Not for
//! secrets.
#![no_std]
#![forbid(unsafe_code)]

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    // Never 0, which xorshift maps to itself.
    state: u64,
}

impl Random {
    /// The stream of this seed. Neighbouring seeds begin far apart: they are spread by the
    /// increment of SplitMix (Steele et al. 2014).
    pub const fn new(seed: u64) -> Random {
        Random {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    /// The next number, all 64 bits of it. The low bits are the weaker ones.
    pub const fn draw(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`, which is at most 2^31; 0 if `bound` is 0.
    pub const fn below(&mut self, bound: usize) -> usize {
        let drawn = (self.draw() >> 33) as usize;
        if bound == 0 { 0 } else { drawn % bound }
    }

    /// True once in `n` times on average.
    pub const fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of `choices`, which are not empty.
    pub const fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A number of any magnitude: each count of significant bits is equally likely.
    pub const fn number(&mut self) -> u64 {
        let bits = self.below(65) as u32;
        match self.draw().checked_shr(64 - bits) {
            Some(number) => number,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    /// Printed seeds keep their meaning only while these numbers stay.
    #[test]
    fn a_seed_stands_for_fixed_numbers() {
        let mut random = Random::new(7);
        let drawn = [random.draw(), random.draw(), random.draw()];
        assert_eq!(
            drawn,
            [
                7_430_617_906_488_651_703,
                7_486_449_783_762_807_604,
                10_902_827_877_105_278_336,
            ]
        );
    }

    #[test]
    fn every_number_below_the_bound_is_drawn_about_equally_often() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut count = [0_u32; 10];
            for _ in 0..10_000 {
                count[random.below(10)] += 1;
            }
            assert!(
                count.iter().all(|&n| (850..1150).contains(&n)),
                "seed {seed}: {count:?}"
            );
        }
    }

    #[test]
    fn neighbouring_seeds_begin_differently() {
        let first = |seed| Random::new(seed).below(1 << 16);
        for seed in 0..1000 {
            assert_ne!(first(seed), first(seed + 1), "seed {seed}");
        }
    }

    #[test]
    fn numbers_have_every_count_of_bits() {
        let mut random = Random::new(3);
        let mut seen = [false; 65];
        for _ in 0..5000 {
            seen[64 - random.number().leading_zeros() as usize] = true;
        }
        assert!(seen.iter().all(|seen| *seen));
    }
}
