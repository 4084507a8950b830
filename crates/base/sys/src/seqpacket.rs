//! Connections over abstract Unix names that preserve message boundaries (`SOCK_SEQPACKET`).
//!
//! Unlike datagram sockets, a connection ends with its process, and the kernel tells each end the other end's
//! process.

use crate::call::{self, RawFd, Result, Sysno};
use crate::datagram::{self, Name, Received};
use crate::fd::Fd;

const KIND: i32 = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
const BACKLOG: i32 = 128;

/// A socket that accepts connections at a name.
#[derive(Debug)]
pub struct Listener(Fd);

impl From<Listener> for Fd {
    fn from(listener: Listener) -> Fd {
        listener.0
    }
}

impl From<Packets> for Fd {
    fn from(packets: Packets) -> Fd {
        packets.0
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Packets(Fd);

impl Listener {
    /// Makes a listener at `name`.
    ///
    /// # Errors
    /// `EADDRINUSE` if another socket has the name.
    pub fn bind(name: &Name) -> Result<Listener> {
        Listener::at(name.to_sockaddr())
    }

    /// Makes a listener at a file's path, which other network namespaces can also reach.
    ///
    /// # Errors
    /// `EADDRINUSE` if the file exists; others if it cannot be made.
    pub fn bind_file(path: &[u8]) -> Result<Listener> {
        Listener::at(datagram::file_address(path)?)
    }

    /// Makes a listener of a socket that another process has sent.
    pub fn of(socket: Fd) -> Listener {
        Listener(socket)
    }

    fn at((address, len): (libc::sockaddr_un, u32)) -> Result<Listener> {
        let socket = Fd::adopt(call::socket(libc::AF_UNIX, KIND, 0)?);
        // SAFETY: the address outlives the call, and `len` is at most its size.
        unsafe { syscalls::syscall!(Sysno::bind, socket.raw(), &raw const address, len) }?;
        // SAFETY: the call takes only numbers.
        unsafe { syscalls::syscall!(Sysno::listen, socket.raw(), BACKLOG) }?;
        Ok(Listener(socket))
    }

    /// Returns the descriptor, to wait on.
    pub fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Refuses every connection from now on, in every process that holds the listener.
    pub fn shutdown(&self) {
        // Shutting down a listening socket cannot fail.
        let _ = call::shutdown(self.raw(), libc::SHUT_RDWR);
    }

    /// Accepts the next connection. Never blocks.
    ///
    /// # Errors
    /// `EAGAIN` if no connection waits.
    pub fn accept(&self) -> Result<Packets> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the address pointers are null, and the other arguments are numbers.
        let fd = unsafe { syscalls::syscall!(Sysno::accept4, self.raw(), 0usize, 0usize, flags) }?;
        Ok(Packets(Fd::adopt(fd as RawFd)))
    }
}

impl Packets {
    /// Connects to the listener at `name`. Never blocks.
    ///
    /// # Errors
    /// `ECONNREFUSED` if there is no listener, `EAGAIN` if its queue is full.
    pub fn connect(name: &Name) -> Result<Packets> {
        Packets::to(name.to_sockaddr())
    }

    /// Like [`Packets::connect`], for a listener at a file's path.
    ///
    /// # Errors
    /// `ENOENT` or `ECONNREFUSED` if there is no listener, `EAGAIN` if its queue is full.
    pub fn connect_file(path: &[u8]) -> Result<Packets> {
        Packets::to(datagram::file_address(path)?)
    }

    /// Makes one end of a connection from a socket that another process has sent.
    pub fn of(socket: Fd) -> Packets {
        Packets(socket)
    }

    /// Makes both ends of a connection.
    ///
    /// # Errors
    /// Those of `socketpair`.
    pub fn pair() -> Result<(Packets, Packets)> {
        let [one, other] = call::socketpair(libc::AF_UNIX, KIND)?.map(Fd::adopt);
        Ok((Packets(one), Packets(other)))
    }

