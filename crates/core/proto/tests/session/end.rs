//! One end of the model: a session with a program, a receive queue and a wire.

use sovia_proto::configuration::Configuration;
use sovia_proto::packet::Written;
use sovia_proto::session::{Arrival, Body, Leave, NotWritable, Offer, Session, Target};
use sovia_proto::state::State;
use std::collections::VecDeque;

/// A packet on the wire.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    immediate: u32,
    body: Vec<u8>,
    /// Memory to which the packet is written, for an RDMA write.
    to: Option<Target>,
}

/// Returns the byte at a position of a stream.
pub(crate) fn byte(stream: u8, at: u64) -> u8 {
    (at as u8).wrapping_mul(131).wrapping_add((at >> 8) as u8).wrapping_add(stream.wrapping_mul(77))
}

/// One end of the model.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) session: Session,
    window: u16,
    /// Number of the stream that the end sends.
    stream: u8,
    /// Number of posted receives that are unused.
    receives: i32,
    /// The combining buffer.
    combined: Vec<u8>,
    /// Packets kept for the program.
    kept: VecDeque<Vec<u8>>,
    /// Number of bytes that the program has read of the first kept packet.
    had: usize,
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// Packets on their way to the other end.
    pub(crate) wire: VecDeque<Packet>,
    /// Number of permissions given so far, which is also the address of the latest target.
    leaves: u64,
    /// The permission whose message has not arrived.
    lent: Option<u64>,
    /// Set once a permission was for a call that lasts until its message is written.
    pub(crate) waited_for: bool,
    /// True if the program's calls last until their bytes are written, as far as this end knows.
    pub(crate) stays: bool,
    pub(crate) deaf: bool,
}

impl End {
    pub(crate) fn new(stream: u8, configuration: &Configuration) -> End {
        let mut end = End {
            session: Session::new(configuration),
            window: configuration.flow.window,
            stream,
            receives: i32::from(configuration.flow.receives()),
            combined: Vec::new(),
            kept: VecDeque::new(),
            had: 0,
            written: 0,
            read: 0,
            wire: VecDeque::new(),
            leaves: 0,
            lent: None,
            waited_for: false,
            stays: false,
            deaf: false,
        };
        end.session.connecting().unwrap();
        end.session.connected().unwrap();
        end.post();
        end
    }

    fn bytes(&self, from: u64, len: u32) -> Vec<u8> {
        (from..from + u64::from(len)).map(|at| byte(self.stream, at)).collect()
    }

    /// Posts all outgoing packets.
    fn post(&mut self) {
        while let Some(outgoing) = self.session.outgoing() {
            let body = match outgoing.body {
                Body::Empty => Vec::new(),
                Body::Terms(terms) => terms.encode().to_vec(),
                Body::Number(number) => number.to_le_bytes().to_vec(),
                Body::Request(request) => request.encode().to_vec(),
                Body::Leave { bytes, waits } => {
                    self.waited_for |= waits;
                    assert!(self.kept.is_empty() && self.lent.is_none(), "there is one target");
                    self.leaves += 1;
                    self.lent = Some(self.leaves);
                    let to = Target { address: self.leaves, handle: u32::from(self.stream) };
                    Leave { bytes, to }.encode().to_vec()
                }
                Body::Combined(len) => {
                    assert_eq!(len as usize, self.combined.len());
                    core::mem::take(&mut self.combined)
                }
            };
            let immediate = outgoing.immediate.encode();
            self.wire.push_back(Packet { immediate, body, to: None });
        }
        assert!(self.session.unacknowledged() <= self.window, "beyond the window");
    }

    /// Lets the program write up to `len` bytes. Returns the number of bytes that the session accepted.
    pub(crate) fn write(&mut self, len: usize) -> usize {
        // The first try may find that another packet must go first. The second try comes after that packet.
        for _ in 0..2 {
            match self.session.write(len, None, self.stays) {
                Ok(Offer::Copy { len, immediate, to } | Offer::Register { len, immediate, to }) => {
                    let body = self.bytes(self.written, len);
                    self.written += u64::from(len);
                    let acks = immediate.acks;
                    let immediate = match to {
                        None => immediate.encode(),
                        Some(_) => Written { len, acks }.encode(),
                    };
                    self.wire.push_back(Packet { immediate, body, to });
                    self.post();
                    return len as usize;
                }
                Ok(Offer::Join { at, len }) => {
                    assert_eq!(at as usize, self.combined.len());
                    let bytes = self.bytes(self.written, len);
                    self.combined.extend(bytes);
                    self.written += u64::from(len);
                    self.post();
                    return len as usize;
                }
                Ok(Offer::Wait) => self.post(),
                Err(NotWritable::Shut | NotWritable::Lost) => return 0,
            }
        }
        0
    }

    /// Lets the program read up to `len` bytes. Returns the number of bytes read.
    pub(crate) fn read(&mut self, len: usize) -> usize {
        self.session.reading(len as u32);
        let mut got = 0;
        while got < len
            && let Some(first) = self.kept.front()
        {
            let n = (len - got).min(first.len() - self.had);
            for &value in &first[self.had..self.had + n] {
                assert_eq!(value, byte(self.stream ^ 1, self.read), "byte {}", self.read);
                self.read += 1;
            }
            got += n;
            self.had += n;
            if self.had == first.len() {
                self.kept.pop_front();
                self.had = 0;
                self.receives += 1;
                self.session.consumed();
            }
        }
        self.post();
        got
    }

    /// Returns true if the program has reached the end of the stream.
    pub(crate) fn at_end(&self) -> bool {
        self.kept.is_empty() && self.session.state().peer_finished()
    }

    /// Receives a packet.
    pub(crate) fn take(&mut self, packet: &Packet) {
        assert!(self.receives > 0, "no receive is posted");
        self.receives -= 1;
        let data = matches!(packet.immediate >> 24, 1 | 8);
        let body = if data { &[][..] } else { &packet.body };
        if let Some(to) = packet.to {
            let lent = (self.lent.take(), u32::from(self.stream));
            assert_eq!((Some(to.address), to.handle), lent, "written to what is not lent");
        }
        // A NIC need not report the number of bytes that an RDMA write has written.
        let len = if packet.to.is_some() { 0 } else { packet.body.len() as u32 };
        match self.session.arrived(Some(packet.immediate), len, body).unwrap() {
            Arrival::Data => self.kept.push_back(packet.body.clone()),
            Arrival::Written(len) => {
                assert_eq!(len as usize, packet.body.len());
                self.kept.push_back(packet.body.clone());
            }
            Arrival::Nothing => self.receives += 1,
        }
        self.post();
    }

    pub(crate) fn timer(&mut self) -> bool {
        let Some(batch) = self.session.batch() else { return false };
        self.session.timer(batch);
        self.post();
        true
    }

    pub(crate) fn switch(&mut self, on: bool) {
        self.session.set_combining(on);
        self.post();
    }

    pub(crate) fn shutdown(&mut self) {
        self.session.shutdown();
        self.post();
    }

    /// Closes the stream for the program, which drops its unread bytes.
    pub(crate) fn close(&mut self) {
        self.shutdown();
        self.deaf = true;
        self.session.shutdown_reading();
        for _ in self.kept.drain(..) {
            self.receives += 1;
            self.session.consumed();
        }
        self.had = 0;
        self.post();
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.session.state() == State::Finished
    }
}
