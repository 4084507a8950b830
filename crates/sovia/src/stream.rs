//! One stream.

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

/// A TCP stream that runs over a VI wherever it can: [`std::net::TcpStream`] in every other respect.
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
    /// A stream whose descriptor is on the engine's record already, or shall not be.
    pub(crate) fn of(kernel_socket: net::TcpStream) -> TcpStream {
        TcpStream { kernel_socket, readiness: OnceLock::new() }
    }

    fn fd(&self) -> RawFd {
        self.kernel_socket.as_raw_fd()
    }

    /// Connects to the first of these addresses that answers.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::connect`].
    pub fn connect<A: ToSocketAddrs>(address: A) -> io::Result<TcpStream> {
        net::TcpStream::connect(address).map(TcpStream::from_connected)
    }

    /// Connects within a time.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::connect_timeout`].
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        net::TcpStream::connect_timeout(address, timeout).map(TcpStream::from_connected)
    }

    /// Begins to connect, and returns at once; the stream is non-blocking. When it is writable,
    /// [`TcpStream::take_error`] tells how it went.
    ///
    /// # Errors
    /// What the kernel says to a socket, or to its first step.
    pub fn connect_nonblocking(address: &SocketAddr) -> io::Result<TcpStream> {
        let (storage, len) = raw_address(address);
        let domain = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: takes numbers only; what it returns is ours alone.
        let kernel_socket = unsafe {
            let fd = libc::socket(domain, kind, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            net::TcpStream::from_raw_fd(fd)
        };
        // SAFETY: a live address of that length.
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

    /// Takes over a stream that std has connected. One on which bytes have moved already stays on
    /// TCP.
    pub fn from_connected(stream: net::TcpStream) -> TcpStream {
        TcpStream::take_over(stream, || Ok(Role::Connector))
    }

    /// Takes over a stream that std has accepted. One on which bytes have moved already stays on
    /// TCP.
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

    /// The peer's address.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::peer_addr`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.kernel_socket.peer_addr()
    }

    /// Our own address.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.kernel_socket.local_addr()
    }

    /// Ends one direction, or both.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::shutdown`].
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

    /// A second descriptor of the same stream.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::try_clone`].
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        let kernel_socket = self.kernel_socket.try_clone()?;
        engine::duplicated(self.fd(), kernel_socket.as_raw_fd());
        Ok(TcpStream::of(kernel_socket))
    }

    /// Whether the stream has a VI.
    pub fn is_accelerated(&self) -> bool {
        native::info_here(self.fd()).is_accelerated()
    }

    /// What went over the VI, or why there is none.
    pub fn stats(&self) -> Stats {
        native::info_here(self.fd()).into()
    }

    /// Chooses what the stream does of the papers' protocol once it has its VI: which thread handles messages,
    /// how bytes are sent, window, threshold, chunk and combining, as in `sovia run --protocol`, such as
    /// `"w=8,t=4"`, `"SOVIA_COMBINE"` or `"handler,copy"`.
    ///
    /// # Errors
    /// `EINVAL` for a text that means nothing, `EISCONN` if the stream has its VI already (so: before
    /// it has moved bytes three times), `ENOTCONN` if it is on TCP for good, `ENOTSUP` under a
    /// `sovia run` of another version.
    pub fn set_protocol(&self, text: &str) -> io::Result<()> {
        native::choose_here(self.fd(), text.as_bytes()).map_err(io::Error::from_raw_os_error)
    }

    /// Takes the stream to TCP for good, with every byte in its place: from then on its descriptor
    /// is an ordinary one, fit for other programs. It takes as long as the other end needs for its
    /// part, and two seconds at most if that is stopped.
    ///
    /// # Errors
    /// `ENOTSUP` under a `sovia run` of another version.
    pub fn to_tcp(&self) -> io::Result<()> {
        native::to_tcp_here(self.fd()).map_err(io::Error::from_raw_os_error)
    }

    /// A descriptor that an event loop can wait for; made when first asked for. Let it go before the
    /// stream: under `sovia run` it would keep it open.
    ///
    /// # Errors
    /// If there is no descriptor or thread to be had.
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
            // Another thread was first.
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

/// An address as the kernel takes it.
fn raw_address(address: &SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeroes are an address of no family.
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
            // SAFETY: a storage has room for each kind of address, and its alignment.
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
            // SAFETY: as above.
            unsafe { place.cast::<libc::sockaddr_in6>().write(raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as libc::socklen_t)
}
