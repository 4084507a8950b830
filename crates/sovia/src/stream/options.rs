//! Options. The kernel socket stores them. The engine also records the options that affect a VI.

use super::TcpStream;
use crate::engine;
use libc::c_int;
use sovia_sockets::ops;
use std::io;
use std::time::Duration;

impl TcpStream {
    /// Sets the time after which a waiting read fails with `WouldBlock`. With `None` a read waits for ever.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::set_read_timeout`].
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.kernel_socket.set_read_timeout(timeout)?;
        self.note_option(libc::SOL_SOCKET, libc::SO_RCVTIMEO);
        Ok(())
    }

    /// Sets the time after which a waiting write fails with `WouldBlock`. With `None` a write waits for ever.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::set_write_timeout`].
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

    /// Returns the timeout of reads.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::read_timeout`].
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        self.kernel_socket.read_timeout()
    }

    /// Returns the timeout of writes.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::write_timeout`].
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        self.kernel_socket.write_timeout()
    }

    /// Sets TCP_NODELAY. The option has an effect while the stream is on TCP, and on streams that combine small
    /// messages ([`TcpStream::set_protocol`]). Otherwise a VI never delays a message.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::set_nodelay`].
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.kernel_socket.set_nodelay(nodelay)?;
        self.note_option(libc::IPPROTO_TCP, libc::TCP_NODELAY);
        Ok(())
    }

    /// Returns TCP_NODELAY.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::nodelay`].
    pub fn nodelay(&self) -> io::Result<bool> {
        self.kernel_socket.nodelay()
    }

    /// Sets IP_TTL.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::set_ttl`].
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.kernel_socket.set_ttl(ttl)
    }

    /// Returns IP_TTL.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::ttl`].
    pub fn ttl(&self) -> io::Result<u32> {
        self.kernel_socket.ttl()
    }

    /// Returns and clears SO_ERROR: the outcome of a non-blocking connect, or an error of the connection.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::take_error`].
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.kernel_socket.take_error()
    }

    /// Sets whether calls fail with `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::set_nonblocking`].
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.kernel_socket.set_nonblocking(nonblocking)?;
        if let Some(at) = engine::conn(self.fd()) {
            ops::nonblocking(at, nonblocking);
        }
        Ok(())
    }
}
