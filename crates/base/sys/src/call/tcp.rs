//! State and counters of a TCP connection, as the kernel reports them.

use super::{Errno, RawFd, Result, Sysno, bytes_unread, getsockopt};

/// Returns true if `fd` is a TCP socket.
pub fn is_tcp(fd: RawFd) -> bool {
    getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Ok(libc::IPPROTO_TCP)
}

/// State of a TCP socket, with the numbers of `tcpi_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpState(u8);

impl TcpState {
    /// Returns true if both directions are open.
    pub fn is_open(self) -> bool {
        const ESTABLISHED: u8 = 1;
        self.0 == ESTABLISHED
    }

    /// Returns true if the socket has been connected. False for a listening socket, or while a connect is in
    /// progress.
    fn is_connected(self) -> bool {
        const SYN_SENT: u8 = 2;
        const SYN_RECV: u8 = 3;
        const LISTEN: u8 = 10;
        const NEW_SYN_RECV: u8 = 12;
        !matches!(self.0, SYN_SENT | SYN_RECV | LISTEN | NEW_SYN_RECV)
    }

    /// Returns true if the socket is no longer connected: both ends have finished, or a reset has ended the
    /// connection.
    pub fn is_closed(self) -> bool {
        const CLOSE: u8 = 7;
        self.0 == CLOSE
    }

    /// Returns true if this end has sent its FIN or is about to send it.
    pub fn has_ended(self) -> bool {
        const FIN_WAIT_1: u8 = 4;
        const FIN_WAIT_2: u8 = 5;
        const TIME_WAIT: u8 = 6;
        const LAST_ACK: u8 = 9;
        const CLOSING: u8 = 11;
        self.is_closed()
            || matches!(self.0, FIN_WAIT_1 | FIN_WAIT_2 | TIME_WAIT | LAST_ACK | CLOSING)
    }

    /// Returns true if the peer's FIN or a reset has arrived.
    pub fn peer_has_ended(self) -> bool {
        const TIME_WAIT: u8 = 6;
        const CLOSE: u8 = 7;
        const CLOSE_WAIT: u8 = 8;
        const LAST_ACK: u8 = 9;
        const CLOSING: u8 = 11;
        matches!(self.0, TIME_WAIT | CLOSE | CLOSE_WAIT | LAST_ACK | CLOSING)
    }
}

/// Returns the state of a TCP socket; `None` for another kind of socket.
pub fn tcp_state(fd: RawFd) -> Option<TcpState> {
    getsockopt::<u8>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).ok().map(TcpState)
}

/// Returns true if a TCP socket is closed and had sent something without an answer: bytes, or keep-alive probes.
/// In this case this host's kernel may have closed the socket for the missing answer.
pub fn tcp_has_closed_unanswered(fd: RawFd) -> bool {
    // The bytes are `tcpi_state`, `tcpi_ca_state`, `tcpi_retransmits`, `tcpi_probes` and `tcpi_backoff`.
    let info = getsockopt::<[u8; 5]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO);
    info.is_ok_and(|[state, _, unanswered @ ..]| {
        TcpState(state).is_closed() && unanswered != [0; 3]
    })
}

/// Returns the number of bytes that the program has read from a connected TCP socket. Subtracts the unread bytes
/// from the bytes that have arrived in order (`tcpi_bytes_received`, which counts a FIN as one byte).
///
/// # Errors
/// `ENOTCONN` if the socket is closed or was never connected. The kernel then does not report whether a FIN has
/// arrived.
pub fn tcp_bytes_read(fd: RawFd) -> Result<u64> {
    // The counter lies at byte 128 of struct tcp_info. The state is the first byte.
    let received = || {
        let info = getsockopt::<[u64; 17]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO)?;
        let state = TcpState(info[0] as u8);
        if !state.is_connected() || state.is_closed() {
            return Err(Errno::ENOTCONN);
        }
        Ok(info[16] - u64::from(state.peer_has_ended()))
    };
    let unread = || bytes_unread(fd).map(|n| n as u64);
    settled(received, unread, u64::saturating_sub)
}

