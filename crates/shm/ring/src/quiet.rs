//! Saves the fence of a notifier that has found no sleeping thread for a long time.
//!
//! A *notifier* is the thread that publishes an event and then looks for sleeping threads. Between the store of the
//! event and this look, the notifier needs a fence ([`crate::ready_list`]). If both ends spin, this fence is the
//! longest part of a send. The fence waits for the cache line to which the message was stored, so sends cannot
//! overlap. So a notifier that has often found no sleeper leaves the fence to the sleepers. It records this mode in
//! the `fencing` word of the [`WakeWord`]. A thread that announces its sleep then makes the kernel execute a fence in
//! the notifier's thread ([`sovia_sync::fences`]). The notifier takes the fence back as soon as it finds a sleeper.
//! So frequent sleeps cost no more than without this module.
//!
//! The changes between the two modes are safe:
//!
//! - *The notifier leaves its fence to the sleepers.* It stores this mode, executes one last fence, and then no
//!   more. A sleeper that does not see this mode announced its sleep before that last fence. So the notifier sees
//!   the announcement.
//! - *The notifier takes its fence back.* It stores this mode, executes a fence, and looks again. If a sleeper sees
//!   this mode, the notifier sees the sleeper's announcement, or the sleeper sees the published event.
//!
//! `crates/base/sync/tests/membarrier` checks every interleaving of a notifier and a sleeper, with store buffers.

use crate::ready_list::{Listeners, WakeWord};
use core::cell::Cell;
use sovia_sync::fences;

/// Number of looks in a row without a sleeper before the notifier leaves its fence to the sleepers. This number of
/// fences costs more than the kernel's fence at the first sleep (a few microseconds).
const ENOUGH: u32 = if cfg!(loom) { 1 } else { 1 << 10 };

/// The notifier's own count of looks that found no sleeper. The count lies outside the segment.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub struct Quiet {
    /// Number of looks in a row without a sleeper; [`ENOUGH`] while the fence is left to the sleepers.
    looks: Cell<u32>,
    /// Set if the notifier must not rely on the sleepers' process for a fence.
    keeps: Cell<bool>,
}

impl Quiet {
    /// Makes the notifier always execute its own fences.
    pub fn keep(&self) {
        self.keeps.set(true);
    }

    /// Returns the sleeping threads and the ready lists that the notifier must wake. Call it after publishing the
    /// event.
    #[inline(always)]
    pub fn look(&self, wake_word: &WakeWord) -> Option<Listeners> {
        if self.looks.get() < ENOUGH {
            return self.look_fenced(wake_word);
        }
        if self.finds_none(wake_word) { None } else { self.take_back(wake_word) }
    }

    /// Returns true if the fence is left to the sleepers and there is no sleeper and no ready list. Returns false
    /// while the notifier executes the fence.
    #[inline(always)]
    pub fn finds_none(&self, wake_word: &WakeWord) -> bool {
        if self.looks.get() < ENOUGH {
            return false;
        }
        // SYNC: pairs with `fences::heavy` in the thread that announces its sleep.
        fences::light();
        wake_word.listeners().is_none() && wake_word.is_fence_left()
    }

    #[inline]
    fn look_fenced(&self, wake_word: &WakeWord) -> Option<Listeners> {
        let found = wake_word.look();
        let looks = if found.is_none() { self.looks.get() + 1 } else { 0 };
        // Change the mode in `wake_word` first, then store the count. If the thread dies between these two steps, the
        // notifier executes too many fences, never too few.
        self.looks.set(if looks < ENOUGH || !self.keeps.get() && may_leave(wake_word) {
            looks
        } else {
            0
        });
        found
    }

    #[cold]
    #[inline(never)]
    fn take_back(&self, wake_word: &WakeWord) -> Option<Listeners> {
        self.looks.set(0);
        wake_word.take_fence_back();
        wake_word.look()
    }
}

#[cold]
#[inline(never)]
fn may_leave(wake_word: &WakeWord) -> bool {
    (fences::are_from_kernel() || cfg!(loom)) && wake_word.leave_fence_to_sleepers()
}
