//! One end of a stream on a VI, built from the state machines as the library builds it, and run in
//! steps: between any two of them the other end may run.

use sovia_proto::Violation;
use sovia_proto::close::Closing;
use sovia_proto::flow::{Flow, Parameters};
use sovia_proto::order::{Gatherer, Next, Take, Taker};
use sovia_proto::packet::{Immediate, Kind};
use std::collections::VecDeque;

/// Largest packet.
const CHUNK: usize = 4;
/// Bytes that can be gathered.
const AREA: u64 = 16;

#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) immediate: u32,
    pub(crate) bytes: Vec<u8>,
}

/// What one end writes and the other reads.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// Packets on their way.
    pub(crate) ring: VecDeque<Packet>,
    /// All bytes ever gathered.
    pub(crate) area: Vec<u8>,
    pub(crate) tail: u64,
    pub(crate) after: u32,
    /// Written by the reader.
    pub(crate) head: u64,
}

impl Wire {
    fn send(&mut self, immediate: Immediate, bytes: &[u8]) {
        self.ring.push_back(Packet { immediate: immediate.encode(), bytes: bytes.to_vec() });
    }
}

/// What a careless receiver leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Careless {
    /// Nothing.
    No,
    /// A second look for gathered bytes when FIN has been seen.
    SecondLook,
    /// Waiting for the packets that go before the gathered bytes.
    After,
}

/// The call that an end is in.
#[derive(Debug, Clone, Copy)]
enum At {
    Idle,
    /// Receives so many bytes; is about to look for gathered ones.
    Look(usize),
    /// Has looked.
    Take(usize, u64),
    /// Sends so many bytes.
    Put(usize),
    /// Has published where a gathering begins, or found it going on.
    Gather(usize),
}

#[derive(Debug)]
pub(crate) struct End {
    at: At,
    pub(crate) flow: Flow,
    pub(crate) closing: Closing,
    gatherer: Gatherer,
    taker: Taker,
    held: VecDeque<Packet>,
    /// Bytes of the first unread packet that have been read.
    front: usize,
    /// What its program sends, and how much of it has been accepted.
    to_send: Vec<u8>,
    sent: usize,
    pub(crate) received: Vec<u8>,
    pub(crate) eof: bool,
    careless: Careless,
}

impl End {
    pub(crate) fn new(parameters: Parameters, to_send: &[u8], careless: Careless) -> End {
        End {
            at: At::Idle,
            flow: Flow::new(parameters),
            closing: Closing::default(),
            gatherer: Gatherer::default(),
            taker: Taker::default(),
            held: VecDeque::new(),
            front: 0,
            to_send: to_send.to_vec(),
            sent: 0,
            received: Vec::new(),
            eof: false,
            careless,
        }
    }

    /// Everything sent, closed and answered, and the peer's end seen.
    pub(crate) fn is_finished(&self) -> bool {
        self.eof && self.closing.is_finished()
    }

    /// The next step of the call it is in; which call, or how much, is for `choice` to say.
    pub(crate) fn step(
        &mut self,
        choice: u8,
        tx: &mut Wire,
        rx: &mut Wire,
    ) -> Result<(), Violation> {
        self.at = match self.at {
            At::Idle => {
                let n = usize::from(choice >> 2);
                match choice % 4 {
                    0 | 1 if self.eof => {
                        // What comes now is for the protocol alone.
                        self.scan(tx, rx)?;
                        At::Idle
                    }
                    0 | 1 => At::Look(1 + n % 11),
                    _ if self.sent < self.to_send.len() => {
                        At::Put((1 + n % 23).min(self.to_send.len() - self.sent))
                    }
                    _ => {
                        if self.closing.send_fin() {
                            tx.send(self.flow.send(Kind::Fin), &[]);
                            self.gatherer.packets += 1;
                        }
                        At::Idle
                    }
                }
            }
            At::Look(room) => At::Take(room, rx.tail),
            At::Take(room, tail) => self.take(room, tail, tx, rx)?,
            At::Put(left) => self.put(left, tx, rx)?,
            At::Gather(left) => {
                let room = (AREA - self.gatherer.waiting()) as usize;
                let n = left.min(room).min(CHUNK);
                tx.area.extend_from_slice(&self.to_send[self.sent..self.sent + n]);
                self.sent += n;
                self.gatherer.tail += n as u64;
                tx.tail = self.gatherer.tail;
                if n == left || n == room { At::Idle } else { At::Gather(left - n) }
            }
        };
        Ok(())
    }

