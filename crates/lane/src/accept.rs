//! The threads that accept connections from peers that send packets to this lane.

use crate::counters::count;
use crate::device::Device;
use crate::event::{Event, Failure};
use crate::link::{DISCRIMINATOR, Link, Receiver, next_id};
use crate::shared::{Shared, lock};
use core::sync::atomic::Ordering;
use std::sync::Arc;
use via::error::ConnectError;
use via::{Connection, NetAddress, Nic};

pub(crate) fn run<N: Nic + 'static, D: Device>(shared: &Shared<N, D>) {
    let local = NetAddress::new(&shared.nic.attributes().local_address, DISCRIMINATOR);
    loop {
        match shared.nic.connect_wait(&local, None) {
            Ok(request) => admit(shared, request),
            Err(ConnectError::Timeout) => {}
            Err(why) => return shared.tell(Event::Over(Failure::Waiting(why))),
        }
    }
}

/// Accepts a peer's request. Its address only decides which source addresses the peer's packets may have. Packets to
/// a peer are sent to the address in the configuration.
fn admit<N: Nic + 'static, D: Device>(shared: &Shared<N, D>, request: N::Connection) {
    let from = request.remote_address().clone();
    let found = shared.peers.iter().position(|peer| peer.address.host == from.host);
    let Some(at) = found else {
        count(&shared.counts.strangers);
        request.reject();
        if !shared.stranger_told.swap(true, Ordering::Relaxed) {
            shared.tell(Event::Stranger(from));
        }
        return;
    };
    let id = next_id(&shared.last_id);
    let receiver = match Receiver::new(&shared.nic, &shared.cq, id, at, shared.mtu) {
        Ok(receiver) => Arc::new(receiver),
        Err(why) => return shared.absent(at, why.to_string()),
    };
    // Add the receiver first: packets may arrive before `accept` returns.
    shared.add(id, Link::Receiver(receiver.clone()));
    if let Err(refused) = request.accept(&receiver.vi) {
        shared.remove(id);
        count(&shared.counts.strangers);
        return shared.absent(at, format!("the peer's request does not fit: {refused}"));
    }
    receiver.begin();
    // A restarted peer requests a new connection, so only the newest connection is kept. Another acceptor thread may
    // have accepted a newer one meanwhile.
    let mut current = lock(&shared.peers[at].receiver);
    let older = match *current {
        Some(newer) if newer > id => Some(id),
        _ => current.replace(id),
    };
    drop(current);
    if let Some(older) = older {
        shared.remove(older);
    }
}
