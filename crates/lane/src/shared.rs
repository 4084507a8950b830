//! What a lane's threads have in common.

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

/// Where a lane is told about.
pub(crate) type Report = Box<dyn Fn(Event) + Send + Sync>;

pub(crate) struct Shared<N: Nic, D> {
    pub(crate) nic: Arc<N>,
    pub(crate) cq: N::Cq,
    pub(crate) device: D,
    pub(crate) mtu: usize,
    pub(crate) routes: Routes,
    pub(crate) peers: Vec<PeerPlace<N>>,
    /// All ends, also those that are about to be connected.
    pub(crate) links: Mutex<HashMap<LinkId, Link<N>>>,
    pub(crate) last_id: AtomicU64,
    pub(crate) counts: Counts,
    pub(crate) report: Report,
    pub(crate) stranger_told: AtomicBool,
}

/// A peer, and what this end has of it.
pub(crate) struct PeerPlace<N: Nic> {
    /// What people call it.
    pub(crate) name: String,
    /// Where it waits for connections.
    pub(crate) address: NetAddress,
    pub(crate) way: Mutex<Peer<Arc<Sender<N>>>>,
    /// The end by which it sends.
    pub(crate) receiver: Mutex<Option<LinkId>>,
    /// Why it is not there, as last told.
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

    /// Lets go of an end. It is disconnected with its last user.
    pub(crate) fn remove(&self, id: LinkId) {
        // Its memory is given back without the lock.
        let removed = lock(&self.links).remove(&id);
        drop(removed);
    }

    /// Sends packets that wait for a peer, as many as can be sent.
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

    /// The end by which packets were sent to a peer is of no more use.
    pub(crate) fn lost(&self, link: &Arc<Sender<N>>) {
        let peer = &self.peers[link.peer];
        let broken = lock(&peer.way).broken(link);
        self.remove(link.id);
        let Some(dropped) = broken else { return };
        count_all(&self.counts.unreachable, dropped);
        self.tell(Event::Gone { peer: peer.name.clone(), why: link.why() });
    }

    /// Why no connection has come about is told once, until one has.
    pub(crate) fn absent(&self, at: usize, why: String) {
        let peer = &self.peers[at];
        let known = lock(&peer.absence).replace(why.clone());
        if known.as_ref() != Some(&why) {
            self.tell(Event::NotThere { peer: peer.name.clone(), why });
        }
    }
}
