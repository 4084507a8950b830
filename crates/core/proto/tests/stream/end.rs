//! One end of a stream on a VI, made of the same state machines as in the library. It runs in steps, so the other
//! end can run between any two of them.

use sovia_proto::Violation;
use sovia_proto::close::Closing;
use sovia_proto::flow::{Flow, Parameters};
use sovia_proto::order::{Coalescer, Next, Take, Taker};
use sovia_proto::packet::{Immediate, Kind};
use std::collections::VecDeque;

/// Length of the longest packet in bytes.
const CHUNK: usize = 4;
/// Length of the overflow buffer in bytes.
const OVERFLOW_BUFFER: u64 = 16;

#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) immediate: u32,
    pub(crate) bytes: Vec<u8>,
}

/// Memory that one end writes and the other end reads.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// Packets on their way.
    pub(crate) ring: VecDeque<Packet>,
    /// All bytes ever coalesced.
    pub(crate) overflow_buffer: Vec<u8>,
    pub(crate) tail: u64,
    pub(crate) after: u32,
    /// Number of coalesced bytes that the reader has taken. Only the reader writes it.
    pub(crate) head: u64,
}

impl Wire {
    fn send(&mut self, immediate: Immediate, bytes: &[u8]) {
        self.ring.push_back(Packet { immediate: immediate.encode(), bytes: bytes.to_vec() });
    }
}

/// Check that a careless receiver leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Careless {
    /// No check: the receiver is careful.
    No,
    /// The second look for coalesced bytes after FIN has been seen.
    SecondLook,
    /// The wait for the packets that come before the coalesced bytes.
    After,
}

/// Current step of an end's call.
#[derive(Debug, Clone, Copy)]
enum At {
    Idle,
    /// Receives up to this many bytes, and must look for coalesced bytes.
    Look(usize),
    /// Has looked, and must take the next bytes.
    Take(usize, u64),
    /// Must send this many bytes.
    Put(usize),
    /// Must coalesce this many bytes. It has published the position at which the coalesced bytes begin.
    Coalesce(usize),
}

#[derive(Debug)]
pub(crate) struct End {
    at: At,
    pub(crate) flow: Flow,
    pub(crate) closing: Closing,
    coalescer: Coalescer,
    taker: Taker,
    held: VecDeque<Packet>,
    /// Number of bytes of the first unread packet that have been read.
    front: usize,
    /// Bytes that the program sends.
    to_send: Vec<u8>,
    /// Number of these bytes that the stream has accepted.
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
            coalescer: Coalescer::default(),
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

    /// Returns true if the end has sent everything, has closed, and has seen the peer's end.
    pub(crate) fn is_finished(&self) -> bool {
        self.eof && self.closing.is_finished()
    }

    /// Takes the next step of the current call. Between calls, `choice` selects the next call and its length.
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
                        // After the end of the stream, only packets of the protocol arrive.
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
                            self.coalescer.packets += 1;
                        }
                        At::Idle
                    }
                }
            }
            At::Look(room) => At::Take(room, rx.tail),
            At::Take(room, tail) => self.take(room, tail, tx, rx)?,
            At::Put(left) => self.put(left, tx, rx)?,
            At::Coalesce(left) => {
                let room = (OVERFLOW_BUFFER - self.coalescer.waiting()) as usize;
                let n = left.min(room).min(CHUNK);
                tx.overflow_buffer.extend_from_slice(&self.to_send[self.sent..self.sent + n]);
                self.sent += n;
                self.coalescer.tail += n as u64;
                tx.tail = self.coalescer.tail;
                if n == left || n == room { At::Idle } else { At::Coalesce(left - n) }
            }
        };
        Ok(())
    }

    fn put(&mut self, left: usize, tx: &mut Wire, rx: &mut Wire) -> Result<At, Violation> {
        if left == 0 {
            return Ok(At::Idle);
        }
        if self.coalescer.is_coalescing() && self.coalescer.next(tx.head) == Next::Coalesce {
            return Ok(At::Coalesce(left));
        }
        if !self.flow.can_send() {
            self.scan(tx, rx)?;
            if !self.flow.can_send() {
                if !self.coalescer.is_coalescing() {
                    tx.after = self.coalescer.packets;
                }
                return Ok(At::Coalesce(left));
            }
        }
        let n = left.min(CHUNK);
        tx.send(self.flow.send(Kind::Data), &self.to_send[self.sent..self.sent + n]);
        self.coalescer.packets += 1;
        self.sent += n;
        Ok(At::Put(left - n))
    }

    /// Takes all packets off the ring, to find the acknowledgements behind unread data.
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

    /// Takes the next bytes of the stream.
    fn take(
        &mut self,
        room: usize,
        tail: u64,
        tx: &mut Wire,
        rx: &mut Wire,
    ) -> Result<At, Violation> {
        if let Some(left) = self.take_coalesced(room, tail, rx)? {
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
            // Coalesced bytes that come before this packet are visible by now. They may not have been visible at
            // the first look.
            let tail = rx.tail;
            if self.taker.next(tail, rx.after) != Take::Packet {
                self.held.push_back(packet);
                return Ok(At::Take(room, tail));
            }
        }
        self.control(immediate.kind, tx)?;
        Ok(if self.eof { At::Idle } else { At::Look(room) })
    }

    /// Takes coalesced bytes if they are next in the stream. Returns the room that is left then.
    fn take_coalesced(
        &mut self,
        room: usize,
        tail: u64,
        rx: &mut Wire,
    ) -> Result<Option<usize>, Violation> {
        if tail == self.taker.head {
            return Ok(None);
        }
        let after = if self.careless == Careless::After { self.taker.packets } else { rx.after };
        let Take::Coalesced(available) = self.taker.next(tail, after) else { return Ok(None) };
        let start = self.taker.head as usize;
        if available > OVERFLOW_BUFFER || tail > rx.overflow_buffer.len() as u64 {
            return Err(Violation("coalesces more than there is room for"));
        }
        let n = room.min(available as usize);
        self.received.extend_from_slice(&rx.overflow_buffer[start..start + n]);
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
        // ToTcp ends only the VI's part of the stream. For a reader of the VI alone, it is the end.
        self.eof |= matches!(kind, Kind::Fin | Kind::ToTcp);
        Ok(())
    }
}

fn again(room: usize) -> At {
    if room == 0 { At::Idle } else { At::Look(room) }
}
