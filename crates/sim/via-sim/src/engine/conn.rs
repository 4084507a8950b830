//! One end of a connection: its stream to and from the other.

use crate::datagram::Datagrams;
use crate::ids::{ConnId, ViId};
use crate::message::{Assembly, Message};
use crate::packet::{Closing, Frame, Packet, Part};
use crate::stream::{Rx, Tx, Verdict};
use crate::world::{Timer, World};
use sovia_simnet::{NodeId, Time};

/// One end of a connection. It may outlive its VI's interest in it, until the other end knows
/// that it is over.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) node: NodeId,
    pub(crate) peer_node: NodeId,
    pub(crate) peer: ConnId,
    /// The VI, until the connection is over for this end.
    pub(crate) vi: Option<ViId>,
    /// The request that it answers, until the requester is known to have the answer.
    pub(crate) unsettled: Option<ConnId>,
    pub(crate) tx: Tx<Frame>,
    pub(crate) rx: Rx<Frame>,
    pub(crate) assembly: Assembly,
    pub(crate) datagrams: Datagrams,
    /// Datagram messages sent.
    pub(crate) datagrams_sent: u64,
    /// What is acknowledged at most: this end has found something that it does not accept.
    pub(crate) ack_limit: Option<u64>,
    /// When the retransmission timer goes off.
    timer: Option<Time>,
}

impl Conn {
    fn ack(&self) -> u64 {
        self.ack_limit.unwrap_or(u64::MAX).min(self.rx.ack())
    }

    /// Whether this end is done with it and only waits for the other to know.
    fn is_over(&self) -> bool {
        self.vi.is_none()
    }
}

impl World {
    /// A new end of a connection.
    pub(crate) fn new_conn(&self, vi: ViId, node: NodeId, peer_node: NodeId, peer: ConnId) -> Conn {
        let window = self.config.window.max(1) as usize;
        Conn {
            node,
            peer_node,
            peer,
            vi: Some(vi),
            unsettled: None,
            tx: Tx::new(self.config.timing(), window),
            rx: Rx::new(window),
            assembly: Assembly::default(),
            datagrams: Datagrams::default(),
            datagrams_sent: 0,
            ack_limit: None,
            timer: None,
        }
    }

    /// Sends what may be sent, and sees to it that somebody looks again.
    pub(crate) fn transmit(&mut self, id: ConnId) {
        let now = self.net.now();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (node, to, peer) = (conn.node, conn.peer_node, conn.peer);
        let ack = conn.ack();
        while let Some((number, frame)) = conn.tx.next(now) {
            let packet = Packet::Stream { to: peer, from: id, number, ack, frame };
            self.net.send(node, to, packet.size(), packet);
        }
        if let Some(deadline) = conn.tx.deadline()
            && conn.timer.is_none_or(|timer| timer > deadline)
        {
            conn.timer = Some(deadline);
            self.net.set_timer(deadline, Timer::Retransmit(id));
        }
    }

    /// A retransmission timer has gone off.
    pub(crate) fn retransmit(&mut self, id: ConnId) {
        let now = self.net.now();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.timer.is_some_and(|timer| timer <= now) {
            conn.timer = None;
        }
        match conn.tx.tick(now) {
            Verdict::Patience | Verdict::Again => self.transmit(id),
            Verdict::Hopeless => self.hopeless(id),
        }
    }

    /// A frame has come for a connection.
    pub(crate) fn stream_packet(
        &mut self,
        at: NodeId,
        from: NodeId,
        id: ConnId,
        peer: ConnId,
        (number, ack, frame): (u64, u64, Frame),
    ) {
        if !self.greet(at, from, id, peer) {
            return;
        }
        self.acked(id, ack);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.is_over() {
            // Both ends have broken it: neither listens to the other's stream any more, so that
            // the last frame counts out of its turn.
            if matches!(frame, Frame::Close(_)) {
                self.conns.remove(&id);
                self.send(at, from, Packet::Gone { to: peer });
            }
            self.transmit(id);
            return;
        }
        conn.rx.came(number, frame);
        while let Some(conn) = self.conns.get_mut(&id)
            && let Some(vi) = conn.vi
            && let Some((number, frame)) = conn.rx.next()
        {
            match frame {
                Frame::Part(part) => {
                    if let Some(message) = conn.assembly.add(&part) {
                        self.message(vi, id, number, &message);
                    }
                }
                Frame::Read { address, handle, length } => {
                    self.serve_read(vi, id, number, (address, handle, length));
                }
                Frame::Close(closing) => {
                    self.conns.remove(&id);
                    self.send(at, from, Packet::Gone { to: peer });
                    self.closed_by_peer(vi, closing);
                    return;
                }
            }
        }
        if let Some(conn) = self.conns.get(&id) {
            let ack = conn.ack();
            self.send(at, from, Packet::Ack { to: peer, from: id, ack });
            self.transmit(id);
        }
    }

    /// An acknowledgement has come.
    pub(crate) fn ack_packet(
        &mut self,
        at: NodeId,
        from: NodeId,
        id: ConnId,
        peer: ConnId,
        ack: u64,
    ) {
        if self.greet(at, from, id, peer) {
            self.acked(id, ack);
            self.transmit(id);
        }
    }

    /// Whether there is such a connection. Whoever uses it knows that it has come about.
    fn greet(&mut self, at: NodeId, from: NodeId, id: ConnId, peer: ConnId) -> bool {
        match self.conns.get(&id) {
            None => {
                self.send(at, from, Packet::Gone { to: peer });
                false
            }
            Some(conn) => {
                if let Some(request) = conn.unsettled {
                    self.settle(request, true);
                }
                self.conns.contains_key(&id)
            }
        }
    }

    fn acked(&mut self, id: ConnId, ack: u64) {
        let now = self.net.now();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.tx.acknowledged(ack, now);
        if let Some(vi) = conn.vi {
            self.sends_acked(vi, ack);
        }
    }

    /// Part of an unreliable message has come.
    pub(crate) fn datagram(
        &mut self,
        at: NodeId,
        from: NodeId,
        (id, peer): (ConnId, ConnId),
        number: u64,
        part: &Part,
    ) {
        // A late duplicate for a connection that is over is no reason to say anything: the end
        // of an unreliable connection has been told by its stream.
        if !self.conns.contains_key(&id) || !self.greet(at, from, id, peer) {
            return;
        }
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let Some(vi) = conn.vi else { return };
        if let Some(message) = conn.datagrams.add(number, part) {
            self.message(vi, id, number, &message);
        }
    }

    fn message(&mut self, vi: ViId, conn: ConnId, number: u64, message: &Message) {
        use crate::packet::Kind;
        match message.kind {
            Kind::Send => self.receive(vi, conn, number, message),
            Kind::Write { address, handle } => {
                self.written(vi, conn, number, message, (address, handle));
            }
            Kind::ReadReply { read } => self.read_done(vi, read, &message.bytes),
        }
    }

    /// This end is done with the connection: what is on its way may arrive, then the other end is
    /// told.
    pub(crate) fn close(&mut self, id: ConnId, closing: Closing) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.vi = None;
        conn.tx.finish(Frame::Close(closing));
        if let Some(request) = conn.unsettled {
            // The requester learns from the answer that there is no such connection.
            self.settle(request, false);
            return;
        }
        self.transmit(id);
    }
}
