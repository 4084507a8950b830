//! What a NIC has of each far NIC: the channel to it, and what concerns the connections between the two. Nothing of it is shared, so
//! one that has died, stands still or floods concerns its own connections alone.

use super::offers::Offers;
use super::route::{Carrier, Route};
use super::unsaid::Unsaid;
use crate::bundle::Bundle;
use crate::connection::Key;
use crate::wire::{Id, Message};
use sovia_link::channel::Counters;
use sovia_link::{Channel, Time};
use std::collections::{BTreeSet, HashMap};

/// How long what is to be said to a peer waits for a conversation (nanoseconds): as long as Linux's TCP sends data again without any
/// answer (tcp(7), `tcp_retries2`).
const PATIENCE_NS: u64 = 924_600_000_000;

/// A far NIC.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// The channel to it, from when it was first met until it is known to have died.
    pub(super) channel: Option<Box<Channel>>,
    /// It can be spoken to.
    pub(super) is_met: bool,
    /// Since when it cannot, though it is not known to have died (nanoseconds).
    lost_at: Option<u64>,
    /// When it last acknowledged something (nanoseconds).
    pub(super) progressed_at: u64,
    /// Bytes of the longest frame to it.
    pub(super) frame_max: usize,
    pub(super) route: Route,
    /// By which way its last frame came.
    heard_by: Option<Carrier>,
    /// A frame has come by another way than the trunk, by which this NIC's go.
    pub(super) came_by_another_way: bool,
    /// Own requests that no program of its has asked for yet.
    pub(super) requests: HashMap<Key, Id>,
    /// Its requests that no program of this host has asked for yet.
    pub(super) offers: Offers,
    /// The connections that both have asked for, by its numbers of them.
    pub(super) joined: HashMap<Id, Id>,
    /// Connections of which it may not have been sent everything.
    pub(super) untold: BTreeSet<Id>,
    /// The one of them that has its turn first, or the next one behind.
    pub(super) next_told: Id,
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

    /// It can be spoken to again, by the channel that there was before and by that way.
    pub(super) fn go_on(&mut self, route: Route) {
        (self.is_met, self.is_due, self.route) = (true, true, route);
        self.lost_at = None;
    }

    /// A probe of the port has been answered.
    pub(super) fn port_passes(&mut self) {
        if let Route::Conversation { .. } = self.route {
            self.route = Route::Port;
        }
    }

    /// By which way a frame goes to it now: acknowledgements alone by the one by which it sends, if this NIC has that.
    pub(super) fn way(&self) -> Carrier {
        let own = self.route.way();
        let is_idle = self.channel.as_ref().is_some_and(|channel| channel.is_idle());
        // The channel gets the bundle when a frame is made.
        let acknowledges_only = is_idle && self.bundle.is_empty();
        match self.heard_by.filter(|_| acknowledges_only) {
            Some(Carrier::Trunk) | None => own,
            Some(heard_by) => heard_by,
        }
    }

    /// It cannot be spoken to for now.
    pub(super) fn lose(&mut self, now: u64) {
        (self.is_met, self.lost_at) = (false, Some(now));
    }

    /// Since when it cannot be spoken to, if it cannot (nanoseconds).
    pub(super) fn lost_at(&self) -> Option<u64> {
        self.lost_at
    }

    /// When it is given up unless there is a conversation before: never, while nothing is to be said to it. A program that only
    /// waits does so for ever, as over TCP.
    fn given_up_at(&self) -> Option<u64> {
        let waits = self.channel.as_ref().is_some_and(|channel| !channel.is_idle());
        self.lost_at.filter(|_| waits || !self.untold.is_empty()).map(|at| at + PATIENCE_NS)
    }

    /// Whether what is to be said to it has waited for too long.
    pub(super) fn is_given_up(&self, now: u64) -> bool {
        self.given_up_at().is_some_and(|at| at <= now)
    }

    /// When there is something to do though nothing comes (nanoseconds of the monotonic clock).
    pub(super) fn deadline(&self) -> Option<u64> {
        let channel = self.channel.as_deref()?;
        if !self.is_met {
            return self.given_up_at();
        }
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

    /// Takes frames that have come from it, each of `segment` bytes but for the last one, which may have less.
    pub(super) fn handle_frames(&mut self, now: Time, by: Carrier, bytes: &[u8], segment: usize) {
        if let Some(channel) = &mut self.channel {
            self.is_due = true;
            let before = channel.first_part();
            let is_its = |it: Counters| it.frames - it.malformed - it.stale;
            let of_its = is_its(channel.counters());
            channel.handle_frames(now, bytes, segment);
            if is_its(channel.counters()) != of_its {
                // A stranger's frame says nothing of a way.
                self.heard_by = Some(by);
            }
            if channel.first_part() != before {
                self.progressed_at = now.nanos();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sovia_link::Config;

    #[test]
    fn peer_that_is_lost_is_given_up_when_what_is_to_be_said_has_waited_as_long_as_by_tcp() {
        let mut peer = Peer::default();
        peer.begin(Some(Channel::between(Config::default(), 1, 2, 3)));
        assert!(peer.is_met && !peer.is_given_up(u64::MAX), "there is a conversation");
        peer.lose(1000);
        assert_eq!(
            (peer.deadline(), peer.is_given_up(u64::MAX)),
            (None, false),
            "nothing is to be said"
        );
        peer.channel.as_mut().unwrap().send(b"something").unwrap();
        assert_eq!(peer.deadline(), Some(1000 + PATIENCE_NS));
        assert!(!peer.is_given_up(999 + PATIENCE_NS) && peer.is_given_up(1000 + PATIENCE_NS));
        peer.go_on(Route::Port);
        assert!(!peer.is_given_up(u64::MAX));
    }

    #[test]
    fn acknowledgements_alone_go_by_the_way_by_which_the_peers_frames_come() {
        let now = Time::from_nanos(1);
        let mut ends = [(1, 2), (2, 1)].map(|(own, other)| {
            let mut peer = Peer::default();
            peer.begin(Some(Channel::between(Config::default(), 7, own, other)));
            peer
        });
        let [a, b] = &mut ends;
        let mut frame = Vec::new();
        let frame_of = |peer: &mut Peer, frame: &mut Vec<u8>| {
            assert!(peer.channel.as_mut().unwrap().poll_transmit(now, frame), "it has a frame");
        };
        b.channel.as_mut().unwrap().send(b"something").unwrap();
        frame_of(b, &mut frame);
        a.handle_frames(now, Carrier::Conversation, &frame, frame.len());
        assert_eq!((a.way(), a.route), (Carrier::Conversation, Route::Port));
        // What no peer has sent, by another way.
        let stranger = vec![0; frame.len()];
        a.handle_frames(now, Carrier::Port, &stranger, stranger.len());
        assert_eq!(a.way(), Carrier::Conversation);
        // What is its own goes where its own is acknowledged, also while it waits for the channel.
        a.say(Message::Broken(1));
        assert_eq!(a.way(), Carrier::Port);
        a.bundle = Bundle::default();
        assert_eq!(a.way(), Carrier::Conversation);
        a.channel.as_mut().unwrap().send(b"an answer").unwrap();
        assert_eq!(a.way(), Carrier::Port);
        frame_of(a, &mut frame);
        b.handle_frames(now, Carrier::Port, &frame, frame.len());
        assert_eq!(b.way(), Carrier::Port);
        frame_of(b, &mut frame);
        a.handle_frames(now, Carrier::Conversation, &frame, frame.len());
        assert_eq!(a.way(), Carrier::Conversation, "all of its own is acknowledged");
        a.handle_frames(now, Carrier::Trunk, &frame, frame.len());
        assert_eq!(a.way(), Carrier::Port, "it has no trunk");
    }

    /// docs/reference/hosts.md says how large it is.
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
