//! How far a connection is on the way to its VI.

use crate::process;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sovia_control::Reason;

/// What a candidate knows of its meeting. It lies in the family's memory with the connection; a
/// request is its maker's alone.
#[derive(Debug)]
pub(crate) struct Approach {
    /// Where lengths of connections like this one are noted, plus one; 0: it has not been looked up.
    pub(crate) history: AtomicU32,
    /// Likewise, as noted by the call that made the connection; 0: it has not been noted.
    pub(crate) told: AtomicU32,
    /// Transfers after which a process that shares a segment already is asked.
    pub(crate) known_after: AtomicU32,
    /// Transfers after which another process is looked for.
    pub(crate) unknown_after: AtomicU32,
    /// Transfers before which each is a reason to look: a message has just gone between the two processes.
    eager_until: AtomicU32,
    /// A hash of the connection's addresses; 0 if they have not been looked up.
    pub(crate) link: AtomicU32,
    /// Not 0 if it comes from a program that this process was before, or from another process, for as long as others may
    /// hold it still: which family's it was ([`crate::inheritance`]).
    pub(crate) inherited: AtomicU32,
    /// Not 0 if it has come to this family in a message: it does not go on from there in another one.
    pub(crate) came: AtomicU32,
    /// Its place in the records of that family, and its life there.
    pub(crate) place_there: AtomicU64,
    /// Not 0 while the socket has the options that the kernel begins with, as far as a VI must know of them.
    pub(crate) fresh: AtomicU32,
    /// Why it is kept on TCP for now, plus one; 0 if it is not.
    kept_for: AtomicU32,
    /// [`Stage`], and the process that has come so far.
    stage: AtomicU64,
}

/// Where a meeting through a shared segment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing has been asked.
    Idle,
    /// A connector has requested this VI of this pair, at that transfer (its lowest bits).
    Requested { pair: u32, vi: u32, at: u8 },
    /// A connector has requested in vain, when there were so many segments to request in (their lowest
    /// bits): none is shared with the process that has the other end.
    InVain { segments: u8 },
}

impl Approach {
    /// A new connection.
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

    /// Notes why the connection is kept on TCP for now, or that it is not. Returns true if that has changed.
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

    /// After so many transfers a message has gone between the two processes: the next one is soon to come.
    pub(crate) fn note_message(&self, transfers: u32) {
        /// Transfers in which it is looked for each time.
        const EAGER: u32 = 64;
        self.eager_until.store(transfers.saturating_add(EAGER), Ordering::Relaxed);
    }

    /// Whether a message is soon to come, after so many transfers.
    #[inline]
    pub(crate) fn is_eager(&self, transfers: u32) -> bool {
        transfers < self.eager_until.load(Ordering::Relaxed)
    }

    /// The stage that this process has come to.
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

    /// Notes the stage that this process has come to.
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
