//! Peers on other hosts.

use super::{Common, Endpoint};
use crate::address::{ADDRESS_LEN, Address};
use crate::emp::{Far, News, Node};
use crate::error::Error;
use crate::memory::{Buffer, Piece};
use crate::shm::{Body, Corrupt, Head, Load};
use crate::wire::{BYE, HELLO, KIND, NEED};
use sovia_sys::{call, clock};

/// A long message from or to another host. Its operation ends only when the NIC no longer uses the program's memory.
#[derive(Debug)]
pub(super) struct Transfer {
    bulk: u64,
    /// The operation's result, if the operation ended before the transfer.
    result: Option<Result<(), Error>>,
}

impl Endpoint {
    /// Opens the station for other hosts, if the environment asks for one.
    pub(super) fn open_station(
        address: &mut Address,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Box<Far>>, Error> {
        let mut drawn = [0; 12];
        call::getrandom(&mut drawn)?;
        let [a, b, c, d, secret @ ..] = drawn;
        let secret = u64::from_le_bytes(secret);
        let far = Far::open(secret, u32::from_le_bytes([a, b, c, d]), variable)?;
        if let Some(far) = &far {
            *address = address.with_far(far.place(), secret);
        }
        Ok(far.map(Box::new))
    }

    /// Sends this endpoint's address to a peer on another host. Returns false if that is not possible now.
    #[cold]
    pub(super) fn open_far(&mut self, peer: u32) -> Result<bool, Error> {
        let its = &self.peers[peer as usize];
        let address = its.address;
        let (place, secret) = address.far().ok_or(Error::UNREACHABLE)?;
        let far = self.far.as_mut().ok_or(Error::UNREACHABLE)?;
        // An earlier process at this place has not been found dead yet.
        let is_other = |it: &super::Peer| {
            it.address != address && it.node.and_then(|node| far.place_of(node)) == Some(place)
        };
        if self.peers.iter().any(is_other) {
            return Ok(false);
        }
        let node = far.node(place, secret)?;
        far.begin(node);
        let mut addresses = [0; 2 * ADDRESS_LEN];
        addresses[..ADDRESS_LEN].copy_from_slice(self.address.bytes());
        addresses[ADDRESS_LEN..].copy_from_slice(address.bytes());
        let piece = Piece { address: addresses.as_ptr().addr(), len: addresses.len() };
        // SAFETY: the bytes outlive the buffer.
        let buffer = unsafe { Buffer::new(&[piece]) }?;
        let load = Load { words: &[], buffer: Some((&buffer, 0, addresses.len())) };
        if !far.send(node, Head { kind: HELLO, ..Head::default() }, load)? {
            return Ok(false);
        }
        far.bind(node, Some(peer));
        let its = &mut self.peers[peer as usize];
        (its.node, its.outlet) = (Some(node), Some(super::peers::Outlet::Far(node)));
        Ok(true)
    }

    /// Handles events from other hosts. Returns true if an event has come.
    #[cold]
    pub(super) fn look_far(&mut self, common: &mut Common) -> bool {
        let Some(far) = &mut self.far else { return false };
        far.poll();
        let mut any = false;
        while let Some(news) = self.far.as_mut().and_then(|far| far.next()) {
            any = true;
            match news {
                News::Message(node, held) => {
                    let body = Body::of(held.body());
                    self.far_message(common, node, held.head(), &body);
                    if let Some(far) = &mut self.far {
                        far.give_back(held);
                    }
                }
                News::Kept(node, kept) => {
                    let body = Body::of(&kept.bytes);
                    self.far_message(common, node, kept.head, &body);
                }
                News::Lost(node, error) => self.lose_node(common, node, error),
                News::Posted(node, operation, tag, upto) => {
                    self.posted(node, operation, tag, upto);
                }
                News::Ended(operation, result) => self.transferred(common, operation, result),
            }
        }
        any
    }

    fn lose_node(&mut self, common: &mut Common, node: Node, error: Error) {
        let peer = self.far.as_ref().and_then(|far| far.peer_of(node));
        if let Some(peer) = peer {
            self.lose(common, peer, error);
        }
    }

    fn far_message(&mut self, common: &mut Common, node: Node, head: Head, body: &Body<'_>) {
        if head.kind & KIND == HELLO {
            return self.greeted(common, node, body);
        }
        let Some(far) = &mut self.far else { return };
        let peer = far.peer_of(node).filter(|peer| {
            let its = &self.peers[*peer as usize];
            !its.is_gone && its.node == Some(node)
        });
        let Some(peer) = peer else {
            // The peer does not know yet that this end has given up.
            if head.kind & KIND != BYE {
                far.leave(node, true);
            }
            return;
        };
        if head.kind & KIND == BYE {
            self.lose(common, peer, Error::GONE);
        } else if self.arrived(common, peer, head, body).is_err() {
            self.lose(common, peer, Error::CORRUPT);
        }
    }

    /// Handles a node's HELLO, which contains the node's address.
    fn greeted(&mut self, common: &mut Common, node: Node, body: &Body<'_>) {
        let mut addresses = Vec::with_capacity(2 * ADDRESS_LEN);
        body.append_to(0, &mut addresses);
        let Some(far) = &mut self.far else { return };
        far.greeted(node);
        let from = addresses.get(..ADDRESS_LEN).and_then(Address::read);
        let is_meant = addresses.get(ADDRESS_LEN..) == Some(self.address.bytes());
        let place = from.and_then(|from| Some(from.far()?.0));
        let Some(from) = from.filter(|_| is_meant && place == far.place_of(node)) else {
            far.leave(node, true);
            return;
        };
        let before = far.peer_of(node);
        let number = self.number_of(common, &from);
        let peer = self.intern(from, number);
        if let Some(before) = before.filter(|before| *before != peer) {
            // Another process was at this place. Its transfers have ended.
            self.peers[before as usize].node = None;
            if let Some(far) = &mut self.far {
                far.lose(node, Error::GONE, true);
            }
            self.lose(common, before, Error::GONE);
        }
        let its = &mut self.peers[peer as usize];
        let Some(far) = &mut self.far else { return };
        if its.is_gone {
            far.leave(node, true);
            return;
        }
        far.bind(node, Some(peer));
        its.node = Some(node);
    }

    /// Probes peers on other hosts, to find out whether they are alive.
    pub(super) fn probe_far(&mut self) {
        if let Some(far) = &mut self.far {
            far.probe(clock::now_ns());
        }
    }

    /// Starts to receive the bytes of an operation from a node, directly into the operation's buffer.
    pub(super) fn receive_far(&mut self, common: &mut Common, peer: u32, node: Node, id: u64) {
        let Some(operation) = self.operations.get_mut(id) else { return };
        let len = operation.expected;
        let Some(far) = self.far.as_mut().filter(|_| len > 0) else {
            return self.arrived_all(common, peer, id);
        };
        let bulk = far.receive(node, id, &operation.buffer, len);
        self.transfers.insert(id, Transfer { bulk, result: None });
    }

    /// Tells the sender up to which byte receives are posted for an operation.
    fn posted(&mut self, node: Node, id: u64, tag: u32, upto: usize) {
        let Some(operation) = self.operations.get_mut(id) else { return };
        let (peer, expected) = (operation.peer, operation.expected as u64);
        let Some(origin) = operation.origin else { return };
        if self.peers[peer as usize].node == Some(node) {
            let head = Head { kind: NEED, len: 0, tag: origin, data: id };
            self.answer(peer, head, &[expected, tag.into(), upto as u64]);
        }
    }

    /// Handles a peer's report that it has posted receives for bytes of an operation.
    pub(super) fn needed_far(
        &mut self,
        peer: u32,
        id: u64,
        len: usize,
        body: &Body<'_>,
    ) -> Result<(), Corrupt> {
        let [_, tag, upto] = body.words();
        let tag = Far::bulk_tag(tag).ok_or(Corrupt("no tag of a long message"))?;
        let operation = self.operations.get_mut(id);
        let (Some(far), Some(node), Some(operation)) =
            (&mut self.far, self.peers[peer as usize].node, operation)
        else {
            return Err(Corrupt("receives of a peer that has none"));
        };
        let bulk = match self.transfers.get(&id) {
            Some(transfer) => transfer.bulk,
            None if len > 0 => {
                let bulk = far.transmit((node, tag), id, &operation.buffer, len);
                self.transfers.insert(id, Transfer { bulk, result: None });
                bulk
            }
            None => return Err(Corrupt("receives for nothing")),
        };
        far.allow(bulk, tag, upto).map_err(|_| Corrupt("receives up to nowhere"))
    }

    /// Returns true if the end of an operation must wait for the end of its long message. Keeps `result` until then.
    #[inline]
    pub(super) fn is_held(&mut self, id: u64, result: Result<(), Error>) -> bool {
        if self.transfers.is_empty() {
            return false;
        }
        let Some(transfer) = self.transfers.get_mut(&id) else { return false };
        transfer.result.get_or_insert(result);
        true
    }

    /// Handles the end of a long message: the NIC no longer uses the memory of operation `id`.
    fn transferred(&mut self, common: &mut Common, id: u64, result: Result<(), Error>) {
        let Some(Transfer { result: told, .. }) = self.transfers.remove(&id) else { return };
        let Some(operation) = self.operations.get_mut(id) else { return };
        let (peer, takes) = (operation.peer, operation.takes);
        match (told, result) {
            // The receiver has already confirmed the operation.
            (Some(told), _) if !takes || told.is_err() => {
                self.end(common, peer, id, told);
            }
            (_, Ok(())) if takes => self.arrived_all(common, peer, id),
            // The operation ends when the receiver confirms it.
            (_, Ok(())) => {}
            (_, Err(error)) => {
                self.end(common, peer, id, Err(error));
            }
        }
    }
}

/// Delivers messages to other hosts even if the program closes the endpoint at once.
impl Drop for Endpoint {
    fn drop(&mut self) {
        let Some(far) = self.far.take() else { return };
        let peers = &mut self.peers;
        far.close(|far| {
            let mut is_all = true;
            // A peer to which nothing was ever sent needs no BYE.
            let told = |peer: &&mut super::Peer| peer.outlet.is_some() && !peer.is_gone;
            for peer in peers.iter_mut().filter(told) {
                is_all &= peer.node.is_none() || peer.flush(Some(far)) != Ok(false);
            }
            is_all
        });
    }
}
