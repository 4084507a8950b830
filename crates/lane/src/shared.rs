//! Data that all threads of a lane share.

use crate::counters::{Counts, count, count_all};
use crate::device::Device;
use crate::event::Event;
use crate::link::{Link, LinkId, Sender, Sent};
use crate::peer::Peer;
use crate::routes::Routes;
use core::sync::atomic::{AtomicBool, AtomicU64};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use via::{NetAddress, Nic};

/// Callback that receives a lane's events.
pub(crate) type Report = Box<dyn Fn(Event) + Send + Sync>;

pub(crate) struct Shared<N: Nic, D> {
    pub(crate) nic: Arc<N>,
    pub(crate) cq: N::Cq,
    pub(crate) device: D,
    pub(crate) mtu: usize,
    pub(crate) routes: Routes,
    pub(crate) peers: Vec<PeerPlace<N>>,
    /// All links, including those that are being connected.
    pub(crate) links: Mutex<HashMap<LinkId, Link<N>>>,
    pub(crate) last_id: AtomicU64,
    pub(crate) counts: Counts,
    pub(crate) report: Report,
    pub(crate) stranger_told: AtomicBool,
}

/// A peer, with its connections in both directions.
pub(crate) struct PeerPlace<N: Nic> {
    /// Name of the peer in messages for users.
    pub(crate) name: String,
    /// Address to which this lane requests connections.
    pub(crate) address: NetAddress,
    pub(crate) way: Mutex<Peer<Arc<Sender<N>>>>,
    /// Link by which the peer sends to this lane.
    pub(crate) receiver: Mutex<Option<LinkId>>,
    /// Reason last reported for a failed connection.
    pub(crate) absence: Mutex<Option<String>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<N: Nic + 'static, D: Device> Shared<N, D> {
    pub(crate) fn tell(&self, event: Event) {
        (self.report)(event);
    }

    pub(crate) fn add(&self, id: LinkId, link: Link<N>) {
        lock(&self.links).insert(id, link);
    }

    pub(crate) fn find(&self, id: LinkId) -> Option<Link<N>> {
        lock(&self.links).get(&id).cloned()
    }

    /// Removes a link. Its VI is disconnected when the last user drops the link.
    pub(crate) fn remove(&self, id: LinkId) {
        // Free the link's memory after the lock is released.
        let removed = lock(&self.links).remove(&id);
        drop(removed);
    }

    /// Sends as many packets that wait for a peer as its credit allows.
    pub(crate) fn send_waiting(&self, at: usize) {
        let mut way = lock(&self.peers[at].way);
        while let Some((link, packet)) = way.next() {
            match link.send(packet) {
                Sent::Yes => count(&self.counts.sent),
                Sent::NotYet => return,
                Sent::Full => count(&self.counts.no_room),
                Sent::Broken => {
                    drop(way);
                    return self.lost(&link);
                }
            }
            way.done_with_next();
        }
    }

    /// Removes a broken link and drops the packets that wait for it.
    pub(crate) fn lost(&self, link: &Arc<Sender<N>>) {
        let peer = &self.peers[link.peer];
        let broken = lock(&peer.way).broken(link);
        self.remove(link.id);
        let Some(dropped) = broken else { return };
        count_all(&self.counts.unreachable, dropped);
        self.tell(Event::Gone { peer: peer.name.clone(), why: link.why() });
    }

    /// Reports why a connection could not be made. Reports the same reason only once until a connection is made.
    pub(crate) fn absent(&self, at: usize, why: String) {
        let peer = &self.peers[at];
        let known = lock(&peer.absence).replace(why.clone());
        if known.as_ref() != Some(&why) {
            self.tell(Event::NotThere { peer: peer.name.clone(), why });
        }
    }
}
