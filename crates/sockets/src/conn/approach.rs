//! Tracks the rendezvous of a connection: the steps by which it gets a VI.

use crate::process;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sovia_control::Reason;

/// Data about the rendezvous of a connection that has no VI yet. The data lies in the family's memory. But a
/// request for a VI is used only by the process that made the request.
#[derive(Debug)]
pub(crate) struct Approach {
    /// Key under which the connection history counts connections like this one; 0 if no thread has looked up the key.
    pub(crate) history: AtomicU32,
    /// Key of the connection history, if the call that opened the connection has stored it; otherwise 0.
    pub(crate) stored_history: AtomicU32,
    /// Number of transfers after which this end looks for the peer among the processes that already share a segment
    /// with it.
    pub(crate) known_after: AtomicU32,
    /// Number of transfers after which this end also looks for the peer among processes that share no segment with
    /// it.
    pub(crate) unknown_after: AtomicU32,
    /// Not 0 if the connector grants the VI together with a request that it makes before the first transfer.
    pub(crate) grants: AtomicU32,
    /// Number of transfers up to which each transfer looks for a rendezvous message, because the two processes have
    /// just exchanged one.
    eager_until: AtomicU32,
    /// Direction of the last transfer (lowest bit, 1 for a send), and the number of transfers since the direction last
    /// changed. 0 if there was no transfer.
    run: AtomicU32,
    /// Number of messages in flight from which a NIC in software carries the connection. 0 until this end knows that a NIC
    /// may carry the connection.
    pub(crate) messages: AtomicU32,
    /// Number of transfers at the last count of messages in flight (upper 24 bits). The lower 8 bits are the number of
    /// counts since then.
    counted: AtomicU32,
    /// Hash of the connection's addresses; 0 if no thread has asked the kernel for the addresses.
    pub(crate) link: AtomicU32,
    /// Family that held the connection before an exec or a message brought it to this family
    /// ([`crate::other_families`]). 0 if there is no such family, or if none of its processes holds the connection any
    /// more.
    pub(crate) inherited: AtomicU32,
    /// Not 0 if another process has sent the connection's socket to this family in a message. If the socket is sent
    /// on in a second message, the process that receives it gets no VI for the connection.
    pub(crate) came: AtomicU32,
    /// Slot and generation of the connection in the memory of the family that `inherited` names.
    pub(crate) place_there: AtomicU64,
    /// Not 0 while all socket options that a VI depends on have the kernel's initial values.
    pub(crate) fresh: AtomicU32,
    /// Reason, plus one, why the connection must stay on TCP for now; 0 if there is no reason.
    kept_for: AtomicU32,
    /// A [`ApproachStage`], and the id of the process that has reached this stage.
    stage: AtomicU64,
}

/// Progress of a process in requesting a VI from a process that already shares a segment with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApproachStage {
    /// No request has been made.
    Idle,
    /// This process has opened the connection by `connect`, and has requested VI number `vi` of `pair`. `at` holds
    /// the lowest bits of the number of transfers at that time.
    Requested { pair: u32, vi: u32, at: u8 },
    /// This process has made a request in each segment, but the process at the other end shares none of the
    /// segments. `segments` holds the lowest bits of the number of segments at that time.
    InVain { segments: u8 },
}

impl Approach {
    /// Clears the data when a new connection uses the slot.
    pub(crate) fn forget(&self) {
        let zero = |word: &AtomicU32| word.store(0, Ordering::Relaxed);
        zero(&self.history);
        zero(&self.stored_history);
        zero(&self.known_after);
        zero(&self.unknown_after);
        zero(&self.grants);
        zero(&self.eager_until);
        zero(&self.run);
        zero(&self.messages);
        zero(&self.counted);
        zero(&self.link);
        zero(&self.inherited);
        zero(&self.came);
        zero(&self.fresh);
        zero(&self.kept_for);
        self.stage.store(0, Ordering::Relaxed);
    }

    /// Stores the reason why the connection must stay on TCP for now, or `None`. Returns true if the reason has
    /// changed.
    pub(super) fn keep_for(&self, reason: Option<Reason>) -> bool {
        let word = reason.map_or(0, |reason| reason as u32 + 1);
        let has_changed = self.kept_for.load(Ordering::Relaxed) != word;
        if has_changed {
            self.kept_for.store(word, Ordering::Relaxed);
        }
        has_changed
    }

    /// Returns the reason why the connection must stay on TCP for now, if there is one.
    pub(crate) fn kept_for(&self) -> Option<Reason> {
        self.kept_for.load(Ordering::Relaxed).checked_sub(1).and_then(Reason::of)
    }

    /// Records a send.
    #[inline]
    pub(crate) fn note_send(&self) {
        self.note(1);
    }

    /// Records a receive.
    #[inline]
    pub(crate) fn note_receive(&self) {
        self.note(0);
    }

    fn note(&self, direction: u32) {
        let run = self.run.load(Ordering::Relaxed);
        let before = if run & 1 == direction { run } else { direction };
        self.run.store(before.checked_add(2).unwrap_or(before), Ordering::Relaxed);
    }

