//! Reading and writing.

use super::TcpStream;
use crate::engine;
use sovia_sockets::ops::{self, Flags};
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
            Some(_) => self.receive(&mut [buffer], Flags { peek: true, ..RECEIVE }),
            None => self.anchor.peek(buffer),
        }
    }

    #[inline]
    fn receive(&self, parts: &mut [&mut [u8]], flags: Flags) -> io::Result<usize> {
        let fd = self.fd();
        let Some(at) = engine::conn(fd) else {
            return parts.first_mut().map_or(Ok(0), |part| (&self.anchor).read(part));
        };
        let how = if flags.peek { libc::MSG_PEEK } else { 0 };
        let mut first = (core::ptr::null_mut(), 0);
        if let Some(part) = parts.iter_mut().find(|part| !part.is_empty()) {
            first = (part.as_mut_ptr(), part.len());
        }
        // On TCP a part at a time is enough: a read may be short.
        // SAFETY: the first part that has room, which stays borrowed for the call.
        let kernel = || engine::outcome(unsafe { libc::recv(fd, first.0.cast(), first.1, how) });
        engine::result(ops::receive_parts(fd, at, parts, flags, kernel))
    }

    #[inline]
    fn send(&self, parts: &[&[u8]]) -> io::Result<usize> {
        let fd = self.fd();
        let Some(at) = engine::conn(fd) else {
            return parts.first().map_or(Ok(0), |part| (&self.anchor).write(part));
        };
        let kernel = || {
            // On TCP a part at a time is enough: a write may be short.
            let part = parts.iter().find(|part| !part.is_empty()).copied().unwrap_or_default();
            let (from, len) = (part.as_ptr().cast(), part.len());
            // SAFETY: a live slice.
            engine::outcome(unsafe { libc::send(fd, from, len, libc::MSG_NOSIGNAL) })
        };
        engine::result(ops::send_parts(fd, at, parts, SEND, kernel))
    }
}

impl Read for &TcpStream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(&mut [buffer], RECEIVE)
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let on_tcp = engine::conn(self.fd()).is_none();
        if on_tcp {
            return (&self.anchor).read_vectored(parts);
        }
        let mut few: [&mut [u8]; FEW] = core::array::from_fn(|_| &mut [][..]);
        let count = parts.len().min(FEW);
        for (to, from) in few.iter_mut().zip(parts) {
            *to = from;
        }
        self.receive(&mut few[..count], RECEIVE)
    }
}

impl Write for &TcpStream {
    #[inline]
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.send(&[buffer])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if engine::conn(self.fd()).is_none() {
            return (&self.anchor).write_vectored(parts);
        }
        let mut few: [&[u8]; FEW] = [&[]; FEW];
        let count = parts.len().min(FEW);
        for (to, from) in few.iter_mut().zip(parts) {
            *to = from;
        }
        self.send(&few[..count])
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
