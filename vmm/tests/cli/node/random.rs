//! Numbers that look random, the same ones for the same seed.

/// The environment's number of this name, or else this one.
pub(crate) fn number(key: &str, default: usize) -> usize {
    std::env::var(key).map_or(default, |text| text.parse().expect("it is a number"))
}

/// Xorshift (Marsaglia 2003).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: usize) -> Self {
        Self(seed as u64 + (1 << 32))
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}
