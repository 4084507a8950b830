//! Sleeping on a completion queue.
//!
//! Senders wake the thread directly, as they wake a thread that sleeps on one VI. While the VIs are few, the thread
//! sleeps on each VI's futex word. If they are many, it sleeps on the ready lists in which senders set bits. In
//! addition it always sleeps on a word of the queue. This word changes with each entry that this process makes, and
//! with each VI that is added or removed. The engine takes no part. The kernel may be unable to wait for several words,
//! or there may be too many words. Then the queue's VIs are armed, and the engine wakes the thread.

use super::members::Members;
use super::{CqCore, Member};
use crate::link::{Attachment, Link};
use crate::segment::SideIndex;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sovia_sys::Errno;
use sovia_sys::futex_any::{AnyOf, WORDS_MAX};
use std::sync::Arc;

/// Set once the kernel has refused to wait for several words.
static UNKNOWN: AtomicBool = AtomicBool::new(false);

/// A futex word that senders wake.
pub(super) enum Place {
    /// The futex word of a VI's receiving direction.
    Bell(Arc<Attachment>),
    /// A ready list of this side of a segment.
    ReadyList(Arc<Link>, SideIndex, u32),
}

impl Place {
    fn word(&self) -> &AtomicU32 {
        match self {
            Place::Bell(attachment) => attachment.bell(true).word(),
            Place::ReadyList(link, side, index) => {
                link.segment.ready_list(*side, *index).sleep_word()
            }
        }
    }

    /// Announces the sleep. Returns the value that the word keeps until a sender has an event. Nothing takes the
    /// announcement back, because another thread may rely on it as well. So the next sender may make one unneeded
    /// wake-up.
    fn announce(&self) -> u32 {
        match self {
            Place::Bell(attachment) => {
                let bell = attachment.bell(true);
                let seen = bell.word().load(Ordering::SeqCst);
                bell.going_to_sleep();
                seen
            }
            Place::ReadyList(link, side, index) => {
                link.segment.ready_list(*side, *index).going_to_sleep_on_word()
            }
        }
    }
}

/// A sleep that has been announced at all words of a queue.
pub(super) struct Announced {
    places: Vec<(Place, u32)>,
}

impl Announced {
    /// Announces a sleep to the senders of a queue's VIs. Returns `None` if the thread cannot sleep on their words.
    pub(super) fn to<V: Member>(members: &Members<V>) -> Option<Announced> {
        if UNKNOWN.load(Ordering::Relaxed) || members.places() >= WORDS_MAX {
            return None;
        }
        let mut places = Vec::new();
        members.each_place(|place| {
            let seen = place.announce();
            places.push((place, seen));
        });
        Some(Announced { places })
    }

    /// Sleeps until a sender wakes the thread, or `own` is no longer `seen`. Returns `ENOSYS` if the kernel cannot wait
    /// for several words.
    pub(super) fn sleep(&self, own: &AtomicU32, seen: u32, ns: u64) -> sovia_sys::Result<()> {
        let mut any = AnyOf::default();
        any.push(own, seen);
        self.places.iter().for_each(|(place, seen)| any.push(place.word(), *seen));
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

impl<V: Member> CqCore<V> {
    /// Wakes the sleeping threads, because the set of VIs has changed.
    pub(super) fn members_changed(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }
}
