//! Reads and writes.

use super::TcpStream;
use crate::engine;
use sovia_sockets::ops::{self, Flags};
use sovia_sockets::table::Ref;
use sovia_sys::{UserSlice, UserSliceMut};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};

/// Flags of a receive, with std's behaviour.
const RECEIVE: Flags =
    Flags { dont_wait: false, peek: false, wait_all: false, no_signal: true, empty_waits: true };

/// Flags of a send, with std's behaviour.
const SEND: Flags =
    Flags { dont_wait: false, peek: false, wait_all: false, no_signal: true, empty_waits: false };

/// Largest number of parts of a vectored call for which no allocation is needed.
const FEW: usize = 16;

impl TcpStream {
    /// Copies the next bytes into `buffer` without removing them from the stream.
    ///
    /// # Errors
    /// Like [`std::net::TcpStream::peek`].
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match engine::conn(self.fd()) {
            Some(at) => self.receive(at, &[buffer.into()], Flags { peek: true, ..RECEIVE }),
            None => self.kernel_socket.peek(buffer),
        }
    }

    #[inline]
    fn receive(&self, at: Ref, parts: &[UserSliceMut<'_>], flags: Flags) -> io::Result<usize> {
        let fd = self.fd();
        let how = if flags.peek { libc::MSG_PEEK } else { 0 };
        let kernel = || {
            // On TCP one part at a time is enough, because a read may be short.
            let part = parts.iter().find(|part| !part.is_empty()).copied().unwrap_or_default();
            let (to, len) = (part.as_mut_ptr().cast(), part.len());
            // SAFETY: `part` has room for `len` bytes.
            engine::outcome(unsafe { libc::recv(fd, to, len, how) })
        };
        engine::result(ops::receive_parts(fd, at, parts, flags, kernel))
    }

    #[inline]
    fn send(&self, at: Ref, parts: &[UserSlice<'_>]) -> io::Result<usize> {
        let fd = self.fd();
        let kernel = || {
            // On TCP one part at a time is enough, because a write may be short.
            let part = parts.iter().find(|part| !part.is_empty()).copied().unwrap_or_default();
            let (from, len) = (part.as_ptr().cast(), part.len());
            // SAFETY: `part` has `len` readable bytes.
            engine::outcome(unsafe { libc::send(fd, from, len, libc::MSG_NOSIGNAL) })
        };
        engine::result(ops::send_parts(fd, at, parts, SEND, kernel))
    }
}

impl Read for &TcpStream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match engine::conn(self.fd()) {
            Some(at) => self.receive(at, &[buffer.into()], RECEIVE),
            None => (&self.kernel_socket).read(buffer),
        }
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Some(at) = engine::conn(self.fd()) else {
            return (&self.kernel_socket).read_vectored(parts);
        };
        let mut few = [UserSliceMut::empty(); FEW];
        let count = parts.len().min(FEW);
        for (to, from) in few.iter_mut().zip(parts) {
            *to = (&mut **from).into();
        }
        self.receive(at, &few[..count], RECEIVE)
    }
}

impl Write for &TcpStream {
    #[inline]
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match engine::conn(self.fd()) {
            Some(at) => self.send(at, &[buffer.into()]),
            None => (&self.kernel_socket).write(buffer),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(at) = engine::conn(self.fd()) else {
            return (&self.kernel_socket).write_vectored(parts);
        };
        let mut few = [UserSlice::empty(); FEW];
        let count = parts.len().min(FEW);
        for (to, from) in few.iter_mut().zip(parts) {
            *to = (&**from).into();
        }
        self.send(at, &few[..count])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(parts)
    }
}

impl Write for TcpStream {
    #[inline]
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
