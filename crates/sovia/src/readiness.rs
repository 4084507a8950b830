//! A descriptor for event loops that know the kernel's only.

use sovia_sockets::native::{self, Engine};
use sovia_sockets::reactor::{self, Notice};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

/// A descriptor that the kernel's epoll tells of when a stream may have become readable or writable,
/// or has ended: [`TcpStream::readiness`](crate::TcpStream::readiness).
///
/// It is to be registered **edge-triggered** (`EPOLLET`), for `EPOLLIN | EPOLLOUT` both, and never
/// read from or written to. An edge means "try again", for either direction, and may mean nothing; a thread
/// that has met `WouldBlock` may wait for the next one and misses none. Registering it gives an edge at
/// once. `tokio::io::unix::AsyncFd` and `mio::unix::SourceFd` use it in this way.
///
/// News take one hop more than to a thread that is blocked in a read: the peer wakes a thread of
/// Sovia's, which makes the edge. On TCP it is the same thread that waits for the kernel's socket.
///
/// ```
/// use mio::unix::SourceFd;
/// use mio::{Events, Interest, Poll, Token};
/// use std::io::{Read, Write};
/// use std::os::fd::AsRawFd;
///
/// # let listener = sovia::TcpListener::bind("127.0.0.1:0")?;
/// # let mut peer = sovia::TcpStream::connect(listener.local_addr()?)?;
/// # let mut stream = listener.accept()?.0;
/// let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(8));
/// let readiness = stream.readiness()?;
/// let both = Interest::READABLE | Interest::WRITABLE;
/// poll.registry().register(&mut SourceFd(&readiness.as_raw_fd()), Token(0), both)?;
///
/// stream.set_nonblocking(true)?;
/// peer.write_all(b"x")?;
/// let mut byte = [0];
/// while let Err(error) = stream.read(&mut byte) {
///     assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
///     poll.poll(&mut events, None)?;
/// }
/// assert_eq!(&byte, b"x");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Readiness(Kind);

#[derive(Debug, Clone)]
enum Kind {
    /// An eventfd, written to by the reactor.
    Notice(Arc<Notice>),
    /// Under `sovia run` the loop's own epoll knows of the stream: a second descriptor of it.
    Itself(Arc<OwnedFd>),
}

impl Readiness {
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<Readiness> {
        Ok(Readiness(match native::engine() {
            Engine::Own => {
                let notice =
                    reactor::watch(fd.as_raw_fd()).map_err(io::Error::from_raw_os_error)?;
                Kind::Notice(notice)
            }
            Engine::Preloaded(_) | Engine::Strange => {
                Kind::Itself(Arc::new(fd.try_clone_to_owned()?))
            }
        }))
    }

    /// Makes an edge, for a caller that has just registered the descriptor.
    pub(crate) fn tell(&self) {
        if let Kind::Notice(notice) = &self.0 {
            notice.tell();
        }
    }

    /// The stream leaves.
    pub(crate) fn forget(&self) {
        if let Kind::Notice(notice) = &self.0 {
            reactor::forget(notice);
        }
    }

    /// Whether an edge for one direction may come as one for the other.
    #[cfg(feature = "mio")]
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.0, Kind::Notice(_))
    }
}

impl AsRawFd for Readiness {
    fn as_raw_fd(&self) -> RawFd {
        match &self.0 {
            Kind::Notice(notice) => notice.raw(),
            Kind::Itself(fd) => fd.as_raw_fd(),
        }
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the eventfd, or the second descriptor, stays open while `self` is there.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}
