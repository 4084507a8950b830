//! Relays frames between the two devices, with delay and loss.

use crate::device::{Came, Device};
use sovia_simnet::{Event, Link, Net, NodeId, Time};
use sovia_sys::{Result, poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Interval at which the relay polls for frames while some arrive. The kernel's timestamps decide a frame's place
/// in the queue, so the interval does not change it. A due frame is late by at most this interval and the kernel's
/// delay.
const LOOK: Duration = Duration::from_micros(100);
/// Rounds without a frame after which the relay sleeps until one comes.
const QUIET: u32 = 20;
/// Bytes that a frame occupies on a wire beside its own: preamble, check sequence, gap.
const WIRE: u32 = 24;

/// Two devices and the link between them.
#[derive(Debug)]
pub(crate) struct Relay {
    net: Net<Vec<u8>, ()>,
    nodes: [NodeId; 2],
    devices: [Device; 2],
    /// Due frames of each device.
    due: [Vec<Vec<u8>>; 2],
    /// Real time at which the network began.
    began: u64,
    /// Bit to change in the next corrupt frame.
    damage: usize,
}

fn now() -> u64 {
    // The kernel's timestamps of frames use this clock.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

impl Relay {
    pub(crate) fn new(seed: u64, link: Link, devices: [Device; 2]) -> Relay {
        let mut net = Net::new(seed, link);
        let nodes = [net.add_node(), net.add_node()];
        Relay { net, nodes, devices, due: [Vec::new(), Vec::new()], began: now(), damage: 0 }
    }

    /// Moves frames until the standard input ends.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(crate) fn run(&mut self) -> Result<()> {
        let mut quiet = 0;
        loop {
            let came = self.turn()?;
            quiet = if came { 0 } else { quiet + 1 };
            let sleeps_long = quiet >= QUIET;
            let entry = |fd, events| poll::PollFd { fd, events, revents: 0 };
            let frames = if sleeps_long { libc::POLLIN } else { 0 };
            let [one, other] = [0, 1].map(|end| entry(self.devices[end].raw(), frames));
            let mut fds = [entry(0, libc::POLLIN), one, other];
            let next =
                self.net.next_time().map(|at| (self.began + at.nanos()).saturating_sub(now()));
            let look = (!sleeps_long).then_some(LOOK.as_nanos() as u64);
            poll::ppoll(&mut fds, next.into_iter().chain(look).min(), None).ok();
            if fds[0].revents != 0 && sovia_sys::call::read(0, &mut [0; 64]).unwrap_or(0) == 0 {
                return Ok(());
            }
        }
    }

    /// Receives frames and sends due frames. Returns true if a frame arrived.
    fn turn(&mut self) -> Result<bool> {
        let mut all = Vec::new();
        for (end, device) in self.devices.iter_mut().enumerate() {
            let mut came = Vec::new();
            while device.receive(&mut came)? {}
            all.extend(came.into_iter().map(|came| (end, came)));
        }
        all.sort_by_key(|(_, came)| came.at);
        let any = !all.is_empty();
        for (end, Came { at, frame }) in all {
            let at = Time::from_nanos(at.saturating_sub(self.began));
            self.pass(at);
            let bytes = u32::try_from(frame.len()).unwrap_or(u32::MAX) + WIRE;
            self.net.send(self.nodes[end], self.nodes[1 - end], bytes, frame);
        }
        self.pass(Time::from_nanos(now().saturating_sub(self.began)));
        for (device, due) in self.devices.iter_mut().zip(&mut self.due) {
            device.send(due)?;
        }
        Ok(any)
    }

    /// Advances the time. Frames that arrive by then are due.
    fn pass(&mut self, to: Time) {
        while self.net.next_time().is_some_and(|next| next <= to) {
            let Some(Event::Packet(delivery)) = self.net.step() else { continue };
            let mut frame = delivery.payload;
            if delivery.corrupt && !frame.is_empty() {
                self.damage =
                    self.damage.wrapping_mul(31).wrapping_add(frame.len()) % (8 * frame.len());
                frame[self.damage / 8] ^= 1 << (self.damage % 8);
            }
            self.due[usize::from(delivery.to == self.nodes[1])].push(frame);
        }
        self.net.pass(to);
    }

    /// Returns counts of frames, for readers and scripts.
    pub(crate) fn summary(&self) -> String {
        let counters = self.net.counters();
        let sum = |of: fn(&Device) -> u64| self.devices.iter().map(of).sum::<u64>();
        format!(
            "{} frames, {} lost by chance, {} by a full queue, {} twice, {} late, {} corrupt; \
             by the relay itself {} missed, {} too long, {} refused",
            counters.sent,
            counters.lost,
            counters.overflowed,
            counters.duplicated,
            counters.reordered,
            counters.corrupt,
            sum(Device::missed),
            sum(|device| device.too_long),
            sum(|device| device.refused),
        )
    }
}
