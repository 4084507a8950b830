//! Tracks a connection's steps to its VI.

use crate::process;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sovia_control::Reason;

/// Data about the rendezvous of a connection that is not yet accelerated. The data lies with the connection in the
/// family's memory. But only the process that made a request uses the request.
#[derive(Debug)]
pub(crate) struct Approach {
    /// Place of the connection history for connections like this one, plus one; 0 if no thread has looked it up.
    pub(crate) history: AtomicU32,
    /// Place of the connection history, as noted by the call that made the connection, plus one. 0 if the call noted
    /// none.
    pub(crate) told: AtomicU32,
    /// Number of transfers after which this end asks a process that already shares a segment.
    pub(crate) known_after: AtomicU32,
    /// Number of transfers after which this end looks for a process that shares no segment.
    pub(crate) unknown_after: AtomicU32,
    /// Number of transfers up to which each transfer looks for a message, because one has just passed between the two
    /// processes.
    eager_until: AtomicU32,
    /// Hash of the connection's addresses; 0 if no thread has looked them up.
    pub(crate) link: AtomicU32,
    /// Family from which the connection came, through an exec or a message ([`crate::inheritance`]). 0 if there is
    /// none, or if no process of that family holds the connection any more.
    pub(crate) inherited: AtomicU32,
    /// Not 0 if the connection came to this family in a message. If a process sends it on in another message, the
    /// receiving process gets no VI for it.
    pub(crate) came: AtomicU32,
    /// Slot of the connection in the records of that family, and its generation there.
    pub(crate) place_there: AtomicU64,
    /// Not 0 while the socket has the kernel's initial options, as far as a VI depends on them.
    pub(crate) fresh: AtomicU32,
    /// Reason why the connection is on TCP for now, plus one; 0 if there is none.
    kept_for: AtomicU32,
    /// A [`Stage`], and the process that has reached this stage.
    stage: AtomicU64,
}

/// Progress of a rendezvous through a shared segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No request has been made.
    Idle,
    /// A connector has requested this VI of this pair. `at` holds the lowest bits of the number of transfers at that
    /// time.
    Requested { pair: u32, vi: u32, at: u8 },
    /// A connector has made requests in vain: the process at the other end shares none of the segments. `segments`
    /// holds the lowest bits of the number of segments at that time.
    InVain { segments: u8 },
}

impl Approach {
    /// Clears the data for a new connection.
    pub(crate) fn forget(&self) {
        let zero = |word: &AtomicU32| word.store(0, Ordering::Relaxed);
        zero(&self.history);
        zero(&self.told);
        zero(&self.known_after);
        zero(&self.unknown_after);
        zero(&self.eager_until);
        zero(&self.link);
        zero(&self.inherited);
        zero(&self.came);
        zero(&self.fresh);
        zero(&self.kept_for);
        self.stage.store(0, Ordering::Relaxed);
    }

    /// Notes why the connection is kept on TCP for now, or that it is not. Returns true if the reason has changed.
    pub(super) fn keep_for(&self, reason: Option<Reason>) -> bool {
        let word = reason.map_or(0, |reason| reason as u32 + 1);
        let has_changed = self.kept_for.load(Ordering::Relaxed) != word;
        if has_changed {
            self.kept_for.store(word, Ordering::Relaxed);
        }
        has_changed
    }

    /// Returns the reason noted last.
    pub(crate) fn kept_for(&self) -> Option<Reason> {
        self.kept_for.load(Ordering::Relaxed).checked_sub(1).and_then(Reason::of)
    }

    /// Notes that a message has passed between the two processes after `transfers` transfers, so that the next one is
    /// expected soon.
    pub(crate) fn note_message(&self, transfers: u32) {
        /// Number of further transfers that each look for a message.
        const EAGER: u32 = 64;
        self.eager_until.store(transfers.saturating_add(EAGER), Ordering::Relaxed);
    }

    /// Returns true if a message is expected soon, after `transfers` transfers.
    #[inline]
    pub(crate) fn is_eager(&self, transfers: u32) -> bool {
        transfers < self.eager_until.load(Ordering::Relaxed)
    }

    /// Returns the stage that this process has reached.
    pub(crate) fn stage(&self) -> Stage {
        let word = self.stage.load(Ordering::Acquire);
        if word == 0 || word as u32 != process::owner() as u32 {
            return Stage::Idle;
        }
        let (pair, vi, at) = (word >> 32 & 0xfff, word >> 44 & 0xfff, (word >> 56 & 0x7f) as u8);
        match word >> 63 {
            0 => Stage::Requested { pair: pair as u32, vi: vi as u32, at },
            _ => Stage::InVain { segments: at },
        }
    }

    /// Stores the stage that this process has reached.
    pub(crate) fn reach(&self, stage: Stage) {
        let pid = u64::from(process::owner() as u32);
        let word = match stage {
            Stage::Idle => 0,
            Stage::Requested { pair, vi, at } => {
                pid | u64::from(pair) << 32 | u64::from(vi) << 44 | u64::from(at & 0x7f) << 56
            }
            Stage::InVain { segments } => pid | u64::from(segments & 0x7f) << 56 | 1 << 63,
        };
        self.stage.store(word, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_packed_and_unpacked() {
        process::own();
        // SAFETY: all fields are atomics, for which zero is a valid value.
        let approach: Approach = unsafe { core::mem::zeroed() };
        assert_eq!(approach.stage(), Stage::Idle);
        for stage in [
            Stage::Requested { pair: 1023, vi: 1023, at: 127 },
            Stage::Requested { pair: 0, vi: 0, at: 0 },
            Stage::InVain { segments: 0 },
            Stage::InVain { segments: 127 },
            Stage::Idle,
        ] {
            approach.reach(stage);
            assert_eq!(approach.stage(), stage);
        }
    }
}
