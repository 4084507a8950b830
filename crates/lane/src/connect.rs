//! The thread that requests one connection to a peer. It ends when the request has succeeded or failed.

use crate::counters::count_all;
use crate::device::Device;
use crate::event::Event;
use crate::link::{DISCRIMINATOR, Link, MakeError, Sender, next_id};
use crate::shared::{Shared, lock};
use std::sync::Arc;
use via::error::ConnectError;
use via::{NetAddress, Nic, Vi};

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error(transparent)]
    Make(#[from] MakeError),
    #[error("no lane is up at the peer")]
    NoLane,
    #[error("the peer's lane has another MTU")]
    Mtu,
    #[error("the peer's lane does not have this lane as a peer")]
    Unknown,
    #[error(transparent)]
    Connect(ConnectError),
    #[error("cannot start a thread")]
    Thread,
}

/// Starts the thread that connects to the peer with index `at`.
pub(crate) fn begin<N: Nic + 'static, D: Device>(shared: &Arc<Shared<N, D>>, at: usize) {
    let own = shared.clone();
    let work = move || match connect(&own, at) {
        Ok(link) => connected(&own, &link),
        Err(why) => failed(&own, at, &why),
    };
    if std::thread::Builder::new().name("lane-connect".into()).spawn(work).is_err() {
        failed(shared, at, &Why::Thread);
    }
}

fn connect<N: Nic + 'static, D: Device>(
    shared: &Shared<N, D>,
    at: usize,
) -> Result<Arc<Sender<N>>, Why> {
    let id = next_id(&shared.last_id);
    let link = Arc::new(Sender::new(&shared.nic, &shared.cq, id, at, shared.mtu)?);
    // Add the sender first: the peer's counts may arrive before the request returns.
    shared.add(id, Link::Sender(link.clone()));
    let local = NetAddress::new(&shared.nic.attributes().local_address, DISCRIMINATOR);
    let asked = link.vi.connect_request(&local, &shared.peers[at].address, None);
    asked.map(|_| link).map_err(|why| {
        shared.remove(id);
        match why {
            ConnectError::NoMatch => Why::NoLane,
            ConnectError::MaxTransferSize => Why::Mtu,
            ConnectError::Rejected => Why::Unknown,
            other => Why::Connect(other),
        }
    })
}

fn connected<N: Nic + 'static, D: Device>(shared: &Shared<N, D>, link: &Arc<Sender<N>>) {
    let peer = &shared.peers[link.peer];
    lock(&peer.way).connected(link.clone());
    *lock(&peer.absence) = None;
    shared.tell(Event::There(peer.name.clone()));
    // The link may have broken before it was stored as the peer's link. The earlier call of `lost` then left the
    // peer's state unchanged.
    if shared.find(link.id).is_none() {
        return shared.lost(link);
    }
    shared.send_waiting(link.peer);
}

fn failed<N: Nic + 'static, D: Device>(shared: &Shared<N, D>, at: usize, why: &Why) {
    let dropped = lock(&shared.peers[at].way).not_connected();
    count_all(&shared.counts.unreachable, dropped);
    shared.absent(at, why.to_string());
}
