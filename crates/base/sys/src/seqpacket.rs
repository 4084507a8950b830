//! Connections over abstract Unix names that keep messages apart: `SOCK_SEQPACKET`.
//!
//! Unlike datagrams they end with their process, and both ends know from the kernel which process
//! the other is.

use crate::call::{self, RawFd, Result, Sysno};
use crate::datagram::{self, Name, Received};
use crate::fd::Fd;

const KIND: i32 = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
const BACKLOG: i32 = 128;

/// Waits for connections at a name.
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
    /// A listener at `name`.
    ///
    /// # Errors
    /// `EADDRINUSE` where another socket holds the name.
    pub fn bind(name: &Name) -> Result<Listener> {
        Listener::at(name.to_sockaddr())
    }

    /// A listener that is found by a file's path, from other network namespaces, too.
    ///
    /// # Errors
    /// `EADDRINUSE` where there is a file, whatever refuses to make one.
    pub fn bind_file(path: &[u8]) -> Result<Listener> {
        Listener::at(datagram::file_address(path)?)
    }

    /// A listener that another process has handed over.
    pub fn of(socket: Fd) -> Listener {
        Listener(socket)
    }

    fn at((address, len): (libc::sockaddr_un, u32)) -> Result<Listener> {
        let socket = Fd::adopt(call::socket(libc::AF_UNIX, KIND, 0)?);
        // SAFETY: the address outlives the call and `len` lies within it.
        unsafe { syscalls::syscall!(Sysno::bind, socket.raw(), &raw const address, len) }?;
        // SAFETY: takes plain numbers.
        unsafe { syscalls::syscall!(Sysno::listen, socket.raw(), BACKLOG) }?;
        Ok(Listener(socket))
    }

    /// The descriptor, to wait on.
    pub fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Refuses every connection from now on, in every process that holds the listener.
    pub fn shutdown(&self) {
        // A listener can be shut down.
        let _ = call::shutdown(self.raw(), libc::SHUT_RDWR);
    }

    /// The next connection; never blocks.
    ///
    /// # Errors
    /// `EAGAIN` when there is none.
    pub fn accept(&self) -> Result<Packets> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no address is asked for; the rest are plain numbers.
        let fd = unsafe { syscalls::syscall!(Sysno::accept4, self.raw(), 0usize, 0usize, flags) }?;
        Ok(Packets(Fd::adopt(fd as RawFd)))
    }
}

impl Packets {
    /// Connects to the listener at `name`; never blocks.
    ///
    /// # Errors
    /// `ECONNREFUSED` where there is none, `EAGAIN` where too many wait to be accepted.
    pub fn connect(name: &Name) -> Result<Packets> {
        Packets::to(name.to_sockaddr())
    }

    /// The same, to one that is found by a file's path.
    ///
    /// # Errors
    /// `ENOENT` and `ECONNREFUSED` where there is none, `EAGAIN` where too many wait to be accepted.
    pub fn connect_file(path: &[u8]) -> Result<Packets> {
        Packets::to(datagram::file_address(path)?)
    }

    /// One end of a connection that another process has handed over.
    pub fn of(socket: Fd) -> Packets {
        Packets(socket)
    }

    /// Two ends of a connection.
    ///
    /// # Errors
    /// Those of `socketpair`.
    pub fn pair() -> Result<(Packets, Packets)> {
        let [one, other] = call::socketpair(libc::AF_UNIX, KIND)?.map(Fd::adopt);
        Ok((Packets(one), Packets(other)))
    }

    fn to((address, len): (libc::sockaddr_un, u32)) -> Result<Packets> {
        let socket = Fd::adopt(call::socket(libc::AF_UNIX, KIND, 0)?);
        // SAFETY: the address outlives the call and `len` lies within it.
        unsafe { syscalls::syscall!(Sysno::connect, socket.raw(), &raw const address, len) }?;
        Ok(Packets(socket))
    }

    /// The descriptor, to wait on.
    pub fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Process and user id of the other end when it connected, or began to listen. The process
    /// is 0 where it cannot be seen from here.
    pub fn peer(&self) -> Result<(i32, u32)> {
        let [pid, uid, _gid] =
            call::getsockopt::<[u32; 3]>(self.raw(), libc::SOL_SOCKET, libc::SO_PEERCRED)?;
        Ok((pid as i32, uid))
    }

    /// A handle on the other end's process; see [`crate::process`].
    pub fn peer_process(&self) -> Result<Fd> {
        const SO_PEERPIDFD: i32 = 77;
        match call::getsockopt::<i32>(self.raw(), libc::SOL_SOCKET, SO_PEERPIDFD) {
            Ok(fd) => Ok(Fd::adopt(fd)),
            // Before Linux 6.5. The number may have been given to another process since: a caller
            // that needs to be sure also watches the connection.
            Err(_) => crate::process::open(self.peer()?.0),
        }
    }

    /// Sends one message with up to [`datagram::FDS_MAX`] descriptors; never blocks.
    ///
    /// # Errors
    /// `EPIPE` or `ECONNRESET` when the other end is gone, `EAGAIN` when it does not read.
    pub fn send(&self, payload: &[u8], fds: &[RawFd]) -> Result<()> {
        datagram::send_message(self.raw(), None, payload, fds)
    }

    /// What the other end has not taken yet, in bytes of the kernel's memory.
    ///
    /// # Errors
    /// Those of `ioctl`.
    pub fn unread(&self) -> Result<usize> {
        call::bytes_in_queue(self.raw())
    }

    /// Ends the connection for both ends, also for a thread that waits on it.
    pub fn shutdown(&self) {
        // An end that is over already is what was wanted.
        let _ = call::shutdown(self.raw(), libc::SHUT_RDWR);
    }

    /// Takes the next message; an empty one says that the other end is gone. Never blocks.
    ///
    /// # Errors
    /// `EAGAIN` when there is none, `ECONNRESET` when the other end is gone.
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
        // A child that another test has forked may hold the other end for a moment.
        let end = loop {
            match b.receive(&mut buf) {
                Err(Errno::EAGAIN) => call::sched_yield(),
                end => break end,
            }
        };
        assert_eq!(end.unwrap().len, 0);
    }
}
