//! What a NIC has of each far NIC: the channel to it, and what concerns the connections between the two. Nothing of it is shared, so
//! one that has died, stands still or floods concerns its own connections alone.

use super::offers::Offers;
use super::route::Route;
use super::unsaid::Unsaid;
use crate::bundle::Bundle;
use crate::connection::Key;
use crate::wire::{Id, Message};
use sovia_link::{Channel, Time};
use std::collections::{BTreeSet, HashMap};

/// A far NIC.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// The channel to it, from when it was first met until it is known to have died.
    pub(super) channel: Option<Box<Channel>>,
    /// It can be spoken to.
    pub(super) is_met: bool,
    /// Bytes of the longest frame to it.
    pub(super) frame_max: usize,
    pub(super) route: Route,
    /// Own requests that no program of its has asked for yet.
    pub(super) requests: HashMap<Key, Id>,
    /// Its requests that no program of this host has asked for yet.
    pub(super) offers: Offers,
    /// The connections that both have asked for, by its numbers of them.
    pub(super) joined: HashMap<Id, Id>,
    /// Connections of which it may not have been sent everything.
    pub(super) untold: BTreeSet<Id>,
    /// Messages about connections that are to be sent, in order, when there is room.
    pub(super) unsaid: Unsaid,
    /// Messages that go together.
    pub(super) bundle: Bundle,
    /// There may be something to be heard from it or to be sent to it.
    pub(super) is_due: bool,
    /// It has said something that is no message.
    pub(super) has_said_nonsense: bool,
}

impl Peer {
    /// Says something to it, as soon as there is room.
    pub(super) fn say(&mut self, message: Message<'static>) {
        // One that is not there is told what it is to know when it is.
        let Some(channel) = &mut self.channel else { return };
        self.is_due = true;
        if self.unsaid.is_empty() && self.bundle.has_room(channel) {
            self.bundle.put(&message);
        } else {
            self.unsaid.push(message);
        }
    }

    /// Begins anew, by a channel to a NIC that knows nothing of what the earlier one has been sent; or to none.
    pub(super) fn begin(&mut self, channel: Option<Channel>) {
        *self = Peer {
            is_met: channel.is_some(),
            channel: channel.map(Box::new),
            frame_max: self.frame_max,
            requests: core::mem::take(&mut self.requests),
            is_due: true,
            ..Peer::default()
        };
    }

    /// It can be spoken to again, by the channel that there was before.
    pub(super) fn go_on(&mut self) {
        (self.is_met, self.is_due, self.route) = (true, true, Route::Port);
    }

    /// When there is something to do though nothing comes (nanoseconds of the monotonic clock).
    pub(super) fn deadline(&self) -> Option<u64> {
        let channel = self.channel.as_deref().filter(|_| self.is_met)?;
        let timer = channel.poll_timeout().map(Time::nanos);
        timer.into_iter().chain(self.route.probe_deadline()).min()
    }

    /// Has the channel's timers go off that are due.
    pub(super) fn look_at_timers(&mut self, now: u64) {
        let Some(channel) = self.channel.as_deref_mut().filter(|_| self.is_met) else { return };
        if channel.poll_timeout().is_some_and(|at| at.nanos() <= now) {
            channel.handle_timeout(Time::from_nanos(now));
            self.is_due = true;
        }
    }

    /// Takes a frame that has come from it.
    pub(super) fn handle_frame(&mut self, now: Time, frame: &[u8]) {
        if let Some(channel) = &mut self.channel {
            self.is_due = true;
            // A frame that is none is lost.
            let _ = channel.handle_frame(now, frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/hosts.md says how large it is.
    #[test]
    fn peer_that_is_not_there_takes_little_memory() {
        let bytes = size_of::<Peer>() + size_of::<crate::hosts::Known>();
        println!("a peer takes {bytes} bytes, its channel {}", size_of::<Channel>());
        assert!(bytes <= 768, "{bytes}");
        assert!(size_of::<Channel>() <= 4096, "{}", size_of::<Channel>());
        let peer = Peer::default();
        // None of its collections has memory of its own yet.
        assert_eq!(peer.requests.capacity() + peer.joined.capacity(), 0);
        assert!(peer.channel.is_none());
    }
}
