//! Which way frames go to another host: by UDP, or, where that does not pass, in the agents' conversation.
//!
//! A firewall may let TCP pass and not UDP, a path may take short frames only, and either may begin at any time. What has been sent
//! again several times in vain goes by the conversation from then on, which TCP carries, so a connection goes on wherever
//! TCP would have. A probe of the longest frame's length is sent by UDP now and then; when the far NIC has answered one, frames
//! go by UDP again. Each NIC decides that for what it sends.

use super::Nic;
use crate::hosts::Hosts;
use crate::port::Sent;
use sovia_link::Time;
use sovia_sys::clock;

/// A frame that has been sent again so often in a row, with waits that double from a millisecond on, does not pass.
const TRIES: u32 = 5;
/// Until the first probe but one, and between two at most (nanoseconds).
const PROBE_NS: u64 = 250_000_000;
const PROBES_NS: u64 = 60_000_000_000;

/// Which way frames go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// By the port.
    Port,
    /// In the agents' conversation.
    Conversation {
        /// When the port is probed next, and how long to wait then.
        probe_at: u64,
        wait: u64,
    },
}

impl Nic {
    /// When the port is probed next (nanoseconds).
    pub(super) fn probe_deadline(&self) -> Option<u64> {
        match self.route {
            Route::Conversation { probe_at, .. } if self.is_met => Some(probe_at),
            _ => None,
        }
    }

    /// Looks whether frames pass, once timers have gone off.
    pub(super) fn look_for_passage(&mut self, now: u64) {
        if !self.is_met || self.hosts.is_none() {
            return;
        }
        match self.route {
            Route::Port if self.channel.tries() >= TRIES => {
                self.route = Route::Conversation { probe_at: now, wait: PROBE_NS };
                self.probe(now);
            }
            Route::Conversation { probe_at, .. } if probe_at <= now => self.probe(now),
            _ => {}
        }
    }

    fn probe(&mut self, now: u64) {
        let Route::Conversation { wait, .. } = self.route else { return };
        self.route = Route::Conversation { probe_at: now + wait, wait: (2 * wait).min(PROBES_NS) };
        let (channel, len) = (&mut self.channel, self.frame_max);
        let mut left = true;
        // The port has no mind of its own: it does not hear of what does not pass.
        let _ = self.port.transmit(&mut |room| {
            let room = room.get_mut(..len).filter(|_| core::mem::take(&mut left))?;
            channel.probe_into(now, room).then_some(len)
        });
    }

    /// A probe has come whole: frames go by the port again.
    pub(super) fn passed(&mut self) {
        self.route = Route::Port;
    }

    /// Sends what the channel has to send in the conversation.
    pub(super) fn transmit_in_conversation(&mut self) -> Sent {
        let Some(hosts) = &mut self.hosts else { return Sent { any: false, has_room: true } };
        let now = Time::from_nanos(clock::now_ns());
        let mut frame = Vec::new();
        let mut any = false;
        while Hosts::has_room(hosts) && self.channel.poll_transmit(now, &mut frame) {
            any = true;
            hosts.send(&frame);
        }
        hosts.flush();
        Sent { any, has_room: true }
    }
}
