//! Finds the owner of the other end of a local TCP connection (`NETLINK_SOCK_DIAG`).
//!
//! This process asks the kernel for the socket with the same addresses in reverse order. The answer holds the
//! owner's user id and the socket's cookie. A connection changes its path only after the peer's claim has matched
//! this answer.

use crate::call::{self, Errno, Result};
use crate::fd::Fd;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The kernel's data about a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User id of the socket's creator.
    pub uid: u32,
    /// The kernel's cookie, unique among all sockets since boot.
    pub cookie: u64,
    /// Set while a process has a descriptor of the socket, from accept until the last close. After the last close
    /// the kernel still sends the remaining bytes.
    pub is_held: bool,
    /// Set while neither end has closed its direction.
    pub is_established: bool,
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const REQUEST_LEN: usize = 16 + 56;
/// States of a TCP socket.
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;

/// Returns the cookie of a socket of this process (`SO_COOKIE`).
pub fn cookie(fd: i32) -> Result<u64> {
    call::getsockopt(fd, libc::SOL_SOCKET, libc::SO_COOKIE)
}

/// Looks up the TCP socket whose local address is `local` and whose peer is `peer`.
///
/// # Errors
/// `ENOENT` if there is no such socket; the error of a system call if netlink is forbidden.
pub fn tcp_owner(local: SocketAddr, peer: SocketAddr) -> Result<Owner> {
    let request = request(local, peer)?;
    by_kept(|netlink| ask(netlink, &request))
}

/// Calls `ask` with the kept netlink socket. If there is no such socket or `ask` fails, calls `ask` with a new
/// socket. Keeps the new socket after a success.
fn by_kept<T>(ask: impl Fn(i32) -> Result<T>) -> Result<T> {
    // A kept socket saves making one. But it may belong to a network namespace that this process has left. So ask
    // a new socket again if the kept one finds nothing.
    if let Some(Ok(answer)) = kept::with(&ask) {
        return Ok(answer);
    }
    let netlink = open()?;
    let answer = ask(netlink.raw());
    if answer.is_ok() {
        kept::keep(netlink);
    }
    answer
}

/// Like [`tcp_owner`], but always asks in the calling thread's present network namespace.
///
/// # Errors
/// Those of [`tcp_owner`].
pub fn tcp_owner_here(local: SocketAddr, peer: SocketAddr) -> Result<Owner> {
    ask(open()?.raw(), &request(local, peer)?)
}

