//! Random numbers that follow from a seed (xorshift64*). Pure.

/// A sequence of numbers.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The sequence of this seed, for one of several vCPUs.
    pub(super) fn new(seed: u64, vcpu: u32) -> Self {
        // No state may be 0. Neighbouring seeds have nothing in common after the multiplication.
        Self((seed ^ u64::from(vcpu) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// One of these, of which there is at least one.
    pub(super) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_vcpu_have_a_sequence_of_their_own() {
        let of = |seed, vcpu| {
            let mut random = Random::new(seed, vcpu);
            [0; 8].map(|_: u64| random.next())
        };
        assert_eq!(of(1, 0), of(1, 0));
        for (seed, vcpu) in [(2, 0), (1, 1), (0, 0)] {
            assert_ne!(of(1, 0), of(seed, vcpu));
        }
    }

    #[test]
    fn numbers_stay_below_their_end_and_reach_all_of_it() {
        let mut random = Random::new(7, 0);
        let mut seen = [false; 6];
        (0..200).for_each(|_| seen[random.below(6) as usize] = true);
        assert_eq!(seen, [true; 6]);
    }
}
