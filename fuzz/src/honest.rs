//! The honest side of a connection: a program that makes libc's calls, as the preloaded library carries them out.

use core::cell::{Cell, RefCell};
use sovia_sockets::conn::Role;
use sovia_sockets::ops::{self, Flags};
use sovia_sockets::pollset::{self, PollCall};
use sovia_sockets::rendezvous::Server;
use sovia_sockets::table::{self, Ref};
use sovia_sockets::{Outcome, native, process_id};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

/// How it calls: no call of the honest side waits.
pub const FLAGS: Flags =
    Flags { dont_wait: true, peek: false, wait_all: false, no_signal: true, empty_waits: false };

/// Starts the engine in this process.
pub fn start() {
    // SAFETY: before any other thread; the engine reads it when it starts.
    unsafe { std::env::set_var("SOVIA_MEET", "1") };
    sovia_sockets::start();
    assert!(process_id() > 0);
}

/// A connection of the honest program.
#[derive(Debug)]
pub struct Honest {
    socket: TcpStream,
    at: Ref,
}

impl Honest {
    /// Puts a fresh connection on record.
    ///
    /// # Panics
    /// If the engine does not take it: then nothing is tested.
    pub fn new(socket: TcpStream, role: Role) -> Honest {
        ops::opened(socket.as_raw_fd(), role, Server::Unknown);
        let at = table::conn(socket.as_raw_fd()).expect("the engine follows the connection");
        Honest { socket, at }
    }

    /// The descriptor.
    pub fn fd(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// Returns true if the connection runs on a VI.
    pub fn is_attached(&self) -> bool {
        native::info(self.fd()).is_accelerated()
    }

    /// Returns the number of the connection's VI.
    pub fn vi(&self) -> u32 {
        self.at.conn.vi.load(Ordering::Relaxed)
    }

    /// Returns the engine's reference to the connection.
    pub fn at(&self) -> Ref {
        self.at
    }

    /// `poll`, without waiting.
    pub fn poll(&self) -> i16 {
        let events = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;
        let mut fds = [libc::pollfd { fd: self.fd(), events, revents: 0 }];
        let _ = pollset::wait(&mut fds, PollCall::Poll, Some(0), None);
        fds[0].revents
    }

    /// `recv`.
    pub fn receive(&self, out: &mut [u8], peek: bool) -> Outcome {
        // `std` reads to a slice, which the program's buffer is not while the engine has it.
        let by_kernel = RefCell::new(vec![0; out.len()]);
        let filled = Cell::new(0);
        let kernel = || {
            let buffer = &mut by_kernel.borrow_mut()[..];
            let n = if peek { self.socket.peek(buffer) } else { (&self.socket).read(buffer) };
            filled.set(n.map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?);
            Ok(filled.get())
        };
        let flags = Flags { peek, ..FLAGS };
        let result = ops::receive(self.fd(), self.at, (&mut *out).into(), flags, kernel);
        let filled = filled.get();
        out[..filled].copy_from_slice(&by_kernel.borrow()[..filled]);
        result
    }

    /// `send`.
    pub fn send(&self, bytes: &[u8]) -> Outcome {
        ops::send(self.fd(), self.at, bytes.into(), FLAGS, || {
            (&self.socket).write(bytes).map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))
        })
    }

    /// `ioctl(FIONREAD)`.
    pub fn unread(&self) -> Outcome {
        ops::fionread(self.fd(), self.at, || {
            sovia_sys::call::bytes_unread(self.fd()).map_err(|e| e.into_raw())
        })
    }

    /// `shutdown`.
    pub fn shutdown(&self, how: i32) -> Outcome {
        let kernel = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            _ => Shutdown::Both,
        };
        ops::shutdown(self.fd(), self.at, how, || {
            let done = self.socket.shutdown(kernel);
            done.map(|()| 0).map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))
        })
    }

    /// SO_ERROR.
    pub fn error(&self) -> Option<i32> {
        ops::pending_error(self.fd(), self.at)
    }
}

impl Drop for Honest {
    /// `close`.
    fn drop(&mut self) {
        ops::close(self.fd());
    }
}
