//! The thread that takes packets from the device and sends them. It never waits for a peer.

use crate::connect;
use crate::counters::count;
use crate::device::Device;
use crate::event::{Event, Failure};
use crate::link::Sent;
use crate::packet::{addresses, is_for_many};
use crate::peer::Step;
use crate::shared::{Shared, lock};
use sovia_sys::Errno;
use std::sync::Arc;
use via::Nic;

/// Length in bytes of the longest possible packet.
const PACKET_MAX: usize = 1 << 16;

pub(crate) fn run<N: Nic + 'static, D: Device>(shared: &Arc<Shared<N, D>>) {
    let mut buffer = vec![0; PACKET_MAX];
    loop {
        match shared.device.receive(&mut buffer) {
            Ok(len) => packet(shared, &buffer[..len]),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(errno) => return shared.tell(Event::Over(Failure::Device(errno))),
        }
    }
}

fn packet<N: Nic + 'static, D: Device>(shared: &Arc<Shared<N, D>>, packet: &[u8]) {
    let counts = &shared.counts;
    let Ok(addresses) = addresses(packet) else { return count(&counts.odd) };
    if packet.len() > shared.mtu {
        return count(&counts.odd);
    }
    if is_for_many(addresses.destination) {
        return count(&counts.for_many);
    }
    let Some(at) = shared.routes.find(addresses.destination) else {
        return count(&counts.no_peer);
    };
    // Hold the peer's lock while the packet is sent, to keep the packets in order.
    let mut way = lock(&shared.peers[at].way);
    let mut step = way.packet(packet);
    if let Step::Send(link) = &step {
        match link.send(packet) {
            Sent::Yes => return count(&counts.sent),
            Sent::NotYet => step = way.wait(packet),
            Sent::Full => step = Step::Drop,
            Sent::Broken => {
                let link = link.clone();
                drop(way);
                shared.lost(&link);
                way = lock(&shared.peers[at].way);
                step = way.packet(packet);
            }
        }
    }
    drop(way);
    match step {
        Step::Wait => {}
        Step::Drop => count(&counts.no_room),
        Step::Connect => connect::begin(shared, at),
        // Another thread has connected meanwhile. This one packet is dropped.
        Step::Send(_) => count(&counts.unreachable),
    }
}
