//! A descriptor that tells the kernel's epoll about events of a stream.

use sovia_sockets::native::{self, Engine};
use sovia_sockets::reactor::{self, Notice};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

/// A descriptor on which the kernel's epoll reports that a stream may have become readable or writable, or has ended.
/// [`TcpStream::readiness`](crate::TcpStream::readiness) returns it.
///
/// Register the descriptor **edge-triggered** (`EPOLLET`), for both `EPOLLIN | EPOLLOUT`, and never read or write it.
/// An edge means "try again", for either direction, and may be spurious. A thread that has got `WouldBlock` may wait
/// for the next edge and misses none. A registration gives an edge at once. `tokio::io::unix::AsyncFd` and
/// `mio::unix::SourceFd` use the descriptor in this way.
///
/// An event takes one step more than with a thread that is blocked in a read. The peer wakes Sovia's reactor thread,
/// which makes the edge. On TCP the reactor thread also waits for the kernel socket.
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
    /// An eventfd, to which the reactor writes.
    Notice(Arc<Notice>),
    /// Under `sovia run`: a second descriptor of the stream, because the preloaded library's epoll follows streams.
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
            notice.notify();
        }
    }

    /// Removes the stream from the reactor.
    pub(crate) fn forget(&self) {
        if let Kind::Notice(notice) = &self.0 {
            reactor::forget(notice);
        }
    }

    /// Returns true if an edge for one direction may be reported as an edge for the other.
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
        // SAFETY: `self` owns the eventfd or the second descriptor, so it stays open for the borrow.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}
