//! Frames and timers, to whatever part of the world they concern.

use crate::medium::{Medium, Purpose, Timer};
use crate::world::World;
use sovia_link::wire::Packet;
use via::error::ConnectError;

const GONE: ConnectError = ConnectError::NotReachable("the network is gone");

impl<M: Medium> World<M> {
    /// A frame has come to a node of this world. What is wrong with it is counted. What is right with it may be left
    /// to be acknowledged ([`World::acknowledge`]).
    pub fn frame(&mut self, from: M::Node, at: M::Node, frame: &[u8]) {
        let parse = if M::MOVES { Packet::parse_announcing } else { Packet::parse_for };
        match parse(frame, self.config.checksum) {
            Ok(packet) => self.packet(from, at, packet),
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// As [`World::frame`], of a medium that has a format of its own for some packets and has checked that this is one of them.
    pub fn parsed(&mut self, from: M::Node, at: M::Node, packet: Packet<&[u8]>) {
        self.packet(from, at, packet);
    }

    /// A timer has gone off.
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

    /// The network is gone for good: connections are lost, requests are over, and none is made any more.
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
        // Those that wait for requests, too.
        self.news = true;
        self.requests = true;
    }

    /// # Errors
    /// [`ConnectError::NotReachable`] once the network is gone.
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
            // Those are channels'.
            Packet::Hello { .. } => self.counters.malformed += 1,
        }
    }
}