/// Returns true if a socket listens for connections to `local`, at this address or at all addresses.
///
/// # Errors
/// The error of a system call if netlink is forbidden.
pub fn is_listened_at(local: SocketAddr) -> Result<bool> {
    // No connection comes from port 0, so the kernel finds no connection instead of the listener.
    let nowhere = match local.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let request = request(local, SocketAddr::new(nowhere, 0))?;
    let mut answer = [0u8; 512];
    match parse(exchange(open()?.raw(), &request, &mut answer)?) {
        Ok((_, state)) => Ok(state == LISTEN),
        Err(Errno::ENOENT) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Returns the inode of the socket that a Unix socket is connected to.
///
/// # Errors
/// `ENOTCONN` if there is none; the error of a system call if netlink is forbidden.
pub fn unix_peer(fd: i32) -> Result<u64> {
    const LEN: usize = 16 + 24;
    const SHOW_PEER: u32 = 4;
    const PEER: u16 = 2;
    let (_, inode) = call::file_id(fd)?;
    let mut r = [0u8; LEN];
    let body = begin(&mut r);
    body[0] = libc::AF_UNIX as u8;
    body[4..8].copy_from_slice(&u32::MAX.to_ne_bytes()); // every state
    body[8..12].copy_from_slice(&(inode as u32).to_ne_bytes());
    body[12..16].copy_from_slice(&SHOW_PEER.to_ne_bytes());
    body[16..24].copy_from_slice(&[0xff; 8]); // any cookie
    let mut room = [0u8; 512];
    let answer = exchange(open()?.raw(), &r, &mut room)?;
    if u16_at(answer, 4) != Some(SOCK_DIAG_BY_FAMILY) {
        return Err(Errno::ENOTCONN);
    }
    // The attributes follow `struct unix_diag_msg` (16 bytes).
    let peer = attribute(answer, 16 + 16, PEER).ok_or(Errno::ENOTCONN)?;
    u32_at(peer, 0).map(u64::from).ok_or(Errno::EBADMSG)
}

/// Returns the numbers of bytes that a program has sent and received on the TCP socket with these addresses. The
/// kernel counts them since Linux 4.19.
///
/// # Errors
/// Those of [`tcp_owner`]; `EBADMSG` if the kernel is older.
pub fn tcp_bytes(local: SocketAddr, peer: SocketAddr) -> Result<(u64, u64)> {
    let mut request = request(local, peer)?;
    request[16 + 2] = 1 << (INFO - 1);
    by_kept(|netlink| ask_for_bytes(netlink, &request))
}

/// `INET_DIAG_INFO`.
const INFO: u16 = 2;

fn ask_for_bytes(netlink: i32, request: &[u8; REQUEST_LEN]) -> Result<(u64, u64)> {
    // Offsets in `struct tcp_info`.
    const RECEIVED: usize = 128;
    const NOT_SENT: usize = 144;
    const SENT: usize = 200;
    const SENT_AGAIN: usize = 208;
    let mut room = [0u8; 512];
    let answer = exchange(netlink, request, &mut room)?;
    if let (_, LISTEN) = parse(answer)? {
        return Err(Errno::ENOENT);
    }
    // The attributes follow `struct inet_diag_msg` (72 bytes).
    let info = attribute(answer, 16 + 72, INFO).ok_or(Errno::EBADMSG)?;
    let count = |at: usize| {
        let bytes = info.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u64::from_ne_bytes).ok_or(Errno::EBADMSG)
    };
    let not_sent = u64::from(u32_at(info, NOT_SENT).ok_or(Errno::EBADMSG)?);
    let sent = count(SENT)?.wrapping_sub(count(SENT_AGAIN)?).wrapping_add(not_sent);
    Ok((sent, count(RECEIVED)?))
}

/// Returns the value of the attribute (length, type, value) of type `kind`, among the attributes from offset `at`
/// on.
fn attribute(answer: &[u8], mut at: usize, kind: u16) -> Option<&[u8]> {
    while let (Some(len @ 4..), Some(found)) = (u16_at(answer, at), u16_at(answer, at + 2)) {
        let len = usize::from(len);
        if found == kind {
            return answer.get(at + 4..at + len);
        }
        at += len.next_multiple_of(4);
    }
    None
}

fn open() -> Result<Fd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    Fd::make(|| call::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG))
}

fn ask(netlink: i32, request: &[u8; REQUEST_LEN]) -> Result<Owner> {
    let mut answer = [0u8; 512];
    // If the end no longer exists, the kernel returns the listener at its address.
    match parse(exchange(netlink, request, &mut answer)?)? {
        (_, LISTEN) => Err(Errno::ENOENT),
        (owner, _) => Ok(owner),
    }
}

fn exchange<'a>(netlink: i32, request: &[u8], answer: &'a mut [u8; 512]) -> Result<&'a [u8]> {
    call::send(netlink, request, 0)?;
    let len = call::recv(netlink, &mut answer[..], 0)?;
    Ok(&answer[..len.min(answer.len())])
}

/// A netlink socket that stays open.
mod kept {
    use super::cookie;
    use crate::call;
    use crate::fd::Fd;
    use core::cell::UnsafeCell;
    use core::sync::atomic::{AtomicBool, Ordering};

    struct Kept {
        /// Set while a thread uses the socket. If a fork happens meanwhile, the flag stays set in the child,
        /// which then keeps no socket.
        used: AtomicBool,
        /// The socket, its cookie, and the id of the process that made the socket.
        socket: UnsafeCell<Option<(Fd, u64, i32)>>,
    }

    // SAFETY: only the thread that has set `used` accesses the socket.
    unsafe impl Sync for Kept {}

