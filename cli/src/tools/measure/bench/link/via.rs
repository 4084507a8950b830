//! A native Virtual Interface of any NIC, used like programs for VIA use it: descriptors are posted and taken, and
//! messages are in registered memory.
//!
//! Of each message, only the first byte is copied here: it says whether to continue. A message without a posted receive
//! would break the connection, so there is a window. The receiver reports each half of the window by a message without
//! bytes. A message of the scenario also reports that everything before it has been received.

use std::io;
use std::time::Duration;

use anyhow::Context;
use via::error::ConnectError;
use via::{
    Completion, Connection, DescriptorAddress, Done, MemAttributes, MemHandle, Memory, NetAddress,
    Nic, Vi, ViAttributes,
};

use super::{Link, spin};
use crate::measure::bench::task::{Role, Task, Wait};

/// Longest message on the VI in bytes, if the NIC allows it.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// Largest number of messages in flight. It is lower if they would not fit into a second-level cache.
const WINDOW_MAX: usize = 32;
const WINDOW_BYTES: usize = 512 << 10;
/// Largest number of messages without bytes in flight.
const TELLING: usize = 4;
/// Distance between descriptors in bytes.
const DESCRIPTOR_BYTES: usize = 64;
const DISCRIMINATOR: &[u8] = b"bench";
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(10));

/// One end of a connected VI.
pub(in crate::measure::bench) struct Interface<N: Nic> {
    /// Declared before the NIC, so that it is dropped first.
    vi: N::Vi,
    nic: N,
    /// Longest message in bytes. The scenario's longer messages are sent in pieces.
    piece_max: usize,
    memory: Memory,
    wait: Wait,
    /// Lengths in the send descriptors. There are as many send buffers as receive buffers, and they follow the receive
    /// buffers. A descriptor is rewritten only if the length changes. If a send is complete when its post returns, the
    /// first descriptor is used each time.
    out_lens: Vec<usize>,
    next: usize,
    /// Number of sends not known to be complete.
    posted: usize,
    /// Offset of the buffers, and the distance between two of them.
    buffers: usize,
    stride: usize,
    handle: MemHandle,
    window: usize,
    /// Number of messages that may be sent before the peer reports received ones.
    room: usize,
    /// Number of received messages that the peer does not know of yet.
    untold: usize,
    /// A receive that must be posted again. Others are posted, so this one can wait until an answer has been sent.
    spare: Option<DescriptorAddress>,
}

/// Connects an end between this NIC and the other end's NIC. The responder's NIC has the host address `host`.
pub(in crate::measure::bench) fn join<N: Nic>(
    nic: N,
    host: &[u8],
    task: &Task,
    role: Role,
) -> anyhow::Result<Interface<N>> {
    let own = NetAddress::new(&nic.attributes().local_address, DISCRIMINATOR);
    let address = NetAddress::new(host, DISCRIMINATOR);
    let end = Interface::new(nic, task)?;
    if role == Role::Responder {
        let request = end.nic.connect_wait(&address, TIMEOUT)?;
        request.accept(&end.vi).map_err(|refused| refused.error)?;
        return Ok(end);
    }
    // The responder has reported its NIC's address, but may not wait yet.
    let connected = spin(|| match end.vi.connect_request(&own, &address, TIMEOUT) {
        Err(ConnectError::NoMatch) => None,
        other => Some(other),
    });
    connected.context("cannot connect the VI")?;
    Ok(end)
}

impl<N: Nic> Interface<N> {
    fn new(nic: N, task: &Task) -> anyhow::Result<Self> {
        let piece_max = PIECE_BYTES_MAX.min(nic.attributes().max_transfer_size as usize);
        let piece = task.size_bytes.min(piece_max);
        let window = (WINDOW_BYTES / piece).clamp(2, WINDOW_MAX);
        let receives = window + TELLING;
        // The memory has the descriptors first, then their buffers. The second half of each is for sending.
        let stride = piece.next_multiple_of(DESCRIPTOR_BYTES);
        let buffers = 2 * receives * DESCRIPTOR_BYTES;
        let memory = Memory::zeroed(buffers + 2 * receives * stride);
        let handle = nic.register_mem(&memory, MemAttributes::default())?;
        let attributes =
            ViAttributes { max_transfer_size: piece_max as u32, ..ViAttributes::default() };
        let vi = nic.create_vi(attributes)?;
        for number in 0..2 * receives {
            let buffer = memory.segment(buffers + number * stride, piece as u32, handle);
            let at = number * DESCRIPTOR_BYTES;
            memory
                .descriptor(at)
                .context("cannot use a descriptor of registered memory")?
                .prepare(&[buffer], None)?;
            if number < receives {
                vi.post_recv(DescriptorAddress { address: memory.address(at), handle })?;
            }
        }
        Ok(Self {
            vi,
            nic,
            piece_max,
            memory,
            wait: task.wait,
            out_lens: vec![piece; receives],
            next: 0,
            posted: 0,
            buffers,
            stride,
            handle,
            window,
            room: window,
            untold: 0,
            spare: None,
        })
    }

