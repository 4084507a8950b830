//! The stream of a connection, in both directions.

use crate::card::Card;
use crate::ids::ViId;
use crate::medium::{Medium, Purpose, Timer};
use crate::path_mtu::PathMtu;
use crate::source::{Source, View};
use crate::world::{Arrived, Arriving, Conn, ViCore, World};
use sovia_link::datagram::Datagrams;
use sovia_link::stream::{Stream, Verdict};
use sovia_link::wire::{
    Closing, EndId, Item, OVERHEAD, Operation, Packet, Part, Report, Sending, Word,
};
use std::collections::VecDeque;
use std::sync::Arc;
use via::error::Cause;

/// Length of the shortest frames with which a connection works.
const FRAME_LEAST: u32 = 256;
/// Largest number of items that one acknowledgement covers.
const TOGETHER: u32 = 64;

impl<M: Medium> World<M> {
    /// Creates an end of a connection.
    pub(crate) fn new_conn(
        &self,
        id: EndId,
        of: (ViId, Arc<Card<M::Node>>),
        node: M::Node,
        peer_node: M::Node,
        peer: EndId,
    ) -> Conn<M::Node> {
        let window = self.config.window.max(1) as usize;
        let frame = self.config.mtu.saturating_add(OVERHEAD as u32);
        let (frame, path) = match self.config.probes {
            false => (frame, PathMtu::known(frame)),
            true => {
                let frame = self.net.frame_max(peer_node).unwrap_or(frame).max(FRAME_LEAST);
                (frame, PathMtu::unknown(frame))
            }
        };
        let control = (self.config.control, frame);
        // The first number comes from the name, so random names give random numbers.
        let first = |end: EndId| u64::from(end.0 as u32);
        let longest = self.vis.get(&of.0).map_or(0, |vi| vi.attributes.max_transfer_size);
        Conn {
            node,
            peer_node,
            peer,
            vi: Some(of.0),
            of,
            unsettled: None,
            stream: Stream::controlled(
                self.config.timing,
                window,
                control,
                (first(id), first(peer)),
            ),
            path,
            arriving: Arriving::new(longest),
            announced: VecDeque::new(),
            coming: VecDeque::new(),
            datagrams: Datagrams::new(longest),
            datagrams_sent: 0,
            owed: 0,
            later: false,
            timer: None,
        }
    }

