//! The VIs of a completion queue, and the search for VIs with events.

use super::CqVi;
use super::sleep::SleepWord;
use crate::link::{Attachment, Link};
use sovia_ring::segment::SideIndex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of VIs that the queue looks at one by one. Up to this number, the looks cost less than the senders'
/// bits in a ready list.
const FEW: usize = 8;

/// The VIs whose receive queues are attached to the completion queue. A VI stays until it is dropped.
#[derive(Debug)]
pub(super) struct AttachedVis<V> {
    pub(super) vis: Vec<Arc<V>>,
    /// Index of the VI at which the next look begins, while there are few VIs.
    next: usize,
    /// Ready lists in which senders set bits for this queue, while there are many VIs. An element is `None` after
    /// its ready list has been freed.
    watched: Vec<Option<Watched<V>>>,
    /// VIs whose bits were set, each by its index in `watched` and its VI number. A VI stays here until a look at
    /// it finds no message. The VI may already have left the completion queue.
    ready: VecDeque<(usize, u32)>,
    /// Connected VIs whose segment had no free ready list.
    unwatched: Vec<(Arc<V>, Ident)>,
    /// Number of looks without an entry while the VIs are armed.
    pub(super) polls: u32,
}

/// Identifies one end of a VI: address of its link (for comparison only), side, and number of the VI.
type Ident = (usize, SideIndex, u32);

fn ident_of(attachment: &Attachment) -> Ident {
    (Arc::as_ptr(&attachment.link) as usize, attachment.side, attachment.vi)
}

/// A ready list of this side of a segment, and the VIs that it watches.
#[derive(Debug)]
struct Watched<V> {
    link: Arc<Link>,
    side: SideIndex,
    index: u32,
    /// For each VI number of the segment, the VI, and a flag that is set while the VI is in `ready`.
    vis: Vec<Option<(Arc<V>, bool)>>,
}

/// Result of a look at one VI.
pub(super) enum Look<T> {
    Found(T),
    Nothing,
}

impl<V> Watched<V> {
    fn is_of(&self, attachment: &Attachment) -> bool {
        Arc::ptr_eq(&self.link, &attachment.link) && self.side == attachment.side
    }
}

impl<V> Default for AttachedVis<V> {
    fn default() -> AttachedVis<V> {
        AttachedVis {
            vis: Vec::new(),
            next: 0,
            watched: Vec::new(),
            ready: VecDeque::new(),
            unwatched: Vec::new(),
            polls: 0,
        }
    }
}

impl<V: CqVi> AttachedVis<V> {
    fn many(&self) -> bool {
        self.vis.len() > FEW
    }

    pub(super) fn join(&mut self, core: &Arc<V>) {
        let few = !self.many();
        self.vis.push(core.clone());
        if few && self.many() {
            // With this VI there are more than `FEW` VIs: watch all of them by ready lists.
            for core in self.vis.clone() {
                if let Some(attachment) = core.attachment() {
                    self.watch(&core, &attachment);
                }
            }
        }
    }

    /// Removes a VI that is being dropped and is no longer connected.
    pub(super) fn leave(&mut self, core: &Arc<V>) {
        self.vis.retain(|entry| !Arc::ptr_eq(entry, core));
        self.unwatched.retain(|(entry, _)| !Arc::ptr_eq(entry, core));
        for watched in self.watched.iter_mut().flatten() {
            for slot in &mut watched.vis {
                if slot.as_ref().is_some_and(|(entry, _)| Arc::ptr_eq(entry, core)) {
                    *slot = None;
                }
            }
        }
        self.let_go();
    }

    /// Frees the ready lists that watch no VI any more, and drops the references to their links.
    fn let_go(&mut self) {
        for slot in &mut self.watched {
            if let Some(watched) = slot
                && watched.vis.iter().all(Option::is_none)
            {
                watched.link.give_ready_list(watched.side, watched.index);
                *slot = None;
            }
        }
    }

    /// Adds a VI's new connection.
    pub(super) fn connected(&mut self, core: &Arc<V>, attachment: &Arc<Attachment>) {
        if self.many() {
            self.watch(core, attachment);
        }
    }

    /// Removes a VI's former connection.
    pub(super) fn disconnected(&mut self, core: &V, attachment: &Attachment) {
        let this = |entry: &Arc<V>| core::ptr::eq(&**entry, core);
        let gone = ident_of(attachment);
        self.unwatched.retain(|(entry, slot)| !(this(entry) && *slot == gone));
        for watched in self.watched.iter_mut().flatten() {
            // Skip other segments: the VI may already have a new connection there, with the same VI number.
            if !watched.is_of(attachment) {
                continue;
            }
            let slot = watched.vis.get_mut(attachment.vi as usize);
            if let Some(slot) = slot
                && slot.as_ref().is_some_and(|(entry, _)| this(entry))
            {
                *slot = None;
                attachment.back().wake_word.unwatch(watched.index);
            }
        }
        self.let_go();
    }

