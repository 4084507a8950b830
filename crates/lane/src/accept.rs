//! The threads that wait for peers which have packets for this end.

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

/// Accepts a peer's request. What the requester says of itself decides no more than whose source addresses its packets may
/// have: packets are sent to the places of the configuration alone.
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
    // Packets may come before the acceptance returns.
    shared.add(id, Link::Receiver(receiver.clone()));
    if let Err(refused) = request.accept(&receiver.vi) {
        shared.remove(id);
        count(&shared.counts.strangers);
        return shared.absent(at, format!("the peer's request does not fit: {refused}"));
    }
    receiver.begin();
    // A peer requests anew when it has been started again; the older connection is of no more use to it. Another thread may
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
