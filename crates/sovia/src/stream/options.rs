//! Options. The kernel's socket has them; those that a VI keeps to are noted as well.

use super::TcpStream;
use crate::engine;
use libc::c_int;
use sovia_sockets::ops;
use std::io;
use std::time::Duration;

impl TcpStream {
    /// How long a read waits before it fails with `WouldBlock`; `None`: for ever.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::set_read_timeout`].
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.kernel_socket.set_read_timeout(timeout)?;
        self.note_option(libc::SOL_SOCKET, libc::SO_RCVTIMEO);
        Ok(())
    }

    /// How long a write waits before it fails with `WouldBlock`; `None`: for ever.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::set_write_timeout`].
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.kernel_socket.set_write_timeout(timeout)?;
        self.note_option(libc::SOL_SOCKET, libc::SO_SNDTIMEO);
        Ok(())
    }

    fn note_option(&self, level: c_int, name: c_int) {
        if let Some(at) = engine::conn(self.fd()) {
            ops::note_option(self.fd(), at, level, name);
        }
    }

    /// The timeout of reads.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::read_timeout`].
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        self.kernel_socket.read_timeout()
    }

    /// The timeout of writes.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::write_timeout`].
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        self.kernel_socket.write_timeout()
    }

    /// Sets TCP_NODELAY: it is for the time on TCP, and for streams whose small messages are
    /// combined ([`TcpStream::set_protocol`]). Other than by these a VI delays nothing.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::set_nodelay`].
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.kernel_socket.set_nodelay(nodelay)?;
        self.note_option(libc::IPPROTO_TCP, libc::TCP_NODELAY);
        Ok(())
    }

    /// TCP_NODELAY.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::nodelay`].
    pub fn nodelay(&self) -> io::Result<bool> {
        self.kernel_socket.nodelay()
    }

    /// Sets IP_TTL.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::set_ttl`].
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.kernel_socket.set_ttl(ttl)
    }

    /// IP_TTL.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::ttl`].
    pub fn ttl(&self) -> io::Result<u32> {
        self.kernel_socket.ttl()
    }

    /// SO_ERROR: how a non-blocking connect went, or what has befallen the connection.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::take_error`].
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.kernel_socket.take_error()
    }

    /// Whether calls return at once with `WouldBlock` where they would wait.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::set_nonblocking`].
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.kernel_socket.set_nonblocking(nonblocking)?;
        if let Some(at) = engine::conn(self.fd()) {
            ops::nonblocking(at, nonblocking);
        }
        Ok(())
    }
}
