//! Where a stream that std made comes from.
//!
//! The two ends of a connection find each other by which connected and which accepted, and they count
//! the bytes from the first on. So a stream that was made elsewhere can be followed only if nothing
//! has moved on it yet and it is known which end it is.

use sovia_sockets::conn::Role;
use sovia_sys::diag;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Whether no byte has been sent, or taken out of the socket.
pub(crate) fn is_fresh(stream: &TcpStream) -> bool {
    // Of Linux's struct tcp_info, which only grows: libc's has an old beginning of it.
    const BYTES_RECEIVED: usize = 128;
    const DATA_SEGMENTS_OUT: usize = 156;
    let mut info = [0u8; 256];
    let mut len = info.len() as libc::socklen_t;
    let fd = stream.as_raw_fd();
    let (mut unsent, mut unread) = (0i32, 0i32);
    // SAFETY: all pointers are to live locals, and `len` is the first one's room.
    let told = unsafe {
        let told = libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut len,
        );
        told == 0
            && libc::ioctl(fd, libc::TIOCOUTQ, &raw mut unsent) == 0
            && libc::ioctl(fd, libc::FIONREAD, &raw mut unread) == 0
    };
    if !told || (len as usize) < DATA_SEGMENTS_OUT + 4 {
        return false;
    }
    let mut received = [0; 8];
    received.copy_from_slice(&info[BYTES_RECEIVED..][..8]);
    let sent = info[DATA_SEGMENTS_OUT..][..4] != [0; 4] || unsent != 0;
    !sent && u64::from_ne_bytes(received) == unread as u64
}

/// Which end a stream is: the accepted one if a socket listens where it is bound.
pub(crate) fn role(stream: &TcpStream) -> io::Result<Role> {
    let listens = diag::is_listened_at(stream.local_addr()?)
        .map_err(|error| io::Error::from_raw_os_error(error.into_raw()))?;
    Ok(if listens { Role::Acceptor } else { Role::Connector })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn ends_and_freshness_are_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        assert_eq!(role(&one).unwrap(), Role::Connector);
        assert_eq!(role(&other).unwrap(), Role::Acceptor);
        assert!(is_fresh(&one) && is_fresh(&other));
        one.write_all(b"x").unwrap();
        assert!(!is_fresh(&one));
        // Unread, it has not moved.
        assert!(is_fresh(&other));
        other.read_exact(&mut [0]).unwrap();
        assert!(!is_fresh(&other));
    }
}
