//! Chooses what carries the frames to another host: a trunk, UDP, or the TCP connection between the agents (the
//! *conversation*).
//!
//! A firewall may block UDP but not TCP. A path may carry only short frames. Both can change at any time. When frames
//! have been sent again several times in vain, frames use the conversation. So a connection continues wherever TCP
//! would. Now and then, the NIC sends a probe of the maximum frame length by UDP. When the remote NIC has answered a
//! probe, frames use UDP again. In the same way, the NIC leaves a trunk without acknowledgements until the remote NIC
//! answers on the trunk.
//!
//! Each NIC decides for the frames that it sends. An acknowledgement alone is not acknowledged itself, so it uses the
//! carrier on which the remote NIC's frames arrive. If a carrier works in one direction only, the remote NIC gets no
//! acknowledgements on it, and leaves the carrier.

use super::Nic;
use crate::hosts::PeerId;
use crate::port::Sent;
use sovia_link::Time;
use sovia_sys::clock;

/// Number of retransmissions in a row after which a carrier counts as blocked. Their delays double from one
/// millisecond on.
const TRIES: u32 = 5;
/// Delay between the first and second probe, and the maximum between two probes, in nanoseconds.
const PROBE_NS: u64 = 250_000_000;
const PROBES_NS: u64 = 60_000_000_000;

/// Carrier of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Port,
    Trunk,
    Conversation,
}

/// Route of the frames to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Route {
    /// By the port.
    #[default]
    Port,
    /// By a trunk.
    Trunk,
    /// In the TCP connection between the agents.
    Conversation {
        /// Time of the next probe of the port, and the delay after it.
        probe_at: u64,
        wait: u64,
    },
}

impl Route {
    /// Returns the route by the agents' TCP connection, with a first probe of the port at once.
    pub(super) fn conversation(now: u64) -> Route {
        Route::Conversation { probe_at: now, wait: PROBE_NS }
    }

    pub(super) fn way(&self) -> Carrier {
        match self {
            Route::Port => Carrier::Port,
            Route::Trunk => Carrier::Trunk,
            Route::Conversation { .. } => Carrier::Conversation,
        }
    }

    /// Returns when the port is probed next, in nanoseconds.
    pub(super) fn probe_deadline(&self) -> Option<u64> {
        match self {
            Route::Conversation { probe_at, .. } => Some(*probe_at),
            Route::Trunk | Route::Port => None,
        }
    }
}

impl Nic {
    /// Changes the route if frames no longer reach a peer. Call this after timers have run.
    pub(super) fn look_for_passage(&mut self, number: PeerId, now: u64) {
        let peer = &mut self.peers[number];
        let is_far = self.hosts.is_some() && peer.is_met;
        let Some(channel) = peer.channel.as_ref().filter(|_| is_far) else { return };
        match peer.route {
            Route::Trunk if channel.tries() >= TRIES => {
                self.doubt_trunk(number, Route::Port);
            }
            Route::Port if channel.tries() >= TRIES => {
                peer.route = Route::conversation(now);
                peer.is_due = true;
                self.probe(number, now);
            }
            Route::Conversation { probe_at, .. } if probe_at <= now => self.probe(number, now),
            _ => {}
        }
    }

    /// Stops using the trunk until the peer has answered on it.
    ///
    /// Called if frames on the trunk are not acknowledged, or if the peer has left the trunk. A NIC that sends only
    /// acknowledgements could not find out by itself that the trunk is blocked.
    pub(super) fn doubt_trunk(&mut self, number: PeerId, route: Route) {
        let peer = &mut self.peers[number];
        if peer.route == Route::Trunk {
            (peer.route, peer.is_due) = (route, true);
            self.ask_by_trunk(number);
        }
    }

    fn probe(&mut self, number: PeerId, now: u64) {
        let peer = &mut self.peers[number];
        let Route::Conversation { wait, .. } = peer.route else { return };
        peer.route = Route::Conversation { probe_at: now + wait, wait: (2 * wait).min(PROBES_NS) };
        let (Some(channel), len) = (&mut peer.channel, peer.frame_max) else { return };
        let mut left = true;
        // Ignore the result: the port does not notice that a probe is lost on the way.
        let _ = self.port.transmit(number, &mut |room| {
            let room = room.get_mut(..len).filter(|_| core::mem::take(&mut left))?;
            channel.probe_into(now, room).then_some(len)
        });
    }

    /// Sends the channel's frames to a peer on the agents' TCP connection.
    pub(super) fn transmit_in_conversation(&mut self, number: PeerId) -> Sent {
        let nothing = Sent { any: false, has_room: true };
        let Some(hosts) = &mut self.hosts else { return nothing };
        let Some(channel) = &mut self.peers[number].channel else { return nothing };
        let now = Time::from_nanos(clock::now_ns());
        let (mut frame, mut any, mut has_room) = (Vec::new(), false, hosts.has_room(number));
        while has_room && channel.poll_transmit(now, &mut frame) {
            any = true;
            hosts.send(number, &frame);
            has_room = hosts.has_room(number);
        }
        hosts.flush(number);
        Sent { any, has_room }
    }
}
