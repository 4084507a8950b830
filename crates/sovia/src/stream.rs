//! The stream.

mod bytes;
mod convert;
mod options;

use crate::{Readiness, Stats, engine, origin};
use sovia_sockets::conn::Role;
use sovia_sockets::native;
use sovia_sockets::ops;
use std::fmt;
use std::io;
use std::net::{self, Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, RawFd};
use std::sync::OnceLock;
use std::time::Duration;

/// A TCP stream that runs over a VI if possible. In every other respect it behaves like [`std::net::TcpStream`].
///
/// ```
/// use sovia::{TcpListener, TcpStream};
/// use std::io::{Read, Write};
///
/// # let listener = TcpListener::bind("127.0.0.1:0")?;
/// # let address = listener.local_addr()?;
/// # let server = std::thread::spawn(move || {
/// #     let (mut stream, _) = listener.accept()?;
/// #     let mut request = [0; 4];
/// #     while stream.read_exact(&mut request).is_ok() {
/// #         stream.write_all(&request)?;
/// #     }
/// #     std::io::Result::Ok(())
/// # });
/// let mut stream = TcpStream::connect(address)?;
/// stream.set_nodelay(true)?;
/// let mut answer = [0; 4];
/// for number in 0..100u32 {
///     stream.write_all(&number.to_le_bytes())?;
///     stream.read_exact(&mut answer)?;
///     assert_eq!(u32::from_le_bytes(answer), number);
/// }
/// println!("{} requests went over shared memory", stream.stats().messages_sent);
///
/// // For code that knows the kernel's sockets only.
/// let stream = std::net::TcpStream::from(stream);
/// # drop(stream);
/// # server.join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpStream {
    kernel_socket: net::TcpStream,
    readiness: OnceLock<Readiness>,
}

impl TcpStream {
    /// Makes a stream whose descriptor is on the engine's record already, or never will be.
    pub(crate) fn of(kernel_socket: net::TcpStream) -> TcpStream {
        TcpStream { kernel_socket, readiness: OnceLock::new() }
    }

    fn fd(&self) -> RawFd {
        self.kernel_socket.as_raw_fd()
    }

    /// Connects to the first of the given addresses that accepts a connection.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::connect`].
    pub fn connect<A: ToSocketAddrs>(address: A) -> io::Result<TcpStream> {
        net::TcpStream::connect(address).map(TcpStream::from_connected)
    }

