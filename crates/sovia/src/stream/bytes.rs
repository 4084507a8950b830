//! Reading and writing.

use super::TcpStream;
use crate::engine;
use sovia_sockets::ops::{self, Flags};
use sovia_sockets::table::Ref;
use sovia_sys::{UserSlice, UserSliceMut};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};

/// How a receive of std's behaves.
const RECEIVE: Flags =
    Flags { dont_wait: false, peek: false, wait_all: false, no_signal: true, empty_waits: true };

/// How a send of std's behaves.
const SEND: Flags =
    Flags { dont_wait: false, peek: false, wait_all: false, no_signal: true, empty_waits: false };

/// Parts of a vectored call that need no allocation.
const FEW: usize = 16;

impl TcpStream {
    /// Copies what would be read next, and leaves it there.
    ///
    /// # Errors
    /// As [`std::net::TcpStream::peek`].
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
            // On TCP a part at a time is enough: a read may be short.
            let part = parts.iter().find(|part| !part.is_empty()).copied().unwrap_or_default();
            let (to, len) = (part.as_mut_ptr().cast(), part.len());
            // SAFETY: the part has room for as many bytes.
            engine::outcome(unsafe { libc::recv(fd, to, len, how) })
        };
        engine::result(ops::receive_parts(fd, at, parts, flags, kernel))
    }

    #[inline]
    fn send(&self, at: Ref, parts: &[UserSlice<'_>]) -> io::Result<usize> {
        let fd = self.fd();
        let kernel = || {
            // On TCP a part at a time is enough: a write may be short.
            let part = parts.iter().find(|part| !part.is_empty()).copied().unwrap_or_default();
            let (from, len) = (part.as_ptr().cast(), part.len());
            // SAFETY: the part has as many bytes.
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
