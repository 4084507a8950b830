//! Listens for and accepts streams.

use crate::{TcpStream, engine};
use sovia_sockets::conn::Role;
use std::fmt;
use std::io;
use std::net::{self, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

/// A listening socket like [`std::net::TcpListener`], which accepts Sovia's streams. The listener is an ordinary kernel
/// socket, so any event loop can wait for it.
///
/// ```
/// use sovia::{TcpListener, TcpStream};
/// use std::io::Write;
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let client = std::thread::spawn(move || TcpStream::connect(address)?.write_all(b"one\n"));
///
/// for stream in listener.incoming().take(1) {
///     assert_eq!(std::io::read_to_string(stream?)?, "one\n");
/// }
/// # client.join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpListener {
    inner: net::TcpListener,
}

impl TcpListener {
    /// Listens at an address.
    ///
    /// # Errors
    /// Like [`std::net::TcpListener::bind`].
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<TcpListener> {
        net::TcpListener::bind(address).map(TcpListener::from)
    }

    /// Waits for a connection, and returns the stream with the peer's address.
    ///
    /// # Errors
    /// Like [`std::net::TcpListener::accept`].
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.inner.accept()?;
        engine::record(stream.as_raw_fd(), Role::Acceptor);
        Ok((TcpStream::of(stream), peer))
    }

    /// Returns an iterator over incoming connections. The iterator never ends.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Returns the address at which this socket listens.
    ///
    /// # Errors
    /// Like [`std::net::TcpListener::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Returns a second descriptor of the same socket.
    ///
    /// # Errors
    /// Like [`std::net::TcpListener::try_clone`].
    pub fn try_clone(&self) -> io::Result<TcpListener> {
        self.inner.try_clone().map(TcpListener::from)
    }

    /// Sets whether [`TcpListener::accept`] fails with `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// Like [`std::net::TcpListener::set_nonblocking`].
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.inner.set_nonblocking(nonblocking)
    }

    /// Sets IP_TTL.
    ///
    /// # Errors
    /// Like [`std::net::TcpListener::set_ttl`].
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.inner.set_ttl(ttl)
    }

    /// Returns IP_TTL.
    ///
    /// # Errors
    /// Like [`std::net::TcpListener::ttl`].
    pub fn ttl(&self) -> io::Result<u32> {
        self.inner.ttl()
    }

    /// Returns and clears SO_ERROR.
    ///
    /// # Errors
    /// Like [`std::net::TcpListener::take_error`].
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.inner.take_error()
    }
}

/// Iterator over incoming connections; see [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl std::iter::FusedIterator for Incoming<'_> {}

/// Takes over a listener of std. From now on it accepts Sovia's streams.
impl From<net::TcpListener> for TcpListener {
    fn from(inner: net::TcpListener) -> TcpListener {
        TcpListener { inner }
    }
}

impl From<TcpListener> for net::TcpListener {
    fn from(listener: TcpListener) -> net::TcpListener {
        listener.inner
    }
}

impl From<OwnedFd> for TcpListener {
    fn from(fd: OwnedFd) -> TcpListener {
        net::TcpListener::from(fd).into()
    }
}

impl From<TcpListener> for OwnedFd {
    fn from(listener: TcpListener) -> OwnedFd {
        listener.inner.into()
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl AsRawFd for TcpListener {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

impl IntoRawFd for TcpListener {
    fn into_raw_fd(self) -> RawFd {
        self.inner.into_raw_fd()
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
