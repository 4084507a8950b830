//! A fingerprint of everything that has happened.

/// How much has happened, and a hash of it all in order. Two runs with equal logs were the same,
/// but for a chance of one in 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// Records so far.
    pub records: u64,
    /// Hash of all of them, in order.
    pub hash: u64,
}

impl Log {
    pub(crate) fn new() -> Log {
        Log { records: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }

    pub(crate) fn record(&mut self, words: &[u64]) {
        self.records += 1;
        for &word in words {
            // FNV-1a by words, and a mix, so that high bits reach low ones.
            self.hash = (self.hash ^ word).wrapping_mul(0x100_0000_01b3);
            self.hash ^= self.hash >> 29;
        }
    }
}
