//! Who owns the other end of a local TCP connection: `NETLINK_SOCK_DIAG`.
//!
//! The kernel is asked for the socket with the mirrored addresses. Its answer, the owner's user
//! id and the socket's cookie, is what a peer's claim is compared with before anything is
//! switched.

use crate::call::{self, Errno, Result};
use crate::fd::Fd;
use core::net::{IpAddr, SocketAddr};

/// What the kernel says of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User id of the socket's creator.
    pub uid: u32,
    /// The kernel's cookie: unique among all sockets since boot.
    pub cookie: u64,
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const REQUEST_LEN: usize = 16 + 56;

/// The cookie of a socket of our own (`SO_COOKIE`).
pub fn cookie(fd: i32) -> Result<u64> {
    call::getsockopt(fd, libc::SOL_SOCKET, libc::SO_COOKIE)
}

/// Looks up the TCP socket whose local address is `local` and whose peer is `peer`.
///
/// # Errors
/// `ENOENT` where there is none; whatever refuses netlink where it is forbidden.
pub fn tcp_owner(local: SocketAddr, peer: SocketAddr) -> Result<Owner> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    let netlink = || call::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG);
    let netlink = Fd::make(netlink)?;
    let request = request(local, peer)?;
    call::send(netlink.raw(), &request, 0)?;
    let mut answer = [0u8; 1024];
    let len = call::recv(netlink.raw(), &mut answer, 0)?;
    parse(&answer[..len.min(answer.len())])
}

fn request(local: SocketAddr, peer: SocketAddr) -> Result<[u8; REQUEST_LEN]> {
    let mut r = [0u8; REQUEST_LEN];
    r[0..4].copy_from_slice(&(REQUEST_LEN as u32).to_ne_bytes());
    r[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    r[6..8].copy_from_slice(&1u16.to_ne_bytes()); // NLM_F_REQUEST
    let body = &mut r[16..];
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

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// `struct nlmsghdr` (16 bytes), then `struct inet_diag_msg`: 4 bytes of state, the socket's
/// identity (48 bytes, the cookie last), and expires, rqueue, wqueue, uid, inode.
fn parse(answer: &[u8]) -> Result<Owner> {
    let kind = answer.get(4..6).map(|b| u16::from_ne_bytes([b[0], b[1]]));
    match kind {
        Some(SOCK_DIAG_BY_FAMILY) => {
            let low = u32_at(answer, 16 + 4 + 40).ok_or(Errno::EBADMSG)?;
            let high = u32_at(answer, 16 + 4 + 44).ok_or(Errno::EBADMSG)?;
            let uid = u32_at(answer, 16 + 52 + 12).ok_or(Errno::EBADMSG)?;
            Ok(Owner { uid, cookie: u64::from(low) | u64::from(high) << 32 })
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
    fn the_mirrored_socket_is_found_and_named() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            let owner =
                tcp_owner(server.peer_addr().unwrap(), server.local_addr().unwrap()).unwrap();
            assert_eq!(owner.cookie, cookie(client.as_raw_fd()).unwrap());
            assert_eq!(owner.uid, call::geteuid());
            let nobody = SocketAddr::new(server.local_addr().unwrap().ip(), 1);
            assert_eq!(tcp_owner(nobody, nobody), Err(Errno::ENOENT));
        }
    }
}
