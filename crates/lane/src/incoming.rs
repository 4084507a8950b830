//! The thread that takes completions: packets and counts from peers.

use crate::counters::count;
use crate::device::Device;
use crate::link::{Heard, Link, Received, Receiver};
use crate::packet::addresses;
use crate::shared::{Shared, lock};
use via::{CompletionQueue, Nic};

pub(crate) fn run<N: Nic + 'static, D: Device>(shared: &Shared<N, D>) {
    let mut buffer = vec![0; shared.mtu];
    loop {
        let Ok(entry) = shared.cq.wait(None) else { continue };
        match shared.find(entry.context) {
            // Completion of a link that has been removed.
            None => {}
            Some(Link::Sender(sender)) => match sender.hear() {
                Heard::Receives => shared.send_waiting(sender.peer),
                Heard::Nothing => {}
                Heard::Broken => shared.lost(&sender),
            },
            Some(Link::Receiver(receiver)) => match receiver.receive(shared.mtu, &mut buffer) {
                Received::Message(len) => packet(shared, receiver.peer, &buffer[..len]),
                Received::Nothing => {}
                Received::Broken => ended(shared, &receiver),
            },
        }
    }
}

/// Passes a message to the device if it is a packet from this peer.
fn packet<N: Nic, D: Device>(shared: &Shared<N, D>, from: usize, packet: &[u8]) {
    let counts = &shared.counts;
    let Ok(addresses) = addresses(packet) else { return count(&counts.malformed) };
    if shared.routes.find(addresses.source) != Some(from) {
        return count(&counts.foreign);
    }
    match shared.device.send(packet) {
        Ok(()) => count(&counts.received),
        Err(_) => count(&counts.refused),
    }
}

/// Removes a receiver whose connection has ended.
fn ended<N: Nic + 'static, D: Device>(shared: &Shared<N, D>, receiver: &Receiver<N>) {
    let mut current = lock(&shared.peers[receiver.peer].receiver);
    if *current == Some(receiver.id) {
        *current = None;
    }
    drop(current);
    shared.remove(receiver.id);
}
