//! The stream type of a program.

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
/// Several threads may use a stream at once. The bytes of one [`Stream::write`] call stay together, up to a packet's
/// length. `Read` and `Write` are also implemented for `&Stream`. Dropping a stream closes it at once, and written
/// bytes still arrive ([`Stream::close`]).
///
/// **A writer can be ahead of its reader by the window**: `w` packets of at most a chunk each. Short packets count
/// fully, as in the papers.
#[derive(Debug)]
pub struct Stream<N: Nic + 'static>(pub(crate) Arc<Core<N>>);

impl<N: Nic + 'static> Stream<N> {
    /// Returns the configuration of this end.
    pub fn configuration(&self) -> &Configuration {
        &self.0.configuration
    }

    /// Returns the stream's state (ICS figure 11).
    pub fn state(&self) -> State {
        self.0.state()
    }

    /// Writes all bytes, and waits for room. If the connection is lost after some bytes, returns the number of written
    /// bytes.
    ///
    /// # Errors
    /// [`TransferError::Shut`], [`TransferError::Reset`].
    pub fn write(&self, bytes: &[u8]) -> Result<usize, TransferError> {
        self.0.write(bytes, Patience::Endless)
    }

    /// Writes the bytes that there is room for now, at least one. The call always copies, whatever the configuration
    /// says, so the program can reuse its buffer at once.
    ///
    /// # Errors
    /// Like [`Stream::write`], and [`TransferError::WouldBlock`].
    pub fn try_write(&self, bytes: &[u8]) -> Result<usize, TransferError> {
        self.0.write(bytes, Patience::None)
    }

    /// Writes the bytes that find room within `timeout`, at least one. Copies like [`Stream::try_write`].
    ///
    /// # Errors
    /// Like [`Stream::write`], and [`TransferError::TimedOut`].
    pub fn write_within(&self, bytes: &[u8], timeout: Duration) -> Result<usize, TransferError> {
        self.0.write(bytes, Patience::of(Some(timeout)))
    }

    /// Reads some bytes, and waits for the first; 0 at the stream's end. First sends the combined bytes that wait.
    ///
    /// # Errors
    /// [`TransferError::Reset`], once the program has read all bytes that arrived before.
    pub fn read(&self, out: &mut [u8]) -> Result<usize, TransferError> {
        self.0.read(out, Patience::Endless)
    }

    /// Reads the bytes that have arrived.
    ///
    /// # Errors
    /// Like [`Stream::read`], and [`TransferError::WouldBlock`].
    pub fn try_read(&self, out: &mut [u8]) -> Result<usize, TransferError> {
        self.0.read(out, Patience::None)
    }

    /// Reads some bytes, and waits at most `timeout` for the first.
    ///
    /// # Errors
    /// Like [`Stream::read`], and [`TransferError::TimedOut`].
    pub fn read_within(&self, out: &mut [u8], timeout: Duration) -> Result<usize, TransferError> {
        self.0.read(out, Patience::of(Some(timeout)))
    }

    /// Waits for the next packet, and borrows it in its receive buffer; `None` at the stream's end. The packet takes a
    /// place of the window until it is dropped.
    ///
    /// # Errors
    /// Like [`Stream::read`].
    pub fn borrow(&self) -> Result<Option<Received<'_, N>>, TransferError> {
        self.borrowed(Patience::Endless)
    }

    /// Borrows the next packet if it has arrived.
    ///
    /// # Errors
    /// Like [`Stream::try_read`].
    pub fn try_borrow(&self) -> Result<Option<Received<'_, N>>, TransferError> {
        self.borrowed(Patience::None)
    }

    fn borrowed(&self, patience: Patience) -> Result<Option<Received<'_, N>>, TransferError> {
        Ok(self.0.borrow(patience)?.map(|borrowed| match borrowed {
            Borrowed::Packet { receive, len, had } => Received::packet(&self.0, receive, len, had),
            Borrowed::Bytes(bytes) => Received::own(&self.0, bytes),
        }))
    }

    /// Lends the first `len` bytes of a buffer and sends them as one packet. Waits for room in the window, but not for
    /// the transfer. [`Stream::reclaim`] returns the buffer.
    ///
    /// # Errors
    /// The buffer, with an error like that of [`Stream::write`]; [`TransferError::TooLong`] for more bytes than a
    /// packet carries.
    pub fn lend(&self, buffer: Buffer<N>, len: usize) -> Result<(), (Buffer<N>, TransferError)> {
        self.0.lend(buffer, len, Patience::Endless)
    }

    /// Like [`Stream::lend`], without waiting.
    ///
    /// # Errors
    /// Like [`Stream::lend`], and [`TransferError::WouldBlock`].
    pub fn try_lend(
        &self,
        buffer: Buffer<N>,
        len: usize,
    ) -> Result<(), (Buffer<N>, TransferError)> {
        self.0.lend(buffer, len, Patience::None)
    }

    /// Returns the oldest lent buffer, and waits for its transfer; `None` if no buffer is lent. Also returns buffers of
    /// a lost connection.
    pub fn reclaim(&self) -> Option<Buffer<N>> {
        self.0.reclaim(Patience::Endless)
    }

    /// Returns the oldest lent buffer whose transfer is done.
    pub fn try_reclaim(&self) -> Option<Buffer<N>> {
        self.0.reclaim(Patience::None)
    }

    /// Number of bytes that can be read without waiting.
    pub fn readable(&self) -> usize {
        self.0.readable()
    }

    /// Returns true if a write would accept bytes without waiting.
    pub fn is_writable(&self) -> bool {
        self.0.is_writable()
    }

    /// Enables or disables combining, like TCP_NODELAY. Disabling sends the bytes that wait. Has no effect on a stream
    /// that is not configured to combine.
    pub fn set_combining(&self, on: bool) {
        self.0.set_combining(on);
    }

    /// Sends the combined bytes that wait, as soon as the window allows it.
    pub fn flush(&self) {
        self.0.flush();
    }

    /// Closes one half or both. Closing the sending half sends FIN after all written bytes. After the receiving half is
    /// closed, reads return the stream's end, and the stream drops arriving bytes.
    ///
    /// With SOVIA_RDMA, a thread whose buffer the peer may write to stays in its read until the peer has written or is
    /// gone. This wait does not depend on the peer's program: only a call that waits to write gets permission, and it
    /// then writes at once. A stopped peer, or a peer that breaks the protocol and never writes, delays the thread.
    /// [`Stream::abort`] releases the thread in this case.
    ///
    /// # Errors
    /// None. The signature is that of `TcpStream::shutdown`.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how != Shutdown::Read {
            self.0.shutdown();
        }
        if how != Shutdown::Write {
            self.0.shutdown_reading();
        }
        Ok(())
    }

    /// Closes the stream and returns at once. All written bytes arrive: if they cannot be sent now, a thread of the
    /// stack sends them (the papers' close thread). A peer that continues to write loses the connection.
    pub fn close(self) {}

    /// Aborts the connection. Bytes that have not been sent are lost, and the peer finds the connection lost.
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
