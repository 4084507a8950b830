//! Buffers that are lent, so that bytes need not be copied.

use crate::TcpStream;
use sovia_sockets::loan::Loan;
use sovia_sockets::native;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;

/// Bytes that a [`SendBuffer`] may have.
pub const BUFFER_MAX: usize = sovia_sockets::loan::MAX;

/// A message to be written in its place, and sent: [`TcpStream::reserve`]. Dropped, it is not sent.
///
/// What is in it at first is left from earlier messages, or zero.
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

/// Bytes that have arrived, where they lie: [`TcpStream::borrow`]. Empty at the end of the stream.
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
    /// Reserves a buffer of `len` bytes (1 to [`BUFFER_MAX`]) to write the next message into. On a
    /// VI it lies in the memory that both ends share, and [`SendBuffer::commit`] copies nothing.
    /// On TCP, and while the other end is far behind, it is ordinary memory.
    ///
    /// One buffer of a stream is in shared memory at a time. Other calls may send meanwhile: what is
    /// in the buffer goes when it is committed.
    ///
    /// # Errors
    /// `InvalidInput` for no bytes, `EMSGSIZE` for too many.
    pub fn reserve(&self, len: usize) -> io::Result<SendBuffer<'_>> {
        let loan =
            native::lend_here(self.as_raw_fd(), len).map_err(io::Error::from_raw_os_error)?;
        Ok(SendBuffer { stream: self, loan })
    }

    /// Waits for bytes, and lends them where they lie, until the buffer is dropped: at most
    /// [`BUFFER_MAX`], none at the end of the stream. On a VI nothing is copied if they came in a
    /// message of more than 112 bytes and no other is borrowed.
    ///
    /// # Errors
    /// As a read.
    pub fn borrow(&self) -> io::Result<RecvBuffer<'_>> {
        let loan =
            native::borrow_here(self.as_raw_fd(), 0).map_err(io::Error::from_raw_os_error)?;
        Ok(RecvBuffer { loan, stream: PhantomData })
    }
}

impl SendBuffer<'_> {
    /// Sends the first `len` bytes as one message. The buffer is empty afterwards, unless the error
    /// is `WouldBlock` or `Interrupted`: then the same call goes on where this one stopped.
    ///
    /// # Errors
    /// As a write; `InvalidInput` if there are fewer bytes.
    pub fn commit(&mut self, len: usize) -> io::Result<()> {
        let fd = self.stream.as_raw_fd();
        native::commit_here(fd, &mut self.loan, len, libc::MSG_NOSIGNAL)
            .map(drop)
            .map_err(io::Error::from_raw_os_error)
    }

    /// Whether it lies in shared memory.
    pub fn is_in_place(&self) -> bool {
        self.loan.is_in_place()
    }
}

impl RecvBuffer<'_> {
    /// Whether it lies in shared memory.
    pub fn is_in_place(&self) -> bool {
        self.loan.is_in_place()
    }
}

/// The bytes of a loan.
fn bytes(loan: &Loan) -> &[u8] {
    if loan.is_empty() {
        return &[];
    }
    // SAFETY: the loan's memory, mapped or allocated until it is given back, which a borrow of it
    // forbids. In shared memory the peer leaves a message alone once it has been sent, and has no
    // business in what is being written here; one that does otherwise is a process of the same
    // user with a memory error, and changes the value of bytes that it could have sent.
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
        // SAFETY: as for `bytes`; the loan is borrowed mutably.
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
