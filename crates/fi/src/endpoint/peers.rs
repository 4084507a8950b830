//! Peers: other endpoints, and this endpoint if it sends to itself.

use super::{Common, Endpoint, Inlet, NO_PEER};
use crate::address::Address;
use crate::completion::{Completion, Failure};
use crate::emp::{Far, Node};
use crate::error::Error;
use crate::flag;
use crate::memory::OtherMemory;
use crate::shm::{Corrupt, Head, Link, Load, News, Station, Writer};
use std::collections::VecDeque;

/// State of a peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: Address,
    /// The peer's number in the address vector, for completions.
    pub(super) number: u64,
    pub(super) outlet: Option<Outlet>,
    /// The connections: the first opened by this end, the second opened by the peer.
    links: [Option<Link>; 2],
    /// The peer's memory, once this end knows the peer's process.
    pub(super) memory: Option<OtherMemory>,
    /// Answers and bytes that wait for room.
    pub(super) answers: VecDeque<Answer>,
    pub(super) pushes: VecDeque<super::push::Push>,
    /// Set while the peer is in [`Endpoint::stuck`].
    pub(super) is_stuck: bool,
    pub(super) is_gone: bool,
    /// The peer's number at the station for other hosts, if the station reaches the peer.
    pub(super) node: Option<Node>,
}

/// The transport of messages to a peer. Each transport is a variant.
#[derive(Debug)]
pub(super) enum Outlet {
    /// A segment on this host.
    Shm(Writer),
    /// The station for other hosts.
    Far(Node),
}

impl Outlet {
    #[inline(always)]
    fn expect_more(&self) {
        match self {
            Outlet::Shm(writer) => writer.expect_more(),
            Outlet::Far(_) => {}
        }
    }

    #[inline(always)]
    pub(super) fn send(
        &mut self,
        far: Option<&mut Far>,
        head: Head,
        load: Load<'_>,
    ) -> Result<bool, Error> {
        match (self, far) {
            (Outlet::Shm(writer), _) => {
                writer.send(head, load).map_err(|Corrupt(_)| Error::CORRUPT)
            }
            (Outlet::Far(node), Some(far)) => far.send(*node, head, load),
            (Outlet::Far(_), None) => Err(Error::UNREACHABLE),
        }
    }
}

/// An answer that waits for room.
#[derive(Debug)]
pub(super) struct Answer {
    head: Head,
    words: Vec<u64>,
}

/// Maximum number of answers that may wait for one peer. A correct peer never requests as many before it reads any.
const ANSWERS_MAX: usize = 1 << 20;

impl Endpoint {
    /// Returns the peer with number `number` in the address vector.
    #[inline(always)]
    pub(super) fn peer_of(&mut self, common: &Common, number: u64) -> Result<u32, Error> {
        match self.by_number.get(number as usize) {
            Some(&peer) if peer != NO_PEER => Ok(peer),
            _ => self.find_peer(common, number),
        }
    }

    #[cold]
    fn find_peer(&mut self, common: &Common, number: u64) -> Result<u32, Error> {
        let vector = self.bindings.vector.ok_or(Error::NO_AV)?;
        let vector = common.vectors.get(vector).and_then(Option::as_ref).ok_or(Error::NO_AV)?;
        let address = vector.get(number).ok_or(Error::INVALID)?;
        let peer = self.intern(address, Some(number));
        let at = number as usize;
        if self.by_number.len() <= at {
            self.by_number.resize(at + 1, NO_PEER);
        }
        self.by_number[at] = peer;
        Ok(peer)
    }

    /// Removes a number of the address vector.
    pub fn forget(&mut self, number: u64) {
        let Some(peer) = self.by_number.get_mut(number as usize) else { return };
        let known = core::mem::replace(peer, NO_PEER);
        if let Some(peer) = self.peers.get_mut(known as usize).filter(|peer| peer.number == number)
        {
            peer.number = flag::ADDRESS_NONE;
        }
    }

    /// Records a peer's new number in the address vector.
    pub fn note(&mut self, address: &Address, number: u64) {
        if let Some(&peer) = self.by_address.get(address) {
            let known = &mut self.peers[peer as usize].number;
            *known = (*known).min(number);
        }
    }

    pub(super) fn intern(&mut self, address: Address, number: Option<u64>) -> u32 {
        let peers = &mut self.peers;
        let peer = *self.by_address.entry(address).or_insert_with(|| {
            peers.push(Peer {
                address,
                number: flag::ADDRESS_NONE,
                outlet: None,
                links: [None, None],
                memory: None,
                answers: VecDeque::new(),
                pushes: VecDeque::new(),
                is_stuck: false,
                is_gone: false,
                node: None,
            });
            peers.len() as u32 - 1
        });
        if let Some(number) = number {
            let known = &mut self.peers[peer as usize].number;
            *known = (*known).min(number);
        }
        peer
    }

    /// Sends a message to a peer, and connects first if necessary. Returns false if no room is free now.
    #[inline(always)]
    pub(super) fn put(&mut self, peer: u32, head: Head, load: Load<'_>) -> Result<bool, Error> {
        let its = &mut self.peers[peer as usize];
        if let Some(outlet) = &mut its.outlet
            && !its.is_stuck
        {
            // This is another send without a look for messages in between.
            if core::mem::replace(&mut self.sent_at, self.looks) == self.looks {
                outlet.expect_more();
            }
            return outlet.send(self.far.as_deref_mut(), head, load);
        }
        self.put_slowly(peer, head, load)
    }

