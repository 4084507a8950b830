//! The station of an endpoint, and the transfers with peers on other hosts.

mod looks;

use super::bulk::Bulk;
use super::room::{Copied, Held, Mark, Room, Rooms};
use super::session::Session;
use super::{EAGER, FIRST_BULK, PROBE, PROBED, PROBES, RECEIVES, SENDS, config};
use crate::error::Error;
use crate::memory::Buffer;
use crate::shm::{Head, Load};
use crate::slab::Slab;
use crate::wire::BYE;
use core::time::Duration;
use emp_eth::{Handle, Mode, Node, Station, Whereabouts};
use std::collections::VecDeque;
use std::sync::Arc;

/// The part of an endpoint that talks to other hosts.
#[derive(Debug)]
pub(crate) struct Far {
    /// Field order matters: the station is dropped before `rooms`, so the NIC no longer uses the rooms.
    station: Station,
    place: Whereabouts,
    session: u32,
    is_driven: bool,
    /// Number of transfers whose end this end has seen, modulo 2^32.
    found: u32,
    rooms: Arc<Rooms>,
    receives: VecDeque<(Handle, Room)>,
    sends: VecDeque<Sent>,
    spare: Vec<Room>,
    probed: Vec<Handle>,
    peers: Vec<Peer>,
    bulks: Slab<Bulk>,
    /// Long messages under way, and the descriptors that they use: for receives, for sends.
    bulk_ids: Vec<u64>,
    used: [usize; 2],
    next_tag: u32,
    news: VecDeque<News>,
    /// Number of looks so far, and a mask: the NIC is driven only at looks whose number has none of its bits.
    looks: u32,
    pause: u32,
}

/// A message that is being sent.
#[derive(Debug)]
struct Sent {
    handle: Handle,
    node: Node,
    room: Room,
}

/// State of a node.
#[derive(Debug, Default)]
struct Peer {
    session: Session<Copied>,
    /// Number of the next message to the node.
    next: u32,
    /// Number of messages under way to the node.
    under_way: usize,
    /// The endpoint's number for the node, once the node has sent its address.
    peer: Option<u32>,
    probe: Option<Handle>,
    probed_at: u64,
    /// Set when this end has sent BYE to the node.
    is_left: bool,
    /// Set when the node has sent BYE.
    has_left: bool,
    /// Number of HELLO messages from the node that the endpoint has not handled yet.
    greetings: u32,
}

/// An event for the endpoint.
#[derive(Debug)]
pub(crate) enum News {
    /// The next message of a node.
    Message(Node, Held),
    /// The next message of a node, copied because it had arrived early and its room is in use again.
    Kept(Node, Copied),
    /// The node does not answer, or has sent invalid data.
    Lost(Node, Error),
    /// Receives are posted for a long message: node, operation, tag, and the end of the posted bytes.
    Posted(Node, u64, u32, usize),
    /// The NIC no longer uses the memory of the operation's long message.
    Ended(u64, Result<(), Error>),
}

/// Largest value of [`Far::pause`]. When events stay away, up to this number of looks do not drive the NIC.
const PAUSE_MAX: u32 = 63;
/// Upper limit of messages under way to one peer.
const SHARE: usize = 64;
/// Nanoseconds between two probes of a peer.
const PROBE_NS: u64 = 1_000_000_000;