    /// Sends the items that may be sent, and sets a timer for the rest.
    pub(crate) fn transmit(&mut self, id: EndId) {
        let now = self.net.now();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if self.net.is_receiving() {
            if !core::mem::replace(&mut conn.later, true) {
                self.later.push(id);
            }
            return;
        }
        let (node, to, peer) = (conn.node, conn.peer_node, conn.peer);
        // Probe the path only if there is data to send, or a probe awaits its answer.
        if (conn.stream.backlog() > 0 || conn.path.deadline().is_some())
            && let Some(len) = conn.path.poll_probe(now)
        {
            let padding = len.saturating_sub(Word::PROBE as u32);
            let probe = Word::Probe { to: peer, from: id, nonce: len.into(), padding };
            self.net.send(node, to, &probe);
        }
        let ack = conn.stream.ack();
        let access = conn.vi.and_then(|vi| self.vis.get(&vi)).map(ViCore::access);
        let mut denied = Ok(());
        while let Some((sending, item)) = conn.stream.next_out(now) {
            conn.owed = 0;
            let mut send = |item: Item<View<'_>>| {
                let packet = Packet::Stream { to: peer, from: id, sending, ack, item };
                self.net.send(node, to, &packet);
            };
            match (item, &access) {
                (&Item::Read { address, handle, length }, _) => {
                    send(Item::Read { address, handle, length });
                }
                (&Item::Close(closing), _) => send(Item::Close(closing)),
                (Item::Part(part), Some(access)) => {
                    let sent = access.view(&part.bytes, |view| send(Item::Part(part.with(view))));
                    denied = denied.and(sent);
                }
                (Item::Part(part), None) => {
                    // All items have been copied, except those whose memory could not be read.
                    if let Source::Copied(chunk) = &part.bytes {
                        send(Item::Part(part.with(View::Copied(chunk))));
                    }
                }
            }
        }
        let deadline = conn.stream.deadline().into_iter().chain(conn.path.deadline()).min();
        if let Some(deadline) = deadline
            && conn.timer.is_none_or(|timer| timer > deadline)
        {
            conn.timer = Some(deadline);
            self.net.set_timer(deadline, Timer(Purpose::Retransmit(id)));
        }
        if let (Err(status), Some(vi)) = (denied, conn.vi) {
            self.break_vi(vi, Cause::Descriptor(status), Some(Closing::Broke));
        }
    }

    /// Runs when a retransmission timer fires.
    pub(crate) fn retransmit(&mut self, id: EndId) {
        let now = self.net.now();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.timer.is_some_and(|timer| timer <= now) {
            conn.timer = None;
        }
        match conn.stream.tick(now) {
            Verdict::Patience | Verdict::Again => {
                self.transmit(id);
                // Items sent at their pace have made room for more.
                if let Some(vi) = self.conns.get(&id).and_then(|conn| conn.vi) {
                    self.push_sends(vi);
                }
            }
            Verdict::Hopeless => self.hopeless(id),
        }
    }

    /// Processes an item of a connection's stream.
    pub(crate) fn stream_packet(
        &mut self,
        at: M::Node,
        from: M::Node,
        id: EndId,
        peer: EndId,
        (sending, ack, item): (Sending, u32, Item<&[u8]>),
    ) {
        if !self.greet(at, from, id, peer) {
            return;
        }
        // Most streams carry data in one direction only, so the acknowledgement usually changes nothing.
        if !self.conns.get(&id).is_some_and(|conn| conn.stream.is_settled(ack)) {
            self.acked(id, &Report::plain(ack));
        }
        let now = self.net.now();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.is_over() {
            // Both ends have broken the connection, and neither processes the other's stream any more. So the last item
            // counts even if it arrives out of order.
            if matches!(item, Item::Close(_)) {
                self.conns.remove(&id);
                self.send(at, from, Word::Gone { to: peer });
            }
            self.transmit(id);
            return;
        }
        let taken = match (&item, conn.vi) {
            // A part in order goes to its memory without being stored.
            (Item::Part(part), Some(id)) if conn.coming.is_empty() && conn.arriving.fits(part) => {
                let number = conn.stream.came_next(sending, now);
                let mut add = || self.vis.get(&id).and_then(|vi| conn.arriving.add(part, vi));
                number.map(|number| (id, number, add()))
            }
            _ => None,
        };
        match taken {
            Some((vi, number, Some(message))) => self.message(vi, id, number, message),
            Some((_, _, None)) => {}
            None => {
                conn.stream.came(sending, item.into_owned(), now);
            }
        }
        self.take_items(id);
        let together = self.acknowledges_at();
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.owed += 1;
            if conn.owed >= together {
                self.pay(id);
            } else if conn.owed == 1 {
                self.owing.push(id);
            }
            self.transmit(id);
        }
    }

    /// Processes the items that are in order.
    pub(crate) fn take_items(&mut self, id: EndId) {
        while let Some(conn) = self.conns.get_mut(&id)
            && let Some(vi) = conn.vi
            && let Some(item) = conn.stream.peek()
        {
            if let Item::Part(part) = item
                && part.is_announcement()
                && conn.arriving.announces(part)
                && self.net.moves_from(conn.peer_node).is_some()
            {
                let Part { operation, immediate, total, start, .. } = *part;
                if !self.announced(vi, id, &Part { operation, immediate, total, start, bytes: () })
                {
                    break;
                }
                continue;
            }
            if !conn.coming.is_empty() {
                break;
            }
            if matches!(item, Item::Part(part) if !conn.arriving.fits(part)) {
                conn.stream.discard();
                self.counters.malformed += 1;
                break;
            }
            let Some((number, item)) = conn.stream.take() else { break };
            match item {
                Item::Part(part) => {
                    let of = self.vis.get(&vi);
                    if let Some(message) = of.and_then(|of| conn.arriving.add(&part, of)) {
                        self.message(vi, id, number, message);
                    }
                }
                Item::Read { address, handle, length } => {
                    self.serve_read(vi, id, number, (address, handle, length));
                }
                Item::Close(closing) => {
                    let (at, from, peer) = (conn.node, conn.peer_node, conn.peer);
                    self.conns.remove(&id);
                    self.send(at, from, Word::Gone { to: peer });
                    self.closed_by_peer(vi, closing);
                    return;
                }
            }
        }
    }

    /// Sends the frames that waited until all received frames were passed in ([`Medium::is_receiving`]).
    pub fn catch_up(&mut self) {
        while let Some(id) = self.later.pop() {
            if let Some(conn) = self.conns.get_mut(&id) {
                conn.later = false;
                self.transmit(id);
            }
        }
    }

    /// Sends an acknowledgement for received items, unless a frame in the other direction has carried it. Call it soon
    /// after frames have arrived, and always before the driver sleeps.
    pub fn acknowledge(&mut self) {
        while let Some(id) = self.owing.pop() {
            self.pay(id);
        }
    }

    /// Returns true if acknowledgements are owed.
    pub fn owes(&self) -> bool {
        let owes = |id| self.conns.get(id).is_some_and(|conn| conn.owed > 0);
        self.owing.iter().any(owes)
    }

    /// Number of received items from which a report is sent at once.
    pub(crate) fn acknowledges_at(&self) -> u32 {
        (self.config.window / 4).clamp(1, TOGETHER)
    }

    /// Sends a report to the peer of each connection, and repeats each request that a program is said to hold.
    ///
    /// If the peer's end no longer exists, the peer's node answers that. A NIC that has replaced the peer's NIC answers
    /// the repeated request. For networks that may lose frames between two nodes without telling either.
    pub fn remind(&mut self) {
        let pending = self.outgoing.iter_named().filter(|(_, it)| it.pending);
        let pending: Vec<_> = pending.map(|(id, _)| id).collect();
        pending.into_iter().for_each(|id| self.send_request(id));
        let settled = self.conns.iter_named().filter(|(_, conn)| conn.unsettled.is_none());
        let settled: Vec<_> = settled.map(|(id, _)| id).collect();
        for id in settled {
            if let Some(conn) = self.conns.get_mut(&id) {
                conn.owed += 1;
            }
            self.pay(id);
        }
    }

    pub(crate) fn pay(&mut self, id: EndId) {
        let now = self.net.now();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if core::mem::take(&mut conn.owed) > 0 {
            let report = conn.stream.report(now);
            let ack = Word::Ack { to: conn.peer, from: id, report };
            self.net.send(conn.node, conn.peer_node, &ack);
        }
    }

    /// Processes an acknowledgement.
    pub(crate) fn ack_packet(
        &mut self,
        at: M::Node,
        from: M::Node,
        id: EndId,
        peer: EndId,
        report: &Report,
    ) {
        if self.greet(at, from, id, peer) {
            self.acked(id, report);
            self.transmit(id);
        }
    }

    /// Returns true if there is a connection between these two ends. Settles an acceptance, because a peer that uses
    /// the connection has received the answer.
    fn greet(&mut self, at: M::Node, from: M::Node, id: EndId, peer: EndId) -> bool {
        match self.conns.get(&id) {
            None => {
                self.counters.strangers += 1;
                self.send(at, from, Word::Gone { to: peer });
                false
            }
            Some(conn) if conn.peer_node != from || conn.peer != peer => {
                self.counters.strangers += 1;
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

    /// Answers a probe for the length of frames.
    pub(crate) fn probe(&mut self, at: M::Node, from: M::Node, id: EndId, peer: EndId, nonce: u64) {
        if self.is_between(from, id, peer) {
            self.send(at, from, Word::Echo { to: peer, from: id, nonce });
        }
    }

    /// Processes the echo of a probe of length `len`.
    pub(crate) fn echo(&mut self, from: M::Node, id: EndId, peer: EndId, len: u64) {
        if self.is_between(from, id, peer)
            && let Some(conn) = self.conns.get_mut(&id)
            && conn.path.answered(len)
        {
            // Send the next probe, if there is one.
            self.transmit(id);
        }
    }

    /// Returns true if there is a connection between these two ends. If not, sends no answer, because a probe may
    /// arrive before the frame that announces its connection.
    fn is_between(&mut self, from: M::Node, id: EndId, peer: EndId) -> bool {
        let is = self.conns.get(&id).is_some_and(|it| it.peer_node == from && it.peer == peer);
        self.counters.strangers += u64::from(!is);
        is
    }

    /// Processes an acknowledgement. Ignores an impossible one.
    fn acked(&mut self, id: EndId, report: &Report) {
        let now = self.net.now();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        match (conn.stream.acknowledged(report, now), conn.vi) {
            (Some(ack), Some(vi)) => self.sends_acked(vi, ack),
            (Some(_), None) => {}
            (None, _) => self.counters.malformed += 1,
        }
    }

    /// Processes a part of an unreliable message.
    pub(crate) fn datagram(
        &mut self,
        at: M::Node,
        from: M::Node,
        (id, peer): (EndId, EndId),
        number: u64,
        part: &Part<&[u8]>,
    ) {
        // Do not answer: the part may be a late duplicate. The peer learns of the end of the connection from the
        // stream.
        if !self.conns.contains_key(&id) {
            self.counters.strangers += 1;
            return;
        }
        if !self.greet(at, from, id, peer) {
            return;
        }
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let Some(vi) = conn.vi else { return };
        let message = conn.datagrams.add(number, part);
        let of = self.vis.get(&vi);
        if let Some(message) = message.and_then(|message| Arrived::whole(&message, of?)) {
            self.message(vi, id, number, message);
        }
    }

    pub(crate) fn message(&mut self, vi: ViId, conn: EndId, number: u64, message: Arrived) {
        match message.operation {
            Operation::Send => self.receive(vi, conn, number, &message),
            Operation::Write { .. } => self.written(vi, conn, number, &message),
            Operation::ReadReply { read } => self.read_done(vi, read, &message.bytes),
        }
    }

    /// Ends the connection at this end. Items already sent still arrive, and then the peer is notified.
    pub(crate) fn close(&mut self, id: EndId, closing: Closing) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let vi = conn.vi.take();
        conn.stream.finish(Item::Close(closing));
        // From now on the program may use its memory again, so copy unsent bytes.
        if let Some(vi) = vi.and_then(|vi| self.vis.get(&vi)) {
            conn.keep(&vi.access(), None);
        }
        if let Some(request) = conn.unsettled {
            self.take_back(request);
            return;
        }
        self.transmit(id);
    }
}
