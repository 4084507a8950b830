//! A ringer that finds no sleeper, for long.
//!
//! A ringer publishes its news and looks whether a thread sleeps for them; between the two there must be a fence
//! ([`crate::ready_list`]). Where both ends spin that fence is the longest part of a send: it waits for the cache line
//! of the message to come, and with it each message waits for the one before. So a ringer that has often looked
//! in vain leaves its fence to the sleepers: it stores that in the bell's `fencing`, and a thread that announces
//! its sleep then has the kernel put the fence into the ringer ([`sovia_sync::fences`]). The ringer takes the fence
//! back as soon as it finds a sleeper, so sleeps that are frequent cost no more than before.
//!
//! Between the two ways:
//!
//! - The ringer leaves its fence: it stores that, fences itself once more, and not from then on. A thread that
//!   has announced its sleep and does not find this stored was announced before that last fence, so the ringer
//!   sees it.
//! - The ringer takes its fence back: it stores that, fences itself, and looks again. A thread that has announced
//!   its sleep and finds that stored is seen then, or sees what had been published.
//!
//! `crates/base/sync/tests/membarrier` looks at every interleaving of the two with store buffers.

use crate::ready_list::{Bell, Listeners};
use core::cell::Cell;
use sovia_sync::fences;

/// So many looks in a row find no sleeper before the fence is left to sleepers: they save more than what the first
/// sleeper pays (a few microseconds).
const ENOUGH: u32 = if cfg!(loom) { 1 } else { 1 << 10 };

/// What the ringer of a bell knows of its sleepers. Not in the segment.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub struct Quiet {
    /// Looks in a row that have found no sleeper; [`ENOUGH`] if the fence is left to sleepers.
    looks: Cell<u32>,
    /// The sleepers' process is not to be relied on for a fence.
    keeps: Cell<bool>,
}

impl Quiet {
    /// The ringer fences itself for good.
    pub fn keep(&self) {
        self.keeps.set(true);
    }

    /// For the ringer, after it has published its news: the sleepers and ready lists that it must wake.
    #[inline(always)]
    pub fn look(&self, bell: &Bell) -> Option<Listeners> {
        if self.looks.get() < ENOUGH {
            return self.look_fenced(bell);
        }
        if self.finds_none(bell) { None } else { self.take_back(bell) }
    }

    /// The same for a ringer that has left its fence to sleepers: whether it finds none. False for any other.
    #[inline(always)]
    pub fn finds_none(&self, bell: &Bell) -> bool {
        if self.looks.get() < ENOUGH {
            return false;
        }
        // SYNC: with `heavy` in the thread that announces its sleep.
        fences::light();
        bell.listeners().is_none() && bell.is_fence_left()
    }

    #[inline]
    fn look_fenced(&self, bell: &Bell) -> Option<Listeners> {
        let found = bell.look();
        let looks = if found.is_none() { self.looks.get() + 1 } else { 0 };
        // In this order: a thread that dies in between has fenced itself too often, and not too seldom.
        self.looks.set(if looks < ENOUGH || !self.keeps.get() && may_leave(bell) {
            looks
        } else {
            0
        });
        found
    }

    #[cold]
    #[inline(never)]
    fn take_back(&self, bell: &Bell) -> Option<Listeners> {
        self.looks.set(0);
        bell.take_fence_back();
        bell.look()
    }
}

#[cold]
#[inline(never)]
fn may_leave(bell: &Bell) -> bool {
    (fences::are_from_kernel() || cfg!(loom)) && bell.leave_fence_to_sleepers()
}