    fn to((address, len): (libc::sockaddr_un, u32)) -> Result<Packets> {
        let socket = Fd::adopt(call::socket(libc::AF_UNIX, KIND, 0)?);
        // SAFETY: the address outlives the call, and `len` is at most its size.
        unsafe { syscalls::syscall!(Sysno::connect, socket.raw(), &raw const address, len) }?;
        Ok(Packets(socket))
    }

    /// Returns the descriptor, to wait on.
    pub fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Returns process id and user id of the other end, as of its connect or listen. The process id is 0 if this
    /// PID namespace does not show the process.
    pub fn peer(&self) -> Result<(i32, u32)> {
        let [pid, uid, _gid] =
            call::getsockopt::<[u32; 3]>(self.raw(), libc::SOL_SOCKET, libc::SO_PEERCRED)?;
        Ok((pid as i32, uid))
    }

    /// Opens a pidfd of the other end's process; see [`crate::process`].
    pub fn peer_process(&self) -> Result<Fd> {
        const SO_PEERPIDFD: i32 = 77;
        match call::getsockopt::<i32>(self.raw(), libc::SOL_SOCKET, SO_PEERPIDFD) {
            Ok(fd) => Ok(Fd::adopt(fd)),
            // The kernel is older than Linux 6.5. Another process may have got the id since, so a caller that
            // must be sure also watches the connection.
            Err(_) => crate::process::open(self.peer()?.0),
        }
    }

    /// Sends one message with up to [`datagram::FDS_MAX`] descriptors. Never blocks.
    ///
    /// # Errors
    /// `EPIPE` or `ECONNRESET` if the other end is closed, `EAGAIN` if the queue is full.
    pub fn send(&self, payload: &[u8], fds: &[RawFd]) -> Result<()> {
        datagram::send_message(self.raw(), None, payload, fds)
    }

    /// Returns the kernel memory, in bytes, of the messages that the other end has not received.
    ///
    /// # Errors
    /// Those of `ioctl`.
    pub fn unread(&self) -> Result<usize> {
        call::bytes_in_queue(self.raw())
    }

    /// Ends the connection for both ends, also for a thread that waits on it.
    pub fn shutdown(&self) {
        // An error means that the connection has already ended.
        let _ = call::shutdown(self.raw(), libc::SHUT_RDWR);
    }

    /// Receives the next message. An empty message means that the other end is closed. Never blocks.
    ///
    /// # Errors
    /// `EAGAIN` if there is no message, `ECONNRESET` if the other end is closed.
    pub fn receive(&self, buf: &mut [u8]) -> Result<Received> {
        datagram::receive_message(self.raw(), buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Errno;

    #[test]
    fn both_ends_know_each_other_and_the_end() {
        let name = Name::new(format!("sovia-seqpacket-test-{}", call::getpid()).as_bytes());
        let name = name.unwrap();
        assert_eq!(Packets::connect(&name).unwrap_err(), Errno::ECONNREFUSED);
        let listener = Listener::bind(&name).unwrap();
        assert_eq!(listener.accept().unwrap_err(), Errno::EAGAIN);
        let a = Packets::connect(&name).unwrap();
        let b = listener.accept().unwrap();
        let me = (call::getpid(), call::geteuid());
        assert_eq!((a.peer().unwrap(), b.peer().unwrap()), (me, me));
        assert!(a.peer_process().is_ok());
        a.send(b"one", &[]).unwrap();
        a.send(b"two", &[listener.raw()]).unwrap();
        drop(a);
        let mut buf = [0; 16];
        assert_eq!(b.receive(&mut buf).unwrap().len, 3);
        assert_eq!(b.receive(&mut buf).unwrap().fds.len(), 1);
        // A child that another test has forked may have a copy of the other end for a moment.
        let end = loop {
            match b.receive(&mut buf) {
                Err(Errno::EAGAIN) => call::sched_yield(),
                end => break end,
            }
        };
        assert_eq!(end.unwrap().len, 0);
    }
}