    /// Returns true if the last transfer was a send.
    pub(crate) fn has_sent(&self) -> bool {
        self.run.load(Ordering::Relaxed) & 1 != 0
    }

    /// Returns the number of messages that this end has sent since its last receive.
    pub(crate) fn in_flight(&self) -> u32 {
        let run = self.run.load(Ordering::Relaxed);
        if run & 1 != 0 { run >> 1 } else { 0 }
    }

    /// Records a count of messages in flight. Returns false if the connection has had no transfer for many counts.
    /// `transfers` is the connection's present number of transfers.
    pub(crate) fn note_count(&self, transfers: u32) -> bool {
        /// Number of counts after which the messages of a silent connection no longer count.
        const SILENT: u32 = 100;
        let (before, now) = (self.counted.load(Ordering::Relaxed), transfers << 8);
        let silent = if before & !0xff == now { (before & 0xff) + 1 } else { 0 };
        self.counted.store(now | silent.min(SILENT), Ordering::Relaxed);
        silent < SILENT
    }

    /// Records that the two processes have just exchanged a rendezvous message. The next message is then expected
    /// soon. `transfers` is the connection's present number of transfers.
    pub(crate) fn note_message(&self, transfers: u32) {
        /// Number of transfers after a rendezvous message that each look for another message.
        const EAGER: u32 = 64;
        self.eager_until.store(transfers.saturating_add(EAGER), Ordering::Relaxed);
    }

    /// Returns true if a rendezvous message is expected soon. `transfers` is the connection's present number of
    /// transfers.
    #[inline]
    pub(crate) fn is_eager(&self, transfers: u32) -> bool {
        transfers < self.eager_until.load(Ordering::Relaxed)
    }

    /// Returns the stage that this process has reached: [`ApproachStage::Idle`] if another process stored the stage.
    pub(crate) fn stage(&self) -> ApproachStage {
        let word = self.stage.load(Ordering::Acquire);
        if word == 0 || word as u32 != process::owner() as u32 {
            return ApproachStage::Idle;
        }
        let (pair, vi, at) = (word >> 32 & 0xfff, word >> 44 & 0xfff, (word >> 56 & 0x7f) as u8);
        match word >> 63 {
            0 => ApproachStage::Requested { pair: pair as u32, vi: vi as u32, at },
            _ => ApproachStage::InVain { segments: at },
        }
    }

    /// Returns true if this process has requested a VI and has not seen the answer.
    pub(crate) fn awaits_answer(&self) -> bool {
        matches!(self.stage(), ApproachStage::Requested { .. })
    }

    /// Forgets the stage in a program that has taken over the connection, together with the id of the process that has
    /// reached this stage.
    pub(crate) fn forget_stage(&self) {
        if self.stage() != ApproachStage::Idle {
            self.reach(ApproachStage::Idle);
        }
    }

    /// Stores the stage that this process has reached.
    pub(crate) fn reach(&self, stage: ApproachStage) {
        let pid = u64::from(process::owner() as u32);
        let word = match stage {
            ApproachStage::Idle => 0,
            ApproachStage::Requested { pair, vi, at } => {
                pid | u64::from(pair) << 32 | u64::from(vi) << 44 | u64::from(at & 0x7f) << 56
            }
            ApproachStage::InVain { segments } => pid | u64::from(segments & 0x7f) << 56 | 1 << 63,
        };
        self.stage.store(word, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_in_flight_until_a_receive_or_long_silence() {
        // SAFETY: all fields are atomics, for which zero is a valid value.
        let approach: Approach = unsafe { core::mem::zeroed() };
        assert_eq!((approach.in_flight(), approach.has_sent()), (0, false));
        let after = |transfer: fn(&Approach)| {
            transfer(&approach);
            (approach.in_flight(), approach.has_sent())
        };
        assert_eq!(after(Approach::note_receive), (0, false));
        assert_eq!(after(Approach::note_receive), (0, false));
        assert_eq!(after(Approach::note_send), (1, true));
        assert_eq!(after(Approach::note_send), (2, true));
        assert_eq!(after(Approach::note_receive), (0, false));
        approach.run.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(after(Approach::note_send), (u32::MAX >> 1, true));
        assert!((0..100).all(|_| approach.note_count(7)) && !approach.note_count(7));
        assert!(!approach.note_count(7) && approach.note_count(8));
    }

    #[test]
    fn stages_are_packed_and_unpacked() {
        process::own();
        // SAFETY: all fields are atomics, for which zero is a valid value.
        let approach: Approach = unsafe { core::mem::zeroed() };
        assert_eq!(approach.stage(), ApproachStage::Idle);
        for stage in [
            ApproachStage::Requested { pair: 1023, vi: 1023, at: 127 },
            ApproachStage::Requested { pair: 0, vi: 0, at: 0 },
            ApproachStage::InVain { segments: 0 },
            ApproachStage::InVain { segments: 127 },
            ApproachStage::Idle,
        ] {
            approach.reach(stage);
            assert_eq!(approach.stage(), stage);
        }
    }
}