    static KEPT: Kept = Kept { used: AtomicBool::new(false), socket: UnsafeCell::new(None) };

    /// Calls `f` with the kept socket. Returns `None` if there is none or if another thread uses it.
    pub(super) fn with<T>(f: impl FnOnce(i32) -> T) -> Option<T> {
        // SYNC: pairs with the Release store of the last user, so that user's changes are visible.
        if KEPT.used.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: this thread has set `used`, so no other thread accesses the socket.
        let socket = unsafe { &*KEPT.socket.get() };
        // Use only a socket of this process: a forked relative would read this process's answers. The cookie
        // shows whether the program has closed the socket and reused its number.
        let ours = socket
            .as_ref()
            .filter(|(fd, made, owner)| *owner == call::getpid() && cookie(fd.raw()) == Ok(*made));
        let result = ours.map(|(fd, ..)| f(fd.raw()));
        KEPT.used.store(false, Ordering::Release);
        result
    }

    /// Keeps this socket and drops the one that was kept before.
    pub(super) fn keep(socket: Fd) {
        let Ok(made) = cookie(socket.raw()) else { return };
        if !KEPT.used.swap(true, Ordering::Acquire) {
            // SAFETY: this thread has set `used`, so no other thread accesses the socket.
            let before = unsafe { (*KEPT.socket.get()).replace((socket, made, call::getpid())) };
            KEPT.used.store(false, Ordering::Release);
            // Close the old socket only if its number still names this socket.
            if let Some((fd, made, _)) = before
                && cookie(fd.raw()) != Ok(made)
            {
                core::mem::forget(fd);
            }
        }
    }
}

