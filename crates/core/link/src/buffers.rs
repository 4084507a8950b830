//! Buffers of outgoing messages.

use crate::message::Divisible;
use crate::wire::{Payload, Readable};
use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Arc;

/// Limits on the number of kept buffers and on their bytes.
const KEPT: usize = 64;
const BYTES: usize = 2 << 20;

/// A message's bytes, shared by the message's parts.
#[derive(Debug)]
pub struct Whole {
    bytes: Arc<Vec<u8>>,
    /// Number of the buffer's bytes that belong to the message.
    len: usize,
}

impl From<Vec<u8>> for Whole {
    fn from(bytes: Vec<u8>) -> Whole {
        Whole { len: bytes.len(), bytes: Arc::new(bytes) }
    }
}

impl Divisible for Whole {
    type Piece = Chunk;

    fn count(&self) -> usize {
        self.len
    }

    fn piece(&self, range: Range<usize>) -> Chunk {
        Chunk { message: self.bytes.clone(), range }
    }

    fn last_piece(self, range: Range<usize>) -> Chunk {
        Chunk { message: self.bytes, range }
    }
}

impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Chunk {
        Chunk { range: 0..bytes.len(), message: Arc::new(bytes) }
    }
}

/// A range of a message's bytes, sharing the message's buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    message: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.message[self.range.clone()]
    }
}

impl Payload for Chunk {
    fn count(&self) -> usize {
        self.range.len()
    }
}

impl Readable for Chunk {
    fn write_to(&self, room: &mut [u8]) {
        room.copy_from_slice(self.as_ref());
    }
}

/// A cache of buffers for outgoing messages. A buffer is reused once no part of its message is left. This saves
/// allocating and zeroing a buffer for each message.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Kept buffers, the least recently used first.
    kept: VecDeque<Arc<Vec<u8>>>,
    bytes: usize,
}

impl Buffers {
    /// Creates a message of `len` bytes, which `fill` must write. The bytes are arbitrary before.
    ///
    /// # Errors
    /// The error of `fill`.
    pub fn message<E>(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Whole, E> {
        let mut bytes = self.unused().unwrap_or_default();
        let filled = match Arc::get_mut(&mut bytes) {
            Some(room) => {
                if room.len() < len {
                    room.resize(len, 0);
                }
                fill(&mut room[..len])
            }
            // Not reachable: no other reference exists.
            None => Ok(()),
        };
        if self.kept.len() < KEPT && self.bytes + bytes.len() <= BYTES {
            self.bytes += bytes.len();
            self.kept.push_back(bytes.clone());
        }
        filled.map(|()| Whole { bytes, len })
    }

    /// Returns an unused buffer if one of the first two is unused. Looking at two buffers keeps a long-lived message
    /// from blocking the others.
    fn unused(&mut self) -> Option<Arc<Vec<u8>>> {
        for _ in 0..2 {
            let mut first = self.kept.pop_front()?;
            if Arc::get_mut(&mut first).is_some() {
                self.bytes -= first.len();
                return Some(first);
            }
            self.kept.push_back(first);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_stay_as_they_were_written_while_something_has_them(
            steps in prop::collection::vec((0usize..100_000, 0usize..8), 1..200),
        ) {
            let (mut buffers, mut held) = (Buffers::default(), VecDeque::new());
            for (n, (len, keeps)) in steps.into_iter().enumerate() {
                let fill = |room: &mut [u8]| {
                    room.fill(n as u8);
                    Ok::<(), Infallible>(())
                };
                let whole = buffers.message(len, fill).unwrap();
                prop_assert_eq!(whole.count(), len);
                held.push_back((n as u8, whole.last_piece(0..len)));
                while held.len() > keeps {
                    held.pop_front();
                }
                prop_assert!(held.iter().all(|(n, it)| it.as_ref().iter().all(|byte| byte == n)));
                let bytes: usize = buffers.kept.iter().map(|it| it.len()).sum();
                prop_assert_eq!(buffers.bytes, bytes);
                prop_assert!(bytes <= BYTES && buffers.kept.len() <= KEPT);
            }
        }
    }

    #[test]
    fn buffer_of_a_message_that_has_gone_is_used_again() {
        let mut buffers = Buffers::default();
        let place = |whole: &Whole| whole.bytes.as_ptr();
        let first = buffers.message(1000, |_| Ok::<(), Infallible>(())).unwrap();
        let at = place(&first);
        let second = buffers.message(1000, |_| Ok::<(), Infallible>(())).unwrap();
        assert_ne!(place(&second), at);
        drop(first);
        let third = buffers.message(10, |_| Ok::<(), Infallible>(())).unwrap();
        assert_eq!(place(&third), at);
    }

    #[test]
    fn message_that_cannot_be_filled_leaves_its_buffer() {
        let mut buffers = Buffers::default();
        assert_eq!(buffers.message(10, |_| Err::<(), u8>(3)).unwrap_err(), 3);
        assert!(buffers.unused().is_some());
    }
}