/// Returns the number of bytes written to a connected TCP socket, plus a constant for each socket. Adds the bytes
/// that the peer has acknowledged (`tcpi_bytes_acked`) and the bytes in the send queue.
///
/// # Errors
/// Those of the socket's calls. `fd` may be no TCP socket.
pub fn tcp_bytes_written(fd: RawFd) -> Result<u64> {
    // The counter lies at byte 120 of struct tcp_info.
    let acknowledged =
        || getsockopt::<[u64; 16]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).map(|info| info[15]);
    let on_their_way = || bytes_in_queue(fd).map(|n| n as u64);
    settled(acknowledged, on_their_way, u64::saturating_add)
}

/// Returns the number of bytes that the program has written to a connected TCP socket. `connects`: the socket has
/// called connect, so the acknowledged bytes include its SYN (`tcp_ack`). The counter of an accepted socket
/// begins after the SYN (`tcp_create_openreq_child`).
///
/// # Errors
/// Those of [`tcp_bytes_written`].
pub fn tcp_bytes_sent(fd: RawFd, connects: bool) -> Result<u64> {
    tcp_bytes_written(fd).map(|n| n.saturating_sub(u64::from(connects)))
}

/// Combines two counters of one socket. Bytes may move from one counter to the other between the two calls. Then
/// `first` has changed, and the function reads both again.
fn settled(
    first: impl Fn() -> Result<u64>,
    second: impl Fn() -> Result<u64>,
    together: fn(u64, u64) -> u64,
) -> Result<u64> {
    let mut before = first()?;
    loop {
        let other = second()?;
        match first()? {
            now if now == before => return Ok(together(now, other)),
            now => before = now,
        }
    }
}

/// Returns the number of bytes that were written to a TCP socket and never sent (`SIOCOUTQNSD`).
pub fn bytes_unsent(fd: RawFd) -> Result<usize> {
    const SIOCOUTQNSD: usize = 0x894b;
    let mut n: i32 = 0;
    sys!(ioctl, fd, SIOCOUTQNSD, &raw mut n)?;
    Ok(n.max(0) as usize)
}

/// Returns the number of bytes that were written to a TCP socket and not acknowledged (`SIOCOUTQ`). For a Unix
/// socket, returns the kernel memory of the messages that the other end has not received.
pub fn bytes_in_queue(fd: RawFd) -> Result<usize> {
    let mut n: i32 = 0;
    sys!(ioctl, fd, libc::TIOCOUTQ, &raw mut n)?;
    Ok(n.max(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn the_kernel_counts_what_each_end_has_written_and_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut connector = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut acceptor, _) = listener.accept().unwrap();
        let sent = |connector: &TcpStream, acceptor: &TcpStream| {
            let of = |socket: &TcpStream, connects| tcp_bytes_sent(socket.as_raw_fd(), connects);
            (of(connector, true).unwrap(), of(acceptor, false).unwrap())
        };
        assert_eq!(sent(&connector, &acceptor), (0, 0));
        connector.write_all(&[1; 5_000]).unwrap();
        acceptor.write_all(&[2; 70]).unwrap();
        assert_eq!(sent(&connector, &acceptor), (5_000, 70));
        assert_eq!(tcp_bytes_read(acceptor.as_raw_fd()), Ok(0));
        acceptor.read_exact(&mut [0; 1_200]).unwrap();
        assert_eq!(tcp_bytes_read(acceptor.as_raw_fd()), Ok(1_200));
        connector.read_exact(&mut [0; 70]).unwrap();
        assert_eq!(sent(&connector, &acceptor), (5_000, 70));
        assert_eq!(tcp_bytes_read(connector.as_raw_fd()), Ok(70));
        drop(connector);
        while !tcp_state(acceptor.as_raw_fd()).unwrap().peer_has_ended() {
            std::thread::yield_now();
        }
        assert_eq!(tcp_bytes_read(acceptor.as_raw_fd()), Ok(1_200));
        acceptor.read_exact(&mut [0; 3_800]).unwrap();
        assert_eq!(tcp_bytes_read(acceptor.as_raw_fd()), Ok(5_000));
        assert_eq!(acceptor.read(&mut [0; 1]).unwrap(), 0);
        assert_eq!(tcp_bytes_read(acceptor.as_raw_fd()), Ok(5_000));
        assert_eq!(tcp_bytes_read(listener.as_raw_fd()), Err(Errno::ENOTCONN));
    }
}
