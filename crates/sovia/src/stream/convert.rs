//! From std's stream and from descriptors, and back to them.

use super::TcpStream;
use crate::{engine, origin};
use std::net;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// A stream that std has made: which end it is of is found out by looking which sockets listen. One whose
/// listener is closed already, or on which bytes have moved, stays on TCP. (Where it is known,
/// [`TcpStream::from_connected`] and [`TcpStream::from_accepted`] need not look.)
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

/// Takes the stream to TCP for good, see [`TcpStream::to_tcp`].
impl From<TcpStream> for net::TcpStream {
    fn from(stream: TcpStream) -> net::TcpStream {
        OwnedFd::from(stream).into()
    }
}

/// Takes the stream to TCP for good, see [`TcpStream::to_tcp`].
impl From<TcpStream> for OwnedFd {
    fn from(stream: TcpStream) -> OwnedFd {
        // The same open socket under another number, which is not on record.
        let _ = stream.to_tcp();
        // SAFETY: it is not touched again: `stream` is not dropped, and its other field is let go.
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

/// Takes the stream to TCP for good, see [`TcpStream::to_tcp`].
impl IntoRawFd for TcpStream {
    fn into_raw_fd(self) -> RawFd {
        OwnedFd::from(self).into_raw_fd()
    }
}

/// The kernel's socket: for options and names. Its bytes are not on it while the stream has a VI.
impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.kernel_socket.as_fd()
    }
}

/// The kernel's socket: for options and names. Its bytes are not on it while the stream has a VI.
impl AsRawFd for TcpStream {
    fn as_raw_fd(&self) -> RawFd {
        self.kernel_socket.as_raw_fd()
    }
}