impl Far {
    /// Opens the station that the environment describes; `None` if the environment asks for none. A peer needs `secret`
    /// to reach the station.
    ///
    /// # Errors
    /// Returns [`Error::INVALID`] if the environment is invalid, or the station cannot open its port.
    pub(crate) fn open(
        secret: u64,
        session: u32,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Far>, Error> {
        let Some(config) = config::config(secret, variable)? else {
            return Ok(None);
        };
        let station = Station::open(&config).map_err(|_| Error::INVALID)?;
        let (rooms, mut spare) = Rooms::new((RECEIVES + SENDS) as u16);
        let mut receives = VecDeque::with_capacity(RECEIVES);
        for room in spare.drain(..RECEIVES) {
            // SAFETY: the NIC owns the room until the receive has ended or the station is dropped. The station is
            // dropped before the rooms.
            let posted = unsafe { station.post_receive(None, Some(EAGER), &[rooms.whole(&room)]) };
            receives.push_back((posted.map_err(|_| Error::NO_MEMORY)?, room));
        }
        let mut probed = Vec::with_capacity(PROBED);
        for _ in 0..PROBED {
            // SAFETY: the receive has no pieces, so the NIC accesses no memory.
            let posted = unsafe { station.post_receive(None, Some(PROBE), &[]) };
            probed.push(posted.map_err(|_| Error::NO_MEMORY)?);
        }
        Ok(Some(Far {
            place: Whereabouts::from(&station.address()),
            station,
            session,
            is_driven: config.mode == Mode::Calls,
            found: 0,
            rooms,
            receives,
            sends: VecDeque::with_capacity(SENDS),
            spare,
            probed,
            peers: Vec::new(),
            bulks: Slab::default(),
            bulk_ids: Vec::new(),
            used: [0, 0],
            next_tag: FIRST_BULK,
            news: VecDeque::new(),
            looks: 0,
            pause: 0,
        }))
    }

    /// Returns the station's address.
    pub(crate) fn place(&self) -> Whereabouts {
        self.place
    }

    /// Returns true if it is time to look for events. Cheap enough to call at each look for messages. `is_near`: peers
    /// on this host exist, and driving the NIC would delay their messages.
    #[inline(always)]
    pub(crate) fn is_due(&mut self, is_near: bool) -> bool {
        self.looks = self.looks.wrapping_add(1);
        let pause = if is_near { self.pause } else { 0 };
        let is_turn = self.is_driven && self.looks & pause == 0 && !self.peers.is_empty();
        is_turn || self.station.ended() != self.found || !self.news.is_empty()
    }

    /// Returns the node at a place with a secret, and adds the node if it is new.
    pub(crate) fn node(&mut self, place: Whereabouts, secret: u64) -> Result<Node, Error> {
        let node = self.station.add_peer(&place.into(), secret);
        let node = node.map_err(|_| Error::NO_MEMORY)?;
        self.peer(node);
        Ok(node)
    }

    /// Returns the place of a node.
    pub(crate) fn place_of(&self, node: Node) -> Option<Whereabouts> {
        Some(Whereabouts::from(&self.station.address_of(node)?))
    }

    fn peer(&mut self, node: Node) -> &mut Peer {
        let at = usize::from(node);
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, Peer::default);
        }
        &mut self.peers[at]
    }

    /// Returns the endpoint's number for a node that has sent its address.
    #[inline]
    pub(crate) fn peer_of(&self, node: Node) -> Option<u32> {
        self.peers.get(usize::from(node))?.peer
    }

    /// Sets the endpoint's number for a node that has sent its address.
    pub(crate) fn bind(&mut self, node: Node, peer: Option<u32>) {
        self.peer(node).peer = peer;
    }

    /// Records that the endpoint has handled a node's HELLO.
    pub(crate) fn greeted(&mut self, node: Node) {
        let greetings = &mut self.peer(node).greetings;
        *greetings = greetings.saturating_sub(1);
    }

    /// Restarts the numbers of the messages to a node. A new process there must first receive this end's HELLO.
    pub(crate) fn begin(&mut self, node: Node) {
        let peer = self.peer(node);
        (peer.next, peer.is_left) = (0, false);
    }

    /// Sends a message to a node. Returns false if no room or descriptor is free now.
    pub(crate) fn send(&mut self, node: Node, head: Head, load: Load<'_>) -> Result<bool, Error> {
        // Each peer has a share, so that a peer that receives nothing cannot use up all rooms.
        let share = (SENDS / self.peers.len().max(1)).clamp(1, SHARE);
        let peer = self.peers.get(usize::from(node)).ok_or(Error::INVALID)?;
        if peer.under_way >= share || self.spare.is_empty() {
            self.poll();
            let peer = &self.peers[usize::from(node)];
            if peer.under_way >= share {
                return Ok(false);
            }
        }
        let Some(mut room) = self.spare.pop() else { return Ok(false) };
        let mark = Mark { session: self.session, number: self.peers[usize::from(node)].next };
        let piece = self.rooms.fill(&mut room, head, mark, load);
        // SAFETY: the NIC owns the room until the send has ended or the station is dropped. The station is dropped
        // before the rooms.
        let posted = unsafe { self.station.post_send(node, EAGER, &[piece]) };
        let Ok(handle) = posted else {
            self.spare.push(room);
            return Ok(false);
        };
        self.sends.push_back(Sent { handle, node, room });
        let peer = &mut self.peers[usize::from(node)];
        peer.next = peer.next.wrapping_add(1);
        peer.under_way += 1;
        self.pause = 0;
        Ok(true)
    }

    /// Sends BYE to a node, once. Returns false if no room is free now. `abruptly`: the node need not wait for earlier
    /// messages, which may be lost.
    pub(crate) fn leave(&mut self, node: Node, abruptly: bool) -> bool {
        if self.peer(node).is_left {
            return true;
        }
        let head = Head { kind: BYE, data: abruptly.into(), ..Head::default() };
        let sent = self.send(node, head, Load { words: &[], buffer: None }) != Ok(false);
        self.peer(node).is_left |= sent;
        sent
    }

    /// Returns the next event.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Returns a message's room to the receives.
    #[inline]
    pub(crate) fn give_back(&mut self, held: Held) {
        self.receive_into(held.into_room());
    }

    fn receive_into(&mut self, room: Room) {
        let piece = self.rooms.whole(&room);
        // SAFETY: the NIC owns the room until the receive has ended or the station is dropped. The station is dropped
        // before the rooms.
        match unsafe { self.station.post_receive(None, Some(EAGER), &[piece]) } {
            Ok(handle) => self.receives.push_back((handle, room)),
            // The division of the descriptors leaves one for each room.
            Err(error) => debug_assert!(false, "{error:?}"),
        }
    }

    /// Drives the NIC if calls drive it, and checks which transfers have ended.
    pub(crate) fn poll(&mut self) {
        self.station.progress();
        let missing = |far: &Far| far.station.ended().wrapping_sub(far.found) as i32 > 0;
        if !missing(self) {
            let is_busy = !self.sends.is_empty() || !self.bulk_ids.is_empty();
            self.pause = if is_busy { 0 } else { (self.pause << 1 | 1).min(PAUSE_MAX) };
            return;
        }
        self.pause = 0;
        self.look_at_first();
        if missing(self) {
            self.look_at_receives();
        }
        if missing(self) {
            self.look_at_sends();
        }
        if missing(self) {
            self.look_at_bulks();
        }
        if missing(self) {
            self.look_at_probes();
        }
    }

    /// Probes peers that have no messages under way, to find out whether they are alive.
    pub(crate) fn probe(&mut self, now: u64) {
        let mut probes = self.peers.iter().filter(|peer| peer.probe.is_some()).count();
        for (node, peer) in self.peers.iter_mut().enumerate() {
            let is_due = peer.peer.is_some()
                && peer.probe.is_none()
                && peer.under_way == 0
                && now.saturating_sub(peer.probed_at) >= PROBE_NS;
            if is_due && probes < PROBES {
                // SAFETY: the send has no pieces, so the NIC accesses no memory.
                let posted = unsafe { self.station.post_send(node as Node, PROBE, &[]) };
                (peer.probe, peer.probed_at) = (posted.ok(), now);
                probes += 1;
            }
        }
    }

    /// Starts to receive a long message from a node, for `operation`. [`News::Posted`] reports when the peer may send.
    pub(crate) fn receive(
        &mut self,
        node: Node,
        operation: u64,
        buffer: &Buffer,
        len: usize,
    ) -> u64 {
        let tag = self.next_tag;
        self.next_tag = tag.checked_add(1).unwrap_or(FIRST_BULK);
        self.add(Bulk::new((node, tag), operation, false, buffer, len))
    }

    /// Starts to send a long message to a node, with the tag that the receiver chose. Sends only bytes for which the
    /// receiver has posted receives.
    pub(crate) fn transmit(
        &mut self,
        (node, tag): (Node, u32),
        operation: u64,
        buffer: &Buffer,
        len: usize,
    ) -> u64 {
        self.add(Bulk::new((node, tag), operation, true, buffer, len))
    }

    fn add(&mut self, bulk: Bulk) -> u64 {
        let id = self.bulks.insert(bulk);
        self.bulk_ids.push(id);
        self.look_at_bulks();
        id
    }

    /// Records the peer's report that receives are posted up to byte `upto` of a long message.
    ///
    /// # Errors
    /// Returns [`Error::CORRUPT`] if the report is invalid.
    pub(crate) fn allow(&mut self, id: u64, tag: u32, upto: u64) -> Result<(), Error> {
        let bulk = self.bulks.get_mut(id).filter(|bulk| bulk.sends && bulk.tag == tag);
        bulk.ok_or(Error::CORRUPT)?.allow(upto)?;
        self.look_at_bulks();
        self.pause = 0;
        Ok(())
    }

    /// Converts a tag of long messages; `None` if `tag` is another tag.
    pub(crate) fn bulk_tag(tag: u64) -> Option<u32> {
        u32::try_from(tag).ok().filter(|tag| *tag >= FIRST_BULK)
    }

    /// Ends all transfers with a node. `is_there`: a new process is at the node's address, and transfers with it may be
    /// under way.
    pub(crate) fn lose(&mut self, node: Node, error: Error, is_there: bool) {
        // A new process may have sent a HELLO that the endpoint has not handled. The NIC has ended all transfers with
        // the process before.
        self.poll();
        let is_there = is_there || self.peer(node).greetings > 0;
        for &id in &self.bulk_ids {
            if let Some(bulk) = self.bulks.get_mut(id).filter(|bulk| bulk.node == node) {
                bulk.cancel(&self.station, error);
            }
        }
        if !is_there {
            self.station.give_up(node);
            if !core::mem::replace(&mut self.peer(node).has_left, true) {
                // The peer may still be alive, and must learn that this end has given up.
                self.leave(node, true);
            }
        }
        self.poll();
        // A long message without posted parts ends here.
        self.look_at_bulks();
    }

    /// Closes the station. Sends BYE to all peers and waits until each peer has received its messages, has sent BYE or
    /// is found dead. `flush` sends waiting messages and returns true if none is left.
    pub(crate) fn close(mut self, mut flush: impl FnMut(&mut Far) -> bool) {
        loop {
            let since = self.station.ended();
            self.poll();
            while let Some(news) = self.next() {
                match news {
                    News::Message(_, held) => self.give_back(held),
                    News::Lost(node, _) => {
                        self.peer(node).has_left = true;
                    }
                    News::Kept(..) | News::Posted(..) | News::Ended(..) => {}
                }
            }
            let mut is_over = flush(&mut self);
            for node in 0..self.peers.len() as Node {
                let peer = &self.peers[usize::from(node)];
                if !peer.has_left {
                    let is_told = self.leave(node, peer.next == 0);
                    is_over &= is_told && self.peers[usize::from(node)].under_way == 0;
                }
            }
            if is_over {
                return;
            }
            // The time limit covers progress that is not the end of a transfer.
            self.station.wait_for_another(since, Some(Duration::from_millis(10)));
        }
    }
}
