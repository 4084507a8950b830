//! A socket on one receive queue of a device.

use super::ring::{Came, Chunk, Chunks, Done, Fill, Received, Sending};
use sovia_sys::call::{self, RawFd};
use sovia_sys::{Errno, Fd, Result, poll};

/// Maximum number of bytes of frames that the kernel copies for the device.
const QUEUE: i32 = 4 << 20;

/// Number of attempts to bind to a busy queue, one millisecond apart.
const TRIES: usize = 2000;

/// The incoming frames of one queue.
#[derive(Debug)]
pub(super) struct Queue {
    socket: Fd,
    received: Received,
    fill: Fill,
    /// Set if the current batch has taken frames from `received`, whose entries the kernel must get back.
    taken: bool,
}

/// The outgoing frames, through the first queue's socket.
#[derive(Debug)]
pub(super) struct Out {
    sending: Sending,
    done: Done,
    free: Vec<Chunk>,
    /// Number of frames that the kernel had taken at the last look.
    taken: u32,
}

/// Choice between copied frames and zero-copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copies {
    Always,
    /// Copies only if the driver cannot use the chunks itself.
    IfItMust,
}

/// The step that failed, and the kernel's error.
type Refused = (&'static str, Errno);

impl Queue {
    /// Creates a socket that is not bound yet, with rings for the chunks `into`. Their number must be a power of two.
    pub(super) fn make(into: Vec<Chunk>) -> core::result::Result<Queue, Refused> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let socket =
            Fd::make(|| call::socket(libc::AF_XDP, kind, 0)).map_err(|why| ("socket", why))?;
        let (raw, count) = (socket.raw(), into.len() as u32);
        let received = Received::make(raw, count).map_err(|why| ("XDP_RX_RING", why))?;
        let mut fill = Fill::make(raw, count).map_err(|why| ("XDP_UMEM_FILL_RING", why))?;
        into.into_iter().for_each(|chunk| fill.give(chunk));
        fill.publish();
        Ok(Queue { socket, received, fill, taken: false })
    }

    pub(super) fn raw(&self) -> RawFd {
        self.socket.raw()
    }

    /// Returns the sending side of this queue's socket. `free` are its chunks, and their number must be a power of two.
    pub(super) fn out(&self, free: Vec<Chunk>) -> core::result::Result<Out, Refused> {
        let (raw, count) = (self.raw(), free.len() as u32);
        call::setsockopt(raw, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &QUEUE)
            .or_else(|_| call::setsockopt(raw, libc::SOL_SOCKET, libc::SO_SNDBUF, &QUEUE))
            .map_err(|why| ("SO_SNDBUF", why))?;
        Ok(Out {
            sending: Sending::make(raw, count).map_err(|why| ("XDP_TX_RING", why))?,
            done: Done::make(raw, count).map_err(|why| ("XDP_UMEM_COMPLETION_RING", why))?,
            free,
            taken: 0,
        })
    }

    /// Binds the socket to a queue of a device. The socket uses its own chunks, or the chunks of the socket `shares`.
    ///
    /// # Errors
    /// Returns `EBUSY` if another socket is bound to the queue.
    pub(super) fn bind(
        &self,
        device: u32,
        queue: u32,
        copies: Copies,
        shares: Option<RawFd>,
    ) -> Result<()> {
        let flags = match (shares, copies) {
            // The kernel takes the mode of the other socket.
            (Some(_), _) => libc::XDP_SHARED_UMEM,
            (None, Copies::Always) => libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP,
            (None, Copies::IfItMust) => libc::XDP_USE_NEED_WAKEUP,
        };
        // `struct sockaddr_xdp`.
        let mut name = [0; 16];
        name[..2].copy_from_slice(&(libc::AF_XDP as u16).to_ne_bytes());
        name[2..4].copy_from_slice(&flags.to_ne_bytes());
        name[4..8].copy_from_slice(&device.to_ne_bytes());
        name[8..12].copy_from_slice(&queue.to_ne_bytes());
        name[12..].copy_from_slice(&shares.unwrap_or(0).to_ne_bytes());
        // The kernel releases a queue some time after its last socket was closed, and does not report the release.
        let mut bound = call::bind(self.raw(), &name);
        for _ in 0..TRIES {
            if bound != Err(Errno::EBUSY) {
                break;
            }
            let _ = poll::ppoll(&mut [], Some(1_000_000), None);
            bound = call::bind(self.raw(), &name);
        }
        bound
    }

    /// Creates the completion ring. The kernel requires this ring even for a socket that never sends.
    pub(super) fn sends_nothing(&self) -> core::result::Result<(), Refused> {
        let option = libc::XDP_UMEM_COMPLETION_RING;
        call::setsockopt(self.raw(), libc::SOL_XDP, option, &1u32)
            .map_err(|why| ("XDP_UMEM_COMPLETION_RING", why))
    }

    /// Returns true if the driver puts frames into the chunks itself.
    pub(super) fn is_zero_copy(&self) -> bool {
        call::getsockopt::<u32>(self.raw(), libc::SOL_XDP, libc::XDP_OPTIONS)
            .is_ok_and(|flags| flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// Returns the number of frames that the kernel lost: no chunk was free, the frame was longer than a chunk, or the
    /// ring was full.
    pub(super) fn missed(&self) -> u64 {
        // `struct xdp_statistics`.
        let told: Result<[u64; 6]> =
            call::getsockopt(self.raw(), libc::SOL_XDP, libc::XDP_STATISTICS);
        told.map_or(0, |[dropped, _, _, ring_was_full, ..]| dropped + ring_was_full)
    }

    /// Returns the next frame, or `None`. Returns `Err` for a frame that lies in no chunk.
    pub(super) fn next(&mut self, chunks: &Chunks) -> Option<core::result::Result<Came, ()>> {
        let came = self.received.next(chunks)?;
        self.taken = true;
        Some(came.map_err(|chunk| {
            if let Some(chunk) = chunk {
                self.fill.give(chunk);
            }
        }))
    }

    /// Returns a frame's chunk, for the next frame.
    pub(super) fn give_back(&mut self, came: Came) {
        self.fill.give(came.chunk);
    }

    /// Ends a batch: passes all returned chunks to the kernel.
    pub(super) fn end_batch(&mut self) {
        let taken = core::mem::take(&mut self.taken);
        if taken {
            self.received.publish();
        }
        if taken || self.fill.has_waiting() {
            self.fill.publish();
        }
        if self.fill.wants_wakeup() {
            // The call fails if no driver needs a wake-up.
            let _ = call::recv(self.raw(), &mut [], libc::MSG_DONTWAIT);
        }
    }
}

impl Out {
    /// Lends a chunk for the next frame. Repeated calls lend the same chunk until [`commit`](Out::commit). `None` if no
    /// chunk is free, or the ring is full.
    pub(super) fn slot(&mut self, chunks: &Chunks) -> Option<&mut Chunk> {
        if self.free.is_empty() {
            self.take_back(chunks);
        }
        if self.sending.has_room() { self.free.last_mut() } else { None }
    }

    /// Passes the first `len` bytes of the slot to the kernel, at the next [`publish`](Out::publish). Does nothing
    /// without a slot.
    pub(super) fn commit(&mut self, len: usize) {
        let Some(chunk) = self.free.pop() else { return };
        if let Err(chunk) = self.sending.give(chunk, len) {
            self.free.push(chunk);
        }
    }

    pub(super) fn publish(&self) {
        self.sending.publish();
    }

    /// Takes back the chunks of sent frames.
    pub(super) fn take_back(&mut self, chunks: &Chunks) {
        self.done.take_back(chunks, &mut self.free);
    }

    /// Returns true if there is a slot for another frame.
    pub(super) fn has_room(&mut self) -> bool {
        !self.free.is_empty() && self.sending.has_room()
    }

    /// Returns the number of frames that the kernel has not taken, and the number taken since the last call.
    pub(super) fn left_and_taken(&mut self) -> (u32, u32) {
        let (left, taken) = self.sending.left_and_taken();
        (left, taken.wrapping_sub(core::mem::replace(&mut self.taken, taken)))
    }

    /// Returns true if the kernel takes frames only in a system call.
    pub(super) fn wants_wakeup(&self) -> bool {
        self.sending.wants_wakeup()
    }
}
