//! Dispatches frames and timers to the parts of the world.

use crate::medium::{Medium, Purpose, Timer};
use crate::world::World;
use sovia_link::wire::Packet;
use via::error::ConnectError;

const GONE: ConnectError = ConnectError::NotReachable("the network is gone");

impl<M: Medium> World<M> {
    /// Processes a frame for a node of this world. Counts invalid frames. May leave the acknowledgement to
    /// [`World::acknowledge`].
    pub fn frame(&mut self, from: M::Node, at: M::Node, frame: &[u8]) {
        let parse = if M::MOVES { Packet::parse_announcing } else { Packet::parse_for };
        match parse(frame, self.config.checksum) {
            Ok(packet) => self.packet(from, at, packet),
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// Like [`World::frame`], for a medium that has its own format for some packets and has already checked and parsed
    /// this packet.
    pub fn parsed(&mut self, from: M::Node, at: M::Node, packet: Packet<&[u8]>) {
        self.packet(from, at, packet);
    }

    /// Runs when a timer fires.
    pub fn timer(&mut self, Timer(purpose): Timer) {
        match purpose {
            Purpose::Doorbell(vi) => self.doorbell(vi),
            Purpose::Retransmit(conn) => self.retransmit(conn),
            Purpose::Request(request) => self.request_again(request),
            Purpose::Answer(request) => self.answer_again(request),
            Purpose::Poke(vi, attempt) => self.poke_again(vi, attempt),
            Purpose::Expire(vi, attempt) => self.expire_attempt(vi, attempt),
        }
    }

    /// Handles the permanent failure of the network: connections are lost, requests fail, and new ones are refused.
    pub fn network_gone(&mut self) {
        if core::mem::replace(&mut self.is_gone, true) {
            return;
        }
        let asked: Vec<_> = self.incoming.iter().map(|(id, it)| (*id, it.from)).collect();
        for (id, from) in asked {
            self.cancelled(from, id);
            self.settle(id, false);
        }
        let conns: Vec<_> = self.conns.names().collect();
        conns.into_iter().for_each(|id| self.hopeless(id));
        let vis: Vec<_> = self.vis.names().collect();
        for id in vis {
            self.finish(id, Err(GONE));
        }
        // Also wakes threads that wait for requests.
        self.news = true;
        self.requests = true;
    }

    /// # Errors
    /// [`ConnectError::NotReachable`] after the network has failed.
    pub(crate) fn is_there(&self) -> Result<(), ConnectError> {
        if self.is_gone { Err(GONE) } else { Ok(()) }
    }

    pub(crate) fn packet(&mut self, from: M::Node, at: M::Node, packet: Packet<&[u8]>) {
        match packet {
            Packet::Stream { to, from: peer, sending, ack, item } => {
                self.stream_packet(at, from, to, peer, (sending, ack, item));
            }
            Packet::Ack { to, from: peer, report } => self.ack_packet(at, from, to, peer, &report),
            Packet::Datagram { to, from: peer, message, part } => {
                self.datagram(at, from, (to, peer), message, &part);
            }
            Packet::Gone { to } => self.peer_gone(to, from),
            Packet::Meeting(meeting) => self.meeting(at, from, meeting),
            Packet::Probe { to, from: peer, nonce, .. } => self.probe(at, from, to, peer, nonce),
            Packet::Echo { to, from: peer, nonce } => self.echo(from, to, peer, nonce),
            // These frames belong to channels.
            Packet::Hello { .. } => self.counters.malformed += 1,
        }
    }
}
