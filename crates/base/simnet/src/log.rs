//! A fingerprint of all events.

/// Number of events, and a hash of all events in order. Two runs with equal logs were equal, except with a probability
/// of 2^-64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// Number of records.
    pub records: u64,
    /// Hash of all records, in order.
    pub hash: u64,
}

impl Log {
    pub(crate) fn new() -> Log {
        Log { records: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }

    pub(crate) fn record(&mut self, words: &[u64]) {
        self.records += 1;
        for &word in words {
            // FNV-1a by words. The shift makes high bits influence low ones.
            self.hash = (self.hash ^ word).wrapping_mul(0x100_0000_01b3);
            self.hash ^= self.hash >> 29;
        }
    }
}
