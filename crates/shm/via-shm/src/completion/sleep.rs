//! Sleeping on a completion queue.
//!
//! A sleeping thread waits for several futex words at once, and senders wake the thread directly. If there are few
//! VIs, it waits for each VI's futex word. If there are many, it waits for the words of the ready lists in which
//! senders set bits. In addition, it waits for a word of the completion queue. This word changes with each entry
//! that this process adds, and with each VI that is added or removed. If the kernel cannot wait for several words,
//! or there are too many words, the queue's VIs are armed. The engine then wakes the thread.

use super::attached_vis::AttachedVis;
use super::{CqCore, CqVi};
use crate::link::{Attachment, Link};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sovia_ring::segment::SideIndex;
use sovia_sys::Errno;
use sovia_sys::futex_any::{AnyOf, WORDS_MAX};
use std::sync::Arc;

/// Set once the kernel has refused to wait for several words.
static UNKNOWN: AtomicBool = AtomicBool::new(false);

/// A futex word that senders wake.
pub(super) enum SleepWord {
    /// The futex word of a VI's receiving direction.
    WakeWord(Arc<Attachment>),
    /// A ready list, by its link, its side of the segment, and its index.
    ReadyList(Arc<Link>, SideIndex, u32),
}

impl SleepWord {
    fn word(&self) -> &AtomicU32 {
        match self {
            SleepWord::WakeWord(attachment) => attachment.wake_word(true).word(),
            SleepWord::ReadyList(link, side, index) => {
                link.segment.ready_list(*side, *index).sleep_word()
            }
        }
    }

    /// Announces the sleep to senders. Returns the value that the word keeps until a sender has an event. The
    /// thread never takes the announcement back, because another thread may rely on the same announcement. So the
    /// next sender may make one unneeded wake-up.
    fn announce(&self) -> u32 {
        match self {
            SleepWord::WakeWord(attachment) => {
                let wake_word = attachment.wake_word(true);
                let seen = wake_word.word().load(Ordering::SeqCst);
                wake_word.going_to_sleep();
                seen
            }
            SleepWord::ReadyList(link, side, index) => {
                link.segment.ready_list(*side, *index).going_to_sleep_on_word()
            }
        }
    }
}

/// A sleep that has been announced at all words of a queue.
pub(super) struct Announced {
    words: Vec<(SleepWord, u32)>,
}

impl Announced {
    /// Announces a sleep to the senders of a queue's VIs. Returns `None` if there are too many words, or if the
    /// kernel cannot wait for several words.
    pub(super) fn to<V: CqVi>(attached_vis: &AttachedVis<V>) -> Option<Announced> {
        if UNKNOWN.load(Ordering::Relaxed) || attached_vis.sleep_word_count() >= WORDS_MAX {
            return None;
        }
        let mut words = Vec::new();
        attached_vis.each_sleep_word(|word| {
            let seen = word.announce();
            words.push((word, seen));
        });
        Some(Announced { words })
    }

    /// Sleeps until a sender wakes the thread, `own` has another value than `seen`, or `ns` nanoseconds have
    /// passed. Returns `ENOSYS` if the kernel cannot wait for several words.
    pub(super) fn sleep(&self, own: &AtomicU32, seen: u32, ns: u64) -> sovia_sys::Result<()> {
        let mut any = AnyOf::default();
        any.push(own, seen);
        self.words.iter().for_each(|(word, seen)| any.push(word.word(), *seen));
        let result = any.wait(ns);
        // A seccomp filter that does not know the system call may return any error.
        if let Err(errno) = result
            && ![Errno::EAGAIN, Errno::EINTR, Errno::ETIMEDOUT].contains(&errno)
        {
            UNKNOWN.store(true, Ordering::Relaxed);
            return Err(Errno::ENOSYS);
        }
        result
    }
}

impl<V: CqVi> CqCore<V> {
    /// Wakes the sleeping threads, because the set of VIs has changed.
    pub(super) fn vis_changed(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }
}
