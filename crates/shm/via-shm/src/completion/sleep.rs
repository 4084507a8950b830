//! What a thread that sleeps on a completion queue is woken by.
//!
//! Senders wake it by themselves, as they wake a thread that sleeps on one VI: it sleeps on the bells of
//! its VIs while they are few, and when they are many on the ready lists for which senders set bits; and
//! always on a word of the queue's own, which changes with each entry that this process makes and with
//! each VI that comes or goes. The NIC's thread has no part in it. Where the kernel cannot have a thread
//! sleep on several words, or there are too many, it has: the queue's VIs are armed then.

use super::members::Members;
use super::{CqCore, Member};
use crate::link::{Attachment, Link};
use crate::segment::SideIndex;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sovia_sys::Errno;
use sovia_sys::futex_any::{AnyOf, WORDS_MAX};
use std::sync::Arc;

/// Set once the kernel has refused to sleep on several words.
static UNKNOWN: AtomicBool = AtomicBool::new(false);

/// A word that senders wake.
pub(super) enum Place {
    /// The bell of a VI's receiving direction.
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

    /// Announces the sleep; the value that the word keeps while no sender has news. Nothing takes the
    /// announcement back, since another thread may sleep by it as well: the next sender takes it for a
    /// sleeper's and wakes one too many.
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

/// A sleep on all of a queue's places, announced.
pub(super) struct Announced {
    places: Vec<(Place, u32)>,
}

impl Announced {
    /// Announces a sleep to the senders of a queue's VIs. `None` where that is not possible.
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

    /// Sleeps until a sender rings, or `own` is no longer `seen`. `ENOSYS` where that is not possible.
    pub(super) fn sleep(&self, own: &AtomicU32, seen: u32, ns: u64) -> sovia_sys::Result<()> {
        let mut any = AnyOf::default();
        any.push(own, seen);
        self.places.iter().for_each(|(place, seen)| any.push(place.word(), *seen));
        let result = any.wait(ns);
        // A filter that does not know the call may say anything.
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
    /// The VIs are other ones: a sleeper looks which.
    pub(super) fn members_changed(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }
}