    #[cold]
    fn put_slowly(&mut self, peer: u32, head: Head, load: Load<'_>) -> Result<bool, Error> {
        let its = &mut self.peers[peer as usize];
        if its.is_gone {
            return Err(Error::GONE);
        }
        if its.outlet.is_none() && !self.open(peer)? {
            return Ok(false);
        }
        let its = &mut self.peers[peer as usize];
        // Waiting messages go first.
        if !its.flush(self.far.as_deref_mut())? {
            return Ok(false);
        }
        let Some(outlet) = &mut its.outlet else { return Err(Error::UNREACHABLE) };
        outlet.send(self.far.as_deref_mut(), head, load)
    }

    /// Connects to a peer. Returns false if that is not possible now.
    pub(super) fn open(&mut self, peer: u32) -> Result<bool, Error> {
        let its = &mut self.peers[peer as usize];
        if !self.uses_shm || !its.address.is_near() {
            return self.open_far(peer);
        }
        let (writer, link) = match self.station.connect(&its.address, peer) {
            Err(Error::AGAIN) => return Ok(false),
            // The peer belongs to another user, so shared memory is not possible.
            Err(Error::ACCESS) => return self.open_far(peer),
            connected => connected?,
        };
        if its.memory.is_none() {
            its.memory = Some(link.memory()?);
        }
        its.outlet = Some(Outlet::Shm(writer));
        its.links[0] = Some(link);
        Ok(true)
    }

    /// Sends an answer, now or as soon as room is free.
    pub(super) fn answer(&mut self, peer: u32, head: Head, words: &[u64]) {
        match self.put(peer, head, Load { words, buffer: None }) {
            Ok(true) => {}
            Ok(false) => {
                let its = &mut self.peers[peer as usize];
                if its.answers.len() < ANSWERS_MAX {
                    its.answers.push_back(Answer { head, words: words.to_vec() });
                    self.is_stuck(peer);
                } else {
                    its.is_gone = true;
                }
            }
            // The answer cannot be sent. Closing the link tells a living peer that this end has given up.
            Err(_) => self.peers[peer as usize].links[1] = None,
        }
    }

    /// Adds the peer to the list of peers with data that waits for room.
    pub(super) fn is_stuck(&mut self, peer: u32) {
        let its = &mut self.peers[peer as usize];
        if !core::mem::replace(&mut its.is_stuck, true) {
            self.stuck.push(peer);
        }
    }

    /// Looks for peers that have connected or ended.
    #[cold]
    pub(super) fn look_around(&mut self, common: &mut Common) {
        self.probe_far();
        let mut news = Vec::new();
        self.station.poll(|_: &Station, it| news.push(it));
        for it in news {
            match it {
                News::Sender(address, reader, socket) => {
                    let number = self.number_of(common, &address);
                    let peer = self.intern(address, number);
                    let its = &mut self.peers[peer as usize];
                    // A correct peer connects once.
                    if its.is_gone || its.links[1].is_some() {
                        continue;
                    }
                    self.inlets.push(Inlet { peer, reader });
                    let Ok(link) = self.station.link(socket, peer) else {
                        // The peer's process has ended.
                        self.lose(common, peer, Error::GONE);
                        continue;
                    };
                    if its.memory.is_none() {
                        its.memory = link.memory().ok();
                    }
                    its.links[1] = Some(link);
                }
                News::Peer(peer) => {
                    let its = &self.peers[peer as usize];
                    if its.links.iter().flatten().any(Link::has_ended) {
                        self.lose(common, peer, Error::GONE);
                    }
                }
            }
        }
    }

    pub(super) fn number_of(&self, common: &Common, address: &Address) -> Option<u64> {
        common.vectors.get(self.bindings.vector?)?.as_ref()?.number_of(address)
    }

    /// Gives up a peer. Handles all messages that the peer sent completely, and fails all operations that need the
    /// peer.
    pub(super) fn lose(&mut self, common: &mut Common, peer: u32, error: Error) {
        if error == Error::GONE {
            self.read_all(common, peer);
        }
        let its = &mut self.peers[peer as usize];
        if core::mem::replace(&mut its.is_gone, true) && its.links.iter().all(Option::is_none) {
            return;
        }
        its.outlet = None;
        let node = its.node.take();
        its.links = [None, None];
        its.memory = None;
        its.answers.clear();
        its.pushes.clear();
        self.inlets.retain(|inlet| inlet.peer != peer);
        for id in self.operations.ids(|operation| operation.peer == peer) {
            self.end(common, peer, id, Err(error));
        }
        if let (Some(node), Some(far)) = (node, &mut self.far) {
            far.lose(node, error, false);
        }
        // Receives from only this peer would wait forever.
        for tagged in [true, false] {
            let matcher = if tagged { &mut self.tagged } else { &mut self.plain };
            let mut lost = Vec::new();
            while let Some(receive) = matcher.cancel(|pattern, _| pattern.source == Some(peer)) {
                lost.push(receive);
            }
            for receive in lost {
                let completion = Completion { context: receive.context, ..receive.blank(tagged) };
                let failure = Failure { completion, excess: 0, error };
                self.fail(common, super::Count::Receive, failure);
            }
        }
    }
}

impl Peer {
    /// Sends waiting answers. Returns true if none is left.
    pub(super) fn flush(&mut self, mut far: Option<&mut Far>) -> Result<bool, Error> {
        let Some(outlet) = &mut self.outlet else { return Ok(false) };
        while let Some(answer) = self.answers.front() {
            let load = Load { words: &answer.words, buffer: None };
            if !outlet.send(far.as_deref_mut(), answer.head, load)? {
                return Ok(false);
            }
            self.answers.pop_front();
        }
        Ok(true)
    }
}
