//! Stores the program's keep-alive options while Sovia has set other ones on the socket ([`crate::keepalive`]). All
//! processes that have the connection share this data.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sovia_sys::call::Keepalive;

/// Bit that is set while options are stored.
const SOME: u64 = 1 << 63;
const ON: u64 = 1 << 62;

/// The program's keep-alive options, or none. Changed only under the connection's lock.
#[derive(Debug, Default)]
pub(crate) struct SavedKeepalive {
    /// From the lowest bit: idle time and interval in seconds (16 bits each), number of probes (8 bits). The
    /// highest bits are [`SOME`] and [`ON`].
    words: AtomicU64,
    user_timeout: AtomicU32,
}

impl SavedKeepalive {
    pub(super) fn forget(&self) {
        self.words.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is_some(&self) -> bool {
        self.words.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn put(&self, own: Keepalive) {
        self.user_timeout.store(own.user_timeout, Ordering::Relaxed);
        let on = if own.on { ON } else { 0 };
        let numbers = u64::from(own.idle & 0xffff)
            | u64::from(own.interval & 0xffff) << 16
            | u64::from(own.count & 0xff) << 32;
        // SYNC: pairs with the Acquire swap in `take`. A process that finds the other options in `words` also finds
        // this value of `user_timeout`.
        self.words.store(SOME | on | numbers, Ordering::Release);
    }

    pub(crate) fn take(&self) -> Option<Keepalive> {
        let words = self.words.swap(0, Ordering::Acquire);
        (words & SOME != 0).then(|| Keepalive {
            on: words & ON != 0,
            idle: words as u32 & 0xffff,
            interval: (words >> 16) as u32 & 0xffff,
            count: (words >> 32) as u32 & 0xff,
            user_timeout: self.user_timeout.load(Ordering::Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_options_are_taken_once() {
        let saved_keepalive = SavedKeepalive::default();
        assert_eq!((saved_keepalive.is_some(), saved_keepalive.take()), (false, None));
        for on in [false, true] {
            let own =
                Keepalive { on, idle: 32767, interval: 32766, count: 127, user_timeout: u32::MAX };
            saved_keepalive.put(own);
            assert!(saved_keepalive.is_some());
            assert_eq!((saved_keepalive.take(), saved_keepalive.take()), (Some(own), None));
        }
    }
}
