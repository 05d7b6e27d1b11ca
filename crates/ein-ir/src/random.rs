//! What the unit tests of this crate draw from.

/// A small deterministic generator (Steele, Lea and Flood's `SplitMix64`).
pub(crate) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }
}

/// How many seeds a test draws: `EIN_TEST_SEEDS`, or as many as fit in a minute's test.
pub(crate) fn seeds(default: usize) -> usize {
    std::env::var("EIN_TEST_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}
