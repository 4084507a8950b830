//! Finds out which end of a connection a stream of std is.
//!
//! The two ends of a connection find each other by their roles (connector or acceptor), and count all bytes. So Sovia
//! can follow a stream made elsewhere only if its role is known and no byte has moved on it.

use sovia_sockets::conn::Role;
use sovia_sys::diag;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Returns true if no byte has been sent, and none has been read from the socket.
pub(crate) fn is_fresh(stream: &TcpStream) -> bool {
    // Offsets in Linux's struct tcp_info, to which the kernel only appends. The libc crate declares only an older
    // prefix.
    const BYTES_RECEIVED: usize = 128;
    const DATA_SEGMENTS_OUT: usize = 156;
    let mut info = [0u8; 256];
    let mut len = info.len() as libc::socklen_t;
    let fd = stream.as_raw_fd();
    let (mut unsent, mut unread) = (0i32, 0i32);
    // SAFETY: all pointers are to live locals, and `len` is the size of `info`.
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

/// Returns a stream's role: acceptor if a socket listens at the stream's local address, else connector.
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
    fn role_and_freshness_of_streams_are_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        assert_eq!(role(&one).unwrap(), Role::Connector);
        assert_eq!(role(&other).unwrap(), Role::Acceptor);
        assert!(is_fresh(&one) && is_fresh(&other));
        one.write_all(b"x").unwrap();
        assert!(!is_fresh(&one));
        // A byte that is still unread does not count as moved.
        assert!(is_fresh(&other));
        other.read_exact(&mut [0]).unwrap();
        assert!(!is_fresh(&other));
    }
}