    fn watch(&mut self, core: &Arc<V>, attachment: &Arc<Attachment>) {
        let known = |w: &Option<Watched<V>>| w.as_ref().is_some_and(|w| w.is_of(attachment));
        let slot = self.watched.iter().position(known).or_else(|| self.begin(attachment));
        let Some((slot, watched)) =
            slot.and_then(|slot| Some((slot, self.watched[slot].as_mut()?)))
        else {
            self.unwatched.push((core.clone(), ident_of(attachment)));
            return;
        };
        let vi = attachment.vi as usize;
        if watched.vis.len() <= vi {
            watched.vis.resize(vi + 1, None);
        }
        watched.vis[vi] = Some((core.clone(), true));
        attachment.back().wake_word.watch(watched.index);
        // Look at this VI once, because messages that arrived before `watch` have set no bit.
        self.ready.push_back((slot, attachment.vi));
    }

    /// Takes a free ready list of the attachment's segment and returns its index in `watched`; `None` if there is
    /// none.
    fn begin(&mut self, attachment: &Attachment) -> Option<usize> {
        let (link, side) = (&attachment.link, attachment.side);
        let index = link.take_ready_list(side)?;
        let watched = Some(Watched { link: link.clone(), side, index, vis: Vec::new() });
        if let Some(free) = self.watched.iter().position(Option::is_none) {
            self.watched[free] = watched;
            return Some(free);
        }
        self.watched.push(watched);
        Some(self.watched.len() - 1)
    }

    /// Returns true if spinning can help. Spinning cannot help if every peer last waited on this processor. If there
    /// are many VIs, assumes that one peer is on another processor.
    pub(super) fn may_spin(&self) -> bool {
        // Call `may_spin` for every VI, because it also publishes this thread's processor to the peer.
        self.many()
            || self.vis.is_empty()
            || self.vis.iter().filter(|core| core.may_spin()).count() > 0
    }

    /// Returns the number of words on which a thread must sleep.
    pub(super) fn sleep_word_count(&self) -> usize {
        if self.many() { self.watched.len() + self.unwatched.len() } else { self.vis.len() }
    }

    /// Calls `each` with every futex word that a sender of these VIs may wake.
    pub(super) fn each_sleep_word(&self, mut each: impl FnMut(SleepWord)) {
        if !self.many() {
            let attached = self.vis.iter().filter_map(|core| core.attachment());
            attached.for_each(|attachment| each(SleepWord::WakeWord(attachment)));
            return;
        }
        for Watched { link, side, index, .. } in self.watched.iter().flatten() {
            each(SleepWord::ReadyList(link.clone(), *side, *index));
        }
        let attached = self.unwatched.iter().filter_map(|(core, _)| core.attachment());
        attached.for_each(|attachment| each(SleepWord::WakeWord(attachment)));
    }

    /// Makes the next look examine every VI.
    pub(super) fn suspect_all(&mut self) {
        for (slot, watched) in self.watched.iter_mut().enumerate() {
            if let Some(Watched { link, side, index, .. }) = watched {
                link.segment.ready_list(*side, *index).summarise();
            }
            for (vi, entry) in watched.iter_mut().flat_map(|w| &mut w.vis).enumerate() {
                if let Some((_, ready)) = entry
                    && !core::mem::replace(ready, true)
                {
                    self.ready.push_back((slot, vi as u32));
                }
            }
        }
    }

    /// Looks at the VIs that may have events, until `look` finds something.
    #[inline]
    pub(super) fn find<T>(&mut self, mut look: impl FnMut(&Arc<V>) -> Look<T>) -> Option<T> {
        if self.many() {
            return self.find_among_many(look);
        }
        for _ in 0..self.vis.len() {
            if self.next >= self.vis.len() {
                self.next = 0;
            }
            if let Look::Found(found) = look(&self.vis[self.next]) {
                return Some(found);
            }
            self.next += 1;
        }
        None
    }

    fn find_among_many<T>(&mut self, mut look: impl FnMut(&Arc<V>) -> Look<T>) -> Option<T> {
        for (slot, watched) in self.watched.iter_mut().enumerate() {
            let Some(watched) = watched else { continue };
            let ready_list = watched.link.segment.ready_list(watched.side, watched.index);
            ready_list.drain(|vi| {
                if let Some(Some((_, ready))) = watched.vis.get_mut(vi as usize)
                    && !core::mem::replace(ready, true)
                {
                    self.ready.push_back((slot, vi));
                }
            });
        }
        while let Some(&(slot, vi)) = self.ready.front() {
            let watched = self.watched[slot].as_mut();
            let entry = watched.and_then(|w| w.vis.get_mut(vi as usize)).and_then(Option::as_mut);
            if let Some((core, ready)) = entry {
                if let Look::Found(found) = look(core) {
                    // Move this VI behind the others, so that the next look begins with another VI.
                    self.ready.rotate_left(1);
                    return Some(found);
                }
                // The VI has no more messages. The sender of its next message sets the VI's bit again.
                *ready = false;
            }
            self.ready.pop_front();
        }
        self.unwatched.iter().find_map(|(core, _)| match look(core) {
            Look::Found(found) => Some(found),
            Look::Nothing => None,
        })
    }
}

impl<V> Drop for AttachedVis<V> {
    fn drop(&mut self) {
        for watched in self.watched.iter().flatten() {
            watched.link.give_ready_list(watched.side, watched.index);
        }
    }
}