    /// Connects to an address, or fails when `timeout` has passed.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::connect_timeout`].
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        net::TcpStream::connect_timeout(address, timeout).map(TcpStream::from_connected)
    }

    /// Begins to connect, and returns at once. The stream is non-blocking. When the stream is writable,
    /// [`TcpStream::take_error`] returns the outcome.
    ///
    /// # Errors
    /// The errors of socket(2) and of a non-blocking connect(2).
    pub fn connect_nonblocking(address: &SocketAddr) -> io::Result<TcpStream> {
        let (storage, len) = raw_address(address);
        let domain = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: takes numbers only. No other code owns the returned descriptor.
        let kernel_socket = unsafe {
            let fd = libc::socket(domain, kind, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            net::TcpStream::from_raw_fd(fd)
        };
        // SAFETY: `storage` is a live address of `len` bytes.
        let result =
            unsafe { libc::connect(kernel_socket.as_raw_fd(), (&raw const storage).cast(), len) };
        if result != 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINPROGRESS) {
                return Err(error);
            }
        }
        Ok(TcpStream::from_connected(kernel_socket))
    }

    /// Takes over a stream that std has connected. A stream on which bytes have already moved stays on TCP.
    pub fn from_connected(stream: net::TcpStream) -> TcpStream {
        TcpStream::take_over(stream, || Ok(Role::Connector))
    }

    /// Takes over a stream that std has accepted. A stream on which bytes have already moved stays on TCP.
    pub fn from_accepted(stream: net::TcpStream) -> TcpStream {
        TcpStream::take_over(stream, || Ok(Role::Acceptor))
    }

    fn take_over(
        kernel_socket: net::TcpStream,
        role: impl FnOnce() -> io::Result<Role>,
    ) -> TcpStream {
        if origin::is_fresh(&kernel_socket)
            && let Ok(role) = role()
        {
            engine::record(kernel_socket.as_raw_fd(), role);
        }
        TcpStream::of(kernel_socket)
    }

    /// Returns the peer's address.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::peer_addr`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.kernel_socket.peer_addr()
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.kernel_socket.local_addr()
    }

    /// Shuts down one direction, or both.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::shutdown`].
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let Some(at) = engine::conn(self.fd()) else { return self.kernel_socket.shutdown(how) };
        let number = match how {
            Shutdown::Read => libc::SHUT_RD,
            Shutdown::Write => libc::SHUT_WR,
            Shutdown::Both => libc::SHUT_RDWR,
        };
        // SAFETY: takes numbers only.
        let kernel = || engine::outcome(unsafe { libc::shutdown(self.fd(), number) } as isize);
        engine::result(ops::shutdown(self.fd(), at, number, kernel)).map(drop)
    }

    /// Returns a second descriptor of the same stream.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::try_clone`].
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        let kernel_socket = self.kernel_socket.try_clone()?;
        engine::duplicated(self.fd(), kernel_socket.as_raw_fd());
        Ok(TcpStream::of(kernel_socket))
    }

    /// Returns true if the stream has a VI.
    pub fn is_accelerated(&self) -> bool {
        native::info_here(self.fd()).is_accelerated()
    }

    /// Returns counters of the stream's VI, or the reason why the stream has none.
    pub fn stats(&self) -> Stats {
        native::info_here(self.fd()).into()
    }

    /// Sets the stream's configuration of the papers' protocol, before the stream gets its VI. The text is that of
    /// `sovia run --protocol`, such as `"w=8,t=4"`, `"SOVIA_COMBINE"` or `"handler,copy"`. It chooses the thread that
    /// handles messages, the way bytes are sent, window, threshold, chunk size and combining.
    ///
    /// # Errors
    /// `EINVAL` for an invalid text. `EISCONN` if the stream already has its VI, which happens at its third transfer at
    /// the earliest. `ENOTCONN` if the stream is on TCP for good. `ENOTSUP` under a `sovia run` of another version.
    pub fn set_protocol(&self, text: &str) -> io::Result<()> {
        native::choose_here(self.fd(), text.as_bytes()).map_err(io::Error::from_raw_os_error)
    }

    /// Moves the stream to TCP for good, without losing bytes or their order. Afterwards the descriptor is an ordinary
    /// one, which other programs can use. The call waits for the other end's part of the move. If the other end is
    /// stopped, the call waits at most two seconds.
    ///
    /// # Errors
    /// `ENOTSUP` under a `sovia run` of another version.
    pub fn to_tcp(&self) -> io::Result<()> {
        native::to_tcp_here(self.fd()).map_err(io::Error::from_raw_os_error)
    }

    /// Returns a descriptor that an event loop can wait for. The first call makes the descriptor. Drop it before the
    /// stream: under `sovia run` it would keep the stream open.
    ///
    /// # Errors
    /// An error if the process cannot get another descriptor or thread.
    pub fn readiness(&self) -> io::Result<Readiness> {
        let readiness = self.shared_readiness()?;
        readiness.tell();
        Ok(readiness.clone())
    }

    pub(crate) fn shared_readiness(&self) -> io::Result<&Readiness> {
        if let Some(readiness) = self.readiness.get() {
            return Ok(readiness);
        }
        let fresh = Readiness::of(self.as_fd())?;
        if let Err(second) = self.readiness.set(fresh) {
            // Another thread has stored its readiness first.
            second.forget();
        }
        self.readiness.get().ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        if let Some(readiness) = self.readiness.get() {
            readiness.forget();
        }
        engine::closing(self.fd());
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kernel_socket.fmt(f)
    }
}

/// Converts an address to the kernel's structure, and returns its length.
fn raw_address(address: &SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeroes are a valid sockaddr_storage, of family AF_UNSPEC.
    let mut storage: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
    let place = &raw mut storage;
    let len = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: a sockaddr_storage has the size and alignment for each kind of address.
            unsafe { place.cast::<libc::sockaddr_in>().write(raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: a sockaddr_storage has the size and alignment for each kind of address.
            unsafe { place.cast::<libc::sockaddr_in6>().write(raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as libc::socklen_t)
}
