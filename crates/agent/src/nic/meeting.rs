//! Agents of other hosts, as they come and go.

use super::{Nic, channel_config};
use crate::hosts::Event;
use sovia_link::{Channel, Time};

impl Nic {
    /// Does what there is to do about other agents.
    pub(super) fn meet(&mut self, now: u64) {
        let Some(hosts) = &mut self.hosts else { return };
        let at = Time::from_nanos(now);
        for (peer, event) in hosts.step(now) {
            match event {
                Event::Met(agreed) => {
                    let [own, other] = agreed.epochs;
                    let config = channel_config(agreed.frame_max, self.control);
                    self.peers[peer].frame_max = agreed.frame_max;
                    let channel = Channel::between(config, agreed.channel, own, other);
                    self.begin_with(peer, Some(channel));
                }
                Event::Frame(frame) => self.peers[peer].handle_frame(at, &frame),
                Event::Room => self.peers[peer].is_due = true,
                Event::Lost => self.begin_with(peer, None),
            }
        }
    }
}