    /// Waits until the peer disconnects. The end that sent the last message must wait: the peer may still report
    /// received messages, which needs this end's VI.
    pub(in crate::measure::bench) fn linger(&self) {
        while self.vi.recv_wait(TIMEOUT).is_ok_and(|completion| completion.result().is_ok()) {}
    }

    /// Returns the error for a measurement that cannot continue.
    fn broken(&self) -> io::Error {
        match self.vi.cause() {
            Some(cause) => io::Error::other(format!("the VI is broken: {cause}")),
            None => io::Error::other("the VI refused a request of this program"),
        }
    }

    /// Sends `len` bytes of a buffer that begins with `first`.
    fn post(&mut self, len: usize, first: u8) -> io::Result<()> {
        let out = self.out()?;
        let number = self.out_lens.len() + out;
        let at = self.buffers + number * self.stride;
        if self.out_lens[out] != len {
            let descriptor = self.memory.descriptor(number * DESCRIPTOR_BYTES);
            let descriptor = descriptor.ok_or_else(|| self.broken())?;
            let buffer = self.memory.segment(at, len as u32, self.handle);
            descriptor.prepare(&[buffer], None).map_err(io::Error::other)?;
            self.out_lens[out] = len;
        }
        if len > 0 {
            self.memory.write(at, &[first]);
        }
        let address = self.memory.address(number * DESCRIPTOR_BYTES);
        let handle = self.handle;
        self.vi.post_send(DescriptorAddress { address, handle }).map_err(io::Error::other)?;
        self.posted += 1;
        self.repost()?;
        while self.posted > 0 {
            match self.vi.send_done() {
                Done::NotDone => break,
                done => self.sent(done.completion())?,
            }
        }
        Ok(())
    }

    /// Returns the number of a free send descriptor. Waits for one if necessary.
    fn out(&mut self) -> io::Result<usize> {
        if self.posted == self.out_lens.len() {
            let done = match self.wait {
                Wait::Poll => spin(|| taken(self.vi.send_done())),
                Wait::Block | Wait::Sleep => self.vi.send_wait(TIMEOUT).ok(),
            };
            self.sent(done)?;
        }
        let out = if self.posted == 0 { 0 } else { self.next };
        self.next = (out + 1) % self.out_lens.len();
        Ok(out)
    }

    /// Records that a send is over.
    fn sent(&mut self, done: Option<Completion>) -> io::Result<()> {
        let result = done.and_then(|completion| completion.result().ok());
        result.ok_or_else(|| self.broken())?;
        self.posted -= 1;
        Ok(())
    }

    /// Posts the last received descriptor again.
    fn repost(&mut self) -> io::Result<()> {
        let spare = self.spare.take();
        spare.map_or(Ok(()), |spare| self.vi.post_recv(spare)).map_err(io::Error::other)
    }

    /// Takes a message. Returns its length, and copies its first byte to `data`. Messages without bytes update the
    /// window.
    fn take(&mut self, data: &mut [u8]) -> io::Result<usize> {
        self.repost()?;
        let received = match self.wait {
            Wait::Poll => spin(|| taken(self.vi.recv_done())),
            Wait::Block | Wait::Sleep => self.vi.recv_wait(TIMEOUT).ok(),
        };
        let received = received.ok_or_else(|| self.broken())?;
        let len = received.result().map_err(|_| self.broken())? as usize;
        if len == 0 {
            self.room += self.window / 2;
        } else {
            self.room = self.window;
            let descriptor = (received.descriptor.address - self.memory.address(0)) as usize;
            let at = self.buffers + descriptor / DESCRIPTOR_BYTES * self.stride;
            if len > data.len() || !self.memory.read(at, &mut data[..1]) {
                return Err(self.broken());
            }
        }
        self.spare = Some(received.descriptor);
        Ok(len)
    }
}

impl<N: Nic> Link for Interface<N> {
    fn send(&mut self, data: &[u8]) -> io::Result<()> {
        for piece in data.chunks(self.piece_max) {
            while self.room == 0 {
                if self.take(&mut [])? > 0 {
                    return Err(self.broken());
                }
            }
            self.room -= 1;
            self.post(piece.len(), piece[0])?;
            self.untold = 0;
        }
        Ok(())
    }

    fn receive(&mut self, data: &mut [u8]) -> io::Result<usize> {
        loop {
            let len = self.take(data)?;
            if len == 0 {
                continue;
            }
            self.untold += 1;
            if self.untold == self.window / 2 {
                self.untold = 0;
                self.post(0, 0)?;
            }
            return Ok(len);
        }
    }
}

/// Returns a completion; `Some(None)` if none will come, `None` if there is none yet.
fn taken(done: Done) -> Option<Option<Completion>> {
    match done {
        Done::Completion(completion) => Some(Some(completion)),
        Done::NotDone => None,
        Done::Empty => Some(None),
    }
}
