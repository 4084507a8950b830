//! Agents of other hosts, as they come and go.

use super::route::Route;
use super::{HOSTS, Nic, channel, channel_config};
use crate::hosts::{Event, Hosts};
use sovia_link::{Channel, Time};
use sovia_sys::poll;

impl Nic {
    /// Does what there is to do about the other agent.
    pub(super) fn meet(&mut self, now: u64) {
        let Some(hosts) = &mut self.hosts else { return };
        let event = hosts.step(now);
        for (fd, writes) in hosts.descriptors() {
            let events = libc::EPOLLIN | libc::EPOLLET | if writes { libc::EPOLLOUT } else { 0 };
            // Those that are watched already are refused; a descriptor that is closed is forgotten by itself.
            let _ =
                poll::epoll_ctl(self.epoll.raw(), libc::EPOLL_CTL_ADD, fd, events as u32, HOSTS);
        }
        match event {
            Some(Event::Met(agreed)) => {
                let [own, peer] = agreed.epochs;
                let config = channel_config(agreed.frame_max, self.control);
                (self.is_met, self.frame_max) = (true, agreed.frame_max);
                self.route = Route::Port;
                self.begin_with(Channel::between(config, agreed.channel, own, peer));
            }
            Some(Event::Lost) => {
                self.is_met = false;
                // Nothing is said by it.
                if let Ok(channel) = channel(self.port.frame_max(), self.control) {
                    self.begin_with(channel);
                }
            }
            None => {}
        }
        let (frames, at) = (self.hosts.as_mut().map(Hosts::take_frames), Time::from_nanos(now));
        for frame in frames.unwrap_or_default() {
            // A frame that is none is lost.
            let _ = self.channel.handle_frame(at, &frame);
        }
    }
}
