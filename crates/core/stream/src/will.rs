//! Keeps the bytes of the combining buffer where the peer finds them if this process dies.
//!
//! Bytes that `write` has accepted must arrive even if the writer dies. Bytes in a posted send do. Bytes in the
//! combining buffer wait in this process's memory, so the connection's [`Bequest`] has a copy of them. Each byte lies
//! at its position in the stream modulo the bequest's length. A peer that has received `n` bytes in packets takes the
//! bytes from `n` on. So a flush need not remove bytes: the peer has then received more.

use via::bequest::Bequest;

/// Word with the position after the last combined byte.
const TAIL: usize = 0;
/// Word with the position before which bytes may be missing here, because they were sent without combining.
const BASE: usize = 1;
/// Word with the position of the stream's end plus one, once the program has closed; 0 before.
const END: usize = 2;

/// This end's use of the connection's bequest.
#[derive(Debug)]
pub(crate) struct Will {
    place: Box<dyn Bequest>,
    base: u64,
}

/// Bytes that a dead peer has left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heritage {
    /// The bytes after those received in packets.
    pub(crate) bytes: Vec<u8>,
    /// Set if the peer had closed the stream after these bytes.
    pub(crate) ended: bool,
}

impl Will {
    /// Creates a will in `place`, if it has room for `chunk` bytes.
    pub(crate) fn new(place: Box<dyn Bequest>, chunk: usize) -> Option<Will> {
        (place.len() >= chunk).then_some(Will { place, base: 0 })
    }

    /// Splits `len` bytes from a position in the stream on into pieces of the place. Returns the start and length of
    /// each.
    fn pieces(&self, from: u64, len: usize) -> [(usize, usize); 2] {
        let at = (from % self.place.len() as u64) as usize;
        let first = len.min(self.place.len() - at);
        [(at, first), (0, len - first)]
    }

    /// Records combined bytes at position `from`. Bytes before `unsent` have been sent.
    pub(crate) fn combined(&mut self, from: u64, bytes: &[u8], unsent: u64) {
        if from == unsent && self.base != from {
            // The first bytes of a chunk: older bytes may be missing here.
            self.base = from;
            self.place.publish(BASE, from);
        }
        let mut done = 0;
        for (at, len) in self.pieces(from, bytes.len()) {
            self.place.write(at, &bytes[done..done + len]);
            done += len;
        }
        self.place.publish(TAIL, from + bytes.len() as u64);
    }

    /// Records that the program has closed the stream at position `at`.
    pub(crate) fn ended(&self, at: u64) {
        self.place.publish(END, at + 1);
    }

    /// Returns the bytes that the peer has left after the first `received` bytes. Returns no bytes if the words are
    /// ones that a correct peer cannot have written.
    pub(crate) fn read(&self, received: u64) -> Heritage {
        let [tail, base, end] = [TAIL, BASE, END].map(|word| self.place.published(word));
        let len = tail.saturating_sub(received);
        let whole = received >= base && len <= self.place.len() as u64;
        let mut bytes = vec![0; if whole { len as usize } else { 0 }];
        let mut done = 0;
        for (at, len) in self.pieces(received, bytes.len()) {
            self.place.read(at, &mut bytes[done..done + len]);
            done += len;
        }
        let ended = end.checked_sub(1) == Some(received + bytes.len() as u64);
        Heritage { bytes, ended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A bequest with one place for both directions, so an end reads its own bytes.
    #[derive(Debug, Default, Clone)]
    struct Place(Arc<Mutex<(Vec<u8>, [u64; 4])>>);

    impl Bequest for Place {
        fn len(&self) -> usize {
            64
        }
        fn write(&self, at: usize, bytes: &[u8]) -> bool {
            self.0.lock().unwrap().0.resize(64, 0);
            self.0.lock().unwrap().0[at..at + bytes.len()].copy_from_slice(bytes);
            true
        }
        fn publish(&self, word: usize, value: u64) {
            self.0.lock().unwrap().1[word] = value;
        }
        fn read(&self, at: usize, out: &mut [u8]) -> bool {
            self.0.lock().unwrap().0.resize(64, 0);
            out.copy_from_slice(&self.0.lock().unwrap().0[at..at + out.len()]);
            true
        }
        fn published(&self, word: usize) -> u64 {
            self.0.lock().unwrap().1[word]
        }
    }

    #[test]
    fn the_heir_takes_what_no_packet_has_brought() {
        let mut will = Will::new(Box::new(Place::default()), 64).unwrap();
        assert_eq!(will.read(0), Heritage::default());
        will.combined(0, b"abc", 0);
        will.combined(3, b"def", 0);
        assert_eq!(will.read(0).bytes, b"abcdef");
        assert_eq!(will.read(6).bytes, b"", "they were flushed");
        // A message of 100 bytes went without combining. The next combined bytes wrap around the end of the place.
        let from = 106 + 20;
        will.combined(from, b"0123456789", from);
        assert_eq!(will.read(from).bytes, b"0123456789");
        assert_eq!(will.read(100).bytes, b"", "the message itself is missing");
        will.ended(from + 10);
        assert_eq!(will.read(from), Heritage { bytes: b"0123456789".into(), ended: true });
        assert!(will.read(from + 10).ended && !will.read(from + 11).ended);
    }

    #[test]
    fn words_of_a_liar_leave_nothing() {
        let place = Place::default();
        let will = Will::new(Box::new(place.clone()), 64).unwrap();
        for words in [[u64::MAX, 0, 0, 0], [65, 0, 0, 0], [5, 9, u64::MAX, 0]] {
            place.0.lock().unwrap().1 = words;
            assert_eq!(will.read(0).bytes, b"");
        }
        assert!(Will::new(Box::new(place), 65).is_none());
    }
}
