//! What the kernel says of a TCP connection.

use super::{Errno, RawFd, Result, Sysno, getsockopt};

/// Whether it is a TCP socket.
pub fn is_tcp(fd: RawFd) -> bool {
    getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Ok(libc::IPPROTO_TCP)
}

/// The state of a TCP socket, as `tcpi_state` numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpState(u8);

impl TcpState {
    /// Whether both directions are open.
    pub fn is_open(self) -> bool {
        const ESTABLISHED: u8 = 1;
        self.0 == ESTABLISHED
    }

    /// Whether the socket is connected no more: both ends have ended, or it was reset.
    pub fn is_closed(self) -> bool {
        const CLOSE: u8 = 7;
        self.0 == CLOSE
    }

    /// Whether this end has sent its FIN, or is about to.
    pub fn has_ended(self) -> bool {
        const FIN_WAIT_1: u8 = 4;
        const FIN_WAIT_2: u8 = 5;
        const TIME_WAIT: u8 = 6;
        const LAST_ACK: u8 = 9;
        const CLOSING: u8 = 11;
        self.is_closed()
            || matches!(self.0, FIN_WAIT_1 | FIN_WAIT_2 | TIME_WAIT | LAST_ACK | CLOSING)
    }

    /// Whether the peer's FIN, or a reset, has arrived.
    pub fn peer_has_ended(self) -> bool {
        const TIME_WAIT: u8 = 6;
        const CLOSE: u8 = 7;
        const CLOSE_WAIT: u8 = 8;
        const LAST_ACK: u8 = 9;
        const CLOSING: u8 = 11;
        matches!(self.0, TIME_WAIT | CLOSE | CLOSE_WAIT | LAST_ACK | CLOSING)
    }
}

/// The state of a TCP socket; `None` if it is none.
pub fn tcp_state(fd: RawFd) -> Option<TcpState> {
    getsockopt::<u8>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).ok().map(TcpState)
}

/// Bytes that a connected TCP socket has received in order so far (`tcpi_bytes_received`).
///
/// # Errors
/// `ENOTCONN` unless it is in state ESTABLISHED: a FIN would count as a byte.
pub fn tcp_bytes_received(fd: RawFd) -> Result<u64> {
    // The counter lies at byte 128 of struct tcp_info; the state is its first byte.
    let info = getsockopt::<[u64; 17]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    if info[0] & 0xff != 1 {
        return Err(Errno::ENOTCONN);
    }
    Ok(info[16])
}

/// Bytes that have been written to a connected TCP socket so far, from some beginning that is always the same:
/// those that the peer has acknowledged (`tcpi_bytes_acked`), and those on their way.
///
/// # Errors
/// What the socket's calls say; it may be none.
pub fn tcp_bytes_written(fd: RawFd) -> Result<u64> {
    // The counter lies at byte 120 of struct tcp_info.
    let acknowledged =
        || getsockopt::<[u64; 16]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).map(|info| info[15]);
    let mut before = acknowledged()?;
    loop {
        let on_their_way = bytes_in_queue(fd)?;
        // Unless some have been acknowledged meanwhile, which would have been counted twice.
        match acknowledged()? {
            now if now == before => return Ok(now + on_their_way as u64),
            now => before = now,
        }
    }
}

/// The bytes of a TCP socket that have been written and not been sent even once (`SIOCOUTQNSD`).
pub fn bytes_unsent(fd: RawFd) -> Result<usize> {
    const SIOCOUTQNSD: usize = 0x894b;
    let mut n: i32 = 0;
    sys!(ioctl, fd, SIOCOUTQNSD, &raw mut n)?;
    Ok(n.max(0) as usize)
}

/// The bytes of a TCP socket that have been written and not been acknowledged (`SIOCOUTQ`).
fn bytes_in_queue(fd: RawFd) -> Result<usize> {
    let mut n: i32 = 0;
    sys!(ioctl, fd, libc::TIOCOUTQ, &raw mut n)?;
    Ok(n.max(0) as usize)
}
