//! A set of a peer's messages that have arrived out of order.

/// Maximum number of messages between the first missing message and a later one. It exceeds a sender's number of
/// descriptors.
pub(crate) const AHEAD: u32 = 1024;

/// One bit for each of the next messages, and the number of set bits.
#[derive(Debug, Clone)]
pub(crate) struct Ids([u64; AHEAD as usize / 64], u32);

impl Ids {
    pub(crate) fn new() -> Ids {
        Ids([0; AHEAD as usize / 64], 0)
    }

    fn place(id: u32) -> (usize, u64) {
        let place = id % AHEAD;
        (place as usize / 64, 1 << (place % 64))
    }

    pub(crate) fn has(&self, id: u32) -> bool {
        let (word, bit) = Ids::place(id);
        self.1 > 0 && self.0[word] & bit != 0
    }

    pub(crate) fn put(&mut self, id: u32) {
        let (word, bit) = Ids::place(id);
        self.1 += u32::from(self.0[word] & bit == 0);
        self.0[word] |= bit;
    }

    /// Clears a message's bit. Returns true if the bit was set.
    pub(crate) fn take(&mut self, id: u32) -> bool {
        if !self.has(id) {
            return false;
        }
        let (word, bit) = Ids::place(id);
        self.0[word] &= !bit;
        self.1 -= 1;
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.1 == 0
    }

    pub(crate) fn clear(&mut self) {
        if !self.is_empty() {
            *self = Ids::new();
        }
    }
}

/// Returns true if message `id` is before `other`. Numbers wrap.
pub(crate) fn is_before(id: u32, other: u32) -> bool {
    (id.wrapping_sub(other) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_and_go_where_numbers_wrap() {
        let mut ids = Ids::new();
        for id in [u32::MAX, 0, 1, 1000] {
            assert!(!ids.has(id));
            ids.put(id);
            ids.put(id);
            assert!(ids.has(id));
        }
        assert!(ids.take(0) && !ids.take(0) && !ids.has(0) && ids.has(u32::MAX));
        assert!(ids.take(u32::MAX) && ids.take(1) && ids.take(1000) && ids.is_empty());
        assert!(is_before(u32::MAX, 0) && !is_before(0, u32::MAX) && !is_before(5, 5));
    }
}
