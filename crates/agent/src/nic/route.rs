//! Which way frames go to another host: by a trunk between NICs that both agents have, by UDP, or, where that does not pass, in the
//! agents' conversation.
//!
//! A firewall may let TCP pass and not UDP, a path may take short frames only, and either may begin at any time. What has been sent
//! again several times in vain goes by the conversation from then on, which TCP carries, so a connection goes on wherever
//! TCP would have. A probe of the longest frame's length is sent by UDP now and then; when the far NIC has answered one, frames
//! go by UDP again. A trunk on which nothing is acknowledged is left in the same way, until the far NIC has answered on it. Each NIC decides that for what it sends
//! and the far one acknowledges. Acknowledgements alone, which nothing acknowledges, go by the way by which the far NIC's frames come: of a way that
//! passes in one direction only that NIC hears nothing, and leaves it.

use super::Nic;
use crate::hosts::PeerId;
use crate::port::Sent;
use sovia_link::Time;
use sovia_sys::clock;

/// A frame that has been sent again so often in a row, with waits that double from a millisecond on, does not pass.
const TRIES: u32 = 5;
/// Until the first probe but one, and between two at most (nanoseconds).
const PROBE_NS: u64 = 250_000_000;
const PROBES_NS: u64 = 60_000_000_000;

/// What a frame goes or comes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Port,
    Trunk,
    Conversation,
}

/// Which way frames go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Route {
    /// By the port.
    #[default]
    Port,
    /// By a trunk.
    Trunk,
    /// In the agents' conversation.
    Conversation {
        /// When the port is probed next, and how long to wait then.
        probe_at: u64,
        wait: u64,
    },
}

impl Route {
    /// In the conversation, with a first probe of the port at once.
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

    /// When the port is probed next (nanoseconds).
    pub(super) fn probe_deadline(&self) -> Option<u64> {
        match self {
            Route::Conversation { probe_at, .. } => Some(*probe_at),
            Route::Trunk | Route::Port => None,
        }
    }
}

impl Nic {
    /// Looks whether frames pass to a peer, once timers have gone off.
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

    /// Frames go by another way than the trunk until the peer has answered there: this NIC's own are not acknowledged, or the peer has left the
    /// trunk. A NIC that has nothing to send but acknowledgements, which nothing acknowledges, would not find out by itself.
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
        // The port has no mind of its own: it does not hear of what does not pass.
        let _ = self.port.transmit(number, &mut |room| {
            let room = room.get_mut(..len).filter(|_| core::mem::take(&mut left))?;
            channel.probe_into(now, room).then_some(len)
        });
    }

    /// Sends what the channel to a peer has to send in the conversation.
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
