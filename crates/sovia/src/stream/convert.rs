//! Converts between Sovia's streams, std's streams and descriptors.

use super::TcpStream;
use crate::{engine, origin};
use std::net;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// Takes over a stream that std has made. The role of the stream is found by a search for a socket that listens at its
/// address. The stream stays on TCP if its listener is closed already, or if bytes have moved on it.
/// [`TcpStream::from_connected`] and [`TcpStream::from_accepted`] need no search.
impl From<net::TcpStream> for TcpStream {
    fn from(stream: net::TcpStream) -> TcpStream {
        let role = origin::role(&stream);
        TcpStream::take_over(stream, || role)
    }
}

impl From<OwnedFd> for TcpStream {
    fn from(fd: OwnedFd) -> TcpStream {
        net::TcpStream::from(fd).into()
    }
}

/// Moves the stream to TCP for good; see [`TcpStream::to_tcp`].
impl From<TcpStream> for net::TcpStream {
    fn from(stream: TcpStream) -> net::TcpStream {
        OwnedFd::from(stream).into()
    }
}

/// Moves the stream to TCP for good; see [`TcpStream::to_tcp`].
impl From<TcpStream> for OwnedFd {
    fn from(stream: TcpStream) -> OwnedFd {
        // The result is the same open socket under another descriptor number, which the engine does not have on record.
        let _ = stream.to_tcp();
        // SAFETY: no code uses `stream` again: it is not dropped, and its other field is taken out here.
        unsafe {
            let mut stream = std::mem::ManuallyDrop::new(stream);
            if let Some(readiness) = stream.readiness.take() {
                readiness.forget();
            }
            engine::closing(stream.fd());
            OwnedFd::from_raw_fd(stream.fd())
        }
    }
}

/// Moves the stream to TCP for good; see [`TcpStream::to_tcp`].
impl IntoRawFd for TcpStream {
    fn into_raw_fd(self) -> RawFd {
        OwnedFd::from(self).into_raw_fd()
    }
}

/// Returns the kernel socket, for options and addresses. While the stream has a VI, the socket does not carry its
/// bytes.
impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.kernel_socket.as_fd()
    }
}

/// Returns the kernel socket, for options and addresses. While the stream has a VI, the socket does not carry its
/// bytes.
impl AsRawFd for TcpStream {
    fn as_raw_fd(&self) -> RawFd {
        self.kernel_socket.as_raw_fd()
    }
}
