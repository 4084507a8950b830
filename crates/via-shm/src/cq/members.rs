//! The VIs of a completion queue, and how it looks for those with news.

use crate::connect::link::{Attachment, Link};
use crate::segment::SideIndex;
use crate::vi::inner::Core;
use std::collections::VecDeque;
use std::sync::Arc;

/// Up to this many VIs are looked at one after the other: then a look at each costs less than
/// what senders would have to do to spare it.
const FEW: usize = 8;

/// The VIs whose receive queues are attached, until each is dropped.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) vis: Vec<Arc<Core>>,
    /// Where the next look at one after the other begins.
    next: usize,
    /// Segments in which senders set a bit for this queue, once there are many VIs.
    watched: Vec<Watched>,
    /// VIs whose bit was set, by place in `watched` and number: to be looked at until nothing is
    /// found. Some may be gone.
    ready: VecDeque<(usize, u32)>,
    /// Connected VIs for which there was no waiter left in their segment.
    unwatched: Vec<Arc<Core>>,
    /// The program's looks in vain while the members are armed.
    pub(super) polls: u32,
}

/// A waiter of this side of a segment, and the VIs that it watches.
#[derive(Debug)]
struct Watched {
    link: Arc<Link>,
    side: SideIndex,
    index: u32,
    /// By their numbers in the segment, and whether each is in `ready`.
    vis: Vec<Option<(Arc<Core>, bool)>>,
}

/// What a look at one VI has brought.
pub(super) enum Look<T> {
    Found(T),
    Nothing,
}

impl Members {
    fn many(&self) -> bool {
        self.vis.len() > FEW
    }

    pub(super) fn join(&mut self, core: &Arc<Core>) {
        let few = !self.many();
        self.vis.push(core.clone());
        if few && self.many() {
            // From now on they are watched.
            for core in self.vis.clone() {
                if let Some(attachment) = core.attachment() {
                    self.watch(&core, &attachment);
                }
            }
        }
    }

    pub(super) fn leave(&mut self, core: &Arc<Core>) {
        self.vis.retain(|member| !Arc::ptr_eq(member, core));
        self.unwatched.retain(|member| !Arc::ptr_eq(member, core));
        for watched in &mut self.watched {
            for place in &mut watched.vis {
                if place.as_ref().is_some_and(|(member, _)| Arc::ptr_eq(member, core)) {
                    *place = None;
                }
            }
        }
    }

    /// A VI is connected.
    pub(super) fn connected(&mut self, core: &Arc<Core>, attachment: &Arc<Attachment>) {
        if self.many() {
            self.watch(core, attachment);
        }
    }

    /// A VI's connection is over.
    pub(super) fn disconnected(&mut self, core: &Core, attachment: &Attachment) {
        let this = |member: &Arc<Core>| core::ptr::eq(&**member, core);
        self.unwatched.retain(|member| !this(member));
        for watched in &mut self.watched {
            let place = watched.vis.get_mut(attachment.vi as usize);
            if let Some(place) = place
                && place.as_ref().is_some_and(|(member, _)| this(member))
            {
                *place = None;
                attachment.back().bell.unwatch(watched.index);
            }
        }
    }

    fn watch(&mut self, core: &Arc<Core>, attachment: &Arc<Attachment>) {
        let (link, side) = (&attachment.link, attachment.side);
        let known = |w: &Watched| Arc::ptr_eq(&w.link, link) && w.side == side;
        let place = self.watched.iter().position(known).or_else(|| {
            let index = link.take_waiter(side)?;
            self.watched.push(Watched { link: link.clone(), side, index, vis: Vec::new() });
            Some(self.watched.len() - 1)
        });
        let Some(place) = place else {
            self.unwatched.push(core.clone());
            return;
        };
        let watched = &mut self.watched[place];
        let vi = attachment.vi as usize;
        if watched.vis.len() <= vi {
            watched.vis.resize(vi + 1, None);
        }
        watched.vis[vi] = Some((core.clone(), true));
        attachment.back().bell.watch(watched.index);
        // What has come before that set no bit.
        self.ready.push_back((place, attachment.vi));
    }

    /// Looks at the VIs that may have news, until `look` finds something.
    #[inline]
    pub(super) fn find<T>(&mut self, mut look: impl FnMut(&Arc<Core>) -> Look<T>) -> Option<T> {
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

    fn find_among_many<T>(&mut self, mut look: impl FnMut(&Arc<Core>) -> Look<T>) -> Option<T> {
        for (place, watched) in self.watched.iter_mut().enumerate() {
            let waiter = watched.link.segment.waiter(watched.side, watched.index);
            waiter.drain(|vi| {
                if let Some(Some((_, ready))) = watched.vis.get_mut(vi as usize)
                    && !core::mem::replace(ready, true)
                {
                    self.ready.push_back((place, vi));
                }
            });
        }
        while let Some(&(place, vi)) = self.ready.front() {
            let member = self.watched[place].vis.get_mut(vi as usize).and_then(Option::as_mut);
            if let Some((core, ready)) = member {
                if let Look::Found(found) = look(core) {
                    // The others have their turn before it has another.
                    self.ready.rotate_left(1);
                    return Some(found);
                }
                // It has no more news; its next will set its bit.
                *ready = false;
            }
            self.ready.pop_front();
        }
        self.unwatched.iter().find_map(|core| match look(core) {
            Look::Found(found) => Some(found),
            Look::Nothing => None,
        })
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for watched in &self.watched {
            watched.link.give_waiter(watched.side, watched.index);
        }
    }
}
