//! The station of an endpoint, and what is under way with peers of other hosts.

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

/// What is behind an endpoint's address for other hosts.
#[derive(Debug)]
pub(crate) struct Far {
    /// Dropped before the rooms: then the NIC is done with them.
    station: Station,
    place: Whereabouts,
    session: u32,
    is_driven: bool,
    /// Transfers whose end has been seen, modulo 2^32.
    found: u32,
    rooms: Arc<Rooms>,
    receives: VecDeque<(Handle, Room)>,
    sends: VecDeque<Sent>,
    spare: Vec<Room>,
    probed: Vec<Handle>,
    peers: Vec<Peer>,
    bulks: Slab<Bulk>,
    /// Those that are under way, and the descriptors that they have: receives, sends.
    bulk_ids: Vec<u64>,
    used: [usize; 2],
    next_tag: u32,
    news: VecDeque<News>,
    /// Looks so far, and how many of them are passed over for one at which the NIC is driven.
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

/// What is known of a node.
#[derive(Debug, Default)]
struct Peer {
    session: Session<Copied>,
    /// The number of the next message to it.
    next: u32,
    /// Messages that are under way to it.
    under_way: usize,
    /// The endpoint's number for it, once it has said who it is.
    peer: Option<u32>,
    probe: Option<Handle>,
    probed_at: u64,
    /// It has been told that nothing more comes.
    is_left: bool,
    /// It has said so.
    has_left: bool,
    /// Processes that have named themselves, and of which the endpoint has not heard yet.
    greetings: u32,
}

/// What has happened.
#[derive(Debug)]
pub(crate) enum News {
    /// A message is the next one of that node's.
    Message(Node, Held),
    /// The same; its room has been used again.
    Kept(Node, Copied),
    /// A node does not answer, or has sent nonsense.
    Lost(Node, Error),
    /// There are receives for a long message up to there: of that operation, with that tag.
    Posted(Node, u64, u32, usize),
    /// The NIC is done with the memory of that operation's long message.
    Ended(u64, Result<(), Error>),
}

/// Looks that may be passed over when there has been no news for a while.
const PAUSE_MAX: u32 = 63;
/// Messages that may be under way to one of few peers, and the least.
const SHARE: usize = 64;
/// Between two probes of a peer, in nanoseconds.
const PROBE_NS: u64 = 1_000_000_000;

impl Far {
    /// Opens a station where the environment says; `None` if there is to be none. The secret is what others have to know.
    ///
    /// # Errors
    /// [`Error::INVALID`] if the environment makes no sense, or there can be no station there.
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
            // SAFETY: the room is the NIC's until the receive has ended, or the station is dropped, which is before the rooms are.
            let posted = unsafe { station.post_receive(None, Some(EAGER), &[rooms.whole(&room)]) };
            receives.push_back((posted.map_err(|_| Error::NO_MEMORY)?, room));
        }
        let mut probed = Vec::with_capacity(PROBED);
        for _ in 0..PROBED {
            // SAFETY: there is no memory in it.
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

    /// Where it is.
    pub(crate) fn place(&self) -> Whereabouts {
        self.place
    }

    /// Whether it is time to look for news. Cheap, so that it may be asked at each look for messages. `is_near`: there are
    /// peers of this host, for whose messages a look at the port would be a delay.
    #[inline(always)]
    pub(crate) fn is_due(&mut self, is_near: bool) -> bool {
        self.looks = self.looks.wrapping_add(1);
        let pause = if is_near { self.pause } else { 0 };
        let is_turn = self.is_driven && self.looks & pause == 0 && !self.peers.is_empty();
        is_turn || self.station.ended() != self.found || !self.news.is_empty()
    }

    /// The node of a place, with that secret.
    pub(crate) fn node(&mut self, place: Whereabouts, secret: u64) -> Result<Node, Error> {
        let node = self.station.add_peer(&place.into(), secret);
        let node = node.map_err(|_| Error::NO_MEMORY)?;
        self.peer(node);
        Ok(node)
    }

    /// Where a node is.
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

    /// The endpoint's number for a node that has said who it is.
    #[inline]
    pub(crate) fn peer_of(&self, node: Node) -> Option<u32> {
        self.peers.get(usize::from(node))?.peer
    }

    /// A node has said who it is.
    pub(crate) fn bind(&mut self, node: Node, peer: Option<u32>) {
        self.peer(node).peer = peer;
    }

    /// The endpoint has heard by which name a node calls itself.
    pub(crate) fn greeted(&mut self, node: Node) {
        let greetings = &mut self.peer(node).greetings;
        *greetings = greetings.saturating_sub(1);
    }

    /// Messages to a node are numbered from the first on: another process has to be told who this one is.
    pub(crate) fn begin(&mut self, node: Node) {
        let peer = self.peer(node);
        (peer.next, peer.is_left) = (0, false);
    }

    /// Sends a message to a node; false if there is no room now.
    pub(crate) fn send(&mut self, node: Node, head: Head, load: Load<'_>) -> Result<bool, Error> {
        // Each gets its share, so that one that takes nothing does not hold all.
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
        // SAFETY: the room is the NIC's until the send has ended, or the station is dropped, which is before the rooms are.
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

    /// Says to a node that nothing more comes, once; false if there is no room now. `abruptly`: what was sent before may not have
    /// come, and is not wanted.
    pub(crate) fn leave(&mut self, node: Node, abruptly: bool) -> bool {
        if self.peer(node).is_left {
            return true;
        }
        let head = Head { kind: BYE, data: abruptly.into(), ..Head::default() };
        let sent = self.send(node, head, Load { words: &[], buffer: None }) != Ok(false);
        self.peer(node).is_left |= sent;
        sent
    }

    /// What has happened next.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Uses a message's room again.
    #[inline]
    pub(crate) fn give_back(&mut self, held: Held) {
        self.receive_into(held.into_room());
    }

    fn receive_into(&mut self, room: Room) {
        let piece = self.rooms.whole(&room);
        // SAFETY: as in `open`.
        match unsafe { self.station.post_receive(None, Some(EAGER), &[piece]) } {
            Ok(handle) => self.receives.push_back((handle, room)),
            // Descriptors are divided so that there is one for it.
            Err(error) => debug_assert!(false, "{error:?}"),
        }
    }

    /// Drives the NIC where that is the calls' business, and finds out what has ended.
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

    /// Asks peers whether they are there that owe nothing else.
    pub(crate) fn probe(&mut self, now: u64) {
        let mut probes = self.peers.iter().filter(|peer| peer.probe.is_some()).count();
        for (node, peer) in self.peers.iter_mut().enumerate() {
            let is_due = peer.peer.is_some()
                && peer.probe.is_none()
                && peer.under_way == 0
                && now.saturating_sub(peer.probed_at) >= PROBE_NS;
            if is_due && probes < PROBES {
                // SAFETY: there is no memory in it.
                let posted = unsafe { self.station.post_send(node as Node, PROBE, &[]) };
                (peer.probe, peer.probed_at) = (posted.ok(), now);
                probes += 1;
            }
        }
    }

    /// Receives a long message from a node, for that operation. [`News::Posted`] says when the peer may send.
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

    /// Sends a long message to a node, with that tag, up to where there are receives for it.
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

    /// There are receives for a long message up to there, says the peer.
    ///
    /// # Errors
    /// [`Error::CORRUPT`] if that cannot be.
    pub(crate) fn allow(&mut self, id: u64, tag: u32, upto: u64) -> Result<(), Error> {
        let bulk = self.bulks.get_mut(id).filter(|bulk| bulk.sends && bulk.tag == tag);
        bulk.ok_or(Error::CORRUPT)?.allow(upto)?;
        self.look_at_bulks();
        self.pause = 0;
        Ok(())
    }

    /// A tag of long messages, if it is one.
    pub(crate) fn bulk_tag(tag: u64) -> Option<u32> {
        u32::try_from(tag).ok().filter(|tag| *tag >= FIRST_BULK)
    }

    /// All that is under way with a node ends. `is_there`: another process is there by now, with which something may be under way.
    pub(crate) fn lose(&mut self, node: Node, error: Error, is_there: bool) {
        // One may have come of which the endpoint has not heard yet. The NIC has ended what was under way with the one before.
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
                // If it is there all the same, it is to know.
                self.leave(node, true);
            }
        }
        self.poll();
        // One of which nothing was posted has ended by that.
        self.look_at_bulks();
    }

    /// The endpoint is to be closed: says so to all peers, and waits until they have got what was sent to them, or have left, or are
    /// found dead. `flush` sends what waits for room; whether that was all.
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
            // A watchdog wakes it, if what it waits for is not an end.
            self.station.wait_for_another(since, Some(Duration::from_millis(10)));
        }
    }
}
