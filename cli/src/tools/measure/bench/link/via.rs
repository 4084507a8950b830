//! A native Virtual Interface of any NIC, used as programs written for VIA use it:
//! descriptors are posted and taken, and messages lie in registered memory.
//!
//! So nothing is copied here between a message and a buffer of the scenario but the first byte,
//! which says whether to go on. A message without a posted receive would break the connection,
//! so there is a window; it is told of by a message without bytes for every half of it, and a
//! message of the scenario says that all that went before has been received.

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

/// Bytes of the longest message on the VI, where the NIC takes as long ones.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// Most messages on their way; fewer where they would not fit in a second-level cache.
const WINDOW_MAX: usize = 32;
const WINDOW_BYTES: usize = 512 << 10;
/// Messages without bytes that may be on their way at the same time.
const TELLING: usize = 4;
/// Distance of descriptors, in bytes.
const DESCRIPTOR_BYTES: usize = 64;
const DISCRIMINATOR: &[u8] = b"bench";
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(10));

/// One end of a connected VI.
pub(in crate::measure::bench) struct Interface<N: Nic> {
    /// Before the NIC, which it is of.
    vi: N::Vi,
    nic: N,
    /// Bytes of the longest message; longer ones of the scenario are sent in pieces.
    piece_max: usize,
    memory: Memory,
    wait: Wait,
    /// What is sent lies behind the buffers to receive into, which are as many. Descriptors stay as they are from one message of a
    /// length to the next, and the first is used again and again where sends are done when they are posted.
    out_lens: Vec<usize>,
    next: usize,
    /// Sends that have not been found done.
    posted: usize,
    /// Where the buffers begin, and their distance.
    buffers: usize,
    stride: usize,
    handle: MemHandle,
    window: usize,
    /// Messages that may be sent before the peer has to say that it received some.
    room: usize,
    /// Messages received since the peer was last told.
    untold: usize,
    /// A receive that is to be posted again. Others are posted, so it can wait until an answer is
    /// on its way.
    spare: Option<DescriptorAddress>,
}

/// One end of a connection between this NIC and the other end's; the responder's has the host address `host`.
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
    // The responder has said where its NIC is, and is about to wait.
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
        // Descriptors first, then their buffers; the second half of each is for sending.
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

    /// Waits until the peer disconnects. The end that sent the last message waits, since the peer may still
    /// be telling what it has received, and nothing can be sent to a VI that is gone.
    pub(in crate::measure::bench) fn linger(&self) {
        while self.vi.recv_wait(TIMEOUT).is_ok_and(|completion| completion.result().is_ok()) {}
    }

    /// What ends a measurement that cannot go on.
    fn broken(&self) -> io::Error {
        match self.vi.cause() {
            Some(cause) => io::Error::other(format!("the VI is broken: {cause}")),
            None => io::Error::other("the VI refused a request of this program"),
        }
    }

    /// Sends `len` bytes of a buffer, which begin with `first`.
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

    /// The number of a free descriptor to send by.
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

    /// A send is over.
    fn sent(&mut self, done: Option<Completion>) -> io::Result<()> {
        let result = done.and_then(|completion| completion.result().ok());
        result.ok_or_else(|| self.broken())?;
        self.posted -= 1;
        Ok(())
    }

    /// Posts the last receive again.
    fn repost(&mut self) -> io::Result<()> {
        let spare = self.spare.take();
        spare.map_or(Ok(()), |spare| self.vi.post_recv(spare)).map_err(io::Error::other)
    }

    /// Takes a message: its bytes, of which the first is put into `data`. Those without any are
    /// noted here.
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

/// A completion, or that there will be none.
fn taken(done: Done) -> Option<Option<Completion>> {
    match done {
        Done::Completion(completion) => Some(Some(completion)),
        Done::NotDone => None,
        Done::Empty => Some(None),
    }
}
