//! Lent buffers, with which a program sends and receives without a copy.

use crate::TcpStream;
use sovia_sockets::loan::Loan;
use sovia_sockets::native;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;

/// Largest size of a [`SendBuffer`], in bytes.
pub const BUFFER_MAX: usize = sovia_sockets::loan::MAX;

/// A buffer in which a program writes a message in place, from [`TcpStream::reserve`]. Dropping the buffer sends
/// nothing.
///
/// A new buffer contains zeroes, or bytes of earlier messages.
///
/// ```
/// # let listener = sovia::TcpListener::bind("127.0.0.1:0")?;
/// # let sender = sovia::TcpStream::connect(listener.local_addr()?)?;
/// # let receiver = listener.accept()?.0;
/// let mut message = sender.reserve(4096)?;
/// message[..5].copy_from_slice(b"hello");
/// message.commit(5)?;
/// # drop(message);
/// # assert_eq!(&receiver.borrow()?[..], b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct SendBuffer<'a> {
    stream: &'a TcpStream,
    loan: Loan,
}

/// Received bytes, lent in place by [`TcpStream::borrow`]. The buffer is empty at the end of the stream.
///
/// ```
/// # use std::io::Write;
/// # let listener = sovia::TcpListener::bind("127.0.0.1:0")?;
/// # let mut sender = sovia::TcpStream::connect(listener.local_addr()?)?;
/// # let receiver = listener.accept()?.0;
/// # sender.write_all(b"1, 2, 3")?;
/// # drop(sender);
/// let mut sum = 0;
/// loop {
///     let bytes = receiver.borrow()?;
///     if bytes.is_empty() {
///         break;
///     }
///     sum += bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
/// }
/// assert_eq!(sum, 3);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct RecvBuffer<'a> {
    loan: Loan,
    stream: PhantomData<&'a TcpStream>,
}

impl TcpStream {
    /// Reserves a buffer of `len` bytes (1 to [`BUFFER_MAX`]), to write the next message into. On a VI the buffer is in
    /// the memory that both ends share, and [`SendBuffer::commit`] copies nothing. On TCP, and while the receiver is
    /// far behind, the buffer is ordinary memory.
    ///
    /// Only one buffer of a stream is in shared memory at a time. Other calls may send while the buffer is reserved.
    /// The buffer's bytes are sent when the program commits them.
    ///
    /// # Errors
    /// `InvalidInput` if `len` is 0, `EMSGSIZE` if `len` is too large.
    pub fn reserve(&self, len: usize) -> io::Result<SendBuffer<'_>> {
        let loan =
            native::lend_here(self.as_raw_fd(), len).map_err(io::Error::from_raw_os_error)?;
        Ok(SendBuffer { stream: self, loan })
    }

    /// Waits for bytes and lends them in place, until the buffer is dropped. Returns at most [`BUFFER_MAX`] bytes, and
    /// none at the end of the stream. On a VI nothing is copied if the bytes came in a message of more than 112 bytes,
    /// and no other buffer is borrowed.
    ///
    /// # Errors
    /// The errors of a read.
    pub fn borrow(&self) -> io::Result<RecvBuffer<'_>> {
        let loan =
            native::borrow_here(self.as_raw_fd(), 0).map_err(io::Error::from_raw_os_error)?;
        Ok(RecvBuffer { loan, stream: PhantomData })
    }
}

impl SendBuffer<'_> {
    /// Sends the first `len` bytes as one message. Afterwards the buffer is empty, except after the error `WouldBlock`
    /// or `Interrupted`. After one of these errors, the same call continues where this call stopped.
    ///
    /// # Errors
    /// The errors of a write; `InvalidInput` if the buffer has fewer than `len` bytes.
    pub fn commit(&mut self, len: usize) -> io::Result<()> {
        let fd = self.stream.as_raw_fd();
        native::commit_here(fd, &mut self.loan, len, libc::MSG_NOSIGNAL)
            .map(drop)
            .map_err(io::Error::from_raw_os_error)
    }

    /// Returns true if the buffer is in shared memory.
    pub fn is_in_place(&self) -> bool {
        self.loan.is_in_place()
    }
}

impl RecvBuffer<'_> {
    /// Returns true if the buffer is in shared memory.
    pub fn is_in_place(&self) -> bool {
        self.loan.is_in_place()
    }
}

/// Returns the bytes of a loan.
fn bytes(loan: &Loan) -> &[u8] {
    if loan.is_empty() {
        return &[];
    }
    // SAFETY: the loan's memory stays mapped or allocated until the loan is given back, and the borrow of the loan
    // forbids that. In shared memory, a correct peer writes neither to a message that it has sent, nor to a buffer that
    // this process has reserved. A peer with a memory error can change the values of bytes, and nothing else: it could
    // also have sent such bytes.
    unsafe { core::slice::from_raw_parts(loan.memory(), loan.len()) }
}

impl Deref for SendBuffer<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        bytes(&self.loan)
    }
}

impl DerefMut for SendBuffer<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        if self.loan.is_empty() {
            return &mut [];
        }
        // SAFETY: the loan's memory stays mapped or allocated until the loan is given back. The loan is borrowed
        // mutably, so this process has no other reference to the bytes.
        unsafe { core::slice::from_raw_parts_mut(self.loan.memory(), self.loan.len()) }
    }
}

impl Deref for RecvBuffer<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        bytes(&self.loan)
    }
}

impl Drop for SendBuffer<'_> {
    fn drop(&mut self) {
        native::give_back_here(&mut self.loan);
    }
}

impl Drop for RecvBuffer<'_> {
    fn drop(&mut self) {
        native::give_back_here(&mut self.loan);
    }
}

impl fmt::Debug for SendBuffer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendBuffer").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for RecvBuffer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvBuffer").field("len", &self.len()).finish_non_exhaustive()
    }
}
