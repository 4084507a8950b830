//! A stream socket, used like programs use it: by libc's `read` and `write`.
//!
//! System calls would bypass the library. Calls by libc's symbols go to the library if it is loaded.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};

use super::Link;

/// A connected stream socket. If it is non-blocking, its calls spin.
pub(in crate::measure::bench) struct Socket {
    fd: OwnedFd,
}

impl Socket {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd }
    }

    pub(super) fn set_option(&self, level: i32, name: i32, value: libc::c_int) -> io::Result<()> {
        let length = size_of_val(&value) as libc::socklen_t;
        let value = (&raw const value).cast();
        // SAFETY: `value` points to a live value of `length` bytes.
        let done = unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, name, value, length) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Link for Socket {
    fn send(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            // SAFETY: `data` has `data.len()` readable bytes.
            let len = unsafe { libc::write(self.fd.as_raw_fd(), data.as_ptr().cast(), data.len()) };
            match usize::try_from(len) {
                Ok(len) => data = &data[len..],
                Err(_) => wait_or_fail()?,
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let stream = TcpStream::from(self.fd.try_clone()?);
        // Setting TCP_NODELAY makes Nagle's algorithm send its bytes.
        match stream.set_nodelay(true).and_then(|()| stream.set_nodelay(false)) {
            // A Unix socket holds no bytes back.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            result => result,
        }
    }

    fn receive(&mut self, data: &mut [u8]) -> io::Result<usize> {
        loop {
            // SAFETY: `data` has room for `data.len()` bytes.
            let len =
                unsafe { libc::read(self.fd.as_raw_fd(), data.as_mut_ptr().cast(), data.len()) };
            match usize::try_from(len) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => return Ok(len),
                Err(_) => wait_or_fail()?,
            }
        }
    }
}

/// Handles a failed call. Returns `Ok` if the caller must try again.
fn wait_or_fail() -> io::Result<()> {
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock => std::hint::spin_loop(),
        io::ErrorKind::Interrupted => {}
        _ => return Err(error),
    }
    Ok(())
}