/// Writes the header of a request (`struct nlmsghdr`), and returns the bytes after it.
fn begin(request: &mut [u8]) -> &mut [u8] {
    let len = request.len() as u32;
    let (header, body) = request.split_at_mut(16);
    header[0..4].copy_from_slice(&len.to_ne_bytes());
    header[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    header[6..8].copy_from_slice(&1u16.to_ne_bytes()); // NLM_F_REQUEST
    body
}

fn request(local: SocketAddr, peer: SocketAddr) -> Result<[u8; REQUEST_LEN]> {
    let mut r = [0u8; REQUEST_LEN];
    let body = begin(&mut r);
    body[1] = libc::IPPROTO_TCP as u8;
    body[4..8].copy_from_slice(&u32::MAX.to_ne_bytes()); // every state
    body[8..10].copy_from_slice(&local.port().to_be_bytes());
    body[10..12].copy_from_slice(&peer.port().to_be_bytes());
    match (local.ip(), peer.ip()) {
        (IpAddr::V4(l), IpAddr::V4(p)) => {
            body[0] = libc::AF_INET as u8;
            body[12..16].copy_from_slice(&l.octets());
            body[28..32].copy_from_slice(&p.octets());
        }
        (IpAddr::V6(l), IpAddr::V6(p)) => {
            body[0] = libc::AF_INET6 as u8;
            body[12..28].copy_from_slice(&l.octets());
            body[28..44].copy_from_slice(&p.octets());
        }
        _ => return Err(Errno::EINVAL),
    }
    body[48..56].copy_from_slice(&[0xff; 8]); // INET_DIAG_NOCOOKIE
    Ok(r)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Parses an answer, and returns the owner and the socket's state. The answer is a `struct nlmsghdr` (16 bytes)
/// and a `struct inet_diag_msg`. The latter has 4 bytes that begin with family and state, then the socket's
/// identity (48 bytes, the cookie last). The fields expires, rqueue, wqueue, uid and inode follow.
fn parse(answer: &[u8]) -> Result<(Owner, u8)> {
    match u16_at(answer, 4) {
        Some(SOCK_DIAG_BY_FAMILY) => {
            let low = u32_at(answer, 16 + 4 + 40).ok_or(Errno::EBADMSG)?;
            let high = u32_at(answer, 16 + 4 + 44).ok_or(Errno::EBADMSG)?;
            let uid = u32_at(answer, 16 + 52 + 12).ok_or(Errno::EBADMSG)?;
            let inode = u32_at(answer, 16 + 52 + 16).ok_or(Errno::EBADMSG)?;
            let cookie = u64::from(low) | u64::from(high) << 32;
            let state = answer[16 + 1];
            let is_established = state == ESTABLISHED;
            Ok((Owner { uid, cookie, is_held: inode != 0, is_established }, state))
        }
        Some(NLMSG_ERROR) => {
            let code = u32_at(answer, 16).map_or(0, |v| v as i32);
            Err(Errno::new(if code < 0 { -code } else { libc::EBADMSG }))
        }
        _ => Err(Errno::EBADMSG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn the_kernel_counts_bytes_of_both_directions() {
        use std::io::{Read, Write};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 1000]).unwrap();
        server.read_exact(&mut [0; 1000]).unwrap();
        server.write_all(&[2; 70_000]).unwrap();
        client.read_exact(&mut [0; 70_000]).unwrap();
        let (local, peer) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        assert_eq!(tcp_bytes(local, peer), Ok((1000, 70_000)));
        assert_eq!(tcp_bytes(peer, local), Ok((70_000, 1000)));
        drop((client, server));
        let nobody = "127.0.0.1:1".parse().unwrap();
        assert_eq!(tcp_bytes(listener.local_addr().unwrap(), nobody), Err(Errno::ENOENT));
    }

    #[test]
    fn a_listener_at_every_address_is_found() {
        for (bound, reached) in [
            ("0.0.0.0:0", "127.0.0.1"),
            ("[::]:0", "::1"),
            ("[::]:0", "127.0.0.1"),
            ("[::]:0", "::ffff:127.0.0.1"),
        ] {
            let listener = TcpListener::bind(bound).unwrap();
            let port = listener.local_addr().unwrap().port();
            let local = SocketAddr::new(reached.parse().unwrap(), port);
            assert_eq!(is_listened_at(local), Ok(true), "{bound} at {reached}");
        }
    }

    #[test]
    fn the_other_end_of_a_unix_socket_is_named() {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let inode = |socket: &std::os::unix::net::UnixStream| call::file_id(socket.as_raw_fd());
        assert_eq!(unix_peer(one.as_raw_fd()), inode(&other).map(|(_, inode)| inode));
        assert_eq!(unix_peer(other.as_raw_fd()), inode(&one).map(|(_, inode)| inode));
        let alone = std::os::unix::net::UnixDatagram::unbound().unwrap();
        assert_eq!(unix_peer(alone.as_raw_fd()), Err(Errno::ENOTCONN));
    }

    #[test]
    fn the_mirrored_socket_is_found_and_named() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            let owner =
                tcp_owner(server.peer_addr().unwrap(), server.local_addr().unwrap()).unwrap();
            assert_eq!(owner.cookie, cookie(client.as_raw_fd()).unwrap());
            assert_eq!(owner.uid, call::geteuid());
            assert!(owner.is_held && owner.is_established);
            // The socket's bytes wait for a reader, so the socket outlives its owner's close.
            client.set_nonblocking(true).unwrap();
            while std::io::Write::write(&mut &client, &[0; 65536]).is_ok() {}
            drop(client);
            let (local, peer) = (server.peer_addr().unwrap(), server.local_addr().unwrap());
            // A child that another test has forked may have a copy of the descriptor for a moment.
            while tcp_owner(local, peer).unwrap().is_held {
                call::sched_yield();
            }
            assert!(!tcp_owner(local, peer).unwrap().is_established);
            let listening = listener.local_addr().unwrap();
            assert_eq!(is_listened_at(listening), Ok(true));
            // The listener is not an end of one of its connections.
            let nobody = SocketAddr::new(listening.ip(), 1);
            assert_eq!(tcp_owner(listening, nobody), Err(Errno::ENOENT));
            assert_eq!(is_listened_at(local), Ok(false));
            drop(listener);
            while is_listened_at(listening).unwrap() {
                call::sched_yield();
            }
            let free = SocketAddr::new(server.local_addr().unwrap().ip(), 1);
            assert_eq!(tcp_owner(free, free), Err(Errno::ENOENT));
        }
    }
}
