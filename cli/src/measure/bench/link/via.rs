//! A native Virtual Interface of the shared-memory NIC, used as programs written for VIA use it:
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
    Connection, DescriptorAddress, Done, MemAttributes, MemHandle, Memory, Nic, Vi, ViAttributes,
};
use via_shm::{ShmNic, ShmVi};

use super::{Link, spin};
use crate::bench::task::{Task, Wait};

/// Bytes of the longest message on the VI; longer ones of the scenario are sent in pieces.
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
pub(in crate::bench) struct Interface {
    vi: ShmVi,
    memory: Memory,
    wait: Wait,
    /// The one message that is sent, again and again; behind the buffers to receive into. Its
    /// descriptor stays as it is from one message of a length to the next.
    out: usize,
    out_len: usize,
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

/// The end that waits for the requester.
pub(in crate::bench) struct Listener {
    nic: ShmNic,
    end: Interface,
}

/// Opens a NIC of its own, whose name is returned.
pub(in crate::bench) fn listen(task: &Task) -> anyhow::Result<(Listener, String)> {
    let name = format!("bench-{}", std::process::id());
    let nic = ShmNic::open(&name)?;
    let end = Interface::new(&nic, task)?;
    Ok((Listener { nic, end }, name))
}

impl Listener {
    /// Accepts the requester's connection.
    pub(in crate::bench) fn accept(self) -> anyhow::Result<Interface> {
        let address = self.nic.address(DISCRIMINATOR);
        self.nic.connect_wait(&address, TIMEOUT)?.accept(&self.end.vi)?;
        Ok(self.end)
    }
}

/// Connects to the responder's NIC.
pub(in crate::bench) fn connect(name: &str, task: &Task) -> anyhow::Result<Interface> {
    let nic = ShmNic::open(name)?;
    let end = Interface::new(&nic, task)?;
    let address = nic.address(DISCRIMINATOR);
    // The responder has said its name and is about to wait.
    let connected = spin(|| match end.vi.connect_request(&address, &address, TIMEOUT) {
        Err(ConnectError::NoMatch) => None,
        other => Some(other),
    });
    connected.context("cannot connect the VI")?;
    Ok(end)
}

impl Interface {
    fn new(nic: &ShmNic, task: &Task) -> anyhow::Result<Self> {
        let piece = task.size_bytes.min(PIECE_BYTES_MAX);
        let window = (WINDOW_BYTES / piece).clamp(2, WINDOW_MAX);
        let receives = window + TELLING;
        // Descriptors first, then their buffers; the last of each is for sending.
        let stride = piece.next_multiple_of(DESCRIPTOR_BYTES);
        let buffers = (receives + 1) * DESCRIPTOR_BYTES;
        let memory = Memory::zeroed(buffers + (receives + 1) * stride);
        let handle = nic.register_mem(&memory, MemAttributes::default())?;
        let attributes =
            ViAttributes { max_transfer_size: PIECE_BYTES_MAX as u32, ..ViAttributes::default() };
        let vi = nic.create_vi(attributes)?;
        for number in 0..=receives {
            let buffer = memory.segment(buffers + number * stride, piece as u32, handle);
            let at = number * DESCRIPTOR_BYTES;
            memory.descriptor(at).context("no descriptor")?.prepare(&[buffer], None)?;
            if number < receives {
                vi.post_recv(DescriptorAddress { address: memory.address(at), handle })?;
            }
        }
        let (wait, out) = (task.wait, receives * DESCRIPTOR_BYTES);
        Ok(Self {
            vi,
            memory,
            wait,
            out,
            out_len: piece,
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
    pub(in crate::bench) fn linger(&self) {
        while self.vi.recv_wait(TIMEOUT).is_ok_and(|completion| completion.result().is_ok()) {}
    }

    /// What ends a measurement that cannot go on.
    fn broken(&self) -> io::Error {
        match self.vi.cause() {
            Some(cause) => io::Error::other(format!("the VI is broken: {cause}")),
            None => io::Error::other("the VI was given something that it does not take"),
        }
    }

    /// Sends `len` bytes of the buffer, which begin with `first`.
    fn post(&mut self, len: usize, first: u8) -> io::Result<()> {
        let at = self.buffers + self.out / DESCRIPTOR_BYTES * self.stride;
        if self.out_len != len {
            let descriptor = self.memory.descriptor(self.out).ok_or_else(|| self.broken())?;
            let buffer = self.memory.segment(at, len as u32, self.handle);
            descriptor.prepare(&[buffer], None).map_err(io::Error::other)?;
            self.out_len = len;
        }
        if len > 0 {
            self.memory.write(at, &[first]);
        }
        let address = self.memory.address(self.out);
        let handle = self.handle;
        self.vi.post_send(DescriptorAddress { address, handle }).map_err(io::Error::other)?;
        self.repost()?;
        let sent = match self.wait {
            Wait::Poll => spin(|| taken(self.vi.send_done())),
            Wait::Block | Wait::Sleep => self.vi.send_wait(TIMEOUT).ok(),
        };
        sent.and_then(|completion| completion.result().ok()).ok_or_else(|| self.broken())?;
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

impl Link for Interface {
    fn send(&mut self, data: &[u8]) -> io::Result<()> {
        for piece in data.chunks(PIECE_BYTES_MAX) {
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
fn taken(done: Done) -> Option<Option<via::Completion>> {
    match done {
        Done::Completion(completion) => Some(Some(completion)),
        Done::NotDone => None,
        Done::Empty => Some(None),
    }
}
