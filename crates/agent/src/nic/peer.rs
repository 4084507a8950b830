//! State of a NIC for each remote NIC: the channel, and the connections between the two NICs. Remote NICs share no
//! state. So a remote NIC that has died, has stopped or floods this NIC affects only its own connections.

use super::offers::Offers;
use super::route::{Carrier, Route};
use super::unsaid::Unsaid;
use crate::bundle::Bundle;
use crate::connection::Key;
use crate::wire::{Id, Message};
use sovia_link::channel::Counters;
use sovia_link::{Channel, Time};
use std::collections::{BTreeSet, HashMap};

/// Time that messages to a peer wait for a TCP connection to its agent, in nanoseconds. Linux's TCP retransmits
/// without an answer for the same time (tcp(7), `tcp_retries2`).
const PATIENCE_NS: u64 = 924_600_000_000;

/// A remote NIC.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// Channel to the remote NIC, from their first contact until its death is known.
    pub(super) channel: Option<Box<Channel>>,
    /// Set while the NIC can send to the remote NIC.
    pub(super) is_met: bool,
    /// Time when contact was lost, in nanoseconds. Set until contact is made again, or the remote NIC is known to
    /// have died.
    lost_at: Option<u64>,
    /// Time of the last acknowledgement, in nanoseconds.
    pub(super) progressed_at: u64,
    /// Length in bytes of the longest frame to the remote NIC.
    pub(super) frame_max: usize,
    pub(super) route: Route,
    /// Carrier of the last frame from the remote NIC.
    heard_by: Option<Carrier>,
    /// Set when a frame came by another carrier while this NIC sends on the trunk.
    pub(super) came_by_another_way: bool,
    /// Requests of this host's programs, for which the remote NIC has not offered the other end yet.
    pub(super) requests: HashMap<Key, Id>,
    /// Offers of the remote NIC, for which no program of this host has requested the other end yet.
    pub(super) offers: Offers,
    /// Connections that both ends have requested: own ids, by the remote NIC's ids.
    pub(super) joined: HashMap<Id, Id>,
    /// Connections for which the remote NIC may not have been sent everything.
    pub(super) untold: BTreeSet<Id>,
    /// Smallest id in `untold` that may begin the next turn.
    pub(super) next_told: Id,
    /// Messages about connections that wait for room, in order.
    pub(super) unsaid: Unsaid,
    /// Messages to be sent together.
    pub(super) bundle: Bundle,
    /// Set when there may be something to receive or to send.
    pub(super) is_due: bool,
    /// Set after the remote NIC has sent an invalid message.
    pub(super) has_said_nonsense: bool,
}

impl Peer {
    /// Sends a message as soon as there is room.
    pub(super) fn say(&mut self, message: Message<'static>) {
        // Without a channel, drop the message: the remote NIC is sent all open offers when it appears.
        let Some(channel) = &mut self.channel else { return };
        self.is_due = true;
        if self.unsaid.is_empty() && self.bundle.has_room(channel) {
            self.bundle.put(&message);
        } else {
            self.unsaid.push(message);
        }
    }

    /// Begins a new channel to a remote NIC that has restarted, or none. Keeps this host's requests and the frame
    /// length.
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

    /// Continues with the same channel on `route`, after contact was lost.
    pub(super) fn go_on(&mut self, route: Route) {
        (self.is_met, self.is_due, self.route) = (true, true, route);
        self.lost_at = None;
    }

    /// Returns to the port after the peer has answered a probe.
    pub(super) fn port_passes(&mut self) {
        if let Route::Conversation { .. } = self.route {
            self.route = Route::Port;
        }
    }

    /// Returns the carrier of the next frame. An acknowledgement alone uses the carrier of the peer's last frame,
    /// except a trunk.
    pub(super) fn way(&self) -> Carrier {
        let own = self.route.way();
        let is_idle = self.channel.as_ref().is_some_and(|channel| channel.is_idle());
        // The bundle moves to the channel only when a frame is made.
        let acknowledges_only = is_idle && self.bundle.is_empty();
        match self.heard_by.filter(|_| acknowledges_only) {
            Some(Carrier::Trunk) | None => own,
            Some(heard_by) => heard_by,
        }
    }

    /// Records that contact with the remote NIC is lost.
    pub(super) fn lose(&mut self, now: u64) {
        (self.is_met, self.lost_at) = (false, Some(now));
    }

    /// Returns the time when contact was lost, in nanoseconds.
    pub(super) fn lost_at(&self) -> Option<u64> {
        self.lost_at
    }

    /// Returns the time when the peer is given up if contact is not made before. Never gives up a peer while nothing
    /// waits to be sent: as on TCP, a program that only waits does so for ever.
    fn given_up_at(&self) -> Option<u64> {
        let waits = self.channel.as_ref().is_some_and(|channel| !channel.is_idle());
        self.lost_at.filter(|_| waits || !self.untold.is_empty()).map(|at| at + PATIENCE_NS)
    }

    /// Returns true if data for the peer has waited too long.
    pub(super) fn is_given_up(&self, now: u64) -> bool {
        self.given_up_at().is_some_and(|at| at <= now)
    }

    /// Returns when the next timer is due, in nanoseconds of the monotonic clock.
    pub(super) fn deadline(&self) -> Option<u64> {
        let channel = self.channel.as_deref()?;
        if !self.is_met {
            return self.given_up_at();
        }
        let timer = channel.poll_timeout().map(Time::nanos);
        timer.into_iter().chain(self.route.probe_deadline()).min()
    }

    /// Runs the channel's timers that are due.
    pub(super) fn look_at_timers(&mut self, now: u64) {
        let Some(channel) = self.channel.as_deref_mut().filter(|_| self.is_met) else { return };
        if channel.poll_timeout().is_some_and(|at| at.nanos() <= now) {
            channel.handle_timeout(Time::from_nanos(now));
            self.is_due = true;
        }
    }

    /// Passes received frames to the channel. Each has `segment` bytes, except the last, which may be shorter.
    pub(super) fn handle_frames(&mut self, now: Time, by: Carrier, bytes: &[u8], segment: usize) {
        if let Some(channel) = &mut self.channel {
            self.is_due = true;
            let before = channel.first_part();
            let is_its = |it: Counters| it.frames - it.malformed - it.stale;
            let of_its = is_its(channel.counters());
            channel.handle_frames(now, bytes, segment);
            if is_its(channel.counters()) != of_its {
                // Ignore frames of other stations: they do not show which carrier the peer uses.
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
    fn lost_peer_is_given_up_when_messages_have_waited_as_long_as_on_tcp() {
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
        // A frame that the peer has not sent, by another carrier.
        let stranger = vec![0; frame.len()];
        a.handle_frames(now, Carrier::Port, &stranger, stranger.len());
        assert_eq!(a.way(), Carrier::Conversation);
        // A message of its own makes `a` use its own route, even while the message is still in the bundle.
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

    /// docs/reference/hosts.md gives this size.
    #[test]
    fn peer_that_is_not_there_takes_little_memory() {
        let bytes = size_of::<Peer>() + size_of::<crate::hosts::Known>();
        println!("a peer takes {bytes} bytes, its channel {}", size_of::<Channel>());
        assert!(bytes <= 768, "{bytes}");
        assert!(size_of::<Channel>() <= 4096, "{}", size_of::<Channel>());
        let peer = Peer::default();
        // The collections have allocated no memory yet.
        assert_eq!(peer.requests.capacity() + peer.joined.capacity(), 0);
        assert!(peer.channel.is_none());
    }
}
