//! The stream, as a program has it.

use crate::buffer::Buffer;
use crate::core::{Borrowed, Core, Patience};
use crate::error::TransferError;
use crate::received::Received;
use core::time::Duration;
use sovia_proto::configuration::Configuration;
use sovia_proto::state::State;
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use via::Nic;

/// A stream of bytes in both directions, over a VI.
///
/// Several threads may use it at once; what each writes by one call of [`Stream::write`] up to a
/// packet's length stays together. `Read` and `Write` are there for `&Stream` as well. Dropping it
/// closes it: at once, and what has been written still arrives ([`Stream::close`]).
///
/// **A writer may be ahead of its reader by the window**: `w` packets of at most a chunk each,
/// however short, as in the papers.
#[derive(Debug)]
pub struct Stream<N: Nic + 'static>(pub(crate) Arc<Core<N>>);

impl<N: Nic + 'static> Stream<N> {
    /// How it was configured at this end.
    pub fn configuration(&self) -> &Configuration {
        &self.0.configuration
    }

    /// Its state (ICS figure 11).
    pub fn state(&self) -> State {
        self.0.state()
    }

    /// Writes all bytes, waiting for room. Returns how many were written before the connection
    /// was lost, if any were.
    ///
    /// # Errors
    /// [`TransferError::Shut`], [`TransferError::Reset`].
    pub fn write(&self, bytes: &[u8]) -> Result<usize, TransferError> {
        self.0.write(bytes, Patience::Endless)
    }

    /// Writes what there is room for now, at least one byte. What it sends is copied, whatever the
    /// configuration says: the program has its buffer back at once.
    ///
    /// # Errors
    /// As for [`Stream::write`], and [`TransferError::WouldBlock`].
    pub fn try_write(&self, bytes: &[u8]) -> Result<usize, TransferError> {
        self.0.write(bytes, Patience::None)
    }

    /// Writes as much as there is room for within that time, at least one byte. Copies, as
    /// [`Stream::try_write`] does.
    ///
    /// # Errors
    /// As for [`Stream::write`], and [`TransferError::TimedOut`].
    pub fn write_within(&self, bytes: &[u8], timeout: Duration) -> Result<usize, TransferError> {
        self.0.write(bytes, Patience::of(Some(timeout)))
    }

    /// Reads some bytes, waiting for the first; 0 at the stream's end. What waits to be combined is
    /// sent first.
    ///
    /// # Errors
    /// [`TransferError::Reset`], once everything that came before has been read.
    pub fn read(&self, out: &mut [u8]) -> Result<usize, TransferError> {
        self.0.read(out, Patience::Endless)
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// As for [`Stream::read`], and [`TransferError::WouldBlock`].
    pub fn try_read(&self, out: &mut [u8]) -> Result<usize, TransferError> {
        self.0.read(out, Patience::None)
    }

    /// Reads some bytes, waiting for the first no longer than that.
    ///
    /// # Errors
    /// As for [`Stream::read`], and [`TransferError::TimedOut`].
    pub fn read_within(&self, out: &mut [u8], timeout: Duration) -> Result<usize, TransferError> {
        self.0.read(out, Patience::of(Some(timeout)))
    }

    /// Borrows the next packet where it has arrived, waiting for it; `None` at the stream's end.
    /// It is the reader's until it is dropped, and takes a place of the window meanwhile.
    ///
    /// # Errors
    /// As for [`Stream::read`].
    pub fn borrow(&self) -> Result<Option<Received<'_, N>>, TransferError> {
        self.borrowed(Patience::Endless)
    }

    /// Borrows the next packet if it is there.
    ///
    /// # Errors
    /// As for [`Stream::try_read`].
    pub fn try_borrow(&self) -> Result<Option<Received<'_, N>>, TransferError> {
        self.borrowed(Patience::None)
    }

    fn borrowed(&self, patience: Patience) -> Result<Option<Received<'_, N>>, TransferError> {
        Ok(self.0.borrow(patience)?.map(|borrowed| match borrowed {
            Borrowed::Packet { receive, len, had } => Received::packet(&self.0, receive, len, had),
            Borrowed::Bytes(bytes) => Received::own(&self.0, bytes),
        }))
    }

    /// Lends the first `len` bytes of a buffer to be sent as one packet, waiting for room in the
    /// window and not for the transfer; [`Stream::reclaim`] hands it back.
    ///
    /// # Errors
    /// The buffer, and as for [`Stream::write`]; [`TransferError::TooLong`] for more than a packet
    /// carries.
    pub fn lend(&self, buffer: Buffer<N>, len: usize) -> Result<(), (Buffer<N>, TransferError)> {
        self.0.lend(buffer, len, Patience::Endless)
    }

    /// As [`Stream::lend`], without waiting.
    ///
    /// # Errors
    /// As for [`Stream::lend`], and [`TransferError::WouldBlock`].
    pub fn try_lend(
        &self,
        buffer: Buffer<N>,
        len: usize,
    ) -> Result<(), (Buffer<N>, TransferError)> {
        self.0.lend(buffer, len, Patience::None)
    }

    /// The oldest lent buffer, once its transfer is done, waiting for it; `None` if none is lent.
    /// Buffers of a lost connection come back too.
    pub fn reclaim(&self) -> Option<Buffer<N>> {
        self.0.reclaim(Patience::Endless)
    }

    /// The oldest lent buffer whose transfer is done.
    pub fn try_reclaim(&self) -> Option<Buffer<N>> {
        self.0.reclaim(Patience::None)
    }

    /// Bytes that can be read without waiting.
    pub fn readable(&self) -> usize {
        self.0.readable()
    }

    /// Whether a write would take something without waiting.
    pub fn is_writable(&self) -> bool {
        self.0.is_writable()
    }

    /// Switches combining on or off, as TCP_NODELAY does; off sends what waits. For streams that
    /// are configured to combine; others never do.
    pub fn set_combining(&self, on: bool) {
        self.0.set_combining(on);
    }

    /// Sends what waits to be combined, as soon as the window lets it.
    pub fn flush(&self) {
        self.0.flush();
    }

    /// Closes one half, or both. Closing the sending half sends FIN behind all that was written;
    /// after closing the receiving half, reads are at the stream's end and what arrives is dropped.
    ///
    /// With SOVIA_RDMA a thread whose buffer the other end may write to stays in its read until the other end has done so or is
    /// gone. That does not depend on the other program: only a call that is waiting to write is given leave to, and it writes as
    /// soon as it has leave. A peer that is stopped, or that breaks the protocol and never writes, delays the thread;
    /// [`Stream::abort`] releases it from that.
    ///
    /// # Errors
    /// None; the result is that of `TcpStream`'s.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how != Shutdown::Read {
            self.0.shutdown();
        }
        if how != Shutdown::Write {
            self.0.shutdown_reading();
        }
        Ok(())
    }

    /// Closes it and returns at once. What has been written arrives: if it cannot all be sent now,
    /// a thread of the stack's sees to it (the papers' close thread). A peer that goes on writing
    /// finds the connection lost.
    pub fn close(self) {}

    /// Gives the connection up: what is not sent is not sent, and the peer finds it lost.
    pub fn abort(self) {
        self.0.abort();
    }
}

impl<N: Nic + 'static> Drop for Stream<N> {
    fn drop(&mut self) {
        self.0.forsake();
        self.0.shutdown();
        self.0.shutdown_reading();
        if !self.0.closed() {
            self.0.stack.finish(self.0.clone());
        }
    }
}

impl<N: Nic + 'static> io::Read for &Stream<N> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        Ok(Stream::read(self, out)?)
    }
}

impl<N: Nic + 'static> io::Write for &Stream<N> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(Stream::write(self, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Stream::flush(self);
        Ok(())
    }
}

impl<N: Nic + 'static> io::Read for Stream<N> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        Ok(Stream::read(self, out)?)
    }
}

impl<N: Nic + 'static> io::Write for Stream<N> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(Stream::write(self, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Stream::flush(self);
        Ok(())
    }
}