    fn put(&mut self, left: usize, tx: &mut Wire, rx: &mut Wire) -> Result<At, Violation> {
        if left == 0 {
            return Ok(At::Idle);
        }
        if self.gatherer.is_gathering() && self.gatherer.next(tx.head) == Next::Gather {
            return Ok(At::Gather(left));
        }
        if !self.flow.can_send() {
            self.scan(tx, rx)?;
            if !self.flow.can_send() {
                if !self.gatherer.is_gathering() {
                    tx.after = self.gatherer.packets;
                }
                return Ok(At::Gather(left));
            }
        }
        let n = left.min(CHUNK);
        tx.send(self.flow.send(Kind::Data), &self.to_send[self.sent..self.sent + n]);
        self.gatherer.packets += 1;
        self.sent += n;
        Ok(At::Put(left - n))
    }

    /// Takes everything off the ring, to see the acknowledgements behind unread data.
    fn scan(&mut self, tx: &mut Wire, rx: &mut Wire) -> Result<(), Violation> {
        while let Some(packet) = rx.ring.front() {
            let immediate = Immediate::decode(packet.immediate)?;
            let begun = self.front != 0 && self.held.is_empty();
            if !begun {
                self.flow.arrived(immediate)?;
            }
            let packet = rx.ring.pop_front();
            if immediate.kind.is_ordered() {
                self.held.extend(packet);
            } else {
                self.control(immediate.kind, tx)?;
            }
        }
        Ok(())
    }

    /// Takes what is next in the stream.
    fn take(
        &mut self,
        room: usize,
        tail: u64,
        tx: &mut Wire,
        rx: &mut Wire,
    ) -> Result<At, Violation> {
        if let Some(left) = self.take_gathered(room, tail, rx)? {
            return Ok(again(left));
        }
        let (packet, from_ring) = match (self.held.front(), rx.ring.front()) {
            (Some(packet), _) => (packet.clone(), false),
            (None, Some(packet)) => (packet.clone(), true),
            (None, None) => return Ok(At::Idle),
        };
        let immediate = Immediate::decode(packet.immediate)?;
        if from_ring && self.front == 0 {
            self.flow.arrived(immediate)?;
        }
        let queue = if from_ring { &mut rx.ring } else { &mut self.held };
        if immediate.kind == Kind::Data {
            let n = packet.bytes.len().saturating_sub(self.front).min(room);
            self.received.extend_from_slice(&packet.bytes[self.front..self.front + n]);
            self.front += n;
            if self.front == packet.bytes.len() {
                queue.pop_front();
                self.front = 0;
                self.taker.packets = self.taker.packets.wrapping_add(1);
                if self.flow.consumed() {
                    tx.send(self.flow.send(Kind::Ack), &[]);
                }
            }
            return Ok(again(room - n));
        }
        queue.pop_front();
        if from_ring && immediate.kind.is_ordered() && self.careless != Careless::SecondLook {
            // Gathered bytes that go before it are there by now, if not when we looked.
            let tail = rx.tail;
            if self.taker.next(tail, rx.after) != Take::Packet {
                self.held.push_back(packet);
                return Ok(At::Take(room, tail));
            }
        }
        self.control(immediate.kind, tx)?;
        Ok(if self.eof { At::Idle } else { At::Look(room) })
    }

    /// Gathered bytes, if it is their turn; what is left of the room then.
    fn take_gathered(
        &mut self,
        room: usize,
        tail: u64,
        rx: &mut Wire,
    ) -> Result<Option<usize>, Violation> {
        if tail == self.taker.head {
            return Ok(None);
        }
        let after = if self.careless == Careless::After { self.taker.packets } else { rx.after };
        let Take::Gathered(available) = self.taker.next(tail, after) else { return Ok(None) };
        let start = self.taker.head as usize;
        if available > AREA || tail > rx.area.len() as u64 {
            return Err(Violation("gathers more than there is room for"));
        }
        let n = room.min(available as usize);
        self.received.extend_from_slice(&rx.area[start..start + n]);
        self.taker.head += n as u64;
        rx.head = self.taker.head;
        Ok(Some(room - n))
    }

    fn control(&mut self, kind: Kind, tx: &mut Wire) -> Result<(), Violation> {
        if kind.is_ordered() {
            self.taker.packets = self.taker.packets.wrapping_add(1);
        }
        if self.closing.arrived(kind)? {
            tx.send(self.flow.send(Kind::FinAck), &[]);
        }
        // Going back to TCP ends the VI's part for a reader of it alone.
        self.eof |= matches!(kind, Kind::Fin | Kind::ToTcp);
        Ok(())
    }
}

fn again(room: usize) -> At {
    if room == 0 { At::Idle } else { At::Look(room) }
}
